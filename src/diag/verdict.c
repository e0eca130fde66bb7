/* SPDX-License-Identifier: MIT */
/* Verdict and messages. Every message says what is wrong, to someone who knows the model and the data but not
 * the sampler; what to do about it is added where it depends on how atvi was called (app/advice.c, python/,
 * r/). Rules run from the most to the least important, which is the order of the messages. */
#include "diag/summary.h"
#include "math/stat/stat.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* R-hat: 1.01 is the advice of Vehtari and others (2021); 1.05 means chains have clearly not mixed; above 1.2
 * they are in different places. */
static const double RHAT_WARN = ATVI_SUMMARY_RHAT, RHAT_BAD = 1.05, RHAT_APART = 1.2;
static const double ESS_DEFAULT = ATVI_SUMMARY_ESS;
static const double ESS_BAD = 100;  /* below this, even standard deviations are guesses */
static const double KHAT_BAD = 1.0; /* the mean of the weights has no expectation */
static const double FAILURES_WARN = 0.01;
static const double ERROR_WARN = 0.1, ERROR_BAD = 1; /* of the log likelihood at the worst of some draws */
static const double EFFICIENCY_WARN = 0.3, EFFICIENCY_BAD = 0.03; /* of draws without weights */
static const double WEIGHTS_BAD = 0.01;                           /* of draws with weights */
static const double DIVERGENCES_BAD = 0.01; /* per draw: no longer an accident, a region is missed */
static const double EBFMI_WARN = 0.2;       /* as in Stan */
enum { MEANS_SHOWN = 8, NAMES_SHOWN = 5 };

typedef struct {
  atvi_pool *pool;
  const atvi_draws *d;
  atvi_summary *s;
  atvi_idx cap;
  /* A message already says that chains disagree or never move; its consequences are not repeated. */
  bool apart;
  /* The first of the parameters that share a message about bounds. */
  const atvi_summary_column *like;
} judge;

/* Adds a message (text NULL: out of memory, noticed at the end) and makes the verdict at least that bad. */
static void add(judge *j, atvi_severity severity, atvi_code code, const char *text) {
  atvi_summary *s = j->s;
  if (!text || !ATVI_PUSH(j->pool, s->message, s->n_message, j->cap)) return;
  s->message[s->n_message++] = (atvi_message){severity, code, text};
  if ((atvi_verdict)severity > s->verdict) s->verdict = (atvi_verdict)severity;
}

#define ADD(j, severity, code, ...) add((j), (severity), (code), atvi_pool_printf((j)->pool, __VA_ARGS__))

/* Names of the parameters for which pick() is true: "beta, gamma and 3 more". */
static const char *names(const judge *j, bool (*pick)(const judge *, const atvi_summary_column *)) {
  const char *list = "";
  atvi_idx n = 0;
  for (atvi_idx k = 0; k < j->s->n_param && list; k++) {
    if (!pick(j, &j->s->col[k])) continue;
    if (n < NAMES_SHOWN) list = atvi_pool_printf(j->pool, "%s%s%s", list, n ? ", " : "", j->s->col[k].name);
    n++;
  }
  if (list && n > NAMES_SHOWN) list = atvi_pool_printf(j->pool, "%s and %td more", list, n - NAMES_SHOWN);
  return list ? list : "";
}

static bool constant(const double *x, atvi_idx n) {
  for (atvi_idx i = 1; i < n; i++)
    if (x[i] != x[0]) return false;
  return true;
}

