/* SPDX-License-Identifier: MIT */
/* Convergence, cost, and how to repeat the fit. */
#include "math/stat/stat.h"
#include "report/fit.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum {
  FAILURES = 5, /* failed points shown */
  NAMED = 4,    /* parameters named in the sentence about them */
  STEPS = 40,   /* rows of the table of training */
};
static const double TINY = 1e-12, HUGE_SIZE = 1e12; /* failed values written in words */

/* ---- approximations ---- */

/* Values under the pointer, of the steps that the figure shows. */
static void hover_steps(atvi_page *p, const atvi_fit_parts *x, const char *id, const atvi_frame *f,
                        bool (*shown)(const atvi_progress *s)) {
  const atvi_draws *r = x->r->plain;
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
  if (at) atvi_report_page_hover(p, id, f, false, "step", n, at, 2, column);
}

static bool has_temperature(const atvi_progress *s) { return isfinite(s->temperature); }
static bool has_elbo(const atvi_progress *s) { return atvi_report_step_has_elbo(s, false); }
static bool has_hot_elbo(const atvi_progress *s) { return atvi_report_step_has_elbo(s, true); }

static void put_elbo(atvi_page *p, const atvi_fit_parts *x, bool hot) {
  const atvi_report_fit *r = x->r;
  atvi_box box = {0, 0, ATVI_REPORT_HALF, ATVI_REPORT_HEIGHT};
  const char *id = hot ? "elbo-hot" : "elbo";
  atvi_canvas *c = atvi_report_canvas_new(p->pool, box.width, box.height);
  atvi_frame f = atvi_report_panel_elbo(c, box, r->plain->n_step, r->plain->step, hot,
                                        hot ? NAN : r->draws->made->log_evidence);
  atvi_report_page_figure(p, c, id,
                          hot ? "Evidence lower bound of the tempered posteriors, each at its temperature."
                              : "Evidence lower bound during training, with the log evidence.");
  hover_steps(p, x, id, &f, hot ? has_hot_elbo : has_elbo);
}

static void put_training(atvi_page *p, const atvi_fit_parts *x) {
  const atvi_report_fit *r = x->r;
  atvi_box box = {0, 0, ATVI_REPORT_HALF, ATVI_REPORT_HEIGHT};
  if (atvi_report_has_ladder(x)) {
    atvi_canvas *c = atvi_report_canvas_new(p->pool, box.width, box.height);
    atvi_frame f = atvi_report_panel_temperature(c, box, r->plain->n_step, r->plain->step);
    atvi_report_page_figure(p, c, "temperature",
                            "Temperature of the tempered posterior while the approximation was trained.");
    hover_steps(p, x, "temperature", &f, has_temperature);
  }
  if (atvi_report_has_elbo(x, true)) put_elbo(p, x, true);
  if (atvi_report_has_elbo(x, false)) put_elbo(p, x, false);
}

static bool says_something(const atvi_progress *s) {
  return isfinite(s->elbo) || isfinite(s->temperature) || isfinite(s->khat);
}

static void put_count(atvi_page *p, double n) {
  atvi_report_page_cell(p, isfinite(n) ? atvi_pool_printf(p->pool, "%.0f", n) : "\xe2\x80\x93");
}

static void put_steps(atvi_page *p, const atvi_draws *r) {
  static const char *const column[] = {"", "seconds", "steps", "component", "temperature", "ELBO", "k-hat"};
  atvi_idx n = 0, shown = 0;
  for (atvi_idx i = 0; i < r->n_step; i++) n += says_something(&r->step[i]);
  if (n == 0) return;
  atvi_idx every = (n + STEPS - 1) / STEPS;
  atvi_report_page_table(p, "Training as a table", 7, column, true);
  for (atvi_idx i = 0; i < r->n_step; i++) {
    const atvi_progress *s = &r->step[i];
    if (!says_something(s) || shown++ % every != 0) continue;
    atvi_report_page_row(p, s->phase);
    atvi_report_page_number(p, s->elapsed_s, 3);
    put_count(p, s->steps);
    put_count(p, s->part);
    atvi_report_page_number(p, s->temperature, 3);
    atvi_report_page_number(p, s->elbo, 6);
    atvi_report_page_number(p, s->khat, 2);
  }
  atvi_report_page_table_end(p, true);
}

