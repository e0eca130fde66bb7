/* SPDX-License-Identifier: MIT */
/* How far a posterior would move with a perfect emulator, where that is known.
 *
 * f(x) = 20 x, observed n times with noise of variance v. Over a posterior that is narrow against the
 * lengths of the kernel the emulator is a line of slope b with an error of variance e that is the same
 * everywhere: the posterior's variance is (v / n + e) / b^2, of which e / b^2 is the emulator's. */
#include "emulated_world.h"

enum { B = 256, GRID = 4000, OBSERVED_N = 4 };

static const char LINE[] =
    "param x ~ uniform(0, 1)\n%s"
    "emulator f {\n inputs x\n designs \"designs.csv\" columns 2..2\n"
    " outputs \"outputs.csv\" columns 2..2\n kernel squared\n lengths 0.5\n nugget 1e-9\n}\n"
    "data \"data.csv\"\nobserve y ~ emulator(f, %s)%s\n";

static atvi_model *line(atvi_ctx *ctx, int runs, const char *params, const char *sill, const char *noise) {
  double x[20], y[20];
  char text[900];
  for (int i = 0; i < runs; i++) x[i] = i / (runs - 1.0), y[i] = 20 * x[i];
  write_matrix("designs.csv", x, runs, 1);
  write_matrix("outputs.csv", y, runs, 1);
  test_file("data.csv", "y\n9.1\n10.3\n9.4\n10.0\n"); /* mean 9.7 */
  snprintf(text, sizeof text, LINE, params, sill, noise);
  return load_with(ctx, text, (atvi_model_load_opts){0});
}

/* The posterior of x by quadrature: B draws at its quantiles, the rest of theta[d][B] at `rest`. Returns
 * its sd. */
static double draws(atvi_ctx *ctx, const atvi_model *m, double rest, double *theta) {
  static double mass[GRID];
  const atvi_target *t = atvi_model_target(m);
  double most = -HUGE_VAL, all = 0, sum = 0, mean = 0, square = 0;
  for (int g = 0; g < GRID; g++) {
    const double at[2] = {(g + 0.5) / GRID, rest};
    mass[g] = test_eval(ctx, t, at).ll;
    most = fmax(most, mass[g]);
  }
  for (int g = 0; g < GRID; g++) all += mass[g] = exp(mass[g] - most);
  for (int g = 0, b = 0; g < GRID; sum += mass[g++])
    for (; b < B && (b + 0.5) / B * all < sum + mass[g]; b++)
      theta[b] = (g + ((b + 0.5) / B * all - sum) / mass[g]) / GRID;
  for (int b = 0; b < B; b++) mean += theta[b] / B, square += theta[b] * theta[b] / B;
  for (int b = 0; t->d > 1 && b < B; b++) theta[B + b] = rest * (1 + 0.01 * (b % 7));
  return sqrt(square - mean * mean);
}

static void moves(atvi_pool *pool, const atvi_model *m, const double *theta, atvi_emulated_moves *out) {
  double weight[B];
  for (int b = 0; b < B; b++) weight[b] = 1.0 / B;
  CHECK_OK(atvi_model_emulated_moves(pool, m, 7, B, theta, weight, out));
}