/* Chains in which no parameter ever changed. */
static void stuck_chains(judge *j) {
  const atvi_draws *d = j->d;
  atvi_idx m = d->n_chain, n = d->n / m, n_stuck = 0, first = -1;
  if (!d->chains || d->n_param == 0 || n < 2) return;
  for (atvi_idx c = 0; c < m; c++) {
    bool stuck = true;
    for (atvi_idx k = 0; k < d->n_param && stuck; k++) stuck = constant(d->x + k * d->n + c * n, n);
    if (stuck && first < 0) first = c;
    n_stuck += stuck;
  }
  j->apart = n_stuck > 0;
  if (n_stuck == m)
    ADD(j, ATVI_SERIOUS, ATVI_CODE_CHAINS_STUCK,
        "No chain ever moved: every proposed point was rejected. These are not draws from the posterior. "
        "Make sure that the model can be evaluated near its prior, and let it run longer.");
  else if (n_stuck == 1)
    ADD(j, ATVI_SERIOUS, ATVI_CODE_CHAINS_STUCK,
        "Chain %td never moved from its starting point, which spoils all results. Run again with another "
        "seed or for longer; if it happens again, narrow the priors.",
        first + 1);
  else if (n_stuck > 1)
    ADD(j, ATVI_SERIOUS, ATVI_CODE_CHAINS_STUCK,
        "%td of %td chains never moved from their starting points, which spoils all results. Run again with "
        "another seed or for longer; if it happens again, narrow the priors.",
        n_stuck, m);
}

static bool is_not_finite(const judge *j, const atvi_summary_column *c) {
  (void)j;
  return isnan(c->median);
}

static void not_finite(judge *j) {
  const char *list = names(j, is_not_finite);
  if (*list)
    ADD(j, ATVI_SERIOUS, ATVI_CODE_DRAWS_NOT_FINITE,
        "Some draws of %s are not finite numbers; nothing can be said about them.", list);
}

static bool rhat_high(const judge *j, const atvi_summary_column *c) {
  (void)j;
  return c->rhat > RHAT_WARN;
}

static const char *chain_means(const judge *j, atvi_idx k) {
  const atvi_draws *d = j->d;
  atvi_idx m = d->n_chain, n = d->n / m;
  const char *list = "";
  for (atvi_idx c = 0; c < m && c < MEANS_SHOWN && list; c++) {
    double sum = 0;
    for (atvi_idx i = 0; i < n; i++) sum += d->x[k * d->n + c * n + i];
    list = atvi_pool_printf(j->pool, "%s%s%.3g", list, c ? ", " : "", sum / (double)n);
  }
  if (list && m > MEANS_SHOWN) list = atvi_pool_printf(j->pool, "%s, ...", list);
  return list ? list : "";
}

static void rhat_rule(judge *j) {
  atvi_idx worst = -1;
  const atvi_summary *s = j->s;
  for (atvi_idx k = 0; k < s->n_param; k++)
    if (s->col[k].rhat > RHAT_WARN && (worst < 0 || s->col[k].rhat > s->col[worst].rhat)) worst = k;
  if (worst < 0 || j->apart) return;
  double rhat = s->col[worst].rhat;
  j->apart = rhat > RHAT_APART;
  if (rhat > RHAT_APART)
    ADD(j, ATVI_SERIOUS, ATVI_CODE_RHAT,
        "The chains disagree about %s (R-hat %.2f, should be below 1.01): the chains' means are %s. Either "
        "the run was far too short, or the data allow several different explanations. Run longer; if they "
        "still disagree, narrow the priors or use more data. Affected: %s.",
        s->col[worst].name, rhat, chain_means(j, worst), names(j, rhat_high));
  else if (rhat > RHAT_BAD)
    ADD(j, ATVI_SERIOUS, ATVI_CODE_RHAT,
        "The chains do not agree (R-hat of %s is %.3f, should be below 1.01). Do not use these numbers; run "
        "longer. Affected: %s.",
        s->col[worst].name, rhat, names(j, rhat_high));
  else
    ADD(j, ATVI_WARNING, ATVI_CODE_RHAT,
        "The chains do not quite agree yet (R-hat of %s is %.3f, should be below 1.01). Run longer for final "
        "numbers. Affected: %s.",
        s->col[worst].name, rhat, names(j, rhat_high));
}

static double ess_wanted(const judge *j) {
  return j->d->made->ess_wanted > 0 ? j->d->made->ess_wanted : ESS_DEFAULT;
}

static double ess_of(const atvi_summary_column *c) { return fmin(c->ess_bulk, c->ess_tail); }

static bool ess_low(const judge *j, const atvi_summary_column *c) { return ess_of(c) < ess_wanted(j); }

/* The parameter with the smallest ESS of those below limit; -1: none. */
static atvi_idx ess_worst(const judge *j, double limit) {
  const atvi_summary *s = j->s;
  atvi_idx worst = -1;
  for (atvi_idx k = 0; k < s->n_param; k++)
    if (ess_of(&s->col[k]) < limit && (worst < 0 || ess_of(&s->col[k]) < ess_of(&s->col[worst]))) worst = k;
  return worst;
}

