/* SPDX-License-Identifier: MIT */
/* Statements. Each begins with a word and ends with its line. */
#include "lang/ast.h"
#include <stdio.h>
#include <string.h>

/* The name a statement defines. */
static bool define(ast_parser *p, ast_stmt *st) {
  st->at = p->tok->at;
  st->name = p->tok->word;
  return !atvi_lang_reserved(p, p->tok) && atvi_lang_expect(p, TOK_NAME, "names begin with a letter");
}

static bool dims(ast_parser *p, ast_stmt *st) {
  if (p->tok->kind != '[') return true;
  p->tok++;
  return atvi_lang_dims(p, &st->n_dim, st->dim, ']');
}

static bool value(ast_parser *p, ast_stmt *st) {
  if (!atvi_lang_expect(p, '=', NULL)) return false;
  st->value = atvi_lang_expr(p);
  return st->value != NULL;
}

static bool define_array(ast_parser *p, ast_stmt *st) {
  if (!define(p, st) || !dims(p, st)) return false;
  if (p->tok->kind != '~') return value(p, st);
  const char *name = st->name->text,
             *hint = "a prior belongs to 'param', a distribution of data to 'observe'";
  if (st->kind == KW_STATE)
    hint = atvi_pool_printf(p->s->pool,
                            "make it a parameter: param %.60s0 ~ ..., and then: state %.60s = %.60s0", name,
                            name, name);
  if (!hint) return atvi_lang_nomem(p->s), false;
  atvi_lang_error(p->s, p->tok->at, hint, "'%.60s' has a value here, not a distribution", name);
  return false;
}

static bool quoted(ast_parser *p, const char **text, atvi_place *at, const char *hint) {
  *at = p->tok->at;
  *text = p->tok->text;
  return atvi_lang_expect(p, TOK_STRING, hint);
}

static bool file_name(ast_parser *p, ast_stmt *st) {
  return quoted(p, &st->file.name, &st->file.at, "the name of a file, in quotes: \"cases.csv\"");
}

/* The name of a column: a name, or text in quotes, or a number for files without a header. */
static const char *column_name(ast_parser *p, atvi_place *at) {
  const ast_token *t = p->tok;
  *at = t->at;
  const char *text = NULL;
  if (t->kind == TOK_NAME) text = t->word->text;
  if (t->kind == TOK_STRING) text = t->text;
  if (t->kind == TOK_NUMBER && !(text = atvi_pool_printf(p->s->pool, "%.10g", t->number)))
    atvi_lang_nomem(p->s);
  if (!text) {
    atvi_lang_error(p->s, *at, "names with spaces go in quotes", "expected the name of a column, found %s",
                    atvi_lang_token_text(p, t));
    return NULL;
  }
  p->tok++;
  return text;
}

/* (lower, upper) */
static bool range(ast_parser *p, ast_stmt *st) {
  st->range.given = true;
  st->range.at = p->tok->at;
  if (!atvi_lang_expect(p, '(', "two ends in brackets: (0, inf)") || !(st->range.lower = atvi_lang_expr(p)) ||
      !atvi_lang_expect(p, ',', "two ends in brackets: (0, inf)"))
    return false;
  st->range.upper = atvi_lang_expr(p);
  return st->range.upper && atvi_lang_expect(p, ')', "two ends in brackets: (0, inf)");
}

static bool distribution(ast_parser *p, ast_stmt *st) {
  st->dist.at = p->tok->at;
  st->dist.name = p->tok->word;
  if (!atvi_lang_expect(p, TOK_NAME, "a distribution and its arguments: normal(0, 1)")) return false;
  st->dist.args = atvi_lang_expr_args(p, st->dist.name, st->dist.at);
  return st->dist.args != NULL;
}

/* A sum of processes, or a distribution. */
static bool processes(ast_parser *p, ast_stmt *st) {
  const char *hint = "processes are added up: emulator(flow) + exponential(v, l) + white(s2)";
  atvi_idx cap = 0;
  if (!distribution(p, st)) return false;
  bool rate = strcmp(st->dist.name->text, "exponential") == 0 && st->dist.args->n == 1; /* the distribution */
  if (p->tok->kind != '+' && (rate || atvi_lang_process(st->dist.name->text) < 0)) return true;
  for (ast_expr *call = st->dist.args;;) {
    if (!ATVI_PUSH(p->s->pool, st->dist.term, st->dist.n_term, cap)) return atvi_lang_nomem(p->s), false;
    st->dist.term[st->dist.n_term++] = call;
    if (p->tok->kind == '-' || p->tok->kind == '*' || p->tok->kind == '/') {
      atvi_lang_error(p->s, p->tok->at, hint, "unexpected %s", atvi_lang_token_text(p, p->tok));
      return false;
    }
    if (p->tok->kind != '+') return true;
    const ast_token *name = ++p->tok;
    if (name->kind != TOK_NAME || name[1].kind != '(') {
      atvi_lang_error(p->s, name->at, hint, "expected a process and its arguments, found %s",
                      atvi_lang_token_text(p, name));
      return false;
    }
    p->tok++;
    if (!(call = atvi_lang_expr_args(p, name->word, name->at))) return false;
  }
}

