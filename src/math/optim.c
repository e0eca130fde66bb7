/* SPDX-License-Identifier: MIT */
/* Projected L-BFGS.
 *
 * Variables that sit on a bound with the gradient pushing outwards are held; the two-loop recursion
 * (Nocedal and Wright, Algorithm 7.4) runs in the others, with inner products over them only. The
 * search follows the projected path x(t) = P(x + t d) by bracketing for the weak Wolfe conditions
 * (Lewis and Overton 2013); a point that cannot be evaluated counts as too far. Pairs without
 * positive curvature are not stored, and a search that fails is tried again along the gradient. */
#include "math/optim.h"
#include "math/detail.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum { PAIRS = 10, MAX_TRIALS = 40 };
#define ARMIJO 1e-4
#define CURVATURE 0.9

typedef struct {
  const atvi_lbfgs_opts *opts;
  atvi_idx n;
  double *x, *g, *d;   /* [n] the iterate, its gradient, the direction */
  double *xt, *gt;     /* [n] trial */
  double *s, *y;       /* [PAIRS][n] */
  double *rho, *alpha; /* [PAIRS] */
  double *held;        /* [n] 1: on a bound, stays there */
  double *kept;        /* [2] pairs and next, for a call that continues */
  int pairs, next, evals;
  double f, ft;
} state;

size_t atvi_math_lbfgs_work(atvi_idx n) { return (size_t)(5 * n + 2 * PAIRS * n + 2 * PAIRS + 2); }

/* Lays the arrays out; x is the caller's. */
static state carve(atvi_idx n, double *x, double *work) {
  return (state){.n = n,
                 .x = x,
                 .g = work,
                 .d = work + n,
                 .xt = work + 2 * n,
                 .gt = work + 3 * n,
                 .held = work + 4 * n,
                 .s = work + 5 * n,
                 .y = work + (5 + PAIRS) * n,
                 .rho = work + (5 + 2 * PAIRS) * n,
                 .alpha = work + (5 + 2 * PAIRS) * n + PAIRS,
                 .kept = work + (5 + 2 * PAIRS) * n + 2 * (atvi_idx)PAIRS};
}

static double lower(const state *o, atvi_idx i) { return o->opts->lower ? o->opts->lower[i] : -HUGE_VAL; }
static double upper(const state *o, atvi_idx i) { return o->opts->upper ? o->opts->upper[i] : HUGE_VAL; }
static double clamp(const state *o, atvi_idx i, double v) { return fmin(fmax(v, lower(o, i)), upper(o, i)); }

/* NaN unless value and gradient are all finite. */
static double eval(state *o, const double *x, double *g) {
  double f = o->opts->f(o->opts->user, x, g);
  o->evals++;
  if (!isfinite(f)) return NAN;
  for (atvi_idx i = 0; i < o->n; i++)
    if (!isfinite(g[i])) return NAN;
  return f;
}

static double projected_norm(const state *o) {
  double m = 0;
  for (atvi_idx i = 0; i < o->n; i++) m = fmax(m, fabs(clamp(o, i, o->x[i] - o->g[i]) - o->x[i]));
  return m;
}

static double dot_free(const state *o, const double *a, const double *b) {
  double s = 0;
  for (atvi_idx i = 0; i < o->n; i++)
    if (o->held[i] == 0) s += a[i] * b[i];
  return s;
}

static void axpy(atvi_idx n, double c, const double *x, double *y) {
  for (atvi_idx i = 0; i < n; i++) y[i] += c * x[i];
}

/* d = -H g in the free variables; plain gradient of length at most 1 if there is no memory. */
static void direction(state *o) {
  atvi_idx n = o->n;
  double gamma = 0;
  memcpy(o->d, o->g, (size_t)n * sizeof *o->d);
  for (int k = 1; k <= o->pairs; k++) {
    int j = (o->next - k + PAIRS) % PAIRS;
    const double *s = o->s + j * n, *y = o->y + j * n;
    double sy = dot_free(o, s, y), yy = dot_free(o, y, y);
    o->rho[j] = sy > DBL_EPSILON * yy ? 1.0 / sy : 0;
    if (gamma == 0 && o->rho[j] > 0) gamma = sy / yy;
    o->alpha[j] = o->rho[j] * dot_free(o, s, o->d);
    axpy(n, -o->alpha[j], y, o->d);
  }
  if (gamma == 0) gamma = fmin(1.0, 1.0 / sqrt(fmax(dot_free(o, o->g, o->g), DBL_MIN)));
  for (atvi_idx i = 0; i < n; i++) o->d[i] *= gamma;
  for (int k = o->pairs; k >= 1; k--) {
    int j = (o->next - k + PAIRS) % PAIRS;
    double beta = o->rho[j] * dot_free(o, o->y + j * n, o->d);
    axpy(n, o->alpha[j] - beta, o->s + j * n, o->d);
  }
  for (atvi_idx i = 0; i < n; i++) o->d[i] = o->held[i] != 0 ? 0 : -o->d[i];
}

