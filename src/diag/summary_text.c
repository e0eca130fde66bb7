/* SPDX-License-Identifier: MIT */
/* The summary for a terminal: a line about the run, a table, the verdict and the messages, within 100
 * columns.
 *
 * All values of a row share their number of decimals, taken from the sd (two or three digits of it) and,
 * between those, from the Monte Carlo error: digits that would change with the next seed are not shown. */
#include "diag/summary.h"
#include "math/stat/stat.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const double NOTED = 0.9; /* share of the ESS of the weights below which a parameter is named */
enum { WIDTH = ATVI_TEXT_WIDTH, CELL = 24, NAME_MIN = 8 };
/* In a table of more rows than this, arrays and parameters of units with more elements than ARRAY_ROWS are
 * cut. */
enum { ROWS = 60, ARRAY_ROWS = 8 };
enum { NAME, MEAN, SD, MODE, MEDIAN, LOW, HIGH, ESS, TAIL, RHAT, N_COLUMN };

static const char *const TITLE[N_COLUMN] = {"",          "mean", "sd",  "mode",     "median",
                                            "95 % from", "to",   "ESS", "ESS tail", "R-hat"};
/* Dropped from the left if the table is too wide. */
static const int SPARE[] = {MODE, TAIL, MEDIAN};

typedef struct {
  char (*cell)[N_COLUMN][CELL]; /* [n_col]; NAME is not used because names have any length */
  int width[N_COLUMN];
  bool shown[N_COLUMN];
} table;

/* ---- numbers ---- */

static int place(double x) { return x > 0 && isfinite(x) ? (int)floor(log10(x)) : 0; }

/* Decimals for the row; -1: use %.4g. */
static int decimals(const atvi_summary_column *c) {
  double size = fmax(fmax(fabs(c->quantile[0]), fabs(c->quantile[4])), fabs(c->mean));
  double spread = c->no_moments ? (c->quantile[3] - c->quantile[1]) / 1.349 : c->sd;
  if (!(spread > 0) || !(size < 1e7)) return -1;
  int most = 2 - place(spread), least = 1 - place(spread);
  int honest = c->mcse > 0 ? -place(c->mcse) : most;
  int n = honest < least ? least : honest > most ? most : honest;
  if (n < 0) n = 0;
  return n > 6 ? -1 : n;
}

/* n decimals; -1: four digits. */
static void number(char out[CELL], double x, int n) {
  if (!isfinite(x))
    snprintf(out, CELL, "-");
  else if (n < 0)
    snprintf(out, CELL, "%.4g", x);
  else
    snprintf(out, CELL, "%.*f", n, x);
}

static void fill_row(const atvi_summary_column *c, char cell[N_COLUMN][CELL]) {
  int n = decimals(c);
  number(cell[MEAN], c->mean, n);
  number(cell[SD], c->sd, n);
  number(cell[MODE], c->mode, n);
  number(cell[MEDIAN], c->median, n);
  number(cell[LOW], c->hpd95[0], n);
  number(cell[HIGH], c->hpd95[1], n);
  number(cell[ESS], c->ess_bulk, 0);
  number(cell[TAIL], c->ess_tail, 0);
  /* 1.0096 must not be rounded to 1.01: three decimals, or one if it is clearly bad. */
  number(cell[RHAT], c->rhat, c->rhat < 2 ? 3 : 1);
}

/* ---- table ---- */

static int total_width(const table *t) {
  int sum = 0;
  for (int j = 0; j < N_COLUMN; j++) sum += t->shown[j] ? t->width[j] + 2 : 0;
  return sum - 2;
}

static void measure(const atvi_summary *s, table *t) {
  for (int j = 0; j < N_COLUMN; j++) {
    t->shown[j] = (j != RHAT && j != TAIL) || s->chains;
    t->width[j] = (int)strlen(TITLE[j]);
    for (atvi_idx k = 0; k < s->n_col && j != NAME; k++)
      if ((int)strlen(t->cell[k][j]) > t->width[j]) t->width[j] = (int)strlen(t->cell[k][j]);
  }
  size_t longest = NAME_MIN;
  for (atvi_idx k = 0; k < s->n_col; k++)
    if (strlen(s->col[k].name) > longest) longest = strlen(s->col[k].name);
  t->width[NAME] = longest > WIDTH ? WIDTH : (int)longest;
  for (size_t i = 0;
       i < sizeof SPARE / sizeof *SPARE && total_width(t) > WIDTH + t->width[NAME] - 2 * NAME_MIN; i++)
    t->shown[SPARE[i]] = false; /* it would not fit even with shortened names */
  int over = total_width(t) - WIDTH;
  if (over > 0) t->width[NAME] = t->width[NAME] - over < NAME_MIN ? NAME_MIN : t->width[NAME] - over;
}

