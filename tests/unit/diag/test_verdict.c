/* SPDX-License-Identifier: MIT */
/* Each rule provoked alone: verdict, and words that a message must contain. */
#include "world.h"

static bool says(const atvi_summary *s, const char *part) {
  for (atvi_idx i = 0; i < s->n_message; i++)
    if (strstr(s->message[i].text, part)) return true;
  return false;
}

#define CHECK_SAYS(s, part)                                                                                  \
  CHECK_MSG(says((s), (part)), "no message has '%s'; first: %s", (part),                                     \
            (s)->n_message ? (s)->message[0].text : "none")

#define CHECK_CODE(s, severity, code)                                                                        \
  CHECK_MSG(coded((s), (severity), (code)), "no message has the code %s; first: %s", atvi_code_name(code),   \
            (s)->n_message ? (s)->message[0].text : "none")

static bool coded(const atvi_summary *s, atvi_severity severity, atvi_code code) {
  for (atvi_idx i = 0; i < s->n_message; i++)
    if (s->message[i].code == code && s->message[i].severity == severity) return true;
  return false;
}

/* Moves chain c of `level` by shift sds. */
static void shift(world *w, atvi_idx c, double by) {
  atvi_idx n = w->d->n / w->d->n_chain;
  for (atvi_idx i = c * n; i < (c + 1) * n; i++) w->d->x[i] += by * 0.731;
}

static void good_draws_are_ok(void) {
  world w = world_new(4, 2000, false);
  const atvi_summary *s = world_summary(&w);
  CHECK_INT(s->verdict, ATVI_VERDICT_OK);
  CHECK_INT(s->n_message, 0);
  CHECK(atvi_diag_summary_reason(s) == NULL);
  CHECK_STR(atvi_verdict_name(ATVI_VERDICT_OK), "ok");
  CHECK_STR(atvi_verdict_name(ATVI_VERDICT_WARN), "warn");
  CHECK_STR(atvi_verdict_name(ATVI_VERDICT_BAD), "bad");
  world_free(&w);
}

static void rhat_has_three_steps(void) {
  world w = world_new(4, 2000, false);
  w.d->made->ess_wanted = 20; /* shifted chains also lose ESS; not the matter here */
  shift(&w, 1, 0.5);
  const atvi_summary *s = world_summary(&w);
  CHECK(s->col[0].rhat > 1.01 && s->col[0].rhat < 1.05);
  CHECK_INT(s->verdict, ATVI_VERDICT_WARN);
  CHECK_SAYS(s, "do not quite agree");
  CHECK_SAYS(s, "Affected: level.");
  shift(&w, 1, 0.6);
  s = world_summary(&w);
  CHECK(s->col[0].rhat > 1.05 && s->col[0].rhat < 1.2);
  CHECK_INT(s->verdict, ATVI_VERDICT_BAD);
  CHECK_SAYS(s, "The chains do not agree");
  shift(&w, 1, 8.9); /* 10 sds in all: 2.385 + 7.31 = 9.7, give or take 0.02 */
  s = world_summary(&w);
  CHECK_INT(s->verdict, ATVI_VERDICT_BAD);
  CHECK(strstr(s->message[0].text, "chains disagree about level") != NULL);
  CHECK_SAYS(s, "means are 2.39");
  CHECK_SAYS(s, ", 9.69, 2.");
  w.d->made->ess_wanted = 1000;
  s = world_summary(&w);
  CHECK(s->col[0].ess_bulk < 100);
  CHECK_INT(s->n_message, 1); /* the low ESS follows from the disagreement */
  world_free(&w);
}

