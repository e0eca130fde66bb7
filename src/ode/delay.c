/* SPDX-License-Identifier: MIT */
/* States some time ago: the method of steps.
 *
 * Steps are at most as long as the shortest delay, so that what they need lies in steps that are done: the
 * tape has them with their slopes, and between its ends a step is y(t + q h) = y + h sum_i b_i(q) k_i
 * (path.c). Before the start it is the initial state. Jumps come again a delay later; where steps meet at
 * one, a step sees the side on which it lies itself. The caller's stops and moving instants say when, but for
 * those of roots (events.c).
 *
 * Adjoint    what a stage at time t owes to the state at s = t - tau, the adjoint d of which the vjp gives, is handed to the step there:
 *            its y gains d, its k_i gain h b_i d, and its ends, where they move, d times the derivatives by h and t; tau loses d dy/ds, the
 *            stage's time gains it. That step is met later on the way back and then has all there is. */
#include "ode/work.h"
#include <math.h>
#include <string.h>

static const double INWARD =
    1e-9; /* of the way to the middle of the step: distinguishes the sides of a jump */
static const double ROUNDING = 1e-12; /* a step that is longer than a delay by this is as long */

static bool in(unsigned mask, int l) { return mask >> l & 1; }

static atvi_idx stages_end(const atvi_ode_work *w) { return 6 * w->n * ATVI_LANES; }

/* [7][n][L], after the state and the stages */
static double *slopes_of(const atvi_ode_work *w, const atvi_ode_record *r) {
  return atvi_ode_record_y(r) + stages_end(w);
}

/* Adjoints that later steps hand over: of the slopes [7][n][L], of the state [n][L], by h and t [2][L]. */
static double *handed(const atvi_ode_work *w, const atvi_ode_record *r) {
  return slopes_of(w, r) + 7 * w->n * ATVI_LANES;
}

size_t atvi_ode_delay_room(atvi_idx n) { return (size_t)(15 * n + 2) * ATVI_LANES; }

void atvi_ode_delay_begin(atvi_ode_work *w, const double *y0) {
  memcpy(w->delay.past, y0, (size_t)(w->n * ATVI_LANES) * sizeof *y0);
  for (int l = 0; l < ATVI_LANES; l++) w->delay.newest[l] = -1;
  for (atvi_idx i = 0; i < w->delay.n * ATVI_LANES; i++) w->delay.hint[i] = -1;
}

void atvi_ode_delay_record(atvi_ode_work *w, atvi_ode_record *r, unsigned mask) {
  memcpy(slopes_of(w, r), w->trial.k, (size_t)(7 * w->n * ATVI_LANES) * sizeof *w->trial.k);
  const int32_t me = (int32_t)w->tape.n;
  for (int l = 0; l < ATVI_LANES; l++) {
    r->prev[l] = w->delay.newest[l];
    r->next[l] = -1;
    if (!in(mask, l)) continue;
    if (w->delay.newest[l] >= 0) atvi_ode_record_at(w, w->delay.newest[l])->next[l] = me;
    w->delay.newest[l] = me;
  }
}

static double lag_of(const atvi_ode *ode, const atvi_ode_work *w, atvi_idx d, int l) {
  const atvi_ode_delay *p = &ode->delay[d];
  return p->par >= 0 ? w->prog.par[p->par * ATVI_LANES + l] : p->lag;
}

void atvi_ode_delay_limit(const atvi_ode *ode, atvi_ode_work *w) {
  for (int l = 0; l < ATVI_LANES; l++) {
    double most = HUGE_VAL;
    for (atvi_idx d = 0; d < w->delay.n; d++) most = fmin(most, lag_of(ode, w, d, l));
    if (in(w->run, l) && !(most > 0)) atvi_ode_fail_lane(w, l, ATVI_RUN_SMALL);
    if (!(w->trial.hs[l] > most * (1 + ROUNDING))) continue;
    const double left = w->tstop[l] - w->t[l];
    w->trial.hs[l] = left < 2 * most ? 0.5 * left : fmax(most, 0);
    w->trial.tnew[l] = w->t[l] + w->trial.hs[l];
  }
}

