/* SPDX-License-Identifier: MIT */
/* The comparison of methods for a terminal (methods as columns, within 100 columns), as compare.csv and as
 * compare.json. */
#include "app/compare.h"
#include "math/stat/stat.h"
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH = ATVI_TEXT_WIDTH, CELL = 12, LABEL_LEAST = 16, COLUMNS_SHOWN = 40, BUFFER = 64 };

typedef struct {
  atvi_text t;
  const atvi_comparison *c;
  int label;   /* width of the first column */
  bool beyond; /* a distance was marked */
} table;

/* ---- cells ---- */

static int place(double x) { return x > 0 && isfinite(x) ? (int)floor(log10(x)) : 0; }

static void put(table *b, const char *s) { atvi_io_text_add(&b->t, "%*s", CELL, s); }

/* n decimals, if they fit. */
static void put_number(table *b, double x, int n) {
  char s[BUFFER];
  if (n >= 0 && fabs(x) < 0.5 * pow(10, -n)) x = 0; /* no -0.00 */
  if (!isfinite(x))
    snprintf(s, sizeof s, "-");
  else if (n < 0 || fabs(x) >= 1e9 || snprintf(s, sizeof s, "%.*f", n, x) >= CELL)
    snprintf(s, sizeof s, "%.4g", x);
  put(b, s);
}

/* About four digits. */
static void put_rough(table *b, double x) {
  double size = fabs(x);
  bool odd = size >= 1e6 || (size < 1e-3 && size > 0);
  put_number(b, x, odd ? -1 : size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : size >= 1 ? 3 : 4);
}

static void put_label(table *b, const char *s) { atvi_io_text_label(&b->t, b->label, s); }

/* ---- rows about a parameter ---- */

/* Three digits of the sd; -1: %.4g. */
static int decimals(const atvi_comparison *c, atvi_idx column) {
  double sd = NAN;
  for (atvi_idx i = 0; i < c->n && !(sd > 0); i++)
    if (c->of[i].summary && (i == c->reference || c->reference < 0)) sd = c->of[i].summary->col[column].sd;
  if (!(sd > 0) || !isfinite(sd)) return -1;
  int n = 2 - place(sd);
  return n < 0 ? 0 : n > 7 ? -1 : n;
}

/* value: of the quantity in a summary. */
static void column_row(table *b, const char *label, atvi_idx column, int n, size_t value) {
  put_label(b, label);
  for (atvi_idx i = 0; i < b->c->n; i++) {
    const atvi_summary *s = b->c->of[i].summary;
    put_number(b, s ? *(const double *)((const char *)&s->col[column] + value) : NAN, n);
  }
  atvi_io_text_add(&b->t, "\n");
}

static void distance_row(table *b, atvi_idx column) {
  put_label(b, "  distance");
  for (atvi_idx i = 0; i < b->c->n; i++) {
    const atvi_compared *m = &b->c->of[i];
    char s[BUFFER] = "-";
    double x = m->distance ? m->distance[column] : NAN;
    if (isfinite(x)) {
      bool beyond = x > ATVI_COMPARE_BEYOND * m->chance[column];
      snprintf(s, sizeof s, x < 100 ? "%.3f%s" : "%.3g%s", x, beyond ? "*" : "");
      b->beyond = b->beyond || beyond;
    } else if (i == b->c->reference) {
      snprintf(s, sizeof s, "ref");
    }
    put(b, s);
  }
  atvi_io_text_add(&b->t, "\n");
}

/* Distances of the approximations before their draws are weighted. */
static void raw_row(table *b, atvi_idx column) {
  bool some = false;
  for (atvi_idx i = 0; i < b->c->n; i++)
    some = some || (b->c->of[i].raw && isfinite(b->c->of[i].raw[column]));
  if (!some) return;
  put_label(b, "  unweighted");
  for (atvi_idx i = 0; i < b->c->n; i++) put_number(b, b->c->of[i].raw ? b->c->of[i].raw[column] : NAN, 3);
  atvi_io_text_add(&b->t, "\n");
}

