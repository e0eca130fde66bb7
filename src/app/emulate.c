/* SPDX-License-Identifier: MIT */
/* An emulator is judged three ways: each run left out in turn with the estimates kept (closed form), some runs held out with the estimates made anew
 * without them, and Sobol indices, which say what its inputs do. */
#include "app/emulate.h"
#include "app/emulate_tell.h"
#include "app/program_parts.h"
#include "app/report_emulator.h"
#include "io/file.h"
#include "io/json.h"
#include "io/text.h"
#include "math/rng.h"
#include "model/emulated.h"
#include "sim/record.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Below, the words of the verdict. A nominal 95 % that holds less than LOW or more than HIGH is off by more than a few hundred runs leave to
 * chance; an emulator that explains less than half of the variance is worse than no model at all in most uses, and one that explains less than FAIR has
 * too few runs. Held-out runs count from so many on: the share is a ratio of two sums over them. Runs that failed, or have not been done, are told, and are a
 * reason to doubt where there are many. */
#define NOMINAL 0.95
#define CHANCE                                                                                               \
  2.58 /* standard errors: 99 %, with the runs and not the values as the number of cases, for values of a run go together */
#define Q2_LOW 0.5
#define Q2_FAIR 0.9
#define HELD_LEAST 10
#define MANY 0.1              /* of all runs */
#define Q2_HIGH 0.99          /* above, intervals that are too long are still short */
#define DOES_NOT_MATTER 0.005 /* total index, of every output */

typedef struct {
  atvi_ctx *ctx;
  atvi_pool *pool;
  const atvi_app_emulate_opts *o;
  const atvi_lang *lang;
  atvi_idx k;
  const atvi_lang_emulator *of;
  atvi_emulated_runs r;
  atvi_emulator *em;
  bool saved; /* it was there */
  double seconds;
  atvi_em_loo loo, test;
  atvi_idx n_test;
  atvi_em_sobol sobol;
  const char *doubt[12];
  int n_doubt;
  const char *note[4]; /* nothing to doubt */
  int n_note;
} work;

static atvi_status no_memory(atvi_ctx *ctx) { return ATVI_FAIL(ctx, ATVI_ENOMEM, "out of memory: emulator"); }

/* ---- work ---- */

static atvi_status get(work *w, const char *path) {
  atvi_status status = ATVI_EDATA;
  double begun = atvi_clock_s();
  if (!w->o->refit && access(path, F_OK) == 0)
    status = atvi_emulator_load(w->ctx, path, &w->r.runs, &w->r.opts, &w->em);
  w->saved = status == ATVI_OK;
  if (!w->saved) {
    ATVI_TRY(atvi_emulator_new(w->ctx, &w->r.runs, &w->r.opts, &w->em));
    ATVI_TRY(atvi_emulator_save(w->ctx, w->em, path));
  }
  w->seconds = atvi_clock_s() - begun;
  return ATVI_OK;
}

/* The first n_test of a random order are held out. */
static atvi_status split(work *w, atvi_em_runs *kept, atvi_em_runs *held) {
  const atvi_em_runs *all = &w->r.runs;
  atvi_idx n = all->n, d = all->d, m = all->m, *order = atvi_pool_take(w->pool, (size_t)n, sizeof *order);
  double *x = atvi_pool_take(w->pool, (size_t)(n * d), sizeof *x),
         *y = atvi_pool_take(w->pool, (size_t)(n * m), sizeof *y);
  atvi_rng r = atvi_rng_at(w->o->seed, 0, 0, 0);
  if (!order || !x || !y) return no_memory(w->ctx);
  for (atvi_idx i = 0; i < n; i++) order[i] = i;
  for (atvi_idx i = n - 1; i > 0; i--) {
    atvi_idx j = (atvi_idx)(atvi_rng_uniform(&r) * (double)(i + 1)), t = order[i];
    order[i] = order[j];
    order[j] = t;
  }
  for (atvi_idx i = 0; i < n; i++) {
    memcpy(x + i * d, all->x + order[i] * d, (size_t)d * sizeof *x);
    memcpy(y + i * m, all->y + order[i] * m, (size_t)m * sizeof *y);
  }
  *held = *kept = *all;
  held->n = w->n_test;
  kept->n = n - w->n_test;
  held->x = x, held->y = y;
  kept->x = x + w->n_test * d, kept->y = y + w->n_test * m;
  return ATVI_OK;
}

