/* SPDX-License-Identifier: MIT */
#include "app/emulate_tell.h"
#include "app/program_parts.h"
#include "sim/record.h"
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* As in the verdict of atvi emulate: a nominal 95 % that so many runs cannot fall so far below by chance. */
static const double Q2_LOW = 0.5, NOMINAL = 0.95, CHANCE = 2.58;
static const double Q2_FAIR = 0.9; /* below, more runs would help, as the verdict of atvi emulate has it */
static const double OUTSIDE_MOST = 0.01; /* of the posterior */
/* Points of a design end half a slice before the ends of its range, and so far an emulator may go beyond them: a share of the range, or so many mean
 * distances between the runs. */
static const double MARGIN = 0.01, MARGIN_RUNS = 1.5;
enum { SIDES_SHOWN = 3, NOISE_DRAWS = 2 * ATVI_EM_GROUP };

typedef struct {
  atvi_ctx *ctx;
  atvi_pool *pool;
  const atvi_lang_emulator *of;
  const atvi_emulation *em;
  const atvi_target *target; /* of the model, nothing fixed */
  const atvi_loaded *l;
  atvi_idx k, first; /* this one, and the first that is used */
  atvi_draws *draws;
  atvi_emulated_runs r;
  double *side; /* [2 d] shares of the posterior below and above the runs of each input */
} telling;

/* Where input j is among the columns of the draws; -1: it was held. */
static atvi_idx place(const telling *t, atvi_idx j) {
  const char *name = t->target->param[t->of->input[j]].name;
  for (atvi_idx c = 0; c < t->draws->n_param; c++)
    if (strcmp(t->draws->col[c].name, name) == 0) return c;
  return -1;
}

/* NULL: it was held. */
static const double *column(const telling *t, atvi_idx j) {
  atvi_idx c = place(t, j);
  return c < 0 ? NULL : t->draws->x + c * t->draws->n;
}

/* The share of the posterior that is outside the range of the runs in any input. */
static double outside(const telling *t) {
  const atvi_draws *w = t->draws;
  double share = 0, margin = fmax(MARGIN, MARGIN_RUNS / (double)t->r.runs.n);
  for (atvi_idx i = 0; i < w->n; i++) {
    double weight = w->weight ? w->weight[i] : 1 / (double)w->n;
    bool out = false;
    for (atvi_idx j = 0; j < t->r.runs.d; j++) {
      const atvi_emulated_axis *axis = &t->r.axis[j];
      const double *x = column(t, j);
      if (!x) continue;
      double from = atvi_emulated_axis_x(axis, t->r.least[j]), to = atvi_emulated_axis_x(axis, t->r.most[j]),
             at = atvi_emulated_axis_x(axis, x[i]), reach = margin * (to - from);
      bool below = at<from - reach, above = at> to + reach;
      if (t->side && (below || above)) t->side[2 * j + above] += weight;
      out = out || below || above;
    }
    if (out) share += weight;
  }
  return share;
}

/* "k > 0.6, m < 2": the sides with most of it first. */
static void sides(telling *t, char *text, size_t size) {
  size_t used = 0;
  text[0] = 0;
  for (int shown = 0; shown < SIDES_SHOWN; shown++) {
    atvi_idx most = 0;
    for (atvi_idx s = 1; s < 2 * t->r.runs.d; s++)
      if (t->side[s] > t->side[most]) most = s;
    if (!(t->side[most] > 0.1 * OUTSIDE_MOST) || used >= size) return;
    bool above = most % 2;
    int put = snprintf(text + used, size - used, "%s%.60s %c %.4g", shown ? ", " : "",
                       t->target->param[t->of->input[most / 2]].name, above ? '>' : '<',
                       above ? t->r.most[most / 2] : t->r.least[most / 2]);
    used += put > 0 ? (size_t)put : 0;
    t->side[most] = 0;
  }
}

