/* SPDX-License-Identifier: MIT */
/* What values say about the underlying processes, and draws of these.
 *
 * Back pass (de Jong 1989), x, P, g, s, e as predicted by the filter at a row; rho, M summarise the values
 * after it, both 0 at the end:
 *             u = e/s - g'rho/s,   D = 1/s + g'M g/s^2        only if there is a value; (C^-1 r)_i and (C^-1)_ii of the dense problem
 *             rho + h u,   M + h h' D - (h k' + k h'),  k = M g/s
 *           are then the summary with this row included: conditional mean x + P rho, covariance P - P M P. A step back: A' rho, A' M A.
 * Left out  the value given all others is normal with mean r - u/D and variance 1/D.
 * No matrix is inverted, so variances of 0 and repeated times need no special care. */
#include "gp/markov_lanes.h"

enum { MOST = ATVI_MARKOV_STATES, PACKED = MOST * (MOST + 1) / 2 };

typedef struct {
  const atvi_markov *m;
  const double *resid;
  settings set;
  vec *table, *tape;
  veci good;
  double *mean, *var, *var_term, *loo_mean, *loo_var;
} job;

ALWAYS int tape_size(int S) { return S * (S + 1) / 2 + S + 2; }

static void forward(job *o) {
  const atvi_markov *m = o->m;
  const int S = m->n_state, packed = S * (S + 1) / 2;
  vec x[MOST], P[PACKED];
  for (int i = 0; i < S; i++) x[i] = vec_of(0);
  stationary(m, &o->set, P);
  for (atvi_idx k = 0; k < m->n; k++) {
    vec *tape = o->tape + k * tape_size(S), g[MOST], s = o->set.white;
    if (k > 0) {
      const vec *A = o->table + m->all.step[k] * m->entry;
      predict(S, A, A + S * S, x, P);
    }
    for (int i = 0; i < packed; i++) tape[i] = P[i];
    for (int i = 0; i < S; i++) tape[packed + i] = x[i];
    if (!m->used[k]) continue;
    vec e = get(o->resid + k * ATVI_LANES);
    for (int i = 0; i < S; i++) {
      g[i] = vec_of(0);
      for (int j = 0; j < S; j++) g[i] += P[low(i, j)] * m->head[j];
      s += g[i] * m->head[i];
      e -= x[i] * m->head[i];
    }
    o->good &= (s >= SMALLEST) & (s <= LARGEST) & (e * 0 == 0);
    vec inv = 1 / s;
    tape[packed + S] = inv, tape[packed + S + 1] = e;
    for (int i = 0; i < S; i++) {
      x[i] += g[i] * (e * inv);
      for (int j = 0; j <= i; j++) P[low(i, j)] -= g[i] * g[j] * inv;
    }
  }
}

/* The value in row i, if there is one, enters rho and M. */
static void include(job *o, atvi_idx i, vec *rho, vec *M) {
  const atvi_markov *m = o->m;
  const int S = m->n_state, packed = S * (S + 1) / 2;
  const vec *tape = o->tape + i * tape_size(S), inv = tape[packed + S], e = tape[packed + S + 1];
  vec gain[MOST], k[MOST], u = e * inv, D = inv;
  for (int a = 0; a < S; a++) {
    gain[a] = vec_of(0);
    for (int b = 0; b < S; b++) gain[a] += tape[low(a, b)] * m->head[b];
    gain[a] *= inv;
  }
  for (int a = 0; a < S; a++) {
    k[a] = vec_of(0);
    for (int b = 0; b < S; b++) k[a] += M[low(a, b)] * gain[b];
    u -= gain[a] * rho[a];
  }
  for (int a = 0; a < S; a++) D += gain[a] * k[a];
  for (int a = 0; a < S; a++) {
    rho[a] += u * m->head[a];
    for (int b = 0; b <= a; b++)
      M[low(a, b)] += D * (m->head[a] * m->head[b]) - (k[a] * m->head[b] + k[b] * m->head[a]);
  }
  const vec nan = vec_of(NAN), r = get(o->resid + i * ATVI_LANES);
  if (o->loo_mean) put(o->loo_mean + i * ATVI_LANES, pick(o->good, r - u / D, nan));
  if (o->loo_var) put(o->loo_var + i * ATVI_LANES, pick(o->good, 1 / D, nan));
}

/* Variance of the value picked out by h[S] (0 or 1). */
static vec left_over(int S, const vec *P, const vec *M, const double *h) {
  vec Ph[MOST], sum = vec_of(0);
  for (int a = 0; a < S; a++) {
    Ph[a] = vec_of(0);
    for (int b = 0; b < S; b++) Ph[a] += P[low(a, b)] * h[b];
    sum += Ph[a] * h[a];
  }
  for (int a = 0; a < S; a++) {
    vec t = vec_of(0);
    for (int b = 0; b < S; b++) t += M[low(a, b)] * Ph[b];
    sum -= t * Ph[a];
  }
  return pick(sum > 0, sum, vec_of(0)); /* rounding */
}

