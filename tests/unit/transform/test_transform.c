/* SPDX-License-Identifier: MIT */
#include "math/special.h"
#include "testing.h"
#include "transform/transform.h"
#include <float.h>

static const double SLOPES[] = {1, 4, 20, 300};
enum { N_SLOPE = sizeof SLOPES / sizeof *SLOPES };

static atvi_map made(atvi_map_kind kind, double lower, double upper, double loc, double scale, double slope) {
  atvi_ctx *ctx = test_ctx();
  atvi_map m;
  CHECK_OK(atvi_transform_map_new(ctx, kind, lower, upper, &m));
  if (!(kind == ATVI_MAP_SURJECTION && isfinite(lower) && isfinite(upper))) {
    m.loc = loc;
    m.scale = scale;
  }
  m.slope = slope;
  CHECK_OK(atvi_transform_map_check(ctx, &m));
  atvi_ctx_free(ctx);
  return m;
}

static double theta_at(const atvi_map *m, double xi, double *ldj) {
  double theta;
  *ldj = 0;
  atvi_transform_map_fwd(m, 1, &xi, &theta, ldj);
  return theta;
}

static void derivatives(const atvi_map *m, double xi, double *dtheta, double *dldj) {
  const double one = 1, zero = 0;
  *dtheta = *dldj = 0;
  atvi_transform_map_vjp(m, 1, &xi, &one, &zero, dtheta);
  atvi_transform_map_vjp(m, 1, &xi, &zero, &one, dldj);
}

/* ---- the integral of pi over xi is that of p over theta ---- */

/* Gauss-Legendre rule with 10 points. */
static const double GL_X[5] = {0.14887433898163122, 0.43339539412924719, 0.67940956829902441,
                               0.86506336668898451, 0.97390652851717172};
static const double GL_W[5] = {0.29552422471475287, 0.26926671930999636, 0.21908636251598204,
                               0.14945134915058059, 0.066671344308688138};

/* Integral of p(theta(xi)) e^ldj over n panels of width h from `from` on. */
static double integral(const atvi_map *m, double (*log_p)(double), double from, double h, int n) {
  double sum = 0, ldj;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < 10; k++) {
      double xi = from + h * (i + 0.5 + (k < 5 ? 0.5 : -0.5) * GL_X[k % 5]);
      double theta = theta_at(m, xi, &ldj);
      sum += 0.5 * h * GL_W[k % 5] * exp(log_p(theta) + ldj);
    }
  return sum;
}

static double falling(double t) { return -4 * t; }
static double bell(double t) { return -0.5 * (t - 0.37) * (t - 0.37) / (0.21 * 0.21); }
static double gamma3(double t) { return 2 * log(t - 0.7) - 1.9 * (t - 0.7); } /* on (0.7, inf) */
static double mirrored(double t) { return gamma3(1.4 - t); }                  /* on (-inf, 0.7) */

static double bell_between(double a, double b) {
  double s = 0.21 * sqrt(2.0);
  return 0.21 * sqrt(0.5 * acos(-1.0)) *
         ((isinf(b) ? 1 : erf((b - 0.37) / s)) - (isinf(a) ? -1 : erf((a - 0.37) / s)));
}
static const double GAMMA3 = 2 / (1.9 * 1.9 * 1.9);

static void two_ends_keep_the_integral(void) {
  for (int s = 0; s < N_SLOPE; s++) {
    double B = SLOPES[s], h = 1 / fmax(B, 8), far = ceil(42 / B);
    int n = (int)lround((4 + 2 * far) / h);
    atvi_map unit = made(ATVI_MAP_SURJECTION, 0, 1, 0, 0, B);
    CHECK_REL(integral(&unit, falling, -2 - far, h, n), -expm1(-4) / 4, 1e-10);
    CHECK_REL(integral(&unit, bell, -2 - far, h, n), bell_between(0, 1), 1e-10);
    atvi_map other = made(ATVI_MAP_SURJECTION, -0.13, 0.31, 0, 0, B);
    CHECK_REL(integral(&other, falling, -2 - far, h, n), (exp(0.52) - exp(-1.24)) / 4, 1e-10);
    CHECK_REL(integral(&other, bell, -2 - far, h, n), bell_between(-0.13, 0.31), 1e-10);
  }
}

