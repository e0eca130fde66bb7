/* SPDX-License-Identifier: MIT */
/* The checkpoint of a fit by atvi_fit, whose target is known by what it does alone: names, bounds, and its density at a few
 * points. Commands, which know the files behind a target, have their own (app/resume.c). */
#include "infer/fit.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

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

atvi_status atvi_infer_checkpoint_open(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_fit_plan *plan,
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
