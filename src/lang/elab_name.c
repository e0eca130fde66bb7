/* SPDX-License-Identifier: MIT */
/* Names, index sets and shapes. */
#include "lang/elab.h"
#include <stdio.h>
#include <string.h>

const char *atvi_lang_kind_name(elab_kind kind) {
  static const char *const NAMES[] = {
      "an index set", "a label", "a constant",         "a parameter",        "a let",      "a function",
      "a state",      "a table", "a derived quantity", "a tracked quantity", "a data set", "a block"};
  return NAMES[kind];
}

static int symbol_kind(ast_keyword k) {
  switch (k) {
  case KW_INDEX: return SYM_SET;
  case KW_CONST: return SYM_CONST;
  case KW_PARAM: return SYM_PARAM;
  case KW_LET: return SYM_LET;
  case KW_FUNCTION: return SYM_FUNCTION;
  case KW_STATE: return SYM_STATE;
  case KW_WALK:
  case KW_TABLE: return SYM_TABLE;
  case KW_DERIVED: return SYM_DERIVED;
  case KW_TRACK: return SYM_TRACK;
  case KW_DATA: return SYM_DATA;
  case KW_EACH: return SYM_BLOCK;
  default: return -1;
  }
}

bool atvi_lang_free_name(elab *e, const char *name, atvi_place at) {
  size_t n = strlen(name);
  if (n < 2 || strcmp(name + n - 2, "__") != 0) return true;
  atvi_lang_error(e->s, at, "choose another name",
                  "'%.60s' cannot be a name: names that end in __ are columns of the output, such as lp__",
                  name);
  return false;
}

/* A symbol that is not found by its name. */
static elab_symbol *add_symbol(elab *e, atvi_idx *cap, ast_word *word, const ast_stmt *st, elab_kind kind,
                               atvi_place at) {
  elab_symbol *sym = atvi_lang_take(e->s, 1, sizeof *sym);
  if (!sym) return NULL;
  if (!ATVI_PUSH(e->s->pool, e->symbol, e->n_symbol, *cap)) return atvi_lang_nomem(e->s), NULL;
  *sym = (elab_symbol){.kind = kind, .stmt = st, .word = word, .at = at, .level = st->level, .total = 1};
  return e->symbol[e->n_symbol++] = sym;
}

static elab_symbol *declare(elab *e, atvi_idx *cap, ast_word *word, const ast_stmt *st, elab_kind kind,
                            atvi_place at) {
  const elab_symbol *old = word->symbol;
  if (!atvi_lang_free_name(e, word->text, at)) return NULL;
  if (old) {
    atvi_lang_error(e->s, at, "give one of them another name",
                    "'%.60s' is defined twice: line %d already makes it %s", word->text, old->at.line,
                    atvi_lang_kind_name(old->kind));
    return NULL;
  }
  return word->symbol = add_symbol(e, cap, word, st, kind, at);
}

static bool declare_labels(elab *e, atvi_idx *cap, elab_symbol *set) {
  const ast_stmt *st = set->stmt;
  const char **label = atvi_lang_take(e->s, st->words.n, sizeof *label);
  if (!label) return false;
  for (atvi_idx i = 0; i < st->words.n; i++) {
    elab_symbol *sym = declare(e, cap, st->words.token[i].word, st, SYM_LABEL, st->words.token[i].at);
    if (!sym) return false;
    sym->base = i + 1;
    label[i] = sym->word->text;
  }
  set->label = label;
  set->dim[0] = (elab_range){1, st->words.n, set};
  set->ready = true;
  return true;
}

bool atvi_lang_declare(elab *e) {
  atvi_idx cap = 0;
  for (atvi_idx i = 0; i < e->file->n; i++) {
    const ast_stmt *st = &e->file->stmt[i];
    int kind = symbol_kind(st->kind);
    if (kind < 0 || !st->name) continue;
    elab_symbol *sym = declare(e, &cap, st->name, st, (elab_kind)kind, st->at);
    if (!sym) return false;
    if (kind == SYM_SET && st->words.n && !declare_labels(e, &cap, sym)) return false;
    if (st->kind != KW_WALK) continue;
    elab_symbol *first = add_symbol(e, &cap, st->name, st, SYM_PARAM, st->at);
    elab_symbol *later = first ? add_symbol(e, &cap, st->name, st, SYM_PARAM, st->at) : NULL;
    if (!later || !atvi_lang_walk_declare(e, sym, first, later)) return false;
  }
  return true;
}

