/* SPDX-License-Identifier: MIT */
#include "vi_world.h"
#include "math/stat/stat.h"
#include <math.h>
#include <string.h>

#define PI 3.14159265358979323846
enum { D = 3 };

/* Two normals of width 0.5, with a tenth and nine tenths of the mass; the prior is N(0, 10) in every
 * coordinate. */
#define SHARE 0.1
#define SD 0.5
static double two(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)o;
  double l[2], top, sum;
  for (int k = 0; k < 2; k++) {
    l[k] = log(k ? SHARE : 1 - SHARE);
    for (atvi_idx j = 0; j < t->target.d; j++)
      l[k] -= 0.5 * pow((x[j] - (k ? 6 : -2)) / SD, 2) + 0.5 * log(2 * PI * SD * SD);
  }
  top = fmax(l[0], l[1]);
  sum = exp(l[0] - top) + exp(l[1] - top);
  for (int k = 0; k < 2; k++)
    for (atvi_idx j = 0; j < t->target.d; j++)
      g[j] -= exp(l[k] - top) / sum * (x[j] - (k ? 6 : -2)) / (SD * SD);
  return top + log(sum);
}

/* log of what mode k of the likelihood makes of the prior. */
static double log_mass(int k) {
  double var = SD * SD + 100, at = k ? 6 : -2;
  return log(k ? SHARE : 1 - SHARE) - D * 0.5 * (log(2 * PI * var) + at * at / var);
}

/* The normal of mode k, exactly. */
static void place(inside *w, int k, atvi_member *m) {
  double shift[D], chol[D * D] = {0}, var = 1 / (1 / (SD * SD) + 0.01);
  for (int i = 0; i < D; i++) {
    const atvi_map *map = &w->v.space->map[i];
    shift[i] = ((k ? 6 : -2) * var / (SD * SD) - map->loc) / map->scale;
    chol[i * D + i] = sqrt(var) / map->scale;
  }
  CHECK(atvi_infer_vi_member_new(&w->v, shift, chol, m));
}

/* A run whose first component that is. */
static inside *with_mode(const toy *t, int k, uint64_t seed, int threads) {
  atvi_vi_opts o = atvi_infer_vi_defaults();
  o.seed = seed;
  inside *w = inside_new(t, &o, threads);
  place(w, k, w->m);
  w->v.part[0].log_evidence = log_mass(k);
  return w;
}

/* The integral over what q lacks is the mass of the other mode, and the points are there. */
static void the_other_mode_is_measured(void) {
  for (int k = 0; k < 2; k++) {
    double mean = 0;
    int seeds = test_seeds(8, 8);
    for (int seed = 1; seed <= seeds; seed++) {
      toy t = {.lik = two};
      toy_set(&t, D, -HUGE_VAL, HUGE_VAL);
      inside *w = with_mode(&t, k, (uint64_t)seed, 2);
      const atvi_cloud *c = &w->v.search.missing;
      CHECK_OK(atvi_infer_vi_missing(&w->v, &w->v.search.missing, &w->v.search.log_missing));
      CHECK(c->n >= 64 && c->n == c->cap);
      mean += exp(w->v.search.log_missing - log_mass(!k)) / seeds;
      CHECK_ABS(w->v.search.log_missing, log_mass(!k), 2); /* some 64 points: two standard errors or so */
      double there = 0;
      for (atvi_idx j = 0; j < c->n; j++) {
        double x = w->v.space->map[0].loc + w->v.space->map[0].scale * c->x[j];
        there += fabs(x - (k ? -2 : 6)) < 4 * SD;
      }
      CHECK_MSG(there > 0.9 * (double)c->n, "seed %d: %g of %td", seed, there, c->n);
      inside_free(w);
    }
    if (seeds > 1) CHECK_MSG(mean > 0.4 && mean < 2.5, "mean %.3f", mean);
  }
}

/* Both components are there: next to nothing is missing. */
static void nothing_is_missing(void) {
  toy t = {.lik = two};
  toy_set(&t, D, -HUGE_VAL, HUGE_VAL);
  inside *w = with_mode(&t, 1, 1, 2);
  atvi_vi_part *second = &w->v.part[w->v.n_part++];
  *second = w->v.part[0];
  place(w, 0, &second->at);
  second->log_evidence = log_mass(0);
  CHECK_OK(atvi_infer_vi_missing(&w->v, &w->v.search.missing, &w->v.search.log_missing));
  CHECK(w->v.search.log_missing < log_mass(0) - 7);
  inside_free(w);
}

/* A component that is too low by some nats lacks a mode, but has many draws in it, and weights to mend that;
 * one that is lower by far has none. */
