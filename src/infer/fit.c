/* SPDX-License-Identifier: MIT */
/* Every method behind one call: options are read and checked here, once, and handed to the method. */
#include "infer/fit.h"
#include "core/core.h"
#include "io/csv.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

atvi_fit_opts atvi_fit_defaults(void) {
  return (atvi_fit_opts){.size = sizeof(atvi_fit_opts),
                         .method = "atvi",
                         .seed = 1,
                         .ladder = "auto",
                         .map = "auto",
                         .tune = "auto",
                         .exact = "auto"};
}

/* ---- options ---- */

/* Callers built with an older header have a shorter struct: what is missing keeps its default. */
static atvi_status take_opts(atvi_ctx *ctx, const atvi_fit_opts *opts, atvi_fit_opts *o) {
  *o = atvi_fit_defaults();
  if (!opts) return ATVI_OK;
  if (opts->size < offsetof(atvi_fit_opts, seed) || opts->size > sizeof *o)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "fit: options of %zu bytes; begin with atvi_fit_defaults()",
                     opts->size);
  memcpy(o, opts, opts->size);
  atvi_infer_fit_options_fill(o);
  return ATVI_OK;
}

static atvi_status no_method(atvi_ctx *ctx, const char *name) {
  const atvi_method *m;
  char list[ATVI_METHODS_TEXT] = "", one[ATVI_METHODS_TEXT];
  for (int i = 0; (m = atvi_infer_method_at(ATVI_METHOD_OWN, i)); i++) {
    snprintf(one, sizeof one, "%s (%s)", m->name, m->brief);
    atvi_infer_list_add(list, one, !atvi_infer_method_at(ATVI_METHOD_OWN, i + 1), " and ");
  }
  return ATVI_FAIL(ctx, ATVI_EINVAL, "method %s: there are %s", name, list);
}

static atvi_status bad_ladder(atvi_ctx *ctx, const atvi_fit_plan *p, const char *why) {
  return ATVI_FAIL(ctx, ATVI_EINVAL,
                   "ladder %s: %s; want auto, none, or temperatures that fall and end with 1, such as 3,1",
                   p->o.ladder, why);
}

static atvi_status read_ladder(atvi_ctx *ctx, atvi_fit_plan *p) {
  const char *at = p->o.ladder;
  bool automatic = strcmp(at, "auto") == 0, none = strcmp(at, "none") == 0;
  if (p->o.freeze && (automatic || none))
    return ATVI_FAIL(ctx, ATVI_EINVAL,
                     "freeze: ladder %s has no temperatures to give layers to; name them, such as ladder 3,1",
                     p->o.ladder);
  if (automatic) return ATVI_OK;
  if (none) at = "1";
  for (double before = HUGE_VAL;; at++) {
    size_t n = strcspn(at, ",");
    double t;
    if (!atvi_io_parse_number(at, n, &t)) return bad_ladder(ctx, p, "that is not a list of numbers");
    if (!(t >= 1)) return bad_ladder(ctx, p, "a temperature below 1");
    if (!(t < before)) return bad_ladder(ctx, p, "the temperatures do not fall");
    if (p->n_rung == ATVI_FIT_RUNGS) return bad_ladder(ctx, p, "more than 64 temperatures");
    p->temperature[p->n_rung++] = before = t;
    at += n;
    if (!*at) break;
  }
  return p->temperature[p->n_rung - 1] == 1 ? ATVI_OK : bad_ladder(ctx, p, "the last temperature is not 1");
}

atvi_status atvi_infer_fit_check(atvi_ctx *ctx, const atvi_fit_opts *opts, atvi_fit_plan *plan) {
  *plan = (atvi_fit_plan){0};
  ATVI_TRY(take_opts(ctx, opts, &plan->o));
  plan->method = atvi_infer_method_find(ATVI_METHOD_OWN, plan->o.method);
  if (!plan->method) return no_method(ctx, plan->o.method);
  ATVI_TRY(atvi_infer_fit_options_check(ctx, plan->method, &plan->o));
  return read_ladder(ctx, plan);
}

atvi_status atvi_infer_fit_with(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_fit_plan *plan,
                                atvi_draws **out) {
  *out = NULL;
  ATVI_TRY(plan->method->run(ctx, ev, plan, out));
  (*out)->made->seconds += atvi_io_memo_seconds(atvi_model_evaluator_memo(ev));
  return ATVI_OK;
}

