/* SPDX-License-Identifier: MIT */
/* Markov chains: the methods ram and nuts, and their driver, which the exact sampler (vi_exact.c) shares.
 *
 * The driver runs groups of chains on threads, keeps their states, judges them at checkpoints, reports
 * progress, heeds limits and stop requests, and delivers. A method is a table of functions: how a group moves
 * on, what is adapted when, what is added to the draws.
 *
 * Arrival    a chain counts from when it is first among the upper seven eighths of all kept states by their log density. One that is not there
 *            within an eighth of them, and whose region holds next to nothing of the posterior, is left out of this
 *            checkpoint, and of the draws if it is the last one (plan.leaves_out).
 * Judgement  at checkpoints spaced by a fifth of the way so far. A run ends when R-hat and both ESS are good
 *            for every parameter at two checkpoints in a row.
 * Storage    every thin-th state; when the store is full every second one is dropped and thin doubles.
 *            However long a run is, the store takes 8 (d + 2) states_per_ess max(4096, ess) bytes: 14 MB for
 *            40 parameters and the defaults.
 * Threads    a group runs a whole block alone. Where blocks end follows the clock and means nothing to the
 *            results: random numbers belong to (seed, iteration, chain), adaptation and checkpoints to
 *            iteration numbers.
 * Kills      a run is a stretch of io/memo.h, marked between blocks. */
#ifndef ATVI_INFER_CHAINS_H
#define ATVI_INFER_CHAINS_H

#include "atvi/draws.h"
#include "core/core.h"
#include "infer/elbo.h"
#include "infer/vi_tuning.h"
#include "model/evaluator.h"

/* Starting points: draws from the prior that can be evaluated, and a choice among them. */

typedef struct {
  atvi_ctx *ctx;
  atvi_idx d, n;     /* parameters; points found, >= 1 */
  atvi_idx cap;      /* row length of theta */
  bool from_prior;   /* false: the prior cannot be drawn, the points are spread over the box */
  double *theta;     /* [d][cap], the first n of each row */
  double *log_prior; /* [n] finite */
  double *log_lik;   /* [n] finite */
  double *scale;     /* [d] standard deviations of the prior, from draws, > 0 */
  atvi_idx tried;    /* points evaluated to find n */
  atvi_idx bad[8];   /* of these, by atvi_outcome; [0]: evaluated, but of zero likelihood */
} atvi_starts;

/* Draws points until want >= 1 can be evaluated and have positive density, or a limit (at least 2 000
 * draws) is reached. *out is NULL on error.
 * Errors: EINVAL (want < 1), ENOMEM, EMODEL (no point at all can be evaluated: the message says how most
 * of them ended), ESTOP. */
ATVI_CHECKED atvi_status atvi_infer_starts_new(atvi_ctx *ctx, atvi_evaluator *ev, uint64_t seed,
                                               atvi_idx want, atvi_starts **out);
void atvi_infer_starts_free(atvi_starts *s); /* NULL is fine */

/* Draws m points: index[m]. The likelihood counts with a power beta <= 1, returned, so small that about
 * 2 m of the points matter (all of them if there are fewer): better ones are preferred, and they remain as
 * dispersed as the candidates allow. Points are distinct while there are enough of them. */
double atvi_infer_starts_pick(const atvi_starts *s, uint64_t seed, atvi_idx m, atvi_idx *index);

/* The arithmetic of adaptive Metropolis for one group of ATVI_LANES chains, a chain per lane.
 * Arrays are [..][ATVI_LANES], aligned to ATVI_ALIGN. No lane ever influences another. */

typedef struct {
  atvi_idx d;
  uint64_t seed;
  uint32_t chain;              /* number of the chain in lane 0 */
  const double *lower, *upper; /* [d], shared by the lanes */
  double *S; /* [d (d + 1) / 2][LANES] lower triangular factor of the proposal, row after row */
  double *x; /* [d][LANES] where the chains are */
  double *log_prior, *log_lik; /* [LANES] there */
  double *u;                   /* [d + 1][LANES] standard normals of the current proposal (one to spare) */
  double *log_u;               /* [LANES] log of the uniform number that decides */
  double *prop;                /* [d][LANES] proposal */
  double *prop_log_prior, *prop_log_lik; /* [LANES]; -inf: rejected */
  double *outside;                       /* [LANES] 1 where the proposal is outside the box, else 0 */
  double *diag, *gain;                   /* [d][LANES] scratch */
  double *accepted;                      /* [LANES] count of accepted proposals */
} atvi_lanes;

