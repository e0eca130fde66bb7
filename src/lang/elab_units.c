/* SPDX-License-Identifier: MIT */
/* Blocks and their units. Units: their labels, which rows of a file are theirs, and the numbers of their own
 * file.
 *
 * A label is found by (label, unit of the enclosing block) in a sorted list. A long file is cut up once: its
 * rows are grouped by unit when the first one asks. */
#include "lang/elab.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_label(const void *pa, const void *pb) {
  const elab_label *a = pa, *b = pb;
  int c = strcmp(a->label, b->label);
  if (c) return c;
  if (a->parent != b->parent) return a->parent < b->parent ? -1 : 1;
  return (a->at > b->at) - (a->at < b->at);
}

static int by_place(const void *pa, const void *pb) {
  const elab_label *a = pa, *b = pb;
  if (a->parent != b->parent) return a->parent < b->parent ? -1 : 1;
  return (a->at > b->at) - (a->at < b->at);
}

static const elab_each *each_of(const elab *e, int level) {
  const elab_each *each = e->in.each;
  while (each->stmt->level >= level) each = each->outer;
  return each;
}

static const char *block_name(const elab_each *each) { return each->stmt->name->text; }

/* Units with that label, in that unit of the enclosing block (-1: in any): how many, and one of them. */
static atvi_idx look_up(const elab_each *each, const char *label, atvi_idx parent, atvi_idx *unit) {
  atvi_idx lo = 0, hi = each->n_unit, n = 0;
  elab_label want = {label, parent, -1};
  while (lo < hi) {
    atvi_idx mid = lo + (hi - lo) / 2;
    if (by_label(&each->sorted[mid], &want) < 0)
      lo = mid + 1;
    else
      hi = mid;
  }
  for (; lo < each->n_unit && n < 2; lo++, n++) {
    const elab_label *found = &each->sorted[lo];
    if (strcmp(found->label, label) != 0 || (parent >= 0 && found->parent != parent)) break;
    *unit = found->at;
  }
  return n;
}

static bool no_column(elab *e, const elab_each *each, const ast_stmt *st, const atvi_csv *csv) {
  const char *name = block_name(each);
  const char *hint =
      st->kind == KW_EACH && st == each->stmt
          ? atvi_pool_printf(e->s->pool,
                             "the labels of the units are in a column '%.60s'; to make each row a unit, "
                             "write: each row from",
                             name)
          : atvi_pool_printf(
                e->s->pool,
                "add a column '%.60s' that says whose row it is; what all share goes outside the block",
                name);
  if (!hint) return atvi_lang_nomem(e->s), false;
  atvi_lang_error(e->s, st->file.at, hint, "%s has no column '%.60s'", csv->path, name);
  return false;
}

/* Labels become parts of names: those of columns of the output, and of settings such as name=value. */
static bool can_be_label(const char *label) {
  size_t n = strlen(label);
  for (size_t i = 0; i < n; i++)
    if ((unsigned char)label[i] < 32 || label[i] == '=') return false;
  return n > 0 && (n < 2 || strcmp(label + n - 2, "__") != 0);
}

static const char *const BAD_LABEL = "labels have no line breaks, no = and no __ at the end";

/* The label in a row; NULL after an error. */
static const char *label_at(elab *e, const elab_each *each, const ast_stmt *st, const atvi_csv *csv,
                            atvi_idx row, atvi_idx column) {
  atvi_idx at = row * csv->n_col + column;
  if (csv->kind[at] != ATVI_CELL_MISSING && can_be_label(csv->text[at])) return csv->text[at];
  if (csv->kind[at] != ATVI_CELL_MISSING) {
    atvi_lang_data_error(e->s, csv, row, column, st->file.at, BAD_LABEL, "'%.60s' cannot be a label",
                         csv->text[at]);
    return NULL;
  }
  atvi_lang_data_error(e->s, csv, row, column, st->file.at,
                       "every row belongs to a unit: fill it in, or drop the row", "the %.60s is missing",
                       block_name(each));
  return NULL;
}

