/* SPDX-License-Identifier: MIT */
/* The model at draws of its posterior, in groups of draws on all threads. Results of a draw depend on its
 * number alone.
 *
 * A fit runs the model at its draws here, once, and keeps the results in DRAWS, where fit.nc, the page and
 * `atvi report` read them. Curves also have times between those of the data, and both sides of every jump of
 * a table and every pulse. Observations that count since the previous row have no such times: on a grid they
 * would count less. */
#include "app/predictions.h"
#include "app/report.h"
#include "draws/made.h"
#include "lang/dist.h"
#include "math/rng.h"
#include "math/stat/stat.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  DRAWS_MOST = 2000, /* enough to know ends of 95 % bands to about a thirtieth of a predictive sd */
  DRAWS_FEW = 1000,  /* for a slow model, whose fit took few runs */
  DRAWS_LEAST = 200, /* for a model with many outputs */
  SHARE = 20,        /* a draw takes three runs of the model: about a seventh of the runs of the fit */
  PRIOR_DRAWS = 2000,
  GRID = 200,          /* times over the range of the data */
  GRID_LEAST = 24,     /* of each of many units */
  GRID_ALL = 4800,     /* of all units */
  JUMPS = GRID * 3 / 4 /* jumps and pulses on the grid; a model with more has none; fewer for many units */
};
static const double MOST_NUMBERS = 6e6; /* in all groups: about 48 MB */
static const double NEAR_START = 0.1;   /* of the range of the data: a start that near before them is shown */
static const double BESIDE = 1e-6;      /* relative to the range: a time just before or after a jump */
static const double SAME_TIME = 1e-9;   /* relative to the largest time: rounding error */
/* A log likelihood that differs by more than this belongs to other data or another model; the same model
 * compiled for another processor differs by rounding. */
static const double SAME_ABS = 1e-3, SAME_REL = 1e-6;

/* ---- times ---- */

bool atvi_app_predictions_among(atvi_idx n, const double *time, double t, double eps) {
  atvi_idx low = 0, high = n;
  while (low < high) {
    atvi_idx mid = (low + high) / 2;
    if (time[mid] < t - eps)
      low = mid + 1;
    else
      high = mid;
  }
  return low < n && time[low] <= t + eps;
}

double atvi_app_predictions_rounding(atvi_idx n, const double *time) {
  return n ? SAME_TIME * fmax(fabs(time[0]), fabs(time[n - 1])) : 0;
}

atvi_idx atvi_app_predictions_rows(const atvi_model *m, atvi_idx k) {
  return m->times.n_given ? m->times.n_given[k] : m->lang->data[k].n_row;
}

bool atvi_app_predictions_in_data(const atvi_model *m, double t, double eps) {
  for (atvi_idx k = 0; k < m->lang->n_data; k++)
    if (m->lang->data[k].time &&
        atvi_app_predictions_among(atvi_app_predictions_rows(m, k), m->lang->data[k].time, t, eps))
      return true;
  return m->lik.has_prev && fabs(t - m->lang->time.start) <= eps;
}

/* ---- which draws ---- */

atvi_status atvi_app_predictions_pick(atvi_pool *pool, const atvi_draws *d, atvi_idx most, atvi_idx *n,
                                      atvi_idx **draw) {
  *n = most < d->n ? most : d->n;
  *draw = atvi_pool_take(pool, (size_t)*n + 1, sizeof **draw);
  if (!*draw) return ATVI_ENOMEM;
  for (atvi_idx k = 0; k < *n; k++) (*draw)[k] = (atvi_idx)((double)k * (double)d->n / (double)*n);
  return ATVI_OK;
}

static void gather(const atvi_draws *d, atvi_idx n, const atvi_idx *draw, double *theta) {
  for (atvi_idx i = 0; i < d->n_param; i++)
    for (atvi_idx k = 0; k < n; k++) theta[i * n + k] = d->x[i * d->n + draw[k]];
}

static atvi_status check_names(const atvi_target *t, const char *dir, const atvi_draws *d) {
  bool same = d->n_param == t->d;
  for (atvi_idx i = 0; same && i < t->d; i++) same = strcmp(d->col[i].name, t->param[i].name) == 0;
  if (same) return ATVI_OK;
  return ATVI_FAIL(d->ctx, ATVI_EDATA,
                   "%s: error: draws.csv and model.atvi have different parameters: one of them has changed "
                   "since the fit\nhint: restore it, or fit again",
                   dir);
}

