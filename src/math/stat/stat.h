/* SPDX-License-Identifier: MIT */
/* Statistics of draws: used by infer to stop and by diag to judge. Pure kernels; scratch is
 * passed in by the caller where it is needed. Chains: x[m][n], chain-major, n draws each. */
#ifndef ATVI_MATH_STAT_STAT_H
#define ATVI_MATH_STAT_STAT_H

#include "core/core.h"

/* Convergence of m chains of n draws (Vehtari and others 2021). work: atvi_math_stat_work(m, n) doubles.
 * Constant or non-finite input, and n < ATVI_CONVERGE_LEAST, give NaN: chains are split, and each half needs
 * two. */
enum { ATVI_CONVERGE_LEAST = 4 };
size_t atvi_math_stat_work(atvi_idx m, atvi_idx n);
typedef struct {
  double rhat;     /* max of rank-normalised split and folded */
  double ess_bulk; /* rank-normalised split */
  double ess_tail; /* min over the 5 % and 95 % quantiles */
  double ess_mean; /* split, for the MCSE of the mean */
} atvi_convergence;
atvi_convergence atvi_math_converge(atvi_idx m, atvi_idx n, const double *x, double *work);

/* Weighted summaries of n draws; w NULL: equal weights; weights need not sum to one.
 * sorted x is required where the argument is called xs, with ws its weights in the same order. */
double atvi_math_mean(atvi_idx n, const double *x, const double *w);
double atvi_math_sd(atvi_idx n, const double *x, const double *w); /* divisor n - 1 for equal weights */
double atvi_math_quantile(atvi_idx n, const double *xs, const double *ws,
                          double p); /* type 7 for equal weights */
/* Shortest interval with mass p. */
void atvi_math_hpd(atvi_idx n, const double *xs, const double *ws, double p, double out[2]);
/* Maximiser of the kernel density, reflected at finite bounds (+-inf: none). Bandwidth: Sheather-Jones
 * or improved plug-in; robust to long tails. Constant xs give that value. work: n + 4 * 1024 doubles. */
double atvi_math_mode(atvi_idx n, const double *xs, const double *ws, double lower, double upper,
                      double *work);
/* The density that atvi_math_mode maximises: its mean over each of ATVI_DENSITY_GRID equal cells from ends[0]
 * to ends[1]. It reflects at finite bounds and is 0 beyond them; beyond the ends it is left out, but counted:
 * the cells sum to the share of the draws that lies between. False where all draws are equal or not finite.
 * work: as for atvi_math_mode. */
enum { ATVI_DENSITY_GRID = 256 };
bool atvi_math_density(atvi_idx n, const double *xs, const double *ws, double lower, double upper,
                       double ends[2], double *out, double *work);
/* For qsort: doubles ascending. */
int atvi_math_by_value(const void *a, const void *b);
/* Sorts x ascending and carries w along (w may be NULL). work: 2 n doubles. */
void atvi_math_sort(atvi_idx n, double *x, double *w, double *work);

/* Pareto-smoothed importance sampling (Vehtari, Simpson, Gelman, Yao, Gabry, JMLR 2024). */

typedef struct {
  /* Shape of the generalised Pareto distribution fitted to the largest weights. 0 where the largest weights
   * are all equal (bounded, nothing to smooth); +inf where fewer than five stand out (they are everything);
   * NaN where it cannot be told: S < 25, or no weight above zero. Compare with atvi_math_psis_threshold(S):
   * `khat < threshold` is false for the last two. */
  double khat;
  double ess; /* 1 / sum of squares of the smoothed weights; 0 if no weight is above zero */
  /* Logarithm of the mean of the weights as given (failed draws count with 0): with log_w = log pi - log q of
   * draws of q, the log evidence. Its standard error for independent draws by the delta method: sd / (mean
   * sqrt(S)); NaN for S = 1. -inf and NaN if no weight is above zero. */
  double log_mean, log_mean_se;
  double log_mean_smooth; /* the same of the smoothed weights: less noisy for a long tail, slightly biased */
  atvi_idx n_tail;        /* weights smoothed; 0: none */
  /* Share of the weight that lies above the cutoff of the tail, as given: what a wrong tail could spoil at
   * most, as far as can be seen. khat knows no scale: weights that are all within a few percent of each other
   * may have any khat. NaN where khat is. */
  double excess;
} atvi_psis_info;

/* Doubles of scratch for n draws. */
size_t atvi_math_psis_work(atvi_idx n);
/* Smooths S = n >= 1 weights given by logarithms: w[n] sums to one and has the order of log_w, equal ones
 * stay equal.
 * -inf (a failed draw) and NaN have weight 0; with no weight above zero w is 0 throughout. +inf: these
 * share the weight equally, khat, log_mean are +inf. log_w and w may be the same array. */