/* prop = x + S u with the random numbers of this iteration; fills u, log_u, outside. */
typedef void atvi_lanes_propose_fn(const atvi_lanes *g, uint32_t iteration);
/* Accepts or rejects for the density prior * likelihood^beta, then
 * S S^T becomes S (I + eta (alpha - 0.234) u u^T / |u|^2) S^T. eta in [0, 1]. */
typedef void atvi_lanes_update_fn(const atvi_lanes *g, double beta, double eta);

atvi_lanes_propose_fn atvi_infer_lanes_propose_base, atvi_infer_lanes_propose_avx2,
    atvi_infer_lanes_propose_avx512;
atvi_lanes_update_fn atvi_infer_lanes_update_base, atvi_infer_lanes_update_avx2,
    atvi_infer_lanes_update_avx512;

typedef struct {
  uint64_t seed;
  /* 1 to 1024; a multiple of ATVI_LANES is efficient */
  int chains;
  /* bulk and tail effective size that every parameter must reach, > 0 and <= ATVI_CHAINS_ESS_MOST */
  double ess;
  /* R-hat that every parameter must fall below, > 1 */
  double rhat;
  /* iterations per chain, warm-up included, >= 16, below 2^32 */
  atvi_idx max_iter;
  /* wall-clock limit, > 0; HUGE_VAL: none */
  double max_seconds;
  /* prior draws looked at per chain for good starting points, >= 1 */
  int candidates;
  /* nuts: acceptance statistic that step sizes are adapted to, in (0, 1) */
  double accept;
  /* nuts: a tree takes at most 2^max_depth - 1 gradients; 1 to 20 */
  int max_depth;
} atvi_chains_opts;

enum {
  /* input: largest effective size that can be asked for: all draws are kept in memory */
  ATVI_CHAINS_ESS_MOST = 100000
};
/* States per chain that the criteria need, and for which there is always room: by chance R-hat of n states is
 * off by up to 1 / n. */
#define ATVI_CHAINS_JUDGED ((atvi_idx)(1 / ATVI_SLIGHT))

/* What the methods have in common; max_iter is that of ram. */
atvi_chains_opts atvi_infer_chains_defaults(void);
atvi_chains_opts atvi_infer_nuts_defaults(void);

/* Robust adaptive Metropolis (Vihola 2012) and the No-U-Turn sampler (Hoffman & Gelman 2014; multinomial,
 * Betancourt 2017) on the unconstrained space, which needs gradients. opts NULL: defaults. The draws of ram
 * are the second half of what was run, those of nuts what came after warm-up and the first third; both are
 * thinned to at most some twenty thousand. made.end says whether the criteria were met; divergences, ebfmi,
 * tree_depth and max_depth_hits of nuts are about all iterations after warm-up. The result depends on the
 * options and the target alone, not on the number of threads (unless time or the stop request ends the run).
 * Errors: EINVAL (a setting out of range; a map that does not suit its parameter), ENOMEM, EMODEL (no
 * starting point), ESTOP or ELIMIT (stopped, or out of time, before any draw could be kept). *out is NULL on
 * error. */
ATVI_CHECKED atvi_status atvi_infer_ram_run(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_chains_opts *opts,
                                            atvi_draws **out);
ATVI_CHECKED atvi_status atvi_infer_nuts_run(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_chains_opts *opts,
                                             atvi_draws **out);

typedef struct atvi_chains atvi_chains;

