/* SPDX-License-Identifier: MIT */
/* The verdict, the data with predictions, and the residuals. */
#include "math/stat/stat.h"
#include "report/fit.h"
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { TABLE_ROWS = 60 };

/* ---- verdict ---- */

/* A path may break after slashes. */
static void put_path(atvi_page *p, const char *path) {
  while (*path) {
    size_t n = strcspn(path, "/");
    if (path[n]) n++;
    const char *part = atvi_pool_strndup(p->pool, path, n);
    atvi_report_text_escape(&p->body, part ? part : "");
    path += n;
    if (*path) atvi_io_text_add(&p->body, "<wbr>");
  }
}

void atvi_report_head(atvi_page *p, const char *title, const char *sub, const char *verdict,
                      const char *say) {
  atvi_io_text_add(&p->body, "<h1>");
  atvi_report_text_escape(&p->body, title);
  atvi_io_text_add(&p->body, "</h1><p class=\"sub\">");
  put_path(p, sub);
  atvi_io_text_add(&p->body, "</p>\n<div class=\"verdict %s\"%s><p class=\"say\">", verdict,
                   strcmp(verdict, "running") == 0 ? " id=\"live\"" : "");
  atvi_report_page_prose(p, say);
  atvi_io_text_add(&p->body, "</p>\n");
}

static double worst_rhat(const atvi_summary *s) {
  double most = NAN;
  for (atvi_idx k = 0; k < s->n_param; k++) most = fmax(most, s->col[k].rhat);
  return most;
}

/* Effective draws of the parameter with the fewest, "4449 (I0)"; of the weights if none has fewer. NULL: not
 * known. */
static const char *least_ess(atvi_pool *pool, const atvi_summary *s) {
  double ess;
  atvi_idx k = atvi_diag_summary_least_ess(s, &ess);
  if (s->weighted && !(round(ess) < round(s->ess))) return atvi_pool_printf(pool, "%.0f", s->ess);
  return k < 0 ? NULL : atvi_pool_printf(pool, "%.0f (%s)", ess, s->col[k].name);
}

/* Why a good fit is good. */
static const char *good_because(atvi_pool *pool, const atvi_summary *s) {
  double ess;
  atvi_diag_summary_least_ess(s, &ess);
  if (s->chains)
    return atvi_pool_printf(pool,
                            "The fit can be used: %td chains agree (R-hat at most %.3f), and every parameter "
                            "has at least %.0f effective draws.",
                            s->n_chain, worst_rhat(s), ess);
  if (s->weighted) {
    const char *khat = atvi_diag_summary_khat(pool, s);
    return atvi_pool_printf(pool,
                            "The fit can be used: %s; for every parameter the weighted draws are worth at "
                            "least %.0f independent ones.",
                            khat ? khat : "", fmin(ess, s->ess));
  }
  return "The fit can be used.";
}

static const char *verdict_line(atvi_pool *pool, const atvi_summary *s) {
  const atvi_message *why = atvi_diag_summary_reason(s);
  if (s->verdict == ATVI_VERDICT_OK) return good_because(pool, s);
  return atvi_pool_printf(pool, "%s %s",
                          s->verdict == ATVI_VERDICT_WARN ? "Use these numbers with care."
                                                          : "Do not use these numbers.",
                          why ? why->text : "");
}

static void put_messages(atvi_page *p, const atvi_summary *s) {
  atvi_idx n = 0;
  for (atvi_idx i = 0; i < s->n_message; i++) {
    if (&s->message[i] == atvi_diag_summary_reason(s)) continue; /* already stated */
    atvi_io_text_add(&p->body, n++ ? "<li>" : "<ul><li>");
    atvi_report_page_prose(p, s->message[i].text);
    atvi_io_text_add(&p->body, "</li>\n");
  }
  if (n) atvi_io_text_add(&p->body, "</ul>\n");
}

void atvi_report_fact(atvi_page *p, const char *name, const char *value) {
  if (!value) return;
  bool minus = value[0] == '-';
  atvi_io_text_add(&p->body, "<div><dt>%s</dt><dd>%s", name, minus ? "\xe2\x88\x92" : "");
  atvi_report_text_escape(&p->body, value + minus);
  atvi_io_text_add(&p->body, "</dd></div>");
}

