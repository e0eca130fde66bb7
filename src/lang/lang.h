/* SPDX-License-Identifier: MIT */
/* From a model file to a model description: names, priors, equations and data, with every
 * expression a node of one graph. docs/language.md is the reference of the language.
 *
 * Reading order: ast.h, lex.c, parse*.c (text to tree), elab.h, elab.c, elab_*.c (tree to this
 * description), dist*.c, table.c. */
#ifndef ATVI_LANG_LANG_H
#define ATVI_LANG_LANG_H

#include "graph/graph.h"
#include "io/csv.h"
#include "lang/dist.h"

/* Input kinds of the graph. */
enum {
  ATVI_IN_PARAM,      /* index: scalar parameter */
  ATVI_IN_TIME,       /* index 0: t */
  ATVI_IN_STATE,      /* index: scalar state */
  ATVI_IN_PREV,       /* index: scalar state at the previous row of the data set (start time for the first) */
  ATVI_IN_TABLE,      /* index 2k, 2k+1: value of table k now = [2k] + [2k+1] * t */
  ATVI_IN_DATA,       /* index: column of the observation's data set, in the current row */
  ATVI_IN_HOIST,      /* made by the model: work done once per point */
  ATVI_IN_SEED,       /* made by the model: adjoint seeds */
  ATVI_IN_DELAY = 10, /* index: delayed state; in equations alone */
  ATVI_IN_TRAJECTORY = 9, /* index: quantity of the path; in derived quantities alone */
};

typedef enum { ATVI_MODEL_STATIC, ATVI_MODEL_ODE, ATVI_MODEL_MAP } atvi_model_kind;
typedef enum { ATVI_SOLVER_DEFAULT, ATVI_SOLVER_RK45, ATVI_SOLVER_RK4, ATVI_SOLVER_STIFF } atvi_solver_kind;

typedef struct {
  int line, column; /* 1-based */
} atvi_place;

typedef struct {
  const char *name; /* "beta.2" */
  atvi_dist dist;
  int n_arg;
  atvi_node arg[ATVI_DIST_ARGS]; /* may depend on other parameters */
  double lower, upper;           /* box of the support, from prior and bounds; infinite where open */
  bool truncated;                /* bounds were given: the density is renormalised to them */
  bool flat;       /* no prior: the one here serves as reference, and log.extra takes it away again */
  const char *map; /* "auto" unless the file says otherwise */
  atvi_place place;
} atvi_lang_param;

typedef struct {
  const char *name;
  atvi_node node;
} atvi_lang_value;

typedef struct {
  const char *name;
  atvi_node init; /* depends on parameters only */
  atvi_node rhs;  /* dy/dt, or the next value */
  atvi_node rest; /* dy/dt on the way to a steady start; rhs where nothing else is given for it */
} atvi_lang_state;

typedef enum {
  ATVI_TABLE_STEP,
  ATVI_TABLE_LINEAR,
  ATVI_TABLE_MONTH,
  /* Values are expressions of parameters, or a spline: the table says where in it t is, [2k] = how many knots
   * have been passed and [2k+1] = the time of the last one (of the first before it), and expressions pick
   * coefficients by that. */
  ATVI_TABLE_SEGMENT,
  /* Two numbers for each segment, [2k] = v[2j] and [2k+1] = v[2j+1] where j knots have been passed:
   * coefficients of a spline from a file, which stand in the two tables after its SEGMENT. */
  ATVI_TABLE_PAIR
} atvi_table_kind;

typedef struct {
  const char *name;
  atvi_table_kind kind;
  atvi_idx n;      /* knots; 12 for MONTH */
  const double *t; /* [n] ascending; NULL for MONTH */
  const double *v; /* [n]; NULL for SEGMENT; [2(n + 1)] for PAIR */
} atvi_lang_table;

struct atvi_lang;
/* Whether t is a time for which the calendar has months, some 8000 years around 1970. */
bool atvi_lang_has_month(const struct atvi_lang *lang, double t);

/* At t, going forward: value = a + b t (SEGMENT: see there) until *next (inf if for ever). Before the first
 * knot the first value holds, after the last the last. Where there are no months, a monthly table has its
 * first value. */