static const atvi_summary *any(const atvi_comparison *c) {
  for (atvi_idx i = 0; i < c->n; i++)
    if (c->of[i].summary) return c->of[i].summary;
  return NULL;
}

static void columns(table *b) {
  const atvi_summary *s = any(b->c);
  if (!s) return;
  for (atvi_idx j = 0; j < s->n_col && j < COLUMNS_SHOWN; j++) {
    int n = decimals(b->c, j);
    column_row(b, s->col[j].name, j, n, offsetof(atvi_summary_column, mode));
    column_row(b, "  95 % from", j, n, offsetof(atvi_summary_column, hpd95[0]));
    column_row(b, "  to", j, n, offsetof(atvi_summary_column, hpd95[1]));
    if (b->c->n > 1 && b->c->reference >= 0) {
      distance_row(b, j);
      raw_row(b, j);
    }
  }
  if (s->n_col > COLUMNS_SHOWN) atvi_io_text_add(&b->t, "%td more: compare.csv\n", s->n_col - COLUMNS_SHOWN);
  atvi_io_text_add(&b->t, "\n");
}

/* ---- rows about the fit ---- */

const char *atvi_app_compared_word(const atvi_compared *m) {
  static const char *const word[] = {"not run", "stopped", "failed", "done"};
  return word[m->state];
}

double atvi_app_compared_evidence(const atvi_compared *m) {
  const atvi_summary *s = m->summary;
  return !s || (s->refused && !s->chains) ? NAN : s->made.log_evidence;
}

/* A row of figures: which field of which struct, and its format. */
typedef struct {
  const char *label, *key;
  enum { FIT, FITTED, HELD } of;
  int decimals; /* -1: as the number requires */
} figure;

static const figure FIGURES[] = {
    {"seconds", "seconds", FIT, 2},
    {"evaluations", "evaluations", FIT, 0},
    {"k-hat", "khat", FIT, 2},
    {"R-hat", "rhat", FIT, 3},
    {"ESS", "ess", FIT, 0},
    {"log MAP", "log_map", FIT, 2},
    {"log evidence", "log_evidence", FIT, 2},
    {"coverage, %", "coverage", FITTED, 1},
    {"AIL", "ail", FITTED, -1},
    {"MSPE", "mspe", FITTED, -1},
    {"AIL/series", "ail_sum", FITTED, -1},
    {"MSPE draws", "mspe_draws", FITTED, -1},
    {"  coverage, %", "coverage", HELD, 1},
    {"  AIL", "ail", HELD, -1},
    {"  MSPE", "mspe", HELD, -1},
    {"  lpd", "lpd", HELD, 2},
};
enum { N_FIGURE = sizeof FIGURES / sizeof *FIGURES };

/* NaN: none. */
static double value(const figure *f, const atvi_compared *m) {
  const atvi_score *list = f->of == HELD ? m->held : m->fitted;
  if (!m->summary) return NAN;
  if (strcmp(f->key, "log_evidence") == 0) return atvi_app_compared_evidence(m);
  if (f->of == FIT)
    return atvi_io_field_number(atvi_io_fields_find(&atvi_diag_headline_fields, f->key), &m->fit);
  if (!list) return NAN;
  double x = atvi_io_field_number(atvi_io_fields_find(&atvi_diag_score_fields, f->key), &list[m->n_series]);
  return strcmp(f->key, "coverage") == 0 ? 100 * x : x;
}

/* A row without a number for any method is left out. */
static void figure_row(table *b, const figure *f) {
  bool some = false, shared = b->c->shared && strcmp(f->key, "seconds") == 0;
  for (atvi_idx i = 0; i < b->c->n; i++) some = some || isfinite(value(f, &b->c->of[i]));
  if (!some) return;
  put_label(b, shared ? "seconds (shared)" : f->label);
  for (atvi_idx i = 0; i < b->c->n; i++) {
    double x = value(f, &b->c->of[i]);
    if (f->decimals < 0)
      put_rough(b, x);
    else
      put_number(b, x, f->decimals);
  }
  atvi_io_text_add(&b->t, "\n");
}

