/* SPDX-License-Identifier: MIT */
/* Convergence, cost, and what it takes to run the fit again. */
#include "math/stat/psis.h"
#include "report/fit.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { FAILURES = 5, STEPS = 40 };

/* ---- approximations ---- */

/* Values under the pointer, of the steps that the figure shows. */
static void hover_steps(atvi_page *p, const atvi_fit_parts *x, const char *id, const atvi_frame *f,
                        bool (*shown)(const atvi_report_step *s)) {
  const atvi_report_fit *r = x->r;
  double *at = atvi_pool_take(p->pool, 3 * (size_t)r->n_step + 1, sizeof *at);
  double *temperature = at ? at + r->n_step : NULL, *elbo = at ? at + 2 * r->n_step : NULL;
  atvi_idx n = 0;
  for (atvi_idx i = 0; at && i < r->n_step; i++) {
    if (!shown(&r->step[i]) || !isfinite(r->step[i].steps)) continue;
    at[n] = r->step[i].steps;
    temperature[n] = r->step[i].temperature;
    elbo[n++] = r->step[i].elbo;
  }
  const atvi_hover column[] = {{"temperature", temperature}, {"ELBO", elbo}};
  if (at) atvi_page_hover(p, id, f, false, "step", n, at, 2, column);
}

static bool has_temperature(const atvi_report_step *s) { return isfinite(s->temperature); }
static bool has_elbo(const atvi_report_step *s) { return atvi_step_has_elbo(s, false); }
static bool has_hot_elbo(const atvi_report_step *s) { return atvi_step_has_elbo(s, true); }

static void put_elbo(atvi_page *p, const atvi_fit_parts *x, bool hot) {
  const atvi_report_fit *r = x->r;
  atvi_box box = {0, 0, ATVI_REPORT_HALF, ATVI_REPORT_HEIGHT};
  const char *id = hot ? "elbo-hot" : "elbo";
  atvi_canvas *c = atvi_canvas_new(p->pool, box.width, box.height);
  atvi_frame f = atvi_panel_elbo(c, box, r->n_step, r->step, hot, hot ? NAN : r->draws->made.log_evidence);
  atvi_page_figure(p, c, id,
                   hot ? "Evidence lower bound of the tempered posteriors, each at its temperature."
                       : "Evidence lower bound during training, with the log evidence.");
  hover_steps(p, x, id, &f, hot ? has_hot_elbo : has_elbo);
}

static void put_training(atvi_page *p, const atvi_fit_parts *x) {
  const atvi_report_fit *r = x->r;
  atvi_box box = {0, 0, ATVI_REPORT_HALF, ATVI_REPORT_HEIGHT};
  if (atvi_fit_has_ladder(x)) {
    atvi_canvas *c = atvi_canvas_new(p->pool, box.width, box.height);
    atvi_frame f = atvi_panel_temperature(c, box, r->n_step, r->step);
    atvi_page_figure(p, c, "temperature",
                     "Temperature of the tempered posterior while the approximation was trained.");
    hover_steps(p, x, "temperature", &f, has_temperature);
  }
  if (atvi_fit_has_elbo(x, true)) put_elbo(p, x, true);
  if (atvi_fit_has_elbo(x, false)) put_elbo(p, x, false);
}

static bool says_something(const atvi_report_step *s) {
  return isfinite(s->elbo) || isfinite(s->temperature) || isfinite(s->khat);
}

static void put_count(atvi_page *p, double n) {
  atvi_page_cell(p, isfinite(n) ? atvi_pool_printf(p->pool, "%.0f", n) : "\xe2\x80\x93");
}

static void put_steps(atvi_page *p, const atvi_report_fit *r) {
  static const char *const column[] = {"", "seconds", "steps", "component", "temperature", "ELBO", "k-hat"};
  atvi_idx n = 0, shown = 0;
  for (atvi_idx i = 0; i < r->n_step; i++) n += says_something(&r->step[i]);
  if (n == 0) return;
  atvi_idx every = (n + STEPS - 1) / STEPS;
  atvi_page_table(p, "Training as a table", 7, column, true);
  for (atvi_idx i = 0; i < r->n_step; i++) {
    const atvi_report_step *s = &r->step[i];
    if (!says_something(s) || shown++ % every != 0) continue;
    atvi_page_row(p, s->phase);
    atvi_page_number(p, s->seconds, 3);
    put_count(p, s->steps);
    put_count(p, s->part);
    atvi_page_number(p, s->temperature, 3);
    atvi_page_number(p, s->elbo, 6);
    atvi_page_number(p, s->khat, 2);
    atvi_text_add(&p->body, "</tr>\n");
  }
  atvi_page_table_end(p, true);
}

