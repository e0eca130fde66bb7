/* SPDX-License-Identifier: MIT */
/* What varies over time and rows: indices from columns and tables, tables of parameters. Each against the
 * same model written out at length. */
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
  t->ops->eval(t->self, work,
               &(atvi_batch){.B = B,
                             .theta = theta,
                             .log_prior = a->lp,
                             .log_lik = a->ll,
                             .grad_prior = a->gp,
                             .grad_lik = a->gl,
                             .outcome = outcome});
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

/* Steps and lines between expressions of parameters; jumps are landed on, and ends hold. */
static void tables_of_parameters(void) {
  test_file("decay.csv", "day,y\n1,9\n5,3\n10,2.5\n13,1\n21,0.5\n33,0.1\n");
#define M                                                                                                    \
  "param b[1..3] ~ lognormal(-2, 0.5)\nparam s ~ halfnormal(0.3)\nstart 0\nstate x = 10\n"                   \
  "data \"decay.csv\" time day\nsolver rk45 tol 1e-8\n"
  same(M "table r step = [2: b[1], 10: b[2]/2, 12.5: 0.1, 30: b[3]]\ndx/dt = -r*x\n"
         "observe y ~ lognormal(log(x), s*(1 + r))\ntrack rate = r\n",
       M "table k step = [2: 1, 10: 2, 12.5: 3, 30: 4]\n"
         "let r = if k == 1 then b[1] else if k == 2 then b[2]/2 else if k == 3 then 0.1 else b[3]\n"
         "dx/dt = -r*x\nobserve y ~ lognormal(log(x), s*(1 + r))\ntrack rate = r\n",
       true, 1e-9);
  const char *lines =
      M "table h1 linear = [2: 1, 10: 0, 12.5: 0, 30: 0]\ntable h2 linear = [2: 0, 10: 1, 12.5: 0, 30: 0]\n"
        "table h3 linear = [2: 0, 10: 0, 12.5: 1, 30: 0]\ntable h4 linear = [2: 0, 10: 0, 12.5: 0, 30: 1]\n"
        "let r = h1*b[1] + h2*b[2]/2 + h3*0.1 + h4*b[3]\n"
        "dx/dt = -r*x\nobserve y ~ lognormal(log(x), s*(1 + r))\n";
  same(M "let half = b[2]/2\ntable r linear = [2: b[1], 10: half, 12.5: 0.1, 30: b[3]]\ndx/dt = -r*x\n"
         "observe y ~ lognormal(log(x), s*(1 + r))\n",
       lines, true, 1e-7);
#undef M
  test_file("dates.csv", "date,y\n2020-03-20,9\n2020-03-23,3\n2020-04-01,2.5\n");
#define M "param b[1..2] ~ normal(0, 1)\ncalendar 2020-03-01 day\ndata \"dates.csv\" time date\n"
  same(M "table m step = [2020-03-01: b[1], 2020-03-23: b[2]]\nobserve y ~ normal(m, 1)\n",
       M "observe y ~ normal(if date < 22 then b[1] else b[2], 1)\n", true, 1e-12);
  same(M "table m linear = [2020-03-01: b[1], 2020-04-01: b[2]]\nobserve y ~ normal(m, 1)\n",
       M "observe y ~ normal(b[1] + (b[2] - b[1])*date/31, 1)\n", true, 1e-12);
#undef M
}

