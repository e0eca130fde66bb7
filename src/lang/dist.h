/* SPDX-License-Identifier: MIT */
/* Distributions: one table serves priors, observations, graphs and random draws. */
#ifndef ATVI_LANG_DIST_H
#define ATVI_LANG_DIST_H

#include "graph/graph.h"
#include "math/rng.h"

enum { ATVI_DIST_ARGS = 3 };

typedef enum {
  ATVI_DIST_UNIFORM,      /* lower, upper */
  ATVI_DIST_NORMAL,       /* mean, sd */
  ATVI_DIST_LOGNORMAL,    /* meanlog, sdlog */
  ATVI_DIST_GAMMA,        /* shape, rate */
  ATVI_DIST_INVGAMMA,     /* shape, scale */
  ATVI_DIST_BETA,         /* a, b */
  ATVI_DIST_EXPONENTIAL,  /* rate */
  ATVI_DIST_HALFNORMAL,   /* sd */
  ATVI_DIST_HALFCAUCHY,   /* scale */
  ATVI_DIST_CAUCHY,       /* location, scale */
  ATVI_DIST_STUDENT,      /* df, location, scale */
  ATVI_DIST_LAPLACE,      /* location, scale */
  ATVI_DIST_LOGISTIC,     /* location, scale */
  ATVI_DIST_WEIBULL,      /* shape, scale */
  ATVI_DIST_POISSON,      /* mean */
  ATVI_DIST_NEGBIN,       /* mean, size */
  ATVI_DIST_BINOMIAL,     /* n, p */
  ATVI_DIST_BETABINOMIAL, /* n, a, b */
  ATVI_DIST_COUNT
} atvi_dist;

/* What an argument has to be. */
typedef enum {
  ATVI_ARG_ANY,
  ATVI_ARG_POSITIVE,
  ATVI_ARG_NONNEGATIVE,
  ATVI_ARG_WHOLE,
  ATVI_ARG_PROBABILITY
} atvi_arg;

typedef struct {
  const char *name; /* in the language */
  int n_arg;
  const char *arg[ATVI_DIST_ARGS];
  atvi_arg range[ATVI_DIST_ARGS];
  bool prior, observation; /* where it may stand */
  bool count;              /* values are whole numbers >= 0 */
  double lower, upper;     /* support; UNIFORM: from its arguments */
} atvi_dist_info;

const atvi_dist_info *atvi_lang_dist_get(atvi_dist dist);
/* The distribution of that name (aliases included), or -1. */
int atvi_lang_dist_find(const char *name, size_t n);
/* Whether a value suits argument k (finite, and in its range). */
bool atvi_lang_dist_arg_ok(atvi_dist dist, int k, double value);

/* Log density of y, normalising constants kept; outside the support, and where arguments are out of range,
 * -inf by select, with derivative 0. Poisson with mean 0 and count 0 is 0 with derivative -1. NEGBIN contains
 * ATVI_OP_LRISE(size, y) as one summand, returned apart in *lrise (added by the caller; 0 where arguments are
 * out of range) if lrise is not NULL. */
atvi_node atvi_lang_dist_lpdf(atvi_graph *g, atvi_dist dist, atvi_node y, const atvi_node *arg,
                              atvi_node *lrise);
/* log P(Y <= y) and log P(Y > y), -inf where arguments are out of range; ATVI_NODE_NONE where not offered. */
atvi_node atvi_lang_dist_lcdf(atvi_graph *g, atvi_dist dist, atvi_node y, const atvi_node *arg);
atvi_node atvi_lang_dist_lccdf(atvi_graph *g, atvi_dist dist, atvi_node y, const atvi_node *arg);
/* log P(lower < Y < upper) for a truncated prior; ends may be infinite. ATVI_NODE_NONE where not offered
 * (arguments that depend on parameters in a family without a closed form); constants always work. Where
 * arguments that depend on parameters are out of range it is 0, so that density less mass is -inf. */
atvi_node atvi_lang_dist_lmass(atvi_graph *g, atvi_dist dist, double lower, double upper,
                               const atvi_node *arg);
/* The same for numbers: log P(Y <= y), log P(Y > y), log P(lower < Y < upper). NaN where arguments are out of
 * range. */
double atvi_lang_dist_log_cdf(atvi_dist dist, double y, const double *arg);
double atvi_lang_dist_log_ccdf(atvi_dist dist, double y, const double *arg);
double atvi_lang_dist_log_mass(atvi_dist dist, double lower, double upper, const double *arg);
/* One draw, truncated to (lower, upper) (infinite: not). NaN where arguments are out of range or the interval
 * has no mass. */
double atvi_lang_dist_draw(atvi_rng *r, atvi_dist dist, const double *arg, double lower, double upper);
/* Mean of an observation distribution as a node (for predictions); lognormal: its mean; Student, Cauchy: the
 * location. */
atvi_node atvi_lang_dist_mean(atvi_graph *g, atvi_dist dist, const atvi_node *arg);

#endif