static void ess_below_wanted(void) {
  world w = world_new(4, 2000, false);
  w.d->made->ess_wanted = 50000;
  const atvi_summary *s = world_summary(&w);
  CHECK_INT(s->verdict, ATVI_VERDICT_WARN);
  CHECK_SAYS(s, "50000 wanted");
  CHECK_SAYS(s, "run longer");
  w.d->made->ess_wanted = 2000;
  s = world_summary(&w);
  CHECK_INT(s->verdict, ATVI_VERDICT_OK);
  world_free(&w);
  w = world_new(2, 40, false);
  s = world_summary(&w);
  CHECK_INT(s->verdict, ATVI_VERDICT_BAD);
  CHECK_SAYS(s, "too few to trust");
  world_free(&w);
  w = world_new(2, 120, false);
  w.d->made->ess_wanted = NAN; /* then 400 */
  s = world_summary(&w);
  CHECK(s->verdict >= ATVI_VERDICT_WARN);
  CHECK_SAYS(s, "400 wanted");
  world_free(&w);
}

static void weights_on_few_draws(void) {
  world w = world_new(1, 4000, true);
  w.d->chains = false;
  w.d->made->ess_wanted = NAN;
  const atvi_summary *s = world_summary(&w);
  CHECK_INT(s->verdict, ATVI_VERDICT_OK);
  for (atvi_idx i = 0; i < w.d->n; i++) w.d->weight[i] = i < 200 ? 1.0 / 200 : 0;
  s = world_summary(&w);
  CHECK_INT(s->verdict, ATVI_VERDICT_WARN);
  CHECK_SAYS(s, "worth only 200 independent ones (400 wanted), so intervals are rough; use more draws.");
  for (atvi_idx i = 0; i < w.d->n; i++) w.d->weight[i] = i < 20 ? 1.0 / 20 : 0;
  s = world_summary(&w);
  CHECK_INT(s->verdict, ATVI_VERDICT_BAD);
  world_free(&w);
}

static void early_ends_and_failures(void) {
  world w = world_new(4, 2000, false);
  w.d->made->end = ATVI_END_LIMIT;
  const atvi_summary *s = world_summary(&w);
  CHECK_INT(s->verdict, ATVI_VERDICT_WARN);
  CHECK_SAYS(s, "ended at its limit before it reached the requested precision");
  w.d->chains = false;
  s = world_summary(&w);
  CHECK_INT(s->verdict, ATVI_VERDICT_WARN);
  CHECK_SAYS(s, "ended at its limit before it was finished");
  w.d->chains = true;
  w.d->made->end = ATVI_END_STOPPED;
  s = world_summary(&w);
  CHECK_INT(s->verdict, ATVI_VERDICT_WARN);
  CHECK_SAYS(s, "was stopped");
  w.d->made->end = ATVI_END_DONE;
  w.d->made->failures = 1000; /* just 1 % is not more than 1 % */
  s = world_summary(&w);
  CHECK_INT(s->verdict, ATVI_VERDICT_OK);
  w.d->made->failures = 3100;
  s = world_summary(&w);
  CHECK_INT(s->verdict, ATVI_VERDICT_WARN);
  CHECK_SAYS(s, "3.1 % of the model's runs failed (3100 of 100000)");
  world_free(&w);
}

/* The threshold is min(1 - 1 / log10 n, 0.7): 0.697 for 2000 draws, 0.5 for 100. */
static void khat_rules(void) {
  static const double khat[3] = {0.69, 0.71, 1.01};
  world w = world_new(1, 2000, false);
  for (int k = 0; k < 3; k++) {
    w.d->made->khat = khat[k];
    const atvi_summary *s = world_summary(&w);
    CHECK_INT(s->verdict, k);
    CHECK_INT(s->n_message, k > 0);
    if (k == 1) CHECK_SAYS(s, "k-hat 0.71 is above its threshold 0.70: the weights cannot be trusted");
    if (k == 2) CHECK_SAYS(s, "k-hat 1.01, should be below 0.70)");
    if (k > 0) CHECK_SAYS(s, "NOT corrected");
    if (k > 0) CHECK_INT(s->message[0].code, ATVI_CODE_KHAT_REFUSED);
  }
  CHECK_SAYS(world_summary(&w), "do not use these numbers");
  w.d->made->khat = 0.7; /* the threshold is 0.69706 */
  CHECK_SAYS(world_summary(&w), "k-hat 0.700 is above its threshold 0.697:");
  w.d->made->efficiency = 0.099;
  CHECK_INT(world_summary(&w)->verdict, ATVI_VERDICT_BAD);
  CHECK_SAYS(world_summary(&w), "the weights rest on few draws), too much for weights to correct");
  w.d->made->efficiency = NAN;
  w.d->made->khat = NAN; /* of Metropolis: there is none */
  CHECK_INT(world_summary(&w)->verdict, ATVI_VERDICT_OK);
  w.d->made->method = "nf", w.d->made->steps = 700;
  const atvi_summary *s = world_summary(&w);
  CHECK_INT(s->verdict, ATVI_VERDICT_BAD);
  CHECK_SAYS(s, "no k-hat");
  world_free(&w);
  w = world_new(1, 100, false);
  w.d->made->method = "atvi", w.d->made->steps = 700;
  w.d->made->khat = 0.51;
  s = world_summary(&w);
  CHECK_INT(s->verdict, ATVI_VERDICT_WARN);
  CHECK_SAYS(s, "k-hat 0.51 is above its threshold 0.50");
  world_free(&w);
}

