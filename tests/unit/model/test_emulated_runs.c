/* SPDX-License-Identifier: MIT */
/* Where runs come from, what can be wrong with them, and emulators that are kept. */
#include "emulated_world.h"
#include "io/file.h"

static const double THETA[D] = {3.31, 0.87, 0.61, 2.7, 0.083, 4.1};

/* A mean that was taken off is added again: the same model. */
static void a_mean_is_added_again(void) {
  static double less[RUNS][TIMES], mean[TIMES];
  atvi_ctx *ctx = test_ctx();
  write_world();
  for (int t = 0; t < TIMES; t++) {
    for (int i = 0; i < RUNS; i++) mean[t] += OUTPUT[i][t] / RUNS;
    for (int i = 0; i < RUNS; i++) less[i][t] = OUTPUT[i][t] - mean[t];
  }
  write_matrix("less.csv", less[0], RUNS, TIMES);
  write_matrix("mean.csv", mean, TIMES, 1);
  atvi_model *m = load_with(
      ctx,
      PARAMETERS "emulator flow {\n inputs a, b\n designs \"designs.csv\" columns 2..3\n outputs "
                 "\"less.csv\" columns 2..10\n mean \"mean.csv\" column 2\n times \"times.csv\" column 2\n"
                 " kernel matern32\n lengths 1.7, 0.61\n nugget 0.013\n time 5.3\n}\n" OBSERVED,
      (atvi_model_load_opts){0});
  double em[ROWS];
  markov_dense d = {0};
  const bool used[ROWS] = {true, true, true, true, false, true, true, true};
  CHECK_REL(test_eval(ctx, atvi_model_target(m), THETA).ll, dense_world(ctx, THETA, used, em, &d), 1e-10);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void refuse(atvi_ctx *ctx, const char *text, atvi_status want, const char *message) {
  atvi_model *m;
  atvi_status status = atvi_model_load_with(ctx, test_file("world.atvi", text),
                                            &(atvi_model_load_opts){.interpret = true, .runs = test_dir}, &m);
  CHECK_MSG(status == want, "status %d, want %d: %s", (int)status, (int)want, atvi_errmsg(ctx));
  CHECK_MSG(strstr(atvi_errmsg(ctx), message) != NULL, "message is: %s\nwant: %s", atvi_errmsg(ctx), message);
  CHECK(m == NULL);
}

#define WITH(designs, outputs, times)                                                                        \
  PARAMETERS "emulator flow {\n inputs a, b\n designs \"" designs "\" columns 2..3\n outputs \"" outputs     \
             "\" columns 2..10\n times \"" times "\" column 2\n}\n" OBSERVED

static void wrong_files_are_named(void) {
  static double few[RUNS - 1][TIMES], back[TIMES];
  atvi_ctx *ctx = test_ctx();
  write_world();
  write_matrix("few.csv", few[0], RUNS - 1, TIMES);
  write_matrix("one.csv", few[0], 1, TIMES);
  write_matrix("one_design.csv", few[0], 1, 2);
  test_file("text.csv", "run,a,b\n1,2.5,0.3\n2,many,0.4\n");
  test_file("hole.csv", "run,a,b\n1,2.5,0.3\n2,2.7,\n");
  for (int i = 0; i < TIMES; i++) back[i] = i == 4 ? 0 : TIME[i];
  write_matrix("back.csv", back, TIMES, 1);
  refuse(ctx, WITH("none.csv", "outputs.csv", "times.csv"), ATVI_EIO, "none.csv");
  refuse(ctx, WITH("text.csv", "outputs.csv", "times.csv"), ATVI_EDATA,
         "text.csv:3:3: error: 'many' is not a number");
  refuse(ctx, WITH("hole.csv", "outputs.csv", "times.csv"), ATVI_EDATA,
         "hole.csv:3:7: error: a value is missing");
  refuse(ctx, WITH("designs.csv", "few.csv", "times.csv"), ATVI_EDATA, "few.csv:1:1: error: 13 runs, but ");
  refuse(ctx, WITH("designs.csv", "designs.csv", "times.csv"), ATVI_EDATA,
         "designs.csv:1:1: error: the file has 3 columns, and column 10 is asked for");
  refuse(ctx, WITH("designs.csv", "outputs.csv", "designs.csv"), ATVI_EDATA,
         "designs.csv:1:1: error: 14 lines, but 9 outputs");
  refuse(ctx, WITH("designs.csv", "outputs.csv", "back.csv"), ATVI_EDATA,
         "back.csv:6:3: error: times must ascend");
  refuse(ctx, WITH("one_design.csv", "one.csv", "times.csv"), ATVI_EDATA, "at least 2 runs");
  refuse(ctx,
         PARAMETERS "emulator flow {\n inputs a, b\n designs \"designs.csv\" columns 2..3\n outputs "
                    "\"outputs.csv\" columns "
                    "2..10\n mean \"designs.csv\" column 2\n}\n" OBSERVED,
         ATVI_EDATA, "14 lines, but 9 outputs: there must be one line per output");
  /* without times the runs are at 1, 2, ... */
  refuse(ctx,
         PARAMETERS "emulator flow {\n inputs a, b\n designs \"designs.csv\" columns 2..3\n outputs "
                    "\"outputs.csv\" columns "
                    "2..10\n lengths 1.7, 0.61\n nugget 0.013\n time 5.3\n}\n" OBSERVED,
         ATVI_EDATA,
         "data.csv:2:1: error: the emulator 'flow' has no output at time 0.5; it has 9, from 1 to 9");
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* ---- a simulator's record ---- */

typedef struct {
  int warnings;
  char last[400], note[400]; /* the latest of each kind */
} heard;

static void hear(void *user, atvi_log_level level, const char *line) {
  heard *h = user;
  if (level == ATVI_LOG_NOTE) snprintf(h->note, sizeof h->note, "%s", line);
  if (level != ATVI_LOG_WARN) return;
  h->warnings++;
  snprintf(h->last, sizeof h->last, "%s", line);
}

static const char *record(bool scalar) {
  static char text[20000];
  size_t n = (size_t)snprintf(
      text, sizeof text,
      "{\"record\":\"atvi runs\",\"version\":1,\"parameters\":[\"a\",\"b\"],\"outputs\":[\"flow\"],"
      "\"program\":\"x\"}\n");
  for (int i = 0; i < RUNS; i++) {
    n += (size_t)snprintf(text + n, sizeof text - n,
                          "{\"id\":%d,\"outcome\":\"ok\",\"seconds\":1.5,\"attempts\":1,\"parameters\":{"
                          "\"a\":%.17g,\"b\":%.17g},"
                          "\"outputs\":{\"flow\":{",
                          i + 1, DESIGN[i][0], DESIGN[i][1]);
    for (int t = 0; t < TIMES && !scalar; t++)
      n += (size_t)snprintf(text + n, sizeof text - n, "%s%.17g", t ? "," : "\"time\":[", TIME[t]);
    n += (size_t)snprintf(text + n, sizeof text - n, scalar ? "\"value\":[" : "],\"value\":[");
    for (int t = 0; t < (scalar ? 1 : TIMES); t++)
      n += (size_t)snprintf(text + n, sizeof text - n, "%s%.17g", t ? "," : "", OUTPUT[i][t]);
    n += (size_t)snprintf(text + n, sizeof text - n, "]}}}\n");
  }
  snprintf(
      text + n, sizeof text - n,
      "{\"id\":99,\"outcome\":\"failed\",\"seconds\":0.3,\"attempts\":2,\"parameters\":{\"a\":2.1,\"b\":0.2},"
      "\"reason\":\"ended with status 1\",\"log\":\"\"}\n");
  return test_file("runs.jsonl", text);
}

#define SIMULATOR                                                                                            \
  "simulator {\n command \"./flow {a} {b}\"\n output flow from \"out.csv\" csv column q time hour\n}\n"      \
  "emulator flow {\n kernel matern32\n lengths 1.7, 0.61\n nugget 0.013\n time 5.3\n}\n"

static void runs_of_a_simulator_are_found(void) {
  const bool used[ROWS] = {true, true, true, true, false, true, true, true};
  heard h = {0};
  double em[ROWS];
  markov_dense d = {0};
  atvi_ctx *ctx = test_ctx();
  atvi_ctx_set_log(ctx, hear, &h);
  write_world();
  refuse(ctx, PARAMETERS SIMULATOR OBSERVED, ATVI_EIO, "runs.jsonl");
  record(false);
  atvi_model *m = load_with(ctx, PARAMETERS SIMULATOR OBSERVED, (atvi_model_load_opts){0});
  CHECK_REL(test_eval(ctx, atvi_model_target(m), THETA).ll, dense_world(ctx, THETA, used, em, &d), 1e-10);
  CHECK_INT(h.warnings, 0); /* failed runs are for those to tell who judge the emulator */
  CHECK_INT(m->emulated->emulator[0].dossier.r.runs.n, 14);
  CHECK_INT(m->emulated->lines, 16);
  atvi_pool *pool;
  atvi_emulated_runs r;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  CHECK_OK(atvi_model_emulated_runs_read(pool, m->lang, NULL, test_dir, 0, &r));
  const atvi_sim_runs *rec = &r.record;
  CHECK(rec->n_failed == 1 && strstr(rec->failure, "ended with status 1") && rec->n_other == 0 &&
        rec->lines == 16);
  for (int j = 0; j < 2; j++) CHECK(r.least[j] < r.most[j]);
  atvi_pool_free(pool);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* Inputs without an upper bound whose runs crowd at the lower one are taken by their logarithm, unless
 * lengths are given for what they are. */
static void crowded_inputs_are_taken_by_their_logarithm(void) {
  enum { N = 41 };
  double even[N], crowd[N], axis_x[3] = {0, 0.31, 1};
  for (int i = 0; i < N; i++) even[i] = 0.5 + 2.385 * i, crowd[i] = 1.5 + exp(0.2 * i - 4);
  CHECK(!atvi_model_emulated_axis_log(N, even, 0) && atvi_model_emulated_axis_log(N, crowd, 1.5));
  CHECK(!atvi_model_emulated_axis_log(N, crowd, crowd[0])); /* a run at the bound has no logarithm */
  for (int i = 0; i < N; i++) crowd[i] = exp(0.03 * i);
  CHECK(!atvi_model_emulated_axis_log(N, crowd, 0)); /* not a range of which it matters */
  for (int k = 0; k < 2; k++) {
    atvi_emulated_axis a;
    atvi_model_emulated_axis_set(&a, k ? 1.5 : NAN, 2, 7.19);
    CHECK_ABS(atvi_model_emulated_axis_x(&a, 2), 0, 1e-15);
    CHECK_REL(atvi_model_emulated_axis_x(&a, 7.19), 1, 1e-15);
    for (int i = 0; i < 3; i++) {
      double theta = atvi_model_emulated_axis_theta(&a, axis_x[i]), h = 1e-6;
      CHECK_ABS(atvi_model_emulated_axis_x(&a, theta), axis_x[i], 1e-14);
      CHECK_REL(atvi_model_emulated_axis_slope(&a, axis_x[i]),
                (atvi_model_emulated_axis_x(&a, theta + h) - atvi_model_emulated_axis_x(&a, theta - h)) /
                    (2 * h),
                1e-8);
    }
    CHECK(isfinite(atvi_model_emulated_axis_x(&a, 1.5)));
    atvi_model_emulated_axis_set(&a, k ? 1.5 : NAN, 2, 2);
    CHECK(a.width == 1);
  }
}

static void logarithms_have_gradients(void) {
  static const char *const TEXT[2] = {
      "param a ~ uniform(2, 5)\nparam b ~ lognormal(0, 1)\nparam s2 ~ exponential(2)\n"
      "emulator flow {\n inputs a, b\n designs \"designs.csv\" columns 2..3\n outputs \"outputs.csv\" "
      "columns 2..10\n"
      " times \"times.csv\" column 2\n",
      "}\ndata \"data.csv\" time t\nobserve y ~ emulator(flow) + white(s2)\n"};
  const double theta[3] = {3.31, 0.87, 0.21};
  char text[1000];
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  write_world();
  for (int i = 0; i < RUNS; i++) DESIGN[i][1] = exp(DESIGN[i][1]);
  write_matrix("designs.csv", DESIGN[0], RUNS, 2);
  for (int held = 0; held < 2; held++) {
    atvi_emulated_runs r;
    snprintf(text, sizeof text, "%s nugget 0.01\n%s%s", TEXT[0], held ? "lengths 1.7, 0.61\n" : "", TEXT[1]);
    atvi_model *m = load_with(ctx, text, (atvi_model_load_opts){0});
    CHECK_OK(atvi_model_emulated_runs_read(pool, m->lang, NULL, test_dir, 0, &r));
    CHECK(isnan(r.axis[0].base) && (held ? isnan(r.axis[1].base) : r.axis[1].base == 0));
    CHECK(r.lower[1] == r.least[1] && r.lower[0] == 2 && r.width[0] == 3);
    for (int i = 0; i < RUNS; i++)
      CHECK_REL(atvi_model_emulated_axis_theta(&r.axis[1], r.runs.x[2 * i + 1]), DESIGN[i][1], 1e-13);
    CHECK(test_gradient(ctx, atvi_model_target(m), theta, 1e-6) < 1e-6);
    atvi_model_free(m);
  }
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* An output that is one number: the same mean, and the same error, in every row. */
static void an_output_may_be_one_number(void) {
  static const char *const TEXT =
      "param a ~ uniform(2, 5)\nparam b ~ normal(1, 1)\nparam s2 ~ exponential(2)\nparam sill ~ "
      "exponential(0.1)\n"
      "simulator {\n command \"./flow {a} {b}\"\n output flow from stdout json\n}\n"
      "emulator flow {\n kernel matern32\n lengths 1.7, 0.61\n nugget 0.013\n}\n"
      "data \"peaks.csv\"\nobserve peak ~ emulator(flow, sill) + white(s2)\n";
  const double theta[4] = {3.31, 0.87, 0.21, 4.1}, y[3] = {1.2, 1.71, 1.4};
  double em[ROWS], share, want = 0, S = 0, SS = 0;
  atvi_ctx *ctx = test_ctx();
  write_world();
  record(true);
  test_file("peaks.csv", "peak\n1.2\n1.71\n1.4\n");
  atvi_model *m = load_with(ctx, TEXT, (atvi_model_load_opts){0});
  dense_emulator(theta, em, &share); /* row 0 is time 0.5, the first */
  double c = theta[3] * share, w = theta[2];
  for (int i = 0; i < 3; i++) S += y[i] - em[0], SS += (y[i] - em[0]) * (y[i] - em[0]);
  want = -1.5 * log(2 * acos(-1)) - 0.5 * log(w * w * (w + 3 * c)) -
         0.5 * (SS / w - S * S * c / (w * (w + 3 * c)));
  CHECK_REL(test_eval(ctx, atvi_model_target(m), theta).ll, want, 1e-10);
  CHECK(test_gradient(ctx, atvi_model_target(m), theta, 1e-6) < 1e-7);
  CHECK_INT(atvi_model_target(m)->n_series, 2); /* no discrepancy */
  atvi_model_free(m);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* A number that has a time is for data at that time, and no other. */
static void one_time_is_a_time(void) {
  static const char *const TEXT =
      "param a ~ uniform(2, 5)\nparam b ~ normal(1, 1)\nparam s2 ~ exponential(2)\n"
      "simulator {\n command \"./flow {a} {b}\"\n output flow from \"out.csv\" csv column q time hour\n}\n"
      "emulator flow {\n kernel matern32\n lengths 1.7, 0.61\n nugget 0.013\n}\n"
      "data \"peaks.csv\" time t\nobserve peak ~ emulator(flow) + white(s2)\n";
  const double theta[3] = {3.31, 0.87, 0.21};
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  char *text, *at;
  size_t n;
  write_world();
  CHECK_OK(atvi_pool_new(ctx, &pool));
  CHECK_OK(atvi_io_file_read(pool, record(true), &text, &n));
  char *timed = atvi_pool_take(pool, 2 * n, 1), *to = timed; /* "value" becomes "time":[24],"value" */
  for (; (at = strstr(text, "\"value\"")) != NULL; text = at + 7)
    to += sprintf(to, "%.*s\"time\":[24],\"value\"", (int)(at - text), text);
  sprintf(to, "%s", text);
  test_file("runs.jsonl", timed);
  test_file("peaks.csv", "t,peak\n24,1.2\n24,1.71\n");
  atvi_model *m = load_with(ctx, TEXT, (atvi_model_load_opts){0});
  double with = test_eval(ctx, atvi_model_target(m), theta).ll;
  CHECK(test_gradient(ctx, atvi_model_target(m), theta, 1e-6) < 1e-7);
  atvi_model_free(m);
  test_file("peaks.csv", "t,peak\n24,1.2\n25,1.71\n");
  refuse(ctx, TEXT, ATVI_EDATA, "peaks.csv:3:1: error: the emulator 'flow' has no output at time 25");
  record(true); /* without a time: for any data, and the same number */
  m = load_with(ctx, TEXT, (atvi_model_load_opts){0});
  CHECK_REL(test_eval(ctx, atvi_model_target(m), theta).ll, with, 1e-12);
  atvi_model_free(m);
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* ---- estimated, kept, and stale ---- */

#define FREE                                                                                                 \
  "emulator flow {\n inputs a, b\n designs \"designs.csv\" columns 2..3\n outputs \"outputs.csv\" columns "  \
  "2..10\n"                                                                                                  \
  " times \"times.csv\" column 2\n kernel squared\n}\n"                                                      \
  "data \"data.csv\" time t\nobserve y ~ emulator(flow) + exponential(v, l) + white(s2)\n"

static void a_kept_emulator_is_used_again(void) {
  heard h = {0};
  test_value v[3];
  atvi_pool *pool;
  atvi_ctx *ctx = test_ctx();
  atvi_ctx_set_log(ctx, hear, &h);
  write_world();
  atvi_model *m = load_with(ctx, PARAMETERS FREE, (atvi_model_load_opts){0});
  v[0] = test_eval(ctx, atvi_model_target(m), THETA);
  CHECK(isfinite(v[0].ll) && v[0].gl[5] == 0); /* its own sill */
  CHECK(test_gradient(ctx, atvi_model_target(m), THETA, 1e-6) < 1e-6);
  CHECK_OK(atvi_pool_new(ctx, &pool));
  const char *path = atvi_model_emulated_path(pool, m->lang, 0, test_dir);
  CHECK(path && strstr(path, "/emulator-flow.json"));
  CHECK_OK(atvi_gp_emulator_save(ctx, m->emulated->emulator[0].em, path));
  atvi_model_free(m);
  m = load_with(ctx, PARAMETERS FREE, (atvi_model_load_opts){0});
  v[1] = test_eval(ctx, atvi_model_target(m), THETA);
  atvi_model_free(m);
  CHECK_REL(v[1].ll, v[0].ll, 1e-12);
  CHECK_INT(h.warnings, 0);
  OUTPUT[3][2] += 0.5; /* other runs: the kept one is stale */
  write_matrix("outputs.csv", OUTPUT[0], RUNS, TIMES);
  m = load_with(ctx, PARAMETERS FREE, (atvi_model_load_opts){0});
  v[2] = test_eval(ctx, atvi_model_target(m), THETA);
  atvi_model_free(m);
  CHECK(h.warnings == 0 && strstr(h.note, "'flow' is fitted anew") && fabs(v[2].ll - v[0].ll) > 1e-6);
  CHECK(strstr(h.note, "emulator-flow.json") && !strstr(h.note, "error"));
  char *kept; /* a file that is damaged is worth a warning */
  size_t n_kept;
  CHECK_OK(atvi_io_file_read(pool, path, &kept, &n_kept));
  CHECK_OK(atvi_io_file_save(ctx, path, "{", 1));
  m = load_with(ctx, PARAMETERS FREE, (atvi_model_load_opts){0});
  atvi_model_free(m);
  CHECK(h.warnings == 1 && strstr(h.last, "fitted anew") && strstr(h.last, "damaged"));
  CHECK_OK(atvi_io_file_save(ctx, path, kept, n_kept));
  /* that of a fit must be of these runs */
  const atvi_model_load_opts of_fit = {.interpret = true, .runs = test_dir, .emulators = test_dir};
  const char *model = test_file("world.atvi", PARAMETERS FREE);
  CHECK_STATUS(atvi_model_load_with(ctx, model, &of_fit, &m), ATVI_EDATA);
  CHECK(strstr(atvi_errmsg(ctx), "'flow' are not what they were at the time of the fit"));
  OUTPUT[3][2] -= 0.5;
  write_matrix("outputs.csv", OUTPUT[0], RUNS, TIMES);
  m = load_with(ctx, PARAMETERS FREE, of_fit);
  CHECK_REL(test_eval(ctx, atvi_model_target(m), THETA).ll, v[0].ll, 1e-12);
  atvi_model_free(m);
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void memory_may_fail(void) {
  atvi_ctx *ctx = test_ctx();
  write_world();
  const char *path = test_file("world.atvi", PARAMETERS EMULATOR OBSERVED);
  atvi_model *m = NULL;
  void *work = NULL;
  long live = test_live;
  atvi_status status = ATVI_ENOMEM;
  for (long k = 1; status == ATVI_ENOMEM; k++) {
    test_fail_at = test_allocs + k;
    status =
        atvi_model_load_with(ctx, path, &(atvi_model_load_opts){.interpret = true, .runs = test_dir}, &m);
    if (status == ATVI_ENOMEM)
      CHECK(m == NULL && test_live == live);
    else
      CHECK_MSG(status == ATVI_OK, "allocation %ld: %s", k, atvi_errmsg(ctx));
  }
  live = test_live;
  status = ATVI_ENOMEM;
  for (long k = 1; status == ATVI_ENOMEM; k++) {
    test_fail_at = test_allocs + k;
    status = m->target.ops->work_new(m, ctx, &work);
    if (status == ATVI_ENOMEM) CHECK(work == NULL && test_live == live);
  }
  CHECK_OK(status);
  m->target.ops->work_free(work);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

TESTS({"mean", a_mean_is_added_again}, {"wrong", wrong_files_are_named},
      {"record", runs_of_a_simulator_are_found}, {"scalar", an_output_may_be_one_number},
      {"one_time", one_time_is_a_time}, {"crowded", crowded_inputs_are_taken_by_their_logarithm},
      {"log", logarithms_have_gradients}, {"kept", a_kept_emulator_is_used_again},
      {"memory", memory_may_fail})