static void few_runs_move_it_as_far_as_their_error_does(void) {
  static double theta[B];
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  atvi_emulated_moves v, again;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  atvi_model *m = line(ctx, 2, "", "1", " + white(1)");
  draws(ctx, m, 0, theta);
  moves(pool, m, theta, &v);
  /* k(1/2) = exp(-1/2), k(1) = exp(-2) */
  double e = 1 - 2 * exp(-1) / (1 + exp(-2)), noise = 1.0 / OBSERVED_N;
  CHECK_REL(v.moved[0], sqrt(e / (e + noise)), 0.15);
  CHECK_REL(v.sd[0], sqrt(noise / (e + noise)), 0.1);
  CHECK_ABS(v.zero[0], 0, 0.1); /* the variance is nearly the same everywhere: without it the mean stays */
  CHECK(v.worth > 100 && v.worth < B);
  const atvi_dossier_near *near = &m->emulated->emulator[0].dossier.near;
  CHECK_REL(near->sd, sqrt(e), 0.02);
  CHECK_REL(near->noise, 1, 1e-12);
  CHECK_REL(near->share, e, 0.04);
  CHECK_REL(near->n_run, 2, 0.05);
  atvi_ctx_set_threads(ctx, 3);
  moves(pool, m, theta, &again);
  CHECK(again.moved[0] == v.moved[0] && again.sd[0] == v.sd[0] && again.worth == v.worth);
  atvi_model_free(m);
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* Both means are of the same draws: a difference far below their own errors is seen. */
static void small_movements_are_seen(void) {
  static double theta[B];
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  atvi_emulated_moves v;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  atvi_model *m = line(ctx, 2, "", "1e-3", " + white(1)");
  draws(ctx, m, 0, theta);
  moves(pool, m, theta, &v);
  double e = 1e-3 * (1 - 2 * exp(-1) / (1 + exp(-2))), noise = 1.0 / OBSERVED_N;
  CHECK_REL(v.moved[0], sqrt(e / (e + noise)), 0.15); /* 0.037 */
  atvi_model_free(m);
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
}

/* And the posterior with the simulator itself is where it was said to be: the runs give the line to 1e-3. */
static void many_runs_leave_nothing_to_move(void) {
  static double theta[B];
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  atvi_emulated_moves v;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  atvi_model *m = line(ctx, 9, "", "1", " + white(1)");
  double sd = draws(ctx, m, 0, theta), mean = 0;
  for (int b = 0; b < B; b++) mean += theta[b] / B;
  moves(pool, m, theta, &v);
  CHECK(v.moved[0] < 0.05);
  CHECK_REL(v.sd[0], 1, 0.01);
  CHECK_ABS(v.zero[0], 0, 0.01);
  CHECK(v.worth > 0.99 * B);
  CHECK_ABS(mean, 9.7 / 20, 0.05 * sd);
  CHECK_REL(sd, sqrt(1.0 / OBSERVED_N) / 20, 0.02);
  atvi_model_free(m);
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* Where next to nothing but the emulator's error is there, all of the posterior is the emulator's; where
 * nothing is, no function explains the data but at one draw. */
static void without_noise_all_of_it_is_the_emulators(void) {
  static double theta[B];
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  atvi_emulated_moves v;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  test_file("data.csv", "y\n9.7\n");
  atvi_model *m = line(ctx, 2, "", "1", " + white(1e-5)");
  draws(ctx, m, 0, theta);
  moves(pool, m, theta, &v);
  CHECK(v.moved[0] > 0.8 && v.moved[0] < 1.2 && v.worth < 10);
  atvi_model_free(m);
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
}

static void the_sill_of_the_error_does_not_move(void) {
  static double theta[2 * B];
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  atvi_emulated_moves v;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  atvi_model *m = line(ctx, 2, "param s ~ exponential(1)\n", "s", " + white(1)");
  draws(ctx, m, 1, theta);
  moves(pool, m, theta, &v);
  CHECK_INT(v.n, 2);
  CHECK(isnan(v.moved[1]) && isnan(v.zero[1]) && isnan(v.sd[1]));
  CHECK(v.moved[0] > 0.6 && v.moved[0] < 0.9);
  atvi_model_free(m);
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
}

static void missing_memory_is_reported(void) {
  static double theta[B];
  double weight[B];
  atvi_ctx *ctx = test_ctx();
  atvi_model *m = line(ctx, 3, "", "1", " + white(1)");
  draws(ctx, m, 0, theta);
  for (int b = 0; b < B; b++) weight[b] = 1.0 / B;
  for (long k = 1;; k++) {
    atvi_pool *pool;
    atvi_emulated_moves v;
    CHECK_OK(atvi_pool_new(ctx, &pool));
    test_fail_at = test_allocs + k;
    atvi_status status = atvi_model_emulated_moves(pool, m, 7, B, theta, weight, &v);
    bool reached = test_allocs >= test_fail_at;
    test_fail_at = 0;
    CHECK_INT(status, reached ? ATVI_ENOMEM : ATVI_OK);
    atvi_pool_free(pool);
    if (!reached) break;
  }
  atvi_model_free(m);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

TESTS({"few", few_runs_move_it_as_far_as_their_error_does}, {"small", small_movements_are_seen},
      {"many", many_runs_leave_nothing_to_move}, {"noiseless", without_noise_all_of_it_is_the_emulators},
      {"sill", the_sill_of_the_error_does_not_move}, {"memory", missing_memory_is_reported})
