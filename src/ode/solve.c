/* SPDX-License-Identifier: MIT */
/* Forward runs: adaptive, fixed step. See work.h for the order of things in one iteration. */
#include "ode/work.h"
#include <float.h>
#include <math.h>
#include <string.h>

/* A step this far below the time or the span cannot be resolved. */
static const double SMALL_TIME = 16 * DBL_EPSILON, SMALL_SPAN = 1e-18;

/* Steps after which a lane is first asked how many it will take, and how far above its limit it may then be. */
enum { LOOK = 32 };
static const double FORESEE = 2;

/* Squared error, of 1 for the tolerance, below which nothing moves; a displacement in units of each state's
 * size; step times rate that is stable (Tsitouras: 3.5). */
static const double REST = 1e-16, DISPLACED = 1e-6, STABLE = 2.5;

static bool in(unsigned mask, int l) { return mask >> l & 1; }

void atvi_ode_park(atvi_ode_work *w, int l) {
  w->h[l] = 0;
  w->tstop[l] = w->t[l];
  w->run &= ~(1u << l);
}

void atvi_ode_fail_lane(atvi_ode_work *w, int l, atvi_outcome outcome) {
  w->outcome[l] = outcome;
  atvi_ode_park(w, l);
}

bool atvi_ode_apply_pulse(const atvi_ode *ode, atvi_ode_work *w, atvi_idx pulse, atvi_idx moving,
                          unsigned mask) {
  const atvi_idx size = w->n * ATVI_LANES;
  if (w->tape.on) {
    atvi_ode_record *r = atvi_ode_tape_next(w);
    if (!r) return false;
    memcpy(r->t, w->t, sizeof r->t);
    memcpy(r->seg, w->seg, sizeof r->seg);
    for (int l = 0; l < ATVI_LANES; l++) r->h[l] = in(mask, l) ? 1 : 0;
    r->mask = mask;
    r->landed = 0;
    r->pulse = (int32_t)pulse;
    r->moving = (int32_t)moving;
    memcpy(r->mover, w->instants.mover, sizeof r->mover);
    memcpy(r->echo, w->echoes.instant, sizeof r->echo);
    memcpy(r->passed, w->instants.passed, sizeof r->passed);
    memcpy(atvi_ode_record_y(r), w->y, (size_t)size * sizeof *w->y);
    w->tape.n++;
  }
  if (moving >= 0) atvi_ode_set_moving(ode, w, moving, mask);
  atvi_ode_run(w, &ode->pulses.prog[pulse], w->t, w->y, NULL, w->trial.ynew, NULL);
  for (atvi_idx i = 0; i < size; i += ATVI_LANES)
    for (int l = 0; l < ATVI_LANES; l++)
      if (in(mask, l)) {
        w->y[i + l] = w->trial.ynew[i + l];
        w->trial.scale[i + l] = fmax(w->trial.scale[i + l], fabs(w->y[i + l]));
        w->control.smax[l] = fmax(w->control.smax[l], w->trial.scale[i + l]);
      }
  return true;
}

/* The lanes among `mask` whose segment ends at stop s have arrived there: output, new tab, pulse, next stop.
 * Gives these lanes in *group. False: the tape is full. */
static bool arrive_at(const atvi_ode *ode, atvi_ode_work *w, atvi_idx s, unsigned mask, double *yout,
                      unsigned *group) {
  const atvi_ode_stop *p = &ode->stop[s];
  const bool last = s + 1 == ode->n_stop;
  double *to = p->output >= 0 ? yout + p->output * w->n * ATVI_LANES : NULL;
  *group = mask = w->kern->pass(w, (int32_t)s - 1, mask, last ? p->t : p[1].t, to);
  if (!last && !w->instants.fresh[s]) return true;
  for (int l = 0; l < ATVI_LANES; l++) {
    if (!in(mask, l)) continue;
    if (w->prog.n_tab > 0) atvi_ode_set_tab(ode, w, l, s);
    if (last) atvi_ode_park(w, l);
  }
  return p->pulse < 0 || atvi_ode_apply_pulse(ode, w, p->pulse, -1, mask);
}

