/* SPDX-License-Identifier: MIT */
/* Emulators: runs that are there already, or those of the simulator, and what is held in the fit to them. */
#include "lang/elab.h"
#include <math.h>
#include <string.h>

const ast_setting *atvi_lang_setting(const ast_stmt *st, const char *word) {
  for (atvi_idx i = 0; i < st->settings.n; i++)
    if (strcmp(st->settings.setting[i].word, word) == 0) return &st->settings.setting[i];
  return NULL;
}

enum { EMULATORS_MOST = 100 };

static atvi_idx find(const elab *e, const char *name) {
  for (atvi_idx i = 0; i < e->lang->n_emulator; i++)
    if (strcmp(e->lang->emulator[i].name, name) == 0) return i;
  return -1;
}

static bool add(elab *e, const char *name, atvi_place at) {
  atvi_lang *m = e->lang;
  if (m->n_emulator == EMULATORS_MOST) {
    atvi_lang_error(e->s, at, "split the model", "more than %d emulators", EMULATORS_MOST);
    return false;
  }
  if (!ATVI_PUSH(e->s->pool, m->emulator, m->n_emulator, e->cap.emulator))
    return atvi_lang_nomem(e->s), false;
  m->emulator[m->n_emulator++] =
      (atvi_lang_emulator){.name = name, .nugget = NAN, .time_length = NAN, .basis = NAN, .place = at};
  return true;
}

bool atvi_lang_emulator_names(elab *e) {
  atvi_idx cap = 0;
  for (atvi_idx i = 0; i < e->file->n; i++) {
    const ast_stmt *st = &e->file->stmt[i];
    if (st->kind != KW_EMULATOR) continue;
    atvi_idx old = find(e, st->name->text);
    if (old >= 0) {
      atvi_lang_error(e->s, st->at, "give one of them another name",
                      "the emulator '%.60s' is defined twice: line %d already does", st->name->text,
                      e->lang->emulator[old].place.line);
      return false;
    }
    if (!atvi_lang_free_name(e, st->name->text, st->at) || !add(e, st->name->text, st->at)) return false;
    if (!ATVI_PUSH(e->s->pool, e->own.stmt, e->own.n, cap)) return atvi_lang_nomem(e->s), false;
    e->own.stmt[e->own.n++] = st;
  }
  return true;
}

/* Number of the emulator that x names; made if it is an output of the simulator without a block. -1 after an
 * error. */
static atvi_idx number_of(elab *e, const ast_expr *x) {
  if (x->kind != EX_NAME || x->n || x->qualifier) {
    atvi_lang_error(e->s, x->at, "for example: emulator(flow), or emulator(flow, sill)",
                    "the first argument of emulator is the name of one");
    return -1;
  }
  const char *name = x->word->text;
  atvi_idx k = find(e, name);
  if (k >= 0) return k;
  if (atvi_lang_elab_output(e, name) >= 0) return add(e, name, x->at) ? e->lang->n_emulator - 1 : -1;
  ast_guess g = {.text = name};
  for (atvi_idx i = 0; i < e->lang->n_emulator; i++) atvi_lang_guess(&g, e->lang->emulator[i].name);
  for (atvi_idx i = 0; i < e->lang->simulator.n_output; i++)
    atvi_lang_guess(&g, e->lang->simulator.output[i].name);
  const char *hint = "define it: emulator flow { ... }, or: output flow ... in a simulator";
  if (g.best) hint = atvi_pool_printf(e->s->pool, "did you mean '%s'?", g.best);
  atvi_lang_error(e->s, x->at, hint, "there is no emulator '%.60s', and no output of a simulator", name);
  return -1;
}

/* Columns of a file of runs; n of them, where that is known (0: it is not). */
static bool matrix(elab *e, const ast_setting *x, atvi_idx n, atvi_lang_matrix *out) {
  if (!x) return true;
  atvi_idx first = 1, last = n; /* unless it says which: the first n, or all */
  if (x->first) {
    if (!atvi_lang_whole(e, NULL, x->first, "the position of a column", &first)) return false;
    last = first;
    if (x->last && !atvi_lang_whole(e, NULL, x->last, "the position of a column", &last)) return false;
    if (first < 1 || last < first) {
      atvi_lang_error(e->s, x->column_at, "they are counted from 1: columns 2..6",
                      "there are no columns %td..%td", first, last);
      return false;
    }
  }
  if (n && last - first + 1 != n) {
    atvi_lang_error(e->s, x->column_at,
                    strcmp(x->word, "designs") == 0 ? "one column per input, in the order of the inputs"
                                                    : "one column, one line per time",
                    "wrong shape: '%s' needs %td %s, not %td", x->word, n, n == 1 ? "column" : "columns",
                    last - first + 1);
    return false;
  }
  *out = (atvi_lang_matrix){atvi_lang_path(e, x->file), first, last, x->file_at};
  return out->path != NULL;
}

