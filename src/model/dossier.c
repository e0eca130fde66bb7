/* SPDX-License-Identifier: MIT */
#include "model/dossier.h"
#include "io/text.h"
#include "math/special.h"
#include "math/stat/stat.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* An emulator that explains less than LOW of what differs between runs is worse than none in most uses; one
 * below FAIR has too few runs. */
static const double Q2_LOW = 0.5, Q2_FAIR = 0.9;
/* Above, intervals that are too wide are still short. */
static const double Q2_HIGH = 0.99;
/* Intervals are at fault if they cover this many standard errors (99 %) more or less than they should, with
 * runs as the cases: values of one run go together. */
static const double NOMINAL = 0.95, Z95 = 1.95996398454, CHANCE = 2.58;
/* The upper end of the emulator's error where the posterior is lies above it with this probability. */
static const double SCALE_ABOVE = 0.1;
/* Points without a run are a reason to doubt from this share of all. */
static const double MANY = 0.1;
/* Held-out runs count from this number on: Q2 is a ratio of two sums over them. */
enum { HELD_LEAST = 10 };
/* A third of an input's range stands out with this number of runs, and errors this many times those of the
 * other runs. */
enum { THIRD_LEAST = 4 };
static const double THIRD_WORSE = 1.5;
/* Outputs whose variance between runs is below this share of the mean one are not looked at: nothing much is
 * lost there. */
static const double FLAT = 1e-3;
/* An output is poor where more than 1 - FAIR is unexplained, and this many times the median over outputs. */
static const double TIME_WORSE = 2;
/* Inputs that the sentence about poor places names. */
enum { NAMED = 3 };

/* ---- where it is poor ---- */

/* square[m]: sum of squares of each output about its mean over the runs; returns their sum. */
static double squares(const atvi_em_runs *r, double *square) {
  double all = 0;
  for (atvi_idx t = 0; t < r->m; t++) {
    double mean = 0;
    for (atvi_idx i = 0; i < r->n; i++) mean += r->y[i * r->m + t] / (double)r->n;
    if (r->mean) mean = r->mean[t];
    for (atvi_idx i = 0; i < r->n; i++) square[t] += pow(r->y[i * r->m + t] - mean, 2);
    all += square[t];
  }
  return all;
}

/* The stretch of outputs [*from, *to] around the worst one in which all are poor: bad[m] above `least` and
 * TIME_WORSE times its median. NaN: not looked at. False: none is. room[3 m]: scratch. */
static bool poor_outputs(atvi_idx m, const double *bad, double least, double *room, atvi_idx *from,
                         atvi_idx *to) {
  atvi_idx worst = -1, n = 0;
  for (atvi_idx t = 0; t < m; t++) {
    if (isnan(bad[t])) continue;
    room[n++] = bad[t];
    if (worst < 0 || bad[t] > bad[worst]) worst = t;
  }
  if (n < 2) return false;
  atvi_math_sort(n, room, NULL, room + m);
  double most = fmax(least, TIME_WORSE * room[n / 2]);
  if (!(bad[worst] > most)) return false;
  *from = *to = worst;
  for (int up = 0; up < 2; up++)
    for (atvi_idx t = worst; t >= 0 && t < m; t += up ? 1 : -1) {
      if (isnan(bad[t]) && t > 0 && t < m - 1) continue;
      if (!isnan(bad[t]) && !(bad[t] > most)) break;
      *(up ? to : from) = t;
    }
  return true;
}

static void name_outputs(const atvi_dossier *d, atvi_idx from, atvi_idx to, atvi_text *out) {
  const double *time = d->r.runs.time;
  atvi_idx last = d->r.runs.m - 1;
  if (time && from == to && from > 0 && to < last)
    atvi_io_text_add(out, "at t = %.4g", time[from]);
  else if (time && to == last && from > 0)
    atvi_io_text_add(out, "at late times (t > %.4g)", time[from - 1]);
  else if (time && from == 0)
    atvi_io_text_add(out, "at early times (t < %.4g)", time[to + 1]);
  else if (time)
    atvi_io_text_add(out, "from t = %.4g to %.4g", time[from], time[to]);
  else if (from == to)
    atvi_io_text_add(out, "in output %td", from + 1);
  else
    atvi_io_text_add(out, "in outputs %td to %td", from + 1, to + 1);
}

/* The third of its range that x, in the unit cube, lies in. */
static int third_of(double x) { return x < 1.0 / 3 ? 0 : x < 2.0 / 3 ? 1 : 2; }

