/* SPDX-License-Identifier: MIT */
/* Fits of models from text that has more to say than values and gradients. */
#include "infer/vi.h"
#include "math/stat/stat.h"
#include "models.h"
#include <math.h>

static atvi_draws *fit_text(atvi_ctx *ctx, const char *text, uint64_t seed, double ess) {
  atvi_model *m = test_load(ctx, test_file("m.atvi", text), true);
  atvi_evaluator *ev;
  atvi_draws *d;
  atvi_vi_opts o = atvi_infer_vi_defaults();
  o.seed = seed;
  o.ess = ess;
  CHECK_OK(atvi_model_evaluator_new(ctx, atvi_model_target(m), &ev));
  atvi_status status = atvi_infer_vi_run(ctx, ev, &o, &d);
  CHECK_MSG(status == ATVI_OK, "%s", atvi_errmsg(ctx));
  atvi_model_evaluator_free(ev);
  atvi_model_free(m);
  return d;
}

/* Half of the mass is in a mode 20 times narrower than the other, in five dimensions: a draw of the prior
 * meets it once in 1e8, and nothing leads there. */
static void a_narrow_mode_is_climbed_to_by_itself(void) {
  static const char *const SUM[] = {"max(a, b) + log1p(exp(-abs(a - b)))", "log_sum_exp(a, b)",
                                    "log_mix(0.5, a, b) + log(2)"};
  for (int k = 0; k < 3; k++) {
    atvi_ctx *ctx = test_ctx();
    char text[400];
    snprintf(text, sizeof text,
             "index s = 1..5\nparam x[s] ~ uniform(-10, 10)\nlet a = -0.5*sum(i in s: x[i]^2)\n"
             "let b = -5*log(0.05) - 0.5*sum(i in s: (x[i] - 2)^2)/0.05^2\nlogp %s\n",
             SUM[k]);
    atvi_draws *d = fit_text(ctx, text, 3, NAN);
    double want = log(2) + 2.5 * log(2 * acos(-1)) - 5 * log(20);
    CHECK_ABS(d->made->log_evidence, want, 0.01);
    CHECK_ABS(atvi_math_mean(d->n, d->x, d->weight), 1, 0.05);
    atvi_draws_free(d);
    atvi_ctx_free(ctx);
  }
  CHECK_INT(test_live, 0);
}

