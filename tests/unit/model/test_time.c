/* SPDX-License-Identifier: MIT */
/* Indices from columns and tables, each against the same model written out at length. */
#include "core/core.h"
#include "model/model.h"
#include "models.h"

enum { B = 11, MOST = 4000 };

typedef struct {
  atvi_idx d, n_obs, n_out;
  double lp[B], ll[B], gp[MOST], gl[MOST], point[MOST], predict[MOST];
} answer;

/* A model at draws from its prior. `theta` is filled by the first model, and used for the second. */
static void ask(atvi_ctx *ctx, const char *name, const char *text, bool interpret, double *theta, answer *a) {
  atvi_model *m = test_load(ctx, test_file(name, text), interpret);
  const atvi_target *t = atvi_model_target(m);
  atvi_outcome outcome[B];
  void *work;
  CHECK_OK(t->ops->work_new(t->self, ctx, &work));
  CHECK(t->d * B <= MOST && t->n_obs * B <= MOST && t->n_out * B <= MOST);
  *a = (answer){.d = t->d, .n_obs = t->n_obs, .n_out = t->n_out};
  if (isnan(theta[0])) t->ops->prior_draw(t->self, work, 7, 0, B, theta);
  t->ops->eval(t->self, work, &(atvi_batch){B, theta, a->lp, a->ll, a->gp, a->gl, outcome});
  t->ops->pointwise(t->self, work, B, theta, a->point);
  t->ops->predict(t->self, work, B, theta, a->predict);
  for (int i = 0; i < B; i++) {
    CHECK_INT(outcome[i], ATVI_RUN_OK);
    double sum = 0;
    for (atvi_idx k = 0; k < t->n_obs; k++) sum += isnan(a->point[k * B + i]) ? 0 : a->point[k * B + i];
    CHECK_MSG(fabs(sum - a->ll[i]) <= 1e-10 * (1 + fabs(sum)), "%.17g %.17g", sum, a->ll[i]);
  }
  t->ops->work_free(work);
  if (t->d <= 32) {
    double point[32];
    for (atvi_idx i = 0; i < t->d; i++) point[i] = theta[i * B + 3];
    double off = test_gradient(ctx, t, point, 1e-6);
    CHECK_MSG(off < 1e-6, "%s: gradient off by %g", name, off);
  }
  atvi_model_free(m);
}

static void compare(const char *what, atvi_idx n, const double *a, const double *b, double tol) {
  double most = 0;
  for (atvi_idx i = 0; i < n; i++) most = fmax(most, isfinite(b[i]) ? fabs(b[i]) : 0);
  for (atvi_idx i = 0; i < n; i++)
    CHECK_MSG((isnan(a[i]) && isnan(b[i])) || fabs(a[i] - b[i]) <= tol * (fabs(b[i]) + 1e-3 * most),
              "%s %td: %.17g, at length %.17g", what, i, a[i], b[i]);
}

