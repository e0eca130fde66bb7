/* SPDX-License-Identifier: MIT */
/* Unconstrained coordinates: which map a parameter gets, that pi has the target's integral and gradient, what
 * failed points give. */
#include "infer/space.h"
#include "toys.h"

#define INF HUGE_VAL

typedef struct {
  atvi_ctx *ctx;
  atvi_evaluator *ev;
  atvi_space *s;
} world;

static world open_space(const toy *t, const char *kind, int threads) {
  world w = {.ctx = test_ctx()};
  atvi_ctx_set_threads(w.ctx, threads);
  CHECK_OK(atvi_model_evaluator_new(w.ctx, &t->target, &w.ev));
  CHECK_OK(atvi_infer_space_new(w.ctx, w.ev, kind, 7, &w.s));
  return w;
}

static void shut(world w) {
  atvi_infer_space_free(w.s);
  atvi_model_evaluator_free(w.ev);
  atvi_ctx_free(w.ctx);
  CHECK_INT(test_live, 0);
}

static double nothing(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)t, (void)x, (void)g, (void)o;
  return 0;
}

/* ---- which map ---- */

static void maps_follow_bounds_and_wishes(void) {
  static const struct {
    double lower, upper;
    const char *own, *kind;
    atvi_map_kind want;
  } row[] = {
      {-INF, INF, NULL, NULL, ATVI_MAP_NONE},
      {-INF, INF, "auto", "surjection", ATVI_MAP_NONE},
      {-INF, INF, "none", "probit", ATVI_MAP_NONE},
      {-INF, INF, NULL, "log", ATVI_MAP_NONE},
      {0.7, INF, NULL, "auto", ATVI_MAP_LOG},
      {0.7, INF, NULL, "probit", ATVI_MAP_LOG},
      {0.7, INF, NULL, "surjection", ATVI_MAP_SURJECTION},
      {-INF, 1.9, "auto", NULL, ATVI_MAP_LOG},
      {-INF, 1.9, "surjection", "log", ATVI_MAP_SURJECTION},
      {-INF, 1.9, "log", "surjection", ATVI_MAP_LOG},
      {-1.3, 2.2, NULL, NULL, ATVI_MAP_PROBIT},
      {-1.3, 2.2, NULL, "logit", ATVI_MAP_LOGIT},
      {-1.3, 2.2, NULL, "surjection", ATVI_MAP_SURJECTION},
      {-1.3, 2.2, NULL, "log", ATVI_MAP_PROBIT},
      {-1.3, 2.2, NULL, "none", ATVI_MAP_PROBIT},
      {-1.3, 2.2, "logit", "probit", ATVI_MAP_LOGIT},
      {-1.3, 2.2, "surjection", "auto", ATVI_MAP_SURJECTION},
  };
  for (size_t k = 0; k < sizeof row / sizeof *row; k++)
    for (int curved = 0; curved < 2; curved++) {
      toy t = {.lik = nothing};
      if (curved) t.prior = toy_curved, t.draw = toy_curved_draw;
      toy_set(&t, 1, row[k].lower, row[k].upper);
      t.param[0].map = row[k].own;
      world w = open_space(&t, row[k].kind, 1);
      CHECK_MSG(w.s->map[0].kind == row[k].want, "row %zu: %s", k, atvi_transform_map_name(w.s->map[0].kind));
      CHECK_OK(atvi_transform_map_check(w.ctx, &w.s->map[0]));
      CHECK(w.s->from_prior);
      shut(w);
    }
}

static void wrong_maps_are_refused_by_name(void) {
  static const struct {
    double lower, upper;
    const char *own, *kind, *says[2];
  } row[] = {
      {-1.3, 2.2, "log", NULL, {"log", "a"}},
      {-1.3, 2.2, "none", NULL, {"none", "two bounds"}},
      {0.7, INF, "probit", NULL, {"probit", "one"}},
      {0.7, INF, "logit", "auto", {"logit", "one bound"}},
      {-INF, INF, "surjection", NULL, {"surj", "no"}},
      {-INF, INF, "log", NULL, {"log", "no bound"}},
      {-1.3, 2.2, "sorjection", NULL, {"sorjection", "of a"}},
      {-1.3, 2.2, NULL, "prabit", {"prabit", "probit"}},
      {-1.3, 2.2, "", NULL, {"surjection", "of a"}},
  };
  for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
    toy t = {.lik = nothing};
    atvi_ctx *ctx = test_ctx();
    atvi_evaluator *ev;
    atvi_space *s = (atvi_space *)&t;
    toy_set(&t, 1, row[k].lower, row[k].upper);
    t.param[0].map = row[k].own;
    CHECK_OK(atvi_model_evaluator_new(ctx, &t.target, &ev));
    CHECK_STATUS(atvi_infer_space_new(ctx, ev, row[k].kind, 7, &s), ATVI_EINVAL);
    CHECK(s == NULL);
    for (int j = 0; j < 2; j++) CHECK_MSG(strstr(atvi_errmsg(ctx), row[k].says[j]), "%s", atvi_errmsg(ctx));
    atvi_model_evaluator_free(ev);
    atvi_ctx_free(ctx);
    CHECK_INT(test_live, 0);
  }
}

