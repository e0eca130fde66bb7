/* SPDX-License-Identifier: MIT */
/* atvi compare of finished fits: reads their folders one after another, keeps what comparisons need, compares
 * them, and writes the comparison. */
#include "app/compare.h"
#include "app/report.h"
#include "diag/score.h"
#include "io/file.h"
#include "math/special.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Differences of elpd below either of these do not decide between two models (Sivula, Magnusson, Matamoros,
 * Vehtari 2020). */
static const double DECIDES = 4, DECIDES_SE = 2;

/* text NULL: out of memory, which the pool remembers. Advice follows the first message of each code. */
static void say(atvi_pool *pool, atvi_candidates *c, atvi_severity severity, atvi_code code,
                const char *text) {
  const char *advice = atvi_app_advice(code);
  for (atvi_idx i = 0; i < c->n_message; i++)
    if (c->message[i].code == code) advice = NULL;
  if (text && advice) text = atvi_pool_printf(pool, "%s %s", text, advice);
  if (text && ATVI_PUSH(pool, c->message, c->n_message, c->cap_message))
    c->message[c->n_message++] = (atvi_message){severity, code, text};
}

const char *atvi_app_candidates_list(atvi_pool *pool, atvi_idx n, const char *const *name) {
  atvi_text t = {.pool = pool};
  const char *out;
  for (atvi_idx k = 0; k < n; k++)
    atvi_io_text_add(&t, "%s%s", k == 0 ? "" : k + 1 < n ? ", " : " and ", name[k]);
  return atvi_io_text_get(&t, &out) == ATVI_OK ? out : NULL;
}

/* ---- the same data? ---- */

static int by_place(const void *a, const void *b) {
  const atvi_candidate_value *x = a, *y = b;
  int name = strcmp(x->series, y->series);
  if (name) return name;
  if (x->time != y->time) return x->time < y->time ? -1 : 1;
  if (x->value != y->value) return x->value < y->value ? -1 : 1;
  return x->exact - y->exact;
}

static const char *value_text(atvi_pool *pool, const atvi_candidate_value *x) {
  return atvi_pool_printf(pool, "%s = %.9g at %.9g%s", x->series, x->value, x->time,
                          x->exact ? "" : " (a limit)");
}

/* Index of the first value that differs; n if none does. */
static atvi_idx first_other(atvi_idx n, const atvi_candidate_value *x, const atvi_candidate_value *y) {
  atvi_idx i = 0;
  while (i < n && by_place(&x[i], &y[i]) == 0) i++;
  return i;
}

static const char *differ(atvi_pool *pool, const atvi_candidate *a, const atvi_candidate *b) {
  const char *rule_a = a->holdout ? a->holdout : "nothing", *rule_b = b->holdout ? b->holdout : "nothing";
  bool rules = strcmp(rule_a, rule_b) != 0;
  if (a->n_value != b->n_value)
    return atvi_pool_printf(pool, "%s was fitted to %td values and %s to %td%s%s%s%s%s", a->name, a->n_value,
                            b->name, b->n_value, rules ? " (held out: " : "", rules ? rule_a : "",
                            rules ? ", and " : "", rules ? rule_b : "", rules ? ")" : "");
  atvi_idx i = first_other(a->n_value, a->value, b->value);
  if (i == a->n_value) return NULL;
  const char *x = value_text(pool, &a->value[i]), *y = value_text(pool, &b->value[i]);
  return x && y ? atvi_pool_printf(pool, "%s was fitted to %s and %s to %s", a->name, x, b->name, y) : NULL;
}

static void check_data(atvi_pool *pool, atvi_candidates *c) {
  const char *why = NULL;
  for (atvi_idx k = 0; k < c->n; k++)
    qsort(c->of[k].value, (size_t)c->of[k].n_value, sizeof *c->of[k].value, by_place);
  for (atvi_idx k = 0; k < c->n && !why; k++)
    if (c->of[k].no_groups && c->of[k].n_value == 0)
      why = atvi_pool_printf(pool, "the data of %s are not known: %s", c->of[k].name, c->of[k].no_groups);
  for (atvi_idx k = 1; k < c->n && !why; k++) why = differ(pool, &c->of[0], &c->of[k]);
  if (!why && c->of[0].n_value == 0) why = "nothing was observed";
  if (!why) return;
  c->differ = why;
  say(pool, c, ATVI_WARNING, ATVI_CODE_DATA_DIFFER,
      atvi_pool_printf(pool,
                       "Evidence and LOO are not compared: %s. They compare models by how well they explain "
                       "the same data.",
                       why));
}

