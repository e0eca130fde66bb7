/* SPDX-License-Identifier: MIT */
/* The scratch object: checks of the problem, layout, choice of kernels, tape. */
#include "ode/work.h"
#include <math.h>
#include <string.h>

#ifdef ATVI_HAVE_X86_ISA
#define PICK_ALL                                                                                             \
  { KERNELS(base), KERNELS(avx2), KERNELS(avx512) }
#else
#define PICK_ALL                                                                                             \
  { KERNELS(base) }
#endif
#define KERNELS(isa)                                                                                         \
  {                                                                                                          \
    .propose = atvi_ode_propose_##isa, .judge = atvi_ode_judge_##isa, .commit = atvi_ode_commit_##isa,       \
    .pass = atvi_ode_pass_##isa, .refresh = atvi_ode_refresh_##isa, .meet = atvi_ode_meet_##isa,             \
    .put = atvi_ode_put_##isa, .first_step = atvi_ode_first_step_##isa, .tsit5 = atvi_ode_tsit5_try_##isa,   \
    .rk4 = atvi_ode_rk4_step_##isa, .esdirk = atvi_ode_esdirk_try_##isa,                                     \
    .explicit_adjoint = atvi_ode_explicit_adjoint_##isa, .esdirk_adjoint = atvi_ode_esdirk_adjoint_##isa,    \
    .factor = atvi_ode_factor_##isa, .lu = atvi_ode_lu_##isa, .lu_solve = atvi_ode_lu_solve_##isa,           \
    .lu_solve_t = atvi_ode_lu_solve_t_##isa                                                                  \
  }
static const atvi_ode_kernels kernels[] = PICK_ALL; /* in the order of atvi_isa */

/* First step in units of 1 / rate; tried on the problems of tests and bench: about the first accepted step. */
static const double FIRST_EXPLICIT = 5.0, FIRST_STIFF = 1.0;
/* At one tolerance ESDIRK 4(3) leaves an error about ten times that of Tsit5 (log likelihoods of
 * Lotka-Volterra, van der Pol, SIR, two compartments and an infection near its separatrix, tolerances 1e-3 to
 * 1e-8), so it is asked for a tenth. */
static const double STIFF_TOL = 0.1;
/* What remains of the former size of a state that has died out, after another step. With 1, explicit steps
 * that stability limits leave such a state at the noise of its former size, and its derivatives by parameters
 * grow without bound; L-stable steps damp both. 0.9 costs 1 to 2 % of the steps of the cold, epidemics and
 * rotavirus, 0.8 twice that. */
static const double FADE = 0.9;
static const double GRID_TOL =
    1e-9; /* of a step: stops of difference equations are on the grid up to rounding */

/* More than any max_steps; sums of as many as there are stops do not overflow. */
static const double STEPS_MOST = 1e15;

/* Explicit steps keep their stages for the adjoint up to here (measured: 25 states, 400 steps, 11 % less per
 * gradient); many states over many stops would fill memory, and are computed again. */
enum { KEEP_STATES = 32, KEEP_STATES_STOPS = 1 << 16 };

/* Memory: of a tape, 64 MiB, 7 500 steps of 22 states. Longer runs go on without it, and begin anew if they
 * arrive. */
static const double TAPE_BYTES = 1 << 26;

static bool adaptive(const atvi_ode *o) { return o->method == ATVI_ODE_RK45 || o->method == ATVI_ODE_STIFF; }

static atvi_status check_stops(atvi_ctx *ctx, const atvi_ode *o) {
  for (atvi_idx s = 0; s < o->n_stop; s++) {
    const atvi_ode_stop *p = &o->stop[s];
    if (!isfinite(p->t)) return ATVI_FAIL(ctx, ATVI_EINVAL, "ode: stop %td is at t = %g", s, p->t);
    if (s && !(p->t > p[-1].t))
      return ATVI_FAIL(ctx, ATVI_EINVAL, "ode: stops not ascending: t = %g after t = %g", p->t, p[-1].t);
    if (p->output < -1 || p->output >= o->n_output)
      return ATVI_FAIL(ctx, ATVI_EINVAL, "ode: output %td of %td at t = %g", p->output, o->n_output, p->t);
    if (p->pulse < -1 || p->pulse >= o->pulses.n || (p->pulse >= 0 && !o->pulses.prog[p->pulse].fn))
      return ATVI_FAIL(ctx, ATVI_EINVAL, "ode: pulse %td of %td at t = %g", p->pulse, o->pulses.n, p->t);
    if (o->n_tab > 0 && !p->tab) return ATVI_FAIL(ctx, ATVI_EINVAL, "ode: no table values at t = %g", p->t);
    double steps = o->method == ATVI_ODE_MAP ? (p->t - o->stop[0].t) / o->control.h : 0;
    if (fabs(steps - round(steps)) > GRID_TOL * fmax(1, steps))
      return ATVI_FAIL(ctx, ATVI_EINVAL, "ode: t = %.10g is not a whole number of steps of %.10g after %.10g",
                       p->t, o->control.h, o->stop[0].t);
  }
  return ATVI_OK;
}

