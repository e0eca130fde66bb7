/* SPDX-License-Identifier: MIT */
/* What the page of a fit says about parameters (densities, pairs, the table, bounds), convergence, cost, and
 * how to repeat it. */
#include "report/fit.h"
#include "math/stat/stat.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
  HOVER_POINTS = 64,
};

/* ---- densities ---- */

static void put_marginal(atvi_page *p, const atvi_fit_parts *x, atvi_idx k) {
  char id[24], mode[ATVI_TICK_LABEL], low[ATVI_TICK_LABEL], high[ATVI_TICK_LABEL];
  atvi_frame f;
  const atvi_marginal *m = atvi_report_density_of(x, k);
  double at[HOVER_POINTS], density[HOVER_POINTS], prior[HOVER_POINTS];
  if (!m) return;
  atvi_report_write_number(mode, m->of->mode, 3);
  atvi_report_write_number(low, m->of->hpd95[0], 3);
  atvi_report_write_number(high, m->of->hpd95[1], 3);
  const char *alt =
      atvi_pool_printf(p->pool, "Posterior density of %s%s: mode %s, 95 %% highest density from %s to %s.",
                       m->of->name, m->has_prior ? " with its prior" : "", mode, low, high);
  snprintf(id, sizeof id, "m%td", k);
  atvi_report_page_figure(p, atvi_report_draw_marginal(x, m, &f), id, alt ? alt : "");
  if (m->flat) return;
  int n = ATVI_MARGINAL / HOVER_POINTS;
  for (int i = 0; i < HOVER_POINTS; i++) {
    at[i] = m->x[i * n + n / 2];
    density[i] = m->density[i * n + n / 2];
    prior[i] = m->prior[i * n + n / 2];
  }
  const atvi_hover column[] = {{"density", density}, {"prior", m->has_prior ? prior : NULL}};
  atvi_report_page_hover(p, id, &f, false, m->of->name, HOVER_POINTS, at, 2, column);
}

static void hover_array(atvi_page *p, const char *id, const atvi_frame *f, const char *name, atvi_idx n,
                        const atvi_summary_column *col) {
  double *at = atvi_pool_take(p->pool, 4 * (size_t)n, sizeof *at);
  if (!at) return;
  double *median = at + n, *low = at + 2 * n, *high = at + 3 * n;
  for (atvi_idx i = 0; i < n; i++) {
    at[i] = (double)i;
    median[i] = col[i].median;
    low[i] = col[i].hpd95[0];
    high[i] = col[i].hpd95[1];
  }
  const char **label = atvi_pool_take(p->pool, (size_t)n, sizeof *label);
  for (atvi_idx i = 0; label && i < n; i++) label[i] = col[i].name;
  const atvi_hover column[] = {{"median", median}, {"95 % HPD from", low}, {"to", high}};
  atvi_report_page_hover_named(p, id, f, name, n, at, label, 3, column);
}

static void put_densities(atvi_page *p, const atvi_fit_parts *x, atvi_idx from, atvi_idx to) {
  atvi_report_page_grid(p, "third");
  for (atvi_idx k = from; k < to; k++) put_marginal(p, x, k);
  atvi_report_page_grid_end(p);
}

/* One figure for an array, with the densities of its elements on demand. */
static void put_array(atvi_page *p, const atvi_fit_parts *x, atvi_idx from, atvi_idx to) {
  const atvi_summary_column *col = x->r->summary->col + from;
  char id[24], narrow[26];
  atvi_frame f, g;
  atvi_idx n = to - from;
  const char *name = atvi_pool_strndup(p->pool, col->name, atvi_report_family_name(col->name));
  const char *alt = atvi_pool_printf(p->pool, "Medians, 50 %% and 95 %% intervals of the %td elements of %s.",
                                     n, name ? name : "");
  if (!name || !alt) return;
  snprintf(id, sizeof id, "a%td", from);
  snprintf(narrow, sizeof narrow, "%sn", id);
  atvi_report_page_grid(p, "wide");
  atvi_report_page_figure_both(p, atvi_report_draw_array(x, name, from, n, ATVI_REPORT_WIDE, &f),
                               atvi_report_draw_array(x, name, from, n, ATVI_REPORT_HALF, &g), id, alt);
  hover_array(p, id, &f, name, n, col);
  atvi_report_page_hover_like(p, narrow, &g, id);
  atvi_report_page_grid_end(p);
  if (!atvi_report_density_of(x, from)) return; /* the last ones are left out first */
  atvi_report_page_fold(p, atvi_pool_printf(p->pool, "Densities of the elements of %s", name));
  put_densities(p, x, from, to);
  atvi_report_page_fold_end(p);
}

/* Single quantities and short arrays as densities, then long arrays. */
static void put_quantities(atvi_page *p, const atvi_fit_parts *x, atvi_idx from, atvi_idx to) {
  const atvi_summary *s = x->r->summary;
  atvi_report_page_grid(p, "third");
  for (atvi_idx k = from, end; k < to; k = end) {
    end = atvi_report_family_end(s, k);
    for (atvi_idx i = k; end - k < ATVI_REPORT_ARRAY && i < end; i++) put_marginal(p, x, i);
  }
  atvi_report_page_grid_end(p);
  for (atvi_idx k = from, end; k < to; k = end) {
    end = atvi_report_family_end(s, k);
    if (end - k >= ATVI_REPORT_ARRAY) put_array(p, x, k, end);
  }
}

