/* SPDX-License-Identifier: MIT */
/* Reports of atvi compare, of methods and of models, and of atvi study, from their results. */
#include "app/report.h"
#include "io/file.h"
#include "report/report.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { QUANTITIES = 40 };

static void done(atvi_ctx *ctx, atvi_status status) {
  if (status != ATVI_OK)
    atvi_log(ctx, ATVI_LOG_LOST, "the report could not be written: %s", atvi_errmsg(ctx));
}

static const char *number(atvi_pool *pool, double x, int digits) {
  char text[ATVI_TICK_LABEL];
  atvi_report_write_number(text, x, digits);
  const char *copy = atvi_pool_strndup(pool, text, strlen(text));
  return copy ? copy : "";
}

/* ---- compare, of methods ---- */

static const char *verdict_of(const atvi_compared *m) {
  return m->summary ? atvi_verdict_name(m->summary->verdict) : atvi_app_compared_word(m);
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
    row[7] = number(pool, atvi_app_compared_evidence(m), 6);
  }
  const char *caption = n_link == c->n ? "Each has its own report"
                        : n_link > 0   ? "Methods that gave draws have their own reports"
                                       : "None gave draws";
  return (atvi_report_table){caption, N, column, cell ? c->n : 0, cell, link};
}

/* Quantities of the reference, or of the first method with draws. */
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

