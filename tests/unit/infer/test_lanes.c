/* SPDX-License-Identifier: MIT */
#include "infer/chains.h"
#include "math/rng.h"
#include "testing.h"

enum { D = 5, TRI = D * (D + 1) / 2 };

typedef struct {
  _Alignas(64) double S[TRI][ATVI_LANES], x[D][ATVI_LANES], lp[ATVI_LANES], ll[ATVI_LANES],
      u[D + 1][ATVI_LANES], log_u[ATVI_LANES], prop[D][ATVI_LANES], plp[ATVI_LANES], pll[ATVI_LANES],
      outside[ATVI_LANES], diag[D][ATVI_LANES], gain[D][ATVI_LANES], acc[ATVI_LANES];
  double lower[D], upper[D];
} room;

static atvi_lanes lanes_on(room *r) {
  memset(r, 0, sizeof *r);
  for (int l = 0; l < ATVI_LANES; l++)
    for (int i = 0, k = 0; i < D; i++)
      for (int j = 0; j <= i; j++, k++)
        r->S[k][l] = i == j ? 0.7 + 0.1 * i + 0.01 * l : 0.3 - 0.07 * k + 0.02 * l;
  for (int j = 0; j < D; j++) r->lower[j] = -HUGE_VAL, r->upper[j] = HUGE_VAL;
  return (atvi_lanes){.d = D,
                      .seed = 0x123456789abcdefu,
                      .chain = 40,
                      .lower = r->lower,
                      .upper = r->upper,
                      .S = r->S[0],
                      .x = r->x[0],
                      .log_prior = r->lp,
                      .log_lik = r->ll,
                      .u = r->u[0],
                      .log_u = r->log_u,
                      .prop = r->prop[0],
                      .prop_log_prior = r->plp,
                      .prop_log_lik = r->pll,
                      .outside = r->outside,
                      .diag = r->diag[0],
                      .gain = r->gain[0],
                      .accepted = r->acc};
}

static atvi_lanes_propose_fn *propose(void) { return ATVI_ISA_PICK(atvi_infer_lanes_propose); }
static atvi_lanes_update_fn *update(void) { return ATVI_ISA_PICK(atvi_infer_lanes_update); }

/* The words are those of math/rng: d = 5 uses words 0..5 for normals and 6, 7 to decide. */
static void numbers_come_from_philox(void) {
  room r;
  atvi_lanes g = lanes_on(&r);
  for (uint32_t it = 1; it < 2000; it++) {
    propose()(&g, it);
    for (int l = 0; l < ATVI_LANES; l++) {
      uint32_t key[2] = {(uint32_t)g.seed, (uint32_t)(g.seed >> 32)}, w[8];
      uint32_t c[4] = {0, 40 + (uint32_t)l, it, ATVI_STREAM_MCMC};
      atvi_math_rng_block(c, key, w);
      c[0] = 1;
      atvi_math_rng_block(c, key, w + 4);
      double unit = ((double)((uint64_t)w[6] << 20 | w[7] >> 12) + 0.5) * 0x1p-52;
      CHECK_ABS(r.log_u[l], log(unit), 4e-15 * fabs(log(unit)) + 1e-16);
      for (int p = 0; p < 3; p++) {
        double radius2 = -2 * log((w[2 * p] + 0.5) * 0x1p-32);
        double have = r.u[2 * p][l] * r.u[2 * p][l] + r.u[2 * p + 1][l] * r.u[2 * p + 1][l];
        CHECK_REL(have, radius2, 1e-13);
        double quarter = w[2 * p + 1] >> 30, off = ((w[2 * p + 1] & 0x3fffffffu) + 0.5) * 0x1p-30 - 0.5;
        double angle = (quarter + off) * acos(-1.0) / 2;
        CHECK_ABS(r.u[2 * p][l], sqrt(radius2) * cos(angle), 1e-13);
        CHECK_ABS(r.u[2 * p + 1][l], sqrt(radius2) * sin(angle), 1e-13);
      }
    }
  }
}

/* Moments of 5 x 8 x 20 000 normals, each within five of its standard errors. */
static void numbers_are_normal(void) {
  room r;
  atvi_lanes g = lanes_on(&r);
  double m[5] = {0}, cross = 0, n = 0;
  for (uint32_t it = 1; it <= 20000; it++) {
    propose()(&g, it);
    for (int j = 0; j < D; j++)
      for (int l = 0; l < ATVI_LANES; l++) {
        double z = r.u[j][l], p = 1;
        for (int k = 1; k <= 4; k++) m[k] += p *= z;
        cross += z * r.u[(j + 1) % D][l];
        n++;
      }
  }
  CHECK_ABS(m[1] / n, 0, 5 / sqrt(n));
  CHECK_ABS(m[2] / n, 1, 5 * sqrt(2 / n));
  CHECK_ABS(m[3] / n, 0, 5 * sqrt(15 / n));
  CHECK_ABS(m[4] / n, 3, 5 * sqrt(96 / n));
  CHECK_ABS(cross / n, 0, 5 / sqrt(n));
}

