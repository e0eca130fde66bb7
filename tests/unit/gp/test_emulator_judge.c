/* SPDX-License-Identifier: MIT */
/* Leaving out runs, runs held back, Sobol indices, files. */
#include "emulator_world.h"
#include <unistd.h>
#include <jansson.h>

enum { N = 16, D = 2, M = 5 };

/* The closed form against fits without each run in turn, at the same values. */
static void leaving_out_is_what_refitting_gives(void) {
  atvi_ctx *ctx = test_ctx();
  world w = world_new(N, D, M, true);
  double mean[M] = {6.9, 7.4, 7.9, 8.8, 9.3}, q2_time[M], run_error[N], want[N * M], want_sd[N],
         predicted[N * M], run_sd[N];
  w.runs.mean = mean; /* else a fit without a run would have another one */
  for (int k = ATVI_EM_EXPONENTIAL; k <= ATVI_EM_SQUARED; k++) {
    atvi_em_opts o = some_opts((atvi_em_kernel)k);
    double sse[M] = {0}, sst[M] = {0}, covered = 0, score = 0, worst = 0, all = N * M, x[N * D], y[N * M];
    atvi_idx at = -1;
    for (int i = 0; i < N; i++) {
      atvi_em_runs rest = w.runs;
      double got[M], sum = 0;
      memcpy(x, w.x, sizeof x);
      memcpy(y, w.y, sizeof y);
      memcpy(x + i * D, w.x + (N - 1) * D, D * sizeof *x);
      memcpy(y + i * M, w.y + (N - 1) * M, M * sizeof *y);
      rest.n = N - 1, rest.x = x, rest.y = y;
      double sd = sqrt(o.sill * dense_predict(&rest, &o, w.x + i * D, got));
      memcpy(want + i * M, got, sizeof got);
      want_sd[i] = sd;
      for (int t = 0; t < M; t++) {
        double e = w.y[i * M + t] - got[t], z = e / sd;
        sse[t] += e * e, sst[t] += pow(w.y[i * M + t] - mean[t], 2), sum += z * z;
        covered += fabs(z) < 1.959963984540054;
        score += -0.5 * z * z - log(sd) - 0.5 * log(2 * acos(-1.0));
      }
      if (sqrt(sum / M) > worst) worst = sqrt(sum / M), at = i;
    }
    atvi_emulator *em;
    atvi_em_loo loo = {.q2_time = q2_time, .run_error = run_error, .predicted = predicted, .run_sd = run_sd};
    CHECK_OK(atvi_gp_emulator_new(ctx, &w.runs, &o, &em));
    CHECK_OK(atvi_gp_emulator_loo(ctx, em, &w.runs, &loo));
    double e = 0, s = 0;
    for (int t = 0; t < M; t++) {
      e += sse[t], s += sst[t];
      CHECK_ABS(q2_time[t], 1 - sse[t] / sst[t], 1e-10);
    }
    CHECK_ABS(loo.q2, 1 - e / s, 1e-10);
    CHECK_REL(loo.rmse, sqrt(e / all), 1e-9);
    CHECK_ABS(loo.coverage, covered / all, 1e-12);
    CHECK_ABS(loo.log_score, score / all, 1e-9);
    CHECK_INT(loo.worst, at);
    CHECK_REL(loo.worst_error, worst, 1e-9);
    CHECK_REL(run_error[at], worst, 1e-9);
    for (int i = 0; i < N * M; i++) CHECK_REL(predicted[i], want[i], 1e-9);
    for (int i = 0; i < N; i++) CHECK_REL(run_sd[i], want_sd[i], 1e-9);
    atvi_gp_emulator_free(em);
  }
  world_free(&w);
  atvi_ctx_free(ctx);
}