static void what_draws_reach_is_not_absent(void) {
  for (int far = 0; far < 2; far++) {
    toy t = {.lik = two};
    toy_set(&t, D, -HUGE_VAL, HUGE_VAL);
    inside *w = with_mode(&t, 1, 1, 2);
    atvi_vi_part *second = &w->v.part[w->v.n_part++];
    double absent;
    *second = w->v.part[0];
    place(w, 0, &second->at);
    second->log_evidence = log_mass(0) - (far ? 16 : 4);
    CHECK_OK(atvi_infer_vi_missing(&w->v, &w->v.search.missing, &w->v.search.log_missing));
    CHECK_ABS(w->v.search.log_missing, log_mass(0), 2);
    CHECK_OK(atvi_infer_vi_absent(&w->v, &w->v.search.missing, w->v.search.log_missing, &absent));
    CHECK(far ? absent == w->v.search.log_missing : absent == -HUGE_VAL);
    inside_free(w);
  }
}

/* A cluster twenty times as narrow as the mode in which it lies spreads over most of it; looks at the place
 * follow from there. */
static void points_wander_over_a_mode(void) {
  enum { N = 128 };
  for (uint64_t seed = 1; seed <= (uint64_t)test_seeds(2, 8); seed++) {
    toy t = {.lik = two};
    toy_set(&t, D, -HUGE_VAL, HUGE_VAL);
    inside *w = with_mode(&t, 0, seed, 2);
    atvi_cloud c = {0};
    CHECK(atvi_infer_vi_cloud(w->v.pool, D, N, &c));
    c.n = N;
    for (int i = 0; i < D; i++) {
      const atvi_map *map = &w->v.space->map[i];
      for (int j = 0; j < N; j++) c.x[i * N + j] = (6 + 0.035 * cos(7.0 * j + i) - map->loc) / map->scale;
    }
    CHECK_OK(atvi_infer_vi_wander(&w->v, &c));
    CHECK(c.n == N);
    for (int i = 0; i < D; i++) {
      double scale = w->v.space->map[i].scale, sd = atvi_math_sd(N, c.x + i * N, NULL) * scale;
      CHECK_MSG(sd > 0.4 * SD && sd < 1.5 * SD, "seed %d: sd %g", (int)seed, sd);
    }
    inside_free(w);
  }
}

/* A normal of width 0.5 whose right half is 1.5 wide in the first coordinate; q has the left half on both
 * sides. */
#define WIDE 1.5
static double skewed(const toy *t, const double *x, double *g, atvi_outcome *o) {
  double l = 0;
  (void)o;
  for (atvi_idx j = 0; j < t->target.d; j++) {
    double sd = j == 0 && x[j] > 0 ? WIDE : SD;
    l -= 0.5 * x[j] * x[j] / (sd * sd);
    g[j] -= x[j] / (sd * sd);
  }
  return l;
}

/* int exp(-x^2 / 2 sd^2) of one half, times the prior. */
static double half_mass(double sd) { return 0.5 * sqrt(1 / (1 + 100 / (sd * sd))); }

/* Draws of largest weight lead to where q ends too early; what is there gets a component, and the evidence is
 * right. Where q has all there is nothing to follow. */
static void what_is_beyond_the_draws_is_found(void) {
  for (uint64_t seed = 1; seed <= (uint64_t)test_seeds(2, 8); seed++)
    for (int whole = 0; whole < 2; whole++) {
      toy t = {.lik = skewed};
      toy_set(&t, D, -HUGE_VAL, HUGE_VAL);
      atvi_vi_opts o = atvi_infer_vi_defaults();
      o.seed = seed;
      o.ess = 4000;
      inside *in = inside_new(&t, &o, 2);
      double shift[D], chol[D * D] = {0}, var = 1 / (1 / (SD * SD) + 0.01), share;
      for (int i = 0; i < D; i++) {
        const atvi_map *map = &in->v.space->map[i];
        shift[i] = -map->loc / map->scale;
        chol[i * D + i] = (whole && i == 0 ? WIDE * 1.2 : sqrt(var)) / map->scale;
      }
      CHECK(atvi_infer_vi_member_new(&in->v, shift, chol, in->m));
      double exact = log(pow(2 * half_mass(SD), D - 1) * (half_mass(SD) + half_mass(WIDE)));
      in->v.part[0].log_evidence = exact;
      in->v.outcome.converged = true;
      atvi_vi_weights w = {0};
      CHECK_OK(atvi_infer_vi_weigh(&in->v, &w, true));
      double lacking = w.lacking;
      if (whole) {
        CHECK(!atvi_infer_vi_has_frontier(&w));
        CHECK_ABS(w.psis.log_mean, exact, 0.02);
      } else {
        CHECK_OK(atvi_infer_vi_beyond(&in->v, &w, false, &share));
        CHECK_MSG(share > ATVI_VI_UNSEEN / 2 && in->v.n_part > 1, "seed %d: share %.4f, %td components",
                  (int)seed, share, in->v.n_part);
        CHECK_OK(atvi_infer_vi_weigh(&in->v, &w, true));
        CHECK_ABS(w.psis.log_mean, exact, 0.02);
        CHECK_MSG(w.lacking < lacking, "seed %d: %.4f, before %.4f", (int)seed, w.lacking, lacking);
      }
      atvi_infer_vi_weights_free(&w);
      inside_free(in);
    }
}

