/* SPDX-License-Identifier: MIT */
/* Walks: a table whose values at the knots are a random walk, x[k] = x[k-1] + e[k], or an AR(1) process, x[k] = phi x[k-1] + e[k].
 * The values x[k] are parameters, named by the time of their knot; the prior of x[k] is that of e[k] around what comes before. So
 * methods can choose between coordinates: the values, which much data determine one by one, or the increments in units of their scale. */
#include "lang/elab.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* A knot this close to the end of the range, in steps, is in it. */
static const double SAME_KNOT = 1e-9;
/* A day this close to midnight has a date. */
static const double WHOLE_DAY = 1e-6;

static bool is_ar1(const ast_stmt *st) { return strcmp(st->dist->text, "ar1") == 0; }

/* A parameter array over a set without a name, whose labels come later. */
static bool declare_params(elab *e, elab_symbol *sym) {
  elab_symbol *set = atvi_lang_take(e->s, 1, sizeof *set);
  ast_word *word = atvi_lang_take(e->s, 1, sizeof *word);
  ast_expr *name = atvi_lang_take(e->s, 1, sizeof *name);
  ast_stmt *st = atvi_lang_take(e->s, 1, sizeof *st);
  if (!set || !word || !name || !st) return false;
  *word = (ast_word){.text = sym->word->text, .symbol = set};
  *set = (elab_symbol){.kind = SYM_SET, .stmt = st, .word = word, .at = sym->at};
  *name = (ast_expr){.kind = EX_NAME, .at = sym->at, .word = word};
  *st = *sym->stmt;
  st->kind = KW_PARAM;
  st->n_dim = 1;
  st->dim[0] = (ast_dim){.lo = name, .at = sym->at};
  st->option = NULL;
  sym->stmt = st;
  return true;
}

bool atvi_lang_walk_declare(elab *e, elab_symbol *walk, elab_symbol *first, elab_symbol *later) {
  if (!declare_params(e, first) || !declare_params(e, later)) return false;
  ast_stmt *a = (ast_stmt *)first->stmt, *b = (ast_stmt *)later->stmt; /* made above */
  a->dist = a->first_dist;
  a->args = a->first_args;
  a->dist_at = a->first_at;
  walk->first = first;
  walk->later = later;
  later->walk = walk;
  if (!is_ar1(b)) return true;
  if (b->args->n != 2) {
    atvi_lang_error(e->s, b->dist_at, "write ar1(phi, sd)", "'ar1' takes 2 arguments, not %td", b->args->n);
    return false;
  }
  ast_word *normal = atvi_lang_take(e->s, 1, sizeof *normal);
  ast_expr *call = atvi_lang_take(e->s, 1, sizeof *call), *zero = atvi_lang_take(e->s, 1, sizeof *zero);
  ast_expr **arg = atvi_lang_take(e->s, 2, sizeof *arg);
  if (!normal || !call || !zero || !arg) return false;
  *normal = (ast_word){.text = "normal"};
  *zero = (ast_expr){.kind = EX_NUMBER, .at = b->dist_at};
  arg[0] = zero;
  arg[1] = b->args->arg[1];
  *call = *b->args;
  call->arg = arg;
  b->dist = normal;
  b->args = call;
  return true;
}

static bool data_range(elab *e, const ast_stmt *st, double *first, double *last) {
  if (!atvi_lang_data_range(e, first, last)) return false;
  if (*first <= *last || (st->lower && st->upper)) return true;
  atvi_lang_error(e->s, st->at, "say when it begins and ends: walk x every 7 from 0 to 140 ~ ...",
                  "the walk '%.60s' has no data with times to follow", st->name->text);
  return false;
}

/* The first of the month after t. */
static double next_month(const atvi_calendar c, double t) {
  int year, month, day;
  atvi_io_date_from_days((int64_t)floor(atvi_io_calendar_day(c, t) + WHOLE_DAY), &year, &month, &day);
  int64_t next =
      month == 12 ? atvi_io_days_from_date(year + 1, 1, 1) : atvi_io_days_from_date(year, month + 1, 1);
  return atvi_io_calendar_time(c, (double)next);
}

