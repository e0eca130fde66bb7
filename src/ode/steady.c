/* SPDX-License-Identifier: MIT */
/* Steady states: f(y, p) = 0, where the equations lead to from y0 with the time held.
 *
 * They are integrated until nothing changes. Where the Jacobian J can be inverted the state of rest does not
 * depend on the way there: it is then found to rounding by Newton's method, and its adjoint is that of the
 * implicit function: with J^T mu = ybar
 *   pbar -= (df/dp)^T mu,  y0bar = 0.
 * Where it cannot, as with conserved quantities, the adjoint is that of the steps. Each lane is of one sort
 * or the other, whatever its neighbours are.
 *
 * J is scaled by the sizes s of the states, and its rows by their largest entries: A_ij = J_ij s_j / r_i. */
#include "ode/work.h"
#include <math.h>
#include <string.h>

/* At rest a state changes by no more than REST of itself in as much time again as has passed; it is itself at
 * least SMALL of the largest state now, and NOTHING of the largest ever. */
static const double REST = 1e-8, SMALL = 1e-6, NOTHING = 1e-12;
/* The first step of states that are all 0, in units of the shortest time. */
static const double FIRST = 1e-2;
/* A pivot of A below this is 0 up to rounding. */
static const double SINGULAR = 1e-9;
/* Newton's method, relative to the sizes of states: the first correction is no larger than NEAR, the last no
 * larger than EXACT; those below NOISE that no longer shrink are rounding. */
static const double NEAR = 1e-3, EXACT = 1e-13, NOISE = 1e-10;
enum { CORRECTIONS = 6 };

static bool in(unsigned mask, int l) { return mask >> l & 1; }

static void sizes(const atvi_ode_work *w, const double *y, double *s) {
  double most[ATVI_LANES] = {0};
  const atvi_idx size = w->n * ATVI_LANES;
  for (atvi_idx i = 0; i < size; i++) most[i % ATVI_LANES] = fmax(most[i % ATVI_LANES], fabs(y[i]));
  for (atvi_idx i = 0; i < size; i++) {
    const int l = (int)(i % ATVI_LANES);
    s[i] = fmax(fabs(y[i]), fmax(SMALL * most[l], NOTHING * w->control.smax[l]));
  }
}

/* Lanes at rest. */
static unsigned at_rest(const atvi_ode *ode, const atvi_ode_work *w) {
  unsigned rest = w->run;
  sizes(w, w->y, w->trial.err);
  for (atvi_idx i = 0; i < w->n * ATVI_LANES; i++) {
    const int l = (int)(i % ATVI_LANES);
    if (!(fabs(w->trial.k[i]) * (w->t[l] - ode->stop[0].t) <= REST * w->trial.err[i])) rest &= ~(1u << l);
  }
  return rest;
}

void atvi_ode_stop_at_rest(const atvi_ode *ode, atvi_ode_work *w, double *yout) {
  unsigned rest = at_rest(ode, w);
  for (int l = 0; l < ATVI_LANES; l++) {
    if (!in(rest, l) || !(w->t[l] > ode->stop[0].t)) continue;
    for (atvi_idx i = l; i < w->n * ATVI_LANES; i += ATVI_LANES) yout[i] = w->y[i];
    atvi_ode_park(w, l);
  }
}

/* Lanes that start from 0 alone get a size: as far as the slope leads in the shortest time in which it
 * changes. */
static void size_of_zero(const atvi_ode *ode, atvi_ode_work *w, const double k[ATVI_LANES]) {
  double rate[ATVI_LANES] = {0};
  atvi_ode_run(w, &ode->jac, w->prog.start, w->y, NULL, w->linear.jac, NULL);
  for (atvi_idx i = 0; i < w->linear.shape->n_entry * ATVI_LANES; i++)
    rate[i % ATVI_LANES] = fmax(rate[i % ATVI_LANES], fabs(w->linear.jac[i]));
  for (int l = 0; l < ATVI_LANES; l++)
    if (w->control.smax[l] == 0 && rate[l] < INFINITY)
      w->control.smax[l] = rate[l] > 0 ? k[l] / rate[l] : k[l];
}

