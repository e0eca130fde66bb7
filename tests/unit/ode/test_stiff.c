/* SPDX-License-Identifier: MIT */
/* The implicit method on the classical stiff problems, and its linear algebra. */
#include "ode/work.h"
#include "problems.h"

static atvi_ode robertson_problem(const atvi_ode_stop *stop, int n_stop) {
  return (atvi_ode){.method = ATVI_ODE_STIFF,
                    .n = 3,
                    .n_par = 3,
                    .rhs = PROG(robertson),
                    .vjp = PROG(robertson_vjp),
                    .jac = PROG(robertson_jac),
                    .n_stop = n_stop,
                    .stop = stop,
                    .n_output = n_stop - 1,
                    .control.tol_rel = 1e-6,
                    .control.tol_abs = 1e-6,
                    .control.max_steps = 20000};
}

static void robertson_start(run *r) {
  fill_lanes(r->y0, 3, (double[]){1, 0, 0});
  fill_lanes(r->par, 3, (double[]){0.04, 1e4, 3e7});
}

/* y(40) from the documentation of LSODE; y(1e11) from the test set for IVP solvers of Bari, problem ROBER. */
static void robertson_is_right(void) {
  static const atvi_ode_stop stop[3] = {{0, -1, -1, no_tab}, {40, 0, -1, no_tab}, {1e11, 1, -1, no_tab}};
  static const double want[6] = {0.7158270688,          9.185534765e-6,         0.2841637458,
                                 0.2083340149701255e-7, 0.8333360770334713e-13, 0.9999999791665050};
  for (int k = 0; k < 2; k++) {
    atvi_ode ode = robertson_problem(stop, 3);
    ode.control.tol_rel = k ? 1e-9 : 1e-5;
    ode.control.tol_abs = k ? 1e-18 : 1e-14; /* states that die out are to be followed */
    run r;
    run_open(&r, &ode);
    robertson_start(&r);
    run_solve(&r, &ode, false);
    atvi_ode_count count[L];
    atvi_ode_counts(r.w, count);
    for (int i = 0; i < 6; i++) CHECK_REL(r.yout[i * L + 3], want[i], k ? (i < 3 ? 2e-9 : 1e-7) : 1e-3);
    CHECK_INT(r.outcome[3], ATVI_RUN_OK);
    if (!k) CHECK(count[3].accepted + count[3].rejected < 200); /* eleven decades of time */
    run_close(&r);
  }
}

static atvi_ode vanderpol_problem(const atvi_ode_stop *stop, int n_stop) {
  return (atvi_ode){.method = ATVI_ODE_STIFF,
                    .n = 2,
                    .n_par = 1,
                    .rhs = PROG(vanderpol),
                    .vjp = PROG(vanderpol_vjp),
                    .jac = PROG(vanderpol_jac),
                    .n_stop = n_stop,
                    .stop = stop,
                    .n_output = n_stop - 1,
                    .control.tol_rel = 1e-6,
                    .control.tol_abs = 1e-6,
                    .control.max_steps = 20000};
}

/* Reference: test set of Bari, problem VDPOL, in unscaled time. */
static void vanderpol_is_right(void) {
  static const atvi_ode_stop stop[2] = {{0, -1, -1, no_tab}, {2000, 0, -1, no_tab}};
  for (int k = 0; k < 2; k++) {
    atvi_ode ode = vanderpol_problem(stop, 2);
    ode.control.tol_rel = ode.control.tol_abs = k ? 1e-10 : 1e-6;
    run r;
    run_open(&r, &ode);
    fill_lanes(r.y0, 2, (double[]){2, 0});
    fill_lanes(r.par, 1, (double[]){1000});
    run_solve(&r, &ode, false);
    CHECK_INT(r.outcome[2], ATVI_RUN_OK);
    CHECK_REL(run_at(&r, &ode, 0, 0, 2), 1.706167732170483, k ? 1e-7 : 5e-5);
    CHECK_REL(run_at(&r, &ode, 0, 1, 2), -0.8928097010247975e-3, k ? 2e-7 : 1e-4);
    run_close(&r);
  }
}

static double dot_in(const double *const *in, int slot, int i) { return in[slot] ? in[slot][i] : 0; }