/* The cubics of a natural spline from their conditions, by elimination with pivots: value[4] at given times. */
enum { KNOTS = 5, UNKNOWN = 4 * (KNOTS - 1) };
static double natural(const double *t, const double *y, double at) {
  double a[UNKNOWN][UNKNOWN + 1] = {{0}};
  int row = 0;
  for (int i = 0; i < KNOTS - 1; i++) {
    double h = t[i + 1] - t[i];
    double *left = a[row++], *right = a[row++];
    left[4 * i] = 1, left[UNKNOWN] = y[i];
    for (int p = 0; p < 4; p++) right[4 * i + p] = pow(h, p);
    right[UNKNOWN] = y[i + 1];
    if (i == KNOTS - 2) continue;
    double *slope = a[row++], *bend = a[row++];
    slope[4 * i + 1] = 1, slope[4 * i + 2] = 2 * h, slope[4 * i + 3] = 3 * h * h, slope[4 * i + 5] = -1;
    bend[4 * i + 2] = 2, bend[4 * i + 3] = 6 * h, bend[4 * i + 6] = -2;
  }
  a[row++][2] = 1;
  a[row][UNKNOWN - 2] = 2, a[row][UNKNOWN - 1] = 6 * (t[KNOTS - 1] - t[KNOTS - 2]);
  for (int k = 0; k < UNKNOWN; k++) {
    int top = k;
    for (int i = k; i < UNKNOWN; i++)
      if (fabs(a[i][k]) > fabs(a[top][k])) top = i;
    for (int j = 0; j <= UNKNOWN; j++) {
      double x = a[k][j];
      a[k][j] = a[top][j], a[top][j] = x;
    }
    for (int i = 0; i < UNKNOWN; i++) {
      double f = i == k ? 0 : a[i][k] / a[k][k];
      for (int j = k; j <= UNKNOWN && f != 0; j++) a[i][j] -= f * a[k][j];
    }
  }
  if (at <= t[0]) return y[0];
  if (at >= t[KNOTS - 1]) return y[KNOTS - 1];
  int i = 0;
  while (at >= t[i + 1]) i++;
  double sum = 0;
  for (int p = 0; p < 4; p++) sum += a[4 * i + p][UNKNOWN] / a[4 * i + p][4 * i + p] * pow(at - t[i], p);
  return sum;
}

/* Units have splines of their own, with as many knots as each of them has rows; through two knots it is a
 * line. */
