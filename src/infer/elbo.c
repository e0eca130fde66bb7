/* SPDX-License-Identifier: MIT */
#include "infer/elbo.h"
#include "infer/vi_tuning.h"
#include "math/rng.h"
#include "math/sobol.h"
#include "math/stat/stat.h"
#include <math.h>
#include <string.h>

/* Draws per part, whatever the number of threads. Parts of 8 keep twice as many threads busy, but cost a flow
 * more per draw (7 % of a fit to the common cold), so that they are for runs that cost much more than the
 * flow. */
enum { GRAD_PART = 2 * ATVI_LANES, DEAR_PART = ATVI_LANES, DRAW_PART = ATVI_BATCH / 2 };
#define SERIAL_S 1e-4 /* time: seconds of a job that is not worth waking other threads */

typedef struct {
  void *work;                   /* of the family */
  double *z;                    /* [n_base][DRAW_PART] */
  double *y, *x, *theta, *dx;   /* [d][DRAW_PART] */
  double *log_q, *row[4], *dq;  /* [DRAW_PART] */
  double *radius2, *log_member; /* [DRAW_PART] */
} seat;

typedef struct {
  double sum, sum_sq, good;
  double busy_s;
} part_sum;

struct atvi_elbo {
  atvi_ctx *ctx;
  const atvi_space *space;
  const atvi_family *family;
  uint64_t seed;
  bool plain;
  atvi_idx batch, most; /* draws per gradient, now and at most */
  int n_seat;
  seat *seat;          /* [n_seat] */
  atvi_idx part_draws; /* of a gradient, where the model is run */
  atvi_idx n_part;     /* of the last batch */
  double *grad;        /* [n_part][size] */
  part_sum *part;      /* [n_part] */
  double busy_s;       /* what the last gradient took, summed over threads */
  double *norm;        /* [batch] length of the gradient of log pi at each draw; 0 where it failed */
  double *sorted;      /* [3][batch] */
  double limit;        /* for these lengths, from the last batch */
  double outlier;      /* times the ninth decile of these lengths */
};

static atvi_idx part_size(const atvi_target *t) {
  return t->operations > ATVI_VI_DEAR && t->group <= DEAR_PART ? DEAR_PART : GRAD_PART;
}

/* Without runs of the model larger parts serve the flow. */
static atvi_idx part_now(const atvi_elbo *e) { return e->space->stand_in ? GRAD_PART : e->part_draws; }

static atvi_elbo *carve(atvi_arena *a, const atvi_family *f, int n_seat, atvi_idx n_part, atvi_idx batch) {
  atvi_elbo *e, head = {.n_seat = n_seat, .n_part = n_part};
  ATVI_TAKE(a, e, 1);
  ATVI_TAKE(a, head.seat, n_seat);
  for (int i = 0; i < n_seat; i++) {
    seat s = {0};
    ATVI_TAKE(a, s.z, f->n_base * DRAW_PART);
    ATVI_TAKE(a, s.y, f->d * DRAW_PART);
    ATVI_TAKE(a, s.x, f->d * DRAW_PART);
    ATVI_TAKE(a, s.theta, f->d * DRAW_PART);
    ATVI_TAKE(a, s.dx, f->d * DRAW_PART);
    ATVI_TAKE(a, s.log_q, DRAW_PART);
    for (int k = 0; k < 4; k++) ATVI_TAKE(a, s.row[k], DRAW_PART);
    ATVI_TAKE(a, s.dq, DRAW_PART);
    ATVI_TAKE(a, s.radius2, DRAW_PART);
    ATVI_TAKE(a, s.log_member, DRAW_PART);
    if (e) head.seat[i] = s;
  }
  ATVI_TAKE(a, head.grad, n_part * f->size);
  ATVI_TAKE(a, head.part, n_part);
  ATVI_TAKE(a, head.norm, batch);
  ATVI_TAKE(a, head.sorted, 3 * batch);
  if (e) *e = head;
  return e;
}