/* The prior is about standard normal in xi: its median is 0 and the middle 68 % are in [-1, 1], as far as
 * 1024 draws tell (standard error 0.016 each) and the map leaves it skewed (exponential under log: 0.70). */
static void prior_is_about_standard_normal(void) {
  static const double bound[4][2] = {{-INF, INF}, {0.7, INF}, {-INF, 1.9}, {-1.3, 2.2}};
  for (int k = 0; k < 4; k++) {
    toy t = {.lik = nothing, .prior = toy_curved, .draw = toy_curved_draw};
    double theta[4096], below[3] = {0};
    toy_set(&t, 1, bound[k][0], bound[k][1]);
    world w = open_space(&t, NULL, 1);
    toy_draw(&t, NULL, 91, 0, 4096, theta);
    atvi_transform_map_inv(&w.s->map[0], 4096, theta, theta);
    for (int j = 0; j < 4096; j++)
      for (int q = 0; q < 3; q++) below[q] += theta[j] < q - 1 ? 1 / 4096.0 : 0;
    CHECK_ABS(below[1], 0.5, 0.06);
    CHECK_ABS(below[2] - below[0], 0.6827, 0.08);
    shut(w);
  }
}

static void uniform_prior_under_probit_is_exactly_normal(void) {
  toy t = {.lik = toy_unit};
  double x[3 * 41], theta[3 * 41], pi[41], dx[3 * 41];
  toy_set(&t, 3, -1.3, 2.2);
  world w = open_space(&t, "auto", 1);
  for (int j = 0; j < 41; j++)
    for (int i = 0; i < 3; i++) x[i * 41 + j] = -5 + 0.25 * j + 0.013 * i;
  atvi_infer_space_eval(w.s, &(atvi_space_batch){.B = 41, .x = x, .theta = theta, .log_pi = pi, .dx = dx});
  for (int j = 0; j < 41; j++) {
    double want = -1.5 * log(2 * acos(-1.0));
    for (int i = 0; i < 3; i++) {
      want -= 0.5 * x[i * 41 + j] * x[i * 41 + j];
      CHECK_ABS(dx[i * 41 + j], -x[i * 41 + j], 1e-12);
    }
    CHECK_ABS(pi[j], want, 1e-12);
  }
  shut(w);
}

/* ---- the integral ---- */

static const double NODE[5] = {0.14887433898163122, 0.43339539412924719, 0.67940956829902441,
                               0.86506336668898451, 0.97390652851717172};
static const double MASS[5] = {0.29552422471475287, 0.26926671930999635, 0.21908636251598204,
                               0.14945134915058059, 0.06667134430868814};

/* Composite ten-point rule: panels of h around a fold, which is one of the edges. The shares have poles pi /
 * B off the line, two half panels away or more, and an error of 4^-20 per panel. */
static double integral(const atvi_space *s, double beta, double fold, double reach, double h) {
  double sum = 0;
  int panels = (int)(reach / h);
  for (int k = -panels; k < panels; k++) {
    double x[10], theta[10], pi[10], mid = fold + (k + 0.5) * h;
    for (int q = 0; q < 5; q++) x[q] = mid - 0.5 * h * NODE[q], x[5 + q] = mid + 0.5 * h * NODE[q];
    atvi_infer_space_eval_on(
        s, 0, &(atvi_space_batch){.B = 10, .x = x, .beta = beta, .theta = theta, .log_pi = pi});
    for (int q = 0; q < 10; q++) sum += 0.5 * h * MASS[q % 5] * exp(pi[q]);
  }
  return sum;
}

/* The same over theta in [a, b], for the prior alone or with the likelihood. */
static double direct(const toy *t, double a, double b, double power) {
  double sum = 0, h = (b - a) / 4000;
  for (int k = 0; k < 4000; k++)
    for (int q = 0; q < 10; q++) {
      double x = a + (k + 0.5 + (q < 5 ? -0.5 : 0.5) * NODE[q % 5]) * h, g[1] = {0}, gp;
      atvi_outcome o = ATVI_RUN_OK;
      sum += 0.5 * h * MASS[q % 5] * exp(toy_prior(t, 0, x, &gp) + power * t->lik(t, &x, g, &o));
    }
  return sum;
}

