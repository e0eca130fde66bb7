/* SPDX-License-Identifier: MIT */
/* Figures of a fit's report, for the page and as files. */
#include "io/file.h"
#include "report/fit.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
  LONG = 110,
  HEIGHT = ATVI_REPORT_HEIGHT,
  TRACE_POINTS = 1600,
  ALONE_ROWS = 700,
  ACROSS = 3,
  ACROSS_HALF = 2
};
static const double HALF = ATVI_REPORT_HALF, CARD_W = 300, CARD_H = 170;

bool atvi_report_long(const atvi_predicted *s) {
  atvi_idx n = 0;
  for (atvi_idx i = 0; i < s->n; i++) n += !s->point[i].grid;
  return n > LONG;
}

atvi_calendar atvi_report_calendar(const atvi_draws *d) {
  return (atvi_calendar){d->about->day0, d->about->day_unit};
}

atvi_canvas *atvi_report_draw_series(atvi_pool *pool, const atvi_predicted *s, const atvi_series_view *v,
                                     bool log, double width, atvi_frame *f) {
  double height = width > ATVI_REPORT_SMALL ? HEIGHT : ATVI_REPORT_SMALL_HEIGHT;
  atvi_canvas *c = atvi_report_canvas_new(pool, width, height);
  *f = atvi_report_panel_series(c, (atvi_box){0, 0, width, height}, s, v, log);
  return c;
}

atvi_canvas *atvi_report_draw_residuals(atvi_pool *pool, const atvi_predicted *s, const atvi_series_view *v,
                                        double width, atvi_frame *f) {
  atvi_canvas *c = atvi_report_canvas_new(pool, width, HEIGHT - 40);
  *f = atvi_report_panel_residuals(c, (atvi_box){0, 0, width, HEIGHT - 40}, s, v);
  return c;
}

atvi_canvas *atvi_report_draw_marginal(const atvi_fit_parts *x, atvi_idx k, atvi_frame *f) {
  atvi_canvas *c = atvi_report_canvas_new(x->pool, CARD_W, CARD_H);
  *f = atvi_report_panel_density(c, (atvi_box){0, 0, CARD_W, CARD_H}, &x->marginal[k]);
  return c;
}

atvi_canvas *atvi_report_draw_array(const atvi_fit_parts *x, const char *name, atvi_idx from, atvi_idx n,
                                    double width, atvi_frame *f) {
  atvi_canvas *c = atvi_report_canvas_new(x->pool, width, HEIGHT);
  *f = atvi_report_panel_intervals(c, (atvi_box){0, 0, width, HEIGHT}, name, n, x->r->summary->col + from);
  return c;
}

atvi_canvas *atvi_report_draw_pairs(const atvi_fit_parts *x) {
  static const double WIDTH = 860;
  if (x->n_pick < 2) return NULL;
  atvi_canvas *c = atvi_report_canvas_new(x->pool, WIDTH, WIDTH - 10);
  atvi_report_figure_pairs(c, &x->pairs, x->n_pick, x->pick);
  return c;
}

atvi_canvas *atvi_report_draw_weights(const atvi_fit_parts *x, atvi_frame *f) {
  const atvi_draws *d = x->r->draws;
  atvi_canvas *c = atvi_report_canvas_new(x->pool, HALF, HEIGHT);
  *f = atvi_report_panel_weights(c, (atvi_box){0, 0, HALF, HEIGHT}, d->n, d->weight, d->made->khat, x->work);
  return c;
}

bool atvi_report_has_elbo(const atvi_fit_parts *x, bool hot) {
  atvi_idx n = 0;
  for (atvi_idx i = 0; i < x->r->plain->n_step; i++)
    n += atvi_report_step_has_elbo(&x->r->plain->step[i], hot);
  return n >= 2;
}

bool atvi_report_has_ladder(const atvi_fit_parts *x) {
  atvi_idx n = 0, hot = 0;
  for (atvi_idx i = 0; i < x->r->plain->n_step; i++) {
    n += isfinite(x->r->plain->step[i].temperature);
    hot += x->r->plain->step[i].temperature > 1;
  }
  return n >= 2 && hot > 0;
}

bool atvi_report_has_chains(const atvi_fit_parts *x) {
  const atvi_draws *d = x->r->draws;
  return d->chains && d->n / d->n_chain >= 4;
}

