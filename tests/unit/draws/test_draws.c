/* SPDX-License-Identifier: MIT */
#include "atvi/draws.h"
#include "draws/made.h"
#include "testing.h"

static const atvi_column col[3] = {
    {"beta.1", 0, 3}, {"mu", -HUGE_VAL, HUGE_VAL}, {"R0", -HUGE_VAL, HUGE_VAL}};

static void holds_what_it_promises(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_draws *d;
  char name[] = "beta.1";
  const atvi_column mine[3] = {{name, 0.25, 3.5}, col[1], col[2]};
  CHECK_OK(atvi_draws_new(ctx, 12, 4, 2, 3, mine, true, &d));
  memset(name, 'x', sizeof name - 1); /* copied, not borrowed */
  CHECK_STR(d->col[0].name, "beta.1");
  CHECK_STR(d->col[2].name, "R0");
  CHECK(d->col[0].lower == 0.25 && d->col[0].upper == 3.5);
  CHECK(d->n == 12 && d->n_chain == 4 && d->n_param == 2 && d->n_col == 3 && d->chains);
  for (int i = 0; i < 36; i++) d->x[i] = i + 0.5;
  for (int i = 0; i < 12; i++) {
    CHECK(d->log_prior[i] == 0 && d->log_lik[i] == 0);
    CHECK_REL(d->weight[i], 1.0 / 12, 1e-15);
  }
  CHECK(d->x[35] == 35.5);
  CHECK(isnan(d->made->log_evidence) && isnan(d->made->elbo) && isnan(d->made->khat) &&
        isnan(d->made->accept));
  CHECK(isnan(d->made->efficiency) && isnan(d->made->log_lik_error) && isnan(d->made->modes));
  CHECK(isnan(d->made->log_evidence_se) && isnan(d->made->ess_wanted) && d->made->evaluations == 0);
  CHECK_STR(d->made->method, "");
  CHECK_INT(d->made->end, ATVI_END_DONE);
  atvi_draws_free(d);
  CHECK_OK(atvi_draws_new(ctx, 1, 1, 0, 0, NULL, false, &d));
  CHECK(d->weight == NULL && !d->chains);
  atvi_draws_free(d);
  atvi_draws_free(NULL);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void keeps_sentences_and_names(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_draws *d;
  char method[] = "ram";
  CHECK_OK(atvi_draws_new(ctx, 5, 1, 1, 1, col, false, &d));
  CHECK_OK(atvi_draws_keep(d, method, &d->made->method));
  method[0] = 'x';
  CHECK_STR(d->made->method, "ram");
  char long_text[3000];
  memset(long_text, 'y', sizeof long_text);
  long_text[sizeof long_text - 1] = 0;
  CHECK_OK(atvi_draws_say(d, ATVI_NOTE, ATVI_CODE_NONE, "%s", long_text));
  for (int i = 1; i < 100; i++)
    CHECK_OK(atvi_draws_say(d, ATVI_NOTE, ATVI_CODE_NONE, "sentence %d of %s", i, d->col[0].name));
  CHECK_INT(d->n_message, 100);
  CHECK_STR(d->message[0].text, long_text);
  CHECK_STR(d->message[99].text, "sentence 99 of beta.1");
  atvi_draws_free(d);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void refuses_wrong_shapes(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_draws *d = (atvi_draws *)(void *)ctx;
  const atvi_column unnamed = {NULL, 0, 1};
  CHECK_STATUS(atvi_draws_new(ctx, 0, 1, 1, 1, col, false, &d), ATVI_EINVAL);
  CHECK(d == NULL);
  CHECK_STATUS(atvi_draws_new(ctx, 5, 0, 1, 1, col, false, &d), ATVI_EINVAL);
  CHECK_STATUS(atvi_draws_new(ctx, 5, 2, 1, 1, col, false, &d), ATVI_EINVAL);
  CHECK_STATUS(atvi_draws_new(ctx, 5, 1, -1, 1, col, false, &d), ATVI_EINVAL);
  CHECK_STATUS(atvi_draws_new(ctx, 5, 1, 2, 1, col, false, &d), ATVI_EINVAL);
  CHECK_STATUS(atvi_draws_new(ctx, 5, 1, 1, 1, NULL, false, &d), ATVI_EINVAL);
  CHECK_STATUS(atvi_draws_new(ctx, 5, 1, 1, 1, &unnamed, false, &d), ATVI_EINVAL);
  CHECK_STATUS(atvi_draws_new(ctx, PTRDIFF_MAX, 1, 3, 3, col, false, &d), ATVI_ENOMEM);
  atvi_ctx_free(ctx);
}

static void memory_failures_leave_nothing(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_draws *d;
  long live = test_live;
  int k = 1;
  for (;; k++) {
    test_fail_at = test_allocs + k;
    atvi_status status = atvi_draws_new(ctx, 8, 2, 2, 3, col, true, &d);
    if (status == ATVI_OK) break;
    CHECK_INT(status, ATVI_ENOMEM);
    CHECK(d == NULL);
    CHECK_INT(test_live, live);
  }
  CHECK(k == 3);
  test_fail_at = test_allocs + 1;
  CHECK_STATUS(atvi_draws_say(d, ATVI_NOTE, ATVI_CODE_NONE, "no room"), ATVI_ENOMEM);
  CHECK_INT(d->n_message, 0);
  const char *copy = "";
  CHECK_STATUS(atvi_draws_keep(d, "ram", &copy), ATVI_ENOMEM);
  CHECK(copy == NULL);
  atvi_draws_free(d);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* Weights 1, 2 and 1 of the values 1, 3 and 4. */
static void columns_have_means_sds_and_quantiles(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_draws *d;
  const double p[3] = {0, 0.5, 1};
  double q[3];
  CHECK_OK(atvi_draws_new(ctx, 3, 1, 1, 3, col, true, &d));
  CHECK_INT(atvi_draws_find(d, "R0"), 2);
  CHECK_INT(atvi_draws_find(d, "R"), -1);
  memcpy(d->x + 3, (double[]){4, 1, 3}, 3 * sizeof *d->x);
  memcpy(d->weight, (double[]){0.25, 0.25, 0.5}, 3 * sizeof *d->weight);
  CHECK_REL(atvi_draws_mean(d, 1), 2.75, 1e-15);
  CHECK_REL(atvi_draws_sd(d, 1), sqrt((0.25 * 1.5625 + 0.25 * 3.0625 + 0.5 * 0.0625) / (1 - 0.375)), 1e-14);
  CHECK_OK(atvi_draws_quantiles(d, 1, 3, p, q));
  CHECK(q[0] == 1 && q[1] == 3 && q[2] == 4);
  CHECK(isnan(atvi_draws_mean(d, 3)) && isnan(atvi_draws_sd(d, -1)));
  CHECK_STATUS(atvi_draws_quantiles(d, 3, 3, p, q), ATVI_EINVAL);
  CHECK(isnan(q[1]));
  CHECK_STATUS(atvi_draws_quantiles(d, 1, 1, (double[]){1.5}, q), ATVI_EINVAL);
  test_fail_at = test_allocs + 1;
  CHECK_STATUS(atvi_draws_quantiles(d, 1, 3, p, q), ATVI_ENOMEM);
  d->x[4] = NAN;
  CHECK_OK(atvi_draws_quantiles(d, 1, 3, p, q));
  CHECK(isnan(q[0]) && isnan(atvi_draws_mean(d, 1)));
  atvi_draws_free(d);
  CHECK_OK(atvi_draws_new(ctx, 4, 1, 1, 1, col, false, &d));
  memcpy(d->x, (double[]){2.5, 0.5, 1.5, 5.5}, 4 * sizeof *d->x);
  CHECK_REL(atvi_draws_mean(d, 0), 2.5, 1e-15);
  CHECK_OK(atvi_draws_quantiles(d, 0, 1, &p[1], q));
  CHECK_REL(q[0], 2.0, 1e-15);
  atvi_draws_free(d);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void groups_and_history_are_kept(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_draws *d;
  double *x;
  const atvi_idx draw[2] = {7, 0}, beyond[1] = {8};
  char phase[16] = "training";
  CHECK_OK(atvi_draws_new(ctx, 8, 2, 2, 3, col, true, &d));
  CHECK(!atvi_draws_group(d, "mean") && d->n_group == 0 && d->n_step == 0);
  CHECK_OK(atvi_draws_group_new(d, "mean", 3, 2, draw, &x));
  x[5] = 4.5;
  CHECK_OK(atvi_draws_group_new(d, "prior", 3, 100, NULL, &x));
  CHECK(atvi_draws_group(d, "mean")->x[5] == 4.5 && atvi_draws_group(d, "mean")->draw[0] == 7);
  CHECK(atvi_draws_group(d, "prior")->n_draw == 100 && !atvi_draws_group(d, "prior")->draw);
  CHECK_STATUS(atvi_draws_group_new(d, "mean", 3, 2, draw, &x), ATVI_EINVAL);
  CHECK_STATUS(atvi_draws_group_new(d, "grid", 3, 1, beyond, &x), ATVI_EINVAL);
  CHECK_STATUS(atvi_draws_group_new(d, "grid", -1, 1, NULL, &x), ATVI_EINVAL);
  CHECK_STATUS(atvi_draws_group_new(d, "grid", PTRDIFF_MAX / 4, PTRDIFF_MAX / 4, NULL, &x), ATVI_ENOMEM);
  CHECK(x == NULL);
  atvi_draws_free(d);
  CHECK_OK(atvi_draws_new(ctx, 8, 2, 2, 3, col, true, &d));
  const atvi_progress step[2] = {{.phase = phase, .elapsed_s = 1, .detail = "x"},
                                 {.phase = phase, .elapsed_s = 2}};
  CHECK_OK(atvi_draws_history(d, 2, step));
  phase[0] = 'x';
  CHECK(d->n_step == 2 && d->step[1].elapsed_s == 2);
  CHECK_STR(d->step[1].phase, "training");
  CHECK_STR(d->step[0].detail, "");
  d->made->mode_draw = 3;
  d->x[5] = 0.75;
  atvi_draws *plain;
  CHECK_OK(atvi_draws_unweighted(d, &plain));
  CHECK(!plain->weight && plain->n == 8 && plain->n_chain == 2 && plain->chains && plain->x[5] == 0.75);
  CHECK(plain->made->mode_draw == 3 && plain->n_step == 0);
  atvi_draws_free(plain);
  test_fail_at = test_allocs + 1;
  CHECK_STATUS(atvi_draws_unweighted(d, &plain), ATVI_ENOMEM);
  test_fail_at = test_allocs + 1;
  CHECK_STATUS(atvi_draws_group_new(d, "grid", 300, 1000, NULL, &x), ATVI_ENOMEM);
  atvi_draws_free(d);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

TESTS({"columns", columns_have_means_sds_and_quantiles}, {"holds", holds_what_it_promises},
      {"sentences", keeps_sentences_and_names}, {"shapes", refuses_wrong_shapes},
      {"memory", memory_failures_leave_nothing}, {"groups", groups_and_history_are_kept})