/* Of the lanes that have arrived, those that have at a stop; the others are where their parameters say. */
static unsigned at_stops(const atvi_ode *ode, const atvi_ode_work *w, unsigned landed) {
  for (int l = 0; l < ATVI_LANES; l++)
    if (in(landed, l) && w->t[l] != ode->stop[w->seg[l] + 1].t) landed &= ~(1u << l);
  return landed;
}

/* As arrive_at for lanes that may be at different stops; gives the lanes whose slope changed. */
static bool arrive(const atvi_ode *ode, atvi_ode_work *w, unsigned landed, double *yout, unsigned *fresh) {
  *fresh = 0;
  while (landed) {
    int first = 0;
    while (!in(landed, first)) first++;
    const atvi_idx s = w->seg[first] + 1;
    unsigned group;
    if (!arrive_at(ode, w, s, landed, yout, &group)) return false;
    landed &= ~group;
    if (w->instants.fresh[s]) *fresh |= group;
  }
  return true;
}

/* Marks the lanes in which v[n][L] is not finite. */
static void fail_nonfinite(atvi_ode_work *w, const double *v) {
  const atvi_idx size = w->n * ATVI_LANES;
  double sum[ATVI_LANES] = {0};
  for (atvi_idx i = 0; i < size; i += ATVI_LANES)
    for (int l = 0; l < ATVI_LANES; l++) sum[l] += 0.0 * v[i + l];
  for (int l = 0; l < ATVI_LANES; l++)
    if (w->outcome[l] == ATVI_RUN_OK && sum[l] != 0) atvi_ode_fail_lane(w, l, ATVI_RUN_NONFINITE);
}

/* State, scales, outputs and pulses at the start. */
static bool begin(const atvi_ode *ode, atvi_ode_work *w, const double *y0, const double *par, double *yout) {
  const atvi_idx size = w->n * ATVI_LANES;
  atvi_ode_aim(ode, w);
  w->prog.par = par;
  memcpy(w->y, y0, (size_t)size * sizeof *y0);
  if (w->delay.n) atvi_ode_delay_begin(w, y0);
  memset(w->control.smax, 0, sizeof w->control.smax);
  w->run = ATVI_ODE_ALL;
  for (int l = 0; l < ATVI_LANES; l++) {
    w->t[l] = w->tstop[l] = ode->stop[0].t;
    w->h[l] = 0;
    w->seg[l] = -1;
    w->outcome[l] = ATVI_RUN_OK;
    w->count.accepted[l] = w->count.rejected[l] = 0;
    w->prog.tab_of[l] = NULL;
    w->instants.passed[l] = 0;
    w->instants.mover[l] = w->echoes.instant[l] = -1;
    atvi_ode_set_passed(ode, w, l, 0);
    if (w->prog.n_tab > 0) atvi_ode_set_tab(ode, w, l, 0);
  }
  for (atvi_idx i = 0; i < size; i += ATVI_LANES)
    for (int l = 0; l < ATVI_LANES; l++) {
      w->trial.scale[i + l] = fabs(y0[i + l]);
      w->control.smax[l] = fmax(w->control.smax[l], w->trial.scale[i + l]);
    }
  unsigned group, fresh = 0;
  bool events = w->instants.any && ode->n_stop > 1;
  if (events) atvi_ode_events_begin(ode, w);
  bool ok = arrive_at(ode, w, 0, ATVI_ODE_ALL, yout, &group);
  fail_nonfinite(w, w->y);
  if (events) ok = ok && atvi_ode_pass_moving(ode, w, ATVI_ODE_ALL, true, &fresh);
  if (events && ode->roots.n) ok = ok && atvi_ode_fire(ode, w, ATVI_ODE_ALL, NULL, &fresh);
  return ok;
}

