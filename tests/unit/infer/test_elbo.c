/* SPDX-License-Identifier: MIT */
/* Batches of draws: gradients against differences, densities against draws, threads, memory. */
#include "vi_world.h"

typedef struct {
  atvi_ctx *ctx;
  atvi_evaluator *ev;
  atvi_space *space;
  atvi_family family;
  atvi_elbo *e;
  atvi_member m;
  atvi_cloud c;
  double *grad, *room[3]; /* [size]; for the forward gradient */
} world;

enum { CAP = 16384 };

static double *numbers(atvi_idx n) {
  double *p = calloc((size_t)n, sizeof *p);
  CHECK(p != NULL);
  return p;
}

/* spread: sd of what is added to the flow's starting point. */
static world *open_elbo(const toy *t, const atvi_flow_shape *shape, double spread, atvi_idx batch,
                        int threads) {
  world *w = calloc(1, sizeof *w); /* the family is borrowed by the rest and must stay where it is */
  CHECK(w != NULL);
  w->ctx = test_ctx();
  atvi_idx d = t->target.d;
  atvi_ctx_set_threads(w->ctx, threads);
  CHECK_OK(atvi_model_evaluator_new(w->ctx, &t->target, &w->ev));
  CHECK_OK(atvi_infer_space_new(w->ctx, w->ev, NULL, 1, &w->space));
  CHECK_OK(atvi_flow_family_flow(w->ctx, shape, &w->family));
  CHECK_OK(atvi_infer_elbo_new(w->ctx, w->space, &w->family, 5, false, batch, &w->e));
  w->m = (atvi_member){.phi = numbers(w->family.size), .shift = numbers(d), .chol = numbers(d * d)};
  w->family.ops->init(w->family.self, w->m.phi);
  atvi_rng r = atvi_math_rng_at(3, ATVI_STREAM_TEST, 0, 0);
  for (atvi_idx i = 0; i < w->family.size; i++) w->m.phi[i] += spread * atvi_math_rng_normal(&r);
  for (atvi_idx i = 0; i < d; i++) w->m.chol[i * d + i] = 1;
  w->c = (atvi_cloud){.cap = CAP,
                      .x = numbers(d * CAP),
                      .theta = numbers(d * CAP),
                      .log_prior = numbers(CAP),
                      .log_lik = numbers(CAP),
                      .log_base = numbers(CAP),
                      .log_pi = numbers(CAP),
                      .log_q = numbers(CAP),
                      .log_member = numbers(CAP)};
  w->grad = numbers(w->family.size);
  w->room[0] = numbers(d * CAP);
  w->room[1] = numbers(CAP);
  w->room[2] = numbers((atvi_idx)atvi_math_psis_work(CAP));
  return w;
}

static void shut(world *w) {
  double *all[] = {w->m.phi,        w->m.shift,   w->m.chol,     w->c.x,      w->c.theta,
                   w->c.log_prior,  w->c.log_lik, w->c.log_base, w->c.log_pi, w->c.log_q,
                   w->c.log_member, w->grad,      w->room[0],    w->room[1],  w->room[2]};
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) free(all[k]);
  atvi_infer_elbo_free(w->e);
  atvi_flow_family_free(&w->family);
  atvi_infer_space_free(w->space);
  atvi_model_evaluator_free(w->ev);
  atvi_ctx_free(w->ctx);
  free(w);
  CHECK_INT(test_live, 0);
}

static const atvi_flow_shape SMALL = {.d = 2, .layers = 2, .bins = 3, .hidden = 5, .box = 3, .seed = 2};

/* A frame that turns, stretches and reflects. */
static void tilt(world *w) {
  const double chol[4] = {-0.83, 0, 0.37, 1.29}, shift[2] = {0.21, -0.34};
  memcpy(w->m.chol, chol, sizeof chol);
  memcpy(w->m.shift, shift, sizeof shift);
  w->m.log_det = log(0.83 * 1.29);
  w->m.whole = true;
}

