/* SPDX-License-Identifier: MIT */
/* Distributions: densities against closed forms and sums, draws against distribution functions. */
#include "lang/dist.h"
#include "testing.h"

static atvi_ctx *ctx;
static atvi_graph *g;

static void begin(void) {
  ctx = test_ctx();
  CHECK_OK(atvi_graph_new(ctx, &g));
}

static void end(void) {
  atvi_graph_free(g);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* Inputs of kind 0: y, then the arguments. */
static double value(atvi_node x, double y, const double *arg, int n) {
  double in0[4] = {y}, v;
  for (int k = 0; k < n; k++) in0[k + 1] = arg[k];
  const double *in[2] = {in0, NULL};
  CHECK(x != ATVI_NODE_NONE);
  CHECK_OK(atvi_graph_value(ctx, g, x, in, &v));
  return v;
}

static void inputs(atvi_dist dist, atvi_node *y, atvi_node arg[3]) {
  *y = atvi_graph_input(g, 0, 0);
  for (int k = 0; k < atvi_lang_dist_get(dist)->n_arg; k++) arg[k] = atvi_graph_input(g, 0, k + 1);
}

static double density(atvi_dist dist, double y, const double *a) {
  atvi_node ny, arg[3];
  inputs(dist, &ny, arg);
  return value(atvi_lang_dist_lpdf(g, dist, ny, arg, NULL), y, a, atvi_lang_dist_get(dist)->n_arg);
}

static void names_and_aliases(void) {
  for (int d = 0; d < ATVI_DIST_COUNT; d++) {
    const atvi_dist_info *info = atvi_lang_dist_get((atvi_dist)d);
    CHECK_INT(atvi_lang_dist_find(info->name, strlen(info->name)), d);
    CHECK(info->n_arg >= 1 && info->arg[info->n_arg - 1] != NULL && (info->prior || info->observation));
  }
  CHECK_INT(atvi_lang_dist_find("inverse_gamma", 13), ATVI_DIST_INVGAMMA);
  CHECK_INT(atvi_lang_dist_find("negative_binomial", 17), ATVI_DIST_NEGBIN);
  CHECK_INT(atvi_lang_dist_find("norma", 5), -1);
  CHECK(atvi_lang_dist_arg_ok(ATVI_DIST_NORMAL, 1, 0.5) && !atvi_lang_dist_arg_ok(ATVI_DIST_NORMAL, 1, 0));
  CHECK(!atvi_lang_dist_arg_ok(ATVI_DIST_NORMAL, 0, NAN) &&
        !atvi_lang_dist_arg_ok(ATVI_DIST_BINOMIAL, 0, 1.5));
  CHECK(atvi_lang_dist_arg_ok(ATVI_DIST_POISSON, 0, 0) && !atvi_lang_dist_arg_ok(ATVI_DIST_BINOMIAL, 1, 1.5));
}

/* Oracle numbers: closed forms written here, independent of the graph. */
static void densities_are_right(void) {
  begin();
  const double pi = 3.14159265358979323846;
#define D(dist, y, ...) density(dist, y, (const double[]){__VA_ARGS__})
  CHECK_REL(D(ATVI_DIST_UNIFORM, 2, 1.5, 4), -log(2.5), 1e-14);
  CHECK(D(ATVI_DIST_UNIFORM, 5, 1.5, 4) == -HUGE_VAL);
  CHECK_REL(D(ATVI_DIST_NORMAL, 2.385, 0.731, 1.6), log(exp(-0.5 * 1.03375 * 1.03375) / (1.6 * sqrt(2 * pi))),
            1e-13);
  CHECK_REL(D(ATVI_DIST_LOGNORMAL, 2.385, 0.731, 1.6),
            -0.5 * pow((log(2.385) - 0.731) / 1.6, 2) - log(2.385 * 1.6 * sqrt(2 * pi)), 1e-13);
  CHECK(D(ATVI_DIST_LOGNORMAL, -1, 0.731, 1.6) == -HUGE_VAL);
  CHECK_REL(D(ATVI_DIST_GAMMA, 2.385, 3, 1.6), log(1.6 * 1.6 * 1.6 / 2 * 2.385 * 2.385 * exp(-1.6 * 2.385)),
            1e-13);
  CHECK_REL(D(ATVI_DIST_INVGAMMA, 2.385, 3, 1.6),
            log(1.6 * 1.6 * 1.6 / 2 * pow(2.385, -4) * exp(-1.6 / 2.385)), 1e-13);
  CHECK_REL(D(ATVI_DIST_BETA, 0.3, 2, 3), log(12 * 0.3 * 0.49), 1e-13);
  CHECK(D(ATVI_DIST_BETA, 1.3, 2, 3) == -HUGE_VAL);
  CHECK_REL(D(ATVI_DIST_EXPONENTIAL, 2.385, 1.6), log(1.6) - 1.6 * 2.385, 1e-14);
  CHECK_REL(D(ATVI_DIST_HALFNORMAL, 2.385, 1.6), log(2 / (1.6 * sqrt(2 * pi))) - 0.5 * pow(2.385 / 1.6, 2),
            1e-13);
  CHECK_REL(D(ATVI_DIST_HALFCAUCHY, 2.385, 1.6), log(2 / (pi * 1.6 * (1 + pow(2.385 / 1.6, 2)))), 1e-13);
  CHECK_REL(D(ATVI_DIST_CAUCHY, 2.385, 3.1, 1.6), log(1 / (pi * 1.6 * (1 + pow(0.715 / 1.6, 2)))), 1e-13);
  CHECK_REL(D(ATVI_DIST_STUDENT, 2.385, 3, 3.1, 1.6),
            log(2 / (pi * sqrt(3) * 1.6) / pow(1 + pow(0.715 / 1.6, 2) / 3, 2)), 1e-13);
  CHECK_REL(D(ATVI_DIST_POISSON, 4, 2.385), log(exp(-2.385) * pow(2.385, 4) / 24), 1e-13);
  CHECK_REL(D(ATVI_DIST_NEGBIN, 2, 2.385, 1.6),
            log(1.6 * 2.6 / 2 * pow(1.6 / 3.985, 1.6) * pow(2.385 / 3.985, 2)), 1e-13);
  CHECK_REL(D(ATVI_DIST_BINOMIAL, 2, 5, 0.3), log(10 * 0.09 * 0.343), 1e-13);
  CHECK(D(ATVI_DIST_BINOMIAL, 6, 5, 0.3) == -HUGE_VAL);
  /* C(5, 2) B(4, 7) / B(2, 4) */
  CHECK_REL(D(ATVI_DIST_BETABINOMIAL, 2, 5, 2, 4), log(10 * (6.0 * 720 / 3628800) / (6.0 / 120)), 1e-13);
  CHECK_REL(D(ATVI_DIST_BETABINOMIAL, 2, 5, 3e9, 7e9), D(ATVI_DIST_BINOMIAL, 2, 5, 0.3), 1e-8);
  CHECK(D(ATVI_DIST_BETABINOMIAL, 6, 5, 2, 4) == -HUGE_VAL);
  CHECK_REL(exp(atvi_lang_dist_log_cdf(ATVI_DIST_BETABINOMIAL, 2, (const double[]){5, 2, 4})) +
                exp(atvi_lang_dist_log_ccdf(ATVI_DIST_BETABINOMIAL, 2, (const double[]){5, 2, 4})),
            1, 1e-13);
  /* limits of means and probabilities */
  CHECK(D(ATVI_DIST_POISSON, 0, 0) == 0 && D(ATVI_DIST_POISSON, 1, 0) == -HUGE_VAL);
  CHECK(D(ATVI_DIST_NEGBIN, 0, 0, 1.6) == 0);
  CHECK_ABS(D(ATVI_DIST_BINOMIAL, 5, 5, 1), 0, 1e-14);
  CHECK_ABS(D(ATVI_DIST_BINOMIAL, 0, 5, 0), 0, 1e-14);
  CHECK_REL(D(ATVI_DIST_NEGBIN, 4, 2.385, 1e12), D(ATVI_DIST_POISSON, 4, 2.385), 1e-10);
#undef D
  end();
}

/* Densities, tails and slopes in x where p = invlogit(x) or the mean is exp(x), far beyond what p and exp(x)
 * can hold. */
static void links_are_stable(void) {
  begin();
  static const double at_x[] = {-1e4, -801.3, -37.2, -2.385, 0.731, 36.4, 600, 812.4, 1e4};
  atvi_node y = atvi_graph_input(g, 0, 0), x = atvi_graph_input(g, 0, 1), s = atvi_graph_input(g, 0, 2);
  atvi_node one = atvi_graph_const(g, 1), mean = atvi_graph_op1(g, ATVI_OP_EXP, x), grad[2];
  atvi_node logistic[2] = {atvi_graph_const(g, 9), atvi_graph_op1(g, ATVI_OP_INVLOGIT, x)},
            counts[2] = {mean, s};
  for (int i = 0; i < 9; i++) {
    double v = at_x[i], size = 1.6, k = 3, arg[2] = {v, size}, l = v - log(size);
    double soft = fmax(v, 0) + log1p(exp(-fabs(v))),
           share = v > 0 ? 1 / (1 + exp(-v)) : exp(v) / (1 + exp(v));
    double nsoft = fmax(l, 0) + log1p(exp(-fabs(l))),
           nshare = l > 0 ? 1 / (1 + exp(-l)) : exp(l) / (1 + exp(l));
    const struct {
      atvi_node node;
      double value, slope;
    } c[] = {
        {atvi_lang_dist_lpdf(g, ATVI_DIST_BINOMIAL, y, logistic, NULL), log(84) + k * v - 9 * soft,
         k - 9 * share},
        {atvi_lang_dist_lpdf(g, ATVI_DIST_POISSON, y, counts, NULL), k * v - exp(v) - log(6), k - exp(v)},
        {atvi_lang_dist_lpdf(g, ATVI_DIST_NEGBIN, y, counts, NULL),
         log(1.6 * 2.6 * 3.6 / 6) + k * l - (k + size) * nsoft, k - (k + size) * nshare},
    };
    for (int d = 0; d < 3; d++) {
      if (isinf(c[d].value)) { /* below every double */
        CHECK(value(c[d].node, k, arg, 2) == -HUGE_VAL);
        continue;
      }
      CHECK_MSG(fabs(value(c[d].node, k, arg, 2) - c[d].value) <= 1e-14 * (1 + fabs(c[d].value)),
                "%d at %g: %.17g, want %.17g", d, v, value(c[d].node, k, arg, 2), c[d].value);
      atvi_graph_vjp(g, 1, &c[d].node, &one, 1, &x, grad);
      CHECK_MSG(fabs(value(grad[0], k, arg, 2) - c[d].slope) <= 1e-14 * (1 + fabs(c[d].slope)),
                "slope of %d at %g: %.17g, want %.17g", d, v, value(grad[0], k, arg, 2), c[d].slope);
    }
    /* leading terms of P(Y > 3) far below and of P(Y <= 3) far above */
    if (fabs(v) < 100) continue;
    double tails[3][3] = {
        {0, 4 * v + log(126), 4}, {1, 4 * v - log(24), 4}, {2, 4 * l + log(1.6 * 2.6 * 3.6 * 4.6 / 24), 4}};
    if (v > 0) tails[0][1] = log(84) - 6 * v, tails[0][2] = -6;
    if (v > 0)
      tails[2][1] = -size * l + log(1 + 1.6 + 1.6 * 2.6 / 2 + 1.6 * 2.6 * 3.6 / 6), tails[2][2] = -size;
    for (int d = 0; d < 3; d++) {
      if (v > 0 && d == 1) continue;
      atvi_dist dist = d == 0 ? ATVI_DIST_BINOMIAL : d == 1 ? ATVI_DIST_POISSON : ATVI_DIST_NEGBIN;
      const atvi_node *a = d == 0 ? logistic : counts;
      atvi_node rare = v < 0 ? atvi_lang_dist_lccdf(g, dist, y, a) : atvi_lang_dist_lcdf(g, dist, y, a);
      atvi_node sure = v > 0 ? atvi_lang_dist_lccdf(g, dist, y, a) : atvi_lang_dist_lcdf(g, dist, y, a);
      CHECK_REL(value(rare, k, arg, 2), tails[d][1], 1e-13);
      CHECK_ABS(value(sure, k, arg, 2), 0, 1e-200);
      atvi_graph_vjp(g, 1, &rare, &one, 1, &x, grad);
      CHECK_REL(value(grad[0], k, arg, 2), tails[d][2], 1e-12);
    }
  }
  end();
}

static void poisson_at_zero_has_slope_minus_one(void) {
  begin();
  atvi_node y, arg[3], one = atvi_graph_const(g, 1), grad[1];
  for (int d = 0; d < 2; d++) {
    atvi_dist dist = d ? ATVI_DIST_NEGBIN : ATVI_DIST_POISSON;
    inputs(dist, &y, arg);
    atvi_node lp = atvi_lang_dist_lpdf(g, dist, y, arg, NULL);
    atvi_graph_vjp(g, 1, &lp, &one, 1, arg, grad);
    const double a[2] = {0, 1.6};
    CHECK_REL(value(grad[0], 0, a, 2), -1, 1e-15);
  }
  end();
}

static void rising_factorial_comes_apart(void) {
  begin();
  atvi_node y, arg[3], rise;
  inputs(ATVI_DIST_NEGBIN, &y, arg);
  atvi_node rest = atvi_lang_dist_lpdf(g, ATVI_DIST_NEGBIN, y, arg, &rise);
  const double a[2] = {2.385, 1.6};
  CHECK_REL(value(rise, 3, a, 2), log(1.6 * 2.6 * 3.6), 1e-13);
  CHECK_REL(value(rest, 3, a, 2) + value(rise, 3, a, 2), density(ATVI_DIST_NEGBIN, 3, a), 1e-13);
  inputs(ATVI_DIST_POISSON, &y, arg);
  atvi_lang_dist_lpdf(g, ATVI_DIST_POISSON, y, arg, &rise);
  CHECK(rise == ATVI_NODE_NONE);
  end();
}

/* Value -inf and no slope, whatever the formula would say there. */
static void check_impossible(atvi_node x, double y, const double *arg, int n, const char *name) {
  atvi_node one = atvi_graph_const(g, 1), wrt[3], grad[3];
  for (int k = 0; k < n; k++) wrt[k] = atvi_graph_input(g, 0, k + 1);
  CHECK_MSG(value(x, y, arg, n) == -HUGE_VAL, "%s: %g", name, value(x, y, arg, n));
  atvi_graph_vjp(g, 1, &x, &one, n, wrt, grad);
  for (int k = 0; k < n; k++)
    CHECK_MSG(value(grad[k], y, arg, n) == 0, "%s, argument %d: %g", name, k, value(grad[k], y, arg, n));
}

static void bad_arguments_are_impossible(void) {
  static const struct {
    atvi_dist dist;
    double y, arg[3];
  } BAD[] = {
      {ATVI_DIST_POISSON, 0, {-0.3}},       {ATVI_DIST_POISSON, 4, {-2.385}},
      {ATVI_DIST_NEGBIN, 0, {-0.3, 1.6}},   {ATVI_DIST_NEGBIN, 4, {-2.385, 1.6}},
      {ATVI_DIST_NEGBIN, 4, {2.385, 0}},    {ATVI_DIST_NEGBIN, 0, {2.385, -1.6}},
      {ATVI_DIST_NEGBIN, 4, {-2.385, -1}},  {ATVI_DIST_BINOMIAL, 2, {5, -0.1}},
      {ATVI_DIST_BINOMIAL, 2, {5, 1.1}},    {ATVI_DIST_BINOMIAL, 0, {-2, 0.3}},
      {ATVI_DIST_BINOMIAL, 4, {4, -0.3}},   {ATVI_DIST_NORMAL, 2.385, {0.7, -1.6}},
      {ATVI_DIST_NORMAL, 2.385, {0.7, 0}},  {ATVI_DIST_LOGNORMAL, 2.385, {0.7, -1.6}},
      {ATVI_DIST_LOGNORMAL, 2, {0.7, 0}},   {ATVI_DIST_STUDENT, 2.385, {3, 0.7, -1.6}},
      {ATVI_DIST_STUDENT, 2, {-3, 0.7, 1}}, {ATVI_DIST_GAMMA, 2.385, {-3, 1.6}},
      {ATVI_DIST_GAMMA, 2.385, {3, -1.6}},  {ATVI_DIST_INVGAMMA, 2.385, {-2, 1.6}},
      {ATVI_DIST_BETA, 0.3, {-2, 3}},       {ATVI_DIST_BETA, 0.3, {2, -3}},
      {ATVI_DIST_UNIFORM, 2, {2, 2}},       {ATVI_DIST_UNIFORM, 2, {4, 1.5}},
      {ATVI_DIST_EXPONENTIAL, 2, {-1.6}},   {ATVI_DIST_HALFNORMAL, 2, {-1.6}},
      {ATVI_DIST_HALFCAUCHY, 2, {-1.6}},    {ATVI_DIST_CAUCHY, 2, {3.1, 0}},
  };
  begin();
  for (size_t c = 0; c < sizeof BAD / sizeof *BAD; c++) {
    atvi_node y, arg[3], rise;
    const atvi_dist_info *info = atvi_lang_dist_get(BAD[c].dist);
    inputs(BAD[c].dist, &y, arg);
    check_impossible(atvi_lang_dist_lpdf(g, BAD[c].dist, y, arg, NULL), BAD[c].y, BAD[c].arg, info->n_arg,
                     info->name);
    atvi_node rest = atvi_lang_dist_lpdf(g, BAD[c].dist, y, arg, &rise);
    check_impossible(rest, BAD[c].y, BAD[c].arg, info->n_arg, info->name);
    if (rise != ATVI_NODE_NONE) CHECK(value(rise, BAD[c].y, BAD[c].arg, info->n_arg) == 0);
    if (info->observation && atvi_lang_dist_lcdf(g, BAD[c].dist, y, arg) != ATVI_NODE_NONE) {
      check_impossible(atvi_lang_dist_lcdf(g, BAD[c].dist, y, arg), BAD[c].y, BAD[c].arg, info->n_arg,
                       info->name);
      check_impossible(atvi_lang_dist_lccdf(g, BAD[c].dist, y, arg), BAD[c].y, BAD[c].arg, info->n_arg,
                       info->name);
    }
    atvi_node mass = info->prior ? atvi_lang_dist_lmass(g, BAD[c].dist, 0.1, 2.9, arg) : ATVI_NODE_NONE;
    if (mass == ATVI_NODE_NONE) continue;
    check_impossible(atvi_graph_op2(g, ATVI_OP_SUB, rest, mass), BAD[c].y, BAD[c].arg, info->n_arg,
                     info->name);
  }
  /* a model that could not be run is something else */
  CHECK(isnan(density(ATVI_DIST_POISSON, 3, (const double[]){NAN})));
  CHECK(isnan(density(ATVI_DIST_NEGBIN, 3, (const double[]){NAN, 1.6})));
  CHECK(isnan(density(ATVI_DIST_NORMAL, 3, (const double[]){NAN, 1.6})));
  end();
}

static const struct {
  atvi_dist dist;
  double arg[3], lower, upper; /* an interval inside the support with middling mass */
} CASES[] = {
    {ATVI_DIST_UNIFORM, {1.5, 4}, 2, 3.1},
    {ATVI_DIST_NORMAL, {0.731, 1.6}, -0.4, 2.2},
    {ATVI_DIST_LOGNORMAL, {0.3, 0.7}, 0.6, 2.9},
    {ATVI_DIST_GAMMA, {2.4, 1.6}, 0.5, 2.2},
    {ATVI_DIST_INVGAMMA, {2.4, 1.6}, 0.5, 2.2},
    {ATVI_DIST_BETA, {2.4, 1.6}, 0.3, 0.8},
    {ATVI_DIST_EXPONENTIAL, {1.6}, 0.2, 1.3},
    {ATVI_DIST_HALFNORMAL, {1.6}, 0.4, 2.2},
    {ATVI_DIST_HALFCAUCHY, {1.6}, 0.4, 4.2},
    {ATVI_DIST_CAUCHY, {0.731, 1.6}, -1.4, 3.2},
    {ATVI_DIST_STUDENT, {3.2, 0.731, 1.6}, -1.4, 2.6},
    {ATVI_DIST_LAPLACE, {0.731, 1.6}, 0.9, 2.6},
    {ATVI_DIST_LAPLACE, {0.731, 1.6}, -2.2, 0.5},
    {ATVI_DIST_LOGISTIC, {0.731, 1.6}, -1.4, 2.6},
    {ATVI_DIST_WEIBULL, {1.7, 1.6}, 0.4, 2.6},
};
enum { N_CASES = sizeof CASES / sizeof *CASES };

/* Simpson's rule over the density: an oracle for every mass. */
static double integral(atvi_dist dist, const double *arg, double lower, double upper) {
  enum { N = 400 };
  double h = (upper - lower) / N, sum = 0;
  for (int i = 0; i <= N; i++) {
    double w = i == 0 || i == N ? 1 : i % 2 ? 4 : 2;
    sum += w * exp(density(dist, lower + i * h, arg));
  }
  return sum * h / 3;
}

static void masses_are_integrals(void) {
  begin();
  for (int c = 0; c < N_CASES; c++) {
    atvi_dist dist = CASES[c].dist;
    double want = log(integral(dist, CASES[c].arg, CASES[c].lower, CASES[c].upper));
    CHECK_ABS(atvi_lang_dist_log_mass(dist, CASES[c].lower, CASES[c].upper, CASES[c].arg), want, 1e-7);
    double below = exp(atvi_lang_dist_log_cdf(dist, CASES[c].lower, CASES[c].arg));
    double above = exp(atvi_lang_dist_log_ccdf(dist, CASES[c].upper, CASES[c].arg));
    CHECK_ABS(below + exp(want) + above, 1, 1e-7);
    atvi_node y, arg[3], konst[3];
    inputs(dist, &y, arg);
    for (int k = 0; k < atvi_lang_dist_get(dist)->n_arg; k++) konst[k] = atvi_graph_const(g, CASES[c].arg[k]);
    double exact = atvi_lang_dist_log_mass(dist, CASES[c].lower, CASES[c].upper, CASES[c].arg), v;
    CHECK(atvi_graph_is_const(g, atvi_lang_dist_lmass(g, dist, CASES[c].lower, CASES[c].upper, konst), &v));
    CHECK_REL(v, exact, 1e-13);
    double ends[4][2] = {{CASES[c].lower, CASES[c].upper},
                         {-INFINITY, CASES[c].upper},
                         {CASES[c].lower, INFINITY},
                         {-INFINITY, INFINITY}};
    int n = atvi_lang_dist_get(dist)->n_arg;
    atvi_node low = atvi_lang_dist_lcdf(g, dist, y, arg), high = atvi_lang_dist_lccdf(g, dist, y, arg);
    CHECK((low == ATVI_NODE_NONE) == (high == ATVI_NODE_NONE));
    for (int k = 0; k < 2 && low != ATVI_NODE_NONE; k++) {
      double at = k ? CASES[c].upper : CASES[c].lower;
      CHECK_ABS(value(low, at, CASES[c].arg, n), atvi_lang_dist_log_cdf(dist, at, CASES[c].arg), 1e-12);
      CHECK_ABS(value(high, at, CASES[c].arg, n), atvi_lang_dist_log_ccdf(dist, at, CASES[c].arg), 1e-12);
    }
    bool closed = dist != ATVI_DIST_GAMMA && dist != ATVI_DIST_INVGAMMA && dist != ATVI_DIST_BETA;
    for (int k = 0; k < 4; k++) {
      atvi_node m = atvi_lang_dist_lmass(g, dist, ends[k][0], ends[k][1], arg);
      CHECK((m != ATVI_NODE_NONE) == closed);
      if (!closed) continue;
      double exact_k = atvi_lang_dist_log_mass(dist, ends[k][0], ends[k][1], CASES[c].arg);
      CHECK_ABS(value(m, 0, CASES[c].arg, atvi_lang_dist_get(dist)->n_arg), exact_k, 1e-11);
    }
  }
  CHECK(isnan(atvi_lang_dist_log_mass(ATVI_DIST_NORMAL, 0, 1, (const double[]){0, -1})));
  CHECK(atvi_lang_dist_log_mass(ATVI_DIST_NORMAL, 1, 0, (const double[]){0, 1}) == -HUGE_VAL);
  CHECK_REL(atvi_lang_dist_log_mass(ATVI_DIST_NORMAL, 30, 31, (const double[]){0, 1}), -454.32124395634285,
            1e-10);
  end();
}

static void censored_observations(void) {
  begin();
  const double pois[1] = {2.385}, nb[2] = {2.385, 1.6}, bin[2] = {9, 0.3}, norm[2] = {0.7, 1.6};
  const struct {
    atvi_dist dist;
    const double *arg;
  } counts[3] = {{ATVI_DIST_POISSON, pois}, {ATVI_DIST_NEGBIN, nb}, {ATVI_DIST_BINOMIAL, bin}};
  for (int c = 0; c < 3; c++) {
    atvi_node y, arg[3];
    inputs(counts[c].dist, &y, arg);
    double sum = 0;
    for (int k = 0; k <= 4; k++) sum += exp(density(counts[c].dist, k, counts[c].arg));
    int n = atvi_lang_dist_get(counts[c].dist)->n_arg;
    CHECK_REL(value(atvi_lang_dist_lcdf(g, counts[c].dist, y, arg), 4, counts[c].arg, n), log(sum), 1e-12);
    CHECK_REL(value(atvi_lang_dist_lccdf(g, counts[c].dist, y, arg), 4, counts[c].arg, n), log1p(-sum),
              1e-11);
    CHECK_REL(atvi_lang_dist_log_cdf(counts[c].dist, 4, counts[c].arg), log(sum), 1e-12);
  }
  atvi_node y, arg[3];
  inputs(ATVI_DIST_LOGNORMAL, &y, arg);
  CHECK_REL(value(atvi_lang_dist_lcdf(g, ATVI_DIST_LOGNORMAL, y, arg), 2.1, norm, 2),
            log(0.5 * erfc(-(log(2.1) - 0.7) / 1.6 / sqrt(2))), 1e-12);
  CHECK(atvi_lang_dist_lcdf(g, ATVI_DIST_GAMMA, y, arg) == ATVI_NODE_NONE);
  end();
}

static void means_are_means(void) {
  begin();
  const double a[3] = {5.5, 0.3, 1.6};
  atvi_node arg[3] = {atvi_graph_input(g, 0, 1), atvi_graph_input(g, 0, 2), atvi_graph_input(g, 0, 3)};
  CHECK_REL(value(atvi_lang_dist_mean(g, ATVI_DIST_POISSON, arg), 0, a, 3), 5.5, 0);
  CHECK_REL(value(atvi_lang_dist_mean(g, ATVI_DIST_NEGBIN, arg), 0, a, 3), 5.5, 0);
  CHECK_REL(value(atvi_lang_dist_mean(g, ATVI_DIST_NORMAL, arg), 0, a, 3), 5.5, 0);
  CHECK_REL(value(atvi_lang_dist_mean(g, ATVI_DIST_STUDENT, arg), 0, a, 3), 0.3, 0);
  CHECK_REL(value(atvi_lang_dist_mean(g, ATVI_DIST_BINOMIAL, arg), 0, a, 3), 1.65, 1e-15);
  CHECK_REL(value(atvi_lang_dist_mean(g, ATVI_DIST_LOGNORMAL, arg), 0, a, 3), exp(5.545), 1e-13);
  CHECK_REL(value(atvi_lang_dist_mean(g, ATVI_DIST_UNIFORM, arg), 0, a, 3), 2.9, 1e-15);
  CHECK_REL(value(atvi_lang_dist_mean(g, ATVI_DIST_GAMMA, arg), 0, a, 3), 5.5 / 0.3, 1e-15);
  CHECK_REL(value(atvi_lang_dist_mean(g, ATVI_DIST_INVGAMMA, arg), 0, a, 3), 0.3 / 4.5, 1e-15);
  CHECK_REL(value(atvi_lang_dist_mean(g, ATVI_DIST_BETA, arg), 0, a, 3), 5.5 / 5.8, 1e-15);
  CHECK_REL(value(atvi_lang_dist_mean(g, ATVI_DIST_WEIBULL, arg), 0, a, 3), 0.3 * tgamma(1 + 1 / 5.5), 1e-14);
  CHECK_REL(value(atvi_lang_dist_mean(g, ATVI_DIST_BETABINOMIAL, arg), 0, a, 3), 5.5 * 0.3 / 1.9, 1e-15);
  end();
}

/* Central differences with a step that balances rounding (1e-16/h) and truncation (h^2). */
static void check_gradient(atvi_node x, int first, const double in0[4], int n, const char *name) {
  atvi_node one = atvi_graph_const(g, 1), wrt[4], grad[4];
  for (int k = 0; k < n; k++) wrt[k] = atvi_graph_input(g, 0, k);
  atvi_graph_vjp(g, 1, &x, &one, n, wrt, grad);
  for (int k = first; k < n; k++) {
    double up[4], down[4], h = 6e-6 * fmax(1, fabs(in0[k]));
    memcpy(up, in0, sizeof up);
    memcpy(down, in0, sizeof down);
    up[k] += h;
    down[k] -= h;
    double want = (value(x, up[0], up + 1, n - 1) - value(x, down[0], down + 1, n - 1)) / (2 * h);
    double got = value(grad[k], in0[0], in0 + 1, n - 1);
    CHECK_MSG(fabs(got - want) <= 1e-8 * fmax(1, fabs(want)), "%s, argument %d: %.12g, want %.12g", name, k,
              got, want);
  }
}

static void gradients_are_right(void) {
  begin();
  for (int c = 0; c < N_CASES; c++) {
    atvi_dist dist = CASES[c].dist;
    atvi_node y, arg[3];
    inputs(dist, &y, arg);
    double in0[4] = {0.4 * CASES[c].lower + 0.6 * CASES[c].upper};
    int n = 1 + atvi_lang_dist_get(dist)->n_arg;
    memcpy(in0 + 1, CASES[c].arg, sizeof CASES[c].arg);
    check_gradient(atvi_lang_dist_lpdf(g, dist, y, arg, NULL), 0, in0, n, atvi_lang_dist_get(dist)->name);
    atvi_node mass = atvi_lang_dist_lmass(g, dist, CASES[c].lower, CASES[c].upper, arg);
    if (mass != ATVI_NODE_NONE) check_gradient(mass, 1, in0, n, atvi_lang_dist_get(dist)->name);
  }
  const struct {
    atvi_dist dist;
    double in0[4];
    int first;
  } counts[3] = {{ATVI_DIST_POISSON, {3, 2.385}, 1},
                 {ATVI_DIST_NEGBIN, {3, 2.385, 1.6}, 1},
                 {ATVI_DIST_BINOMIAL, {3, 9, 0.3}, 2}};
  for (int c = 0; c < 3; c++) {
    atvi_node y, arg[3];
    inputs(counts[c].dist, &y, arg);
    int n = 1 + atvi_lang_dist_get(counts[c].dist)->n_arg;
    const char *name = atvi_lang_dist_get(counts[c].dist)->name;
    check_gradient(atvi_lang_dist_lpdf(g, counts[c].dist, y, arg, NULL), counts[c].first, counts[c].in0, n,
                   name);
    check_gradient(atvi_lang_dist_lcdf(g, counts[c].dist, y, arg), counts[c].first, counts[c].in0, n, name);
    check_gradient(atvi_lang_dist_lccdf(g, counts[c].dist, y, arg), counts[c].first, counts[c].in0, n, name);
  }
  end();
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Kolmogorov-Smirnov: sqrt(n) D exceeds 2.2 with probability 1.3e-4; the seeds are fixed. */
static void ks(atvi_dist dist, const double *arg, double lower, double upper, uint32_t draw) {
  enum { N = 4000 };
  static double x[N];
  atvi_rng r = atvi_math_rng_at(20, ATVI_STREAM_TEST, 3, draw);
  for (int i = 0; i < N; i++) {
    x[i] = atvi_lang_dist_draw(&r, dist, arg, lower, upper);
    CHECK(x[i] >= lower && x[i] <= upper);
  }
  qsort(x, N, sizeof *x, by_size);
  double worst = 0, all = exp(atvi_lang_dist_log_mass(dist, lower, upper, arg));
  for (int i = 0; i < N; i++) {
    double f = exp(atvi_lang_dist_log_mass(dist, lower, x[i], arg)) / all;
    worst = fmax(worst, fmax(fabs(f - (double)i / N), fabs(f - (i + 1.0) / N)));
  }
  CHECK_MSG(sqrt(N) * worst < 2.2, "%s in (%g, %g): %g", atvi_lang_dist_get(dist)->name, lower, upper,
            sqrt(N) * worst);
}

static void draws_follow_their_distribution(void) {
  for (int c = 0; c < N_CASES; c++) {
    ks(CASES[c].dist, CASES[c].arg, -INFINITY, INFINITY, (uint32_t)(3 * c));
    ks(CASES[c].dist, CASES[c].arg, CASES[c].lower, CASES[c].upper, (uint32_t)(3 * c + 1));
    ks(CASES[c].dist, CASES[c].arg, CASES[c].lower, INFINITY, (uint32_t)(3 * c + 2));
  }
  /* tails that rejection never finds */
  ks(ATVI_DIST_NORMAL, (const double[]){0, 1}, 6, INFINITY, 100);
  ks(ATVI_DIST_NORMAL, (const double[]){0, 1}, -INFINITY, -8, 101);
  ks(ATVI_DIST_NORMAL, (const double[]){0, 1}, 12, 12.1, 102);
  ks(ATVI_DIST_GAMMA, (const double[]){2, 1}, 20, 25, 103);
  ks(ATVI_DIST_STUDENT, (const double[]){4, 0, 1}, 30, INFINITY, 104);
  ks(ATVI_DIST_NORMAL, (const double[]){0, 1}, 0.5, 0.50001, 105);
}

static void draws_of_counts_have_their_moments(void) {
  const double bin[2] = {9, 0.3}, nb[2] = {2.385, 1.6}, pois[1] = {2.385};
  const struct {
    atvi_dist dist;
    const double *arg;
    double mean, var;
  } c[3] = {{ATVI_DIST_BINOMIAL, bin, 2.7, 1.89},
            {ATVI_DIST_NEGBIN, nb, 2.385, 2.385 + 2.385 * 2.385 / 1.6},
            {ATVI_DIST_POISSON, pois, 2.385, 2.385}};
  enum { N = 20000 };
  for (int k = 0; k < 3; k++) {
    atvi_rng r = atvi_math_rng_at(20, ATVI_STREAM_TEST, 4, (uint32_t)k);
    double sum = 0;
    for (int i = 0; i < N; i++) sum += atvi_lang_dist_draw(&r, c[k].dist, c[k].arg, -INFINITY, INFINITY);
    CHECK_ABS(sum / N, c[k].mean, 4 * sqrt(c[k].var / N)); /* four standard errors */
  }
}

static void impossible_draws_are_nan(void) {
  atvi_rng r = atvi_math_rng_at(20, ATVI_STREAM_TEST, 5, 0);
  const double bad[2] = {0, -1}, good[2] = {0, 1}, g2[2] = {2, 1};
  CHECK(isnan(atvi_lang_dist_draw(&r, ATVI_DIST_NORMAL, bad, -INFINITY, INFINITY)));
  CHECK(isnan(atvi_lang_dist_draw(&r, ATVI_DIST_UNIFORM, bad, -INFINITY, INFINITY)));
  CHECK(isnan(atvi_lang_dist_draw(&r, ATVI_DIST_NORMAL, good, 2, 1)));
  CHECK(isnan(atvi_lang_dist_draw(&r, ATVI_DIST_GAMMA, g2, -3, -1)));
  CHECK(isnan(atvi_lang_dist_draw(&r, ATVI_DIST_GAMMA, g2, 1e6, 2e6)));
  CHECK(isnan(atvi_lang_dist_log_cdf(ATVI_DIST_NORMAL, 0, bad)));
}

TESTS({"names", names_and_aliases}, {"densities", densities_are_right}, {"links", links_are_stable},
      {"zero", poisson_at_zero_has_slope_minus_one}, {"lrise", rising_factorial_comes_apart},
      {"bad arguments", bad_arguments_are_impossible}, {"masses", masses_are_integrals},
      {"censored", censored_observations}, {"means", means_are_means}, {"gradients", gradients_are_right},
      {"draws", draws_follow_their_distribution}, {"counts", draws_of_counts_have_their_moments},
      {"impossible", impossible_draws_are_nan})
