/* SPDX-License-Identifier: MIT */
/* The table of options of a fit: a new one is a member of atvi_fit_opts and an entry here. */
#include "core/core.h"
#include "infer/fit.h"
#include "io/csv.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const SWITCH[] = {"auto", "on", "off", NULL};
static const char *const MAP[] = {"auto", "surjection", "probit", "logit", NULL};

#define AT(member) offsetof(atvi_fit_opts, member)

static const atvi_fit_option OPTION[] = {
    {"method", ATVI_OPTION_WORD, AT(method), .value = "METHOD", .help = "How to infer; see METHODS (default atvi)."},
    {"seed", ATVI_OPTION_SEED, AT(seed), .value = "N",
     .help =
         "Seed of all random numbers (default 1). The same seed gives the same draws, whatever the threads."},
    {"ess", ATVI_OPTION_NUMBER, AT(ess), .value = "N",
     .help = "Effective sample size to reach: by every parameter (ram, nuts; default 1000, at most 1e5), or "
             "by the "
             "weighted draws (atvi, nf, copula; default 25000, at most 1e6)."},
    {"max_seconds", ATVI_OPTION_SECONDS, AT(max_seconds), .flag = "max-time", .value = "TIME",
     .help = "Most time to spend: 90s, 10m, 1.5h, 2d. Results so far are then written."},
    {"max_iter", ATVI_OPTION_COUNT, AT(max_iter), .flag = "max-iter", .value = "N",
     .help =
         "Most training steps (atvi, nf, copula), or iterations of each chain (ram; default 500000; nuts: "
         "20000)."},
    {"chains", ATVI_OPTION_COUNT, AT(chains), .value = "N",
     .help = "Number of chains (ram, nuts; default 16, at most 1024)."},
    {"ladder", ATVI_OPTION_WORD, AT(ladder), .value = "LADDER",
     .help = "Temperatures of atvi: auto (the default: chosen from the draws at hand), none, or numbers that "
             "fall "
             "and end with 1, such as 3,1."},
    {"freeze", ATVI_OPTION_FLAG, AT(freeze),
     .help = "With given temperatures: a block of layers for each, earlier blocks frozen."},
    {"map", ATVI_OPTION_WORD, AT(map), MAP, .value = "MAP",
     .help = "How atvi makes bounded parameters unbounded, where the model file leaves it open: auto (the "
             "default), surjection, probit or logit."},
    {"tune", ATVI_OPTION_SWITCH, AT(tune), SWITCH, .value = "WHEN",
     .help = "Fine-tuning of atvi with weights: auto (the default: where it may help), on or off."},
    {"exact", ATVI_OPTION_SWITCH, AT(exact), SWITCH,
     .help =
         "atvi: chains that start from the approximation and end exact, instead of its weighted draws. By "
         "default where k-hat forbids the weights.",
     .flag_off = "no-exact", .help_off = "atvi: never that; the verdict then says so."},
};
enum { OPTIONS = sizeof OPTION / sizeof *OPTION };

const atvi_fit_option *atvi_fit_option_at(int i) { return i >= 0 && i < OPTIONS ? &OPTION[i] : NULL; }

const atvi_fit_option *atvi_fit_option_find(const char *name) {
  for (int i = 0; i < OPTIONS; i++)
    if (strcmp(OPTION[i].name, name) == 0) return &OPTION[i];
  return NULL;
}

/* ---- values ---- */

static bool is_word(const atvi_fit_option *p) {
  return p->kind == ATVI_OPTION_WORD || p->kind == ATVI_OPTION_SWITCH;
}

static const char *word(const atvi_fit_option *p, const atvi_fit_opts *o) {
  return *(const char *const *)atvi_fit_option_in(p, o);
}

static size_t bytes(const atvi_fit_option *p) {
  switch (p->kind) {
  case ATVI_OPTION_WORD:
  case ATVI_OPTION_SWITCH: return sizeof(const char *);
  case ATVI_OPTION_SEED: return sizeof(uint64_t);
  case ATVI_OPTION_NUMBER:
  case ATVI_OPTION_SECONDS: return sizeof(double);
  case ATVI_OPTION_COUNT: return sizeof(atvi_idx);
  case ATVI_OPTION_FLAG: return sizeof(bool);
  }
  return 0;
}

static void put(const atvi_fit_option *p, const void *value, atvi_fit_opts *o) {
  memcpy((char *)o + p->offset, value, bytes(p));
}

bool atvi_fit_option_is_default(const atvi_fit_option *p, const atvi_fit_opts *opts) {
  const atvi_fit_opts standard = atvi_fit_defaults();
  if (is_word(p)) return !word(p, opts) || strcmp(word(p, opts), word(p, &standard)) == 0;
  return memcmp(atvi_fit_option_in(p, opts), atvi_fit_option_in(p, &standard), bytes(p)) == 0;
}

static bool read_whole(const char *s, uint64_t most, uint64_t *out) {
  char *end;
  errno = 0;
  *out = strtoull(s, &end, 10);
  return !errno && *s >= '0' && *s <= '9' && !*end && *out <= most;
}

