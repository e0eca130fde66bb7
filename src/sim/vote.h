/* SPDX-License-Identifier: MIT */
/* Which times most runs have; for src/sim alone. Runs arrive in any order, and who is first must not matter. */
#ifndef ATVI_SIM_VOTE_H
#define ATVI_SIM_VOTE_H

#include "sim/output.h"

/* Runs on the same times. */
typedef struct {
  atvi_sim_series times; /* of the run `id`; without values */
  int64_t id;            /* the smallest of those that were added */
  atvi_idx n;            /* runs */
} atvi_sim_party;

typedef struct {
  atvi_pool *pool;
  atvi_sim_party *party; /* [n] */
  atvi_idx n, cap;
} atvi_sim_vote;

/* The party of a run, which is made if there is none; -1: no memory. */
atvi_idx atvi_sim_vote_add(atvi_sim_vote *v, int64_t id, const atvi_sim_series *s);
/* A run leaves its party: another line of the record has taken its place. */
void atvi_sim_vote_drop(atvi_sim_vote *v, atvi_idx party);
/* The party with most runs; of equals that with more values, then the one with the smallest id. -1: there is no run. */
atvi_idx atvi_sim_vote_winner(const atvi_sim_vote *v);
/* Why a run of a party is not one of the winner's. Memory from pool. */
const char *atvi_sim_vote_why(const atvi_sim_vote *v, atvi_pool *pool, const char *name, atvi_idx party);

#endif
