/* SPDX-License-Identifier: MIT */
/* Sums of processes at points: likelihood, gradient, and what reports need.
 *
 *   theta -> x -> mean, share -> residuals, variances -> log density
 *
 * and back. A point is one of a group of G for the emulators and one of a part of L for the processes. */
#include "math/rng.h"
#include "math/special.h"
#include "model/emulated.h"
#include "model/model.h"
#include <math.h>

enum { L = ATVI_LANES, G = ATVI_EM_GROUP };

typedef struct {
  atvi_em_work *fit, *all; /* outputs of the used places, and of all */
  atvi_markov_work *markov;
  double *x, *x_bar;         /* [d][G] */
  double *mean, *mean_bar;   /* [n][G]; the used places alone unless `all` */
  double *share, *share_bar; /* [G] */
  atvi_idx held;             /* of the points x, all outputs are in mean and share; 0: they are not */
  double *par, *par_bar;     /* [2 n_term][L] */
  double *resid, *resid_bar; /* [n][L] */
  double *term;              /* [n_term][n][L] */
  double *one, *two;         /* [n][L] */
} seat;

struct atvi_emulated_work {
  atvi_ctx *ctx;
  atvi_idx n;
  seat *seat; /* [n] one per process */
};

static atvi_emulated_work *carve(atvi_arena *a, const atvi_emulated *e) {
  atvi_emulated_work *o, head = {.n = e->n};
  ATVI_TAKE(a, o, 1);
  ATVI_TAKE(a, head.seat, e->n);
  for (atvi_idx k = 0; k < e->n; k++) {
    const atvi_process *p = &e->process[k];
    atvi_idx d = p->emulator >= 0 ? e->emulator[p->emulator].d : 0, n = p->emulator >= 0 ? p->n : 0;
    seat s = {0};
    ATVI_TAKE(a, s.x, d * G);
    ATVI_TAKE(a, s.x_bar, d * G);
    ATVI_TAKE(a, s.mean, n * G);
    ATVI_TAKE(a, s.mean_bar, n * G);
    ATVI_TAKE(a, s.share, G);
    ATVI_TAKE(a, s.share_bar, G);
    ATVI_TAKE(a, s.par, 2 * p->n_term * L);
    ATVI_TAKE(a, s.par_bar, 2 * p->n_term * L);
    ATVI_TAKE(a, s.resid, p->n * L);
    ATVI_TAKE(a, s.resid_bar, p->n * L);
    ATVI_TAKE(a, s.term, p->n_term * p->n * L);
    ATVI_TAKE(a, s.one, p->n * L);
    ATVI_TAKE(a, s.two, p->n * L);
    if (o) head.seat[k] = s;
  }
  if (o) *o = head;
  return o;
}

static atvi_status seat_new(const atvi_emulated *e, atvi_ctx *ctx, const atvi_process *p, seat *s) {
  if (p->n == 0) return ATVI_OK;
  ATVI_TRY(atvi_gp_markov_work_new(p->markov, ctx, &s->markov));
  if (p->emulator < 0) return ATVI_OK;
  const atvi_emulator *em = e->emulator[p->emulator].em;
  if (p->n_used > 0) ATVI_TRY(atvi_gp_em_work_new(em, ctx, p->n_used, p->em_used, &s->fit));
  return atvi_gp_em_work_new(em, ctx, p->n, p->em_row, &s->all);
}

atvi_status atvi_model_emulated_work_new(const atvi_emulated *e, atvi_ctx *ctx, atvi_emulated_work **out) {
  atvi_arena a = {0};
  *out = NULL;
  carve(&a, e);
  a = (atvi_arena){.base = atvi_block(ctx, a.used)};
  if (!a.base) return ATVI_ENOMEM;
  atvi_emulated_work *w = carve(&a, e);
  w->ctx = ctx;
  for (atvi_idx k = 0; k < e->n; k++) {
    atvi_status status = seat_new(e, ctx, &e->process[k], &w->seat[k]);
    if (status == ATVI_OK) continue;
    atvi_model_emulated_work_free(w);
    return status;
  }
  *out = w;
  return ATVI_OK;
}

