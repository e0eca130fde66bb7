/* SPDX-License-Identifier: MIT */
/* The page of atvi emulate, and what the page of a fit says of its emulators. */
#include "report/fit.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  HALF = ATVI_REPORT_HALF,
  SQUARE = 370,     /* height of a figure with one number against another */
  PLACES = 400,     /* of a long output that lines go through */
  LINES = 7,        /* inputs with a line of their own */
  LONG_LENGTH = 50, /* ranges of the input: along it nothing changes */
};

/* One emulator among those of a page. */
typedef struct {
  atvi_page *p;
  const atvi_report_emulator *e;
  atvi_idx k;
  bool alone;
  const char *dir; /* NULL: figures are not saved */
  atvi_status status;
} telling;

/* ---- small things ---- */

/* Ids of the page and names of files: of the first emulator "loo", then "loo-2". */
static const char *id_of(const telling *t, const char *what) {
  const char *id = t->k == 0 ? what : atvi_pool_printf(t->p->pool, "%s-%td", what, t->k + 1);
  return id ? id : what;
}

static void section(const telling *t, const char *id, const char *heading) {
  const char *text = t->alone ? heading : atvi_pool_printf(t->p->pool, "%s: %s", t->e->name, heading);
  atvi_page_section(t->p, id_of(t, id), text ? text : heading);
}

static void save(telling *t, const char *name, const char *alt, const atvi_canvas *c) {
  if (t->dir && t->status == ATVI_OK)
    t->status = atvi_report_save_figure(t->p->pool, t->dir, name, alt ? alt : "", c);
}

static void put(telling *t, const char *id, const char *alt, const atvi_canvas *c) {
  const char *name = id_of(t, id);
  if (!c) return;
  atvi_page_figure(t->p, c, name, alt ? alt : "");
  save(t, name, alt, c);
}

static void words(atvi_page *p, const char *text) {
  atvi_text_add(&p->body, "<td class=\"words\">");
  if (text) atvi_text_escape(&p->body, text);
  atvi_text_add(&p->body, "</td>");
}

static void say_runs(atvi_page *p, const char *caption, const char *what, bool worded,
                     const atvi_report_emulator *e, atvi_idx n, const atvi_report_run *run) {
  const char **column = atvi_pool_take(p->pool, (size_t)e->n_input + 2, sizeof *column);
  if (!column || n == 0) return;
  column[0] = "";
  for (atvi_idx j = 0; j < e->n_input; j++) column[j + 1] = e->input[j];
  column[e->n_input + 1] = what;
  atvi_page_table(p, caption, (int)e->n_input + 2, column, false);
  for (atvi_idx i = 0; i < n; i++) {
    atvi_page_row(p, run[i].name);
    for (atvi_idx j = 0; j < e->n_input; j++) atvi_page_number(p, run[i].value[j], 4);
    if (worded)
      words(p, run[i].say);
    else
      atvi_page_cell(p, run[i].say);
    atvi_text_add(&p->body, "</tr>\n");
  }
  atvi_page_table_end(p, false);
}

static void say_worst(atvi_page *p, const atvi_report_emulator *e) {
  say_runs(p,
           e->n_output > 1 ? "Runs that it predicts worst; root mean square error over the outputs, in its "
                             "standard deviations"
                           : "Runs that it predicts worst; error in its standard deviations",
           "error", false, e, e->n_worst, e->worst);
}

/* ---- validation ---- */

static const char *quality(atvi_pool *pool, const atvi_report_emulator *e) {
  const char *text = atvi_pool_printf(
      pool,
      "runs that are left out one at a time are predicted with Q\xc2\xb2 = %.4f, and %.1f %% of their values "
      "lie inside their 95 %% intervals",
      e->q2, 100 * e->coverage);
  return text ? text : "";
}

static void say_shown(const telling *t, double inside) {
  const atvi_report_emulator *e = t->e;
  if (e->left_runs < e->n_run || e->n_left < e->n_run * e->n_output)
    atvi_page_note(
        t->p,
        "Shown: %td values of %td of the %td runs, left out one at a time. Of these %.0f %% lie inside.",
        e->n_left, e->left_runs, e->n_run, inside);
  else
    atvi_page_note(t->p, "Shown: all values, runs left out one at a time.");
}

static void hover(const telling *t, const char *id, const atvi_frame *f) {
  const atvi_report_emulator *e = t->e;
  const atvi_hover column[] = {{"the emulator's", e->predicted}, {"standard deviation", e->sd}};
  atvi_page_hover(t->p, id_of(t, id), f, false, "the simulator's", e->n_left, e->observed, 2, column);
}

