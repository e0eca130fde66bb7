/* SPDX-License-Identifier: MIT */
#include "graph/internal.h"
#include "io/file.h"
#include "markup.h"
#include "math/rng.h"
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
static const atvi_report_series SERIES[2] = {
    {EVIL, "observed", 5, TIME, VALUE, NULL, NULL, MEAN, LOW, HIGH, LOW, HIGH, RESIDUAL, false, PIT},
    {"burden", "tracked", 5, TIME, NULL, NULL, NULL, MEAN, LOW, HIGH, NULL, NULL, NULL, false, NULL}};
static const atvi_report_step STEP[4] = {{"annealing", 0.1, 0.1, NAN, NAN, 50, NAN, NAN},
                                         {"annealing", 0.2, 0.2, NAN, NAN, 5, NAN, NAN},
                                         {"training", 0.3, 0.5, 100, -97.9, NAN, NAN, NAN},
                                         {"training", 0.4, 0.9, 150, -97.2, NAN, NAN, NAN}};

static const double FAILED_AT[64] = {1.5};
static const atvi_report_failure FAILURE = {FAILED_AT};

static double prior(void *user, atvi_idx col, double a, double b) {
  (void)user, (void)col;
  return (b - a) / 100;
}

/* A fit of n_param parameters and one derived quantity. */
static atvi_status world_new(world *w, atvi_idx n, atvi_idx n_chain, atvi_idx n_param, bool weighted) {
  atvi_column col[64];
  char name[64][40];
  atvi_summary *s;
  for (atvi_idx k = 0; k <= n_param; k++) {
    snprintf(name[k], sizeof name[k], "%s%td", k == 1 ? EVIL : "theta.", k);
    col[k] = (atvi_column){name[k], k == 0 ? 0 : -50, k == n_param ? HUGE_VAL : 50};
  }
  col[n_param].lower = -HUGE_VAL;
  ATVI_TRY(atvi_draws_new(w->ctx, n, n_chain, n_param, n_param + 1, col, weighted, &w->draws));
  atvi_draws *d = w->draws;
  atvi_rng r = atvi_rng_at(3, 1, 0, 0);
  double sum = 0;
  for (atvi_idx i = 0; i < n; i++) {
    double z = atvi_rng_normal(&r);
    for (atvi_idx k = 0; k <= n_param; k++) d->x[k * n + i] = (k % 2 ? 1 : -0.7) * z + atvi_rng_normal(&r);
    d->x[i] = fabs(d->x[i]);
    d->log_prior[i] = -3;
    d->log_lik[i] = -90 - 0.5 * z * z;
    if (weighted) sum += d->weight[i] = exp(0.1 * z);
  }
  for (atvi_idx i = 0; weighted && i < n; i++) d->weight[i] /= sum;
  d->made.method = weighted ? "atvi" : "ram";
  d->made.model = "m";
  d->made.khat = weighted ? 0.3 : NAN;
  d->made.seconds = 1.5;
  d->made.evaluations = 1000;
  d->made.failures = 3;
  d->made.log_evidence = -97.1, d->made.log_evidence_se = 0.01, d->made.elbo = -97.2, d->made.steps = 150;
  d->log_lik[4] = NAN;
  ATVI_TRY(atvi_draws_say(d, "Something to say of %s.", EVIL));
  ATVI_TRY(atvi_summary_new(w->pool, d, &s));
  w->r = (atvi_report_fit){.title = EVIL,
                           .file = "dir/<m>.atvi",
                           .summary = s,
                           .draws = d,
                           .plain = d,
                           .prior = prior,
                           .n_series = 2,
                           .series = SERIES,
                           .n_predict = 1000,
                           .time_name = "day",
                           .n_step = 4,
                           .step = STEP,
                           .n_failure = 1,
                           .failure = &FAILURE,
                           .command = "atvi fit 'a<b'",
                           .how = "{\"method\": \"atvi\"}",
                           .text = "param a ~ uniform(0, 1) # <&>"};
  return ATVI_OK;
}

static void world_open(world *w) {
  *w = (world){.ctx = test_ctx()};
  CHECK_OK(atvi_pool_new(w->ctx, &w->pool));
}