void atvi_model_emulated_work_free(atvi_emulated_work *w) {
  if (!w) return;
  for (atvi_idx k = 0; k < w->n; k++) {
    atvi_gp_em_work_free(w->seat[k].fit);
    atvi_gp_em_work_free(w->seat[k].all);
    atvi_gp_markov_work_free(w->seat[k].markov);
  }
  atvi_block_free(w->ctx, w);
}

void atvi_model_emulated_begin(const atvi_emulated *e, atvi_emulated_work *w, bool all, atvi_idx B,
                               const double *theta, atvi_idx first) {
  atvi_idx real = B - first < G ? B - first : G;
  for (atvi_idx k = 0; k < e->n; k++) {
    const atvi_process *p = &e->process[k];
    seat *s = &w->seat[k];
    atvi_em_work *em_work = all ? s->all : s->fit;
    if (!em_work) continue;
    const atvi_emulation *em = &e->emulator[p->emulator];
    bool again = all && s->held == real;
    for (atvi_idx j = 0; j < em->d; j++)
      for (int b = 0; b < G; b++) {
        double v = theta[em->input[j] * B + first + (b < real ? b : real - 1)],
               x = atvi_model_emulated_axis_x(&em->axis[j], v);
        again = again && s->x[j * G + b] == x;
        s->x[j * G + b] = x;
      }
    if (again) continue; /* a report asks several things of the same points */
    s->held = all ? real : 0;
    atvi_gp_em_use(em_work, (int)real);
    atvi_gp_em_eval(em->em, em_work, s->x, s->mean, s->share);
  }
}

/* Sill of the emulator's error. */
static double sill(const atvi_process *p, const double *arg, int l) {
  atvi_idx a = p->arg[p->own][0];
  return a >= 0 ? arg[a * L + l] : p->number[p->own][0];
}

/* Its variance: what the basis drops is in units of the sill that was found. Below 0 a sill is none, whatever
 * that adds. */
static double own_variance(const atvi_process *p, const double *arg, double share, int l) {
  double s = sill(p, arg, l);
  return s >= 0 ? s * (share - p->dropped) + p->dropped * p->number[p->own][0] : NAN;
}

static void parameters(const atvi_process *p, const seat *s, int part, const double *arg) {
  for (int t = 0; t < p->n_term; t++)
    for (int c = 0; c < 2; c++)
      for (int l = 0; l < L; l++)
        s->par[(2 * t + c) * L + l] = p->arg[t][c] >= 0 ? arg[p->arg[t][c] * L + l] : p->number[t][c];
  for (int l = 0; p->own >= 0 && l < L; l++)
    s->par[2 * p->own * L + l] = own_variance(p, arg, s->share[part + l], l);
}

static void parameters_back(const atvi_process *p, const seat *s, int part, const double *arg,
                            double *arg_bar) {
  for (int t = 0; t < p->n_term; t++)
    for (int c = 0; c < 2; c++)
      for (int l = 0; l < L && p->arg[t][c] >= 0; l++)
        arg_bar[p->arg[t][c] * L + l] +=
            s->par_bar[(2 * t + c) * L + l] * (t == p->own ? s->share[part + l] - p->dropped : 1);
  for (int l = 0; p->own >= 0 && l < L; l++)
    s->share_bar[part + l] = s->par_bar[2 * p->own * L + l] * sill(p, arg, l);
}

const double *atvi_model_emulated_terms(const atvi_emulated *e, atvi_emulated_work *w, atvi_idx k, int part,
                                        const double *arg, double *mean) {
  const seat *s = &w->seat[k];
  parameters(&e->process[k], s, part, arg);
  for (atvi_idx u = 0; u < e->process[k].n_used; u++)
    for (int l = 0; l < L; l++) mean[u * L + l] = s->mean[u * G + part + l];
  return s->par;
}