static bool parse_model(ast_parser *p, ast_stmt *st) {
  st->file.name = p->tok->text;
  return atvi_lang_expect(p, TOK_STRING, "a title in quotes: model \"Common cold\"");
}

/* Names separated by commas. */
static bool word_list(ast_parser *p, ast_stmt *st, bool strings) {
  atvi_idx cap = 0;
  for (;; p->tok++) {
    bool ok = p->tok->kind == TOK_NAME || (strings && p->tok->kind == TOK_STRING);
    if (!ok) return atvi_lang_expect(p, TOK_NAME, NULL);
    if (!ATVI_PUSH(p->s->pool, st->words.token, st->words.n, cap)) {
      atvi_lang_nomem(p->s);
      return false;
    }
    st->words.token[st->words.n++] = *p->tok++;
    if (p->tok->kind != ',') return true;
  }
}

static bool reserved_in(ast_parser *p, const ast_stmt *st) {
  for (atvi_idx i = 0; i < st->words.n; i++)
    if (atvi_lang_reserved(p, &st->words.token[i])) return true;
  return false;
}

static bool parse_index(ast_parser *p, ast_stmt *st) {
  if (!define(p, st) || !atvi_lang_expect(p, '=', NULL)) return false;
  bool labels = p->tok->kind == TOK_NAME && (p->tok[1].kind == ',' || p->tok[1].kind == TOK_LINE);
  if (labels) return word_list(p, st, false) && !reserved_in(p, st);
  st->dim[0].at = p->tok->at;
  st->dim[0].lo = atvi_lang_expr_sum(p);
  if (!st->dim[0].lo) return false;
  if (!atvi_lang_expect(p, TOK_RANGE, "for example: index age = 1..6, or index place = north, south"))
    return false;
  st->dim[0].hi = atvi_lang_expr_sum(p);
  return st->dim[0].hi != NULL;
}

static bool parse_columns(ast_parser *p, ast_stmt *st) {
  st->column.at = p->tok->at;
  bool name = p->tok->kind == TOK_NAME && p->tok[1].kind != TOK_RANGE;
  if (name || p->tok->kind == TOK_STRING) return word_list(p, st, true);
  if (!(st->column.first = atvi_lang_expr_sum(p))) return false;
  if (p->tok->kind != TOK_RANGE) return true;
  p->tok++;
  st->column.last = atvi_lang_expr_sum(p);
  return st->column.last != NULL;
}

static bool parse_const(ast_parser *p, ast_stmt *st) {
  if (!define(p, st) || !dims(p, st)) return false;
  if (!atvi_lang_eat(p, "from")) return value(p, st);
  if (!file_name(p, st)) return false;
  return (!atvi_lang_eat(p, "columns") && !atvi_lang_eat(p, "column")) || parse_columns(p, st);
}

/* `flat`, or `flat()` */
static bool flat(ast_parser *p, ast_stmt *st) {
  if (p->tok->kind != TOK_NAME || strcmp(p->tok->word->text, "flat") != 0) return false;
  st->flat = true;
  st->dist.at = p->tok++->at;
  if (p->tok[0].kind == '(' && p->tok[1].kind == ')') p->tok += 2;
  return true;
}

static bool parse_param(ast_parser *p, ast_stmt *st) {
  if (!define(p, st) || !dims(p, st)) return false;
  if (p->tok->kind == '~') {
    p->tok++;
    if (!flat(p, st) && !distribution(p, st)) return false;
  }
  if (atvi_lang_eat(p, "in") && !range(p, st)) return false;
  if (atvi_lang_eat(p, "map")) {
    st->option = p->tok->word;
    st->column.time_at = p->tok->at;
    if (!atvi_lang_expect(p, TOK_NAME, "one of auto, surjection, probit, logit, log, none")) return false;
  }
  if (st->dist.args || st->range.given || st->flat) return true;
  if (p->tok->kind == '=')
    atvi_lang_error(p->s, p->tok->at, "a fixed number is a 'const'", "a parameter has a prior, not a value");
  else
    atvi_lang_error(
        p->s, st->at,
        "for example: param x ~ normal(0, 1), or param x in (0, 1); without a prior: param x ~ flat",
        "parameter '%s' has no prior", st->name->text);
  return false;
}

static bool parse_function(ast_parser *p, ast_stmt *st) {
  if (!define(p, st) || !atvi_lang_expect(p, '(', "for example: function f(x, y) = x + y")) return false;
  if (p->tok->kind != ')' && (!word_list(p, st, false) || reserved_in(p, st))) return false;
  for (atvi_idx i = 0; i < st->words.n; i++)
    for (atvi_idx j = 0; j < i; j++)
      if (st->words.token[i].word == st->words.token[j].word) {
        atvi_lang_error(p->s, st->words.token[i].at, "give every argument its own name",
                        "two arguments are called '%s'", st->words.token[i].word->text);
        return false;
      }
  if (st->words.n > 20) {
    atvi_lang_error(p->s, st->at, "hand over whole arrays", "a function has at most 20 arguments");
    return false;
  }
  return atvi_lang_expect(p, ')', NULL) && value(p, st);
}

static bool parse_expr_only(ast_parser *p, ast_stmt *st) {
  st->at = p->tok->at;
  st->value = atvi_lang_expr(p);
  return st->value != NULL;
}

