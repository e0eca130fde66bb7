/* SPDX-License-Identifier: MIT */
/* Inside of a model; for src/model, and for src/app, which describes a model to its user.
 *
 * A model is a description (lang) turned into programs:
 *
 *   prior   theta -> log prior, gradient
 *   placed  theta -> location and scale of priors that depend on other parameters; placed_vjp: its adjoint
 *   extra   theta -> free log terms, gradient
 *   setup   theta -> H (work done once per point), initial states, arguments of processes (emulated.h); setup_vjp: its adjoint
 *   rhs     the solver's programs, in terms of H (ode.h)
 *   rows    for each data set: log likelihood of each element of a row, in terms of H, the
 *           states at the row's time and at the previous row's time, and numbers known per row
 *
 * "Known per row" is everything that depends on data, time and tables alone: it is computed once
 * when the model is built. The term lgamma(y + size) - lgamma(size) of negative binomial counts
 * whose size depends on parameters alone is summed as sum_k n_k log(size + k) with n_k the
 * number of counts above k: one more group of rows, (k, n_k), without states.
 *
 * These are compiled. What is needed rarely (derived and tracked quantities, arguments of
 * distributions for simulation) is interpreted. */
#ifndef ATVI_MODEL_MODEL_H
#define ATVI_MODEL_MODEL_H

#include "atvi/model.h"
#include "atvi/target.h"
#include "core/core.h"
#include "graph/program.h"
#include "lang/lang.h"
#include "model/emulated.h"
#include "ode/ode.h"

/* Data held out of a fit, to be predicted by it: which rows a rule selects.
 *
 *   rule       = comparison { "and" comparison }
 *   comparison = name [ "%" number ] ( "<" | "<=" | ">" | ">=" | "==" | "!=" ) number | name ( "==" | "!=" ) word
 *
 * name is t (the model's time), row (the number of the row in its data file, from 1) or a column of a data
 * file, in double quotes if it holds anything but letters, digits, "_" and "."; with several data files,
 * "file.name" means that file alone. number may be a date where the model has a calendar. A row where a cell
 * that is compared is missing is not selected. */

typedef struct {
  bool **held;     /* [lang->n_data][n_row]; NULL: nothing is held out */
  atvi_idx n_held; /* observed values in the rows selected */
  atvi_idx n_left; /* and in the others */
} atvi_holdout;

/* Memory from pool. Errors: EINVAL (the rule cannot be read, the message has it with a caret; it selects no
 * observation, or leaves none), ENOMEM. */
ATVI_CHECKED atvi_status atvi_model_holdout_find(atvi_pool *pool, const atvi_lang *lang, const char *rule,
                                                 atvi_holdout *out);
/* Makes the observed cells of those rows missing. Memory from pool, which must live as long as lang. Errors:
 * ENOMEM. */
ATVI_CHECKED atvi_status atvi_model_holdout_apply(atvi_pool *pool, atvi_lang *lang,
                                                  const atvi_holdout *holdout);

/* Whether the value of observation o in that row is a number that was observed as such: neither missing nor
 * censored. */
bool atvi_model_observed_exactly(const atvi_lang *lang, const atvi_lang_observe *o, atvi_idx row);

typedef struct {
  atvi_idx n;
  /* [n] ascending */
  const double *time;
} atvi_model_times_of;