/* beta = 0, a half and 1. Below, the far end of a half line stands for infinity: e^-1.3*30 is 1e-17. */
static void integrals_agree(void) {
  static const struct {
    double lower, upper, from, to;
    const char *map;
    bool curved;
  } row[] = {
      {-INF, INF, -9, 9, "none", false},      {0.2, INF, 0.2, 8, "log", true},
      {-INF, 0.9, -30, 0.9, "log", true},     {-0.3, 1.2, -0.3, 1.2, "logit", false},
      {-0.3, 1.2, -0.3, 1.2, "logit", true},  {-0.3, 1.2, -0.3, 1.2, "probit", false},
      {-0.3, 1.2, -0.3, 1.2, "probit", true},
  };
  for (size_t k = 0; k < sizeof row / sizeof *row; k++)
    for (double beta = 0; beta <= 1; beta += 0.5) {
      toy t = {.lik = toy_slope4, .prior_sd = 0.8};
      if (row[k].curved) t.prior = toy_curved, t.draw = toy_curved_draw;
      toy_set(&t, 1, row[k].lower, row[k].upper);
      t.param[0].map = row[k].map;
      world w = open_space(&t, NULL, 1);
      double from = row[k].from, to = row[k].to;
      if (!isfinite(row[k].lower) && !isfinite(row[k].upper)) from -= 4 * 0.64 * beta, to = from + 18;
      double want = direct(&t, from, to, beta);
      CHECK_REL(integral(w.s, beta, 0, 42, 0.05), want, 1e-8);
      shut(w);
    }
}

static void integrals_agree_under_folds(void) {
  static const double SLOPE[4] = {1, 4, 20, 300};
  static const double bound[4][2] = {{-0.3, 1.2}, {0.2, INF}, {-INF, 0.9}, {-0.3, 1.2}};
  for (int k = 0; k < 4; k++)
    for (int b = 0; b < 4; b++)
      for (double beta = 0; beta <= 1; beta++) {
        toy t = {.lik = toy_slope4, .prior = toy_curved, .draw = toy_curved_draw};
        if (k == 3) t.prior = NULL, t.draw = NULL; /* uniform: mass at both folds */
        toy_set(&t, 1, bound[k][0], bound[k][1]);
        world w = open_space(&t, "surjection", 1);
        atvi_map *m = &w.s->map[0];
        m->slope = SLOPE[b];
        bool lower = isfinite(bound[k][0]), upper = isfinite(bound[k][1]);
        double from = lower ? bound[k][0] : -30, to = upper ? bound[k][1] : 12;
        double fold = lower && upper ? 2 : ((lower ? from : to) - m->loc) / m->scale;
        /* the density falls as e^-B|u| beyond a box, and as the prior on a half line */
        double reach = lower && upper ? (b == 0 ? 48 : 12) : 30 / m->scale;
        double got = integral(w.s, beta, fold, reach, b == 3 ? 0.01 : 0.05);
        CHECK_REL(got, direct(&t, from, to, beta), 1e-8);
        shut(w);
      }
}

/* Without a prior that can be drawn, the path begins at N(0, I) and ends at the posterior. */
static void path_from_normal(void) {
  toy t = {.lik = toy_unit, .no_prior = true};
  toy_set(&t, 1, -INF, INF);
  world w = open_space(&t, NULL, 1);
  CHECK(!w.s->from_prior);
  CHECK_REL(integral(w.s, 0, 0, 40, 0.05), 1, 1e-12);
  CHECK_REL(integral(w.s, 1, 0, 40, 0.05), sqrt(2 * acos(-1.0)), 1e-12);
  shut(w);
}

/* ---- gradient, batches, failures ---- */

enum { D = 7, N = 37 };

/* Every kind at once; the last two are folds with two ends and one. */
static void all_kinds(toy *t) {
  toy_set(t, D, -INF, INF);
  toy_bound(t, 1, 0.3, INF, "log");
  toy_bound(t, 2, -INF, 1.4, "log");
  toy_bound(t, 3, -0.6, 2.3, "probit");
  toy_bound(t, 4, -0.2, 3.9, "logit");
  toy_bound(t, 5, 0.1, 2.8, "surjection");
  toy_bound(t, 6, 1.1, INF, "surjection");
}

static void points(double spread, double *x) {
  atvi_rng r = atvi_math_rng_at(11, ATVI_STREAM_TEST, 0, 0);
  for (int i = 0; i < D * N; i++) x[i] = spread * atvi_math_rng_normal(&r);
}

