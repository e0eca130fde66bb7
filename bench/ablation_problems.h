/* SPDX-License-Identifier: MIT */
/* Problems of the ablation with their exact answers: by quadrature over a grid, or from reference draws. */
#ifndef ATVI_BENCH_ABLATION_PROBLEMS_H
#define ATVI_BENCH_ABLATION_PROBLEMS_H

#include "model/evaluator.h"
#include "model/model.h"
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_D = 8, MOST_BOUND = 2, NODES = 5, MOST_NODES = 400 };
#define NEAR 0.02 /* share of the range that counts as next to a bound */

typedef struct {
  double mean[MOST_D], sd[MOST_D], log_z;
  double corr[MOST_D][MOST_D];
  double share[MOST_BOUND]; /* of the posterior next to each bound that is looked at */
} answer;

typedef struct {
  const char *name, *what;
  const char *text; /* the model; NULL: path is given */
  char path[512];
  double low[MOST_D], high[MOST_D]; /* where the posterior is, for the grid */
  int panels;                       /* of the grid, per coordinate; 0: reference draws */
  int n_bound;
  struct {
    int coordinate;
    bool upper;
  } bound[MOST_BOUND];
  bool weak;      /* also with a flow that is hardly more than a normal distribution */
  bool one_sided; /* parameters have one bound: probit and logit do not apply */
  answer exact;
} problem;

static const char CORNER[] = "model \"Normal in a corner\"\n"
                             "param a in (0, 1)\nparam b in (0, 1)\nparam c in (0, 1)\n"
                             "let x = (a + 0.10)/0.25\nlet y = (b - 1.05)/0.25\nlet z = (c - 0.50)/0.15\n"
                             "logp -0.5*x^2 - 0.5*(y - 0.6*x)^2/0.64 - 0.5*(z - 0.7*y)^2/0.51\n";

/* 70, 27 and 3 % of the mass, at least ten standard deviations apart. */
static const char MODES[] = "model \"Three modes\"\n"
                            "param a in (0, 1)\nparam b in (0, 1)\n"
                            "let p = ((a - 0.20)^2 + (b - 0.25)^2)/0.0032\n"
                            "let q = ((a - 0.75)^2 + (b - 0.80)^2)/0.0032\n"
                            "let r = ((a - 0.80)^2 + (b - 0.20)^2)/0.0032\n"
                            "logp log(0.70*exp(-p) + 0.27*exp(-q) + 0.03*exp(-r))\n";

static const char LOTKA[] = "model \"Lynx and hare\"\nindex s = 1..2\n"
                            "param theta1 ~ normal(1, 0.5) in (0, inf)\n"
                            "param theta2 ~ normal(0.05, 0.05) in (0, inf)\n"
                            "param theta3 ~ normal(1, 0.5) in (0, inf)\n"
                            "param theta4 ~ normal(0.05, 0.05) in (0, inf)\n"
                            "param z[s] ~ lognormal(log(10), 1)\nparam sigma[s] ~ lognormal(-1, 1)\n"
                            "start 0\nstate u = z[1]\nstate v = z[2]\n"
                            "du/dt = (theta1 - theta2*v)*u\ndv/dt = (-theta3 + theta4*u)*v\n"
                            "data \"lotka.csv\" time t\n"
                            "observe hare ~ lognormal(log(u), sigma[1])\n"
                            "observe lynx ~ lognormal(log(v), sigma[2])\n";

/* ---- quadrature ---- */

/* Gauss-Legendre nodes and weights on [a, b], n_panel pieces. */
static int add_panels(double a, double b, int n_panel, int at, double *x, double *w) {
  static const double node[NODES] = {-0.90617984593866399, -0.53846931010568309, 0, 0.53846931010568309,
                                     0.90617984593866399};
  static const double weight[NODES] = {0.23692688505618909, 0.47862867049936647, 0.56888888888888889,
                                       0.47862867049936647, 0.23692688505618909};
  double half = 0.5 * (b - a) / n_panel;
  for (int k = 0; k < n_panel; k++)
    for (int i = 0; i < NODES; i++, at++) {
      x[at] = a + (2 * k + 1 + node[i]) * half;
      w[at] = weight[i] * half;
    }
  return at;
}

typedef struct {
  int n[MOST_D];
  double x[MOST_D][MOST_NODES], w[MOST_D][MOST_NODES];
} grid;

/* The edge of what is next to a bound is the edge of a panel. */
static void make_grid(const problem *p, const atvi_target *t, grid *g) {
  for (atvi_idx i = 0; i < t->d; i++) {
    double low = p->low[i], high = p->high[i], width = t->param[i].upper - t->param[i].lower;
    double a = low, b = high;
    int n = 0;
    for (int k = 0; k < p->n_bound; k++) {
      if (p->bound[k].coordinate != i) continue;
      if (p->bound[k].upper)
        b = t->param[i].upper - NEAR * width;
      else
        a = t->param[i].lower + NEAR * width;
    }
    if (a > low) n = add_panels(low, a, 2, n, g->x[i], g->w[i]);
    n = add_panels(a, b, p->panels, n, g->x[i], g->w[i]);
    if (b < high) n = add_panels(b, high, 2, n, g->x[i], g->w[i]);
    g->n[i] = n;
  }
}

static bool is_near(const problem *p, const atvi_target *t, int k, double theta) {
  const atvi_param *q = &t->param[p->bound[k].coordinate];
  double width = NEAR * (q->upper - q->lower);
  return p->bound[k].upper ? theta > q->upper - width : theta < q->lower + width;
}

