/* SPDX-License-Identifier: MIT */
/* Instants that have another time in every lane: jumps and pulses at times of par, and pulses when a root
 * becomes positive.
 *
 * Movers     numbered: jumps, then moving pulses, then roots, then echoes. A step ends at each, and the next begins there; records say what moves
 *            the instant at which they begin.
 * Roots      looked for in accepted steps, at the ends and three points of the Hermite polynomial between them. The step is then tried
 *            again with other lengths until g is positive by rounding alone: the state there is one of the scheme, g(t + h, y(h)) = 0.
 * Adjoint    a step from t to t' = t + h with slopes k_i and their adjoints kbar_i moves with its ends by
 *              d ell / d t' = sum_i (kbar_i^T k_i / h + c_i tbar_i),   d ell / d t = sum_i ((1 - c_i) tbar_i - kbar_i^T k_i / h),
 *            tbar_i = kbar_i^T df/dt. What the step before, the pulse and the step after give is the adjoint b of the instant's time.
 *            A time of par gains it. A root's time follows from g = 0: with the step's own adjoint for the seed dg/dy, of which
 *            D = dg/dt + d g / d t' is the slope of g, everything before loses b / D times that of g. All of this is exact for steps
 *            held fixed.
 * Echoes     with delays, what the pulse of a root does comes again a delay later, a little smoother each time: the steps land on the first
 *            few of these instants too. The time of each is that of an earlier one and a lag, which both gain its adjoint.
 * Ties       instants that differ by rounding are one, and what moves it is the first of them. Where one falls on a stop, that stop does not move: the part of the step before is taken from the exact
 *            solution, lambda^T f. */
#include "ode/work.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum {
  MOST_FIRED = 1000, /* of a lane; more is a condition that never comes to rest */
  MOST_CLOSE =
      3, /* and events in a row, each CLOSE to the one before: they pile up, as those of a bouncing ball */
  MOST_TRIES = 100, /* to locate a root; bisection alone needs 60 */
  INNER = 4,        /* parts of a step */
  MOST_ORDER = 4,   /* how often an instant comes again */
  MOST_AGAIN = 64   /* and how many times that are, at most */
};

static const double CLOSE = 1e-10; /* of the whole span */
static const double SAME = 1e-12;  /* of the span: instants this near to each other are one */
static const double SAME_G = 16; /* a pulse that changes what rounding left of g by less has not changed g */

static bool in(unsigned mask, int l) { return mask >> l & 1; }

static atvi_idx first_root(const atvi_ode *ode) { return ode->n_jump + ode->n_moving; }

/* The one mover of all echoes. */
static int32_t echo_mover(const atvi_ode *ode) { return (int32_t)(first_root(ode) + ode->roots.n); }

static bool is_root(const atvi_ode *ode, int32_t mover) {
  return mover >= first_root(ode) && mover < echo_mover(ode);
}

/* Place in par of the time of a mover that is not a root. */
static atvi_idx par_of(const atvi_ode *ode, int32_t mover) {
  return mover < ode->n_jump ? ode->jump[mover] : ode->moving[mover - ode->n_jump].par;
}

static double time_of(const atvi_ode *ode, const atvi_ode_work *w, int32_t mover, int l) {
  double offset = mover < ode->n_jump ? 0 : ode->moving[mover - ode->n_jump].offset;
  return w->prog.par[par_of(ode, mover) * ATVI_LANES + l] + offset;
}

static void roots_at(const atvi_ode *ode, atvi_ode_work *w, const double *t, const double *y, double *g) {
  atvi_ode_run(w, &ode->roots.prog, t, y, NULL, g, w->roots.holds);
}