static void put_left_out(telling *t) {
  const atvi_report_emulator *e = t->e;
  atvi_pool *pool = t->p->pool;
  atvi_box box = {0, 0, HALF, SQUARE};
  atvi_idx out = 0;
  for (atvi_idx i = 0; i < e->n_left; i++) out += fabs(e->observed[i] - e->predicted[i]) > 1.96 * e->sd[i];
  atvi_page_grid(t->p, "half");
  atvi_canvas *c = atvi_canvas_new(pool, box.width, box.height);
  atvi_frame f = atvi_panel_left_out(c, box, e->n_left, e->observed, e->predicted, e->sd);
  put(t, "loo",
      atvi_pool_printf(pool,
                       "Runs that were left out: what the emulator predicts, with 95 %% intervals, against "
                       "what the simulator gave; %td of %td intervals miss it.",
                       out, e->n_left),
      c);
  hover(t, "loo", &f);
  c = atvi_canvas_new(pool, box.width, box.height);
  atvi_panel_left_errors(c, box, e->n_left, e->observed, e->predicted, e->sd);
  put(t, "errors",
      "Errors of the predictions of runs that were left out, in their standard deviations, against the "
      "prediction; good where 95 % lie between the dashed lines, at all heights.",
      c);
  atvi_page_grid_end(t->p);
  atvi_page_note(t->p, "Orange: outside the interval; one in twenty is as it should be.");
  say_shown(t, 100 * (1 - (double)out / (double)e->n_left));
}

static void say_validation(telling *t) {
  const atvi_report_emulator *e = t->e;
  section(t, "validation", "Validation");
  atvi_page_say(t->p,
                "With the estimates kept, %s. Q\xc2\xb2 is the share of what differs between runs that it "
                "explains; the root mean square error is %.3g.",
                quality(t->p->pool, e), e->rmse);
  if (e->n_held > 0)
    atvi_page_say(
        t->p,
        "Another emulator, estimated without %td of the runs, predicts these with Q\xc2\xb2 = %.4f; "
        "%.1f %% lie inside their intervals, and the root mean square error is %.3g.",
        e->n_held, e->held_q2, 100 * e->held_coverage, e->held_rmse);
  if (e->n_left > 0) put_left_out(t);
  say_worst(t->p, e);
}

/* ---- over time ---- */

/* Column j of x[n_output][stride] at some places. */
static double *some(const telling *t, const double *x, atvi_idx stride, atvi_idx j, atvi_idx n) {
  double *to = atvi_pool_take(t->p->pool, (size_t)n + 1, sizeof *to);
  for (atvi_idx i = 0; to && i < n; i++) to[i] = x[i * t->e->n_output / n * stride + j];
  return to;
}

static double *places(const telling *t, atvi_idx n) {
  double *to = atvi_pool_take(t->p->pool, (size_t)n + 1, sizeof *to);
  for (atvi_idx i = 0; to && i < n; i++) {
    atvi_idx at = i * t->e->n_output / n;
    to[i] = t->e->time ? t->e->time[at] : (double)(at + 1);
  }
  return to;
}

static void put_lines(telling *t, const char *id, const char *alt, const atvi_line_plot *plot) {
  atvi_box box = {0, 0, HALF, ATVI_REPORT_HEIGHT};
  atvi_canvas *c = atvi_canvas_new(t->p->pool, box.width, box.height);
  atvi_hover column[LINES] = {{0}};
  atvi_frame f = atvi_panel_lines(c, box, plot);
  put(t, id, alt, c);
  for (atvi_idx k = 0; k < plot->n_line; k++)
    column[k] = (atvi_hover){plot->name ? plot->name[k] : "Q\xc2\xb2", plot->value[k]};
  atvi_page_hover(t->p, id_of(t, id), &f, false, plot->x_name, plot->n, plot->x, (int)plot->n_line, column);
}

