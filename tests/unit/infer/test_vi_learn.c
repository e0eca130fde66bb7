/* SPDX-License-Identifier: MIT */
/* A space with a stand-in for its likelihood, and fits to dear models, which are trained on one. */
#include "infer/space.h"
#include "infer/vi.h"
#include "math/special.h"
#include "math/stat/stat.h"
#include "toys.h"

enum { D = 6 };

/* Normal likelihoods on boxes: some centres near or beyond a bound. Neighbours are tied, softly, by a cubic term. */
static const double CENTRE[D] = {0.42, 1.03, 0.07, 0.55, 0.31, -0.02},
                    SD[D] = {0.05, 0.11, 0.06, 0.21, 0.08, 0.09};

static double boxed(const toy *t, const double *x, double *g, atvi_outcome *o) {
  double sum = 0;
  (void)o;
  for (atvi_idx j = 0; j < t->target.d; j++) {
    double z = (x[j] - CENTRE[j]) / SD[j];
    sum -= 0.5 * z * z;
    g[j] = -z / SD[j];
  }
  return sum;
}

static void set(toy *t, int d) {
  *t = (toy){.lik = boxed};
  toy_set(t, d, 0, 1);
  t->target.operations = 1e6;
}

/* log pi and its gradient with a stand-in, folds and all, by differences; and no run is counted. */
static void space_has_the_gradient_of_its_stand_in(void) {
  enum { N = 300 };
  static const char *const kinds[] = {"probit", "surjection"};
  static double u[D * N], du[D * N], value[N], weight[N];
  for (int k = 0; k < 2; k++) {
    toy t;
    atvi_ctx *ctx = test_ctx();
    atvi_evaluator *ev;
    atvi_space *s;
    atvi_stand_in *stand_in;
    double shift[D], chol[D * D] = {0}, left, theta[D], lp, up, down, dx[D], x[D];
    set(&t, D);
    CHECK_OK(atvi_model_evaluator_new(ctx, &t.target, &ev));
    CHECK_OK(atvi_infer_space_new(ctx, ev, kinds[k], 3, &s));
    CHECK_OK(atvi_infer_stand_in_new(ctx, D, &stand_in));
    static double th[D * N], dlik[D * N];
    for (int j = 0; j < N; j++) { /* points inside, by their parameters */
      atvi_rng r = atvi_math_rng_at(11, ATVI_STREAM_TEST, 0, (uint32_t)j);
      for (int i = 0; i < D; i++)
        th[i * N + j] = fmin(0.99, fmax(0.01, CENTRE[i] + SD[i] * atvi_math_rng_normal(&r)));
      weight[j] = 1;
    }
    atvi_infer_space_inv(s, N, th, u);
    static double back[D * N];
    atvi_infer_space_eval(
        s, &(atvi_space_batch){.B = N, .x = u, .beta = 1, .theta = back, .log_lik = value, .dlik = dlik});
    for (int j = 0; j < D * N; j += 17) {
      CHECK_REL(back[j], th[j], 1e-9);
      CHECK_REL(dlik[j], -(th[j] - CENTRE[j / N]) / (SD[j / N] * SD[j / N]), 1e-6);
    }
    atvi_infer_space_pull(s, N, u, dlik, du);
    for (int i = 0; i < D; i++) {
      shift[i] = atvi_math_mean(N, u + i * N, NULL);
      chol[i * D + i] = atvi_math_sd(N, u + i * N, NULL);
    }
    atvi_stand_in_data data = {N, u, du, value, weight};
    CHECK_OK(atvi_infer_stand_in_fit(stand_in, shift, chol, &data, &left));
    int64_t runs = atvi_model_evaluator_count(ev);
    s->stand_in = stand_in;
    for (int j = 0; j < 40; j++) {
      for (int i = 0; i < D; i++)
        x[i] = u[i * N + j] + (k == 1 && (i + j) % 3 == 0 ? 2.7 : 0.1); /* beyond the fold */
      atvi_infer_space_eval(
          s, &(atvi_space_batch){.B = 1, .x = x, .beta = 0.6, .theta = theta, .log_pi = &lp, .dx = dx});
      CHECK(isfinite(lp));
      for (int i = 0; i < D; i++) {
        double at = x[i], h = 1e-6;
        x[i] = at + h;
        atvi_infer_space_eval(
            s, &(atvi_space_batch){.B = 1, .x = x, .beta = 0.6, .theta = theta, .log_pi = &up});
        x[i] = at - h;
        atvi_infer_space_eval(
            s, &(atvi_space_batch){.B = 1, .x = x, .beta = 0.6, .theta = theta, .log_pi = &down});
        x[i] = at;
        CHECK_ABS(dx[i], (up - down) / (2 * h), 1e-4 * (1 + fabs(dx[i])));
      }
    }
    CHECK(atvi_model_evaluator_count(ev) == runs);
    atvi_infer_stand_in_free(stand_in);
    atvi_infer_space_free(s);
    atvi_model_evaluator_free(ev);
    atvi_ctx_free(ctx);
    CHECK_INT(test_live, 0);
  }
}