void atvi_ode_events_begin(const atvi_ode *ode, atvi_ode_work *w) {
  memset(w->instants.done, 0, (size_t)ode->n_moving * sizeof *w->instants.done);
  w->echoes.n = w->echoes.low = 0;
  for (int l = 0; l < ATVI_LANES; l++) {
    w->roots.on[l] = 0;
    w->roots.fired[l] = w->roots.close[l] = 0;
    w->roots.last_fired[l] = -HUGE_VAL;
    w->roots.skip[l] = 0;
  }
  if (!ode->roots.n) return;
  roots_at(ode, w, w->t, w->y, w->roots.g);
  for (atvi_idx e = 0; e < ode->roots.n; e++)
    for (int l = 0; l < ATVI_LANES; l++)
      w->roots.on[l] |= (uint64_t)(w->roots.holds[e * ATVI_LANES + l] != 0) << e;
}

/* Whether mover m, of time `at`, lies behind lane l; if not, the next stop is not beyond it. */
static bool reached(const atvi_ode *ode, atvi_ode_work *w, int32_t m, double at, int l, bool start) {
  double same = SAME * fmax(w->control.span, fabs(w->t[l]));
  if (at > w->t[l] + same) {
    if (!ode->steady && at < w->tstop[l] - same) w->tstop[l] = at;
    return false;
  }
  if (!start && w->instants.mover[l] < 0) w->instants.mover[l] = m;
  return true;
}

static double lag_of(const atvi_ode *ode, const atvi_ode_work *w, atvi_idx d, int l) {
  const atvi_idx par = ode->delay[d].par;
  return par >= 0 ? w->prog.par[par * ATVI_LANES + l] : ode->delay[d].lag;
}

/* Whether delay d is the first with its lag; how many such there are. */
static bool first_lag(const atvi_ode *ode, atvi_idx d) {
  const atvi_ode_delay *p = ode->delay;
  for (atvi_idx j = 0; j < d; j++)
    if (p[j].par == p[d].par && (p[d].par >= 0 || p[j].lag == p[d].lag)) return false;
  return true;
}

static atvi_idx lags(const atvi_ode *ode) {
  atvi_idx n = 0;
  for (atvi_idx d = 0; d < ode->n_delay; d++) n += first_lag(ode, d);
  return n;
}

static bool push_echo(atvi_ode_work *w, atvi_ode_echo e) {
  if (w->echoes.n == w->echoes.cap) {
    atvi_idx cap = w->echoes.cap ? 2 * w->echoes.cap : 64;
    atvi_ode_echo *more = atvi_block(w->ctx, (size_t)cap * sizeof *more);
    if (!more) return false;
    if (w->echoes.n) memcpy(more, w->echoes.of, (size_t)w->echoes.n * sizeof *more);
    atvi_block_free(w->ctx, w->echoes.of);
    w->echoes.of = more;
    w->echoes.cap = cap;
  }
  w->echoes.of[w->echoes.n++] = e;
  return true;
}

/* The instant at which lane l is comes again after every lag, as it has `order` times before. */
static bool come_again(const atvi_ode *ode, atvi_ode_work *w, int l, int32_t order) {
  const double end = ode->stop[ode->n_stop - 1].t;
  double times = 1;
  for (int k = 0; k <= order; k++) times *= (double)lags(ode);
  if (order >= MOST_ORDER || (order && times > MOST_AGAIN)) return true;
  for (atvi_idx d = 0; d < ode->n_delay; d++) {
    const double t = w->t[l] + lag_of(ode, w, d, l);
    if (!first_lag(ode, d) || !(t < end)) continue;
    atvi_ode_echo e = {.t = t,
                       .lane = l,
                       .from = w->echoes.instant[l],
                       .delay = (int32_t)d,
                       .order = order + 1,
                       .mover = -1};
    if (!push_echo(w, e)) return false;
    reached(ode, w, echo_mover(ode), t, l, true);
  }
  return true;
}