static bool record_step(const atvi_ode *ode, atvi_ode_work *w, unsigned accepted) {
  atvi_ode_record *r = atvi_ode_tape_next(w);
  if (!r) return false;
  const size_t bytes = (size_t)w->n * ATVI_LANES * sizeof *w->y;
  memcpy(r->t, w->t, sizeof r->t);
  memcpy(r->tnew, w->trial.tnew, sizeof r->tnew);
  memcpy(r->seg, w->seg, sizeof r->seg);
  r->mask = accepted;
  r->landed = 0;
  r->pulse = -1;
  r->moving = -1;
  memcpy(r->mover, w->instants.mover, sizeof r->mover);
  memcpy(r->echo, w->echoes.instant, sizeof r->echo);
  memcpy(r->passed, w->instants.passed, sizeof r->passed);
  for (int l = 0; l < ATVI_LANES; l++) {
    r->h[l] = in(accepted, l) ? w->trial.hs[l] : 0;
    bool stop = w->trial.tnew[l] == w->tstop[l] &&
                (!w->instants.any || w->trial.tnew[l] == ode->stop[w->seg[l] + 1].t);
    r->landed |= (unsigned)stop << l;
  }
  r->landed &= accepted;
  memcpy(atvi_ode_record_y(r), w->y, bytes);
  if (w->tape.keeps && w->trial.ys != atvi_ode_record_y(r))
    memcpy((char *)atvi_ode_record_y(r) + bytes, w->trial.ys + w->n * ATVI_LANES, 5 * bytes);
  if (w->delay.n) atvi_ode_delay_record(w, r, accepted);
  w->tape.n++;
  return true;
}

/* Rejected lanes whose next step could not be resolved give up. */
static void give_up_small(atvi_ode_work *w, unsigned rejected) {
  for (int l = 0; l < ATVI_LANES; l++) {
    if (!in(rejected, l)) continue;
    if (!(w->h[l] > SMALL_TIME * fabs(w->t[l]) && w->h[l] > SMALL_SPAN * w->control.span))
      atvi_ode_fail_lane(w, l, isnan(w->trial.e2[l]) ? ATVI_RUN_NONFINITE : ATVI_RUN_SMALL);
  }
}

static void fail_all(atvi_ode_work *w, unsigned mask, atvi_outcome outcome) {
  for (int l = 0; l < ATVI_LANES; l++)
    if (in(mask, l)) atvi_ode_fail_lane(w, l, outcome);
}

/* Fails the lanes that have taken all the steps they may. Every event costs some, however long those between
 * could be. */
static void fail_late(const atvi_ode *ode, atvi_ode_work *w, atvi_idx step) {
  enum { EVENT_STEPS = 8 };
  for (int l = 0; l < ATVI_LANES; l++)
    if (in(w->run, l) &&
        step >= ode->control.max_steps + (ode->roots.n ? EVENT_STEPS * w->roots.fired[l] : 0))
      atvi_ode_fail_lane(w, l, ATVI_RUN_STEPS);
}

/* Fails the lanes that, by the longest step since the last look, would take far more steps than they may. */
static void fail_hopeless(const atvi_ode *ode, atvi_ode_work *w, atvi_idx step) {
  const double most = FORESEE * (double)ode->control.max_steps - (double)step,
               end = ode->stop[ode->n_stop - 1].t;
  for (int l = 0; l < ATVI_LANES; l++) {
    if (in(w->run, l) && end - w->t[l] > most * w->control.longest[l])
      atvi_ode_fail_lane(w, l, ATVI_RUN_STEPS);
    w->control.longest[l] = 0;
  }
}

/* A run of as many steps will most likely fail, and its tape would be a gigabyte for nothing. */
static void go_untaped(atvi_ode_work *w) {
  w->tape.on = false;
  w->tape.beyond = w->run;
  w->trial.ys = w->trial.stages;
}

/* Where nothing moves no error says how long a step may be: the state stays where it is however long, but
 * derivatives by parameters grow with every step that is unstable. So the rate at which a small displacement
 * changes slopes limits the next step of such lanes. */
