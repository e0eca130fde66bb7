/* SPDX-License-Identifier: MIT */
#include "app/common.h"
#include "io/csv.h"
#include "math/stat/stat.h"
#include "model/model.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const atvi_lang *atvi_app_home(const atvi_model *m, atvi_idx *k) {
  const atvi_lang_data *all = m->lang->data;
  atvi_idx first = *k, unit = all[*k].unit;
  if (!m->blocks.part) return m->lang;
  while (first > 0 && all[first - 1].unit == unit) first--; /* those of a unit stand together */
  *k -= first;
  return m->blocks.part[unit].m->lang;
}

atvi_idx atvi_app_files(const atvi_lang *lang) {
  return lang->n_data ? lang->data[lang->n_data - 1].file + 1 : 0;
}

const char *atvi_app_set_name(const atvi_model *m, atvi_idx k) {
  const atvi_lang *home = atvi_app_home(m, &k);
  return home->data[k].name;
}

/* Does parameter name belong to what the user wrote: itself, or an element of that array? "beta[1]" is
 * "beta.1". */
static bool matches(const char *given, const char *name) {
  size_t n = 0;
  for (; given[n] && name[n]; n++) {
    char c = given[n] == '[' || given[n] == ',' ? '.' : given[n];
    if (c != name[n]) break;
  }
  if (given[n] == ']' && given[n + 1] == 0 && name[n] == 0) return true;
  return given[n] == 0 && (name[n] == 0 || name[n] == '.');
}

/* Elements of one array, or of all units, are shown by the first and the last of them: "CL.s01 ... CL.s12". */
static atvi_status unknown(atvi_ctx *ctx, const char *what, const atvi_target *target, const char *name) {
  char list[600] = "";
  for (atvi_idx i = 0, last; i < target->d && strlen(list) < sizeof list - 160; i = last + 1) {
    const char *first = target->param[i].name;
    const size_t base = strcspn(first, ".") + 1;
    for (last = i; last + 1 < target->d && strncmp(target->param[last + 1].name, first, base) == 0;) last++;
    if (i) strcat(list, ", ");
    strncat(list, first, 60);
    if (last > i) strncat(strcat(list, " ... "), target->param[last].name, 60);
  }
  return ATVI_FAIL(ctx, ATVI_EINVAL, "%s %s: the model has no parameter of that name; it has %s", what, name,
                   list);
}

static atvi_status bad_number(atvi_ctx *ctx, const char *what, const atvi_app_set *s) {
  return ATVI_FAIL(ctx, ATVI_EINVAL,
                   "%s %s=%s: want a number, or for an array one number per element separated by commas",
                   what, s->name, s->value);
}

static atvi_status assign(atvi_ctx *ctx, const char *what, const atvi_target *target, const atvi_app_set *s,
                          double *value) {
  const char *at = s->value, *item;
  size_t n;
  bool list = strchr(at, ',') != NULL;
  atvi_idx found = 0;
  for (atvi_idx i = 0; i < target->d; i++) {
    double x;
    if (!matches(s->name, target->param[i].name)) continue;
    if (!list) at = s->value; /* one for all */
    if (!atvi_app_next(&at, &item, &n) || !atvi_io_parse_number(item, n, &x)) return bad_number(ctx, what, s);
    value[i] = x;
    found++;
  }
  if (found == 0) return unknown(ctx, what, target, s->name);
  return list && at ? bad_number(ctx, what, s) : ATVI_OK;
}

atvi_status atvi_app_values(atvi_ctx *ctx, const char *what, const atvi_target *target, atvi_idx n,
                            const atvi_app_set *set, double *value) {
  for (atvi_idx i = 0; i < target->d; i++) value[i] = NAN;
  for (atvi_idx k = 0; k < n; k++) ATVI_TRY(assign(ctx, what, target, &set[k], value));
  return ATVI_OK;
}