/* Lanes pass the echoes that they have reached. */
static bool pass_echoes(const atvi_ode *ode, atvi_ode_work *w, unsigned lanes, unsigned *fresh) {
  while (w->echoes.low < w->echoes.n && w->echoes.of[w->echoes.low].done) w->echoes.low++;
  for (atvi_idx i = w->echoes.low, n = w->echoes.n; i < n; i++) {
    const int l = w->echoes.of[i].lane;
    if (w->echoes.of[i].done || !in(lanes, l) ||
        !reached(ode, w, echo_mover(ode), w->echoes.of[i].t, l, false))
      continue;
    w->echoes.of[i].done = true;
    *fresh |= 1u << l;
    if (w->echoes.instant[l] < 0) w->echoes.instant[l] = (int32_t)i;
    if (!come_again(ode, w, l, w->echoes.of[i].order)) return false;
  }
  return true;
}

bool atvi_ode_pass_moving(const atvi_ode *ode, atvi_ode_work *w, unsigned lanes, bool start,
                          unsigned *fresh) {
  lanes &= w->run;
  for (int l = 0; l < ATVI_LANES; l++) {
    if (!in(lanes, l)) continue;
    uint32_t passed = w->instants.passed[l];
    w->tstop[l] = ode->stop[w->seg[l] + 1].t;
    for (int32_t j = 0; j < ode->n_jump; j++)
      if (!(passed >> j & 1) && reached(ode, w, j, time_of(ode, w, j, l), l, start))
        passed |= (uint32_t)1 << j;
    if (passed == w->instants.passed[l]) continue;
    w->instants.passed[l] = passed;
    atvi_ode_set_passed(ode, w, l, passed);
    *fresh |= 1u << l;
  }
  for (atvi_idx k = 0; k < ode->n_moving; k++) {
    unsigned now = 0;
    for (int l = 0; l < ATVI_LANES; l++)
      if (in(lanes & ~w->instants.done[k], l)) {
        const int32_t mover = (int32_t)(ode->n_jump + k);
        now |= (unsigned)reached(ode, w, mover, time_of(ode, w, mover, l), l, start) << l;
      }
    w->instants.done[k] |= now;
    *fresh |= now;
    if (now && ode->moving[k].pulse >= 0 && !atvi_ode_apply_pulse(ode, w, ode->moving[k].pulse, k, now))
      return false;
  }
  return pass_echoes(ode, w, lanes, fresh);
}

/* The largest of the roots whose conditions do not hold yet, or -inf; *which says which. */
static double leading(const atvi_ode *ode, const atvi_ode_work *w, const double *g, int l, int *which) {
  double most = -HUGE_VAL;
  *which = -1;
  for (int e = 0; e < ode->roots.n; e++)
    if (!(w->roots.on[l] >> e & 1) && g[e * ATVI_LANES + l] > most) most = g[e * ATVI_LANES + l], *which = e;
  return most;
}

/* A step of lane l whose end is sought: g <= 0 after a length lo, positive after hi. */
typedef struct {
  double full, lo, hi, glo, ghi;
  int side; /* which end moved last: -1 lo, 1 hi */
} bracket;

static void set_length(atvi_ode_work *w, int l, double h, double full, double tend) {
  w->trial.hs[l] = h;
  w->trial.tnew[l] = h == full ? tend : w->t[l] + h;
}

/* The length to be tried next: regula falsi in the Illinois form, now and then the middle; right of a zero of
 * g, just beyond it. */
static double next_length(const bracket *b, double least, int try) {
  if (try % 4 == 3) return 0.5 * (b->lo + b->hi);
  if (b->glo == 0) return fmin(b->lo + least, 0.5 * (b->lo + b->hi));
  double x = b->hi - b->ghi * (b->hi - b->lo) / (b->ghi - b->glo);
  double margin = fmin(0.25 * (b->hi - b->lo), 0.5 * least);
  return isfinite(x) ? fmin(fmax(x, b->lo + margin), b->hi - margin) : 0.5 * (b->lo + b->hi);
}