static void say_weights(atvi_page *p, const atvi_fit_parts *x) {
  const atvi_summary *s = x->r->summary;
  const atvi_made *m = &s->made;
  if (m->exact > 0) {
    atvi_report_page_say(p, "Chains that start from the trained approximation and become exact replaced it: "
                            "the draws do not depend on it.");
    return;
  }
  if (isnan(m->khat)) {
    atvi_report_page_say(p,
                         "k-hat, which shows whether weights can correct the approximation, is not known.");
    return;
  }
  if (!s->weighted) {
    atvi_report_page_say(p,
                         "k-hat is %.2f; only up to %.2f can weights turn draws of the approximation into "
                         "draws of the posterior. The numbers are those of the approximation.",
                         m->khat, atvi_math_psis_threshold(s->n));
    return;
  }
  const char *khat = atvi_diag_summary_khat(p->pool, s);
  double ess;
  atvi_idx least = atvi_diag_summary_least_ess(s, &ess);
  atvi_report_page_say(p, "%s: the weights turn draws of the approximation into draws of the posterior.",
                       khat ? khat : "");
  atvi_report_page_say(p, "With their weights the %td draws are worth %.0f independent ones (%.0f %%)%s.",
                       s->n, s->ess, 100 * s->ess / (double)s->n,
                       least >= 0 && round(ess) < round(s->ess)
                           ? atvi_pool_printf(p->pool, "; for the mean of a parameter at least %.0f (%s)",
                                              ess, s->col[least].name)
                           : "");
}

static void say_variational(atvi_page *p, const atvi_fit_parts *x) {
  const atvi_made *m = &x->r->summary->made;
  atvi_frame f;
  say_weights(p, x);
  if (m->steps > 0)
    atvi_report_page_say(p, "Training took %.0f steps%s%s.", m->steps,
                         m->rungs > 1 ? atvi_pool_printf(p->pool, " along %.0f temperatures", m->rungs) : "",
                         isnan(m->tuned) ? ""
                         : m->tuned > 0  ? "; fine-tuning helped and was kept"
                                         : "; fine-tuning was tried and undone");
  if (isfinite(m->elbo) && isfinite(m->log_evidence) && !x->r->summary->refused)
    atvi_report_page_say(p,
                         "The log evidence is %.3f and the ELBO %.3f: before weighting, the approximation is "
                         "%.2g nats away from the posterior.",
                         m->log_evidence, m->elbo, fmax(0, m->log_evidence - m->elbo));
  atvi_report_page_grid(p, "half");
  put_training(p, x);
  atvi_canvas *c = x->r->draws->weight ? atvi_report_draw_weights(x, &f) : NULL;
  if (c)
    atvi_report_page_figure(
        p, c, "weights", "Weights of the draws in units of their mean, largest first, on logarithmic axes.");
  atvi_report_page_grid_end(p);
  if (m->modes > 1 && atvi_report_has_elbo(x, false))
    atvi_report_page_note(p, "Each mode has its own component, and its own line in the figures of the ELBO.");
  if (atvi_report_has_elbo(x, true))
    atvi_report_page_note(
        p, "Training starts at a high temperature, where the data count little, and cools down to 1, the "
           "posterior itself. The ELBO has a different level at each temperature: only at temperature 1 is "
           "it a lower bound of the log evidence, and a measure of the fit.");
  if (c)
    atvi_report_page_note(p, "Orange: the tail of the largest weights, which k-hat describes. The flatter "
                             "the weights, the better the approximation.");
  put_steps(p, x->r->plain);
}

/* ---- chains ---- */

/* Chains that agree and are long enough need no attention. */
static bool needs_look(const atvi_summary *s, const atvi_summary_column *c) {
  double wanted = s->made.ess_wanted > 0 ? s->made.ess_wanted : ATVI_SUMMARY_ESS;
  return !(c->rhat <= ATVI_SUMMARY_RHAT) || !(fmin(c->ess_bulk, c->ess_tail) >= wanted);
}

static void put_trace(atvi_page *p, const atvi_fit_parts *x, atvi_idx k, bool ranks) {
  const atvi_summary_column *c = &x->r->summary->col[k];
  const char *what = ranks ? "Ranks of the chains" : "Traces of the chains", *alt;
  char id[24];
  if (isfinite(c->rhat))
    alt = atvi_pool_printf(p->pool, "%s of %s: R-hat %.3f, %.0f effective draws.", what, c->name, c->rhat,
                           c->ess_bulk);
  else
    alt = atvi_pool_printf(p->pool, "%s of %s, which has no R-hat.", what, c->name);
  snprintf(id, sizeof id, ranks ? "k%td" : "t%td", k);
  atvi_report_page_figure(p, atvi_report_draw_trace(x, k, ranks), id, alt ? alt : "");
}

