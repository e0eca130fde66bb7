/* SPDX-License-Identifier: MIT */
/* Updates along lines, and what they are for: the neck of a hierarchical model, which the flow does not
 * reach. */
#include "infer/vi_exact.h"
#include "moments.h"
#include "vi_world.h"

static const double PI = 3.14159265358979323846;
enum { L = ATVI_LANES };

/* ---- the moves alone ---- */

/* x ~ N(0, 1), y ~ N(0, e^x): from 0.02 to 50 wide. */
static double neck(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)t, (void)o;
  double s = x[1] * x[1] * exp(-2 * x[0]);
  g[0] = -x[0] + s - 1;
  g[1] = -x[1] * exp(-2 * x[0]);
  return -0.5 * x[0] * x[0] - 0.5 * s - x[0] - log(2 * PI);
}

typedef struct {
  inside *w;
  void *work;
  double step[2];
  atvi_exact_moves moves;
  atvi_exact_group g;
} stand;

static stand *stand_new(toy *t, stand *s) {
  toy_set(t, 2, -HUGE_VAL, HUGE_VAL);
  atvi_vi_opts o = atvi_infer_vi_defaults();
  *s = (stand){.w = inside_new(t, &o, 1), .step = {0.3, 0.3}};
  atvi_vi *v = &s->w->v;
  v->part[0].share = 1;
  CHECK_OK(v->family.ops->work_new(v->family.self, v->ctx, L, &s->work));
  s->moves =
      (atvi_exact_moves){.v = v, .n_part = 1, .work = &s->work, .step = s->step, .leaps = 2, .lines = 6};
  CHECK(atvi_infer_exact_group_make(v->pool, 2, 1, &s->g));
  double x[6] = {-1.1, 0.2, 0.9, 0.8, -1.9, 0.7};
  CHECK(atvi_infer_exact_spread(v->pool, 2, 3, x, &s->moves));
  return s;
}

static void stand_free(stand *s) {
  s->w->v.family.ops->work_free(s->work);
  inside_free(s->w);
}

/* Exact draws are moved along lines alone, and must have the same law; and they do move, in the neck as well. */
static void lines_leave_the_target_alone(void) {
  enum { GROUPS = 3000, TIMES = 3 };
  toy t = {.lik = neck, .no_prior = true};
  stand s;
  stand_new(&t, &s);
  atvi_rng q = atvi_math_rng_at(17, ATVI_STREAM_TEST, 0, 0), r[L];
  double sum[4] = {0}, sq[4] = {0}, n = GROUPS * L, narrow = 0, still = 0;
  for (int k = 0; k < GROUPS; k++) {
    double x[2 * L];
    for (int i = 0; i < L; i++) {
      x[i] = atvi_math_rng_normal(&q);
      x[L + i] = exp(x[i]) * atvi_math_rng_normal(&q);
      r[i] = atvi_math_rng_at(5, ATVI_STREAM_EXACT, (uint32_t)k, (uint32_t)i);
    }
    atvi_infer_exact_place(&s.moves, &s.g, 0, x);
    for (int m = 0; m < TIMES; m++) {
      atvi_infer_exact_lines(&s.moves, &s.g, 0, r);
      atvi_infer_exact_place(&s.moves, &s.g, 0, s.g.next.x);
    }
    for (int i = 0; i < L; i++) {
      double a = s.g.now.theta[i], b = s.g.now.theta[L + i];
      double f[4] = {a, a * a, a < -1.5, fabs(b) < 0.05};
      for (int j = 0; j < 4; j++) sum[j] += f[j], sq[j] += f[j] * f[j];
      narrow += x[i] < -2;
      still += x[i] < -2 && a == x[i];
    }
  }
  /* P(|y| < c) by the trapezium rule */
  double small = 0;
  for (int i = -800; i <= 800; i++)
    small += 0.01 * exp(-0.5e-4 * i * i) / sqrt(2 * PI) * erf(0.05 * exp(-0.01 * i) / sqrt(2));
  const double want[4] = {0, 1, 0.5 * erfc(1.5 / sqrt(2)), small};
  for (int j = 0; j < 4; j++) {
    double mean = sum[j] / n, se = sqrt((sq[j] / n - mean * mean) / n);
    CHECK_MSG(fabs(mean - want[j]) < 4 * se, "%d: %.5f, want %.5f, se %.5f", j, mean, want[j], se);
  }
  CHECK_MSG(narrow > 300 && still < 0.01 * narrow, "%g of %g did not move", still, narrow);
  stand_free(&s);
}