static void limit_at_rest(const atvi_ode *ode, atvi_ode_work *w, unsigned lanes) {
  const atvi_idx size = w->n * ATVI_LANES;
  double *y = w->trial.ynew, *k = w->trial.k + size, moved[ATVI_LANES] = {0}, changed[ATVI_LANES] = {0};
  for (atvi_idx i = 0; i < size; i++)
    y[i] = w->y[i] + (i / ATVI_LANES % 2 ? -DISPLACED : DISPLACED) * w->trial.scale[i];
  if (w->delay.n) atvi_ode_delay_middle(w, w->t, w->prog.one);
  atvi_ode_run(w, &ode->rhs, w->t, y, NULL, k, NULL);
  for (atvi_idx i = 0; i < size; i += ATVI_LANES)
    for (int l = 0; l < ATVI_LANES; l++) {
      double s = w->trial.scale[i + l];
      if (!(s > 0)) continue;
      moved[l] += (y[i + l] - w->y[i + l]) / s * ((y[i + l] - w->y[i + l]) / s);
      changed[l] += (k[i + l] - w->trial.k[i + l]) / s * ((k[i + l] - w->trial.k[i + l]) / s);
    }
  for (int l = 0; l < ATVI_LANES; l++) {
    double most = STABLE * sqrt(moved[l] / changed[l]);
    if (in(lanes, l) && most < w->h[l]) w->h[l] = most;
  }
}

/* Accepted lanes whose step had an error of next to nothing. */
static unsigned at_rest(const atvi_ode_work *w, unsigned accepted) {
  unsigned rest = 0;
  for (int l = 0; l < ATVI_LANES; l++) rest |= in(accepted, l) && w->trial.e2[l] < REST ? 1u << l : 0;
  return rest;
}

/* Lanes that begin at rest. */
static unsigned without_slope(const atvi_ode_work *w) {
  unsigned moves = 0;
  for (atvi_idx i = 0; i < w->n * ATVI_LANES; i += ATVI_LANES)
    for (int l = 0; l < ATVI_LANES; l++) moves |= w->trial.k[i + l] != 0 ? 1u << l : 0;
  return w->run & ~moves;
}

static void (*attempt_of(const atvi_ode *ode, const atvi_ode_work *w))(const atvi_ode *, atvi_ode_work *) {
  return ode->method == ATVI_ODE_STIFF ? w->kern->esdirk : w->kern->tsit5;
}