static atvi_status hold_out(work *w) {
  atvi_em_runs kept, held;
  atvi_emulator *em;
  w->n_test = (atvi_idx)ceil(w->o->test * (double)w->r.runs.n);
  if (w->n_test < 1 || w->r.runs.n - w->n_test < 2) {
    w->n_test = 0;
    return ATVI_OK;
  }
  ATVI_TRY(split(w, &kept, &held));
  atvi_status fitted = atvi_emulator_new(w->ctx, &kept, &w->r.opts, &em);
  if (fitted == ATVI_EDATA) { /* what is left never varies: nothing can be learnt from this test */
    w->n_test = 0;
    return ATVI_OK;
  }
  ATVI_TRY(fitted);
  atvi_status status = atvi_emulator_test(w->ctx, em, &held, &w->test);
  atvi_emulator_free(em);
  return status;
}

/* Estimates that are no estimates. */
static void doubt_ends(work *w) {
  atvi_em_ends ends;
  atvi_emulator_ends(&w->r.runs, &w->r.opts, atvi_emulator_info(w->em), &ends);
  if (ends.nugget > 0)
    w->doubt[w->n_doubt++] = "the nugget is as large as it may be: it sees nothing but noise in the runs";
  if (ends.time)
    w->doubt[w->n_doubt++] =
        ends.time < 0
            ? "the range in time is as short as it may be: differences of runs do not go together in time"
            : "the range in time is as long as it may be: runs differ by the same at all times";
  if (ends.n_short > 0)
    w->doubt[w->n_doubt++] = atvi_pool_printf(
        w->pool, "the length of %td input%s is as short as it may be: runs say nothing of each other",
        ends.n_short, ends.n_short == 1 ? "" : "s");
}

static void put(work *w, bool doubtful, const char *text) {
  if (doubtful)
    w->doubt[w->n_doubt++] = text;
  else
    w->note[w->n_note++] = text;
}

/* What has to be typed for more runs: what is left of the design first. */
static const char *say_more(work *w) {
  atvi_idx n_point, missing = atvi_emulate_missing(w->pool, w->lang, w->o->runs, &w->r, &n_point);
  atvi_text t = {.pool = w->pool};
  const char *text;
  for (int run = missing > 0; run < 2; run++) {
    atvi_text_add(&t, run && missing == 0 ? ", atvi run " : run ? "atvi run " : "atvi design ");
    atvi_text_add(&t, "%s", w->o->path);
    if (!run) atvi_text_add(&t, " -n %td", 2 * (n_point > 0 ? n_point : w->r.n_done));
    if (w->o->runs) atvi_text_add(&t, " --runs %s", w->o->runs);
  }
  return atvi_text_get(&t, &text) == ATVI_OK ? text : "";
}

/* Points that fail whenever they are tried cannot be mended by trying. */
static void doubt_runs(work *w) {
  atvi_idx n = w->r.n_failed, once = n - w->r.n_again, n_point,
           missing = atvi_emulate_missing(w->pool, w->lang, w->o->runs, &w->r, &n_point);
  const char *why = w->r.failure ? w->r.failure : "";
  if (n > 0)
    put(w, (double)once >= MANY * (double)(n + w->r.runs.n),
        atvi_pool_printf(w->pool, "%td failed run%s not among the %td used%s%s%.300s%s", n,
                         n == 1 ? " is" : "s are", w->r.runs.n,
                         once > 0 ? "; atvi run --retry-failed tries again" : ", nor good when tried again",
                         why[0] ? " (" : "", why, why[0] ? ")" : ""));
  if (missing > 0)
    put(w, (double)missing >= MANY * (double)n_point,
        atvi_pool_printf(w->pool, "%td of %td points of the design have not been run; atvi run does them",
                         missing, n_point));
}

static void doubt_share(work *w) {
  bool held = w->n_test >= HELD_LEAST && w->test.q2 < w->loo.q2;
  double q2 = held ? w->test.q2 : w->loo.q2;
  if (w->loo.q2 < Q2_LOW)
    w->doubt[w->n_doubt++] =
        "it explains less than half of what differs between runs: more runs, or a narrower prior, are needed";
  else if (q2 < Q2_FAIR && w->r.lines > 0)
    w->doubt[w->n_doubt++] =
        atvi_pool_printf(w->pool, "it predicts only %.0f %% of what differs between runs%s; more runs: %s",
                         100 * q2, held ? " that were held out" : "", say_more(w));
  else if (q2 < Q2_FAIR)
    w->doubt[w->n_doubt++] = atvi_pool_printf(
        w->pool, "it predicts only %.0f %% of what differs between runs%s: more runs would help", 100 * q2,
        held ? " that were held out" : "");
}

