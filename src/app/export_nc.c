/* SPDX-License-Identifier: MIT */
/* fit.nc: groups of ArviZ's InferenceData (schema 1.1), and two of our own for draws with weights.
 *
 *   posterior             (chain, draw, ...)        draws that count equally
 *   sample_stats          (chain, draw)             lp, log_prior, log_lik, weight (1/n)
 *   weighted_posterior    (chain, draw, ...)        draws of the approximation, as they came
 *   weighted_sample_stats (chain, draw)             the same of them, weight is what each counts
 *   posterior_predictive  (chain, draw, time, ...)  at some of the draws of posterior: draw says which
 *   log_likelihood        (chain, draw, time, ...)
 *   observed_data         (time, ...)
 *   prior                 (chain, draw, ...)
 *
 * The schema requires a date, created_at; otherwise the same fit gives the same bytes.
 *
 * Functions add_... define a part of the file and remember its values, which are put when everything is
 * defined (io/netcdf.h). */
#include "app/common.h"
#include "io/arrays.h"
#include "io/file.h"
#include "io/netcdf.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <sys/wait.h>
#include <unistd.h>

enum { AXES = ATVI_ARRAY_DIMS + 3 };

typedef struct writer writer;

/* The values of a variable: one of integer, word and real if they are in memory as they are to be put, else
 * gather makes them. */
typedef struct values {
  int group, var;
  const int64_t *integer;
  const char *const *word;
  const double *real;
  void (*gather)(const writer *w, const struct values *v, double *out); /* out[n] */
  atvi_idx n;
  /* What gather takes them from; NULL: it does not need it, or for from: the data. */
  const atvi_draws *draws;
  const atvi_array *array;
  const atvi_group *from;
} values;

struct writer {
  atvi_ctx *ctx;
  atvi_pool *pool;
  const atvi_export_fit *fit;
  atvi_netcdf *f;
  char created_at[32];
  atvi_idx n_observed; /* series of fit->plain, the first */
  const char **name;   /* [n_observed] unique */
  const char **axis;   /* [n_data] name of the dimension along the rows of a data set */
  atvi_idx *at;        /* [n_observed] first row of a series in groups */
  atvi_draws prior;
  atvi_idx n_later, cap;
  values *later; /* [n_later] to be put at the end */
};

/* A group, its future contents, and the names in it so far. */
typedef struct {
  int id;
  int chain, draw; /* dimensions */
  atvi_idx n_array, n_taken;
  const atvi_array *array; /* [n_array] */
  const char **taken;      /* [n_taken] of dimensions and of variables */
} group;

/* The pool remembers if there is no memory. */
static void put_later(writer *w, values v) {
  if (ATVI_PUSH(w->pool, w->later, w->n_later, w->cap)) w->later[w->n_later++] = v;
}

/* ---- attributes ---- */

static void note_number(const writer *w, int g, const char *key, double x) {
  if (!isnan(x)) atvi_io_netcdf_note_reals(w->f, g, ATVI_NETCDF_ROOT, key, 1, &x);
}

/* Now, in UTC; or SOURCE_DATE_EPOCH, for reproducible bytes. */
static void date(char out[32]) {
  const char *fixed = getenv("SOURCE_DATE_EPOCH");
  char *end;
  long long given = fixed && *fixed ? strtoll(fixed, &end, 10) : -1;
  bool use = given >= 0 && given < 253402300800 && *end == 0; /* up to the year 9999 */
  time_t at = use ? (time_t)given : time(NULL);
  struct tm utc;
  if (!gmtime_r(&at, &utc) || strftime(out, 32, "%Y-%m-%dT%H:%M:%S+00:00", &utc) == 0) out[0] = 0;
}

static void note_library(const writer *w, int g) {
  static const char *const key[] = {"creation_library", "inference_library"};
  for (int i = 0; i < 2; i++) {
    char version[40];
    snprintf(version, sizeof version, "%s_version", key[i]);
    atvi_io_netcdf_note(w->f, g, ATVI_NETCDF_ROOT, key[i], "atvi");
    atvi_io_netcdf_note(w->f, g, ATVI_NETCDF_ROOT, version, ATVI_VERSION);
  }
  atvi_io_netcdf_note(w->f, g, ATVI_NETCDF_ROOT, "creation_library_language", "C");
  atvi_io_netcdf_note(w->f, g, ATVI_NETCDF_ROOT, "created_at", w->created_at);
}

