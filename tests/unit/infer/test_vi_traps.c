/* SPDX-License-Identifier: MIT */
/* The traps of the boundary surjection, provoked: q that starts in a reflected or a far copy of the box,
 * slopes, posteriors that are near a bound and do not touch it. */
#include "vi_world.h"

static const double PI = 3.14159265358979323846, ONE[1] = {1};

/* Draws of q before and after it was brought home: theta and log q are the same, x is in the box. */
static void check_homecoming(inside *w, atvi_idx i, int want, double low, double high) {
  enum { M = ATVI_VI_TEST };
  static double theta[2 * M], log_q[M];
  atvi_vi *v = &w->v;
  atvi_elbo_lot lot = {.stream = ATVI_STREAM_TEST, .scramble = 3, .n = M};
  atvi_cloud c = atvi_infer_vi_look(v, w->m, &lot);
  CHECK(c.n == M);
  for (int k = 0; k < 2; k++) memcpy(theta + k * M, c.theta + k * c.cap, M * sizeof(double));
  memcpy(log_q, c.log_q, M * sizeof(double));
  CHECK_INT(atvi_infer_vi_home(v, w->m, &c), want);
  c = atvi_infer_vi_look(v, w->m, &lot);
  int inside_box = 0;
  for (int k = 0; k < M; k++) {
    for (int j = 0; j < 2; j++) CHECK_ABS(c.theta[j * c.cap + k], theta[j * M + k], 1e-12);
    CHECK_ABS(c.log_q[k], log_q[k], 1e-12);
    double x = c.x[i * c.cap + k];
    inside_box += x >= low && x <= high;
  }
  CHECK_MSG(inside_box > 0.95 * M, "%d of %d draws are home", inside_box, M);
  CHECK_INT(atvi_infer_vi_home(v, w->m, &c), 0); /* and stays */
}

/* The frame that has y = 0 at `shift` in coordinate i, upright or reflected. */
static void put_frame(atvi_member *m, atvi_idx i, double shift, double sign) {
  const double chol[4] = {0.31, 0, 0.17, 0.23};
  m->whole = true;
  memcpy(m->chol, chol, sizeof chol);
  m->shift[0] = 0.1;
  m->shift[1] = 0.2;
  m->shift[i] = shift;
  for (int k = 0; k < 2; k++) m->chol[2 * i + k] *= sign;
  m->log_det = log(0.31 * 0.23);
}

static void two_ends_come_home(void) {
  for (int i = 0; i < 2; i++)
    for (int copy = -3; copy <= 3; copy++) {
      toy t = {.lik = toy_chain};
      atvi_vi_opts o = atvi_infer_vi_defaults();
      o.map = "surjection";
      toy_set(&t, 2, -3, 5);
      inside *w = inside_new(&t, &o, 1);
      double sign = copy % 2 ? -1 : 1;
      put_frame(w->m, i, 4 * copy + sign * 0.73, sign);
      check_homecoming(w, i, copy != 0, -2, 2);
      CHECK_ABS(w->m->shift[i], 0.73, 1e-14);
      inside_free(w);
    }
}

static void one_end_comes_home(void) {
  for (int i = 0; i < 2; i++)
    for (int upper = 0; upper < 2; upper++)
      for (int copy = 0; copy < 2; copy++) {
        toy t = {.lik = toy_chain, .prior = toy_curved, .draw = toy_curved_draw};
        atvi_vi_opts o = atvi_infer_vi_defaults();
        o.map = "surjection";
        toy_set(&t, 2, upper ? -HUGE_VAL : 0.4, upper ? 1.3 : HUGE_VAL);
        inside *w = inside_new(&t, &o, 1);
        const atvi_map *m = &w->v.space->map[i];
        CHECK(m->kind == ATVI_MAP_SURJECTION);
        double end = ((upper ? 1.3 : 0.4) - m->loc) / m->scale,
               out = upper ? 1 : -1; /* the end, and outwards */
        put_frame(w->m, i, end + (copy ? 1 : -1) * out * 0.83, copy ? -1 : 1);
        check_homecoming(w, i, copy, upper ? -HUGE_VAL : end, upper ? end : HUGE_VAL);
        CHECK_ABS(w->m->shift[i], end - out * 0.83, 1e-12);
        inside_free(w);
      }
}