/* Both models have the same parameters in the same order. rows: and the same observations. */
static void same(const char *text, const char *at_length, bool rows, double tol) {
  static answer a, b;
  static double theta[MOST];
  atvi_ctx *ctx = test_ctx();
  theta[0] = NAN;
  ask(ctx, "length.atvi", at_length, true, theta, &b);
  for (int interpret = 0; interpret < 2; interpret++) {
    ask(ctx, "short.atvi", text, interpret, theta, &a);
    CHECK_INT(a.d, b.d);
    compare("log prior", B, a.lp, b.lp, tol);
    compare("log likelihood", B, a.ll, b.ll, tol);
    compare("gradient of the prior", a.d * B, a.gp, b.gp, tol);
    compare("gradient", a.d * B, a.gl, b.gl, tol);
    if (!rows) continue;
    CHECK(a.n_obs == b.n_obs);
    compare("pointwise", a.n_obs * B, a.point, b.point, tol);
    compare("predictions", a.n_obs * B, a.predict, b.predict, tol);
  }
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

#define IRT                                                                                                  \
  "index person = 1..30\nindex item = 1..7\nparam theta[person] ~ normal(0, 1)\nparam mu ~ normal(0, 2)\n"   \
  "param tau ~ halfnormal(1)\nparam b[item] ~ normal(mu, tau)\nparam la[item] ~ normal(0, 0.5)\n"            \
  "let a[i in item] = exp(la[i])\n"

/* Two parameters per item; persons and items in columns, and one column per answer. */
static void item_response(void) {
  static char narrow[8000], wide[8000], head[8000];
  size_t n = (size_t)snprintf(narrow, sizeof narrow, "item,y,person\n"), h = 0, w = 0;
  uint32_t state = 1;
  for (int p = 1; p <= 30; p++)
    for (int i = 7; i >= 1; i--) {
      state = state * 1664525u + 1013904223u;
      int y = (int)(state >> 31);
      bool missing = p == 4 && i == 2;
      char cell[4];
      snprintf(cell, sizeof cell, missing ? "NA" : "%d", y);
      n += (size_t)snprintf(narrow + n, sizeof narrow - n, "%d,%s,%d\n", i, cell, p);
      h += (size_t)snprintf(head + h, sizeof head - h, "%sy_%d_%d", h ? "," : "", p, i);
      w += (size_t)snprintf(wide + w, sizeof wide - w, "%s%s", w ? "," : "", cell);
    }
  static char file[16010];
  snprintf(file, sizeof file, "%s\n%s\n", head, wide);
  test_file("narrow.csv", narrow);
  test_file("wide.csv", file);
  const char *at_length = IRT "data \"wide.csv\"\nobserve y[p in person, i in item] ~ binomial(1, "
                              "invlogit(a[i]*(theta[p] - b[i])))\n";
  same(IRT "data \"narrow.csv\"\nobserve y ~ binomial(1, invlogit(a[item]*(theta[person] - b[item])))\n",
       at_length, false, 1e-11);
  same(IRT "data d \"narrow.csv\"\nlet eta = exp(la[item])*(theta[d.person] - b[item])\n"
           "function p(x) = invlogit(x)\nobserve y ~ binomial(1, p(eta))\n",
       at_length, false, 1e-11);
}

/* Labels, two indices, an index of an index, expressions of columns, states. */
static void columns_as_indices(void) {
  test_file("place.csv", "place,k,y\nsouth,2,1.5\neast,1,0.25\nnorth,3,-1\nsouth,1,2\n,3,NA\nnorth,2,0.5\n");
  test_file("length.csv", "p,k,y\n3,2,1.5\n2,1,0.25\n1,3,-1\n3,1,2\n,3,NA\n1,2,0.5\n");
#define M                                                                                                    \
  "index place = north, east, south\nparam s ~ halfnormal(1)\nparam M[place, 1..3] ~ normal(0, 1)\n"         \
  "param c[0..2] ~ normal(1, 1)\nconst group[place] = [2, 0, 2]\n"
  same(M "data \"place.csv\"\nobserve y ~ normal(M[place, k] + M[east, k] + c[k - 1] + c[group[place]] + "
         "(if place == south then 1 else 0), s)\n",
       M "data \"length.csv\"\nlet i = p\n"
         "let row1 = if k == 1 then M[north, 1] else if k == 2 then M[north, 2] else M[north, 3]\n"
         "let row2 = if k == 1 then M[east, 1] else if k == 2 then M[east, 2] else M[east, 3]\n"
         "let row3 = if k == 1 then M[south, 1] else if k == 2 then M[south, 2] else M[south, 3]\n"
         "let ck = if k == 1 then c[0] else if k == 2 then c[1] else c[2]\n"
         "observe y ~ normal((if p == 1 then row1 else if p == 2 then row2 else row3) + row2 + ck + "
         "(if p == 2 then c[0] else c[2]) + (if p == 3 then 1 else 0), s)\n",
       true, 1e-12);
#undef M
  test_file("long.csv", "day,region,n\n1,1,9\n1,2,5\n2,2,7\n3,1,3\n3,2,4\n");
#define M                                                                                                    \
  "index region = 1..2\nparam r[region] ~ lognormal(-1, 0.3)\nparam f ~ lognormal(0, 0.3)\nstart 0\n"        \
  "state I[region] = 10\ndI[i in region]/dt = -r[i]*I[i]\ndata \"long.csv\" time day\n"
  same(M "observe n ~ poisson(f*I[region])\n",
       M "observe n ~ poisson(f*(if region == 1 then I[1] else I[2]))\n", true, 1e-12);
  same(M "let m[i in region] = f*I[i]\nobserve n ~ poisson(m[region])\n",
       M "observe n ~ poisson(f*(if region == 1 then I[1] else I[2]))\n", true, 1e-12);
#undef M
}

/* A table of whole numbers in equations and in observations. */
static void tables_as_indices(void) {
  test_file("decay.csv", "day,y\n1,9\n5,3\n10,2.5\n13,1\n21,0.5\n");
#define M                                                                                                    \
  "param b[1..4] ~ lognormal(-2, 0.5)\nparam s ~ halfnormal(0.3)\nparam g[1..2] ~ normal(0, 0.1)\n"          \
  "start 0\nstate x = 10\ndata \"decay.csv\" time day\ntable period step = [0: 2, 3: 4, 10: 1, 12: 3]\n"     \
  "solver rk45 tol 1e-8\n"
  same(M "dx/dt = -b[period]*x\nobserve y ~ lognormal(log(x) + g[if period > 2 then 2 else 1], s)\n",
       M
       "let rate = if period == 1 then b[1] else if period == 2 then b[2] else if period == 3 then b[3] else "
       "b[4]\n"
       "dx/dt = -rate*x\nobserve y ~ lognormal(log(x) + (if period <= 2 then g[1] else g[2]), s)\n",
       true, 1e-9);
  same(M "dx/dt = -b[period]*x\npulse x += 100*g[if period > 2 then 1 else 2]^2 at [4, 11]\n"
         "observe y ~ lognormal(log(x), s)\n",
       M
       "let rate = if period == 1 then b[1] else if period == 2 then b[2] else if period == 3 then b[3] else "
       "b[4]\n"
       "dx/dt = -rate*x\npulse x += 100*g[1]^2 at 4\npulse x += 100*g[2]^2 at 11\nobserve y ~ "
       "lognormal(log(x), s)\n",
       true, 1e-9);
#undef M
}

TESTS({"item response", item_response}, {"columns", columns_as_indices}, {"tables", tables_as_indices})