/* The name, with its middle left out if it is too long: the end holds the index. */
static void put_name(atvi_text *t, const char *name, int width) {
  int n = (int)strlen(name), head = (width - 2) / 2, tail = width - 2 - head;
  if (n > width)
    atvi_io_text_add(t, "%.*s..%s", head, name, name + n - tail);
  else
    atvi_io_text_add(t, "%-*s", width, name);
}

static void put_row(atvi_text *b, const table *t, const char *name, char cell[N_COLUMN][CELL]) {
  put_name(b, name, t->width[NAME]);
  for (int j = MEAN; j < N_COLUMN; j++)
    if (t->shown[j]) atvi_io_text_add(b, "  %*s", t->width[j], cell ? cell[j] : TITLE[j]);
  atvi_io_text_add(b, "\n");
}

/* Elements of the array that begins at column k, or 1. */
static atvi_idx array_length(const atvi_summary *s, atvi_idx k) {
  atvi_idx end = k < s->n_param ? s->n_param : s->n_col, n = 1;
  size_t head = strcspn(s->col[k].name, ".") + 1;
  if (!s->col[k].name[head - 1]) return 1;
  while (k + n < end && strncmp(s->col[k].name, s->col[k + n].name, head) == 0) n++;
  return n;
}

static void put_table(atvi_text *b, const atvi_summary *s) {
  table t;
  t.cell = atvi_pool_take(b->pool, (size_t)s->n_col, sizeof *t.cell);
  if (!t.cell) return;
  for (atvi_idx k = 0; k < s->n_col; k++) fill_row(&s->col[k], t.cell[k]);
  measure(s, &t);
  put_row(b, &t, "", NULL);
  for (atvi_idx k = 0, n; k < s->n_col; k += n) {
    if (k == s->n_param && k > 0) atvi_io_text_add(b, "derived:\n");
    n = array_length(s, k);
    atvi_idx shown = s->n_col > ROWS && n > ARRAY_ROWS ? ARRAY_ROWS / 2 : n;
    for (atvi_idx i = 0; i < shown; i++) put_row(b, &t, s->col[k + i].name, t.cell[k + i]);
    if (shown < n) atvi_io_text_add(b, "  ... to %s: summary.json\n", s->col[k + n - 1].name);
  }
}

/* ---- words ---- */

static void put_run(atvi_text *b, const atvi_summary *s) {
  const atvi_made *m = &s->made;
  const char *shape =
      s->chains ? atvi_pool_printf(b->pool, "%td chains of %td draws", s->n_chain, s->n / s->n_chain)
                : atvi_pool_printf(b->pool, "%td %sdraws", s->n, s->weighted ? "weighted " : "");
  const char *line = atvi_pool_printf(
      b->pool, "%s, method %s, seed %" PRIu64 ": %s, %" PRId64 " model runs (%" PRId64 " failed), %.3g s",
      *m->model ? m->model : "model", m->method, m->seed, shape ? shape : "", m->evaluations, m->failures,
      m->seconds);
  if (line) atvi_io_text_wrap(b, "", 0, line);
  atvi_io_text_add(b, "\n");
}

/* To the second digit of the error. */
static int evidence_decimals(double se) {
  if (!(se > 0) || !isfinite(se)) return 3;
  int n = 1 - place(se);
  return n < 2 ? 2 : n > 5 ? 5 : n;
}

#define FAR_BELOW 100.0 /* nats */

static void put_evidence(atvi_text *b, const atvi_summary *s) {
  const atvi_made *m = &s->made;
  /* If the weights cannot be trusted, neither can their mean; the bound still holds. */
  bool evidence = isfinite(m->log_evidence) && (s->weighted || s->chains || !atvi_diag_made_variational(m));
  /* A bound with a dozen digits says no more than that the approximation is nowhere near; one far below an
   * evidence that is known, that a few draws are. */
  bool elbo = evidence ? m->log_evidence - m->elbo < FAR_BELOW : fabs(m->elbo) < 1e9 && !(m->exact > 0);
  int n = evidence ? evidence_decimals(m->log_evidence_se) : 3;
  if (evidence) atvi_io_text_add(b, "log evidence  %.*f", n, m->log_evidence);
  if (evidence && isfinite(m->log_evidence_se)) atvi_io_text_add(b, " +- %.2g", m->log_evidence_se);
  if (elbo)
    atvi_io_text_add(b, evidence ? ", at least %.*f (ELBO)" : "log evidence at least %.*f (ELBO)", n,
                     m->elbo);
  if (evidence || elbo) atvi_io_text_add(b, "\n");
}