/* The inputs with the largest index at any time; returns how many. */
static atvi_idx leading(const atvi_report_emulator *e, atvi_idx pick[LINES]) {
  atvi_idx n = 0;
  double top[LINES];
  for (atvi_idx j = 0; j < e->n_input; j++) {
    double most = 0;
    for (atvi_idx i = 0; i < e->n_output; i++) most = fmax(most, e->total_time[i * e->n_input + j]);
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
  atvi_idx n = e->n_output < PLACES ? e->n_output : PLACES, pick[LINES] = {0};
  const char *name[LINES] = {0}, *when = e->time_name ? e->time_name : "output";
  const double *value[LINES] = {0}, *x = places(t, n);
  if (e->n_output < 3 || !x || (!e->total_time && !e->q2_time)) return;
  atvi_page_grid(t->p, "half");
  if (e->total_time) {
    atvi_idx m = leading(e, pick);
    for (atvi_idx k = 0; k < m; k++) {
      name[k] = e->input[pick[k]];
      if (!(value[k] = some(t, e->total_time, e->n_input, pick[k], n))) return;
    }
    put_lines(t, "over-time", "Total Sobol indices of the inputs along the output.",
              &(atvi_line_plot){"Total index along the output", when, n, x, m, name, value, {0, 1}});
  }
  if (e->q2_time && (value[0] = some(t, e->q2_time, 1, 0, n)))
    put_lines(t, "q2",
              "Q\xc2\xb2 of runs left out one at a time, along the output; near 1 where they are "
              "predicted well.",
              &(atvi_line_plot){"Q\xc2\xb2 along the output", when, n, x, 1, NULL, value, {NAN, 1}});
  atvi_page_grid_end(t->p);
}

/* ---- inputs ---- */

static bool has_logs(const atvi_report_emulator *e) {
  for (atvi_idx j = 0; e->log && j < e->n_input; j++)
    if (e->log[j]) return true;
  return false;
}

static void put_inputs(const telling *t) {
  const char *column[8] = {"input", "from", "to", "length", "alone", "with interactions"};
  const atvi_report_emulator *e = t->e;
  bool remarks = false, logs = has_logs(e);
  int n = 6;
  for (atvi_idx j = 0; e->remark && j < e->n_input; j++) remarks = remarks || *e->remark[j];
  if (logs) column[n++] = "scale";
  if (remarks) column[n++] = "remark";
  atvi_page_table(t->p, "Inputs; lengths in ranges of the input", n, column, false);
  for (atvi_idx j = 0; j < e->n_input; j++) {
    atvi_page_row(t->p, e->input[j]);
    atvi_page_round(t->p, e->low[j]);
    atvi_page_round(t->p, e->high[j]);
    if (e->length[j] > LONG_LENGTH)
      atvi_page_cell(t->p, "> 50");
    else
      atvi_page_number(t->p, e->length[j], 3);
    atvi_page_cell(t->p, atvi_pool_printf(t->p->pool, "%.3f", fmax(0, e->first[j])));
    atvi_page_cell(t->p, atvi_pool_printf(t->p->pool, "%.3f", fmax(0, e->total[j])));
    if (logs) words(t->p, e->log[j] ? "log" : "linear");
    if (remarks) words(t->p, e->remark[j]);
    atvi_text_add(&t->p->body, "</tr>\n");
  }
  atvi_page_table_end(t->p, false);
}

/* "What matters most is drain, which alone causes 63 % of what differs between runs, ..." */
static void say_most(const telling *t) {
  const atvi_report_emulator *e = t->e;
  atvi_idx most = 0;
  double sum = 0;
  for (atvi_idx j = 0; j < e->n_input; j++) {
    if (e->total[j] > e->total[most]) most = j;
    sum += fmax(0, e->first[j]);
  }
  atvi_page_say(
      t->p,
      "What matters most is %s: alone it causes %.0f %% of what differs between runs over the whole "
      "prior, with its interactions %.0f %%. Interactions of inputs cause %.0f %% in all.",
      e->input[most], 100 * fmax(0, e->first[most]), 100 * e->total[most], 100 * fmin(1, fmax(0, 1 - sum)));
}

static void put_indices(telling *t, atvi_dot_plot *plot) {
  static const char ALT[] =
      "First-order and total Sobol indices of the inputs; the numbers are in the table.";
  const char *id = id_of(t, "sobol");
  atvi_canvas *wide = atvi_figure_dots(t->p->pool, plot);
  plot->width = ATVI_DOTS_NARROW;
  if (!wide) return;
  atvi_page_figure_table(t->p, wide, atvi_figure_dots(t->p->pool, plot), id, ALT);
  save(t, id, ALT, wide);
}

static void say_inputs(telling *t) {
  const atvi_report_emulator *e = t->e;
  section(t, "inputs", "Which inputs matter");
  if (e->first && e->total && e->n_input > 0) {
    const atvi_dots index[] = {{"alone", e->first, NULL}, {"with all its interactions", e->total, NULL}};
    atvi_dot_plot plot = {.n_row = e->n_input,
                          .row = e->input,
                          .n = 2,
                          .of = index,
                          .title = "Sobol indices",
                          .axis = "share of the output's variance",
                          .mark = NAN,
                          .ends = {0, 1}};
    say_most(t);
    put_indices(t, &plot);
    put_inputs(t);
    atvi_page_note(
        t->p,
        "Sobol indices are of the emulator's mean, inputs uniform over their ranges, to \xc2\xb1 %.3f. A "
        "length is how far along an input runs know of each other; one many times the range means that "
        "the output hardly bends along it, or not at all.%s",
        e->sobol_error,
        has_logs(e) ? " Inputs on a log scale are taken by their logarithm, in lengths and indices too."
                    : "");
  }
  put_over_time(t);
}

/* ---- runs and cost ---- */

static void say_failed(atvi_page *p, const atvi_report_emulator *e) {
  if (e->n_failed == 0) return;
  atvi_page_say(p, "%td run%s failed, and %s not among those that the emulator knows.%s", e->n_failed,
                e->n_failed == 1 ? "" : "s", e->n_failed == 1 ? "is" : "are",
                e->n_bad > 0 && e->n_bad < e->n_failed ? " The first of them:" : "");
  say_runs(p, "Runs that failed", "why", true, e, e->n_bad, e->bad);
}

static void say_cost(telling *t) {
  const atvi_report_emulator *e = t->e;
  section(t, "runs", "Runs and cost");
  atvi_page_say(t->p, "%td runs of %td output%s each.%s", e->n_run, e->n_output, e->n_output == 1 ? "" : "s",
                e->n_failed == 0 ? " None failed." : "");
  if (isfinite(e->run_seconds) && e->n_timed > 0) {
    char who[80] = "They";
    if (e->n_timed != e->n_run + e->n_failed)
      snprintf(who, sizeof who, "%td runs, each counted as often as it was done,", e->n_timed);
    atvi_page_say(t->p, "%s took %.3g seconds of the simulator's time, %.2g each.", who, e->run_seconds,
                  e->run_seconds / (double)e->n_timed);
  }
  if (isfinite(e->seconds))
    atvi_page_say(t->p,
                  e->loaded ? "The emulator was estimated before, and loaded in %.2g seconds."
                            : "The emulator was estimated in %.2g seconds.",
                  e->seconds);
  if (e->how) atvi_page_say(t->p, "%s", e->how);
  say_failed(t->p, e);
}

/* ---- the page ---- */

static const char *verdict_line(atvi_pool *pool, const atvi_report_emulate *r, atvi_idx n_doubt) {
  for (atvi_idx k = 0; k < r->n; k++)
    if (r->emulator[k].n_doubt > 0)
      return atvi_pool_printf(pool, "Use the emulator%s%s%s with care: %s.", r->n > 1 ? " '" : "",
                              r->n > 1 ? r->emulator[k].name : "", r->n > 1 ? "'" : "",
                              r->emulator[k].doubt[0]);
  if (r->n == 1 && n_doubt == 0)
    return atvi_pool_printf(pool, "The emulator can take the simulator's place: %s.",
                            quality(pool, &r->emulator[0]));
  double least = HUGE_VAL;
  for (atvi_idx k = 0; k < r->n; k++) least = fmin(least, r->emulator[k].q2);
  return atvi_pool_printf(
      pool,
      "The %td emulators can take the simulator's place: left out one at a time, runs are "
      "predicted with Q\xc2\xb2 of at least %.4f.",
      r->n, least);
}

static void put_doubts(atvi_page *p, const atvi_report_emulate *r) {
  bool said = false; /* the first is in the sentence */
  atvi_idx n = 0;
  for (atvi_idx k = 0; k < r->n; k++)
    for (atvi_idx i = 0; i < r->emulator[k].n_doubt; i++) {
      if (said) {
        atvi_text_add(&p->body, n++ ? "<li>" : "<ul><li>");
        if (r->n > 1) atvi_text_escape(&p->body, r->emulator[k].name), atvi_text_add(&p->body, ": ");
        atvi_page_prose(p, r->emulator[k].doubt[i]);
        atvi_text_add(&p->body, "</li>\n");
      }
      said = true;
    }
  if (n) atvi_text_add(&p->body, "</ul>\n");
}

static void put_facts(atvi_page *p, const atvi_report_emulator *e, bool alone) {
  atvi_pool *pool = p->pool;
  atvi_text_add(&p->body, "<dl class=\"facts\">");
  if (!alone) atvi_report_fact(p, "emulator", e->name);
  atvi_report_fact(p, "runs", atvi_pool_printf(pool, "%td", e->n_run));
  if (e->n_failed > 0) atvi_report_fact(p, "failed runs", atvi_pool_printf(pool, "%td", e->n_failed));
  atvi_report_fact(p, "inputs", atvi_pool_printf(pool, "%td", e->n_input));
  atvi_report_fact(p, "outputs", atvi_pool_printf(pool, "%td", e->n_output));
  atvi_report_fact(p, "Q\xc2\xb2", atvi_pool_printf(pool, "%.4f", e->q2));
  atvi_report_fact(p, "95 % intervals hold", atvi_pool_printf(pool, "%.1f %%", 100 * e->coverage));
  if (e->n_worst > 0) atvi_report_fact(p, "predicted worst", e->worst[0].name);
  atvi_text_add(&p->body, "</dl>\n");
}

static void say_again(atvi_page *p, const atvi_report_emulate *r) {
  atvi_page_section(p, "again", "Model and command");
  if (r->command) {
    atvi_page_say(p, "The same runs and the same command give the same emulator:");
    atvi_text_add(&p->body, "<pre tabindex=\"0\">");
    atvi_text_escape(&p->body, r->command);
    atvi_text_add(&p->body, "</pre>\n");
  }
  if (r->text) atvi_page_listing(p, "The model file", r->text, true);
}

static const char KIND[] = "emulate";

bool atvi_report_emulate_may(atvi_pool *pool, const char *dir) {
  const char *path = atvi_pool_printf(pool, "%s/report.html", dir);
  struct stat there;
  return !path || lstat(path, &there) != 0 || atvi_page_is(path, KIND);
}

atvi_status atvi_report_emulate_save(atvi_pool *pool, const atvi_report_emulate *r, const char *dir) {
  atvi_page p = atvi_page_begin(pool, r->title, false);
  p.kind = KIND;
  atvi_idx n_doubt = 0;
  const char *html;
  if (access(dir, W_OK) != 0) return ATVI_FAIL(atvi_pool_ctx(pool), ATVI_EIO, "%s: %s", dir, strerror(errno));
  for (atvi_idx k = 0; k < r->n; k++) n_doubt += r->emulator[k].n_doubt;
  const char *line = verdict_line(pool, r, n_doubt);
  atvi_report_head(&p, r->title, r->file, n_doubt ? "warn" : "ok", line ? line : "");
  put_doubts(&p, r);
  atvi_text_add(&p.body, "</div>\n");
  for (atvi_idx k = 0; k < r->n; k++) put_facts(&p, &r->emulator[k], r->n == 1);
  for (atvi_idx k = 0; k < r->n; k++) {
    telling t = {&p, &r->emulator[k], k, r->n == 1, dir, ATVI_OK};
    say_validation(&t);
    say_inputs(&t);
    say_cost(&t);
    ATVI_TRY(t.status);
  }
  say_again(&p, r);
  ATVI_TRY(atvi_page_end(&p, &html));
  return atvi_report_save_page(pool, dir, html);
}

/* ---- in the page of a fit ---- */

static void say_one(atvi_page *p, const atvi_report_emulator *e, atvi_idx k, bool alone) {
  telling t = {p, e, k, alone, NULL, ATVI_OK};
  if (!alone) atvi_page_heading(p, e->name);
  atvi_page_say(p, "In the simulator's place the fit used an emulator of %td runs: %s.", e->n_run,
                quality(p->pool, e));
  if (e->outside > 0.0005)
    atvi_page_say(
        p, "%.1f %% of the posterior lies outside the range of the runs: there the emulator is guessing.",
        100 * e->outside);
  else if (isfinite(e->outside))
    atvi_page_say(p, "All of the posterior lies inside the range of the runs.");
  say_failed(p, e);
  if (e->n_left > 0) put_left_out(&t);
  say_worst(p, e);
}

void atvi_fit_say_emulators(atvi_page *p, const atvi_fit_parts *x) {
  const atvi_report_fit *r = x->r;
  if (r->n_emulator == 0) return;
  atvi_page_section(p, "emulator", r->n_emulator == 1 ? "Emulator" : "Emulators");
  for (atvi_idx k = 0; k < r->n_emulator; k++) say_one(p, &r->emulator[k], k, r->n_emulator == 1);
}
