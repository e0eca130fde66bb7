/* SPDX-License-Identifier: MIT */
/* How a fit is asked for and how it ends: options, ladders, freezing, fine-tuning, stopping, threads, memory. */
#include "vi_world.h"
#include <sys/wait.h>
#include <unistd.h>

static const double PAPER[2] = {3, 1}, ONE[1] = {1};

static toy chain(atvi_idx d, double half) {
  toy t = {.lik = toy_chain};
  toy_set(&t, d, -half, half);
  return t;
}

/* A toy's target points to itself. */
static void settle(toy *t) {
  t->target.self = t;
  t->target.param = t->param;
}

static void check_chain(const atvi_draws *d) {
  check_draws(d);
  for (atvi_idx j = 0; j < d->n_param; j++) {
    double sd = 0.3 * (double)(j + 1);
    CHECK_ABS(fit_mean(d, j), 0.4 * (double)j, 0.03 * sd);
    CHECK_REL(fit_sd(d, j), sd, 0.03);
  }
}

/* ---- options ---- */

static void defaults_are_what_they_say(void) {
  atvi_vi_opts a = atvi_infer_vi_defaults(), n = atvi_infer_vi_nf_defaults(),
               c = atvi_infer_vi_copula_defaults();
  CHECK_STR(a.method, "atvi");
  CHECK(a.n_rung == 0 && a.seek_modes && a.tune == ATVI_TUNE_AUTO && a.factors == 0 && isnan(a.ess));
  CHECK_STR(n.method, "nf");
  CHECK_STR(n.map, "logit");
  CHECK(n.n_rung == 1 && n.temperature[0] == 1 && !n.seek_modes && n.tune == ATVI_TUNE_OFF && n.factors == 0);
  CHECK_STR(c.method, "copula");
  CHECK_STR(c.map, "logit");
  CHECK(c.n_rung == 1 && c.factors > 0 && c.tune == ATVI_TUNE_OFF);
}