static void one_end_keeps_the_integral(void) {
  const double loc = 0.31, scale = 0.83;
  for (int s = 0; s < N_SLOPE; s++) {
    double B = SLOPES[s], h = 1 / fmax(B, 8), far = ceil(42 / B), in = 40;
    int n = (int)lround((in + far) / h);
    atvi_map low = made(ATVI_MAP_SURJECTION, 0.7, HUGE_VAL, loc, scale, B);
    atvi_map high = made(ATVI_MAP_SURJECTION, -HUGE_VAL, 0.7, loc, scale, B);
    double at = (0.7 - loc) / scale; /* the fold, where a panel ends */
    CHECK_REL(integral(&low, gamma3, at - far, h, n), GAMMA3, 1e-10);
    CHECK_REL(integral(&high, mirrored, at - in, h, n), GAMMA3, 1e-10);
    CHECK_REL(integral(&low, bell, at - far, h, n), bell_between(0.7, HUGE_VAL), 1e-10);
    CHECK_REL(integral(&high, bell, at - in, h, n), bell_between(-HUGE_VAL, 0.7), 1e-10);
  }
}

static void one_to_one_maps_keep_the_integral(void) {
  const double loc = 0.31, scale = 1.7;
  atvi_map none = made(ATVI_MAP_NONE, -HUGE_VAL, HUGE_VAL, loc, scale, 20);
  CHECK_REL(integral(&none, bell, -2, 0.01, 400), bell_between(-HUGE_VAL, HUGE_VAL), 1e-10);
  atvi_map low = made(ATVI_MAP_LOG, 0.7, HUGE_VAL, loc, scale, 20);
  CHECK_REL(integral(&low, gamma3, -20, 0.05, 500), GAMMA3, 1e-10);
  CHECK_REL(integral(&low, bell, -30, 0.05, 700), bell_between(0.7, HUGE_VAL), 1e-10);
  atvi_map high = made(ATVI_MAP_LOG, -HUGE_VAL, 0.7, loc, scale, 20);
  CHECK_REL(integral(&high, mirrored, -20, 0.05, 500), GAMMA3, 1e-10);
  for (int k = 0; k < 2; k++) {
    atvi_map box = made(k ? ATVI_MAP_PROBIT : ATVI_MAP_LOGIT, 0, 1, loc, scale, 20);
    CHECK_REL(integral(&box, falling, -30, 0.05, 1200), -expm1(-4) / 4, 1e-10);
    CHECK_REL(integral(&box, bell, -30, 0.05, 1200), bell_between(0, 1), 1e-10);
  }
}

/* ---- shares ---- */

static void shares_sum_to_one(void) {
  const double slope[] = {0.1, 1, 4, 20, 300, 1000, 1e6};
  double xi[400], ldj;
  for (int s = 0; s < 7; s++)
    for (int end = 0; end < 3; end++) {
      atvi_map m = made(ATVI_MAP_SURJECTION, end == 2 ? -HUGE_VAL : -0.4, end == 1 ? HUGE_VAL : 1.3, 0.11,
                        0.57, slope[s]);
      for (int i = 0; i <= 170; i++) {
        double theta = fmin(-0.4 + 0.01 * i, 1.3), sum = 0;
        int n = atvi_transform_map_images(&m, theta, 60 / slope[s] + 1, 400, xi);
        CHECK(n >= 1 && n < 400);
        for (int k = 0; k < n; k++) {
          CHECK_ABS(theta_at(&m, xi[k], &ldj), theta, 1e-12);
          sum += exp(ldj - log(m.scale));
        }
        CHECK_ABS(sum, 1, 1e-12 + 1e-15 * slope[s] * 600);
      }
    }
}

