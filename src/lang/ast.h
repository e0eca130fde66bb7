/* SPDX-License-Identifier: MIT */
/* The inside of the language: words, tokens, syntax tree, error messages.
 *
 * Names are interned: equal names are one ast_word, so that looking a name up is following a
 * pointer. Everything lives in the pool of the model. The first error is kept in ast_source;
 * after it functions return NULL and callers only have to stop. */
#ifndef ATVI_LANG_AST_H
#define ATVI_LANG_AST_H

#include "lang/lang.h"

enum {
  AST_MAX_DIM = 3,
  AST_MAX_LEVEL = 4,        /* blocks inside each other */
  AST_MAX_DEPTH = 200,      /* nested brackets */
  AST_MAX_CHAIN = 1000,     /* height of a tree; a + b + c + ... counts too */
  AST_MAX_TEXT = 256 * 1024 /* bytes of a model file */
};

typedef struct {
  atvi_ctx *ctx;
  atvi_pool *pool;
  const char *path;
  const char *text; /* [n], then a NUL */
  size_t n;
  atvi_status status; /* of the first error */
} ast_source;

/* The one way to complain: keeps the first error and returns its status. hint may be NULL. */
atvi_status atvi_lang_error(ast_source *s, atvi_place at, const char *hint, const char *fmt, ...)
    ATVI_PRINTF(4, 5);
/* The same about a cell of a data file (row < 0: the header line); `about` is the statement that wanted it,
 * line 0 if none. */
atvi_status atvi_lang_data_error(ast_source *s, const atvi_csv *csv, atvi_idx row, atvi_idx col,
                                 atvi_place about, const char *hint, const char *fmt, ...) ATVI_PRINTF(7, 8);
/* After a file that the statement at `about` names could not be read: adds that to what was said of it. */
atvi_status atvi_lang_file_error(ast_source *s, atvi_status status, atvi_place about);
atvi_status atvi_lang_nomem(ast_source *s);
/* Memory from the pool; NULL also marks the source as failed. */
void *atvi_lang_take(ast_source *s, atvi_idx count, size_t size);

typedef enum {
  KW_NONE,
  /* statements */
  KW_MODEL,
  KW_INDEX,
  KW_CONST,
  KW_PARAM,
  KW_LET,
  KW_FUNCTION,
  KW_STATE,
  KW_NEXT,
  KW_STEP,
  KW_START,
  KW_BURNIN,
  KW_CALENDAR,
  KW_TABLE,
  KW_PULSE,
  KW_DATA,
  KW_OBSERVE,
  KW_DERIVED,
  KW_TRACK,
  KW_LOGP,
  KW_SOLVER,
  /* statements whose words stay free for names: a line that begins with one is one */
  KW_FOLDER,
  KW_WALK,
  KW_SIMULATOR,
  KW_EMULATOR,
  KW_EACH,
  /* expressions */
  KW_IF,
  KW_THEN,
  KW_ELSE,
  KW_AND,
  KW_OR,
  KW_NOT,
  KW_IN,
  KW_INF,
  KW_PI,
  KW_T,
  KW_SUM,
  KW_PROD,
  KW_INCREASE,
  KW_BUILTIN /* name of a function; ast_word.builtin says which */
} ast_keyword;

struct elab_symbol;

typedef struct ast_word {
  const char *text;
  uint32_t hash;
  ast_keyword keyword;
  int builtin;
  struct elab_symbol *symbol; /* what the model defines under this name */
  struct ast_word *next;      /* in its bucket */
} ast_word;

enum { AST_BUCKETS = 1024 };

typedef struct {
  ast_word *bucket[AST_BUCKETS];
} ast_words;

ast_word *atvi_lang_word(ast_source *s, ast_words *words, const char *text, size_t n);
bool atvi_lang_words_init(ast_source *s, ast_words *words); /* enters keywords and functions */

enum { /* tokens; single characters stand for themselves */
       TOK_END = 0,
       TOK_LINE = 256, /* end of a statement's line */
       TOK_NUMBER,
       TOK_NAME,
       TOK_STRING,
       TOK_DATE,
       TOK_LE,
       TOK_GE,
       TOK_EQ,
       TOK_NE,
       TOK_RANGE,
       TOK_PLUS_EQ,
       TOK_MINUS_EQ,
       TOK_TIMES_EQ
};

typedef struct {
  int kind;
  atvi_place at;
  double number;    /* NUMBER; DATE: days since 1970-01-01 */
  ast_word *word;   /* NAME */
  const char *text; /* STRING */
} ast_token;

/* Cuts the text into tokens, ending with TOK_LINE, TOK_END. NULL on error. */
ast_token *atvi_lang_lex(ast_source *s, ast_words *words);

typedef enum {
  EX_NUMBER,
  EX_DATE,
  EX_TIME, /* t */
  EX_NAME, /* word, arg[n] indices; qualifier: data set */
  EX_NEG,
  EX_NOT,
  EX_BINARY, /* op */
  EX_IF,     /* arg[0] condition, arg[1], arg[2] */
  EX_CALL,   /* word, arg[n] */
  EX_REDUCE, /* op '+' or '*', dim[n_dim], arg[0] body */
  EX_LIST,   /* arg[n] */
} ast_kind;

typedef struct ast_expr ast_expr;

typedef struct {
  ast_word *var;     /* NULL: none */
  ast_expr *lo, *hi; /* hi NULL: lo is the name of a set, or an index */
  atvi_place at;
} ast_dim;

struct ast_expr {
  ast_kind kind;
  int op; /* token of a binary operator; KW_AND and KW_OR as 1000 + keyword */
  int height;
  int n_dim;
  atvi_idx n;
  atvi_place at;
  double number;
  ast_word *word, *qualifier;
  ast_expr **arg;
  ast_dim *dim;
};

