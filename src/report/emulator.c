/* SPDX-License-Identifier: MIT */
/* The page of atvi emulate, and what the page of a fit says about its emulators. */
#include "report/fit.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  HALF = ATVI_REPORT_HALF,
  SQUARE = 370,     /* height of a scatter plot */
  PLACES = 400,     /* points along a long output through which lines go */
  LINES = 7,        /* inputs with their own line */
  LONG_LENGTH = 50, /* in ranges of the input: beyond this nothing changes along it */
  VALUES = 300,     /* left-out values shown at most */
  RUNS = 60,        /* runs these belong to, or more with fewer values each */
  WORST = 5,        /* number of worst predicted runs listed */
  FAILED = 20,      /* failed runs listed */
};

/* One emulator among those of a page. */
typedef struct {
  atvi_page *p;
  const atvi_report_emulator *e;
  const atvi_dossier *d;
  atvi_idx k;
  bool alone;
  /* NULL: do not save figures */
  const char *dir;
  atvi_status status;
} telling;

/* ---- values of left-out runs ---- */

typedef struct {
  double observed, predicted, sd;
} left_value;

static atvi_idx which(atvi_idx i, atvi_idx n, atvi_idx of) { return (2 * i + 1) * of / (2 * n); }

static int by_observed(const void *a, const void *b) {
  const left_value *p = a, *q = b;
  return (p->observed > q->observed) - (p->observed < q->observed);
}

atvi_status atvi_report_left_out(atvi_pool *pool, const atvi_dossier *d, atvi_report_left *out) {
  const atvi_em_runs *r = &d->r.runs;
  atvi_idx few = VALUES / r->m, n_run = few > RUNS ? few : RUNS, n = 0;
  bool all = r->n * r->m <= VALUES;
  if (all || n_run > r->n) n_run = r->n;
  atvi_idx m = r->m, most = n_run < VALUES ? VALUES / n_run : 1;
  if (!all && m > most) m = most;
  left_value *v = atvi_pool_take(pool, (size_t)(n_run * m), sizeof *v);
  double *column = atvi_pool_take(pool, 3 * (size_t)(n_run * m), sizeof *column);
  if (!v || !column) return ATVI_ENOMEM;
  for (atvi_idx k = 0; k < n_run; k++)
    for (atvi_idx t = 0; t < m; t++) {
      atvi_idx run = which(k, n_run, r->n), at = run * r->m + which(t, m, r->m);
      v[n++] = (left_value){r->y[at], d->loo.predicted[at], d->loo.run_sd[run]};
    }
  qsort(v, (size_t)n, sizeof *v, by_observed);
  for (atvi_idx i = 0; i < n; i++) {
    column[i] = v[i].observed;
    column[n + i] = v[i].predicted;
    column[2 * n + i] = v[i].sd;
  }
  *out = (atvi_report_left){n, n_run, column, column + n, column + 2 * n};
  return ATVI_OK;
}

/* ---- helpers ---- */

/* Ids on the page and names of files: "loo" for the first emulator, then "loo-2". */
static const char *id_of(const telling *t, const char *what) {
  const char *id = t->k == 0 ? what : atvi_pool_printf(t->p->pool, "%s-%td", what, t->k + 1);
  return id ? id : what;
}

static void section(const telling *t, const char *id, const char *heading) {
  const char *text = t->alone ? heading : atvi_pool_printf(t->p->pool, "%s: %s", t->d->name, heading);
  atvi_report_page_section(t->p, id_of(t, id), text ? text : heading);
}

static void save(telling *t, const char *name, const char *alt, const atvi_canvas *c) {
  if (t->dir && t->status == ATVI_OK)
    t->status = atvi_report_save_figure(t->p->pool, t->dir, name, alt ? alt : "", c);
}

static void put(telling *t, const char *id, const char *alt, const atvi_canvas *c) {
  const char *name = id_of(t, id);
  if (!c) return;
  atvi_report_page_figure(t->p, c, name, alt ? alt : "");
  save(t, name, alt, c);
}

/* Ids come from the record; runs from files are numbered by line. */
static const char *name_run(atvi_pool *pool, const atvi_dossier *d, atvi_idx i) {
  const char *name = atvi_pool_printf(pool, "run %" PRId64, d->r.record.id ? d->r.record.id[i] : i + 1);
  return name ? name : "";
}