static void put_facts(atvi_page *p, const atvi_summary *s) {
  const atvi_made *m = &s->made;
  char evidence[64];
  atvi_pool *pool = p->pool;
  int decimals = m->log_evidence_se > 0 ? (int)fmin(5, fmax(2, 1 - floor(log10(m->log_evidence_se)))) : 2;
  int n = snprintf(evidence, sizeof evidence, "%.*f", decimals, m->log_evidence);
  if (isfinite(m->log_evidence_se))
    snprintf(evidence + n, sizeof evidence - (size_t)n, " \xc2\xb1 %.2g", m->log_evidence_se);
  atvi_io_text_add(&p->body, "<dl class=\"facts\">");
  atvi_report_fact(p, "method", m->exact > 0 ? "atvi, exact sampler" : m->method);
  atvi_report_fact(p, "parameters", atvi_pool_printf(pool, "%td", s->n_param));
  atvi_report_fact(p, "draws",
                   s->chains ? atvi_pool_printf(pool, "%td \xc3\x97 %td", s->n_chain, s->n / s->n_chain)
                             : atvi_pool_printf(pool, "%td%s", s->n, s->weighted ? ", weighted" : ""));
  if (s->weighted || s->chains) atvi_report_fact(p, "least effective draws", least_ess(pool, s));
  if (s->chains && isfinite(worst_rhat(s)))
    atvi_report_fact(p, "largest R-hat", atvi_pool_printf(pool, "%.3f", worst_rhat(s)));
  if (isfinite(m->khat)) atvi_report_fact(p, "k-hat", atvi_pool_printf(pool, "%.2f", m->khat));
  if (isfinite(m->log_evidence) && !s->refused) atvi_report_fact(p, "log evidence", evidence);
  if (isfinite(s->log_map))
    atvi_report_fact(p, "highest log posterior", atvi_pool_printf(pool, "%.2f", s->log_map));
  atvi_report_fact(p, "time", atvi_pool_printf(pool, "%.3g s", m->seconds));
  atvi_report_fact(p, "seed", atvi_pool_printf(pool, "%" PRIu64, m->seed));
  atvi_io_text_add(&p->body, "</dl>\n");
}

static void say_running(atvi_page *p, const atvi_fit_parts *x) {
  atvi_report_head(p, x->r->plain->about->title, x->r->file, "running", "The fit is running.");
  atvi_io_text_add(
      &p->body,
      "<p id=\"live-phase\">Opened from disk, this page shows what was known when the fit started. "
      "%s</p><progress id=\"live-bar\" max=\"1\" aria-label=\"share done\"></progress><p><span "
      "id=\"live-time\"></span> <span id=\"live-detail\"></span></p></div>\n<div class=\"grid half\"><figure "
      "id=\"live-chart\"></figure></div>\n",
      x->r->watch ? x->r->watch : "");
}

void atvi_report_say_head(atvi_page *p, const atvi_fit_parts *x) {
  const atvi_summary *s = x->r->summary;
  if (!s) {
    say_running(p, x);
    return;
  }
  const char *line = verdict_line(p->pool, s);
  atvi_report_head(p, x->r->plain->about->title, x->r->file, atvi_verdict_name(s->verdict), line ? line : "");
  put_messages(p, s);
  atvi_io_text_add(&p->body, "</div>\n");
  put_facts(p, s);
}

/* ---- data ---- */

/* Whether the simulator is shown without its discrepancy. */
static bool has_alone(const atvi_predicted *s) {
  for (atvi_idx i = 0; i < s->n; i++)
    if (!isnan(s->point[i].of_alone.mean)) return true;
  return false;
}

static void legend(atvi_page *p, const atvi_fit_parts *x) {
  bool bands = atvi_diag_predicted_draws(x->r->plain) > 0, alone = false;
  for (atvi_idx s = 0; s < x->n_observed; s++) alone = alone || has_alone(&x->r->series[s]);
  atvi_io_text_add(&p->body, "<ul class=\"legend\">");
  if (x->n_observed) atvi_io_text_add(&p->body, "<li><i class=\"k-dot\"></i>data</li>");
  if (x->r->holdout) atvi_io_text_add(&p->body, "<li><i class=\"k-held\"></i>data held out</li>");
  if (bands)
    atvi_io_text_add(&p->body,
                     "<li><i class=\"k-line\"></i>posterior mean</li><li><i class=\"k-mean\"></i>95 %% band "
                     "of the mean</li><li><i class=\"k-band\"></i>95 %% band of observations</li>");
  if (alone)
    atvi_io_text_add(&p->body, "<li><i class=\"k-alone\"></i>the simulator alone, with its 95 %% band</li>");
  atvi_io_text_add(&p->body, "</ul>\n");
}

