/* SPDX-License-Identifier: MIT */
/* DIR/design.csv: one line per point, with its number and the parameters in natural units. It is append-only:
 * existing bytes stay, and the file is replaced in one step. */
#include "app/common.h"
#include "io/csv.h"
#include "io/file.h"
#include "math/stat/stat.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Inputs of a design by quantiles of their priors. A prior with fixed arguments is inverted; one whose
 * arguments are parameters is drawn from. */

enum { DRAWS = 4000, HALVINGS = 200 };
static const double TAIL = 0.001;
static const double REACH = 700; /* expm1 of this is about the largest number */

static double stretched(double u) { return u < 0 ? -expm1(-u) : expm1(u); }
static double shrunk(double x) { return x < 0 ? -log1p(-x) : log1p(x); }

static void support(const atvi_lang_param *q, double *lower, double *upper) {
  const atvi_dist_info *info = atvi_lang_dist_get(q->dist);
  *lower = q->truncated ? fmax(q->lower, info->lower) : info->lower;
  *upper = q->truncated ? fmin(q->upper, info->upper) : info->upper;
}

/* x with P(lower < Y < x) = p P(lower < Y < upper), by bisection on a scale that covers all numbers. */
static double quantile(const atvi_lang_param *q, const double *arg, double p) {
  double lower, upper;
  support(q, &lower, &upper);
  double whole = atvi_lang_dist_log_mass(q->dist, lower, upper, arg);
  double a = isfinite(lower) ? shrunk(lower) : -REACH, b = isfinite(upper) ? shrunk(upper) : REACH;
  for (int k = 0; k < HALVINGS; k++) {
    double mid = a + (b - a) / 2;
    if (!(mid > a && mid < b)) break;
    if (atvi_lang_dist_log_mass(q->dist, lower, stretched(mid), arg) - whole < log(p))
      a = mid;
    else
      b = mid;
  }
  return stretched(a + (b - a) / 2);
}

static double share_below(const atvi_lang_param *q, const double *arg, double x) {
  double lower, upper;
  support(q, &lower, &upper);
  return exp(atvi_lang_dist_log_mass(q->dist, lower, x, arg) -
             atvi_lang_dist_log_mass(q->dist, lower, upper, arg));
}

/* One draw of all parameters: theta[n_param]. An argument that is NaN depends on parameters not drawn yet. */
static atvi_status draw(atvi_ctx *ctx, const atvi_lang *lang, atvi_idx number, double *theta) {
  const double *in[32] = {theta};
  for (atvi_idx i = 0; i < lang->n_param; i++) theta[i] = NAN;
  for (bool more = true; more;) {
    more = false;
    for (atvi_idx i = 0; i < lang->n_param; i++) {
      const atvi_lang_param *q = &lang->param[i];
      double arg[ATVI_DIST_ARGS] = {0};
      bool known = isnan(theta[i]);
      for (int a = 0; a < q->n_arg && known; a++) {
        ATVI_TRY(atvi_graph_value(ctx, lang->graph, q->arg[a], in, &arg[a]));
        known = !isnan(arg[a]);
      }
      if (!known) continue;
      atvi_rng rng = atvi_math_rng_at(1, ATVI_STREAM_PRIOR, (uint32_t)i, (uint32_t)number);
      theta[i] = atvi_lang_dist_draw(&rng, q->dist, arg, q->truncated ? q->lower : -HUGE_VAL,
                                     q->truncated ? q->upper : HUGE_VAL);
      more = more || !isnan(theta[i]);
    }
  }
  return ATVI_OK;
}

static atvi_status draws(atvi_pool *pool, const atvi_lang *lang, atvi_idx k, atvi_program_axis *out) {
  atvi_ctx *ctx = atvi_pool_ctx(pool);
  double *theta = atvi_pool_take(pool, (size_t)lang->n_param + DRAWS, sizeof *theta);
  if (!theta) return ATVI_ENOMEM;
  double *x = theta + lang->n_param;
  for (atvi_idx i = 0; i < DRAWS; i++) {
    ATVI_TRY(draw(ctx, lang, i, theta));
    if (isfinite(theta[k])) x[out->n_draw++] = theta[k];
  }
  qsort(x, (size_t)out->n_draw, sizeof *x, atvi_math_by_value);
  out->draw = x;
  return ATVI_OK;
}