/* A table of runs: names, inputs, and a last column. */
static bool begin_runs(const telling *t, const char *caption, const char *last) {
  atvi_idx d = t->d->r.runs.d;
  const char **column = atvi_pool_take(t->p->pool, (size_t)d + 2, sizeof *column);
  if (!column) return false;
  column[0] = "";
  for (atvi_idx j = 0; j < d; j++) column[j + 1] = t->d->input[j];
  column[d + 1] = last;
  atvi_report_page_table(t->p, caption, (int)d + 2, column, false);
  return true;
}

static void say_worst(const telling *t) {
  const atvi_em_runs *r = &t->d->r.runs;
  double last = HUGE_VAL;
  if (!begin_runs(t,
                  r->m > 1 ? "Worst predicted runs; root mean square error over the outputs, in predicted "
                             "standard deviations"
                           : "Worst predicted runs; error in predicted standard deviations",
                  "error"))
    return;
  for (int k = 0; k < WORST && k < r->n; k++) {
    const double *error = t->d->loo.run_error;
    atvi_idx most = -1;
    for (atvi_idx i = 0; i < r->n; i++)
      if (error[i] < last && (most < 0 || error[i] > error[most])) most = i;
    if (most < 0) break;
    last = error[most];
    atvi_report_page_row(t->p, name_run(t->p->pool, t->d, most));
    for (atvi_idx j = 0; j < r->d; j++)
      atvi_report_page_number(t->p, atvi_model_emulated_axis_theta(&t->d->r.axis[j], r->x[most * r->d + j]),
                              4);
    atvi_report_page_cell(t->p, atvi_pool_printf(t->p->pool, "%.1f", error[most]));
  }
  atvi_report_page_table_end(t->p, false);
}

/* ---- validation ---- */

static const char *quality(atvi_pool *pool, const atvi_dossier *d) {
  const char *text = atvi_pool_printf(pool,
                                      "runs left out one at a time are predicted with Q\xc2\xb2 = %.4f, and "
                                      "%.1f %% of their values lie inside their 95 %% intervals",
                                      d->loo.q2, 100 * d->loo.coverage);
  return text ? text : "";
}

static void say_shown(const telling *t, const atvi_report_left *left, double inside) {
  const atvi_em_runs *r = &t->d->r.runs;
  if (left->n_run < r->n || left->n < r->n * r->m)
    atvi_report_page_note(
        t->p, "Shown: %td values of %td of the %td runs, left out one at a time; %.0f %% of them lie inside.",
        left->n, left->n_run, r->n, inside);
  else
    atvi_report_page_note(t->p, "Shown: all values, runs left out one at a time.");
}

static void put_left_out(telling *t) {
  atvi_pool *pool = t->p->pool;
  atvi_box box = {0, 0, HALF, SQUARE};
  atvi_report_left v;
  atvi_idx out = 0;
  if (t->status != ATVI_OK || (t->status = atvi_report_left_out(pool, t->d, &v)) != ATVI_OK) return;
  for (atvi_idx i = 0; i < v.n; i++) out += fabs(v.observed[i] - v.predicted[i]) > 1.96 * v.sd[i];
  atvi_report_page_grid(t->p, "half");
  atvi_canvas *c = atvi_report_canvas_new(pool, box.width, box.height);
  atvi_frame f = atvi_report_panel_left_out(c, box, v.n, v.observed, v.predicted, v.sd);
  put(t, "loo",
      atvi_pool_printf(pool,
                       "Left-out runs: predictions of the emulator, with 95 %% intervals, against the "
                       "simulator; %td of %td intervals miss it.",
                       out, v.n),
      c);
  const atvi_hover column[] = {{"the emulator's", v.predicted}, {"standard deviation", v.sd}};
  atvi_report_page_hover(t->p, id_of(t, "loo"), &f, false, "the simulator's", v.n, v.observed, 2, column);
  c = atvi_report_canvas_new(pool, box.width, box.height);
  atvi_report_panel_left_errors(c, box, v.n, v.observed, v.predicted, v.sd);
  put(t, "errors",
      "Errors of the predictions of left-out runs, in predicted standard deviations, against the prediction; "
      "good if 95 % lie between the dashed lines, for all predictions.",
      c);
  atvi_report_page_grid_end(t->p);
  atvi_report_page_note(t->p, "Orange: outside the interval, which is expected for one in twenty.");
  say_shown(t, &v, 100 * (1 - (double)out / (double)v.n));
}