static void refuse(atvi_vi_opts o, const char *says) {
  toy t = chain(2, 6);
  settle(&t);
  atvi_ctx *ctx = test_ctx();
  atvi_evaluator *ev;
  atvi_draws *d = (atvi_draws *)&t;
  CHECK_OK(atvi_model_evaluator_new(ctx, &t.target, &ev));
  atvi_status status = atvi_infer_vi_run(ctx, ev, &o, &d);
  CHECK_MSG(status == ATVI_EINVAL, "%s: status %d", says, status);
  CHECK(d == NULL);
  CHECK_MSG(strstr(atvi_errmsg(ctx), says), "%s: %s", says, atvi_errmsg(ctx));
  atvi_model_evaluator_free(ev);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static atvi_vi_opts ladder(int n, const double *temperature) {
  atvi_vi_opts o = atvi_infer_vi_defaults();
  o.n_rung = n;
  o.temperature = temperature;
  return o;
}

static void wrong_options_are_refused(void) {
  atvi_vi_opts o = atvi_infer_vi_defaults();
  o.batch = 7;
  refuse(o, "batch = 7");
  o.batch = (1 << 20) + 8;
  refuse(o, "batch = ");
  o = atvi_infer_vi_defaults();
  o.max_steps = 0;
  refuse(o, "max_steps = 0");
  o = atvi_infer_vi_defaults();
  o.max_seconds = 0;
  refuse(o, "max_seconds = 0");
  o.max_seconds = NAN;
  refuse(o, "max_seconds = ");
  o = atvi_infer_vi_defaults();
  o.ess = 0;
  refuse(o, "ess = 0");
  o.ess = -3.5;
  refuse(o, "ess = -3.5");
  o = atvi_infer_vi_defaults();
  o.map = "prabit";
  refuse(o, "prabit");
  o = atvi_infer_vi_defaults();
  o.shape = (atvi_flow_shape){.d = 2, .layers = 2, .bins = 0, .hidden = 4, .box = 3, .seed = 1};
  refuse(o, "bins");
}

/* ---- ladders ---- */

static void given_ladders_work(void) {
  for (int freeze = 0; freeze < 2; freeze++)
    for (int n = 1; n <= 2; n++) {
      toy t = chain(2, 6);
      settle(&t);
      atvi_vi_opts o = ladder(n, n == 1 ? ONE : PAPER);
      o.freeze = freeze;
      fitted f = fit_on(&t, &o, 2);
      check_chain(f.d);
      CHECK_INT(f.d->made->rungs, n);
      CHECK_MSG(f.d->made->efficiency > 0.5, "freeze %d, %d rungs: ESS %.3f", freeze, n,
                f.d->made->efficiency);
      fitted_free(f);
    }
}

typedef struct {
  inside *w;
  double *first, *frozen; /* [size] at the start; when the second block began */
  int seen[2];            /* steps in the first block, in the second */
  double moved[2][2];     /* [block trained][block looked at] largest change */
  atvi_idx edge;          /* where the second block's parameters begin */
} watch;

static double largest(const double *a, const double *b, atvi_idx from, atvi_idx to) {
  double most = 0;
  for (atvi_idx i = from; i < to; i++) most = fmax(most, fabs(a[i] - b[i]));
  return most;
}

/* A stop request that never is one: it sees every step. */
static bool look_at_blocks(void *user) {
  watch *s = user;
  atvi_vi *v = &s->w->v;
  int now = v->progress.rungs - 1;
  CHECK(now == 0 || now == 1);
  if (now == 1 && s->seen[1]++ == 0) memcpy(s->frozen, s->w->m->phi, (size_t)v->size * sizeof(double));
  if (now == 0) s->seen[0]++;
  const double *before = now ? s->frozen : s->first;
  s->moved[now][0] = fmax(s->moved[now][0], largest(before, s->w->m->phi, 0, s->edge));
  s->moved[now][1] = fmax(s->moved[now][1], largest(s->first, s->w->m->phi, s->edge, v->size));
  return false;
}

static void frozen_blocks_do_not_move(void) {
  for (int freeze = 0; freeze < 2; freeze++) {
    toy t = chain(2, 6);
    settle(&t);
    atvi_vi_opts o = ladder(2, PAPER);
    o.freeze = freeze;
    watch s = {.w = inside_new(&t, &o, 1)};
    atvi_vi *v = &s.w->v;
    atvi_idx skip;
    atvi_flow_family_block(&v->family, v->family.blocks / 2, &s.edge, &skip);
    s.first = calloc((size_t)v->size, sizeof(double));
    s.frozen = calloc((size_t)v->size, sizeof(double));
    memcpy(s.first, s.w->m->phi, (size_t)v->size * sizeof(double));
    atvi_ctx_set_stop(v->ctx, look_at_blocks, &s);
    CHECK(atvi_infer_vi_train(v, s.w->m));
    CHECK(s.seen[0] > 0 && s.seen[1] > 0);
    CHECK(s.moved[0][0] > 0.01 && s.moved[1][1] > 0.01);
    if (freeze) { /* averaging with itself may round */
      CHECK(s.moved[0][1] == 0);
      CHECK(s.moved[1][0] < 1e-12);
      CHECK(largest(s.frozen, s.w->m->phi, 0, s.edge) < 1e-12);
    } else {
      CHECK(s.moved[0][1] > 0.01 && s.moved[1][0] > 1e-3);
    }
    free(s.first);
    free(s.frozen);
    inside_free(s.w);
  }
}

static bool always(atvi_vi *v, const atvi_cloud *test) { return v != NULL && test->n == ATVI_VI_TEST; }

/* The round after which it is said to be enough is the last, and its outcome is what is left. */
static void training_ends_when_it_is_enough(void) {
  toy t = chain(4, 20);
  settle(&t);
  atvi_vi_opts o = atvi_infer_vi_defaults();
  inside *w = inside_new(&t, &o, 1);
  atvi_vi *v = &w->v;
  atvi_vi_trained ladder = atvi_infer_vi_climb(v, w->m);
  CHECK(ladder.done && ladder.beta < 1 && ladder.step > 0);
  size_t bytes = (size_t)v->size * sizeof(double);
  double *phi = malloc(bytes);
  memcpy(phi, w->m->phi, bytes);
  int before = v->progress.steps;
  atvi_vi_rounds_opts r = {.beta = 1,
                           .step = ladder.step,
                           .most = 20,
                           .halvings = (int)v->tuning.halvings,
                           .last = v->size,
                           .thorough = true,
                           .enough = always};
  CHECK(atvi_infer_vi_rounds(v, w->m, &r).done);
  CHECK_INT(v->progress.steps - before, 50);
  CHECK(memcmp(w->m->phi, phi, bytes) != 0);
  free(phi);
  r.enough = NULL;
  atvi_vi_trained all = atvi_infer_vi_rounds(v, w->m, &r);
  CHECK(all.done && !all.enough);
  CHECK_MSG(v->progress.steps - before > 2 * 50, "%d steps", v->progress.steps - before);
  inside_free(w);
}

/* Draws of a component that fits are cheaper than a round that would make them better; many more of them are
 * not. */
static void training_ends_when_it_does_not_pay(void) {
  atvi_vi_worth poor = {.share = 0.04, .top = 50, .lacking = 0.2, .permits = true},
                fair = {.share = 0.2, .top = 5, .permits = true},
                good = {.share = 0.8, .top = 3, .permits = true},
                no_better = {.share = 0.21, .top = 5, .permits = true},
                lacking = {.share = 0.21, .top = 9, .lacking = 0.02, .permits = true};
  toy t = chain(4, 20);
  settle(&t);
  atvi_vi_opts o = atvi_infer_vi_defaults();
  inside *w = inside_new(&t, &o, 1);
  atvi_vi *v = &w->v;
  CHECK_ABS(atvi_infer_vi_saving(v, 1, 0.25, 0.5), 25000 * (4 - 2), 1e-6);
  CHECK_ABS(atvi_infer_vi_saving(v, 0.1, 0.25, 0), 2500 * (4 - 1), 1e-6);
  CHECK(!atvi_infer_vi_is_enough(v, 1, atvi_infer_vi_round_runs(v), NULL, &poor));
  CHECK(!atvi_infer_vi_is_enough(v, 1, atvi_infer_vi_round_runs(v), &poor, &fair));
  CHECK(atvi_infer_vi_is_enough(v, 1, atvi_infer_vi_round_runs(v), NULL, &good));
  CHECK(atvi_infer_vi_is_enough(v, 1, atvi_infer_vi_round_runs(v), &fair, &no_better));
  CHECK(!atvi_infer_vi_is_enough(v, 1, atvi_infer_vi_round_runs(v), &fair, &lacking));
  CHECK(atvi_infer_vi_is_enough(v, 0.001, atvi_infer_vi_round_runs(v), NULL,
                                &poor)); /* of which there are few draws */
  v->opts.ess = 1e6;
  CHECK(!atvi_infer_vi_is_enough(v, 1, atvi_infer_vi_round_runs(v), NULL, &good));
  v->opts.ess = NAN;
  t.target.operations = 1e6; /* a dear model */
  CHECK_ABS(atvi_infer_vi_saving(v, 1, 0.25, 0.5), 4000 * (4 - 2), 1e-6);
  inside_free(w);
}

/* ---- other modes ---- */

/* Independent and skewed: x is the log of a gamma variate of shape 1/2. */
static double skewed(const toy *t, const double *x, double *g, atvi_outcome *o) {
  double sum = 0;
  (void)o;
  for (atvi_idx j = 0; j < t->target.d; j++) {
    sum += 0.5 * x[j] - exp(x[j]);
    g[j] = 0.5 - exp(x[j]);
  }
  return sum;
}

/* The first component is far from all mass. The one that is given to the peak is kept, whatever draws judge
 * it: draws of a normal approximation always find some of the fringe of a skewed peak where a good q is a
 * little low. */
static void a_component_that_fits_is_kept(void) {
  enum { D = 6 };
  for (uint64_t seed = 1; seed <= (uint64_t)test_seeds(3, 10); seed++) {
    toy t = {.lik = skewed};
    atvi_vi_opts o = atvi_infer_vi_defaults();
    double shift[D], chol[D * D] = {0};
    toy_set(&t, D, -40, 10);
    o.seed = seed;
    o.ess = 1e6; /* so that training pays until the fringe is next to nothing */
    inside *w = inside_new(&t, &o, 2);
    for (int i = 0; i < D; i++) shift[i] = 1.2, chol[i * D + i] = 0.01;
    CHECK(atvi_infer_vi_member_new(&w->v, shift, chol, w->m));
    w->v.part[0].log_evidence = atvi_infer_vi_judge(&w->v, w->m, w->v.scramble++, NULL).log_evidence;
    CHECK_OK(atvi_infer_vi_seek(&w->v));
    CHECK_OK(atvi_infer_vi_cover(&w->v));
    CHECK_MSG(w->v.n_part >= 2, "seed %d: %td components", (int)seed, w->v.n_part);
    for (atvi_idx k = 2; k < w->v.n_part; k++) {
      /* that fringe may have a component, which counts for next to nothing, or was trained and then is where
       * the one of the peak is */
      atvi_cloud c = atvi_infer_vi_glance(&w->v, &w->v.part[k].at, ATVI_VI_TEST);
      bool faint = w->v.part[k].log_evidence < w->v.part[1].log_evidence + log(0.01);
      CHECK(faint || atvi_infer_vi_missed_share(&w->v, 2, &c) < 0.1);
    }
    CHECK_ABS(w->v.part[1].log_evidence, D * (lgamma(0.5) - log(50.0)), 0.05);
    atvi_vi_weights weights = {0};
    CHECK_OK(atvi_infer_vi_weigh(&w->v, &weights, false));
    CHECK(weights.c.n > 0 && !weights.all);
    atvi_infer_vi_weights_free(&weights);
    double first = w->v.part[0].blame, rest = 0; /* the first has no weight at all */
    for (atvi_idx k = 1; k < w->v.n_part; k++) rest += w->v.part[k].blame;
    CHECK((first == 1 && rest == (double)(w->v.n_part - 1)) ||
          (first < 0.01 && fabs(first + rest - 1) < 1e-12));
    inside_free(w);
  }
}

/* ---- constants ---- */

/* The table lists every field of the struct, with its default; a run obeys what it is given. */
static void constants_are_a_table(void) {
  int n;
  const atvi_vi_tunable *row = atvi_infer_vi_tunables(&n);
  atvi_vi_tuning t = atvi_infer_vi_tuning_defaults();
  const double *value = (const double *)(const void *)&t;
  CHECK_INT((size_t)n * sizeof(double), sizeof t);
  for (int i = 0; i < n; i++) {
    CHECK(value[i] == row[i].value && row[i].value > 0 && row[i].unit[0] && row[i].what[0]);
    for (int k = 0; k < i; k++) CHECK(strcmp(row[i].name, row[k].name) != 0);
  }
  t.round_steps = 17;
  toy target = chain(2, 20);
  settle(&target);
  atvi_vi_opts o = atvi_infer_vi_defaults();
  o.tuning = &t;
  inside *in = inside_new(&target, &o, 1);
  CHECK_INT(atvi_infer_vi_round_steps(&in->v), 17 * ATVI_VI_FEW / 2);
  inside_free(in);
}

/* ---- draws that are kept ---- */

/* 70 % N(-2, 1), 30 % N(3, 0.6) in either coordinate at once; a density. */
static double two_hills(const toy *t, const double *x, double *g, atvi_outcome *o) {
  double l[2] = {log(0.7), log(0.3)}, m[2] = {-2, 3}, s[2] = {1, 0.6};
  (void)o;
  for (int k = 0; k < 2; k++)
    for (atvi_idx j = 0; j < t->target.d; j++)
      l[k] -= 0.5 * pow((x[j] - m[k]) / s[k], 2) + log(s[k] * sqrt(2 * acos(-1.0)));
  double sum = fmax(l[0], l[1]) + log1p(exp(-fabs(l[0] - l[1])));
  for (int k = 0; k < 2; k++)
    for (atvi_idx j = 0; j < t->target.d; j++) g[j] -= exp(l[k] - sum) * (x[j] - m[k]) / (s[k] * s[k]);
  return sum;
}

/* A component at (at, at), wider than the hill there by this factor. */
static void put_part(atvi_vi *v, double at, double sd) {
  double shift[2] = {at, at}, chol[4] = {sd, 0, 0.3 * sd, sd};
  CHECK(atvi_infer_vi_member_new(v, shift, chol, &v->part[v->n_part].at));
  v->part[v->n_part++].log_evidence = 0;
}

static double runs(const atvi_vi *v) { return (double)atvi_model_evaluator_count(v->ev); }

/* What a fit does to its draws, with components that are far from perfect: some, then all of one component;
 * another is added; the first one changes. No draw is run twice, and the evidence is right within the errors
 * that it states: their root mean square over many seeds is one, within what chance allows. */
static void kept_draws_have_honest_errors(void) {
  double sum_sq = 0, sum = 0, n = 0;
  for (uint64_t seed = 1; seed <= (uint64_t)test_seeds(12, 30); seed++) {
    toy t = {.lik = two_hills, .no_prior = true};
    atvi_vi_opts o = atvi_infer_vi_defaults();
    atvi_vi_weights w = {0};
    o.seed = seed;
    o.ess = 6000;
    toy_set(&t, 2, -HUGE_VAL, HUGE_VAL);
    inside *in = inside_new(&t, &o, 1);
    atvi_vi *v = &in->v;
    v->n_part = 0;
    put_part(v, 0, 3.2);
    CHECK_OK(atvi_infer_vi_weigh(v, &w, false));
    CHECK_INT(w.c.n, 4096);
    double x = w.c.x[17], log_q = w.c.log_q[17];
    CHECK_OK(atvi_infer_vi_weigh(v, &w, true));
    CHECK(w.all && runs(v) == (double)w.c.n && w.c.n > 8000);
    CHECK(w.c.x[17] == x && w.c.log_q[17] == log_q);
    /* a component is added */
    put_part(v, 3.1, 0.8);
    v->part[1].log_evidence = log(0.3);
    double before = runs(v);
    atvi_idx kept = w.c.n;
    CHECK_OK(atvi_infer_vi_weigh(v, &w, true));
    CHECK(w.c.n > kept && runs(v) - before == (double)(w.c.n - kept));
    CHECK(w.c.x[17] == x && w.c.log_q[17] != log_q);
    CHECK_REL(v->part[0].share + v->part[1].share, 1, 1e-9);
    CHECK_ABS(v->part[0].log_evidence,
              log(1 - exp(v->part[1].log_evidence - w.psis.log_mean)) + w.psis.log_mean, 1e-9);
    sum_sq += pow(w.psis.log_mean / w.se, 2);
    sum += w.psis.log_mean / w.se;
    /* the first changes, and its draws are dropped */
    v->part[0].at.shift[0] = v->part[0].at.shift[1] = -1.6;
    v->part[0].drawn = 0;
    before = runs(v);
    CHECK_OK(atvi_infer_vi_weigh(v, &w, true));
    CHECK(runs(v) - before < (double)w.c.n && w.c.x[17] != x);
    sum_sq += pow(w.psis.log_mean / w.se, 2);
    sum += w.psis.log_mean / w.se;
    n += 2;
    atvi_infer_vi_weights_free(&w);
    inside_free(in);
  }
  if (TEST_SANITIZED) return;
  /* of n normal numbers the root mean square has a standard error of 1 / sqrt(2 n) */
  CHECK_MSG(fabs(sqrt(sum_sq / n) - 1) < 3.3 / sqrt(2 * n), "root mean square of errors in s.e.: %.2f",
            sqrt(sum_sq / n));
  CHECK_MSG(fabs(sum / sqrt(n)) < 3.5, "mean error in s.e., in its own: %.2f", sum / sqrt(n));
}

/* ---- fine-tuning ---- */

/* From a flow that has hardly been trained, the forward divergence has much to gain. Judged on draws of
 * another number than those that decided. */
static void tuning_helps_a_flow_that_is_not_done(void) {
  for (uint64_t seed = 1; seed <= (uint64_t)test_seeds(3, 3); seed++) {
    toy t = chain(4, 20);
    settle(&t);
    atvi_vi_opts o = atvi_infer_vi_defaults();
    o.seed = seed;
    inside *w = inside_new(&t, &o, 2);
    atvi_vi_trained ladder = atvi_infer_vi_climb(&w->v, w->m);
    atvi_vi_rounds_opts once = {.beta = 1, .step = ladder.step, .most = 1, .halvings = 1, .last = w->v.size};
    CHECK(ladder.done && atvi_infer_vi_rounds(&w->v, w->m, &once).done);
    double before = atvi_infer_vi_judge(&w->v, w->m, 1u << 30, NULL).share;
    bool kept = atvi_infer_vi_tune(&w->v, w->m, (int)w->v.tuning.round_steps);
    double after = atvi_infer_vi_judge(&w->v, w->m, 1u << 30, NULL).share;
    CHECK_MSG(kept && after > before, "seed %d: %d, ESS %.3f to %.3f", (int)seed, kept, before, after);
    inside_free(w);
  }
}

/* What did not help is undone to the bit. */
static void tuning_is_kept_or_undone(void) {
  for (uint64_t seed = 1; seed <= (uint64_t)test_seeds(6, 6); seed++) {
    toy t = chain(1, 6);
    settle(&t);
    atvi_vi_opts o = atvi_infer_vi_defaults();
    o.seed = seed;
    inside *w = inside_new(&t, &o, 1);
    size_t bytes = (size_t)w->v.size * sizeof(double);
    CHECK(atvi_infer_vi_train(&w->v, w->m));
    double *phi = malloc(bytes), before = atvi_infer_vi_judge(&w->v, w->m, w->v.scramble, NULL).share;
    memcpy(phi, w->m->phi, bytes);
    uint32_t fresh = w->v.scramble;
    bool kept = atvi_infer_vi_tune(&w->v, w->m, (int)w->v.tuning.round_steps);
    CHECK(kept == (memcmp(phi, w->m->phi, bytes) != 0));
    double after = atvi_infer_vi_judge(&w->v, w->m, fresh, NULL).share;
    CHECK(kept ? after > 0.99 * before : after == before);
    free(phi);
    inside_free(w);
  }
}

static void tuned_says_what_happened(void) {
  static const atvi_tune tune[2] = {ATVI_TUNE_ON, ATVI_TUNE_OFF};
  for (int k = 0; k < 2; k++) {
    toy t = chain(2, 6);
    settle(&t);
    atvi_vi_opts o = atvi_infer_vi_defaults();
    o.tune = tune[k];
    fitted f = fit_on(&t, &o, 2);
    check_chain(f.d);
    CHECK(k ? isnan(f.d->made->tuned) : f.d->made->tuned == 0 || f.d->made->tuned == 1);
    fitted_free(f);
  }
}

/* ---- the end ---- */

static bool stop_after(void *user) {
  int *left = user;
  return --*left < 0;
}

static void stopping_leaves_usable_draws(void) {
  static const int polls[4] = {0, 3, 40, 150};
  for (int k = 0; k < 4; k++) {
    toy t = chain(3, 20);
    settle(&t);
    atvi_vi_opts o = atvi_infer_vi_defaults();
    fitted f = {.ctx = test_ctx()};
    atvi_evaluator *ev;
    int left = polls[k];
    atvi_ctx_set_threads(f.ctx, 2);
    atvi_ctx_set_stop(f.ctx, stop_after, &left);
    CHECK_OK(atvi_model_evaluator_new(f.ctx, &t.target, &ev));
    CHECK_OK(atvi_infer_vi_run(f.ctx, ev, &o, &f.d));
    atvi_model_evaluator_free(ev);
    CHECK_INT(f.d->made->end, ATVI_END_STOPPED);
    double sum = 0;
    for (atvi_idx j = 0; j < f.d->n; j++) sum += f.d->weight[j];
    CHECK_REL(sum, 1, 1e-9);
    CHECK(f.d->n >= 16 && f.d->made->steps <= polls[k] + 1);
    fitted_free(f);
  }
}

static void limits_are_kept_to(void) {
  toy t = chain(3, 20);
  settle(&t);
  atvi_vi_opts o = atvi_infer_vi_defaults();
  for (double limit = TEST_SANITIZED ? 0.1 : 0.02;;
       limit *= 2) { /* a busy machine may not come to the first step */
    o.max_seconds = limit;
    fitted f = fit_on(&t, &o, 1);
    CHECK_INT(f.d->made->end, ATVI_END_LIMIT);
    CHECK(f.d->n > 100);
    bool stepped = f.d->made->steps > 0;
    fitted_free(f);
    if (stepped) break;
  }
  o = atvi_infer_vi_defaults();
  o.max_steps = 30;
  fitted f = fit_on(&t, &o, 1);
  CHECK_INT(f.d->made->end, ATVI_END_LIMIT);
  CHECK_INT(f.d->made->steps, 30);
  fitted_free(f);
}

static void effective_size_is_reached(void) {
  static const double wanted[3] = {500, 4000, 60000};
  for (int k = 0; k < 3; k++) {
    toy t = chain(2, 6);
    settle(&t);
    atvi_vi_opts o = atvi_infer_vi_defaults();
    o.ess = wanted[k];
    fitted f = fit_on(&t, &o, 2);
    double got = f.d->made->efficiency * (double)f.d->n;
    CHECK_MSG(got >= wanted[k], "ESS %.0f of %g", got, wanted[k]);
    CHECK(f.d->made->ess_wanted == wanted[k]);
    fitted_free(f);
  }
}

/* ---- the same again ---- */

static void same_draws(const atvi_draws *a, const atvi_draws *b) {
  CHECK_INT(a->n, b->n);
  CHECK(memcmp(a->x, b->x, (size_t)(a->n * a->n_col) * sizeof(double)) == 0);
  CHECK(memcmp(a->weight, b->weight, (size_t)a->n * sizeof(double)) == 0);
  CHECK(memcmp(a->log_lik, b->log_lik, (size_t)a->n * sizeof(double)) == 0);
  CHECK(memcmp(a->log_prior, b->log_prior, (size_t)a->n * sizeof(double)) == 0);
  CHECK(a->made->log_evidence == b->made->log_evidence && a->made->elbo == b->made->elbo);
  CHECK(a->made->steps == b->made->steps && a->made->evaluations == b->made->evaluations);
}

static void threads_and_repetition_do_not_matter(void) {
  static const char *const map[2] = {"auto", "surjection"};
  for (int k = 0; k < 2; k++) {
    toy t = chain(3, 2.1);
    settle(&t);
    atvi_vi_opts o = atvi_infer_vi_defaults();
    o.map = map[k];
    fitted a = fit_on(&t, &o, 1), b = fit_on(&t, &o, 2), c = fit_on(&t, &o, 2);
    same_draws(a.d, b.d);
    same_draws(b.d, c.d);
    o.seed = 2;
    fitted e = fit_on(&t, &o, 2);
    CHECK(e.d->x[0] != a.d->x[0] && e.d->made->log_evidence != a.d->made->log_evidence);
    CHECK_ABS(e.d->made->log_evidence, a.d->made->log_evidence, 0.02);
    fitted all[4] = {a, b, c, e};
    for (int j = 0; j < 4; j++) {
      atvi_draws_free(all[j].d);
      atvi_ctx_free(all[j].ctx);
    }
    CHECK_INT(test_live, 0);
  }
}

static void plain_normals_serve_too(void) {
  toy t = chain(2, 6);
  settle(&t);
  atvi_vi_opts o = atvi_infer_vi_defaults();
  o.plain = true;
  fitted f = fit_on(&t, &o, 2);
  check_chain(f.d);
  fitted_free(f);
}

/* Every allocation of a short run fails in turn: in a process of its own, which goes on from there and says
 * how it ended. A second try that has no memory may be left out: then the run is none the worse. */
enum { DONE, WRONG, REFUSED }; /* WRONG: what Check ends with */
static struct {
  bool on, lacks;
  int refused;
} sweep;

static void *alloc_or_lack(void *user, size_t bytes) {
  if (sweep.on) {
    int how;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
      sweep.on = false, sweep.lacks = true;
      return NULL;
    }
    CHECK(waitpid(pid, &how, 0) == pid);
    CHECK_MSG(WIFEXITED(how) && (WEXITSTATUS(how) == DONE || WEXITSTATUS(how) == REFUSED),
              "allocation %ld: status %d", (long)test_allocs, how);
    sweep.refused += WEXITSTATUS(how) == REFUSED;
  }
  return test_alloc(user, bytes);
}