/* For ascending x[n]: the value at share p of them, and back. */
static double drawn_at(atvi_idx n, const double *x, double p) {
  double at = p * (double)(n - 1);
  atvi_idx i = (atvi_idx)at;
  if (i >= n - 1) return x[n - 1];
  return x[i] + (at - (double)i) * (x[i + 1] - x[i]);
}

static double drawn_share(atvi_idx n, const double *x, double v) {
  atvi_idx lo = 0, hi = n - 1;
  while (hi - lo > 1) {
    atvi_idx mid = (lo + hi) / 2;
    if (x[mid] <= v)
      lo = mid;
    else
      hi = mid;
  }
  double step = x[hi] > x[lo] ? fmin((v - x[lo]) / (x[hi] - x[lo]), 1) : 0;
  return ((double)lo + step) / (double)(n - 1);
}

/* Value at u in [0, 1]; and back, which is outside [0, 1] for values outside the bounds, and 0 or 1 for those
 * in the tails of a prior. */
static double axis_at(const atvi_program_axis *a, double u) {
  if (a->box) return a->lower * (1 - u) + a->upper * u;
  double p = TAIL + u * (1 - 2 * TAIL);
  return a->draw ? drawn_at(a->n_draw, a->draw, p) : quantile(a->q, a->arg, p);
}

static double axis_find(const atvi_program_axis *a, double x) {
  if (a->box) return (x - a->lower) / (a->upper - a->lower);
  if (!(x >= a->q->lower && x <= a->q->upper)) return x < a->q->lower ? -1 : 2;
  if (!(x >= a->lower && x <= a->upper)) return x < a->lower ? 0 : 1; /* far out in a tail, but possible */
  double p = a->draw ? drawn_share(a->n_draw, a->draw, x) : share_below(a->q, a->arg, x);
  return fmin(fmax((p - TAIL) / (1 - 2 * TAIL), 0), 1);
}

double atvi_app_program_axis_below(const atvi_program_axis *a, double x) {
  if (a->draw && !(x > a->draw[0])) return 0;
  return a->draw ? drawn_share(a->n_draw, a->draw, x) : fmin(share_below(a->q, a->arg, x), 1);
}

atvi_status atvi_app_program_axis_new(atvi_pool *pool, const atvi_lang *lang, atvi_idx param,
                                      atvi_program_axis *out) {
  const atvi_lang_param *q = &lang->param[param];
  bool fixed = true;
  *out = (atvi_program_axis){.q = q, .lower = q->lower, .upper = q->upper};
  out->box = isfinite(q->lower) && isfinite(q->upper);
  if (out->box) return ATVI_OK;
  for (int a = 0; a < q->n_arg; a++)
    fixed = atvi_graph_is_const(lang->graph, q->arg[a], &out->arg[a]) && fixed;
  if (!fixed) ATVI_TRY(draws(pool, lang, param, out));
  bool known = fixed || out->n_draw > 1;
  out->lower = known ? axis_at(out, 0) : NAN;
  out->upper = known ? axis_at(out, 1) : NAN;
  if (isfinite(out->lower) && isfinite(out->upper) && out->lower < out->upper) return ATVI_OK;
  return ATVI_FAIL(
      atvi_pool_ctx(pool), ATVI_EMODEL,
      "%s:%d:%d: error: the prior of %s is too wide for a design\nhint: give it bounds: in (0, 10)",
      lang->path, q->place.line, q->place.column, q->name);
}

typedef struct {
  atvi_ctx *ctx;
  atvi_pool *pool;
  const atvi_app_design_opts *o;
  const atvi_lang *lang;
  atvi_design_kind kind;
  const char *dir;
  atvi_idx d;
  const char **name;
  atvi_program_axis *axis; /* [d] */
  atvi_program_points old;
  double *x; /* [n][d] in the unit cube */
} job;

