/* SPDX-License-Identifier: MIT */
/* Moves that leave the posterior pi(x) in xi-space as it is, made from the trained mixture q = sum_k s_k q_k.
 *
 * Jump   Metropolis-Hastings with independent proposals from q (components guarded, elbo.h) and, one in
 *        eight, from a t distribution with the location and covariance of the posterior: accepted with
 *        probability min(1, w(x') / w(x)), w = pi / (density of proposals). It takes chains from mode to
 *        mode, in the right proportions. Far out a flow may be wrong by any factor (log pi / q of 1e9 was
 *        seen at a draw in the wide end of a funnel): the t distribution, with two degrees of freedom, keeps
 *        w in bounds there.
 * Local  With x comes a label k, drawn from p(k | x) = s_k q_k(x) / q(x): the joint law pi(x) p(k | x) has pi
 *        for its margin, so that drawing k leaves pi alone, and so does any move of x that leaves pi(x) p(k |
 *        x) alone. This one is Hamiltonian in the component's own coordinates, x = frame_k(f_k(z)): there the
 *        posterior is about standard normal, as far as training got. Leapfrog follows U(z) = log pi(x(z)) +
 *        log |dx/dz|; p(k | x), which is nearly constant where k is likely, enters at the end alone: leapfrog
 *        is reversible and keeps volume whatever force it follows, so that the last test makes it exact.
 *
 * Plain  the same in the coordinates of the component's frame alone, x = frame_k(y). Where the flow was not
 *        trained it distorts: the tails of a banana beyond three standard deviations were all but cut off
 *        without this move and its small steps.
 *
 * Lines  vi_exact_lines.c.
 *
 * Where q has too little mass jumps are hardly ever accepted from there, and the other moves do the work. */
#include "infer/vi_exact.h"
#include "math/rng.h"
#include <math.h>
#include <string.h>

enum { L = ATVI_LANES };
/* Smaller sizes of steps, for the necks of funnels: down to 1 / 81 through the flow, 1 / 16 without. */
enum { FINE = ATVI_REPEATS };
/* Relative, of step sizes: no trajectory closes on itself again and again (Neal 2011, 3.2). */
#define JITTER ATVI_SMALL
#define LENGTH acos(-1) /* of a trajectory, at most: half of a period of the standard normal */
static const uint32_t SHARED = UINT32_MAX / 2; /* numbers that a group shares; above any chain */

static void *work_of(const atvi_exact_moves *s, int worker, atvi_idx k) {
  return s->work[worker * s->n_part + k];
}

static bool has(const int *k, atvi_idx part) {
  for (int i = 0; i < L; i++)
    if (k[i] == part) return true;
  return false;
}

static void take_lanes(atvi_idx rows, const int *k, atvi_idx part, const double *from, double *to) {
  for (int i = 0; i < L; i++)
    if (k[i] == part) atvi_infer_exact_take_lane(rows, i, from, to);
}

static double radius2(atvi_idx d, const double *z, int lane) {
  double sum = 0;
  for (atvi_idx j = 0; j < d; j++) sum += z[j * L + lane] * z[j * L + lane];
  return sum;
}

/* x from z and k. Through the flow, log_own too, and the record of each component stays in its work; else z
 * is in the frame. */
static void push(const atvi_exact_moves *s, atvi_exact_group *g, int worker, atvi_exact_point *p, bool flow) {
  const atvi_family *f = &s->v->family;
  for (atvi_idx k = 0; k < s->n_part; k++) {
    if (!has(p->k, k)) continue;
    const atvi_member *m = &s->v->part[k].at;
    if (flow) {
      f->ops->fwd(f->self, m->phi, work_of(s, worker, k), L, p->z, g->y, g->row[0]);
      take_lanes(1, p->k, k, g->row[0], p->log_own);
    }
    atvi_infer_member_to_frame(m, f->d, L, flow ? g->y : p->z, g->x);
    take_lanes(f->d, p->k, k, g->x, p->x);
  }
}

static void evaluate(const atvi_exact_moves *s, int worker, atvi_exact_point *p) {
  atvi_infer_space_eval_on(s->v->space, worker,
                           &(atvi_space_batch){.B = L,
                                               .x = p->x,
                                               .beta = 1,
                                               .theta = p->theta,
                                               .log_prior = p->log_prior,
                                               .log_lik = p->log_lik,
                                               .log_pi = p->log_pi,
                                               .dx = p->dx});
}