/* How the draws were made. */
static void note_made(const writer *w, int g) {
  const atvi_made *m = w->fit->plain->made;
  const int own = ATVI_NETCDF_ROOT;
  if (m->model && *m->model) atvi_io_netcdf_note(w->f, g, own, "model", m->model);
  if (m->method && *m->method) atvi_io_netcdf_note(w->f, g, own, "method", m->method);
  if (w->fit->verdict) atvi_io_netcdf_note(w->f, g, own, "verdict", w->fit->verdict);
  char seed[24];
  snprintf(seed, sizeof seed, "%" PRIu64, m->seed);
  if (m->seed <= INT64_MAX)
    atvi_io_netcdf_note_integer(w->f, g, own, "seed", (int64_t)m->seed);
  else
    atvi_io_netcdf_note(w->f, g, own, "seed", seed);
  atvi_io_netcdf_note_integer(w->f, g, own, "evaluations", m->evaluations);
  atvi_io_netcdf_note_integer(w->f, g, own, "failures", m->failures);
  note_number(w, g, "log_evidence", m->log_evidence);
  note_number(w, g, "log_evidence_se", m->log_evidence_se);
  note_number(w, g, "elbo", m->elbo);
  note_number(w, g, "khat", m->khat);
  note_number(w, g, "divergences", m->divergences);
}

/* ---- dimensions ---- */

/* made: we made the name, and it must not hide a name of the model. */
static bool used(const group *g, const char *name, bool made) {
  for (atvi_idx i = 0; i < g->n_taken; i++)
    if (strcmp(g->taken[i], name) == 0) return true;
  for (atvi_idx i = 0; made && i < g->n_array; i++)
    if (strcmp(g->array[i].name, name) == 0) return true;
  return false;
}

/* Takes the name, with _ appended while it is in use: a variable named like a dimension would be its
 * coordinate. NULL: out of memory. */
static const char *take(const writer *w, group *g, const char *name, bool made) {
  for (; name && used(g, name, made); made = true) name = atvi_pool_printf(w->pool, "%s_", name);
  if (name) g->taken[g->n_taken++] = name;
  return name;
}

/* word: NULL if labels are numbers */
static void index_dim(writer *w, const group *g, const char *name, atvi_idx n, const int64_t *label,
                      const char *const *word, int *dim) {
  *dim = atvi_io_netcdf_dim(w->f, g->id, name, n);
  int var = word ? atvi_io_netcdf_words(w->f, g->id, name, 1, dim)
                 : atvi_io_netcdf_integers(w->f, g->id, name, 1, dim);
  put_later(w, (values){.group = g->id, .var = var, .word = word, .integer = word ? NULL : label});
}

/* 0, 1, ...; NULL: out of memory */
static const int64_t *count(const writer *w, atvi_idx n) {
  int64_t *out = atvi_pool_take(w->pool, (size_t)n + 1, sizeof *out);
  for (atvi_idx i = 0; out && i < n; i++) out[i] = i;
  return out;
}

/* g->array is to be set; n_chain = 0: without draws. draw: their numbers; NULL: all. */
static atvi_status begin(writer *w, const char *name, atvi_idx n_chain, atvi_idx n, const int64_t *draw,
                         group *g) {
  atvi_idx most = 2 + w->fit->plain->about->n_data + g->n_array * (1 + ATVI_ARRAY_DIMS);
  g->taken = atvi_pool_take(w->pool, (size_t)most, sizeof *g->taken);
  g->id = atvi_io_netcdf_group(w->f, name);
  g->chain = g->draw = -1;
  if (!g->taken) return ATVI_ENOMEM;
  note_library(w, g->id);
  if (n_chain == 0) return ATVI_OK;
  const int64_t *chain = count(w, n_chain), *number = draw ? draw : count(w, n);
  if (!chain || !number) return ATVI_ENOMEM;
  index_dim(w, g, take(w, g, "chain", false), n_chain, chain, NULL, &g->chain);
  index_dim(w, g, take(w, g, "draw", false), n, number, NULL, &g->draw);
  return ATVI_OK;
}

