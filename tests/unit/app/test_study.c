/* SPDX-License-Identifier: MIT */
/* Studies and calibration runs are counted from their records: made-up records here. */
#include "app/study.h"
#include "io/text.h"
#include "math/rng.h"
#include "math/special.h"
#include "testing.h"

static atvi_ctx *ctx;
static atvi_pool *pool;

static void begin(void) {
  ctx = test_ctx();
  CHECK_OK(atvi_pool_new(ctx, &pool));
}

static void end(void) {
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static atvi_csv *record(const char *text) {
  atvi_csv *csv;
  CHECK_OK(atvi_io_csv_parse(pool, "replicates.csv", text, strlen(text), &csv));
  return csv;
}

static const atvi_quantity quantity[2] = {{"beta", ATVI_QUANTITY_PARAMETER, 1.1},
                                          {"burden", ATVI_QUANTITY_TRACKED, NAN}};

/* Four data sets with atvi, one of which failed, and one with ram; the fifth is more than was asked for. */
static const char studied[] =
    "replicate,method,status,reason,verdict,seconds,khat,rhat,coverage,ail,mspe,beta.covered,beta.mode,"
    "beta.low,beta.high,burden.covered,burden.length,burden.mse\n"
    "1,atvi,ok,,ok,2,0.31,NA,0.9,12,4.5,1,1.2,0.9,1.4,0.75,7.5,2\n"
    "2,atvi,failed,\"no, never\",,NA,NA,NA,NA,NA,NA,NA,NA,NA,NA,NA,NA,NA\n"
    "3,atvi,ok,,warn,4,0.64,NA,1,14,5.5,0,1.4,1.2,1.6,1,8.5,4\n"
    "4,atvi,ok,,bad,3,0.12,NA,0.8,13,3.5,1,1.1,0.8,1.2,0.95,8,3\n"
    "5,atvi,ok,,ok,900,0.9,NA,0,900,900,0,9,8,9,0,1,1\n"
    "1,ram,ok,,ok,7,NA,1.004,0.9,12,4.5,1,1.2,0.9,1.4,0.75,7.5,2\n";

static atvi_study counted(void) {
  atvi_study s = {.model = "sir", .seed = 3, .replicates = 4, .n_quantity = 2, .quantity = quantity};
  s.n_method = 2;
  s.method = atvi_pool_take(pool, 2, sizeof *s.method);
  s.method[0].name = "atvi";
  s.method[1].name = "ram";
  CHECK_OK(atvi_app_study_count(pool, record(studied), &s));
  return s;
}

static void counts_a_study(void) {
  begin();
  atvi_study s = counted();
  const atvi_study_method *m = &s.method[0];
  CHECK_INT(m->tally.n_done, 3);
  CHECK_INT(m->tally.n_failed, 1);
  CHECK(m->tally.n_verdict[0] == 1 && m->tally.n_verdict[1] == 1 && m->tally.n_verdict[2] == 1);
  CHECK_REL(m->line[0].coverage.value, 2. / 3, 1e-14);
  CHECK_REL(m->line[0].coverage.error, sqrt(4. / 7 * 3. / 7 / 7), 1e-14);
  CHECK_REL(m->line[0].mode.value, 3.7 / 3, 1e-14);
  CHECK_REL(m->line[0].mse.value, (0.01 + 0.09 + 0) / 3, 1e-12);
  CHECK_REL(m->line[0].length.value, 1.3 / 3, 1e-12);
  CHECK_REL(m->line[1].coverage.value, 0.9, 1e-14);
  /* sd of .75, 1, .95 is sqrt(.0175), and its error that over sqrt 3 */
  CHECK_REL(m->line[1].coverage.error, sqrt(0.0175 / 3), 1e-10);
  CHECK_INT(m->line[1].mode.n, 0);
  CHECK_REL(m->line[1].length.value, 8, 1e-14);
  CHECK_REL(m->line[1].mse.value, 3, 1e-14);
  CHECK_REL(m->ail.value, 13, 1e-14);
  CHECK_REL(m->ail.error, 1 / sqrt(3), 1e-12);
  CHECK_REL(m->mspe.value, 4.5, 1e-14);
  CHECK_REL(m->coverage.value, 0.9, 1e-14);
  CHECK_REL(m->seconds.value, 3, 1e-14);
  CHECK_ABS(m->khat, 0.64, 0);
  CHECK(isnan(m->rhat));
  CHECK_INT(s.method[1].tally.n_done, 1);
  CHECK_ABS(s.method[1].rhat, 1.004, 0);
  CHECK(isnan(s.method[1].ail.error)); /* of one alone */
  CHECK_INT(s.failures.n, 1);
  CHECK_STR(s.failures.of[0], "replicate 2, atvi: no, never");
  end();
}

static void tells_a_study(void) {
  begin();
  atvi_study s = counted();
  const char *text, *csv, *json, *header;
  CHECK_OK(atvi_app_study_text(pool, &s, &text));
  CHECK(strstr(text, "atvi: 3 fits, 1 failed; verdicts: 1 ok, 1 warn, 1 bad"));
  CHECK(strstr(text, "66.7 %") && strstr(text, "failed: replicate 2, atvi: no, never"));
  CHECK_OK(atvi_app_study_csv(pool, &s, &csv));
  CHECK(strstr(csv, "\natvi,,fit,mspe,3,4.5,"));
  CHECK(strstr(csv, "\natvi,burden,tracked,coverage,3,0.9"));
  CHECK_OK(atvi_app_study_json(pool, &s, &json));
  CHECK(strstr(json, "\"replicates\": 4") && strstr(json, "\"rhat\": null"));
  CHECK_OK(atvi_app_study_header(pool, 2, quantity, &header));
  CHECK(strstr(header, ",beta.covered,beta.mode,beta.mean,beta.sd,beta.low,beta.high,burden.covered,burden."
                       "length,burden.mse"));
  CHECK(!strstr(header, "burden.mode"));
  end();
}

/* Ranks of n replicates: rank(r) in 0 .. 99 for parameter a; for b even ones, or none. */
static atvi_sbc ranked_two(atvi_idx n, atvi_idx (*rank)(atvi_idx r, atvi_idx n), bool both) {
  atvi_text out = {.pool = pool};
  const char *text;
  atvi_io_text_add(&out, "replicate,method,status,reason,verdict,seconds,a.truth,a.rank,b.truth,b.rank\n");
  for (atvi_idx r = 0; r < n; r++)
    if (both)
      atvi_io_text_add(&out, "%td,atvi,ok,,ok,0.5,1.5,%td,NA,%td\n", r + 1, rank(r, n), r * 100 / n);
    else
      atvi_io_text_add(&out, "%td,atvi,ok,,ok,0.5,1.5,%td,NA,NA\n", r + 1, rank(r, n));
  atvi_io_text_add(&out, "%td,atvi,failed,why,,NA,1.5,NA,NA,NA\n", n + 1);
  CHECK_OK(atvi_io_text_get(&out, &text));
  atvi_sbc s = {.model = "m", .method = "atvi", .scale_sd = 1, .replicates = n + 1, .n = 2};
  s.line = atvi_pool_take(pool, 2, sizeof *s.line);
  s.line[0].name = "a";
  s.line[1].name = "b";
  CHECK_OK(atvi_app_sbc_count(ctx, pool, record(text), &s));
  return s;
}

static atvi_sbc ranked(atvi_idx n, atvi_idx (*rank)(atvi_idx r, atvi_idx n)) {
  return ranked_two(n, rank, true);
}

static atvi_idx even(atvi_idx r, atvi_idx n) { return r * 100 / n; }
/* Truths are normal, posteriors have 0.8 of their sd: a quantile u of the truth has the rank of Phi(Phi^-1(u)
 * / 0.8). */
static atvi_idx narrow(atvi_idx r, atvi_idx n) {
  double z = atvi_math_ndtri(((double)r + 0.5) / (double)n) / 0.8;
  return (atvi_idx)(99 * exp(atvi_math_log_ndtr(z)) + 0.5);
}
static atvi_idx wide(atvi_idx r, atvi_idx n) {
  double z = atvi_math_ndtri(((double)r + 0.5) / (double)n) * 0.75;
  return (atvi_idx)(99 * exp(atvi_math_log_ndtr(z)) + 0.5);
}
static atvi_idx high(atvi_idx r, atvi_idx n) { return 30 + r * 70 / n; }

static void even_ranks_pass(void) {
  begin();
  atvi_sbc s = ranked(200, even);
  const char *text, *csv, *json;
  CHECK_INT(s.tally.n_done, 200);
  CHECK_INT(s.tally.n_failed, 1);
  CHECK_REL(s.seconds, 100, 1e-12);
  CHECK_REL(s.level, 0.0025, 1e-14);
  CHECK(s.fine && s.line[0].fine && s.line[0].inside);
  CHECK(s.line[0].p_band > 0.9 && s.line[0].p_spread > 0.1);
  CHECK_ABS(s.line[0].mean_z, 0, 1e-10);
  CHECK_ABS(s.line[0].sd_z, 1, 0.02);
  for (int b = 0; b < ATVI_SBC_BINS; b++) CHECK_INT(s.line[0].bin[b], 20);
  for (int i = 0; i < ATVI_SBC_DRAWS; i++) {
    CHECK_ABS(s.line[0].difference[i], 0, 1e-12);
    CHECK(s.line[0].low[i] <= 0 && s.line[0].high[i] >= 0);
  }
  CHECK_INT(s.n_untested, 0);
  CHECK_OK(atvi_app_sbc_text(pool, &s, &text));
  CHECK(strstr(text, "over all quantities: yes") && strstr(text, "failed: replicate 201: why"));
  CHECK_OK(atvi_app_sbc_csv(pool, &s, &csv));
  CHECK(strncmp(csv, "quantity,u,difference,low95,high95\na,0.01,0,", 44) == 0);
  CHECK_OK(atvi_app_sbc_json(pool, &s, &json));
  CHECK(strstr(json, "\"calibrated\": true"));
  end();
}

/* Nothing speaks against a quantity that was never ranked, and nothing for it. */
static void without_ranks_nothing_is_known(void) {
  begin();
  atvi_sbc s = ranked_two(200, even, false);
  const char *text, *json;
  CHECK(s.line[1].n == 0 && isnan(s.line[1].p_band) && s.line[1].fine && s.fine);
  CHECK_INT(s.n_untested, 1);
  CHECK_OK(atvi_app_sbc_text(pool, &s, &text));
  CHECK(strstr(text, "over all quantities: not known, 1 of 2 has no ranks\n") &&
        !strstr(text, "quantities: yes"));
  CHECK(strstr(text, "not known, no ranks\n"));
  CHECK_OK(atvi_app_sbc_json(pool, &s, &json));
  CHECK(strstr(json, "\"calibrated\": null") && strstr(json, "\"inside95\": null"));
  s = ranked_two(0, even, true); /* one replicate, which failed */
  CHECK_INT(s.n_untested, 2);
  CHECK_OK(atvi_app_sbc_text(pool, &s, &text));
  CHECK(strstr(text, "not known, 2 of 2 have no ranks"));
  end();
}

/* One wrong quantity of 400: alone with all others it must have a p-value below 1.25e-5. */
static void many_quantities_can_be_told_no(void) {
  enum { N = 100, Q = 400 };
  begin();
  atvi_text out = {.pool = pool};
  const char *text;
  atvi_sbc s = {.model = "m", .method = "atvi", .scale_sd = 1, .replicates = N, .n = Q};
  s.line = atvi_pool_take(pool, Q, sizeof *s.line);
  atvi_io_text_add(&out, "replicate,method,status,reason,verdict,seconds");
  for (int q = 0; q < Q; q++) {
    s.line[q].name = atvi_pool_printf(pool, "q%d", q);
    atvi_io_text_add(&out, ",q%d.rank", q);
  }
  for (atvi_idx r = 0; r < N; r++) {
    atvi_io_text_add(&out, "\n%td,atvi,ok,,ok,1", r + 1);
    for (int q = 0; q < Q; q++) atvi_io_text_add(&out, ",%td", q == 7 ? high(r, N) : even(r, N));
  }
  atvi_io_text_add(&out, "\n");
  CHECK_OK(atvi_io_text_get(&out, &text));
  CHECK_OK(atvi_app_sbc_count(ctx, pool, record(text), &s));
  CHECK_MSG(s.line[7].p_band < s.level && s.line[7].p_band > 0, "p %g", s.line[7].p_band);
  CHECK(!s.fine && !s.line[7].fine && s.line[8].fine);
  end();
}

/* The normal scores of (k + 1/2) / 100 have mean square 0.98731, not 1: with it, uniform ranks have p-values
 * that are about uniform even where there are many. Of 300 sets of 4000, at 10 %: 30 +- 5.2; without it about
 * half of them would be below. */
static void spread_of_uniform_ranks(void) {
  enum { N = 4000, SETS = 300 };
  const double unit = atvi_app_sbc_mean_square();
  int low = 0;
  CHECK_ABS(unit, 0.98731, 5e-6);
  for (int k = 0; k < SETS; k++) {
    atvi_rng rng = atvi_math_rng_at(31, ATVI_STREAM_TEST, (uint32_t)k, 0);
    double sum = 0;
    for (int i = 0; i < N; i++) {
      double z = atvi_app_sbc_score((atvi_idx)(100 * atvi_math_rng_uniform(&rng)));
      sum += z * z / unit;
    }
    low += atvi_app_sbc_spread(N, sum) < 0.1;
  }
  CHECK_MSG(low > 9 && low < 51, "%d of %d", low, SETS);
}

static void broken_posteriors_are_flagged(void) {
  static const struct {
    atvi_idx (*rank)(atvi_idx, atvi_idx);
    const char *says;
  } broken[] = {{narrow, "NO, too narrow"}, {wide, "NO, too wide"}, {high, "NO, too low"}};
  for (int k = 0; k < 3; k++) {
    begin();
    atvi_sbc s = ranked(200, broken[k].rank);
    const char *text;
    CHECK(!s.fine && !s.line[0].fine);
    CHECK_OK(atvi_app_sbc_text(pool, &s, &text));
    CHECK_MSG(strstr(text, broken[k].says) != NULL, "want %s in %s", broken[k].says, text);
    CHECK(strstr(text, "over all quantities: NO"));
    end();
  }
}

/* None of the lowest: outside the 95 % band of one quantity alone, but not at the level of the whole. */
static atvi_idx odd(atvi_idx r, atvi_idx n) { return 16 + r * 84 / n; }

static void diagnosis_only_after_no(void) {
  begin();
  atvi_sbc s = ranked(40, odd);
  const char *text;
  CHECK_MSG(s.fine && !s.line[0].inside, "p %g %g", s.line[0].p_band, s.line[0].p_spread);
  CHECK_OK(atvi_app_sbc_text(pool, &s, &text));
  CHECK(strstr(text, "outside") && strstr(text, "no sign\n") && !strstr(text, "shape"));
  CHECK(strstr(text, "over all quantities: no sign of an error\nmay go unnoticed with 40 replicates: sds too "
                     "small by a factor of 1."));
  end();
}

static void few_ranks_tell_nothing(void) {
  begin();
  atvi_sbc s = ranked(6, even);
  const char *text, *json;
  CHECK(s.fine && s.power == ATVI_SBC_BLIND && s.narrow < 0.5);
  CHECK_OK(atvi_app_sbc_text(pool, &s, &text));
  CHECK(strstr(text, "over all quantities: too few replicates to tell"));
  CHECK_OK(atvi_app_sbc_json(pool, &s, &json));
  CHECK(strstr(json, "\"calibrated\": null") && !strstr(json, "\"calibrated\": true"));
  s = ranked(1, even);
  CHECK(s.power == ATVI_SBC_BLIND && isnan(s.narrow) && isnan(s.wide));
  CHECK_OK(atvi_app_sbc_text(pool, &s, &text));
  CHECK(strstr(text, "with 1 replicate no wrong posterior is certain to be noticed"));
  end();
}

/* The share of sets that both tests flag together, with posteriors drawn one by one. */
static double flagged(const atvi_ecdf *e, atvi_idx n, double level, double factor, int sets) {
  int found = 0;
  for (int k = 0; k < sets; k++) {
    atvi_rng rng = atvi_math_rng_at(20, ATVI_STREAM_TEST, (uint32_t)k, 0);
    atvi_idx count[ATVI_SBC_DRAWS + 1] = {0};
    double sum = 0;
    for (atvi_idx r = 0; r < n; r++) {
      double truth = atvi_math_rng_normal(&rng), z;
      atvi_idx rank = 0;
      for (int i = 0; i < ATVI_SBC_DRAWS; i++) rank += factor * atvi_math_rng_normal(&rng) < truth;
      count[rank]++;
      z = atvi_app_sbc_score(rank);
      sum += z * z / atvi_app_sbc_mean_square();
    }
    found += atvi_app_sbc_spread(n, sum) < level || atvi_math_ecdf_p(e, count) < level;
  }
  return (double)found / sets;
}

/* What is said to be noticed four times in five is. Both sides have Monte Carlo errors of 0.02, and the
 * factor is found to 1.6 %, which is 0.03 of power. */
static void noticed_as_often_as_said(void) {
  enum { N = 60, SETS = 400 };
  const double level = 0.01 / 4;
  begin();
  atvi_ecdf *e;
  double narrow, wide, again[2];
  CHECK_OK(atvi_math_ecdf_new(ctx, N, ATVI_SBC_DRAWS + 1, 0, 1, &e));
  atvi_app_sbc_notice(e, N, level, &narrow, &wide);
  CHECK(narrow > 0.6 && narrow < 0.75 && wide > 1.3 && wide < 1.7);
  CHECK_ABS(flagged(e, N, level, narrow, SETS), 0.8, 0.1);
  CHECK_ABS(flagged(e, N, level, wide, SETS), 0.8, 0.1);
  CHECK(flagged(e, N, level, 1, SETS) < 0.02); /* a right posterior: once in a hundred at most */
  atvi_app_sbc_notice(e, N, level, &again[0], &again[1]);
  CHECK(again[0] == narrow && again[1] == wide);
  atvi_app_sbc_notice(e, N, level / 10, &again[0], &again[1]); /* a stricter level sees less */
  CHECK(again[0] < narrow && again[1] > wide);
  atvi_math_ecdf_free(e);
  end();
}

static void tells_one_replicate(void) {
  begin();
  atvi_study s = {.model = "sir", .replicates = 1, .n_quantity = 2, .quantity = quantity, .n_method = 1};
  const char *text;
  s.method = atvi_pool_take(pool, 1, sizeof *s.method);
  s.method[0].name = "ram";
  CHECK_OK(atvi_app_study_count(pool, record(studied), &s));
  CHECK_OK(atvi_app_study_text(pool, &s, &text));
  CHECK(strstr(text, "sir, 1 replicate, seed") && strstr(text, "ram: 1 fit, 0 failed"));
  CHECK(!strstr(text, "nan") && strstr(text, "data in 95 % 90.0 %\n"));
  end();
}

TESTS({"counts_a_study", counts_a_study}, {"tells_a_study", tells_a_study},
      {"even_ranks_pass", even_ranks_pass}, {"broken_posteriors_are_flagged", broken_posteriors_are_flagged},
      {"without_ranks_nothing_is_known", without_ranks_nothing_is_known},
      {"many_quantities_can_be_told_no", many_quantities_can_be_told_no},
      {"spread_of_uniform_ranks", spread_of_uniform_ranks},
      {"diagnosis_only_after_no", diagnosis_only_after_no},
      {"few_ranks_tell_nothing", few_ranks_tell_nothing},
      {"noticed_as_often_as_said", noticed_as_often_as_said}, {"tells_one_replicate", tells_one_replicate})
