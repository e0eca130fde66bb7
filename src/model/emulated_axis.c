/* SPDX-License-Identifier: MIT */
/* Inputs of an emulator in the unit cube.
 *
 * A Gaussian process is as smooth at one end of an input as at the other. Runs of an input without an upper bound, such as a rate with a lognormal prior,
 * lie close together near its lower one and far apart beyond, and so do the places where the output changes. Where the logarithm of
 * such an input is spread more evenly over its range than the input itself, the logarithm takes its place. The runs decide, not the prior: an
 * ensemble that was made evenly over a range stays as it is. */
#include "model/dossier.h"
#include "math/stat/stat.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>

/* The middle of the runs must be so much nearer to that of the range, and the range so many times its lower end. */
static const double BETTER = 0.8, SPAN = 5;

/* How far the median is from the middle of the ends, in half ranges. */
static double lean(double least, double median, double most) {
  return fabs(least + most - 2 * median) / (most - least);
}

bool atvi_emulated_axis_log(atvi_idx n, double *value, double base) {
  qsort(value, (size_t)n, sizeof *value, atvi_by_value);
  double least = value[0] - base, most = value[n - 1] - base;
  double median = 0.5 * (value[(n - 1) / 2] + value[n / 2]) - base;
  if (!(least > 0 && most > SPAN * least && isfinite(most))) return false;
  return lean(log(least), log(median), log(most)) < BETTER * lean(least, median, most);
}

void atvi_emulated_axis_set(atvi_emulated_axis *a, double base, double lower, double upper) {
  a->base = base;
  a->lower = isnan(base) ? lower : log(lower - base);
  double end = isnan(base) ? upper : log(upper - base);
  a->width = end > a->lower ? end - a->lower : 1;
}

/* At the bound itself the logarithm would not be finite: a point so near to it is as good. */
double atvi_emulated_axis_x(const atvi_emulated_axis *a, double theta) {
  double s = isnan(a->base) ? theta : log(fmax(theta - a->base, DBL_MIN));
  return (s - a->lower) / a->width;
}

double atvi_emulated_axis_theta(const atvi_emulated_axis *a, double x) {
  double s = a->lower + a->width * x;
  return isnan(a->base) ? s : a->base + exp(s);
}

double atvi_emulated_axis_slope(const atvi_emulated_axis *a, double x) {
  return isnan(a->base) ? 1 / a->width : exp(-(a->lower + a->width * x)) / a->width;
}
