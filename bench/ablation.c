/* SPDX-License-Identifier: MIT */
/* What each part of the method is worth: fits with parts switched on and off, against exact answers.
 *
 *     ablation [problem ...]        cold, corner, modes, lotka; all by default
 *
 * Every row is fitted with several seeds on one thread; cells are the median and, after the stroke, the worst
 * of them.
 *
 *   q            draws of the approximation, without their weights: largest error of a mean in exact standard
 *                deviations, largest error of a standard deviation, error of the mass in the 2 % of the range next to a
 *                bound. A sixteenth of the draws is stretched, as a guard against light tails; they are left out here, but
 *                where several modes were found
 *   ELBO gap     log Z - ELBO: the divergence KL(q || p)
 *   k-hat, ESS   of the weights; effective size as a share of the draws
 *   weighted     as for q, with weights; log Z: error of the log evidence
 *   right        fits whose weighted means are all within 0.1 sd and sds within 10 %
 *   CPU s        of the whole fit
 *
 * Lotka-Volterra needs the data of posteriordb in $ATVI_DATA (default ../shared/data) and is left out
 * without. */
#include "ablation_problems.h"
#include "infer/elbo.h"
#include "infer/vi.h"
#include <time.h>
#include <unistd.h>

enum {
  SEEDS = 10,
  MOST_SECONDS = 20 /* a fit that works out needs one; one that has lost its way can take minutes */
};
#define RIGHT_MEAN 0.1 /* exact sd */
#define RIGHT_SD 10    /* % */

typedef struct {
  const char *map;
  enum { LADDER_AUTO, LADDER_NONE, LADDER_PAPER, LADDER_FREEZE } ladder;
  atvi_tune tune;
  bool seek;
} setting;

/* The three switches crossed, then the ladder of the paper, then the program's choice of map, the search for
 * modes, and all of it: what the program does by itself. Where parameters have one bound, log takes the place
 * of probit. */
static const setting SETTINGS[] = {
    {"probit", LADDER_AUTO, ATVI_TUNE_OFF, false},      {"probit", LADDER_AUTO, ATVI_TUNE_ON, false},
    {"probit", LADDER_NONE, ATVI_TUNE_OFF, false},      {"probit", LADDER_NONE, ATVI_TUNE_ON, false},
    {"surjection", LADDER_AUTO, ATVI_TUNE_OFF, false},  {"surjection", LADDER_AUTO, ATVI_TUNE_ON, false},
    {"surjection", LADDER_NONE, ATVI_TUNE_OFF, false},  {"surjection", LADDER_NONE, ATVI_TUNE_ON, false},
    {"logit", LADDER_AUTO, ATVI_TUNE_OFF, false},       {"logit", LADDER_AUTO, ATVI_TUNE_ON, false},
    {"logit", LADDER_NONE, ATVI_TUNE_OFF, false},       {"logit", LADDER_NONE, ATVI_TUNE_ON, false},
    {"probit", LADDER_PAPER, ATVI_TUNE_OFF, false},     {"probit", LADDER_FREEZE, ATVI_TUNE_OFF, false},
    {"surjection", LADDER_FREEZE, ATVI_TUNE_ON, false}, {"auto", LADDER_AUTO, ATVI_TUNE_OFF, false},
    {"probit", LADDER_NONE, ATVI_TUNE_OFF, true},       {"auto", LADDER_AUTO, ATVI_TUNE_AUTO, true},
};

typedef enum { Q_MEAN, Q_SD, Q_BOUND, GAP, KHAT, ESS, W_MEAN, W_SD, W_BOUND, LOG_Z, SECONDS, N_STAT } stat;
typedef enum { LARGE, SMALL, FAR } badness; /* what is bad: a large value, a small one, one far from 0 */
static const struct {
  const char *name, *format;
  badness bad;
} STATS[N_STAT] = {
    {"q: mean, sd", "%.3f", LARGE},
    {"q: sd, %", "%.1f", LARGE},
    {"q: bound, %", "%+.1f", FAR},
    {"ELBO gap", "%.3f", LARGE},
    {"k-hat", "%.2f", LARGE},
    {"ESS, %", "%.1f", SMALL},
    {"weighted: mean, sd", "%.3f", LARGE},
    {"weighted: sd, %", "%.1f", LARGE},
    {"weighted: bound, %", "%+.1f", FAR},
    {"log Z", "%+.3f", FAR},
    {"CPU s", "%.2f", LARGE},
};

/* ---- one fit ---- */