static atvi_status check_same(const atvi_draws *d, const char *dir, atvi_idx at, double now) {
  double was = d->log_lik[at];
  if (!isfinite(was) || fabs(now - was) <= SAME_ABS + SAME_REL * fabs(was)) return ATVI_OK;
  return ATVI_FAIL(d->ctx, ATVI_EDATA,
                   "%s: error: the data, or the model's copy in the folder, have changed since the fit: the "
                   "log likelihood of draw %td is %.8g now and was %.8g\nhint: restore them, or fit again",
                   dir, at + 1, now, was);
}

static atvi_status check_draws(atvi_loaded *l, const char *dir, const atvi_draws *d, bool other, atvi_idx *n,
                               atvi_idx *draw, double *theta) {
  atvi_idx B = *n, good = 0;
  double *log_lik = theta + d->n_param * B;
  atvi_outcome *outcome = atvi_block(d->ctx, (size_t)B * sizeof *outcome);
  if (!outcome) return ATVI_ENOMEM;
  gather(d, B, draw, theta);
  atvi_model_evaluator_run(l->ev,
                           &(atvi_batch){.B = B, .theta = theta, .log_lik = log_lik, .outcome = outcome});
  atvi_status status = ATVI_OK;
  for (atvi_idx k = 0; status == ATVI_OK && k < B; k++) {
    if (outcome[k] != ATVI_RUN_OK) continue;
    if (!other) status = check_same(d, dir, draw[k], log_lik[k]);
    draw[good++] = draw[k];
  }
  if (status == ATVI_OK && good == 0)
    status = ATVI_FAIL(d->ctx, ATVI_EMODEL, "%s: error: the model cannot be run at any of the draws: %s", dir,
                       atvi_outcome_word(outcome[0]));
  atvi_block_free(d->ctx, outcome);
  *n = good;
  return status;
}

atvi_status atvi_app_predictions_check(atvi_loaded *l, const char *dir, const atvi_draws *d, bool other,
                                       atvi_idx *n, atvi_idx *draw) {
  ATVI_TRY(check_names(l->target, dir, d));
  double *theta = atvi_block(d->ctx, (size_t)((d->n_param + 1) * *n + 1) * sizeof *theta);
  if (!theta) return ATVI_ENOMEM;
  atvi_status status = check_draws(l, dir, d, other, n, draw, theta);
  atvi_block_free(d->ctx, theta);
  return status;
}

/* ---- series ---- */

enum { LEFT_OUT = -1 };

/* Where the model's outputs go. */
typedef struct {
  atvi_loaded *l;
  const atvi_predictions_opts *opts;
  atvi_draws *d;
  atvi_holdout holdout;
  atvi_draws_series *series;
  atvi_idx n_series, n_mean, n_grid; /* values of groups so far */
  atvi_idx n_data, n_data_grid;      /* of these, of observed series */
  atvi_idx *to; /* [n_out] value of mean; LEFT_OUT; or value k of grid as LEFT_OUT - 1 - k */
} layout;

/* Whether row r of series s is a row of the data. */
static bool is_given(const layout *y, const atvi_series *s, atvi_idx r) {
  const atvi_model *m = y->l->model;
  if (!y->opts->fit || !m->times.n_given) return true;
  if (s->kind == ATVI_SERIES_OBSERVED) return r < atvi_app_predictions_rows(m, s->group);
  return atvi_app_predictions_in_data(m->blocks.part ? m->blocks.part[s->unit].m : m, s->time[r],
                                      atvi_app_predictions_rounding(s->n, s->time));
}

/* Whether there is something to draw at row r, which lies between those of the data. */
static bool on_grid(const layout *y, atvi_idx k, atvi_idx r) {
  const atvi_model *m = y->l->model;
  return y->l->target->series[k].kind != ATVI_SERIES_OBSERVED ||
         (!atvi_app_counts(m->lang, &m->lang->observe[k]) && m->lik.covariates[k][r]);
}

/* "subject s01"; labels of two blocks may be the same. */
static const char *unit_of(atvi_pool *pool, const atvi_model *m, atvi_idx unit) {
  if (unit == 0) return "";
  return atvi_pool_printf(pool, "%s %s",
                          m->blocks.part[0].m->lang->blocks.block[m->blocks.part[unit].block - 1].name,
                          m->target.unit[unit].name);
}

