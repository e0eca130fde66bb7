/* SPDX-License-Identifier: MIT */
/* Processes in time: the part that does not depend on the instruction set. */
#include "gp/markov_detail.h"
#include "math/rng.h"
#include "math/stat/stat.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Steps that differ only by rounding of the times are equal. */
#define SAME_STEP (4 * DBL_EPSILON)

/* Lays the object out. Runs twice: a.base == NULL measures, else it places. */
static atvi_markov *carve(atvi_arena *a, atvi_idx n, atvi_idx n_used) {
  atvi_markov *o, head = {0};
  ATVI_TAKE(a, o, 1);
  ATVI_TAKE(a, head.used, n);
  ATVI_TAKE(a, head.dt, n + n_used);
  ATVI_TAKE(a, head.all.row, n);
  ATVI_TAKE(a, head.all.step, n);
  ATVI_TAKE(a, head.value.row, n_used);
  ATVI_TAKE(a, head.value.step, n_used);
  if (o) *o = head;
  return o;
}

static atvi_status check(atvi_ctx *ctx, atvi_idx n, const double *time, int n_term,
                         const atvi_gp_kind *term) {
  int states = 0;
  if (n < 1) return ATVI_FAIL(ctx, ATVI_EINVAL, "markov: n = %td, want >= 1", n);
  if (n_term < 1 || n_term > ATVI_MARKOV_TERMS)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "markov: %d terms, want 1 .. %d", n_term, (int)ATVI_MARKOV_TERMS);
  for (int k = 0; k < n_term; k++) {
    if ((int)term[k] < ATVI_GP_WHITE || (int)term[k] > ATVI_GP_MATERN52)
      return ATVI_FAIL(ctx, ATVI_EINVAL, "markov: term %d is of an unknown kind", k + 1);
    states += atvi_gp_markov_order(term[k]);
  }
  if (states > ATVI_MARKOV_STATES)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "markov: the terms have %d states, want at most %d", states,
                     (int)ATVI_MARKOV_STATES);
  for (atvi_idx i = 0; i < n; i++)
    if (!isfinite(time[i]) || (i > 0 && !(time[i] >= time[i - 1])))
      return ATVI_FAIL(ctx, ATVI_EINVAL, "markov: time %td is %g, want finite and ascending", i + 1, time[i]);
  return ATVI_OK;
}

/* Sorts dt[n] and replaces those that differ only by rounding by their mean. Returns the number left. */
static atvi_idx merge(atvi_idx n, double *dt, double tol) {
  atvi_idx kept = 0;
  qsort(dt, (size_t)n, sizeof *dt, atvi_math_by_value);
  for (atvi_idx i = 0, j; i < n; i = j) {
    double sum = 0, from = dt[i], most = from > 0 ? from + tol : 0; /* 0 stays alone */
    for (j = i; j < n && dt[j] <= most; j++) sum += dt[j] - from;
    dt[kept++] = from + sum / (double)(j - i);
  }
  return kept;
}

