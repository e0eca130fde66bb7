/* SPDX-License-Identifier: MIT */
/* Fits with many parameters, against exact answers. */
#include "infer/vi.h"
#include "math/stat/stat.h"
#include "model/evaluator.h"
#include "models.h"

enum { MANY = 80 };

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

/* A prior over hundreds of powers of ten, from which training does not find the posterior. Chains do, but what they have in common with
 * the approximation says nothing about the evidence. */
static void no_evidence_from_a_hopeless_approximation(void) {
  test_file("y.csv", "y\n10.1\n12.9\n9.2\n15.8\n11.4\n8.3\n13.6\n12.2\n");
  for (uint64_t seed = 5; seed < 5 + (uint64_t)test_seeds(3, 3); seed++) {
    fitted f = fit_text("param mu ~ normal(0, 100)\nparam v ~ invgamma(0.001, 0.001)\n"
                        "data \"y.csv\"\nobserve y ~ normal(mu, sqrt(v))\n",
                        seed, 2);
    const atvi_made *m = f.d->made;
    CHECK_MSG(isnan(m->log_evidence) || fabs(m->log_evidence) < 100, "seed %d: log evidence %g", (int)seed,
              m->log_evidence);
    CHECK_MSG(isnan(m->elbo) || m->elbo < 100, "seed %d: ELBO %g", (int)seed, m->elbo);
    fitted_free(f);
  }
}

TESTS({"normals", normals}, {"hierarchy", hierarchy}, {"threads", threads_do_not_matter},
      {"hopeless", no_evidence_from_a_hopeless_approximation})
