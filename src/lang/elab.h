/* SPDX-License-Identifier: MIT */
/* Elaboration: from the tree to the description in lang.h.
 *
 * Names resolve on use. A const, let, derived or tracked element is evaluated once and kept (once
 * more inside increase(), where states mean their previous values, and per data set if it uses
 * data columns). An element met again while it is being evaluated is a circle. The work is
 * bounded by counters, so that no text takes long: see the limits below. */
#ifndef ATVI_LANG_ELAB_H
#define ATVI_LANG_ELAB_H

#include "lang/ast.h"

enum {
  ELAB_MAX_ELEMENTS = 200000, /* scalar elements of all arrays together */
  ELAB_MAX_PARAMS = 10000,
  ELAB_MAX_WORK = 2000000, /* expressions evaluated */
  ELAB_MAX_DEPTH = 1500,   /* evaluations inside each other */
  ELAB_MAX_DELAYS = 1000,  /* uses of delay(), in a block or outside */
  ELAB_MAX_CONDITIONS = 64 /* of pulses; ATVI_ODE_ROOTS */
};

#define ELAB_KIND(k) (1u << (k))
#define ELAB_ALL 0xFFFFFFFFu

typedef struct {
  atvi_idx lo, n;
  struct elab_symbol *set; /* NULL for a range without a name */
} elab_range;

typedef enum {
  SYM_SET,
  SYM_LABEL,
  SYM_CONST,
  SYM_PARAM,
  SYM_LET,
  SYM_FUNCTION,
  SYM_STATE,
  SYM_TABLE,
  SYM_DERIVED,
  SYM_TRACK,
  SYM_DATA,
  SYM_BLOCK
} elab_kind;

enum { MEMO_NONE, MEMO_BUSY, MEMO_DONE };

typedef struct {
  atvi_node node;
  int16_t state;
  int16_t data; /* data set it was evaluated for */
} elab_memo;

typedef struct elab_symbol {
  elab_kind kind;
  const ast_stmt *stmt;
  ast_word *word;
  atvi_place at;
  /* How many blocks `each` it is defined in. */
  int level;
  int n_dim;
  elab_range dim[AST_MAX_DIM]; /* SET: dim[0] */
  atvi_idx total;              /* elements */
  atvi_idx base;   /* PARAM, STATE: number of the first element; LABEL: position; TABLE, DATA: number */
  elab_memo *memo; /* [2][total] */
  bool busy, ready;
  const char *const *label; /* SET of labels: [n] */
  /* TABLE whose values are expressions: a polynomial in the time since the last knot, [n_coef][n + 1] by
   * power and knots passed */
  int n_coef;
  atvi_node *coef;
  /* TABLE that is a walk: its knots, and the parameters that are its first value and the later ones */
  atvi_idx n_knot;
  const double *knot;
  struct elab_symbol *first, *later;
  /* PARAM that is later values of a walk: the walk */
  struct elab_symbol *walk;
} elab_symbol;

typedef struct elab_binding {
  ast_word *word;
  atvi_node node;
  elab_symbol *array; /* a whole array, in place of a node */
  const struct elab_binding *next;
  const elab_symbol *set; /* the index set it runs over, if it is an index with labels */
} elab_binding;

/* Columns of a file that the numbers of a pulse come from. */
typedef struct {
  const atvi_csv *csv;
  /* [n] columns that are used, in the order of their first use. */
  atvi_idx n, cap, *column;
} elab_rows;

/* Where an expression stands. */
typedef struct {
  const elab_binding *vars;
  uint32_t allowed;        /* input kinds */
  const char *where;       /* "a prior": for messages */
  atvi_idx data;           /* data set whose columns may be used, -1 if none */
  bool prev;               /* inside increase() */
  bool next;               /* in a `next` equation itself */
  const elab_symbol *list; /* const array being filled element by element, or NULL */
  const atvi_idx *at;      /* its element: [n_dim] positions from 0 */
  /* The file of a pulse, whose columns may be used; `data` is then below -1 and its own. */
  elab_rows *rows;
  /* Names defined in this many blocks or more cannot be seen; 0: all can. */
  int level;
} elab_env;