/* Of an approximation: weights are used where k-hat permits, words are of training, modes are in the draws. */
static void approximations(void) {
  world w = world_new(1, 4000, true);
  atvi_made *m = w.d->made;
  m->method = "atvi", m->steps = 700;
  m->khat = 0.3;
  m->efficiency = 0.11;
  m->ess_wanted = NAN;
  for (atvi_idx i = 0; i < w.d->n; i++) w.d->weight[i] = w.d->x[i] > 2.385 ? 1 : 0;
  const atvi_summary *s = world_summary(&w);
  CHECK(s->weighted && s->col[0].mean > 2.8); /* half of a normal: 2.385 + 0.798 * 0.731 */
  CHECK_INT(s->verdict, ATVI_VERDICT_OK);
  m->khat = 0.8;
  s = world_summary(&w);
  CHECK(!s->weighted && s->col[0].mean < 2.5);
  CHECK_INT(s->verdict, ATVI_VERDICT_WARN);
  m->excess = 0.001; /* a tail of next to nothing */
  s = world_summary(&w);
  CHECK(s->weighted);
  CHECK_INT(s->verdict, ATVI_VERDICT_OK);
  m->excess = 0.006;
  CHECK_INT(world_summary(&w)->verdict, ATVI_VERDICT_WARN);
  m->khat = 0.3;
  m->evaluations = 1000, m->failures = 900, m->lost = 0.009; /* failures on the way do no harm */
  CHECK_INT(world_summary(&w)->verdict, ATVI_VERDICT_OK);
  m->lost = 0.03;
  s = world_summary(&w);
  CHECK_INT(s->verdict, ATVI_VERDICT_WARN);
  CHECK_SAYS(s, "failed at 3 % of the last draws");
  m->lost = 0;
  m->end = ATVI_END_STOPPED;
  s = world_summary(&w);
  CHECK_INT(s->verdict, ATVI_VERDICT_WARN);
  CHECK_SAYS(s, "stopped before the approximation was finished; these are its draws up to then, weighted");
  CHECK_SAYS(s, "the posterior. Other modes had not been searched for yet. Let it finish");
  m->method = "nf", m->steps = 700; /* which never does */
  CHECK_SAYS(world_summary(&w), "weighted to the posterior. Let it finish");
  m->method = "atvi", m->steps = 700;
  m->modes = 1;
  CHECK_SAYS(world_summary(&w), "weighted to the posterior. Let it finish");
  m->modes = NAN;
  m->end = ATVI_END_LIMIT;
  s = world_summary(&w);
  CHECK_INT(s->verdict, ATVI_VERDICT_WARN);
  CHECK_SAYS(s, "reached its limit before the approximation was finished");
  CHECK_CODE(s, ATVI_WARNING, ATVI_CODE_LIMIT);
  m->end = ATVI_END_DONE;
  m->modes = 3;
  s = world_summary(&w);
  CHECK_INT(s->verdict, ATVI_VERDICT_OK);
  CHECK_INT(s->n_message, 1);
  CHECK_SAYS(s, "The posterior has 3 separate modes");
  m->khat = 0.8;
  s = world_summary(&w);
  CHECK_INT(s->verdict, ATVI_VERDICT_WARN);
  CHECK_SAYS(s, "The posterior seems to have 3 separate modes; their shares are not known.");
  world_free(&w);
}