static bool no_unit(elab *e, const elab_each *each, const ast_stmt *st, const atvi_csv *csv, atvi_idx row,
                    atvi_idx column, atvi_idx n, atvi_idx parent) {
  const char *label = csv->text[row * csv->n_col + column], *name = block_name(each);
  ast_guess g = {.text = label};
  if (n > 1) {
    const char *outer = block_name(each->outer);
    const char *hint =
        atvi_pool_printf(e->s->pool, "add a column '%.60s' that says which one is meant", outer);
    if (!hint) return atvi_lang_nomem(e->s), false;
    atvi_lang_data_error(e->s, csv, row, column, st->file.at, hint, "%.60s '%.60s' is in more than one %.60s",
                         name, label, outer);
    return false;
  }
  for (atvi_idx u = 0; u < each->n_unit; u++)
    if (parent < 0 || each->unit[u].parent == parent) atvi_lang_guess(&g, each->unit[u].label);
  const char *hint =
      g.best           ? atvi_pool_printf(e->s->pool, "did you mean '%.60s'?", g.best)
      : each->rows.csv ? atvi_pool_printf(e->s->pool, "the units are those of %s", each->rows.csv->path)
                       : atvi_pool_printf(e->s->pool, "the units are those of line %d", each->stmt->at.line);
  if (!hint) return atvi_lang_nomem(e->s), false;
  atvi_lang_data_error(e->s, csv, row, column, st->file.at, hint, "there is no %.60s '%.60s'", name, label);
  return false;
}

/* The label of a row of a file whose rows are units; NULL after an error. */
static const char *row_label(elab *e, atvi_idx row) {
  const char *label = atvi_pool_printf(e->s->pool, "%td", row + 1);
  if (!label) atvi_lang_nomem(e->s);
  return label;
}

static bool is_numbered(const elab_each *each, const atvi_csv *csv) {
  return each->numbered && strcmp(each->numbered->path, csv->path) == 0;
}

/* The unit that a row belongs to; -1 after an error. Columns of enclosing blocks may be missing where a label
 * is unique. */
static atvi_idx unit_of_row(elab *e, const elab_each *each, const ast_stmt *st, const atvi_csv *csv,
                            atvi_idx row) {
  atvi_idx column = atvi_io_csv_find(csv, block_name(each)), parent = each->outer ? -1 : 0, unit = -1;
  if (is_numbered(each, csv)) {
    const char *number = row_label(e, row);
    return number && look_up(each, number, -1, &unit) ? unit : -1;
  }
  if (column < 0) return no_column(e, each, st, csv), -1;
  const char *label = label_at(e, each, st, csv, row, column);
  if (!label) return -1;
  if (each->outer && atvi_io_csv_find(csv, block_name(each->outer)) >= 0 &&
      (parent = unit_of_row(e, each->outer, st, csv, row)) < 0)
    return -1;
  atvi_idx n = look_up(each, label, parent, &unit);
  if (n == 0 && csv->kind[row * csv->n_col + column] == ATVI_CELL_NUMBER) { /* 7.0 is 7 */
    char plain[40];
    snprintf(plain, sizeof plain, "%.15g", csv->value[row * csv->n_col + column]);
    n = look_up(each, plain, parent, &unit);
  }
  return n == 1 ? unit : (no_unit(e, each, st, csv, row, column, n, parent), -1);
}

static bool group(elab *e, const elab_each *each, const ast_stmt *st, const atvi_csv *csv,
                  elab_grouped *out) {
  atvi_idx *unit = atvi_lang_take(e->s, csv->n_row, sizeof *unit);
  atvi_idx *first = atvi_lang_take(e->s, each->n_unit + 2, sizeof *first);
  atvi_idx *row = atvi_lang_take(e->s, csv->n_row, sizeof *row);
  if (!unit || !first || !row) return false;
  if (atvi_io_csv_find(csv, block_name(each)) < 0 && !is_numbered(each, csv))
    return no_column(e, each, st, csv);
  for (atvi_idx r = 0; r < csv->n_row; r++) {
    if ((unit[r] = unit_of_row(e, each, st, csv, r)) < 0) return false;
    first[unit[r] + 2]++;
  }
  for (atvi_idx u = 2; u < each->n_unit + 2; u++) first[u] += first[u - 1];
  for (atvi_idx r = 0; r < csv->n_row; r++) row[first[unit[r] + 1]++] = r;
  *out = (elab_grouped){csv, first, row};
  return true;
}