static void narrow(bracket *b, double x, double g) {
  int side = g > 0 ? 1 : -1;
  if (side > 0) {
    b->hi = x, b->ghi = g;
    if (b->side == side) b->glo *= 0.5;
  } else {
    b->lo = x, b->glo = g;
    if (b->side == side) b->ghi *= 0.5;
  }
  b->side = side;
}

/* What the conditions of a lane do in a step, from part to part. */
typedef struct {
  uint64_t on, left; /* hold now; held at the start, and not since */
  int left_at;       /* the first part after which one of these no longer held */
} course;

/* Goes on to the end of part p, where g is. Whether a condition has become true there; one that held at the
 * start has then been false in between, and the step shall end where it was. */
static bool turns(const atvi_ode *ode, const atvi_ode_work *w, const double *g, int l, int p, course *c,
                  int *part) {
  for (atvi_idx e = 0; e < ode->roots.n; e++) {
    const uint64_t bit = (uint64_t)1 << e;
    double x = g[e * ATVI_LANES + l];
    if (c->on & bit && x < 0) {
      c->left_at = c->left ? c->left_at : p;
      c->on &= ~bit;
      c->left |= w->roots.on[l] & bit;
    } else if (!(c->on & bit) && x > 0) {
      *part = c->left & bit ? c->left_at : p;
      return true;
    }
  }
  return false;
}

/* Lanes of accepted steps in which a condition becomes true, and the part of the step at whose end it is, or
 * to which the step has to be cut. */
static unsigned suspects(const atvi_ode *ode, atvi_ode_work *w, unsigned accepted, int part[ATVI_LANES]) {
  const atvi_idx size = w->n * ATVI_LANES;
  const double *k0 = w->trial.k, *k1 = w->trial.k + (ATVI_ODE_STAGES - 1) * size;
  course c[ATVI_LANES];
  unsigned found = 0;
  for (int l = 0; l < ATVI_LANES; l++) c[l] = (course){.on = w->roots.on[l]};
  for (int p = 1; p <= INNER; p++) {
    const double q = (double)p / INNER;
    for (atvi_idx i = 0; i < size; i += ATVI_LANES)
      for (int l = 0; l < ATVI_LANES; l++) {
        double y0 = w->y[i + l], dy = w->trial.ynew[i + l] - y0, h = w->trial.hs[l];
        w->roots.mid[i + l] =
            y0 + q * dy + q * (q - 1) * ((1 - 2 * q) * dy + (q - 1) * h * k0[i + l] + q * h * k1[i + l]);
      }
    for (int l = 0; l < ATVI_LANES; l++) w->prog.ts[l] = w->t[l] + q * w->trial.hs[l];
    if (p == INNER)
      roots_at(ode, w, w->trial.tnew, w->trial.ynew, w->roots.gtry);
    else
      roots_at(ode, w, w->prog.ts, w->roots.mid, w->roots.gtry);
    for (int l = 0; l < ATVI_LANES; l++)
      if (in(accepted & ~found, l) && turns(ode, w, w->roots.gtry, l, p, &c[l], &part[l])) found |= 1u << l;
  }
  return found;
}

void atvi_ode_release(const atvi_ode *ode, atvi_ode_work *w, unsigned lanes) {
  static const double SHORT = 1e-6; /* of the step */
  const atvi_idx first = first_root(ode);
  for (atvi_idx i = 0; i < w->n * ATVI_LANES; i += ATVI_LANES)
    for (int l = 0; l < ATVI_LANES; l++)
      w->roots.mid[i + l] = w->y[i + l] + SHORT * w->h[l] * w->trial.k[i + l];
  for (int l = 0; l < ATVI_LANES; l++) w->prog.ts[l] = w->t[l] + SHORT * w->h[l];
  roots_at(ode, w, w->prog.ts, w->roots.mid, w->roots.gtry);
  for (int l = 0; l < ATVI_LANES; l++) {
    if (!in(lanes, l) || !is_root(ode, w->instants.mover[l])) continue;
    const atvi_idx e = w->instants.mover[l] - first, at = e * ATVI_LANES + l;
    bool kept = fabs(w->roots.g[at] - w->roots.gfired[l]) <= SAME_G * fabs(w->roots.gfired[l]);
    if (!kept || !(w->roots.gtry[at] < w->roots.g[at])) continue;
    w->roots.on[l] &= ~((uint64_t)1 << e);
    w->roots.skip[l] = 2 * SHORT * w->h[l] * fabs(w->roots.g[at]) / (w->roots.g[at] - w->roots.gtry[at]);
    w->roots.g[at] = -fabs(w->roots.g[at]);
  }
}