/* Where in the inputs it is poor: Q2 in thirds of their ranges. */
static void put_thirds(const telling *t) {
  static const char *const column[] = {"input", "low third", "middle third", "high third"};
  atvi_report_page_table(t->p, "Q\xc2\xb2 of the runs in each third of an input's range", 4, column, false);
  for (atvi_idx j = 0; j < t->d->r.runs.d; j++) {
    atvi_report_page_row(t->p, t->d->input[j]);
    for (int s = 0; s < 3; s++) {
      const atvi_dossier_third *third = &t->d->third[3 * j + s];
      atvi_report_page_cell(t->p, isnan(third->q2) ? "no runs"
                                                   : atvi_pool_printf(t->p->pool, "%.3f%s", third->q2,
                                                                      third->poor ? " poor" : ""));
    }
  }
  atvi_report_page_table_end(t->p, false);
}

static void say_poor(const telling *t) {
  if (t->d->poor)
    atvi_report_page_say(t->p, "It is poor %s: trust it less there, or add runs.", t->d->poor);
  else
    atvi_report_page_say(t->p, "It is about equally good over all times and inputs.");
  put_thirds(t);
}

static void say_validation(telling *t) {
  const atvi_dossier *d = t->d;
  section(t, "validation", "Validation");
  atvi_report_page_say(t->p,
                       "With the estimates kept, %s. Q\xc2\xb2 is the share of the variation between runs "
                       "that it explains; the root mean square error is %.3g.",
                       quality(t->p->pool, d), d->loo.rmse);
  if (d->n_held > 0)
    atvi_report_page_say(
        t->p,
        "Another emulator, estimated without %td of the runs, predicts them with Q\xc2\xb2 = %.4f; %.1f %% "
        "lie inside their intervals, and the root mean square error is %.3g.",
        d->n_held, d->held.q2, 100 * d->held.coverage, d->held.rmse);
  put_left_out(t);
  say_poor(t);
  say_worst(t);
}

/* ---- over time ---- */

/* Column j of x[n_output][stride] at some places. */
static double *some(const telling *t, const double *x, atvi_idx stride, atvi_idx j, atvi_idx n) {
  double *to = atvi_pool_take(t->p->pool, (size_t)n + 1, sizeof *to);
  for (atvi_idx i = 0; to && i < n; i++) to[i] = x[i * t->d->r.runs.m / n * stride + j];
  return to;
}

static double *places(const telling *t, atvi_idx n) {
  double *to = atvi_pool_take(t->p->pool, (size_t)n + 1, sizeof *to);
  for (atvi_idx i = 0; to && i < n; i++) {
    atvi_idx at = i * t->d->r.runs.m / n;
    to[i] = t->d->r.runs.time ? t->d->r.runs.time[at] : (double)(at + 1);
  }
  return to;
}

static void put_lines(telling *t, const char *id, const char *alt, const atvi_line_plot *plot) {
  atvi_box box = {0, 0, HALF, ATVI_REPORT_HEIGHT};
  atvi_canvas *c = atvi_report_canvas_new(t->p->pool, box.width, box.height);
  atvi_hover column[LINES] = {{0}};
  atvi_frame f = atvi_report_panel_lines(c, box, plot);
  put(t, id, alt, c);
  for (atvi_idx k = 0; k < plot->n_line; k++)
    column[k] = (atvi_hover){plot->name ? plot->name[k] : "Q\xc2\xb2", plot->value[k]};
  atvi_report_page_hover(t->p, id_of(t, id), &f, false, plot->x_name, plot->n, plot->x, (int)plot->n_line,
                         column);
}

