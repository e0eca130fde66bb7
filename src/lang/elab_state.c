/* SPDX-License-Identifier: MIT */
/* States, their equations, pulses. */
#include "lang/elab.h"
#include <math.h>

static const uint32_t DYNAMICS =
    ELAB_KIND(ATVI_IN_PARAM) | ELAB_KIND(ATVI_IN_TIME) | ELAB_KIND(ATVI_IN_STATE) | ELAB_KIND(ATVI_IN_TABLE);

static bool initial_values(elab *e, const elab_symbol *sym) {
  elab_loop loop;
  if (!atvi_lang_loop(e, NULL, sym->n_dim, sym->stmt->dim, false, &loop)) return false;
  for (atvi_idx k = 0; k < sym->total; k++) {
    atvi_lang_loop_at(e, &loop, k);
    atvi_lang_state *state = &e->lang->dynamics.state[sym->base + k];
    state->name = atvi_lang_element_name(e, sym->word->text, sym->n_dim, sym->dim, k);
    elab_env v = {
        .vars = loop.vars, .allowed = ELAB_KIND(ATVI_IN_PARAM), .where = "an initial value", .data = -1};
    state->init = atvi_lang_eval(e, &v, sym->stmt->value);
    state->rhs = ATVI_NODE_NONE;
    if (!state->name || state->init == ATVI_NODE_NONE) return false;
  }
  return true;
}

/* The state an equation or pulse speaks of. */
static elab_symbol *state_of(elab *e, const ast_stmt *st, const char *what) {
  elab_symbol *sym = atvi_lang_symbol(e, st->name, SYM_STATE);
  if (sym) return sym;
  if (!st->name->symbol && atvi_lang_belongs(e, st->name, st->at)) return NULL;
  if (st->name->symbol) {
    atvi_lang_error(e->s, st->at, "only states have equations and pulses", "'%.60s' is %s, not a state",
                    st->name->text, atvi_lang_kind_name(st->name->symbol->kind));
    return NULL;
  }
  ast_guess g = {.text = st->name->text};
  for (atvi_idx i = 0; i < e->n_symbol; i++)
    if (e->symbol[i]->kind == SYM_STATE) atvi_lang_guess(&g, e->symbol[i]->word->text);
  const char *hint =
      g.best ? atvi_pool_printf(e->s->pool, "did you mean '%s'?", g.best)
             : atvi_pool_printf(e->s->pool, "give it a value at the start: state %.60s = 0", st->name->text);
  atvi_lang_error(e->s, st->at, hint, "%s for '%.60s', but there is no such state", what, st->name->text);
  return NULL;
}

static bool equation(elab *e, const ast_stmt *st, const ast_stmt **by) {
  const elab_symbol *sym = state_of(e, st, "an equation");
  elab_loop loop;
  if (!sym || !atvi_lang_loop(e, NULL, st->n_dim, st->dim, true, &loop)) return false;
  for (atvi_idx j = 0; j < loop.total; j++) {
    atvi_lang_loop_at(e, &loop, j);
    atvi_idx k = atvi_lang_offset(e, sym, loop.n_dim, loop.at, st->at);
    if (k < 0) return false;
    k += sym->base;
    if (by[k]) {
      atvi_lang_error(e->s, st->at, "a state has exactly one equation",
                      "a second equation for '%.60s': line %d has one", e->lang->dynamics.state[k].name,
                      by[k]->at.line);
      return false;
    }
    by[k] = st;
    elab_env v = {.vars = loop.vars,
                  .allowed = DYNAMICS | ELAB_KIND(ATVI_IN_DELAY),
                  .where = "an equation",
                  .data = -1,
                  .next = st->kind == KW_NEXT};
    e->lang->dynamics.state[k].rhs = atvi_lang_eval(e, &v, st->value);
    if (e->lang->dynamics.state[k].rhs == ATVI_NODE_NONE) return false;
  }
  return true;
}

