/* SPDX-License-Identifier: MIT */
/* Forward mode: tangents along the tape, from the first record to the last.
 *
 * Values are those of the tape, so that these are derivatives of the very steps that the adjoint goes back
 * over, in the other order and from other programs: tangents instead of vjps. Nothing is shared that both
 * could have wrong but the tape and the tableaus.
 *
 * Step       Y_i = y + h sum_{j<i} a_ij k_j,  k_i = f(t + c_i h, Y_i), and with a dot for tangents
 *              Y_i' = y' + sum_{j<i} a_ij (h k_j' + h' k_j),   k_i' = df/dy Y_i' + df/dp p' + df/dt ((1 - c_i) t' + c_i t_end').
 * Implicit   with the diagonal g, (I - h g J) k_i' = f'(Y_i' without k_i'). The Jacobian's program, made by reverse mode, only helps: J k' in the residual is
 *            a tangent, and the solution is corrected until that is 0. With a wrong Jacobian there is a right solution or none (NaN).
 * Times      of both ends move as events.c says. A root's follows from g' = 0, which is linear in t_end'. */
#include "ode/work.h"
#include <math.h>
#include <string.h>

static const double ROUNDING = 1e-15; /* a correction that is so small, relative to the solution, is one */
static const double LOST = 1e-6;      /* and if the last is larger, the matrix is singular up to rounding */
enum { CORRECTIONS = 30 };

static bool in(unsigned mask, int l) { return mask >> l & 1; }

/* A step and how its beginning moves. */
typedef struct {
  const atvi_ode *ode;
  atvi_ode_work *w;
  const atvi_ode_record *r;
  const double *ydot;                        /* [n][L] */
  const double *pardot;                      /* NULL: the past and the parameters stay as they are */
  double start[ATVI_LANES], end[ATVI_LANES]; /* tangents of its times */
} step;

/* The slope at (t, y) and its tangent. */
static void slope(const step *s, const double *t, const double *tdot, const double *y, const double *ydot,
                  double *f, double *fdot) {
  atvi_ode_work *w = s->w;
  if (w->delay.n) {
    atvi_ode_delay_fill(s->ode, w, t);
    atvi_ode_delay_tangent(s->ode, w, t, tdot, s->pardot, w->dual.tab);
  }
  const double *const ins[] = {w->prog.frozen ? w->prog.frozen : t, y,    w->prog.par, w->prog.tab,
                               w->prog.frozen ? NULL : tdot,        ydot, s->pardot,   w->dual.tab};
  atvi_graph_prog_run(&s->ode->tangents->rhs, w->prog.scratch, ins, (double *const[]){f, fdot});
}

/* Stage i from the slopes before it, as far as it is explicit: value and tangent. */
static void combine(const step *s, const double *a, int i, double *y, double *ydot) {
  const atvi_ode_work *w = s->w;
  const atvi_idx size = w->n * ATVI_LANES;
  const double *from = atvi_ode_record_y(s->r), *k = w->dual.k, *kdot = w->dual.kdot;
  for (atvi_idx q = 0; q < size; q++) {
    const int l = (int)(q % ATVI_LANES);
    double sum = 0, dot = 0;
    for (int j = 0; j < i; j++)
      if (a[j] != 0) sum += a[j] * k[j * size + q], dot += a[j] * kdot[j * size + q];
    y[q] = from[q] + s->r->h[l] * sum;
    ydot[q] = s->ydot[q] + s->r->h[l] * dot + (s->end[l] - s->start[l]) * sum;
  }
}

static void stage_time(const step *s, double c, double *t, double *tdot) {
  for (int l = 0; l < ATVI_LANES; l++) {
    t[l] = c == 1 ? s->r->tnew[l] : s->r->t[l] + c * s->r->h[l];
    tdot[l] = (1 - c) * s->start[l] + c * s->end[l];
  }
}

static void explicit_step(const step *s, const atvi_ode_tableau *tb) {
  const atvi_ode_work *w = s->w;
  const atvi_idx size = w->n * ATVI_LANES;
  _Alignas(ATVI_ALIGN) double t[ATVI_LANES], tdot[ATVI_LANES];
  for (int i = 0; i < tb->stages; i++) {
    combine(s, tb->a[i], i, w->dual.stage, w->dual.stage_dot);
    stage_time(s, tb->c[i], t, tdot);
    if (w->tape.keeps) /* the very numbers, where they are there */
      memcpy(w->dual.stage, atvi_ode_record_y(s->r) + i * size, (size_t)size * sizeof *w->dual.stage);
    slope(s, t, tdot, w->dual.stage, w->dual.stage_dot, w->dual.k + i * size, w->dual.kdot + i * size);
  }
  combine(s, tb->a[tb->stages], tb->stages, w->dual.yend, w->dual.yend_dot);
  if (!w->delay.n) return;
  stage_time(s, 1, t, tdot); /* between its ends the step needs the slope at the second */
  slope(s, t, tdot, w->dual.yend, w->dual.yend_dot, w->dual.k + 6 * size, w->dual.kdot + 6 * size);
}

