/* SPDX-License-Identifier: MIT */
/* Models that are right: what their expressions are worth. */
#include "unit/lang/helper.h"

static void expressions_mean_what_they_say(void) {
  const double p[2] = {0.731, 2.385};
#define V(text) derived_at("param x in (0, 1)\nparam y in (0, 4)\nderived d = " text "\n", p)
  double x = p[0], y = p[1];
  CHECK_REL(V("-x^2"), -x * x, 1e-15);
  CHECK_REL(V("2^3^2/x"), 512 / x, 1e-15);
  CHECK_REL(V("x - y - 3"), x - y - 3, 1e-15);
  CHECK_REL(V("x/y/3*2"), x / y / 3 * 2, 1e-15);
  CHECK_REL(V("2^-y"), pow(2, -y), 1e-14);
  CHECK_REL(V("if x < y and not (x > 1) then 3.16 else 1"), 3.16, 0);
  CHECK_REL(V("if x >= y or x != x then 3.16 else y"), y, 0);
  CHECK_REL(V("(if x <= y then 1 else 2) + (if x == y then 4 else 8)"), 9, 0);
  CHECK_REL(V("min(x, y, .5) + max(x, y)"), .5 + y, 1e-15);
  CHECK_REL(V("exp(x) + log(y) + log10(y) + log1p(x) + expm1(x) + sqrt(y)"),
            exp(x) + log(y) + log10(y) + log1p(x) + expm1(x) + sqrt(y), 1e-14);
  CHECK_REL(V("abs(-x) + sign(-y) + floor(y)"), x - 1 + 2, 1e-14);
  CHECK_REL(V("sin(x) + cos(x) + tan(x) + asin(x) + acos(x) + atan(y) + atan2(x, y)"),
            sin(x) + cos(x) + tan(x) + asin(x) + acos(x) + atan(y) + atan2(x, y), 1e-14);
  CHECK_REL(V("sinh(x) + cosh(x) + tanh(x) + erf(x) + lgamma(y) + pow(x, y)"),
            sinh(x) + cosh(x) + tanh(x) + erf(x) + lgamma(y) + pow(x, y), 1e-13);
  CHECK_REL(V("logit(x)"), log(x / (1 - x)), 1e-14);
  CHECK_REL(V("invlogit(y)"), 1 / (1 + exp(-y)), 1e-14);
  CHECK_REL(V("invlogit(1000*y)"), 1, 0);
  CHECK_REL(V("log_sum_exp(1000*x, 999.5 + 0*y, -inf)"), log(exp(1000 * x - 1000) + exp(-0.5)) + 1000, 1e-13);
  CHECK_REL(V("log_mix(0.3, x, y)"), log(0.3 * exp(x) + 0.7 * exp(y)), 1e-13);
  CHECK_REL(V("log_mix(invlogit(-900*y), 900*y, 0)"), log(2), 1e-12);
  CHECK_REL(V("log_mix(x/(x + y), 2000 + x, 2000 + y)"), 2000 + log((x * exp(x) + y * exp(y)) / (x + y)),
            1e-13);
  CHECK_REL(V("Phi(x)"), 0.5 * erfc(-x / sqrt(2)), 1e-13);
  CHECK_REL(V("pi + x"), 3.14159265358979323846 + x, 1e-15);
  CHECK_REL(V("if x < inf then 1.5 else 0"), 1.5, 0);
  CHECK_REL(V("sum(i in 2..5: i*x) + prod(i in 1..4: i + y)"), 14 * x + (1 + y) * (2 + y) * (3 + y) * (4 + y),
            1e-14);
  CHECK_REL(V("sum(i in 1..3, j in 1..2: i*j*x)"), 18 * x, 1e-14);
  CHECK_REL(V("sum(i in 1..3: sum(j in 1..i: j*x))"), 10 * x, 1e-14);
#undef V
}

