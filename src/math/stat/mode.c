/* SPDX-License-Identifier: MIT */
/* Mode of a kernel density, by diffusion on a grid (Botev, Grotowski, Kroese 2010).
 *
 * The draws are counted into GRID cells; the density is their cosine series damped by
 * exp(-k^2 pi^2 t / 2), t the squared bandwidth in units of the grid's width. The cosine series reflects at
 * both ends of the grid: wanted at hard bounds, and without effect at the other ends, which are padded.
 * The bandwidth is the fixed point of Botev's improved Sheather-Jones iteration; if there is none, or if it
 * is far below Silverman's, the latter decides. Long tails are cut at CUT interquartile ranges beyond
 * the quartiles: the maximum is not there, and the grid stays fine. Equal draws (a chain that
 * stood still) are one draw for the number that sets the bandwidth. */
#include "math/detail.h"
#include "math/stat/stat.h"
#include <math.h>
#include <string.h>

enum { GRID = 1024, SCAN = 48, STAGES = 7 };
#define CUT 4.0
#define PAD 5.0   /* Silverman bandwidths beyond the last draw, at open ends */
#define LEAST 0.3 /* bounds of the bandwidth, in units of Silverman's */
#define MOST 2.0

typedef struct {
  double lo, hi; /* grid */
} span;

/* out[k] = sum_i x_i cos(pi k (2 i + 1) / (2 GRID)) through one complex transform (Makhoul 1980). */
static void cosines(const double *x, double *out, double *re, double *im) {
  double tw[2 * GRID];
  for (int i = 0; i < GRID / 2; i++) {
    re[i] = x[2 * i];
    re[GRID - 1 - i] = x[2 * i + 1];
  }
  memset(im, 0, GRID * sizeof *im);
  atvi_math_fft_plan(GRID, tw);
  atvi_math_fft_fwd(GRID, tw, re, im);
  for (int k = 0; k < GRID; k++) {
    atvi_idx at = atvi_math_fft_place(GRID, k);
    double angle = ATVI_PI * k / (2.0 * GRID);
    out[k] = re[at] * cos(angle) + im[at] * sin(angle);
  }
}

/* Back: x_i = (a_0 + 2 sum_k a_k cos(pi k (2 i + 1) / (2 GRID))) / GRID. */
static void cosines_back(const double *a, double *x, double *re, double *im) {
  double tw[2 * GRID];
  atvi_math_fft_plan(GRID, tw);
  for (int k = 0; k < GRID; k++) {
    atvi_idx at = atvi_math_fft_place(GRID, k);
    double angle = ATVI_PI * k / (2.0 * GRID), c = cos(angle), s = sin(angle), b = k ? a[GRID - k] : 0;
    re[at] = a[k] * c + b * s;
    im[at] = a[k] * s - b * c;
  }
  atvi_math_fft_inv(GRID, tw, re, im);
  for (int i = 0; i < GRID / 2; i++) {
    x[2 * i] = re[i] / GRID;
    x[2 * i + 1] = re[GRID - 1 - i] / GRID;
  }
}

/* || f^(s) ||^2 of the density damped with t, a[k] its cosine coefficients; without the factor pi^2s / 2. */
static double roughness(const double *a, int s, double t) {
  double sum = 0, c = ATVI_PI * ATVI_PI * t, damp = exp(-c), fall = damp * damp * damp, faster = exp(-2 * c);
  for (int k = 1; k < GRID; k++) {
    double k2 = (double)k * k, power = k2;
    if (k2 * c > 60.0) break;
    for (int i = 1; i < s; i++) power *= k2;
    sum += power * a[k] * a[k] * damp;
    damp *= fall; /* exp(-k^2 c), whose ratios fall by a constant factor */
    fall *= faster;
  }
  return sum;
}