/* all: sum of squares of the runs about their mean. Runs count by the root of their mean squared error, so
 * that one that is far off does not decide. */
static void find_thirds(atvi_dossier *d, double all, const double *error) {
  const atvi_em_runs *r = &d->r.runs;
  for (atvi_idx j = 0; j < r->d; j++) {
    double sum[3] = {0}, square[3] = {0}, whole = 0;
    atvi_dossier_third *third = d->third + 3 * j;
    for (atvi_idx i = 0; i < r->n; i++) {
      int s = third_of(r->x[i * r->d + j]);
      third[s].n++;
      sum[s] += error[i];
      square[s] += error[i] * error[i];
      whole += error[i];
    }
    for (int s = 0; s < 3; s++) {
      atvi_idx n = third[s].n, rest = r->n - n;
      third[s].q2 = n > 0 && all > 0 ? 1 - square[s] / (double)n / (all / (double)(r->n * r->m)) : NAN;
      third[s].poor = n >= THIRD_LEAST && rest > 0 && third[s].q2 < Q2_FAIR &&
                      sum[s] / (double)n > THIRD_WORSE * (whole - sum[s]) / (double)rest;
    }
  }
}

static void name_third(const atvi_dossier *d, atvi_idx j, int s, atvi_text *out) {
  double low = atvi_model_emulated_axis_theta(&d->r.axis[j], 1.0 / 3),
         high = atvi_model_emulated_axis_theta(&d->r.axis[j], 2.0 / 3);
  const char *name = d->input[j];
  if (s == 1)
    atvi_io_text_add(out, "%s between %.3g and %.3g", name, low, high);
  else
    atvi_io_text_add(out, "%s %s (%s %s %.3g)", s ? "high" : "low", name, name, s ? ">" : "<",
                     s ? high : low);
}

/* Thirds that stand out, worst first. Returns how many were named. */
static int name_thirds(const atvi_dossier *d, bool after, atvi_text *out) {
  double last = -HUGE_VAL;
  for (int named = 0;; named++) {
    atvi_idx at = -1;
    for (atvi_idx k = 0; k < 3 * d->r.runs.d; k++)
      if (d->third[k].poor && d->third[k].q2 > last && (at < 0 || d->third[k].q2 < d->third[at].q2)) at = k;
    if (at < 0 || named == NAMED) return named;
    atvi_io_text_add(out, named ? ", " : after ? " and for " : "for ");
    name_third(d, at / 3, (int)(at % 3), out);
    last = d->third[at].q2;
  }
}

static atvi_status find_poor(atvi_pool *pool, atvi_dossier *d) {
  const atvi_em_runs *r = &d->r.runs;
  atvi_text out = {.pool = pool};
  atvi_idx from, to;
  double *square = atvi_pool_take(pool, 4 * (size_t)r->m + 1, sizeof *square);
  double *error = atvi_pool_take(pool, (size_t)r->n + 1, sizeof *error);
  d->third = atvi_pool_take(pool, 3 * (size_t)r->d + 1, sizeof *d->third);
  if (!square || !error || !d->third) return ATVI_ENOMEM;
  double all = squares(r, square);
  for (atvi_idx i = 0; i < r->n; i++) {
    for (atvi_idx k = i * r->m; k < (i + 1) * r->m; k++) error[i] += pow(r->y[k] - d->loo.predicted[k], 2);
    error[i] = sqrt(error[i] / (double)r->m);
  }
  find_thirds(d, all, error);
  for (atvi_idx t = 0; t < r->m; t++)
    square[t] = square[t] > FLAT * all / (double)r->m ? 1 - d->loo.q2_time[t] : NAN;
  bool times = poor_outputs(r->m, square, 1 - Q2_FAIR, square + r->m, &from, &to);
  if (times) name_outputs(d, from, to, &out);
  if (name_thirds(d, times, &out) == 0 && !times) return ATVI_OK;
  return atvi_io_text_get(&out, &d->poor);
}

atvi_status atvi_model_dossier_make(atvi_pool *pool, const atvi_lang *lang, atvi_idx k,
                                    const atvi_emulated_runs *r, const atvi_emulator *em, atvi_dossier *out) {
  size_t n = (size_t)r->runs.n, m = (size_t)r->runs.m;
  *out = (atvi_dossier){.name = lang->emulator[k].name, .r = *r, .outside = NAN};
  out->input = atvi_model_emulated_inputs(pool, lang, k);
  out->loo.q2_time = atvi_pool_take(pool, m, sizeof(double));
  out->loo.run_error = atvi_pool_take(pool, n, sizeof(double));
  out->loo.run_sd = atvi_pool_take(pool, n, sizeof(double));
  out->loo.predicted = atvi_pool_take(pool, n * m, sizeof(double));
  if (atvi_pool_failed(pool)) return ATVI_ENOMEM;
  ATVI_TRY(atvi_gp_emulator_loo(atvi_pool_ctx(pool), em, &r->runs, &out->loo));
  return find_poor(pool, out);
}

