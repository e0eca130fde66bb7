/* SPDX-License-Identifier: MIT */
/* summary.json read back by a JSON parser; the table checked for width, alignment and digits. */
#include "world.h"
#include <jansson.h>

static json_t *parse(world *w, const atvi_summary *s) {
  const char *text;
  json_error_t error;
  CHECK_OK(atvi_diag_summary_json(w->pool, s, &text));
  CHECK(text[strlen(text) - 1] == '\n');
  json_t *o = json_loads(text, 0, &error);
  CHECK_MSG(o != NULL, "%s in %s", error.text, text);
  return o;
}

static double real(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }

static const char *string(const json_t *o, const char *key) {
  return json_string_value(json_object_get(o, key));
}

static void check_column(const json_t *o, const atvi_summary_column *c) {
  static const char *const quantile[] = {"2.5", "25", "50", "75", "97.5"};
  const json_t *q = json_object_get(o, "quantiles"), *hpd = json_object_get(o, "hpd95");
  const double tol = 1e-11; /* 12 digits are written */
  CHECK_INT(json_object_size(o), 15);
  CHECK_STR(string(o, "name"), c->name);
  CHECK_REL(real(o, "mean"), c->mean, tol);
  CHECK_REL(real(o, "sd"), c->sd, tol);
  CHECK_REL(real(o, "mode"), c->mode, tol);
  CHECK_REL(real(o, "median"), c->median, tol);
  CHECK_REL(real(o, "ess_bulk"), c->ess_bulk, tol);
  CHECK_REL(real(o, "ess_tail"), c->ess_tail, tol);
  CHECK_REL(real(o, "rhat"), c->rhat, tol);
  CHECK_REL(real(o, "mcse"), c->mcse, tol);
  CHECK_INT(json_array_size(hpd), 2);
  for (size_t k = 0; k < 2; k++) CHECK_REL(json_real_value(json_array_get(hpd, k)), c->hpd95[k], tol);
  CHECK_INT(json_object_size(q), 5);
  for (size_t k = 0; k < 5; k++) CHECK_REL(real(q, quantile[k]), c->quantile[k], tol);
}

static void json_has_every_key(void) {
  static const char *const key[] = {"method",         "model",       "seed",          "seconds",
                                    "evaluations",    "failures",    "log_map",       "log_evidence",
                                    "elbo",           "khat",        "verdict",       "messages",
                                    "parameters",     "derived",     "modes",         "outside",
                                    "rungs",          "steps",       "tuned",         "efficiency",
                                    "khat_threshold", "weighted",    "ess",           "excess",
                                    "lost",           "divergences", "ebfmi",         "tree_depth",
                                    "max_depth_hits", "exact",       "message_codes", "message_severities",
                                    "top_weight"};
  world w = world_new(4, 500, false);
  world_flat(&w);
  CHECK_OK(atvi_draws_say(w.d, ATVI_WARNING, ATVI_CODE_EMULATOR_POOR, "Quote \" and backslash \\."));
  const atvi_summary *s = world_summary(&w);
  json_t *o = parse(&w, s);
  CHECK_INT(json_object_size(o), sizeof key / sizeof *key);
  for (size_t i = 0; i < sizeof key / sizeof *key; i++)
    CHECK_MSG(json_object_get(o, key[i]) != NULL, "no %s", key[i]);
  CHECK_STR(string(o, "method"), "ram");
  CHECK_STR(string(o, "model"), "World");
  for (atvi_idx i = 0; i < s->n_message; i++) {
    const json_t *code = json_array_get(json_object_get(o, "message_codes"), (size_t)i);
    const json_t *severity = json_array_get(json_object_get(o, "message_severities"), (size_t)i);
    CHECK_STR(json_string_value(code), atvi_code_name(s->message[i].code));
    CHECK_STR(json_string_value(severity), atvi_severity_name(s->message[i].severity));
  }
  CHECK_INT(json_integer_value(json_object_get(o, "seed")), 7);
  CHECK(real(o, "seconds") == 12.25);
  CHECK_INT(json_integer_value(json_object_get(o, "evaluations")), 100000);
  CHECK_INT(json_integer_value(json_object_get(o, "failures")), 12);
  CHECK_REL(real(o, "log_map"), s->log_map, 1e-11);
  CHECK(json_is_null(json_object_get(o, "log_evidence")) && json_is_null(json_object_get(o, "elbo")));
  CHECK(json_is_null(json_object_get(o, "khat")));
  CHECK_STR(string(o, "verdict"), atvi_verdict_name(s->verdict));
  const json_t *messages = json_object_get(o, "messages"), *p = json_object_get(o, "parameters");
  CHECK_INT(json_array_size(messages), s->n_message);
  CHECK_STR(json_string_value(json_array_get(messages, (size_t)s->n_message - 1)),
            "Quote \" and backslash \\.");
  CHECK_INT(json_array_size(p), 2);
  check_column(json_array_get(p, 0), &s->col[0]);
  check_column(json_array_get(p, 1), &s->col[1]);
  CHECK(json_is_null(json_object_get(json_array_get(p, 0), "near_lower")));
  CHECK_REL(real(json_array_get(p, 1), "near_lower"), s->col[1].near_lower, 1e-11);
  CHECK_REL(real(json_array_get(p, 1), "near_upper"), s->col[1].near_upper, 1e-11);
  CHECK(json_is_false(json_object_get(json_array_get(p, 0), "reaches_lower")));
  CHECK(json_is_true(json_object_get(json_array_get(p, 1), "reaches_lower")));
  CHECK(json_is_true(json_object_get(json_array_get(p, 1), "reaches_upper")));
  CHECK_INT(json_array_size(json_object_get(o, "derived")), 1);
  check_column(json_array_get(json_object_get(o, "derived"), 0), &s->col[2]);
  json_decref(o);
  world_free(&w);
}