static double cpu_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Errors of mean, sd and mass at bounds of draws with weights w. */
static void compare(const problem *p, const atvi_target *t, const atvi_draws *d, const double *w,
                    double out[3]) {
  double sum = 0;
  out[0] = out[1] = 0;
  out[2] = p->n_bound ? 0 : NAN;
  for (atvi_idx j = 0; j < d->n; j++) sum += w[j];
  for (atvi_idx i = 0; i < d->n_param; i++) {
    const double *x = d->x + i * d->n;
    double mean = 0, var = 0;
    for (atvi_idx j = 0; j < d->n; j++) mean += w[j] * x[j] / sum;
    for (atvi_idx j = 0; j < d->n; j++) var += w[j] * (x[j] - mean) * (x[j] - mean) / sum;
    out[0] = fmax(out[0], fabs(mean - p->exact.mean[i]) / p->exact.sd[i]);
    out[1] = fmax(out[1], 100 * fabs(sqrt(var) / p->exact.sd[i] - 1));
  }
  for (int k = 0; k < p->n_bound; k++) {
    double near = 0, error;
    for (atvi_idx j = 0; j < d->n; j++)
      if (is_near(p, t, k, d->x[p->bound[k].coordinate * d->n + j])) near += w[j] / sum;
    error = 100 * (near / p->exact.share[k] - 1);
    if (fabs(error) > fabs(out[2])) out[2] = error;
  }
}

/* Draws of q alone: the stretched ones, one in sixteen, come last, as long as there is one component and none
 * was left out for having no weight. */
static void unweighted(const atvi_draws *d, bool one_part, double *w) {
  bool known = one_part && d->made->lost == 0;
  for (atvi_idx j = 0; j < d->n; j++) w[j] = !known || j < d->n - d->n / ATVI_GUARD;
}

static const char *map_of(const problem *p, const setting *s) {
  return p->one_sided && strcmp(s->map, "probit") == 0 ? "log" : s->map;
}

static atvi_status fit(atvi_ctx *ctx, atvi_evaluator *ev, const problem *p, const setting *s, bool weak,
                       uint64_t seed, double out[N_STAT]) {
  static const double none[] = {1}, paper[] = {3, 1};
  atvi_vi_opts o = atvi_infer_vi_defaults();
  atvi_draws *d;
  o.seed = seed;
  o.map = map_of(p, s);
  o.tune = s->tune;
  o.seek_modes = s->seek;
  o.max_seconds = MOST_SECONDS;
  if (s->ladder != LADDER_AUTO) {
    o.n_rung = s->ladder == LADDER_NONE ? 1 : 2;
    o.temperature = s->ladder == LADDER_NONE ? none : paper;
    o.freeze = s->ladder == LADDER_FREEZE;
  }
  if (weak) o.shape = (atvi_flow_shape){.layers = 1, .bins = 1, .hidden = 4, .box = 3, .seed = 1};
  double begun = cpu_s();
  ATVI_TRY(atvi_infer_vi_run(ctx, ev, &o, &d));
  out[SECONDS] = cpu_s() - begun;
  double *w = malloc((size_t)d->n * sizeof *w);
  if (!w) abort();
  unweighted(d, !s->seek || d->made->modes == 1, w);
  compare(p, atvi_model_evaluator_target(ev), d, w, &out[Q_MEAN]);
  compare(p, atvi_model_evaluator_target(ev), d, d->weight, &out[W_MEAN]);
  out[GAP] = p->exact.log_z - d->made->elbo;
  out[KHAT] = d->made->khat;
  out[ESS] = 100 * d->made->efficiency;
  out[LOG_Z] = d->made->log_evidence - p->exact.log_z;
  free(w);
  atvi_draws_free(d);
  return ATVI_OK;
}

/* ---- the table ---- */

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void number(stat k, double x) { printf(fabs(x) < 1e4 ? STATS[k].format : "%.0e", x); }

static void cell(stat k, double v[SEEDS]) {
  double worst = v[0];
  if (isnan(v[0])) {
    printf(" - |");
    return;
  }
  for (int i = 1; i < SEEDS; i++) {
    bool worse = STATS[k].bad == SMALL ? v[i] < worst
                 : STATS[k].bad == FAR ? fabs(v[i]) > fabs(worst)
                                       : !(v[i] <= worst);
    if (worse) worst = v[i];
  }
  qsort(v, SEEDS, sizeof *v, by_value);
  printf(" ");
  number(k, v[SEEDS / 2]);
  printf(" / ");
  number(k, worst);
  printf(" |");
}

static int rows(atvi_ctx *ctx, atvi_evaluator *ev, const problem *p, bool weak) {
  static const char *const ladder[] = {"auto", "none", "3,1", "3,1 frozen"};
  static const char *const tune[] = {"auto", "on", "off"};
  printf("\n| map | ladder | tuning | modes | right |");
  for (int k = 0; k < N_STAT; k++) printf(" %s |", STATS[k].name);
  printf("\n|");
  for (int k = 0; k < N_STAT + 5; k++) printf("---|");
  printf("\n");
  for (size_t i = 0; i < sizeof SETTINGS / sizeof *SETTINGS; i++) {
    const setting *s = &SETTINGS[i];
    double all[N_STAT][SEEDS], one[N_STAT];
    int right = 0;
    if (p->one_sided && strcmp(s->map, "logit") == 0) continue;
    if (weak && s->ladder == LADDER_FREEZE) continue; /* one layer cannot be shared */
    for (int seed = 0; seed < SEEDS; seed++) {
      if (fit(ctx, ev, p, s, weak, (uint64_t)seed + 1, one) != ATVI_OK) {
        fprintf(stderr, "%s: %s\n", p->name, atvi_errmsg(ctx));
        return 1;
      }
      for (int k = 0; k < N_STAT; k++) all[k][seed] = one[k];
      right += one[W_MEAN] < RIGHT_MEAN && one[W_SD] < RIGHT_SD;
    }
    printf("| %s | %s | %s | %s | %d of %d |", map_of(p, s), ladder[s->ladder], tune[s->tune],
           s->seek ? "sought" : "-", right, SEEDS);
    for (int k = 0; k < N_STAT; k++) cell((stat)k, all[k]);
    printf("\n");
    fflush(stdout);
  }
  return 0;
}

