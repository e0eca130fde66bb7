/* SPDX-License-Identifier: MIT */
/* Sums of processes: from the description to objects that can be evaluated. */
#include "model/emulated.h"
#include "model/model.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Times of data and of an emulator are one if they differ by no more than simulators lose that print six
 * digits, or than rounding of the largest time leaves (0 has no digits); and never by more than this share of
 * the way to the next output. */
static const double SAME_DIGITS = 5.01e-6, SAME_ROUNDED = 1e-14, SAME_STEP = 1e-3;
/* Range of the error of an output that is one number: no two rows are so far apart that it changes. */
static const double FOR_EVER = 1e200;

typedef struct {
  atvi_ctx *ctx;
  atvi_pool *pool;
  const atvi_lang *lang;
  const atvi_model_load_opts *opts;
  bool *const *held;
  atvi_emulated *e;
  atvi_idx cap_arg;
  /* it was reported that an emulator is fitted anew */
  bool refitted;
} building;

static void *take(const building *b, atvi_idx n, size_t size) {
  return atvi_pool_take(b->pool, (size_t)n + 1, size);
}

/* ---- emulators ---- */

/* The one of a fit, which must be of these runs. */
static atvi_status load_kept(const building *b, const char *path, const char *name,
                             const atvi_emulated_runs *r, atvi_emulator **out) {
  atvi_status status = atvi_gp_emulator_load(b->ctx, path, &r->runs, &r->opts, NULL, out);
  const char *why = status == ATVI_EDATA ? atvi_pool_printf(b->pool, "%s", atvi_errmsg(b->ctx)) : NULL;
  if (!why) return status;
  return ATVI_FAIL(b->ctx, ATVI_EDATA,
                   "%s\nThe runs of the emulator '%s' are not what they were at the time of the fit: there "
                   "are %td now.\nhint: put them back as they were, say where they are, or fit again",
                   why, name, r->runs.n);
}

/* After a change of priors or runs this is expected, and reported once for all emulators; a file that cannot
 * be read is not. */
static void report_refit(building *b, const char *name, const char *path, bool other) {
  if (!other)
    atvi_log(b->ctx, ATVI_LOG_WARN, "emulator '%s': %s is not used: %s; it is fitted anew", name, path,
             atvi_errmsg(b->ctx));
  else if (!b->refitted)
    atvi_log(b->ctx, ATVI_LOG_NOTE,
             "the emulator '%s' is fitted anew: since %s was made, runs, priors or settings have changed",
             name, path);
  b->refitted = b->refitted || other;
}

/* The one that was kept, if it was fitted to these runs with these settings; else a new one. */
static atvi_status fit(building *b, atvi_idx k, const atvi_emulated_runs *r, atvi_emulator **out) {
  const char *name = b->lang->emulator[k].name, *of_fit = b->opts->emulators;
  const char *path = atvi_model_emulated_path(b->pool, b->lang, k, of_fit ? of_fit : b->opts->runs);
  if (!path) return ATVI_ENOMEM;
  if (of_fit && access(path, F_OK) == 0) return load_kept(b, path, name, r, out);
  if (access(path, R_OK) == 0) {
    bool other;
    atvi_status status = atvi_gp_emulator_load(b->ctx, path, &r->runs, &r->opts, &other, out);
    if (status == ATVI_OK || status == ATVI_ENOMEM) return status;
    report_refit(b, name, path, other);
  }
  return atvi_gp_emulator_new(b->ctx, &r->runs, &r->opts, out);
}

static atvi_status use_emulator(building *b, atvi_idx k, const atvi_emulated_runs *r) {
  atvi_emulation *em = &b->e->emulator[k];
  em->input = b->lang->emulator[k].input;
  em->d = r->runs.d, em->m = r->runs.m;
  em->axis = r->axis;
  em->time = r->runs.time;
  em->counted = em->m > 1 && !em->time;
  if (em->counted) {
    double *time = take(b, em->m, sizeof *time);
    if (!time) return ATVI_ENOMEM;
    for (atvi_idx t = 0; t < em->m; t++) time[t] = (double)(t + 1);
    em->time = time;
  }
  if (r->record.lines > 0) b->e->lines = r->record.lines;
  ATVI_TRY(fit(b, k, r, &em->em));
  return atvi_model_dossier_make(b->pool, b->lang, k, r, em->em, &em->dossier);
}