static bool add_series(layout *y, atvi_idx k, atvi_idx at) {
  atvi_pool *pool = atvi_draws_pool(y->d);
  const atvi_lang *lang = y->l->model->lang;
  const atvi_series *from = &y->l->target->series[k];
  bool observed = from->kind == ATVI_SERIES_OBSERVED;
  const bool *held = observed && y->holdout.held ? y->holdout.held[from->group] : NULL;
  const char *set = observed ? lang->data[from->group].name : "";
  double *x = atvi_pool_take(pool, 3 * (size_t)from->n + 1, sizeof *x);
  unsigned char *mark = atvi_pool_take(pool, (size_t)from->n + 1, 1);
  atvi_draws_series *s = &y->series[y->n_series++];
  *s = (atvi_draws_series){.name = atvi_pool_strndup(pool, from->name, strlen(from->name)),
                           .kind = from->kind,
                           .data = observed ? from->group : 0,
                           .set = atvi_pool_strndup(pool, set, strlen(set)),
                           .rows = observed && !lang->data[from->group].time,
                           .unit = unit_of(pool, y->l->model, from->unit)};
  if (atvi_pool_failed(pool)) return false;
  double *time = x, *value = x + from->n, *grid = value + from->n;
  for (atvi_idx r = 0; r < from->n; r++) {
    if (!is_given(y, from, r)) {
      y->to[at + r] = on_grid(y, k, r) ? LEFT_OUT - 1 - (y->n_grid + s->n_grid) : LEFT_OUT;
      if (y->to[at + r] != LEFT_OUT) grid[s->n_grid++] = from->time[r];
      continue;
    }
    time[s->n] = from->time[r];
    value[s->n] = observed ? from->value[r] : NAN;
    mark[s->n] =
        (unsigned char)((held && held[r] ? ATVI_MARK_HELD : 0) |
                        (observed && atvi_model_observed_exactly(lang, &lang->observe[k], r) ? ATVI_MARK_EXACT
                                                                                             : 0));
    y->to[at + r] = y->n_mean + s->n++;
  }
  s->time = time, s->grid = grid;
  if (observed) s->value = value, s->mark = mark;
  y->n_mean += s->n, y->n_grid += s->n_grid;
  if (observed) y->n_data = y->n_mean, y->n_data_grid = y->n_grid;
  return true;
}

static atvi_status lay_out(atvi_pool *pool, layout *y) {
  const atvi_target *t = y->l->target;
  if (y->opts->holdout)
    ATVI_TRY(atvi_model_holdout_find(pool, y->l->model->lang, y->opts->holdout, &y->holdout));
  y->series = atvi_pool_take(atvi_draws_pool(y->d), (size_t)t->n_series + 1, sizeof *y->series);
  y->to = atvi_pool_take(pool, (size_t)t->n_out + 1, sizeof *y->to);
  bool ok = y->series && y->to;
  for (atvi_idx i = 0; ok && i < t->n_out; i++) y->to[i] = LEFT_OUT;
  for (atvi_idx k = 0, at = 0; ok && k < t->n_series; at += t->series[k++].n)
    if ((t->series[k].kind != ATVI_SERIES_STATE || y->opts->states) &&
        /* a fit leaves out what an emulator predicts given the data, and shows the simulator alone */
        !(y->opts->fit && atvi_model_series_part(y->l->model, k) == ATVI_PART_EMULATOR))
      ok = add_series(y, k, at);
  if (!ok) return ATVI_ENOMEM;
  y->d->series = y->series;
  y->d->n_series = y->n_series;
  return ATVI_OK;
}

/* ---- the sweep over draws ---- */

typedef struct {
  layout y;
  const atvi_target *t;
  uint64_t seed;
  atvi_idx group; /* draws at once */
  double *theta;  /* [d][n] */
  double *room;   /* [threads][per_worker] */
  size_t per_worker;
  double *mean, *grid, *draw, *grid_draw, *others, *log_lik; /* groups; NULL: there is none */
} sweep;

/* Copies outputs of b draws, from number `first` on, into the groups that hold them. */
static void spread(const sweep *j, atvi_idx n, atvi_idx first, atvi_idx b, const double *from, double *mean,
                   double *grid) {
  atvi_idx B = j->y.opts->n;
  for (atvi_idx i = 0; i < n; i++) {
    atvi_idx to = j->y.to[i];
    double *x = to >= 0 ? mean : to < LEFT_OUT ? grid : NULL;
    if (x) memcpy(x + (to >= 0 ? to : LEFT_OUT - 1 - to) * B + first, from + i * b, (size_t)b * sizeof *x);
  }
}

