/* SPDX-License-Identifier: MIT */
/* Systematic resampling: one uniform number u, and draw i is taken once for every k with
 * W_{i-1} <= (k + u) / n < W_i, W the cumulated weights. Its count differs from n w_i by less than one, which is
 * the least noise that resampling can add. Equal draws come out beside each other, hence the shuffle. */
#include "atvi/draws.h"
#include "draws/made.h"
#include "math/rng.h"
#include <math.h>

static double weight(const atvi_draws *d, atvi_idx i) { return d->weight ? d->weight[i] : 1; }

/* index[n] of the draws taken; false if no weight is above zero. */
static bool pick(const atvi_draws *d, atvi_idx n, uint64_t seed, atvi_idx *index) {
  double all = 0;
  atvi_idx last = -1; /* the last one that may be taken: rounding must not run past it */
  for (atvi_idx i = 0; i < d->n; i++) {
    all += weight(d, i);
    if (weight(d, i) > 0) last = i;
  }
  if (!(all > 0) || !isfinite(all)) return false;
  atvi_rng r = atvi_math_rng_at(seed, ATVI_STREAM_RESAMPLE, 0, 0);
  double u = atvi_math_rng_uniform(&r), step = all / (double)n, upto = 0;
  atvi_idx i = -1;
  for (atvi_idx k = 0; k < n; k++) {
    double at = ((double)k + u) * step;
    while (i < last && upto <= at) upto += weight(d, ++i);
    index[k] = i;
  }
  for (atvi_idx k = n - 1; k > 0; k--) { /* Fisher-Yates; the modulus is biased by less than 2^-40 */
    atvi_idx j = (atvi_idx)(atvi_math_rng_bits(&r) % ((uint64_t)k + 1)), t = index[k];
    index[k] = index[j];
    index[j] = t;
  }
  return true;
}

static void gather(atvi_idx n, const atvi_idx *index, const double *from, double *to) {
  for (atvi_idx k = 0; k < n; k++) to[k] = from[index[k]];
}

static atvi_status copy_words(const atvi_draws *d, atvi_draws *to) {
  *to->made = *d->made;
  to->made->mode_draw = NAN; /* a number of a draw among those of d */
  ATVI_TRY(atvi_draws_keep(to, d->made->method, &to->made->method));
  ATVI_TRY(atvi_draws_keep(to, d->made->model, &to->made->model));
  for (atvi_idx i = 0; i < d->n_message; i++) {
    const atvi_message *m = &d->message[i];
    ATVI_TRY(atvi_draws_say(to, m->severity, m->code, "%s", m->text));
  }
  return ATVI_OK;
}

/* Draws index[n] of d without weights. */
static atvi_status take(const atvi_draws *d, atvi_idx n, const atvi_idx *index, atvi_idx n_chain,
                        atvi_draws **out) {
  atvi_draws *to;
  ATVI_TRY(atvi_draws_new(d->ctx, n, n_chain, d->n_param, d->n_col, d->col, false, &to));
  atvi_status status = copy_words(d, to);
  if (status != ATVI_OK) {
    atvi_draws_free(to);
    return status;
  }
  for (atvi_idx j = 0; j < d->n_col; j++) gather(n, index, d->x + j * d->n, to->x + j * n);
  gather(n, index, d->log_prior, to->log_prior);
  gather(n, index, d->log_lik, to->log_lik);
  *out = to;
  return ATVI_OK;
}

static atvi_status resample(const atvi_draws *d, atvi_idx n, uint64_t seed, atvi_idx *index,
                            atvi_draws **out) {
  if (!pick(d, n, seed, index))
    return ATVI_FAIL(d->ctx, ATVI_EINVAL, "resample: none of the %td draws has a weight above zero", d->n);
  return take(d, n, index, 1, out);
}

atvi_status atvi_draws_resample(const atvi_draws *d, atvi_idx n, uint64_t seed, atvi_draws **out) {
  *out = NULL;
  if (n < 1) return ATVI_FAIL(d->ctx, ATVI_EINVAL, "resample: n = %td, want >= 1", n);
  atvi_idx *index = (size_t)n > SIZE_MAX / 64 ? NULL : atvi_block(d->ctx, (size_t)n * sizeof *index);
  if (!index) return ATVI_ENOMEM;
  atvi_status status = resample(d, n, seed, index, out);
  atvi_block_free(d->ctx, index);
  return status;
}

atvi_status atvi_draws_unweighted(const atvi_draws *d, atvi_draws **out) {
  *out = NULL;
  atvi_idx *index = atvi_block(d->ctx, (size_t)d->n * sizeof *index);
  if (!index) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < d->n; i++) index[i] = i;
  atvi_status status = take(d, d->n, index, d->n_chain, out);
  if (status == ATVI_OK) (*out)->chains = d->chains, (*out)->made->mode_draw = d->made->mode_draw;
  atvi_block_free(d->ctx, index);
  return status;
}