elab_symbol *atvi_lang_symbol(elab *e, ast_word *word, elab_kind kind) {
  (void)e;
  return word->symbol && word->symbol->kind == kind ? word->symbol : NULL;
}

static bool range_of(elab *e, const ast_dim *d, const elab_binding *vars, elab_range *r) {
  atvi_idx lo, hi;
  if (!atvi_lang_whole(e, vars, d->lo, "the end of a range", &lo) ||
      !atvi_lang_whole(e, vars, d->hi, "the end of a range", &hi))
    return false;
  if (hi < lo) {
    atvi_lang_error(e->s, d->at, "the first end must not be above the second", "the range %td..%td is empty",
                    lo, hi);
    return false;
  }
  *r = (elab_range){lo, hi - lo + 1, NULL};
  return true;
}

static bool resolve_set(elab *e, elab_symbol *set) {
  if (set->ready) return true;
  if (set->busy) {
    atvi_lang_error(e->s, set->at, "give its ends as numbers", "the index set '%.60s' is defined by itself",
                    set->word->text);
    return false;
  }
  set->busy = true;
  if (!range_of(e, &set->stmt->dim[0], NULL, &set->dim[0])) return false;
  set->dim[0].set = set;
  set->busy = false;
  return set->ready = true;
}

/* Range of one index; an index that stands for itself (dS[1]/dt) has n = 1 if `single` allows it. */
static bool range(elab *e, const ast_dim *d, const elab_binding *vars, bool single, elab_range *r) {
  if (d->hi) return range_of(e, d, vars, r);
  if (d->lo->kind == EX_NAME && d->lo->n == 0 && !d->lo->qualifier) {
    elab_symbol *set = atvi_lang_symbol(e, d->lo->word, SYM_SET);
    if (set) {
      if (!resolve_set(e, set)) return false;
      *r = set->dim[0];
      return true;
    }
    if (d->var || !single) {
      if (!d->lo->word->symbol) {
        ast_guess g = {.text = d->lo->word->text};
        for (atvi_idx i = 0; i < e->n_symbol; i++)
          if (e->symbol[i]->kind == SYM_SET) atvi_lang_guess(&g, e->symbol[i]->word->text);
        const char *hint = g.best ? atvi_pool_printf(e->s->pool, "did you mean '%s'?", g.best)
                                  : "define it, for example: index age = 1..6";
        atvi_lang_error(e->s, d->lo->at, hint, "unknown index set '%.60s'", d->lo->word->text);
      } else
        atvi_lang_error(e->s, d->lo->at, "an index set is defined with: index age = 1..6",
                        "'%.60s' is %s, not an index set", d->lo->word->text,
                        atvi_lang_kind_name(d->lo->word->symbol->kind));
      return false;
    }
  }
  if (!single) {
    atvi_lang_error(e->s, d->at, "for example [age], [i in age] or [i in 1..6]",
                    "an index set or a range is needed here");
    return false;
  }
  r->n = 1;
  r->set = NULL;
  return atvi_lang_whole(e, vars, d->lo, "an index", &r->lo);
}

/* Counts elements against the limit. */
static bool count_elements(elab *e, const elab_range *dim, int n_dim, atvi_idx so_far, atvi_place at,
                           atvi_idx *total) {
  *total = 1;
  for (int d = 0; d < n_dim; d++) {
    if (dim[d].n > ELAB_MAX_ELEMENTS || *total * dim[d].n > ELAB_MAX_ELEMENTS - so_far) {
      atvi_lang_error(e->s, at, "choose smaller index sets",
                      "too large: a model has at most %d elements in all", ELAB_MAX_ELEMENTS);
      return false;
    }
    *total *= dim[d].n;
  }
  return true;
}

bool atvi_lang_shape(elab *e, elab_symbol *sym) {
  const ast_stmt *st = sym->stmt;
  if (sym->ready) return true;
  if (sym->busy) {
    atvi_lang_error(e->s, sym->at, "give its ends as numbers", "the size of '%.60s' depends on itself",
                    sym->word->text);
    return false;
  }
  sym->busy = true;
  sym->n_dim = st->n_dim;
  for (int d = 0; d < st->n_dim; d++) {
    if (!range(e, &st->dim[d], NULL, false, &sym->dim[d])) return false;
    for (int c = 0; c < d; c++)
      if (st->dim[d].var && st->dim[c].var == st->dim[d].var) {
        atvi_lang_error(e->s, st->dim[d].at, "give every index its own letter: [i in age, j in age]",
                        "'%.60s' is used for two indices", st->dim[d].var->text);
        return false;
      }
  }
  if (!count_elements(e, sym->dim, sym->n_dim, e->effort.elements, sym->at, &sym->total)) return false;
  e->effort.elements += sym->total;
  bool kept =
      sym->kind == SYM_CONST || sym->kind == SYM_LET || sym->kind == SYM_DERIVED || sym->kind == SYM_TRACK;
  if (kept && !(sym->memo = atvi_lang_take(e->s, 2 * sym->total, sizeof *sym->memo))) return false;
  sym->busy = false;
  return sym->ready = true;
}