/* Additional times make the solver take different steps. */
static void run_likelihood(const sweep *j, int worker, atvi_idx first, atvi_idx b, const double *theta,
                           double *out) {
  atvi_loaded *l = j->y.opts->fitted ? j->y.opts->fitted : j->y.l;
  const atvi_target *t = l->target;
  t->ops->pointwise(t->self, atvi_model_evaluator_work_of(l->ev, worker), b, theta, out);
  for (atvi_idx i = 0; l != j->y.l && i < t->n_obs && i < j->y.n_data; i++)
    memcpy(j->log_lik + i * j->y.opts->n + first, out + i * b, (size_t)b * sizeof *out);
  if (l == j->y.l) spread(j, t->n_obs, first, b, out, j->log_lik, NULL);
}

static void run_group(void *arg, atvi_idx item, int worker) {
  const sweep *j = arg;
  const atvi_target *t = j->t;
  void *work = atvi_model_evaluator_work_of(j->y.l->ev, worker);
  atvi_idx B = j->y.opts->n, first = item * j->group, b = B - first < j->group ? B - first : j->group;
  double *theta = j->room + (size_t)worker * j->per_worker, *out = theta + t->d * j->group;
  for (atvi_idx i = 0; i < t->d; i++)
    for (atvi_idx k = 0; k < b; k++) theta[i * b + k] = j->theta[i * B + first + k];
  t->ops->predict(t->self, work, b, theta, out);
  if (j->y.l->model->emulated && t->ops->latent) t->ops->latent(t->self, work, j->seed, first, b, theta, out);
  spread(j, t->n_out, first, b, out, j->mean, j->grid);
  if (t->n_obs == 0) return;
  (t->ops->predictive ? t->ops->predictive : t->ops->simulate)(t->self, work, j->seed, first, b, theta, out);
  spread(j, t->n_obs, first, b, out, j->draw, j->grid_draw);
  if (j->others) {
    t->ops->leave_one_out(t->self, work, j->seed, first, b, theta, out);
    spread(j, t->n_obs, first, b, out, j->others, NULL);
  }
  run_likelihood(j, worker, first, b, theta, out);
}

static atvi_status groups_new(sweep *j) {
  const layout *y = &j->y;
  bool observed = j->t->n_obs > 0;
  const struct {
    const char *name;
    bool wanted;
    atvi_idx n;
    double **x;
  } group[] = {
      {"mean", true, y->n_mean, &j->mean},
      {"grid", y->n_grid > 0, y->n_grid, &j->grid},
      {"predictive", observed, y->n_data, &j->draw},
      {"grid_predictive", y->n_data_grid > 0, y->n_data_grid, &j->grid_draw},
      {"others", observed && y->l->model->emulated && j->t->ops->leave_one_out, y->n_data, &j->others},
      {"log_lik", observed, y->n_data, &j->log_lik}};
  for (size_t k = 0; k < sizeof group / sizeof *group; k++)
    if (group[k].wanted)
      ATVI_TRY(atvi_draws_group_new(y->d, group[k].name, group[k].n, y->opts->n, y->opts->draw, group[k].x));
  return ATVI_OK;
}

static atvi_status fill(atvi_pool *pool, atvi_loaded *l, const atvi_predictions_opts *opts, atvi_draws *d) {
  const atvi_target *t = l->target;
  atvi_idx n = t->n_out > t->n_obs ? t->n_out : t->n_obs;
  sweep j = {.y = {.l = l, .opts = opts, .d = d}, .t = t};
  atvi_rng rng = atvi_math_rng_at(d->made->seed, ATVI_STREAM_PREDICT, 0,
                                  0); /* not the noise that simulated the data, if they were simulated */
  j.seed = atvi_math_rng_bits(&rng);
  j.group = t->group > 0 ? t->group : ATVI_LANES;
  j.per_worker = (size_t)((t->d + n) * j.group);
  j.room = atvi_pool_take(pool, (size_t)atvi_ctx_threads(d->ctx) * j.per_worker + 1, sizeof *j.room);
  j.theta = atvi_pool_take(pool, (size_t)(t->d * opts->n) + 1, sizeof *j.theta);
  if (!j.room || !j.theta) return ATVI_ENOMEM;
  gather(d, opts->n, opts->draw, j.theta);
  ATVI_TRY(lay_out(pool, &j.y));
  ATVI_TRY(groups_new(&j));
  atvi_parallel(d->ctx, (opts->n + j.group - 1) / j.group, run_group, &j);
  return ATVI_OK;
}