static void proposal_is_x_plus_su_and_box_is_seen(void) {
  room r;
  atvi_lanes g = lanes_on(&r);
  r.lower[1] = -0.3;
  r.upper[3] = 0.4;
  for (int j = 0; j < D; j++)
    for (int l = 0; l < ATVI_LANES; l++) r.x[j][l] = 0.1 * j - 0.05 * l;
  int outside = 0;
  for (uint32_t it = 1; it < 50; it++) {
    propose()(&g, it);
    for (int l = 0; l < ATVI_LANES; l++) {
      for (int i = 0; i < D; i++) {
        double y = r.x[i][l];
        for (int j = 0; j <= i; j++) y += r.S[i * (i + 1) / 2 + j][l] * r.u[j][l];
        CHECK_ABS(r.prop[i][l], y, 1e-14);
      }
      bool out = r.prop[1][l] < -0.3 || r.prop[3][l] > 0.4;
      CHECK((r.outside[l] == 1) == out && (r.outside[l] == 0) == !out);
      outside += out;
    }
  }
  CHECK(outside > 0 && outside < 49 * ATVI_LANES);
}

/* S' S'^T against the formula, and the decision against log u. */
static void update_decides_and_adapts(void) {
  const double beta = 0.37, eta = 0.81;
  for (uint32_t it = 1; it < 40; it++) {
    room r;
    atvi_lanes g = lanes_on(&r);
    for (int l = 0; l < ATVI_LANES; l++) {
      r.lp[l] = -1.2;
      r.ll[l] = -3.1;
      r.plp[l] = l == 3 ? -HUGE_VAL : -1.2 - 0.1 * l;
      r.pll[l] = l == 3 ? -HUGE_VAL : l == 4 ? -1e6 : -4.0 + 0.5 * l;
    }
    propose()(&g, it);
    room old = r;
    update()(&g, beta, eta);
    for (int l = 0; l < ATVI_LANES; l++) {
      double delta = old.plp[l] + beta * old.pll[l] - (-1.2 - beta * 3.1), alpha = fmin(1, exp(delta)),
             norm = 0;
      bool yes = delta > old.log_u[l];
      CHECK_INT(r.acc[l], yes);
      CHECK(r.ll[l] == (yes ? old.pll[l] : -3.1) && r.lp[l] == (yes ? old.plp[l] : -1.2));
      double su[D] = {0};
      for (int i = 0; i < D; i++) {
        CHECK(r.x[i][l] == (yes ? old.prop[i][l] : old.x[i][l]));
        norm += old.u[i][l] * old.u[i][l];
        for (int j = 0; j <= i; j++) su[i] += old.S[i * (i + 1) / 2 + j][l] * old.u[j][l];
      }
      for (int i = 0; i < D; i++)
        for (int k = 0; k <= i; k++) {
          double was = 0, is = 0;
          for (int j = 0; j <= k; j++) {
            was += old.S[i * (i + 1) / 2 + j][l] * old.S[k * (k + 1) / 2 + j][l];
            is += r.S[i * (i + 1) / 2 + j][l] * r.S[k * (k + 1) / 2 + j][l];
          }
          CHECK_ABS(is, was + eta * (alpha - 0.234) * su[i] * su[k] / norm, 1e-13);
        }
    }
  }
}

/* Every instruction set gives the same numbers up to the contraction of products. */
static void instruction_sets_agree(void) {
  room a, b;
  atvi_lanes ga = lanes_on(&a), gb = lanes_on(&b);
  for (uint32_t it = 1; it < 300; it++) {
    propose()(&ga, it);
    atvi_infer_lanes_propose_base(&gb, it);
    for (int l = 0; l < ATVI_LANES; l++) a.pll[l] = b.pll[l] = -0.4;
    update()(&ga, 1, 0.3);
    atvi_infer_lanes_update_base(&gb, 1, 0.3);
    for (int l = 0; l < ATVI_LANES; l++)
      for (int j = 0; j < D; j++) CHECK_ABS(a.x[j][l], b.x[j][l], 1e-9 * (1 + fabs(b.x[j][l])));
  }
}

/* 200 000 rejections or acceptances in a row leave a proper factor. */
static void factor_stays_positive(void) {
  for (int all = 0; all < 2; all++) {
    room r;
    atvi_lanes g = lanes_on(&r);
    for (uint32_t n = 1; n <= 200000; n++) {
      propose()(&g, n);
      for (int l = 0; l < ATVI_LANES; l++) r.pll[l] = all ? r.ll[l] : -HUGE_VAL;
      update()(&g, 1, fmin(1, D * pow(n, -2.0 / 3)));
    }
    for (int i = 0; i < D; i++)
      for (int l = 0; l < ATVI_LANES; l++)
        CHECK(r.S[i * (i + 3) / 2][l] > 0 && isfinite(r.S[i * (i + 3) / 2][l]));
  }
}

TESTS({"philox", numbers_come_from_philox}, {"normal", numbers_are_normal},
      {"propose", proposal_is_x_plus_su_and_box_is_seen}, {"update", update_decides_and_adapts},
      {"isa", instruction_sets_agree}, {"positive", factor_stays_positive})
