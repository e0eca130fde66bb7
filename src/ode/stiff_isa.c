/* SPDX-License-Identifier: MIT */
/* ESDIRK steps and their adjoints: g = 1/4 on the diagonal, first stage explicit, last stage the new state.
 *
 * Step      Y_i = p_i + z_i,  p_i = y + h sum_{j<i} a_ij k_j,  z_i = h g f(t + c_i h, p_i + z_i),  k_i = z_i / (h g).
 *           The slope comes from z, not from f: for stiff f the latter magnifies what Newton left over.
 * Newton    simplified, with the factors of M = I - h g J at the start of the step, renewed at the current iterate
 *           in lanes that are slow. It runs to rounding, not to the tolerance, since the adjoint takes the
 *           stages as exact solutions. Each lane stops on its own account; stopped lanes do not change any more.
 * Error     M^-1 h sum e_i k_i: the filter keeps the estimate bounded for stiff components.
 * Adjoint   with Ybar_i the full adjoint of Y_i (lambda for the last, before f is regarded), last stage first:
 *             s_i = h sum_{j>i} a_ji Ybar_j (and with delays what k_i is handed),   M_i^T kbar_i = s_i + h g e_i (e = lambda in the last stage, else 0),
 *             Ybar_i = (kbar_i - s_i) / (h g)  [= e_i + J_i^T kbar_i without cancellation],
 *           parameters gain (df/dp)^T kbar_i; explicit first stage kbar_1 = s_1, Ybar_1 = J_1^T kbar_1;
 *           d ell / d y = sum_i Ybar_i. */
#include "ode/lanes.h"
#include <math.h>

static const double GAMMA = 0.25;
static const double NEWTON_TOL = 1e-13;   /* error left, in units of the state's scale */
static const double NEWTON_NOISE = 1e-11; /* below it, corrections that no longer shrink are rounding */
static const double FLOOR = 1e-6, TINY = 1e-200;
enum { NEWTON_MAX = 15, NEWTON_RENEW = 4 };

typedef struct {
  bool live[ATVI_LANES];   /* still iterating */
  bool failed[ATVI_LANES]; /* no convergence in some stage of this step */
  double last[ATVI_LANES]; /* size of the last correction */
} newton;

static const double *stage_time(double *ts, const double *t, const double *tnew, const double *h, double c) {
  if (c == 0) return t;
  if (c == 1) return tnew;
  LANES(l) ts[l] = FMA(c, h[l], t[l]);
  return ts;
}

/* Row i of a matrix of this shape: the columns from *first to right[i], where *first is what it was for row i
 * - 1, or 0. */
ALWAYS atvi_idx row_begin(const atvi_ode_shape *s, atvi_idx i, atvi_idx *first) {
  while (s->low[*first] < i) ++*first;
  return *first;
}

void ATVI_ISA_NAME(atvi_ode_factor)(const atvi_ode *ode, atvi_ode_work *w, const double *t, const double *y,
                                    const double *h, double *restrict a, int32_t *piv) {
  const atvi_ode_shape *s = w->linear.shape;
  const atvi_idx n = w->n;
  double *restrict jac = w->linear.jac;
  atvi_ode_run(w, &ode->jac, t, y, NULL, jac, NULL);
  for (atvi_idx i = 0, first = 0; i < n; i++) {
    double *row = a + i * n * ATVI_LANES;
    atvi_idx begin = row_begin(s, i, &first);
    memset(row + begin * ATVI_LANES, 0, (size_t)((s->right[i] - begin + 1) * ATVI_LANES) * sizeof *row);
    LANES(l) row[i * ATVI_LANES + l] = 1;
  }
  for (atvi_idx e = 0; e < s->n_entry; e++) {
    double *to = a + s->at[e] * (atvi_idx)ATVI_LANES;
    LANES(l) to[l] = FMA(-GAMMA * h[l], jac[e * ATVI_LANES + l], to[l]);
  }
  ATVI_ISA_NAME(atvi_ode_lu)(s, n, a, piv);
  w->count.effort.factors++;
}

static void renew(const atvi_ode *ode, atvi_ode_work *w, const double *t, const double *y, const newton *nt) {
  const atvi_idx n = w->n;
  ATVI_ISA_NAME(atvi_ode_factor)(ode, w, t, y, w->trial.hs, w->linear.lu2, w->linear.piv2);
  for (atvi_idx i = 0, first = 0; i < n; i++) {
    atvi_idx begin = (i * n + row_begin(w->linear.shape, i, &first)) * ATVI_LANES,
             end = (i * n + w->linear.shape->right[i] + 1) * ATVI_LANES;
    LANES(l) {
      if (!nt->live[l]) continue;
      for (atvi_idx q = begin + l; q < end; q += ATVI_LANES) w->linear.lu[q] = w->linear.lu2[q];
      w->linear.piv[i * ATVI_LANES + l] = w->linear.piv2[i * ATVI_LANES + l];
    }
  }
}

