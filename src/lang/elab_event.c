/* SPDX-License-Identifier: MIT */
/* When pulses act: times that depend on parameters, conditions on states, times from files; delays; what is
 * asked of the way the states take. */
#include "lang/elab.h"
#include <math.h>
#include <string.h>

enum {
  MOST_NODES = 10000
}; /* of an expression whose range is looked for; it may use the same ones again and again */

typedef struct {
  double lo, hi;
} interval;

static const interval ANYTHING = {-INFINITY, INFINITY};

static interval product(interval a, interval b) {
  double lo = INFINITY, hi = -INFINITY;
  for (int k = 0; k < 4; k++) {
    double x = k & 1 ? a.hi : a.lo, y = k & 2 ? b.hi : b.lo, p = x == 0 || y == 0 ? 0 : x * y;
    lo = fmin(lo, p);
    hi = fmax(hi, p);
  }
  return (interval){lo, hi};
}

/* The range of a number that units have. */
static interval covariate_range(const elab *e, atvi_idx k) {
  if (k < 0 || k >= e->covariate.n) return ANYTHING;
  const atvi_csv *csv = e->covariate.of[k].each->rows.csv;
  interval out = {INFINITY, -INFINITY};
  for (atvi_idx r = 0; r < csv->n_row; r++) {
    const atvi_idx at = r * csv->n_col + e->covariate.of[k].column;
    if (csv->kind[at] != ATVI_CELL_NUMBER) return ANYTHING;
    out = (interval){fmin(out.lo, csv->value[at]), fmax(out.hi, csv->value[at])};
  }
  return out;
}

/* The range of an expression of parameters, from theirs; wider where that is not easily seen. */
static interval bounded(const elab *e, atvi_node x, int *left) {
  atvi_node_info s = atvi_graph_get(e->g, x);
  interval a = ANYTHING, b = ANYTHING;
  if (s.op == ATVI_OP_CONST) return (interval){s.value, s.value};
  if (s.op == ATVI_OP_INPUT && s.index2 == ATVI_IN_PARAM && s.index < e->lang->n_param)
    return (interval){e->lang->param[s.index].lower, e->lang->param[s.index].upper};
  if (s.op == ATVI_OP_INPUT && s.index2 == ATVI_IN_PARAM)
    return covariate_range(e, s.index - e->lang->n_param);
  if (--*left <= 0 || s.op == ATVI_OP_INPUT) return ANYTHING;
  if (s.n_arg > 0) a = bounded(e, s.arg[s.op == ATVI_OP_SELECT], left);
  if (s.n_arg > 1) b = bounded(e, s.arg[s.op == ATVI_OP_SELECT ? 2 : 1], left);
  switch (s.op) {
  case ATVI_OP_ADD: return (interval){a.lo + b.lo, a.hi + b.hi};
  case ATVI_OP_SUB: return (interval){a.lo - b.hi, a.hi - b.lo};
  case ATVI_OP_NEG: return (interval){-a.hi, -a.lo};
  case ATVI_OP_MUL: return product(a, b);
  case ATVI_OP_DIV:
    return b.lo > 0 || b.hi < 0 ? product(a, (interval){1 / b.hi, 1 / b.lo})
           : b.lo == 0          ? product(a, (interval){1 / b.hi, INFINITY})
                                : ANYTHING;
  case ATVI_OP_MIN: return (interval){fmin(a.lo, b.lo), fmin(a.hi, b.hi)};
  case ATVI_OP_MAX: return (interval){fmax(a.lo, b.lo), fmax(a.hi, b.hi)};
  case ATVI_OP_SELECT: return (interval){fmin(a.lo, b.lo), fmax(a.hi, b.hi)};
  case ATVI_OP_EXP: return (interval){exp(a.lo), exp(a.hi)};
  case ATVI_OP_LOG: return (interval){log(fmax(a.lo, 0)), log(fmax(a.hi, 0))};
  case ATVI_OP_SQRT: return (interval){sqrt(fmax(a.lo, 0)), sqrt(fmax(a.hi, 0))};
  case ATVI_OP_INVLOGIT: return (interval){0, 1};
  case ATVI_OP_ABS: return (interval){a.lo > 0 ? a.lo : a.hi < 0 ? -a.hi : 0, fmax(fabs(a.lo), fabs(a.hi))};
  case ATVI_OP_POW: return a.lo >= 0 ? (interval){0, INFINITY} : ANYTHING;
  default: return ANYTHING;
  }
}

