/* SPDX-License-Identifier: MIT */
/* Training: a ladder of tempered posteriors that chooses itself, then rounds at temperature 1.
 *
 * Ladder  From beta = 0. The next beta is where the conditional effective sample size of the current draws falls to
 *         half of their number. A rung has ten steps; whether they helped is seen on draws that the next choice
 *         needs anyway, against the draws before, both weighed at the new beta.
 * Rounds  Fifty steps each, or more. The average of the iterates is judged on test draws whose base points are always the same,
 *         so that the difference between two rounds has little noise, and that noise is known. A round that made it worse
 *         is undone and the step halved: this is how the step is searched, from above. A round whose gain does not stand out
 *         of the noise halves the step too; training ends when that has happened often enough.
 * Tuning  With smoothed weights: a few small steps on the forward divergence KL(p || q), whose gradient is that of the
 *         weights, held constant, times the path gradient of log pi - log q. It widens q where the posterior is wider, which is
 *         what k-hat complains of. (Weights times the full gradient, as the method was published, have expectation
 *         zero.) Fresh draws, the same before and after, judge it, and it is undone unless they are worth more. */
#include "infer/vi_state.h"
#include "math/optim.h"
#include "math/rng.h"
#include "math/special.h"
#include "math/stat/stat.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { HOT = 1 }; /* halvings at given temperatures above 1 */
static const uint32_t TEST_SCRAMBLE = UINT32_MAX;

/* On the ladder, twice that of rounds: speed against noise. */
static double first_step(const atvi_vi *v) { return 2 * v->tuning.step_round; }

typedef struct atvi_vi_trainer {
  atvi_adam *adam;
  double *grad, *avg, *best;  /* [size] */
  double *gap_now, *gap_best; /* [ATVI_VI_TEST] log pi - log q of the test draws */
} trainer;

atvi_status atvi_infer_vi_trainer_new(atvi_vi *v) {
  atvi_adam_opts adam = {.step = first_step(v), .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8};
  trainer *t = v->trainer = atvi_pool_take(v->pool, 1, sizeof *t);
  if (!t) return ATVI_ENOMEM;
  double **row[] = {&t->grad, &t->avg, &t->best, &t->gap_now, &t->gap_best};
  for (int k = 0; k < 5; k++)
    *row[k] = atvi_pool_take(v->pool, k < 3 ? (size_t)v->size : ATVI_VI_TEST, sizeof(double));
  if (atvi_pool_failed(v->pool)) return ATVI_ENOMEM;
  return atvi_math_adam_new(v->ctx, v->size, &adam, &t->adam);
}

void atvi_infer_vi_trainer_free(atvi_vi *v) {
  if (v->trainer) atvi_math_adam_free(v->trainer->adam);
}

/* ---- what training changes, for a fit that is interrupted (io/memo.h) ---- */

static void reals_state(double *x, atvi_idx n, atvi_state *s) { atvi_io_state(s, x, (size_t)n * sizeof *x); }

static void member_state(atvi_vi *v, atvi_member *m, atvi_state *s) {
  reals_state(m->phi, v->size, s);
  reals_state(m->shift, v->d, s);
  reals_state(m->chol, v->d * v->d, s);
  ATVI_STATE(s, m->log_det);
  ATVI_STATE(s, m->whole);
  ATVI_STATE(s, v->progress.steps);
  ATVI_STATE(s, v->progress.rungs);
  ATVI_STATE(s, v->scramble);
  atvi_infer_elbo_state(v->elbo, s);
  atvi_model_evaluator_state(v->ev, s);
}

static void adam_state(atvi_vi *v, atvi_state *s) {
  atvi_adam_memory a = atvi_math_adam_memory(v->trainer->adam);
  ATVI_STATE(s, *a.t);
  reals_state(a.m, v->size, s);
  reals_state(a.v, v->size, s);
}

static atvi_memo *memo_of(const atvi_vi *v) { return atvi_model_evaluator_memo(v->ev); }

