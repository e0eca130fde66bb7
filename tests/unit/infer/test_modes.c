/* SPDX-License-Identifier: MIT */
#include "infer/modes.h"
#include "math/sobol.h"
#include "toys.h"

enum { STARTS = 32 };

typedef struct {
  atvi_ctx *ctx;
  atvi_evaluator *ev;
  atvi_space *s;
  atvi_pool *pool;
  atvi_modes m;
} found;

static atomic_long gradients; /* points evaluated with gradient */

static void counting_eval(const void *self, void *work, const atvi_batch *b) {
  if (b->grad_lik) gradients += b->B;
  toy_eval(self, work, b);
}

static const atvi_target_ops counting = {
    .size = sizeof counting, .eval = counting_eval, .prior_draw = toy_draw};

static void draw_starts(atvi_idx d, uint64_t seed, double *x) {
  atvi_math_sobol_normal((atvi_sobol){seed, ATVI_STREAM_TEST, 0}, 0, d, STARTS, x);
}

static found seek(toy *t, const char *map, uint64_t seed, int threads) {
  found f = {.ctx = test_ctx()};
  double x[TOY_MAX * STARTS];
  atvi_ctx_set_threads(f.ctx, threads);
  t->target.ops = t->no_prior ? t->target.ops : &counting;
  gradients = 0;
  CHECK_OK(atvi_model_evaluator_new(f.ctx, &t->target, &f.ev));
  CHECK_OK(atvi_infer_space_new(f.ctx, f.ev, map, 1, &f.s));
  CHECK_OK(atvi_pool_new(f.ctx, &f.pool));
  draw_starts(t->target.d, seed, x);
  CHECK_OK(atvi_infer_modes_find(f.s, NULL, f.pool, STARTS, x, &f.m));
  CHECK_INT(f.m.evaluations, atvi_model_evaluator_count(f.ev));
  return f;
}

static void done_with(found f) {
  atvi_pool_free(f.pool);
  atvi_infer_space_free(f.s);
  atvi_model_evaluator_free(f.ev);
  atvi_ctx_free(f.ctx);
  CHECK_INT(test_live, 0);
}

static double theta_at(const found *f, atvi_idx k, atvi_idx j) {
  double theta, ldj = 0;
  atvi_transform_map_fwd(&f->s->map[j], 1, &f->m.mode[k].x[j], &theta, &ldj);
  return theta;
}

static int hits(const found *f) {
  int n = 0;
  for (atvi_idx k = 0; k < f->m.n; k++) n += f->m.mode[k].hits;
  return n;
}

/* Entry i, j of the covariance in theta. The maps must be affine: none, or the surjection inside the box. */
static double cov_at(const found *f, atvi_idx k, atvi_idx i, atvi_idx j) {
  atvi_idx d = f->s->d;
  const double *l = f->m.mode[k].chol;
  double sum = 0;
  for (atvi_idx e = 0; e < d; e++) sum += l[i * d + e] * l[j * d + e];
  return sum * f->s->map[i].scale * f->s->map[j].scale;
}

/* The chain in a wide box under the surjection, which is affine there: everything is exact. Correlations are
 * rho^|i - j|, the integral is (2 pi)^{5/2} prod s_j sqrt(1 - rho^2)^4 over the volume of the box. The map's
 * shares at the mode, 1 - e^{-20 * 1.6}, and the tails beyond the box are far below the tolerance. */
static void normal_is_exact(void) {
  toy t = {.lik = toy_chain};
  toy_set(&t, 5, -20, 20);
  found f = seek(&t, "surjection", 3, 2);
  CHECK_INT(f.m.n, 1);
  CHECK_INT(f.m.mode[0].hits, STARTS);
  double log_z = 2.5 * log(2 * acos(-1.0)) + 2 * log(1 - TOY_RHO * TOY_RHO) - 5 * log(40.0);
  for (int i = 0; i < 5; i++) {
    double si = 0.3 * (i + 1);
    log_z += log(si);
    CHECK_ABS(theta_at(&f, 0, i), 0.4 * i, 1e-5 * si);
    for (int j = 0; j <= i; j++) {
      double sj = 0.3 * (j + 1);
      CHECK_ABS(cov_at(&f, 0, i, j) / (si * sj), pow(TOY_RHO, i - j), 1e-5);
    }
    for (int j = i + 1; j < 5; j++) CHECK(f.m.mode[0].chol[i * 5 + j] == 0);
  }
  CHECK_ABS(f.m.mode[0].log_evidence, log_z, 1e-5);
  done_with(f);
}

