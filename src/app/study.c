/* SPDX-License-Identifier: MIT */
/* atvi study: simulate at a known truth, fit, score, many times.
 *
 * Replicate r has the observations number r - 1 of the seed (the first is what `atvi simulate --observe`
 * writes with the same seed) and is fitted with seed + r - 1. Each fit ends as one line of
 * DIR/replicates.csv; everything else is computed from those lines, so that a study can be stopped anywhere
 * and continued. */
#include "app/study.h"
#include "app/common.h"
#include "app/predictions.h"
#include "app/replicate.h"
#include "app/report.h"
#include "diag/score.h"
#include "diag/summary.h"
#include "io/file.h"
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

enum { DRAWS = 5000, DRAWS_LEAST = 500, HASH = 20 };
#define HASH_FORMAT "h%016" PRIx64      /* in letters, so that no reader takes it for a number */
static const double MANY_NUMBERS = 1e7; /* numbers predicted for one fit */

typedef struct {
  atvi_ctx *ctx;
  atvi_pool *pool;
  const atvi_app_study_opts *opts;
  atvi_loaded *l; /* the model with its own data, for the layout */
  double *theta;  /* [d] the truth */
  atvi_study s;
  atvi_record rec;
} study;

/* ---- the truth: name=value,... or a JSON file {"beta": 0.9, "nu": [1, 2]} ---- */

static const char WANT[] = "hint: the truth is a JSON object with a number, or a list of them, for every "
                           "parameter: {\"beta\": 0.9, \"nu\": [1, 2]}";

typedef struct {
  atvi_ctx *ctx;
  atvi_pool *pool;
  atvi_app_set *set;
  atvi_idx n, cap;
} given;

static atvi_status put(given *t, const char *name, size_t n_name, const char *value, size_t n_value) {
  if (!ATVI_PUSH(t->pool, t->set, t->n, t->cap)) return ATVI_ENOMEM;
  atvi_app_set *s = &t->set[t->n++];
  s->name = atvi_pool_strndup(t->pool, name, n_name);
  s->value = atvi_pool_strndup(t->pool, value, n_value);
  return s->name && s->value ? ATVI_OK : ATVI_ENOMEM;
}

static size_t without_blanks(const char **s, size_t n) {
  size_t skip = strspn(*s, " \t");
  if (skip > n) skip = n;
  *s += skip;
  for (n -= skip; n > 0 && strchr(" \t", (*s)[n - 1]);) n--;
  return n;
}

/* A comma ends a value only where a further name follows: "nu=1,2,beta=0.9". */
static atvi_status pairs(given *t, const char *text) {
  while (*text) {
    const char *name = text, *value = text + strcspn(text, "="), *end = value + 1;
    size_t n_name = without_blanks(&name, (size_t)(value - text));
    if (!*value || n_name == 0)
      return ATVI_FAIL(t->ctx, ATVI_EINVAL, "--truth %s: want name=value,... or a JSON file", text);
    value++;
    for (;;) {
      end += strcspn(end, ",");
      if (!*end) break;
      size_t next = strcspn(end + 1, ",=");
      if (end[1 + next] == '=') break;
      end++;
    }
    text = *end ? end + 1 : end;
    size_t n_value = (size_t)(end - value);
    n_value = without_blanks(&value, n_value);
    ATVI_TRY(put(t, name, n_name, value, n_value));
  }
  return ATVI_OK;
}

static bool list(atvi_text *out, const json_t *v) {
  if (json_is_number(v)) {
    if (out->n) atvi_io_text_add(out, ",");
    atvi_io_text_number(out, json_number_value(v));
    return true;
  }
  for (size_t i = 0; i < json_array_size(v); i++)
    if (!list(out, json_array_get(v, i))) return false;
  return json_array_size(v) > 0;
}

static atvi_status from_json(given *t, const char *path, const json_t *root) {
  const char *name, *text;
  json_t *value;
  if (!json_is_object(root))
    return ATVI_FAIL(t->ctx, ATVI_EDATA, "%s:1:1: error: this is not an object of names and numbers\n%s",
                     path, WANT);
  json_object_foreach((json_t *)root, name, value) {
    atvi_text out = {.pool = t->pool};
    if (!list(&out, value))
      return ATVI_FAIL(t->ctx, ATVI_EDATA, "%s:1:1: error: %s is neither a number nor a list of numbers",
                       path, name);
    ATVI_TRY(atvi_io_text_get(&out, &text));
    ATVI_TRY(put(t, name, strlen(name), text, strlen(text)));
  }
  return ATVI_OK;
}

