/* SPDX-License-Identifier: MIT */
/* DRAWS: the second waist. The result of inference, and all that diagnosis, reports and files know.
 *
 * Draws are columns x[cols][n], chain after chain. Parameters come first, derived quantities after them.
 * Everything a summary says about how the draws were made is in `made`.
 *
 * What the model says at some of the draws is kept in named groups over its series:
 *
 *   mean             means of observed series, and the values of others, at the times of the data
 *   grid             the same at the times between them (`grid` of each series)
 *   predictive       simulated observations at the times of the data
 *   grid_predictive  simulated observations at the times between them
 *   others           as predictive, each value given all other values, where observations depend on each other
 *   log_lik          log likelihood of each observation
 *   simulator        the simulator alone, where an emulator stands in for it
 *   prior            draws of the prior, [n_col][...]
 *
 * Values of mean and grid are those of all series, one after the other; of the others down to simulator, of
 * the observed ones, which come first. */
#ifndef ATVI_DRAWS_H
#define ATVI_DRAWS_H

#include "atvi/core.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  ATVI_END_DONE,
  ATVI_END_LIMIT,
  ATVI_END_STOPPED
} atvi_end; /* criteria met, limit hit, asked to stop */

typedef struct {
  /* "ram", "map", ...; not owned, see atvi_draws_keep. */
  const char *method;
  /* Name of the target; not owned. */
  const char *model;
  uint64_t seed;
  double seconds;
  int64_t evaluations, failures;
  atvi_end end;
  /* NaN if the method gives none. */
  double log_evidence, log_evidence_se;
  /* NaN if the method gives none. */
  double elbo, khat;
  /* Mean acceptance rate of MCMC; NaN. */
  double accept;
  /* Target for ess_bulk and ess_tail; NaN. */
  double ess_wanted;
  /* Number of the draw that is the joint maximum, found by an optimiser; NaN: none. */
  double mode_draw;
  /* Effective share of an approximation's draws when weighted to the posterior; NaN: not known. */
  double efficiency;
  /* Largest error of the log likelihood at draws, from the model's solver; NaN: not known. */
  double log_lik_error;
  /* Number of modes: for atvi those with more than e^-5 of the posterior, for other methods maxima within 5
   * nats of the best; NaN: not known. */
  double modes;
  /* Variational methods; NaN elsewhere. */
  /* Share of the approximation outside the bounds before it is folded back. */
  double outside;
  /* Temperatures of the ladder. */
  double rungs;
  /* Total training steps. */
  double steps;
  /* Share of the weight in the tail that khat describes. */
  double excess;
  /* Share of the last draws whose model run failed; they have weight 0 and are left out. */
  double lost;
  /* Fine-tuning: 1 helped and was kept, 0 was tried and undone, NaN not tried. */
  double tuned;
  /* 1: draws of the exact sampler, which started from the approximation; NaN: none was run. */
  double exact;
  /* The No-U-Turn sampler, all iterations after warm-up; NaN elsewhere. */
  /* Iterations whose trajectory could not be followed. */
  double divergences;
  /* Energy fraction of missing information, smallest over chains. */
  double ebfmi;
  /* Mean depth of the trees. */
  double tree_depth;
  /* Iterations that ended at the maximal tree depth. */
  double max_depth_hits;
  /* Weighted draws: share of the sum of the weights that the largest has, before smoothing; NaN: not known. */
  double top_weight;
} atvi_made;

typedef struct {
  const char *name;
  /* Hard bounds; infinite if open (derived quantities: always). */
  double lower, upper;
} atvi_column;

enum {
  /* the value was held out of the fit */
  ATVI_MARK_HELD = 1,
  /* the value is observed, and not only as a limit */
  ATVI_MARK_EXACT = 2,
};

/* A series that the model predicts, with its data and the times of the groups' values. */
typedef struct {
  const char *name;
  atvi_series_kind kind;
  /* Observed: the number of its data set, from 0, and its name, "" if it has none. */
  atvi_idx data;
  const char *set;
  /* The data set has no time: times are row numbers. */
  bool rows;
  atvi_idx n;
  /* [n] in the order of the data */
  const double *time;
  /* [n] the data, NaN if missing; NULL: not observed */
  const double *value;
  /* [n] ATVI_MARK_ flags; NULL: not observed */
  const unsigned char *mark;
  atvi_idx n_grid;
  /* [n_grid] ascending times between those of the data */
  const double *grid;
  /* Whose it is, "subject s01"; "" if it belongs to no unit. */
  const char *unit;
} atvi_draws_series;

typedef struct {
  const char *name;
  atvi_idx n_value, n_draw;
  /* [n_value][n_draw] */
  double *x;
  /* [n_draw] numbers of the draws, from 0; NULL: not of these draws */
  const atvi_idx *draw;
} atvi_group;

/* The prior of a parameter as in the model file. */
typedef struct {
  /* name of the distribution; NULL: not known, or its arguments depend on other parameters */
  const char *dist;
  double arg[3];
  bool truncated;
  double lower, upper;
} atvi_prior;

/* A point at which the model could not be run. */
typedef struct {
  /* [n_param] */
  const double *value;
  atvi_outcome outcome;
} atvi_failed_point;

