/* SPDX-License-Identifier: MIT */
/* Trees of the No-U-Turn sampler: the leapfrog, the same transitions as a plain recursion, the step size. */
#include "infer/nuts_tree.h"
#include "testing.h"

enum { D = 2 };
static const double VAR[D] = {0.7, 2.385};

/* x0 ~ N(0, 1), x1 | x0 ~ N(x0^2, 0.5^2). */
static double banana(const double *x, double *g) {
  double e = (x[1] - x[0] * x[0]) / 0.5;
  g[0] = -x[0] + 2 * x[0] * e / 0.5;
  g[1] = -e / 0.5;
  return -0.5 * x[0] * x[0] - 0.5 * e * e;
}

typedef struct {
  atvi_nuts_tree t;
  void *block;
} holder;

static holder tree_new(int max_depth, double eps) {
  holder h = {0};
  atvi_arena a = {0};
  atvi_nuts_tree t = {0};
  atvi_infer_nuts_tree_carve(&a, &t, D, max_depth);
  h.block = calloc(1, a.used + ATVI_ALIGN);
  CHECK(h.block != NULL);
  a = (atvi_arena){.base = h.block};
  atvi_infer_nuts_tree_carve(&a, &h.t, D, max_depth);
  h.t.var = VAR;
  h.t.eps = eps;
  h.t.sign = 1;
  return h;
}

/* The answer to what the tree asks for. */
static atvi_nuts_value value_at(const double *x, double *g) {
  double lp = banana(x, g);
  return (atvi_nuts_value){.log_pi = lp, .log_lik = lp, .g = g, .theta = x, .stride = 1};
}

static void put_at(atvi_nuts_tree *t, double x0, double x1) {
  t->at.x[0] = x0, t->at.x[1] = x1;
  t->at.log_pi = banana(t->at.x, t->at.g);
}

/* ---- leapfrog ---- */

static double energy(const atvi_nuts_tree *t) {
  double g[D], k = 0;
  for (int i = 0; i < D; i++) k += 0.5 * t->var[i] * t->move.p[i] * t->move.p[i];
  return k - banana(t->move.x, g);
}

static void begin_at(atvi_nuts_tree *t) {
  t->move.x[0] = 0.483, t->move.x[1] = 0.91;
  t->move.p[0] = 1.27, t->move.p[1] = -0.316;
  banana(t->move.x, t->move.g);
}

static void leapfrog_goes_back(void) {
  holder h = tree_new(4, 0.13);
  atvi_nuts_tree *t = &h.t;
  double g[D], far = 0;
  begin_at(t);
  for (int way = 0; way < 2; way++) {
    t->sign = way ? -1 : 1;
    for (int k = 0; k < 60; k++) {
      atvi_infer_nuts_leap(t);
      atvi_nuts_value v = value_at(t->move.x, g);
      CHECK_REL(atvi_infer_nuts_land(t, &v), energy(t), 1e-13);
      far = fmax(far, fabs(t->move.x[0] - 0.483));
    }
  }
  CHECK(far > 0.5);
  CHECK_ABS(t->move.x[0], 0.483, 1e-12); /* rounding alone, 120 steps */
  CHECK_ABS(t->move.x[1], 0.91, 1e-12);
  CHECK_ABS(t->move.p[0], 1.27, 1e-12);
  CHECK_ABS(t->move.p[1], -0.316, 1e-12);
  free(h.block);
}

/* Largest energy error over a stretch of time 4, with steps of 4 / n. */
static double energy_error(int n) {
  holder h = tree_new(4, 4.0 / n);
  double g[D], worst = 0;
  begin_at(&h.t);
  double h0 = energy(&h.t);
  for (int k = 0; k < n; k++) {
    atvi_infer_nuts_leap(&h.t);
    atvi_nuts_value v = value_at(h.t.move.x, g);
    worst = fmax(worst, fabs(atvi_infer_nuts_land(&h.t, &v) - h0));
  }
  free(h.block);
  return worst;
}

static void energy_error_is_of_second_order(void) {
  for (int n = 200; n <= 1600; n *= 2)
    CHECK_ABS(energy_error(n) / energy_error(2 * n), 4, 0.1 * 200 / n); /* the next term is O(eps) of it */
}