static void basis_is_left_out_too(void) {
  atvi_ctx *ctx = test_ctx();
  world w = world_new(60, D, 12, false);
  atvi_em_opts o = some_opts(ATVI_EM_MATERN52);
  atvi_em_loo all = {0}, some = {0};
  atvi_emulator *em;
  CHECK_OK(atvi_gp_emulator_new(ctx, &w.runs, &o, &em));
  CHECK_OK(atvi_gp_emulator_loo(ctx, em, &w.runs, &all));
  atvi_gp_emulator_free(em);
  o.basis = 0.999;
  CHECK_OK(atvi_gp_emulator_new(ctx, &w.runs, &o, &em));
  CHECK_OK(atvi_gp_emulator_loo(ctx, em, &w.runs, &some));
  CHECK(some.q2 < all.q2 &&
        some.q2 > all.q2 - 0.0015); /* what the basis leaves out, 0.1 % at most, is error */
  atvi_gp_emulator_free(em);
  /* A coarse one whose error is nearly all its own: it is in the variance, or intervals would hold less than
   * half. */
  atvi_gp_em_defaults(&o);
  o.starts = 2, o.basis = 0.9;
  CHECK_OK(atvi_gp_emulator_new(ctx, &w.runs, &o, &em));
  CHECK_OK(atvi_gp_emulator_loo(ctx, em, &w.runs, &some));
  const atvi_em_info *info = atvi_gp_emulator_info(em);
  double sst = 0, mean[12] = {0};
  for (int i = 0; i < 60 * 12; i++) mean[i % 12] += w.runs.y[i] / 60;
  for (int i = 0; i < 60 * 12; i++) sst += pow(w.runs.y[i] - mean[i % 12], 2);
  CHECK_REL(info->dropped * info->sill, (1 - info->basis_share) * sst / (60 * 12), 1e-9);
  CHECK(some.coverage > 0.9 && some.coverage < 0.99);
  CHECK_REL(some.rmse, sqrt(info->dropped * info->sill), 0.3);
  atvi_gp_emulator_free(em);
  world_free(&w);
  atvi_ctx_free(ctx);
}

static void runs_held_back_are_predicted(void) {
  atvi_ctx *ctx = test_ctx();
  world w = world_new(77, D, M, false);
  atvi_em_runs fit = w.runs, held = w.runs;
  fit.n = 40;
  held.n = 37, held.x = w.x + 40 * D, held.y = w.y + 40 * M;
  atvi_em_opts o = some_opts(ATVI_EM_MATERN32);
  atvi_emulator *em;
  double run_error[37], e2 = 0;
  atvi_em_loo got = {.run_error = run_error};
  CHECK_OK(atvi_gp_emulator_new(ctx, &fit, &o, &em));
  CHECK_OK(atvi_gp_emulator_test(ctx, em, &held, &got));
  for (int i = 0; i < 37; i++) {
    double want[M], sum = 0, share = dense_predict(&fit, &o, held.x + i * D, want);
    for (int t = 0; t < M; t++) sum += pow(held.y[i * M + t] - want[t], 2);
    CHECK_REL(run_error[i], sqrt(sum / M / (o.sill * share)), 1e-8);
    e2 += sum;
  }
  CHECK_REL(got.rmse, sqrt(e2 / (37 * M)), 1e-8);
  CHECK(got.q2 > 0.99 && got.coverage > 0.9);
  atvi_gp_emulator_free(em);
  world_free(&w);
  atvi_ctx_free(ctx);
}

static void judging_refuses_other_runs(void) {
  atvi_ctx *ctx = test_ctx();
  world w = world_new(N, D, M, false);
  atvi_em_opts o = some_opts(ATVI_EM_MATERN32);
  atvi_em_loo out = {0};
  atvi_emulator *em;
  CHECK_OK(atvi_gp_emulator_new(ctx, &w.runs, &o, &em));
  atvi_em_runs other = w.runs;
  other.m = M - 1;
  CHECK_STATUS(atvi_gp_emulator_test(ctx, em, &other, &out), ATVI_EINVAL);
  other = w.runs, other.n = 0;
  CHECK_STATUS(atvi_gp_emulator_test(ctx, em, &other, &out), ATVI_EINVAL);
  other.n = N - 1;
  CHECK_STATUS(atvi_gp_emulator_loo(ctx, em, &other, &out), ATVI_EDATA);
  w.y[3] += 1e-9;
  CHECK_STATUS(atvi_gp_emulator_loo(ctx, em, &w.runs, &out), ATVI_EDATA);
  w.y[3] = NAN;
  CHECK_STATUS(atvi_gp_emulator_test(ctx, em, &w.runs, &out), ATVI_EDATA);
  w.y[3] = 1, w.x[0] = NAN;
  CHECK_STATUS(atvi_gp_emulator_test(ctx, em, &w.runs, &out), ATVI_EDATA);
  w.x[0] = 0.5;
  long live = test_live;
  for (int k = 1; k <= 2; k++) {
    test_fail_at = test_allocs + k;
    CHECK_STATUS(atvi_gp_emulator_test(ctx, em, &w.runs, &out), ATVI_ENOMEM);
    CHECK_INT(test_live, live);
  }
  atvi_gp_emulator_free(em);
  world_free(&w);
  atvi_ctx_free(ctx);
}

