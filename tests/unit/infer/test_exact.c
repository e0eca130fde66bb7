/* SPDX-License-Identifier: MIT */
/* The exact sampler: its moves leave the posterior as it is, whatever q is; whole runs give means, shares and
 * evidence within four of their own standard errors. Each target is run with several seeds: a few hundred
 * comparisons, of which a right program fails one in a hundred times, and then with every seed the same on
 * the same machine. */
#include "infer/fit.h"
#include "infer/vi_exact.h"
#include "moments.h"
#include "vi_world.h"

static const double PI = 3.14159265358979323846;
#define SEEDS ((uint64_t)test_seeds(1, 5))

/* ---- targets; all likelihoods are densities ---- */

/* Neal's funnel: v ~ N(0, 3), the others N(0, e^(v/2)). */
static double funnel(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)o;
  double v = x[0], sum = -v * v / 18 - log(3.0), n = (double)(t->target.d - 1);
  g[0] = -v / 9 - 0.5 * n;
  for (atvi_idx j = 1; j < t->target.d; j++) {
    double s = x[j] * x[j] * exp(-v);
    sum -= 0.5 * s;
    g[0] += 0.5 * s;
    g[j] = -x[j] * exp(-v);
  }
  return sum - 0.5 * n * v - 0.5 * (n + 1) * log(2 * PI);
}

/* x ~ N(0, 1), y ~ N(x^2, 0.5). */
static double banana(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)t, (void)o;
  double e = (x[1] - x[0] * x[0]) / 0.5;
  g[0] = -x[0] + 4 * e * x[0];
  g[1] = -e / 0.5;
  return -0.5 * x[0] * x[0] - 0.5 * e * e - log(2 * PI * 0.5);
}

/* 70 % N(-4, 0.8), 30 % N(3, 0.5) in every coordinate at once. */
static double two_modes(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)o;
  double l[2] = {log(0.7), log(0.3)}, m[2] = {-4, 3}, s[2] = {0.8, 0.5};
  for (int k = 0; k < 2; k++)
    for (atvi_idx j = 0; j < t->target.d; j++)
      l[k] -= 0.5 * pow((x[j] - m[k]) / s[k], 2) + log(s[k] * sqrt(2 * PI));
  double top = fmax(l[0], l[1]), sum = top + log(exp(l[0] - top) + exp(l[1] - top));
  for (int k = 0; k < 2; k++)
    for (atvi_idx j = 0; j < t->target.d; j++) g[j] -= exp(l[k] - sum) * (x[j] - m[k]) / (s[k] * s[k]);
  return sum;
}

/* N(0.3 j, 1), to be cut. */
static double shifted(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)o;
  double sum = 0;
  for (atvi_idx j = 0; j < t->target.d; j++) {
    g[j] = 0.3 * (double)j - x[j];
    sum -= 0.5 * g[j] * g[j] + 0.5 * log(2 * PI);
  }
  return sum;
}

/* ---- whole runs ---- */

static fitted run_exact(const toy *t, uint64_t seed) {
  atvi_vi_opts o = atvi_infer_vi_defaults();
  o.seed = seed;
  o.exact = ATVI_EXACT_ON;
  fitted f = fit_on(t, &o, 2);
  const atvi_draws *d = f.d;
  CHECK(d->chains && d->n_chain == ATVI_EXACT_CHAINS && !d->weight && d->made->exact == 1);
  CHECK_MSG(d->made->end == ATVI_END_DONE, "seed %d: no end", (int)seed);
  CHECK(d->made->ess_wanted == 1000 && isfinite(d->made->khat) && d->n_message >= 1);
  CHECK(strstr(d->message[0].text, "exact sampler, as asked for") != NULL);
  for (atvi_idx j = 0; j < d->n; j++) CHECK(isfinite(d->log_prior[j] + d->log_lik[j]));
  return f;
}

