/* SPDX-License-Identifier: MIT */
/* Mean and variance of the emulator, their adjoint, and what may be wrong with runs. */
#include "unit/gp/emulator_ref.h"
#include "emulator_world.h"
#include "gp/emulator_detail.h"

enum { N = 41, D = 3, M = 17 };

static const atvi_gp_table *table_of(int isa) {
#ifdef ATVI_HAVE_X86_ISA
  if (isa == ATVI_ISA_AVX512) return &atvi_gp_table_avx512;
  if (isa == ATVI_ISA_AVX2) return &atvi_gp_table_avx2;
#endif
  (void)isa;
  return &atvi_gp_table_base;
}

/* An emulator, its scratch for some rows, and numbers of a group. */
typedef struct {
  world w;
  atvi_ctx *ctx;
  atvi_em_opts opts;
  atvi_emulator *em;
  atvi_em_work *work;
  double *x, *mean, *share, *mean_bar, *share_bar, *x_bar;
} scene;

static scene scene_new(atvi_em_opts opts, atvi_idx n_row, const atvi_idx *row) {
  scene s = {.w = world_new(N, D, M, true), .ctx = test_ctx(), .opts = opts};
  CHECK_OK(atvi_gp_emulator_new(s.ctx, &s.w.runs, &s.opts, &s.em));
  CHECK_OK(atvi_gp_em_work_new(s.em, s.ctx, n_row, row, &s.work));
  s.x = reals(D * G), s.x_bar = reals(D * G), s.share = reals(G), s.share_bar = reals(G);
  s.mean = reals(M * G), s.mean_bar = reals(M * G);
  fill_uniform(1, D * G, s.x);
  fill_uniform(2, M * G, s.mean_bar);
  fill_uniform(3, G, s.share_bar);
  for (int j = 0; j < D; j++) s.x[j * G + 5] = 1.3 - 0.9 * j;                  /* outside of the cube */
  for (int j = 0; j < D; j++) s.x[j * G + 6] = s.w.x[4 * D + j];               /* a run */
  for (int j = 0; j < D; j++) s.x[j * G + 7] = j == 1 ? s.w.x[7 * D + j] : .3; /* a kink of one coordinate */
  return s;
}

static void scene_free(scene *s) {
  free(s->x);
  free(s->x_bar);
  free(s->share);
  free(s->share_bar);
  free(s->mean);
  free(s->mean_bar);
  atvi_gp_em_work_free(s->work);
  atvi_gp_emulator_free(s->em);
  world_free(&s->w);
  atvi_ctx_free(s->ctx);
  CHECK_INT(test_live, 0);
}

static const atvi_idx SOME[] = {3, 16, 0, 3, 9}; /* any order, twice the same */
enum { N_SOME = 5 };

static void is_the_conditional_normal(void) {
  for (int k = ATVI_EM_EXPONENTIAL; k <= ATVI_EM_SQUARED; k++)
    for (int some = 0; some <= 1; some++) {
      scene s = scene_new(some_opts((atvi_em_kernel)k), some ? N_SOME : M, some ? SOME : NULL);
      for (int isa = 0; isa <= (int)atvi_isa_best(); isa++) {
        s.em->table = table_of(isa);
        atvi_gp_em_eval(s.em, s.work, s.x, s.mean, s.share);
        for (int b = 0; b < G; b++) {
          double x[D], want[M];
          for (int j = 0; j < D; j++) x[j] = s.x[j * G + b];
          CHECK_ABS(s.share[b], dense_predict(&s.w.runs, &s.opts, x, want), 1e-11);
          for (int t = 0; t < (some ? N_SOME : M); t++)
            CHECK_REL(s.mean[t * G + b], want[some ? SOME[t] : t], 1e-11);
        }
      }
      scene_free(&s);
    }
}

