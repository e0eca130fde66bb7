/* SPDX-License-Identifier: MIT */
#include "io/file.h"
#include "math/rng.h"
#include "page_check.h"
#include "points.h"
#include "report/report.h"
#include <jansson.h>
#include <unistd.h>

static const char EVIL[] = "a<script>alert(1)</script>&\"b'";

typedef struct {
  atvi_ctx *ctx;
  atvi_pool *pool;
  atvi_draws *draws;
  atvi_report_fit r;
} world;

static const double TIME[5] = {0, 1, 2, 3, 4}, VALUE[5] = {1, 3, NAN, 5, 2}, MEAN[5] = {1, 2, 3, 4, 3},
                    LOW[5] = {0, 0, 1, 2, 1}, HIGH[5] = {3, 4, 5, 7, 5}, RESIDUAL[5] = {0, 1, NAN, 0.5, -0.5},
                    PIT[5] = {0.4, 0.8, NAN, 0.6, 0.3};
static atvi_predicted SERIES[2];
static void make_series(void) {
  SERIES[0] = points((columns){.name = EVIL,
                               .n = 5,
                               .time = TIME,
                               .value = VALUE,
                               .mean = MEAN,
                               .mean_low = LOW,
                               .mean_high = HIGH,
                               .low = LOW,
                               .high = HIGH,
                               .residual = RESIDUAL,
                               .pit = PIT});
  SERIES[1] = points((columns){.name = "burden",
                               .kind = ATVI_SERIES_TRACKED,
                               .n = 5,
                               .time = TIME,
                               .mean = MEAN,
                               .mean_low = LOW,
                               .mean_high = HIGH});
}
static const atvi_progress STEP[5] = {{"annealing", 0.1, 0.1, "", 20, 50, -12.5, 1, NAN, NAN, NAN, 0},
                                      {"annealing", 0.2, 0.2, "", 40, 5, -44.75, 1, NAN, NAN, NAN, 0},
                                      {"training", 0.5, 0.3, "", 100, 1, -97.9, 1, NAN, NAN, NAN, 0},
                                      {"training", 0.9, 0.4, "", 150, 1, -97.2, 1, NAN, NAN, NAN, 0},
                                      {"weighing", 0.9, 0.5, "", 150, NAN, NAN, NAN, 0.31, NAN, NAN, 0}};

static const double FAILED_AT[64] = {1.5};
static const atvi_failed_point FAILURE = {FAILED_AT, ATVI_RUN_NONFINITE};

static double prior(const void *user, atvi_idx col, double a, double b) {
  (void)user, (void)col;
  return (b - a) / 100;
}

/* A fit of n_param parameters and one derived quantity. */
static atvi_status world_new(world *w, atvi_idx n, atvi_idx n_chain, atvi_idx n_param, bool weighted) {
  atvi_column col[64];
  char name[64][40];
  atvi_summary *s;
  for (atvi_idx k = 0; k <= n_param; k++) {
    snprintf(name[k], sizeof name[k], "%s%td", k == 1 ? EVIL : k == 61 ? "scale" : "theta.", k);
    col[k] = (atvi_column){name[k], k == 0 ? 0 : -50, k == n_param ? HUGE_VAL : 50};
  }
  col[n_param].lower = -HUGE_VAL;
  ATVI_TRY(atvi_draws_new(w->ctx, n, n_chain, n_param, n_param + 1, col, weighted, &w->draws));
  atvi_draws *d = w->draws;
  atvi_rng r = atvi_math_rng_at(3, 1, 0, 0);
  double sum = 0;
  for (atvi_idx i = 0; i < n; i++) {
    double z = atvi_math_rng_normal(&r);
    for (atvi_idx k = 0; k <= n_param; k++)
      d->x[k * n + i] = (k % 2 ? 1 : -0.7) * z + atvi_math_rng_normal(&r);
    d->x[i] = fabs(d->x[i]);
    d->log_prior[i] = -3;
    d->log_lik[i] = -90 - 0.5 * z * z;
    if (weighted) sum += d->weight[i] = exp(0.1 * z);
  }
  for (atvi_idx i = 0; weighted && i < n; i++) d->weight[i] /= sum;
  d->made->method = weighted ? "atvi" : "ram";
  d->made->model = "m";
  d->made->khat = weighted ? 0.3 : NAN;
  d->made->seconds = 1.5;
  d->made->evaluations = 1000;
  d->made->failures = 3;
  d->made->log_evidence = -97.1, d->made->log_evidence_se = 0.01, d->made->elbo = -97.2;
  if (weighted) d->made->steps = 150;
  d->log_lik[4] = NAN;
  ATVI_TRY(atvi_draws_say(d, ATVI_NOTE, ATVI_CODE_NONE, "Something to say of %s.", EVIL));
  ATVI_TRY(atvi_diag_summary_new(w->pool, d, &s));
  double *x;
  atvi_idx draw[20];
  for (atvi_idx i = 0; i < 20; i++) draw[i] = i;
  ATVI_TRY(atvi_draws_group_new(d, "mean", 10, 20, draw, &x));
  *d->about = (atvi_about){.title = EVIL, .time_name = "day", .command = "atvi fit 'a<b'"};
  ATVI_TRY(atvi_draws_history(d, 5, STEP));
  d->n_failed = 1, d->failed = &FAILURE;
  w->r = (atvi_report_fit){.file = "dir/<m>.atvi",
                           .summary = s,
                           .draws = d,
                           .plain = d,
                           .prior = prior,
                           .n_series = 2,
                           .series = SERIES,
                           .how = "{\"method\": \"atvi\"}",
                           .text = "param a ~ uniform(0, 1) # <&>"};
  return ATVI_OK;
}