/* The inputs with the largest index at any time; returns their number. */
static atvi_idx leading(const telling *t, atvi_idx pick[LINES]) {
  const atvi_em_runs *r = &t->d->r.runs;
  atvi_idx n = 0;
  double top[LINES];
  for (atvi_idx j = 0; j < r->d; j++) {
    double most = 0;
    for (atvi_idx i = 0; i < r->m; i++) most = fmax(most, t->e->total_time[i * r->d + j]);
    atvi_idx at = n < LINES ? n++ : most > top[LINES - 1] ? LINES - 1 : LINES;
    if (at == LINES) continue;
    for (; at > 0 && top[at - 1] < most; at--) top[at] = top[at - 1], pick[at] = pick[at - 1];
    top[at] = most;
    pick[at] = j;
  }
  return n;
}

static void put_over_time(telling *t) {
  const atvi_report_emulator *e = t->e;
  atvi_idx all = t->d->r.runs.m, n = all < PLACES ? all : PLACES, pick[LINES] = {0};
  const char *name[LINES] = {0}, *when = e->time_name ? e->time_name : "output";
  const double *value[LINES] = {0}, *x = places(t, n);
  if (all < 3 || !x) return;
  atvi_report_page_grid(t->p, "half");
  if (e->total_time) {
    atvi_idx m = leading(t, pick);
    for (atvi_idx k = 0; k < m; k++) {
      name[k] = t->d->input[pick[k]];
      if (!(value[k] = some(t, e->total_time, t->d->r.runs.d, pick[k], n))) return;
    }
    put_lines(t, "over-time", "Total Sobol indices of the inputs along the output.",
              &(atvi_line_plot){"Total index along the output", when, n, x, m, name, value, {0, 1}});
  }
  if ((value[0] = some(t, t->d->loo.q2_time, 1, 0, n)))
    put_lines(
        t, "q2",
        "Q\xc2\xb2 of runs left out one at a time, along the output; near 1 where predictions are good.",
        &(atvi_line_plot){"Q\xc2\xb2 along the output", when, n, x, 1, NULL, value, {NAN, 1}});
  atvi_report_page_grid_end(t->p);
}

/* ---- inputs ---- */

static bool has_logs(const atvi_dossier *d) {
  for (atvi_idx j = 0; j < d->r.runs.d; j++)
    if (!isnan(d->r.axis[j].base)) return true;
  return false;
}

static void put_inputs(const telling *t) {
  const char *column[8] = {"input", "from", "to", "length", "alone", "with interactions"};
  const atvi_report_emulator *e = t->e;
  const atvi_emulated_runs *r = &t->d->r;
  atvi_idx d = r->runs.d;
  bool remarks = false, logs = has_logs(t->d);
  int n = 6;
  for (atvi_idx j = 0; e->remark && j < d; j++) remarks = remarks || *e->remark[j];
  if (logs) column[n++] = "scale";
  if (remarks) column[n++] = "remark";
  atvi_report_page_table(t->p, "Inputs; lengths in ranges of the input", n, column, false);
  for (atvi_idx j = 0; j < d; j++) {
    atvi_report_page_row(t->p, t->d->input[j]);
    atvi_report_page_round(t->p, r->lower[j]);
    atvi_report_page_round(t->p, r->lower[j] + r->width[j]);
    if (e->length[j] > LONG_LENGTH)
      atvi_report_page_cell(t->p, "> 50");
    else
      atvi_report_page_number(t->p, e->length[j], 3);
    atvi_report_page_cell(t->p, atvi_pool_printf(t->p->pool, "%.3f", fmax(0, e->first[j])));
    atvi_report_page_cell(t->p, atvi_pool_printf(t->p->pool, "%.3f", fmax(0, e->total[j])));
    if (logs) atvi_report_page_words(t->p, isnan(r->axis[j].base) ? "linear" : "log");
    if (remarks) atvi_report_page_words(t->p, e->remark[j]);
  }
  atvi_report_page_table_end(t->p, false);
}

/* "The most important input is drain: ..." */
static void say_most(const telling *t) {
  const atvi_report_emulator *e = t->e;
  atvi_idx most = 0;
  double sum = 0;
  for (atvi_idx j = 0; j < t->d->r.runs.d; j++) {
    if (e->total[j] > e->total[most]) most = j;
    sum += fmax(0, e->first[j]);
  }
  atvi_report_page_say(
      t->p,
      "The most important input is %s: it causes %.0f %% of the variation over the whole prior alone, and "
      "%.0f %% with its interactions. Interactions of all inputs cause %.0f %% in total.",
      t->d->input[most], 100 * fmax(0, e->first[most]), 100 * e->total[most],
      100 * fmin(1, fmax(0, 1 - sum)));
}