static double patchy(const toy *t, const double *x, double *g, atvi_outcome *o) {
  double l = toy_chain(t, x, g, o);
  if (x[0] + x[1] > 0.6) *o = ATVI_RUN_STEPS;
  return l;
}

/* Sum of log q at the draws with this scramble that failed, which stay where they are while q moves. */
static double log_q_of_failed(world *w, const atvi_cloud *failed, atvi_idx n) {
  double sum = 0;
  atvi_infer_elbo_log_q(w->e, &w->m, false, failed, n, w->room[1]);
  for (atvi_idx j = 0; j < n; j++) sum += w->room[1][j];
  return sum;
}

/* The draws that failed, in room[0], with capacity 64. */
static atvi_cloud keep_failed(world *w, uint32_t scramble, atvi_idx *n) {
  atvi_cloud c = {.cap = 64, .x = w->room[0]};
  *n = 0;
  atvi_infer_elbo_draw(w->e, &w->m, &(atvi_elbo_lot){ATVI_STREAM_TRAIN, scramble, 0, 64, false}, &w->c, 0);
  for (int j = 0; j < 64; j++) {
    if (isfinite(w->c.log_pi[j])) continue;
    for (int i = 0; i < 2; i++) c.x[i * 64 + *n] = w->c.x[i * CAP + j];
    ++*n;
  }
  return c;
}

/* The ELBO at fixed base draws is smooth but for the curvature of a spline, which jumps at its knots: a draw
 * within h of one gives an error of h. log pi reaches 100 and more: rounding of 1e-14 over h. The gradient of
 * the logarithm of the share that succeeds is, as the score has mean zero, minus that of log q at failed
 * draws, summed, over the number of good ones. */
static void elbo_gradient_is_right(void) {
  const double h = 1e-5;
  for (int kind = 0; kind < 6; kind++) {
    bool framed = kind & 1, fails = kind >= 2 && kind < 4, cool = kind < 4;
    toy t = {.lik = fails ? patchy : toy_chain};
    toy_set(&t, 2, -3, 3);
    world *w = open_elbo(&t, &SMALL, 0.2, 64, 1);
    if (framed) tilt(w);
    double beta = cool ? 1 : 0.37, *other = numbers(w->family.size);
    atvi_elbo_info info = atvi_infer_elbo_grad(w->e, &w->m, beta, 9, w->grad);
    CHECK(fails ? info.good > 8 && info.good < 60 : info.good == 64);
    CHECK(info.sd > 0);
    atvi_idx n_failed;
    atvi_cloud failed = keep_failed(w, 9, &n_failed);
    CHECK_INT(n_failed, 64 - info.good);
    double most = 0;
    for (atvi_idx i = 0; i < w->family.size; i++) {
      double at = w->m.phi[i], want = 0;
      for (int sign = -1; sign <= 1; sign += 2) {
        w->m.phi[i] = at + sign * h;
        atvi_elbo_info moved = atvi_infer_elbo_grad(w->e, &w->m, beta, 9, other);
        CHECK(moved.good == info.good);
        double value = moved.mean - log_q_of_failed(w, &failed, n_failed) / (double)info.good;
        want -= sign * value / (2 * h);
      }
      w->m.phi[i] = at;
      CHECK_MSG(fabs(w->grad[i] - want) < 1e-6 * (1 + fabs(want)), "kind %d, %td: %.10g, want %.10g", kind, i,
                w->grad[i], want);
      most = fmax(most, fabs(want));
    }
    CHECK(most > 0.1);
    free(other);
    shut(w);
  }
}

/* From the second gradient on a draw's own is held to the limit; without one the same batch gives the same
 * twice. */
static void outliers_are_held(void) {
  double norm[2][2] = {{0}};
  for (int k = 0; k < 2; k++) {
    toy t = {.lik = patchy};
    toy_set(&t, 2, -3, 4);
    atvi_flow_shape shape = atvi_flow_defaults(2);
    world *w = open_elbo(&t, &shape, 0.1, 64, 1);
    if (k) atvi_infer_elbo_set_outlier(w->e, 1e-3);
    for (int j = 0; j < 2; j++) {
      CHECK(atvi_infer_elbo_grad(w->e, &w->m, 1, 4, w->grad).good > 0);
      for (atvi_idx i = 0; i < w->family.size; i++) norm[k][j] += w->grad[i] * w->grad[i];
    }
    shut(w);
  }
  CHECK(norm[0][0] == norm[0][1] && norm[1][0] == norm[0][0]);
  CHECK(norm[1][1] != norm[1][0]);
}

