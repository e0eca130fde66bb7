/* SPDX-License-Identifier: MIT */
/* Reports of atvi compare and atvi study, from what they found. */
#include "app/report.h"
#include "report/report.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { QUANTITIES = 40 };

static void done(atvi_ctx *ctx, atvi_status status) {
  if (status != ATVI_OK)
    atvi_log(ctx, ATVI_LOG_WARN, "the report could not be written: %s", atvi_errmsg(ctx));
}

static const char *number(atvi_pool *pool, double x, int digits) {
  char text[ATVI_TICK_LABEL];
  atvi_write_number(text, x, digits);
  const char *copy = atvi_pool_strndup(pool, text, strlen(text));
  return copy ? copy : "";
}

/* ---- compare ---- */

static const char *verdict_of(const atvi_compared *m) {
  return m->summary ? atvi_verdict_name(m->summary->verdict) : m->state;
}

static atvi_report_table methods_table(atvi_pool *pool, const atvi_comparison *c) {
  static const char *const column[] = {"method",    "verdict",       "seconds", "model runs",
                                       "least ESS", "largest R-hat", "k-hat",   "log evidence"};
  enum { N = 8 };
  const char **cell = atvi_pool_take(pool, (size_t)(c->n * N) + 1, sizeof *cell);
  const char **link = atvi_pool_take(pool, (size_t)c->n + 1, sizeof *link);
  atvi_idx n_link = 0;
  for (atvi_idx i = 0; cell && link && i < c->n; i++) {
    const atvi_compared *m = &c->of[i];
    n_link += m->summary != NULL;
    link[i] = m->summary ? atvi_pool_printf(pool, "%s/report.html", m->method) : NULL;
    const atvi_made *made = m->summary ? &m->summary->made : NULL;
    const char **row = cell + i * N;
    row[0] = m->method;
    row[1] = verdict_of(m);
    row[2] = number(pool, made ? made->seconds : NAN, 3);
    row[3] = made ? atvi_pool_printf(pool, "%" PRId64, made->evaluations) : "";
    row[4] = isfinite(m->fit.ess) ? atvi_pool_printf(pool, "%.0f", m->fit.ess) : "";
    row[5] = number(pool, m->fit.rhat, 4);
    row[6] = number(pool, made ? made->khat : NAN, 2);
    row[7] = number(pool, atvi_compared_evidence(m), 6);
  }
  const char *caption = n_link == c->n ? "Each has a report of its own"
                        : n_link > 0   ? "Those that gave draws have reports of their own"
                                       : "None gave draws";
  return (atvi_report_table){caption, N, column, cell ? c->n : 0, cell, link};
}

/* Quantities of the reference, or of the first method that has any. */
static const atvi_summary *quantities(const atvi_comparison *c) {
  if (c->reference >= 0) return c->of[c->reference].summary;
  for (atvi_idx i = 0; i < c->n; i++)
    if (c->of[i].summary) return c->of[i].summary;
  return NULL;
}

static atvi_idx count(const atvi_summary *s) { return s->n_col < QUANTITIES ? s->n_col : QUANTITIES; }

/* Why methods failed, or why their verdict is not ok. */
static const char **reasons(atvi_pool *pool, const atvi_comparison *c, atvi_idx *n) {
  const char **line = atvi_pool_take(pool, (size_t)c->n + 1, sizeof *line);
  *n = 0;
  for (atvi_idx i = 0; line && i < c->n; i++)
    if (c->of[i].reason) line[(*n)++] = atvi_pool_printf(pool, "%s: %s", c->of[i].method, c->of[i].reason);
  return line;
}

static const char **names_of(atvi_pool *pool, const atvi_summary *s) {
  const char **name = atvi_pool_take(pool, (size_t)count(s) + 1, sizeof *name);
  for (atvi_idx k = 0; name && k < count(s); k++) name[k] = s->col[k].name;
  return name;
}

