/* SPDX-License-Identifier: MIT */
#include "math/rng.h"
#include "math/stat/stat.h"
#include "psis_oracle.h"
#include "testing.h"

enum { MOST = 20000 };
static double lw[MOST], w[MOST], work[4 * MOST];

static double total(atvi_idx n) {
  double sum = 0;
  for (atvi_idx i = 0; i < n; i++) sum += w[i];
  return sum;
}

static void agrees(atvi_idx n, const double set[][2], const double want[6]) {
  CHECK_INT(atvi_math_psis_work(n) <= sizeof work / sizeof *work, 1);
  for (atvi_idx i = 0; i < n; i++) lw[i] = set[i][0];
  atvi_psis_info info = atvi_math_psis(n, lw, w, work);
  CHECK_REL(info.khat, want[0], 1e-10); /* the fit is a mean over a grid: well conditioned */
  CHECK_REL(info.ess, want[3], 1e-11);
  CHECK_REL(info.log_mean, want[4], 1e-13);
  CHECK_REL(info.log_mean_se, want[5], 1e-12);
  CHECK_INT(info.n_tail, (atvi_idx)ceil(fmin(0.2 * (double)n, 3 * sqrt((double)n))));
  for (atvi_idx i = 0; i < n; i++) CHECK_REL(w[i], set[i][1], 1e-11);
  atvi_math_psis(n, lw, lw, work); /* in place */
  for (atvi_idx i = 0; i < n; i++) CHECK(lw[i] == w[i]);
}

static void agrees_with_the_formulas(void) {
  agrees(30, few, few_info);
  agrees(80, many, many_info);
}

/* Weights u^-k are Pareto: the excess over any cutoff is generalised Pareto with shape k. */
static void finds_the_shape_of_pareto_tails(void) {
  enum { S = 4000, REP = 200, TAIL = 190 };
  const double shape[3] = {0.2, 0.5, 0.8};
  for (int c = 0; c < 3; c++) {
    double sum = 0, square = 0;
    for (uint32_t r = 0; r < REP; r++) {
      atvi_rng rng = atvi_math_rng_at(2385, ATVI_STREAM_TEST, r, (uint32_t)c);
      for (int i = 0; i < S; i++) lw[i] = -shape[c] * log(atvi_math_rng_uniform(&rng));
      atvi_psis_info info = atvi_math_psis(S, lw, w, work);
      CHECK_INT(info.n_tail, TAIL);
      double k = (info.khat * (TAIL + 10) - 5) / TAIL; /* without the prior */
      sum += (k - shape[c]) / REP;
      square += (k - shape[c]) * (k - shape[c]) / REP;
    }
    /* Asymptotic standard deviation (1 + k) / sqrt(M); the estimate's own bias is about 1/M. */
    double sd = (1 + shape[c]) / sqrt(TAIL);
    printf("k = %.1f: bias %.4f, root mean square error %.4f, theory %.4f\n", shape[c], sum, sqrt(square),
           sd);
    CHECK_ABS(sum, 0, 4 * sd / sqrt(REP) + 1.0 / TAIL);
    CHECK_REL(sqrt(square), sd, 0.2);
  }
}

/* Target Exp(a), draws of Exp(1): w = a e^((1-a) x), k = 1 - a. Target t with 3 df, draws of t with 6: k = 1
 * - 3/6. Both have mean weight 1, the evidence. */
static double exponential_ratio(atvi_rng *r) { return log(0.6) + 0.4 * atvi_math_rng_exponential(r); }
static double student_ratio(atvi_rng *r) {
  double x = atvi_math_rng_student(r, 6);
  double p3 = lgamma(2.0) - lgamma(1.5) - 0.5 * log(3.0) - 2 * log1p(x * x / 3);
  return p3 - (lgamma(3.5) - lgamma(3.0) - 0.5 * log(6.0) - 3.5 * log1p(x * x / 6));
}