static atvi_status check_events(atvi_ctx *ctx, const atvi_ode *o) {
  if (o->n_moving < 0 || o->roots.n < 0 || o->roots.n > ATVI_ODE_ROOTS ||
      (!adaptive(o) && o->n_moving + o->roots.n > 0))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "ode: %td moving pulses and %td roots with method %d", o->n_moving,
                     o->roots.n, (int)o->method);
  if (o->steady && (o->method != ATVI_ODE_STIFF || o->n_stop != 2 || o->n_moving + o->roots.n > 0))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "ode: steady with method %d, %td stops and %td events", (int)o->method,
                     o->n_stop, o->n_moving + o->roots.n);
  if (o->n_delay && (o->method == ATVI_ODE_MAP || o->steady))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "ode: delays with method %d", (int)o->method);
  for (atvi_idx d = 0; d < o->n_delay; d++)
    if (o->delay[d].state < 0 || o->delay[d].state >= o->n || o->delay[d].par < -1 ||
        o->delay[d].par >= o->n_par || (o->method == ATVI_ODE_RK4 && o->delay[d].par >= 0))
      return ATVI_FAIL(ctx, ATVI_EINVAL, "ode: delay %td is of state %td, by parameter %td", d,
                       o->delay[d].state, o->delay[d].par);
  if (o->roots.n && (!o->roots.prog.fn || (o->vjp.fn && !o->roots.vjp.fn)))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "ode: no root programs");
  for (atvi_idx i = 0; i < o->n_moving + o->roots.n; i++) {
    bool root = i >= o->n_moving;
    atvi_idx pulse = root ? o->roots.pulse[i - o->n_moving] : o->moving[i].pulse;
    if (pulse < (root ? 0 : -1) || pulse >= o->pulses.n || (pulse >= 0 && !o->pulses.prog[pulse].fn) ||
        (!root && (o->moving[i].par < 0 || o->moving[i].par >= o->n_par)))
      return ATVI_FAIL(ctx, ATVI_EINVAL, "ode: event %td has pulse %td of %td", i, pulse, o->pulses.n);
  }
  return ATVI_OK;
}

static atvi_status check(atvi_ctx *ctx, const atvi_ode *o) {
  if (o->n < 1 || o->n_par < 0 || o->n_tab < 0 || o->pulses.n < 0 || o->n_output < 0)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "ode: %td states, %td parameters, %td table values", o->n, o->n_par,
                     o->n_tab);
  if (o->n_stop < 1 || o->n_stop > INT32_MAX || !o->stop)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "ode: %td stops, want at least the start", o->n_stop);
  if (!o->rhs.fn) return ATVI_FAIL(ctx, ATVI_EINVAL, "ode: no right-hand side");
  if (o->pulses.n > 0 && (!o->pulses.prog || (o->vjp.fn && !o->pulses.vjp)))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "ode: no pulse programs");
  if (o->method < ATVI_ODE_RK45 || o->method > ATVI_ODE_MAP)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "ode: method %d", (int)o->method);
  if (o->method == ATVI_ODE_STIFF && !o->jac.fn)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "ode: stiff without Jacobian");
  if (adaptive(o) && !(o->control.tol_rel > 0 && o->control.tol_rel < 1 && o->control.tol_abs >= 0 &&
                       o->control.tol_abs < 1))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "ode: tolerances %g and %g, want in (0, 1)", o->control.tol_rel,
                     o->control.tol_abs);
  if (!adaptive(o) && !(o->control.h > 0 && isfinite(o->control.h)))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "ode: h = %g, want > 0", o->control.h);
  ATVI_TRY(check_events(ctx, o));
  for (atvi_idx j = 0; j < o->n_jump; j++)
    if (!adaptive(o) || o->n_jump > ATVI_ODE_JUMPS || o->jump[j] < 0 || o->jump[j] >= o->n_par)
      return ATVI_FAIL(ctx, ATVI_EINVAL, "ode: jump %td of %td is parameter %td", j, o->n_jump, o->jump[j]);
  if (o->control.max_steps < 1)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "ode: max_steps = %td, want >= 1", o->control.max_steps);
  return check_stops(ctx, o);
}