static void put_indices(telling *t, atvi_dot_plot *plot) {
  static const char ALT[] =
      "First-order and total Sobol indices of the inputs; the numbers are in the table.";
  const char *id = id_of(t, "sobol");
  atvi_canvas *wide = atvi_report_figure_dots(t->p->pool, plot);
  plot->width = ATVI_DOTS_NARROW;
  if (!wide) return;
  atvi_report_page_figure_table(t->p, wide, atvi_report_figure_dots(t->p->pool, plot), id, ALT);
  save(t, id, ALT, wide);
}

static void say_inputs(telling *t) {
  const atvi_report_emulator *e = t->e;
  section(t, "inputs", "Which inputs matter");
  if (e->first && e->total && t->d->r.runs.d > 0) {
    const atvi_dots index[] = {{.name = "alone", .value = e->first},
                               {.name = "with all its interactions", .value = e->total}};
    atvi_dot_plot plot = {.n_row = t->d->r.runs.d,
                          .row = t->d->input,
                          .n = 2,
                          .of = index,
                          .title = "Sobol indices",
                          .axis = "share of the output's variance",
                          .mark = NAN,
                          .ends = {0, 1}};
    say_most(t);
    put_indices(t, &plot);
    put_inputs(t);
    atvi_report_page_note(
        t->p,
        "Sobol indices are those of the emulator's mean with inputs uniform over their ranges, accurate to "
        "\xc2\xb1 %.3f. A length says how far along an input runs inform each other; one many times the "
        "range means that the output hardly bends along it, if at all.%s",
        e->sobol_error,
        has_logs(t->d) ? " Inputs on a log scale enter by their logarithm, in lengths and indices too." : "");
  }
  put_over_time(t);
}

/* ---- runs and cost ---- */

static void say_failed(const telling *t) {
  const atvi_sim_runs *rec = &t->d->r.record;
  if (rec->n_failed == 0) return;
  atvi_report_page_say(t->p, "%td run%s failed and %s not used by the emulator.%s", rec->n_failed,
                       rec->n_failed == 1 ? "" : "s", rec->n_failed == 1 ? "is" : "are",
                       FAILED < rec->n_failed ? " The first ones:" : "");
  if (!rec->left || !begin_runs(t, "Runs that failed", "why")) return;
  for (atvi_idx i = 0; i < rec->n_failed && i < FAILED; i++) {
    atvi_report_page_row(t->p, atvi_pool_printf(t->p->pool, "run %" PRId64, rec->left[i].id));
    for (atvi_idx j = 0; j < rec->d; j++) atvi_report_page_number(t->p, rec->left[i].x[j], 4);
    atvi_report_page_words(t->p, rec->left[i].reason);
  }
  atvi_report_page_table_end(t->p, false);
}

static void say_cost(telling *t) {
  const atvi_report_emulator *e = t->e;
  const atvi_sim_runs *rec = &t->d->r.record;
  atvi_idx n = t->d->r.runs.n, m = t->d->r.runs.m;
  section(t, "runs", "Runs and cost");
  atvi_report_page_say(t->p, "%td runs of %td output%s each.%s", n, m, m == 1 ? "" : "s",
                       rec->n_failed == 0 ? " None failed." : "");
  if (rec->n_timed > 0) {
    char who[80] = "They";
    if (rec->n_timed != n + rec->n_failed)
      snprintf(who, sizeof who, "%td runs, including repeated ones,", rec->n_timed);
    atvi_report_page_say(t->p, "%s took %.3g seconds of the simulator's time, %.2g each.", who, rec->seconds,
                         rec->seconds / (double)rec->n_timed);
  }
  if (isfinite(e->seconds))
    atvi_report_page_say(t->p,
                         e->loaded ? "The emulator was estimated earlier and loaded in %.2g seconds."
                                   : "The emulator was estimated in %.2g seconds.",
                         e->seconds);
  if (e->how) atvi_report_page_say(t->p, "%s", e->how);
  say_failed(t);
}

/* ---- the page ---- */

