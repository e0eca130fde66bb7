/* SPDX-License-Identifier: MIT */
/* Searches for the mode: projected L-BFGS from several starts, in coordinates scaled by the prior's spread.
 * Half of the starts are the best of many prior draws, half are dispersed ones (start.h), so that both the
 * likely mode and its rivals are found. Two results belong to the same optimum if no barrier lies on the
 * line between them: on a ridge the searches stop anywhere. */
#include "infer/optimum.h"
#include "infer/fit.h"
#include "infer/modes.h"
#include "infer/chains.h"
#include "infer/vi_tuning.h"
#include "math/optim.h"
#include <math.h>
#include <string.h>

#define RUNAWAY (1 / ATVI_ROUNDED) /* nats that the log posterior could still rise: it has no maximum */
enum { MODES_SHOWN = 3 };          /* words: other modes in messages; the rest is counted */
static const char GRADIENT[] = "the gradient was not finite";

typedef struct {
  atvi_evaluator *ev;
  atvi_idx d;
  const double *scale, *centre; /* [d]: theta = centre + scale y */
  double *theta, *gp, *gl;      /* [d] */
  double *work;                 /* of atvi_math_lbfgs */
  int worker;
  const char *ended; /* how the last evaluation did */
  double deadline_s;
} search;

typedef struct {
  double *y; /* [d], then [d] theta */
  double log_post, grad_norm;
  bool ended;          /* the search took place and ended at a finite value */
  const char *failure; /* what kept it from beginning; NULL: nothing */
} result;

typedef struct {
  atvi_ctx *ctx;
  atvi_evaluator *ev;
  atvi_optimum_opts opts;
  atvi_pool *pool; /* of the searches */
  atvi_starts *starts;
  double *centre, *lower, *upper; /* [d] in y */
  search *seat;                   /* [threads] */
  result *result;                 /* [opts.starts] */
  atvi_idx first;                 /* of the current wave */
  double begun_s;
} maximiser;

atvi_optimum_opts atvi_infer_optimum_defaults(void) {
  return (atvi_optimum_opts){
      .seed = 1, .starts = 16, .candidates = 50, .max_evals = 2000, .draws = 4000, .max_seconds = HUGE_VAL};
}

static atvi_status check_opts(atvi_ctx *ctx, const atvi_optimum_opts *o) {
  if (o->starts < 1) return ATVI_FAIL(ctx, ATVI_EINVAL, "map: starts = %d, want >= 1", o->starts);
  if (o->candidates < 1) return ATVI_FAIL(ctx, ATVI_EINVAL, "map: candidates = %d, want >= 1", o->candidates);
  if (o->max_evals < 10) return ATVI_FAIL(ctx, ATVI_EINVAL, "map: max_evals = %d, want >= 10", o->max_evals);
  if (o->draws < 4) return ATVI_FAIL(ctx, ATVI_EINVAL, "map: draws = %td, want >= 4", o->draws);
  if (!(o->max_seconds > 0))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "map: max_seconds = %g, want > 0", o->max_seconds);
  return ATVI_OK;
}

/* Back to theta; rounding must not leave the box. */
static void to_theta(const maximiser *m, const double *y, double *theta) {
  const atvi_target *t = atvi_model_evaluator_target(m->ev);
  for (atvi_idx j = 0; j < t->d; j++) {
    double x = m->centre[j] + m->starts->scale[j] * y[j];
    theta[j] = fmin(fmax(x, t->param[j].lower), t->param[j].upper);
    if (y[j] == m->lower[j]) theta[j] = t->param[j].lower;
    if (y[j] == m->upper[j]) theta[j] = t->param[j].upper;
  }
}

typedef struct {
  const maximiser *m;
  search *s;
} objective;

