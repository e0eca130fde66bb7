/* SPDX-License-Identifier: MIT */
/* The emulators that a fit uses, and what commands say about emulators: doubts with their advice. */
#include "app/emulators.h"
#include "app/program.h"
#include "app/report.h"
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A larger share of the posterior outside the runs causes a warning. */
static const double OUTSIDE_MOST = 0.01;
/* How far an emulator may go beyond the runs, whose design ends half a slice before the ends of its range: a share of the range, or this many mean
 * distances between runs. */
static const double MARGIN = 0.01, MARGIN_RUNS = 1.5;
enum { SIDES_SHOWN = 3, NOISE_DRAWS = 2 * ATVI_EM_GROUP };

/* One emulator of a fit. */
typedef struct {
  atvi_ctx *ctx;
  atvi_pool *pool;
  const atvi_app_model *opts;
  const atvi_loaded *l;
  atvi_idx k;
  const atvi_emulation *em;
  atvi_dossier *d;
  atvi_draws *draws;
} used;

/* Column of input j in the draws; -1: it was held fixed. */
static atvi_idx place(const atvi_dossier *d, const atvi_draws *draws, atvi_idx j) {
  for (atvi_idx c = 0; c < draws->n_param; c++)
    if (strcmp(draws->col[c].name, d->input[j]) == 0) return c;
  return -1;
}

/* Share of the posterior outside the range of the runs in any input; side[2 d] (or NULL): below and above the
 * range of each. */
static double outside(const atvi_dossier *d, const atvi_draws *w, double *side) {
  const atvi_emulated_runs *r = &d->r;
  double share = 0, margin = fmax(MARGIN, MARGIN_RUNS / (double)r->runs.n);
  for (atvi_idx i = 0; i < w->n; i++) {
    double weight = w->weight ? w->weight[i] : 1 / (double)w->n;
    bool out = false;
    for (atvi_idx j = 0; j < r->runs.d; j++) {
      const atvi_emulated_axis *axis = &r->axis[j];
      atvi_idx c = place(d, w, j);
      if (c < 0) continue;
      double from = atvi_model_emulated_axis_x(axis, r->least[j]),
             to = atvi_model_emulated_axis_x(axis, r->most[j]),
             at = atvi_model_emulated_axis_x(axis, w->x[c * w->n + i]), reach = margin * (to - from);
      bool below = at<from - reach, above = at> to + reach;
      if (side && (below || above)) side[2 * j + above] += weight;
      out = out || below || above;
    }
    if (out) share += weight;
  }
  return share;
}

/* "k > 0.6, m < 2": the sides with the largest shares first. */
static void sides(const used *u, double *side, char *text, size_t size) {
  const atvi_emulated_runs *r = &u->d->r;
  size_t n = 0;
  text[0] = 0;
  for (int shown = 0; shown < SIDES_SHOWN; shown++) {
    atvi_idx most = 0;
    for (atvi_idx s = 1; s < 2 * r->runs.d; s++)
      if (side[s] > side[most]) most = s;
    if (!(side[most] > 0.1 * OUTSIDE_MOST) || n >= size) return;
    bool above = most % 2;
    int put = snprintf(text + n, size - n, "%s%.60s %c %.4g", shown ? ", " : "", u->d->input[most / 2],
                       above ? '>' : '<', above ? r->most[most / 2] : r->least[most / 2]);
    n += put > 0 ? (size_t)put : 0;
    side[most] = 0;
  }
}

static atvi_status say_outside(const used *u) {
  char where[400];
  double *side = atvi_pool_take(u->pool, 2 * (size_t)u->em->d + 1, sizeof *side);
  if (!side) return ATVI_ENOMEM;
  u->d->outside = outside(u->d, u->draws, side);
  if (!(u->d->outside > OUTSIDE_MOST)) return ATVI_OK;
  sides(u, side, where, sizeof where);
  return atvi_draws_say(
      u->draws, ATVI_WARNING, ATVI_CODE_EMULATOR_OUTSIDE,
      "%.3g %% of the posterior lies where emulator '%s' has no runs and extrapolates (%s); %s.",
      100 * u->d->outside, u->d->name, where,
      u->d->r.record.lines > 0 ? "extend the design (atvi design, atvi run)" : "more runs are needed");
}