/* Differences of step h have an error of h^2 B^3 / 30 = 3e-8 at most under the fold, and rounding of 1e-16
 * |log pi| / h. */
static void gradient_is_right(void) {
  const double h = 1e-5, betas[3] = {0, 0.37, 1};
  for (int way = 0; way < 2; way++)
    for (int k = 0; k < 3; k++) {
      toy t = {.lik = toy_chain, .prior = toy_curved, .draw = toy_curved_draw, .prior_sd = 1.7};
      double x[D * N], theta[D * N], pi[N], up[N], down[N], dx[D * N], base[N], ll[N], lp[N], one[N];
      all_kinds(&t);
      if (way) t.target.ops = &toy_ops_undrawable, t.target.n_derived = 0;
      world w = open_space(&t, NULL, 1);
      points(0.9, x);
      atvi_space_batch b = {.B = N, .x = x, .beta = betas[k], .theta = theta, .log_pi = pi, .dx = dx};
      b.log_base = base, b.log_lik = ll, b.log_prior = lp, b.log_pi_one = one;
      atvi_infer_space_eval(w.s, &b);
      for (int j = 0; j < N; j++) {
        CHECK_REL(pi[j], way ? base[j] + betas[k] * (one[j] - base[j]) : base[j] + betas[k] * ll[j], 1e-12);
        CHECK(isfinite(pi[j]) && isfinite(lp[j]));
      }
      for (int i = 0; i < D; i++) {
        for (int j = 0; j < N; j++) x[i * N + j] += h;
        atvi_infer_space_eval(
            w.s, &(atvi_space_batch){.B = N, .x = x, .beta = betas[k], .theta = theta, .log_pi = up});
        for (int j = 0; j < N; j++) x[i * N + j] -= 2 * h;
        atvi_infer_space_eval(
            w.s, &(atvi_space_batch){.B = N, .x = x, .beta = betas[k], .theta = theta, .log_pi = down});
        for (int j = 0; j < N; j++) x[i * N + j] += h;
        for (int j = 0; j < N; j++) {
          double want = (up[j] - down[j]) / (2 * h), got = dx[i * N + j];
          CHECK_MSG(fabs(got - want) < 3e-7 * (1 + fabs(want)),
                    "way %d beta %g coordinate %d: %.10g, want %.10g", way, betas[k], i, got, want);
        }
      }
      shut(w);
    }
}

typedef struct {
  double theta[D * N], lik[N], prior[N], base[N], pi[N], one[N], dx[D * N];
} answer;

static atvi_space_batch into(answer *a, atvi_idx B, const double *x) {
  return (atvi_space_batch){.B = B,
                            .x = x,
                            .beta = 0.37,
                            .theta = a->theta,
                            .log_lik = a->lik,
                            .log_prior = a->prior,
                            .log_base = a->base,
                            .log_pi = a->pi,
                            .log_pi_one = a->one,
                            .dx = a->dx};
}

static void batches_and_threads_do_not_matter(void) {
  toy t = {.lik = toy_chain, .prior = toy_curved, .draw = toy_curved_draw, .prior_sd = 1.7};
  static answer whole[3], single;
  double x[D * N];
  all_kinds(&t);
  for (int threads = 1; threads <= 2; threads++) {
    world w = open_space(&t, NULL, threads);
    points(1.4, x);
    atvi_space_batch b = into(&whole[threads - 1], N, x);
    atvi_infer_space_eval(w.s, &b);
    for (int j = 0; j < N && threads == 1; j++) {
      double one[D];
      for (int i = 0; i < D; i++) one[i] = x[i * N + j];
      b = into(&single, 1, one);
      atvi_infer_space_eval_on(w.s, 0, &b);
      CHECK(single.pi[0] == whole[0].pi[j] && single.one[0] == whole[0].one[j]);
      CHECK(single.base[0] == whole[0].base[j] && single.lik[0] == whole[0].lik[j]);
      CHECK(single.prior[0] == whole[0].prior[j]);
      for (int i = 0; i < D; i++) {
        CHECK(single.theta[i] == whole[0].theta[i * N + j]);
        CHECK(single.dx[i] == whole[0].dx[i * N + j]);
      }
    }
    long before = test_allocs;
    b = into(&whole[2], N, x);
    atvi_infer_space_eval(w.s, &b);
    CHECK_INT(test_allocs, before);
    CHECK(memcmp(&whole[2], &whole[threads - 1], sizeof whole[0]) == 0);
    shut(w);
  }
  CHECK(memcmp(&whole[0], &whole[1], sizeof whole[0]) == 0);
}