static void importance_ratios(void) {
  double (*const ratio[2])(atvi_rng *) = {exponential_ratio, student_ratio};
  const double k[2] = {0.4, 0.5}, tol[2] = {0.02, 0.08}; /* the ratio of t is Pareto in the limit only */
  for (int c = 0; c < 2; c++) {
    enum { REP = 60 };
    double mean = 0, z = 0, zz = 0, smooth = 0;
    for (uint32_t r = 0; r < REP; r++) {
      atvi_rng rng = atvi_math_rng_at(731, ATVI_STREAM_TEST, r, (uint32_t)c);
      for (int i = 0; i < MOST; i++) lw[i] = ratio[c](&rng);
      atvi_psis_info info = atvi_math_psis(MOST, lw, w, work);
      mean += info.khat / REP;
      z += info.log_mean / info.log_mean_se / sqrt(REP);
      zz += info.log_mean * info.log_mean / (info.log_mean_se * info.log_mean_se) / REP;
      smooth += info.log_mean_smooth / REP;
      CHECK(info.khat < atvi_math_psis_threshold(MOST));
    }
    printf("mean khat %.3f, want %.1f; evidence: z %.2f, mean z^2 %.2f; smoothed %.5f\n", mean, k[c], z, zz,
           smooth);
    CHECK_ABS(mean, k[c], tol[c]);
    CHECK_ABS(z, 0, 4);
    CHECK_ABS(zz, 1, 4 * sqrt(2.0 / REP));
    CHECK_ABS(smooth, 0, 0.005);
  }
}

/* Normal target of variance 1/4 and draws of N(0, 1), unnormalised by e^-97.9: bounded weights. */
static void evidence_of_a_normal(void) {
  atvi_rng rng = atvi_math_rng_at(5, ATVI_STREAM_TEST, 1, 1);
  for (int i = 0; i < MOST; i++) {
    double x = atvi_math_rng_normal(&rng);
    lw[i] = -97.9 + log(2.0) - 1.5 * x * x;
  }
  atvi_psis_info info = atvi_math_psis(MOST, lw, w, work);
  CHECK_ABS(info.log_mean, -97.9, 4 * info.log_mean_se);
  /* E w^2 = 4 E e^(-3 x^2) = 4 / sqrt 7 */
  CHECK_REL(info.log_mean_se, sqrt((4 / sqrt(7.0) - 1) / MOST), 0.03);
  CHECK_REL(info.ess, MOST * sqrt(7.0) / 4, 0.02);
  CHECK(info.khat < 0.2);
}

static void order_is_kept_and_ties_stay(void) {
  atvi_rng rng = atvi_math_rng_at(11, ATVI_STREAM_TEST, 1, 1);
  for (int i = 0; i < 1000; i++)
    lw[i] = round(12 * -0.6 * log(atvi_math_rng_uniform(&rng))) / 12; /* many ties */
  atvi_psis_info info = atvi_math_psis(1000, lw, w, work);
  CHECK(info.n_tail > 50 && isfinite(info.khat));
  CHECK_ABS(total(1000), 1, 1e-12);
  for (int i = 0; i < 1000; i++)
    for (int j = 0; j < i; j++) {
      if (lw[i] == lw[j]) CHECK(w[i] == w[j]);
      if (lw[i] < lw[j]) CHECK(w[i] <= w[j]);
    }
}