static interval range_of(const elab *e, atvi_node x) {
  int left = MOST_NODES;
  return bounded(e, x, &left);
}

bool atvi_lang_event_time(elab *e, const elab_binding *vars, const ast_expr *x, double *time,
                          atvi_node *lag) {
  const char *where = "the time of a pulse";
  *lag = ATVI_NODE_NONE;
  if (x->kind == EX_DATE) return atvi_lang_time(e, x, where, time);
  elab_env v = {.vars = vars, .allowed = ELAB_KIND(ATVI_IN_PARAM), .where = where, .data = -1};
  atvi_node node = atvi_lang_eval(e, &v, x);
  if (node == ATVI_NODE_NONE) return false;
  if (atvi_lang_constant(e, node, time)) {
    if (isfinite(*time)) return true;
    atvi_lang_error(e->s, x->at, "choose a finite number", "%s must be finite", where);
    return false;
  }
  interval at = range_of(e, node);
  if (!(at.lo >= e->lang->time.start)) {
    atvi_lang_error(
        e->s, x->at,
        "start earlier, or bound its parameters from below, as in: param lag ~ normal(2, 1) in (0, inf)",
        "this pulse could lie before the start time %g", e->lang->time.start);
    return false;
  }
  /* a number apart from the rest: pulses of one lag have one node */
  atvi_node_info s = atvi_graph_get(e->g, node);
  *time = 0;
  for (int k = 0; k < 2 && s.op == ATVI_OP_ADD && *lag == ATVI_NODE_NONE; k++)
    if (atvi_lang_constant(e, s.arg[k], time)) *lag = s.arg[1 - k];
  if (*lag == ATVI_NODE_NONE) *lag = node;
  return true;
}

/* What is added to the times of a pulse, or taken from them: a number or of parameters; *least is the least
 * it can be. */
static atvi_node lag_of(elab *e, const ast_expr *x, bool minus, double *least) {
  elab_env v = {.allowed = ELAB_KIND(ATVI_IN_PARAM), .where = "the time of a pulse", .data = -1};
  atvi_node lag = atvi_lang_eval(e, &v, x);
  if (lag == ATVI_NODE_NONE) return lag;
  if (minus) lag = atvi_graph_op1(e->g, ATVI_OP_NEG, lag);
  *least = range_of(e, lag).lo;
  double number;
  if (atvi_lang_constant(e, lag, &number)) {
    *least = 0;
    if (!isfinite(number)) {
      atvi_lang_error(e->s, x->at, "choose a finite number", "the time of a pulse must be finite");
      return ATVI_NODE_NONE;
    }
  }
  return lag;
}

/* Becomes positive when x becomes true, or false if `negated`. */
static atvi_node positive(elab *e, const elab_env *v, const ast_expr *x, bool negated) {
  if (x->kind == EX_NOT) return positive(e, v, x->arg[0], !negated);
  if (x->kind == EX_BINARY && (x->op == 1000 + KW_AND || x->op == 1000 + KW_OR)) {
    atvi_node a = positive(e, v, x->arg[0], negated);
    atvi_node b = a == ATVI_NODE_NONE ? a : positive(e, v, x->arg[1], negated);
    bool all = (x->op == 1000 + KW_AND) != negated;
    return b == ATVI_NODE_NONE ? b : atvi_graph_op2(e->g, all ? ATVI_OP_MIN : ATVI_OP_MAX, a, b);
  }
  bool less = x->kind == EX_BINARY && (x->op == '<' || x->op == TOK_LE);
  bool more = x->kind == EX_BINARY && (x->op == '>' || x->op == TOK_GE);
  if (!less && !more) {
    atvi_lang_error(e->s, x->at, "for example: pulse A += 5 when B < 1, or when B < 1 and C > 2",
                    "the condition of a pulse is made of comparisons with <, <=, > and >=");
    return ATVI_NODE_NONE;
  }
  atvi_node a = atvi_lang_eval(e, v, x->arg[0]);
  atvi_node b = a == ATVI_NODE_NONE ? a : atvi_lang_eval(e, v, x->arg[1]);
  if (b == ATVI_NODE_NONE) return b;
  return less != negated ? atvi_graph_op2(e->g, ATVI_OP_SUB, b, a) : atvi_graph_op2(e->g, ATVI_OP_SUB, a, b);
}