static void share_is_the_logistic_one_but_near_the_middle(void) {
  atvi_map m = made(ATVI_MAP_SURJECTION, 0, 1, 0, 0, 20);
  double ldj;
  for (double u = 1.2; u < 2.8; u += 0.037) {
    theta_at(&m, u, &ldj);
    CHECK_REL(exp(ldj - log(0.25)), 1 / (1 + exp(20 * (u - 2))), 1e-12);
  }
}

/* ---- derivatives ---- */

/* Central differences of theta and ldj; theta only where no fold lies within the step. */
static void derivative_holds(const atvi_map *m, double xi, double h, double size, bool fold) {
  double dtheta, dldj, up, down, a, b;
  derivatives(m, xi, &dtheta, &dldj);
  CHECK(isfinite(dtheta) && isfinite(dldj));
  a = theta_at(m, xi + h, &up);
  b = theta_at(m, xi - h, &down);
  double step = (xi + h) - (xi - h);
  CHECK(isfinite(a) && isfinite(b) && isfinite(up) && isfinite(down));
  CHECK_ABS(dldj, (up - down) / step, 1e-6 * size);
  if (!fold) CHECK_ABS(dtheta, (a - b) / step, 1e-7 * (fabs(dtheta) + fabs(a) * 1e-3));
}

/* A power keeps the integral, has its derivative and inverse, and is like a logarithm at the end that it
 * names. */
static void powers_of_logit(void) {
  const double power[] = {8, -8, 3, -1.5, -1};
  for (int k = 0; k < 5; k++) {
    atvi_map m = made(ATVI_MAP_LOGIT, 0, 1, 0.31, 1.7, 20);
    double ldj, back, sign = power[k] > 0 ? 1 : -1;
    m.power = power[k];
    CHECK_REL(integral(&m, falling, -40, 0.02, 4000), -expm1(-4) / 4, 1e-9);
    CHECK_REL(integral(&m, bell, -40, 0.02, 4000), bell_between(0, 1), 1e-9);
    for (double xi = -6; xi <= 6; xi += 0.37) {
      double theta = theta_at(&m, xi, &ldj);
      derivative_holds(&m, xi, 1e-5, 20, false);
      atvi_transform_map_inv(&m, 1, &theta, &back);
      if (theta > 1e-9 && 1 - theta > 1e-6) CHECK_ABS(back, xi, 1e-8);
      double near = sign > 0 ? theta : 1 - theta, x = sign * (m.loc + m.scale * xi);
      if (fabs(power[k]) == 8 && near < 0.6) CHECK_ABS(log(near), x, 0.003);
    }
  }
  atvi_map m = made(ATVI_MAP_LOGIT, 0, 1, 0, 1, 20);
  atvi_ctx *ctx = test_ctx();
  m.power = 0.5;
  CHECK_STATUS(atvi_transform_map_check(ctx, &m), ATVI_EINVAL);
  atvi_ctx_free(ctx);
}

static void surjection_derivatives(void) {
  const double slope[] = {0.5, 1, 4, 20, 300, 1000};
  const double u[] = {-1000, -50.3, -50,  -10.1, -8,    -6.2, -6,  -4,   -2.7, -2.01,
                      -2,    -1.99, -1.3, -1e-9, 0,     1e-9, 0.4, 1.7,  1.99, 2,
                      2.01,  2.4,   3.98, 4,     5.999, 6.01, 8,   12.2, 50,   1000};
  for (int s = 0; s < 6; s++)
    for (int end = 0; end < 3; end++) {
      atvi_map m = made(ATVI_MAP_SURJECTION, end == 2 ? -HUGE_VAL : -0.4, end == 1 ? HUGE_VAL : 1.3, -0.4,
                        0.57, slope[s]);
      for (size_t i = 0; i < sizeof u / sizeof *u; i++) {
        double h = 1e-3 / fmax(slope[s], 1),
               edge = end == 0 ? fabs(fmod(fabs(u[i]) + 2, 4)) : fabs(u[i] - (end == 2 ? 1.7 / 0.57 : 0));
        derivative_holds(&m, u[i], h, slope[s], edge < 2 * h || 4 - edge < 2 * h);
      }
    }
}

