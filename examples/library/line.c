/* SPDX-License-Identifier: MIT */
/* A straight line through eight points, with a target of one's own: log density and gradient by a callback.
 *
 *     cc -std=c11 line.c $(pkg-config --cflags --libs atvi) -lm -o line && ./line [METHOD]
 *
 * METHOD is atvi (the default), nf, copula, ram, nuts, map, or exact for method atvi with its exact sampler.
 *
 * Installed under a PREFIX of one's own: export PKG_CONFIG_PATH=PREFIX/lib/pkgconfig first, and add -Wl,-rpath,PREFIX/lib; without
 * pkg-config, -IPREFIX/include -LPREFIX/lib -Wl,-rpath,PREFIX/lib -latvi.
 *
 * The posterior is known exactly: level 1.0833 (sd 0.3227), slope 0.4662 (0.0772), log evidence -11.9815. */
#include <atvi/atvi.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N = 8 };
static const double t[N] = {0, 1, 2, 3, 4, 5, 6, 7};
static const double y[N] = {1.31, 1.42, 1.87, 2.04, 3.52, 3.21, 4.26, 4.09};
static const double SD = 0.5, RANGE = 20; /* of the noise; of the uniform priors on [-10, 10] */

/* B points at once, theta[2][B]. Outputs that are not wanted are NULL. Called from several threads. */
static void eval(const void *self, void *work, const atvi_batch *b) {
  (void)self, (void)work;
  for (atvi_idx i = 0; i < b->B; i++) {
    const double level = b->theta[i], slope = b->theta[b->B + i];
    double log_lik = 0, d_level = 0, d_slope = 0;
    for (int k = 0; k < N; k++) {
      const double z = (y[k] - level - slope * t[k]) / SD;
      log_lik -= 0.5 * z * z + log(SD * sqrt(2 * acos(-1.0)));
      d_level += z / SD;
      d_slope += z / SD * t[k];
    }
    if (b->log_prior) b->log_prior[i] = -2 * log(RANGE);
    if (b->log_lik) b->log_lik[i] = log_lik;
    if (b->grad_prior) b->grad_prior[i] = b->grad_prior[b->B + i] = 0;
    if (b->grad_lik) b->grad_lik[i] = d_level, b->grad_lik[b->B + i] = d_slope;
    if (b->outcome) b->outcome[i] = ATVI_RUN_OK;
  }
}

int main(int argc, char **argv) {
  const atvi_param param[] = {{"level", -10, 10, NULL}, {"slope", -10, 10, NULL}};
  const atvi_target_ops ops = {.size = sizeof ops, .eval = eval};
  const atvi_target target = {.ops = &ops, .name = "line", .d = 2, .param = param};
  atvi_ctx *ctx = NULL;
  atvi_draws *draws = NULL;
  atvi_verdict verdict;
  char why[2000];
  if (atvi_ctx_new(NULL, &ctx) != ATVI_OK) return 1;

  atvi_fit_opts opts = atvi_fit_defaults();
  opts.seed = 1;
  if (argc > 1 && strcmp(argv[1], "exact") == 0)
    opts.exact = "on";
  else if (argc > 1)
    opts.method = argv[1];
  if (atvi_fit(ctx, &target, &opts, &draws) != ATVI_OK ||
      atvi_judge(draws, &verdict, why, sizeof why) != ATVI_OK) {
    fprintf(stderr, "%s\n", atvi_errmsg(ctx));
    atvi_draws_free(draws);
    atvi_ctx_free(ctx);
    return 1;
  }
  for (atvi_idx j = 0; j < draws->n_param; j++)
    printf("%s %.4f %.4f\n", draws->col[j].name, atvi_draws_mean(draws, j), atvi_draws_sd(draws, j));
  if (isfinite(draws->made->log_evidence))
    printf("log_evidence %.4f +- %.4f\n", draws->made->log_evidence, draws->made->log_evidence_se);
  if (isfinite(draws->made->khat)) printf("khat %.2f\n", draws->made->khat);
  printf("verdict %s\n", atvi_verdict_name(verdict));
  if (verdict != ATVI_VERDICT_OK) printf("%s\n", why);
  atvi_draws_free(draws);
  atvi_ctx_free(ctx);
  return 0;
}
