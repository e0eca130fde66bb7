/* SPDX-License-Identifier: MIT */
/* Log evidence from chains alone, where the approximation that they started from is too far from the
 * posterior for bridge sampling.
 *
 * Half of the chains say where the posterior is: a normal distribution with their mean and covariance, in the
 * coordinates of their frame (variances alone where there are too few draws for more). It knows nothing of
 * the other half, so that bridge sampling between its draws and theirs is as good as with any other q
 * (stat.h). Then the halves change places. The two estimates share no draw of a normal distribution, and what
 * one half of the chains missed sets them apart: their difference is part of the error. */
#include "infer/vi_exact.h"
#include "math/sobol.h"
#include "math/stat/stat.h"
#include <math.h>
#include <string.h>

static double *reals(atvi_vi *v, atvi_idx n) { return atvi_pool_take(v->pool, (size_t)n, sizeof(double)); }

/* Columns from .. from + n - 1 of all[d][cap]. */
static void copy_columns(atvi_idx d, atvi_idx cap, const double *all, atvi_idx from, atvi_idx n,
                         double *out) {
  for (atvi_idx j = 0; j < d; j++) memcpy(out + j * n, all + j * cap + from, (size_t)n * sizeof *out);
}

/* Their normal distribution; spoils y. */
static atvi_status fit_normal(atvi_vi *v, atvi_idx n, double *y, atvi_member *q) {
  atvi_exact_moves s = {0};
  atvi_idx d = v->d;
  if (!atvi_infer_exact_spread(v->pool, d, n, y, &s)) return ATVI_ENOMEM;
  *q = s.spread;
  if ((double)n > v->tuning.per_dim * (double)d) return ATVI_OK;
  memset(q->chol, 0, (size_t)(d * d) * sizeof *q->chol);
  q->log_det = 0;
  for (atvi_idx j = 0; j < d; j++) q->log_det += log(q->chol[j * d + j] = s.sd[j]);
  return ATVI_OK;
}

/* log q at z[d][n], standard normal in its coordinates; the density is that of y. */
static void log_normal(const atvi_vi *v, const atvi_member *q, atvi_idx n, const double *z, double *out) {
  double at0 = -0.5 * (double)v->d * log(2 * acos(-1)) - q->log_det;
  for (atvi_idx i = 0; i < n; i++) out[i] = at0;
  for (atvi_idx j = 0; j < v->d; j++)
    for (atvi_idx i = 0; i < n; i++) out[i] -= 0.5 * z[j * n + i] * z[j * n + i];
}

/* log pi / q, as densities of y, at n draws of q. */
static atvi_status draw(atvi_vi *v, const atvi_member *frame, const atvi_member *q, atvi_idx n, double *out) {
  atvi_sobol key = {v->opts.seed, ATVI_STREAM_FINAL, v->scramble++};
  double *z = reals(v, v->d * ATVI_BATCH), *x = reals(v, v->d * ATVI_BATCH),
         *theta = reals(v, v->d * ATVI_BATCH), *log_q = reals(v, ATVI_BATCH);
  if (atvi_pool_failed(v->pool)) return ATVI_ENOMEM;
  for (atvi_idx from = 0; from < n; from += ATVI_BATCH) {
    atvi_idx B = n - from < ATVI_BATCH ? n - from : ATVI_BATCH;
    atvi_math_sobol_normal(key, from, v->d, B, z);
    log_normal(v, q, B, z, log_q);
    atvi_infer_member_to_frame(q, v->d, B, z, x);
    atvi_infer_member_to_frame(frame, v->d, B, x, z);
    atvi_infer_space_eval(
        v->space, &(atvi_space_batch){.B = B, .x = z, .beta = 1, .theta = theta, .log_pi = out + from});
    for (atvi_idx i = 0; i < B; i++) out[from + i] += frame->log_det - log_q[i];
  }
  return ATVI_OK;
}

/* q from columns `from` on, `learn` of them, bridged to m chains from column `to` on. */
static atvi_status bridge(atvi_vi *v, const atvi_vi_chain_states *s, atvi_idx from, atvi_idx learn,
                          atvi_idx to, atvi_idx m, atvi_bridge_info *out) {
  atvi_idx d = v->d, all = s->m * s->n, n = m * s->n;
  double *seen = reals(v, d * learn), *y = reals(v, d * n), *log_p = reals(v, n), *log_q = reals(v, n);
  if (atvi_pool_failed(v->pool)) return ATVI_ENOMEM;
  atvi_member q;
  copy_columns(d, all, s->y, from, learn, seen);
  copy_columns(d, all, s->y, to, n, y);
  ATVI_TRY(fit_normal(v, learn, seen, &q));
  atvi_infer_member_to_family(&q, d, n, y, y);
  log_normal(v, &q, n, y, log_p);
  for (atvi_idx i = 0; i < n; i++) log_p[i] = s->log_pi[to + i] + s->frame->log_det - log_p[i];
  ATVI_TRY(draw(v, s->frame, &q, n, log_q));
  atvi_bridge_draws b = {.m = m, .n = s->n, .log_p = log_p, .n_q = n, .log_q = log_q};
  double *work = atvi_pool_take(v->pool, atvi_math_bridge_work(&b), sizeof *work);
  if (!work) return ATVI_ENOMEM;
  *out = atvi_math_bridge(&b, work);
  return ATVI_OK;
}

atvi_status atvi_infer_vi_bridge(atvi_vi *v, const atvi_vi_chain_states *s, double *log_evidence,
                                 double *se) {
  atvi_idx half = s->m / 2, middle = half * s->n;
  atvi_bridge_info a, b;
  *log_evidence = *se = NAN;
  if (half == 0 || s->n < ATVI_CONVERGE_LEAST) return ATVI_OK;
  ATVI_TRY(bridge(v, s, 0, middle, middle, s->m - half, &a));
  ATVI_TRY(bridge(v, s, middle, s->m * s->n - middle, 0, half, &b));
  *log_evidence = (a.log_evidence + b.log_evidence) / 2;
  *se = fmax(hypot(a.se, b.se), fabs(a.log_evidence - b.log_evidence)) / 2;
  return ATVI_OK;
}