/* Traces and ranks of the parameters that need, or do not need, attention; at most `most`. Returns their
 * number. */
static atvi_idx put_traces(atvi_page *p, const atvi_fit_parts *x, bool look, atvi_idx most) {
  const atvi_summary *s = x->r->summary;
  atvi_idx n = 0;
  atvi_report_page_grid(p, "half");
  for (atvi_idx k = 0; k < s->n_param && n < most; k++) {
    if (needs_look(s, &s->col[k]) != look) continue;
    put_trace(p, x, k, false);
    put_trace(p, x, k, true);
    n++;
  }
  atvi_report_page_grid_end(p);
  return n;
}

static void say_traces(atvi_page *p, const atvi_fit_parts *x) {
  const atvi_summary *s = x->r->summary;
  atvi_idx n = 0, worst = 0;
  for (atvi_idx k = 0; k < s->n_param; k++) {
    n += needs_look(s, &s->col[k]);
    if (s->col[k].rhat > s->col[worst].rhat) worst = k;
  }
  atvi_report_page_heading(p, "Traces and ranks of the chains");
  if (n == 0)
    atvi_report_page_say(
        p,
        "The chains agree about every parameter, and there are enough draws: the largest R-hat is %.3f (%s).",
        s->col[worst].rhat, s->col[worst].name);
  else
    atvi_report_page_say(
        p, "%td of %td parameters need attention: their R-hat is above %.2f, or they have too few draws.", n,
        s->n_param, ATVI_SUMMARY_RHAT);
  atvi_report_page_note(p,
                        "Traces of chains that agree look alike and have no trend. Ranks show how often each "
                        "chain has draws of each rank among all: flat lines around 1 if the chains agree.");
  atvi_idx shown = n > 0 ? put_traces(p, x, true, ATVI_REPORT_TRACES) : 0;
  if (n < s->n_param) {
    atvi_report_page_fold(p, n > 0 ? "The other parameters" : "Traces and ranks of all parameters");
    shown += put_traces(p, x, false, ATVI_REPORT_TRACES - shown);
    atvi_report_page_fold_end(p);
  }
  if (shown < s->n_param)
    atvi_report_page_note(p, "Traces are shown for %td of %td parameters.", shown, s->n_param);
}

static void say_chains(atvi_page *p, const atvi_fit_parts *x) {
  const atvi_made *m = &x->r->summary->made;
  if (isfinite(m->accept))
    atvi_report_page_say(p, "Proposals were accepted %.0f %% of the time.", 100 * m->accept);
  if (isfinite(m->tree_depth))
    atvi_report_page_say(p,
                         "Divergences: %.0f. Energy fraction of missing information: %.2f. Mean tree depth: "
                         "%.1f; trees cut off: %.0f.",
                         m->divergences, m->ebfmi, m->tree_depth, m->max_depth_hits);
  if (!atvi_report_has_chains(x)) return;
  say_traces(p, x);
}

void atvi_report_say_convergence(atvi_page *p, const atvi_fit_parts *x) {
  atvi_report_page_section(p, "convergence", "Convergence");
  if (atvi_diag_made_variational(&x->r->summary->made)) say_variational(p, x);
  if (x->r->summary->chains) say_chains(p, x);
  if (!atvi_diag_made_variational(&x->r->summary->made) && !x->r->summary->chains)
    atvi_report_page_say(
        p,
        "The draws come from a normal distribution around the maximum of the posterior (Laplace's method)%s.",
        x->r->summary->made.efficiency < 0.3 ? ", which describes the posterior poorly" : "");
}

/* ---- cost ---- */

static const char *ending(atvi_end end) {
  return end == ATVI_END_DONE    ? "It ended by its own criteria."
         : end == ATVI_END_LIMIT ? "It ended because a limit was reached."
                                 : "It was asked to stop.";
}

/* The end of a parameter's posterior beyond which all failed points lie; 0: neither. */
static int beyond(const atvi_report_fit *r, atvi_idx n, atvi_idx k) {
  const atvi_summary_column *c = &r->summary->col[k];
  atvi_idx below = 0, above = 0;
  for (atvi_idx i = 0; i < n; i++) {
    below += r->plain->failed[i].value[k] < c->quantile[0];
    above += r->plain->failed[i].value[k] > c->quantile[4];
  }
  return below == n ? -1 : above == n ? 1 : 0;
}