static void put_training(atvi_text *b, const atvi_made *m) {
  if (!(m->steps > 0)) return;
  atvi_io_text_add(b, "training  %.0f steps", m->steps);
  if (m->rungs > 1) atvi_io_text_add(b, ", %.0f temperatures", m->rungs);
  if (m->modes > 1) atvi_io_text_add(b, ", %.0f modes", m->modes);
  if (!isnan(m->tuned))
    atvi_io_text_add(b, m->tuned > 0 ? ", fine-tuning kept" : ", fine-tuning tried and undone");
  atvi_io_text_add(b, "\n");
}

/* Effective number of weighted draws; also for the parameter with the fewest. */
static const char *worth(atvi_pool *pool, const atvi_summary *s) {
  double ess;
  atvi_idx least = atvi_diag_summary_least_ess(s, &ess);
  bool less = least >= 0 && ess < NOTED * s->ess;
  const char *of = less ? atvi_pool_printf(pool, ", for %s %.0f", s->col[least].name, ess) : "";
  return atvi_pool_printf(pool, "the weighted draws are worth %.0f independent ones (%.0f %%)%s", s->ess,
                          100 * s->ess / (double)s->n, of ? of : "");
}

/* How well the approximation fits, and its effective number of draws. */
static void put_fit(atvi_text *b, const atvi_summary *s) {
  const atvi_made *m = &s->made;
  if (!atvi_diag_made_variational(m)) return;
  const char *khat = isnan(m->khat) ? "unknown" : atvi_pool_printf(b->pool, "%.2f", m->khat), *small = "",
             *draws = s->weighted ? worth(b->pool, s)
                      : m->exact > 0 && !isnan(m->tree_depth)
                          ? "the draws are those of the No-U-Turn sampler, which does not depend on it"
                      : m->exact > 0 ? "the draws are those of the exact sampler, which does not depend on it"
                                     : "the draws are those of the uncorrected approximation";
  if (atvi_diag_summary_tail_is_small(s))
    small = atvi_pool_printf(b->pool,
                             ", which is harmless here: the tail that it describes has %.2g %% of the weight "
                             "(harmless below 0.5 %%)",
                             100 * m->excess);
  const char *line = atvi_pool_printf(b->pool, "%s (good up to %.2f)%s; %s", khat ? khat : "",
                                      atvi_math_psis_threshold(s->n), small ? small : "", draws ? draws : "");
  if (line) atvi_io_text_wrap(b, "k-hat  ", 7, line);
  put_training(b, m);
}

static void put_nuts(atvi_text *b, const atvi_made *m) {
  if (isnan(m->tree_depth)) return;
  atvi_io_text_add(b, "sampler  divergences %.0f, E-BFMI %.2f, mean tree depth %.1f, trees cut off %.0f\n",
                   m->divergences, m->ebfmi, m->tree_depth, m->max_depth_hits);
}

/* Returns where the word of the verdict is. */
static size_t put_ending(atvi_text *b, const atvi_summary *s) {
  static const char *const meaning[] = {"ok", "warn - use with care, see below",
                                        "bad - do not use these numbers, see below"};
  atvi_io_text_add(b, "\n");
  if (isfinite(s->log_map)) atvi_io_text_add(b, "highest log posterior found  %.2f\n", s->log_map);
  put_evidence(b, s);
  put_fit(b, s);
  put_nuts(b, &s->made);
  atvi_io_text_add(b, "verdict: ");
  size_t at = (size_t)b->n;
  atvi_io_text_add(b, "%s\n", meaning[s->verdict]);
  for (atvi_idx i = 0; i < s->n_message; i++) atvi_io_text_wrap(b, "  - ", 4, s->message[i].text);
  return at;
}

atvi_status atvi_diag_summary_text(atvi_pool *pool, const atvi_summary *s, const char **text,
                                   size_t *verdict_at) {
  atvi_text b = {.pool = pool};
  put_run(&b, s);
  put_table(&b, s);
  *verdict_at = put_ending(&b, s);
  return atvi_io_text_get(&b, text);
}