static void world_close(world *w) {
  atvi_draws_free(w->draws);
  atvi_pool_free(w->pool);
  atvi_ctx_free(w->ctx);
  CHECK_INT(test_live, 0);
}

/* ---- what every page must be ---- */

static void check_ids(const char *html) {
  const char *script = strstr(html, "<script>'use strict");
  for (const char *at = html; (at = strstr(at, " id=\"")) && at < script; at += 5) {
    char id[64];
    size_t n = strcspn(at + 5, "\"");
    CHECK(n + 7 < sizeof id);
    snprintf(id, sizeof id, " id=\"%.*s\"", (int)n, at + 5);
    const char *other = strstr(at + 5, id);
    CHECK_MSG(!other || other > script, "%s twice", id);
  }
}

/* The data of the script is JSON. */
static json_t *check_data(const char *html) {
  const char *at = strstr(html, "id=\"atvi-data\">"), *end;
  json_error_t error;
  CHECK(at);
  at += 15;
  end = strstr(at, "</script>");
  json_t *data = json_loadb(at, (size_t)(end - at), 0, &error);
  CHECK_MSG(data != NULL, "line %d: %s", error.line, error.text);
  return data;
}

/* The policy allows the script that is there: its hash, computed here from the text. */
static void check_policy(const char *html) {
  static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const char *at = strstr(html, "<script>'use strict'"), *end, *said = strstr(html, "'sha256-");
  unsigned char digest[32], got[33];
  atvi_sha256 s;
  CHECK(at && said);
  at += 8;
  end = strstr(at, "</script>");
  atvi_sha256_begin(&s);
  atvi_sha256_add(&s, at, (size_t)(end - at));
  atvi_sha256_end(&s, digest);
  said += 8;
  for (int i = 0; i < 11; i++) { /* base64 back into bytes */
    unsigned v = 0;
    for (int k = 0; k < 4; k++)
      v = v << 6 | (said[4 * i + k] == '=' ? 0u : (unsigned)(strchr(digit, said[4 * i + k]) - digit));
    for (int k = 0; k < 3; k++) got[3 * i + k] = (unsigned char)(v >> (16 - 8 * k));
  }
  CHECK(memcmp(got, digest, 32) == 0);
  CHECK(strncmp(said + 43, "='", 2) == 0);
  CHECK(strstr(html, "default-src 'none'"));
}

