/* SPDX-License-Identifier: MIT */
/* What is said of the times of data whose rows count since the row before. */
#include "app/common.h"
#include "models.h"
#include <math.h>

#define HEAD "param a ~ uniform(0, 9)\nparam s ~ exponential(1)\nstate C = 0\ndC/dt = a\n"
static const char *const COUNTS = HEAD "start 0\ndata \"d.csv\" time day\nobserve y ~ poisson(increase(C))\n";
static const char *const LEVELS = HEAD "start 0\ndata \"d.csv\" time day\nobserve y ~ normal(C, s)\n";

/* The note on these data; "": none. */
static const char *note_on(const char *model, const char *data) {
  static char said[600];
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  atvi_lang *lang;
  const char *note;
  test_file("d.csv", data);
  const char *path = test_file("d.atvi", model);
  CHECK_OK(atvi_pool_new(ctx, &pool));
  CHECK_OK(atvi_lang_load(ctx, path, NULL, &lang));
  CHECK_OK(atvi_app_gaps(pool, lang, &note));
  snprintf(said, sizeof said, "%s", note ? note : "");
  atvi_lang_free(lang);
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
  return said;
}

static void rows_left_out_are_told(void) {
  const char *said = note_on(COUNTS, "day,y\n7,1\n14,2\n28,3\n35,4\n42,5\n49,6\n");
  CHECK(strstr(said,
               "d.csv, row 3: the time since the previous row is 14, elsewhere 7: increase() counts all") !=
        NULL);
  said = note_on(COUNTS, "day,y\n7,1\n14,2\n28,3\n35,4\n42,5\n49,6\n56,7\n77,8\n84,9\n91,3\n");
  CHECK(strstr(said, "rows 3, 8: the time since the previous row is 14 to 21, elsewhere 7") != NULL);
  /* rows at one time have the same time before them */
  said = note_on(COUNTS, "day,y\n7,1\n14,2\n28,3\n28,4\n35,5\n42,5\n49,6\n");
  CHECK(strstr(said, "rows 3, 4: the time since the previous row is 14") != NULL);
  /* more than are named */
  char many[2000] = "day,y\n";
  for (int i = 0, t = 0; i < 60; i++) {
    t += i % 6 == 5 ? 2 : 1;
    snprintf(many + strlen(many), sizeof many - strlen(many), "%d,1\n", t);
  }
  CHECK(strstr(note_on(COUNTS, many), "rows 6, 12, 18, 24, 30, 36 and 4 more: the time") != NULL);
}

static void what_is_as_it_should_be_is_not(void) {
  static const char *const fine[] = {
      "day,y\n7,1\n14,2\n21,3\n28,4\n",                        /* even */
      "day,y\n7,1\n14,2\n21,\n28,4\n35,1\n",                   /* the row is there */
      "day,y\n7,1\n14,2\n28,\n35,4\n42,5\n49,6\n",             /* nothing is counted in that row */
      "day,y\n31,1\n59,2\n90,3\n120,4\n151,5\n181,6\n212,1\n", /* months */
      "day,y\n1,1\n2,1\n4,1\n8,1\n16,1\n32,1\n",               /* nothing is usual */
      "day,y\n90,1\n97,2\n104,3\n",                            /* the first counts from the start */
      "day,y\n7,1\n",
      "day,y\n7,1\n14,2\n",
  };
  for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++) CHECK_STR(note_on(COUNTS, fine[i]), "");
  CHECK_STR(note_on(LEVELS, "day,y\n7,1\n14,2\n28,3\n35,4\n42,5\n49,6\n"), ""); /* nothing is counted */
}

static void steps(void) {
  double least, most;
  atvi_app_steps(5, (double[]){1, 3, 3, 4.5, 10}, &least, &most);
  CHECK(least == 1.5 && most == 5.5);
  atvi_app_steps(1, (double[]){1}, &least, &most);
  CHECK(isinf(least) && most == 0);
}

static void starts(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  const char *text;
  atvi_lang lang = {.dynamics.n_state = 1, .source = "state C = 0\n  burnin 3 # days\ndata\n"};
  CHECK_OK(atvi_pool_new(ctx, &pool));
  CHECK_OK(atvi_app_start_text(pool, &lang, 0.5, &text));
  CHECK_STR(text, "state C = 0\nstart 0.5\ndata\n");
  lang.source = "state C = 0";
  CHECK_OK(atvi_app_start_text(pool, &lang, 2, &text));
  CHECK_STR(text, "state C = 0\nstart 2\n");
  lang.source = "state C = 0\nstart 1\n";
  CHECK_OK(atvi_app_start_text(pool, &lang, 2, &text));
  CHECK(text == NULL);
  lang = (atvi_lang){.source = "param a\n"};
  CHECK_OK(atvi_app_start_text(pool, &lang, 2, &text));
  CHECK(text == NULL); /* nothing starts */
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
}

static void without_memory(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_lang *lang;
  test_file("d.csv", "day,y\n7,1\n14,2\n28,3\n35,4\n42,5\n49,6\n");
  CHECK_OK(atvi_lang_load(ctx, test_file("d.atvi", COUNTS), NULL, &lang));
  for (long fail = 1;; fail++) {
    atvi_pool *pool;
    const char *note, *text;
    lang->source = "state C = 0";
    CHECK_OK(atvi_pool_new(ctx, &pool));
    test_allocs = 0;
    test_fail_at = fail;
    atvi_status status = atvi_app_gaps(pool, lang, &note);
    if (status == ATVI_OK) status = atvi_app_start_text(pool, lang, 1, &text);
    test_fail_at = 0;
    atvi_pool_free(pool);
    if (status == ATVI_OK) break;
    CHECK_STATUS(status, ATVI_ENOMEM);
  }
  atvi_lang_free(lang);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

TESTS({"rows_left_out_are_told", rows_left_out_are_told},
      {"what_is_as_it_should_be_is_not", what_is_as_it_should_be_is_not}, {"steps", steps},
      {"starts", starts}, {"without_memory", without_memory})