/* ---- shared with atvi run ---- */

static bool is_input(const atvi_lang_simulator *s, atvi_idx param) {
  for (atvi_idx i = 0; i < s->n_input; i++)
    if (s->input[i] == param) return true;
  return false;
}

/* A misspelt field would otherwise silently leave its parameter out of the design. */
static atvi_status check_template(atvi_pool *pool, const atvi_lang *lang, const char *const *name,
                                  const atvi_lang_template *from) {
  atvi_ctx *ctx = atvi_pool_ctx(pool);
  atvi_template *t;
  char *text;
  size_t n;
  atvi_status status = atvi_io_file_read(pool, from->from, &text, &n);
  const char *why = status == ATVI_EIO ? atvi_pool_printf(pool, "%s", atvi_errmsg(ctx)) : NULL;
  if (why)
    return ATVI_FAIL(ctx, ATVI_EDATA, "%s:%d:%d: error: the template cannot be read: %s", lang->path,
                     from->place.line, from->place.column, why);
  ATVI_TRY(status);
  ATVI_TRY(atvi_sim_template_parse(pool, (atvi_template_place){from->from, 1, 1}, text, n, lang->n_param,
                                   name, &t));
  for (atvi_idx k = 0; k < lang->n_param; k++)
    if (atvi_sim_template_uses(t, k) && !is_input(&lang->simulator, k))
      return ATVI_FAIL(ctx, ATVI_EMODEL,
                       "%s:%d:%d: error: the template %s has the field {%s}, which is not among the "
                       "inputs\nhint: add it to the inputs, or leave 'inputs' out",
                       lang->path, from->place.line, from->place.column, from->from, name[k]);
  return ATVI_OK;
}

/* Designs have a column with the numbers of runs. */
static atvi_status check_names(atvi_ctx *ctx, const atvi_lang *lang) {
  for (atvi_idx i = 0; i < lang->simulator.n_input; i++) {
    const atvi_lang_param *p = &lang->param[lang->simulator.input[i]];
    if (strcmp(p->name, "id") != 0) continue;
    return ATVI_FAIL(ctx, ATVI_EMODEL,
                     "%s:%d:%d: error: an input of the simulator cannot be called 'id': that is the column "
                     "with the numbers of the runs\nhint: give the parameter another name",
                     lang->path, p->place.line, p->place.column);
  }
  return ATVI_OK;
}

static atvi_status check_templates(atvi_ctx *ctx, const atvi_lang *lang) {
  const atvi_lang_simulator *s = &lang->simulator;
  atvi_pool *pool;
  if (s->n_template == 0) return ATVI_OK;
  ATVI_TRY(atvi_pool_new(ctx, &pool));
  const char **name = atvi_pool_take(pool, (size_t)lang->n_param + 1, sizeof *name);
  atvi_status status = name ? ATVI_OK : ATVI_ENOMEM;
  for (atvi_idx i = 0; name && i < lang->n_param; i++) name[i] = lang->param[i].name;
  for (atvi_idx i = 0; status == ATVI_OK && i < s->n_template; i++)
    status = check_template(pool, lang, name, &s->templates[i]);
  atvi_pool_free(pool);
  return status;
}

atvi_status atvi_app_program_load(atvi_ctx *ctx, const char *path, const char *folder, atvi_lang **out) {
  atvi_status status =
      atvi_lang_load(ctx, path, &(atvi_lang_opts){.folder = folder, .data_optional = true}, out);
  if (status == ATVI_EIO) return ATVI_EDATA; /* the user must fix a file that cannot be read */
  if (status != ATVI_OK) return status;
  bool given = (*out)->simulator.given;
  status = given ? check_names(ctx, *out) : ATVI_OK;
  if (given && status == ATVI_OK) status = check_templates(ctx, *out);
  if (given && status == ATVI_OK) return ATVI_OK;
  atvi_lang_free(*out);
  *out = NULL;
  if (given) return status;
  return ATVI_FAIL(ctx, ATVI_EMODEL,
                   "%s:1:1: error: the model has no simulator, so there is nothing to run\nhint: describe it "
                   "in a block: simulator { command \"./flow {k}\"  output flow from stdout csv }",
                   path);
}