static bool step_of(elab *e, const ast_stmt *st, double *step) {
  if (st->step) {
    if (!atvi_lang_number(e, NULL, st->step, "the step of a walk", step)) return false;
    if (*step > 0 && *step < INFINITY) return true;
    atvi_lang_error(e->s, st->step->at, "for example: every 7", "the step of a walk must be above 0, not %g",
                    *step);
    return false;
  }
  const char *word = st->option->text;
  if (!e->lang->calendar.unit) {
    atvi_lang_error(e->s, st->at,
                    "say what date t = 0 is, for example: calendar 2020-03-02 day; or write: every 7",
                    "a %s walk needs a calendar", word);
    return false;
  }
  *step = strcmp(word, "daily") == 0 ? 1 : strcmp(word, "weekly") == 0 ? 7 : 0; /* 0: by months */
  *step /= e->lang->calendar.unit;
  return true;
}

static bool too_many(elab *e, const ast_stmt *st, double n) {
  if (n <= ELAB_MAX_PARAMS) return false;
  atvi_lang_error(e->s, st->at, "choose a larger step, or a range: from 0 to 140",
                  "the walk '%.60s' has more than %d knots", st->name->text, ELAB_MAX_PARAMS);
  return true;
}

/* From the beginning of the range to its end; the last line of a linear walk reaches the end. */
static bool regular(elab *e, const ast_stmt *st, elab_symbol *walk) {
  double first = 0, last = 0, step, *t = NULL;
  atvi_idx n = 0, cap = 0;
  if (!step_of(e, st, &step) || !data_range(e, st, &first, &last)) return false;
  const double from = first, to = last; /* of the data; from > to: there are none */
  if (st->lower && !atvi_lang_time(e, st->lower, "the beginning of a walk", &first)) return false;
  if (st->upper && !atvi_lang_time(e, st->upper, "the end of a walk", &last)) return false;
  if (!(first < last)) {
    atvi_lang_error(e->s, st->at, "it needs two knots or more",
                    "the walk '%.60s' ends at %g, not after its beginning %g", st->name->text, last, first);
    return false;
  }
  if (from <= to && (first > to || last < from)) {
    atvi_lang_error(e->s, st->at, "let it begin and end with the data, or remove it",
                    "the walk '%.60s' goes from %g to %g, but the data from %g to %g", st->name->text, first,
                    last, from, to);
    return false;
  }
  if (step > 0 && too_many(e, st, (last - first) / step)) return false;
  if (!step && (!atvi_lang_has_month(e->lang, first) || !atvi_lang_has_month(e->lang, last))) {
    atvi_lang_error(e->s, st->at, "check the unit of the calendar",
                    "the walk '%.60s' lies thousands of years from the start of the calendar",
                    st->name->text);
    return false;
  }
  double at = first, width = step > 0 ? step : last - first;
  for (bool more = true; more;) {
    if (too_many(e, st, (double)n)) return false;
    if (!ATVI_PUSH(e->s->pool, t, n, cap)) return atvi_lang_nomem(e->s), false;
    t[n++] = at;
    double next = step > 0 ? first + (double)n * step : next_month(e->lang->calendar, at);
    more = st->linear ? at < last - SAME_KNOT * width : next <= last + SAME_KNOT * width;
    at = next;
  }
  walk->n_knot = n;
  walk->knot = t;
  return true;
}

static bool listed(elab *e, const ast_stmt *st, elab_symbol *walk) {
  atvi_idx n = st->times->n;
  if (too_many(e, st, (double)n)) return false;
  double *t = atvi_lang_take(e->s, n, sizeof *t);
  for (atvi_idx k = 0; t && k < n; k++) {
    if (!atvi_lang_time(e, st->times->arg[k], "a time of a walk", &t[k])) return false;
    if (k > 0 && !(t[k] > t[k - 1])) {
      atvi_lang_error(e->s, st->times->arg[k]->at, "sort them", "times of a walk must ascend: %g follows %g",
                      t[k], t[k - 1]);
      return false;
    }
  }
  walk->n_knot = n;
  walk->knot = t;
  return t != NULL;
}