atvi_status atvi_infer_elbo_new(atvi_ctx *ctx, const atvi_space *space, const atvi_family *family,
                                uint64_t seed, bool plain, atvi_idx batch, atvi_elbo **out) {
  *out = NULL;
  int n = atvi_ctx_threads(ctx);
  const atvi_idx part = part_size(space->target), n_part = (batch + part - 1) / part;
  atvi_arena a = {0};
  carve(&a, family, n, n_part, batch);
  a = (atvi_arena){.base = atvi_block(ctx, a.used)};
  if (!a.base) return ATVI_ENOMEM;
  atvi_elbo *e = carve(&a, family, n, n_part, batch);
  e->ctx = ctx;
  e->space = space;
  e->family = family;
  e->seed = seed;
  e->part_draws = part;
  e->plain = plain;
  e->batch = e->most = batch;
  e->busy_s = HUGE_VAL;
  e->limit = HUGE_VAL;
  e->outlier = HUGE_VAL;
  for (int i = 0; i < n; i++) {
    atvi_status status = family->ops->work_new(family->self, ctx, DRAW_PART, &e->seat[i].work);
    if (status != ATVI_OK) {
      e->seat[i].work = NULL;
      atvi_infer_elbo_free(e);
      return status;
    }
  }
  *out = e;
  return ATVI_OK;
}

void atvi_infer_elbo_free(atvi_elbo *e) {
  if (!e) return;
  for (int i = 0; i < e->n_seat; i++)
    if (e->seat[i].work) e->family->ops->work_free(e->seat[i].work);
  atvi_block_free(e->ctx, e);
}

void atvi_infer_elbo_set_batch(atvi_elbo *e, atvi_idx batch) { e->batch = batch < e->most ? batch : e->most; }

void atvi_infer_elbo_set_outlier(atvi_elbo *e, double outlier) { e->outlier = outlier; }
void atvi_infer_elbo_state(atvi_elbo *e, atvi_state *s) { ATVI_STATE(s, e->limit); }

/* ---- one part ---- */

static void base_draws(const atvi_elbo *e, uint32_t stream, uint32_t scramble, atvi_idx first, atvi_idx n,
                       double *z) {
  atvi_sobol key = {e->seed, stream, scramble};
  (e->plain ? atvi_math_sobol_plain_normal : atvi_math_sobol_normal)(key, first, e->family->n_base, n, z);
}

void atvi_infer_member_to_frame(const atvi_member *m, atvi_idx d, atvi_idx n, const double *y, double *x) {
  for (atvi_idx i = 0; i < d; i++) {
    double *restrict xi = x + i * n;
    for (atvi_idx b = 0; b < n; b++) xi[b] = m->shift[i];
    for (atvi_idx k = 0; k <= i; k++) {
      double c = m->chol[i * d + k];
      const double *restrict yk = y + k * n;
      for (atvi_idx b = 0; b < n && c != 0; b++) xi[b] += c * yk[b];
    }
  }
  if (m->bend.n > 0) atvi_infer_bend_x(&m->bend, d, n, y, x);
}

/* chol^T dx, in place, row by row of the factor: a row of dx is scaled when those after it are still to be
 * added. */
void atvi_infer_member_adjoint(const atvi_member *m, atvi_idx d, atvi_idx n, const double *y, double *dx) {
  for (atvi_idx i = 0; i < d; i++) {
    double *restrict from = dx + i * n;
    for (atvi_idx k = 0; k < i; k++) {
      double c = m->chol[i * d + k];
      double *restrict to = dx + k * n;
      for (atvi_idx b = 0; b < n && c != 0; b++) to[b] += c * from[b];
    }
    for (atvi_idx b = 0; b < n; b++) from[b] *= m->chol[i * d + i];
  }
  if (m->bend.n > 0) atvi_infer_bend_adjoint(&m->bend, d, n, y, dx);
}

/* y = chol^-1 (x - shift) */
void atvi_infer_member_to_family(const atvi_member *m, atvi_idx d, atvi_idx n, const double *x, double *y) {
  for (atvi_idx i = 0; i < d; i++) {
    double *yi = y + i * n;
    for (atvi_idx b = 0; b < n; b++) yi[b] = x[i * n + b] - m->shift[i];
    for (atvi_idx k = 0; k < i; k++) {
      double c = m->chol[i * d + k];
      const double *yk = y + k * n;
      for (atvi_idx b = 0; b < n && c != 0; b++) yi[b] -= c * yk[b];
    }
    for (atvi_idx b = 0; b < n; b++) yi[b] /= m->chol[i * d + i];
  }
  if (m->bend.n > 0) atvi_infer_bend_back(&m->bend, d, n, y);
}