/* Posterior means minus that of the reference, in its sds, with error bars of one sd. */
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
    of[m++] = (atvi_dots){.name = c->of[i].method, .value = v, .error = e};
  }
  return atvi_report_figure_dots(pool, &(atvi_dot_plot){.n_row = n,
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
      of[m++] = (atvi_dots){.name = c->of[i].method, .value = c->of[i].distance};
  return atvi_report_figure_dots(pool, &(atvi_dot_plot){.n_row = n,
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
  return (atvi_report_table){
      "Distances; * marks those that chance does not explain", m, column, n, cell, NULL};
}

static atvi_status write_compare(atvi_pool *pool, const atvi_comparison *c, const char *dir) {
  const atvi_summary *ref = quantities(c);
  atvi_idx n = ref ? count(ref) : 0, good = 0;
  const char **name = ref ? names_of(pool, ref) : NULL;
  for (atvi_idx i = 0; i < c->n; i++)
    good += c->of[i].summary && c->of[i].summary->verdict == ATVI_VERDICT_OK;
  const char *say = atvi_pool_printf(pool, "%td of %td methods gave usable draws.", good, c->n);
  const char *sub = atvi_pool_printf(pool, "methods compared, seed %" PRIu64, c->seed);
  const char *why = c->reference >= 0
                        ? atvi_pool_printf(pool, "The reference is '%s': %s.", c->of[c->reference].method,
                                           c->because ? c->because : "")
                        : "There is no reference to measure distances from.";
  if (!say || !sub || !why || (ref && !name)) return ATVI_ENOMEM;
  atvi_report_table methods = methods_table(pool, c);
  atvi_idx n_reason;
  const char **reason = reasons(pool, c, &n_reason);
  if (atvi_pool_failed(pool)) return ATVI_ENOMEM;
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

/* ---- compare, of models ---- */

static const char *plus_minus(atvi_pool *pool, double x, double error) {
  if (isnan(x)) return "";
  const char *text = !isfinite(error) ? atvi_pool_printf(pool, "%.2f", x)
                     : error < 0.095  ? atvi_pool_printf(pool, "%.2f \xc2\xb1 %.1g", x, error)
                                      : atvi_pool_printf(pool, "%.2f \xc2\xb1 %.2f", x, error);
  return text ? text : "";
}

static const char *fixed(atvi_pool *pool, double x, int digits) {
  if (fabs(x) < 0.5 * pow(10, -digits)) x = 0; /* no -0.00 */
  const char *text = isnan(x) ? "" : atvi_pool_printf(pool, "%.*f", digits, x);
  return text ? text : "";
}

static atvi_report_table fits_table(atvi_pool *pool, const atvi_candidates *c, const char *dir) {
  static const char *const column[] = {"fit", "verdict", "model", "method", "observations"};
  enum { N = 5 };
  const char **cell = atvi_pool_take(pool, (size_t)(c->n * N) + 1, sizeof *cell);
  const char **link = atvi_pool_take(pool, (size_t)c->n + 1, sizeof *link);
  for (atvi_idx k = 0; cell && link && k < c->n; k++) {
    const atvi_candidate *m = &c->of[k];
    const char *const row[N] = {m->name, m->verdict, m->model, m->method,
                                atvi_pool_printf(pool, "%td", m->n_value)};
    memcpy(cell + k * N, row, sizeof row);
    const char *path = atvi_io_path_between(pool, dir, m->dir);
    link[k] = path ? atvi_pool_printf(pool, "%s/report.html", path) : NULL;
  }
  return (atvi_report_table){"Each has its own report", N, column, cell && link ? c->n : 0, cell, link};
}

static atvi_report_table loo_table(atvi_pool *pool, const atvi_candidates *c) {
  static const char *const column[] = {"fit",         "elpd",  "difference", "effective parameters",
                                       "large k-hat", "weight"};
  enum { N = 6 };
  const char **cell = atvi_pool_take(pool, (size_t)(c->n * N) + 1, sizeof *cell);
  for (atvi_idx k = 0; cell && k < c->n; k++) {
    const atvi_candidate *m = &c->of[k];
    const char *const row[N] = {m->name,
                                plus_minus(pool, m->loo.elpd, m->loo.se),
                                k == c->best_loo ? "best"
                                                 : plus_minus(pool, m->loo.difference, m->loo.difference_se),
                                fixed(pool, m->loo.p, 1),
                                fixed(pool, m->loo.khat_above, 0),
                                fixed(pool, m->loo.weight, 3)};
    memcpy(cell + k * N, row, sizeof row);
  }
  const char *caption = "Leave-one-out log density, and the weights of the mixture that predicts best";
  return (atvi_report_table){caption, N, column, cell ? c->n : 0, cell, NULL};
}

static atvi_report_table evidence_table(atvi_pool *pool, const atvi_candidates *c) {
  static const char *const column[] = {"fit", "log evidence", "difference", "probability", ""};
  enum { N = 5 };
  const char **cell = atvi_pool_take(pool, (size_t)(c->n * N) + 1, sizeof *cell);
  for (atvi_idx k = 0; cell && k < c->n; k++) {
    const atvi_candidate *m = &c->of[k];
    const char *const row[N] = {
        m->name, plus_minus(pool, m->evidence.log, m->evidence.se),
        k == c->best_evidence ? "best" : plus_minus(pool, m->evidence.difference, m->evidence.difference_se),
        fixed(pool, m->evidence.probability, 3), m->evidence.doubtful ? "doubtful" : ""};
    memcpy(cell + k * N, row, sizeof row);
  }
  const char *caption = "Evidence; probabilities if all are equally likely before the data";
  return (atvi_report_table){caption, N, column, cell ? c->n : 0, cell, NULL};
}

static atvi_report_table shared_table(atvi_pool *pool, const atvi_candidates *c) {
  static const char *const column[] = {"quantity", "fit", "mean", "sd", "95 % interval", "difference in sds"};
  enum { N = 6 };
  atvi_idx n = 0, at = 0;
  for (atvi_idx i = 0; i < c->n_shared; i++) n += c->shared[i].n;
  const char **cell = atvi_pool_take(pool, (size_t)(n * N) + 1, sizeof *cell);
  for (atvi_idx i = 0; cell && i < c->n_shared; i++)
    for (atvi_idx k = 0; k < c->shared[i].n; k++) {
      const atvi_shared_value *x = &c->shared[i].of[k];
      const char *ends =
          atvi_pool_printf(pool, "%s to %s", number(pool, x->hpd95[0], 4), number(pool, x->hpd95[1], 4));
      const char *const row[N] = {c->shared[i].name,      x->fit,           number(pool, x->mean, 4),
                                  number(pool, x->sd, 3), ends ? ends : "", fixed(pool, x->difference, 2)};
      memcpy(cell + N * at++, row, sizeof row);
    }
  const char *caption = "Shared quantities; differences are from the first fit, in its sds";
  return (atvi_report_table){caption, N, column, cell ? n : 0, cell, NULL};
}

/* Differences of elpd to the best, with their standard errors. */
static const atvi_canvas *draw_elpd(atvi_pool *pool, const atvi_candidates *c, double width) {
  atvi_idx n = 0;
  const char **row = atvi_pool_take(pool, (size_t)c->n, sizeof *row);
  double *v = atvi_pool_take(pool, 2 * (size_t)c->n, sizeof *v), *e = v ? v + c->n : NULL;
  for (atvi_idx k = 0; row && v && k < c->n; k++)
    if (!isnan(c->of[k].loo.difference)) {
      row[n] = c->of[k].name;
      v[n] = c->of[k].loo.difference;
      e[n++] = c->of[k].loo.difference_se;
    }
  return atvi_report_figure_dots(pool,
                                 &(atvi_dot_plot){.n_row = n,
                                                  .row = row,
                                                  .n = 1,
                                                  .of = &(atvi_dots){.name = "LOO", .value = v, .error = e},
                                                  .title = "Leave-one-out log density",
                                                  .axis = "difference to the best \xc2\xb1 standard error",
                                                  .mark = 0,
                                                  .ends = {NAN, NAN},
                                                  .width = width});
}

/* Means and 95 % intervals of shared quantities, from the mean of the first fit and in its sds. */
static const atvi_canvas *draw_shared(atvi_pool *pool, const atvi_candidates *c, double width) {
  atvi_idx n = c->n_shared < QUANTITIES ? c->n_shared : QUANTITIES;
  const char **row = atvi_pool_take(pool, (size_t)n + 1, sizeof *row);
  atvi_dots *of = atvi_pool_take(pool, (size_t)c->n, sizeof *of);
  double *x = atvi_pool_take(pool, 3 * (size_t)(c->n * n) + 1, sizeof *x);
  for (atvi_idx k = 0; row && of && x && k < c->n; k++) {
    double *value = x + 3 * k * n, *low = value + n, *high = low + n;
    of[k] = (atvi_dots){.name = c->of[k].name, .value = value, .low = low, .high = high};
    for (atvi_idx i = 0; i < n; i++) {
      const atvi_shared *s = &c->shared[i];
      const atvi_shared_value *first = &s->of[0];
      row[i] = s->name;
      value[i] = low[i] = high[i] = NAN;
      for (atvi_idx j = 0; j < s->n; j++)
        if (s->of[j].fit == c->of[k].name) {
          value[i] = (s->of[j].mean - first->mean) / first->sd;
          low[i] = (s->of[j].hpd95[0] - first->mean) / first->sd;
          high[i] = (s->of[j].hpd95[1] - first->mean) / first->sd;
        }
    }
  }
  if (atvi_pool_failed(pool)) return NULL;
  return atvi_report_figure_dots(pool, &(atvi_dot_plot){.n_row = n,
                                                        .row = row,
                                                        .n = c->n,
                                                        .of = of,
                                                        .title = "Posterior mean and 95 % interval",
                                                        .axis = "in sds of the first fit, from its mean",
                                                        .mark = 0,
                                                        .ends = {NAN, NAN},
                                                        .width = width});
}

static atvi_status write_models(atvi_pool *pool, const atvi_candidates *c, const char *dir) {
  int worst = c->differ ? ATVI_VERDICT_WARN : ATVI_VERDICT_OK;
  bool loo = false, evidence = false;
  const char **line = atvi_pool_take(pool, (size_t)c->n_message + 1, sizeof *line);
  const char **name = atvi_pool_take(pool, (size_t)c->n, sizeof *name);
  if (!line || !name) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < c->n_message; i++) line[i] = c->message[i].text;
  for (atvi_idx k = 0; k < c->n; k++) {
    name[k] = c->of[k].name;
    if ((int)c->of[k].summary->verdict > worst) worst = (int)c->of[k].summary->verdict;
    loo = loo || !isnan(c->of[k].loo.elpd);
    evidence = evidence || !isnan(c->of[k].evidence.log);
  }
  const char *sub = atvi_pool_printf(pool, "%td fits compared", c->n),
             *title = atvi_app_candidates_list(pool, c->n, name);
  const atvi_report_table fits = fits_table(pool, c, dir), scores = loo_table(pool, c),
                          evidences = evidence_table(pool, c), shared = shared_table(pool, c);
  const atvi_report_figure
      elpd = {"elpd", "Differences of the leave-one-out log density to the best fit, with errors.",
              c->best_loo >= 0 ? draw_elpd(pool, c, 0) : NULL,
              c->best_loo >= 0 ? draw_elpd(pool, c, ATVI_DOTS_NARROW) : NULL},
      intervals = {"shared", "Posterior means and 95 % intervals of shared quantities in each fit.",
                   c->n_shared > 0 ? draw_shared(pool, c, 0) : NULL,
                   c->n_shared > 0 ? draw_shared(pool, c, ATVI_DOTS_NARROW) : NULL};
  if (!title || !sub || atvi_pool_failed(pool)) return ATVI_ENOMEM;
  const char *say = worst == ATVI_VERDICT_BAD ? line[0]
                    : c->differ               ? "The fits are not to the same data."
                                              : c->say_loo;
  const bool say_loo = c->say_loo && say != c->say_loo; /* what the page begins with is not said again */
  atvi_report_part part[4];
  atvi_idx n = 0;
  part[n++] = (atvi_report_part){"fits", "Fits", c->n_message, line, 0, NULL, 1, &fits};
  if (loo)
    part[n++] =
        (atvi_report_part){"loo", "Prediction", say_loo, &c->say_loo, c->best_loo >= 0, &elpd, 1, &scores};
  if (evidence)
    part[n++] = (atvi_report_part){"evidence", "Evidence", c->say_evidence != NULL, &c->say_evidence, 0, NULL,
                                   1,          &evidences};
  if (c->n_shared > 0)
    part[n++] = (atvi_report_part){"shared", "Shared quantities", 0, NULL, 1, &intervals, 1, &shared};
  atvi_report_short page = {
      title, sub, atvi_verdict_name((atvi_verdict)worst), say ? say : "There is nothing to decide on.",
      n,     part};
  return atvi_report_short_save(pool, &page, dir);
}

void atvi_app_report_models(atvi_ctx *ctx, atvi_pool *pool, const atvi_candidates *c, const char *dir) {
  done(ctx, write_models(pool, c, dir));
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
    of[i] = (atvi_dots){.name = s->method[i].name, .value = v, .error = e};
  }
  if (atvi_pool_failed(pool)) return NULL;
  return atvi_report_figure_dots(
      pool, &(atvi_dot_plot){.n_row = n,
                             .row = name,
                             .n = s->n_method,
                             .of = of,
                             .title = "Coverage of 95 % intervals",
                             .axis = "share of intervals that contain the truth; bars: 2 standard errors",
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
  const char *caption = "Methods; in brackets the standard error over replicates";
  return (atvi_report_table){caption, N, column, cell ? s->n_method : 0, cell, NULL};
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
  if (!name || !each) return ATVI_ENOMEM;
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
      "How often the 95 % interval of a parameter contains its true value: 0.95 if intervals are right.";
  atvi_report_table methods = study_methods(pool, s);
  if (!say || !sub || atvi_pool_failed(pool)) return ATVI_ENOMEM;
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
