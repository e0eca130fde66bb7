/* SPDX-License-Identifier: MIT */
/* One transition of the No-U-Turn sampler, built leaf by leaf.
 *
 * Hamiltonian  H(x, p) = -log pi(x) + p^T diag(var) p / 2; leapfrog steps of size eps; velocity v = var p.
 * Trajectory   doubled in a random direction of time until it turns, a subtree turns, a step diverges (H - H0
 *              > 1000 or no density), or max_depth is reached. A subtree that turned or diverged is not used
 *              at all.
 * Turning      (Betancourt 2017, appendix A.4.2) a stretch with sum of momenta rho goes on while v . rho > 0
 *              at both ends. When two stretches a, b are joined this is asked of the whole, of a with the
 *              first leaf of b, and of b with the last leaf of a: without the last two a trajectory that
 *              closes a circle just between two doublings goes round and round (Stan since 2.21).
 * Choice       inside a subtree a leaf is taken with probability proportional to e^-H; between the old
 *              trajectory and its new half the new one is preferred: min(1, W_new / W_old) (biased
 *              progressive sampling).
 * No recursion leaves come in order of time; a stack holds complete subtrees of falling sizes, as the ones of
 *              a binary counter. A leaf is pushed, and as long as the two topmost are of equal size they are
 *              joined: the same joins in the same order as in the recursive form, with max_depth + 1 nodes in
 *              memory. Between two leaves the function returns: the gradient comes from outside, for several
 *              chains at once.
 * Direction    the trajectory always grows at its end 1; to grow at the other, the ends are exchanged. The
 *              criteria are the same from both sides. */
#include "infer/nuts_tree.h"
#include "infer/vi_tuning.h"
#include <math.h>
#include <string.h>

#define DIVERGES 1000.0 /* nats of energy error, as in Stan */
/* Dual averaging as in Stan (Hoffman & Gelman 2014, 3.2): shrinkage to mu, iterations that count little,
 * forgetting. */
#define GAMMA 0.05
#define T0 10.0
#define KAPPA 0.75

/* ---- memory ---- */

static void carve_place(atvi_arena *a, atvi_nuts_place *q, atvi_idx d) {
  ATVI_TAKE(a, q->x, d);
  ATVI_TAKE(a, q->g, d);
  ATVI_TAKE(a, q->theta, d);
}

static void carve_node(atvi_arena *a, atvi_nuts_node *n, atvi_idx d) {
  ATVI_TAKE(a, n->rho, d);
  for (int k = 0; k < 2; k++) {
    ATVI_TAKE(a, n->p[k], d);
    ATVI_TAKE(a, n->v[k], d);
  }
  carve_place(a, &n->pick, d);
}

static void carve_phase(atvi_arena *a, atvi_nuts_phase *z, atvi_idx d) {
  ATVI_TAKE(a, z->x, d);
  ATVI_TAKE(a, z->p, d);
  ATVI_TAKE(a, z->g, d);
}

void atvi_infer_nuts_tree_carve(atvi_arena *a, atvi_nuts_tree *t, atvi_idx d, int max_depth) {
  t->d = d;
  t->max_depth = max_depth;
  carve_place(a, &t->at, d);
  carve_phase(a, &t->move, d);
  carve_phase(a, &t->end[0], d);
  carve_phase(a, &t->end[1], d);
  carve_node(a, &t->whole, d);
  ATVI_TAKE(a, t->stack, max_depth + 1);
  for (int k = 0; k <= max_depth; k++) {
    atvi_nuts_node n = {0};
    carve_node(a, &n, d);
    if (a->base) t->stack[k] = n;
  }
}

static void place_state(atvi_nuts_place *q, size_t bytes, atvi_state *s) {
  double *row[] = {q->x, q->g, q->theta}, *number[] = {&q->log_pi, &q->log_prior, &q->log_lik, &q->energy};
  for (int k = 0; k < 3; k++) atvi_io_state(s, row[k], bytes);
  for (int k = 0; k < 4; k++) ATVI_STATE(s, *number[k]);
}

static void node_state(atvi_nuts_node *n, size_t bytes, atvi_state *s) {
  double *row[] = {n->rho, n->p[0], n->p[1], n->v[0], n->v[1]};
  for (int k = 0; k < 5; k++) atvi_io_state(s, row[k], bytes);
  ATVI_STATE(s, n->log_weight);
  place_state(&n->pick, bytes, s);
}

void atvi_infer_nuts_tree_state(atvi_nuts_tree *t, atvi_state *s) {
  size_t bytes = (size_t)t->d * sizeof(double);
  int *number[] = {&t->max_depth, &t->sign, &t->n_stack, &t->depth, &t->steps};
  atvi_nuts_phase *phase[] = {&t->move, &t->end[0], &t->end[1]};
  for (int k = 0; k < 5; k++) ATVI_STATE(s, *number[k]);
  ATVI_STATE(s, t->eps);
  ATVI_STATE(s, t->rng);
  ATVI_STATE(s, t->h0);
  ATVI_STATE(s, t->leaves);
  ATVI_STATE(s, t->sum_accept);
  ATVI_STATE(s, t->divergent);
  place_state(&t->at, bytes, s);
  for (int k = 0; k < 3; k++) {
    atvi_io_state(s, phase[k]->x, bytes);
    atvi_io_state(s, phase[k]->p, bytes);
    atvi_io_state(s, phase[k]->g, bytes);
  }
  node_state(&t->whole, bytes, s);
  for (int k = 0; k < t->n_stack; k++) node_state(&t->stack[k], bytes, s);
}

