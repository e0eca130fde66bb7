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
    {"method", ATVI_OPTION_WORD, AT(method), 0, .value = "METHOD",
     .help = "How to infer; see METHODS (default atvi)."},
    {"seed", ATVI_OPTION_SEED, AT(seed), 0, .value = "N",
     .help =
         "Seed of all random numbers (default 1). The same seed gives the same draws, whatever the threads."},
    {"ess", ATVI_OPTION_NUMBER, AT(ess), ATVI_TAKES_ESS, .value = "N",
     .help = "Effective sample size to reach: by every parameter (ram, nuts; default 1000, at most 1e5), or "
             "by the "
             "weighted draws (atvi, nf, copula; default 25000, at most 1e6)."},
    {"max_seconds", ATVI_OPTION_SECONDS, AT(max_seconds), 0, .flag = "max-time", .value = "TIME",
     .help = "Most time to spend: 90s, 10m, 1.5h, 2d. Results so far are then written."},
    {"max_iter", ATVI_OPTION_COUNT, AT(max_iter), ATVI_TAKES_ITER, .flag = "max-iter", .value = "N",
     .help =
         "Most training steps (atvi, nf, copula), or iterations of each chain (ram; default 500000; nuts: "
         "20000)."},
    {"chains", ATVI_OPTION_COUNT, AT(chains), ATVI_TAKES_CHAINS, .value = "N",
     .help = "Number of chains (ram, nuts; default 16, at most 1024)."},
    {"ladder", ATVI_OPTION_WORD, AT(ladder), ATVI_TAKES_ATVI, .value = "LADDER",
     .help = "Temperatures of atvi: auto (the default: chosen from the draws at hand), none, or numbers that "
             "fall "
             "and end with 1, such as 3,1."},
    {"freeze", ATVI_OPTION_FLAG, AT(freeze), ATVI_TAKES_ATVI,
     .help = "With given temperatures: a block of layers for each, earlier blocks frozen."},
    {"map", ATVI_OPTION_WORD, AT(map), ATVI_TAKES_ATVI, MAP, .value = "MAP",
     .help = "How atvi makes bounded parameters unbounded, where the model file leaves it open: auto (the "
             "default), surjection, probit or logit."},
    {"tune", ATVI_OPTION_WORD, AT(tune), ATVI_TAKES_ATVI, SWITCH, .value = "WHEN",
     .help = "Fine-tuning of atvi with weights: auto (the default: where it may help), on or off."},
    {"exact", ATVI_OPTION_WORD, AT(exact), ATVI_TAKES_ATVI, SWITCH,
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

static const char *word(const atvi_fit_option *p, const atvi_fit_opts *o) {
  return *(const char *const *)atvi_fit_option_in(p, o);
}

static const size_t BYTES[] = {sizeof(char *), sizeof(uint64_t), sizeof(double),
                               sizeof(double), sizeof(atvi_idx), sizeof(bool)}; /* by atvi_option_kind */

static void put(const atvi_fit_option *p, const void *value, atvi_fit_opts *o) {
  memcpy((char *)o + p->offset, value, BYTES[p->kind]);
}

static void reset(const atvi_fit_option *p, atvi_fit_opts *o) {
  const atvi_fit_opts standard = atvi_fit_defaults();
  put(p, atvi_fit_option_in(p, &standard), o);
}

bool atvi_fit_option_is_default(const atvi_fit_option *p, const atvi_fit_opts *opts) {
  const atvi_fit_opts standard = atvi_fit_defaults();
  if (p->kind == ATVI_OPTION_WORD) return !word(p, opts) || strcmp(word(p, opts), word(p, &standard)) == 0;
  return memcmp(atvi_fit_option_in(p, opts), atvi_fit_option_in(p, &standard), BYTES[p->kind]) == 0;
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
  case ATVI_OPTION_WORD:
    if (p->word == SWITCH && (on || off)) text = on ? "on" : "off";
    put(p, &text, opts);
    return true;
  case ATVI_OPTION_SEED:
  case ATVI_OPTION_COUNT:
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
  for (int i = 0; i < OPTIONS; i++)
    if (OPTION[i].kind == ATVI_OPTION_WORD && !word(&OPTION[i], opts)) reset(&OPTION[i], opts);
}

void atvi_fit_options_choose(const atvi_method *m, atvi_fit_opts *opts) {
  for (int i = 0; i < OPTIONS; i++)
    if (!atvi_fit_option_taken(&OPTION[i], m)) reset(&OPTION[i], opts);
  opts->method = m->of ? m->of : m->name;
  if (m->of) opts->exact = "on";
}

/* ---- checks ---- */

/* A setting that would be ignored is a mistake that would not be noticed. */
static atvi_status check_taken(atvi_ctx *ctx, const atvi_method *method, const atvi_fit_option *p) {
  const atvi_method *m;
  char list[ATVI_METHODS_TEXT] = "";
  int n = 0, k = 0;
  if (atvi_fit_option_taken(p, method)) return ATVI_OK;
  for (int i = 0; (m = atvi_method_at(ATVI_METHOD_OWN, i)); i++) n += atvi_fit_option_taken(p, m);
  for (int i = 0; (m = atvi_method_at(ATVI_METHOD_OWN, i)); i++)
    if (atvi_fit_option_taken(p, m)) atvi_list_add(list, m->name, ++k == n, " and ");
  return ATVI_FAIL(ctx, ATVI_EINVAL, "%s is a setting of method%s %s; %s has none", p->name,
                   n == 1 ? "" : "s", list, method->name);
}

static atvi_status check_word(atvi_ctx *ctx, const atvi_fit_option *p, const char *is) {
  char list[ATVI_METHODS_TEXT] = "";
  if (!p->word) return ATVI_OK;
  for (int k = 0; p->word[k]; k++) {
    if (strcmp(is, p->word[k]) == 0) return ATVI_OK;
    atvi_list_add(list, p->word[k], !p->word[k + 1], " or ");
  }
  return ATVI_FAIL(ctx, ATVI_EINVAL, "%s %s: want %s", p->name, is, list);
}

static atvi_status check_value(atvi_ctx *ctx, const atvi_fit_option *p, const atvi_fit_opts *o) {
  const void *at = atvi_fit_option_in(p, o);
  double x = p->kind == ATVI_OPTION_NUMBER || p->kind == ATVI_OPTION_SECONDS ? *(const double *)at : 0;
  if (p->kind == ATVI_OPTION_WORD) return check_word(ctx, p, word(p, o));
  if (p->kind == ATVI_OPTION_COUNT && *(const atvi_idx *)at < 0)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "%s %td: want 1 or more", p->name, *(const atvi_idx *)at);
  if (p->kind == ATVI_OPTION_SECONDS && !(x >= 0))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "%s %g: want a time above 0, or 0 for no limit", p->name, x);
  if (!(x >= 0) || (p->kind == ATVI_OPTION_NUMBER && !isfinite(x)))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "%s %g: want a number above 0, or 0 for the default", p->name, x);
  return ATVI_OK;
}

atvi_status atvi_fit_options_check(atvi_ctx *ctx, const atvi_method *m, const atvi_fit_opts *opts) {
  for (int i = 0; i < OPTIONS; i++) {
    const atvi_fit_option *p = &OPTION[i];
    ATVI_TRY(check_value(ctx, p, opts));
    bool off = p->word == SWITCH && strcmp(word(p, opts), "off") == 0; /* which it is anyway */
    if (!off && !atvi_fit_option_is_default(p, opts)) ATVI_TRY(check_taken(ctx, m, p));
  }
  if (m->ess_most > 0 && opts->ess > m->ess_most)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "ess %g: method %s draws at most %g", opts->ess, m->name, m->ess_most);
  return ATVI_OK;
}