atvi_status atvi_app_point(atvi_ctx *ctx, const atvi_target *target, atvi_idx n, const atvi_app_set *set,
                           double *theta) {
  ATVI_TRY(atvi_app_values(ctx, "--set", target, n, set, theta));
  for (atvi_idx i = 0; i < target->d; i++) {
    const atvi_param *p = &target->param[i];
    if (isnan(theta[i]))
      return ATVI_FAIL(ctx, ATVI_EINVAL, "no value for %s: add --set %s=... (its bounds are [%g, %g])",
                       p->name, p->name, p->lower, p->upper);
    if (theta[i] < p->lower || theta[i] > p->upper)
      return ATVI_FAIL(ctx, ATVI_EINVAL, "--set %s=%g is outside its bounds [%g, %g]", p->name, theta[i],
                       p->lower, p->upper);
  }
  return ATVI_OK;
}

static atvi_status fix(atvi_ctx *ctx, const atvi_app_model *opts, atvi_loaded *l) {
  const atvi_target *base = atvi_model_target(l->model);
  l->target = base;
  if (base->d == 0)
    return ATVI_FAIL(
        ctx, ATVI_EMODEL,
        "%s:1:1: error: the model has no parameters\nhint: add a line such as: param beta ~ uniform(0, 3)",
        opts->path);
  if (opts->n_fix == 0) return ATVI_OK;
  double *value = atvi_block(ctx, (size_t)base->d * (sizeof(double) + sizeof(atvi_idx)));
  if (!value) return ATVI_ENOMEM;
  atvi_idx *index = (atvi_idx *)(value + base->d), n = 0;
  atvi_status status = atvi_app_values(ctx, "--fix", base, opts->n_fix, opts->fix, value);
  for (atvi_idx i = 0; status == ATVI_OK && i < base->d; i++)
    if (!isnan(value[i])) {
      value[n] = value[i];
      index[n++] = i;
    }
  if (status == ATVI_OK) status = atvi_model_fixed_new(ctx, base, n, index, value, &l->fixed);
  if (status == ATVI_OK) l->target = l->fixed;
  atvi_block_free(ctx, value);
  return status;
}

bool atvi_app_no_data(const atvi_loaded *l) {
  const atvi_lang *lang = l->model->lang;
  for (atvi_idx o = 0; o < lang->n_observe; o++)
    if (lang->observe[o].column < 0 || lang->observe[o].n_missing < lang->data[lang->observe[o].data].n_row)
      return false;
  return lang->n_observe > 0;
}

const char *atvi_app_flat(const atvi_loaded *l) {
  const atvi_lang *lang = l->model->lang;
  for (atvi_idx i = 0; i < lang->blocks.n_param; i++)
    if (lang->blocks.param[i].flat) return lang->blocks.param[i].name;
  return NULL;
}

atvi_status atvi_app_load(atvi_ctx *ctx, const atvi_app_model *opts, const atvi_model_load_opts *use,
                          atvi_loaded *out) {
  atvi_model_load_opts how = use ? *use : (atvi_model_load_opts){0};
  *out = (atvi_loaded){0};
  how.n_data = opts->n_data;
  how.data = opts->data;
  how.interpret = opts->interpret;
  how.folder = opts->folder;
  how.runs = opts->runs;
  how.runs_lines = opts->runs_lines;
  how.emulators = opts->emulators;
  atvi_status status = atvi_model_load_with(ctx, opts->path, &how, &out->model);
  if (status == ATVI_EIO)
    status = ATVI_EDATA; /* the user must fix a file that cannot be read, like a wrong one */
  if (status == ATVI_OK) status = fix(ctx, opts, out);
  if (status == ATVI_OK && opts->share) status = opts->share(ctx, &out->target);
  if (status == ATVI_OK) status = atvi_model_evaluator_new(ctx, out->target, &out->ev);
  if (status != ATVI_OK)
    atvi_app_unload(out);
  else if (atvi_app_no_data(out) && !how.text) /* for the model of a fit it was reported then */
    atvi_log(ctx, ATVI_LOG_WARN,
             "every observation is missing: the data say nothing, and the posterior is the prior");
  if (status == ATVI_OK && out->model->prog.info.reason[0] &&
      !atvi_stop_asked(ctx)) /* a stop ends the compiler */
    atvi_log(ctx, ATVI_LOG_WARN, "the model runs in the interpreter, which is several times slower: %s",
             out->model->prog.info.reason);
  return status;
}

void atvi_app_unload(atvi_loaded *l) {
  atvi_model_evaluator_free(l->ev);
  atvi_model_fixed_free(l->fixed);
  atvi_model_free(l->model);
  *l = (atvi_loaded){0};
}