/* With the first coordinate held one sd from its mean, the others climb to their means given that: 0.4 i + rho^i s_i. */
static void a_fixed_coordinate_stays(void) {
  toy t = {.lik = toy_chain};
  toy_set(&t, 5, -20, 20);
  found f = seek(&t, "surjection", 3, 2);
  atvi_climb_batch b;
  atvi_climb *c;
  double theta[5] = {0.3, 1, 0, 1.7, 1.1}, x[5];
  atvi_infer_space_inv(f.s, 1, theta, x);
  CHECK_OK(atvi_infer_climb_batch_new(f.s, f.pool, 1, &b));
  CHECK_OK(atvi_infer_climbs_new(f.pool, 5, 1, x, &c));
  c->fixed = 0;
  c->strict = true;
  CHECK(atvi_infer_climbs_run(&b, 1, (atvi_climb *const[]){c}, 300));
  CHECK(c->x[0] == x[0]);
  atvi_infer_space_fwd(f.s, 1, c->x, theta);
  for (int i = 1; i < 5; i++) {
    double sd = 0.3 * (i + 1);
    CHECK_ABS(theta[i], 0.4 * i + pow(TOY_RHO, i) * sd, 0.15 * sd); /* climbs end 0.01 nats below */
  }
  done_with(f);
}

/* N(0, I) with a N(0, 10^2) prior, no bounds: log pi and evidence. The map's scale is that of draws, and is
 * of no matter. */
static void normal_prior(void) {
  toy t = {.lik = toy_unit, .prior_sd = 10};
  toy_set(&t, 4, -HUGE_VAL, HUGE_VAL);
  found f = seek(&t, NULL, 1, 1);
  CHECK_INT(f.m.n, 1);
  CHECK_ABS(f.m.mode[0].log_evidence, -2 * log(101.0), 1e-6);
  double scale = 0;
  for (int j = 0; j < 4; j++) scale += log(f.s->map[j].scale);
  CHECK_ABS(f.m.mode[0].log_pi, -4 * log(10 * sqrt(2 * acos(-1.0))) + scale, 1e-6);
  done_with(f);
}

/* ---- several modes ---- */

static const double centre[3] = {-4.3, 0.9, 4.7}, weight[3] = {0.70, 0.27, 0.03};
#define SD 0.4

static double centre_of(int k, atvi_idx j) { return j % 2 ? -centre[(k + 1) % 3] : centre[k]; }

static double three(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)o;
  double l[3], top = -HUGE_VAL, sum = 0, v = SD * SD;
  atvi_idx d = t->target.d;
  for (int k = 0; k < 3; k++) {
    l[k] = log(weight[k]) - 0.5 * (double)d * log(2 * acos(-1.0) * v);
    for (atvi_idx j = 0; j < d; j++) l[k] -= 0.5 * pow(x[j] - centre_of(k, j), 2) / v;
    top = fmax(top, l[k]);
  }
  for (int k = 0; k < 3; k++) sum += exp(l[k] - top);
  for (int k = 0; k < 3; k++)
    for (atvi_idx j = 0; j < d; j++) g[j] -= exp(l[k] - top) / sum * (x[j] - centre_of(k, j)) / v;
  return top + log(sum);
}