static double ess_bad(const judge *j) { return fmin(ESS_BAD, 0.5 * ess_wanted(j)); }

/* How a small ESS affects the results. */
static const char *ess_harm(const judge *j, double ess) {
  return ess < ess_bad(j)    ? ": too few to trust means, let alone intervals"
         : ess < ESS_DEFAULT ? ", so intervals are rough"
                             : "";
}

/* The requested ESS is that of the weights; single parameters may still have a much smaller one. */
static void weights_rule(judge *j) {
  const atvi_summary *s = j->s;
  const atvi_made *m = j->d->made;
  double wanted = ess_wanted(j);
  atvi_idx worst = ess_worst(j, s->ess - 0.5); /* not by rounding alone */
  double ess = worst < 0 ? s->ess : ess_of(&s->col[worst]);
  if (!(s->ess < wanted) && !(ess < fmin(wanted, ESS_DEFAULT))) return;
  bool far = atvi_diag_made_variational(m) && m->end == ATVI_END_DONE && !(m->efficiency >= EFFICIENCY_WARN);
  const char *why = far                              ? "the approximation is too far from the posterior"
                    : !atvi_diag_made_variational(m) ? "use more draws"
                    : m->end != ATVI_END_DONE        ? "let the fit finish"
                                                     : "the number of draws is at its limit";
  ADD(j, ess < ess_bad(j) ? ATVI_SERIOUS : ATVI_WARNING, far ? ATVI_CODE_WEIGHTS_POOR : ATVI_CODE_ESS_LOW,
      "The weighted draws are worth only %.0f independent ones%s%s (%.0f wanted)%s; %s.", ess,
      worst < 0 ? "" : " for ", worst < 0 ? "" : s->col[worst].name, wanted, ess_harm(j, ess), why);
}

static void ess_rule(judge *j) {
  const atvi_summary *s = j->s;
  if (s->weighted) {
    weights_rule(j);
    return;
  }
  if (!s->chains || j->apart) return; /* independent draws: as many as requested */
  atvi_idx worst = ess_worst(j, ess_wanted(j));
  if (worst < 0) return;
  double ess = ess_of(&s->col[worst]);
  ADD(j, ess < ess_bad(j) ? ATVI_SERIOUS : ATVI_WARNING, ATVI_CODE_ESS_LOW,
      "The draws of %s are worth only %.0f independent ones (effective sample size; %.0f wanted)%s; run "
      "longer. Affected: %s.",
      s->col[worst].name, ess, ess_wanted(j), ess_harm(j, ess), names(j, ess_low));
}

static void short_chains(judge *j) {
  atvi_idx n = j->d->n / j->d->n_chain;
  if (j->d->chains && n < ATVI_CONVERGE_LEAST)
    ADD(j, ATVI_SERIOUS, ATVI_CODE_CHAINS_SHORT,
        "There are only %td draws per chain: too few to tell whether the chains agree. Run longer.", n);
}

/* The training of an approximation ended early: its weighted draws are still right. */
static void training_end_rule(judge *j) {
  const atvi_made *m = j->d->made;
  const char *means = j->s->weighted ? "these are its draws up to then, weighted to the posterior"
                                     : "these are its draws up to then";
  const char *modes =
      isnan(m->modes) && strcmp(m->method, "atvi") == 0 ? ". Other modes had not been searched for yet" : "";
  if (m->end == ATVI_END_LIMIT)
    ADD(j, ATVI_WARNING, ATVI_CODE_LIMIT,
        "The run reached its limit before the approximation was finished; %s%s. Final numbers need more "
        "time.",
        means, modes);
  if (m->end == ATVI_END_STOPPED)
    ADD(j, ATVI_WARNING, ATVI_CODE_STOPPED,
        "The run was stopped before the approximation was finished; %s%s. Let it finish for final numbers.",
        means, modes);
}

