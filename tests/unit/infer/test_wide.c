/* SPDX-License-Identifier: MIT */
/* Fits with many parameters, against exact answers. */
#include "infer/vi.h"
#include "math/stat/stat.h"
#include "model/evaluator.h"
#include "models.h"

enum { MANY = 80 };
#define PI 3.14159265358979323846

typedef struct {
  atvi_ctx *ctx;
  atvi_draws *d;
} fitted;

static fitted fit_text(const char *text, uint64_t seed, int threads) {
  fitted f = {.ctx = test_ctx()};
  atvi_vi_opts o = atvi_infer_vi_defaults();
  atvi_evaluator *ev;
  o.seed = seed;
  atvi_ctx_set_threads(f.ctx, threads);
  atvi_model *m = test_load(f.ctx, test_file("wide.atvi", text), false);
  CHECK_OK(atvi_model_evaluator_new(f.ctx, atvi_model_target(m), &ev));
  atvi_status status = atvi_infer_vi_run(f.ctx, ev, &o, &f.d);
  CHECK_MSG(status == ATVI_OK, "%s", atvi_errmsg(f.ctx));
  atvi_model_evaluator_free(ev);
  atvi_model_free(m);
  return f;
}

static void fitted_free(fitted f) {
  atvi_draws_free(f.d);
  atvi_ctx_free(f.ctx);
  CHECK_INT(test_live, 0);
}

static double mean(const atvi_draws *d, atvi_idx j) {
  return atvi_math_mean(d->n, d->x + j * d->n, d->weight);
}
static double sd(const atvi_draws *d, atvi_idx j) { return atvi_math_sd(d->n, d->x + j * d->n, d->weight); }

static const char *const NORMALS = "index i = 1..80\nparam x[i] ~ normal(0, 1)\n"
                                   "logp sum(k in i: -0.5*((x[k] - 0.05*k)/(0.2 + 0.01*k))^2)\n";

/* Independent normals: the evidence is a product. */
static void normals(void) {
  double log_z = 0;
  for (int k = 1; k <= MANY; k++) {
    double s = 0.2 + 0.01 * k, m = 0.05 * k;
    log_z += log(s) - 0.5 * log(1 + s * s) - 0.5 * m * m / (1 + s * s);
  }
  fitted f = fit_text(NORMALS, 1, 2);
  CHECK(f.d->made->evaluations < 100000); /* a flow would take twice as many */
  CHECK_INT(f.d->made->steps, 0);         /* the normal approximation is exact: nothing is trained */
  CHECK_ABS(f.d->made->log_evidence, log_z, 4 * f.d->made->log_evidence_se + 1e-3);
  for (int k = 1; k <= MANY; k++) {
    double s = 0.2 + 0.01 * k, v = s * s / (1 + s * s);
    CHECK_ABS(mean(f.d, k - 1), 0.05 * k / (1 + s * s), 0.08 * sqrt(v));
    CHECK_REL(sd(f.d, k - 1), sqrt(v), 0.08);
  }
  fitted_free(f);
}

/* y_j ~ N(mu, s^2 + tau^2) without theta; mu is integrated by hand, tau by quadrature. */
static double y_of(int j) { return 1 + 0.9 * sin(2.3 * j); }

static void hierarchy_by_quadrature(double *log_z, double *mean_tau) {
  enum { N = 4000 };
  double top = -HUGE_VAL, sum = 0, first = 0, l[N];
  for (int k = 0; k < N; k++) {
    double tau = (k + 0.5) * 6 / N, v = tau * tau + 0.25, m = 0, q = 0;
    for (int j = 1; j <= MANY; j++) m += y_of(j) / MANY;
    for (int j = 1; j <= MANY; j++) q += (y_of(j) - m) * (y_of(j) - m);
    double vm = v / MANY + 25; /* of the mean, with mu ~ N(0, 5) */
    l[k] = -0.5 * q / v - 0.5 * MANY * log(v) + 0.5 * log(v / MANY) - 0.5 * log(vm) - 0.5 * m * m / vm -
           0.5 * tau * tau / 4 + log(2 / sqrt(2 * 3.14159265358979 * 4));
    top = fmax(top, l[k]);
  }
  for (int k = 0; k < N; k++) {
    sum += exp(l[k] - top) * 6 / N;
    first += (k + 0.5) * 6 / N * exp(l[k] - top) * 6 / N;
  }
  *log_z = top + log(sum) + MANY * log(0.5);
  *mean_tau = first / sum;
}