static bool moves(const atvi_ode *o) { return o->n_jump + o->n_moving + o->most.moving + o->roots.n > 0; }

static size_t scratch_size(const atvi_ode *o) {
  size_t most = o->rhs.scratch;
  if (o->vjp.scratch > most) most = o->vjp.scratch;
  if (o->jac.scratch > most) most = o->jac.scratch;
  if (o->roots.prog.scratch > most) most = o->roots.prog.scratch;
  if (o->path.scratch > most) most = o->path.scratch;
  if (o->roots.vjp.scratch > most) most = o->roots.vjp.scratch;
  for (atvi_idx i = 0; i < o->pulses.n; i++) {
    if (o->pulses.prog[i].scratch > most) most = o->pulses.prog[i].scratch;
    if (o->pulses.vjp && o->pulses.vjp[i].scratch > most) most = o->pulses.vjp[i].scratch;
  }
  const atvi_ode_tangents *t = o->tangents;
  if (t && t->rhs.scratch > most) most = t->rhs.scratch;
  if (t && t->root.scratch > most) most = t->root.scratch;
  for (atvi_idx i = 0; t && i < o->pulses.n; i++)
    if (t->pulse[i].scratch > most) most = t->pulse[i].scratch;
  return most;
}

static atvi_idx most_stops(const atvi_ode *o) {
  return o->most.stops > o->n_stop ? o->most.stops : o->n_stop;
}

static atvi_idx most_moving(const atvi_ode *o) {
  return o->most.moving > o->n_moving ? o->most.moving : o->n_moving;
}

/* Lays the object out. Runs twice: a->base == NULL measures, else it places. */
static atvi_ode_work *carve(atvi_arena *a, const atvi_ode *o) {
  atvi_ode_work *w, head = {0};
  const atvi_idx size = o->n * ATVI_LANES;
  ATVI_TAKE(a, w, 1);
  ATVI_TAKE(a, head.y, size);
  ATVI_TAKE(a, head.trial.ynew, size);
  ATVI_TAKE(a, head.trial.scale, size);
  ATVI_TAKE(a, head.trial.err, size);
  ATVI_TAKE(a, head.prog.zero, size);
  ATVI_TAKE(a, head.trial.k, ATVI_ODE_STAGES * size);
  ATVI_TAKE(a, head.trial.stages, ATVI_ODE_STAGES * size);
  ATVI_TAKE(a, head.back.lam, size);
  ATVI_TAKE(a, head.prog.tab, (o->n_tab + o->n_jump + o->n_delay + 1) * ATVI_LANES);
  ATVI_TAKE(a, head.back.save, (o->n_par > 0 ? o->n_par : 1) * ATVI_LANES);
  ATVI_TAKE(a, head.prog.scratch, scratch_size(o));
  ATVI_TAKE(a, head.instants.fresh, most_stops(o));
  if (o->n_delay) {
    ATVI_TAKE(a, head.delay.past, size);
    ATVI_TAKE(a, head.delay.past_bar, size);
    ATVI_TAKE(a, head.delay.past_dot, size);
    ATVI_TAKE(a, head.delay.dbar, o->n_delay * ATVI_LANES);
    ATVI_TAKE(a, head.delay.hint, o->n_delay * ATVI_LANES);
  }
  if (moves(o) || o->path.fn || o->n_delay) {
    ATVI_TAKE(a, head.back.kk, 7 * size);
    ATVI_TAKE(a, head.back.yend, size);
    ATVI_TAKE(a, head.roots.mid, size);
  }
  if (moves(o)) {
    ATVI_TAKE(a, head.instants.done, most_moving(o) + 1);
    ATVI_TAKE(a, head.roots.g, (o->roots.n + 1) * ATVI_LANES);
    ATVI_TAKE(a, head.roots.gtry, (o->roots.n + 1) * ATVI_LANES);
    ATVI_TAKE(a, head.roots.holds, (o->roots.n + 1) * ATVI_LANES);
    ATVI_TAKE(a, head.back.lam2, size);
    ATVI_TAKE(a, head.back.par2, (o->n_par + 1) * ATVI_LANES);
  }
  if (o->tangents) {
    double **each[] = {&head.dual.ydot,      &head.dual.yend,  &head.dual.yend_dot, &head.dual.stage,
                       &head.dual.stage_dot, &head.dual.right, &head.dual.off,      &head.dual.unused};
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) ATVI_TAKE(a, *each[i], size);
    ATVI_TAKE(a, head.dual.k, 7 * size);
    ATVI_TAKE(a, head.dual.kdot, 7 * size);
    ATVI_TAKE(a, head.dual.tab, (o->n_tab + o->n_jump + o->n_delay + 1) * ATVI_LANES);
    ATVI_TAKE(a, head.dual.g, 4 * (o->roots.n + 1) * ATVI_LANES);
  }
  if (o->steady) ATVI_TAKE(a, head.rest.y, size);
  if (o->method == ATVI_ODE_STIFF) {
    ATVI_TAKE(a, head.linear.lu, o->n * size);
    ATVI_TAKE(a, head.linear.lu2, o->n * size);
    ATVI_TAKE(a, head.linear.piv, size);
    ATVI_TAKE(a, head.linear.piv2, size);
    ATVI_TAKE(a, head.linear.jac, (o->shape ? o->shape->n_entry + 1 : o->n * o->n) * ATVI_LANES);
    ATVI_TAKE(a, head.linear.tables, 2 * o->n + o->n * o->n);
  }
  if (w) *w = head;
  return w;
}

