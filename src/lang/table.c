/* SPDX-License-Identifier: MIT */
/* Tables at work: the line a + b t that holds from t on, and how long it holds. */
#include "lang/lang.h"
#include <math.h>

/* A solver that was sent to the first of a month arrives there up to rounding: within this many days it is there. */
static const double DAY_SLACK = 1e-6;
/* Days around 1970 that have months: 0001 to 9999 and then some. Every month is a stop of the solver, so that this
 * bounds their number. */
static const double DAY_MOST = 2932896;

bool atvi_lang_has_month(const atvi_lang *lang, double t) {
  return fabs(atvi_calendar_day(lang->calendar, t)) < DAY_MOST;
}

static void month_at(const atvi_lang *lang, const atvi_lang_table *table, double t, double *a, double *next) {
  double day = atvi_calendar_day(lang->calendar, t) + DAY_SLACK;
  *a = table->v[0];
  *next = day <= -DAY_MOST ? atvi_calendar_time(lang->calendar, 1 - DAY_MOST) : INFINITY;
  if (!(fabs(day) < DAY_MOST)) return;
  int year, month, mday;
  atvi_date_from_days((int64_t)floor(day), &year, &month, &mday);
  *a = table->v[month - 1];
  int64_t first = month == 12 ? atvi_days_from_date(year + 1, 1, 1) : atvi_days_from_date(year, month + 1, 1);
  *next = atvi_calendar_time(lang->calendar, (double)first);
}

/* Number of knots at or before t. */
static atvi_idx passed(const atvi_lang_table *table, double t) {
  atvi_idx lo = 0, hi = table->n;
  while (lo < hi) {
    atvi_idx mid = lo + (hi - lo) / 2;
    if (table->t[mid] <= t)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

void atvi_lang_table_at(const atvi_lang *lang, const atvi_lang_table *table, double t, double *a, double *b,
                        double *next) {
  *b = 0;
  if (table->kind == ATVI_TABLE_MONTH) {
    month_at(lang, table, t, a, next);
    return;
  }
  atvi_idx k = passed(table, t);
  *next = k < table->n ? table->t[k] : INFINITY;
  *a = table->v[k > 0 ? k - 1 : 0];
  if (table->kind != ATVI_TABLE_LINEAR || k == 0 || k == table->n) return;
  *b = (table->v[k] - table->v[k - 1]) / (table->t[k] - table->t[k - 1]);
  *a = table->v[k - 1] - *b * table->t[k - 1];
}
