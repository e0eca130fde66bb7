/* SPDX-License-Identifier: MIT */
/* Blocks `each` against the same model written out by hand. */
#include "core/core.h"
#include "model/evaluator.h"
#include "model/model.h"
#include "models.h"
#include <math.h>

static const char *const SUBJECTS = "subject,weight\na,70\nb,55\nc,92\n";
static const char *const DOSES = "subject,time,amount\na,0,100\na,12,50\nb,0,80\n";
static const char *const CONC =
    "subject,hour,conc\na,1,4.1\na,6,2.9\na,13,3.7\nb,2,4.4\nb,20,<0.6\nc,1,0.31\nb,30,NA\n";

static const char *const UNITS = "param lCL ~ normal(1, 1)\n"
                                 "param V ~ uniform(5, 60)\n"
                                 "param w ~ halfnormal(0.5)\n"
                                 "param s ~ exponential(2)\n"
                                 "each subject from \"subjects.csv\" {\n"
                                 "  param CL ~ lognormal(lCL + 0.75*log(weight/70), w)\n"
                                 "  param base ~ uniform(0.1, 2)\n"
                                 "  state A = base\n"
                                 "  dA/dt = -CL/V*A\n"
                                 "  pulse A += amount at time from \"doses.csv\"\n"
                                 "  start 0\n"
                                 "  data \"conc.csv\" time hour\n"
                                 "  observe conc ~ lognormal(log(A/V + 0.01*base), s)\n"
                                 "  derived half = log(2)*V/CL\n"
                                 "  track amount_left = A*weight\n"
                                 "}\n"
                                 "derived spread = exp(w)\n"
                                 "solver rk45 tol 1e-10\n";

/* The order of parameters is that of the blocks: CL of all, then base of all. */
static const char *const BY_HAND =
    "param lCL ~ normal(1, 1)\nparam V ~ uniform(5, 60)\nparam w ~ halfnormal(0.5)\nparam s ~ "
    "exponential(2)\n"
    "param CLa ~ lognormal(lCL + 0.75*log(70/70), w)\nparam CLb ~ lognormal(lCL + 0.75*log(55/70), w)\n"
    "param CLc ~ lognormal(lCL + 0.75*log(92/70), w)\n"
    "param basea ~ uniform(0.1, 2)\nparam baseb ~ uniform(0.1, 2)\nparam basec ~ uniform(0.1, 2)\n"
    "state Aa = basea\nstate Ab = baseb\nstate Ac = basec\n"
    "dAa/dt = -CLa/V*Aa\ndAb/dt = -CLb/V*Ab\ndAc/dt = -CLc/V*Ac\n"
    "pulse Aa += 100 at 0\npulse Aa += 50 at 12\npulse Ab += 80 at 0\nstart 0\n"
    "data a \"a.csv\" time hour\ndata b \"b.csv\" time hour\ndata c \"c.csv\" time hour\n"
    "observe a.conc ~ lognormal(log(Aa/V + 0.01*basea), s)\n"
    "observe b.conc ~ lognormal(log(Ab/V + 0.01*baseb), s)\n"
    "observe c.conc ~ lognormal(log(Ac/V + 0.01*basec), s)\n"
    "derived spread = exp(w)\n"
    "derived half_a = log(2)*V/CLa\nderived half_b = log(2)*V/CLb\nderived half_c = log(2)*V/CLc\n"
    "solver rk45 tol 1e-10\n";

enum { D = 10 };
static const double THETA[D] = {0.8, 21, 0.4, 0.3, 2.6, 1.7, 3.1, 0.9, 0.5, 1.3};

static void write_files(void) {
  test_file("subjects.csv", SUBJECTS);
  test_file("doses.csv", DOSES);
  test_file("conc.csv", CONC);
  test_file("a.csv", "hour,conc\n1,4.1\n6,2.9\n13,3.7\n");
  test_file("b.csv", "hour,conc\n2,4.4\n20,<0.6\n30,NA\n");
  test_file("c.csv", "hour,conc\n1,0.31\n");
}

static void load_both(atvi_ctx *ctx, atvi_model **units, atvi_model **by_hand) {
  write_files();
  *units = test_load(ctx, test_file("units.atvi", UNITS), false);
  *by_hand = test_load(ctx, test_file("hand.atvi", BY_HAND), true);
}