static atvi_status file(given *t, const char *path) {
  char *text;
  size_t n;
  json_error_t error;
  atvi_status found = atvi_io_file_read(t->pool, path, &text, &n);
  if (found == ATVI_EIO) return ATVI_EINVAL; /* for the user to fix, like a wrong value */
  ATVI_TRY(found);
  if (strspn(text, " \t\r\n") == n)
    return ATVI_FAIL(t->ctx, ATVI_EDATA, "%s:1:1: error: the file is empty\n%s", path, WANT);
  json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
  if (!root)
    return ATVI_FAIL(t->ctx, ATVI_EDATA, "%s:%d:%d: error: %s\n%s", path, error.line, error.column,
                     error.text, WANT);
  found = from_json(t, path, root);
  json_decref(root);
  return found;
}

/* One after another, so that a value given twice, by name or by array, is noticed. one: [d]. */
static atvi_status assign(const given *t, const atvi_target *target, double *theta, double *one) {
  for (atvi_idx i = 0; i < target->d; i++) theta[i] = NAN;
  for (atvi_idx k = 0; k < t->n; k++) {
    ATVI_TRY(atvi_app_values(t->ctx, "--truth", target, 1, &t->set[k], one));
    for (atvi_idx i = 0; i < target->d; i++) {
      if (isnan(one[i])) continue;
      if (!isnan(theta[i]))
        return ATVI_FAIL(t->ctx, ATVI_EINVAL, "--truth: %s is listed twice, %g and %g", target->param[i].name,
                         theta[i], one[i]);
      theta[i] = one[i];
    }
  }
  return ATVI_OK;
}

/* A truth file may also contain fixed parameters. */
static void drop_fixed(given *t, const atvi_app_model *model) {
  atvi_idx n = 0;
  for (atvi_idx i = 0; i < t->n; i++) {
    bool fixed = false;
    for (atvi_idx k = 0; k < model->n_fix; k++) fixed = fixed || !strcmp(model->fix[k].name, t->set[i].name);
    if (!fixed) t->set[n++] = t->set[i];
  }
  t->n = n;
}

/* Fills x->theta: every parameter must get a value inside its bounds; fixed ones may have one too, which is
 * ignored; none may have two. Errors: EINVAL, EDATA (the file), ENOMEM. */
static atvi_status read_truth(study *x) {
  const atvi_target *target = x->l->target;
  given t = {.ctx = x->ctx, .pool = x->pool};
  double *theta = x->theta, *one = atvi_pool_take(x->pool, (size_t)target->d + 1, sizeof *one);
  if (!one) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < x->opts->n_truth; i++) {
    const char *text = x->opts->truth[i];
    ATVI_TRY(strchr(text, '=') ? pairs(&t, text) : file(&t, text));
  }
  drop_fixed(&t, &x->opts->all.model);
  ATVI_TRY(assign(&t, target, theta, one));
  for (atvi_idx i = 0; i < target->d; i++) {
    const atvi_param *p = &target->param[i];
    if (isnan(theta[i]))
      return ATVI_FAIL(x->ctx, ATVI_EINVAL, "--truth has no value for %s (its bounds are [%g, %g])", p->name,
                       p->lower, p->upper);
    if (theta[i] < p->lower || theta[i] > p->upper)
      return ATVI_FAIL(x->ctx, ATVI_EINVAL, "--truth %s=%g is outside its bounds [%g, %g]", p->name, theta[i],
                       p->lower, p->upper);
  }
  return ATVI_OK;
}

/* ---- settings ---- */

static atvi_status find_methods(study *x) {
  atvi_study *s = &x->s;
  const atvi_method **method;
  ATVI_TRY(atvi_app_methods(x->pool, ATVI_METHOD_POSTERIOR, x->opts->methods, &s->n_method, &method));
  s->method = atvi_pool_take(x->pool, (size_t)s->n_method, sizeof *s->method);
  if (!s->method) return ATVI_ENOMEM;
  for (atvi_idx k = 0; k < s->n_method; k++) s->method[k].name = method[k]->name;
  return ATVI_OK;
}

static atvi_status find_quantities(study *x) {
  const atvi_target *t = x->l->target;
  atvi_quantity *q = atvi_pool_take(x->pool, (size_t)(t->d + t->n_derived + t->n_series) + 1, sizeof *q);
  double *derived = atvi_pool_take(x->pool, (size_t)t->n_derived + 1, sizeof *derived);
  if (!q || !derived) return ATVI_ENOMEM;
  if (t->n_derived) t->ops->derived(t->self, atvi_model_evaluator_work(x->l->ev), 1, x->theta, derived);
  atvi_idx n = 0;
  for (atvi_idx i = 0; i < t->d; i++)
    q[n++] = (atvi_quantity){t->param[i].name, ATVI_QUANTITY_PARAMETER, x->theta[i]};
  for (atvi_idx i = 0; i < t->n_derived; i++)
    q[n++] = (atvi_quantity){t->derived[i], ATVI_QUANTITY_DERIVED, derived[i]};
  /* The discrepancy in simulated data is not kept, so there is no truth for it. */
  for (atvi_idx i = 0; i < t->n_series; i++)
    if (t->series[i].kind == ATVI_SERIES_TRACKED && atvi_model_series_part(x->l->model, i) == ATVI_PART_WHOLE)
      q[n++] = (atvi_quantity){t->series[i].name, ATVI_QUANTITY_TRACKED, NAN};
  x->s.quantity = q;
  x->s.n_quantity = n;
  return ATVI_OK;
}