/* Four ways to fail, by the first coordinate: an outcome, NaN, -inf, a gradient that is NaN. */
static double failing(const toy *t, const double *x, double *g, atvi_outcome *o) {
  double l = toy_unit(t, x, g, o);
  if (x[0] > 1.2) {
    *o = ATVI_RUN_STEPS;
    g[0] = NAN;
    return -3.7;
  }
  if (x[0] > 0.7) return NAN;
  if (x[0] > 0.2) return -HUGE_VAL;
  if (x[0] > -0.3) g[1] = NAN;
  return l;
}

static void failed_points_are_quiet(void) {
  for (int way = 0; way < 2; way++)
    for (double beta = 0; beta <= 1; beta += 0.5) {
      toy t = {.lik = failing};
      static answer a;
      double x[D * N];
      toy_set(&t, D, -3, 3);
      if (way) t.target.ops = &toy_ops_undrawable, t.target.n_derived = 0;
      world w = open_space(&t, way ? "surjection" : NULL, 2);
      points(0.8, x);
      atvi_space_batch b = into(&a, N, x);
      b.beta = beta;
      atvi_infer_space_eval(w.s, &b);
      int bad = 0;
      for (int j = 0; j < N; j++) {
        double first = a.theta[j];
        /* at N(0, I) the target's gradient is not needed */
        if (first > (way && beta == 0 ? 0.2 : -0.3)) {
          bad++;
          CHECK(a.pi[j] == -HUGE_VAL);
          for (int i = 0; i < D; i++) CHECK(a.dx[i * N + j] == 0);
        } else {
          CHECK(isfinite(a.pi[j]));
          for (int i = 0; i < D; i++) CHECK(isfinite(a.dx[i * N + j]));
        }
        if (first > 0.2) CHECK(a.one[j] == -HUGE_VAL && !(a.lik[j] > -HUGE_VAL));
        CHECK(!isnan(a.one[j]) && !isnan(a.base[j]) && !isnan(a.prior[j]));
        for (int i = 0; i < D; i++) CHECK(isfinite(a.theta[i * N + j]));
      }
      CHECK(bad > N / 5 && bad < N);
      shut(w);
    }
}

/* Points that a wild flow may give: no NaN, and a gradient wherever there is a density. */
static void far_points_are_quiet(void) {
  toy t = {.lik = toy_chain, .prior = toy_curved, .draw = toy_curved_draw, .prior_sd = 1.7};
  static answer a;
  double x[D * N];
  all_kinds(&t);
  world w = open_space(&t, NULL, 1);
  points(1, x);
  for (int i = 0; i < D * N; i++) x[i] *= pow(10, i % 7);
  atvi_space_batch b = into(&a, N, x);
  atvi_infer_space_eval(w.s, &b);
  for (int j = 0; j < N; j++) {
    CHECK(!isnan(a.pi[j]) && !isnan(a.one[j]) && !isnan(a.base[j]));
    for (int i = 0; i < D; i++) CHECK(isfinite(a.dx[i * N + j]));
  }
  shut(w);
}

static void survives_faults(void) {
  toy t = {.lik = toy_unit};
  toy_set(&t, 3, -1, 2);
  atvi_ctx *ctx = test_ctx();
  atvi_evaluator *ev;
  CHECK_OK(atvi_model_evaluator_new(ctx, &t.target, &ev));
  long live = test_live;
  int failed = 0;
  for (;; failed++) {
    atvi_space *s = (atvi_space *)&t;
    test_fail_at = test_allocs + 1 + failed;
    atvi_status status = atvi_infer_space_new(ctx, ev, NULL, 1, &s);
    test_fail_at = 0;
    if (status == ATVI_OK) {
      atvi_infer_space_free(s);
      break;
    }
    CHECK_STATUS(status, ATVI_ENOMEM);
    CHECK(s == NULL);
    CHECK_INT(test_live, live);
  }
  CHECK(failed >= 2);
  atvi_infer_space_free(NULL);
  atvi_model_evaluator_free(ev);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

TESTS({"maps", maps_follow_bounds_and_wishes}, {"wrong", wrong_maps_are_refused_by_name},
      {"prior", prior_is_about_standard_normal}, {"uniform", uniform_prior_under_probit_is_exactly_normal},
      {"integral", integrals_agree}, {"folds", integrals_agree_under_folds}, {"normal", path_from_normal},
      {"gradient", gradient_is_right}, {"batches", batches_and_threads_do_not_matter},
      {"failed", failed_points_are_quiet}, {"far", far_points_are_quiet}, {"faults", survives_faults})