static void check_mean(const atvi_draws *d, atvi_idx j, double mean) {
  column c = judge(d, j);
  CHECK_MSG(c.rhat < 1.01 && c.ess > 100, "seed %d, %td: R-hat %.4f, ESS %.0f", (int)d->made->seed, j, c.rhat,
            c.ess);
  CHECK_MSG(fabs(c.mean - mean) < 4 * c.mcse, "seed %d: mean of %td is %.5g, want %.5g, se %.2g",
            (int)d->made->seed, j, c.mean, mean, c.mcse);
}

static void check_sd(const atvi_draws *d, atvi_idx j, double sd) {
  double se = mcse_of_sd(d, j), got = judge(d, j).sd;
  CHECK_MSG(fabs(got - sd) < 4 * se, "seed %d: sd of %td is %.5g, want %.5g, se %.2g", (int)d->made->seed, j,
            got, sd, se);
}

static void check_evidence(const atvi_draws *d, double log_z) {
  double e = d->made->log_evidence, se = d->made->log_evidence_se;
  CHECK_MSG(se > 0 && se < 0.05 && fabs(e - log_z) < 4 * se, "seed %d: log evidence %.5f, want %.5f, se %.2g",
            (int)d->made->seed, e, log_z, se);
}

static void funnel_run(void) {
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    toy t = {.lik = funnel, .no_prior = true};
    toy_set(&t, 10, -HUGE_VAL, HUGE_VAL);
    fitted f = run_exact(&t, seed);
    for (int j = 0; j < 10; j++) check_mean(f.d, j, 0);
    /* the ends of the neck are found late: the sd is a little small for longer than its error says */
    CHECK_REL(judge(f.d, 0).sd, 3, 0.05);
    check_evidence(f.d, 0);
    fitted_free(f);
  }
}

static void banana_run(void) {
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    toy t = {.lik = banana, .no_prior = true};
    toy_set(&t, 2, -HUGE_VAL, HUGE_VAL);
    fitted f = run_exact(&t, seed);
    check_mean(f.d, 0, 0);
    check_mean(f.d, 1, 1);
    check_sd(f.d, 0, 1);
    check_sd(f.d, 1, 1.5);
    check_evidence(f.d, 0);
    fitted_free(f);
  }
}

/* The share of a mode is the mean of a column of zeros and ones. */
static void two_modes_run(void) {
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    toy t = {.lik = two_modes};
    toy_set(&t, 2, -10, 10);
    fitted f = run_exact(&t, seed);
    CHECK(f.d->made->modes == 2);
    for (int j = 0; j < 2; j++) check_mean(f.d, j, 0.7 * -4 + 0.3 * 3);
    check_sd(f.d, 1, sqrt(0.7 * 0.64 + 0.3 * 0.25 + 0.21 * 49));
    check_evidence(f.d, -2 * log(20.0));
    for (atvi_idx i = 0; i < f.d->n; i++) f.d->x[i] = f.d->x[i] < 0;
    column c = judge(f.d, 0);
    CHECK_MSG(fabs(c.mean - 0.7) < 4 * c.mcse && c.mcse < 0.02, "seed %d: share %.4f, se %.4f", (int)seed,
              c.mean, c.mcse);
    fitted_free(f);
  }
}

static void truncated_run(void) {
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    toy t = {.lik = shifted};
    double log_z = 0;
    toy_set(&t, 10, 0, 2);
    fitted f = run_exact(&t, seed);
    for (int j = 0; j < 10; j++) {
      double m = 0.3 * j, a = -m, b = 2 - m;
      double mass = 0.5 * (erf(b / sqrt(2)) - erf(a / sqrt(2)));
      check_mean(f.d, j, m + (exp(-0.5 * a * a) - exp(-0.5 * b * b)) / sqrt(2 * PI) / mass);
      log_z += log(mass / 2);
    }
    check_evidence(f.d, log_z);
    for (atvi_idx i = 0; i < 10 * f.d->n; i++) CHECK(f.d->x[i] >= 0 && f.d->x[i] <= 2);
    fitted_free(f);
  }
}

/* ---- a poor approximation ---- */