static void world_open(world *w) {
  *w = (world){.ctx = test_ctx()};
  if (!SERIES[0].point) make_series();
  CHECK_OK(atvi_pool_new(w->ctx, &w->pool));
}

static void world_close(world *w) {
  atvi_draws_free(w->draws);
  atvi_pool_free(w->pool);
  atvi_ctx_free(w->ctx);
  CHECK_INT(test_live, 0);
}

/* In the order that a reader needs. */
static void check_order(const char *html, int n, const char *const *id) {
  const char *at = html;
  for (int k = 0; k < n; k++) {
    char want[64];
    snprintf(want, sizeof want, "<section id=\"%s\">", id[k]);
    at = strstr(at, want);
    CHECK_MSG(at != NULL, "no section %s, or too early", id[k]);
  }
}

/* ---- arrays, traces and failed points ---- */

/* Columns theta.2 .. theta.9 stand side by side: an array. */
static void arrays_are_one_figure(void) {
  world w;
  const char *html;
  world_open(&w);
  CHECK_OK(world_new(&w, 400, 1, 10, true));
  CHECK_OK(atvi_report_fit_page(w.pool, &w.r, &html));
  json_t *data = check_page(html), *figs = json_object_get(data, "figs");
  const char *array = strstr(html, "<svg id=\"a2\""),
             *fold = strstr(html, "Densities of the elements of theta");
  CHECK(array && strstr(html, "<svg id=\"a2n\"") && fold > array);
  CHECK(strstr(html, "<svg id=\"m0\"") < array && strstr(html, "<svg id=\"m2\"") > fold);
  json_t *names = json_object_get(json_object_get(figs, "a2"), "s");
  CHECK_INT(json_array_size(names), 8);
  CHECK_STR(json_string_value(json_array_get(names, 7)), "theta.9");
  json_decref(data);
  world_close(&w);
  world_open(&w);
  CHECK_OK(world_new(&w, 400, 1, 6, true)); /* four elements are no more than four densities */
  CHECK_OK(atvi_report_fit_page(w.pool, &w.r, &html));
  CHECK(!strstr(html, "<svg id=\"a2\""));
  world_close(&w);
}

static void traces_that_need_no_look_are_folded(void) {
  world w;
  const char *html;
  world_open(&w);
  CHECK_OK(world_new(&w, 8000, 4, 3, false));
  CHECK_OK(atvi_report_fit_page(w.pool, &w.r, &html));
  const char *fold = strstr(html, "Traces and ranks of all parameters");
  CHECK(fold && strstr(html, "The chains agree about every parameter"));
  CHECK(strstr(html, "<svg id=\"t0\"") > fold && strstr(html, "<svg id=\"k2\"") > fold);
  ((atvi_summary *)(void *)w.r.summary)->col[1].rhat = 1.2; /* this one does not agree */
  CHECK_OK(atvi_report_fit_page(w.pool, &w.r, &html));
  fold = strstr(html, "The other parameters");
  CHECK(fold && strstr(html, "1 of 3 parameters need attention"));
  CHECK(strstr(html, "<svg id=\"t1\"") < fold && strstr(html, "<svg id=\"t0\"") > fold);
  world_close(&w);
}

