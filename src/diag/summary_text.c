/* SPDX-License-Identifier: MIT */
/* The summary for a terminal: a line about the run, a table, the verdict and the messages, within 100 columns.
 *
 * All values of a row share their number of decimals, taken from the sd (two or three digits of it) and, between those, from the
 * Monte Carlo error: digits that would change with the next seed are not shown. */
#include "diag/summary.h"
#include "math/stat/psis.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const double NOTED = 0.9; /* of what the weights are worth: a parameter with less is named */
enum { WIDTH = 100, CELL = 24, NAME_MIN = 8 };
enum { NAME, MEAN, SD, MODE, MEDIAN, LOW, HIGH, ESS, TAIL, RHAT, N_COLUMN };

static const char *const TITLE[N_COLUMN] = {"",          "mean", "sd",  "mode",     "median",
                                            "95 % from", "to",   "ESS", "ESS tail", "R-hat"};
/* Given up from the left when the table is too wide. */
static const int SPARE[] = {MODE, TAIL, MEDIAN};

typedef struct {
  char (*cell)[N_COLUMN][CELL]; /* [n_col]; NAME is not used, names are of any length */
  int width[N_COLUMN];
  bool shown[N_COLUMN];
} table;

/* Text that grows; stops growing when memory does. */
typedef struct {
  atvi_pool *pool;
  char *at;
  atvi_idx n, cap;
} text_buffer;

static void put(text_buffer *b, const char *s, size_t n) {
  for (size_t i = 0; i < n; i++) {
    char *bigger = atvi_pool_grow(b->pool, b->at, b->n, &b->cap, 1);
    if (!bigger) return;
    b->at = bigger;
    b->at[b->n++] = s[i];
  }
}

static void puts_to(text_buffer *b, const char *s) { put(b, s, strlen(s)); }

static void spaces(text_buffer *b, int n) {
  for (int i = 0; i < n; i++) put(b, " ", 1);
}

#define PRINT(b, ...)                                                                                        \
  do {                                                                                                       \
    const char *print_ = atvi_pool_printf((b)->pool, __VA_ARGS__);                                           \
    if (print_) puts_to((b), print_);                                                                        \
  } while (0)

/* ---- numbers ---- */

static int place(double x) { return x > 0 && isfinite(x) ? (int)floor(log10(x)) : 0; }

/* Decimals for the row; -1: use %.4g. */
static int decimals(const atvi_summary_column *c) {
  double size = fmax(fmax(fabs(c->quantile[0]), fabs(c->quantile[4])), fabs(c->mean));
  if (!(c->sd > 0) || !(size < 1e7)) return -1;
  int most = 2 - place(c->sd), least = 1 - place(c->sd);
  int honest = c->mcse > 0 ? -place(c->mcse) : most;
  int n = honest < least ? least : honest > most ? most : honest;
  if (n < 0) n = 0;
  return n > 6 ? -1 : n;
}

static void number(char out[CELL], double x, int n) {
  if (!isfinite(x))
    snprintf(out, CELL, "-");
  else if (n < 0)
    snprintf(out, CELL, "%.4g", x);
  else
    snprintf(out, CELL, "%.*f", n, x);
}

static void count(char out[CELL], double x) {
  if (isfinite(x))
    snprintf(out, CELL, "%.0f", x);
  else
    snprintf(out, CELL, "-");
}

/* 1.0096 must not look like 1.01 or more than it is: three decimals, two where it is plainly bad. */
static void rhat(char out[CELL], double x) {
  if (isfinite(x))
    snprintf(out, CELL, x < 2 ? "%.3f" : "%.1f", x);
  else
    snprintf(out, CELL, "-");
}

static void fill_row(const atvi_summary_column *c, char cell[N_COLUMN][CELL]) {
  int n = decimals(c);
  number(cell[MEAN], c->mean, n);
  number(cell[SD], c->sd, n);
  number(cell[MODE], c->mode, n);
  number(cell[MEDIAN], c->median, n);
  number(cell[LOW], c->hpd95[0], n);
  number(cell[HIGH], c->hpd95[1], n);
  count(cell[ESS], c->ess_bulk);
  count(cell[TAIL], c->ess_tail);
  rhat(cell[RHAT], c->rhat);
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
    t->shown[SPARE[i]] = false; /* even with shortened names it would not fit */
  int over = total_width(t) - WIDTH;
  if (over > 0) t->width[NAME] = t->width[NAME] - over < NAME_MIN ? NAME_MIN : t->width[NAME] - over;
}