/* Units from a file: labels of a unit of the enclosing block in the order of their first row. */
static bool labels_of_file(elab *e, elab_each *each, const atvi_csv *csv) {
  const ast_stmt *st = each->stmt;
  atvi_idx column = atvi_io_csv_find(csv, block_name(each)), n = 0;
  elab_label *key = atvi_lang_take(e->s, csv->n_row, sizeof *key);
  if (!key) return false;
  if (column < 0 && strcmp(block_name(each), "row") == 0) each->numbered = csv;
  if (column < 0 && !each->numbered) return no_column(e, each, st, csv);
  if (each->outer && atvi_io_csv_find(csv, block_name(each->outer)) < 0)
    return no_column(e, each->outer, st, csv);
  for (atvi_idx r = 0; r < csv->n_row; r++) {
    const char *label = each->numbered ? row_label(e, r) : label_at(e, each, st, csv, r, column);
    key[r] = (elab_label){label, 0, r};
    if (!key[r].label || (each->outer && (key[r].parent = unit_of_row(e, each->outer, st, csv, r)) < 0))
      return false;
  }
  qsort(key, (size_t)csv->n_row, sizeof *key, by_label);
  for (atvi_idx r = 0; r < csv->n_row; r++)
    if (!n || key[n - 1].parent != key[r].parent || strcmp(key[n - 1].label, key[r].label) != 0)
      key[n++] = key[r];
  qsort(key, (size_t)n, sizeof *key, by_place);
  each->unit = key;
  each->n_unit = n;
  return true;
}

static bool labels_of_words(elab *e, elab_each *each) {
  const ast_stmt *st = each->stmt;
  atvi_idx n_outer = each->outer ? each->outer->n_unit : 1;
  if (n_outer * st->words.n > ELAB_MAX_ELEMENTS)
    return atvi_lang_error(e->s, st->at, "name fewer of them", "a model has at most %d units",
                           ELAB_MAX_ELEMENTS),
           false;
  if (!(each->unit = atvi_lang_take(e->s, n_outer * st->words.n, sizeof *each->unit))) return false;
  for (atvi_idx i = 0; i < st->words.n; i++) {
    if (!can_be_label(st->words.token[i].text)) {
      atvi_lang_error(e->s, st->words.token[i].at, BAD_LABEL, "'%.60s' cannot be a label",
                      st->words.token[i].text);
      return false;
    }
    for (atvi_idx j = 0; j < i; j++)
      if (strcmp(st->words.token[i].text, st->words.token[j].text) == 0) {
        atvi_lang_error(e->s, st->words.token[i].at, "name it once", "'%.60s' is named twice",
                        st->words.token[i].text);
        return false;
      }
  }
  for (atvi_idx p = 0; p < n_outer; p++)
    for (atvi_idx i = 0; i < st->words.n; i++)
      each->unit[each->n_unit++] = (elab_label){st->words.token[i].text, p, i};
  return true;
}

/* Reads the labels of the units of a block; those of enclosing blocks are known. */
static bool read_units(elab *e, elab_each *each) {
  const ast_stmt *st = each->stmt;
  const atvi_csv *csv = NULL;
  if (st->file.name && !atvi_lang_csv(e, st, &csv)) return false;
  if (!(csv ? labels_of_file(e, each, csv) : labels_of_words(e, each))) return false;
  if (!(each->sorted = atvi_lang_take(e->s, each->n_unit, sizeof *each->sorted))) return false;
  for (atvi_idx u = 0; u < each->n_unit; u++) {
    each->sorted[u] = each->unit[u];
    each->sorted[u].at = u;
  }
  qsort(each->sorted, (size_t)each->n_unit, sizeof *each->sorted, by_label);
  return !csv || group(e, each, st, csv, &each->rows);
}

