/* SPDX-License-Identifier: MIT */
#include "io/file.h"
#include "page_check.h"
#include "report/report.h"
#include <unistd.h>

static const char EVIL[] = "a<script>alert(1)</script>&\"b'";

/* Two inputs, three outputs, four runs of which the third is far off. */
static const double OBSERVED[4] = {1, 2, 3, 4}, PREDICTED[4] = {1.05, 2.02, 4.2, 3.9},
                    SD[4] = {0.1, 0.1, 0.1, 0.1}, LOW[2] = {0.03, -6.7}, HIGH[2] = {0.08, -6.1},
                    LENGTH[2] = {0.734, 8000}, FIRST[2] = {0.61, 0.002}, TOTAL[2] = {0.87, 0.003},
                    TIME[3] = {1, 2, 5}, Q2[3] = {0.91, 0.97, 0.99},
                    TOTAL_TIME[6] = {0.5, 0.1, 0.7, 0.2, 0.99, 0}, AT[2] = {0.0456, -6.3};
static const char *const INPUT[2] = {EVIL, "logk"}, *const REMARK[2] = {"", "does not matter"},
                         *const DOUBT[2] = {"its intervals are too short", "only one start of the search"};
static const atvi_report_run WORST = {"run 113", AT, "4.1"}, BAD = {"run 7", AT, EVIL};

static const atvi_report_emulator EMULATOR = {.name = "flow",
                                              .how = "Kernel matern52.",
                                              .n_run = 40,
                                              .n_output = 3,
                                              .n_input = 2,
                                              .n_failed = 3,
                                              .seconds = 1.25,
                                              .run_seconds = 86,
                                              .n_timed = 43,
                                              .q2 = 0.98765,
                                              .coverage = 0.9512,
                                              .rmse = 0.0547,
                                              .n_held = 4,
                                              .held_q2 = 0.9712,
                                              .held_coverage = 0.93,
                                              .held_rmse = 0.061,
                                              .n_left = 4,
                                              .left_runs = 4,
                                              .observed = OBSERVED,
                                              .predicted = PREDICTED,
                                              .sd = SD,
                                              .n_worst = 1,
                                              .worst = &WORST,
                                              .n_bad = 1,
                                              .bad = &BAD,
                                              .input = INPUT,
                                              .low = LOW,
                                              .high = HIGH,
                                              .length = LENGTH,
                                              .first = FIRST,
                                              .total = TOTAL,
                                              .remark = REMARK,
                                              .sobol_error = 0.001,
                                              .time = TIME,
                                              .time_name = "hour",
                                              .q2_time = Q2,
                                              .total_time = TOTAL_TIME,
                                              .outside = NAN};

typedef struct {
  char dir[64];
  atvi_ctx *ctx;
  atvi_pool *pool;
} folder;

static void folder_open(folder *f) {
  snprintf(f->dir, sizeof f->dir, "/tmp/atvi-report-XXXXXX");
  CHECK(mkdtemp(f->dir));
  f->ctx = test_ctx();
  CHECK_OK(atvi_pool_new(f->ctx, &f->pool));
}

/* The page, which is then removed with its figures; what[] must all be there. */
static const char *take(folder *f, const char *const *what) {
  char path[160], *text;
  size_t n;
  for (; *what; what++)
    for (int pdf = 0; pdf < 2; pdf++) {
      snprintf(path, sizeof path, "%s/figures/%s.%s", f->dir, *what, pdf ? "pdf" : "svg");
      CHECK_OK(atvi_file_read(f->pool, path, &text, &n));
      if (!pdf) CHECK(markup_check(text) > 10);
      unlink(path);
    }
  snprintf(path, sizeof path, "%s/figures", f->dir);
  CHECK(rmdir(path) == 0); /* nothing else was there */
  snprintf(path, sizeof path, "%s/report.html", f->dir);
  CHECK_OK(atvi_file_read(f->pool, path, &text, &n));
  unlink(path);
  json_decref(check_page(text));
  return text;
}

static void folder_close(folder *f) {
  CHECK(rmdir(f->dir) == 0);
  atvi_pool_free(f->pool);
  atvi_ctx_free(f->ctx);
  CHECK_INT(test_live, 0);
}