/* with dose = 0, temperature = 20 */
static bool parse_given(ast_parser *p, ast_stmt *st) {
  const char *hint = "names and what they are before the start: start steady with dose = 0";
  atvi_place at = p->tok->at;
  ast_expr **x = NULL;
  atvi_idx cap = 0, cap_x = 0;
  for (;; p->tok++) {
    if (!ATVI_PUSH(p->s->pool, st->words.token, st->words.n, cap) ||
        !ATVI_PUSH(p->s->pool, x, st->words.n, cap_x))
      return atvi_lang_nomem(p->s), false;
    st->words.token[st->words.n] = *p->tok;
    if (!atvi_lang_expect(p, TOK_NAME, hint) || !atvi_lang_expect(p, '=', hint) ||
        !(x[st->words.n++] = atvi_lang_expr(p)))
      return false;
    if (p->tok->kind != ',') break;
  }
  return (st->start.given = atvi_lang_expr_list(p, at, st->words.n, x)) != NULL;
}

/* start 0, start steady, start 0 steady, start steady with dose = 0 */
static bool parse_start(ast_parser *p, ast_stmt *st) {
  st->at = p->tok->at;
  st->start.steady = atvi_lang_eat(p, "steady");
  if (!st->start.steady) {
    if (!parse_expr_only(p, st)) return false;
    st->start.steady = atvi_lang_eat(p, "steady");
  }
  return !st->start.steady || !atvi_lang_eat(p, "with") || parse_given(p, st);
}

static bool parse_calendar(ast_parser *p, ast_stmt *st) {
  const char *hint = "the date of t = 0 and the unit of time: calendar 2009-12-19 week";
  st->date = p->tok->number;
  st->at = p->tok->at;
  if (!atvi_lang_expect(p, TOK_DATE, hint)) return false;
  st->column.time_at = p->tok->at;
  st->option = p->tok->word;
  return atvi_lang_expect(p, TOK_NAME, hint);
}

/* [time: value, ...] into two lists. */
static bool knots(ast_parser *p, ast_stmt *st) {
  atvi_place at = p->tok->at;
  ast_expr **t = NULL, **v = NULL;
  atvi_idx n = 0, cap_t = 0, cap_v = 0;
  if (!atvi_lang_expect(p, '[', "times and values: [0: 1, 10: 0.4]")) return false;
  while (p->tok->kind != ']') {
    if (!ATVI_PUSH(p->s->pool, t, n, cap_t) || !ATVI_PUSH(p->s->pool, v, n, cap_v)) {
      atvi_lang_nomem(p->s);
      return false;
    }
    t[n] = atvi_lang_expr(p);
    if (!t[n] || !atvi_lang_expect(p, ':', "times and values: [0: 1, 10: 0.4]")) return false;
    v[n] = atvi_lang_expr(p);
    if (!v[n++]) return false;
    if (p->tok->kind != ',') break;
    p->tok++;
  }
  if (!atvi_lang_expect(p, ']', "separate the parts with commas")) return false;
  st->times = atvi_lang_expr_list(p, at, n, t);
  st->value = atvi_lang_expr_list(p, at, n, v);
  return st->times && st->value;
}

static bool parse_table(ast_parser *p, ast_stmt *st) {
  if (!define(p, st)) return false;
  st->option = p->tok->word;
  atvi_place at = p->tok->at;
  bool monthly = atvi_lang_at(p, "monthly");
  if (!monthly && !atvi_lang_at(p, "step") && !atvi_lang_at(p, "linear") && !atvi_lang_at(p, "spline")) {
    atvi_lang_error(p->s, at, "for example: table k step = [0: 1, 10: 0.4]",
                    "a table is 'step', 'linear', 'spline' or 'monthly', not %s",
                    atvi_lang_token_text(p, p->tok));
    return false;
  }
  p->tok++;
  if (!monthly && atvi_lang_eat(p, "from")) {
    const char *hint = "for example: from \"weather.csv\" time day column temperature";
    if (!file_name(p, st)) return false;
    if (!atvi_lang_eat(p, "time")) return atvi_lang_error(p->s, p->tok->at, hint, "expected 'time'"), false;
    if (!(st->column.time = column_name(p, &st->column.time_at))) return false;
    if (!atvi_lang_eat(p, "column"))
      return atvi_lang_error(p->s, p->tok->at, hint, "expected 'column'"), false;
    return (st->column.value = column_name(p, &st->column.at)) != NULL;
  }
  if (monthly) return value(p, st);
  return atvi_lang_expect(p, '=', NULL) && knots(p, st);
}

/* walk logR weekly [from a] [to b] ~ normal(0, s) from normal(0, 1) [linear]; every 7 or at [0, 10, 30] in
 * place of weekly */
