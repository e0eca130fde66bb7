/* SPDX-License-Identifier: MIT */
/* Weighted moments, quantiles and shortest intervals. */
#include "math/stat/stat.h"
#include <math.h>
#include <string.h>

static double weight(const double *w, atvi_idx i) { return w ? w[i] : 1.0; }

double atvi_math_mean(atvi_idx n, const double *x, const double *w) {
  double mean = 0, sum = 0;
  for (atvi_idx i = 0; i < n; i++) { /* running mean: no overflow, little rounding */
    double wi = weight(w, i);
    if (wi == 0) continue;
    sum += wi;
    mean += (x[i] - mean) * (wi / sum);
  }
  return sum > 0 ? mean : NAN;
}

double atvi_math_sd(atvi_idx n, const double *x, const double *w) {
  double mean = atvi_math_mean(n, x, w), s = 0, w1 = 0, w2 = 0, most = 0, by = 1;
  for (atvi_idx i = 0; i < n; i++) most = fmax(most, weight(w, i) == 0 ? 0 : fabs(x[i] - mean));
  if (most > 0 && isfinite(most) && (most < 1e-150 || most > 1e150))
    by = most; /* squares would underflow or overflow */
  for (atvi_idx i = 0; i < n; i++) {
    double wi = weight(w, i);
    if (wi == 0) continue;
    s += wi * ((x[i] - mean) / by) * ((x[i] - mean) / by);
    w1 += wi;
    w2 += wi * wi;
  }
  return by * sqrt(s / (w1 - w2 / w1)); /* unbiased for weights that say how reliable a draw is */
}

/* Point i of n stands at probability (W_i - w_i/2 - w_0/2) / (W - w_0/2 - w_(n-1)/2), W_i the cumulative
 * weight; between points the quantile is linear. Equal weights make this i / (n - 1), type 7. */
static double weighted_quantile(atvi_idx n, const double *xs, const double *ws, double p) {
  double total = 0, at = 0;
  for (atvi_idx i = 0; i + 1 < n; i++) total += 0.5 * (ws[i] + ws[i + 1]);
  double goal = p * total;
  for (atvi_idx i = 0; i + 1 < n; i++) {
    double step = 0.5 * (ws[i] + ws[i + 1]);
    if (at + step >= goal && step > 0) return xs[i] + (xs[i + 1] - xs[i]) * ((goal - at) / step);
    at += step;
  }
  return xs[n - 1];
}

double atvi_math_quantile(atvi_idx n, const double *xs, const double *ws, double p) {
  if (n < 1 || !(p >= 0 && p <= 1)) return NAN;
  if (n == 1) return xs[0];
  if (ws) return weighted_quantile(n, xs, ws, p);
  double at = p * (double)(n - 1), k = floor(at);
  atvi_idx i = (atvi_idx)k;
  if (i + 1 >= n || at == k) return xs[i];
  return xs[i] + (at - k) * (xs[i + 1] - xs[i]);
}

/* Weight of the draws equal to xs[j - 1] that stand at j and after. */
static double ties_after(atvi_idx n, const double *xs, const double *ws, atvi_idx j) {
  double sum = 0;
  for (atvi_idx i = j; i < n && xs[i] == xs[j - 1]; i++) sum += weight(ws, i);
  return sum;
}

/* Counts have many shortest intervals: the one that holds most is the densest. */
void atvi_math_hpd(atvi_idx n, const double *xs, const double *ws, double p, double out[2]) {
  double total = 0, mass = 0, best = HUGE_VAL, most = 0;
  out[0] = out[1] = NAN;
  if (n < 1 || !(p > 0 && p <= 1)) return;
  for (atvi_idx i = 0; i < n; i++) total += weight(ws, i);
  double goal = p * total * (1.0 - 1e-12);  /* a sum of weights may fall short by rounding */
  for (atvi_idx i = 0, j = 0; i < n; i++) { /* mass: weight of draws i .. j - 1 */
    while (j < n && mass < goal) mass += weight(ws, j++);
    if (mass < goal) break;
    double length = xs[j - 1] - xs[i];
    if (length <= best && (i == 0 || xs[i] > xs[i - 1])) {
      double held = mass + ties_after(n, xs, ws, j);
      if (length < best || held > most) {
        best = length;
        most = held;
        out[0] = xs[i];
        out[1] = xs[j - 1];
      }
    }
    mass -= weight(ws, i);
  }
}

/* Sorting of draws: insertion for few, else least-significant-digit radix sort on the bits of the double,
 * mapped so that unsigned order is numerical order. Stable; digits that all keys share are skipped. */

