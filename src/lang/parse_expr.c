/* SPDX-License-Identifier: MIT */
/* Expressions by recursive descent. Loosest first: if, or, and, not, comparison, + -, * /, sign, ^, primary. */
#include "lang/ast.h"
#include <math.h>
#include <string.h>

static bool at_keyword(const ast_parser *p, ast_keyword k) {
  return p->tok->kind == TOK_NAME && p->tok->word->keyword == k;
}

const char *atvi_lang_token_text(ast_parser *p, const ast_token *t) {
  const char *text = NULL;
  switch (t->kind) {
  case TOK_END: return "the end of the file";
  case TOK_LINE: return "the end of the line";
  case TOK_NUMBER: return "a number";
  case TOK_DATE: return "a date";
  case TOK_STRING: return "text in quotes";
  case TOK_LE: return "'<='";
  case TOK_GE: return "'>='";
  case TOK_EQ: return "'=='";
  case TOK_NE: return "'!='";
  case TOK_RANGE: return "'..'";
  case TOK_PLUS_EQ: return "'+='";
  case TOK_MINUS_EQ: return "'-='";
  case TOK_TIMES_EQ: return "'*='";
  case TOK_NAME: text = atvi_pool_printf(p->s->pool, "'%.60s'", t->word->text); break;
  default: text = atvi_pool_printf(p->s->pool, "'%c'", t->kind); break;
  }
  return text ? text : "";
}

bool atvi_lang_expect(ast_parser *p, int kind, const char *hint) {
  if (p->s->status != ATVI_OK) return false;
  if (p->tok->kind == kind) {
    p->tok++;
    return true;
  }
  ast_token want = {.kind = kind};
  const char *wanted = kind == TOK_NAME ? "a name" : atvi_lang_token_text(p, &want);
  if (!hint) hint = "something is missing or misplaced before the mark";
  atvi_lang_error(p->s, p->tok->at, hint, "expected %s, found %s", wanted, atvi_lang_token_text(p, p->tok));
  return false;
}

bool atvi_lang_at(const ast_parser *p, const char *text) {
  return p->tok->kind == TOK_NAME && strcmp(p->tok->word->text, text) == 0;
}

bool atvi_lang_eat(ast_parser *p, const char *text) {
  if (!atvi_lang_at(p, text)) return false;
  p->tok++;
  return true;
}

bool atvi_lang_reserved(ast_parser *p, const ast_token *t) {
  if (t->kind != TOK_NAME || t->word->keyword == KW_NONE) return false;
  atvi_lang_error(p->s, t->at, "choose another name", "'%s' is a word of the language and cannot be a name",
                  t->word->text);
  return true;
}

static ast_expr *node(ast_parser *p, ast_kind kind, atvi_place at, atvi_idx n) {
  if (p->s->status != ATVI_OK) return NULL;
  ast_expr *x = atvi_lang_take(p->s, 1, sizeof *x);
  if (!x) return NULL;
  *x = (ast_expr){.kind = kind, .at = at, .n = n, .height = 1};
  if (n) x->arg = atvi_lang_take(p->s, n, sizeof *x->arg);
  return n && !x->arg ? NULL : x;
}

/* Attaches a child; false if it is missing or the tree gets too tall to walk. */
static bool attach(ast_parser *p, ast_expr *x, atvi_idx k, ast_expr *child) {
  if (!x || !child) return false;
  x->arg[k] = child;
  if (child->height + 1 > x->height) x->height = child->height + 1;
  if (x->height <= AST_MAX_CHAIN) return true;
  atvi_lang_error(p->s, x->at, "give parts of it names of their own with 'let', or use sum()",
                  "this expression is too long");
  return false;
}

static ast_expr *binary(ast_parser *p, int op, atvi_place at, ast_expr *a, ast_expr *b) {
  ast_expr *x = a && b ? node(p, EX_BINARY, at, 2) : NULL;
  if (!attach(p, x, 0, a) || !attach(p, x, 1, b)) return NULL;
  x->op = op;
  return x;
}

ast_expr *atvi_lang_expr_list(ast_parser *p, atvi_place at, atvi_idx n, ast_expr **arg) {
  ast_expr *x = node(p, EX_LIST, at, 0);
  if (!x) return NULL;
  x->arg = arg;
  x->n = n;
  for (atvi_idx i = 0; i < n; i++)
    if (!attach(p, x, i, arg[i])) return NULL;
  return x;
}

