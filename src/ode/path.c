/* SPDX-License-Identifier: MIT */
/* The path of a run between its steps, from the tape.
 *
 * y(t + q h) = y + h sum_i b_i(q) k_i. RK45 has the interpolant of order 4 of its author (Tsitouras 2011),
 * the others the cubic Hermite polynomial of the states and slopes at both ends: each one order below its
 * method, as the method of steps needs it. Difference equations keep their state until the next step. */
#include "ode/work.h"
#include <string.h>

/* RK45: b_i(q) = sum_m WEIGHT[i][m - 1] q^m */
static const double WEIGHT[7][4] = {
    {1, -2.7637061972748258, 2.9132554618219126, -1.0530884977290216},
    {0, 0.1317, -0.2234, 0.1017},
    {0, 3.9302962368947512, -5.9410338721315048, 2.4906272856512528},
    {0, -12.411077166933676, 30.338188630282321, -16.548102889244902},
    {0, 37.509313416511041, -88.178904894766404, 47.379521962819283},
    {0, -27.896526289197286, 65.091894674793679, -34.870657861496611},
    {0, 1.5, -4, 2.5},
};

/* phi(q) times the weights of the step, and the slopes at both ends */
static void hermite(const double *step, int last, double q, double b[7], double *slope) {
  for (int i = 0; i < 7; i++) {
    b[i] = q * q * (3 - 2 * q) * step[i];
    if (slope) slope[i] = 6 * q * (1 - q) * step[i];
  }
  b[0] += q * (1 - q) * (1 - q);
  b[last] += q * q * (q - 1);
  if (slope) slope[0] += (1 - q) * (1 - 3 * q), slope[last] += q * (3 * q - 2);
}

void atvi_ode_dense_weights(atvi_ode_method method, double q, double b[7], double *slope) {
  const bool stiff = method == ATVI_ODE_STIFF;
  if (stiff || method == ATVI_ODE_RK4)
    hermite(stiff ? atvi_ode_esdirk4.a[5] : atvi_ode_rk4.a[4], stiff ? 5 : 6, q, b, slope);
  else
    for (int i = 0; i < 7; i++) {
      const double *c = WEIGHT[i];
      b[i] = q * (c[0] + q * (c[1] + q * (c[2] + q * c[3])));
      if (slope) slope[i] = c[0] + q * (2 * c[1] + q * (3 * c[2] + q * 4 * c[3]));
    }
}

void atvi_ode_slopes(const atvi_ode *ode, atvi_ode_work *w, const atvi_ode_record *r) {
  const bool stiff = ode->method == ATVI_ODE_STIFF;
  const atvi_ode_tableau *tb = stiff                         ? &atvi_ode_esdirk4
                               : ode->method == ATVI_ODE_RK4 ? &atvi_ode_rk4
                                                             : &atvi_ode_tsit5;
  const atvi_idx size = w->n * ATVI_LANES;
  const double *y = atvi_ode_record_y(r);
  for (int s = 0; s < tb->stages; s++) {
    double *k = w->back.kk + s * size;
    for (atvi_idx i = 0; i < size; i++) {
      double sum = 0, h = r->h[i % ATVI_LANES];
      for (int j = 0; j < s; j++) sum += tb->a[s][j] * w->back.kk[j * size + i];
      w->roots.mid[i] = y[i] + h * sum;
      if (stiff && s) k[i] = (y[s * size + i] - w->roots.mid[i]) / (h * tb->a[s][s]);
    }
    for (int l = 0; l < ATVI_LANES; l++)
      w->prog.ts[l] = tb->c[s] == 1 ? r->tnew[l] : r->t[l] + tb->c[s] * r->h[l];
    if (!stiff || !s)
      atvi_ode_run(w, &ode->rhs, w->prog.ts, s && w->tape.keeps ? y + s * size : w->roots.mid, NULL, k, NULL);
  }
}