atvi_status atvi_app_predictions_fill(atvi_loaded *l, const atvi_predictions_opts *opts, atvi_draws *d) {
  atvi_pool *own;
  ATVI_TRY(atvi_pool_new(d->ctx, &own));
  d->about->dependent = l->model->emulated != NULL;
  atvi_status status = fill(own, l, opts, d);
  atvi_pool_free(own);
  return status;
}

/* ---- what is known about the model ---- */

static const char *keep(atvi_draws *d, const char *s) {
  return s ? atvi_pool_strndup(atvi_draws_pool(d), s, strlen(s)) : NULL;
}

static atvi_prior prior_of(const atvi_lang *lang, const char *name) {
  atvi_prior out = {0};
  for (atvi_idx i = 0; i < lang->n_param; i++) {
    const atvi_lang_param *p = &lang->param[i];
    if (strcmp(p->name, name) != 0) continue;
    if (p->flat) return (atvi_prior){0};
    for (int k = 0; k < p->n_arg; k++)
      if (!atvi_graph_is_const(lang->graph, p->arg[k], &out.arg[k])) return (atvi_prior){0};
    out.dist = atvi_lang_dist_get(p->dist)->name;
    out.truncated = p->truncated;
    out.lower = p->lower, out.upper = p->upper;
    break;
  }
  return out;
}

void atvi_app_predictions_priors(const atvi_loaded *l, atvi_draws *d) {
  atvi_prior *prior = atvi_pool_take(atvi_draws_pool(d), (size_t)d->n_param + 1, sizeof *prior);
  for (atvi_idx i = 0; prior && i < d->n_param; i++) prior[i] = prior_of(l->model->lang, d->col[i].name);
  d->prior = prior;
}

atvi_status atvi_app_predictions_describe(const atvi_loaded *l, const char *command, atvi_draws *d) {
  const atvi_lang *lang = l->model->lang;
  atvi_app_predictions_priors(l, d);
  *d->about = (atvi_about){.title = keep(d, lang->title && *lang->title ? lang->title : l->target->name),
                           .time_name = keep(d, atvi_app_report_time_name(lang)),
                           .day0 = lang->time.calendar.day0,
                           .day_unit = lang->time.calendar.unit,
                           .n_data = lang->n_data,
                           .command = keep(d, command),
                           .dependent = l->model->emulated != NULL};
  atvi_pool *own;
  ATVI_TRY(atvi_pool_new(d->ctx, &own));
  layout y = {.l = (atvi_loaded *)l, .opts = &(atvi_predictions_opts){.fit = true}, .d = d};
  atvi_status status = lay_out(own, &y);
  atvi_pool_free(own);
  return status == ATVI_OK && atvi_pool_failed(atvi_draws_pool(d)) ? ATVI_ENOMEM : status;
}

static atvi_status keep_failed(const atvi_evaluator *ev, atvi_draws *d) {
  atvi_pool *pool = atvi_draws_pool(d);
  double *theta = atvi_pool_take(pool, (size_t)(ATVI_FAILED_KEPT * d->n_param), sizeof *theta);
  atvi_failed_point *list = atvi_pool_take(pool, ATVI_FAILED_KEPT, sizeof *list);
  atvi_outcome why[ATVI_FAILED_KEPT];
  if (!theta || !list) return ATVI_ENOMEM;
  d->n_failed = atvi_model_evaluator_failed(ev, theta, why);
  for (atvi_idx k = 0; k < d->n_failed; k++) list[k] = (atvi_failed_point){theta + k * d->n_param, why[k]};
  d->failed = list;
  return ATVI_OK;
}

static atvi_status draw_prior(const atvi_loaded *l, atvi_draws *d) {
  const atvi_target *t = l->target;
  void *work = atvi_model_evaluator_work(l->ev);
  double *x;
  if (!t->ops->prior_draw || atvi_app_flat(l) || d->n_col != t->d + t->n_derived) return ATVI_OK;
  ATVI_TRY(atvi_draws_group_new(d, "prior", d->n_col, PRIOR_DRAWS, NULL, &x));
  /* not the draws from which a simulation study takes its truths */
  atvi_rng rng = atvi_math_rng_at(d->made->seed, ATVI_STREAM_PREDICT, 1, 0);
  atvi_model_evaluator_prior(l->ev, atvi_math_rng_bits(&rng), 0, PRIOR_DRAWS, x);
  if (t->n_derived) t->ops->derived(t->self, work, PRIOR_DRAWS, x, x + t->d * PRIOR_DRAWS);
  return ATVI_OK;
}

