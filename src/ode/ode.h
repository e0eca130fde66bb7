/* SPDX-License-Identifier: MIT */
/* Batched initial value problems and difference equations, with exact discrete adjoints.
 *
 * A group of ATVI_LANES points is integrated together, lanes innermost: y[n][ATVI_LANES]. Every
 * lane has its own time, step and acceptance, so that a point's result never depends on its
 * neighbours; the group runs until its slowest lane is done. Lanes land exactly on the stops
 * (observation times, jumps of tables, pulses), which are common to all lanes.
 *
 * The adjoint differentiates the accepted steps (step sizes held fixed), to rounding. */
#ifndef ATVI_ODE_ODE_H
#define ATVI_ODE_ODE_H

#include "core/core.h"
#include "graph/program.h"

/* The entries of a Jacobian that are not always 0, for implicit steps. */

typedef struct atvi_ode_shape {
  /* Entries that the program of the Jacobian gives, and where each stands in the matrix of reordered states,
   * row * n + column. */
  atvi_idx n_entry;
  const int32_t *at; /* [n_entry] */
  /* The states in the order in which they are eliminated. */
  const int32_t *order; /* [n] */
  /* The last row and the last column that a pivot changes; neither ever decreases. */
  const int32_t *low, *right; /* [n] */
  /* Operations of factors, and of a solution with them. */
  double factor, solve;
} atvi_ode_shape;

/* Of n states with these entries, row * n + column; NULL: out of memory. */
const atvi_ode_shape *atvi_ode_shape_new(atvi_pool *pool, atvi_idx n, atvi_idx n_entry, const int32_t *entry);

enum { ATVI_ODE_JUMPS = 32, ATVI_ODE_ROOTS = 64 }; /* at most */

typedef enum {
  ATVI_ODE_RK45,  /* adaptive explicit 5(4) pair, the default */
  ATVI_ODE_RK4,   /* classical, fixed step `h` (shortened to land on stops) */
  ATVI_ODE_STIFF, /* adaptive L-stable ESDIRK 4(3), Newton with exact Jacobians, lane by lane */
  ATVI_ODE_MAP,   /* difference equation y <- f(t, y), t <- t + h, h > 0 given */
} atvi_ode_method;

typedef struct {
  double t;
  atvi_idx output;   /* >= 0: store the state there, as it is just before any pulse; -1: no output */
  atvi_idx pulse;    /* >= 0: index into pulses, applied after the output; -1: none */
  const double *tab; /* [n_tab] table coefficients from here to the next stop */
} atvi_ode_stop;

/* A pulse at a time of its own in every lane: par[par] + offset. One at or before the start acts at the
 * start. */
typedef struct {
  atvi_idx par;
  double offset;
  atvi_idx pulse; /* -1: none, the right-hand side jumps there for another reason */
  /* [n_tab - tab_from] what the pulse sees in tab from there on, instead of what the stop before it has;
   * NULL: that. */
  const double *tab;
  atvi_idx tab_from;
} atvi_ode_moving;

/* A state some time ago: par[par] ago, or `lag` if par is -1; the initial state before the start. */
typedef struct {
  atvi_idx state, par;
  double lag;
} atvi_ode_delay;

/* Tangents of programs (graph/program.h) for atvi_ode_tangent: tangents of t, y, par and tab are further
 * inputs, those of the outputs further outputs. */
typedef struct {
  atvi_prog rhs;
  const atvi_prog *pulse; /* [pulses.n] */
  atvi_prog root;         /* only if roots.n > 0 */
} atvi_ode_tangents;

/* Slots of the programs, in this order (a program that does not use a slot still declares it). None is
 * uniform: lanes are at different times and between different stops, so that t and tab have their own value
 * in each.
 *   rhs    in: t [1], y [n], par [n_par], tab [n_tab]             out: f [n]
 *   vjp    in: t, y, par, tab, lam [n]                            out: ybar [n] (store), parbar [n_par] (accumulate),
 *                                                                      tbar [1] (store; only where times move: jumps, moving, roots),
 *                                                                      dbar [n_delay] (store; with tbar; only if there are delays)
 *   jac    in: t, y, par, tab                                     out: J [n*n], row i column j = df_i/dy_j, or the entries of
 *                                                                      shape   (STIFF only)
 *   pulses in: t, y, par, tab  out: y after [n];  vjp: as vjp                               (one pair per pulse)
 *   roots  in: t, y, par, tab  out: g [roots.n], whether the condition holds [roots.n]      (only if roots.n > 0)
 *          vjp of g: as vjp, lam [roots.n]
 * A step sees the tab of the stop it set out from, also at its right end; a pulse sees that of its own stop.
 * For MAP, rhs gives the next state. Each vjp may be missing where no adjoint is asked for. */
