/* SPDX-License-Identifier: MIT */
/* Numbers of a fit that contradict each other are reported, each by itself. */
#include "infer/vi_state.h"
#include "testing.h"
#include <math.h>
#include <string.h>

enum { N = 1000 };

/* A fit of two parameters with log evidence -3 +- 0.01 that has nothing to contradict; the best of its draws
 * is at -1, and so is the one maximum. */
typedef struct {
  atvi_vi v;
  atvi_vi_weights w;
  atvi_peak peak;
  double log_pi[N], elbo, exact;
} world;

static world agreeing(void) {
  world o = {.elbo = -3.02};
  o.v.d = 2;
  o.v.n_part = o.v.search.looked = 1;
  o.v.search.log_absent = -HUGE_VAL;
  o.peak = (atvi_peak){.log_pi = -1, .log_evidence = -3};
  o.w.c.n = N;
  o.w.psis.khat = 0.2;
  o.w.psis.log_mean = -3;
  o.w.se = 0.01;
  o.w.noise = 1;
  for (int i = 0; i < N; i++) o.log_pi[i] = -1 - 0.01 * i;
  return o;
}

/* What is said begins with `text`; NULL: nothing is. */
static void check(world *o, const char *text) {
  atvi_ctx *ctx = test_ctx();
  atvi_draws *d;
  const atvi_column column[2] = {{.name = "a"}, {.name = "b"}};
  CHECK_OK(atvi_draws_new(ctx, 1, 1, 2, 2, column, false, &d));
  o->w.c.log_pi = o->log_pi;
  o->v.search.modes.n = 1;
  o->v.search.modes.mode = &o->peak;
  d->made->log_evidence = -3, d->made->log_evidence_se = 0.01;
  d->made->elbo = o->elbo, d->made->exact = o->exact;
  CHECK_OK(atvi_infer_vi_self_check(&o->v, &o->w, d));
  CHECK_INT(d->n_message, text != NULL);
  if (text && d->n_message == 1) {
    CHECK(d->message[0].code == ATVI_CODE_EVIDENCE_CONTRADICTS && d->message[0].severity == ATVI_WARNING);
    CHECK_MSG(strncmp(d->message[0].text, text, strlen(text)) == 0, "%s", d->message[0].text);
  }
  atvi_draws_free(d);
  atvi_ctx_free(ctx);
}

static void what_agrees_is_not_mentioned(void) {
  world o = agreeing();
  check(&o, NULL);
  o.exact = 1;
  check(&o, NULL);
}

static void a_maximum_outside_the_draws(void) {
  world o = agreeing();
  o.peak.log_pi = 20, o.peak.log_evidence = 15;
  check(&o, "The log evidence is -3.00, but one of the maxima found seems to hold e^18 times as much");
  o.peak.probed = true, o.peak.log_probe = -30; /* draws around it say that there is nothing */
  check(&o, NULL);
}

static void evidences_that_disagree(void) {
  world o = agreeing();
  o.elbo = -2.5;
  check(&o, "The log evidence -3.00 is below its lower bound -2.50");
  o = agreeing();
  o.exact = 1, o.w.psis.log_mean = -4;
  check(&o, "The log evidence is -3.00 by the chains and -4.00 by weighted draws");
  o.w.top = 0.9; /* weights that are refused contradict nothing */
  check(&o, NULL);
}

static void modes_still_found(void) {
  world o = agreeing();
  o.v.search.unsettled = 0.14;
  check(&o, "The last search for modes still found new ones, with 14 % of the posterior");
  o.exact = 1; /* chains that start from the draws do not find them either */
  check(&o, "The last search for modes still found new ones, with 14 % of the posterior");
}

static void points_where_the_draws_are_not(void) {
  world o = agreeing();
  o.v.search.log_absent = -3 + log(0.5);
  check(&o, "The log evidence is -3.00, but points annealed from the prior find 50 % as much");
  o.v.search.looked = 0; /* a component came since */
  check(&o, NULL);
  o.v.search.uncovered = 0.2;
  check(&o, "Points annealed from the prior find 20 % of the posterior");
}

