/* SPDX-License-Identifier: MIT */
/* TARGET: the first waist. Everything that knows what a model is ends here; everything that
 * infers knows only this.
 *
 * A target gives, for B points at once, log prior and log likelihood (all normalising constants
 * kept), their gradients, and how each evaluation ended. Points are theta[d][B], draws innermost. */
#ifndef ATVI_TARGET_H
#define ATVI_TARGET_H

#include "atvi/core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How the prior of a parameter depends on other parameters. */
typedef struct {
  /* Anything but ALONE needs prior_place and prior_place_vjp. */
  atvi_prior_form form;
  /* The parameter that is the location; -1: the location is a number or another expression. */
  atvi_idx location;
  /* [n_on] parameters on which the scale depends (the first n_on_scale), then those of the location; without
   * circles. */
  atvi_idx n_on, n_on_scale;
  const atvi_idx *on;
} atvi_prior_link;

typedef struct {
  /* "beta.2". */
  const char *name;
  /* The box of the prior's support; -+HUGE_VAL if open. */
  double lower, upper;
  /* How methods that need unbounded coordinates map it: "surjection", "probit", "logit", "log", "none";
   * "auto" or NULL: they choose. */
  const char *map;
} atvi_param;

/* A part of a log density that depends on some of the parameters: one subject of many, or what all have in
 * common. */
typedef struct {
  /* "s01"; "" for what is common. */
  const char *name;
  /* [n_on] the parameters it depends on. The priors of the first n_outer are part of another unit. */
  atvi_idx n_on, n_outer;
  const atvi_idx *on;
} atvi_unit;

/* One batched evaluation. Pointers to unwanted outputs may be NULL. */
typedef struct {
  atvi_idx B;
  const double *theta; /* [d][B] */
  /* [B]; -inf outside the support, where the likelihood is not computed. */
  double *log_prior;
  /* [B]; -inf or NaN if the run failed. */
  double *log_lik;
  double *grad_prior;    /* [d][B] */
  double *grad_lik;      /* [d][B] */
  atvi_outcome *outcome; /* [B] */
  /* [n_unit][B] the parts of log_prior and log_lik that are of each unit. Only where the target has units. */
  double *unit_prior;
  double *unit_lik;
} atvi_batch;

/* A named series that a model predicts: an observed or a tracked quantity, or a state, over its times. */
typedef struct {
  const char *name;
  atvi_series_kind kind;
  /* Observed: which data set, 0-based. */
  atvi_idx group;
  atvi_idx n;
  /* [n]; row numbers if the model has no time. */
  const double *time;
  /* [n] the data, NaN if missing; NULL: not observed. */
  const double *value;
  /* Which unit of the target it is of, 0-based; 0 if it is common to all, or there are none. */
  atvi_idx unit;
} atvi_series;

/* What a kind of model implements. self is read-only and shared by threads; scratch is per thread.
 * Results for a point depend neither on B nor on the other points. */