static bool has_arrays(const atvi_summary *s) {
  for (atvi_idx k = 0, end; k < s->n_col; k = end) {
    end = atvi_report_family_end(s, k);
    if (end - k >= ATVI_REPORT_ARRAY) return true;
  }
  return false;
}

void atvi_report_say_marginals(atvi_page *p, const atvi_fit_parts *x) {
  const atvi_summary *s = x->r->summary;
  if (x->n_col == 0) return;
  atvi_report_page_section(p, "parameters", "Parameters");
  atvi_io_text_add(
      &p->body, "<ul class=\"legend\"><li><i class=\"k-line\"></i>posterior</li><li><i "
                "class=\"k-hpd\"></i>95 %% highest density</li><li><i class=\"k-mode\"></i>mode</li><li><i "
                "class=\"k-prior\"></i>prior</li><li><i class=\"k-bound\"></i>hard bound</li></ul>\n");
  put_quantities(p, x, 0, s->n_param);
  if (s->n_col > s->n_param) {
    atvi_report_page_heading(p, "Derived quantities");
    put_quantities(p, x, s->n_param, s->n_col);
  }
  if (x->n_col < s->n_col)
    atvi_report_page_note(
        p,
        "Densities are shown for %td of %td quantities, elements of long arrays last; the table lists all.",
        x->n_col, s->n_col);
  if (has_arrays(s))
    atvi_report_page_note(p, "Arrays: the dot is the median, the thick bar contains 50 %%, the thin one is "
                             "the 95 %% highest density interval.");
  atvi_report_page_note(
      p, "Next to each name: mean \xc2\xb1 standard deviation. The numbers are in the table below.");
}

/* ---- pairs ---- */

/* Draws as pairs of characters: 4096 steps along the shown range. */
static void put_draws(atvi_text *out, const atvi_pairs *q, atvi_idx k) {
  static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const atvi_marginal *m = &q->marginal[k];
  char buffer[1025];
  int n = 0;
  atvi_io_text_add(out, "\"");
  for (atvi_idx i = 0; i < q->n_draw; i++) {
    double u = (q->draw[k][i] - m->shown[0]) / (m->shown[1] - m->shown[0]);
    int v = isfinite(u) ? (int)lround(4095 * fmin(fmax(u, 0), 1)) : 0;
    buffer[n++] = digit[v / 64];
    buffer[n++] = digit[v % 64];
    if (n == 1024 || i + 1 == q->n_draw) {
      atvi_io_text_add(out, "%.*s", n, buffer);
      n = 0;
    }
  }
  atvi_io_text_add(out, "\"");
}

static void put_contour(atvi_text *out, const atvi_contour *c) {
  bool open = false;
  atvi_io_text_add(out, "\"");
  for (atvi_idx i = 0; i < c->n; i++) {
    const short *at = c->at + 2 * i;
    if (at[0] < 0)
      atvi_io_text_add(out, "Z");
    else
      atvi_io_text_add(out, "%c%d %d", open ? 'L' : 'M', at[0], ATVI_CONTOUR_UNIT - at[1]);
    open = at[0] >= 0;
  }
  atvi_io_text_add(out, "\"");
}

static void put_curve(atvi_text *out, const atvi_marginal *m) {
  atvi_io_text_add(out, "\"M-10 1010");
  for (int i = 0; i < ATVI_MARGINAL; i += 3) {
    double u = (m->x[i] - m->shown[0]) / (m->shown[1] - m->shown[0]);
    if (u > -0.02 && u < 1.02)
      atvi_io_text_add(out, "L%.0f %.0f", 1000 * u, 1000 * (1 - m->density[i] / (1.28 * m->top)));
  }
  atvi_io_text_add(out, "L1010 1010\"");
}

#define EACH(out, q, key, put)                                                                               \
  do {                                                                                                       \
    atvi_io_text_add((out), ",\"" key "\":[");                                                               \
    for (atvi_idx i = 0; i < (q)->n; i++) {                                                                  \
      if (i) atvi_io_text_add((out), ",");                                                                   \
      put;                                                                                                   \
    }                                                                                                        \
    atvi_io_text_add((out), "]");                                                                            \
  } while (0)

static void put_row(atvi_text *out, const atvi_pairs *q, atvi_idx i) {
  for (atvi_idx j = 0; j < q->n; j++) {
    double r = q->correlation[i * q->n + j];
    atvi_io_text_add(out, j ? "," : "[");
    if (isfinite(r))
      atvi_io_text_add(out, "%.3f", r);
    else
      atvi_io_text_add(out, "null");
  }
  atvi_io_text_add(out, "]");
}