static bool parse_walk(ast_parser *p, ast_stmt *st) {
  const char *hint = "for example: walk logR weekly ~ normal(0, s) from normal(0, 1)";
  if (!define(p, st)) return false;
  bool at = atvi_lang_eat(p, "at"), every = !at && atvi_lang_eat(p, "every");
  if (!at && !every) {
    bool known = atvi_lang_at(p, "weekly") || atvi_lang_at(p, "daily") || atvi_lang_at(p, "monthly");
    if (!known)
      return atvi_lang_error(p->s, p->tok->at, hint,
                             "a walk is 'daily', 'weekly', 'monthly', 'every' or 'at', not %s",
                             atvi_lang_token_text(p, p->tok)),
             false;
    st->option = (p->tok++)->word;
  }
  if (every && !(st->step = atvi_lang_expr_sum(p))) return false;
  if (at) {
    if (p->tok->kind != '[') return atvi_lang_expect(p, '[', "times in brackets: at [0, 10, 30]");
    if (!(st->times = atvi_lang_expr(p))) return false;
    if (st->times->kind != EX_LIST)
      return atvi_lang_error(p->s, st->times->at, "times in brackets: at [0, 10, 30]",
                             "expected a list of times"),
             false;
  }
  if (!at && atvi_lang_eat(p, "from") && !(st->range.lower = atvi_lang_expr_sum(p))) return false;
  if (!at && atvi_lang_eat(p, "to") && !(st->range.upper = atvi_lang_expr_sum(p))) return false;
  if (!atvi_lang_expect(p, '~', hint) || !distribution(p, st)) return false;
  if (!atvi_lang_eat(p, "from"))
    return atvi_lang_error(p->s, p->tok->at, hint,
                           "expected 'from' and the prior of the first value, found %s",
                           atvi_lang_token_text(p, p->tok)),
           false;
  ast_stmt first = {0};
  if (!distribution(p, &first)) return false;
  st->walk.dist = first.dist.name;
  st->walk.args = first.dist.args;
  st->walk.at = first.dist.at;
  st->walk.linear = atvi_lang_eat(p, "linear");
  if (!st->walk.linear) atvi_lang_eat(p, "step");
  return true;
}

/* every 24 from 0 to 240 */
static bool parse_every(ast_parser *p, ast_stmt *st) {
  const char *hint = "for example: at every 24 from 0 to 240";
  st->range.at = p->tok->at;
  if (!(st->step = atvi_lang_expr_sum(p))) return false;
  if (!atvi_lang_eat(p, "from")) return atvi_lang_error(p->s, p->tok->at, hint, "expected 'from'"), false;
  if (!(st->range.lower = atvi_lang_expr_sum(p))) return false;
  if (!atvi_lang_eat(p, "to")) return atvi_lang_error(p->s, p->tok->at, hint, "expected 'to'"), false;
  st->range.upper = atvi_lang_expr_sum(p);
  return st->range.upper != NULL;
}

static bool parse_pulse(ast_parser *p, ast_stmt *st) {
  const char *hint = "for example: pulse I += 10 at [5, 12], pulse I = 0 at 5, pulse I *= 0.5 at 5";
  if (!define(p, st) || !dims(p, st)) return false;
  switch (p->tok->kind) {
  case TOK_MINUS_EQ: st->pulse.op = '-'; break;
  case TOK_TIMES_EQ: st->pulse.op = '*'; break;
  case '=': st->pulse.op = '='; break;
  default: st->pulse.op = '+'; break;
  }
  if (st->pulse.op == '+' ? !atvi_lang_expect(p, TOK_PLUS_EQ, hint) : !p->tok++) return false;
  if (!(st->value = atvi_lang_expr(p))) return false;
  if (atvi_lang_eat(p, "when")) return (st->pulse.when = atvi_lang_expr(p)) != NULL;
  if (!atvi_lang_eat(p, "at")) {
    atvi_lang_error(p->s, p->tok->at, hint, "expected 'at' or 'when', found %s",
                    atvi_lang_token_text(p, p->tok));
    return false;
  }
  if (atvi_lang_eat(p, "every")) return parse_every(p, st);
  st->times = atvi_lang_expr(p);
  if (st->times && atvi_lang_eat(p, "from") && !file_name(p, st)) return false;
  if (st->times && st->times->kind != EX_LIST) {
    ast_expr **one = atvi_lang_take(p->s, 1, sizeof *one);
    if (!one) return false;
    *one = st->times;
    st->times = atvi_lang_expr_list(p, st->times->at, 1, one);
  }
  return st->times != NULL;
}

static bool parse_data(ast_parser *p, ast_stmt *st) {
  st->at = p->tok->at;
  if (p->tok->kind == TOK_NAME && !define(p, st)) return false;
  if (!file_name(p, st)) return false;
  if (atvi_lang_eat(p, "time")) return (st->column.time = column_name(p, &st->column.time_at)) != NULL;
  return true;
}

static bool parse_observe(ast_parser *p, ast_stmt *st) {
  st->at = p->tok->at;
  if (p->tok->kind == TOK_NAME && p->tok[1].kind == '.' && p->tok[2].kind == TOK_NAME) {
    st->qualifier = p->tok->word;
    p->tok += 2;
  }
  if (p->tok->kind == TOK_STRING) {
    st->name = atvi_lang_word(p->s, p->words, p->tok->text, strlen(p->tok->text));
    p->tok++;
  } else {
    st->name = p->tok->word;
    if (!atvi_lang_expect(p, TOK_NAME, "the name of a column of the data: observe cases ~ poisson(I)"))
      return false;
  }
  if (!st->name || !dims(p, st)) return false;
  if ((atvi_lang_eat(p, "columns") || atvi_lang_eat(p, "column")) && !parse_columns(p, st)) return false;
  if (!atvi_lang_expect(p, '~', "for example: observe cases ~ poisson(I)") || !processes(p, st)) return false;
  return !atvi_lang_eat(p, "limits") || range(p, st);
}