bool atvi_fit_option_read(const atvi_fit_option *p, const char *text, atvi_fit_opts *opts) {
  const bool on = strcmp(text, "1") == 0, off = strcmp(text, "0") == 0;
  uint64_t n;
  double x;
  switch (p->kind) {
  case ATVI_OPTION_SWITCH: text = on ? "on" : off ? "off" : text; /* fall through */
  case ATVI_OPTION_WORD: put(p, &text, opts); return true;
  case ATVI_OPTION_SEED:
  case ATVI_OPTION_COUNT: /* of the same size and, up to PTRDIFF_MAX, the same bits */
    if (!read_whole(text, p->kind == ATVI_OPTION_SEED ? UINT64_MAX : PTRDIFF_MAX, &n)) return false;
    p->kind == ATVI_OPTION_SEED ? put(p, &n, opts) : put(p, &(atvi_idx){(atvi_idx)n}, opts);
    return true;
  case ATVI_OPTION_NUMBER:
  case ATVI_OPTION_SECONDS:
    if (!atvi_parse_number(text, strlen(text), &x)) return false;
    put(p, &x, opts);
    return true;
  case ATVI_OPTION_FLAG: put(p, &on, opts); return on || off;
  }
  return false;
}

void atvi_fit_options_fill(atvi_fit_opts *opts) {
  const atvi_fit_opts standard = atvi_fit_defaults();
  for (int i = 0; i < OPTIONS; i++)
    if (is_word(&OPTION[i]) && !word(&OPTION[i], opts))
      put(&OPTION[i], atvi_fit_option_in(&OPTION[i], &standard), opts);
}

void atvi_method_choose(const atvi_method *m, atvi_fit_opts *opts) {
  const atvi_fit_opts standard = atvi_fit_defaults();
  for (int i = 0; i < OPTIONS; i++)
    if (!atvi_method_takes(m, OPTION[i].name))
      put(&OPTION[i], atvi_fit_option_in(&OPTION[i], &standard), opts);
  opts->method = m->of ? m->of : m->name;
  if (m->of) opts->exact = "on";
}

/* ---- checks ---- */

/* A setting that would be ignored is a mistake that would not be noticed. */
static atvi_status not_its_own(atvi_ctx *ctx, const atvi_method *method, const atvi_fit_option *p) {
  const atvi_method *m;
  char taken[ATVI_METHODS_TEXT] = "";
  int n = 0, i = 0;
  for (int k = 0; (m = atvi_method_at(ATVI_METHODS_OWN, k)); k++) n += atvi_method_takes(m, p->name);
  for (int k = 0; (m = atvi_method_at(ATVI_METHODS_OWN, k)); k++)
    if (atvi_method_takes(m, p->name)) atvi_list_add(taken, sizeof taken, m->name, ++i == n, " and ");
  return ATVI_FAIL(ctx, ATVI_EINVAL, "%s is a setting of method%s %s; %s has none", p->name,
                   n == 1 ? "" : "s", taken, method->name);
}

static atvi_status check_word(atvi_ctx *ctx, const atvi_fit_option *p, const char *is) {
  char list[128] = "";
  for (int k = 0; p->word && p->word[k]; k++) {
    if (strcmp(is, p->word[k]) == 0) return ATVI_OK;
    atvi_list_add(list, sizeof list, p->word[k], !p->word[k + 1], " or ");
  }
  return p->word ? ATVI_FAIL(ctx, ATVI_EINVAL, "%s %s: want %s", p->name, is, list) : ATVI_OK;
}

static atvi_status check_number(atvi_ctx *ctx, const atvi_method *m, const atvi_fit_option *p, double x) {
  if (p->kind == ATVI_OPTION_SECONDS && !(x >= 0))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "%s %g: want a time above 0, or 0 for no limit", p->name, x);
  if (p->kind == ATVI_OPTION_NUMBER && (!(x >= 0) || !isfinite(x)))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "%s %g: want a number above 0, or 0 for the default", p->name, x);
  if (p->offset == AT(ess) && m->ess_most > 0 && x > m->ess_most)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "ess %g: method %s draws at most %g", x, m->name, m->ess_most);
  return ATVI_OK;
}

static atvi_status check(atvi_ctx *ctx, const atvi_method *m, const atvi_fit_option *p,
                         const atvi_fit_opts *o) {
  const void *at = atvi_fit_option_in(p, o);
  if (is_word(p)) ATVI_TRY(check_word(ctx, p, word(p, o)));
  if (p->kind == ATVI_OPTION_COUNT && *(const atvi_idx *)at < 0)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "%s %td: want 1 or more", p->name, *(const atvi_idx *)at);
  bool off = p->kind == ATVI_OPTION_SWITCH && strcmp(word(p, o), "off") == 0; /* which it is anyway */
  if (!atvi_method_takes(m, p->name) && !off && !atvi_fit_option_is_default(p, o))
    return not_its_own(ctx, m, p);
  bool real = p->kind == ATVI_OPTION_NUMBER || p->kind == ATVI_OPTION_SECONDS;
  return real ? check_number(ctx, m, p, *(const double *)at) : ATVI_OK;
}

atvi_status atvi_fit_options_check(atvi_ctx *ctx, const atvi_fit_plan *plan) {
  for (int i = 0; i < OPTIONS; i++) ATVI_TRY(check(ctx, plan->method, &OPTION[i], &plan->o));
  return ATVI_OK;
}