static void report(job *o, atvi_idx i, const vec *rho, const vec *M) {
  const atvi_markov *m = o->m;
  const int S = m->n_state, packed = S * (S + 1) / 2;
  const vec *P = o->tape + i * tape_size(S), *x = P + packed, nan = vec_of(NAN);
  vec total = vec_of(0), var = vec_of(0);
  bool alone = !m->used[i] && o->loo_var;
  for (int k = 0; k < m->n_term; k++) {
    const atvi_idx at = (k * m->n + i) * ATVI_LANES;
    const int f = m->first[k];
    bool white = m->kind[k] == ATVI_GP_WHITE;
    vec mean = white ? vec_of(0) : x[f];
    for (int b = 0; b < S && !white; b++) mean += P[low(f, b)] * rho[b];
    total += mean;
    if (o->mean) put(o->mean + at, pick(o->good, mean, nan));
    if (!o->var_term) continue;
    double h[MOST] = {0};
    if (!white) h[f] = 1;
    put(o->var_term + at, pick(o->good, white ? vec_of(0) : left_over(S, P, M, h), nan));
  }
  if (o->var || alone) var = left_over(S, P, M, m->head);
  if (o->var) put(o->var + i * ATVI_LANES, pick(o->good, var, nan));
  if (!m->used[i] && o->loo_mean) put(o->loo_mean + i * ATVI_LANES, pick(o->good, total, nan));
  if (alone) put(o->loo_var + i * ATVI_LANES, pick(o->good, var + o->set.white, nan));
}

void ATVI_ISA_NAME(atvi_gp_markov_back)(const atvi_markov *m, atvi_markov_work *w, const double *par,
                                        const double *resid, double *mean, double *var, double *var_term,
                                        double *loo_mean, double *loo_var) {
  const int S = m->n_state;
  for (int at = 0; at < ATVI_LANES; at += PER_VEC) {
    job o = {.m = m, .resid = resid + at, .table = (vec *)w->table, .tape = (vec *)w->tape};
    vec rho[MOST], M[PACKED];
    if (mean) o.mean = mean + at;
    if (var) o.var = var + at;
    if (var_term) o.var_term = var_term + at;
    if (loo_mean) o.loo_mean = loo_mean + at;
    if (loo_var) o.loo_var = loo_var + at;
    read_settings(m, par + at, &o.set);
    o.good = o.set.good;
    tabulate(m, &o.set, o.table);
    forward(&o);
    for (int i = 0; i < MOST; i++) rho[i] = vec_of(0);
    for (int i = 0; i < PACKED; i++) M[i] = vec_of(0);
    for (atvi_idx i = m->n - 1; i >= 0; i--) {
      if (m->used[i]) include(&o, i, rho, M);
      report(&o, i, rho, M);
      if (i > 0) predict_back(S, o.table + m->all.step[i] * m->entry, rho, M);
    }
  }
}

/* x += L z, L L' the lower triangle C with row r0 .. r0 + b - 1; a pivot that rounding made negative is 0. */
ALWAYS void add_noise(const vec *C, int b, const vec *z, vec *x) {
  vec L[6];
  for (int i = 0; i < b; i++)
    for (int j = 0; j <= i; j++) {
      vec sum = C[low(i, j)];
      for (int k = 0; k < j; k++) sum -= L[low(i, k)] * L[low(j, k)];
      if (i == j)
        L[low(i, i)] = vec_sqrt(pick(sum > 0, sum, vec_of(0)));
      else
        L[low(i, j)] = pick(L[low(j, j)] > 0, sum / L[low(j, j)], vec_of(0));
    }
  for (int i = 0; i < b; i++)
    for (int j = 0; j <= i; j++) x[i] += L[low(i, j)] * z[j];
}

/* Terms one after the other: they are independent. */
static void sample_term(const atvi_markov *m, const settings *s, int k, const vec *table, const double *z,
                        double *part, double *sum) {
  const int f = m->first[k], b = atvi_gp_markov_order(m->kind[k]), S = m->n_state;
  vec x[3] = {{0}}, start[PACKED], C[6];
  stationary(m, s, start);
  for (atvi_idx i = 0; i < m->n; i++) {
    const vec *A = table + m->all.step[i] * m->entry, *unit = A + m->unit_at[k];
    vec y[3] = {{0}}, noise[3];
    for (int r = 0; r < b; r++) {
      noise[r] = get(z + (i * S + f + r) * ATVI_LANES);
      for (int c = 0; c < b && i > 0; c++) y[r] += A[(f + r) * S + f + c] * x[c];
      for (int c = 0; c <= r; c++)
        C[low(r, c)] = i > 0 ? (vec)(s->var[k] * unit[low(r, c)]) : start[low(f + r, f + c)];
    }
    add_noise(C, b, noise, y);
    for (int r = 0; r < b; r++) x[r] = y[r];
    vec value = pick(s->good, x[0], vec_of(NAN));
    put(part + i * ATVI_LANES, value);
    put(sum + i * ATVI_LANES, get(sum + i * ATVI_LANES) + value);
  }
}

void ATVI_ISA_NAME(atvi_gp_markov_sample)(const atvi_markov *m, atvi_markov_work *w, const double *par) {
  memset(w->sum, 0, (size_t)m->n * ATVI_LANES * sizeof *w->sum);
  memset(w->part, 0, (size_t)(m->n_term * m->n) * ATVI_LANES * sizeof *w->part);
  for (int at = 0; at < ATVI_LANES; at += PER_VEC) {
    settings s;
    read_settings(m, par + at, &s);
    tabulate(m, &s, (vec *)w->table);
    for (int k = 0; k < m->n_term; k++)
      if (m->kind[k] != ATVI_GP_WHITE)
        sample_term(m, &s, k, (const vec *)w->table, w->state + at, w->part + k * m->n * ATVI_LANES + at,
                    w->sum + at);
    for (atvi_idx i = 0; i < m->n; i++)
      put(w->sum + i * ATVI_LANES + at, pick(s.good, get(w->sum + i * ATVI_LANES + at), vec_of(NAN)));
  }
}