/* At a fold theta's derivative is that of the upright side; ldj is smooth there. */
static void fold_derivatives_come_from_inside(void) {
  double dtheta, dldj;
  atvi_map box = made(ATVI_MAP_SURJECTION, 0, 1, 0, 0, 20),
           low = made(ATVI_MAP_SURJECTION, 0, HUGE_VAL, 0, 1.5, 20),
           high = made(ATVI_MAP_SURJECTION, -HUGE_VAL, 0, 0, 1.5, 20);
  for (int k = -2; k <= 2; k++)
    for (int side = -1; side <= 1; side += 2) {
      derivatives(&box, 8 * k + 2 * side, &dtheta, &dldj);
      CHECK(dtheta == 0.25);
      derivatives(&box, nextafter(8 * k + 2 * side, 1e9 * side), &dtheta, &dldj);
      CHECK(dtheta == -0.25);
    }
  derivatives(&box, 2, &dtheta, &dldj);
  CHECK_REL(dldj, -10, 1e-12); /* half of the slope: there the share is 1/2 */
  derivatives(&low, 0, &dtheta, &dldj);
  CHECK(dtheta == 1.5 && dldj == 10);
  derivatives(&low, -DBL_MIN, &dtheta, &dldj);
  CHECK(dtheta == -1.5 && dldj == 10);
  derivatives(&high, 0, &dtheta, &dldj);
  CHECK(dtheta == 1.5 && dldj == -10);
  derivatives(&high, DBL_MIN, &dtheta, &dldj);
  CHECK(dtheta == -1.5 && dldj == -10);
}

static void one_to_one_derivatives(void) {
  const atvi_map maps[] = {
      made(ATVI_MAP_NONE, -HUGE_VAL, HUGE_VAL, 3.1, 0.7, 20),
      made(ATVI_MAP_LOG, -0.4, HUGE_VAL, 0.3, 1.7, 20), made(ATVI_MAP_LOG, -HUGE_VAL, 1.3, 0.3, 1.7, 20),
      made(ATVI_MAP_LOGIT, -0.4, 1.3, 0.3, 1.7, 20), made(ATVI_MAP_PROBIT, -0.4, 1.3, 0.3, 1.7, 20)};
  const double far[] = {-1e6, -1000, -50, 50, 1000, 1e6};
  for (int k = 0; k < 5; k++) {
    for (double xi = -2.37; xi < 2.4; xi += 0.0931) derivative_holds(&maps[k], xi, 1e-4, 1, false);
    for (int i = 0; i < 6; i++) {
      double dtheta, dldj, ldj, theta = theta_at(&maps[k], far[i], &ldj);
      derivatives(&maps[k], far[i], &dtheta, &dldj);
      CHECK(isfinite(theta) && isfinite(ldj) && isfinite(dtheta) && isfinite(dldj));
      CHECK(theta > maps[k].lower && theta < maps[k].upper);
    }
  }
}

static void adds_to_what_is_there(void) {
  atvi_map m = made(ATVI_MAP_LOGIT, -0.4, 1.3, 0.3, 1.7, 20);
  double xi[3] = {-0.3, 0.9, 1.7}, theta[3], ldj[3] = {5.5, 5.5, 5.5}, zero[3] = {0},
         dxi[3] = {2.25, 2.25, 2.25};
  atvi_transform_map_fwd(&m, 3, xi, theta, ldj);
  atvi_transform_map_fwd(&m, 3, xi, theta, zero);
  for (int i = 0; i < 3; i++) CHECK_ABS(ldj[i], 5.5 + zero[i], 1e-14);
  atvi_transform_map_vjp(&m, 3, xi, (double[3]){0.3, 0.3, 0.3}, (double[3]){-1.2, -1.2, -1.2}, dxi);
  for (int i = 0; i < 3; i++) {
    double a, b;
    derivatives(&m, xi[i], &a, &b);
    CHECK_ABS(dxi[i], 2.25 + 0.3 * a - 1.2 * b, 1e-14);
  }
  atvi_transform_map_fwd(&m, 3, xi, xi, zero); /* in place */
  for (int i = 0; i < 3; i++) CHECK(xi[i] == theta[i]);
}