const atvi_ode_kernels *atvi_ode_kernels_of(atvi_isa isa) { return &kernels[isa]; }

/* Every entry may differ from 0. */
static void fill_dense(atvi_ode_work *w) {
  const atvi_idx n = w->n;
  int32_t *order = w->linear.tables, *last = order + n, *at = last + n;
  for (atvi_idx i = 0; i < n; i++) order[i] = (int32_t)i, last[i] = (int32_t)(n - 1);
  for (atvi_idx i = 0; i < n * n; i++) at[i] = (int32_t)i;
  w->linear.dense = (atvi_ode_shape){.n_entry = n * n, .at = at, .order = order, .low = last, .right = last};
}

static void fill(atvi_ode_work *w, const atvi_ode *o) {
  const bool stiff = o->method == ATVI_ODE_STIFF;
  w->kern = atvi_ode_kernels_of(atvi_isa_best());
  w->n = o->n;
  w->prog.n_par = o->n_par;
  w->prog.n_tab = o->n_tab;
  w->instants.any = moves(o);
  w->delay.n = o->n_delay;
  w->control.tol_rel = stiff ? STIFF_TOL * o->control.tol_rel : o->control.tol_rel;
  w->control.tol_abs = stiff ? STIFF_TOL * o->control.tol_abs : o->control.tol_abs;
  w->control.root = stiff ? 8 : 10;
  w->control.fade = stiff ? 1 : FADE;
  if (adaptive(o))
    w->control.first =
        stiff ? FIRST_STIFF * pow(w->control.tol_rel, 0.25) : FIRST_EXPLICIT * pow(o->control.tol_rel, 0.2);
  w->tape.keeps =
      stiff || o->n_delay ||
      (o->method == ATVI_ODE_RK45 && o->n <= KEEP_STATES && o->n * most_stops(o) <= KEEP_STATES_STOPS);
  w->tape.stride =
      sizeof(atvi_ode_record) + (size_t)(w->tape.keeps ? 6 : 1) * (size_t)o->n * ATVI_LANES * sizeof(double);
  if (o->n_delay) w->tape.stride += atvi_ode_delay_room(o->n) * sizeof(double);
  w->tape.most = (atvi_idx)(TAPE_BYTES / w->tape.stride);
  for (int l = 0; l < ATVI_LANES; l++) w->prog.one[l] = 1;
  if (o->steady) w->prog.frozen = w->prog.start;
  if (stiff) fill_dense(w);
  w->linear.shape = o->shape ? o->shape : &w->linear.dense;
  const atvi_ode_tableau *tb = stiff                       ? &atvi_ode_esdirk4
                               : o->method == ATVI_ODE_RK4 ? &atvi_ode_rk4
                                                           : &atvi_ode_tsit5;
  for (int i = 0; i < tb->stages; i++)
    for (int j = tb->stages, m = 0; j > i; j--) w->back.rev[i][m++] = tb->a[j][i];
  if (stiff) /* no row of weights: the last stage is the new state */
    for (int i = 0; i < tb->stages; i++)
      for (int j = tb->stages - 1, m = 0; j > i; j--) w->back.rev[i][m++] = tb->a[j][i];
  atvi_ode_aim(o, w);
}