/* How to load a model: the public options, and what commands need. */
typedef struct atvi_model_load_opts {
  /* as of atvi_model_opts */
  atvi_idx n_data;
  const atvi_data_file *data;
  bool interpret;
  atvi_idx n_time;
  const double *time;
  const char *holdout, *folder, *runs;
  /* Predict at the data's times and at `time`. What an observation counts since the time before (increase)
   * then counts, in rows of the data as without them, and at these since the last time of either before. */
  bool extend;
  /* [parts of a model with blocks] as n_time and time, for each part its own; NULL: they have all the same */
  const atvi_model_times_of *own_time;
  /* [n data sets of the model] The time from which the first row of each counts what it counts since the row
   * before (increase), instead of the start; NaN, or not between the start and that row: the start. NULL: all
   * from the start. */
  const double *since;
  /* the model, instead of what the file holds; paths in it are relative to the file; NULL: the file */
  const char *text;
  /* Rows, as in holdout, whose values are there to be compared with predictions but not to be learnt from,
   * where observations depend on each other (sums of processes; others are predicted from parameters alone,
   * and this changes nothing for them). NULL: none. */
  const char *apart;
  /* the first lines of the record of runs alone, as it was when it had no more; 0: all */
  atvi_idx runs_lines;
  /* folder with the emulators of a fit, emulator-NAME.json, which must be of these runs; NULL: those with the
   * runs, if they are; else they are fitted */
  const char *emulators;
  /* observations that are sums of processes are predicted from the parameters alone, not from values */
  bool forward;
  /* the same model, loaded before with the same runs, whose emulators are used and which must outlive this
   * one; NULL: none */
  const atvi_model *like;
  /* the target has `tangent`, for tests of its gradient; not with sums of processes */
  bool tangents;
} atvi_model_load_opts;
/* As atvi_model_load. opts NULL: defaults. */
ATVI_CHECKED atvi_status atvi_model_load_with(atvi_ctx *ctx, const char *path,
                                              const atvi_model_load_opts *opts, atvi_model **out);

enum { ATVI_IN_ROW = 8 }; /* further input kind of the graph: numbers known per row */

/* Which density an element of a row contributes. */
typedef enum { ATVI_EL_EXACT, ATVI_EL_LEFT, ATVI_EL_RIGHT } atvi_element_kind;

typedef struct {
  atvi_idx data; /* data set; -1: counts of negative binomial sizes */
  atvi_idx n_row, n_el, n_known;
  double *known; /* [n_row][n_known] */
  double *mask;  /* [n_row][n_el] 1 where the element counts in this row, else 0 */
  /* [n_row] index of the output with the row's and the previous row's state; -1: none */
  atvi_idx *out, *prev;
  atvi_idx *observe;       /* [n_el] which lang->observe; -1: none */
  atvi_element_kind *kind; /* [n_el]; NULL for counts of sizes */
  atvi_node size;          /* of counts of sizes: which */
  atvi_idx *unit;          /* [n_row][n_el] the unit it is of, if arrays make units (arrays.c); else NULL */
  atvi_node *node;         /* [n_el] while building; without what a histogram of counts takes over */
  atvi_node *whole;        /* [n_el] while building; with it */
  atvi_node *known_node;   /* [n_known] while building */
  atvi_prog value, grad, tangent;
  atvi_prog each; /* as value, whole, from PARAM, TIME, STATE, PREV, TABLE, DATA; interpreted */
} atvi_rows;

/* Tangents of the programs (graph/program.h), interpreted; those of rows are with the rows. */
typedef struct {
  atvi_module *module;
  atvi_prog prior, extra, setup;
  atvi_ode_tangents ode, rest; /* of `ode`, and of the way to a steady start */
  atvi_target_ops ops;         /* of the target, with tangent */
} atvi_model_tangents;

/* Pulses that act at one time, together. */
typedef struct {
  atvi_idx n;
  const atvi_idx *item; /* [n] lang->dynamics.pulse, ascending; one twice acts twice */
} atvi_pulses;

/* A unit of a model with blocks `each`, or what stands outside of them: a model of its own in some of the
 * parameters. */
typedef struct {
  atvi_model *m;
  /* Which block it belongs to, counted from 1; 0: outside. Units of a block share their scratch. */
  atvi_idx block;
  /* [m's d] parameters of the whole model; the priors of the first n_outer are another part's. */
  atvi_idx n_outer;
  const atvi_idx *param;
  /* Where its observations, derived quantities and series stand in those of the whole: value i of series s at
   * series_at[s] + i. */
  atvi_idx obs_at;
  atvi_idx *derived_at;
  atvi_idx *series_at;
  /* Nothing is observed of it. */
  bool silent;
} atvi_model_part;

