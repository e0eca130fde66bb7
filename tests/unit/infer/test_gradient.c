/* SPDX-License-Identifier: MIT */
#include "infer/optimum.h"
#include "testing.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { D = 23 }; /* more than are asked for at a time */

typedef enum {
  RIGHT,
  FLIPPED,  /* the sign of all */
  ONE,      /* one component is 5 % too large */
  NOISY,    /* the log density has noise larger than what is compared */
  SINGLE,   /* in single precision */
  FAR,      /* with a constant that swallows digits */
  KINKS,    /* -sum |x - c| */
  COARSE,   /* the gradient is right to 5e-4 */
  NOWHERE,  /* impossible everywhere */
  NO_SLOPE, /* the gradient is not finite */
  LATE,     /* wrong for the last parameter alone */
  UNSTABLE, /* the log density is finite at the points alone */
} kind;

typedef struct {
  kind kind;
  atomic_long points; /* counted on all threads */
} world;

static double center(atvi_idx j) { return 1.27 * sin(0.731 * (double)j); }
static double scale(atvi_idx j) { return pow(10, (double)(j % 7) / 2 - 2); }

/* Some number in [-1, 1] that looks random. */
static double noise(double x) {
  double y = sin(x * 1e9) * 43758.5453;
  return 2 * (y - floor(y)) - 1;
}

/* theta [D][B], of which one point is looked at; grad [D]. */
static void point(const world *w, const double *theta, atvi_idx B, double *value, double *grad) {
  *value = 0;
  for (atvi_idx j = 0; j < D; j++) {
    double z = (theta[j * B] - center(j)) / scale(j), g = -z / scale(j);
    *value -= 0.5 * z * z;
    if (w->kind == KINKS) *value += 0.5 * z * z - fabs(z), g = z > 0 ? -1 / scale(j) : 1 / scale(j);
    if (w->kind == NOISY) *value += 0.3 * z * z * noise(theta[j * B]);
    if (w->kind == FLIPPED) g = -g;
    if (w->kind == ONE && j == 13) g *= 1.05;
    if (w->kind == LATE && j == D - 1) g *= 0.9;
    if (w->kind == COARSE) g *= 1 + 5e-4 * (j % 2 ? 1 : -1);
    if (w->kind == NO_SLOPE) g = NAN;
    if (w->kind == UNSTABLE && w->points >= 5) *value = NAN;
    grad[j] = g;
  }
  if (w->kind == FAR) *value += 1e9;
  if (w->kind == SINGLE) *value = (double)(float)*value;
  if (w->kind == NOWHERE) *value = -HUGE_VAL;
}

static void eval(const void *self, void *work, const atvi_batch *b) {
  world *w = (world *)self;
  (void)work;
  for (atvi_idx i = 0; i < b->B; i++) {
    double value, grad[D];
    point(w, b->theta + i, b->B, &value, grad);
    for (atvi_idx j = 0; j < D; j++) {
      if (b->grad_lik) b->grad_lik[j * b->B + i] = grad[j];
      if (b->grad_prior) b->grad_prior[j * b->B + i] = 0;
    }
    if (b->log_prior) b->log_prior[i] = 0;
    if (b->log_lik) b->log_lik[i] = value;
    if (b->outcome) b->outcome[i] = ATVI_RUN_OK;
    w->points++;
  }
}

static const atvi_target_ops OPS = {.size = sizeof OPS, .eval = eval};

typedef struct {
  atvi_param param[D];
  char name[D][8];
  atvi_target target;
} toy;

/* Boxes, half-lines and lines. */
static void make(toy *t, world *w) {
  for (int j = 0; j < D; j++) {
    snprintf(t->name[j], sizeof t->name[j], "p%d", j + 1);
    t->param[j] = (atvi_param){t->name[j], j % 3 ? -9.3 : -HUGE_VAL, j % 2 ? 11.7 : HUGE_VAL, NULL};
  }
  t->target = (atvi_target){.ops = &OPS, .self = w, .name = "toy", .d = D, .param = t->param};
}

