/* SPDX-License-Identifier: MIT */
/* Inside of atvi/fit.h: the list of methods, the table of options, and fits by callers that have an evaluator already.
 *
 * Whoever names a method or an option takes it from here: the command line and its help, fit.json, the bindings, compare, study
 * and sbc. docs/dev/add-a-method.md says how to add one. */
#ifndef ATVI_INFER_FIT_H
#define ATVI_INFER_FIT_H

#include "atvi/fit.h"
#include "model/evaluator.h"

typedef struct atvi_fit_plan atvi_fit_plan;

/* ---- methods (methods.c) ---- */

typedef struct {
  const char *name;
  /* A few words for lists and messages. */
  const char *brief;
  /* For the manual: lines of at most 70 columns. NULL for a variant. */
  const char *help;
  /* Names of the options that it takes, in commas; method, seed and max_seconds go without saying. */
  const char *takes;
  /* The method that this is a variant of, with exact on; NULL: a method of its own. */
  const char *of;
  /* It needs the gradient of the target. */
  bool gradient;
  /* It draws from the posterior: one to compare by default, to study and to calibrate. */
  bool posterior;
  /* Rank among the methods that are exact in the limit, from 1 without gaps: compare measures distances from the first. 0: it is not. */
  int reference;
  /* Largest ess that it can reach; 0: it says so itself. */
  double ess_most;
  /* NULL for a variant. */
  atvi_status (*run)(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_fit_plan *plan, atvi_draws **out);
} atvi_method;

typedef enum {
  ATVI_METHODS_OWN,       /* methods of atvi_fit: all but variants */
  ATVI_METHODS_ALL,       /* with variants */
  ATVI_METHODS_POSTERIOR, /* those and variants that draw from the posterior */
  ATVI_METHODS_REFERENCE, /* those that are exact in the limit, best first */
} atvi_methods;

/* Method i of a set, in the order of the list; NULL past the end. */
const atvi_method *atvi_method_at(atvi_methods set, int i);
/* By name, in a set; NULL: there is no such method. */
const atvi_method *atvi_method_find(atvi_methods set, const char *name);
bool atvi_method_takes(const atvi_method *m, const char *option);

/* Adds a word to "a, b and c" in text[size]; the last one after joint. */
void atvi_list_add(char *text, size_t size, const char *word, bool last, const char *joint);
enum { ATVI_METHODS_TEXT = 512 };
/* "atvi, nf and ram", with joint " and "; returns text. */
const char *atvi_methods_text(atvi_methods set, const char *joint, char text[ATVI_METHODS_TEXT]);

/* ---- options (options.c) ---- */

typedef enum {
  ATVI_OPTION_WORD,    /* const char * */
  ATVI_OPTION_SWITCH,  /* const char *: auto, on or off */
  ATVI_OPTION_SEED,    /* uint64_t */
  ATVI_OPTION_NUMBER,  /* double >= 0; 0: the default */
  ATVI_OPTION_SECONDS, /* double >= 0; 0: no limit */
  ATVI_OPTION_COUNT,   /* atvi_idx >= 0; 0: the default */
  ATVI_OPTION_FLAG,    /* bool */
} atvi_option_kind;

typedef struct {
  /* That of the member of atvi_fit_opts, of fit.json and of the bindings. */
  const char *name;
  atvi_option_kind kind;
  size_t offset;
  /* The words there are, NULL-ended; NULL: others are possible, or it is not a word. */
  const char *const *word;
  /* On the command line: its name if it is another, and what the value is called; NULL: without a value. */
  const char *flag, *value;
  const char *help;
  /* A switch that is a flag on the command line: its opposite. */
  const char *flag_off, *help_off;
} atvi_fit_option;

/* Option i, in the order in which they are listed; NULL past the end. */
const atvi_fit_option *atvi_fit_option_at(int i);
const atvi_fit_option *atvi_fit_option_find(const char *name); /* NULL: there is none */
/* Where the value of an option is in opts. */
static inline const void *atvi_fit_option_in(const atvi_fit_option *p, const atvi_fit_opts *opts) {
  return (const char *)opts + p->offset;
}
bool atvi_fit_option_is_default(const atvi_fit_option *p, const atvi_fit_opts *opts);
/* Sets an option from text, which opts then refers to. A switch may be 1 or 0 too. False: that is not a value of its kind; whether it is
 * in range is for atvi_fit_check. */
bool atvi_fit_option_read(const atvi_fit_option *p, const char *text, atvi_fit_opts *opts);
/* Words that are NULL become their defaults. */
void atvi_fit_options_fill(atvi_fit_opts *opts);
/* Makes opts those of m: names the method, and puts options that it does not take back to their defaults. */
void atvi_method_choose(const atvi_method *m, atvi_fit_opts *opts);
/* What the method of a plan can do with each option: EINVAL names one that is out of range or not its own. */
ATVI_CHECKED atvi_status atvi_fit_options_check(atvi_ctx *ctx, const atvi_fit_plan *plan);

/* ---- fits ---- */

enum { ATVI_FIT_RUNGS = 64 };

/* Options that were checked. */
struct atvi_fit_plan {
  /* Whole: no word is NULL. */
  atvi_fit_opts o;
  const atvi_method *method;
  /* Temperatures given; 0: chosen from the draws. */
  int n_rung;
  double temperature[ATVI_FIT_RUNGS];
};

/* Reads and checks options, before anything is begun; words are not copied. opts NULL: defaults. Errors: EINVAL, naming the value. */
ATVI_CHECKED atvi_status atvi_fit_check(atvi_ctx *ctx, const atvi_fit_opts *opts, atvi_fit_plan *plan);
/* As atvi_fit, by a plan. */
ATVI_CHECKED atvi_status atvi_fit_planned(atvi_ctx *ctx, const atvi_target *target, const atvi_fit_plan *plan,
                                          atvi_draws **out);
/* As atvi_fit, by a plan and with an evaluator of the caller. */
ATVI_CHECKED atvi_status atvi_fit_with(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_fit_plan *plan,
                                       atvi_draws **out);

#endif