static void failed_draws_weigh_nothing(void) {
  atvi_rng rng = atvi_math_rng_at(12, ATVI_STREAM_TEST, 1, 1);
  for (int i = 0; i < 500; i++)
    lw[i] = i % 5 == 2 ? (i % 2 ? -HUGE_VAL : NAN) : 0.3 * atvi_math_rng_normal(&rng);
  atvi_psis_info info = atvi_math_psis(500, lw, w, work);
  double raw = 0;
  for (int i = 0; i < 500; i++) {
    if (i % 5 == 2)
      CHECK(w[i] == 0);
    else
      raw += exp(lw[i]) / 500;
  }
  CHECK_ABS(total(500), 1, 1e-12);
  CHECK_REL(info.log_mean, log(raw), 1e-12); /* they count in the mean */
  CHECK(isfinite(info.khat) && info.ess < 400 && info.ess > 300);
  for (int i = 20; i < 500; i++) lw[i] = -HUGE_VAL; /* fewer left than the tail is long */
  info = atvi_math_psis(500, lw, w, work);
  CHECK_INT(info.n_tail, 16);
  CHECK_ABS(total(500), 1, 1e-12);
  for (int i = 3; i < 20; i++) lw[i] = -HUGE_VAL; /* and too few */
  lw[2] = 0.1;
  info = atvi_math_psis(500, lw, w, work);
  CHECK(info.khat == HUGE_VAL && info.n_tail == 0);
  CHECK_REL(w[2], exp(lw[2]) / (exp(lw[0]) + exp(lw[1]) + exp(lw[2])), 1e-14);
}

static void special_sets_are_defined(void) {
  for (int i = 0; i < 1000; i++) lw[i] = -1e5 + 0.25; /* constant: perfect draws */
  atvi_psis_info info = atvi_math_psis(1000, lw, w, work);
  CHECK(info.khat == 0 && info.log_mean_se == 0);
  CHECK_REL(info.ess, 1000, 1e-12);
  CHECK_REL(info.log_mean, -1e5 + 0.25, 1e-15);
  lw[17] += 3; /* one stands out */
  info = atvi_math_psis(1000, lw, w, work);
  CHECK(info.khat == HUGE_VAL);
  CHECK_REL(w[17] / w[16], exp(3), 1e-9);
  for (int i = 0; i < 700; i++) lw[i] = -1; /* an atom at the top of 300 */
  info = atvi_math_psis(1000, lw, w, work);
  CHECK(info.khat == 0);
  for (int i = 0; i < 1000; i++) lw[i] = -i * 1000.0; /* everything underflows but one */
  info = atvi_math_psis(1000, lw, w, work);
  CHECK(info.khat == HUGE_VAL && w[0] == 1 && info.ess == 1);
  for (int i = 0; i < 1000; i++) lw[i] = -i * 20.0; /* a tail that spans what a double can */
  info = atvi_math_psis(1000, lw, w, work);
  CHECK(info.khat > 2 && isfinite(info.khat));
  CHECK_ABS(total(1000), 1, 1e-12);
  for (int i = 0; i < 1000; i++) lw[i] = 1 + 1e-15 * (i % 7); /* constant but for rounding */
  info = atvi_math_psis(1000, lw, w, work);
  CHECK(info.khat < 0.7);
  CHECK_REL(info.ess, 1000, 1e-9);
}

static void few_none_and_infinite(void) {
  for (int i = 0; i < 24; i++) lw[i] = log(1.0 + i);
  atvi_psis_info info = atvi_math_psis(24, lw, w, work);
  CHECK(isnan(info.khat) && info.n_tail == 0);
  for (int i = 0; i < 24; i++) CHECK_REL(w[i], (1.0 + i) / 300, 1e-14);
  CHECK_REL(info.log_mean, log(12.5), 1e-14);
  CHECK_REL(info.log_mean_smooth, log(12.5), 1e-14);
  info = atvi_math_psis(1, lw + 7, w, work);
  CHECK(isnan(info.khat) && isnan(info.log_mean_se) && w[0] == 1 && info.ess == 1);
  for (int i = 0; i < 40; i++) lw[i] = i % 2 ? -HUGE_VAL : NAN;
  info = atvi_math_psis(40, lw, w, work);
  CHECK(isnan(info.khat) && info.ess == 0 && info.log_mean == -HUGE_VAL && isnan(info.log_mean_se));
  for (int i = 0; i < 40; i++) CHECK(w[i] == 0);
  lw[3] = lw[9] = HUGE_VAL;
  lw[4] = 2;
  info = atvi_math_psis(40, lw, w, work);
  CHECK(info.khat == HUGE_VAL && info.ess == 2 && info.log_mean == HUGE_VAL);
  CHECK(w[3] == 0.5 && w[9] == 0.5 && w[4] == 0);
}

