/* SPDX-License-Identifier: MIT */
/* Population pharmacokinetics of examples/pk: the default fit against a sampler of its own kind, Metropolis
 * within Gibbs on the solution in closed form. They share nothing but the files. */
#include "atvi/atvi.h"
#include "models.h"
#include <math.h>

enum { SUBJECTS = 12, ROWS = 400, DOSES = 100, PARAMS = 6 + 2 * SUBJECTS, WARM = 20000, KEEP = 120000 };

/* ---- files ---- */

typedef struct {
  int n, subject[ROWS];
  double time[ROWS], value[ROWS];
} table;

static void read_table(const char *name, table *t) {
  char path[512], line[200];
  snprintf(path, sizeof path, TEST_SOURCE_DIR "/examples/pk/%s", name);
  FILE *f = fopen(path, "r");
  CHECK(f && fgets(line, sizeof line, f));
  t->n = 0;
  while (fgets(line, sizeof line, f) && t->n < ROWS)
    if (sscanf(line, "s%d,%lf,%lf", &t->subject[t->n], &t->time[t->n], &t->value[t->n]) >= 2) t->n++;
  fclose(f);
}

/* ---- random numbers ---- */

static uint64_t state = 88172645463325252u;

static double uniform(void) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return ((double)(state >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void) { return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform()); }

/* ---- the model ---- */

typedef struct {
  table weight, dose, conc;
  /* per subject: its observations, and for each the amounts and ages of the doses before it */
  int n[SUBJECTS], doses[SUBJECTS][ROWS];
  double log_value[SUBJECTS][ROWS], amount[SUBJECTS][ROWS][DOSES], age[SUBJECTS][ROWS][DOSES];
} world;

static void sort_by_subject(world *w) {
  for (int r = 0; r < w->conc.n; r++) {
    int i = w->conc.subject[r] - 1, at = w->n[i], n = 0;
    if (isnan(w->conc.value[r])) continue;
    w->log_value[i][at] = log(w->conc.value[r]);
    for (int d = 0; d < w->dose.n; d++) {
      double age = w->conc.time[r] - w->dose.time[d];
      if (w->dose.subject[d] != i + 1 || !(age > 0)) continue;
      w->amount[i][at][n] = w->dose.value[d];
      w->age[i][at][n++] = age;
    }
    w->doses[i][at] = n;
    w->n[i]++;
  }
}

typedef struct {
  double lCL, lV, lka, wCL, wV, sigma, logCL[SUBJECTS], logV[SUBJECTS];
  /* log likelihood of each subject */
  double log_lik[SUBJECTS];
} point;

static double subject_log_lik(const world *w, int i, double logCL, double logV, double lka, double sigma) {
  double ka = exp(lka), V = exp(logV), k = exp(logCL) / V, sum = 0;
  for (int r = 0; r < w->n[i]; r++) {
    double amount = 0;
    for (int d = 0; d < w->doses[i][r]; d++) {
      double u = w->age[i][r][d];
      amount += w->amount[i][r][d] * ka / (ka - k) * (exp(-k * u) - exp(-ka * u));
    }
    double z = (w->log_value[i][r] - log(amount / V)) / sigma;
    sum -= 0.5 * z * z;
  }
  return sum - w->n[i] * log(sigma);
}

/* What a change of lka and sigma adds to the log likelihood, and its parts after it. */
static double gain(const world *w, const point *p, double lka, double sigma, double *log_lik) {
  double sum = 0;
  for (int i = 0; i < SUBJECTS; i++) {
    log_lik[i] = subject_log_lik(w, i, p->logCL[i], p->logV[i], lka, sigma);
    sum += log_lik[i] - p->log_lik[i];
  }
  return sum;
}

static double log_normal(double x, double mean, double sd) {
  return -0.5 * (x - mean) * (x - mean) / (sd * sd) - log(sd);
}

static double size_of(const world *w, int i, double power) { return power * log(w->weight.time[i] / 70); }

/* ---- moves ---- */

/* Given the subjects: the mean exactly, the spread by a step of its logarithm, prior halfnormal(0.5). */
static void population(const world *w, const double *x, double power, double prior_mean, double *mean,
                       double *spread) {
  double sum = 0, v = *spread * *spread, prior_v = 0.25;
  for (int i = 0; i < SUBJECTS; i++) sum += x[i] - size_of(w, i, power);
  double precision = SUBJECTS / v + 1 / prior_v;
  *mean = (sum / v + prior_mean / prior_v) / precision + normal() / sqrt(precision);
  double to = *spread * exp(0.5 * normal()), change = log(to / *spread) - 2 * (to * to - v);
  for (int i = 0; i < SUBJECTS; i++)
    change += log_normal(x[i], *mean + size_of(w, i, power), to) -
              log_normal(x[i], *mean + size_of(w, i, power), *spread);
  if (log(uniform()) < change) *spread = to;
}

