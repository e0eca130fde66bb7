/* SPDX-License-Identifier: MIT */
/* The inside of variational inference, shared by the vi*.c files and mode_shares.c: what a run has (atvi_vi),
 * and what its phases take and give. Draws are returned by who makes them and passed to who needs them; the
 * state holds none. */
#ifndef ATVI_INFER_VI_STATE_H
#define ATVI_INFER_VI_STATE_H

#include "infer/elbo.h"
#include "infer/mirrors.h"
#include "infer/modes.h"
#include "infer/vi.h"
#include "math/stat/stat.h"

/* One component of q. */
typedef struct {
  atvi_member at;
  /* Log evidence from draws of this component alone. */
  double log_evidence;
  /* Share of the draws. */
  double share;
  /* Number of the first scrambling of its final draws; 0: it has none, or has changed since. */
  uint32_t drawn;
  /* Share of the wild weights that its draws have; 1 for all if there are none. */
  double blame;
  /* What one of its draws is worth, of an independent one. */
  double worth;
  /* Share of the draws that it ought to have, in any unit; 0: not known. */
  double claim;
  /* It is the normal distribution that a place looked like, without training. */
  bool plain;
} atvi_vi_part;

/* What a run knows of what q misses. */
typedef struct {
  /* Maxima found. */
  atvi_modes modes;
  /* Evaluations of climbs that looked for them; how many climbs have found no more of the posterior since one
   * did. */
  double climbed;
  atvi_idx in_vain;
  /* Points where q lacks the posterior, with the log of the integral over such places; points that wander
   * over a place. */
  atvi_cloud missing, wanderers;
  double log_missing;
  /* The log of the integral over those of such places where there will be next to no draws. */
  double log_absent;
  /* Mirror images of the draws that they lacked when that was looked at, if it was. */
  atvi_mirrors mirrors;
  bool mirrored;
  /* Components when it looked. */
  atvi_idx looked;
  /* Log of the integral over maxima that the last look found, of each of which q lacked most. */
  double log_found;
  /* The same as a share of the posterior where no look came after it; 0: it was next to nothing. */
  double unsettled;
  /* Share of the posterior that was absent, got components, and was absent at the next look as well; 0: none. */
  double uncovered;
} atvi_vi_search;

/* How far a run has come. */
typedef struct {
  /* Steps of Adam and temperatures so far. */
  int steps, rungs;
  double begun_s;
  /* Largest share of the run reported as done: progress never falls. */
  double told;
} atvi_vi_progress;

/* How training ended. */
typedef struct {
  /* Training ended by its own test. */
  bool converged;
  /* Training of a component ended because more would cost more than it saves. */
  bool enough;
  /* The first component is a draft, without training. */
  bool drafted;
  /* Something was left undone because the run had to end. */
  bool cut;
  /* As in atvi_made. */
  double tuned;
  /* Nats that the posterior has gained on the prior, by the draft of q; 0: not known. */
  double gained;
} atvi_vi_outcome;

typedef struct {
  atvi_ctx *ctx;
  atvi_evaluator *ev;
  atvi_vi_opts opts;
  atvi_vi_tuning tuning;
  /* Owns all arrays. */
  atvi_pool *pool;
  atvi_space *space;
  atvi_family family;
  atvi_elbo *elbo;
  /* Optimiser and arrays of training. */
  struct atvi_vi_trainer *trainer;
  /* Points that a stand-in for the likelihood is fitted to; NULL: there is none. */
  struct atvi_vi_lessons *lessons;
  /* Coordinates. */
  atvi_idx d;
  /* Parameters of the family. */
  atvi_idx size;
  /* Memory for ATVI_VI_LOOK draws, that atvi_infer_vi_look lends. */
  atvi_cloud room;
  /* Free for any function that calls no other which uses it; holds nothing between calls. */
  double *scratch;
  /* [d][ATVI_VI_PROBES] base draws of a look at a place. */
  double *probes;
  /* Draws of the last temperatures of the ladder, ATVI_VI_PROBES of each: theta, and log_pi without what the
   * maps add to it (ldj). n counts all that there were. */
  atvi_cloud path;
  /* Components of q. */
  atvi_vi_part *part;
  atvi_idx n_part;
  atvi_vi_search search;
  /* Images among which draws by blocks were spread; 0 or 1: none. */
  double images;
  /* Numbers of batches of base draws and of the final draws; none is used twice. */
  uint32_t scramble, final_scramble;
  /* There are so many coordinates that q is a copula, not a flow. */
  bool wide;
  atvi_vi_outcome outcome;
  atvi_vi_progress progress;
} atvi_vi;