static void put_pairs(atvi_text *out, const atvi_fit_parts *x) {
  const atvi_pairs *q = &x->pairs;
  atvi_io_text_add(out, "{\"n\":%td,\"pick\":[", q->n_draw);
  for (atvi_idx i = 0; i < x->n_pick; i++) atvi_io_text_add(out, i ? ",%td" : "%td", x->pick[i]);
  atvi_io_text_add(out, "]");
  EACH(out, q, "names", atvi_report_json_put_text(out, q->marginal[i].of->name));
  EACH(out, q, "lo", atvi_report_json_put_number(out, q->marginal[i].shown[0]));
  EACH(out, q, "hi", atvi_report_json_put_number(out, q->marginal[i].shown[1]));
  EACH(out, q, "p", put_curve(out, &q->marginal[i]));
  EACH(out, q, "d", put_draws(out, q, i));
  EACH(out, q, "r", put_row(out, q, i));
  atvi_io_text_add(out, ",\"k\":{");
  for (atvi_idx i = 1, some = 0; i < q->n; i++)
    for (atvi_idx j = 0; j < i; j++) {
      const atvi_contour *c = &q->contour[(i * q->n + j) * ATVI_CONTOUR_LEVELS];
      atvi_io_text_add(out, "%s\"%td_%td\":[", some++ ? "," : "", i, j);
      for (int k = 0; k < ATVI_CONTOUR_LEVELS; k++) {
        if (k) atvi_io_text_add(out, ",");
        put_contour(out, &c[k]);
      }
      atvi_io_text_add(out, "]");
    }
  atvi_io_text_add(out, "}}");
}

static void put_chips(atvi_page *p, const atvi_fit_parts *x) {
  atvi_io_text_add(
      &p->body,
      "<div class=\"chips\" id=\"pairs-chips\" role=\"group\" aria-label=\"Quantities in pairs\">\n");
  for (atvi_idx i = 0, k = 0; i < x->pairs.n; i++) {
    bool on = k < x->n_pick && x->pick[k] == i;
    k += on;
    atvi_io_text_add(&p->body, "<button type=\"button\" data-i=\"%td\" aria-pressed=\"%s\">", i,
                     on ? "true" : "false");
    atvi_report_text_escape(&p->body, x->pairs.marginal[i].of->name);
    atvi_io_text_add(&p->body, "</button>\n");
  }
  atvi_io_text_add(&p->body, "</div>\n");
}

static void put_correlations(atvi_page *p, const atvi_pairs *q) {
  const char *column[ATVI_REPORT_PAIRED + 1] = {""};
  for (atvi_idx i = 0; i < q->n; i++) column[i + 1] = q->marginal[i].of->name;
  atvi_report_page_table(p, "Correlations as a table", (int)q->n + 1, column, true);
  for (atvi_idx i = 0; i < q->n; i++) {
    atvi_report_page_row(p, q->marginal[i].of->name);
    for (atvi_idx j = 0; j < q->n; j++) {
      char text[32];
      snprintf(text, sizeof text, "%.2f", q->correlation[i * q->n + j]);
      atvi_report_page_cell(p, isfinite(q->correlation[i * q->n + j]) ? text : NULL);
    }
  }
  atvi_report_page_table_end(p, true);
}

void atvi_report_say_pairs(atvi_page *p, const atvi_fit_parts *x) {
  const atvi_pairs *q = &x->pairs;
  if (x->n_pick < 2) return;
  atvi_idx a = x->pick[1], b = x->pick[0];
  for (atvi_idx i = 0; i < q->n; i++)
    for (atvi_idx j = 0; j < i; j++)
      if (fabs(q->correlation[i * q->n + j]) > fabs(q->correlation[a * q->n + b])) a = i, b = j;
  double r = q->correlation[a * q->n + b];
  const char *na = q->marginal[b].of->name, *nb = q->marginal[a].of->name;
  atvi_report_page_section(p, "pairs", "Pairs");
  atvi_report_page_say(
      p,
      "Below the diagonal: draws of the posterior, with the smallest regions that contain 50 %% and 95 %% of "
      "it; above: correlations. The strongest correlation is that of %s and %s, %.2f.",
      na, nb, r);
  if (q->n > x->n_pick)
    atvi_report_page_note(p, "The %td that depend on each other most are shown%s.", x->n_pick,
                          q->n < x->r->summary->n_col ? "; not all can be chosen here" : "");
  put_chips(p, x);
  atvi_io_text_add(&p->body, "<figure class=\"square\" id=\"pairs-figure\">");
  const char *alt = atvi_pool_printf(p->pool,
                                     "Pairs of %td quantities with contours and correlations. The strongest "
                                     "correlation is that of %s and %s, %.2f.",
                                     x->n_pick, na, nb, r);
  atvi_report_canvas_svg(atvi_report_draw_pairs(x),
                         &(atvi_svg_opts){.id = "pairs-plot", .title = alt ? alt : "", .page = true},
                         &p->body);
  atvi_io_text_add(&p->body, "</figure>\n");
  put_correlations(p, q);
  put_pairs(&p->pairs, x);
}

/* ---- table ---- */

