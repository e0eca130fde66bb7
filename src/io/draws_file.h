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
 * lp__ = log prior + log likelihood; chain__ counts from 1; weight__ follows log_prior__ if draws are
 * weighted; then parameters, then derived quantities. Numbers have 17 digits: reading gives back exactly what
 * was written. */
#ifndef ATVI_IO_DRAWS_FILE_H
#define ATVI_IO_DRAWS_FILE_H

#include "atvi/draws.h"
#include "core/core.h"
#include "io/fields.h"
#include "io/file.h"

/* Writes d to path, completely or not at all, without waiting for the disk (atvi_io_file_commit_soon).
 * Errors: EIO (path and reason), ENOMEM. */
ATVI_CHECKED atvi_status atvi_io_draws_csv_write(const atvi_draws *d, const char *path);
/* Reads such a file. Also takes Stan's own: other columns whose names end in __ are skipped; by default there
 * is one chain, every column is an unbounded parameter, and log_lik__ is 0. *out is NULL on any error.
 * Errors: EIO, EDATA (path:line:column and what is wrong), ENOMEM. */
ATVI_CHECKED atvi_status atvi_io_draws_csv_read(atvi_ctx *ctx, const char *path, atvi_draws **out);

/* DRAWS in text formats of other programs. Numbers have 17 digits. draws.csv is our own, and the only one
 * that is also read. */

/* A table for spreadsheets and data frames: no comments; chain__, draw__, lp__, log_lik__, log_prior__,
 * weight__ (if weighted), then parameters and derived quantities. NaN is an empty cell. Errors: EIO,
 * ENOMEM. */
ATVI_CHECKED atvi_status atvi_io_draws_table_write(const atvi_draws *d, const char *path);

/* One chain (from 0) as CmdStan writes it for draws without adaptation (algorithm fixed_param): lp__,
 * accept_stat__, then parameters and derived quantities, arrays with the first index fastest. Readers expect
 * indices 1, 2, ... without gaps: elements of other arrays are single numbers, b.north becomes b_north.
 * Weights cannot be stored. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_io_draws_stan_write(const atvi_draws *d, atvi_idx chain, const char *path);

/* Draws as in posteriordb: a list of chains, each an object of a list per quantity, "beta[2]": [...]; with
 * weight__ if weighted. NaN and infinities are null. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_io_draws_json_write(const atvi_draws *d, const char *path);

/* The members of atvi_made except `end`, and the numbers of a step, by their names in files, summaries and
 * bindings. */
extern const atvi_fields atvi_io_made_fields, atvi_io_step_fields;

/* What DRAWS has besides its draws, as files in the folder of a fit and back:
 *
 *   DIR/groups/NAME.npy     the values of a group, float64 [n_value][n_draw], in NumPy's own format
 *   DIR/groups/groups.json  series, priors, failed points, what is known of the model, numbers of draws
 *   DIR/history.csv         the steps that the fit reported
 *
 * Reading gives back exactly what was written. */

/* Not yet on the disk: atvi_io_dir_sync of both folders waits for that. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_io_groups_write(const atvi_draws *d, const char *dir);
/* Fills d, whose draws are those of DIR/draws.csv. On failure d has no groups, series or history. Errors: EIO
 * (a file cannot be read), EDATA (a file is damaged, or belongs to other draws), ENOMEM. */
ATVI_CHECKED atvi_status atvi_io_groups_read(atvi_draws *d, const char *dir);
/* Fills the priors of d alone, whose parameters are those of the fit in dir; none where they are not kept, or
 * cannot be read. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_io_groups_priors(atvi_draws *d, const char *dir);
/* Whether dir has groups. */
bool atvi_io_groups_there(const char *dir);
/* Removes these files, and the folder if it is then empty. */
void atvi_io_groups_drop(const char *dir);

#endif