/* What is compiled and run for every point, and what it costs. */
typedef struct {
  /* Compiled programs, and those that are needed rarely, which are interpreted. */
  atvi_module *hot, *cold;
  atvi_module_info info;
  bool interpret;
  /* Numbers that setup leaves for the solver and the rows. */
  atvi_idx n_hoist;
  atvi_prog prior, extra, setup, setup_vjp;
  bool has_extra;
  /* Operations of a point but for its solution, and of a right-hand side. */
  double ops_point, ops_rhs;
  /* Doubles, the largest over all programs. */
  size_t scratch;
  /* NULL: not asked for. */
  atvi_model_tangents *tangents;
} atvi_model_programs_of;

/* Priors that are expressed through a location and a scale (place.c). */
typedef struct {
  atvi_idx n;
  /* [n] their parameters */
  atvi_idx *param;
  /* [n][2] location and scale */
  atvi_node *node;
  /* PARAM -> node, and its adjoint; only if n > 0 */
  atvi_prog eval, vjp;
} atvi_model_places;

/* Units that arrays make (arrays.c), the first is what is common; n = 0: none. */
typedef struct {
  atvi_idx n;
  const atvi_unit *unit;
  /* [n] sums of the log prior and of log.extra */
  atvi_node *prior, *extra;
} atvi_model_array_units;

/* Alternatives of log.extra (rewrite.c). */
typedef struct {
  atvi_idx n;
  /* [n] */
  atvi_node *node;
  /* [n] as extra, with one alternative alone */
  atvi_prog *extra;
} atvi_model_alternatives;

/* A model with blocks is the sum of its parts, and runs nothing itself (units.c). */
typedef struct {
  atvi_idx n_part, n_block;
  /* NULL: there are no blocks. */
  atvi_model_part *part;
  /* [d] the part that gives the place of a parameter's prior; -1: none. */
  atvi_idx *placed_by;
} atvi_model_blocks;

/* Units of a block are models that share everything but numbers from files. */
typedef struct {
  atvi_idx n;
  /* [n], the first is base */
  atvi_model **unit;
  /* Numbers of the unit, inputs PARAM after the parameters. */
  atvi_idx n_covariate;
  const double *covariate;
  /* The most outputs of any unit. */
  atvi_idx most_output;
} atvi_model_copies;

/* The log likelihood of the data. */
typedef struct {
  atvi_idx n_rows;
  /* [n_rows] */
  atvi_rows *rows;
  bool has_prev;
  /* The most elements of any of rows. */
  atvi_idx max_el;
  /* [n_observe] the counts of this observation have a histogram. */
  bool *apart;
  /* [n_data][n_row][n_col] data with missing and censored cells made harmless */
  double **filled;
  /* [n_observe][n_row] the data columns that the distribution needs are there */
  bool **covariates;
} atvi_model_lik;

/* States that are solved for, and those that never change. */
typedef struct {
  atvi_idx n;
  /* [n] their numbers in the file */
  atvi_idx *live;
  /* [lang->dynamics.n_state] which of them, -1 for a state that never changes */
  atvi_idx *at;
  /* [lang->dynamics.n_state] the value of such a state */
  double *value;
} atvi_model_states;

/* The systems of equations, and their right-hand sides in terms of HOIST. */
typedef struct {
  /* There are states to solve for. */
  bool any;
  atvi_ode fit;
  /* To the states at the start, where they are steady. */
  atvi_ode steady;
  /* As exact, to the last time that a derived quantity asks for; only if there is one. */
  atvi_ode path;
  /* [lang->outputs.n_trajectory] */
  atvi_node *path_node;
  /* As fit, with a tolerance near rounding. */
  atvi_ode exact;
  /* [states.n] in time, and on the way to a steady start */
  atvi_node *rhs_node, *rest_node;
} atvi_model_odes;