/* Ranges may use constants, and the shapes of constants may use ranges: shapes resolve on use. */
bool atvi_lang_shapes(elab *e) {
  for (atvi_idx i = 0; i < e->n_symbol; i++) {
    elab_symbol *sym = e->symbol[i];
    if (sym->kind == SYM_LABEL) continue;
    if (!(sym->kind == SYM_SET ? resolve_set(e, sym) : atvi_lang_shape(e, sym))) return false;
  }
  return true;
}

const elab_symbol *atvi_lang_labelled(const elab_range *r) { return r->set && r->set->label ? r->set : NULL; }

void atvi_lang_position(int n_dim, const elab_range *dim, atvi_idx k, atvi_idx *at) {
  for (int d = n_dim - 1; d >= 0; d--) {
    at[d] = k % dim[d].n;
    k /= dim[d].n;
  }
}

const char *atvi_lang_element_name(elab *e, const char *base, int n_dim, const elab_range *dim, atvi_idx k) {
  atvi_idx at[AST_MAX_DIM];
  atvi_lang_position(n_dim, dim, k, at);
  const char *name = base;
  for (int d = 0; name && d < n_dim; d++) {
    if (dim[d].set && dim[d].set->label)
      name = atvi_pool_printf(e->s->pool, "%s.%s", name, dim[d].set->label[at[d]]);
    else
      name = atvi_pool_printf(e->s->pool, "%s.%td", name, dim[d].lo + at[d]);
  }
  if (!name) atvi_lang_nomem(e->s);
  return name;
}

bool atvi_lang_loop(elab *e, const elab_binding *outer, int n_dim, const ast_dim *dim, bool single,
                    elab_loop *loop) {
  *loop = (elab_loop){.n_dim = n_dim, .dim = dim, .total = 1, .outer = outer};
  for (int d = 0; d < n_dim; d++)
    if (!range(e, &dim[d], outer, single, &loop->range[d])) return false;
  return count_elements(e, loop->range, n_dim, 0, n_dim ? dim[0].at : (atvi_place){1, 1}, &loop->total);
}

void atvi_lang_loop_at(elab *e, elab_loop *loop, atvi_idx k) {
  atvi_lang_position(loop->n_dim, loop->range, k, loop->at);
  loop->vars = loop->outer;
  for (int d = 0; d < loop->n_dim; d++) {
    loop->at[d] += loop->range[d].lo;
    if (!loop->dim[d].var) continue;
    loop->var[d] = (elab_binding){loop->dim[d].var, atvi_graph_const(e->g, (double)loop->at[d]), NULL,
                                  loop->vars, atvi_lang_labelled(&loop->range[d])};
    loop->vars = &loop->var[d];
  }
}

atvi_idx atvi_lang_offset(elab *e, const elab_symbol *sym, int n, const atvi_idx *at, atvi_place place) {
  if (n != sym->n_dim) {
    const char *hint = sym->n_dim == 0 ? "write it without an index" : "one index per dimension";
    if (n == 0) hint = atvi_pool_printf(e->s->pool, "write %.60s[...] with its index", sym->word->text);
    atvi_lang_error(e->s, place, hint, "wrong shape: '%.60s' has %d %s, not %d", sym->word->text, sym->n_dim,
                    sym->n_dim == 1 ? "index" : "indices", n);
    return -1;
  }
  atvi_idx k = 0;
  for (int d = 0; d < n; d++) {
    const elab_range *r = &sym->dim[d];
    if (at[d] < r->lo || at[d] >= r->lo + r->n) {
      const char *hint = "'if' with a condition on the index alone keeps the other branch from being looked "
                         "at: if i > 1 then X[i-1] else 0";
      atvi_lang_error(e->s, place, hint, "index %td of '%.60s' is outside %td..%td", at[d], sym->word->text,
                      r->lo, r->lo + r->n - 1);
      return -1;
    }
    k = k * r->n + (at[d] - r->lo);
  }
  return k;
}
