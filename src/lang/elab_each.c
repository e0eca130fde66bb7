/* SPDX-License-Identifier: MIT */
/* Blocks: what their units see, and the description of each unit.
 *
 * A block is elaborated like a model of its own whose statements are those outside and its own; names are declared and nodes
 * made once, for the first unit. For the others only what reads files is done again: tables, data, start, pulses, and the checks
 * of what is observed. Nothing in an expression depends on a unit (its numbers are inputs), so that nodes are the same. */
#include "lang/elab.h"
#include <stdlib.h>
#include <string.h>

static atvi_idx count_blocks(atvi_idx n, const ast_stmt *stmt) {
  atvi_idx count = 0;
  for (atvi_idx i = 0; i < n; i++)
    if (stmt[i].kind == KW_EACH) count += 1 + count_blocks(stmt[i].n_body, stmt[i].body);
  return count;
}

bool atvi_lang_has_statement(atvi_idx n, const ast_stmt *stmt, ast_keyword kind) {
  for (atvi_idx i = 0; i < n; i++)
    if (stmt[i].kind == kind || (kind == KW_NEXT && atvi_lang_convolves(&stmt[i])) ||
        (stmt[i].kind == KW_EACH && atvi_lang_has_statement(stmt[i].n_body, stmt[i].body, kind)))
      return true;
  return false;
}

/* Statements outside speak of other data than a unit's: these are left to the whole model. */
static bool seen_inside(const ast_stmt *st) {
  return st->kind != KW_DATA && st->kind != KW_OBSERVE && st->kind != KW_LOGP;
}

static bool sight(elab *e, const ast_stmt *block, ast_file *file) {
  *file = (ast_file){0};
  if (!(file->stmt = atvi_lang_take(e->s, e->file->n + block->n_body, sizeof *file->stmt))) return false;
  for (atvi_idx i = 0; i < e->file->n; i++)
    if (seen_inside(&e->file->stmt[i])) file->stmt[file->n++] = e->file->stmt[i];
  for (atvi_idx i = 0; i < block->n_body; i++) file->stmt[file->n++] = block->body[i];
  return true;
}

/* What is not about the block as a whole. */
static bool supported(elab *e, const elab_each *each) {
  for (atvi_idx i = 0; i < each->file.n; i++) {
    const ast_stmt *st = &each->file.stmt[i];
    bool outside = st->kind == KW_SIMULATOR || st->kind == KW_EMULATOR;
    if (!outside && !st->n_term) continue;
    atvi_lang_error(e->s, st->at, "keep it in a model of its own, without blocks",
                    outside ? "a model with blocks cannot have a simulator or an emulator"
                            : "a sum of processes cannot be observed in a block");
    return false;
  }
  return true;
}

static bool too_large(elab *e, const elab_each *each, atvi_idx one, atvi_idx n, atvi_idx most,
                      const char *what) {
  if (one == 0 || each->n_unit <= (most - n) / one) return false;
  atvi_lang_error(e->s, each->stmt->at, "choose fewer units or smaller index sets",
                  "too large: with its %td units the model has more than %td %s", each->n_unit, most, what);
  return true;
}

/* Counts the parameters and elements of all units against the limits; `whole` has the sums. */
static bool count(elab *e, elab *whole, atvi_idx *n_outer) {
  atvi_idx own = 0, elements = 0;
  *n_outer = 0;
  for (atvi_idx i = 0; i < e->n_symbol; i++) {
    const elab_symbol *sym = e->symbol[i];
    if (sym->level < e->level) {
      if (sym->kind == SYM_PARAM) *n_outer += sym->total;
      continue;
    }
    elements += sym->total;
    if (sym->kind == SYM_PARAM) own += sym->total;
  }
  if (too_large(e, e->each, elements, whole->elements, ELAB_MAX_ELEMENTS, "elements") ||
      too_large(e, e->each, own, whole->lang->n_all, ELAB_MAX_PARAMS, "parameters"))
    return false;
  whole->elements += elements * e->each->n_unit;
  return true;
}

/* What the elaboration of a later unit changes, as before it. */
static atvi_lang *next_unit(elab *e, const atvi_lang *first) {
  atvi_lang *lang = atvi_lang_take(e->s, 1, sizeof *lang);
  if (!lang) return NULL;
  *lang = *first;
  lang->n_data = lang->n_pulse = lang->n_observe = 0;
  return lang;
}

