/* SPDX-License-Identifier: MIT */
/* R-hat and effective sample size (Vehtari, Gelman, Simpson, Carpenter, Buerkner 2021).
 *
 * Chains are cut in halves, giving M = 2 m pieces of h = n / 2 draws (the middle draw of an odd chain is left
 * out). Ranks over all N = M h draws become normal scores (their section 4); folding takes |x - median|
 * first, whose order follows from the sorted draws by merging outwards from the median. The effective size
 * needs only the mean over pieces of the autocovariance, so the power spectra are added up, two pieces to one
 * complex transform, and transformed back once. The transform is padded for lags up to MIN_PAD of a piece at
 * least, and for all of them if the sum has not ended by then. */
#include "math/detail.h"
#include "math/special.h"
#include "math/stat/stat.h"
#include <math.h>
#include <string.h>

#define MIN_PAD 0.25

typedef struct {
  atvi_idx m, n, h, M, N, size; /* size: the largest transform */
  const double *x;
  double *z, *key, *idx, *tmp;  /* [N], [N], [N], [2 N] */
  double *re, *im, *power, *tw; /* [size], [size], [size], [2 size] */
  double *rho;                  /* [h + 2] */
  double *mean;                 /* [M] of the pieces of z */
  double *table;                /* [N / 2 + 1] normal scores of the lower whole ranks */
} job;

static atvi_idx power_of_two(atvi_idx least) {
  atvi_idx p = 16;
  while (p < least) p *= 2;
  return p;
}

static job start(atvi_idx m, atvi_idx n, const double *x, double *work) {
  job j = {.m = m, .n = n, .h = n / 2, .M = 2 * m, .x = x};
  j.N = j.M * j.h;
  j.size = power_of_two(2 * j.h);
  if (!work) return j;
  j.z = work;
  j.key = j.z + j.N;
  j.idx = j.key + j.N;
  j.tmp = j.idx + j.N;
  j.re = j.tmp + 2 * j.N;
  j.im = j.re + j.size;
  j.power = j.im + j.size;
  j.tw = j.power + j.size;
  j.rho = j.tw + 2 * j.size;
  j.mean = j.rho + j.h + 2;
  j.table = j.mean + j.M;
  return j;
}

size_t atvi_math_stat_work(atvi_idx m, atvi_idx n) {
  job j = start(m, n, NULL, NULL);
  return (size_t)(5 * j.N + 5 * j.size + j.h + 2 + j.M + j.N / 2 + 1);
}

/* Copies the halves into out[M][h]. */
static void halves(const job *j, double *out) {
  for (atvi_idx k = 0; k < j->M; k++) {
    const double *from = j->x + (k / 2) * j->n + (k % 2 ? j->n - j->h : 0);
    memcpy(out + k * j->h, from, (size_t)j->h * sizeof *out);
  }
}

/* Sorts the halves into key with their places in idx. False where statistics make no sense. */
static bool order(const job *j) {
  halves(j, j->key);
  bool same = true;
  for (atvi_idx i = 0; i < j->N; i++) {
    if (!isfinite(j->key[i])) return false;
    same &= j->key[i] == j->key[0];
    j->idx[i] = (double)i;
  }
  if (same) return false;
  atvi_math_sort(j->N, j->key, j->idx, j->tmp);
  return true;
}

static double score(const job *j, double rank) {
  return atvi_math_ndtri((rank - 0.375) / ((double)j->N + 0.25));
}

static void fill_table(const job *j) {
  for (atvi_idx i = 0; i <= j->N / 2; i++) j->table[i] = score(j, (double)i + 1.0);
}

/* Normal scores of the average ranks of sorted[N], to z at the places idx[N]. */
static void scores(const job *j, const double *sorted, const double *idx) {
  atvi_idx N = j->N;
  for (atvi_idx i = 0, k; i < N; i = k) {
    for (k = i + 1; k < N && sorted[k] == sorted[i]; k++) {}
    atvi_idx twice = i + k - 1; /* of the average rank, counted from 0 */
    double v = twice % 2   ? score(j, 0.5 * (double)twice + 1.0)
               : twice < N ? j->table[twice / 2]
                           : -j->table[N - 1 - twice / 2];
    for (atvi_idx t = i; t < k; t++) j->z[(atvi_idx)idx[t]] = v;
  }
}

/* Sorted |x - median| and the places, into tmp[0 .. N) and tmp[N .. 2 N). */
static void fold(const job *j) {
  double median = atvi_math_quantile(j->N, j->key, NULL, 0.5), *f = j->tmp, *at = j->tmp + j->N;
  atvi_idx right = 0;
  while (right < j->N && j->key[right] < median) right++;
  atvi_idx left = right - 1;
  for (atvi_idx i = 0; i < j->N; i++) {
    bool take_left = right >= j->N || (left >= 0 && median - j->key[left] <= j->key[right] - median);
    atvi_idx k = take_left ? left-- : right++;
    f[i] = fabs(j->key[k] - median);
    at[i] = j->idx[k];
  }
}

/* Mean and variance (divisor h - 1) of one piece. Four sums at a time: one would wait for each addition. */
static double piece_moments(atvi_idx h, const double *z, double *var) {
  double s[4] = {0}, q[4] = {0};
  atvi_idx whole = h / 4 * 4;
  for (atvi_idx i = 0; i < whole; i += 4)
    for (int k = 0; k < 4; k++) s[k] += z[i + k];
  for (atvi_idx i = whole; i < h; i++) s[0] += z[i];
  double mean = (s[0] + s[1] + s[2] + s[3]) / (double)h;
  for (atvi_idx i = 0; i < whole; i += 4)
    for (int k = 0; k < 4; k++) q[k] += (z[i + k] - mean) * (z[i + k] - mean);
  for (atvi_idx i = whole; i < h; i++) q[0] += (z[i] - mean) * (z[i] - mean);
  *var = (q[0] + q[1] + q[2] + q[3]) / (double)(h - 1);
  return mean;
}