/* q is the standard normal distribution. Where it has no mass to speak of (log w is 300) chains come back, by
 * heavy-tailed jumps alone: the step allows no local move. */
static double wide_end(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)t, (void)o;
  double r2 = x[0] * x[0] + x[1] * x[1];
  for (int j = 0; j < 2; j++) g[j] = -4 * x[j] / (1 + r2);
  return -2 * log1p(r2) - log(PI);
}

static void heavy_jumps_come_back(void) {
  toy t = {.lik = wide_end, .no_prior = true};
  stand s;
  stand_new(&t, &s);
  s.moves.lines = 0;
  s.step[0] = s.step[1] = 1e-9;
  double x[2 * L];
  for (int i = 0; i < 2 * L; i++) x[i] = 28;
  atvi_infer_exact_place(&s.moves, &s.g, 0, x);
  double w[2] = {s.g.now.log_pi[0] - s.g.now.log_q[0], s.g.now.log_pi[0] - s.g.now.log_jump[0]};
  CHECK_MSG(w[0] > 250 && w[1] < 5, "log w is %.2f and %.2f", w[0], w[1]);
  for (uint32_t k = 1; k <= 400; k++) atvi_infer_exact_step(&s.moves, &s.g, 0, k);
  int back = 0;
  for (int i = 0; i < L; i++) back += fabs(s.g.now.x[i]) < 20;
  CHECK_MSG(back >= L - 1, "%d of %d are back", back, (int)L);
  stand_free(&s);
}

/* Points on a line have no covariance: no correlations then; and points that are one point have lines as
 * well. */
static void spread_of_few_points(void) {
  toy t = {.lik = neck, .no_prior = true};
  stand s;
  stand_new(&t, &s);
  double x[4] = {1.5, 2.5, 3, 5}, same[2] = {0.7, -0.2};
  CHECK(atvi_infer_exact_spread(s.w->v.pool, 2, 2, x, &s.moves));
  CHECK_REL(s.moves.sd[0], 0.5, 1e-12);
  CHECK_REL(s.moves.sd[1], 1, 1e-12);
  CHECK_REL(s.moves.spread.chol[0], 0.5, 1e-12);
  CHECK(s.moves.spread.chol[3] > 0 && isfinite(s.moves.spread.log_det) && isfinite(s.moves.log_heavy));
  CHECK(atvi_infer_exact_spread(s.w->v.pool, 2, 1, same, &s.moves));
  CHECK(s.moves.spread.shift[1] == -0.2 && s.moves.sd[0] > 0 && s.moves.spread.chol[0] == s.moves.sd[0]);
  CHECK(isfinite(s.moves.spread.log_det) && isfinite(s.moves.log_heavy));
  stand_free(&s);
}

/* ---- eight schools, centred ---- */

static const double Y[8] = {28, 8, -3, 7, -1, 1, 18, 12}, S[8] = {15, 10, 16, 11, 9, 11, 10, 18};

/* x: mu, tau, theta. The prior says N(0, 10) of theta, which takes no part in the model: the likelihood takes
 * it back. */
#define LOOSE 10.0

static double schools(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)t, (void)o;
  double sum = 0;
  for (int i = 0; i < 8; i++) {
    double a = (x[2 + i] - x[0]) / x[1], b = (Y[i] - x[2 + i]) / S[i], c = x[2 + i] / LOOSE;
    sum += 0.5 * (c * c - a * a - b * b) + log(LOOSE / x[1]);
    g[0] += a / x[1];
    g[1] += (a * a - 1) / x[1];
    g[2 + i] = b / S[i] - a / x[1] + c / LOOSE;
  }
  return sum;
}