/* One layer without a spline to speak of cannot follow a funnel. Components for what it misses would make it
 * a good one. */
static atvi_vi_opts poor(void) {
  atvi_vi_opts o = atvi_infer_vi_defaults();
  o.seek_modes = false;
  o.tune = ATVI_TUNE_OFF;
  o.shape = (atvi_flow_shape){.d = 7, .layers = 1, .bins = 1, .hidden = 1, .box = 4, .seed = 1};
  return o;
}

/* Student's t with 3 degrees of freedom, in seven dimensions: no normal tail covers it. */
static double heavy(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)o;
  double r2 = 0, d = (double)t->target.d;
  for (atvi_idx j = 0; j < t->target.d; j++) r2 += x[j] * x[j];
  for (atvi_idx j = 0; j < t->target.d; j++) g[j] = -(3 + d) * x[j] / (3 + r2);
  return lgamma(0.5 * (3 + d)) - lgamma(1.5) - 0.5 * d * log(3 * PI) - 0.5 * (3 + d) * log1p(r2 / 3);
}

static toy heavy_tails(void) { return (toy){.lik = heavy, .no_prior = true}; }

static void note(void *user, atvi_log_level level, const char *text) {
  (void)level;
  *(int *)user += strstr(text, "exact sampler takes over") != NULL;
}

static void takes_over_by_itself(void) {
  toy t = heavy_tails();
  toy_set(&t, 7, -HUGE_VAL, HUGE_VAL);
  for (int off = 0; off < 2; off++) {
    atvi_vi_opts o = poor();
    if (off) o.exact = ATVI_EXACT_OFF;
    fitted f = {.ctx = test_ctx()};
    atvi_evaluator *ev;
    int noted = 0;
    atvi_ctx_set_threads(f.ctx, 2);
    atvi_ctx_set_log(f.ctx, note, &noted);
    CHECK_OK(atvi_model_evaluator_new(f.ctx, &t.target, &ev));
    CHECK_OK(atvi_infer_vi_run(f.ctx, ev, &o, &f.d));
    atvi_model_evaluator_free(ev);
    CHECK_MSG(f.d->made->khat > 0.7, "k-hat %.3f", f.d->made->khat);
    CHECK_INT(noted, !off);
    CHECK((f.d->weight != NULL) == off && (f.d->made->exact > 0) == !off);
    if (!off) {
      CHECK(strstr(f.d->message[0].text, "could not be corrected by weights") != NULL);
      CHECK_INT(f.d->made->end, ATVI_END_DONE);
      for (int j = 0; j < 7; j++) check_mean(f.d, j, 0);
      CHECK_REL(judge(f.d, 0).sd, sqrt(3),
                0.1); /* the fourth moment, and so the error of the sd, is infinite */
      check_evidence(f.d, 0);
    }
    fitted_free(f);
  }
}

/* ---- invariance ---- */

/* Lines and heavy-tailed jumps as wide as the banana, about. */
static void set_lines(atvi_exact_moves *m) {
  enum { N = 512 };
  double x[2 * N];
  atvi_rng r = atvi_math_rng_at(11, ATVI_STREAM_TEST, 0, 0);
  for (int i = 0; i < N; i++) {
    x[i] = 0.3 + 1.2 * atvi_math_rng_normal(&r);
    x[N + i] = 0.9 + 0.6 * x[i] + atvi_math_rng_normal(&r);
  }
  CHECK(atvi_infer_exact_spread(m->v->pool, 2, N, x, m));
  CHECK_ABS(m->spread.shift[0], 0.3, 4 * 1.2 / sqrt(N));
  CHECK_REL(m->sd[0], 1.2, 4 / sqrt(2 * N));
  CHECK_REL(m->sd[1], sqrt(0.36 * 1.44 + 1), 4 / sqrt(2 * N));
  CHECK_REL(m->spread.chol[2], 0.6 * 1.2, 0.3);
  /* t with two degrees of freedom in two dimensions has density 1 / (2 pi |chol|) at its centre */
  CHECK_ABS(m->log_heavy, -log(2 * PI) - m->spread.log_det, 1e-12);
  /* and follows a spread that is changed, as that of chains which start from the prior is */
  double was = m->spread.log_det;
  m->spread.log_det = 1.37;
  atvi_infer_exact_heavy(2, m);
  CHECK_ABS(m->log_heavy, -log(2 * PI) - 1.37, 1e-12);
  m->spread.log_det = was;
  atvi_infer_exact_heavy(2, m);
  m->lines = 2;
}

