/* SPDX-License-Identifier: MIT */
#include "math/sobol.h"
#include "math/rng.h"
#include "math/special.h"
#include "sobol_oracle.h"
#include "testing.h"

enum { DIMS = ATVI_SOBOL_DIMS };
static const atvi_sobol KEY = {0x2385731419ULL, ATVI_STREAM_TEST, 7};

static void first_points_are_the_published_ones(void) {
  const double want[10][3] = {{0, 0, 0},
                              {.5, .5, .5},
                              {.75, .25, .25},
                              {.25, .75, .75},
                              {.375, .375, .625},
                              {.875, .875, .125},
                              {.625, .125, .875},
                              {.125, .625, .375},
                              {.1875, .3125, .9375},
                              {.6875, .8125, .4375}};
  for (uint32_t i = 0; i < 10; i++)
    for (int k = 0; k < 3; k++) CHECK(atvi_math_sobol_raw(i, k) * 0x1p-32 == want[i][k]);
}

static void every_dimension_agrees_with_another_program(void) {
  for (int k = 0; k < DIMS; k++)
    CHECK_INT(atvi_math_sobol_raw(ORACLE_INDEX, k) >> (32 - ORACLE_BITS), oracle_point[k]);
}

/* 2^m points from a multiple of 2^m on: one in each interval of length 2^-m, in every dimension. */
static void projections_are_stratified(void) {
  static double u[DIMS * 1024];
  static bool seen[1024];
  const atvi_idx first[3] = {0, 7 * 1024, 3000001LL * 1024};
  for (int m = 0; m <= 10; m += 5)
    for (int f = 0; f < 3; f++) {
      atvi_idx n = (atvi_idx)1 << m;
      atvi_math_sobol_uniform(KEY, first[f], DIMS, n, u);
      for (int k = 0; k < DIMS; k++) {
        memset(seen, 0, sizeof seen);
        for (atvi_idx i = 0; i < n; i++) {
          double v = u[k * n + i];
          CHECK(v > 0 && v < 1 && !seen[(int)(v * (double)n)]);
          seen[(int)(v * (double)n)] = true;
        }
      }
    }
}

/* The first two dimensions are a (0, m, 2)-net: one point in every dyadic box of area 2^-m. Scrambling keeps
 * it. */
static void pairs_are_a_net(void) {
  static double u[2 * 256];
  for (uint32_t scramble = 0; scramble < 5; scramble++) {
    atvi_math_sobol_uniform((atvi_sobol){19, 3, scramble}, 512, 2, 256, u);
    for (int a = 0; a <= 8; a++) {
      bool seen[256] = {false};
      for (int i = 0; i < 256; i++) {
        int box = (int)(u[i] * (1 << a)) << (8 - a) | (int)(u[256 + i] * (1 << (8 - a)));
        CHECK(!seen[box]);
        seen[box] = true;
      }
    }
  }
}

static void batches_do_not_matter(void) {
  enum { D = DIMS + 3, B = 100 };
  static double all[D * B], part[D * B];
  const atvi_idx cut[] = {0, 1, 8, 37, 64, 100};
  for (int how = 0; how < 3; how++) {
    void (*f)(atvi_sobol, atvi_idx, atvi_idx, atvi_idx, double *) = how == 0   ? atvi_math_sobol_uniform
                                                                    : how == 1 ? atvi_math_sobol_normal
                                                                               : atvi_math_sobol_plain_normal;
    f(KEY, 29, D, B, all);
    for (int c = 0; c < 5; c++) {
      atvi_idx n = cut[c + 1] - cut[c];
      f(KEY, 29 + cut[c], D, n, part);
      for (int k = 0; k < D; k++)
        for (atvi_idx i = 0; i < n; i++) CHECK(part[k * n + i] == all[k * B + cut[c] + i]);
    }
  }
}

static void last_points_can_be_had(void) {
  double u[2 * 8], v[2];
  atvi_math_sobol_uniform(KEY, ((atvi_idx)1 << 32) - 8, 2, 8, u);
  atvi_math_sobol_uniform(KEY, ((atvi_idx)1 << 32) - 1, 2, 1, v);
  CHECK(u[7] == v[0] && u[15] == v[1]);
  atvi_math_sobol_uniform(KEY, 5, 0, 8, NULL);
  atvi_math_sobol_uniform(KEY, 5, 2, 0, NULL);
}