/* Size of the correction d in each lane; NaN if not finite. */
static void correction(const atvi_ode_work *w, const double *restrict y, const double *restrict d,
                       double size[ATVI_LANES]) {
  const double *restrict scale = w->trial.scale;
  double most[ATVI_LANES] = {0}, bad[ATVI_LANES] = {0};
  for (atvi_idx i = 0; i < w->n * ATVI_LANES; i += ATVI_LANES) {
    LANES(l) {
      double s = max2(max2(fabs(y[i + l]), scale[i + l]), max2(FLOOR * w->control.smax[l], TINY));
      most[l] = max2(fabs(d[i + l]) / s, most[l]);
      bad[l] = FMA(0.0, d[i + l], bad[l]);
    }
  }
  LANES(l) size[l] = most[l] + bad[l];
}

/* Which lanes have converged or failed; true while any goes on. */
static bool assess(newton *nt, const double size[ATVI_LANES], int it) {
  bool any = false;
  LANES(l) {
    if (!nt->live[l]) continue;
    double d = size[l], rate = it ? d / nt->last[l] : 1;
    bool done = d <= NEWTON_TOL || (rate < 1 && d * rate <= NEWTON_TOL * (1 - rate)) ||
                (it && d <= NEWTON_NOISE && rate >= 0.5);
    bool fails = isnan(d) || (!done && it + 1 == NEWTON_MAX);
    nt->last[l] = d;
    nt->live[l] = !done && !fails;
    nt->failed[l] |= fails;
    any |= nt->live[l];
  }
  return any;
}

/* Stage s from the slopes k[0 .. s-1]: its value in ys[s], its slope in k[s]. */
static void stage(const atvi_ode *ode, atvi_ode_work *w, int s, newton *nt) {
  const atvi_ode_tableau *tb = &atvi_ode_esdirk4;
  const atvi_idx size = w->n * ATVI_LANES;
  double *restrict p = w->trial.ynew, *restrict z = w->back.lam, *restrict d = w->trial.err;
  double *restrict y = w->trial.ys + s * size, *restrict k = w->trial.k + s * size;
  double hg[ATVI_LANES], change[ATVI_LANES], keep[ATVI_LANES];
  const double *t = stage_time(w->prog.ts, w->t, w->trial.tnew, w->trial.hs, tb->c[s]);
  combine(s, w->n, tb->a[s], w->trial.hs, w->y, w->trial.k, p);
  LANES(l) hg[l] = w->trial.hs[l] * GAMMA;
  LANES(l) nt->live[l] = w->trial.hs[l] > 0 && !nt->failed[l];
  for (atvi_idx i = 0; i < size; i += ATVI_LANES)
    LANES(l) z[i + l] = hg[l] * w->trial.k[(s - 1) * size + i + l];
  bool more = false;
  LANES(l) more |= nt->live[l];
  for (int it = 0; more; it++) {
    for (atvi_idx i = 0; i < size; i++) y[i] = p[i] + z[i];
    if (it && it % NEWTON_RENEW == 0) renew(ode, w, t, y, nt);
    atvi_ode_run(w, &ode->rhs, t, y, NULL, k, NULL);
    w->count.effort.rhs++;
    for (atvi_idx i = 0; i < size; i += ATVI_LANES) LANES(l) d[i + l] = FMA(hg[l], k[i + l], -z[i + l]);
    ATVI_ISA_NAME(atvi_ode_lu_solve)(w->linear.shape, w->n, w->linear.lu, w->linear.piv, d);
    correction(w, y, d, change);
    LANES(l) keep[l] = nt->live[l] ? 1.0 : 0.0;
    for (atvi_idx i = 0; i < size; i += ATVI_LANES)
      LANES(l) z[i + l] = keep[l] != 0 ? z[i + l] + d[i + l] : z[i + l];
    more = assess(nt, change, it);
  }
  for (atvi_idx i = 0; i < size; i += ATVI_LANES) {
    LANES(l) {
      y[i + l] = p[i + l] + z[i + l];
      k[i + l] = z[i + l] / hg[l];
    }
  }
}

