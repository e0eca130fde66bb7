/* SPDX-License-Identifier: MIT */
#include "math/stat/stat.h"
#include "math/rng.h"
#include "math/special.h"
#include <math.h>

static const double WORK = 2e7;      /* random numbers that simulation takes by default */
static const double WORK_MOST = 2e8; /* and at most: a few seconds */
static const double PER_LEVEL = 10;  /* simulated sets that are as far out as a p-value of that level */
static const double TABLE_MAX = 1e8; /* entries: 800 MB */
enum { SIMS_LEAST = 4000, SIMS_MOST = 50000, SIMS_MIN = 100 };

struct atvi_ecdf {
  atvi_ctx *ctx;
  atvi_idx n, k, sims;
  double *tail;    /* [k-1][n+1] two-sided tail of Binomial(n, i/k) at c, at most 1 */
  double *g;       /* [sims] simulated, ascending */
  double *scratch; /* [2 sims] of sorting */
  atvi_idx *count; /* [k] */
};

static atvi_ecdf *carve(atvi_arena *a, atvi_idx n, atvi_idx k, atvi_idx sims) {
  atvi_ecdf *o, head = {.n = n, .k = k, .sims = sims};
  ATVI_TAKE(a, o, 1);
  ATVI_TAKE(a, head.tail, (k - 1) * (n + 1));
  ATVI_TAKE(a, head.g, sims);
  ATVI_TAKE(a, head.scratch, 2 * sims);
  ATVI_TAKE(a, head.count, k);
  if (o) *o = head;
  return o;
}

/* 2 min(P(C <= c), P(C >= c)) for c = 0 .. n. Sums from each end: small tails keep their digits. */
static void fill_tail(atvi_idx n, double p, double *tail) {
  double log_p = log(p), log_q = log1p(-p), whole = atvi_math_lgamma((double)n + 1), below = 0, above = 0;
  for (atvi_idx c = 0; c <= n; c++)
    tail[c] = exp(whole - atvi_math_lgamma((double)c + 1) - atvi_math_lgamma((double)(n - c) + 1) +
                  (double)c * log_p + (double)(n - c) * log_q);
  atvi_idx low = 0, high = n;
  while (low <= high) { /* the end that is further out is the next to be final */
    if (below + tail[low] <= above + tail[high]) {
      below += tail[low];
      tail[low++] = fmin(1, 2 * below);
    } else {
      above += tail[high];
      tail[high--] = fmin(1, 2 * above);
    }
  }
}

static double smallest(const atvi_ecdf *e, const atvi_idx *count) {
  double g = 1;
  atvi_idx c = 0;
  for (atvi_idx i = 0; i < e->k - 1; i++) {
    c += count[i];
    g = fmin(g, e->tail[i * (e->n + 1) + c]);
  }
  return g;
}

static void simulate(atvi_ecdf *e, uint64_t seed) {
  for (atvi_idx s = 0; s < e->sims; s++) {
    atvi_rng rng = atvi_math_rng_at(seed, ATVI_STREAM_CHECK, (uint32_t)s, 0);
    for (atvi_idx i = 0; i < e->k; i++) e->count[i] = 0;
    for (atvi_idx j = 0; j < e->n; j++) {
      atvi_idx rank = (atvi_idx)(atvi_math_rng_uniform(&rng) * (double)e->k);
      e->count[rank < e->k ? rank : e->k - 1]++;
    }
    e->g[s] = smallest(e, e->count);
  }
  atvi_math_sort(e->sims, e->g, NULL, e->scratch);
}

atvi_idx atvi_math_ecdf_sims(atvi_idx n, double level) {
  double usual = fmin(fmax(WORK / (double)n, SIMS_LEAST), SIMS_MOST);
  return (atvi_idx)fmax(usual, fmin(PER_LEVEL / level, WORK_MOST / (double)n));
}

atvi_status atvi_math_ecdf_new(atvi_ctx *ctx, atvi_idx n, atvi_idx k, atvi_idx sims, uint64_t seed,
                               atvi_ecdf **out) {
  *out = NULL;
  if (n < 1 || k < 2 || sims < 0 || (sims > 0 && sims < SIMS_MIN) || (double)n * (double)k > TABLE_MAX)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "ecdf: %td ranks of %td values, %td simulations", n, k, sims);
  if (sims == 0) sims = atvi_math_ecdf_sims(n, 1);
  atvi_arena a = {0};
  carve(&a, n, k, sims);
  a = (atvi_arena){.base = atvi_block(ctx, a.used)};
  if (!a.base) return ATVI_ENOMEM;
  atvi_ecdf *e = carve(&a, n, k, sims);
  e->ctx = ctx;
  for (atvi_idx i = 1; i < k; i++) fill_tail(n, (double)i / (double)k, e->tail + (i - 1) * (n + 1));
  simulate(e, seed);
  *out = e;
  return ATVI_OK;
}

void atvi_math_ecdf_free(atvi_ecdf *e) {
  if (e) atvi_block_free(e->ctx, e);
}

double atvi_math_ecdf_p(const atvi_ecdf *e, const atvi_idx *count) {
  /* tails are discrete: equal ones must count as equal, whatever their last digit */
  double g = smallest(e, count) * (1 + 1e-12);
  atvi_idx low = 0, high = e->sims;
  while (low < high) {
    atvi_idx mid = (low + high) / 2;
    if (e->g[mid] <= g)
      low = mid + 1;
    else
      high = mid;
  }
  /* Each tail is g or less with probability g at most, hence any of them with (k - 1) g: all that is left to
   * say beyond what was simulated. */
  return fmin(((double)low + 1) / ((double)e->sims + 1), (double)(e->k - 1) * g);
}

void atvi_math_ecdf_band(const atvi_ecdf *e, double alpha, double *low, double *high) {
  atvi_idx at = (atvi_idx)floor(alpha * (double)e->sims);
  double gamma = e->g[at < 0 ? 0 : at < e->sims ? at : e->sims - 1] * (1 - 1e-12);
  for (atvi_idx i = 0; i < e->k - 1; i++) {
    const double *tail = e->tail + i * (e->n + 1);
    atvi_idx from = 0, to = e->n;
    while (from < e->n && tail[from] < gamma) from++;
    while (to > 0 && tail[to] < gamma) to--;
    low[i] = (double)from / (double)e->n;
    high[i] = (double)to / (double)e->n;
  }
}