static double near_bound(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)o;
  double sum = 0;
  for (atvi_idx j = 0; j < t->target.d; j++) {
    double z = (x[j] - 0.3) / 0.1;
    sum -= 0.5 * z * z;
    g[j] = -z / 0.1;
  }
  return sum;
}

/* N(0.3, 0.1) above 0, in a box of 10. */
static double near_bound_log_z(atvi_idx d) {
  return (double)d * log(0.1 * sqrt(2 * PI) * 0.5 * erfc(-3 / sqrt(2)) / 10);
}

/* The frame is so far off that q ends anywhere between good and mediocre, and 2048 weighted draws tell the
 * evidence as well as that allows. What may not be is an end in the copy, a nat or more below. */
static void training_from_a_copy_ends_at_home(void) {
  static const double starts[4] = {-2.6, 2.9, -5.2, 6.4}; /* reflected at either end; far */
  for (int given = 0; given < 2; given++)
    for (int k = 0; k < 4; k++) {
      toy t = {.lik = near_bound};
      atvi_vi_opts o = atvi_infer_vi_defaults();
      o.map = "surjection";
      if (given) o.n_rung = 1, o.temperature = ONE;
      toy_set(&t, 2, 0, 10);
      inside *w = inside_new(&t, &o, 2);
      put_frame(w->m, 0, starts[k], 1);
      CHECK(atvi_infer_vi_train(&w->v, w->m));
      atvi_vi_quality q = atvi_infer_vi_judge(&w->v, w->m, 1u << 30, NULL);
      int home = 0;
      atvi_cloud c = atvi_infer_vi_glance(&w->v, w->m, ATVI_VI_TEST);
      for (int j = 0; j < ATVI_VI_TEST; j++) home += fabs(c.x[j]) <= 2;
      CHECK_MSG(home > 0.8 * ATVI_VI_TEST,
                "start %g, given %d: %d of %d at home, log Z %.3f, want %.3f, ESS %.3f", starts[k], given,
                home, ATVI_VI_TEST, q.log_evidence, near_bound_log_z(2), q.share);
      CHECK_MSG(fabs(q.log_evidence - near_bound_log_z(2)) < 0.25,
                "start %g, given %d: log Z %.3f, want %.3f", starts[k], given, q.log_evidence,
                near_bound_log_z(2));
      inside_free(w);
    }
}

/* ---- slopes ---- */

/* The narrower q is, the steeper; never so steep or so gentle that the map is none, or that the next copies
 * matter. */
static void slopes_follow_the_spread(void) {
  static const double sds[6] = {0, 1e-6, 0.01, 0.1, 1, 30};
  double last = HUGE_VAL;
  for (int k = 0; k < 6; k++) {
    toy t = {.lik = toy_chain};
    atvi_vi_opts o = atvi_infer_vi_defaults();
    o.map = "surjection";
    toy_set(&t, 2, -3, 5);
    toy_bound(&t, 1, -3, 5, "probit");
    inside *w = inside_new(&t, &o, 1);
    atvi_rng r = atvi_math_rng_at(1, ATVI_STREAM_TEST, 0, 0);
    double x[2 * ATVI_VI_TEST];
    atvi_cloud c = {.cap = ATVI_VI_TEST, .n = ATVI_VI_TEST, .x = x};
    for (int j = 0; j < ATVI_VI_TEST; j++)
      x[j] = x[ATVI_VI_TEST + j] = 0.3 + sds[k] * atvi_math_rng_normal(&r);
    double other = w->v.space->map[1].slope;
    atvi_infer_vi_slopes(&w->v, &c);
    double slope = w->v.space->map[0].slope;
    CHECK_OK(atvi_transform_map_check(w->v.ctx, &w->v.space->map[0]));
    CHECK_MSG(slope >= 1 && slope <= 1000, "sd %g: slope %g", sds[k], slope);
    CHECK(slope <= last);
    CHECK(w->v.space->map[1].slope == other);
    last = slope;
    inside_free(w);
  }
  CHECK(last <= 20);
}

/* ---- posteriors near a bound and far from it ---- */

static double chain_log_z(atvi_idx d) {
  double log_z = 0.5 * (double)d * log(2 * PI) + 0.5 * (double)(d - 1) * log(1 - TOY_RHO * TOY_RHO);
  for (atvi_idx j = 0; j < d; j++) log_z += log(0.3 * (double)(j + 1));
  return log_z;
}