typedef struct {
  /* sizeof(atvi_target_ops). */
  size_t size;

  /* required */
  void (*eval)(const void *self, void *work, const atvi_batch *batch);

  /* optional; NULL: no scratch, nothing to free */
  atvi_status (*work_new)(const void *self, atvi_ctx *ctx, void **work);
  void (*work_free)(void *work);
  void (*free)(void *self);

  /* Draws number first .. first+B-1 of the prior for this seed: theta[d][B]. NULL: the prior cannot be
   * drawn. */
  void (*prior_draw)(const void *self, void *work, uint64_t seed, atvi_idx first, atvi_idx B, double *theta);

  /* Derived quantities: out[n_derived][B]. NULL: none. */
  void (*derived)(const void *self, void *work, atvi_idx B, const double *theta, double *out);

  /* Log likelihood of every observation: out[n_obs][B], in the order of the observed series, NaN if
   * missing. */
  void (*pointwise)(const void *self, void *work, atvi_idx B, const double *theta, double *out);

  /* The mean of every observed series and the value of every other, one after the other in the order of
   * `series`: out[n_out][B]; NaN for points whose run failed. */
  void (*predict)(const void *self, void *work, atvi_idx B, const double *theta, double *out);

  /* Simulated observations for draws first .. first+B-1: out[n_obs][B], missing cells included. */
  void (*simulate)(const void *self, void *work, uint64_t seed, atvi_idx first, atvi_idx B,
                   const double *theta, double *out);

  /* The same for future observations, given theta and the data of the fit. NULL: observations are independent
   * given theta, so simulate serves. */
  void (*predictive)(const void *self, void *work, uint64_t seed, atvi_idx first, atvi_idx B,
                     const double *theta, double *out);

  /* As eval without gradients, but with the model's numerical error (of its solver) made negligible at any
   * cost, to measure that error. NULL: eval has none. */
  void (*eval_exact)(const void *self, void *work, const atvi_batch *batch);

  /* As predictive, but each value of the data is drawn given theta and all the other values: its prediction
   * had it not been observed. Values are drawn one by one, not jointly; cells without a value are as in
   * predictive. NULL: values are independent given theta, so predictive serves. */
  void (*leave_one_out)(const void *self, void *work, uint64_t seed, atvi_idx first, atvi_idx B,
                        const double *theta, double *out);

  /* Draws series that are not functions of theta alone, such as a discrepancy given the data, and their
   * observations without noise, jointly with what predictive draws for the same seed and numbers. They
   * replace the means from predict in out[n_out][B]. NULL: none. */
  void (*latent)(const void *self, void *work, uint64_t seed, atvi_idx first, atvi_idx B, const double *theta,
                 double *out);

  /* Location and scale [d][B] of the parameters whose form is not ALONE; other rows, and the location of a
   * RATIO, are not written. A row depends on nothing but the parameters in its link. NULL: all are ALONE. */
  void (*prior_place)(const void *self, void *work, atvi_idx B, const double *theta, double *location,
                      double *scale);
  /* Its adjoint: adds to dtheta[d][B] from dlocation and dscale [d][B], of which the same rows are read. */
  void (*prior_place_vjp)(const void *self, void *work, atvi_idx B, const double *theta,
                          const double *dlocation, const double *dscale, double *dtheta);

  /* As eval of one unit alone: theta and the gradients are [n_on][B], of the parameters in unit[u].on. eval
   * is the sum over all units. NULL: units cannot be evaluated one by one. */
  void (*eval_unit)(const void *self, void *work, atvi_idx u, const atvi_batch *batch);

  /* As eval, with one of n_branch alternatives in the text of the density alone: a component of a mixture, or
   * one side of a condition. Only a search for modes asks, since each may have one that the others hide. NULL
   * if n_branch is 0. */
  void (*eval_branch)(const void *self, void *work, atvi_idx k, const atvi_batch *batch);

  /* Derivatives of log prior and log likelihood, [B] each (NULL: not wanted), at theta[d][B] along
   * direction[d][B], by another way than the gradients of eval, which they test: forward through everything
   * that eval does, adaptive choices (step sizes) as eval makes them. NaN where there is none. NULL: not
   * available. */
  void (*tangent)(const void *self, void *work, atvi_idx B, const double *theta, const double *direction,
                  double *log_prior, double *log_lik);
} atvi_target_ops;

typedef struct {
  const atvi_target_ops *ops;
  void *self;
  /* Name for messages and folders. */
  const char *name;
  /* Parameters. */
  atvi_idx d;
  const atvi_param *param; /* [d] */
  /* [d]; NULL: no prior depends on other parameters, or it is not known how. */
  const atvi_prior_link *prior;
  atvi_idx n_derived;
  /* [n_derived] names. */
  const char *const *derived;
  atvi_idx n_series;
  /* Observed ones first, then tracked, then states. */
  const atvi_series *series;
  /* Values in observed series. */
  atvi_idx n_obs;
  /* Values in all series. */
  atvi_idx n_out;
  /* Preferred number of points per call of eval, a multiple of 8; 0: any. */
  atvi_idx group;
  /* [n_unit] parts whose sum the density is; 0 if it is not known as a sum. */
  atvi_idx n_unit;
  const atvi_unit *unit;
  /* Alternatives in the text of the density, see eval_branch; 0: none. */
  atvi_idx n_branch;
  /* About how many arithmetic operations an evaluation without gradients takes at one point, counted, not
   * timed; 0: not known. */
  double operations;
} atvi_target;

#ifdef __cplusplus
}
#endif
#endif