PROGRAM(robertson_tangent) {
  robertson(self, scratch, in, out);
  EACH(l) {
    const double *y = in[1] + l, *p = in[2] + l;
    double d[3], dp[3];
    for (int i = 0; i < 3; i++) d[i] = dot_in(in, 5, i * L + l), dp[i] = dot_in(in, 6, i * L + l);
    double a = dp[0] * y[0] + p[0] * d[0], c = dp[2] * y[L] * y[L] + 2 * p[2 * L] * y[L] * d[1];
    double b = dp[1] * y[L] * y[2 * L] + p[L] * (d[1] * y[2 * L] + y[L] * d[2]);
    out[1][l] = -a + b;
    out[1][L + l] = a - b - c;
    out[1][2 * L + l] = c;
  }
}
PROGRAM(vanderpol_tangent) {
  vanderpol(self, scratch, in, out);
  EACH(l) {
    double x = in[1][l], v = in[1][L + l], dx = dot_in(in, 5, l), dv = dot_in(in, 5, L + l), mu = in[2][l];
    out[1][l] = dv;
    out[1][L + l] = dot_in(in, 6, l) * (1 - x * x) * v - 2 * mu * x * dx * v + mu * (1 - x * x) * dv - dx;
  }
}

/* Adjoints by the parameters against tangents, a parameter in each lane. */
static void check_stiff_gradient(const atvi_ode *ode, run *r, double tol) {
  static _Alignas(ATVI_ALIGN) double y0dot[3 * L], pardot[3 * L], youtdot[64 * 3 * L];
  run_solve(r, ode, true);
  CHECK_INT(r->outcome[0], ATVI_RUN_OK);
  memset(y0dot, 0, sizeof y0dot);
  for (int p = 0; p < ode->n_par; p++) EACH(l) pardot[p * L + l] = p == l;
  atvi_ode_tangent(ode, r->w, r->par, y0dot, pardot, youtdot);
  for (int i = 0; i < ode->n; i++) {
    const atvi_idx last = ((ode->n_output - 1) * ode->n + i) * L;
    memset(r->ybar, 0, sizeof r->ybar);
    memset(r->parbar, 0, sizeof r->parbar);
    EACH(l) r->ybar[last + l] = 1;
    atvi_ode_adjoint(ode, r->w, r->par, r->ybar, r->y0bar, r->parbar);
    for (int p = 0; p < ode->n_par; p++) CHECK_REL(r->parbar[p * L + p], youtdot[last + p], tol);
  }
}

static void robertson_gradient(void) {
  static const atvi_ode_stop stop[3] = {{0, -1, -1, no_tab}, {40, 0, -1, no_tab}, {1e5, 1, -1, no_tab}};
  atvi_ode ode = robertson_problem(stop, 3);
  ode.tangents = &(atvi_ode_tangents){.rhs = PROG(robertson_tangent)};
  run r;
  run_open(&r, &ode);
  robertson_start(&r);
  check_stiff_gradient(&ode, &r, 1e-9);
  run_close(&r);
}

/* Up to just before the first jump of the relaxation oscillation, where sensitivities are moderate. */
static void vanderpol_gradient(void) {
  static const atvi_ode_stop stop[3] = {{0, -1, -1, no_tab}, {300, 0, -1, no_tab}, {700, 1, -1, no_tab}};
  atvi_ode ode = vanderpol_problem(stop, 3);
  ode.tangents = &(atvi_ode_tangents){.rhs = PROG(vanderpol_tangent)};
  run r;
  run_open(&r, &ode);
  fill_lanes(r.y0, 2, (double[]){2, 0});
  fill_lanes(r.par, 1, (double[]){1000});
  check_stiff_gradient(&ode, &r, 1e-9);
  run_close(&r);
}

/* Prothero & Robinson: however stiff, the steps are those of the smooth solution. */
static void stiffness_does_not_cost_steps(void) {
  static const atvi_ode_stop stop[2] = {{0, -1, -1, no_tab}, {10, 0, -1, no_tab}};
  atvi_ode ode = {.method = ATVI_ODE_STIFF,
                  .n = 1,
                  .n_par = 1,
                  .rhs = PROG(prothero),
                  .jac = PROG(prothero_jac),
                  .n_stop = 2,
                  .stop = stop,
                  .n_output = 1,
                  .control.tol_rel = 1e-6,
                  .control.tol_abs = 1e-6,
                  .control.max_steps = 10000};
  run r;
  run_open(&r, &ode);
  EACH(l) {
    r.y0[l] = 1;
    r.par[l] = -pow(10, l);
  }
  run_solve(&r, &ode, false);
  atvi_ode_count count[L];
  atvi_ode_counts(r.w, count);
  EACH(l) {
    CHECK_INT(r.outcome[l], ATVI_RUN_OK);
    CHECK_ABS(run_at(&r, &ode, 0, 0, l), cos(10), 1e-5);
    CHECK(count[l].accepted + count[l].rejected < 250);
  }
  run_close(&r);
}