/* Probit bends a normal of sd 0.4 in a box of 20 by little: shares within 10 %. */
static void three_modes_of(atvi_idx d, const char *map) {
  for (uint64_t seed = 1; seed <= 10; seed++) {
    toy t = {.lik = three};
    toy_set(&t, d, -10, 10);
    found f = seek(&t, map, seed, 2);
    CHECK_INT(f.m.n, 3);
    CHECK_INT(hits(&f), STARTS);
    double sum = 0;
    for (int k = 0; k < 3; k++) sum += exp(f.m.mode[k].log_evidence - f.m.mode[0].log_evidence);
    for (int k = 0; k < 3; k++) {
      CHECK_REL(exp(f.m.mode[k].log_evidence - f.m.mode[0].log_evidence) / sum, weight[k], 0.1);
      CHECK_ABS(f.m.mode[k].log_evidence, log(weight[k]) - (double)d * log(20.0), 0.05);
      for (atvi_idx j = 0; j < d; j++) CHECK_ABS(theta_at(&f, k, j), centre_of(k, j), 0.5 * SD);
    }
    done_with(f);
  }
}

static void three_modes_2d(void) { three_modes_of(2, NULL); }
static void three_modes_6d(void) { three_modes_of(6, NULL); }
static void three_modes_surjection(void) { three_modes_of(6, "surjection"); }

/* At most opts.most are told, and they are the best. */
static void most_is_kept_to(void) {
  toy t = {.lik = three};
  toy_set(&t, 2, -10, 10);
  found f = seek(&t, NULL, 1, 1);
  double x[2 * STARTS];
  atvi_modes m = {0};
  draw_starts(2, 1, x);
  CHECK_OK(
      atvi_infer_modes_find(f.s, &(atvi_modes_opts){.iterations = 60, .most = 1}, f.pool, STARTS, x, &m));
  CHECK_INT(m.n, 1);
  CHECK(m.mode[0].log_evidence == f.m.mode[0].log_evidence);
  CHECK_INT(atvi_infer_modes_defaults().iterations, 60);
  CHECK_INT(atvi_infer_modes_defaults().most, 8);
  done_with(f);
}

/* A mode 30 nats below the better one is not worth telling. */
static double high_and_low(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)t, (void)o;
  double a = -0.5 * pow((x[0] - 2) / 0.2, 2), b = -30 - 0.5 * pow((x[0] + 2) / 0.2, 2), top = fmax(a, b);
  double sum = exp(a - top) + exp(b - top);
  g[0] = (-exp(a - top) * (x[0] - 2) - exp(b - top) * (x[0] + 2)) / (0.04 * sum);
  return top + log(sum);
}

static void low_modes_are_left_out(void) {
  toy t = {.lik = high_and_low};
  toy_set(&t, 1, -5, 5);
  found f = seek(&t, NULL, 1, 1);
  CHECK_INT(f.m.n, 1);
  CHECK(f.m.mode[0].hits > 8 && f.m.mode[0].hits < 24);
  CHECK_ABS(theta_at(&f, 0, 0), 2, 0.1);
  done_with(f);
}

/* ---- one mode that looks like more ---- */

/* Pairs of x_0 ~ N(0.2, 1) and x_1 ~ N(x_0^2, 0.1^2). */
static double banana(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)o;
  double sum = 0;
  for (atvi_idx j = 0; j + 1 < t->target.d; j += 2) {
    double a = x[j] - 0.2, b = x[j + 1] - x[j] * x[j];
    sum -= 0.5 * a * a + 50 * b * b;
    g[j] += -a + 200 * b * x[j];
    g[j + 1] += -100 * b;
  }
  return sum;
}

/* The evidence of a pair is 2 pi 0.1 / 64, less what the box cuts (x_0 < -sqrt 5: 0.7 %); Laplace's of a
 * banana is a fair guess in the box's coordinates. */
static void banana_is_one(void) {
  static const char *const maps[] = {"probit", "surjection"};
  for (uint64_t seed = 1; seed <= 10; seed++)
    for (atvi_idx d = 2; d <= 10; d += 4) {
      toy t = {.lik = banana};
      toy_set(&t, d, -3, 5);
      found f = seek(&t, maps[seed % 2], seed, 1);
      CHECK_INT(f.m.n, 1);
      CHECK_ABS(f.m.mode[0].log_evidence, (double)d / 2 * log(2 * acos(-1.0) * 0.1 / 64), 0.25 * (double)d);
      CHECK(gradients < (d == 2 ? 800 : 3200));
      done_with(f);
    }
}

