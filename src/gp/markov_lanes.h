/* SPDX-License-Identifier: MIT */
/* Transitions of the Markov processes, a vector of points at a time; for markov*_isa.c only: all of it is
 * static.
 *
 * State     A term of rate c (1/l, sqrt 3/l, sqrt 5/l) has as states its value and the derivatives in units of c: f, f'/c, f''/c^2. In the variable a = c h the law no longer depends on c:
 *             dx/da = F x + noise q,   x(a) = A x(0) + N(0, Q),   A = e^{Fa},   Q = q int_0^a u(s) u(s)' ds,   u = last column of e^{Fs}
 *           F    exponential -1;  matern32 (0 1; -1 -2);  matern52 (0 1 0; 0 0 1; -1 -3 -3)
 *           q    2v, 4v, 16v/3;    stationary covariance v, v I, v (1 0 -1/3; 0 1/3 0; -1/3 0 1)
 * Stable    Q for short steps is a difference of nearly equal numbers if taken from the stationary law. Here it is a combination of
 *           I_k = int_0^a s^k e^{-2s} ds: the highest one by a series of positive terms for small a, the others by the recursion
 *           I_{k-1} = (2 I_k + a^k e^{-2a}) / k, downwards, where nothing cancels.
 * Slopes    dA/da = F A and dQ/da = q u u'.
 *
 * An entry of the table: A[S][S] and Q (lower triangle), all terms together; then for each term Q and dQ/da
 * for v = 1. */
#ifndef ATVI_GP_MARKOV_LANES_H
#define ATVI_GP_MARKOV_LANES_H

#include "gp/markov_detail.h"
#include "math/vec.h"
#include <string.h>

#define SMALLEST 1e-290 /* range of a variance in which its logarithm and inverse are safe */
#define LARGEST 1e290
#define FARTHEST 350.0 /* e^{-2a} is not yet denormal; after longer steps a process has no memory */

ALWAYS vec get(const double *p) { return (vec) * (const vec_any *)p; }
ALWAYS void put(double *p, vec v) { *(vec_any *)p = (vec_any)v; }
/* Lower triangle, row after row. */
ALWAYS int low(int i, int j) { return i >= j ? i * (i + 1) / 2 + j : j * (j + 1) / 2 + i; }

/* int_0^a s^n e^{-2s} ds = n! / 2^{n+1} (1 - e^{-z} sum_{j <= n} z^j / j!), z = 2a, gone = e^{-z}; and =
 * a^{n+1} e^{-z} / (n+1) (1 + z/(n+2) (1 + z/(n+3) ...)) if the difference cancels. n is 0, 2 or 4. */
ALWAYS vec gathered(const int n, vec a, vec gone) {
  const int terms = 18 + 2 * n; /* the rest is below 1e-17 of the sum up to z = join */
  const double join = 1 + 0.5 * n;
  vec z = 2 * a, near = pick(z < join, z, vec_of(join)), sum = vec_of(1), part = vec_of(1), power = a;
  double scale = 0.5;
  for (int j = n + terms; j >= n + 2; j--) sum = sum * (near * (1.0 / j)) + 1;
  for (int j = n; j >= 1; j--) part = part * (z * (1.0 / j)) + 1;
  for (int j = 1; j <= n; j++) power *= a, scale *= 0.5 * j;
  return pick(z < join, power * gone * sum * (1.0 / (n + 1)), scale * (1 - gone * part));
}

/* A with rows of S, and Q and dQ/da for v = 1, of a step of length a, e = e^{-a}. */
ALWAYS void step_exponential(vec a, vec e, vec *A, vec *Q, vec *slope) {
  vec e2 = e * e;
  A[0] = e;
  Q[0] = 2 * gathered(0, a, e2);
  slope[0] = 2 * e2;
}

ALWAYS void step_matern32(vec a, vec e, int S, vec *A, vec *Q, vec *slope) {
  vec e2 = e * e, b = 1 - a;
  A[0] = (1 + a) * e, A[1] = a * e;
  A[S] = -a * e, A[S + 1] = b * e;
  vec i2 = gathered(2, a, e2), i1 = i2 + 0.5 * a * a * e2, i0 = 2 * i1 + a * e2;
  Q[0] = 4 * i2, Q[1] = 4 * (i1 - i2), Q[2] = 4 * (i0 - 2 * i1 + i2);
  slope[0] = 4 * e2 * (a * a), slope[1] = 4 * e2 * (a * b), slope[2] = 4 * e2 * (b * b);
}

ALWAYS void step_matern52(vec a, vec e, int S, vec *A, vec *Q, vec *slope) {
  const double q = 16.0 / 3;
  vec e2 = e * e, h = 0.5 * a * a, u[3] = {h, a - h, 1 - 2 * a + h};
  A[0] = (1 + a + h) * e, A[1] = (a + 2 * h) * e, A[2] = u[0] * e;
  A[S] = -h * e, A[S + 1] = (1 + a - 2 * h) * e, A[S + 2] = u[1] * e;
  A[2 * S] = (h - a) * e, A[2 * S + 1] = (2 * h - 3 * a) * e, A[2 * S + 2] = u[2] * e;
  vec a2 = a * a, i4 = gathered(4, a, e2), i3 = 0.5 * i4 + 0.25 * a2 * a2 * e2;
  vec i2 = (1.0 / 3) * (2 * i3 + a2 * a * e2), i1 = i2 + 0.5 * a2 * e2, i0 = 2 * i1 + a * e2;
  Q[0] = q * (0.25 * i4);
  Q[1] = q * (0.5 * i3 - 0.25 * i4);
  Q[2] = q * (i2 - i3 + 0.25 * i4);
  Q[3] = q * (0.5 * i2 - i3 + 0.25 * i4);
  Q[4] = q * (i1 - 2.5 * i2 + 1.5 * i3 - 0.25 * i4);
  Q[5] = q * (i0 - 4 * i1 + 5 * i2 - 2 * i3 + 0.25 * i4);
  for (int i = 0; i < 3; i++)
    for (int j = 0; j <= i; j++) slope[low(i, j)] = q * e2 * (u[i] * u[j]);
}