/* Draws of the mixture with their weights (vi_weights.c). */
typedef struct {
  /* The draws; log_q is that of the mixture. */
  atvi_cloud c;
  /* [c.n] log pi - log q; -inf where a run failed. */
  double *log_w;
  /* [c.n] smoothed, with sum one. */
  double *w;
  atvi_psis_info psis;
  double elbo;
  /* Standard error of the log evidence. */
  double se;
  /* Share of the sum that the largest weight has, before smoothing. */
  double top;
  /* That error, before k-hat makes it larger, in those of as many independent draws as the effective size
   * says. */
  double noise;
  /* By how much smoothing changes an sd, at most, as a share of it. */
  double sd_gap;
  /* Share of the posterior that is beyond the largest weight, as far as their tail shows. */
  double beyond;
  /* Share of the weights that are so large that q lacks the posterior there, and of the variance of a
   * parameter, at most, that comes from their draws. */
  double lacking, far;
  /* These are all draws that are wanted. */
  bool all;
  /* log_w counts all images of a draw: it is not log pi - log q. */
  bool images;
  /* Owns these arrays. */
  atvi_pool *pool;
  /* [c.cap] number of the scrambling that each draw came from, which says its component and block. */
  uint32_t *from;
  /* [c.cap] and atvi_math_psis_work(c.cap): scratch. */
  double *part_q, *work;
} atvi_vi_weights;

/* Outcome of importance sampling with a component alone. */
typedef struct {
  double log_evidence, khat;
  /* Effective size per draw. */
  double share;
  /* As in atvi_psis_info. */
  double excess;
} atvi_vi_quality;

/* Makes what the options need, from ctx, ev and opts; close frees it, also after a failure. Errors: EINVAL,
 * ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_vi_open(atvi_vi *v);
void atvi_infer_vi_close(atvi_vi *v);
/* Progress. */
void atvi_infer_vi_tell(atvi_vi *v, const char *phase, double done, const char *fmt, ...) ATVI_PRINTF(4, 5);
/* True if the run has to end now: it was asked to stop, or is out of time. */
bool atvi_infer_vi_late(const atvi_vi *v);
/* True if training has to end now: that, or out of steps. */
bool atvi_infer_vi_over(const atvi_vi *v);
/* Arrays for cap draws, from the pool; false: out of memory. */
bool atvi_infer_vi_cloud(atvi_pool *pool, atvi_idx d, atvi_idx cap, atvi_cloud *c);
/* lot->n <= ATVI_VI_LOOK draws of m. They are in v->room: the next look or judgement overwrites them. */
atvi_cloud atvi_infer_vi_look(atvi_vi *v, const atvi_member *m, const atvi_elbo_lot *lot);
/* n of them, not guarded, with a fresh number. */
atvi_cloud atvi_infer_vi_glance(atvi_vi *v, const atvi_member *m, atvi_idx n);
/* Looks at ATVI_VI_LOOK draws with this number (guarded, as at the end of a fit) and judges them. *seen,
 * unless NULL: the draws. */
atvi_vi_quality atvi_infer_vi_judge(atvi_vi *v, const atvi_member *m, uint32_t scramble, atvi_cloud *seen);
/* A member that is the family's starting point in the frame (shift, chol), NULL: the identity. False: out of
 * memory. */
