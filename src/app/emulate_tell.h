/* SPDX-License-Identifier: MIT */
/* What a fit says about the emulators that it used; for src/app alone. */
#ifndef ATVI_APP_EMULATE_TELL_H
#define ATVI_APP_EMULATE_TELL_H

#include "app/common.h"

/* Adds messages to draws of a model's posterior: how good each emulator is by leaving out its runs in turn, how many runs failed, whether they are of
 * one simulator, and how much of the posterior lies where there are no runs. runs: as of atvi_app_model. Runs that are gone meanwhile are told
 * in the log. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_emulate_tell(atvi_ctx *ctx, const atvi_loaded *l, const char *runs,
                                           atvi_draws *draws);

/* How many points of the design in the folder `runs` (NULL: the usual one) have no run among those of r, neither good nor failed; *n_point: points.
 * 0 of 0 where there is no design, or it cannot be read. */
atvi_idx atvi_emulate_missing(atvi_pool *pool, const atvi_lang *lang, const char *runs,
                              const atvi_emulated_runs *r, atvi_idx *n_point);

/* The share of the posterior outside the range of runs r of emulator k, in any input. */
double atvi_emulate_outside(const atvi_loaded *l, atvi_idx k, const atvi_emulated_runs *r, atvi_draws *draws);

/* Keeps the emulators of a fit in its folder, for atvi predict: emulator-NAME.json. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_emulate_keep(atvi_ctx *ctx, atvi_pool *pool, const atvi_loaded *l,
                                           const char *dir);
/* Removes those of an earlier fit. */
void atvi_emulate_drop(const char *dir);

#endif