/* Moves the trial to P(x + t d); returns whether a bound cut it. */
static bool place(state *o, double t) {
  bool cut = false;
  for (atvi_idx i = 0; i < o->n; i++) {
    double v = o->x[i] + t * o->d[i];
    o->xt[i] = clamp(o, i, v);
    cut |= o->xt[i] != v;
  }
  return cut;
}

/* Finds a trial that decreases f enough; false if there is none. */
static bool search(state *o) {
  double lo = 0, hi = HUGE_VAL, t = 1, slope0 = dot_free(o, o->g, o->d);
  o->ft = NAN;
  int trials = o->opts->max_trials > 0 ? o->opts->max_trials : MAX_TRIALS;
  for (int k = 0; k < trials && o->evals < o->opts->max_evals; k++) {
    bool cut = place(o, t);
    double gain = 0, moved = 0;
    for (atvi_idx i = 0; i < o->n; i++) {
      gain += o->g[i] * (o->xt[i] - o->x[i]);
      moved = fmax(moved, fabs(o->xt[i] - o->x[i]) / (fabs(o->x[i]) + DBL_MIN));
    }
    if (moved < DBL_EPSILON) return false;
    o->ft = gain < 0 ? eval(o, o->xt, o->gt) : NAN;
    if (!(o->ft <= o->f + ARMIJO * gain)) {
      hi = t;
    } else {
      if (cut || dot_free(o, o->gt, o->d) >= CURVATURE * slope0 || t > 1e10) return true;
      lo = t;
    }
    if (lo > 0 && hi - lo < 1e-3 * hi) break;
    t = isinf(hi) ? 2.0 * lo : lo > 0 ? 0.5 * (lo + hi) : isnan(o->ft) ? 0.1 * hi : 0.4 * hi;
  }
  if (lo > 0 && o->evals < o->opts->max_evals) { /* the longest step known to decrease enough */
    place(o, lo);
    o->ft = eval(o, o->xt, o->gt);
  }
  return o->ft < o->f;
}

static void accept(state *o) {
  atvi_idx n = o->n;
  double sy = 0, ss = 0, yy = 0, *s = o->s + o->next * n, *y = o->y + o->next * n;
  for (atvi_idx i = 0; i < n; i++) {
    s[i] = o->xt[i] - o->x[i];
    y[i] = o->gt[i] - o->g[i];
    sy += s[i] * y[i];
    ss += s[i] * s[i];
    yy += y[i] * y[i];
  }
  if (sy > 1e-12 * sqrt(ss) * sqrt(yy)) {
    o->next = (o->next + 1) % PAIRS;
    if (o->pairs < PAIRS) o->pairs++;
  }
  memcpy(o->x, o->xt, (size_t)n * sizeof *o->x);
  memcpy(o->g, o->gt, (size_t)n * sizeof *o->g);
  o->f = o->ft;
}

static void hold(state *o) {
  for (atvi_idx i = 0; i < o->n; i++)
    o->held[i] = (o->x[i] <= lower(o, i) && o->g[i] >= 0) || (o->x[i] >= upper(o, i) && o->g[i] <= 0);
}

static void run(state *o, atvi_lbfgs_info *info) {
  o->f = eval(o, o->x, o->g);
  while (isfinite(o->f)) {
    info->grad_norm = projected_norm(o);
    info->converged = info->grad_norm <= o->opts->tol_grad * (1.0 + fabs(o->f));
    if (info->converged || o->evals >= o->opts->max_evals) break;
    hold(o);
    direction(o);
    if (!(dot_free(o, o->g, o->d) < 0)) {
      if (o->pairs == 0) break;
      o->pairs = 0;
      continue;
    }
    double before = o->f;
    if (search(o)) {
      accept(o);
      if (before - o->f < o->opts->tol_value * (1.0 + fabs(o->f))) break;
    } else {
      if (o->pairs == 0) break;
      o->pairs = 0;
    }
  }
  info->value = o->f;
  info->evals = o->evals;
}