enum { GROUPS = 1200 };

typedef struct {
  double sum[5], sq[5];
} tally;

static void count(tally *a, double x, double y) {
  double f[5] = {x, y, x * x, fmin(y * y, 20), x > 1.3};
  for (int k = 0; k < 5; k++) a->sum[k] += f[k], a->sq[k] += f[k] * f[k];
}

/* Exact draws of the banana are moved; q is two untrained components that have little to do with it. Draws
 * after ITER iterations are as independent of each other as before, and must have the same law. */
static void moves_leave_the_target_alone(void) {
  enum { ITER = 12, L = ATVI_LANES };
  toy t = {.lik = banana, .no_prior = true};
  toy_set(&t, 2, -HUGE_VAL, HUGE_VAL);
  atvi_vi_opts o = atvi_infer_vi_defaults();
  inside *w = inside_new(&t, &o, 1);
  atvi_vi *v = &w->v;
  static const double shift[2] = {0.7, 1.9}, chol[4] = {0.8, 0, 0.5, 1.3};
  CHECK(atvi_infer_vi_member_new(v, shift, chol, &v->part[v->n_part++].at));
  v->part[0].share = 0.6, v->part[1].share = 0.4;
  atvi_rng r = atvi_math_rng_at(7, ATVI_STREAM_TEST, 0, 0);
  for (int k = 0; k < 2; k++)
    for (atvi_idx i = 0; i < v->size; i++) v->part[k].at.phi[i] += 0.04 * atvi_math_rng_normal(&r);
  double step[4] = {0.25, 0.3, 0.35, 0.3}, accepted = 0, tried = 0, jumped = 0, jumps = 0;
  void *work[2];
  for (int k = 0; k < 2; k++) CHECK_OK(v->family.ops->work_new(v->family.self, v->ctx, L, &work[k]));
  atvi_exact_moves moves = {.v = v, .n_part = 2, .work = work, .step = step, .leaps = 4};
  atvi_exact_group g = {0};
  set_lines(&moves);
  CHECK(atvi_infer_exact_group_make(v->pool, 2, 2, &g));
  tally before = {0}, after = {0};
  int relabelled = 0;
  for (int n = 0; n < GROUPS; n++) {
    double x[2 * L];
    for (int i = 0; i < L; i++) {
      x[i] = atvi_math_rng_normal(&r);
      x[L + i] = x[i] * x[i] + 0.5 * atvi_math_rng_normal(&r);
      count(&before, x[i], x[L + i]);
    }
    g.chain = (uint32_t)(n * L);
    atvi_infer_exact_place(&moves, &g, 0, x);
    for (uint32_t k = 1; k <= ITER; k++) {
      int old[L];
      memcpy(old, g.now.k, sizeof old);
      atvi_infer_exact_step(&moves, &g, 0, k);
      for (int i = 0; i < L; i++) relabelled += old[i] != g.now.k[i];
    }
    for (int i = 0; i < L; i++) count(&after, g.now.theta[i], g.now.theta[L + i]);
  }
  for (int k = 0; k < 2; k++) accepted += g.accepted[k], tried += g.tried[k];
  jumped = g.jumped / g.jumps, accepted /= tried, jumps = (double)relabelled / tried;
  CHECK_MSG(jumped > 0.02 && jumped < 0.9 && accepted > 0.3 && accepted < 0.98 && jumps > 0.05,
            "nothing is tested: %.3f %.3f %.3f", jumped, accepted, jumps);
  const double exact[5] = {0, 1, 1, NAN, 0.5 * erfc(1.3 / sqrt(2))}, n = GROUPS * L;
  for (int k = 0; k < 5; k++) {
    double a = before.sum[k] / n, b = after.sum[k] / n;
    double se = sqrt((after.sq[k] / n - b * b) / n);
    if (isnan(exact[k]))
      CHECK_MSG(fabs(a - b) < 4 * sqrt(2.0) * se, "%d: %.5f became %.5f, se %.5f", k, a, b, se);
    else
      CHECK_MSG(fabs(b - exact[k]) < 4 * se, "%d: %.5f, want %.5f, se %.5f", k, b, exact[k], se);
  }
  for (int k = 0; k < 2; k++) v->family.ops->work_free(work[k]);
  inside_free(w);
}