/* What the gradient calls the mean is that of log pi - log q of the same draws. */
static void mean_is_that_of_the_draws(void) {
  toy t = {.lik = patchy};
  toy_set(&t, 2, -3, 3);
  world *w = open_elbo(&t, &SMALL, 0.2, 64, 1);
  tilt(w);
  atvi_elbo_info info = atvi_infer_elbo_grad(w->e, &w->m, 1, 4, w->grad);
  atvi_infer_elbo_draw(w->e, &w->m, &(atvi_elbo_lot){ATVI_STREAM_TRAIN, 4, 0, 64, false}, &w->c, 100);
  double sum = 0, sum_sq = 0, n = 0;
  for (int j = 100; j < 164; j++) {
    double v = w->c.log_pi[j] - w->c.log_q[j];
    if (!isfinite(v)) continue;
    sum += v, sum_sq += v * v, n++;
    CHECK_REL(w->c.log_pi[j], w->c.log_base[j] + w->c.log_lik[j], 1e-12);
  }
  CHECK_INT(info.good, n);
  CHECK_REL(info.mean, sum / n, 1e-12);
  CHECK_REL(info.sd, sqrt(sum_sq / n - sum * sum / n / n), 1e-10);
  CHECK(w->c.log_pi[99] == 0 && w->c.log_pi[164] == 0); /* and nothing else was touched */
  shut(w);
}

static double nothing_works(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)t, (void)x, (void)g;
  *o = ATVI_RUN_STEPS;
  return NAN;
}

static void all_failing_gives_no_gradient(void) {
  toy t = {.lik = nothing_works};
  toy_set(&t, 2, -3, 3);
  world *w = open_elbo(&t, &SMALL, 0.2, 64, 1);
  CHECK_INT(atvi_infer_elbo_grad(w->e, &w->m, 1, 4, w->grad).good, 0);
  for (atvi_idx i = 0; i < w->family.size; i++) CHECK(w->grad[i] == 0);
  atvi_elbo_room room = {w->room[0], w->room[1], w->room[2]};
  CHECK_INT(atvi_infer_elbo_grad_forward(w->e, &w->m, 256, 4, &room, w->grad).good, 0);
  for (atvi_idx i = 0; i < w->family.size; i++) CHECK(w->grad[i] == 0);
  shut(w);
}

/* ---- fine-tuning ---- */

static double half_normal(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)t, (void)o;
  g[0] = 0.5 - x[0];
  return -0.5 * (x[0] - 0.5) * (x[0] - 0.5);
}

/* The parameter of a one-dimensional flow that moves all draws alike, and by how much per unit. */
static atvi_idx shift_of(world *w, double *by) {
  const double h = 1e-6;
  atvi_elbo_lot lot = {ATVI_STREAM_TEST, 0, 0, 64, false};
  for (atvi_idx i = 0; i < w->family.size; i++) {
    double least = HUGE_VAL, most = -HUGE_VAL;
    atvi_infer_elbo_draw(w->e, &w->m, &lot, &w->c, 0);
    w->m.phi[i] += h;
    atvi_infer_elbo_draw(w->e, &w->m, &lot, &w->c, 64);
    w->m.phi[i] -= h;
    for (int j = 0; j < 64; j++) {
      double move = (w->c.x[64 + j] - w->c.x[j]) / h;
      least = fmin(least, move), most = fmax(most, move);
    }
    *by = 0.5 * (least + most);
    if (most - least < 1e-4 && fabs(*by) > 0.1) return i;
  }
  CHECK(!"a flow without a shift");
  return -1;
}