static void agrees_with_its_reference(void) {
  for (int k = ATVI_EM_EXPONENTIAL; k <= ATVI_EM_SQUARED; k++)
    for (int basis = 0; basis <= 1; basis++) {
      atvi_em_opts o = some_opts((atvi_em_kernel)k);
      o.basis = basis ? 0.97 : 0;
      scene s = scene_new(o, N_SOME, SOME);
      double *mean = reals(M * G), *share = reals(G), *x_bar = reals(D * G);
      for (int isa = 0; isa <= (int)atvi_isa_best(); isa++) {
        s.em->table = table_of(isa);
        atvi_gp_em_eval(s.em, s.work, s.x, s.mean, s.share);
        atvi_gp_em_vjp(s.em, s.work, s.mean_bar, s.share_bar, s.x_bar);
        em_eval_ref(s.em, s.work, s.x, mean, share);
        for (int i = 0; i < N_SOME * G; i++) CHECK_REL(s.mean[i], mean[i], 1e-12);
        for (int b = 0; b < G; b++) CHECK_ABS(s.share[b], share[b], 1e-13);
        em_vjp_ref(s.em, s.work, s.x, s.mean_bar, s.share_bar, x_bar);
        for (int i = 0; i < D * G; i++) CHECK_ABS(s.x_bar[i], x_bar[i], 1e-11);
      }
      free(mean);
      free(share);
      free(x_bar);
      scene_free(&s);
    }
}

static double weighted(scene *s, int b) {
  double sum = s->share[b] * s->share_bar[b];
  for (int t = 0; t < N_SOME; t++) sum += s->mean[t * G + b] * s->mean_bar[t * G + b];
  return sum;
}

static void adjoint_is_that_of_differences(void) {
  const double h = 1e-5;
  for (int k = ATVI_EM_EXPONENTIAL; k <= ATVI_EM_SQUARED; k++)
    for (int basis = 0; basis <= 1; basis++) {
      atvi_em_opts o = some_opts((atvi_em_kernel)k);
      o.basis = basis ? 0.97 : 0;
      scene s = scene_new(o, N_SOME, SOME);
      atvi_gp_em_eval(s.em, s.work, s.x, s.mean, s.share);
      atvi_gp_em_vjp(s.em, s.work, s.mean_bar, s.share_bar, s.x_bar);
      for (int j = 0; j < D; j++) {
        double up[G], down[G];
        for (int side = 0; side <= 1; side++) {
          for (int b = 0; b < G; b++) s.x[j * G + b] += side ? -2 * h : h;
          atvi_gp_em_eval(s.em, s.work, s.x, s.mean, s.share);
          for (int b = 0; b < G; b++) (side ? down : up)[b] = weighted(&s, b);
        }
        for (int b = 0; b < G; b++) s.x[j * G + b] += h;
        for (int b = 0; b < G; b++) { /* at a kink: the mean of both sides, with an error of first order */
          bool kink = k == ATVI_EM_EXPONENTIAL && (b == 6 || b == 7);
          CHECK_ABS(s.x_bar[j * G + b], (up[b] - down[b]) / (2 * h), kink ? 20 * h : 1e-7);
        }
      }
      scene_free(&s);
    }
}

/* Fewer points than a group: the same bits. */
static void part_of_a_group(void) {
  scene s = scene_new(some_opts(ATVI_EM_MATERN52), M, NULL);
  double *mean = reals(M * G), *share = reals(G), *x_bar = reals(D * G);
  for (int isa = 0; isa <= (int)atvi_isa_best(); isa++)
    for (int n = 1; n <= G; n += 5) {
      s.em->table = table_of(isa);
      atvi_gp_em_use(s.work, G);
      atvi_gp_em_eval(s.em, s.work, s.x, s.mean, s.share);
      atvi_gp_em_vjp(s.em, s.work, s.mean_bar, s.share_bar, s.x_bar);
      atvi_gp_em_use(s.work, n);
      atvi_gp_em_eval(s.em, s.work, s.x, mean, share);
      atvi_gp_em_vjp(s.em, s.work, s.mean_bar, s.share_bar, x_bar);
      for (int b = 0; b < n; b++) {
        CHECK(share[b] == s.share[b]);
        for (int t = 0; t < M; t++) CHECK(mean[t * G + b] == s.mean[t * G + b]);
        for (int j = 0; j < D; j++) CHECK(x_bar[j * G + b] == s.x_bar[j * G + b]);
      }
    }
  free(mean);
  free(share);
  free(x_bar);
  scene_free(&s);
}