static void hierarchy(void) {
  char text[8000] = "index g = 1..80\nparam mu ~ normal(0, 5)\nparam tau ~ halfnormal(2)\n"
                    "param theta[g] ~ normal(mu, tau)\n"
                    "logp sum(j in g: -0.5*((1 + 0.9*sin(2.3*j) - theta[j])/0.5)^2)\n";
  double log_z, tau;
  hierarchy_by_quadrature(&log_z, &tau);
  fitted f = fit_text(text, 1, 2);
  CHECK_ABS(f.d->made->log_evidence, log_z, 4 * f.d->made->log_evidence_se + 0.01);
  CHECK(f.d->made->log_evidence_se < 0.1);
  CHECK_ABS(mean(f.d, 1), tau, 0.1 * sd(f.d, 1));
  fitted_free(f);
}

static void threads_do_not_matter(void) {
  const char *text = "index i = 1..64\nparam x[i] ~ normal(0, 1)\nlogp sum(k in i: -x[k]^2)\n";
  fitted a = fit_text(text, 2, 1), b = fit_text(text, 2, 3);
  CHECK(a.d->n == b.d->n);
  CHECK(memcmp(a.d->x, b.d->x, (size_t)(64 * a.d->n) * sizeof *a.d->x) == 0);
  atvi_draws_free(a.d);
  atvi_ctx_free(a.ctx);
  fitted_free(b);
}

/* Skewed and independent in u, a reflection of x: nothing in the text falls apart into units. The log density
 * of each is by (power u - e^(power u)) - u^2 / 2. */
typedef struct {
  double by, power, evidence, mean;
} skewed;

static skewed skewed_by(double by, double power) {
  enum { N = 20000 };
  skewed s = {by, power, 0, 0};
  for (int k = 0; k < N; k++) {
    double u = -10 + 20 * (k + 0.5) / N, f = by * (power * u - exp(power * u)),
           p = exp(f - 0.5 * u * u) / sqrt(2 * PI) * 20 / N;
    s.evidence += p;
    s.mean += u * p;
  }
  s.mean /= s.evidence;
  return s;
}

/* A fit that took chains. */
static fitted fit_skewed(const skewed *s, uint64_t seed) {
  char text[256];
  snprintf(text, sizeof text,
           "index i = 1..80\nparam x[i] ~ normal(0, 1)\nlet m = sum(x)*2/80\n"
           "logp sum(k in i: %g*(%g*(x[k] - m) - exp(%g*(x[k] - m))))\n",
           s->by, s->power, s->power);
  fitted f = fit_text(text, seed, 2);
  const atvi_made *m = f.d->made;
  CHECK(m->exact == 1);
  CHECK_INT(m->steps, 0);
  CHECK_MSG(m->log_evidence_se < 0.1, "%g", m->log_evidence_se);
  CHECK_ABS(m->log_evidence, MANY * log(s->evidence), 4 * m->log_evidence_se);
  for (int k = 0; k < MANY; k++) CHECK_ABS(mean(f.d, k), -s->mean, 0.15 * sd(f.d, k));
  return f;
}

/* Draws of a normal approximation are hopeless, and chains tell the evidence by themselves. */
static void evidence_of_chains(void) {
  skewed s = skewed_by(4, 1.5);
  for (int seed = 1; seed <= test_seeds(2, 10); seed++) fitted_free(fit_skewed(&s, (uint64_t)seed));
}

/* Weights of the first draws would do, but their tail says that those of all draws would not. Trees of 7
 * leaves are half a turn: with steps of the acceptance wanted they had 15, and fits took 140 000 runs. */
static void chains_begin_early(void) {
  skewed s = skewed_by(16, 1);
  for (int seed = 1; seed <= test_seeds(2, 6); seed++) {
    fitted f = fit_skewed(&s, (uint64_t)seed);
    CHECK(f.d->made->khat < 0.7);
    CHECK_MSG(f.d->made->evaluations < 110000, "seed %d: %ld runs", seed, (long)f.d->made->evaluations);
    CHECK_MSG(fabs(f.d->made->tree_depth - 3) < 0.1, "seed %d: depth %g", seed, f.d->made->tree_depth);
    CHECK(f.d->made->accept > 0.6 && f.d->made->divergences == 0);
    fitted_free(f);
  }
}