/* 900 weights of 1 and 100 of 1.5 to 3: the tail is the 95 largest, and what it has above its cutoff is
 * counted. */
static void excess_is_the_weight_above_the_cutoff(void) {
  enum { N = 1000, BIG = 100, TAIL = 95 };
  static double logs[N], smooth[N], room[4 * N];
  double all = N - BIG, above = 0, cutoff = 1.5 * exp(log(2.0) * (BIG - TAIL - 1) / (BIG - 1));
  for (int i = 0; i < N; i++) logs[i] = 0;
  for (int i = 0; i < BIG; i++) {
    double big = 1.5 * exp(log(2.0) * i / (BIG - 1));
    logs[7 * i] = log(big);
    all += big;
    above += fmax(0, big - cutoff);
  }
  atvi_psis_info info = atvi_math_psis(N, logs, smooth, room);
  CHECK_REL(info.excess, above / all, 1e-12);
  CHECK(atvi_math_psis_permits(N, 0.3, info.excess) && !atvi_math_psis_permits(N, 0.7, info.excess));
  CHECK(atvi_math_psis_permits(N, 5, 0.0049) && !atvi_math_psis_permits(N, 5, 0.0051));
  CHECK(!atvi_math_psis_permits(N, NAN, NAN));
}

static void threshold(void) {
  CHECK_REL(atvi_math_psis_threshold(100), 0.5, 1e-14);
  CHECK_REL(atvi_math_psis_threshold(1000), 1 - 1.0 / 3, 1e-14);
  CHECK(atvi_math_psis_threshold(2200) == 0.7 && atvi_math_psis_threshold(100000) == 0.7);
  CHECK(atvi_math_psis_threshold(1) == -HUGE_VAL);
}

/* Expected order statistics of a generalised Pareto distribution give its parameters back, also for light
 * tails. */
static void fit_of_quantiles(void) {
  enum { N = 2000 };
  const double shape[5] = {-0.5, -0.1, 1e-9, 0.4, 1.3};
  for (int c = 0; c < 5; c++) {
    double k, sigma;
    for (int i = 0; i < N; i++) lw[i] = 0.37 * expm1(-shape[c] * log1p(-(i + 0.5) / N)) / shape[c];
    atvi_math_gpd_fit(N, lw, &k, &sigma);
    CHECK_ABS(k, shape[c], 0.02);
    CHECK_REL(sigma, 0.37, 0.02);
  }
}

/* Quantiles of a Cauchy distribution, of student with 4 degrees of freedom (k = 1/4) and of a normal; on
 * either side, and with weights. */