static void arrays_functions_and_labels(void) {
  const double p[3] = {0.731, 2.385, 1.62};
#define HEAD "index place = north, south, west\nparam b[place] in (0, 4)\n"
  CHECK_REL(derived_at(HEAD "derived d = b[north] + 10*b[south] + 100*b[west]\n", p), 0.731 + 23.85 + 162,
            1e-14);
  CHECK_REL(derived_at(HEAD "let s[i in place] = if i > north then b[i] - b[i-1] else b[i]\n"
                            "derived d = s[south]*s[west]\n",
                       p),
            (2.385 - 0.731) * (1.62 - 2.385), 1e-14);
  CHECK_REL(derived_at(HEAD "let cum[i in place] = b[i] + (if i == north then 0 else cum[i-1])\n"
                            "derived d = cum[west]\n",
                       p),
            0.731 + 2.385 + 1.62, 1e-14);
  CHECK_REL(derived_at(HEAD "function f(X, i, s) = s*X[i] + sum(X)\nderived d = f(b, south, 2)\n", p),
            2 * 2.385 + 0.731 + 2.385 + 1.62, 1e-14);
  CHECK_REL(
      derived_at(HEAD "function inner(Y) = prod(Y)\nfunction outer(X) = inner(X)\nderived d = outer(b)\n", p),
      0.731 * 2.385 * 1.62, 1e-14);
  CHECK_REL(derived_at(HEAD "const n = 3\nconst f[i in 1..n] = [2, 4, 6]/n\nconst g[i in 1..n] = 1/f + i\n"
                            "derived d = b[1]*g[2]\n",
                       p),
            0.731 * (0.75 + 2), 1e-14);
  CHECK_REL(derived_at(HEAD
                       "const C[place, i in 2..3] = [[1, 2], [3, 4], [5, 6]]\nderived d = b[1]*C[west, 2]\n",
                       p),
            0.731 * 5, 1e-14);
#undef HEAD
  atvi_ctx *ctx = test_ctx();
  atvi_lang *lang =
      model(ctx, "index p = north, south\nparam b[p] in (0, 1)\nlet C[i in p, j in 4..5] = b[i]*j\n"
                 "derived D[i in p, j in 4..5] = C[i, j]\n");
  CHECK_STR(lang->param[1].name, "b.south");
  CHECK_INT(lang->outputs.n_derived, 4);
  CHECK_STR(lang->outputs.derived[1].name, "D.north.5");
  CHECK_STR(lang->outputs.derived[2].name, "D.south.4");
  atvi_lang_free(lang);
  atvi_ctx_free(ctx);
}

static void lines_go_on_where_they_must(void) {
  const double p[1] = {0.731};
  CHECK_REL(derived_at("\xEF\xBB\xBFparam x in (0, 1) # a comment\r\n\n  # another\nderived d = x +\n  "
                       "2*(x\n + 1) -\n\n 3",
                       p),
            3 * 0.731 - 1, 1e-14);
  CHECK_REL(derived_at("param x in (0, 1)\nderived d = if x > 0 and\n x < 1 then\n x else\n 2", p), 0.731, 0);
  CHECK_REL(
      derived_at("param x in (0, 1)\nderived d = if x > 0\n  and x < 1 # yes\n\n  then x\n  # no\n  else 2\n",
                 p),
      0.731, 0);
  CHECK_REL(
      derived_at("param x in (0, 1)\nlet a = if x > 1 or x < 0\n then 1\n else if x < 0.5\n then 2\n else 3\n"
                 "derived d = a\n",
                 p),
      3, 0);
}