bool atvi_infer_vi_member_new(atvi_vi *v, const double *shift, const double *chol, atvi_member *m);
/* Parameters and frame of one become those of another, which has none of its own bends. */
void atvi_infer_vi_member_copy(const atvi_vi *v, const atvi_member *from, atvi_member *to);
/* Evidence that the components found, the best and all together; log. */
double atvi_infer_vi_best_evidence(const atvi_vi *v);
double atvi_infer_vi_all_evidence(const atvi_vi *v);

/* ---- what a fit costs (vi_budget.c) ---- */

/* Draws at most; and draws for the effective size wanted, if a draw is worth this share of an independent
 * one. */
double atvi_infer_vi_most_draws(const atvi_vi *v);
double atvi_infer_vi_draws(const atvi_vi *v, double share);
/* Steps of a round: more in few dimensions, where they cost little and the shape at a bound shows. */
int atvi_infer_vi_round_steps(const atvi_vi *v);
/* What a round costs, in model runs. */
double atvi_infer_vi_round_runs(const atvi_vi *v);
/* What weighted draws of a component are worth. */
typedef struct {
  /* Effective size per draw. */
  double share;
  /* The largest weight, in means. */
  double top;
  /* Share of the posterior that has such weights that q is said to lack it there. */
  double lacking;
  /* Their k-hat permits their use. */
  bool permits;
} atvi_vi_worth;
atvi_vi_worth atvi_infer_vi_worth_of(const atvi_vi *v, atvi_idx n, const double *log_w);
/* Draws saved, of a component that has this part of the posterior and whose draws are worth this share, if
 * only a part `left` of the variance of their log weights is left. */
double atvi_infer_vi_saving(const atvi_vi *v, double part, double share, double left);
/* Whether another round of training, which takes `runs`, would cost more than it saves: of a component that
 * has this part of the posterior, was worth `before` a round ago (NULL: not known), and is worth `now`. */
bool atvi_infer_vi_is_enough(const atvi_vi *v, double part, double runs, const atvi_vi_worth *before,
                             const atvi_vi_worth *now);
/* Whether q lacks next to nothing of the posterior by these weights, by the measure that ends training. */
bool atvi_infer_vi_is_sound(const atvi_vi *v, const atvi_vi_weights *w);
/* Whether a run of the model takes so long that its number is what a fit costs. */
bool atvi_infer_vi_is_dear(const atvi_vi *v);

/* ---- training (vi_train.c) ---- */

ATVI_CHECKED atvi_status atvi_infer_vi_trainer_new(atvi_vi *v);
void atvi_infer_vi_trainer_free(atvi_vi *v);

/* How training ended. */
typedef struct {
  /* False: it was stopped or ran into a limit; the member is as far as it got. */
  bool done;
  /* The member is not what it was. */
  bool changed;
  /* It ended because more would cost more than it saves. */
  bool enough;
  /* Adam's step at the end. */
  double step;
  /* Inverse temperature of the last rung. */
  double beta;
} atvi_vi_trained;

