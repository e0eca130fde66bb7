/* SPDX-License-Identifier: MIT */
/* Forward mode of a model: directional derivatives of log prior and log likelihood, along the way that a
 * value takes.
 *
 *   theta' --prior--> log prior'
 *   theta' --setup--> H', y0' --solver, along the steps of the taped runs--> states' at outputs --rows--> log likelihood'
 *
 * The evaluation with gradient comes first, and what it leaves is gone through again: this is the derivative
 * of the same numbers. */
#include "model/model.h"
#include <math.h>

enum { L = ATVI_LANES };

static void solver(const atvi_model *m, atvi_model_work *w) {
  const atvi_idx size = m->times.n_output * m->states.n * L;
  if (w->start.ode)
    atvi_ode_tangent(&m->odes.steady, w->start.ode, w->hoist, w->dot.guess, w->dot.hoist, w->dot.y0);
  if (w->second.lanes != (1u << L) - 1)
    atvi_ode_tangent(&m->odes.fit, w->ode, w->hoist, w->dot.y0, w->dot.hoist, w->dot.yout);
  if (!w->second.lanes) return;
  atvi_ode_tangent(&m->choice.other, w->second.ode, w->hoist, w->dot.y0, w->dot.hoist, w->dot.yout2);
  for (atvi_idx i = 0; i < size; i++)
    if (w->second.lanes >> (i % L) & 1) w->dot.yout[i] = w->dot.yout2[i];
}

static double *at(const atvi_model *m, double *states, atvi_idx output) {
  return output >= 0 ? states + output * m->states.n * L : states;
}

static void rows(const atvi_model *m, atvi_model_work *w, double sum[L]) {
  for (atvi_idx k = 0; k < m->lik.n_rows; k++) {
    const atvi_rows *of = &m->lik.rows[k];
    for (atvi_idx r = 0; r < of->n_row; r++) {
      const atvi_idx now = of->out[r], before = of->prev[r];
      const double *const ins[] = {
          w->hoist,     at(m, w->yout, now),     at(m, w->yout, before),     of->known + r * of->n_known,
          w->dot.hoist, at(m, w->dot.yout, now), at(m, w->dot.yout, before), NULL};
      atvi_graph_prog_run(&of->tangent, w->scratch, ins, (double *const[]){w->el, w->dot.el});
      for (atvi_idx e = 0; e < of->n_el; e++)
        for (int l = 0; of->mask[r * of->n_el + e] != 0 && l < L; l++) sum[l] += w->dot.el[e * L + l];
    }
  }
}

/* Of the lanes in w->theta, after their evaluation, in the directions w->dot.theta. */
static void tangents(const atvi_model *m, atvi_model_work *w, double lp[L], double ll[L]) {
  const atvi_model_tangents *t = m->prog.tangents;
  const double *const theta[] = {w->theta, w->dot.theta};
  double *y0 = w->dot.setup + m->prog.n_hoist * L, *arg = y0 + m->states.n * L;
  atvi_graph_prog_run(&t->prior, w->scratch, theta, (double *const[]){w->value, w->dot.value});
  for (int l = 0; l < L; l++) lp[l] = w->dot.value[l], ll[l] = 0;
  atvi_graph_prog_run(&t->setup, w->scratch, theta,
                      (double *const[]){w->dot.setup, y0, arg, w->dot.hoist,
                                        w->start.ode ? w->dot.guess : w->dot.y0, w->dot.arg});
  if (m->odes.any) solver(m, w);
  rows(m, w, ll);
  if (!m->prog.has_extra) return;
  atvi_graph_prog_run(&t->extra, w->scratch, theta, (double *const[]){w->value, w->dot.value});
  for (int l = 0; l < L; l++) ll[l] += w->dot.value[l];
}

void atvi_model_tangent(const void *self, void *work, atvi_idx B, const double *theta,
                        const double *direction, double *log_prior, double *log_lik) {
  const atvi_model *m = self;
  atvi_model_work *w = work;
  double lp[L], ll[L], lp_dot[L], ll_dot[L];
  atvi_outcome outcome[L];
  for (atvi_idx first = 0; first < B; first += L) {
    int real = atvi_model_load_lanes(m, w, B, theta, first);
    bool inside = atvi_model_eval_lanes(m, w, lp, ll, outcome);
    for (atvi_idx i = 0; i < m->target.d; i++)
      for (int l = 0; l < L; l++)
        w->dot.theta[i * L + l] = direction[i * B + first + (l < real ? l : real - 1)];
    if (inside) tangents(m, w, lp_dot, ll_dot);
    for (int l = 0; l < real; l++) {
      bool good = inside && outcome[l] == ATVI_RUN_OK && isfinite(ll[l]);
      if (log_prior) log_prior[first + l] = inside && isfinite(lp[l]) ? lp_dot[l] : NAN;
      if (log_lik) log_lik[first + l] = good ? ll_dot[l] : NAN;
    }
  }
}
