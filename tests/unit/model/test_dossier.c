/* SPDX-License-Identifier: MIT */
#include "model/dossier.h"
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
  atvi_rng r = atvi_math_rng_at(5, 1, 0, 0);
  fprintf(model, MODEL, more);
  fprintf(x, "a,b\n");
  fprintf(y, "u,v,w\n");
  for (int i = 0; i < n; i++) {
    double a = atvi_math_rng_uniform(&r), b = -2 + 5 * atvi_math_rng_uniform(&r);
    fprintf(x, "%.9g,%.9g\n", a, b);
    fprintf(y, "%.9g,%.9g,%.9g\n", sin(3 * a) + b, a * b, exp(-a) * b * b + 0.1 * atvi_math_rng_normal(&r));
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

/* Leave-one-out numbers of a dossier follow from the predictions that it keeps: with a basis, which leaves
 * out a part of the values, too. */
static void numbers_follow_from(const char *more) {
  enum { N = 30, M = 3 };
  world w;
  atvi_emulated_runs runs;
  atvi_emulator *em;
  atvi_dossier d;
  world_open(&w, N, more);
  CHECK_OK(atvi_model_emulated_runs_read(w.pool, w.lang, NULL, w.dir, 0, &runs));
  CHECK_OK(atvi_gp_emulator_new(w.ctx, &runs.runs, &runs.opts, &em));
  CHECK_OK(atvi_model_dossier_make(w.pool, w.lang, 0, &runs, em, &d));
  double wrong = 0, inside = 0, mean[M] = {0}, all = 0, third[3] = {0};
  int in[3] = {0};
  for (int i = 0; i < N * M; i++) mean[i % M] += runs.runs.y[i] / N;
  for (int i = 0; i < N * M; i++) all += pow(runs.runs.y[i] - mean[i % M], 2);
  for (int i = 0; i < N * M; i++) {
    double error = runs.runs.y[i] - d.loo.predicted[i];
    int s = (int)(3 * runs.runs.x[i / M * 2 + 1]);
    wrong += error * error;
    inside += fabs(error) <= 1.959963985 * d.loo.run_sd[i / M];
    third[s] += error * error;
    in[s] += i % M == 0;
  }
  CHECK_REL(1 - wrong / all, d.loo.q2, 1e-10); /* sums in another order */
  CHECK_REL(sqrt(wrong / (N * M)), d.loo.rmse, 1e-10);
  CHECK_REL(inside / (N * M), d.loo.coverage, 1e-12);
  for (int s = 0; s < 3; s++) {
    CHECK_INT(d.third[3 + s].n, in[s]);
    CHECK_REL(1 - third[s] / in[s] / (all / N), d.third[3 + s].q2, 1e-10);
  }
  CHECK_STR(d.name, "f");
  CHECK_STR(d.input[1], "b");
  CHECK(d.r.lower[1] == -2 && d.r.width[1] == 5 && d.r.record.lines == 0 && isnan(d.outside));
  atvi_gp_emulator_free(em);
  world_close(&w);
}

static void numbers_follow_from_predictions(void) { numbers_follow_from(""); }
static void with_a_basis(void) { numbers_follow_from("  basis 0.9\n"); }

/* Doubts by what is known of an emulator of 100 runs. */
static void doubts_have_their_thresholds(void) {
  static const struct {
    double q2, coverage, held_q2;
    int n_held, n_failed, n_again, n_missing, n_other;
    int n_doubt;
    atvi_code code;
    int reach; /* 0: a note, 1: the emulator's verdict, 2: that of a fit too */
    const char *text;
  } want[] = {
      {0.95, 0.95, 0, 0, 0, 0, 0, 0, 0, 0, 0, ""},
      {0.49, 0.95, 0, 0, 0, 0, 0, 0, 1, ATVI_CODE_EMULATOR_POOR, 2, "less than half"},
      {0.89, 0.95, 0, 0, 0, 0, 0, 0, 1, ATVI_CODE_EMULATOR_FAIR, 1, "only 89 % of what differs"},
      {0.95, 0.95, 0.8, 9, 0, 0, 0, 0, 0, 0, 0, ""},
      {0.95, 0.95, 0.8, 10, 0, 0, 0, 0, 1, ATVI_CODE_EMULATOR_FAIR, 1,
       "only 80 % of what differs between runs that were held out"},
      {0.95, 0.95, 0, 0, 3, 0, 0, 0, 1, ATVI_CODE_RUNS_LEFT_OUT, 0,
       "3 failed runs are not among the 100 used (run 4: why)"},
      {0.95, 0.95, 0, 0, 30, 0, 0, 0, 1, ATVI_CODE_RUNS_LEFT_OUT, 0, "30 failed runs are not"},
      {0.95, 0.95, 0, 0, 1, 1, 0, 0, 1, ATVI_CODE_RUNS_LEFT_OUT, 0,
       "1 failed run is not among the 100 used, nor good when tried again"},
      {0.95, 0.95, 0, 0, 0, 0, 5, 0, 1, ATVI_CODE_POINTS_LEFT, 0, "5 of 105 points of the design"},
      {0.95, 0.95, 0, 0, 0, 0, 25, 0, 1, ATVI_CODE_POINTS_LEFT, 1, "25 of 125 points"},
      {0.95, 0.89, 0, 0, 0, 0, 0, 0, 1, ATVI_CODE_EMULATOR_OVERCONFIDENT, 2,
       "overconfident: its 95 % intervals cover only 89 % of the runs"},
      {0.95, 0.9, 0, 0, 0, 0, 0, 0, 0, 0, 0, ""}, /* by chance */
      {0.95, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, ""},
      {0.95, 0.95, 0, 0, 0, 0, 0, 7, 1, ATVI_CODE_RUNS_MIXED, 2,
       "7 of the 100 runs were made with another command"},
  };
  world w;
  atvi_emulated_runs runs;
  atvi_emulator *em;
  atvi_dossier d;
  world_open(&w, 30, "  nugget 0.01\n  lengths 0.7, 0.7\n  time 0.2\n");
  CHECK_OK(atvi_model_emulated_runs_read(w.pool, w.lang, NULL, w.dir, 0, &runs));
  CHECK_OK(atvi_gp_emulator_new(w.ctx, &runs.runs, &runs.opts, &em));
  CHECK_OK(atvi_model_dossier_make(w.pool, w.lang, 0, &runs, em, &d));
  d.r.runs.n = 100;
  d.r.record.failure = "run 4: why";
  for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
    d.loo.q2 = want[i].q2, d.loo.coverage = want[i].coverage;
    d.n_held = want[i].n_held, d.held.q2 = want[i].held_q2;
    d.r.record.n_failed = want[i].n_failed, d.r.record.n_again = want[i].n_again;
    d.r.record.n_other = want[i].n_other;
    d.n_missing = want[i].n_missing, d.n_point = 100 + want[i].n_missing;
    CHECK_OK(atvi_model_dossier_judge(w.pool, em, &d));
    CHECK_MSG(d.n_doubt == want[i].n_doubt, "%zu: %d doubts", i, d.n_doubt);
    CHECK(atvi_model_dossier_doubtful(&d) == (want[i].reach > 0));
    if (d.n_doubt == 0) continue;
    CHECK(d.doubt[0].say.code == want[i].code && d.doubt[0].doubtful == (want[i].reach > 0));
    CHECK_INT(d.doubt[0].say.severity, want[i].reach == 2 ? ATVI_WARNING : ATVI_NOTE);
    CHECK_MSG(strstr(d.doubt[0].say.text, want[i].text), "%s", d.doubt[0].say.text);
  }
  atvi_gp_emulator_free(em);
  world_close(&w);
}