/* ---- a grid of times ---- */

typedef struct {
  const atvi_model *m;
  double first, last, step;
  atvi_idx most, n;
  double *time;
} grid;

static void grid_add(grid *g, double t) {
  const atvi_lang *lang = g->m->lang;
  if (lang->kind == ATVI_MODEL_MAP)
    t = lang->time.start + lang->time.step * round((t - lang->time.start) / lang->time.step);
  if (t > g->first && t < g->last && t >= lang->time.start) g->time[g->n++] = t;
}

/* Both sides of pulses (states before) and of jumps of tables (values after). */
static void add_jumps(grid *g) {
  const atvi_ode *ode = &g->m->odes.fit;
  size_t table = 2 * (size_t)g->m->lang->n_table * sizeof(double);
  double beside = BESIDE * (g->last - g->first);
  atvi_idx before = g->n, jumps = 0;
  for (atvi_idx i = 1; i < ode->n_stop; i++) {
    const atvi_ode_stop *s = &ode->stop[i];
    bool pulse = s->pulse >= 0, jump = memcmp(s->tab, ode->stop[i - 1].tab, table) != 0;
    if ((!pulse && !jump) || s->t <= g->first || s->t >= g->last) continue;
    if (++jumps > JUMPS * g->most / GRID) {
      g->n = before;
      return;
    }
    grid_add(g, s->t);
    grid_add(g, pulse ? s->t + beside : s->t - beside);
  }
}

static void add_between(grid *g, double from, double to) {
  atvi_idx pieces = (atvi_idx)ceil((to - from) / g->step - SAME_TIME);
  for (atvi_idx k = 1; k < pieces && k <= g->most; k++)
    grid_add(g, from + (to - from) * (double)k / (double)pieces);
}

/* Enough times over the range of the data that none are further apart than a 200th of it, or a 24th for many
 * units. */
static void add_even(grid *g, const double *data, atvi_idx n) {
  for (atvi_idx i = 1; i < n; i++) add_between(g, data[i - 1], data[i]);
}

/* The way from the start to the first data, where that is short: doses are given before anything is measured. */
static void add_start(grid *g) {
  double start = g->m->lang->time.start, first = g->first, range = g->last - first;
  if (!(first > start) || first - start > NEAR_START * range) return;
  g->first = start;
  grid_add(g, start + BESIDE * range);
  add_between(g, start, first);
}

/* About `points` times between those of all data sets of a model or a unit; *n is 0 if nothing continues in
 * time. */
static atvi_status find_grid(atvi_pool *pool, const atvi_model *m, atvi_idx points, atvi_idx *n,
                             const double **time) {
  const atvi_lang *lang = m->lang;
  grid g = {.m = m, .most = points};
  atvi_idx n_data = 0, most = 0;
  *n = 0;
  if (!m->odes.any || m->emulated) return ATVI_OK;
  for (atvi_idx k = 0; k < lang->n_data; k++) most += lang->data[k].time ? lang->data[k].n_row : 0;
  double *data = atvi_pool_take(pool, (size_t)most + 1, sizeof *data);
  g.time = atvi_pool_take(pool, 2 * (size_t)points + 2 * (size_t)JUMPS + (size_t)most + 6, sizeof *g.time);
  if (!data || !g.time) return ATVI_ENOMEM;
  for (atvi_idx k = 0; k < lang->n_data; k++)
    for (atvi_idx r = 0; lang->data[k].time && r < lang->data[k].n_row; r++)
      data[n_data++] = lang->data[k].time[r];
  if (n_data < 2) return ATVI_OK;
  qsort(data, (size_t)n_data, sizeof *data, atvi_math_by_value);
  g.first = data[0], g.last = data[n_data - 1];
  g.step = (g.last - g.first) / (double)points;
  if (!(g.step > 0)) return ATVI_OK;
  add_even(&g, data, n_data);
  add_start(&g);
  add_jumps(&g);
  qsort(g.time, (size_t)g.n, sizeof *g.time, atvi_math_by_value);
  double eps = SAME_TIME * fmax(g.last - g.first, fmax(fabs(g.first), fabs(g.last)));
  for (atvi_idx i = 0; i < g.n; i++)
    if ((*n == 0 || g.time[i] - g.time[*n - 1] > eps) &&
        !atvi_app_predictions_among(n_data, data, g.time[i], eps))
      g.time[(*n)++] = g.time[i];
  *time = g.time;
  return ATVI_OK;
}