const char *atvi_lang_unit_label(elab *e, int level) {
  const char *label = "";
  for (int l = 1; label && l <= level; l++)
    label = l == 1 ? each_of(e, l)->unit[e->in.unit[l]].label
                   : atvi_pool_printf(e->s->pool, "%s.%s", label, each_of(e, l)->unit[e->in.unit[l]].label);
  if (!label) atvi_lang_nomem(e->s);
  return label ? label : "";
}

static bool cut(elab *e, const elab_grouped *g, atvi_idx unit, const atvi_csv **csv) {
  const atvi_csv *all = g->csv;
  atvi_idx n = g->first[unit + 1] - g->first[unit], w = all->n_col;
  const atvi_idx *row = g->row + g->first[unit];
  atvi_csv *out = atvi_lang_take(e->s, 1, sizeof *out);
  if (!out) return false;
  *out = *all;
  out->n_row = n;
  out->value = atvi_lang_take(e->s, n * w, sizeof *out->value);
  out->kind = atvi_lang_take(e->s, n * w, sizeof *out->kind);
  out->text = atvi_lang_take(e->s, n * w, sizeof *out->text);
  out->column = atvi_lang_take(e->s, n * w, sizeof *out->column);
  out->line = atvi_lang_take(e->s, n, sizeof *out->line);
  if (!out->value || !out->kind || !out->text || !out->column || !out->line) return false;
  for (atvi_idx r = 0; r < n; r++) {
    out->line[r] = all->line[row[r]];
    for (atvi_idx c = 0; c < w; c++) {
      atvi_idx from = row[r] * w + c, to = r * w + c;
      out->value[to] = all->value[from];
      out->kind[to] = all->kind[from];
      out->text[to] = all->text[from];
      out->column[to] = all->column[from];
    }
  }
  *csv = out;
  return true;
}

bool atvi_lang_unit_rows(elab *e, const ast_stmt *st, const atvi_csv *all, const atvi_csv **csv) {
  *csv = all;
  if (!st->level || st->kind == KW_EACH) return true;
  elab_grouped *g = &e->files[st - e->file->stmt];
  if (!g->first && !group(e, each_of(e, st->level), st, all, g)) return false;
  return cut(e, g, e->in.unit[st->level], csv);
}

/* The block whose file has a column of that name, and the column; NULL: none. */
static const elab_each *covariate_of(const elab *e, const elab_env *v, const ast_expr *x, atvi_idx *c) {
  const elab_each *each = x->n || x->qualifier ? NULL : e->in.each;
  for (; each; each = each->outer) {
    bool seen = !v->level || each->stmt->level + 1 < v->level;
    *c = seen && each->rows.csv ? atvi_io_csv_find(each->rows.csv, x->word->text) : -1;
    if (*c >= 0) break;
  }
  return each;
}

bool atvi_lang_is_covariate(const elab *e, const elab_env *v, const ast_expr *x) {
  atvi_idx c;
  return covariate_of(e, v, x, &c) != NULL;
}

bool atvi_lang_covariate_cell(const elab *e, atvi_idx k, const atvi_csv **csv, atvi_idx *row,
                              atvi_idx *column) {
  const elab_grouped *g = &e->covariate.of[k].each->rows;
  atvi_idx unit = e->in.unit[e->covariate.of[k].each->stmt->level + 1];
  *csv = g->csv;
  *row = g->row[g->first[unit]];
  *column = e->covariate.of[k].column;
  return g->first[unit] < g->first[unit + 1];
}