/* ---- its error and the noise ---- */

/* Some draws, evenly from all of them; theta[d][NOISE_DRAWS]. Returns the sum of their weights. */
static double some_draws(const used *u, double *theta, double *weight) {
  const atvi_draws *w = u->draws;
  double sum = 0;
  for (atvi_idx b = 0; b < NOISE_DRAWS; b++) {
    atvi_idx i = (2 * b + 1) * w->n / (2 * NOISE_DRAWS);
    weight[b] = w->weight ? w->weight[i] : 1;
    sum += weight[b];
    for (atvi_idx c = 0; c < w->n_param; c++) theta[c * NOISE_DRAWS + b] = w->x[c * w->n + i];
  }
  return sum;
}

/* Standard deviation of the emulator's error at those draws: far from the posterior it does not matter. NaN:
 * not known. */
static double own_error(const used *u, const double *theta, const double *weight) {
  const atvi_idx d = u->em->d, row = 0;
  _Alignas(ATVI_ALIGN) double mean[ATVI_EM_GROUP];
  double share[ATVI_EM_GROUP], sum = 0, n = 0;
  double *x = atvi_pool_take(u->pool, (size_t)(d * ATVI_EM_GROUP) + 1, sizeof *x);
  atvi_em_work *work;
  if (!x || atvi_gp_em_work_new(u->em->em, u->ctx, 1, &row, &work) != ATVI_OK) return NAN;
  for (atvi_idx first = 0; first < NOISE_DRAWS; first += ATVI_EM_GROUP) {
    for (atvi_idx j = 0; j < d; j++) {
      atvi_idx c = place(u->d, u->draws, j);
      for (atvi_idx b = 0; b < ATVI_EM_GROUP; b++)
        x[j * ATVI_EM_GROUP + b] =
            c < 0 ? NAN : atvi_model_emulated_axis_x(&u->em->axis[j], theta[c * NOISE_DRAWS + first + b]);
    }
    atvi_gp_em_eval(u->em->em, work, x, mean, share);
    for (atvi_idx b = 0; b < ATVI_EM_GROUP; b++) sum += weight[first + b] * share[b], n += weight[first + b];
  }
  atvi_gp_em_work_free(work);
  return n > 0 ? sqrt(atvi_gp_emulator_info(u->em->em)->sill * sum / n) : NAN;
}

/* Root mean square difference between data and simulator in the fit: noise and discrepancy. NaN: not
 * known. */
static double residual(const used *u, const double *theta, const double *weight) {
  const atvi_target *of = u->l->target;
  const atvi_emulated *e = u->l->model->emulated;
  double *out = atvi_pool_take(u->pool, (size_t)(of->n_out * NOISE_DRAWS) + 1, sizeof *out);
  double sum = 0, n = 0;
  if (!out || !of->ops->predict || u->draws->n_param != of->d) return NAN;
  of->ops->predict(of->self, atvi_model_evaluator_work(u->l->ev), NOISE_DRAWS, theta, out);
  for (atvi_idx k = 0; k < e->n; k++) {
    const atvi_process *p = &e->process[k];
    if (p->emulator != u->k || p->out_emulator < 0) continue;
    for (atvi_idx i = 0; i < p->n_used; i++)
      for (atvi_idx b = 0; b < NOISE_DRAWS; b++) {
        atvi_idx at = p->used_at[i];
        double off = p->value[at] - out[(p->out_emulator + p->row[at]) * NOISE_DRAWS + b];
        if (!isfinite(off)) continue;
        sum += weight[b] * off * off;
        n += weight[b];
      }
  }
  return n > 0 ? sqrt(sum / n) : NAN;
}

static atvi_status say_error(const used *u) {
  double weight[NOISE_DRAWS];
  double *theta = atvi_pool_take(u->pool, (size_t)(u->draws->n_param * NOISE_DRAWS) + 1, sizeof *theta);
  if (!theta || u->draws->n < 1 || !(some_draws(u, theta, weight) > 0)) return ATVI_OK;
  double error = own_error(u, theta, weight), noise = residual(u, theta, weight);
  if (!(error > noise)) return ATVI_OK;
  return atvi_draws_say(u->draws, ATVI_NOTE, ATVI_CODE_EMULATOR_ERROR,
                        "The error of emulator '%s' (standard deviation %.3g near the posterior) exceeds the "
                        "noise (%.3g): more runs would make the result more precise.",
                        u->d->name, error, noise);
}

