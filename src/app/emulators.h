/* SPDX-License-Identifier: MIT */
/* What commands say about emulators, from their dossiers, and the emulators in the folder of a fit; only for
 * src/app. */
#ifndef ATVI_APP_EMULATORS_H
#define ATVI_APP_EMULATORS_H

#include "app/common.h"
#include "report/report.h"

/* Counts the points of the design in the folder `runs` (NULL: the usual one), and those without a run, good
 * or failed, into d. Leaves d unchanged if there is no design or it cannot be read. known: another emulator
 * of these runs that is already counted; NULL: none. */
void atvi_app_emulators_count_design(atvi_pool *pool, const atvi_lang *lang, const char *runs,
                                     const atvi_dossier *known, atvi_dossier *d);
/* Doubt i of d with advice for the command line. path, runs: of the model, and as given. Memory from pool. */
const char *atvi_app_emulators_doubt(atvi_pool *pool, const char *path, const char *runs,
                                     const atvi_dossier *d, int i);

/* Judges the emulators of the model and adds messages to draws of its posterior: how good each is, reasons to
 * doubt it, and how much of the posterior lies where there are no runs. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_emulators_say(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_model *opts,
                                                const atvi_loaded *l, atvi_draws *draws);

/* Fills what follows from the dossier, which is borrowed; the rest stays unknown. */
void atvi_app_emulators_report(atvi_pool *pool, const atvi_lang *lang, const char *path, const char *runs,
                               const atvi_dossier *d, atvi_report_emulator *out);
/* The same for all emulators that the model uses, with the share of draws outside their runs; returns their
 * number. */
atvi_idx atvi_app_emulators_reports(atvi_pool *pool, const atvi_app_model *opts, const atvi_loaded *l,
                                    const atvi_draws *draws, const atvi_report_emulator **out);

/* Saves the emulators of a fit in its folder for atvi predict: emulator-NAME.json. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_emulators_keep(atvi_ctx *ctx, atvi_pool *pool, const atvi_loaded *l,
                                                 const char *dir);
/* Removes those of an earlier fit. */
void atvi_app_emulators_drop(const char *dir);

#endif