static atvi_status array_dims(writer *w, group *g, const atvi_array *a, int *dim) {
  for (int k = 0; k < a->n_dim; k++) {
    const char *name = take(w, g, atvi_pool_printf(w->pool, "%s_dim_%d", a->name, k), true);
    if (!name) return ATVI_ENOMEM;
    index_dim(w, g, name, a->size[k], a->label[k], a->word[k], &dim[k]);
  }
  return ATVI_OK;
}

/* ---- draws ---- */

static void note_bounds(const writer *w, const group *g, int var, const atvi_draws *d, const atvi_array *a) {
  bool lower = true, upper = true;
  const atvi_column *c = d->col + a->first;
  for (atvi_idx i = 0; i < a->n; i++) {
    lower = lower && isfinite(c[i].lower) && c[i].lower == c[0].lower;
    upper = upper && isfinite(c[i].upper) && c[i].upper == c[0].upper;
  }
  if (lower) atvi_io_netcdf_note_reals(w->f, g->id, var, "lower", 1, &c[0].lower);
  if (upper) atvi_io_netcdf_note_reals(w->f, g->id, var, "upper", 1, &c[0].upper);
}

static void gather_array(const writer *w, const values *v, double *out) {
  const atvi_draws *d = v->draws;
  const atvi_array *a = v->array;
  (void)w;
  for (atvi_idx i = 0; i < d->n; i++)
    for (atvi_idx j = 0; j < a->n; j++) out[i * a->n + j] = d->x[(a->first + j) * d->n + i];
}

static atvi_status add_array(writer *w, group *g, const atvi_draws *d, const atvi_array *a) {
  int dim[AXES] = {g->chain, g->draw};
  ATVI_TRY(array_dims(w, g, a, dim + 2));
  const char *name = take(w, g, a->name, false);
  if (!name) return ATVI_ENOMEM;
  int var = atvi_io_netcdf_reals(w->f, g->id, name, 2 + a->n_dim, dim, false);
  note_bounds(w, g, var, d, a);
  if (a->first >= d->n_param) atvi_io_netcdf_note(w->f, g->id, var, "kind", "derived");
  put_later(w, (values){g->id, var, .gather = gather_array, .n = d->n * a->n, .draws = d, .array = a});
  return ATVI_OK;
}

/* d is kept until its values are put. */
static atvi_status add_draws(writer *w, const char *name, const atvi_draws *d, group *g) {
  atvi_array *array;
  atvi_idx n;
  const char **names = atvi_pool_take(w->pool, (size_t)d->n_col + 1, sizeof *names);
  atvi_idx *derived = atvi_pool_take(w->pool, (size_t)d->n_col + 1, sizeof *derived);
  if (!names || !derived) return ATVI_ENOMEM;
  for (atvi_idx j = 0; j < d->n_col; j++) names[j] = d->col[j].name, derived[j] = j >= d->n_param;
  ATVI_TRY(atvi_io_arrays_find(w->pool, d->n_col, names, derived, &n, &array));
  *g = (group){.n_array = n, .array = array};
  ATVI_TRY(begin(w, name, d->n_chain, d->n / d->n_chain, NULL, g));
  for (atvi_idx i = 0; i < n; i++) ATVI_TRY(add_array(w, g, d, &array[i]));
  return ATVI_OK;
}

static void gather_lp(const writer *w, const values *v, double *out) {
  (void)w;
  for (atvi_idx i = 0; i < v->n; i++) out[i] = v->draws->log_prior[i] + v->draws->log_lik[i];
}

static void gather_weight(const writer *w, const values *v, double *out) {
  const double *weight = v->draws->weight;
  (void)w;
  for (atvi_idx i = 0; i < v->n; i++) out[i] = weight ? weight[i] : 1 / (double)v->n;
}

static atvi_status add_stats(writer *w, const char *name, const atvi_draws *d) {
  group g = {0};
  ATVI_TRY(begin(w, name, d->n_chain, d->n / d->n_chain, NULL, &g));
  note_made(w, g.id);
  const int dim[] = {g.chain, g.draw};
  int lp = atvi_io_netcdf_reals(w->f, g.id, "lp", 2, dim, false);
  int log_prior = atvi_io_netcdf_reals(w->f, g.id, "log_prior", 2, dim, false);
  int log_lik = atvi_io_netcdf_reals(w->f, g.id, "log_lik", 2, dim, false);
  int weight = atvi_io_netcdf_reals(w->f, g.id, "weight", 2, dim, !d->weight);
  put_later(w, (values){g.id, lp, .gather = gather_lp, .n = d->n, .draws = d});
  put_later(w, (values){g.id, log_prior, .real = d->log_prior});
  put_later(w, (values){g.id, log_lik, .real = d->log_lik});
  put_later(w, (values){g.id, weight, .gather = gather_weight, .n = d->n, .draws = d});
  return ATVI_OK;
}