static void efficiency_of_weights(void) {
  static const double e[4] = {0.101, 0.099, 0.0101, 0.0099};
  world w = world_new(1, 4000, true);
  w.d->made->method = "nf", w.d->made->steps = 700;
  w.d->made->khat = 0.3;
  w.d->made->ess_wanted = NAN;
  for (int k = 0; k < 4; k++) {
    w.d->made->efficiency = e[k];
    const atvi_summary *s = world_summary(&w);
    CHECK_INT(s->verdict, k == 0 ? ATVI_VERDICT_OK : k < 3 ? ATVI_VERDICT_WARN : ATVI_VERDICT_BAD);
    CHECK_INT(s->n_message, k > 0);
    if (k == 0) continue;
    CHECK_SAYS(s, "The weights rest on few draws");
    CHECK_SAYS(s, "part of the posterior may be missed");
    CHECK_CODE(s, k < 3 ? ATVI_WARNING : ATVI_SERIOUS, ATVI_CODE_WEIGHTS_POOR);
    CHECK(atvi_diag_summary_reason(s) == &s->message[0]);
  }
  CHECK_SAYS(world_summary(&w), "worth only 0.99 % of their number");
  world_free(&w);
}

static void ess_of_weights_asked_for(void) {
  world w = world_new(1, 4000, true);
  atvi_made *m = w.d->made;
  m->method = "atvi", m->steps = 700;
  m->khat = 0.3;
  m->efficiency = 0.2;
  m->ess_wanted = 3999;
  CHECK_INT(world_summary(&w)->verdict, ATVI_VERDICT_OK);
  m->ess_wanted = 5000;
  const atvi_summary *s = world_summary(&w);
  CHECK_INT(s->verdict, ATVI_VERDICT_WARN);
  CHECK_SAYS(s, "worth only 4000 independent ones");
  CHECK_SAYS(s, "(5000 wanted); the approximation is too far from the posterior.");
  CHECK_CODE(s, ATVI_WARNING, ATVI_CODE_WEIGHTS_POOR);
  m->efficiency = 0.98; /* a good approximation, and as many draws as there may be */
  CHECK_SAYS(world_summary(&w), "(5000 wanted); the number of draws is at its limit.");
  CHECK_CODE(world_summary(&w), ATVI_WARNING, ATVI_CODE_ESS_LOW);
  m->end = ATVI_END_STOPPED;
  m->modes = 1;
  CHECK_SAYS(world_summary(&w), "(5000 wanted); let the fit finish.");
  m->end = ATVI_END_DONE;
  m->ess_wanted = NAN;
  for (atvi_idx i = 0; i < w.d->n; i++) w.d->weight[i] = i < 399 ? 1 : 0;
  s = world_summary(&w);
  CHECK_INT(s->verdict, ATVI_VERDICT_WARN);
  CHECK_SAYS(s, "worth only 399 independent ones (400 wanted), so intervals are rough;");
  m->ess_wanted = 300; /* reached: whoever asks for little gets it */
  CHECK_INT(world_summary(&w)->verdict, ATVI_VERDICT_OK);
  world_free(&w);
}

/* Large weights where `level` is high: the weights as a whole are worth enough, its upper quantile is not. */
static void ess_of_one_parameter(void) {
  world w = world_new(1, 4000, true);
  w.d->made->method = "atvi", w.d->made->steps = 700;
  w.d->made->khat = 0.3;
  w.d->made->ess_wanted = NAN;
  for (atvi_idx i = 0; i < w.d->n; i++) w.d->weight[i] = exp(1.3 * (w.d->x[i] - 2.385) / 0.731);
  const atvi_summary *s = world_summary(&w);
  CHECK(s->ess > 500 && s->col[0].ess_tail < 400);
  CHECK_INT(s->verdict, ATVI_VERDICT_WARN);
  CHECK_SAYS(s, "independent ones for level (400 wanted), so intervals are rough");
  world_free(&w);
}

