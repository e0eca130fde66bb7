/* SPDX-License-Identifier: MIT */
/* The objective of variational inference on batches: draws of q, log pi and log q there, and the gradient of
 * the ELBO.
 *
 * q is a member of a family (family.h) in a frame: x = shift + chol y, y from the family. Work is cut into
 * parts of fixed size that run on the context's threads; sums over parts are taken in order, so that results
 * do not depend on the threads. */
#ifndef ATVI_INFER_ELBO_H
#define ATVI_INFER_ELBO_H

#include "flow/flow.h"
#include "infer/bend.h"
#include "infer/space.h"

typedef struct {
  double *phi;   /* [family->size] */
  double *shift; /* [d] */
  /* [d][d] lower triangular; negative diagonal entries reflect. */
  double *chol;
  /* log |det chol| */
  double log_det;
  /* The frame is not the identity. */
  bool whole;
  /* Of y, before chol. */
  atvi_bend bend;
} atvi_member;

/* n points [d][n] between the family's coordinates y and x = shift + chol y', y' being y bent; the adjoint
 * turns dx into dy in place, at y, which is not read if there is no bend. */
void atvi_infer_member_to_frame(const atvi_member *m, atvi_idx d, atvi_idx n, const double *y, double *x);
void atvi_infer_member_to_family(const atvi_member *m, atvi_idx d, atvi_idx n, const double *x, double *y);
void atvi_infer_member_adjoint(const atvi_member *m, atvi_idx d, atvi_idx n, const double *y, double *dx);
/* By how much stretched base draws are, squared; and log_q[n] of a member made that of the mixture with its
 * stretched self. */
double atvi_infer_guard_scale2(atvi_idx d);
void atvi_infer_guard_add(atvi_idx d, atvi_idx n, const double *radius2, double *log_q);

/* Draws, columns of capacity cap. */
typedef struct {
  atvi_idx cap;
  /* Draws in it. */
  atvi_idx n;
  double *x, *theta;           /* [d][cap] */
  double *log_prior, *log_lik; /* [cap] */
  /* [cap] at beta = 0 and 1; -inf: the run failed or has density zero. */
  double *log_base, *log_pi;
  /* [cap] of the member, or of the guarded mixture. */
  double *log_q;
  /* [cap] of the member; NaN for stretched draws. */
  double *log_member;
  /* [d][cap] gradient of log_lik by theta; NULL: not wanted. */
  double *dlik;
} atvi_cloud;

typedef struct {
  /* Of log pi_beta - log q over the draws that count. */
  double mean, sd;
  /* Draws that count: finite log pi. */
  atvi_idx good;
} atvi_elbo_info;

typedef struct atvi_elbo atvi_elbo;

/* batch: draws per gradient, a multiple of ATVI_LANES. space and family are borrowed. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_elbo_new(atvi_ctx *ctx, const atvi_space *space,
                                             const atvi_family *family, uint64_t seed, bool plain,
                                             atvi_idx batch, atvi_elbo **out);
void atvi_infer_elbo_free(atvi_elbo *e); /* NULL is fine */

/* Draws per gradient from now on: at most the batch of new, a multiple of ATVI_LANES. */
void atvi_infer_elbo_set_batch(atvi_elbo *e, atvi_idx batch);
/* From the second gradient on a draw's gradient of log pi is held to this many times the ninth decile of the
 * lengths in the batch before; HUGE_VAL, as after new: not at all. */
void atvi_infer_elbo_set_outlier(atvi_elbo *e, double outlier);
/* What one gradient leaves for the next. */
void atvi_infer_elbo_state(atvi_elbo *e, atvi_state *s);
/* grad[size] = gradient of MINUS the ELBO at inverse temperature beta, over one batch of base draws with this
 * scramble. Draws that failed are left out of the mean; the gradient is that of mean + log(share of draws
 * that did not fail). */
atvi_elbo_info atvi_infer_elbo_grad(atvi_elbo *e, const atvi_member *m, double beta, uint32_t scramble,
                                    double *grad);
/* The same for the forward divergence, for fine-tuning: minus smoothed weights, held constant, times the path
 * gradient of log pi - log q. n draws; the family must have a score. */
typedef struct {
  double *dx;     /* [d][n] */
  double *weight; /* [n] */
  /* [atvi_math_psis_work(n)] */
  double *work;
} atvi_elbo_room;
atvi_elbo_info atvi_infer_elbo_grad_forward(atvi_elbo *e, const atvi_member *m, atvi_idx n, uint32_t scramble,
                                            const atvi_elbo_room *room, double *grad);

/* n draws with base points first .. first+n-1 of (stream, scramble), to places at .. of the cloud. guard (n a
 * multiple of ATVI_GUARD): the last n / ATVI_GUARD have their base point stretched, and log_q is that of the
 * mixture which such draws come from. A flow's tails are those of its base, scaled; where the posterior's are
 * longer, weights would grow without bound, and the wide part stops them, at the cost of a few percent of the
 * draws. Families without a unique base point are drawn without. */
enum { ATVI_GUARD = 16 };
typedef struct {
  uint32_t stream, scramble;
  atvi_idx first, n;
  bool guard;
} atvi_elbo_lot;
void atvi_infer_elbo_draw(atvi_elbo *e, const atvi_member *m, const atvi_elbo_lot *lot, atvi_cloud *c,
                          atvi_idx at);
/* log q of the member (guarded or not) at the points 0 .. n-1 of the cloud: out[n]. */
void atvi_infer_elbo_log_q(atvi_elbo *e, const atvi_member *m, bool guard, const atvi_cloud *c, atvi_idx n,
                           double *out);

#endif