/* Both solutions of some of the points. */
typedef struct {
  const atvi_loaded *l;
  atvi_idx n;
  const double *theta; /* [d][n] */
  double *room;        /* [items][d][ATVI_LANES] */
  double *ll;          /* [2][n] */
} solved;

static void solve_item(void *arg, atvi_idx item, int worker) {
  const solved *s = arg;
  const atvi_target *t = s->l->target;
  void *work = atvi_model_evaluator_work_of(s->l->ev, worker);
  atvi_idx first = item * ATVI_LANES, b = s->n - first < ATVI_LANES ? s->n - first : ATVI_LANES;
  double *theta = s->room + item * t->d * ATVI_LANES;
  for (atvi_idx i = 0; i < t->d; i++)
    for (atvi_idx j = 0; j < b; j++) theta[i * b + j] = s->theta[i * s->n + first + j];
  atvi_batch batch = {.B = b, .theta = theta, .log_lik = s->ll + first};
  t->ops->eval(t->self, work, &batch);
  batch.log_lik += s->n;
  t->ops->eval_exact(t->self, work, &batch);
}

atvi_status atvi_app_solver_error(atvi_ctx *ctx, atvi_loaded *l, atvi_idx n, const double *theta,
                                  double *error) {
  const atvi_target *t = l->target;
  atvi_idx items = (n + ATVI_LANES - 1) / ATVI_LANES;
  *error = 0;
  if (!t->ops->eval_exact) return ATVI_OK;
  double *ll = atvi_block(ctx, (size_t)(2 * n + items * t->d * ATVI_LANES + 1) * sizeof *ll);
  if (!ll) return ATVI_ENOMEM;
  atvi_parallel(ctx, items, solve_item,
                &(solved){.l = l, .n = n, .theta = theta, .room = ll + 2 * n, .ll = ll});
  atvi_idx compared = 0;
  for (atvi_idx j = 0; j < n; j++)
    if (isfinite(ll[j]) && isfinite(ll[n + j])) *error = fmax(*error, fabs(ll[j] - ll[n + j])), compared++;
  if (compared == 0) *error = NAN;
  atvi_block_free(ctx, ll);
  return ATVI_OK;
}

/* U+F780 .. U+F7FF are EF 9E 80 .. EF 9E BF and EF 9F 80 .. EF 9F BF. */
static bool stands_for_byte(const char *s) {
  const unsigned char *u = (const unsigned char *)s;
  return u[0] == 0xef && (u[1] == 0x9e || u[1] == 0x9f) && (u[2] & 0xc0) == 0x80;
}

static bool has_one(const char *s) {
  for (; *s; s++)
    if (stands_for_byte(s)) return true;
  return false;
}

json_t *atvi_app_bytes_json(atvi_pool *pool, const char *s) {
  if (!s) return json_null();
  json_t *out = has_one(s) ? NULL : json_string(s);
  if (out) return out;
  char *text = atvi_pool_take(pool, 3 * strlen(s) + 1, 1), *to = text;
  if (!text) return NULL;
  for (; *s; s++) {
    unsigned b = (unsigned char)*s;
    if (b < 128) {
      *to++ = *s;
      continue;
    }
    *to++ = (char)0xef;
    *to++ = (char)(b < 0xc0 ? 0x9e : 0x9f);
    *to++ = (char)(0x80 | (b & 0x3f));
  }
  return json_string(text);
}

char *atvi_app_bytes_text(atvi_pool *pool, const char *s) {
  char *out = s ? atvi_pool_strndup(pool, s, strlen(s)) : NULL, *to = out;
  if (!out) return NULL;
  for (; *s; s++) {
    if (!stands_for_byte(s)) {
      *to++ = *s;
      continue;
    }
    *to++ = (char)(((unsigned char)s[1] == 0x9e ? 0x80 : 0xc0) | ((unsigned char)s[2] & 0x3f));
    s += 2;
  }
  *to = 0;
  return out;
}

/* Small things that several commands need: lists and times on the command line, cells of a CSV file, hashes
 * of data. */

/* More times than this in one range are a typing error. */
enum { MAX_TIMES = 1000000 };
static const char BLANKS[] = " \t";

