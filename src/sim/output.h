/* SPDX-License-Identifier: MIT */
/* The output of a simulator, as numbers. A run whose output cannot be used is not an error: the reason is a
 * sentence for the record. */
#ifndef ATVI_SIM_OUTPUT_H
#define ATVI_SIM_OUTPUT_H

#include "core/core.h"
#include <jansson.h>

typedef enum {
  ATVI_SIM_CSV,    /* as io/csv.h; a column by its name in the header or its position */
  ATVI_SIM_JSON,   /* an object; a key, or keys joined by dots; its value a number or a list of numbers */
  ATVI_SIM_COLUMNS /* numbers separated by blanks, comments after # ! %; by position, or by name if a line of names comes first */
} atvi_sim_format;

typedef struct {
  const char *name;
  /* File in the run's folder; NULL: standard output. */
  const char *file;
  atvi_sim_format format;
  /* NULL: the output's name, or the only column. */
  const char *column;
  /* NULL: none (for JSON "time", if both are lists). */
  const char *time;
} atvi_sim_output;

typedef struct {
  /* >= 1. */
  atvi_idx n;
  /* [n] strictly ascending; NULL: none (a scalar, or rows 1, 2, ...). */
  double *time;
  /* [n] finite. */
  double *value;
} atvi_sim_series;

/* Why a run cannot be used. */
typedef enum {
  ATVI_SIM_PROGRAM, /* it could not be started, took too long, or a worker did not answer */
  ATVI_SIM_ENDED,   /* it ended badly: the last line it wrote is its reason */
  ATVI_SIM_OUTPUT,  /* an output that cannot be read: the model's line about it may be wrong */
  ATVI_SIM_NUMBER   /* a number that is not finite, which may depend on the point */
} atvi_sim_cause;
typedef struct {
  /* NULL: it can be used. */
  const char *text;
  atvi_sim_cause cause;
} atvi_sim_reason;

/* Reads one output from text[n]; memory from pool. reason->text is NULL if it could be used, else why not,
 * and *out is then empty. The context of the pool should be one whose messages and log lines nobody reads.
 * Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_sim_output_parse(atvi_pool *pool, const atvi_sim_output *o, const char *text,
                                               size_t n, atvi_sim_series *out, atvi_sim_reason *reason);
/* Parses JSON in which NaN and Infinity, as Python writes them, become null, so that one of them does not
 * make the rest unreadable. NULL and *error: not JSON. */
json_t *atvi_sim_json_read(atvi_pool *pool, const char *text, size_t n, json_error_t *error);
/* The same from a parsed object, such as the answer of a worker. */
ATVI_CHECKED atvi_status atvi_sim_output_json(atvi_pool *pool, const atvi_sim_output *o, const json_t *root,
                                              atvi_sim_series *out, atvi_sim_reason *reason);
/* Why a series does not have the times of another, or NULL if it does. Memory from pool; a shorter reason if
 * it runs out. */
const char *atvi_sim_output_differs(atvi_pool *pool, const char *name, const atvi_sim_series *a,
                                    const atvi_sim_series *b, int64_t id_b);

#endif
