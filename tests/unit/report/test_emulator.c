/* SPDX-License-Identifier: MIT */
#include "io/file.h"
#include "page_check.h"
#include "report/report.h"
#include <math.h>
#include <unistd.h>

static const char EVIL[] = "a<script>alert(1)</script>&\"b'";

/* Two inputs, three outputs, four runs of which the third is far off. */
enum { N = 4, D = 2, M = 3 };
static const double X[N][D] = {{0.1, 0.9}, {0.4, 0.5}, {0.312, 0.66666666666666663}, {0.8, 0.1}},
                    Y[N][M] = {{1, 2, 3}, {2, 3, 4}, {3, 4, 5}, {4, 5, 6}}, TIME[M] = {1, 2, 5},
                    LENGTH[D] = {0.734, 8000}, FIRST[D] = {0.61, 0.002}, TOTAL[D] = {0.87, 0.003},
                    TOTAL_TIME[M][D] = {{0.5, 0.1}, {0.7, 0.2}, {0.99, 0}}, AT[D] = {0.0456, -6.3};
static double PREDICTED[N][M] = {{1.05, 2.02, 3}, {2.02, 3.1, 4}, {4.2, 4, 5}, {3.9, 5, 6.1}},
              SD[N] = {0.1, 0.1, 0.1, 0.1}, ERROR[N] = {0.3, 0.6, 6.93, 0.8}, Q2[M] = {0.91, 0.97, 0.99},
              LOW[D] = {0.03, -6.7}, WIDTH[D] = {0.05, 0.6};
static atvi_emulated_axis LINEAR[D] = {{NAN, 0.03, 0.05}, {NAN, -6.7, 0.6}};
static const int64_t ID[N] = {3, 11, 113, 120};
static const char *const INPUT[D] = {EVIL, "logk"}, *const REMARK[D] = {"", "does not matter"},
                         *const DOUBT[2] = {"its intervals are too short", "only one start of the search"};
static const atvi_sim_left BAD[] = {{7, AT, EVIL}, {8, AT, "b"}, {9, AT, "c"}};
static atvi_dossier_third THIRD[D][3] = {{{2, 0.71234, true}, {1, 0.95, false}, {1, 0.97, false}},
                                         {{1, 0.96, false}, {0, NAN, false}, {3, 0.9, false}}};

static const atvi_dossier DOSSIER = {
    .name = "flow",
    .input = INPUT,
    .r = {.runs = {N, D, M, X[0], Y[0], TIME, NULL},
          .lower = LOW,
          .width = WIDTH,
          .axis = LINEAR,
          .record = {.n = N, .d = D, .id = ID, .n_failed = 3, .left = BAD, .seconds = 14, .n_timed = 7}},
    .loo = {0.98765, 0.9512, 0.0547, 0, 2, 6.93, Q2, ERROR, PREDICTED[0], SD},
    .third = THIRD[0],
    .poor = "at late times (t > 2) and for low k",
    .n_held = 4,
    .held = {.q2 = 0.9712, .coverage = 0.93, .rmse = 0.061},
    .outside = NAN};

static const atvi_report_emulator EMULATOR = {.of = &DOSSIER,
                                              .how = "Kernel matern52.",
                                              .seconds = 1.25,
                                              .length = LENGTH,
                                              .first = FIRST,
                                              .total = TOTAL,
                                              .total_time = TOTAL_TIME[0],
                                              .remark = REMARK,
                                              .sobol_error = 0.001,
                                              .time_name = "hour"};

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
      CHECK_OK(atvi_io_file_read(f->pool, path, &text, &n));
      if (!pdf) CHECK(markup_check(text) > 10);
      unlink(path);
    }
  snprintf(path, sizeof path, "%s/figures", f->dir);
  CHECK(rmdir(path) == 0); /* nothing else was there */
  snprintf(path, sizeof path, "%s/report.html", f->dir);
  CHECK_OK(atvi_io_file_read(f->pool, path, &text, &n));
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

static bool has(const char *html, const char *words) { return strstr(html, words) != NULL; }
#define HAS(html, words) CHECK_MSG(strstr(html, words) != NULL, "no '%s'", words)

/* What is shown gives the numbers that are reported, where all is shown; of many runs some are. */
static void left_out_values_are_sorted_and_thinned(void) {
  static double y[150][M], predicted[150][M], sd[150];
  folder f;
  atvi_report_left v;
  atvi_dossier d = DOSSIER;
  folder_open(&f);
  CHECK_OK(atvi_report_left_out(f.pool, &d, &v));
  CHECK(v.n == N * M && v.n_run == N);
  double wrong = 0, want = 0;
  for (int i = 0; i < N * M; i++) {
    CHECK(i == 0 || v.observed[i] >= v.observed[i - 1]);
    wrong += pow(v.observed[i] - v.predicted[i], 2);
    want += pow(Y[i / M][i % M] - PREDICTED[i / M][i % M], 2);
    CHECK(v.sd[i] == 0.1);
  }
  CHECK_REL(wrong, want, 1e-12);
  for (int i = 0; i < 150; i++)
    for (int t = 0; t < M; t++) predicted[i][t] = (y[i][t] = ((M * i + t) * 7919) % 1009) + 1;
  d.r.runs.n = 150;
  d.r.runs.y = y[0];
  d.loo.predicted = predicted[0];
  d.loo.run_sd = sd;
  CHECK_OK(atvi_report_left_out(f.pool, &d, &v));
  CHECK(v.n == 300 && v.n_run == 100);
  for (int i = 0; i < 300; i++) CHECK(v.predicted[i] == v.observed[i] + 1);
  folder_close(&f);
}