/* Number of values inside their band. */
typedef struct {
  atvi_idx n, in;
} inside;

static inside count_inside(const atvi_predicted *s, bool held) {
  inside c = {0};
  for (atvi_idx i = 0; i < s->n; i++) {
    const atvi_point *p = &s->point[i];
    const double *band = p->of_draw.hpd95;
    if (isnan(p->value) || isnan(band[0]) || !p->exact) continue;
    if (p->held != held || (s->told && !held)) continue;
    c.n++;
    c.in += p->value >= band[0] && p->value <= band[1];
  }
  return c;
}

static inside count_all(const atvi_report_fit *r, bool held) {
  inside all = {0};
  for (atvi_idx s = 0; s < r->n_series; s++) {
    inside c = count_inside(&r->series[s], held);
    all.n += c.n;
    all.in += c.in;
  }
  return all;
}

static void say_inside(atvi_page *p, const atvi_report_fit *r) {
  inside fitted = count_all(r, false), held = count_all(r, true);
  bool others = r->n_series > 0 && r->series[0].others;
  if (fitted.n > 0)
    atvi_report_page_say(p,
                         "%td of %td observations%s (%.3g %%) lie inside the 95 %% band%s, computed from %td "
                         "draws of the posterior.",
                         fitted.in, fitted.n, held.n > 0 ? " that were fitted" : "",
                         100.0 * (double)fitted.in / (double)fitted.n,
                         others ? " predicted from all others" : " of observations",
                         atvi_diag_predicted_draws(r->plain));
  if (r->holdout && held.n > 0)
    atvi_report_page_say(
        p, "Observations with %s were held out of the fit: %td of %td (%.3g %%) lie inside their 95 %% band.",
        r->holdout, held.in, held.n, 100.0 * (double)held.in / (double)held.n);
  else if (r->holdout)
    atvi_report_page_say(p, "Observations with %s were held out of the fit.", r->holdout);
}

static const char *describe(atvi_pool *pool, const atvi_predicted *s) {
  inside fitted = count_inside(s, false), held = count_inside(s, true);
  atvi_idx n = fitted.n + held.n, in = fitted.in + held.in, given = 0;
  for (atvi_idx i = 0; i < s->n; i++) given += !s->point[i].grid;
  const char *text = n > 0 ? atvi_pool_printf(pool,
                                              "%s%s: data with the posterior mean and 95 %% bands; %td of "
                                              "%td values lie inside the band of observations.",
                                              s->name, s->rows ? "" : " over time", in, n)
                           : atvi_pool_printf(pool, "%s%s, %td value%s.", s->name,
                                              s->rows ? "" : " over time", given, given == 1 ? "" : "s");
  return text ? text : "";
}

/* The times of the data, without those between them. */
static atvi_predicted at_data(atvi_pool *pool, const atvi_predicted *s) {
  atvi_predicted out = *s;
  out.n = 0;
  out.point = atvi_pool_take(pool, (size_t)s->n + 1, sizeof *out.point);
  for (atvi_idx i = 0; out.point && i < s->n; i++)
    if (!s->point[i].grid) out.point[out.n++] = s->point[i];
  return out;
}

/* Values under the pointer; columns without any known value are left out. */
static void hover(atvi_page *p, const char *id, const atvi_frame *f, bool zoom, const atvi_predicted *all,
                  int n, const char *const *name, const size_t *offset) {
  const atvi_predicted some = at_data(p->pool, all), *s = &some;
  atvi_hover column[9] = {{0}};
  for (int k = 0; k < n; k++) {
    const double *x = atvi_diag_predicted_column(p->pool, s, offset[k]);
    atvi_idx known = 0;
    for (atvi_idx i = 0; x && i < s->n; i++) known += !isnan(x[i]);
    column[k] = (atvi_hover){name[k], known ? x : NULL};
  }
  const double *time = atvi_diag_predicted_column(p->pool, s, offsetof(atvi_point, time));
  if (time) atvi_report_page_hover(p, id, f, zoom, s->rows ? "row" : "time", s->n, time, n, column);
}

typedef void hover_of(atvi_page *p, const char *id, const atvi_frame *f, const atvi_predicted *s);

