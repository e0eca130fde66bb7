/* SPDX-License-Identifier: MIT */
/* The inside of variational inference, shared by its driver (vi.c), training (vi_train.c), fine-tuning (vi_tune.c), the search for
 * other modes (vi_modes.c) and the end (vi_finish.c). */
#ifndef ATVI_INFER_VI_STATE_H
#define ATVI_INFER_VI_STATE_H

#include "infer/elbo.h"
#include "infer/modes.h"
#include "infer/vi.h"
#include "math/adam.h"

enum {
  ATVI_VI_TEST = 512,  /* draws on which progress of training is judged */
  ATVI_VI_LOOK = 2048, /* draws on which the outcome of training is judged */
  ATVI_VI_PARTS = 16   /* components, at most */
};

/* One component of q. */
typedef struct {
  atvi_member at;
  double log_evidence; /* from draws of this component alone */
  double share;        /* of the draws */
  double blame;        /* share of the wild weights that its draws have; 1 for all if there are none */
} atvi_vi_part;

typedef struct {
  atvi_ctx *ctx;
  atvi_evaluator *ev;
  atvi_vi_opts opts;
  atvi_pool *pool; /* owns all arrays */
  atvi_space *space;
  atvi_family family;
  atvi_elbo *elbo;
  atvi_adam *adam;
  atvi_idx d, size;           /* coordinates; parameters of the family */
  double *grad, *avg, *best;  /* [size] */
  double *frame;              /* [d][d + 2] scratch */
  double *probe;              /* scratch of the search for modes */
  double *gap_now, *gap_best; /* [ATVI_VI_TEST] log pi - log q of the test draws */
  atvi_cloud look;            /* room for ATVI_VI_LOOK draws */
  double *weight, *work;      /* [ATVI_VI_LOOK], and scratch of atvi_psis for as many */
  uint32_t scramble;          /* numbers the batches of base draws; never used twice */
  double step;                /* of Adam; searched */
  double beta;                /* where the ladder ended */
  int steps, rungs;
  double begun_s;
  bool converged; /* training ended by its own test */
  double tuned;   /* as in atvi_made */
  atvi_vi_part *part;
  atvi_idx n_part;
  atvi_modes modes; /* what the search found */
  struct atvi_vi_final *final;
  uint32_t final_scramble; /* as scramble, for the last draws */
  uint32_t edge_moves;     /* the same of moves beyond the edge; never used twice */
  bool tail_fits;          /* k-hat is below its threshold */
  bool permits;            /* the weights may be used */
  double share;            /* what a draw is worth */
  bool weighed_all;        /* the last draws are all that are wanted */
  bool cut;                /* the last draws were cut short */
  bool extended;           /* there are components of the edge, which are not trained and lower the ELBO: */
  double bound;            /* then the one before */
  double told;             /* progress, never falling */
} atvi_vi;

/* Outcome of importance sampling with a component alone. */
typedef struct {
  double log_evidence, khat, excess;
  double share; /* effective size per draw */
} atvi_vi_quality;

/* Makes what the options need, from ctx, ev and opts; close frees it, also after a failure. Errors: EINVAL, ENOMEM. */
ATVI_CHECKED atvi_status atvi_vi_open(atvi_vi *v);
void atvi_vi_close(atvi_vi *v);
/* Progress. */
void atvi_vi_tell(atvi_vi *v, const char *phase, double done, const char *fmt, ...) ATVI_PRINTF(4, 5);
/* True if the run has to end now: it was asked to stop, or is out of time. */
bool atvi_vi_late(const atvi_vi *v);
/* True if training has to end now: that, or out of steps. */
bool atvi_vi_over(const atvi_vi *v);
/* Arrays for n draws, from the pool; false: out of memory. */
bool atvi_vi_cloud(atvi_vi *v, atvi_idx n, atvi_cloud *c);
/* n <= ATVI_VI_LOOK draws of m into the look cloud; with guard as at the end of a fit. */
void atvi_vi_look(atvi_vi *v, const atvi_member *m, uint32_t stream, uint32_t scramble, bool guard,
                  atvi_idx n);
/* Draws ATVI_VI_LOOK and judges. */
atvi_vi_quality atvi_vi_judge(atvi_vi *v, const atvi_member *m, uint32_t scramble);

