/* SPDX-License-Identifier: MIT */
#include "diag/score.h"
#include "testing.h"
#include <jansson.h>

enum { B = 400 };

/* Two observed series and a state. Predictive draws are spread evenly over [centre - 10, centre + 10], so
 * that the shortest interval with 95 % of them is 19 long, and their variance is that of the even spread. */
typedef struct {
  atvi_ctx *ctx;
  atvi_pool *pool;
  atvi_predicted series[3];
  atvi_point point[6];
  double mean[6][B], draw[6][B], log_lik[6][B];
} world;

static const double STEP = 20.0 / (B - 1);

static void spread(double *x, double centre, double half) {
  for (int k = 0; k < B; k++)
    x[(k * 7) % B] = centre - half + 2 * half * k / (B - 1); /* 7 and 400 are coprime */
}

/* point: centre of the mean, centre of the draws */
static void fill(world *w, int i, double time, double value, double mean, double draw) {
  spread(w->mean[i], mean, 1);
  spread(w->draw[i], draw, 10);
  for (int k = 0; k < B; k++) w->log_lik[i][k] = -2 - 0.01 * (k % 5) - 0.1 * i;
  w->point[i] = (atvi_point){.time = time,
                             .value = value,
                             .exact = !isnan(value),
                             .mean = w->mean[i],
                             .draw = w->draw[i],
                             .log_lik = w->log_lik[i]};
}

static world *world_new(void) {
  static world w;
  memset(&w, 0, sizeof w);
  w.ctx = test_ctx();
  CHECK_OK(atvi_pool_new(w.ctx, &w.pool));
  fill(&w, 0, 1, 13.5, 12.25, 12); /* inside; error -1.25 */
  fill(&w, 1, 2, 22.5, 12.25, 12); /* 10.5 off: outside */
  fill(&w, 2, 3, NAN, 12.25, 12);  /* not observed */
  fill(&w, 3, 1, 5.125, 5, 5.5);   /* inside; error -0.125 */
  fill(&w, 4, 2, -14.75, 5, 5.5);  /* held out, outside */
  fill(&w, 5, 1, NAN, 7, 7);       /* a state */
  w.point[4].held = true;
  w.point[5].draw = w.point[5].log_lik = NULL;
  w.series[0] = (atvi_predicted){.name = "cases", .n = 3, .point = w.point};
  w.series[1] = (atvi_predicted){.name = "deaths", .n = 2, .point = w.point + 3};
  w.series[2] = (atvi_predicted){.name = "S", .kind = ATVI_SERIES_STATE, .n = 1, .point = w.point + 5};
  return &w;
}

static void world_free(world *w) {
  atvi_pool_free(w->pool);
  atvi_ctx_free(w->ctx);
  CHECK_INT(test_live, 0);
}

static void bands(void) {
  double x[B], work[3 * B];
  spread(x, 2.385, 10);
  atvi_band b = atvi_diag_band_of(B, x, work);
  double below[2] = {0, 0};
  for (atvi_idx i = 0; i < B; i++)
    for (int k = 0; k < 2; k++) below[k] += x[i] < b.quartile[k];
  for (int k = 0; k < 2; k++) CHECK_ABS(below[k] / B, k ? 0.75 : 0.25, 2.0 / B);
  CHECK_ABS(b.mean, 2.385, 1e-12);
  CHECK_ABS(b.median, 2.385, 1e-12);
  CHECK_ABS(b.sd, STEP * sqrt(B * (B + 1) / 12.0),
            1e-9); /* n (n + 1) / 12 is the variance of 1 .. n, divisor n - 1 */
  CHECK_ABS(b.hpd95[1] - b.hpd95[0], (0.95 * B - 1) * STEP, 1e-9); /* 380 draws */
  for (int k = 0; k < B; k += 2) x[k] = NAN;                       /* what could not be told does not count */
  CHECK(isfinite(atvi_diag_band_of(B, x, work).mean));
  for (int k = 0; k < B; k++) x[k] = NAN;
  b = atvi_diag_band_of(B, x, work);
  CHECK(isnan(b.mean) && isnan(b.sd) && isnan(b.median) && isnan(b.hpd95[0]));
  x[0] = 3.5;
  b = atvi_diag_band_of(1, x, work);
  CHECK(b.mean == 3.5 && isnan(b.sd) && b.median == 3.5 && b.hpd95[0] == 3.5 && b.hpd95[1] == 3.5);
}