#define PART(band, part) (offsetof(atvi_point, band) + offsetof(atvi_band, part))
static void hover_bands(atvi_page *p, const char *id, const atvi_frame *f, bool zoom,
                        const atvi_predicted *s) {
  static const char *const name[] = {"observed",
                                     "mean",
                                     "band of the mean from",
                                     "to",
                                     "band of observations from",
                                     "to",
                                     "simulator alone",
                                     "its band from",
                                     "to"};
  static const size_t offset[] = {offsetof(atvi_point, value),
                                  PART(of_mean, mean),
                                  PART(of_mean, hpd95),
                                  PART(of_mean, hpd95) + sizeof(double),
                                  PART(of_draw, hpd95),
                                  PART(of_draw, hpd95) + sizeof(double),
                                  PART(of_alone, mean),
                                  PART(of_alone, hpd95),
                                  PART(of_alone, hpd95) + sizeof(double)};
  hover(p, id, f, zoom, s, 9, name, offset);
}

static void hover_series(atvi_page *p, const char *id, const atvi_frame *f, const atvi_predicted *s) {
  hover_bands(p, id, f, true, s);
}

static void hover_single(atvi_page *p, const char *id, const atvi_frame *f, const atvi_predicted *s) {
  hover_bands(p, id, f, false, s);
}

/* ids from atvi_report_page_drawing_id; a figure of ATVI_REPORT_WIDE has another one for narrow screens. */
static void put_series(atvi_page *p, const char *id, const atvi_predicted *s, const atvi_series_view *v,
                       double width, const char *alt, hover_of *of) {
  const atvi_canvas *c[2][2] = {{NULL}};
  atvi_frame f[2][2];
  const bool wide = width >= ATVI_REPORT_WIDE;
  for (int log = 0; log <= v->has_log; log++)
    for (int narrow = 0; narrow <= wide; narrow++)
      c[log][narrow] =
          atvi_report_draw_series(p->pool, s, v, log, narrow ? ATVI_REPORT_HALF : width, &f[log][narrow]);
  atvi_report_page_figure_scaled(p, id, alt, c);
  of(p, id, &f[0][0], s);
  for (int k = 1; k < 4; k++) {
    char other[ATVI_DRAWING_ID];
    atvi_report_page_drawing_id(other, id, k / 2, k % 2);
    if (c[k / 2][k % 2]) atvi_report_page_hover_like(p, other, &f[k / 2][k % 2], id);
  }
}

/* The choice of scales, and what a logarithmic one leaves out. */
static void put_scales(atvi_page *p, atvi_idx n, const atvi_predicted *const *s, const atvi_series_view *v) {
  atvi_idx below = 0, linear = 0;
  bool cut = false;
  if (!atvi_report_has_log(n, v)) return;
  for (atvi_idx k = 0; k < n; k++) {
    linear += !v[k].has_log;
    if (v[k].has_log) below += atvi_report_series_below(s[k], &v[k], &cut);
  }
  atvi_report_page_scales(p);
  atvi_io_text_add(&p->body, "<div class=\"log\">");
  if (cut)
    atvi_report_page_note(p, "Bands that extend further down are cut at the bottom of the logarithmic axis.");
  if (below)
    atvi_report_page_note(p, "%td observed value%s at or below zero %s not shown.", below,
                          below == 1 ? "" : "s", below == 1 ? "is" : "are");
  if (linear)
    atvi_report_page_note(p, "%td of %td figures stay linear, because their values go below zero.", linear,
                          n);
  atvi_io_text_add(&p->body, "</div>\n");
}

/* label: names of the rows; NULL: their times. */
static void put_values(atvi_page *p, const atvi_fit_parts *x, const atvi_predicted *all,
                       const char *const *label) {
  const atvi_predicted some = at_data(p->pool, all), *s = &some;
  const char *const column[] = {
      label ? "unit" : s->rows ? "row" : "time", "observed", "mean", "95 % from", "to", "simulator alone"};
  const char *caption =
      atvi_pool_printf(p->pool, s->n > TABLE_ROWS ? "%s, %d of %td rows" : "%s", s->name, TABLE_ROWS, s->n);
  atvi_idx n = s->n < TABLE_ROWS ? s->n : TABLE_ROWS;
  bool alone = has_alone(s);
  atvi_report_page_table(p, caption ? caption : "", alone ? 6 : 5, column, true);
  for (atvi_idx k = 0; k < n; k++) {
    const atvi_point *at = &s->point[k * s->n / n];
    const atvi_band *band = s->kind == ATVI_SERIES_OBSERVED ? &at->of_draw : &at->of_mean;
    char time[ATVI_TICK_LABEL];
    atvi_report_write_time(time, at->time, s->rows ? (atvi_calendar){0} : atvi_report_calendar(x->r->plain));
    atvi_report_page_row(p, label ? label[k * s->n / n] : time);
    atvi_report_page_number(p, at->value, 4);
    atvi_report_page_number(p, at->of_mean.mean, 4);
    atvi_report_page_number(p, band->hpd95[0], 4);
    atvi_report_page_number(p, band->hpd95[1], 4);
    if (alone) atvi_report_page_number(p, at->of_alone.mean, 4);
  }
  atvi_report_page_table_end(p, true);
}