static atvi_status tell_outside(telling *t) {
  char where[400];
  double share = outside(t);
  if (!(share > OUTSIDE_MOST)) return ATVI_OK;
  sides(t, where, sizeof where);
  return atvi_draws_say(t->draws, ATVI_WARNING, ATVI_CODE_EMULATOR_OUTSIDE,
                        "%.3g %% of the posterior lies where there are no runs of emulator '%s' (%s): "
                        "it is guessing there; %s.",
                        100 * share, t->of->name, where,
                        t->r.lines > 0 ? "extend the design (atvi design, atvi run)"
                                       : "more runs are needed");
}

/* ---- runs that are not there ---- */

atvi_idx atvi_emulate_missing(atvi_pool *pool, const atvi_lang *lang, const char *runs,
                              const atvi_emulated_runs *r, atvi_idx *n_point) {
  atvi_program_points p;
  atvi_idx missing = 0;
  *n_point = 0;
  if (r->lines == 0 || !lang->simulator.given) return 0;
  const char *dir = runs ? runs : atvi_sim_folder(pool, lang->path);
  const char **name = atvi_program_inputs(pool, lang);
  if (!dir || !name || atvi_program_points_read(pool, dir, lang->simulator.n_input, name, &p) != ATVI_OK)
    return 0;
  int64_t most = 0;
  for (atvi_idx i = 0; i < r->n_done; i++) most = r->done[i] > most ? r->done[i] : most;
  bool *seen = atvi_pool_take(pool, (size_t)most + 1, sizeof *seen);
  if (!seen) return 0;
  for (atvi_idx i = 0; i < r->n_done; i++) seen[r->done[i]] = true;
  for (atvi_idx i = 0; i < p.n; i++) missing += p.id[i] > most || !seen[p.id[i]];
  *n_point = p.n;
  return missing;
}

static atvi_status tell_missing(telling *t, const atvi_lang *lang, const char *runs) {
  atvi_idx n, missing = atvi_emulate_missing(t->pool, lang, runs, &t->r, &n);
  if (missing == 0 || t->first < t->k) return ATVI_OK; /* one record, said once */
  return atvi_draws_say(t->draws, ATVI_NOTE, ATVI_CODE_POINTS_LEFT,
                        "%td of %td points of the design have not been run.", missing, n);
}

/* ---- its error and the noise ---- */

/* Some draws, evenly from all of them; theta[d][NOISE_DRAWS]. Returns the sum of their weights. */
static double some_draws(const telling *t, double *theta, double *weight) {
  const atvi_draws *w = t->draws;
  double sum = 0;
  for (atvi_idx b = 0; b < NOISE_DRAWS; b++) {
    atvi_idx i = (2 * b + 1) * w->n / (2 * NOISE_DRAWS);
    weight[b] = w->weight ? w->weight[i] : 1;
    sum += weight[b];
    for (atvi_idx c = 0; c < w->n_param; c++) theta[c * NOISE_DRAWS + b] = w->x[c * w->n + i];
  }
  return sum;
}

/* Standard deviation of what the emulator does not know of the simulator, at those draws: far from the posterior it does not matter. NaN: nothing is known. */
static double own_error(const telling *t, const double *theta, const double *weight) {
  const atvi_idx d = t->em->d, row = 0;
  _Alignas(ATVI_ALIGN) double mean[ATVI_EM_GROUP];
  double share[ATVI_EM_GROUP], sum = 0, n = 0;
  double *x = atvi_pool_take(t->pool, (size_t)(d * ATVI_EM_GROUP) + 1, sizeof *x);
  atvi_em_work *work;
  if (!x || atvi_em_work_new(t->em->em, t->ctx, 1, &row, &work) != ATVI_OK) return NAN;
  for (atvi_idx first = 0; first < NOISE_DRAWS; first += ATVI_EM_GROUP) {
    for (atvi_idx j = 0; j < d; j++) {
      atvi_idx c = place(t, j);
      for (atvi_idx b = 0; b < ATVI_EM_GROUP; b++)
        x[j * ATVI_EM_GROUP + b] =
            c < 0 ? NAN : atvi_emulated_axis_x(&t->em->axis[j], theta[c * NOISE_DRAWS + first + b]);
    }
    atvi_em_eval(t->em->em, work, x, mean, share);
    for (atvi_idx b = 0; b < ATVI_EM_GROUP; b++) sum += weight[first + b] * share[b], n += weight[first + b];
  }
  atvi_em_work_free(work);
  return n > 0 ? sqrt(atvi_emulator_info(t->em->em)->sill * sum / n) : NAN;
}