static void failed_points_are_described(void) {
  static const double at[2][64] = {{900, 1e-320, 0.1}, {70, 1e200, 0.2}};
  static const atvi_failed_point failed[2] = {{at[0], ATVI_RUN_STEPS}, {at[1], ATVI_RUN_SMALL}};
  world w;
  const char *html;
  world_open(&w);
  CHECK_OK(world_new(&w, 400, 1, 3, true));
  w.draws->n_failed = 2, w.draws->failed = failed;
  CHECK_OK(atvi_report_fit_page(w.pool, &w.r, &html));
  const char *say = strstr(html, "lie outside the posterior: theta.0 above ");
  CHECK(say && !strstr(html, "theta.2 above") && !strstr(html, "e-3") && strstr(html, "almost 0"));
  CHECK(strstr(html, ">huge<"));
  world_close(&w);
}

/* Where there are more quantities than densities, than can be paired, and than traces, single ones go before
 * the elements of a long array: of 62 parameters 0, 1 and 61, and the derived 62. */
static void single_quantities_go_first(void) {
  world w;
  const char *html;
  world_open(&w);
  CHECK_OK(world_new(&w, 400, 1, 62, true));
  CHECK_OK(atvi_report_fit_page(w.pool, &w.r, &html));
  json_t *data = check_page(html), *names = json_object_get(json_object_get(data, "pairs"), "names");
  CHECK(strstr(html, "<svg id=\"m0\"") && strstr(html, "<svg id=\"m61\"") && strstr(html, "<svg id=\"m62\""));
  CHECK(strstr(html, "<svg id=\"m57\"") && !strstr(html, "<svg id=\"m58\""));
  CHECK(strstr(html, "Densities are shown for 60 of 63 quantities"));
  CHECK_INT(json_array_size(names), 30);
  CHECK_STR(json_string_value(json_array_get(names, 27)), "theta.27");
  CHECK_STR(json_string_value(json_array_get(names, 28)), "scale61");
  CHECK_STR(json_string_value(json_array_get(names, 29)), "theta.62");
  json_decref(data);
  world_close(&w);
  world_open(&w);
  CHECK_OK(world_new(&w, 8000, 4, 62, false));
  CHECK_OK(atvi_report_fit_page(w.pool, &w.r, &html));
  CHECK(strstr(html, "<svg id=\"t61\"") && strstr(html, "<svg id=\"t28\"") &&
        !strstr(html, "<svg id=\"t29\""));
  world_close(&w);
}

/* ---- fits ---- */

static void weighted_fit(void) {
  static const char *const order[] = {"data",        "parameters", "pairs", "table", "bounds",
                                      "convergence", "residuals",  "cost",  "again"};
  world w;
  const char *html;
  world_open(&w);
  CHECK_OK(world_new(&w, 3000, 1, 4, true));
  CHECK_OK(atvi_report_fit_page(w.pool, &w.r, &html));
  json_t *data = check_page(html);
  check_order(html, 9, order);
  CHECK(strstr(html, "<div class=\"verdict "));
  CHECK(strstr(html, "atvi fit &#39;a&lt;b&#39;"));
  CHECK(strstr(html, "uniform(0, 1) # &lt;&amp;&gt;"));
  CHECK(strstr(html, "1000 runs of the model, of which 3 failed"));
  CHECK(strstr(html, "Points at which the model could not be run"));
  for (const char *const *f = (const char *const[]){"s0", "s1", "m0", "m4", "pairs-plot", "weights", "elbo",
                                                    "temperature", "r0", "pit", NULL};
       *f; f++) {
    char id[32];
    snprintf(id, sizeof id, "<svg id=\"%s\"", *f);
    CHECK_MSG(strstr(html, id) != NULL, "no figure %s", *f);
  }
  json_t *pairs = json_object_get(data, "pairs");
  CHECK_INT(json_array_size(json_object_get(pairs, "names")), 5);
  CHECK_INT(json_integer_value(json_object_get(pairs, "n")), 500);
  CHECK_INT(strlen(json_string_value(json_array_get(json_object_get(pairs, "d"), 2))), 1000);
  CHECK_INT(json_object_size(json_object_get(pairs, "k")), 10);
  json_t *hover = json_object_get(json_object_get(data, "figs"), "s0");
  CHECK(json_number_value(
            json_array_get(json_array_get(json_array_get(json_object_get(hover, "v"), 0), 1), 3)) == 5);
  json_decref(data);
  const char *again;
  CHECK_OK(atvi_report_fit_page(w.pool, &w.r, &again));
  CHECK_STR(html, again);
  world_close(&w);
}