/* ---- pieces ---- */

static void copy(atvi_idx d, double *to, const double *from) { memcpy(to, from, (size_t)d * sizeof *to); }

static void swap(double **a, double **b) {
  double *c = *a;
  *a = *b;
  *b = c;
}

static void copy_phase(atvi_idx d, atvi_nuts_phase *to, const atvi_nuts_phase *from) {
  copy(d, to->x, from->x);
  copy(d, to->p, from->p);
  copy(d, to->g, from->g);
}

void atvi_infer_nuts_place_copy(atvi_idx d, atvi_nuts_place *to, const atvi_nuts_place *from) {
  copy(d, to->x, from->x);
  copy(d, to->g, from->g);
  copy(d, to->theta, from->theta);
  to->log_pi = from->log_pi;
  to->log_prior = from->log_prior;
  to->log_lik = from->log_lik;
  to->energy = from->energy;
}

static void swap_places(atvi_nuts_place *a, atvi_nuts_place *b) {
  atvi_nuts_place c = *a;
  *a = *b;
  *b = c;
}

static double log_add(double a, double b) {
  double high = fmax(a, b), low = fmin(a, b);
  return low > -HUGE_VAL ? high + log1p(exp(low - high)) : high;
}

static double kinetic(const atvi_nuts_tree *t, const double *p) {
  double sum = 0;
  for (atvi_idx i = 0; i < t->d; i++) sum += t->var[i] * p[i] * p[i];
  return 0.5 * sum;
}

void atvi_infer_nuts_leap(atvi_nuts_tree *t) {
  double e = t->sign * t->eps;
  atvi_nuts_phase *z = &t->move;
  for (atvi_idx i = 0; i < t->d; i++) {
    z->p[i] += 0.5 * e * z->g[i];
    z->x[i] += e * t->var[i] * z->p[i];
  }
}

double atvi_infer_nuts_land(atvi_nuts_tree *t, const atvi_nuts_value *v) {
  double e = t->sign * t->eps;
  atvi_nuts_phase *z = &t->move;
  if (!(v->log_pi > -HUGE_VAL)) return HUGE_VAL;
  for (atvi_idx i = 0; i < t->d; i++) {
    z->g[i] = v->g[i * v->stride];
    z->p[i] += 0.5 * e * z->g[i];
  }
  double h = kinetic(t, z->p) - v->log_pi;
  return isnan(h) ? HUGE_VAL : h;
}

static void draw_momentum(atvi_nuts_tree *t) {
  for (atvi_idx i = 0; i < t->d; i++) t->move.p[i] = atvi_math_rng_normal(&t->rng) / sqrt(t->var[i]);
  copy(t->d, t->move.x, t->at.x);
  copy(t->d, t->move.g, t->at.g);
  t->h0 = kinetic(t, t->move.p) - t->at.log_pi;
}

/* A node of one leaf, the point where the leapfrog is. */
static void make_leaf(const atvi_nuts_tree *t, atvi_nuts_node *n) {
  copy(t->d, n->rho, t->move.p);
  for (int k = 0; k < 2; k++) {
    copy(t->d, n->p[k], t->move.p);
    for (atvi_idx i = 0; i < t->d; i++) n->v[k][i] = t->var[i] * t->move.p[i];
  }
}

/* Whether the stretch a and then b, which follows it, does not turn. */
static bool straight(atvi_idx d, const atvi_nuts_node *a, const atvi_nuts_node *b) {
  double whole[2] = {0}, into_b[2] = {0}, from_a[2] = {0};
  for (atvi_idx i = 0; i < d; i++) {
    double rho = a->rho[i] + b->rho[i], head = a->rho[i] + b->p[0][i], tail = b->rho[i] + a->p[1][i];
    whole[0] += a->v[0][i] * rho;
    whole[1] += b->v[1][i] * rho;
    into_b[0] += a->v[0][i] * head;
    into_b[1] += b->v[0][i] * head;
    from_a[0] += a->v[1][i] * tail;
    from_a[1] += b->v[1][i] * tail;
  }
  return whole[0] > 0 && whole[1] > 0 && into_b[0] > 0 && into_b[1] > 0 && from_a[0] > 0 && from_a[1] > 0;
}

/* Makes a the stretch a and b. The new pick is b's with probability e^log_chance. Returns whether it does not
 * turn. */