typedef struct elab_active {
  const elab_symbol *symbol;
  const struct elab_active *outer;
} elab_active;

/* A label of a unit. */
typedef struct {
  const char *label;
  /* Unit of the enclosing block; 0 if there is none. */
  atvi_idx parent;
  /* Unit, or row of a file. */
  atvi_idx at;
} elab_label;

/* Rows of a file by unit: those of unit u are row[first[u] .. first[u + 1] - 1]. */
typedef struct {
  const atvi_csv *csv;
  atvi_idx *first, *row;
} elab_grouped;

/* A block `each`. */
typedef struct elab_each {
  const ast_stmt *stmt;
  /* The enclosing block; NULL: none. */
  const struct elab_each *outer;
  /* What its units see: statements outside, those of enclosing blocks, its own. */
  ast_file file;
  atvi_idx n_unit;
  /* [n_unit] in the order of the units, and sorted by label. */
  elab_label *unit, *sorted;
  /* Their file; csv NULL if the labels are written in the model. */
  elab_grouped rows;
  /* Each row of this file is a unit: `each row` of a file without such a column; NULL: labels are in a
   * column. */
  const atvi_csv *numbered;
  atvi_lang_block *block;
} elab_each;

/* A column of a file of units that is used. */
typedef struct {
  const char *name;
  const elab_each *each;
  atvi_idx column;
  atvi_place at;
} elab_covariate;

/* A quantity whose past is kept for convolve(). */
typedef struct {
  const ast_expr *use;
  /* An element of a let, or, if that is NULL, what has been evaluated. */
  elab_symbol *let;
  atvi_idx element;
  atvi_node node;
  /* [n] states that hold it 1, 2, ... steps ago. */
  atvi_idx n, cap, *state;
} elab_past;

/* An index whose values are looked at. */
typedef struct {
  atvi_node index;
  /* Where it stands, and dimension dim of what it belongs to. */
  const ast_expr *use;
  const elab_symbol *array;
  int dim;
  /* Its data set, and the column that holds labels; -1: none. */
  atvi_idx data, column;
} elab_index;

typedef struct {
  ast_source *s;
  ast_words *words;
  /* The whole model. */
  const ast_file *tree;
  /* The statements in sight: those outside blocks, or those that a unit sees. */
  const ast_file *file;
  /* [file->n] files of statements, read once. */
  elab_grouped *files;
  /* The block whose units are made, how deep it is, and the present unit of each level; NULL, 0: what stands
   * outside. */
  struct {
    elab_each *each;
    int level;
    atvi_idx unit[AST_MAX_LEVEL + 1];
    /* Blocks that are begun; of the whole model. */
    atvi_idx n_each;
  } in;
  struct {
    atvi_idx n, cap;
    elab_covariate *of;
  } covariate;
  const atvi_lang_opts *opts;
  atvi_graph *g;
  atvi_lang *lang;
  atvi_idx n_symbol;
  elab_symbol **symbol; /* in the order of the file */
  /* What is being evaluated, and limits to it. */
  struct {
    const elab_active *active;
    int depth;
    atvi_idx nodes, elements;
  } effort;
  const ast_stmt **data_stmt; /* [n_data] */
  const ast_stmt *simulator;  /* NULL: there is none */
  const ast_stmt *start;      /* the line `start` that holds; NULL: there is none */
  /* Emulators with a block of their own: the first of lang->emulator. */
  struct {
    atvi_idx n;
    const ast_stmt **stmt; /* [n] */
  } own;
  /* What convolve() looks back at, and how many states that takes. */
  struct {
    atvi_idx n, cap, n_lag;
    elab_past **of;
  } past;
  struct {
    atvi_idx n, cap;
    elab_index *of;
  } index;
  /* Room in the lists of lang. */
  struct {
    atvi_idx emulator, pulse, trajectory, delay;
  } cap;
  int n_condition; /* pulses with one */
  int n_delay_call;
  const ast_stmt ***observed; /* [n_data][columns] who observes it; NULL where the file is missing */
  /* [n_observe] data columns that its arguments use, known after the first unit. */
  unsigned char **used;
  /* [pulses] of those from files. */
  elab_rows *pulse_rows;
} elab;