static void names_are_those_of_units(void) {
  static const char *const want[D] = {"lCL",  "V",    "w",      "s",      "CL.a",
                                      "CL.b", "CL.c", "base.a", "base.b", "base.c"};
  static const char *const series[] = {
      "conc.a", "conc.b", "conc.c", "amount_left.a", "amount_left.b", "amount_left.c", "A.a", "A.b", "A.c"};
  atvi_ctx *ctx = test_ctx();
  write_files();
  atvi_model *m = test_load(ctx, test_file("units.atvi", UNITS), true);
  const atvi_target *t = atvi_model_target(m);
  CHECK(t->d == D);
  for (int i = 0; i < D; i++) CHECK_STR(t->param[i].name, want[i]);
  CHECK(t->n_derived == 4);
  CHECK_STR(t->derived[0], "spread");
  CHECK_STR(t->derived[3], "half.c");
  CHECK(t->n_series == 9);
  for (int i = 0; i < 9; i++) CHECK_STR(t->series[i].name, series[i]);
  CHECK(t->n_obs == 7);
  CHECK(t->n_unit == 4);
  CHECK(t->unit[2].n_on == 6 && t->unit[2].on[4] == 5 && t->unit[2].on[5] == 8);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
}

static void density_and_gradient_agree(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_model *m, *by_hand;
  load_both(ctx, &m, &by_hand);
  test_value a = test_eval(ctx, atvi_model_target(m), THETA),
             b = test_eval(ctx, atvi_model_target(by_hand), THETA);
  CHECK_ABS(a.lp, b.lp, 1e-12);
  CHECK_ABS(a.ll, b.ll, 1e-7);
  for (int i = 0; i < D; i++) {
    CHECK_ABS(a.gp[i], b.gp[i], 1e-11);
    CHECK_ABS(a.gl[i], b.gl[i], 1e-6);
  }
  double outside[D];
  memcpy(outside, THETA, sizeof outside);
  outside[8] = 2.5; /* base of b above its bound */
  a = test_eval(ctx, atvi_model_target(m), outside);
  CHECK(a.outcome == ATVI_RUN_OUTSIDE && a.lp == -HUGE_VAL && a.ll == -HUGE_VAL && a.gl[0] == 0);
  atvi_model_free(m);
  atvi_model_free(by_hand);
  atvi_ctx_free(ctx);
}

static void units_sum_to_the_whole(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_model *m, *by_hand;
  load_both(ctx, &m, &by_hand);
  const atvi_target *t = atvi_model_target(m);
  test_value all = test_eval(ctx, t, THETA);
  double lp = 0, ll = 0, gl[D] = {0};
  void *work;
  CHECK_OK(t->ops->work_new(t->self, ctx, &work));
  for (atvi_idx u = 0; u < t->n_unit; u++) {
    double theta[D], gp[D], g[D], p, l;
    atvi_outcome outcome;
    for (atvi_idx i = 0; i < t->unit[u].n_on; i++) theta[i] = THETA[t->unit[u].on[i]];
    t->ops->eval_unit(t->self, work, u,
                      &(atvi_batch){.B = 1,
                                    .theta = theta,
                                    .log_prior = &p,
                                    .log_lik = &l,
                                    .grad_prior = gp,
                                    .grad_lik = g,
                                    .outcome = &outcome});
    lp += p, ll += l;
    for (atvi_idx i = 0; i < t->unit[u].n_on; i++) gl[t->unit[u].on[i]] += g[i];
  }
  t->ops->work_free(work);
  CHECK(lp == all.lp && ll == all.ll);
  for (int i = 0; i < D; i++) CHECK(gl[i] == all.gl[i]);
  atvi_model_free(m);
  atvi_model_free(by_hand);
  atvi_ctx_free(ctx);
}

static void threads_do_not_matter(void) {
  enum { B = 6 };
  double theta[D * B], ll[2][B], gl[2][D * B];
  for (int i = 0; i < D; i++)
    for (int b = 0; b < B; b++) theta[i * B + b] = THETA[i] * (1 + 0.01 * b);
  theta[8 * B + 3] = 5; /* one outside */
  write_files();
  for (int k = 0; k < 2; k++) {
    atvi_ctx *ctx = test_ctx();
    atvi_evaluator *ev;
    atvi_ctx_set_threads(ctx, k ? 3 : 1);
    atvi_model *m = test_load(ctx, test_file("units.atvi", UNITS), false);
    CHECK_OK(atvi_model_evaluator_new(ctx, atvi_model_target(m), &ev));
    atvi_model_evaluator_run(ev, &(atvi_batch){.B = B, .theta = theta, .log_lik = ll[k], .grad_lik = gl[k]});
    CHECK(atvi_model_evaluator_count(ev) == B - 1);
    atvi_model_evaluator_free(ev);
    atvi_model_free(m);
    atvi_ctx_free(ctx);
  }
  CHECK(memcmp(ll[0], ll[1], sizeof ll[0]) == 0);
  CHECK(memcmp(gl[0], gl[1], sizeof gl[0]) == 0);
}

