/* SPDX-License-Identifier: MIT */
/* Training: a ladder of tempered posteriors that chooses itself, then rounds at temperature 1.
 *
 * Ladder  From beta = 0. The next beta is where the conditional effective sample size of the current draws falls to
 *         CESS of their number. A rung has RUNG_STEPS steps; whether they helped is seen on draws that the next choice
 *         needs anyway, against the draws before, both weighed at the new beta.
 * Rounds  ROUND steps each. The average of the iterates is judged on test draws whose base points are always the same,
 *         so that the difference between two rounds has little noise, and that noise is known. A round that made it worse
 *         is undone and the step halved: this is how the step is searched, from above. A round whose gain does not stand out
 *         of the noise halves the step too; training ends when that has happened often enough.
 * Tuning  With smoothed weights: a few small steps on the forward divergence KL(p || q), whose gradient is that of the
 *         weights, held constant, times the path gradient of log pi - log q. It widens q where the posterior is wider, which is
 *         what k-hat complains of. (Weights times the full gradient, as the method was published, have expectation
 *         zero.) Fresh draws, the same before and after, judge it, and it is undone unless they are worth more. */
#include "infer/vi_state.h"
#include "math/rng.h"
#include "math/stat/stat.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
  LADDER_DRAWS = 256,
  RUNG_STEPS = 10,
  RUNGS_MAX = 400,
  ROUND = 50,   /* steps; more in few dimensions, where they cost little and the shape at a bound shows */
  HALVINGS = 4, /* of the step before training ends */
  HALVINGS_HOT = 1,
  SETTLE = 2, /* rounds */
};
#define CESS 0.5
#define TRIM 0.05
#define STEP_FIRST 0.01
#define STEP_LEAST 1e-4
#define STEP_ROUND 0.005
#define AGAIN 2.0 /* times the step that the ladder ended with: its judgement is rough */
#define CLIP 10.0 /* length of the gradient */
#define GAIN 0.01 /* nats per round that are worth a round */
#define GAIN_MOST                                                                                            \
  0.2            /* the same for a component with next to no share: its weights must not be wild either */
#define SURE 1.0 /* standard errors */
static const uint32_t TEST_SCRAMBLE = UINT32_MAX;

static void one_step(atvi_vi *v, atvi_member *m, double beta, atvi_idx first, atvi_idx last) {
  atvi_elbo_info info = atvi_elbo_grad(v->elbo, m, beta, v->scramble++, v->grad);
  v->steps++;
  double norm = 0;
  for (atvi_idx i = 0; i < v->size; i++) {
    if (i < first || i >= last) v->grad[i] = 0;
    norm += v->grad[i] * v->grad[i];
  }
  norm = sqrt(norm);
  for (atvi_idx i = 0; i < v->size && norm > CLIP; i++) v->grad[i] *= CLIP / norm;
  atvi_adam_set_step(v->adam, v->step);
  if (info.good > 0) atvi_adam_step(v->adam, m->phi, v->grad);
}

/* ---- ladder ---- */

/* Conditional effective sample size, as a share of n, of a step in beta. */
static double cess(const atvi_cloud *c, atvi_idx n, double step) {
  double top = -HUGE_VAL, sum = 0, sum_sq = 0;
  for (atvi_idx j = 0; j < n; j++)
    if (isfinite(c->log_pi[j])) top = fmax(top, step * (c->log_pi[j] - c->log_base[j]));
  if (!isfinite(top)) return 0;
  for (atvi_idx j = 0; j < n; j++)
    if (isfinite(c->log_pi[j])) {
      double w = exp(step * (c->log_pi[j] - c->log_base[j]) - top);
      sum += w;
      sum_sq += w * w;
    }
  return sum * sum / (sum_sq * (double)n);
}

/* The share that counts as enough is of the draws that could be evaluated. */
static double next_beta(const atvi_cloud *c, atvi_idx n, double beta) {
  atvi_idx good = 0;
  for (atvi_idx j = 0; j < n; j++) good += isfinite(c->log_pi[j]);
  double enough = CESS * (double)good / (double)n, low = 0, high = 1 - beta;
  if (cess(c, n, high) >= enough) return 1;
  for (int k = 0; k < 60; k++) {
    double mid = low > 0 ? 0.5 * (low + high) : 0.1 * high;
    if (cess(c, n, mid) >= enough)
      low = mid;
    else
      high = mid;
  }
  return beta + (low > 0 ? low : high);
}