void atvi_model_emulated_lanes(const atvi_emulated *e, atvi_emulated_work *w, int part, const double *arg,
                               double *arg_bar, double *sum) {
  for (atvi_idx k = 0; k < e->n; k++) {
    const atvi_process *p = &e->process[k];
    const seat *s = &w->seat[k];
    double log_density[L];
    if (p->n_used == 0) continue;
    parameters(p, s, part, arg);
    for (atvi_idx u = 0; u < p->n_used; u++)
      for (int l = 0; l < L; l++)
        s->resid[p->used_at[u] * L + l] = p->value[p->used_at[u]] - (s->fit ? s->mean[u * G + part + l] : 0);
    atvi_gp_markov_eval(p->markov, s->markov, s->par, s->resid, log_density, arg_bar ? s->par_bar : NULL,
                        arg_bar ? s->resid_bar : NULL);
    for (int l = 0; l < L; l++) sum[l] += log_density[l];
    if (!arg_bar) continue;
    parameters_back(p, s, part, arg, arg_bar);
    for (atvi_idx u = 0; s->fit && u < p->n_used; u++)
      for (int l = 0; l < L; l++) s->mean_bar[u * G + part + l] = -s->resid_bar[p->used_at[u] * L + l];
  }
}

void atvi_model_emulated_end(const atvi_emulated *e, atvi_emulated_work *w, atvi_idx B, atvi_idx first,
                             const bool *good, double *grad) {
  for (atvi_idx k = 0; k < e->n; k++) {
    seat *s = &w->seat[k];
    if (!s->fit) continue;
    const atvi_emulation *em = &e->emulator[e->process[k].emulator];
    atvi_gp_em_vjp(em->em, s->fit, s->mean_bar, s->share_bar, s->x_bar);
    for (atvi_idx j = 0; j < em->d; j++)
      for (int b = 0; b < G && first + b < B; b++)
        if (good[b])
          grad[em->input[j] * B + first + b] +=
              s->x_bar[j * G + b] * atvi_model_emulated_axis_slope(&em->axis[j], s->x[j * G + b]);
  }
}

/* ---- reports ---- */

/* Parameters and residuals in all places. */
static void prepare(const atvi_process *p, const seat *s, int part, const double *arg) {
  parameters(p, s, part, arg);
  for (atvi_idx i = 0; i < p->n; i++)
    for (int l = 0; l < L; l++) s->resid[i * L + l] = p->value[i] - (s->all ? s->mean[i * G + part + l] : 0);
}

/* Terms [n_term][n][L] as the emulator's output, with its mean, and the rest. */
static void split(const atvi_process *p, const seat *s, int part, const double *term, const double **emulator,
                  const double **rest) {
  for (atvi_idx i = 0; i < p->n; i++)
    for (int l = 0; l < L; l++) {
      double own = s->all ? s->mean[i * G + part + l] : 0, other = 0;
      for (int t = 0; t < p->n_term; t++) {
        double x = term[(t * p->n + i) * L + l];
        if (t == p->own)
          own += x;
        else
          other += x;
      }
      s->one[i * L + l] = own, s->two[i * L + l] = other;
    }
  *emulator = s->one;
  *rest = s->two;
}

/* Conditional means of process k given its used values, by place: of the emulator's output (with its mean)
 * and of the rest: [n][L] each. */
static void means_of(const atvi_emulated *e, atvi_emulated_work *w, atvi_idx k, int part, const double *arg,
                     const double **emulator, const double **rest) {
  const atvi_process *p = &e->process[k];
  const seat *s = &w->seat[k];
  prepare(p, s, part, arg);
  atvi_gp_markov_smooth(p->markov, s->markov, s->par, s->resid, s->term, NULL, NULL, NULL, NULL);
  split(p, s, part, s->term, emulator, rest);
}