/* A failed run has weight zero, and whatever its derived quantities are does not matter. */
static void draws_without_weight_do_not_count(void) {
  world w = world_new(1, 4000, true);
  w.d->made->khat = 0.1;
  const double mean = world_summary(&w)->col[2].mean;
  w.d->weight[17] = 0;
  w.d->x[2 * w.d->n + 17] = NAN;
  const atvi_summary *s = world_summary(&w);
  CHECK_ABS(s->col[2].mean, mean, 3e-3); /* one draw of 4000 */
  CHECK(isfinite(s->col[2].mcse) && isfinite(s->col[2].hpd95[0]) && isfinite(s->col[2].mode));
  CHECK_INT(s->n_message, 0);
  for (atvi_idx i = 0; i < w.d->n; i++) w.d->weight[i] = 0;
  s = world_summary(&w);
  CHECK(isnan(s->col[0].mean));
  CHECK_INT(s->verdict, ATVI_VERDICT_BAD);
  world_free(&w);
}

static void several_modes_are_a_warning(void) {
  world w = world_new(1, 2000, false);
  w.d->chains = false;
  for (int modes = 1; modes <= 3; modes++) {
    w.d->made->modes = modes;
    const atvi_summary *s = world_summary(&w);
    CHECK_INT(s->verdict, modes > 1 ? ATVI_VERDICT_WARN : ATVI_VERDICT_OK);
    CHECK_INT(s->n_message, modes > 1);
    if (modes == 3) CHECK_SAYS(s, "There are 3 separate maxima of similar height");
  }
  world_free(&w);
}

static void mass_at_a_bound_is_a_note(void) {
  world w = world_new(4, 2000, false);
  for (atvi_idx i = 0; i < w.d->n; i++) w.d->x[w.d->n + i] = fabs(2 * w.d->x[w.d->n + i] - 1);
  const atvi_summary *s = world_summary(&w);
  CHECK_INT(s->verdict, ATVI_VERDICT_OK);
  CHECK_INT(s->n_message, 1);
  CHECK(atvi_diag_summary_reason(s) == NULL);
  CHECK_SAYS(s, "share reaches its lower bound 0: its density is still about ");
  for (atvi_idx i = 0; i < w.d->n; i++) w.d->x[w.d->n + i] = 1 - w.d->x[w.d->n + i];
  s = world_summary(&w);
  CHECK_SAYS(s, "share reaches its upper bound 1:");
  CHECK_INT(s->n_message, 1);
  world_flat(&w);
  s = world_summary(&w);
  CHECK_SAYS(s, "share reaches both of its bounds: its density is still about ");
  CHECK_INT(s->n_message, 1);
  world_free(&w);
}

/* Elements of rate at 0, of share at both bounds, and two parameters of their own. */
static void elements_at_bounds_share_a_note(void) {
  enum { RATES = 9, COLUMNS = RATES + 4, DRAWS = 8000 };
  static char name[COLUMNS][16];
  atvi_column col[COLUMNS];
  world w = {.ctx = test_ctx()};
  uint64_t state = 731;
  for (int k = 0; k < COLUMNS; k++) {
    snprintf(name[k], sizeof name[k], k < RATES ? "rate.s%d" : "share.%d", k < RATES ? k : k - RATES);
    col[k] = (atvi_column){name[k], 0, k < RATES ? HUGE_VAL : 1};
  }
  col[RATES + 2].name = "shared"; /* begins like another */
  col[RATES + 3].name = "rate";
  CHECK_OK(atvi_pool_new(w.ctx, &w.pool));
  CHECK_OK(atvi_draws_new(w.ctx, DRAWS, 4, COLUMNS, COLUMNS, col, false, &w.d));
  for (atvi_idx i = 0; i < COLUMNS * DRAWS; i++) {
    double u = world_uniform(&state);
    w.d->x[i] = i < (RATES - 1) * DRAWS ? -log(u)
                : i < RATES * DRAWS     ? 3 + u
                                        : u; /* the last rate is elsewhere */
  }
  const atvi_summary *s = world_summary(&w);
  CHECK_INT(s->verdict, ATVI_VERDICT_OK);
  CHECK_INT(s->n_message, 4);
  CHECK_SAYS(
      s,
      "rate.s0, rate.s1, rate.s2, rate.s3, rate.s4 and 3 more reach their lower bounds: their densities are "
      "still at least ");
  CHECK_SAYS(s, "share.0, share.1 reach their bounds on both sides: ");
  CHECK_SAYS(s, "shared reaches both of its bounds: ");
  CHECK_SAYS(s, "rate reaches both of its bounds: ");
  world_free(&w);
}

