/* SPDX-License-Identifier: MIT */
#include "app/predictions.h"
#include "app/report.h"
#include "diag/score.h"
#include "testing.h"
#include <stdatomic.h>
#include <unistd.h>

enum { DRAWS = 400, TIMES = 21 };

typedef struct {
  atvi_ctx *ctx;
  atvi_pool *pool;
  atvi_loaded l;
  atvi_draws *d;
} world;

/* A model at draws around the posterior mean of the cold. */
static void world_open(world *w, const char *text) {
  const atvi_app_model model = {.path = TEST_SOURCE_DIR "/examples/cold/cold.atvi", .interpret = true};
  *w = (world){.ctx = test_ctx()};
  CHECK_OK(atvi_pool_new(w->ctx, &w->pool));
  CHECK_OK(atvi_app_load(w->ctx, &model, &(atvi_model_load_opts){.text = text}, &w->l));
  const atvi_column col[] = {{"beta", 0, 3}, {"gamma", 0, 3}, {"S0", 37, 100}, {"R0", -HUGE_VAL, HUGE_VAL}};
  CHECK_OK(atvi_draws_new(w->ctx, DRAWS, 1, 3, 4, col, false, &w->d));
  for (int i = 0; i < DRAWS; i++)
    w->d->x[i] = 0.887, w->d->x[DRAWS + i] = 0.29, w->d->x[2 * DRAWS + i] = 38 + 4.0 * i / DRAWS;
  w->d->made->seed = 1;
}

static void world_close(world *w) {
  atvi_draws_free(w->d);
  atvi_app_unload(&w->l);
  atvi_pool_free(w->pool);
  atvi_ctx_free(w->ctx);
  CHECK_INT(test_live, 0);
}

static atvi_status of_fit(world *w, const char *text, const char *holdout) {
  const atvi_app_model model = {.path = TEST_SOURCE_DIR "/examples/cold/cold.atvi", .interpret = true};
  return atvi_app_predictions_of_fit(&w->l, &model, text, holdout, "atvi fit", w->d);
}

/* ---- how often the model is run ---- */

static atomic_long n_predict, n_draw, n_point, n_eval;
static const atvi_target_ops *inner;

static void predict(const void *self, void *work, atvi_idx B, const double *theta, double *out) {
  atomic_fetch_add(&n_predict, B);
  inner->predict(self, work, B, theta, out);
}
static void predictive(const void *self, void *work, uint64_t seed, atvi_idx first, atvi_idx B,
                       const double *theta, double *out) {
  atomic_fetch_add(&n_draw, B);
  inner->predictive(self, work, seed, first, B, theta, out);
}
static void pointwise(const void *self, void *work, atvi_idx B, const double *theta, double *out) {
  atomic_fetch_add(&n_point, B);
  inner->pointwise(self, work, B, theta, out);
}
static void eval(const void *self, void *work, const atvi_batch *b) {
  atomic_fetch_add(&n_eval, b->B);
  inner->eval(self, work, b);
}

/* Once at every draw for each thing that is asked of it, and not again by those who read the groups. */
static void the_model_is_run_once(void) {
  world w;
  atvi_predicted *series;
  atvi_idx n, *draw;
  world_open(&w, NULL);
  inner = w.l.target->ops;
  atvi_target_ops ops = *inner;
  atvi_target counted = *w.l.target;
  ops.predict = predict, ops.predictive = predictive, ops.pointwise = pointwise, ops.eval = eval;
  counted.ops = &ops;
  const atvi_target *was = w.l.target;
  w.l.target = &counted;
  atvi_predictions_opts opts = {0};
  CHECK_OK(atvi_app_predictions_pick(w.pool, w.d, 150, &opts.n, &draw));
  opts.draw = draw;
  CHECK_INT(opts.n, 150);
  CHECK(draw[0] == 0 && draw[149] == 397);
  CHECK_OK(atvi_app_predictions_fill(&w.l, &opts, w.d));
  for (int k = 0; k < 2; k++) {
    CHECK_OK(atvi_diag_predicted_read(w.pool, w.d, ATVI_PREDICTED_LOO, &n, &series));
    CHECK_OK(atvi_diag_predicted_judge(w.ctx, 150, n, series));
  }
  CHECK_INT(n_predict, 150);
  CHECK_INT(n_draw, 150);
  CHECK_INT(n_point, 150);
  CHECK_INT(n_eval, 0);
  w.l.target = was;
  world_close(&w);
}

