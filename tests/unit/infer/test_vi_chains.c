/* SPDX-License-Identifier: MIT */
/* What a fit does where weights cannot correct the approximation: a component where one draw outweighs the
 * others, nuts or the exact sampler. Means, sds and evidence are compared with exact ones, in their own
 * standard errors. */
#include "infer/fit.h"
#include "vi_world.h"

#define SEEDS ((uint64_t)test_seeds(2, 4))

/* ---- a spike on a plain ---- */

static const double LEFT = 0.3, WIDTH = 1e-4, HEIGHT = 20;

/* e^20 on an interval of 1e-4, 1 elsewhere: no gradient leads there. */
static double spike(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)t, (void)g, (void)o;
  return x[0] > LEFT && x[0] < LEFT + WIDTH ? HEIGHT : 0;
}

/* The mass is that of the interval, e^20 1e-4 = 48 517 times that of the plain. Either it is found and right,
 * or the weights are refused: no fit may have seen it and report the plain. */
static void a_spike_that_was_seen_is_right(void) {
  toy t = {.lik = spike};
  toy_set(&t, 1, 0, 1);
  double mass = exp(HEIGHT) * WIDTH, all = mass + 1 - WIDTH, log_z = log(all);
  double mean = (mass * (LEFT + WIDTH / 2) + 0.5 - WIDTH * LEFT) / all;
  double square = (mass * pow(LEFT + WIDTH / 2, 2) + 1.0 / 3 - WIDTH * LEFT * LEFT) / all,
         sd = sqrt(square - mean * mean);
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    atvi_vi_opts o = atvi_infer_vi_defaults();
    o.seed = seed;
    fitted f = fit_on(&t, &o, 2);
    double best = -HUGE_VAL;
    for (atvi_idx i = 0; i < f.d->n; i++) best = fmax(best, f.d->log_lik[i]);
    if (best == HEIGHT) {
      CHECK_MSG(fabs(f.d->made->log_evidence - log_z) < 4 * f.d->made->log_evidence_se + 1e-4,
                "seed %d: log evidence %.4f +- %.4f, not %.4f", (int)seed, f.d->made->log_evidence,
                f.d->made->log_evidence_se, log_z);
      CHECK_ABS(fit_mean(f.d, 0), mean, 1e-4);
      CHECK_REL(fit_sd(f.d, 0), sd, 0.1);
      CHECK(f.d->made->top_weight < 0.01);
    }
    CHECK_MSG(best == HEIGHT, "seed %d: the spike was not seen", (int)seed);
    fitted_free(f);
  }
}

/* ---- nuts takes over ---- */

/* A product of Gumbel densities: mean 0.5772, sd pi / sqrt(6). */
static double gumbel(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)o;
  double sum = 0;
  for (atvi_idx j = 0; j < t->target.d; j++) {
    sum -= x[j] + exp(-x[j]);
    g[j] = exp(-x[j]) - 1;
  }
  return sum;
}

/* Pairs: x normal, y within NEAR of its square. Far out the ridge is so narrow for its length that steps
 * which are right elsewhere diverge. */
static const double NEAR = 0.2;
static double bananas(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)o;
  double sum = 0;
  for (atvi_idx j = 0; j < t->target.d; j += 2) {
    double off = (x[j + 1] - x[j] * x[j]) / NEAR;
    sum -= 0.5 * x[j] * x[j] + 0.5 * off * off;
    g[j] = -x[j] + 2 * x[j] * off / NEAR;
    g[j + 1] = -off / NEAR;
  }
  return sum;
}

/* A fit whose training ends after its first round. */
static fitted untrained_on(atvi_ctx *ctx,
                           double (*lik)(const toy *, const double *, double *, atvi_outcome *), atvi_idx d,
                           uint64_t seed, int threads) {
  toy t = {.lik = lik, .no_prior = true};
  fitted f = {.ctx = ctx};
  atvi_evaluator *ev;
  toy_set(&t, d, -HUGE_VAL, HUGE_VAL);
  atvi_vi_tuning tuning = atvi_infer_vi_tuning_defaults();
  tuning.halvings = 0, tuning.gain = 1e6, tuning.improve_times = 0;
  atvi_vi_opts o = atvi_infer_vi_defaults();
  o.seed = seed;
  o.tune = ATVI_TUNE_OFF;
  o.seek_modes = false;
  o.tuning = &tuning;
  atvi_ctx_set_threads(ctx, threads);
  CHECK_OK(atvi_model_evaluator_new(ctx, &t.target, &ev));
  CHECK_OK(atvi_infer_vi_run(ctx, ev, &o, &f.d));
  atvi_model_evaluator_free(ev);
  return f;
}