/* Units have grids of their own, coarser ones if there are many. */
static atvi_status find_grids(atvi_pool *pool, const atvi_model *m, atvi_model_load_opts *how) {
  if (!m->blocks.part) return find_grid(pool, m, GRID, &how->n_time, &how->time);
  atvi_model_times_of *own = atvi_pool_take(pool, (size_t)m->blocks.n_part, sizeof *own);
  atvi_idx points = GRID_ALL / m->blocks.n_part;
  if (!own) return ATVI_ENOMEM;
  points = points > GRID ? GRID : points < GRID_LEAST ? GRID_LEAST : points;
  for (atvi_idx i = 0; i < m->blocks.n_part; i++) {
    ATVI_TRY(find_grid(pool, m->blocks.part[i].m, points, &own[i].n, &own[i].time));
    how->n_time += own[i].n;
  }
  how->own_time = own;
  return ATVI_OK;
}

/* ---- the simulator alone ---- */

/* The simulator alone, as its emulator predicts it at draws of the posterior, without the emulator's error
 * and a discrepancy, which are fitted to the data. They explain the rest. */

enum { G = ATVI_EM_GROUP };

typedef struct {
  atvi_ctx *ctx;
  const atvi_model *model;
  const atvi_draws *plain;
  const double *held; /* [d of the model] values of fixed parameters */
  const atvi_process *process;
  const atvi_emulation *em;
  atvi_idx B;
  const atvi_idx *draw; /* [B] */
  double *at;           /* [n][B] */
} work;

/* Input j at draw b, in the unit cube. */
static double input_at(const work *w, atvi_idx j, atvi_idx b) {
  const atvi_target *t = atvi_model_target(w->model);
  const atvi_draws *d = w->plain;
  atvi_idx param = w->em->input[j], c = atvi_draws_find(d, t->param[param].name);
  double theta = c >= 0 ? d->x[c * d->n + w->draw[b]] : w->held[param];
  return atvi_model_emulated_axis_x(&w->em->axis[j], theta);
}

static atvi_status evaluate(const work *w) {
  const atvi_process *p = w->process;
  atvi_em_work *em;
  size_t room = (size_t)((w->em->d + p->n + 1) * G);
  double *x = atvi_block(w->ctx, room * sizeof *x), *mean = x ? x + w->em->d * G : NULL,
         *share = mean ? mean + p->n * G : NULL;
  if (!x) return ATVI_ENOMEM;
  atvi_status status = atvi_gp_em_work_new(w->em->em, w->ctx, p->n, p->em_row, &em);
  for (atvi_idx first = 0; status == ATVI_OK && first < w->B; first += G) {
    for (atvi_idx j = 0; j < w->em->d; j++)
      for (atvi_idx b = 0; b < G; b++) x[j * G + b] = input_at(w, j, first + b < w->B ? first + b : w->B - 1);
    atvi_gp_em_eval(w->em->em, em, x, mean, share);
    for (atvi_idx i = 0; i < p->n; i++)
      for (atvi_idx b = 0; b < G && first + b < w->B; b++) w->at[i * w->B + first + b] = mean[i * G + b];
  }
  atvi_gp_em_work_free(em);
  atvi_block_free(w->ctx, x);
  return status;
}

/* For a model with emulators: the group "simulator", its output alone at opts->draw. Errors: ENOMEM,
 * EINVAL. */
static atvi_status simulator_alone(const atvi_loaded *l, const atvi_app_model *model,
                                   const atvi_predictions_opts *opts, atvi_draws *d) {
  const atvi_emulated *e = l->model->emulated;
  const atvi_target *t = atvi_model_target(l->model);
  const atvi_group *observed = atvi_draws_group(d, "predictive");
  double *held, *x;
  if (!e || !observed) return ATVI_OK;
  ATVI_TRY(atvi_draws_group_new(d, "simulator", observed->n_value, opts->n, opts->draw, &x));
  for (atvi_idx i = 0; i < observed->n_value * opts->n; i++) x[i] = NAN;
  if (!(held = atvi_block(d->ctx, ((size_t)t->d + 1) * sizeof *held))) return ATVI_ENOMEM;
  atvi_status status = atvi_app_values(d->ctx, "--fix", t, model->n_fix, model->fix, held);
  for (atvi_idx k = 0; status == ATVI_OK && k < e->n; k++) {
    const atvi_process *p = &e->process[k];
    atvi_idx at = 0;
    if (p->emulator < 0 || p->n == 0 || !e->emulator[p->emulator].em || d->series[p->observe].n != p->n)
      continue;
    for (atvi_idx s = 0; s < p->observe; s++) at += d->series[s].n;
    status = evaluate(&(work){d->ctx, l->model, d, held, p, &e->emulator[p->emulator], opts->n, opts->draw,
                              x + at * opts->n});
  }
  atvi_block_free(d->ctx, held);
  return status;
}