/* What the head and the convergence say of weights, and of training at other temperatures. */
static void words_about_weights(void) {
  static const atvi_progress hot[4] = {{"annealing", 0.1, 0.1, "", 20, 50, -12.5, 1, NAN, NAN, NAN, 0},
                                       {"annealing", 0.2, 0.2, "", 40, 5, -44.75, 1, NAN, NAN, NAN, 0},
                                       {"training", 0.5, 0.3, "", 100, 1, -97.9, 1, NAN, NAN, NAN, 0},
                                       {"training", 0.9, 0.4, "", 150, 1, -97.2, 1, NAN, NAN, NAN, 0}};
  for (int k = 0; k < 2; k++) {
    world w;
    atvi_summary *s;
    const char *html;
    double ess;
    char want[64];
    world_open(&w);
    CHECK_OK(world_new(&w, 3000, 1, 3, true));
    w.draws->made->khat = k ? 1.15 : 0.3;
    w.draws->made->excess = 0.0012;
    w.draws->weight[7] = 0.05; /* far out */
    w.draws->x[2 * w.draws->n + 7] = 20;
    CHECK_OK(atvi_diag_summary_new(w.pool, w.draws, &s));
    w.r.summary = s;
    CHECK_OK(atvi_draws_history(w.draws, k ? 4 : 2, k ? hot : hot + 2));
    CHECK_OK(atvi_report_fit_page(w.pool, &w.r, &html));
    json_decref(check_page(html));
    CHECK((strstr(html, "above its threshold 0.70, but the tail that it describes has only") != NULL) ==
          (k == 1));
    CHECK((strstr(html, "k-hat is 0.30 (good up to 0.70)") != NULL) == (k == 0));
    CHECK((strstr(html, "Training starts at a high temperature") != NULL) == (k == 1));
    CHECK_INT(atvi_diag_summary_least_ess(s, &ess), 2);
    CHECK(ess < 0.5 * s->ess);
    snprintf(want, sizeof want, "<dt>least effective draws</dt><dd>%.0f (theta.2)</dd>", ess);
    CHECK_MSG(strstr(html, want) != NULL, "no %s", want);
    world_close(&w);
  }
}

static void chains(void) {
  world w;
  const char *html;
  world_open(&w);
  CHECK_OK(world_new(&w, 4000, 4, 3, false));
  w.r.series = NULL, w.r.n_series = 0, w.draws->about->no_groups = "there is < no model";
  CHECK_OK(atvi_report_fit_page(w.pool, &w.r, &html));
  json_decref(check_page(html));
  CHECK(strstr(html, "<svg id=\"t0\"") && strstr(html, "<svg id=\"k2\""));
  CHECK(strstr(html, "R-hat"));
  CHECK(strstr(html, "There are no predictions: there is &lt; no model."));
  CHECK(!strstr(html, "<section id=\"residuals\">"));
  world_close(&w);
}

/* Figures whose values are positive are there twice, and the other one is hidden until it is asked for. */
static void both_scales(void) {
  static const double zero[5] = {1, 3, 0, 5, 2}, negative[5] = {-1, 2, 3, 4, 3};
  world w;
  const char *html;
  world_open(&w);
  CHECK_OK(world_new(&w, 500, 1, 3, true));
  atvi_predicted s[3] = {SERIES[0], SERIES[1], SERIES[1]};
  columns c = {.name = "y", .n = 5, .time = TIME, .value = zero, .mean = MEAN, .low = LOW, .high = HIGH};
  s[0] = points(c);
  c.name = "signed", c.value = NULL, c.mean = negative, c.kind = ATVI_SERIES_TRACKED;
  s[2] = points(c);
  w.r.series = s, w.r.n_series = 3;
  CHECK_OK(atvi_report_fit_page(w.pool, &w.r, &html));
  json_t *data = check_page(html), *figs = json_object_get(data, "figs");
  CHECK(strstr(html, "<figure><div class=\"lin\"><div class=\"on-wide\"><svg id=\"s0\"") &&
        strstr(html, "<div class=\"log\"><div class=\"on-wide\"><svg id=\"s0l\"") &&
        strstr(html, "<svg id=\"s1l\""));
  CHECK(strstr(html, "<figure><svg id=\"s2\"") && !strstr(html, "s2l"));
  CHECK(strstr(html, "1 observed value at or below zero is not shown."));
  CHECK(strstr(html, "1 of 3 figures stay linear"));
  const char *control = strstr(html, "data-scales=");
  CHECK(control && !strstr(control + 12, " data-scales=\"")); /* one for the section */
  /* values are there once */
  CHECK_STR(json_string_value(json_object_get(json_object_get(figs, "s0l"), "as")), "s0");
  CHECK(!json_object_get(json_object_get(figs, "s0l"), "v") &&
        json_object_get(json_object_get(figs, "s0"), "v"));
  json_decref(data);
  w.r.series = s + 2, w.r.n_series = 1; /* nothing to choose */
  CHECK_OK(atvi_report_fit_page(w.pool, &w.r, &html));
  json_decref(check_page(html));
  CHECK(!strstr(html, " data-scales=\""));
  world_close(&w);
}