/* f = sum c_j x_j: both indices are c_j^2 / sum. */
static void indices_of_a_linear_function(void) {
  enum { RUNS = 60, DIMS = 4 };
  const double c[DIMS] = {2.3, -1.1, 0.6, 0};
  double first[DIMS], total[DIMS], first_time[2 * DIMS], total_time[2 * DIMS], sum = 0;
  atvi_ctx *ctx = test_ctx();
  world w = world_new(RUNS, DIMS, 2, false);
  for (int i = 0; i < RUNS; i++) {
    double s = 0;
    for (int j = 0; j < DIMS; j++) s += c[j] * w.x[i * DIMS + j];
    w.y[2 * i] = 3.1 + s;
    w.y[2 * i + 1] = 40 * w.x[i * DIMS + 2] + 3 * s; /* another one, louder */
  }
  for (int j = 0; j < DIMS; j++) sum += c[j] * c[j];
  atvi_em_opts o = some_opts(ATVI_EM_SQUARED);
  o.nugget = 1e-8;
  atvi_emulator *em;
  atvi_em_sobol out = {first, total, first_time, total_time, 0}, short_out = {first, NULL, NULL, NULL, 0};
  CHECK_OK(atvi_gp_emulator_new(ctx, &w.runs, &o, &em));
  CHECK_STATUS(atvi_gp_emulator_sobol(ctx, em, 3, &short_out), ATVI_EINVAL);
  CHECK_OK(atvi_gp_emulator_sobol(ctx, em, 3, &out));
  CHECK(out.err > 0 && out.err < 0.003);
  double loud[DIMS] = {3 * c[0], 3 * c[1], 40 + 3 * c[2], 0}, loud_sum = 0;
  for (int j = 0; j < DIMS; j++) loud_sum += loud[j] * loud[j];
  for (int j = 0; j < DIMS; j++) {
    CHECK_ABS(first_time[j], c[j] * c[j] / sum, 0.005);
    CHECK_ABS(total_time[j], c[j] * c[j] / sum, 0.005);
    double both = (c[j] * c[j] + loud[j] * loud[j]) / (sum + loud_sum);
    CHECK_ABS(first[j], both, 0.003); /* the emulator is not quite linear between runs */
    CHECK_ABS(total[j], both, 0.003);
  }
  double again[DIMS], again_total[DIMS];
  atvi_em_sobol one = {again, again_total, NULL, NULL, 0};
  atvi_ctx_set_threads(ctx, 1);
  CHECK_OK(atvi_gp_emulator_sobol(ctx, em, 3, &one));
  for (int j = 0; j < DIMS; j++) CHECK_ABS(again[j], first[j], 1e-12); /* sums in another order */
  long live = test_live;
  for (int k = 1;; k++) {
    test_fail_at = test_allocs + k;
    atvi_status s = atvi_gp_emulator_sobol(ctx, em, 3, &one);
    CHECK_INT(test_live, live);
    if (s == ATVI_OK) break;
    CHECK_INT(s, ATVI_ENOMEM);
    CHECK(k < 20);
  }
  atvi_gp_emulator_free(em);
  world_free(&w);
  atvi_ctx_free(ctx);
}