/* A point moved to another place, among others: the same bits. */
static void points_do_not_meet(void) {
  scene s = scene_new(some_opts(ATVI_EM_MATERN32), M, NULL);
  double *mean = reals(M * G), *share = reals(G), *x_bar = reals(D * G);
  for (int isa = 0; isa <= (int)atvi_isa_best(); isa++) {
    s.em->table = table_of(isa);
    atvi_gp_em_eval(s.em, s.work, s.x, s.mean, s.share);
    atvi_gp_em_vjp(s.em, s.work, s.mean_bar, s.share_bar, s.x_bar);
    for (int shift = 1; shift < G; shift += 5) {
      double *x = reals(D * G), *mean_bar = reals(M * G), *share_bar = reals(G);
      fill_uniform(8, D * G, x);
      fill_uniform(9, M * G, mean_bar);
      fill_uniform(10, G, share_bar);
      x[(shift + 1) % G] = NAN; /* a neighbour beyond help */
      for (int b = 0; b < G; b += 2) {
        int to = (b + shift) % G;
        for (int j = 0; j < D; j++) x[j * G + to] = s.x[j * G + b];
        for (int t = 0; t < M; t++) mean_bar[t * G + to] = s.mean_bar[t * G + b];
        share_bar[to] = s.share_bar[b];
      }
      atvi_gp_em_eval(s.em, s.work, x, mean, share);
      atvi_gp_em_vjp(s.em, s.work, mean_bar, share_bar, x_bar);
      for (int b = 0; b < G; b += 2) {
        int to = (b + shift) % G;
        CHECK(share[to] == s.share[b]);
        for (int t = 0; t < M; t++) CHECK(mean[t * G + to] == s.mean[t * G + b]);
        for (int j = 0; j < D; j++) CHECK(x_bar[j * G + to] == s.x_bar[j * G + b]);
      }
      free(x);
      free(mean_bar);
      free(share_bar);
    }
  }
  free(mean);
  free(share);
  free(x_bar);
  scene_free(&s);
}

/* Products with packed matrices and their transposes, of sizes around the width of a panel. A block has no
 * byte more than atvi_gp_em_packed_size says, so that the sanitizer sees who reads beyond. */
static void products_are_those_of_plain_loops(void) {
  static const atvi_idx size[] = {1, 11, 12, 13, 24, 31};
  enum { SIZES = 6, MOST = 31 };
  double *plain = reals(MOST * MOST), *b = reals(MOST * G), *c = reals(MOST * G),
         *spill = reals(ATVI_GP_PANEL * G);
  fill_uniform(4, MOST * MOST, plain);
  fill_uniform(5, MOST * G, b);
  for (int shape = 0; shape < 4 * SIZES * SIZES; shape++) {
    atvi_em_packed a = {.rows = size[shape / 4 % SIZES], .cols = size[shape / 4 / SIZES], .lower = shape & 1};
    bool across = shape & 2;
    if (a.lower && a.rows != a.cols) continue;
    double *exact = malloc(atvi_gp_em_packed_size(&a) * sizeof *exact);
    a.data = exact;
    for (size_t i = 0; i < atvi_gp_em_packed_size(&a); i++) exact[i] = 0;
    atvi_gp_em_pack(&a, plain, MOST, 1);
    for (int isa = 0; isa <= (int)atvi_isa_best(); isa++)
      for (int add = 0; add < 2; add++) {
        atvi_idx out = across ? a.cols : a.rows, in = across ? a.rows : a.cols;
        fill_uniform(6, MOST * G, c);
        double before = c[(out - 1) * G + 7], want = add ? before : 0;
        (across ? atvi_gp_em_packed_mul_t : atvi_gp_em_packed_mul)(table_of(isa), &a, G, b, add, c, spill);
        for (atvi_idx k = 0; k < in; k++) {
          atvi_idx i = across ? k : out - 1, j = across ? out - 1 : k;
          want += a.lower && j > i ? 0 : plain[i * MOST + j] * b[k * G + 7];
        }
        CHECK_REL(c[(out - 1) * G + 7], want, 1e-13);
      }
    free(exact);
  }
  free(plain);
  free(b);
  free(c);
  free(spill);
}