static void draw_chains(const atvi_fit_parts *x, atvi_canvas *c, atvi_box box, atvi_idx k, bool ranks) {
  const atvi_draws *d = x->r->draws;
  const char *name = x->r->summary->col[k].name;
  if (ranks)
    atvi_report_panel_ranks(c, box, name, d->n_chain, d->n / d->n_chain, d->x + k * d->n, x->work);
  else
    atvi_report_panel_trace(c, box, name, d->n_chain, d->n / d->n_chain, d->x + k * d->n, TRACE_POINTS);
}

atvi_canvas *atvi_report_draw_trace(const atvi_fit_parts *x, atvi_idx k, bool ranks) {
  atvi_box box = {0, 0, CARD_W + 20, CARD_H + 20};
  atvi_canvas *c = atvi_report_canvas_new(x->pool, box.width, box.height);
  draw_chains(x, c, box, k, ranks);
  return c;
}

/* ---- files ---- */

static atvi_status save(atvi_pool *pool, const char *dir, const char *name, const char *kind,
                        atvi_text *text) {
  const char *body, *file = atvi_pool_printf(pool, "figures/%s.%s", name, kind);
  ATVI_TRY(atvi_io_text_get(text, &body));
  if (!file) return ATVI_ENOMEM;
  return atvi_io_file_save_in(pool, dir, file, body);
}

atvi_status atvi_report_save_figure(atvi_pool *pool, const char *dir, const char *name, const char *title,
                                    const atvi_canvas *c) {
  const char *folder = atvi_pool_printf(pool, "%s/figures", dir);
  if (!folder || !c) return ATVI_ENOMEM;
  ATVI_TRY(atvi_io_dir_make(atvi_pool_ctx(pool), folder, false));
  atvi_text svg = {.pool = pool}, pdf = {.pool = pool};
  atvi_report_canvas_svg(c, &(atvi_svg_opts){.id = name, .title = title}, &svg);
  atvi_report_canvas_pdf(c, title, &pdf);
  ATVI_TRY(save(pool, dir, name, "svg", &svg));
  return save(pool, dir, name, "pdf", &pdf);
}

atvi_status atvi_report_save_page(atvi_pool *pool, const char *dir, const char *html) {
  return atvi_io_file_save_in(pool, dir, "report.html", html);
}

/* Panels of one size, `across` per line. */
static atvi_box place(atvi_idx k, atvi_idx across, double width, double height) {
  return (atvi_box){(double)(k % across) * width, (double)(k / across) * height, width, height};
}

static atvi_canvas *sheet(atvi_pool *pool, atvi_idx n, atvi_idx across, double width, double height) {
  atvi_idx lines = (n + across - 1) / across;
  return atvi_report_canvas_new(pool, width * (double)(n < across ? n : across),
                                height * (double)(lines > 0 ? lines : 1));
}

static atvi_status save_forecast(atvi_pool *pool, const char *dir, atvi_idx n, const atvi_predicted *const *s,
                                 const atvi_series_view *view) {
  bool wide = n == 1, held = false;
  for (atvi_idx k = 0; k < n; k++) {
    wide = wide || atvi_report_long(s[k]);
    for (atvi_idx i = 0; i < s[k]->n; i++) held = held || s[k]->point[i].held;
  }
  double width = wide ? 2 * HALF : HALF, top = atvi_report_series_legend(NULL, 2 * HALF, held);
  atvi_idx across = wide ? 1 : ACROSS_HALF;
  atvi_canvas *c = atvi_report_canvas_new(pool, 2 * HALF, top + HEIGHT * (double)((n + across - 1) / across));
  atvi_report_series_legend(c, 2 * HALF, held);
  for (atvi_idx k = 0; k < n; k++) {
    atvi_box box = place(k, across, width, HEIGHT);
    box.y += top;
    atvi_report_panel_series(c, box, s[k], &view[k], false);
  }
  return atvi_report_save_figure(pool, dir, "forecast", "Data and forecast", c);
}

