/* SPDX-License-Identifier: MIT */
/* Logarithm and inverse of the normal distribution function.
 *
 * Below TAIL the continued fraction of Mills' ratio replaces erfc: it gives log Phi and phi / Phi with
 * full relative accuracy and never underflows. The inverse is Wichura's PPND16 (AS 241, 1988),
 * rational approximations in three ranges, good to about 1e-16. */
#include "math/detail.h"
#include "math/special.h"
#include <math.h>

#define TAIL (-5.0)

/* phi(z) / Phi(-z) = z + 1/(z + 2/(z + 3/(z + ...))), z >= 5, by backward recurrence. */
static double inverse_mills(double z) {
  double t = z;
  int depth = 8 + (int)(800.0 / (z * z)); /* 1e-16 at every z >= 5, tested */
  for (int k = depth; k >= 1; k--) t = z + k / t;
  return t;
}

double atvi_log_ndtr(double x) {
  if (x < TAIL) {
    if (x < -1e150) return -HUGE_VAL;
    return -0.5 * x * x - ATVI_LN_SQRT_2PI - log(inverse_mills(-x));
  }
  return x <= 0 ? log(0.5 * erfc(-x * ATVI_SQRT_HALF)) : log1p(-0.5 * erfc(x * ATVI_SQRT_HALF));
}

double atvi_log_ndtr_d(double x) {
  if (x < TAIL) return inverse_mills(-x);
  return exp(-0.5 * x * x) / (ATVI_SQRT_2PI * 0.5 * erfc(-x * ATVI_SQRT_HALF));
}

static double horner8(const double c[8], double t) {
  return ((((((c[7] * t + c[6]) * t + c[5]) * t + c[4]) * t + c[3]) * t + c[2]) * t + c[1]) * t + c[0];
}

static const double mid_n[8] = {3.3871328727963666080e0,  1.3314166789178437745e+2, 1.9715909503065514427e+3,
                                1.3731693765509461125e+4, 4.5921953931549871457e+4, 6.7265770927008700853e+4,
                                3.3430575583588128105e+4, 2.5090809287301226727e+3};
static const double mid_d[8] = {1.0,
                                4.2313330701600911252e+1,
                                6.8718700749205790830e+2,
                                5.3941960214247511077e+3,
                                2.1213794301586595867e+4,
                                3.9307895800092710610e+4,
                                2.8729085735721942674e+4,
                                5.2264952788528545610e+3};
static const double near_n[8] = {1.42343711074968357734e0,  4.63033784615654529590e0,
                                 5.76949722146069140550e0,  3.64784832476320460504e0,
                                 1.27045825245236838258e0,  2.41780725177450611770e-1,
                                 2.27238449892691845833e-2, 7.74545014278341407640e-4};
static const double near_d[8] = {1.0,
                                 2.05319162663775882187e0,
                                 1.67638483018380384940e0,
                                 6.89767334985100004550e-1,
                                 1.48103976427480074590e-1,
                                 1.51986665636164571966e-2,
                                 5.47593808499534494600e-4,
                                 1.05075007164441684324e-9};
static const double far_n[8] = {6.65790464350110377720e0,  5.46378491116411436990e0,
                                1.78482653991729133580e0,  2.96560571828504891230e-1,
                                2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                2.71155556874348757815e-5, 2.01033439929228813265e-7};
static const double far_d[8] = {1.0,
                                5.99832206555887937690e-1,
                                1.36929880922735805310e-1,
                                1.48753612908506148525e-2,
                                7.86869131145613259100e-4,
                                1.84631831751005468180e-5,
                                1.42151175831644588870e-7,
                                2.04426310338993978564e-15};

double atvi_ndtri(double p) {
  if (!(p > 0 && p < 1)) return p == 0 ? -HUGE_VAL : p == 1 ? HUGE_VAL : NAN;
  double q = p - 0.5;
  if (fabs(q) <= 0.425) {
    double t = 0.180625 - q * q;
    return q * horner8(mid_n, t) / horner8(mid_d, t);
  }
  double r = sqrt(-log(q < 0 ? p : 1.0 - p)), x;
  x = r <= 5.0 ? horner8(near_n, r - 1.6) / horner8(near_d, r - 1.6)
               : horner8(far_n, r - 5.0) / horner8(far_d, r - 5.0);
  return q < 0 ? -x : x;
}
