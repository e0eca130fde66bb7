/* SPDX-License-Identifier: MIT */
/* Other modes. Climbs from points spread over the prior find maxima; Laplace's method says roughly what each is worth. One
 * that may matter, and at whose peak q has far too little density, gets a component of its own: a flow in the
 * frame of the normal approximation there, trained at temperature 1. q is then the mixture, and weights are taken against
 * the whole mixture, so that overlap counts once and shares come out right by themselves.
 *
 * Hops  A posterior with several peaks may have many more: one on every ledge of its hills, where an emulator or a table has kinks. What a climb
 *       ends on is then worth little by Laplace's method and hides the summit next to it. So from each peak steps are tried by differences of
 *       two draws of q, which have the posterior's own shape and size; the best of them are climbed from, and the peaks as well. */
#include "infer/vi_state.h"
#include "math/rng.h"
#include "math/sobol.h"
#include "math/special.h"
#include <math.h>
#include <string.h>

enum { PROBES = ATVI_VI_PROBES, TRIES = PROBES / 2 };
#define LOG_2PI 1.8378770664093453

/* log q of the first n_part components, each with the mass it has found, at the first n points of the cloud. */
static void log_mass(atvi_vi *v, atvi_idx n_part, const atvi_cloud *c, atvi_idx n, double *part,
                     double *out) {
  for (atvi_idx j = 0; j < n; j++) out[j] = -HUGE_VAL;
  for (atvi_idx k = 0; k < n_part; k++) {
    atvi_infer_elbo_log_q(v->elbo, &v->part[k].at, false, c, n, part);
    atvi_math_log_add_all(n, v->part[k].log_evidence, part, out);
  }
}

/* PROBES draws of the normal approximation, evaluated; log_normal[PROBES]: their log density. They are in v->room. */
static atvi_cloud probe(atvi_vi *v, const atvi_peak *p, double *log_normal) {
  atvi_idx d = v->d, n = PROBES;
  atvi_cloud c = v->room;
  double *z = v->scratch;
  c.cap = c.n = n;
  atvi_math_sobol_normal((atvi_sobol){v->opts.seed, ATVI_STREAM_TRAIN, v->scramble++}, 0, d, n, z);
  for (atvi_idx j = 0; j < n; j++) {
    log_normal[j] = -0.5 * (double)d * LOG_2PI;
    for (atvi_idx i = 0; i < d; i++) {
      double sum = p->x[i];
      for (atvi_idx k = 0; k <= i; k++) sum += p->chol[i * d + k] * z[k * n + j];
      c.x[i * n + j] = sum;
      log_normal[j] -= 0.5 * z[i * n + j] * z[i * n + j] + log(p->chol[i * d + i]);
    }
  }
  atvi_infer_space_eval(
      v->space, &(atvi_space_batch){.B = n, .x = c.x, .beta = 1, .theta = c.theta, .log_pi = c.log_pi});
  return c;
}

/* How much q lacks of a peak, as a share of it; 0 for one that does not matter. A flow that has only stretched a filament over a mode is high at
 * its maximum and misses its flanks, so it is asked at draws of the normal approximation, weighted to the posterior. Their mean weight is the
 * peak's worth as well, and raises what Laplace's method made of the point of a kink. */
static double lacking(atvi_vi *v, atvi_peak *p) {
  double have[PROBES], part[PROBES], w[PROBES], sum = 0, best = atvi_infer_vi_best_evidence(v);
  if (p->log_evidence < best - v->tuning.matters - v->tuning.doubt) return 0;
  atvi_cloud c = probe(v, p, w);
  for (atvi_idx j = 0; j < PROBES; j++) w[j] = isfinite(c.log_pi[j]) ? c.log_pi[j] - w[j] : -HUGE_VAL;
  double all = atvi_math_softmax(PROBES, w, w);
  if (!(all > -HUGE_VAL)) return 0;
  p->log_evidence = fmax(p->log_evidence, all - log(PROBES));
  if (p->log_evidence < best - v->tuning.matters) return 0;
  log_mass(v, v->n_part, &c, PROBES, part, have);
  for (atvi_idx j = 0; j < PROBES; j++)
    if (!(have[j] > c.log_pi[j] - v->tuning.missed)) sum += w[j];
  return sum;
}