/* Those that observations have, all from the same state of the record. */
static atvi_status use_emulators(building *b) {
  const atvi_lang *lang = b->lang;
  const atvi_emulated *like = b->opts->like ? b->opts->like->emulated : NULL;
  if (like) {
    b->e->borrowed = true;
    b->e->lines = like->lines;
    memcpy(b->e->emulator, like->emulator, (size_t)lang->n_emulator * sizeof *like->emulator);
    return ATVI_OK;
  }
  bool *use = take(b, lang->n_emulator, sizeof *use), any = false;
  atvi_emulated_runs *r = take(b, lang->n_emulator, sizeof *r);
  if (!use || !r) return ATVI_ENOMEM;
  for (atvi_idx o = 0; o < lang->n_observe; o++)
    for (atvi_idx t = 0; t < lang->observe[o].n_term; t++)
      if (lang->observe[o].term[t].kind == ATVI_TERM_EMULATOR)
        any = use[lang->observe[o].term[t].emulator] = true;
  if (!any) return ATVI_OK;
  ATVI_TRY(atvi_model_emulated_runs_read(b->pool, lang, use, b->opts->runs, b->opts->runs_lines, r));
  for (atvi_idx k = 0; k < lang->n_emulator; k++)
    if (use[k]) ATVI_TRY(use_emulator(b, k, &r[k]));
  return ATVI_OK;
}

/* ---- rows ---- */

typedef struct {
  double time;
  atvi_idx row;
} moment;

static int by_time(const void *a, const void *b) {
  const moment *x = a, *y = b;
  if (x->time != y->time) return x->time < y->time ? -1 : 1;
  return (x->row > y->row) - (x->row < y->row);
}

static atvi_status no_such_time(const building *b, const atvi_process *p, const moment *at) {
  const atvi_lang_data *data = &b->lang->data[p->data];
  const atvi_emulation *em = &b->e->emulator[p->emulator];
  const char *name = b->lang->emulator[p->emulator].name;
  if (!data->csv || at->row >= data->csv->n_row)
    return ATVI_FAIL(b->ctx, ATVI_EINVAL,
                     "times: the emulator '%s' has no output at time %.9g; it has %td, from %g to %g", name,
                     at->time, em->m, em->time[0], em->time[em->m - 1]);
  const char *hint =
      em->counted
          ? "the runs have no times, so that these are 1, 2, ...; 'time COLUMN' in the output's line gives "
            "them, or 'times' in the emulator's block"
          : "times of data and of runs must be in the same unit, and every time of the data among the runs'";
  return ATVI_FAIL(b->ctx, ATVI_EDATA,
                   "%s:%d:1: error: the emulator '%s' has no output at time %.9g; it has %td, from %g to %g\n"
                   "hint: %s",
                   data->csv->path, data->csv->line[at->row], name, at->time, em->m, em->time[0],
                   em->time[em->m - 1], hint);
}

/* How far from the output k a time may be that is still its own. */
static double tolerance(const atvi_emulation *em, atvi_idx k) {
  const double *t = em->time;
  double eps = fmax(SAME_DIGITS * fabs(t[k]), SAME_ROUNDED * fmax(fabs(t[0]), fabs(t[em->m - 1])));
  if (k > 0) eps = fmin(eps, SAME_STEP * (t[k] - t[k - 1]));
  if (k + 1 < em->m) eps = fmin(eps, SAME_STEP * (t[k + 1] - t[k]));
  return eps;
}

/* The emulator's output at that time, -1 if there is none. */
static atvi_idx output_at(const atvi_emulation *em, double t) {
  if (!em->time) return 0;
  atvi_idx k = atvi_model_time_nearest(em->m, em->time, t);
  return fabs(em->time[k] - t) <= tolerance(em, k) ? k : -1;
}

static atvi_status set_places(const building *b, atvi_process *p, const moment *at, double *time) {
  const atvi_lang_observe *o = &b->lang->observe[p->observe];
  const atvi_lang_data *data = &b->lang->data[p->data];
  for (atvi_idx i = 0; i < p->n; i++) {
    atvi_idx r = p->row[i] = at[i].row;
    time[i] = at[i].time;
    p->value[i] = o->column >= 0 ? data->value[r * data->n_col + o->column] : NAN;
    p->used[i] = !isnan(p->value[i]) && !b->opts->forward && !(b->held && b->held[p->data][r]);
    if (p->emulator >= 0 && (p->em_row[i] = output_at(&b->e->emulator[p->emulator], at[i].time)) < 0)
      return no_such_time(b, p, &at[i]);
    if (!p->used[i]) continue;
    p->used_at[p->n_used] = i;
    p->em_used[p->n_used++] = p->em_row[i];
  }
  return ATVI_OK;
}

static atvi_status rows(const building *b, atvi_process *p) {
  const atvi_lang_data *data = &b->lang->data[p->data];
  atvi_idx n = p->n = data->n_row;
  moment *at = take(b, n, sizeof *at);
  double *time = take(b, n, sizeof *time);
  p->row = take(b, n, sizeof *p->row);
  p->value = take(b, n, sizeof *p->value);
  p->used = take(b, n, sizeof *p->used);
  p->em_row = take(b, n, sizeof *p->em_row);
  p->used_at = take(b, n, sizeof *p->used_at);
  p->em_used = take(b, n, sizeof *p->em_used);
  if (!at || !time || !p->row || !p->value || !p->used || !p->em_row || !p->used_at || !p->em_used)
    return ATVI_ENOMEM;
  for (atvi_idx r = 0; r < n; r++) at[r] = (moment){data->time ? data->time[r] : (double)(r + 1), r};
  qsort(at, (size_t)n, sizeof *at, by_time);
  ATVI_TRY(set_places(b, p, at, time));
  return n > 0 ? atvi_gp_markov_new(b->ctx, n, time, p->used, p->n_term, p->kind, &p->markov) : ATVI_OK;
}