/* Decimals shared by a row, from its sd, as on the terminal (diag/summary_text.c). -1: significant digits. */
static int decimals(const atvi_summary_column *c) {
  double size = fmax(fmax(fabs(c->quantile[0]), fabs(c->quantile[4])), fabs(c->mean));
  if (!(c->sd > 0) || !(size < 1e7)) return -1;
  int most = 2 - (int)floor(log10(c->sd)), least = most - 1;
  int honest = c->mcse > 0 ? -(int)floor(log10(c->mcse)) : most;
  int n = honest < least ? least : honest > most ? most : honest;
  return n > 6 ? -1 : n < 0 ? 0 : n;
}

static void put_fixed(atvi_page *p, double v, int n) {
  char text[64];
  if (n < 0 || !isfinite(v)) {
    atvi_report_page_number(p, v, 4);
    return;
  }
  snprintf(text, sizeof text, "%s%.*f", v < 0 ? "\xe2\x88\x92" : "", n, fabs(v));
  atvi_report_page_cell(p, text);
}

static void put_column(atvi_page *p, const atvi_summary *s, const atvi_summary_column *c) {
  int n = decimals(c);
  atvi_report_page_row(p, c->name);
  put_fixed(p, c->mean, n);
  put_fixed(p, c->sd, n);
  put_fixed(p, c->mode, n);
  put_fixed(p, c->median, n);
  put_fixed(p, c->hpd95[0], n);
  put_fixed(p, c->hpd95[1], n);
  put_fixed(p, round(c->ess_bulk), 0);
  if (s->chains) {
    put_fixed(p, round(c->ess_tail), 0);
    put_fixed(p, c->rhat, 3);
  }
  atvi_report_page_number(p, c->mcse, 2);
}

static void table_begin(atvi_page *p, const atvi_summary *s, const char *caption, bool folded) {
  static const char *const plain[] = {"",   "mean", "sd",           "mode", "median", "95 % HPD from",
                                      "to", "ESS",  "error of mean"};
  static const char *const chains[] = {"",   "mean", "sd",       "mode",  "median",       "95 % HPD from",
                                       "to", "ESS",  "ESS tail", "R-hat", "error of mean"};
  atvi_report_page_table(p, caption, s->chains ? 11 : 9, s->chains ? chains : plain, folded);
}

/* The end of the array that begins with column k, if it is one that gets a folded table of its own; else k.
 * As on the terminal, long tables leave out long arrays. */
static atvi_idx folded_end(const atvi_summary *s, atvi_idx k) {
  enum { TABLE_MOST = 60, ARRAY_MOST = 8 };
  atvi_idx end = atvi_report_family_end(s, k);
  return s->n_col > TABLE_MOST && end - k > ARRAY_MOST ? end : k;
}

void atvi_report_say_table(atvi_page *p, const atvi_fit_parts *x) {
  const atvi_summary *s = x->r->summary;
  bool derived = false;
  atvi_report_page_section(p, "table", "Table");
  table_begin(p, s, "Posterior of parameters and derived quantities", false);
  for (atvi_idx k = 0, end; k < s->n_col; k = end) {
    if ((end = folded_end(s, k)) > k) continue;
    if (k >= s->n_param && k > 0 && !derived) atvi_report_page_row_part(p, "derived", s->chains ? 11 : 9);
    derived = k >= s->n_param;
    put_column(p, s, &s->col[k]);
    end = k + 1;
  }
  atvi_report_page_table_end(p, false);
  for (atvi_idx k = 0, end; k < s->n_col; k = end) {
    if ((end = folded_end(s, k)) == k) {
      end = k + 1;
      continue;
    }
    const char *name = s->col[k].name;
    table_begin(p, s,
                atvi_pool_printf(p->pool, "The %td elements of %.*s", end - k,
                                 (int)atvi_report_family_name(name), name),
                true);
    for (atvi_idx i = k; i < end; i++) put_column(p, s, &s->col[i]);
    atvi_report_page_table_end(p, true);
  }
  bool above = false;
  for (atvi_idx k = 0; k < s->n_col; k++) above = above || s->col[k].ess_bulk > (double)s->n;
  atvi_report_page_note(
      p,
      "HPD: the shortest interval with that probability. ESS: number of independent draws that give the mean "
      "as precisely%s. The same numbers are in summary.json, the draws in draws.csv.",
      !above      ? ""
      : s->chains ? " (exceeds the number of draws if high and low draws alternate)"
                  : " (exceeds the number of draws if distant ones have smaller weights)");
}

/* ---- bounds ---- */