static double width_of(const atvi_predicted *s) {
  return atvi_report_long(s) ? ATVI_REPORT_WIDE : ATVI_REPORT_HALF;
}

static void put_one(atvi_page *p, const atvi_fit_parts *x, atvi_idx s, double width) {
  char id[24];
  snprintf(id, sizeof id, "s%td", s);
  put_series(p, id, x->series[s], &x->view[s], width, describe(p->pool, &x->r->series[s]), hover_series);
}

/* Units with one value each, as one figure. */
static void put_single(atvi_page *p, const atvi_report_units *u) {
  char id[24];
  snprintf(id, sizeof id, "s%td", u->series[0]);
  atvi_report_page_grid(p, "wide");
  put_series(p, id, &u->all, &u->view, ATVI_REPORT_WIDE, describe(p->pool, &u->all), hover_single);
  atvi_report_page_grid_end(p);
}

/* A panel for each unit, all with the same scales. */
static void put_units(atvi_page *p, const atvi_fit_parts *x, const atvi_report_units *u) {
  if (u->single) {
    put_single(p, u);
    return;
  }
  atvi_report_page_heading(p, u->name);
  if (u->n_shown < u->n && u->worst)
    atvi_report_page_say(p,
                         "The %td of %td units that are predicted worst, with the largest standardised "
                         "residuals, worst first; the others are below. All have the same scales.",
                         u->n_shown, u->n);
  else if (u->n_shown < u->n)
    atvi_report_page_say(p, "The first %td of %td units; the others are below. All have the same scales.",
                         u->n_shown, u->n);
  else if (u->n > 1)
    atvi_report_page_say(p, "All %td units, with the same scales.", u->n);
  atvi_report_page_grid(p, "third");
  for (atvi_idx k = 0; k < u->n_shown; k++) put_one(p, x, u->series[k], ATVI_REPORT_SMALL);
  atvi_report_page_grid_end(p);
  if (u->n_shown == u->n) return;
  atvi_report_page_fold(
      p, atvi_pool_printf(p->pool, "The other %td units, in the order of the data", u->n - u->n_shown));
  atvi_report_page_grid(p, "third");
  for (atvi_idx k = u->n_shown; k < u->n; k++) put_one(p, x, u->series[k], ATVI_REPORT_SMALL);
  atvi_report_page_grid_end(p);
  atvi_report_page_fold_end(p);
}

static void put_range(atvi_page *p, const atvi_fit_parts *x, atvi_idx from, atvi_idx to) {
  bool wide = false;
  atvi_idx n = 0, last = from;
  for (atvi_idx s = from; s < to; s++)
    if (!x->of_unit[s]) wide = wide || atvi_report_long(&x->r->series[s]), n++, last = s;
  wide = wide || (n == 1 && x->r->series[last].n > 1); /* alone, it has the whole width */
  if (n > 0 || x->n_units == 0) {
    atvi_report_page_grid(p, wide || n == 0 ? "wide" : "half");
    for (atvi_idx s = from; s < to; s++)
      if (!x->of_unit[s]) put_one(p, x, s, n == 1 && wide ? ATVI_REPORT_WIDE : width_of(&x->r->series[s]));
    atvi_report_page_grid_end(p);
  }
  for (atvi_idx u = 0; u < x->n_units; u++)
    if (x->units[u].series[0] >= from && x->units[u].series[0] < to) put_units(p, x, &x->units[u]);
}