static const char *pattern(const study *x) { return x->opts->pattern ? x->opts->pattern : "set_%d.csv"; }

static atvi_status open_record(study *x) {
  const atvi_app_study_opts *o = x->opts;
  const char *header;
  atvi_json w = {.pool = x->pool};
  ATVI_TRY(atvi_app_study_header(x->pool, x->s.n_quantity, x->s.quantity, &header));
  atvi_app_record_settings(&w, x->l, &o->all);
  atvi_io_json_object(&w, "truth");
  for (atvi_idx i = 0; i < x->l->target->d; i++)
    atvi_io_json_put(&w, x->l->target->param[i].name, json_real(x->theta[i]));
  atvi_io_json_end(&w);
  atvi_io_json_put(&w, "methods", json_string(o->methods));
  atvi_io_json_put(&w, "data-dir", atvi_app_bytes_json(x->pool, o->data_dir));
  atvi_io_json_put(&w, "pattern", atvi_app_bytes_json(x->pool, o->data_dir ? pattern(x) : NULL));
  x->rec = (atvi_record){.command = "study",
                         .header = header,
                         .dir = o->all.out,
                         .shared = atvi_app_repeat_is_shared(&o->all.share)};
  return atvi_app_record_open(x->pool, &o->all.model, &w, &x->rec);
}

/* ---- data ---- */

/* The existing data set of replicate r. */
static const char *given_path(const study *x, atvi_idx r) {
  const char *name = pattern(x), *at = strstr(name, "%d");
  return atvi_pool_printf(x->pool, "%s/%.*s%td%s", x->opts->data_dir, (int)(at - name), name, r, at + 2);
}

static atvi_status check_given(const study *x) {
  if (!x->opts->data_dir && x->opts->pattern)
    return ATVI_FAIL(
        x->ctx, ATVI_EINVAL,
        "--pattern %s: names the files of --data-dir, which is missing; without it data are simulated",
        x->opts->pattern);
  if (!x->opts->data_dir) return ATVI_OK;
  if (!strstr(pattern(x), "%d"))
    return ATVI_FAIL(x->ctx, ATVI_EINVAL, "--pattern %s: want a name with %%d for the number", pattern(x));
  if (atvi_app_files(x->l->model->lang) != 1)
    return ATVI_FAIL(x->ctx, ATVI_EINVAL, "--data-dir: the model has %td data sets; want a model with one",
                     atvi_app_files(x->l->model->lang));
  for (atvi_idx r = 1; r <= x->opts->all.replicates; r++) {
    const char *path = given_path(x, r);
    if (!path) return ATVI_ENOMEM;
    if (access(path, R_OK) != 0)
      return ATVI_FAIL(x->ctx, ATVI_EDATA,
                       "%s: error: there is no such file\nhint: --replicates %td needs that many data sets; "
                       "--pattern says how they are named",
                       path, x->opts->all.replicates);
  }
  return ATVI_OK;
}

static atvi_status hash_of(atvi_pool *pool, const char *path, uint64_t *hash) {
  char *text;
  size_t n;
  ATVI_TRY(atvi_io_file_read(pool, path, &text, &n));
  *hash = atvi_hash(ATVI_HASH, text, n);
  return ATVI_OK;
}

/* Fitted data sets must not have changed: all fits of a replicate are to the same data. */
static atvi_status check_same(const study *x) {
  const atvi_csv *done = x->rec.done;
  atvi_pool *pool;
  if (!x->opts->data_dir || !done) return ATVI_OK;
  ATVI_TRY(atvi_pool_new(x->ctx, &pool));
  atvi_status status = ATVI_OK;
  for (atvi_idx i = 0; status == ATVI_OK && i < done->n_row; i++) {
    atvi_idx r = (atvi_idx)atvi_app_record_number(done, i, "", "replicate");
    const char *path = given_path(x, r), *was = atvi_app_record_text(done, i, "data_hash");
    char now[HASH];
    uint64_t hash = 0;
    if (r > x->opts->all.replicates) continue;
    status = path ? hash_of(pool, path, &hash) : ATVI_ENOMEM;
    if (status != ATVI_OK) break;
    snprintf(now, sizeof now, HASH_FORMAT, hash);
    if (strcmp(was, now) != 0)
      status = ATVI_FAIL(x->ctx, ATVI_EDATA,
                         "%s: error: the file has changed since replicate %td was fitted\nhint: restore it, "
                         "or start again with another --out",
                         path, r);
  }
  atvi_pool_free(pool);
  return status;
}

