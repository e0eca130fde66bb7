/* SPDX-License-Identifier: MIT */
/* The tape backwards: outputs, pulses and steps in the opposite order.
 *
 * A lane that took no part in a record keeps its adjoint, and its parameters' adjoint is put back as it was: the
 * programs ran on that lane too, with numbers that mean nothing. */
#include "ode/work.h"
#include <string.h>

static bool in(unsigned mask, int l) { return mask >> l & 1; }

static void add_outputs(const atvi_ode *ode, atvi_ode_work *w, const atvi_ode_record *r, const double *ybar) {
  unsigned landed = r->landed;
  while (landed) {
    int first = 0;
    while (!in(landed, first)) first++;
    const int32_t seg = r->seg[first];
    const atvi_idx o = ode->stop[seg + 1].output;
    landed &= ~w->kern->meet(w, r, landed, seg, o >= 0 ? ybar + o * w->n * ATVI_LANES : NULL);
  }
}

static void pulse_back(const atvi_ode *ode, atvi_ode_work *w, const atvi_ode_record *r, double *parbar) {
  const atvi_idx size = w->n * ATVI_LANES;
  atvi_ode_run(w, &ode->pulse_vjp[r->pulse], r->t, atvi_ode_record_y(r), w->lam, w->err, parbar);
  for (atvi_idx i = 0; i < size; i += ATVI_LANES)
    for (int l = 0; l < ATVI_LANES; l++)
      if (in(r->mask, l)) w->lam[i + l] = w->err[i + l];
}

static void step_back(const atvi_ode *ode, atvi_ode_work *w, const atvi_ode_record *r, double *parbar) {
  switch (ode->method) {
  case ATVI_ODE_RK45: w->kern->explicit_adjoint(ode, w, &atvi_ode_tsit5, r, parbar); break;
  case ATVI_ODE_RK4: w->kern->explicit_adjoint(ode, w, &atvi_ode_rk4, r, parbar); break;
  case ATVI_ODE_STIFF: w->kern->esdirk_adjoint(ode, w, r, parbar); break;
  case ATVI_ODE_MAP: {
    atvi_ode_run(w, &ode->vjp, r->t, atvi_ode_record_y(r), w->lam, w->err, parbar);
    double *lam = w->lam;
    w->lam = w->err;
    w->err = lam;
  } break;
  }
}

void atvi_ode_adjoint(const atvi_ode *ode, atvi_ode_work *w, const double *par, const double *ybar,
                      double *y0bar, double *parbar) {
  const atvi_idx size = w->n * ATVI_LANES, width = w->n_par * ATVI_LANES;
  w->par = par;
  memset(w->lam, 0, (size_t)size * sizeof *w->lam);
  for (atvi_idx i = w->tape_n - 1; i >= 0; i--) {
    const atvi_ode_record *r = atvi_ode_record_at(w, i);
    const bool some = r->mask != ATVI_ODE_ALL;
    if (some && width) memcpy(w->save, parbar, (size_t)width * sizeof *parbar);
    if (w->n_tab > 0)
      for (int l = 0; l < ATVI_LANES; l++) atvi_ode_set_tab(ode, w, l, r->seg[l]);
    if (r->pulse >= 0) {
      pulse_back(ode, w, r, parbar);
    } else {
      add_outputs(ode, w, r, ybar);
      step_back(ode, w, r, parbar);
    }
    if (some)
      for (atvi_idx p = 0; p < width; p += ATVI_LANES)
        for (int l = 0; l < ATVI_LANES; l++)
          if (!in(r->mask, l)) parbar[p + l] = w->save[p + l];
  }
  const atvi_idx o = ode->stop[0].output;
  for (atvi_idx i = 0; i < size; i++) y0bar[i] = w->lam[i] + (o >= 0 ? ybar[o * size + i] : 0);
}