/* Minus the log posterior. Out of time everything is infinite, which ends the search. */
static double minus_log_post(void *user, const double *y, double *g) {
  const objective *o = user;
  search *s = o->s;
  if (atvi_clock_s() > s->deadline_s) return HUGE_VAL;
  double lp, ll;
  atvi_outcome outcome;
  to_theta(o->m, y, s->theta);
  atvi_model_evaluator_run_on(s->ev, s->worker,
                              &(atvi_batch){.B = 1,
                                            .theta = s->theta,
                                            .log_prior = &lp,
                                            .log_lik = &ll,
                                            .grad_prior = s->gp,
                                            .grad_lik = s->gl,
                                            .outcome = &outcome});
  s->ended = atvi_outcome_word(outcome);
  if (outcome != ATVI_RUN_OK || !isfinite(lp + ll)) return HUGE_VAL;
  s->ended = GRADIENT;
  for (atvi_idx j = 0; j < s->d; j++) g[j] = -(s->gp[j] + s->gl[j]) * s->scale[j];
  return -(lp + ll);
}

static void search_item(void *arg, atvi_idx item, int worker) {
  maximiser *m = arg;
  result *r = &m->result[m->first + item];
  objective o = {m, &m->seat[worker]};
  atvi_lbfgs_opts opts = {.f = minus_log_post,
                          .user = &o,
                          .lower = m->lower,
                          .upper = m->upper,
                          .max_evals = m->opts.max_evals,
                          .tol_grad = ATVI_ROUNDING};
  atvi_lbfgs_info info = {.value = NAN};
  o.s->ended = NULL;
  atvi_math_lbfgs(m->starts->d, &opts, r->y, o.s->work, &info);
  r->log_post = -info.value;
  r->grad_norm = info.grad_norm;
  r->ended = isfinite(info.value);
  r->failure = r->ended ? NULL : o.s->ended;
  to_theta(m, r->y, r->y + m->starts->d);
}

/* Half the best, half dispersed. */
static void choose(const atvi_starts *s, uint64_t seed, atvi_idx n, atvi_idx *index) {
  double last = HUGE_VAL;
  atvi_infer_starts_pick(s, seed, n, index);
  for (atvi_idx k = 0; k < (n + 1) / 2 && k < s->n; k++) {
    double best = -HUGE_VAL;
    for (atvi_idx i = 0; i < s->n; i++) {
      double v = s->log_prior[i] + s->log_lik[i];
      if (v < last && v > best) best = v, index[k] = i;
    }
    last = best;
  }
}

static atvi_status prepare(maximiser *m) {
  const atvi_starts *s = m->starts;
  const atvi_target *t = atvi_model_evaluator_target(m->ev);
  size_t d = (size_t)s->d;
  int workers = atvi_ctx_threads(m->ctx);
  m->centre = atvi_pool_take(m->pool, d, sizeof(double));
  m->lower = atvi_pool_take(m->pool, d, sizeof(double));
  m->upper = atvi_pool_take(m->pool, d, sizeof(double));
  m->seat = atvi_pool_take(m->pool, (size_t)workers, sizeof *m->seat);
  m->result = atvi_pool_take(m->pool, (size_t)m->opts.starts, sizeof *m->result);
  atvi_idx *index = atvi_pool_take(m->pool, (size_t)m->opts.starts, sizeof *index);
  size_t seat = 3 * d + atvi_math_lbfgs_work(s->d);
  double *room =
      atvi_pool_take(m->pool, seat * (size_t)workers + 2 * d * (size_t)m->opts.starts, sizeof *room);
  if (atvi_pool_failed(m->pool)) return ATVI_ENOMEM;
  choose(s, m->opts.seed, m->opts.starts, index);
  for (size_t j = 0; j < d; j++) {
    m->centre[j] = s->theta[(atvi_idx)j * s->cap + index[0]];
    m->lower[j] = (t->param[j].lower - m->centre[j]) / s->scale[j];
    m->upper[j] = (t->param[j].upper - m->centre[j]) / s->scale[j];
  }
  for (int w = 0; w < workers; w++, room += seat)
    m->seat[w] = (search){.ev = m->ev,
                          .d = s->d,
                          .scale = s->scale,
                          .centre = m->centre,
                          .theta = room,
                          .gp = room + d,
                          .gl = room + 2 * d,
                          .work = room + 3 * d,
                          .worker = w,
                          .deadline_s = m->begun_s + m->opts.max_seconds};
  for (int k = 0; k < m->opts.starts; k++, room += 2 * d) {
    m->result[k] = (result){.y = room, .log_post = -HUGE_VAL};
    for (atvi_idx j = 0; j < s->d; j++)
      room[j] = (s->theta[j * s->cap + index[k]] - m->centre[j]) / s->scale[j];
  }
  return ATVI_OK;
}

