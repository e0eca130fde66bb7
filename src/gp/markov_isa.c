/* SPDX-License-Identifier: MIT */
/* Log density of a sum of Markov processes: Kalman filter and its adjoint.
 *
 * Filter    at a row with value r, prediction x, P:   g = P h,  s = h'g + w,  e = r - h'x,
 *             log density gains -(log s + e^2/s + log 2 pi) / 2;   x + g e/s,   P - g g'/s
 *           then a step: A x, A P A' + Q. h has a 1 for each process's value; w is the variance of the white ones.
 * Adjoint   from the last row to the first, with bars for derivatives of the log density, P_bar symmetric, f = e/s, t = P_bar g:
 *             e_bar = (x_bar'g - e) / s,   s_bar = -(e x_bar'g - g't - e^2/2) / s^2 - 1 / (2s)
 *             g_bar = x_bar f - 2 t / s + s_bar h,   x_bar -= h e_bar,   P_bar += (g_bar h' + h g_bar') / 2
 *           A step of a has d ell/da = sum_ij F_ij G_ij + <P_bar, dQ/da>,   G = x_bar x' + 2 P_bar (P - Q), with x, P after the step:
 *           contributions of rows with equal steps are summed first and turned into derivatives of variance and rate once (settle).
 * log s     is summed as the logarithm of the product of mantissas and the sum of exponents: one logarithm in 512 rows.
 *
 * The code is written for any number of states S and specialised by the compiler for the few common ones; if
 * all terms are exponential, A is diagonal. */
#include "gp/markov_lanes.h"
#include "math/special.h"

enum { MOST = ATVI_MARKOV_STATES, PACKED = MOST * (MOST + 1) / 2 };
#define LOG_2 0.69314718055994530942

typedef struct {
  const atvi_markov *m;
  const double *resid;
  settings set;
  vec start[PACKED];
  vec *table, *tape;
  /* results */
  vec log_density, white_bar;
  veci good;
  vec var_bar[ATVI_MARKOV_TERMS], rate_bar[ATVI_MARKOV_TERMS];
  double *resid_bar;
} job;

ALWAYS int tape_size(int S) { return S * (S + 1) / 2 + S + 2; }

ALWAYS void predict_any(const int S, const bool diagonal, const vec *A, vec *x, vec *P) {
  const vec *Q = A + S * S;
  if (!diagonal) {
    predict(S, A, Q, x, P);
    return;
  }
  for (int i = 0; i < S; i++) {
    vec a = A[i * (S + 1)];
    x[i] *= a;
    for (int j = 0; j < i; j++) P[low(i, j)] *= a * A[j * (S + 1)];
    P[low(i, i)] = P[low(i, i)] * (a * a) + Q[low(i, i)];
  }
}

/* g = P h */
ALWAYS void seen(const int S, const bool diagonal, const double *head, const vec *P, vec *g) {
  for (int i = 0; i < S; i++) {
    g[i] = diagonal ? P[low(i, 0)] : (vec)(P[low(i, 0)] * head[0]);
    for (int j = 1; j < S; j++) g[i] += diagonal ? P[low(i, j)] : (vec)(P[low(i, j)] * head[j]);
  }
}

ALWAYS vec dot_head(const int S, const bool diagonal, const double *head, const vec *x) {
  vec sum = vec_of(0);
  for (int i = 0; i < S; i++) sum += diagonal ? x[i] : (vec)(x[i] * head[i]);
  return sum;
}

typedef struct {
  vec product, exponent, square;
  atvi_idx count;
} tally;

ALWAYS void tally_close(tally *t) {
  t->exponent += vec_log(t->product) * (1 / LOG_2);
  t->product = vec_of(1);
  t->count = 0;
}

ALWAYS void tally_add(tally *t, vec s, vec square) {
  const vecu ones = (vecu){0} + ((uint64_t)1023 << 52), digits = (vecu){0} + (((uint64_t)1 << 52) - 1);
  t->product *= (vec)(((vecu)s & digits) | ones);
  t->exponent += (vec)(((vecu)s >> 52) | 0x4330000000000000u) - (0x1p52 + 1023);
  t->square += square;
  if (++t->count == 512) tally_close(t);
}