/* Line by line along the last coordinate; sums relative to the largest density seen. */
static void by_quadrature(problem *p, atvi_evaluator *ev) {
  static grid g;
  const atvi_target *t = atvi_model_evaluator_target(ev);
  static double theta[MOST_D * MOST_NODES], lp[MOST_NODES], ll[MOST_NODES];
  static atvi_outcome outcome[MOST_NODES];
  int d = (int)t->d, last = d - 1, at[MOST_D] = {0};
  double top = -HUGE_VAL, sum = 0, m1[MOST_D] = {0}, m2[MOST_D][MOST_D] = {{0}}, near[MOST_BOUND] = {0};
  make_grid(p, t, &g);
  int n = g.n[last];
  for (;;) {
    double line = 1;
    for (int i = 0; i < d; i++)
      for (int j = 0; j < n; j++) theta[i * n + j] = g.x[i][i == last ? j : at[i]];
    for (int i = 0; i < last; i++) line *= g.w[i][at[i]];
    atvi_model_evaluator_run(
        ev, &(atvi_batch){.B = n, .theta = theta, .log_prior = lp, .log_lik = ll, .outcome = outcome});
    for (int j = 0; j < n; j++) {
      double value = outcome[j] == ATVI_RUN_OK ? lp[j] + ll[j] : -HUGE_VAL;
      if (!(value > -HUGE_VAL)) continue;
      if (value > top) { /* rescale what there is */
        double by = exp(top - value);
        sum *= by;
        for (int i = 0; i < d; i++) {
          m1[i] *= by;
          for (int k = 0; k < d; k++) m2[i][k] *= by;
        }
        for (int k = 0; k < p->n_bound; k++) near[k] *= by;
        top = value;
      }
      double w = line * g.w[last][j] * exp(value - top);
      sum += w;
      for (int i = 0; i < d; i++) {
        m1[i] += w * theta[i * n + j];
        for (int k = 0; k < d; k++) m2[i][k] += w * theta[i * n + j] * theta[k * n + j];
      }
      for (int k = 0; k < p->n_bound; k++)
        if (is_near(p, t, k, theta[p->bound[k].coordinate * n + j])) near[k] += w;
    }
    int i = last - 1;
    while (i >= 0 && ++at[i] == g.n[i]) at[i--] = 0;
    if (i < 0) break;
  }
  p->exact.log_z = top + log(sum);
  for (int i = 0; i < d; i++) {
    p->exact.mean[i] = m1[i] / sum;
    p->exact.sd[i] = sqrt(m2[i][i] / sum - pow(m1[i] / sum, 2));
  }
  for (int i = 0; i < d; i++)
    for (int k = 0; k < d; k++)
      p->exact.corr[i][k] =
          (m2[i][k] / sum - m1[i] * m1[k] / (sum * sum)) / (p->exact.sd[i] * p->exact.sd[k]);
  for (int k = 0; k < p->n_bound; k++) p->exact.share[k] = near[k] / sum;
}

/* ---- files ---- */

static bool write_model(problem *p, const char *folder) {
  snprintf(p->path, sizeof p->path, "%s/%s.atvi", folder, p->name);
  FILE *f = fopen(p->path, "w");
  return f && fputs(p->text, f) >= 0 && fclose(f) == 0;
}

/* lotka.csv from the suite's JSON. */
static bool write_lotka(const char *data, const char *folder) {
  char path[512];
  snprintf(path, sizeof path, "%s/benchmarks/lotka_volterra_data.json", data);
  json_t *root = json_load_file(path, 0, NULL), *y = json_object_get(root, "y");
  snprintf(path, sizeof path, "%s/lotka.csv", folder);
  FILE *f = root ? fopen(path, "w") : NULL;
  if (!f) return false;
  json_t *first = json_object_get(root, "y_init");
  fprintf(f, "t,hare,lynx\n");
  for (size_t k = 0; k <= json_array_size(y); k++) {
    json_t *row = k == 0 ? first : json_array_get(y, k - 1);
    double t = k == 0 ? 0 : json_number_value(json_array_get(json_object_get(root, "ts"), k - 1));
    fprintf(f, "%g,%g,%g\n", t, json_number_value(json_array_get(row, 0)),
            json_number_value(json_array_get(row, 1)));
  }
  json_decref(root);
  return fclose(f) == 0;
}

/* Moments of the suite's reference draws, and the evidence of long runs of ours: they have none. */
static bool by_reference(problem *p, const char *data, atvi_idx d) {
  char path[512], line[1024];
  double n = 0, m1[MOST_D] = {0}, m2[MOST_D] = {0};
  snprintf(path, sizeof path, "%s/benchmarks/lotka_volterra_reference.csv", data);
  FILE *f = fopen(path, "r");
  if (!f) return false;
  for (bool head = true; fgets(line, sizeof line, f); head = false) {
    char *at = line;
    for (atvi_idx i = 0; i < d && !head; i++) {
      double x = strtod(at, &at);
      m1[i] += x;
      m2[i] += x * x;
      if (*at == ',') at++;
    }
    n += !head;
  }
  fclose(f);
  for (atvi_idx i = 0; i < d; i++) {
    p->exact.mean[i] = m1[i] / n;
    p->exact.sd[i] = sqrt(m2[i] / n - pow(m1[i] / n, 2));
  }
  p->exact.log_z = -146.69;
  return n > 0;
}

#endif