static void verdict_row(table *b) {
  put_label(b, "verdict");
  for (atvi_idx i = 0; i < b->c->n; i++) {
    const atvi_compared *m = &b->c->of[i];
    bool whole = m->summary && m->state == ATVI_COMPARED_DONE;
    put(b, whole ? atvi_verdict_name(m->summary->verdict) : atvi_app_compared_word(m));
  }
  atvi_io_text_add(&b->t, "\n");
}

static void figures(table *b) {
  bool held = false;
  verdict_row(b);
  for (int k = 0; k < N_FIGURE; k++) {
    if (FIGURES[k].of == HELD && !b->c->holdout) return;
    if (FIGURES[k].of == HELD && !held) atvi_io_text_add(&b->t, "held out (%s)\n", b->c->holdout);
    held = FIGURES[k].of == HELD;
    figure_row(b, &FIGURES[k]);
  }
}

/* ---- notes ---- */

static void tell(table *b, const char *lead, const char *s) {
  if (lead && s) atvi_io_text_wrap(&b->t, lead, 2, s); /* NULL: out of memory, reported at the end */
}

static void reference_note(table *b) {
  const atvi_comparison *c = b->c;
  if (c->n < 2) return;
  if (c->reference < 0) {
    if (any(c)) tell(b, "", "distance: the requested reference has no draws");
    return;
  }
  const atvi_compared *r = &c->of[c->reference];
  tell(b, "", atvi_pool_printf(b->t.pool, "reference: %s, %s", r->method, c->because));
  tell(b, "",
       atvi_pool_printf(b->t.pool, "distance: to the marginal of %s (Wasserstein-1, in standard deviations)",
                        r->method));
  if (b->beyond) tell(b, "", "* more than three times the distance expected by chance");
  if (r->summary->verdict != ATVI_VERDICT_OK)
    tell(b, "",
         atvi_pool_printf(b->t.pool,
                          "the verdict on the reference is %s: its own distance from the truth is not known",
                          atvi_verdict_name(r->summary->verdict)));
}

static void notes(table *b) {
  const atvi_comparison *c = b->c;
  reference_note(b);
  if (c->shared)
    tell(b, "", "the methods ran side by side and shared the cores, so each took longer than it would alone");
  for (atvi_idx i = 0; i < c->n; i++) {
    const atvi_compared *m = &c->of[i];
    bool unfinished = m->state != ATVI_COMPARED_DONE;
    if (unfinished || m->reason)
      tell(b,
           atvi_pool_printf(b->t.pool, "%s: %s%s", m->method,
                            unfinished ? atvi_app_compared_word(m) : atvi_verdict_name(m->summary->verdict),
                            m->reason ? ":" : ""),
           m->reason ? m->reason : "");
    if (m->unscored) tell(b, atvi_pool_printf(b->t.pool, "%s has no scores:", m->method), m->unscored);
  }
}

atvi_status atvi_app_compare_text(atvi_pool *pool, const atvi_comparison *c, const char **text) {
  table b = {.t = {.pool = pool}, .c = c, .label = LABEL_LEAST};
  const atvi_summary *s = any(c);
  for (atvi_idx j = 0; s && j < s->n_col && j < COLUMNS_SHOWN; j++) {
    int n = (int)strlen(s->col[j].name);
    if (n > b.label) b.label = n;
  }
  int most = WIDTH - CELL * (int)c->n;
  if (b.label > most) b.label = most;
  atvi_io_text_add(&b.t, "%s, seed %" PRIu64 ": mode and 95 %% HPD interval of every quantity, by method\n\n",
                   c->model, c->seed);
  put_label(&b, "");
  for (atvi_idx i = 0; i < c->n; i++) put(&b, c->of[i].method);
  atvi_io_text_add(&b.t, "\n");
  columns(&b);
  figures(&b);
  atvi_io_text_add(&b.t, "\n");
  notes(&b);
  return atvi_io_text_get(&b.t, text);
}