/* The step of lane l in which delay d of time t lies, NULL before the start; *q says where in it. */
static atvi_ode_record *find(const atvi_ode *ode, atvi_ode_work *w, atvi_idx d, int l, double t, double *q) {
  int32_t *hint = &w->delay.hint[d * ATVI_LANES + l];
  const double s = t - lag_of(ode, w, d, l), inside = s + INWARD * (w->delay.middle[l] - t);
  if (!(inside > ode->stop[0].t) || w->delay.newest[l] < 0) return NULL;
  if (*hint < 0) *hint = w->delay.newest[l];
  atvi_ode_record *r = atvi_ode_record_at(w, *hint);
  while (inside < r->t[l] && r->prev[l] >= 0) *hint = r->prev[l], r = atvi_ode_record_at(w, *hint);
  while (inside > r->tnew[l] && r->next[l] >= 0) *hint = r->next[l], r = atvi_ode_record_at(w, *hint);
  *q = (s - r->t[l]) / r->h[l];
  return r;
}

void atvi_ode_delay_fill(const atvi_ode *ode, atvi_ode_work *w, const double *t) {
  const atvi_idx size = w->n * ATVI_LANES;
  for (atvi_idx d = 0; d < w->delay.n; d++)
    for (int l = 0; l < ATVI_LANES; l++) {
      const atvi_idx i = ode->delay[d].state * ATVI_LANES + l;
      double q, b[7], sum = 0, *to = &w->prog.tab[(w->prog.n_tab + ode->n_jump + d) * ATVI_LANES + l];
      const atvi_ode_record *r = find(ode, w, d, l, t[l], &q);
      if (!r) {
        *to = w->delay.past[i];
        continue;
      }
      atvi_ode_dense_weights(ode->method, q, b, NULL);
      for (int j = 0; j < 7; j++) sum += b[j] != 0 ? b[j] * slopes_of(w, r)[j * size + i] : 0;
      *to = atvi_ode_record_y(r)[i] + r->h[l] * sum;
    }
}

void atvi_ode_delay_middle(atvi_ode_work *w, const double *t, const double *h) {
  for (int l = 0; l < ATVI_LANES; l++) w->delay.middle[l] = t[l] + 0.5 * h[l];
}

/* ---- the way back ---- */

void atvi_ode_delay_back_begin(atvi_ode_work *w) {
  memset(w->delay.past_bar, 0, (size_t)(w->n * ATVI_LANES) * sizeof *w->delay.past_bar);
  for (atvi_idx i = 0; i < w->tape.n; i++)
    memset(handed(w, atvi_ode_record_at(w, i)), 0, (size_t)((8 * w->n + 2) * ATVI_LANES) * sizeof(double));
}

void atvi_ode_delay_hand(const atvi_ode *ode, atvi_ode_work *w, const atvi_ode_record *me, const double *t,
                         double *parbar) {
  const atvi_idx size = w->n * ATVI_LANES;
  for (atvi_idx d = 0; d < w->delay.n; d++)
    for (int l = 0; l < ATVI_LANES; l++) {
      const double bar = w->delay.dbar[d * ATVI_LANES + l], share = w->delay.unhanded ? 0 : bar;
      const atvi_idx i = ode->delay[d].state * ATVI_LANES + l;
      double q, b[7], db[7], rate = 0, by_h = 0;
      if (!in(me->mask, l)) continue;
      const atvi_ode_record *r = find(ode, w, d, l, t[l], &q);
      if (!r) {
        w->delay.past_bar[i] += share;
        continue;
      }
      double *to = handed(w, r);
      atvi_ode_dense_weights(ode->method, q, b, db);
      for (int j = 0; j < 7; j++) {
        if (b[j] == 0 && db[j] == 0) continue;
        const double k = slopes_of(w, r)[j * size + i];
        rate += db[j] * k;
        by_h += (b[j] - q * db[j]) * k;
        to[j * size + i] += r->h[l] * b[j] * share;
      }
      to[7 * size + i] += share;
      to[8 * size + l] += by_h * share;
      to[8 * size + ATVI_LANES + l] -= rate * share;
      w->back.tbar[l] += rate * bar;
      if (ode->delay[d].par >= 0) parbar[ode->delay[d].par * ATVI_LANES + l] -= rate * bar;
    }
}

void atvi_ode_delay_take(const atvi_ode_work *w, const atvi_ode_record *r, int stage, double sign,
                         double *kbar) {
  const double *from = handed(w, r) + stage * w->n * ATVI_LANES;
  if (w->delay.untaken) return;
  for (atvi_idx i = 0; i < w->n * ATVI_LANES; i++) kbar[i] += sign * from[i];
}