static void solve_adaptive(const atvi_ode *ode, atvi_ode_work *w, double *yout) {
  const atvi_ode_kernels *kern = w->kern;
  if (ode->n_stop == 1) return;
  void (*attempt)(const atvi_ode *, atvi_ode_work *) = attempt_of(ode, w);
  kern->refresh(ode, w, ATVI_ODE_ALL);
  fail_nonfinite(w, w->trial.k);
  if (ode->steady)
    atvi_ode_first_step_to_rest(ode, w);
  else
    kern->first_step(ode, w);
  unsigned still = ode->method == ATVI_ODE_RK45 ? without_slope(w) : 0;
  if (still) limit_at_rest(ode, w, still);
  for (int l = 0; l < ATVI_LANES; l++)
    if (w->outcome[l] != ATVI_RUN_OK) atvi_ode_park(w, l);
  atvi_idx look = LOOK;
  memset(w->control.longest, 0, sizeof w->control.longest);
  for (atvi_idx step = 0; w->run; step++) {
    if (step >= ode->control.max_steps) fail_late(ode, w, step);
    if (ode->control.foresees && step == look) {
      fail_hopeless(ode, w, step);
      look *= 2;
    }
    if (!w->run) return;
    kern->propose(w);
    if (w->tape.on && w->tape.keeps) { /* stages are computed where they are kept */
      atvi_ode_record *r = atvi_ode_tape_next(w);
      if (!r) {
        fail_all(w, w->run, ATVI_RUN_STEPS);
        return;
      }
      w->trial.ys = atvi_ode_record_y(r);
    }
    if (w->delay.n) atvi_ode_delay_limit(ode, w);
    attempt(ode, w);
    w->count.effort.steps++;
    unsigned verdict = kern->judge(w), accepted = verdict & ATVI_ODE_ALL, fresh = 0, landed = 0;
    unsigned rest = ode->method == ATVI_ODE_RK45 ? at_rest(w, accepted) : 0;
    bool room = true;
    for (int l = 0; l < ATVI_LANES; l++)
      w->control.longest[l] = w->control.longest[l] > w->h[l] ? w->control.longest[l] : w->h[l];
    if (accepted) {
      int which[ATVI_LANES];
      if (ode->roots.n) atvi_ode_locate(ode, w, accepted, attempt, which);
      if (w->tape.on) room = record_step(ode, w, accepted);
      for (int l = 0; l < ATVI_LANES; l++)
        if (in(accepted, l)) w->instants.mover[l] = w->echoes.instant[l] = -1, w->roots.skip[l] = 0;
      landed = kern->commit(w);
      unsigned here = w->instants.any ? at_stops(ode, w, landed) : landed;
      if (room && here) room = arrive(ode, w, here, yout, &fresh);
      if (room && w->instants.any) room = atvi_ode_pass_moving(ode, w, landed, false, &fresh);
      if (room && ode->roots.n) room = atvi_ode_fire(ode, w, accepted, which, &fresh);
    }
    if (ode->steady) atvi_ode_stop_at_rest(ode, w, yout);
    if (verdict >> ATVI_LANES) give_up_small(w, verdict >> ATVI_LANES);
    if (!room) {
      fail_all(w, w->run | landed, ATVI_RUN_STEPS);
      return;
    }
    if (fresh & w->run) kern->refresh(ode, w, fresh & w->run);
    if (rest & w->run) limit_at_rest(ode, w, rest & w->run);
    if (ode->roots.n && fresh & w->run) atvi_ode_release(ode, w, fresh & w->run);
    if (w->tape.on && w->tape.n >= w->tape.most && w->delay.n == 0) go_untaped(w);
  }
}

/* One step of hs from t to tnew in all lanes, y to y. False: the tape is full. */
static bool step_all(const atvi_ode *ode, atvi_ode_work *w) {
  switch (ode->method) {
  case ATVI_ODE_RK4: w->kern->rk4(ode, w); break;
  case ATVI_ODE_MAP: atvi_ode_run(w, &ode->rhs, w->t, w->y, NULL, w->trial.ynew, NULL); break;
  case ATVI_ODE_RK45:
  case ATVI_ODE_STIFF: break; /* not with fixed steps */
  }
  const bool room = !w->tape.on || record_step(ode, w, ATVI_ODE_ALL);
  double *y = w->y;
  w->y = w->trial.ynew;
  w->trial.ynew = y;
  return room;
}

static void set_times(atvi_ode_work *w, double t, double tnew, double h) {
  for (int l = 0; l < ATVI_LANES; l++) {
    w->t[l] = t;
    w->trial.tnew[l] = tnew;
    w->trial.hs[l] = h;
  }
}

/* The number of steps of a fixed-step run; stops counting above max_steps. */
static atvi_idx total_steps(const atvi_ode *ode) {
  atvi_idx total = 0;
  for (atvi_idx s = 0; s + 1 < ode->n_stop && total <= ode->control.max_steps; s++)
    total += atvi_ode_substeps(ode, s);
  return total;
}