static void json_of_odd_values(void) {
  world w = world_new(1, 100, false);
  w.d->chains = false;
  w.d->made->log_evidence = -61.375;
  w.d->made->log_evidence_se = 0.03125;
  w.d->made->elbo = -62.5;
  w.d->made->khat = -HUGE_VAL;
  w.d->made->seed = UINT64_MAX;
  w.d->made->model = "caf\xE9 in Latin-1";
  w.d->x[3] = HUGE_VAL;
  json_t *o = parse(&w, world_summary(&w));
  const json_t *e = json_object_get(o, "log_evidence"),
               *p = json_array_get(json_object_get(o, "parameters"), 0);
  CHECK(real(e, "value") == -61.375 && real(e, "se") == 0.03125 && real(o, "elbo") == -62.5);
  CHECK(json_is_null(json_object_get(o, "khat")));
  CHECK_STR(string(o, "model"), "caf? in Latin-1");
  CHECK_STR(string(o, "seed"), "18446744073709551615"); /* readers would round it */
  CHECK(json_is_null(json_object_get(p, "mean")) && json_is_null(json_object_get(p, "rhat")));
  CHECK(json_is_null(json_array_get(json_object_get(p, "hpd95"), 0)));
  json_decref(o);
  world_free(&w);
}

static void json_of_an_approximation(void) {
  world w = world_new(1, 3000, true);
  atvi_made *m = w.d->made;
  m->method = "atvi", m->steps = 700;
  m->khat = 0.25, m->efficiency = 0.875, m->modes = 2, m->outside = 0.0625, m->rungs = 5, m->steps = 640;
  m->tuned = 0;
  for (atvi_idx i = 0; i < w.d->n; i++) w.d->weight[i] = i % 2 ? 1.5 / 3000 : 0.5 / 3000;
  json_t *o = parse(&w, world_summary(&w));
  CHECK_REL(real(o, "khat_threshold"), 0.7, 1e-11); /* 1 - 1 / log10(3000) = 0.712 */
  CHECK_REL(real(o, "ess"), 3000 / 1.25, 1e-11);
  CHECK(json_is_true(json_object_get(o, "weighted")) && json_is_false(json_object_get(o, "tuned")));
  CHECK(real(o, "efficiency") == 0.875 && real(o, "outside") == 0.0625);
  CHECK_INT(json_integer_value(json_object_get(o, "modes")), 2);
  CHECK_INT(json_integer_value(json_object_get(o, "rungs")), 5);
  CHECK_INT(json_integer_value(json_object_get(o, "steps")), 640);
  CHECK(json_is_null(json_object_get(json_array_get(json_object_get(o, "parameters"), 0), "rhat")));
  json_decref(o);
  m->khat = 0.9;
  m->tuned = 1;
  o = parse(&w, world_summary(&w));
  CHECK(json_is_false(json_object_get(o, "weighted")) && json_is_true(json_object_get(o, "tuned")));
  CHECK(json_is_null(json_object_get(o, "ess"))); /* nothing is known about that */
  for (int k = 0; k < 3; k++) {
    static const char *const key[3] = {"ess_bulk", "ess_tail", "mcse"};
    const json_t *first = json_array_get(json_object_get(o, "parameters"), 0);
    CHECK(json_is_null(json_object_get(first, key[k])));
  }
  json_decref(o);
  world_free(&w);
}

