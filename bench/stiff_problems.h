/* SPDX-License-Identifier: MIT */
/* Stiff problems, each written twice: as a graph (ours) and as plain scalar C with Jacobians (the peer). */
#ifndef ATVI_BENCH_STIFF_PROBLEMS_H
#define ATVI_BENCH_STIFF_PROBLEMS_H

#include "graph/graph.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STATES = 100, MOST_PAR = 8, MOST_OUT = 52 };

typedef struct {
  const char *name;
  int n, n_par, n_out;
  double y0[MOST_STATES], par[MOST_PAR], t_out[MOST_OUT];
  void (*graph)(atvi_graph *g, int n, const atvi_node *y, const atvi_node *p, atvi_node *f);
  void (*rhs)(int n, const double *y, const double *p, double *f);
  void (*jac)(int n, const double *y, const double *p, double *J);  /* J[n][n], zero before */
  void (*dfdp)(int n, const double *y, const double *p, double *D); /* D[n_par][n], zero before */
} problem;

/* Shorthand for building graphs: the graph is always called g. */
#define MUL(a, b) atvi_graph_op2(g, ATVI_OP_MUL, (a), (b))
#define ADD(a, b) atvi_graph_op2(g, ATVI_OP_ADD, (a), (b))
#define SUB(a, b) atvi_graph_op2(g, ATVI_OP_SUB, (a), (b))
#define NEG(a) atvi_graph_op1(g, ATVI_OP_NEG, (a))
#define NUM(x) atvi_graph_const(g, (x))

/* ---- Robertson's chemistry ---- */
static void rober_graph(atvi_graph *g, int n, const atvi_node *y, const atvi_node *p, atvi_node *f) {
  (void)n;
  atvi_node a = MUL(p[0], y[0]), b = MUL(MUL(p[1], y[1]), y[2]), c = MUL(MUL(p[2], y[1]), y[1]);
  f[0] = SUB(b, a);
  f[1] = SUB(SUB(a, b), c);
  f[2] = c;
}

static void rober_rhs(int n, const double *y, const double *p, double *f) {
  (void)n;
  double a = p[0] * y[0], b = p[1] * y[1] * y[2], c = p[2] * y[1] * y[1];
  f[0] = b - a;
  f[1] = a - b - c;
  f[2] = c;
}

static void rober_jac(int n, const double *y, const double *p, double *J) {
  (void)n;
  double b1 = p[1] * y[2], b2 = p[1] * y[1], c = 2 * p[2] * y[1];
  const double v[9] = {-p[0], b1, b2, p[0], -b1 - c, -b2, 0, c, 0};
  memcpy(J, v, sizeof v);
}

static void rober_dfdp(int n, const double *y, const double *p, double *D) {
  (void)n, (void)p;
  double b = y[1] * y[2], c = y[1] * y[1];
  const double v[9] = {-y[0], y[0], 0, b, -b, 0, 0, -c, c};
  memcpy(D, v, sizeof v);
}

/* ---- van der Pol's oscillator ---- */
static void vdpol_graph(atvi_graph *g, int n, const atvi_node *y, const atvi_node *p, atvi_node *f) {
  (void)n;
  f[0] = y[1];
  f[1] = SUB(MUL(MUL(p[0], SUB(NUM(1), MUL(y[0], y[0]))), y[1]), y[0]);
}

static void vdpol_rhs(int n, const double *y, const double *p, double *f) {
  (void)n;
  f[0] = y[1];
  f[1] = p[0] * (1 - y[0] * y[0]) * y[1] - y[0];
}

static void vdpol_jac(int n, const double *y, const double *p, double *J) {
  (void)n;
  J[1] = 1;
  J[2] = -2 * p[0] * y[0] * y[1] - 1;
  J[3] = p[0] * (1 - y[0] * y[0]);
}

static void vdpol_dfdp(int n, const double *y, const double *p, double *D) {
  (void)n, (void)p;
  D[1] = (1 - y[0] * y[0]) * y[1];
}

/* ---- HIRES (growth of plant tissue by light), rates named k1, k2, k3, k4, k5, k+, o ---- */
static void hires_graph(atvi_graph *g, int n, const atvi_node *y, const atvi_node *p, atvi_node *f) {
  (void)n;
  atvi_node bind = MUL(MUL(p[5], y[5]), y[7]), k4 = p[3], k44 = MUL(NUM(2), k4);
  f[0] = ADD(ADD(SUB(MUL(p[1], y[1]), MUL(p[0], y[0])), MUL(p[2], y[2])), p[6]);
  f[1] = SUB(MUL(p[0], y[0]), MUL(ADD(p[1], p[2]), y[1]));
  f[2] = ADD(SUB(MUL(p[1], y[3]), MUL(ADD(p[0], p[2]), y[2])), MUL(p[4], y[4]));
  f[3] = SUB(ADD(MUL(p[2], y[1]), MUL(p[0], y[2])), MUL(ADD(p[1], k4), y[3]));
  f[4] = SUB(MUL(p[1], ADD(y[5], y[6])), MUL(ADD(p[0], p[4]), y[4]));
  f[5] = ADD(SUB(ADD(MUL(k4, ADD(y[3], y[6])), MUL(p[0], y[4])), MUL(p[1], y[5])), NEG(bind));
  f[6] = SUB(bind, MUL(ADD(p[1], k44), y[6]));
  f[7] = NEG(f[6]);
}