const char **atvi_app_program_inputs(atvi_pool *pool, const atvi_lang *lang) {
  const atvi_lang_simulator *s = &lang->simulator;
  const char **name = atvi_pool_take(pool, (size_t)s->n_input + 1, sizeof *name);
  for (atvi_idx i = 0; name && i < s->n_input; i++) name[i] = lang->param[s->input[i]].name;
  return name;
}

static atvi_status wrong_cell(atvi_ctx *ctx, const atvi_csv *csv, atvi_idx row, atvi_idx col,
                              const char *what) {
  return ATVI_FAIL(ctx, ATVI_EDATA, "%s:%d:%d: error: %.60s in column %.60s: %s", csv->path, csv->line[row],
                   csv->column[row * csv->n_col + col], csv->text[row * csv->n_col + col], csv->name[col],
                   what);
}

static atvi_status read_ids(atvi_pool *pool, const atvi_csv *csv, int64_t *id) {
  atvi_ctx *ctx = atvi_pool_ctx(pool);
  atvi_idx col = atvi_io_csv_find(csv, "id"), most = 0;
  char wanted[80];
  snprintf(wanted, sizeof wanted, "numbers of runs are whole, from 1 to %d", ATVI_SIM_ID_MAX);
  for (atvi_idx i = 0; i < csv->n_row; i++) {
    double v = col < 0 ? (double)(i + 1) : csv->value[i * csv->n_col + col];
    if (!(v >= 1 && v <= ATVI_SIM_ID_MAX) || v != floor(v))
      return wrong_cell(ctx, csv, i, col < 0 ? 0 : col, wanted);
    id[i] = (int64_t)v;
    if (id[i] > most) most = id[i];
  }
  bool *seen = atvi_pool_take(pool, (size_t)most + 1, sizeof *seen);
  if (!seen) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < csv->n_row; i++) {
    if (seen[id[i]]) return wrong_cell(ctx, csv, i, col < 0 ? 0 : col, "this number is given twice");
    seen[id[i]] = true;
  }
  return ATVI_OK;
}

/* The text before the second cell of the first row. */
static char separator(const atvi_csv *csv) {
  const char *p = csv->source, *end = p + csv->n_source;
  for (int line = 1; p && line < csv->line[0]; line++) {
    p = memchr(p, '\n', (size_t)(end - p));
    if (p) p++;
  }
  if (!p || csv->n_col < 2 || csv->column[1] > end - p) return ',';
  const char *at = p + csv->column[1] - 1;
  while (at > p && strchr(",;\t", *at) == NULL) at--;
  return *at == ';' || *at == '\t' ? *at : ',';
}

static atvi_status learn_form(atvi_pool *pool, const atvi_csv *csv, atvi_idx d, const char *const *name,
                              atvi_program_points *out) {
  out->n_col = csv->n_col;
  out->separator = separator(csv);
  out->what = atvi_pool_take(pool, (size_t)csv->n_col, sizeof *out->what);
  if (!out->what) return ATVI_ENOMEM;
  for (atvi_idx c = 0; c < csv->n_col; c++) out->what[c] = ATVI_POINTS_OTHER;
  if (atvi_io_csv_find(csv, "id") >= 0) out->what[atvi_io_csv_find(csv, "id")] = ATVI_POINTS_ID;
  for (atvi_idx j = 0; j < d; j++) out->what[atvi_io_csv_find(csv, name[j])] = j;
  for (atvi_idx i = 0; i < csv->n_row * csv->n_col; i++)
    out->comma = out->comma ||
                 (csv->kind[i] == ATVI_CELL_NUMBER && out->separator != ',' && strchr(csv->text[i], ','));
  return ATVI_OK;
}

