/* SPDX-License-Identifier: MIT */
#include "app/report_emulator.h"
#include "app/report_runs.h"
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
                            "}\n"
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

static void world_open(world *w, int n) {
  snprintf(w->dir, sizeof w->dir, "/tmp/atvi-emulator-XXXXXX");
  CHECK(mkdtemp(w->dir));
  snprintf(w->path, sizeof w->path, "%s/m.atvi", w->dir);
  FILE *model = file(w, "m.atvi"), *x = file(w, "designs.csv"), *y = file(w, "outputs.csv"),
       *data = file(w, "y.csv");
  atvi_rng r = atvi_rng_at(5, 1, 0, 0);
  fputs(MODEL, model);
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

/* What is shown gives the sums of the closed form, where all is shown. */
static void shown_values_are_those_of_leaving_one_out(void) {
  enum { N = 30, M = 3 };
  world w;
  atvi_emulated_runs runs;
  atvi_emulator *em;
  atvi_report_emulator e;
  world_open(&w, N);
  CHECK_OK(atvi_emulated_runs_read(w.pool, w.lang, 0, w.dir, 0, &runs));
  CHECK_OK(atvi_emulator_new(w.ctx, &runs.runs, &runs.opts, &em));
  CHECK_OK(atvi_report_emulator_judge(w.pool, w.lang, 0, w.dir, &runs, em, &e));
  CHECK_INT(e.n_left, N * M);
  CHECK_INT(e.left_runs, N);
  CHECK_INT(e.left_at_once, 1);
  double wrong = 0, inside = 0, mean[M] = {0}, all = 0;
  for (int i = 0; i < N * M; i++) mean[i % M] += runs.runs.y[i] / N;
  for (int i = 0; i < N * M; i++) all += pow(runs.runs.y[i] - mean[i % M], 2);
  for (int i = 0; i < N * M; i++) {
    double error = e.observed[i] - e.predicted[i];
    wrong += error * error;
    inside += fabs(error) <= 1.959963985 * e.sd[i];
    CHECK(i == 0 || e.observed[i] >= e.observed[i - 1]);
  }
  /* two ways to the same numbers, through inverses of matrices with a condition of up to 1e8 */
  CHECK_REL(1 - wrong / all, e.q2, 1e-6);
  CHECK_REL(sqrt(wrong / (N * M)), e.rmse, 1e-5);
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

/* Of many runs some are shown. */
static void many_runs_are_thinned(void) {
  world w;
  atvi_emulated_runs runs;
  atvi_emulator *em;
  atvi_report_emulator e;
  world_open(&w, 150);
  CHECK_OK(atvi_emulated_runs_read(w.pool, w.lang, 0, w.dir, 0, &runs));
  CHECK_OK(atvi_emulator_new(w.ctx, &runs.runs, &runs.opts, &em));
  CHECK_OK(atvi_report_emulator_judge(w.pool, w.lang, 0, w.dir, &runs, em, &e));
  CHECK_INT(e.n_run, 150);
  CHECK_INT(e.left_runs, 60);
  CHECK_INT(e.n_left, 180);
  double wrong = 0;
  for (atvi_idx i = 0; i < e.n_left; i++) wrong += pow(e.observed[i] - e.predicted[i], 2);
  CHECK_REL(sqrt(wrong / 180), e.rmse, 0.5); /* a sample of the same errors */
  atvi_emulator_free(em);
  world_close(&w);
}

/* The last line of a run counts; what a kill left of a line does not. */
static void failed_runs_are_found_in_the_record(void) {
  static const char *const input[2] = {"k", "m"};
  static const char HEAD[] =
      "{\"record\":\"atvi runs\",\"version\":1,\"parameters\":[\"k\",\"m\"],\"outputs\":[\"f\"]}\n";
  static const char LINES[] =
      "{\"id\":3,\"outcome\":\"failed\",\"seconds\":0.25,\"attempts\":1,\"parameters\":{\"k\":0.31,\"m\":7.5}"
      ","
      "\"reason\":\"ended with status 1\"}\n"
      "{\"id\":1,\"outcome\":\"ok\",\"seconds\":2,\"attempts\":1,\"parameters\":{\"k\":0.1,\"m\":1},"
      "\"outputs\":{\"f\":{"
      "\"value\":[1,2]}}}\n"
      "{\"id\":2,\"outcome\":\"failed\",\"seconds\":1,\"attempts\":1,\"parameters\":{\"k\":0.2,\"m\":2},"
      "\"reason\":\"x\"}\n"
      "{\"id\":2,\"outcome\":\"ok\",\"seconds\":1.5,\"attempts\":1,\"parameters\":{\"k\":0.2,\"m\":2},"
      "\"outputs\":{}}\n"
      "{\"id\":4,\"outcome\":\"failed\",\"seconds\":0.5,\"parameters\":{\"k\":0.4},\"reason\":null}\n";
  world w;
  atvi_told_runs told;
  world_open(&w, 3);
  atvi_told_runs_read(w.pool, w.dir, 0, 2, input, &told);
  CHECK(told.n_bad == 0 && told.n_good == 0 && isnan(told.seconds)); /* there is none */
  FILE *f = file(&w, "runs.jsonl");
  fprintf(f, "%s%s{\"id\":5,\"outcome\":\"fai", HEAD, LINES);
  CHECK(fclose(f) == 0);
  atvi_told_runs_read(w.pool, w.dir, 0, 2, input, &told);
  CHECK_INT(told.n_good, 2);
  CHECK(told.good[0] == 1 && told.good[1] == 2);
  CHECK_INT(told.n_bad, 2);
  CHECK_STR(told.bad[0].name, "run 3");
  CHECK_STR(told.bad[0].say, "ended with status 1");
  CHECK(told.bad[0].value[0] == 0.31 && told.bad[0].value[1] == 7.5);
  CHECK_STR(told.bad[1].name, "run 4");
  CHECK(told.bad[1].value[0] == 0.4 && isnan(told.bad[1].value[1]));
  CHECK(told.seconds == 5.25);
  atvi_told_runs_read(w.pool, w.dir, 4, 2, input, &told); /* as it was when run 2 had failed */
  CHECK_INT(told.n_bad, 2);
  CHECK_STR(told.bad[0].name, "run 2");
  CHECK_INT(told.n_good, 1);
  world_close(&w);
}

TESTS({"shown", shown_values_are_those_of_leaving_one_out}, {"thinned", many_runs_are_thinned},
      {"record", failed_runs_are_found_in_the_record})