static atvi_draws *fit(const toy *t, uint64_t seed, int threads) {
  atvi_ctx *ctx = test_ctx();
  atvi_evaluator *ev;
  atvi_draws *d;
  atvi_vi_opts o = atvi_infer_vi_defaults();
  o.seed = seed;
  atvi_ctx_set_threads(ctx, threads);
  CHECK_OK(atvi_model_evaluator_new(ctx, &t->target, &ev));
  CHECK_OK(atvi_infer_vi_run(ctx, ev, &o, &d));
  atvi_model_evaluator_free(ev);
  return d;
}

static void shut(atvi_draws *d) {
  atvi_ctx *ctx = d->ctx;
  atvi_draws_free(d);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* Truncated normals: evidence and means are known. Most fits take no ladder, and few runs: 20 000 to 44 000 with 21 seeds of 24, at most 100 000; training on the
 * model takes more than 60 000. */
static void dear_models_are_learned(void) {
  double log_z = 0, mean[D];
  for (int i = 0; i < D; i++) {
    double a = -CENTRE[i] / SD[i], b = (1 - CENTRE[i]) / SD[i],
           mass = 0.5 * (erfc(-b / sqrt(2)) - erfc(-a / sqrt(2)));
    log_z += log(SD[i] * sqrt(2 * acos(-1.0)) * mass);
    mean[i] = CENTRE[i] + SD[i] * (exp(-0.5 * a * a) - exp(-0.5 * b * b)) / sqrt(2 * acos(-1.0)) / mass;
  }
  int few = 0, n = test_seeds(5, 20);
  for (int seed = 1; seed <= n; seed++) {
    toy t;
    set(&t, D);
    atvi_draws *d = fit(&t, (uint64_t)seed, 1);
    CHECK(d->weight && d->made->steps > 0);
    few += d->made->evaluations < 40000 && d->made->rungs == 0;
    CHECK_ABS(d->made->log_evidence, log_z, 4 * d->made->log_evidence_se + 0.003);
    for (int i = 0; i < D; i++) /* 4 000 draws: four standard errors */
      CHECK_ABS(atvi_math_mean(d->n, d->x + i * d->n, d->weight), mean[i], 0.065 * SD[i]);
    shut(d);
  }
  CHECK(2 * few > n);
}

static void threads_do_not_matter(void) {
  toy t;
  set(&t, 4);
  atvi_draws *a = fit(&t, 5, 1), *b = fit(&t, 5, 2);
  CHECK_INT(a->n, b->n);
  CHECK(memcmp(a->x, b->x, (size_t)(4 * a->n) * sizeof *a->x) == 0);
  atvi_ctx *ca = a->ctx, *cb = b->ctx;
  atvi_draws_free(a);
  atvi_draws_free(b);
  atvi_ctx_free(ca);
  atvi_ctx_free(cb);
  CHECK_INT(test_live, 0);
}

TESTS({"space", space_has_the_gradient_of_its_stand_in}, {"learned", dear_models_are_learned},
      {"threads", threads_do_not_matter})