void atvi_lang_table_at(const struct atvi_lang *lang, const atvi_lang_table *table, double t, double *a,
                        double *b, double *next);

/* What a pulse does with its amounts. */
typedef enum { ATVI_PULSE_ADD, ATVI_PULSE_SET, ATVI_PULSE_SCALE } atvi_pulse_how;

typedef struct {
  atvi_idx n_time;
  const double *time; /* [n_time] ascending */
  /* the times are time[i] + lag, which depends on parameters */
  bool moves;
  atvi_node lag;
  /* it has no times, and acts when `holds` becomes true, which is when `when` becomes positive; both may
   * depend on states */
  bool conditional;
  atvi_node when, holds;
  atvi_pulse_how how;
  atvi_idx n;
  const atvi_idx *state; /* [n] states that change */
  atvi_node *amount;     /* [n] what is added, the new value, or the factor, from the state just before */
  /* Numbers that come with each time, from a file; 0 if there is none. */
  atvi_idx n_value;
  /* [n_time][n_value] inputs ATVI_IN_DATA of `amount`: index k is value k of the present time. */
  const double *value;
  /* At most this many of its times coincide, in any unit; 0 without values. */
  atvi_idx n_same;
} atvi_lang_pulse;

/* A state some time ago. */
typedef struct {
  atvi_idx state;
  atvi_node lag; /* a constant, or of parameters */
} atvi_lang_delay;

/* What a derived quantity may ask of the way the states take. */
typedef enum {
  ATVI_TRAJECTORY_AT,
  ATVI_TRAJECTORY_MAXIMUM,
  ATVI_TRAJECTORY_TIME_OF_MAXIMUM,
  ATVI_TRAJECTORY_INTEGRAL
} atvi_trajectory_kind;

typedef struct {
  atvi_trajectory_kind kind;
  atvi_node node;  /* of parameters, states, time and tables */
  double from, to; /* AT: both are its time */
} atvi_lang_trajectory;

typedef struct {
  const char *name;    /* "" if the file did not give one */
  const char *path;    /* as read */
  const atvi_csv *csv; /* NULL where the file is missing and that was allowed */
  atvi_idx n_row;
  const char *time_name; /* the time column's name as the model file has it; NULL if the data have no time */
  /* [n_row] ascending, in model time; NULL if the data have no time (where the start is steady: the start) */
  const double *time;
  atvi_idx n_col;      /* columns as inputs of kind ATVI_IN_DATA */
  const double *value; /* [n_row][n_col] numbers; NaN where missing */
  /* Which statement it is of: units of a block have parts of the same file. */
  atvi_idx file;
  /* Whose it is, in the description of a whole model with blocks: a unit of the target, 0 for what is common. */
  atvi_idx unit;
} atvi_lang_data;

/* Observations that are a sum of processes in time: emulator(flow, sill) + exponential(v, l) + white(s2). */
typedef enum {
  ATVI_TERM_EMULATOR,    /* arg[0]: sill, or ATVI_NODE_NONE: the estimated one */
  ATVI_TERM_EXPONENTIAL, /* arg[0]: variance, arg[1]: range */
  ATVI_TERM_MATERN32,
  ATVI_TERM_MATERN52,
  ATVI_TERM_WHITE /* arg[0]: variance */
} atvi_term_kind;

enum {
  ATVI_LANG_TERMS = 8,
  ATVI_LANG_TERM_STATES = 8
}; /* most in a sum; matern32 has 2 states, matern52 3 */

typedef struct {
  atvi_term_kind kind;
  atvi_idx emulator; /* which; EMULATOR only, else -1 */
  atvi_node arg[2];  /* depend on parameters only */
  atvi_place place;
} atvi_lang_term;

/* A file of numbers, one line per run (or per time); columns by position (1-based), first .. last (0: to the
 * end, of outputs alone). */
typedef struct {
  const char *path; /* to be opened as it is; NULL: not given */
  atvi_idx first, last;
  atvi_place place;
} atvi_lang_matrix;