/* Radii of base draws are chi with d degrees of freedom; the wide part is a standard deviation and a half of
 * its square out. */
double atvi_infer_guard_scale2(atvi_idx d) { return 1 + 2 / sqrt((double)d); }

static bool guarded(const atvi_elbo *e, bool guard) { return guard && e->family->n_base == e->family->d; }

/* log_q of the member becomes that of the mixture with its stretched self. */
void atvi_infer_guard_add(atvi_idx d, atvi_idx n, const double *radius2, double *log_q) {
  double s2 = atvi_infer_guard_scale2(d), share = 1.0 / ATVI_GUARD;
  for (atvi_idx b = 0; b < n; b++) {
    double ratio = 0.5 * radius2[b] * (1 - 1 / s2) - 0.5 * (double)d * log(s2);
    log_q[b] += ratio < 600 ? log(1 - share + share * exp(ratio)) : log(share) + ratio;
  }
}

/* The last of a lot, not every so many-th: the low digits of a Sobol point's number are the high ones of its
 * coordinates, while runs of consecutive points are spread over all of space. */
static bool stretched(const atvi_elbo_lot *lot, atvi_idx draw) {
  return draw >= lot->n - lot->n / ATVI_GUARD;
}

static void stretch(const atvi_elbo_lot *lot, atvi_idx d, atvi_idx first, atvi_idx n, double *z,
                    double *radius2) {
  double s = sqrt(atvi_infer_guard_scale2(d));
  for (atvi_idx b = 0; b < n; b++) {
    double by = stretched(lot, first + b) ? s : 1, sum = 0;
    for (atvi_idx i = 0; i < d; i++) {
      z[i * n + b] *= by;
      sum += z[i * n + b] * z[i * n + b];
    }
    radius2[b] = sum;
  }
}

/* Draws of a part into the seat: z, x, log_q. */
static void draw_part(const atvi_elbo *e, const atvi_member *m, seat *s, const atvi_elbo_lot *lot,
                      atvi_idx first, atvi_idx n) {
  const atvi_family *f = e->family;
  bool wide = guarded(e, lot->guard);
  base_draws(e, lot->stream, lot->scramble, lot->first + first, n, s->z);
  if (wide) stretch(lot, f->d, first, n, s->z, s->radius2);
  f->ops->fwd(f->self, m->phi, s->work, n, s->z, m->whole ? s->y : s->x, s->log_q);
  if (m->whole) atvi_infer_member_to_frame(m, f->d, n, s->y, s->x);
  for (atvi_idx b = 0; b < n; b++) {
    if (m->whole) s->log_q[b] -= m->log_det;
    s->log_member[b] = wide && stretched(lot, first + b) ? NAN : s->log_q[b];
  }
  if (wide) atvi_infer_guard_add(f->d, n, s->radius2, s->log_q);
}

typedef struct {
  atvi_elbo *e;
  const atvi_member *m;
  atvi_elbo_lot lot;
  double beta;
  atvi_idx n, at, part;
  bool guard;
  atvi_cloud *c;
  const atvi_cloud *from;
  const atvi_elbo_room *room;
  double *out;
} job;

static void run(const atvi_elbo *e, atvi_idx n, void (*fn)(void *, atvi_idx, int), job *j, double busy_s) {
  if (busy_s < SERIAL_S)
    for (atvi_idx i = 0; i < n; i++) fn(j, i, 0);
  else
    atvi_parallel(e->ctx, n, fn, j);
}

/* Failed draws are no part of the mean, so q would gain by sending its mass where runs fail. What it gains is
 * -log of the share of draws that succeed; the objective is the ELBO of q given success, mean + log share,
 * and the gradient of the second term is that of log q, at fixed points, over the failed draws: the total
 * derivative less the path. */
static void push_back(const atvi_elbo *e, const atvi_member *m, seat *s, atvi_idx n) {
  const atvi_family *f = e->family;
  f->ops->score(f->self, m->phi, s->work, s->theta);
  for (atvi_idx b = 0; b < n; b++) {
    if (s->dq[b] > 0 || !isfinite(s->log_q[b])) continue;
    s->dq[b] = 1;
    for (atvi_idx i = 0; i < f->d; i++) s->dx[i * n + b] = -s->theta[i * n + b];
  }
}