/* The number of the delay of a state, made if it is new; -1 on ENOMEM. */
static atvi_idx delay_of(elab *e, atvi_idx state, atvi_node lag) {
  atvi_lang *m = e->lang;
  for (atvi_idx k = 0; k < m->dynamics.n_delay; k++)
    if (m->dynamics.delay[k].state == state && m->dynamics.delay[k].lag == lag) return k;
  if (!ATVI_PUSH(e->s->pool, m->dynamics.delay, m->dynamics.n_delay, e->cap.delay)) return -1;
  m->dynamics.delay[m->dynamics.n_delay] = (atvi_lang_delay){state, lag};
  return m->dynamics.n_delay++;
}

/* How long ago: above 0, whatever the parameters. */
static atvi_node delay_lag(elab *e, const elab_env *v, const ast_expr *x) {
  elab_env inner = {.vars = v->vars, .allowed = ELAB_KIND(ATVI_IN_PARAM), .where = "a delay", .data = -1};
  atvi_node lag = atvi_lang_eval(e, &inner, x);
  if (lag == ATVI_NODE_NONE) return lag;
  interval range = range_of(e, lag);
  bool fixed = atvi_graph_is_const(e->g, lag, NULL);
  if (!fixed && e->lang->solver.kind == ATVI_SOLVER_RK4) {
    atvi_lang_error(e->s, x->at, "choose a number, or another solver: the steps of 'rk4' cannot follow it",
                    "with 'solver rk4' a delay cannot depend on parameters");
    return ATVI_NODE_NONE;
  }
  if (fixed ? range.lo > 0 && range.hi < INFINITY : range.lo >= 0) return lag;
  atvi_lang_error(e->s, x->at,
                  fixed ? "for example: delay(S, 2)"
                        : "bound its parameters from below, as in: param tau ~ normal(2, 1) in (0, inf)",
                  fixed ? "a delay must be above 0 and finite" : "this delay could be negative");
  return ATVI_NODE_NONE;
}

static bool can_delay(elab *e, const elab_env *v, const ast_expr *x) {
  const char *why = !(v->allowed & ELAB_KIND(ATVI_IN_DELAY)) || e->lang->kind != ATVI_MODEL_ODE
                        ? "delay() belongs in differential equations"
                    : x->n != 2 ? "'delay' takes an expression of states and a time"
                                : NULL;
  if (why) atvi_lang_error(e->s, x->at, "for example: dI/dt = b*delay(S, tau) - g*I", "%s", why);
  return !why;
}