static void survives_faults(void) {
  static const atvi_allocator allocator = {alloc_or_lack, test_release, NULL};
  toy t = {.lik = toy_chain, .prior = toy_curved, .draw = toy_curved_draw};
  toy_set(&t, 1, 0, HUGE_VAL); /* a choice of maps, and other modes */
  atvi_vi_opts o = atvi_infer_vi_defaults();
  o.ess = 100;
  atvi_ctx *ctx;
  atvi_evaluator *ev;
  atvi_draws *d = (atvi_draws *)&t;
  CHECK_OK(atvi_ctx_new(&allocator, &ctx));
  atvi_ctx_set_threads(ctx,
                       1); /* more would be the context's to keep, and would not be in the other processes */
  CHECK_OK(atvi_model_evaluator_new(ctx, &t.target, &ev));
  long live = test_live;
  sweep.on = true;
  atvi_status status = atvi_infer_vi_run(ctx, ev, &o, &d);
  sweep.on = false;
  if (status != ATVI_OK) {
    CHECK(sweep.lacks);
    CHECK_STATUS(status, ATVI_ENOMEM);
    CHECK(d == NULL);
    CHECK_INT(test_live, live);
  }
  atvi_draws_free(d);
  atvi_model_evaluator_free(ev);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
  if (sweep.lacks) exit(status == ATVI_OK ? DONE : REFUSED);
  CHECK(sweep.refused > 10);
}