static void grad_item(void *arg, atvi_idx item, int worker) {
  const job *j = arg;
  atvi_elbo *e = j->e;
  const atvi_family *f = e->family;
  seat *s = &e->seat[worker];
  part_sum *sum = &e->part[item];
  const atvi_idx part = j->part, first = item * part, n = e->batch - first < part ? e->batch - first : part;
  double begun = atvi_clock_s(), *grad = e->grad + item * f->size;
  draw_part(e, j->m, s, &j->lot, first, n);
  atvi_infer_space_eval_on(
      e->space, worker,
      &(atvi_space_batch){
          .B = n, .x = s->x, .beta = j->beta, .theta = s->theta, .log_pi = s->row[0], .dx = s->dx});
  *sum = (part_sum){0};
  bool failed = false;
  for (atvi_idx b = 0; b < n; b++) {
    bool good = isfinite(s->row[0][b]) && isfinite(s->log_q[b]);
    double v = good ? s->row[0][b] - s->log_q[b] : 0;
    sum->good += good;
    sum->sum += v;
    sum->sum_sq += v * v;
    s->dq[b] = good;
    failed = failed || !good;
    double norm = 0;
    for (atvi_idx i = 0; i < f->d; i++) norm += s->dx[i * n + b] * s->dx[i * n + b];
    norm = good ? sqrt(norm) : 0;
    e->norm[first + b] = norm;
    double by = good ? norm > e->limit ? -e->limit / norm : -1 : 0;
    for (atvi_idx i = 0; i < f->d; i++) s->dx[i * n + b] *= by;
  }
  if (j->m->whole) atvi_infer_member_adjoint(j->m, f->d, n, s->y, s->dx);
  if (failed && f->ops->score) push_back(e, j->m, s, n);
  memset(grad, 0, (size_t)f->size * sizeof *grad);
  f->ops->vjp(f->self, j->m->phi, s->work, s->dx, s->dq, grad);
  sum->busy_s = atvi_clock_s() - begun;
}

/* grad[size] = scale times the sum over parts, in order. In stretches of fixed length, which compilers keep
 * in registers. */
static void add_parts(const atvi_elbo *e, atvi_idx n_part, double scale, double *restrict grad) {
  enum { LONG = 2 * ATVI_LANES };
  const atvi_idx size = e->family->size;
  atvi_idx i = 0;
  for (; i + LONG <= size; i += LONG) {
    double sum[LONG];
    const double *restrict from = e->grad + i;
    memcpy(sum, from, sizeof sum);
    for (atvi_idx p = 1; p < n_part; p++) {
      from += size;
      for (int k = 0; k < LONG; k++) sum[k] += from[k];
    }
    for (int k = 0; k < LONG; k++) grad[i + k] = sum[k] * scale;
  }
  for (; i < size; i++) {
    double sum = e->grad[i];
    for (atvi_idx p = 1; p < n_part; p++) sum += e->grad[p * size + i];
    grad[i] = sum * scale;
  }
}

/* A draw far out, where the density falls off a cliff, must not drown all others: the next batch holds such
 * gradients to a multiple of the ninth decile of this one's lengths, or of that of a standard normal
 * distribution, if it is longer. Near the optimum none is that long. */
/* sorted has room for the scratch of the sort. */
static void set_limit(atvi_elbo *e) {
  atvi_idx n = 0;
  for (atvi_idx b = 0; b < e->batch; b++)
    if (e->norm[b] > 0 && e->norm[b] < HUGE_VAL) e->sorted[n++] = e->norm[b];
  if (n == 0) return;
  atvi_math_sort(n, e->sorted, NULL, e->sorted + n);
  e->limit = e->outlier * fmax(e->sorted[9 * n / 10], sqrt((double)e->family->d));
}