static void hires_rhs(int n, const double *y, const double *p, double *f) {
  (void)n;
  double bind = p[5] * y[5] * y[7], k4 = p[3];
  f[0] = -p[0] * y[0] + p[1] * y[1] + p[2] * y[2] + p[6];
  f[1] = p[0] * y[0] - (p[1] + p[2]) * y[1];
  f[2] = -(p[0] + p[2]) * y[2] + p[1] * y[3] + p[4] * y[4];
  f[3] = p[2] * y[1] + p[0] * y[2] - (p[1] + k4) * y[3];
  f[4] = -(p[0] + p[4]) * y[4] + p[1] * (y[5] + y[6]);
  f[5] = -bind + k4 * (y[3] + y[6]) + p[0] * y[4] - p[1] * y[5];
  f[6] = bind - (p[1] + 2 * k4) * y[6];
  f[7] = -f[6];
}

static void hires_jac(int n, const double *y, const double *p, double *J) {
  (void)n;
  double a = p[5] * y[7], b = p[5] * y[5], k4 = p[3];
  J[0] = -p[0], J[1] = p[1], J[2] = p[2];
  J[8] = p[0], J[9] = -p[1] - p[2];
  J[18] = -p[0] - p[2], J[19] = p[1], J[20] = p[4];
  J[25] = p[2], J[26] = p[0], J[27] = -p[1] - k4;
  J[36] = -p[0] - p[4], J[37] = J[38] = p[1];
  J[43] = k4, J[44] = p[0], J[45] = -a - p[1], J[46] = k4, J[47] = -b;
  J[53] = a, J[54] = -p[1] - 2 * k4, J[55] = b;
  J[61] = -a, J[62] = p[1] + 2 * k4, J[63] = -b;
}

static void hires_dfdp(int n, const double *y, const double *p, double *D) {
  (void)n, (void)p;
  double both = y[5] * y[7], *k = D;
  k[0] = -y[0], k[1] = y[0], k[2] = -y[2], k[3] = y[2], k[4] = -y[4], k[5] = y[4];
  k += 8;
  k[0] = y[1], k[1] = -y[1], k[2] = y[3], k[3] = -y[3], k[4] = y[5] + y[6], k[5] = -y[5], k[6] = -y[6],
  k[7] = y[6];
  k += 8;
  k[0] = y[2], k[1] = -y[1], k[2] = -y[2], k[3] = y[1];
  k += 8;
  k[3] = -y[3], k[5] = y[3] + y[6], k[6] = -2 * y[6], k[7] = 2 * y[6];
  k += 8;
  k[2] = y[4], k[4] = -y[4];
  k += 8;
  k[5] = -both, k[6] = both, k[7] = -both;
  k += 8;
  k[0] = 1;
}

/* ---- Epidemic through a pathogen that lives minutes outside, among people who live decades ----
 * Blocks of S E I R W, one per age class; p = beta, sigma, gamma, delta, mu. Class a meets b with weight
 * contact(a, b). */
static double contact(int a, int b, int classes) {
  return (1 + 0.2 * cos(1.7 * a + 0.9 * b)) * exp(-0.3 * abs(a - b)) / classes;
}

static void epi_graph(atvi_graph *g, int n, const atvi_node *y, const atvi_node *p, atvi_node *f) {
  const int A = n / 5;
  for (int a = 0; a < A; a++) {
    const atvi_node *x = y + 5 * a;
    atvi_node *d = f + 5 * a, met[MOST_STATES / 5];
    for (int b = 0; b < A; b++) met[b] = MUL(NUM(contact(a, b, A)), y[5 * b + 4]);
    atvi_node inf = MUL(MUL(p[0], x[0]), atvi_graph_sum(g, A, met));
    d[0] = SUB(MUL(p[4], SUB(NUM(1), x[0])), inf);
    d[1] = SUB(inf, MUL(ADD(p[1], p[4]), x[1]));
    d[2] = SUB(MUL(p[1], x[1]), MUL(ADD(p[2], p[4]), x[2]));
    d[3] = SUB(MUL(p[2], x[2]), MUL(p[4], x[3]));
    d[4] = MUL(p[3], SUB(x[2], x[4]));
  }
}