atvi_node atvi_lang_covariate(elab *e, const elab_env *v, const ast_expr *x, bool *found) {
  const char *name = x->word->text;
  atvi_idx c = -1, k = 0;
  const elab_each *each = covariate_of(e, v, x, &c);
  if (!(*found = each != NULL)) return ATVI_NODE_NONE;
  if (!(v->allowed & ELAB_KIND(ATVI_IN_PARAM))) {
    atvi_lang_error(e->s, x->at, "only constants can be used here",
                    "%s cannot use '%.60s': each %.60s has its own", v->where, name, block_name(each));
    return ATVI_NODE_NONE;
  }
  while (k < e->covariate.n && (e->covariate.of[k].each != each || e->covariate.of[k].column != c)) k++;
  if (k == e->covariate.n) {
    if (!ATVI_PUSH(e->s->pool, e->covariate.of, e->covariate.n, e->covariate.cap))
      return atvi_lang_nomem(e->s), ATVI_NODE_NONE;
    e->covariate.of[e->covariate.n++] = (elab_covariate){each->rows.csv->name[c], each, c, x->at};
  }
  return atvi_graph_input(e->g, ATVI_IN_PARAM, e->lang->n_param + k);
}

/* Text is the position of a label in the index set that has the column's name. */
static bool position(elab *e, const elab_covariate *v, const atvi_csv *csv, atvi_idx row, double *value) {
  const char *text = csv->text[row * csv->n_col + v->column];
  ast_word *word = atvi_lang_word(e->s, e->words, v->name, strlen(v->name));
  if (!word) return false;
  const elab_symbol *set = atvi_lang_symbol(e, word, SYM_SET);
  for (atvi_idx i = 0; set && set->label && i < set->dim[0].n; i++)
    if (strcmp(set->label[i], text) == 0) return *value = (double)(i + 1), true;
  bool label = strcmp(v->name, block_name(v->each)) == 0;
  const char *hint = set ? "labels are compared as they are written"
                     : label
                         ? "the name of a block means the label of the unit where all labels are numbers"
                         : atvi_pool_printf(e->s->pool, "for text, name its labels: index %.60s = %.60s, ...",
                                            v->name, text);
  if (!hint) return atvi_lang_nomem(e->s), false;
  if (set)
    atvi_lang_data_error(e->s, csv, row, v->column, v->at, hint,
                         "'%.60s' is not a label of the index set '%.60s'", text, v->name);
  else
    atvi_lang_data_error(e->s, csv, row, v->column, v->at, hint, "'%.60s' is not a number", text);
  return false;
}

static bool covariate(elab *e, const elab_covariate *v, double *value) {
  const elab_grouped *g = &v->each->rows;
  const atvi_csv *csv = g->csv;
  atvi_idx unit = e->in.unit[v->each->stmt->level + 1];
  for (atvi_idx i = g->first[unit]; i < g->first[unit + 1]; i++) {
    atvi_idx r = g->row[i], at = r * csv->n_col + v->column;
    double x = csv->value[at];
    if (csv->kind[at] == ATVI_CELL_MISSING) {
      atvi_lang_data_error(e->s, csv, r, v->column, v->at, "fill it in", "'%.60s' of this %.60s is missing",
                           v->name, block_name(v->each));
      return false;
    }
    if (csv->kind[at] == ATVI_CELL_DATE && e->lang->time.calendar.unit)
      x = atvi_io_calendar_time(e->lang->time.calendar, x);
    else if (csv->kind[at] != ATVI_CELL_NUMBER && !position(e, v, csv, r, &x))
      return false;
    if (i == g->first[unit])
      *value = x;
    else if (x != *value) {
      atvi_lang_data_error(
          e->s, csv, r, v->column, v->at,
          "a number of a unit is the same in all of its rows; what varies in time is a table",
          "'%.60s' varies within the %.60s '%.60s': line %d has %.60s", v->name, block_name(v->each),
          v->each->unit[unit].label, csv->line[g->row[g->first[unit]]],
          csv->text[g->row[g->first[unit]] * csv->n_col + v->column]);
      return false;
    }
  }
  return true;
}

/* Numbers of the present unit: [n_covariate]. */
static bool covariates(elab *e, const double **value) {
  double *x = atvi_lang_take(e->s, e->covariate.n, sizeof *x);
  for (atvi_idx k = 0; x && k < e->covariate.n; k++)
    if (!covariate(e, &e->covariate.of[k], &x[k])) return false;
  *value = x;
  return x != NULL;
}