/* The same with a trained q, whose tails are too short: draws in the tail must neither drain away nor pile
 * up. */
static void tails_stay_as_they_are(void) {
  enum { ITER = 30, L = ATVI_LANES };
  toy t = {.lik = banana, .no_prior = true};
  toy_set(&t, 2, -HUGE_VAL, HUGE_VAL);
  atvi_vi_opts o = atvi_infer_vi_defaults();
  o.seed = 3;
  inside *w = inside_new(&t, &o, 1);
  atvi_vi *v = &w->v;
  CHECK(atvi_infer_vi_train(v, w->m));
  v->part[0].share = 1;
  void *work;
  double step[2] = {0.8, 0.3}, far[2] = {0}, moved = 0;
  CHECK_OK(v->family.ops->work_new(v->family.self, v->ctx, L, &work));
  atvi_exact_moves moves = {.v = v, .n_part = 1, .work = &work, .step = step, .leaps = 8};
  atvi_exact_group g = {0};
  set_lines(&moves);
  CHECK(atvi_infer_exact_group_make(v->pool, 2, 1, &g));
  atvi_rng r = atvi_math_rng_at(7, ATVI_STREAM_TEST, 0, 0);
  for (int n = 0; n < 2 * GROUPS; n++) {
    double x[2 * L];
    for (int i = 0; i < L; i++) {
      x[i] = atvi_math_rng_normal(&r);
      x[L + i] = x[i] * x[i] + 0.5 * atvi_math_rng_normal(&r);
    }
    g.chain = (uint32_t)(n * L);
    atvi_infer_exact_place(&moves, &g, 0, x);
    for (uint32_t k = 1; k <= ITER; k++) atvi_infer_exact_step(&moves, &g, 0, k);
    for (int i = 0; i < L; i++) {
      bool a = fabs(x[i]) > 2.5, b = fabs(g.now.theta[i]) > 2.5;
      far[0] += a, far[1] += b, moved += a && !b;
    }
  }
  double want = 2 * GROUPS * L * erfc(2.5 / sqrt(2));
  CHECK_MSG(moved > 0.5 * far[0], "%g of %g moved", moved, far[0]);
  CHECK_ABS(far[1], want, 4 * sqrt(want));
  v->family.ops->work_free(work);
  inside_free(w);
}