/* The comparison as compare.csv, one number per line, and as compare.json. */

static const char QUANTITY[] = "mode hpd95 mean sd mcse";

/* How far the marginal of a quantity is from that of the reference. */
typedef struct {
  double distance, chance, raw;
} far;

static const atvi_field FAR[] = {ATVI_FIELD(REAL, far, distance),
                                 ATVI_FIELD_AS("distance_by_chance", REAL, far, chance),
                                 ATVI_FIELD_AS("distance_unweighted", REAL, far, raw)};
static const atvi_fields FAR_FIELDS = ATVI_FIELDS(FAR);

static far far_of(const atvi_compared *m, atvi_idx j) {
  return (far){m->distance[j], m->chance[j], m->raw[j]};
}

/* ---- CSV ---- */

const char *atvi_app_compare_lead(atvi_pool *pool, const char *who, const char *kind, const char *name) {
  atvi_text t = {.pool = pool};
  const char *out;
  atvi_app_field(&t, who);
  atvi_io_text_add(&t, ",%s,", kind);
  atvi_app_field(&t, name);
  atvi_io_text_add(&t, ",");
  return atvi_io_text_get(&t, &out) == ATVI_OK ? out : NULL;
}

void atvi_app_compare_word(atvi_text *t, const char *who, const char *what, const char *word) {
  char *flat = atvi_pool_strndup(t->pool, word, strlen(word));
  for (char *p = flat; p && *p; p++)
    if (*p == '\n') *p = ' ';
  atvi_app_field(t, who);
  atvi_io_text_add(t, ",fit,,%s,", what);
  atvi_app_field(t, flat ? flat : ""); /* NULL: the text fails too */
  atvi_io_text_add(t, "\n");
}

static void csv_columns(atvi_text *t, const atvi_compared *m) {
  const atvi_summary *s = m->summary;
  for (atvi_idx j = 0; j < s->n_col; j++) {
    const char *at =
        atvi_app_compare_lead(t->pool, m->method, j < s->n_param ? "parameter" : "derived", s->col[j].name);
    far x = far_of(m, j);
    if (!at) return;
    atvi_io_fields_lines(t, at, &atvi_diag_summary_column_fields, &s->col[j], QUANTITY);
    atvi_io_fields_lines(t, at, &FAR_FIELDS, &x, NULL);
  }
}

static void csv_scores(atvi_text *t, const atvi_compared *m, const char *kind, const atvi_score *list) {
  for (atvi_idx i = 0; list && i <= m->n_series; i++) {
    const char *at = atvi_app_compare_lead(t->pool, m->method, kind,
                                           i < m->n_series && list[i].name ? list[i].name : "all");
    if (!at) return;
    atvi_io_fields_lines(t, at, &atvi_diag_score_fields, &list[i],
                         "n coverage ail mspe ail_sum mspe_draws lpd");
  }
}

static void csv_method(atvi_text *t, const atvi_comparison *c, const atvi_compared *m) {
  atvi_app_compare_word(t, m->method, "state", atvi_app_compared_word(m));
  if (m->reason) atvi_app_compare_word(t, m->method, "reason", m->reason);
  if (!m->summary) return;
  const char *at = atvi_app_compare_lead(t->pool, m->method, "fit", "");
  if (!at) return;
  atvi_app_compare_word(t, m->method, "verdict", atvi_verdict_name(m->summary->verdict));
  atvi_io_text_add(t, "%sreference,%d\n", at, c->reference >= 0 && m == &c->of[c->reference]);
  atvi_io_text_add(t, c->shared ? "%sseconds_shared," : "%sseconds,", at);
  atvi_io_text_number(t, m->fit.seconds);
  atvi_io_text_add(t, "\n");
  atvi_io_fields_lines(t, at, &atvi_diag_headline_fields, &m->fit,
                       "evaluations khat rhat ess log_map log_evidence log_evidence_se");
  csv_columns(t, m);
  csv_scores(t, m, "fitted", m->fitted);
  csv_scores(t, m, "held_out", m->held);
}