/* A unit is left out with all of its values that were fitted, of all its series. */
static void units_are_left_out_as_a_whole(void) {
  world *w = world_new();
  atvi_scores *s;
  double sum[2][B], *work = atvi_pool_take(w->pool, atvi_math_loo_work(B), sizeof *work);
  w->series[0].unit = "subject a", w->series[1].unit = "subject b", w->series[2].unit = "subject b";
  CHECK_OK(atvi_diag_predicted_judge(w->ctx, B, 3, w->series));
  CHECK_OK(atvi_diag_scores_new(w->pool, B, 3, w->series, &s));
  for (int i = 0; i < B; i++) {
    sum[0][i] = w->point[0].log_lik[i] + w->point[1].log_lik[i];
    sum[1][i] = w->point[3].log_lik[i];
  }
  atvi_loo_point a = atvi_math_loo_of(B, sum[0], work), b = atvi_math_loo_of(B, sum[1], work);
  CHECK_INT(s->units.n, 2);
  CHECK_REL(s->units.elpd, a.elpd_loo + b.elpd_loo, 1e-12);
  CHECK_STR(s->worst_unit.name, a.khat >= b.khat ? "subject a" : "subject b");
  CHECK_REL(s->worst_unit.khat, fmax(a.khat, b.khat), 1e-12);
  w->series[0].unit = w->series[1].unit = w->series[2].unit = "subject a"; /* the same one */
  CHECK_OK(atvi_diag_scores_new(w->pool, B, 3, w->series, &s));
  for (int i = 0; i < B; i++) sum[0][i] += sum[1][i];
  CHECK_INT(s->units.n, 1);
  CHECK_REL(s->units.elpd, atvi_math_loo_of(B, sum[0], work).elpd_loo, 1e-12);
  w->series[0].unit = w->series[1].unit = w->series[2].unit = ""; /* no units */
  CHECK_OK(atvi_diag_scores_new(w->pool, B, 3, w->series, &s));
  CHECK(s->units.n == 0 && !s->worst_unit.name);
  world_free(w);
}

static void scores_by_hand(void) {
  world *w = world_new();
  atvi_scores *s;
  CHECK_OK(atvi_diag_predicted_judge(w->ctx, B, 3, w->series));
  CHECK_OK(atvi_diag_scores_new(w->pool, B, 3, w->series, &s));
  const double length = (0.95 * B - 1) * STEP, var = STEP * STEP * B * (B + 1) / 12.0 * (B - 1) / B;
  CHECK_INT(s->n_series, 2);
  const atvi_score *f = s->fitted;
  CHECK_STR(f[0].name, "cases");
  CHECK(f[0].n == 2 && f[0].n_inside == 1 && f[0].coverage == 0.5);
  CHECK_REL(f[0].ail, length, 1e-9);
  CHECK_REL(f[0].ail_sum, 2 * length, 1e-9);
  CHECK_REL(f[0].mspe, (1.25 * 1.25 + 10.25 * 10.25) / 2, 1e-9);
  CHECK_REL(f[0].mspe_draws, (1.5 * 1.5 + 10.5 * 10.5) / 2 + var, 1e-9);
  CHECK(f[1].n == 1 && f[1].coverage == 1);
  CHECK_REL(f[1].mspe, 0.125 * 0.125, 1e-9);
  CHECK(s->fitted_all.name == NULL && s->fitted_all.n == 3 && s->fitted_all.n_inside == 2);
  CHECK_REL(s->fitted_all.ail, length, 1e-9);
  CHECK_REL(s->fitted_all.ail_sum, 1.5 * length, 1e-9); /* summed over 3 values, averaged over 2 series */
  CHECK_REL(s->fitted_all.mspe, (1.25 * 1.25 + 10.25 * 10.25 + 0.125 * 0.125) / 3, 1e-9);
  CHECK(s->held[0].n == 0 && isnan(s->held[0].ail) && isnan(s->held[0].lpd));
  CHECK(s->held[1].n == 1 && s->held[1].coverage == 0 && s->held_all.n == 1);
  CHECK_REL(s->held_all.ail_sum, length, 1e-9); /* one series has values that were held out */
  CHECK_REL(s->held_all.lpd, w->point[4].loo.lpd, 1e-12);
  CHECK(s->loo.n == 3 && s->waic.n == 3 && s->n_censored == 0);
  CHECK_REL(s->loo.elpd, w->point[0].loo.elpd_loo + w->point[1].loo.elpd_loo + w->point[3].loo.elpd_loo,
            1e-12);
  CHECK(isnan(w->point[2].loo.lpd) && isnan(w->point[5].of_draw.mean) && w->point[5].of_mean.mean > 0);
  CHECK(s->worst.name && isfinite(s->worst.time));
  world_free(w);
}

