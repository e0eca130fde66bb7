/* SPDX-License-Identifier: MIT */
/* What goes into fit.nc besides draws: predicted observations and log likelihoods at some of them, and draws of the prior. */
#include "app/export.h"
#include "app/predict.h"
#include "math/rng.h"
#include <math.h>
#include <string.h>

enum {
  MOST_DRAWS = 2000,
  LEAST_DRAWS = 200,
  SHARE = 20, /* a draw takes two runs of the model: a tenth of what the fit took */
};
static const double MOST_NUMBERS = 5e6; /* in a group: 40 MB */

static atvi_status no_memory(atvi_ctx *ctx) { return ATVI_FAIL(ctx, ATVI_ENOMEM, "out of memory: export"); }

/* How many draws, from each chain alike. */
static atvi_idx affordable(const atvi_target *t, const atvi_draws *d) {
  double n = (double)d->made.evaluations / SHARE;
  n = fmin(fmax(n, LEAST_DRAWS), MOST_DRAWS);
  n = fmin(n, MOST_NUMBERS / (double)(t->n_obs > 0 ? t->n_obs : 1));
  atvi_idx each = (atvi_idx)n / d->n_chain, all = d->n / d->n_chain;
  return each < 1 ? 1 : each < all ? each : all;
}

static atvi_status run(atvi_ctx *ctx, atvi_pool *pool, atvi_loaded *l, const atvi_draws *d,
                       atvi_export_said *out) {
  atvi_idx all = d->n / d->n_chain, B = d->n_chain * out->per_chain;
  atvi_predict_draws p = {.B = B, .observed_alone = true};
  p.theta = atvi_pool_take(pool, (size_t)(d->n_param * B) + 1, sizeof *p.theta);
  out->draw = atvi_pool_take(pool, (size_t)out->per_chain, sizeof *out->draw);
  if (!p.theta || !out->draw) return no_memory(ctx);
  for (atvi_idx k = 0; k < out->per_chain; k++)
    out->draw[k] = (int64_t)((double)k * (double)all / (double)out->per_chain);
  for (atvi_idx i = 0; i < d->n_param; i++)
    for (atvi_idx b = 0; b < B; b++)
      p.theta[i * B + b] = d->x[i * d->n + b / out->per_chain * all + out->draw[b % out->per_chain]];
  ATVI_TRY(atvi_predict_run(ctx, pool, l, d->made.seed, &p));
  out->predictive = p.draw;
  out->log_lik = p.log_lik;
  return ATVI_OK;
}

static atvi_status draw_prior(atvi_ctx *ctx, atvi_loaded *l, const atvi_draws *d, atvi_draws **out) {
  const atvi_target *t = l->target;
  void *work = atvi_evaluator_work(l->ev);
  *out = NULL;
  if (!t->ops->prior_draw) return ATVI_OK;
  ATVI_TRY(atvi_draws_new(ctx, MOST_DRAWS, 1, d->n_param, d->n_col, d->col, false, out));
  /* not the draws that a simulation study takes its truths from */
  atvi_rng rng = atvi_rng_at(d->made.seed, ATVI_STREAM_PREDICT, 1, 0);
  t->ops->prior_draw(t->self, work, atvi_rng_bits(&rng), 0, MOST_DRAWS, (*out)->x);
  if (t->n_derived) t->ops->derived(t->self, work, MOST_DRAWS, (*out)->x, (*out)->x + t->d * MOST_DRAWS);
  (*out)->made.seed = d->made.seed;
  return ATVI_OK;
}

static const char *data_name(atvi_pool *pool, const atvi_lang *lang, atvi_idx g) {
  return lang->data[g].name[0] ? lang->data[g].name : atvi_pool_printf(pool, "%td", g + 1);
}

/* Length of a name without indices: elements of an array are one variable. */
static size_t base(const char *name) { return strcspn(name, "."); }

static bool same_base(const char *a, const char *b) {
  return base(a) == base(b) && memcmp(a, b, base(a)) == 0;
}

/* Whether a name is that of another variable than the one series s belongs to: as the model has it, or made for one before. */
static bool used(const atvi_target *t, const atvi_export_said *said, atvi_idx s, const char *name) {
  for (atvi_idx k = 0; k < said->n_series; k++) {
    bool own = t->series[k].group == t->series[s].group && same_base(t->series[k].name, t->series[s].name);
    if (!own && (same_base(name, t->series[k].name) || (k < s && same_base(name, said->name[k]))))
      return true;
  }
  return false;
}

/* y.1 of data set one as one_y.1 where another has a y, and with more _ after one_y where that is used. */
static const char *series_name(atvi_pool *pool, const atvi_lang *lang, const atvi_target *t,
                               const atvi_export_said *said, atvi_idx s) {
  const char *name = t->series[s].name;
  if (!used(t, said, s, name)) return name;
  const char *out = atvi_pool_printf(pool, "%s_%s", data_name(pool, lang, t->series[s].group), name);
  while (out && used(t, said, s, out))
    out = atvi_pool_printf(pool, "%.*s_%s", (int)base(out), out, out + base(out));
  return out;
}

/* Names of series and of their dimensions. */
static atvi_status name_all(atvi_ctx *ctx, atvi_pool *pool, const atvi_loaded *l, atvi_export_said *out) {
  const atvi_lang *lang = l->model->lang;
  const atvi_target *t = l->target;
  out->name = atvi_pool_take(pool, (size_t)t->n_series + 1, sizeof *out->name);
  out->axis = atvi_pool_take(pool, (size_t)lang->n_data + 1, sizeof *out->axis);
  if (!out->name || !out->axis) return no_memory(ctx);
  while (out->n_series < t->n_series && t->series[out->n_series].kind == ATVI_SERIES_OBSERVED)
    out->n_series++;
  out->n_data = lang->n_data;
  for (atvi_idx g = 0; g < lang->n_data; g++) {
    const char *word = lang->data[g].time ? "time" : "row";
    out->axis[g] = lang->n_data == 1 ? word : atvi_pool_printf(pool, "%s_%s", word, data_name(pool, lang, g));
  }
  for (atvi_idx s = 0; s < out->n_series; s++) {
    out->name[s] = series_name(pool, lang, t, out, s);
    if (!out->name[s]) return no_memory(ctx);
  }
  return atvi_pool_failed(pool) ? no_memory(ctx) : ATVI_OK;
}

atvi_status atvi_export_ask(atvi_ctx *ctx, atvi_pool *pool, atvi_loaded *l, const atvi_draws *d,
                            atvi_export_said *out) {
  const atvi_target *t = l->target;
  *out = (atvi_export_said){.target = t, .n_chain = d->n_chain, .per_chain = affordable(t, d)};
  ATVI_TRY(name_all(ctx, pool, l, out));
  if (t->n_obs > 0) ATVI_TRY(run(ctx, pool, l, d, out));
  return draw_prior(ctx, l, d, &out->prior);
}

void atvi_export_said_free(atvi_export_said *said) {
  atvi_draws_free(said->prior);
  *said = (atvi_export_said){0};
}