/* q = N(0, 1), p = N(1/2, 1): the forward divergence wants +1/2 for the mean of q. Weights times the full
 * gradient, which is that of log pi alone for a shift, want 0. Weights have a variance of e^{1/4} - 1:
 * standard errors below 0.01 for 4096 draws. */
static void forward_gradient_is_that_of_the_forward_divergence(void) {
  toy t = {.lik = half_normal, .no_prior = true};
  atvi_flow_shape shape = {.d = 1, .layers = 2, .bins = 2, .hidden = 3, .box = 3, .seed = 1};
  toy_set(&t, 1, -HUGE_VAL, HUGE_VAL);
  for (int framed = 0; framed < 2; framed++) {
    world *w = open_elbo(&t, &shape, 0, 64, 2);
    if (framed) { /* the same q, seen in a mirror */
      w->m.chol[0] = -1;
      w->m.whole = true;
    }
    double by;
    atvi_idx i = shift_of(w, &by);
    atvi_elbo_room room = {w->room[0], w->room[1], w->room[2]};
    atvi_elbo_info info = atvi_infer_elbo_grad_forward(w->e, &w->m, 4096, 3, &room, w->grad);
    CHECK_INT(info.good, 4096);
    /* log w = x / 2 - 1/8 + log(2 pi) / 2 */
    CHECK_ABS(info.mean, -0.125 + 0.5 * log(2 * acos(-1.0)), 1e-3);
    CHECK_ABS(info.sd, 0.5, 1e-2);
    CHECK_ABS(-w->grad[i] / by, 0.5, 0.01);
    double full = 0, score = 0;
    atvi_infer_elbo_draw(w->e, &w->m, &(atvi_elbo_lot){ATVI_STREAM_TRAIN, 3, 0, 4096, false}, &w->c, 0);
    for (int j = 0; j < 4096; j++) {
      full += room.weight[j] * (0.5 - w->c.x[j]);
      score += room.weight[j] * w->c.x[j];
    }
    CHECK_ABS(full, 0, 0.01);
    CHECK_ABS(score, 0.5,
              0.01); /* weights times the gradient of log q at fixed draws: the same in expectation */
    shut(w);
  }
}

/* In general: weights times the path gradient is, in expectation, minus the gradient of -sum w log q at fixed
 * draws. Sobol points of a smooth integrand; the draws are moved by less than their spread. */
static void forward_gradient_agrees_with_fixed_draws(void) {
  toy t = {.lik = toy_chain};
  const double h = 1e-4;
  enum { M = CAP };
  toy_set(&t, 2, -3, 3);
  world *w = open_elbo(&t, &SMALL, 0.05, 64, 2);
  const double chol[4] = {0.16, 0, 0.3, 0.16}, shift[2] = {0.02, 0.17}; /* near the posterior, wider */
  memcpy(w->m.chol, chol, sizeof chol);
  memcpy(w->m.shift, shift, sizeof shift);
  w->m.log_det = log(0.16 * 0.16);
  w->m.whole = true;
  atvi_elbo_room room = {w->room[0], w->room[1], w->room[2]};
  atvi_infer_elbo_grad_forward(w->e, &w->m, M, 3, &room, w->grad);
  atvi_infer_elbo_draw(w->e, &w->m, &(atvi_elbo_lot){ATVI_STREAM_TRAIN, 3, 0, M, false}, &w->c, 0);
  double dot = 0, gg = 0, ff = 0;
  for (atvi_idx i = 0; i < w->family.size; i++) {
    double at = w->m.phi[i], sum = 0;
    for (int sign = -1; sign <= 1; sign += 2) {
      w->m.phi[i] = at + sign * h;
      atvi_infer_elbo_log_q(w->e, &w->m, false, &w->c, M, w->c.log_q);
      for (int j = 0; j < M; j++) sum -= sign * room.weight[j] * w->c.log_q[j] / (2 * h);
    }
    w->m.phi[i] = at;
    dot += sum * w->grad[i], gg += w->grad[i] * w->grad[i], ff += sum * sum;
  }
  CHECK_MSG(dot > 0.98 * sqrt(gg * ff), "cosine %.4f", dot / sqrt(gg * ff));
  CHECK_REL(sqrt(gg), sqrt(ff), 0.1);
  shut(w);
}