atvi_node atvi_lang_delay_call(elab *e, const elab_env *v, const ast_expr *x, bool *found) {
  *found = strcmp(x->word->text, "delay") == 0;
  if (!*found || !can_delay(e, v, x)) return ATVI_NODE_NONE;
  elab_env inner = {.vars = v->vars,
                    .allowed = ELAB_KIND(ATVI_IN_PARAM) | ELAB_KIND(ATVI_IN_TIME) | ELAB_KIND(ATVI_IN_STATE),
                    .where = "delay()",
                    .data = -1};
  atvi_node y = atvi_lang_eval(e, &inner, x->arg[0]);
  if (y == ATVI_NODE_NONE) return y;
  if (!(atvi_graph_kinds(e->g, y) & ELAB_KIND(ATVI_IN_STATE))) {
    atvi_lang_error(e->s, x->arg[0]->at, "for example: delay(S, tau)", "delay() of something without states");
    return ATVI_NODE_NONE;
  }
  atvi_node lag = delay_lag(e, v, x->arg[1]);
  if (lag == ATVI_NODE_NONE) return lag;
  if (++e->n_delay_call > ELAB_MAX_DELAYS) {
    atvi_lang_error(e->s, x->at, "name one with 'let' and use it several times",
                    "more than %d uses of delay()", ELAB_MAX_DELAYS);
    return ATVI_NODE_NONE;
  }
  /* the states that it uses, and the time */
  atvi_idx n = 0, size = atvi_graph_size(e->g);
  bool *need = atvi_lang_take(e->s, size, sizeof *need);
  atvi_node *from = atvi_lang_take(e->s, e->lang->dynamics.n_state + 1, sizeof *from);
  atvi_node *to = atvi_lang_take(e->s, e->lang->dynamics.n_state + 1, sizeof *to);
  if (!need || !from || !to) return ATVI_NODE_NONE;
  need[y] = true;
  for (atvi_idx i = size - 1; i >= 0; i--) {
    if (!need[i]) continue;
    atvi_node_info s = atvi_graph_get(e->g, (atvi_node)i);
    for (int k = 0; k < s.n_arg; k++) need[s.arg[k]] = true;
    if (s.op != ATVI_OP_INPUT || s.index2 == ATVI_IN_PARAM) continue;
    from[n] = (atvi_node)i;
    if (s.index2 == ATVI_IN_TIME) {
      to[n++] = atvi_graph_op2(e->g, ATVI_OP_SUB, (atvi_node)i, lag);
      continue;
    }
    atvi_idx k = delay_of(e, s.index, lag);
    if (k < 0) return atvi_lang_nomem(e->s), ATVI_NODE_NONE;
    to[n++] = atvi_graph_input(e->g, ATVI_IN_DELAY, k);
  }
  atvi_graph_substitute(e->g, 1, &y, n, from, to);
  return y;
}

bool atvi_lang_condition(elab *e, const elab_binding *vars, const ast_expr *x, atvi_lang_pulse *pulse) {
  elab_env v = {.vars = vars,
                .allowed = ELAB_KIND(ATVI_IN_PARAM) | ELAB_KIND(ATVI_IN_TIME) | ELAB_KIND(ATVI_IN_STATE) |
                           ELAB_KIND(ATVI_IN_TABLE),
                .where = "the condition of a pulse",
                .data = -1};
  atvi_node g = positive(e, &v, x, false);
  if (g == ATVI_NODE_NONE) return false;
  if (!(atvi_graph_kinds(e->g, g) & ELAB_KIND(ATVI_IN_STATE))) {
    atvi_lang_error(e->s, x->at, "a time is written with 'at': pulse A += 5 at T",
                    "the condition of a pulse depends on no state");
    return false;
  }
  pulse->when = g;
  pulse->holds = atvi_lang_eval(e, &v, x);
  return pulse->holds != ATVI_NODE_NONE;
}

static bool fixed_time(elab *e, const elab_binding *vars, const ast_expr *x, double *t) {
  if (x->kind == EX_DATE) return atvi_lang_time(e, x, "this time", t);
  if (!atvi_lang_number(e, vars, x, "this time", t)) return false;
  if (!isfinite(*t)) atvi_lang_error(e->s, x->at, "choose a finite number", "this time must be finite");
  return isfinite(*t);
}

/* Arguments of at(): an expression and a time; of the others, two times. */
static bool path_times(elab *e, const elab_binding *vars, const ast_expr *x, atvi_lang_trajectory *p) {
  const bool at = p->kind == ATVI_TRAJECTORY_AT;
  if (x->n != (at ? 2 : 3)) {
    atvi_lang_error(e->s, x->at, at ? "for example: at(A, 5)" : "for example: maximum(A, 0, 24)",
                    "'%.60s' takes an expression of states and %s", x->word->text,
                    at ? "a time" : "two times");
    return false;
  }
  if (!fixed_time(e, vars, x->arg[1], &p->from) || !fixed_time(e, vars, x->arg[at ? 1 : 2], &p->to))
    return false;
  if (p->from < e->lang->time.start) {
    atvi_lang_error(e->s, x->arg[1]->at, "start earlier, or ask for a later time",
                    "the time %g lies before the start time %g", p->from, e->lang->time.start);
    return false;
  }
  if (p->to >= p->from && (at || p->to > p->from)) return true;
  atvi_lang_error(e->s, x->arg[2]->at, "for example: maximum(A, 0, 24)", "the time %g is not after %g", p->to,
                  p->from);
  return false;
}

