/* SPDX-License-Identifier: MIT */
/* The comparison for a terminal: methods as columns, within 100 columns. */
#include "app/compare.h"
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
    bool told = m->state != ATVI_COMPARED_DONE;
    if (told || m->reason)
      tell(b,
           atvi_pool_printf(b->t.pool, "%s: %s%s", m->method,
                            told ? atvi_app_compared_word(m) : atvi_verdict_name(m->summary->verdict),
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