static void tell_exact(const problem *p, const atvi_target *t) {
  printf("\n## %s\n\n%s\n\nExact: log Z %.4f", p->name, p->what, p->exact.log_z);
  for (atvi_idx i = 0; i < t->d; i++)
    printf("; %s %.5g (sd %.4g)", t->param[i].name, p->exact.mean[i], p->exact.sd[i]);
  for (atvi_idx i = 0; i < t->d && p->panels > 0; i++)
    for (atvi_idx k = 0; k < i; k++)
      printf("; corr(%s, %s) %.4f", t->param[k].name, t->param[i].name, p->exact.corr[i][k]);
  for (int k = 0; k < p->n_bound; k++)
    printf("; within 2 %% of the %s bound of %s: %.2f %%", p->bound[k].upper ? "upper" : "lower",
           t->param[p->bound[k].coordinate].name, 100 * p->exact.share[k]);
  printf(".\n");
  fflush(stdout);
}

static int run(atvi_ctx *ctx, problem *p, const char *data, const char *folder) {
  atvi_model *m;
  atvi_evaluator *ev;
  if (p->text && !write_model(p, folder)) return 1;
  if (p->panels == 0 && !write_lotka(data, folder)) {
    printf("\n## %s\n\nLeft out: no data in %s.\n", p->name, data);
    return 0;
  }
  if (atvi_model_load(ctx, p->path, NULL, &m) != ATVI_OK ||
      atvi_model_evaluator_new(ctx, atvi_model_target(m), &ev) != ATVI_OK) {
    fprintf(stderr, "%s\n", atvi_errmsg(ctx));
    return 1;
  }
  const atvi_target *t = atvi_model_target(m);
  if (p->panels > 0)
    by_quadrature(p, ev);
  else if (!by_reference(p, data, t->d))
    return 1;
  tell_exact(p, t);
  int failed = rows(ctx, ev, p, false);
  if (p->weak && !failed) {
    printf(
        "\nThe same with a flow of one layer without a spline and with four hidden units, hardly more than a "
        "normal distribution:\n");
    failed = rows(ctx, ev, p, true);
  }
  atvi_model_evaluator_free(ev);
  atvi_model_free(m);
  return failed;
}

int main(int argc, char **argv) {
  problem problems[] = {
      {.name = "cold",
       .what = "The common cold (`examples/cold`): S0 has its mass on the lower bound.",
       .path = "examples/cold/cold.atvi",
       .low = {0.65, 0.15, 37},
       .high = {1.2, 0.55, 70},
       .panels = 16,
       .n_bound = 1,
       .bound = {{2, false}},
       .weak = true},
      {.name = "corner",
       .what = "A correlated normal distribution in a box whose mode lies outside, beyond the lower bound of "
               "a and the "
               "upper one of b.",
       .text = CORNER,
       .high = {1, 1, 1},
       .panels = 12,
       .n_bound = 2,
       .bound = {{0, false}, {1, true}},
       .weak = true},
      {.name = "modes",
       .what = "Three normal modes far apart, with 70, 27 and 3 % of the mass.",
       .text = MODES,
       .high = {1, 1},
       .panels = 50},
      {.name = "lotka",
       .what =
           "Lotka-Volterra (posteriordb), 8 parameters with a lower bound; another mode is 34 nats lower. "
           "\"Exact\" are 2 500 reference draws, with errors of their own of 0.02 sd and 1.5 %.",
       .text = LOTKA,
       .one_sided = true},
  };
  char folder[] = "/tmp/ablation-XXXXXX";
  const char *data = getenv("ATVI_DATA");
  atvi_ctx *ctx;
  int failed = 0;
  if (!mkdtemp(folder) || atvi_ctx_new(NULL, &ctx) != ATVI_OK) return 1;
  atvi_ctx_set_threads(ctx, 1);
  for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
    bool wanted = argc < 2;
    for (int k = 1; k < argc; k++) wanted = wanted || strcmp(argv[k], problems[i].name) == 0;
    if (wanted) failed |= run(ctx, &problems[i], data ? data : "../shared/data", folder);
    if (problems[i].text) unlink(problems[i].path);
  }
  char path[64];
  snprintf(path, sizeof path, "%s/lotka.csv", folder);
  unlink(path);
  rmdir(folder);
  atvi_ctx_free(ctx);
  return failed;
}