atvi_status atvi_report_save_forecast(atvi_pool *pool, const char *dir, atvi_idx n,
                                      const atvi_predicted *series, atvi_calendar calendar,
                                      const char *time_name) {
  const char *below = calendar.unit > 0 ? NULL : time_name ? time_name : "row";
  const atvi_predicted **some = atvi_pool_take(pool, (size_t)n + 1, sizeof *some);
  for (atvi_idx s = 0; some && s < n; s++) some[s] = atvi_report_series_thin(pool, &series[s], ALONE_ROWS);
  const atvi_series_view *view = some ? atvi_report_series_views(pool, n, some, calendar, below, true) : NULL;
  if (!view) return ATVI_ENOMEM;
  return save_forecast(pool, dir, n, some, view);
}

/* Panels of a figure: series that are not of units, then units as the page shows them at first; residuals of all units are one panel.
 * Returns how many there are; s and v may be NULL. */
static atvi_idx panels(const atvi_fit_parts *x, bool residuals, const atvi_predicted **s,
                       const atvi_series_view **v) {
  atvi_idx n = 0;
  for (atvi_idx k = 0; k < x->n_observed; k++) {
    if (x->of_unit[k]) continue;
    if (s) s[n] = residuals ? &x->r->series[k] : x->series[k], v[n] = &x->view[k];
    n++;
  }
  for (atvi_idx u = 0; u < x->n_units; u++) {
    const atvi_report_units *of = &x->units[u];
    if (of->single && of->kind == ATVI_SERIES_OBSERVED) {
      if (s) s[n] = &of->all, v[n] = &of->view;
      n++;
      continue;
    }
    for (atvi_idx k = 0; of->kind == ATVI_SERIES_OBSERVED && k < (residuals ? 1 : of->n_shown); k++) {
      if (s) s[n] = residuals ? &of->all : x->series[of->series[k]], v[n] = &x->view[of->series[k]];
      n++;
    }
  }
  return n;
}

static atvi_status save_series(const atvi_fit_parts *x, const char *dir, bool residuals) {
  atvi_idx n = panels(x, residuals, NULL, NULL);
  const atvi_predicted **some = atvi_pool_take(x->pool, (size_t)n + 1, sizeof *some);
  const atvi_series_view **view = atvi_pool_take(x->pool, (size_t)n + 1, sizeof *view);
  bool wide = false;
  if (!some || !view) return ATVI_ENOMEM;
  panels(x, residuals, some, view);
  for (atvi_idx s = 0; s < n; s++) wide = wide || atvi_report_long(some[s]);
  double width = wide ? 2 * HALF : HALF, height = residuals ? HEIGHT - 40 : HEIGHT;
  atvi_idx across = wide ? 1 : ACROSS_HALF;
  atvi_canvas *c = sheet(x->pool, n + residuals, across, width, height);
  for (atvi_idx s = 0; s < n; s++) {
    atvi_box box = place(s, across, width, height);
    if (residuals)
      atvi_report_panel_residuals(c, box, some[s], view[s]);
    else
      atvi_report_panel_series(c, box, some[s], view[s], false);
  }
  if (residuals) atvi_report_panel_pit(c, place(n, across, width, height), &x->pit);
  return atvi_report_save_figure(x->pool, dir, residuals ? "residuals" : "data",
                                 residuals ? "Standardised residuals" : "Data and posterior predictive bands",
                                 c);
}

static atvi_status save_marginals(const atvi_fit_parts *x, const char *dir) {
  atvi_canvas *c = sheet(x->pool, x->n_col, ACROSS, CARD_W, CARD_H);
  for (atvi_idx k = 0; k < x->n_col; k++)
    atvi_report_panel_density(c, place(k, ACROSS, CARD_W, CARD_H), &x->marginal[k]);
  return atvi_report_save_figure(x->pool, dir, "marginals", "Marginal posterior densities", c);
}

static atvi_status save_training(const atvi_fit_parts *x, const char *dir) {
  const atvi_report_fit *r = x->r;
  bool elbo = atvi_report_has_elbo(x, false), hot = atvi_report_has_elbo(x, true),
       ladder = atvi_report_has_ladder(x);
  atvi_idx n = elbo + hot + ladder, k = 0;
  if (n == 0) return ATVI_OK;
  atvi_canvas *c = sheet(x->pool, n, ACROSS_HALF, HALF, HEIGHT);
  if (ladder)
    atvi_report_panel_temperature(c, place(k++, ACROSS_HALF, HALF, HEIGHT), r->plain->n_step, r->plain->step);
  if (hot)
    atvi_report_panel_elbo(c, place(k++, ACROSS_HALF, HALF, HEIGHT), r->plain->n_step, r->plain->step, true,
                           NAN);
  if (elbo)
    atvi_report_panel_elbo(c, place(k++, ACROSS_HALF, HALF, HEIGHT), r->plain->n_step, r->plain->step, false,
                           r->draws->made->log_evidence);
  return atvi_report_save_figure(x->pool, dir, "training", "Training", c);
}