static atvi_idx nearest(atvi_idx n, const double *dt, double h) {
  atvi_idx lo = 0, hi = n - 1;
  if (h == 0) return 0;
  while (lo < hi) { /* first one >= h */
    atvi_idx mid = (lo + hi) / 2;
    if (dt[mid] < h)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo > 0 && dt[lo - 1] > 0 && h - dt[lo - 1] < fabs(dt[lo] - h) ? lo - 1 : lo;
}

static void set_steps(atvi_markov *m, const double *time) {
  double tol = SAME_STEP * fmax(fabs(time[0]), fabs(time[m->n - 1]));
  atvi_idx n = 0;
  const atvi_markov_path *path[2] = {&m->all, &m->value};
  for (int p = 0; p < 2; p++)
    for (atvi_idx i = 1; i < path[p]->n; i++) m->dt[n++] = time[path[p]->row[i]] - time[path[p]->row[i - 1]];
  m->n_dt = merge(n, m->dt, tol);
  for (int p = 0; p < 2; p++)
    for (atvi_idx i = 1; i < path[p]->n; i++)
      path[p]->step[i] = nearest(m->n_dt, m->dt, time[path[p]->row[i]] - time[path[p]->row[i - 1]]);
}

static void set_terms(atvi_markov *m, int n_term, const atvi_gp_kind *term) {
  int states = 0, entry;
  m->n_term = n_term;
  m->diagonal = true;
  for (int k = 0; k < n_term; k++) {
    int order = atvi_gp_markov_order(term[k]);
    m->kind[k] = term[k];
    m->first[k] = states;
    if (order > 0) m->head[states] = 1;
    if (order > 1) m->diagonal = false;
    states += order;
  }
  m->n_state = states;
  entry = states * states + states * (states + 1) / 2;
  for (int k = 0; k < n_term; k++) {
    int order = atvi_gp_markov_order(term[k]);
    m->unit_at[k] = entry;
    entry += order * (order + 1);
  }
  m->entry = entry;
}

atvi_status atvi_gp_markov_new(atvi_ctx *ctx, atvi_idx n, const double *time, const bool *used, int n_term,
                               const atvi_gp_kind *term, atvi_markov **out) {
  atvi_arena a = {0};
  atvi_idx n_used = 0;
  *out = NULL;
  ATVI_TRY(check(ctx, n, time, n_term, term));
  for (atvi_idx i = 0; i < n; i++) n_used += !used || used[i];
  carve(&a, n, n_used);
  a = (atvi_arena){.base = atvi_block(ctx, a.used)};
  if (!a.base) return ATVI_ENOMEM;
  atvi_markov *m = carve(&a, n, n_used);
  m->ctx = ctx;
  m->n = n;
  for (atvi_idx i = 0; i < n; i++) {
    m->used[i] = !used || used[i];
    m->all.row[m->all.n++] = i;
    if (m->used[i]) m->value.row[m->value.n++] = i;
  }
  set_terms(m, n_term, term);
  set_steps(m, time);
  *out = m;
  return ATVI_OK;
}

void atvi_gp_markov_free(atvi_markov *m) {
  if (m) atvi_block_free(m->ctx, m);
}

static atvi_markov_work *carve_work(atvi_arena *a, const atvi_markov *m) {
  atvi_markov_work *o, head = {0};
  const atvi_idx S = m->n_state, L = ATVI_LANES;
  ATVI_TAKE(a, o, 1);
  ATVI_TAKE(a, head.table, m->n_dt * m->entry * L);
  ATVI_TAKE(a, head.tape, m->n * (S * (S + 1) / 2 + S + 2) * L);
  ATVI_TAKE(a, head.white, 2 * m->n * L);
  ATVI_TAKE(a, head.state, m->n * S * L);
  ATVI_TAKE(a, head.diff, m->n * L);
  ATVI_TAKE(a, head.sum, m->n * L);
  ATVI_TAKE(a, head.mean, m->n_term * m->n * L);
  ATVI_TAKE(a, head.part, m->n_term * m->n * L);
  if (o) *o = head;
  return o;
}

atvi_status atvi_gp_markov_work_new(const atvi_markov *m, atvi_ctx *ctx, atvi_markov_work **out) {
  atvi_arena a = {0};
  *out = NULL;
  carve_work(&a, m);
  a = (atvi_arena){.base = atvi_block(ctx, a.used)};
  if (!a.base) return ATVI_ENOMEM;
  *out = carve_work(&a, m);
  (*out)->ctx = ctx;
  return ATVI_OK;
}

void atvi_gp_markov_work_free(atvi_markov_work *w) {
  if (w) atvi_block_free(w->ctx, w);
}

void atvi_gp_markov_eval(const atvi_markov *m, atvi_markov_work *w, const double *par, const double *resid,
                         double *log_density, double *par_bar, double *resid_bar) {
  if (!par_bar || !resid_bar) par_bar = resid_bar = NULL;
  if (resid_bar && m->value.n < m->n) memset(resid_bar, 0, (size_t)m->n * ATVI_LANES * sizeof *resid_bar);
  ATVI_ISA_PICK(atvi_gp_markov_density)(m, w, par, resid, log_density, par_bar, resid_bar);
}

void atvi_gp_markov_smooth(const atvi_markov *m, atvi_markov_work *w, const double *par, const double *resid,
                           double *mean, double *var, double *var_term, double *loo_mean, double *loo_var) {
  ATVI_ISA_PICK(atvi_gp_markov_back)(m, w, par, resid, mean, var, var_term, loo_mean, loo_var);
}

/* Each row has its own position in the random stream: states, then noise of the value, then noise of the
 * output. */
static void fill_normals(const atvi_markov *m, atvi_markov_work *w, uint64_t seed, atvi_idx first,
                         bool given) {
  const int own = m->n_state, all = own + 1 + given;
  const size_t lane = ATVI_LANES * sizeof(double);
  double row[(ATVI_MARKOV_STATES + 2) * ATVI_LANES];
  for (atvi_idx i = 0; i < m->n; i++) {
    atvi_rng r = atvi_math_rng_at(seed, ATVI_STREAM_OBSERVE, (uint32_t)i, (uint32_t)first);
    double *white = w->white + 2 * i * ATVI_LANES;
    atvi_math_rng_normals(&r, 0, all, row);
    memcpy(w->state + i * own * ATVI_LANES, row, (size_t)own * lane);
    memset(white, 0, 2 * lane);
    memcpy(white, row + own * ATVI_LANES, (size_t)(all - own) * lane);
  }
}

static void noise_sd(const atvi_markov *m, const double *par, double sd[ATVI_LANES]) {
  for (int l = 0; l < ATVI_LANES; l++) {
    double sum = 0;
    for (int k = 0; k < m->n_term; k++)
      if (m->kind[k] == ATVI_GP_WHITE) sum += par[2 * k * ATVI_LANES + l];
    sd[l] = sqrt(sum);
  }
}

/* Given values: a joint draw of processes and values, corrected by smoothing the difference between given and
 * drawn values (Durbin and Koopman 2002), has the conditional law at the cost of one smoothing. */
void atvi_gp_markov_draw(const atvi_markov *m, atvi_markov_work *w, const double *par, const double *given,
                         uint64_t seed, atvi_idx first, double *out) {
  enum { L = ATVI_LANES };
  double sd[L];
  fill_normals(m, w, seed, first, given);
  noise_sd(m, par, sd);
  ATVI_ISA_PICK(atvi_gp_markov_sample)(m, w, par);
  for (atvi_idx i = 0; i < m->n; i++)
    for (int l = 0; l < L; l++) {
      double value = w->sum[i * L + l] + sd[l] * w->white[2 * i * L + l];
      out[i * L + l] = given ? w->sum[i * L + l] + sd[l] * w->white[(2 * i + 1) * L + l] : value;
      if (given) w->diff[i * L + l] = m->used[i] ? given[i * L + l] - value : 0;
    }
  if (!given) return;
  atvi_gp_markov_smooth(m, w, par, w->diff, w->mean, NULL, NULL, NULL, NULL);
  for (int k = 0; k < m->n_term; k++)
    for (atvi_idx i = 0; i < m->n * L; i++) {
      out[i] += w->mean[k * m->n * L + i];
      w->part[k * m->n * L + i] += w->mean[k * m->n * L + i];
    }
}

const double *atvi_gp_markov_drawn(const atvi_markov_work *w) { return w->part; }