/* What is known of a point agrees with what elbo.h says of it. */
static void densities_agree(void) {
  enum { L = ATVI_LANES };
  toy t = {.lik = banana, .no_prior = true};
  toy_set(&t, 2, -HUGE_VAL, HUGE_VAL);
  atvi_vi_opts o = atvi_infer_vi_defaults();
  inside *w = inside_new(&t, &o, 1);
  atvi_vi *v = &w->v;
  CHECK(atvi_infer_vi_member_new(v, (double[]){0.7, 1.9}, (double[]){0.8, 0, 0.5, 1.3},
                                 &v->part[v->n_part++].at));
  v->part[0].share = 0.6, v->part[1].share = 0.4;
  atvi_rng r = atvi_math_rng_at(9, ATVI_STREAM_TEST, 0, 0);
  for (int k = 0; k < 2; k++)
    for (atvi_idx i = 0; i < v->size; i++) v->part[k].at.phi[i] += 0.04 * atvi_math_rng_normal(&r);
  double step[4] = {0.3, 0.3, 0.3, 0.3}, x[2 * L], q[2][L];
  void *work[2];
  for (int k = 0; k < 2; k++) CHECK_OK(v->family.ops->work_new(v->family.self, v->ctx, L, &work[k]));
  atvi_exact_moves moves = {.v = v, .n_part = 2, .work = work, .step = step, .leaps = 4};
  atvi_exact_group g = {0};
  set_lines(&moves);
  CHECK(atvi_infer_exact_group_make(v->pool, 2, 2, &g));
  for (int i = 0; i < 2 * L; i++) x[i] = atvi_math_rng_normal(&r);
  atvi_infer_exact_place(&moves, &g, 0, x);
  for (uint32_t n = 1; n < 30; n++) {
    atvi_infer_exact_step(&moves, &g, 0, n);
    for (int k = 0; k < 2; k++)
      atvi_infer_elbo_log_q(v->elbo, &v->part[k].at, true, &(atvi_cloud){.cap = L, .x = g.now.x}, L, q[k]);
    for (int i = 0; i < L; i++) {
      double mix = log(0.6 * exp(q[0][i]) + 0.4 * exp(q[1][i])), point[2], slope[2];
      atvi_outcome fine = ATVI_RUN_OK;
      CHECK_ABS(g.now.log_q[i], mix, 1e-9 * (1 + fabs(mix)));
      const atvi_member *c = &moves.spread;
      double a = (g.now.x[i] - c->shift[0]) / c->chol[0];
      double b = (g.now.x[L + i] - c->shift[1] - c->chol[2] * a) / c->chol[3];
      double heavy = exp(moves.log_heavy) / pow(1 + 0.5 * (a * a + b * b), 2);
      CHECK_ABS(g.now.log_jump[i], log(0.9 * exp(mix) + 0.1 * heavy), 1e-9 * (1 + fabs(mix)));
      for (int j = 0; j < 2; j++) point[j] = g.now.theta[j * L + i];
      CHECK_ABS(g.now.log_lik[i], banana(&t, point, slope, &fine), 1e-9);
      CHECK_ABS(g.now.log_pi[i], g.now.log_lik[i] + log(v->space->map[0].scale * v->space->map[1].scale),
                1e-9);
      for (int j = 0; j < 2; j++) CHECK_ABS(g.now.x[j * L + i], g.now.theta[j * L + i], 1e-9);
    }
  }
  for (int k = 0; k < 2; k++) v->family.ops->work_free(work[k]);
  inside_free(w);
}

/* ---- how it ends ---- */

static void threads_do_not_matter(void) {
  fitted f[2];
  for (int k = 0; k < 2; k++) {
    toy t = {.lik = two_modes};
    toy_set(&t, 2, -10, 10);
    atvi_vi_opts o = atvi_infer_vi_defaults();
    o.exact = ATVI_EXACT_ON;
    f[k] = fit_on(&t, &o, k + 1);
  }
  CHECK_INT(f[0].d->n, f[1].d->n);
  CHECK(memcmp(f[0].d->x, f[1].d->x, (size_t)(f[0].d->n * f[0].d->n_col) * sizeof(double)) == 0);
  CHECK(f[0].d->made->log_evidence == f[1].d->made->log_evidence);
  CHECK(f[0].d->made->log_evidence_se == f[1].d->made->log_evidence_se);
  for (int k = 0; k < 2; k++) atvi_draws_free(f[k].d), atvi_ctx_free(f[k].ctx);
  CHECK_INT(test_live, 0);
}

/* N(0.3 j, 1/50). */
static double narrow(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)o;
  double sum = 0;
  for (atvi_idx j = 0; j < t->target.d; j++) {
    double e = (x[j] - 0.3 * (double)j) * 50;
    g[j] = -50 * e;
    sum -= 0.5 * e * e;
  }
  return sum;
}

/* A q that was hardly trained is nowhere near a narrow posterior. The chains get there, and the evidence,
 * which needs both, is not made up. */