static void interpolates_without_nugget(void) {
  for (int k = ATVI_EM_EXPONENTIAL; k <= ATVI_EM_MATERN52; k++) {
    atvi_em_opts o = some_opts((atvi_em_kernel)k);
    o.nugget = 0;
    scene s = scene_new(o, M, NULL);
    for (int b = 0; b < G; b++)
      for (int j = 0; j < D; j++) s.x[j * G + b] = s.w.x[b * D + j];
    atvi_gp_em_eval(s.em, s.work, s.x, s.mean, s.share);
    for (int b = 0; b < G; b++) {
      CHECK_ABS(s.share[b], 0, 1e-9);
      for (int t = 0; t < M; t++)
        CHECK_REL(s.mean[t * G + b], s.w.y[b * M + t], 1e-8); /* condition up to 1e7 */
    }
    scene_free(&s);
  }
}

static void steady_state_allocates_nothing(void) {
  scene s = scene_new(some_opts(ATVI_EM_MATERN52), M, NULL);
  long before = test_allocs;
  atvi_gp_em_eval(s.em, s.work, s.x, s.mean, s.share);
  atvi_gp_em_vjp(s.em, s.work, s.mean_bar, s.share_bar, s.x_bar);
  CHECK(test_allocs == before);
  scene_free(&s);
}

/* A basis that keeps nearly all changes nearly nothing, in few columns; the likelihood is that of all
 * outputs. */
static void basis_keeps_what_it_says(void) {
  atvi_em_opts o = some_opts(ATVI_EM_MATERN52);
  scene all = scene_new(o, M, NULL);
  atvi_gp_em_eval(all.em, all.work, all.x, all.mean, all.share);
  o.basis = 0.99999;
  scene s = scene_new(o, M, NULL);
  const atvi_em_info *f = atvi_gp_emulator_info(s.em);
  CHECK(f->n_basis < 10 && f->basis_share >= o.basis && f->basis_share < 1);
  CHECK_INT(atvi_gp_emulator_info(all.em)->n_basis, M);
  CHECK(atvi_gp_emulator_info(all.em)->basis_share == 1);
  CHECK_REL(f->log_lik, atvi_gp_emulator_info(all.em)->log_lik, 1e-14);
  atvi_gp_em_eval(s.em, s.work, s.x, s.mean, s.share);
  double left = 0, whole = 0;
  for (int i = 0; i < M * G; i++) {
    left += pow(s.mean[i] - all.mean[i], 2);
    whole += pow(all.mean[i] - all.em->mean[i / G], 2);
  }
  CHECK(left < 1e-4 * whole); /* new points: a little more than the runs' 1e-5 */
  CHECK(f->dropped > 0 && atvi_gp_emulator_info(all.em)->dropped == 0);
  for (int b = 0; b < G; b++) CHECK(s.share[b] == all.share[b] + f->dropped);
  free(all.x);
  free(all.x_bar);
  free(all.share);
  free(all.share_bar);
  free(all.mean);
  free(all.mean_bar);
  atvi_gp_em_work_free(all.work);
  atvi_gp_emulator_free(all.em);
  world_free(&all.w);
  atvi_ctx_free(all.ctx);
  scene_free(&s);
}

