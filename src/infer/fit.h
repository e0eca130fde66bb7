/* SPDX-License-Identifier: MIT */
/* Inside of atvi/fit.h: the list of methods, the table of options, and fits by callers that have an evaluator
 * already.
 *
 * Whoever names a method or an option takes it from here: the command line and its help, fit.json, the
 * bindings, compare, study and sbc. docs/dev/add-a-method.md says how to add one. */
#ifndef ATVI_INFER_FIT_H
#define ATVI_INFER_FIT_H

#include "atvi/fit.h"
#include "model/evaluator.h"

typedef struct atvi_fit_plan atvi_fit_plan;

/* ---- methods (methods.c) ---- */

/* What a method is, in bits of atvi_method.is. */
enum {
  /* One of atvi_fit: not a variant, which is another method with exact on. */
  ATVI_METHOD_OWN = 1,
  /* It draws from the posterior: one to compare by default, to study and to calibrate. */
  ATVI_METHOD_POSTERIOR = 2,
  /* It needs the gradient of the target. */
  ATVI_METHOD_GRADIENT = 4,
  /* It is exact in the limit: compare measures distances from the last of these in the list. */
  ATVI_METHOD_EXACT = 8,
};
/* What it takes besides seed and max_seconds, in bits of atvi_method.takes. */
enum { ATVI_TAKES_ESS = 1, ATVI_TAKES_ITER = 2, ATVI_TAKES_CHAINS = 4, ATVI_TAKES_ATVI = 8 };

typedef struct {
  const char *name;
  /* A few words for lists and messages. */
  const char *brief;
  unsigned is, takes;
  /* Of a variant: the method that is run. */
  const char *of;
  /* Largest ess that it can reach; 0: it says so itself. */
  double ess_most;
  /* NULL for a variant. */
  atvi_status (*run)(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_fit_plan *plan, atvi_draws **out);
  /* For the manual: lines of at most 70 columns. NULL for a variant. */
  const char *help;
} atvi_method;

/* Method i of those that are all of `is` (0: any), in the order of the list; NULL past the end. */
const atvi_method *atvi_infer_method_at(unsigned is, int i);
/* By name; NULL: there is no such method. */
const atvi_method *atvi_infer_method_find(unsigned is, const char *name);

enum { ATVI_METHODS_TEXT = 512 }; /* memory: characters of a list of methods */
/* Adds a word to "a, b and c" in text; the last one after joint. */
void atvi_infer_list_add(char text[ATVI_METHODS_TEXT], const char *word, bool last, const char *joint);
/* "atvi, nf and ram", with joint " and "; returns text. */
const char *atvi_infer_methods_text(unsigned is, const char *joint, char text[ATVI_METHODS_TEXT]);

/* ---- options ---- */

typedef enum {
  ATVI_OPTION_WORD,    /* const char * */
  ATVI_OPTION_SEED,    /* uint64_t */
  ATVI_OPTION_NUMBER,  /* double >= 0; 0: the default */
  ATVI_OPTION_SECONDS, /* double >= 0; 0: no limit */
  ATVI_OPTION_COUNT,   /* atvi_idx >= 0; 0: the default */
  ATVI_OPTION_FLAG,    /* bool */
} atvi_option_kind;

typedef struct {
  /* As in atvi_fit_opts, fit.json and the bindings. */
  const char *name;
  atvi_option_kind kind;
  /* Place in atvi_fit_opts. */
  size_t offset;
  /* The bit of atvi_method.takes; 0: every method takes it. */
  unsigned taken;
  /* The words there are, NULL-ended; NULL: others are possible, or it is not a word. */
  const char *const *word;
  /* On the command line: its name if it is another, and what the value is called; NULL: without a value. */
  const char *flag, *value;
  const char *help;
  /* A word that is a flag on the command line, which sets it to on: the flag that sets it to off. */
  const char *flag_off, *help_off;
} atvi_fit_option;

/* Option i, in the order in which they are listed; NULL past the end. */
const atvi_fit_option *atvi_infer_fit_option_at(int i);
const atvi_fit_option *atvi_infer_fit_option_find(const char *name); /* NULL: there is none */
static inline bool atvi_infer_fit_option_taken(const atvi_fit_option *p, const atvi_method *m) {
  return !p->taken || (m->takes & p->taken);
}
/* Where its value is in opts. */
static inline const void *atvi_infer_fit_option_in(const atvi_fit_option *p, const atvi_fit_opts *opts) {
  return (const char *)opts + p->offset;
}
bool atvi_infer_fit_option_is_default(const atvi_fit_option *p, const atvi_fit_opts *opts);
/* Sets an option from text, which opts then refers to; on and off may be 1 and 0 too. False: that is not a
 * value of its kind. Whether it is in range is for atvi_infer_fit_check. */
bool atvi_infer_fit_option_read(const atvi_fit_option *p, const char *text, atvi_fit_opts *opts);
/* Words that are NULL become their defaults. */
void atvi_infer_fit_options_fill(atvi_fit_opts *opts);
/* Makes opts those of m: names the method, and puts options that it does not take back to their defaults. */
void atvi_infer_fit_options_choose(const atvi_method *m, atvi_fit_opts *opts);
/* EINVAL names an option that is out of range, or not one of the method. */
ATVI_CHECKED atvi_status atvi_infer_fit_options_check(atvi_ctx *ctx, const atvi_method *m,
                                                      const atvi_fit_opts *opts);

/* ---- fits ---- */

enum { ATVI_FIT_RUNGS = 64 }; /* input: temperatures that a user may give */

/* Options that were checked. */
struct atvi_fit_plan {
  /* Whole: no word is NULL. */
  atvi_fit_opts o;
  const atvi_method *method;
  /* Temperatures given; 0: chosen from the draws. */
  int n_rung;
  double temperature[ATVI_FIT_RUNGS];
};

/* Reads and checks options, before anything is begun; words are not copied. opts NULL: defaults. Errors:
 * EINVAL, naming the value. */
ATVI_CHECKED atvi_status atvi_infer_fit_check(atvi_ctx *ctx, const atvi_fit_opts *opts, atvi_fit_plan *plan);
/* As atvi_fit, by a plan. */
ATVI_CHECKED atvi_status atvi_infer_fit_planned(atvi_ctx *ctx, const atvi_target *target,
                                                const atvi_fit_plan *plan, atvi_draws **out);
/* As atvi_fit, by a plan and with an evaluator of the caller. */
ATVI_CHECKED atvi_status atvi_infer_fit_with(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_fit_plan *plan,
                                             atvi_draws **out);

/* ---- for methods ---- */

/* Room for n draws of n_chain chains, with parameters, their bounds and derived quantities as columns.
 * Errors: EINVAL, ENOMEM; *out is NULL then. */
ATVI_CHECKED atvi_status atvi_infer_fit_draws_new(atvi_ctx *ctx, const atvi_target *t, atvi_idx n,
                                                  atvi_idx n_chain, bool weighted, atvi_draws **out);
/* Fills the derived quantities from the parameters. */
void atvi_infer_fit_derived(atvi_evaluator *ev, atvi_draws *d);

#endif