static bool complete(elab *e, const ast_stmt **by) {
  for (atvi_idx i = 0; i < e->n_symbol; i++) {
    const elab_symbol *sym = e->symbol[i];
    for (atvi_idx k = 0; sym->kind == SYM_STATE && k < sym->total; k++) {
      if (by[sym->base + k]) continue;
      const char *index = sym->n_dim ? "[...]" : "", *name = sym->word->text;
      const char *hint = e->lang->kind == ATVI_MODEL_MAP
                             ? atvi_pool_printf(e->s->pool, "add: next %.60s%s = ...", name, index)
                             : atvi_pool_printf(e->s->pool, "add: d%.60s%s/dt = ...", name, index);
      atvi_lang_error(e->s, sym->at, hint, "the state '%.60s' has no equation",
                      e->lang->dynamics.state[sym->base + k].name);
      return false;
    }
  }
  return true;
}

/* What is replaced on the way to a steady start, by what. */
typedef struct {
  atvi_idx n;
  atvi_node *from, *to;
} replacements;

static void replace(replacements *r, atvi_node from, atvi_node to) {
  r->from[r->n] = from;
  r->to[r->n++] = to;
}

/* The name in word is `to`: a parameter, a table, or a column of the units' file. */
static bool replace_name(elab *e, const elab_env *v, const ast_token *word, atvi_node to, replacements *r) {
  ast_expr use = {.kind = EX_NAME, .at = word->at, .word = word->word};
  elab_symbol *sym = word->word->symbol;
  bool column = !sym || sym->kind == SYM_SET || sym->kind == SYM_BLOCK;
  if (!column && sym->kind != SYM_TABLE && (sym->kind != SYM_PARAM || sym->n_dim > 0)) {
    atvi_lang_error(
        e->s, word->at,
        "a parameter, a table or a column of the units' file can; for example: table dose step = [0: 5]",
        "'%.60s' cannot have another value before the start: it is %s", word->word->text,
        sym->kind == SYM_PARAM ? "an array" : atvi_lang_kind_name(sym->kind));
    return false;
  }
  bool table = !column && sym->kind == SYM_TABLE && !(v->level && sym->level >= v->level);
  atvi_node x = table ? atvi_lang_table_node(e, sym, &use) : atvi_lang_eval(e, v, &use);
  if (x == ATVI_NODE_NONE) return false;
  if (table &&
      e->lang->table[sym->base].kind == ATVI_TABLE_LINEAR) { /* a + b t, which may not stay together */
    replace(r, atvi_graph_input(e->g, ATVI_IN_TABLE, 2 * sym->base), to);
    replace(r, atvi_graph_input(e->g, ATVI_IN_TABLE, 2 * sym->base + 1), atvi_graph_const(e->g, 0));
  } else
    replace(r, x, to);
  return true;
}

/* The equations on the way to a steady start: with what is given there instead. */
static bool equations_at_rest(elab *e) {
  const ast_stmt *st = e->start;
  atvi_lang *lang = e->lang;
  for (atvi_idx i = 0; i < lang->dynamics.n_state; i++)
    lang->dynamics.state[i].rest = lang->dynamics.state[i].rhs;
  const atvi_idx n = st && st->start.given ? st->words.n : 0, most = 2 * n + lang->dynamics.n_delay;
  if (!st || !st->start.steady || !most) return true;
  replacements r = {.from = atvi_lang_take(e->s, most, sizeof *r.from),
                    .to = atvi_lang_take(e->s, most, sizeof *r.to)};
  atvi_node *x = atvi_lang_take(e->s, lang->dynamics.n_state, sizeof *x);
  if (!r.from || !r.to || !x) return false;
  elab_env v = {.allowed = ELAB_KIND(ATVI_IN_PARAM),
                .where = "a value before the start",
                .data = -1,
                .level = st->level + 1};
  for (atvi_idx k = 0; k < n; k++) {
    for (atvi_idx j = 0; j < k; j++)
      if (st->words.token[j].word == st->words.token[k].word) {
        atvi_lang_error(e->s, st->words.token[k].at, "keep one of them", "'%.60s' is given twice",
                        st->words.token[k].word->text);
        return false;
      }
    atvi_node to = atvi_lang_eval(e, &v, st->start.given->arg[k]);
    if (to == ATVI_NODE_NONE || !replace_name(e, &v, &st->words.token[k], to, &r)) return false;
  }
  for (atvi_idx k = 0; k < lang->dynamics.n_delay; k++) /* at rest a state is what it was */
    replace(&r, atvi_graph_input(e->g, ATVI_IN_DELAY, k),
            atvi_graph_input(e->g, ATVI_IN_STATE, lang->dynamics.delay[k].state));
  for (atvi_idx i = 0; i < lang->dynamics.n_state; i++) x[i] = lang->dynamics.state[i].rhs;
  atvi_graph_substitute(e->g, lang->dynamics.n_state, x, r.n, r.from, r.to);
  for (atvi_idx i = 0; i < lang->dynamics.n_state; i++) {
    lang->dynamics.given = lang->dynamics.given || x[i] != lang->dynamics.state[i].rest;
    lang->dynamics.state[i].rest = x[i];
  }
  return !atvi_graph_failed(e->g) || (atvi_lang_nomem(e->s), false);
}