static void doubts(work *w) {
  const atvi_em_info *info = atvi_emulator_info(w->em);
  doubt_share(w);
  doubt_runs(w);
  double chance = CHANCE * sqrt(NOMINAL * (1 - NOMINAL) / (double)w->r.runs.n);
  if (w->loo.coverage < NOMINAL - chance)
    w->doubt[w->n_doubt++] =
        w->r.opts.basis > 0
            ? "its intervals are too short: it is surer of itself than it may be; try a larger share for the "
              "basis, or another kernel"
            : "its intervals are too short: it is surer of itself than it may be; try another kernel";
  else if (w->loo.coverage > NOMINAL + chance && w->loo.q2 < Q2_HIGH)
    w->doubt[w->n_doubt++] = "its intervals are too long; try another kernel";
  if (info->starts > 2 && info->agreed < 2)
    w->doubt[w->n_doubt++] = "only one start of the search found these estimates; others may be better";
  doubt_ends(w);
  if (w->r.n_other > 0)
    w->doubt[w->n_doubt++] = atvi_pool_printf(
        w->pool,
        "%td of the %td runs were done with another command, other templates or outputs than the latest: it "
        "may be of two simulators",
        w->r.n_other, w->r.runs.n);
}

static atvi_status judge(work *w) {
  atvi_idx d = w->r.runs.d;
  ATVI_TRY(atvi_emulator_loo(w->ctx, w->em, &w->r.runs, &w->loo));
  ATVI_TRY(hold_out(w));
  w->sobol.first = atvi_pool_take(w->pool, (size_t)d, sizeof(double));
  w->sobol.total = atvi_pool_take(w->pool, (size_t)d, sizeof(double));
  w->sobol.first_time = atvi_pool_take(w->pool, (size_t)(d * w->r.runs.m), sizeof(double));
  w->sobol.total_time = atvi_pool_take(w->pool, (size_t)(d * w->r.runs.m), sizeof(double));
  if (!w->sobol.first || !w->sobol.total || !w->sobol.first_time || !w->sobol.total_time)
    return no_memory(w->ctx);
  ATVI_TRY(atvi_emulator_sobol(w->ctx, w->em, w->o->seed, &w->sobol));
  doubts(w);
  return atvi_pool_failed(w->pool) ? no_memory(w->ctx) : ATVI_OK;
}

/* ---- words ---- */

static const char *name_of(const work *w, atvi_idx j) { return w->lang->param[w->of->input[j]].name; }

static const char *kernel_name(atvi_em_kernel k) {
  return k == ATVI_EM_EXPONENTIAL ? "exponential"
         : k == ATVI_EM_MATERN32  ? "matern32"
         : k == ATVI_EM_MATERN52  ? "matern52"
                                  : "squared";
}

static void say_point(const work *w, atvi_text *t, const atvi_em_runs *runs, atvi_idx run) {
  for (atvi_idx j = 0; j < runs->d; j++)
    atvi_text_add(t, "%s%s %.4g", j ? ", " : "", name_of(w, j),
                  atvi_emulated_axis_theta(&w->r.axis[j], runs->x[run * runs->d + j]));
}

/* In no output at all, and seen at different values. */
static const char *remark(const work *w, atvi_idx j) {
  const atvi_em_runs *r = &w->r.runs;
  double most = 0;
  bool varies = false;
  for (atvi_idx i = 1; i < r->n; i++) varies = varies || r->x[i * r->d + j] != r->x[j];
  if (!varies) return "  the same in all runs: nothing is known of it";
  for (atvi_idx t = 0; t < r->m; t++) most = fmax(most, w->sobol.total_time[t * r->d + j]);
  return most < DOES_NOT_MATTER ? "  does not matter" : "";
}