/* Log density of each value given all others, by place: [n][L], NaN where missing. */
static const double *pointwise_of(const atvi_emulated *e, atvi_emulated_work *w, atvi_idx k, int part,
                                  const double *arg) {
  const atvi_process *p = &e->process[k];
  const seat *s = &w->seat[k];
  prepare(p, s, part, arg);
  atvi_gp_markov_smooth(p->markov, s->markov, s->par, s->resid, NULL, NULL, NULL, s->one, s->two);
  for (atvi_idx i = 0; i < p->n * L; i++) {
    double z = s->resid[i] - s->one[i],
           log_density = -0.5 * (ATVI_LOG_2PI + log(s->two[i]) + z * z / s->two[i]);
    s->one[i] = isnan(p->value[i / L]) ? NAN : isnan(log_density) ? -HUGE_VAL : log_density;
  }
  return s->one;
}

/* Each value drawn given all others, by place: [n][L]. Lane b is draw number draw + b. */
static const double *drawn_given_others(const atvi_emulated *e, atvi_emulated_work *w, atvi_idx k, int part,
                                        const double *arg, uint64_t seed, atvi_idx draw) {
  const atvi_process *p = &e->process[k];
  const seat *s = &w->seat[k];
  atvi_rng own = atvi_math_rng_at(seed, ATVI_STREAM_PREDICT, (uint32_t)(p->observe + 1), 1);
  uint64_t key = atvi_math_rng_bits(&own);
  prepare(p, s, part, arg);
  atvi_gp_markov_smooth(p->markov, s->markov, s->par, s->resid, NULL, NULL, NULL, s->one, s->two);
  for (atvi_idx i = 0; i < p->n; i++) {
    atvi_rng r = atvi_math_rng_at(key, ATVI_STREAM_OBSERVE, (uint32_t)p->row[i], (uint32_t)draw);
    double z[L];
    atvi_math_rng_normals(&r, 0, 1, z);
    for (int l = 0; l < L; l++) {
      double mean = s->one[i * L + l] + (s->all ? s->mean[i * G + part + l] : 0);
      s->one[i * L + l] = mean + sqrt(s->two[i * L + l]) * z[l];
    }
  }
  return s->one;
}

/* Simulated values, by place: [n][L]; given the data or not. Lane b is draw number draw + b. */
static const double *draw_of(const atvi_emulated *e, atvi_emulated_work *w, atvi_idx k, int part,
                             const double *arg, bool given, uint64_t seed, atvi_idx draw) {
  const atvi_process *p = &e->process[k];
  const seat *s = &w->seat[k];
  atvi_rng r = atvi_math_rng_at(seed, ATVI_STREAM_PREDICT, (uint32_t)(p->observe + 1),
                                0); /* its own for each observation */
  prepare(p, s, part, arg);
  atvi_gp_markov_draw(p->markov, s->markov, s->par, given ? s->resid : NULL, atvi_math_rng_bits(&r), draw,
                      s->one);
  for (atvi_idx i = 0; s->all && i < p->n; i++)
    for (int l = 0; l < L; l++) s->one[i * L + l] += s->mean[i * G + part + l];
  return s->one;
}

/* The parts of a draw given the data, as means_of has those of the means. */
static void drawn_parts(const atvi_emulated *e, atvi_emulated_work *w, atvi_idx k, int part,
                        const double *arg, uint64_t seed, atvi_idx draw, const double **emulator,
                        const double **rest) {
  draw_of(e, w, k, part, arg, true, seed, draw);
  split(&e->process[k], &w->seat[k], part, atvi_gp_markov_drawn(w->seat[k].markov), emulator, rest);
}

/* Sums of processes in the optional members of the target. */

typedef struct {
  const atvi_model *m;
  atvi_model_work *w;
  atvi_report_kind kind;
  uint64_t seed;
  atvi_idx draw; /* number of the first point's draw */
  atvi_idx B;
  double *out;
} reporting;

/* from[n][L], by place, to the rows of a series that begins at `at`. */
static void spread(const reporting *r, const atvi_process *p, const double *from, atvi_idx at, atvi_idx first,
                   int real) {
  for (atvi_idx i = 0; i < p->n; i++)
    for (int l = 0; l < real; l++) r->out[(at + p->row[i]) * r->B + first + l] = from[i * L + l];
}

