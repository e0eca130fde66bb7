/* SPDX-License-Identifier: MIT */
/* Stored states of several chains: when they agree, thinning, delivery. Shared by the methods that run chains. */
#ifndef ATVI_INFER_CHAINS_H
#define ATVI_INFER_CHAINS_H

#include "atvi/draws.h"
#include "infer/start.h"

typedef struct {
  atvi_idx d, m;        /* parameters, chains */
  atvi_idx room;        /* states per chain in the store */
  double *store;        /* [d + 2][m][room]; the last two rows are log prior and log likelihood */
  atvi_idx first, last; /* the states that count are first .. last-1 */
} atvi_chains;

typedef struct {
  double rhat, ess; /* ess: the smaller of bulk and tail */
} atvi_quality;

/* The criteria, what was found, and room to look. */
typedef struct {
  double rhat, ess;      /* every parameter must fall below and reach */
  int workers;           /* threads of the context */
  double **work;         /* [workers] see atvi_criteria_carve */
  atvi_quality *quality; /* [d] at the last checkpoint that looked at them all */
  atvi_idx worst;        /* the parameter that was farthest from the criteria */
} atvi_criteria;

/* Takes work and quality for at most n counting states of m chains. */
void atvi_criteria_carve(atvi_arena *a, atvi_criteria *j, atvi_idx d, atvi_idx m, atvi_idx n);
/* A checkpoint, on all threads. The parameter that was worst is looked at first, and while it is not good enough the
 * others are not looked at, so that checkpoints stay cheap. share: how far the worst parameter has come, above 1 is there.
 * Returns whether all are good. */
bool atvi_chains_judge(atvi_ctx *ctx, const atvi_chains *c, atvi_criteria *j, double *share,
                       atvi_quality *worst);
/* Progress of chains whose last checkpoint found this. */
void atvi_chains_tell(atvi_ctx *ctx, const char *phase, double done, double elapsed_s, atvi_quality worst);

/* Drops every second stored state, in all of the store: what is left are the 2nd, 4th, ... */
void atvi_chains_halve(const atvi_chains *c);

/* DRAWS of the states that count, with derived quantities. end: what is said of fewer than 4 of them per chain after
 * `done` iterations. Errors: ESTOP, ELIMIT (that), ENOMEM; *out is NULL then. */
ATVI_CHECKED atvi_status atvi_chains_deliver(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_chains *c,
                                             atvi_end end, atvi_idx done, atvi_draws **out);
/* Tells the user if starting points were rare. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_chains_say_starts(const atvi_starts *s, atvi_idx chains, atvi_draws *d);

#endif