/* ---- where the posterior is ---- */

atvi_status atvi_model_dossier_near(atvi_pool *pool, atvi_dossier *d) {
  const atvi_em_runs *r = &d->r.runs;
  atvi_dossier_near *near = &d->near;
  double *square = atvi_pool_take(pool, 4 * (size_t)r->m + 1, sizeof *square), squares = 0, all = 0;
  atvi_text out = {.pool = pool};
  atvi_idx from, to;
  if (!square) return ATVI_ENOMEM;
  near->coverage = near->error = 0;
  for (atvi_idx i = 0; i < r->n; i++) {
    double w = near->run[i], inside = 0;
    for (atvi_idx t = 0; t < r->m; t++) {
      double e = r->y[i * r->m + t] - d->loo.predicted[i * r->m + t];
      square[t] += w * e * e;
      inside += fabs(e) <= Z95 * d->loo.run_sd[i];
    }
    near->coverage += w * inside / (double)r->m;
    near->error += w * d->loo.run_error[i] * d->loo.run_error[i];
    all += w, squares += w * w;
  }
  near->n_run = squares > 0 ? all * all / squares : 0;
  near->error = sqrt(near->error / all);
  near->coverage /= all;
  near->times = NULL;
  if (r->m < 3 || !poor_outputs(r->m, square, 0, square + r->m, &from, &to)) return ATVI_OK;
  name_outputs(d, from, to, &out);
  return atvi_io_text_get(&out, &near->times);
}

/* ---- doubts ---- */

/* How far a doubt reaches: a note; the verdict on the emulator; that on a fit too. */
typedef enum { NOTE, DOUBT, GRAVE } reach;

ATVI_PRINTF(5, 6)
static void add(atvi_pool *pool, atvi_dossier *d, atvi_code code, reach level, const char *fmt, ...) {
  va_list args;
  char text[800];
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  d->doubt[d->n_doubt++] = (atvi_doubt){
      level > NOTE,
      {level == GRAVE ? ATVI_WARNING : ATVI_NOTE, code, atvi_pool_strndup(pool, text, strlen(text))}};
}

static void doubt_share(atvi_pool *pool, atvi_dossier *d) {
  bool held = d->n_held >= HELD_LEAST && d->held.q2 < d->loo.q2;
  double q2 = held ? d->held.q2 : d->loo.q2;
  if (d->loo.q2 < Q2_LOW)
    add(pool, d, ATVI_CODE_EMULATOR_POOR, d->near.run ? DOUBT : GRAVE,
        "it explains less than half of what differs between runs (Q2 %.2f): more runs, or a narrower prior, "
        "are needed",
        d->loo.q2);
  else if (q2 < Q2_FAIR)
    add(pool, d, ATVI_CODE_EMULATOR_FAIR, DOUBT, "it predicts only %.0f %% of what differs between runs%s",
        100 * q2, held ? " that were held out" : "");
}

/* Runs that failed are a fact, not a reason to doubt the others: where they are missing, the emulator
 * knows less. */
static void doubt_runs(atvi_pool *pool, atvi_dossier *d) {
  const atvi_sim_runs *rec = &d->r.record;
  atvi_idx n = rec->n_failed, once = n - rec->n_again;
  const char *why = rec->failure ? rec->failure : "";
  if (n > 0)
    add(pool, d, ATVI_CODE_RUNS_LEFT_OUT, NOTE, "%td failed run%s not among the %td used%s%s%.300s%s", n,
        n == 1 ? " is" : "s are", d->r.runs.n, once > 0 ? "" : ", nor good when tried again",
        why[0] ? " (" : "", why, why[0] ? ")" : "");
  if (d->n_missing > 0)
    add(pool, d, ATVI_CODE_POINTS_LEFT, (double)d->n_missing >= MANY * (double)d->n_point ? DOUBT : NOTE,
        "%td of %td points of the design have not been run", d->n_missing, d->n_point);
}

