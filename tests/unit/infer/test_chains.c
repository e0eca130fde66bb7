/* SPDX-License-Identifier: MIT */
/* The driver of chains, with a method whose states are known: independent draws, and the iteration number as
 * log prior. */
#include "infer/chains.h"
#include "math/rng.h"
#include "toys.h"

enum { MOST = 64 };

typedef struct {
  atvi_chains c;
  /* iterations at which warm_up and not_passed were called */
  atvi_idx warm[MOST], failed[MOST];
  int n_warm, n_failed;
  /* states stay where they are before this iteration */
  atvi_idx stuck;
  /* the chain that is lost; -1: none */
  atvi_idx lost;
  atvi_idx copied_to, copied_from;
  bool ended;
} method;

static atvi_status begin(void *self, const atvi_starts *s, atvi_idx *index) {
  method *t = self;
  atvi_infer_starts_pick(s, t->c.opts.seed, t->c.opts.chains, index);
  t->c.plan = (atvi_chains_plan){.groups = t->c.opts.chains,
                                 .rows = s->d + 2,
                                 .states_per_ess = 4,
                                 .from = 10,
                                 .discard = 10,
                                 .part = 2,
                                 .first_check = 110};
  return ATVI_OK;
}

/* Chains of different speed. */
static atvi_idx run(void *self, atvi_idx chain, int worker) {
  method *t = self;
  (void)worker;
  atvi_idx from = t->c.block.reached[chain], to = from + t->c.block.evals + chain % 3;
  if (to > t->c.block.goal) to = t->c.block.goal;
  for (atvi_idx n = from + 1; n <= to; n++) {
    atvi_rng r = atvi_math_rng_at(7, ATVI_STREAM_TEST, (uint32_t)n, (uint32_t)chain);
    double x = n < t->stuck ? (double)chain : atvi_math_rng_normal(&r);
    CHECK(!atvi_infer_chains_keep(&t->c, chain, n, &x, 1, (double)n, (double)chain) ==
          (n <= 10 || (n - 10) % t->c.store.thin));
  }
  return to;
}

static atvi_idx warm_up(void *self) {
  method *t = self;
  t->warm[t->n_warm++] = t->c.done;
  if (t->lost >= 0 && t->c.done > 0) {
    CHECK(atvi_infer_chains_move_lost(&t->c));
    CHECK(t->c.lost.mass[t->lost] == -HUGE_VAL && t->c.lost.mass[0] == -19.5);
  }
  return t->c.done < 9 ? t->c.done + 3 : 0;
}

static void not_passed(void *self, bool judged) {
  method *t = self;
  CHECK(judged);
  if (t->n_failed < MOST) t->failed[t->n_failed++] = t->c.done;
}

static double mass(void *self, atvi_idx chain, double *log_pi) {
  const method *t = self;
  *log_pi = chain == t->lost ? -31.5 : 0;
  return *log_pi + (chain == 0 ? -19.5 : 0); /* a mode that is small, but not lost */
}

static void copy(void *self, atvi_idx to, atvi_idx from) {
  method *t = self;
  t->copied_to = to;
  t->copied_from = from;
}

static void made(const void *self, atvi_made *about) {
  about->accept = ((const method *)self)->lost < 0 ? 1 : 0;
}
static void end(void *self) { ((method *)self)->ended = true; }

static const atvi_chains_ops OPS = {.name = "iid",
                                    .begin = begin,
                                    .run = run,
                                    .warm_up = warm_up,
                                    .not_passed = not_passed,
                                    .mass = mass,
                                    .copy = copy,
                                    .made = made,
                                    .end = end};

static atvi_draws *sample(method *t, const atvi_chains_opts *o, int threads) {
  toy y = {.lik = toy_unit};
  atvi_evaluator *ev;
  atvi_draws *d;
  toy_set(&y, 1, -1, 1);
  t->c.ctx = test_ctx();
  atvi_ctx_set_threads(t->c.ctx, threads);
  CHECK_OK(atvi_model_evaluator_new(t->c.ctx, &y.target, &ev));
  t->c.ev = ev;
  if (!t->c.ops) t->c.ops = &OPS;
  t->c.self = t;
  CHECK_OK(atvi_infer_chains_sample(&t->c, o, &d));
  CHECK(t->ended);
  atvi_model_evaluator_free(ev);
  return d;
}

