/* SPDX-License-Identifier: MIT */
/* Many climbs towards maxima of log pi at once: see modes.h for what they are for. */
#ifndef ATVI_INFER_MODES_CLIMB_H
#define ATVI_INFER_MODES_CLIMB_H

#include "infer/space.h"

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
ATVI_CHECKED atvi_status atvi_climb_batch_new(const atvi_space *s, atvi_pool *pool, atvi_idx cap,
                                              atvi_climb_batch *out);
/* Point i is from + t (to - from). */
void atvi_climb_batch_put(atvi_climb_batch *b, atvi_idx i, double t, const double *from, const double *to);
void atvi_climb_batch_eval(atvi_climb_batch *b, bool gradient);
/* Value of point i, and its gradient to g[d] (NULL: not wanted). -inf, with g as it was, unless all is finite. */
double atvi_climb_batch_get(const atvi_climb_batch *b, atvi_idx i, double *g);

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
  bool strict;       /* to end only where the gradient says so, or nothing helps */
  bool ended;
} atvi_climb;

/* n climbs from start[d][n]. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_climbs_new(atvi_pool *pool, atvi_idx d, atvi_idx n, const double *start,
                                         atvi_climb **out);
/* Begins anew at c->x, which may have been changed. */
void atvi_climb_restart(atvi_climb *c);
/* Takes an ended climb up again, strictly. */
void atvi_climb_resume(atvi_climb *c, atvi_idx d);
/* At most `iterations` trials of each climb that has not ended; b must hold n points. False: asked to stop. */
bool atvi_climbs_run(atvi_climb_batch *b, atvi_idx n, atvi_climb *const *climb, int iterations);

#endif