static bool join(atvi_nuts_tree *t, atvi_nuts_node *a, atvi_nuts_node *b, double log_chance) {
  if (log(atvi_math_rng_uniform(&t->rng)) < log_chance) swap_places(&a->pick, &b->pick);
  bool on = straight(t->d, a, b);
  for (atvi_idx i = 0; i < t->d; i++) a->rho[i] += b->rho[i];
  swap(&a->p[1], &b->p[1]);
  swap(&a->v[1], &b->v[1]);
  a->log_weight = log_add(a->log_weight, b->log_weight);
  return on;
}

/* ---- the transition ---- */

/* Chooses the direction of the next doubling and asks for its first point. */
static void begin_subtree(atvi_nuts_tree *t) {
  int sign = atvi_math_rng_uniform(&t->rng) > 0.5 ? 1 : -1;
  if (sign != t->sign) {
    atvi_nuts_phase z = t->end[0];
    t->end[0] = t->end[1];
    t->end[1] = z;
    swap(&t->whole.p[0], &t->whole.p[1]);
    swap(&t->whole.v[0], &t->whole.v[1]);
    t->sign = sign;
  }
  t->n_stack = 0;
  t->leaves = 0;
  copy_phase(t->d, &t->move, &t->end[1]);
  atvi_infer_nuts_leap(t);
}

static bool finish(atvi_nuts_tree *t) {
  swap_places(&t->at, &t->whole.pick);
  return true;
}

void atvi_infer_nuts_begin(atvi_nuts_tree *t) {
  draw_momentum(t);
  t->sign = 1;
  t->depth = t->steps = 0;
  t->sum_accept = 0;
  t->divergent = false;
  make_leaf(t, &t->whole);
  t->whole.log_weight = 0;
  atvi_infer_nuts_place_copy(t->d, &t->whole.pick, &t->at);
  t->whole.pick.energy = t->h0;
  copy_phase(t->d, &t->end[0], &t->move);
  copy_phase(t->d, &t->end[1], &t->move);
  begin_subtree(t);
}

static void push_leaf(atvi_nuts_tree *t, const atvi_nuts_value *v, double h) {
  atvi_nuts_node *n = &t->stack[t->n_stack++];
  make_leaf(t, n);
  n->log_weight = t->h0 - h;
  copy(t->d, n->pick.x, t->move.x);
  copy(t->d, n->pick.g, t->move.g);
  for (atvi_idx i = 0; i < t->d; i++) n->pick.theta[i] = v->theta[i * v->stride];
  n->pick.log_pi = v->log_pi;
  n->pick.log_prior = v->log_prior;
  n->pick.log_lik = v->log_lik;
  n->pick.energy = h;
  t->leaves++;
}

bool atvi_infer_nuts_take(atvi_nuts_tree *t, const atvi_nuts_value *v) {
  double h = atvi_infer_nuts_land(t, v);
  t->steps++;
  t->sum_accept += h > t->h0 ? exp(t->h0 - h) : 1;
  t->divergent = h - t->h0 > DIVERGES;
  if (t->divergent) return finish(t);
  push_leaf(t, v, h);
  for (uint32_t k = t->leaves; k % 2 == 0; k /= 2) {
    atvi_nuts_node *a = &t->stack[t->n_stack - 2], *b = a + 1;
    double log_chance = b->log_weight - log_add(a->log_weight, b->log_weight);
    t->n_stack--;
    if (!join(t, a, b, log_chance)) return finish(t);
  }
  if (t->leaves < (uint32_t)1 << t->depth) {
    atvi_infer_nuts_leap(t);
    return false;
  }
  atvi_nuts_node *half = &t->stack[0];
  copy_phase(t->d, &t->end[1], &t->move);
  t->depth++;
  bool on = join(t, &t->whole, half, half->log_weight - t->whole.log_weight);
  if (!on || t->depth == t->max_depth) return finish(t);
  begin_subtree(t);
  return false;
}

void atvi_infer_nuts_try(atvi_nuts_tree *t) {
  draw_momentum(t);
  t->sign = 1;
  atvi_infer_nuts_leap(t);
}

double atvi_infer_nuts_tried(atvi_nuts_tree *t, const atvi_nuts_value *v) {
  return t->h0 - atvi_infer_nuts_land(t, v);
}

/* ---- step size ---- */

void atvi_infer_nuts_dual_begin(atvi_nuts_dual *a, double eps) {
  *a = (atvi_nuts_dual){.mu = log(10 * eps), .log_eps = log(eps), .log_eps_bar = 0};
}

void atvi_infer_nuts_dual_step(atvi_nuts_dual *a, double wanted, double accept) {
  a->count++;
  double eta = 1 / (a->count + T0), weight = pow(a->count, -KAPPA);
  a->error_bar = (1 - eta) * a->error_bar + eta * (wanted - accept);
  a->log_eps = a->mu - a->error_bar * sqrt(a->count) / GAMMA;
  a->log_eps = fmin(fmax(a->log_eps, -ATVI_FOLDS), ATVI_FOLDS);
  a->log_eps_bar = (1 - weight) * a->log_eps_bar + weight * a->log_eps;
}