/* ---- names of series ---- */

static const char *data_name(const writer *w, const atvi_draws_series *s) {
  return s->set[0] ? s->set : atvi_pool_printf(w->pool, "%td", s->data + 1);
}

/* Length of a name without indices: the elements of an array form one variable. */
static size_t base(const char *name) { return strcspn(name, "."); }

static bool same_base(const char *a, const char *b) {
  return base(a) == base(b) && memcmp(a, b, base(a)) == 0;
}

/* Whether the name belongs to a variable other than that of series s, in the model or made earlier. */
static bool name_used(const writer *w, atvi_idx s, const char *name) {
  const atvi_draws_series *series = w->fit->plain->series;
  for (atvi_idx k = 0; k < w->n_observed; k++) {
    bool own = series[k].data == series[s].data && same_base(series[k].name, series[s].name);
    if (!own && (same_base(name, series[k].name) || (k < s && same_base(name, w->name[k])))) return true;
  }
  return false;
}

/* y.1 of data set one becomes one_y.1 if another has a y, with further _ after one_y while that is in use. */
static const char *series_name(const writer *w, atvi_idx s) {
  const atvi_draws_series *of = &w->fit->plain->series[s];
  if (!name_used(w, s, of->name)) return of->name;
  const char *out = atvi_pool_printf(w->pool, "%s_%s", data_name(w, of), of->name);
  while (out && name_used(w, s, out))
    out = atvi_pool_printf(w->pool, "%.*s_%s", (int)base(out), out, out + base(out));
  return out;
}

static atvi_status name_all(writer *w) {
  const atvi_draws *d = w->fit->plain;
  w->name = atvi_pool_take(w->pool, (size_t)d->n_series + 1, sizeof *w->name);
  w->axis = atvi_pool_take(w->pool, (size_t)d->about->n_data + 1, sizeof *w->axis);
  w->at = atvi_pool_take(w->pool, (size_t)d->n_series + 1, sizeof *w->at);
  if (!w->name || !w->axis || !w->at) return ATVI_ENOMEM;
  while (w->n_observed < d->n_series && d->series[w->n_observed].kind == ATVI_SERIES_OBSERVED)
    w->n_observed++;
  for (atvi_idx s = 0; s < w->n_observed; s++) {
    const atvi_draws_series *of = &d->series[s];
    const char *word = of->rows ? "row" : "time";
    w->axis[of->data] =
        d->about->n_data == 1 ? word : atvi_pool_printf(w->pool, "%s_%s", word, data_name(w, of));
    w->name[s] = series_name(w, s);
    w->at[s] = s ? w->at[s - 1] + d->series[s - 1].n : 0;
    if (!w->name[s]) return ATVI_ENOMEM;
  }
  return atvi_pool_status(w->pool);
}

/* ---- series ---- */

/* Dimensions along the rows of every data set that has one, also as coordinates. */
static atvi_status row_dims(writer *w, group *g, int *dim) {
  for (atvi_idx s = 0; s < w->n_observed; s++) {
    const atvi_draws_series *x = &w->fit->plain->series[s];
    if (dim[x->data] >= 0) continue;
    const char *name = take(w, g, w->axis[x->data], false);
    if (!name) return ATVI_ENOMEM;
    dim[x->data] = atvi_io_netcdf_dim(w->f, g->id, name, x->n);
    int var = atvi_io_netcdf_reals(w->f, g->id, name, 1, &dim[x->data], false);
    put_later(w, (values){g->id, var, .real = x->time});
  }
  return ATVI_OK;
}

static bool simulated(const atvi_group *from) { return from && strcmp(from->name, "predictive") == 0; }

/* Rows by elements, of all draws of a group, or the data. Held-out values are not part of the data. */
static void gather_series(const writer *w, const values *v, double *out) {
  const atvi_array *a = v->array;
  const atvi_group *from = v->from;
  const atvi_draws_series *s = w->fit->plain->series + a->first;
  for (atvi_idx b = 0; b < (from ? from->n_draw : 1); b++)
    for (atvi_idx r = 0; r < s->n; r++)
      for (atvi_idx j = 0; j < a->n; j++) {
        bool known = simulated(from) || !(s[j].mark[r] & ATVI_MARK_HELD);
        *out++ = !known ? NAN : from ? from->x[(w->at[a->first + j] + r) * from->n_draw + b] : s[j].value[r];
      }
}