static void end_rule(judge *j) {
  atvi_end end = j->d->made->end;
  if (atvi_diag_made_variational(j->d->made) && !j->d->chains) {
    training_end_rule(j);
    return;
  }
  if (end == ATVI_END_LIMIT && j->d->chains)
    ADD(j, ATVI_WARNING, ATVI_CODE_LIMIT_PRECISION,
        "The run ended at its limit before it reached the requested precision.");
  else if (end == ATVI_END_LIMIT)
    ADD(j, ATVI_WARNING, ATVI_CODE_LIMIT, "The run ended at its limit before it was finished.");
  if (end == ATVI_END_STOPPED)
    ADD(j, ATVI_WARNING, ATVI_CODE_STOPPED,
        "The run was stopped before it was finished; these are the results up to then.");
}

static void approximation_rule(judge *j) {
  double e = j->d->made->efficiency;
  if (atvi_diag_made_variational(j->d->made)) {
    if (j->s->weighted && atvi_math_weights_few(e)) /* refused ones: see khat_rule */
      ADD(j, e < WEIGHTS_BAD ? ATVI_SERIOUS : ATVI_WARNING, ATVI_CODE_WEIGHTS_POOR,
          "The weights rest on few draws: they are worth only %.2g %% of their number, and part of the "
          "posterior may be missed%s.",
          100 * e, e < WEIGHTS_BAD ? "; do not use these numbers as they are" : "");
    return;
  }
  if (e < EFFICIENCY_WARN)
    ADD(j, e < EFFICIENCY_BAD ? ATVI_SERIOUS : ATVI_WARNING, ATVI_CODE_LAPLACE_POOR,
        "The approximation fits the posterior poorly: weighted to the posterior, its draws would be worth "
        "only %.1f %% of their number. Use it only as a rough sketch.",
        100 * e);
}

static void modes_rule(judge *j) {
  double n = j->d->made->modes;
  if (!(n > 1)) return;
  if (j->s->refused)
    ADD(j, ATVI_NOTE, ATVI_CODE_MODES,
        "The posterior seems to have %.0f separate modes; their shares are not known.", n);
  else if (atvi_diag_made_variational(j->d->made))
    ADD(j, ATVI_NOTE, ATVI_CODE_MODES,
        "The posterior has %.0f separate modes: the data allow different explanations. All are in the draws, "
        "each with its share; means and standard deviations mix them, so look at the draws themselves.",
        n);
  else
    ADD(j, ATVI_WARNING, ATVI_CODE_MODES_LEFT_OUT,
        "There are %.0f separate maxima of similar height; the approximation covers only the best one.", n);
}

static void solver_rule(judge *j) {
  double e = j->d->made->log_lik_error;
  if (e > ERROR_WARN)
    ADD(j, e > ERROR_BAD ? ATVI_SERIOUS : ATVI_WARNING, ATVI_CODE_SOLVER_ERROR,
        "The model is not computed accurately enough: the solver's error changes the log likelihood by up to "
        "%.2g. Give it a smaller tolerance in the model file ('solver rk45 tol 1e-7') and fit again.",
        e);
}

/* k-hat is that of smoothed weights, and smoothing hides a single one that outweighs the others. */
static void contradiction(judge *j) {
  const atvi_made *m = j->d->made;
  if (m->top_weight > 0.5)
    ADD(j, ATVI_SERIOUS, ATVI_CODE_WEIGHTS_CONTRADICT,
        "One draw of %td has %.0f %% of the weight of all: most of the posterior may be where the "
        "approximation has next to no draws. The draws and the table are the approximation as it is, NOT "
        "corrected; do not use these numbers.",
        j->d->n, 100 * m->top_weight);
  else
    ADD(j, ATVI_SERIOUS, ATVI_CODE_WEIGHTS_CONTRADICT,
        "Parts of the draws contradict each other about the evidence (its standard error is %.2g nats, "
        "should be below 0.5): a few draws outweigh the others. The draws and the table are the "
        "approximation as it is, NOT corrected; do not use these numbers.",
        m->log_evidence_se);
}