/* xi gamma^[STAGES](t). */
static double plug_in(const double *a, double n, double t) {
  double f = 2.0 * pow(ATVI_PI, 2 * STAGES) * roughness(a, STAGES, t);
  for (int s = STAGES - 1; s >= 2; s--) {
    double odd = 1; /* (2 s - 1)!! */
    for (int k = 3; k <= 2 * s - 1; k += 2) odd *= k;
    double c = (1.0 + pow(0.5, s + 0.5)) / 3.0;
    double time = pow(2.0 * c * odd / (n * sqrt(ATVI_PI / 2.0) * f), 2.0 / (3.0 + 2.0 * s));
    f = 2.0 * pow(ATVI_PI, 2 * s) * roughness(a, s, time);
  }
  return pow(2.0 * n * sqrt(ATVI_PI) * f, -0.4);
}

/* Smallest root of t = plug_in(t), or NaN. */
static double fixed_point(const double *a, double n) {
  double lo = log(1e-9), hi = log(0.1), step = (hi - lo) / SCAN, left = NAN;
  for (int i = 0; i <= SCAN && isnan(left); i++) {
    double t = exp(lo + i * step), d = t - plug_in(a, n, t);
    if (isnan(d)) return NAN;
    if (d > 0) {
      if (i == 0) return NAN;
      left = lo + (i - 1) * step;
    }
  }
  if (isnan(left)) return NAN;
  double right = left + step;
  for (int k = 0; k < 14; k++) { /* a bandwidth to 1e-5 is plenty */
    double mid = 0.5 * (left + right), t = exp(mid);
    if (t - plug_in(a, n, t) > 0)
      right = mid;
    else
      left = mid;
  }
  return exp(0.5 * (left + right));
}

/* Silverman's rule for count draws. */
static double silverman(atvi_idx n, const double *xs, const double *ws, double count) {
  double sd = atvi_math_sd(n, xs, ws);
  double iqr = atvi_math_quantile(n, xs, ws, 0.75) - atvi_math_quantile(n, xs, ws, 0.25);
  return 0.9 * (iqr > 0 ? fmin(sd, iqr / 1.34) : sd) * pow(count, -0.2);
}

static span choose_span(atvi_idx n, const double *xs, const double *ws, double lower, double upper,
                        double pad) {
  double q1 = atvi_math_quantile(n, xs, ws, 0.25), q3 = atvi_math_quantile(n, xs, ws, 0.75);
  double q05 = atvi_math_quantile(n, xs, ws, 0.05), q95 = atvi_math_quantile(n, xs, ws, 0.95);
  double iqr = q3 > q1 ? q3 - q1 : (q95 - q05) / 2.44; /* the normal's ratio */
  span s = {xs[0], xs[n - 1]};
  if (iqr > 0) {
    s.lo = fmax(s.lo, q1 - CUT * iqr);
    s.hi = fmin(s.hi, q3 + CUT * iqr);
  }
  s.lo = fmax(s.lo - pad, lower);
  s.hi = fmin(s.hi + pad, upper);
  return s;
}

/* Number of draws that count: equal ones as one, unequal weights as Kish has it. */
static double effective(atvi_idx n, const double *xs, const double *ws) {
  double total = 0, squares = 0;
  for (atvi_idx i = 0, j; i < n; i = j) {
    double w = 0;
    for (j = i; j < n && xs[j] == xs[i]; j++) w += ws ? ws[j] : 1.0;
    total += w;
    squares += w * w;
  }
  return total * total / squares;
}

/* Shares per cell, spread linearly over the two nearest centres; the half cells at the ends reflect. */
static void bin(atvi_idx n, const double *xs, const double *ws, span g, double *cell) {
  double total = 0, scale = GRID / (g.hi - g.lo);
  memset(cell, 0, GRID * sizeof *cell);
  for (atvi_idx i = 0; i < n; i++) {
    double w = ws ? ws[i] : 1.0, at = (xs[i] - g.lo) * scale - 0.5;
    if (!(at >= -0.5 && at <= GRID - 0.5)) continue;
    int k = (int)floor(at);
    double f = at - k;
    cell[k < 0 ? 0 : k] += w * (1.0 - f);
    cell[k + 1 >= GRID ? GRID - 1 : k + 1] += w * f;
    total += w;
  }
  for (int k = 0; k < GRID; k++) cell[k] /= total;
}