static void no_density_is_infinite_energy(void) {
  holder h = tree_new(4, 0.3);
  put_at(&h.t, 0.4, 0.2);
  h.t.rng = atvi_math_rng_at(1, ATVI_STREAM_TEST, 0, 0);
  double x = h.t.at.x[0];
  atvi_infer_nuts_begin(&h.t);
  CHECK(atvi_infer_nuts_take(&h.t, &(atvi_nuts_value){.log_pi = -HUGE_VAL}));
  CHECK(h.t.divergent && h.t.steps == 1 && h.t.depth == 0 && h.t.sum_accept == 0 && h.t.at.x[0] == x);
  atvi_infer_nuts_try(&h.t);
  CHECK(atvi_infer_nuts_tried(&h.t, &(atvi_nuts_value){.log_pi = NAN}) == -HUGE_VAL);
  free(h.block);
}

/* ---- recursion ---- */

typedef struct {
  double x[D], p[D], g[D], log_pi;
} phase;

typedef struct {
  atvi_rng rng;
  double eps, h0, sum_accept;
  int steps;
  bool divergent;
} reference;

typedef struct {
  bool good;
  double rho[D], p_first[D], p_last[D], log_weight, x[D];
} subtree;

static double total(const phase *z) {
  return 0.5 * (VAR[0] * z->p[0] * z->p[0] + VAR[1] * z->p[1] * z->p[1]) - z->log_pi;
}

static double log_sum(double a, double b) { return fmax(a, b) + log1p(exp(-fabs(a - b))); }

static bool onward(const double *p, const double *q, const double *rho) {
  double a = 0, b = 0;
  for (int i = 0; i < D; i++) a += VAR[i] * p[i] * rho[i], b += VAR[i] * q[i] * rho[i];
  return a > 0 && b > 0;
}

static void add(const double *a, const double *b, double *out) {
  for (int i = 0; i < D; i++) out[i] = a[i] + b[i];
}

/* a, and b after it; the pick is b's with the probability given. */
static void combine(reference *r, subtree *a, const subtree *b, double log_chance) {
  double rho[D], head[D], tail[D];
  if (log(atvi_math_rng_uniform(&r->rng)) < log_chance) memcpy(a->x, b->x, sizeof a->x);
  add(a->rho, b->rho, rho);
  add(a->rho, b->p_first, head);
  add(b->rho, a->p_last, tail);
  a->good = onward(a->p_first, b->p_last, rho) && onward(a->p_first, b->p_first, head) &&
            onward(a->p_last, b->p_last, tail);
  a->log_weight = log_sum(a->log_weight, b->log_weight);
  memcpy(a->rho, rho, sizeof rho);
  memcpy(a->p_last, b->p_last, sizeof a->p_last);
}

static subtree build(reference *r, int depth, double sign, phase *z) {
  if (depth == 0) {
    double e = sign * r->eps;
    for (int i = 0; i < D; i++) z->p[i] += 0.5 * e * z->g[i], z->x[i] += e * VAR[i] * z->p[i];
    z->log_pi = banana(z->x, z->g);
    for (int i = 0; i < D; i++) z->p[i] += 0.5 * e * z->g[i];
    double h = total(z);
    subtree leaf = {.good = !(h - r->h0 > 1000), .log_weight = r->h0 - h};
    r->steps++;
    r->sum_accept += fmin(1, exp(r->h0 - h));
    r->divergent = r->divergent || !leaf.good;
    memcpy(leaf.x, z->x, sizeof leaf.x);
    memcpy(leaf.rho, z->p, sizeof leaf.rho);
    memcpy(leaf.p_first, z->p, sizeof leaf.rho);
    memcpy(leaf.p_last, z->p, sizeof leaf.rho);
    return leaf;
  }
  subtree a = build(r, depth - 1, sign, z);
  if (!a.good) return a;
  subtree b = build(r, depth - 1, sign, z);
  if (!b.good) return b;
  combine(r, &a, &b, b.log_weight - log_sum(a.log_weight, b.log_weight));
  return a;
}

static void flip(subtree *s) {
  for (int i = 0; i < D; i++) {
    double p = s->p_first[i];
    s->p_first[i] = s->p_last[i];
    s->p_last[i] = p;
  }
}