static void a_good_one(void) {
  static const char *const figures[] = {"loo", "errors", "sobol", "over-time", "q2", NULL};
  folder f;
  folder_open(&f);
  atvi_report_emulate r = {EVIL, "dir/<m>.atvi", 1, &EMULATOR, "atvi emulate 'a<b'", "param a # <&>"};
  CHECK_OK(atvi_report_emulate_save(f.pool, &r, f.dir));
  const char *html = take(&f, figures);
  HAS(html, "verdict ok");
  HAS(html, "The emulator can replace the simulator: runs left out one at a time are "
            "predicted with "
            "Q\xc2\xb2\xc2\xa0=\xc2\xa0"
            "0.9877, and 95.1\xc2\xa0% of their values lie inside their 95\xc2\xa0% intervals.");
  HAS(html, "estimated without 4 of the runs");
  HAS(html, "run 113"); /* the worst, with its parameters */
  HAS(html, "0.04560");
  HAS(html, "run 7");
  HAS(html, "3 runs failed");
  HAS(html, "it causes 61\xc2\xa0% of the variation");
  HAS(html, "Interactions of all inputs cause 39\xc2\xa0% in total"); /* 1 - 0.61 - 0.002 */
  HAS(html, "<td>&gt; 50</td>");                                      /* a length that ran away */
  HAS(html, "does not matter");
  HAS(html, "<td>0.03</td>");
  HAS(html, "They took 14 seconds of the simulator&#39;s time, 2 each");
  HAS(html, "estimated in 1.2 seconds");
  HAS(html, "Kernel matern52.");
  HAS(html, "atvi emulate &#39;a&lt;b&#39;");
  HAS(html, "1 of 12 intervals miss it");
  HAS(html, "It is poor at late times (t &gt; 2) and for low k");
  HAS(html, "<td>0.712 poor</td><td>0.950</td><td>0.970</td>");
  HAS(html, "<td>0.960</td><td>no runs</td><td>0.900</td>");
  folder_close(&f);
}

/* Runs that were done again have cost too; inputs on a log scale are told, and all that failed. */
static void more_to_tell(void) {
  static const char *const figures[] = {"loo", "errors", "sobol", "over-time", "q2", NULL};
  static atvi_emulated_axis LOG[D] = {{NAN, 0.03, 0.05}, {0, -6.7, 0.6}};
  static atvi_sim_left many[21];
  folder f;
  folder_open(&f);
  atvi_report_emulator e = EMULATOR;
  atvi_dossier d = DOSSIER;
  e.of = &d;
  for (int i = 0; i < 21; i++) many[i] = (atvi_sim_left){i + 130, AT, "why"};
  d.r.record.n_failed = 21;
  d.r.record.left = many;
  d.poor = NULL;
  atvi_report_emulate r = {"m", "m.atvi", 1, &e, NULL, NULL};
  CHECK_OK(atvi_report_emulate_save(f.pool, &r, f.dir));
  const char *html = take(&f, figures);
  CHECK(!has(html, "on a log scale") && !has(html, ">scale<"));
  HAS(html, "The first ones:"); /* twenty of them */
  CHECK(has(html, "run 149") && !has(html, "run 150"));
  HAS(html, "It is about equally good over all times and inputs.");
  d.r.axis = LOG;
  d.r.record.n_timed = 50;
  d.r.record.seconds = 86;
  d.r.record.n_failed = 1;
  CHECK_OK(atvi_report_emulate_save(f.pool, &r, f.dir));
  html = take(&f, figures);
  HAS(html, "<th scope=\"col\">scale</th>");
  HAS(html, "<td class=\"words\">linear</td>");
  HAS(html, "<td class=\"words\">log</td>");
  HAS(html, "Inputs on a log scale enter by their logarithm");
  HAS(html, "50 runs, including repeated ones, took 86 seconds of the simulator&#39;s time, 1.7 each");
  CHECK(!has(html, "of them:"));
  folder_close(&f);
}

static void write_page(const folder *f, const char *text) {
  char path[160];
  snprintf(path, sizeof path, "%s/report.html", f->dir);
  CHECK_OK(atvi_io_file_save(f->ctx, path, text, strlen(text)));
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
  CHECK(!atvi_report_page_is(path, "emulate") && !atvi_report_page_is("/nowhere/at/all", "emulate"));
  CHECK(unlink(path) == 0 && symlink("nowhere", path) == 0);
  CHECK(!atvi_report_emulate_may(f.pool, f.dir));
  CHECK(unlink(path) == 0);
  folder_close(&f);
}

/* Doubts are in the verdict; two emulators have sections of their own; what is not known is left out. */
static void two_with_doubts(void) {
  static const char *const figures[] = {"loo", "errors", "sobol",    "over-time",
                                        "q2",  "loo-2",  "errors-2", NULL};
  folder f;
  folder_open(&f);
  atvi_report_emulator e[2] = {EMULATOR, EMULATOR};
  atvi_dossier d = DOSSIER;
  d.name = EVIL;
  d.r.runs.m = 1;
  d.r.record = (atvi_sim_runs){0};
  d.loo.q2 = 0.4, d.loo.coverage = 0.7;
  d.n_held = 0;
  e[1] = (atvi_report_emulator){.of = &d, .seconds = NAN, .sobol_error = NAN};
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
  HAS(html, "The 2 emulators can replace the simulator");
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

TESTS({"left out", left_out_values_are_sorted_and_thinned}, {"good", a_good_one}, {"more", more_to_tell},
      {"others", pages_of_others_are_known}, {"doubts", two_with_doubts}, {"wrong", what_goes_wrong_is_told})