/* A line inside the { } of a simulator or an emulator. What a setting does not have is NULL. */
typedef struct {
  const char *word; /* one of the words of its block */
  atvi_place at;
  const char *name; /* of an output; the kernel, what is sent, the unit of a limit */
  atvi_place name_at;
  bool from;             /* an output says where it comes from; file NULL then: standard output */
  const char *file, *to; /* also the command */
  atvi_place file_at, to_at;
  ast_expr *first, *last; /* columns by position */
  atvi_place column_at;
  const char *format, *column, *time; /* of an output */
  atvi_place format_at, time_at;
  atvi_idx n; /* numbers, or inputs */
  ast_expr **value;
} ast_setting;

typedef struct ast_stmt {
  ast_keyword kind; /* KW_STATE ...; equations: KW_NEXT, or KW_NONE for d/dt */
  atvi_place at;    /* of the name if there is one */
  ast_word *name, *qualifier;
  int n_dim;
  ast_dim dim[AST_MAX_DIM];
  ast_expr *value; /* right-hand side; list of a table or pulse: see times */
  /* TABLE: list of times, NULL for monthly; PULSE: list, NULL for every `step` from `lower` to `upper` */
  ast_expr *times;
  struct { /* param, observe */
    ast_word *name;
    atvi_place at;
    ast_expr *args; /* EX_CALL: the distribution with its arguments */
    atvi_idx n_term;
    ast_expr **term; /* OBSERVE: [n_term] EX_CALL, a sum of processes instead of a distribution */
  } dist;
  bool flat; /* PARAM: no prior */
  struct {   /* bounds, limits */
    bool given;
    atvi_place at;
    ast_expr *lower, *upper;
  } range;
  struct
  { /* WALK: `dist` has its increments, this the first value; `step`, `lower`, `upper`: every, from, to */
    ast_word *dist;
    ast_expr *args;
    atvi_place at;
    bool linear;
  } walk;
  struct {
    const atvi_csv *csv; /* of DATA, if it has been read as a whole */
    const char *name;
    atvi_place at;
  } file;
  struct { /* of the file */
    const char *time, *value;
    atvi_place time_at, at;
    ast_expr *first, *last; /* OBSERVE: by position; else by name */
  } column;
  struct { /* labels of an index, arguments of a function, names of columns */
    atvi_idx n;
    ast_token *token; /* [n] */
  } words;
  ast_word *option; /* kind, name or unit of a table, solver or calendar; PARAM: the map */
  struct {
    ast_expr *tol, *atol, *maxsteps;
  } solver;
  ast_expr *step;
  double date; /* of the calendar */
  struct {
    int op;         /* '+', '-', '=' or '*' */
    ast_expr *when; /* its condition, instead of times */
  } pulse;
  struct {
    bool steady;     /* from a steady state; value may then be missing */
    ast_expr *given; /* what the names in words are until then; NULL: nothing else than later */
  } start;
  struct { /* SIMULATOR, EMULATOR: its lines */
    atvi_idx n;
    ast_setting *setting; /* [n] */
  } settings;
  /* How many blocks `each` it stands in. */
  int level;
  struct { /* EACH: its statements; labels are in words, or in the file */
    atvi_idx n;
    struct ast_stmt *stmt; /* [n] */
  } body;
} ast_stmt;

typedef struct {
  atvi_idx n;
  ast_stmt *stmt;
} ast_file;

/* Text to tree. Errors are in s->status. */
bool atvi_lang_parse_text(ast_source *s, ast_words *words, ast_file *file);

/* The parser's state, shared by parse.c and parse_expr.c. */
typedef struct {
  ast_source *s;
  ast_words *words;
  const ast_token *tok; /* the present token */
  int depth;
  /* Blocks that are open. */
  int level;
} ast_parser;

ast_expr *atvi_lang_expr(ast_parser *p);
ast_expr *atvi_lang_expr_sum(ast_parser *p); /* without comparisons and logic */
ast_expr *atvi_lang_expr_list(ast_parser *p, atvi_place at, atvi_idx n, ast_expr **arg);
ast_expr *atvi_lang_expr_args(ast_parser *p, ast_word *word, atvi_place at); /* at '(': a call */
bool atvi_lang_dims(ast_parser *p, int *n, ast_dim *dim, int closing);       /* after the opening bracket */
bool atvi_lang_expect(ast_parser *p, int kind, const char *hint);
const char *atvi_lang_token_text(ast_parser *p, const ast_token *tok);
/* Complains about a word of the language where a name of the model's own is needed; true: it did. */
bool atvi_lang_reserved(ast_parser *p, const ast_token *t);
bool atvi_lang_at(const ast_parser *p, const char *text);
bool atvi_lang_eat(ast_parser *p, const char *text); /* false: it is something else, nothing is said */

/* Kinds of processes by name; -1 if it is none. name of the k-th; NULL past the end. */
int atvi_lang_process(const char *name);
const char *atvi_lang_process_name(int k);

/* The candidate nearest to text (edit distance <= 2), or NULL: keep calling with the best so far. */
typedef struct {
  const char *text, *best;
  int distance;
} ast_guess;
void atvi_lang_guess(ast_guess *g, const char *candidate);

/* Functions of the language. */
typedef struct {
  const char *name;
  int min_arg, max_arg;
  int op; /* atvi_op of the direct ones, -1 - k for the k-th special one */
} ast_builtin;
enum { FN_LOG10, FN_LOGIT, FN_PHI, FN_MIN, FN_MAX, FN_LOG_MIX };
const ast_builtin *atvi_lang_builtin(int k); /* NULL past the end */

#endif