/* Root mean square of what the data differ by from the simulator as the fit has it: noise and discrepancy. NaN: nothing is known. */
static double residual(const telling *t, const double *theta, const double *weight) {
  const atvi_target *of = t->l->target;
  const atvi_emulated *e = t->l->model->emulated;
  double *out = atvi_pool_take(t->pool, (size_t)(of->n_out * NOISE_DRAWS) + 1, sizeof *out);
  double sum = 0, n = 0;
  if (!out || !of->ops->predict || t->draws->n_param != of->d) return NAN;
  of->ops->predict(of->self, atvi_evaluator_work(t->l->ev), NOISE_DRAWS, theta, out);
  for (atvi_idx k = 0; k < e->n; k++) {
    const atvi_process *p = &e->process[k];
    if (p->emulator != t->k || p->out_emulator < 0) continue;
    for (atvi_idx u = 0; u < p->n_used; u++)
      for (atvi_idx b = 0; b < NOISE_DRAWS; b++) {
        atvi_idx at = p->used_at[u];
        double off = p->value[at] - out[(p->out_emulator + p->row[at]) * NOISE_DRAWS + b];
        if (!isfinite(off)) continue;
        sum += weight[b] * off * off;
        n += weight[b];
      }
  }
  return n > 0 ? sqrt(sum / n) : NAN;
}

static atvi_status tell_error(telling *t) {
  double weight[NOISE_DRAWS];
  double *theta = atvi_pool_take(t->pool, (size_t)(t->draws->n_param * NOISE_DRAWS) + 1, sizeof *theta);
  if (!theta || t->draws->n < 1 || !(some_draws(t, theta, weight) > 0)) return ATVI_OK;
  double error = own_error(t, theta, weight), noise = residual(t, theta, weight);
  if (!(error > noise)) return ATVI_OK;
  return atvi_draws_say(
      t->draws, ATVI_NOTE, ATVI_CODE_EMULATOR_ERROR,
      "What emulator '%s' does not know of the simulator (standard deviation %.3g where the "
      "posterior is) is more than the noise (%.3g): more runs would sharpen the result.",
      t->of->name, error, noise);
}

static atvi_status tell_quality(telling *t, const atvi_em_loo *loo) {
  char failed[60] = "";
  if (t->r.n_failed > 0) snprintf(failed, sizeof failed, ", %td failed ones left out", t->r.n_failed);
  ATVI_TRY(atvi_draws_say(t->draws, ATVI_NOTE, ATVI_CODE_EMULATOR,
                          "Emulator '%s' of %td runs%s: leaving out each in turn, Q2 is %.4f, and 95 %% "
                          "intervals hold %.1f %%.",
                          t->of->name, t->r.runs.n, failed, loo->q2, 100 * loo->coverage));
  if (loo->q2 < Q2_LOW)
    ATVI_TRY(atvi_draws_say(t->draws, ATVI_WARNING, ATVI_CODE_EMULATOR_POOR,
                            "Emulator '%s' explains less than half of what differs between runs (Q2 %.2f): "
                            "more runs, or a narrower prior, are needed.",
                            t->of->name, loo->q2));
  else if (loo->q2 < Q2_FAIR)
    ATVI_TRY(atvi_draws_say(t->draws, ATVI_NOTE, ATVI_CODE_EMULATOR_FAIR,
                            "Emulator '%s' predicts only %.0f %% of what differs between runs: more runs "
                            "would make it better.",
                            t->of->name, 100 * loo->q2));
  if (loo->coverage < NOMINAL - CHANCE * sqrt(NOMINAL * (1 - NOMINAL) / (double)t->r.runs.n))
    ATVI_TRY(
        atvi_draws_say(t->draws, ATVI_WARNING, ATVI_CODE_EMULATOR_OVERCONFIDENT,
                       "Emulator '%s' is overconfident: its 95 %% intervals hold %.0f %% of the runs, and "
                       "the posterior is too narrow; try another kernel.",
                       t->of->name, 100 * loo->coverage));
  return ATVI_OK;
}

