/* SPDX-License-Identifier: MIT */
/* Explicit Runge-Kutta steps and their adjoints.
 *
 * Step      Y_i = y + h sum_{j<i} a_ij k_j,  k_i = f(t + c_i h, Y_i),  y' = y + h sum_i b_i k_i.
 * Adjoint   with lambda = d ell / d y', from the last stage to the first:
 *             kbar_i = h (b_i lambda + sum_{j>i} a_ji Ybar_j),   Ybar_i = (df/dy)^T kbar_i,
 *           parameters gain (df/dp)^T kbar_i, and d ell / d y = lambda + sum_i Ybar_i.
 *           lambda, Ybar_s, Ybar_{s-1}, ... are kept in this order, so that kbar_i is one combination of the
 *           first few of them with the coefficients w->rev[i]. */
#include "ode/lanes.h"

static const double ONES[ATVI_ODE_STAGES] = {1, 1, 1, 1, 1, 1, 1};

/* Time of a stage. c = 1 is the very number the next step starts at, so that slopes may be reused. */
ALWAYS const double *stage_time(double *ts, const double *t, const double *tnew, const double *h, double c) {
  if (c == 0) return t;
  if (c == 1) return tnew;
  LANES(l) ts[l] = FMA(c, h[l], t[l]);
  return ts;
}

/* From y and the slope k[0]: the new state, its slope k[6], the error, the stages in ys[1 .. 5]. */
void ATVI_ISA_NAME(atvi_ode_tsit5_try)(const atvi_ode *ode, atvi_ode_work *w) {
  const atvi_ode_tableau *tb = &atvi_ode_tsit5;
  const atvi_idx n = w->n, size = n * ATVI_LANES;
  if (w->delay.n) atvi_ode_delay_middle(w, w->t, w->trial.hs);
  for (int s = 1; s < 6; s++) {
    double *y = w->trial.ys + s * size;
    combine(s, n, tb->a[s], w->trial.hs, w->y, w->trial.k, y);
    const double *t = stage_time(w->prog.ts, w->t, w->trial.tnew, w->trial.hs, tb->c[s]);
    atvi_ode_run(w, &ode->rhs, t, y, NULL, w->trial.k + s * size, NULL);
  }
  combine(6, n, tb->a[6], w->trial.hs, w->y, w->trial.k, w->trial.ynew);
  atvi_ode_run(w, &ode->rhs, w->trial.tnew, w->trial.ynew, NULL, w->trial.k + 6 * size, NULL);
  w->count.effort.rhs += 6;
  ATVI_ISA_NAME(atvi_ode_measure_slopes)(w, tb->e);
}

/* From y: the new state; with delays its slope k[6] too. The stages are in ys[1 .. 3]. */
void ATVI_ISA_NAME(atvi_ode_rk4_step)(const atvi_ode *ode, atvi_ode_work *w) {
  const atvi_ode_tableau *tb = &atvi_ode_rk4;
  const atvi_idx n = w->n, size = n * ATVI_LANES;
  if (w->delay.n) atvi_ode_delay_middle(w, w->t, w->trial.hs);
  atvi_ode_run(w, &ode->rhs, w->t, w->y, NULL, w->trial.k, NULL);
  for (int s = 1; s < 4; s++) {
    double *y = w->trial.ys + s * size;
    combine(s, n, tb->a[s], w->trial.hs, w->y, w->trial.k, y);
    const double *t = stage_time(w->prog.ts, w->t, w->trial.tnew, w->trial.hs, tb->c[s]);
    atvi_ode_run(w, &ode->rhs, t, y, NULL, w->trial.k + s * size, NULL);
  }
  combine(4, n, tb->a[4], w->trial.hs, w->y, w->trial.k, w->trial.ynew);
  if (w->delay.n) atvi_ode_run(w, &ode->rhs, w->trial.tnew, w->trial.ynew, NULL, w->trial.k + 6 * size, NULL);
}

void ATVI_ISA_NAME(atvi_ode_explicit_adjoint)(const atvi_ode *ode, atvi_ode_work *w,
                                              const atvi_ode_tableau *tb, const atvi_ode_record *r,
                                              double *parbar) {
  const atvi_idx n = w->n, size = n * ATVI_LANES;
  const int stages = tb->stages;
  double *y = atvi_ode_record_y(r), *bar = w->trial.k;
  const double *later = w->tape.keeps ? y : w->trial.ys; /* stages 1, 2, ... follow here */
  for (int s = 1; s < stages && !w->tape.keeps; s++) {
    const double *t = stage_time(w->prog.ts, r->t, r->tnew, r->h, tb->c[s - 1]);
    atvi_ode_run(w, &ode->rhs, t, s == 1 ? y : later + (s - 1) * size, NULL, w->trial.k + (s - 1) * size,
                 NULL);
    combine(s, n, tb->a[s], r->h, y, w->trial.k, w->trial.ys + s * size);
  }
  /* the slopes are no longer needed: their place takes lambda and the adjoints of the stages */
  memcpy(bar, w->back.lam, (size_t)size * sizeof *bar);
  for (int s = stages - 1; s >= 0; s--) {
    int m = stages - s; /* adjoints known */
    combine(m, n, w->back.rev[s], r->h, w->prog.zero, bar, w->trial.err);
    const double *t = stage_time(w->prog.ts, r->t, r->tnew, r->h, tb->c[s]);
    if (w->back.noting) atvi_ode_note_stage(w, s, w->trial.err);
    if (w->delay.n) atvi_ode_delay_take(w, r, s, 1, w->trial.err);
    atvi_ode_run(w, &ode->vjp, t, s ? later + s * size : y, w->trial.err, bar + m * size, parbar);
    if (w->delay.n) atvi_ode_delay_hand(ode, w, r, t, parbar);
    if (w->back.noting) atvi_ode_note_time(w, tb->c[s]);
  }
  combine(stages, n, ONES, w->prog.one, bar, bar + size, w->trial.err);
  assign(n, r->h, w->trial.err, w->back.lam);
}