/* Student's t distribution with six degrees of freedom in the first coordinate. */
#define DEGREES 6.0
static double heavy(const toy *t, const double *x, double *g, atvi_outcome *o) {
  double square = x[0] * x[0] / (DEGREES * SD * SD), l = -0.5 * (DEGREES + 1) * log1p(square);
  (void)o;
  g[0] -= (DEGREES + 1) * x[0] / (DEGREES * SD * SD * (1 + square));
  for (atvi_idx j = 1; j < t->target.d; j++) {
    l -= 0.5 * x[j] * x[j] / (SD * SD);
    g[j] -= x[j] / (SD * SD);
  }
  return l;
}

/* A normal q has half a percent too little in the tails of t, by a few draws of large weight, which make a
 * tenth of the variance. Where they lead gets components, and then the variance comes from many draws. */
static void thin_tails_are_filled(void) {
  for (uint64_t seed = 1; seed <= (uint64_t)test_seeds(2, 8); seed++) {
    toy t = {.lik = heavy};
    toy_set(&t, D, -HUGE_VAL, HUGE_VAL);
    atvi_vi_opts o = atvi_infer_vi_defaults();
    o.seed = seed;
    inside *in = inside_new(&t, &o, 2);
    double shift[D], chol[D * D] = {0}, share;
    for (int i = 0; i < D; i++) {
      const atvi_map *map = &in->v.space->map[i];
      shift[i] = -map->loc / map->scale;
      chol[i * D + i] = (i == 0 ? 1.1 : 1) * SD / map->scale;
    }
    CHECK(atvi_infer_vi_member_new(&in->v, shift, chol, in->m));
    in->v.outcome.converged = true;
    atvi_vi_weights w = {0};
    CHECK_OK(atvi_infer_vi_weigh(&in->v, &w, true));
    double far = w.far;
    CHECK_MSG(atvi_infer_vi_is_thin(&w), "seed %d: %.4f", (int)seed, far);
    CHECK_OK(atvi_infer_vi_beyond(&in->v, &w, true, &share));
    CHECK(in->v.n_part > 1);
    CHECK_OK(atvi_infer_vi_weigh(&in->v, &w, true));
    CHECK_MSG(w.far < far / 2, "seed %d: %.4f, before %.4f", (int)seed, w.far, far);
    CHECK_REL(atvi_math_sd(w.c.n, w.c.theta, w.w), SD * sqrt(DEGREES / (DEGREES - 2)), 0.04);
    atvi_infer_vi_weights_free(&w);
    inside_free(in);
  }
}

/* A second mode whose surface is rough: hundreds of small maxima, none of which has a thousandth of it. The
 * first is smooth and holds 95 %. */
static double rough(const toy *t, const double *x, double *g, atvi_outcome *o) {
  double l[2] = {log(0.95), log(0.05)}, slope[2][4];
  (void)o;
  for (int k = 0; k < 2; k++)
    for (atvi_idx j = 0; j < t->target.d; j++) {
      double e = (x[j] - (k ? 4 : -3)) / 0.7;
      l[k] -= 0.5 * e * e + log(0.7 * sqrt(2 * PI)) - (k ? 0.9 * sin(25 * x[j]) : 0);
      slope[k][j] = -e / 0.7 + (k ? 0.9 * 25 * cos(25 * x[j]) : 0);
    }
  double top = fmax(l[0], l[1]), sum = exp(l[0] - top) + exp(l[1] - top);
  for (int k = 0; k < 2; k++)
    for (atvi_idx j = 0; j < t->target.d; j++) g[j] += exp(l[k] - top) / sum * slope[k][j];
  return top + log(sum);
}

static void a_rough_mode_is_whole(void) {
  /* the mean of exp(0.9 sin) is I_0(0.9) */
  double more = pow(1.213, 4), share = 0.05 * more / (0.95 + 0.05 * more);
  for (uint64_t seed = 1; seed <= (uint64_t)test_seeds(2, 6); seed++) {
    toy t = {.lik = rough};
    atvi_vi_opts o = atvi_infer_vi_defaults();
    o.seed = seed;
    toy_set(&t, 4, -10, 10);
    fitted f = fit_on(&t, &o, 2);
    CHECK_MSG(fabs(fit_share(f.d, 0, 0, 10, NULL) - share) < 0.012, "seed %d: share %.4f, exactly %.4f",
              (int)seed, fit_share(f.d, 0, 0, 10, NULL), share);
    CHECK_ABS(f.d->made->log_evidence, log(0.95 + 0.05 * more) - 4 * log(20.0), 0.02);
    fitted_free(f);
  }
}