bool atvi_lang_states(elab *e) {
  atvi_idx n = 0;
  for (atvi_idx i = 0; i < e->n_symbol; i++)
    if (e->symbol[i]->kind == SYM_STATE) n += e->symbol[i]->total;
  e->lang->dynamics.state = atvi_lang_take(e->s, n, sizeof *e->lang->dynamics.state);
  const ast_stmt **by = atvi_lang_take(e->s, n, sizeof *by);
  if (!e->lang->dynamics.state || !by) return false;
  e->lang->dynamics.n_state = n;
  for (atvi_idx i = 0; i < e->n_symbol; i++)
    if (e->symbol[i]->kind == SYM_STATE && !initial_values(e, e->symbol[i])) return false;
  for (atvi_idx i = 0; i < e->file->n; i++) {
    const ast_stmt *st = &e->file->stmt[i];
    if ((st->kind == KW_NONE || st->kind == KW_NEXT) && !equation(e, st, by)) return false;
  }
  return complete(e, by) && equations_at_rest(e);
}

/* Whether a pulse may be at t. */
static bool pulse_time(elab *e, atvi_place at, double t) {
  if (t < e->lang->time.start && (e->lang->n_data || !e->lang->blocks.n_block)) {
    atvi_lang_error(e->s, at, "start earlier, or drop it", "the pulse at %g lies before the start time %g", t,
                    e->lang->time.start);
    return false;
  }
  double steps = (t - e->lang->time.start) / e->lang->time.step;
  if (e->lang->kind == ATVI_MODEL_MAP && fabs(steps - nearbyint(steps)) > 1e-9 * fmax(1, fabs(steps))) {
    atvi_lang_error(e->s, at, "pulses of 'next' equations fall on steps",
                    "the pulse at %g is not a whole number of steps of %g after the start %g", t,
                    e->lang->time.step, e->lang->time.start);
    return false;
  }
  return true;
}

/* at every 24 from 0 to 240 */
static bool pulse_every(elab *e, const ast_stmt *st, atvi_lang_pulse *pulse) {
  enum { MOST = 100000 };
  double every, from, to;
  if (!atvi_lang_number(e, NULL, st->step, "the time between pulses", &every) ||
      !atvi_lang_time(e, st->range.lower, "the time of the first pulse", &from) ||
      !atvi_lang_time(e, st->range.upper, "the time of the last pulse", &to))
    return false;
  double n = floor((to - from) / every * (1 + 1e-12)) + 1;
  if (!(every > 0) || !(n >= 1 && n <= MOST)) {
    atvi_lang_error(e->s, st->range.at, "for example: at every 24 from 0 to 240",
                    every > 0 ? "every %g from %g to %g is not between 1 and %d times"
                              : "the time between pulses must be above 0, not %g",
                    every, from, to, MOST);
    return false;
  }
  double *t = atvi_lang_take(e->s, (atvi_idx)n, sizeof *t);
  for (atvi_idx k = 0; t && k < (atvi_idx)n; k++) {
    t[k] = from + (double)k * every;
    if (!pulse_time(e, k ? st->range.at : st->range.lower->at, t[k])) return false;
  }
  pulse->n_time = (atvi_idx)n;
  pulse->time = t;
  return t != NULL;
}