atvi_elbo_info atvi_infer_elbo_grad(atvi_elbo *e, const atvi_member *m, double beta, uint32_t scramble,
                                    double *grad) {
  job j = {.e = e, .m = m, .lot = {.stream = ATVI_STREAM_TRAIN, .scramble = scramble}, .beta = beta};
  j.part = part_now(e);
  e->n_part = (e->batch + j.part - 1) / j.part;
  run(e, e->n_part, grad_item, &j, e->busy_s);
  part_sum all = {0};
  for (atvi_idx p = 0; p < e->n_part; p++) {
    all.sum += e->part[p].sum;
    all.sum_sq += e->part[p].sum_sq;
    all.good += e->part[p].good;
    all.busy_s += e->part[p].busy_s;
  }
  e->busy_s = all.busy_s;
  set_limit(e);
  double mean = all.sum / all.good;
  add_parts(e, e->n_part, all.good > 0 ? 1 / all.good : 0, grad);
  return (atvi_elbo_info){mean, sqrt(fmax(0, all.sum_sq / all.good - mean * mean)), (atvi_idx)all.good};
}

/* ---- fine-tuning ---- */

static atvi_idx part_of(const job *j, atvi_idx item) {
  atvi_idx first = item * j->part;
  return j->n - first < j->part ? j->n - first : j->part;
}

/* log pi - log q and the gradient of log pi in the family's coordinates, kept for all draws. */
static void weigh_item(void *arg, atvi_idx item, int worker) {
  const job *j = arg;
  atvi_elbo *e = j->e;
  seat *s = &e->seat[worker];
  atvi_idx first = item * j->part, n = part_of(j, item), d = e->family->d;
  draw_part(e, j->m, s, &j->lot, first, n);
  atvi_infer_space_eval_on(
      e->space, worker,
      &(atvi_space_batch){.B = n, .x = s->x, .beta = 1, .theta = s->theta, .log_pi = s->row[0], .dx = s->dx});
  if (j->m->whole) atvi_infer_member_adjoint(j->m, d, n, s->y, s->dx);
  for (atvi_idx b = 0; b < n; b++) {
    double w = s->row[0][b] - s->log_q[b];
    j->room->weight[first + b] = isfinite(w) ? w : -HUGE_VAL;
    for (atvi_idx i = 0; i < d; i++) j->room->dx[i * j->n + first + b] = s->dx[i * n + b];
  }
}

/* Weighted path gradient of a share of the draws, which are made again: the family's record holds one part
 * only. */
static void forward_item(void *arg, atvi_idx item, int worker) {
  const job *j = arg;
  atvi_elbo *e = j->e;
  const atvi_family *f = e->family;
  seat *s = &e->seat[worker];
  double *grad = e->grad + item * f->size;
  memset(grad, 0, (size_t)f->size * sizeof *grad);
  for (atvi_idx k = item; k * j->part < j->n; k += e->n_part) {
    atvi_idx first = k * j->part, n = part_of(j, k);
    draw_part(e, j->m, s, &j->lot, first, n);
    f->ops->score(f->self, j->m->phi, s->work, s->y);
    for (atvi_idx b = 0; b < n; b++) {
      double w = j->room->weight[first + b];
      s->dq[b] = 0;
      for (atvi_idx i = 0; i < f->d; i++)
        s->dx[i * n + b] = w > 0 ? w * (s->y[i * n + b] - j->room->dx[i * j->n + first + b]) : 0;
    }
    f->ops->vjp(f->self, j->m->phi, s->work, s->dx, s->dq, grad);
  }
}

atvi_elbo_info atvi_infer_elbo_grad_forward(atvi_elbo *e, const atvi_member *m, atvi_idx n, uint32_t scramble,
                                            const atvi_elbo_room *room, double *grad) {
  job j = {.e = e, .m = m, .lot = {.stream = ATVI_STREAM_TRAIN, .scramble = scramble}, .n = n, .room = room};
  double sum = 0, sum_sq = 0;
  atvi_idx good = 0;
  j.part = part_now(e);
  e->n_part = (e->batch + j.part - 1) / j.part;
  run(e, (n + j.part - 1) / j.part, weigh_item, &j, HUGE_VAL);
  for (atvi_idx b = 0; b < n; b++) {
    if (!isfinite(room->weight[b])) continue;
    good++;
    sum += room->weight[b];
    sum_sq += room->weight[b] * room->weight[b];
  }
  atvi_math_psis(n, room->weight, room->weight, room->work);
  run(e, e->n_part, forward_item, &j, HUGE_VAL);
  add_parts(e, e->n_part, 1, grad);
  double mean = sum / (double)good;
  return (atvi_elbo_info){mean, sqrt(fmax(0, sum_sq / (double)good - mean * mean)), good};
}