/* The next inverse temperature of a ladder on which the points c are at beta. */
double atvi_infer_vi_next_beta(const atvi_cloud *c, double beta);
/* How many draws of one gradient could be used; m stays as it is. */
atvi_idx atvi_infer_vi_try_gradient(atvi_vi *v, const atvi_member *m);
/* Up the ladder that chooses itself, to the door of temperature 1. */
atvi_vi_trained atvi_infer_vi_climb(atvi_vi *v, atvi_member *m);
typedef struct {
  /* Inverse temperature. */
  double beta;
  /* The step that training before ended with: rounds begin with twice that, or less. */
  double step;
  /* Rounds at most. */
  int most;
  /* Halvings of the step before training counts as done. */
  int halvings;
  /* Only parameters [first, last) of the family train. */
  atvi_idx first, last;
  /* Of the posterior that m stands for: a gain of its own is worth that much less; 0: all. */
  double share;
  /* To go on until the ELBO no longer improves, whatever that saves. */
  bool thorough;
  /* Asked after each round, with the test draws; true ends the training. NULL: never. */
  bool (*enough)(atvi_vi *v, const atvi_cloud *test);
} atvi_vi_rounds_opts;
/* Rounds until they no longer pay, or the ELBO no longer improves. */
atvi_vi_trained atvi_infer_vi_rounds(atvi_vi *v, atvi_member *m, const atvi_vi_rounds_opts *opts);
/* All of it, as the options say: ladder and rounds. */
bool atvi_infer_vi_train(atvi_vi *v, atvi_member *m);
/* Rounds at temperature 1 for one component of a mixture that has this share. */
atvi_vi_trained atvi_infer_vi_train_more(atvi_vi *v, atvi_member *m, double step, double share,
                                         bool (*enough)(atvi_vi *, const atvi_cloud *));
/* Fine-tunes m with smoothed weights in so many steps; keeps the result if fresh draws say it helps. Returns
 * whether it was kept. */
bool atvi_infer_vi_tune(atvi_vi *v, atvi_member *m, int steps);

/* ---- coordinates (vi_maps.c); draws are those of m ---- */

/* After the ladder, which ended as `ladder` says: parameters whose posterior reaches a bound get the
 * surjection; m may be a new member then, in the frame of the draws. Returns how the pilots ended, or
 * `ladder`. */
atvi_vi_trained atvi_infer_vi_choose_maps(atvi_vi *v, atvi_member *m, atvi_vi_trained ladder);
/* Parameters with open maps whose posterior reaches a bound get the surjection, and the draws follow. False:
 * none does, or not all can; maps may have changed. *one_sided: one of them has one bound. */
bool atvi_infer_vi_fold(atvi_vi *v, atvi_cloud *draws, bool *one_sided);
/* Draws that have wandered into a reflected copy of the box are brought home, exactly: the frame of m is
 * reflected or shifted. Returns how many coordinates it moved. */
int atvi_infer_vi_home(atvi_vi *v, atvi_member *m, const atvi_cloud *draws);
/* The frame follows the draws, weighted to the power `step` of the likelihood beyond the present one, and the
 * family starts anew in it: always, or only where q has become narrow in its frame. Returns whether it
 * did. */
bool atvi_infer_vi_reframe(atvi_vi *v, atvi_member *m, const atvi_cloud *draws, double step, bool always);
/* The same with draws of m that have these log weights against the posterior, which are smoothed: always, and
 * no wider than they are. */
bool atvi_infer_vi_follow(atvi_vi *v, atvi_member *m, const atvi_cloud *draws, const double *log_w);
/* What the maps add to log pi, the log of their derivatives, at the first n points of a cloud: ldj[n]; n more
 * for scratch. */
void atvi_infer_vi_ldj(const atvi_vi *v, const atvi_cloud *c, atvi_idx n, double *ldj);
/* A frame moves to what is `mean` and has the factor `by` in it: shift[d] += chol mean, chol[d][d] = inflate
 * chol by. row[d]: scratch. */
void atvi_infer_vi_move(atvi_idx d, const double *mean, const double *by, double inflate, double *row,
                        double *shift, double *chol);
/* Whether the posterior reaches the only bound of a parameter whose map is open: q cannot have the tail that
 * it has in the log. */
bool atvi_infer_vi_log_loses(atvi_vi *v, const atvi_member *m);
/* Slopes of surjections from the spread of the draws. */
void atvi_infer_vi_slopes(atvi_vi *v, const atvi_cloud *draws);
/* Slopes at least as steep as the peaks found, those above this evidence, ask for: several modes are wide
 * together and narrow each, and what the slope leaves in the copy of a narrow one would be a mode that
 * nothing covers. Returns whether any changed. */
bool atvi_infer_vi_slopes_of_peaks(atvi_vi *v, double least_evidence);