void atvi_ode_delay_end(const atvi_ode *ode, atvi_ode_work *w, const atvi_ode_record *r, double *parbar) {
  const atvi_idx size = w->n * ATVI_LANES;
  const double *k = slopes_of(w, r), *y = atvi_ode_record_y(r);
  const atvi_ode_tableau *tb = ode->method == ATVI_ODE_RK4 ? &atvi_ode_rk4 : &atvi_ode_tsit5;
  if (ode->method == ATVI_ODE_STIFF) return; /* it is that of the last stage */
  for (atvi_idx i = 0; i < size; i++) {
    double sum = 0;
    for (int j = 0; j < tb->stages; j++) sum += tb->a[tb->stages][j] * k[j * size + i];
    w->back.yend[i] = y[i] + r->h[i % ATVI_LANES] * sum;
  }
  atvi_ode_run(w, &ode->vjp, r->tnew, w->back.yend, handed(w, r) + 6 * size, w->roots.mid, parbar);
  atvi_ode_delay_hand(ode, w, r, r->tnew, parbar);
  for (atvi_idx i = 0; i < size; i++)
    if (in(r->mask, (int)(i % ATVI_LANES))) w->back.lam[i] += w->roots.mid[i];
  for (int l = 0; l < ATVI_LANES; l++) w->delay.tbar_seventh[l] = w->back.tbar[l];
}

void atvi_ode_delay_start(atvi_ode_work *w, const atvi_ode_record *r) {
  const double *from = handed(w, r) + 7 * w->n * ATVI_LANES;
  for (atvi_idx i = 0; i < w->n * ATVI_LANES; i++)
    if (in(r->mask, (int)(i % ATVI_LANES))) w->back.lam[i] += from[i];
}

void atvi_ode_delay_ends(const atvi_ode_work *w, const atvi_ode_record *r, double *start, double *end) {
  const double *by_h = handed(w, r) + 8 * w->n * ATVI_LANES, *by_t = by_h + ATVI_LANES;
  if (w->delay.untaken) return;
  for (int l = 0; l < ATVI_LANES; l++) {
    end[l] += by_h[l] + w->delay.tbar_seventh[l];
    start[l] += by_t[l] - by_h[l];
  }
}

/* ---- tangents ---- */

void atvi_ode_delay_keep_tangent(const atvi_ode_work *w, const atvi_ode_record *r, const double *ydot,
                                 const double *start, const double *end) {
  const atvi_idx size = w->n * ATVI_LANES;
  double *to = handed(w, r);
  for (atvi_idx i = 0; i < 8 * size; i++)
    if (in(r->mask, (int)(i % ATVI_LANES))) to[i] = i < 7 * size ? w->dual.kdot[i] : ydot[i - 7 * size];
  for (int l = 0; l < ATVI_LANES; l++) {
    if (!in(r->mask, l)) continue;
    to[8 * size + l] = end[l] - start[l];
    to[8 * size + ATVI_LANES + l] = start[l];
  }
}

void atvi_ode_delay_tangent(const atvi_ode *ode, atvi_ode_work *w, const double *t, const double *tdot,
                            const double *pardot, double *tabdot) {
  const atvi_idx size = w->n * ATVI_LANES;
  for (atvi_idx d = 0; d < w->delay.n; d++)
    for (int l = 0; l < ATVI_LANES; l++) {
      const atvi_idx i = ode->delay[d].state * ATVI_LANES + l, par = ode->delay[d].par;
      double q, b[7], db[7], rate = 0, *to = &tabdot[(w->prog.n_tab + ode->n_jump + d) * ATVI_LANES + l];
      const atvi_ode_record *r = find(ode, w, d, l, t[l], &q);
      if (!r) {
        *to = pardot ? w->delay.past_dot[i] : 0;
        continue;
      }
      const double *k = slopes_of(w, r), *dot = handed(w, r), hdot = dot[8 * size + l];
      double sum = 0, sum_dot = 0;
      atvi_ode_dense_weights(ode->method, q, b, db);
      for (int j = 0; j < 7; j++) {
        if (b[j] == 0 && db[j] == 0) continue;
        rate += db[j] * k[j * size + i];
        sum += b[j] * k[j * size + i];
        sum_dot += b[j] * dot[j * size + i];
      }
      *to = rate * (tdot ? tdot[l] : 0);
      if (!pardot) continue;
      if (par >= 0) *to -= rate * pardot[par * ATVI_LANES + l];
      *to += dot[7 * size + i] + r->h[l] * sum_dot + hdot * sum;
      *to -= rate * (dot[8 * size + ATVI_LANES + l] + q * hdot);
    }
}