/* By how much coverage of this many runs may differ from what it should be. */
static double chance(double n) { return CHANCE * sqrt(NOMINAL * (1 - NOMINAL) / n); }

bool atvi_model_dossier_overconfident(const atvi_dossier *d) {
  return d->near.run ? d->near.coverage < NOMINAL - chance(d->near.n_run)
                     : d->loo.coverage < NOMINAL - chance((double)d->r.runs.n);
}

/* Errors of n runs in standard deviations, root mean square e: n e^2 / scale^2 is chi-square with n degrees
 * of freedom, one for each run, as values of one run go together. Its lower quantile by halving: two runs
 * leave a factor of three open. */
double atvi_model_dossier_scale(const atvi_dossier *d) {
  double n = d->near.n_run, low = 0, high = n;
  if (!d->near.run || !(n > 0)) return 1;
  for (int i = 0; i < 60; i++) {
    double x = 0.5 * (low + high);
    *(atvi_math_gamma_p(0.5 * n, 0.5 * x) < SCALE_ABOVE ? &low : &high) = x;
  }
  return fmax(1, d->near.error * sqrt(n / low));
}

static void doubt_intervals(atvi_pool *pool, atvi_dossier *d) {
  const char *what = d->r.opts.basis > 0 ? "a larger share for the basis, or " : "";
  if (atvi_model_dossier_overconfident(d) && d->near.run)
    add(pool, d, ATVI_CODE_EMULATOR_OVERCONFIDENT, DOUBT,
        "it is overconfident where the posterior is: its 95 %% intervals hold %.0f %% of the runs there, and "
        "its "
        "errors are %.1f times what it says",
        100 * d->near.coverage, d->near.error);
  else if (atvi_model_dossier_overconfident(d))
    add(pool, d, ATVI_CODE_EMULATOR_OVERCONFIDENT, GRAVE,
        "it is overconfident: its 95 %% intervals cover only %.0f %% of the runs; try %sanother kernel",
        100 * d->loo.coverage, what);
  else if (!d->near.run && d->loo.coverage > NOMINAL + chance((double)d->r.runs.n) && d->loo.q2 < Q2_HIGH)
    add(pool, d, ATVI_CODE_EMULATOR_WIDE, DOUBT,
        "its 95 %% intervals are too wide: they cover %.1f %% of the runs; try another kernel",
        100 * d->loo.coverage);
}

/* Estimates at a limit are not estimates. */
static void doubt_estimates(atvi_pool *pool, const atvi_emulator *em, atvi_dossier *d) {
  const atvi_em_info *info = atvi_gp_emulator_info(em);
  atvi_em_ends ends;
  atvi_gp_emulator_ends(&d->r.runs, &d->r.opts, info, &ends);
  if (info->starts > 2 && info->agreed < 2)
    add(pool, d, ATVI_CODE_EMULATOR_STARTS, DOUBT,
        "only one start of the search found these estimates; others may be better");
  if (ends.nugget > 0)
    add(pool, d, ATVI_CODE_EMULATOR_LIMIT, DOUBT,
        "the nugget is at its upper limit: the emulator explains the runs as noise");
  if (ends.time)
    add(pool, d, ATVI_CODE_EMULATOR_LIMIT, DOUBT,
        ends.time < 0
            ? "the range in time is at its lower limit: differences between runs are unrelated from one time "
              "to the next"
            : "the range in time is at its upper limit: runs differ by the same amount at all times");
  if (ends.n_short > 0)
    add(pool, d, ATVI_CODE_EMULATOR_LIMIT, DOUBT,
        "the length of %td input%s is at its lower limit: runs say nothing about each other", ends.n_short,
        ends.n_short == 1 ? "" : "s");
}

atvi_status atvi_model_dossier_judge(atvi_pool *pool, const atvi_emulator *em, atvi_dossier *d) {
  d->n_doubt = 0;
  doubt_share(pool, d);
  doubt_runs(pool, d);
  doubt_intervals(pool, d);
  doubt_estimates(pool, em, d);
  if (d->r.record.n_other > 0)
    add(pool, d, ATVI_CODE_RUNS_MIXED, GRAVE,
        "%td of the %td runs were made with another command, other templates or outputs than the latest: "
        "they may come from two simulators",
        d->r.record.n_other, d->r.runs.n);
  return atvi_pool_status(pool);
}

bool atvi_model_dossier_doubtful(const atvi_dossier *d) {
  for (int i = 0; i < d->n_doubt; i++)
    if (d->doubt[i].doubtful) return true;
  return false;
}