#define HAS(html, words) CHECK_MSG(strstr(html, words) != NULL, "no '%s'", words)

static void a_good_one(void) {
  static const char *const figures[] = {"loo", "errors", "sobol", "over-time", "q2", NULL};
  folder f;
  folder_open(&f);
  atvi_report_emulate r = {EVIL, "dir/<m>.atvi", 1, &EMULATOR, "atvi emulate 'a<b'", "param a # <&>"};
  CHECK_OK(atvi_report_emulate_save(f.pool, &r, f.dir));
  const char *html = take(&f, figures);
  HAS(html, "verdict ok");
  HAS(html, "The emulator can take the simulator&#39;s place: runs that are left out one at a time are "
            "predicted with "
            "Q\xc2\xb2\xc2\xa0=\xc2\xa0"
            "0.9877, and 95.1\xc2\xa0% of their values lie inside their 95\xc2\xa0% intervals.");
  HAS(html, "estimated without 4 of the runs");
  HAS(html, "run 113"); /* the worst, with its parameters */
  HAS(html, "0.04560");
  HAS(html, "run 7");
  HAS(html, "3 runs failed");
  HAS(html, "alone it causes 61\xc2\xa0% of what differs");
  HAS(html, "Interactions of inputs cause 39\xc2\xa0% in all"); /* 1 - 0.61 - 0.002 */
  HAS(html, "<td>&gt; 50</td>");                                /* a length that ran away */
  HAS(html, "does not matter");
  HAS(html, "<td>0.03</td>");
  HAS(html, "They took 86 seconds of the simulator&#39;s time, 2 each");
  HAS(html, "estimated in 1.2 seconds");
  HAS(html, "Kernel matern52.");
  HAS(html, "atvi emulate &#39;a&lt;b&#39;");
  HAS(html, "1 of 4 intervals miss it");
  folder_close(&f);
}

static bool has(const char *html, const char *words) { return strstr(html, words) != NULL; }

/* Runs that were done again have cost too; inputs on a log scale are told, and all that failed. */
static void more_to_tell(void) {
  static const char *const figures[] = {"loo", "errors", "sobol", "over-time", "q2", NULL};
  static const bool LOG[2] = {false, true};
  folder f;
  folder_open(&f);
  atvi_report_emulator e = EMULATOR;
  atvi_report_emulate r = {"m", "m.atvi", 1, &e, NULL, NULL};
  CHECK_OK(atvi_report_emulate_save(f.pool, &r, f.dir));
  const char *html = take(&f, figures);
  CHECK(!has(html, "on a log scale") && !has(html, ">scale<"));
  HAS(html, "The first of them:"); /* one of three */
  e.log = LOG;
  e.n_timed = 50;
  e.n_failed = 1;
  CHECK_OK(atvi_report_emulate_save(f.pool, &r, f.dir));
  html = take(&f, figures);
  HAS(html, "<th scope=\"col\">scale</th>");
  HAS(html, "<td class=\"words\">linear</td>");
  HAS(html, "<td class=\"words\">log</td>");
  HAS(html, "Inputs on a log scale are taken by their logarithm");
  HAS(html,
      "50 runs, each counted as often as it was done, took 86 seconds of the simulator&#39;s time, 1.7 each");
  CHECK(!has(html, "of them:"));
  folder_close(&f);
}

static void write_page(const folder *f, const char *text) {
  char path[160];
  snprintf(path, sizeof path, "%s/report.html", f->dir);
  CHECK_OK(atvi_file_save(f->ctx, path, text, strlen(text)));
}

