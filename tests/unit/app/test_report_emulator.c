/* SPDX-License-Identifier: MIT */
#include "app/report_emulator.h"
#include "math/rng.h"
#include "testing.h"
#include <math.h>
#include <unistd.h>

static const char MODEL[] = "param a ~ uniform(0, 1)\n"
                            "param b ~ uniform(-2, 3)\n"
                            "param s2 ~ invgamma(3, 0.1)\n"
                            "emulator f {\n"
                            "  inputs  a, b\n"
                            "  designs \"designs.csv\" columns 1..2\n"
                            "  outputs \"outputs.csv\" columns 1..3\n"
                            "%s}\n"
                            "data \"y.csv\"\n"
                            "observe y ~ emulator(f) + white(s2)\n";

typedef struct {
  char dir[40], path[80];
  atvi_ctx *ctx;
  atvi_pool *pool;
  atvi_lang *lang;
} world;

static FILE *file(const world *w, const char *name) {
  char path[80];
  snprintf(path, sizeof path, "%s/%s", w->dir, name);
  FILE *f = fopen(path, "w");
  CHECK(f);
  return f;
}

/* more: lines before the end of the emulator's block. */
static void world_open(world *w, int n, const char *more) {
  snprintf(w->dir, sizeof w->dir, "/tmp/atvi-emulator-XXXXXX");
  CHECK(mkdtemp(w->dir));
  snprintf(w->path, sizeof w->path, "%s/m.atvi", w->dir);
  FILE *model = file(w, "m.atvi"), *x = file(w, "designs.csv"), *y = file(w, "outputs.csv"),
       *data = file(w, "y.csv");
  atvi_rng r = atvi_rng_at(5, 1, 0, 0);
  fprintf(model, MODEL, more);
  fprintf(x, "a,b\n");
  fprintf(y, "u,v,w\n");
  for (int i = 0; i < n; i++) {
    double a = atvi_rng_uniform(&r), b = -2 + 5 * atvi_rng_uniform(&r);
    fprintf(x, "%.9g,%.9g\n", a, b);
    fprintf(y, "%.9g,%.9g,%.9g\n", sin(3 * a) + b, a * b, exp(-a) * b * b + 0.1 * atvi_rng_normal(&r));
  }
  fputs("y\n1.1\n0.4\n0.9\n", data);
  CHECK(fclose(model) == 0 && fclose(x) == 0 && fclose(y) == 0 && fclose(data) == 0);
  w->ctx = test_ctx();
  CHECK_OK(atvi_pool_new(w->ctx, &w->pool));
  CHECK_OK(atvi_lang_load(w->ctx, w->path, &(atvi_lang_opts){.data_optional = true}, &w->lang));
}

static void world_close(world *w) {
  static const char *const name[] = {"m.atvi", "designs.csv", "outputs.csv", "y.csv", "runs.jsonl"};
  char path[80];
  for (int i = 0; i < 5; i++) {
    snprintf(path, sizeof path, "%s/%s", w->dir, name[i]);
    unlink(path);
  }
  CHECK(rmdir(w->dir) == 0);
  atvi_lang_free(w->lang);
  atvi_pool_free(w->pool);
  atvi_ctx_free(w->ctx);
  CHECK_INT(test_live, 0);
}

