/* SPDX-License-Identifier: MIT */
/* A seat per worker holds the target's scratch, room for one group of points and the counters, so that
 * nothing is shared while threads run. Seats are laid out ATVI_ALIGN apart: no false sharing. */
#include "model/evaluator.h"
#include "core/core.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct {
  atvi_idx n;
  uint64_t key[ATVI_FAILED_KEPT]; /* rising */
  atvi_outcome why[ATVI_FAILED_KEPT];
  double *theta; /* [ATVI_FAILED_KEPT + 1][d]; the last is scratch */
} sample;

typedef struct {
  void *work;
  sample failed;
  int64_t count, failures;
  double *theta;         /* [d][group] */
  double *log_prior;     /* [group] */
  double *log_lik;       /* [group] */
  double *grad_prior;    /* [d][group] */
  double *grad_lik;      /* [d][group] */
  atvi_outcome *outcome; /* [group] */
  double *unit_prior;    /* [n_unit][group] */
  double *unit_lik;      /* [n_unit][group] */
  double *packed;        /* [2 d + 2 n_unit + 3][group] all that was evaluated, for the memo */
} seat;

struct atvi_evaluator {
  atvi_ctx *ctx;
  const atvi_target *target;
  int n_seat;
  atvi_idx group; /* points per call */
  seat **seats;   /* [n_seat] */
  /* Of a target that is a sum over units, [its n_unit]: what each gave for a group of points; NULL: it is
   * none. */
  atvi_batch *unit;
  double *unit_room;
  /* NULL: none */
  atvi_memo *memo;
  /* Alternative of the density that is evaluated; -1: the density itself. */
  atvi_idx branch;
  /* runs and failures when failures were looked at last, and the runs at which they are looked at next */
  int64_t looked, looked_failed, look_at;
};

/* Failures are looked at after this many runs, then after each doubling, and reported where most of the runs
 * since have failed. */
enum { FIRST_LOOK = 4096 };

static atvi_evaluator *carve(atvi_arena *a, int n_seat, const atvi_target *t, atvi_idx group) {
  const atvi_idx d = t->d, units = t->n_unit;
  atvi_evaluator *ev, head = {.n_seat = n_seat, .group = group};
  ATVI_TAKE(a, ev, 1);
  ATVI_TAKE(a, head.seats, n_seat);
  for (int i = 0; i < n_seat; i++) {
    seat *s, in = {0};
    ATVI_TAKE(a, s, 1);
    ATVI_TAKE(a, in.failed.theta, (ATVI_FAILED_KEPT + 1) * d);
    ATVI_TAKE(a, in.theta, d * group);
    ATVI_TAKE(a, in.log_prior, group);
    ATVI_TAKE(a, in.log_lik, group);
    ATVI_TAKE(a, in.grad_prior, d * group);
    ATVI_TAKE(a, in.grad_lik, d * group);
    ATVI_TAKE(a, in.outcome, group);
    ATVI_TAKE(a, in.unit_prior, units * group);
    ATVI_TAKE(a, in.unit_lik, units * group);
    ATVI_TAKE(a, in.packed, (2 * d + 2 * units + 3) * group);
    if (s) {
      *s = in;
      head.seats[i] = s;
    }
  }
  if (ev) *ev = head;
  return ev;
}

/* Room for what the units of a sum give. */
static atvi_status units_new(atvi_evaluator *ev) {
  const atvi_target *t = ev->target;
  atvi_idx room = 0;
  if (t->n_unit < 2 || !t->ops->eval_unit || ev->n_seat < 2) return ATVI_OK;
  for (atvi_idx u = 0; u < t->n_unit; u++) room += (3 * t->unit[u].n_on + 3) * ATVI_LANES;
  ev->unit = atvi_block(ev->ctx, (size_t)t->n_unit * sizeof *ev->unit);
  ev->unit_room = atvi_block(ev->ctx, (size_t)room * sizeof *ev->unit_room);
  if (!ev->unit || !ev->unit_room) return ATVI_ENOMEM;
  double *at = ev->unit_room;
  for (atvi_idx u = 0; u < t->n_unit; u++) {
    atvi_idx n = t->unit[u].n_on * ATVI_LANES;
    ev->unit[u] = (atvi_batch){.theta = at,
                               .grad_prior = at + n,
                               .grad_lik = at + 2 * n,
                               .log_prior = at + 3 * n,
                               .log_lik = at + 3 * n + ATVI_LANES,
                               .outcome = (atvi_outcome *)(at + 3 * n + 2 * (atvi_idx)ATVI_LANES)};
    at += 3 * n + 3 * (atvi_idx)ATVI_LANES;
  }
  return ATVI_OK;
}

