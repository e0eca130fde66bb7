/* SPDX-License-Identifier: MIT */
/* A drawing of what was asked for beside the data: bands over both, and a line where the data end. */
#include "app/predict.h"
#include "report/report.h"
#include <math.h>

static bool fill(atvi_pool *pool, const atvi_predicted *from, atvi_report_series *to, double *end) {
  size_t n = (size_t)from->n + 1;
  double *x[7];
  bool *held = atvi_pool_take(pool, n, sizeof *held), *censored = atvi_pool_take(pool, n, sizeof *censored);
  for (int k = 0; k < 7; k++) x[k] = atvi_pool_take(pool, n, sizeof **x);
  if (atvi_pool_failed(pool)) return false;
  *end = NAN;
  for (atvi_idx i = 0; i < from->n; i++) {
    const atvi_point *p = &from->point[i];
    x[0][i] = p->time;
    x[1][i] = p->value;
    x[2][i] = p->of_mean.mean;
    x[3][i] = p->of_mean.hpd95[0], x[4][i] = p->of_mean.hpd95[1];
    x[5][i] = p->of_draw.hpd95[0], x[6][i] = p->of_draw.hpd95[1];
    held[i] = p->held;
    censored[i] = !isnan(p->value) && !p->exact;
    if (!isnan(p->value)) *end = fmax(p->time, *end);
  }
  if (from->n > 0 && !(*end < from->point[from->n - 1].time)) *end = NAN; /* nothing is ahead */
  *to = (atvi_report_series){.name = from->name,
                             .kind = from->kind,
                             .n = from->n,
                             .time = x[0],
                             .value = x[1],
                             .mean = x[2],
                             .mean_low = x[3],
                             .mean_high = x[4],
                             .low = x[5],
                             .high = x[6],
                             .held = held,
                             .censored = censored};
  return true;
}

atvi_status atvi_predict_figure(atvi_pool *pool, const atvi_loaded *l, const char *dir, atvi_idx n,
                                const atvi_predicted *series) {
  const atvi_lang *lang = l->model->lang;
  atvi_report_series *list = atvi_pool_take(pool, (size_t)n + 1, sizeof *list);
  double *end = atvi_pool_take(pool, (size_t)n + 1, sizeof *end);
  atvi_idx m = 0;
  const char *name = NULL;
  for (atvi_idx k = 0; k < lang->n_data && !name; k++) name = lang->data[k].time_name;
  for (atvi_idx s = 0; list && end && s < n; s++)
    if (series[s].kind[0] == 'o' && series[s].n > 0) {
      if (!fill(pool, &series[s], &list[m], &end[m])) break;
      m++;
    }
  if (!list || !end || atvi_pool_failed(pool))
    return ATVI_FAIL(atvi_pool_ctx(pool), ATVI_ENOMEM, "out of memory");
  if (m == 0) return ATVI_OK;
  return atvi_report_save_series(pool, dir, "forecast", "Data and forecast", m, list, end, lang->calendar,
                                 name);
}