bool atvi_app_next(const char **at, const char **item, size_t *n) {
  if (!*at) return false;
  size_t whole = strcspn(*at, ","), skip = strspn(*at, BLANKS);
  *item = *at + (skip < whole ? skip : whole);
  *n = whole - (size_t)(*item - *at);
  while (*n > 0 && strchr(BLANKS, (*item)[*n - 1])) --*n;
  *at = (*at)[whole] ? *at + whole + 1 : NULL;
  return true;
}

atvi_status atvi_app_method(atvi_ctx *ctx, unsigned is, const char *option, const char *name,
                            const atvi_method **out) {
  char list[ATVI_METHODS_TEXT];
  *out = atvi_infer_method_find(is, name);
  if (*out) return ATVI_OK;
  atvi_infer_methods_text(is, " and ", list);
  if (is & ATVI_METHOD_POSTERIOR)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "%s: '%s' is not one of the methods that draw from the posterior: %s",
                     option, name, list);
  return ATVI_FAIL(ctx, ATVI_EINVAL, "%s: there is no method '%s'; there are %s", option, name, list);
}

atvi_status atvi_app_methods(atvi_pool *pool, unsigned is, const char *list, atvi_idx *n,
                             const atvi_method ***out) {
  atvi_ctx *ctx = atvi_pool_ctx(pool);
  const char *item;
  size_t len;
  atvi_idx cap = 0;
  *n = 0;
  *out = NULL;
  for (const char *at = list; atvi_app_next(&at, &item, &len);) {
    const atvi_method *m;
    const char *name = atvi_pool_strndup(pool, item, len);
    if (!name || !ATVI_PUSH(pool, *out, *n, cap)) return ATVI_ENOMEM;
    ATVI_TRY(atvi_app_method(ctx, is, "--methods", name, &m));
    for (atvi_idx k = 0; k < *n; k++)
      if ((*out)[k] == m) return ATVI_FAIL(ctx, ATVI_EINVAL, "--methods %s: %s is given twice", list, name);
    (*out)[(*n)++] = m;
  }
  return ATVI_OK;
}

/* ---- times ---- */

static atvi_status bad_time(atvi_ctx *ctx, const char *times, const char *item, size_t n) {
  int64_t days;
  if (atvi_io_parse_date(item, n, &days))
    return ATVI_FAIL(ctx, ATVI_EINVAL,
                     "--times %s: %.*s is a date; only the first and last time and times in a list can be "
                     "dates, and only if the model has a calendar",
                     times, (int)n, item);
  return ATVI_FAIL(ctx, ATVI_EINVAL,
                   "--times %s: '%.*s' is not a number; want first:last, first:last:step or a list t1,t2,...",
                   times, (int)n, item);
}

/* A number, or a date if there is a calendar. */
static bool read_time(const atvi_lang *lang, const char *s, size_t n, double *out) {
  int64_t days;
  if (atvi_io_parse_number(s, n, out)) return isfinite(*out);
  if (!lang || !lang->time.calendar.unit || !atvi_io_parse_date(s, n, &days)) return false;
  *out = atvi_io_calendar_time(lang->time.calendar, (double)days);
  return true;
}

static atvi_status read_range(atvi_ctx *ctx, const char *times, const atvi_lang *lang, double part[3],
                              atvi_idx *n) {
  int n_part = 0;
  part[2] = 1;
  for (const char *at = times; at; n_part++) {
    size_t len = strcspn(at, ":"), skip = strspn(at, BLANKS), end = len;
    if (skip > len) skip = len;
    while (end > skip && strchr(BLANKS, at[end - 1])) end--;
    if (n_part == 3)
      return ATVI_FAIL(ctx, ATVI_EINVAL,
                       "--times %s: more than three numbers; want first:last or first:last:step", times);
    if (!read_time(n_part < 2 ? lang : NULL, at + skip, end - skip, &part[n_part]))
      return bad_time(ctx, times, at + skip, end - skip);
    at = at[len] ? at + len + 1 : NULL;
  }
  if (!(part[2] > 0))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "--times %s: the step is %g; it must be above 0", times, part[2]);
  if (part[1] < part[0])
    return ATVI_FAIL(ctx, ATVI_EINVAL, "--times %s: the last time, %g, is before the first, %g", times,
                     part[1], part[0]);
  double count = floor((part[1] - part[0]) / part[2] + 1e-9) + 1;
  if (!(count <= MAX_TIMES))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "--times %s: %.3g times are too many; at most %d", times, count,
                     MAX_TIMES);
  *n = (atvi_idx)count;
  return ATVI_OK;
}

