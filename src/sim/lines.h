/* SPDX-License-Identifier: MIT */
/* Reading a record line by line; for src/sim alone. */
#ifndef ATVI_SIM_LINES_H
#define ATVI_SIM_LINES_H

#include "core/core.h"
#include <jansson.h>

/* A list of numbers as it stands in the file, without its brackets. */
typedef struct {
  const char *text;
  size_t n;
} atvi_sim_list;

typedef struct {
  atvi_ctx *ctx;
  const char *path;
  int fd;            /* borrowed */
  char *buf;         /* block */
  size_t n, cap, at; /* bytes in it, its size, where the next line begins */
  bool end;          /* of the file */
  int64_t whole;     /* bytes of the file in complete lines so far */
  int line;          /* number of the last one */
  /* The last line with every list of numbers in it replaced by ["k"], k being its place in list[]: JSON of a thousand times the size would
   * be read many times slower than the numbers alone. */
  char *bare; /* block */
  size_t cap_bare;
  atvi_sim_list *list; /* block */
  size_t n_list, cap_list;
} atvi_sim_lines;

/* From the file's beginning. close gives up the buffer, whatever came before. */
ATVI_CHECKED atvi_status atvi_sim_lines_open(atvi_ctx *ctx, const char *path, int fd, atvi_sim_lines *l);
void atvi_sim_lines_close(atvi_sim_lines *l);
/* The next complete line as an object, owned by the caller; NULL at the end, where half a line may stand. Errors: EDATA, EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_sim_lines_next(atvi_sim_lines *l, json_t **out);
/* Numbers x[*n] of a list of the last line, n >= 1. Memory from pool. Errors: EDATA (it is none), ENOMEM. */
ATVI_CHECKED atvi_status atvi_sim_lines_numbers(const atvi_sim_lines *l, atvi_pool *pool, const json_t *list,
                                                atvi_idx *n, double **x);
/* EDATA for the last line. */
atvi_status atvi_sim_lines_wrong(const atvi_sim_lines *l, const char *what);

/* Room for number id in at[*n], which grows in the pool with zeros; false: out of memory. */
bool atvi_sim_ids_room(atvi_pool *pool, int64_t id, atvi_idx **at, atvi_idx *n);

#endif
