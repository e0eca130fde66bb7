/* SPDX-License-Identifier: MIT */
/* Location and scale of a map are the median and half the distance between the 16 and 84 % quantiles of prior draws in
 * the map's own coordinate: they exist for every prior, however heavy its tails. A uniform prior under the probit map
 * is standard normal exactly, and is left alone. */
#include "infer/space.h"
#include "math/special.h"
#include "math/stat/stat.h"
#include <math.h>
#include <string.h>

enum { PRIOR_DRAWS = 1024, PART_MIN = ATVI_LANES };
#define UNIFORM_NEAR 0.12 /* location and scale as near to 0 and 1 as this are those of a uniform prior */

/* ---- the maps ---- */

static int ends(const atvi_param *p) { return isfinite(p->lower) + isfinite(p->upper); }

static bool suits(atvi_map_kind kind, int n_end) {
  switch (kind) {
  case ATVI_MAP_NONE: return n_end == 0;
  case ATVI_MAP_LOG: return n_end == 1;
  case ATVI_MAP_LOGIT:
  case ATVI_MAP_PROBIT: return n_end == 2;
  case ATVI_MAP_SURJECTION: return n_end > 0;
  }
  return false;
}

static bool find_kind(const char *name, atvi_map_kind *kind) {
  for (int k = ATVI_MAP_NONE; k <= ATVI_MAP_SURJECTION; k++) {
    *kind = (atvi_map_kind)k;
    if (strcmp(name, atvi_transform_map_name(*kind)) == 0) return true;
  }
  return false;
}

static bool is_auto(const char *name) { return !name || strcmp(name, "auto") == 0; }

static atvi_status choose(atvi_ctx *ctx, const atvi_param *p, const char *kind, atvi_map_kind *out) {
  static const atvi_map_kind usual[] = {ATVI_MAP_NONE, ATVI_MAP_LOG, ATVI_MAP_PROBIT};
  static const char *const has[] = {"no bound", "one bound", "two bounds"};
  int n = ends(p);
  if (!is_auto(p->map)) {
    if (!find_kind(p->map, out))
      return ATVI_FAIL(ctx, ATVI_EINVAL,
                       "map %s of %s: there are auto, surjection, probit, logit, log and none", p->map,
                       p->name);
    if (!suits(*out, n))
      return ATVI_FAIL(ctx, ATVI_EINVAL, "map %s does not suit %s, which has %s", p->map, p->name, has[n]);
    return ATVI_OK;
  }
  if (!is_auto(kind)) {
    if (!find_kind(kind, out))
      return ATVI_FAIL(ctx, ATVI_EINVAL, "map %s: there are auto, surjection, probit, logit, log and none",
                       kind);
    if (suits(*out, n)) return ATVI_OK;
  }
  *out = usual[n];
  return ATVI_OK;
}

/* theta becomes the coordinate that loc and scale act on. */
static void unscaled(const atvi_map *m, atvi_idx n, double *theta) {
  atvi_map plain = *m;
  plain.loc = 0;
  plain.scale = 1;
  if (m->kind != ATVI_MAP_SURJECTION) atvi_transform_map_inv(&plain, n, theta, theta);
}

/* sorted: [3][n] scratch. */
static void place(atvi_map *m, atvi_idx n, double *theta, double *sorted) {
  if (m->kind == ATVI_MAP_SURJECTION && isfinite(m->lower) && isfinite(m->upper)) return;
  unscaled(m, n, theta);
  atvi_idx kept = 0;
  for (atvi_idx i = 0; i < n; i++)
    if (isfinite(theta[i])) sorted[kept++] = theta[i];
  if (kept < n / 2) return;
  atvi_math_sort(kept, sorted, NULL, sorted + n);
  double low = sorted[(atvi_idx)(0.1587 * (double)kept)], high = sorted[(atvi_idx)(0.8413 * (double)kept)];
  double loc = sorted[kept / 2], scale = 0.5 * (high - low);
  if (!(scale > 0) || !isfinite(scale)) return;
  bool uniform = m->kind == ATVI_MAP_PROBIT && fabs(loc) < UNIFORM_NEAR && fabs(scale - 1) < UNIFORM_NEAR;
  if (uniform) return;
  m->loc = loc;
  m->scale = scale;
}

static atvi_status make_maps(atvi_space *s, const char *kind, uint64_t seed) {
  const atvi_target *t = s->target;
  atvi_status status = ATVI_OK;
  for (atvi_idx i = 0; i < s->d && status == ATVI_OK; i++) {
    atvi_map_kind k;
    status = choose(s->ctx, &t->param[i], kind, &k);
    if (status == ATVI_OK)
      status = atvi_transform_map_new(s->ctx, k, t->param[i].lower, t->param[i].upper, &s->map[i]);
  }
  if (status != ATVI_OK || !s->from_prior) return status;
  double *theta = atvi_block(s->ctx, (size_t)(s->d + 3) * PRIOR_DRAWS * sizeof *theta);
  if (!theta) return ATVI_ENOMEM;
  t->ops->prior_draw(t->self, atvi_model_evaluator_work(s->ev), seed, 0, PRIOR_DRAWS, theta);
  for (atvi_idx i = 0; i < s->d; i++)
    place(&s->map[i], PRIOR_DRAWS, theta + i * PRIOR_DRAWS, theta + s->d * PRIOR_DRAWS);
  atvi_block_free(s->ctx, theta);
  return ATVI_OK;
}

