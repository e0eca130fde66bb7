/* SPDX-License-Identifier: MIT */
/* The model's series at draws of the posterior, as plain arrays for a report; priors, and the command line. */
#include "app/predict.h"
#include "app/report.h"
#include "math/rng.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Ends of 95 % bands are then known to about a twentieth of a predictive sd; a model with many outputs gets fewer. */
enum { DRAWS = 1000, DRAWS_LEAST = 200 };
static const double MOST_NUMBERS = 2e7;

/* ---- arrays ---- */

typedef struct {
  double *time, *value, *mean, *mean_low, *mean_high, *low, *high, *residual, *pit;
  bool *held, *censored;
} columns;

static bool columns_new(atvi_pool *pool, atvi_idx n, columns *c) {
  double **field[] = {&c->time, &c->value, &c->mean,     &c->mean_low, &c->mean_high,
                      &c->low,  &c->high,  &c->residual, &c->pit};
  for (size_t i = 0; i < sizeof field / sizeof *field; i++)
    *field[i] = atvi_pool_take(pool, (size_t)n + 1, sizeof(double));
  c->held = atvi_pool_take(pool, (size_t)n + 1, sizeof *c->held);
  c->censored = atvi_pool_take(pool, (size_t)n + 1, sizeof *c->censored);
  return !atvi_pool_failed(pool);
}

/* Probability of a smaller observation; what is equal counts in part, at random. */
static double pit_of(const atvi_point *p, atvi_idx B, atvi_rng *rng) {
  double below = 0, equal = 0, n = 0;
  const double *draw = p->others ? p->others : p->draw;
  if (isnan(p->value) || !draw || !p->exact) return NAN;
  for (atvi_idx k = 0; k < B; k++) {
    if (isnan(draw[k])) continue;
    n++;
    below += draw[k] < p->value;
    equal += draw[k] == p->value;
  }
  return n > 0 ? (below + atvi_rng_uniform(rng) * (equal + 1)) / (n + 1) : NAN;
}

/* told: predictions know the values that were fitted. */
static bool convert(atvi_pool *pool, const atvi_predicted *from, bool told, atvi_idx B, atvi_rng *rng,
                    atvi_report_series *to) {
  columns c;
  bool observed = strcmp(from->kind, "observed") == 0, others = false;
  if (!columns_new(pool, from->n, &c)) return false;
  for (atvi_idx i = 0; i < from->n; i++) {
    const atvi_point *p = &from->point[i];
    c.time[i] = p->time;
    c.value[i] = p->value;
    c.held[i] = p->held;
    c.censored[i] = !isnan(p->value) && !p->exact;
    c.mean[i] = p->of_mean.mean;
    c.mean_low[i] = p->of_mean.hpd95[0], c.mean_high[i] = p->of_mean.hpd95[1];
    c.low[i] = p->of_draw.hpd95[0], c.high[i] = p->of_draw.hpd95[1];
    double predicted = isfinite(p->of_mean.mean) && !p->others ? p->of_mean.mean : p->of_draw.mean;
    c.residual[i] = p->exact && p->of_draw.sd > 0 ? (p->value - predicted) / p->of_draw.sd : NAN;
    c.pit[i] = pit_of(p, B, rng);
    if (told && !p->held && !p->others) c.residual[i] = c.pit[i] = NAN;
    others = others || p->others;
  }
  *to = (atvi_report_series){
      .name = atvi_pool_strndup(pool, from->name, strlen(from->name)), /* the model may go */
      .kind = from->kind,
      .n = from->n,
      .time = c.time,
      .mean = c.mean,
      .mean_low = c.mean_low,
      .mean_high = c.mean_high};
  if (!observed) return to->name != NULL;
  to->value = c.value;
  to->held = c.held;
  to->censored = c.censored;
  to->low = c.low, to->high = c.high;
  to->residual = c.residual;
  to->pit = c.pit;
  to->told = told && !others;
  to->others = others;
  return to->name != NULL;
}

/* Other data of the model may have one all the same. */
static bool without_time(const atvi_lang *lang, const atvi_series *s) {
  return s->kind == ATVI_SERIES_OBSERVED && s->group < lang->n_data && !lang->data[s->group].time;
}

/* ---- before the fit ---- */

static atvi_status data_alone(atvi_ctx *ctx, atvi_pool *pool, const atvi_loaded *l, atvi_idx *n,
                              atvi_report_series **out) {
  const atvi_target *t = l->target;
  const atvi_lang *lang = l->model->lang;
  *out = atvi_pool_take(pool, (size_t)t->n_series + 1, sizeof **out);
  if (!*out) return ATVI_FAIL(ctx, ATVI_ENOMEM, "report: out of memory");
  for (atvi_idx s = 0; s < t->n_series; s++)
    if (t->series[s].kind == ATVI_SERIES_OBSERVED)
      (*out)[(*n)++] = (atvi_report_series){.name = t->series[s].name,
                                            .kind = "observed",
                                            .n = t->series[s].n,
                                            .time = t->series[s].time,
                                            .rows = without_time(lang, &t->series[s]),
                                            .value = t->series[s].value};
  return ATVI_OK;
}