static void say_units(atvi_page *p, const atvi_fit_parts *x) {
  const atvi_report_fit *r = x->r;
  atvi_idx n, n_draw = atvi_diag_predicted_draws(r->plain);
  const char **unit;
  atvi_loo_point *loo;
  if (x->n_units == 0 || n_draw == 0 || !r->summary ||
      atvi_diag_unit_loo(p->pool, n_draw, r->n_series, r->series, &n, &unit, &loo) != ATVI_OK)
    return;
  atvi_loo_sum sum = atvi_math_loo_total(n, loo, n_draw);
  double threshold = atvi_math_psis_threshold(n_draw);
  if (n < 2 || !isfinite(sum.elpd)) return;
  if (sum.n_bad)
    atvi_report_page_say(
        p,
        "Leaving out one unit at a time (LOO), the log density of its data adds up to %.2f \xc2\xb1 %.2f; "
        "this is not to be trusted, because k-hat is above %.2f for %td of %td units (worst: %s, %.2f). A "
        "fit without the unit shows how well it is predicted.",
        sum.elpd, sum.se, threshold, sum.n_bad, n, unit[sum.worst], loo[sum.worst].khat);
  else
    atvi_report_page_say(p,
                         "Leaving out one unit at a time (LOO), the log density of its data adds up to %.2f "
                         "\xc2\xb1 %.2f; k-hat is at most %.2f.",
                         sum.elpd, sum.se, loo[sum.worst].khat);
}

/* Is the series one of units that are shown together? */
static bool of_single(const atvi_fit_parts *x, atvi_idx s) {
  for (atvi_idx u = 0; u < x->n_units; u++)
    for (atvi_idx k = 0; x->units[u].single && k < x->units[u].n; k++)
      if (x->units[u].series[k] == s) return true;
  return false;
}

void atvi_report_say_data(atvi_page *p, const atvi_fit_parts *x) {
  const atvi_report_fit *r = x->r;
  const char *why = r->plain->about->no_groups;
  if (r->n_series == 0 && !why) return;
  atvi_report_page_section(p, "data", r->summary ? "Data and predictions" : "Data");
  say_inside(p, r);
  say_units(p, x);
  if (r->summary && why) atvi_report_page_say(p, "There are no predictions: %s.", why);
  if (r->n_series == 0) return;
  if (has_alone(&r->series[0]))
    atvi_report_page_say(p,
                         "The green line is the simulator alone, as the emulator predicts it at draws of the "
                         "posterior. The rest of the way to the data is the error of the emulator and, if "
                         "the model has one, the discrepancy: what the simulator cannot reproduce.");
  legend(p, x);
  put_scales(p, r->n_series, x->series, x->view);
  put_range(p, x, 0, x->n_observed);
  if (r->n_series > x->n_observed) {
    atvi_report_page_heading(p, "Tracked quantities");
    put_range(p, x, x->n_observed, r->n_series);
  }
  atvi_io_text_add(&p->body, "<details><summary>The numbers as tables</summary>\n");
  for (atvi_idx s = 0; s < r->n_series; s++)
    if (!of_single(x, s)) put_values(p, x, &r->series[s], NULL);
  for (atvi_idx u = 0; u < x->n_units; u++)
    if (x->units[u].single) put_values(p, x, &x->units[u].all, x->units[u].view.label);
  atvi_io_text_add(&p->body, "</details>\n");
}

/* ---- forecast ---- */

static void hover_forecast(atvi_page *p, const char *id, const atvi_frame *f, const atvi_predicted *s) {
  static const char *const name[] = {"observed", "median", "50 % from", "to", "95 % from", "to"};
  static const size_t of_draw[] = {offsetof(atvi_point, value), PART(of_mean, median),
                                   PART(of_draw, quartile),     PART(of_draw, quartile) + sizeof(double),
                                   PART(of_draw, hpd95),        PART(of_draw, hpd95) + sizeof(double)},
                      of_mean[] = {offsetof(atvi_point, value), PART(of_mean, median),
                                   PART(of_mean, quartile),     PART(of_mean, quartile) + sizeof(double),
                                   PART(of_mean, hpd95),        PART(of_mean, hpd95) + sizeof(double)};
  hover(p, id, f, true, s, 6, name, s->kind == ATVI_SERIES_OBSERVED ? of_draw : of_mean);
}

static void put_forecast_values(atvi_page *p, const atvi_fit_parts *x, const atvi_predicted *s, double end) {
  static const char *const column[] = {"time", "median", "50 % from", "to", "95 % from", "to"};
  atvi_idx n = 0, first = s->n;
  while (first > 0 && s->point[first - 1].time > end) first--;
  n = s->n - first;
  const char *caption =
      atvi_pool_printf(p->pool, n > TABLE_ROWS ? "%s, %d of %td times" : "%s", s->name, TABLE_ROWS, n);
  atvi_idx rows = n < TABLE_ROWS ? n : TABLE_ROWS;
  atvi_report_page_table(p, caption ? caption : "", 6, column, true);
  for (atvi_idx k = 0; k < rows; k++) {
    const atvi_point *at = &s->point[first + k * n / rows];
    const atvi_band *b = s->kind == ATVI_SERIES_OBSERVED ? &at->of_draw : &at->of_mean;
    const double cell[] = {at->of_mean.median, b->quartile[0], b->quartile[1], b->hpd95[0], b->hpd95[1]};
    char time[ATVI_TICK_LABEL];
    atvi_report_write_time(time, at->time, atvi_report_calendar(x->r->plain));
    atvi_report_page_row(p, time);
    for (int c = 0; c < 5; c++) atvi_report_page_number(p, cell[c], 4);
  }
  atvi_report_page_table_end(p, true);
}