typedef struct {
  double mean, se;
  double good; /* share of the draws that could be evaluated; its logarithm is part of the mean (elbo.c) */
} average;

static double gap(const atvi_cloud *c, atvi_idx j, double beta) {
  double g = c->log_base[j] + beta * (c->log_pi[j] - c->log_base[j]) - c->log_q[j];
  return isfinite(g) ? g : NAN;
}

/* Mean of the gaps of the look cloud without the lowest TRIM of them: early on a few draws are so far out that nothing
 * else would be seen. */
static average mean_gap(atvi_vi *v, atvi_idx n, double beta) {
  atvi_idx good = 0;
  double *x = v->weight, sum = 0, sum_sq = 0;
  for (atvi_idx j = 0; j < n; j++) {
    double g = gap(&v->look, j, beta);
    if (!isnan(g)) x[good++] = g;
  }
  atvi_sort(good, x, NULL, x + good);
  atvi_idx from = (atvi_idx)(TRIM * (double)good);
  double count = (double)(good - from);
  for (atvi_idx j = from; j < good; j++) {
    sum += x[j];
    sum_sq += x[j] * x[j];
  }
  double mean = sum / count;
  double share = (double)good / (double)n;
  return (average){mean + log(share), sqrt(fmax(0, sum_sq / count - mean * mean) / count), share};
}

/* elbo: at temperature 1 / beta. */
static void tell(atvi_vi *v, const atvi_member *m, const char *phase, double done, double beta, double elbo) {
  char detail[96];
  atvi_idx part = 0;
  while (part < v->n_part - 1 && &v->part[part].at != m) part++;
  if (beta < 1)
    snprintf(detail, sizeof detail, "temperature %.3g, %d steps", 1 / beta, v->steps);
  else
    snprintf(detail, sizeof detail, "ELBO %.3f, %d steps", elbo, v->steps);
  v->told = fmax(v->told, done);
  atvi_tell_about(v->ctx, &(atvi_progress){.phase = phase,
                                           .done = v->told,
                                           .elapsed_s = atvi_clock_s() - v->begun_s,
                                           .detail = detail,
                                           .steps = v->steps,
                                           .temperature = 1 / beta,
                                           .elbo = elbo,
                                           .part = (double)part + 1,
                                           .khat = NAN,
                                           .rhat = NAN,
                                           .ess = NAN});
}

static void ladder_draws(atvi_vi *v, atvi_member *m) {
  atvi_vi_look(v, m, ATVI_STREAM_TRAIN, v->scramble++, false, LADDER_DRAWS);
}

/* On the ladder half a batch does: what counts there is the number of steps. */
static void half_batch(atvi_vi *v, bool half) {
  atvi_idx n = v->opts.batch;
  atvi_elbo_set_batch(v->elbo, half && n >= 4 * ATVI_LANES ? n / 2 / ATVI_LANES * ATVI_LANES : n);
}

bool atvi_vi_climb(atvi_vi *v, atvi_member *m) {
  size_t bytes = (size_t)v->size * sizeof(double);
  double beta = 0;
  v->step = STEP_FIRST;
  half_batch(v, true);
  atvi_adam_reset(v->adam);
  ladder_draws(v, m);
  for (int rung = 0; rung < RUNGS_MAX; rung++) {
    double next = next_beta(&v->look, LADDER_DRAWS, beta);
    v->rungs++;
    if (atvi_vi_reframe(v, m, LADDER_DRAWS, next - beta, false)) {
      atvi_adam_reset(v->adam);
      ladder_draws(v, m);
    }
    v->beta = beta;
    if (next >= 1) {
      atvi_vi_slopes(v, LADDER_DRAWS);
      return true;
    }
    average before = mean_gap(v, LADDER_DRAWS, next);
    memcpy(v->best, m->phi, bytes);
    for (int k = 0; k < RUNG_STEPS; k++) {
      if (atvi_vi_over(v)) return false;
      one_step(v, m, next, 0, v->size);
    }
    ladder_draws(v, m);
    average after = mean_gap(v, LADDER_DRAWS, next);
    bool better = after.mean > before.mean - 2 * SURE * hypot(before.se, after.se);
    if (!better && v->step > STEP_LEAST) {
      v->step *= 0.5;
      memcpy(m->phi, v->best, bytes);
      atvi_adam_reset(v->adam);
      ladder_draws(v, m);
      continue;
    }
    beta = next;
    bool moved = atvi_vi_home(v, m, LADDER_DRAWS) > 0;
    atvi_vi_slopes(v, LADDER_DRAWS);
    if (moved) ladder_draws(v, m);
    tell(v, m, "annealing", 0.2 * sqrt(beta), beta, after.mean);
  }
  return false; /* so many temperatures lead nowhere */
}