static json_t *check_page(const char *html) {
  CHECK(strncmp(html, "<!DOCTYPE html>", 15) == 0);
  markup_check(html);
  check_ids(html);
  check_policy(html);
  CHECK(!strstr(html, "<script>alert"));
  CHECK(!strstr(html, " href=\"http") && !strstr(html, " src=") && !strstr(html, "url(http") &&
        !strstr(html, "@import"));
  const char *wrong = strstr(html, "nan");
  CHECK_MSG(!wrong, "not a number: %.80s", wrong ? wrong - 40 : "");
  return check_data(html);
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
  CHECK(strstr(html, "Parameters where the model could not be run"));
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

static void chains(void) {
  world w;
  const char *html;
  world_open(&w);
  CHECK_OK(world_new(&w, 4000, 4, 3, false));
  w.r.series = NULL, w.r.n_series = 0, w.r.no_predict = "there is < no model";
  CHECK_OK(atvi_report_fit_page(w.pool, &w.r, &html));
  json_decref(check_page(html));
  CHECK(strstr(html, "<svg id=\"t0\"") && strstr(html, "<svg id=\"k2\""));
  CHECK(strstr(html, "R-hat"));
  CHECK(strstr(html, "There are no predictions: there is &lt; no model."));
  CHECK(!strstr(html, "<section id=\"residuals\">"));
  world_close(&w);
}

/* Predictions that know the data are no test of the model: it says so, and has no residuals. */
static void data_that_are_known(void) {
  world w;
  const char *html;
  atvi_report_series s = SERIES[0];
  world_open(&w);
  CHECK_OK(world_new(&w, 500, 1, 3, true));
  s.told = true;
  s.residual = s.pit = NULL;
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
  w.r = (atvi_report_fit){.title = "m",
                          .file = "m.atvi",
                          .n_series = 1,
                          .series = SERIES,
                          .no_predict = "the fit is running",
                          .text = "x"};
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
  CHECK_OK(atvi_summary_new(w.pool, w.draws, &s));
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
  size_t n;
  CHECK(mkdtemp(dir));
  world_open(&w);
  CHECK_OK(world_new(&w, 500, 1, 4, true));
  CHECK_OK(atvi_report_fit_save(w.pool, &w.r, dir));
  for (size_t i = 0; i < sizeof name / sizeof *name; i++)
    for (int pdf = 0; pdf < 2; pdf++) {
      snprintf(path, sizeof path, "%s/figures/%s.%s", dir, name[i], pdf ? "pdf" : "svg");
      CHECK_OK(atvi_file_read(w.pool, path, &text, &n));
      if (pdf)
        CHECK(strncmp(text, "%PDF-", 5) == 0);
      else
        CHECK(markup_check(text) > 10);
      unlink(path);
    }
  snprintf(path, sizeof path, "%s/report.html", dir);
  CHECK_OK(atvi_file_read(w.pool, path, &text, &n));
  unlink(path);
  snprintf(path, sizeof path, "%s/figures", dir);
  CHECK(rmdir(path) == 0); /* nothing else was there */
  CHECK(rmdir(dir) == 0);
  CHECK_STATUS(atvi_report_fit_save(w.pool, &w.r, dir), ATVI_EIO); /* the folder is gone */
  world_close(&w);
}

static void short_reports(void) {
  char dir[] = "/tmp/atvi-report-XXXXXX", path[128], *text;
  size_t n;
  world w;
  const double observed[4] = {1, 2, 3, 4}, predicted[4] = {1.1, 2, 2.8, 4.1}, first[2] = {0.2, 0.6},
               total[2] = {0.3, 0.7};
  const char *const input[2] = {"k", EVIL};
  atvi_report_emulator e = {EVIL, "sub", 4, observed, predicted, 0.97, 0.95, 2, input, first, total};
  CHECK(mkdtemp(dir));
  world_open(&w);
  CHECK_OK(atvi_report_emulator_save(w.pool, &e, dir));
  snprintf(path, sizeof path, "%s/report.html", dir);
  CHECK_OK(atvi_file_read(w.pool, path, &text, &n));
  json_decref(check_page(text));
  CHECK(strstr(text, "Q\xc2\xb2 = 0.970") && strstr(text, "0.700") && strstr(text, "verdict ok"));
  e.first = NULL; /* no indices: a shorter page */
  e.q2 = 0.3;
  CHECK_OK(atvi_report_emulator_save(w.pool, &e, dir));
  CHECK_OK(atvi_file_read(w.pool, path, &text, &n));
  json_decref(check_page(text));
  CHECK(!strstr(text, "Sobol") && strstr(text, "verdict warn"));
  unlink(path);
  for (const char *const *f = (const char *const[]){"loo.svg", "loo.pdf", "sobol.svg", "sobol.pdf", "", NULL};
       *f; f++) {
    snprintf(path, sizeof path, "%s/figures/%s", dir, *f);
    CHECK((**f ? unlink(path) : rmdir(path)) == 0);
  }
  rmdir(dir);
  world_close(&w);
}

/* Fails each of the allocations, some apart, until there are no more. */
static void missing_memory_is_told(void) {
  for (long k = 1;; k += 1 + k / 16) {
    world w;
    const char *html;
    world_open(&w);
    CHECK_OK(world_new(&w, 200, 1, 3, true));
    test_fail_at = test_allocs + k;
    atvi_status status = atvi_report_fit_page(w.pool, &w.r, &html);
    bool reached = test_allocs >= test_fail_at;
    test_fail_at = 0;
    CHECK_INT(status, reached ? ATVI_ENOMEM : ATVI_OK);
    world_close(&w);
    if (!reached) break;
  }
}

TESTS({"weighted", weighted_fit}, {"chains", chains}, {"known", data_that_are_known},
      {"running", a_fit_that_runs}, {"large", large_fits_stay_small}, {"poor", poor_fits_have_a_page},
      {"files", files_are_written}, {"short", short_reports}, {"memory", missing_memory_is_told})