/* ---- draws and densities ---- */

static void densities_agree_with_draws(void) {
  for (int kind = 0; kind < 4; kind++) {
    bool guard = kind & 1;
    toy t = {.lik = toy_chain};
    toy_set(&t, 2, -3, 3);
    world *w = open_elbo(&t, &SMALL, 0.2, 64, 2);
    if (kind & 2) tilt(w);
    atvi_idx n = 1500, wide = 0;
    double *log_q = numbers(n);
    atvi_infer_elbo_draw(w->e, &w->m, &(atvi_elbo_lot){ATVI_STREAM_FINAL, 2, 0, n, guard}, &w->c, 0);
    atvi_infer_elbo_log_q(w->e, &w->m, guard, &w->c, n, log_q);
    for (int j = 0; j < n; j++) {
      CHECK_ABS(log_q[j], w->c.log_q[j], 1e-9 * (1 + fabs(log_q[j])));
      wide += isnan(w->c.log_member[j]);
    }
    CHECK_INT(wide, guard ? n / ATVI_GUARD : 0);
    atvi_infer_elbo_log_q(w->e, &w->m, false, &w->c, n, log_q);
    for (int j = 0; j < n; j++)
      if (!isnan(w->c.log_member[j])) CHECK_ABS(log_q[j], w->c.log_member[j], 1e-9 * (1 + fabs(log_q[j])));
    free(log_q);
    shut(w);
  }
}

/* The guarded density in one dimension integrates to one, and its draws have its moments. Trapezoids of
 * 0.002; the density has jumps in its second derivative at knots. Draws: 16 384 Sobol points, the stretched
 * ones a sixteenth of them. */
static void guarded_density_is_one(void) {
  for (int guard = 0; guard < 2; guard++) {
    toy t = {.lik = toy_unit};
    atvi_flow_shape shape = {.d = 1, .layers = 2, .bins = 3, .hidden = 3, .box = 3, .seed = 1};
    toy_set(&t, 1, -3, 3);
    world *w = open_elbo(&t, &shape, 0.4, 64, 1);
    w->m.chol[0] = -0.7;
    w->m.shift[0] = 0.3;
    w->m.log_det = log(0.7);
    w->m.whole = true;
    double *log_q = numbers(CAP), sum[5] = {0}, got[5] = {0}, h = 40.0 / CAP;
    for (int j = 0; j < CAP; j++) w->c.x[j] = -20 + (j + 0.5) * h;
    atvi_infer_elbo_log_q(w->e, &w->m, guard, &w->c, CAP, log_q);
    for (int j = 0; j < CAP; j++)
      for (int k = 0; k < 5; k++) sum[k] += h * exp(log_q[j]) * pow(w->c.x[j], k);
    CHECK_ABS(sum[0], 1, 1e-6);
    atvi_infer_elbo_draw(w->e, &w->m, &(atvi_elbo_lot){ATVI_STREAM_FINAL, 2, 0, CAP, guard}, &w->c, 0);
    for (int j = 0; j < CAP; j++)
      for (int k = 0; k < 5; k++) got[k] += pow(w->c.x[j], k) / CAP;
    double sd = sqrt(sum[2] - sum[1] * sum[1]);
    for (int k = 1; k < 5; k++) CHECK_ABS(got[k], sum[k], (guard ? 0.03 : 0.01) * pow(2 * sd, k));
    free(log_q);
    shut(w);
  }
}