atvi_psis_info atvi_math_psis(atvi_idx n, const double *log_w, double *w, double *work);

/* Largest khat that can be trusted with n draws: min(1 - 1/log10 n, 0.7). -inf for n <= 1. */
double atvi_math_psis_threshold(atvi_idx n);

/* Whether weights may be used: khat is below the threshold, or the tail that it speaks of holds next to
 * nothing (excess below 0.5 %). */
bool atvi_math_psis_permits(atvi_idx n, double khat, double excess);

/* The part of the integral that lies beyond the largest of n weights, by the tail that was fitted to them: of
 * its m largest, with the shape khat and a part `excess` of the sum above their threshold, the generalised
 * Pareto distribution has ((m^khat - 1)/khat + 1)/m of that where none of m draws is expected. NaN where khat
 * is. */
double atvi_math_psis_beyond(atvi_idx n, double khat, double excess);

/* Whether weights speak with one voice: none has more than half of their sum before smoothing (top), and the
 * log of their mean is known to half a nat (se). Where not, what was seen once may be most of the posterior,
 * whatever khat says of the smoothed tail. NaN: not known, which is no objection. */
bool atvi_math_weights_agree(double top, double se);

/* Whether weights rest on few of the draws: they are worth less than a tenth of them. NaN: not known, which
 * is no objection. */
bool atvi_math_weights_few(double share);

/* By how much standard errors computed from weights are too small for this khat: 1 up to 1/2, where the
 * weights have a variance; beyond, (0.5 / (1 - khat))^2, a rule of thumb (2 at 0.65), held from 0.9 on. */
double atvi_math_psis_inflation(double khat);

/* Shape of the heavier tail of n draws, by a generalised Pareto distribution fitted to the outermost
 * twentieth on either side: moments of order 1/k and above do not exist. xs ascending, ws their weights
 * (NULL: equal). *se: its standard error for independent draws.
 * -inf where there are too few draws, or they are all equal. work: n / 20 + 1 doubles. */
double atvi_math_tail_index(atvi_idx n, const double *xs, const double *ws, double *se, double *work);

/* Shape k and scale sigma of the generalised Pareto distribution 1 - (1 + k x / sigma)^(-1/k) for n >= 5
 * exceedances x > 0, ascending, not all equal: the profile estimate of Zhang & Stephens (2009), without the
 * prior on k. */
void atvi_math_gpd_fit(atvi_idx n, const double *x, double *k, double *sigma);

/* How well a model predicts data it has not seen, from its draws alone: leave-one-out cross-validation by
 * Pareto-smoothed importance sampling (PSIS-LOO; Vehtari, Gelman, Gabry 2017) and the widely applicable
 * information criterion (WAIC; Watanabe 2010). */

/* Of one observation. */
typedef struct {
  double lpd;       /* log of its mean likelihood over the draws */
  double elpd_loo;  /* log density of it given all the others */
  double khat;      /* of the weights that leave it out, as in atvi_psis_info */
  double p_waic;    /* variance of its log likelihood over the draws; NaN for one draw */
  double elpd_waic; /* lpd - p_waic */
} atvi_loo_point;

/* Doubles of scratch for n draws. */
size_t atvi_math_loo_work(atvi_idx n);
/* From its log likelihood at n >= 1 draws that count equally. A draw where that is -inf says that the
 * observation is impossible: elpd_loo is then -inf, khat +inf. NaN anywhere: all NaN. */
atvi_loo_point atvi_math_loo_of(atvi_idx n, const double *log_lik, double *work);

/* Over n observations. */
typedef struct {
  atvi_idx n;
  double elpd, se; /* sum, and its standard error sqrt(n var); se is NaN for n < 2 */
  double p;        /* effective number of parameters: sum of lpd - elpd */
  atvi_idx n_bad;  /* LOO: observations whose khat is not <= the threshold; WAIC: whose p_waic is above 0.4 */
  atvi_idx worst;  /* the one with the largest khat or p_waic; -1 for n = 0 */
} atvi_loo_sum;

/* n_draw: how many draws the points are from, for the threshold of khat. Of no observations: zeros. */
atvi_loo_sum atvi_math_loo_total(atvi_idx n, const atvi_loo_point *point, atvi_idx n_draw);
atvi_loo_sum atvi_math_waic_total(atvi_idx n, const atvi_loo_point *point);

/* The normalising constant of a density by bridge sampling (Meng & Wong 1996), from draws of an approximation
 * with known density and draws of the density itself. */