/* ---- what the groups say ---- */

static void series_have_bands_residuals_and_pits(void) {
  world w;
  atvi_predicted *series;
  atvi_idx n;
  world_open(&w, NULL);
  CHECK_OK(atvi_app_predictions_describe(&w.l, NULL, w.d));
  CHECK_OK(atvi_diag_predicted_read(w.pool, w.d, ATVI_PREDICTED_GRID, &n, &series));
  CHECK(n == 2 && series[0].n == TIMES && series[0].point[3].mean == NULL); /* before there are groups */
  CHECK_OK(of_fit(&w, w.l.model->lang->source, NULL));
  CHECK_STR(w.d->about->title, "Common cold on Tristan da Cunha, October 1967");
  CHECK_STR(w.d->about->time_name, "day");
  CHECK_INT(atvi_diag_predicted_draws(w.d), DRAWS);
  CHECK_INT(atvi_draws_group(w.d, "predictive")->n_value, 2 * TIMES);
  CHECK_INT(atvi_draws_group(w.d, "prior")->n_value, 4);
  CHECK(!atvi_draws_group(w.d, "others") && !atvi_draws_group(w.d, "simulator"));
  CHECK_OK(atvi_diag_predicted_read(w.pool, w.d, 0, &n, &series));
  CHECK_OK(atvi_diag_predicted_judge(w.ctx, DRAWS, n, series));
  atvi_diag_predicted_residuals(w.ctx, 1, DRAWS, n, series);
  CHECK_STR(series[0].name, "infected");
  double sum = 0;
  for (atvi_idx i = 0; i < TIMES; i++) {
    const atvi_point *p = &series[0].point[i];
    double mean = p->of_mean.mean;
    CHECK(p->of_draw.hpd95[0] <= mean && mean <= p->of_draw.hpd95[1]);
    CHECK(p->of_mean.hpd95[0] <= mean && mean <= p->of_mean.hpd95[1]);
    CHECK(p->pit > 0 && p->pit < 1);
    /* Poisson: the predictive sd is near the root of the mean */
    CHECK_ABS(p->residual * sqrt(mean), p->value - mean, 0.3 * fabs(p->value - mean) + 0.05);
    sum += p->pit / TIMES;
  }
  CHECK_ABS(sum, 0.5, 0.2);                                         /* sd of a mean of 21 uniforms: 0.06 */
  CHECK_REL(atvi_app_report_prior_mass(w.d, 0, 1, 1.3), 0.1, 1e-9); /* uniform(0, 3) */
  CHECK_REL(atvi_app_report_prior_mass(w.d, 2, 30, 40), 3.0 / 63, 1e-9); /* nothing below 37 */
  CHECK(atvi_app_report_prior_mass(w.d, 2, 10, 20) == 0);
  CHECK(isnan(atvi_app_report_prior_mass(w.d, 3, 0, 1))); /* derived */
  world_close(&w);
}

/* Values that were held out are marked, and predicted. */
static void held_out_values_are_marked(void) {
  world w;
  world_open(&w, NULL);
  CHECK_OK(of_fit(&w, w.l.model->lang->source, "t > 14"));
  CHECK(!w.d->about->no_groups);
  for (atvi_idx i = 0; i < TIMES; i++)
    CHECK_INT(w.d->series[0].mark[i], i > 14 ? ATVI_MARK_HELD | ATVI_MARK_EXACT : ATVI_MARK_EXACT);
  world_close(&w);
  world_open(&w, NULL);
  CHECK_OK(
      of_fit(&w, w.l.model->lang->source, "nonsense")); /* the draws are worth more than their predictions */
  CHECK(w.d->about->no_groups && !atvi_draws_group(w.d, "mean") && w.d->n_series == 2);
  world_close(&w);
}

/* A pulse that doubles the infected at 10.5, and a tracked table that jumps at 3.25: the grid has both sides
 * of each. */