/* "2020-03-23", or the time where that is no date. */
static const char *label_of(elab *e, double t) {
  int year, month, day;
  double days = e->lang->calendar.unit ? atvi_io_calendar_day(e->lang->calendar, t) : NAN;
  double whole = nearbyint(days);
  const char *label;
  if (fabs(days - whole) < WHOLE_DAY && atvi_lang_has_month(e->lang, t)) {
    atvi_io_date_from_days((int64_t)whole, &year, &month, &day);
    label = atvi_pool_printf(e->s->pool, "%04d-%02d-%02d", year, month, day);
  } else
    label = atvi_pool_printf(e->s->pool, "%.10g", t);
  if (!label) atvi_lang_nomem(e->s);
  return label;
}

static void name_params(const elab_symbol *sym, atvi_idx n, const char *const *label) {
  elab_symbol *set = sym->stmt->dim[0].lo->word->symbol;
  set->label = label;
  set->dim[0] = (elab_range){1, n, set};
  set->ready = true;
}

static bool knots(elab *e, elab_symbol *walk) {
  const ast_stmt *st = walk->stmt;
  if (!(st->times ? listed(e, st, walk) : regular(e, st, walk))) return false;
  if (walk->n_knot < 2) {
    atvi_lang_error(e->s, st->at, "what does not change is a 'param'",
                    "a walk needs two knots or more, '%.60s' has %td", st->name->text, walk->n_knot);
    return false;
  }
  const char **label = atvi_lang_take(e->s, walk->n_knot, sizeof *label);
  for (atvi_idx k = 0; label && k < walk->n_knot; k++) {
    if (!(label[k] = label_of(e, walk->knot[k]))) return false;
    if (k == 0 || strcmp(label[k], label[k - 1]) != 0) continue;
    atvi_lang_error(e->s, st->at, "choose times that differ more",
                    "two knots of the walk '%.60s' have the name %s", st->name->text, label[k]);
    return false;
  }
  if (!label) return false;
  name_params(walk->first, 1, label);
  name_params(walk->later, walk->n_knot - 1, label + 1);
  return true;
}

bool atvi_lang_walks(elab *e) {
  /* files are read before their statements are copied into blocks: a pipe can be read once */
  double first, last;
  if (!e->each && atvi_lang_has_statement(e->tree->n, e->tree->stmt, KW_WALK) &&
      !atvi_lang_data_range(e, &first, &last))
    return false;
  for (atvi_idx i = 0; i < e->n_symbol; i++)
    if (e->symbol[i]->kind == SYM_TABLE && e->symbol[i]->stmt->kind == KW_WALK && !knots(e, e->symbol[i]))
      return false;
  return true;
}

void atvi_lang_walk_values(elab *e, const elab_symbol *walk, atvi_node *value) {
  for (atvi_idx k = 0; k < walk->n_knot; k++) /* both arrays are numbered one after the other */
    value[k] = atvi_graph_input(e->g, ATVI_IN_PARAM, walk->first->base + k);
}

bool atvi_lang_walk_prior(elab *e, const elab_symbol *walk, atvi_idx index, atvi_lang_param *p) {
  const ast_stmt *st = walk->stmt;
  int location = p->dist == ATVI_DIST_STUDENT ? 1 : 0;
  if (p->dist != ATVI_DIST_NORMAL && p->dist != ATVI_DIST_STUDENT && p->dist != ATVI_DIST_CAUCHY) {
    atvi_lang_error(e->s, st->dist_at, "for example: walk x every 7 ~ normal(0, s) from normal(0, 1)",
                    "increments of a walk are normal, student or cauchy, or it is ar1, not '%.60s'",
                    st->dist->text);
    return false;
  }
  atvi_node before = atvi_graph_input(e->g, ATVI_IN_PARAM, index - 1);
  if (is_ar1(st)) {
    elab_env v = {.allowed = ELAB_KIND(ATVI_IN_PARAM), .where = "a walk", .data = -1};
    atvi_node phi = atvi_lang_eval(e, &v, st->args->arg[0]);
    before = atvi_graph_op2(e->g, ATVI_OP_MUL, phi, before);
  }
  p->arg[location] = atvi_graph_op2(e->g, ATVI_OP_ADD, before, p->arg[location]);
  return e->s->status == ATVI_OK;
}