/* The same of a prior without bounds: of its mass. */
static void say_tails(const work *w, atvi_text *t, atvi_idx j, double gap) {
  atvi_program_axis a;
  if (atvi_program_axis_new(w->pool, w->lang, w->of->input[j], &a) != ATVI_OK) return;
  double below = atvi_program_axis_below(&a, w->r.least[j]),
         above = 1 - atvi_program_axis_below(&a, w->r.most[j]);
  if (below > gap || above > gap)
    atvi_text_add(t, "  runs only from %.4g to %.4g: beyond, in %.3g %% of the prior, it is guessing",
                  w->r.least[j], w->r.most[j], 100 * (below + above));
}

/* Where the prior goes on beyond the runs: by more than the last slice of a design. */
static void say_range(const work *w, atvi_text *t, atvi_idx j) {
  const atvi_lang_param *p = &w->lang->param[w->of->input[j]];
  double share = fmax(0.02, 1.5 / (double)w->r.runs.n), gap = share * w->r.width[j];
  if (!isfinite(p->lower) || !isfinite(p->upper)) {
    say_tails(w, t, j, share);
    return;
  }
  if (w->r.least[j] > w->r.lower[j] + gap || w->r.most[j] < w->r.lower[j] + w->r.width[j] - gap)
    atvi_text_add(t, "  runs only from %.4g to %.4g: beyond, it is guessing", w->r.least[j], w->r.most[j]);
}

/* Rounded as the table has it, without the sign of a zero. */
static double shown(double index) { return fabs(index) < 5e-4 ? 0 : index; }

static void say_inputs(const work *w, atvi_text *t) {
  const atvi_em_info *info = atvi_emulator_info(w->em);
  int width = 5;
  bool logs = false;
  for (atvi_idx j = 0; j < w->r.runs.d; j++) {
    int n = (int)strlen(name_of(w, j));
    if (n > width) width = n;
  }
  atvi_text_add(t, "\n%-*s  %10s %10s %10s %8s %8s\n", width, "input", "from", "to", "length", "first",
                "total");
  for (atvi_idx j = 0; j < w->r.runs.d; j++) {
    bool log_scale = !isnan(w->r.axis[j].base);
    logs = logs || log_scale;
    atvi_text_add(t, "%-*s  %10.4g %10.4g %10.4g %8.3f %8.3f%s%s", width, name_of(w, j), w->r.lower[j],
                  w->r.lower[j] + w->r.width[j], info->length[j], shown(w->sobol.first[j]),
                  shown(w->sobol.total[j]), log_scale ? "  log" : "", remark(w, j));
    say_range(w, t, j);
    atvi_text_add(t, "\n");
  }
  atvi_text_add(t, "length: of the kernel, in ranges of the input; first, total: Sobol indices, +- %.3f\n",
                w->sobol.err);
  if (logs) atvi_text_add(t, "log: these inputs are taken by their logarithm, in lengths and indices too\n");
}

static void say_judged(atvi_text *t, const atvi_em_loo *j) {
  atvi_text_add(t, "Q2 %.4f, 95 %% intervals hold %.1f %%, root mean square error %.4g\n", j->q2,
                100 * j->coverage, j->rmse);
}

static atvi_app_mark say(const work *w, atvi_text *t) {
  const atvi_em_info *info = atvi_emulator_info(w->em);
  atvi_text_add(t, "%s%s: %td runs, %td inputs, %td output%s each; %s in %.2g s\n", w->k ? "\n" : "",
                w->of->name, w->r.runs.n, w->r.runs.d, w->r.runs.m, w->r.runs.m == 1 ? "" : "s",
                w->saved ? "loaded" : "fitted", w->seconds);
  atvi_em_ends ends;
  atvi_emulator_ends(&w->r.runs, &w->r.opts, info, &ends);
  atvi_text_add(t, "kernel %s, nugget %.4g%s, sill %.4g", kernel_name(w->r.opts.kernel), info->nugget,
                ends.nugget < 0 ? " (as small as it may be)" : "", info->sill);
  if (w->r.runs.m > 1) atvi_text_add(t, ", range in time %.4g", info->time_length);
  atvi_text_add(t, "; log likelihood %.2f", info->log_lik);
  if (info->starts > 0) atvi_text_add(t, " (%d of %d starts agree)", info->agreed, info->starts);
  atvi_text_add(t, "\n");
  if (info->n_basis < w->r.runs.m && w->r.opts.basis > 0)
    atvi_text_add(t, "basis of %td columns, %.4f of the variance\n", info->n_basis, info->basis_share);
  say_inputs(w, t);
  atvi_text_add(t, "\nleave one out: ");
  say_judged(t, &w->loo);
  atvi_text_add(t, "  worst run %.1f standard errors off, at ", w->loo.worst_error);
  say_point(w, t, &w->r.runs, w->loo.worst);
  atvi_text_add(t, "\n");
  if (w->n_test > 0) {
    atvi_text_add(t, "%td run%s held out: ", w->n_test, w->n_test == 1 ? "" : "s");
    say_judged(t, &w->test);
  }
  atvi_text_add(t, "verdict: ");
  atvi_app_mark judged = {w->n_doubt ? ATVI_VERDICT_WARN : ATVI_VERDICT_OK, (size_t)t->n};
  atvi_text_add(t, "%s\n", atvi_verdict_name(judged.verdict));
  for (int i = 0; i < w->n_doubt; i++) atvi_text_add(t, "  - %s\n", w->doubt[i]);
  for (int i = 0; i < w->n_note; i++) atvi_text_add(t, "  - note: %s\n", w->note[i]);
  return judged;
}

