/* SPDX-License-Identifier: MIT */
#include "math/rng.h"
#include "math/detail.h"
#include "math/special.h"
#include "testing.h"

static double phi(double x) { return 0.5 * erfc(-x * sqrt(0.5)); }

static void check_block(const uint32_t c[4], const uint32_t k[2], const uint32_t want[4]) {
  uint32_t out[4];
  atvi_math_rng_block(c, k, out);
  for (int i = 0; i < 4; i++) CHECK(out[i] == want[i]);
}

/* Known answers published with the generator. */
static void philox_known_answers(void) {
  check_block((uint32_t[]){0, 0, 0, 0}, (uint32_t[]){0, 0},
              (uint32_t[]){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  check_block((uint32_t[]){~0u, ~0u, ~0u, ~0u}, (uint32_t[]){~0u, ~0u},
              (uint32_t[]){0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  check_block((uint32_t[]){0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
              (uint32_t[]){0xa4093822, 0x299f31d0},
              (uint32_t[]){0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

static void positions_are_independent_and_repeatable(void) {
  atvi_rng a = atvi_math_rng_at(0x123456789abcdefu, ATVI_STREAM_TEST, 7, 9);
  atvi_rng b = atvi_math_rng_at(0x123456789abcdefu, ATVI_STREAM_TEST, 7, 9);
  uint64_t first = atvi_math_rng_bits(&a);
  CHECK(first == atvi_math_rng_bits(&b));
  for (int i = 0; i < 100; i++) CHECK(atvi_math_rng_bits(&a) == atvi_math_rng_bits(&b));
  atvi_rng other[5] = {atvi_math_rng_at(0x123456789abcdeeu, ATVI_STREAM_TEST, 7, 9),
                       atvi_math_rng_at(0x023456789abcdefu, ATVI_STREAM_TEST, 7, 9),
                       atvi_math_rng_at(0x123456789abcdefu, ATVI_STREAM_MAP, 7, 9),
                       atvi_math_rng_at(0x123456789abcdefu, ATVI_STREAM_TEST, 8, 9),
                       atvi_math_rng_at(0x123456789abcdefu, ATVI_STREAM_TEST, 7, 10)};
  for (int i = 0; i < 5; i++) CHECK(atvi_math_rng_bits(&other[i]) != first);
}

/* Extreme words through the formula of the uniform: the ends are never reached. */
static void uniform_is_open(void) {
  atvi_rng r = {.out = {~0u, ~0u, 0, 0}, .left = 4};
  double top = atvi_math_rng_uniform(&r), bottom = atvi_math_rng_uniform(&r);
  CHECK(top < 1 && top == 1 - 0x1p-53);
  CHECK(bottom > 0 && bottom == 0x1p-53);
  CHECK(isfinite(atvi_math_ndtri(top)) && isfinite(atvi_math_ndtri(bottom)));
}

static void check_normals(atvi_normals_fn *fn) {
  for (uint32_t draw = 0; draw < 4000; draw += ATVI_LANES)
    for (uint32_t block = 0; block < 2; block++) {
      double x[2 * ATVI_LANES];
      atvi_rng at = atvi_math_rng_at(0x123456789abcdefu, ATVI_STREAM_TEST, 11, draw);
      at.counter[0] = block;
      fn(at.key, at.counter, x);
      for (uint32_t l = 0; l < ATVI_LANES; l++) {
        atvi_rng r = atvi_math_rng_at(0x123456789abcdefu, ATVI_STREAM_TEST, 11, draw + l);
        r.counter[0] = block;
        for (int row = 0; row < 2; row++) {
          double one = atvi_math_rng_normal(&r);
          CHECK_ABS(x[(uint32_t)(row * ATVI_LANES) + l], one, 4e-15 * (1 + fabs(one)));
        }
      }
    }
}

/* 8 000 numbers, so that their outermost are four standard deviations out. */
static void normals_of_lanes_are_those_of_each(void) {
  check_normals(atvi_math_normals_base);
#ifdef ATVI_HAVE_X86_ISA
  if (atvi_isa_best() >= ATVI_ISA_AVX2) check_normals(atvi_math_normals_avx2);
  if (atvi_isa_best() >= ATVI_ISA_AVX512) check_normals(atvi_math_normals_avx512);
#endif
}

/* From the middle, and an odd number of them. */
static void normals_begin_anywhere(void) {
  enum { MANY = 7, FROM = 4 };
  double x[MANY * ATVI_LANES];
  atvi_rng at = atvi_math_rng_at(5, ATVI_STREAM_TEST, 3, 20);
  atvi_math_rng_normals(&at, FROM, MANY, x);
  for (uint32_t l = 0; l < ATVI_LANES; l++) {
    atvi_rng r = atvi_math_rng_at(5, ATVI_STREAM_TEST, 3, 20 + l);
    for (int i = 0; i < FROM; i++) atvi_math_rng_normal(&r);
    for (uint32_t i = 0; i < MANY; i++) CHECK_ABS(x[i * ATVI_LANES + l], atvi_math_rng_normal(&r), 4e-14);
  }
}

enum { N = 40000 };
static double draws[N];
static uint32_t test_number; /* every comparison has its own numbers */

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Kolmogorov-Smirnov: sqrt(N) D exceeds 1.95 with probability 0.001; seeds are fixed. */
#define KS_LIMIT 1.95
#define KS(draw, cdf)                                                                                        \
  do {                                                                                                       \
    atvi_rng r = atvi_math_rng_at(20240917, ATVI_STREAM_TEST, ++test_number, 0);                             \
    double worst = 0;                                                                                        \
    for (int i = 0; i < N; i++) draws[i] = (draw);                                                           \
    qsort(draws, N, sizeof *draws, by_value);                                                                \
    for (int i = 0; i < N; i++) {                                                                            \
      double x = draws[i], f = (cdf);                                                                        \
      worst = fmax(worst, fmax(f - (double)i / N, (i + 1.0) / N - f));                                       \
    }                                                                                                        \
    CHECK_ABS(worst *sqrt(N), 0, KS_LIMIT);                                                                  \
  } while (0)

static void continuous_draws_follow_their_distribution(void) {
  KS(atvi_math_rng_uniform(&r), x);
  KS(atvi_math_rng_normal(&r), phi(x));
  KS(atvi_math_rng_exponential(&r), -expm1(-x));
  KS(atvi_math_rng_gamma(&r, 0.137), atvi_math_gamma_p(0.137, x));
  KS(atvi_math_rng_gamma(&r, 1.0), atvi_math_gamma_p(1.0, x));
  KS(atvi_math_rng_gamma(&r, 47.3), atvi_math_gamma_p(47.3, x));
  KS(atvi_math_rng_beta(&r, 0.31, 0.77), atvi_math_beta_inc(0.31, 0.77, x));
  KS(atvi_math_rng_beta(&r, 5.3, 2.9), atvi_math_beta_inc(5.3, 2.9, x));
  KS(atvi_math_rng_student(&r, 2.7), exp(atvi_math_student_lcdf(x, 2.7, 0, 1, NULL)));
  KS(atvi_math_rng_student(&r, HUGE_VAL), phi(x));
}

/* Chi-square over cells of about equal probability, by the Wilson-Hilferty normal approximation of its
 * tail: |z| < 3.3 leaves 0.001. */
#define CHI(draw, cdf_at_k)                                                                                  \
  do {                                                                                                       \
    atvi_rng r = atvi_math_rng_at(20240917, ATVI_STREAM_TEST, ++test_number, 0);                             \
    for (int i = 0; i < N; i++) {                                                                            \
      draws[i] = (draw);                                                                                     \
      CHECK(draws[i] >= 0 && draws[i] == floor(draws[i]));                                                   \
    }                                                                                                        \
    qsort(draws, N, sizeof *draws, by_value);                                                                \
    double chi = 0, below = 0;                                                                               \
    int cells = 0, from = 0;                                                                                 \
    while (from < N) {                                                                                       \
      int to = from + N / 40 < N ? from + N / 40 : N - 1;                                                    \
      double k = draws[to];                                                                                  \
      while (to < N && draws[to] == k) to++;                                                                 \
      if (N - to < N / 80) to = N;                                                                           \
      double cdf = to == N ? 1.0 : exp(cdf_at_k), expected = N * (cdf - below);                              \
      chi += (to - from - expected) * (to - from - expected) / expected;                                     \
      below = cdf;                                                                                           \
      from = to;                                                                                             \
      cells++;                                                                                               \
    }                                                                                                        \
    double df = cells - 1, c = 2 / (9 * df);                                                                 \
    CHECK(cells >= 3);                                                                                       \
    CHECK_ABS((cbrt(chi / df) - (1 - c)) / sqrt(c), 0, 3.3);                                                 \
  } while (0)

static void counts_follow_their_distribution(void) {
  CHI(atvi_math_rng_poisson(&r, 1.37), atvi_math_poisson_lcdf(k, 1.37, NULL));
  CHI(atvi_math_rng_poisson(&r, 9.99), atvi_math_poisson_lcdf(k, 9.99, NULL));
  CHI(atvi_math_rng_poisson(&r, 10.01), atvi_math_poisson_lcdf(k, 10.01, NULL));
  CHI(atvi_math_rng_poisson(&r, 731.0), atvi_math_poisson_lcdf(k, 731.0, NULL));
  CHI(atvi_math_rng_poisson(&r, 1e9), atvi_math_poisson_lcdf(k, 1e9, NULL));
  CHI(atvi_math_rng_binomial(&r, 13, 0.21), atvi_math_binomial_lcdf(k, 13, 0.21, NULL));
  CHI(atvi_math_rng_binomial(&r, 80, 0.37), atvi_math_binomial_lcdf(k, 80, 0.37, NULL));
  CHI(atvi_math_rng_binomial(&r, 80, 0.93), atvi_math_binomial_lcdf(k, 80, 0.93, NULL));
  CHI(atvi_math_rng_binomial(&r, 1e7, 0.6), atvi_math_binomial_lcdf(k, 1e7, 0.6, NULL));
  CHI(atvi_math_rng_negbin(&r, 12.3, 0.71), atvi_math_negbin_lcdf(k, 12.3, 0.71, NULL));
  CHI(atvi_math_rng_negbin(&r, 3300.0, 25.0), atvi_math_negbin_lcdf(k, 3300.0, 25.0, NULL));
  CHI(atvi_math_rng_negbin(&r, 5.5, HUGE_VAL), atvi_math_poisson_lcdf(k, 5.5, NULL));
}

/* The sum of N draws, in standard errors; a mean of 1e9 has sd 3e4, so this sees a bias of 1e-7. */
static void means_are_right(void) {
  atvi_rng r = atvi_math_rng_at(77, ATVI_STREAM_TEST, 0, 0);
  double p = 0, b = 0, g = 0, z3 = 0;
  for (int i = 0; i < N; i++) {
    p += (atvi_math_rng_poisson(&r, 1e9) - 1e9) / sqrt(1e9);
    b += (atvi_math_rng_binomial(&r, 1e8, 0.3) - 3e7) / sqrt(2.1e7);
    g += (atvi_math_rng_gamma(&r, 8.3) - 8.3) / sqrt(8.3);
    double z = atvi_math_rng_normal(&r);
    z3 += z * z * z / sqrt(15.0);
  }
  CHECK_ABS(p / sqrt(N), 0, 3.3);
  CHECK_ABS(b / sqrt(N), 0, 3.3);
  CHECK_ABS(g / sqrt(N), 0, 3.3);
  CHECK_ABS(z3 / sqrt(N), 0, 3.3);
}

static void wrong_arguments_give_nan(void) {
  atvi_rng r = atvi_math_rng_at(77, ATVI_STREAM_TEST, 0, 0);
  CHECK(isnan(atvi_math_rng_gamma(&r, 0)) && isnan(atvi_math_rng_gamma(&r, NAN)) &&
        isnan(atvi_math_rng_beta(&r, -1, 1)));
  CHECK(isnan(atvi_math_rng_student(&r, 0)) && isnan(atvi_math_rng_poisson(&r, -1)) &&
        isnan(atvi_math_rng_poisson(&r, NAN)));
  CHECK(isnan(atvi_math_rng_poisson(&r, HUGE_VAL)) && isnan(atvi_math_rng_binomial(&r, 3, 1.2)));
  CHECK(isnan(atvi_math_rng_binomial(&r, -3, 0.2)) && isnan(atvi_math_rng_negbin(&r, 1, 0)) &&
        isnan(atvi_math_rng_negbin(&r, -1, 1)));
  CHECK(atvi_math_rng_poisson(&r, 0) == 0 && atvi_math_rng_binomial(&r, 9, 0) == 0 &&
        atvi_math_rng_binomial(&r, 9, 1) == 9);
  CHECK(atvi_math_rng_negbin(&r, 0, 2.5) == 0);
  double tiny = atvi_math_rng_beta(&r, 1e-4, 1e-4); /* both gammas underflow; the ratio must not */
  CHECK(tiny >= 0 && tiny <= 1);
}

TESTS({"philox", philox_known_answers}, {"positions", positions_are_independent_and_repeatable},
      {"open", uniform_is_open}, {"lanes", normals_of_lanes_are_those_of_each},
      {"anywhere", normals_begin_anywhere}, {"continuous", continuous_draws_follow_their_distribution},
      {"counts", counts_follow_their_distribution}, {"means", means_are_right},
      {"nan", wrong_arguments_give_nan})