/* Where the posterior is, the runs there decide, and nothing but runs of two simulators is grave by
 * itself. */
static void near_runs_decide(void) {
  enum { N = 30, M = 3, NEAR = 12 };
  world w;
  atvi_emulated_runs runs;
  atvi_emulator *em;
  atvi_dossier d;
  world_open(&w, N, "  nugget 0.01\n  lengths 0.7, 0.7\n  time 0.2\n");
  CHECK_OK(atvi_model_emulated_runs_read(w.pool, w.lang, NULL, w.dir, 0, &runs));
  CHECK_OK(atvi_gp_emulator_new(w.ctx, &runs.runs, &runs.opts, &em));
  CHECK_OK(atvi_model_dossier_make(w.pool, w.lang, 0, &runs, em, &d));
  d.loo.q2 = 0.4, d.loo.coverage = 0.6;
  CHECK(atvi_model_dossier_overconfident(&d));
  for (int bad = 0; bad < 2; bad++) {
    double share[N] = {0}, inside = 0, square = 0;
    d.near.run = share;
    for (int i = 0; i < NEAR; i++) {
      share[i] = 1.0 / NEAR;
      if (bad) d.loo.run_sd[i] /= 20, d.loo.run_error[i] *= 20;
      square += d.loo.run_error[i] * d.loo.run_error[i] / NEAR;
      for (int t = 0; t < M; t++)
        inside += fabs(runs.runs.y[i * M + t] - d.loo.predicted[i * M + t]) <= 1.959963985 * d.loo.run_sd[i];
    }
    CHECK_OK(atvi_model_dossier_near(w.pool, &d));
    CHECK_REL(d.near.n_run, NEAR, 1e-12);
    CHECK_REL(d.near.coverage, inside / (NEAR * M), 1e-12);
    CHECK_REL(d.near.error, sqrt(square), 1e-12);
    CHECK(atvi_model_dossier_overconfident(&d) == (bad == 1));
    CHECK_REL(atvi_model_dossier_scale(&d), fmax(1, sqrt(square * NEAR / 6.30380)), 1e-5);
    CHECK_OK(atvi_model_dossier_judge(w.pool, em, &d));
    for (int i = 0; i < d.n_doubt; i++) CHECK_INT(d.doubt[i].say.severity, ATVI_NOTE);
    CHECK(d.n_doubt >= 1 + bad && d.doubt[0].say.code == ATVI_CODE_EMULATOR_POOR);
    if (bad)
      CHECK_MSG(strstr(d.doubt[1].say.text, "overconfident where the posterior is"), "%s",
                d.doubt[1].say.text);
  }
  d.r.record.n_other = 3;
  CHECK_OK(atvi_model_dossier_judge(w.pool, em, &d));
  CHECK_INT(d.doubt[d.n_doubt - 1].say.severity, ATVI_WARNING);
  atvi_gp_emulator_free(em);
  world_close(&w);
}