static atvi_status read_list(atvi_ctx *ctx, atvi_pool *pool, const char *times, const atvi_lang *lang,
                             atvi_idx *n, double **out) {
  const char *item;
  size_t len;
  atvi_idx cap = 0;
  for (const char *at = times; atvi_app_next(&at, &item, &len);) {
    double x;
    if (!read_time(lang, item, len, &x)) return bad_time(ctx, times, item, len);
    if (*n > 0 && !(x > (*out)[*n - 1]))
      return ATVI_FAIL(ctx, ATVI_EINVAL, "--times %s: %g comes after %g; times must ascend", times, x,
                       (*out)[*n - 1]);
    if (!ATVI_PUSH(pool, *out, *n, cap)) return ATVI_ENOMEM;
    (*out)[(*n)++] = x;
  }
  return ATVI_OK;
}

atvi_status atvi_app_times(atvi_ctx *ctx, atvi_pool *pool, const char *times, const atvi_lang *lang,
                           atvi_idx *n, double **out) {
  double part[3];
  *n = 0;
  *out = NULL;
  if (!times) return ATVI_OK;
  if (!strchr(times, ':')) return read_list(ctx, pool, times, lang, n, out);
  ATVI_TRY(read_range(ctx, times, lang, part, n));
  *out = atvi_pool_take(pool, (size_t)*n, sizeof **out);
  for (atvi_idx i = 0; *out && i < *n; i++) (*out)[i] = part[0] + (double)i * part[2];
  return *out ? ATVI_OK : ATVI_ENOMEM;
}

void atvi_app_date(const atvi_lang *lang, double t, char out[ATVI_APP_DATE]) {
  static const double FARTHEST = 3e6; /* days: about eight thousand years */
  double at = atvi_io_calendar_day(lang->time.calendar, t);
  int y, m, d;
  out[0] = 0;
  if (!lang->time.calendar.unit || !(fabs(at) < FARTHEST)) return;
  double second = round(86400 * at),
         day = floor(second / 86400); /* t is rarely a whole day to the last bit */
  int rest = (int)(second - 86400 * day);
  atvi_io_date_from_days((int64_t)day, &y, &m, &d);
  int n = snprintf(out, ATVI_APP_DATE, "%04d-%02d-%02d", y, m, d);
  if (rest == 0 || lang->time.calendar.unit > 1) return;
  n += snprintf(out + n, ATVI_APP_DATE - (size_t)n, "T%02d:%02d", rest / 3600, rest / 60 % 60);
  if (rest % 60) snprintf(out + n, ATVI_APP_DATE - (size_t)n, ":%02d", rest % 60);
}

/* ---- hashes of data ---- */

const char *atvi_app_held_hash(atvi_pool *pool, const atvi_loaded *l) {
  const atvi_lang *lang = l->model->lang;
  const atvi_holdout *h = &l->model->holdout;
  uint64_t hash = ATVI_HASH;
  for (atvi_idx o = 0; h->held && o < lang->n_observe; o++) {
    const atvi_lang_observe *obs = &lang->observe[o];
    const atvi_csv *csv = lang->data[obs->data].csv; /* as read: the model no longer has these values */
    for (atvi_idx r = 0; csv && obs->column >= 0 && r < csv->n_row; r++) {
      const char *cell = csv->text[r * csv->n_col + obs->column];
      if (h->held[obs->data][r]) hash = atvi_hash(hash, cell, strlen(cell) + 1);
    }
  }
  return atvi_pool_printf(pool, "%016" PRIx64, hash);
}

/* ---- text ---- */

void atvi_app_field(atvi_text *out, const char *s) {
  if (!strpbrk(s, ",\"; \t")) {
    atvi_io_text_add(out, "%s", s);
    return;
  }
  atvi_io_text_add(out, "\"");
  for (; *s; s++) atvi_io_text_add(out, *s == '"' ? "\"\"" : "%c", *s);
  atvi_io_text_add(out, "\"");
}

/* Times of data whose rows count since the previous row (increase): are they as regular as intended? */

/* A step longer than the usual one by this factor leaves something out. Months are 28 to 31 days long: within
 * ALIKE of each other. */