static atvi_status save_chains(const atvi_fit_parts *x, const char *dir, bool ranks) {
  const atvi_draws *d = x->r->draws;
  atvi_idx n = d->n_param < ATVI_REPORT_TRACES ? d->n_param : ATVI_REPORT_TRACES;
  double w = CARD_W + 20, h = CARD_H + 20;
  atvi_canvas *c = sheet(x->pool, n, ACROSS, w, h);
  for (atvi_idx k = 0; k < n; k++) draw_chains(x, c, place(k, ACROSS, w, h), k, ranks);
  return atvi_report_save_figure(x->pool, dir, ranks ? "ranks" : "traces",
                                 ranks ? "Ranks of chains" : "Traces", c);
}

static atvi_status save_made(const atvi_fit_parts *x, const char *dir) {
  atvi_frame f;
  ATVI_TRY(save_training(x, dir));
  if (atvi_report_has_chains(x)) {
    ATVI_TRY(save_chains(x, dir, false));
    ATVI_TRY(save_chains(x, dir, true));
  }
  if (!x->r->draws->weight) return ATVI_OK;
  return atvi_report_save_figure(x->pool, dir, "weights", "Importance weights",
                                 atvi_report_draw_weights(x, &f));
}

static atvi_status save_figures(const atvi_fit_parts *x, const char *dir) {
  if (x->n_observed > 0) ATVI_TRY(save_series(x, dir, false));
  if (x->pit.n > 0) ATVI_TRY(save_series(x, dir, true));
  atvi_idx ahead = 0;
  while (ahead < x->n_forecast && x->forecast[ahead]->kind == ATVI_SERIES_OBSERVED) ahead++;
  if (ahead > 0) ATVI_TRY(save_forecast(x->pool, dir, ahead, x->forecast, x->forecast_view));
  if (x->n_col > 0) ATVI_TRY(save_marginals(x, dir));
  if (x->n_pick > 1)
    ATVI_TRY(
        atvi_report_save_figure(x->pool, dir, "pairs", "Pairs of parameters", atvi_report_draw_pairs(x)));
  if (x->n_bounded > 0)
    ATVI_TRY(atvi_report_save_figure(x->pool, dir, "bounds", "Posterior near the bounds",
                                     atvi_report_figure_bounds(x->pool, 640, x->n_bounded, x->bounded)));
  return save_made(x, dir);
}

static atvi_status write_page(const atvi_fit_parts *x, const char **html) {
  const atvi_report_fit *r = x->r;
  atvi_page p = atvi_report_page_begin(x->pool, r->plain->about->title, !r->summary);
  atvi_report_say_head(&p, x);
  atvi_report_say_data(&p, x);
  if (r->summary) {
    atvi_report_say_forecast(&p, x);
    atvi_report_say_marginals(&p, x);
    atvi_report_say_pairs(&p, x);
    atvi_report_say_table(&p, x);
    atvi_report_say_bounds(&p, x);
    atvi_report_say_convergence(&p, x);
    atvi_report_say_residuals(&p, x);
    atvi_report_say_emulators(&p, x);
    atvi_report_say_cost(&p, x);
  }
  atvi_report_say_again(&p, x);
  return atvi_report_page_end(&p, html);
}

atvi_status atvi_report_fit_page(atvi_pool *pool, const atvi_report_fit *r, const char **html) {
  atvi_fit_parts x;
  *html = NULL;
  ATVI_TRY(atvi_report_parts_make(pool, r, &x));
  return write_page(&x, html);
}

atvi_status atvi_report_fit_save(atvi_pool *pool, const atvi_report_fit *r, const char *dir) {
  atvi_fit_parts x;
  const char *html;
  ATVI_TRY(atvi_report_parts_make(pool, r, &x));
  ATVI_TRY(write_page(&x, &html));
  ATVI_TRY(atvi_report_save_page(pool, dir, html));
  return r->summary ? save_figures(&x, dir) : ATVI_OK;
}