/* ---- the object ---- */

static size_t part_doubles(atvi_idx d) { return (size_t)(5 * d + 8) * ATVI_SPACE_PART; }

static atvi_space *carve(atvi_arena *a, atvi_idx d, int threads) {
  atvi_space *s, head = {0};
  ATVI_TAKE(a, s, 1);
  ATVI_TAKE(a, head.map, d);
  ATVI_TAKE(a, head.part, threads);
  for (int k = 0; k < threads; k++) {
    double *part;
    ATVI_TAKE(a, part, part_doubles(d));
    if (s) head.part[k] = part;
  }
  if (s) *s = head;
  return s;
}

atvi_status atvi_infer_space_new(atvi_ctx *ctx, atvi_evaluator *ev, const char *kind, uint64_t seed,
                                 atvi_space **out) {
  *out = NULL;
  const atvi_target *t = atvi_model_evaluator_target(ev);
  int threads = atvi_ctx_threads(ctx);
  atvi_arena a = {0};
  carve(&a, t->d, threads);
  a = (atvi_arena){.base = atvi_block(ctx, a.used)};
  if (!a.base) return ATVI_ENOMEM;
  atvi_space *s = carve(&a, t->d, threads);
  s->ctx = ctx;
  s->ev = ev;
  s->target = t;
  s->d = t->d;
  s->from_prior = t->ops->prior_draw != NULL;
  atvi_status status = make_maps(s, kind, seed);
  if (status != ATVI_OK) {
    atvi_infer_space_free(s);
    return status;
  }
  *out = s;
  return ATVI_OK;
}

void atvi_infer_space_free(atvi_space *s) {
  if (s) atvi_block_free(s->ctx, s);
}

/* ---- evaluation ---- */

typedef struct {
  double *x, *theta, *dx, *grad_prior, *grad_lik;                 /* [d][PART] */
  double *log_prior, *log_lik, *ldj, *base, *pi, *pi_one, *alive; /* [PART] */
  atvi_outcome *outcome;
} scratch;

static scratch lay(const atvi_space *s, int worker) {
  double *at = s->part[worker];
  atvi_idx n = s->d * ATVI_SPACE_PART, m = ATVI_SPACE_PART;
  double *row = at + 5 * n;
  return (scratch){at,
                   at + n,
                   at + 2 * n,
                   at + 3 * n,
                   at + 4 * n,
                   row,
                   row + m,
                   row + 2 * m,
                   row + 3 * m,
                   row + 4 * m,
                   row + 5 * m,
                   row + 6 * m,
                   (atvi_outcome *)(void *)(row + 7 * m)};
}

static double half_log_2pi(void) { return 0.91893853320467274178; }

/* log N(x; 0, I), added up. */
static void normal_base(atvi_idx d, atvi_idx B, const double *x, double *out) {
  for (atvi_idx j = 0; j < B; j++) out[j] = -(double)d * half_log_2pi();
  for (atvi_idx i = 0; i < d; i++)
    for (atvi_idx j = 0; j < B; j++) out[j] -= 0.5 * x[i * B + j] * x[i * B + j];
}

static void put(atvi_idx n, const double *from, double *to) {
  if (to) memcpy(to, from, (size_t)n * sizeof *to);
}

/* dx = gradient of log pi_beta: through the maps, then the normal at the other end of the path. */
static void gradient(const atvi_space *s, const atvi_space_batch *b, const scratch *w) {
  atvi_idx B = b->B;
  double lik = b->beta, prior = s->from_prior ? 1 : b->beta;
  for (atvi_idx j = 0; j < B; j++) w->alive[j] = isfinite(b->log_pi[j]) ? prior : 0;
  for (atvi_idx i = 0; i < s->d; i++) {
    double *dtheta = w->grad_lik + i * B, *dx = b->dx + i * B;
    const double *gp = w->grad_prior + i * B, *x = b->x + i * B;
    for (atvi_idx j = 0; j < B; j++) {
      double g = lik * dtheta[j] + prior * gp[j];
      dtheta[j] = w->alive[j] > 0 ? g : 0;
      dx[j] = 0;
    }
    atvi_transform_map_vjp(&s->map[i], B, x, dtheta, w->alive, dx);
    if (!s->from_prior)
      for (atvi_idx j = 0; j < B; j++)
        if (isfinite(b->log_pi[j])) dx[j] -= (1 - b->beta) * x[j];
  }
  for (atvi_idx j = 0; j < B; j++) { /* a run without a usable gradient is a failed run */
    bool good = true;
    for (atvi_idx i = 0; i < s->d; i++) good = good && isfinite(b->dx[i * B + j]);
    for (atvi_idx i = 0; i < s->d && !good; i++) b->dx[i * B + j] = 0;
    if (!good) b->log_pi[j] = -HUGE_VAL;
  }
}