/* The name, with its middle left out if it is too long: the end holds the index. */
static void put_name(text_buffer *b, const char *name, int width) {
  int n = (int)strlen(name);
  if (n > width) {
    int head = (width - 2) / 2, tail = width - 2 - head;
    put(b, name, (size_t)head);
    puts_to(b, "..");
    puts_to(b, name + n - tail);
  } else {
    puts_to(b, name);
    spaces(b, width - n);
  }
}

static void put_row(text_buffer *b, const table *t, const char *name, char cell[N_COLUMN][CELL]) {
  put_name(b, name, t->width[NAME]);
  for (int j = MEAN; j < N_COLUMN; j++) {
    if (!t->shown[j]) continue;
    const char *s = cell ? cell[j] : TITLE[j];
    spaces(b, 2 + t->width[j] - (int)strlen(s));
    puts_to(b, s);
  }
  puts_to(b, "\n");
}

static void put_table(text_buffer *b, const atvi_summary *s) {
  table t;
  t.cell = atvi_pool_take(b->pool, (size_t)s->n_col, sizeof *t.cell);
  if (!t.cell) return;
  for (atvi_idx k = 0; k < s->n_col; k++) fill_row(&s->col[k], t.cell[k]);
  measure(s, &t);
  put_row(b, &t, "", NULL);
  for (atvi_idx k = 0; k < s->n_col; k++) {
    if (k == s->n_param && k > 0) puts_to(b, "derived:\n");
    put_row(b, &t, s->col[k].name, t.cell[k]);
  }
}

/* ---- words ---- */

/* A paragraph with a hanging indent, broken at spaces. */
static void put_wrapped(text_buffer *b, const char *lead, const char *s) {
  int indent = (int)strlen(lead), column = indent;
  puts_to(b, lead);
  while (*s) {
    int word = (int)strcspn(s, " ");
    bool fresh = column == indent;
    if (!fresh && column + 1 + word > WIDTH) {
      puts_to(b, "\n");
      spaces(b, indent);
      column = indent;
    } else if (!fresh) {
      puts_to(b, " ");
      column++;
    }
    put(b, s, (size_t)word);
    column += word;
    s += word;
    s += strspn(s, " ");
  }
  puts_to(b, "\n");
}

static void put_run(text_buffer *b, const atvi_summary *s) {
  const atvi_made *m = &s->made;
  const char *shape =
      s->chains ? atvi_pool_printf(b->pool, "%td chains of %td draws", s->n_chain, s->n / s->n_chain)
                : atvi_pool_printf(b->pool, "%td %sdraws", s->n, s->weighted ? "weighted " : "");
  const char *line = atvi_pool_printf(
      b->pool, "%s, method %s, seed %" PRIu64 ": %s, %" PRId64 " model runs (%" PRId64 " failed), %.3g s",
      *m->model ? m->model : "model", m->method, m->seed, shape ? shape : "", m->evaluations, m->failures,
      m->seconds);
  if (line) put_wrapped(b, "", line);
  puts_to(b, "\n");
}

/* Down to the second digit of the error. */
static int evidence_decimals(double se) {
  if (!(se > 0) || !isfinite(se)) return 3;
  int n = 1 - place(se);
  return n < 2 ? 2 : n > 5 ? 5 : n;
}

static void put_evidence(text_buffer *b, const atvi_summary *s) {
  const atvi_made *m = &s->made;
  /* Of weights that cannot be trusted the mean cannot either; the bound holds all the same. */
  bool evidence = isfinite(m->log_evidence) && (s->weighted || s->chains || !atvi_made_variational(m));
  bool elbo = isfinite(m->elbo);
  int n = evidence ? evidence_decimals(m->log_evidence_se) : 3;
  if (evidence) PRINT(b, "log evidence  %.*f", n, m->log_evidence);
  if (evidence && isfinite(m->log_evidence_se)) PRINT(b, " +- %.2g", m->log_evidence_se);
  if (elbo) PRINT(b, evidence ? ", at least %.*f (ELBO)" : "log evidence at least %.*f (ELBO)", n, m->elbo);
  if (evidence || elbo) puts_to(b, "\n");
}