typedef struct {
  const char *name;
  atvi_idx n_input;
  const atvi_idx *input;             /* [n_input] parameters, in the order of the columns of designs */
  atvi_lang_matrix designs, outputs; /* ready-made runs; path NULL: those of the simulator */
  atvi_lang_matrix mean;             /* already taken off the outputs, and added again; path NULL: none was */
  atvi_lang_matrix times; /* one time per output; path NULL: 1, 2, ... (a simulator's: as its output says) */
  const char *kernel;     /* "exponential", "matern32", "matern52", "squared"; NULL: default */
  atvi_idx n_length;
  const double *length;              /* [n_length = n_input] held; NULL: estimated */
  double nugget, time_length, basis; /* NaN: estimated; basis NaN: none */
  atvi_place place;
} atvi_lang_emulator;

/* One output of a simulator: a scalar or a series. */
typedef struct {
  const char *name;
  const char *file;   /* in the run's folder; NULL: standard output */
  const char *format; /* "csv", "json", "columns" */
  /* name or position (as text) of the value column, or key of a JSON object; NULL: output's name */
  const char *column;
  /* the same of the time column; NULL: a scalar, or 1, 2, ...; of a worker: "time", if its answer has that */
  const char *time;
  atvi_place place;
} atvi_lang_output;

typedef struct {
  const char *from, *to; /* template, to be opened as it is; file that is made of it in the run's folder */
  atvi_place place;
} atvi_lang_template;

typedef struct {
  bool given;
  const char
      *command; /* with {name} for parameters, {{ and }} for braces; run by the shell in the run's folder.
                        * A first word that is a path, and {here}, are absolute already */
  bool worker;  /* stays alive: a line of JSON in, a line of JSON out */
  bool send_json, send_environment;
  atvi_idx n_template;
  const atvi_lang_template *templates;
  atvi_idx n_output;
  const atvi_lang_output *output;
  double limit_s; /* time limit of a run; inf: none */
  int jobs;       /* at once; 0: one per core */
  int retries;    /* after a failure */
  /* parameters that reach it: `inputs`, or those named in command and templates, or all that no term has */
  atvi_idx n_input;
  const atvi_idx *input;
  atvi_place place;
} atvi_lang_simulator;

typedef struct {
  const char *name; /* "infected", "cases.3" */
  atvi_idx data;    /* which data set */
  atvi_idx column;  /* its column; -1 where the file is missing */
  atvi_dist dist;
  int n_arg;
  atvi_node arg[ATVI_DIST_ARGS];
  /* detection limits: values <= lower or >= upper are censored; infinite: none */
  double limit_lower, limit_upper;
  atvi_idx n_missing, n_censored;
  atvi_idx n_term; /* > 0: a sum of processes; dist is normal, n_arg 0, no limits, none censored */
  const atvi_lang_term *term;
  atvi_place place;
} atvi_lang_observe;

/* One unit of a block. */
typedef struct {
  /* "s01"; nested: "north.a". */
  const char *label;
  /* The block as a model of its own with this unit's files: its nodes and everything but numbers from files
   * are those of unit 0. Names are those of the block, "CL" and "A", without the label. */
  struct atvi_lang *lang;
  /* [lang->n_param] which parameter of the whole model each of its own is. */
  const atvi_idx *param;
  /* [n_covariate] numbers of the unit; input ATVI_IN_PARAM, index lang->n_param + k. */
  const double *covariate;
} atvi_lang_unit;

/* A block `each`: many units with the same statements. In the `lang` of a unit
 *   param          outside parameters, in the order of the whole model, then those of enclosing blocks, then its own;
 *   log.prior and log.extra   those of the block's own statements alone;
 *   derived, track, data, observe   the block's own statements alone;
 *   state, table, pulse   those outside, then its own. */
typedef struct {
  /* "subject"; nested: "region.school". */
  const char *name;
  /* Parameters of the units' `lang` that are declared outside the block, and have their priors there: the
   * first. */
  atvi_idx n_outer;
  atvi_idx n_covariate;
  /* [n_covariate] names. */
  const char *const *covariate;
  atvi_idx n_unit;
  atvi_lang_unit *unit;
  atvi_place place;
} atvi_lang_block;

/* Log densities that depend on parameters only. */
typedef struct {
  /* Sum over parameters, normalised. */
  atvi_node prior;
  /* Sum of `logp` terms and of flat; a constant 0 if none. */
  atvi_node extra;
  /* What takes away the references of flat priors; a constant 0 if none. */
  atvi_node flat;
} atvi_lang_log;