/* Where the amounts of pulses stand that have no file. */
static const elab_env PLAIN = {.allowed = ELAB_KIND(ATVI_IN_PARAM) | ELAB_KIND(ATVI_IN_TIME) |
                                          ELAB_KIND(ATVI_IN_STATE) | ELAB_KIND(ATVI_IN_TABLE),
                               .where = "a pulse",
                               .data = -1};

/* Element j of the loop: its state and amount. */
static bool pulse_element(elab *e, const ast_stmt *st, const elab_symbol *sym, elab_loop *loop,
                          const elab_env *where, atvi_idx j, atvi_idx *state, atvi_node *amount) {
  atvi_lang_loop_at(e, loop, j);
  atvi_idx k = atvi_lang_offset(e, sym, loop->n_dim, loop->at, st->at);
  if (k < 0) return false;
  *state = sym->base + k;
  elab_env v = *where;
  v.vars = loop->vars;
  *amount = atvi_lang_eval(e, &v, st->value);
  if (*amount == ATVI_NODE_NONE) return false;
  if (st->pulse.op == '-') *amount = atvi_graph_op1(e->g, ATVI_OP_NEG, *amount);
  return true;
}

/* One more pulse of a statement, of elements first .. first + n - 1 of its loop. */
static atvi_lang_pulse *add_pulse(elab *e, const ast_stmt *st, const elab_symbol *sym, elab_loop *loop,
                                  const elab_env *where, atvi_idx first, atvi_idx n) {
  if (!ATVI_PUSH(e->s->pool, e->lang->dynamics.pulse, e->lang->dynamics.n_pulse, e->cap.pulse))
    return atvi_lang_nomem(e->s), NULL;
  atvi_idx *state = atvi_lang_take(e->s, n, sizeof *state);
  atvi_node *amount = atvi_lang_take(e->s, n, sizeof *amount);
  for (atvi_idx j = 0; state && amount && j < n; j++)
    if (!pulse_element(e, st, sym, loop, where, first + j, &state[j], &amount[j])) return NULL;
  atvi_lang_pulse *out = &e->lang->dynamics.pulse[e->lang->dynamics.n_pulse++];
  *out = (atvi_lang_pulse){.n = n, .state = state, .amount = amount};
  out->how = st->pulse.op == '=' ? ATVI_PULSE_SET : st->pulse.op == '*' ? ATVI_PULSE_SCALE : ATVI_PULSE_ADD;
  return state && amount ? out : NULL;
}

/* Solvers with fixed steps cannot land on what moves. */
bool atvi_lang_can_move(elab *e, atvi_place at, const char *what) {
  if (e->lang->kind != ATVI_MODEL_MAP && e->lang->solver.kind != ATVI_SOLVER_RK4) return true;
  atvi_lang_error(e->s, at, "differential equations with solver rk45 or stiff have them",
                  e->lang->kind == ATVI_MODEL_MAP ? "'next' equations cannot have %s"
                                                  : "the solver rk4 cannot have %s",
                  what);
  return false;
}

/* Times that are numbers make one pulse of all elements; each other time makes one of its own, for each
 * element. */