/* Two modes, with 30 and 70 % of the mass, on the edges of a region of zero density in which training ends. */
static void modes_on_the_edge_of_nothing(void) {
  static const char TEXT[] =
      "param x ~ uniform(-3, 3)\nparam y ~ uniform(-3, 3)\nlet w = if x > 0 then log(0.3) else log(0.7)\n"
      "logp if abs(x) < 1 then -inf else w - (abs(x) - 1)/0.2 - 0.5*((y - 0.5*x)/0.3)^2\n";
  atvi_ctx *ctx = test_ctx();
  atvi_draws *d = fit_text(ctx, TEXT, 31, NAN);
  double right = 0;
  for (atvi_idx i = 0; i < d->n; i++)
    right += d->x[i] > 0 ? d->weight ? d->weight[i] : 1.0 / (double)d->n : 0;
  CHECK_ABS(right, 0.3, 0.02);
  CHECK_ABS(d->made->log_evidence, -5.478, 0.02);
  CHECK_MSG(d->made->evaluations < 1000000, "%g", (double)d->made->evaluations);
  atvi_draws_free(d);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* A ridge from corner to corner of a box, both coordinates of which are folded: q has two of the four
 * branches that meet in a corner. */
static void branches_of_a_ridge_in_a_corner(void) {
  static const char TEXT[] = "param x ~ uniform(0, 1)\nparam y ~ uniform(0, 1)\n"
                             "logp -0.5*((x + y - 1)/1e-4)^2\n";
  atvi_ctx *ctx = test_ctx();
  atvi_draws *d = fit_text(ctx, TEXT, 2, NAN);
  double corner = 0;
  for (atvi_idx i = 0; i < d->n; i++) corner += d->x[i] < 0.05 ? d->weight[i] : 0;
  CHECK_ABS(corner, 0.05, 0.005);
  CHECK_ABS(d->made->log_evidence, log(1e-4 * sqrt(2 * acos(-1))), 0.005);
  CHECK_REL(atvi_math_sd(d->n, d->x, d->weight), sqrt(1 / 12.0), 0.01);
  atvi_draws_free(d);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* A Dirichlet density that is infinite on one side of its triangle: Laplace's method says that a point there
 * holds e^20 times the rest. */
static void an_infinite_density_is_no_contradiction(void) {
  static const char TEXT[] = "param x ~ uniform(0, 1)\nparam y ~ uniform(0, 1)\nlogp if x + y < 1 then "
                             "1.5*log(x) + 0.5*log(y) - 0.5*log(1 - x - y) else -inf\n";
  atvi_ctx *ctx = test_ctx();
  atvi_draws *d = fit_text(ctx, TEXT, 32, NAN);
  CHECK_ABS(d->made->log_evidence, lgamma(2.5) + lgamma(1.5) + lgamma(0.5) - lgamma(4.5), 0.03);
  for (atvi_idx i = 0; i < d->n_message; i++)
    CHECK_MSG(d->message[i].code != ATVI_CODE_EVIDENCE_CONTRADICTS, "%s", d->message[i].text);
  atvi_draws_free(d);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* Five bananas at once: training cuts off their tips, which hold a tenth of the posterior, and components in
 * ten dimensions do not cover them, though the weights look good (k-hat 0.5). Chains take over, and the sds
 * of y are those of quadrature, not 10 to 20 % smaller. */
static void tips_that_stay_uncovered_are_for_chains(void) {
  static const char TEXT[] = "index s = 1..5\nparam x[s] ~ normal(0, 1)\nparam y[s] ~ normal(0, 10)\n"
                             "logp -0.5*sum(i in s: ((y[i] - x[i]^2)/0.3)^2)\n";
  atvi_ctx *ctx = test_ctx();
  atvi_draws *d = fit_text(ctx, TEXT, 33, 400);
  double sd = 0;
  CHECK(d->made->exact > 0);
  for (int j = 5; j < 10; j++) sd += atvi_math_sd(d->n, d->x + j * d->n, d->weight) / 5;
  CHECK_REL(sd, 1.3414, 0.07);
  CHECK_ABS(d->made->log_evidence, -17.605, 0.1);
  atvi_draws_free(d);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* Rosenbrock's valley: x is N(1, 1), y next to x^2. With this seed a few draws at one tip made a quarter of
 * the variance of y, smoothing took it from them, and k-hat was 0.51. */
static void sds_do_not_depend_on_smoothing(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_draws *d = fit_text(ctx,
                           "param x ~ uniform(-5, 5)\nparam y ~ uniform(-5, 25)\n"
                           "logp -(100*(y - x^2)^2 + (1 - x)^2)/2\n",
                           71, NAN);
  CHECK_REL(atvi_math_sd(d->n, d->x, d->weight), 0.99973, 0.02);
  CHECK_REL(atvi_math_sd(d->n, d->x + d->n, d->weight), 2.44732, 0.03);
  CHECK_ABS(d->made->log_evidence, -6.168523, 4 * d->made->log_evidence_se + 1e-3);
  CHECK_INT(d->n_message, 0);
  atvi_draws_free(d);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

TESTS({"smoothing", sds_do_not_depend_on_smoothing}, {"infinite", an_infinite_density_is_no_contradiction},
      {"corner", branches_of_a_ridge_in_a_corner}, {"tips", tips_that_stay_uncovered_are_for_chains},
      {"narrow", a_narrow_mode_is_climbed_to_by_itself}, {"edge", modes_on_the_edge_of_nothing})