/* Draws that know the value say nothing about how well it is predicted: those that know the others alone do. */
static void values_are_judged_by_the_others(void) {
  world *w = world_new();
  static double others[B];
  atvi_scores *s;
  spread(others, 8.5, 2.5);
  w->point[0].others = others;
  CHECK_OK(atvi_diag_predicted_judge(w->ctx, B, 3, w->series));
  CHECK_OK(atvi_diag_scores_new(w->pool, B, 3, w->series, &s));
  CHECK_ABS(w->point[0].of_draw.mean, 8.5, 1e-12);
  CHECK_ABS(w->point[0].of_mean.mean, 12.25, 1e-12);
  CHECK(s->fitted[0].n == 2 && s->fitted[0].n_inside == 0); /* 13.5 was inside of the draws, which know it */
  CHECK_ABS(s->fitted[0].mspe, 0.5 * (5 * 5 + 10.25 * 10.25), 1e-9);
  world_free(w);
}

static void censored_values_are_not_scored(void) {
  world *w = world_new();
  atvi_scores *s;
  w->point[1].exact = false;
  CHECK_OK(atvi_diag_predicted_judge(w->ctx, B, 3, w->series));
  CHECK_OK(atvi_diag_scores_new(w->pool, B, 3, w->series, &s));
  CHECK(s->n_censored == 1 && s->fitted[0].n == 1 && s->fitted[0].coverage == 1);
  CHECK_INT(s->loo.n, 3); /* their likelihood counts all the same */
  world_free(w);
}

static void influence_is_named(void) {
  world *w = world_new();
  atvi_scores *s;
  for (int k = 0; k < B; k++) w->log_lik[3][k] = k == 17 ? -30 : -2; /* one draw decides */
  CHECK_OK(atvi_diag_predicted_judge(w->ctx, B, 3, w->series));
  CHECK_OK(atvi_diag_scores_new(w->pool, B, 3, w->series, &s));
  CHECK_INT(s->loo.n_bad, 1);
  CHECK_STR(s->worst.name, "deaths");
  CHECK(s->worst.time == 1 && s->worst.khat > s->khat_threshold);
  const char *text;
  s->model = "world";
  s->method = "ram";
  CHECK_OK(atvi_diag_scores_text(w->pool, s, &text));
  CHECK(strstr(text, "1 of 3 values") && strstr(text, "worst: deaths at 1, k-hat"));
  s->worst.date = "2023-01-09";
  CHECK_OK(atvi_diag_scores_text(w->pool, s, &text));
  CHECK(strstr(text, "worst: deaths at 1 (2023-01-09), k-hat"));
  CHECK_OK(atvi_diag_scores_json(w->pool, s, &text));
  CHECK(strstr(text, "\"date\": \"2023-01-09\""));
  world_free(w);
}

static void threads_do_not_matter(void) {
  world *w = world_new();
  atvi_point one[6];
  atvi_ctx_set_threads(w->ctx, 1);
  CHECK_OK(atvi_diag_predicted_judge(w->ctx, B, 3, w->series));
  memcpy(one, w->point, sizeof one);
  atvi_ctx_set_threads(w->ctx, 3);
  CHECK_OK(atvi_diag_predicted_judge(w->ctx, B, 3, w->series));
  for (int i = 0; i < 6; i++)
    CHECK(memcmp(&one[i].of_mean, &w->point[i].of_mean, sizeof one[i].of_mean) == 0 &&
          memcmp(&one[i].loo, &w->point[i].loo, sizeof one[i].loo) == 0);
  world_free(w);
}

