/* SPDX-License-Identifier: MIT */
/* Units that arrays make: which there are, and that their parts add up and depend on nothing else. */
#include "models.h"
#include <math.h>

enum { J = 40, D_MOST = 128, U_MOST = 64 };

typedef struct {
  double lp, ll, prior[U_MOST], lik[U_MOST];
} parts;

static parts at(atvi_ctx *ctx, const atvi_target *t, const double *theta) {
  parts p;
  void *work;
  CHECK(t->n_unit <= U_MOST);
  CHECK_OK(t->ops->work_new(t->self, ctx, &work));
  t->ops->eval(t->self, work,
               &(atvi_batch){.B = 1,
                             .theta = theta,
                             .log_prior = &p.lp,
                             .log_lik = &p.ll,
                             .unit_prior = p.prior,
                             .unit_lik = p.lik});
  t->ops->work_free(work);
  return p;
}

/* Parts add up, and a parameter changes those of its own unit alone; a common one may change all. */
static void check_parts(atvi_ctx *ctx, const atvi_target *t) {
  double theta[D_MOST];
  CHECK(t->d <= D_MOST);
  for (atvi_idx i = 0; i < t->d; i++) theta[i] = 0.4 + 0.3 * sin(1.3 * (double)i);
  parts p = at(ctx, t, theta);
  double lp = 0, ll = 0;
  for (atvi_idx u = 0; u < t->n_unit; u++) lp += p.prior[u], ll += p.lik[u];
  CHECK_REL(lp, p.lp, 1e-12);
  CHECK_REL(ll, p.ll, 1e-12);
  for (atvi_idx u = 1; u < t->n_unit; u++)
    for (atvi_idx k = t->unit[u].n_outer; k < t->unit[u].n_on; k++) {
      double was = theta[t->unit[u].on[k]];
      theta[t->unit[u].on[k]] = was + 0.2;
      parts q = at(ctx, t, theta);
      theta[t->unit[u].on[k]] = was;
      for (atvi_idx v = 0; v < t->n_unit; v++)
        CHECK((q.prior[v] == p.prior[v] && q.lik[v] == p.lik[v]) == (v != u));
    }
}

static void write_rows(const char *name) {
  char text[8192] = "g,h,k,x,y\n", line[64];
  for (int i = 0; i < 3 * J; i++) {
    int g = i % J + 1;
    snprintf(line, sizeof line, "%d,%d,%d,%g,%d\n", g, (g + 3) / 4, i * 7 % 37 + 1, 0.1 * (i % 9), i % 4);
    strcat(text, line);
  }
  test_file(name, text);
}

#define HEAD "index g = 1..40\nindex h = 1..10\nparam mu ~ normal(0, 1)\nparam tau ~ halfnormal(1)\n"

/* text, its units with what is common, parameters that are common, and parameters of the first unit. */
static const struct {
  const char *text;
  atvi_idx n_unit, common, own;
} CASES[] = {
    {HEAD "param a[g] ~ normal(mu, tau)\ndata \"rows.csv\"\nobserve y ~ poisson(exp(a[g]))\n", 41, 2, 1},
    {HEAD "param z[g] ~ normal(0, 1)\ndata \"rows.csv\"\nobserve y ~ normal(mu + tau*z[g] + 0.3*x, 1)\n", 41,
     2, 1},
    {HEAD
     "param a[g] ~ normal(mu, tau)\nparam b[g] ~ normal(0, tau)\nparam s ~ halfnormal(1)\ndata \"rows.csv\"\n"
     "observe y ~ normal(a[g] + b[g]*x, s)\n",
     41, 3, 2},
    {HEAD
     "param a[g] ~ normal(mu, tau)\nlogp 0.5*sum(i in g: -(i/20 - a[i])^2) - (sum(i in g: a[i]^4))/3 - mu\n",
     41, 2, 1},
    /* groups within groups: a group with its own ones is a unit */
    {HEAD
     "param k ~ halfnormal(1)\nparam m[h] ~ normal(mu, tau)\nparam a[g] ~ normal(0, k)\ndata \"rows.csv\"\n"
     "observe y ~ normal(m[h] + a[g], 1)\n",
     11, 3, 5},
    {HEAD "param size[g] ~ lognormal(mu, tau)\ndata \"rows.csv\"\nobserve y ~ negbin(2, size[g])\n", 41, 2,
     1},
    /* crossed effects, a walk and a product of all do not fall apart */
    {HEAD "param a[g] ~ normal(mu, tau)\nparam b[g] ~ normal(0, 1)\ndata \"rows.csv\"\n"
          "observe y ~ normal(a[g] + b[k], 1)\n",
     0, 0, 0},
    {HEAD "param a[i in g] ~ normal(if i > 1 then a[max(i - 1, 1)] else 0, tau)\nlogp -mu^2\n", 0, 0, 0},
    {HEAD "param a[g] ~ normal(0, 1)\nlogp -(sum(i in g: a[i]) - mu)^2/tau\n", 0, 0, 0},
};

static void units_are_found(void) {
  write_rows("rows.csv");
  for (size_t k = 0; k < sizeof CASES / sizeof *CASES; k++) {
    atvi_ctx *ctx = test_ctx();
    atvi_model *m = test_load(ctx, test_file("m.atvi", CASES[k].text), true);
    const atvi_target *t = atvi_model_target(m);
    CHECK_MSG(t->n_unit == CASES[k].n_unit, "case %zu: %td units", k, t->n_unit);
    if (t->n_unit > 0) {
      CHECK(t->unit[0].name[0] == 0 && t->unit[1].name[0] != 0);
      CHECK_INT(t->unit[0].n_on, CASES[k].common);
      CHECK_INT(t->unit[1].n_outer, CASES[k].common);
      CHECK_INT(t->unit[1].n_on - t->unit[1].n_outer, CASES[k].own);
      check_parts(ctx, t);
    }
    atvi_model_free(m);
    atvi_ctx_free(ctx);
    CHECK_INT(test_live, 0);
  }
}

static void few_parameters_have_none(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_model *m = test_load(ctx,
                            test_file("m.atvi", "index g = 1..8\nparam mu ~ normal(0, 1)\n"
                                                "param a[g] ~ normal(mu, 1)\nlogp -sum(i in g: a[i]^4)\n"),
                            true);
  CHECK_INT(atvi_model_target(m)->n_unit, 0);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
}

TESTS({"found", units_are_found}, {"few", few_parameters_have_none})