void atvi_report_say_forecast(atvi_page *p, const atvi_fit_parts *x) {
  bool wide = x->n_forecast == 1, tracked = false, many = x->n_units > 0;
  if (x->n_forecast == 0) return;
  atvi_idx first = many && x->n_forecast > ATVI_REPORT_UNITS ? ATVI_REPORT_UNITS_FIRST : x->n_forecast;
  atvi_report_page_section(p, "forecast", "Forecast");
  for (atvi_idx k = 0; k < x->n_forecast; k++) {
    wide = wide || atvi_report_long(x->forecast[k]);
    tracked = tracked || x->forecast[k]->kind != ATVI_SERIES_OBSERVED;
  }
  atvi_report_page_say(p,
                       "Predictions after the data: the median of the model's mean, and bands that contain "
                       "50 %% and 95 %% of new observations%s.",
                       tracked ? " (for tracked quantities: of the posterior)" : "");
  atvi_io_text_add(&p->body,
                   "<ul class=\"legend\"><li><i class=\"k-dot\"></i>data</li>%s<li><i "
                   "class=\"k-line\"></i>median</li><li><i class=\"k-mean\"></i>50 %%</li><li><i "
                   "class=\"k-band\"></i>95 %%</li><li><i class=\"k-end\"></i>end of the data</li></ul>\n",
                   x->r->holdout ? "<li><i class=\"k-held\"></i>data held out</li>" : "");
  put_scales(p, x->n_forecast, x->forecast, x->forecast_view);
  const char *grid = many ? "third" : wide ? "wide" : "half";
  atvi_report_page_grid(p, grid);
  for (atvi_idx k = 0; k < x->n_forecast; k++) {
    const atvi_predicted *s = x->forecast[k];
    char id[24];
    if (k == first) {
      atvi_report_page_grid_end(p);
      atvi_report_page_fold(p, atvi_pool_printf(p->pool, "The other %td", x->n_forecast - first));
      atvi_report_page_grid(p, grid);
    }
    snprintf(id, sizeof id, "f%td", k);
    const char *alt = atvi_pool_printf(
        p->pool, "%s over time: the data and, after them, the median with bands of 50 %% and 95 %%.",
        s->name);
    double width = many ? ATVI_REPORT_SMALL : x->n_forecast == 1 ? ATVI_REPORT_WIDE : width_of(s);
    put_series(p, id, s, &x->forecast_view[k], width, alt ? alt : "", hover_forecast);
  }
  atvi_report_page_grid_end(p);
  if (first < x->n_forecast) atvi_report_page_fold_end(p);
  atvi_report_page_fold(p, "The numbers as tables");
  for (atvi_idx k = 0; k < x->n_forecast; k++)
    put_forecast_values(p, x, x->forecast[k], x->forecast_view[k].end);
  atvi_report_page_fold_end(p);
}

/* ---- residuals ---- */

/* s: number of a series, for the figure's name. */
static void put_residuals(atvi_page *p, const atvi_predicted *of, const atvi_series_view *v, atvi_idx s) {
  char id[24], narrow[26];
  atvi_frame f, g;
  atvi_idx n = 0, out = 0;
  for (atvi_idx i = 0; i < of->n; i++) {
    n += isfinite(of->point[i].residual);
    out += fabs(of->point[i].residual) > 2;
  }
  const char *alt = atvi_pool_printf(p->pool, "Standardised residuals of %s%s; %td of %td exceed 2 in size.",
                                     of->name, of->rows ? "" : " over time", out, n);
  static const char *const name[] = {"residual", "observed", "mean"};
  static const size_t offset[] = {offsetof(atvi_point, residual), offsetof(atvi_point, value),
                                  offsetof(atvi_point, of_mean) + offsetof(atvi_band, mean)};
  snprintf(id, sizeof id, "r%td", s);
  snprintf(narrow, sizeof narrow, "%sn", id);
  atvi_canvas *small = atvi_report_draw_residuals(p->pool, of, v, ATVI_REPORT_HALF, &g);
  if (atvi_report_long(of)) {
    atvi_report_page_figure_both(p, atvi_report_draw_residuals(p->pool, of, v, ATVI_REPORT_WIDE, &f), small,
                                 id, alt ? alt : "");
    atvi_report_page_hover_like(p, narrow, &g, id);
  } else {
    atvi_report_page_figure(p, small, id, alt ? alt : "");
    f = g;
  }
  hover(p, id, &f, false, of, 3, name, offset);
}

