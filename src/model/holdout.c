/* SPDX-License-Identifier: MIT */
#include "model/model.h"
#include "io/text.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef enum { LT, LE, GT, GE, EQ, NE, N_OP } op;
static const char *const OP[N_OP] = {"<", "<=", ">", ">=", "==", "!="};
static const char HOW[] = "a rule is a comparison such as t > 14, row > 100, row % 5 == 0, a column's name "
                          ">= 3 or a column's name == word; several are joined by 'and'";
static const char HOW_TIMELESS[] = "a rule is a comparison such as row > 100, row % 5 == 0, a column's name "
                                   ">= 3 or a column's name == word; several are joined by 'and'";

typedef struct {
  atvi_pool *pool;
  atvi_ctx *ctx;
  const atvi_lang *lang;
  const char *rule, *at;
  bool **held;
} reader;

/* One comparison. */
typedef struct {
  char *name;
  const char *name_at;
  double modulus; /* NaN: none */
  op how;
  double than;
  const char *word; /* instead of `than`: what the cell says; NULL: none */
} comparison;

static atvi_status wrong(const reader *r, const char *at, const char *what, const char *hint) {
  char shown[ATVI_EXCERPT_BYTES];
  int column = (int)(at - r->rule) + 1;
  atvi_io_excerpt(r->rule, strlen(r->rule), 1, column, false, shown);
  return ATVI_FAIL(r->ctx, ATVI_EINVAL, "the holdout rule, column %d: %s\n%s\nhint: %s", column, what, shown,
                   hint);
}

static bool timed(const reader *r) {
  for (atvi_idx k = 0; k < r->lang->n_data; k++)
    if (r->lang->data[k].time) return true;
  return false;
}

static const char *how(const reader *r) { return timed(r) ? HOW : HOW_TIMELESS; }

static void blanks(reader *r) { r->at += strspn(r->at, " \t"); }

static bool word_char(char c) { return isalnum((unsigned char)c) || c == '_' || c == '.' || (c & 0x80); }

static atvi_status read_name(reader *r, comparison *c) {
  size_t n = 0;
  blanks(r);
  c->name_at = r->at;
  if (*r->at == '"') {
    n = strcspn(++r->at, "\"");
    if (!r->at[n]) return wrong(r, c->name_at, "the quote is not closed", how(r));
    c->name = atvi_pool_strndup(r->pool, r->at, n);
    r->at += n + 1;
  } else {
    while (word_char(r->at[n])) n++;
    if (n == 0)
      return wrong(r, r->at,
                   timed(r) ? "expected a name: t, row or a column of the data"
                            : "expected a name: row or a column of the data",
                   how(r));
    c->name = atvi_pool_strndup(r->pool, r->at, n);
    r->at += n;
  }
  return c->name ? ATVI_OK : ATVI_ENOMEM;
}

static atvi_status read_op(reader *r, comparison *c) {
  blanks(r);
  for (int two = 1; two >= 0; two--) /* the longer ones first */
    for (op k = LT; k < N_OP; k++) {
      size_t n = strlen(OP[k]);
      if ((n == 2) != two || strncmp(r->at, OP[k], n) != 0) continue;
      c->how = k;
      r->at += n;
      return ATVI_OK;
    }
  return wrong(r, r->at,
               *r->at == '=' ? "equality is written ==" : "expected one of < <= > >= == !=", how(r));
}

static atvi_status read_number(reader *r, double *out) {
  int64_t days;
  blanks(r);
  size_t n = strcspn(r->at, " \t<>=!%");
  if (atvi_io_parse_number(r->at, n, out)) {
    r->at += n;
    return ATVI_OK;
  }
  if (!atvi_io_parse_date(r->at, n, &days)) return wrong(r, r->at, "expected a number", how(r));
  if (!r->lang->time.calendar.unit)
    return wrong(r, r->at, "the model has no calendar to understand dates by",
                 "give the time as the model has it, or say in the model what date t = 0 is");
  *out = atvi_io_calendar_time(r->lang->time.calendar, (double)days);
  r->at += n;
  return ATVI_OK;
}