/* ---- the checkpoint ---- */

/* The target is known by what it does alone: names, bounds, and its density at a few points. Commands, which
 * know the files behind a target, have checkpoints of their own (app/resume.c). */

enum { POINTS = ATVI_LANES };
static const double EVERY_S = 30; /* time: seconds between two checkpoints, unless asked for otherwise */

/* A point inside the bounds: u is in (0, 1). */
static double place(const atvi_param *p, double u) {
  double z = log(u / (1 - u));
  if (isfinite(p->lower) && isfinite(p->upper)) return p->lower + u * (p->upper - p->lower);
  return isfinite(p->lower) ? p->lower + exp(z) : isfinite(p->upper) ? p->upper - exp(z) : z;
}

/* The evaluations are not counted: the draws say the same with a checkpoint and without. */
static uint64_t hash_target(const atvi_target *t, void *work, double *theta) {
  double prior[POINTS] = {0}, lik[POINTS] = {0};
  atvi_outcome outcome[POINTS] = {ATVI_RUN_OK};
  uint64_t hash = ATVI_HASH;
  for (atvi_idx i = 0; i < t->d; i++) {
    const atvi_param *p = &t->param[i];
    hash = atvi_hash(hash, p->name, strlen(p->name) + 1);
    hash = atvi_hash(hash, &p->lower, sizeof p->lower);
    hash = atvi_hash(hash, &p->upper, sizeof p->upper);
    if (p->map) hash = atvi_hash(hash, p->map, strlen(p->map) + 1);
    for (int k = 0; k < POINTS; k++)
      theta[i * POINTS + k] = place(p, fmod(0.5 + 0.6180339887498949 * (double)(i * POINTS + k), 1));
  }
  if (t->ops->prior_draw) t->ops->prior_draw(t->self, work, 1, 0, POINTS, theta);
  t->ops->eval(
      t->self, work,
      &(atvi_batch){.B = POINTS, .theta = theta, .log_prior = prior, .log_lik = lik, .outcome = outcome});
  for (int k = 0; k < POINTS; k++) {
    double sum = outcome[k] == ATVI_RUN_OK && isfinite(prior[k] + lik[k]) ? prior[k] + lik[k] : 0;
    hash = atvi_hash(hash, &outcome[k], sizeof outcome[k]);
    hash = atvi_hash(hash, &sum, sizeof sum);
  }
  return hash;
}

/* All but max_seconds, which may change. */
static uint64_t hash_options(const atvi_fit_opts *o) {
  const atvi_fit_option *p;
  uint64_t hash = ATVI_HASH;
  for (int i = 0; (p = atvi_infer_fit_option_at(i)); i++) {
    const void *at = atvi_infer_fit_option_in(p, o);
    if (p->kind == ATVI_OPTION_WORD)
      hash = atvi_hash(hash, *(const char *const *)at, strlen(*(const char *const *)at) + 1);
    else if (p->kind != ATVI_OPTION_SECONDS)
      hash = atvi_hash(hash, at,
                       p->kind == ATVI_OPTION_FLAG    ? sizeof(bool)
                       : p->kind == ATVI_OPTION_COUNT ? sizeof(atvi_idx)
                                                      : sizeof(uint64_t));
  }
  return hash;
}

/* The memo of plan->o.checkpoint; NULL: none was asked for. Errors: EDATA (it is of another fit), EIO,
 * ENOMEM. */
static atvi_status open_checkpoint(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_fit_plan *plan,
                                   atvi_memo **out) {
  static const char *const what[] = {"another version of atvi", "other options", "another target"};
  const atvi_target *t = atvi_model_evaluator_target(ev);
  const char *path = plan->o.checkpoint, *why = NULL;
  char about[128];
  *out = NULL;
  if (!path) return ATVI_OK;
  double *theta = atvi_block(ctx, (size_t)(t->d * POINTS) * sizeof *theta);
  if (!theta) return ATVI_ENOMEM;
  uint64_t target = hash_target(t, atvi_model_evaluator_work(ev), theta);
  atvi_block_free(ctx, theta);
  snprintf(about, sizeof about, "%s\n%016" PRIx64 "\n%016" PRIx64, ATVI_VERSION, hash_options(&plan->o),
           target);
  ATVI_TRY(atvi_io_memo_open(ctx, path, plan->o.checkpoint_seconds > 0 ? plan->o.checkpoint_seconds : EVERY_S,
                             out));
  const char *was = atvi_io_memo_about(*out), *now = about;
  for (int i = 0; was && !why && i < 3; i++) {
    size_t n = strcspn(was, "\n"), k = strcspn(now, "\n");
    if (n != k || memcmp(was, now, n) != 0) why = what[i];
    was += n + (was[n] != 0), now += k + (now[k] != 0);
  }
  if (!why) return atvi_io_memo_start(*out, about, false, true);
  atvi_io_memo_close(*out, false);
  *out = NULL;
  return ATVI_FAIL(ctx, ATVI_EDATA, "%s is of a fit with %s; remove it to begin anew", path, why);
}