static atvi_status get_data(const atvi_repeat *all, atvi_pool *pool, atvi_replicate_place *at,
                            atvi_app_model *model) {
  const study *x = all->self;
  if (!x->opts->data_dir) return atvi_app_repeat_simulate(all, pool, x->theta, at, model);
  atvi_data_file *data = atvi_pool_take(pool, 1, sizeof *data);
  if (!data || !(data->path = given_path(x, at->replicate))) return ATVI_ENOMEM;
  ATVI_TRY(hash_of(pool, data->path, &at->hash));
  model->n_data = 1;
  model->data = data;
  return ATVI_OK;
}

/* ---- scores of one fit ---- */

typedef struct {
  atvi_idx n;
  atvi_predicted *series; /* [n] */
  atvi_scores *scores;
} predicted;

/* Observed and tracked series with their bands; no LOO, no states. */
static atvi_status predict(atvi_replicate *r, uint64_t seed, predicted *p) {
  const atvi_target *t = r->l.target;
  atvi_predictions_opts opts = {0};
  atvi_idx *draw;
  double few = MANY_NUMBERS / (double)(t->n_out + 2 * t->n_obs + 1);
  atvi_idx most = few > DRAWS ? DRAWS : few < DRAWS_LEAST ? DRAWS_LEAST : (atvi_idx)few;
  ATVI_TRY(atvi_app_predictions_pick(r->pool, r->y.plain, most, &opts.n, &draw));
  opts.draw = draw;
  r->y.plain->made->seed = seed;
  ATVI_TRY(atvi_app_predictions_fill(&r->l, &opts, r->y.plain));
  ATVI_TRY(atvi_diag_predicted_read(r->pool, r->y.plain, 0, &p->n, &p->series));
  ATVI_TRY(atvi_diag_predicted_judge(r->ctx, opts.n, p->n, p->series));
  return atvi_diag_scores_new(r->pool, opts.n, p->n, p->series, &p->scores);
}

static bool inside(double x, const double hpd[2]) { return x >= hpd[0] && x <= hpd[1]; }

/* A tracked series against the truth[n_out]: share of times at which its band contains the truth, mean length
 * of the band, mean squared error of the posterior mean. */
static void add_tracked(atvi_text *out, const atvi_target *t, const predicted *p, const double *truth,
                        const char *name) {
  double in = 0, of = 0, length = 0, square = 0;
  for (atvi_idx s = 0, at = 0; s < p->n; at += t->series[s++].n) {
    if (p->series[s].kind != ATVI_SERIES_TRACKED || strcmp(p->series[s].name, name) != 0) continue;
    for (atvi_idx i = 0; i < p->series[s].n; i++) {
      const atvi_point *point = &p->series[s].point[i];
      const atvi_band *b = &point->of_mean;
      double x = truth[at + point->row];
      if (!isfinite(x) || isnan(b->mean)) continue;
      of++;
      in += inside(x, b->hpd95);
      length += b->hpd95[1] - b->hpd95[0];
      square += (b->mean - x) * (b->mean - x);
    }
  }
  atvi_io_fields_cell(out, of > 0 ? in / of : NAN);
  atvi_io_fields_cell(out, of > 0 ? length / of : NAN);
  atvi_io_fields_cell(out, of > 0 ? square / of : NAN);
}

static atvi_status add_quantities(const study *x, atvi_replicate *r, const atvi_summary *s,
                                  const predicted *p, atvi_text *out) {
  const atvi_target *t = r->l.target;
  double *truth = atvi_pool_take(r->pool, (size_t)t->n_out + 1, sizeof *truth);
  if (!truth) return ATVI_ENOMEM;
  t->ops->predict(t->self, atvi_model_evaluator_work(r->l.ev), 1, x->theta, truth);
  for (atvi_idx i = 0; i < x->s.n_quantity; i++) {
    const atvi_quantity *q = &x->s.quantity[i];
    if (q->kind == ATVI_QUANTITY_TRACKED) {
      add_tracked(out, t, p, truth, q->name);
      continue;
    }
    const atvi_summary_column *c = &s->col[i];
    double covered = isnan(q->truth) || isnan(c->hpd95[0]) ? NAN : inside(q->truth, c->hpd95);
    const double cell[] = {covered, c->mode, c->mean, c->sd, c->hpd95[0], c->hpd95[1]};
    for (int k = 0; k < 6; k++) atvi_io_fields_cell(out, cell[k]);
  }
  return ATVI_OK;
}