static void plain_draws_differ_and_are_normal(void) {
  toy t = {.lik = toy_unit};
  toy_set(&t, 2, -3, 3);
  world *w = open_elbo(&t, &SMALL, 0, 64, 1);
  atvi_elbo *plain;
  CHECK_OK(atvi_infer_elbo_new(w->ctx, w->space, &w->family, 5, true, 64, &plain));
  atvi_elbo_lot lot = {ATVI_STREAM_FINAL, 2, 0, 4096, false};
  atvi_infer_elbo_draw(w->e, &w->m, &lot, &w->c, 0);
  atvi_infer_elbo_draw(plain, &w->m, &lot, &w->c, 4096);
  CHECK(w->c.x[0] != w->c.x[4096]);
  for (int i = 0; i < 2; i++) {
    const double *x = w->c.x + i * CAP;
    CHECK_ABS(atvi_math_mean(4096, x, NULL), 0, 1e-3); /* Sobol */
    double mean = atvi_math_mean(4096, x + 4096, NULL);
    CHECK(fabs(mean) > 1e-4); /* 1/64 is its standard error */
    CHECK_ABS(mean, 0, 4.0 / 64);
    CHECK_ABS(atvi_math_sd(4096, x + 4096, NULL), 1, 0.05);
  }
  atvi_infer_elbo_free(plain);
  shut(w);
}

/* ---- threads, memory ---- */

static void threads_do_not_matter(void) {
  enum { M = 1100 };
  static double kept[3][3 * M + 2 * 4096];
  static atvi_elbo_info info[3][2];
  atvi_flow_shape shape = atvi_flow_defaults(2);
  for (int k = 0; k < 3; k++) {
    toy t = {.lik = patchy};
    toy_set(&t, 2, -3, 3);
    world *w = open_elbo(&t, &shape, 0.1, 256, k + 1);
    CHECK(w->family.size <= 4096);
    atvi_elbo_room room = {w->room[0], w->room[1], w->room[2]};
    long before = 0;
    for (int twice = 0; twice < 2; twice++) {
      if (twice) before = test_allocs;
      /* the first batch takes all threads, later ones as few as pay */
      info[k][0] = atvi_infer_elbo_grad(w->e, &w->m, 0.6, 1, kept[k] + 3 * M);
      info[k][1] = atvi_infer_elbo_grad_forward(w->e, &w->m, M, 2, &room, kept[k] + 3 * M + 4096);
      atvi_infer_elbo_draw(w->e, &w->m, &(atvi_elbo_lot){ATVI_STREAM_FINAL, 2, 32, M, true}, &w->c, 0);
      memcpy(kept[k], w->c.x, M * sizeof(double));
      memcpy(kept[k] + M, w->c.log_q, M * sizeof(double));
      atvi_infer_elbo_log_q(w->e, &w->m, true, &w->c, M, kept[k] + 2 * M);
    }
    CHECK_INT(test_allocs, before); /* steady state allocates nothing */
    shut(w);
  }
  for (int k = 1; k < 3; k++) {
    CHECK(memcmp(kept[k], kept[0], sizeof kept[0]) == 0);
    CHECK(memcmp(info[k], info[0], sizeof info[0]) == 0);
  }
}

static void survives_faults(void) {
  toy t = {.lik = toy_unit};
  toy_set(&t, 2, -3, 3);
  world *w = open_elbo(&t, &SMALL, 0, 64, 2);
  long live = test_live;
  int failed = 0;
  for (;; failed++) {
    atvi_elbo *e = w->e;
    test_fail_at = test_allocs + 1 + failed;
    atvi_status status = atvi_infer_elbo_new(w->ctx, w->space, &w->family, 5, false, 64, &e);
    test_fail_at = 0;
    if (status == ATVI_OK) {
      atvi_infer_elbo_free(e);
      break;
    }
    CHECK_STATUS(status, ATVI_ENOMEM);
    CHECK(e == NULL);
    CHECK_INT(test_live, live);
  }
  CHECK(failed >= 3);
  atvi_infer_elbo_free(NULL);
  shut(w);
}

TESTS({"gradient", elbo_gradient_is_right}, {"outliers", outliers_are_held},
      {"mean", mean_is_that_of_the_draws}, {"failing", all_failing_gives_no_gradient},
      {"forward", forward_gradient_is_that_of_the_forward_divergence},
      {"fixed", forward_gradient_agrees_with_fixed_draws}, {"densities", densities_agree_with_draws},
      {"guard", guarded_density_is_one}, {"plain", plain_draws_differ_and_are_normal},
      {"threads", threads_do_not_matter}, {"faults", survives_faults})
