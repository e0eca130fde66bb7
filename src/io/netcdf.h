/* SPDX-License-Identifier: MIT */
/* Writing netCDF-4 files: groups of named arrays with named dimensions and attributes.
 *
 * The netCDF library is loaded when the first file is written: it loads about thirty others, which would
 * cost every start of the program 8 ms, and a machine without it can do everything else. A file is made in
 * memory and then written like any other (io/file.h), completely or not at all. The same calls give the
 * same bytes.
 *
 * Everything is defined before the first values are put: the library writes the whole file out whenever
 * definitions have been followed by values, which took minutes for a thousand variables in turns. */
#ifndef ATVI_IO_NETCDF_H
#define ATVI_IO_NETCDF_H

#include "core/core.h"

/* Whether there is a usable netCDF library. Errors: EIO (the message says what to install). */
ATVI_CHECKED atvi_status atvi_io_netcdf_available(atvi_ctx *ctx);

typedef struct atvi_netcdf atvi_netcdf;
enum { ATVI_NETCDF_ROOT = -1, ATVI_NETCDF_DIMS = 8 };

/* A file being written; other threads wait in new, because the library serves one thread at a time. Errors:
 * EIO (as above), ENOMEM. */
ATVI_CHECKED atvi_status atvi_io_netcdf_new(atvi_ctx *ctx, const char *path, atvi_netcdf **out);

/* These never fail but remember the first error, for commit. They return what other calls take. Characters
 * that netCDF does not allow in a name become '_'. After the first values a definition is an error. */
int atvi_io_netcdf_group(atvi_netcdf *f, const char *name);
int atvi_io_netcdf_dim(atvi_netcdf *f, int group, const char *name, atvi_idx n);
/* Variables. pack: compress. n_dim <= ATVI_NETCDF_DIMS. */
int atvi_io_netcdf_reals(atvi_netcdf *f, int group, const char *name, int n_dim, const int *dim, bool pack);
int atvi_io_netcdf_integers(atvi_netcdf *f, int group, const char *name, int n_dim, const int *dim);
int atvi_io_netcdf_words(atvi_netcdf *f, int group, const char *name, int n_dim, const int *dim);
/* Attributes of a variable, or with var = ATVI_NETCDF_ROOT of the group. */
void atvi_io_netcdf_note(atvi_netcdf *f, int group, int var, const char *key, const char *text);
void atvi_io_netcdf_note_reals(atvi_netcdf *f, int group, int var, const char *key, atvi_idx n,
                               const double *x);
void atvi_io_netcdf_note_integer(atvi_netcdf *f, int group, int var, const char *key, int64_t x);

/* Values of a variable: x has the product of the dimensions' lengths, the last fastest. */
void atvi_io_netcdf_put_reals(atvi_netcdf *f, int group, int var, const double *x);
void atvi_io_netcdf_put_integers(atvi_netcdf *f, int group, int var, const int64_t *x);
void atvi_io_netcdf_put_words(atvi_netcdf *f, int group, int var, const char *const *x);

/* Puts the file in its place. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_io_netcdf_commit(atvi_netcdf *f);
void atvi_io_netcdf_free(atvi_netcdf *f); /* NULL is fine; needed after commit too */

#endif
