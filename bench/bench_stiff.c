/* SPDX-License-Identifier: MIT */
/* The implicit method against CVODES on stiff problems: error, time of a solution, time and error of a
 * gradient.
 *
 * Points     eight, parameters within 4 % of the problem's own. Ours solves them as one group; CVODES one after the other,
 *            its memory reused, exact Jacobians in plain C, dense linear solver. Times are CPU times per point, minima of
 *            several trials. "same": all eight lanes hold the same point, so that no lane waits for another.
 * Tolerance  relative tol and absolute tol / 100 of each state's size: what models get by default. The size is the largest
 *            so far for ours, the largest of the whole solution for CVODES, which has to be told beforehand.
 * Gradient   of the sum of squares of all outputs, each state in units of its largest output, with respect to the
 *            logarithms of the parameters. Ours: discrete adjoint. CVODES: forward sensitivities, staggered, under error
 *            control ("full") or without ("part").
 * Errors     of outputs: largest relative error over points, times and states, outputs below SMALL of the state's largest
 *            counting as that. Of gradients: largest over points and parameters, relative to the point's largest entry.
 *            Against CVODES at 1e-12, which ours at REF_TOL must meet.
 * Ratio      time of CVODES to that of ours at the tolerance where ours errs no more than this row does. */
#include "core/core.h"
#include "ode/ode.h"
#include "stiff_problems.h"
#include <cvodes/cvodes.h>
#include <nvector/nvector_serial.h>
#include <stdio.h>
#include <stdlib.h>
#include <sundials/sundials_version.h>
#include <sunlinsol/sunlinsol_dense.h>
#include <sunmatrix/sunmatrix_dense.h>
#include <time.h>

enum { L = ATVI_LANES, TRIALS = 7 };
enum { EVERY_TIME = 40 };            /* larger problems are run only where named on the command line */
enum { TIME, STATE, PAR, TAB, LAM }; /* kinds of inputs */
static const double REF_TOL = 1e-11, REF_TOL_PEER = 1e-12, ABS_PER_REL = 1e-2, SPREAD = 0.08, TRIAL_S = 0.01,
                    SMALL = 1e-3;
/* How far the two references may be apart; errors below it mean nothing. */
static const double REF_AGREE = 2e-5;

typedef struct {
  double y[L][MOST_OUT][MOST_STATES], grad[L][MOST_PAR];
} answer;

typedef struct {
  problem p;
  double point[L][MOST_PAR];
  double size[MOST_STATES];    /* largest along the solution */
  double unit[L][MOST_STATES]; /* largest output */
  answer ref, got;
} job;