/* nuts from points of a fit, in the coordinates y of a frame of its own: x = shift + chol y. */
typedef struct {
  atvi_chains_opts opts;
  const atvi_space *space;
  const atvi_member *frame;
  /* [d][opts.chains] xi; those that cannot be evaluated are replaced by others */
  const double *start;
  /* as in atvi_chains and atvi_chains_plan */
  double begun_s, before, reported;
} atvi_nuts_from;
/* Ready for atvi_infer_chains_on; all of it is the pool's. Beyond log prior and log likelihood a state has
 * log pi and y[d]. *out is NULL where no start has a gradient, and on error. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_nuts_begin_from(atvi_ctx *ctx, atvi_evaluator *ev, atvi_pool *pool,
                                                    const atvi_nuts_from *from, atvi_chains **out);

/* ---- the driver ---- */

/* The functions get `self` of the chains. */
typedef struct {
  const char *name;
  /* Makes the method's arrays in the pool, fills the plan and puts the chains at points of s. index[chains]:
   * scratch. */
  atvi_status (*begin)(void *self, const atvi_starts *s, atvi_idx *index);
  /* Moves the chains of a group on, on the calling thread: to iteration block.goal, or for
   * block.evals evaluations each. Returns how many iterations all of them have done. */
  atvi_idx (*run)(void *self, atvi_idx group, int worker);
  /* All chains are at `done`: adapts. Returns the iteration at which to call it again; 0: warm-up is over. */
  atvi_idx (*warm_up)(void *self);
  /* A checkpoint was not passed; judged: there were enough states to look. NULL: nothing follows from it. */
  void (*not_passed)(void *self, bool judged);
  /* How far further criteria are met, as share_of in chains.c; NULL: there are none. */
  double (*further)(void *self);
  /* Log mass of the region where a chain is, up to a constant that chains share, and its mean log density. */
  double (*mass)(void *self, atvi_idx chain, double *log_pi);
  /* One chain goes on from where another is. */
  void (*copy)(void *self, atvi_idx to, atvi_idx from);
  /* Adds what the method knows. */
  void (*made)(const void *self, atvi_made *made);
  /* Names everything that run, warm_up and not_passed change, in the pause between two blocks. NULL: an
   * interrupted run begins again. */
  atvi_state_fn *state;
  /* Frees what is not in the pool. NULL: nothing. */
  void (*end)(void *self);
} atvi_chains_ops;

/* What the method decides before the run. */
typedef struct {
  /* groups of chains that one thread moves at a time */
  atvi_idx groups;
  /* numbers kept per state; d parameters, log prior, log likelihood, and what the method adds */
  atvi_idx rows;
  /* states in the store per effective draw wanted, so that thinning costs little */
  int states_per_ess;
  /* iterations before the first that is stored; checkpoints count from here */
  atvi_idx from;
  /* iterations of which nothing may be kept */
  atvi_idx discard;
  /* the first of so many parts of all iterations is not kept */
  int part;
  /* iteration of the first checkpoint */
  atvi_idx first_check;
  /* kept states of all chains before the criteria are looked at */
  atvi_idx look_min;
  /* what progress calls it; NULL: warm-up and sampling */
  const char *phase;
  /* share of the whole fit's progress that was made before */
  double before;
  /* chains that have not arrived are left out at checkpoints */
  bool leaves_out;
} atvi_chains_plan;

/* ess: the smaller of bulk and tail */
typedef struct {
  double rhat, ess;
} atvi_quality;