/* ---- back ---- */

static void inverse_undoes(void) {
  const atvi_map maps[] = {made(ATVI_MAP_NONE, -HUGE_VAL, HUGE_VAL, 0.4, 0.7, 20),
                           made(ATVI_MAP_LOG, 0, HUGE_VAL, 0.3, 1.7, 20),
                           made(ATVI_MAP_LOG, -HUGE_VAL, 0, 0.3, 1.7, 20),
                           made(ATVI_MAP_LOGIT, 0, 1.3, 0.3, 1.7, 20),
                           made(ATVI_MAP_PROBIT, 0, 1.3, 0.3, 1.7, 20),
                           made(ATVI_MAP_SURJECTION, 0, 1.3, 0, 0, 20),
                           made(ATVI_MAP_SURJECTION, 0, HUGE_VAL, -2, 1, 20),
                           made(ATVI_MAP_SURJECTION, -HUGE_VAL, 0, 2, 1, 20)};
  for (int k = 0; k < 8; k++)
    for (double xi = -1.97; xi < 2; xi += 0.0931) {
      double x = k == 6 ? xi + 4 : k == 7 ? xi - 4 : xi, ldj, back, theta = theta_at(&maps[k], x, &ldj);
      atvi_transform_map_inv(&maps[k], 1, &theta, &back);
      CHECK_ABS(back, x, 1e-13);
      theta = k == 0 ? NAN : k == 2 || k == 7 ? 1e-9 : -1e-9; /* outside */
      atvi_transform_map_inv(&maps[k], 1, &theta, &back);
      CHECK(isnan(back));
      CHECK_INT(atvi_transform_map_images(&maps[k], theta, 9, 1, &back), 0);
    }
  double end[2] = {0, 1.3}, back[2];
  atvi_transform_map_inv(&maps[3], 2, end, back);
  CHECK(back[0] == -HUGE_VAL && back[1] == HUGE_VAL);
  atvi_transform_map_inv(&maps[4], 2, end, back);
  CHECK(back[0] == -HUGE_VAL && back[1] == HUGE_VAL);
  atvi_transform_map_inv(&maps[5], 2, end, back);
  CHECK(back[0] == -2 && back[1] == 2);
}

static void images_come_nearest_first(void) {
  atvi_map box = made(ATVI_MAP_SURJECTION, -1, 1, 0, 0, 20);
  double xi[64];
  for (double theta = -1; theta <= 1; theta += 0.125) {
    int n = atvi_transform_map_images(&box, theta, 21, 64, xi);
    CHECK_INT(n, fabs(theta) < 0.5 ? 11 : 12);
    CHECK(xi[0] == 2 * theta);
    for (int k = 1; k < n; k++) {
      CHECK(fabs(xi[k]) >= fabs(xi[k - 1]) && fabs(xi[k]) <= 23);
      for (int l = 0; l < k; l++) CHECK(xi[k] != xi[l] || fabs(theta) == 1);
    }
    CHECK_INT(atvi_transform_map_images(&box, theta, 21, 4, xi), 4);
    CHECK_INT(atvi_transform_map_images(&box, theta, 21, 0, xi), 0);
  }
  CHECK_INT(atvi_transform_map_images(&box, 0.25, 0, 9, xi), 1);
  CHECK_INT(atvi_transform_map_images(&box, 1, 0, 9, xi), 2); /* on a fold two coincide */
  atvi_map low = made(ATVI_MAP_SURJECTION, 0.5, HUGE_VAL, 0.25, 2, 20);
  CHECK_INT(atvi_transform_map_images(&low, 3.5, 2, 9, xi), 2);
  CHECK(xi[0] == 1.625 && xi[1] == -1.375);
  CHECK_INT(atvi_transform_map_images(&low, 3.5, 1.4, 9, xi), 1);
  atvi_map high = made(ATVI_MAP_SURJECTION, -HUGE_VAL, 0.5, 0.25, 2, 20);
  CHECK_INT(atvi_transform_map_images(&high, -2.5, 2, 9, xi), 2);
  CHECK(xi[0] == -1.375 && xi[1] == 1.625);
  atvi_map logit = made(ATVI_MAP_LOGIT, 0, 1, 0, 1, 20);
  CHECK_INT(atvi_transform_map_images(&logit, 0.5, 100, 9, xi), 1);
  CHECK(xi[0] == 0);
}