static void cold_has_the_right_equations(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_lang *lang;
  CHECK_OK(atvi_lang_load(ctx, TEST_SOURCE_DIR "/examples/cold/cold.atvi", NULL, &lang));
  CHECK_INT(lang->n_param, 3);
  CHECK_STR(lang->param[2].name, "S0");
  CHECK_REL(lang->param[2].lower, 37, 0);
  CHECK_REL(lang->param[2].upper, 100, 0);
  CHECK_STR(lang->param[2].map, "auto");
  CHECK(lang->kind == ATVI_MODEL_ODE && lang->time.start == 0 && lang->dynamics.n_state == 3);
  const double p[3] = {0.8871, 0.2902, 39.775}, y[3] = {21.3, 14.6, 4.9};
  double flow = p[0] * y[0] * y[1] / (p[2] + 1);
  CHECK_REL(value_at(ctx, lang, lang->dynamics.state[0].rhs, p, 0, y, NULL), -flow, 1e-14);
  CHECK_REL(value_at(ctx, lang, lang->dynamics.state[1].rhs, p, 0, y, NULL), flow - p[1] * y[1], 1e-14);
  CHECK_REL(value_at(ctx, lang, lang->dynamics.state[2].rhs, p, 0, y, NULL), p[1] * y[1], 1e-14);
  CHECK_REL(value_at(ctx, lang, lang->dynamics.state[0].init, p, 0, NULL, NULL), p[2], 0);
  CHECK_REL(value_at(ctx, lang, lang->log.prior, p, 0, NULL, NULL), -log(3.0 * 3 * 63), 1e-14);
  CHECK_REL(value_at(ctx, lang, lang->outputs.derived[0].node, p, 0, NULL, NULL), p[0] / p[1], 1e-15);
  CHECK_INT(lang->n_observe, 2);
  CHECK_INT(lang->data[0].n_row, 21);
  CHECK_INT(lang->observe[1].column, 2);
  CHECK_REL(lang->data[0].value[20 * 3 + 2], 37, 0);
  CHECK_REL(value_at(ctx, lang, lang->observe[0].arg[0], p, 0, y, NULL), 14.601, 1e-15);
  atvi_lang_free(lang);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* The equations of the paper, written down a second time. */
static void rotavirus_rates(const double *p, double t, double amplitude, double y[5][6], double d[5][6],
                            double eta[6]) {
  const double f[6] = {2. / 60, 2. / 60, 2. / 60, 6. / 60, 12. / 60, 36. / 60}, N = 324935;
  const double a[6] = {1. / 8, 1. / 8, 1. / 8, 1. / 24, 1. / 48, 1. / 144};
  double sum = 0;
  for (int k = 0; k < 5; k++)
    for (int i = 0; i < 6; i++)
      if (k < 4 || i < 5) sum += y[k][i];
  for (int i = 0; i < 6; i++) {
    double lambda = 0, age[5];
    for (int j = 0; j < 6; j++) lambda += (j < i ? f[i] / f[j] : 1) * (y[2][j] + 0.5 * y[3][j]) / (N * f[j]);
    lambda *= p[4 + i] * (1 + p[0] * cos((2 * 3.14159265358979323846 * t - 52 * p[1]) / 52));
    for (int k = 0; k < 5; k++) age[k] = (i > 0 ? a[i - 1] * y[k][i - 1] : 0) - a[i] * y[k][i];
    double immune = i < 5 ? y[4][i] : N - sum;
    d[0][i] = -y[0][i] / 13;
    d[1][i] = age[1] + y[0][i] / 13 - lambda * y[1][i] + immune / 52;
    d[2][i] = age[2] + 0.24 * lambda * y[1][i] - y[2][i];
    d[3][i] = age[3] + 0.76 * lambda * y[1][i] - 2 * y[3][i];
    d[4][i] = age[4] + y[2][i] + 2 * y[3][i] - y[4][i] / 52;
    eta[i] = 0.24 * p[2] * lambda * y[1][i];
  }
  d[0][0] += N * (1 + amplitude) / 260 - y[0][0] / 8;
  d[0][1] += y[0][0] / 8 - y[0][1] / 8;
  d[1][2] += y[0][1] / 8;
}

static void rotavirus_has_the_right_equations(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_lang *lang;
  atvi_lang_opts opts = {.data_optional = true};
  CHECK_OK(atvi_lang_load(ctx, TEST_SOURCE_DIR "/examples/rotavirus/rotavirus.atvi", &opts, &lang));
  static const char *const NAMES[10] = {"w",      "phi",    "rho",    "nu",     "beta.1",
                                        "beta.2", "beta.3", "beta.4", "beta.5", "beta.6"};
  CHECK_INT(lang->n_param, 10);
  for (int i = 0; i < 10; i++) CHECK_STR(lang->param[i].name, NAMES[i]);
  CHECK_INT(lang->dynamics.n_state, 29);
  CHECK_INT(lang->n_observe, 6);
  CHECK_STR(lang->observe[5].name, "cases.6");
  CHECK(lang->time.start == 0 && lang->time.calendar.unit == 7);
  const double p[10] = {.43,        7.35,       .027,       .9,         1.30537122,
                        3.11852393, 0.03206678, 3.24118948, 0.31400672, 0.09410381};
  double y[5][6], flat[29], d[5][6], eta[6], burden = 0, table[2] = {0.25, 0};
  for (int k = 0; k < 5; k++)
    for (int i = 0; i < 6; i++) {
      y[k][i] = 1000 + 5000 * sin(3.1 * k + 1.7 * i) * sin(3.1 * k + 1.7 * i);
      if (k < 4 || i < 5) flat[6 * k + i] = y[k][i];
    }
  double t = 17.3;
  rotavirus_rates(p, t, 0.25, y, d, eta);
  for (int k = 0; k < 29; k++)
    CHECK_REL(value_at(ctx, lang, lang->dynamics.state[k].rhs, p, t, flat, table), d[k / 6][k % 6], 1e-12);
  for (int i = 0; i < 6; i++) {
    CHECK_REL(value_at(ctx, lang, lang->observe[i].arg[0], p, t, flat, table), eta[i], 1e-13);
    CHECK_REL(value_at(ctx, lang, lang->observe[i].arg[1], p, t, flat, table), .9, 0);
    burden += eta[i];
  }
  CHECK_STR(lang->outputs.track[0].name, "burden");
  CHECK_REL(value_at(ctx, lang, lang->outputs.track[0].node, p, t, flat, table), burden, 1e-13);
  CHECK_REL(value_at(ctx, lang, lang->log.prior, p, 0, NULL, NULL), -log(6.28 * 0.5) - 6 * log(4.0), 1e-13);
  double total = 0;
  for (int k = 0; k < 29; k++) total += value_at(ctx, lang, lang->dynamics.state[k].init, p, 0, NULL, NULL);
  CHECK_REL(total, 324935 * (1. / 20 + 19. / 20 * 23 / 30), 1e-13);
  atvi_lang_free(lang);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static double step_at(const atvi_lang *lang, int k, double t, double *next) {
  double a, b;
  atvi_lang_table_at(lang, &lang->table[k], t, &a, &b, next);
  return a + b * t;
}

static void tables_follow_time(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_lang *lang = model(ctx, "calendar 2009-12-19 week\n"
                               "table m monthly = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]\n"
                               "table k step = [2: 1, 10: 0.4, 2010-03-06: 0.8]\n"
                               "table l linear = [0: 12, 31: 15.5, 40: 11]\n"
                               "state S = 1\ndS/dt = m + k + l\n");
  double next;
  CHECK_REL(step_at(lang, 0, 0, &next), 12, 0);
  CHECK_REL(next, 13. / 7, 1e-15);            /* 1 January 2010 */
  for (int month = 0; month < 500; month++) { /* landing on each jump shows the new month */
    double t = next;
    CHECK_REL(step_at(lang, 0, t, &next), month % 12 + 1, 0);
    CHECK(next - t > 27.9 / 7 && next - t < 31.1 / 7);
    double after;
    CHECK_REL(step_at(lang, 0, t - 1e-3, &after), (month + 11) % 12 + 1, 0);
    CHECK_ABS(after, t, 1e-12 * fabs(t));
  }
  CHECK_REL(step_at(lang, 0, -51.9, &next), 12, 0); /* a year earlier, 20 December 2008 */
  step_at(lang, 0, 1e300, &next);
  CHECK(isinf(next));
  CHECK(!atvi_lang_has_month(lang, 1e300) && !atvi_lang_has_month(lang, -1e300) &&
        !atvi_lang_has_month(lang, NAN));
  step_at(lang, 0, -1e300, &next); /* nothing until there are months */
  int jumps = 0;
  for (double t = -1e300; next < INFINITY; jumps++) {
    CHECK(next > t);
    t = next;
    step_at(lang, 0, t, &next);
    CHECK(jumps == 0 || atvi_lang_has_month(lang, t) || isinf(next));
  }
  CHECK(jumps > 190000 && jumps < 200000); /* 12 a year for 16060 years */
  CHECK_REL(step_at(lang, 1, -5, &next), 1, 0);
  CHECK_REL(next, 2, 0);
  CHECK_REL(step_at(lang, 1, 9.99, &next), 1, 0);
  CHECK_REL(step_at(lang, 1, 10, &next), 0.4, 0);
  CHECK_REL(next, 11, 0); /* 6 March 2010 is 77 days on */
  CHECK_REL(step_at(lang, 1, 400, &next), 0.8, 0);
  CHECK(isinf(next));
  CHECK_REL(step_at(lang, 2, -3, &next), 12, 0);
  CHECK_REL(next, 0, 0);
  CHECK_REL(step_at(lang, 2, 7.5, &next), 12 + 3.5 * 7.5 / 31, 1e-14);
  CHECK_REL(step_at(lang, 2, 31, &next), 15.5, 1e-14);
  CHECK_REL(next, 40, 0);
  CHECK_REL(step_at(lang, 2, 41, &next), 11, 0);
  const double table[6] = {3, 9, 0.4, 9, 2, 0.25}, state[1] = {1};
  CHECK_REL(value_at(ctx, lang, lang->dynamics.state[0].rhs, NULL, 8, state, table), 3 + 0.4 + 2 + 0.25 * 8,
            1e-15);
  atvi_lang_free(lang);
  atvi_ctx_free(ctx);
}

static void densities_as_functions(void) {
  const double p[1] = {0.731};
#define VALUE(expr) derived_at("param a ~ flat\nderived y = " expr "\n", p)
  CHECK_REL(VALUE("normal_lpdf(a, 0.2, 1.6)"),
            -0.5 * pow((p[0] - 0.2) / 1.6, 2) - log(1.6 * sqrt(2 * 3.14159265358979323846)), 1e-14);
  CHECK_REL(VALUE("bernoulli_logit_lpmf(1, a)"), -log1p(exp(-p[0])), 1e-14);
  CHECK_REL(VALUE("poisson_log_lpmf(2, a)"), 2 * p[0] - exp(p[0]) - log(2), 1e-14);
  CHECK_REL(VALUE("weibull_lccdf(2, 3, a)"), -pow(2 / p[0], 3), 1e-13);
  CHECK_REL(VALUE("chi_square_lpdf(3, a)"),
            (p[0] / 2 - 1) * log(3) - 1.5 - p[0] / 2 * log(2) - lgamma(p[0] / 2), 1e-13);
  CHECK_REL(VALUE("lbeta(a, 2)"), lgamma(p[0]) + lgamma(2) - lgamma(p[0] + 2), 1e-13);
  CHECK_REL(VALUE("log(inv_cloglog(a - 800))"), p[0] - 800, 1e-14);
  CHECK_REL(VALUE("log(inv_cloglog(a - 3))"), log(-expm1(-exp(p[0] - 3))), 1e-14);
  CHECK_REL(VALUE("log(1 - exp(-2*exp(a)))"), log(-expm1(-2 * exp(p[0]))), 1e-14);
  CHECK_REL(VALUE("log(1 - exp(-2*exp(a - 800)))"), p[0] - 800 + log(2), 1e-14);
  CHECK_REL(VALUE("log_diff_exp(a, -1)"), log(exp(p[0]) - exp(-1)), 1e-14);
#undef VALUE
}

static void pulses_steps_and_settings(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_lang *lang = model(
      ctx, "model \"x\"\nparam q in (0, 1)\nindex a = 1..3\nstate X[a] = 1\nnext X[i in a] = q*X[i] + t\n"
           "step 0.5\nstart 2\npulse X[i in 2..3] -= q*i at [2.5, 4]\npulse X[1] += X[2] at 3\n");
  const double p[1] = {0.731}, y[3] = {1.5, 2.5, 3.5};
  CHECK(lang->kind == ATVI_MODEL_MAP && lang->time.step == 0.5 && lang->time.start == 2);
  CHECK_STR(lang->title, "x");
  CHECK_INT(lang->dynamics.n_pulse, 2);
  CHECK_INT(lang->dynamics.pulse[0].n_time, 2);
  CHECK_REL(lang->dynamics.pulse[0].time[1], 4, 0);
  CHECK_INT(lang->dynamics.pulse[0].n, 2);
  CHECK_INT(lang->dynamics.pulse[0].state[1], 2);
  CHECK_REL(value_at(ctx, lang, lang->dynamics.pulse[0].amount[1], p, 0, y, NULL), -3 * 0.731, 1e-15);
  CHECK_REL(value_at(ctx, lang, lang->dynamics.pulse[1].amount[0], p, 0, y, NULL), 2.5, 0);
  CHECK_REL(value_at(ctx, lang, lang->dynamics.state[2].rhs, p, 7, y, NULL), 0.731 * 3.5 + 7, 1e-15);
  atvi_lang_free(lang);
  lang = model(ctx, "state S = 1\ndS/dt = 1\npulse S = 2 at every 0.1 from 0 to 0.3\npulse S *= 3 at 1\n");
  CHECK(lang->dynamics.pulse[0].how == ATVI_PULSE_SET && lang->dynamics.pulse[1].how == ATVI_PULSE_SCALE);
  CHECK_INT(lang->dynamics.pulse[0].n_time, 4);
  CHECK_REL(lang->dynamics.pulse[0].time[3], 0.3, 1e-15);
  atvi_lang_free(lang);
  lang = model(
      ctx, "param T in (0, 1)\nparam u ~ normal(0, 1)\nstart 0\nstate S[1..2] = 1\ndS[i in 1..2]/dt = 1\n"
           "pulse S[i in 1..2] = 2 at [T + i, 7, exp(u)]\npulse S[1] += 1 when S[1] < 3 and not S[2] < T\n");
  CHECK_INT(lang->dynamics.n_pulse, 6);
  CHECK(lang->dynamics.pulse[0].moves && lang->dynamics.pulse[1].moves &&
        lang->dynamics.pulse[0].lag == lang->dynamics.pulse[1].lag);
  CHECK(lang->dynamics.pulse[1].time[0] == 2 && lang->dynamics.pulse[1].n == 1 &&
        lang->dynamics.pulse[1].state[0] == 1);
  CHECK(lang->dynamics.pulse[2].moves && lang->dynamics.pulse[3].moves &&
        lang->dynamics.pulse[2].time[0] == 0);
  CHECK(!lang->dynamics.pulse[4].moves && lang->dynamics.pulse[4].n == 2 &&
        lang->dynamics.pulse[4].time[0] == 7);
  CHECK(lang->dynamics.pulse[5].conditional);
  const double T[2] = {0.3, 0}, two[2] = {1, 2.5};
  CHECK_REL(value_at(ctx, lang, lang->dynamics.pulse[5].when, T, 0, two, NULL), 2, 1e-15);
  CHECK_REL(value_at(ctx, lang, lang->dynamics.pulse[5].holds, T, 0, two, NULL), 1, 0);
  atvi_lang_free(lang);
  lang = model(ctx, "state S = 1\ndS/dt = 1\nsolver rk45 tol 1e-7 atol 1e-9 maxsteps 5000\n");
  CHECK(lang->solver.kind == ATVI_SOLVER_RK45 && lang->solver.tol_rel == 1e-7 &&
        lang->solver.tol_abs == 1e-9 && lang->solver.max_steps == 5000);
  CHECK(isnan(lang->solver.step));
  atvi_lang_free(lang);
  lang = model(ctx, "state S = 1\ndS/dt = 1\nsolver rk4 step 1/8\n");
  CHECK(lang->solver.kind == ATVI_SOLVER_RK4 && lang->solver.step == 0.125 && isnan(lang->solver.tol_rel));
  atvi_lang_free(lang);
  lang = model(ctx, "param x ~ normal(0, 1)\nlogp -0.5*(x/2)^2\nlogp x\n");
  CHECK(lang->kind == ATVI_MODEL_STATIC);
  CHECK_REL(value_at(ctx, lang, lang->log.extra, p, 0, NULL, NULL), -0.5 * 0.731 * 0.731 / 4 + 0.731, 1e-14);
  atvi_lang_free(lang);
  lang = model(ctx, "param a ~ flat\nparam b ~ flat in (0, inf)\nparam c ~ flat in (-inf, 3)\n"
                    "param d ~ flat() in (0, 4)\nlogp a\n");
  const double at[4] = {0.731, 2.4, -1.6, 0.5};
  CHECK(lang->n_param == 4 && lang->blocks.param[0].flat && lang->param[1].lower == 0 &&
        lang->param[2].upper == 3);
  double proper = value_at(ctx, lang, lang->log.prior, at, 0, NULL, NULL);
  CHECK(isfinite(proper) && proper < 0);
  CHECK_REL(value_at(ctx, lang, lang->log.extra, at, 0, NULL, NULL) + proper, 0.731, 1e-14);
  atvi_lang_free(lang);
  lang = model(ctx, "state S = 1\ndS/dt = 1\nsolver stiff tol 0.09 atol 0 maxsteps 1\n");
  CHECK(lang->solver.kind == ATVI_SOLVER_STIFF && lang->solver.tol_rel == 0.09 && lang->solver.tol_abs == 0 &&
        lang->solver.max_steps == 1);
  atvi_lang_free(lang);
  lang = model(ctx, "model \"nothing\"\nindex unused = 1..3\n");
  CHECK(lang->n_param == 0 && lang->kind == ATVI_MODEL_STATIC);
  CHECK_REL(value_at(ctx, lang, lang->log.prior, p, 0, NULL, NULL), 0, 0);
  atvi_lang_free(lang);
  atvi_ctx_free(ctx);
}

static void priors_know_their_bounds(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_lang *lang =
      model(ctx, "param a ~ normal(1, 2) in (0, inf)\nparam b ~ uniform(0, a)\n"
                 "param c ~ uniform(0, 10) in (2, 5) map logit\nparam d[i in 1..2] ~ normal(a, i)\n"
                 "param e ~ half_normal(2)\nparam f ~ uniform(-1, 3) in (-inf, inf)\n");
  const double p[7] = {0.9, 0.4, 3, -0.7, 0.3, 1.1, 0}, log2pi = log(2 * 3.14159265358979323846);
  CHECK(lang->param[0].truncated && lang->param[0].lower == 0 && isinf(lang->param[0].upper));
  CHECK(!lang->param[1].truncated && lang->param[1].lower == 0 && isinf(lang->param[1].upper));
  CHECK(lang->param[2].truncated && lang->param[2].lower == 2 && lang->param[2].upper == 5);
  CHECK_STR(lang->param[2].map, "logit");
  CHECK(!lang->param[6].truncated && lang->param[6].lower == -1 && lang->param[6].upper == 3);
  double want = -0.5 * 0.05 * 0.05 - log(2) - 0.5 * log2pi - log(0.5 * erfc(-0.5 / sqrt(2)));
  want += -log(0.9) - log(3);
  want += -0.5 * 1.6 * 1.6 - 0.5 * log2pi - 0.5 * 0.3 * 0.3 - log(2) - 0.5 * log2pi;
  want += log(2) - log(2) - 0.5 * log2pi - 0.5 * 0.55 * 0.55 - log(4);
  CHECK_REL(value_at(ctx, lang, lang->log.prior, p, 0, NULL, NULL), want, 1e-13);
  const double outside[7] = {0.9, 0.95, 3, -0.7, 0.3, 1.1, 0};
  CHECK(value_at(ctx, lang, lang->log.prior, outside, 0, NULL, NULL) == -HUGE_VAL);
  atvi_lang_free(lang);
  atvi_ctx_free(ctx);
}

static void uniform_between_parameters_can_be_cut(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_lang *lang = model(ctx, "param a in (1, 2)\nparam b ~ uniform(0, a) in (0.1, 1.5)\n");
  const double wide[2] = {1.8, 0.4}, narrow[2] = {1.2, 0.4};
  CHECK(lang->param[1].truncated && lang->param[1].lower == 0.1 && lang->param[1].upper == 1.5);
  CHECK_REL(value_at(ctx, lang, lang->log.prior, wide, 0, NULL, NULL), -log(1.4), 1e-13);
  CHECK_REL(value_at(ctx, lang, lang->log.prior, narrow, 0, NULL, NULL), -log(1.1), 1e-13);
  atvi_lang_free(lang);
  atvi_ctx_free(ctx);
}

/* The first code block of the reference is a model. */
static void the_reference_shows_a_model(void) {
  static char text[100000];
  FILE *f = fopen(TEST_SOURCE_DIR "/docs/language.md", "rb");
  CHECK(f != NULL);
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  fclose(f);
  char *start = strstr(text, "```\n") + 4;
  *strstr(start, "```") = 0;
  atvi_ctx *ctx = test_ctx();
  atvi_lang *lang = model(ctx, start);
  CHECK(lang->n_param == 3 && lang->dynamics.n_state == 3 && lang->n_observe == 2);
  atvi_lang_free(lang);
  atvi_ctx_free(ctx);
}

/* Every allocation may fail: always ENOMEM, nothing kept. */
static void memory_may_run_out(void) {
  const char *text =
      "index a = x, y\nparam b[i in a] ~ normal(0, i) in (-3, 3)\nconst f[a] = [1, 2]\nfunction g(u) = 2*u\n"
      "calendar 2009-12-19 week\ntable m monthly = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]\n"
      "state S[i in a] = g(b[i])\ndS[i in a]/dt = m*f[i]*sum(S)\npulse S[x] += 1 at [1, 2]\nstart 0\n"
      "param T in (0, 1)\npulse S[i in a] = 1 at [2*T, T + i, 7]\npulse S[i in a] *= 1 when S[i] < 3\n"
      "data \"none.csv\" time day\nobserve y[i in a] ~ poisson(S[i])\nderived d = b[x]\ntrack e = S[y]\n";
  for (long k = 1;; k++) {
    test_fail_at = 0;
    atvi_ctx *ctx = test_ctx();
    atvi_lang *lang;
    atvi_lang_opts opts = {.data_optional = true};
    test_fail_at = test_allocs + k;
    atvi_status status = atvi_lang_parse(ctx, "m", text, strlen(text), &opts, &lang);
    if (status == ATVI_OK) {
      CHECK(k > 3);
      atvi_lang_free(lang);
      atvi_ctx_free(ctx);
      break;
    }
    CHECK_INT(status, ATVI_ENOMEM);
    CHECK(lang == NULL);
    atvi_ctx_free(ctx);
    CHECK_INT(test_live, 0);
  }
}

static void a_missing_model_file_is_an_io_error(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_lang *lang;
  CHECK_STATUS(atvi_lang_load(ctx, "/nonexistent/m.atvi", NULL, &lang), ATVI_EIO);
  CHECK(lang == NULL && strstr(atvi_errmsg(ctx), "/nonexistent/m.atvi") != NULL);
  atvi_lang_free(NULL);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

TESTS({"expressions", expressions_mean_what_they_say}, {"arrays", arrays_functions_and_labels},
      {"lines", lines_go_on_where_they_must}, {"cold", cold_has_the_right_equations},
      {"rotavirus", rotavirus_has_the_right_equations}, {"tables", tables_follow_time},
      {"pulses", pulses_steps_and_settings}, {"densities", densities_as_functions},
      {"priors", priors_know_their_bounds}, {"cut", uniform_between_parameters_can_be_cut},
      {"reference", the_reference_shows_a_model}, {"memory", memory_may_run_out},
      {"missing", a_missing_model_file_is_an_io_error})