/* ---- evidence ---- */

static void compare_evidence(atvi_pool *pool, atvi_candidates *c) {
  atvi_idx n = 0, best = -1;
  double all = -HUGE_VAL;
  for (atvi_idx k = 0; k < c->n; k++) {
    double z = c->of[k].evidence.log;
    if (isnan(z)) continue;
    n++;
    all = atvi_math_log_add(all, z);
    if (best < 0 || z > c->of[best].evidence.log) best = k;
  }
  if (n < 2) return;
  const atvi_candidate *top = &c->of[best];
  c->best_evidence = best;
  for (atvi_idx k = 0; k < c->n; k++) {
    atvi_candidate *m = &c->of[k];
    if (isnan(m->evidence.log)) continue;
    m->evidence.probability = exp(m->evidence.log - all);
    m->evidence.difference = m->evidence.log - top->evidence.log;
    m->evidence.difference_se = k == best ? 0 : hypot(m->evidence.se, top->evidence.se);
  }
  bool sure = top->evidence.probability > 0.9995;
  c->say_evidence =
      atvi_pool_printf(pool,
                       "%s has the highest evidence: its probability is %s%.3f among the %td "
                       "with known evidence, if all are equally likely before the data.",
                       top->name, sure ? "above " : "", sure ? 0.999 : top->evidence.probability, n);
}

static void say_evidence(atvi_pool *pool, atvi_candidates *c) {
  for (atvi_idx k = 0; k < c->n; k++) {
    const atvi_candidate *m = &c->of[k];
    if (isnan(m->evidence.log))
      say(pool, c, ATVI_NOTE, ATVI_CODE_EVIDENCE_NONE,
          atvi_pool_printf(pool, "%s has no evidence: method %s gives none.", m->name, m->method));
    else if (m->evidence.doubtful)
      say(pool, c, ATVI_WARNING, ATVI_CODE_EVIDENCE_DOUBTFUL,
          atvi_pool_printf(pool, "The evidence of %s is doubtful: k-hat rejects the weights behind it.",
                           m->name));
  }
}

/* ---- LOO ---- */

/* Sums over the values of one fit; false: some are not known. */
static bool sum_loo(atvi_pool *pool, atvi_candidate *m) {
  atvi_loo_point *point = atvi_pool_take(pool, (size_t)m->n_value + 1, sizeof *point);
  if (!point || m->n_value == 0) return false;
  for (atvi_idx i = 0; i < m->n_value; i++) {
    if (isnan(m->value[i].loo.elpd_loo)) return false;
    point[i] = m->value[i].loo;
  }
  atvi_loo_sum s = atvi_math_loo_total(m->n_value, point, m->n_draw);
  m->loo.elpd = s.elpd;
  m->loo.se = s.se;
  m->loo.p = s.p;
  m->loo.khat_above = (double)s.n_bad;
  return true;
}

static bool decides(const atvi_candidate *m) {
  double d = -m->loo.difference;
  return d >= DECIDES && !(d < DECIDES_SE * m->loo.difference_se);
}

static void say_loo(atvi_pool *pool, atvi_candidates *c) {
  const atvi_candidate *top = &c->of[c->best_loo], *next = NULL;
  const char **close = atvi_pool_take(pool, (size_t)c->n, sizeof *close), *list;
  atvi_idx n = 1;
  if (!close) return;
  close[0] = top->name;
  for (atvi_idx k = 0; k < c->n; k++) {
    const atvi_candidate *m = &c->of[k];
    if (m == top || isnan(m->loo.elpd)) continue;
    if (!decides(m)) close[n++] = m->name;
    if (!next || m->loo.elpd > next->loo.elpd) next = m;
  }
  if (n > 1 && (list = atvi_app_candidates_list(pool, n, close)))
    c->say_loo = atvi_pool_printf(pool,
                                  "LOO does not decide between %s: a difference of elpd below %g, or below "
                                  "twice its error, is not conclusive.",
                                  list, DECIDES);
  else if (next)
    c->say_loo =
        atvi_pool_printf(pool, "%s predicts best: the elpd of the next, %s, is %.1f \xc2\xb1 %.1f lower.",
                         top->name, next->name, -next->loo.difference, next->loo.difference_se);
}

