/* SPDX-License-Identifier: MIT */
/* Candidates are drawn from the prior, evaluated in batches, and kept if their density is positive.
 *
 * The choice among them is by weights L^beta, drawn without replacement by the Gumbel trick: the m largest
 * of beta log L_i + G_i, G_i standard Gumbel. beta makes the effective number of candidates,
 * (sum w)^2 / sum w^2, equal to 2 m. With a prior far wider than the posterior beta is tiny and only hopeless
 * regions are avoided; with an uninformative likelihood beta = 1. Either way every region that competes at
 * temperature 1/beta gets its share of the starts, so that several modes stay visible to R-hat. */
#include "infer/chains.h"
#include "infer/vi_tuning.h"
#include "math/rng.h"
#include "math/stat/stat.h"
#include <math.h>
#include <string.h>

enum {
  ROUND = ATVI_BATCH,           /* points drawn at a time */
  SPREAD = ATVI_ROUNDS * ROUND, /* points that tell the scale of the parameters */
  GIVE_UP = ATVI_ROUNDS * ROUND /* tries without any success: the model cannot be evaluated */
};

/* Where the prior cannot be drawn: uniform in a finite box; beyond a single bound and on the whole line
 * log-normal distances, so that several orders of magnitude get a chance. */
static double spread_one(const atvi_param *p, atvi_rng *r) {
  double u = atvi_math_rng_uniform(r), z = atvi_math_rng_normal(r), far = exp(1.5 * z);
  bool lo = p->lower > -HUGE_VAL, hi = p->upper < HUGE_VAL;
  if (lo && hi) return p->lower + u * (p->upper - p->lower);
  if (lo) return p->lower + far;
  if (hi) return p->upper - far;
  return u < 0.5 ? far : -far;
}

static void spread(const atvi_target *t, uint64_t seed, atvi_idx first, atvi_idx B, double *theta) {
  for (atvi_idx i = 0; i < B; i++) {
    atvi_rng r = atvi_math_rng_at(seed, ATVI_STREAM_START, 0, (uint32_t)(first + i));
    for (atvi_idx j = 0; j < t->d; j++) theta[j * B + i] = spread_one(&t->param[j], &r);
  }
}

typedef struct {
  double *theta, *log_prior, *log_lik; /* [d][ROUND], [ROUND], [ROUND] */
  atvi_outcome *outcome;               /* [ROUND] */
  double *spread, *sort;               /* [d][SPREAD], [2 SPREAD] */
} round_work;

static atvi_starts *carve(atvi_arena *a, atvi_idx d, atvi_idx cap, round_work *w) {
  atvi_starts *s, head = {.d = d, .cap = cap};
  ATVI_TAKE(a, s, 1);
  ATVI_TAKE(a, head.theta, d * cap);
  ATVI_TAKE(a, head.log_prior, cap);
  ATVI_TAKE(a, head.log_lik, cap);
  ATVI_TAKE(a, head.scale, d);
  ATVI_TAKE(a, w->theta, d * ROUND);
  ATVI_TAKE(a, w->log_prior, ROUND);
  ATVI_TAKE(a, w->log_lik, ROUND);
  ATVI_TAKE(a, w->spread, d * SPREAD);
  ATVI_TAKE(a, w->sort, 2 * SPREAD);
  ATVI_TAKE(a, w->outcome, ROUND);
  if (s) *s = head;
  return s;
}

static void draw_points(const atvi_target *t, void *work, uint64_t seed, atvi_idx first, double *theta) {
  if (t->ops->prior_draw)
    t->ops->prior_draw(t->self, work, seed, first, ROUND, theta);
  else
    spread(t, seed, first, ROUND, theta);
}

static void take_round(atvi_starts *s, atvi_evaluator *ev, uint64_t seed, round_work *w) {
  draw_points(atvi_model_evaluator_target(ev), atvi_model_evaluator_work(ev), seed, s->tried, w->theta);
  atvi_model_evaluator_run(ev, &(atvi_batch){.B = ROUND,
                                             .theta = w->theta,
                                             .log_prior = w->log_prior,
                                             .log_lik = w->log_lik,
                                             .outcome = w->outcome});
  for (atvi_idx i = 0; i < ROUND; i++) {
    s->tried++;
    if (w->outcome[i] != ATVI_RUN_OK || !isfinite(w->log_prior[i] + w->log_lik[i])) {
      s->bad[w->outcome[i]]++;
      continue;
    }
    if (s->n == s->cap) continue;
    for (atvi_idx j = 0; j < s->d; j++) s->theta[j * s->cap + s->n] = w->theta[j * ROUND + i];
    s->log_prior[s->n] = w->log_prior[i];
    s->log_lik[s->n] = w->log_lik[i];
    s->n++;
  }
}

/* The spread of the prior itself, from draws that need no evaluation: the standard deviation, or that of
 * the normal with the same quartiles if it is smaller, for priors with long tails. */
static double spread_of(double *x, double *work, const atvi_param *p) {
  double sd = atvi_math_sd(SPREAD, x, NULL), width = p->upper - p->lower;
  atvi_math_sort(SPREAD, x, NULL, work);
  double q = (atvi_math_quantile(SPREAD, x, NULL, 0.75) - atvi_math_quantile(SPREAD, x, NULL, 0.25)) / 1.349;
  if (q > 0 && !(q > sd)) sd = q;
  if (!(sd > 0) || !isfinite(sd)) sd = isfinite(width) ? width / 4 : fmax(1, fabs(x[SPREAD / 2]));
  return sd > 0 && isfinite(sd) ? sd : 1;
}