void atvi_ode_first_step_to_rest(const atvi_ode *ode, atvi_ode_work *w) {
  double k[ATVI_LANES] = {0};
  unsigned zero = 0;
  for (atvi_idx i = 0; i < w->n * ATVI_LANES; i++)
    k[i % ATVI_LANES] = fmax(k[i % ATVI_LANES], fabs(w->trial.k[i]));
  for (int l = 0; l < ATVI_LANES; l++) zero |= (unsigned)(w->control.smax[l] == 0) << l;
  if (zero) size_of_zero(ode, w, k);
  for (int l = 0; l < ATVI_LANES; l++)
    w->tstop[l] = w->t[l] + (w->control.smax[l] > 0 && k[l] > 0 ? w->control.smax[l] / k[l] : 1);
  w->kern->first_step(ode, w);
  for (int l = 0; l < ATVI_LANES; l++) {
    if (in(zero, l)) w->h[l] = fmax(w->h[l], FIRST * (w->tstop[l] - w->t[l]));
    w->tstop[l] = ode->stop[1].t;
  }
}

/* Factors of A at y, with s and r [n][L]; returns the lanes in which it can be inverted. */
static unsigned factor(const atvi_ode *ode, atvi_ode_work *w, const double *y, double *s, double *r) {
  const atvi_ode_shape *shape = w->linear.shape;
  const atvi_idx n = w->n;
  unsigned regular = ATVI_ODE_ALL;
  atvi_ode_run(w, &ode->jac, w->prog.start, y, NULL, w->linear.jac, NULL);
  memset(w->linear.lu, 0, (size_t)(n * n * ATVI_LANES) * sizeof *w->linear.lu);
  for (atvi_idx e = 0; e < shape->n_entry; e++) {
    atvi_idx i = shape->order[shape->at[e] / n], j = shape->order[shape->at[e] % n];
    memcpy(w->linear.lu + (i * n + j) * ATVI_LANES, w->linear.jac + e * ATVI_LANES,
           ATVI_LANES * sizeof *w->linear.jac);
  }
  w->count.effort.factors++;
  sizes(w, y, s);
  for (atvi_idx i = 0; i < n; i++)
    for (int l = 0; l < ATVI_LANES; l++) {
      double *row = w->linear.lu + i * n * ATVI_LANES + l, most = 0;
      for (atvi_idx j = 0; j < n * ATVI_LANES; j += ATVI_LANES) {
        row[j] *= s[j + l];
        most = fmax(most, fabs(row[j]));
      }
      r[i * ATVI_LANES + l] = most;
      for (atvi_idx j = 0; j < n * ATVI_LANES; j += ATVI_LANES) row[j] = most > 0 ? row[j] / most : 0;
    }
  w->kern->lu(&w->linear.dense, n, w->linear.lu, w->linear.piv);
  for (atvi_idx i = 0; i < n; i++)
    for (int l = 0; l < ATVI_LANES; l++)
      if (!(fabs(w->linear.lu[(i * n + i) * ATVI_LANES + l]) > SINGULAR)) regular &= ~(1u << l);
  return regular;
}

/* Newton's method from y[n][L] in the lanes of mask: those in which it arrives are returned, with the state
 * of rest in y. */
static unsigned settle(const atvi_ode *ode, atvi_ode_work *w, double *y, unsigned mask) {
  const atvi_idx size = w->n * ATVI_LANES;
  double *s = w->trial.ys, *r = w->trial.ys + size, *f = w->trial.ys + 2 * size, last[ATVI_LANES];
  unsigned done = 0;
  for (int it = 0; it < CORRECTIONS && mask; it++) {
    mask &= factor(ode, w, y, s, r);
    atvi_ode_run(w, &ode->rhs, w->prog.start, y, NULL, f, NULL);
    w->count.effort.rhs++;
    for (atvi_idx i = 0; i < size; i++) f[i] = r[i] > 0 ? f[i] / r[i] : 0;
    w->kern->lu_solve(&w->linear.dense, w->n, w->linear.lu, w->linear.piv, f);
    for (int l = 0; l < ATVI_LANES; l++) {
      double most = 0;
      if (!in(mask, l)) continue;
      for (atvi_idx i = l; i < size; i += ATVI_LANES) most = isnan(f[i]) ? INFINITY : fmax(most, fabs(f[i]));
      bool noise = it > 0 && most <= NOISE && most > 0.5 * last[l];
      if (!(most <= (it ? last[l] : NEAR)) && !noise) {
        mask &= ~(1u << l);
        continue;
      }
      last[l] = most;
      for (atvi_idx i = l; i < size; i += ATVI_LANES) y[i] -= s[i] * f[i];
      if (most > EXACT && !noise) continue;
      done |= 1u << l;
      mask &= ~(1u << l);
    }
  }
  return done;
}