static void nothing_is_lost_to_copies(void) {
  for (uint64_t seed = 1; seed <= (uint64_t)test_seeds(4, 10); seed++) {
    toy t = {.lik = toy_chain};
    atvi_vi_opts o = atvi_infer_vi_defaults();
    o.map = "surjection";
    o.seed = seed;
    o.ess = 4000;
    toy_set(&t, 3, -20, 20);
    fitted f = fit_on(&t, &o, 2);
    check_draws(f.d);
    CHECK_MSG(fabs(f.d->made->log_evidence - chain_log_z(3) + 3 * log(40.0)) < 0.01,
              "seed %d: log Z %.4f, want %.4f", (int)seed, f.d->made->log_evidence,
              chain_log_z(3) - 3 * log(40.0));
    CHECK_MSG(f.d->made->outside < 0.01, "seed %d: %.3f outside", (int)seed, f.d->made->outside);
    CHECK_MSG(f.d->made->efficiency > 0.9, "seed %d: ESS %.3f", (int)seed, f.d->made->efficiency);
    fitted_free(f);
  }
}

/* Three standard deviations from the bound of a wide box: a reflected copy would be as good. ELBO and
 * evidence of every seed. */
static void narrow_posterior_near_a_bound(void) {
  static const char *const map[2] = {"surjection", "auto"};
  for (int k = 0; k < 2; k++) {
    int low = 0; /* one draw in ten thousand, far out where the density is e^-1000, lowers an ELBO by 0.1 */
    int seeds = test_seeds(4, 10);
    for (uint64_t seed = 1; seed <= (uint64_t)seeds; seed++) {
      toy t = {.lik = near_bound};
      atvi_vi_opts o = atvi_infer_vi_defaults();
      o.map = map[k];
      o.seed = seed;
      o.ess = 4000;
      toy_set(&t, 2, 0, 10);
      fitted f = fit_on(&t, &o, 2);
      double want = near_bound_log_z(2);
      check_draws(f.d);
      low += !(f.d->made->elbo > want - 0.1);
      CHECK_MSG(f.d->made->elbo > want - 2, "map %s, seed %d: ELBO %.3f, log Z %.3f", map[k], (int)seed,
                f.d->made->elbo, want);
      CHECK_MSG(fabs(f.d->made->log_evidence - want) < 0.02, "map %s, seed %d: log Z %.4f, want %.4f", map[k],
                (int)seed, f.d->made->log_evidence, want);
      /* of N(0.3, 0.1) above 0: the cut takes 0.0013 and moves the mean by 0.004 sd */
      for (int j = 0; j < 2; j++) CHECK_ABS(fit_mean(f.d, j), 0.3 + 0.1 * 0.00444, 0.005);
      fitted_free(f);
    }
    CHECK_MSG(low <= (seeds + 2) / 5, "map %s: the ELBO of %d seeds is more than 0.1 below log Z", map[k],
              low);
  }
}

/* Posteriors that do touch: at one end, at the other, at both, in three dimensions at once. */
static double touching(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)t, (void)o;
  g[0] = -4, g[1] = 9, g[2] = 0;
  return -4 * x[0] + 9 * (x[1] - 1);
}

static void no_run_falls_short(void) {
  double want = log((1 - exp(-4)) / 4 * (1 - exp(-9)) / 9);
  for (uint64_t seed = 1; seed <= (uint64_t)test_seeds(4, 10); seed++) {
    toy t = {.lik = touching};
    atvi_vi_opts o = atvi_infer_vi_defaults();
    o.map = "surjection";
    o.seed = seed;
    o.ess = 4000;
    toy_set(&t, 3, 0, 1);
    fitted f = fit_on(&t, &o, 2);
    check_draws(f.d);
    CHECK_MSG(f.d->made->elbo > want - 0.1 && fabs(f.d->made->log_evidence - want) < 0.02,
              "seed %d: ELBO %.3f, evidence %.4f, log Z %.4f, ESS %.3f", (int)seed, f.d->made->elbo,
              f.d->made->log_evidence, want, f.d->made->efficiency);
    fitted_free(f);
  }
}

TESTS({"two-ends", two_ends_come_home}, {"one-end", one_end_comes_home},
      {"copies", training_from_a_copy_ends_at_home}, {"slopes", slopes_follow_the_spread},
      {"inside", nothing_is_lost_to_copies}, {"narrow", narrow_posterior_near_a_bound},
      {"touching", no_run_falls_short})