static void units_have_their_own_splines(void) {
  static const double T[KNOTS] = {1, 3, 7.5, 20, 21}, Y[KNOTS] = {0.3, 1.2, -0.7, 0.4, 0.2},
                      AT[4] = {0, 2, 6, 22};
  atvi_ctx *ctx = test_ctx();
  test_file("own.csv", "u,day,v\na,1,0.3\nb,0,1\na,3,1.2\na,7.5,-0.7\na,20,0.4\nb,10,2\na,21,0.2\n");
  test_file("seen.csv", "u,day,y\na,0,1\na,2,1\na,6,1\na,22,1\nb,0,1\nb,2,1\nb,6,1\nb,22,1\n");
  for (int ode = 0; ode < 2; ode++) {
    char text[400];
    snprintf(
        text, sizeof text,
        "param q ~ normal(0, 1)\neach u in a, b {\n  table m spline from \"own.csv\" time day column v\n%s"
        "  data \"seen.csv\" time day\n  observe y ~ normal(%s, 1)\n}\n",
        ode ? "  state A = 0\n  dA/dt = q*m\n  start 0\n" : "", ode ? "A" : "m + 0*q");
    atvi_model *m = test_load(ctx, test_file("own.atvi", text), ode);
    const atvi_target *t = atvi_model_target(m);
    double got[64], theta = 0.7;
    void *work;
    CHECK_OK(t->ops->work_new(t->self, ctx, &work));
    CHECK(t->n_out <= 64);
    t->ops->predict(t->self, work, 1, &theta, got);
    for (int i = 0; i < 4; i++) {
      static const double AREA[4] = {0, 2.2, 7.8, 39};
      if (!ode) CHECK_ABS(got[i], natural(T, Y, AT[i]), 1e-10);
      CHECK_ABS(got[4 + i], ode ? theta * AREA[i] : AT[i] < 10 ? 1 + AT[i] / 10 : 2, ode ? 1e-3 : 1e-12);
    }
    t->ops->work_free(work);
    if (ode) CHECK(test_gradient(ctx, t, &theta, 1e-6) < 1e-6);
    atvi_model_free(m);
  }
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void splines_are_natural(void) {
  static const double T[KNOTS] = {18000, 18003, 18007.5, 18020, 18021};
  atvi_ctx *ctx = test_ctx();
  char csv[4000] = "day,y\n";
  size_t n = strlen(csv);
  enum { N = 60 };
  for (int i = 0; i < N; i++) n += (size_t)snprintf(csv + n, sizeof csv - n, "%.17g,0.3\n", 17998 + 0.45 * i);
  test_file("spline.csv", csv);
  test_file("knots.csv", "day,v\n18000,0.3\n18003,1.2\n18007.5,-0.7\n18020,0.4\n18021,0.2\n");
  const char *form = "param b[1..3] ~ normal(0, 1)\ndata \"spline.csv\" time day\nobserve y ~ normal(m, "
                     "1)\ntable m spline %s\n";
  const char *values[3] = {"= [18000: 0.3, 18003: 1.2, 18007.5: -0.7, 18020: 0.4, 18021: 0.2]",
                           "from \"knots.csv\" time day column v",
                           "= [18000: b[1], 18003: b[2]*b[3], 18007.5: -0.7, 18020: exp(b[3]), 18021: 0.2]"};
  for (int k = 0; k < 6; k++) {
    char text[400];
    snprintf(text, sizeof text, form, values[k / 2]);
    atvi_model *m = test_load(ctx, test_file("spline.atvi", text), k % 2);
    const atvi_target *t = atvi_model_target(m);
    const double theta[3] = {0.731, -1.3, 0.9};
    double y[KNOTS] = {0.3, 1.2, -0.7, 0.4, 0.2}, got[N], ll = 0;
    if (k / 2 == 2) y[0] = theta[0], y[1] = theta[1] * theta[2], y[3] = exp(theta[2]);
    void *work;
    CHECK_OK(t->ops->work_new(t->self, ctx, &work));
    CHECK_INT(t->n_out, N);
    t->ops->predict(t->self, work, 1, theta, got);
    for (int i = 0; i < N; i++) {
      double want = natural(T, y, 17998 + 0.45 * i);
      CHECK_ABS(got[i], want, 1e-10);
      ll += -0.5 * (0.3 - want) * (0.3 - want) - 0.91893853320467274178;
    }
    t->ops->work_free(work);
    CHECK_REL(test_eval(ctx, t, theta).ll, ll, 1e-11);
    CHECK(test_gradient(ctx, t, theta, 1e-6) < 1e-7);
    atvi_model_free(m);
  }
  atvi_ctx_free(ctx);
#define M                                                                                                    \
  "param b[1..3] ~ lognormal(-2, 0.5)\nparam s ~ halfnormal(0.3)\nstart 0\nstate x = 10\n"                   \
  "data \"decay.csv\" time day\nsolver rk45 tol 1e-8\ndx/dt = -r*x\nobserve y ~ lognormal(log(x), s)\n"
  test_file("decay.csv", "day,y\n1,9\n5,3\n10,2.5\n13,1\n21,0.5\n33,0.1\n");
  same(M "table r spline = [2: b[1], 10: b[2], 30: b[3]]\n",
       M "table s1 spline = [2: 1, 10: 0, 30: 0]\ntable s2 spline = [2: 0, 10: 1, 30: 0]\n"
         "table s3 spline = [2: 0, 10: 0, 30: 1]\nlet r = s1*b[1] + s2*b[2] + s3*b[3]\n",
       true, 1e-7);
#undef M
}

/* A walk is a table of values, each with a prior around the one before. */
static void walks(void) {
  test_file("cases.csv", "day,y\n1,9\n5,3\n10,2.5\n13,1\n21,0.5\n28,0.1\n");
#define M                                                                                                    \
  "param s ~ halfnormal(0.3)\nparam f ~ uniform(0.2, 0.9)\nstart 0\nstate x = 10\ndata \"cases.csv\" time "  \
  "day\n"
#define E "dx/dt = -0.1*exp(z)*x\nobserve y ~ lognormal(log(x), 0.2 + z^2)\n"
  const char *solver[3] = {"solver rk45 tol 1e-8\n", "solver stiff tol 1e-8\n", "solver rk4 step 0.25\n"};
  for (int i = 0; i < 3; i++) {
    char a[1000], b[1000];
    snprintf(a, sizeof a, "%s%s%swalk z every 7 from 0 to 28 ~ normal(0.1, s) from normal(-1, 0.5)\n",
             solver[i], M, E);
    snprintf(
        b, sizeof b,
        "%s%s%sparam w[i in 0..4] ~ normal(if i > 0 then w[i-1] + 0.1 else -1, if i > 0 then s else 0.5)\n"
        "table z step = [0: w[0], 7: w[1], 14: w[2], 21: w[3], 28: w[4]]\n",
        solver[i], M, E);
    same(a, b, true, 1e-9);
    snprintf(a, sizeof a, "%s%s%swalk z at [2, 10, 13.5, 30] ~ ar1(f, s) from student(5, 0, 0.5) linear\n",
             solver[i], M, E);
    snprintf(b, sizeof b,
             "%s%s%sparam z0 ~ student(5, 0, 0.5)\nparam w[i in 1..3] ~ normal(if i > 1 then f*w[i-1] else "
             "f*z0, s)\n"
             "table z linear = [2: z0, 10: w[1], 13.5: w[2], 30: w[3]]\n",
             solver[i], M, E);
    same(a, b, true, 1e-9);
  }
#undef M
#undef E
}

/* The same density as with the increments as parameters. */
static void walks_and_increments(void) {
  static answer a, b;
  static double theta[MOST];
  atvi_ctx *ctx = test_ctx();
  test_file("cases.csv", "day,y\n1,9\n5,3\n10,2.5\n13,1\n21,0.5\n28,0.1\n");
  for (int ar = 0; ar < 2; ar++) {
    char text[400];
    theta[0] = NAN;
    snprintf(
        text, sizeof text,
        "param s ~ halfnormal(0.3)\nparam f ~ uniform(0.2, 0.9)\ndata \"cases.csv\" time day\nparam z0 ~ "
        "normal(-1, 0.5)\nparam e[1..3] ~ %s\nlet w[i in 0..3] = if i == 0 then z0 else %sw[i-1] + e[i]\n"
        "table z step = [0: w[0], 7: w[1], 14: w[2], 21: w[3]]\nobserve y ~ normal(exp(z), s)\n",
        ar ? "normal(0, s)" : "student(4, 0.1, s)", ar ? "f*" : "");
    ask(ctx, "increments.atvi", text, true, theta, &b);
    for (int k = 3; k < 6; k++)
      for (int l = 0; l < B; l++) theta[k * B + l] += (ar ? theta[B + l] : 1) * theta[(k - 1) * B + l];
    snprintf(text, sizeof text,
             "param s ~ halfnormal(0.3)\nparam f ~ uniform(0.2, 0.9)\ndata \"cases.csv\" time day\n"
             "walk z every 7 from 0 to 21 ~ %s from normal(-1, 0.5)\nobserve y ~ normal(exp(z), s)\n",
             ar ? "ar1(f, s)" : "student(4, 0.1, s)");
    ask(ctx, "values.atvi", text, true, theta, &a);
    compare("log prior", B, a.lp, b.lp, 1e-12);
    compare("log likelihood", B, a.ll, b.ll, 1e-12);
  }
  atvi_ctx_free(ctx);
}

static void check_names(const char *text, atvi_idx n, const char *const *name) {
  atvi_ctx *ctx = test_ctx();
  atvi_model *m = test_load(ctx, test_file("names.atvi", text), true);
  const atvi_target *t = atvi_model_target(m);
  CHECK_INT(t->d, n);
  for (atvi_idx i = 0; i < n; i++) CHECK_STR(t->param[i].name, name[i]);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
}

/* Parameters of a walk have the times of its knots, which cover the data. */
static void names_of_walks(void) {
  test_file("cases.csv", "day,y\n1,9\n5,3\n17,1\n");
  test_file("dates.csv", "date,y\n2020-02-27,9\n2020-03-23,3\n2020-04-02,2.5\n");
#define Y "observe y ~ normal(z, 1)\n"
#define N "data \"cases.csv\" time day\n" Y
#define D "calendar 2020-03-01 day\ndata \"dates.csv\" time date\n" Y
  check_names(
      N "param a ~ normal(0, 1)\nwalk z every 7 ~ normal(0, a^2) from normal(0, 1)\nparam b ~ normal(0, 1)\n",
      5, (const char *const[]){"a", "z.1", "z.8", "z.15", "b"});
  check_names(N "walk z every 7 ~ normal(0, 1) from normal(0, 1) linear\n", 4,
              (const char *const[]){"z.1", "z.8", "z.15", "z.22"});
  check_names(N "walk z every 2.5 from 0 to 5 ~ normal(0, 1) from normal(0, 1) step\n", 3,
              (const char *const[]){"z.0", "z.2.5", "z.5"});
  check_names(N "walk z at [-3, 10] ~ cauchy(0, 1) from normal(0, 1)\n", 2,
              (const char *const[]){"z.-3", "z.10"});
  check_names(D "walk z weekly from 2020-03-15 ~ normal(0, 1) from normal(0, 1)\n", 3,
              (const char *const[]){"z.2020-03-15", "z.2020-03-22", "z.2020-03-29"});
  check_names(D "walk z monthly ~ normal(0, 1) from normal(0, 1)\n", 3,
              (const char *const[]){"z.2020-02-27", "z.2020-03-01", "z.2020-04-01"});
  check_names(D "walk z daily from 2020-02-28 to 2020-03-01 ~ normal(0, 1) from normal(0, 1)\n", 3,
              (const char *const[]){"z.2020-02-28", "z.2020-02-29", "z.2020-03-01"});
#undef Y
#undef N
#undef D
}

/* Renewal and reporting delays, by convolve() and with a state for every step back. */
static void convolutions(void) {
  test_file("daily.csv", "day,y,z\n0,1,3\n1,0,5\n2,4,NA\n3,2,7\n5,9,4\n8,12,20\n13,30,41\n");
#define M                                                                                                    \
  "param R ~ lognormal(0.1, 0.2)\nparam seed ~ lognormal(2, 0.5)\nparam k ~ lognormal(0, 0.3)\n"             \
  "let w[i in 1..4] = exp(-k*i)/(exp(-k) + exp(-2*k) + exp(-3*k) + exp(-4*k))\n"                             \
  "const d[1..2] = [0.6, 0.25]\ndata \"daily.csv\" time day\ntable begin step = [0: 1, 1: 0]\n"              \
  "observe y ~ poisson(late + 0.1)\nobserve z ~ poisson(i + 1)\n"
#define LAGS                                                                                                 \
  "state a[1..4] = 0\nnext a[1] = i\nnext a[j in 2..4] = a[j - 1]\n"                                         \
  "let late = d[1]*a[1] + d[2]*a[2]\n"
  same(M "let i = begin*seed + R*convolve(i, w)\nlet late = convolve(i, d)\n",
       M LAGS "let i = begin*seed + R*(w[1]*a[1] + w[2]*a[2] + w[3]*a[3] + w[4]*a[4])\n", true, 1e-12);
  same(M "state c = 0\nfunction past(x) = convolve(x, d)\nnext c = c + i\n"
         "let i = begin*seed + R*(1 - c/1000)*convolve(i, w)\nlet late = past(i)\n",
       M LAGS "state c = 0\nnext c = c + i\n"
              "let i = begin*seed + R*(1 - c/1000)*(w[1]*a[1] + w[2]*a[2] + w[3]*a[3] + w[4]*a[4])\n",
       true, 1e-12);
#undef LAGS
  const char *at_length =
      M "state i = seed\nnext i = R*(w[1]*i + w[2]*a[1] + w[3]*a[2] + w[4]*a[3])\nstate a[1..3] = 0\n"
        "next a[1] = i\nnext a[j in 2..3] = a[j - 1]\nlet late = d[1]*a[1] + d[2]*a[2]\n";
  same(M "state i = seed\nnext i = R*convolve(i, w)\nlet late = convolve(i, d)\n", at_length, true, 1e-12);
  same(M "state i = seed\nnext i = R*convolve(i + 0, w)\nlet late = convolve(2*i, d)/2\n", at_length, true,
       1e-12);
#undef M
  /* past values are not shown */
  atvi_ctx *ctx = test_ctx();
  atvi_model *m = test_load(ctx,
                            test_file("lags.atvi", "param a ~ normal(0, 1)\nconst w[1..9] = 0.1\n"
                                                   "data \"daily.csv\" time day\nstate x = 1\n"
                                                   "next x = a*convolve(x, w)\nobserve y ~ poisson(x^2)\n"),
                            true);
  CHECK_INT(atvi_model_target(m)->n_series, 2);
  CHECK_INT(m->states.n, 9);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
}

/* The model cannot be read, and the message has these words. */
static void refused(const char *text, const char *first, const char *second) {
  atvi_ctx *ctx = test_ctx();
  atvi_model *m;
  atvi_status status = atvi_model_load_with(ctx, test_file("refused.atvi", text), NULL, &m);
  CHECK(status == ATVI_EDATA || status == ATVI_EMODEL);
  CHECK_MSG(strstr(atvi_errmsg(ctx), first) && strstr(atvi_errmsg(ctx), second) &&
                strstr(atvi_errmsg(ctx), "hint: "),
            "%s", atvi_errmsg(ctx));
  atvi_ctx_free(ctx);
}

/* Units with their own walks, tables of their own numbers, and indices from their files, against one model
 * with all of them. */
static void units(void) {
  test_file("regions.csv", "region,arm,rate\nn,high,0.3\ns,low,0.1\n");
  test_file("long.csv", "region,day,site,y\nn,2,B,9\nn,9,A,3\nn,20,A,1\ns,1,A,8\ns,4,B,5\ns,15,B,2\n");
  test_file("n.csv", "day,site,yn\n2,2,9\n9,1,3\n20,1,1\n");
  test_file("s.csv", "day,site,ys\n1,1,8\n4,2,5\n15,2,2\n");
#define M                                                                                                    \
  "index arm = low, high\nindex site = A, B\nparam k[arm] ~ lognormal(-2, 0.3)\nparam b[site] ~ normal(0, "  \
  "0.3)\nparam s ~ halfnormal(0.2)\n"
  same(M "each region from \"regions.csv\" {\n  walk z every 7 ~ normal(0, s) from normal(0, 0.5)\n"
         "  table extra step = [0: k[1]*rate, 6: k[2]]\n  state x = 10\n"
         "  dx/dt = -k[arm]*exp(z)*x - extra*x\n  data \"long.csv\" time day\n  let m = log(x) + b[site]\n"
         "  observe y ~ lognormal(m, 0.3)\n  start 0\n}\nsolver rk45 tol 1e-9\n",
       M "param z0n ~ normal(0, 0.5)\nparam z0s ~ normal(0, 0.5)\nparam z1n ~ normal(z0n, s)\nparam z1s ~ "
         "normal(z0s, s)\n"
         "param z2n ~ normal(z1n, s)\nparam z2s ~ normal(z1s, s)\n"
         "table zn step = [1: z0n, 8: z1n, 15: z2n]\ntable zs step = [1: z0s, 8: z1s, 15: z2s]\n"
         "table en step = [0: k[1]*0.3, 6: k[2]]\ntable es step = [0: k[1]*0.1, 6: k[2]]\nstart 0\n"
         "state n = 10\nstate m = 10\ndn/dt = -k[high]*exp(zn)*n - en*n\ndm/dt = -k[low]*exp(zs)*m - es*m\n"
         "data \"n.csv\" time day\ndata \"s.csv\" time day\nobserve yn ~ lognormal(log(n) + b[site], 0.3)\n"
         "observe ys ~ lognormal(log(m) + b[site], 0.3)\nsolver rk45 tol 1e-9\n",
       false, 1e-6);
  /* in priors, initial values, equations, pulses, observations and derived values alike */
  same(M "param c[1..2, 1..2] ~ normal(0, 1)\nlet twice[i in arm] = 2*k[i]\n"
         "each region from \"regions.csv\" {\n  param p ~ lognormal(c[arm, 1], s)\n  state x = 5 + k[arm]\n"
         "  dx/dt = -p*x + twice[arm] + c[2, arm]*k[3 - arm]\n  pulse x += k[arm] at [3, 6]\n"
         "  data \"long.csv\" time day\n  observe y ~ normal(x + c[1, arm] + b[site], 2)\n  start 0\n}\n"
         "solver rk45 tol 1e-11\n",
       M "param c[1..2, 1..2] ~ normal(0, 1)\nparam pn ~ lognormal(c[2, 1], s)\nparam ps ~ lognormal(c[1, "
         "1], s)\n"
         "start 0\nstate n = 5 + k[high]\nstate m = 5 + k[low]\n"
         "dn/dt = -pn*n + 2*k[high] + c[2, 2]*k[low]\ndm/dt = -ps*m + 2*k[low] + c[2, 1]*k[high]\n"
         "pulse n += k[high] at [3, 6]\npulse m += k[low] at [3, 6]\n"
         "data \"n.csv\" time day\ndata \"s.csv\" time day\nobserve yn ~ normal(n + c[1, 2] + b[site], 2)\n"
         "observe ys ~ normal(m + c[1, 1] + b[site], 2)\nsolver rk45 tol 1e-11\n",
       false, 1e-4);
#define U "each region from \"regions.csv\" {\n  data \"long.csv\" time day\n  observe y ~ normal("
  refused("param k[1..2] ~ normal(0, 1)\n" U "k[rate], 1)\n}\n", "regions.csv:2:8",
          "index 0.3 of 'k' is not a whole number");
  refused(M "param c[1..1] ~ normal(0, 1)\n" U "c[arm], 1)\n}\n", "regions.csv:2:3",
          "index 2 of 'c' is outside 1..1");
  refused("param k[1..2] ~ normal(0, 1)\n" U "k[day], 1)\n}\n", "long.csv:3:3",
          "index 9 of 'k' is outside 1..2");
  refused("param k[1..20] ~ normal(0, 1)\nindex site = A, C\n" U "k[day] + k[site], 1)\n}\n", "long.csv:2:5",
          "'B' is not a label of 'site'");
  refused("param k[1..2] ~ normal(0, 1)\n" U "k[rate*k[1]], 1)\n}\n", "refused.atvi:4",
          "an index cannot use a parameter");
  refused("param k[1..2] ~ normal(0, 1)\n" U "k[rate*day], 1)\n}\n", "refused.atvi:4", "not of both");
#undef U
  /* a walk outside is shared, and follows the data of all units */
  check_names("walk z every 7 ~ normal(0, 1) from normal(0, 1)\neach region from \"regions.csv\" {\n"
              "  data \"long.csv\" time day\n  observe y ~ normal(z, 1)\n}\n",
              3, (const char *const[]){"z.1", "z.8", "z.15"});
  check_names("each region from \"regions.csv\" {\n  walk z every 14 ~ normal(0, 1) from normal(0, 1)\n"
              "  data \"long.csv\" time day\n  observe y ~ normal(z, 1)\n}\n",
              4, (const char *const[]){"z.1.n", "z.1.s", "z.15.n", "z.15.s"});
  same(M "each region from \"regions.csv\" {\n  let i = s*convolve(i, w) + k[arm]\n  data \"long.csv\" time "
         "day\n"
         "  observe y ~ normal(i, 1)\n  start 0\n}\nconst w[1..3] = [0.5, 0.3, 0.2]\nstep 0.5\n",
       M "const w[1..3] = [0.5, 0.3, 0.2]\nlet i = s*convolve(i, w) + k[high]\nlet j = s*convolve(j, w) + "
         "k[low]\n"
         "data \"n.csv\" time day\ndata \"s.csv\" time day\nstart 0\nstep 0.5\nobserve yn ~ normal(i, "
         "1)\nobserve ys ~ normal(j, 1)\n",
       false, 1e-12);
#undef M
}

/* Lists, tables and walks in one model, loaded with memory that runs out everywhere. */
static void memory_may_run_out_anywhere(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("cases.csv", "day,y,id\n1,9,1\n5,3,2\n17,1,2\n");
  const char *path =
      test_file("memory.atvi", "param b[1..2] ~ normal(0, 1)\ndata \"cases.csv\" time day\nstate x = 1\n"
                               "walk z every 7 ~ normal(0, exp(b[1])) from normal(0, 1)\n"
                               "table k step = [0: 1, 3: 2]\ntable r spline = [0: b[1], 3: b[2], 9: 1]\n"
                               "dx/dt = z*b[k] + r\nobserve y ~ normal(x + b[id], 1)\n");
  long live = test_live;
  for (long k = 1;; k += 1 + k / 40) {
    atvi_model *m;
    test_fail_at = test_allocs + k;
    atvi_status status = atvi_model_load_with(ctx, path, &(atvi_model_load_opts){.interpret = true}, &m);
    test_fail_at = 0;
    if (status == ATVI_OK) {
      atvi_model_free(m);
      break;
    }
    CHECK_INT(status, ATVI_ENOMEM);
    CHECK(m == NULL);
    CHECK_INT(test_live, live);
    CHECK(k < 100000);
  }
  CHECK_INT(test_live, live);
  atvi_ctx_free(ctx);
}

TESTS({"item response", item_response}, {"columns", columns_as_indices}, {"tables", tables_as_indices},
      {"parameters", tables_of_parameters}, {"splines", splines_are_natural},
      {"own_splines", units_have_their_own_splines}, {"walks", walks}, {"names", names_of_walks},
      {"increments", walks_and_increments}, {"convolve", convolutions}, {"units", units},
      {"memory", memory_may_run_out_anywhere})