/* x[D] is replaced by the next state; returns the depth. */
static int transition(reference *r, int max_depth, double *x) {
  phase z, back, fore;
  int depth = 0;
  memcpy(z.x, x, sizeof z.x);
  z.log_pi = banana(z.x, z.g);
  for (int i = 0; i < D; i++) z.p[i] = atvi_math_rng_normal(&r->rng) / sqrt(VAR[i]);
  r->h0 = total(&z);
  back = fore = z;
  subtree whole = {.good = true};
  memcpy(whole.x, x, sizeof whole.x);
  memcpy(whole.rho, z.p, sizeof whole.rho);
  memcpy(whole.p_first, z.p, sizeof whole.rho);
  memcpy(whole.p_last, z.p, sizeof whole.rho);
  while (depth < max_depth && whole.good) {
    bool forward = atvi_math_rng_uniform(&r->rng) > 0.5;
    subtree half = build(r, depth, forward ? 1 : -1, forward ? &fore : &back);
    if (!half.good) break;
    depth++;
    if (!forward) flip(&whole);
    combine(r, &whole, &half, half.log_weight - whole.log_weight);
    if (!forward) flip(&whole);
  }
  memcpy(x, whole.x, sizeof whole.x);
  return depth;
}

static void same_as_recursion(void) {
  static const double eps[] = {0.02, 0.11, 0.35, 0.9};
  int seen[12] = {0}, divergences = 0;
  for (int k = 0; k < 4; k++) {
    holder h = tree_new(7, eps[k]);
    atvi_nuts_tree *t = &h.t;
    double x[D] = {0.483, 0.91}, g[D];
    put_at(t, x[0], x[1]);
    for (uint32_t n = 0; n < 1500; n++) {
      reference r = {.rng = atvi_math_rng_at(7, ATVI_STREAM_TEST, n, (uint32_t)k), .eps = eps[k]};
      t->rng = r.rng;
      int depth = transition(&r, 7, x);
      atvi_infer_nuts_begin(t);
      for (bool done = false; !done;) {
        atvi_nuts_value v = value_at(t->move.x, g);
        done = atvi_infer_nuts_take(t, &v);
      }
      CHECK_INT(t->depth, depth);
      CHECK_INT(t->steps, r.steps);
      CHECK_INT(t->divergent, r.divergent);
      CHECK_REL(t->sum_accept, r.sum_accept, 1e-12);
      CHECK(t->at.x[0] == x[0] && t->at.x[1] == x[1]);
      CHECK(t->at.log_pi == banana(x, g) && t->at.g[0] == g[0] && t->at.g[1] == g[1]);
      seen[depth]++;
      divergences += t->divergent;
    }
    free(h.block);
  }
  for (int depth = 1; depth <= 7; depth++) CHECK_MSG(seen[depth] > 20, "depth %d: %d", depth, seen[depth]);
  CHECK(divergences > 20);
}

/* With error H0 - H at its target the step size stays; too small an acceptance makes it smaller. */
static void dual_averaging_finds_the_acceptance(void) {
  atvi_nuts_dual a;
  atvi_infer_nuts_dual_begin(&a, 0.5);
  CHECK_REL(exp(a.log_eps), 0.5, 1e-15);
  /* acceptance e^-eps: 0.8 at 0.22314 */
  for (int k = 0; k < 4000; k++) atvi_infer_nuts_dual_step(&a, 0.8, exp(-exp(a.log_eps)));
  CHECK_REL(exp(a.log_eps_bar), -log(0.8), 0.02);
  atvi_infer_nuts_dual_begin(&a, 1e-3);
  for (int k = 0; k < 1000; k++) atvi_infer_nuts_dual_step(&a, 0.8, 0);
  CHECK(isfinite(a.log_eps) && exp(a.log_eps) < 1e-9); /* nothing works: it does not run away */
}

TESTS({"reversible", leapfrog_goes_back}, {"order", energy_error_is_of_second_order},
      {"failed", no_density_is_infinite_energy}, {"recursion", same_as_recursion},
      {"dual", dual_averaging_finds_the_acceptance})