void atvi_ode_aim(const atvi_ode *o, atvi_ode_work *w) {
  if (w->instants.stop == o->stop) return;
  w->instants.stop = o->stop;
  w->control.span = o->steady ? 0 : o->stop[o->n_stop - 1].t - o->stop[0].t;
  for (int l = 0; l < ATVI_LANES; l++) w->prog.start[l] = o->stop[0].t;
  for (atvi_idx s = 0; s < o->n_stop; s++) {
    const atvi_ode_stop *p = &o->stop[s];
    size_t bytes = (size_t)o->n_tab * sizeof(double);
    w->instants.fresh[s] =
        p->pulse >= 0 || o->n_delay > 0 || (s > 0 && bytes && memcmp(p->tab, p[-1].tab, bytes) != 0);
  }
}

atvi_status atvi_ode_work_new(atvi_ctx *ctx, const atvi_ode *ode, atvi_ode_work **out) {
  *out = NULL;
  ATVI_TRY(check(ctx, ode));
  atvi_arena a = {0};
  carve(&a, ode);
  a = (atvi_arena){.base = atvi_block(ctx, a.used)};
  if (!a.base) return ATVI_ENOMEM;
  atvi_ode_work *w = carve(&a, ode);
  w->ctx = ctx;
  w->trial.ys = w->trial.stages;
  fill(w, ode);
  *out = w;
  return ATVI_OK;
}

void atvi_ode_work_free(atvi_ode_work *w) {
  if (!w) return;
  atvi_block_free(w->ctx, w->tape.bytes);
  atvi_block_free(w->ctx, w->echoes.of);
  atvi_block_free(w->ctx, w);
}

atvi_ode_record *atvi_ode_tape_next(atvi_ode_work *w) {
  if (w->tape.n == w->tape.cap) {
    atvi_idx cap = w->tape.cap ? 2 * w->tape.cap : 64;
    if ((size_t)cap > SIZE_MAX / 2 / w->tape.stride) return NULL;
    char *more = atvi_block(w->ctx, (size_t)cap * w->tape.stride);
    if (!more) return NULL;
    if (w->tape.n) memcpy(more, w->tape.bytes, (size_t)w->tape.n * w->tape.stride);
    atvi_block_free(w->ctx, w->tape.bytes);
    w->tape.bytes = more;
    w->tape.cap = cap;
  }
  return atvi_ode_record_at(w, w->tape.n);
}

void atvi_ode_set_tab(const atvi_ode *ode, atvi_ode_work *w, int l, atvi_idx seg) {
  const double *tab = ode->stop[seg].tab;
  if (w->prog.tab_of[l] == tab) return;
  w->prog.tab_of[l] = tab;
  for (atvi_idx i = 0; i < w->prog.n_tab; i++) w->prog.tab[i * ATVI_LANES + l] = tab[i];
}

void atvi_ode_set_moving(const atvi_ode *ode, atvi_ode_work *w, atvi_idx k, unsigned mask) {
  const atvi_ode_moving *p = &ode->moving[k];
  for (int l = 0; p->tab && l < ATVI_LANES; l++) {
    if (!(mask >> l & 1)) continue;
    w->prog.tab_of[l] = NULL;
    for (atvi_idx i = p->tab_from; i < w->prog.n_tab; i++)
      w->prog.tab[i * ATVI_LANES + l] = p->tab[i - p->tab_from];
  }
}