void atvi_math_lbfgs(atvi_idx n, const atvi_lbfgs_opts *opts, double *x, double *work,
                     atvi_lbfgs_info *info) {
  ATVI_ASSERT(n >= 1 && opts->f && opts->max_evals >= 1);
  *info = (atvi_lbfgs_info){.value = NAN, .grad_norm = NAN};
  state o = carve(n, x, work);
  o.opts = opts;
  if (opts->warm) o.pairs = (int)o.kept[0], o.next = (int)o.kept[1];
  for (atvi_idx i = 0; i < n; i++) x[i] = clamp(&o, i, x[i]);
  run(&o, info);
  o.kept[0] = o.pairs, o.kept[1] = o.next;
}

/* ---- Adam ---- */

struct atvi_adam {
  atvi_ctx *ctx;
  atvi_adam_opts opts;
  atvi_idx n;
  int64_t t;     /* steps taken */
  double *m, *v; /* [n] first and second moment, inside this block */
};

atvi_adam_opts atvi_math_adam_defaults(void) { return (atvi_adam_opts){1e-3, 0.9, 0.999, 1e-8}; }

/* Lays the object out. Runs twice: a.base == NULL measures, else it places. */
static atvi_adam *carve_adam(atvi_arena *a, atvi_idx n) {
  atvi_adam *o, head = {0};
  ATVI_TAKE(a, o, 1);
  ATVI_TAKE(a, head.m, n);
  ATVI_TAKE(a, head.v, n);
  if (o) *o = head;
  return o;
}

static atvi_status check_adam(atvi_ctx *ctx, atvi_idx n, const atvi_adam_opts *use) {
  if (n < 1) return ATVI_FAIL(ctx, ATVI_EINVAL, "adam: n = %td, want >= 1", n);
  if (!(use->step > 0)) return ATVI_FAIL(ctx, ATVI_EINVAL, "adam: step = %g, want > 0", use->step);
  if (!(use->beta1 >= 0 && use->beta1 < 1))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "adam: beta1 = %g, want in [0, 1)", use->beta1);
  if (!(use->beta2 >= 0 && use->beta2 < 1))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "adam: beta2 = %g, want in [0, 1)", use->beta2);
  if (!(use->eps > 0)) return ATVI_FAIL(ctx, ATVI_EINVAL, "adam: eps = %g, want > 0", use->eps);
  return ATVI_OK;
}

atvi_status atvi_math_adam_new(atvi_ctx *ctx, atvi_idx n, const atvi_adam_opts *opts, atvi_adam **out) {
  atvi_adam_opts use = opts ? *opts : atvi_math_adam_defaults();
  atvi_arena a = {0};
  *out = NULL;
  ATVI_TRY(check_adam(ctx, n, &use));
  carve_adam(&a, n);
  a = (atvi_arena){.base = atvi_block(ctx, a.used)};
  if (!a.base) return ATVI_ENOMEM;
  atvi_adam *o = carve_adam(&a, n);
  o->ctx = ctx;
  o->opts = use;
  o->n = n;
  *out = o;
  return ATVI_OK;
}

void atvi_math_adam_free(atvi_adam *opt) {
  if (opt) atvi_block_free(opt->ctx, opt);
}

void atvi_math_adam_set_step(atvi_adam *opt, double step) {
  ATVI_ASSERT(step >= 0);
  opt->opts.step = step;
}

atvi_adam_memory atvi_math_adam_memory(atvi_adam *opt) { return (atvi_adam_memory){&opt->t, opt->m, opt->v}; }

void atvi_math_adam_reset(atvi_adam *opt) {
  opt->t = 0;
  memset(opt->m, 0, (size_t)opt->n * sizeof *opt->m);
  memset(opt->v, 0, (size_t)opt->n * sizeof *opt->v);
}

atvi_idx atvi_math_adam_step(atvi_adam *opt, double *x, const double *g) {
  const atvi_adam_opts o = opt->opts;
  opt->t++;
  atvi_adam_rates r = {.beta1 = o.beta1, .beta2 = o.beta2, .eps = o.eps};
  r.step = o.step / (1 - pow(o.beta1, (double)opt->t));
  r.root = 1 / sqrt(1 - pow(o.beta2, (double)opt->t));
  return ATVI_ISA_PICK(atvi_math_adam_update)(opt->n, &r, opt->m, opt->v, x, g);
}
