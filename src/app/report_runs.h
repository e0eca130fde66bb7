/* SPDX-License-Identifier: MIT */
/* Runs of a simulator as a report tells of them; for src/app alone. */
#ifndef ATVI_APP_REPORT_RUNS_H
#define ATVI_APP_REPORT_RUNS_H

#include "report/report.h"

enum { ATVI_TOLD_RUNS = 20 };

typedef struct {
  atvi_idx n_good;
  const int64_t *good; /* [n_good] ids of those that did not fail, ascending */
  atvi_idx n_bad;
  atvi_report_run bad[ATVI_TOLD_RUNS]; /* those that failed and were not done again, the first of them */
  double seconds;                      /* of all attempts that were recorded; NaN: there is no record */
} atvi_told_runs;

/* From the first `lines` lines (0: all) of the record in folder. What is not there, or not a record, is left out: it was read before. Memory from
 * pool. */
void atvi_told_runs_read(atvi_pool *pool, const char *folder, atvi_idx lines, atvi_idx d,
                         const char *const *input, atvi_told_runs *out);

#endif