/* within: mean variance of the pieces; returns the variance of their means, which it keeps. */
static double between(const job *j, double *within) {
  double mean = 0, m2 = 0, var;
  *within = 0;
  for (atvi_idx k = 0; k < j->M; k++) {
    double a = piece_moments(j->h, j->z + k * j->h, &var), d = a - mean;
    j->mean[k] = a;
    mean += d / (double)(k + 1);
    m2 += d * (a - mean);
    *within += var / (double)j->M;
  }
  return m2 / (double)(j->M - 1);
}

static double rhat_basic(const job *j) {
  double within, b = between(j, &within);
  return sqrt(b / within + (double)(j->h - 1) / (double)j->h);
}

static void load(const job *j, atvi_idx piece, atvi_idx size, double *out) {
  const double *z = j->z + piece * j->h;
  for (atvi_idx i = 0; i < j->h; i++) out[i] = z[i] - j->mean[piece];
  memset(out + j->h, 0, (size_t)(size - j->h) * sizeof *out);
}

/* Mean autocovariance (divisor h) of the pieces into re[0 .. size - h]; M is even. */
static void autocovariance(const job *j, atvi_idx size) {
  atvi_math_fft_plan(size, j->tw);
  memset(j->power, 0, (size_t)size * sizeof *j->power);
  for (atvi_idx k = 0; k < j->M; k += 2) {
    load(j, k, size, j->re);
    load(j, k + 1, size, j->im);
    atvi_math_fft_fwd(size, j->tw, j->re, j->im);
    for (atvi_idx i = 0; i < size; i++) j->power[i] += j->re[i] * j->re[i] + j->im[i] * j->im[i];
  }
  double scale = 1.0 / ((double)size * (double)j->h * (double)j->M);
  for (atvi_idx i = 0; i < size; i++) {
    j->re[i] = j->power[i] * scale;
    j->im[i] = 0;
  }
  atvi_math_fft_inv(size, j->tw, j->re, j->im);
}

/* Fills rho with the initial positive sequence from re[0 .. lags). Returns the even lag at which it ends, or
 * -1 if more lags are needed. */
static atvi_idx positive_sequence(const job *j, atvi_idx lags, double within, double var_plus) {
  double *rho = j->rho, even = 1, odd = 1.0 - (within - j->re[1]) / var_plus;
  atvi_idx t = 0;
  rho[0] = 1;
  rho[1] = odd;
  while (t < j->h - 5 && even + odd > 0) {
    t += 2;
    if (t + 1 >= lags) return -1;
    even = 1.0 - (within - j->re[t]) / var_plus;
    odd = 1.0 - (within - j->re[t + 1]) / var_plus;
    rho[t] = even + odd >= 0 || even > 0 ? even : 0;
    rho[t + 1] = odd;
  }
  return t;
}

/* Effective size of z[M][h]; NaN if z is constant. */
static double ess_basic(const job *j) {
  double within, var_means = between(j, &within), *rho = j->rho;
  double h = (double)j->h, var_plus = within * (h - 1.0) / h + var_means;
  if (j->h < 3 || !(var_plus > 0)) return NAN;
  atvi_idx size = power_of_two(j->h + (atvi_idx)(MIN_PAD * h) + 1), end;
  autocovariance(j, size);
  end = positive_sequence(j, size - j->h < j->h ? size - j->h : j->h, within, var_plus);
  if (end < 0) {
    autocovariance(j, j->size);
    end = positive_sequence(j, j->h, within, var_plus);
  }
  for (atvi_idx t = 2; t <= end - 2; t += 2) { /* Geyer's monotone sequence */
    double before = rho[t - 2] + rho[t - 1];
    if (rho[t] + rho[t + 1] > before) rho[t] = rho[t + 1] = 0.5 * before;
  }
  double tau = -1.0 + rho[end];
  for (atvi_idx t = 0; t < end; t++) tau += 2.0 * rho[t];
  return (double)j->N / fmax(tau, 1.0 / log10((double)j->N));
}

/* Of |x - median|; spoils z and tmp. */
static double rhat_folded(const job *j) {
  fold(j);
  scores(j, j->tmp, j->tmp + j->N);
  return rhat_basic(j);
}

static double ess_below(const job *j, double p) {
  double q = atvi_math_quantile(j->N, j->key, NULL, p);
  halves(j, j->z);
  for (atvi_idx i = 0; i < j->N; i++) j->z[i] = j->z[i] <= q;
  return ess_basic(j);
}

static double tail_min(const job *j) {
  double a = ess_below(j, 0.05), b = ess_below(j, 0.95);
  return isnan(a) || isnan(b) ? NAN : fmin(a, b);
}

atvi_convergence atvi_math_converge(atvi_idx m, atvi_idx n, const double *x, double *work) {
  atvi_convergence c = {NAN, NAN, NAN, NAN};
  job j = start(m, n, x, work);
  if (n < ATVI_CONVERGE_LEAST || !order(&j)) return c;
  fill_table(&j);
  scores(&j, j.key, j.idx);
  c.rhat = rhat_basic(&j);
  c.ess_bulk = ess_basic(&j);
  c.rhat = fmax(c.rhat, rhat_folded(&j));
  c.ess_tail = tail_min(&j);
  halves(&j, j.z);
  c.ess_mean = ess_basic(&j);
  return c;
}