atvi_status atvi_app_program_points_read(atvi_pool *pool, const char *dir, atvi_idx d,
                                         const char *const *name, atvi_program_points *out) {
  atvi_ctx *ctx = atvi_pool_ctx(pool);
  atvi_csv *csv;
  const char *path = atvi_pool_printf(pool, "%s/%s", dir, ATVI_SIM_DESIGN);
  *out = (atvi_program_points){0};
  if (!path) return ATVI_ENOMEM;
  if (access(path, F_OK) != 0) return ATVI_OK;
  ATVI_TRY(atvi_io_csv_read(pool, path, &csv));
  out->text = csv->source;
  out->n_text = csv->n_source;
  out->id = atvi_pool_take(pool, (size_t)csv->n_row, sizeof *out->id);
  out->x = atvi_pool_take(pool, (size_t)(csv->n_row * d), sizeof *out->x);
  if (!out->id || !out->x) return ATVI_ENOMEM;
  ATVI_TRY(read_ids(pool, csv, out->id));
  for (atvi_idx j = 0; j < d; j++) {
    atvi_idx col = atvi_io_csv_find(csv, name[j]);
    if (col < 0)
      return ATVI_FAIL(ctx, ATVI_EDATA,
                       "%s:1:1: error: there is no column %s\nhint: this is the design of another model; "
                       "move it away, or give another folder",
                       path, name[j]);
    for (atvi_idx i = 0; i < csv->n_row; i++) {
      if (csv->kind[i * csv->n_col + col] != ATVI_CELL_NUMBER)
        return wrong_cell(ctx, csv, i, col, "want a finite number");
      out->x[i * d + j] = csv->value[i * csv->n_col + col];
    }
  }
  out->n = csv->n_row;
  return learn_form(pool, csv, d, name, out);
}

/* ---- designs ---- */

/* Old points in the unit cube; false if one is outside. */
static atvi_status place_old(job *j) {
  for (atvi_idx i = 0; i < j->old.n; i++)
    for (atvi_idx k = 0; k < j->d; k++) {
      double u = axis_find(&j->axis[k], j->old.x[i * j->d + k]);
      if (!(u > -1e-9 && u < 1 + 1e-9))
        return ATVI_FAIL(j->ctx, ATVI_EINVAL,
                         "%s/%s: point %lld has %s = %g, outside [%g, %g]: the prior has changed; start "
                         "again with another --runs",
                         j->dir, ATVI_SIM_DESIGN, (long long)j->old.id[i], j->name[k], j->old.x[i * j->d + k],
                         j->axis[k].lower, j->axis[k].upper);
      j->x[i * j->d + k] = fmin(fmax(u, 0), 1);
    }
  return ATVI_OK;
}

/* A Sobol sequence can only continue where it ended. */
static atvi_status check_sobol(job *j) {
  double *u = atvi_pool_take(j->pool, (size_t)(j->old.n * j->d) + 1, sizeof *u);
  if (!u) return ATVI_ENOMEM;
  ATVI_TRY(atvi_sim_design_fill(j->ctx, ATVI_DESIGN_SOBOL, j->o->seed, j->d, 0, j->old.n, u));
  for (atvi_idx i = 0; i < j->old.n * j->d; i++)
    if (fabs(u[i] - j->x[i]) > 1e-9)
      return ATVI_FAIL(j->ctx, ATVI_EINVAL,
                       "%s/%s does not contain the Sobol points of seed %llu: give its original seed, or "
                       "--kind lhs, which extends any design",
                       j->dir, ATVI_SIM_DESIGN, (unsigned long long)j->o->seed);
  return ATVI_OK;
}

/* A new file has a number and the inputs, in the order of the model. */
static bool first_form(job *j, atvi_text *t) {
  atvi_program_points *p = &j->old;
  p->separator = ',';
  p->n_col = j->d + 1;
  p->what = atvi_pool_take(j->pool, (size_t)p->n_col, sizeof *p->what);
  if (!p->what) return false;
  p->what[0] = ATVI_POINTS_ID;
  atvi_io_text_add(t, "id");
  for (atvi_idx k = 0; k < j->d; k++) {
    p->what[k + 1] = k;
    atvi_io_text_add(t, ",");
    atvi_app_field(t, j->name[k]);
  }
  atvi_io_text_add(t, "\n");
  return true;
}

