/* SPDX-License-Identifier: MIT */
/* A method that is one more entry of the list (sir_entry.h) is known to fit, compare, study and sbc, and to
 * all that speak of methods. This program is linked with src/infer/methods.c and that entry in it; nothing
 * else was changed. */
#define _POSIX_C_SOURCE 200809L
#include "app/app.h"
#include "atvi/bind.h"
#include "infer/fit.h"
#include "models.h"
#include "testing.h"

static atvi_ctx *ctx;
static atvi_pool *pool;

/* Eight values around 1 with sd 1. */
static atvi_app_model begin(void) {
  ctx = test_ctx();
  CHECK_OK(atvi_pool_new(ctx, &pool));
  test_file("y.csv", "y\n1.21\n0.483\n2.05\n1.77\n-0.31\n1.04\n0.915\n1.36\n");
  return (atvi_app_model){
      .path = test_file("mean.atvi",
                        "param mu ~ normal(0.4, 2.385)\ndata \"y.csv\"\nobserve y ~ normal(mu, 1)\n"),
      .interpret = true};
}

static const char *in(const char *name) { return atvi_pool_printf(pool, "%s/%s", test_dir, name); }

static void end(void) {
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static bool has(const char *text, const char *word) { return text && strstr(text, word) != NULL; }

static void fits(void) {
  atvi_app_fit_result r;
  atvi_app_fit_opts o = {.model = begin(), .how = atvi_fit_defaults(), .out = in("fit"), .no_report = true};
  o.how.method = "sir";
  CHECK_OK(atvi_app_fit(ctx, pool, &o, &r));
  CHECK_INT(r.judged.verdict, ATVI_VERDICT_OK);
  CHECK(has(r.text, "sir"));
  o.how.chains = 4;
  CHECK_STATUS(atvi_app_fit(ctx, pool, &o, &r), ATVI_EINVAL);
  CHECK(has(atvi_errmsg(ctx), "chains is a setting of methods ram and nuts; sir has none"));
  o.how.chains = 0, o.how.ess = 2e5;
  CHECK_STATUS(atvi_app_fit(ctx, pool, &o, &r), ATVI_EINVAL);
  CHECK(has(atvi_errmsg(ctx), "ess 200000: method sir draws at most 100000"));
  end();
}

static void is_listed(void) {
  begin();
  char text[ATVI_METHODS_TEXT];
  atvi_fit_opts o = atvi_fit_defaults();
  atvi_fit_plan plan;
  o.method = "magic";
  CHECK_STATUS(atvi_infer_fit_check(ctx, &o, &plan), ATVI_EINVAL);
  CHECK(has(atvi_errmsg(ctx), "and sir (prior draws, resampled)"));
  CHECK_STR(atvi_infer_methods_text(ATVI_METHOD_OWN, " or ", text),
            "atvi, nf, copula, ram, nuts, map or sir");
  CHECK_STR(atvi_infer_methods_text(ATVI_METHOD_POSTERIOR, ", ", text),
            "atvi, nf, copula, ram, nuts, exact, sir");
  CHECK_STR(atvi_infer_methods_text(ATVI_METHOD_EXACT, " and ", text), "ram, nuts, exact and sir");
  CHECK_STR(atvi_fit_method_word(6, "name"), "sir");
  CHECK(has(atvi_fit_method_word(6, "help"), "resampled") && !atvi_fit_method_word(7, "name"));
  end();
}

static void is_compared(void) {
  atvi_app_compare_result r;
  atvi_app_compare_opts o = {.fit = {.model = begin(), .how = atvi_fit_defaults(), .no_report = true}};
  o.fit.how.ess = 400;
  o.fit.out = in("all"); /* every method there is but map, none of them named */
  CHECK_OK(atvi_app_compare(ctx, pool, &o, &r));
  CHECK(r.n_fitted == 7 && has(r.json, "\"method\": \"sir\""));
  o.fit.out = in("two");
  o.methods = "nf,sir";
  CHECK_OK(atvi_app_compare(ctx, pool, &o, &r));
  CHECK(r.n_fitted == 2 && r.all_ok && has(r.json, "\"reference\": \"sir\""));
  CHECK(has(r.text, "exact in the limit and with verdict ok"));
  o.methods = "nf,serum";
  CHECK_STATUS(atvi_app_compare(ctx, pool, &o, &r), ATVI_EINVAL);
  CHECK(has(atvi_errmsg(ctx), "exact, map and sir"));
  end();
}

static void is_studied(void) {
  static const char *const truth[] = {"mu=0.9"};
  atvi_app_repeat_result r;
  atvi_app_study_opts o = {
      .all = {.model = begin(), .replicates = 2, .seed = 3}, .n_truth = 1, .truth = truth, .methods = "sir"};
  o.all.out = in("study");
  CHECK_OK(atvi_app_study(ctx, pool, &o, &r));
  CHECK(r.done == 2 && r.failed == 0 && has(r.text, "sir"));
  o.methods = "serum";
  CHECK_STATUS(atvi_app_study(ctx, pool, &o, &r), ATVI_EINVAL);
  CHECK(has(atvi_errmsg(ctx), "nuts, exact and sir"));
  end();
}

static void is_calibrated(void) {
  atvi_app_repeat_result r;
  atvi_app_sbc_opts o = {
      .all = {.model = begin(), .replicates = 5, .seed = 3}, .method = "sir", .scale_sd = 1};
  o.all.out = in("sbc");
  CHECK_OK(atvi_app_sbc(ctx, pool, &o, &r));
  CHECK(r.done == 5 && r.failed == 0 && has(r.json, "\"sir\""));
  end();
}

TESTS({"fit", fits}, {"list", is_listed}, {"compare", is_compared}, {"study", is_studied},
      {"sbc", is_calibrated})