/* ---- terms ---- */

/* Number of an argument; one that was seen before keeps its number. -1: ENOMEM. */
static atvi_idx argument(building *b, atvi_node x) {
  atvi_emulated *e = b->e;
  for (atvi_idx i = 0; i < e->n_arg; i++)
    if (e->arg[i] == x) return i;
  if (!ATVI_PUSH(b->pool, e->arg, e->n_arg, b->cap_arg)) return -1;
  e->arg[e->n_arg] = x;
  return e->n_arg++;
}

static atvi_status terms(building *b, atvi_process *p) {
  static const atvi_gp_kind KIND[] = {[ATVI_TERM_EMULATOR] = ATVI_GP_EXPONENTIAL,
                                      [ATVI_TERM_EXPONENTIAL] = ATVI_GP_EXPONENTIAL,
                                      [ATVI_TERM_MATERN32] = ATVI_GP_MATERN32,
                                      [ATVI_TERM_MATERN52] = ATVI_GP_MATERN52,
                                      [ATVI_TERM_WHITE] = ATVI_GP_WHITE};
  const atvi_lang_observe *o = &b->lang->observe[p->observe];
  p->n_term = (int)o->n_term;
  p->own = -1;
  for (int t = 0; t < p->n_term; t++) {
    const atvi_lang_term *term = &o->term[t];
    bool own = term->kind == ATVI_TERM_EMULATOR;
    p->kind[t] = KIND[term->kind];
    if (own) p->own = t;
    p->has_rest = p->has_rest || (!own && term->kind != ATVI_TERM_WHITE);
    for (int c = 0; c < 2; c++) {
      p->arg[t][c] = -1;
      p->number[t][c] = 1; /* a range that is not read */
      if ((own && c == 1) || term->arg[c] == ATVI_NODE_NONE) continue;
      if ((p->arg[t][c] = argument(b, term->arg[c])) < 0) return ATVI_ENOMEM;
    }
    if (!own) continue;
    const atvi_emulation *em = &b->e->emulator[p->emulator];
    const atvi_em_info *info = atvi_gp_emulator_info(em->em);
    p->number[t][0] = info->sill;
    p->dropped = info->dropped;
    p->number[t][1] = em->m > 1 ? info->time_length : FOR_EVER;
  }
  return ATVI_OK;
}

static atvi_status process(building *b, atvi_idx o, atvi_process *p) {
  const atvi_lang_observe *obs = &b->lang->observe[o];
  *p = (atvi_process){.observe = o, .data = obs->data, .emulator = -1, .out_emulator = -1, .out_rest = -1};
  for (atvi_idx t = 0; t < obs->n_term; t++)
    if (obs->term[t].kind == ATVI_TERM_EMULATOR) p->emulator = obs->term[t].emulator;
  ATVI_TRY(terms(b, p));
  return rows(b, p);
}

atvi_status atvi_model_emulated_new(atvi_pool *pool, const atvi_lang *lang, const atvi_model_load_opts *opts,
                                    bool *const *held, atvi_emulated **out) {
  building b = {.ctx = atvi_pool_ctx(pool), .pool = pool, .lang = lang, .opts = opts, .held = held};
  atvi_idx n = 0;
  *out = NULL;
  for (atvi_idx o = 0; o < lang->n_observe; o++) n += lang->observe[o].n_term > 0;
  if (n == 0) return ATVI_OK;
  atvi_emulated *e = b.e = take(&b, 1, sizeof *e);
  if (!e) return ATVI_ENOMEM;
  e->emulator = take(&b, lang->n_emulator, sizeof *e->emulator);
  e->process = take(&b, n, sizeof *e->process);
  if (!e->emulator || !e->process) return ATVI_ENOMEM;
  e->n_emulator = lang->n_emulator;
  atvi_status status = use_emulators(&b);
  for (atvi_idx o = 0; status == ATVI_OK && o < lang->n_observe; o++)
    if (lang->observe[o].n_term > 0) status = process(&b, o, &e->process[e->n++]);
  if (status != ATVI_OK) {
    atvi_model_emulated_free(e);
    return status;
  }
  *out = e;
  return ATVI_OK;
}

void atvi_model_emulated_free(atvi_emulated *e) {
  if (!e) return;
  for (atvi_idx k = 0; k < e->n; k++) atvi_gp_markov_free(e->process[k].markov);
  for (atvi_idx k = 0; k < e->n_emulator && !e->borrowed; k++) atvi_gp_emulator_free(e->emulator[k].em);
}