static void chains_that_stand_still(void) {
  world w = world_new(4, 2000, false);
  for (atvi_idx i = 0; i < 2000; i++) w.d->x[2000 + i] = 2.4, w.d->x[w.d->n + 2000 + i] = 0.3;
  const atvi_summary *s = world_summary(&w);
  CHECK_INT(s->verdict, ATVI_VERDICT_BAD);
  CHECK(strstr(s->message[0].text, "Chain 2 never moved") != NULL);
  CHECK_INT(s->n_message, 1);
  for (atvi_idx i = 0; i < 2000; i++) w.d->x[i] = 2.4, w.d->x[w.d->n + i] = 0.3;
  s = world_summary(&w);
  CHECK(strstr(s->message[0].text, "2 of 4 chains never moved") != NULL);
  for (atvi_idx i = 0; i < w.d->n; i++) w.d->x[i] = 2.4, w.d->x[w.d->n + i] = 0.3;
  s = world_summary(&w);
  CHECK_INT(s->verdict, ATVI_VERDICT_BAD);
  CHECK(strstr(s->message[0].text, "No chain ever moved") != NULL);
  world_free(&w);
}

static void draws_that_are_not_numbers(void) {
  world w = world_new(4, 2000, false);
  w.d->x[2 * w.d->n + 5] = NAN;
  const atvi_summary *s = world_summary(&w);
  CHECK_INT(s->verdict, ATVI_VERDICT_OK);
  CHECK_SAYS(s, "twice is not a finite number");
  w.d->x[5] = NAN;
  s = world_summary(&w);
  CHECK_INT(s->verdict, ATVI_VERDICT_BAD);
  CHECK_SAYS(s, "draws of level are not finite numbers");
  world_free(&w);
  w = world_new(3, 3, false);
  s = world_summary(&w);
  CHECK_INT(s->verdict, ATVI_VERDICT_BAD);
  CHECK_SAYS(s, "only 3 draws per chain");
  world_free(&w);
}

static void derived_quantities_do_not_count(void) {
  world w = world_new(4, 2000, false);
  for (atvi_idx i = 0; i < 2000; i++) w.d->x[2 * w.d->n + i] += 100;
  const atvi_summary *s = world_summary(&w);
  CHECK(s->col[2].rhat > 1.2);
  CHECK_INT(s->verdict, ATVI_VERDICT_OK);
  world_free(&w);
}

static void divergences_and_energy(void) {
  world w = world_new(4, 2000, false);
  atvi_made *m = w.d->made;
  m->divergences = 0, m->ebfmi = 0.21, m->tree_depth = 3, m->max_depth_hits = 0;
  CHECK_INT(world_summary(&w)->verdict, ATVI_VERDICT_OK);
  CHECK_INT(world_summary(&w)->n_message, 0);
  m->max_depth_hits = 12;
  const atvi_summary *s = world_summary(&w);
  CHECK_INT(s->verdict, ATVI_VERDICT_OK);
  CHECK_SAYS(s, "12 of the sampler's trajectories were cut off");
  m->ebfmi = 0.19;
  s = world_summary(&w);
  CHECK_INT(s->verdict, ATVI_VERDICT_WARN);
  CHECK_SAYS(s, "E-BFMI 0.19, should be above 0.2");
  m->ebfmi = 0.9;
  for (int bad = 0; bad < 2; bad++) {
    m->divergences = 80 + bad; /* 1 % of 8000 draws, and one more */
    s = world_summary(&w);
    CHECK_INT(s->verdict, bad ? ATVI_VERDICT_BAD : ATVI_VERDICT_WARN);
    CHECK_SAYS(s,
               bad ? "81 of the sampler's trajectories diverged" : "the draws may miss some of that region");
  }
  m->max_depth_hits = m->divergences = 0;
  CHECK_INT(world_summary(&w)->n_message, 0);
  world_free(&w);
}