/* ---- components (vi_missing.c, vi_modes.c) ---- */

/* Whether the map of a coordinate with bounds is to be chosen. */
bool atvi_infer_vi_is_open(const atvi_vi *v, atvi_idx i);
/* Maps of shares become like logarithms where that makes the posterior less of a curved ridge (vi_bend.c). m
 * is the normal approximation at a maximum. After *changed, all that is known in x is out of date. Errors:
 * ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_vi_straighten(atvi_vi *v, atvi_member *m, bool *changed);
/* Bends the frame of a member that is the normal approximation at a maximum, where the posterior is a curved
 * ridge (vi_bend.c). Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_vi_bend(atvi_vi *v, atvi_member *m);
/* Climbs from points spread over the prior; *m is the family's starting point in the frame of the normal
 * approximation at the best mode.
 * *found: there is one. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_vi_summit(atvi_vi *v, atvi_member *m, bool *found);
/* A normal q that follows its own weighted draws from there (vi_draft.c). *enough: m is that q, whose draws
 * cost less than training would. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_vi_draft(atvi_vi *v, atvi_member *m, bool *enough);
/* Whether another of the maxima found counts, by Laplace's method. */
bool atvi_infer_vi_has_rivals(const atvi_vi *v);
/* Whether training on a stand-in for the likelihood would cost less than on the model itself (vi_learn.c). */
bool atvi_infer_vi_can_learn(const atvi_vi *v);
/* Trains the first component m on a stand-in, before anything is known in its coordinates: chooses maps, and
 * keeps what was learned for the next time. *enough: more would cost more than it saves; else m is as good as
 * it got. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_vi_learn(atvi_vi *v, atvi_member *m, bool *enough);
/* The same later, if it has learned: maps stay as they are. */
ATVI_CHECKED atvi_status atvi_infer_vi_learn_more(atvi_vi *v, atvi_member *m, bool *enough);
/* The same for another component, which stands for this part of the posterior, where it would cost less than
 * training; maps stay, and nothing is kept. */
ATVI_CHECKED atvi_status atvi_infer_vi_learn_part(atvi_vi *v, atvi_member *m, double part, bool *enough);
/* Maps are those before the first lesson, and nothing is kept: the ladder begins without folds. */
void atvi_infer_vi_unlearn(atvi_vi *v);
void atvi_infer_vi_lessons_free(struct atvi_vi_lessons *c); /* NULL is fine */
/* Nats between prior and posterior: the mean of log likelihood - log evidence over draws with these log
 * weights. */
double atvi_infer_vi_gained(const atvi_vi *v, const atvi_cloud *c, const double *log_w);
/* Points of the posterior where q lacks it (none, if no prior draw is there), and the log of the integral
 * over all such places, -inf if there was no time. The components must know their evidence. Errors:
 * ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_vi_missing(atvi_vi *v, atvi_cloud *points, double *log_evidence);
/* log r (vi_missing.c), the posterior as far as q lacks it, at the first n points of a cloud: out[n].
 * part[n]: scratch. */
void atvi_infer_vi_log_lacking(atvi_vi *v, const atvi_cloud *c, atvi_idx n, double *part, double *out);
/* points[n], n == cap, that may lie close together, spread over all of the place where they are and q lacks
 * the posterior; n becomes 0 where none can be evaluated. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_vi_wander(atvi_vi *v, atvi_cloud *points);
/* Of the integral that atvi_infer_vi_missing gave with these points, the part over places where there will be
 * next to no draws: weights do not mend that; log. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_vi_absent(atvi_vi *v, const atvi_cloud *points, double log_missing,
                                              double *log_absent);
/* Takes from that what chains have in such places, by log pi - log q of n of their states, which have this
 * log evidence: it is not absent. */
void atvi_infer_vi_present(atvi_vi *v, double log_evidence, atvi_idx n, const double *log_ratio);
/* log q of the first n_part components, each with the mass it has found, at the first n points of the cloud.
 * part[n]: scratch. */