static bool kernel(elab *e, const ast_setting *x, const char **out) {
  static const char *const KERNELS[] = {"exponential", "matern32", "matern52", "squared"};
  if (!x) return true;
  ast_guess g = {.text = x->name};
  for (size_t i = 0; i < sizeof KERNELS / sizeof *KERNELS; i++) {
    if (strcmp(x->name, KERNELS[i]) == 0) return *out = KERNELS[i], true;
    atvi_lang_guess(&g, KERNELS[i]);
  }
  atvi_lang_error(e->s, x->name_at,
                  g.best ? atvi_pool_printf(e->s->pool, "did you mean '%s'?", g.best)
                         : "there are exponential, matern32, matern52 and squared",
                  "unknown kernel '%.60s'", x->name);
  return false;
}

/* A number above 0, or 0 where that is allowed, and below `most`. */
static bool held(elab *e, const ast_setting *x, bool zero, double most, double *out) {
  if (!x) return true;
  if (!atvi_lang_number(e, NULL, x->value[0], x->word, out)) return false;
  if ((*out > 0 || (zero && *out == 0)) && *out < most) return true;
  const char *want = zero ? "0 or more and finite" : isinf(most) ? "above 0 and finite" : "between 0 and 1";
  atvi_lang_error(e->s, x->value[0]->at, "without the line it is found from the runs",
                  "%s must be %s, not %g", x->word, want, *out);
  return false;
}

static bool length(elab *e, const ast_expr *x, double value, double *out) {
  *out = value;
  if (value > 0 && value < INFINITY) return true;
  atvi_lang_error(e->s, x->at, "without the line they are found from the runs",
                  "a length must be above 0 and finite, not %g", value);
  return false;
}

/* Numbers, or the name of one const array. */
static bool lengths(elab *e, const ast_setting *x, atvi_lang_emulator *em) {
  if (!x) return true;
  const ast_expr *one = x->value[0];
  elab_symbol *sym = x->n == 1 && one->kind == EX_NAME && !one->n && !one->qualifier
                         ? atvi_lang_symbol(e, one->word, SYM_CONST)
                         : NULL;
  if (sym && sym->n_dim == 0) sym = NULL;
  atvi_idx n = sym ? sym->total : x->n;
  double *value = atvi_lang_take(e->s, n, sizeof *value);
  elab_env v = {.where = "a length", .data = -1};
  for (atvi_idx k = 0; value && k < n; k++) {
    double number;
    if (!sym) {
      if (!atvi_lang_number(e, NULL, x->value[k], "a length", &number)) return false;
    } else if (!atvi_lang_constant(e, atvi_lang_element(e, &v, one, sym, k), &number))
      return false;
    if (!length(e, sym ? one : x->value[k], number, &value[k])) return false;
  }
  if (n != em->n_input) {
    atvi_lang_error(e->s, one->at, "one length per input, in the order of the inputs",
                    "wrong shape: %td %s, but %td %s", em->n_input, em->n_input == 1 ? "input" : "inputs", n,
                    n == 1 ? "length" : "lengths");
    return false;
  }
  em->length = value;
  em->n_length = n;
  return value != NULL;
}

/* The runs are the simulator's: nothing may be said about files. */
static bool from_simulator(elab *e, const ast_stmt *st, atvi_lang_emulator *em) {
  static const char *const FILES[] = {"mean", "times", "inputs"};
  if (atvi_lang_elab_output(e, em->name) < 0) {
    ast_guess g = {.text = em->name};
    for (atvi_idx i = 0; i < e->lang->simulator.n_output; i++)
      atvi_lang_guess(&g, e->lang->simulator.output[i].name);
    const char *hint = "runs that are there already are given by: designs \"...\" and outputs \"...\"";
    if (g.best) hint = atvi_pool_printf(e->s->pool, "did you mean '%s'?", g.best);
    atvi_lang_error(e->s, em->place, hint,
                    e->simulator ? "the simulator has no output '%.60s'" : "the emulator '%.60s' has no runs",
                    em->name);
    return false;
  }
  for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) {
    const ast_setting *x = atvi_lang_setting(st, FILES[i]);
    if (!x) continue;
    atvi_lang_error(e->s, x->at, "remove it here, or give 'designs' and 'outputs' as well",
                    "'%s' belongs to runs from files, and these are the simulator's", x->word);
    return false;
  }
  em->n_input = e->lang->simulator.n_input;
  em->input = e->lang->simulator.input;
  return true;
}