static double flat(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)t, (void)x, (void)g, (void)o;
  return -3.21;
}

/* Under the probit map a uniform posterior is standard normal, exactly; under the surjection it is a plateau
 * with soft ends, wider than the floor of the curvature permits to say. */
static void flat_is_one(void) {
  toy t = {.lik = flat};
  toy_set(&t, 3, 1, 4);
  found f = seek(&t, "probit", 1, 1);
  CHECK_INT(f.m.n, 1);
  CHECK_ABS(f.m.mode[0].log_evidence, -3.21, 1e-3);
  for (int j = 0; j < 3; j++) {
    CHECK_ABS(f.m.mode[0].x[j], 0, 1e-3);
    CHECK_REL(f.m.mode[0].chol[4 * j], 1, 1e-3);
  }
  done_with(f);
  toy_set(&t, 3, 1, 4);
  f = seek(&t, "surjection", 1, 1);
  CHECK_INT(f.m.n, 1);
  for (int j = 0; j < 3; j++) CHECK_REL(f.m.mode[0].chol[4 * j], 4, 0.05);
  done_with(f);
}

/* ---- failures ---- */

static double half_fails(const toy *t, const double *x, double *g, atvi_outcome *o) {
  if (x[0] + 0.3 * x[1] < 0.1) {
    *o = ATVI_RUN_STEPS;
    return NAN;
  }
  (void)t;
  double sum = 0;
  for (int j = 0; j < 3; j++) {
    double z = (x[j] - 0.9) / 0.2;
    sum -= 0.5 * z * z;
    g[j] = -z / 0.2;
  }
  return sum;
}

static void failures_are_gone_round(void) {
  toy t = {.lik = half_fails};
  toy_set(&t, 3, -3, 3);
  for (uint64_t seed = 1; seed <= 5; seed++) {
    found f = seek(&t, NULL, seed, 2);
    CHECK_INT(f.m.n, 1);
    CHECK(f.m.mode[0].hits >= 8 && f.m.mode[0].hits < STARTS);
    for (int j = 0; j < 3; j++) CHECK_ABS(theta_at(&f, 0, j), 0.9, 0.05);
    done_with(f);
  }
}

static double fails(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)t, (void)x, (void)g;
  *o = ATVI_RUN_NONFINITE;
  return NAN;
}

static double no_gradient(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)t, (void)o;
  g[0] = NAN;
  return -x[0] * x[0];
}

static void nothing_to_be_found(void) {
  toy t = {.lik = fails};
  toy_set(&t, 2, -3, 3);
  found f = seek(&t, NULL, 1, 1);
  CHECK_INT(f.m.n, 0);
  CHECK_INT(f.m.evaluations, STARTS);
  CHECK_OK(atvi_infer_modes_find(f.s, NULL, f.pool, 0, NULL, &f.m)); /* no starts */
  CHECK_INT(f.m.n, 0);
  done_with(f);
  t.lik = no_gradient;
  f = seek(&t, NULL, 1, 1);
  CHECK_INT(f.m.n, 0);
  done_with(f);
}

/* e^{-4x} on [0, 1]: under the surjection the mode is at the fold, a kink, and the copies are the same mode. */
static void mode_at_a_bound(void) {
  toy t = {.lik = toy_slope4};
  toy_set(&t, 1, 0, 1);
  for (uint64_t seed = 1; seed <= 5; seed++) {
    found f = seek(&t, "surjection", seed, 1);
    CHECK_INT(f.m.n, 1);
    CHECK_INT(f.m.mode[0].hits, STARTS);
    CHECK(theta_at(&f, 0, 0) < 0.05);
    CHECK_ABS(f.m.mode[0].log_evidence, log((1 - exp(-4.0)) / 4), 1);
    done_with(f);
  }
}

/* ---- how it runs ---- */