/* Whether all values of a group are whole numbers. */
static bool is_counts(const writer *w, const atvi_array *a, const atvi_group *from) {
  const atvi_draws_series *s = w->fit->plain->series + a->first;
  for (atvi_idx j = 0; j < a->n; j++) {
    const double *x = from->x + w->at[a->first + j] * from->n_draw;
    for (atvi_idx i = 0; i < s->n * from->n_draw; i++)
      if (!isnan(x[i]) && x[i] != floor(x[i])) return false;
  }
  return true;
}

static atvi_status add_series(writer *w, group *g, const atvi_array *a, const atvi_group *from, int rows) {
  const atvi_draws_series *s = w->fit->plain->series + a->first;
  int dim[AXES] = {g->chain, g->draw}, n_dim = from ? 2 : 0;
  dim[n_dim++] = rows;
  ATVI_TRY(array_dims(w, g, a, dim + n_dim));
  const char *name = take(w, g, a->name, false);
  if (!name) return ATVI_ENOMEM;
  /* counts are small numbers and compress to an eighth; other numbers take a tenth of a second and stay as
   * they are */
  bool pack = simulated(from) && is_counts(w, a, from);
  int var = atvi_io_netcdf_reals(w->f, g->id, name, n_dim + a->n_dim, dim, pack);
  atvi_idx n = (from ? from->n_draw : 1) * s->n * a->n;
  put_later(w, (values){g->id, var, .gather = gather_series, .n = n, .array = a, .from = from});
  return ATVI_OK;
}

/* Numbers of the draws of a group in each chain. */
static atvi_status begin_series(writer *w, const char *name, const atvi_group *from, group *g) {
  const atvi_draws *d = w->fit->plain;
  if (!from) return begin(w, name, 0, 0, NULL, g);
  atvi_idx n_chain = from->n_draw % d->n_chain == 0 ? d->n_chain : 1, each = from->n_draw / n_chain;
  int64_t *draw = atvi_pool_take(w->pool, (size_t)each + 1, sizeof *draw);
  if (!draw) return ATVI_ENOMEM;
  for (atvi_idx k = 0; k < each; k++) draw[k] = from->draw ? from->draw[k] : k;
  return begin(w, name, n_chain, each, draw, g);
}

/* from NULL: the data. */
static atvi_status add_all_series(writer *w, const char *name, const atvi_group *from) {
  const atvi_draws *d = w->fit->plain;
  atvi_array *array;
  atvi_idx n;
  atvi_idx *kin = atvi_pool_take(w->pool, (size_t)w->n_observed + 1, sizeof *kin);
  int *rows = atvi_pool_take(w->pool, (size_t)d->about->n_data + 1, sizeof *rows);
  if (!kin || !rows) return ATVI_ENOMEM;
  for (atvi_idx k = 0; k < d->about->n_data; k++) rows[k] = -1;
  for (atvi_idx s = 0; s < w->n_observed; s++) kin[s] = d->series[s].data;
  ATVI_TRY(atvi_io_arrays_find(w->pool, w->n_observed, w->name, kin, &n, &array));
  group g = {.n_array = n, .array = array};
  ATVI_TRY(begin_series(w, name, from, &g));
  if (from && strcmp(from->name, "log_lik") == 0 && d->about->dependent)
    atvi_io_netcdf_note(w->f, g.id, ATVI_NETCDF_ROOT, "comment",
                        "Observations are correlated: these are densities of each value given all others, "
                        "and do not add up to log_lik of sample_stats.");
  ATVI_TRY(row_dims(w, &g, rows));
  for (atvi_idx i = 0; i < n; i++)
    ATVI_TRY(add_series(w, &g, &array[i], from, rows[d->series[array[i].first].data]));
  return ATVI_OK;
}

/* ---- the whole ---- */

static atvi_status add_prior(writer *w, const atvi_group *from) {
  const atvi_draws *d = w->fit->plain;
  group g = {0};
  w->prior = (atvi_draws){
      .n = from->n_draw, .n_chain = 1, .n_param = d->n_param, .n_col = d->n_col, .col = d->col, .x = from->x};
  return add_draws(w, "prior", &w->prior, &g);
}