/* How the solver was chosen (solver.c). */
typedef struct {
  /* The model names no solver: points at which the equations fail are run by `other`. */
  bool automatic;
  atvi_ode other;
  /* Some of the points that were tried need it. */
  bool uses_both;
  char why[200];
  /* Of automatic; NULL: in hot, or none. */
  atvi_module *jacobian;
  /* That of the way to a steady start, where it has equations of its own; else NULL. */
  atvi_module *rest_jacobian;
} atvi_model_choice;

/* Jumps whose times depend on parameters: the times as nodes, then their places in HOIST. */
typedef struct {
  atvi_idx n;
  atvi_node *node;
  atvi_idx *at;
} atvi_model_jumps_of;

/* Where the solver stops, and what is known there. */
typedef struct {
  atvi_idx n_output;
  /* [n_output] */
  double *output_time;
  /* [n_output][2 n_table] table coefficients */
  double *output_tab;
  /* [n_data][n_row] outputs of each row, and of the row before */
  atvi_idx **row_out, **row_prev;
  /* [n_data] rows that the data have, where times were added after them; NULL: none were */
  atvi_idx *n_given;
  /* Of tracked and state series. */
  atvi_idx n_series_time;
  double *series_time;
} atvi_model_outputs;

/* Delayed states, and the nodes of delays that depend on parameters (else ATVI_NODE_NONE). */
typedef struct {
  atvi_idx n;
  atvi_ode_delay *delay;
  atvi_node *node;
} atvi_model_delays;

/* Pulses at times of parameters: nodes of these, then their places in HOIST, in moving; and those of
 * conditions. */
typedef struct {
  atvi_idx n_moving, cap_moving, cap_moving_node;
  atvi_node *moving_node;
  atvi_ode_moving *moving;
  atvi_idx n_root;
  /* [2][n_root] what becomes positive, and the condition */
  atvi_node *root_node;
  atvi_idx *root_pulse;
  /* [n_combo] the solver's pulses */
  atvi_idx n_combo, cap_combo;
  atvi_pulses *combo;
  /* While echoes of delays are collected. */
  bool adds_echoes;
  double echo_end;
} atvi_model_pulses;

/* Parameters in the order in which they are drawn from the prior: those of level 0 depend on no other, and so
 * on. */
typedef struct {
  atvi_idx n;
  /* [n] PARAM -> arguments of the priors of a level, one after the other */
  atvi_prog *args;
  /* [d] the level of each */
  int *of;
  /* [d] parameters by level; those of level k end before param[end[k]] */
  atvi_idx *param;
  /* [n] */
  atvi_idx *end;
  /* [d] first argument of parameter i in the args of its level */
  atvi_idx *arg_at;
  /* The most of any level. */
  atvi_idx most_arg;
} atvi_model_levels;

/* What is evaluated at draws alone; interpreted. */
typedef struct {
  /* PARAM -> derived */
  atvi_prog derived;
  /* PARAM, TIME, STATE, TABLE -> tracked */
  atvi_prog track;
  /* [n_data] PARAM, TIME, STATE, PREV, TABLE, DATA -> arguments, means of its observes */
  atvi_prog *report;
  /* [n_data] how many arguments */
  atvi_idx *report_args;
  /* [n_observe] where each observed series starts among the observations */
  atvi_idx *obs_at;
} atvi_model_rare;