static void subjects(const world *w, point *p) {
  for (int i = 0; i < SUBJECTS; i++)
    for (int both = 0; both < 2; both++) {
      double c = p->logCL[i] + 0.06 * normal(), v = p->logV[i] + (both ? 0.06 : 0.12) * normal();
      if (!both) c = p->logCL[i];
      double log_lik = subject_log_lik(w, i, c, v, p->lka, p->sigma), change = log_lik - p->log_lik[i];
      change += log_normal(c, p->lCL + size_of(w, i, 0.75), p->wCL) -
                log_normal(p->logCL[i], p->lCL + size_of(w, i, 0.75), p->wCL);
      change += log_normal(v, p->lV + size_of(w, i, 1), p->wV) -
                log_normal(p->logV[i], p->lV + size_of(w, i, 1), p->wV);
      if (log(uniform()) < change) p->logCL[i] = c, p->logV[i] = v, p->log_lik[i] = log_lik;
    }
}

static void shared(const world *w, point *p) {
  double log_lik[SUBJECTS], lka = p->lka + 0.06 * normal();
  double more = gain(w, p, lka, p->sigma, log_lik) + log_normal(lka, 0, 0.5) - log_normal(p->lka, 0, 0.5);
  if (log(uniform()) < more) {
    p->lka = lka;
    memcpy(p->log_lik, log_lik, sizeof log_lik);
  }
  double sigma = p->sigma * exp(0.12 * normal());
  double prior = -0.5 * (sigma * sigma - p->sigma * p->sigma) / 0.09 + log(sigma / p->sigma);
  if (log(uniform()) < gain(w, p, p->lka, sigma, log_lik) + prior) {
    p->sigma = sigma;
    memcpy(p->log_lik, log_lik, sizeof log_lik);
  }
}

static void sample(double *mean, double *sd) {
  static world w;
  static double sum[PARAMS], squares[PARAMS];
  read_table("subjects.csv", &w.weight);
  read_table("doses.csv", &w.dose);
  read_table("conc.csv", &w.conc);
  CHECK_INT(w.weight.n, SUBJECTS);
  sort_by_subject(&w);
  point p = {.lCL = 1, .lV = 3, .lka = 0, .wCL = 0.3, .wV = 0.3, .sigma = 0.2};
  for (int i = 0; i < SUBJECTS; i++) p.logCL[i] = 1, p.logV[i] = 3;
  gain(&w, &p, p.lka, p.sigma, p.log_lik);
  for (int k = -WARM; k < KEEP; k++) {
    subjects(&w, &p);
    shared(&w, &p);
    population(&w, p.logCL, 0.75, 1, &p.lCL, &p.wCL);
    population(&w, p.logV, 1, 3, &p.lV, &p.wV);
    double x[PARAMS] = {p.lCL, p.lV, p.lka, p.wCL, p.wV, p.sigma};
    for (int i = 0; i < SUBJECTS; i++) x[6 + i] = exp(p.logCL[i]), x[6 + SUBJECTS + i] = exp(p.logV[i]);
    for (int i = 0; k >= 0 && i < PARAMS; i++) sum[i] += x[i], squares[i] += x[i] * x[i];
  }
  for (int i = 0; i < PARAMS; i++) {
    mean[i] = sum[i] / KEEP;
    sd[i] = sqrt(squares[i] / KEEP - mean[i] * mean[i]);
  }
}

static void the_default_fit_agrees(void) {
  double mean[PARAMS], sd[PARAMS];
  atvi_ctx *ctx = test_ctx();
  atvi_draws *d;
  atvi_ctx_set_threads(ctx, 2);
  sample(mean, sd);
  atvi_model *m = test_load(ctx, TEST_SOURCE_DIR "/examples/pk/pk.atvi", false);
  CHECK_OK(atvi_fit(ctx, atvi_model_target(m), NULL, &d));
  CHECK_INT(d->n_param, PARAMS);
  for (atvi_idx i = 0; i < PARAMS; i++) {
    CHECK_MSG(fabs(atvi_draws_mean(d, i) - mean[i]) < 0.06 * sd[i], "%s: mean %.5g, want %.5g (sd %.3g)",
              d->col[i].name, atvi_draws_mean(d, i), mean[i], sd[i]);
    CHECK_MSG(fabs(atvi_draws_sd(d, i) / sd[i] - 1) < 0.06, "%s: sd %.5g, want %.5g", d->col[i].name,
              atvi_draws_sd(d, i), sd[i]);
  }
  atvi_draws_free(d);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
}

TESTS({"agrees", the_default_fit_agrees})