/* The error falls with the tolerance on a problem that is not stiff. */
static void error_follows_tolerance(void) {
  static const atvi_ode_stop stop[2] = {{0, -1, -1, no_tab}, {10, 0, -1, no_tab}};
  double last = 0;
  for (int k = 4; k <= 10; k += 2) {
    atvi_ode ode = {.method = ATVI_ODE_STIFF,
                    .n = 1,
                    .n_par = 1,
                    .rhs = PROG(prothero),
                    .jac = PROG(prothero_jac),
                    .n_stop = 2,
                    .stop = stop,
                    .n_output = 1,
                    .control.tol_rel = pow(10, -k),
                    .control.tol_abs = pow(10, -k),
                    .control.max_steps = 10000};
    run r;
    run_open(&r, &ode);
    fill_lanes(r.y0, 1, (double[]){1});
    fill_lanes(r.par, 1, (double[]){-0.7});
    run_solve(&r, &ode, false);
    double error = fabs(run_at(&r, &ode, 0, 0, 1) - cos(10));
    CHECK(error < 30 * ode.control.tol_rel);
    if (last > 0) CHECK(error < last / 10);
    last = error;
    run_close(&r);
  }
}

enum { N = 7 };

static double residual(const double *a, const double *x, const double *b, bool transposed) {
  double most = 0;
  for (int i = 0; i < N; i++) EACH(l) {
      double sum = 0, size = 1;
      for (int j = 0; j < N; j++) {
        double v = a[(transposed ? j * N + i : i * N + j) * L + l] * x[j * L + l];
        sum += v;
        size += fabs(v);
      }
      most = fmax(most, fabs(sum - b[i * L + l]) / size);
    }
  return most;
}

/* Matrices whose lanes need different exchanges of rows, with all entries, two blocks that are mixed up, a
 * band, or an arrow; residuals to rounding. */
static void linear_systems(void) {
  static _Alignas(ATVI_ALIGN) double a[N * N * L], lu[N * N * L], b[N * L], x[N * L];
  static int32_t piv[N * L];
  void (*factor)(const atvi_ode_shape *, atvi_idx, double *, int32_t *) = ATVI_ISA_PICK(atvi_ode_lu);
  void (*solve)(const atvi_ode_shape *, atvi_idx, const double *, const int32_t *, double *) =
      ATVI_ISA_PICK(atvi_ode_lu_solve);
  void (*solve_t)(const atvi_ode_shape *, atvi_idx, const double *, const int32_t *, double *) =
      ATVI_ISA_PICK(atvi_ode_lu_solve_t);
  const double dense = 2.0 * N * N * N / 3;
  for (int kind = 0; kind < 4; kind++) {
    atvi_ctx *ctx;
    atvi_pool *pool;
    int32_t entry[N * N];
    int n = 0;
    CHECK_OK(atvi_ctx_new(&test_allocator, &ctx));
    CHECK_OK(atvi_pool_new(ctx, &pool));
    for (int i = 0; i < N * N; i++) {
      int row = i / N, col = i % N;
      const bool there[] = {true, (row + col) % 2 == 0, abs(row - col) <= 1,
                            row == col || row == 3 || col == 3};
      EACH(l) a[i * L + l] = there[kind] ? sin(1.3 * i * i + 2.7 * l * i + l) : 0;
      if (there[kind]) entry[n++] = i;
    }
    if (kind < 3) EACH(l) a[(l % N) * (N + 1) * L + l] = 0; /* a zero on the diagonal */
    const atvi_ode_shape *s = atvi_ode_shape_new(pool, N, n, entry);
    CHECK(s != NULL);
    CHECK((kind == 0) == (s->factor > 0.6 * dense));
    for (int i = 0; i < N * N * L; i++) lu[i] = NAN; /* what is outside is not read */
    for (int i = 0, first = 0; i < N; i++) {
      while (s->low[first] < i) first++;
      for (int j = first; j <= s->right[i]; j++)
        memcpy(lu + (i * N + j) * L, a + (s->order[i] * N + s->order[j]) * L, L * sizeof *a);
    }
    for (int e = 0; e < n; e++) CHECK_ABS(lu[s->at[e] * L + 3], a[entry[e] * L + 3], 0);
    for (int i = 0; i < N; i++) EACH(l) b[i * L + l] = cos(i + 0.3 * l);
    factor(s, N, lu, piv);
    for (int transposed = 0; transposed < 2; transposed++) {
      memcpy(x, b, sizeof b);
      (transposed ? solve_t : solve)(s, N, lu, piv, x);
      CHECK(residual(a, x, b, transposed) < 1e-14);
    }
    atvi_pool_free(pool);
    atvi_ctx_free(ctx);
  }
}

TESTS({"robertson", robertson_is_right}, {"vanderpol", vanderpol_is_right},
      {"robertson_grad", robertson_gradient}, {"vanderpol_grad", vanderpol_gradient},
      {"prothero", stiffness_does_not_cost_steps}, {"tolerance", error_follows_tolerance},
      {"linear", linear_systems})