/* What a page says about the model and the fit; strings live as long as the draws, NULL: not known. */
typedef struct {
  const char *title;
  /* what the model calls time; NULL: rows */
  const char *time_name;
  /* day 0 of the calendar (days since 1970) and days per unit of time; unit 0: no calendar */
  double day0, day_unit;
  /* data sets of the model */
  atvi_idx n_data;
  /* command line that repeats the fit */
  const char *command;
  /* predictions use the values that were not held out, because observations depend on each other */
  bool dependent;
  /* why the model was not run at the draws; NULL: it was */
  const char *no_groups;
} atvi_about;

/* Made by atvi_draws_new, with what made and about point at; later versions may add members at the end of
 * each. */
typedef struct atvi_draws {
  atvi_ctx *ctx;
  /* Total number of draws: n_chain * draws per chain. */
  atvi_idx n;
  /* 1 for methods without chains. */
  atvi_idx n_chain;
  /* False: independent draws, R-hat does not apply. */
  bool chains;
  /* n_col = n_param + derived. */
  atvi_idx n_param, n_col;
  const atvi_column *col; /* [n_col] */
  double *x;              /* [n_col][n] */
  double *log_prior;      /* [n] */
  double *log_lik;        /* [n] */
  /* [n], sum 1; NULL: equal. */
  double *weight;
  atvi_made *made;
  atvi_idx n_message;
  /* [n_message] for the user, most important first. */
  atvi_message *message;
  /* The rest is empty until it is filled. */
  atvi_about *about;
  atvi_idx n_series;
  /* [n_series] observed ones first */
  const atvi_draws_series *series;
  atvi_idx n_group;
  atvi_group *group;
  /* [n_param] NULL: not known */
  const atvi_prior *prior;
  atvi_idx n_step;
  /* [n_step] the history of the fit: steps that it reported, in their order; `detail` is "" */
  const atvi_progress *step;
  atvi_idx n_failed;
  /* [n_failed] some of the points that failed */
  const atvi_failed_point *failed;
} atvi_draws;

/* Room for n >= 1 draws, a multiple of n_chain >= 1; 0 <= n_param <= n_col. Numbers are 0 (weights: 1/n; NULL
 * unless weighted), chains is n_chain > 1, made is empty ("" and NaN). Names are copied. *out is NULL on any
 * error. Errors: EINVAL, ENOMEM. */
ATVI_API ATVI_CHECKED atvi_status atvi_draws_new(atvi_ctx *ctx, atvi_idx n, atvi_idx n_chain,
                                                 atvi_idx n_param, atvi_idx n_col, const atvi_column *col,
                                                 bool weighted, atvi_draws **out);
ATVI_API void atvi_draws_free(atvi_draws *d); /* NULL is fine */
/* A copy of s that lives as long as d, for made.method and made.model. Errors: ENOMEM (*copy is then
 * NULL). */
ATVI_API ATVI_CHECKED atvi_status atvi_draws_keep(atvi_draws *d, const char *s, const char **copy);
/* Adds a message; its text is copied. The verdict on d is at least as bad as its severity. Errors: ENOMEM. */
ATVI_API ATVI_CHECKED atvi_status atvi_draws_say(atvi_draws *d, atvi_severity severity, atvi_code code,
                                                 const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* Adds a group of zeros; name and draw[n_draw] (NULL: none) are copied. *x is its values, [n_value][n_draw].
 * Errors: EINVAL (the name is taken, a number of a draw is out of range), ENOMEM. */
ATVI_API ATVI_CHECKED atvi_status atvi_draws_group_new(atvi_draws *d, const char *name, atvi_idx n_value,
                                                       atvi_idx n_draw, const atvi_idx *draw, double **x);
/* The group of that name; NULL: there is none. */
ATVI_API const atvi_group *atvi_draws_group(const atvi_draws *d, const char *name);
/* Replaces the history by copies of step[n]. Errors: ENOMEM. */
ATVI_API ATVI_CHECKED atvi_status atvi_draws_history(atvi_draws *d, atvi_idx n, const atvi_progress *step);

/* n draws without weights from weighted ones, drawn in proportion to the weights (systematic resampling, then
 * shuffled); with log prior, log likelihood, made and messages, but without groups and what follows them.
 * Without weights all draws are equally likely. Errors: EINVAL (n < 1; no weight above zero), ENOMEM. *out is
 * NULL on error. */
ATVI_API ATVI_CHECKED atvi_status atvi_draws_resample(const atvi_draws *d, atvi_idx n, uint64_t seed,
                                                      atvi_draws **out);

/* ---- statistics of one column, with weights if there are any ---- col is in [0, n_col); atvi_judge says
 * whether the numbers can be trusted. Draws that are not finite make them NaN. */

/* The column called name; -1: none. */
ATVI_API atvi_idx atvi_draws_find(const atvi_draws *d, const char *name);
ATVI_API double atvi_draws_mean(const atvi_draws *d, atvi_idx col);
ATVI_API double atvi_draws_sd(const atvi_draws *d, atvi_idx col);
/* quantile[n] at the probabilities p[n], each in [0, 1]; with equal weights those of R's type 7.
 * Errors: EINVAL (no such column, a probability outside [0, 1]), ENOMEM; quantile is then NaN. */
ATVI_API ATVI_CHECKED atvi_status atvi_draws_quantiles(const atvi_draws *d, atvi_idx col, atvi_idx n,
                                                       const double *p, double *quantile);

#ifdef __cplusplus
}
#endif
#endif