static void khat_rule(judge *j) {
  const atvi_made *m = j->d->made;
  double k = m->khat, most = atvi_math_psis_threshold(j->d->n);
  bool few = atvi_math_weights_few(m->efficiency);
  int digits = round(100 * k) > round(100 * most) ? 2 : 3; /* 0.70 is not above 0.70 */
  if (!j->s->refused) return;
  if (atvi_diag_weights_contradict(j->d) && atvi_math_psis_permits(j->d->n, k, m->excess)) {
    contradiction(j);
    return;
  }
  if (isnan(k))
    ADD(j, ATVI_SERIOUS, ATVI_CODE_KHAT_UNKNOWN,
        "It is not known how well the approximation fits: too few of its draws could be evaluated (no "
        "k-hat). The draws are NOT corrected.");
  else if (k > KHAT_BAD || few)
    ADD(j, ATVI_SERIOUS, ATVI_CODE_KHAT_REFUSED,
        "The approximation misses part of the posterior (k-hat %.*f, should be below %.*f%s), too much for "
        "weights to correct: the draws and the table are those of the approximation, NOT corrected; do not "
        "use these numbers.",
        digits, k, digits, most, few ? "; the weights rest on few draws" : "");
  else
    ADD(j, ATVI_WARNING, ATVI_CODE_KHAT_REFUSED,
        "k-hat %.*f is above its threshold %.*f: the weights cannot be trusted to correct the approximation, "
        "so the table shows the approximation, NOT corrected. Its distance from the posterior is not known.",
        digits, k, digits, most);
}

static void failures_rule(judge *j) {
  const atvi_made *m = j->d->made;
  if (atvi_diag_made_variational(m)) {
    if (m->lost > FAILURES_WARN && !(m->exact > 0)) /* of the approximation, which chains do not rest on */
      ADD(j, ATVI_WARNING, ATVI_CODE_RUNS_FAILED,
          "Running the model failed at %.2g %% of the last draws; these were treated as impossible, which "
          "may cut off part of the posterior. Failed runs usually come from extreme parameter values: narrow "
          "the priors, or try another solver ('solver stiff', a larger 'maxsteps').",
          100 * m->lost);
    return; /* earlier failures do no harm */
  }
  if (m->evaluations <= 0 || !((double)m->failures > FAILURES_WARN * (double)m->evaluations)) return;
  ADD(j, ATVI_WARNING, ATVI_CODE_RUNS_FAILED,
      "%.2g %% of the model's runs failed (%" PRId64 " of %" PRId64
      ") and were treated as impossible, which may cut off part of the posterior. Failed runs usually come "
      "from extreme parameter values: narrow the priors, or try another solver ('solver stiff', a larger "
      "'maxsteps').",
      100.0 * (double)m->failures / (double)m->evaluations, m->failures, m->evaluations);
}

/* Problems that the No-U-Turn sampler has noticed. */
static void nuts_rule(judge *j) {
  const atvi_made *m = j->d->made;
  bool many = m->divergences > DIVERGENCES_BAD * (double)j->d->n;
  if (m->divergences > 0)
    ADD(j, many ? ATVI_SERIOUS : ATVI_WARNING, ATVI_CODE_DIVERGENCES,
        "%.0f of the sampler's trajectories diverged: somewhere the posterior is too sharply curved for its "
        "steps (a funnel, a ridge, a corner), and the draws %s that region. Write the model so that scales "
        "do not depend on other parameters (x = m + s*z with z ~ normal(0, 1)).",
        m->divergences, many ? "miss some of" : "may miss some of");
  if (m->ebfmi < EBFMI_WARN)
    ADD(j, ATVI_WARNING, ATVI_CODE_EBFMI,
        "The sampler explores the tails slowly (E-BFMI %.2f, should be above %.1f): the posterior has longer "
        "tails, or wider and narrower parts, than its steps suit.",
        m->ebfmi, EBFMI_WARN);
  if (m->max_depth_hits > 0)
    ADD(j, ATVI_NOTE, ATVI_CODE_TREE_DEPTH,
        "%.0f of the sampler's trajectories were cut off at their greatest length. That does not harm the "
        "result, but it costs time: some parameters are strongly correlated or of very different scales.",
        m->max_depth_hits);
}

/* 1: the lower bound, 2: the upper, 3: both. */
static int sides(const atvi_summary_column *c) { return c->reaches_lower + 2 * c->reaches_upper; }

/* Whether c belongs to the array, or is the parameter of a unit, of which j->like is another, and reaches the
 * same side. */
