/* SPDX-License-Identifier: MIT */
/* Every constant of variational inference, in one place.
 *
 * ATVI_VI_TUNABLES  what may be changed at run time, for measurements: X(name, value, unit, what it decides or trades). All of them were
 *                   measured by `build/bench/sensitivity`, which halves and doubles each on a dozen problems (docs/sensitivity.md
 *                   has the outcome).
 * the rest          sizes of arrays, tolerances of searches for maxima, and what only words depend on. */
#ifndef ATVI_INFER_VI_TUNING_H
#define ATVI_INFER_VI_TUNING_H

#include "core/core.h"
#include <float.h>
#include <math.h>

#define ATVI_VI_TUNABLES(X)                                                                                  \
  /* the ladder (vi_train.c) */                                                                              \
  X(rung_steps, 10, "steps", "on a rung: how well q follows against cost")                                   \
  /* rounds (vi_train.c) */                                                                                  \
  X(round_steps, 50, "steps", "of a round, more below four dimensions: noise of its gain against cost")      \
  X(step_round, 0.005, "Adam's step",                                                                        \
    "largest of a round in three dimensions; twice that on the ladder, a tenth of it for tuning")            \
  X(halvings, ATVI_REPEATS, "halvings", "of the step before training ends: precision against cost")          \
  X(gain, ATVI_SLIGHT, "nats", "a round is worth: precision against cost")                                   \
  X(clip, 1 / ATVI_SMALL, "length", "of a gradient: robustness against speed")                               \
  X(outlier, 1 / ATVI_SMALL, "ninth deciles", "length of one draw's gradient: robustness against bias")      \
  X(short_rounds, 2, "rounds", "of pilots under either map, and before slopes are set")                      \
  /* fine-tuning (vi.c, vi_train.c) */                                                                       \
  /* coordinates (vi_maps.c) */                                                                              \
  X(slope_least, 8, "per half box", "a copy that is half a box away has e^-16 of the mass")                  \
  X(slope_by_sd, 6, "1 / sd of q", "slope of the fold: mass left in copies against a hard edge")             \
  X(inflate, 1.15, "sd of the draws", "width of the new frame: too wide is easier to mend than too narrow")  \
  X(per_dim, 6, "draws per dimension", "that a covariance needs; below, variances only")                     \
  /* what q misses (vi_missing.c, vi_modes.c) */                                                             \
  X(points, 32, "points", "per dimension, of the population where q lacks the posterior")                    \
  X(look_cost, 0.4, "of the runs so far", "that it may take: what is found against cost")                    \
  X(renew, 2, "times", "that a point moves on a rung")                                                       \
  X(missed, 2, "nats", "by which q is too low where it lacks the posterior")                                 \
  /* draws and weights (vi.c, vi_weights.c) */                                                               \
  X(improve_times, ATVI_REPEATS, "times", "further training where k-hat is above its threshold")

typedef struct {
#define ATVI_VI_FIELD(name, value, unit, what) double name;
  ATVI_VI_TUNABLES(ATVI_VI_FIELD)
#undef ATVI_VI_FIELD
} atvi_vi_tuning;

atvi_vi_tuning atvi_infer_vi_tuning_defaults(void);

/* The table as data. */
typedef struct {
  const char *name;
  double value;
  const char *unit, *what;
} atvi_vi_tunable;
/* All rows in the order of the struct, whose i-th double is row i; *n receives their number. */
const atvi_vi_tunable *atvi_infer_vi_tunables(int *n);

/* ---- what matters how much ----
 * One scale for shares of a whole, relative changes, and nats of a log density, which are relative changes of
 * it. */
#define ATVI_HALF 0.5 /* of a whole: where the more or the less of it decides */
/* A tenth: what a hundred draws show, and a look of that kind no better. Nothing depends on a single such
 * part. */
#define ATVI_SMALL 0.1
/* A hundredth: what the draws of a fit just show, as the mean of 25 000 errs by 0.006. */
#define ATVI_SLIGHT 0.01
/* A thousandth, e^-7: what no draws of a fit show. Less is left out, or the error of differences. */
#define ATVI_TINY 1e-3

/* ---- sizes ---- */
enum {
  ATVI_VI_TEST = 512,  /* draws on which progress of training is judged */
  ATVI_VI_LOOK = 2048, /* draws on which the outcome of training is judged */
  ATVI_VI_GLANCE =
      256, /* draws that decide what is next: a temperature, a bend, what draws of a block are worth */
  ATVI_VI_PROBES = 128,                      /* points at which a peak is probed */
  ATVI_VI_PARTS = 64,                        /* components, and peaks, at most */
  ATVI_VI_BLOCKS = 16,                       /* independent scramblings of the final draws */
  ATVI_VI_HASTY_BLOCKS = ATVI_VI_BLOCKS / 4, /* blocks drawn even when the run is to end now */
  ATVI_VI_RUNGS = 400,                       /* temperatures, at most: more lead nowhere */
  /* Below this many dimensions rounds are longer, and training goes on until the ELBO no longer improves: it
   * costs little there, and what q still lacks in corners would be found, and covered, at a higher price. */
  ATVI_VI_FEW = 4,
  ATVI_VI_WIDE =
      60, /* Above this many coordinates q is a copula: the cost of a flow grows with their square, and the joint weights of as many are no better. */
  ATVI_VI_BLOCK_MOST = 64, /* coordinates of a block, and draws of it whose mean is its integral, at most */
};
#define ATVI_VI_ESS                                                                                          \
  25000.0 /* effective size wanted: with fewer draws k-hat does not see heavy tails (test_exact.c) */