/* The parameters of one vector of points. */
typedef struct {
  vec var[ATVI_MARKOV_TERMS], length[ATVI_MARKOV_TERMS], rate[ATVI_MARKOV_TERMS];
  /* Sum of their variances. */
  vec white;
  veci good;
} settings;

ALWAYS void read_settings(const atvi_markov *m, const double *par, settings *s) {
  static const double root_of[4] = {0, 1, 1.7320508075688772, 2.2360679774997896};
  s->white = vec_of(0);
  s->good = ~(veci){0};
  for (int k = 0; k < m->n_term; k++) {
    vec v = get(par + 2 * k * ATVI_LANES), l = get(par + (2 * k + 1) * ATVI_LANES);
    s->good &= (v >= 0) & (v <= LARGEST);
    if (m->kind[k] == ATVI_GP_WHITE) {
      l = vec_of(1);
      s->white += v;
    }
    s->good &= (l > 0) & (l <= LARGEST);
    s->var[k] = v, s->length[k] = l, s->rate[k] = root_of[m->kind[k]] / l;
  }
}

/* The covariance before the first row, start[S (S + 1) / 2]. */
static ATVI_UNUSED void stationary(const atvi_markov *m, const settings *s, vec *start) {
  for (int i = 0; i < m->n_state * (m->n_state + 1) / 2; i++) start[i] = vec_of(0);
  for (int k = 0; k < m->n_term; k++) {
    int f = m->first[k];
    vec v = s->var[k];
    if (m->kind[k] == ATVI_GP_WHITE) continue;
    start[low(f, f)] = v;
    if (m->kind[k] == ATVI_GP_MATERN32) start[low(f + 1, f + 1)] = v;
    if (m->kind[k] == ATVI_GP_MATERN52)
      start[low(f + 1, f + 1)] = v * (1.0 / 3), start[low(f + 2, f)] = v * (-1.0 / 3),
                           start[low(f + 2, f + 2)] = v;
  }
}

static ATVI_UNUSED void tabulate(const atvi_markov *m, const settings *s, vec *table) {
  const int S = m->n_state;
  for (atvi_idx u = 0; u < m->n_dt; u++) {
    vec *A = table + u * m->entry, *Q = A + S * S;
    for (int i = 0; i < S * S + S * (S + 1) / 2; i++) A[i] = vec_of(0);
    for (int k = 0; k < m->n_term; k++) {
      if (m->kind[k] == ATVI_GP_WHITE) continue;
      const int f = m->first[k], b = atvi_gp_markov_order(m->kind[k]), size = b * (b + 1) / 2;
      vec *unit = A + m->unit_at[k], *slope = unit + size, *at = A + f * S + f, a = s->rate[k] * m->dt[u];
      veci far = a >= FARTHEST;
      a = pick(far, vec_of(FARTHEST), a);
      vec e = pick(far, vec_of(0), vec_exp(-a));
      if (b == 1) step_exponential(a, e, at, unit, slope);
      if (b == 2) step_matern32(a, e, S, at, unit, slope);
      if (b == 3) step_matern52(a, e, S, at, unit, slope);
      for (int i = 0; i < b; i++)
        for (int j = 0; j <= i; j++) Q[low(f + i, f + j)] = s->var[k] * unit[low(i, j)];
    }
  }
}

/* x and P (lower triangle) a step later; T: scratch. */
ALWAYS void predict(const int S, const vec *A, const vec *Q, vec *x, vec *P) {
  vec T[ATVI_MARKOV_STATES * ATVI_MARKOV_STATES], y[ATVI_MARKOV_STATES];
  for (int i = 0; i < S; i++) {
    y[i] = A[i * S] * x[0];
    for (int k = 1; k < S; k++) y[i] += A[i * S + k] * x[k];
    for (int j = 0; j < S; j++) {
      T[i * S + j] = A[i * S] * P[low(0, j)];
      for (int k = 1; k < S; k++) T[i * S + j] += A[i * S + k] * P[low(k, j)];
    }
  }
  for (int i = 0; i < S; i++) {
    x[i] = y[i];
    for (int j = 0; j <= i; j++) {
      vec sum = Q[low(i, j)];
      for (int k = 0; k < S; k++) sum += T[i * S + k] * A[j * S + k];
      P[low(i, j)] = sum;
    }
  }
}

/* The adjoint of A: x = A' x, P = A' P A. */
ALWAYS void predict_back(const int S, const vec *A, vec *x, vec *P) {
  vec T[ATVI_MARKOV_STATES * ATVI_MARKOV_STATES], y[ATVI_MARKOV_STATES];
  for (int i = 0; i < S; i++) {
    y[i] = A[i] * x[0];
    for (int k = 1; k < S; k++) y[i] += A[k * S + i] * x[k];
    for (int j = 0; j < S; j++) {
      T[i * S + j] = A[i] * P[low(0, j)];
      for (int k = 1; k < S; k++) T[i * S + j] += A[k * S + i] * P[low(k, j)];
    }
  }
  for (int i = 0; i < S; i++) {
    x[i] = y[i];
    for (int j = 0; j <= i; j++) {
      vec sum = T[i * S] * A[j];
      for (int k = 1; k < S; k++) sum += T[i * S + k] * A[k * S + j];
      P[low(i, j)] = sum;
    }
  }
}

#endif