/* Training, in pieces. Each returns false if it was stopped or ran into a limit: m is then as far as it got. */
/* Up the ladder that chooses itself, to the door of temperature 1. */
bool atvi_vi_climb(atvi_vi *v, atvi_member *m);
/* Rounds at beta until the ELBO no longer improves, or `most` of them. Only parameters [first, last) of the family train. */
typedef struct {
  double beta;
  int most, halvings; /* rounds; of the step before training counts as done */
  atvi_idx first, last;
  double share; /* of the posterior that m stands for: so much less a gain of its own is worth; 0: all */
  bool (*enough)(
      atvi_vi *
          v); /* asked after each round, with the test draws in the look cloud; true ends the training. NULL: never */
} atvi_vi_rounds_opts;
bool atvi_vi_rounds(atvi_vi *v, atvi_member *m, const atvi_vi_rounds_opts *opts);
/* As the options say: ladder and rounds. */
bool atvi_vi_train(atvi_vi *v, atvi_member *m);
/* Rounds alone, with steps that begin with twice v->step, for one component of a mixture that has this share. */
bool atvi_vi_train_more(atvi_vi *v, atvi_member *m, double share, bool (*enough)(atvi_vi *));
/* After the ladder: parameters whose posterior reaches a bound get the surjection (vi_maps.c); m may be a new member then, in
 * the frame of the draws. */
bool atvi_vi_choose_maps(atvi_vi *v, atvi_member *m);
/* Draws that have wandered into a reflected copy of the box are brought home, exactly: the frame of m is reflected or shifted. Uses the
 * first n <= ATVI_VI_TEST draws of the look cloud. Returns how many coordinates it moved. */
int atvi_vi_home(atvi_vi *v, atvi_member *m, atvi_idx n);
/* The frame follows the first n draws of the look cloud, weighted to the power `step` of the likelihood beyond the present one, and the family starts
 * anew in it: always, or only where q has become narrow in its frame. Returns whether it did. */
bool atvi_vi_reframe(atvi_vi *v, atvi_member *m, atvi_idx n, double step, bool always);
/* Slopes of surjections from the spread of the first n draws of the look cloud. */
void atvi_vi_slopes(atvi_vi *v, atvi_idx n);
/* Fine-tunes m with smoothed weights; keeps the result if fresh draws say it helps. Returns whether it was kept. */
bool atvi_vi_tune(atvi_vi *v, atvi_member *m);
/* A member that is the family's starting point in the frame (shift, chol), NULL: the identity. False: out of memory. */
bool atvi_vi_member_new(atvi_vi *v, const double *shift, const double *chol, atvi_member *m);
/* Slopes at least as steep as the peaks found, those above this evidence, ask for: several modes are wide together and narrow each, and what the
 * slope leaves in the copy of a narrow one would be a mode that nothing covers. */
void atvi_vi_slopes_of_peaks(atvi_vi *v, double least_evidence);
/* Looks for modes. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_vi_seek(atvi_vi *v);
/* Trains a component for each mode found that the components miss. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_vi_cover(atvi_vi *v);
/* The end: draws of the mixture and their weights; a first few thousand, or (all, after that) as many as are wanted. Sets tail_fits and share. Keeps
 * what there was if there is no time, or less came of it.
 * Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_vi_weigh(atvi_vi *v, bool all);
/* Of the last weighing: log pi - log q of its draws, -inf where a run failed; returns how many. */
atvi_idx atvi_vi_ratios(const atvi_vi *v, const double **log_w);
double atvi_vi_elbo(const atvi_vi *v);
/* Its draw j: x[i * stride], i < d. */
void atvi_vi_draw_at(const atvi_vi *v, atvi_idx j, atvi_idx stride, double *x);
/* log q of the mixture, with the guard and shares of the last weighing, at the first n points of a cloud. part_q[n]: scratch. */
void atvi_vi_log_q(atvi_vi *v, const atvi_cloud *c, atvi_idx n, double *part_q, double *log_q);
/* After a weighing: components where the posterior goes on and the approximation does not, if there are such places (vi_edge.c). Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_vi_extend(atvi_vi *v);
/* n points x[d][n] out of its draws, by their weights, none of which counts for more than 1 / sqrt of the number of draws, so that
 * points differ. */
void atvi_vi_starts(const atvi_vi *v, atvi_idx n, double *x);
/* All of made that the approximation and the last weighing know. */
void atvi_vi_made(const atvi_vi *v, atvi_made *made);
/* Number of modes, and which share of n points x[d][n] (w NULL: equal weights) is nearest to each; if sure, said to the
 * user. Errors: ENOMEM. */
typedef struct {
  atvi_idx n, stride; /* x[i * stride + j] */
  const double *x, *w;
  bool sure;
} atvi_vi_points;
ATVI_CHECKED atvi_status atvi_vi_mode_shares(atvi_vi *v, const atvi_vi_points *p, atvi_draws *d);
/* The exact sampler, after the last weighing (vi_exact.c). *out is NULL if there was no time for enough of it, with v->cut set, and on
 * error. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_vi_exact(atvi_vi *v, atvi_draws **out);
/* What the last weighing gave, as draws. Errors: ENOMEM, EMODEL (no draw can be evaluated). */
ATVI_CHECKED atvi_status atvi_vi_deliver(atvi_vi *v, atvi_draws **out);

#endif