void atvi_ode_locate(const atvi_ode *ode, atvi_ode_work *w, unsigned accepted,
                     void (*attempt)(const atvi_ode *, atvi_ode_work *), int which[ATVI_LANES]) {
  int part[ATVI_LANES], e;
  bracket b[ATVI_LANES];
  double tend[ATVI_LANES], least[ATVI_LANES];
  unsigned found = suspects(ode, w, accepted, part), seek = found;
  for (int l = 0; l < ATVI_LANES; l++) {
    which[l] = -1;
    if (!in(found, l)) continue;
    tend[l] = w->trial.tnew[l];
    least[l] = 4 * DBL_EPSILON * fmax(fabs(w->t[l]), fabs(tend[l]));
    double h = part[l] < INNER ? w->trial.hs[l] * part[l] / INNER : w->trial.hs[l];
    b[l] = (bracket){.full = w->trial.hs[l],
                     .lo = fmin(w->roots.skip[l], h),
                     .hi = h,
                     .glo = leading(ode, w, w->roots.g, l, &e),
                     .ghi = HUGE_VAL};
    set_length(w, l, h, b[l].full, tend[l]);
  }
  for (int try = 0; seek; try++) {
    attempt(ode, w);
    roots_at(ode, w, w->trial.tnew, w->trial.ynew, w->roots.gtry);
    for (int l = 0; l < ATVI_LANES; l++) {
      if (!in(seek, l)) continue;
      double g = leading(ode, w, w->roots.gtry, l, &e), x = w->trial.hs[l];
      if (try == 0 && !(g > 0)) { /* just a shorter step */
        seek &= ~(1u << l);
        continue;
      }
      narrow(&b[l], x, g);
      bool done = b[l].hi - b[l].lo <= least[l] || try >= MOST_TRIES;
      if (done && x == b[l].hi) {
        which[l] = e;
        w->roots.gfired[l] = g;
        seek &= ~(1u << l);
      } else {
        set_length(w, l, done ? b[l].hi : next_length(&b[l], least[l], try), b[l].full, tend[l]);
      }
    }
  }
  for (int l = 0; l < ATVI_LANES; l++) /* at a stop: it acts there, and does not move */
    if (which[l] >= 0 && w->trial.tnew[l] == w->tstop[l]) which[l] = -1;
}

/* A root acts where lane l is: an instant that comes again. */
static bool note_instant(const atvi_ode *ode, atvi_ode_work *w, int l) {
  if (!w->delay.n) return true;
  if (w->echoes.instant[l] < 0) {
    w->echoes.instant[l] = (int32_t)w->echoes.n;
    atvi_ode_echo e = {
        .t = w->t[l], .lane = l, .from = -1, .delay = -1, .mover = w->instants.mover[l], .done = true};
    if (!push_echo(w, e)) return false;
  }
  return come_again(ode, w, l, 0);
}

/* The pulse of root e in the lanes of mask. */
static bool fire(const atvi_ode *ode, atvi_ode_work *w, int e, unsigned mask, unsigned *fresh) {
  for (int l = 0; l < ATVI_LANES; l++) {
    if (!in(mask, l)) continue;
    w->roots.on[l] |= (uint64_t)1 << e;
    if (w->roots.fired[l]++ < MOST_FIRED && w->roots.close[l] < MOST_CLOSE) {
      if (!note_instant(ode, w, l)) return false;
      continue;
    }
    atvi_ode_fail_lane(w, l, ATVI_RUN_EVENTS);
    mask &= ~(1u << l);
  }
  *fresh |= mask;
  return !mask || atvi_ode_apply_pulse(ode, w, ode->roots.pulse[e], -1, mask);
}