/* of[n]: the fits with LOO; differences to the best, and weights. */
static atvi_status weigh(atvi_pool *pool, atvi_candidates *c, atvi_idx n, atvi_candidate **of) {
  const atvi_idx N = of[0]->n_value;
  double *elpd = atvi_pool_take(pool, (size_t)(n * N), sizeof *elpd);
  double *w = atvi_pool_take(pool, (size_t)n, sizeof *w);
  double *work = atvi_pool_take(pool, atvi_math_stacking_work(N, n), sizeof *work);
  if (!elpd || !w || !work) return ATVI_ENOMEM;
  atvi_idx best = 0;
  for (atvi_idx k = 0; k < n; k++) {
    for (atvi_idx i = 0; i < N; i++) elpd[k * N + i] = of[k]->value[i].loo.elpd_loo;
    if (of[k]->loo.elpd > of[best]->loo.elpd) best = k;
  }
  atvi_math_stacking(N, n, elpd, w, work);
  c->best_loo = of[best] - c->of;
  for (atvi_idx k = 0; k < n; k++) {
    atvi_loo_difference d = atvi_math_loo_less(N, elpd + k * N, elpd + best * N);
    of[k]->loo.difference = d.sum;
    of[k]->loo.difference_se = d.se;
    of[k]->loo.weight = w[k];
  }
  return ATVI_OK;
}

static atvi_status compare_loo(atvi_pool *pool, atvi_candidates *c) {
  atvi_candidate **of = atvi_pool_take(pool, (size_t)c->n, sizeof *of);
  atvi_idx n = 0;
  for (atvi_idx k = 0; of && k < c->n; k++)
    if (!isnan(c->of[k].loo.elpd)) of[n++] = &c->of[k];
  if (!of) return ATVI_ENOMEM;
  if (n < 2) return ATVI_OK;
  ATVI_TRY(weigh(pool, c, n, of));
  say_loo(pool, c);
  return ATVI_OK;
}

/* What the fits themselves lack. */
static void say_each(atvi_pool *pool, atvi_candidates *c) {
  for (atvi_idx k = 0; k < c->n; k++) {
    atvi_candidate *m = &c->of[k];
    if (!sum_loo(pool, m))
      say(pool, c, ATVI_NOTE, ATVI_CODE_LOO_NONE,
          m->no_groups
              ? atvi_pool_printf(pool, "%s has no LOO: %s.", m->name, m->no_groups)
              : atvi_pool_printf(pool, "%s has no LOO: the likelihood of its observations is not known.",
                                 m->name));
    else if (m->loo.khat_above > 0)
      say(pool, c, ATVI_WARNING, ATVI_CODE_LOO_KHAT,
          atvi_pool_printf(
              pool, "LOO of %s is unreliable: k-hat is above its threshold at %.0f of %td observations.",
              m->name, m->loo.khat_above, m->n_value));
  }
}

/* ---- shared quantities ---- */

/* Two fits of the same model do not say which model is better. */
static void say_same(atvi_pool *pool, atvi_candidates *c) {
  for (atvi_idx k = 1; k < c->n; k++)
    for (atvi_idx i = 0; i < k; i++) {
      const atvi_candidate *a = &c->of[i], *b = &c->of[k];
      if (!a->text || !b->text || strcmp(a->text, b->text) != 0 || a->summary->n_param != b->summary->n_param)
        continue;
      say(pool, c, ATVI_NOTE, ATVI_CODE_NONE,
          atvi_pool_printf(
              pool,
              "%s and %s are fits of the same model, which divide its probability and weight between them.",
              a->name, b->name));
      break;
    }
}

/* -1: none of that name. */
static atvi_idx column(const atvi_summary *s, const char *name) {
  for (atvi_idx i = 0; i < s->n_col; i++)
    if (strcmp(s->col[i].name, name) == 0) return i;
  return -1;
}

static void add_shared(atvi_pool *pool, atvi_candidates *c, atvi_idx first, atvi_idx at) {
  const atvi_summary *s = c->of[first].summary;
  const char *name = s->col[at].name;
  atvi_shared x = {.name = name, .kind = at < s->n_param ? "parameter" : "derived"};
  for (atvi_idx k = 0; k < first; k++)
    if (column(c->of[k].summary, name) >= 0) return; /* it is present */
  x.of = atvi_pool_take(pool, (size_t)c->n, sizeof *x.of);
  for (atvi_idx k = first; x.of && k < c->n; k++) {
    atvi_idx i = column(c->of[k].summary, name);
    if (i < 0) continue;
    const atvi_summary_column *col = &c->of[k].summary->col[i];
    double sd = s->col[at].sd;
    x.of[x.n++] =
        (atvi_shared_value){.fit = c->of[k].name,
                            .mean = col->mean,
                            .sd = col->sd,
                            .hpd95 = {col->hpd95[0], col->hpd95[1]},
                            .difference = k > first && sd > 0 ? (col->mean - s->col[at].mean) / sd : NAN};
  }
  if (x.n > 1 && ATVI_PUSH(pool, c->shared, c->n_shared, c->cap_shared)) c->shared[c->n_shared++] = x;
}