/* ---- draws and densities ---- */

static void scatter(atvi_idx rows, atvi_idx n, const double *from, double *to, atvi_idx at, atvi_idx cap) {
  for (atvi_idx i = 0; i < rows; i++) memcpy(to + i * cap + at, from + i * n, (size_t)n * sizeof *to);
}

static void draw_item(void *arg, atvi_idx item, int worker) {
  const job *j = arg;
  atvi_elbo *e = j->e;
  seat *s = &e->seat[worker];
  atvi_cloud *c = j->c;
  atvi_idx first = item * j->part, n = j->n - first < j->part ? j->n - first : j->part, d = e->family->d;
  draw_part(e, j->m, s, &j->lot, first, n);
  atvi_infer_space_eval_on(e->space, worker,
                           &(atvi_space_batch){.B = n,
                                               .x = s->x,
                                               .beta = 1,
                                               .theta = s->theta,
                                               .log_prior = s->row[0],
                                               .log_lik = s->row[1],
                                               .log_base = s->row[2],
                                               .log_pi = s->row[3],
                                               .dlik = c->dlik ? s->dx : NULL});
  atvi_idx at = j->at + first;
  scatter(d, n, s->x, c->x, at, c->cap);
  scatter(d, n, s->theta, c->theta, at, c->cap);
  scatter(1, n, s->row[0], c->log_prior, at, c->cap);
  scatter(1, n, s->row[1], c->log_lik, at, c->cap);
  scatter(1, n, s->row[2], c->log_base, at, c->cap);
  scatter(1, n, s->row[3], c->log_pi, at, c->cap);
  scatter(1, n, s->log_q, c->log_q, at, c->cap);
  scatter(1, n, s->log_member, c->log_member, at, c->cap);
  if (c->dlik) scatter(d, n, s->dx, c->dlik, at, c->cap);
}

void atvi_infer_elbo_draw(atvi_elbo *e, const atvi_member *m, const atvi_elbo_lot *lot, atvi_cloud *c,
                          atvi_idx at) {
  ATVI_ASSERT(at + lot->n <= c->cap);
  job j = {.e = e, .m = m, .lot = *lot, .n = lot->n, .at = at, .c = c};
  j.part = lot->n >= 8 * DRAW_PART ? DRAW_PART : part_now(e);
  run(e, (lot->n + j.part - 1) / j.part, draw_item, &j, HUGE_VAL);
}

static void log_q_item(void *arg, atvi_idx item, int worker) {
  const job *j = arg;
  atvi_elbo *e = j->e;
  const atvi_family *f = e->family;
  seat *s = &e->seat[worker];
  atvi_idx first = item * j->part, n = j->n - first < j->part ? j->n - first : j->part;
  double *out = j->out + first;
  bool wide = guarded(e, j->guard);
  for (atvi_idx i = 0; i < f->d; i++)
    memcpy(s->x + i * n, j->from->x + i * j->from->cap + first, (size_t)n * sizeof *s->x);
  if (j->m->whole) atvi_infer_member_to_family(j->m, f->d, n, s->x, s->y);
  f->ops->log_q(f->self, j->m->phi, s->work, n, j->m->whole ? s->y : s->x, out, wide ? s->radius2 : NULL);
  if (wide) atvi_infer_guard_add(f->d, n, s->radius2, out);
  for (atvi_idx b = 0; b < n && j->m->whole; b++) out[b] -= j->m->log_det;
}

void atvi_infer_elbo_log_q(atvi_elbo *e, const atvi_member *m, bool guard, const atvi_cloud *c, atvi_idx n,
                           double *out) {
  job j = {.e = e, .m = m, .n = n, .guard = guard, .from = c, .out = out};
  j.part = n >= 8 * DRAW_PART ? DRAW_PART : GRAD_PART;
  run(e, (n + j.part - 1) / j.part, log_q_item, &j, HUGE_VAL);
}