static bool parse_solver(ast_parser *p, ast_stmt *st) {
  const char *hint = "for example: solver rk45 tol 1e-6, solver rk4 step 0.1, solver stiff";
  st->at = p->tok->at;
  st->option = p->tok->word;
  if (!atvi_lang_expect(p, TOK_NAME, hint)) return false;
  while (p->tok->kind != TOK_LINE) {
    ast_expr **slot = atvi_lang_at(p, "tol")        ? &st->solver.tol
                      : atvi_lang_at(p, "atol")     ? &st->solver.atol
                      : atvi_lang_at(p, "step")     ? &st->step
                      : atvi_lang_at(p, "maxsteps") ? &st->solver.maxsteps
                                                    : NULL;
    if (!slot || *slot) {
      atvi_lang_error(p->s, p->tok->at, "there are tol, atol, step and maxsteps, each once", "unexpected %s",
                      atvi_lang_token_text(p, p->tok));
      return false;
    }
    p->tok++;
    if (!(*slot = atvi_lang_expr_sum(p))) return false;
  }
  return true;
}

/* dS/dt = ..., dS[i in age]/dt = ... */
static bool parse_derivative(ast_parser *p, ast_stmt *st) {
  const char *name = p->tok->word->text;
  st->at = p->tok->at;
  st->name = atvi_lang_word(p->s, p->words, name + 1, strlen(name) - 1);
  p->tok++;
  if (!st->name || !dims(p, st)) return false;
  const char *hint = "an equation reads dS/dt = ..., or dS[i in age]/dt = ...";
  if (!atvi_lang_expect(p, '/', hint)) return false;
  if (!atvi_lang_eat(p, "dt")) {
    atvi_lang_error(p->s, p->tok->at, hint, "expected 'dt', found %s", atvi_lang_token_text(p, p->tok));
    return false;
  }
  return value(p, st);
}

static bool parse_folder(ast_parser *p, ast_stmt *st) {
  return quoted(p, &st->file.name, &st->at, "the name of a folder, in quotes: folder \"../data\"");
}

/* The settings of a simulator or an emulator, one per line between { and }. Their words are words only here. */

static const char *const PROCESSES[] = {[ATVI_TERM_EMULATOR] = "emulator",
                                        [ATVI_TERM_EXPONENTIAL] = "exponential",
                                        [ATVI_TERM_MATERN32] = "matern32",
                                        [ATVI_TERM_MATERN52] = "matern52",
                                        [ATVI_TERM_WHITE] = "white"};

const char *atvi_lang_process_name(int k) {
  return k >= 0 && k < (int)(sizeof PROCESSES / sizeof *PROCESSES) ? PROCESSES[k] : NULL;
}

int atvi_lang_process(const char *name) {
  for (int k = 0; atvi_lang_process_name(k); k++)
    if (strcmp(PROCESSES[k], name) == 0) return k;
  return -1;
}

/* "runs.csv" columns 2..6 */
static bool file_columns(ast_parser *p, ast_setting *x) {
  if (!quoted(p, &x->file, &x->file_at, "the name of a file, in quotes: designs \"runs.csv\" columns 2..6"))
    return false;
  x->column_at = p->tok->at;
  if (!atvi_lang_eat(p, "columns") && !atvi_lang_eat(p, "column")) return true;
  x->column_at = p->tok->at;
  if (p->tok->kind == TOK_STRING) {
    atvi_lang_error(p->s, x->column_at, "they are counted from 1: columns 2..6",
                    "columns of runs are given by position");
    return false;
  }
  if (!(x->first = atvi_lang_expr_sum(p))) return false;
  if (p->tok->kind != TOK_RANGE) return true;
  p->tok++;
  return (x->last = atvi_lang_expr_sum(p)) != NULL;
}

static bool values(ast_parser *p, ast_setting *x) {
  atvi_idx cap = 0;
  for (;; p->tok++) {
    ast_expr *value = atvi_lang_expr_sum(p);
    if (!value) return false;
    if (!ATVI_PUSH(p->s->pool, x->value, x->n, cap)) return atvi_lang_nomem(p->s), false;
    x->value[x->n++] = value;
    if (p->tok->kind != ',') return true;
  }
}

static bool one_value(ast_parser *p, ast_setting *x) {
  if (!values(p, x)) return false;
  if (x->n == 1) return true;
  atvi_lang_error(p->s, x->value[1]->at, "remove the others", "'%s' is one number", x->word);
  return false;
}

/* A word out of several. */
static bool choice(ast_parser *p, ast_setting *x, const char *hint) {
  x->name_at = p->tok->at;
  x->name = p->tok->kind == TOK_NAME ? p->tok->word->text : NULL;
  return atvi_lang_expect(p, TOK_NAME, hint);
}

static bool kernel(ast_parser *p, ast_setting *x) {
  return choice(p, x, "there are exponential, matern32, matern52 and squared");
}

