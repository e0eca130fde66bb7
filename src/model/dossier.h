/* SPDX-License-Identifier: MIT */
/* What is known of an emulator: the runs behind it, how well each is predicted without it, where it is poor,
 * and what gives reason to doubt it. */
#ifndef ATVI_MODEL_DOSSIER_H
#define ATVI_MODEL_DOSSIER_H

#include "gp/emulator.h"
#include "lang/lang.h"
#include "sim/record.h"

/* ---- inputs ---- */

/* Where an input lies in the unit cube: x = (s - lower) / width with s = theta, or log(theta - base) where
 * base is not NaN. */
typedef struct {
  double base, lower, width;
} atvi_emulated_axis;

/* Whether values above base are spread more evenly on the logarithmic scale; value[n] is sorted by it, n >=
 * 1. */
bool atvi_model_emulated_axis_log(atvi_idx n, double *value, double base);
/* From the ends in theta. An input that is the same everywhere has width 1. */
void atvi_model_emulated_axis_set(atvi_emulated_axis *a, double base, double lower, double upper);
double atvi_model_emulated_axis_x(const atvi_emulated_axis *a, double theta);
double atvi_model_emulated_axis_theta(const atvi_emulated_axis *a, double x);
double atvi_model_emulated_axis_slope(const atvi_emulated_axis *a, double x); /* dx / dtheta */

/* ---- runs of a simulator ---- */

/* What an emulator of the model is fitted to, and how. */
typedef struct {
  /* in the unit cube */
  atvi_em_runs runs;
  /* what the model file holds fixed; the rest is to be estimated */
  atvi_em_opts opts;
  /* [d] the range of theta: the prior's box where it is finite, else that of the designs */
  double *lower, *width;
  /* [d] from theta to the unit cube */
  atvi_emulated_axis *axis;
  /* [d] ends of the designs, as theta */
  double *least, *most;
  /* where the runs come from a simulator's record, what it says of them; else zeros (lines == 0) */
  atvi_sim_runs record;
} atvi_emulated_runs;

/* Runs of the emulators with use[n_emulator] set (NULL: of all) into out[n_emulator], from their files or
 * from the first `lines` lines (0: all) of the simulator's record in the folder `runs` (NULL: as
 * atvi_sim_folder), which is parsed once. Memory from pool. Errors: EIO, EDATA (message has
 * file:line:column), EMODEL, ENOMEM. */
ATVI_CHECKED atvi_status atvi_model_emulated_runs_read(atvi_pool *pool, const atvi_lang *lang,
                                                       const bool *use, const char *runs, atvi_idx lines,
                                                       atvi_emulated_runs *out);
/* [n_input] names of an emulator's inputs. Memory from pool; NULL: none. */
const char *const *atvi_model_emulated_inputs(atvi_pool *pool, const atvi_lang *lang, atvi_idx k);
/* Where its emulator is kept: a file in that folder. Memory from pool; NULL: none. */
const char *atvi_model_emulated_path(atvi_pool *pool, const atvi_lang *lang, atvi_idx k, const char *runs);

/* ---- how good an emulator is ---- */

/* How well runs are predicted whose input lies in one third of its range. */
typedef struct {
  atvi_idx n;
  /* 1 - mean squared error of these runs / mean square of all runs about their mean; NaN: no run is there */
  double q2;
  /* the error stands out from that of the other runs */
  bool poor;
} atvi_dossier_third;

typedef struct {
  /* the verdict on the emulator is a warning; else a note */
  bool doubtful;
  /* as a message of a fit that uses the emulator: a clause without a full stop; what to do about it is left
   * to those who print it */
  atvi_message say;
} atvi_doubt;
enum { ATVI_DOUBTS = 12 };

/* An emulator where the posterior of a fit is. */
typedef struct {
  /* [n] the share that each run has in the emulator's predictions there; NULL: nothing below is known */
  double *run;
  /* number of runs with equal shares that it is worth */
  double n_run;
  /* of the runs with these shares, each left out in turn: 95 % intervals hold, and root mean square error
   * in standard deviations */
  double coverage, error;
  /* what the runs leave open, as a share of the variance without them */
  double share;
  /* standard deviation of the emulator's error, and of all else that observations differ by from the
   * simulator */
  double sd, noise;
  /* the times at which these runs are predicted worst, as of `poor` below; NULL: at none in particular */
  const char *times;
} atvi_dossier_near;

/* How far the posterior of each parameter would move if the emulators had no error. All are in standard
 * deviations of the posterior. */
typedef struct {
  /* parameters, draws of the posterior, and functions drawn as simulators from what the emulators leave
   * open */
  atvi_idx n, n_draw, n_function;
  /* [n] root mean square of what the mean moves by, over these functions; NaN: it says nothing without the
   * emulators' error */
  double *moved;
  /* [n] root mean square of the posterior's standard deviation, over these functions */
  double *sd;
  /* [n] what the mean moves by with the emulators' mean as the simulator */
  double *zero;
  /* number of draws that the posterior with such a function is worth (median), and that with the
   * emulators' mean */
  double worth, zero_worth;
} atvi_emulated_moves;

/* Runs, leave-one-out and the judgement on one emulator. Made once, with the emulator; atvi emulate, atvi fit
 * and the reports read it. */
typedef struct {
  const char *name;
  const char *const *input; /* [d] */
  atvi_emulated_runs r;
  /* each run left out in turn; all arrays are filled */
  atvi_em_loo loo;
  /* [d][3] from the lower end of each input to the upper one */
  atvi_dossier_third *third;
  /* "at late times (t > 300) and for low k1 (k1 < 0.2)"; NULL: nowhere in particular */
  const char *poor;
  /* runs that were held out once, with estimates made without them; 0: none */
  atvi_idx n_held;
  atvi_em_loo held;
  /* points of the design, and those among them without a run; 0 of 0: there is no design */
  atvi_idx n_point, n_missing;
  /* of a fit: the share of the posterior where there are no runs; NaN: not known */
  double outside;
  /* of a fit */
  atvi_dossier_near near;
  /* gravest facts about the predictions first */
  int n_doubt;
  atvi_doubt doubt[ATVI_DOUBTS];
} atvi_dossier;

/* From the runs (copied as a struct) of lang->emulator[k] and the emulator fitted to them. Memory from pool.
 * Nothing is held out and no design is known yet. Errors: those of atvi_gp_emulator_loo. */
ATVI_CHECKED atvi_status atvi_model_dossier_make(atvi_pool *pool, const atvi_lang *lang, atvi_idx k,
                                                 const atvi_emulated_runs *r, const atvi_emulator *em,
                                                 atvi_dossier *out);
/* Fills what follows from near.run and the runs left out. Memory from pool. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_model_dossier_near(atvi_pool *pool, atvi_dossier *d);
/* Whether the emulator's intervals are too narrow: where the posterior is, as far as that is known, else
 * over all runs. */
bool atvi_model_dossier_overconfident(const atvi_dossier *d);
/* How many times as large as the emulator says its error may be where the posterior is: at least 1, and the
 * upper end (90 %) of what the runs there leave open. */
double atvi_model_dossier_scale(const atvi_dossier *d);
/* Fills the doubts from all that is known by then; may be called again. Where it is known where the
 * posterior is, only runs of two simulators are grave: all else matters as far as it moves the posterior
 * (atvi_emulated_moves). Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_model_dossier_judge(atvi_pool *pool, const atvi_emulator *em, atvi_dossier *d);
/* Whether any doubt makes the verdict a warning. */
bool atvi_model_dossier_doubtful(const atvi_dossier *d);

#endif