/* Where numbers end and theta stays, a density that is constant there must not gain mass for ever. */
static void overflow_has_little_mass(void) {
  double ldj, at_end, dtheta, dldj;
  for (int upper = 0; upper < 2; upper++) {
    atvi_map m = made(ATVI_MAP_LOG, upper ? -HUGE_VAL : 0, upper ? 0 : HUGE_VAL, 3.7, 2.5, 20);
    double end = (700 - m.loc) / m.scale;
    CHECK(fabs(theta_at(&m, end, &at_end)) > 1e300);
    for (double beyond = 0.5; beyond < 1e4; beyond *= 3) {
      CHECK(fabs(theta_at(&m, end + beyond, &ldj)) > 1e300);
      CHECK_ABS(ldj, at_end - m.scale * beyond, 1e-9 * (700 + beyond));
      derivatives(&m, end + beyond, &dtheta, &dldj);
      CHECK_ABS(dtheta, 0, 0);
      CHECK_ABS(dldj, -m.scale, 1e-12);
    }
  }
}

/* Distances to a bound at 0 keep their relative accuracy down to the smallest numbers; elsewhere they never
 * become 0. */
static void bounds_are_approached_not_reached(void) {
  double ldj;
  atvi_map zero = made(ATVI_MAP_LOG, 0, HUGE_VAL, 0, 1, 20), one = made(ATVI_MAP_LOG, 1, HUGE_VAL, 0, 1, 20);
  atvi_map upper = made(ATVI_MAP_LOG, -HUGE_VAL, 1, 0, 1, 20), box = made(ATVI_MAP_LOGIT, 0, 1, 0, 1, 20);
  atvi_map fold = made(ATVI_MAP_SURJECTION, 0, 1, 0, 0, 20);
  for (double x = 0; x > -700; x -= 13.7) {
    CHECK_REL(theta_at(&zero, x, &ldj), exp(x), 1e-15);
    CHECK_ABS(ldj, x, 1e-12);
    CHECK(theta_at(&one, x, &ldj) > 1);
    CHECK(theta_at(&upper, x, &ldj) < 1);
    CHECK_REL(theta_at(&box, x - 40, &ldj), exp(x - 40), 1e-14);
  }
  CHECK(theta_at(&zero, -1e6, &ldj) > 0);
  CHECK(theta_at(&zero, 1e6, &ldj) > 1e300);
  for (double e = 1; e > 1e-15; e *= 0.37) {
    double in = (-2 + e) + 2, out = -2 - (-2 - e); /* what is left of e next to 2 */
    CHECK_REL(theta_at(&fold, -2 + e, &ldj), 0.25 * in, 1e-15);
    CHECK_REL(theta_at(&fold, -2 - e, &ldj), 0.25 * out, 1e-15);
  }
}