/* A single series has the whole width; units with one value each share a figure, its residuals and a table. */
static void units_with_one_value(void) {
  static const double row[1] = {1}, value[3] = {4.5, -2.25, 8.125}, mean[3] = {3, 1, 6}, low[3] = {-4, -6, 2},
                      high[3] = {9, 7, 11}, residual[3] = {0.7, -1.9, 0.4}, pit[3] = {0.7, 0.1, 0.6};
  static const char *const name[3] = {"y.north", "y.south", "y.west"}, *const unit[3] = {"region north",
                                                                                         "region south",
                                                                                         "region west"};
  world w;
  const char *html;
  atvi_predicted s[3];
  world_open(&w);
  CHECK_OK(world_new(&w, 500, 1, 3, true));
  for (int k = 0; k < 3; k++) {
    s[k] = points((columns){.name = name[k],
                            .rows = true,
                            .n = 1,
                            .time = row,
                            .value = value + k,
                            .mean = mean + k,
                            .low = low + k,
                            .high = high + k,
                            .residual = residual + k,
                            .pit = pit + k});
    s[k].unit = unit[k];
  }
  w.r.series = s, w.r.n_series = 3;
  CHECK_OK(atvi_report_fit_page(w.pool, &w.r, &html));
  json_decref(check_page(html));
  CHECK(strstr(html, "<svg id=\"s0\"") && strstr(html, "<svg id=\"s0n\""));
  CHECK(!strstr(html, "<svg id=\"s1\"") && !strstr(html, "<svg id=\"s2\""));
  CHECK(strstr(html, "<th scope=\"row\">south</th><td>\xe2\x88\x92"
                     "2.250</td>"));
  const char *residuals = strstr(html, "<svg id=\"r0\"");
  CHECK(residuals && strstr(residuals, ">north</text>") && strstr(residuals, ">west</text>"));
  w.r.series = SERIES, w.r.n_series = 1;
  CHECK_OK(atvi_report_fit_page(w.pool, &w.r, &html));
  CHECK(strstr(html, "<div class=\"on-wide\"><svg id=\"s0\""));
  world_close(&w);
}

/* What comes after the data has a section of its own, with as many rows as there are times ahead. */
static void forecast_on_the_page(void) {
  static const double ahead[4] = {3, 4, 5, 6.5}, mean[4] = {4, 3, 2, 1501}, median[4] = {4, 3, 2, 93.25},
                      low[4] = {1, 1, 0, 0}, high[4] = {7, 6, 8, 9000}, q25[4] = {3, 2, 1, 20},
                      q75[4] = {5, 4, 4, 271};
  world w;
  const char *html;
  world_open(&w);
  CHECK_OK(world_new(&w, 500, 1, 3, true));
  columns c = {.name = EVIL,
               .n = 4,
               .time = ahead,
               .mean = mean,
               .median = median,
               .low = low,
               .high = high,
               .pred_q25 = q25,
               .pred_q75 = q75};
  atvi_predicted forecast[2] = {points(c)};
  c.n = 2, c.name = "burden", c.kind = ATVI_SERIES_TRACKED;
  forecast[1] = points(c); /* not beyond the data */
  w.r.forecast = forecast;
  CHECK_OK(atvi_report_fit_page(w.pool, &w.r, &html));
  json_t *data = check_page(html), *hover = json_object_get(json_object_get(data, "figs"), "f0");
  static const char *const order[] = {"data", "forecast", "parameters"};
  check_order(html, 3, order);
  CHECK(strstr(html, "<svg id=\"f0\"") && !strstr(html, "id=\"f1\""));
  CHECK(strstr(html, "end of the data</li>") && strstr(html, "median</li>"));
  CHECK_INT(json_array_size(json_object_get(hover, "x")), 7); /* five of the data, two ahead */
  const char *table = strstr(strstr(html, "<section id=\"forecast\">"), "<table");
  const char *end = strstr(table, "</table>");
  int rows = 0;
  for (const char *at = table; (at = strstr(at, "scope=\"row\"")) && at < end; at++) rows++;
  CHECK_INT(rows, 2);
  CHECK(strstr(table, "93.25") < end && strstr(table, "271") < end);
  json_decref(data);
  /* of rows there is no time ahead */
  atvi_predicted rowed[2] = {SERIES[0], SERIES[1]};
  rowed[0].rows = true;
  w.r.series = rowed;
  CHECK_OK(atvi_report_fit_page(w.pool, &w.r, &html));
  CHECK(!strstr(html, "<section id=\"forecast\">"));
  world_close(&w);
}