/* ---- rounds ---- */

static void measure(atvi_vi *v, const atvi_member *m, double *phi, double beta, double *out) {
  atvi_member at = *m;
  at.phi = phi;
  atvi_vi_look(v, &at, ATVI_STREAM_TRAIN, TEST_SCRAMBLE, false, ATVI_VI_TEST);
  for (atvi_idx j = 0; j < ATVI_VI_TEST; j++) out[j] = gap(&v->look, j, beta);
}

/* Mean of b - a (a NULL: of b) where both are numbers, its standard error, and the variance of the terms. */
static average difference(const double *a, const double *b, double *var) {
  double sum = 0, sum_sq = 0, n = 0;
  for (int j = 0; j < ATVI_VI_TEST; j++) {
    double x = b[j] - (a ? a[j] : 0);
    if (isnan(x)) continue;
    n++;
    sum += x;
    sum_sq += x * x;
  }
  double mean = sum / n;
  *var = fmax(0, sum_sq / n - mean * mean);
  return (average){mean, sqrt(*var / n), n / ATVI_VI_TEST};
}

static int round_steps(atvi_idx d) { return d == 1 ? 8 * ROUND : d < 4 ? 4 * ROUND / (int)d : ROUND; }

/* The average of iterates remembers about a round. */
static bool one_round(atvi_vi *v, atvi_member *m, const atvi_vi_rounds_opts *o, int *age) {
  int n = round_steps(v->d);
  for (int k = 0; k < n; k++) {
    if (atvi_vi_over(v)) return false;
    one_step(v, m, o->beta, o->first, o->last);
    double keep = fmin(1 - 1.0 / n, 1 - 2.0 / (++*age + 1));
    for (atvi_idx i = 0; i < v->size; i++) v->avg[i] = keep * v->avg[i] + (1 - keep) * m->phi[i];
  }
  return true;
}

bool atvi_vi_rounds(atvi_vi *v, atvi_member *m, const atvi_vi_rounds_opts *o) {
  size_t bytes = (size_t)v->size * sizeof(double);
  int halved = 0, age = 0;
  bool done = true;
  double worth = o->share > 0 ? fmin(GAIN / o->share, GAIN_MOST) : GAIN;
  half_batch(v, false);
  v->step = fmin(STEP_ROUND, AGAIN * v->step);
  atvi_adam_reset(v->adam);
  memcpy(v->best, m->phi, bytes);
  memcpy(v->avg, m->phi, bytes);
  measure(v, m, v->best, o->beta, v->gap_best);
  double var, good = difference(NULL, v->gap_best, &var).good;
  for (int k = 0; k < o->most && halved <= o->halvings; k++) {
    done = one_round(v, m, o, &age);
    if (!done && age == 0) break;
    measure(v, m, v->avg, o->beta, v->gap_now);
    if (o->enough && o->enough(v)) {
      memcpy(v->best, v->avg, bytes);
      break;
    }
    average gain = difference(v->gap_best, v->gap_now, &var), now = difference(NULL, v->gap_now, &var);
    tell(v, m, "training", 0.2 + 0.6 * halved / (o->halvings + 1.0), o->beta, now.mean);
    gain.mean += log(now.good / good);
    if (!(gain.mean > -2 * SURE * gain.se)) { /* worse, or not a number */
      memcpy(m->phi, v->best, bytes);
      memcpy(v->avg, v->best, bytes);
      atvi_adam_reset(v->adam);
      age = 0;
      v->step *= 0.5;
      halved++;
    } else {
      good = now.good;
      atvi_vi_home(v, m, ATVI_VI_TEST); /* raises log w, if anything: the gaps are then those of a worse q */
      memcpy(v->best, v->avg, bytes);
      memcpy(v->gap_best, v->gap_now, sizeof(double) * ATVI_VI_TEST);
      if (gain.mean < fmax(SURE * gain.se, worth * ROUND / round_steps(v->d))) {
        v->step *= 0.5;
        halved++;
      }
    }
    if (!done) break;
  }
  memcpy(m->phi, v->best, bytes);
  return done;
}

/* ---- both ---- */