static void unsuited_bounds_are_refused(void) {
  const double inf = HUGE_VAL;
  const struct {
    int kind;
    double lower, upper;
  } bad[] = {{ATVI_MAP_NONE, 0, inf},       {ATVI_MAP_NONE, -inf, 1},
             {ATVI_MAP_NONE, 0, 1},         {ATVI_MAP_LOG, 0, 1},
             {ATVI_MAP_LOG, -inf, inf},     {ATVI_MAP_LOGIT, 0, inf},
             {ATVI_MAP_LOGIT, 1, 1},        {ATVI_MAP_LOGIT, 2, 1},
             {ATVI_MAP_PROBIT, -inf, 1},    {ATVI_MAP_PROBIT, NAN, 1},
             {ATVI_MAP_PROBIT, 0, NAN},     {ATVI_MAP_SURJECTION, -inf, inf},
             {ATVI_MAP_SURJECTION, 1, 0.5}, {ATVI_MAP_SURJECTION, inf, inf},
             {ATVI_MAP_LOG, -inf, -inf},    {ATVI_MAP_LOGIT, -1e308, 1e308},
             {ATVI_MAP_LOG, inf, -inf},     {99, 0, 1}};
  atvi_ctx *ctx = test_ctx();
  atvi_map m;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    CHECK_STATUS(atvi_transform_map_new(ctx, (atvi_map_kind)bad[i].kind, bad[i].lower, bad[i].upper, &m),
                 ATVI_EINVAL);
  CHECK(strstr(atvi_errmsg(ctx), "known kind"));
  CHECK_OK(atvi_transform_map_new(ctx, ATVI_MAP_SURJECTION, -1, 7, &m));
  CHECK(m.scale == 2 && m.loc == 0 && m.slope == 20);
  CHECK_OK(atvi_transform_map_new(ctx, ATVI_MAP_SURJECTION, -1, inf, &m));
  CHECK(m.scale == 1 && m.loc == 0);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void changed_maps_are_checked(void) {
  atvi_ctx *ctx = test_ctx();
  const atvi_map low = made(ATVI_MAP_SURJECTION, 0, HUGE_VAL, 1, 2, 20),
                 box = made(ATVI_MAP_SURJECTION, 0, 1, 0, 0, 20);
  atvi_map bad[] = {low, low, low, low, low, low, box, box, low};
  bad[0].scale = 0;
  bad[1].scale = NAN;
  bad[2].scale = HUGE_VAL;
  bad[3].loc = NAN;
  bad[4].slope = 0;
  bad[5].slope = 1e7;
  bad[6].loc = 0.5;
  bad[7].scale = 1;
  bad[8].lower = -HUGE_VAL;
  for (int i = 0; i < 9; i++) CHECK_STATUS(atvi_transform_map_check(ctx, &bad[i]), ATVI_EINVAL);
  CHECK_OK(atvi_transform_map_check(ctx, &low));
  CHECK_OK(atvi_transform_map_check(ctx, &box));
  CHECK_STR(atvi_transform_map_name(ATVI_MAP_NONE), "none");
  CHECK_STR(atvi_transform_map_name(ATVI_MAP_LOG), "log");
  CHECK_STR(atvi_transform_map_name(ATVI_MAP_LOGIT), "logit");
  CHECK_STR(atvi_transform_map_name(ATVI_MAP_PROBIT), "probit");
  CHECK_STR(atvi_transform_map_name(ATVI_MAP_SURJECTION), "surjection");
  CHECK_STR(atvi_transform_map_name((atvi_map_kind)99), "?");
  atvi_ctx_free(ctx);
}

TESTS({"two_ends", two_ends_keep_the_integral}, {"one_end", one_end_keeps_the_integral},
      {"one_to_one", one_to_one_maps_keep_the_integral}, {"shares", shares_sum_to_one},
      {"logistic", share_is_the_logistic_one_but_near_the_middle}, {"surjection", surjection_derivatives},
      {"fold", fold_derivatives_come_from_inside}, {"derivatives", one_to_one_derivatives},
      {"adds", adds_to_what_is_there}, {"inverse", inverse_undoes}, {"images", images_come_nearest_first},
      {"bounds", bounds_are_approached_not_reached}, {"overflow", overflow_has_little_mass},
      {"refused", unsuited_bounds_are_refused}, {"checked", changed_maps_are_checked},
      {"powers", powers_of_logit})