static void solve_fixed(const atvi_ode *ode, atvi_ode_work *w, double *yout) {
  const atvi_idx total = total_steps(ode);
  bool room = total <= ode->control.max_steps;
  unsigned group;
  atvi_idx done = 0; /* steps from the start, for the grid of difference equations */
  for (atvi_idx s = 0; s + 1 < ode->n_stop && room; s++) {
    const double t0 = ode->stop[s].t, t1 = ode->stop[s + 1].t;
    const atvi_idx m = atvi_ode_substeps(ode, s);
    const double h = ode->method == ATVI_ODE_MAP ? ode->control.h : (t1 - t0) / (double)m;
    for (atvi_idx i = 0; i < m && room; i++, done++) {
      set_times(w, i ? t0 + (double)i * h : t0, i + 1 == m ? t1 : t0 + (double)(i + 1) * h, h);
      room = step_all(ode, w);
    }
    set_times(w, t1, t1, 0);
    fail_nonfinite(w, w->y);
    room = room && arrive_at(ode, w, s + 1, ATVI_ODE_ALL, yout, &group);
  }
  for (int l = 0; l < ATVI_LANES; l++) w->count.accepted[l] = (double)done;
  if (!room) fail_all(w, ATVI_ODE_ALL, ATVI_RUN_STEPS);
}

static void solve_once(const atvi_ode *ode, atvi_ode_work *w, const double *y0, const double *par,
                       double *yout, bool tape) {
  w->tape.on = tape;
  w->tape.beyond = 0;
  if (tape) w->tape.n = 0;
  if (!begin(ode, w, y0, par, yout))
    fail_all(w, ATVI_ODE_ALL, ATVI_RUN_STEPS);
  else if (ode->method == ATVI_ODE_RK45 || ode->method == ATVI_ODE_STIFF)
    solve_adaptive(ode, w, yout);
  else
    solve_fixed(ode, w, yout);
  for (int l = 0; ode->steady && l < ATVI_LANES; l++)
    if (w->outcome[l] != ATVI_RUN_OK || w->t[l] == ode->stop[1].t) w->outcome[l] = ATVI_RUN_STEADY;
  w->trial.ys = w->trial.stages;
}

/* Whether a lane arrived of which the tape has only the first part. */
static bool lacks_tape(const atvi_ode_work *w) {
  bool any = false;
  for (int l = 0; l < ATVI_LANES; l++) any = any || (in(w->tape.beyond, l) && w->outcome[l] == ATVI_RUN_OK);
  return any;
}

void atvi_ode_solve(const atvi_ode *ode, atvi_ode_work *w, const double *y0, const double *par, double *yout,
                    bool tape, atvi_outcome *outcome) {
  tape = tape || w->delay.n > 0;
  w->delay.ode = ode;
  w->count.effort = (atvi_ode_effort){0};
  solve_once(ode, w, y0, par, yout, tape);
  if (lacks_tape(w)) { /* a long run that arrives after all: such are expected from here on */
    w->tape.most = 2 * (atvi_idx)w->count.effort.steps;
    solve_once(ode, w, y0, par, yout, tape);
  }
  if (ode->steady) atvi_ode_settle(ode, w, tape, yout);
  memcpy(outcome, w->outcome, sizeof w->outcome);
  if (tape) memcpy(w->tape.outcome, w->outcome, sizeof w->tape.outcome);
}

/* The tape backwards: outputs, pulses and steps in the opposite order.
 *
 * A lane that took no part in a record keeps its adjoint, and its parameters' adjoint is put back as it was:
 * the programs ran on that lane too, with numbers that mean nothing. */

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
  if (r->moving >= 0) atvi_ode_set_moving(ode, w, r->moving, r->mask);
  atvi_ode_run(w, &ode->pulses.vjp[r->pulse], r->t, atvi_ode_record_y(r), w->back.lam, w->trial.err, parbar);
  for (atvi_idx i = 0; i < size; i += ATVI_LANES)
    for (int l = 0; l < ATVI_LANES; l++)
      if (in(r->mask, l)) w->back.lam[i + l] = w->trial.err[i + l];
}