/* Errors as large as the emulator says: two runs leave a factor of three open, and a hundred next to nothing. */
static void few_runs_leave_the_error_open(void) {
  double share = 1;
  atvi_dossier d = {.near = {.run = &share, .error = 1}};
  const struct {
    double n, quantile; /* of chi-square, at 0.1 */
  } known[] = {{1, 0.0157908}, {2, 0.210721}, {5, 1.61031}, {100, 82.3581}};
  for (int i = 0; i < 4; i++) {
    d.near.n_run = known[i].n;
    CHECK_REL(atvi_model_dossier_scale(&d), sqrt(known[i].n / known[i].quantile), 1e-5);
  }
  d.near.error = 0.1;
  CHECK(atvi_model_dossier_scale(&d) == 1); /* never better than it says */
  d.near.run = NULL;
  CHECK(atvi_model_dossier_scale(&d) == 1);
}

/* An emulator of something that turns fast in one third of an input, or at some outputs alone, is poor there. */
static void poor_places_are_named(void) {
  enum { N = 40, M = 8 };
  static const struct {
    int from, to; /* outputs that turn fast */
    double low;   /* from this value of a on */
    bool timed;
    const char *want;
  } is[] = {{0, -1, 0, true, NULL},
            {6, 7, 0, true, "at late times (t > 12)"},
            {0, 1, 0, true, "at early times (t < 6)"},
            {3, 4, 0, true, "from t = 8 to 10"},
            {3, 3, 0, true, "at t = 8"},
            {3, 4, 0, false, "in outputs 4 to 5"},
            {0, 7, 0.66, true, "for high a (a > 0.667)"},
            {6, 7, 0.66, true, "at late times (t > 12) and for high a (a > 0.667)"},
            {0, 7, 0, true, NULL}};
  for (size_t k = 0; k < sizeof is / sizeof is[0]; k++) {
    world w;
    double x[N][2], y[N][M], time[M], length[2] = {2, 2};
    atvi_emulated_axis axis[2] = {{NAN, 0, 1}, {NAN, 0, 1}};
    atvi_emulator *em;
    atvi_dossier d;
    atvi_rng r = atvi_math_rng_at(9, 1, 0, 0);
    world_open(&w, 3, "");
    for (int i = 0; i < N; i++) {
      x[i][0] = (i + 0.5) / N;
      x[i][1] = atvi_math_rng_uniform(&r);
      for (int t = 0; t < M; t++) {
        bool fast = t >= is[k].from && t <= is[k].to && x[i][0] >= is[k].low;
        y[i][t] = x[i][0] + (t + 1) * x[i][1] + (fast ? 20 * sin(997 * x[i][0]) : 0);
        time[t] = 2 * (t + 1);
      }
    }
    atvi_emulated_runs runs = {.runs = {N, 2, M, x[0], y[0], is[k].timed ? time : NULL, NULL}, .axis = axis};
    atvi_gp_em_defaults(&runs.opts);
    runs.opts.length = length;
    runs.opts.nugget = 0.01;
    runs.opts.time_length = 1;
    CHECK_OK(atvi_gp_emulator_new(w.ctx, &runs.runs, &runs.opts, &em));
    CHECK_OK(atvi_model_dossier_make(w.pool, w.lang, 0, &runs, em, &d));
    CHECK_MSG(is[k].want ? d.poor && strcmp(d.poor, is[k].want) == 0 : !d.poor, "%zu: %s", k,
              d.poor ? d.poor : "nothing");
    atvi_gp_emulator_free(em);
    world_close(&w);
  }
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

/* Failed runs are there with their reasons, be these their times; times are of all lines. */
static void runs_of_a_record_are_kept(void) {
  world w;
  atvi_emulated_runs runs;
  atvi_emulator *em;
  atvi_dossier d;
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
  CHECK_OK(atvi_model_emulated_runs_read(w.pool, w.lang, NULL, w.dir, 0, &runs));
  CHECK_OK(atvi_gp_emulator_new(w.ctx, &runs.runs, &runs.opts, &em));
  CHECK_OK(atvi_model_dossier_make(w.pool, w.lang, 0, &runs, em, &d));
  const atvi_sim_runs *rec = &d.r.record;
  CHECK_INT(d.r.runs.n, 12);
  CHECK_INT(rec->n_failed, 2);
  CHECK_INT(rec->left[0].id, 3);
  CHECK_STR(rec->left[0].reason, "ended with status 3");
  CHECK(rec->left[0].x[0] == 0.1 * 3 && rec->left[0].x[1] == 3);
  CHECK_INT(rec->left[1].id, 5);
  CHECK_MSG(strstr(rec->left[1].reason, "at other times than most runs: f"), "%s", rec->left[1].reason);
  CHECK(rec->left[1].x[0] == 0.1 * 5 && rec->left[1].x[1] == 0);
  for (int i = 0; i < 12; i++)
    CHECK_REL(atvi_model_emulated_axis_theta(&d.r.axis[0], d.r.runs.x[2 * i]), 0.1 * (double)rec->id[i],
              1e-12);
  CHECK_INT(rec->n_timed, 15);
  CHECK(rec->seconds == 0.25 * 15);
  atvi_gp_emulator_free(em);
  world_close(&w);
}

/* Wherever memory runs out it is reported, and nothing is kept. */
static void missing_memory_is_reported(void) {
  world w;
  atvi_emulated_runs runs;
  atvi_emulator *em;
  world_open(&w, 8, "");
  CHECK_OK(atvi_model_emulated_runs_read(w.pool, w.lang, NULL, w.dir, 0, &runs));
  CHECK_OK(atvi_gp_emulator_new(w.ctx, &runs.runs, &runs.opts, &em));
  for (long k = 1;; k++) {
    atvi_pool *pool;
    atvi_dossier d;
    CHECK_OK(atvi_pool_new(w.ctx, &pool));
    test_fail_at = test_allocs + k;
    atvi_status status = atvi_model_dossier_make(pool, w.lang, 0, &runs, em, &d);
    if (status == ATVI_OK) status = atvi_model_dossier_judge(pool, em, &d);
    bool reached = test_allocs >= test_fail_at;
    test_fail_at = 0;
    CHECK_INT(status, reached ? ATVI_ENOMEM : ATVI_OK);
    atvi_pool_free(pool);
    if (!reached) break;
  }
  atvi_gp_emulator_free(em);
  world_close(&w);
}

TESTS({"numbers", numbers_follow_from_predictions}, {"basis", with_a_basis},
      {"doubts", doubts_have_their_thresholds}, {"near", near_runs_decide},
      {"scale", few_runs_leave_the_error_open}, {"poor", poor_places_are_named},
      {"record", runs_of_a_record_are_kept}, {"memory", missing_memory_is_reported})