static bool send(ast_parser *p, ast_setting *x) {
  return choice(p, x, "there are 'send json' and 'send environment'");
}

static bool limit(ast_parser *p, ast_setting *x) {
  if (!one_value(p, x)) return false;
  return p->tok->kind != TOK_NAME || choice(p, x, NULL);
}

static bool command(ast_parser *p, ast_setting *x) {
  return quoted(p, &x->file, &x->file_at, "the command in quotes: command \"./catchment {k} {m}\"");
}

static bool template(ast_parser *p, ast_setting *x) {
  const char *hint = "for example: template \"run.in.tmpl\" to \"run.in\"";
  if (!quoted(p, &x->file, &x->file_at, hint)) return false;
  x->to_at = p->tok->at;
  if (!atvi_lang_eat(p, "to")) {
    atvi_lang_error(p->s, x->to_at, hint, "expected 'to', found %s", atvi_lang_token_text(p, p->tok));
    return false;
  }
  x->to_at = p->tok->at;
  x->to = p->tok->text;
  return atvi_lang_expect(p, TOK_STRING, hint);
}

static bool worker(ast_parser *p, ast_setting *x) {
  (void)p, (void)x;
  return true;
}

static bool source(ast_parser *p, ast_setting *x) {
  x->from = true;
  x->file_at = p->tok->at;
  if (atvi_lang_eat(p, "stdout")) return true;
  return quoted(p, &x->file, &x->file_at, "a file in quotes, or the word stdout: from \"out.csv\" csv");
}

/* flow from "out.csv" csv column discharge time hour */
static bool output(ast_parser *p, ast_setting *x) {
  static const char *const WORDS[] = {"from", "csv", "json", "columns", "column", "time"};
  if (atvi_lang_reserved(p, p->tok)) return false;
  if (!choice(p, x, "an output has a name: output flow from \"out.csv\" csv")) return false;
  while (p->tok->kind == TOK_NAME) {
    atvi_place at = p->tok->at;
    const char *word = p->tok->word->text;
    bool format = strcmp(word, "csv") == 0 || strcmp(word, "json") == 0 || strcmp(word, "columns") == 0;
    p->tok++;
    if (strcmp(word, "from") == 0 && !x->from) {
      if (!source(p, x)) return false;
    } else if (format && !x->format) {
      x->format = word;
      x->format_at = at;
    } else if (strcmp(word, "column") == 0 && !x->column) {
      if (!(x->column = column_name(p, &x->column_at))) return false;
    } else if (strcmp(word, "time") == 0 && !x->time) {
      if (!(x->time = column_name(p, &x->time_at))) return false;
    } else {
      ast_guess g = {.text = word};
      for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) atvi_lang_guess(&g, WORDS[i]);
      const char *hint = "there are from, a format (csv, json or columns), column and time, each once";
      if (g.best && g.distance) hint = atvi_pool_printf(p->s->pool, "did you mean '%s'?", g.best);
      atvi_lang_error(p->s, at, hint, "unexpected '%.60s'", word);
      return false;
    }
  }
  return true;
}

typedef struct {
  const char *word;
  bool (*parse)(ast_parser *p, ast_setting *x);
  bool many; /* may be given more than once */
} setting_word;

static const setting_word EMULATOR[] = {
    {"inputs", values, false},
    {"designs", file_columns, false},
    {"outputs", file_columns, false},
    {"mean", file_columns, false},
    {"times", file_columns, false},
    {"kernel", kernel, false},
    {"lengths", values, false},
    {"nugget", one_value, false},
    {"time", one_value, false},
    {"basis", one_value, false},
    {NULL, NULL, false},
};

static const setting_word SIMULATOR[] = {
    {"command", command, false}, {"template", template, true}, {"send", send, true},
    {"worker", worker, false},   {"output", output, true},     {"inputs", values, false},
    {"limit", limit, false},     {"jobs", one_value, false},   {"retries", one_value, false},
    {NULL, NULL, false},
};

static const setting_word *find(ast_parser *p, const setting_word *word) {
  const ast_token *t = p->tok;
  const char *all = NULL;
  ast_guess g = {.text = t->kind == TOK_NAME ? t->word->text : ""};
  for (; word->word; word++) {
    if (atvi_lang_at(p, word->word)) return word;
    atvi_lang_guess(&g, word->word);
    all = all ? atvi_pool_printf(p->s->pool, "%s, %s", all, word->word) : word->word;
  }
  const char *hint = g.best ? atvi_pool_printf(p->s->pool, "did you mean '%s'?", g.best)
                            : atvi_pool_printf(p->s->pool, "there are: %s", all ? all : "");
  if (!hint || !all) return atvi_lang_nomem(p->s), NULL;
  atvi_lang_error(p->s, t->at, hint, "%s is not a setting of this block", atvi_lang_token_text(p, t));
  return NULL;
}