struct atvi_model {
  atvi_ctx *ctx;
  atvi_lang *lang;
  /* Of everything below. */
  atvi_pool *pool;
  atvi_target target;
  /* What is made of expressions belongs to the first unit of a block, base. A model without units is its own. */
  atvi_model *base;
  atvi_model_copies copies;
  atvi_model_blocks blocks;
  /* What was left out; held is NULL if nothing was. */
  atvi_holdout holdout;
  /* Observations that are sums of processes; NULL: none is. */
  atvi_emulated *emulated;
  atvi_model_programs_of prog;
  atvi_model_places place;
  atvi_model_array_units arrays;
  atvi_model_alternatives branches;
  atvi_model_lik lik;
  atvi_model_states states;
  atvi_model_odes odes;
  atvi_model_choice choice;
  atvi_model_jumps_of jumps;
  atvi_model_outputs times;
  atvi_model_delays delays;
  atvi_model_pulses pulses;
  atvi_model_levels levels;
  atvi_model_rare rare;
};

/* Builds all of a model but its target's solver from m->lang: the steps below. */
ATVI_CHECKED atvi_status atvi_model_build(atvi_model *m, const atvi_model_load_opts *opts);
/* The same for a model with blocks `each`. */
ATVI_CHECKED atvi_status atvi_model_units(atvi_model *m, const atvi_model_load_opts *opts);
/* build steps, in calling order */
ATVI_CHECKED atvi_status atvi_model_jumps(atvi_model *m);    /* comparisons with the time */
ATVI_CHECKED atvi_status atvi_model_branches(atvi_model *m); /* alternatives of log.extra */
ATVI_CHECKED atvi_status atvi_model_constant(atvi_model *m); /* states that never change */
ATVI_CHECKED atvi_status atvi_model_times(atvi_model *m,
                                          const atvi_model_load_opts *opts); /* outputs, stops */
ATVI_CHECKED atvi_status atvi_model_rows(atvi_model *m);                     /* elements of rows */
ATVI_CHECKED atvi_status atvi_model_arrays(atvi_model *m);                   /* units that arrays make */
ATVI_CHECKED atvi_status atvi_model_place(atvi_model *m);    /* priors that depend on others */
ATVI_CHECKED atvi_status atvi_model_describe(atvi_model *m); /* the target */
ATVI_CHECKED atvi_status
atvi_model_programs(atvi_model *m, const atvi_model_load_opts *opts); /* hot and cold modules, tangents */
ATVI_CHECKED atvi_status atvi_model_series(atvi_model *m);            /* names of outputs */
ATVI_CHECKED atvi_status atvi_model_solver(atvi_model *m);            /* which solver, see solver.c */
/* The stops of m->steady, from m->ode. */
ATVI_CHECKED atvi_status atvi_model_steady_stops(atvi_model *m);
/* rk45, rk4, stiff or map, as in a line `solver`; "rk45, stiff": the second runs what the first cannot. */
const char *atvi_model_solver_word(const atvi_model *m);
/* Operations that an evaluation takes, after all other steps (work.c). Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_model_count(atvi_model *m);
/* Makes the Jacobian of right-hand sides f[n_state], its program and shape in ode, and gives the operations
 * that it and they take. */
ATVI_CHECKED atvi_status atvi_model_jacobian(atvi_model *m, const atvi_node *f, bool compile,
                                             atvi_module **module, atvi_ode *ode, double *ops_jac,
                                             double *ops_rhs);
/* The last of n ascending times that is before t by more than rounding: what counts since the time before
 * (increase) counts from it.
 * -1: there is none. */
atvi_idx atvi_model_time_before(atvi_idx n, const double *time, double t);
/* The one of n >= 1 ascending times that is nearest to t. */
atvi_idx atvi_model_time_nearest(atvi_idx n, const double *time, double t);
/* Numbers that the solver has at a stop: coefficients of tables [2 n_table], then those that pulses have from
 * files: for each pulse [n_same][n_value]. */
atvi_idx atvi_model_tab(const atvi_lang *lang);
/* Where those of a pulse begin. */
atvi_idx atvi_model_pulse_at(const atvi_lang *lang, atvi_idx pulse);
/* Calls fn for every input of that kind that x depends on. False on ENOMEM. */
bool atvi_model_inputs(const atvi_model *m, atvi_node x, int kind, void (*fn)(void *user, atvi_idx index),
                       void *user);

