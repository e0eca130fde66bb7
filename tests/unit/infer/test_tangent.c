/* SPDX-License-Identifier: MIT */
/* Gradients against tangents: right ones pass, however rough the density; wrong ones are told, with the
 * parameter. */
#include "infer/optimum.h"
#include "models.h"
#include <math.h>

static const char MODEL[] = "param a in (0.5, 2)\nparam b ~ normal(1, 0.3) in (0.5, 3)\nparam y0 ~ "
                            "lognormal(1, 0.2)\nparam s ~ halfnormal(b^2)\n"
                            "state x = y0\nstate z = 0.1\npulse x += 0.5*a at b\n"
                            "dx/dt = -a*x + b*z^2/(1 + z)\ndz/dt = a*x - b*z + exp(-s)\n"
                            "data \"d.csv\" time t\nobserve v ~ normal(x + z, s)\n";

enum { N = 4 };
static const double AT[4 * N] = {0.7, 1.1, 1.9, 0.6, 0.8, 1.2, 1.01, 0.95,
                                 2.2, 2.9, 3.1, 2.5, 0.4, 0.9, 1.4,  0.2};

static atvi_model *load(atvi_ctx *ctx, const char *text, atvi_evaluator **ev) {
  atvi_model *m;
  test_file("d.csv", "t,v\n0.5,2.1\n1,1.7\n2,1.2\n3.5,0.9\n");
  atvi_status status = atvi_model_load_with(ctx, test_file("m.atvi", text),
                                            &(atvi_model_load_opts){.interpret = true, .tangents = true}, &m);
  CHECK_MSG(status == ATVI_OK, "%s", atvi_errmsg(ctx));
  CHECK(m->target.ops->tangent);
  CHECK_OK(atvi_model_evaluator_new(ctx, &m->target, ev));
  return m;
}

static void right_ones_pass(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_evaluator *ev;
  atvi_tangent_info y;
  atvi_model *m = load(ctx, MODEL, &ev);
  for (uint64_t seed = 1; seed <= 3; seed++) {
    CHECK_OK(atvi_infer_gradient_tangents(ctx, ev, N, N, AT, seed, &y));
    CHECK(y.points == N && y.wrong == 0 && y.off > 0 && y.off < 1e-12);
  }
  for (long fail = 1; fail < 3; fail++) {
    test_fail_at = test_allocs + fail;
    atvi_status status = atvi_infer_gradient_tangents(ctx, ev, N, N, AT, 1, &y);
    test_fail_at = 0;
    CHECK_INT(status, fail == 1 ? ATVI_ENOMEM : ATVI_OK);
  }
  atvi_model_evaluator_free(ev);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* A program with a mistake: element `at` of output `slot` is `factor` times what it should be. */
typedef struct {
  atvi_prog right;
  int slot;
  atvi_idx at;
  double factor;
} mistake;

static void mistaken(const void *self, double *scratch, const double *const *in, double *const *out) {
  const mistake *k = self;
  double *x = out[k->slot] + k->at * ATVI_LANES, before[ATVI_LANES];
  memcpy(before, x, sizeof before); /* outputs may be added to */
  k->right.fn(k->right.self, scratch, in, out);
  for (int l = 0; l < ATVI_LANES; l++) {
    const double gain = k->slot ? x[l] - before[l] : x[l];
    x[l] = (k->slot ? before[l] : 0) + k->factor * gain;
  }
}

static atvi_tangent_info with(mistake k, size_t program) {
  atvi_ctx *ctx = test_ctx();
  atvi_evaluator *ev;
  atvi_tangent_info y;
  atvi_model *m = load(ctx, MODEL, &ev);
  atvi_prog *p = (atvi_prog *)((char *)m + program);
  k.right = *p;
  *p = (atvi_prog){mistaken, &k, p->scratch};
  CHECK_OK(atvi_infer_gradient_tangents(ctx, ev, N, N, AT, 1, &y));
  atvi_model_evaluator_free(ev);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
  return y;
}

static void wrong_ones_are_told(void) {
  /* the sign of the gradient of the log likelihood by b */
  atvi_tangent_info y =
      with((mistake){.slot = 0, .at = 1, .factor = -1}, offsetof(atvi_model, prog.setup_vjp));
  CHECK(y.wrong == 1 && y.param == 1 && !y.in_prior && y.worst > 1 && y.off > 0.1);
  CHECK_REL(y.gradient, -y.tangent, 1e-10);
  CHECK(y.x == AT[N] || y.x == AT[N + 1] || y.x == AT[N + 2] || y.x == AT[N + 3]);
  y = with((mistake){.slot = 0, .at = 0, .factor = 1}, offsetof(atvi_model, prog.setup_vjp));
  CHECK_INT(y.wrong, 0);
  /* a rule of the equations: all that goes through them is a little off */
  y = with((mistake){.slot = 0, .at = 1, .factor = 1 + 1e-4}, offsetof(atvi_model, odes.fit.vjp));
  CHECK(y.wrong >= 3 && !y.in_prior && y.worst < 1e-2 && y.worst > 1e-6);
  CHECK(y.off > 1e-7);
}

/* Explicit steps with equations that are too stiff for them, and a state that dies out: the steps magnify
 * rounding at some points of the prior, and differences of the density say anything. */
static void rough_densities_are_no_mistake(void) {
  static const char text[] =
      "param CL in (0.01, 1000)\nparam Q in (0.01, 1000)\nparam V1 in (0.1, 100)\nparam V2 in (0.1, "
      "100)\nparam s in (0.1, 20)\n"
      "start 0\nstate A = 100\nstate P = 0\ndA/dt = -CL/V1*A - Q/V1*A + Q/V2*P\ndP/dt = Q/V1*A - Q/V2*P\n"
      "data \"d.csv\" time t\nobserve v ~ lognormal(log(abs(A)/V1 + 1e-12), s)\nsolver rk45 tol 1e-6\n";
  enum { DRAWS = 128 };
  static double at[5 * DRAWS];
  atvi_ctx *ctx = test_ctx();
  atvi_evaluator *ev;
  atvi_tangent_info y;
  atvi_gradient_info d;
  atvi_model *m = load(ctx, text, &ev);
  m->target.ops->prior_draw(m, atvi_model_evaluator_work(ev), 1, 0, DRAWS, at);
  CHECK_OK(atvi_infer_gradient_tangents(ctx, ev, DRAWS, DRAWS, at, 1, &y));
  CHECK_MSG(y.points > DRAWS / 2 && y.wrong == 0 && y.off > 1e-9, "%td points, %g", y.points, y.off);
  CHECK_OK(atvi_infer_gradient_compare(ctx, ev, DRAWS, DRAWS, at, 0, &d));
  CHECK(d.off > 1e-3);
  atvi_model_evaluator_free(ev);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
}

TESTS({"right", right_ones_pass}, {"wrong", wrong_ones_are_told}, {"rough", rough_densities_are_no_mistake})