atvi_status atvi_app_compare_csv(atvi_pool *pool, const atvi_comparison *c, const char **text) {
  atvi_text t = {.pool = pool};
  atvi_io_text_add(&t, "method,kind,name,statistic,value\n");
  for (atvi_idx i = 0; i < c->n; i++) csv_method(&t, c, &c->of[i]);
  t.failed = t.failed || atvi_pool_failed(pool);
  return atvi_io_text_get(&t, text);
}

/* ---- JSON ---- */

static void put_columns(atvi_json *w, const char *key, const atvi_compared *m, atvi_idx from, atvi_idx to) {
  atvi_io_json_list(w, key);
  for (atvi_idx j = from; j < to; j++) {
    far x = far_of(m, j);
    atvi_io_json_object(w, NULL);
    atvi_io_fields_json(w, &atvi_diag_summary_column_fields, &m->summary->col[j], "name");
    atvi_io_fields_json(w, &atvi_diag_summary_column_fields, &m->summary->col[j], QUANTITY);
    atvi_io_fields_json(w, &FAR_FIELDS, &x, NULL);
    atvi_io_json_end(w);
  }
  atvi_io_json_end(w);
}

static void put_method(atvi_json *w, const atvi_compared *m) {
  const atvi_summary *s = m->summary;
  atvi_io_json_object(w, NULL);
  atvi_io_json_put(w, "method", atvi_io_json_word(w->pool, m->method));
  atvi_io_json_put(w, "state", atvi_io_json_word(w->pool, atvi_app_compared_word(m)));
  atvi_io_json_put(w, "reason", atvi_io_json_word(w->pool, m->reason));
  /* relative to compare.json, so that the folder can be moved */
  atvi_io_json_put(w, "folder", atvi_io_json_word(w->pool, m->method));
  if (s) {
    atvi_io_json_put(w, "verdict", json_string(atvi_verdict_name(s->verdict)));
    atvi_io_fields_json(w, &atvi_diag_headline_fields, &m->fit, NULL);
    put_columns(w, "parameters", m, 0, s->n_param);
    put_columns(w, "derived", m, s->n_param, s->n_col);
    atvi_diag_scores_put(w, "fitted", m->n_series, m->fitted, m->fitted ? &m->fitted[m->n_series] : NULL);
    atvi_diag_scores_put(w, "held_out", m->n_series, m->held, m->held ? &m->held[m->n_series] : NULL);
    atvi_io_json_put(w, "unscored", atvi_io_json_word(w->pool, m->unscored));
  }
  atvi_io_json_end(w);
}

atvi_status atvi_app_compare_json(atvi_pool *pool, const atvi_comparison *c, const char **text) {
  const char *reference = c->reference < 0 ? NULL : c->of[c->reference].method;
  atvi_json w = {.pool = pool};
  atvi_io_json_object(&w, NULL);
  atvi_io_json_put(&w, "version", json_string(ATVI_VERSION));
  atvi_io_json_put(&w, "model", atvi_io_json_word(pool, c->model));
  atvi_io_json_put(&w, "seed", atvi_io_json_seed(pool, c->seed));
  atvi_io_json_put(&w, "holdout", atvi_io_json_word(pool, c->holdout));
  atvi_io_json_put(&w, "times_shared", json_boolean(c->shared));
  atvi_io_json_put(&w, "reference", atvi_io_json_word(pool, reference));
  atvi_io_json_put(&w, "reference_because", atvi_io_json_word(pool, reference ? c->because : NULL));
  atvi_io_json_list(&w, "methods");
  for (atvi_idx i = 0; i < c->n; i++) put_method(&w, &c->of[i]);
  atvi_io_json_end(&w);
  return atvi_io_json_get(&w, "compare", text);
}

/* Reads the folders of the methods: summaries, scores, and the distance of every marginal to that of the
 * reference. */

/* ---- scores.json ---- */