static atvi_status tell(telling *t, const atvi_lang *lang, atvi_idx k, const char *runs, atvi_idx lines) {
  atvi_em_loo loo = {0};
  atvi_status status = atvi_emulated_runs_read(t->pool, lang, k, runs, lines, &t->r);
  if (status == ATVI_OK) status = atvi_emulator_loo(t->ctx, t->em->em, &t->r.runs, &loo);
  if (status != ATVI_OK && status != ATVI_ENOMEM) {
    atvi_log(t->ctx, ATVI_LOG_WARN, "emulator '%s' could not be judged: %s", t->of->name,
             atvi_errmsg(t->ctx));
    return ATVI_OK;
  }
  ATVI_TRY(status);
  t->side = atvi_pool_take(t->pool, 2 * (size_t)t->r.runs.d + 1, sizeof *t->side);
  if (!t->side) return ATVI_FAIL(t->ctx, ATVI_ENOMEM, "out of memory");
  ATVI_TRY(tell_quality(t, &loo));
  ATVI_TRY(tell_missing(t, lang, runs));
  ATVI_TRY(tell_error(t));
  ATVI_TRY(tell_outside(t));
  if (t->r.n_other == 0) return ATVI_OK;
  return atvi_draws_say(t->draws, ATVI_WARNING, ATVI_CODE_RUNS_MIXED,
                        "%td of the %td runs of emulator '%s' were done with another command, other "
                        "templates or outputs than the latest: it may be of two simulators.",
                        t->r.n_other, t->r.runs.n, t->of->name);
}

atvi_status atvi_emulate_tell(atvi_ctx *ctx, const atvi_loaded *l, const char *runs, atvi_draws *draws) {
  const atvi_emulated *e = l->model->emulated;
  atvi_status status = ATVI_OK;
  atvi_idx first = -1;
  for (atvi_idx k = 0; e && k < e->n_emulator && status == ATVI_OK; k++) {
    atvi_pool *pool;
    if (!e->emulator[k].em) continue;
    ATVI_TRY(atvi_pool_new(ctx, &pool));
    telling t = {.ctx = ctx, .pool = pool, .of = &l->model->lang->emulator[k], .em = &e->emulator[k]};
    t.target = atvi_model_target(l->model);
    t.draws = draws;
    t.l = l;
    t.k = k;
    t.first = first < 0 ? (first = k) : first;
    status = tell(&t, l->model->lang, k, runs, e->lines);
    atvi_pool_free(pool);
  }
  return status;
}

double atvi_emulate_outside(const atvi_loaded *l, atvi_idx k, const atvi_emulated_runs *r,
                            atvi_draws *draws) {
  telling t = {.of = &l->model->lang->emulator[k], .target = atvi_model_target(l->model), .draws = draws};
  t.r = *r;
  return outside(&t);
}

/* ---- in the folder of the fit ---- */

atvi_status atvi_emulate_keep(atvi_ctx *ctx, atvi_pool *pool, const atvi_loaded *l, const char *dir) {
  const atvi_emulated *e = l->model->emulated;
  for (atvi_idx k = 0; e && k < e->n_emulator; k++) {
    if (!e->emulator[k].em) continue;
    const char *path = atvi_emulated_path(pool, l->model->lang, k, dir);
    if (!path) return ATVI_FAIL(ctx, ATVI_ENOMEM, "out of memory");
    ATVI_TRY(atvi_emulator_save(ctx, e->emulator[k].em, path));
  }
  return ATVI_OK;
}

void atvi_emulate_drop(const char *dir) {
  DIR *d = opendir(dir);
  if (!d) return;
  for (const struct dirent *e; (e = readdir(d));) {
    size_t n = strlen(e->d_name);
    if (strncmp(e->d_name, "emulator-", 9) == 0 && n > 14 && strcmp(e->d_name + n - 5, ".json") == 0)
      unlinkat(dirfd(d), e->d_name, 0);
  }
  closedir(d);
}