static size_t at; /* where the verdict is in the text */

static void check_width(const char *text) {
  for (const char *p = text; *p; p += strcspn(p, "\n") + 1) {
    int n = (int)strcspn(p, "\n");
    CHECK_MSG(n <= 100 && (n == 0 || p[n - 1] != ' '), "%d columns: %.*s", n, n, p);
  }
}

static void sampler_is_told_about(void) {
  world w = world_new(4, 500, false);
  atvi_made *m = w.d->made;
  const char *text;
  CHECK_OK(atvi_diag_summary_text(w.pool, world_summary(&w), &text, &at));
  CHECK(strstr(text, "sampler") == NULL);
  json_t *o = parse(&w, world_summary(&w));
  CHECK(json_is_null(json_object_get(o, "divergences")) && json_is_null(json_object_get(o, "ebfmi")));
  json_decref(o);
  m->method = "nuts";
  m->divergences = 17, m->ebfmi = 0.875, m->tree_depth = 3.4375, m->max_depth_hits = 2;
  o = parse(&w, world_summary(&w));
  CHECK_INT(json_integer_value(json_object_get(o, "divergences")), 17);
  CHECK_INT(json_integer_value(json_object_get(o, "max_depth_hits")), 2);
  CHECK(real(o, "ebfmi") == 0.875 && real(o, "tree_depth") == 3.4375);
  json_decref(o);
  CHECK_OK(atvi_diag_summary_text(w.pool, world_summary(&w), &text, &at));
  check_width(text);
  CHECK(strstr(text, "\nsampler  divergences 17, E-BFMI 0.88, mean tree depth 3.4, trees cut off 2\n"));
  world_free(&w);
}

/* The line of text that begins with start. */
static const char *line_of(world *w, const char *text, const char *start) {
  const char *p = text;
  while (*p && strncmp(p, start, strlen(start)) != 0) p += strcspn(p, "\n") + 1;
  CHECK_MSG(*p, "no line begins with %s in\n%s", start, text);
  return atvi_pool_strndup(w->pool, p, strcspn(p, "\n"));
}

static void table_is_aligned_and_rounded(void) {
  world w = world_new(4, 2000, false);
  w.d->made->log_evidence = -61.375;
  w.d->made->end = ATVI_END_LIMIT;
  const char *text;
  CHECK_OK(atvi_diag_summary_text(w.pool, world_summary(&w), &text, &at));
  check_width(text);
  const char *level = line_of(&w, text, "level"), *share = line_of(&w, text, "share"),
             *twice = line_of(&w, text, "twice");
  CHECK(strlen(level) == strlen(share) && strlen(level) == strlen(twice));
  double mean, sd, mode, median, low, high, ess, tail, rhat;
  CHECK_INT(sscanf(level + 5, "%lf %lf %lf %lf %lf %lf %lf %lf %lf", &mean, &sd, &mode, &median, &low, &high,
                   &ess, &tail, &rhat),
            9);
  CHECK_ABS(mean, 2.385, 0.04);
  CHECK_ABS(sd, 0.731, 0.03);
  CHECK(low < median && median < high && ess > 6000 && rhat < 1.01);
  CHECK(strstr(level, " 0.73") != NULL); /* three digits of the sd: its Monte Carlo error is 0.008 */
  CHECK(strstr(text, "R-hat") && strstr(text, "derived:\n") && strstr(text, "log evidence  -61.375\n"));
  CHECK(strstr(text,
               "World, method ram, seed 7: 4 chains of 2000 draws, 100000 model runs (12 failed), 12.2 s") !=
        NULL);
  CHECK(strncmp(text + at, "warn", 4) == 0 && strstr(text, "  - The run ended at its limit"));
  world_free(&w);
}