static double cpu_s(void) {
  struct timespec ts;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
  return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static void stop_if(bool bad, const char *what) {
  if (!bad) return;
  fprintf(stderr, "bench_stiff: %s\n", what);
  exit(1);
}

/* ---- ours ---- */
typedef struct {
  atvi_ctx *ctx;
  atvi_graph *graph;
  atvi_module *module;
  atvi_ode_stop stop[MOST_OUT + 1];
  atvi_ode ode;
  atvi_ode_work *w;
  _Alignas(ATVI_ALIGN) double y0[MOST_STATES][L], par[MOST_PAR][L];
  _Alignas(ATVI_ALIGN) double yout[MOST_OUT * MOST_STATES][L], ybar[MOST_OUT * MOST_STATES][L];
  _Alignas(ATVI_ALIGN) double y0bar[MOST_STATES][L], parbar[MOST_PAR][L];
} ours;

static void ours_programs(ours *o, const problem *p) {
  atvi_graph *g = o->graph;
  const int n = p->n, m = p->n_par;
  static atvi_node jac[MOST_STATES * MOST_STATES];
  atvi_node y[MOST_STATES], lam[MOST_STATES], f[MOST_STATES], wrt[MOST_STATES + MOST_PAR],
      grad[MOST_STATES + MOST_PAR];
  for (int i = 0; i < n; i++) {
    wrt[i] = y[i] = atvi_graph_input(g, STATE, i);
    lam[i] = atvi_graph_input(g, LAM, i);
  }
  for (int i = 0; i < m; i++) wrt[n + i] = atvi_graph_input(g, PAR, i);
  p->graph(g, n, y, wrt + n, f);
  atvi_graph_vjp(g, n, f, lam, n + m, wrt, grad);
  atvi_node one = NUM(1);
  for (int i = 0; i < n; i++) atvi_graph_vjp(g, 1, f + i, &one, n, y, jac + i * n);
  atvi_prog_spec spec[3] = {{.name = "rhs", .n_in = 4, .n_out = 1, .out = {{n, f, 0}}},
                            {.name = "jac", .n_in = 4, .n_out = 1, .out = {{n * n, jac, 0}}},
                            {.name = "vjp", .n_in = 5, .n_out = 2, .out = {{n, grad, 0}, {m, grad + n, 1}}}};
  const atvi_prog_in in[5] = {{TIME, 1, 0}, {STATE, n, 0}, {PAR, m, 0}, {TAB, 0, 0}, {LAM, n, 0}};
  for (int i = 0; i < 3; i++) memcpy(spec[i].in, in, sizeof in);
  atvi_module_info info;
  stop_if(atvi_graph_module_new(o->ctx, g, 3, spec, &(atvi_module_opts){.compile = true}, &o->module,
                                &info) != ATVI_OK,
          atvi_errmsg(o->ctx));
  stop_if(!info.compiled, info.reason);
  o->ode.rhs = atvi_graph_module_get(o->module, 0);
  o->ode.jac = atvi_graph_module_get(o->module, 1);
  o->ode.vjp = atvi_graph_module_get(o->module, 2);
}

static void ours_open(ours *o, const problem *p) {
  memset(o, 0, sizeof *o);
  stop_if(atvi_ctx_new(NULL, &o->ctx) || atvi_graph_new(o->ctx, &o->graph), "no memory");
  o->ode = (atvi_ode){.method = ATVI_ODE_STIFF,
                      .n = p->n,
                      .n_par = p->n_par,
                      .n_stop = p->n_out + 1,
                      .stop = o->stop,
                      .n_output = p->n_out,
                      .max_steps = 10000000};
  for (int s = 0; s <= p->n_out; s++) o->stop[s] = (atvi_ode_stop){s ? p->t_out[s - 1] : 0, s - 1, -1, NULL};
  ours_programs(o, p);
}

static void ours_tol(ours *o, double tol) {
  atvi_ode_work_free(o->w);
  o->ode.tol_rel = tol;
  o->ode.tol_abs = ABS_PER_REL * tol;
  stop_if(atvi_ode_work_new(o->ctx, &o->ode, &o->w) != ATVI_OK, atvi_errmsg(o->ctx));
}

static void ours_close(ours *o) {
  atvi_ode_work_free(o->w);
  atvi_graph_module_free(o->module);
  atvi_graph_free(o->graph);
  atvi_ctx_free(o->ctx);
}

static void ours_points(ours *o, const job *j, bool same) {
  for (int l = 0; l < L; l++) {
    for (int i = 0; i < j->p.n; i++) o->y0[i][l] = j->p.y0[i];
    for (int i = 0; i < j->p.n_par; i++) o->par[i][l] = j->point[same ? 0 : l][i];
  }
}

static void ours_run(ours *o, const job *j, bool gradient) {
  const int n = j->p.n;
  atvi_outcome outcome[L];
  atvi_ode_solve(&o->ode, o->w, &o->y0[0][0], &o->par[0][0], &o->yout[0][0], gradient, outcome);
  for (int l = 0; l < L; l++) stop_if(outcome[l] != ATVI_RUN_OK, "a lane failed");
  if (!gradient) return;
  for (int i = 0; i < n * j->p.n_out; i++)
    for (int l = 0; l < L; l++) o->ybar[i][l] = 2 * o->yout[i][l] / (j->unit[l][i % n] * j->unit[l][i % n]);
  memset(o->parbar, 0, sizeof o->parbar);
  atvi_ode_adjoint(&o->ode, o->w, &o->par[0][0], &o->ybar[0][0], &o->y0bar[0][0], &o->parbar[0][0]);
}

static void ours_answer(const ours *o, const job *j, answer *a) {
  for (int l = 0; l < L; l++) {
    for (int i = 0; i < j->p.n * j->p.n_out; i++) a->y[l][i / j->p.n][i % j->p.n] = o->yout[i][l];
    for (int i = 0; i < j->p.n_par; i++) a->grad[l][i] = o->parbar[i][l] * o->par[i][l];
  }
}

/* ---- CVODES ---- */
typedef struct {
  const problem *p;
  double par[MOST_PAR];
  double J[MOST_STATES * MOST_STATES], D[MOST_PAR * MOST_STATES];
  SUNContext ctx;
  void *mem;
  N_Vector y, atol, *sens;
  SUNMatrix A;
  SUNLinearSolver solver;
} peer;

static int peer_rhs(sunrealtype t, N_Vector y, N_Vector f, void *data) {
  const peer *c = data;
  (void)t;
  c->p->rhs(c->p->n, N_VGetArrayPointer(y), c->par, N_VGetArrayPointer(f));
  return 0;
}

static int peer_jac(sunrealtype t, N_Vector y, N_Vector f, SUNMatrix A, void *data, N_Vector a, N_Vector b,
                    N_Vector d) {
  peer *c = data;
  const int n = c->p->n;
  (void)t, (void)f, (void)a, (void)b, (void)d;
  memset(c->J, 0, (size_t)(n * n) * sizeof *c->J);
  c->p->jac(n, N_VGetArrayPointer(y), c->par, c->J);
  for (int k = 0; k < n; k++) {
    double *column = SUNDenseMatrix_Column(A, k);
    for (int i = 0; i < n; i++) column[i] = c->J[i * n + k];
  }
  return 0;
}

static int peer_sens(int m, sunrealtype t, N_Vector y, N_Vector f, N_Vector *s, N_Vector *sdot, void *data,
                     N_Vector a, N_Vector b) {
  peer *c = data;
  const int n = c->p->n;
  (void)t, (void)f, (void)a, (void)b;
  memset(c->J, 0, (size_t)(n * n) * sizeof *c->J);
  memset(c->D, 0, (size_t)(n * m) * sizeof *c->D);
  c->p->jac(n, N_VGetArrayPointer(y), c->par, c->J);
  c->p->dfdp(n, N_VGetArrayPointer(y), c->par, c->D);
  for (int k = 0; k < m; k++) {
    const double *v = N_VGetArrayPointer(s[k]);
    double *out = N_VGetArrayPointer(sdot[k]);
    for (int i = 0; i < n; i++) {
      double sum = c->D[k * n + i];
      for (int q = 0; q < n; q++) sum += c->J[i * n + q] * v[q];
      out[i] = sum;
    }
  }
  return 0;
}

static void peer_open(peer *c, const problem *p) {
  memset(c, 0, sizeof *c);
  c->p = p;
  memcpy(c->par, p->par, sizeof c->par);
#if SUNDIALS_VERSION_MAJOR >= 7
  stop_if(SUNContext_Create(SUN_COMM_NULL, &c->ctx) != 0, "SUNDIALS: no context");
#else
  stop_if(SUNContext_Create(NULL, &c->ctx) != 0, "SUNDIALS: no context");
#endif
  c->y = N_VNew_Serial(p->n, c->ctx);
  c->atol = N_VNew_Serial(p->n, c->ctx);
  c->sens = N_VCloneVectorArray(p->n_par, c->y);
  c->A = SUNDenseMatrix(p->n, p->n, c->ctx);
  c->solver = SUNLinSol_Dense(c->y, c->A, c->ctx);
  c->mem = CVodeCreate(CV_BDF, c->ctx);
  N_VConst(0, c->atol);
  for (int k = 0; k < p->n_par; k++) N_VConst(0, c->sens[k]);
  memcpy(N_VGetArrayPointer(c->y), p->y0, (size_t)p->n * sizeof *p->y0);
  int bad = CVodeInit(c->mem, peer_rhs, 0, c->y) || CVodeSetUserData(c->mem, c) ||
            CVodeSStolerances(c->mem, 1e-6, 1e-10) || CVodeSetLinearSolver(c->mem, c->solver, c->A) ||
            CVodeSetJacFn(c->mem, peer_jac) || CVodeSetMaxNumSteps(c->mem, 10000000) ||
            CVodeSensInit(c->mem, p->n_par, CV_STAGGERED, peer_sens, c->sens) ||
            CVodeSetSensParams(c->mem, NULL, c->par, NULL) || CVodeSensEEtolerances(c->mem);
  stop_if(bad, "CVODES: setup failed");
}

static void peer_tol(peer *c, const job *j, double tol, bool control) {
  for (int i = 0; i < j->p.n; i++) N_VGetArrayPointer(c->atol)[i] = ABS_PER_REL * tol * j->size[i];
  stop_if(CVodeSVtolerances(c->mem, tol, c->atol) || CVodeSetSensErrCon(c->mem, control),
          "CVODES: tolerances");
}

static void peer_close(peer *c) {
  CVodeFree(&c->mem);
  SUNLinSolFree(c->solver);
  SUNMatDestroy(c->A);
  N_VDestroyVectorArray(c->sens, c->p->n_par);
  N_VDestroy(c->atol);
  N_VDestroy(c->y);
  SUNContext_Free(&c->ctx);
}

static void peer_start(peer *c, bool gradient) {
  memcpy(N_VGetArrayPointer(c->y), c->p->y0, (size_t)c->p->n * sizeof(double));
  stop_if(CVodeReInit(c->mem, 0, c->y) != 0, "CVODES: start");
  if (!gradient) {
    CVodeSensToggleOff(c->mem);
    return;
  }
  for (int k = 0; k < c->p->n_par; k++) N_VConst(0, c->sens[k]);
  stop_if(CVodeSensReInit(c->mem, CV_STAGGERED, c->sens) != 0, "CVODES: start of sensitivities");
}

static void peer_run(peer *c, const job *j, int l, bool gradient, answer *a) {
  const problem *p = c->p;
  sunrealtype t;
  memcpy(c->par, j->point[l], sizeof c->par);
  peer_start(c, gradient);
  memset(a->grad[l], 0, sizeof a->grad[l]);
  for (int s = 0; s < p->n_out; s++) {
    stop_if(CVode(c->mem, p->t_out[s], c->y, &t, CV_NORMAL) < 0, "CVODES failed");
    memcpy(a->y[l][s], N_VGetArrayPointer(c->y), (size_t)p->n * sizeof(double));
    if (!gradient) continue;
    stop_if(CVodeGetSens(c->mem, &t, c->sens) != 0, "CVODES: sensitivities");
    for (int k = 0; k < p->n_par; k++)
      for (int i = 0; i < p->n; i++)
        a->grad[l][k] += 2 * c->par[k] * a->y[l][s][i] * N_VGetArrayPointer(c->sens[k])[i] /
                         (j->unit[l][i] * j->unit[l][i]);
  }
}

/* ---- points, references, errors ---- */
static void make_points(job *j) {
  for (int l = 0; l < L; l++)
    for (int i = 0; i < j->p.n_par; i++)
      j->point[l][i] =
          j->p.par[i] * (1 + SPREAD * (fmod(0.5 + 0.618033988749895 * l + 0.754877666246693 * i, 1) - 0.5));
}

static void find_sizes(job *j, peer *c) {
  sunrealtype t = 0;
  const double end = j->p.t_out[j->p.n_out - 1];
  peer_start(c, false);
  memset(j->size, 0, sizeof j->size);
  while (t < end) {
    for (int i = 0; i < j->p.n; i++) j->size[i] = fmax(j->size[i], fabs(N_VGetArrayPointer(c->y)[i]));
    stop_if(CVode(c->mem, end, c->y, &t, CV_ONE_STEP) < 0, "CVODES failed");
  }
}

static double error_y(const job *j, const answer *a) {
  double worst = 0;
  for (int l = 0; l < L; l++)
    for (int s = 0; s < j->p.n_out; s++)
      for (int i = 0; i < j->p.n; i++)
        worst = fmax(worst, fabs(a->y[l][s][i] - j->ref.y[l][s][i]) /
                                fmax(fabs(j->ref.y[l][s][i]), SMALL * j->unit[l][i]));
  return worst;
}

static double error_grad(const job *j, const answer *a) {
  double worst = 0;
  for (int l = 0; l < L; l++) {
    double most = 0, off = 0;
    for (int i = 0; i < j->p.n_par; i++) {
      most = fmax(most, fabs(j->ref.grad[l][i]));
      off = fmax(off, fabs(a->grad[l][i] - j->ref.grad[l][i]));
    }
    worst = fmax(worst, off / most);
  }
  return worst;
}

/* True if the two references agree. */
static bool make_reference(job *j, ours *o, peer *c) {
  find_sizes(j, c);
  peer_tol(c, j, REF_TOL_PEER, true);
  for (int l = 0; l < L; l++) {
    peer_run(c, j, l, false, &j->ref);
    for (int i = 0; i < j->p.n; i++) {
      j->unit[l][i] = 0;
      for (int s = 0; s < j->p.n_out; s++) j->unit[l][i] = fmax(j->unit[l][i], fabs(j->ref.y[l][s][i]));
    }
    peer_run(c, j, l, true, &j->ref);
  }
  ours_tol(o, REF_TOL);
  ours_points(o, j, false);
  ours_run(o, j, true);
  ours_answer(o, j, &j->got);
  double y = error_y(j, &j->got), grad = error_grad(j, &j->got);
  printf("%s: %d states, %d parameters, %d outputs; references agree to %.0e, gradients to %.0e\n", j->p.name,
         j->p.n, j->p.n_par, j->p.n_out, y, grad);
  return y < REF_AGREE && grad < REF_AGREE;
}

/* ---- times ---- */
static double time_ours(ours *o, const job *j, bool same, bool gradient) {
  double best = HUGE_VAL;
  ours_points(o, j, same);
  for (int trial = 0; trial < TRIALS; trial++) {
    int runs = 0;
    double start = cpu_s(), spent = 0;
    for (; spent < TRIAL_S; runs++, spent = cpu_s() - start) ours_run(o, j, gradient);
    best = fmin(best, spent / (runs * L));
  }
  return best;
}

static double time_peer(peer *c, job *j, bool gradient) {
  double best = HUGE_VAL;
  for (int trial = 0; trial < TRIALS; trial++) {
    int runs = 0;
    double start = cpu_s(), spent = 0;
    for (; spent < TRIAL_S; runs++, spent = cpu_s() - start)
      for (int l = 0; l < L; l++) peer_run(c, j, l, gradient, &j->got);
    best = fmin(best, spent / (runs * L));
  }
  return best;
}

static double steps_of(const ours *o) {
  atvi_ode_count count[L];
  double sum = 0;
  atvi_ode_counts(o->w, count);
  for (int l = 0; l < L; l++) sum += (double)(count[l].accepted + count[l].rejected);
  return sum / L;
}

static void row_ours(job *j, ours *o, double tol) {
  ours_tol(o, tol);
  double same = time_ours(o, j, true, false), same_grad = time_ours(o, j, true, true);
  double eval = time_ours(o, j, false, false), grad = time_ours(o, j, false, true);
  ours_answer(o, j, &j->got);
  printf("| %.0e | ours | %.0f | %.1e | %.1f | %.1f | | %.1e | %.1f | %.1f | |\n", tol, steps_of(o),
         error_y(j, &j->got), 1e6 * eval, 1e6 * same, error_grad(j, &j->got), 1e6 * grad, 1e6 * same_grad);
}

/* Time of ours at the loosest tolerance, among half decades up to 1e-2, from which on it errs by no more than
 * `error`: a looser one that is right by luck does not count. The search begins at tol / 100; NaN if that is
 * not enough. */
static double time_at(job *j, ours *o, double tol, double error, bool gradient) {
  const int finest = (int)lround(-2 * log10(tol)) + 4;
  int k = finest;
  ours_points(o, j, false);
  for (; k >= 4; k--) {
    ours_tol(o, pow(10, -0.5 * k));
    ours_run(o, j, gradient);
    ours_answer(o, j, &j->got);
    if ((gradient ? error_grad(j, &j->got) : error_y(j, &j->got)) > error) break;
  }
  if (k == finest) return (double)NAN;
  ours_tol(o, pow(10, -0.5 * (k + 1)));
  return time_ours(o, j, false, gradient);
}

static void row_peer(job *j, peer *c, ours *o, double tol, bool control) {
  long steps = 0;
  peer_tol(c, j, tol, control);
  double eval = time_peer(c, j, false), off = error_y(j, &j->got), at = time_at(j, o, tol, off, false);
  CVodeGetNumSteps(c->mem, &steps);
  double grad = time_peer(c, j, true), off_grad = error_grad(j, &j->got),
         at_grad = time_at(j, o, tol, off_grad, true);
  printf("| %.0e | CVODES, %s | %ld | %.1e | %.1f | | %.1f | %.1e | %.1f | | %.1f |\n", tol,
         control ? "full" : "part", steps, off, 1e6 * eval, eval / at, off_grad, 1e6 * grad, grad / at_grad);
}

int main(int argc, char **argv) {
  static job j;
  static ours o;
  static peer c;
  bool ok = true;
  printf("bench_stiff: ESDIRK4(3) against CVODES %d.%d, CPU microseconds per point, one core\n",
         SUNDIALS_VERSION_MAJOR, SUNDIALS_VERSION_MINOR);
  for (int i = 0; get_problem(i, &j.p); i++) {
    if (argc > 1 && strncmp(argv[1], j.p.name, strlen(argv[1])) != 0) continue;
    if (argc == 1 && j.p.n > EVERY_TIME) continue;
    make_points(&j);
    ours_open(&o, &j.p);
    peer_open(&c, &j.p);
    ok &= make_reference(&j, &o, &c);
    printf("\n| tol | solver | steps | error | solve | same | ratio | gradient error | gradient | same | "
           "ratio |\n");
    printf("|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (int k = 4; k <= 8; k += 2) {
      row_ours(&j, &o, pow(10, -k));
      row_peer(&j, &c, &o, pow(10, -k), true);
      row_peer(&j, &c, &o, pow(10, -k), false);
    }
    peer_close(&c);
    ours_close(&o);
  }
  if (!ok) printf("DISAGREE\n");
  return !ok;
}