/* Priors over hundreds of powers of ten, half of whose draws overflow. v by a sum; mu is normal given v. */
static double vague_evidence(int n, const double *y) {
  double all = 0, sum = 0, squares = 0;
  for (int k = 0; k < n; k++) sum += y[k] / n;
  for (int k = 0; k < n; k++) squares += (y[k] - sum) * (y[k] - sum);
  for (int k = 0; k < 40000; k++) {
    double u = -12 + 40 * (k + 0.5) / 40000, v = exp(u), w = v / n + 1e4;
    double prior = 0.001 * log(0.001) - lgamma(0.001) - 0.001 * u - 0.001 / v;
    double lik = -0.5 * (n - 1) * log(2 * PI * v) - 0.5 * log(n) - 0.5 * squares / v;
    all += exp(prior + lik - 0.5 * log(2 * PI * w) - 0.5 * sum * sum / w) * 40 / 40000;
  }
  return log(all);
}

static void a_vague_variance(void) {
  const double y[] = {10.1, 12.9, 9.2, 15.8, 11.4, 8.3, 13.6, 12.2};
  double log_z = vague_evidence(8, y);
  test_file("y.csv", "y\n10.1\n12.9\n9.2\n15.8\n11.4\n8.3\n13.6\n12.2\n");
  for (uint64_t seed = 5; seed < 5 + (uint64_t)test_seeds(3, 10); seed++) {
    fitted f = fit_text("param mu ~ normal(0, 100)\nparam v ~ invgamma(0.001, 0.001)\n"
                        "data \"y.csv\"\nobserve y ~ normal(mu, sqrt(v))\n",
                        seed, 2);
    const atvi_made *m = f.d->made;
    CHECK_MSG(fabs(m->log_evidence - log_z) < 4 * m->log_evidence_se + 1e-3, "seed %d: %g, not %g", (int)seed,
              m->log_evidence, log_z);
    CHECK(m->elbo < log_z + 0.01);
    fitted_free(f);
  }
}

/* A hierarchy with two of them: the evidence and P(vb < 1) by quadrature (tools/trust_answers.py dyes). */
static void vague_variances_of_a_hierarchy(void) {
  static const int y[6][5] = {{1545, 1440, 1440, 1520, 1580}, {1540, 1555, 1490, 1560, 1495},
                              {1595, 1550, 1605, 1510, 1560}, {1445, 1440, 1595, 1465, 1545},
                              {1595, 1630, 1515, 1635, 1625}, {1520, 1455, 1450, 1480, 1445}};
  char text[512] = "batch,y\n";
  for (int i = 0; i < 30; i++)
    snprintf(text + strlen(text), sizeof text - strlen(text), "%d,%d\n", i / 5 + 1, y[i / 5][i % 5]);
  test_file("dyes.csv", text);
  for (uint64_t seed = 54; seed < 54 + (uint64_t)test_seeds(2, 4); seed++) {
    fitted f = fit_text("index g = 1..6\nparam mu ~ normal(0, 1000)\nparam vb ~ invgamma(0.001, 0.001)\n"
                        "param vw ~ invgamma(0.001, 0.001)\nparam m[g] ~ normal(mu, sqrt(vb))\n"
                        "data \"dyes.csv\"\nobserve y ~ normal(m[batch], sqrt(vw))\n",
                        seed, 2);
    const atvi_made *m = f.d->made;
    double small = 0;
    for (atvi_idx k = 0; k < f.d->n; k++)
      if (f.d->x[f.d->n + k] < 1) small += f.d->weight ? f.d->weight[k] : 1 / (double)f.d->n;
    CHECK_MSG(fabs(m->log_evidence + 181.9830) < 4 * m->log_evidence_se + 1e-3, "seed %d: %g ± %g", (int)seed,
              m->log_evidence, m->log_evidence_se);
    CHECK_ABS(small, 0.0889, 0.012);
    CHECK_ABS(mean(f.d, 0), 1526.77, 2.2);
    CHECK_REL(mean(f.d, 2), 3014, 0.03);
    for (atvi_idx k = 0; k < f.d->n_message; k++) CHECK(f.d->message[k].severity == ATVI_NOTE);
    fitted_free(f);
  }
}

TESTS({"normals", normals}, {"hierarchy", hierarchy}, {"threads", threads_do_not_matter},
      {"chains", evidence_of_chains}, {"early", chains_begin_early}, {"vague", a_vague_variance},
      {"vague_hierarchy", vague_variances_of_a_hierarchy})