/* log_jump: q and the t distribution. */
static void add_heavy(const atvi_exact_moves *s, atvi_exact_group *g, atvi_exact_point *p) {
  atvi_idx d = s->v->d;
  double half = 0.5 * (double)(ATVI_EXACT_DEGREES + d);
  atvi_infer_member_to_family(&s->spread, d, L, p->x, g->y);
  for (int i = 0; i < L; i++) {
    double t = log(ATVI_SMALL) + s->log_heavy - half * log1p(radius2(d, g->y, i) / ATVI_EXACT_DEGREES);
    double q = log(1 - ATVI_SMALL) + p->log_q[i], top = fmax(t, q);
    p->log_jump[i] = top + log(exp(t - top) + exp(q - top));
  }
}

/* part_q, log_q and log_jump: by the component's own record where x came from it, else by its inverse. */
static void mixture(const atvi_exact_moves *s, atvi_exact_group *g, int worker, atvi_exact_point *p) {
  const atvi_family *f = &s->v->family;
  double *r2 = g->row[0], *log_q = g->row[1];
  for (atvi_idx k = 0; k < s->n_part; k++) {
    const atvi_vi_part *part = &s->v->part[k];
    bool others = false;
    for (int i = 0; i < L; i++) others = others || p->k[i] != k;
    if (others) {
      atvi_infer_member_to_family(&part->at, f->d, L, p->x, g->y);
      f->ops->log_q(f->self, part->at.phi, work_of(s, worker, k), L, g->y, log_q, r2);
    }
    for (int i = 0; i < L; i++) {
      if (p->k[i] != k) continue;
      r2[i] = radius2(f->d, p->z, i);
      log_q[i] = p->log_own[i];
    }
    atvi_infer_guard_add(f->d, L, r2, log_q);
    for (int i = 0; i < L; i++) p->part_q[k * L + i] = log_q[i] - part->at.log_det + log(part->share);
  }
  for (int i = 0; i < L; i++) {
    double top = -HUGE_VAL, sum = 0;
    for (atvi_idx k = 0; k < s->n_part; k++) top = fmax(top, p->part_q[k * L + i]);
    for (atvi_idx k = 0; k < s->n_part; k++) sum += exp(p->part_q[k * L + i] - top);
    p->log_q[i] = s->n_part == 1 ? p->part_q[i] : top + log(sum);
  }
  add_heavy(s, g, p);
}

static void accept(const atvi_exact_moves *s, atvi_exact_group *g, int i) {
  atvi_idx d = s->v->d;
  atvi_exact_point *a = &g->now;
  const atvi_exact_point *b = &g->next;
  atvi_infer_exact_take_lane(d, i, b->x, a->x);
  atvi_infer_exact_take_lane(d, i, b->theta, a->theta);
  atvi_infer_exact_take_lane(d, i, b->dx, a->dx);
  atvi_infer_exact_take_lane(d, i, b->z, a->z);
  atvi_infer_exact_take_lane(1, i, b->log_prior, a->log_prior);
  atvi_infer_exact_take_lane(1, i, b->log_lik, a->log_lik);
  atvi_infer_exact_take_lane(1, i, b->log_pi, a->log_pi);
  atvi_infer_exact_take_lane(s->n_part, i, b->part_q, a->part_q);
  atvi_infer_exact_take_lane(1, i, b->log_q, a->log_q);
  atvi_infer_exact_take_lane(1, i, b->log_jump, a->log_jump);
  atvi_infer_exact_take_lane(1, i, b->log_own, a->log_own);
  a->k[i] = b->k[i];
}

/* Probability of acceptance; NaN (both impossible, or lost) is 0. */
static double chance(double log_ratio) { return log_ratio > 0 ? 1 : log_ratio <= 0 ? exp(log_ratio) : 0; }