static void predictions_and_terms_agree(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_model *m, *by_hand;
  load_both(ctx, &m, &by_hand);
  const atvi_target *a = atvi_model_target(m), *b = atvi_model_target(by_hand);
  double x[200], y[200], sum = 0;
  void *wa, *wb;
  CHECK_OK(a->ops->work_new(a->self, ctx, &wa));
  CHECK_OK(b->ops->work_new(b->self, ctx, &wb));
  a->ops->pointwise(a->self, wa, 1, THETA, x);
  b->ops->pointwise(b->self, wb, 1, THETA, y);
  for (int i = 0; i < 7; i++) {
    CHECK((isnan(x[i]) && isnan(y[i])) || fabs(x[i] - y[i]) < 1e-7);
    if (!isnan(x[i])) sum += x[i];
  }
  CHECK_ABS(sum, test_eval(ctx, a, THETA).ll, 1e-9);
  CHECK(a->n_out <= 200 && b->n_out <= 200);
  a->ops->predict(a->self, wa, 1, THETA, x);
  b->ops->predict(b->self, wb, 1, THETA, y);
  for (int i = 0; i < 7; i++) CHECK_ABS(x[i], y[i], 1e-7);
  CHECK_ABS(x[7], 70 * x[a->n_out - 7], 1e-9); /* amount_left.a and A.a at the first time */
  a->ops->derived(a->self, wa, 1, THETA, x);
  b->ops->derived(b->self, wb, 1, THETA, y);
  for (int i = 0; i < 4; i++) CHECK_ABS(x[i], y[i], 1e-12);
  a->ops->work_free(wa);
  b->ops->work_free(wb);
  atvi_model_free(m);
  atvi_model_free(by_hand);
  atvi_ctx_free(ctx);
}

/* The prior of units is drawn given what is outside: log CL - lCL - 0.75 log(weight/70) has sd w. */
static void prior_draws_follow_the_outside(void) {
  enum { B = 4000 };
  static double theta[D * B];
  static const double weight[3] = {70, 55, 92};
  atvi_ctx *ctx = test_ctx();
  write_files();
  atvi_model *m = test_load(ctx, test_file("units.atvi", UNITS), true);
  const atvi_target *t = atvi_model_target(m);
  void *work;
  CHECK_OK(t->ops->work_new(t->self, ctx, &work));
  t->ops->prior_draw(t->self, work, 7, 0, B, theta);
  double z[3][2] = {{0}}, cross = 0;
  for (int b = 0; b < B; b++)
    for (int k = 0; k < 3; k++) {
      double u = (log(theta[(4 + k) * B + b]) - theta[b] - 0.75 * log(weight[k] / 70)) / theta[2 * B + b];
      z[k][0] += u / B, z[k][1] += u * u / B;
      if (k == 0)
        cross += u * (log(theta[5 * B + b]) - theta[b] - 0.75 * log(weight[1] / 70)) / theta[2 * B + b] / B;
    }
  for (int k = 0; k < 3; k++) {
    CHECK_ABS(z[k][0], 0, 4 / sqrt(B));
    CHECK_ABS(z[k][1], 1, 4 * sqrt(2.0 / B));
  }
  CHECK_ABS(cross, 0, 4 / sqrt(B));
  t->ops->work_free(work);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
}

/* Location and scale of the priors of units, and the adjoint by differences. */
static void places_of_priors(void) {
  atvi_ctx *ctx = test_ctx();
  write_files();
  atvi_model *m = test_load(ctx, test_file("units.atvi", UNITS), true);
  const atvi_target *t = atvi_model_target(m);
  double location[D] = {0}, scale[D] = {0}, up[2][D] = {{0}}, down[2][D] = {{0}}, dl[D] = {0}, ds[D] = {0},
         dtheta[D] = {0}, theta[D];
  void *work;
  CHECK_OK(t->ops->work_new(t->self, ctx, &work));
  CHECK(t->prior != NULL);
  t->ops->prior_place(t->self, work, 1, THETA, location, scale);
  CHECK(t->prior[5].form == ATVI_PRIOR_LOG);
  CHECK(t->prior[8].form == ATVI_PRIOR_ALONE);
  CHECK_ABS(location[5], 0.8 + 0.75 * log(55.0 / 70), 1e-12);
  CHECK_ABS(scale[6], 0.4, 1e-15);
  for (int i = 4; i < 7; i++) dl[i] = i, ds[i] = 0.5 * i;
  t->ops->prior_place_vjp(t->self, work, 1, THETA, dl, ds, dtheta);
  for (int j = 0; j < D; j++) {
    double h = 1e-6, want = 0;
    memcpy(theta, THETA, sizeof theta);
    theta[j] += h;
    t->ops->prior_place(t->self, work, 1, theta, up[0], up[1]);
    theta[j] -= 2 * h;
    t->ops->prior_place(t->self, work, 1, theta, down[0], down[1]);
    for (int i = 4; i < 7; i++)
      want += (dl[i] * (up[0][i] - down[0][i]) + ds[i] * (up[1][i] - down[1][i])) / (2 * h);
    CHECK_ABS(dtheta[j], want, 1e-6);
  }
  t->ops->work_free(work);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
}