/* Roots of these lanes where they are; those of the others, which have not moved, stay as `release` may have
 * left them. */
static void refresh_roots(const atvi_ode *ode, atvi_ode_work *w, unsigned lanes) {
  roots_at(ode, w, w->t, w->y, w->roots.gtry);
  for (atvi_idx i = 0; i < ode->roots.n * ATVI_LANES; i++)
    if (in(lanes, (int)(i % ATVI_LANES))) w->roots.g[i] = w->roots.gtry[i];
}

bool atvi_ode_fire(const atvi_ode *ode, atvi_ode_work *w, unsigned lanes, const int *which, unsigned *fresh) {
  for (int e = 0; which && e < ode->roots.n; e++) {
    unsigned mask = 0;
    for (int l = 0; l < ATVI_LANES; l++)
      if (which[l] == e && in(w->run, l)) {
        mask |= 1u << l;
        w->instants.mover[l] = (int32_t)(first_root(ode) + e);
        w->roots.close[l] =
            w->t[l] - w->roots.last_fired[l] < CLOSE * w->control.span ? w->roots.close[l] + 1 : 0;
        w->roots.last_fired[l] = w->t[l];
      }
    if (mask && !fire(ode, w, e, mask, fresh)) return false;
  }
  for (bool again = true; again;) { /* one pulse may make another condition true */
    again = false;
    refresh_roots(ode, w, lanes);
    for (int e = 0; e < ode->roots.n && !again; e++) {
      unsigned mask = 0;
      for (int l = 0; l < ATVI_LANES; l++) {
        if (!in(lanes, l)) continue;
        bool now = w->roots.holds[e * ATVI_LANES + l] != 0, was = w->roots.on[l] >> e & 1;
        if (!now) w->roots.on[l] &= ~((uint64_t)1 << e);
        if (now && !was && in(w->run, l)) mask |= 1u << l;
      }
      again = mask != 0;
      if (again && !fire(ode, w, e, mask, fresh)) return false;
    }
  }
  return true;
}

/* ---- tangents ---- */

int32_t atvi_ode_root_of(const atvi_ode *ode, int32_t mover) {
  return is_root(ode, mover) ? mover - (int32_t)first_root(ode) : -1;
}

double atvi_ode_time_tangent(const atvi_ode *ode, const atvi_ode_work *w, int32_t mover, int32_t echo,
                             const double *pardot, int l) {
  const atvi_ode_echo *e = mover == echo_mover(ode) ? &w->echoes.of[echo] : NULL;
  const atvi_idx par = e ? ode->delay[e->delay].par : par_of(ode, mover);
  return (e ? w->echoes.of[e->from].dot : 0) + (par >= 0 ? pardot[par * ATVI_LANES + l] : 0);
}

/* ---- the way back ---- */

void atvi_ode_note_stage(atvi_ode_work *w, int stage, const double *kbar) {
  const double *k = w->back.kk + stage * w->n * ATVI_LANES;
  for (atvi_idx i = 0; i < w->n * ATVI_LANES; i += ATVI_LANES)
    for (int l = 0; l < ATVI_LANES; l++) w->back.hbar[l] += k[i + l] * kbar[i + l];
}

void atvi_ode_note_time(atvi_ode_work *w, double c) {
  for (int l = 0; l < ATVI_LANES; l++) {
    w->back.tbar_end[l] += c * w->back.tbar[l];
    w->back.tbar_start[l] += (1 - c) * w->back.tbar[l];
  }
}

typedef struct {
  double start[ATVI_LANES], end[ATVI_LANES];
} ends;

