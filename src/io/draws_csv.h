/* SPDX-License-Identifier: MIT */
/* DRAWS as a Stan CSV file and back.
 *
 *   # method = ram                     how the draws were made, one "# key = value" per line: everything of atvi_made,
 *   # chains = 4                       the shape, the bounds of parameters and the messages
 *   # bounds.beta.1 = 0 3
 *   # message_kind = warning rhat    severity and code of the message that follows; older files have no such line, and
 *   # message = The chains ...       "Warning: " before the text of a warning
 *   lp__,log_lik__,chain__,log_prior__,beta.1,R0
 *   -61.25,-58.125,1,-3.125,0.75,2.25
 *
 * lp__ = log prior + log likelihood; chain__ counts from 1; weight__ follows log_prior__ if draws are weighted; then
 * parameters, then derived quantities. Numbers have 17 digits: reading gives back exactly what was written. */
#ifndef ATVI_IO_DRAWS_CSV_H
#define ATVI_IO_DRAWS_CSV_H

#include "atvi/draws.h"

/* Writes d to path, completely or not at all. Errors: EIO (path and reason), ENOMEM. */
ATVI_CHECKED atvi_status atvi_draws_csv_write(const atvi_draws *d, const char *path);
/* Reads such a file. Also takes Stan's own: further columns whose names end in __ are skipped, and where nothing is said there is
 * one chain, every column is an unbounded parameter, and log_lik__ is 0. *out is NULL on any error.
 * Errors: EIO, EDATA (path:line:column and what is wrong), ENOMEM. */
ATVI_CHECKED atvi_status atvi_draws_csv_read(atvi_ctx *ctx, const char *path, atvi_draws **out);

#endif
