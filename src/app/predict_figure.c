/* SPDX-License-Identifier: MIT */
/* A drawing of what was asked for beside the data: bands over both, and a line where the data end. */
#include "app/predict.h"
#include "report/report.h"
#include <math.h>

/* Where the data end; NaN: nothing is ahead. */
static double end_of(const atvi_predicted *s) {
  double end = NAN;
  for (atvi_idx i = 0; i < s->n; i++)
    if (!isnan(s->point[i].value)) end = fmax(s->point[i].time, end);
  return s->n > 0 && end < s->point[s->n - 1].time ? end : NAN;
}

atvi_status atvi_predict_figure(atvi_pool *pool, const atvi_loaded *l, const char *dir, atvi_idx n,
                                const atvi_predicted *series) {
  const atvi_lang *lang = l->model->lang;
  atvi_predicted *list = atvi_pool_take(pool, (size_t)n + 1, sizeof *list);
  double *end = atvi_pool_take(pool, (size_t)n + 1, sizeof *end);
  atvi_idx m = 0;
  const char *name = NULL;
  for (atvi_idx k = 0; k < lang->n_data && !name; k++) name = lang->data[k].time_name;
  for (atvi_idx s = 0; list && end && s < n; s++)
    if (series[s].kind == ATVI_SERIES_OBSERVED && series[s].n > 0)
      list[m] = series[s], end[m++] = end_of(&series[s]);
  if (!list || !end) return ATVI_FAIL(atvi_pool_ctx(pool), ATVI_ENOMEM, "out of memory");
  if (m == 0) return ATVI_OK;
  return atvi_report_save_series(pool, dir, "forecast", "Data and forecast", m, list, end, lang->calendar,
                                 name);
}