/* sin a + 7 sin^2 b + 0.1 c^4 sin a on [-pi, pi]^3 (Ishigami and Homma 1990): strong interaction, exact
 * indices. */
static void indices_of_ishigami(void) {
  enum { RUNS = 300 };
  double pi = acos(-1.0), first[3], total[3];
  const double want_first[3] = {0.313905, 0.442411, 0}, want_total[3] = {0.557589, 0.442411, 0.243684};
  atvi_ctx *ctx = test_ctx();
  world w = world_new(RUNS, 3, 1, false);
  for (int i = 0; i < RUNS; i++) {
    double a = pi * (2 * w.x[3 * i] - 1), b = pi * (2 * w.x[3 * i + 1] - 1),
           c = pi * (2 * w.x[3 * i + 2] - 1);
    w.y[i] = sin(a) + 7 * sin(b) * sin(b) + 0.1 * pow(c, 4) * sin(a);
  }
  atvi_em_opts o;
  atvi_emulator *em;
  atvi_em_loo loo = {0};
  atvi_gp_em_defaults(&o);
  CHECK_OK(atvi_gp_emulator_new(ctx, &w.runs, &o, &em));
  CHECK(isnan(atvi_gp_emulator_info(em)->time_length));
  CHECK_OK(atvi_gp_emulator_loo(ctx, em, &w.runs, &loo));
  CHECK(loo.q2 > 0.99);
  atvi_em_sobol out = {first, total, NULL, NULL, 0};
  CHECK_OK(atvi_gp_emulator_sobol(ctx, em, 9, &out));
  for (int j = 0; j < 3; j++) { /* the emulator's own error, about 1 - Q2, and that of the points */
    CHECK_ABS(first[j], want_first[j], 0.01 + 4 * out.err);
    CHECK_ABS(total[j], want_total[j], 0.01 + 4 * out.err);
  }
  atvi_gp_emulator_free(em);
  world_free(&w);
  atvi_ctx_free(ctx);
}

static char folder[64], path[128];

static void make_path(void) {
  snprintf(folder, sizeof folder, "/tmp/atvi-test-emulator-XXXXXX");
  CHECK(mkdtemp(folder) != NULL);
  snprintf(path, sizeof path, "%s/flow.emulator", folder);
}

static void drop_path(void) {
  remove(path);
  rmdir(folder);
}

static void what_was_saved_comes_back(void) {
  make_path();
  for (int basis = 0; basis <= 1; basis++)
    for (int m = 1; m <= M; m += M - 1) {
      atvi_ctx *ctx = test_ctx();
      world w = world_new(N, D, m, false);
      atvi_em_opts o;
      atvi_gp_em_defaults(&o);
      o.starts = 1, o.basis = basis ? 0.99 : 0;
      atvi_emulator *em, *back;
      CHECK_OK(atvi_gp_emulator_new(ctx, &w.runs, &o, &em));
      CHECK_OK(atvi_gp_emulator_save(ctx, em, path));
      CHECK_OK(atvi_gp_emulator_load(ctx, path, &w.runs, &o, NULL, &back));
      const atvi_em_info *a = atvi_gp_emulator_info(em), *b = atvi_gp_emulator_info(back);
      CHECK(memcmp(a->length, b->length, D * sizeof *a->length) == 0 && a->nugget == b->nugget &&
            a->sill == b->sill);
      CHECK((a->time_length == b->time_length || m == 1) && a->log_lik == b->log_lik);
      CHECK(a->starts == b->starts && a->evals == b->evals && a->agreed == b->agreed &&
            a->n_basis == b->n_basis);
      double *x = reals(D * G), *y = reals(M * G), *z = reals(M * G), *s = reals(G), *u = reals(G);
      atvi_em_work *p, *q;
      CHECK_OK(atvi_gp_em_work_new(em, ctx, m, NULL, &p));
      CHECK_OK(atvi_gp_em_work_new(back, ctx, m, NULL, &q));
      fill_uniform(1, D * G, x);
      atvi_gp_em_eval(em, p, x, y, s);
      atvi_gp_em_eval(back, q, x, z, u);
      CHECK(memcmp(y, z, (size_t)(m * G) * sizeof *y) == 0 && memcmp(s, u, G * sizeof *s) == 0);
      atvi_gp_em_work_free(p);
      atvi_gp_em_work_free(q);
      free(x), free(y), free(z), free(s), free(u);
      atvi_gp_emulator_free(em);
      atvi_gp_emulator_free(back);
      world_free(&w);
      atvi_ctx_free(ctx);
      CHECK_INT(test_live, 0);
    }
  drop_path();
}