static void normals_are_inverted_uniforms(void) {
  static double u[7 * 1024], z[7 * 1024];
  atvi_math_sobol_uniform(KEY, 0, 7, 1024, u);
  atvi_math_sobol_normal(KEY, 0, 7, 1024, z);
  for (int k = 0; k < 7; k++) {
    double sum = 0, square = 0;
    for (int i = 0; i < 1024; i++) {
      double x = z[k * 1024 + i];
      CHECK(x == atvi_math_ndtri(u[k * 1024 + i]));
      sum += x / 1024;
      square += x * x / 1024;
    }
    CHECK_ABS(sum, 0, 3e-3); /* stratified: independent draws would give 0.03 */
    CHECK_ABS(square, 1, 2e-2);
  }
}

/* Moments of numbers that are independent within six standard errors, and of dimensions beyond the table. */
static void independent(atvi_idx n, const double *x, const double *y, double mean, double variance) {
  double sx = 0, sxx = 0, sxy = 0, root = sqrt((double)n);
  for (atvi_idx i = 0; i < n; i++) {
    double a = (x[i] - mean) / sqrt(variance), b = (y[i] - mean) / sqrt(variance);
    sx += a / root;
    sxx += (a * a - 1) / root;
    sxy += a * b / root;
  }
  CHECK_ABS(sx, 0, 6);
  CHECK_ABS(sxx, 0, 9); /* variance of a^2 is at most 2 */
  CHECK_ABS(sxy, 0, 6);
}

static void beyond_the_table_and_plain_are_independent(void) {
  enum { D = DIMS + 2, N = 4096 };
  static double u[D * N], z[3 * N];
  atvi_math_sobol_uniform(KEY, 0, D, N, u);
  independent(N, u + DIMS * N, u + (DIMS + 1) * N, 0.5, 1.0 / 12);
  independent(N, u + DIMS * N, u + 3 * N, 0.5, 1.0 / 12);
  atvi_math_sobol_plain_normal(KEY, 0, 3, N, z);
  independent(N, z, z + N, 0, 1);
  independent(N, z + 2 * N, z, 0, 1);
  atvi_math_sobol_normal(KEY, 0, 3, N, u);
  independent(N, z, u, 0, 1);
}

/* ---- scrambling ---- */

/* True nested scrambling: the bit that flips digit b is a Philox number of the digits before it. */
static double nested(uint32_t x, uint32_t dim, uint32_t scramble) {
  uint32_t y = 0;
  for (uint32_t b = 0; b < 32; b++) {
    uint32_t out[4], prefix = b ? x >> (32 - b) : 0;
    atvi_math_rng_block((uint32_t[4]){prefix, b, scramble, dim}, (uint32_t[2]){731, 2385}, out);
    y |= ((x >> (31 - b) ^ out[0]) & 1) << (31 - b);
  }
  return (y + 0.5) * 0x1p-32;
}

/* Smooth, of full dimension, integral 1. */
static double smooth6(const double u[6]) {
  double f = 1;
  for (int k = 0; k < 6; k++) f *= exp((0.9 - 0.1 * k) * u[k]) * (0.9 - 0.1 * k) / expm1(0.9 - 0.1 * k);
  return f;
}

/* Variance of smooth6, from its closed form. */
static double smooth6_variance(void) {
  double second = 1;
  for (int k = 0; k < 6; k++) {
    double c = 0.9 - 0.1 * k;
    second *= c * expm1(2 * c) / (2 * expm1(c) * expm1(c));
  }
  return second - 1;
}