/* Has the newest component, whose draws these are, gone over to where others are already? */
static bool is_astray(atvi_vi *v, const atvi_cloud *c) {
  double have[ATVI_VI_TEST], part[ATVI_VI_TEST];
  atvi_idx good = 0, new = 0;
  log_mass(v, v->n_part - 1, c, ATVI_VI_TEST, part, have);
  for (atvi_idx j = 0; j < ATVI_VI_TEST; j++) {
    good += isfinite(c->log_pi[j]);
    new += isfinite(c->log_pi[j]) && !(have[j] > c->log_pi[j] - v->tuning.missed);
  }
  return (double)new < v->tuning.lacking *(double)good;
}

/* One component more, at p. much: it may overlap others. *astray: it is of no use. */
static atvi_status add_component(atvi_vi *v, const atvi_peak *p, bool much, bool *astray) {
  atvi_vi_part *part = &v->part[v->n_part];
  double share = exp(fmin(0, p->log_evidence - atvi_infer_vi_best_evidence(v)));
  atvi_cloud seen;
  if (!atvi_infer_vi_member_new(v, p->x, p->chol, &part->at)) return ATVI_ENOMEM;
  part->drawn = 0;
  v->n_part++;
  if (!atvi_infer_vi_train_more(v, &part->at, HUGE_VAL, share, much ? NULL : is_astray).done)
    v->converged = false;
  part->log_evidence = atvi_infer_vi_judge(v, &part->at, v->scramble++, &seen).log_evidence;
  *astray = !much && is_astray(v, &seen);
  return ATVI_OK;
}

/* A component that left its peak as it was went over to another mode, which has its own already. It is of no use, and neither is another
 * try. */
atvi_status atvi_infer_vi_cover(atvi_vi *v) {
  for (atvi_idx k = 0; k < v->modes.n && v->n_part < ATVI_VI_PARTS && !atvi_infer_vi_over(v); k++) {
    atvi_peak *p = &v->modes.mode[k];
    double before = p->hits > 0 ? lacking(v, p) : 0;
    bool much = before * exp(fmin(0, p->log_evidence - atvi_infer_vi_best_evidence(v))) > v->tuning.lost,
         astray = false;
    if (!much && before <= v->tuning.lacking) continue;
    ATVI_TRY(add_component(v, p, much, &astray));
    if (!astray && lacking(v, p) <= 0.5 * before) continue;
    v->n_part--;
    p->hits = 0;
  }
  return ATVI_OK;
}

/* The n best of TRIES steps from x[d], by differences of draws, into places at .. of start[d][2 starts]. */
static void best_steps(atvi_vi *v, const double *from, const atvi_cloud *draws, atvi_idx at, atvi_idx n,
                       double *start) {
  atvi_idx n_hop = 2 * (atvi_idx)v->tuning.starts;
  double *x = v->scratch, *theta = x + v->d * TRIES, value[TRIES];
  for (atvi_idx i = 0; i < v->d; i++)
    for (atvi_idx j = 0; j < TRIES; j++) {
      const double *row = draws->x + i * draws->cap;
      x[i * TRIES + j] = from[i] + row[j] - row[TRIES + j];
    }
  atvi_infer_space_eval(v->space,
                        &(atvi_space_batch){.B = TRIES, .x = x, .beta = 1, .theta = theta, .log_pi = value});
  for (atvi_idx k = 0; k < n; k++) {
    atvi_idx best = 0;
    for (atvi_idx j = 1; j < TRIES; j++)
      if (value[j] > value[best] || isnan(value[best])) best = j;
    for (atvi_idx i = 0; i < v->d; i++) start[i * n_hop + at + k] = x[i * TRIES + best];
    value[best] = -HUGE_VAL;
  }
}