static json_t *json_judged(const atvi_em_loo *j, atvi_idx n) {
  json_t *o = json_object();
  bool ok = atvi_json_set(o, "n", json_integer(n));
  ok = atvi_json_set(o, "q2", atvi_json_real(j->q2)) && ok;
  ok = atvi_json_set(o, "coverage", atvi_json_real(j->coverage)) && ok;
  ok = atvi_json_set(o, "rmse", atvi_json_real(j->rmse)) && ok;
  ok = atvi_json_set(o, "log_score", atvi_json_real(j->log_score)) && ok;
  ok = atvi_json_set(o, "worst_error", atvi_json_real(j->worst_error)) && ok;
  return atvi_json_done(o, ok);
}

static json_t *json_inputs(const work *w) {
  const atvi_em_info *info = atvi_emulator_info(w->em);
  json_t *all = json_array();
  bool ok = all != NULL;
  for (atvi_idx j = 0; j < w->r.runs.d; j++) {
    json_t *o = json_object();
    ok = atvi_json_set(o, "name", atvi_json_word(w->pool, name_of(w, j))) && ok;
    ok = atvi_json_set(o, "range", atvi_json_pair(w->r.lower[j], w->r.lower[j] + w->r.width[j])) && ok;
    ok = atvi_json_set(o, "scale", json_string(isnan(w->r.axis[j].base) ? "linear" : "log")) && ok;
    ok = atvi_json_set(o, "runs", atvi_json_pair(w->r.least[j], w->r.most[j])) && ok;
    ok = atvi_json_set(o, "length", atvi_json_real(info->length[j])) && ok;
    ok = atvi_json_set(o, "first", atvi_json_real(w->sobol.first[j])) && ok;
    ok = atvi_json_set(o, "total", atvi_json_real(w->sobol.total[j])) && ok;
    ok = json_array_append_new(all, o) == 0 && ok;
  }
  return atvi_json_done(all, ok);
}

static json_t *json_of(const work *w) {
  const atvi_em_info *info = atvi_emulator_info(w->em);
  json_t *o = json_object(), *doubt = json_array();
  bool ok = atvi_json_set(o, "name", atvi_json_word(w->pool, w->of->name));
  ok = atvi_json_set(o, "runs", json_integer(w->r.runs.n)) && ok;
  ok = atvi_json_set(o, "failed_runs", json_integer(w->r.n_failed)) && ok;
  ok = atvi_json_set(o, "outputs", json_integer(w->r.runs.m)) && ok;
  ok = atvi_json_set(o, "kernel", json_string(kernel_name(w->r.opts.kernel))) && ok;
  ok = atvi_json_set(o, "nugget", atvi_json_real(info->nugget)) && ok;
  ok = atvi_json_set(o, "time_length", atvi_json_real(w->r.runs.m > 1 ? info->time_length : NAN)) && ok;
  ok = atvi_json_set(o, "sill", atvi_json_real(info->sill)) && ok;
  ok = atvi_json_set(o, "log_likelihood", atvi_json_real(info->log_lik)) && ok;
  ok = atvi_json_set(o, "basis", json_integer(info->n_basis)) && ok;
  ok = atvi_json_set(o, "basis_share", atvi_json_real(info->basis_share)) && ok;
  ok = atvi_json_set(o, "inputs", json_inputs(w)) && ok;
  ok = atvi_json_set(o, "sobol_error", atvi_json_real(w->sobol.err)) && ok;
  ok = atvi_json_set(o, "leave_one_out", json_judged(&w->loo, w->r.runs.n)) && ok;
  if (w->n_test > 0) ok = atvi_json_set(o, "held_out", json_judged(&w->test, w->n_test)) && ok;
  ok = atvi_json_set(o, "verdict", json_string(w->n_doubt ? "warn" : "ok")) && ok;
  for (int i = 0; i < w->n_doubt; i++)
    ok = json_array_append_new(doubt, atvi_json_word(w->pool, w->doubt[i])) == 0 && ok;
  for (int i = 0; i < w->n_note; i++)
    ok = json_array_append_new(doubt, atvi_json_word(w->pool, w->note[i])) == 0 && ok;
  ok = atvi_json_set(o, "messages", doubt) && ok;
  return atvi_json_done(o, ok);
}