void atvi_ode_settle(const atvi_ode *ode, atvi_ode_work *w, bool tape, double *y) {
  unsigned rest = 0, done;
  for (int l = 0; l < ATVI_LANES; l++) rest |= (unsigned)(w->outcome[l] == ATVI_RUN_OK) << l;
  memcpy(w->trial.ynew, y, (size_t)(w->n * ATVI_LANES) * sizeof *y);
  done = settle(ode, w, y, rest);
  for (atvi_idx i = 0; i < w->n * ATVI_LANES; i++)
    if (!in(done, (int)(i % ATVI_LANES))) y[i] = w->trial.ynew[i];
  if (!tape) return;
  w->rest.lanes = done;
  memcpy(w->rest.y, y, (size_t)(w->n * ATVI_LANES) * sizeof *y);
  memcpy(w->rest.passed, w->instants.passed, sizeof w->instants.passed);
}

void atvi_ode_adjoint_rest(const atvi_ode *ode, atvi_ode_work *w, const double *ybar, double *y0bar,
                           double *parbar) {
  const atvi_idx size = w->n * ATVI_LANES, width = w->prog.n_par * ATVI_LANES;
  double *s = w->trial.ys, *r = w->trial.ys + size, *mu = w->trial.ys + 2 * size,
         *unused = w->trial.ys + 3 * size;
  for (int l = 0; l < ATVI_LANES; l++) {
    if (w->prog.n_tab > 0) atvi_ode_set_tab(ode, w, l, 0);
    atvi_ode_set_passed(ode, w, l, w->rest.passed[l]);
  }
  factor(ode, w, w->rest.y, s, r);
  for (atvi_idx i = 0; i < size; i++) mu[i] = -s[i] * ybar[i];
  w->kern->lu_solve_t(&w->linear.dense, w->n, w->linear.lu, w->linear.piv, mu);
  for (atvi_idx i = 0; i < size; i++) mu[i] = r[i] > 0 ? mu[i] / r[i] : 0;
  if (width) memcpy(w->back.save, parbar, (size_t)width * sizeof *parbar);
  atvi_ode_run(w, &ode->vjp, w->prog.start, w->rest.y, mu, unused, parbar);
  for (atvi_idx p = 0; p < width; p++)
    if (!in(w->rest.lanes, (int)(p % ATVI_LANES))) parbar[p] = w->back.save[p];
  for (atvi_idx i = 0; i < size; i++)
    if (in(w->rest.lanes, (int)(i % ATVI_LANES))) y0bar[i] = 0;
}

/* J youtdot = -df/dp pardot; as in tangent.c, the Jacobian's program only helps. */
void atvi_ode_tangent_rest(const atvi_ode *ode, atvi_ode_work *w, const double *pardot, double *youtdot) {
  const atvi_idx size = w->n * ATVI_LANES;
  double *s = w->trial.ys, *r = w->trial.ys + size, *x = w->dual.ydot, *off = w->dual.off;
  for (int l = 0; l < ATVI_LANES; l++) {
    if (w->prog.n_tab > 0) atvi_ode_set_tab(ode, w, l, 0);
    atvi_ode_set_passed(ode, w, l, w->rest.passed[l]);
  }
  factor(ode, w, w->rest.y, s, r);
  memset(x, 0, (size_t)size * sizeof *x);
  for (int it = 0; it < 2 * CORRECTIONS; it++) {
    const double *const ins[] = {w->prog.start, w->rest.y, w->prog.par, w->prog.tab, NULL, x, pardot, NULL};
    atvi_graph_prog_run(&ode->tangents->rhs, w->prog.scratch, ins, (double *const[]){w->dual.unused, off});
    for (atvi_idx i = 0; i < size; i++) off[i] = r[i] > 0 ? off[i] / r[i] : 0;
    w->kern->lu_solve(&w->linear.dense, w->n, w->linear.lu, w->linear.piv, off);
    for (atvi_idx i = 0; i < size; i++) x[i] -= s[i] * off[i];
  }
  for (atvi_idx i = 0; i < size; i++)
    if (in(w->rest.lanes, (int)(i % ATVI_LANES))) youtdot[i] = x[i];
}