/* x[n][L] with (I - hg J) x = b, J at (t, y); factors of this matrix as the Jacobian's program has it are in
 * w->linear. */
static void solve(const step *s, const double *t, const double *y, const double *hg, const double *b,
                  double *x) {
  atvi_ode_work *w = s->w;
  const atvi_idx size = w->n * ATVI_LANES;
  const double *const ins[] = {
      w->prog.frozen ? w->prog.frozen : t, y, w->prog.par, w->prog.tab, NULL, x, NULL, NULL};
  double *off = w->dual.off, *f = w->dual.unused;
  double more[ATVI_LANES], most[ATVI_LANES];
  memset(x, 0, (size_t)size * sizeof *x);
  for (int it = 0; it < CORRECTIONS; it++) {
    for (int l = 0; l < ATVI_LANES; l++) more[l] = most[l] = 0;
    atvi_graph_prog_run(&s->ode->tangents->rhs, w->prog.scratch, ins, (double *const[]){f, off});
    for (atvi_idx q = 0; q < size; q++) off[q] = b[q] - (x[q] - hg[q % ATVI_LANES] * off[q]);
    w->kern->lu_solve(w->linear.shape, w->n, w->linear.lu, w->linear.piv, off);
    for (atvi_idx q = 0; q < size; q++) {
      const int l = (int)(q % ATVI_LANES);
      x[q] += off[q];
      more[l] = fmax(more[l], fabs(off[q]));
      most[l] = fmax(most[l], fabs(x[q]));
    }
    bool done = it > 0;
    for (int l = 0; l < ATVI_LANES; l++) done = done && !(in(s->r->mask, l) && more[l] > ROUNDING * most[l]);
    if (done) return;
  }
  for (atvi_idx q = 0; q < size; q++)
    if (!(more[q % ATVI_LANES] <= LOST * most[q % ATVI_LANES])) x[q] = NAN;
}

static void implicit_step(const step *s) {
  const atvi_ode_tableau *tb = &atvi_ode_esdirk4;
  atvi_ode_work *w = s->w;
  const atvi_idx size = w->n * ATVI_LANES;
  const double *tape = atvi_ode_record_y(s->r);
  _Alignas(ATVI_ALIGN) double t[ATVI_LANES], tdot[ATVI_LANES], hg[ATVI_LANES];
  double *k = w->dual.k, *kdot = w->dual.kdot, *dot = w->dual.stage_dot;
  slope(s, s->r->t, s->start, tape, s->ydot, k, kdot);
  for (int i = 1; i < tb->stages; i++) {
    const double g = tb->a[i][i], *y = tape + i * size;
    for (int l = 0; l < ATVI_LANES; l++) hg[l] = s->r->h[l] * g;
    combine(s, tb->a[i], i, w->dual.stage, dot);
    stage_time(s, tb->c[i], t, tdot);
    for (atvi_idx q = 0; q < size; q++) { /* the slope comes from the stage, as in the step */
      const int l = (int)(q % ATVI_LANES);
      k[i * size + q] = (y[q] - w->dual.stage[q]) / hg[l];
      dot[q] += (s->end[l] - s->start[l]) * g * k[i * size + q];
    }
    slope(s, t, tdot, y, dot, w->dual.unused, w->dual.right);
    w->kern->factor(s->ode, w, t, y, s->r->h, w->linear.lu, w->linear.piv);
    solve(s, t, y, hg, w->dual.right, kdot + i * size);
    for (atvi_idx q = 0; q < size; q++) dot[q] += hg[q % ATVI_LANES] * kdot[i * size + q];
  }
  memcpy(w->dual.yend, tape + (tb->stages - 1) * size, (size_t)size * sizeof *tape);
  memcpy(w->dual.yend_dot, dot, (size_t)size * sizeof *dot);
}