/* Posterior means, in sds of the reference's and less its mean; error bars of one sd. */
static const atvi_canvas *draw_means(atvi_pool *pool, const atvi_comparison *c, const atvi_summary *ref,
                                     const char *const *name, double width) {
  atvi_idx n = count(ref), m = 0;
  atvi_dots *of = atvi_pool_take(pool, (size_t)c->n + 1, sizeof *of);
  for (atvi_idx i = 0; of && i < c->n; i++) {
    double *v = atvi_pool_take(pool, 2 * (size_t)n + 1, sizeof *v), *e = v ? v + n : NULL;
    const atvi_summary *s = c->of[i].summary;
    if (!s || !v || s->n_col != ref->n_col) continue;
    for (atvi_idx k = 0; k < n; k++) {
      v[k] = (s->col[k].mean - ref->col[k].mean) / ref->col[k].sd;
      e[k] = s->col[k].sd / ref->col[k].sd;
    }
    of[m++] = (atvi_dots){c->of[i].method, v, e};
  }
  return atvi_figure_dots(pool, &(atvi_dot_plot){.n_row = n,
                                                 .row = name,
                                                 .n = m,
                                                 .of = of,
                                                 .title = "Posterior mean \xc2\xb1 sd",
                                                 .axis = "in sds of the reference, from its mean",
                                                 .mark = 0,
                                                 .ends = {NAN, NAN},
                                                 .width = width});
}

static const atvi_canvas *draw_distances(atvi_pool *pool, const atvi_comparison *c, atvi_idx n,
                                         const char *const *name, double width) {
  atvi_idx m = 0;
  atvi_dots *of = atvi_pool_take(pool, (size_t)c->n + 1, sizeof *of);
  for (atvi_idx i = 0; of && i < c->n; i++)
    if (i != c->reference && c->of[i].distance)
      of[m++] = (atvi_dots){c->of[i].method, c->of[i].distance, NULL};
  return atvi_figure_dots(pool, &(atvi_dot_plot){.n_row = n,
                                                 .row = name,
                                                 .n = m,
                                                 .of = of,
                                                 .title = "Distance from the reference",
                                                 .axis = "Wasserstein-1, in sds of the reference",
                                                 .mark = NAN,
                                                 .ends = {0, NAN},
                                                 .width = width});
}

static atvi_report_table distance_table(atvi_pool *pool, const atvi_comparison *c, atvi_idx n,
                                        const char *const *name) {
  const char **column = atvi_pool_take(pool, (size_t)c->n + 1, sizeof *column);
  const char **cell = atvi_pool_take(pool, (size_t)(n * (c->n + 1)) + 1, sizeof *cell);
  int m = 1;
  if (!column || !cell) return (atvi_report_table){"", 0, NULL, 0, NULL, NULL};
  column[0] = "quantity";
  for (atvi_idx i = 0; i < c->n; i++)
    if (i != c->reference && c->of[i].distance) column[m++] = c->of[i].method;
  for (atvi_idx k = 0; k < n; k++) {
    int at = 1;
    cell[k * m] = name[k];
    for (atvi_idx i = 0; i < c->n; i++)
      if (i != c->reference && c->of[i].distance) {
        double d = c->of[i].distance[k], chance = c->of[i].chance ? c->of[i].chance[k] : NAN;
        const char *text = number(pool, d, 2);
        cell[k * m + at++] = d > ATVI_COMPARE_BEYOND * chance ? atvi_pool_printf(pool, "%s *", text) : text;
      }
  }
  return (atvi_report_table){"Distances; * where chance does not explain them", m, column, n, cell, NULL};
}