static void put_pit(atvi_page *p, const atvi_fit_parts *x) {
  atvi_canvas *c = atvi_report_canvas_new(p->pool, ATVI_REPORT_HALF, ATVI_REPORT_HEIGHT);
  atvi_report_panel_pit(c, (atvi_box){0, 0, ATVI_REPORT_HALF, ATVI_REPORT_HEIGHT}, &x->pit);
  atvi_report_page_figure(p, c, "pit",
                          "Histogram of where observations fall in their predictive distributions; flat if "
                          "predictions are neither too wide nor too narrow.");
}

static const atvi_series_view *view_of_all(const atvi_fit_parts *x, const atvi_report_units *u) {
  return u->single ? &u->view : &x->view[u->series[0]];
}

void atvi_report_say_residuals(atvi_page *p, const atvi_fit_parts *x) {
  static const char *const column[] = {"probability of a smaller value", "observations", "expected from",
                                       "to"};
  const atvi_report_fit *r = x->r;
  bool wide = false;
  bool told = false, others = false;
  for (atvi_idx s = 0; s < x->n_observed; s++) {
    told = told || r->series[s].told;
    others = others || r->series[s].others;
  }
  if (x->pit.n == 0 && !told) return;
  atvi_report_page_section(p, "residuals", "Residuals");
  if (told)
    atvi_report_page_say(p,
                         "Observations of this model depend on each other, and predictions use all that were "
                         "fitted: these agree too well to test the model, and have no residuals here.%s",
                         r->holdout ? "" : " Hold some out to see how well they are predicted.");
  if (others)
    atvi_report_page_say(
        p, "Observations of this model depend on each other: each is predicted here from all others.");
  if (x->pit.n == 0) return;
  atvi_report_page_say(p, "Observed minus predicted, in units of the predictive standard deviation. Long "
                          "stretches on one side of zero, a trend, or more than one in twenty beyond the "
                          "dashed lines show what the model does not explain.");
  for (atvi_idx s = 0; s < x->n_observed; s++)
    wide = wide || (!x->of_unit[s] && atvi_report_long(&r->series[s]));
  for (atvi_idx u = 0; u < x->n_units; u++) wide = wide || atvi_report_long(&x->units[u].all);
  atvi_report_page_grid(p, wide ? "wide" : "half");
  for (atvi_idx s = 0; s < x->n_observed; s++)
    if (!x->of_unit[s]) put_residuals(p, &r->series[s], &x->view[s], s);
  for (atvi_idx u = 0; u < x->n_units; u++)
    if (x->units[u].kind == ATVI_SERIES_OBSERVED)
      put_residuals(p, &x->units[u].all, view_of_all(x, &x->units[u]), x->units[u].series[0]);
  if (wide) {
    atvi_report_page_grid_end(p);
    atvi_report_page_grid(p, "half");
  }
  put_pit(p, x);
  atvi_report_page_grid_end(p);
  atvi_report_page_note(p,
                        "The histogram is flat, within the grey band (95 %% for each bar), if predictions "
                        "have the right width. A peak in the middle means too wide, at the ends too narrow, "
                        "on one side biased.%s Ties of discrete values are broken at random.",
                        others ? "" : " The data were used for the fit, so it looks a little too good.");
  atvi_report_page_table(p, "The histogram as a table", 4, column, true);
  for (int k = 0; k < ATVI_PIT_BINS; k++) {
    char name[32];
    snprintf(name, sizeof name, "%.1f to %.1f", k / (double)ATVI_PIT_BINS, (k + 1) / (double)ATVI_PIT_BINS);
    atvi_report_page_row(p, name);
    atvi_report_page_number(p, (double)x->pit.count[k], 3);
    atvi_report_page_number(p, x->pit.low, 3);
    atvi_report_page_number(p, x->pit.high, 3);
  }
  atvi_report_page_table_end(p, true);
}