void atvi_report_say_bounds(atvi_page *p, const atvi_fit_parts *x) {
  static const char *const column[] = {"", "lower bound", "posterior near it", "upper bound",
                                       "posterior near it"};
  atvi_report_page_section(p, "bounds", "Bounds");
  if (x->n_bounded == 0) {
    atvi_report_page_say(p, "No parameter has two hard bounds.");
    return;
  }
  atvi_idx n = 0;
  for (atvi_idx i = 0; i < x->n_bounded; i++)
    n += x->bounded[i]->reaches_lower || x->bounded[i]->reaches_upper;
  if (n == 0)
    atvi_report_page_say(p,
                         "The posterior falls off before every bound: the bounds do not shape the result.");
  else
    atvi_report_page_say(
        p,
        "The posterior of %td of %td parameters reaches a bound, which cuts it off. If such a bound is a "
        "guess rather than a fact, widen the prior and see whether the result changes.",
        n, x->n_bounded);
  atvi_io_text_add(&p->body, "<div class=\"narrow\">");
  atvi_report_page_figure_both(p, atvi_report_figure_bounds(p->pool, 640, x->n_bounded, x->bounded),
                               atvi_report_figure_bounds(p->pool, 380, x->n_bounded, x->bounded),
                               "bounds-figure",
                               "Share of the posterior within 1 % of the range of each bound.");
  atvi_io_text_add(&p->body, "</div>\n");
  atvi_report_page_note(p, "Share of the posterior within 1 %% of the range of each bound; red where the "
                           "bound cuts the posterior (density above 15 %% of its maximum).");
  atvi_report_page_table(p, "Bounds as a table", 5, column, true);
  for (atvi_idx i = 0; i < x->n_bounded; i++) {
    const atvi_summary_column *c = x->bounded[i];
    char low[32], high[32];
    snprintf(low, sizeof low, "%.1f %%", 100 * c->near_lower);
    snprintf(high, sizeof high, "%.1f %%", 100 * c->near_upper);
    atvi_report_page_row(p, c->name);
    atvi_report_page_number(p, c->lower, 4);
    atvi_report_page_cell(p, low);
    atvi_report_page_number(p, c->upper, 4);
    atvi_report_page_cell(p, high);
  }
  atvi_report_page_table_end(p, true);
}

enum {
  FAILURES = 5, /* failed points shown */
  NAMED = 4,    /* parameters named in the sentence about them */
  STEPS = 40,   /* rows of the table of training */
};
static const double TINY = 1e-12, HUGE_SIZE = 1e12; /* failed values written in words */

/* ---- approximations ---- */

/* Values under the pointer, of the steps that the figure shows. */
static void hover_steps(atvi_page *p, const atvi_fit_parts *x, const char *id, const atvi_frame *f,
                        bool (*shown)(const atvi_progress *s)) {
  const atvi_draws *r = x->r->plain;
  double *at = atvi_pool_take(p->pool, 3 * (size_t)r->n_step + 1, sizeof *at);
  double *temperature = at ? at + r->n_step : NULL, *elbo = at ? at + 2 * r->n_step : NULL;
  atvi_idx n = 0;
  for (atvi_idx i = 0; at && i < r->n_step; i++) {
    if (!shown(&r->step[i]) || !isfinite(r->step[i].steps)) continue;
    at[n] = r->step[i].steps;
    temperature[n] = r->step[i].temperature;
    elbo[n++] = r->step[i].elbo;
  }
  const atvi_hover column[] = {{"temperature", temperature}, {"ELBO", elbo}};
  if (at) atvi_report_page_hover(p, id, f, false, "step", n, at, 2, column);
}

static bool has_temperature(const atvi_progress *s) { return isfinite(s->temperature); }
static bool has_elbo(const atvi_progress *s) { return atvi_report_step_has_elbo(s, false); }
static bool has_hot_elbo(const atvi_progress *s) { return atvi_report_step_has_elbo(s, true); }

static void put_elbo(atvi_page *p, const atvi_fit_parts *x, bool hot) {
  const atvi_report_fit *r = x->r;
  atvi_box box = {0, 0, ATVI_REPORT_HALF, ATVI_REPORT_HEIGHT};
  const char *id = hot ? "elbo-hot" : "elbo";
  atvi_canvas *c = atvi_report_canvas_new(p->pool, box.width, box.height);
  atvi_frame f = atvi_report_panel_elbo(c, box, r->plain->n_step, r->plain->step, hot,
                                        hot ? NAN : r->draws->made->log_evidence);
  atvi_report_page_figure(p, c, id,
                          hot ? "Evidence lower bound of the tempered posteriors, each at its temperature."
                              : "Evidence lower bound during training, with the log evidence.");
  hover_steps(p, x, id, &f, hot ? has_hot_elbo : has_elbo);
}

static void put_training(atvi_page *p, const atvi_fit_parts *x) {
  const atvi_report_fit *r = x->r;
  atvi_box box = {0, 0, ATVI_REPORT_HALF, ATVI_REPORT_HEIGHT};
  if (atvi_report_has_ladder(x)) {
    atvi_canvas *c = atvi_report_canvas_new(p->pool, box.width, box.height);
    atvi_frame f = atvi_report_panel_temperature(c, box, r->plain->n_step, r->plain->step);
    atvi_report_page_figure(p, c, "temperature",
                            "Temperature of the tempered posterior while the approximation was trained.");
    hover_steps(p, x, "temperature", &f, has_temperature);
  }
  if (atvi_report_has_elbo(x, true)) put_elbo(p, x, true);
  if (atvi_report_has_elbo(x, false)) put_elbo(p, x, false);
}

static bool says_something(const atvi_progress *s) {
  return isfinite(s->elbo) || isfinite(s->temperature) || isfinite(s->khat);
}