static bool same_nodes(atvi_idx n, const atvi_node *a, const atvi_node *b) {
  return memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

/* Programs are made from the first unit and run for all. */
static bool alike(const atvi_lang *a, const atvi_lang *b) {
  bool same = a->n_table == b->n_table && a->n_pulse == b->n_pulse && a->n_observe == b->n_observe &&
              a->n_data == b->n_data;
  for (atvi_idx i = 0; same && i < a->n_pulse; i++) {
    const atvi_lang_pulse *p = &a->pulse[i], *q = &b->pulse[i];
    same = p->n == q->n && p->n_value == q->n_value && same_nodes(p->n, p->amount, q->amount) &&
           p->moves == q->moves && p->lag == q->lag && p->conditional == q->conditional &&
           p->holds == q->holds;
  }
  for (atvi_idx i = 0; same && i < a->n_observe; i++) {
    const atvi_lang_observe *p = &a->observe[i], *q = &b->observe[i];
    same = p->data == q->data && p->column == q->column && p->dist == q->dist && p->n_arg == q->n_arg &&
           same_nodes(p->n_arg, p->arg, q->arg);
  }
  return same;
}

/* Parameters of a unit in the whole model: those of the enclosing unit, then its own. */
static bool places(elab *e, atvi_idx u, atvi_idx base) {
  const elab_each *each = e->each;
  const atvi_lang_block *block = each->block;
  atvi_idx n = e->lang->n_param, *at = atvi_lang_take(e->s, n, sizeof *at);
  if (!at) return false;
  for (atvi_idx i = 0; i < n; i++) {
    if (i >= block->n_outer)
      at[i] = base + (i - block->n_outer) * each->n_unit + u;
    else
      at[i] = each->outer ? each->outer->block->unit[each->unit[u].parent].param[i] : i;
  }
  block->unit[u].param = at;
  return true;
}

static void stand_at(elab *e, atvi_idx u) {
  for (const elab_each *each = e->each; each; each = each->outer) {
    e->unit[each->stmt->level + 1] = u;
    u = each->unit[u].parent;
  }
}

static bool unit(elab *e, atvi_idx u, atvi_lang *first) {
  atvi_lang_unit *out = &e->each->block->unit[u];
  stand_at(e, u);
  if (u && !(e->lang = next_unit(e, first))) return false;
  out->label = atvi_lang_unit_label(e, e->level);
  out->lang = e->lang;
  if (!atvi_lang_tables(e) || !atvi_lang_elab_data(e) || (u && !atvi_lang_check_indices(e)) ||
      !atvi_lang_start(e) || (!u && (!atvi_lang_params(e) || !atvi_lang_states(e))) || !atvi_lang_pulses(e) ||
      !atvi_lang_elab_observe(e) || (!u && !atvi_lang_values(e)) ||
      !atvi_lang_covariates(e, &out->covariate) || !atvi_lang_check_unit_indices(e, out->covariate))
    return false;
  if (u == 0 || alike(first, e->lang)) return true;
  atvi_lang_error(e->s, e->each->stmt->at, "this is a fault of the program, not of the model",
                  "the unit '%.60s' has other equations than the first", out->label);
  return false;
}

/* Programs have room for the pulses of every unit. */
static void same_times(const atvi_lang_block *block) {
  for (atvi_idx p = 0; p < block->unit[0].lang->n_pulse; p++) {
    atvi_idx most = 0;
    for (atvi_idx u = 0; u < block->n_unit; u++)
      if (block->unit[u].lang->pulse[p].n_same > most) most = block->unit[u].lang->pulse[p].n_same;
    for (atvi_idx u = 0; u < block->n_unit; u++) block->unit[u].lang->pulse[p].n_same = most;
  }
}

static bool units(elab *e, elab *whole) {
  atvi_lang_block *block = e->each->block;
  atvi_lang *first = e->lang;
  atvi_idx base = whole->lang->n_all;
  if (!atvi_lang_declare(e) || !atvi_lang_settings(e) || !atvi_lang_walks(e) || !atvi_lang_shapes(e) ||
      !count(e, whole, &block->n_outer))
    return false;
  atvi_lang_numbers(e);
  block->n_unit = e->each->n_unit;
  if (!(block->unit = atvi_lang_take(e->s, block->n_unit, sizeof *block->unit))) return false;
  for (atvi_idx u = 0; u < block->n_unit; u++)
    if (!unit(e, u, first) || !places(e, u, base)) return false;
  same_times(block);
  whole->lang->n_all += (first->n_param - block->n_outer) * block->n_unit;
  const char **name = atvi_lang_take(e->s, e->n_covariate, sizeof *name);
  for (atvi_idx k = 0; name && k < e->n_covariate; k++) name[k] = e->covariate[k].name;
  block->n_covariate = e->n_covariate;
  block->covariate = name;
  return name != NULL;
}

static bool inner_blocks(elab *e, elab *whole);

static bool block(elab *outer, elab *whole, const ast_stmt *st) {
  elab_each *each = atvi_lang_take(outer->s, 1, sizeof *each);
  atvi_lang *lang = atvi_lang_take(outer->s, 1, sizeof *lang);
  if (!each || !lang) return false;
  *each = (elab_each){.stmt = st, .outer = outer->each, .block = &whole->lang->block[whole->n_each++]};
  *lang = (atvi_lang){.pool = whole->lang->pool,
                      .graph = whole->lang->graph,
                      .path = whole->lang->path,
                      .source = whole->lang->source};
  *each->block = (atvi_lang_block){.name = st->name->text, .place = st->at};
  if (each->outer && !(each->block->name = atvi_pool_printf(outer->s->pool, "%s.%s", each->outer->block->name,
                                                            st->name->text)))
    return atvi_lang_nomem(outer->s), false;
  if (!sight(outer, st, &each->file) || !supported(outer, each) || !atvi_lang_units(outer, each))
    return false;
  elab e = {.s = outer->s,
            .words = outer->words,
            .opts = outer->opts,
            .tree = outer->tree,
            .g = outer->g,
            .file = &each->file,
            .each = each,
            .level = outer->level + 1,
            .lang = lang,
            .work = whole->work};
  if (!(e.files = atvi_lang_take(e.s, each->file.n, sizeof *e.files)) || !units(&e, whole)) return false;
  whole->work = e.work;
  for (atvi_idx i = 0; i < e.n_symbol; i++) e.symbol[i]->word->symbol = NULL;
  return inner_blocks(&e, whole);
}

static bool inner_blocks(elab *e, elab *whole) {
  for (atvi_idx i = 0; i < e->file->n; i++) {
    const ast_stmt *st = &e->file->stmt[i];
    if (st->kind == KW_EACH && st->level == e->level && !block(e, whole, st)) return false;
  }
  return true;
}

static int by_name(const void *pa, const void *pb) {
  const atvi_lang_param *a = *(const atvi_lang_param *const *)pa, *b = *(const atvi_lang_param *const *)pb;
  return strcmp(a->name, b->name);
}

static bool unique_names(elab *e) {
  atvi_idx n = e->lang->n_all;
  const atvi_lang_param **p = atvi_lang_take(e->s, n, sizeof *p);
  if (!p) return false;
  for (atvi_idx i = 0; i < n; i++) p[i] = &e->lang->all[i];
  qsort(p, (size_t)n, sizeof *p, by_name);
  for (atvi_idx i = 1; i < n; i++)
    if (strcmp(p[i]->name, p[i - 1]->name) == 0) {
      atvi_place at = p[i]->place.line > p[i - 1]->place.line ? p[i]->place : p[i - 1]->place;
      atvi_lang_error(e->s, at, "give it another name, or the units other labels",
                      "two parameters are called '%.60s'", p[i]->name);
      return false;
    }
  return true;
}

static bool all_params(elab *e) {
  atvi_lang *lang = e->lang;
  if (!(lang->all = atvi_lang_take(e->s, lang->n_all, sizeof *lang->all))) return false;
  for (atvi_idx i = 0; i < lang->n_param; i++) lang->all[i] = lang->param[i];
  for (atvi_idx b = 0; b < lang->n_block; b++)
    for (atvi_idx u = 0; u < lang->block[b].n_unit; u++) {
      const atvi_lang_unit *unit = &lang->block[b].unit[u];
      for (atvi_idx i = lang->block[b].n_outer; i < unit->lang->n_param; i++) {
        atvi_lang_param *p = &lang->all[unit->param[i]];
        *p = unit->lang->param[i];
        p->name = atvi_pool_printf(e->s->pool, "%s.%s", p->name, unit->label);
        if (!p->name) return atvi_lang_nomem(e->s), false;
        p->n_arg = 0;
        for (int k = 0; k < ATVI_DIST_ARGS; k++) p->arg[k] = ATVI_NODE_NONE;
      }
    }
  return unique_names(e);
}

bool atvi_lang_count_blocks(elab *e) {
  atvi_idx n = count_blocks(e->tree->n, e->tree->stmt);
  if (!(e->lang->block = atvi_lang_take(e->s, n, sizeof *e->lang->block))) return false;
  e->lang->n_block = n;
  return true;
}

bool atvi_lang_blocks(elab *e) {
  e->lang->n_all = e->lang->n_param;
  e->lang->all = e->lang->param;
  if (!e->lang->n_block) return true;
  for (atvi_idx i = 0; i < e->n_symbol; i++) e->symbol[i]->word->symbol = NULL;
  return inner_blocks(e, e) && all_params(e);
}