atvi_node atvi_lang_trajectory_call(elab *e, const elab_env *v, const ast_expr *x, bool *found) {
  static const char *const WORD[] = {"at", "maximum", "time_of_maximum", "integral"};
  int kind = 0;
  while (kind < 4 && strcmp(x->word->text, WORD[kind]) != 0) kind++;
  *found = kind < 4;
  if (!*found) return ATVI_NODE_NONE;
  if (!(v->allowed & ELAB_KIND(ATVI_IN_TRAJECTORY)) || e->lang->dynamics.n_state == 0) {
    atvi_lang_error(e->s, x->at, "it describes a whole run: write it in 'derived'",
                    e->lang->dynamics.n_state ? "%s cannot use '%s'"
                                              : "%s cannot use '%s': the model has no states",
                    v->where, WORD[kind]);
    return ATVI_NODE_NONE;
  }
  atvi_lang_trajectory p = {.kind = (atvi_trajectory_kind)kind};
  elab_env inner = {.vars = v->vars,
                    .allowed = ELAB_KIND(ATVI_IN_PARAM) | ELAB_KIND(ATVI_IN_TIME) | ELAB_KIND(ATVI_IN_STATE) |
                               ELAB_KIND(ATVI_IN_TABLE),
                    .where = x->word->text,
                    .data = -1};
  if (!path_times(e, v->vars, x, &p)) return ATVI_NODE_NONE;
  if ((p.node = atvi_lang_eval(e, &inner, x->arg[0])) == ATVI_NODE_NONE) return ATVI_NODE_NONE;
  atvi_lang *m = e->lang;
  for (atvi_idx k = 0; k < m->outputs.n_trajectory; k++) {
    const atvi_lang_trajectory *q = &m->outputs.trajectory[k];
    if (q->kind == p.kind && q->node == p.node && q->from == p.from && q->to == p.to)
      return atvi_graph_input(e->g, ATVI_IN_TRAJECTORY, k);
  }
  if (!ATVI_PUSH(e->s->pool, m->outputs.trajectory, m->outputs.n_trajectory, e->cap.trajectory))
    return atvi_lang_nomem(e->s), ATVI_NODE_NONE;
  m->outputs.trajectory[m->outputs.n_trajectory] = p;
  return atvi_graph_input(e->g, ATVI_IN_TRAJECTORY, m->outputs.n_trajectory++);
}

/* Pulses whose times and numbers are columns of a file. */

/* Column that a bare name means; -1: none. */
static atvi_idx named(const ast_expr *x, const atvi_csv *csv) {
  bool name = x->kind == EX_NAME && !x->n && !x->qualifier;
  return name || x->kind == EX_TIME ? atvi_io_csv_find(csv, name ? x->word->text : "t") : -1;
}

/* Column of the times; -1 after an error. *lag is what is added to it, or taken from it; NULL: nothing. */
static atvi_idx time_column(elab *e, const ast_stmt *st, const atvi_csv *csv, const ast_expr **lag) {
  const ast_expr *x = st->times->n == 1 ? st->times->arg[0] : NULL;
  bool name = x && x->kind == EX_NAME && !x->n && !x->qualifier, t = x && x->kind == EX_TIME;
  *lag = NULL;
  if (name || t) return atvi_lang_find_column(e, csv, name ? x->word->text : "t", x->at);
  for (int side = 0; x && x->kind == EX_BINARY && side < 2; side++) {
    if (x->op != '+' && (x->op != '-' || side)) continue;
    atvi_idx column = named(x->arg[side], csv);
    if (column < 0) continue;
    *lag = x->arg[1 - side];
    return column;
  }
  atvi_lang_error(e->s, st->times->at,
                  "for example: pulse A += amount at time from \"doses.csv\", or at time + lag from ...",
                  "the times of this pulse are a column of the file, or one and a lag");
  return -1;
}