/* Items up to the closing bracket, which is eaten. */
static bool items(ast_parser *p, int closing, atvi_idx *n, ast_expr ***arg) {
  atvi_idx cap = 0;
  *n = 0;
  *arg = NULL;
  while (p->tok->kind != closing) {
    ast_expr *x = atvi_lang_expr(p);
    if (!x) return false;
    if (!ATVI_PUSH(p->s->pool, *arg, *n, cap)) {
      atvi_lang_nomem(p->s);
      return false;
    }
    (*arg)[(*n)++] = x;
    if (p->tok->kind != ',') break;
    p->tok++;
  }
  return atvi_lang_expect(p, closing, "separate the parts with commas");
}

ast_expr *atvi_lang_expr_args(ast_parser *p, ast_word *word, atvi_place at) {
  ast_expr **arg;
  atvi_idx n;
  if (!atvi_lang_expect(p, '(', NULL) || !items(p, ')', &n, &arg)) return NULL;
  ast_expr *x = atvi_lang_expr_list(p, at, n, arg);
  if (!x) return NULL;
  x->kind = EX_CALL;
  x->word = word;
  return x;
}

/* One of: i in age, i in 2..6, age, 2..6, an index. */
static bool dim(ast_parser *p, ast_dim *d) {
  *d = (ast_dim){.at = p->tok->at};
  if (p->tok->kind == TOK_NAME && p->tok[1].kind == TOK_NAME && p->tok[1].word->keyword == KW_IN) {
    if (p->tok->word->keyword != KW_NONE) {
      atvi_lang_error(p->s, p->tok->at, "choose another name, such as i", "'%s' is a word of the language",
                      p->tok->word->text);
      return false;
    }
    d->var = p->tok->word;
    p->tok += 2;
  }
  d->lo = atvi_lang_expr_sum(p);
  if (d->lo && p->tok->kind == TOK_RANGE) {
    p->tok++;
    d->hi = atvi_lang_expr_sum(p);
    return d->hi != NULL;
  }
  if (d->lo && d->var && (d->lo->kind != EX_NAME || d->lo->n || d->lo->qualifier)) {
    atvi_lang_error(p->s, d->lo->at, "for example: i in age, or i in 1..6",
                    "'in' needs an index set or a range here");
    return false;
  }
  return d->lo != NULL;
}

bool atvi_lang_dims(ast_parser *p, int *n, ast_dim *dims, int closing) {
  for (*n = 0;; p->tok++) {
    if (*n == AST_MAX_DIM) {
      atvi_lang_error(p->s, p->tok->at, "use fewer indices, or longer index sets", "at most %d indices",
                      AST_MAX_DIM);
      return false;
    }
    if (!dim(p, &dims[*n])) return false;
    ++*n;
    if (p->tok->kind != ',') break;
  }
  return atvi_lang_expect(p, closing, NULL);
}

/* sum(i in age: ...) and sum(X). */
static ast_expr *reduce(ast_parser *p, int op) {
  ast_word *word = p->tok->word;
  atvi_place at = p->tok->at;
  p->tok++;
  bool ranged = p->tok->kind == '(' && p->tok[1].kind == TOK_NAME && p->tok[2].kind == TOK_NAME &&
                p->tok[2].word->keyword == KW_IN;
  if (!ranged) {
    ast_expr *x = atvi_lang_expr_args(p, word, at);
    if (x && x->n != 1) {
      atvi_lang_error(p->s, at, "write sum(i in set: expression), or sum(X) of a whole array",
                      "'%s' takes one array or a range and an expression", word->text);
      return NULL;
    }
    if (x) x->op = op;
    return x;
  }
  p->tok++;
  ast_expr *x = node(p, EX_REDUCE, at, 1);
  if (!x) return NULL;
  x->dim = atvi_lang_take(p->s, AST_MAX_DIM, sizeof *x->dim);
  if (!x->dim || !atvi_lang_dims(p, &x->n_dim, x->dim, ':')) return NULL;
  x->op = op;
  x->word = word;
  if (!attach(p, x, 0, atvi_lang_expr(p)) || !atvi_lang_expect(p, ')', NULL)) return NULL;
  for (int k = 0; k < x->n_dim; k++)
    if (!x->dim[k].var) {
      atvi_lang_error(p->s, x->dim[k].at, "for example: sum(i in age, j in age: ...)",
                      "this range needs a variable");
      return NULL;
    }
  return x;
}