/* ---- fits ---- */

/* The same number from each chain. */
static atvi_idx affordable(const atvi_target *t, const atvi_draws *d) {
  double n = fmin(fmax((double)d->made->evaluations / SHARE, DRAWS_FEW), DRAWS_MOST), each = 1;
  for (atvi_idx s = 0; s < t->n_series; s++)
    if (t->series[s].kind != ATVI_SERIES_STATE)
      each += (double)t->series[s].n * (t->series[s].kind == ATVI_SERIES_OBSERVED ? 3 : 1);
  n = fmax(DRAWS_LEAST, fmin(n, MOST_NUMBERS / each));
  atvi_idx per_chain = (atvi_idx)n / d->n_chain, all = d->n / d->n_chain;
  return d->n_chain * (per_chain < 1 ? 1 : per_chain < all ? per_chain : all);
}

static atvi_status run_fit(atvi_pool *pool, atvi_loaded *l, atvi_loaded *fitted, const atvi_app_model *model,
                           const char *holdout, atvi_draws *d) {
  atvi_predictions_opts opts = {.holdout = holdout, .fit = true, .fitted = fitted};
  atvi_idx *draw;
  ATVI_TRY(atvi_app_predictions_pick(pool, d, affordable(l->target, d), &opts.n, &draw));
  opts.draw = draw;
  ATVI_TRY(atvi_app_predictions_fill(l, &opts, d));
  return simulator_alone(l, model, &opts, d);
}

/* The model with a grid of times and, if rows are held out, with all its data, so that they can be shown;
 * *all is empty if that is the model of the fit. */
static atvi_status load_all(atvi_ctx *ctx, atvi_pool *pool, const atvi_loaded *l, const atvi_app_model *model,
                            const char *text, const char *holdout, atvi_loaded *all) {
  atvi_app_model again = *model;
  atvi_model_load_opts how = {.text = text, .apart = holdout, .extend = true, .like = l->model};
  *all = (atvi_loaded){0};
  ATVI_TRY(find_grids(pool, l->model, &how));
  if (!holdout && how.n_time == 0) return ATVI_OK;
  again.interpret = again.interpret || !l->model->prog.info.compiled; /* the reason was already logged */
  return atvi_app_load(ctx, &again, &how, all);
}

static atvi_status load_and_run(atvi_pool *pool, atvi_loaded *l, const atvi_app_model *model,
                                const char *text, const char *holdout, atvi_draws *d) {
  atvi_loaded all;
  ATVI_TRY(load_all(d->ctx, pool, l, model, text, holdout, &all));
  if (!all.model) return run_fit(pool, l, l, model, NULL, d);
  atvi_status status = run_fit(pool, &all, l, model, holdout, d);
  atvi_app_unload(&all);
  return status;
}

atvi_status atvi_app_predictions_serve(atvi_ctx *ctx, atvi_pool *pool, const atvi_loaded *l,
                                       const atvi_app_model *model, const char *holdout) {
  atvi_loaded all;
  ATVI_TRY(load_all(ctx, pool, l, model, l->model->lang->source, holdout, &all));
  atvi_app_unload(&all);
  return ATVI_OK;
}

atvi_status atvi_app_predictions_of_fit(atvi_loaded *l, const atvi_app_model *model, const char *text,
                                        const char *holdout, const char *command, atvi_draws *d) {
  atvi_pool *own;
  ATVI_TRY(atvi_app_predictions_describe(l, command, d));
  ATVI_TRY(keep_failed(l->ev, d));
  ATVI_TRY(atvi_pool_new(d->ctx, &own));
  atvi_status status = load_and_run(own, l, model, text, holdout, d);
  atvi_pool_free(own);
  if (status != ATVI_OK) {
    d->n_group = 0;
    d->about->no_groups = keep(d, atvi_errmsg(d->ctx));
  }
  ATVI_TRY(draw_prior(l, d));
  return atvi_pool_status(atvi_draws_pool(d));
}