/* What == and != may compare with besides numbers: a word, or anything in quotes. */
static atvi_status read_word(reader *r, comparison *c, bool *is) {
  double number;
  int64_t days;
  blanks(r);
  const bool quoted = *r->at == '"';
  const char *from = r->at + quoted;
  size_t n = quoted ? strcspn(from, "\"") : 0;
  while (!quoted && (word_char(from[n]) || from[n] == '-' || from[n] == '/')) n++;
  *is = quoted || (n > 0 && !atvi_io_parse_number(from, n, &number) && !atvi_io_parse_date(from, n, &days));
  if (!*is) return ATVI_OK;
  if ((c->how != EQ && c->how != NE) || !isnan(c->modulus))
    return wrong(r, r->at, "expected a number: words are compared by == and !=", how(r));
  if (quoted && !from[n]) return wrong(r, r->at, "the quote is not closed", how(r));
  c->word = atvi_pool_strndup(r->pool, from, n);
  r->at = from + n + quoted;
  return c->word ? ATVI_OK : ATVI_ENOMEM;
}

static atvi_status read_comparison(reader *r, comparison *c) {
  c->modulus = NAN;
  c->word = NULL;
  ATVI_TRY(read_name(r, c));
  blanks(r);
  if (*r->at == '%') {
    r->at++;
    const char *at = r->at;
    ATVI_TRY(read_number(r, &c->modulus));
    if (!(c->modulus > 0)) return wrong(r, at, "what follows % must be above 0", how(r));
  }
  ATVI_TRY(read_op(r, c));
  bool is;
  ATVI_TRY(read_word(r, c, &is));
  return is ? ATVI_OK : read_number(r, &c->than);
}

/* ---- what a name means in one data set ---- */

enum { NOTHING = -1, TIME = -2, ROW = -3 }; /* else a column */

static atvi_idx meaning(const atvi_lang_data *d, const char *name) {
  atvi_idx column = d->csv ? atvi_io_csv_find(d->csv, name) : -1;
  size_t n = strlen(d->name);
  if (column >= 0) return column;
  if (strcmp(name, "row") == 0) return ROW;
  if (strcmp(name, "t") == 0 && d->time) return TIME;
  if (n && strncmp(name, d->name, n) == 0 && name[n] == '.') {
    atvi_lang_data only = *d;
    only.name = "";
    return meaning(&only, name + n + 1);
  }
  return NOTHING;
}

static double value(const atvi_lang_data *d, atvi_idx what, atvi_idx row) {
  if (what == ROW) return (double)(row + 1);
  return what == TIME ? d->time[row] : d->value[row * d->n_col + what];
}

static bool holds(const comparison *c, const atvi_lang_data *d, atvi_idx what, atvi_idx row) {
  if (c->word) {
    if (what < 0 || !d->csv || row >= d->csv->n_row) return false;
    atvi_idx cell = row * d->csv->n_col + what;
    return d->csv->kind[cell] != ATVI_CELL_MISSING &&
           (strcmp(d->csv->text[cell], c->word) == 0) == (c->how == EQ);
  }
  double x = value(d, what, row);
  if (isnan(x)) return false;
  if (c->modulus > 0) x -= c->modulus * floor(x / c->modulus);
  switch (c->how) {
  case LT: return x < c->than;
  case LE: return x <= c->than;
  case GT: return x > c->than;
  case GE: return x >= c->than;
  case EQ: return x == c->than;
  default: return x != c->than;
  }
}

static atvi_status unknown(const reader *r, const comparison *c) {
  char what[200], there[400] = "";
  snprintf(what, sizeof what, "no data file has a column '%.60s'", c->name);
  for (atvi_idx k = 0; k < r->lang->n_data; k++) /* units have parts of one file */
    for (atvi_idx j = 0; (!k || r->lang->data[k].file != r->lang->data[k - 1].file) && r->lang->data[k].csv &&
                         j < r->lang->data[k].csv->n_col;
         j++) {
      size_t n = strlen(there);
      if (n > sizeof there - 80) break;
      snprintf(there + n, sizeof there - n, ", %.60s", r->lang->data[k].csv->name[j]);
    }
  const char *hint = atvi_pool_printf(
      r->pool, timed(r) ? "there are t (the time), row (its number)%s" : "there are row (its number)%s",
      there);
  return hint ? wrong(r, c->name_at, what, hint) : ATVI_ENOMEM;
}

/* Clears held where the comparison fails. */
static atvi_status narrow(const reader *r, const comparison *c) {
  bool known = false;
  for (atvi_idx k = 0; k < r->lang->n_data; k++) {
    const atvi_lang_data *d = &r->lang->data[k];
    atvi_idx what = meaning(d, c->name);
    known = known || what != NOTHING;
    for (atvi_idx i = 0; i < d->n_row; i++)
      if (what == NOTHING || !holds(c, d, what, i)) r->held[k][i] = false;
  }
  return known ? ATVI_OK : unknown(r, c);
}