static bool setting(ast_parser *p, ast_stmt *st, ast_setting *x) {
  const setting_word *word = find(p, st->kind == KW_EMULATOR ? EMULATOR : SIMULATOR);
  if (!word) return false;
  *x = (ast_setting){.word = word->word, .at = p->tok->at};
  for (atvi_idx i = 0; i < st->settings.n && !word->many; i++)
    if (st->settings.setting[i].word == word->word) {
      atvi_lang_error(p->s, x->at, "keep one of them", "'%s' is given twice: line %d already has it",
                      word->word, st->settings.setting[i].at.line);
      return false;
    }
  p->tok++;
  if (!word->parse(p, x)) return false;
  if (p->tok->kind == TOK_LINE || p->tok->kind == '}') return true;
  atvi_lang_error(p->s, p->tok->at, "one setting per line", "unexpected %s after the setting '%s'",
                  atvi_lang_token_text(p, p->tok), word->word);
  return false;
}

static bool parse_settings(ast_parser *p, ast_stmt *st) {
  atvi_idx cap = 0;
  if (!atvi_lang_expect(p, '{', "its settings go between { and }, one per line")) return false;
  for (;;) {
    while (p->tok->kind == TOK_LINE) p->tok++;
    if (p->tok->kind == '}') {
      p->tok++;
      return true;
    }
    if (!ATVI_PUSH(p->s->pool, st->settings.setting, st->settings.n, cap))
      return atvi_lang_nomem(p->s), false;
    p->depth = 0;
    if (!setting(p, st, &st->settings.setting[st->settings.n])) return false;
    st->settings.n++;
  }
}

/* The { itself is looked for by the block. */
static bool parse_emulator(ast_parser *p, ast_stmt *st) {
  st->at = p->tok->at;
  st->name = p->tok->word;
  return !atvi_lang_reserved(p, p->tok) &&
         atvi_lang_expect(p, TOK_NAME, "an emulator has a name: emulator flow { ... }") &&
         parse_settings(p, st);
}

/* Words that begin a statement but are no words of the language elsewhere. */
static ast_keyword free_word(const ast_token *t) {
  if (strcmp(t->word->text, "folder") == 0) return KW_FOLDER;
  if (strcmp(t->word->text, "walk") == 0) return KW_WALK;
  if (strcmp(t->word->text, "simulator") == 0) return KW_SIMULATOR;
  if (strcmp(t->word->text, "each") == 0) return KW_EACH;
  return strcmp(t->word->text, "emulator") == 0 ? KW_EMULATOR : KW_NONE;
}

/* Labels separated by commas: names, numbers, or text in quotes. */
static bool labels(ast_parser *p, ast_stmt *st) {
  atvi_idx cap = 0;
  for (;; p->tok++) {
    atvi_place at;
    const char *text = p->tok->kind == TOK_NAME || p->tok->kind == TOK_STRING || p->tok->kind == TOK_NUMBER
                           ? column_name(p, &at)
                           : NULL;
    if (!text) return atvi_lang_expect(p, TOK_NAME, "for example: each arm in placebo, treated { ... }");
    if (!ATVI_PUSH(p->s->pool, st->words.token, st->words.n, cap)) return atvi_lang_nomem(p->s), false;
    st->words.token[st->words.n++] = (ast_token){.kind = TOK_STRING, .at = at, .text = text};
    if (p->tok->kind != ',') return true;
  }
}

static bool statements(ast_parser *p, atvi_idx *n, ast_stmt **stmt);

/* each subject from "subjects.csv" { ... }, each arm in placebo, treated { ... } */
static bool parse_each(ast_parser *p, ast_stmt *st) {
  const char *hint =
      "for example: each subject from \"subjects.csv\" { ... }, or each arm in placebo, treated { ... }";
  if (!define(p, st)) return false;
  if (atvi_lang_eat(p, "from")) {
    if (!file_name(p, st)) return false;
  } else if (atvi_lang_eat(p, "in")) {
    if (!labels(p, st)) return false;
  } else
    return atvi_lang_error(p->s, p->tok->at, hint, "expected 'from' or 'in', found %s",
                           atvi_lang_token_text(p, p->tok)),
           false;
  if (p->level >= AST_MAX_LEVEL)
    return atvi_lang_error(p->s, st->at, "join two of them into one", "blocks are nested deeper than %d",
                           AST_MAX_LEVEL),
           false;
  if (!atvi_lang_expect(p, '{', hint)) return false;
  p->level++;
  if (!statements(p, &st->body.n, &st->body.stmt)) return false;
  p->level--;
  p->tok++;
  return true;
}

/* Complains about a statement that describes the model as a whole in a block; true: it did. */
static bool outside_only(ast_parser *p, ast_keyword k) {
  static const ast_keyword OUTSIDE[] = {KW_MODEL,  KW_INDEX, KW_CONST,  KW_FUNCTION,  KW_CALENDAR,
                                        KW_SOLVER, KW_STEP,  KW_FOLDER, KW_SIMULATOR, KW_EMULATOR};
  for (size_t i = 0; i < sizeof OUTSIDE / sizeof *OUTSIDE; i++)
    if (k == OUTSIDE[i] && p->level) {
      const char *hint = k == KW_CONST ? "move it out, or make it a 'let' or a column of the units' file"
                                       : "move it out: it holds for all units";
      atvi_lang_error(p->s, p->tok->at, hint, "'%s' cannot be used in a block", p->tok->word->text);
      return true;
    }
  return false;
}