/* Chains that have 45 % in places where q has next to nothing miss little of the 50 % that points found
 * there; those that have 10 % do. */
static void what_chains_have_is_not_absent(void) {
  for (int k = 0; k < 2; k++) {
    world o = agreeing();
    double log_ratio[N];
    o.exact = 1;
    o.v.wide = true; /* by which an effective size of 4 000 is wanted */
    o.v.opts.ess = 4000;
    o.v.search.log_missing = o.v.search.log_absent = -3 + log(0.5);
    for (int i = 0; i < N; i++) log_ratio[i] = i % 20 < (k ? 2 : 9) ? 3 : -3;
    atvi_infer_vi_present(&o.v, -3, N, log_ratio);
    CHECK_ABS(o.v.search.log_absent, -3 + log(k ? 0.4 : 0.05), 1e-9);
    check(&o, k ? "The log evidence is -3.00, but points annealed from the prior find 40 % as much" : NULL);
  }
}

static void weights_of_few_draws(void) {
  world o = agreeing();
  o.w.noise = 3;
  check(&o, "The log evidence differs between independent parts of the draws by 3.0 times");
  o = agreeing();
  o.w.sd_gap = 0.2;
  check(&o, "The sd of a parameter depends by 20 % on a few draws");
}

/* Weights whose tail has the shape 0.6 leave 0.55 % beyond the largest of 40 000: with n^(0.4) in place of n,
 * 1.65 times as many leave 0.45 %. */
static void a_few_more_draws_where_they_do(void) {
  world o = agreeing();
  atvi_vi_weights *w = &o.w;
  o.v.opts.ess = NAN;
  w->c.n = 40000;
  w->psis = (atvi_psis_info){.khat = 0.6, .excess = 0.1, .ess = 20000};
  w->all = true;
  w->lacking = 0.02;
  w->beyond = 0.0055;
  CHECK(!atvi_infer_vi_permits(w) && atvi_infer_vi_nearly_reaches(&o.v, w));
  w->beyond = 0.0045;
  CHECK(atvi_infer_vi_permits(w) && !atvi_infer_vi_nearly_reaches(&o.v, w));
  w->beyond = 0.007; /* three times as many */
  CHECK(!atvi_infer_vi_nearly_reaches(&o.v, w));
  w->beyond = 0.0055;
  w->noise = 3; /* which more draws do not mend */
  CHECK(!atvi_infer_vi_nearly_reaches(&o.v, w));
}

/* Of 5 000 draws worth a half each, 0.01 beyond becomes 0.004 with the 52 000 that are wanted if the tail has
 * the shape 0.6, and 0.008 if it has 0.9. */
static void the_tail_of_all_draws_is_foreseen(void) {
  world o = agreeing();
  atvi_vi_weights *w = &o.w;
  o.v.wide = true;
  o.v.opts.ess = 25000;
  w->c.n = 5000;
  w->psis = (atvi_psis_info){.khat = 0.6, .excess = 0.1, .ess = 2500};
  w->lacking = 0.02;
  w->beyond = 0.01;
  CHECK(atvi_infer_vi_will_reach(&o.v, w));
  w->psis.khat = 0.9;
  CHECK(!atvi_infer_vi_will_reach(&o.v, w));
  w->lacking = 0.005; /* hardly larger than the others */
  CHECK(atvi_infer_vi_will_reach(&o.v, w));
}

TESTS({"agree", what_agrees_is_not_mentioned}, {"maximum", a_maximum_outside_the_draws},
      {"evidences", evidences_that_disagree}, {"absent", points_where_the_draws_are_not},
      {"present", what_chains_have_is_not_absent}, {"unsettled", modes_still_found},
      {"weights", weights_of_few_draws}, {"more", a_few_more_draws_where_they_do},
      {"foreseen", the_tail_of_all_draws_is_foreseen})