/* Two hundred units: one set of programs, and the density of each by itself. */
static void many_units_share_programs(void) {
  enum { N = 200 };
  static char subjects[N * 16 + 32], doses[N * 24 + 32], conc[N * 48 + 32];
  char *a = subjects + sprintf(subjects, "subject,weight\n");
  char *b = doses + sprintf(doses, "subject,time,amount\n");
  char *c = conc + sprintf(conc, "subject,hour,conc\n");
  for (int k = 0; k < N; k++) {
    a += sprintf(a, "u%03d,%d\n", k, 50 + k % 40);
    b += sprintf(b, "u%03d,%d,%d\n", k, k % 3, 80 + k % 50);
    c += sprintf(c, "u%03d,%d,%g\nu%03d,%d,%g\n", k, 4 + k % 5, 2 + 0.01 * k, k, 12, 0.5 + 0.002 * k);
  }
  test_file("subjects.csv", subjects);
  test_file("doses.csv", doses);
  test_file("conc.csv", conc);
  atvi_ctx *ctx = test_ctx();
  atvi_model *m = test_load(ctx, test_file("units.atvi", UNITS), false);
  const atvi_target *t = atvi_model_target(m);
  CHECK_INT(t->n_unit, N + 1);
  CHECK_INT(t->d, 4 + 2 * N);
  for (int k = 1; k <= N; k++)
    CHECK(m->blocks.part[k].m->prog.hot == m->blocks.part[1].m->prog.hot && m->blocks.part[1].m->prog.hot);
  static double theta[4 + 2 * N], gp[4 + 2 * N], gl[4 + 2 * N];
  double lp, ll, sum = 0;
  atvi_outcome outcome;
  void *work;
  for (int i = 0; i < 4; i++) theta[i] = THETA[i];
  for (int k = 0; k < N; k++) theta[4 + k] = 2 + 0.01 * k, theta[4 + N + k] = 0.3 + 0.005 * k;
  CHECK_OK(t->ops->work_new(t->self, ctx, &work));
  t->ops->eval(t->self, work,
               &(atvi_batch){.B = 1,
                             .theta = theta,
                             .log_prior = &lp,
                             .log_lik = &ll,
                             .grad_prior = gp,
                             .grad_lik = gl,
                             .outcome = &outcome});
  CHECK_INT(outcome, ATVI_RUN_OK);
  for (int k = 0; k < N; k++) { /* A is a sum of two exponentials of one rate */
    double CL = theta[4 + k], base = theta[4 + N + k], V = theta[1], s = theta[3];
    for (int r = 0; r < 2; r++) {
      double hour = r ? 12 : 4 + k % 5, y = r ? 0.5 + 0.002 * k : 2 + 0.01 * k;
      double A = base * exp(-CL / V * hour) + (80 + k % 50) * exp(-CL / V * (hour - k % 3));
      double z = (log(y) - log(A / V + 0.01 * base)) / s;
      sum -= 0.5 * z * z + log(s * y) + 0.91893853320467274;
    }
  }
  CHECK_REL(ll, sum, 1e-8);
  t->ops->work_free(work);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
}

static void every_allocation_may_fail(void) {
  write_files();
  const char *path = test_file("units.atvi", UNITS);
  bool done = false;
  for (long at = 1; !done; at += at / 8 + 1) {
    atvi_model *m;
    atvi_evaluator *ev = NULL;
    atvi_ctx *ctx = test_ctx();
    test_fail_at = test_allocs + at;
    atvi_status status = atvi_model_load_with(ctx, path, &(atvi_model_load_opts){.interpret = true}, &m);
    if (status == ATVI_OK) status = atvi_model_evaluator_new(ctx, atvi_model_target(m), &ev);
    done = status == ATVI_OK;
    CHECK(done || status == ATVI_ENOMEM);
    test_fail_at = 0;
    atvi_model_evaluator_free(ev);
    atvi_model_free(m);
    atvi_ctx_free(ctx);
  }
  CHECK_INT(test_live, 0);
}

TESTS({"names_are_those_of_units", names_are_those_of_units},
      {"density_and_gradient_agree", density_and_gradient_agree},
      {"units_sum_to_the_whole", units_sum_to_the_whole}, {"threads_do_not_matter", threads_do_not_matter},
      {"predictions_and_terms_agree", predictions_and_terms_agree},
      {"prior_draws_follow_the_outside", prior_draws_follow_the_outside},
      {"places_of_priors", places_of_priors}, {"many_units_share_programs", many_units_share_programs},
      {"every_allocation_may_fail", every_allocation_may_fail})
