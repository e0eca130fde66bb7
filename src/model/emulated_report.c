/* SPDX-License-Identifier: MIT */
/* Sums of processes in the optional members of the target. */
#include "model/model.h"
#include <math.h>

enum { L = ATVI_LANES, G = ATVI_EM_GROUP };

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
  atvi_idx at = r->m->obs_at[p->observe];
  for (atvi_idx i = 0; i < p->n; i++)
    for (int l = 0; l < real; l++)
      r->out[(at + p->row[i]) * r->B + first + l] = own[i * L + l] + rest[i * L + l];
  if (p->out_emulator >= 0) spread(r, p, own, p->out_emulator, first, real);
  if (p->out_rest >= 0) spread(r, p, rest, p->out_rest, first, real);
}

static void report_means(const reporting *r, atvi_idx k, int part, atvi_idx first, int real) {
  const double *own, *rest;
  atvi_emulated_means(r->m->emulated, r->w->emulated, k, part, r->w->arg, &own, &rest);
  put_parts(r, &r->m->emulated->process[k], own, rest, first, real);
}

static void report_drawn(const reporting *r, atvi_idx k, int part, atvi_idx first, int real) {
  const double *own, *rest;
  atvi_emulated_drawn(r->m->emulated, r->w->emulated, k, part, r->w->arg, r->seed, r->draw + first, &own,
                      &rest);
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
      x = atvi_emulated_pointwise(e, r->w->emulated, k, part, r->w->arg);
    else if (r->kind == ATVI_REPORT_LEAVE_ONE_OUT)
      x = atvi_emulated_others(e, r->w->emulated, k, part, r->w->arg, r->seed, r->draw + first);
    else
      x = atvi_emulated_draw(e, r->w->emulated, k, part, r->w->arg, r->kind == ATVI_REPORT_PREDICTIVE,
                             r->seed, r->draw + first);
    spread(r, p, x, r->m->obs_at[p->observe], first, real);
  }
}

void atvi_model_report_processes(const atvi_model *m, atvi_model_work *w, atvi_report_kind kind,
                                 uint64_t seed, atvi_idx draw, atvi_idx B, const double *theta, double *out) {
  reporting r = {m, w, kind, seed, draw, B, out};
  for (atvi_idx at = 0; m->emulated && at < B; at += G) {
    atvi_emulated_begin(m->emulated, w->emulated, true, B, theta, at);
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
