/* SPDX-License-Identifier: MIT */
#include "core/core.h"
#include "model/evaluator.h"
#include "model/model.h"
#include "models.h"

/* log density of N(mean, sd) at y */
static double normal(double y, double mean, double sd) {
  double z = (y - mean) / sd;
  return -0.5 * z * z - log(sd) - 0.91893853320467274178;
}

static double poisson(double y, double mean) { return (y > 0 ? y * log(mean) : 0) - mean - lgamma(y + 1); }

static const char *const LINE =
    "param a ~ normal(0.5, 2)\nparam b ~ uniform(-3, 4)\nparam s ~ exponential(0.7)\n"
    "data \"line.csv\"\nobserve y ~ normal(a + b*x, s)\nderived ratio = a/b\n"
    "track level = a*b\n";

static void curve_has_the_closed_form(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("line.csv", "x,y\n0.3,1.21\n1.7,2.05\n2.2,NA\n3.9,5.5\n");
  for (int interpret = 0; interpret < 2; interpret++) {
    atvi_model *m = test_load(ctx, test_file("line.atvi", LINE), interpret);
    const atvi_target *t = atvi_model_target(m);
    const double theta[3] = {0.731, 1.19, 0.385}, x[3] = {0.3, 1.7, 3.9}, y[3] = {1.21, 2.05, 5.5};
    test_value v = test_eval(ctx, t, theta);
    double ll = 0, ga = 0, gb = 0;
    for (int i = 0; i < 3; i++) {
      double mean = theta[0] + theta[1] * x[i];
      ll += normal(y[i], mean, theta[2]);
      ga += (y[i] - mean) / (theta[2] * theta[2]);
      gb += x[i] * (y[i] - mean) / (theta[2] * theta[2]);
    }
    CHECK_REL(v.ll, ll, 1e-12);
    CHECK_REL(v.gl[0], ga, 1e-12);
    CHECK_REL(v.gl[1], gb, 1e-12);
    CHECK_REL(v.lp, normal(0.731, 0.5, 2) - log(7) + log(0.7) - 0.7 * 0.385, 1e-12);
    CHECK(test_gradient(ctx, t, theta, 1e-6) < 1e-7);
    CHECK_INT(t->n_obs, 4);
    atvi_model_free(m);
  }
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* Linear predictors of hundreds, as draws from wide priors give them; probabilities written out, behind a
 * let, censored. */
static void wide_priors_can_be_evaluated(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("wide.csv", "x,hit,n,many\n-38.5,1,4,<3\n12.25,0,7,>2\n71,1,0,3\n");
  const char *path =
      test_file("wide.atvi", "param a ~ normal(0, 10)\nparam b ~ normal(0, 100)\nparam s ~ exponential(1)\n"
                             "data \"wide.csv\"\nlet eta = a + b*x\nlet p = 1/(1 + exp(-eta))\n"
                             "observe hit ~ binomial(1, p)\nobserve n ~ negbin(exp(eta), s)\n"
                             "observe many ~ binomial(5, exp(eta)/(1 + exp(eta)))\n");
  for (int interpret = 0; interpret < 2; interpret++) {
    atvi_model *m = test_load(ctx, path, interpret);
    const double a = 3.7, b = -91.2, s = 1.6, x[3] = {-38.5, 12.25, 71}, n[3] = {4, 7, 0};
    double want = 0, ga = 0;
    for (int i = 0; i < 3; i++) { /* |eta| > 1000: only leading terms are left */
      double eta = a + b * x[i], up = eta > 0;
      want += (i != 1) * fmin(eta, 0) - (i == 1) * fmax(eta, 0);
      ga += (i != 1) * (1 - up) - (i == 1) * up;
      want += lgamma(n[i] + s) - lgamma(s) - lgamma(n[i] + 1) + (up ? -s : n[i]) * (eta - log(s));
      ga += up ? -s : n[i];
    }
    want += log(10) - 3 * (a + b * x[0]); /* at most 2 of 5, p near 1 */
    want += log(10) + 3 * (a + b * x[1]); /* at least 3 of 5, p near 0 */
    want += log(10) + 3 * (a + b * x[2]);
    ga += -3 + 3 + 3;
    test_value v = test_eval(ctx, atvi_model_target(m), (double[]){a, b, s});
    CHECK_INT(v.outcome, ATVI_RUN_OK);
    CHECK_REL(v.ll, want, 1e-13);
    CHECK_REL(v.gl[0], ga, 1e-12);
    CHECK(test_gradient(ctx, atvi_model_target(m), (double[]){0.37, -0.05, 1.6}, 1e-6) < 1e-7);
    atvi_model_free(m);
  }
  atvi_ctx_free(ctx);
}

/* Each alternative that the text of a density names is a density too: value and gradient. */
static void alternatives_of_a_density(void) {
  static const struct {
    const char *logp;
    int n;
  } row[] = {{"max(a, b) + log1p(exp(-abs(a - b)))", 2},
             {"log_sum_exp(a, b, c)", 3},
             {"(if x > 0.2 then a else b) + log_sum_exp(b, c)", 4},
             {"if y > 9 then -inf else c + max(y, 0)", 0},
             {"a + b", 0},
             {"sum(i in 1..20: max(a*i, b))", 0}};
  const double x = 0.71, y = -1.36;
  const double a = -0.5 * (x * x + y * y), b = 3.7 - 50 * (x - 3.1) * (x - 3.1), c = -2 * fabs(y - 0.4);
  for (int k = 0; k < 6; k++) {
    atvi_ctx *ctx = test_ctx();
    char text[500];
    snprintf(text, sizeof text,
             "param x ~ normal(0.3, 2.1)\nparam y ~ normal(0, 3)\nlet a = -0.5*(x^2 + y^2)\n"
             "let b = 3.7 - 50*(x - 3.1)^2\nlet c = -2*abs(y - 0.4)\nlogp %s\n",
             row[k].logp);
    atvi_model *m = test_load(ctx, test_file("either.atvi", text), true);
    const atvi_target *t = atvi_model_target(m);
    CHECK_INT(t->n_branch, row[k].n);
    void *work;
    CHECK_OK(t->ops->work_new(t->self, ctx, &work));
    bool seen[3] = {false};
    for (atvi_idx i = 0; i < t->n_branch; i++) {
      double theta[2] = {x, y}, lp, ll, gp[2], gl[2];
      atvi_outcome outcome;
      t->ops->eval_branch(t->self, work, i,
                          &(atvi_batch){.B = 1,
                                        .theta = theta,
                                        .log_prior = &lp,
                                        .log_lik = &ll,
                                        .grad_prior = gp,
                                        .grad_lik = gl,
                                        .outcome = &outcome});
      CHECK_INT(outcome, ATVI_RUN_OK);
      if (k > 1) continue;
      seen[0] = seen[0] || (fabs(ll - a) < 1e-12 && fabs(gl[0] + x) < 1e-12 && fabs(gl[1] + y) < 1e-12);
      seen[1] =
          seen[1] || (fabs(ll - b) < 1e-9 && fabs(gl[0] + 100 * (x - 3.1)) < 1e-9 && fabs(gl[1]) < 1e-12);
      seen[2] = seen[2] || (fabs(ll - c) < 1e-12 && gl[0] == 0 && fabs(gl[1] - 2) < 1e-12);
    }
    for (int i = 0; i < row[k].n && k < 2; i++) CHECK_MSG(seen[i], "%s: %d", row[k].logp, i);
    test_value v = test_eval(ctx, t, (double[]){x, y}); /* the density itself is as before */
    if (k < 2) CHECK_ABS(v.ll, k == 0 ? a : log(exp(a) + exp(c)), 1e-12);
    t->ops->work_free(work);
    atvi_model_free(m);
    atvi_ctx_free(ctx);
  }
  CHECK_INT(test_live, 0);
}

static void points_outside_are_not_run(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("line.csv", "x,y\n0.3,1.21\n1.7,2.05\n2.2,NA\n3.9,5.5\n");
  atvi_model *m = test_load(ctx, test_file("line.atvi", LINE), true);
  test_value v = test_eval(ctx, atvi_model_target(m), (double[]){0.7, 4.5, 0.4});
  CHECK_INT(v.outcome, ATVI_RUN_OUTSIDE);
  CHECK(v.lp == -HUGE_VAL && v.ll == -HUGE_VAL && v.gl[0] == 0);
  v = test_eval(ctx, atvi_model_target(m), (double[]){0.7, 3.5, NAN});
  CHECK_INT(v.outcome, ATVI_RUN_OUTSIDE);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
}

/* dx/dt = -k x: x = x0 exp(-k t). Cumulative C gains x0 (1 - exp(-k t)). */
static void decay_counts_increase(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("decay.csv", "day,lost\n1,30\n2.5,\n4,11\n");
  const char *path =
      test_file("decay.atvi", "param k ~ uniform(0, 2)\nparam x0 ~ uniform(10, 200)\nstart 0\n"
                              "state x = x0\nstate C = 0\ndx/dt = -k*x\ndC/dt = k*x\n"
                              "data \"decay.csv\" time day\nobserve lost ~ poisson(increase(C))\n"
                              "solver rk45 tol 1e-11\n");
  atvi_model *m = test_load(ctx, path, false);
  const double k = 0.431, x0 = 92.7, theta[2] = {k, x0};
  test_value v = test_eval(ctx, atvi_model_target(m), theta);
  double want = poisson(30, x0 * (1 - exp(-k))) + poisson(11, x0 * (exp(-k * 2.5) - exp(-k * 4)));
  CHECK_ABS(v.ll, want, 1e-7);
  CHECK(test_gradient(ctx, atvi_model_target(m), theta, 1e-6) < 1e-7);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
}

/* x' = -k (x - cos t) follows (cos t + sin t / k) k^2/(1 + k^2); stiff where k is large. No solver is named. */
static const char *const FOLLOW =
    "param k ~ lognormal(%g, %g)\nparam a ~ uniform(0, 3)\nstart 0\nstate x = a\ndx/dt = -k*(x - cos(t))\n"
    "data \"follow.csv\" time t\nobserve y ~ normal(x, 0.1)\n";

static double follow(double k, double a, double t) {
  double share = k * k / (1 + k * k);
  return share * (cos(t) + sin(t) / k) + (a - share) * exp(-k * t);
}

static void the_solver_is_chosen(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("follow.csv", "t,y\n0.5,0.9\n2,-0.4\n6,1.1\n");
  const double t[3] = {0.5, 2, 6}, y[3] = {0.9, -0.4, 1.1};
  for (int stiff = 0; stiff < 2; stiff++)
    for (int interpret = 0; interpret < 2; interpret++) {
      char text[400];
      snprintf(text, sizeof text, FOLLOW, stiff ? 11.0 : 0.0, stiff ? 1.0 : 0.5);
      atvi_model *m = test_load(ctx, test_file("follow.atvi", text), interpret);
      const atvi_target *target = atvi_model_target(m);
      CHECK(m->choice.automatic);
      CHECK_INT(m->odes.fit.method, stiff ? ATVI_ODE_STIFF : ATVI_ODE_RK45);
      CHECK_INT(m->choice.other.method, stiff ? ATVI_ODE_RK45 : ATVI_ODE_STIFF);
      CHECK(m->choice.why[0] != 0);
      /* points of both sorts in one batch: each is what it is alone, and right */
      enum { B = 5 };
      const double k[B] = {0.7, 3e5, 2.1, 1e4, 2e6};
      double theta[2 * B], ll[B], gl[2 * B];
      atvi_outcome outcome[B];
      for (int j = 0; j < B; j++) theta[j] = k[j], theta[B + j] = 1.3;
      void *work;
      CHECK_OK(target->ops->work_new(target->self, ctx, &work));
      target->ops->eval(
          target->self, work,
          &(atvi_batch){.B = B, .theta = theta, .log_lik = ll, .grad_lik = gl, .outcome = outcome});
      target->ops->work_free(work);
      for (int j = 0; j < B; j++) {
        const double at[2] = {k[j], 1.3};
        double want = 0;
        for (int i = 0; i < 3; i++) want += normal(y[i], follow(k[j], 1.3, t[i]), 0.1);
        CHECK_INT(outcome[j], ATVI_RUN_OK);
        CHECK_ABS(ll[j], want, 0.05); /* tolerance 1e-4, noise 0.1 */
        test_value v = test_eval(ctx, target, at);
        CHECK(v.ll == ll[j] && v.gl[0] == gl[j] && v.gl[1] == gl[B + j]);
        double by_k = 0, by_a = 0, h = 1e-5;
        for (int i = 0; i < 3; i++) {
          double r = (y[i] - follow(k[j], 1.3, t[i])) / 0.01;
          by_k += r * (follow(k[j] * (1 + h), 1.3, t[i]) - follow(k[j] * (1 - h), 1.3, t[i])) / (2 * h);
          by_a += r * exp(-k[j] * t[i]);
        }
        CHECK_ABS(k[j] * v.gl[0], by_k, 5e-3 * (1 + fabs(by_k)));
        CHECK_ABS(v.gl[1], by_a, 5e-3 * (1 + fabs(by_a)));
        if (k[j] < 10) CHECK(test_gradient(ctx, target, at, 1e-6) < 1e-5);
      }
      atvi_model_free(m);
    }
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* Diffusion along cells: the Jacobian is a band, and implicit steps are as cheap as it is narrow. Eigenvalues
 * reach from 0 to -4 D. */
static void the_solver_is_chosen_by_the_band(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("cells.csv", "t,y\n2,0.3\n4,0.6\n6,0.8\n8,0.9\n10,1\n");
  for (int stiff = 0; stiff < 2; stiff++) {
    char text[700];
    snprintf(text, sizeof text,
             "index c = 1..80\nparam D ~ lognormal(log(%g), 0.2)\nparam r ~ lognormal(0, 0.2)\nstart 0\n"
             "state u[i in c] = 0.05 + 0.5*exp(-(i - 20)^2/200)\n"
             "du[1]/dt = D*(u[2] - u[1]) + r*u[1]*(1 - u[1])\n"
             "du[i in 2..79]/dt = D*(u[i-1] - 2*u[i] + u[i+1]) + r*u[i]*(1 - u[i])\n"
             "du[80]/dt = D*(u[79] - u[80]) + r*u[80]*(1 - u[80])\n"
             "data \"cells.csv\" time t\nobserve y ~ normal(u[60], 0.1)\n",
             stiff ? 200.0 : 2.0);
    atvi_model *m = test_load(ctx, test_file("cells.atvi", text), true);
    CHECK_INT(m->odes.fit.method, stiff ? ATVI_ODE_STIFF : ATVI_ODE_RK45);
    atvi_model_free(m);
  }
  atvi_ctx_free(ctx);
}

/* What is left of a dose is positive, but the explicit solver rounds it to either side of 0, where log C is
 * undefined. */
static void states_that_die_out_have_a_likelihood(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("die.csv", "t,y\n1,3\n6,1\n24,0.1\n48,0.01\n");
  const char *path =
      test_file("die.atvi",
                "param ka ~ lognormal(0, 1)\nparam k ~ lognormal(0, 1)\nstart 0\nstate G = 100\nstate C = 0\n"
                "dG/dt = -ka*G\ndC/dt = ka*G - k*C\n"
                "data \"die.csv\" time t\nobserve y ~ lognormal(log(C/12), 0.2)\n");
  atvi_model *m = test_load(ctx, path, true);
  CHECK_INT(m->odes.fit.method, ATVI_ODE_RK45);
  static const double theta[3][2] = {{0.2, 3}, {5, 8}, {20, 3}};
  for (int k = 0; k < 3; k++) CHECK_INT(test_eval(ctx, atvi_model_target(m), theta[k]).outcome, ATVI_RUN_OK);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
}

/* Immune response to an infection, at the estimates of Crauste et al. 2017 (Cell Systems 4): the pathogen is
 * close to growing without limit, and what the solver gets wrong is magnified a thousand times. */
static void tolerances_ask_the_same_of_both_solvers(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("cd8.csv", "t,l,m\n8,32860,289\n13,46727,9564\n28,3936,32705\n");
  double ll[3];
  static const char *const solver[3] = {"rk45 tol 1e-11", "rk45 tol 1e-6", "stiff tol 1e-6"};
  for (int k = 0; k < 3; k++) {
    char text[1200];
    snprintf(text, sizeof text,
             "param dEL ~ uniform(0, 1)\nstart 0\nstate N = 8090\nstate E = 0\nstate L = 0\nstate M = "
             "0\nstate P = 1\n"
             "dN/dt = -0.739907304399124*N - 0.011930787933602*N*P\n"
             "dE/dt = 0.011930787933602*N*P + 0.507415649004014*E*P - 3.91359465940441e-5*E^2 - dEL*E\n"
             "dL/dt = dEL*E - 8.11520130499257e-6*L^2 - 1e-10*E*L - 0.022580636941607*L\n"
             "dM/dt = 0.022580636941607*L\n"
             "dP/dt = 0.126382292625502*P^2 - 1.41248724084794e-10*E*P - 3.63403086241783e-5*L*P - "
             "1.00000003522094e-5*P\n"
             "data \"cd8.csv\" time t\nobserve l ~ normal(L, 4000)\nobserve m ~ normal(M, 4000)\nsolver %s\n",
             solver[k]);
    atvi_model *m = test_load(ctx, test_file("cd8.atvi", text), true);
    test_value v = test_eval(ctx, atvi_model_target(m), (double[]){0.517945937424841});
    CHECK_INT(v.outcome, ATVI_RUN_OK);
    ll[k] = v.ll;
    atvi_model_free(m);
  }
  CHECK_ABS(ll[1], ll[0], 0.02);
  CHECK_ABS(ll[2], ll[0], 0.1);
  atvi_ctx_free(ctx);
}

/* A forcing that jumps, two pulses at one time, and an observation at the time of the pulses. */
static void jumps_and_pulses_are_landed_on(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("jump.csv", "t,x,y\n0,0.1,0.2\n1,0.9,0.1\n3,2.2,1.4\n");
  const char *path = test_file(
      "jump.atvi", "param a ~ uniform(0, 3)\nparam d ~ uniform(0, 3)\nstate X = 0\nstate Y = 0\n"
                   "table u step = [0: 1, 1.37: 0.25, 2.2: 3]\ntable v linear = [0.5: 2, 2: 5]\n"
                   "dX/dt = a*u\ndY/dt = v\npulse X += d at [1, 2]\npulse Y -= 2*d at [1]\n"
                   "data \"jump.csv\" time t\nobserve x ~ normal(X, 0.5)\nobserve y ~ normal(Y, 0.3)\n");
  for (int interpret = 0; interpret < 2; interpret++) {
    atvi_model *m = test_load(ctx, path, interpret);
    const double a = 0.731, d = 1.19, theta[2] = {a, d};
    double X3 = a * (1.37 + 0.25 * (2.2 - 1.37) + 3 * 0.8) + 2 * d;
    double Y1 = 2 * 0.5 + 0.5 * (2 + 0.5 * 2 * 0.5), Y3 = 2 * 0.5 + 1.5 * 3.5 + 5 - 2 * d;
    double want = normal(0.1, 0, 0.5) + normal(0.9, a, 0.5) + normal(2.2, X3, 0.5) + normal(0.2, 0, 0.3) +
                  normal(0.1, Y1, 0.3) + normal(1.4, Y3, 0.3);
    test_value v = test_eval(ctx, atvi_model_target(m), theta);
    CHECK_ABS(v.ll, want, 1e-9); /* Runge-Kutta is exact on polynomials of degree 2 */
    CHECK(test_gradient(ctx, atvi_model_target(m), theta, 1e-6) < 1e-7);
    atvi_model_free(m);
  }
  atvi_ctx_free(ctx);
}

/* Comparisons of the time with a number, in every way to write them; on either side the solution is a
 * polynomial. */
static void comparisons_with_the_time_are_landed_on(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("when.csv", "day,x,y,z\n1,0.9,0.1,0\n1.37,1.3,0.2,0.3\n3,2.2,1.4,1.1\n");
  const char *path = test_file(
      "when.atvi", "param a ~ uniform(0, 3)\nstart 0\nstate X = 0\nstate Y = 0\nstate Z = 0\n"
                   "let on = (if t >= 1.37 then 1 else 0)\n"
                   "dX/dt = (if t < 1.37 then a else if 2 <= t then 3*a*t else 0.25*a)\n"
                   "dY/dt = on + a*(if 2*t - 1 <= 1.74 and X < 1e9 then 2 else t)\n"
                   "dZ/dt = (if 5 - t > 3 then a*t^3 else -1) + (if t < -4 then 7 else 0)\n"
                   "data \"when.csv\" time day\nobserve x ~ normal(X, 0.5)\nobserve y ~ normal(Y, 0.3)\n"
                   "observe z ~ normal(Z, 0.2)\n");
  for (int interpret = 0; interpret < 2; interpret++) {
    atvi_model *m = test_load(ctx, path, interpret);
    const double a = 0.731;
    double X[3] = {a, 1.37 * a, a * (1.37 + 0.25 * 0.63 + 1.5 * 5)};
    double Y[3] = {2 * a, 2 * a * 1.37, 2 * a * 1.37 + 1.63 + a * (9 - 1.37 * 1.37) / 2};
    double Z[3] = {a / 4, a * pow(1.37, 4) / 4, 4 * a - 1}, want = 0;
    const double x[3] = {0.9, 1.3, 2.2}, y[3] = {0.1, 0.2, 1.4}, z[3] = {0, 0.3, 1.1};
    for (int i = 0; i < 3; i++)
      want += normal(x[i], X[i], 0.5) + normal(y[i], Y[i], 0.3) + normal(z[i], Z[i], 0.2);
    test_value v = test_eval(ctx, atvi_model_target(m), &a);
    CHECK_ABS(v.ll, want, 1e-10);
    CHECK(test_gradient(ctx, atvi_model_target(m), &a, 1e-6) < 1e-7);
    CHECK_INT(m->odes.fit.n_stop, 5); /* 0, 1, 1.37, 2, 3 */
    atvi_model_free(m);
  }
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* x' = a before T, then a - b x: a jump at a parameter, in each lane another, with both solvers. */
static void jumps_at_parameters(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("move.csv", "day,x\n1,0.9\n2,1.3\n3,1.2\n5,0.7\n");
  static const char *const solver[3] = {"", "solver rk45 tol 1e-8\n", "solver stiff tol 1e-8\n"};
  const double day[4] = {1, 2, 3, 5}, y[4] = {0.9, 1.3, 1.2, 0.7};
  for (int s = 0; s < 3; s++)
    for (int interpret = 0; interpret < 2; interpret++) {
      char text[500];
      snprintf(text, sizeof text,
               "param a ~ uniform(0, 3)\nparam b ~ uniform(0, 3)\nparam T ~ uniform(-1, 8)\nstart 0\nstate X "
               "= 0.2\n"
               "dX/dt = a - (if t >= T then b*X else 0)\ndata \"move.csv\" time day\nobserve x ~ normal(X, "
               "0.1)\n%s",
               solver[s]);
      atvi_model *m = test_load(ctx, test_file("move.atvi", text), interpret);
      const atvi_target *target = atvi_model_target(m);
      enum { B = 7 };
      const double T[B] = {1.7, -0.5, 0.013, 2, 4.99, 7, 2.6};
      double theta[3 * B], ll[B], gl[3 * B];
      atvi_outcome outcome[B];
      for (int j = 0; j < B; j++) theta[j] = 0.9, theta[B + j] = 1.1, theta[2 * B + j] = T[j];
      void *work;
      CHECK_OK(target->ops->work_new(target->self, ctx, &work));
      target->ops->eval(
          target->self, work,
          &(atvi_batch){.B = B, .theta = theta, .log_lik = ll, .grad_lik = gl, .outcome = outcome});
      target->ops->work_free(work);
      for (int j = 0; j < B; j++) {
        double want = 0, by_T = 0, tol = s ? 1e-5 : 0.05;
        for (int i = 0; i < 4; i++) {
          double at = fmax(T[j], 0), x = 0.2 + 0.9 * fmin(at, day[i]), slope = 0;
          if (day[i] > at) {
            double e = exp(-1.1 * (day[i] - at));
            slope = T[j] > 0 ? e * 1.1 * x : 0; /* f before - f after, carried on */
            x = 0.9 / 1.1 + (x - 0.9 / 1.1) * e;
          }
          want += normal(y[i], x, 0.1);
          by_T += (y[i] - x) / 0.01 * slope;
        }
        CHECK_INT(outcome[j], ATVI_RUN_OK);
        CHECK_ABS(ll[j], want, tol * (1 + fabs(want)));
        CHECK_MSG(fabs(gl[2 * B + j] - by_T) <= tol * (1 + fabs(by_T)), "solver %d, T = %g: %g, want %g", s,
                  T[j], gl[2 * B + j], by_T);
        test_value v = test_eval(ctx, target, (double[]){0.9, 1.1, T[j]});
        CHECK(v.ll == ll[j] && v.gl[2] == gl[2 * B + j]);
      }
      double off = test_gradient(ctx, target, (double[]){0.9, 1.1, 1.7}, 1e-6);
      CHECK_MSG(off < 1e-7, "solver %d: %g", s, off);
      atvi_model_free(m);
    }
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void difference_equations_step_together(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("map.csv", "t,y\n0,1\n3,6.1\n5,9\n");
  const char *path = test_file(
      "map.atvi", "param r ~ uniform(0, 3)\nstate A = 1\nstate B = 2\nnext A = r*B\nnext B = A + B*t\n"
                  "data \"map.csv\" time t\nobserve y ~ normal(A + B, 1.5)\n");
  atvi_model *m = test_load(ctx, path, false);
  const double r = 0.731;
  double A = 1, B = 2, want = normal(1, 3, 1.5);
  for (int t = 0; t < 5; t++) {
    double next = A + B * t;
    A = r * B;
    B = next;
    if (t + 1 == 3) want += normal(6.1, A + B, 1.5);
    if (t + 1 == 5) want += normal(9, A + B, 1.5);
  }
  test_value v = test_eval(ctx, atvi_model_target(m), &r);
  CHECK_REL(v.ll, want, 1e-12);
  CHECK(test_gradient(ctx, atvi_model_target(m), &r, 1e-6) < 1e-7);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
}

/* Mean 0 with count 0 has probability 1 and slope -1; with a positive count the likelihood is 0. */
static void poisson_at_mean_zero(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("zero.csv", "x,y\n0,0\n2,3\n");
  const char *path =
      test_file("zero.atvi", "param a ~ uniform(0, 3)\nparam b ~ uniform(0, 1)\ndata \"zero.csv\"\n"
                             "observe y ~ poisson(a*x + b)\n");
  atvi_model *m = test_load(ctx, path, false);
  test_value v = test_eval(ctx, atvi_model_target(m), (double[]){1.3, 0});
  CHECK_REL(v.ll, 3 * log(2.6) - 2.6 - log(6), 1e-13);
  CHECK_REL(v.gl[0], 2 * (3 / 2.6 - 1), 1e-13);
  CHECK_REL(v.gl[1], -1 + 3 / 2.6 - 1, 1e-13);
  v = test_eval(ctx, atvi_model_target(m), (double[]){0, 0});
  CHECK_INT(v.outcome, ATVI_RUN_OK);
  CHECK(v.ll == -HUGE_VAL);
  CHECK(v.gl[0] == 0 && v.gl[1] == 0);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
}

static double Phi(double x) { return 0.5 * erfc(-x / sqrt(2)); }

static void censored_values_give_tail_probabilities(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("cens.csv", "y,n,z\n1.2,3,0.5\n<0.5,<2,0.1\n>2.5,>=4,2\n");
  const char *path =
      test_file("cens.atvi", "param m ~ normal(1, 2)\nparam l ~ uniform(0, 9)\ndata \"cens.csv\"\n"
                             "observe y ~ normal(m, 0.8)\nobserve n ~ poisson(l)\n"
                             "observe z ~ normal(m, 1) limits (0.1, 2)\n");
  atvi_model *m = test_load(ctx, path, false);
  const double theta[2] = {0.731, 2.19}, mu = theta[0], l = theta[1];
  double p3 = exp(-l) * (1 + l + l * l / 2 + l * l * l / 6);
  double want = normal(1.2, mu, 0.8) + log(Phi((0.5 - mu) / 0.8)) + log(1 - Phi((2.5 - mu) / 0.8)) +
                poisson(3, l) + log(exp(-l) * (1 + l)) + log(1 - p3) + normal(0.5, mu, 1) +
                log(Phi(0.1 - mu)) + log(1 - Phi(2 - mu));
  test_value v = test_eval(ctx, atvi_model_target(m), theta);
  CHECK_REL(v.ll, want, 1e-11);
  CHECK(test_gradient(ctx, atvi_model_target(m), theta, 1e-6) < 1e-7);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
}

/* The histogram of counts equals lgamma for each; pointwise terms sum to the whole. */
static void negative_binomial_by_histogram(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("nb.csv", "x,y,k\n1,4,0\n2,0,7\n3,17,NA\n4,5,2\n");
  const char *path =
      test_file("nb.atvi", "param a ~ uniform(0, 9)\nparam s ~ uniform(0.1, 5)\ndata \"nb.csv\"\n"
                           "observe y ~ negbin(a*x, s)\nobserve k ~ negbin(a, 2*s)\n");
  for (int interpret = 0; interpret < 2; interpret++) {
    atvi_model *m = test_load(ctx, path, interpret);
    const atvi_target *t = atvi_model_target(m);
    const double theta[2] = {1.31, 0.87}, y[7] = {4, 0, 17, 5, 0, 7, 2};
    const double mean[7] = {1.31, 2.62, 3.93, 5.24, 1.31, 1.31, 1.31};
    double want = 0;
    for (int i = 0; i < 7; i++) {
      double s = i < 4 ? 0.87 : 1.74;
      want += lgamma(y[i] + s) - lgamma(s) - lgamma(y[i] + 1) + s * log(s / (s + mean[i])) +
              y[i] * log(mean[i] / (s + mean[i]));
    }
    test_value v = test_eval(ctx, t, theta);
    CHECK_REL(v.ll, want, 1e-12);
    CHECK(test_gradient(ctx, t, theta, 1e-6) < 1e-7);
    double each[8], sum = 0;
    void *work;
    CHECK_INT(t->n_obs, 8);
    CHECK_OK(t->ops->work_new(t->self, ctx, &work));
    t->ops->pointwise(t->self, work, 1, theta, each);
    for (int i = 0; i < 8; i++) {
      CHECK(isnan(each[i]) == (i == 6)); /* the missing k */
      if (!isnan(each[i])) sum += each[i];
    }
    CHECK_REL(sum, want, 1e-12);
    t->ops->work_free(work);
    atvi_model_free(m);
  }
  atvi_ctx_free(ctx);
}

static const char *const SIR =
    "param beta ~ uniform(0, 3)\nparam gamma ~ uniform(0, 3)\nstate S = 39\nstate I = 1\nstate R = 0\n"
    "let N = S + I + R\ndS/dt = -beta*S*I/N\ndI/dt = beta*S*I/N - gamma*I\ndR/dt = gamma*I\n"
    "data \"sir.csv\" time day\nobserve i ~ poisson(I + 0.001)\nobserve r ~ poisson(R)\n"
    "derived R0 = beta/gamma\ntrack ill = I\n";
static const char *const SIR_DATA = "day,i,r\n0,1,0\n2,3,0\n5,10,7\n9,14,16\n15,3,34\n";

static void results_depend_on_neither_batch_nor_threads(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("sir.csv", SIR_DATA);
  atvi_model *m = test_load(ctx, test_file("sir.atvi", SIR), false);
  const atvi_target *t = atvi_model_target(m);
  enum { B = 37 };
  double theta[2 * B], lp[B], ll[2][B], gp[2 * B], gl[2][2 * B];
  atvi_outcome outcome[B];
  for (int j = 0; j < B; j++) {
    theta[j] = 0.2 + 0.07 * j;
    theta[B + j] = j == 11 ? 3.5 : 0.9 - 0.02 * j; /* one point outside */
  }
  for (int threads = 1; threads <= 2; threads++) {
    atvi_evaluator *ev;
    atvi_ctx_set_threads(ctx, threads);
    CHECK_OK(atvi_model_evaluator_new(ctx, t, &ev));
    atvi_model_evaluator_run(ev, &(atvi_batch){.B = B,
                                               .theta = theta,
                                               .log_prior = lp,
                                               .log_lik = ll[threads - 1],
                                               .grad_prior = gp,
                                               .grad_lik = gl[threads - 1],
                                               .outcome = outcome});
    atvi_model_evaluator_free(ev);
  }
  for (int j = 0; j < B; j++) {
    test_value v = test_eval(ctx, t, (double[]){theta[j], theta[B + j]});
    CHECK_INT(outcome[j], j == 11 ? ATVI_RUN_OUTSIDE : ATVI_RUN_OK);
    CHECK(v.ll == ll[0][j] && v.ll == ll[1][j]);
    for (int i = 0; i < 2; i++) CHECK(v.gl[i] == gl[0][i * B + j] && v.gl[i] == gl[1][i * B + j]);
  }
  atvi_model_free(m);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void interpreter_and_compiled_code_agree(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("sir.csv", SIR_DATA);
  char text[1024];
  snprintf(text, sizeof text, "%ssolver rk4 step 0.25\n", SIR);
  const char *path = test_file("fixed.atvi", text);
  atvi_model *a = test_load(ctx, path, false), *b = test_load(ctx, path, true);
  for (int j = 0; j < 10; j++) {
    const double theta[2] = {0.3 + 0.23 * j, 1.1 - 0.09 * j};
    test_value x = test_eval(ctx, atvi_model_target(a), theta),
               y = test_eval(ctx, atvi_model_target(b), theta);
    CHECK_REL(x.ll, y.ll, 1e-12);
    for (int i = 0; i < 2; i++) CHECK_ABS(x.gl[i], y.gl[i], 1e-12 * (fabs(y.gl[0]) + fabs(y.gl[1])));
  }
  atvi_model_free(a);
  atvi_model_free(b);
  atvi_ctx_free(ctx);
}

static void predictions_and_simulations(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("sir.csv", SIR_DATA);
  atvi_model *m = test_load(ctx, test_file("sir.atvi", SIR), false);
  const atvi_target *t = atvi_model_target(m);
  void *work;
  CHECK_OK(t->ops->work_new(t->self, ctx, &work));
  CHECK_INT(t->n_series, 2 + 1 + 3);
  CHECK_INT(t->n_obs, 10);
  CHECK_INT(t->n_out, 10 + 4 * 5);
  enum { B = 4000 };
  static double theta[2 * B], out[30 * B], sim[10 * B], R0[B];
  for (int j = 0; j < B; j++) theta[j] = 0.9, theta[B + j] = 0.3;
  t->ops->predict(t->self, work, B, theta, out);
  t->ops->derived(t->self, work, B, theta, R0);
  t->ops->simulate(t->self, work, 5, 0, B, theta, sim);
  CHECK_REL(R0[3], 3, 1e-14);
  for (int r = 0; r < 5; r++) {
    double I = out[(10 + 5 + 5 + r) * B], S = out[(10 + 5 + r) * B], R = out[(10 + 15 + r) * B];
    CHECK_REL(S + I + R, 40, 1e-6);
    CHECK_REL(out[(10 + r) * B], I, 1e-14);  /* tracked */
    CHECK_REL(out[r * B], I + 0.001, 1e-14); /* mean of the first series */
    double sum = 0;
    for (int j = 0; j < B; j++) sum += sim[r * B + j];
    CHECK_ABS(sum / B, I + 0.001, 4.5 * sqrt((I + 0.001) / B));
  }
  double again[10];
  t->ops->simulate(t->self, work, 5, 77, 1, (double[]){0.9, 0.3}, again);
  for (int i = 0; i < 10; i++) CHECK(again[i] == sim[i * B + 77]);
  t->ops->work_free(work);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
}

static void priors_that_depend_on_parameters_are_drawn(void) {
  atvi_ctx *ctx = test_ctx();
  const char *path =
      test_file("prior.atvi", "param x ~ normal(m, s)\nparam m ~ normal(3, 0.5)\nparam s ~ uniform(1, 2)\n");
  atvi_model *m = test_load(ctx, path, true);
  const atvi_target *t = atvi_model_target(m);
  void *work;
  enum { B = 20000 };
  static double theta[3 * B];
  CHECK_OK(t->ops->work_new(t->self, ctx, &work));
  t->ops->prior_draw(t->self, work, 7, 0, B, theta);
  double mean = 0, var = 0;
  for (int j = 0; j < B; j++) mean += theta[j] / B;
  for (int j = 0; j < B; j++) var += (theta[j] - mean) * (theta[j] - mean) / (B - 1);
  /* var = E s^2 + var m = 7/3 + 1/4 */
  CHECK_ABS(mean, 3, 4.5 * sqrt(2.5833 / B));
  CHECK_ABS(var, 7.0 / 3 + 0.25, 4.5 * 2.5833 * sqrt(3.0 / B));
  test_value v = test_eval(ctx, t, (double[]){2.7, 3.1, 1.4});
  CHECK_REL(v.lp, normal(2.7, 3.1, 1.4) + normal(3.1, 3, 0.5), 1e-13);
  CHECK(v.ll == 0);
  t->ops->work_free(work);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
}

static void fixed_parameters_leave_the_rest(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("line.csv", "x,y\n0.3,1.21\n1.7,2.05\n2.2,NA\n3.9,5.5\n");
  atvi_model *m = test_load(ctx, test_file("line.atvi", LINE), true);
  const atvi_target *base = atvi_model_target(m);
  atvi_target *t;
  CHECK_OK(atvi_model_fixed_new(ctx, base, 1, (atvi_idx[]){1}, (double[]){1.19}, &t));
  CHECK_INT(t->d, 2);
  CHECK_STR(t->param[1].name, "s");
  test_value a = test_eval(ctx, base, (double[]){0.731, 1.19, 0.385}),
             b = test_eval(ctx, t, (double[]){0.731, 0.385});
  CHECK(a.ll == b.ll && a.lp == b.lp && a.gl[0] == b.gl[0] && a.gl[2] == b.gl[1] && a.gp[2] == b.gp[1]);
  atvi_model_fixed_free(t);
  CHECK_STATUS(atvi_model_fixed_new(ctx, base, 1, (atvi_idx[]){3}, (double[]){1}, &t), ATVI_EINVAL);
  CHECK_STATUS(atvi_model_fixed_new(ctx, base, 1, (atvi_idx[]){1}, (double[]){9}, &t), ATVI_EINVAL);
  CHECK_STATUS(atvi_model_fixed_new(ctx, base, 3, (atvi_idx[]){0, 1, 2}, (double[]){1, 1, 1}, &t),
               ATVI_EINVAL);
  CHECK(t == NULL);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* The public options; callers with a shorter struct keep defaults, and one that was not begun with the
 * defaults is refused. */
static void options_of_the_library(void) {
  static const double theta[] = {0.731, 1.19, 0.385};
  atvi_ctx *ctx = test_ctx();
  test_file("line.csv", "x,y\n0.3,1.21\n1.7,2.05\n2.2,NA\n3.9,5.5\n");
  const char *path = test_file("line.atvi", LINE);
  char other[200];
  snprintf(other, sizeof other, "%s", test_file("other.csv", "x,y\n0.3,1.21\n1.7,2.05\n"));
  const atvi_data_file data = {NULL, other};
  atvi_model *m;
  atvi_model_opts o = atvi_model_defaults();
  o.interpret = true;
  o.holdout = "row > 2";
  CHECK_OK(atvi_model_load(ctx, path, &o, &m));
  double held = test_eval(ctx, atvi_model_target(m), theta).ll;
  atvi_model_free(m);
  o.holdout = NULL;
  o.n_data = 1;
  o.data = &data;
  CHECK_OK(atvi_model_load(ctx, path, &o, &m));
  CHECK_REL(test_eval(ctx, atvi_model_target(m), theta).ll, held, 1e-14);
  atvi_model_free(m);
  o.holdout = "row > 1"; /* beyond what this caller has */
  o.size = offsetof(atvi_model_opts, holdout);
  CHECK_OK(atvi_model_load(ctx, path, &o, &m));
  CHECK_REL(test_eval(ctx, atvi_model_target(m), theta).ll, held, 1e-14);
  atvi_model_free(m);
  for (int k = 0; k < 2; k++) {
    o.size = k ? sizeof o + 8 : 0;
    CHECK_STATUS(atvi_model_load(ctx, path, &o, &m), ATVI_EINVAL);
    CHECK(m == NULL && strstr(atvi_errmsg(ctx), "atvi_model_defaults()"));
  }
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void other_times_need_no_data(void) {
  atvi_ctx *ctx = test_ctx();
  const char *path = test_file(
      "nodata.atvi", "param k ~ uniform(0, 2)\nstart 0\nstate x = 8\ndx/dt = -k*x\n"
                     "data \"not-there.csv\" time day\nobserve y ~ poisson(x)\nsolver rk45 tol 1e-8\n");
  atvi_model *m;
  CHECK_STATUS(atvi_model_load(ctx, path, NULL, &m), ATVI_EMODEL);
  atvi_model_load_opts opts = {.interpret = true, .n_time = 3, .time = (double[]){0, 1, 2.5}};
  CHECK_OK(atvi_model_load_with(ctx, path, &opts, &m));
  const atvi_target *t = atvi_model_target(m);
  double out[6], k = 0.7;
  void *work;
  CHECK_OK(t->ops->work_new(t->self, ctx, &work));
  t->ops->predict(t->self, work, 1, &k, out);
  CHECK_REL(out[2], 8 * exp(-0.7 * 2.5), 1e-7);
  t->ops->work_free(work);
  atvi_model_free(m);
  opts.time = (double[]){-1, 0, 2};
  CHECK_STATUS(atvi_model_load_with(ctx, path, &opts, &m), ATVI_EINVAL);
  CHECK(m == NULL);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* Before the pulse the mean is 0, with an infinite slope of its logarithm: a missing count there changes
 * nothing. */
static void missing_values_leave_no_trace_in_the_gradient(void) {
  atvi_ctx *ctx = test_ctx();
  const char *text = "param k ~ uniform(0, 2)\nstart 0\nstate I = 0\ndI/dt = k*I\npulse I += 1 at [5]\n"
                     "data \"%s\" time t\nobserve y ~ %s\n";
  static const char *const dist[] = {"poisson(I)", "negbin(I, 1 + k)", "binomial(9, I/100)"};
  test_file("with.csv", "t,y\n3,NA\n6,2\n7,4\n");
  test_file("without.csv", "t,y\n6,2\n7,4\n");
  for (int i = 0; i < 6; i++) {
    test_value v[2];
    for (int na = 0; na < 2; na++) {
      char model[512];
      snprintf(model, sizeof model, text, na ? "with.csv" : "without.csv", dist[i / 2]);
      atvi_model *m = test_load(ctx, test_file("na.atvi", model), i % 2);
      v[na] = test_eval(ctx, atvi_model_target(m), (double[]){0.7});
      atvi_model_free(m);
    }
    CHECK_INT(v[1].outcome, ATVI_RUN_OK);
    CHECK_REL(v[1].ll, v[0].ll, 1e-6);
    CHECK_REL(v[1].gl[0], v[0].gl[0], 1e-4);
  }
  atvi_ctx_free(ctx);
}

/* A negative mean has no distribution; a state the solver left just below 0 is forgiven. */
static void negative_means_are_impossible_unless_the_solver_made_them(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("neg.csv", "t,y\n1,0\n2,0\n");
  static const char *const plain[] = {"poisson(a)", "negbin(a, 2)", "negbin(1, a)", "binomial(4, a)"};
  for (int i = 0; i < 4; i++) {
    char model[256];
    snprintf(model, sizeof model, "param a in (-9, 9)\ndata \"neg.csv\"\nobserve y ~ %s\n", plain[i]);
    atvi_model *m = test_load(ctx, test_file("neg.atvi", model), true);
    test_value v = test_eval(ctx, atvi_model_target(m), (double[]){-0.0004});
    CHECK(v.ll == -HUGE_VAL);
    CHECK_INT(v.outcome, ATVI_RUN_OK);
    atvi_model_free(m);
  }
  static const char *const state[] = {"poisson(x)", "negbin(x, 2)", "binomial(4, x)"};
  for (int i = 0; i < 3; i++) {
    char model[256];
    snprintf(
        model, sizeof model,
        "param a in (-9, 9)\nstart 0\nstate x = a\ndx/dt = 0*a\ndata \"neg.csv\" time t\nobserve y ~ %s\n",
        state[i]);
    atvi_model *m = test_load(ctx, test_file("neg.atvi", model), true);
    test_value v = test_eval(ctx, atvi_model_target(m), (double[]){-0.0004});
    CHECK(v.ll == 0 && v.gl[0] == 0);
    CHECK(test_eval(ctx, atvi_model_target(m), (double[]){-0.002}).ll == -HUGE_VAL);
    CHECK(test_gradient(ctx, atvi_model_target(m), (double[]){0.3}, 1e-6) < 1e-7);
    atvi_model_free(m);
  }
  atvi_ctx_free(ctx);
}

/* Times that miss the grid by rounding are the grid's: what happens at a step happens once. */
static void difference_equations_live_on_their_grid(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("grid.csv", "t,y\n0.3333333336,1\n1,2\n");
  const char *path =
      test_file("grid.atvi", "param r ~ uniform(0, 3)\nstart 0\nstep 1/3\nstate S = 1\nnext S = r*S\n"
                             "pulse S += 10 at [1/3]\ndata \"grid.csv\" time t\nobserve y ~ normal(S, 2)\n");
  atvi_model *m = test_load(ctx, path, true);
  const double r = 1.1;
  CHECK_REL(test_eval(ctx, atvi_model_target(m), &r).ll, normal(1, 1.1, 2) + normal(2, 11.1 * 1.21, 2),
            1e-12);
  CHECK(test_gradient(ctx, atvi_model_target(m), &r, 1e-6) < 1e-7);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
}

/* The error of the solver at a coarse tolerance shows against eval_exact. */
static void exact_evaluation_shows_the_solvers_error(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("sir.csv", SIR_DATA);
  char text[1024];
  snprintf(text, sizeof text, "%ssolver rk45 tol 0.05\n", SIR);
  atvi_model *coarse = test_load(ctx, test_file("coarse.atvi", text), true);
  snprintf(text, sizeof text, "%ssolver rk45 tol 1e-10\n", SIR);
  atvi_model *fine = test_load(ctx, test_file("fine.atvi", text), true);
  const double theta[2] = {0.9, 0.3};
  const atvi_target *t = atvi_model_target(coarse);
  double ll, want = test_eval(ctx, atvi_model_target(fine), theta).ll;
  void *work;
  CHECK_OK(t->ops->work_new(t->self, ctx, &work));
  t->ops->eval_exact(t->self, work, &(atvi_batch){.B = 1, .theta = theta, .log_lik = &ll});
  CHECK_ABS(ll, want, 1e-3);
  CHECK(fabs(test_eval(ctx, t, theta).ll - want) > 5 * fabs(ll - want));
  t->ops->work_free(work);
  atvi_model_free(coarse);
  atvi_model_free(fine);
  atvi_ctx_free(ctx);
}

/* D and E stay at 0 and 2 together, F does not; what they do to the rest must not change. */
static void states_that_never_change_are_not_solved(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("still.csv", "t,y\n1,3\n2,2.5\n");
  const char *path = test_file(
      "still.atvi", "param k ~ uniform(0, 2)\nstart 0\nstate D = 0\nstate x = 8\nstate E = 2\nstate F = 1\n"
                    "dD/dt = (E - 2)*x - D\ndx/dt = -k*E*x + D\ndE/dt = 3*D\ndF/dt = F - E\n"
                    "data \"still.csv\" time t\nobserve y ~ normal(x + D + E, 0.5)\nsolver rk45 tol 1e-10\n");
  atvi_model *m = test_load(ctx, path, true);
  const atvi_target *t = atvi_model_target(m);
  const double k = 0.37;
  CHECK_INT(m->states.n, 2);
  test_value v = test_eval(ctx, t, &k);
  CHECK_ABS(v.ll, normal(3, 8 * exp(-2 * k) + 2, 0.5) + normal(2.5, 8 * exp(-4 * k) + 2, 0.5), 1e-8);
  double out[10];
  void *work;
  CHECK_OK(t->ops->work_new(t->self, ctx, &work));
  t->ops->predict(t->self, work, 1, &k, out);
  CHECK(out[2] == 0 && out[3] == 0);        /* D */
  CHECK_REL(out[5], 8 * exp(-4 * k), 1e-8); /* x */
  CHECK(out[6] == 2 && out[7] == 2);        /* E */
  CHECK_REL(out[9], 2 - exp(2), 1e-8);      /* F */
  t->ops->work_free(work);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
}

/* A chain of 40 compartments: more states than the adjoint keeps stages for. */
static void many_states_have_right_gradients(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("chain.csv", "t,y\n2,0.3\n5,0.8\n9,0.2\n");
  const char *path = test_file(
      "chain.atvi", "index k = 1..40\nparam a ~ uniform(0, 9)\nparam b ~ uniform(0, 9)\nstart 0\n"
                    "state x[i in k] = if i == 1 then b else 0\n"
                    "dx[i in k]/dt = a*((if i > 1 then x[i-1] else 0) - x[i])\n"
                    "data \"chain.csv\" time t\nobserve y ~ normal(sum(i in 5..40: x[i]*i)/40, 0.3)\n");
  atvi_model *m = test_load(ctx, path, true);
  CHECK_INT(m->states.n, 40);
  CHECK(test_gradient(ctx, atvi_model_target(m), (double[]){1.7, 0.9}, 1e-6) < 1e-7);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
}

/* Loading a model fails cleanly at every allocation. */
static double operations_of(atvi_ctx *ctx, const char *path, bool interpret) {
  atvi_model *m = test_load(ctx, path, interpret);
  double n = atvi_model_target(m)->operations;
  atvi_model_free(m);
  return n;
}

/* Operations are counted: as many whoever runs them, twice as many for twice the steps, and as known for the
 * examples. */
static void operations_are_counted(void) {
  static const char TEXT[] = "param r ~ uniform(0, 3)\nstart 0\nstep %s\nstate S = 1\nnext S = r*S + sin(S)\n"
                             "data \"count.csv\" time t\nobserve y ~ normal(S, 2)\n";
  atvi_ctx *ctx = test_ctx();
  char text[2][400];
  double n[2];
  test_file("count.csv", "t,y\n500,1\n");
  for (int k = 0; k < 2; k++) {
    snprintf(text[k], sizeof text[k], TEXT, k ? "0.5" : "1");
    n[k] = operations_of(ctx, test_file("count.atvi", text[k]), true);
  }
  CHECK_REL(n[1] / n[0], 2, 0.02);
  CHECK(n[0] > 500 * 10 && n[0] < 500 * 40);
  double cold = operations_of(ctx, TEST_SOURCE_DIR "/examples/cold/cold.atvi", true);
  CHECK(cold > 1000 && cold < 20000);
  CHECK_REL(operations_of(ctx, TEST_SOURCE_DIR "/examples/cold/cold.atvi", false), cold, 0.01);
  CHECK(operations_of(ctx, TEST_SOURCE_DIR "/examples/rotavirus/rotavirus.atvi", true) > 3e5);
  CHECK(operations_of(ctx, TEST_SOURCE_DIR "/examples/pk/pk.atvi", true) > 12 * 1000);
  atvi_ctx_free(ctx);
}

static void memory_may_run_out_anywhere(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("sir.csv", SIR_DATA);
  const char *path = test_file("sir.atvi", SIR);
  long live = test_live;
  for (long k = 1;; k++) {
    atvi_model *m;
    test_fail_at = test_allocs + k;
    atvi_status status = atvi_model_load_with(ctx, path, &(atvi_model_load_opts){.interpret = true}, &m);
    test_fail_at = 0;
    if (status == ATVI_OK) {
      CHECK(k > 5);
      atvi_model_free(m);
      break;
    }
    CHECK_INT(status, ATVI_ENOMEM);
    CHECK(m == NULL);
    CHECK_INT(test_live, live);
    CHECK(k < 100000);
  }
  CHECK_INT(test_live, live);
  atvi_ctx_free(ctx);
}

TESTS({"alternatives", alternatives_of_a_density}, {"dying", states_that_die_out_have_a_likelihood},
      {"moving", jumps_at_parameters}, {"comparisons", comparisons_with_the_time_are_landed_on},
      {"solver", the_solver_is_chosen}, {"band", the_solver_is_chosen_by_the_band},
      {"tolerance", tolerances_ask_the_same_of_both_solvers}, {"wide", wide_priors_can_be_evaluated},
      {"curve", curve_has_the_closed_form}, {"outside", points_outside_are_not_run},
      {"increase", decay_counts_increase}, {"jumps", jumps_and_pulses_are_landed_on},
      {"map", difference_equations_step_together}, {"poisson_zero", poisson_at_mean_zero},
      {"censored", censored_values_give_tail_probabilities}, {"negbin", negative_binomial_by_histogram},
      {"batch", results_depend_on_neither_batch_nor_threads}, {"agree", interpreter_and_compiled_code_agree},
      {"predict", predictions_and_simulations}, {"prior", priors_that_depend_on_parameters_are_drawn},
      {"fixed", fixed_parameters_leave_the_rest}, {"options", options_of_the_library},
      {"times", other_times_need_no_data}, {"still", states_that_never_change_are_not_solved},
      {"large", many_states_have_right_gradients}, {"masked", missing_values_leave_no_trace_in_the_gradient},
      {"negative", negative_means_are_impossible_unless_the_solver_made_them},
      {"grid", difference_equations_live_on_their_grid}, {"exact", exact_evaluation_shows_the_solvers_error},
      {"operations", operations_are_counted}, {"memory", memory_may_run_out_anywhere})