static void output(void) {
  world *w = world_new();
  atvi_scores *s;
  const char *json, *text, *note[] = {"caf\xe9 is not UTF-8"};
  CHECK_OK(atvi_diag_predicted_judge(w->ctx, B, 3, w->series));
  CHECK_OK(atvi_diag_scores_new(w->pool, B, 3, w->series, &s));
  s->model = "world";
  s->method = "ram";
  s->verdict = "warn";
  s->holdout = "t > 14";
  s->seed = 7;
  s->log_map = -61.25;
  s->n_message = 1;
  s->message = note;
  CHECK_OK(atvi_diag_scores_json(w->pool, s, &json));
  json_t *o = json_loads(json, 0, NULL);
  CHECK(o != NULL);
  json_t *fitted = json_object_get(o, "fitted"),
         *first = json_array_get(json_object_get(fitted, "series"), 0);
  CHECK_STR(json_string_value(json_object_get(first, "series")), "cases");
  CHECK(json_number_value(json_object_get(first, "coverage")) == 0.5);
  CHECK(json_integer_value(json_object_get(json_object_get(fitted, "all"), "n")) == 3);
  CHECK(json_integer_value(json_object_get(json_object_get(json_object_get(o, "held_out"), "all"), "n")) ==
        1);
  CHECK_STR(json_string_value(json_object_get(o, "holdout")), "t > 14");
  CHECK(json_number_value(json_object_get(o, "log_map")) == -61.25);
  CHECK(json_is_object(json_object_get(o, "loo")) && json_is_object(json_object_get(o, "waic")));
  json_decref(o);
  note[0] =
      "a long note of many words that tells the user something of which there is so much to tell that it "
      "does not fit on one line";
  CHECK_OK(atvi_diag_scores_text(w->pool, s, &text));
  CHECK(strstr(text, "draws of the posterior") && strstr(text, "note: a long note") && strstr(text, "\n  "));
  CHECK(strstr(text, "held out (t > 14)") && strstr(text, "log MAP  -61.25") &&
        strstr(text, "verdict on the fit was warn"));
  for (const char *p = text; *p; p += strcspn(p, "\n") + (p[strcspn(p, "\n")] != 0))
    CHECK_MSG(strcspn(p, "\n") <= 100, "too wide: %.120s", p);
  s->method = "map";
  CHECK_OK(atvi_diag_scores_text(w->pool, s, &text));
  CHECK(strstr(text, "draws of the normal approximation at the mode"));
  /* nothing observed, nothing known */
  CHECK_OK(atvi_diag_scores_new(w->pool, B, 1, w->series + 2, &s));
  s->seed = UINT64_MAX;
  CHECK_OK(atvi_diag_scores_json(w->pool, s, &json));
  CHECK(strstr(json, "\"seed\": \"18446744073709551615\"")); /* readers would round a number */
  CHECK(strstr(json, "\"loo\": null") && strstr(json, "\"held_out\": null"));
  CHECK_OK(atvi_diag_scores_text(w->pool, s, &text));
  CHECK(strstr(text, "observes nothing"));
  world_free(w);
}

static void every_allocation_may_fail(void) {
  world *w = world_new();
  long fail = 1;
  for (;; fail++) {
    atvi_pool *pool;
    atvi_scores *s;
    const char *json, *text;
    CHECK_OK(atvi_pool_new(w->ctx, &pool));
    long live = test_live;
    test_allocs = 0;
    test_fail_at = fail;
    atvi_status status = atvi_diag_predicted_judge(w->ctx, B, 3, w->series);
    CHECK(test_live == live);
    if (status == ATVI_OK) status = atvi_diag_scores_new(pool, B, 3, w->series, &s);
    if (status == ATVI_OK) status = atvi_diag_scores_json(pool, s, &json);
    if (status == ATVI_OK) status = atvi_diag_scores_text(pool, s, &text);
    test_fail_at = 0;
    atvi_pool_free(pool);
    if (status == ATVI_OK) break;
    CHECK_STATUS(status, ATVI_ENOMEM);
  }
  CHECK(fail > 2);
  world_free(w);
}

TESTS({"bands", bands}, {"units", units_are_left_out_as_a_whole}, {"scores_by_hand", scores_by_hand},
      {"others", values_are_judged_by_the_others},
      {"censored_values_are_not_scored", censored_values_are_not_scored},
      {"influence_is_named", influence_is_named}, {"threads_do_not_matter", threads_do_not_matter},
      {"output", output}, {"every_allocation_may_fail", every_allocation_may_fail})
