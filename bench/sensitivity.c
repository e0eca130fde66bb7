/* SPDX-License-Identifier: MIT */
/* What each constant of variational inference decides: fits of a dozen small problems with every constant of
 * src/infer/vi_tuning.h halved and doubled, against exact answers.
 *
 *     sensitivity [-s SEEDS] [constant ...]        all constants and three seeds by default
 *
 * A share of a half or more is doubled in what it leaves: 0.7 becomes 0.85. Columns, first halved, then
 * doubled, next to the row of the defaults:
 *
 *   wrong     fits with a mean off by more than 0.1 sd, a standard deviation by more than 10 %, or log Z by more than 0.05
 *   mean      root mean square over fits of the largest error of a mean, in exact standard deviations
 *   log Z     root mean square of the error of the log evidence, each held to 1
 *   runs      model runs, geometric mean over fits, as a share of those with the defaults
 *
 * A dash: the same to the last digit in every fit, as far as these columns go. Lotka-Volterra needs the data
 * of posteriordb in $ATVI_DATA (default ../shared/data) and is left out without. */
#include "ablation_problems.h"
#include "infer/vi.h"
#include <unistd.h>

enum { MOST_PROBLEM = 16, MOST_SEED = 20 };
#define WRONG_MEAN 0.1
#define WRONG_SD 0.1
#define WRONG_Z 0.05

static const char BANANA[] = "model \"Banana\"\nparam a in (-9, 9)\nparam b in (-3, 30)\n"
                             "logp -a^2/8 - 0.5*((b - a^2/2)/0.3)^2\n";
static const char FUNNEL[] = "model \"Funnel\"\nparam v in (-6, 6)\nparam x in (-40, 40)\n"
                             "logp -v^2/4.5 - 0.5*x^2*exp(-v) - 0.5*v\n";
static const char NARROW[] = "model \"Narrow\"\nparam a in (0, 1)\nparam b in (0, 1)\n"
                             "logp -0.5*((a - 0.31)/1e-4)^2 - 0.5*((b - 0.8*a - 0.2)/1e-4)^2\n";
static const char BOUNDS[] =
    "model \"At the bounds\"\nparam a in (0, 1)\nparam b in (0, 1)\nparam c in (0, 1)\n"
    "logp -20*a + 3*b - 0.5*((c - 1)/0.3)^2\n";
static const char RIDGE[] = "model \"Ridge\"\nparam a in (0.1, 10)\nparam b in (0.1, 10)\n"
                            "logp -0.5*((a*b - 6)/0.3)^2\n";
static const char FAILING[] = "model \"Failing half space\"\nparam a in (0, 1)\nparam b in (0, 1)\n"
                              "logp -0.5*((a - 0.55)/0.15)^2 - 0.5*((b - a)/0.1)^2 + 1e-6*log(a - 0.45)\n";
static const char FLAT[] = "model \"No information\"\nparam a in (-1, 3)\nparam b in (0, 2)\nlogp 0*a*b\n";
static const char TAILS[] = "model \"Long tails\"\nparam a in (-30, 30)\nparam b in (-30, 30)\n"
                            "logp -2*log(1 + (a - 1)^2/3) - 2*log(1 + (b - 0.5*a)^2/3)\n";
static const char SMALL[] = "model \"A small mode\"\nparam a in (0, 1)\nparam b in (0, 1)\n"
                            "let p = ((a - 0.30)^2 + (b - 0.30)^2)/0.005\n"
                            "let q = ((a - 0.80)^2 + (b - 0.70)^2)/0.0008\n"
                            "logp log(0.99*exp(-p)/0.005 + 0.01*exp(-q)/0.0008)\n";

typedef struct {
  problem p;
  atvi_model *model;
  atvi_evaluator *ev;
} loaded;

typedef struct {
  double mean, sd, log_z, runs;
} outcome;

typedef struct {
  int n; /* fits */
  outcome fit[MOST_PROBLEM * MOST_SEED];
} outcomes;

