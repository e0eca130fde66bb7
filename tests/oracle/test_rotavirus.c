/* SPDX-License-Identifier: MIT */
/* Log likelihood of the rotavirus model at the truth for a data set simulated elsewhere; the figure was
 * computed with a converged solver of another program. Skipped where the data are missing. */
#include "models.h"

static const double TRUTH[10] = {.43,        7.35,       .027,       .9,         1.30537122,
                                 3.11852393, 0.03206678, 3.24118948, 0.31400672, 0.09410381};

/* set_1.csv has neither header nor weeks: row k is week 260 + k. false if there is no such file. */
static bool convert(char *path, size_t size) {
  const char *data = getenv("ATVI_DATA");
  char from[512], line[512];
  snprintf(from, sizeof from, "%s/rotavirus/set_1.csv", data ? data : TEST_SOURCE_DIR "/../shared/data");
  FILE *in = fopen(from, "r");
  if (!in) return false;
  snprintf(path, size, "%s", test_file("set_1.csv", ""));
  FILE *out = fopen(path, "w");
  fprintf(out, "week,a,b,c,d,e,f\n");
  for (int week = 261; fgets(line, sizeof line, in); week++) fprintf(out, "%d,%s", week, line);
  fclose(in);
  fclose(out);
  return true;
}

static void likelihood_at_the_truth(void) {
  char path[256];
  if (!convert(path, sizeof path)) {
    printf("SKIP: rotavirus/set_1.csv is not there; ATVI_DATA names the folder of test data\n");
    return;
  }
  atvi_ctx *ctx = test_ctx();
  atvi_model *m;
  atvi_data_file data = {NULL, path};
  atvi_status status =
      atvi_model_load_with(ctx, TEST_SOURCE_DIR "/examples/rotavirus/rotavirus.atvi",
                           &(atvi_model_load_opts){.n_data = 1, .data = &data, .tangents = true}, &m);
  CHECK_MSG(status == ATVI_OK, "%s", atvi_errmsg(ctx));
  test_value v = test_eval(ctx, atvi_model_target(m), TRUTH);
  CHECK_ABS(v.ll, -1559.5505, 0.01);
  CHECK_ABS(v.lp, -log(6.28) - log(0.5) - 6 * log(4), 1e-9);
  CHECK(test_gradient(ctx, atvi_model_target(m), TRUTH, 1e-5) < 1e-5);
  const atvi_target *t = atvi_model_target(m);
  void *work;
  double worst = 0;
  CHECK_OK(t->ops->work_new(t->self, ctx, &work));
  for (int k = 0; k < 10; k++) { /* ten draws from the prior, as they come */
    double theta[10], err;
    t->ops->prior_draw(t->self, work, 11, k, 1, theta);
    err = test_gradient(ctx, t, theta, 1e-5);
    CHECK_MSG(err < 1e-5, "draw %d: gradient off by %g", k, err);
    worst = fmax(worst, err);
  }
  t->ops->work_free(work);
  printf("gradient at ten draws from the prior: worst %.1e\n", worst);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
}

TESTS({"truth", likelihood_at_the_truth})