/* What is shown gives the numbers that are told, where all is shown: with a basis, which the values leave out a part of, too. */
static void shown_values_are(const char *more) {
  enum { N = 30, M = 3 };
  world w;
  atvi_emulated_runs runs;
  atvi_emulator *em;
  atvi_report_emulator e;
  world_open(&w, N, more);
  CHECK_OK(atvi_emulated_runs_read(w.pool, w.lang, 0, w.dir, 0, &runs));
  CHECK_OK(atvi_emulator_new(w.ctx, &runs.runs, &runs.opts, &em));
  CHECK_OK(atvi_report_emulator_judge(w.pool, w.lang, 0, w.dir, &runs, em, &e));
  CHECK_INT(e.n_left, N * M);
  CHECK_INT(e.left_runs, N);
  double wrong = 0, inside = 0, mean[M] = {0}, all = 0;
  for (int i = 0; i < N * M; i++) mean[i % M] += runs.runs.y[i] / N;
  for (int i = 0; i < N * M; i++) all += pow(runs.runs.y[i] - mean[i % M], 2);
  for (int i = 0; i < N * M; i++) {
    double error = e.observed[i] - e.predicted[i];
    wrong += error * error;
    inside += fabs(error) <= 1.959963985 * e.sd[i];
    CHECK(i == 0 || e.observed[i] >= e.observed[i - 1]);
  }
  CHECK_REL(1 - wrong / all, e.q2, 1e-10); /* sums in another order */
  CHECK_REL(sqrt(wrong / (N * M)), e.rmse, 1e-10);
  CHECK_REL(inside / (N * M), e.coverage, 1e-12);
  CHECK_INT(e.n_worst, 5);
  CHECK(strncmp(e.worst[0].name, "run ", 4) == 0);
  int run = atoi(e.worst[0].name + 4) - 1; /* runs of files are numbered by their lines */
  CHECK(run >= 0 && run < N);
  CHECK_REL(e.worst[0].value[1], atvi_emulated_axis_theta(&runs.axis[1], runs.runs.x[2 * run + 1]), 1e-12);
  CHECK(e.worst[0].value[1] > -2 && e.worst[0].value[1] < 3);
  CHECK(atof(e.worst[0].say) >= atof(e.worst[4].say));
  CHECK(isnan(e.run_seconds) && e.n_bad == 0);
  CHECK_STR(e.input[1], "b");
  CHECK(e.low[1] == -2 && e.high[1] == 3);
  atvi_emulator_free(em);
  world_close(&w);
}

static void shown_values_are_those_of_leaving_one_out(void) { shown_values_are(""); }
static void with_a_basis(void) { shown_values_are("  basis 0.9\n"); }

/* Of many runs some are shown. */
static void many_runs_are_thinned(void) {
  world w;
  atvi_emulated_runs runs;
  atvi_emulator *em;
  atvi_report_emulator e;
  world_open(&w, 150, "");
  CHECK_OK(atvi_emulated_runs_read(w.pool, w.lang, 0, w.dir, 0, &runs));
  CHECK_OK(atvi_emulator_new(w.ctx, &runs.runs, &runs.opts, &em));
  CHECK_OK(atvi_report_emulator_judge(w.pool, w.lang, 0, w.dir, &runs, em, &e));
  CHECK_INT(e.n_run, 150);
  CHECK_INT(e.left_runs, 100);
  CHECK_INT(e.n_left, 300);
  double wrong = 0;
  for (atvi_idx i = 0; i < e.n_left; i++) wrong += pow(e.observed[i] - e.predicted[i], 2);
  CHECK_REL(sqrt(wrong / 300), e.rmse, 0.5); /* a sample of the same errors */
  atvi_emulator_free(em);
  world_close(&w);
}

static const char SIMULATOR[] = "param k ~ uniform(0, 2)\n"
                                "param m ~ uniform(0, 9)\n"
                                "param s2 ~ invgamma(3, 0.1)\n"
                                "simulator {\n"
                                "  command \"./sim {k} {m}\"\n"
                                "  output f from stdout csv\n"
                                "}\n"
                                "data \"y.csv\"\n"
                                "observe y ~ emulator(f) + white(s2)\n";

/* Run id is at k = id / 10, m = id % 5; of how many values it is, 0: it failed. */
static void record(FILE *f, int id, int values) {
  double k = 0.1 * id, m = id % 5;
  fprintf(f, "{\"id\":%d,\"outcome\":\"%s\",\"seconds\":0.25,\"attempts\":1,\"parameters\":{\"k\":%.17g", id,
          values ? "ok" : "failed", k);
  fprintf(f, ",\"m\":%.17g},", m);
  if (!values) fprintf(f, "\"reason\":\"ended with status %d\"}\n", id);
  for (int t = 0; t < values; t++)
    fprintf(f, "%s%.9g%s", t ? "," : "\"outputs\":{\"f\":{\"value\":[", sin((t + 1) * k) + m * m / 9,
            t == values - 1 ? "]}}}\n" : "");
}