/* "k1 below 0.2, V above 31": what the failed points have in common. NULL: nothing, or out of memory. */
static const char *in_common(atvi_pool *pool, const atvi_report_fit *r, atvi_idx n) {
  const atvi_summary *s = r->summary;
  const char *list = NULL;
  for (atvi_idx k = 0, named = 0; k < s->n_param && named < NAMED; k++) {
    int side = beyond(r, n, k);
    char edge[ATVI_TICK_LABEL];
    if (side == 0) continue;
    atvi_report_write_number(edge, s->col[k].quantile[side < 0 ? 0 : 4], 3);
    list = atvi_pool_printf(pool, "%s%s%s %s %s", list ? list : "", named ? ", " : "", s->col[k].name,
                            side < 0 ? "below" : "above", edge);
    named++;
  }
  return list;
}

/* A number from the far end of a prior is only "small" or "large". */
static void put_far(atvi_page *p, double v) {
  double size = fabs(v);
  if (size > 0 && size < TINY)
    atvi_report_page_cell(p, "almost 0");
  else if (size > HUGE_SIZE && isfinite(v))
    atvi_report_page_cell(p, v < 0 ? "hugely negative" : "huge");
  else
    atvi_report_page_number(p, v, 3);
}

static void put_failures(atvi_page *p, const atvi_report_fit *r) {
  const atvi_summary *s = r->summary;
  const char **column = atvi_pool_take(p->pool, (size_t)s->n_param + 2, sizeof *column);
  atvi_idx n = r->plain->n_failed < FAILURES ? r->plain->n_failed : FAILURES;
  if (!column || n == 0) return;
  column[0] = "";
  column[1] = "why";
  for (atvi_idx k = 0; k < s->n_param; k++) column[k + 2] = s->col[k].name;
  const char *common = in_common(p->pool, r, n);
  if (common)
    atvi_report_page_say(p, "All recorded failed points lie outside the posterior: %s.", common);
  else
    atvi_report_page_say(p, "No single parameter separates the failed points from the posterior.");
  atvi_report_page_table(p, "Points at which the model could not be run", (int)s->n_param + 2, column, true);
  for (atvi_idx i = 0; i < n; i++) {
    char name[32];
    snprintf(name, sizeof name, "%td", i + 1);
    atvi_report_page_row(p, name);
    atvi_report_page_words(p, atvi_outcome_word(r->plain->failed[i].outcome));
    for (atvi_idx k = 0; k < s->n_param; k++) put_far(p, r->plain->failed[i].value[k]);
  }
  atvi_report_page_table_end(p, true);
  if (s->made.failures > n)
    atvi_report_page_note(p, "These are %td of the %" PRId64 " failed points, chosen at random.", n,
                          s->made.failures);
}

static void say_error(atvi_page *p, double error) {
  char text[ATVI_TICK_LABEL];
  atvi_report_write_number(text, error, 2);
  atvi_report_page_say(
      p, "The solver's error changes the log likelihood by at most %s at draws of the posterior.", text);
}

void atvi_report_say_cost(atvi_page *p, const atvi_fit_parts *x) {
  const atvi_made *m = &x->r->summary->made;
  atvi_report_page_section(p, "cost", "Cost");
  if (x->r->n_emulator > 0)
    atvi_report_page_say(p,
                         "%.3g seconds, %" PRId64
                         " evaluations of the likelihood with the emulator; the simulator was not run. %s",
                         m->seconds, m->evaluations, ending(m->end));
  else
    atvi_report_page_say(
        p, "%.3g seconds, %" PRId64 " runs of the model, of which %s failed. %s", m->seconds, m->evaluations,
        m->failures > 0 ? atvi_pool_printf(p->pool, "%" PRId64, m->failures) : "none", ending(m->end));
  if (m->log_lik_error > 0) say_error(p, m->log_lik_error);
  put_failures(p, x->r);
}

/* ---- how to repeat it ---- */

void atvi_report_say_again(atvi_page *p, const atvi_fit_parts *x) {
  const atvi_report_fit *r = x->r;
  atvi_report_page_section(p, "again", "Model and command");
  if (r->plain->about->command) {
    if (!r->summary || r->summary->made.end == ATVI_END_DONE)
      atvi_report_page_say(
          p,
          "With this version of atvi (%s) the same command gives the same draws, on any number of threads:",
          ATVI_VERSION);
    else
      atvi_report_page_say(
          p, "The fit ended early, so a repeated fit may end elsewhere. The command, with atvi %s, was:",
          ATVI_VERSION);
    atvi_report_page_command(p, r->plain->about->command);
  }
  if (r->text) atvi_report_page_listing(p, "The model file", r->text, true);
  if (r->how) atvi_report_page_listing(p, "How the fit was called (fit.json)", r->how, false);
}