/* Predictions that know the data are no test of the model: it says so, and has no residuals. */
static void data_that_are_known(void) {
  world w;
  const char *html;
  world_open(&w);
  atvi_predicted s = SERIES[0];
  atvi_point point[5];
  memcpy(point, s.point, sizeof point);
  s.point = point;
  CHECK_OK(world_new(&w, 500, 1, 3, true));
  s.told = true;
  for (int i = 0; i < 5; i++) point[i].residual = point[i].pit = NAN;
  w.r.series = &s, w.r.n_series = 1;
  CHECK_OK(atvi_report_fit_page(w.pool, &w.r, &html));
  json_decref(check_page(html));
  CHECK(strstr(html, "Observations of this model depend on each other") && !strstr(html, "id=\"r0\""));
  CHECK(!strstr(html, "lie inside"));
  world_close(&w);
}

static void a_fit_that_runs(void) {
  world w;
  const char *html;
  world_open(&w);
  CHECK_OK(atvi_draws_new(w.ctx, 1, 1, 0, 0, NULL, false, &w.draws));
  w.draws->about->title = "m";
  w.r = (atvi_report_fit){.file = "m.atvi", .plain = w.draws, .n_series = 1, .series = SERIES, .text = "x"};
  CHECK_OK(atvi_report_fit_page(w.pool, &w.r, &html));
  json_decref(check_page(html));
  CHECK(strstr(html, "id=\"live\"") && strstr(html, "connect-src 'self'"));
  CHECK(strstr(html, "<section id=\"data\">") && !strstr(html, "<section id=\"parameters\">"));
  world_close(&w);
}

/* 30 parameters, 10 000 draws: below 3 MB, for weights and for 16 chains. */
static void large_fits_stay_small(void) {
  for (int weighted = 0; weighted < 2; weighted++) {
    world w;
    const char *html;
    world_open(&w);
    CHECK_OK(world_new(&w, 10000, weighted ? 1 : 16, 30, weighted));
    CHECK_OK(atvi_report_fit_page(w.pool, &w.r, &html));
    json_decref(check_page(html));
    CHECK_MSG(strlen(html) < 3000000, "%zu bytes", strlen(html));
    world_close(&w);
  }
}

/* A parameter that never moves, one column alone, a verdict that is bad. */
static void poor_fits_have_a_page(void) {
  world w;
  const char *html;
  world_open(&w);
  CHECK_OK(world_new(&w, 40, 2, 1, false));
  for (int i = 0; i < 40; i++) w.draws->x[i] = 2;
  atvi_summary *s;
  CHECK_OK(atvi_diag_summary_new(w.pool, w.draws, &s));
  w.r.summary = s;
  CHECK_OK(atvi_report_fit_page(w.pool, &w.r, &html));
  json_decref(check_page(html));
  CHECK(strstr(html, "<div class=\"verdict bad\"") && strstr(html, "Do not use these numbers."));
  world_close(&w);
}

/* ---- files ---- */

