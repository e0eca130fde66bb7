/* SPDX-License-Identifier: MIT */
/* Looks for the maxima of a posterior in unconstrained coordinates, on purpose and cheaply: many short climbs
 * at once, from given starts. A variational fit or a chain that has settled in one mode cannot see
 * another. */
#ifndef ATVI_INFER_MODES_H
#define ATVI_INFER_MODES_H

#include "atvi/draws.h"
#include "infer/optimum.h"
#include "infer/space.h"

typedef struct {
  double log_pi;       /* at the maximum, at beta = 1 */
  double log_evidence; /* log of the integral: Laplace's, or a larger one by draws */
  double *x;           /* [d] the maximum, in xi */
  double *chol;        /* [d][d] lower Cholesky factor of the covariance of the normal approximation */
  int hits;            /* climbs that ended here */
  bool probed;         /* log_probe is known: log of the integral by draws around it */
  double log_probe;
  bool scanned; /* lines through it have been looked at */
} atvi_peak;

typedef struct {
  atvi_idx n;      /* >= 0 */
  atvi_peak *mode; /* [n] by log_evidence, best first; separated from each other by a barrier */
  int64_t evaluations;
} atvi_modes;

typedef struct {
  int iterations; /* of each climb, >= 1 */
  int most;       /* modes reported, >= 1 */
  /* Asked now and then; true ends the search with what there is. NULL: never. */
  bool (*late)(const void *user);
  const void *user;
} atvi_modes_opts;
atvi_modes_opts atvi_infer_modes_defaults(void); /* 60, 8 */

/* Climbs from start[d][n_start], all at once, one batched evaluation with gradient per iteration. Starts that
 * cannot be evaluated are left out. Modes more than 20 nats below the best are not reported; surjections'
 * copies of a mode outside the box are taken for what they are. *out may hold modes that are known, as from
 * an earlier call: where log pi is still what it was, they are not climbed or measured again; elsewhere they
 * are starts. opts NULL: defaults. Pieces of *out come from pool. The result does not depend on the number of
 * threads. A stop request ends it early with the best end so far, if there is any. Errors: ENOMEM; *out is
 * then what it was. */
ATVI_CHECKED atvi_status atvi_infer_modes_find(const atvi_space *s, const atvi_modes_opts *opts,
                                               atvi_pool *pool, atvi_idx n_start, const double *start,
                                               atvi_modes *out);

/* Many climbs towards maxima of log pi at once: see modes.h for what they are for. */

/* A batch that is filled point by point and then evaluated. */
typedef struct {
  const atvi_space *s;
  atvi_idx d, cap;                /* at most cap points */
  atvi_idx B;                     /* points in it; their number must be set before they are put */
  double *x, *theta;              /* [d][B] */
  double *log_pi;                 /* [B] */
  double *dx;                     /* [d][B] */
  int64_t evaluations;            /* so far */
  bool (*late)(const void *user); /* NULL: never */
  const void *user;
} atvi_climb_batch;

/* From pool. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_climb_batch_new(const atvi_space *s, atvi_pool *pool, atvi_idx cap,
                                                    atvi_climb_batch *out);
/* Point i is from + t (to - from). */
void atvi_infer_climb_batch_put(atvi_climb_batch *b, atvi_idx i, double t, const double *from,
                                const double *to);
void atvi_infer_climb_batch_eval(atvi_climb_batch *b, bool gradient);
/* Value of point i, and its gradient to g[d] (NULL: not wanted). -inf, with g as it was, unless all is
 * finite. */
double atvi_infer_climb_batch_get(const atvi_climb_batch *b, atvi_idx i, double *g);

typedef struct {
  double f;      /* log pi at x; -inf before the first evaluation, and where the start cannot be evaluated */
  double gain;   /* what f could still rise by, as far as the curvature seen tells; HUGE_VAL: not known */
  double *x, *g; /* [d] */
  double *to, *gt;   /* [d] end of the full step, gradient of a trial */
  double *s, *y;     /* [pairs][d] steps and what the gradient lost on them */
  double slope;      /* of f along the full step */
  double t, length;  /* share of the full step tried next; length of the last step taken */
  int pairs, next;   /* pairs held; where the next one goes */
  int trials, small; /* of the current step; steps in a row that gained next to nothing */
  atvi_idx fixed;    /* a coordinate that stays as it is; -1: none */
  bool strict;       /* to end only where the gradient says so, or nothing helps */
  bool ended;
} atvi_climb;

/* n climbs from start[d][n]. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_climbs_new(atvi_pool *pool, atvi_idx d, atvi_idx n, const double *start,
                                               atvi_climb **out);
/* Begins anew at c->x, which may have been changed. */
void atvi_infer_climb_restart(atvi_climb *c);
/* Takes an ended climb up again, strictly. */
void atvi_infer_climb_resume(atvi_climb *c, atvi_idx d);
/* At most `iterations` trials of each climb that has not ended; b must hold n points. False: asked to stop. */
bool atvi_infer_climbs_run(atvi_climb_batch *b, atvi_idx n, atvi_climb *const *climb, int iterations);

/* The normal approximation at a mode: Hessian, covariance, what the data do not inform, draws. */

typedef struct {
  atvi_idx d, k;          /* parameters; those that are free */
  const double *scale;    /* [d] prior standard deviations; coordinates y = theta / scale */
  atvi_idx *free;         /* [k] which are free */
  double *slope;          /* [d] gradient of the log posterior in y at the mode */
  double *hess_lik;       /* [k][k] minus the Hessian of the log likelihood in y */
  double *hess;           /* [k][k] minus the Hessian of the log posterior in y */
  double *value, *vector; /* [k], [k][k] its eigenvalues, raised to a floor, and eigenvectors (columns) */
} atvi_laplace;

/* Builds it at info->mode with info->at_bound; fills sd, cov, definite, gap, uninformed of info. Pieces come
 * from info->pool. scale[d] is borrowed. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_laplace_at(atvi_ctx *ctx, atvi_evaluator *ev, const double *scale,
                                               atvi_optimum_info *info, atvi_laplace **out);

/* n draws x[d][n] inside the box. Returns the share of the normal approximation that lies in the box, as
 * far as rejection can tell (0: so little that some draws had to be moved to the box). */
double atvi_infer_laplace_draw(const atvi_laplace *l, const atvi_target *t, const atvi_optimum_info *info,
                               uint64_t seed, atvi_idx n, double *x);

/* Log evidence of the approximation; NaN if the Hessian is not definite. share: from atvi_infer_laplace_draw. */
double atvi_infer_laplace_evidence(const atvi_laplace *l, const atvi_target *t, const atvi_optimum_info *info,
                                   double share);

#endif