/* ---- all of it ---- */

/* Verdicts that are not ok, worst first. */
static void say_verdicts(atvi_pool *pool, atvi_candidates *c) {
  for (int v = ATVI_VERDICT_BAD; v > ATVI_VERDICT_OK; v--)
    for (atvi_idx k = 0; k < c->n; k++) {
      const atvi_candidate *m = &c->of[k];
      if ((int)m->summary->verdict != v) continue;
      const atvi_message *why = atvi_diag_summary_reason(m->summary);
      say(pool, c, v == ATVI_VERDICT_BAD ? ATVI_SERIOUS : ATVI_WARNING, ATVI_CODE_NONE,
          atvi_pool_printf(pool, "The verdict on %s is %s: %s", m->name, m->verdict, why ? why->text : ""));
    }
}

atvi_status atvi_app_candidates_compare(atvi_pool *pool, atvi_candidates *c) {
  c->best_evidence = c->best_loo = -1;
  for (atvi_idx k = 0; k < c->n; k++) {
    atvi_candidate *m = &c->of[k];
    const atvi_summary *s = m->summary;
    const atvi_message *why = atvi_diag_summary_reason(s);
    m->verdict = atvi_verdict_name(s->verdict);
    m->reason = why ? why->text : NULL;
    m->evidence.log = s->made.log_evidence;
    m->evidence.se = s->made.log_evidence_se;
    m->evidence.doubtful = !isnan(m->evidence.log) && s->refused && !s->chains;
    m->evidence.difference = m->evidence.difference_se = m->evidence.probability = NAN;
    m->loo.elpd = m->loo.se = m->loo.difference = m->loo.difference_se = NAN;
    m->loo.p = m->loo.khat_above = m->loo.weight = NAN;
  }
  say_verdicts(pool, c);
  check_data(pool, c);
  say_evidence(pool, c);
  say_each(pool, c);
  if (!c->differ) {
    say_same(pool, c);
    compare_evidence(pool, c);
    ATVI_TRY(compare_loo(pool, c));
  }
  for (atvi_idx k = 0; k < c->n; k++)
    for (atvi_idx i = 0; i < c->of[k].summary->n_col; i++) add_shared(pool, c, k, i);
  return atvi_pool_status(pool);
}

/* ---- reading ---- */

static const char *copy(atvi_pool *pool, const char *s) {
  return s ? atvi_pool_strndup(pool, s, strlen(s)) : NULL;
}

/* The fitted values of series[n], which were judged. */
static void take_values(atvi_pool *pool, atvi_idx n, const atvi_predicted *series, atvi_candidate *m) {
  atvi_idx total = 0;
  for (atvi_idx s = 0; s < n; s++) total += series[s].n;
  m->value = atvi_pool_take(pool, (size_t)total + 1, sizeof *m->value);
  for (atvi_idx s = 0; m->value && s < n; s++) {
    if (series[s].kind != ATVI_SERIES_OBSERVED) continue;
    const char *name = copy(pool, series[s].name);
    for (atvi_idx i = 0; name && i < series[s].n; i++) {
      const atvi_point *p = &series[s].point[i];
      if (isnan(p->value) || p->held) continue;
      m->value[m->n_value++] = (atvi_candidate_value){name, p->time, p->value, p->exact, p->loo};
    }
  }
}

static atvi_status read_values(atvi_pool *own, atvi_pool *pool, const atvi_draws *d, atvi_candidate *m) {
  atvi_idx n;
  atvi_predicted *series;
  ATVI_TRY(atvi_diag_predicted_read(own, d, ATVI_PREDICTED_LOO, &n, &series));
  for (atvi_idx s = 0; s < n; s++)
    for (atvi_idx i = 0; i < series[s].n; i++) { /* without bands, which are not needed */
      atvi_point *p = &series[s].point[i];
      p->mean = p->draw = p->others = p->alone = NULL;
    }
  m->n_draw = atvi_diag_predicted_draws(d);
  if (m->n_draw > 0) ATVI_TRY(atvi_diag_predicted_judge(d->ctx, m->n_draw, n, series));
  take_values(pool, n, series, m);
  return ATVI_OK;
}