/* The points could be evaluated when they were found, but not with their gradients; or there was no time. */
static atvi_status none_ended(const maximiser *m, atvi_end end) {
  const char *most = NULL;
  int failed = 0, hits = 0;
  for (int i = 0; i < m->opts.starts; i++) {
    int same = 0;
    if (!m->result[i].failure) continue;
    for (int k = 0; k < m->opts.starts; k++) same += m->result[k].failure == m->result[i].failure;
    if (same > hits) most = m->result[i].failure, hits = same;
    failed++;
  }
  if (end == ATVI_END_STOPPED) return ATVI_FAIL(m->ctx, ATVI_ESTOP, "map: stopped before any search ended");
  if (end == ATVI_END_LIMIT || !most)
    return ATVI_FAIL(m->ctx, ATVI_ELIMIT, "map: the time limit was reached before any search ended");
  const char *name = atvi_model_evaluator_target(m->ev)->name;
  return ATVI_FAIL(m->ctx, ATVI_EMODEL,
                   "%s: none of %d searches could begin, as they need gradients; for %d of them %s",
                   name ? name : "model", failed, hits, most);
}

/* Searches in waves of one per thread, so that a stop is seen between them. */
static atvi_status search_all(maximiser *m, atvi_end *end) {
  int wave = atvi_ctx_threads(m->ctx), ended = 0;
  *end = ATVI_END_DONE;
  for (m->first = 0; m->first < m->opts.starts; m->first += wave) {
    double now = atvi_clock_s() - m->begun_s;
    if (atvi_stop_asked(m->ctx))
      *end = ATVI_END_STOPPED;
    else if (now > m->opts.max_seconds)
      *end = ATVI_END_LIMIT;
    if (*end != ATVI_END_DONE) break;
    atvi_tell(m->ctx, "searching", (double)m->first / m->opts.starts, now, "%td of %d searches", m->first,
              m->opts.starts);
    atvi_idx left = m->opts.starts - m->first;
    atvi_parallel(m->ctx, left < wave ? left : wave, search_item, m);
  }
  if (*end == ATVI_END_DONE && atvi_clock_s() - m->begun_s > m->opts.max_seconds) *end = ATVI_END_LIMIT;
  for (int k = 0; k < m->opts.starts; k++) ended += m->result[k].ended;
  return ended == 0 ? none_ended(m, *end) : ATVI_OK;
}

/* ---- what was found ---- */

static void sort_results(maximiser *m) {
  for (int i = 1; i < m->opts.starts; i++)
    for (int k = i; k > 0; k--) {
      result a = m->result[k - 1], b = m->result[k];
      bool wrong = (b.ended && !a.ended) || (b.ended && b.log_post > a.log_post);
      if (!wrong) break;
      m->result[k - 1] = b;
      m->result[k] = a;
    }
}

static bool same_optimum(maximiser *m, const double *better, double log_post, const double *other,
                         double *room) {
  atvi_idx d = m->starts->d;
  double lp[ATVI_BETWEEN], ll[ATVI_BETWEEN];
  for (int i = 0; i < ATVI_BETWEEN; i++)
    for (atvi_idx j = 0; j < d; j++) {
      double f = (i + 1.0) / (ATVI_BETWEEN + 1);
      room[j * ATVI_BETWEEN + i] = (1 - f) * other[j] + f * better[j];
    }
  atvi_outcome outcome[ATVI_BETWEEN];
  atvi_model_evaluator_run(
      m->ev,
      &(atvi_batch){.B = ATVI_BETWEEN, .theta = room, .log_prior = lp, .log_lik = ll, .outcome = outcome});
  for (int i = 0; i < ATVI_BETWEEN; i++)
    if (outcome[i] != ATVI_RUN_OK || !(lp[i] + ll[i] > log_post - ATVI_SMALL)) return false;
  return true;
}