/* One thread's scratch, shared by eval.c and report.c. L: lanes. */
typedef struct {
  atvi_ctx *ctx;
  /* [d][L] */
  double *theta;
  /* [1][L] */
  double *value;
  /* [d][L] */
  struct {
    double *prior, *extra, *lik;
  } grad;
  /* [n_array][L] log densities of units */
  struct {
    double *prior, *lik, *extra;
  } units;
  /* [n_hoist][L] */
  double *hoist, *hoist_bar;
  /* [n_hoist + n + n_arg][L] adjoints of setup's results */
  double *seeds;
  /* [n][L] */
  double *y0, *y0_bar;
  /* [n_arg][L] of processes */
  double *arg, *arg_bar;
  /* [n_output][n][L] */
  double *yout, *ybar;
  /* [max(max_el, args, ...)][L] */
  double *el;
  double *scratch;
  /* The alternative that is evaluated instead of extra, counted from 1; 0: none. */
  atvi_idx branch;
  /* [1] */
  double *time;
  /* NULL without states. */
  atvi_ode_work *ode;
  /* For odes.exact. */
  atvi_ode_work *exact;
  /* The way to a steady start, NULL if there is none; [n][L] where it sets out from, and whether a steady
   * state was found. */
  struct {
    atvi_ode_work *ode;
    double *guess, *guess_bar;
    atvi_outcome outcome[ATVI_LANES];
  } start;
  /* For choice.other, NULL if there is none; as yout, y0_bar and hoist_bar; and the lanes that the last solve
   * left to it. */
  struct {
    atvi_ode_work *ode;
    double *yout, *y0_bar, *hoist_bar;
    unsigned lanes;
  } second;
  /* NULL without processes. */
  atvi_emulated_work *emulated;
  /* For odes.path, NULL if no derived quantity asks for it; [lang->outputs.n_trajectory][L] what they ask. */
  struct {
    atvi_ode_work *ode;
    double *value, *out, *best;
    bool *seen;
  } path;
  /* Tangents, in the shapes of the above; only if the model has them. setup: [n_hoist + n + n_arg][L] results
   * of setup that are there already. */
  struct {
    double *theta, *value, *hoist, *y0, *guess, *arg, *yout, *yout2, *el, *setup;
  } dot;
} atvi_model_work;

/* Log prior, log likelihood and gradients of the lanes in w->theta, with everything that the last points
 * leave behind: states at outputs, and the tapes of the solvers. False: all lanes are outside of the
 * support. */
bool atvi_model_eval_lanes(const atvi_model *m, atvi_model_work *w, double lp[ATVI_LANES],
                           double ll[ATVI_LANES], atvi_outcome outcome[ATVI_LANES]);
/* Member of the target; see tangent.c. */
void atvi_model_tangent(const void *self, void *work, atvi_idx B, const double *theta,
                        const double *direction, double *log_prior, double *log_lik);

extern const atvi_target_ops atvi_model_ops;

ATVI_CHECKED atvi_status atvi_model_work_new(const void *self, atvi_ctx *ctx, void **work);
void atvi_model_work_free(void *work);
/* Loads points first .. first+ATVI_LANES-1 of theta[d][B] into w->theta, the last one repeated. Returns how
 * many are real. */
int atvi_model_load_lanes(const atvi_model *m, atvi_model_work *w, atvi_idx B, const double *theta,
                          atvi_idx first);
/* Puts the numbers of the unit after the parameters of all lanes. */
void atvi_model_load_covariates(const atvi_model *m, atvi_model_work *w);
/* Runs setup for the lanes in w->theta, up to the states at the start. tape: of the way to steady ones. */
void atvi_model_setup(const atvi_model *m, atvi_model_work *w, bool tape);
/* Runs setup and the solver for the lanes in w->theta. */
void atvi_model_solve(const atvi_model *m, atvi_model_work *w, bool tape, atvi_outcome outcome[ATVI_LANES]);

