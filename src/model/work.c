/* SPDX-License-Identifier: MIT */
/* What an evaluation takes, in operations. Counted, not timed, so that what is decided by it is the same on every machine: nodes of the programs, right-hand
 * sides that the solver asks for at draws from the prior, and the products of emulators. */
#include "model/model.h"
#include <math.h>

enum { SEED = 7061, STAGES = 4 };
/* Operations on every state, for each evaluation of the right-hand side: combinations of stages, and errors. */
static const double COMBINE = 8;
/* Multiplications and additions of matrices, all of the same form, take this part of the time of others. */
static const double IN_MATRIX = 0.25;

/* Evaluations of the right-hand side for a point; those of an implicit solver with what they solve, in operations. */
static double solve(const atvi_model *m, atvi_model_work *w) {
  const atvi_ode *ode = &m->ode;
  const double n = (double)m->n_state, rhs = m->ops_rhs + COMBINE * n;
  const atvi_idx last = ode->n_stop - 1;
  atvi_outcome outcome[ATVI_LANES];
  if (last < 1) return rhs;
  if (ode->method == ATVI_ODE_RK4 || ode->method == ATVI_ODE_MAP)
    return rhs * (ode->method == ATVI_ODE_RK4 ? STAGES : 1) *
           ((ode->stop[last].t - ode->stop[0].t) / ode->h + (double)last);
  m->target.ops->prior_draw(m, w, SEED, 0, ATVI_LANES, w->theta);
  atvi_model_load_covariates(m, w);
  atvi_model_setup(m, w, ATVI_SETUP_PLAIN);
  atvi_ode_solve(ode, w->ode, w->y0, w->hoist, w->yout, false, outcome);
  atvi_ode_effort e = atvi_ode_effort_of(w->ode);
  double implicit = ode->method == ATVI_ODE_STIFF ? 2 * n * n : 0, factor = 2 * n * n * n / 3;
  return (double)e.rhs * (rhs + implicit) + (double)e.factors * factor;
}

static double emulate(const atvi_emulated *e) {
  enum { PER_TERM = 40 };
  double sum = 0;
  for (atvi_idx k = 0; k < e->n_emulator; k++) {
    const atvi_emulation *em = &e->emulator[k];
    if (!em->em) continue;
    double n = (double)em->dossier.r.runs.n, columns = (double)atvi_gp_emulator_info(em->em)->n_basis;
    sum += n * (double)(em->d + 8) + IN_MATRIX * n * (n / 2 + columns);
  }
  for (atvi_idx k = 0; k < e->n; k++) sum += PER_TERM * (double)(e->process[k].n_used * e->process[k].n_term);
  return sum;
}

atvi_status atvi_model_count(atvi_model *m) {
  double sum = m->ops_point;
  void *work;
  if (m->emulated) sum += emulate(m->emulated);
  if (m->has_ode) {
    ATVI_TRY(atvi_model_work_new(m, m->ctx, &work));
    sum += solve(m, work);
    atvi_model_work_free(work);
  }
  m->target.operations = sum;
  return ATVI_OK;
}