static void threads_do_not_matter(void) {
  double log_missing[2], x[2][16];
  for (int k = 0; k < 2; k++) {
    toy t = {.lik = two};
    toy_set(&t, D, -HUGE_VAL, HUGE_VAL);
    inside *w = with_mode(&t, 0, 5, 1 + 2 * k);
    CHECK_OK(atvi_infer_vi_missing(&w->v, &w->v.search.missing, &log_missing[k]));
    CHECK(w->v.search.missing.n >= 16);
    memcpy(x[k], w->v.search.missing.x, sizeof x[k]);
    inside_free(w);
  }
  CHECK(log_missing[0] == log_missing[1] && memcmp(x[0], x[1], sizeof x[0]) == 0);
}

/* Twenty-five modes on a grid: more than climbs from the prior meet. */
static double grid(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)t, (void)o;
  double sum = -log(25 * 2 * PI * 0.01);
  for (int j = 0; j < 2; j++) {
    double e = x[j] - 2 * fmin(fmax(floor(x[j] / 2 + 0.5), -2), 2);
    sum -= 0.5 * e * e / 0.01;
    g[j] = -e / 0.01;
  }
  return sum;
}

static void many_modes_are_found(void) {
  for (uint64_t seed = 1; seed <= (uint64_t)test_seeds(1, 3); seed++) {
    toy t = {.lik = grid};
    atvi_vi_opts o = atvi_infer_vi_defaults();
    o.seed = seed;
    toy_set(&t, 2, -6, 6);
    fitted f = fit_on(&t, &o, 2);
    check_draws(f.d);
    CHECK_ABS(f.d->made->log_evidence, -2 * log(12.0), 0.01);
    for (int k = -2; k <= 2; k++) CHECK_ABS(fit_share(f.d, 0, 2 * k - 1, 2 * k + 1, NULL), 0.2, 0.01);
    fitted_free(f);
  }
}

/* Every coordinate has a wide well and, far from it, a narrow one that holds all but 2 % of it: 64 modes, of
 * which that of six narrow wells has 89 %. Few climbs of a thousand come to more than three of these;
 * children of peaks add theirs up. */
enum { COMBINED = 6 };
static double wells(const toy *t, const double *x, double *g, atvi_outcome *o) {
  double sum = 0;
  (void)o;
  for (atvi_idx j = 0; j < t->target.d; j++) {
    double a = log(0.02) - 0.5 * (x[j] + 1) * (x[j] + 1), u = (x[j] - 6) / 0.15,
           b = log(0.98 / 0.15) - 0.5 * u * u, top = fmax(a, b),
           p = exp(b - top) / (exp(a - top) + exp(b - top));
    g[j] -= (1 - p) * (x[j] + 1) + p * u / 0.15;
    sum += top + log(exp(a - top) + exp(b - top));
  }
  return sum;
}

static void alternatives_are_combined(void) {
  for (uint64_t seed = 1; seed <= (uint64_t)test_seeds(3, 10); seed++) {
    toy t = {.lik = wells};
    atvi_vi_opts o = atvi_infer_vi_defaults();
    toy_set(&t, COMBINED, -10, 10);
    o.seed = seed;
    inside *w = inside_new(&t, &o, 2);
    w->v.part[0].log_evidence = -HUGE_VAL; /* q has nothing of it */
    CHECK_OK(atvi_infer_vi_seek(&w->v));
    CHECK(w->v.search.modes.n > 0);
    for (int j = 0; j < COMBINED; j++) {
      double theta, ldj;
      atvi_transform_map_fwd(&w->v.space->map[j], 1, &w->v.search.modes.mode[0].x[j], &theta, &ldj);
      CHECK_MSG(fabs(theta - 6) < 0.15, "seed %d: x[%d] = %.3f", (int)seed, j, theta);
    }
    inside_free(w);
  }
}

TESTS({"beyond", what_is_beyond_the_draws_is_found}, {"thin", thin_tails_are_filled},
      {"mode", the_other_mode_is_measured}, {"nothing", nothing_is_missing},
      {"combined", alternatives_are_combined}, {"absent", what_draws_reach_is_not_absent},
      {"threads", threads_do_not_matter}, {"many", many_modes_are_found},
      {"wander", points_wander_over_a_mode}, {"rough", a_rough_mode_is_whole})