/* ---- targets of others ---- */

static atvi_status check_target(atvi_ctx *ctx, const atvi_target *t) {
  if (!t || !t->ops) return ATVI_FAIL(ctx, ATVI_EINVAL, "fit: there is no target, or it has no functions");
  if (t->ops->size < offsetof(atvi_target_ops, work_new) || t->ops->size > sizeof *t->ops || !t->ops->eval)
    return ATVI_FAIL(ctx, ATVI_EINVAL,
                     "fit: the target has no eval, or ops->size = %zu is not sizeof(atvi_target_ops)",
                     t->ops->size);
  if (t->d < 1 || !t->param) return ATVI_FAIL(ctx, ATVI_EINVAL, "fit: the target has no parameters");
  for (atvi_idx i = 0; i < t->d; i++) {
    const atvi_param *p = &t->param[i];
    if (!p->name) return ATVI_FAIL(ctx, ATVI_EINVAL, "fit: parameter %td has no name", i);
    if (!(p->lower < p->upper))
      return ATVI_FAIL(ctx, ATVI_EINVAL, "fit: %s has the bounds [%g, %g]", p->name, p->lower, p->upper);
  }
  if (t->n_derived < 0 || (t->n_derived > 0 && !t->derived))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "fit: the target has derived quantities without names");
  return ATVI_OK;
}

atvi_status atvi_infer_fit_planned(atvi_ctx *ctx, const atvi_target *target, const atvi_fit_plan *plan,
                                   atvi_draws **out) {
  atvi_evaluator *ev;
  *out = NULL;
  ATVI_TRY(check_target(ctx, target));
  /* Members that the caller's header did not have yet are absent. */
  atvi_target_ops ops = {0};
  memcpy(&ops, target->ops, target->ops->size);
  ops.size = sizeof ops;
  atvi_target whole = *target;
  whole.ops = &ops;
  if (!whole.name) whole.name = "target";
  ATVI_TRY(atvi_model_evaluator_new(ctx, &whole, &ev));
  atvi_memo *memo;
  atvi_status status = open_checkpoint(ctx, ev, plan, &memo);
  atvi_model_evaluator_set_memo(ev, memo);
  if (status == ATVI_OK) status = atvi_infer_fit_with(ctx, ev, plan, out);
  bool stopped = status == ATVI_ESTOP || status == ATVI_ENOMEM || atvi_stop_asked(ctx) ||
                 (status == ATVI_OK && (*out)->made->end == ATVI_END_STOPPED);
  atvi_model_evaluator_free(ev);
  atvi_io_memo_close(memo, !stopped);
  /* The name belongs to the target, which may go before the draws. */
  if (status == ATVI_OK) status = atvi_draws_keep(*out, (*out)->made->model, &(*out)->made->model);
  if (status != ATVI_OK) {
    atvi_draws_free(*out);
    *out = NULL;
  }
  return status;
}

atvi_status atvi_fit(atvi_ctx *ctx, const atvi_target *target, const atvi_fit_opts *opts, atvi_draws **out) {
  atvi_fit_plan plan;
  *out = NULL;
  ATVI_TRY(atvi_infer_fit_check(ctx, opts, &plan));
  return atvi_infer_fit_planned(ctx, target, &plan, out);
}

/* ---- what methods end with ---- */

atvi_status atvi_infer_fit_draws_new(atvi_ctx *ctx, const atvi_target *t, atvi_idx n, atvi_idx n_chain,
                                     bool weighted, atvi_draws **out) {
  *out = NULL;
  atvi_idx n_col = t->d + t->n_derived;
  atvi_column *col = atvi_block(ctx, (size_t)n_col * sizeof *col);
  if (!col) return ATVI_ENOMEM;
  for (atvi_idx j = 0; j < t->d; j++)
    col[j] = (atvi_column){t->param[j].name, t->param[j].lower, t->param[j].upper};
  for (atvi_idx j = 0; j < t->n_derived; j++)
    col[t->d + j] = (atvi_column){t->derived[j], -HUGE_VAL, HUGE_VAL};
  atvi_status st = atvi_draws_new(ctx, n, n_chain, t->d, n_col, col, weighted, out);
  atvi_block_free(ctx, col);
  return st;
}