/* Base points of the labels, by the inverse, where the labels are known and x is new. */
static void invert(const atvi_exact_moves *s, atvi_exact_group *g, int worker, atvi_exact_point *p) {
  const atvi_family *f = &s->v->family;
  for (atvi_idx k = 0; k < s->n_part; k++) {
    if (!has(p->k, k)) continue;
    atvi_infer_member_to_family(&s->v->part[k].at, f->d, L, p->x, g->y);
    f->ops->inv(f->self, s->v->part[k].at.phi, work_of(s, worker, k), L, g->y, g->x);
    take_lanes(f->d, p->k, k, g->x, p->z);
  }
}

/* Where no base point gave x: the component that most likely gives it, and the base point of that. */
static void find_labels(const atvi_exact_moves *s, atvi_exact_group *g, int worker, atvi_exact_point *p) {
  bool none = true;
  for (int i = 0; i < L; i++) {
    if (p->k[i] >= 0) continue;
    none = false;
    p->k[i] = 0;
    for (int k = 1; k < s->n_part; k++)
      if (p->part_q[k * L + i] > p->part_q[p->k[i] * L + i]) p->k[i] = k;
  }
  if (!none) invert(s, g, worker, p);
}

/* ---- jump ---- */

static int pick_by_share(const atvi_exact_moves *s, double u) {
  atvi_idx k = 0;
  for (; k < s->n_part - 1 && u > s->v->part[k].share; k++) u -= s->v->part[k].share;
  return (int)k;
}

/* A draw of the t distribution: k is -1, as no base point gave x. */
static void draw_heavy(const atvi_exact_moves *s, atvi_exact_point *p, int i, atvi_rng *r) {
  atvi_idx d = s->v->d;
  double by =
      1 / sqrt(-log(atvi_math_rng_uniform(r))); /* half of chi squared with two degrees is exponential */
  p->k[i] = -1;
  for (atvi_idx j = 0; j < d; j++) p->x[j * L + i] = s->spread.shift[j];
  for (atvi_idx k = 0; k < d; k++) {
    double y = by * atvi_math_rng_normal(r);
    for (atvi_idx j = k; j < d; j++) p->x[j * L + i] += s->spread.chol[j * d + k] * y;
  }
}

static void draw(const atvi_exact_moves *s, atvi_exact_group *g, int worker, atvi_rng *r) {
  atvi_idx d = s->v->d;
  atvi_exact_point *p = &g->next;
  double wide = sqrt(atvi_infer_guard_scale2(d));
  bool heavy[L];
  for (int i = 0; i < L; i++) {
    heavy[i] = atvi_math_rng_uniform(&r[i]) < ATVI_SMALL;
    p->k[i] = heavy[i] ? -1 : pick_by_share(s, atvi_math_rng_uniform(&r[i]));
    double by = atvi_math_rng_uniform(&r[i]) * ATVI_GUARD < 1 ? wide : 1;
    for (atvi_idx j = 0; j < d; j++) p->z[j * L + i] = by * atvi_math_rng_normal(&r[i]);
  }
  push(s, g, worker, p, true);
  for (int i = 0; i < L; i++)
    if (heavy[i]) draw_heavy(s, p, i, &r[i]);
}

static void jump(const atvi_exact_moves *s, atvi_exact_group *g, int worker, atvi_rng *r) {
  atvi_exact_point *p = &g->next;
  draw(s, g, worker, r);
  evaluate(s, worker, p);
  mixture(s, g, worker, p);
  find_labels(s, g, worker, p);
  for (int i = 0; i < L; i++) {
    double a = chance(p->log_pi[i] - p->log_jump[i] - (g->now.log_pi[i] - g->now.log_jump[i]));
    g->jumped += a;
    g->jumps++;
    if (atvi_math_rng_uniform(&r[i]) < a) accept(s, g, i);
  }
}

/* ---- local ---- */