static void tails_have_an_index(void) {
  enum { N = 20000 };
  static double x[N], weight[N], space[N];
  double se, pi = acos(-1.0);
  for (int i = 0; i < N; i++) x[i] = tan(pi * ((i + 0.5) / N - 0.5));
  CHECK_ABS(atvi_math_tail_index(N, x, NULL, &se, space), 1, 0.05);
  CHECK_REL(se, 2 / sqrt(N / 20.0), 0.05);
  for (int i = 0; i < N; i++) weight[i] = 0.37;
  CHECK_ABS(atvi_math_tail_index(N, x, weight, &se, space), atvi_math_tail_index(N, x, NULL, &se, space),
            0.01);
  for (int i = 0; i < N / 2; i++) x[i] = -1e-3 * (N / 2 - i); /* the other side ends */
  CHECK_ABS(atvi_math_tail_index(N, x, NULL, &se, space), 1, 0.05);
  for (int i = 0; i < N; i++) { /* of student with two: (2p - 1) / sqrt(2p (1 - p)) */
    double p = (i + 0.5) / N;
    x[i] = (2 * p - 1) / sqrt(2 * p * (1 - p));
  }
  CHECK_ABS(atvi_math_tail_index(N, x, NULL, &se, space), 0.5, 0.05);
  for (int i = 0; i < N; i++) x[i] = log((i + 0.5) / (N - i - 0.5)); /* logistic */
  CHECK_ABS(atvi_math_tail_index(N, x, NULL, &se, space), 0, 0.05);
  /* Weights that halve the density beyond a point move no index. */
  for (int i = 0; i < N; i++) x[i] = tan(pi * ((i + 0.5) / N - 0.5)), weight[i] = fabs(x[i]) > 3 ? 0.5 : 1;
  CHECK_ABS(atvi_math_tail_index(N, x, weight, &se, space), 1, 0.1);
  for (int i = 0; i < N; i++) x[i] = 2.385;
  CHECK(atvi_math_tail_index(N, x, NULL, &se, space) == -HUGE_VAL);
  CHECK(atvi_math_tail_index(99, x, NULL, &se, space) == -HUGE_VAL && isnan(se));
}

static void one_voice(void) {
  CHECK(atvi_math_weights_agree(0.49, 0.49) && !atvi_math_weights_agree(0.51, 0.1) &&
        !atvi_math_weights_agree(0.1, 0.51));
  CHECK(atvi_math_weights_agree(NAN, NAN) && !atvi_math_weights_agree(NAN, HUGE_VAL));
  CHECK(atvi_math_weights_few(0.09) && !atvi_math_weights_few(0.11) && !atvi_math_weights_few(NAN));
}

/* Of weights u^-k, u uniform, the integral over u < 1/n of what is above the weight of u = m/n, as a part of
 * that over u < m/n. */
static double pareto_beyond(double n, double m, double k) {
  double above = pow(m / n, -k);
  return (pow(n, k - 1) / (1 - k) - above / n) / (pow(m / n, 1 - k) / (1 - k) - above * m / n);
}

static void tells_what_is_beyond(void) {
  const atvi_idx n[] = {100, 4000, 131072};
  for (int i = 0; i < 3; i++) {
    double m = ceil(fmin(0.2 * (double)n[i], 3 * sqrt((double)n[i])));
    for (double k = -0.9; k < 1; k += 0.2)
      CHECK_REL(atvi_math_psis_beyond(n[i], k, 0.137), 0.137 * pareto_beyond((double)n[i], m, k), 1e-9);
    CHECK_REL(atvi_math_psis_beyond(n[i], 0, 0.137), 0.137 * (log(m) + 1) / m, 1e-9);
    CHECK_REL(atvi_math_psis_beyond(n[i], 1e-5, 0.137), 0.137 * (log(m) + 1) / m, 1e-3);
    CHECK_REL(atvi_math_psis_beyond(n[i], 1, 0.137), 0.137, 1e-12);
    CHECK_REL(atvi_math_psis_beyond(n[i], 3.7, 0.137), 0.137, 1e-12);
    CHECK(isnan(atvi_math_psis_beyond(n[i], NAN, NAN)));
  }
}

TESTS({"beyond", tells_what_is_beyond}, {"tails", tails_have_an_index}, {"voice", one_voice},
      {"oracle", agrees_with_the_formulas}, {"pareto", finds_the_shape_of_pareto_tails},
      {"ratios", importance_ratios}, {"evidence", evidence_of_a_normal},
      {"order", order_is_kept_and_ties_stay}, {"failed", failed_draws_weigh_nothing},
      {"special", special_sets_are_defined}, {"few", few_none_and_infinite}, {"threshold", threshold},
      {"excess", excess_is_the_weight_above_the_cutoff}, {"fit", fit_of_quantiles})