static double schools_prior(const toy *t, atvi_idx j, double x, double *g) {
  (void)t;
  double sd = j == 0 ? 5 : LOOSE;
  *g = j == 1 ? -2 * x / (25 + x * x) : -x / (sd * sd);
  return j == 1 ? log(10 / PI) - log(25 + x * x) : -0.5 * x * x / (sd * sd) - log(sd * sqrt(2 * PI));
}

static double schools_draw(const toy *t, atvi_idx j, atvi_rng *r) {
  (void)t;
  return j == 1 ? 5 * tan(0.5 * PI * atvi_math_rng_uniform(r))
                : (j == 0 ? 5 : LOOSE) * atvi_math_rng_normal(r);
}

/* Everything but tau is normal given tau: by the midpoint rule over the quantiles of its prior. */
typedef struct {
  double log_z, tau, mu, theta, below; /* evidence; means of tau, mu, theta_1; P(tau < 0.5) */
} answer;

static answer schools_exact(void) {
  enum { N = 100000 };
  double z = 0, tau = 0, mu = 0, theta = 0, below = 0;
  for (int k = 0; k < N; k++) {
    double t = 5 * tan(0.5 * PI * (k + 0.5) / N), prec = 1.0 / 25, sum = 0, sq = 0, log_l = 0;
    for (int i = 0; i < 8; i++) {
      double v = S[i] * S[i] + t * t;
      prec += 1 / v, sum += Y[i] / v, sq += Y[i] * Y[i] / v;
      log_l -= 0.5 * log(v / (S[i] * S[i]));
    }
    double m = sum / prec, w = exp(log_l - 0.5 * log(25 * prec) - 0.5 * (sq - m * sum)) / N;
    z += w, tau += w * t, mu += w * m, below += t < 0.5 ? w : 0;
    theta += w * (Y[0] * t * t + m * S[0] * S[0]) / (S[0] * S[0] + t * t);
  }
  return (answer){log(z), tau / z, mu / z, theta / z, below / z};
}

static void check_mean(const atvi_draws *d, atvi_idx j, double mean) {
  column c = judge(d, j);
  CHECK_MSG(fabs(c.mean - mean) < 4 * c.mcse, "seed %d: mean of %td is %.5g, want %.5g, se %.2g",
            (int)d->made->seed, j, c.mean, mean, c.mcse);
}

static void necks_are_entered(void) {
  answer a = schools_exact();
  for (uint64_t seed = 32; seed < 32 + (uint64_t)test_seeds(1, 3); seed++) {
    toy t = {.lik = schools, .prior = schools_prior, .draw = schools_draw};
    toy_set(&t, 10, -HUGE_VAL, HUGE_VAL);
    t.lower[1] = t.param[1].lower = 0;
    atvi_vi_opts o = atvi_infer_vi_defaults();
    o.seed = seed;
    o.exact = ATVI_EXACT_ON;
    o.exact_iter = 12000;
    o.ess = 1e4; /* all of them: chains that stop early may not have forgotten that q lacks the neck */
    fitted f = fit_on(&t, &o, 2);
    /* whether these iterations are enough is up to q, and reported; the answer is right in either case */
    CHECK(f.d->made->end == ATVI_END_DONE || f.d->made->end == ATVI_END_LIMIT);
    CHECK_MSG(judge(f.d, 1).rhat < 1.02, "seed %d: R-hat of tau %.4f", (int)seed, judge(f.d, 1).rhat);
    check_mean(f.d, 0, a.mu);
    check_mean(f.d, 1, a.tau);
    check_mean(f.d, 2, a.theta);
    double e = f.d->made->log_evidence, se = f.d->made->log_evidence_se;
    CHECK_MSG(se < 0.05 && fabs(e - a.log_z) < 4 * se, "seed %d: log evidence %.4f, want %.4f, se %.4f",
              (int)seed, e, a.log_z, se);
    for (atvi_idx i = 0; i < f.d->n; i++) f.d->x[f.d->n + i] = f.d->x[f.d->n + i] < 0.5;
    CHECK(judge(f.d, 1).mcse < 0.02);
    check_mean(f.d, 1, a.below);
    fitted_free(f);
  }
}

TESTS({"lines", lines_leave_the_target_alone}, {"heavy", heavy_jumps_come_back},
      {"spread", spread_of_few_points}, {"neck", necks_are_entered})
