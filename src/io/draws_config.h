/* SPDX-License-Identifier: MIT */
/* The "# key = value" lines of a draws file; for draws_csv.c and draws_config.c alone, but for the table. */
#ifndef ATVI_IO_DRAWS_CONFIG_H
#define ATVI_IO_DRAWS_CONFIG_H

#include "atvi/draws.h"
#include "core/core.h"
#include "io/fields.h"
#include "io/file.h"

/* The members of atvi_made but `end`, by the names that files, summaries and bindings have for them. */
extern const atvi_fields atvi_made_fields;

typedef struct {
  const char *name;
  double lower, upper;
} atvi_draws_bounds;

typedef struct {
  atvi_made made;     /* strings from the pool */
  atvi_idx n_param;   /* -1: not said */
  atvi_idx n_chain;   /* 0: not said */
  atvi_idx per_chain; /* 0: not said */
  bool independent;
  atvi_idx n_bounds, n_message;
  atvi_draws_bounds *bounds;
  atvi_message *message;
  /* Kind of the message that follows; text NULL: none was given. */
  atvi_message next;
} atvi_draws_config;

void atvi_draws_config_write(atvi_file *f, const atvi_draws *d);
/* Reads the lines at the top of text, which is NUL-terminated. Unknown keys and lines that are no assignment are skipped.
 * Errors: EDATA (a value that makes no sense), ENOMEM. */
ATVI_CHECKED atvi_status atvi_draws_config_read(atvi_pool *pool, const char *path, const char *text,
                                                atvi_draws_config *out);

#endif