/* elab_name.c */
bool atvi_lang_declare(elab *e);
/* Refuses names that end in __: they are columns of the output. */
bool atvi_lang_free_name(elab *e, const char *name, atvi_place at);
bool atvi_lang_shapes(elab *e);
bool atvi_lang_shape(elab *e, elab_symbol *sym);
elab_symbol *atvi_lang_symbol(elab *e, ast_word *word, elab_kind kind);
const char *atvi_lang_kind_name(elab_kind kind);
const char *atvi_lang_element_name(elab *e, const char *base, int n_dim, const elab_range *dim, atvi_idx k);
/* The set if it has labels: only then is an index of another set a mistake. */
const elab_symbol *atvi_lang_labelled(const elab_range *r);
void atvi_lang_position(int n_dim, const elab_range *dim, atvi_idx k, atvi_idx *at);

/* The elements that an indexed statement speaks of. */
typedef struct {
  int n_dim;
  const ast_dim *dim;
  elab_range range[AST_MAX_DIM];
  atvi_idx total;
  elab_binding var[AST_MAX_DIM];
  const elab_binding *outer;
  const elab_binding *vars; /* after atvi_lang_loop_at: those of the loop, then the outer ones */
  atvi_idx at[AST_MAX_DIM]; /* index values */
} elab_loop;
bool atvi_lang_loop(elab *e, const elab_binding *outer, int n_dim, const ast_dim *dim, bool single,
                    elab_loop *loop);
void atvi_lang_loop_at(elab *e, elab_loop *loop, atvi_idx k);
/* Number of the element at index values at[] of an array; -1 after an error. */
atvi_idx atvi_lang_offset(elab *e, const elab_symbol *sym, int n, const atvi_idx *at, atvi_place place);

/* elab_expr.c, elab_call.c */
atvi_node atvi_lang_eval(elab *e, const elab_env *v, const ast_expr *x);
atvi_node atvi_lang_call(elab *e, const elab_env *v, const ast_expr *x);
atvi_node atvi_lang_reduce(elab *e, const elab_env *v, const ast_expr *x);
atvi_node atvi_lang_element(elab *e, const elab_env *v, const ast_expr *use, elab_symbol *sym, atvi_idx k);
elab_symbol *atvi_lang_find(const elab_env *v, ast_word *word, const elab_binding **binding);
/* csv: a file whose columns may be meant, or NULL. */
bool atvi_lang_unknown(elab *e, const ast_expr *x, bool function, const atvi_csv *csv);
bool atvi_lang_number(elab *e, const elab_binding *vars, const ast_expr *x, const char *where, double *value);
bool atvi_lang_whole(elab *e, const elab_binding *vars, const ast_expr *x, const char *where,
                     atvi_idx *value);
bool atvi_lang_constant(const elab *e, atvi_node x, double *value); /* false for ATVI_NODE_NONE */
/* Fills a const array from its file. */
bool atvi_lang_const_file(elab *e, elab_symbol *sym);

/* Number of the element that x names; -1 after an error. */
atvi_idx atvi_lang_element_of(elab *e, const elab_env *v, const ast_expr *x, const elab_symbol *sym);
/* The element of number k of a parameter, state, const, let, ... */
atvi_node atvi_lang_at_offset(elab *e, const elab_env *v, const ast_expr *x, elab_symbol *sym, atvi_idx k);

/* convolve(), of elab_call.c */
/* Whether a statement uses convolve(). */
bool atvi_lang_convolves(const ast_stmt *st);
/* Makes the states that it needs, after all else. */
bool atvi_lang_lags(elab *e);

/* elab_pick.c */
/* Whether an index of x is a column of the data or of the units' file, or a table, or made of such. */
bool atvi_lang_index_varies(const elab *e, const elab_env *v, const ast_expr *x);
/* The name of an index set as the column of that name; ATVI_NODE_NONE also if there is none. */
atvi_node atvi_lang_set_column(elab *e, const elab_env *v, const ast_expr *x, const elab_symbol *set);
/* Looks at the values of all such indices again, for the data of another unit; and at those of the unit
 * itself. */