static void evidence_is_not_made_up(void) {
  toy t = {.lik = narrow};
  atvi_vi_opts o = atvi_infer_vi_defaults();
  toy_set(&t, 3, -10, 10);
  o.exact = ATVI_EXACT_ON;
  o.max_steps = 1;
  o.exact_iter = 1500;
  fitted f = fit_on(&t, &o, 2);
  CHECK(f.d->made->exact == 1 && isnan(f.d->made->log_evidence) && isnan(f.d->made->log_evidence_se));
  CHECK_ABS(atvi_math_mean(f.d->n, f.d->x + 2 * f.d->n, NULL), 0.6, 0.005);
  fitted_free(f);
}

static void limit_is_told(void) {
  toy t = heavy_tails();
  toy_set(&t, 7, -HUGE_VAL, HUGE_VAL);
  atvi_vi_opts o = poor();
  o.exact_iter = 20;
  fitted f = fit_on(&t, &o, 2);
  CHECK(f.d->made->exact == 1 && f.d->chains);
  CHECK_INT(f.d->made->end, ATVI_END_LIMIT);
  /* Up to an eighth of the iterations comes before the last chain has arrived. */
  CHECK(f.d->n <= 20 * ATVI_EXACT_CHAINS && f.d->n >= 18 * ATVI_EXACT_CHAINS &&
        f.d->n % ATVI_EXACT_CHAINS == 0);
  fitted_free(f);
  o.exact_iter = 3; /* too few to be draws: the approximation as it is */
  f = fit_on(&t, &o, 2);
  CHECK(!(f.d->made->exact > 0) && f.d->weight);
  CHECK_INT(f.d->made->end, ATVI_END_LIMIT);
  fitted_free(f);
}

static void more_can_be_asked_for(void) {
  toy t = {.lik = banana, .no_prior = true};
  toy_set(&t, 2, -HUGE_VAL, HUGE_VAL);
  atvi_vi_opts o = atvi_infer_vi_defaults();
  o.exact = ATVI_EXACT_ON;
  o.ess = 20000;
  fitted f = fit_on(&t, &o, 2);
  CHECK(f.d->made->ess_wanted == 20000 && judge(f.d, 0).ess > 15000);
  fitted_free(f);
}

typedef struct {
  bool sampling, judged; /* it has begun; it has come to a checkpoint */
  bool late;             /* stop after a checkpoint */
} stopper;

static void watch(void *user, const atvi_progress *p) {
  stopper *s = user;
  s->sampling = s->sampling || strcmp(p->phase, "exact sampler") == 0;
  s->judged = s->judged || (s->sampling && !isnan(p->ess));
}

static bool stop_there(void *user) {
  const stopper *s = user;
  return s->late ? s->judged : s->sampling;
}

/* In the warm-up, or as soon after it as messages come, and when chains have been judged. */
static void stopping_is_heard(void) {
  for (int k = 0; k < 2; k++) {
    toy t = heavy_tails();
    toy_set(&t, 7, -HUGE_VAL, HUGE_VAL);
    atvi_vi_opts o = poor();
    o.exact = ATVI_EXACT_ON;
    o.ess = 90000; /* long enough to be stopped */
    fitted f = {.ctx = test_ctx()};
    atvi_evaluator *ev;
    stopper s = {.late = k};
    atvi_ctx_set_threads(f.ctx, 2);
    atvi_ctx_set_progress(f.ctx, watch, &s);
    atvi_ctx_set_stop(f.ctx, stop_there, &s);
    CHECK_OK(atvi_model_evaluator_new(f.ctx, &t.target, &ev));
    CHECK_OK(atvi_infer_vi_run(f.ctx, ev, &o, &f.d));
    atvi_model_evaluator_free(ev);
    CHECK(s.sampling);
    CHECK_INT(f.d->made->end, ATVI_END_STOPPED);
    CHECK_MSG(k ? f.d->made->exact > 0 : !s.judged, "case %d: exact %g", k, f.d->made->exact);
    fitted_free(f);
  }
}