enum { FEW = 200, BITS = 11, SIZE = 1 << BITS, PASSES = 6 };

static uint64_t key_of(double x) {
  uint64_t u;
  memcpy(&u, &x, sizeof u);
  return u >> 63 ? ~u : u | 0x8000000000000000u;
}

static void insertion(atvi_idx n, double *x, double *w) {
  for (atvi_idx i = 1; i < n; i++) {
    double v = x[i], c = w ? w[i] : 0;
    uint64_t k = key_of(v);
    atvi_idx j = i;
    for (; j > 0 && key_of(x[j - 1]) > k; j--) {
      x[j] = x[j - 1];
      if (w) w[j] = w[j - 1];
    }
    x[j] = v;
    if (w) w[j] = c;
  }
}

/* Counts to starting places; false if one digit holds all keys. */
static bool places(uint32_t *count, atvi_idx n) {
  uint32_t sum = 0;
  for (int d = 0; d < SIZE; d++) {
    uint32_t c = count[d];
    if ((atvi_idx)c == n) return false;
    count[d] = sum;
    sum += c;
  }
  return true;
}

int atvi_math_by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

void atvi_math_sort(atvi_idx n, double *x, double *w, double *work) {
  uint32_t count[PASSES][SIZE];
  double *x0 = x, *w0 = w, *x1 = work, *w1 = work + n;
  if (n <= FEW) {
    insertion(n, x, w);
    return;
  }
  ATVI_ASSERT((uint64_t)n <= UINT32_MAX);
  memset(count, 0, sizeof count);
  for (atvi_idx i = 0; i < n; i++) {
    uint64_t k = key_of(x[i]);
    for (int p = 0; p < PASSES; p++) count[p][k >> (p * BITS) & (SIZE - 1)]++;
  }
  for (int p = 0; p < PASSES; p++) {
    if (!places(count[p], n)) continue;
    for (atvi_idx i = 0; i < n; i++) {
      uint32_t to = count[p][key_of(x0[i]) >> (p * BITS) & (SIZE - 1)]++;
      x1[to] = x0[i];
      if (w) w1[to] = w0[i];
    }
    double *t = x0;
    x0 = x1;
    x1 = t;
    t = w0;
    w0 = w1;
    w1 = t;
  }
  if (x0 == x) return;
  memcpy(x, x0, (size_t)n * sizeof *x);
  if (w) memcpy(w, w0, (size_t)n * sizeof *w);
}

/* On the line the distance has a closed form: W1 = integral |F(x) - G(x)| dx (Vallender 1974). Both
 * distribution functions are steps, so the integral is a sum over the merged values. */

static double total(atvi_idx n, const double *w) {
  if (!w) return (double)n;
  double sum = 0;
  for (atvi_idx i = 0; i < n; i++) sum += w[i];
  return sum;
}

/* Ends of the order hold whatever is not finite. */
static bool usable(atvi_idx n, const double *xs, double weight) {
  return n > 0 && weight > 0 && isfinite(weight) && isfinite(xs[0]) && isfinite(xs[n - 1]);
}

double atvi_math_wasserstein(atvi_idx n, const double *xs, const double *wx, atvi_idx m, const double *ys,
                             const double *wy) {
  double all_x = total(n, wx), all_y = total(m, wy);
  if (!usable(n, xs, all_x) || !usable(m, ys, all_y)) return NAN;
  double sum = 0, below_x = 0, below_y = 0, at = fmin(xs[0], ys[0]);
  for (atvi_idx i = 0, j = 0; i < n || j < m;) {
    double next = i == n ? ys[j] : j == m ? xs[i] : fmin(xs[i], ys[j]);
    sum += (next - at) * fabs(below_x / all_x - below_y / all_y);
    at = next;
    for (; i < n && xs[i] == at; i++) below_x += wx ? wx[i] : 1;
    for (; j < m && ys[j] == at; j++) below_y += wy ? wy[j] : 1;
  }
  return sum;
}

double atvi_math_cdf_spread(atvi_idx n, const double *xs, const double *wx) {
  double all = total(n, wx), below = 0, sum = 0;
  if (!usable(n, xs, all)) return NAN;
  for (atvi_idx i = 0; i + 1 < n; i++) {
    below += wx ? wx[i] : 1;
    double f = below / all;
    sum += (xs[i + 1] - xs[i]) * sqrt(fmax(0, f * (1 - f)));
  }
  return sum;
}