bool atvi_lang_check_indices(elab *e);
bool atvi_lang_check_unit_indices(elab *e, const double *covariate);
/* The element that x names then. */
atvi_node atvi_lang_pick(elab *e, const elab_env *v, const ast_expr *x, elab_symbol *sym);

/* elab_data.c: columns */
/* How the indices of an element are written in the name of its column. Begins as {0}. */
typedef struct {
  int n;
  const char *part[AST_MAX_DIM];
  char number[AST_MAX_DIM][24];
} elab_spelling;
/* Adds an index: a label of the set if there is one, or the number. */
void atvi_lang_spell(elab_spelling *s, const elab_symbol *labels, atvi_idx value);
/* Position of the column of an element, by the spellings cases.1, cases_1, cases1, cases[1]; -1 if none. */
atvi_idx atvi_lang_spelled(const atvi_csv *csv, const char *base, const elab_spelling *s);
/* Whether the file has a column, or columns of elements, of that name. */
bool atvi_lang_has_column(const atvi_csv *csv, const ast_expr *x);
/* Complains about an index that is a column of the data; true: it did. */
bool atvi_lang_column_as_index(elab *e, const elab_env *v, const ast_expr *x);
/* A name the model does not define as a column of the data; *found also after an error. */
atvi_node atvi_lang_column(elab *e, const elab_env *v, const ast_expr *x, bool *found);
/* For a hint: which columns a file has. */
const char *atvi_lang_columns(elab *e, const atvi_csv *csv);
/* Position of a column, -1 after an error that names those that exist. */
atvi_idx atvi_lang_find_column(elab *e, const atvi_csv *csv, const char *name, atvi_place at);

/* elab_units.c */
/* The rows of a statement's file that belong to the present unit; all, if it stands outside blocks. */
bool atvi_lang_unit_rows(elab *e, const ast_stmt *st, const atvi_csv *all, const atvi_csv **csv);
/* "s01", "north.a": the present unit of that level's block. */
const char *atvi_lang_unit_label(elab *e, int level);
/* A column of the units' file as a name. */
atvi_node atvi_lang_covariate(elab *e, const elab_env *v, const ast_expr *x, bool *found);
/* Whether x names such a column. */
bool atvi_lang_is_covariate(const elab *e, const elab_env *v, const ast_expr *x);
/* Where covariate k of the present unit stands in its file; false: nowhere. */
bool atvi_lang_covariate_cell(const elab *e, atvi_idx k, const atvi_csv **csv, atvi_idx *row,
                              atvi_idx *column);
/* Complains about a name that is defined inside a block alone; true: it did. */
bool atvi_lang_belongs(elab *e, const ast_word *word, atvi_place at);

/* Blocks and their units, after all that stands outside. */
bool atvi_lang_count_blocks(elab *e);
bool atvi_lang_blocks(elab *e);
/* Whether there is a statement of that kind, also in blocks. */
bool atvi_lang_has_statement(atvi_idx n, const ast_stmt *stmt, ast_keyword kind);
/* elab.c: numbers parameters and states in the order of the statements. */
void atvi_lang_numbers(elab *e);

/* elab_event.c: times and numbers of a pulse from a file. */
bool atvi_lang_pulse_rows(elab *e, const ast_stmt *st, elab_rows *rows);
bool atvi_lang_pulse_values(elab *e, const ast_stmt *st, const elab_rows *rows, atvi_lang_pulse *pulse);
/* The earliest time of a pulse from a file in sight; inf if there is none. false after an error. */
bool atvi_lang_pulse_first(elab *e, double *first);