static ast_expr *name(ast_parser *p) {
  ast_word *word = p->tok->word, *qualifier = NULL;
  atvi_place at = p->tok->at;
  p->tok++;
  if (p->tok->kind == '(') return atvi_lang_expr_args(p, word, at);
  if (p->tok->kind == '.' && p->tok[1].kind == TOK_NAME) {
    qualifier = word;
    word = p->tok[1].word;
    p->tok += 2;
  }
  atvi_idx n = 0;
  ast_expr **arg = NULL;
  if (p->tok->kind == '[') {
    p->tok++;
    if (!items(p, ']', &n, &arg)) return NULL;
    if (n < 1 || n > AST_MAX_DIM) {
      atvi_lang_error(p->s, at, "for example: X[i], C[i, j]", "'%.60s' needs 1 to %d indices here",
                      word->text, AST_MAX_DIM);
      return NULL;
    }
  }
  ast_expr *x = atvi_lang_expr_list(p, at, n, arg);
  if (!x) return NULL;
  x->kind = EX_NAME;
  x->word = word;
  x->qualifier = qualifier;
  return x;
}

static ast_expr *number(ast_parser *p, double value) {
  ast_expr *x = node(p, p->tok->kind == TOK_DATE ? EX_DATE : EX_NUMBER, p->tok->at, 0);
  if (x) x->number = value;
  p->tok++;
  return x;
}

static ast_expr *word(ast_parser *p) {
  ast_expr *x;
  switch (p->tok->word->keyword) {
  case KW_INF: return number(p, (double)INFINITY);
  case KW_PI: return number(p, 3.14159265358979323846);
  case KW_T:
    x = node(p, EX_TIME, p->tok->at, 0);
    p->tok++;
    return x;
  case KW_SUM: return reduce(p, '+');
  case KW_PROD: return reduce(p, '*');
  case KW_NONE: return name(p);
  case KW_INCREASE:
  case KW_BUILTIN:
    if (p->tok[1].kind == '(') return name(p);
    atvi_lang_error(p->s, p->tok->at, "its arguments go in brackets after it", "'%s' is a function",
                    p->tok->word->text);
    return NULL;
  case KW_IF:
    atvi_lang_error(p->s, p->tok->at, "put brackets around it: (if ... then ... else ...)",
                    "'if' needs brackets here");
    return NULL;
  case KW_THEN:
  case KW_ELSE:
  case KW_AND:
  case KW_OR:
  case KW_NOT:
  case KW_IN:
    atvi_lang_error(p->s, p->tok->at, "a number, a name or a bracket belongs here",
                    "'%s' is a word of the language and has no value", p->tok->word->text);
    return NULL;
  default: return name(p); /* a word that begins statements may be a column of the data: state, model */
  }
}

static ast_expr *primary(ast_parser *p) {
  atvi_place at = p->tok->at;
  ast_expr *x, **arg;
  atvi_idx n;
  switch (p->tok->kind) {
  case TOK_NUMBER:
  case TOK_DATE: return number(p, p->tok->number);
  case TOK_NAME: return word(p);
  case '(':
    p->tok++;
    x = atvi_lang_expr(p);
    return x && atvi_lang_expect(p, ')', NULL) ? x : NULL;
  case '[': p->tok++; return items(p, ']', &n, &arg) ? atvi_lang_expr_list(p, at, n, arg) : NULL;
  default:
    atvi_lang_error(p->s, at, "a number, a name or a bracket belongs here",
                    "expected an expression, found %s", atvi_lang_token_text(p, p->tok));
    return NULL;
  }
}

/* Guards every way to recurse: brackets, signs, powers and if all pass here. */
static bool deeper(ast_parser *p) {
  if (p->s->status != ATVI_OK) return false;
  if (p->depth++ < AST_MAX_DEPTH) return true;
  atvi_lang_error(p->s, p->tok->at, "give parts of it names of their own with 'let'",
                  "more than %d levels inside each other", AST_MAX_DEPTH);
  return false;
}

