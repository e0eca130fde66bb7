/* SPDX-License-Identifier: MIT */
/* The settings of a simulator or an emulator, one per line between { and }. Their words are words only here. */
#include "lang/ast.h"
#include <string.h>

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

static bool file_name(ast_parser *p, ast_setting *x, const char *hint) {
  x->file_at = p->tok->at;
  x->file = p->tok->text;
  return atvi_lang_expect(p, TOK_STRING, hint);
}

/* "runs.csv" columns 2..6 */
static bool file_columns(ast_parser *p, ast_setting *x) {
  if (!file_name(p, x, "the name of a file, in quotes: designs \"runs.csv\" columns 2..6")) return false;
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
  return file_name(p, x, "the command in quotes: command \"./catchment {k} {m}\"");
}

static bool template(ast_parser *p, ast_setting *x) {
  const char *hint = "for example: template \"run.in.tmpl\" to \"run.in\"";
  if (!file_name(p, x, hint)) return false;
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
  return file_name(p, x, "a file in quotes, or the word stdout: from \"out.csv\" csv");
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
      if (!(x->column = atvi_lang_column_name(p, &x->column_at))) return false;
    } else if (strcmp(word, "time") == 0 && !x->time) {
      if (!(x->time = atvi_lang_column_name(p, &x->time_at))) return false;
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
  atvi_lang_error(p->s, t->at, hint, "%s is no setting of this block", atvi_lang_token_text(p, t));
  return NULL;
}

static bool setting(ast_parser *p, ast_stmt *st, ast_setting *x) {
  const setting_word *word = find(p, st->kind == KW_EMULATOR ? EMULATOR : SIMULATOR);
  if (!word) return false;
  *x = (ast_setting){.word = word->word, .at = p->tok->at};
  for (atvi_idx i = 0; i < st->n_setting && !word->many; i++)
    if (st->setting[i].word == word->word) {
      atvi_lang_error(p->s, x->at, "keep one of them", "'%s' is given twice: line %d already has it",
                      word->word, st->setting[i].at.line);
      return false;
    }
  p->tok++;
  if (!word->parse(p, x)) return false;
  if (p->tok->kind == TOK_LINE || p->tok->kind == '}') return true;
  atvi_lang_error(p->s, p->tok->at, "one setting per line", "unexpected %s after the setting '%s'",
                  atvi_lang_token_text(p, p->tok), word->word);
  return false;
}

bool atvi_lang_parse_settings(ast_parser *p, ast_stmt *st) {
  atvi_idx cap = 0;
  if (!atvi_lang_expect(p, '{', "its settings stand between { and }, one per line")) return false;
  for (;;) {
    while (p->tok->kind == TOK_LINE) p->tok++;
    if (p->tok->kind == '}') {
      p->tok++;
      return true;
    }
    if (!ATVI_PUSH(p->s->pool, st->setting, st->n_setting, cap)) return atvi_lang_nomem(p->s), false;
    p->depth = 0;
    if (!setting(p, st, &st->setting[st->n_setting])) return false;
    st->n_setting++;
  }
}