void atvi_ode_step_back(const atvi_ode *ode, atvi_ode_work *w, const atvi_ode_record *r, double *parbar) {
  switch (ode->method) {
  case ATVI_ODE_RK45: w->kern->explicit_adjoint(ode, w, &atvi_ode_tsit5, r, parbar); break;
  case ATVI_ODE_RK4: w->kern->explicit_adjoint(ode, w, &atvi_ode_rk4, r, parbar); break;
  case ATVI_ODE_STIFF: w->kern->esdirk_adjoint(ode, w, r, parbar); break;
  case ATVI_ODE_MAP: {
    atvi_ode_run(w, &ode->vjp, r->t, atvi_ode_record_y(r), w->back.lam, w->trial.err, parbar);
    double *lam = w->back.lam;
    w->back.lam = w->trial.err;
    w->trial.err = lam;
  } break;
  }
}

void atvi_ode_adjoint(const atvi_ode *ode, atvi_ode_work *w, const double *par, const double *ybar,
                      double *y0bar, double *parbar) {
  const atvi_idx size = w->n * ATVI_LANES, width = w->prog.n_par * ATVI_LANES;
  w->prog.par = par;
  memset(w->back.lam, 0, (size_t)size * sizeof *w->back.lam);
  if (ode->steady) memcpy(w->back.lam, ybar, (size_t)size * sizeof *w->back.lam);
  w->delay.ode = ode;
  if (w->delay.n) atvi_ode_delay_back_begin(w);
  for (atvi_idx e = 0; e < w->echoes.n; e++) w->echoes.of[e].bar = 0;
  atvi_ode_instant at;
  for (int l = 0; l < ATVI_LANES; l++) at.mover[l] = at.echo[l] = -1, at.bar[l] = w->back.tbar[l] = 0;
  const bool by_steps = w->rest.lanes != ATVI_ODE_ALL; /* in some lane */
  unsigned arrived = 0;
  for (int l = 0; l < ATVI_LANES; l++) arrived |= (unsigned)(w->tape.outcome[l] == ATVI_RUN_OK) << l;
  for (atvi_idx i = w->tape.n - 1; by_steps && i >= 0; i--) {
    const atvi_ode_record *r = atvi_ode_record_at(w, i);
    const unsigned mask = r->mask & ~w->rest.lanes;
    if (!(mask & arrived)) continue; /* steps of lanes that failed later */
    const bool some = mask != ATVI_ODE_ALL;
    if (some && width) memcpy(w->back.save, parbar, (size_t)width * sizeof *parbar);
    if (w->prog.n_tab > 0)
      for (int l = 0; l < ATVI_LANES; l++) atvi_ode_set_tab(ode, w, l, r->seg[l]);
    for (int l = 0; ode->n_jump && l < ATVI_LANES; l++) atvi_ode_set_passed(ode, w, l, r->passed[l]);
    if (r->pulse >= 0) {
      pulse_back(ode, w, r, parbar);
      if (w->instants.any) atvi_ode_instant_pulse(w, i, &at);
    } else {
      if (w->delay.n) atvi_ode_delay_middle(w, r->t, r->h);
      if (w->instants.any && r->landed) atvi_ode_instant_tied(ode, w, r, &at, parbar);
      add_outputs(ode, w, r, ybar);
      if (w->delay.n) atvi_ode_delay_end(ode, w, r, parbar);
      if (w->instants.any)
        atvi_ode_moving_back(ode, w, i, &at, parbar);
      else
        atvi_ode_step_back(ode, w, r, parbar);
      if (w->delay.n) atvi_ode_delay_start(w, r);
    }
    if (some) w->kern->put(w->prog.n_par, ~mask, w->back.save, parbar);
  }
  const atvi_idx o = ode->stop[0].output;
  for (atvi_idx i = 0; i < size; i++) y0bar[i] = w->back.lam[i] + (o >= 0 ? ybar[o * size + i] : 0);
  for (atvi_idx i = 0; w->delay.n && i < size; i++) y0bar[i] += w->delay.past_bar[i];
  if (w->rest.lanes) atvi_ode_adjoint_rest(ode, w, ybar, y0bar, parbar);
}