/* The block in which a name is defined. */
static const ast_stmt *home(atvi_idx n, const ast_stmt *stmt, const ast_stmt *block, const ast_word *word) {
  for (atvi_idx i = 0; i < n; i++) {
    bool defines = stmt[i].kind == KW_PARAM || stmt[i].kind == KW_LET || stmt[i].kind == KW_STATE ||
                   stmt[i].kind == KW_TABLE || stmt[i].kind == KW_DERIVED || stmt[i].kind == KW_TRACK ||
                   stmt[i].kind == KW_DATA || stmt[i].kind == KW_EACH;
    if (block && defines && stmt[i].name == word) return block;
    const ast_stmt *found =
        stmt[i].kind == KW_EACH ? home(stmt[i].body.n, stmt[i].body.stmt, &stmt[i], word) : NULL;
    if (found) return found;
  }
  return NULL;
}

bool atvi_lang_belongs(elab *e, const ast_word *word, atvi_place at) {
  const ast_stmt *block = home(e->tree->n, e->tree->stmt, NULL, word);
  if (!block) return false;
  const char *hint = atvi_pool_printf(
      e->s->pool, "it cannot be used outside: move this into the block of line %d", block->at.line);
  if (!hint) return atvi_lang_nomem(e->s), true;
  atvi_lang_error(e->s, at, hint, "'%.60s' belongs to each %.60s", word->text, block->name->text);
  return true;
}

/* Blocks: what their units see, and the description of each unit.
 *
 * A block is elaborated like a model of its own whose statements are those outside and its own; names are
 * declared and nodes made once, for the first unit. For the others only what reads files is done again:
 * tables, data, start, pulses, and the checks of what is observed. Nothing in an expression depends on a unit
 * (its numbers are inputs), so that nodes are the same. */

static atvi_idx count_blocks(atvi_idx n, const ast_stmt *stmt) {
  atvi_idx count = 0;
  for (atvi_idx i = 0; i < n; i++)
    if (stmt[i].kind == KW_EACH) count += 1 + count_blocks(stmt[i].body.n, stmt[i].body.stmt);
  return count;
}

bool atvi_lang_has_statement(atvi_idx n, const ast_stmt *stmt, ast_keyword kind) {
  for (atvi_idx i = 0; i < n; i++)
    if (stmt[i].kind == kind || (kind == KW_NEXT && atvi_lang_convolves(&stmt[i])) ||
        (stmt[i].kind == KW_EACH && atvi_lang_has_statement(stmt[i].body.n, stmt[i].body.stmt, kind)))
      return true;
  return false;
}

/* Statements outside speak of other data than a unit's: these are left to the whole model. */
static bool seen_inside(const ast_stmt *st) {
  return st->kind != KW_DATA && st->kind != KW_OBSERVE && st->kind != KW_LOGP;
}

static bool sight(elab *e, const ast_stmt *block, ast_file *file) {
  *file = (ast_file){0};
  if (!(file->stmt = atvi_lang_take(e->s, e->file->n + block->body.n, sizeof *file->stmt))) return false;
  for (atvi_idx i = 0; i < e->file->n; i++)
    if (seen_inside(&e->file->stmt[i])) file->stmt[file->n++] = e->file->stmt[i];
  for (atvi_idx i = 0; i < block->body.n; i++) file->stmt[file->n++] = block->body.stmt[i];
  return true;
}

/* What is not about the block as a whole. */
static bool supported(elab *e, const elab_each *each) {
  for (atvi_idx i = 0; i < each->file.n; i++) {
    const ast_stmt *st = &each->file.stmt[i];
    bool outside = st->kind == KW_SIMULATOR || st->kind == KW_EMULATOR;
    if (!outside && !st->dist.n_term) continue;
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
    if (sym->level < e->in.level) {
      if (sym->kind == SYM_PARAM) *n_outer += sym->total;
      continue;
    }
    elements += sym->total;
    if (sym->kind == SYM_PARAM) own += sym->total;
  }
  if (too_large(e, e->in.each, elements, whole->effort.elements, ELAB_MAX_ELEMENTS, "elements") ||
      too_large(e, e->in.each, own, whole->lang->blocks.n_param, ELAB_MAX_PARAMS, "parameters"))
    return false;
  whole->effort.elements += elements * e->in.each->n_unit;
  return true;
}