static ast_expr *sign(ast_parser *p) {
  if (!deeper(p)) return NULL;
  atvi_place at = p->tok->at;
  ast_expr *x;
  if (p->tok->kind == '-' || p->tok->kind == '+') {
    bool minus = p->tok->kind == '-';
    p->tok++;
    ast_expr *inner = sign(p);
    x = minus && inner ? node(p, EX_NEG, at, 1) : inner;
    if (minus && !attach(p, x, 0, inner)) x = NULL;
  } else {
    x = primary(p);
    if (x && p->tok->kind == '^') {
      at = p->tok->at;
      p->tok++;
      x = binary(p, '^', at, x, sign(p));
    }
  }
  p->depth--;
  return x;
}

static ast_expr *product(ast_parser *p) {
  ast_expr *x = sign(p);
  while (x && (p->tok->kind == '*' || p->tok->kind == '/')) {
    const ast_token *op = p->tok++;
    x = binary(p, op->kind, op->at, x, sign(p));
  }
  return x;
}

ast_expr *atvi_lang_expr_sum(ast_parser *p) {
  ast_expr *x = product(p);
  while (x && (p->tok->kind == '+' || p->tok->kind == '-')) {
    const ast_token *op = p->tok++;
    x = binary(p, op->kind, op->at, x, product(p));
  }
  return x;
}

static bool comparing(int kind) {
  return kind == '<' || kind == '>' || kind == TOK_LE || kind == TOK_GE || kind == TOK_EQ || kind == TOK_NE;
}

static ast_expr *comparison(ast_parser *p) {
  ast_expr *x = atvi_lang_expr_sum(p);
  if (!x || !comparing(p->tok->kind)) return x;
  const ast_token *op = p->tok++;
  x = binary(p, op->kind, op->at, x, atvi_lang_expr_sum(p));
  if (x && comparing(p->tok->kind)) {
    atvi_lang_error(p->s, p->tok->at, "write a < b and b < c", "comparisons do not chain");
    return NULL;
  }
  return x;
}

static ast_expr *negation(ast_parser *p) {
  if (!at_keyword(p, KW_NOT)) return comparison(p);
  if (!deeper(p)) return NULL;
  atvi_place at = p->tok->at;
  p->tok++;
  ast_expr *inner = negation(p), *x = inner ? node(p, EX_NOT, at, 1) : NULL;
  p->depth--;
  return attach(p, x, 0, inner) ? x : NULL;
}

static ast_expr *logic(ast_parser *p, ast_keyword k) {
  ast_expr *x = k == KW_OR ? logic(p, KW_AND) : negation(p);
  while (x && at_keyword(p, k)) {
    const ast_token *op = p->tok++;
    x = binary(p, 1000 + (int)k, op->at, x, k == KW_OR ? logic(p, KW_AND) : negation(p));
  }
  return x;
}

static bool eat_keyword(ast_parser *p, ast_keyword k, const char *text) {
  if (p->s->status != ATVI_OK) return false;
  if (at_keyword(p, k)) {
    p->tok++;
    return true;
  }
  const char *hint = "write: if condition then value else other value";
  if (k == KW_THEN && p->tok->kind == '=') hint = "two values are compared with ==";
  if (k == KW_THEN && p->tok->kind == ':')
    hint = "write 'then' instead: if condition then value else other value";
  atvi_lang_error(p->s, p->tok->at, hint, "expected '%s', found %s", text, atvi_lang_token_text(p, p->tok));
  return false;
}

ast_expr *atvi_lang_expr(ast_parser *p) {
  if (!at_keyword(p, KW_IF)) return logic(p, KW_OR);
  if (!deeper(p)) return NULL;
  ast_expr *x = node(p, EX_IF, p->tok->at, 3);
  p->tok++;
  bool ok = attach(p, x, 0, logic(p, KW_OR)) && eat_keyword(p, KW_THEN, "then") &&
            attach(p, x, 1, atvi_lang_expr(p)) && eat_keyword(p, KW_ELSE, "else") &&
            attach(p, x, 2, atvi_lang_expr(p));
  p->depth--;
  return ok ? x : NULL;
}