typedef struct {
  atvi_ode_method method;
  atvi_idx n, n_par, n_tab; /* the slot tab has n_tab + n_jump + n_delay values */
  atvi_prog rhs, vjp, jac;
  const atvi_ode_shape *shape; /* of the Jacobian; NULL: any entry may differ from 0 */
  struct {
    atvi_idx n;
    const atvi_prog *prog, *vjp; /* [n] */
  } pulses;
  atvi_idx n_stop;
  const atvi_ode_stop *stop; /* [n_stop], t strictly ascending; stop[0].t is the start time */
  /* Problems that differ in nothing but stops, outputs and moving may share a work: the most stops and moving
   * pulses that any of them has; 0: n_stop, n_moving. */
  struct {
    atvi_idx stops, moving;
  } most;
  /* Instants whose times differ from lane to lane (RK45 and STIFF, which land on them; see events.c). Their
   * adjoints are exact: they differentiate the steps that end and begin there. */
  /* Jumps of the right-hand side: the places of their times in par. Table value n_tab + j is 0 before jump j
   * and 1 from it on. */
  atvi_idx n_jump;
  const atvi_idx *jump; /* [n_jump] */
  /* Pulses at times of par. */
  atvi_idx n_moving;
  const atvi_ode_moving *moving; /* [n_moving] */
  /* Pulses that act when a condition becomes true, which is when its g becomes positive; g may be 0 either
   * way. One that holds at the start does not act then. */
  struct {
    atvi_idx n;
    atvi_prog prog, vjp;
    const atvi_idx *pulse; /* [n] which pulse each of them is */
  } roots;
  /* Delayed states: table value n_tab + n_jump + d, in rhs, vjp and jac alone. Not with MAP; with RK4 no lag
   * of par. Every solve is then one with tape. */
  atvi_idx n_delay;
  const atvi_ode_delay *delay; /* [n_delay] */
  /* in: t, y, par, tab  out: anything; for atvi_ode_walk alone, and may be missing */
  atvi_prog path;
  const atvi_ode_tangents *tangents; /* NULL: none are asked for */
  atvi_idx n_output;
  /* STIFF, two stops, no moving pulses or roots: integrates until nothing changes any more, with t and tab as
   * at the start, to the only output. Lanes that do not come to rest have the outcome ATVI_RUN_STEADY. See
   * steady.c. */
  bool steady;
  struct {
    double tol_rel;     /* RK45, STIFF; asks the same accuracy of both, see ode.c */
    double tol_abs;     /* in units of each state's own size of late; see control_isa.c */
    double h;           /* RK4, MAP */
    atvi_idx max_steps; /* accepted and rejected, per lane; every time that a root acts allows some more */
    bool
        foresees; /* RK45, STIFF: a lane also fails, earlier, if its steps say that it will exceed max_steps */
  } control;
} atvi_ode; /* borrowed: everything it points to outlives its use */

typedef struct atvi_ode_work atvi_ode_work; /* scratch and tape of one thread; grows as needed */

/* For use with this problem, and with those that differ from it in nothing but stops and moving (most).
 * Errors: EINVAL (sizes, stops not ascending or, for MAP, not a whole number of steps from the start, a
 * program missing, tolerances or h out of range), ENOMEM. */
ATVI_CHECKED atvi_status atvi_ode_work_new(atvi_ctx *ctx, const atvi_ode *ode, atvi_ode_work **out);
void atvi_ode_work_free(atvi_ode_work *w); /* NULL is fine */

/* All arrays below are aligned to ATVI_ALIGN.
 * Integrates from y0[n][L] with par[n_par][L]; states at outputs go to yout[n_output][n][L]. tape: remember
 * the steps for adjoint or tangent. outcome[L] is set for every lane; failed lanes have unspecified yout.
 * A tape that cannot grow fails its lanes with ATVI_RUN_STEPS. */
void atvi_ode_solve(const atvi_ode *ode, atvi_ode_work *w, const double *y0, const double *par, double *yout,
                    bool tape, atvi_outcome *outcome);

/* Adjoint of the last solve with tape: given ybar[n_output][n][L] = d ell / d yout, stores y0bar[n][L] and
 * adds to parbar[n_par][L]. Lanes that failed yield unspecified numbers in their own lane only. */
void atvi_ode_adjoint(const atvi_ode *ode, atvi_ode_work *w, const double *par, const double *ybar,
                      double *y0bar, double *parbar);

/* Forward mode along the last solve with tape: from directions y0dot[n][L] and pardot[n_par][L], one in each
 * lane, to the derivatives youtdot[n_output][n][L] of the same accepted steps that the adjoint goes back
 * over. For any ybar, sum ybar youtdot is the derivative that the adjoint gives, up to rounding; only tests
 * ask. Lanes that failed yield unspecified numbers in their own lane only. */
void atvi_ode_tangent(const atvi_ode *ode, atvi_ode_work *w, const double *par, const double *y0dot,
                      const double *pardot, double *youtdot);

/* The path of the last solve with tape: a step of the lanes in mask, each from t to t + h. Before the first
 * there may be a piece with h = 0, the state before pulses at the start. */
typedef struct {
  _Alignas(ATVI_ALIGN) double t[ATVI_LANES], h[ATVI_LANES];
  unsigned mask;
  const atvi_ode *ode;
  atvi_ode_work *work;
  const struct atvi_ode_record *record;
} atvi_ode_piece;
void atvi_ode_walk(const atvi_ode *ode, atvi_ode_work *w, const double *par,
                   void (*fn)(void *user, const atvi_ode_piece *piece), void *user);
/* Inside fn: out of ode->path at t + q h, 0 <= q <= 1. */
void atvi_ode_piece_eval(const atvi_ode_piece *piece, const double q[ATVI_LANES], double *out);

/* Steps of the last solve, per lane. */
typedef struct {
  atvi_idx accepted, rejected;
} atvi_ode_count;
void atvi_ode_counts(const atvi_ode_work *w, atvi_ode_count count[ATVI_LANES]);

/* Work of the last solve of an adaptive method, for all lanes together. */
typedef struct {
  /* steps tried, evaluations of the right-hand side, Jacobians with their factors */
  atvi_idx steps, rhs, factors;
} atvi_ode_effort;
atvi_ode_effort atvi_ode_effort_of(const atvi_ode_work *w);

#endif