/* ---- the whole ---- */

static atvi_status take_rows(reader *r) {
  r->held = atvi_pool_take(r->pool, (size_t)r->lang->n_data + 1, sizeof *r->held);
  for (atvi_idx k = 0; r->held && k < r->lang->n_data; k++) {
    atvi_idx n = r->lang->data[k].n_row;
    r->held[k] = atvi_pool_take(r->pool, (size_t)n + 1, sizeof **r->held);
    if (!r->held[k]) return ATVI_ENOMEM;
    for (atvi_idx i = 0; i < n; i++) r->held[k][i] = true;
  }
  return r->held ? ATVI_OK : ATVI_ENOMEM;
}

static atvi_status read_rule(reader *r) {
  for (;;) {
    comparison c;
    ATVI_TRY(read_comparison(r, &c));
    ATVI_TRY(narrow(r, &c));
    blanks(r);
    if (!*r->at) return ATVI_OK;
    if (strncmp(r->at, "and", 3) != 0 || !strchr(" \t\"", r->at[3]))
      return wrong(r, r->at, "the rule should end here, or go on with 'and'", how(r));
    r->at += 3;
  }
}

static bool observed(const atvi_lang *lang, const atvi_lang_observe *o, atvi_idx row) {
  const atvi_lang_data *d = &lang->data[o->data];
  return o->column >= 0 && !isnan(d->value[row * d->n_col + o->column]);
}

atvi_status atvi_model_holdout_find(atvi_pool *pool, const atvi_lang *lang, const char *rule,
                                    atvi_holdout *out) {
  reader r = {.pool = pool, .ctx = atvi_pool_ctx(pool), .lang = lang, .rule = rule, .at = rule};
  *out = (atvi_holdout){0};
  ATVI_TRY(take_rows(&r));
  ATVI_TRY(read_rule(&r));
  atvi_idx held = 0, left = 0;
  for (atvi_idx o = 0; o < lang->n_observe; o++)
    for (atvi_idx i = 0; i < lang->data[lang->observe[o].data].n_row; i++) {
      if (!observed(lang, &lang->observe[o], i)) continue;
      held += r.held[lang->observe[o].data][i];
      left += !r.held[lang->observe[o].data][i];
    }
  if (held == 0)
    return ATVI_FAIL(r.ctx, ATVI_EINVAL, "the holdout rule '%s' selects none of the %td observations", rule,
                     left);
  if (left == 0)
    return ATVI_FAIL(r.ctx, ATVI_EINVAL,
                     "the holdout rule '%s' selects all %td observations; no data are left to fit", rule,
                     held);
  *out = (atvi_holdout){r.held, held, left};
  return ATVI_OK;
}

bool atvi_model_observed_exactly(const atvi_lang *lang, const atvi_lang_observe *o, atvi_idx row) {
  const atvi_lang_data *d = &lang->data[o->data];
  if (!observed(lang, o, row)) return false;
  double x = d->value[row * d->n_col + o->column];
  bool number = !d->csv || d->csv->kind[row * d->csv->n_col + o->column] == ATVI_CELL_NUMBER;
  return number && x > o->limit_lower && x < o->limit_upper;
}

atvi_status atvi_model_holdout_apply(atvi_pool *pool, atvi_lang *lang, const atvi_holdout *h) {
  for (atvi_idx k = 0; k < lang->n_data; k++) {
    atvi_lang_data *d = &lang->data[k];
    double *v = atvi_pool_take(pool, (size_t)(d->n_row * d->n_col + 1), sizeof *v);
    if (!v) return ATVI_ENOMEM;
    if (d->n_row > 0) memcpy(v, d->value, (size_t)(d->n_row * d->n_col) * sizeof *v);
    for (atvi_idx o = 0; o < lang->n_observe; o++) {
      atvi_lang_observe *obs = &lang->observe[o];
      for (atvi_idx i = 0; obs->data == k && i < d->n_row; i++) {
        if (!h->held[k][i] || !observed(lang, obs, i)) continue;
        v[i * d->n_col + obs->column] = NAN;
        obs->n_missing++;
        obs->n_censored -= !atvi_model_observed_exactly(lang, obs, i);
      }
    }
    d->value = v;
  }
  return ATVI_OK;
}