/* The state at the end of the step and its tangent, to w->dual.yend and yend_dot. */
static void take_step(const step *s) {
  const atvi_ode_work *w = s->w;
  switch (s->ode->method) {
  case ATVI_ODE_RK45: explicit_step(s, &atvi_ode_tsit5); break;
  case ATVI_ODE_RK4: explicit_step(s, &atvi_ode_rk4); break;
  case ATVI_ODE_STIFF: implicit_step(s); break;
  case ATVI_ODE_MAP:
    slope(s, s->r->t, NULL, atvi_ode_record_y(s->r), s->ydot, w->dual.yend, w->dual.yend_dot);
    break;
  }
}

/* The tangents of the roots in which a step has ended, whose end's time has the tangent tdot. */
static void roots_at_end(const step *s, const double *tdot, const int32_t root[ATVI_LANES],
                         double out[ATVI_LANES]) {
  const atvi_ode_work *w = s->w;
  const atvi_idx size = (s->ode->roots.n + 1) * ATVI_LANES;
  double *g = w->dual.g;
  const double *const ins[] = {s->r->tnew, w->dual.yend,     w->prog.par, w->prog.tab,
                               tdot,       w->dual.yend_dot, s->pardot,   NULL};
  atvi_graph_prog_run(&s->ode->tangents->root, w->prog.scratch, ins,
                      (double *const[]){g, g + size, g + 2 * size, g + 3 * size});
  for (int l = 0; l < ATVI_LANES; l++) out[l] = root[l] >= 0 ? g[2 * size + root[l] * ATVI_LANES + l] : 0;
}

/* The end of a step at a root moves so that g stays 0. */
static void find_end(step *s, const int32_t root[ATVI_LANES]) {
  _Alignas(ATVI_ALIGN) static const double none[ATVI_LANES];
  double held[ATVI_LANES], moved[ATVI_LANES];
  take_step(s);
  roots_at_end(s, none, root, held);
  step alone = *s;
  alone.ydot = s->w->prog.zero;
  alone.pardot = NULL;
  for (int l = 0; l < ATVI_LANES; l++) alone.start[l] = 0, alone.end[l] = root[l] >= 0;
  take_step(&alone);
  roots_at_end(&alone, alone.end, root, moved);
  for (int l = 0; l < ATVI_LANES; l++)
    if (root[l] >= 0) s->end[l] = -held[l] / moved[l];
}

/* What moves the instant at the end of step i of lane l, and its number if it comes again; -1: nothing, none. */
typedef struct {
  int32_t mover, echo;
} instant;

static instant instant_after(const atvi_ode_work *w, atvi_idx i, int l) {
  instant at = {-1, -1};
  for (i++; i < w->tape.n; i++) {
    const atvi_ode_record *r = atvi_ode_record_at(w, i);
    if (!in(r->mask, l)) continue;
    if (r->mover[l] >= 0 && at.mover < 0) at.mover = r->mover[l];
    if (r->mover[l] >= 0 && at.echo < 0) at.echo = r->echo[l];
    if (r->pulse < 0) break; /* pulses at that instant, and the step that begins there */
  }
  return at;
}

/* Over step i; now[L]: tangents of the times of the instants at which lanes are. */
static void pass_step(step *s, atvi_idx i, double now[ATVI_LANES]) {
  atvi_ode_work *w = s->w;
  const atvi_ode_record *r = s->r;
  double then[ATVI_LANES] = {0};
  int32_t root[ATVI_LANES], echo[ATVI_LANES];
  unsigned tied = 0;
  bool any = false;
  for (int l = 0; l < ATVI_LANES; l++) {
    s->start[l] = r->mover[l] >= 0 ? now[l] : 0;
    s->end[l] = 0;
    root[l] = echo[l] = -1;
    if (!w->instants.any || !in(r->mask, l)) continue;
    const instant at = instant_after(w, i, l);
    echo[l] = at.echo;
    if (at.mover < 0) continue;
    root[l] = atvi_ode_root_of(s->ode, at.mover);
    any = any || root[l] >= 0;
    if (root[l] >= 0) continue;
    then[l] = atvi_ode_time_tangent(s->ode, w, at.mover, at.echo, s->pardot, l);
    if (in(r->landed, l)) /* the stop does not move */
      tied |= 1u << l;
    else
      s->end[l] = then[l];
  }
  if (any) find_end(s, root);
  take_step(s);
  if (w->delay.n) atvi_ode_delay_keep_tangent(w, r, s->ydot, s->start, s->end);
  for (int l = 0; l < ATVI_LANES; l++) {
    if (!in(r->mask, l)) continue;
    now[l] = root[l] >= 0 ? s->end[l] : then[l];
    if (echo[l] >= 0) w->echoes.of[echo[l]].dot = now[l];
  }
  for (atvi_idx q = 0; q < w->n * ATVI_LANES; q++)
    if (in(r->mask, (int)(q % ATVI_LANES))) w->dual.ydot[q] = w->dual.yend_dot[q];
  w->dual.tied = tied;
}