static void put_count(atvi_page *p, double n) {
  atvi_report_page_cell(p, isfinite(n) ? atvi_pool_printf(p->pool, "%.0f", n) : "\xe2\x80\x93");
}

static void put_steps(atvi_page *p, const atvi_draws *r) {
  static const char *const column[] = {"", "seconds", "steps", "component", "temperature", "ELBO", "k-hat"};
  atvi_idx n = 0, shown = 0;
  for (atvi_idx i = 0; i < r->n_step; i++) n += says_something(&r->step[i]);
  if (n == 0) return;
  atvi_idx every = (n + STEPS - 1) / STEPS;
  atvi_report_page_table(p, "Training as a table", 7, column, true);
  for (atvi_idx i = 0; i < r->n_step; i++) {
    const atvi_progress *s = &r->step[i];
    if (!says_something(s) || shown++ % every != 0) continue;
    atvi_report_page_row(p, s->phase);
    atvi_report_page_number(p, s->elapsed_s, 3);
    put_count(p, s->steps);
    put_count(p, s->part);
    atvi_report_page_number(p, s->temperature, 3);
    atvi_report_page_number(p, s->elbo, 6);
    atvi_report_page_number(p, s->khat, 2);
  }
  atvi_report_page_table_end(p, true);
}

static void say_weights(atvi_page *p, const atvi_fit_parts *x) {
  const atvi_summary *s = x->r->summary;
  const atvi_made *m = &s->made;
  if (m->exact > 0) {
    atvi_report_page_say(p, "Chains that start from the trained approximation and become exact replaced it: "
                            "the draws do not depend on it.");
    return;
  }
  if (isnan(m->khat)) {
    atvi_report_page_say(p,
                         "k-hat, which shows whether weights can correct the approximation, is not known.");
    return;
  }
  if (!s->weighted) {
    atvi_report_page_say(p,
                         "k-hat is %.2f; only up to %.2f can weights turn draws of the approximation into "
                         "draws of the posterior. The numbers are those of the approximation.",
                         m->khat, atvi_math_psis_threshold(s->n));
    return;
  }
  const char *khat = atvi_diag_summary_khat(p->pool, s);
  double ess;
  atvi_idx least = atvi_diag_summary_least_ess(s, &ess);
  atvi_report_page_say(p, "%s: the weights turn draws of the approximation into draws of the posterior.",
                       khat ? khat : "");
  atvi_report_page_say(p, "With their weights the %td draws are worth %.0f independent ones (%.0f %%)%s.",
                       s->n, s->ess, 100 * s->ess / (double)s->n,
                       least >= 0 && round(ess) < round(s->ess)
                           ? atvi_pool_printf(p->pool, "; for the mean of a parameter at least %.0f (%s)",
                                              ess, s->col[least].name)
                           : "");
}

static void say_variational(atvi_page *p, const atvi_fit_parts *x) {
  const atvi_made *m = &x->r->summary->made;
  atvi_frame f;
  say_weights(p, x);
  if (m->steps > 0)
    atvi_report_page_say(p, "Training took %.0f steps%s%s.", m->steps,
                         m->rungs > 1 ? atvi_pool_printf(p->pool, " along %.0f temperatures", m->rungs) : "",
                         isnan(m->tuned) ? ""
                         : m->tuned > 0  ? "; fine-tuning helped and was kept"
                                         : "; fine-tuning was tried and undone");
  if (isfinite(m->elbo) && isfinite(m->log_evidence) && !x->r->summary->refused)
    atvi_report_page_say(p,
                         "The log evidence is %.3f and the ELBO %.3f: before weighting, the approximation is "
                         "%.2g nats away from the posterior.",
                         m->log_evidence, m->elbo, fmax(0, m->log_evidence - m->elbo));
  atvi_report_page_grid(p, "half");
  put_training(p, x);
  atvi_canvas *c = x->r->draws->weight ? atvi_report_draw_weights(x, &f) : NULL;
  if (c)
    atvi_report_page_figure(
        p, c, "weights", "Weights of the draws in units of their mean, largest first, on logarithmic axes.");
  atvi_report_page_grid_end(p);
  if (m->modes > 1 && atvi_report_has_elbo(x, false))
    atvi_report_page_note(p, "Each mode has its own component, and its own line in the figures of the ELBO.");
  if (atvi_report_has_elbo(x, true))
    atvi_report_page_note(
        p, "Training starts at a high temperature, where the data count little, and cools down to 1, the "
           "posterior itself. The ELBO has a different level at each temperature: only at temperature 1 is "
           "it a lower bound of the log evidence, and a measure of the fit.");
  if (c)
    atvi_report_page_note(p, "Orange: the tail of the largest weights, which k-hat describes. The flatter "
                             "the weights, the better the approximation.");
  put_steps(p, x->r->plain);
}

/* ---- chains ---- */

/* Chains that agree and are long enough need no attention. */
static bool needs_look(const atvi_summary *s, const atvi_summary_column *c) {
  double wanted = s->made.ess_wanted > 0 ? s->made.ess_wanted : ATVI_SUMMARY_ESS;
  return !(c->rhat <= ATVI_SUMMARY_RHAT) || !(fmin(c->ess_bulk, c->ess_tail) >= wanted);
}