/* Logarithms of l = pi / q, pi not normalised, q normalised. */
typedef struct {
  atvi_idx n_q;        /* independent draws of q, >= 2 */
  const double *log_q; /* [n_q] log l at them; -inf: pi is zero there */
  atvi_idx m, n;       /* chains, and draws of pi in each, n >= 4 */
  const double *log_p; /* [m][n] log l at them, finite */
} atvi_bridge_draws;

typedef struct {
  double log_evidence; /* log of the integral of pi; NaN where it cannot be had */
  /* standard error of it: from the relative mean squared error, with the autocorrelation of the chains */
  double se;
  int iterations;
} atvi_bridge_info;

/* Doubles of scratch. */
size_t atvi_math_bridge_work(const atvi_bridge_draws *b);
atvi_bridge_info atvi_math_bridge(const atvi_bridge_draws *b, double *work);

/* Are ranks uniform? Simultaneous bands for their empirical distribution function (Saeilynoja, Buerkner and
 * Vehtari 2022, Graphical test for discrete uniformity, Statistics and Computing 32:32).
 *
 * Of n ranks, each one of 0 .. k-1, let C_i be how many are below i, i = 1 .. k-1. If ranks are uniform C_i ~
 * Binomial(n, i/k), so that a band which each C_i leaves with probability gamma is a pair of binomial
 * quantiles. How often any of them is outside is found by simulation: of ranks drawn uniformly, the smallest
 * two-sided binomial tail over i,
 *     g = 2 min_i min(P(C <= C_i), P(C >= C_i)),
 * has a distribution whose alpha quantile is the gamma of a band that holds everywhere with probability 1 -
 * alpha; the share of simulated g that are no larger than the observed one is a p-value. Where it would be
 * smaller than simulation can tell, (k - 1) g bounds it. */

typedef struct atvi_ecdf atvi_ecdf;

/* How many simulations it takes to tell p-values about level > 0: 10 / level, as far as that takes a few
 * seconds at most, and no fewer than usual. */
atvi_idx atvi_math_ecdf_sims(atvi_idx n, double level);
/* For n >= 1 ranks of k >= 2 values, by simulating `sims` >= 100 sets (0: as many as take about a second, at
 * least 4000). n * k at most 1e8. *out is NULL on error. Errors: EINVAL, ENOMEM. */
ATVI_CHECKED atvi_status atvi_math_ecdf_new(atvi_ctx *ctx, atvi_idx n, atvi_idx k, atvi_idx sims,
                                            uint64_t seed, atvi_ecdf **out);
void atvi_math_ecdf_free(atvi_ecdf *e); /* NULL is fine */

/* p-value of ranks that occur count[k] times, sum n; 0 only where it underflows. */
double atvi_math_ecdf_p(const atvi_ecdf *e, const atvi_idx *count);
/* Band of C_i / n that holds for all i with probability 1 - alpha: low[k-1], high[k-1]. */
void atvi_math_ecdf_band(const atvi_ecdf *e, double alpha, double *low, double *high);

/* How far apart two distributions on the line are, from draws of them. */

/* Wasserstein-1 distance of two weighted samples: the integral of |F - G|, exact. In the unit of x: a shift
 * by c is a distance of c, whatever the shape. xs[n], ys[m] ascending, wx, wy their weights in the same
 * order, >= 0; NULL: equal; they need not sum to one. NaN where a sample is empty, has no weight, or a value
 * that is not finite. */
double atvi_math_wasserstein(atvi_idx n, const double *xs, const double *wx, atvi_idx m, const double *ys,
                             const double *wy);

/* The integral of sqrt(F (1 - F)), of a sample as above; NaN likewise. Two independent samples of one
 * distribution, worth n and m independent draws, are on average about sqrt(2/pi (1/n + 1/m)) of it apart: F -
 * G is then nearly normal with variance F (1 - F) (1/n + 1/m). */
double atvi_math_cdf_spread(atvi_idx n, const double *xs, const double *wx);

/* Sum of x_i - y_i over n observations and its standard error sqrt(n var), NaN for n < 2: paired, since
 * observations that are hard to predict are so for every model. */
typedef struct {
  double sum, se;
} atvi_loo_difference;
atvi_loo_difference atvi_math_loo_less(atvi_idx n, const double *x, const double *y);

/* Weights of K >= 1 models in the mixture of their predictions that predicts best: w[K] maximises sum_i log
 * sum_k w_k exp(elpd[k][i]) over w >= 0 that sum to 1. elpd: [K][n], elpd_loo of observation i. Models that
 * predict alike share their weight evenly. Observations that no model allows, or that one knows nothing of,
 * are left out; of none: equal weights. work: atvi_math_stacking_work doubles. */
size_t atvi_math_stacking_work(atvi_idx n, atvi_idx K);
void atvi_math_stacking(atvi_idx n, atvi_idx K, const double *elpd, double *w, double *work);

#endif
