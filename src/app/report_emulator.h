/* SPDX-License-Identifier: MIT */
/* What reports tell of emulators and the runs behind them; for src/app alone. */
#ifndef ATVI_APP_REPORT_EMULATOR_H
#define ATVI_APP_REPORT_EMULATOR_H

#include "app/emulate.h"
#include "model/emulated.h"
#include "report/report.h"

/* Fills what follows from the runs and the emulator fitted to them: shape, judgement by leaving out each run, values to show, the worst runs and, with a
 * record (folder `runs`, NULL: as atvi_sim_folder), those that failed. It points into r and pool. Errors: those of atvi_emulator_loo. */
ATVI_CHECKED atvi_status atvi_report_emulator_judge(atvi_pool *pool, const atvi_lang *lang, atvi_idx k,
                                                    const char *runs, const atvi_emulated_runs *r,
                                                    const atvi_emulator *em, atvi_report_emulator *out);

/* DIR/report.html and DIR/figures of atvi emulate. What goes wrong is a warning. *path: of the report; NULL if none is written. */
void atvi_app_report_emulate(atvi_pool *pool, const atvi_app_emulate_opts *opts, const atvi_lang *lang,
                             atvi_idx n, const atvi_report_emulator *of, const char *dir, const char **path);

#endif
