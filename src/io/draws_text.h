/* SPDX-License-Identifier: MIT */
/* DRAWS in the text formats of others. Numbers have 17 digits. io/draws_csv.h is our own, and the only one that is also read. */
#ifndef ATVI_IO_DRAWS_TEXT_H
#define ATVI_IO_DRAWS_TEXT_H

#include "atvi/draws.h"
#include "core/core.h"

/* A table for spreadsheets and data frames: no comments; chain__, draw__, lp__, log_lik__, log_prior__, weight__ (if weighted), then
 * parameters and derived quantities. A number that is NaN is an empty cell. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_draws_table_write(const atvi_draws *d, const char *path);

/* One chain (from 0) as CmdStan writes it for draws that no adaptation made (algorithm fixed_param): lp__, accept_stat__, then parameters
 * and derived quantities, of arrays the first index fastest. Its readers expect indices 1, 2, ... without a gap: elements of other arrays are single numbers, b.north
 * becomes b_north. Weights cannot be told. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_draws_stan_write(const atvi_draws *d, atvi_idx chain, const char *path);

/* As posteriordb has draws: a list of chains, each an object of a list per quantity, "beta[2]": [...]; with weight__ if weighted. NaN and
 * infinite are null. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_draws_json_write(const atvi_draws *d, const char *path);

#endif