atvi_status atvi_model_evaluator_new(atvi_ctx *ctx, const atvi_target *target, atvi_evaluator **out) {
  *out = NULL;
  const atvi_target_ops *ops = target->ops;
  if (!ops || ops->size != sizeof *ops || !ops->eval)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "evaluator: the target has no eval, or was built for another version");
  if (target->d < 1) return ATVI_FAIL(ctx, ATVI_EINVAL, "evaluator: d = %td, want >= 1", target->d);
  int n = atvi_ctx_threads(ctx);
  atvi_arena a = {0};
  atvi_idx group = target->group > 0 ? target->group : ATVI_LANES;
  carve(&a, n, target, group);
  a = (atvi_arena){.base = atvi_block(ctx, a.used)};
  if (!a.base) return ATVI_ENOMEM;
  atvi_evaluator *ev = carve(&a, n, target, group);
  ev->ctx = ctx;
  ev->target = target;
  ev->look_at = FIRST_LOOK;
  ev->branch = -1;
  for (int i = 0; i < n && ops->work_new; i++) {
    atvi_status st = ops->work_new(target->self, ctx, &ev->seats[i]->work);
    if (st != ATVI_OK) {
      ev->seats[i]->work = NULL;
      atvi_model_evaluator_free(ev);
      return st;
    }
  }
  atvi_status status = units_new(ev);
  if (status != ATVI_OK) {
    atvi_model_evaluator_free(ev);
    return status;
  }
  *out = ev;
  return ATVI_OK;
}

void atvi_model_evaluator_free(atvi_evaluator *ev) {
  if (!ev) return;
  const atvi_target_ops *ops = ev->target->ops;
  for (int i = 0; i < ev->n_seat && ops->work_free; i++)
    if (ev->seats[i]->work) ops->work_free(ev->seats[i]->work);
  atvi_block_free(ev->ctx, ev->unit);
  atvi_block_free(ev->ctx, ev->unit_room);
  atvi_block_free(ev->ctx, ev);
}

const atvi_target *atvi_model_evaluator_target(const atvi_evaluator *ev) { return ev->target; }
void *atvi_model_evaluator_work(atvi_evaluator *ev) { return ev->seats[0]->work; }

void *atvi_model_evaluator_work_of(atvi_evaluator *ev, int worker) {
  return worker < ev->n_seat ? ev->seats[worker]->work : NULL;
}

/* Keeps the point if it is new and its fingerprint is among the smallest. */
static void keep(sample *s, atvi_idx d, const double *theta, atvi_outcome why) {
  uint64_t key = atvi_hash(ATVI_HASH, theta, (size_t)d * sizeof *theta);
  atvi_idx at = 0, last = s->n < ATVI_FAILED_KEPT ? s->n : ATVI_FAILED_KEPT - 1;
  while (at < s->n && s->key[at] < key) at++;
  if (at == ATVI_FAILED_KEPT || (at < s->n && s->key[at] == key)) return;
  for (atvi_idx k = last; k > at; k--) {
    s->key[k] = s->key[k - 1];
    s->why[k] = s->why[k - 1];
    memcpy(s->theta + k * d, s->theta + (k - 1) * d, (size_t)d * sizeof *theta);
  }
  s->key[at] = key;
  s->why[at] = why;
  memcpy(s->theta + at * d, theta, (size_t)d * sizeof *theta);
  s->n = last + 1;
}

static void note_failure(const atvi_evaluator *ev, seat *s, const atvi_batch *b, atvi_idx i) {
  atvi_idx d = ev->target->d;
  double *theta = s->failed.theta + ATVI_FAILED_KEPT * d;
  for (atvi_idx j = 0; j < d; j++) theta[j] = b->theta[j * b->B + i];
  s->failures++;
  keep(&s->failed, d, theta, b->outcome[i]);
}

/* A density that is NaN or +inf is a failure even if the target did not notice. An outcome that does not
 * exist, of a callback or of a checkpoint, is one that failed: outcomes are indices elsewhere. */
static void count_group(const atvi_evaluator *ev, seat *s, const atvi_batch *b) {
  bool runs = b->log_lik || b->grad_lik || b->unit_lik;
  for (atvi_idx i = 0; i < b->B; i++) {
    if ((unsigned)b->outcome[i] > ATVI_RUN_STEADY) b->outcome[i] = ATVI_RUN_CALL;
    if (b->outcome[i] == ATVI_RUN_OK) {
      bool bad =
          (b->log_prior && !(b->log_prior[i] < HUGE_VAL)) || (b->log_lik && !(b->log_lik[i] < HUGE_VAL));
      if (bad) b->outcome[i] = ATVI_RUN_NONFINITE;
    }
    s->count += runs && b->outcome[i] != ATVI_RUN_OUTSIDE;
    if (b->outcome[i] != ATVI_RUN_OK && b->outcome[i] != ATVI_RUN_OUTSIDE) note_failure(ev, s, b, i);
  }
}