/* ---- doubts ---- */

void atvi_app_emulators_count_design(atvi_pool *pool, const atvi_lang *lang, const char *runs,
                                     const atvi_dossier *known, atvi_dossier *d) {
  const atvi_sim_runs *rec = &d->r.record;
  atvi_program_points p;
  int64_t most = 0;
  if (rec->lines == 0 || !lang->simulator.given) return;
  if (known && known->n_point > 0) {
    d->n_point = known->n_point, d->n_missing = known->n_missing;
    return;
  }
  const char *dir = runs ? runs : atvi_sim_folder(pool, lang->path);
  const char **name = atvi_app_program_inputs(pool, lang);
  if (!dir || !name || atvi_app_program_points_read(pool, dir, lang->simulator.n_input, name, &p) != ATVI_OK)
    return;
  for (atvi_idx i = 0; i < p.n; i++) most = p.id[i] > most ? p.id[i] : most;
  bool *done = atvi_pool_take(pool, (size_t)most + 1, sizeof *done);
  if (!done) return;
  for (atvi_idx i = 0; i < rec->n + rec->n_failed; i++) {
    int64_t id = i < rec->n ? rec->id[i] : rec->left[i - rec->n].id;
    if (id <= most) done[id] = true;
  }
  d->n_missing = 0;
  for (atvi_idx i = 0; i < p.n; i++) d->n_missing += !done[p.id[i]];
  d->n_point = p.n;
}

/* The command for more runs: what is left of the design first. */
static void advise_runs(const char *path, const char *runs, const atvi_dossier *d, atvi_text *t) {
  const atvi_sim_runs *rec = &d->r.record;
  for (int run = d->n_missing > 0; run < 2; run++) {
    atvi_io_text_add(t, run && d->n_missing == 0 ? ", atvi run " : run ? "atvi run " : "atvi design ");
    atvi_io_text_add(t, "%s", path);
    if (!run) atvi_io_text_add(t, " -n %td", 2 * (d->n_point > 0 ? d->n_point : rec->n + rec->n_failed));
    if (runs) atvi_io_text_add(t, " --runs %s", runs);
  }
}

const char *atvi_app_emulators_doubt(atvi_pool *pool, const char *path, const char *runs,
                                     const atvi_dossier *d, int i) {
  atvi_text t = {.pool = pool};
  const char *text;
  atvi_io_text_add(&t, "%s", d->doubt[i].say.text);
  switch (d->doubt[i].say.code) {
  case ATVI_CODE_EMULATOR_FAIR:
    atvi_io_text_add(&t, d->r.record.lines > 0 ? "; more runs: " : ": more runs would help");
    if (d->r.record.lines > 0) advise_runs(path, runs, d, &t);
    break;
  case ATVI_CODE_RUNS_LEFT_OUT:
    if (d->r.record.n_failed > d->r.record.n_again)
      atvi_io_text_add(&t, "; atvi run --retry-failed repeats them");
    break;
  case ATVI_CODE_POINTS_LEFT: atvi_io_text_add(&t, "; atvi run runs them"); break;
  default: break;
  }
  return atvi_io_text_get(&t, &text) == ATVI_OK ? text : d->doubt[i].say.text;
}

/* The first sentence covers failed runs; points without a run are the same for all emulators, and advice.c
 * covers them. */
static atvi_status say_doubts(const used *u, bool first) {
  for (int i = 0; i < u->d->n_doubt; i++) {
    const atvi_message *m = &u->d->doubt[i].say;
    bool left = m->code == ATVI_CODE_POINTS_LEFT;
    if (m->code == ATVI_CODE_RUNS_LEFT_OUT || (left && !first)) continue;
    ATVI_TRY(atvi_draws_say(u->draws, m->severity, m->code, "Emulator '%s': %s.", u->d->name,
                            left ? m->text
                                 : atvi_app_emulators_doubt(u->pool, u->opts->path, u->opts->runs, u->d, i)));
  }
  return ATVI_OK;
}