static void put(const char *text, size_t n) {
  FILE *f = fopen(path, "w");
  CHECK(f && fwrite(text, 1, n, f) == n && fclose(f) == 0);
}

static void stale_and_damaged_files_are_noticed(void) {
  make_path();
  atvi_ctx *ctx = test_ctx();
  world w = world_new(N, D, M, false);
  atvi_em_opts o = some_opts(ATVI_EM_MATERN52), other = o;
  atvi_emulator *em, *back;
  CHECK_OK(atvi_gp_emulator_new(ctx, &w.runs, &o, &em));
  CHECK_OK(atvi_gp_emulator_save(ctx, em, path));
  other.nugget *= 2;
  bool differs = false;
  CHECK_STATUS(atvi_gp_emulator_load(ctx, path, &w.runs, &other, &differs, &back), ATVI_EDATA);
  CHECK(differs && back == NULL && strstr(atvi_errmsg(ctx), "other settings"));
  w.y[7] += 1e-12;
  CHECK_STATUS(atvi_gp_emulator_load(ctx, path, &w.runs, &o, &differs, &back), ATVI_EDATA);
  CHECK(differs && strstr(atvi_errmsg(ctx), "other runs") != NULL);
  w.y[7] = NAN;
  CHECK_STATUS(atvi_gp_emulator_load(ctx, path, &w.runs, &o, NULL, &back), ATVI_EDATA);
  world_free(&w);
  w = world_new(N, D, M, false);
  char text[4096];
  FILE *f = fopen(path, "r");
  size_t n = fread(text, 1, sizeof text - 1, f);
  fclose(f);
  CHECK(n > 100 && n < sizeof text - 1);
  json_t *root = json_loadb(text, n, 0, NULL);
  CHECK(json_array_size(json_object_get(root, "lengths")) == D);
  json_decref(root);
  static const char *const number[] = {"nugget", "time", "sill", "log_likelihood"};
  for (int k = 0; k < 4; k++) { /* numbers that are fine by themselves, but not those of these runs */
    root = json_loadb(text, n, 0, NULL);
    double was = json_number_value(json_object_get(root, number[k]));
    json_object_set_new(root, number[k], json_real(k == 1 ? 1e308 : 2 * was + 1));
    CHECK(json_dump_file(root, path, 0) == 0);
    json_decref(root);
    CHECK_STATUS(atvi_gp_emulator_load(ctx, path, &w.runs, &o, NULL, &back), ATVI_EDATA);
  }
  for (size_t cut = 0; cut + 1 < n; cut++) { /* without its line end it is as good */
    put(text, cut);
    CHECK_STATUS(atvi_gp_emulator_load(ctx, path, &w.runs, &o, NULL, &back), ATVI_EDATA);
  }
  for (size_t at = 0; at + 1 < n;
       at++) { /* a digit may still make a number: any answer but a crash, and never a wrong shape */
    char keep = text[at];
    text[at] = '\0';
    put(text, n);
    CHECK_STATUS(atvi_gp_emulator_load(ctx, path, &w.runs, &o, NULL, &back), ATVI_EDATA);
    text[at] = '7';
    put(text, n);
    if (atvi_gp_emulator_load(ctx, path, &w.runs, &o, NULL, &back) == ATVI_OK) atvi_gp_emulator_free(back);
    text[at] = '-';
    put(text, n);
    if (atvi_gp_emulator_load(ctx, path, &w.runs, &o, NULL, &back) == ATVI_OK) atvi_gp_emulator_free(back);
    text[at] = keep;
  }
  remove(path);
  CHECK_STATUS(atvi_gp_emulator_load(ctx, path, &w.runs, &o, NULL, &back), ATVI_EIO);
  CHECK_STATUS(atvi_gp_emulator_save(ctx, em, "/nowhere/at/all"), ATVI_EIO);
  CHECK_OK(atvi_gp_emulator_save(ctx, em, path));
  for (int k = 1;; k++) {
    long live = test_live;
    test_fail_at = test_allocs + k;
    atvi_status s = atvi_gp_emulator_load(ctx, path, &w.runs, &o, NULL, &back);
    if (s == ATVI_OK) break;
    CHECK_INT(s, ATVI_ENOMEM);
    CHECK(back == NULL && test_live == live && k < 30);
  }
  test_fail_at = 0;
  atvi_gp_emulator_free(back);
  atvi_gp_emulator_free(em);
  world_free(&w);
  atvi_ctx_free(ctx);
  drop_path();
}