static double ill(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)o;
  atvi_idx d = t->target.d;
  double sum = 0;
  for (atvi_idx i = 0; i < d; i++) { /* orthonormal cosines, curvatures 1 .. 1e4 */
    double z = 0, curve = pow(10, 4.0 * (double)i / (double)(d - 1)),
           norm = sqrt((i ? 2.0 : 1.0) / (double)d);
    for (atvi_idx j = 0; j < d; j++)
      z += norm * cos(acos(-1.0) * (double)i * ((double)j + 0.5) / (double)d) * (x[j] - 0.3);
    sum -= 0.5 * curve * z * z;
    for (atvi_idx j = 0; j < d; j++)
      g[j] -= curve * z * norm * cos(acos(-1.0) * (double)i * ((double)j + 0.5) / (double)d);
  }
  return sum;
}

/* log Z = -m^T (C + I)^-1 m / 2 - log det(I + P) / 2 with m along the cosine 0: curvature 1, |m|^2 = 0.9. */
static void ill_conditioned(void) {
  double log_z = -0.225;
  for (int i = 0; i < 10; i++) log_z -= 0.5 * log1p(pow(10, 4.0 * i / 9));
  for (uint64_t seed = 1; seed <= 3; seed++) {
    toy t = {.lik = ill, .prior_sd = 1};
    toy_set(&t, 10, -HUGE_VAL, HUGE_VAL);
    found f = seek(&t, NULL, seed, 2);
    CHECK_INT(f.m.n, 1);
    CHECK_INT(f.m.mode[0].hits, STARTS);
    CHECK_ABS(f.m.mode[0].log_evidence, log_z, 1e-4);
    CHECK(gradients < 900);
    done_with(f);
  }
}

/* Modes that are known are neither climbed nor measured again, but where log pi is not what it was. */
static void known_modes_stay(void) {
  toy t = {.lik = three};
  toy_set(&t, 6, -10, 10);
  found f = seek(&t, NULL, 5, 1);
  atvi_modes before = f.m;
  atvi_peak kept[TOY_MAX];
  double x[6];
  CHECK(before.n == 3);
  memcpy(kept, before.mode, (size_t)before.n * sizeof *kept);
  for (atvi_idx j = 0; j < 6; j++) x[j] = kept[0].x[j] + 0.013 * (double)(j + 1);
  CHECK_OK(atvi_infer_modes_find(f.s, NULL, f.pool, 1, x, &f.m));
  CHECK_INT(f.m.n, before.n);
  CHECK(f.m.evaluations < before.evaluations / 4);
  for (atvi_idx k = 0; k < f.m.n; k++) {
    CHECK(f.m.mode[k].x == kept[k].x && f.m.mode[k].log_evidence == kept[k].log_evidence);
    CHECK_INT(f.m.mode[k].hits, kept[k].hits + (k == 0));
  }
  /* one that is not where it was said to be */
  kept[1].log_pi += 0.3;
  f.m = (atvi_modes){.n = 3, .mode = kept};
  CHECK_OK(atvi_infer_modes_find(f.s, NULL, f.pool, 1, x, &f.m));
  CHECK_INT(f.m.n, 3);
  for (atvi_idx k = 0; k < 3; k++) {
    CHECK((f.m.mode[k].x == kept[k].x) == (k != 1));
    CHECK_ABS(f.m.mode[k].log_pi, before.mode[k].log_pi, 1e-3);
  }
  done_with(f);
}

/* One climb alone has all iterations, and as many again: from a corner of the banana. */
static void one_start(void) {
  toy t = {.lik = banana};
  toy_set(&t, 6, -3, 5);
  found f = seek(&t, NULL, 1, 1);
  const double x[6] = {1.27, 1.83, -1.95, -0.71, 0.52, 1.11};
  atvi_modes m = {0};
  CHECK_OK(atvi_infer_modes_find(f.s, NULL, f.pool, 1, x, &m));
  CHECK_INT(m.n, 1);
  CHECK_INT(m.mode[0].hits, 1);
  CHECK_ABS(m.mode[0].log_pi, f.m.mode[0].log_pi, 0.02);
  done_with(f);
}