static bool unknown_statement(ast_parser *p) {
  const ast_token *t = p->tok;
  static const char *const FIRST[] = {
      "model", "index",  "const",  "param",     "let",      "function", "state", "next",    "step",
      "start", "burnin", "table",  "calendar",  "pulse",    "observe",  "data",  "derived", "track",
      "logp",  "solver", "folder", "simulator", "emulator", "each",     "walk"};
  if (t->kind != TOK_NAME) {
    atvi_lang_error(p->s, t->at, "a statement begins with a word, such as param, state, let, data or observe",
                    "a line cannot begin with %s", atvi_lang_token_text(p, t));
    return false;
  }
  ast_guess g = {.text = t->word->text};
  const char *shorter = NULL; /* the word of which theirs is a longer form: parameter, constant, observed */
  for (size_t i = 0; i < sizeof FIRST / sizeof *FIRST; i++) {
    atvi_lang_guess(&g, FIRST[i]);
    if (strncmp(g.text, FIRST[i], strlen(FIRST[i])) == 0) shorter = FIRST[i];
  }
  if (!g.best) g.best = shorter;
  const char *hint = "statements begin with model, index, const, param, let, function, state, d.../dt, next, "
                     "step, start, burnin, calendar, table, walk, pulse, data, observe, derived, track, "
                     "logp, solver, folder, simulator, emulator or each";
  if (t[1].kind == '=') hint = "a name for an expression is defined with 'let', a number with 'const'";
  if (t[1].kind == '~') hint = "a prior belongs to 'param', a distribution of data to 'observe'";
  if (g.best) hint = atvi_pool_printf(p->s->pool, "did you mean '%s'?", g.best);
  atvi_lang_error(p->s, t->at, hint, "'%.60s' does not begin a statement", t->word->text);
  return false;
}

static bool statement(ast_parser *p, ast_stmt *st) {
  const ast_token *first = p->tok;
  *st = (ast_stmt){.at = first->at, .level = p->level};
  ast_keyword k = first->kind == TOK_NAME ? first->word->keyword : KW_NONE;
  if (k == KW_NONE && first->kind == TOK_NAME) k = free_word(first);
  if (k == KW_NONE) {
    bool derivative = first->kind == TOK_NAME && first->word->text[0] == 'd' && first->word->text[1] &&
                      (first[1].kind == '/' || first[1].kind == '[');
    return derivative ? parse_derivative(p, st) : unknown_statement(p);
  }
  if (outside_only(p, k)) return false;
  st->kind = k;
  p->tok++;
  switch (k) {
  case KW_MODEL: return parse_model(p, st);
  case KW_INDEX: return parse_index(p, st);
  case KW_CONST: return parse_const(p, st);
  case KW_PARAM: return parse_param(p, st);
  case KW_FUNCTION: return parse_function(p, st);
  case KW_LET:
  case KW_STATE:
  case KW_NEXT:
  case KW_DERIVED:
  case KW_TRACK: return define_array(p, st);
  case KW_START: return parse_start(p, st);
  case KW_STEP:
  case KW_BURNIN:
  case KW_LOGP: return parse_expr_only(p, st);
  case KW_CALENDAR: return parse_calendar(p, st);
  case KW_TABLE: return parse_table(p, st);
  case KW_WALK: return parse_walk(p, st);
  case KW_PULSE: return parse_pulse(p, st);
  case KW_DATA: return parse_data(p, st);
  case KW_OBSERVE: return parse_observe(p, st);
  case KW_SOLVER: return parse_solver(p, st);
  case KW_FOLDER: return parse_folder(p, st);
  case KW_SIMULATOR: return parse_settings(p, st);
  case KW_EMULATOR: return parse_emulator(p, st);
  case KW_EACH: return parse_each(p, st);
  default: p->tok--; return unknown_statement(p);
  }
}

/* Until the end of the text, or the } of a block. */
static bool statements(ast_parser *p, atvi_idx *n, ast_stmt **stmt) {
  atvi_idx cap = 0;
  for (;;) {
    while (p->tok->kind == TOK_LINE) p->tok++;
    if (p->tok->kind == TOK_END || (p->tok->kind == '}' && p->level)) return true;
    if (!ATVI_PUSH(p->s->pool, *stmt, *n, cap)) return atvi_lang_nomem(p->s), false;
    p->depth = 0;
    if (!statement(p, &(*stmt)[*n])) return false;
    ++*n;
    if (p->tok->kind != TOK_LINE && !(p->tok->kind == '}' && p->level)) {
      const char *hint = "one statement per line; a line goes on inside brackets and after an operator";
      if (p->tok->kind == ',' && p->tok[-1].kind == TOK_NUMBER && p->tok[1].kind == TOK_NUMBER)
        hint = "numbers have no thousands separators, and a decimal point: write 1000 and 1.5";
      atvi_lang_error(p->s, p->tok->at, hint, "unexpected %s", atvi_lang_token_text(p, p->tok));
      return false;
    }
  }
}

bool atvi_lang_parse_text(ast_source *s, ast_words *words, ast_file *file) {
  *file = (ast_file){0};
  const ast_token *tok = atvi_lang_lex(s, words);
  ast_parser p = {.s = s, .words = words, .tok = tok};
  return tok && statements(&p, &file->n, &file->stmt);
}