/* NULL if there are none. */
static atvi_score *scores(atvi_pool *pool, const json_t *o, atvi_idx *n) {
  const json_t *series = json_object_get(o, "series");
  *n = (atvi_idx)json_array_size(series);
  atvi_score *out = json_is_object(o) ? atvi_pool_take(pool, (size_t)*n + 1, sizeof *out) : NULL;
  for (atvi_idx i = 0; out && i < *n; i++)
    atvi_io_fields_read(pool, &atvi_diag_score_fields, json_array_get(series, (size_t)i), &out[i]);
  if (out) atvi_io_fields_read(pool, &atvi_diag_score_fields, json_object_get(o, "all"), &out[*n]);
  return out;
}

static atvi_status read_scores(atvi_pool *pool, atvi_compared *m) {
  const char *path = atvi_pool_printf(pool, "%s/scores.json", m->dir);
  if (!path) return ATVI_ENOMEM;
  json_t *root = json_load_file(path, 0, NULL);
  if (!root) {
    m->unscored = atvi_pool_printf(pool, "cannot read %s", path);
    return m->unscored ? ATVI_OK : ATVI_ENOMEM;
  }
  atvi_idx n_held;
  m->fitted = scores(pool, json_object_get(root, "fitted"), &m->n_series);
  m->held = scores(pool, json_object_get(root, "held_out"), &n_held);
  if (n_held != m->n_series) m->held = NULL;
  json_decref(root);
  return atvi_pool_status(pool);
}

/* ---- draws ---- */

static atvi_status read_method(atvi_ctx *ctx, atvi_pool *pool, atvi_compared *m) {
  atvi_status status = atvi_app_read_draws(ctx, pool, m->dir, &m->draws);
  if (status == ATVI_ENOMEM) return status;
  if (status != ATVI_OK) {
    m->state = ATVI_COMPARED_FAILED;
    m->reason = atvi_pool_printf(pool, "%s", atvi_errmsg(ctx));
    return m->reason ? ATVI_OK : ATVI_ENOMEM;
  }
  ATVI_TRY(atvi_app_advised_summary(pool, m->draws, &m->summary));
  const atvi_message *why = atvi_diag_summary_reason(m->summary);
  m->reason = why ? why->text : NULL;
  m->fit = atvi_diag_summary_headline(m->summary);
  size_t n = (size_t)m->draws->n_col + 1;
  m->distance = atvi_pool_take(pool, n, sizeof *m->distance);
  m->chance = atvi_pool_take(pool, n, sizeof *m->chance);
  m->raw = atvi_pool_take(pool, n, sizeof *m->raw);
  if (!m->distance || !m->chance || !m->raw) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < m->draws->n_col; i++) m->distance[i] = m->chance[i] = m->raw[i] = NAN;
  return m->unscored ? ATVI_OK : read_scores(pool, m);
}

/* ---- the reference ---- */

static atvi_idx find(const atvi_comparison *c, const char *name, bool ok) {
  for (atvi_idx i = 0; i < c->n; i++)
    if (c->of[i].summary && strcmp(c->of[i].method, name) == 0 &&
        (!ok || c->of[i].summary->verdict == ATVI_VERDICT_OK))
      return i;
  return -1;
}

static void choose(atvi_comparison *c, const char *wanted, atvi_pool *pool) {
  const atvi_method *m;
  char list[ATVI_METHODS_TEXT];
  c->reference = wanted ? find(c, wanted, false) : -1;
  c->because = "as asked for";
  if (wanted) return;
  c->because = "exact in the limit and with verdict ok";
  for (int i = 0; (m = atvi_infer_method_at(ATVI_METHOD_EXACT, i)); i++) {
    atvi_idx found = find(c, m->name, true);
    if (found >= 0) c->reference = found;
  }
  if (c->reference >= 0) return;
  c->because = atvi_pool_printf(pool, "because no %s has verdict ok",
                                atvi_infer_methods_text(ATVI_METHOD_EXACT, " or ", list));
  c->reference = find(c, atvi_fit_defaults().method, false);
  for (atvi_idx i = 0; i < c->n && c->reference < 0; i++)
    if (c->of[i].summary) c->reference = i;
}