/* As atvi_ode_step_back, with the adjoints of the two ends' times. */
static ends back_noting(const atvi_ode *ode, atvi_ode_work *w, const atvi_ode_record *r, double *parbar) {
  ends out;
  for (int l = 0; l < ATVI_LANES; l++) w->back.hbar[l] = w->back.tbar_end[l] = w->back.tbar_start[l] = 0;
  w->back.noting = true;
  atvi_ode_step_back(ode, w, r, parbar);
  w->back.noting = false;
  for (int l = 0; l < ATVI_LANES; l++) {
    out.end[l] = w->back.hbar[l] / r->h[l] + w->back.tbar_end[l];
    out.start[l] = w->back.tbar_start[l] - w->back.hbar[l] / r->h[l];
  }
  if (w->delay.n) atvi_ode_delay_ends(w, r, out.start, out.end);
  return out;
}

/* The state at the instant, into w->roots.mid. */
static void state_at(atvi_ode_work *w, const atvi_ode_instant *at, unsigned lanes) {
  for (int l = 0; l < ATVI_LANES; l++) {
    const double *y = in(lanes, l) ? atvi_ode_record_y(atvi_ode_record_at(w, at->record[l])) : w->prog.zero;
    for (atvi_idx i = l; i < w->n * ATVI_LANES; i += ATVI_LANES) w->roots.mid[i] = y[i];
  }
}

/* Adjoint of the time of an instant. */
static double bar_of(const atvi_ode_work *w, const atvi_ode_instant *at, int l) {
  return at->bar[l] + (at->echo[l] >= 0 ? w->echoes.of[at->echo[l]].bar : 0);
}

/* What has moved an instant, other than a root, gains its adjoint. */
static void give(const atvi_ode *ode, const atvi_ode_work *w, const atvi_ode_instant *at, int l, double bar,
                 double *parbar) {
  const atvi_ode_echo *e = at->mover[l] == echo_mover(ode) ? &w->echoes.of[at->echo[l]] : NULL;
  const atvi_idx par = e ? ode->delay[e->delay].par : par_of(ode, at->mover[l]);
  if (e) w->echoes.of[e->from].bar += bar;
  if (par >= 0) parbar[par * ATVI_LANES + l] += bar;
}

void atvi_ode_instant_pulse(const atvi_ode_work *w, atvi_idx i, atvi_ode_instant *at) {
  const atvi_ode_record *r = atvi_ode_record_at(w, i);
  for (int l = 0; l < ATVI_LANES; l++) {
    if (!in(r->mask, l)) continue;
    if (r->mover[l] >= 0) {
      at->mover[l] = r->mover[l];
      at->bar[l] += w->back.tbar[l];
      if (r->echo[l] >= 0) at->echo[l] = r->echo[l];
    }
    at->record[l] = i;
  }
}

void atvi_ode_instant_tied(const atvi_ode *ode, atvi_ode_work *w, const atvi_ode_record *r,
                           atvi_ode_instant *at, double *parbar) {
  unsigned tied = 0;
  for (int l = 0; l < ATVI_LANES; l++)
    tied |= (unsigned)(in(r->landed, l) && at->mover[l] >= 0 && !is_root(ode, at->mover[l])) << l;
  if (!tied) return;
  state_at(w, at, tied);
  atvi_ode_run(w, &ode->rhs, r->tnew, w->roots.mid, NULL, w->back.kk, NULL);
  for (int l = 0; l < ATVI_LANES; l++) {
    if (!in(tied, l)) continue;
    for (atvi_idx i = l; i < w->n * ATVI_LANES; i += ATVI_LANES) at->bar[l] += w->back.lam[i] * w->back.kk[i];
    give(ode, w, at, l, bar_of(w, at, l), parbar);
    at->mover[l] = at->echo[l] = -1;
    at->bar[l] = 0;
  }
}

/* The roots of the lanes in `roots`, at their instants, times seed: dg/dy to w->lam, dg/dpar added to parbar;
 * dg/dt is in w->back.tbar. */