static bool pulse_list(elab *e, const ast_stmt *st, const elab_symbol *sym, elab_loop *loop) {
  atvi_idx n = st->times->n, n_fixed = 0;
  double *t = atvi_lang_take(e->s, n, sizeof *t);
  if (!t) return false;
  for (atvi_idx k = 0; k < n; k++) {
    const ast_expr *x = st->times->arg[k];
    atvi_node lag = ATVI_NODE_NONE;
    for (atvi_idx j = 0; j < loop->total && (j == 0 || lag != ATVI_NODE_NONE); j++) {
      double *time = atvi_lang_take(e->s, 1, sizeof *time);
      atvi_lang_loop_at(e, loop, j);
      if (!time || !atvi_lang_event_time(e, loop->vars, x, time, &lag)) return false;
      if (lag == ATVI_NODE_NONE) {
        if (n_fixed > 0 && !(*time > t[n_fixed - 1])) {
          atvi_lang_error(e->s, x->at, "sort them", "times of a pulse must ascend: %g follows %g", *time,
                          t[n_fixed - 1]);
          return false;
        }
        t[n_fixed++] = *time;
        if (!pulse_time(e, x->at, *time)) return false;
        continue;
      }
      atvi_lang_pulse *p = atvi_lang_can_move(e, x->at, "pulses at times that are parameters")
                               ? add_pulse(e, st, sym, loop, &PLAIN, j, 1)
                               : NULL;
      if (!p) return false;
      p->moves = true;
      p->lag = lag;
      p->n_time = 1;
      p->time = time;
    }
  }
  if (n_fixed == 0 && n > 0) return true;
  atvi_lang_pulse *p = add_pulse(e, st, sym, loop, &PLAIN, 0, loop->total);
  if (!p) return false;
  p->n_time = n_fixed;
  p->time = t;
  return true;
}

static bool pulse_when(elab *e, const ast_stmt *st, const elab_symbol *sym, elab_loop *loop) {
  if (!atvi_lang_can_move(e, st->pulse.when->at, "pulses with a condition")) return false;
  for (atvi_idx j = 0; j < loop->total; j++) {
    atvi_lang_loop_at(e, loop, j);
    atvi_lang_pulse when = {0};
    if (!atvi_lang_condition(e, loop->vars, st->pulse.when, &when)) return false;
    if (++e->n_condition > ELAB_MAX_CONDITIONS) {
      atvi_lang_error(e->s, st->pulse.when->at, "an array has one for each element",
                      "more than %d pulses with a condition", ELAB_MAX_CONDITIONS);
      return false;
    }
    atvi_lang_pulse *p = add_pulse(e, st, sym, loop, &PLAIN, j, 1);
    if (!p) return false;
    p->conditional = true;
    p->when = when.when;
    p->holds = when.holds;
  }
  return true;
}

static bool pulse(elab *e, const ast_stmt *st, atvi_idx number) {
  const elab_symbol *sym = state_of(e, st, "a pulse");
  elab_loop loop;
  if (!sym || !atvi_lang_loop(e, NULL, st->n_dim, st->dim, true, &loop)) return false;
  elab_env v = PLAIN;
  if (st->pulse.when) return pulse_when(e, st, sym, &loop);
  if (st->times && !st->file.name) return pulse_list(e, st, sym, &loop);
  if (st->file.name) {
    v.data = -2 - number;
    v.rows = &e->pulse_rows[number];
    v.allowed |= ELAB_KIND(ATVI_IN_DATA);
    if (!atvi_lang_pulse_rows(e, st, v.rows)) return false;
  }
  atvi_lang_pulse *p = add_pulse(e, st, sym, &loop, &v, 0, loop.total);
  return p && (st->file.name ? atvi_lang_pulse_values(e, st, v.rows, p) : pulse_every(e, st, p));
}

bool atvi_lang_pulses(elab *e) {
  atvi_idx n = 0, number = 0;
  for (atvi_idx i = 0; i < e->file->n; i++) n += e->file->stmt[i].kind == KW_PULSE;
  if (!(e->pulse_rows || (e->pulse_rows = atvi_lang_take(e->s, n, sizeof *e->pulse_rows)))) return false;
  e->lang->dynamics.pulse = NULL;
  e->cap.pulse = e->n_condition = 0;
  for (atvi_idx i = 0; i < e->file->n; i++)
    if (e->file->stmt[i].kind == KW_PULSE && !pulse(e, &e->file->stmt[i], number++)) return false;
  return true;
}