/* States and what changes them. */
typedef struct {
  atvi_idx n_state;
  atvi_lang_state *state;
  /* The last n_lag of them hold past values for convolve() and are not shown. */
  atvi_idx n_lag;
  /* They start where the equations at that time come to rest, from their initial values. */
  bool steady;
  /* Something is given for that alone: some state's rest is not its rhs. */
  bool given;
  /* [n_delay] what ATVI_IN_DELAY stands for. */
  atvi_idx n_delay;
  atvi_lang_delay *delay;
  atvi_idx n_pulse;
  atvi_lang_pulse *pulse;
} atvi_lang_dynamics;

typedef struct {
  double start;
  /* MAP: between two states. */
  double step;
  atvi_calendar calendar;
} atvi_lang_time_of;

/* The line `solver`. */
typedef struct {
  atvi_solver_kind kind;
  /* NaN where not given. */
  double tol_rel, tol_abs, step;
  /* 0 where not given. */
  atvi_idx max_steps;
} atvi_lang_solver;

/* What is computed beside the parameters. */
typedef struct {
  atvi_idx n_derived;
  atvi_lang_value *derived;
  /* [n_track] of parameters, states, time and tables. */
  atvi_idx n_track;
  atvi_lang_value *track;
  /* [n_trajectory] what ATVI_IN_TRAJECTORY stands for. */
  atvi_idx n_trajectory;
  atvi_lang_trajectory *trajectory;
} atvi_lang_outputs;

typedef struct {
  /* [n_block] an outer one before those inside it. */
  atvi_idx n_block;
  atvi_lang_block *block;
  /* Parameters of the whole model, those of units included; the first ones are those outside. */
  atvi_idx n_param;
  /* [n_param] outside; then for each block, for each element, for each unit: "CL.s01", "CL.s02", ...,
   * "k.1.s01", ... Those of units have name, box and map, but no prior: n_arg is 0. */
  atvi_lang_param *param;
} atvi_lang_blocks_of;

/* All but `blocks` is about what stands outside blocks. */
typedef struct atvi_lang {
  atvi_pool *pool;
  atvi_graph *graph;
  const char *path, *title;
  /* The text. */
  const char *source;
  atvi_model_kind kind;
  atvi_idx n_param;
  atvi_lang_param *param;
  atvi_lang_log log;
  atvi_lang_dynamics dynamics;
  atvi_lang_time_of time;
  atvi_lang_solver solver;
  atvi_idx n_table;
  atvi_lang_table *table;
  atvi_idx n_data;
  atvi_lang_data *data;
  atvi_idx n_observe;
  atvi_lang_observe *observe;
  /* Files are looked for here (a path to be opened as it is); NULL: the model's folder. */
  const char *folder;
  atvi_lang_simulator simulator;
  atvi_idx n_emulator;
  atvi_lang_emulator *emulator;
  atvi_lang_outputs outputs;
  atvi_lang_blocks_of blocks;
} atvi_lang;

typedef struct {
  /* [n_data] files instead of those that the model names */
  atvi_idx n_data;
  const atvi_data_file *data;
  /* instead of the file's `folder`; NULL: the file's */
  const char *folder;
  /* a missing or empty data file is not an error (simulate) */
  bool data_optional;
} atvi_lang_opts;

/* Reads a model file and its data. Paths of data are relative to `folder`, or to the model file (replacements
 * and opts->folder: to the working folder). Runs of emulators and templates are not read (templates: only for
 * the names in them). Errors: EIO, EMODEL, EDATA, ENOMEM; the message is file:line:column, the line, a caret,
 * a hint. */
ATVI_CHECKED atvi_status atvi_lang_load(atvi_ctx *ctx, const char *path, const atvi_lang_opts *opts,
                                        atvi_lang **out);
/* The same from memory; path is for messages and the place of data. */
ATVI_CHECKED atvi_status atvi_lang_parse(atvi_ctx *ctx, const char *path, const char *text, size_t n,
                                         const atvi_lang_opts *opts, atvi_lang **out);
void atvi_lang_free(atvi_lang *lang); /* NULL is fine */

#endif