/* A line with the columns of the file. Columns that are not ours stay empty; without a column of numbers,
 * lines are counted. */
static void add_point(const job *j, atvi_text *t, int64_t id, const double *u) {
  const atvi_program_points *p = &j->old;
  for (atvi_idx c = 0; c < p->n_col; c++) {
    atvi_idx k = p->what[c];
    if (c > 0) atvi_io_text_add(t, "%c", p->separator);
    if (k == ATVI_POINTS_ID) atvi_io_text_add(t, "%lld", (long long)id);
    if (k < 0) continue;
    atvi_idx from = t->n;
    atvi_io_text_number(t, axis_at(&j->axis[k], u[k]));
    char *dot = p->comma && !t->failed ? strchr(t->text + from, '.') : NULL;
    if (dot) *dot = ',';
  }
  atvi_io_text_add(t, "\n");
}

static atvi_status write_design(job *j, atvi_idx n) {
  const char *path = atvi_pool_printf(j->pool, "%s/%s", j->dir, ATVI_SIM_DESIGN), *text;
  atvi_text t = {.pool = j->pool};
  int64_t id = 0;
  for (atvi_idx i = 0; i < j->old.n; i++)
    if (j->old.id[i] > id) id = j->old.id[i];
  if (j->old.n == 0) {
    if (!first_form(j, &t)) return ATVI_ENOMEM;
  } else if (j->old.text[j->old.n_text - 1] != '\n') {
    atvi_io_text_add(&t, "\n");
  }
  atvi_io_text_add(&t, "# %s, seed %llu: %lld to %lld\n", j->kind == ATVI_DESIGN_LHS ? "lhs" : "sobol",
                   (unsigned long long)j->o->seed, (long long)id + 1, (long long)(id + n - j->old.n));
  for (atvi_idx i = j->old.n; i < n; i++) add_point(j, &t, ++id, j->x + i * j->d);
  if (!path || atvi_io_text_get(&t, &text) != ATVI_OK) return ATVI_ENOMEM;
  atvi_file *f;
  ATVI_TRY(atvi_io_dir_make(j->ctx, j->dir, false));
  ATVI_TRY(atvi_io_file_new(j->ctx, path, &f));
  if (j->old.n) atvi_io_file_put(f, j->old.text, j->old.n_text);
  atvi_io_file_put(f, text, (size_t)t.n);
  atvi_status status = atvi_io_file_commit(f);
  atvi_io_file_free(f);
  return status;
}

/* Existing points that leave one end of a range empty. */
static void describe_part(const job *j, atvi_text *t) {
  bool said = false;
  for (atvi_idx k = 0; k < j->d; k++) {
    double from, to;
    atvi_sim_design_extent(j->old.n, j->d, j->x, k, &from, &to);
    if (j->old.n == 0 || (from == 0 && to == 1)) continue;
    if (!said)
      atvi_io_text_add(t, "the prior has changed: the first %td points cover only part of it (", j->old.n);
    atvi_io_text_add(t, "%s%s %.4g to %.4g", said ? ", " : "", j->name[k], axis_at(&j->axis[k], from),
                     axis_at(&j->axis[k], to));
    said = true;
  }
  if (said) atvi_io_text_add(t, j->old.n < j->o->n ? "); new points fill the rest\n\n" : ")\n\n");
}