static void files_are_written(void) {
  static const char *const name[] = {"data",   "residuals", "marginals", "pairs",
                                     "bounds", "training",  "weights"};
  char dir[] = "/tmp/atvi-report-XXXXXX", path[128];
  world w;
  char *text;
  const char *alone;
  size_t n;
  CHECK(mkdtemp(dir));
  world_open(&w);
  CHECK_OK(world_new(&w, 500, 1, 4, true));
  atvi_ctx_set_threads(w.ctx, 1);
  CHECK_OK(atvi_report_fit_page(w.pool, &w.r, &alone));
  atvi_ctx_set_threads(w.ctx, 4);
  CHECK_OK(atvi_report_fit_save(w.pool, &w.r, dir));
  for (size_t i = 0; i < sizeof name / sizeof *name; i++)
    for (int pdf = 0; pdf < 2; pdf++) {
      snprintf(path, sizeof path, "%s/figures/%s.%s", dir, name[i], pdf ? "pdf" : "svg");
      CHECK_OK(atvi_io_file_read(w.pool, path, &text, &n));
      if (pdf)
        CHECK(strncmp(text, "%PDF-", 5) == 0);
      else
        CHECK(markup_check(text) > 10);
      unlink(path);
    }
  snprintf(path, sizeof path, "%s/report.html", dir);
  CHECK_OK(atvi_io_file_read(w.pool, path, &text, &n));
  CHECK_STR(text, alone); /* whatever the number of threads */
  unlink(path);
  snprintf(path, sizeof path, "%s/figures", dir);
  CHECK(rmdir(path) == 0); /* nothing else was there */
  CHECK(rmdir(dir) == 0);
  CHECK_STATUS(atvi_report_fit_save(w.pool, &w.r, dir), ATVI_EIO); /* the folder is gone */
  world_close(&w);
}

static void failures_say_why(void) {
  static const atvi_failed_point at = {FAILED_AT, ATVI_RUN_STEPS};
  const char *html;
  world w;
  world_open(&w);
  CHECK_OK(world_new(&w, 200, 1, 3, true));
  w.draws->failed = &at;
  CHECK_OK(atvi_report_fit_page(w.pool, &w.r, &html));
  json_decref(check_page(html));
  CHECK(strstr(html, "<td class=\"words\">the solver&#39;s step limit was reached</td>"));
  world_close(&w);
}

static void short_reports(void) {
  char dir[] = "/tmp/atvi-report-XXXXXX", path[128], *text;
  size_t n;
  world w;
  const double value[2] = {0.3, 0.7};
  const char *const row[2] = {"k", EVIL}, *const cell[4] = {"k", "0.300", EVIL, "0.700"},
                    *const column[2] = {"input", EVIL}, *const say[1] = {EVIL};
  CHECK(mkdtemp(dir));
  world_open(&w);
  atvi_dot_plot plot = {.n_row = 2,
                        .row = row,
                        .n = 1,
                        .of = &(atvi_dots){.name = "m", .value = value},
                        .title = "t",
                        .axis = "x",
                        .mark = NAN,
                        .ends = {0, 1}};
  atvi_report_figure figure = {"dots", EVIL, atvi_report_figure_dots(w.pool, &plot), NULL};
  atvi_report_table table = {EVIL, 2, column, 2, cell, (const char *const[]){"k/report.html", NULL}};
  atvi_report_part part = {"part", EVIL, 1, say, 1, &figure, 1, &table};
  atvi_report_short r = {EVIL, "sub", "warn", "95 % of it, down to -3.5", 1, &part};
  CHECK_OK(atvi_report_short_save(w.pool, &r, dir));
  snprintf(path, sizeof path, "%s/report.html", dir);
  CHECK_OK(atvi_io_file_read(w.pool, path, &text, &n));
  json_decref(check_page(text));
  CHECK(strstr(text, "verdict warn") && strstr(text, "<td>0.700</td>"));
  CHECK(strstr(text, "95\xc2\xa0% of it, down to \xe2\x88\x92"
                     "3.5"));
  unlink(path);
  for (const char *const *f = (const char *const[]){"dots.svg", "dots.pdf", "", NULL}; *f; f++) {
    snprintf(path, sizeof path, "%s/figures/%s", dir, *f);
    CHECK((**f ? unlink(path) : rmdir(path)) == 0);
  }
  rmdir(dir);
  CHECK_STATUS(atvi_report_short_save(w.pool, &r, dir), ATVI_EIO);
  world_close(&w);
}