/* Half of level is from few draws with large weights far out: it is worth less than the weights by
 * themselves. */
static void the_least_of_effective_sizes(void) {
  world w = world_new(1, 3000, true);
  double ess;
  const char *text;
  w.d->made->method = "atvi", w.d->made->steps = 700, w.d->made->khat = 0.25;
  for (atvi_idx i = 0; i < w.d->n; i++) w.d->weight[i] = 1.0 / 3000;
  for (atvi_idx i = 0; i < 30; i++) w.d->weight[i] *= 8, w.d->x[i] = i % 2 ? 30 : -30;
  const atvi_summary *s = world_summary(&w);
  CHECK_INT(atvi_diag_summary_least_ess(s, &ess), 0);
  CHECK(ess == s->col[0].ess_bulk && ess < 0.5 * s->ess && s->col[1].ess_bulk > ess);
  CHECK_OK(atvi_diag_summary_text(w.pool, s, &text, &at));
  char want[64];
  snprintf(want, sizeof want, "(%.0f %%), for level", 100 * s->ess / 3000);
  CHECK_MSG(strstr(text, want) != NULL, "%s", text);
  for (atvi_idx i = 0; i < 2 * w.d->n; i++) w.d->x[i] = NAN;
  CHECK_INT(atvi_diag_summary_least_ess(world_summary(&w), &ess), -1);
  CHECK(isnan(ess));
  world_free(&w);
}

static void text_of_an_approximation(void) {
  world w = world_new(1, 3000, true);
  atvi_made *m = w.d->made;
  const char *text;
  m->method = "atvi", m->steps = 700;
  m->khat = 0.25, m->log_evidence = -97.9, m->log_evidence_se = 0.004, m->elbo = -97.95;
  m->rungs = 4, m->steps = 321, m->tuned = 1, m->modes = 1;
  for (atvi_idx i = 0; i < w.d->n; i++) w.d->weight[i] = i % 2 ? 1.5 / 3000 : 0.5 / 3000;
  CHECK_OK(atvi_diag_summary_text(w.pool, world_summary(&w), &text, &at));
  check_width(text);
  CHECK(strstr(text, ": 3000 weighted draws, "));
  CHECK(strstr(text, "\nlog evidence  -97.9000 +- 0.004, at least -97.9500 (ELBO)\n"));
  CHECK(strstr(
      text, "\nk-hat  0.25 (good up to 0.70); the weighted draws are worth 2400 independent ones (80 %)\n"));
  CHECK(strstr(text, "\ntraining  321 steps, 4 temperatures, fine-tuning kept\n"));
  m->khat = 1.15, m->excess = 0.0012; /* a tail that holds next to nothing */
  CHECK_OK(atvi_diag_summary_text(w.pool, world_summary(&w), &text, &at));
  check_width(text);
  CHECK(strstr(text, "\nk-hat  1.15 (good up to 0.70), which is harmless here: the tail that it describes"));
  CHECK(strstr(text, "(harmless below 0.5 %); the weighted draws are worth 2400"));
  CHECK(strstr(text, "verdict: ok\n"));
  CHECK_STR(atvi_diag_summary_khat(w.pool, world_summary(&w)),
            "k-hat is 1.15, above its threshold 0.70, but the tail that it describes has "
            "only 0.12 % "
            "of the weight (harmless below 0.5 %)");
  m->khat = 0.25;
  CHECK_STR(atvi_diag_summary_khat(w.pool, world_summary(&w)), "k-hat is 0.25 (good up to 0.70)");
  CHECK(strstr(text, "R-hat") == NULL && strstr(text, "verdict: ok\n"));
  m->khat = NAN; /* then the evidence is not to be trusted either */
  m->tuned = 0;
  m->modes = 3;
  m->rungs = 1;
  CHECK_OK(atvi_diag_summary_text(w.pool, world_summary(&w), &text, &at));
  CHECK(strstr(text, ": 3000 draws, ") && strstr(text, "\nlog evidence at least -97.950 (ELBO)\n"));
  CHECK(strstr(text,
               "\nk-hat  unknown (good up to 0.70); the draws are those of the uncorrected approximation\n"));
  CHECK(strstr(text, "\ntraining  321 steps, 3 modes, fine-tuning tried and undone\n"));
  const char *level = line_of(&w, text, "level");
  CHECK(level[strlen(level) - 1] == '-'); /* no ESS */
  world_free(&w);
}