atvi_idx atvi_infer_vi_try_gradient(atvi_vi *v, const atvi_member *m) {
  return atvi_infer_elbo_grad(v->elbo, m, 1, v->scramble++, v->trainer->grad).good;
}

/* An upper limit of the length: several sums at a time, which do not wait for each other, and room for their
 * rounding. */
static double length_most(atvi_idx n, const double *x) {
  enum { SUMS = 2 * ATVI_LANES };
  double sum[SUMS] = {0}, all = 0;
  atvi_idx i = 0;
  for (; i + SUMS <= n; i += SUMS)
    for (int k = 0; k < SUMS; k++) sum[k] += x[i + k] * x[i + k];
  for (; i < n; i++) all += x[i] * x[i];
  for (int k = 0; k < SUMS; k++) all += sum[k];
  return sqrt(all) * (1 + ATVI_ROUNDED);
}

/* A gradient of at most this length. */
static void clip(atvi_idx n, double most, double *grad) {
  double norm = 0;
  if (length_most(n, grad) <= most) return;
  for (atvi_idx i = 0; i < n; i++) norm += grad[i] * grad[i];
  norm = sqrt(norm);
  for (atvi_idx i = 0; i < n && norm > most; i++) grad[i] *= most / norm;
}

static void one_step(atvi_vi *v, atvi_member *m, const atvi_vi_rounds_opts *o, double step) {
  double *grad = v->trainer->grad;
  atvi_elbo_info info = atvi_infer_elbo_grad(v->elbo, m, o->beta, v->scramble++, grad);
  v->progress.steps++;
  for (atvi_idx i = 0; i < o->first; i++) grad[i] = 0;
  for (atvi_idx i = o->last; i < v->size; i++) grad[i] = 0;
  clip(v->size, v->tuning.clip, grad);
  atvi_math_adam_set_step(v->trainer->adam, step);
  if (info.good > 0) atvi_math_adam_step(v->trainer->adam, m->phi, grad);
}

/* ---- ladder ---- */

/* Conditional effective sample size, as a share of the draws, of a step in beta. */
static double cess(const atvi_cloud *c, double step) {
  double top = -HUGE_VAL, sum = 0, sum_sq = 0;
  for (atvi_idx j = 0; j < c->n; j++)
    if (isfinite(c->log_pi[j])) top = fmax(top, step * (c->log_pi[j] - c->log_base[j]));
  if (!isfinite(top)) return 0;
  for (atvi_idx j = 0; j < c->n; j++) {
    double w = isfinite(c->log_pi[j]) ? exp(step * (c->log_pi[j] - c->log_base[j]) - top) : 0;
    sum += w;
    sum_sq += w * w;
  }
  return sum * sum / (sum_sq * (double)c->n);
}