static void own_messages_come_last(void) {
  world w = world_new(4, 2000, false);
  w.d->made->end = ATVI_END_LIMIT;
  CHECK_OK(atvi_draws_say(w.d, ATVI_NOTE, ATVI_CODE_NONE, "From the method: 100 %%."));
  const atvi_summary *s = world_summary(&w);
  CHECK_INT(s->n_message, 2);
  CHECK(atvi_diag_summary_reason(s) == &s->message[0]);
  CHECK_INT(s->message[0].code, ATVI_CODE_LIMIT_PRECISION);
  CHECK_STR(s->message[1].text, "From the method: 100 %.");
  world_free(&w);
}

/* The verdict is as bad as the most severe message, wherever it comes from, and the first of those is the
 * reason. */
static void the_most_severe_message_decides(void) {
  static const atvi_severity last[] = {ATVI_NOTE, ATVI_WARNING, ATVI_SERIOUS};
  for (int k = 0; k < 3; k++) {
    world w = world_new(4, 2000, false);
    CHECK_OK(atvi_draws_say(w.d, ATVI_NOTE, ATVI_CODE_GAPS, "First."));
    CHECK_OK(atvi_draws_say(w.d, last[k], ATVI_CODE_EMULATOR_POOR, "Warning: not cut."));
    CHECK_OK(atvi_draws_say(w.d, last[k], ATVI_CODE_EMULATOR_OUTSIDE, "Third."));
    const atvi_summary *s = world_summary(&w);
    CHECK_INT(s->verdict, k);
    CHECK_INT(s->n_message, 3);
    CHECK_CODE(s, last[k], ATVI_CODE_EMULATOR_OUTSIDE);
    CHECK_STR(s->message[1].text, "Warning: not cut.");
    CHECK(atvi_diag_summary_reason(s) == (k ? &s->message[1] : NULL));
    world_free(&w);
  }
}

/* Chains of the exact sampler are judged as chains, whatever k-hat the approximation has. */
static void exact_chains(void) {
  world w = world_new(4, 500, false);
  atvi_made *m = w.d->made;
  m->method = "atvi", m->steps = 700;
  m->khat = 1.3, m->excess = 0.2, m->efficiency = 0.004, m->exact = 1;
  const atvi_summary *s = world_summary(&w);
  CHECK(s->chains && !s->refused && !s->weighted && s->col[0].rhat > 0);
  CHECK_INT(s->verdict, ATVI_VERDICT_OK);
  m->end = ATVI_END_LIMIT;
  s = world_summary(&w);
  CHECK_INT(s->verdict, ATVI_VERDICT_WARN);
  CHECK_SAYS(s, "before it reached the requested precision");
  world_free(&w);
}

/* A good k-hat does not save weights of which one outweighs the others, or that contradict each other; what
 * the largest was is not known of older files. */
static void weights_that_contradict(void) {
  world w = world_new(1, 4000, true);
  atvi_made *m = w.d->made;
  m->method = "atvi", m->steps = 700, m->khat = 0.41, m->efficiency = 0.99;
  m->log_evidence = 9.76, m->log_evidence_se = 0.02;
  CHECK_INT(world_summary(&w)->verdict, ATVI_VERDICT_OK);
  m->top_weight = 0.49;
  CHECK_INT(world_summary(&w)->verdict, ATVI_VERDICT_OK);
  m->top_weight = 0.99;
  const atvi_summary *s = world_summary(&w);
  CHECK(s->refused && !s->weighted);
  CHECK_INT(s->verdict, ATVI_VERDICT_BAD);
  CHECK_CODE(s, ATVI_SERIOUS, ATVI_CODE_WEIGHTS_CONTRADICT);
  CHECK_SAYS(s, "One draw of 4000 has 99 % of the weight of all");
  m->top_weight = 0.3, m->log_evidence_se = 0.6;
  s = world_summary(&w);
  CHECK_INT(s->verdict, ATVI_VERDICT_BAD);
  CHECK_SAYS(s, "its standard error is 0.6 nats");
  m->exact = 1; /* chains do not rest on the weights */
  CHECK(!world_summary(&w)->refused);
  world_free(&w);
}