/* The rest of the line of a fit after the headline. */
static atvi_status add_scores(const atvi_repeat *all, const atvi_replicate_place *at, atvi_replicate *r,
                              const atvi_summary *s, atvi_text *out) {
  const study *x = all->self;
  predicted p = {0};
  if (r) ATVI_TRY(predict(r, at->seed, &p));
  atvi_io_fields_cells(out, &atvi_diag_score_fields, r ? &p.scores->fitted_all : NULL, ATVI_STUDY_SCORES);
  if (at->hash)
    atvi_io_text_add(out, "," HASH_FORMAT, at->hash);
  else
    atvi_io_text_add(out, ",NA");
  if (r) return add_quantities(x, r, s, &p, out);
  for (atvi_idx i = 0; i < x->s.n_quantity; i++)
    for (int k = 0; k < (x->s.quantity[i].kind == ATVI_QUANTITY_TRACKED ? 3 : 6); k++)
      atvi_io_text_add(out, ",NA");
  return ATVI_OK;
}

/* ---- the whole ---- */

static atvi_status run_all(study *x, atvi_app_repeat_result *out) {
  const char **method = atvi_pool_take(x->pool, (size_t)x->s.n_method + 1, sizeof *method);
  if (!method) return ATVI_ENOMEM;
  for (atvi_idx k = 0; k < x->s.n_method; k++) method[k] = x->s.method[k].name;
  const atvi_repeat all = {.ctx = x->ctx,
                           .command = "study",
                           .option = "--methods",
                           .o = &x->opts->all,
                           .l = x->l,
                           .rec = &x->rec,
                           .n_method = x->s.n_method,
                           .method = method,
                           .named = true,
                           .keys = ATVI_STUDY_FIT,
                           .numbered = true,
                           .begun_s = atvi_clock_s(),
                           .self = x,
                           .data = get_data,
                           .cells = add_scores};
  return atvi_app_repeat_run(&all, out);
}

static atvi_status report(study *x, atvi_app_repeat_result *out) {
  atvi_csv *csv;
  const char *table;
  ATVI_TRY(atvi_app_record_read(&x->rec, &csv));
  if (!csv) return ATVI_OK; /* stopped before the first */
  ATVI_TRY(atvi_app_study_count(x->pool, csv, &x->s));
  ATVI_TRY(atvi_app_study_text(x->pool, &x->s, &out->text));
  ATVI_TRY(atvi_app_study_csv(x->pool, &x->s, &table));
  ATVI_TRY(atvi_app_study_json(x->pool, &x->s, &out->json));
  ATVI_TRY(atvi_io_file_save_in(x->pool, x->rec.dir, "study.csv", table));
  ATVI_TRY(atvi_io_file_save_in(x->pool, x->rec.dir, "study_summary.json", out->json));
  atvi_app_report_study(x->ctx, x->pool, &x->s, x->rec.dir);
  for (atvi_idx k = 0; k < x->s.n_method; k++) {
    out->failed += x->s.method[k].tally.n_failed;
    out->done += x->s.method[k].tally.n_done;
  }
  return ATVI_OK;
}

/* Scoring and simulating need the model at the truth. */
static atvi_status check_truth(study *x) {
  const atvi_target *t = x->l->target;
  if (x->l->model->lang->n_observe == 0)
    return ATVI_FAIL(x->ctx, ATVI_EINVAL, "the model observes nothing, so there is nothing to study");
  x->theta = atvi_pool_take(x->pool, (size_t)t->d + 1, sizeof *x->theta);
  if (!x->theta) return ATVI_ENOMEM;
  ATVI_TRY(read_truth(x));
  double *value = atvi_pool_take(x->pool, (size_t)t->n_obs + 1, sizeof *value);
  if (!value) return ATVI_ENOMEM;
  if (atvi_app_replicate_simulate(x->ctx, x->l, x->opts->all.seed, 1, x->theta, value) == ATVI_OK)
    return ATVI_OK;
  const char *why = atvi_pool_printf(x->pool, "%s", atvi_errmsg(x->ctx));
  return why ? ATVI_FAIL(x->ctx, ATVI_EMODEL, "%s: error: %s", x->opts->all.model.path, why) : ATVI_ENOMEM;
}

static atvi_status run_study(study *x, atvi_app_repeat_result *out) {
  ATVI_TRY(check_truth(x));
  ATVI_TRY(find_methods(x));
  ATVI_TRY(check_given(x));
  if (!x->opts->data_dir) ATVI_TRY(atvi_app_replicate_sets(x->ctx, x->l));
  ATVI_TRY(find_quantities(x));
  ATVI_TRY(open_record(x));
  x->s.model = x->l->target->name;
  x->s.seed = x->opts->all.seed;
  x->s.replicates = x->opts->all.replicates;
  out->dir = x->rec.dir;
  atvi_status status = check_same(x);
  if (status == ATVI_OK) status = run_all(x, out);
  if (status == ATVI_OK && !out->shared) status = report(x, out);
  atvi_app_record_close(&x->rec);
  return status;
}