static void put_training(text_buffer *b, const atvi_made *m) {
  if (!isfinite(m->steps)) return;
  PRINT(b, "training  %.0f steps", m->steps);
  if (m->rungs > 1) PRINT(b, ", %.0f temperatures", m->rungs);
  if (m->modes > 1) PRINT(b, ", %.0f modes", m->modes);
  if (!isnan(m->tuned)) puts_to(b, m->tuned > 0 ? ", fine-tuning kept" : ", fine-tuning tried and undone");
  puts_to(b, "\n");
}

/* What weighted draws are worth; also for the parameter for which that is least. */
static const char *worth(atvi_pool *pool, const atvi_summary *s) {
  double ess;
  atvi_idx least = atvi_summary_least_ess(s, &ess);
  bool less = least >= 0 && ess < NOTED * s->ess;
  const char *of = less ? atvi_pool_printf(pool, ", for %s %.0f", s->col[least].name, ess) : "";
  return atvi_pool_printf(pool, "the weighted draws are worth %.0f independent ones (%.0f %%)%s", s->ess,
                          100 * s->ess / (double)s->n, of ? of : "");
}

/* How well the approximation fits, and what its draws are worth. */
static void put_fit(text_buffer *b, const atvi_summary *s) {
  const atvi_made *m = &s->made;
  if (!atvi_made_variational(m)) return;
  const char *khat = isnan(m->khat) ? "unknown" : atvi_pool_printf(b->pool, "%.2f", m->khat), *small = "",
             *draws = s->weighted    ? worth(b->pool, s)
                      : m->exact > 0 ? "the draws are those of the exact sampler, which does not rest on it"
                                     : "the draws are those of the approximation, not corrected";
  if (atvi_summary_tail_is_small(s))
    small =
        atvi_pool_printf(b->pool,
                         ", which does no harm here: the tail that it describes holds %.2g %% of the weight "
                         "(harmless below 0.5 %%)",
                         100 * m->excess);
  const char *line = atvi_pool_printf(b->pool, "%s (good up to %.2f)%s; %s", khat ? khat : "",
                                      atvi_psis_threshold(s->n), small ? small : "", draws ? draws : "");
  if (line) put_wrapped(b, "k-hat  ", line);
  put_training(b, m);
}

static void put_nuts(text_buffer *b, const atvi_made *m) {
  if (isnan(m->tree_depth)) return;
  PRINT(b, "sampler  divergences %.0f, E-BFMI %.2f, mean tree depth %.1f, trees cut off %.0f\n",
        m->divergences, m->ebfmi, m->tree_depth, m->max_depth_hits);
}

/* Returns where the word of the verdict is. */
static size_t put_ending(text_buffer *b, const atvi_summary *s) {
  static const char *const meaning[] = {"ok", "warn - use with care, see below",
                                        "bad - do not use these numbers, see below"};
  puts_to(b, "\n");
  if (isfinite(s->log_map)) PRINT(b, "highest log posterior found  %.2f\n", s->log_map);
  put_evidence(b, s);
  put_fit(b, s);
  put_nuts(b, &s->made);
  puts_to(b, "verdict: ");
  size_t at = (size_t)b->n;
  PRINT(b, "%s\n", meaning[s->verdict]);
  for (atvi_idx i = 0; i < s->n_message; i++) put_wrapped(b, "  - ", s->message[i].text);
  return at;
}

atvi_status atvi_summary_text(atvi_pool *pool, const atvi_summary *s, const char **text, size_t *verdict_at) {
  text_buffer b = {.pool = pool};
  *text = NULL;
  put_run(&b, s);
  put_table(&b, s);
  *verdict_at = put_ending(&b, s);
  put(&b, "", 1);
  if (atvi_pool_failed(pool)) return ATVI_FAIL(atvi_pool_ctx(pool), ATVI_ENOMEM, "summary: out of memory");
  *text = b.at;
  return ATVI_OK;
}