ALWAYS void forward(const int S, const bool diagonal, const bool keep, job *o) {
  const atvi_markov *m = o->m;
  const atvi_markov_path *path = &m->value;
  const int packed = S * (S + 1) / 2;
  const vec w = o->set.white;
  vec x[MOST], P[PACKED], g[MOST];
  tally sum = {vec_of(1), vec_of(0), vec_of(0), 0};
  veci good = o->set.good;
  for (int i = 0; i < S; i++) x[i] = vec_of(0);
  for (int i = 0; i < packed; i++) P[i] = o->start[i];
  for (atvi_idx k = 0; k < path->n; k++) {
    if (k > 0) predict_any(S, diagonal, o->table + path->step[k] * m->entry, x, P);
    seen(S, diagonal, m->head, P, g);
    vec s = w + dot_head(S, diagonal, m->head, g), inv = 1 / s;
    vec e = get(o->resid + path->row[k] * ATVI_LANES) - dot_head(S, diagonal, m->head, x), f = e * inv;
    good &= (s >= SMALLEST) & (s <= LARGEST);
    tally_add(&sum, s, e * f);
    if (keep) {
      vec *tape = o->tape + k * tape_size(S);
      for (int i = 0; i < packed; i++) tape[i] = P[i];
      for (int i = 0; i < S; i++) tape[packed + i] = x[i];
      tape[packed + S] = inv, tape[packed + S + 1] = e;
    }
    for (int i = 0; i < S; i++) {
      vec gi = g[i] * inv;
      x[i] += g[i] * f;
      for (int j = 0; j <= i; j++) P[low(i, j)] -= gi * g[j];
    }
  }
  tally_close(&sum);
  o->log_density = -0.5 * (sum.square + sum.exponent * LOG_2 + (double)path->n * ATVI_LOG_2PI);
  o->good = good & (o->log_density * 0 == 0); /* and not infinite */
}

/* Sums over the rows of one length of step. */
typedef struct {
  vec G[MOST * MOST], Q_bar[PACKED];
} gathering;

static void settle(const job *jb, atvi_idx u, gathering *c, vec *var_bar, vec *rate_bar) {
  static const double F[4][9] = {{0}, {-1}, {0, 1, -1, -2}, {0, 1, 0, 0, 0, 1, -1, -3, -3}};
  const atvi_markov *m = jb->m;
  const int S = m->n_state;
  for (int k = 0; k < m->n_term; k++) {
    const int f = m->first[k], b = atvi_gp_markov_order(m->kind[k]), size = b * (b + 1) / 2;
    const vec *unit = jb->table + u * m->entry + m->unit_at[k], *slope = unit + size;
    vec a_bar = vec_of(0), v_bar = vec_of(0), steep = vec_of(0);
    for (int i = 0; i < b; i++)
      for (int j = 0; j < b; j++) {
        a_bar += F[b][i * b + j] * c->G[(f + i) * S + f + j];
        steep += slope[low(i, j)] * c->Q_bar[low(f + i, f + j)];
        v_bar += unit[low(i, j)] * c->Q_bar[low(f + i, f + j)];
      }
    if (b == 0) continue;
    rate_bar[k] += (a_bar + jb->set.var[k] * steep) * m->dt[u];
    var_bar[k] += v_bar;
  }
  for (int i = 0; i < S * S; i++) c->G[i] = vec_of(0);
  for (int i = 0; i < S * (S + 1) / 2; i++) c->Q_bar[i] = vec_of(0);
}

/* Adds the contribution of a step to the sums; P_bar, x_bar become those before the step. */
ALWAYS void step_back(const int S, const bool diagonal, const vec *A, const vec *P, const vec *x, vec *P_bar,
                      vec *x_bar, gathering *c) {
  const vec *Q = A + S * S;
  for (int i = 0; i < S * (S + 1) / 2; i++) c->Q_bar[i] += P_bar[i];
  for (int i = 0; i < S; i++)
    for (int j = diagonal ? i : 0; j < (diagonal ? i + 1 : S); j++) {
      vec sum = P_bar[low(i, i)] * (P[low(i, j)] - Q[low(i, j)]);
      for (int k = 0; k < S; k++) {
        if (k == i) continue;
        sum += P_bar[low(i, k)] * (diagonal ? P[low(k, j)] : (vec)(P[low(k, j)] - Q[low(k, j)]));
      }
      c->G[i * S + j] += x_bar[i] * x[j] + 2 * sum;
    }
  if (!diagonal) {
    predict_back(S, A, x_bar, P_bar);
    return;
  }
  for (int i = 0; i < S; i++) {
    vec a = A[i * (S + 1)];
    x_bar[i] *= a;
    for (int j = 0; j <= i; j++) P_bar[low(i, j)] *= a * A[j * (S + 1)];
  }
}

ALWAYS vec value_back(const int S, const bool diagonal, const double *head, const vec *tape, vec *P_bar,
                      vec *x_bar, vec *s_bar) {
  const int packed = S * (S + 1) / 2;
  const vec inv = tape[packed + S], e = tape[packed + S + 1], f = e * inv;
  vec g[MOST], t[MOST], xg = vec_of(0), gtg = vec_of(0);
  seen(S, diagonal, head, tape, g);
  for (int i = 0; i < S; i++) {
    t[i] = P_bar[low(i, 0)] * g[0];
    for (int j = 1; j < S; j++) t[i] += P_bar[low(i, j)] * g[j];
    xg += x_bar[i] * g[i];
    gtg += t[i] * g[i];
  }
  vec e_bar = (xg - e) * inv, inv2 = inv * inv;
  *s_bar = (gtg + e * (0.5 * e - xg)) * inv2 - 0.5 * inv;
  for (int i = 0; i < S; i++) { /* t becomes half of g_bar */
    vec h = diagonal ? *s_bar : (vec)(*s_bar * head[i]);
    t[i] = 0.5 * (x_bar[i] * f + h) - t[i] * inv;
    x_bar[i] -= diagonal ? e_bar : (vec)(e_bar * head[i]);
  }
  for (int i = 0; i < S; i++)
    for (int j = 0; j <= i; j++) P_bar[low(i, j)] += diagonal ? t[i] + t[j] : t[i] * head[j] + t[j] * head[i];
  return e_bar;
}