static void equal_points_need_a_nugget(void) {
  atvi_ctx *ctx = test_ctx();
  world w = world_new(N, D, M, false);
  memcpy(w.x + 3 * D, w.x + 8 * D, D * sizeof *w.x);
  atvi_em_opts o = some_opts(ATVI_EM_EXPONENTIAL);
  atvi_emulator *em;
  o.nugget = 0;
  CHECK_STATUS(atvi_gp_emulator_new(ctx, &w.runs, &o, &em), ATVI_EINVAL);
  CHECK(em == NULL && strstr(atvi_errmsg(ctx), "runs 4 and 9"));
  o.nugget = NAN;
  CHECK_OK(atvi_gp_emulator_new(ctx, &w.runs, &o, &em));
  CHECK(atvi_gp_emulator_info(em)->nugget > 0);
  atvi_gp_emulator_free(em);
  o.nugget = 1e-40; /* as good as none */
  CHECK_STATUS(atvi_gp_emulator_new(ctx, &w.runs, &o, &em), ATVI_EINVAL);
  world_free(&w);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void outputs_that_never_vary(void) {
  atvi_ctx *ctx = test_ctx();
  world w = world_new(N, D, M, false);
  for (int i = 0; i < N; i++) w.y[i * M + 2] = 0.1;
  atvi_emulator *em;
  atvi_em_work *work;
  CHECK_OK(atvi_gp_emulator_new(ctx, &w.runs, NULL, &em));
  const atvi_idx row[1] = {2};
  CHECK_OK(atvi_gp_em_work_new(em, ctx, 1, row, &work));
  double *x = reals(D * G), *mean = reals(G), *share = reals(G);
  fill_uniform(1, D * G, x);
  atvi_gp_em_eval(em, work, x, mean, share);
  for (int b = 0; b < G; b++) CHECK(mean[b] == 0.1);
  atvi_gp_em_work_free(work);
  atvi_gp_emulator_free(em);
  for (int i = 0; i < N * M; i++) w.y[i] = w.y[i % M];
  CHECK_STATUS(atvi_gp_emulator_new(ctx, &w.runs, NULL, &em), ATVI_EDATA);
  free(x);
  free(mean);
  free(share);
  world_free(&w);
  atvi_ctx_free(ctx);
}

static void names_numbers_that_are_not_finite(void) {
  atvi_ctx *ctx = test_ctx();
  world w = world_new(N, D, M, false);
  atvi_emulator *em;
  double keep = w.y[5 * M + 2];
  w.y[5 * M + 2] = NAN;
  CHECK_STATUS(atvi_gp_emulator_new(ctx, &w.runs, NULL, &em), ATVI_EDATA);
  CHECK(em == NULL && strstr(atvi_errmsg(ctx), "output 3 of run 6"));
  w.y[5 * M + 2] = keep, w.x[D + 1] = -INFINITY;
  CHECK_STATUS(atvi_gp_emulator_new(ctx, &w.runs, NULL, &em), ATVI_EDATA);
  CHECK(strstr(atvi_errmsg(ctx), "input 2 of run 2") != NULL);
  double mean[M] = {[4] = NAN};
  w.x[D + 1] = 0.4, w.runs.mean = mean;
  CHECK_STATUS(atvi_gp_emulator_new(ctx, &w.runs, NULL, &em), ATVI_EDATA);
  world_free(&w);
  atvi_ctx_free(ctx);
}

static void refuses_wrong_calls(void) {
  atvi_ctx *ctx = test_ctx();
  world w = world_new(N, D, M, false);
  atvi_emulator *em;
  const double zero[D] = {1, 0, 1};
  atvi_em_opts good, bad[9];
  atvi_gp_em_defaults(&good);
  for (int i = 0; i < 9; i++) bad[i] = good;
  bad[0].kernel = (atvi_em_kernel)4;
  bad[1].length = zero;
  bad[2].nugget = -1e-9;
  bad[3].time_length = 0;
  bad[4].sill = -2;
  bad[5].basis = 1;
  bad[6].basis = NAN;
  bad[7].starts = -1;
  bad[8].sill = INFINITY;
  for (int i = 0; i < 9; i++) CHECK_STATUS(atvi_gp_emulator_new(ctx, &w.runs, &bad[i], &em), ATVI_EINVAL);
  atvi_em_runs runs[6];
  for (int i = 0; i < 6; i++) runs[i] = w.runs;
  runs[0].n = 1;
  runs[1].d = 0;
  runs[2].m = 0;
  runs[3].x = NULL;
  runs[4].y = NULL;
  runs[5].n = 40000;
  for (int i = 0; i < 6; i++) CHECK_STATUS(atvi_gp_emulator_new(ctx, &runs[i], &good, &em), ATVI_EINVAL);
  double keep = w.time[3];
  w.time[3] = w.time[2];
  CHECK_STATUS(atvi_gp_emulator_new(ctx, &w.runs, &good, &em), ATVI_EINVAL);
  w.time[3] = keep;
  atvi_em_opts o = some_opts(ATVI_EM_MATERN52);
  CHECK_OK(atvi_gp_emulator_new(ctx, &w.runs, &o, &em));
  const atvi_idx outside[2] = {0, M};
  atvi_em_work *work;
  CHECK_STATUS(atvi_gp_em_work_new(em, ctx, 2, outside, &work), ATVI_EINVAL);
  CHECK_STATUS(atvi_gp_em_work_new(em, ctx, 0, outside, &work), ATVI_EINVAL);
  CHECK_STATUS(atvi_gp_em_work_new(em, ctx, 3, NULL, &work), ATVI_EINVAL);
  CHECK(work == NULL);
  atvi_gp_em_work_free(NULL);
  atvi_gp_emulator_free(em);
  atvi_gp_emulator_free(NULL);
  world_free(&w);
  atvi_ctx_free(ctx);
}

static void survives_missing_memory(void) {
  world w = world_new(12, D, M, false);
  atvi_ctx *ctx = test_ctx();
  atvi_ctx_set_threads(ctx, 1);
  atvi_em_opts o = some_opts(ATVI_EM_MATERN52);
  o.nugget = NAN, o.starts = 1;
  for (int basis = 0; basis <= 1; basis++) {
    o.basis = basis ? 0.9 : 0;
    for (int k = 1;; k++) {
      atvi_emulator *em;
      atvi_em_work *work = NULL;
      long live = test_live;
      test_fail_at = test_allocs + k;
      atvi_status s = atvi_gp_emulator_new(ctx, &w.runs, &o, &em);
      if (s == ATVI_OK) s = atvi_gp_em_work_new(em, ctx, N_SOME, SOME, &work);
      CHECK((s == ATVI_OK) == (work != NULL));
      if (s == ATVI_OK) CHECK(test_allocs < test_fail_at);
      atvi_gp_em_work_free(work);
      atvi_gp_emulator_free(em);
      CHECK_INT(test_live, live);
      if (s == ATVI_OK) break;
      CHECK_INT(s, ATVI_ENOMEM);
      CHECK(k < 60);
    }
  }
  test_fail_at = 0;
  atvi_ctx_free(ctx);
  world_free(&w);
}

/* Ends of the search, for values that were looked for. */
static void tells_estimates_at_their_ends(void) {
  world w = world_new(12, 2, 5, false);
  double length[2] = {1e-3, 1e4};
  atvi_em_opts o;
  atvi_em_ends e;
  atvi_gp_em_defaults(&o);
  atvi_em_info info = {.length = length, .nugget = 1e-10, .time_length = 0.0075};
  atvi_gp_emulator_ends(&w.runs, &o, &info, &e);
  CHECK(e.nugget == -1 && e.time == -1 && e.n_short == 1);
  info.nugget = 1e3, info.time_length = 3e4, length[0] = 0.37;
  atvi_gp_emulator_ends(&w.runs, &o, &info, &e);
  CHECK(e.nugget == 1 && e.time == 1 && e.n_short == 0);
  info.nugget = 0.013, info.time_length = 5.3;
  atvi_gp_emulator_ends(&w.runs, &o, &info, &e);
  CHECK(e.nugget == 0 && e.time == 0 && e.n_short == 0);
  info.nugget = o.nugget = 1e-10, info.time_length = o.time_length = 3e4, o.length = length, length[0] = 1e-3;
  atvi_gp_emulator_ends(&w.runs, &o, &info, &e); /* held */
  CHECK(e.nugget == 0 && e.time == 0 && e.n_short == 0);
  world_free(&w);
}

TESTS({"ends", tells_estimates_at_their_ends}, {"dense", is_the_conditional_normal},
      {"reference", agrees_with_its_reference}, {"adjoint", adjoint_is_that_of_differences},
      {"apart", points_do_not_meet}, {"part", part_of_a_group},
      {"products", products_are_those_of_plain_loops}, {"interpolates", interpolates_without_nugget},
      {"steady", steady_state_allocates_nothing}, {"basis", basis_keeps_what_it_says},
      {"equal", equal_points_need_a_nugget}, {"constant", outputs_that_never_vary},
      {"finite", names_numbers_that_are_not_finite}, {"calls", refuses_wrong_calls},
      {"memory", survives_missing_memory})
