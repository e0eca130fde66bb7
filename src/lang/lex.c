/* SPDX-License-Identifier: MIT */
/* Text to tokens. A line goes on inside brackets, after a token that cannot end a statement and before one
 * that cannot begin one. */
#include "lang/ast.h"
#include "io/text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  const char *text;
  ast_keyword keyword;
} KEYWORDS[] = {
    {"model", KW_MODEL},
    {"index", KW_INDEX},
    {"const", KW_CONST},
    {"param", KW_PARAM},
    {"let", KW_LET},
    {"state", KW_STATE},
    {"function", KW_FUNCTION},
    {"next", KW_NEXT},
    {"step", KW_STEP},
    {"start", KW_START},
    {"burnin", KW_BURNIN},
    {"calendar", KW_CALENDAR},
    {"table", KW_TABLE},
    {"pulse", KW_PULSE},
    {"data", KW_DATA},
    {"observe", KW_OBSERVE},
    {"derived", KW_DERIVED},
    {"track", KW_TRACK},
    {"logp", KW_LOGP},
    {"solver", KW_SOLVER},
    {"if", KW_IF},
    {"then", KW_THEN},
    {"else", KW_ELSE},
    {"and", KW_AND},
    {"or", KW_OR},
    {"not", KW_NOT},
    {"in", KW_IN},
    {"inf", KW_INF},
    {"pi", KW_PI},
    {"t", KW_T},
    {"sum", KW_SUM},
    {"prod", KW_PROD},
    {"increase", KW_INCREASE},
};

static const ast_builtin BUILTINS[] = {
    {"exp", 1, 1, ATVI_OP_EXP},         {"log", 1, 1, ATVI_OP_LOG},
    {"log1p", 1, 1, ATVI_OP_LOG1P},     {"expm1", 1, 1, ATVI_OP_EXPM1},
    {"sqrt", 1, 1, ATVI_OP_SQRT},       {"abs", 1, 1, ATVI_OP_ABS},
    {"sign", 1, 1, ATVI_OP_SIGN},       {"floor", 1, 1, ATVI_OP_FLOOR},
    {"sin", 1, 1, ATVI_OP_SIN},         {"cos", 1, 1, ATVI_OP_COS},
    {"tan", 1, 1, ATVI_OP_TAN},         {"asin", 1, 1, ATVI_OP_ASIN},
    {"acos", 1, 1, ATVI_OP_ACOS},       {"atan", 1, 1, ATVI_OP_ATAN},
    {"sinh", 1, 1, ATVI_OP_SINH},       {"cosh", 1, 1, ATVI_OP_COSH},
    {"tanh", 1, 1, ATVI_OP_TANH},       {"erf", 1, 1, ATVI_OP_ERF},
    {"lgamma", 1, 1, ATVI_OP_LGAMMA},   {"atan2", 2, 2, ATVI_OP_ATAN2},
    {"pow", 2, 2, ATVI_OP_POW},         {"log10", 1, 1, -1 - FN_LOG10},
    {"logit", 1, 1, -1 - FN_LOGIT},     {"invlogit", 1, 1, ATVI_OP_INVLOGIT},
    {"Phi", 1, 1, -1 - FN_PHI},         {"min", 2, 10000, -1 - FN_MIN},
    {"max", 2, 10000, -1 - FN_MAX},     {"log_sum_exp", 2, 10000, ATVI_OP_LOG_ADD},
    {"log_mix", 3, 3, -1 - FN_LOG_MIX},
};

const ast_builtin *atvi_lang_builtin(int k) {
  return k >= 0 && k < (int)(sizeof BUILTINS / sizeof *BUILTINS) ? &BUILTINS[k] : NULL;
}

ast_word *atvi_lang_word(ast_source *s, ast_words *words, const char *text, size_t n) {
  uint32_t h = 2166136261u;
  for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)text[i]) * 16777619u;
  ast_word **bucket = &words->bucket[h % AST_BUCKETS];
  for (ast_word *w = *bucket; w; w = w->next)
    if (w->hash == h && strncmp(w->text, text, n) == 0 && w->text[n] == 0) return w;
  ast_word *w = atvi_lang_take(s, 1, sizeof *w);
  char *copy = w ? atvi_pool_strndup(s->pool, text, n) : NULL;
  if (!copy) {
    atvi_lang_nomem(s);
    return NULL;
  }
  *w = (ast_word){.text = copy, .hash = h, .next = *bucket};
  return *bucket = w;
}