/* Where the conditional effective size is half of the draws that could be evaluated. */
double atvi_infer_vi_next_beta(const atvi_cloud *c, double beta) {
  atvi_idx good = 0;
  for (atvi_idx j = 0; j < c->n; j++) good += isfinite(c->log_pi[j]);
  double enough = ATVI_HALF * (double)good / (double)c->n, low = 0, high = 1 - beta;
  if (cess(c, high) >= enough) return 1;
  for (int k = 0; k < 60; k++) {
    double mid = low > 0 ? 0.5 * (low + high) : 0.1 * high;
    if (cess(c, mid) >= enough)
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

/* Mean of the gaps without the lowest of them: early on a few draws are so far out that nothing else would be
 * seen. */
static average mean_gap(const atvi_vi *v, const atvi_cloud *c, double beta) {
  atvi_idx good = 0, n = c->n;
  double *x = v->scratch, sum = 0, sum_sq = 0;
  for (atvi_idx j = 0; j < n; j++) {
    double g = gap(c, j, beta);
    if (!isnan(g)) x[good++] = g;
  }
  atvi_math_sort(good, x, NULL, x + good);
  atvi_idx from = (atvi_idx)(ATVI_SMALL * (double)good);
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
    snprintf(detail, sizeof detail, "temperature %.3g, %d steps", 1 / beta, v->progress.steps);
  else if (isfinite(elbo))
    snprintf(detail, sizeof detail, "ELBO %.3f, %d steps", elbo, v->progress.steps);
  else
    snprintf(detail, sizeof detail, "no draw could be evaluated, %d steps", v->progress.steps);
  v->progress.told = fmax(v->progress.told, done);
  atvi_tell_about(v->ctx, &(atvi_progress){.phase = phase,
                                           .done = v->progress.told,
                                           .elapsed_s = atvi_clock_s() - v->progress.begun_s,
                                           .detail = detail,
                                           .steps = v->progress.steps,
                                           .temperature = 1 / beta,
                                           .elbo = elbo,
                                           .part = (double)part + 1,
                                           .khat = NAN,
                                           .rhat = NAN,
                                           .ess = NAN});
}

/* On the ladder half a batch does: what counts there is the number of steps. */
static void half_batch(atvi_vi *v, bool half) {
  atvi_idx n = v->opts.batch;
  atvi_infer_elbo_set_batch(v->elbo, half && n >= 4 * ATVI_LANES ? n / 2 / ATVI_LANES * ATVI_LANES : n);
}

typedef struct {
  atvi_vi *v;
  atvi_member *m;
  /* of the member, in v->room */
  atvi_cloud draws;
  int rung;
  /* done is set at the end */
  atvi_vi_trained so_far;
} ladder;

/* The first draws of a rung join those of the rungs before it, in the place of the oldest. */
static void remember(atvi_vi *v, const atvi_cloud *draws) {
  atvi_cloud *c = &v->path;
  if (c->cap == 0) return;
  atvi_idx n = ATVI_VI_PROBES, at = c->n % c->cap;
  double *ldj = v->scratch;
  for (atvi_idx i = 0; i < v->d; i++)
    memcpy(c->theta + i * c->cap + at, draws->theta + i * draws->cap, (size_t)n * sizeof(double));
  atvi_infer_vi_ldj(v, draws, n, ldj);
  for (atvi_idx j = 0; j < n; j++) c->log_pi[at + j] = draws->log_pi[j] - ldj[j];
  c->n += n;
}

static void ladder_state(void *self, atvi_state *s) {
  ladder *l = self;
  atvi_vi *v = l->v;
  const atvi_cloud *c = &l->draws;
  double *row[] = {c->log_prior, c->log_lik, c->log_base, c->log_pi, c->log_q, c->log_member};
  member_state(v, l->m, s);
  for (atvi_idx i = 0; i < v->d; i++) ATVI_STATE(s, v->space->map[i].slope);
  ATVI_STATE(s, l->rung);
  ATVI_STATE(s, l->so_far.done);
  ATVI_STATE(s, l->so_far.step);
  ATVI_STATE(s, l->so_far.beta);
  ATVI_STATE(s, v->path.n);
  for (atvi_idx i = 0; i < v->d; i++) reals_state(v->path.theta + i * v->path.cap, v->path.cap, s);
  reals_state(v->path.log_pi, v->path.cap, s);
  if (atvi_io_state_ended(s)) return;
  adam_state(v, s);
  for (atvi_idx i = 0; i < v->d; i++) {
    reals_state(c->x + i * c->cap, c->n, s);
    reals_state(c->theta + i * c->cap, c->n, s);
  }
  for (size_t k = 0; k < sizeof row / sizeof *row; k++) reals_state(row[k], c->n, s);
}

/* One rung after the other. Returns whether the door was reached. */
static bool climb(ladder *l) {
  atvi_vi *v = l->v;
  atvi_member *m = l->m;
  size_t bytes = (size_t)v->size * sizeof(double);
  trainer *t = v->trainer;
  atvi_cloud draws = l->draws;
  for (; l->rung < ATVI_VI_RUNGS; l->rung++) {
    atvi_io_stretch_mark(memo_of(v), l);
    double beta = l->so_far.beta, step = l->so_far.step, next = atvi_infer_vi_next_beta(&draws, beta);
    v->progress.rungs++;
    if (atvi_infer_vi_reframe(v, m, &draws, next - beta, false)) {
      atvi_math_adam_reset(t->adam);
      draws = atvi_infer_vi_glance(v, m, ATVI_VI_GLANCE);
    }
    if (next >= 1) {
      atvi_infer_vi_slopes(v, &draws);
      return true;
    }
    average before = mean_gap(v, &draws, next);
    memcpy(t->best, m->phi, bytes);
    for (int k = 0; k < v->tuning.rung_steps; k++) {
      if (atvi_infer_vi_over(v)) return false;
      one_step(v, m, &(atvi_vi_rounds_opts){.beta = next, .last = v->size}, step);
    }
    draws = atvi_infer_vi_glance(v, m, ATVI_VI_GLANCE);
    average after = mean_gap(v, &draws, next);
    bool better = after.mean > before.mean - 2 * hypot(before.se, after.se);
    if (!better && step > first_step(v) / 100) {
      l->so_far.step *= 0.5;
      memcpy(m->phi, t->best, bytes);
      atvi_math_adam_reset(t->adam);
      draws = atvi_infer_vi_glance(v, m, ATVI_VI_GLANCE);
      continue;
    }
    l->so_far.beta = beta = next;
    remember(v, &draws);
    bool moved = atvi_infer_vi_home(v, m, &draws) > 0;
    atvi_infer_vi_slopes(v, &draws);
    if (moved) draws = atvi_infer_vi_glance(v, m, ATVI_VI_GLANCE);
    tell(v, m, "annealing", 0.2 * sqrt(beta), beta, after.mean);
  }
  return false; /* that many temperatures lead nowhere */
}

atvi_vi_trained atvi_infer_vi_climb(atvi_vi *v, atvi_member *m) {
  ladder l = {.v = v, .m = m, .so_far = {.changed = true, .step = first_step(v)}};
  half_batch(v, true);
  atvi_math_adam_reset(v->trainer->adam);
  l.draws = atvi_infer_vi_glance(v, m, ATVI_VI_GLANCE);
  if (!atvi_io_stretch_begin(memo_of(v), &(atvi_stretch){"ladder", ladder_state, &l, false})) {
    l.so_far.done = climb(&l);
    atvi_io_stretch_end(memo_of(v), l.so_far.done);
  }
  return l.so_far;
}

/* ---- rounds ---- */

/* Gaps of the test draws of m with these parameters; the draws. */
static atvi_cloud measure(atvi_vi *v, const atvi_member *m, double *phi, double beta, double *out) {
  atvi_member at = *m;
  at.phi = phi;
  atvi_cloud c = atvi_infer_vi_look(
      v, &at, &(atvi_elbo_lot){.stream = ATVI_STREAM_TRAIN, .scramble = TEST_SCRAMBLE, .n = ATVI_VI_TEST});
  for (atvi_idx j = 0; j < c.n; j++) out[j] = gap(&c, j, beta);
  return c;
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

/* Moves m, by steps that fall to 0 unless rounds are long, and the average of its iterates, which remembers
 * about a round. */
static bool one_round(atvi_vi *v, atvi_member *m, const atvi_vi_rounds_opts *o, double step, int *age,
                      double *avg) {
  int n = atvi_infer_vi_round_steps(v);
  for (int k = 0; k < n; k++) {
    if (atvi_infer_vi_over(v)) return false;
    one_step(v, m, o, v->d < ATVI_VI_FEW ? step : step * (1 - (double)k / n));
    double keep = fmin(1 - 1.0 / n, 1 - 2.0 / (++*age + 1));
    for (atvi_idx i = 0; i < v->size; i++) avg[i] = keep * avg[i] + (1 - keep) * m->phi[i];
  }
  return true;
}

typedef struct {
  atvi_vi *v;
  atvi_member *m;
  atvi_vi_rounds_opts o;
  /* rounds, halvings of the step, and steps that the average remembers */
  int n, halved, age;
  /* share of the test draws that the best so far could evaluate */
  double good;
  /* what draws are worth, of the best so far and of the one before (share 0: not known) */
  atvi_vi_worth now, before;
  atvi_vi_trained so_far;
} rounds;

static void rounds_state(void *self, atvi_state *s) {
  rounds *r = self;
  atvi_vi *v = r->v;
  trainer *t = v->trainer;
  int *number[] = {&r->o.most, &r->o.halvings, &r->n, &r->halved, &r->age};
  double *real[] = {&r->o.beta, &r->o.step, &r->o.share, &r->good, &r->so_far.step};
  member_state(v, r->m, s);
  for (int k = 0; k < 5; k++) ATVI_STATE(s, *number[k]);
  for (int k = 0; k < 5; k++) ATVI_STATE(s, *real[k]);
  ATVI_STATE(s, r->now.share);
  ATVI_STATE(s, r->before.share);
  ATVI_STATE(s, r->so_far.enough);
  ATVI_STATE(s, r->o.first);
  ATVI_STATE(s, r->o.last);
  ATVI_STATE(s, r->so_far.done);
  ATVI_STATE(s, r->so_far.changed);
  if (atvi_io_state_ended(s)) return;
  adam_state(v, s);
  reals_state(t->avg, v->size, s);
  reals_state(t->best, v->size, s);
  reals_state(t->gap_best, ATVI_VI_TEST, s);
}

/* Whether more rounds would pay, of the best so far. Few draws are asked first, and then more, which know the
 * tail better. */
static void judge(rounds *r, bool comparable) {
  atvi_vi *v = r->v;
  const atvi_vi_rounds_opts *o = &r->o;
  double part = o->share > 0 ? o->share : 1;
  r->before = comparable ? r->now : (atvi_vi_worth){0};
  r->now = atvi_infer_vi_worth_of(v, ATVI_VI_TEST, v->trainer->gap_best);
  const atvi_vi_worth *before = r->before.share > 0 ? &r->before : NULL;
  const double runs = atvi_infer_vi_round_runs(v);
  if (o->thorough || !atvi_infer_vi_is_enough(v, part, runs, before, &r->now)) return;
  atvi_member at = *r->m;
  at.phi = v->trainer->best;
  atvi_cloud c =
      atvi_infer_vi_look(v, &at, &(atvi_elbo_lot){ATVI_STREAM_TRAIN, v->scramble++, 0, ATVI_VI_LOOK, true});
  double *log_w = c.log_lik; /* which nobody asks for */
  for (atvi_idx j = 0; j < c.n; j++) log_w[j] = c.log_pi[j] - c.log_q[j];
  atvi_vi_worth all = atvi_infer_vi_worth_of(v, c.n, log_w);
  r->so_far.enough = atvi_infer_vi_is_enough(v, part, runs, before, &all);
}

static void train_on(rounds *r) {
  atvi_vi *v = r->v;
  atvi_member *m = r->m;
  const atvi_vi_rounds_opts *o = &r->o;
  size_t bytes = (size_t)v->size * sizeof(double);
  trainer *t = v->trainer;
  double var, worth = v->tuning.gain / (o->share > 0 ? fmax(o->share, 0.05) : 1);
  for (; r->n < o->most && r->halved <= o->halvings && !r->so_far.enough; r->n++) {
    atvi_io_stretch_mark(memo_of(v), r);
    r->so_far.done = one_round(v, m, o, r->so_far.step, &r->age, t->avg);
    if (!r->so_far.done && r->age == 0) break;
    atvi_cloud test = measure(v, m, t->avg, o->beta, t->gap_now);
    if (o->enough && o->enough(v, &test)) {
      memcpy(t->best, t->avg, bytes);
      r->so_far.changed = true;
      break;
    }
    average gain = difference(t->gap_best, t->gap_now, &var), now = difference(NULL, t->gap_now, &var);
    tell(v, m, "training", 0.2 + 0.6 * r->halved / (o->halvings + 1.0), o->beta, now.mean);
    gain.mean += log(now.good / r->good);
    if (!(gain.mean > -2 * gain.se)) { /* worse, or not a number */
      memcpy(m->phi, t->best, bytes);
      memcpy(t->avg, t->best, bytes);
      atvi_math_adam_reset(t->adam);
      r->age = 0;
      r->so_far.step *= 0.5;
      r->halved++;
      r->before.share = 0; /* of a smaller step there is nothing to go by */
    } else {
      r->good = now.good;
      r->so_far.changed = true;
      atvi_infer_vi_home(v, m, &test); /* raises log w, if anything: the gaps are then those of a worse q */
      memcpy(t->best, t->avg, bytes);
      memcpy(t->gap_best, t->gap_now, sizeof(double) * ATVI_VI_TEST);
      judge(r, true);
      if (gain.mean < fmax(gain.se, worth * v->tuning.round_steps / atvi_infer_vi_round_steps(v))) {
        r->so_far.step *= 0.5;
        r->halved++;
      }
    }
    if (!r->so_far.done) break;
  }
  memcpy(m->phi, t->best, bytes);
}

atvi_vi_trained atvi_infer_vi_rounds(atvi_vi *v, atvi_member *m, const atvi_vi_rounds_opts *o) {
  size_t bytes = (size_t)v->size * sizeof(double);
  trainer *t = v->trainer;
  rounds r = {.v = v, .m = m, .o = *o, .so_far = {.done = true, .beta = o->beta}};
  r.so_far.step = fmin(v->tuning.step_round * fmin(1, sqrt(3.0 / (double)v->d)), ATVI_VI_AGAIN * o->step);
  half_batch(v, false);
  atvi_math_adam_reset(t->adam);
  memcpy(t->best, m->phi, bytes);
  memcpy(t->avg, m->phi, bytes);
  measure(v, m, t->best, o->beta, t->gap_best);
  double var;
  r.good = difference(NULL, t->gap_best, &var).good;
  if (!atvi_io_stretch_begin(memo_of(v), &(atvi_stretch){"rounds", rounds_state, &r, false})) {
    judge(&r, false);
    train_on(&r);
    atvi_io_stretch_end(memo_of(v), r.so_far.done);
  }
  return r.so_far;
}

/* ---- both ---- */

/* A few rounds after which slopes know the size of q. */
static bool settle(atvi_vi *v, atvi_member *m, const atvi_vi_rounds_opts *opts) {
  bool folds = false;
  atvi_vi_rounds_opts o = *opts;
  for (atvi_idx i = 0; i < v->d; i++) folds = folds || v->space->map[i].kind == ATVI_MAP_SURJECTION;
  if (!folds) return true;
  o.most = (int)v->tuning.short_rounds;
  if (!atvi_infer_vi_rounds(v, m, &o).done) return false;
  atvi_cloud draws = atvi_infer_vi_glance(v, m, ATVI_VI_GLANCE);
  atvi_infer_vi_slopes(v, &draws);
  return true;
}

/* Given temperatures: all layers at each, or a block of layers for each, earlier ones frozen and later ones
 * still the identity. */
static bool given_ladder(atvi_vi *v, atvi_member *m) {
  int n = v->opts.n_rung;
  double step = first_step(v);
  for (int k = 0; k < n; k++) {
    atvi_vi_rounds_opts o = {.beta = 1 / v->opts.temperature[k],
                             .step = step,
                             .most = INT32_MAX,
                             .halvings = k == n - 1 ? (int)v->tuning.halvings : HOT,
                             .last = v->size,
                             .thorough = true};
    if (v->opts.freeze) {
      atvi_idx skip;
      o.halvings = (int)v->tuning.halvings;
      atvi_flow_family_block(&v->family, k * v->family.blocks / n, &o.first, &skip);
      atvi_flow_family_block(&v->family, (k + 1) * v->family.blocks / n - 1, &skip, &o.last);
    }
    v->progress.rungs++;
    if (!settle(v, m, &o)) return false;
    atvi_vi_trained t = atvi_infer_vi_rounds(v, m, &o);
    if (!t.done) return false;
    step = t.step;
  }
  return true;
}

atvi_vi_trained atvi_infer_vi_train_more(atvi_vi *v, atvi_member *m, double step, double share,
                                         bool (*enough)(atvi_vi *, const atvi_cloud *)) {
  atvi_vi_rounds_opts o = {.beta = 1,
                           .step = step,
                           .most = INT32_MAX,
                           .halvings = (int)v->tuning.halvings,
                           .last = v->size,
                           .share = share,
                           .enough = enough};
  return atvi_infer_vi_rounds(v, m, &o);
}

bool atvi_infer_vi_train(atvi_vi *v, atvi_member *m) {
  if (v->opts.n_rung > 0) return given_ladder(v, m);
  atvi_vi_trained t = atvi_infer_vi_climb(v, m);
  if (t.done) t = atvi_infer_vi_choose_maps(v, m, t);
  if (t.done && !t.enough) t = atvi_infer_vi_train_more(v, m, t.step, 0, atvi_infer_vi_in_vain);
  v->outcome.enough = t.enough;
  return t.done;
}

/* ---- fine-tuning ---- */

typedef struct {
  atvi_vi *v;
  atvi_member *m;
  bool helped;
} tuning;

static void tuning_state(void *self, atvi_state *s) {
  tuning *t = self;
  member_state(t->v, t->m, s);
  ATVI_STATE(s, t->helped);
}

static bool fine_tune(atvi_vi *v, atvi_member *m, int steps) {
  size_t bytes = (size_t)v->size * sizeof(double);
  trainer *t = v->trainer;
  uint32_t fresh = v->scramble++;
  atvi_idx draws = ATVI_VI_TEST;
  atvi_elbo_room room = {v->room.theta, v->scratch, v->scratch + draws};
  atvi_vi_quality before = atvi_infer_vi_judge(v, m, fresh, NULL);
  memcpy(t->best, m->phi, bytes);
  memcpy(t->avg, m->phi, bytes);
  atvi_math_adam_reset(t->adam);
  for (int k = 0; k < steps && !atvi_infer_vi_over(v); k++) {
    atvi_infer_elbo_grad_forward(v->elbo, m, draws, v->scramble++, &room, t->grad);
    clip(v->size, 1, t->grad);
    atvi_math_adam_set_step(t->adam, v->tuning.step_round / 10 * (1 - (double)k / steps));
    atvi_math_adam_step(t->adam, m->phi, t->grad);
    for (atvi_idx i = 0; i < v->size; i++) t->avg[i] = (1 - ATVI_SMALL) * t->avg[i] + ATVI_SMALL * m->phi[i];
    v->progress.steps++;
    atvi_infer_vi_tell(v, "fine-tuning", 0.8, "step %d of %d", k + 1, steps);
  }
  memcpy(m->phi, t->avg, bytes);
  atvi_vi_quality after = atvi_infer_vi_judge(v, m, fresh, NULL);
  bool helped = after.share > before.share ||
                (after.share > (1 - ATVI_SLIGHT) * before.share && after.khat < before.khat);
  if (!helped) memcpy(m->phi, t->best, bytes);
  return helped;
}

bool atvi_infer_vi_tune(atvi_vi *v, atvi_member *m, int steps) {
  tuning t = {.v = v, .m = m};
  if (!atvi_io_stretch_begin(memo_of(v), &(atvi_stretch){"fine-tuning", tuning_state, &t, false})) {
    t.helped = fine_tune(v, m, steps);
    atvi_io_stretch_end(memo_of(v), !atvi_infer_vi_over(v));
  }
  return t.helped;
}