static void evidence_has_the_decimals_of_its_error(void) {
  static const double se[] = {0.49, 0.31, 0.031, 0.0031, 3.1e-9, 0, NAN};
  static const char *const want[] = {
      "-97.12 +- 0.49,",       "-97.12 +- 0.31,", "-97.123 +- 0.031,", "-97.1235 +- 0.0031,",
      "-97.12346 +- 3.1e-09,", "-97.123 +- 0,",   "-97.123,"};
  world w = world_new(1, 3000, true);
  w.d->made->method = "atvi", w.d->made->steps = 700;
  w.d->made->khat = 0.25, w.d->made->log_evidence = -97.123456, w.d->made->elbo = -98.5;
  for (int k = 0; k < 7; k++) {
    const char *text;
    w.d->made->log_evidence_se = se[k];
    CHECK_OK(atvi_diag_summary_text(w.pool, world_summary(&w), &text, &at));
    CHECK_MSG(strstr(text, want[k]) != NULL, "no %s in\n%s", want[k], text);
  }
  const char *text; /* known by its order of magnitude alone: not at all */
  w.d->made->log_evidence_se = 12.3;
  CHECK_OK(atvi_diag_summary_text(w.pool, world_summary(&w), &text, &at));
  CHECK(!strstr(text, "-97.12") && strstr(text, "log evidence at least -98.500 (ELBO)"));
  json_t *o = parse(&w, world_summary(&w));
  CHECK(json_is_null(json_object_get(o, "log_evidence")));
  json_decref(o);
  world_free(&w);
}

static void table_fits_whatever_comes(void) {
  world w = world_new(1, 200, false);
  w.d->chains = false;
  atvi_summary *s = world_summary(&w);
  static const double scale[] = {1e-9, 1e-3, 1, 1e5, 1e12, 1e300};
  char name[300];
  memset(name, 'n', sizeof name);
  memcpy(name + sizeof name - 4, ".17", 4);
  const char *text;
  s->col[0].name = name;
  s->made.model = name;
  for (size_t k = 0; k < sizeof scale / sizeof *scale; k++) {
    for (int c = 0; c < 2; c++) {
      s->chains = c;
      s->col[1].mean = -1.2345678 * scale[k];
      s->col[1].sd = s->col[1].mcse = 0.2345678 * scale[k];
      s->col[1].quantile[4] = 3 * scale[k];
      CHECK_OK(atvi_diag_summary_text(w.pool, s, &text, &at));
      CHECK(strstr(text, ".17") != NULL); /* the index survives shortening */
      const char *table = strchr(text, '\n');
      while (table && strncmp(table, "\n\n", 2) != 0) table = strchr(table + 1, '\n');
      CHECK(table != NULL);
      check_width(table + 2);
    }
  }
  s->col[1].mean = s->col[1].sd = NAN;
  CHECK_OK(atvi_diag_summary_text(w.pool, s, &text, &at));
  CHECK(strstr(line_of(&w, text, "share"), " - ") != NULL);
  world_free(&w);
}

static void memory_failures_are_told(void) {
  world w = world_new(2, 50, false);
  const atvi_summary *s = world_summary(&w);
  for (int which = 0; which < 2; which++) {
    for (long k = 1;; k++) {
      atvi_pool *pool;
      const char *text = "";
      CHECK_OK(atvi_pool_new(w.ctx, &pool));
      test_fail_at = test_allocs + k;
      atvi_status status =
          which ? atvi_diag_summary_json(pool, s, &text) : atvi_diag_summary_text(pool, s, &text, &at);
      test_fail_at = 0;
      atvi_pool_free(pool);
      if (status == ATVI_OK) break;
      CHECK_INT(status, ATVI_ENOMEM);
      CHECK(text == NULL);
    }
  }
  world_free(&w);
}

TESTS({"json_keys", json_has_every_key}, {"json_odd", json_of_odd_values},
      {"json_vi", json_of_an_approximation}, {"least", the_least_of_effective_sizes},
      {"text_vi", text_of_an_approximation}, {"evidence", evidence_has_the_decimals_of_its_error},
      {"nuts", sampler_is_told_about}, {"table", table_is_aligned_and_rounded},
      {"table_fits", table_fits_whatever_comes}, {"memory", memory_failures_are_told})
