/* SPDX-License-Identifier: MIT */
/* What derived quantities ask of the way the states take: values at a time, maxima, integrals. From the path
 * of a run with the tolerance that counts as exact, step by step; steps end at all jumps and pulses. */
#include "model/model.h"
#include <math.h>

enum { L = ATVI_LANES, PARTS = 8, HALVINGS = 20, POINTS = 5 };

/* Gauss-Legendre on [0, 1]: exact for polynomials of degree 9. */
static const double POINT[POINTS] = {0.046910077030668, 0.2307653449471585, 0.5, 0.7692346550528415,
                                     0.953089922969332};
static const double WEIGHT[POINTS] = {0.1184634425280945, 0.2393143352496832, 0.2844444444444444,
                                      0.2393143352496832, 0.1184634425280945};

typedef struct {
  const atvi_lang *lang;
  double *value; /* [n_trajectory][L] */
  double *out;   /* [n_trajectory][L] of one evaluation */
  bool *seen;    /* [n_trajectory][L] */
  double *best;  /* [n_trajectory][L] the maximum so far */
} asking;

/* Values of quantity k at a + x (b - a) in each lane; a and b are shares of the step. */
static const double *values(const asking *s, atvi_idx k, const atvi_ode_piece *p, const double *a,
                            const double *b, const double *x) {
  double q[L];
  for (int l = 0; l < L; l++) q[l] = fmin(fmax(a[l] + x[l] * (b[l] - a[l]), 0), 1);
  atvi_ode_piece_eval(p, q, s->out);
  return s->out + k * L;
}

static void fill(double *x, double value) {
  for (int l = 0; l < L; l++) x[l] = value;
}

static void integrate(const asking *s, atvi_idx k, const atvi_ode_piece *p, unsigned mask, const double *a,
                      const double *b) {
  for (int i = 0; i < POINTS; i++) {
    double x[L];
    fill(x, POINT[i]);
    const double *v = values(s, k, p, a, b, x);
    for (int l = 0; l < L; l++)
      if (mask >> l & 1) s->value[k * L + l] += WEIGHT[i] * (b[l] - a[l]) * p->h[l] * v[l];
  }
}

/* The maximum of the piece: the best of a few points, then between its neighbours. */
static void maximise(const asking *s, atvi_idx k, const atvi_ode_piece *p, unsigned mask, const double *a,
                     const double *b) {
  double top[L], low[L], at[L], x[L], width = 1.0 / PARTS;
  unsigned gain = 0;
  fill(top, -HUGE_VAL);
  fill(low, HUGE_VAL);
  fill(at, 0);
  for (int i = 0; i <= PARTS; i++) {
    fill(x, i * width);
    const double *v = values(s, k, p, a, b, x);
    for (int l = 0; l < L; l++) {
      if (v[l] > top[l]) top[l] = v[l], at[l] = x[l];
      low[l] = fmin(low[l], v[l]);
    }
  }
  /* between points it rises by less than it varies from one to the other: the top may be just behind the end
   * of the last piece */
  for (int l = 0; l < L; l++) gain |= (unsigned)(top[l] + (top[l] - low[l]) > s->best[k * L + l]) << l;
  for (int round = 0; gain & mask && round < HALVINGS; round++) {
    double centre[L];
    width *= 0.5;
    for (int l = 0; l < L; l++) centre[l] = at[l];
    for (int side = -1; side <= 1; side += 2) {
      for (int l = 0; l < L; l++) x[l] = fmin(fmax(centre[l] + side * width, 0), 1);
      const double *v = values(s, k, p, a, b, x);
      for (int l = 0; l < L; l++)
        if (v[l] > top[l]) top[l] = v[l], at[l] = x[l];
    }
  }
  for (int l = 0; l < L; l++) {
    if (!(mask >> l & 1) || !(top[l] > s->best[k * L + l])) continue;
    s->best[k * L + l] = top[l];
    double q = a[l] + at[l] * (b[l] - a[l]);
    s->value[k * L + l] =
        s->lang->outputs.trajectory[k].kind == ATVI_TRAJECTORY_MAXIMUM ? top[l] : p->t[l] + q * p->h[l];
  }
}

static void visit(void *user, const atvi_ode_piece *p) {
  const asking *s = user;
  for (atvi_idx k = 0; k < s->lang->outputs.n_trajectory; k++) {
    const atvi_lang_trajectory *path = &s->lang->outputs.trajectory[k];
    double a[L], b[L], zero[L] = {0};
    unsigned mask = 0;
    for (int l = 0; l < L; l++) {
      double from = fmax(path->from, p->t[l]), to = fmin(path->to, p->t[l] + p->h[l]);
      bool here = p->mask >> l & 1 && from <= to;
      a[l] = here && p->h[l] > 0 ? (from - p->t[l]) / p->h[l] : 0;
      b[l] = here && p->h[l] > 0 ? (to - p->t[l]) / p->h[l] : 0;
      /* what is seen at a time is the state before a pulse: of two steps that meet there, the first */
      if (path->kind == ATVI_TRAJECTORY_AT && s->seen[k * L + l]) here = false;
      mask |= (unsigned)here << l;
    }
    if (!mask) continue;
    if (path->kind == ATVI_TRAJECTORY_AT) {
      const double *v = values(s, k, p, a, b, zero);
      for (int l = 0; l < L; l++)
        if (mask >> l & 1) s->value[k * L + l] = v[l], s->seen[k * L + l] = true;
    } else if (path->kind == ATVI_TRAJECTORY_INTEGRAL) {
      integrate(s, k, p, mask, a, b);
    } else {
      maximise(s, k, p, mask, a, b);
    }
  }
}

void atvi_model_paths(const atvi_model *m, atvi_model_work *w) {
  atvi_outcome outcome[L];
  const atvi_idx n = m->lang->outputs.n_trajectory * L;
  asking s = {m->lang, w->path.value, w->path.out, w->path.seen, w->path.best};
  atvi_model_setup(m, w, false);
  atvi_ode_solve(&m->odes.path, w->path.ode, w->y0, w->hoist, w->yout, true, outcome);
  for (atvi_idx i = 0; i < n; i++) s.value[i] = 0, s.seen[i] = false, s.best[i] = -HUGE_VAL;
  atvi_ode_walk(&m->odes.path, w->path.ode, w->hoist, visit, &s);
  for (atvi_idx i = 0; i < n; i++)
    if (outcome[i % L] != ATVI_RUN_OK || w->start.outcome[i % L] != ATVI_RUN_OK ||
        m->lang->outputs.trajectory[i / L].from < m->lang->time.start)
      s.value[i] = NAN;
}