/* The plain versions read the weights from here. */
static double contacts[MOST_STATES / 5][MOST_STATES / 5];

static double met_by(int A, int a, const double *y) {
  double met = 0;
  for (int b = 0; b < A; b++) met += contacts[a][b] * y[5 * b + 4];
  return met;
}

static void epi_rhs(int n, const double *y, const double *p, double *f) {
  const int A = n / 5;
  for (int a = 0; a < A; a++) {
    const double *x = y + 5 * a;
    double *d = f + 5 * a, inf = p[0] * x[0] * met_by(A, a, y);
    d[0] = p[4] * (1 - x[0]) - inf;
    d[1] = inf - (p[1] + p[4]) * x[1];
    d[2] = p[1] * x[1] - (p[2] + p[4]) * x[2];
    d[3] = p[2] * x[2] - p[4] * x[3];
    d[4] = p[3] * (x[2] - x[4]);
  }
}

static void epi_jac(int n, const double *y, const double *p, double *J) {
  const int A = n / 5;
  for (int a = 0; a < A; a++) {
    const double *x = y + 5 * a, rate = p[0] * met_by(A, a, y);
    double *r = J + 5 * a * n, *own = r + 5 * a;
    own[0] = -p[4] - rate;
    own[n] = rate;
    own[n + 1] = -p[1] - p[4];
    own[2 * n + 1] = p[1];
    own[2 * n + 2] = -p[2] - p[4];
    own[3 * n + 2] = p[2];
    own[3 * n + 3] = -p[4];
    own[4 * n + 2] = p[3];
    own[4 * n + 4] = -p[3];
    for (int b = 0; b < A; b++) {
      double v = p[0] * x[0] * contacts[a][b];
      r[5 * b + 4] -= v;
      r[n + 5 * b + 4] += v;
    }
  }
}

static void epi_dfdp(int n, const double *y, const double *p, double *D) {
  const int A = n / 5;
  (void)p;
  for (int a = 0; a < A; a++) {
    const double *x = y + 5 * a, inf = x[0] * met_by(A, a, y);
    double *d = D + 5 * a;
    d[0] = -inf, d[1] = inf;
    d[n + 1] = -x[1], d[n + 2] = x[1];
    d[2 * n + 2] = -x[2], d[2 * n + 3] = x[2];
    d[3 * n + 4] = x[2] - x[4];
    d[4 * n] = 1 - x[0], d[4 * n + 1] = -x[1], d[4 * n + 2] = -x[2], d[4 * n + 3] = -x[3];
  }
}

static problem epidemic(const char *name, int classes) {
  problem p = {.name = name,
               .n = 5 * classes,
               .n_par = 5,
               .n_out = 52,
               .par = {0.83, 0.5, 0.2, 100, 0.001},
               .graph = epi_graph,
               .rhs = epi_rhs,
               .jac = epi_jac,
               .dfdp = epi_dfdp};
  for (int i = 0; i < 52; i++) p.t_out[i] = 7 * (i + 1);
  for (int a = 0; a < classes; a++) {
    p.y0[5 * a] = 0.999 - 0.02 * a;
    p.y0[5 * a + 1] = 0.001;
    p.y0[5 * a + 3] = 0.02 * a;
    for (int b = 0; b < classes; b++) contacts[a][b] = contact(a, b, classes);
  }
  return p;
}

/* Sets the weights too: one problem at a time. */
static int get_problem(int i, problem *p) {
  switch (i) {
  case 0:
    *p = (problem){"Robertson", 3,           3,         7,         {1},       {0.04, 1e4, 3e7},
                   {0},         rober_graph, rober_rhs, rober_jac, rober_dfdp};
    for (int k = 0; k < 7; k++) p->t_out[k] = 0.4 * pow(10, k);
    return 1;
  case 1:
    *p = (problem){"van der Pol", 2, 1, 11, {2}, {1000}, {0}, vdpol_graph, vdpol_rhs, vdpol_jac, vdpol_dfdp};
    for (int k = 0; k < 10; k++) p->t_out[k] = 100 + 200 * k; /* none during a jump, for any point */
    p->t_out[10] = 2000;
    return 1;
  case 2:
    *p = (problem){"HIRES",
                   8,
                   7,
                   8,
                   {1, 0, 0, 0, 0, 0, 0, 0.0057},
                   {1.71, 0.43, 8.32, 0.69, 0.035, 280, 0.0007},
                   {5, 10, 20, 40, 80, 160, 240, 321.8122},
                   hires_graph,
                   hires_rhs,
                   hires_jac,
                   hires_dfdp};
    return 1;
  case 3: *p = epidemic("epidemic", 1); return 1;
  case 4: *p = epidemic("large epidemic", 8); return 1;
  case 5: *p = epidemic("huge epidemic", 20); return 1;
  default: return 0;
  }
}

#endif