/* ---- report ---- */

static const char *say_how(const work *w) {
  atvi_text t = {.pool = w->pool};
  const char *text;
  const atvi_em_info *info = atvi_emulator_info(w->em);
  atvi_text_add(&t, "Kernel %s, nugget %.3g, sill %.3g", kernel_name(w->r.opts.kernel), info->nugget,
                info->sill);
  if (w->r.runs.m > 1) atvi_text_add(&t, ", range in time %.3g", info->time_length);
  atvi_text_add(&t, "; log likelihood %.2f", info->log_lik);
  if (info->starts > 0) atvi_text_add(&t, " (%d of %d starts agree)", info->agreed, info->starts);
  if (info->n_basis < w->r.runs.m && w->r.opts.basis > 0)
    atvi_text_add(&t, "; a basis of %td columns keeps %.4f of the variance", info->n_basis,
                  info->basis_share);
  atvi_text_add(&t, ".");
  return atvi_text_get(&t, &text) == ATVI_OK ? text : NULL;
}

/* Without the blanks that part columns on a terminal. */
static bool remarks(const work *w, atvi_report_emulator *out) {
  const char **list = atvi_pool_take(w->pool, (size_t)w->r.runs.d + 1, sizeof *list);
  for (atvi_idx j = 0; list && j < w->r.runs.d; j++) {
    atvi_text t = {.pool = w->pool};
    const char *text;
    atvi_text_add(&t, "%s", remark(w, j));
    say_range(w, &t, j);
    if (atvi_text_get(&t, &text) != ATVI_OK) return false;
    list[j] = text + strspn(text, " ");
  }
  out->remark = list;
  return list != NULL;
}

/* The emulator is freed before the report is written: what is needed of it is copied. */
static atvi_status keep_for_report(const work *w, atvi_report_emulator *out) {
  atvi_idx d = w->r.runs.d;
  double *length = atvi_pool_take(w->pool, (size_t)d + 1, sizeof *length);
  bool *log = atvi_pool_take(w->pool, (size_t)d + 1, sizeof *log);
  const char **doubt = atvi_pool_take(w->pool, sizeof w->doubt / sizeof w->doubt[0], sizeof *doubt);
  if (!length || !log || !doubt) return no_memory(w->ctx);
  ATVI_TRY(atvi_report_emulator_judge(w->pool, w->lang, w->k, w->o->runs, &w->r, w->em, out));
  memcpy(length, atvi_emulator_info(w->em)->length, (size_t)d * sizeof *length);
  memcpy(doubt, w->doubt, sizeof w->doubt);
  for (atvi_idx j = 0; j < d; j++) log[j] = !isnan(w->r.axis[j].base);
  out->length = length;
  out->log = log;
  out->doubt = doubt;
  out->n_doubt = w->n_doubt;
  out->how = say_how(w);
  out->seconds = w->seconds;
  out->loaded = w->saved;
  out->n_held = w->n_test;
  out->held_q2 = w->test.q2, out->held_coverage = w->test.coverage, out->held_rmse = w->test.rmse;
  out->first = w->sobol.first, out->total = w->sobol.total;
  out->total_time = w->r.runs.m > 1 ? w->sobol.total_time : NULL;
  out->sobol_error = w->sobol.err;
  return remarks(w, out) ? ATVI_OK : no_memory(w->ctx);
}

/* ---- the command ---- */