static void say_weights(atvi_page *p, const atvi_fit_parts *x) {
  const atvi_summary *s = x->r->summary;
  const atvi_made *m = &s->made;
  if (m->exact > 0) {
    atvi_page_say(p, "The approximation was trained, and chains that start from it and end exact took its "
                     "place: the draws do "
                     "not rest on it.");
    return;
  }
  if (isnan(m->khat)) {
    atvi_page_say(p, "k-hat, which tells whether weights can correct the approximation, is not known.");
    return;
  }
  if (!s->weighted) {
    atvi_page_say(
        p,
        "k-hat is %.2f; up to %.2f weights can make draws of the approximation draws of the posterior. "
        "Here they cannot: the numbers are those of the approximation.",
        m->khat, atvi_psis_threshold(s->n));
    return;
  }
  const char *khat = atvi_summary_khat(p->pool, s);
  double ess;
  atvi_idx least = atvi_summary_least_ess(s, &ess);
  atvi_page_say(p, "%s: the weights make draws of the approximation draws of the posterior.",
                khat ? khat : "");
  atvi_page_say(p, "By their weights the %td draws are worth %.0f independent ones (%.0f %%)%s.", s->n,
                s->ess, 100 * s->ess / (double)s->n,
                least >= 0 && round(ess) < round(s->ess)
                    ? atvi_pool_printf(p->pool, "; for the mean of a parameter at least %.0f, those of %s",
                                       ess, s->col[least].name)
                    : "");
}

static void say_variational(atvi_page *p, const atvi_fit_parts *x) {
  const atvi_made *m = &x->r->summary->made;
  atvi_frame f;
  say_weights(p, x);
  if (isfinite(m->steps))
    atvi_page_say(p, "Training took %.0f steps%s%s.", m->steps,
                  m->rungs > 1 ? atvi_pool_printf(p->pool, " along %.0f temperatures", m->rungs) : "",
                  isnan(m->tuned) ? ""
                  : m->tuned > 0  ? "; fine-tuning helped and was kept"
                                  : "; fine-tuning was tried and undone");
  if (isfinite(m->elbo) && isfinite(m->log_evidence) && !x->r->summary->refused)
    atvi_page_say(p,
                  "The log evidence is %.3f, and the ELBO %.3f: the approximation before weighting is %.2g "
                  "nats away from "
                  "the posterior.",
                  m->log_evidence, m->elbo, fmax(0, m->log_evidence - m->elbo));
  atvi_page_grid(p, "half");
  put_training(p, x);
  atvi_canvas *c = x->r->draws->weight ? atvi_fit_draw_weights(x, &f) : NULL;
  if (c)
    atvi_page_figure(p, c, "weights",
                     "Weights of the draws in units of their mean, largest first, on logarithmic axes.");
  atvi_page_grid_end(p);
  if (m->modes > 1 && atvi_fit_has_elbo(x, false))
    atvi_page_note(p,
                   "Each mode has a component of its own, and a line of its own in the figures of the ELBO.");
  if (atvi_fit_has_elbo(x, true))
    atvi_page_note(
        p,
        "Training begins at a high temperature, where the data count little, and cools down to 1, the "
        "posterior "
        "itself. The ELBO has another height at each temperature: only at temperature 1 it is a lower bound "
        "of the log evidence, and tells how good the fit is.");
  if (c)
    atvi_page_note(p, "Orange: the tail of the largest weights, which k-hat describes. The flatter the "
                      "weights, the better the "
                      "approximation.");
  put_steps(p, x->r);
}

/* ---- chains ---- */

static void put_traces(atvi_page *p, const atvi_fit_parts *x, bool ranks) {
  atvi_idx n = x->r->draws->n_param < ATVI_REPORT_TRACES ? x->r->draws->n_param : ATVI_REPORT_TRACES;
  atvi_page_grid(p, "third");
  for (atvi_idx k = 0; k < n; k++) {
    char id[24];
    const atvi_summary_column *c = &x->r->summary->col[k];
    const char *what = ranks ? "Ranks of the chains" : "Traces of the chains", *alt;
    if (isfinite(c->rhat))
      alt = atvi_pool_printf(p->pool, "%s of %s: R-hat %.3f, %.0f effective draws.", what, c->name, c->rhat,
                             c->ess_bulk);
    else
      alt = atvi_pool_printf(p->pool, "%s of %s, which has no R-hat.", what, c->name);
    snprintf(id, sizeof id, ranks ? "k%td" : "t%td", k);
    atvi_page_figure(p, atvi_fit_draw_trace(x, k, ranks), id, alt ? alt : "");
  }
  atvi_page_grid_end(p);
}