static const char *verdict_line(atvi_pool *pool, const atvi_report_emulate *r, atvi_idx n_doubt) {
  for (atvi_idx k = 0; k < r->n; k++)
    if (r->emulator[k].n_doubt > 0)
      return atvi_pool_printf(pool, "Use the emulator%s%s%s with care: %s.", r->n > 1 ? " '" : "",
                              r->n > 1 ? r->emulator[k].of->name : "", r->n > 1 ? "'" : "",
                              r->emulator[k].doubt[0]);
  if (r->n == 1 && n_doubt == 0)
    return atvi_pool_printf(pool, "The emulator can replace the simulator: %s.",
                            quality(pool, r->emulator[0].of));
  double least = HUGE_VAL;
  for (atvi_idx k = 0; k < r->n; k++) least = fmin(least, r->emulator[k].of->loo.q2);
  return atvi_pool_printf(pool,
                          "The %td emulators can replace the simulator: runs left out one at a time are "
                          "predicted with Q\xc2\xb2 of at least %.4f.",
                          r->n, least);
}

static void put_doubts(atvi_page *p, const atvi_report_emulate *r) {
  bool said = false; /* the first is in the sentence */
  atvi_idx n = 0;
  for (atvi_idx k = 0; k < r->n; k++)
    for (atvi_idx i = 0; i < r->emulator[k].n_doubt; i++) {
      if (said) {
        atvi_io_text_add(&p->body, n++ ? "<li>" : "<ul><li>");
        if (r->n > 1)
          atvi_report_text_escape(&p->body, r->emulator[k].of->name), atvi_io_text_add(&p->body, ": ");
        atvi_report_page_prose(p, r->emulator[k].doubt[i]);
        atvi_io_text_add(&p->body, "</li>\n");
      }
      said = true;
    }
  if (n) atvi_io_text_add(&p->body, "</ul>\n");
}

static void put_facts(const telling *t) {
  atvi_page *p = t->p;
  const atvi_dossier *d = t->d;
  atvi_io_text_add(&p->body, "<dl class=\"facts\">");
  if (!t->alone) atvi_report_fact(p, "emulator", d->name);
  atvi_report_fact(p, "runs", atvi_pool_printf(p->pool, "%td", d->r.runs.n));
  if (d->r.record.n_failed > 0)
    atvi_report_fact(p, "failed runs", atvi_pool_printf(p->pool, "%td", d->r.record.n_failed));
  atvi_report_fact(p, "inputs", atvi_pool_printf(p->pool, "%td", d->r.runs.d));
  atvi_report_fact(p, "outputs", atvi_pool_printf(p->pool, "%td", d->r.runs.m));
  atvi_report_fact(p, "Q\xc2\xb2", atvi_pool_printf(p->pool, "%.4f", d->loo.q2));
  atvi_report_fact(p, "95 % intervals contain", atvi_pool_printf(p->pool, "%.1f %%", 100 * d->loo.coverage));
  atvi_report_fact(p, "worst prediction", name_run(p->pool, d, d->loo.worst));
  atvi_io_text_add(&p->body, "</dl>\n");
}

static void say_again(atvi_page *p, const atvi_report_emulate *r) {
  atvi_report_page_section(p, "again", "Model and command");
  if (r->command) {
    atvi_report_page_say(p, "The same runs and the same command give the same emulator:");
    atvi_report_page_command(p, r->command);
  }
  if (r->text) atvi_report_page_listing(p, "The model file", r->text, true);
}

static const char KIND[] = "emulate";

bool atvi_report_emulate_may(atvi_pool *pool, const char *dir) {
  const char *path = atvi_pool_printf(pool, "%s/report.html", dir);
  struct stat there;
  return !path || lstat(path, &there) != 0 || atvi_report_page_is(path, KIND);
}