/* Labels of the present points, by p(k | x), and the base points that go with them. */
static void label(const atvi_exact_moves *s, atvi_exact_group *g, int worker, atvi_rng *r) {
  const atvi_family *f = &s->v->family;
  atvi_exact_point *p = &g->now;
  int old[L];
  if (s->n_part == 1) return;
  memcpy(old, p->k, sizeof old);
  for (int i = 0; i < L; i++) {
    double u = atvi_math_rng_uniform(&r[i]);
    atvi_idx k = 0;
    for (; k < s->n_part - 1; k++) {
      double share = exp(p->part_q[k * L + i] - p->log_q[i]);
      if (u <= share) break;
      u -= share;
    }
    p->k[i] = (int)k;
  }
  for (atvi_idx k = 0; k < s->n_part; k++) {
    bool any = false;
    for (int i = 0; i < L; i++) any = any || (p->k[i] == k && old[i] != k);
    if (!any) continue;
    atvi_infer_member_to_family(&s->v->part[k].at, f->d, L, p->x, g->y);
    f->ops->inv(f->self, s->v->part[k].at.phi, work_of(s, worker, k), L, g->y, g->x);
    for (int i = 0; i < L; i++)
      if (p->k[i] == k && old[i] != k) atvi_infer_exact_take_lane(f->d, i, g->x, p->z);
  }
}

/* Densities and base points at next.x, which no base point gave, with labels k. */
static void arrive(const atvi_exact_moves *s, atvi_exact_group *g, int worker, const int *k) {
  atvi_exact_point *p = &g->next;
  for (int i = 0; i < L; i++) p->k[i] = -1;
  mixture(s, g, worker, p);
  memcpy(p->k, k, sizeof p->k);
  invert(s, g, worker, p);
}

/* dz of log pi(x(z)) + log |dx/dz| after push; log |dx/dz| = log N(z) - log q(x(z)), constant in the frame.
 * */
static void force(const atvi_exact_moves *s, atvi_exact_group *g, int worker, const atvi_exact_point *p,
                  bool flow) {
  const atvi_family *f = &s->v->family;
  for (int i = 0; i < L; i++) g->row[0][i] = -1;
  for (atvi_idx k = 0; k < s->n_part; k++) {
    if (!has(p->k, k)) continue;
    const atvi_member *m = &s->v->part[k].at;
    memcpy(g->x, p->dx, (size_t)(f->d * L) * sizeof *g->x);
    ATVI_ASSERT(m->bend.n == 0); /* bends are for many coordinates, where this sampler is not used */
    atvi_infer_member_adjoint(m, f->d, L, NULL, g->x);
    if (flow) f->ops->pull(f->self, m->phi, work_of(s, worker, k), g->x, g->row[0], g->y);
    take_lanes(f->d, p->k, k, flow ? g->y : g->x, g->dz);
  }
  for (atvi_idx j = 0; flow && j < f->d * L; j++) g->dz[j] -= p->z[j];
}

static double energy(const atvi_exact_point *p, const double *momentum, atvi_idx d, int i, int k, bool flow) {
  double label = p->part_q[k * L + i] - p->log_q[i];
  double volume = flow ? 0.5 * radius2(d, p->z, i) + p->log_own[i] : 0;
  return volume - p->log_pi[i] - label + 0.5 * radius2(d, momentum, i);
}

static void kick(atvi_idx d, const double *eps, double by, const double *dz, double *p) {
  for (atvi_idx j = 0; j < d; j++)
    for (int i = 0; i < L; i++) p[j * L + i] += by * eps[i] * dz[j * L + i];
}

/* Size and number of leaps, which a group has in common. Three of four moves take the steps that were
 * adapted, and any number of leaps up to what LENGTH needs. The others take smaller steps, down to 1 / 81:
 * where the posterior is much narrower than the component thinks (necks of funnels) jumps and long steps are
 * refused, and nothing else would move. Neither depends on the state but through the labels, which a local
 * move does not change. Without the flow half of the moves take steps down to 1 / 16. */
typedef struct {
  double by;
  int n;
} stride;

static stride stride_of(const atvi_exact_moves *s, const atvi_exact_point *p, bool flow, atvi_rng *r) {
  if (!flow) {
    int n = 1 + (int)(atvi_math_rng_uniform(r) * s->leaps);
    double fine = 2 * FINE * atvi_math_rng_uniform(r);
    return (stride){fine < FINE ? pow(2, -1 - (int)fine) : 1, n};
  }
  double step = HUGE_VAL, u = 4 * FINE * atvi_math_rng_uniform(r);
  int most, down = u < FINE ? 1 + (int)u : 0;
  for (atvi_idx k = 0; k < s->n_part; k++)
    if (has(p->k, k)) step = fmin(step, s->step[k]);
  most = down > 0 ? s->leaps : (int)fmax(1, fmin(ceil(LENGTH / step), s->leaps));
  return (stride){pow(3, -down), 1 + (int)(atvi_math_rng_uniform(r) * most)};
}