/* A page of atvi emulate may be replaced, those of others may not, be they ours. */
static void pages_of_others_are_known(void) {
  static const char *const figures[] = {"loo", "errors", "sobol", "over-time", "q2", NULL};
  char path[160];
  folder f;
  folder_open(&f);
  atvi_report_emulate r = {"m", "m.atvi", 1, &EMULATOR, NULL, NULL};
  CHECK(atvi_report_emulate_may(f.pool, f.dir)); /* there is none */
  CHECK_OK(atvi_report_emulate_save(f.pool, &r, f.dir));
  CHECK(atvi_report_emulate_may(f.pool, f.dir));
  take(&f, figures);
  write_page(&f, "<!DOCTYPE html><html><head><title>atvi-page emulate</title></head></html>");
  CHECK(!atvi_report_emulate_may(f.pool, f.dir));
  write_page(&f, "<meta name=\"atvi-page\" content=\"emulated\">");
  CHECK(!atvi_report_emulate_may(f.pool, f.dir));
  write_page(&f, "");
  CHECK(!atvi_report_emulate_may(f.pool, f.dir));
  CHECK_OK(atvi_report_short_save(f.pool, &(atvi_report_short){"t", "s", "ok", "say", 0, NULL}, f.dir));
  CHECK(!atvi_report_emulate_may(f.pool, f.dir));
  snprintf(path, sizeof path, "%s/report.html", f.dir);
  CHECK(!atvi_page_is(path, "emulate") && !atvi_page_is("/nowhere/at/all", "emulate"));
  CHECK(unlink(path) == 0 && symlink("nowhere", path) == 0);
  CHECK(!atvi_report_emulate_may(f.pool, f.dir));
  CHECK(unlink(path) == 0);
  folder_close(&f);
}

/* Doubts are in the verdict; two emulators have sections of their own; what is not known is left out. */
static void two_with_doubts(void) {
  static const char *const figures[] = {"loo", "errors", "sobol", "over-time", "q2", NULL};
  folder f;
  folder_open(&f);
  atvi_report_emulator e[2] = {EMULATOR, EMULATOR};
  e[1] = (atvi_report_emulator){
      .name = EVIL, .n_run = 9, .n_output = 1, .n_input = 2, .q2 = 0.4, .coverage = 0.7};
  e[1].input = INPUT;
  e[1].seconds = e[1].run_seconds = e[1].sobol_error = e[1].outside = NAN;
  e[1].n_doubt = 2;
  e[1].doubt = DOUBT;
  atvi_report_emulate r = {"two", "m.atvi", 2, e, NULL, NULL};
  CHECK_OK(atvi_report_emulate_save(f.pool, &r, f.dir));
  const char *html = take(&f, figures);
  HAS(html, "verdict warn");
  HAS(html, "with care: its intervals are too short.");
  HAS(html, "<li>a&lt;script&gt;");
  HAS(html, "only one start of the search");
  HAS(html, "id=\"validation-2\"");
  HAS(html, "flow: Validation");
  e[1].n_doubt = 0;
  CHECK_OK(atvi_report_emulate_save(f.pool, &r, f.dir));
  html = take(&f, figures);
  HAS(html, "The 2 emulators can take the simulator&#39;s place");
  HAS(html, "Q\xc2\xb2 of at least 0.4000");
  folder_close(&f);
}

static void what_goes_wrong_is_told(void) {
  folder f;
  folder_open(&f);
  atvi_report_emulate r = {EVIL, "m.atvi", 1, &EMULATOR, NULL, NULL};
  CHECK_STATUS(atvi_report_emulate_save(f.pool, &r, "/nowhere/at/all"), ATVI_EIO);
  for (long k = 1;; k += 1 + k / 16) {
    atvi_pool *pool;
    char path[160];
    CHECK_OK(atvi_pool_new(f.ctx, &pool));
    test_fail_at = test_allocs + k;
    atvi_status status = atvi_report_emulate_save(pool, &r, f.dir);
    bool reached = test_allocs >= test_fail_at;
    test_fail_at = 0;
    CHECK_INT(status, reached ? ATVI_ENOMEM : ATVI_OK);
    snprintf(path, sizeof path, "%s/report.html", f.dir);
    if (reached) CHECK(access(path, F_OK) != 0); /* whole, or not there */
    atvi_pool_free(pool);
    if (!reached) break;
  }
  take(&f, (const char *const[]){"loo", "errors", "sobol", "over-time", "q2", NULL});
  folder_close(&f);
}

TESTS({"good", a_good_one}, {"more", more_to_tell}, {"others", pages_of_others_are_known},
      {"doubts", two_with_doubts}, {"wrong", what_goes_wrong_is_told})