void atvi_infer_fit_derived(atvi_evaluator *ev, atvi_draws *d) {
  const atvi_target *t = atvi_model_evaluator_target(ev);
  if (t->n_derived == 0) return;
  double *out = d->x + t->d * d->n;
  if (t->ops->derived)
    t->ops->derived(t->self, atvi_model_evaluator_work(ev), d->n, d->x, out);
  else
    for (atvi_idx i = 0; i < t->n_derived * d->n; i++) out[i] = NAN;
}

/* ---- the table of options ---- */

/* A new one is a member of atvi_fit_opts and an entry here. */

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
             "by the weighted draws (atvi, nf, copula; default 25000, or 4000 where a run of the model takes "
             "more than about "
             "20 microseconds, counted in operations; at most 1e6)."},
    {"max_seconds", ATVI_OPTION_SECONDS, AT(max_seconds), 0, .flag = "max-time", .value = "TIME",
     .help = "Most time to spend: 90s, 10m, 1.5h, 2d. Results so far are then written."},
    {"max_iter", ATVI_OPTION_COUNT, AT(max_iter), ATVI_TAKES_ITER, .flag = "max-iter", .value = "N",
     .help = "Most training steps (atvi, nf, copula), or iterations of each chain (ram; default 500000; "
             "nuts: 20000)."},
    {"chains", ATVI_OPTION_COUNT, AT(chains), ATVI_TAKES_CHAINS, .value = "N",
     .help = "Number of chains (ram, nuts; default 16, at most 1024)."},
    {"ladder", ATVI_OPTION_WORD, AT(ladder), ATVI_TAKES_ATVI, .value = "LADDER",
     .help = "Temperatures of atvi: auto (the default: chosen from the draws at hand), none, or numbers that "
             "fall and end with 1, such as 3,1."},
    {"freeze", ATVI_OPTION_FLAG, AT(freeze), ATVI_TAKES_ATVI,
     .help = "With given temperatures: a block of layers for each, earlier blocks frozen."},
    {"map", ATVI_OPTION_WORD, AT(map), ATVI_TAKES_ATVI, MAP, .value = "MAP",
     .help = "How atvi makes bounded parameters unbounded, where the model file leaves it open: auto (the "
             "default), surjection, probit or logit."},
    {"tune", ATVI_OPTION_WORD, AT(tune), ATVI_TAKES_ATVI, SWITCH, .value = "WHEN",
     .help = "Fine-tuning of atvi with weights: auto (the default: where it may help), on or off."},
    {"exact", ATVI_OPTION_WORD, AT(exact), ATVI_TAKES_ATVI, SWITCH,
     .help = "atvi: chains that start from the approximation and end exact, instead of its weighted draws. "
             "By default where k-hat forbids the weights.",
     .flag_off = "no-exact", .help_off = "atvi: never that; the verdict then says so."},
};
enum { OPTIONS = sizeof OPTION / sizeof *OPTION };

const atvi_fit_option *atvi_infer_fit_option_at(int i) { return i >= 0 && i < OPTIONS ? &OPTION[i] : NULL; }

const atvi_fit_option *atvi_infer_fit_option_find(const char *name) {
  for (int i = 0; i < OPTIONS; i++)
    if (strcmp(OPTION[i].name, name) == 0) return &OPTION[i];
  return NULL;
}

/* ---- values ---- */

static const char *word(const atvi_fit_option *p, const atvi_fit_opts *o) {
  return *(const char *const *)atvi_infer_fit_option_in(p, o);
}

static const size_t BYTES[] = {sizeof(char *), sizeof(uint64_t), sizeof(double),
                               sizeof(double), sizeof(atvi_idx), sizeof(bool)}; /* by atvi_option_kind */

static void put(const atvi_fit_option *p, const void *value, atvi_fit_opts *o) {
  memcpy((char *)o + p->offset, value, BYTES[p->kind]);
}