/* ---- the memo ---- */

/* Seconds per point from which an evaluation is kept: cheaper ones are repeated as fast as they are read. */
#define DEAR_S 2e-5
#define BYTE_S 1e-8 /* and what a disk takes for a byte */

/* Copies what was asked of a group into packed, or (back) out of it. packed NULL: nothing is copied. Returns
 * its bytes. */
static size_t pack(const atvi_evaluator *ev, const atvi_batch *b, double *packed, bool back) {
  size_t d = (size_t)ev->target->d, units = (size_t)ev->target->n_unit, B = (size_t)b->B, at = 0;
  const struct {
    void *bytes;
    size_t n;
  } row[] = {{b->log_prior, B * sizeof(double)},          {b->log_lik, B * sizeof(double)},
             {b->grad_prior, d * B * sizeof(double)},     {b->grad_lik, d * B * sizeof(double)},
             {b->unit_prior, units * B * sizeof(double)}, {b->unit_lik, units * B * sizeof(double)},
             {b->outcome, B * sizeof *b->outcome}};
  for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
    if (!row[k].bytes) continue;
    char *place = packed ? (char *)packed + at : NULL;
    if (place) memcpy(back ? row[k].bytes : place, back ? place : row[k].bytes, row[k].n);
    at += row[k].n;
  }
  return at;
}

static atvi_memo_key key_of(const atvi_evaluator *ev, const atvi_batch *b) {
  const uint64_t asked[] = {(uint64_t)b->B,        b->log_prior != NULL, b->log_lik != NULL,
                            b->grad_prior != NULL, b->grad_lik != NULL,  b->unit_prior != NULL,
                            b->unit_lik != NULL};
  atvi_memo_key key = atvi_io_memo_key((atvi_memo_key){{0}}, asked, sizeof asked);
  return atvi_io_memo_key(key, b->theta, (size_t)(ev->target->d * b->B) * sizeof *b->theta);
}

typedef void eval_fn(atvi_evaluator *ev, seat *s, const atvi_batch *b);

static void eval_group(atvi_evaluator *ev, seat *s, const atvi_batch *b) {
  const atvi_target *t = ev->target;
  if (ev->branch >= 0)
    t->ops->eval_branch(t->self, s->work, ev->branch, b);
  else
    t->ops->eval(t->self, s->work, b);
}

void atvi_model_evaluator_set_branch(atvi_evaluator *ev, atvi_idx k) { ev->branch = k; }

/* Evaluates at most a group of points, or finds them in the memo. The outcome is asked for. */
static void eval_or_find(atvi_evaluator *ev, seat *s, const atvi_batch *b, eval_fn *eval) {
  if (ev->branch >= 0 || !atvi_io_memo_wants(ev->memo)) {
    eval(ev, s, b);
    return;
  }
  atvi_memo_key key = key_of(ev, b);
  size_t n = pack(ev, b, NULL, false);
  if (atvi_io_memo_get(ev->memo, key, s->packed, n)) {
    pack(ev, b, s->packed, true);
    return;
  }
  double begun_s = atvi_clock_s();
  eval(ev, s, b);
  if (atvi_clock_s() - begun_s < DEAR_S * (double)b->B + BYTE_S * (double)n) return;
  pack(ev, b, s->packed, false);
  atvi_io_memo_put(ev->memo, s == ev->seats[0], key, s->packed, n);
}

void atvi_model_evaluator_set_memo(atvi_evaluator *ev, atvi_memo *memo) { ev->memo = memo; }
atvi_memo *atvi_model_evaluator_memo(const atvi_evaluator *ev) { return ev->memo; }