static atvi_status write_compare(atvi_pool *pool, const atvi_comparison *c, const char *dir) {
  const atvi_summary *ref = quantities(c);
  atvi_idx n = ref ? count(ref) : 0, good = 0;
  const char **name = ref ? names_of(pool, ref) : NULL;
  for (atvi_idx i = 0; i < c->n; i++)
    good += c->of[i].summary && c->of[i].summary->verdict == ATVI_VERDICT_OK;
  const char *say = atvi_pool_printf(pool, "%td of %td methods gave draws that can be used.", good, c->n);
  const char *sub = atvi_pool_printf(pool, "methods compared, seed %" PRIu64, c->seed);
  const char *why = c->reference >= 0
                        ? atvi_pool_printf(pool, "The reference is '%s': %s.", c->of[c->reference].method,
                                           c->because ? c->because : "")
                        : "There is nothing to measure distances from.";
  if (!say || !sub || !why || (ref && !name))
    return ATVI_FAIL(atvi_pool_ctx(pool), ATVI_ENOMEM, "out of memory");
  atvi_report_table methods = methods_table(pool, c);
  atvi_idx n_reason;
  const char **reason = reasons(pool, c, &n_reason);
  if (atvi_pool_failed(pool)) return ATVI_FAIL(atvi_pool_ctx(pool), ATVI_ENOMEM, "out of memory");
  bool apart = ref && c->reference >= 0;
  atvi_report_table distances = apart ? distance_table(pool, c, n, name) : (atvi_report_table){0};
  const atvi_report_figure figure[] = {
      {"means", "Posterior means and standard deviations by each method, relative to the reference.",
       ref ? draw_means(pool, c, ref, name, 0) : NULL,
       ref ? draw_means(pool, c, ref, name, ATVI_DOTS_NARROW) : NULL},
      {"distances", "Distance of each method's marginal distributions from the reference.",
       apart ? draw_distances(pool, c, n, name, 0) : NULL,
       apart ? draw_distances(pool, c, n, name, ATVI_DOTS_NARROW) : NULL}};
  const atvi_report_part part[] = {{"methods", "Methods", n_reason, reason, 0, NULL, 1, &methods},
                                   {"posteriors", "Posteriors", 1, &why, ref ? 1 : 0, &figure[0], 0, NULL},
                                   {"distances", "Distances", 0, NULL, 1, &figure[1], 1, &distances}};
  atvi_report_short page = {c->model, sub,           good == c->n ? "ok" : good > 0 ? "warn" : "bad",
                            say,      apart ? 3 : 2, part};
  return atvi_report_short_save(pool, &page, dir);
}

void atvi_app_report_compare(atvi_ctx *ctx, atvi_pool *pool, const atvi_comparison *c, const char *dir) {
  done(ctx, write_compare(pool, c, dir));
}

/* ---- study ---- */

static const char *average(atvi_pool *pool, atvi_average a, int digits) {
  if (a.n == 0 || isnan(a.value)) return "";
  const char *text = isfinite(a.error) ? atvi_pool_printf(pool, "%s (%s)", number(pool, a.value, digits),
                                                          number(pool, a.error, 2))
                                       : number(pool, a.value, digits);
  return text ? text : "";
}

static const atvi_canvas *draw_coverage(atvi_pool *pool, const atvi_study *s, atvi_idx n,
                                        const char *const *name, double width) {
  atvi_dots *of = atvi_pool_take(pool, (size_t)s->n_method + 1, sizeof *of);
  for (atvi_idx i = 0; of && i < s->n_method; i++) {
    double *v = atvi_pool_take(pool, 2 * (size_t)n + 1, sizeof *v), *e = v ? v + n : NULL;
    for (atvi_idx k = 0; v && k < n; k++) {
      v[k] = s->method[i].line[k].coverage.value;
      e[k] = 2 * s->method[i].line[k].coverage.error;
    }
    of[i] = (atvi_dots){s->method[i].name, v, e};
  }
  if (atvi_pool_failed(pool)) return NULL;
  return atvi_figure_dots(
      pool, &(atvi_dot_plot){.n_row = n,
                             .row = name,
                             .n = s->n_method,
                             .of = of,
                             .title = "Coverage of 95 % intervals",
                             .axis = "share of replicates that hold the truth; bars: 2 standard errors",
                             .mark = 0.95,
                             .ends = {NAN, 1},
                             .width = width});
}

static atvi_report_table study_methods(atvi_pool *pool, const atvi_study *s) {
  static const char *const column[] = {"method", "replicates",       "failed", "ok",   "warn",
                                       "bad",    "coverage of data", "AIL",    "MSPE", "seconds"};
  enum { N = 10 };
  const char **cell = atvi_pool_take(pool, (size_t)(s->n_method * N) + 1, sizeof *cell);
  for (atvi_idx i = 0; cell && i < s->n_method; i++) {
    const atvi_study_method *m = &s->method[i];
    const char **row = cell + i * N;
    row[0] = m->name;
    row[1] = atvi_pool_printf(pool, "%td", m->tally.n_done);
    row[2] = atvi_pool_printf(pool, "%td", m->tally.n_failed);
    for (int k = 0; k < 3; k++) row[3 + k] = atvi_pool_printf(pool, "%td", m->tally.n_verdict[k]);
    row[6] = average(pool, m->coverage, 3);
    row[7] = average(pool, m->ail, 4);
    row[8] = average(pool, m->mspe, 4);
    row[9] = average(pool, m->seconds, 3);
  }
  return (atvi_report_table){"Methods; in brackets the standard error over replicates",
                             N,
                             column,
                             cell ? s->n_method : 0,
                             cell,
                             NULL};
}