static atvi_status add_groups(writer *w) {
  const atvi_draws *d = w->fit->plain;
  const atvi_group *predictive = atvi_draws_group(d, "predictive"), *log_lik = atvi_draws_group(d, "log_lik"),
                   *prior = atvi_draws_group(d, "prior");
  if (predictive && log_lik) {
    ATVI_TRY(name_all(w));
    ATVI_TRY(add_all_series(w, "posterior_predictive", predictive));
    ATVI_TRY(add_all_series(w, "log_likelihood", log_lik));
    ATVI_TRY(add_all_series(w, "observed_data", NULL));
  }
  return prior ? add_prior(w, prior) : ATVI_OK;
}

static atvi_status add_fit(writer *w) {
  const atvi_export_fit *fit = w->fit;
  group g = {0};
  note_library(w, ATVI_NETCDF_ROOT);
  note_made(w, ATVI_NETCDF_ROOT);
  ATVI_TRY(add_draws(w, "posterior", fit->plain, &g));
  note_made(w, g.id);
  if (fit->weighted)
    atvi_io_netcdf_note(w->f, g.id, ATVI_NETCDF_ROOT, "comment",
                        "These draws count equally. The draws behind them are in weighted_posterior, and "
                        "their weights in weighted_sample_stats.");
  ATVI_TRY(add_stats(w, "sample_stats", fit->plain));
  if (fit->weighted) {
    ATVI_TRY(add_draws(w, "weighted_posterior", fit->weighted, &g));
    ATVI_TRY(add_stats(w, "weighted_sample_stats", fit->weighted));
  }
  return add_groups(w);
}

/* room: for the values that are gathered */
static void put(const writer *w, const values *v, double *room) {
  const double *real = v->gather ? room : v->real;
  if (v->gather) v->gather(w, v, room);
  if (v->word)
    atvi_io_netcdf_put_words(w->f, v->group, v->var, v->word);
  else if (v->integer)
    atvi_io_netcdf_put_integers(w->f, v->group, v->var, v->integer);
  else
    atvi_io_netcdf_put_reals(w->f, v->group, v->var, real);
}

static atvi_status put_all(const writer *w) {
  atvi_idx most = 1;
  ATVI_TRY(atvi_pool_status(w->pool));
  for (atvi_idx i = 0; i < w->n_later; i++) most = w->later[i].n > most ? w->later[i].n : most;
  double *room = atvi_block(w->ctx, (size_t)most * sizeof *room);
  if (!room) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < w->n_later; i++) put(w, &w->later[i], room);
  atvi_block_free(w->ctx, room);
  return ATVI_OK;
}

static atvi_status write_here(atvi_ctx *ctx, atvi_pool *pool, const atvi_export_fit *fit, const char *path) {
  writer w = {.ctx = ctx, .pool = pool, .fit = fit};
  date(w.created_at);
  ATVI_TRY(atvi_io_netcdf_new(ctx, path, &w.f));
  atvi_status status = add_fit(&w);
  if (status == ATVI_OK) status = put_all(&w);
  if (status == ATVI_OK) status = atvi_io_netcdf_commit(w.f);
  atvi_io_netcdf_free(w.f);
  return status;
}

/* fit.nc is written by a process of its own: libhdf5 may crash if memory is short, and a fit has its page to
 * draw meanwhile. */

enum { WORDS = 1024, LOOK_EVERY_MS = 50 };

/* What the other process found: its status and, if it failed, its message. */
typedef struct {
  atvi_status status;
  char words[WORDS];
} verdict;

/* In the other process: it ends when a signal asks to stop, and when its parent ends. */
static void end_by_signals(const sigset_t *mask) {
  static const int number[] = {SIGINT, SIGTERM};
  for (int i = 0; i < 2; i++)
    if (signal(number[i], SIG_DFL) == SIG_IGN) signal(number[i], SIG_IGN);
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  pthread_sigmask(SIG_SETMASK, mask, NULL);
}

