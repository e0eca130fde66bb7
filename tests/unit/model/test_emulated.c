/* SPDX-License-Identifier: MIT */
/* Models whose observations are sums of processes, against dense matrices. The covariances here have
 * condition numbers below 1e4: 1e-10 is far above rounding and far below any mistake. */
#include "emulated_world.h"

static const double THETA[D] = {3.31, 0.87, 0.61, 2.7, 0.083, 4.1};
static const bool USED[ROWS] = {true, true, true, true, false, true, true, true};

static void likelihood_equals_dense(void) {
  atvi_ctx *ctx = test_ctx();
  write_world();
  atvi_model *m = load_with(ctx, PARAMETERS EMULATOR OBSERVED, (atvi_model_load_opts){0});
  const atvi_target *t = atvi_model_target(m);
  double mean[ROWS];
  markov_dense d = {0};
  test_value v = test_eval(ctx, t, THETA);
  CHECK_INT(v.outcome, ATVI_RUN_OK);
  CHECK_REL(v.ll, dense_world(ctx, THETA, USED, mean, &d), 1e-10);
  CHECK(test_gradient(ctx, t, THETA, 1e-6) < 1e-7);
  CHECK_INT(t->group, ATVI_EM_GROUP);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void compiled_code_agrees(void) {
  atvi_ctx *ctx = test_ctx();
  write_world();
  test_value v[2];
  for (int k = 0; k < 2; k++) {
    atvi_model *m = test_load(ctx, test_file("world.atvi", PARAMETERS EMULATOR OBSERVED), k);
    v[k] = test_eval(ctx, atvi_model_target(m), THETA);
    atvi_model_free(m);
  }
  CHECK_REL(v[0].ll, v[1].ll, 1e-12);
  for (int i = 0; i < D; i++) CHECK_REL(v[0].gl[i], v[1].gl[i], 1e-9);
  atvi_ctx_free(ctx);
}

static void fill_points(atvi_idx B, double *theta) {
  atvi_rng r = atvi_math_rng_at(8, ATVI_STREAM_TEST, 0, 0);
  for (atvi_idx b = 0; b < B; b++)
    for (int i = 0; i < D; i++) theta[i * B + b] = THETA[i] * (0.8 + 0.4 * atvi_math_rng_uniform(&r));
}

/* In groups of 32, on two threads, with points outside and points that fail among them: each as if it were
 * alone. */
static void a_point_does_not_depend_on_its_batch(void) {
  enum { B = 77 };
  static double theta[D * B], lp[B], ll[B], gp[D * B], gl[D * B];
  static atvi_outcome outcome[B];
  atvi_ctx *ctx = test_ctx();
  atvi_evaluator *ev;
  write_world();
  atvi_ctx_set_threads(ctx, 2);
  atvi_model *m = load_with(ctx, PARAMETERS EMULATOR OBSERVED, (atvi_model_load_opts){0});
  const atvi_target *t = atvi_model_target(m);
  CHECK_OK(atvi_model_evaluator_new(ctx, t, &ev));
  fill_points(B, theta);
  theta[0 * B + 5] = 5.5; /* outside the box */
  theta[3 * B + 40] = -1; /* a range below 0: outside the support */
  theta[1 * B + 41] = NAN;
  theta[1 * B + 42] = 1e300; /* inside, and far from all runs: only the discrepancy could explain it */
  atvi_model_evaluator_run(
      ev, &(atvi_batch){.B = B, .theta = theta, .log_lik = ll}); /* threads are started once */
  long before = test_allocs;
  atvi_model_evaluator_run(ev, &(atvi_batch){.B = B,
                                             .theta = theta,
                                             .log_prior = lp,
                                             .log_lik = ll,
                                             .grad_prior = gp,
                                             .grad_lik = gl,
                                             .outcome = outcome});
  CHECK(test_allocs == before);
  for (int b = 0; b < B; b++) {
    double one[D];
    for (int i = 0; i < D; i++) one[i] = theta[i * B + b];
    test_value v = test_eval(ctx, t, one);
    CHECK_INT(outcome[b], v.outcome);
    CHECK_INT(outcome[b], b == 5 || b == 40 || b == 41 || b == 42 ? ATVI_RUN_OUTSIDE : ATVI_RUN_OK);
    CHECK(ll[b] == v.ll && lp[b] == v.lp);
    for (int i = 0; i < D; i++) CHECK(gl[i * B + b] == v.gl[i] && gp[i * B + b] == v.gp[i]);
  }
  atvi_model_evaluator_free(ev);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* Everything that predict and pointwise say at one point, against dense; rows held apart are not learnt from
 * but judged. */
static void check_reports(atvi_ctx *ctx, atvi_model *m, const bool *used, bool values) {
  const atvi_target *t = atvi_model_target(m);
  void *work;
  double out[3 * ROWS], point[ROWS], em[ROWS], term[3 * ROWS], var[ROWS], loo_mean[ROWS], loo_var[ROWS];
  markov_dense d = {.mean = term, .var = var, .loo_mean = loo_mean, .loo_var = loo_var};
  CHECK_INT(t->n_series, 3);
  CHECK_INT(t->n_out, 3 * ROWS);
  CHECK_STR(t->series[1].name, "y.emulator");
  CHECK_STR(t->series[2].name, "y.discrepancy");
  CHECK(t->series[2].kind == ATVI_SERIES_TRACKED && t->series[2].n == ROWS && t->series[2].time[7] == 7);
  CHECK_OK(t->ops->work_new(t->self, ctx, &work));
  t->ops->predict(t->self, work, 1, THETA, out);
  t->ops->pointwise(t->self, work, 1, THETA, point);
  dense_world(ctx, THETA, used, em, &d);
  for (int r = 0; r < ROWS; r++) {
    CHECK_REL(out[r], em[r] + term[r] + term[ROWS + r], 1e-10);
    CHECK_REL(out[ROWS + r], em[r] + term[r], 1e-10);
    CHECK_ABS(out[2 * ROWS + r], term[ROWS + r], 1e-10);
    double z = DATA[r] - em[r] - loo_mean[r];
    if (isnan(DATA[r]) || (!used[r] && !values))
      CHECK(isnan(point[r]));
    else
      CHECK_ABS(point[r], -0.5 * (log(2 * acos(-1) * loo_var[r]) + z * z / loo_var[r]), 1e-9);
  }
  t->ops->work_free(work);
}

/* What the emulator said at the points before is used only at the same points. */
static void check_order(atvi_ctx *ctx, atvi_model *m) {
  const atvi_target *t = atvi_model_target(m);
  void *work;
  double out[3 * ROWS], again[3 * ROWS], point[ROWS], other[D];
  for (int i = 0; i < D; i++) other[i] = THETA[i] * (1 + 0.01 * (i == 0));
  CHECK_OK(t->ops->work_new(t->self, ctx, &work));
  t->ops->predict(t->self, work, 1, THETA, out);
  t->ops->pointwise(t->self, work, 1, THETA, point);
  t->ops->predict(t->self, work, 1, other, again);
  CHECK(again[ROWS] != out[ROWS]);
  t->ops->predict(t->self, work, 1, THETA, again);
  CHECK(memcmp(again, out, sizeof out) == 0);
  t->ops->work_free(work);
}

static void predictions_are_conditional_means(void) {
  const bool some[ROWS] = {true, true, true, true, false, true, false, false};
  atvi_ctx *ctx = test_ctx();
  write_world();
  const bool none[ROWS] = {false};
  for (int how = 0; how < 4; how++) {
    const atvi_model_load_opts opts[4] = {{0}, {.holdout = "t > 5"}, {.apart = "t > 5"}, {.forward = true}};
    const bool *used = how == 0 ? USED : how == 3 ? none : some;
    atvi_model *m = load_with(ctx, PARAMETERS EMULATOR OBSERVED, opts[how]);
    double mean[ROWS];
    markov_dense d = {0};
    check_reports(ctx, m, used, how >= 2);
    check_order(ctx, m);
    test_value v = test_eval(ctx, atvi_model_target(m), THETA);
    CHECK_REL(v.ll, dense_world(ctx, THETA, used, mean, &d), 1e-10);
    atvi_model_free(m);
  }
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

typedef enum { FREELY, GIVEN, FROM_OTHERS } how_drawn;

/* Moments of 4000 draws in standard errors; a correct program exceeds 5 of them once in 10^5 runs. */
static void right_draws(atvi_ctx *ctx, const atvi_target *t, how_drawn how) {
  enum { B = 4000 };
  static double theta[D * B], out[ROWS * B], again[ROWS];
  double em[ROWS], term[3 * ROWS], var[ROWS], loo_mean[ROWS], loo_var[ROWS], want[ROWS];
  const bool none[ROWS] = {false};
  markov_dense d = {.mean = term, .var = var, .loo_mean = loo_mean, .loo_var = loo_var};
  bool given = how == GIVEN;
  void *work;
  for (int i = 0; i < D * B; i++) theta[i] = THETA[i / B];
  CHECK_OK(t->ops->work_new(t->self, ctx, &work));
  void (*draw)(const void *, void *, uint64_t, atvi_idx, atvi_idx, const double *, double *) =
      given                ? t->ops->predictive
      : how == FROM_OTHERS ? t->ops->leave_one_out
                           : t->ops->simulate;
  draw(t->self, work, 3, 100, B, theta, out);
  draw(t->self, work, 3, 145, 1, THETA, again);
  t->ops->work_free(work);
  dense_world(ctx, THETA, how == FREELY ? none : USED, em, &d);
  for (int r = 0; r < ROWS; r++) {
    double m1 = 0, m2 = 0, v = how == FROM_OTHERS ? loo_var[r] : var[r] + THETA[4];
    want[r] = em[r] + (given ? term[r] + term[ROWS + r] : how == FROM_OTHERS ? loo_mean[r] : 0);
    for (int b = 0; b < B; b++) m1 += out[r * B + b] / B;
    for (int b = 0; b < B; b++) m2 += (out[r * B + b] - want[r]) * (out[r * B + b] - want[r]) / B;
    CHECK_ABS(m1, want[r], 5 * sqrt(v / B));
    CHECK_ABS(m2, v, 5 * v * sqrt(2.0 / B));
    CHECK(out[r * B + 45] == again[r]); /* draw number 145, whatever the batch */
  }
}

/* Parts are those of the predictive draws: the rest of these is noise, which does not know the parts. Their
 * sum is in the place of the conditional mean, with its own variance. */
static void drawn_parts_belong_to_the_draws(void) {
  enum { B = 4000 };
  static double theta[D * B], whole[ROWS * B], out[3 * ROWS * B];
  double em[ROWS], term[3 * ROWS], var[ROWS], var_term[3 * ROWS];
  markov_dense d = {.mean = term, .var = var, .var_term = var_term};
  atvi_ctx *ctx = test_ctx();
  void *work;
  write_world();
  atvi_model *m = load_with(ctx, PARAMETERS EMULATOR OBSERVED, (atvi_model_load_opts){0});
  const atvi_target *t = atvi_model_target(m);
  for (int i = 0; i < D * B; i++) theta[i] = THETA[i / B];
  CHECK_OK(t->ops->work_new(t->self, ctx, &work));
  t->ops->predict(t->self, work, B, theta, out);
  t->ops->predictive(t->self, work, 3, 100, B, theta, whole);
  t->ops->latent(t->self, work, 3, 100, B, theta, out);
  t->ops->work_free(work);
  dense_world(ctx, THETA, USED, em, &d);
  for (int r = 0; r < ROWS; r++) {
    double noise = 0, with = 0, e1 = 0, e2 = 0, v = 0, v2 = 0;
    for (int b = 0; b < B; b++) {
      double a = out[(ROWS + r) * B + b] - em[r] - term[r], c = out[(2 * ROWS + r) * B + b] - term[ROWS + r];
      CHECK(out[r * B + b] == out[(ROWS + r) * B + b] + out[(2 * ROWS + r) * B + b]);
      v += (a + c) * (a + c) / B;
      double z = whole[r * B + b] - out[(ROWS + r) * B + b] - out[(2 * ROWS + r) * B + b];
      e1 += a / B, e2 += c / B, v2 += c * c / B, noise += z * z / B, with += z * c / B;
    }
    CHECK_ABS(e1, 0, 5 * sqrt(var_term[r] / B));
    CHECK_ABS(e2, 0, 5 * sqrt(var_term[ROWS + r] / B));
    CHECK_ABS(v, var[r], 5 * var[r] * sqrt(2.0 / B));
    CHECK_ABS(v2, var_term[ROWS + r], 5 * var_term[ROWS + r] * sqrt(2.0 / B));
    CHECK_ABS(noise, THETA[4], 5 * THETA[4] * sqrt(2.0 / B));
    CHECK_ABS(with, 0, 5 * sqrt(THETA[4] * var_term[ROWS + r] / B));
  }
  atvi_model_free(m);
  atvi_ctx_free(ctx);
}

static void draws_are_of_the_right_law(void) {
  atvi_ctx *ctx = test_ctx();
  write_world();
  atvi_model *m = load_with(ctx, PARAMETERS EMULATOR OBSERVED, (atvi_model_load_opts){0});
  for (how_drawn how = FREELY; how <= FROM_OTHERS; how++) right_draws(ctx, atvi_model_target(m), how);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
}

/* A simulator that prints six digits has the times of data with more. */
static void times_may_be_rounded(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_model *m;
  double ll[3];
  for (int k = 0; k < 3; k++) {
    char text[400];
    snprintf(text, sizeof text, "t,y\n%.9f,2.385\n1,4.19\n", k == 0 ? 0.5 : k == 1 ? 0.5000004 : 0.501);
    write_world();
    test_file("data.csv", text);
    atvi_status status =
        atvi_model_load_with(ctx, test_file("world.atvi", PARAMETERS EMULATOR OBSERVED),
                             &(atvi_model_load_opts){.interpret = true, .runs = test_dir}, &m);
    if (k == 2) {
      CHECK_INT(status, ATVI_EDATA);
      CHECK(strstr(atvi_errmsg(ctx), "no output at time 0.501"));
      continue;
    }
    CHECK_INT(status, ATVI_OK);
    ll[k] = test_eval(ctx, atvi_model_target(m), THETA).ll;
    atvi_model_free(m);
  }
  CHECK_REL(ll[1], ll[0], 1e-5);
  atvi_ctx_free(ctx);
}

/* The output that a value at that time belongs to; -1: none. */
static atvi_idx output_of(atvi_ctx *ctx, const char *time) {
  char text[100];
  atvi_model *m;
  snprintf(text, sizeof text, "t,y\n%s,2.385\n", time);
  test_file("data.csv", text);
  atvi_status status = atvi_model_load_with(ctx, test_file("world.atvi", PARAMETERS EMULATOR OBSERVED),
                                            &(atvi_model_load_opts){.interpret = true, .runs = test_dir}, &m);
  if (status == ATVI_EDATA) {
    CHECK(strstr(atvi_errmsg(ctx), "has no output at time"));
    return -1;
  }
  CHECK_MSG(status == ATVI_OK, "%s", atvi_errmsg(ctx));
  atvi_idx at = m->emulated->process[0].em_row[0];
  atvi_model_free(m);
  return at;
}

/* Nine decades: what is one time among the late outputs is another among the early ones. */
static void times_match_by_their_digits(void) {
  atvi_ctx *ctx = test_ctx();
  double time[TIMES];
  char text[40];
  write_world();
  for (int k = 0; k < TIMES; k++) time[k] = 1e-6 * pow(1e9, (double)k / (TIMES - 1));
  write_matrix("times.csv", time, TIMES, 1);
  for (int k = 0; k < TIMES; k++) {
    snprintf(text, sizeof text, "%.6g", time[k]);
    CHECK_INT(output_of(ctx, text), k);
    snprintf(text, sizeof text, "%.17g", time[k] * 1.0001);
    CHECK_INT(output_of(ctx, text), -1);
    snprintf(text, sizeof text, "%.17g", time[k] * 0.9999);
    CHECK_INT(output_of(ctx, text), -1);
  }
  CHECK_INT(output_of(ctx, "0"), -1);
  /* Close ones: a thousandth of the step, whatever the digits; and 0, which has none. */
  const double close[TIMES] = {0, 10, 100, 100.01, 100.02, 200, 300, 400, 500};
  write_matrix("times.csv", close, TIMES, 1);
  CHECK_INT(output_of(ctx, "100.010009"), 3);
  CHECK_INT(output_of(ctx, "100.009991"), 3);
  CHECK_INT(output_of(ctx, "100.010011"), -1);
  CHECK_INT(output_of(ctx, "100.0099"), -1);
  CHECK_INT(output_of(ctx, "200.001"), 5);
  CHECK_INT(output_of(ctx, "200.0011"), -1);
  CHECK_INT(output_of(ctx, "1e-12"), 0);
  CHECK_INT(output_of(ctx, "1e-10"), -1);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* Rows at further times come after the data's, out of order in time. */
static void further_times_are_predicted(void) {
  const double further[3] = {1, 2, 4.5}; /* the first one is there already */
  atvi_ctx *ctx = test_ctx();
  write_world();
  atvi_model *m = load_with(ctx, PARAMETERS EMULATOR OBSERVED,
                            (atvi_model_load_opts){.n_time = 3, .time = further, .extend = true});
  atvi_model *plain = load_with(ctx, PARAMETERS EMULATOR OBSERVED, (atvi_model_load_opts){0});
  const atvi_target *t = atvi_model_target(m), *p = atvi_model_target(plain);
  double out[3 * (ROWS + 2)], base[3 * ROWS];
  void *work;
  CHECK_INT(t->n_obs, ROWS + 2);
  CHECK_OK(t->ops->work_new(t->self, ctx, &work));
  t->ops->predict(t->self, work, 1, THETA, out);
  t->ops->work_free(work);
  CHECK_OK(p->ops->work_new(p->self, ctx, &work));
  p->ops->predict(p->self, work, 1, THETA, base);
  p->ops->work_free(work);
  CHECK_REL(test_eval(ctx, t, THETA).ll, test_eval(ctx, p, THETA).ll, 1e-13);
  for (int r = 0; r < ROWS; r++) CHECK_REL(out[r], base[r], 1e-11);
  for (int r = ROWS; r < ROWS + 2; r++)
    CHECK(isfinite(out[r]) && out[r] == out[ROWS + 2 + r] + out[2 * (ROWS + 2) + r]);
  atvi_model_free(plain);
  atvi_model_free(m);
  atvi_model *none;
  CHECK_STATUS(atvi_model_load_with(
                   ctx, test_file("world.atvi", PARAMETERS EMULATOR OBSERVED),
                   &(atvi_model_load_opts){.runs = test_dir, .n_time = 1, .time = (double[]){2.2}}, &none),
               ATVI_EINVAL);
  CHECK(strstr(atvi_errmsg(ctx), "no output at time 2.2; it has 9, from 0.5 to 7"));
  atvi_ctx_free(ctx);
}

/* Means that are left in place would pass for draws. */
static void latent_without_memory(atvi_ctx *ctx, const atvi_target *t, const double *theta) {
  double out[3 * ROWS];
  void *work;
  CHECK_OK(t->ops->work_new(t->self, ctx, &work));
  t->ops->predict(t->self, work, 1, theta, out);
  CHECK(isfinite(out[0]) && isfinite(out[3 * ROWS - 1]));
  test_fail_at = test_allocs + 1;
  t->ops->latent(t->self, work, 7, 2, 1, theta, out);
  test_fail_at = 0;
  t->ops->work_free(work);
  for (int r = 0; r < 3 * ROWS; r++) CHECK(isnan(out[r]));
}

/* With parameters held, by groups too. */
static void parameters_may_be_fixed(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_target *fixed;
  write_world();
  atvi_model *m = load_with(ctx, PARAMETERS EMULATOR OBSERVED, (atvi_model_load_opts){0});
  const atvi_target *t = atvi_model_target(m);
  CHECK_OK(atvi_model_fixed_new(ctx, t, 2, (const atvi_idx[]){1, 5}, (const double[]){THETA[1], THETA[5]},
                                &fixed));
  const double free_theta[4] = {THETA[0], THETA[2], THETA[3], THETA[4]};
  double out[2][3 * ROWS], others[2][ROWS], parts[2][3 * ROWS] = {{0}};
  test_value v = test_eval(ctx, t, THETA), f = test_eval(ctx, fixed, free_theta);
  CHECK(v.ll == f.ll && v.gl[0] == f.gl[0] && v.gl[4] == f.gl[3]);
  for (int k = 0; k < 2; k++) {
    const atvi_target *at = k ? fixed : t;
    void *work;
    CHECK_OK(at->ops->work_new(at->self, ctx, &work));
    at->ops->predictive(at->self, work, 7, 2, 1, k ? free_theta : THETA, out[k]);
    at->ops->leave_one_out(at->self, work, 7, 2, 1, k ? free_theta : THETA, others[k]);
    at->ops->latent(at->self, work, 7, 2, 1, k ? free_theta : THETA, parts[k]);
    at->ops->work_free(work);
  }
  for (int r = 0; r < ROWS; r++) CHECK(out[0][r] == out[1][r] && others[0][r] == others[1][r]);
  for (int r = 0; r < 3 * ROWS; r++) CHECK(parts[0][r] == parts[1][r] && parts[0][r] != 0);
  latent_without_memory(ctx, fixed, free_theta);
  atvi_model_fixed_free(fixed);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* No emulator; constants; two observations, extra terms and a tracked value. */
static void other_statements_go_with_it(void) {
  static const char *const TEXT =
      "param v ~ exponential(1)\nparam l ~ gamma(2, 1/3)\nparam a ~ normal(0, 1)\ndata \"two.csv\" time t\n"
      "observe y ~ matern32(2*v, l) + exponential(0.3, 1.5) + white(0.2)\n"
      "observe z ~ exponential(v, 2.5) + white(0.7)\ntrack twice = 2*a\nlogp -0.1*a^2\n";
  const atvi_gp_kind first[3] = {ATVI_GP_MATERN32, ATVI_GP_EXPONENTIAL, ATVI_GP_WHITE};
  const double time[4] = {1, 2, 3.5, 4}, y[4] = {0.71, -0.4, 0.93, 1.2}, z[4] = {0.3, -0.2, 1.1, 0.385};
  const double theta[3] = {0.81, 2.2, 0.35}, par[6] = {1.62, 2.2, 0.3, 1.5, 0.2, 0},
               par2[4] = {0.81, 2.5, 0.7, 0};
  atvi_ctx *ctx = test_ctx();
  markov_dense d = {0}, d2 = {0};
  test_file("two.csv", "t,y,z\n1,0.71,0.3\n2,-0.4,-0.2\n3.5,0.93,1.1\n4,1.2,0.385\n");
  atvi_model *m = load_with(ctx, TEXT, (atvi_model_load_opts){0});
  const atvi_target *t = atvi_model_target(m);
  double out[64], point[8];
  CHECK_OK(markov_ref(ctx, 4, time, NULL, 3, first, par, y, &d));
  CHECK_OK(markov_ref(ctx, 4, time, NULL, 2, first + 1, par2, z, &d2));
  CHECK_REL(test_eval(ctx, t, theta).ll, d.log_density + d2.log_density - 0.1 * theta[2] * theta[2], 1e-11);
  CHECK(test_gradient(ctx, t, theta, 1e-6) < 1e-7);
  CHECK_INT(t->n_series, 5);
  CHECK_STR(t->series[2].name, "twice");
  CHECK_STR(t->series[3].name, "y.discrepancy"); /* and no emulator */
  CHECK_STR(t->series[4].name, "z.discrepancy");
  void *work;
  CHECK_OK(t->ops->work_new(t->self, ctx, &work));
  t->ops->predict(t->self, work, 1, theta, out);
  t->ops->pointwise(t->self, work, 1, theta, point);
  for (int i = 0; i < 4; i++) {
    CHECK(out[i] == out[t->n_out - 8 + i] && out[4 + i] == out[t->n_out - 4 + i]);
    CHECK(isfinite(point[i]) && isfinite(point[4 + i]));
    CHECK_REL(out[8 + i], 0.7, 1e-14);
  }
  t->ops->simulate(t->self, work, 1, 0, 1, theta, out);
  for (int i = 0; i < 4; i++) CHECK(isfinite(out[i]) && isfinite(out[4 + i]) && out[i] != out[4 + i]);
  t->ops->work_free(work);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

TESTS({"dense", likelihood_equals_dense}, {"compiled", compiled_code_agrees},
      {"batch", a_point_does_not_depend_on_its_batch}, {"predict", predictions_are_conditional_means},
      {"draws", draws_are_of_the_right_law}, {"parts", drawn_parts_belong_to_the_draws},
      {"rounded", times_may_be_rounded}, {"digits", times_match_by_their_digits},
      {"times", further_times_are_predicted}, {"fixed", parameters_may_be_fixed},
      {"others", other_statements_go_with_it})
