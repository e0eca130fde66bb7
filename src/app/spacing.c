/* SPDX-License-Identifier: MIT */
/* Times of data whose rows count since the previous row (increase): are they as regular as intended? */
#include "app/common.h"
#include "math/stat/stat.h"
#include <math.h>
#include <stdlib.h>

/* A step longer than the usual one by this factor leaves something out. Months are 28 to 31 days long: within
 * ALIKE of each other. */
static const double LONGER = 1.5, ALIKE = 0.1;
static const double MOSTLY = 0.6; /* share of steps that are alike if there is a usual one */
enum { ROWS_TOLD = 6 };

bool atvi_app_counts(const atvi_lang *lang, const atvi_lang_observe *o) {
  for (int a = 0; a < o->n_arg; a++)
    if (atvi_graph_kinds(lang->graph, o->arg[a]) >> ATVI_IN_PREV & 1) return true;
  return false;
}

void atvi_app_steps(atvi_idx n, const double *time, double *least, double *most) {
  *least = HUGE_VAL;
  *most = 0;
  for (atvi_idx r = 1; r < n; r++) {
    double step = time[r] - time[r - 1];
    if (!(step > 0)) continue; /* rows at one time count from the same one */
    *least = fmin(*least, step);
    *most = fmax(*most, step);
  }
}

/* The median of the steps if most are about that long, else NaN. */
static double usual_step(atvi_pool *pool, const atvi_lang_data *d, bool *ok) {
  double *step = atvi_pool_take(pool, (size_t)d->n_row + 1, sizeof *step);
  atvi_idx n = 0, alike = 0;
  *ok = step != NULL;
  for (atvi_idx r = 1; step && r < d->n_row; r++)
    if (d->time[r] > d->time[r - 1]) step[n++] = d->time[r] - d->time[r - 1];
  if (n < 2) return NAN;
  qsort(step, (size_t)n, sizeof *step, atvi_math_by_value);
  double usual = step[(n - 1) / 2];
  for (atvi_idx i = 0; i < n; i++) alike += fabs(step[i] - usual) <= ALIKE * usual;
  return (double)alike >= MOSTLY * (double)n ? usual : NAN;
}

/* Whether that row has an observation that counts since the previous row. */
static bool counted(const atvi_lang *lang, atvi_idx data, atvi_idx row) {
  const atvi_lang_data *d = &lang->data[data];
  for (atvi_idx o = 0; o < lang->n_observe; o++) {
    const atvi_lang_observe *obs = &lang->observe[o];
    if (obs->data == data && obs->column >= 0 && atvi_app_counts(lang, obs) &&
        !isnan(d->value[row * d->n_col + obs->column]))
      return true;
  }
  return false;
}

static atvi_status tell_gaps(atvi_pool *pool, const atvi_lang *lang, atvi_idx data, const char **note) {
  const atvi_lang_data *d = &lang->data[data];
  bool ok;
  double usual = usual_step(pool, d, &ok), step = NAN, least = HUGE_VAL, most = 0;
  atvi_idx n = 0;
  atvi_text list = {.pool = pool};
  if (!ok) return ATVI_ENOMEM;
  for (atvi_idx r = 1; r < d->n_row; r++) {
    if (d->time[r] > d->time[r - 1]) step = d->time[r] - d->time[r - 1]; /* rows at one time share it */
    if (!(step > LONGER * usual) || !counted(lang, data, r)) continue;
    if (n < ROWS_TOLD) atvi_io_text_add(&list, "%s%td", n ? ", " : "", r + 1);
    n++;
    least = fmin(least, step);
    most = fmax(most, step);
  }
  if (n == 0) return ATVI_OK;
  if (n > ROWS_TOLD) atvi_io_text_add(&list, " and %td more", n - ROWS_TOLD);
  atvi_text out = {.pool = pool};
  const char *rows;
  ATVI_TRY(atvi_io_text_get(&list, &rows));
  atvi_io_text_add(&out, "%s, row%s %s: the time since the previous row is %g", d->path, n > 1 ? "s" : "",
                   rows, least);
  if (most > least) atvi_io_text_add(&out, " to %g", most);
  atvi_io_text_add(&out,
                   ", elsewhere %g: increase() counts all of it; if rows were left out because nothing was "
                   "reported, keep them and leave the cell empty",
                   usual);
  return atvi_io_text_get(&out, note);
}

atvi_status atvi_app_gaps(atvi_pool *pool, const atvi_lang *lang, const char **note) {
  *note = NULL;
  for (atvi_idx k = 0; k < lang->n_data && !*note; k++)
    if (lang->data[k].time) ATVI_TRY(tell_gaps(pool, lang, k, note));
  return ATVI_OK;
}