#define ATVI_VI_ESS_WIDE                                                                                     \
  4000.0 /* the same with many parameters, where draws are most of the cost, and of dear models */
#define ATVI_VI_DEAR 1.5e5 /* operations of such a model: 20 us, as 4 000 take 0.54 us (the common cold) */
#define ATVI_VI_DRAWS 131072.0 /* at most; eight times that where an effective size was asked for */
#define ATVI_VI_VALUES                                                                                       \
  (ATVI_VI_DRAWS *                                                                                           \
   ATVI_VI_WIDE) /* draws times parameters, at most, unless that makes them a sixteenth: files of more are a burden */
#define ATVI_VI_AGAIN 2.0 /* times the step that training before ended with: its judgement is rough */
#define ATVI_VI_GRADIENT_RUNS                                                                                \
  2.3 /* that a draw of training costs, in final draws: 2.1 to 2.6 (docs/performance.md) */
#define ATVI_VI_WORTH                                                                                        \
  0.3 /* of what it could be: effective size of draws where q can follow its own weights (seen: above 0.5), energy fraction of missing information where chains explore tails */
/* Of the posterior, which is worth a component: it may hold the ends of a ridge, or much of a variance, as it
 * is far out. */
#define ATVI_FAINT 1e-4
#define ATVI_VI_UNSEEN 0.003               /* of the posterior, which draws may lack by chance */
#define ATVI_VI_TRAIN_TIME 0.85            /* time: of a time limit; the rest is for the draws */
#define ATVI_VI_SLOPE_MOST (-log(DBL_MIN)) /* of a fold: steeper is as good as a wall */

/* ---- of several methods ---- */
enum {
  ATVI_BATCH = 256, /* memory: points evaluated at a time */
  ATVI_BETWEEN = 5, /* points looked at on the line between two places: one mode, or two */
  ATVI_SHOWN = 4,   /* words: coordinates of a mode in a message */
  ATVI_ITERATIONS =
      60, /* trials of a climb, conjugate gradients, points on a line, at most: the good ones take a tenth */
  /* Of a move, each a part of the one before: for a wide place, a usual one and the neck of a funnel. */
  ATVI_SIZES = 3,
  ATVI_ROUNDS = 16, /* rounds of what ends by itself, at most */
  ATVI_REPEATS =
      4, /* times that a search or training goes on from what it has, or in vain, at most: by then nothing new is found */
};
#define ATVI_ROUNDING                                                                                        \
  sqrt(                                                                                                      \
      DBL_EPSILON) /* relative, half of the digits: of a coordinate, the way to theta and back; of a gradient */
#define ATVI_ROUNDED                                                                                         \
  1e-6 /* of 1 + the size of a log density, or of a maximum of one: what rounding makes of 0 */
#define ATVI_NEGLIGIBLE (-log(ATVI_TINY)) /* nats below the best: ATVI_TINY of the posterior, 6.9 */
#define ATVI_RIVAL 5.0     /* words: nats below the best within which modes are reported: 1 draw in 150 */
#define ATVI_HOPELESS 20.0 /* nats below the best: nothing is there, even if an estimate errs by some nats */
/* Nats by which an estimate may err, its variance or its standard error: integrals over blocks, an end of a
 * climb, an evidence of chains. */
#define ATVI_ROUGH 0.5
#define ATVI_DEEP 3.0  /* nats that are no accident: a valley between two peaks, a maximum above all draws */
#define ATVI_DOUBT 4.0 /* nats by which Laplace's method may be too low, at kinks for one: probes decide */
#define ATVI_STEP                                                                                            \
  cbrt(                                                                                                      \
      ATVI_ROUNDING) /* of differences of a gradient, in prior standard deviations, before widths are known: 0.0025 */
#define ATVI_CURVED_LEAST                                                                                    \
  (1 / (ATVI_FAR * ATVI_FAR)) /* least curvature: never wider than four prior standard deviations */
#define ATVI_NEAR 2.0         /* standard deviations in which most of a normal is */
#define ATVI_FAR                                                                                             \
  4.0 /* standard deviations, or errors, within which a normal has its mass: beyond, it is another place */
#define ATVI_FOLDS 30.0 /* e-folds of a scale or a step: beyond, it is as good as 0 or infinite */
#define ATVI_START_FAR                                                                                       \
  (2 * ATVI_FAR) /* prior standard deviations within which starts are moved: beyond, maps run out of digits */

/* ---- maxima (modes.c, modes_climb.c) ---- */
/* Of a standard deviation, what shows and is still local: a step of differences at a peak, a least width, a
 * displacement that pays for a bend, a mean that is not that of its image. */
#define ATVI_PART_SD 0.3
enum {
  ATVI_NEWTON = 8, /* passes of Newton steps, and lengths tried of one step, at most */
  ATVI_TOPS =
      4, /* highest hills that are followed to their maximum, or compared: with more, that costs more than it saves */
  ATVI_CLIMB_PAIRS = 20, /* of L-BFGS: with fewer the weak directions of 20 parameters are forgotten */
};
#define ATVI_CLIMB_STEP_MOST 3.0 /* the longest, of any climb, in standard deviations */

#endif