/* Outputs at the stops where lanes have landed; then, where an instant is tied to one, the state moves along
 * the solution. */
static void land(const step *s, const double now[ATVI_LANES], double *youtdot) {
  atvi_ode_work *w = s->w;
  const atvi_idx size = w->n * ATVI_LANES;
  for (int l = 0; l < ATVI_LANES; l++) {
    const atvi_idx o = in(s->r->landed, l) ? s->ode->stop[s->r->seg[l] + 1].output : -1;
    for (atvi_idx q = l; o >= 0 && q < size; q += ATVI_LANES) youtdot[o * size + q] = w->dual.ydot[q];
  }
  if (!w->dual.tied) return;
  atvi_ode_run(w, &s->ode->rhs, s->r->tnew, w->dual.yend, NULL, w->dual.unused, NULL);
  for (atvi_idx q = 0; q < size; q++) {
    const int l = (int)(q % ATVI_LANES);
    if (in(w->dual.tied, l)) w->dual.ydot[q] += w->dual.unused[q] * now[l];
  }
}

static void pass_pulse(const step *s, const double now[ATVI_LANES]) {
  atvi_ode_work *w = s->w;
  const atvi_ode_record *r = s->r;
  _Alignas(ATVI_ALIGN) double tdot[ATVI_LANES];
  for (int l = 0; l < ATVI_LANES; l++) tdot[l] = r->mover[l] >= 0 ? now[l] : 0;
  if (r->moving >= 0) atvi_ode_set_moving(s->ode, w, r->moving, r->mask);
  const double *const ins[] = {r->t, atvi_ode_record_y(r), w->prog.par, w->prog.tab,
                               tdot, w->dual.ydot,         s->pardot,   NULL};
  atvi_graph_prog_run(&s->ode->tangents->pulse[r->pulse], w->prog.scratch, ins,
                      (double *const[]){w->dual.yend, w->dual.yend_dot});
  for (atvi_idx q = 0; q < w->n * ATVI_LANES; q++)
    if (in(r->mask, (int)(q % ATVI_LANES))) w->dual.ydot[q] = w->dual.yend_dot[q];
}

void atvi_ode_tangent(const atvi_ode *ode, atvi_ode_work *w, const double *par, const double *y0dot,
                      const double *pardot, double *youtdot) {
  const atvi_idx size = w->n * ATVI_LANES;
  const size_t bytes = (size_t)size * sizeof *y0dot;
  double now[ATVI_LANES] = {0};
  ATVI_ASSERT(ode->tangents && w->dual.ydot);
  w->prog.par = par;
  w->delay.ode = ode;
  memcpy(w->dual.ydot, y0dot, bytes);
  if (w->delay.n) memcpy(w->delay.past_dot, y0dot, bytes);
  for (atvi_idx e = 0; e < w->echoes.n; e++) w->echoes.of[e].dot = 0;
  const atvi_idx first = ode->stop[0].output;
  if (first >= 0) memcpy(youtdot + first * size, y0dot, bytes);
  step s = {.ode = ode, .w = w, .ydot = w->dual.ydot, .pardot = pardot};
  for (atvi_idx i = 0; i < w->tape.n; i++) {
    s.r = atvi_ode_record_at(w, i);
    for (int l = 0; l < ATVI_LANES; l++) {
      if (w->prog.n_tab > 0) atvi_ode_set_tab(ode, w, l, s.r->seg[l]);
      atvi_ode_set_passed(ode, w, l, s.r->passed[l]);
    }
    if (s.r->pulse >= 0) {
      pass_pulse(&s, now);
      continue;
    }
    if (w->delay.n) atvi_ode_delay_middle(w, s.r->t, s.r->h);
    pass_step(&s, i, now);
    land(&s, now, youtdot);
  }
  if (!ode->steady) return;
  memcpy(youtdot, w->dual.ydot, bytes);
  if (w->rest.lanes) atvi_ode_tangent_rest(ode, w, pardot, youtdot);
}