static void done_with(atvi_draws *d) {
  atvi_ctx *ctx = d->ctx;
  atvi_draws_free(d);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* Warm-up is asked until it has enough; then come checkpoints a fifth apart, of which two in a row must be
 * good. */
static void ends_after_two_good_checkpoints(void) {
  method t = {.lost = -1, .stuck = 150};
  atvi_chains_opts o = atvi_infer_chains_defaults();
  o.ess = 400;
  atvi_draws *d = sample(&t, &o, 2);
  static const atvi_idx warm[] = {0, 3, 6, 9};
  CHECK_INT(t.n_warm, 4);
  for (int k = 0; k < 4; k++) CHECK_INT(t.warm[k], warm[k]);
  CHECK(t.n_failed > 0);
  atvi_idx n = 100, at = 0;
  for (int k = 0; k < t.n_failed; k++, n = (atvi_idx)ceil(1.2 * (double)n))
    CHECK_INT(t.failed[k], at = 10 + n);
  n = (atvi_idx)ceil(1.2 * (double)n); /* the first good one was at 10 + n */
  CHECK_INT(t.c.done, 10 + n);
  CHECK(at < t.c.done && d->made->end == ATVI_END_DONE && d->made->accept == 1);
  CHECK_INT(d->n_chain, 16);
  CHECK_STR(d->made->method, "iid");
  CHECK_INT(d->n, 16 * (n - (t.c.done / 2 - 10)));
  CHECK(d->log_prior[0] == (double)(t.c.done / 2 + 1)); /* the first half is not kept */
  CHECK_INT(d->n_message, 0);
  done_with(d);
}

/* The store takes 4 max(4096, ess) states however long the run is, and they stay evenly spaced. */
static void memory_does_not_grow_with_the_run(void) {
  long before = test_allocs, allocs[2];
  for (int k = 0; k < 2; k++) {
    method t = {.lost = -1, .stuck = k ? 400000 : 20000};
    atvi_chains_opts o = atvi_infer_chains_defaults();
    o.max_iter = k ? 300000 : 3000;
    o.chains = 3;
    atvi_draws *d = sample(&t, &o, 1);
    CHECK_INT(t.c.store.room, 4 * 4096 / 3 / 2 * 2);
    CHECK_INT(t.c.store.thin, k ? 64 : 1);
    CHECK_INT(d->made->end, ATVI_END_LIMIT);
    CHECK_INT(t.c.done, o.max_iter);
    for (atvi_idx i = 1; i < d->n / 3; i++)
      CHECK(d->log_prior[i] == d->log_prior[i - 1] + (double)t.c.store.thin);
    CHECK(d->n / 3 <= t.c.store.room && d->n / 3 > t.c.store.room / 6);
    CHECK(d->log_lik[d->n - 1] == 2); /* chain after chain */
    done_with(d);
    allocs[k] = test_allocs - before;
    before = test_allocs;
  }
  CHECK_INT(allocs[0], allocs[1]);
}

static void lost_chains_are_moved_and_reported(void) {
  method t = {.lost = 5};
  atvi_chains_opts o = atvi_infer_chains_defaults();
  atvi_draws *d = sample(&t, &o, 1);
  CHECK_INT(t.copied_to, 5);
  CHECK(t.copied_from != 5);
  CHECK_INT(d->n_message, 1);
  CHECK(strstr(d->message[0].text,
               "1 chain was caught in a region of negligible probability, its log posterior 32 lower"));
  done_with(d);
}

/* One chain stays where the density is lower. */
static double away_sd;
static atvi_idx run_apart(void *self, atvi_idx chain, int worker) {
  method *t = self;
  (void)worker;
  for (atvi_idx n = t->c.block.reached[chain] + 1; n <= t->c.block.goal; n++) {
    atvi_rng r = atvi_math_rng_at(7, ATVI_STREAM_TEST, (uint32_t)n, (uint32_t)chain);
    double z = atvi_math_rng_normal(&r), x = chain == 3 ? 100 + away_sd * z : z;
    atvi_infer_chains_keep(&t->c, chain, n, &x, 1, chain == 3 ? -9 : -0.5 * z * z, 0);
  }
  return t->c.block.goal;
}

static atvi_status begin_apart(void *self, const atvi_starts *s, atvi_idx *index) {
  method *t = self;
  ATVI_TRY(begin(self, s, index));
  t->c.plan.leaves_out = true;
  return ATVI_OK;
}

/* A chain that never came to where the others are is left out if its region holds next to nothing, and only
 * then. */
static void chains_that_do_not_arrive_are_left_out(void) {
  for (int wide = 0; wide < 2; wide++) {
    away_sd = wide ? 1e4 : 1; /* e^-9 of the density on a region 1e4 times as wide: 55 % of the mass */
    method t = {.lost = -1};
    atvi_chains_ops ops = OPS;
    ops.begin = begin_apart, ops.run = run_apart;
    t.c.ops = &ops;
    atvi_chains_opts o = atvi_infer_chains_defaults();
    o.max_iter = 400;
    atvi_draws *d = sample(&t, &o, 1);
    CHECK_INT(d->n_chain, wide ? 16 : 15);
    CHECK_INT(d->made->end, wide ? ATVI_END_LIMIT : ATVI_END_DONE);
    for (atvi_idx i = 0; i < d->n && !wide; i++) CHECK(fabs(d->x[i]) < 10);
    CHECK_INT(d->n_message, !wide);
    CHECK(wide || d->message[0].code == ATVI_CODE_CHAINS_LEFT_OUT);
    done_with(d);
  }
}

static double reported;
static void falls_never(void *user, const atvi_progress *p) {
  (void)user;
  if (strcmp(p->phase, "starting") == 0) return;
  CHECK(p->done >= reported && p->done <= 1);
  reported = p->done;
}

static bool in_warm_up(void *user) { return ((method *)user)->n_warm > 1; }

static void limits_and_stops_are_heeded(void) {
  method t = {.lost = -1};
  toy y = {.lik = toy_unit};
  atvi_evaluator *ev;
  atvi_draws *d;
  toy_set(&y, 1, -1, 1);
  t.c = (atvi_chains){.ctx = test_ctx(), .ops = &OPS, .self = &t};
  atvi_ctx_set_recorder(t.c.ctx, falls_never, NULL);
  atvi_ctx_set_stop(t.c.ctx, in_warm_up, &t);
  CHECK_OK(atvi_model_evaluator_new(t.c.ctx, &y.target, &ev));
  t.c.ev = ev;
  atvi_chains_opts o = atvi_infer_chains_defaults();
  o.ess = -1;
  CHECK_STATUS(atvi_infer_chains_sample(&t.c, &o, &d), ATVI_EINVAL);
  CHECK(!d && !t.ended && strstr(atvi_errmsg(t.c.ctx), "iid: ess = -1"));
  o = atvi_infer_chains_defaults();
  CHECK_STATUS(atvi_infer_chains_sample(&t.c, &o, &d), ATVI_ESTOP);
  CHECK(!d && t.ended && strstr(atvi_errmsg(t.c.ctx), "too few to keep any draw"));
  atvi_model_evaluator_free(ev);
  atvi_ctx_free(t.c.ctx);
  CHECK_INT(test_live, 0);
}

TESTS({"arrival", chains_that_do_not_arrive_are_left_out}, {"checkpoints", ends_after_two_good_checkpoints},
      {"memory", memory_does_not_grow_with_the_run}, {"lost", lost_chains_are_moved_and_reported},
      {"limits", limits_and_stops_are_heeded})