static void reset(const atvi_fit_option *p, atvi_fit_opts *o) {
  const atvi_fit_opts standard = atvi_fit_defaults();
  put(p, atvi_infer_fit_option_in(p, &standard), o);
}

bool atvi_infer_fit_option_is_default(const atvi_fit_option *p, const atvi_fit_opts *opts) {
  const atvi_fit_opts standard = atvi_fit_defaults();
  if (p->kind == ATVI_OPTION_WORD) return !word(p, opts) || strcmp(word(p, opts), word(p, &standard)) == 0;
  return memcmp(atvi_infer_fit_option_in(p, opts), atvi_infer_fit_option_in(p, &standard), BYTES[p->kind]) ==
         0;
}

static bool read_whole(const char *s, uint64_t most, uint64_t *out) {
  char *end;
  errno = 0;
  *out = strtoull(s, &end, 10);
  return !errno && *s >= '0' && *s <= '9' && !*end && *out <= most;
}

bool atvi_infer_fit_option_read(const atvi_fit_option *p, const char *text, atvi_fit_opts *opts) {
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
    if (!atvi_io_parse_number(text, strlen(text), &x)) return false;
    put(p, &x, opts);
    return true;
  case ATVI_OPTION_FLAG: put(p, &on, opts); return on || off;
  }
  return false;
}

void atvi_infer_fit_options_fill(atvi_fit_opts *opts) {
  for (int i = 0; i < OPTIONS; i++)
    if (OPTION[i].kind == ATVI_OPTION_WORD && !word(&OPTION[i], opts)) reset(&OPTION[i], opts);
}

void atvi_infer_fit_options_choose(const atvi_method *m, atvi_fit_opts *opts) {
  for (int i = 0; i < OPTIONS; i++)
    if (!atvi_infer_fit_option_taken(&OPTION[i], m)) reset(&OPTION[i], opts);
  opts->method = m->of ? m->of : m->name;
  if (m->of) opts->exact = "on";
}

/* ---- checks ---- */

/* A setting that would be ignored is a mistake that would not be noticed. */
static atvi_status check_taken(atvi_ctx *ctx, const atvi_method *method, const atvi_fit_option *p) {
  const atvi_method *m;
  char list[ATVI_METHODS_TEXT] = "";
  int n = 0, k = 0;
  if (atvi_infer_fit_option_taken(p, method)) return ATVI_OK;
  for (int i = 0; (m = atvi_infer_method_at(ATVI_METHOD_OWN, i)); i++) n += atvi_infer_fit_option_taken(p, m);
  for (int i = 0; (m = atvi_infer_method_at(ATVI_METHOD_OWN, i)); i++)
    if (atvi_infer_fit_option_taken(p, m)) atvi_infer_list_add(list, m->name, ++k == n, " and ");
  return ATVI_FAIL(ctx, ATVI_EINVAL, "%s is a setting of method%s %s; %s has none", p->name,
                   n == 1 ? "" : "s", list, method->name);
}

static atvi_status check_word(atvi_ctx *ctx, const atvi_fit_option *p, const char *is) {
  char list[ATVI_METHODS_TEXT] = "";
  if (!p->word) return ATVI_OK;
  for (int k = 0; p->word[k]; k++) {
    if (strcmp(is, p->word[k]) == 0) return ATVI_OK;
    atvi_infer_list_add(list, p->word[k], !p->word[k + 1], " or ");
  }
  return ATVI_FAIL(ctx, ATVI_EINVAL, "%s %s: want %s", p->name, is, list);
}

static atvi_status check_value(atvi_ctx *ctx, const atvi_fit_option *p, const atvi_fit_opts *o) {
  const void *at = atvi_infer_fit_option_in(p, o);
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

atvi_status atvi_infer_fit_options_check(atvi_ctx *ctx, const atvi_method *m, const atvi_fit_opts *opts) {
  for (int i = 0; i < OPTIONS; i++) {
    const atvi_fit_option *p = &OPTION[i];
    ATVI_TRY(check_value(ctx, p, opts));
    bool off = p->word == SWITCH && strcmp(word(p, opts), "off") == 0; /* which it is anyway */
    if (!off && !atvi_infer_fit_option_is_default(p, opts)) ATVI_TRY(check_taken(ctx, m, p));
  }
  if (m->ess_most > 0 && opts->ess > m->ess_most)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "ess %g: method %s draws at most %g", opts->ess, m->name, m->ess_most);
  return ATVI_OK;
}