/* Where the damped density is largest: the parabola through the top cell and its neighbours. */
static double peak(const double *cell, span g) {
  int top = 0;
  for (int k = 1; k < GRID; k++)
    if (cell[k] > cell[top]) top = k;
  double left = cell[top > 0 ? top - 1 : 0], right = cell[top + 1 < GRID ? top + 1 : GRID - 1];
  double bend = left - 2.0 * cell[top] + right, shift = bend < 0 ? 0.5 * (left - right) / bend : 0;
  return fmin(fmax(g.lo + (top + 0.5 + shift) * (g.hi - g.lo) / GRID, g.lo), g.hi);
}

/* The damped density, as shares of the cells of *g; false where there is none: all weight is on one point. */
static bool damped(atvi_idx n, const double *xs, const double *ws, double lower, double upper, span *g,
                   double *work) {
  double *cell = work, *a = cell + GRID, *re = a + GRID, *im = re + GRID;
  double count = effective(n, xs, ws), h = silverman(n, xs, ws, count);
  if (!(h > 0)) return false;
  *g = choose_span(n, xs, ws, lower, upper, PAD * h);
  if (!(g->hi > g->lo)) return false;
  bin(n, xs, ws, *g, cell);
  cosines(cell, a, re, im);
  double rule = h * h / ((g->hi - g->lo) * (g->hi - g->lo)), t = fixed_point(a, count);
  t = isnan(t) ? rule : fmin(fmax(t, LEAST * LEAST * rule), MOST * MOST * rule);
  for (int k = 0; k < GRID; k++) a[k] *= exp(-0.5 * ATVI_PI * ATVI_PI * k * k * t);
  cosines_back(a, cell, re, im);
  return true;
}

double atvi_math_mode(atvi_idx n, const double *xs, const double *ws, double lower, double upper,
                      double *work) {
  span g;
  if (n < 1 || !isfinite(xs[0]) || !isfinite(xs[n - 1])) return NAN;
  if (xs[0] == xs[n - 1]) return xs[0];
  return damped(n, xs, ws, lower, upper, &g, work) ? peak(work, g) : atvi_math_quantile(n, xs, ws, 0.5);
}

/* Share of the weight inside the grid: long tails are cut. */
static double inside(atvi_idx n, const double *xs, const double *ws, span g) {
  double in = 0, all = 0;
  for (atvi_idx i = 0; i < n; i++) {
    double w = ws ? ws[i] : 1.0;
    all += w;
    if (xs[i] >= g.lo && xs[i] <= g.hi) in += w;
  }
  return in / all;
}

bool atvi_math_density(atvi_idx n, const double *xs, const double *ws, double lower, double upper,
                       double ends[2], double *out, double *work) {
  span g;
  if (n < 1 || !isfinite(xs[0]) || !isfinite(xs[n - 1]) || xs[0] == xs[n - 1]) return false;
  if (!damped(n, xs, ws, lower, upper, &g, work)) return false;
  double scale = inside(n, xs, ws, g) * GRID / (g.hi - g.lo);
  for (int k = 0; k < ATVI_DENSITY_GRID; k++) {
    double sum = 0;
    for (int i = 0; i < GRID / ATVI_DENSITY_GRID; i++) sum += work[k * (GRID / ATVI_DENSITY_GRID) + i];
    out[k] = fmax(0, sum * scale * ATVI_DENSITY_GRID / GRID);
  }
  ends[0] = g.lo;
  ends[1] = g.hi;
  return true;
}
