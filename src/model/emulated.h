/* SPDX-License-Identifier: MIT */
/* Models whose observations are sums of processes in time: an emulator's output and its error, discrepancies,
 * white noise.
 *
 *   D(t) = mean(t, theta) + N(0, sill share(theta) c(s, t)) + other processes,     mean, share: of the emulator (gp/emulator.h)
 *
 * What a basis drops is a part of share that goes with the sill that was found, whatever the one above is.
 *
 * Parameters of the processes are results of the model's setup program ("arguments"), and their adjoints go
 * back through it. Emulators take ATVI_EM_GROUP points at a time, processes ATVI_LANES: eval.c calls `begin`
 * once for a group, `lanes` for its parts, and `end` for the emulators' share of the gradient. An output that
 * is one number has an error that is the same in every row. */
#ifndef ATVI_MODEL_EMULATED_H
#define ATVI_MODEL_EMULATED_H

#include "atvi/model.h"
#include "gp/markov.h"
#include "model/dossier.h"

/* ---- the model's part ---- */

typedef struct {
  /* NULL: no observation has it, and the rest is empty */
  atvi_emulator *em;
  atvi_idx d, m;
  /* [d] parameters */
  const atvi_idx *input;
  /* [d] */
  const atvi_emulated_axis *axis;
  /* [m]; NULL: the output is one number without a time */
  const double *time;
  /* the runs have no times: these are 1, 2, ... */
  bool counted;
  /* its runs and how good it is */
  atvi_dossier dossier;
} atvi_emulation;

/* One observation. Places are its rows in the order of time. */
typedef struct {
  atvi_idx observe, data;
  atvi_idx emulator; /* -1: none, the mean is 0 */
  atvi_idx n, n_used;
  atvi_idx *row;     /* [n] row of the data at each place */
  double *value;     /* [n] NaN: missing */
  bool *used;        /* [n] part of the likelihood */
  atvi_idx *em_row;  /* [n] output of the emulator */
  atvi_idx *used_at; /* [n_used] the used places */
  atvi_idx *em_used; /* [n_used] output of the emulator there */
  int n_term;
  atvi_gp_kind kind[ATVI_MARKOV_TERMS];
  int own;                            /* the term that is the emulator's error; -1: none */
  atvi_idx arg[ATVI_MARKOV_TERMS][2]; /* variance, range: which argument; -1: the number below */
  double number[ATVI_MARKOV_TERMS][2];
  double dropped;                  /* what the emulator's basis leaves out, in sills that were found */
  bool has_rest;                   /* other terms than that one and white ones */
  atvi_idx out_emulator, out_rest; /* where the two series begin among the target's; -1: there is none */
  atvi_markov *markov;             /* NULL: there are no rows */
} atvi_process;

typedef struct {
  atvi_idx n_emulator;
  /* [n_emulator] as in lang */
  atvi_emulation *emulator;
  /* they belong to another model */
  bool borrowed;
  atvi_idx n;
  atvi_process *process; /* [n] */
  atvi_idx n_arg;
  atvi_node *arg; /* [n_arg] */
  atvi_idx lines; /* of the record; 0: no emulator is of one */
  /* of a fit; n == 0: not known */
  atvi_emulated_moves moves;
} atvi_emulated;

struct atvi_model_load_opts;
/* Fits or loads the emulators that observations use, as opts says (runs, runs_lines, emulators, forward).
 * *out is NULL where there is nothing to do. held[n_data][n_row] (NULL: none): rows whose values stay but are
 * not part of the likelihood. Memory from pool, but for what free gives back. */
ATVI_CHECKED atvi_status atvi_model_emulated_new(atvi_pool *pool, const atvi_lang *lang,
                                                 const struct atvi_model_load_opts *opts, bool *const *held,
                                                 atvi_emulated **out);
void atvi_model_emulated_free(atvi_emulated *e); /* NULL is fine */

typedef struct atvi_emulated_work atvi_emulated_work;
ATVI_CHECKED atvi_status atvi_model_emulated_work_new(const atvi_emulated *e, atvi_ctx *ctx,
                                                      atvi_emulated_work **out);
void atvi_model_emulated_work_free(atvi_emulated_work *w); /* NULL is fine */

/* The emulators at points first .. first + ATVI_EM_GROUP - 1 of theta[d][B], the last one repeated. all: in
 * all rows, for reports; else in those of the likelihood. */
void atvi_model_emulated_begin(const atvi_emulated *e, atvi_emulated_work *w, bool all, atvi_idx B,
                               const double *theta, atvi_idx first);
/* Adds to sum[L] the log likelihood of points `part` .. part + L - 1 of the group, arg[n_arg][L] their
 * arguments; with arg_bar[n_arg][L] (added to) the adjoints too. */
void atvi_model_emulated_lanes(const atvi_emulated *e, atvi_emulated_work *w, int part, const double *arg,
                               double *arg_bar, double *sum);
/* Adds the emulators' share to grad[d][B], for the points of the group that are good[ATVI_EM_GROUP]: whose
 * likelihood is finite. */
void atvi_model_emulated_end(const atvi_emulated *e, atvi_emulated_work *w, atvi_idx B, atvi_idx first,
                             const bool *good, double *grad);

/* Of process k with an emulator, for a part of a group that was begun without `all`: parameters of its
 * terms, [2 n_term][L] as atvi_gp_markov_eval takes them, with the variance of the emulator's error; and
 * its mean in the used places, mean[n_used][ATVI_LANES]. */
const double *atvi_model_emulated_terms(const atvi_emulated *e, atvi_emulated_work *w, atvi_idx k, int part,
                                        const double *arg, double *mean);

/* How far the posterior with these draws, theta[d][B] with weight[B] of sum 1 and no draw twice, would
 * move with perfect emulators; also fills what the dossiers of the emulators say about where it is. Memory
 * from pool, which must outlive m. Errors: ENOMEM, EDATA (the error cannot be computed at a draw), EIO
 * (OpenBLAS is not installed). */
ATVI_CHECKED atvi_status atvi_model_emulated_moves(atvi_pool *pool, const atvi_model *m, uint64_t seed,
                                                   atvi_idx B, const double *theta, const double *weight,
                                                   atvi_emulated_moves *out);

#endif