static fitted untrained(double (*lik)(const toy *, const double *, double *, atvi_outcome *), atvi_idx d,
                        uint64_t seed, int threads) {
  return untrained_on(test_ctx(), lik, d, seed, threads);
}

static bool says(const atvi_draws *d, atvi_code code) {
  for (atvi_idx i = 0; i < d->n_message; i++)
    if (d->message[i].code == code) return true;
  return false;
}

/* q as the first round of training leaves it is too poor for weights; gradients are good. */
static void nuts_takes_over(void) {
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    fitted f = untrained(gumbel, 12, seed, 2);
    const atvi_draws *d = f.d;
    const atvi_made *m = d->made;
    CHECK_MSG(m->exact == 1 && says(d, ATVI_CODE_NUTS_NEEDED), "seed %d: k-hat %.2f, exact %g", (int)seed,
              m->khat, m->exact);
    CHECK(d->chains && !d->weight && d->n_chain == 16 && m->end == ATVI_END_DONE &&
          strcmp(m->method, "atvi") == 0);
    CHECK(m->divergences == 0 && m->tree_depth > 0);
    for (atvi_idx j = 0; j < 12; j++) { /* some 1 000 effective draws or more */
      CHECK_ABS(fit_mean(d, j), 0.57721566, 5 * 1.2825 / sqrt(1000));
      CHECK_REL(fit_sd(d, j), 1.28254983, 0.12);
    }
    if (isfinite(m->log_evidence)) CHECK_ABS(m->log_evidence, 0, 4 * m->log_evidence_se);
    fitted_free(f);
  }
}

/* Trajectories that diverged are followed with smaller steps, and then there are none. Two pairs take the
 * same way through the code as six. */
static void smaller_steps_where_some_diverge(void) {
  const atvi_idx d = TEST_SANITIZED ? 4 : 12;
  for (uint64_t seed = 2; seed < 2 + (uint64_t)test_seeds(1, 3); seed++) {
    fitted f = untrained(bananas, d, seed, 2);
    const atvi_made *m = f.d->made;
    CHECK_MSG(says(f.d, ATVI_CODE_NUTS_NEEDED) && m->divergences == 0 && m->end == ATVI_END_DONE,
              "seed %d: %g divergences, acceptance %g", (int)seed, m->divergences, m->accept);
    /* With some 1 000 effective draws, the relative standard error of an sd is sqrt((kurtosis - 1) / 4000).
     * The kurtosis is 3 for the normals and nearly 15 for their squares, whose sds are therefore also judged
     * by their mean. */
    double mean_ratio = 0;
    for (atvi_idx j = 0; j < d; j++) {
      double sd = j % 2 ? sqrt(2 + NEAR * NEAR) : 1, se = sqrt((j % 2 ? 14.0 : 2.0) / 4000);
      CHECK_ABS(fit_mean(f.d, j), j % 2, 5 * sd / sqrt(1000));
      CHECK_REL(fit_sd(f.d, j), sd, 4 * se);
      if (j % 2) mean_ratio += fit_sd(f.d, j) / sd / (double)(d / 2);
    }
    CHECK_REL(mean_ratio, 1, 4 * sqrt(14.0 / 4000 / (double)(d / 2)));
    fitted_free(f);
  }
}

/* Reports of chains that were judged, and those of them that say how long it will still take. */
typedef struct {
  int judged, with_time;
} heard;

static void hear(void *user, const atvi_progress *p) {
  heard *h = user;
  if (strcmp(p->phase, "nuts") != 0 || isnan(p->rhat)) return;
  h->judged++;
  h->with_time += p->left_s > 0 && p->done > 0 && p->done < 1;
}

static void the_time_left_is_that_of_the_chains(void) {
  heard h = {0};
  atvi_ctx *ctx = test_ctx();
  atvi_ctx_set_progress(ctx, hear, &h);
  fitted_free(untrained_on(ctx, bananas, 4, 2, 2));
  CHECK(h.judged > 0 && h.with_time == h.judged);
}

static void threads_do_not_matter(void) {
  fitted a = untrained(gumbel, 12, 3, 1), b = untrained(gumbel, 12, 3, 3);
  CHECK(a.d->n == b.d->n && a.d->made->evaluations == b.d->made->evaluations);
  CHECK(memcmp(a.d->x, b.d->x, (size_t)(12 * a.d->n) * sizeof *a.d->x) == 0);
  atvi_draws_free(a.d);
  atvi_ctx_free(a.ctx);
  fitted_free(b);
}

TESTS({"spike", a_spike_that_was_seen_is_right}, {"nuts", nuts_takes_over},
      {"smaller_steps", smaller_steps_where_some_diverge}, {"threads", threads_do_not_matter},
      {"time_left", the_time_left_is_that_of_the_chains})
