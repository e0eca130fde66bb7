/* SPDX-License-Identifier: MIT */
/* Compiled code against the interpreter on the largest example with fixed steps: log likelihood and gradient
 * to 1e-12. */
#include "models.h"

static void read_all(const char *path, char *text, size_t size) {
  FILE *f = fopen(path, "r");
  CHECK(f != NULL);
  size_t n = fread(text, 1, size - 64, f);
  CHECK(n > 0 && n < size - 64);
  text[n] = 0;
  fclose(f);
}

static void rotavirus_with_fixed_steps(void) {
  static char text[16384];
  static const double at[2][10] = {
      {.43, 7.35, .027, .9, 1.30537122, 3.11852393, 0.03206678, 3.24118948, 0.31400672, 0.09410381},
      {.31, 6.98, .041, .77, 2.1, 1.4, 0.21, 1.9, 0.62, 0.27}};
  read_all(TEST_SOURCE_DIR "/examples/rotavirus/cases.csv", text, sizeof text);
  test_file("cases.csv", text);
  read_all(TEST_SOURCE_DIR "/examples/rotavirus/rotavirus.atvi", text, sizeof text);
  strcat(text, "\nsolver rk4 step 0.05\n");
  const char *path = test_file("fixed.atvi", text);
  atvi_ctx *ctx = test_ctx();
  atvi_model *a = test_load(ctx, path, false), *b = test_load(ctx, path, true);
  for (int k = 0; k < 2; k++) {
    test_value x = test_eval(ctx, atvi_model_target(a), at[k]),
               y = test_eval(ctx, atvi_model_target(b), at[k]);
    CHECK_INT(x.outcome, ATVI_RUN_OK);
    CHECK_REL(x.ll, y.ll, 1e-12);
    double most = 0;
    for (int i = 0; i < 10; i++) most = fmax(most, fabs(y.gl[i]));
    for (int i = 0; i < 10; i++) CHECK_ABS(x.gl[i], y.gl[i], 1e-12 * fmax(fabs(y.gl[i]), 1e-2 * most));
  }
  atvi_model_free(a);
  atvi_model_free(b);
  atvi_ctx_free(ctx);
}

TESTS({"rotavirus", rotavirus_with_fixed_steps})