static atvi_report_table study_quantities(atvi_pool *pool, const atvi_study *s, atvi_idx k) {
  static const char *const column[] = {"quantity", "truth",         "coverage",
                                       "mode",     "squared error", "length of the interval"};
  enum { N = 6 };
  const char **cell = atvi_pool_take(pool, (size_t)(s->n_quantity * N) + 1, sizeof *cell);
  for (atvi_idx i = 0; cell && i < s->n_quantity; i++) {
    const atvi_study_line *l = &s->method[k].line[i];
    const char **row = cell + i * N;
    row[0] = s->quantity[i].name;
    row[1] = isnan(s->quantity[i].truth) ? "" : number(pool, s->quantity[i].truth, 4);
    row[2] = average(pool, l->coverage, 3);
    row[3] = average(pool, l->mode, 4);
    row[4] = average(pool, l->mse, 3);
    row[5] = average(pool, l->length, 4);
  }
  return (atvi_report_table){s->method[k].name, N, column, cell ? s->n_quantity : 0, cell, NULL};
}

static atvi_status write_study(atvi_pool *pool, const atvi_study *s, const char *dir) {
  atvi_idx n = s->n_quantity < QUANTITIES ? s->n_quantity : QUANTITIES, failed = 0, ended = 0;
  const char **name = atvi_pool_take(pool, (size_t)n + 1, sizeof *name);
  atvi_report_table *each = atvi_pool_take(pool, (size_t)s->n_method + 1, sizeof *each);
  if (!name || !each) return ATVI_FAIL(atvi_pool_ctx(pool), ATVI_ENOMEM, "out of memory");
  for (atvi_idx k = 0; k < n; k++) name[k] = s->quantity[k].name;
  for (atvi_idx k = 0; k < s->n_method; k++) {
    each[k] = study_quantities(pool, s, k);
    failed += s->method[k].tally.n_failed;
    ended += s->method[k].tally.n_done;
  }
  const char *say = atvi_pool_printf(pool, "%td fits to data simulated from a known truth; %td failed.",
                                     ended + failed, failed);
  const char *sub =
      atvi_pool_printf(pool, "study of %td replicates, first seed %" PRIu64, s->replicates, s->seed);
  const char *what =
      "How often the 95 % interval of a parameter holds its true value: 0.95 if intervals are right.";
  atvi_report_table methods = study_methods(pool, s);
  if (!say || !sub || atvi_pool_failed(pool))
    return ATVI_FAIL(atvi_pool_ctx(pool), ATVI_ENOMEM, "out of memory");
  const atvi_report_figure figure = {
      "coverage", "Coverage of the truth by 95 % intervals with error bars, for each quantity and method.",
      draw_coverage(pool, s, n, name, 0), draw_coverage(pool, s, n, name, ATVI_DOTS_NARROW)};
  const atvi_report_part part[] = {{"coverage", "Coverage", 1, &what, n > 0 ? 1 : 0, &figure, 0, NULL},
                                   {"methods", "Methods", 0, NULL, 0, NULL, 1, &methods},
                                   {"quantities", "Quantities", 0, NULL, 0, NULL, s->n_method, each},
                                   {"failures", "Failures", s->failures.n, s->failures.of, 0, NULL, 0, NULL}};
  atvi_report_short page = {s->model, sub, failed ? "warn" : "ok", say, s->failures.n ? 4 : 3, part};
  return atvi_report_short_save(pool, &page, dir);
}

void atvi_app_report_study(atvi_ctx *ctx, atvi_pool *pool, const atvi_study *s, const char *dir) {
  done(ctx, write_study(pool, s, dir));
}