static outcome fit(atvi_ctx *ctx, const loaded *l, const atvi_vi_tuning *tuning, uint64_t seed) {
  atvi_vi_opts o = atvi_infer_vi_defaults();
  atvi_draws *d;
  outcome r = {HUGE_VAL, HUGE_VAL, HUGE_VAL, NAN};
  o.seed = seed;
  o.tuning = tuning;
  o.exact = ATVI_EXACT_OFF;
  int64_t before = atvi_model_evaluator_count(l->ev);
  if (atvi_infer_vi_run(ctx, l->ev, &o, &d) != ATVI_OK) return r;
  r = (outcome){0, 0, fabs(d->made->log_evidence - l->p.exact.log_z),
                (double)(atvi_model_evaluator_count(l->ev) - before)};
  for (atvi_idx i = 0; i < d->n_param; i++) {
    const double *x = d->x + i * d->n;
    double mean = 0, var = 0;
    for (atvi_idx j = 0; j < d->n; j++) mean += d->weight[j] * x[j];
    for (atvi_idx j = 0; j < d->n; j++) var += d->weight[j] * (x[j] - mean) * (x[j] - mean);
    r.mean = fmax(r.mean, fabs(mean - l->p.exact.mean[i]) / l->p.exact.sd[i]);
    r.sd = fmax(r.sd, fabs(sqrt(var) / l->p.exact.sd[i] - 1));
  }
  atvi_draws_free(d);
  return r;
}

static outcomes fit_all(atvi_ctx *ctx, int n, const loaded *l, const atvi_vi_tuning *tuning, int seeds) {
  outcomes r = {0};
  for (int i = 0; i < n; i++)
    for (int s = 0; s < seeds; s++) r.fit[r.n++] = fit(ctx, &l[i], tuning, (uint64_t)s + 1);
  return r;
}

static bool is_wrong(const outcome *f) {
  return !(f->mean <= WRONG_MEAN) || !(f->sd <= WRONG_SD) || !(f->log_z <= WRONG_Z);
}

/* The four columns of r, compared with those of the defaults. */
static void cells(const outcomes *r, const outcomes *base, double out[4]) {
  out[0] = out[1] = out[2] = out[3] = 0;
  for (int i = 0; i < r->n; i++) {
    out[0] += is_wrong(&r->fit[i]);
    out[1] += pow(fmin(r->fit[i].mean, 1), 2) / r->n;
    out[2] += pow(fmin(r->fit[i].log_z, 1), 2) / r->n;
    if (r->fit[i].runs > 0) out[3] += log(r->fit[i].runs / base->fit[i].runs) / r->n;
  }
  out[1] = sqrt(out[1]);
  out[2] = sqrt(out[2]);
  out[3] = exp(out[3]);
}

static bool same(const outcomes *a, const outcomes *b) {
  for (int i = 0; i < a->n; i++)
    if (a->fit[i].mean != b->fit[i].mean || a->fit[i].runs != b->fit[i].runs) return false;
  return true;
}

static void row(const atvi_vi_tunable *t, const outcomes *base, const outcomes r[2]) {
  double c[2][4];
  printf("| `%s` | %g | %s | %s |", t->name, t->value, t->unit, t->what);
  for (int k = 0; k < 2; k++) cells(&r[k], base, c[k]);
  for (int j = 0; j < 4; j++) {
    for (int k = 0; k < 2; k++) {
      printf(k ? " / " : " ");
      if (same(&r[k], base))
        printf("-");
      else
        printf(j == 0 ? "%.0f" : j == 3 ? "%.2f" : "%.3f", c[k][j]);
    }
    printf(" |");
  }
  printf("\n");
  fflush(stdout);
}

static int load(atvi_ctx *ctx, int n, problem *all, const char *data, const char *folder, loaded *out) {
  int kept = 0;
  for (int i = 0; i < n; i++) {
    loaded *l = &out[kept];
    l->p = all[i];
    if (l->p.text && !write_model(&l->p, folder)) return -1;
    if (l->p.panels == 0 && !write_lotka(data, folder)) continue;
    if (atvi_model_load(ctx, l->p.path, NULL, &l->model) != ATVI_OK ||
        atvi_model_evaluator_new(ctx, atvi_model_target(l->model), &l->ev) != ATVI_OK) {
      fprintf(stderr, "%s: %s\n", l->p.name, atvi_errmsg(ctx));
      return -1;
    }
    if (l->p.panels > 0)
      by_quadrature(&l->p, l->ev);
    else if (!by_reference(&l->p, data, atvi_model_target(l->model)->d))
      return -1;
    kept++;
  }
  return kept;
}

static void defaults_of(const loaded *l, int n, int seeds, const outcomes *base) {
  double c[4];
  cells(base, base, c);
  printf("Problems:");
  for (int i = 0; i < n; i++) {
    double wrong = 0, runs = 0;
    for (int s = 0; s < seeds; s++) {
      wrong += is_wrong(&base->fit[i * seeds + s]);
      runs += base->fit[i * seeds + s].runs / seeds;
    }
    printf("%s %s (%.0f of %d wrong, %.0f runs)", i ? "," : "", l[i].p.name, wrong, seeds, runs);
  }
  printf(".\n\n| constant | value | unit | decides or trades | wrong of %d | mean, sd | log Z | runs |\n",
         base->n);
  printf("|---|---|---|---|---|---|---|---|\n| defaults | | | | %.0f | %.3f | %.3f | 1 |\n", c[0], c[1],
         c[2]);
  fflush(stdout);
}