static atvi_status list_optima(maximiser *m, atvi_optimum_info *info) {
  atvi_idx d = info->d;
  info->optimum = atvi_pool_take(info->pool, (size_t)m->opts.starts, sizeof *info->optimum);
  double *room = atvi_pool_take(info->pool, (size_t)(d * ATVI_BETWEEN), sizeof *room);
  if (atvi_pool_failed(info->pool)) return ATVI_ENOMEM;
  for (int k = 0; k < m->opts.starts && m->result[k].ended; k++) {
    const result *r = &m->result[k];
    atvi_idx at = 0;
    while (at < info->n_optimum && !same_optimum(m, info->optimum[at].theta, r->log_post, r->y + d, room))
      at++;
    if (at == info->n_optimum) {
      double *theta = atvi_pool_take(info->pool, (size_t)d, sizeof *theta);
      if (!theta) return ATVI_ENOMEM;
      memcpy(theta, r->y + d, (size_t)d * sizeof *theta);
      info->optimum[info->n_optimum++] = (atvi_optimum){r->log_post, theta, 0};
    }
    info->optimum[at].hits++;
  }
  return ATVI_OK;
}

/* At a bound, and the density falls from it. Where it still rises on the last bit of the way, there is no
 * maximum. */
static void find_bounds(maximiser *m, atvi_optimum_info *info, const double *slope) {
  const atvi_target *t = atvi_model_evaluator_target(m->ev);
  for (atvi_idx j = 0; j < info->d; j++) {
    double near = ATVI_ROUNDING * m->starts->scale[j];
    double below = info->mode[j] - t->param[j].lower, above = t->param[j].upper - info->mode[j];
    if (below <= near && slope[j] < 0 && -slope[j] * below < ATVI_SLIGHT) info->at_bound[j] = -1;
    if (above <= near && slope[j] > 0 && slope[j] * above < ATVI_SLIGHT) info->at_bound[j] = 1;
  }
}

static atvi_status info_new(maximiser *m, atvi_optimum_info **out) {
  atvi_pool *pool;
  ATVI_TRY(atvi_pool_new(m->ctx, &pool));
  atvi_optimum_info *info = atvi_pool_take(pool, 1, sizeof *info);
  size_t d = (size_t)m->starts->d;
  double *room = atvi_pool_take(pool, 2 * d + d * d, sizeof *room);
  int *at_bound = atvi_pool_take(pool, d, sizeof *at_bound);
  if (atvi_pool_failed(pool)) {
    atvi_pool_free(pool);
    return ATVI_ENOMEM;
  }
  *info = (atvi_optimum_info){.pool = pool,
                              .d = (atvi_idx)d,
                              .mode = room,
                              .sd = room + d,
                              .cov = room + 2 * d,
                              .at_bound = at_bound};
  *out = info;
  return ATVI_OK;
}

void atvi_infer_optimum_info_free(atvi_optimum_info *info) {
  if (info) atvi_pool_free(info->pool);
}

static void set_mode(maximiser *m, atvi_optimum_info *info) {
  search *s = &m->seat[0];
  const result *best = &m->result[0];
  memcpy(info->mode, best->y + info->d, (size_t)info->d * sizeof *info->mode);
  atvi_model_evaluator_run(m->ev, &(atvi_batch){.B = 1,
                                                .theta = info->mode,
                                                .log_prior = &info->log_prior,
                                                .log_lik = &info->log_lik,
                                                .grad_prior = s->gp,
                                                .grad_lik = s->gl});
  info->grad_norm = best->grad_norm;
  for (atvi_idx j = 0; j < info->d; j++) s->theta[j] = s->gp[j] + s->gl[j];
  find_bounds(m, info, s->theta);
}

/* ---- delivery ---- */

/* Effective share of the draws if they were weighted to the true posterior; the approximation's density is
 * normal in the free parameters and exponential in the held ones. */