static void put_trace(atvi_page *p, const atvi_fit_parts *x, atvi_idx k, bool ranks) {
  const atvi_summary_column *c = &x->r->summary->col[k];
  const char *what = ranks ? "Ranks of the chains" : "Traces of the chains", *alt;
  char id[24];
  if (isfinite(c->rhat))
    alt = atvi_pool_printf(p->pool, "%s of %s: R-hat %.3f, %.0f effective draws.", what, c->name, c->rhat,
                           c->ess_bulk);
  else
    alt = atvi_pool_printf(p->pool, "%s of %s, which has no R-hat.", what, c->name);
  snprintf(id, sizeof id, ranks ? "k%td" : "t%td", k);
  atvi_report_page_figure(p, atvi_report_draw_trace(x, k, ranks), id, alt ? alt : "");
}

/* Traces and ranks of the parameters that need, or do not need, attention; at most `most`. Returns their
 * number. */
static atvi_idx put_traces(atvi_page *p, const atvi_fit_parts *x, bool look, atvi_idx most) {
  const atvi_summary *s = x->r->summary;
  atvi_idx n = 0;
  bool *in = atvi_pool_take(p->pool, (size_t)s->n_col, sizeof *in);
  if (!in) return 0;
  for (atvi_idx k = 0; k < s->n_param; k++) in[k] = needs_look(s, &s->col[k]) == look;
  atvi_report_keep_most(s, most, in);
  atvi_report_page_grid(p, "half");
  for (atvi_idx k = 0; k < s->n_param; k++) {
    if (!in[k]) continue;
    put_trace(p, x, k, false);
    put_trace(p, x, k, true);
    n++;
  }
  atvi_report_page_grid_end(p);
  return n;
}

static void say_traces(atvi_page *p, const atvi_fit_parts *x) {
  const atvi_summary *s = x->r->summary;
  atvi_idx n = 0, worst = 0;
  for (atvi_idx k = 0; k < s->n_param; k++) {
    n += needs_look(s, &s->col[k]);
    if (s->col[k].rhat > s->col[worst].rhat) worst = k;
  }
  atvi_report_page_heading(p, "Traces and ranks of the chains");
  if (n == 0)
    atvi_report_page_say(
        p,
        "The chains agree about every parameter, and there are enough draws: the largest R-hat is %.3f (%s).",
        s->col[worst].rhat, s->col[worst].name);
  else
    atvi_report_page_say(
        p, "%td of %td parameters need attention: their R-hat is above %.2f, or they have too few draws.", n,
        s->n_param, ATVI_SUMMARY_RHAT);
  atvi_report_page_note(p,
                        "Traces of chains that agree look alike and have no trend. Ranks show how often each "
                        "chain has draws of each rank among all: flat lines around 1 if the chains agree.");
  atvi_idx shown = n > 0 ? put_traces(p, x, true, ATVI_REPORT_TRACES) : 0;
  if (n < s->n_param) {
    atvi_report_page_fold(p, n > 0 ? "The other parameters" : "Traces and ranks of all parameters");
    shown += put_traces(p, x, false, ATVI_REPORT_TRACES - shown);
    atvi_report_page_fold_end(p);
  }
  if (shown < s->n_param)
    atvi_report_page_note(p, "Traces are shown for %td of %td parameters.", shown, s->n_param);
}

static void say_chains(atvi_page *p, const atvi_fit_parts *x) {
  const atvi_made *m = &x->r->summary->made;
  if (isfinite(m->accept))
    atvi_report_page_say(p, "Proposals were accepted %.0f %% of the time.", 100 * m->accept);
  if (isfinite(m->tree_depth))
    atvi_report_page_say(p,
                         "Divergences: %.0f. Energy fraction of missing information: %.2f. Mean tree depth: "
                         "%.1f; trees cut off: %.0f.",
                         m->divergences, m->ebfmi, m->tree_depth, m->max_depth_hits);
  if (!atvi_report_has_chains(x)) return;
  say_traces(p, x);
}

void atvi_report_say_convergence(atvi_page *p, const atvi_fit_parts *x) {
  atvi_report_page_section(p, "convergence", "Convergence");
  if (atvi_diag_made_variational(&x->r->summary->made)) say_variational(p, x);
  if (x->r->summary->chains) say_chains(p, x);
  if (!atvi_diag_made_variational(&x->r->summary->made) && !x->r->summary->chains)
    atvi_report_page_say(
        p,
        "The draws come from a normal distribution around the maximum of the posterior (Laplace's method)%s.",
        x->r->summary->made.efficiency < 0.3 ? ", which describes the posterior poorly" : "");
}

/* ---- cost ---- */

static const char *ending(atvi_end end) {
  return end == ATVI_END_DONE    ? "It ended when it met its own criteria."
         : end == ATVI_END_LIMIT ? "It ended because a limit was reached."
                                 : "It was asked to stop.";
}

