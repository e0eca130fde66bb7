/* SPDX-License-Identifier: MIT */
/* What DRAWS has besides its draws, as files in the folder of a fit and back:
 *
 *   DIR/groups/NAME.npy     the values of a group, float64 [n_value][n_draw], in NumPy's own format
 *   DIR/groups/groups.json  series, priors, failed points, what is known of the model, numbers of draws
 *   DIR/history.csv         the steps that the fit reported
 *
 * Reading gives back exactly what was written. */
#ifndef ATVI_IO_GROUPS_H
#define ATVI_IO_GROUPS_H

#include "atvi/draws.h"
#include "core/core.h"

/* Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_io_groups_write(const atvi_draws *d, const char *dir);
/* Fills d, whose draws are those of DIR/draws.csv. On failure d has no groups, series or history. Errors: EIO
 * (a file cannot be read), EDATA (a file is damaged, or belongs to other draws), ENOMEM. */
ATVI_CHECKED atvi_status atvi_io_groups_read(atvi_draws *d, const char *dir);
/* Whether dir has groups. */
bool atvi_io_groups_there(const char *dir);
/* Removes these files, and the folder if it is then empty. */
void atvi_io_groups_drop(const char *dir);

#endif