static void integrates_better_than_chance(void) {
  enum { N = 1024, REP = 200, REF = 40 };
  static double u[6 * N];
  double mean = 0, square = 0, reference = 0;
  for (uint32_t r = 0; r < REP; r++) {
    double sum = 0;
    atvi_math_sobol_uniform((atvi_sobol){91, ATVI_STREAM_TEST, r}, 0, 6, N, u);
    for (int i = 0; i < N; i++)
      sum += smooth6((double[6]){u[i], u[N + i], u[2 * N + i], u[3 * N + i], u[4 * N + i], u[5 * N + i]}) / N;
    mean += (sum - 1) / REP;
    square += (sum - 1) * (sum - 1) / REP;
  }
  for (uint32_t r = 0; r < REF; r++) {
    double sum = 0, x[6];
    for (uint32_t i = 0; i < N; i++) {
      for (uint32_t k = 0; k < 6; k++) x[k] = nested(atvi_math_sobol_raw(i, k), k, r);
      sum += smooth6(x) / N;
    }
    reference += (sum - 1) * (sum - 1) / REF;
  }
  double chance = smooth6_variance() / N;
  printf("root mean square error: Monte Carlo %.3g, Sobol %.3g (1/%.0f), nested reference %.3g\n",
         sqrt(chance), sqrt(square), sqrt(chance / square), sqrt(reference));
  CHECK_ABS(mean, 0, 4 * sqrt(square / REP)); /* unbiased */
  CHECK(sqrt(chance / square) > 40);
  /* 40 replications give a variance to 22 %, 200 to 10 %: within three standard errors of each other. */
  CHECK(square < 2 * reference && reference < 2 * square);
}

/* Over scramblings, flips of digit b under two different prefixes are independent: they agree half of the
 * time. And each is fair. */
static void flips_are_fair_and_independent(void) {
  enum { REP = 4000, LEVELS = 5, NODES = 1 << LEVELS };
  static unsigned char flip[LEVELS + 1][NODES][REP];
  double u[NODES], worst = 0;
  for (uint32_t r = 0; r < REP; r++) {
    atvi_math_sobol_uniform((atvi_sobol){17, ATVI_STREAM_TEST, r}, 0, 1, NODES, u);
    for (uint32_t i = 0; i < NODES; i++) {
      uint32_t x = atvi_math_sobol_raw(i, 0) >> 24, y = (uint32_t)(u[i] * 256);
      for (int b = 0; b <= LEVELS;
           b++) /* node: the b digits before; further digits of x are 0 or seen before */
        flip[b][b ? x >> (8 - b) : 0][r] = (x >> (7 - b) ^ y >> (7 - b)) & 1;
    }
  }
  for (int b = 0; b <= LEVELS; b++)
    for (int p = 0; p < 1 << b; p++)
      for (int q = 0; q <= p; q++) {
        int count = 0;
        for (int r = 0; r < REP; r++) count += p == q ? flip[b][p][r] : flip[b][p][r] ^ flip[b][q][r];
        double z = fabs(count - REP / 2.0) / sqrt(REP / 4.0);
        worst = fmax(worst, z);
      }
  printf("worst of 693 deviations: %.2f standard errors\n", worst);
  CHECK(worst < 4.5); /* expected maximum 3.2; 0.5 % chance of 4.5 */
}

static void keys_make_other_points(void) {
  const atvi_sobol other[3] = {{KEY.seed + 1, KEY.stream, KEY.scramble},
                               {KEY.seed, KEY.stream + 1, KEY.scramble},
                               {KEY.seed, KEY.stream, KEY.scramble + 1}};
  enum { N = 2048 };
  static double a[2 * N], b[2 * N];
  for (int o = 0; o < 3; o++) {
    atvi_math_sobol_uniform(KEY, 0, 2, N, a);
    atvi_math_sobol_uniform(other[o], 0, 2, N, b);
    int same = 0;
    for (int i = 0; i < 2 * N; i++) same += a[i] == b[i];
    CHECK_INT(same, 0);
  }
}

TESTS({"published", first_points_are_the_published_ones},
      {"oracle", every_dimension_agrees_with_another_program}, {"stratified", projections_are_stratified},
      {"net", pairs_are_a_net}, {"batches", batches_do_not_matter}, {"last", last_points_can_be_had},
      {"normals", normals_are_inverted_uniforms}, {"independent", beyond_the_table_and_plain_are_independent},
      {"integral", integrates_better_than_chance}, {"flips", flips_are_fair_and_independent},
      {"keys", keys_make_other_points})