atvi_status atvi_app_study(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_study_opts *opts,
                           atvi_app_repeat_result *result) {
  atvi_loaded l;
  *result = (atvi_app_repeat_result){0};
  if (opts->n_truth == 0)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "--truth is missing: name=value,... or a JSON file");
  ATVI_TRY(atvi_app_load(ctx, &opts->all.model, NULL, &l));
  study x = {.ctx = ctx, .pool = pool, .opts = opts, .l = &l};
  atvi_status status = run_study(&x, result);
  atvi_app_unload(&l);
  return status;
}

/* An average in its struct. */
typedef struct {
  const char *key;
  size_t offset;
} measure;

#define LINE(name)                                                                                           \
  { #name, offsetof(atvi_study_line, name) }
#define METHOD(name)                                                                                         \
  { #name, offsetof(atvi_study_method, name) }
enum { N_LINE = 4, N_METHOD = 6 };
static const measure LINES[N_LINE] = {LINE(coverage), LINE(mode), LINE(mse), LINE(length)};
static const measure METHODS[N_METHOD] = {METHOD(coverage), METHOD(ail),        METHOD(mspe),
                                          METHOD(ail_sum),  METHOD(mspe_draws), METHOD(seconds)};

static atvi_average *average_of(const measure *m, const void *row) {
  return (atvi_average *)(void *)((char *)row + m->offset);
}

atvi_status atvi_app_study_header(atvi_pool *pool, atvi_idx n, const atvi_quantity *quantity,
                                  const char **text) {
  static const char *const one[] = {"covered", "mode", "mean", "sd", "low", "high", NULL};
  static const char *const many[] = {"covered", "length", "mse", NULL}; /* means over its times */
  atvi_text out = {.pool = pool};
  atvi_app_repeat_header(&out, ATVI_STUDY_FIT);
  atvi_io_fields_names(&out, &atvi_diag_score_fields, ATVI_STUDY_SCORES);
  atvi_io_text_add(&out, ",data_hash");
  for (atvi_idx i = 0; i < n; i++)
    for (const char *const *k = quantity[i].kind == ATVI_QUANTITY_TRACKED ? many : one; *k; k++)
      atvi_io_text_add(&out, ",%s.%s", quantity[i].name, *k);
  return atvi_io_text_get(&out, text);
}

static const char *kind_word(atvi_quantity_kind kind) {
  static const char *const word[] = {"parameter", "derived", "tracked"};
  return word[kind];
}

/* ---- counting ---- */

typedef struct {
  double n, sum, square;
} sums;

static void add(sums *s, double x) {
  if (isnan(x)) return;
  s->n++;
  s->sum += x;
  s->square += x * x;
}

static atvi_average average(const sums *s) {
  atvi_average a = {(atvi_idx)s->n, NAN, NAN};
  if (s->n < 1) return a;
  a.value = s->sum / s->n;
  double variance = s->n > 1 ? fmax(0, s->square - s->n * a.value * a.value) / (s->n - 1) : NAN;
  a.error = sqrt(variance / s->n);
  return a;
}

/* A share of yes and no. If all agree the usual error would be 0, so two of each are added (Agresti and Coull
 * 1998). */
static atvi_average proportion(const sums *s) {
  atvi_average a = average(s);
  double p = (s->sum + 2) / (s->n + 4);
  if (a.n > 0) a.error = sqrt(p * (1 - p) / (s->n + 4));
  return a;
}

static sums column(const atvi_record_part *x, const char *name, const char *what) {
  sums s = {0};
  for (atvi_idx r = 0; r < x->csv->n_row; r++)
    if (atvi_app_record_good(x, r)) add(&s, atvi_app_record_number(x->csv, r, name, what));
  return s;
}

static void count_line(const atvi_record_part *x, const atvi_quantity *q, atvi_study_line *line) {
  sums covered = column(x, q->name, ".covered"), mode = {0}, square = {0}, length = {0};
  if (q->kind == ATVI_QUANTITY_TRACKED) {
    square = column(x, q->name, ".mse");
    length = column(x, q->name, ".length");
    line->coverage = average(&covered);
    line->mse = average(&square);
    line->length = average(&length);
    line->mode = average(&mode);
    return;
  }
  mode = column(x, q->name, ".mode");
  for (atvi_idx r = 0; r < x->csv->n_row; r++) {
    if (!atvi_app_record_good(x, r)) continue;
    double error = atvi_app_record_number(x->csv, r, q->name, ".mode") - q->truth;
    add(&square, error * error);
    add(&length, atvi_app_record_number(x->csv, r, q->name, ".high") -
                     atvi_app_record_number(x->csv, r, q->name, ".low"));
  }
  line->coverage = proportion(&covered);
  line->mode = average(&mode);
  line->mse = average(&square);
  line->length = average(&length);
}

static void count_scores(const atvi_record_part *x, atvi_study_method *m) {
  for (int k = 0; k < N_METHOD; k++) {
    sums all = column(x, "", METHODS[k].key);
    *average_of(&METHODS[k], m) = average(&all);
  }
  m->khat = m->rhat = NAN;
  for (atvi_idx r = 0; r < x->csv->n_row; r++) {
    if (!atvi_app_record_good(x, r)) continue;
    m->khat = fmax(m->khat, atvi_app_record_number(x->csv, r, "", "khat"));
    m->rhat = fmax(m->rhat, atvi_app_record_number(x->csv, r, "", "rhat"));
  }
}

atvi_status atvi_app_study_count(atvi_pool *pool, const atvi_csv *record, atvi_study *s) {
  s->failures = (atvi_failures){0};
  for (atvi_idx k = 0; k < s->n_method; k++) {
    atvi_study_method *m = &s->method[k];
    atvi_record_part x = {record, m->name, s->replicates};
    m->line = atvi_pool_take(pool, (size_t)s->n_quantity + 1, sizeof *m->line);
    if (!m->line) return ATVI_ENOMEM;
    ATVI_TRY(atvi_app_record_tally(pool, &x, true, &m->tally, &s->failures));
    for (atvi_idx i = 0; i < s->n_quantity; i++) count_line(&x, &s->quantity[i], &m->line[i]);
    count_scores(&x, m);
  }
  return ATVI_OK;
}

/* ---- terminal ---- */

static const atvi_field TRUTH[] = {
    ATVI_FIELD_SHOWN("truth", REAL, atvi_quantity, truth, "truth", 11, GENERAL, 4)};
static const atvi_field NUMBERS[] = {
    ATVI_FIELD_SHOWN("mode", REAL, atvi_study_line, mode.value, "mode", 11, GENERAL, 4),
    ATVI_FIELD_SHOWN("mse", REAL, atvi_study_line, mse.value, "MSE", 12, GENERAL, 4),
    ATVI_FIELD_SHOWN("length", REAL, atvi_study_line, length.value, "HPD length", 11, GENERAL, 4)};
static const atvi_fields TRUTH_FIELDS = ATVI_FIELDS(TRUTH), NUMBER_FIELDS = ATVI_FIELDS(NUMBERS);

static void share(atvi_text *out, const atvi_average *a) {
  if (a->n > 0 && isnan(a->error))
    atvi_io_text_add(out, " %6.1f %%%8s", 100 * a->value, "");
  else if (a->n > 0)
    atvi_io_text_add(out, " %6.1f %% +- %4.1f", 100 * a->value, 100 * a->error);
  else
    atvi_io_text_add(out, " %16s", "");
}

static void one(atvi_text *out, const char *name, const atvi_average *a) {
  if (a->n == 0) return;
  atvi_io_text_add(out, "  %-11s %.4g", name, a->value);
  if (!isnan(a->error)) atvi_io_text_add(out, " +- %.2g", a->error);
  atvi_io_text_add(out, "\n");
}

static void method_text(atvi_text *out, const atvi_study *s, const atvi_study_method *m) {
  atvi_io_text_add(out, "\n%s: ", m->name);
  atvi_app_tally_text(out, &m->tally);
  atvi_io_text_add(out, "\n");
  if (m->tally.n_done == 0) return;
  atvi_io_text_add(out, "  %-18s", "");
  atvi_io_fields_heading(out, &TRUTH_FIELDS, NULL);
  atvi_io_text_add(out, "%17s", "coverage");
  atvi_io_fields_heading(out, &NUMBER_FIELDS, NULL);
  atvi_io_text_add(out, "\n");
  for (atvi_idx i = 0; i < s->n_quantity; i++) {
    const atvi_quantity *q = &s->quantity[i];
    atvi_io_text_add(out, "  %-18.40s", q->name);
    atvi_io_fields_row(out, &TRUTH_FIELDS, q, NULL, kind_word(q->kind));
    share(out, &m->line[i].coverage);
    atvi_io_fields_row(out, &NUMBER_FIELDS, &m->line[i], NULL, "");
    atvi_io_text_add(out, "\n");
  }
  if (m->coverage.n > 0) atvi_io_text_add(out, "  data in 95 %% %.1f %%", 100 * m->coverage.value);
  if (m->coverage.n > 1) atvi_io_text_add(out, " +- %.1f", 100 * m->coverage.error);
  if (m->coverage.n > 0) atvi_io_text_add(out, "\n");
  one(out, "AIL", &m->ail);
  one(out, "MSPE", &m->mspe);
  atvi_io_text_add(out, "  %-11s %.3g per fit, %.3g in total\n", "seconds", m->seconds.value,
                   m->seconds.value * (double)m->seconds.n);
  if (!isnan(m->khat)) atvi_io_text_add(out, "  %-11s %.2f at worst\n", "k-hat", m->khat);
  if (!isnan(m->rhat)) atvi_io_text_add(out, "  %-11s %.3f at worst\n", "R-hat", m->rhat);
}

atvi_status atvi_app_study_text(atvi_pool *pool, const atvi_study *s, const char **text) {
  atvi_text out = {.pool = pool};
  atvi_io_text_add(&out, "%s, %td replicate%s, seed %" PRIu64 "\n", s->model, s->replicates,
                   s->replicates == 1 ? "" : "s", s->seed);
  for (atvi_idx k = 0; k < s->n_method; k++) method_text(&out, s, &s->method[k]);
  atvi_app_failures_text(&out, &s->failures);
  return atvi_io_text_get(&out, text);
}

/* ---- files ---- */

/* The averages in the row of a method or, with q, of one of its quantities. */
static void add_rows(atvi_text *out, const char *method, const atvi_quantity *q, int n, const measure *list,
                     const void *row) {
  for (int k = 0; k < n; k++) {
    const atvi_average *a = average_of(&list[k], row);
    if (a->n == 0) continue;
    atvi_io_text_add(out, "%s,", method);
    atvi_app_field(out, q ? q->name : "");
    atvi_io_text_add(out, ",%s,%s,%td,", q ? kind_word(q->kind) : "fit", list[k].key, a->n);
    atvi_io_text_number(out, a->value);
    atvi_io_text_add(out, ",");
    atvi_io_text_number(out, a->error);
    atvi_io_text_add(out, "\n");
  }
}

atvi_status atvi_app_study_csv(atvi_pool *pool, const atvi_study *s, const char **text) {
  atvi_text out = {.pool = pool};
  atvi_io_text_add(&out, "method,quantity,kind,measure,n,value,error\n");
  for (const atvi_study_method *m = s->method; m < s->method + s->n_method; m++) {
    for (atvi_idx i = 0; i < s->n_quantity; i++)
      add_rows(&out, m->name, &s->quantity[i], N_LINE, LINES, &m->line[i]);
    add_rows(&out, m->name, NULL, N_METHOD, METHODS, m);
  }
  return atvi_io_text_get(&out, text);
}

static void put_averages(atvi_json *w, int n, const measure *list, const void *row) {
  for (int k = 0; k < n; k++) {
    const atvi_average *a = average_of(&list[k], row);
    if (a->n == 0) {
      atvi_io_json_put(w, list[k].key, json_null());
      continue;
    }
    atvi_io_json_object(w, list[k].key);
    atvi_io_json_put(w, "value", atvi_io_json_real(a->value));
    atvi_io_json_put(w, "error", atvi_io_json_real(a->error));
    atvi_io_json_end(w);
  }
}

static void put_method(atvi_json *w, const atvi_study *s, const atvi_study_method *m) {
  atvi_io_json_object(w, NULL);
  atvi_io_json_put(w, "method", json_string(m->name));
  atvi_app_tally_json(w, &m->tally);
  atvi_io_json_list(w, "quantities");
  for (atvi_idx i = 0; i < s->n_quantity; i++) {
    atvi_io_json_object(w, NULL);
    atvi_io_json_put(w, "name", atvi_io_json_word(w->pool, s->quantity[i].name));
    atvi_io_json_put(w, "kind", json_string(kind_word(s->quantity[i].kind)));
    atvi_io_json_put(w, "truth", atvi_io_json_real(s->quantity[i].truth));
    put_averages(w, N_LINE, LINES, &m->line[i]);
    atvi_io_json_end(w);
  }
  atvi_io_json_end(w);
  put_averages(w, N_METHOD, METHODS, m);
  atvi_io_json_put(w, "khat", atvi_io_json_real(m->khat));
  atvi_io_json_put(w, "rhat", atvi_io_json_real(m->rhat));
  atvi_io_json_end(w);
}

atvi_status atvi_app_study_json(atvi_pool *pool, const atvi_study *s, const char **text) {
  atvi_json w = {.pool = pool, .digits = 17};
  atvi_io_json_object(&w, NULL);
  atvi_io_json_put(&w, "model", atvi_io_json_word(pool, s->model));
  atvi_io_json_put(&w, "seed", atvi_io_json_seed(pool, s->seed));
  atvi_io_json_put(&w, "replicates", json_integer(s->replicates));
  atvi_io_json_list(&w, "methods");
  for (atvi_idx k = 0; k < s->n_method; k++) put_method(&w, s, &s->method[k]);
  atvi_io_json_end(&w);
  atvi_io_json_words(&w, "failures", s->failures.n, s->failures.of);
  return atvi_io_json_get(&w, "study", text);
}
