/* SPDX-License-Identifier: MIT */
/* Order conditions of the Runge-Kutta methods: every rooted tree up to order 5. */
#include "ode/work.h"
#include "testing.h"

enum { MAX = ATVI_ODE_STAGES };

typedef struct {
  int s;
  double c[MAX], a[MAX][MAX];
} method;

static void apply(const method *m, const double *x, double *to) {
  double sum[MAX] = {0};
  for (int i = 0; i < m->s; i++)
    for (int j = 0; j < m->s; j++) sum[i] += m->a[i][j] * x[j];
  memcpy(to, sum, sizeof sum);
}

/* Largest violation of the conditions of the given order by the weights b. */
static double violation(const method *m, const double *b, int order) {
  double c[MAX] = {0}, c2[MAX] = {0}, c3[MAX] = {0}, c4[MAX] = {0}, ac[MAX], ac2[MAX], ac3[MAX], aac[MAX],
         aac2[MAX], aaac[MAX], acac[MAX];
  double one[MAX] = {0}, x[MAX] = {0}, worst = 0;
  for (int i = 0; i < m->s; i++) {
    one[i] = 1;
    c[i] = m->c[i];
    c2[i] = c[i] * c[i];
    c3[i] = c2[i] * c[i];
    c4[i] = c2[i] * c2[i];
  }
  apply(m, c, ac);
  apply(m, c2, ac2);
  apply(m, c3, ac3);
  apply(m, ac, aac);
  apply(m, ac2, aac2);
  apply(m, aac, aaac);
  for (int i = 0; i < m->s; i++) x[i] = c[i] * ac[i];
  apply(m, x, acac);
  const struct {
    int order;
    const double *u, *v;
    double density;
  } tree[] = {{1, one, one, 1},   {2, c, one, 2},     {3, c2, one, 3},   {3, ac, one, 6}, {4, c3, one, 4},
              {4, c, ac, 8},      {4, ac2, one, 12},  {4, aac, one, 24}, {5, c4, one, 5}, {5, c2, ac, 10},
              {5, ac, ac, 20},    {5, c, ac2, 15},    {5, ac3, one, 20}, {5, c, aac, 30}, {5, acac, one, 40},
              {5, aac2, one, 60}, {5, aaac, one, 120}};
  for (size_t k = 0; k < sizeof tree / sizeof tree[0]; k++) {
    if (tree[k].order != order) continue;
    double sum = 0;
    for (int i = 0; i < m->s; i++) sum += b[i] * tree[k].u[i] * tree[k].v[i];
    worst = fmax(worst, fabs(sum - 1 / tree[k].density));
  }
  return worst;
}

static method load(const atvi_ode_tableau *tb, int rows) {
  method m = {.s = rows};
  for (int i = 0; i < rows; i++) {
    double sum = 0;
    m.c[i] = tb->c[i];
    for (int j = 0; j < rows; j++) sum += m.a[i][j] = tb->a[i][j];
    CHECK_ABS(sum, m.c[i], 1e-14);
  }
  return m;
}

/* Coefficients as large as 13 are given to 16 digits: sums are right to a few 1e-15 times that. */
static const double ROUNDING = 2e-14;

static void tsit5_has_orders_five_and_four(void) {
  method m = load(&atvi_ode_tsit5, 7);
  double hat[MAX];
  for (int i = 0; i < 7; i++) hat[i] = m.a[6][i] - atvi_ode_tsit5.e[i];
  for (int k = 1; k <= 5; k++) CHECK_ABS(violation(&m, m.a[6], k), 0, ROUNDING);
  for (int k = 1; k <= 4; k++) CHECK_ABS(violation(&m, hat, k), 0, ROUNDING);
  CHECK(violation(&m, hat, 5) > 1e-5);
}

/* Inside a step: order `order` at every share q of it, in units of q^order. `rows`: stages, with the slope at
 * the end. */
static void dense(atvi_ode_method kind, const atvi_ode_tableau *tb, int rows, int order) {
  method m = load(tb, rows);
  double b[7];
  for (double q = 0.125; q <= 1; q += 0.125) {
    method part = m;
    for (int i = 0; i < rows; i++) {
      part.c[i] = m.c[i] / q;
      for (int j = 0; j < rows; j++) part.a[i][j] = m.a[i][j] / q;
    }
    atvi_ode_dense_weights(kind, q, b, NULL);
    if (rows == 5) b[4] = b[6]; /* where RK4 has the slope at the end */
    for (int i = 0; i < rows; i++) b[i] /= q;
    for (int k = 1; k <= order; k++) CHECK_ABS(violation(&part, b, k), 0, 100 * ROUNDING / pow(q, k));
  }
  for (int i = 0; i < rows; i++) CHECK_ABS(b[i] * 1, m.a[rows - 1][i], 100 * ROUNDING);
}

static void steps_are_dense(void) {
  dense(ATVI_ODE_RK45, &atvi_ode_tsit5, 7, 4);
  dense(ATVI_ODE_STIFF, &atvi_ode_esdirk4, 6, 3);
  dense(ATVI_ODE_RK4, &atvi_ode_rk4, 5, 3);
}

static void rk4_has_order_four(void) {
  method m = load(&atvi_ode_rk4, 5);
  for (int k = 1; k <= 4; k++) CHECK_ABS(violation(&m, m.a[4], k), 0, 3e-16);
  CHECK(violation(&m, m.a[4], 5) > 1e-3);
}

static void esdirk4_has_orders_four_and_three(void) {
  method m = load(&atvi_ode_esdirk4, 6);
  double hat[MAX];
  for (int i = 0; i < 6; i++) hat[i] = m.a[5][i] - atvi_ode_esdirk4.e[i];
  for (int i = 1; i < 6; i++) CHECK(m.a[i][i] == 0.25);
  for (int k = 1; k <= 4; k++) CHECK_ABS(violation(&m, m.a[5], k), 0, ROUNDING);
  for (int k = 1; k <= 3; k++) CHECK_ABS(violation(&m, hat, k), 0, ROUNDING);
  CHECK(violation(&m, hat, 4) > 1e-5);
}

TESTS({"tsit5", tsit5_has_orders_five_and_four}, {"dense", steps_are_dense}, {"rk4", rk4_has_order_four},
      {"esdirk4", esdirk4_has_orders_four_and_three})