/* next.z and k, where the move begins. */
static void begin_local(const atvi_exact_moves *s, atvi_exact_group *g, int worker, bool flow) {
  atvi_exact_point *p = &g->next;
  atvi_idx d = s->v->d;
  memcpy(p->k, g->now.k, sizeof p->k);
  if (flow) { /* for the record that force needs; x stays as it is to the last digit, however far out */
    memcpy(p->x, g->now.x, (size_t)(d * L) * sizeof *p->x);
    push(s, g, worker, &g->now, true);
    memcpy(g->now.x, p->x, (size_t)(d * L) * sizeof *p->x);
    memcpy(p->z, g->now.z, (size_t)(d * L) * sizeof *p->z);
    return;
  }
  for (atvi_idx k = 0; k < s->n_part; k++) {
    if (!has(p->k, k)) continue;
    atvi_infer_member_to_family(&s->v->part[k].at, d, L, g->now.x, g->y);
    take_lanes(d, p->k, k, g->y, p->z);
  }
}

/* Through the flow, or in the coordinates of the frame: what the flow distorts where it was not trained is in
 * reach from there. */
static void local(const atvi_exact_moves *s, atvi_exact_group *g, int worker, bool flow, atvi_rng *r,
                  atvi_rng *shared) {
  atvi_idx d = s->v->d, kind = flow ? 0 : s->n_part;
  atvi_exact_point *p = &g->next;
  double eps[L], before[L];
  label(s, g, worker, r);
  stride how = stride_of(s, &g->now, flow, shared);
  begin_local(s, g, worker, flow);
  force(s, g, worker, &g->now, flow);
  for (int i = 0; i < L; i++) {
    for (atvi_idx j = 0; j < d; j++) g->p[j * L + i] = atvi_math_rng_normal(&r[i]);
    eps[i] = how.by * s->step[kind + p->k[i]] * (1 + JITTER * (2 * atvi_math_rng_uniform(&r[i]) - 1));
    before[i] = energy(&g->now, g->p, d, i, p->k[i], flow);
  }
  for (int leap = 1; leap <= how.n; leap++) {
    kick(d, eps, leap == 1 ? 0.5 : 1, g->dz, g->p);
    kick(d, eps, 1, g->p, p->z);
    push(s, g, worker, p, flow);
    evaluate(s, worker, p);
    force(s, g, worker, p, flow);
  }
  kick(d, eps, 0.5, g->dz, g->p);
  if (flow)
    mixture(s, g, worker, p);
  else
    arrive(s, g, worker, g->now.k);
  for (int i = 0; i < L; i++) {
    atvi_idx k = p->k[i];
    double a = chance(before[i] - energy(p, g->p, d, i, (int)k, flow));
    g->accepted[kind + k] += how.by == 1 ? a : 0;
    g->tried[kind + k] += how.by == 1;
    if (atvi_math_rng_uniform(&r[i]) < a) accept(s, g, i);
  }
}

/* ---- along lines ---- */

static void along_lines(const atvi_exact_moves *s, atvi_exact_group *g, int worker, atvi_rng *r) {
  atvi_exact_point *p = &g->next;
  atvi_infer_exact_lines(s, g, worker, r);
  evaluate(s, worker, p);
  arrive(s, g, worker, g->now.k);
  for (int i = 0; i < L; i++)
    if (isfinite(p->log_pi[i])) accept(s, g, i);
}

/* ---- all ---- */

static void make_point(atvi_pool *pool, atvi_idx d, atvi_idx n_part, atvi_exact_point *p) {
  double **wide[] = {&p->x, &p->theta, &p->dx, &p->z};
  double **row[] = {&p->log_prior, &p->log_lik, &p->log_pi, &p->log_q, &p->log_jump, &p->log_own};
  for (size_t k = 0; k < sizeof wide / sizeof *wide; k++)
    *wide[k] = atvi_pool_take(pool, (size_t)(d * L), sizeof(double));
  for (size_t k = 0; k < sizeof row / sizeof *row; k++) *row[k] = atvi_pool_take(pool, L, sizeof(double));
  p->part_q = atvi_pool_take(pool, (size_t)(n_part * L), sizeof(double));
}