/* A panel for each series, a legend, and a line where data end and something is ahead. */
static void forecast_alone(void) {
  char dir[] = "/tmp/atvi-report-XXXXXX", path[128], *text;
  size_t n, plain = 0, lined;
  world w;
  atvi_predicted ahead[2] = {SERIES[0], SERIES[1]};
  atvi_point point[5];
  CHECK(mkdtemp(dir));
  world_open(&w);
  memcpy(ahead, SERIES, sizeof ahead);
  memcpy(point, SERIES[0].point, sizeof point);
  for (int k = 0; k < 2; k++) {
    ahead[0].point = point;
    if (k) point[4].value = NAN;
    CHECK_OK(atvi_report_save_forecast(w.pool, dir, 2, ahead, (atvi_calendar){0, 0}, NULL));
    snprintf(path, sizeof path, "%s/figures/forecast.svg", dir);
    CHECK_OK(atvi_io_file_read(w.pool, path, &text, &n));
    CHECK(strstr(text, "<svg") && strstr(text, ">row<"));
    CHECK(strstr(text, ">median<") && strstr(text, ">95 % of observations<"));
    *(k ? &lined : &plain) = n;
  }
  CHECK(lined + 50 > plain); /* a dot less, a line more */
  CHECK_OK(atvi_report_save_forecast(w.pool, dir, 1, SERIES, (atvi_calendar){19359, 1}, "day"));
  CHECK_OK(atvi_io_file_read(w.pool, path, &text, &n));
  CHECK(!strstr(text, ">day<") && strstr(text, "Jan")); /* dates need no name */
  for (const char *const *f = (const char *const[]){"forecast.svg", "forecast.pdf", "", NULL}; *f; f++) {
    snprintf(path, sizeof path, "%s/figures/%s", dir, *f);
    CHECK((**f ? unlink(path) : rmdir(path)) == 0);
  }
  CHECK(rmdir(dir) == 0);
  CHECK_STATUS(atvi_report_save_forecast(w.pool, "/dev/null", 1, SERIES, (atvi_calendar){0, 0}, NULL),
               ATVI_EIO);
  world_close(&w);
}

static void forecast_alone_without_memory(void) {
  for (long k = 1;; k += 1 + k / 16) {
    char dir[] = "/tmp/atvi-report-XXXXXX", path[128];
    world w;
    CHECK(mkdtemp(dir));
    world_open(&w);
    test_fail_at = test_allocs + k;
    atvi_status status = atvi_report_save_forecast(w.pool, dir, 2, SERIES, (atvi_calendar){0, 0}, NULL);
    bool reached = test_allocs >= test_fail_at;
    test_fail_at = 0;
    CHECK_INT(status, reached ? ATVI_ENOMEM : ATVI_OK);
    for (const char *const *f = (const char *const[]){"forecast.svg", "forecast.pdf", "", NULL}; *f; f++) {
      snprintf(path, sizeof path, "%s/figures/%s", dir, *f);
      if (**f)
        unlink(path);
      else
        rmdir(path);
    }
    CHECK(rmdir(dir) == 0);
    world_close(&w);
    if (!reached) break;
  }
}

/* Fails each of the allocations, some apart, until there are no more. */
static void missing_memory_is_told(void) {
  static const double ahead[5] = {5, 6, 7, 8, 9};
  const atvi_predicted forecast[2] = {
      points((columns){
          .name = EVIL, .n = 5, .time = ahead, .mean = MEAN, .median = MEAN, .low = LOW, .high = HIGH}),
      points(
          (columns){.name = "burden", .kind = ATVI_SERIES_TRACKED, .n = 5, .time = ahead, .median = MEAN})};
  for (long k = 1;; k += 1 + k / 16) {
    world w;
    const char *html;
    world_open(&w);
    CHECK_OK(world_new(&w, 200, 1, 3, true));
    w.r.forecast = forecast;
    test_fail_at = test_allocs + k;
    atvi_status status = atvi_report_fit_page(w.pool, &w.r, &html);
    bool reached = test_allocs >= test_fail_at;
    test_fail_at = 0;
    CHECK_INT(status, reached ? ATVI_ENOMEM : ATVI_OK);
    world_close(&w);
    if (!reached) break;
  }
}

TESTS({"arrays", arrays_are_one_figure}, {"traces", traces_that_need_no_look_are_folded},
      {"failed", failed_points_are_described}, {"single", single_quantities_go_first},
      {"weighted", weighted_fit}, {"words", words_about_weights}, {"chains", chains},
      {"known", data_that_are_known}, {"scales", both_scales}, {"one_value", units_with_one_value},
      {"forecast", forecast_on_the_page}, {"running", a_fit_that_runs}, {"large", large_fits_stay_small},
      {"poor", poor_fits_have_a_page}, {"files", files_are_written}, {"failures", failures_say_why},
      {"short", short_reports}, {"forecast_alone", forecast_alone},
      {"forecast_alone_without_memory", forecast_alone_without_memory}, {"memory", missing_memory_is_told})