void atvi_infer_space_eval_on(const atvi_space *s, int worker, const atvi_space_batch *b) {
  scratch w = lay(s, worker);
  atvi_idx B = b->B, d = s->d;
  ATVI_ASSERT(B <= ATVI_SPACE_PART);
  for (atvi_idx j = 0; j < B; j++) w.ldj[j] = 0;
  for (atvi_idx i = 0; i < d * B && b->dx; i++)
    w.grad_prior[i] = w.grad_lik[i] = NAN; /* what is not set is no gradient */
  for (atvi_idx i = 0; i < d; i++)
    atvi_transform_map_fwd(&s->map[i], B, b->x + i * B, b->theta + i * B, w.ldj);
  atvi_model_evaluator_run_on(s->ev, worker,
                              &(atvi_batch){.B = B,
                                            .theta = b->theta,
                                            .log_prior = w.log_prior,
                                            .log_lik = w.log_lik,
                                            .grad_prior = b->dx ? w.grad_prior : NULL,
                                            .grad_lik = b->dx ? w.grad_lik : NULL,
                                            .outcome = w.outcome});
  if (!s->from_prior) normal_base(d, B, b->x, w.base);
  for (atvi_idx j = 0; j < B; j++) {
    double lp = w.log_prior[j] + w.ldj[j], ll = w.log_lik[j];
    if (w.outcome[j] != ATVI_RUN_OK || !isfinite(lp) || !isfinite(ll)) {
      bool failed = w.outcome[j] != ATVI_RUN_OK && w.outcome[j] != ATVI_RUN_OUTSIDE;
      w.log_lik[j] = failed || isnan(ll) ? NAN : -HUGE_VAL;
      lp = -HUGE_VAL;
      ll = -HUGE_VAL;
    }
    bool dead = lp == -HUGE_VAL;
    double one = dead ? -HUGE_VAL : ll + lp;
    if (s->from_prior) {
      w.base[j] = lp;
      w.pi[j] = dead ? -HUGE_VAL : b->beta * ll + lp;
    } else {
      w.pi[j] = dead ? -HUGE_VAL : b->beta * one + (1 - b->beta) * w.base[j];
    }
    w.pi_one[j] = one;
  }
  put(B, w.log_lik, b->log_lik);
  put(B, w.log_prior, b->log_prior);
  put(B, w.base, b->log_base);
  put(B, w.pi, b->log_pi);
  put(B, w.pi_one, b->log_pi_one);
  if (b->dx) gradient(s, b, &w);
}

typedef struct {
  const atvi_space *s;
  const atvi_space_batch *b;
  atvi_idx part;
} job;

static void scatter(atvi_idx rows, atvi_idx n, const double *from, double *to, atvi_idx first,
                    atvi_idx stride) {
  for (atvi_idx i = 0; i < rows && to; i++)
    memcpy(to + i * stride + first, from + i * n, (size_t)n * sizeof *to);
}

static void eval_item(void *arg, atvi_idx item, int worker) {
  const job *j = arg;
  const atvi_space_batch *b = j->b;
  atvi_idx d = j->s->d, first = item * j->part, n = b->B - first < j->part ? b->B - first : j->part;
  scratch w = lay(j->s, worker);
  for (atvi_idx i = 0; i < d; i++) memcpy(w.x + i * n, b->x + i * b->B + first, (size_t)n * sizeof *w.x);
  atvi_space_batch in = {.B = n, .x = w.x, .beta = b->beta, .theta = w.theta, .log_pi = w.pi};
  in.dx = b->dx ? w.dx : NULL;
  atvi_infer_space_eval_on(j->s, worker, &in);
  scatter(d, n, w.theta, b->theta, first, b->B);
  scatter(d, n, w.dx, b->dx, first, b->B);
  scatter(1, n, w.log_lik, b->log_lik, first, b->B);
  scatter(1, n, w.log_prior, b->log_prior, first, b->B);
  scatter(1, n, w.base, b->log_base, first, b->B);
  scatter(1, n, w.pi, b->log_pi, first, b->B);
  scatter(1, n, w.pi_one, b->log_pi_one, first, b->B);
}

void atvi_infer_space_eval(const atvi_space *s, const atvi_space_batch *b) {
  int threads = atvi_ctx_threads(s->ctx);
  atvi_idx part = (b->B / (4 * threads) + PART_MIN - 1) / PART_MIN * PART_MIN;
  part = part < PART_MIN ? PART_MIN : part > ATVI_SPACE_PART ? ATVI_SPACE_PART : part;
  job j = {s, b, part};
  atvi_parallel(s->ctx, (b->B + part - 1) / part, eval_item, &j);
}