/* The rows of observations that are sums of processes, and their series; the rest of out is left alone. */
typedef enum {
  ATVI_REPORT_PREDICT,
  ATVI_REPORT_SIMULATE,
  ATVI_REPORT_PREDICTIVE,
  ATVI_REPORT_LEAVE_ONE_OUT,
  ATVI_REPORT_LATENT,
  ATVI_REPORT_POINTWISE
} atvi_report_kind;
void atvi_model_report_processes(const atvi_model *m, atvi_model_work *w, atvi_report_kind kind,
                                 uint64_t seed, atvi_idx draw, atvi_idx B, const double *theta, double *out);

/* A part of a sum of processes is drawn given theta and the data (target's latent); any other series is a
 * function of theta. */
typedef enum { ATVI_PART_WHOLE, ATVI_PART_EMULATOR, ATVI_PART_REST } atvi_series_part;
atvi_series_part atvi_model_series_part(const atvi_model *m, atvi_idx series);

void atvi_model_prior_draw(const void *self, void *work, uint64_t seed, atvi_idx first, atvi_idx B,
                           double *theta);
/* Draws the parameters that are NaN in theta[d][B] from the prior given the others. key[d]: numbers of their
 * streams; NULL: as they come. */
void atvi_model_prior_complete(const atvi_model *m, atvi_model_work *w, uint64_t seed, atvi_idx first,
                               const atvi_idx *key, atvi_idx B, double *theta);
/* The same of a model with or without blocks; work: of its target. */
void atvi_model_prior_fill(const atvi_model *m, void *work, uint64_t seed, atvi_idx first, atvi_idx B,
                           double *theta);
void atvi_model_prior_place(const void *self, void *work, atvi_idx B, const double *theta, double *location,
                            double *scale);
void atvi_model_prior_place_vjp(const void *self, void *work, atvi_idx B, const double *theta,
                                const double *dlocation, const double *dscale, double *dtheta);
/* What derived quantities ask of the paths of the lanes in w->theta, to w->path_value; NaN where a run fails. */
void atvi_model_paths(const atvi_model *m, atvi_model_work *w);
void atvi_model_derived(const void *self, void *work, atvi_idx B, const double *theta, double *out);
void atvi_model_pointwise(const void *self, void *work, atvi_idx B, const double *theta, double *out);
void atvi_model_predict(const void *self, void *work, atvi_idx B, const double *theta, double *out);
void atvi_model_simulate(const void *self, void *work, uint64_t seed, atvi_idx first, atvi_idx B,
                         const double *theta, double *out);
void atvi_model_predictive(const void *self, void *work, uint64_t seed, atvi_idx first, atvi_idx B,
                           const double *theta, double *out);
void atvi_model_latent(const void *self, void *work, uint64_t seed, atvi_idx first, atvi_idx B,
                       const double *theta, double *out);
void atvi_model_leave_one_out(const void *self, void *work, uint64_t seed, atvi_idx first, atvi_idx B,
                              const double *theta, double *out);

/* A target with some parameters held at given values: another target with fewer parameters. The
 * log prior keeps the density of the fixed ones at their values, so that log densities of both agree. */

/* base is borrowed; index[n] are the parameters to hold at value[n]. Errors: EINVAL (index out of range or
 * twice, value outside the bounds or not finite, no parameter left), ENOMEM. */
ATVI_CHECKED atvi_status atvi_model_fixed_new(atvi_ctx *ctx, const atvi_target *base, atvi_idx n,
                                              const atvi_idx *index, const double *value, atvi_target **out);
void atvi_model_fixed_free(atvi_target *target); /* NULL is fine */

#endif