static void the_grid_shows_jumps_and_pulses(void) {
  static const char text[] =
      "model \"jumps\"\nparam beta ~ uniform(0, 3)\nparam gamma ~ uniform(0, 3)\n"
      "param S0 ~ uniform(37, 100)\ntable level step = [0: 1, 3.25: 4]\n"
      "state S = S0\nstate I = 1\ndS/dt = -beta*S*I/S0\ndI/dt = beta*S*I/S0 - gamma*I\n"
      "pulse I += I at 10.5\ntrack height = level\n"
      "data \"cold.csv\" time day\nobserve infected ~ poisson(I)\n";
  world w;
  atvi_predicted *series;
  atvi_idx n, before = -1, after = -1, low = -1, high = -1;
  world_open(&w, text);
  CHECK_OK(of_fit(&w, text, NULL));
  CHECK_MSG(!w.d->about->no_groups, "%s", w.d->about->no_groups);
  CHECK_OK(atvi_diag_predicted_read(w.pool, w.d, ATVI_PREDICTED_GRID, &n, &series));
  CHECK_OK(atvi_diag_predicted_judge(w.ctx, DRAWS, n, series));
  CHECK_INT(n, 2);
  CHECK(series[0].n > 200 && series[0].n < 260);
  for (atvi_idx i = 1; i < series[0].n; i++) {
    CHECK(series[0].point[i].time > series[0].point[i - 1].time);
    if (series[0].point[i].time <= 10.5) before = i;
    if (series[0].point[i].time <= 10.5001) after = i;
  }
  CHECK(series[0].point[before].time == 10.5 && series[0].point[before].grid && after == before + 1);
  CHECK_REL(series[0].point[after].of_mean.mean, 2 * series[0].point[before].of_mean.mean, 1e-3);
  for (atvi_idx i = 0; i < series[1].n; i++) {
    if (series[1].point[i].time < 3.25) low = i;
    if (series[1].point[i].time <= 3.25) high = i;
  }
  CHECK(high == low + 1 && series[1].point[low].time > 3.249);
  CHECK(series[1].point[low].of_mean.mean == 1 && series[1].point[high].of_mean.mean == 4);
  /* what is said at the times of the data is the same with and without the times between them */
  for (atvi_idx i = 0, k = 0; i < series[0].n; i++)
    if (!series[0].point[i].grid) CHECK(series[0].point[i].time == w.d->series[0].time[k++]);
  world_close(&w);
}

/* A start just before the data is shown, with what happens there; one long before them is not. */
static void the_grid_shows_the_start(void) {
#define DECAY                                                                                                \
  "param beta ~ uniform(0, 3)\nparam gamma ~ uniform(0, 3)\nparam S0 ~ uniform(37, 100)\nstate I = 1\n"      \
  "dI/dt = (beta - gamma - 0.7)*I\npulse I += S0 at -0.75\ndata \"cold.csv\" time day\n"                     \
  "observe infected ~ poisson(I)\n"
  static const char *const text[2] = {DECAY "start -1.5\n", DECAY "start -15\n"};
  for (int k = 0; k < 2; k++) {
    world w;
    atvi_predicted *s;
    atvi_idx n, early = 0;
    world_open(&w, text[k]);
    CHECK_OK(of_fit(&w, text[k], NULL));
    CHECK_MSG(!w.d->about->no_groups, "%s", w.d->about->no_groups);
    CHECK_OK(atvi_diag_predicted_read(w.pool, w.d, ATVI_PREDICTED_GRID, &n, &s));
    CHECK_OK(atvi_diag_predicted_judge(w.ctx, DRAWS, n, s));
    while (early < s->n && s->point[early].time < 0) CHECK(s->point[early++].grid);
    if (k == 0) {
      CHECK_MSG(early > 10 && early < 30, "%td times before the data", early);
      CHECK_ABS(s->point[0].time, -1.5, 1e-3);
      CHECK_REL(s->point[0].of_mean.mean, 1, 1e-3);
      CHECK(s->point[early - 1].of_mean.mean > 30); /* after the pulse */
    } else {
      CHECK_INT(early, 0);
    }
    world_close(&w);
  }
}

TESTS({"start", the_grid_shows_the_start}, {"once", the_model_is_run_once},
      {"series", series_have_bands_residuals_and_pits}, {"held", held_out_values_are_marked},
      {"grid", the_grid_shows_jumps_and_pulses})
