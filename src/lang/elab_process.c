/* SPDX-License-Identifier: MIT */
/* Observations that are a sum of processes in time: emulator(flow, sill) + exponential(v, l) + white(s2). */
#include "lang/elab.h"
#include <math.h>

static const struct {
  int min_arg, max_arg; /* an emulator's name counts */
  int states;           /* of the process, as its filter has it */
  const char *form;
} FORMS[] = {[ATVI_TERM_EMULATOR] = {1, 2, 1, "emulator(name), or emulator(name, sill)"},
             [ATVI_TERM_EXPONENTIAL] = {2, 2, 1, "exponential(variance, range)"},
             [ATVI_TERM_MATERN32] = {2, 2, 2, "matern32(variance, range)"},
             [ATVI_TERM_MATERN52] = {2, 2, 3, "matern52(variance, range)"},
             [ATVI_TERM_WHITE] = {1, 1, 0, "white(variance)"}};

static bool kind_of(elab *e, const ast_expr *x, atvi_lang_term *term) {
  int kind = atvi_lang_process(x->word->text);
  if (kind >= 0) {
    term->kind = (atvi_term_kind)kind;
    if (x->n >= FORMS[kind].min_arg && x->n <= FORMS[kind].max_arg) return true;
    atvi_lang_error(e->s, x->at, atvi_pool_printf(e->s->pool, "write %s", FORMS[kind].form),
                    "'%s' cannot have %td %s", x->word->text, x->n, x->n == 1 ? "argument" : "arguments");
    return false;
  }
  ast_guess g = {.text = x->word->text};
  for (int k = 0; atvi_lang_process_name(k); k++) atvi_lang_guess(&g, atvi_lang_process_name(k));
  const char *hint = "there are emulator, exponential, matern32, matern52 and white";
  if (g.best) hint = atvi_pool_printf(e->s->pool, "did you mean '%s'?", g.best);
  atvi_lang_error(e->s, x->at, hint, "'%.60s' is no process, and only processes can be added up",
                  x->word->text);
  return false;
}

/* Argument a of the term: a variance or a range, of parameters alone. */
static bool argument(elab *e, const elab_env *v, const ast_expr *x, atvi_term_kind kind, int a,
                     atvi_node *out) {
  const char *what = a                            ? "range"
                     : kind == ATVI_TERM_EMULATOR ? "sill"
                                                  : "variance",
             *name = atvi_lang_process_name((int)kind);
  double value;
  if ((*out = atvi_elab_eval(e, v, x)) == ATVI_NODE_NONE) return false;
  if (atvi_graph_kinds(e->g, *out) & ~ELAB_KIND(ATVI_IN_PARAM)) {
    atvi_lang_error(e->s, x->at, "only parameters and constants can be used here",
                    "the %s of %s cannot depend on columns of the data", what, name);
    return false;
  }
  if (!atvi_elab_constant(e, *out, &value)) return true;
  bool zero = !a && kind != ATVI_TERM_EMULATOR;
  if (isfinite(value) && (value > 0 || (zero && value == 0))) return true;
  atvi_lang_error(e->s, x->at, "change it to a value that is allowed", "the %s of %s must be %s, not %g",
                  what, name, zero ? "0 or more" : "above 0", value);
  return false;
}

static bool term(elab *e, const elab_env *v, const ast_expr *x, atvi_lang_term *t) {
  *t = (atvi_lang_term){.emulator = -1, .arg = {ATVI_NODE_NONE, ATVI_NODE_NONE}, .place = x->at};
  if (!kind_of(e, x, t)) return false;
  bool named = t->kind == ATVI_TERM_EMULATOR;
  if (named && (t->emulator = atvi_elab_emulator(e, x->arg[0])) < 0) return false;
  for (atvi_idx a = named; a < x->n; a++) {
    int k = (int)a - named;
    if (!argument(e, v, x->arg[a], t->kind, k, &t->arg[k])) return false;
  }
  return true;
}

static bool check_sum(elab *e, const ast_stmt *st, atvi_idx n, const atvi_lang_term *t) {
  int emulators = 0, states = 0;
  for (atvi_idx i = 0; i < n; i++) {
    emulators += t[i].kind == ATVI_TERM_EMULATOR;
    states += FORMS[t[i].kind].states;
    if (emulators > 1) {
      atvi_lang_error(e->s, t[i].place, "emulate their sum, or observe them apart",
                      "an observation has at most one emulator");
      return false;
    }
    if (i >= ATVI_LANG_TERMS || states > ATVI_LANG_TERM_STATES) {
      atvi_lang_error(e->s, st->term[i]->at, "drop some: so many cannot be told apart by one series",
                      "too many processes in one sum");
      return false;
    }
  }
  return true;
}

bool atvi_elab_terms(elab *e, const ast_stmt *st, const elab_binding *vars, atvi_lang_observe *o) {
  if (e->lang->kind != ATVI_MODEL_STATIC) {
    atvi_lang_error(e->s, st->term[0]->at, "use a distribution, such as normal(S, sd), or drop the equations",
                    "a sum of processes cannot be observed in a model with states");
    return false;
  }
  if (st->has_range) {
    atvi_lang_error(e->s, st->range_at, "remove them", "a sum of processes cannot have detection limits");
    return false;
  }
  atvi_lang_term *t = atvi_lang_take(e->s, st->n_term, sizeof *t);
  if (!t) return false;
  elab_env v = {.vars = vars, .allowed = ELAB_ALL, .where = "a process", .data = o->data};
  for (atvi_idx i = 0; i < st->n_term; i++)
    if (!term(e, &v, st->term[i], &t[i])) return false;
  o->dist = ATVI_DIST_NORMAL; /* what its values can be: any number */
  o->n_term = st->n_term;
  o->term = t;
  return check_sum(e, st, o->n_term, t);
}