void atvi_infer_vi_log_mass(atvi_vi *v, atvi_idx n_part, const atvi_cloud *c, atvi_idx n, double *part,
                            double *out);
/* Share of the points of a cloud, ATVI_VI_TEST at most, that have a density and at which the first n_part
 * components lack it; NaN: none has one. */
double atvi_infer_vi_missed_share(atvi_vi *v, atvi_idx n_part, const atvi_cloud *c);
/* Looks for what the components miss. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_vi_seek(atvi_vi *v);
/* Trains components for it. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_vi_cover(atvi_vi *v);
/* Adds normal components where v->search.missing has points, as far as the components lack them. Errors:
 * ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_vi_cover_rim(atvi_vi *v);
/* Follows the draws of largest weight to where log pi - log q is larger than at any draw; *share: of the
 * posterior, that is there as far as a few steps show. Adds components where q lacks the posterior, if that
 * matters or `fill`. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_vi_beyond(atvi_vi *v, const atvi_vi_weights *w, bool fill, double *share);
/* Whether draws that q has too few of make much of the variance of a parameter: they are few, and what they
 * say is as noisy. */
bool atvi_infer_vi_is_thin(const atvi_vi_weights *w);
/* Whether there is something to follow: weights may be used, and more than half a percent of the posterior
 * has large ones. */
bool atvi_infer_vi_has_frontier(const atvi_vi_weights *w);
/* Whether training component k, which has had none, saves more than it costs, by what its draws have turned
 * out to be worth. */
bool atvi_infer_vi_is_unripe(const atvi_vi *v, atvi_idx k);
/* Trains all such components. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_vi_ripen(atvi_vi *v);

/* ---- mirror images (vi_mirrors.c) ---- */

/* Looks for those that weighted draws lack, once. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_vi_mirrors(atvi_vi *v, const atvi_vi_weights *w);
/* Components that are images of those there are. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_vi_reflect(atvi_vi *v);
/* The maxima known and all their images: *n points x[d][*n]; none if there are no images beside them. Errors:
 * ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_vi_mirror_peaks(atvi_vi *v, atvi_idx *n, double **x);
/* Says so where the draws that are delivered lack an image. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_vi_mirror_check(atvi_vi *v, atvi_draws *d);

/* A component around the draw of largest weight (vi_spot.c). Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_vi_spot(atvi_vi *v, const atvi_vi_weights *w);

/* ---- draws and weights (vi_weights.c) ---- */

/* Draws block by block (vi_blocks.c), in *w, which is zero: as many as are wanted, with weights in which each
 * block counts for itself. None if the coordinates do not come in blocks, or nothing could be found to draw
 * from. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_vi_blocks(atvi_vi *v, atvi_vi_weights *w);
/* Room for n draws; and the weights of draws that came from elsewhere, with log_q such that log_pi - log_q is
 * that of a weight. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_vi_weights_room(const atvi_vi *v, atvi_vi_weights *w, atvi_idx n);
void atvi_infer_vi_weigh_given(atvi_vi *v, atvi_vi_weights *w);
/* Draws of the mixture and their weights: a first few thousand, or (all, after that) as many as are wanted.
 * Draws that *w, which begins as zero, has of components as they are (drawn is not 0) stay. Sets the shares
 * of the components, and the evidence of a single one. Leaves *w as it is if there is no time, or less came
 * of it. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_vi_weigh(atvi_vi *v, atvi_vi_weights *w, bool all);
void atvi_infer_vi_weights_free(atvi_vi_weights *w); /* zeroed is fine */
/* The tail of the weights can be fitted: k-hat is below its threshold, and the fit does not change sds. */
bool atvi_infer_vi_tail_fits(const atvi_vi_weights *w);
/* The weights may be used. */
bool atvi_infer_vi_permits(const atvi_vi_weights *w);
/* Why weights cannot be used, in a few words, to out[size]. */
void atvi_infer_vi_refusal(const atvi_vi_weights *w, size_t size, char *out);
/* And they are an answer: worth enough of their draws that the verdict does not warn of it. */
bool atvi_infer_vi_serves(const atvi_vi_weights *w);
/* As many draws as are wanted would leave nothing to speak of beyond their largest weights, as far as the
 * tail of these shows. */
