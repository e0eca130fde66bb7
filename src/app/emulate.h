/* SPDX-License-Identifier: MIT */
/* atvi emulate: fits the emulators of a model, judges them, and keeps them for atvi fit. */
#ifndef ATVI_APP_EMULATE_H
#define ATVI_APP_EMULATE_H

#include "app/app.h"

typedef struct {
  const char *path, *folder; /* the model, and --folder; NULL: as the model says */
  const char *runs;          /* --runs; NULL: <model>-runs here */
  double test;               /* share of the runs that is held out once, to be predicted; 0: none; below 1 */
  bool refit;                /* also where there is a saved emulator of these runs */
  uint64_t seed;
  bool no_report; /* --no-report */
} atvi_app_emulate_opts;

typedef struct {
  const char *dir;  /* where it was written */
  const char *text; /* for the terminal */
  atvi_idx n_judged;
  atvi_app_mark *judged; /* [n_judged] verdicts on the emulators, and where they are in text */
  const char *json;      /* emulate.json */
  const char *report;    /* path of report.html; NULL: none was written */
  bool doubtful;         /* something about an emulator was warned of */
} atvi_app_emulate_result;

/* Errors: EINVAL (test), EMODEL (no emulator), EDATA, EIO, ENOMEM, ESTOP. */
ATVI_CHECKED atvi_status atvi_app_emulate(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_emulate_opts *opts,
                                          atvi_app_emulate_result *result);

#endif