static atvi_status read_fit(atvi_pool *own, atvi_pool *pool, atvi_app_finished how, const char *where,
                            atvi_candidate *m) {
  atvi_kept x;
  how.where = where;
  atvi_status status = atvi_app_kept_open(atvi_pool_ctx(pool), own, &how, &x);
  if (status == ATVI_OK) status = atvi_app_advised_summary(pool, x.draws, &m->summary);
  if (status == ATVI_OK) status = read_values(own, pool, x.plain, m);
  if (status == ATVI_OK) {
    m->method = m->summary->made.method;
    m->model = m->summary->made.model;
    m->holdout = copy(pool, x.holdout);
    m->text = copy(pool, x.text);
    m->no_groups = copy(pool, x.plain->about->no_groups);
  }
  atvi_app_kept_close(&x);
  return status;
}

static bool same_folder(const char *a, const char *b) {
  struct stat x, y;
  return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static const char *last_part(atvi_pool *pool, const char *path) {
  size_t n = strlen(path);
  while (n > 1 && path[n - 1] == '/') n--;
  size_t from = n;
  while (from > 0 && path[from - 1] != '/') from--;
  return from < n ? atvi_pool_strndup(pool, path + from, n - from) : copy(pool, path);
}

/* Folders and the names of fits. */
static atvi_status name_fits(atvi_pool *pool, const atvi_app_models_opts *opts, atvi_candidates *c) {
  atvi_ctx *ctx = atvi_pool_ctx(pool);
  bool twice = false;
  if (opts->n < 2) return ATVI_FAIL(ctx, ATVI_EINVAL, "%td fit: want two or more to compare", opts->n);
  c->n = opts->n;
  c->of = atvi_pool_take(pool, (size_t)c->n, sizeof *c->of);
  for (atvi_idx k = 0; c->of && k < c->n; k++) {
    atvi_candidate *m = &c->of[k];
    *m = (atvi_candidate){.dir = opts->where[k], .name = last_part(pool, opts->where[k])};
    if (!m->name) return ATVI_ENOMEM;
    for (atvi_idx i = 0; i < k; i++) {
      if (same_folder(c->of[i].dir, m->dir)) return ATVI_FAIL(ctx, ATVI_EINVAL, "%s is given twice", m->dir);
      twice = twice || strcmp(c->of[i].name, m->name) == 0;
    }
    if (opts->out && same_folder(opts->out, m->dir))
      return ATVI_FAIL(ctx, ATVI_EINVAL, "--out %s: this is the folder of a fit", opts->out);
  }
  for (atvi_idx k = 0; twice && k < c->n; k++) c->of[k].name = c->of[k].dir;
  return c->of ? ATVI_OK : ATVI_ENOMEM;
}

/* Predictions are large: those of each fit have memory of their own. */
static atvi_status read_fits(atvi_pool *pool, const atvi_app_models_opts *opts, atvi_candidates *c) {
  ATVI_TRY(name_fits(pool, opts, c));
  for (atvi_idx k = 0; k < c->n; k++) {
    atvi_pool *own;
    ATVI_TRY(atvi_pool_new(atvi_pool_ctx(pool), &own));
    atvi_status status = read_fit(own, pool, opts->older, c->of[k].dir, &c->of[k]);
    atvi_pool_free(own);
    if (status != ATVI_OK) return status;
  }
  return atvi_pool_status(pool);
}

atvi_status atvi_app_compare_models(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_models_opts *opts,
                                    atvi_app_compare_result *result) {
  atvi_candidates c = {0};
  const char *csv;
  *result = (atvi_app_compare_result){.all_ok = true};
  ATVI_TRY(read_fits(pool, opts, &c));
  ATVI_TRY(atvi_app_candidates_compare(pool, &c));
  ATVI_TRY(atvi_app_out_dir(ctx, pool, opts->out, opts->force, "compare", &result->dir));
  ATVI_TRY(atvi_app_candidates_text(pool, &c, &result->text));
  ATVI_TRY(atvi_app_candidates_json(pool, &c, &result->json));
  ATVI_TRY(atvi_app_candidates_csv(pool, &c, &csv));
  ATVI_TRY(atvi_io_file_save_in(pool, result->dir, "compare.csv", csv));
  ATVI_TRY(atvi_io_file_save_in(pool, result->dir, "compare.json", result->json));
  if (!opts->no_report) atvi_app_report_models(ctx, pool, &c, result->dir);
  result->n_fitted = c.n;
  for (atvi_idx k = 0; k < c.n; k++)
    if (c.of[k].summary->verdict != ATVI_VERDICT_OK) result->all_ok = false;
  return ATVI_OK;
}

/* The comparison of fits for a terminal, as compare.csv and as compare.json. */

enum { NAME_LEAST = 12, NAME_MOST = 32, QUANTITIES_SHOWN = 40 };

#define TEXT(key, member) ATVI_FIELD_AS(key, WORD, atvi_candidate, member)
#define FIXED(key, member, heading, width, digits)                                                           \
  ATVI_FIELD_SHOWN(key, REAL, atvi_candidate, member, heading, width, FIXED, digits)
static const atvi_field CANDIDATE[] = {
    TEXT("fit", name),
    TEXT("folder", dir),
    TEXT("model", model),
    TEXT("method", method),
    TEXT("holdout", holdout),
    TEXT("verdict", verdict),
    TEXT("reason", reason),
    ATVI_FIELD_AS("observations", COUNT, atvi_candidate, n_value),
    FIXED("log_evidence", evidence.log, "log evidence", 14, 2),
    ATVI_FIELD_SHOWN("log_evidence_se", REAL, atvi_candidate, evidence.se, "+-", 9, GENERAL, 2),
    FIXED("log_evidence_difference", evidence.difference, "difference", 12, 2),
    ATVI_FIELD_SHOWN("log_evidence_difference_se", REAL, atvi_candidate, evidence.difference_se, "+-", 9,
                     GENERAL, 2),
    FIXED("probability", evidence.probability, "probability", 13, 3),
    ATVI_FIELD_AS("log_evidence_doubtful", FLAG, atvi_candidate, evidence.doubtful),
    FIXED("elpd_loo", loo.elpd, "elpd", 10, 2),
    FIXED("elpd_loo_se", loo.se, "+-", 8, 2),
    FIXED("elpd_difference", loo.difference, "difference", 12, 2),
    FIXED("elpd_difference_se", loo.difference_se, "+-", 8, 2),
    FIXED("p_loo", loo.p, "p", 8, 2),
    ATVI_FIELD_SHOWN("khat_above", WHOLE, atvi_candidate, loo.khat_above, "bad k", 7, FIXED, 0),
    FIXED("stacking_weight", loo.weight, "weight", 9, 3),
};
static const atvi_fields CANDIDATE_FIELDS = ATVI_FIELDS(CANDIDATE);

#define SHARED_NUMBER(key, member, heading, width)                                                           \
  ATVI_FIELD_SHOWN(key, REAL, atvi_shared_value, member, heading, width, SIZE, 0)
static const atvi_field SHARED[] = {
    ATVI_FIELD(WORD, atvi_shared_value, fit),
    SHARED_NUMBER("mean", mean, "mean", 12),
    SHARED_NUMBER("sd", sd, "sd", 12),
    ATVI_FIELD(PAIR, atvi_shared_value, hpd95),
    SHARED_NUMBER("low", hpd95[0], "95 % from", 12), /* for the terminal, which shows a pair in one column */
    SHARED_NUMBER("high", hpd95[1], "to", 12),
    ATVI_FIELD_SHOWN("difference", REAL, atvi_shared_value, difference, "in sds", 9, FIXED, 2),
};
static const atvi_fields SHARED_FIELDS = ATVI_FIELDS(SHARED);

static const char
    EVIDENCE[] =
        "log_evidence log_evidence_se log_evidence_difference log_evidence_difference_se probability",
    LOO[] = "elpd_loo elpd_loo_se elpd_difference elpd_difference_se p_loo khat_above stacking_weight",
    QUANTITY[] = "mean sd hpd95 difference", QUANTITY_SHOWN[] = "mean sd low high difference";

/* ---- terminal ---- */

static int name_width(const atvi_candidates *c) {
  int width = NAME_LEAST;
  for (atvi_idx k = 0; k < c->n; k++)
    if ((int)strlen(c->of[k].name) > width) width = (int)strlen(c->of[k].name);
  return width < NAME_MOST ? width : NAME_MOST;
}

/* The difference of the best to itself is not shown. */
static atvi_candidate shown(const atvi_candidates *c, atvi_idx k) {
  atvi_candidate m = c->of[k];
  if (k == c->best_evidence) m.evidence.difference = m.evidence.difference_se = NAN;
  if (k == c->best_loo) m.loo.difference = m.loo.difference_se = NAN;
  return m;
}

/* A table of the fits, if `known` is known for any. */
static void fits(atvi_text *t, const atvi_candidates *c, const char *title, const char *known,
                 const char *keys) {
  const atvi_field *f = atvi_io_fields_find(&CANDIDATE_FIELDS, known);
  int width = name_width(c);
  bool some = false, doubtful = false;
  for (atvi_idx k = 0; k < c->n; k++) some = some || !isnan(atvi_io_field_number(f, &c->of[k]));
  if (!some) return;
  atvi_io_text_add(t, "\n%-*s", width, title);
  atvi_io_fields_heading(t, &CANDIDATE_FIELDS, keys);
  for (atvi_idx k = 0; k < c->n; k++) {
    atvi_candidate m = shown(c, k);
    bool mark = keys == EVIDENCE && m.evidence.doubtful;
    atvi_io_text_add(t, "\n");
    atvi_io_text_label(t, width, m.name);
    atvi_io_fields_row(t, &CANDIDATE_FIELDS, &m, keys, "-");
    if (mark) atvi_io_text_add(t, " *");
    doubtful = doubtful || mark;
  }
  atvi_io_text_add(t, doubtful ? "\n* from weights that cannot be trusted\n" : "\n");
}

static void verdicts(atvi_text *t, const atvi_candidates *c) {
  int width = name_width(c);
  atvi_io_text_add(t, "%-*s  %-8s  %-8s  %12s  %-s\n", width, "", "verdict", "method", "observations",
                   "model");
  for (atvi_idx k = 0; k < c->n; k++) {
    const atvi_candidate *m = &c->of[k];
    atvi_io_text_label(t, width, m->name);
    atvi_io_text_add(t, "  %-8s  %-8s  %12td  %.*s\n", m->verdict, m->method, m->n_value,
                     ATVI_TEXT_WIDTH - width - 36, m->model);
  }
}

static void quantities(atvi_text *t, const atvi_candidates *c) {
  int fit = name_width(c), name = NAME_LEAST;
  for (atvi_idx i = 0; i < c->n_shared && i < QUANTITIES_SHOWN; i++)
    if ((int)strlen(c->shared[i].name) > name) name = (int)strlen(c->shared[i].name);
  if (name > ATVI_TEXT_WIDTH - 57 - 1 - fit) name = ATVI_TEXT_WIDTH - 57 - 1 - fit;
  if (c->n_shared == 0) return;
  atvi_io_text_add(t, "\n%-*s %-*s", name, "shared", fit, "");
  atvi_io_fields_heading(t, &SHARED_FIELDS, QUANTITY_SHOWN);
  atvi_io_text_add(t, "\n");
  for (atvi_idx i = 0; i < c->n_shared && i < QUANTITIES_SHOWN; i++)
    for (atvi_idx k = 0; k < c->shared[i].n; k++) {
      atvi_io_text_label(t, name, k == 0 ? c->shared[i].name : "");
      atvi_io_text_add(t, " ");
      atvi_io_text_label(t, fit, c->shared[i].of[k].fit);
      atvi_shared_value x = c->shared[i].of[k];
      if (fabs(x.difference) < 0.005) x.difference = 0; /* no -0.00 */
      atvi_io_fields_row(t, &SHARED_FIELDS, &x, QUANTITY_SHOWN, "-");
      atvi_io_text_add(t, "\n");
    }
  if (c->n_shared > QUANTITIES_SHOWN)
    atvi_io_text_add(t, "%td more: compare.csv\n", c->n_shared - QUANTITIES_SHOWN);
}

atvi_status atvi_app_candidates_text(atvi_pool *pool, const atvi_candidates *c, const char **text) {
  atvi_text t = {.pool = pool};
  verdicts(&t, c);
  fits(&t, c, "LOO", "elpd_loo", LOO);
  fits(&t, c, "evidence", "log_evidence", EVIDENCE);
  quantities(&t, c);
  atvi_io_text_add(&t, "\n");
  for (atvi_idx i = 0; i < c->n_message; i++) atvi_io_text_wrap(&t, "- ", 2, c->message[i].text);
  if (c->say_loo) atvi_io_text_wrap(&t, "- ", 2, c->say_loo);
  if (c->say_evidence) atvi_io_text_wrap(&t, "- ", 2, c->say_evidence);
  if (c->n_shared > 0)
    atvi_io_text_wrap(&t, "- ", 2,
                      "in sds: the mean minus that of the first fit with the quantity, in sds of that fit.");
  return atvi_io_text_get(&t, text);
}

/* ---- CSV ---- */

static void csv_fit(atvi_text *t, const atvi_candidate *m) {
  const char *lead = atvi_app_compare_lead(t->pool, m->name, "fit", "");
  if (!lead) return;
  atvi_app_compare_word(t, m->name, "folder", m->dir);
  atvi_app_compare_word(t, m->name, "model", m->model);
  atvi_app_compare_word(t, m->name, "method", m->method);
  atvi_app_compare_word(t, m->name, "verdict", m->verdict);
  if (m->reason) atvi_app_compare_word(t, m->name, "reason", m->reason);
  atvi_io_fields_lines(t, lead, &CANDIDATE_FIELDS, m, "observations");
  atvi_io_fields_lines(t, lead, &CANDIDATE_FIELDS, m, EVIDENCE);
  atvi_io_fields_lines(t, lead, &CANDIDATE_FIELDS, m, LOO);
}

atvi_status atvi_app_candidates_csv(atvi_pool *pool, const atvi_candidates *c, const char **text) {
  atvi_text t = {.pool = pool};
  atvi_io_text_add(&t, "fit,kind,name,statistic,value\n");
  for (atvi_idx k = 0; k < c->n; k++) csv_fit(&t, &c->of[k]);
  for (atvi_idx i = 0; i < c->n_shared; i++)
    for (atvi_idx k = 0; k < c->shared[i].n; k++) {
      const atvi_shared_value *x = &c->shared[i].of[k];
      const char *lead = atvi_app_compare_lead(pool, x->fit, c->shared[i].kind, c->shared[i].name);
      if (lead) atvi_io_fields_lines(&t, lead, &SHARED_FIELDS, x, QUANTITY);
    }
  t.failed = t.failed || atvi_pool_failed(pool);
  return atvi_io_text_get(&t, text);
}

/* ---- JSON ---- */

static json_t *name_of(atvi_pool *pool, const atvi_candidates *c, atvi_idx k) {
  return atvi_io_json_word(pool, k < 0 ? NULL : c->of[k].name);
}

static void put_messages(atvi_json *w, const atvi_candidates *c) {
  atvi_io_json_list(w, "messages");
  for (atvi_idx i = 0; i < c->n_message; i++)
    atvi_io_json_put(w, NULL, atvi_io_json_word(w->pool, c->message[i].text));
  atvi_io_json_end(w);
  atvi_io_json_list(w, "message_codes");
  for (atvi_idx i = 0; i < c->n_message; i++)
    atvi_io_json_put(w, NULL, json_string(atvi_code_name(c->message[i].code)));
  atvi_io_json_end(w);
}

atvi_status atvi_app_candidates_json(atvi_pool *pool, const atvi_candidates *c, const char **text) {
  atvi_json w = {.pool = pool};
  atvi_io_json_object(&w, NULL);
  atvi_io_json_put(&w, "version", json_string(ATVI_VERSION));
  atvi_io_json_put(&w, "same_data", json_boolean(!c->differ));
  atvi_io_json_put(&w, "best_loo", name_of(pool, c, c->best_loo));
  atvi_io_json_put(&w, "best_evidence", name_of(pool, c, c->best_evidence));
  atvi_io_json_list(&w, "fits");
  for (atvi_idx k = 0; k < c->n; k++) {
    atvi_io_json_object(&w, NULL);
    atvi_io_fields_json(&w, &CANDIDATE_FIELDS, &c->of[k], NULL);
    atvi_io_json_end(&w);
  }
  atvi_io_json_end(&w);
  atvi_io_json_list(&w, "shared");
  for (atvi_idx i = 0; i < c->n_shared; i++) {
    atvi_io_json_object(&w, NULL);
    atvi_io_json_put(&w, "name", atvi_io_json_word(pool, c->shared[i].name));
    atvi_io_json_put(&w, "kind", json_string(c->shared[i].kind));
    atvi_io_json_list(&w, "fits");
    for (atvi_idx k = 0; k < c->shared[i].n; k++) {
      atvi_io_json_object(&w, NULL);
      atvi_io_fields_json(&w, &SHARED_FIELDS, &c->shared[i].of[k], "fit");
      atvi_io_fields_json(&w, &SHARED_FIELDS, &c->shared[i].of[k], QUANTITY);
      atvi_io_json_end(&w);
    }
    atvi_io_json_end(&w);
    atvi_io_json_end(&w);
  }
  atvi_io_json_end(&w);
  put_messages(&w, c);
  return atvi_io_json_get(&w, "compare", text);
}