static double effective_share(const atvi_laplace *l, const atvi_optimum_info *info, const atvi_draws *d) {
  double top = -HUGE_VAL, sum = 0, sum2 = 0;
  for (int pass = 0; pass < 2; pass++)
    for (atvi_idx i = 0; i < d->n; i++) {
      double q = 0;
      for (atvi_idx e = 0; e < l->k; e++) {
        double z = 0;
        for (atvi_idx a = 0; a < l->k; a++) {
          atvi_idx j = l->free[a];
          z += (d->x[j * d->n + i] - info->mode[j]) / l->scale[j] * l->vector[a * l->k + e];
        }
        q -= 0.5 * z * z * l->value[e];
      }
      for (atvi_idx j = 0; j < l->d; j++)
        if (info->at_bound[j]) q -= fabs(l->slope[j] * (d->x[j * d->n + i] - info->mode[j]) / l->scale[j]);
      double w = d->log_prior[i] + d->log_lik[i] - q;
      if (!isfinite(w)) continue;
      if (pass == 0)
        top = fmax(top, w);
      else
        sum += exp(w - top), sum2 += exp(2 * (w - top));
    }
  return sum2 > 0 ? sum * sum / sum2 / (double)d->n : 0;
}

static atvi_idx n_rival(const atvi_optimum_info *info) {
  atvi_idx n = 0;
  for (atvi_idx k = 1; k < info->n_optimum; k++)
    n += info->optimum[k].log_post > info->optimum[0].log_post - ATVI_RIVAL;
  return n;
}

/* Where the other maxima are; they are sorted, so the rivals come first. */
static atvi_status say_rivals(const atvi_optimum_info *info, const atvi_target *t, atvi_draws *d) {
  atvi_idx n = n_rival(info), shown = n <= MODES_SHOWN ? n : MODES_SHOWN;
  for (atvi_idx k = 1; k <= shown; k++) {
    const atvi_optimum *o = &info->optimum[k];
    const char *at = "";
    for (atvi_idx j = 0; j < info->d && j < ATVI_SHOWN && at; j++)
      at = atvi_pool_printf(info->pool, "%s%s%s = %.4g", at, j ? ", " : "", t->param[j].name, o->theta[j]);
    if (!at) return ATVI_ENOMEM;
    ATVI_TRY(atvi_draws_say(
        d, ATVI_NOTE, ATVI_CODE_MODE,
        "There is another mode at %s%s, with log posterior %.2f (best %.2f; found by %d and %d searches).",
        at, info->d > ATVI_SHOWN ? ", ..." : "", o->log_post, info->optimum[0].log_post, o->hits,
        info->optimum[0].hits));
  }
  return n > shown ? atvi_draws_say(d, ATVI_NOTE, ATVI_CODE_MODE, "And %td more such modes.", n - shown)
                   : ATVI_OK;
}

/* `!(gap < RUNAWAY)`: it may be infinite or no number. */
static atvi_status say_search(const atvi_optimum_info *info, atvi_draws *d) {
  if (info->converged) return ATVI_OK;
  if (!(info->gap < RUNAWAY))
    return atvi_draws_say(
        d, ATVI_NOTE, ATVI_CODE_MAXIMUM_NONE,
        "The posterior seems to have no maximum: its density grows without limit, for example where a scale "
        "parameter goes to 0. Give such a parameter a prior that keeps it away from there.");
  return atvi_draws_say(
      d, ATVI_NOTE, ATVI_CODE_SEARCH_UNFINISHED,
      "The search for the mode did not converge: the log posterior could still rise by about %.2g.",
      info->gap);
}

static atvi_status say(const atvi_optimum_info *info, const atvi_target *t, double share, atvi_draws *d) {
  ATVI_TRY(say_search(info, d));
  bool runaway = !(info->gap < RUNAWAY); /* then nothing seen at the place where it ended means anything */
  if (!info->definite && !runaway)
    ATVI_TRY(atvi_draws_say(
        d, ATVI_NOTE, ATVI_CODE_HESSIAN,
        "The Hessian at the mode is not positive definite: the posterior has no normal approximation there, "
        "and the standard deviations are those of the prior in some directions."));
  if (share == 0)
    ATVI_TRY(atvi_draws_say(
        d, ATVI_NOTE, ATVI_CODE_LAPLACE_POOR,
        "Nearly all of the normal approximation lies outside the bounds; the draws are not to be trusted."));
  if (!runaway) ATVI_TRY(say_rivals(info, t, d));
  for (atvi_idx j = 0; j < info->d; j++)
    if (info->at_bound[j])
      ATVI_TRY(atvi_draws_say(d, ATVI_NOTE, ATVI_CODE_MODE_AT_BOUND, "%s has its mode at its %s bound.",
                              t->param[j].name, info->at_bound[j] < 0 ? "lower" : "upper"));
  for (atvi_idx k = 0; k < info->n_uninformed && !runaway; k++)
    ATVI_TRY(atvi_draws_say(d, ATVI_NOTE, ATVI_CODE_UNINFORMED, "The data do not inform %s.",
                            info->uninformed[k]));
  return ATVI_OK;
}