bool atvi_infer_exact_group_make(atvi_pool *pool, atvi_idx d, atvi_idx n_part, atvi_exact_group *g) {
  double **wide[] = {&g->p, &g->dz, &g->x, &g->y};
  make_point(pool, d, n_part, &g->now);
  make_point(pool, d, n_part, &g->next);
  for (size_t k = 0; k < sizeof wide / sizeof *wide; k++)
    *wide[k] = atvi_pool_take(pool, (size_t)(d * L), sizeof(double));
  g->row[0] = atvi_pool_take(pool, L, sizeof(double));
  g->row[1] = atvi_pool_take(pool, L, sizeof(double));
  g->accepted = atvi_pool_take(pool, 2 * (size_t)n_part, sizeof(double));
  g->tried = atvi_pool_take(pool, 2 * (size_t)n_part, sizeof(double));
  return !atvi_pool_failed(pool);
}

atvi_status atvi_infer_exact_open(atvi_vi *v, atvi_exact_moves *s) {
  atvi_idx n_part = v->n_part, n = n_part * atvi_ctx_threads(v->ctx);
  s->v = v;
  s->n_part = n_part;
  s->leaps = ATVI_EXACT_LEAPS;
  s->step = atvi_pool_take(v->pool, 2 * (size_t)n_part, sizeof *s->step);
  s->work = atvi_pool_take(v->pool, (size_t)n, sizeof *s->work);
  if (atvi_pool_failed(v->pool)) return ATVI_ENOMEM;
  for (atvi_idx k = 0; k < 2 * n_part; k++) s->step[k] = pow((double)v->d, -0.25);
  for (atvi_idx k = 0; k < n; k++) ATVI_TRY(v->family.ops->work_new(v->family.self, v->ctx, L, &s->work[k]));
  return ATVI_OK;
}

void atvi_infer_exact_close(atvi_exact_moves *s) {
  for (atvi_idx k = 0; s->work && k < s->n_part * atvi_ctx_threads(s->v->ctx); k++)
    if (s->work[k]) s->v->family.ops->work_free(s->work[k]);
}

void atvi_infer_exact_place(const atvi_exact_moves *s, atvi_exact_group *g, int worker, const double *x) {
  const atvi_family *f = &s->v->family;
  atvi_exact_point *p = &g->now;
  memcpy(p->x, x, (size_t)(f->d * L) * sizeof *p->x);
  for (int i = 0; i < L; i++) p->k[i] = -1; /* none of them is known: all densities by the inverse */
  mixture(s, g, worker, p);
  find_labels(s, g, worker, p);
  evaluate(s, worker, p);
}

void atvi_infer_exact_step(const atvi_exact_moves *s, atvi_exact_group *g, int worker, uint32_t iteration) {
  atvi_rng r[L];
  uint64_t seed = s->v->opts.seed;
  for (int i = 0; i < L; i++)
    r[i] = atvi_math_rng_at(seed, ATVI_STREAM_EXACT, iteration, g->chain + (uint32_t)i);
  atvi_rng shared = atvi_math_rng_at(seed, ATVI_STREAM_EXACT, iteration, SHARED + g->chain);
  if (!s->stays) jump(s, g, worker, r);
  local(s, g, worker, atvi_math_rng_uniform(&shared) >= 0.5, r, &shared);
  if (s->lines > 0) along_lines(s, g, worker, r);
}

void atvi_infer_exact_adapt(const atvi_exact_moves *s, atvi_idx n, atvi_exact_group *g, int round,
                            double wanted, double *log_step) {
  for (atvi_idx k = 0; k < 2 * s->n_part; k++) {
    double sum = 0, tried = 0;
    for (atvi_idx i = 0; i < n; i++) {
      sum += g[i].accepted[k];
      tried += g[i].tried[k];
      g[i].accepted[k] = g[i].tried[k] = 0;
    }
    if (tried > 0) log_step[k] = fmin(log_step[k] + 2 / sqrt(1.0 + round) * (sum / tried - wanted), log(2.0));
  }
}