/* What is added to the times: a number in *offset, or another column, or pulse->lag. *least: the least it can
 * be. */
static bool find_lag(elab *e, const ast_stmt *st, const atvi_csv *csv, const ast_expr *x,
                     atvi_lang_pulse *pulse, double *offset, atvi_idx *column, double *least) {
  *offset = *least = 0;
  *column =
      x && x->kind == EX_NAME && !x->word->symbol ? named(x, csv) : -1; /* names of the model come first */
  if (!x || *column >= 0) return true;
  atvi_node lag = lag_of(e, x, st->times->arg[0]->op == '-', least);
  if (lag == ATVI_NODE_NONE) return false;
  if (atvi_lang_constant(e, lag, offset)) return true;
  pulse->moves = true;
  pulse->lag = lag;
  return atvi_lang_can_move(e, x->at, "pulses at times that are parameters");
}

bool atvi_lang_pulse_rows(elab *e, const ast_stmt *st, elab_rows *rows) {
  return atvi_lang_csv(e, st, &rows->csv);
}

/* Refuses a time at which the pulse cannot act. */
static bool check_time(elab *e, const ast_stmt *st, const atvi_csv *csv, atvi_idx row, atvi_idx column,
                       double before, double t, double least) {
  double start = e->lang->time.start, steps = (t - start) / e->lang->time.step;
  bool off = e->lang->kind == ATVI_MODEL_MAP && fabs(steps - nearbyint(steps)) > 1e-9 * fmax(1, fabs(steps));
  if (t < before)
    atvi_lang_data_error(e->s, csv, row, column, st->file.at, "sort the file by time",
                         "the times are not ascending: %g follows %g", t, before);
  else if (!(t + least >= start) && (e->lang->n_data || !e->lang->blocks.n_block))
    atvi_lang_data_error(
        e->s, csv, row, column, st->file.at,
        least < 0 ? "start earlier, or bound the lag from below: param lag ~ normal(2, 1) in (0, inf)"
                  : "start earlier, or drop the row",
        least < 0 ? "the pulse at %g and a negative lag could lie before the start time %g"
                  : "the pulse at %g lies before the start time %g",
        t, start);
  else if (off)
    atvi_lang_data_error(e->s, csv, row, column, st->file.at, "pulses of 'next' equations fall on steps",
                         "the pulse at %g is not a whole number of steps of %g after the start %g", t,
                         e->lang->time.step, start);
  return e->s->status == ATVI_OK;
}

/* The position of a label, in a column with the name of an index set; 0: it is none. */
static double position(const elab *e, const char *column, const char *label) {
  for (atvi_idx i = 0; i < e->n_symbol; i++) {
    const elab_symbol *set = e->symbol[i];
    if (set->kind != SYM_SET || !set->label || strcmp(set->word->text, column) != 0) continue;
    for (atvi_idx k = 0; k < set->dim[0].n; k++)
      if (strcmp(set->label[k], label) == 0) return (double)(k + 1);
  }
  return 0;
}

/* The numbers of a row; *missing: one is not there, and the row is no pulse. */
static bool numbers(elab *e, const ast_stmt *st, const elab_rows *rows, atvi_idx row, double *value,
                    bool *missing) {
  const atvi_csv *csv = rows->csv;
  *missing = false;
  for (atvi_idx k = 0; k < rows->n; k++) {
    atvi_idx at = row * csv->n_col + rows->column[k];
    value[k] = csv->value[at];
    if (csv->kind[at] == ATVI_CELL_MISSING)
      *missing = true;
    else if (csv->kind[at] == ATVI_CELL_DATE && e->lang->time.calendar.unit)
      value[k] = atvi_io_calendar_time(e->lang->time.calendar, csv->value[at]);
    else if (csv->kind[at] != ATVI_CELL_NUMBER) {
      const char *name = csv->name[rows->column[k]];
      if ((value[k] = position(e, name, csv->text[at])) > 0) continue;
      atvi_lang_data_error(
          e->s, csv, row, rows->column[k], st->at,
          atvi_pool_printf(
              e->s->pool,
              "a row without a pulse has NA or nothing here; labels are named by: index %.60s = %.60s, ...",
              name, csv->text[at]),
          "'%.60s' is not a number", csv->text[at]);
      return false;
    }
  }
  return true;
}