static void wrong_options_are_refused(void) {
  toy t = {.lik = banana, .no_prior = true};
  toy_set(&t, 2, -HUGE_VAL, HUGE_VAL);
  atvi_ctx *ctx = test_ctx();
  atvi_evaluator *ev;
  atvi_draws *d;
  CHECK_OK(atvi_model_evaluator_new(ctx, &t.target, &ev));
  atvi_vi_opts o = atvi_infer_vi_copula_defaults();
  CHECK(o.exact == ATVI_EXACT_OFF && atvi_infer_vi_nf_defaults().exact == ATVI_EXACT_OFF);
  o.exact = ATVI_EXACT_ON;
  CHECK_STATUS(atvi_infer_vi_run(ctx, ev, &o, &d), ATVI_EINVAL);
  CHECK(!d && strstr(atvi_errmsg(ctx), "not a copula") != NULL);
  o = atvi_infer_vi_defaults();
  o.exact_iter = 0;
  CHECK_STATUS(atvi_infer_vi_run(ctx, ev, &o, &d), ATVI_EINVAL);
  CHECK(!d && strstr(atvi_errmsg(ctx), "exact_iter = 0") != NULL);
  atvi_fit_opts f = atvi_fit_defaults();
  atvi_fit_plan plan;
  CHECK_STR(f.exact, "auto");
  f.exact = "perhaps";
  CHECK_STATUS(atvi_infer_fit_check(ctx, &f, &plan), ATVI_EINVAL);
  CHECK(strstr(atvi_errmsg(ctx), "exact perhaps: want auto, on or off") != NULL);
  f.exact = "on";
  CHECK_OK(atvi_infer_fit_check(ctx, &f, &plan));
  f.method = "ram";
  CHECK_STATUS(atvi_infer_fit_check(ctx, &f, &plan), ATVI_EINVAL);
  CHECK(strstr(atvi_errmsg(ctx), "exact is a setting of method atvi") != NULL);
  atvi_model_evaluator_free(ev);
  atvi_ctx_free(ctx);
}

static void survives_faults(void) {
  int refused = 0;
  for (int k = 1;; k++) {
    toy t = {.lik = toy_unit};
    toy_set(&t, 1, -4, 4);
    atvi_vi_opts o = atvi_infer_vi_defaults();
    o.exact = ATVI_EXACT_ON;
    o.max_steps = 10; /* the sampler does not mind */
    o.exact_iter = 20;
    atvi_ctx *ctx = test_ctx();
    atvi_evaluator *ev;
    atvi_draws *d = (atvi_draws *)&t;
    atvi_ctx_set_threads(ctx, 1);
    CHECK_OK(atvi_model_evaluator_new(ctx, &t.target, &ev));
    long live = test_live;
    test_fail_at = test_allocs + k;
    atvi_status status = atvi_infer_vi_run(ctx, ev, &o, &d);
    bool over = test_allocs < test_fail_at;
    test_fail_at = 0;
    if (status != ATVI_OK) {
      CHECK_STATUS(status, ATVI_ENOMEM);
      CHECK(d == NULL);
      CHECK_INT(test_live, live);
      refused++;
    }
    atvi_draws_free(d);
    atvi_model_evaluator_free(ev);
    atvi_ctx_free(ctx);
    CHECK_INT(test_live, 0);
    if (over) {
      CHECK_OK(status);
      break;
    }
  }
  CHECK(refused > 15);
}

TESTS({"invariant", moves_leave_the_target_alone}, {"tails", tails_stay_as_they_are},
      {"densities", densities_agree}, {"funnel", funnel_run}, {"banana", banana_run},
      {"two_modes", two_modes_run}, {"truncated", truncated_run}, {"takes_over", takes_over_by_itself},
      {"threads", threads_do_not_matter}, {"limit", limit_is_told}, {"no_evidence", evidence_is_not_made_up},
      {"ess", more_can_be_asked_for}, {"stop", stopping_is_heard}, {"refuse", wrong_options_are_refused},
      {"faults", survives_faults})