static bool reaches_like(const judge *j, const atvi_summary_column *c) {
  size_t n = strcspn(c->name, ".");
  return sides(c) == sides(j->like) && n == strcspn(j->like->name, ".") &&
         memcmp(c->name, j->like->name, n) == 0;
}

static void bound_of_one(judge *j, const atvi_summary_column *c) {
  bool upper = c->reaches_upper;
  if (sides(c) == 3)
    ADD(j, ATVI_NOTE, ATVI_CODE_BOUND_REACHED,
        "%s reaches both of its bounds: its density is still about %.0f %% of its largest at %g, and %.0f "
        "%% at %g. If they are guesses rather than facts, widen the prior and see whether the result "
        "changes.",
        c->name, 100 * c->at_lower, c->lower, 100 * c->at_upper, c->upper);
  else
    ADD(j, ATVI_NOTE, ATVI_CODE_BOUND_REACHED,
        "%s reaches its %s bound %g: its density is still about %.0f %% of its largest there. If that "
        "bound is a guess rather than a fact, widen the prior and see whether the result changes.",
        c->name, upper ? "upper" : "lower", upper ? c->upper : c->lower,
        100 * (upper ? c->at_upper : c->at_lower));
}

/* least: the lowest density at a bound, relative to its largest */
static void bound_of_many(judge *j, double least) {
  static const char *const which[] = {"", "lower bounds", "upper bounds", "bounds on both sides"};
  ADD(j, ATVI_NOTE, ATVI_CODE_BOUND_REACHED,
      "%s reach their %s: their densities are still at least %.0f %% of their largest there. If these bounds "
      "are guesses rather than facts, widen the prior and see whether the result changes.",
      names(j, reaches_like), which[sides(j->like)], 100 * least);
}

/* A bound that cuts the posterior; elements of an array, and units, share a message. */
static void bounds_rule(judge *j) {
  const atvi_summary_column *col = j->s->col;
  for (atvi_idx k = 0; k < j->s->n_param; k++) {
    atvi_idx n = 0, first = -1;
    double least = HUGE_VAL;
    j->like = &col[k];
    for (atvi_idx i = 0; sides(&col[k]) && i < j->s->n_param && (n == 0 || first == k); i++) {
      if (!reaches_like(j, &col[i])) continue;
      if (n++ == 0) first = i;
      if (col[i].reaches_lower) least = fmin(least, col[i].at_lower);
      if (col[i].reaches_upper) least = fmin(least, col[i].at_upper);
    }
    if (first == k && n == 1) bound_of_one(j, &col[k]);
    if (first == k && n > 1) bound_of_many(j, least);
  }
}

static bool has_no_mean(const judge *j, const atvi_summary_column *c) {
  (void)j;
  return c->no_moments && isnan(c->mean);
}

static bool has_no_sd(const judge *j, const atvi_summary_column *c) {
  (void)j;
  return c->no_moments && !isnan(c->mean);
}

static void moments_note(judge *j) {
  const char *which = names(j, has_no_mean);
  if (*which)
    ADD(j, ATVI_NOTE, ATVI_CODE_MOMENTS_NONE,
        "The tails of %s are so long that its standard deviation does not exist, judging by the draws, "
        "and its mean may not: use the median and the interval.",
        which);
  which = names(j, has_no_sd);
  if (*which)
    ADD(j, ATVI_NOTE, ATVI_CODE_MOMENTS_NONE,
        "The tails of %s are so long that its standard deviation does not exist, judging by the draws: "
        "use the interval.",
        which);
}

/* Chains that never moved are another matter. */
static bool is_one_number(const judge *j, const atvi_summary_column *c) {
  return !j->apart && c->sd == 0 && c->quantile[0] == c->quantile[ATVI_SUMMARY_QUANTILES - 1];
}

static void narrow_rule(judge *j) {
  const char *list = names(j, is_one_number);
  if (*list)
    ADD(j, ATVI_WARNING, ATVI_CODE_TOO_NARROW,
        "All draws of %s are the same number to the last digit: the posterior is narrower than the spacing "
        "of the computer's numbers there. Write the model in the difference from that number.",
        list);
}