/* The rest, one file each; all return false after an error. */
bool atvi_lang_settings(elab *e); /* elab_time.c: title, calendar, solver, step, kind of model */
bool atvi_lang_tables(elab *e);
/* elab_table.c: the parameters of a walk when it is declared; its knots; its values at them. */
bool atvi_lang_walk_declare(elab *e, elab_symbol *walk, elab_symbol *first, elab_symbol *later);
bool atvi_lang_walks(elab *e);
/* Makes the prior of an increment, param number `index`, that of the value. */
bool atvi_lang_walk_prior(elab *e, const elab_symbol *walk, atvi_idx index, atvi_lang_param *p);
/* The value of a table now, made ready if it is not. */
atvi_node atvi_lang_table_node(elab *e, elab_symbol *sym, const ast_expr *use);
bool atvi_lang_time(elab *e, const ast_expr *x, const char *where, double *value); /* a number or a date */
bool atvi_lang_start(elab *e);
bool atvi_lang_params(elab *e); /* elab_param.c */
bool atvi_lang_values(elab *e); /* elab.c: derived, track, logp */
bool atvi_lang_states(elab *e); /* elab_state.c */
bool atvi_lang_pulses(elab *e);
/* elab_event.c: a time of a pulse: a number or date in *time, or *time + *lag where it depends on parameters
 * (*lag is ATVI_NODE_NONE if not), never before the start. */
bool atvi_lang_event_time(elab *e, const elab_binding *vars, const ast_expr *x, double *time, atvi_node *lag);
/* at(A, 5), maximum(A, 0, 24), time_of_maximum(A, 0, 24), integral(A, 0, 24), where the model has no function
 * of that name. *found also after an error. */
/* delay(S, tau), likewise. */
atvi_node atvi_lang_delay_call(elab *e, const elab_env *v, const ast_expr *x, bool *found);
atvi_node atvi_lang_trajectory_call(elab *e, const elab_env *v, const ast_expr *x, bool *found);
/* Complains about `what` where the solver has fixed steps. */
bool atvi_lang_can_move(elab *e, atvi_place at, const char *what);
/* The condition of a pulse, and an expression that becomes positive when it becomes true. */
bool atvi_lang_condition(elab *e, const elab_binding *vars, const ast_expr *x, atvi_lang_pulse *pulse);
bool atvi_lang_elab_data(elab *e); /* elab_data.c */
/* The first and the last time in all data of the whole model; first > last if there is none. */
bool atvi_lang_data_range(elab *e, double *first, double *last);
bool atvi_lang_elab_observe(elab *e); /* elab_observe.c */
/* elab_density.c: the distribution of a statement; then its arguments arg[], of which constants are in their
 * ranges. */
bool atvi_lang_dist(elab *e, const ast_stmt *st, bool prior, atvi_dist *dist);
bool atvi_lang_dist_args(elab *e, const elab_env *v, const ast_stmt *st, atvi_dist dist, atvi_node *arg);
/* normal_lpdf(y, mean, sd), poisson_lpmf(y, mean), weibull_lccdf(y, shape, scale) and the like, and other
 * functions whose names are free, where the model has none of that name. *found also after an error. */
atvi_node atvi_lang_density(elab *e, const elab_env *v, const ast_expr *x, bool *found);
/* The terms of an observation. */
bool atvi_lang_terms(elab *e, const ast_stmt *st, const elab_binding *vars, atvi_lang_observe *o);
/* elab_simulator.c: all but the inputs; then those, which depend on who uses what. */
bool atvi_lang_elab_simulator(elab *e);
bool atvi_lang_simulator_inputs(elab *e);
/* Position of the output of the simulator; -1 if there is none. */
atvi_idx atvi_lang_elab_output(const elab *e, const char *name);
/* Parameters that a list of names stands for, in that order. */
bool atvi_lang_inputs(elab *e, const ast_setting *x, atvi_idx *n, const atvi_idx **input);
/* The setting of a block; NULL: not given. */
const ast_setting *atvi_lang_setting(const ast_stmt *st, const char *word);
/* elab_emulator.c: names first, for observations to refer to; settings when inputs are known. */
bool atvi_lang_emulator_names(elab *e);
bool atvi_lang_emulators(elab *e);
/* Path of a file that the model names; of one that belongs to the simulator, which stands next to the model. */
const char *atvi_lang_path(elab *e, const char *file);
const char *atvi_lang_path_beside(elab *e, const char *file);
/* A cell as a time of the model: a number, or a date where there is a calendar. */
bool atvi_lang_time_cell(elab *e, const atvi_csv *csv, atvi_idx row, atvi_idx col, atvi_place about,
                         double *t);
/* Reads the file that a statement names. */
bool atvi_lang_csv(elab *e, const ast_stmt *st, const atvi_csv **csv);

#endif