void atvi_ode_set_passed(const atvi_ode *ode, atvi_ode_work *w, int l, uint32_t passed) {
  for (atvi_idx j = 0; j < ode->n_jump; j++)
    w->prog.tab[(w->prog.n_tab + j) * ATVI_LANES + l] = passed >> j & 1;
}

atvi_idx atvi_ode_substeps(const atvi_ode *ode, atvi_idx s) {
  double h = ode->control.h;
  for (atvi_idx d = 0; d < ode->n_delay; d++) h = fmin(h, ode->delay[d].lag); /* what is delayed is done */
  double steps = (ode->stop[s + 1].t - ode->stop[s].t) / h;
  bool map = ode->method == ATVI_ODE_MAP;
  double whole = map ? round(steps) : fmax(1, ceil(steps * (1 - GRID_TOL)));
  return whole < STEPS_MOST ? (atvi_idx)whole : (atvi_idx)STEPS_MOST; /* infinite ones too */
}

void atvi_ode_counts(const atvi_ode_work *w, atvi_ode_count count[ATVI_LANES]) {
  for (int l = 0; l < ATVI_LANES; l++)
    count[l] = (atvi_ode_count){.accepted = (atvi_idx)w->count.accepted[l],
                                .rejected = (atvi_idx)w->count.rejected[l]};
}

atvi_ode_effort atvi_ode_effort_of(const atvi_ode_work *w) { return w->count.effort; }

/* Coefficients of the Runge-Kutta methods; tests verify their order conditions. */

/* Tsitouras, Runge-Kutta pairs of order 5(4) satisfying only the first column simplifying assumption,
 * Computers & Mathematics with Applications 62 (2011) 770-775, Table 1. The last row is the new state, whose
 * slope serves the error estimate and the next step. */
const atvi_ode_tableau atvi_ode_tsit5 = {
    .stages = 6,
    .weights = 7,
    .c = {0, 0.161, 0.327, 0.9, 0.9800255409045097, 1, 1},
    .a = {{0},
          {0.161},
          {-0.008480655492356989, 0.335480655492357},
          {2.8971530571054935, -6.359448489975075, 4.3622954328695815},
          {5.325864828439257, -11.748883564062828, 7.4955393428898365, -0.09249506636175525},
          {5.86145544294642, -12.92096931784711, 8.159367898576159, -0.071584973281401,
           -0.028269050394068383},
          {0.09646076681806523, 0.01, 0.4798896504144996, 1.379008574103742, -3.290069515436081,
           2.324710524099774}},
    .e = {-0.00178001105222577714, -0.0008164344596567469, 0.007880878010261995, -0.1447110071732629,
          0.5823571654525552, -0.45808210592918697, 1.0 / 66},
};

const atvi_ode_tableau atvi_ode_rk4 = {
    .stages = 4,
    .c = {0, 0.5, 0.5, 1, 1},
    .a = {{0}, {0.5}, {0, 0.5}, {0, 0, 1}, {1.0 / 6, 1.0 / 3, 1.0 / 3, 1.0 / 6}},
};

/* ESDIRK4(3)6L[2]SA: Kennedy & Carpenter, Additive Runge-Kutta schemes for convection-diffusion-reaction
 * equations, Applied Numerical Mathematics 44 (2003) 139-181, Appendix C. Stiffly accurate, L-stable. */
const atvi_ode_tableau atvi_ode_esdirk4 = {
    .stages = 6,
    .weights = 6,
    .c = {0, 0.5, 83.0 / 250, 31.0 / 50, 17.0 / 20, 1},
    .a = {{0},
          {0.25, 0.25},
          {8611.0 / 62500, -1743.0 / 31250, 0.25},
          {5012029.0 / 34652500, -654441.0 / 2922500, 174375.0 / 388108, 0.25},
          {15267082809.0 / 155376265600, -71443401.0 / 120774400, 730878875.0 / 902184768,
           2285395.0 / 8070912, 0.25},
          {82889.0 / 524892, 0, 15625.0 / 83664, 69875.0 / 102672, -2260.0 / 8211, 0.25}},
    .e = {82889.0 / 524892 - 4586570599.0 / 29645900160, 0, 15625.0 / 83664 - 178811875.0 / 945068544,
          69875.0 / 102672 - 814220225.0 / 1159782912, -2260.0 / 8211 + 3700637.0 / 11593932,
          0.25 - 61727.0 / 225920},
};
