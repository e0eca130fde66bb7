/* SPDX-License-Identifier: MIT */
/* Special functions of one point. Arguments outside the domain give NaN. Accuracy is about
 * 1e-13 relative unless said otherwise. Log densities and distribution functions return
 * -inf where the probability is 0. Thread-safe (no signgam). */
#ifndef ATVI_MATH_SPECIAL_H
#define ATVI_MATH_SPECIAL_H

#include "core/core.h"

#define ATVI_LOG_2PI 1.8378770664093454836
#define ATVI_LN_SQRT_2PI 0.91893853320467274178 /* log sqrt(2 pi) */
#define ATVI_SQRT_HALF 0.70710678118654752440

double atvi_math_lgamma(double x);   /* log Gamma(x), x > 0; NaN for x < 0, inf at 0 */
double atvi_math_digamma(double x);  /* d lgamma, x > 0; absolute near its root 1.4616 */
double atvi_math_trigamma(double x); /* d^2 lgamma, x > 0 */
double
atvi_math_lrise(double nu,
                double k); /* lgamma(nu + k) - lgamma(nu), k >= 0, nu > 0; no cancellation for large nu */
double atvi_math_lrise_dnu(double nu, double k); /* d/dnu of it: digamma(nu + k) - digamma(nu) */
double atvi_math_lbeta(double a, double b);

double atvi_math_log_ndtr(double x);   /* log Phi(x), right for x -> -inf */
double atvi_math_log_ndtr_d(double x); /* phi(x)/Phi(x), right for x -> -inf */
double atvi_math_ndtri(double p);      /* inverse of Phi, p in (0, 1) */

double atvi_math_gamma_p(double a, double x);            /* regularised lower incomplete gamma */
double atvi_math_gamma_q(double a, double x);            /* upper */
double atvi_math_beta_inc(double a, double b, double x); /* regularised incomplete beta I_x(a, b) */

double atvi_math_log_add(double a, double b); /* log(e^a + e^b) */
/* sum[i] = log(e^sum[i] + e^(shift + x[i])): one more term of n sums, such as a component of a mixture at n
 * points. */
void atvi_math_log_add_all(atvi_idx n, double shift, const double *x, double *sum);
/* log of the sum of e^x[i], and w[i] = e^x[i] over that sum (NULL: not wanted; x and w may be one array). NaN
 * counts as -inf; -inf for none. All 0 where the sum is not finite. */
double atvi_math_softmax(atvi_idx n, const double *x, double *w);
/* Effective size of n weights that sum to one: 1 / sum of squares; 0 if all are 0. */
double atvi_math_effective_size(atvi_idx n, const double *w);

/* Log distribution functions used for censored observations and truncated priors:
 * lcdf = log P(Y <= y), lccdf = log P(Y > y). grad, if not NULL, receives the derivatives
 * with respect to the distribution's parameters in the order of the arguments after y; 0 where the
 * probability is 0. Those by size and by df are numerical, about 1e-8. */
double atvi_math_normal_lcdf(double y, double mean, double sd, double grad[2]);
double atvi_math_normal_lccdf(double y, double mean, double sd, double grad[2]);
double atvi_math_student_lcdf(double y, double df, double loc, double scale, double grad[3]);
double atvi_math_student_lccdf(double y, double df, double loc, double scale, double grad[3]);
double atvi_math_poisson_lcdf(double y, double mean, double grad[1]);
double atvi_math_poisson_lccdf(double y, double mean, double grad[1]);
double atvi_math_negbin_lcdf(double y, double mean, double size, double grad[2]);
double atvi_math_negbin_lccdf(double y, double mean, double size, double grad[2]);
double atvi_math_binomial_lcdf(double y, double n, double p, double grad[2]); /* grad[0] = 0: n is whole */
double atvi_math_binomial_lccdf(double y, double n, double p, double grad[2]);
/* The same by the logarithm of the mean, and by log(p / (1 - p)): right where the mean or p is too small or
 * too close to 1 for a double. */
double atvi_math_poisson_log_lcdf(double y, double log_mean, double grad[1]);
double atvi_math_poisson_log_lccdf(double y, double log_mean, double grad[1]);
double atvi_math_negbin_log_lcdf(double y, double log_mean, double size, double grad[2]);
double atvi_math_negbin_log_lccdf(double y, double log_mean, double size, double grad[2]);
double atvi_math_binomial_logit_lcdf(double y, double n, double logit, double grad[2]); /* grad[0] = 0 */
double atvi_math_binomial_logit_lccdf(double y, double n, double logit, double grad[2]);

#endif