atvi_status atvi_report_emulate_save(atvi_pool *pool, const atvi_report_emulate *r, const char *dir) {
  atvi_page p = atvi_report_page_begin(pool, r->title, false);
  p.kind = KIND;
  atvi_idx n_doubt = 0;
  const char *html;
  if (access(dir, W_OK) != 0) return ATVI_FAIL(atvi_pool_ctx(pool), ATVI_EIO, "%s: %s", dir, strerror(errno));
  for (atvi_idx k = 0; k < r->n; k++) n_doubt += r->emulator[k].n_doubt;
  const char *line = verdict_line(pool, r, n_doubt);
  atvi_report_head(&p, r->title, r->file, n_doubt ? "warn" : "ok", line ? line : "");
  put_doubts(&p, r);
  atvi_io_text_add(&p.body, "</div>\n");
  for (atvi_idx k = 0; k < r->n; k++)
    put_facts(&(telling){&p, &r->emulator[k], r->emulator[k].of, k, r->n == 1, dir, ATVI_OK});
  for (atvi_idx k = 0; k < r->n; k++) {
    telling t = {&p, &r->emulator[k], r->emulator[k].of, k, r->n == 1, dir, ATVI_OK};
    say_validation(&t);
    say_inputs(&t);
    say_cost(&t);
    ATVI_TRY(t.status);
  }
  say_again(&p, r);
  ATVI_TRY(atvi_report_page_end(&p, &html));
  return atvi_report_save_page(pool, dir, html);
}

/* ---- in the page of a fit ---- */

/* What the emulator is worth where the posterior is. */
static void say_near(const telling *t) {
  const atvi_dossier_near *near = &t->d->near;
  if (!near->run) return;
  atvi_report_page_say(
      t->p,
      "Where the posterior is, its predictions rest on %.3g runs; left out in turn, %.0f %% of their values "
      "lie inside their 95 %% intervals%s%s. Its standard deviation there is %.3g, that of the noise %.3g.",
      near->n_run, 100 * near->coverage, near->times ? ", worst " : "", near->times ? near->times : "",
      near->sd, near->noise);
}

static void put_moves(const telling *t) {
  static const char *const column[] = {"parameter", "moves by", "standard deviation", "without error"};
  const atvi_emulated_moves *v = t->e->moves;
  if (!v) return;
  atvi_report_page_table(t->p, "With a perfect emulator, in standard deviations of the posterior", 4, column,
                         false);
  for (atvi_idx i = 0; i < v->n; i++) {
    if (isnan(v->moved[i])) continue;
    atvi_report_page_row(t->p, t->e->of_moves[i]);
    atvi_report_page_cell(t->p, atvi_pool_printf(t->p->pool, "%.2f", v->moved[i]));
    atvi_report_page_cell(t->p, atvi_pool_printf(t->p->pool, "%.2f", v->sd[i]));
    atvi_report_page_cell(t->p, atvi_pool_printf(t->p->pool, "%+.2f", v->zero[i]));
  }
  atvi_report_page_table_end(t->p, false);
  atvi_report_page_note(
      t->p,
      "%td simulators were drawn from what the runs and the data leave open. Moves by: how far the mean of "
      "the posterior is from where it is now with one of them, root mean square; standard deviation: what is "
      "left of it. Without error: how far the mean moves if the emulator is taken for the simulator. The "
      "draws of the fit are worth %.0f of %td with such a simulator%s.",
      v->n_function, v->worth, v->n_draw,
      v->worth < 10 ? ": too few for these numbers to be more than a warning" : "");
}

static void say_one(atvi_page *p, const atvi_report_emulator *e, atvi_idx k, bool alone) {
  const atvi_dossier *d = e->of;
  telling t = {p, e, d, k, alone, NULL, ATVI_OK};
  if (!alone) atvi_report_page_heading(p, d->name);
  atvi_report_page_say(p, "Instead of the simulator the fit used an emulator of %td runs: %s.", d->r.runs.n,
                       quality(p->pool, d));
  if (d->outside > 0.0005)
    atvi_report_page_say(
        p, "%.1f %% of the posterior lies outside the range of the runs: there the emulator extrapolates.",
        100 * d->outside);
  else if (isfinite(d->outside))
    atvi_report_page_say(p, "All of the posterior lies inside the range of the runs.");
  say_near(&t);
  put_moves(&t);
  say_failed(&t);
  put_left_out(&t);
  say_poor(&t);
  put_over_time(&t);
  say_worst(&t);
}

void atvi_report_say_emulators(atvi_page *p, const atvi_fit_parts *x) {
  const atvi_report_fit *r = x->r;
  if (r->n_emulator == 0) return;
  atvi_report_page_section(p, "emulator", r->n_emulator == 1 ? "Emulator" : "Emulators");
  for (atvi_idx k = 0; k < r->n_emulator; k++) say_one(p, &r->emulator[k], k, r->n_emulator == 1);
}