static const double LONGER = 1.5, ALIKE = 0.1;
static const double MOSTLY = 0.6; /* share of steps that are alike if there is a usual one */
enum { ROWS_TOLD = 6 };

bool atvi_app_counts(const atvi_lang *lang, const atvi_lang_observe *o) {
  for (int a = 0; a < o->n_arg; a++)
    if (atvi_graph_kinds(lang->graph, o->arg[a]) >> ATVI_IN_PREV & 1) return true;
  return false;
}

void atvi_app_steps(atvi_idx n, const double *time, double *least, double *most) {
  *least = HUGE_VAL;
  *most = 0;
  for (atvi_idx r = 1; r < n; r++) {
    double step = time[r] - time[r - 1];
    if (!(step > 0)) continue; /* rows at one time count from the same one */
    *least = fmin(*least, step);
    *most = fmax(*most, step);
  }
}

/* The median of the steps if most are about that long, else NaN. */
static double usual_step(atvi_pool *pool, const atvi_lang_data *d, bool *ok) {
  double *step = atvi_pool_take(pool, (size_t)d->n_row + 1, sizeof *step);
  atvi_idx n = 0, alike = 0;
  *ok = step != NULL;
  for (atvi_idx r = 1; step && r < d->n_row; r++)
    if (d->time[r] > d->time[r - 1]) step[n++] = d->time[r] - d->time[r - 1];
  if (n < 2) return NAN;
  qsort(step, (size_t)n, sizeof *step, atvi_math_by_value);
  double usual = step[(n - 1) / 2];
  for (atvi_idx i = 0; i < n; i++) alike += fabs(step[i] - usual) <= ALIKE * usual;
  return (double)alike >= MOSTLY * (double)n ? usual : NAN;
}

/* Whether that row has an observation that counts since the previous row. */
static bool counted(const atvi_lang *lang, atvi_idx data, atvi_idx row) {
  const atvi_lang_data *d = &lang->data[data];
  for (atvi_idx o = 0; o < lang->n_observe; o++) {
    const atvi_lang_observe *obs = &lang->observe[o];
    if (obs->data == data && obs->column >= 0 && atvi_app_counts(lang, obs) &&
        !isnan(d->value[row * d->n_col + obs->column]))
      return true;
  }
  return false;
}

static atvi_status tell_gaps(atvi_pool *pool, const atvi_lang *lang, atvi_idx data, const char **note) {
  const atvi_lang_data *d = &lang->data[data];
  bool ok;
  double usual = usual_step(pool, d, &ok), step = NAN, least = HUGE_VAL, most = 0;
  atvi_idx n = 0;
  atvi_text list = {.pool = pool};
  if (!ok) return ATVI_ENOMEM;
  for (atvi_idx r = 1; r < d->n_row; r++) {
    if (d->time[r] > d->time[r - 1]) step = d->time[r] - d->time[r - 1]; /* rows at one time share it */
    if (!(step > LONGER * usual) || !counted(lang, data, r)) continue;
    if (n < ROWS_TOLD) atvi_io_text_add(&list, "%s%td", n ? ", " : "", r + 1);
    n++;
    least = fmin(least, step);
    most = fmax(most, step);
  }
  if (n == 0) return ATVI_OK;
  if (n > ROWS_TOLD) atvi_io_text_add(&list, " and %td more", n - ROWS_TOLD);
  atvi_text out = {.pool = pool};
  const char *rows;
  ATVI_TRY(atvi_io_text_get(&list, &rows));
  atvi_io_text_add(&out, "%s, row%s %s: the time since the previous row is %g", d->path, n > 1 ? "s" : "",
                   rows, least);
  if (most > least) atvi_io_text_add(&out, " to %g", most);
  atvi_io_text_add(&out,
                   ", elsewhere %g: increase() counts all of it; if rows were left out because nothing was "
                   "reported, keep them and leave the cell empty",
                   usual);
  return atvi_io_text_get(&out, note);
}

atvi_status atvi_app_gaps(atvi_pool *pool, const atvi_lang *lang, const char **note) {
  *note = NULL;
  for (atvi_idx k = 0; k < lang->n_data && !*note; k++)
    if (lang->data[k].time) ATVI_TRY(tell_gaps(pool, lang, k, note));
  return ATVI_OK;
}