/* The end of a parameter's posterior beyond which all failed points lie; 0: neither. */
static int beyond(const atvi_report_fit *r, atvi_idx n, atvi_idx k) {
  const atvi_summary_column *c = &r->summary->col[k];
  atvi_idx below = 0, above = 0;
  for (atvi_idx i = 0; i < n; i++) {
    below += r->plain->failed[i].value[k] < c->quantile[0];
    above += r->plain->failed[i].value[k] > c->quantile[4];
  }
  return below == n ? -1 : above == n ? 1 : 0;
}

/* "k1 below 0.2, V above 31": what the failed points have in common. NULL: nothing, or out of memory. */
static const char *in_common(atvi_pool *pool, const atvi_report_fit *r, atvi_idx n) {
  const atvi_summary *s = r->summary;
  const char *list = NULL;
  for (atvi_idx k = 0, named = 0; k < s->n_param && named < NAMED; k++) {
    int side = beyond(r, n, k);
    char edge[ATVI_TICK_LABEL];
    if (side == 0) continue;
    atvi_report_write_number(edge, s->col[k].quantile[side < 0 ? 0 : 4], 3);
    list = atvi_pool_printf(pool, "%s%s%s %s %s", list ? list : "", named ? ", " : "", s->col[k].name,
                            side < 0 ? "below" : "above", edge);
    named++;
  }
  return list;
}

/* A number from the far end of a prior is only "small" or "large". */
static void put_far(atvi_page *p, double v) {
  double size = fabs(v);
  if (size > 0 && size < TINY)
    atvi_report_page_cell(p, "almost 0");
  else if (size > HUGE_SIZE && isfinite(v))
    atvi_report_page_cell(p, v < 0 ? "hugely negative" : "huge");
  else
    atvi_report_page_number(p, v, 3);
}

static void put_failures(atvi_page *p, const atvi_report_fit *r) {
  const atvi_summary *s = r->summary;
  const char **column = atvi_pool_take(p->pool, (size_t)s->n_param + 2, sizeof *column);
  atvi_idx n = r->plain->n_failed < FAILURES ? r->plain->n_failed : FAILURES;
  if (!column || n == 0) return;
  column[0] = "";
  column[1] = "why";
  for (atvi_idx k = 0; k < s->n_param; k++) column[k + 2] = s->col[k].name;
  const char *common = in_common(p->pool, r, n);
  if (common)
    atvi_report_page_say(p, "All recorded failed points lie outside the posterior: %s.", common);
  else
    atvi_report_page_say(p, "No single parameter separates the failed points from the posterior.");
  atvi_report_page_table(p, "Points at which the model could not be run", (int)s->n_param + 2, column, true);
  for (atvi_idx i = 0; i < n; i++) {
    char name[32];
    snprintf(name, sizeof name, "%td", i + 1);
    atvi_report_page_row(p, name);
    atvi_report_page_words(p, atvi_outcome_word(r->plain->failed[i].outcome));
    for (atvi_idx k = 0; k < s->n_param; k++) put_far(p, r->plain->failed[i].value[k]);
  }
  atvi_report_page_table_end(p, true);
  if (s->made.failures > n)
    atvi_report_page_note(p, "These are %td of the %" PRId64 " failed points, chosen at random.", n,
                          s->made.failures);
}

static void say_error(atvi_page *p, double error) {
  char text[ATVI_TICK_LABEL];
  atvi_report_write_number(text, error, 2);
  atvi_report_page_say(
      p, "The solver's error changes the log likelihood by at most %s at draws of the posterior.", text);
}

void atvi_report_say_cost(atvi_page *p, const atvi_fit_parts *x) {
  const atvi_made *m = &x->r->summary->made;
  atvi_report_page_section(p, "cost", "Cost");
  if (x->r->n_emulator > 0)
    atvi_report_page_say(p,
                         "%.3g seconds, %" PRId64
                         " evaluations of the likelihood with the emulator; the simulator was not run. %s",
                         m->seconds, m->evaluations, ending(m->end));
  else
    atvi_report_page_say(
        p, "%.3g seconds, %" PRId64 " runs of the model, of which %s failed. %s", m->seconds, m->evaluations,
        m->failures > 0 ? atvi_pool_printf(p->pool, "%" PRId64, m->failures) : "none", ending(m->end));
  if (m->log_lik_error > 0) say_error(p, m->log_lik_error);
  put_failures(p, x->r);
}

/* ---- how to repeat it ---- */

void atvi_report_say_again(atvi_page *p, const atvi_fit_parts *x) {
  const atvi_report_fit *r = x->r;
  atvi_report_page_section(p, "again", "Model and command");
  if (r->plain->about->command) {
    if (!r->summary || r->summary->made.end == ATVI_END_DONE)
      atvi_report_page_say(
          p,
          "With this version of atvi (%s) the same command gives the same draws, on any number of threads:",
          ATVI_VERSION);
    else
      atvi_report_page_say(
          p, "The fit ended early, so a repeated fit may end elsewhere. The command, with atvi %s, was:",
          ATVI_VERSION);
    atvi_report_page_command(p, r->plain->about->command);
  }
  if (r->text) atvi_report_page_listing(p, "The model file", r->text, true);
  if (r->how) atvi_report_page_listing(p, "How the fit was called (fit.json)", r->how, false);
}