void atvi_model_evaluator_state(atvi_evaluator *ev, atvi_state *s) {
  atvi_idx d = ev->target->d;
  seat *first = ev->seats[0];
  sample *all = &first->failed;
  for (int i = 1; i < ev->n_seat; i++) { /* the first seat takes over from the others */
    seat *other = ev->seats[i];
    first->count += other->count;
    first->failures += other->failures;
    for (atvi_idx k = 0; k < other->failed.n; k++)
      keep(all, d, other->failed.theta + k * d, other->failed.why[k]);
    other->count = other->failures = other->failed.n = 0;
  }
  ATVI_STATE(s, first->count);
  ATVI_STATE(s, first->failures);
  ATVI_STATE(s, all->n);
  if (all->n < 0 || all->n > ATVI_FAILED_KEPT) all->n = 0; /* the checkpoint was changed */
  atvi_io_state(s, all->key, (size_t)all->n * sizeof *all->key);
  atvi_io_state(s, all->why, (size_t)all->n * sizeof *all->why);
  atvi_io_state(s, all->theta, (size_t)(all->n * d) * sizeof *all->theta);
}

/* At most a group of points. */
static void run_group(atvi_evaluator *ev, seat *s, const atvi_batch *batch, eval_fn *eval) {
  atvi_batch b = *batch;
  if (!b.outcome) b.outcome = s->outcome;
  for (atvi_idx i = 0; i < b.B; i++) b.outcome[i] = ATVI_RUN_OK;
  eval_or_find(ev, s, &b, eval);
  count_group(ev, s, &b);
}

static void scatter(atvi_idx rows, atvi_idx n, const double *from, double *to, atvi_idx stride) {
  for (atvi_idx j = 0; j < rows && to; j++)
    for (atvi_idx i = 0; i < n; i++) to[j * stride + i] = from[j * n + i];
}

/* Points first .. first+n-1 of a larger batch, by way of the seat's contiguous buffers. */
static void run_part(atvi_evaluator *ev, seat *s, const atvi_batch *batch, atvi_idx first) {
  atvi_idx d = ev->target->d, B = batch->B, n = B - first < ev->group ? B - first : ev->group;
  for (atvi_idx j = 0; j < d; j++)
    for (atvi_idx i = 0; i < n; i++) s->theta[j * n + i] = batch->theta[j * B + first + i];
  atvi_batch b = {.B = n,
                  .theta = s->theta,
                  .log_prior = batch->log_prior ? s->log_prior : NULL,
                  .log_lik = batch->log_lik ? s->log_lik : NULL,
                  .grad_prior = batch->grad_prior ? s->grad_prior : NULL,
                  .grad_lik = batch->grad_lik ? s->grad_lik : NULL,
                  .outcome = s->outcome,
                  .unit_prior = batch->unit_prior ? s->unit_prior : NULL,
                  .unit_lik = batch->unit_lik ? s->unit_lik : NULL};
  run_group(ev, s, &b, eval_group);
  scatter(1, n, s->log_prior, batch->log_prior ? batch->log_prior + first : NULL, B);
  scatter(1, n, s->log_lik, batch->log_lik ? batch->log_lik + first : NULL, B);
  scatter(d, n, s->grad_prior, batch->grad_prior ? batch->grad_prior + first : NULL, B);
  scatter(d, n, s->grad_lik, batch->grad_lik ? batch->grad_lik + first : NULL, B);
  scatter(ev->target->n_unit, n, s->unit_prior, batch->unit_prior ? batch->unit_prior + first : NULL, B);
  scatter(ev->target->n_unit, n, s->unit_lik, batch->unit_lik ? batch->unit_lik + first : NULL, B);
  for (atvi_idx i = 0; i < n && batch->outcome; i++) batch->outcome[first + i] = s->outcome[i];
}

typedef struct {
  atvi_evaluator *ev;
  const atvi_batch *batch;
} job;

static void run_item(void *arg, atvi_idx item, int worker) {
  const job *j = arg;
  run_part(j->ev, j->ev->seats[worker], j->batch, item * j->ev->group);
}

static void look_at_failures(atvi_evaluator *ev) {
  int64_t runs = atvi_model_evaluator_count(ev), failed;
  if (runs < ev->look_at) return;
  failed = atvi_model_evaluator_failures(ev) - ev->looked_failed;
  if (2 * failed > runs - ev->looked)
    atvi_log(ev->ctx, ATVI_LOG_WARN, "%" PRId64 " of the last %" PRId64 " runs of the model failed", failed,
             runs - ev->looked);
  ev->looked = runs;
  ev->looked_failed += failed;
  ev->look_at = 2 * runs;
}

/* ---- draws of the prior ---- */

typedef struct {
  atvi_evaluator *ev;
  uint64_t seed;
  atvi_idx first, n;
  double *theta;
} prior_job;

static void prior_item(void *arg, atvi_idx item, int worker) {
  const prior_job *j = arg;
  const atvi_target *t = j->ev->target;
  seat *s = j->ev->seats[worker];
  atvi_idx at = item * j->ev->group, n = j->n - at < j->ev->group ? j->n - at : j->ev->group;
  t->ops->prior_draw(t->self, s->work, j->seed, j->first + at, n, s->theta);
  scatter(t->d, n, s->theta, j->theta + at, j->n);
}