/* The most times that coincide up to rounding, or nearly. */
static atvi_idx coincide(atvi_idx n, const double *t) {
  static const double NEAR = 1e-6;
  atvi_idx most = n > 0, first = 0;
  for (atvi_idx k = 1; k < n; k++) {
    while (t[k] - t[first] > NEAR * fmax(1, fabs(t[k]))) first++;
    if (k - first + 1 > most) most = k - first + 1;
  }
  return most;
}

/* Puts the last of n times, with its numbers, where it belongs. */
static void put_in_order(atvi_idx n, double *t, atvi_idx n_value, double *value) {
  for (atvi_idx k = n - 1; k > 0 && t[k] < t[k - 1]; k--) {
    const double late = t[k - 1];
    t[k - 1] = t[k], t[k] = late;
    for (atvi_idx i = 0; i < n_value; i++) {
      double *a = &value[(k - 1) * n_value + i], *b = a + n_value, x = *a;
      *a = *b, *b = x;
    }
  }
}

bool atvi_lang_pulse_values(elab *e, const ast_stmt *st, const elab_rows *rows, atvi_lang_pulse *pulse) {
  const atvi_csv *csv = rows->csv;
  const ast_expr *lag;
  double offset, least;
  atvi_idx column = time_column(e, st, csv, &lag), later, n = 0;
  double *t = atvi_lang_take(e->s, csv->n_row, sizeof *t);
  double *value = atvi_lang_take(e->s, csv->n_row * rows->n, sizeof *value);
  if (column < 0 || !t || !value || !find_lag(e, st, csv, lag, pulse, &offset, &later, &least)) return false;
  for (atvi_idx r = 0; r < csv->n_row; r++) {
    bool missing;
    if (!numbers(e, st, rows, r, value + n * rows->n, &missing)) return false;
    if (missing) continue;
    if (!atvi_lang_time_cell(e, csv, r, column, st->times->at, &t[n])) return false;
    const double since = later < 0 ? 0 : csv->value[r * csv->n_col + later];
    if (isnan(since)) {
      atvi_lang_data_error(e->s, csv, r, later, lag->at, "fill it in",
                           "this is added to the time, and is not a number");
      return false;
    }
    t[n] += offset + (st->times->arg[0]->op == '-' ? -since : since);
    const double before = n && later < 0 ? t[n - 1] : -INFINITY;
    if (!check_time(e, st, csv, r, column, before, t[n], least)) return false;
    put_in_order(++n, t, rows->n, value);
  }
  pulse->n_time = n;
  pulse->time = t;
  pulse->n_value = rows->n;
  pulse->value = value;
  pulse->n_same = rows->n ? coincide(n, t) : 0;
  return true;
}

bool atvi_lang_pulse_first(elab *e, double *first) {
  *first = INFINITY;
  for (atvi_idx i = 0; i < e->file->n; i++) {
    const ast_stmt *st = &e->file->stmt[i];
    const atvi_csv *csv;
    double t;
    if (st->kind != KW_PULSE || !st->file.name) continue;
    if (!atvi_lang_csv(e, st, &csv)) return false;
    const ast_expr *lag;
    atvi_idx column = time_column(e, st, csv, &lag);
    if (column < 0) return false;
    for (atvi_idx r = 0; r < csv->n_row; r++) {
      if (!atvi_lang_time_cell(e, csv, r, column, st->times->at, &t)) return false;
      *first = fmin(*first, t);
    }
  }
  return true;
}