static void derived_note(judge *j) {
  for (atvi_idx k = j->s->n_param; k < j->s->n_col; k++)
    if (isnan(j->s->col[k].median))
      ADD(j, ATVI_NOTE, ATVI_CODE_DERIVED_NOT_FINITE,
          "%s is not a finite number in some draws (a division by zero?), so it has no summary.",
          j->s->col[k].name);
}

const atvi_message *atvi_diag_summary_reason(const atvi_summary *s) {
  for (atvi_idx i = 0; i < s->n_message && s->verdict != ATVI_VERDICT_OK; i++)
    if ((atvi_verdict)s->message[i].severity == s->verdict) return &s->message[i];
  return NULL;
}

atvi_status atvi_diag_summary_judge(atvi_pool *pool, const atvi_draws *d, atvi_summary *s) {
  judge j = {.pool = pool, .d = d, .s = s};
  s->verdict = ATVI_VERDICT_OK;
  s->n_message = 0;
  s->message = NULL;
  stuck_chains(&j);
  not_finite(&j);
  short_chains(&j);
  rhat_rule(&j);
  khat_rule(&j);
  modes_rule(&j);
  approximation_rule(&j);
  solver_rule(&j);
  nuts_rule(&j);
  ess_rule(&j);
  end_rule(&j);
  failures_rule(&j);
  narrow_rule(&j);
  bounds_rule(&j);
  moments_note(&j);
  derived_note(&j);
  for (atvi_idx i = 0; i < d->n_message; i++)
    ADD(&j, d->message[i].severity, d->message[i].code, "%s", d->message[i].text);
  return atvi_pool_failed(pool) ? ATVI_ENOMEM : ATVI_OK;
}

/* The verdict for programs: verdict and messages of a summary. */

typedef struct {
  atvi_judgement j; /* first: what callers see */
  atvi_pool *pool;  /* holds this, too */
} whole;

static atvi_status judge_with(atvi_pool *pool, const atvi_draws *d, atvi_judgement **out) {
  atvi_summary *s;
  whole *o = atvi_pool_take(pool, 1, sizeof *o);
  if (!o) return ATVI_ENOMEM;
  ATVI_TRY(atvi_diag_summary_new(pool, d, &s));
  *o = (whole){{s->verdict, s->n_message, s->message}, pool};
  *out = &o->j;
  return ATVI_OK;
}

atvi_status atvi_judgement_new(const atvi_draws *d, atvi_judgement **out) {
  atvi_pool *pool;
  *out = NULL;
  ATVI_TRY(atvi_pool_new(d->ctx, &pool));
  atvi_status status = judge_with(pool, d, out);
  if (status != ATVI_OK) atvi_pool_free(pool);
  return status;
}

void atvi_judgement_free(atvi_judgement *j) {
  if (j) atvi_pool_free(((whole *)(void *)j)->pool);
}

atvi_idx atvi_judgement_size(const atvi_judgement *j) { return j->n_message; }

const char *atvi_judgement_word(const atvi_judgement *j, const char *what, atvi_idx i) {
  if (strcmp(what, "verdict") == 0) return atvi_verdict_name(j->verdict);
  if (i < 0 || i >= j->n_message) return NULL;
  if (strcmp(what, "text") == 0) return j->message[i].text;
  if (strcmp(what, "code") == 0) return atvi_code_name(j->message[i].code);
  return strcmp(what, "severity") == 0 ? atvi_severity_name(j->message[i].severity) : NULL;
}

atvi_status atvi_judge(const atvi_draws *d, atvi_verdict *verdict, char *text, size_t size) {
  atvi_judgement *j;
  *verdict = ATVI_VERDICT_BAD;
  if (text && size == 0) return ATVI_FAIL(d->ctx, ATVI_EINVAL, "judge: the text does not fit");
  if (text) text[0] = 0;
  ATVI_TRY(atvi_judgement_new(d, &j));
  *verdict = j->verdict;
  size_t used = 0;
  for (atvi_idx i = 0; text && i < j->n_message && used < size; i++) {
    int n = snprintf(text + used, size - used, "%s%s", i ? "\n" : "", j->message[i].text);
    used += n > 0 ? (size_t)n : 0;
  }
  atvi_judgement_free(j);
  return ATVI_OK;
}