bool atvi_infer_vi_will_reach(const atvi_vi *v, const atvi_vi_weights *w);
/* Nothing else forbids the use of all draws, and with as many again there would be nothing to speak of
 * beyond. */
bool atvi_infer_vi_nearly_reaches(const atvi_vi *v, const atvi_vi_weights *w);
/* More draws of the mixture, as many as that takes. Otherwise like atvi_infer_vi_weigh. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_vi_weigh_more(atvi_vi *v, atvi_vi_weights *w);
/* log q of the mixture, with the guard and shares of the last weighing, at the first n points of a cloud.
 * part_q[n]: scratch. */
void atvi_infer_vi_log_q(atvi_vi *v, const atvi_cloud *c, atvi_idx n, double *part_q, double *log_q);
/* The weights may not be used, but would be well behaved without the largest hundredth of them: q fits what
 * it knows, and does not know of a place that a few draws have met. */
bool atvi_infer_vi_surprised(const atvi_vi_weights *w);
/* n points x[d][n] out of the draws, by their weights, none of which counts for more than 1 / sqrt of the
 * number of draws, so that points differ. */
void atvi_infer_vi_starts(const atvi_vi *v, const atvi_vi_weights *w, atvi_idx n, double *x);
/* All of made that the approximation and the weights know. */
void atvi_infer_vi_made(const atvi_vi *v, const atvi_vi_weights *w, atvi_made *made);
/* Says so where the evidence in d->made, the ELBO, the weights and the maxima found contradict each other.
 * Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_vi_self_check(const atvi_vi *v, const atvi_vi_weights *w, atvi_draws *d);
/* The draws with their weights. Errors: ENOMEM, EMODEL (no draw can be evaluated). */
ATVI_CHECKED atvi_status atvi_infer_vi_deliver(atvi_vi *v, const atvi_vi_weights *w, atvi_draws **out);

/* ---- modes (mode_shares.c) ---- */

typedef struct {
  /* Points x[i * stride + j], j < n. */
  atvi_idx n, stride;
  const double *x;
  /* [n] NULL: equal weights. */
  const double *w;
  /* Say it to the user. */
  bool sure;
} atvi_vi_points;
/* Number of modes, and which share of the points is nearest to each. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_vi_mode_shares(atvi_vi *v, const atvi_vi_points *p, atvi_draws *d);

/* Whether training leads nowhere, from test draws: most of them cannot be evaluated, or their weights differ
 * by tens of orders of magnitude although the ladder is climbed. Chains are then the better way
 * (vi_chains.c). */
bool atvi_infer_vi_in_vain(atvi_vi *v, const atvi_cloud *test);
/* The weights are worth fewer draws than there are chains to start, and not for a few draws alone. */
bool atvi_infer_vi_hopeless(const atvi_vi_weights *w);
/* States of chains, of which each counts equally. */
typedef struct {
  atvi_idx m, n;        /* chains, and states of each */
  const double *y;      /* [d][m n] in the coordinates of the frame, chain after chain */
  const double *log_pi; /* [m n] at them, as a density of x */
  const atvi_member *frame;
} atvi_vi_chain_states;
/* Log evidence by bridge sampling between chains and normal distributions that were fitted to others of them
 * (vi_bridge.c); NaN where it cannot be had. Runs the model once for each state. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_vi_bridge(atvi_vi *v, const atvi_vi_chain_states *s, double *log_evidence,
                                              double *se);
/* Chains that start from q (vi_chains.c). *out is NULL if there was no time for enough of them, and on error.
 * Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_vi_chains(atvi_vi *v, const atvi_vi_weights *w, atvi_draws **out);

#endif