/* With one more run, at point c, the variance at b falls by cov(b, c)^2 / cov(c, c); and a prediction at a
 * run is made of that run. */
static void points_know_of_each_other_what_a_run_would_say(void) {
  enum { B = 40 };
  atvi_ctx *ctx = test_ctx();
  world w = world_new(N, D, M, true);
  double mean[M] = {6.9, 7.4, 7.9, 8.8, 9.3}, x[D * B], weight[B], near[N], sum = 0, got[M];
  static double cov[B * B];
  w.runs.mean = mean;
  for (int b = 0; b < B; b++) {
    weight[b] = b == 0;
    x[b] = b == 0 ? w.x[3 * D] : fmod(0.754877666 * b, 1);
    x[B + b] = b == 0 ? w.x[3 * D + 1] : fmod(0.569840291 * b, 1);
  }
  for (int k = ATVI_EM_EXPONENTIAL; k <= ATVI_EM_SQUARED; k++) {
    atvi_em_opts o = some_opts((atvi_em_kernel)k);
    o.nugget = 1e-9;
    atvi_emulator *em;
    CHECK_OK(atvi_gp_emulator_new(ctx, &w.runs, &o, &em));
    CHECK_OK(atvi_gp_emulator_joint(ctx, em, B, x, weight, cov, near));
    double more_x[(N + 1) * D], more_y[(N + 1) * M];
    memcpy(more_x, w.x, sizeof(double) * N * D);
    memcpy(more_y, w.y, sizeof(double) * N * M);
    memset(more_y + N * M, 0, sizeof(double) * M);
    atvi_em_runs more = w.runs;
    more.n = N + 1, more.x = more_x, more.y = more_y;
    for (int b = 1; b < B; b++) {
      const double at[D] = {x[b], x[B + b]};
      CHECK_ABS(cov[b * B + b], dense_predict(&w.runs, &o, at, got), 1e-8);
      int c = b % (B - 1) + 1;
      more_x[N * D] = x[c], more_x[N * D + 1] = x[B + c];
      double left = cov[b * B + b] - cov[b * B + c] * cov[b * B + c] / cov[c * B + c];
      CHECK_ABS(left, dense_predict(&more, &o, at, got), 1e-6);
      CHECK(cov[b * B + c] == cov[c * B + b]);
    }
    sum = 0;
    for (int i = 0; i < N; i++) sum += near[i];
    CHECK_REL(sum, 1, 1e-12);
    CHECK_ABS(near[3], 1, 1e-4);
    CHECK_STATUS(atvi_gp_emulator_joint(ctx, em, 0, x, weight, cov, near), ATVI_EINVAL);
    atvi_gp_emulator_free(em);
  }
  world_free(&w);
  atvi_ctx_free(ctx);
}

TESTS({"loo", leaving_out_is_what_refitting_gives}, {"basis", basis_is_left_out_too},
      {"joint", points_know_of_each_other_what_a_run_would_say}, {"held", runs_held_back_are_predicted},
      {"refuses", judging_refuses_other_runs}, {"linear", indices_of_a_linear_function},
      {"ishigami", indices_of_ishigami}, {"saved", what_was_saved_comes_back},
      {"damaged", stale_and_damaged_files_are_noticed})