static void seed_roots(const atvi_ode *ode, atvi_ode_work *w, const atvi_ode_record *r,
                       const atvi_ode_instant *at, unsigned roots, const double *seed, double *parbar) {
  const atvi_idx first = first_root(ode);
  state_at(w, at, roots);
  for (atvi_idx e = 0; e < ode->roots.n; e++)
    for (int l = 0; l < ATVI_LANES; l++)
      w->roots.gtry[e * ATVI_LANES + l] = in(roots, l) && at->mover[l] - first == e ? seed[l] : 0;
  atvi_ode_run(w, &ode->roots.vjp, r->tnew, w->roots.mid, w->roots.gtry, w->trial.err, parbar);
  for (atvi_idx i = 0; i < w->n * ATVI_LANES; i++)
    w->back.lam[i] = in(roots, (int)(i % ATVI_LANES)) ? w->trial.err[i] : 0;
}

/* As back_noting, for a step that ends at g = 0 in the lanes of `roots`: what moves that end is taken off. */
static ends back_to_root(const atvi_ode *ode, atvi_ode_work *w, const atvi_ode_record *r,
                         const atvi_ode_instant *at, unsigned roots, double *parbar) {
  const atvi_idx size = w->n * ATVI_LANES;
  double slope[ATVI_LANES], share[ATVI_LANES];
  memcpy(w->back.lam2, w->back.lam, (size_t)size * sizeof *w->back.lam);
  w->delay.unhanded = w->delay.untaken = true;
  seed_roots(ode, w, r, at, roots, w->prog.one, w->back.par2);
  memcpy(slope, w->back.tbar, sizeof slope);
  const ends of_g = back_noting(ode, w, r, w->back.par2);
  w->delay.untaken = false;
  memcpy(w->back.lam, w->back.lam2, (size_t)size * sizeof *w->back.lam);
  const ends free = back_noting(ode, w, r, w->back.par2);
  w->delay.unhanded = false;
  for (int l = 0; l < ATVI_LANES; l++)
    share[l] = in(roots, l) ? -(bar_of(w, at, l) + free.end[l]) / (slope[l] + of_g.end[l]) : 0;
  seed_roots(ode, w, r, at, roots, share, parbar);
  for (atvi_idx i = 0; i < size; i++) w->back.lam[i] += w->back.lam2[i];
  return back_noting(ode, w, r, parbar);
}

void atvi_ode_moving_back(const atvi_ode *ode, atvi_ode_work *w, atvi_idx i, atvi_ode_instant *at,
                          double *parbar) {
  const atvi_ode_record *r = atvi_ode_record_at(w, i);
  unsigned moving = 0, roots = 0;
  for (int l = 0; l < ATVI_LANES; l++) {
    if (!in(r->mask, l)) continue;
    moving |= (unsigned)(at->mover[l] >= 0 || r->mover[l] >= 0) << l;
    roots |= (unsigned)(at->mover[l] >= 0 && is_root(ode, at->mover[l])) << l;
  }
  if (!moving) {
    atvi_ode_step_back(ode, w, r, parbar);
  } else {
    atvi_ode_slopes(ode, w, r);
    const ends bar = roots ? back_to_root(ode, w, r, at, roots, parbar) : back_noting(ode, w, r, parbar);
    for (int l = 0; l < ATVI_LANES; l++) {
      if (!in(r->mask, l)) continue;
      if (at->mover[l] >= 0 && !in(roots, l)) give(ode, w, at, l, bar_of(w, at, l) + bar.end[l], parbar);
      at->mover[l] = r->mover[l];
      at->echo[l] = r->mover[l] >= 0 ? r->echo[l] : -1;
      at->bar[l] = r->mover[l] >= 0 ? bar.start[l] : 0;
    }
  }
  for (int l = 0; l < ATVI_LANES; l++)
    if (in(r->mask, l)) at->record[l] = i;
}