/* Means and sds that do not exist are not shown; a note says so, and the verdict stays. */
static void moments_that_do_not_exist(void) {
  world w = world_new(4, 2000, false);
  uint64_t state = 77;
  for (atvi_idx i = 0; i < w.d->n; i++) w.d->x[i] = tan(3.141592653589793 * (world_uniform(&state) - 0.5));
  const atvi_summary *s = world_summary(&w);
  CHECK(isnan(s->col[0].mean) && isnan(s->col[0].sd) && isnan(s->col[0].mcse));
  CHECK_ABS(s->col[0].median, 0, 0.1);
  CHECK(isfinite(s->col[1].mean) && isfinite(s->col[1].sd)); /* on [0, 1] */
  CHECK_INT(s->verdict, ATVI_VERDICT_OK);
  CHECK_SAYS(s, "The tails of level are so long that its standard deviation does not exist");
  CHECK_SAYS(s, "its mean may not");
  world_free(&w);
  /* a mean without a variance: P(x > t) = t^(-4/3) */
  w = world_new(4, 40000, false);
  for (atvi_idx i = 0; i < w.d->n; i++) w.d->x[i] = pow(1 - world_uniform(&state), -0.75);
  s = world_summary(&w);
  CHECK(isnan(s->col[0].sd) && isnan(s->col[0].mcse));
  CHECK_ABS(s->col[0].mean, 4, 1);
  CHECK_SAYS(s, "its standard deviation does not exist, judging by the draws: use the interval");
  /* draws that look the same, of a prior that has a variance */
  const atvi_prior prior[2] = {{.dist = "gamma", .arg = {1, 0.01}, .upper = INFINITY}, {0}};
  w.d->prior = prior;
  s = world_summary(&w);
  CHECK(isfinite(s->col[0].sd) && isfinite(s->col[0].mean));
  /* and of one that has neither, whatever they look like */
  const atvi_prior cauchy[2] = {{.dist = "cauchy", .arg = {0, 1}, .lower = -INFINITY, .upper = INFINITY},
                                {0}};
  w.d->prior = cauchy;
  s = world_summary(&w);
  CHECK(isnan(s->col[0].sd) && isnan(s->col[0].mean));
  w.d->prior = NULL;
  world_free(&w);
}

static void narrower_than_numbers(void) {
  world w = world_new(1, 4000, true);
  for (atvi_idx i = 0; i < w.d->n; i++) w.d->x[i] = 1;
  const atvi_summary *s = world_summary(&w);
  CHECK_INT(s->verdict, ATVI_VERDICT_WARN);
  CHECK_SAYS(s, "All draws of level are the same number to the last digit");
  world_free(&w);
}

TESTS({"contradict", weights_that_contradict}, {"moments", moments_that_do_not_exist},
      {"narrow", narrower_than_numbers}, {"exact", exact_chains}, {"ok", good_draws_are_ok},
      {"rhat", rhat_has_three_steps}, {"ess", ess_below_wanted}, {"weights", weights_on_few_draws},
      {"ends", early_ends_and_failures}, {"khat", khat_rules}, {"approximations", approximations},
      {"efficiency", efficiency_of_weights}, {"ess_wanted", ess_of_weights_asked_for},
      {"ess_one", ess_of_one_parameter}, {"no_weight", draws_without_weight_do_not_count},
      {"modes", several_modes_are_a_warning}, {"bounds", mass_at_a_bound_is_a_note},
      {"elements", elements_at_bounds_share_a_note}, {"stuck", chains_that_stand_still},
      {"nan", draws_that_are_not_numbers}, {"derived", derived_quantities_do_not_count},
      {"own", own_messages_come_last}, {"severity", the_most_severe_message_decides},
      {"nuts", divergences_and_energy})