static atvi_status describe(const job *j, atvi_idx n, const char **text) {
  atvi_text t = {.pool = j->pool};
  int width = 9;
  for (atvi_idx k = 0; k < j->d; k++)
    if ((int)strlen(j->name[k]) > width) width = (int)strlen(j->name[k]);
  if (n == j->old.n)
    atvi_io_text_add(&t, "%td points, as before\n\n", n);
  else if (j->old.n)
    atvi_io_text_add(&t, "%td points, %td of them new (%s, seed %llu)\n\n", n, n - j->old.n,
                     j->kind == ATVI_DESIGN_LHS ? "maximin Latin hypercube" : "scrambled Sobol",
                     (unsigned long long)j->o->seed);
  else
    atvi_io_text_add(&t, "%td points (%s, seed %llu)\n\n", n,
                     j->kind == ATVI_DESIGN_LHS ? "maximin Latin hypercube" : "scrambled Sobol",
                     (unsigned long long)j->o->seed);
  describe_part(j, &t);
  atvi_io_text_add(&t, "%-*s  %12s  %12s\n", width, "parameter", "from", "to");
  for (atvi_idx k = 0; k < j->d; k++)
    atvi_io_text_add(&t, "%-*s  %12.6g  %12.6g%s\n", width, j->name[k], j->axis[k].lower, j->axis[k].upper,
                     j->axis[k].box ? "" : "  (0.1 % to 99.9 % of the prior, evenly in probability)");
  return atvi_io_text_get(&t, text);
}

static atvi_status design(job *j, atvi_app_design_result *result) {
  const atvi_lang_simulator *s = &j->lang->simulator;
  atvi_idx n = j->o->n, d = j->d = s->n_input;
  j->name = atvi_app_program_inputs(j->pool, j->lang);
  j->axis = atvi_pool_take(j->pool, (size_t)d, sizeof *j->axis);
  if (!j->name || !j->axis) return ATVI_ENOMEM;
  for (atvi_idx k = 0; k < d; k++)
    ATVI_TRY(atvi_app_program_axis_new(j->pool, j->lang, s->input[k], &j->axis[k]));
  ATVI_TRY(atvi_app_program_points_read(j->pool, j->dir, d, j->name, &j->old));
  if (n < j->old.n)
    return ATVI_FAIL(j->ctx, ATVI_EINVAL, "%s/%s already has %td points: -n %td would remove some", j->dir,
                     ATVI_SIM_DESIGN, j->old.n, n);
  j->x = atvi_pool_take(j->pool, (size_t)(n * d), sizeof(double));
  if (!j->x) return ATVI_ENOMEM;
  ATVI_TRY(place_old(j));
  if (j->old.n && j->kind == ATVI_DESIGN_SOBOL && n > j->old.n) ATVI_TRY(check_sobol(j));
  ATVI_TRY(atvi_sim_design_fill(j->ctx, j->kind, j->o->seed, d, j->old.n, n, j->x));
  if (n > j->old.n) ATVI_TRY(write_design(j, n));
  result->path = atvi_pool_printf(j->pool, "%s/%s", j->dir, ATVI_SIM_DESIGN);
  result->n_old = j->old.n;
  result->n = n;
  if (!result->path) return ATVI_ENOMEM;
  return describe(j, n, &result->text);
}

atvi_status atvi_app_design(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_design_opts *opts,
                            atvi_app_design_result *result) {
  job j = {.ctx = ctx, .pool = pool, .o = opts, .kind = ATVI_DESIGN_LHS};
  atvi_lang *lang;
  *result = (atvi_app_design_result){0};
  if (opts->kind && strcmp(opts->kind, "sobol") == 0)
    j.kind = ATVI_DESIGN_SOBOL;
  else if (opts->kind && strcmp(opts->kind, "lhs") != 0)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "--kind %s: want lhs or sobol", opts->kind);
  if (opts->n < 1 || opts->n > ATVI_SIM_ID_MAX)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "-n %td: want a number of points from 1 to %d", opts->n,
                     ATVI_SIM_ID_MAX);
  ATVI_TRY(atvi_app_program_load(ctx, opts->path, opts->folder, &lang));
  j.lang = lang;
  j.dir = opts->out ? opts->out : atvi_sim_folder(pool, opts->path);
  atvi_status status = j.dir ? design(&j, result) : ATVI_ENOMEM;
  atvi_lang_free(lang);
  return status;
}