ALWAYS void backward(const int S, const bool diagonal, job *o) {
  const atvi_markov *m = o->m;
  const atvi_markov_path *path = &m->value;
  const int packed = S * (S + 1) / 2;
  const vec nan = vec_of(NAN);
  vec x_bar[MOST], P_bar[PACKED], s_bar;
  gathering c = {0};
  for (int i = 0; i < S; i++) x_bar[i] = vec_of(0);
  for (int i = 0; i < packed; i++) P_bar[i] = vec_of(0);
  for (atvi_idx k = path->n - 1; k >= 0; k--) {
    const vec *tape = o->tape + k * tape_size(S);
    vec e_bar = value_back(S, diagonal, m->head, tape, P_bar, x_bar, &s_bar);
    o->white_bar += s_bar;
    put(o->resid_bar + path->row[k] * ATVI_LANES, pick(o->good, e_bar, nan));
    if (k == 0) break;
    atvi_idx u = path->step[k];
    step_back(S, diagonal, o->table + u * m->entry, tape, tape + packed, P_bar, x_bar, &c);
    if (k == 1 || path->step[k - 1] != u) settle(o, u, &c, o->var_bar, o->rate_bar);
  }
  /* the stationary law before the first row, per unit of variance */
  for (int k = 0; k < m->n_term; k++) {
    const int f = m->first[k], b = atvi_gp_markov_order(m->kind[k]);
    if (b >= 1) o->var_bar[k] += P_bar[low(f, f)];
    if (b == 2) o->var_bar[k] += P_bar[low(f + 1, f + 1)];
    if (b == 3)
      o->var_bar[k] +=
          (P_bar[low(f + 1, f + 1)] - 2 * P_bar[low(f + 2, f)]) * (1.0 / 3) + P_bar[low(f + 2, f + 2)];
  }
}

#define VARIANT(name, S, diagonal)                                                                           \
  static void name(job *o) {                                                                                 \
    if (!o->resid_bar) {                                                                                     \
      forward((S), (diagonal), false, o);                                                                    \
    } else {                                                                                                 \
      forward((S), (diagonal), true, o);                                                                     \
      if (o->m->value.n > 0) backward((S), (diagonal), o);                                                   \
    }                                                                                                        \
  }
VARIANT(diagonal1, 1, true)
VARIANT(diagonal2, 2, true)
VARIANT(diagonal3, 3, true)
VARIANT(block2, 2, false)
VARIANT(block3, 3, false)
VARIANT(block4, 4, false)
VARIANT(block, o->m->n_state, false)

static void run(job *o) {
  const int S = o->m->n_state;
  if (o->m->diagonal && S == 1)
    diagonal1(o);
  else if (o->m->diagonal && S == 2)
    diagonal2(o);
  else if (o->m->diagonal && S == 3)
    diagonal3(o);
  else if (S == 2)
    block2(o);
  else if (S == 3)
    block3(o);
  else if (S == 4)
    block4(o);
  else
    block(o);
}

void ATVI_ISA_NAME(atvi_gp_markov_density)(const atvi_markov *m, atvi_markov_work *w, const double *par,
                                           const double *resid, double *log_density, double *par_bar,
                                           double *resid_bar) {
  const vec nan = vec_of(NAN);
  for (int at = 0; at < ATVI_LANES; at += PER_VEC) {
    job o = {.m = m, .resid = resid + at, .table = (vec *)w->table, .tape = (vec *)w->tape};
    if (resid_bar) o.resid_bar = resid_bar + at;
    read_settings(m, par + at, &o.set);
    stationary(m, &o.set, o.start);
    tabulate(m, &o.set, o.table);
    run(&o);
    put(log_density + at, pick(o.good, o.log_density, nan));
    for (int k = 0; resid_bar && k < m->n_term; k++) {
      bool white = m->kind[k] == ATVI_GP_WHITE;
      vec length_bar = white ? vec_of(0) : (vec)(-o.rate_bar[k] * o.set.rate[k] / o.set.length[k]);
      put(par_bar + 2 * k * ATVI_LANES + at, pick(o.good, white ? o.white_bar : o.var_bar[k], nan));
      put(par_bar + (2 * k + 1) * ATVI_LANES + at, pick(o.good, length_bar, nan));
    }
  }
}