/* Runs have their names, and those that are left out their reasons, be these their times; times are of all lines. */
static void runs_of_a_record_are_told(void) {
  world w;
  atvi_emulated_runs runs;
  atvi_emulator *em;
  atvi_report_emulator e;
  world_open(&w, 3, "");
  FILE *model = file(&w, "m.atvi"), *f = file(&w, "runs.jsonl");
  fputs(SIMULATOR, model);
  fprintf(f, "{\"record\":\"atvi runs\",\"version\":1,\"parameters\":[\"k\",\"m\"],\"outputs\":[\"f\"],"
             "\"program\":\"x\"}\n");
  record(f, 7, 0); /* and done again below */
  for (int id = 1; id <= 14; id++) record(f, id, id == 3 ? 0 : id == 5 ? 2 : 3);
  fprintf(f, "{\"id\":15,\"outcome\":\"fai"); /* what a kill left */
  CHECK(fclose(model) == 0 && fclose(f) == 0);
  atvi_lang_free(w.lang);
  CHECK_OK(atvi_lang_load(w.ctx, w.path, &(atvi_lang_opts){.data_optional = true}, &w.lang));
  CHECK_OK(atvi_emulated_runs_read(w.pool, w.lang, 0, w.dir, 0, &runs));
  CHECK_OK(atvi_emulator_new(w.ctx, &runs.runs, &runs.opts, &em));
  CHECK_OK(atvi_report_emulator_judge(w.pool, w.lang, 0, w.dir, &runs, em, &e));
  CHECK_INT(e.n_run, 12);
  CHECK_INT(e.n_failed, 2);
  CHECK_INT(e.n_bad, 2);
  CHECK_STR(e.bad[0].name, "run 3");
  CHECK_STR(e.bad[0].say, "ended with status 3");
  CHECK(e.bad[0].value[0] == 0.1 * 3 && e.bad[0].value[1] == 3);
  CHECK_STR(e.bad[1].name, "run 5");
  CHECK_MSG(strstr(e.bad[1].say, "at other times than most runs: f"), "%s", e.bad[1].say);
  CHECK(e.bad[1].value[0] == 0.1 * 5 && e.bad[1].value[1] == 0);
  for (int i = 0; i < 5; i++) {
    CHECK(strncmp(e.worst[i].name, "run ", 4) == 0);
    CHECK_REL(e.worst[i].value[0], 0.1 * atoi(e.worst[i].name + 4), 1e-12);
  }
  CHECK_INT(e.n_timed, 15);
  CHECK(e.run_seconds == 0.25 * 15);
  atvi_emulator_free(em);
  world_close(&w);
}

/* Wherever memory runs out it is told, and nothing is kept. */
static void missing_memory_is_told(void) {
  world w;
  atvi_emulated_runs runs;
  atvi_emulator *em;
  world_open(&w, 8, "");
  CHECK_OK(atvi_emulated_runs_read(w.pool, w.lang, 0, w.dir, 0, &runs));
  CHECK_OK(atvi_emulator_new(w.ctx, &runs.runs, &runs.opts, &em));
  for (long k = 1;; k++) {
    atvi_pool *pool;
    atvi_report_emulator e;
    CHECK_OK(atvi_pool_new(w.ctx, &pool));
    test_fail_at = test_allocs + k;
    atvi_status status = atvi_report_emulator_judge(pool, w.lang, 0, w.dir, &runs, em, &e);
    bool reached = test_allocs >= test_fail_at;
    test_fail_at = 0;
    CHECK_INT(status, reached ? ATVI_ENOMEM : ATVI_OK);
    atvi_pool_free(pool);
    if (!reached) break;
  }
  atvi_emulator_free(em);
  world_close(&w);
}

TESTS({"shown", shown_values_are_those_of_leaving_one_out}, {"basis", with_a_basis},
      {"thinned", many_runs_are_thinned}, {"record", runs_of_a_record_are_told},
      {"memory", missing_memory_is_told})