/* Weights whose tail leaves too much beyond the largest are refused, with a reason, but neither those of a
 * first look nor those that are hardly larger than the others. */
static void long_tails_are_refused(void) {
  char why[128];
  atvi_vi_weights w = {.c = {.n = 40000}, .psis = {.khat = 0.5, .excess = 0.07}, .top = 0.01, .se = 0.01};
  w.all = true;
  w.noise = 1;
  w.beyond = 0.0049;
  w.lacking = 0.03;
  CHECK(atvi_infer_vi_permits(&w) && atvi_infer_vi_tail_fits(&w));
  w.beyond = 0.0061;
  CHECK(!atvi_infer_vi_permits(&w) && !atvi_infer_vi_tail_fits(&w));
  atvi_infer_vi_refusal(&w, sizeof why, why);
  CHECK_STR(why, "the largest weights leave 0.6 % of the posterior beyond them");
  w.all = false;
  CHECK(atvi_infer_vi_permits(&w) && atvi_infer_vi_tail_fits(&w));
  w.all = true;
  w.lacking = 0.0093;
  CHECK(atvi_infer_vi_permits(&w) && atvi_infer_vi_tail_fits(&w));
  w.psis.khat = 0.83;
  CHECK(!atvi_infer_vi_permits(&w));
  atvi_infer_vi_refusal(&w, sizeof why, why);
  CHECK_STR(why, "k-hat 0.83");
}

TESTS({"long-tails", long_tails_are_refused}, {"kept", kept_draws_have_honest_errors},
      {"constants", constants_are_a_table}, {"defaults", defaults_are_what_they_say},
      {"refused", wrong_options_are_refused}, {"enough", training_ends_when_it_is_enough},
      {"pays", training_ends_when_it_does_not_pay}, {"kept", a_component_that_fits_is_kept},
      {"ladders", given_ladders_work}, {"frozen", frozen_blocks_do_not_move},
      {"tuning", tuning_helps_a_flow_that_is_not_done}, {"undone", tuning_is_kept_or_undone},
      {"tuned", tuned_says_what_happened}, {"stop", stopping_leaves_usable_draws},
      {"limits", limits_are_kept_to}, {"size", effective_size_is_reached},
      {"same", threads_and_repetition_do_not_matter}, {"plain", plain_normals_serve_too},
      {"faults", survives_faults})