struct atvi_chains {
  atvi_ctx *ctx;
  atvi_evaluator *ev;
  atvi_pool *pool;
  const atvi_chains_ops *ops;
  void *self;
  atvi_chains_opts opts;
  atvi_chains_plan plan;
  double begun_s;
  /* parameters, chains */
  atvi_idx d, m;
  /* iterations that all chains have done, and to which they are on their way, if that is more */
  atvi_idx done, to;
  /* What groups run alone. */
  struct {
    /* where chains wait for each other */
    atvi_idx goal;
    /* evaluations per chain */
    atvi_idx evals;
    /* [groups] iterations done */
    atvi_idx *reached;
  } block;
  /* The states that are kept. */
  struct {
    /* iterations per stored state */
    atvi_idx thin;
    /* states per chain, even */
    atvi_idx room;
    /* [rows][m][room] */
    double *row;
    /* seconds since begun_s when it was opened */
    double opened_s;
  } store;
  /* [threads] room to look at a row of the store */
  double **work;
  /* How far the criteria are met. */
  struct {
    /* [d] at the last checkpoint that looked at them all */
    atvi_quality *quality;
    /* the parameter that was farthest from the criteria, and what it had then */
    atvi_idx worst;
    atvi_quality seen;
    /* above 1: they are met */
    double share;
  } judged;
  /* the progress reported */
  double reported;
  /* Chains that were caught in a region of negligible mass. */
  struct {
    /* [m] the last masses, -inf of chains that were moved; and mean log densities */
    double *mass, *log_pi;
    /* [m] chains that were moved */
    bool *moved;
    /* how much lower their log density was, at most */
    double drop;
  } lost;
  /* [m] chains left out, and how many are not; kept states that come before the last of these had arrived */
  bool *absent;
  atvi_idx live, late;
  /* Checkpoints. */
  struct {
    /* warm-up is over */
    bool warm;
    /* iterations from plan.from to the next one */
    atvi_idx next;
    /* good ones in a row */
    int passed;
  } check;
  /* the run is over, and how it ended */
  bool over;
  atvi_end end;
};

/* A whole run of a method that begins at draws of the prior. c has ctx, ev, ops and self.
 * Errors: as of atvi_infer_ram_run. */
ATVI_CHECKED atvi_status atvi_infer_chains_sample(atvi_chains *c, const atvi_chains_opts *opts,
                                                  atvi_draws **out);

/* Its pieces. Open takes the store from the pool, with options and plan set. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_chains_open(atvi_chains *c);
/* Warm-up if it is still to come, then to the next checkpoint. Returns whether the run is over, and how in
 * *end. */
bool atvi_infer_chains_on(atvi_chains *c, atvi_end *end);
/* All of it, until the criteria are met or a limit is. */
atvi_end atvi_infer_chains_loop(atvi_chains *c);
/* Judges every parameter at the present iteration: how far the criteria are met, above 1: they are. */
double atvi_infer_chains_outlook(atvi_chains *c);
/* DRAWS of the states that count, with derived quantities. end: what is said of fewer than
 * ATVI_CONVERGE_LEAST per chain. Errors: ESTOP, ELIMIT (that), ENOMEM; *out is NULL then. */
ATVI_CHECKED atvi_status atvi_infer_chains_deliver(const atvi_chains *c, atvi_end end, atvi_draws **out);

/* For methods. */

/* Where a group in lockstep ends its block. */
static inline atvi_idx atvi_infer_chains_to(const atvi_chains *c) {
  return c->done + c->block.evals < c->block.goal ? c->done + c->block.evals : c->block.goal;
}
/* Stores the state of a chain after an iteration, x[d] with a stride, if it is one to store; then returns
 * where the method's own row goes, else NULL. */
double *atvi_infer_chains_keep(const atvi_chains *c, atvi_idx chain, atvi_idx iteration, const double *x,
                               atvi_idx stride, double log_prior, double log_lik);
/* The stored states that count, of every chain that is not left out: n of them from `first` on. */
typedef struct {
  atvi_idx first, n;
} atvi_kept;
atvi_kept atvi_infer_chains_kept(const atvi_chains *c);
static inline const double *atvi_infer_chains_row(const atvi_chains *c, atvi_idx row, atvi_idx chain) {
  return c->store.row + (row * c->m + chain) * c->store.room;
}
/* A row of these states, chain after chain, to x[live * n]. */
void atvi_infer_chains_copy_row(const atvi_chains *c, atvi_kept kept, atvi_idx row, double *x);
/* How far a row meets the criteria. */
double atvi_infer_chains_share(const atvi_chains *c, atvi_idx row);
/* Moves chains that are caught in a region of negligible mass to where others are. Returns whether there were
 * any. */
bool atvi_infer_chains_move_lost(atvi_chains *c);

#endif