static atvi_status deliver(maximiser *m, atvi_optimum_info *info, atvi_draws **out) {
  const atvi_target *t = atvi_model_evaluator_target(m->ev);
  atvi_laplace *l;
  ATVI_TRY(atvi_infer_laplace_at(m->ctx, m->ev, m->starts->scale, info, &l));
  ATVI_TRY(atvi_infer_fit_draws_new(m->ctx, t, m->opts.draws, 1, false, out));
  atvi_draws *d = *out;
  double share = atvi_infer_laplace_draw(l, t, info, m->opts.seed, d->n, d->x);
  for (atvi_idx j = 0; j < t->d; j++) d->x[j * d->n] = info->mode[j];
  d->made->mode_draw = 0;
  if (info->gap < RUNAWAY) d->made->modes = 1 + (double)n_rival(info);
  atvi_model_evaluator_run(
      m->ev, &(atvi_batch){.B = d->n, .theta = d->x, .log_prior = d->log_prior, .log_lik = d->log_lik});
  atvi_infer_fit_derived(m->ev, d);
  d->chains = false;
  d->made->log_evidence = atvi_infer_laplace_evidence(l, t, info, share);
  d->made->efficiency = info->definite && share > 0 ? effective_share(l, info, d) : 0;
  return say(info, t, share, d);
}

static atvi_status run(maximiser *m, atvi_optimum_info **info, atvi_draws **out) {
  atvi_end end;
  ATVI_TRY(atvi_pool_new(m->ctx, &m->pool));
  ATVI_TRY(atvi_infer_starts_new(m->ctx, m->ev, m->opts.seed, (atvi_idx)m->opts.starts * m->opts.candidates,
                                 &m->starts));
  ATVI_TRY(prepare(m));
  ATVI_TRY(search_all(m, &end));
  sort_results(m);
  ATVI_TRY(info_new(m, info));
  set_mode(m, *info);
  ATVI_TRY(list_optima(m, *info));
  ATVI_TRY(deliver(m, *info, out));
  (*out)->made->end = end;
  return ATVI_OK;
}

atvi_status atvi_infer_optimum_run(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_optimum_opts *opts,
                                   atvi_optimum_info **info, atvi_draws **out) {
  *out = NULL;
  if (info) *info = NULL;
  maximiser m = {
      .ctx = ctx, .ev = ev, .opts = opts ? *opts : atvi_infer_optimum_defaults(), .begun_s = atvi_clock_s()};
  ATVI_TRY(check_opts(ctx, &m.opts));
  int64_t count = atvi_model_evaluator_count(ev), failures = atvi_model_evaluator_failures(ev);
  atvi_optimum_info *found = NULL;
  atvi_status st = run(&m, &found, out);
  if (st == ATVI_OK) {
    atvi_made *made = (*out)->made;
    made->method = "map";
    made->model = atvi_model_evaluator_target(ev)->name;
    made->seed = m.opts.seed;
    made->evaluations = atvi_model_evaluator_count(ev) - count;
    made->failures = atvi_model_evaluator_failures(ev) - failures;
    made->log_evidence_se = made->elbo = made->khat = made->accept = made->ess_wanted = NAN;
    made->seconds = atvi_clock_s() - m.begun_s;
    atvi_tell(ctx, "done", 1, made->seconds, "log posterior %.3f", found->log_prior + found->log_lik);
  } else {
    atvi_draws_free(*out);
    *out = NULL;
  }
  atvi_infer_starts_free(m.starts);
  atvi_pool_free(m.pool);
  if (info && st == ATVI_OK)
    *info = found;
  else
    atvi_infer_optimum_info_free(found);
  return st;
}