static atvi_status say_quality(const used *u) {
  char failed[60] = "";
  atvi_idx n = u->d->r.record.n_failed;
  if (n > 0) snprintf(failed, sizeof failed, ", not counting %td failed ones", n);
  return atvi_draws_say(u->draws, ATVI_NOTE, ATVI_CODE_EMULATOR,
                        "Emulator '%s' of %td runs%s: leaving out each in turn, Q2 is %.4f, and 95 %% "
                        "intervals contain %.1f %%%s%s.",
                        u->d->name, u->d->r.runs.n, failed, u->d->loo.q2, 100 * u->d->loo.coverage,
                        u->d->poor ? "; it is poor " : "", u->d->poor ? u->d->poor : "");
}

atvi_status atvi_app_emulators_say(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_model *opts,
                                   const atvi_loaded *l, atvi_draws *draws) {
  atvi_emulated *e = l->model->emulated;
  const atvi_dossier *first = NULL;
  for (atvi_idx k = 0; e && k < e->n_emulator; k++) {
    atvi_emulation *em = &e->emulator[k];
    const used u = {ctx, pool, opts, l, k, em, &em->dossier, draws};
    if (!em->em) continue;
    atvi_app_emulators_count_design(pool, l->model->lang, opts->runs, first, u.d);
    ATVI_TRY(atvi_model_dossier_judge(pool, em->em, u.d));
    ATVI_TRY(say_quality(&u));
    ATVI_TRY(say_doubts(&u, !first));
    ATVI_TRY(say_error(&u));
    ATVI_TRY(say_outside(&u));
    if (!first) first = u.d;
  }
  return ATVI_OK;
}

/* ---- in reports ---- */

void atvi_app_emulators_report(atvi_pool *pool, const atvi_lang *lang, const char *path, const char *runs,
                               const atvi_dossier *d, atvi_report_emulator *out) {
  const char **doubt = atvi_pool_take(pool, ATVI_DOUBTS, sizeof *doubt);
  *out = (atvi_report_emulator){.of = d, .doubt = doubt, .seconds = NAN, .sobol_error = NAN};
  out->time_name = d->r.runs.time ? atvi_app_report_time_name(lang) : NULL;
  for (int i = 0; doubt && i < d->n_doubt; i++)
    if (d->doubt[i].doubtful) doubt[out->n_doubt++] = atvi_app_emulators_doubt(pool, path, runs, d, i);
}

atvi_idx atvi_app_emulators_reports(atvi_pool *pool, const atvi_app_model *opts, const atvi_loaded *l,
                                    const atvi_draws *draws, const atvi_report_emulator **out) {
  atvi_emulated *e = l->model->emulated;
  atvi_report_emulator *list = e ? atvi_pool_take(pool, (size_t)e->n_emulator + 1, sizeof *list) : NULL;
  atvi_idx n = 0;
  for (atvi_idx k = 0; list && k < e->n_emulator; k++) {
    atvi_dossier *d = &e->emulator[k].dossier;
    if (!e->emulator[k].em) continue;
    if (isnan(d->outside)) d->outside = outside(d, draws, NULL);
    atvi_app_emulators_report(pool, l->model->lang, opts->path, opts->runs, d, &list[n++]);
  }
  *out = list;
  return n;
}

/* ---- in the folder of the fit ---- */

atvi_status atvi_app_emulators_keep(atvi_ctx *ctx, atvi_pool *pool, const atvi_loaded *l, const char *dir) {
  const atvi_emulated *e = l->model->emulated;
  for (atvi_idx k = 0; e && k < e->n_emulator; k++) {
    if (!e->emulator[k].em) continue;
    const char *path = atvi_model_emulated_path(pool, l->model->lang, k, dir);
    if (!path) return ATVI_ENOMEM;
    ATVI_TRY(atvi_gp_emulator_save(ctx, e->emulator[k].em, path));
  }
  return ATVI_OK;
}

void atvi_app_emulators_drop(const char *dir) {
  DIR *d = opendir(dir);
  if (!d) return;
  for (const struct dirent *e; (e = readdir(d));) {
    size_t n = strlen(e->d_name);
    if (strncmp(e->d_name, "emulator-", 9) == 0 && n > 14 && strcmp(e->d_name + n - 5, ".json") == 0)
      unlinkat(dirfd(d), e->d_name, 0);
  }
  closedir(d);
}