/* A few rounds after which slopes know the size of q. */
static bool settle(atvi_vi *v, atvi_member *m, const atvi_vi_rounds_opts *opts) {
  bool folds = false;
  atvi_vi_rounds_opts o = *opts;
  double step = v->step;
  for (atvi_idx i = 0; i < v->d; i++) folds = folds || v->space->map[i].kind == ATVI_MAP_SURJECTION;
  if (!folds) return true;
  o.most = SETTLE;
  if (!atvi_vi_rounds(v, m, &o)) return false;
  v->step = step;
  ladder_draws(v, m);
  atvi_vi_slopes(v, LADDER_DRAWS);
  return true;
}

/* Given temperatures: all layers at each, or a block of layers for each, earlier ones frozen and later ones still the identity. */
static bool given_ladder(atvi_vi *v, atvi_member *m) {
  int n = v->opts.n_rung;
  for (int k = 0; k < n; k++) {
    bool last = k == n - 1;
    atvi_vi_rounds_opts o = {
        1 / v->opts.temperature[k], INT32_MAX, last ? HALVINGS : HALVINGS_HOT, 0, v->size, 0, NULL};
    if (v->opts.freeze) {
      atvi_idx skip;
      o.halvings = HALVINGS;
      atvi_family_block(&v->family, k * v->family.blocks / n, &o.first, &skip);
      atvi_family_block(&v->family, (k + 1) * v->family.blocks / n - 1, &skip, &o.last);
    }
    v->rungs++;
    if (!settle(v, m, &o) || !atvi_vi_rounds(v, m, &o)) return false;
  }
  return true;
}

bool atvi_vi_train_more(atvi_vi *v, atvi_member *m, double share, bool (*enough)(atvi_vi *)) {
  return atvi_vi_rounds(v, m, &(atvi_vi_rounds_opts){1, INT32_MAX, HALVINGS, 0, v->size, share, enough});
}

bool atvi_vi_train(atvi_vi *v, atvi_member *m) {
  atvi_vi_rounds_opts o = {1, INT32_MAX, HALVINGS, 0, v->size, 0, NULL};
  v->step = STEP_FIRST;
  if (v->opts.n_rung > 0) return given_ladder(v, m);
  return atvi_vi_climb(v, m) && atvi_vi_choose_maps(v, m) && atvi_vi_rounds(v, m, &o);
}

/* ---- fine-tuning ---- */

enum { TUNE_STEPS = 40, TUNE_DRAWS = 512 };
#define TUNE_STEP 5e-4
#define TUNE_CLIP 1.0
#define TUNE_AVERAGE 0.9
#define SAME 0.995 /* effective sizes in this ratio are no difference: k-hat decides */

bool atvi_vi_tune(atvi_vi *v, atvi_member *m) {
  size_t bytes = (size_t)v->size * sizeof(double);
  uint32_t fresh = v->scramble++;
  atvi_elbo_room room = {v->look.theta, v->weight, v->work};
  atvi_vi_quality before = atvi_vi_judge(v, m, fresh);
  memcpy(v->best, m->phi, bytes);
  memcpy(v->avg, m->phi, bytes);
  atvi_adam_reset(v->adam);
  for (int k = 0; k < TUNE_STEPS && !atvi_vi_over(v); k++) {
    atvi_elbo_grad_forward(v->elbo, m, TUNE_DRAWS, v->scramble++, &room, v->grad);
    double norm = 0;
    for (atvi_idx i = 0; i < v->size; i++) norm += v->grad[i] * v->grad[i];
    norm = sqrt(norm);
    for (atvi_idx i = 0; i < v->size && norm > TUNE_CLIP; i++) v->grad[i] *= TUNE_CLIP / norm;
    atvi_adam_set_step(v->adam, TUNE_STEP * (1 - (double)k / TUNE_STEPS));
    atvi_adam_step(v->adam, m->phi, v->grad);
    for (atvi_idx i = 0; i < v->size; i++)
      v->avg[i] = TUNE_AVERAGE * v->avg[i] + (1 - TUNE_AVERAGE) * m->phi[i];
    v->steps++;
    atvi_vi_tell(v, "fine-tuning", 0.8, "step %d of %d", k + 1, TUNE_STEPS);
  }
  memcpy(m->phi, v->avg, bytes);
  atvi_vi_quality after = atvi_vi_judge(v, m, fresh);
  bool helped = after.share > before.share || (after.share > SAME * before.share && after.khat < before.khat);
  if (!helped) memcpy(m->phi, v->best, bytes);
  return helped;
}