static void say_chains(atvi_page *p, const atvi_fit_parts *x) {
  const atvi_made *m = &x->r->summary->made;
  if (isfinite(m->accept)) atvi_page_say(p, "Proposals were accepted %.0f %% of the time.", 100 * m->accept);
  if (isfinite(m->tree_depth))
    atvi_page_say(p,
                  "Divergences: %.0f. Energy fraction of missing information: %.2f. Mean tree depth: %.1f; "
                  "trees cut off: "
                  "%.0f.",
                  m->divergences, m->ebfmi, m->tree_depth, m->max_depth_hits);
  if (!atvi_fit_has_chains(x)) return;
  atvi_page_heading(p, "Traces");
  atvi_page_note(p, "Chains that agree look alike and have no trend.");
  put_traces(p, x, false);
  atvi_page_heading(p, "Ranks");
  atvi_page_note(p, "How often each chain has draws of each rank among all: level lines around 1 if chains "
                    "agree. R-hat and "
                    "effective sizes are in the table.");
  put_traces(p, x, true);
}

void atvi_fit_say_convergence(atvi_page *p, const atvi_fit_parts *x) {
  atvi_page_section(p, "convergence", "Convergence");
  if (atvi_made_variational(&x->r->summary->made)) say_variational(p, x);
  if (x->r->summary->chains) say_chains(p, x);
  if (!atvi_made_variational(&x->r->summary->made) && !x->r->summary->chains)
    atvi_page_say(
        p, "The draws are of a normal distribution around the maximum of the posterior (Laplace's method)%s.",
        x->r->summary->made.efficiency < 0.3 ? ", which describes the posterior poorly" : "");
}

/* ---- cost ---- */

static const char *ending(atvi_end end) {
  return end == ATVI_END_DONE    ? "It ended by its own criteria."
         : end == ATVI_END_LIMIT ? "It ended because a limit was reached."
                                 : "It was asked to stop.";
}

static void put_failures(atvi_page *p, const atvi_report_fit *r) {
  const atvi_summary *s = r->summary;
  const char **column = atvi_pool_take(p->pool, (size_t)s->n_param + 2, sizeof *column);
  if (!column || r->n_failure == 0) return;
  column[0] = "";
  for (atvi_idx k = 0; k < s->n_param; k++) column[k + 1] = s->col[k].name;
  column[s->n_param + 1] = "why";
  atvi_page_table(p, "Parameters where the model could not be run", (int)s->n_param + 2, column, false);
  for (atvi_idx i = 0; i < r->n_failure && i < FAILURES; i++) {
    char name[32];
    snprintf(name, sizeof name, "%td", i + 1);
    atvi_page_row(p, name);
    for (atvi_idx k = 0; k < s->n_param; k++) atvi_page_number(p, r->failure[i].value[k], 4);
    atvi_text_add(&p->body, "<td class=\"words\">");
    atvi_text_escape(&p->body, r->failure[i].say);
    atvi_text_add(&p->body, "</td></tr>\n");
  }
  atvi_page_table_end(p, false);
  if (s->made.failures > FAILURES) atvi_page_note(p, "A few of the points that failed, taken at random.");
}

static void say_error(atvi_page *p, double error) {
  char text[ATVI_TICK_LABEL];
  atvi_write_number(text, error, 2);
  atvi_page_say(p, "The solver's error changes the log likelihood by at most %s at draws of the posterior.",
                text);
}

void atvi_fit_say_cost(atvi_page *p, const atvi_fit_parts *x) {
  const atvi_made *m = &x->r->summary->made;
  atvi_page_section(p, "cost", "Cost");
  if (x->r->n_emulator > 0)
    atvi_page_say(p,
                  "%.3g seconds, %" PRId64
                  " evaluations of the likelihood with the emulator; the simulator was not run. %s",
                  m->seconds, m->evaluations, ending(m->end));
  else
    atvi_page_say(
        p, "%.3g seconds, %" PRId64 " runs of the model, of which %s failed. %s", m->seconds, m->evaluations,
        m->failures > 0 ? atvi_pool_printf(p->pool, "%" PRId64, m->failures) : "none", ending(m->end));
  if (m->log_lik_error > 0) say_error(p, m->log_lik_error);
  put_failures(p, x->r);
}

/* ---- again ---- */

void atvi_fit_say_again(atvi_page *p, const atvi_fit_parts *x) {
  const atvi_report_fit *r = x->r;
  atvi_page_section(p, "again", "Model and command");
  if (r->command) {
    if (!r->summary || r->summary->made.end == ATVI_END_DONE)
      atvi_page_say(
          p,
          "The same command gives the same draws, with this version of atvi (%s), on any number of threads:",
          ATVI_VERSION);
    else
      atvi_page_say(p, "The fit ended early: run again it may end elsewhere. The command was, with atvi %s:",
                    ATVI_VERSION);
    atvi_text_add(&p->body, "<pre tabindex=\"0\">");
    atvi_text_escape(&p->body, r->command);
    atvi_text_add(&p->body, "</pre>\n");
  }
  if (r->text) atvi_page_listing(p, "The model file", r->text, true);
  if (r->how) atvi_page_listing(p, "How the fit was called (fit.json)", r->how, false);
}