static void set_scale(atvi_starts *s, atvi_evaluator *ev, uint64_t seed, const round_work *w) {
  const atvi_target *t = atvi_model_evaluator_target(ev);
  for (atvi_idx first = 0; first < SPREAD; first += ROUND) {
    draw_points(t, atvi_model_evaluator_work(ev), seed, first, w->theta);
    for (atvi_idx j = 0; j < s->d; j++)
      memcpy(w->spread + j * SPREAD + first, w->theta + j * ROUND, ROUND * sizeof *w->theta);
  }
  for (atvi_idx j = 0; j < s->d; j++) s->scale[j] = spread_of(w->spread + j * SPREAD, w->sort, &t->param[j]);
}

static atvi_status fail_none(atvi_ctx *ctx, const atvi_starts *s, const atvi_target *t) {
  int worst = 0;
  for (int k = 1; k <= ATVI_RUN_STEADY; k++)
    if (s->bad[k] > s->bad[worst]) worst = k;
  return ATVI_FAIL_AS(ctx, ATVI_EMODEL, atvi_outcome_code((atvi_outcome)worst),
                      "%s: none of %td %s could be evaluated; for %td of them %s",
                      t->name ? t->name : "model", s->tried,
                      s->from_prior ? "draws from the prior" : "points spread over the bounds", s->bad[worst],
                      atvi_outcome_word((atvi_outcome)worst));
}

atvi_status atvi_infer_starts_new(atvi_ctx *ctx, atvi_evaluator *ev, uint64_t seed, atvi_idx want,
                                  atvi_starts **out) {
  *out = NULL;
  const atvi_target *t = atvi_model_evaluator_target(ev);
  if (want < 1) return ATVI_FAIL(ctx, ATVI_EINVAL, "starts: want = %td, want >= 1", want);
  round_work w = {0};
  atvi_arena a = {0};
  carve(&a, t->d, want, &w);
  a = (atvi_arena){.base = atvi_block(ctx, a.used)};
  if (!a.base) return ATVI_ENOMEM;
  atvi_starts *s = carve(&a, t->d, want, &w);
  s->ctx = ctx;
  s->from_prior = t->ops->prior_draw != NULL;
  double begun = atvi_clock_s();
  atvi_idx limit = want * ATVI_ROUNDS > GIVE_UP ? want * ATVI_ROUNDS : GIVE_UP;
  while (s->n < want && s->tried < limit && (s->n > 0 || s->tried < GIVE_UP)) {
    if (atvi_stop_asked(ctx)) {
      atvi_infer_starts_free(s);
      return ATVI_FAIL(ctx, ATVI_ESTOP, "stopped while looking for starting points");
    }
    take_round(s, ev, seed, &w);
    atvi_tell(ctx, "starting", -1, atvi_clock_s() - begun, "%td of %td points can be evaluated", s->n,
              s->tried);
  }
  if (s->n == 0) {
    atvi_status st = fail_none(ctx, s, t);
    atvi_infer_starts_free(s);
    return st;
  }
  set_scale(s, ev, seed, &w);
  *out = s;
  return ATVI_OK;
}

void atvi_infer_starts_free(atvi_starts *s) {
  if (s) atvi_block_free(s->ctx, s);
}

/* What the weights are powers of: the likelihood for draws from the prior, else the whole density. */
static double strength(const atvi_starts *s, atvi_idx i) {
  return s->log_lik[i] + (s->from_prior ? 0 : s->log_prior[i]);
}

static double effective(const atvi_starts *s, double beta, double top) {
  double sum = 0, sum2 = 0;
  for (atvi_idx i = 0; i < s->n; i++) {
    double w = exp(beta * (strength(s, i) - top));
    sum += w;
    sum2 += w * w;
  }
  return sum * sum / sum2;
}

double atvi_infer_starts_pick(const atvi_starts *s, uint64_t seed, atvi_idx m, atvi_idx *index) {
  double top = -HUGE_VAL;
  for (atvi_idx i = 0; i < s->n; i++) top = fmax(top, strength(s, i));
  double want = fmin(2 * (double)m, 0.5 * (double)s->n), lo = -30, hi = 0; /* log beta */
  if (effective(s, 1, top) < want) {
    for (int k = 0; k < 60; k++) {
      double mid = 0.5 * (lo + hi);
      if (effective(s, exp(mid), top) < want)
        hi = mid;
      else
        lo = mid;
    }
  } else
    lo = 0;
  double beta = exp(lo), last = HUGE_VAL;
  /* Selection in descending order of the keys; m is small, so a scan per point will do. */
  for (atvi_idx k = 0; k < m; k++) {
    if (k >= s->n) {
      index[k] = index[k % s->n];
      continue;
    }
    double best = -HUGE_VAL;
    atvi_idx at = 0;
    for (atvi_idx i = 0; i < s->n; i++) {
      atvi_rng r = atvi_math_rng_at(seed, ATVI_STREAM_START, 1, (uint32_t)i);
      double key = beta * (strength(s, i) - top) - log(atvi_math_rng_exponential(&r));
      if (key < last && key > best) best = key, at = i;
    }
    index[k] = at;
    last = best;
  }
  return beta;
}
