/* SPDX-License-Identifier: MIT */
/* Studies and calibration runs are counted from their records: made-up records here. */
#include "app/sbc.h"
#include "app/study.h"
#include "io/text.h"
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
  CHECK_OK(atvi_csv_parse(pool, "replicates.csv", text, strlen(text), &csv));
  return csv;
}

static const atvi_quantity quantity[2] = {{"beta", "parameter", 1.1}, {"burden", "tracked", NAN}};

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
  CHECK_OK(atvi_study_count(pool, record(studied), &s));
  return s;
}

static void counts_a_study(void) {
  begin();
  atvi_study s = counted();
  const atvi_study_method *m = &s.method[0];
  CHECK_INT(m->n_done, 3);
  CHECK_INT(m->n_failed, 1);
  CHECK(m->n_verdict[0] == 1 && m->n_verdict[1] == 1 && m->n_verdict[2] == 1);
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
  CHECK_INT(s.method[1].n_done, 1);
  CHECK_ABS(s.method[1].rhat, 1.004, 0);
  CHECK(isnan(s.method[1].ail.error)); /* of one alone */
  CHECK_INT(s.n_failure, 1);
  CHECK_STR(s.failure[0], "replicate 2, atvi: no, never");
  end();
}

static void tells_a_study(void) {
  begin();
  atvi_study s = counted();
  const char *text, *csv, *json, *header;
  CHECK_OK(atvi_study_text(pool, &s, &text));
  CHECK(strstr(text, "atvi: 3 fits, 1 failed; verdicts: 1 ok, 1 warn, 1 bad"));
  CHECK(strstr(text, "66.7 %") && strstr(text, "failed: replicate 2, atvi: no, never"));
  CHECK_OK(atvi_study_csv(pool, &s, &csv));
  CHECK(strstr(csv, "\natvi,,fit,mspe,3,4.5,"));
  CHECK(strstr(csv, "\natvi,burden,tracked,coverage,3,0.9"));
  CHECK_OK(atvi_study_json(pool, &s, &json));
  CHECK(strstr(json, "\"replicates\": 4") && strstr(json, "\"rhat\": null"));
  CHECK_OK(atvi_study_header(pool, 2, quantity, &header));
  CHECK(strstr(header, ",beta.covered,beta.mode,beta.mean,beta.sd,beta.low,beta.high,burden.covered,burden."
                       "length,burden.mse"));
  CHECK(!strstr(header, "burden.mode"));
  end();
}

/* Ranks of n replicates: rank(r) in 0 .. 99 for parameter a, and NA for b. */
static atvi_sbc ranked(atvi_idx n, atvi_idx (*rank)(atvi_idx r, atvi_idx n)) {
  atvi_text out = {.pool = pool};
  const char *text;
  atvi_text_add(&out, "replicate,method,status,reason,verdict,seconds,a.truth,a.rank,b.truth,b.rank\n");
  for (atvi_idx r = 0; r < n; r++)
    atvi_text_add(&out, "%td,atvi,ok,,ok,0.5,1.5,%td,NA,NA\n", r + 1, rank(r, n));
  atvi_text_add(&out, "%td,atvi,failed,why,,NA,1.5,NA,NA,NA\n", n + 1);
  CHECK_OK(atvi_text_get(&out, &text));
  atvi_sbc s = {.model = "m", .method = "atvi", .scale_sd = 1, .replicates = n + 1, .n = 2};
  s.line = atvi_pool_take(pool, 2, sizeof *s.line);
  s.line[0].name = "a";
  s.line[1].name = "b";
  CHECK_OK(atvi_sbc_count(ctx, pool, record(text), &s));
  return s;
}

static atvi_idx even(atvi_idx r, atvi_idx n) { return r * 100 / n; }
/* Truths are normal, posteriors have 0.8 of their sd: a quantile u of the truth has the rank of Phi(Phi^-1(u) / 0.8). */
static atvi_idx narrow(atvi_idx r, atvi_idx n) {
  double z = atvi_ndtri(((double)r + 0.5) / (double)n) / 0.8;
  return (atvi_idx)(99 * exp(atvi_log_ndtr(z)) + 0.5);
}
static atvi_idx wide(atvi_idx r, atvi_idx n) {
  double z = atvi_ndtri(((double)r + 0.5) / (double)n) * 0.75;
  return (atvi_idx)(99 * exp(atvi_log_ndtr(z)) + 0.5);
}
static atvi_idx high(atvi_idx r, atvi_idx n) { return 30 + r * 70 / n; }

static void even_ranks_pass(void) {
  begin();
  atvi_sbc s = ranked(200, even);
  const char *text, *csv, *json;
  CHECK_INT(s.n_done, 200);
  CHECK_INT(s.n_failed, 1);
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
  CHECK(s.line[1].n == 0 && isnan(s.line[1].p_band) &&
        s.line[1].fine); /* nothing known, nothing against it */
  CHECK_OK(atvi_sbc_text(pool, &s, &text));
  CHECK(strstr(text, "over all quantities: yes") && strstr(text, "failed: replicate 201: why"));
  CHECK_OK(atvi_sbc_csv(pool, &s, &csv));
  CHECK(strncmp(csv, "quantity,u,difference,low95,high95\na,0.01,0,", 44) == 0);
  CHECK_OK(atvi_sbc_json(pool, &s, &json));
  CHECK(strstr(json, "\"calibrated\": true"));
  end();
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
    CHECK_OK(atvi_sbc_text(pool, &s, &text));
    CHECK_MSG(strstr(text, broken[k].says) != NULL, "want %s in %s", broken[k].says, text);
    CHECK(strstr(text, "over all quantities: NO"));
    end();
  }
}

TESTS({"counts_a_study", counts_a_study}, {"tells_a_study", tells_a_study},
      {"even_ranks_pass", even_ranks_pass}, {"broken_posteriors_are_flagged", broken_posteriors_are_flagged})