/* ---- distances ---- */

/* A column in ascending order with its weights, in scratch. */
typedef struct {
  double *x, *w, *work; /* [n], [n], [2 n] */
  bool weighted;
  atvi_idx n;
} marginal;

static atvi_status marginal_new(atvi_ctx *ctx, const atvi_draws *d, marginal *out) {
  *out = (marginal){.n = d->n, .weighted = atvi_diag_weights_hold(d)};
  out->x = atvi_block(ctx, 4 * (size_t)d->n * sizeof(double));
  if (!out->x) return ATVI_ENOMEM;
  out->w = out->x + d->n;
  out->work = out->w + d->n;
  return ATVI_OK;
}

static void marginal_load(marginal *m, const atvi_draws *d, atvi_idx column) {
  memcpy(m->x, d->x + column * d->n, (size_t)d->n * sizeof(double));
  if (m->weighted) memcpy(m->w, d->weight, (size_t)d->n * sizeof(double));
  atvi_math_sort(m->n, m->x, m->weighted ? m->w : NULL, m->work);
}

/* Effective number of independent draws in the column. Draws of an approximation whose weights are refused
 * are independent. */
static double worth(const atvi_compared *m, atvi_idx column) {
  double ess = m->summary->col[column].ess_bulk;
  return ess > 0 ? ess : (double)m->draws->n;
}

static const double *weights(const marginal *m) { return m->weighted ? m->w : NULL; }

/* m may be the reference itself: then only the effect of its weights. */
static void one_distance(const atvi_compared *r, const marginal *to, atvi_compared *m, const marginal *from,
                         atvi_idx column) {
  const double two_over_pi = 0.63661977236758134;
  double sd = r->summary->col[column].sd;
  if (!(sd > 0)) return;
  if (from->weighted)
    m->raw[column] = atvi_math_wasserstein(from->n, from->x, NULL, to->n, to->x, weights(to)) / sd;
  if (m == r) return;
  m->distance[column] =
      atvi_math_wasserstein(from->n, from->x, weights(from), to->n, to->x, weights(to)) / sd;
  m->chance[column] = sqrt(two_over_pi * (1 / worth(r, column) + 1 / worth(m, column))) *
                      atvi_math_cdf_spread(to->n, to->x, weights(to)) / sd;
}

static atvi_status distances(atvi_ctx *ctx, const atvi_compared *r, atvi_compared *m) {
  marginal to, from;
  ATVI_TRY(marginal_new(ctx, r->draws, &to));
  atvi_status status = marginal_new(ctx, m->draws, &from);
  bool same = m->draws->n_col == r->draws->n_col;
  for (atvi_idx i = 0; status == ATVI_OK && same && i < r->draws->n_col; i++) {
    marginal_load(&to, r->draws, i);
    marginal_load(&from, m->draws, i);
    one_distance(r, &to, m, &from, i);
  }
  atvi_block_free(ctx, to.x);
  atvi_block_free(ctx, from.x);
  return status;
}

atvi_status atvi_app_compare_read(atvi_ctx *ctx, atvi_pool *pool, const char *wanted, atvi_comparison *c) {
  for (atvi_idx i = 0; i < c->n; i++) {
    atvi_compared *m = &c->of[i];
    m->fit.rhat = m->fit.ess = NAN;
    bool wrote = m->state == ATVI_COMPARED_DONE || (m->state == ATVI_COMPARED_STOPPED && !m->reason);
    if (wrote) ATVI_TRY(read_method(ctx, pool, m));
  }
  choose(c, wanted, pool);
  for (atvi_idx i = 0; c->reference >= 0 && i < c->n; i++)
    if (c->of[i].draws) ATVI_TRY(distances(ctx, &c->of[c->reference], &c->of[i]));
  return ATVI_OK;
}

void atvi_app_compare_free(atvi_comparison *c) {
  for (atvi_idx i = 0; i < c->n; i++) {
    atvi_draws_free(c->of[i].draws);
    c->of[i].draws = NULL;
  }
}