void atvi_model_evaluator_prior(atvi_evaluator *ev, uint64_t seed, atvi_idx first, atvi_idx n,
                                double *theta) {
  const atvi_target *t = ev->target;
  prior_job j = {ev, seed, first, n, theta};
  if (atvi_ctx_threads(ev->ctx) > ev->n_seat) /* changed after new */
    t->ops->prior_draw(t->self, ev->seats[0]->work, seed, first, n, theta);
  else
    atvi_parallel(ev->ctx, (n + ev->group - 1) / ev->group, prior_item, &j);
}

/* ---- one group of points, unit by unit ---- */

typedef struct {
  atvi_evaluator *ev;
  const atvi_batch *batch;
  atvi_units_sum sum;
} unit_job;

static void run_unit(void *arg, atvi_idx u, int worker) {
  const unit_job *j = arg;
  const atvi_target *t = j->ev->target;
  atvi_batch part = j->ev->unit[u];
  part.B = j->sum.n;
  if (!atvi_model_sum_runs(j->batch)) part.log_lik = NULL;
  if (!j->batch->grad_prior) part.grad_prior = NULL;
  if (!j->batch->grad_lik) part.grad_lik = NULL;
  atvi_model_sum_load(t, j->batch, &j->sum, u, (double *)part.theta);
  t->ops->eval_unit(t->self, j->ev->seats[worker]->work, u, &part);
}

/* As eval_group, on all threads. */
static void eval_units(atvi_evaluator *ev, seat *s, const atvi_batch *b) {
  const atvi_target *t = ev->target;
  unit_job j = {.ev = ev, .batch = b};
  (void)s;
  atvi_model_sum_begin(t, b, 0, (int)b->B, &j.sum);
  atvi_parallel(ev->ctx, t->n_unit, run_unit, &j);
  for (atvi_idx u = 0; u < t->n_unit; u++) {
    atvi_batch part = ev->unit[u];
    if (!atvi_model_sum_runs(b)) part.log_lik = NULL;
    atvi_model_sum_add(t, b, &j.sum, u, &part);
  }
  atvi_model_sum_end(t, b, &j.sum);
}

void atvi_model_evaluator_run(atvi_evaluator *ev, const atvi_batch *batch) {
  /* A group by itself would leave all threads but one idle. */
  if (ev->unit && batch->B <= ev->group && atvi_ctx_threads(ev->ctx) <= ev->n_seat) {
    run_group(ev, ev->seats[0], batch, eval_units);
    look_at_failures(ev);
    return;
  }
  /* More threads than seats (the context was changed after new): one thread is always right. */
  if (batch->B <= ev->group || atvi_ctx_threads(ev->ctx) > ev->n_seat) {
    atvi_model_evaluator_run_on(ev, 0, batch);
  } else {
    job j = {ev, batch};
    atvi_parallel(ev->ctx, (batch->B + ev->group - 1) / ev->group, run_item, &j);
  }
  look_at_failures(ev);
}

void atvi_model_evaluator_run_on(atvi_evaluator *ev, int worker, const atvi_batch *batch) {
  ATVI_ASSERT(worker >= 0 && worker < ev->n_seat);
  seat *s = ev->seats[worker];
  if (batch->B <= ev->group) {
    run_group(ev, s, batch, eval_group);
    return;
  }
  for (atvi_idx first = 0; first < batch->B; first += ev->group) run_part(ev, s, batch, first);
}

int64_t atvi_model_evaluator_count(const atvi_evaluator *ev) {
  int64_t sum = 0;
  for (int i = 0; i < ev->n_seat; i++) sum += ev->seats[i]->count;
  return sum;
}

int64_t atvi_model_evaluator_failures(const atvi_evaluator *ev) {
  int64_t sum = 0;
  for (int i = 0; i < ev->n_seat; i++) sum += ev->seats[i]->failures;
  return sum;
}

atvi_idx atvi_model_evaluator_failed(const atvi_evaluator *ev, double *theta, atvi_outcome *why) {
  atvi_idx d = ev->target->d;
  sample all = {.theta = theta};
  for (int i = 0; i < ev->n_seat; i++) {
    const sample *one = &ev->seats[i]->failed;
    for (atvi_idx k = 0; k < one->n; k++) keep(&all, d, one->theta + k * d, one->why[k]);
  }
  memcpy(why, all.why, sizeof all.why);
  return all.n;
}