/* The other process. It has this thread alone: the others must have been asleep. */
static void write_apart(atvi_ctx *ctx, atvi_pool *pool, const atvi_export_fit *fit, const char *path,
                        int fd) {
  verdict v = {0};
  v.status = write_here(ctx, pool, fit, path);
  if (v.status != ATVI_OK) snprintf(v.words, sizeof v.words, "%s", atvi_errmsg(ctx));
  ssize_t put = write(fd, &v, sizeof v); /* shorter than PIPE_BUF: never torn */
  _exit(put == (ssize_t)sizeof v ? 0 : 1);
}

static atvi_status start(atvi_ctx *ctx, atvi_pool *pool, const atvi_export_fit *fit, const char *path,
                         atvi_export_process *p) {
  int fd[2];
  sigset_t all, old;
  *p = (atvi_export_process){.so_far = atvi_stop_asked(ctx)};
  if (pipe(fd) != 0) return atvi_io_file_cannot(ctx, "write", path, errno);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old); /* our handlers must not run in the other process */
  pid_t pid = fork();
  if (pid == 0) {
    end_by_signals(&old);
    write_apart(ctx, pool, fit, path, fd[1]);
  }
  int err = errno;
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  close(fd[1]);
  if (pid > 0) {
    p->pid = pid;
    p->fd = fd[0];
    return ATVI_OK;
  }
  close(fd[0]);
  return atvi_io_file_cannot(ctx, "write", path, err);
}

/* Until the other process has something to say or has ended. A request to stop that came since it was started
 * ends it: true. */
static bool wait_for(atvi_ctx *ctx, const atvi_export_process *p) {
  struct pollfd look = {.fd = p->fd, .events = POLLIN};
  while (poll(&look, 1, LOOK_EVERY_MS) <= 0) {
    if (p->so_far || !atvi_stop_asked(ctx)) continue;
    kill(p->pid, SIGKILL);
    return true;
  }
  return false;
}

static atvi_status finish(atvi_ctx *ctx, atvi_export_process *p) {
  int how = 0;
  verdict v;
  ssize_t got;
  bool stopped = wait_for(ctx, p);
  do got = read(p->fd, &v, sizeof v);
  while (got < 0 && errno == EINTR);
  close(p->fd);
  while (waitpid(p->pid, &how, 0) < 0 && errno == EINTR) continue;
  p->pid = 0;
  stopped = stopped || (WIFSIGNALED(how) && (WTERMSIG(how) == SIGINT || WTERMSIG(how) == SIGTERM));
  if (stopped && got != (ssize_t)sizeof v) return ATVI_FAIL(ctx, ATVI_ESTOP, "stopped");
  if (got != (ssize_t)sizeof v)
    return WIFSIGNALED(how) ? ATVI_FAIL(ctx, ATVI_EIO, "the netCDF library ended its process with signal %d",
                                        WTERMSIG(how))
                            : ATVI_FAIL(ctx, ATVI_EIO, "the netCDF library ended its process with status %d",
                                        WEXITSTATUS(how));
  v.words[WORDS - 1] = 0;
  return v.status == ATVI_OK ? ATVI_OK : ATVI_FAIL(ctx, v.status, "%s", v.words);
}

atvi_status atvi_app_export_nc(atvi_ctx *ctx, atvi_pool *pool, const atvi_export_fit *fit, const char *path) {
  atvi_export_process p;
  ATVI_TRY(start(ctx, pool, fit, path, &p));
  return finish(ctx, &p);
}

static void tell_lost(atvi_ctx *ctx, const char *dir) {
  atvi_log(ctx, ATVI_LOG_LOST, "%s/fit.nc was not written: %s; atvi export %s --format nc writes it", dir,
           atvi_errmsg(ctx), dir);
}

void atvi_app_export_begin(atvi_ctx *ctx, atvi_pool *pool, const atvi_export_fit *fit, const char *dir,
                           atvi_export_process *p) {
  const char *path = atvi_pool_printf(pool, "%s/fit.nc", dir);
  *p = (atvi_export_process){0};
  if (path && atvi_io_netcdf_available(ctx) != ATVI_OK)
    atvi_log(ctx, ATVI_LOG_NOTE, "fit.nc was not written: %s", atvi_errmsg(ctx));
  else if (!path || start(ctx, pool, fit, path, p) != ATVI_OK)
    tell_lost(ctx, dir);
  p->dir = dir;
}

void atvi_app_export_end(atvi_ctx *ctx, atvi_export_process *p) {
  if (p->pid > 0 && finish(ctx, p) != ATVI_OK) tell_lost(ctx, p->dir);
}