static void threads_do_not_matter(void) {
  found f[2];
  toy t = {.lik = three};
  toy_set(&t, 6, -10, 10);
  for (int k = 0; k < 2; k++) f[k] = seek(&t, NULL, 5, k + 1);
  CHECK_INT(f[0].m.n, f[1].m.n);
  CHECK_INT(f[0].m.evaluations, f[1].m.evaluations);
  for (atvi_idx k = 0; k < f[0].m.n; k++) {
    const atvi_peak *a = &f[0].m.mode[k], *b = &f[1].m.mode[k];
    CHECK(a->log_pi == b->log_pi && a->log_evidence == b->log_evidence && a->hits == b->hits);
    CHECK(memcmp(a->x, b->x, 6 * sizeof *a->x) == 0);
    CHECK(memcmp(a->chol, b->chol, 36 * sizeof *a->chol) == 0);
  }
  for (int k = 0; k < 2; k++) {
    atvi_pool_free(f[k].pool);
    atvi_infer_space_free(f[k].s);
    atvi_model_evaluator_free(f[k].ev);
    atvi_ctx_free(f[k].ctx);
  }
  CHECK_INT(test_live, 0);
}

static bool stop_at_zero(void *user) { return (*(int *)user)-- <= 0; }

/* Before the first evaluation there is nothing; later, the best end so far. */
static void stop_is_heard(void) {
  toy t = {.lik = three};
  toy_set(&t, 6, -10, 10);
  found f = seek(&t, NULL, 5, 1);
  int64_t all = f.m.evaluations;
  double x[6 * STARTS];
  draw_starts(6, 5, x);
  for (int after = 0; after <= 6; after += 3) {
    int left = after;
    f.m = (atvi_modes){0};
    atvi_ctx_set_stop(f.ctx, stop_at_zero, &left);
    CHECK_OK(atvi_infer_modes_find(f.s, NULL, f.pool, STARTS, x, &f.m));
    CHECK_INT(f.m.n, after > 0);
    CHECK(f.m.evaluations <= after * STARTS + 100 && f.m.evaluations < all);
  }
  atvi_ctx_set_stop(f.ctx, NULL, NULL);
  done_with(f);
}

static void memory_may_fail(void) {
  toy t = {.lik = three};
  toy_set(&t, 6, -10, 10);
  found f = seek(&t, NULL, 5, 1);
  double x[6 * STARTS];
  int failed = 0;
  draw_starts(6, 5, x);
  for (bool ok = false; !ok; failed += !ok) {
    atvi_pool *pool;
    f.m = (atvi_modes){0};
    CHECK_OK(atvi_pool_new(f.ctx, &pool));
    long live = test_live;
    test_fail_at = test_allocs + failed + 1;
    atvi_status st = atvi_infer_modes_find(f.s, NULL, pool, STARTS, x, &f.m);
    test_fail_at = 0;
    ok = st == ATVI_OK;
    if (!ok) {
      CHECK_STATUS(st, ATVI_ENOMEM);
      CHECK(f.m.n == 0 && !f.m.mode);
      CHECK(test_live - live <= 1); /* what the caller's pool took, at most */
    }
    atvi_pool_free(pool);
  }
  CHECK(failed >= 3);
  CHECK_INT(f.m.n, 3);
  done_with(f);
}

TESTS({"normal_is_exact", normal_is_exact}, {"fixed", a_fixed_coordinate_stays},
      {"normal_prior", normal_prior}, {"three_modes_2d", three_modes_2d}, {"three_modes_6d", three_modes_6d},
      {"three_modes_surjection", three_modes_surjection}, {"most_is_kept_to", most_is_kept_to},
      {"low_modes_are_left_out", low_modes_are_left_out}, {"banana_is_one", banana_is_one},
      {"flat_is_one", flat_is_one}, {"failures_are_gone_round", failures_are_gone_round},
      {"nothing_to_be_found", nothing_to_be_found}, {"mode_at_a_bound", mode_at_a_bound},
      {"ill_conditioned", ill_conditioned}, {"one_start", one_start}, {"known_modes_stay", known_modes_stay},
      {"threads_do_not_matter", threads_do_not_matter}, {"stop_is_heard", stop_is_heard},
      {"memory_may_fail", memory_may_fail})