static atvi_status hop(atvi_vi *v, const atvi_modes_opts *opts, double *start) {
  atvi_idx n = v->modes.n, at = 0, n_hop = 2 * (atvi_idx)v->tuning.starts;
  atvi_cloud draws = atvi_infer_vi_glance(v, &v->part[0].at, 2 * TRIES);
  for (atvi_idx k = 0; k < n; k++) {
    const double *x = v->modes.mode[k].x;
    atvi_idx each = n_hop / n + (k < n_hop % n);
    for (atvi_idx i = 0; i < v->d; i++) start[i * n_hop + at] = x[i];
    best_steps(v, x, &draws, at + 1, each - 1, start);
    at += each;
  }
  return atvi_infer_modes_find(v->space, opts, v->pool, n_hop, start, &v->modes);
}

static bool is_late(const void *user) { return atvi_infer_vi_over(user); }

/* Longer climbs than those that look for other modes: many coordinates are ill-conditioned together. */
static int summit_iterations(const atvi_vi *v) { return 60 + 2 * (int)v->d; }

atvi_status atvi_infer_vi_summit(atvi_vi *v, atvi_member *m, bool *found) {
  atvi_idx n = (atvi_idx)v->tuning.starts;
  double *start = atvi_pool_take(v->pool, (size_t)(v->d * n), sizeof *start);
  atvi_modes_opts opts = {
      .iterations = summit_iterations(v), .most = ATVI_VI_PARTS, .late = is_late, .user = v};
  *found = false;
  if (!start) return ATVI_ENOMEM;
  atvi_infer_vi_tell(v, "climbing", 0.02, "%td climbs", n);
  atvi_math_sobol_normal((atvi_sobol){v->opts.seed, ATVI_STREAM_TRAIN, v->scramble++}, 0, v->d, n, start);
  ATVI_TRY(atvi_infer_modes_find(v->space, &opts, v->pool, n, start, &v->modes));
  if (v->modes.n == 0 || !isfinite(v->modes.mode[0].log_evidence)) return ATVI_OK;
  *found = true;
  return atvi_infer_vi_member_new(v, v->modes.mode[0].x, v->modes.mode[0].chol, m) ? ATVI_OK : ATVI_ENOMEM;
}

atvi_status atvi_infer_vi_seek(atvi_vi *v) {
  atvi_idx n_start = (atvi_idx)v->tuning.starts, n_hop = 2 * (atvi_idx)v->tuning.starts;
  double *start = atvi_pool_take(v->pool, (size_t)(v->d * n_hop), sizeof *start);
  if (!start) return ATVI_ENOMEM;
  atvi_infer_vi_tell(v, "other modes", 0.75, "%td climbs", n_start);
  atvi_sobol key = {v->opts.seed, ATVI_STREAM_TRAIN, v->scramble++};
  atvi_math_sobol_normal(key, 0, v->d, n_start, start);
  atvi_modes_opts opts = atvi_infer_modes_defaults();
  opts.most = ATVI_VI_PARTS;
  opts.late = is_late;
  opts.user = v;
  ATVI_TRY(atvi_infer_modes_find(v->space, &opts, v->pool, n_start, start, &v->modes));
  for (int k = 0; k < v->tuning.hops && v->modes.n > 1 && !atvi_infer_vi_over(v); k++)
    ATVI_TRY(hop(v, &opts, start));
  if (v->modes.n > 1 && atvi_infer_vi_slopes_of_peaks(v, atvi_infer_vi_best_evidence(v) - v->tuning.matters))
    v->part[0].drawn = 0; /* log pi of its draws has changed */
  return ATVI_OK;
}