static double changed(const atvi_vi_tunable *t, bool twice) {
  bool share = t->value >= 0.5 && t->value < 1 && strncmp(t->unit, "of ", 3) == 0;
  return !twice ? t->value / 2 : share ? (1 + t->value) / 2 : 2 * t->value;
}

static int sweep(atvi_ctx *ctx, int n, const loaded *l, int seeds, int n_name, char **name) {
  int rows;
  const atvi_vi_tunable *t = atvi_infer_vi_tunables(&rows);
  outcomes base = fit_all(ctx, n, l, NULL, seeds);
  defaults_of(l, n, seeds, &base);
  for (int i = 0; i < rows; i++) {
    bool wanted = n_name == 0;
    for (int k = 0; k < n_name; k++) wanted = wanted || strcmp(name[k], t[i].name) == 0;
    if (!wanted) continue;
    outcomes r[2];
    for (int k = 0; k < 2; k++) {
      atvi_vi_tuning tuning = atvi_infer_vi_tuning_defaults();
      ((double *)(void *)&tuning)[i] = changed(&t[i], k == 1);
      r[k] = fit_all(ctx, n, l, &tuning, seeds);
    }
    row(&t[i], &base, r);
  }
  return 0;
}

int main(int argc, char **argv) {
  problem all[] = {
      {.name = "cold",
       .path = "examples/cold/cold.atvi",
       .low = {0.65, 0.15, 37},
       .high = {1.2, 0.55, 70},
       .panels = 16,
       .n_bound = 1,
       .bound = {{2, false}}},
      {.name = "corner", .text = CORNER, .high = {1, 1, 1}, .panels = 12},
      {.name = "modes", .text = MODES, .high = {1, 1}, .panels = 50},
      {.name = "small", .text = SMALL, .high = {1, 1}, .panels = 60},
      {.name = "banana", .text = BANANA, .low = {-9, -3}, .high = {9, 30}, .panels = 78},
      {.name = "funnel", .text = FUNNEL, .low = {-6, -40}, .high = {6, 40}, .panels = 78},
      {.name = "narrow", .text = NARROW, .low = {0.3093, 0.4467}, .high = {0.3107, 0.4493}, .panels = 40},
      {.name = "bounds", .text = BOUNDS, .high = {1, 1, 1}, .panels = 12},
      {.name = "ridge", .text = RIDGE, .low = {0.1, 0.1}, .high = {10, 10}, .panels = 78},
      {.name = "failing", .text = FAILING, .low = {0.45, 0}, .high = {1, 1}, .panels = 40},
      {.name = "flat", .text = FLAT, .low = {-1, 0}, .high = {3, 2}, .panels = 4},
      {.name = "tails", .text = TAILS, .low = {-30, -30}, .high = {30, 30}, .panels = 78},
      {.name = "lotka", .text = LOTKA, .one_sided = true},
  };
  static loaded l[MOST_PROBLEM];
  char folder[] = "/tmp/sensitivity-XXXXXX", path[64];
  const char *data = getenv("ATVI_DATA");
  int seeds = 3, c;
  atvi_ctx *ctx;
  while ((c = getopt(argc, argv, "s:")) != -1)
    if (c == 's') seeds = atoi(optarg);
  if (seeds < 1 || seeds > MOST_SEED || !mkdtemp(folder) || atvi_ctx_new(NULL, &ctx) != ATVI_OK) return 1;
  atvi_ctx_set_threads(ctx, 1);
  int n = load(ctx, (int)(sizeof all / sizeof *all), all, data ? data : "../shared/data", folder, l);
  int failed = n < 1 || sweep(ctx, n, l, seeds, argc - optind, argv + optind);
  for (int i = 0; i < MOST_PROBLEM; i++) {
    if (l[i].p.text) unlink(l[i].p.path);
    atvi_model_evaluator_free(l[i].ev);
    atvi_model_free(l[i].model);
  }
  snprintf(path, sizeof path, "%s/lotka.csv", folder);
  unlink(path);
  rmdir(folder);
  atvi_ctx_free(ctx);
  return failed;
}