/* From y and the slope k[0]: the new state, its slope k[6], the error, the stages in ys[1 .. 5]. */
void ATVI_ISA_NAME(atvi_ode_esdirk_try)(const atvi_ode *ode, atvi_ode_work *w) {
  const atvi_idx size = w->n * ATVI_LANES;
  const size_t bytes = (size_t)size * sizeof *w->y;
  newton nt = {{0}, {0}, {0}};
  if (w->delay.n) atvi_ode_delay_middle(w, w->t, w->trial.hs);
  ATVI_ISA_NAME(atvi_ode_factor)(ode, w, w->t, w->y, w->trial.hs, w->linear.lu, w->linear.piv);
  for (int s = 1; s < 6; s++) stage(ode, w, s, &nt);
  memcpy(w->trial.ynew, w->trial.ys + 5 * size, bytes);
  memcpy(w->trial.k + 6 * size, w->trial.k + 5 * size, bytes);
  combine(6, w->n, atvi_ode_esdirk4.e, w->trial.hs, w->prog.zero, w->trial.k, w->trial.err);
  ATVI_ISA_NAME(atvi_ode_lu_solve)(w->linear.shape, w->n, w->linear.lu, w->linear.piv, w->trial.err);
  ATVI_ISA_NAME(atvi_ode_measure)(w);
  LANES(l) if (nt.failed[l] && !isnan(w->trial.e2[l])) w->trial.e2[l] = (double)INFINITY;
}

/* What the vjp of a stage with kbar says of delayed states and of times. */
static void after_stage(const atvi_ode *ode, atvi_ode_work *w, const atvi_ode_record *r, int i,
                        const double *t, double *kbar, double *parbar) {
  if (w->delay.n) atvi_ode_delay_hand(ode, w, r, t, parbar);
  if (!w->back.noting) return;
  if (w->delay.n) atvi_ode_delay_take(w, r, i, -1, kbar); /* that part is not from the step itself */
  atvi_ode_note_stage(w, i, kbar);
  atvi_ode_note_time(w, atvi_ode_esdirk4.c[i]);
}

void ATVI_ISA_NAME(atvi_ode_esdirk_adjoint)(const atvi_ode *ode, atvi_ode_work *w, const atvi_ode_record *r,
                                            double *parbar) {
  static const double ones[ATVI_ODE_STAGES] = {1, 1, 1, 1, 1, 1, 1};
  const atvi_ode_tableau *tb = &atvi_ode_esdirk4;
  const atvi_idx n = w->n, size = n * ATVI_LANES;
  double *bar = w->trial.k, *restrict s = w->trial.ys, *restrict kbar = w->trial.ys + size,
         *unused = w->trial.ys + 2 * size;
  const double *y = atvi_ode_record_y(r);
  double hg[ATVI_LANES];
  LANES(l) hg[l] = r->h[l] * GAMMA;
  for (int i = 5; i > 0; i--) {
    const int m = 5 - i; /* adjoints known */
    const double *t = stage_time(w->prog.ts, r->t, r->tnew, r->h, tb->c[i]);
    ATVI_ISA_NAME(atvi_ode_factor)(ode, w, t, y + i * size, r->h, w->linear.lu, w->linear.piv);
    if (m)
      combine(m, n, w->back.rev[i], r->h, w->prog.zero, bar, s);
    else
      memset(s, 0, (size_t)size * sizeof *s);
    if (w->delay.n) atvi_ode_delay_take(w, r, i, 1, s);
    for (atvi_idx q = 0; q < size; q += ATVI_LANES)
      LANES(l) kbar[q + l] = m ? s[q + l] : FMA(hg[l], w->back.lam[q + l], s[q + l]);
    ATVI_ISA_NAME(atvi_ode_lu_solve_t)(w->linear.shape, n, w->linear.lu, w->linear.piv, kbar);
    atvi_ode_run(w, &ode->vjp, t, y + i * size, kbar, unused, parbar);
    for (atvi_idx q = 0; q < size; q += ATVI_LANES)
      LANES(l) bar[m * size + q + l] = (kbar[q + l] - s[q + l]) / hg[l];
    after_stage(ode, w, r, i, t, kbar, parbar);
  }
  combine(5, n, w->back.rev[0], r->h, w->prog.zero, bar, kbar);
  if (w->delay.n) atvi_ode_delay_take(w, r, 0, 1, kbar);
  atvi_ode_run(w, &ode->vjp, r->t, y, kbar, bar + 5 * size, parbar);
  after_stage(ode, w, r, 0, r->t, kbar, parbar);
  combine(6, n, ones, w->prog.one, w->prog.zero, bar, w->trial.err);
  assign(n, r->h, w->trial.err, w->back.lam);
}