static atvi_status check(atvi_ctx *ctx, kind is, uint64_t seed, double max_seconds, atvi_idx *points) {
  world w = {.kind = is};
  toy t;
  atvi_evaluator *ev;
  make(&t, &w);
  CHECK_OK(atvi_model_evaluator_new(ctx, &t.target, &ev));
  atvi_status status = atvi_infer_gradient_check(ctx, ev, seed, max_seconds);
  atvi_model_evaluator_free(ev);
  if (points) *points = w.points;
  return status;
}

static void right_ones_pass(void) {
  static const kind kinds[] = {RIGHT, NOISY, SINGLE, FAR, KINKS, COARSE, NOWHERE, NO_SLOPE};
  atvi_ctx *ctx = test_ctx();
  atvi_idx points;
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
    for (uint64_t seed = 1; seed <= 12; seed++) {
      atvi_status status = check(ctx, kinds[k], seed, 0, &points);
      if (status != ATVI_OK) printf("kind %d, seed %d: %s\n", kinds[k], (int)seed, atvi_errmsg(ctx));
      CHECK_OK(status);
      CHECK(kinds[k] == NOWHERE || points <= 256 + 6 + 48 * D);
    }
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void wrong_ones_are_told(void) {
  atvi_ctx *ctx = test_ctx();
  for (uint64_t seed = 1; seed <= 12; seed++) {
    CHECK_STATUS(check(ctx, FLIPPED, seed, 0, NULL), ATVI_EMODEL);
    const char *told = strstr(atvi_errmsg(ctx), "points, for ");
    CHECK(strstr(atvi_errmsg(ctx), "(the sign is the wrong one)") && told);
    CHECK(strtol(told + 12, NULL, 10) >= 20); /* flat directions of a steep density are not known well */
    CHECK_STATUS(check(ctx, ONE, seed, 0, NULL), ATVI_EMODEL);
    CHECK(strstr(atvi_errmsg(ctx), "for p14 it is") && strstr(atvi_errmsg(ctx), "1 of 23 parameters"));
    CHECK(strstr(atvi_errmsg(ctx), "check_gradient") && !strstr(atvi_errmsg(ctx), "sign"));
    CHECK_STATUS(check(ctx, LATE, seed, 0, NULL), ATVI_EMODEL);
    CHECK(strstr(atvi_errmsg(ctx), "for p23 it is"));
  }
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static atvi_gradient_info compare(kind is, const atvi_target_ops *ops) {
  enum { N = 5, STRIDE = 7 };
  atvi_ctx *ctx = test_ctx();
  world w = {.kind = is};
  toy t;
  atvi_evaluator *ev;
  atvi_gradient_info y;
  double x[D * STRIDE];
  make(&t, &w);
  t.target.ops = ops;
  for (int i = 0; i < D * STRIDE; i++) x[i] = i % STRIDE < N ? 3.1 * sin(1.7 * i) : NAN;
  CHECK_OK(atvi_model_evaluator_new(ctx, &t.target, &ev));
  CHECK_OK(atvi_infer_gradient_compare(ctx, ev, N, STRIDE, x, 0, &y));
  atvi_model_evaluator_free(ev);
  atvi_ctx_free(ctx);
  return y;
}

static void comparison_tells_what_it_found(void) {
  atvi_gradient_info y = compare(RIGHT, &OPS);
  CHECK_INT(y.points, 5);
  CHECK(y.off > 0 && y.off < 1e-5 && y.wrong == 0 && y.wrong_somewhere == 0);
  y = compare(ONE, &OPS);
  CHECK_INT(y.wrong, 1);
  CHECK_INT(y.wrong_somewhere, 1);
  CHECK_INT(y.param, 13);
  CHECK_INT(y.off_param, 13);
  CHECK(y.wrong_points >= 4); /* at one the density may be flat */
  CHECK_REL(y.gradient, -1.05 * (y.x - center(13)) / scale(13) / scale(13), 1e-13);
  CHECK_REL(y.difference, y.gradient / 1.05, 1e-5);
  CHECK(y.off > 1e-5);      /* of a flat direction, relative to the steep ones */
  y = compare(NOISY, &OPS); /* noise is held against nobody */
  CHECK(y.wrong == 0 && y.off > 1);
  y = compare(UNSTABLE, &OPS);
  CHECK_INT(y.wrong, 0);
  y = compare(NO_SLOPE, &OPS);
  CHECK_INT(y.points, 0);
}

enum { MANY = 2500, FALSE = 2400 };

/* -sum x^2 / 2, with one wrong derivative. */
static void eval_many(const void *self, void *work, const atvi_batch *b) {
  atomic_long *points = (atomic_long *)self;
  (void)work;
  for (atvi_idx i = 0; i < b->B; i++) {
    double sum = 0;
    for (atvi_idx j = 0; j < MANY; j++) {
      double x = b->theta[j * b->B + i];
      sum -= 0.5 * x * x;
      if (b->grad_lik) b->grad_lik[j * b->B + i] = j == FALSE ? -2 * x : -x;
      if (b->grad_prior) b->grad_prior[j * b->B + i] = 0;
    }
    if (b->log_prior) b->log_prior[i] = 0;
    if (b->log_lik) b->log_lik[i] = sum;
    if (b->outcome) b->outcome[i] = ATVI_RUN_OK;
    ++*points;
  }
}

/* Of many parameters each is compared at some of the points. */
static void many_parameters_share_the_points(void) {
  enum { POINTS = 6 };
  static const atvi_target_ops ops = {.size = sizeof ops, .eval = eval_many};
  static atvi_param param[MANY];
  static double x[MANY * POINTS];
  atvi_ctx *ctx = test_ctx();
  atomic_long points = 0;
  atvi_evaluator *ev;
  atvi_gradient_info y;
  for (int j = 0; j < MANY; j++) param[j] = (atvi_param){"p", -HUGE_VAL, HUGE_VAL, NULL};
  for (int k = 0; k < MANY * POINTS; k++) x[k] = 1 + 0.5 * noise(k);
  const atvi_target t = {.ops = &ops, .self = &points, .name = "many", .d = MANY, .param = param};
  CHECK_OK(atvi_model_evaluator_new(ctx, &t, &ev));
  CHECK_OK(atvi_infer_gradient_compare(ctx, ev, POINTS, POINTS, x, 0, &y));
  atvi_model_evaluator_free(ev);
  CHECK_INT(y.points, POINTS);
  CHECK_INT(y.wrong_somewhere, 1);
  CHECK_INT(y.wrong, 1);
  CHECK_INT(y.param, FALSE);
  CHECK_INT(y.wrong_points, 2);
  CHECK(points <= 4 * (2 * 2 * MANY) + POINTS); /* each at two points, not at six */
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static bool always(void *user) {
  (void)user;
  return true;
}

static void limits_hold(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_idx points;
  CHECK_OK(check(ctx, FLIPPED, 1, 1e-9, &points)); /* no time: nothing is said */
  CHECK_INT(points, 256 + 6);
  atvi_ctx_set_stop(ctx, always, NULL);
  CHECK_STATUS(check(ctx, FLIPPED, 1, 0, NULL), ATVI_ESTOP);
  atvi_ctx_free(ctx);
}

static void memory_failures_are_told(void) {
  atvi_ctx *ctx = test_ctx();
  world w = {.kind = RIGHT};
  toy t;
  atvi_evaluator *ev;
  make(&t, &w);
  CHECK_OK(atvi_model_evaluator_new(ctx, &t.target, &ev));
  CHECK_OK(atvi_infer_gradient_check(ctx, ev, 1, 0)); /* threads are there from now on */
  long live = test_live;
  for (long at = 1, ok = 0; !ok; at++) {
    test_fail_at = test_allocs + at;
    atvi_status status = atvi_infer_gradient_check(ctx, ev, 1, 0);
    test_fail_at = 0;
    ok = status == ATVI_OK;
    CHECK(ok ? at == 3 : status == ATVI_ENOMEM);
    CHECK_INT(test_live, live);
  }
  atvi_model_evaluator_free(ev);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

TESTS({"right", right_ones_pass}, {"wrong", wrong_ones_are_told}, {"found", comparison_tells_what_it_found},
      {"many", many_parameters_share_the_points}, {"limits", limits_hold},
      {"memory", memory_failures_are_told})
