/* SPDX-License-Identifier: MIT */
/* Names such as beta.1, beta.2, ... or b.north, b.south as one array, for formats that have arrays. */
#ifndef ATVI_IO_ARRAYS_H
#define ATVI_IO_ARRAYS_H

#include "core/core.h"

enum { ATVI_ARRAY_DIMS = 4 };

typedef struct {
  /* "beta". */
  const char *name;
  /* Its elements: names first .. first + n - 1, the last index fastest. */
  atvi_idx first, n;
  /* 0: a single number. */
  int n_dim;
  atvi_idx size[ATVI_ARRAY_DIMS]; /* [n_dim] */
  /* [n_dim][size] the indices: 1, 2, ...; for words their positions. */
  int64_t *label[ATVI_ARRAY_DIMS];
  /* [n_dim][size] indices that are words: north, south; NULL: numbers. */
  const char **word[ATVI_ARRAY_DIMS];
} atvi_array;

/* Every name belongs to one array. Neighbours with the same base are one if their indices fill a grid in
 * order; other names, and indices beyond ATVI_ARRAY_DIMS, stay single, with their whole name. kin (NULL: all
 * are): only names of the same kin are joined. Memory from pool. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_io_arrays_find(atvi_pool *pool, atvi_idx n, const char *const *name,
                                             const atvi_idx *kin, atvi_idx *n_array, atvi_array **out);

/* "beta.2.3" as "beta[2,3]", "b.north" as "b[north]", as Stan and posteriordb write it; other names
 * unchanged. Memory from pool; NULL: out of memory. */
const char *atvi_io_array_bracket(atvi_pool *pool, const char *name);

enum { ATVI_ARRAY_NAME = 128 }; /* bytes with the zero; no parameter has a longer name */
/* The way back, for names in fields {name} of commands and templates: text[n] is theta[1,2], out theta.1.2;
 * blanks around it are ignored. Text of another form is copied unchanged; with brackets or commas it names
 * nothing. False if it is too long. */
bool atvi_io_array_dots(const char *text, size_t n, char out[ATVI_ARRAY_NAME]);

#endif
