/* SPDX-License-Identifier: MIT */
/* A drawing of what was asked for beside the data: bands over both, and a line where the data end. */
#include "app/predict.h"
#include "report/report.h"

atvi_status atvi_predict_figure(atvi_pool *pool, const atvi_loaded *l, const char *dir, atvi_idx n,
                                const atvi_predicted *series) {
  const atvi_lang *lang = l->model->lang;
  atvi_predicted *list = atvi_pool_take(pool, (size_t)n + 1, sizeof *list);
  atvi_idx m = 0;
  const char *name = NULL;
  for (atvi_idx k = 0; k < lang->n_data && !name; k++) name = lang->data[k].time_name;
  for (atvi_idx s = 0; list && s < n; s++)
    if (series[s].kind == ATVI_SERIES_OBSERVED && series[s].n > 0) list[m++] = series[s];
  if (!list) return ATVI_FAIL(atvi_pool_ctx(pool), ATVI_ENOMEM, "out of memory");
  if (m == 0) return ATVI_OK;
  return atvi_report_save_forecast(pool, dir, m, list, lang->calendar, name);
}