/* The two parts and, in the observed series, their sum: the processes without noise. */
static void put_parts(const reporting *r, const atvi_process *p, const double *own, const double *rest,
                      atvi_idx first, int real) {
  atvi_idx at = r->m->rare.obs_at[p->observe];
  for (atvi_idx i = 0; i < p->n; i++)
    for (int l = 0; l < real; l++)
      r->out[(at + p->row[i]) * r->B + first + l] = own[i * L + l] + rest[i * L + l];
  if (p->out_emulator >= 0) spread(r, p, own, p->out_emulator, first, real);
  if (p->out_rest >= 0) spread(r, p, rest, p->out_rest, first, real);
}

static void report_means(const reporting *r, atvi_idx k, int part, atvi_idx first, int real) {
  const double *own, *rest;
  means_of(r->m->emulated, r->w->emulated, k, part, r->w->arg, &own, &rest);
  put_parts(r, &r->m->emulated->process[k], own, rest, first, real);
}

static void report_drawn(const reporting *r, atvi_idx k, int part, atvi_idx first, int real) {
  const double *own, *rest;
  drawn_parts(r->m->emulated, r->w->emulated, k, part, r->w->arg, r->seed, r->draw + first, &own, &rest);
  put_parts(r, &r->m->emulated->process[k], own, rest, first, real);
}

static void report_part(const reporting *r, int part, atvi_idx first, int real) {
  const atvi_emulated *e = r->m->emulated;
  for (atvi_idx k = 0; k < e->n; k++) {
    const atvi_process *p = &e->process[k];
    const double *x;
    if (p->n == 0) continue;
    if (r->kind == ATVI_REPORT_PREDICT) {
      report_means(r, k, part, first, real);
      continue;
    }
    if (r->kind == ATVI_REPORT_LATENT) {
      report_drawn(r, k, part, first, real);
      continue;
    }
    if (r->kind == ATVI_REPORT_POINTWISE)
      x = pointwise_of(e, r->w->emulated, k, part, r->w->arg);
    else if (r->kind == ATVI_REPORT_LEAVE_ONE_OUT)
      x = drawn_given_others(e, r->w->emulated, k, part, r->w->arg, r->seed, r->draw + first);
    else
      x = draw_of(e, r->w->emulated, k, part, r->w->arg, r->kind == ATVI_REPORT_PREDICTIVE, r->seed,
                  r->draw + first);
    spread(r, p, x, r->m->rare.obs_at[p->observe], first, real);
  }
}

void atvi_model_report_processes(const atvi_model *m, atvi_model_work *w, atvi_report_kind kind,
                                 uint64_t seed, atvi_idx draw, atvi_idx B, const double *theta, double *out) {
  reporting r = {m, w, kind, seed, draw, B, out};
  for (atvi_idx at = 0; m->emulated && at < B; at += G) {
    atvi_model_emulated_begin(m->emulated, w->emulated, true, B, theta, at);
    for (int part = 0; part < G && at + part < B; part += L) {
      atvi_outcome outcome[L]; /* without states there is nothing that could fail */
      int real = atvi_model_load_lanes(m, w, B, theta, at + part);
      atvi_model_solve(m, w, false, outcome);
      report_part(&r, part, at + part, real);
    }
  }
}

atvi_series_part atvi_model_series_part(const atvi_model *m, atvi_idx series) {
  atvi_idx at = 0;
  for (atvi_idx s = 0; s < series; s++) at += m->target.series[s].n;
  if (m->target.series[series].kind != ATVI_SERIES_TRACKED || !m->emulated) return ATVI_PART_WHOLE;
  for (atvi_idx k = 0; k < m->emulated->n; k++) {
    if (m->emulated->process[k].out_emulator == at) return ATVI_PART_EMULATOR;
    if (m->emulated->process[k].out_rest == at) return ATVI_PART_REST;
  }
  return ATVI_PART_WHOLE;
}