static atvi_status one(work *w, atvi_text *text, atvi_app_mark *judged, json_t *all) {
  const char *path = atvi_emulated_path(w->pool, w->lang, w->k, w->o->runs);
  if (!path) return no_memory(w->ctx);
  ATVI_TRY(atvi_emulated_runs_read(w->pool, w->lang, w->k, w->o->runs, 0, &w->r));
  ATVI_TRY(get(w, path));
  ATVI_TRY(judge(w));
  *judged = say(w, text);
  return json_array_append_new(all, json_of(w)) == 0 ? ATVI_OK : no_memory(w->ctx);
}

/* An old report, of other runs perhaps, goes; a page that somebody else wrote stays. */
static bool clear_report(atvi_ctx *ctx, atvi_pool *pool, const char *dir) {
  const char *old = atvi_pool_printf(pool, "%s/report.html", dir);
  if (!atvi_report_emulate_may(pool, dir)) {
    atvi_log(ctx, ATVI_LOG_WARN,
             "%s/report.html is not a report of atvi emulate: it is left as it is, and "
             "no report is written",
             dir);
    return false;
  }
  if (old) unlink(old);
  return true;
}

static atvi_status every(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_emulate_opts *opts,
                         const atvi_lang *lang, atvi_app_emulate_result *result, json_t *all) {
  atvi_text text = {.pool = pool};
  atvi_report_emulator *told = atvi_pool_take(pool, (size_t)lang->n_emulator, sizeof *told);
  bool report = !opts->no_report;
  result->judged = atvi_pool_take(pool, (size_t)lang->n_emulator, sizeof *result->judged);
  if (!told || !result->judged) return no_memory(ctx);
  for (atvi_idx k = 0; k < lang->n_emulator; k++) {
    work w = {.ctx = ctx, .pool = pool, .o = opts, .lang = lang, .k = k, .of = &lang->emulator[k]};
    atvi_status status = one(&w, &text, &result->judged[result->n_judged++], all);
    if (status == ATVI_OK && report && (status = keep_for_report(&w, &told[k])) != ATVI_OK) {
      atvi_log(ctx, ATVI_LOG_WARN, "the report could not be written: %s", atvi_errmsg(ctx));
      report = false;
      if (status != ATVI_ESTOP) status = ATVI_OK;
    }
    atvi_emulator_free(w.em);
    ATVI_TRY(status);
    result->doubtful = result->doubtful || w.n_doubt > 0;
  }
  if (!opts->no_report && clear_report(ctx, pool, result->dir) && report)
    atvi_app_report_emulate(pool, opts, lang, lang->n_emulator, told, result->dir, &result->report);
  return atvi_text_get(&text, &result->text);
}

static atvi_status emulate(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_emulate_opts *opts,
                           const atvi_lang *lang, atvi_app_emulate_result *result) {
  if (lang->n_emulator == 0)
    return ATVI_FAIL(
        ctx, ATVI_EMODEL,
        "%s:1:1: error: the model has no emulator\nhint: a block emulator NAME { ... }, or an observation ~ "
        "emulator(NAME) + ... of an output of its simulator; docs/simulators.md",
        lang->path);
  result->dir = opts->runs ? opts->runs : atvi_sim_folder(pool, lang->path);
  if (!result->dir) return no_memory(ctx);
  ATVI_TRY(atvi_dir_make(ctx, result->dir, false));
  json_t *all = json_array();
  atvi_status status = all ? every(ctx, pool, opts, lang, result, all) : no_memory(ctx);
  if (status != ATVI_OK) {
    json_decref(all);
    return status;
  }
  ATVI_TRY(atvi_json_text(pool, all, "emulate.json", &result->json));
  const char *path = atvi_pool_printf(pool, "%s/emulate.json", result->dir);
  return path ? atvi_file_save(ctx, path, result->json, strlen(result->json)) : no_memory(ctx);
}

atvi_status atvi_app_emulate(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_emulate_opts *opts,
                             atvi_app_emulate_result *result) {
  atvi_lang *lang;
  *result = (atvi_app_emulate_result){0};
  if (!(opts->test >= 0 && opts->test < 1))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "--test %g: want a share of the runs, from 0 to below 1", opts->test);
  ATVI_TRY(atvi_lang_load(ctx, opts->path, &(atvi_lang_opts){.folder = opts->folder, .data_optional = true},
                          &lang));
  atvi_status status = emulate(ctx, pool, opts, lang, result);
  atvi_lang_free(lang);
  return status;
}