static bool from_files(elab *e, const ast_stmt *st, atvi_lang_emulator *em, const ast_setting *designs,
                       const ast_setting *outputs) {
  if (!designs || !outputs) {
    const ast_setting *x = designs ? designs : outputs;
    atvi_lang_error(e->s, x->at, "runs are given by both: designs \"...\" and outputs \"...\"",
                    "'%s' needs '%s' as well", x->word, designs ? "outputs" : "designs");
    return false;
  }
  const ast_setting *inputs = atvi_lang_setting(st, "inputs");
  if (!inputs) {
    atvi_lang_error(e->s, em->place,
                    "name the parameters in the order of the columns of the designs: inputs theta, kappa",
                    "the emulator '%.60s' has no inputs", em->name);
    return false;
  }
  return atvi_lang_inputs(e, inputs, &em->n_input, &em->input) &&
         matrix(e, designs, em->n_input, &em->designs) && matrix(e, outputs, 0, &em->outputs) &&
         matrix(e, atvi_lang_setting(st, "mean"), 1, &em->mean) &&
         matrix(e, atvi_lang_setting(st, "times"), 1, &em->times);
}

static bool emulator(elab *e, const ast_stmt *st, atvi_lang_emulator *em) {
  const ast_setting *designs = atvi_lang_setting(st, "designs"), *outputs = atvi_lang_setting(st, "outputs");
  if (!(designs || outputs ? from_files(e, st, em, designs, outputs) : from_simulator(e, st, em)))
    return false;
  return kernel(e, atvi_lang_setting(st, "kernel"), &em->kernel) &&
         lengths(e, atvi_lang_setting(st, "lengths"), em) &&
         held(e, atvi_lang_setting(st, "nugget"), true, INFINITY, &em->nugget) &&
         held(e, atvi_lang_setting(st, "time"), false, INFINITY, &em->time_length) &&
         held(e, atvi_lang_setting(st, "basis"), false, 1, &em->basis);
}

bool atvi_lang_emulators(elab *e) {
  static const ast_stmt EMPTY = {.kind = KW_EMULATOR};
  for (atvi_idx i = 0; i < e->lang->n_emulator; i++)
    if (!emulator(e, i < e->own.n ? e->own.stmt[i] : &EMPTY, &e->lang->emulator[i])) return false;
  return true;
}

/* Observations that are a sum of processes in time: emulator(flow, sill) + exponential(v, l) + white(s2). */

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
  atvi_lang_error(e->s, x->at, hint, "'%.60s' is not a process, and only processes can be added up",
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
  if ((*out = atvi_lang_eval(e, v, x)) == ATVI_NODE_NONE) return false;
  if (atvi_graph_kinds(e->g, *out) & ~ELAB_KIND(ATVI_IN_PARAM)) {
    atvi_lang_error(e->s, x->at, "only parameters and constants can be used here",
                    "the %s of %s cannot depend on columns of the data", what, name);
    return false;
  }
  if (!atvi_lang_constant(e, *out, &value)) return true;
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
  if (named && (t->emulator = number_of(e, x->arg[0])) < 0) return false;
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
      atvi_lang_error(e->s, t[i].place, "emulate their sum, or observe them separately",
                      "an observation has at most one emulator");
      return false;
    }
    if (i >= ATVI_LANG_TERMS || states > ATVI_LANG_TERM_STATES) {
      atvi_lang_error(e->s, st->dist.term[i]->at, "drop some: one series cannot distinguish them all",
                      "too many processes in one sum");
      return false;
    }
  }
  return true;
}

bool atvi_lang_terms(elab *e, const ast_stmt *st, const elab_binding *vars, atvi_lang_observe *o) {
  if (e->lang->kind != ATVI_MODEL_STATIC) {
    atvi_lang_error(e->s, st->dist.term[0]->at,
                    "use a distribution, such as normal(S, sd), or drop the equations",
                    "a sum of processes cannot be observed in a model with states");
    return false;
  }
  if (st->range.given) {
    atvi_lang_error(e->s, st->range.at, "remove them", "a sum of processes cannot have detection limits");
    return false;
  }
  atvi_lang_term *t = atvi_lang_take(e->s, st->dist.n_term, sizeof *t);
  if (!t) return false;
  elab_env v = {.vars = vars, .allowed = ELAB_ALL, .where = "a process", .data = o->data};
  for (atvi_idx i = 0; i < st->dist.n_term; i++)
    if (!term(e, &v, st->dist.term[i], &t[i])) return false;
  o->dist = ATVI_DIST_NORMAL; /* what its values can be: any number */
  o->n_term = st->dist.n_term;
  o->term = t;
  return check_sum(e, st, o->n_term, t);
}