/* ---- at draws ---- */

static bool pick(atvi_pool *pool, const atvi_target *t, const atvi_draws *d, atvi_predict_draws *p) {
  double each = (double)(t->n_out + 2 * t->n_obs + 1);
  p->B = (atvi_idx)fmax(DRAWS_LEAST, fmin(DRAWS, MOST_NUMBERS / each));
  if (p->B > d->n) p->B = d->n;
  p->theta = atvi_pool_take(pool, (size_t)(d->n_param * p->B) + 1, sizeof *p->theta);
  for (atvi_idx k = 0; p->theta && k < p->B; k++) {
    atvi_idx at = (atvi_idx)((double)k * (double)d->n / (double)p->B);
    for (atvi_idx i = 0; i < d->n_param; i++) p->theta[i * p->B + k] = d->x[i * d->n + at];
  }
  return p->theta != NULL;
}

/* States are not shown: there may be many, and what matters of them can be tracked. */
static atvi_idx without_states(atvi_idx n, const atvi_predicted *series) {
  while (n > 0 && strcmp(series[n - 1].kind, "state") == 0) n--;
  return n;
}

/* What the model says of the emulator given the data is left out: the simulator alone is shown with the data. */
static void drop_emulators(const atvi_model *m, atvi_idx *n, atvi_report_series *list) {
  atvi_idx left = 0;
  for (atvi_idx s = 0; s < *n; s++)
    if (atvi_model_series_part(m, s) != ATVI_PART_EMULATOR) list[left++] = list[s];
  *n = left;
}

static atvi_status at_draws(atvi_ctx *ctx, atvi_pool *pool, atvi_loaded *l, const char *holdout,
                            const atvi_draws *plain, atvi_idx *n, atvi_report_series **out,
                            atvi_idx *n_draw) {
  atvi_predict_draws p = {0};
  atvi_predicted *series;
  if (!pick(pool, l->target, plain, &p)) return ATVI_FAIL(ctx, ATVI_ENOMEM, "report: out of memory");
  p.want_others = true;
  ATVI_TRY(atvi_predict_run(ctx, pool, l, plain->made.seed, &p));
  ATVI_TRY(atvi_predict_series(ctx, pool, l, holdout, &p, n, &series));
  *n = without_states(*n, series);
  for (atvi_idx s = 0; s < *n; s++)
    for (atvi_idx i = 0; i < series[s].n; i++)
      series[s].point[i].log_lik = NULL; /* no cross-validation here */
  ATVI_TRY(atvi_predicted_judge(ctx, p.B, *n, series));
  *out = atvi_pool_take(pool, (size_t)*n + 1, sizeof **out);
  atvi_rng rng = atvi_rng_at(plain->made.seed, ATVI_STREAM_PREDICT, 1, 0);
  for (atvi_idx s = 0; *out && s < *n; s++)
    if (!convert(pool, &series[s], l->model->emulated != NULL, p.B, &rng, &(*out)[s]))
      *out = NULL;
    else
      (*out)[s].rows = without_time(l->model->lang, &l->target->series[s]);
  *n_draw = p.B;
  if (*out) drop_emulators(l->model, n, *out);
  return *out ? ATVI_OK : ATVI_FAIL(ctx, ATVI_ENOMEM, "report: out of memory");
}

atvi_status atvi_report_series_make(atvi_ctx *ctx, atvi_pool *pool, atvi_loaded *l, const char *holdout,
                                    const atvi_draws *plain, atvi_idx *n, atvi_report_series **out,
                                    atvi_idx *n_draw) {
  *n = *n_draw = 0;
  *out = NULL;
  if (!plain) return data_alone(ctx, pool, l, n, out);
  return at_draws(ctx, pool, l, holdout, plain, n, out, n_draw);
}

/* ---- priors ---- */

double atvi_report_prior_mass(void *user, atvi_idx col, double a, double b) {
  const atvi_report_priors *u = user;
  const atvi_lang_param *p = NULL;
  double arg[ATVI_DIST_ARGS];
  if (col >= u->target->d) return NAN; /* derived */
  for (atvi_idx i = 0; i < u->lang->n_param && !p; i++)
    if (strcmp(u->lang->param[i].name, u->target->param[col].name) == 0) p = &u->lang->param[i];
  if (!p || u->lang->n_param == 0) return NAN;
  for (int k = 0; k < p->n_arg; k++)
    if (!atvi_graph_is_const(u->lang->graph, p->arg[k], &arg[k]))
      return NAN; /* depends on other parameters */
  a = fmax(a, p->lower);
  b = fmin(b, p->upper);
  if (!(a < b)) return 0;
  double all = p->truncated ? atvi_dist_log_mass(p->dist, p->lower, p->upper, arg) : 0;
  return exp(atvi_dist_log_mass(p->dist, a, b, arg) - all);
}