bool atvi_lang_words_init(ast_source *s, ast_words *words) {
  for (size_t i = 0; i < sizeof KEYWORDS / sizeof *KEYWORDS; i++) {
    ast_word *w = atvi_lang_word(s, words, KEYWORDS[i].text, strlen(KEYWORDS[i].text));
    if (!w) return false;
    w->keyword = KEYWORDS[i].keyword;
  }
  for (int i = 0; atvi_lang_builtin(i); i++) {
    ast_word *w = atvi_lang_word(s, words, BUILTINS[i].name, strlen(BUILTINS[i].name));
    if (!w) return false;
    w->keyword = KW_BUILTIN;
    w->builtin = i;
  }
  return true;
}

typedef struct {
  ast_source *s;
  ast_words *words;
  const char *p, *line_start;
  int line;
  ast_token *tok;
  atvi_idx n, cap;
  atvi_idx n_open, open_cap;
  ast_token *open;        /* brackets not yet closed */
  atvi_idx first, before; /* tokens that begin this line and the one before */
  /* Inside the block of a simulator or an emulator. */
  bool in_block;
  /* [n_brace] where the { that are open stand. */
  atvi_idx n_brace, brace_cap;
  atvi_place *brace;
} lexer;

static bool is_letter(int c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_digit(int c) { return c >= '0' && c <= '9'; }
static atvi_place here(const lexer *l) { return (atvi_place){l->line, (int)(l->p - l->line_start) + 1}; }

static ast_token *push(lexer *l, int kind, atvi_place at) {
  if (!ATVI_PUSH(l->s->pool, l->tok, l->n, l->cap)) {
    atvi_lang_nomem(l->s);
    return NULL;
  }
  l->tok[l->n] = (ast_token){.kind = kind, .at = at};
  if (kind == TOK_LINE) {
    l->before = l->first;
    l->first = l->n + 1;
  }
  return &l->tok[l->n++];
}

/* After these a statement cannot be over. */
static bool goes_on(const ast_token *t) {
  if (t->kind == TOK_NAME)
    return t->word->keyword == KW_THEN || t->word->keyword == KW_ELSE || t->word->keyword == KW_AND ||
           t->word->keyword == KW_OR || t->word->keyword == KW_NOT;
  return (t->kind > 0 && t->kind < 256 && strchr("+-*/^<>=~,:", t->kind)) || t->kind == TOK_LE ||
         t->kind == TOK_GE || t->kind == TOK_EQ || t->kind == TOK_NE || t->kind == TOK_RANGE ||
         t->kind == TOK_PLUS_EQ || t->kind == TOK_MINUS_EQ || t->kind == TOK_TIMES_EQ;
}

/* These cannot begin a statement: the line before goes on. */
static bool comes_later(ast_keyword k) { return k == KW_THEN || k == KW_ELSE || k == KW_AND || k == KW_OR; }

static bool lex_newline(lexer *l) {
  const ast_token *last = l->n ? &l->tok[l->n - 1] : NULL;
  bool ends = last && last->kind != TOK_LINE && l->n_open == 0 && !goes_on(last);
  if (ends && !push(l, TOK_LINE, here(l))) return false;
  l->p++;
  l->line++;
  l->line_start = l->p;
  return true;
}

/* yyyy-mm-dd and nothing else; false where the text is something else. */
static bool date_shape(const char *p) {
  for (int i = 0; i < 10; i++)
    if (i == 4 || i == 7 ? p[i] != '-' : !is_digit((unsigned char)p[i])) return false;
  return !is_digit((unsigned char)p[10]) && !is_letter((unsigned char)p[10]) && p[10] != '.';
}

static bool lex_date(lexer *l) {
  int y = atoi(l->p), m = atoi(l->p + 5), d = atoi(l->p + 8), y2, m2, d2;
  int64_t days = m >= 1 && m <= 12 && d >= 1 && d <= 31 ? atvi_io_days_from_date(y, m, d) : 0;
  atvi_io_date_from_days(days, &y2, &m2, &d2);
  if (y != y2 || m != m2 || d != d2) {
    atvi_lang_error(l->s, here(l), "dates are written year-month-day", "there is no day %.10s", l->p);
    return false;
  }
  ast_token *t = push(l, TOK_DATE, here(l));
  if (!t) return false;
  t->number = (double)days;
  l->p += 10;
  return true;
}

static bool lex_number(lexer *l) {
  const char *q = l->p;
  while (is_digit((unsigned char)*q)) q++;
  if (*q == '.' && q[1] != '.') {
    q++;
    while (is_digit((unsigned char)*q)) q++;
  }
  if (*q == 'e' || *q == 'E') {
    const char *e = q + 1;
    if (*e == '+' || *e == '-') e++;
    if (is_digit((unsigned char)*e)) {
      while (is_digit((unsigned char)*e)) e++;
      q = e;
    }
  }
  atvi_place at = here(l);
  if (is_letter((unsigned char)*q)) {
    atvi_lang_error(l->s, at,
                    l->in_block ? "put a space between a number and its unit: 30 min"
                                : "write a * between a number and a name; names begin with a letter",
                    "a number runs into a name: '%.*s'", (int)(q - l->p + 1 < 60 ? q - l->p + 1 : 60), l->p);
    return false;
  }
  double value;
  if (!atvi_io_parse_number(l->p, (size_t)(q - l->p), &value)) {
    atvi_lang_error(l->s, at, "the largest number is about 1.8e308; 'inf' means infinity",
                    "this number is too large");
    return false;
  }
  ast_token *t = push(l, TOK_NUMBER, at);
  if (!t) return false;
  t->number = value;
  l->p = q;
  return true;
}

static bool lex_string(lexer *l) {
  atvi_place at = here(l);
  const char *q = l->p + 1, *end = l->s->text + l->s->n;
  while (q < end && *q != '"' && *q != '\n') q++;
  if (q >= end || *q != '"') {
    atvi_lang_error(l->s, at, "close it with \" on the same line", "this text in quotes has no end");
    return false;
  }
  char *copy = atvi_pool_strndup(l->s->pool, l->p + 1, (size_t)(q - l->p - 1));
  ast_token *t = copy ? push(l, TOK_STRING, at) : NULL;
  if (!t) {
    atvi_lang_nomem(l->s);
    return false;
  }
  t->text = copy;
  l->p = q + 1;
  return true;
}

static bool lex_name(lexer *l) {
  const char *q = l->p;
  while (is_letter((unsigned char)*q) || is_digit((unsigned char)*q)) q++;
  ast_word *w = atvi_lang_word(l->s, l->words, l->p, (size_t)(q - l->p));
  if (w && comes_later(w->keyword) && l->n && l->tok[l->n - 1].kind == TOK_LINE) l->n--;
  ast_token *t = w ? push(l, TOK_NAME, here(l)) : NULL;
  if (!t) return false;
  t->word = w;
  l->p = q;
  return true;
}

static bool lex_bracket(lexer *l, int c) {
  if (c == '(' || c == '[') {
    if (!ATVI_PUSH(l->s->pool, l->open, l->n_open, l->open_cap)) {
      atvi_lang_nomem(l->s);
      return false;
    }
    l->open[l->n_open++] = (ast_token){.kind = c, .at = here(l)};
    return true;
  }
  int want = c == ')' ? '(' : '[';
  if (l->n_open == 0 || l->open[l->n_open - 1].kind != want) {
    atvi_lang_error(l->s, here(l),
                    l->n_open ? "brackets must be closed in the order they were opened"
                              : "remove it, or open it before",
                    "this '%c' closes no '%c'", c, want);
    return false;
  }
  l->n_open--;
  return true;
}

static bool says(const ast_token *t, const char *text) {
  return t->kind == TOK_NAME && strcmp(t->word->text, text) == 0;
}

/* { opens a block in a statement of a simulator, an emulator or `each`, also on the line after it. Elsewhere
 * braces have no meaning. */
static bool opens_block(lexer *l) {
  if (l->in_block || l->n_open || !l->n) return false;
  bool next_line = l->tok[l->n - 1].kind == TOK_LINE;
  atvi_idx at = next_line ? l->before : l->first;
  if (at >= l->n) return false;
  bool simulator = says(&l->tok[at], "simulator"), emulator = says(&l->tok[at], "emulator");
  bool each = says(&l->tok[at], "each");
  if (next_line) {
    if (!(simulator && l->n == at + 2) && !(emulator && l->n == at + 3) && !each) return false;
    l->n--;
    l->first = at;
  }
  l->in_block = simulator || emulator;
  return l->in_block || each;
}

static bool lex_brace(lexer *l, int c) {
  atvi_place at = here(l);
  if (c == '{') {
    if (!ATVI_PUSH(l->s->pool, l->brace, l->n_brace, l->brace_cap)) return atvi_lang_nomem(l->s), false;
    l->brace[l->n_brace++] = at;
  } else {
    l->in_block = false;
    l->n_brace--;
  }
  l->p++;
  if (!push(l, c, at)) return false;
  l->first = l->n; /* a statement may begin here */
  return true;
}

/* What other languages write, and typesetters. */
static const struct {
  const char *text, *hint;
} FOREIGN[] = {
    {"&", "write 'and'"},
    {"|", "write 'or'"},
    {"!", "write 'not'; 'not equal' is !="},
    {"//", "comments start with #"},
    {";", "one statement per line, with nothing at its end; comments start with #"},
    {"**", "a power is written with ^: x^2"},
    {"%", "there is no such operator: write 5 % as 0.05, and the remainder of a by b as a - b*floor(a/b)"},
    {"{", "use ( ) around expressions and [ ] around indices and lists; blocks begin with 'each'"},
    {"}", "use ( ) around expressions and [ ] around indices and lists"},
    {"'", "a derivative is written dS/dt = ...; text goes in double quotes"},
    {"\xE2\x88\x92", "this is not the minus of the keyboard: write -"},
    {"\xE2\x80\x90", "this is not the minus of the keyboard: write -"},
    {"\xE2\x80\x91", "this is not the minus of the keyboard: write -"},
    {"\xE2\x80\x93", "this is not the minus of the keyboard: write -"},
    {"\xE2\x80\x94", "this is not the minus of the keyboard: write -"},
    {"\xE2\x80\x9C", "text goes in straight quotes: \"cases.csv\""},
    {"\xE2\x80\x9D", "text goes in straight quotes: \"cases.csv\""},
    {"\xE2\x80\x9E", "text goes in straight quotes: \"cases.csv\""},
    {"\xE2\x89\xA4", "write <="},
    {"\xE2\x89\xA5", "write >="},
    {"\xE2\x89\xA0", "write !="},
    {"\xE2\x88\x9E", "write inf"},
    {"\xC3\x97", "a product is written with *"},
    {"\xC2\xB7", "a product is written with *"},
    {"\xC2\xB2", "a power is written with ^: x^2"},
    {"\xC2\xB3", "a power is written with ^: x^3"},
    {"\xC2\xA0", "this is a no-break space: replace it by a plain one"},
    {"\xC2\xB5", "there are no Greek letters, so write mu: names are made of a-z, A-Z, 0-9 and _"},
};

/* Bytes of the UTF-8 character at p; 1 where it is none. */
static int character_bytes(const char *p) {
  int c = (unsigned char)*p, n = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC2 ? 2 : 1;
  for (int i = 1; i < n; i++)
    if (((unsigned char)p[i] & 0xC0) != 0x80) return 1;
  return n;
}

static bool lex_foreign(lexer *l) {
  int c = (unsigned char)*l->p, n = character_bytes(l->p);
  const char *hint = "names are made of the letters a to z and A to Z, digits and _";
  if (n == 2 && (c == 0xCE || c == 0xCF))
    hint = "there are no Greek letters, so write its name: names are made of a-z, A-Z, 0-9 and _";
  for (size_t i = 0; i < sizeof FOREIGN / sizeof *FOREIGN; i++) {
    size_t len = strlen(FOREIGN[i].text);
    if (strncmp(l->p, FOREIGN[i].text, len) != 0) continue;
    hint = FOREIGN[i].hint;
    if (c < 128) n = (int)len;
    break;
  }
  if ((c == '&' || c == '|') && l->p[1] == c) n = 2;
  if (c == '{' && l->in_block) hint = "a block ends with } before another begins";
  if (c == '}' && l->n_brace) hint = "brackets must be closed in the order they were opened";
  const ast_token *last = l->n ? &l->tok[l->n - 1] : NULL;
  if (c == '\'' && last && last->kind == TOK_NAME) {
    hint = atvi_pool_printf(l->s->pool, "write d%.60s/dt = ...", last->word->text);
    if (!hint) return atvi_lang_nomem(l->s), false;
  }
  if ((c > 32 && c < 127) || n > 1)
    atvi_lang_error(l->s, here(l), hint, "unexpected %s '%.*s'", c < 127 && n > 1 ? "operator" : "character",
                    n, l->p);
  else
    atvi_lang_error(l->s, here(l), hint, "unexpected character (byte 0x%02x)", (unsigned)c);
  return false;
}

static bool lex_punctuation(lexer *l) {
  static const struct {
    char text[3];
    int kind;
  } PAIRS[] = {{"<=", TOK_LE},    {">=", TOK_GE},      {"==", TOK_EQ},       {"!=", TOK_NE},
               {"..", TOK_RANGE}, {"+=", TOK_PLUS_EQ}, {"-=", TOK_MINUS_EQ}, {"*=", TOK_TIMES_EQ}};
  for (size_t i = 0; i < sizeof PAIRS / sizeof *PAIRS; i++)
    if (l->p[0] == PAIRS[i].text[0] && l->p[1] == PAIRS[i].text[1]) {
      if (!push(l, PAIRS[i].kind, here(l))) return false;
      l->p += 2;
      return true;
    }
  int c = (unsigned char)*l->p;
  bool doubled = (c == '*' || c == '/') && l->p[1] == c;
  if (c == '{' && opens_block(l)) return lex_brace(l, c);
  if (c == '}' && l->n_brace && !l->n_open) return lex_brace(l, c);
  if (!c || doubled || !strchr("+-*/^<>=~,:()[].", c)) return lex_foreign(l);
  if (strchr("()[]", c) && !lex_bracket(l, c)) return false;
  if (!push(l, c, here(l))) return false;
  l->p++;
  return true;
}

static bool lex_one(lexer *l) {
  int c = (unsigned char)*l->p;
  if (c == ' ' || c == '\t' || c == '\r') {
    l->p++;
    return true;
  }
  if (c == '\n') return lex_newline(l);
  if (c == '#') {
    while (l->p < l->s->text + l->s->n && *l->p != '\n') l->p++;
    return true;
  }
  if (is_digit(c) && date_shape(l->p)) return lex_date(l);
  if (is_digit(c) || (c == '.' && is_digit((unsigned char)l->p[1]))) return lex_number(l);
  if (c == '"') return lex_string(l);
  if (is_letter(c)) return lex_name(l);
  return lex_punctuation(l);
}

ast_token *atvi_lang_lex(ast_source *s, ast_words *words) {
  lexer l = {.s = s, .words = words, .p = s->text, .line_start = s->text, .line = 1};
  if (s->n >= 3 && memcmp(s->text, "\xEF\xBB\xBF", 3) == 0) l.line_start = l.p += 3;
  while (l.p < s->text + s->n)
    if (!lex_one(&l)) return NULL;
  if (l.n_open) {
    const ast_token *open = &l.open[l.n_open - 1];
    atvi_lang_error(s, open->at, "the statement goes on until the bracket is closed",
                    "this '%c' is never closed", open->kind);
    return NULL;
  }
  if (l.n_brace) {
    atvi_lang_error(s, l.brace[l.n_brace - 1], "the block ends with a }", "this '{' is never closed");
    return NULL;
  }
  if (!push(&l, TOK_LINE, here(&l)) || !push(&l, TOK_END, here(&l))) return NULL;
  return l.tok;
}

/* Error messages: path:line:column, what is wrong, the line itself, a caret, a hint. */

enum { WHAT = 800 };

atvi_status atvi_lang_nomem(ast_source *s) {
  if (s->status == ATVI_OK) s->status = ATVI_ENOMEM;
  return s->status;
}

void *atvi_lang_take(ast_source *s, atvi_idx count, size_t size) {
  void *p = atvi_pool_take(s->pool, count > 0 ? (size_t)count : 1, size);
  if (!p) atvi_lang_nomem(s);
  return p;
}

static void show(const ast_source *s, atvi_place at, char out[ATVI_EXCERPT_BYTES]) {
  atvi_io_excerpt(s->text, s->n, at.line, at.column, false, out);
}

atvi_status atvi_lang_error(ast_source *s, atvi_place at, const char *hint, const char *fmt, ...) {
  if (s->status != ATVI_OK) return s->status;
  char what[WHAT], shown[ATVI_EXCERPT_BYTES];
  va_list args;
  va_start(args, fmt);
  vsnprintf(what, sizeof what, fmt, args);
  va_end(args);
  atvi_io_excerpt_clean(what);
  show(s, at, shown);
  return s->status = ATVI_FAIL(s->ctx, ATVI_EMODEL, "%s:%d:%d: error: %s\n%s%s%s", s->path, at.line,
                               at.column, what, shown, hint ? "\nhint: " : "", hint ? hint : "");
}

/* "\nasked for in ..." and the line, or nothing where no statement asked. */
static const char *asked(const ast_source *s, atvi_place about) {
  char shown[ATVI_EXCERPT_BYTES];
  if (about.line <= 0) return "";
  show(s, about, shown);
  const char *text =
      atvi_pool_printf(s->pool, "\nasked for in %s:%d:%d\n%s", s->path, about.line, about.column, shown);
  return text ? text : "";
}

atvi_status atvi_lang_data_error(ast_source *s, const atvi_csv *csv, atvi_idx row, atvi_idx col,
                                 atvi_place about, const char *hint, const char *fmt, ...) {
  if (s->status != ATVI_OK) return s->status;
  char what[WHAT], cell[ATVI_EXCERPT_BYTES];
  va_list args;
  va_start(args, fmt);
  vsnprintf(what, sizeof what, fmt, args);
  va_end(args);
  atvi_io_excerpt_clean(what);
  atvi_place at = {row >= 0 ? csv->line[row] : 1,
                   row >= 0 && col >= 0 ? csv->column[row * csv->n_col + col] : 1};
  if (row >= 0 && col >= 0 && csv->kind[row * csv->n_col + col] != ATVI_CELL_NUMBER &&
      atvi_io_decimal_comma(csv->text[row * csv->n_col + col]))
    hint = "numbers have a decimal point: write 1.5, not 1,5";
  atvi_io_excerpt(csv->source, csv->n_source, at.line, at.column, true, cell);
  return s->status =
             ATVI_FAIL(s->ctx, ATVI_EDATA, "%s:%d:%d: error: %s\n%s%s%s%s", csv->path, at.line, at.column,
                       what, cell, asked(s, about), hint ? "\nhint: " : "", hint ? hint : "");
}

atvi_status atvi_lang_file_error(ast_source *s, atvi_status status, atvi_place about) {
  if (s->status != ATVI_OK) return s->status;
  if (status == ATVI_ENOMEM) return s->status = status;
  const char *told = atvi_errmsg(s->ctx);
  char *copy = atvi_pool_strndup(s->pool, told, strlen(told));
  if (!copy) return atvi_lang_nomem(s);
  if (status == ATVI_EDATA) return s->status = ATVI_FAIL(s->ctx, status, "%s%s", copy, asked(s, about));
  char shown[ATVI_EXCERPT_BYTES];
  show(s, about, shown);
  return s->status = ATVI_FAIL(s->ctx, status,
                               "%s:%d:%d: error: %s\n%s\nhint: this must be a CSV file that can be read",
                               s->path, about.line, about.column, copy, shown);
}

/* Edit distance with swaps of neighbours, given up above 2; long names are compared in their first letters. */
static int distance(const char *a, const char *b) {
  enum { CAP = 40 };
  int row[3][CAP + 1];
  int n = (int)strnlen(a, CAP), m = (int)strnlen(b, CAP);
  if (abs(n - m) > 2) return 9;
  for (int j = 0; j <= m; j++) row[0][j] = j;
  for (int i = 1; i <= n; i++) {
    int *now = row[i % 3], *up = row[(i + 2) % 3], *up2 = row[(i + 1) % 3];
    now[0] = i;
    for (int j = 1; j <= m; j++) {
      int d = up[j - 1] + (a[i - 1] != b[j - 1]);
      if (up[j] + 1 < d) d = up[j] + 1;
      if (now[j - 1] + 1 < d) d = now[j - 1] + 1;
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && up2[j - 2] + 1 < d)
        d = up2[j - 2] + 1;
      now[j] = d;
    }
  }
  return row[n % 3][m];
}

static int shared(const char *a, const char *b) {
  int n = 0;
  while (a[n] && a[n] == b[n]) n++;
  return n;
}

static int small(int c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; }

static bool same_letters(const char *a, const char *b) {
  while (*a && small(*a) == small(*b)) a++, b++;
  return small(*a) == small(*b);
}

void atvi_lang_guess(ast_guess *g, const char *candidate) {
  int d = same_letters(g->text, candidate) ? 0 : distance(g->text, candidate), n = (int)strlen(g->text);
  /* In a one-letter name everything is one edit away: no guess. Two edits need five letters. */
  int most = n >= 5 ? 2 : n >= 2 ? 1 : 0;
  if (d > most || (g->best && d > g->distance)) return;
  /* slips are rarer in the first letters: of sin and sign, sinn means the first */
  if (g->best && d == g->distance && shared(g->text, candidate) <= shared(g->text, g->best)) return;
  g->best = candidate;
  g->distance = d;
}