/* State and slope at the end of a step, after its slopes. */
static void finish(const atvi_ode *ode, atvi_ode_work *w, const atvi_ode_record *r) {
  const atvi_idx size = w->n * ATVI_LANES;
  const double *y = atvi_ode_record_y(r);
  if (ode->method == ATVI_ODE_MAP) {
    atvi_ode_run(w, &ode->rhs, r->t, y, NULL, w->back.yend, NULL);
    return;
  }
  atvi_ode_slopes(ode, w, r);
  const atvi_ode_tableau *tb = ode->method == ATVI_ODE_RK4 ? &atvi_ode_rk4 : &atvi_ode_tsit5;
  for (atvi_idx i = 0; i < size; i++) {
    double sum = 0;
    for (int j = 0; j < tb->stages; j++) sum += tb->a[tb->stages][j] * w->back.kk[j * size + i];
    w->back.yend[i] = ode->method == ATVI_ODE_STIFF ? y[5 * size + i] : y[i] + r->h[i % ATVI_LANES] * sum;
  }
  if (ode->method != ATVI_ODE_STIFF)
    atvi_ode_run(w, &ode->rhs, r->tnew, w->back.yend, NULL, w->back.kk + 6 * size, NULL);
}

static double between(const atvi_ode *ode, const atvi_ode_work *w, const atvi_ode_record *r, atvi_idx i,
                      double q, const double b[7]) {
  const atvi_idx size = w->n * ATVI_LANES;
  const double y0 = atvi_ode_record_y(r)[i], y1 = w->back.yend[i], h = r->h[i % ATVI_LANES];
  double sum = 0;
  if (q <= 0) return y0;
  if (q >= 1) return y1;
  if (ode->method == ATVI_ODE_MAP) return y0;
  for (int j = 0; j < 7; j++) sum += b[j] != 0 ? b[j] * w->back.kk[j * size + i] : 0;
  return y0 + h * sum;
}

void atvi_ode_piece_eval(const atvi_ode_piece *p, const double q[ATVI_LANES], double *out) {
  atvi_ode_work *w = p->work;
  for (int l = 0; l < ATVI_LANES; l++) {
    double b[7];
    atvi_ode_dense_weights(p->ode->method, q[l], b, NULL);
    w->prog.ts[l] = q[l] >= 1 ? p->record->tnew[l] : p->t[l] + q[l] * p->h[l];
    for (atvi_idx i = l; i < w->n * ATVI_LANES; i += ATVI_LANES)
      w->roots.mid[i] = p->mask >> l & 1 && p->h[l] > 0 ? between(p->ode, w, p->record, i, q[l], b)
                                                        : atvi_ode_record_y(p->record)[i];
  }
  atvi_ode_run(w, &p->ode->path, w->prog.ts, w->roots.mid, NULL, out, NULL);
}

void atvi_ode_walk(const atvi_ode *ode, atvi_ode_work *w, const double *par,
                   void (*fn)(void *user, const atvi_ode_piece *piece), void *user) {
  w->prog.par = par;
  w->delay.ode = ode;
  for (atvi_idx i = 0; i < w->tape.n; i++) {
    const atvi_ode_record *r = atvi_ode_record_at(w, i);
    const bool pulse = r->pulse >= 0;
    if (pulse && i > 0) continue;
    atvi_ode_piece p = {.mask = r->mask, .ode = ode, .work = w, .record = r};
    memcpy(p.t, r->t, sizeof p.t);
    for (int l = 0; l < ATVI_LANES; l++) {
      p.h[l] = pulse ? 0 : r->h[l];
      if (w->prog.n_tab > 0) atvi_ode_set_tab(ode, w, l, r->seg[l]);
      atvi_ode_set_passed(ode, w, l, r->passed[l]);
    }
    if (ode->n_delay) atvi_ode_delay_middle(w, r->t, p.h);
    if (!pulse) finish(ode, w, r);
    fn(user, &p);
  }
}
