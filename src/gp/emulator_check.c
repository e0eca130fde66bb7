/* SPDX-License-Identifier: MIT */
/* What is wrong with runs or settings, and their fingerprints. */
#include "gp/emulator_detail.h"
#include <limits.h>
#include <math.h>
#include <string.h>

static atvi_status check_opts(atvi_ctx *ctx, const atvi_em_runs *r, const atvi_em_opts *o) {
  if (o->kernel < ATVI_EM_EXPONENTIAL || o->kernel > ATVI_EM_SQUARED)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "emulator: no kernel has the number %d", (int)o->kernel);
  for (atvi_idx j = 0; o->length && j < r->d; j++)
    if (!(o->length[j] > 0) || !isfinite(o->length[j]))
      return ATVI_FAIL(ctx, ATVI_EINVAL, "emulator: length %td = %g, want > 0", j + 1, o->length[j]);
  if (o->nugget < 0 || isinf(o->nugget))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "emulator: nugget = %g, want >= 0", o->nugget);
  if (o->time_length <= 0 || isinf(o->time_length))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "emulator: range in time = %g, want > 0", o->time_length);
  if (o->sill <= 0 || isinf(o->sill))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "emulator: sill = %g, want > 0", o->sill);
  if (!(o->basis >= 0 && o->basis < 1))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "emulator: basis = %g, want a share in (0, 1), or 0 for none",
                     o->basis);
  if (o->starts < 0 || o->starts > 10000)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "emulator: %d starts, want 0 to 10000", o->starts);
  return ATVI_OK;
}

static atvi_status check_shape(atvi_ctx *ctx, const atvi_em_runs *r) {
  if (r->n < 2) return ATVI_FAIL(ctx, ATVI_EINVAL, "emulator: %td runs, want at least 2", r->n);
  if (r->d < 1 || r->m < 1 || !r->x || !r->y)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "emulator: runs need at least one input and one output");
  if (r->n > 30000 || r->d > 10000 || r->m > INT_MAX / 2) /* n^2 must fit an int of the linear algebra */
    return ATVI_FAIL(ctx, ATVI_EINVAL, "emulator: %td runs of %td inputs and %td outputs are too many", r->n,
                     r->d, r->m);
  for (atvi_idx t = 0; r->time && t < r->m; t++)
    if (!isfinite(r->time[t]) || (t > 0 && !(r->time[t] > r->time[t - 1])))
      return ATVI_FAIL(ctx, ATVI_EINVAL, "emulator: time %td = %g does not follow %g", t + 1, r->time[t],
                       t > 0 ? r->time[t - 1] : NAN);
  return ATVI_OK;
}

static atvi_status check_numbers(atvi_ctx *ctx, const atvi_em_runs *r) {
  atvi_idx n = r->n, d = r->d, m = r->m;
  for (atvi_idx i = 0; i < n * d; i++)
    if (!isfinite(r->x[i]))
      return ATVI_FAIL(ctx, ATVI_EDATA, "emulator: input %td of run %td is %g", i % d + 1, i / d + 1,
                       r->x[i]);
  for (atvi_idx i = 0; i < n * m; i++)
    if (!(fabs(r->y[i]) <= 1e150)) /* squares must be finite */
      return ATVI_FAIL(ctx, ATVI_EDATA, "emulator: output %td of run %td is %g", i % m + 1, i / m + 1,
                       r->y[i]);
  for (atvi_idx t = 0; r->mean && t < m; t++)
    if (!(fabs(r->mean[t]) <= 1e150))
      return ATVI_FAIL(ctx, ATVI_EDATA, "emulator: mean of output %td is %g", t + 1, r->mean[t]);
  for (atvi_idx i = m; i < n * m; i++)
    if (r->y[i] != r->y[i % m]) return ATVI_OK;
  return ATVI_FAIL(ctx, ATVI_EDATA, "emulator: all %td runs have the same outputs", n);
}

static atvi_status check_distinct(atvi_ctx *ctx, const atvi_em_runs *r) {
  size_t bytes = (size_t)r->d * sizeof *r->x;
  for (atvi_idx i = 1; i < r->n; i++)
    for (atvi_idx j = 0; j < i; j++)
      if (memcmp(r->x + i * r->d, r->x + j * r->d, bytes) == 0)
        return ATVI_FAIL(ctx, ATVI_EINVAL,
                         "emulator: runs %td and %td have equal inputs; with a nugget of 0 they may not",
                         j + 1, i + 1);
  return ATVI_OK;
}

atvi_status atvi_em_check(atvi_ctx *ctx, const atvi_em_runs *runs, const atvi_em_opts *opts) {
  ATVI_TRY(check_shape(ctx, runs));
  ATVI_TRY(check_opts(ctx, runs, opts));
  ATVI_TRY(check_numbers(ctx, runs));
  return opts->nugget == 0 ? check_distinct(ctx, runs) : ATVI_OK;
}

/* ---- fingerprints ---- */

/* The finaliser of splitmix64: every bit of the word reaches every bit of the sum. */
static uint64_t stir(uint64_t h, uint64_t word) {
  h = (h ^ word) + 0x9e3779b97f4a7c15u;
  h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9u;
  h = (h ^ h >> 27) * 0x94d049bb133111ebu;
  return h ^ h >> 31;
}

static uint64_t stir_reals(uint64_t h, const double *x, atvi_idx n) {
  h = stir(h, x ? (uint64_t)n : UINT64_MAX);
  for (atvi_idx i = 0; x && i < n; i++) {
    uint64_t word;
    memcpy(&word, &x[i], sizeof word);
    h = stir(h, word);
  }
  return h;
}

uint64_t atvi_em_hash_runs(const atvi_em_runs *r) {
  uint64_t h = stir(stir(stir(0, (uint64_t)r->n), (uint64_t)r->d), (uint64_t)r->m);
  h = stir_reals(h, r->x, r->n * r->d);
  h = stir_reals(h, r->y, r->n * r->m);
  h = stir_reals(h, r->time, r->m);
  return stir_reals(h, r->mean, r->m);
}

/* NaN by any other bits is as free. */
uint64_t atvi_em_hash_opts(const atvi_em_opts *o, atvi_idx d) {
  double value[4] = {o->nugget, o->time_length, o->sill, o->basis};
  for (int i = 0; i < 4; i++)
    if (isnan(value[i])) value[i] = -1;
  uint64_t h = stir(stir(stir(0, (uint64_t)o->kernel), (uint64_t)o->starts), o->seed);
  return stir_reals(stir_reals(h, o->length, d), value, 4);
}