/* What the elaboration of a later unit changes, as before it. */
static atvi_lang *next_unit(elab *e, const atvi_lang *first) {
  atvi_lang *lang = atvi_lang_take(e->s, 1, sizeof *lang);
  if (!lang) return NULL;
  *lang = *first;
  lang->n_data = lang->dynamics.n_pulse = lang->n_observe = 0;
  return lang;
}

static bool same_nodes(atvi_idx n, const atvi_node *a, const atvi_node *b) {
  return memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

/* Programs are made from the first unit and run for all. */
static bool alike(const atvi_lang *a, const atvi_lang *b) {
  bool same = a->n_table == b->n_table && a->dynamics.n_pulse == b->dynamics.n_pulse &&
              a->n_observe == b->n_observe && a->n_data == b->n_data;
  for (atvi_idx i = 0; same && i < a->dynamics.n_pulse; i++) {
    const atvi_lang_pulse *p = &a->dynamics.pulse[i], *q = &b->dynamics.pulse[i];
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
  const elab_each *each = e->in.each;
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
  for (const elab_each *each = e->in.each; each; each = each->outer) {
    e->in.unit[each->stmt->level + 1] = u;
    u = each->unit[u].parent;
  }
}

static bool unit(elab *e, atvi_idx u, atvi_lang *first) {
  atvi_lang_unit *out = &e->in.each->block->unit[u];
  stand_at(e, u);
  if (u && !(e->lang = next_unit(e, first))) return false;
  out->label = atvi_lang_unit_label(e, e->in.level);
  out->lang = e->lang;
  if (!atvi_lang_tables(e) || !atvi_lang_elab_data(e) || (u && !atvi_lang_check_indices(e)) ||
      !atvi_lang_start(e) || (!u && (!atvi_lang_params(e) || !atvi_lang_states(e))) || !atvi_lang_pulses(e) ||
      !atvi_lang_elab_observe(e) || (!u && !atvi_lang_values(e)) || !covariates(e, &out->covariate) ||
      !atvi_lang_check_unit_indices(e, out->covariate))
    return false;
  if (u == 0 || alike(first, e->lang)) return true;
  atvi_lang_error(e->s, e->in.each->stmt->at, "this is a fault of the program, not of the model",
                  "the unit '%.60s' has other equations than the first", out->label);
  return false;
}

/* Programs have room for the pulses of every unit. */
static void same_times(const atvi_lang_block *block) {
  for (atvi_idx p = 0; p < block->unit[0].lang->dynamics.n_pulse; p++) {
    atvi_idx most = 0;
    for (atvi_idx u = 0; u < block->n_unit; u++)
      if (block->unit[u].lang->dynamics.pulse[p].n_same > most)
        most = block->unit[u].lang->dynamics.pulse[p].n_same;
    for (atvi_idx u = 0; u < block->n_unit; u++) block->unit[u].lang->dynamics.pulse[p].n_same = most;
  }
}

static bool units(elab *e, elab *whole) {
  atvi_lang_block *block = e->in.each->block;
  atvi_lang *first = e->lang;
  atvi_idx base = whole->lang->blocks.n_param;
  if (!atvi_lang_declare(e) || !atvi_lang_settings(e) || !atvi_lang_walks(e) || !atvi_lang_shapes(e) ||
      !count(e, whole, &block->n_outer))
    return false;
  atvi_lang_numbers(e);
  block->n_unit = e->in.each->n_unit;
  if (!(block->unit = atvi_lang_take(e->s, block->n_unit, sizeof *block->unit))) return false;
  for (atvi_idx u = 0; u < block->n_unit; u++)
    if (!unit(e, u, first) || !places(e, u, base)) return false;
  same_times(block);
  whole->lang->blocks.n_param += (first->n_param - block->n_outer) * block->n_unit;
  const char **name = atvi_lang_take(e->s, e->covariate.n, sizeof *name);
  for (atvi_idx k = 0; name && k < e->covariate.n; k++) name[k] = e->covariate.of[k].name;
  block->n_covariate = e->covariate.n;
  block->covariate = name;
  return name != NULL;
}

static bool inner_blocks(elab *e, elab *whole);

static bool block(elab *outer, elab *whole, const ast_stmt *st) {
  elab_each *each = atvi_lang_take(outer->s, 1, sizeof *each);
  atvi_lang *lang = atvi_lang_take(outer->s, 1, sizeof *lang);
  if (!each || !lang) return false;
  *each = (elab_each){
      .stmt = st, .outer = outer->in.each, .block = &whole->lang->blocks.block[whole->in.n_each++]};
  *lang = (atvi_lang){.pool = whole->lang->pool,
                      .graph = whole->lang->graph,
                      .path = whole->lang->path,
                      .source = whole->lang->source};
  *each->block = (atvi_lang_block){.name = st->name->text, .place = st->at};
  if (each->outer && !(each->block->name = atvi_pool_printf(outer->s->pool, "%s.%s", each->outer->block->name,
                                                            st->name->text)))
    return atvi_lang_nomem(outer->s), false;
  if (!sight(outer, st, &each->file) || !supported(outer, each) || !read_units(outer, each)) return false;
  elab e = {.s = outer->s,
            .words = outer->words,
            .opts = outer->opts,
            .tree = outer->tree,
            .g = outer->g,
            .file = &each->file,
            .in.each = each,
            .in.level = outer->in.level + 1,
            .lang = lang,
            .effort.nodes = whole->effort.nodes};
  if (!(e.files = atvi_lang_take(e.s, each->file.n, sizeof *e.files)) || !units(&e, whole)) return false;
  whole->effort.nodes = e.effort.nodes;
  for (atvi_idx i = 0; i < e.n_symbol; i++) e.symbol[i]->word->symbol = NULL;
  return inner_blocks(&e, whole);
}

static bool inner_blocks(elab *e, elab *whole) {
  for (atvi_idx i = 0; i < e->file->n; i++) {
    const ast_stmt *st = &e->file->stmt[i];
    if (st->kind == KW_EACH && st->level == e->in.level && !block(e, whole, st)) return false;
  }
  return true;
}

static int by_name(const void *pa, const void *pb) {
  const atvi_lang_param *a = *(const atvi_lang_param *const *)pa, *b = *(const atvi_lang_param *const *)pb;
  return strcmp(a->name, b->name);
}

static bool unique_names(elab *e) {
  atvi_idx n = e->lang->blocks.n_param;
  const atvi_lang_param **p = atvi_lang_take(e->s, n, sizeof *p);
  if (!p) return false;
  for (atvi_idx i = 0; i < n; i++) p[i] = &e->lang->blocks.param[i];
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
  if (!(lang->blocks.param = atvi_lang_take(e->s, lang->blocks.n_param, sizeof *lang->blocks.param)))
    return false;
  for (atvi_idx i = 0; i < lang->n_param; i++) lang->blocks.param[i] = lang->param[i];
  for (atvi_idx b = 0; b < lang->blocks.n_block; b++)
    for (atvi_idx u = 0; u < lang->blocks.block[b].n_unit; u++) {
      const atvi_lang_unit *unit = &lang->blocks.block[b].unit[u];
      for (atvi_idx i = lang->blocks.block[b].n_outer; i < unit->lang->n_param; i++) {
        atvi_lang_param *p = &lang->blocks.param[unit->param[i]];
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
  if (!(e->lang->blocks.block = atvi_lang_take(e->s, n, sizeof *e->lang->blocks.block))) return false;
  e->lang->blocks.n_block = n;
  return true;
}

bool atvi_lang_blocks(elab *e) {
  e->lang->blocks.n_param = e->lang->n_param;
  e->lang->blocks.param = e->lang->param;
  if (!e->lang->blocks.n_block) return true;
  for (atvi_idx i = 0; i < e->n_symbol; i++) e->symbol[i]->word->symbol = NULL;
  return inner_blocks(e, e) && all_params(e);
}
