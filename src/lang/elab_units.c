/* SPDX-License-Identifier: MIT */
/* Units of a block: their labels, which rows of a file are theirs, and the numbers of their own file.
 *
 * A label is found by (label, unit of the enclosing block) in a sorted list. A long file is cut up once: its rows are grouped by
 * unit when the first one asks. */
#include "lang/elab.h"
#include <math.h>
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
  const elab_each *each = e->each;
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
                "add a column '%.60s' that says whose row it is; what all share stands outside the block",
                name);
  if (!hint) return atvi_lang_nomem(e->s), false;
  atvi_lang_error(e->s, st->file_at, hint, "%s has no column '%.60s'", csv->path, name);
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
    atvi_lang_data_error(e->s, csv, row, column, st->file_at, BAD_LABEL, "'%.60s' cannot be a label",
                         csv->text[at]);
    return NULL;
  }
  atvi_lang_data_error(e->s, csv, row, column, st->file_at,
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
    atvi_lang_data_error(e->s, csv, row, column, st->file_at, hint, "%.60s '%.60s' is in more than one %.60s",
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
  atvi_lang_data_error(e->s, csv, row, column, st->file_at, hint, "there is no %.60s '%.60s'", name, label);
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

/* The unit that a row belongs to; -1 after an error. Columns of enclosing blocks may be missing where a label is unique. */
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
  if (n_outer * st->n_word > ELAB_MAX_ELEMENTS)
    return atvi_lang_error(e->s, st->at, "name fewer of them", "a model has at most %d units",
                           ELAB_MAX_ELEMENTS),
           false;
  if (!(each->unit = atvi_lang_take(e->s, n_outer * st->n_word, sizeof *each->unit))) return false;
  for (atvi_idx i = 0; i < st->n_word; i++) {
    if (!can_be_label(st->words[i].text)) {
      atvi_lang_error(e->s, st->words[i].at, BAD_LABEL, "'%.60s' cannot be a label", st->words[i].text);
      return false;
    }
    for (atvi_idx j = 0; j < i; j++)
      if (strcmp(st->words[i].text, st->words[j].text) == 0) {
        atvi_lang_error(e->s, st->words[i].at, "name it once", "'%.60s' is named twice", st->words[i].text);
        return false;
      }
  }
  for (atvi_idx p = 0; p < n_outer; p++)
    for (atvi_idx i = 0; i < st->n_word; i++)
      each->unit[each->n_unit++] = (elab_label){st->words[i].text, p, i};
  return true;
}

bool atvi_lang_units(elab *e, elab_each *each) {
  const ast_stmt *st = each->stmt;
  const atvi_csv *csv = NULL;
  if (st->file && !atvi_lang_csv(e, st, &csv)) return false;
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
    label = l == 1 ? each_of(e, l)->unit[e->unit[l]].label
                   : atvi_pool_printf(e->s->pool, "%s.%s", label, each_of(e, l)->unit[e->unit[l]].label);
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
  return cut(e, g, e->unit[st->level], csv);
}

/* The block whose file has a column of that name, and the column; NULL: none. */
static const elab_each *covariate_of(const elab *e, const elab_env *v, const ast_expr *x, atvi_idx *c) {
  const elab_each *each = x->n || x->qualifier ? NULL : e->each;
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
  const elab_grouped *g = &e->covariate[k].each->rows;
  atvi_idx unit = e->unit[e->covariate[k].each->stmt->level + 1];
  *csv = g->csv;
  *row = g->row[g->first[unit]];
  *column = e->covariate[k].column;
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
  while (k < e->n_covariate && (e->covariate[k].each != each || e->covariate[k].column != c)) k++;
  if (k == e->n_covariate) {
    if (!ATVI_PUSH(e->s->pool, e->covariate, e->n_covariate, e->covariate_cap))
      return atvi_lang_nomem(e->s), ATVI_NODE_NONE;
    e->covariate[e->n_covariate++] = (elab_covariate){each->rows.csv->name[c], each, c, x->at};
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
                         "'%.60s' is no label of the index set '%.60s'", text, v->name);
  else
    atvi_lang_data_error(e->s, csv, row, v->column, v->at, hint, "'%.60s' is not a number", text);
  return false;
}

static bool covariate(elab *e, const elab_covariate *v, double *value) {
  const elab_grouped *g = &v->each->rows;
  const atvi_csv *csv = g->csv;
  atvi_idx unit = e->unit[v->each->stmt->level + 1];
  for (atvi_idx i = g->first[unit]; i < g->first[unit + 1]; i++) {
    atvi_idx r = g->row[i], at = r * csv->n_col + v->column;
    double x = csv->value[at];
    if (csv->kind[at] == ATVI_CELL_MISSING) {
      atvi_lang_data_error(e->s, csv, r, v->column, v->at, "fill it in", "'%.60s' of this %.60s is missing",
                           v->name, block_name(v->each));
      return false;
    }
    if (csv->kind[at] == ATVI_CELL_DATE && e->lang->calendar.unit)
      x = atvi_io_calendar_time(e->lang->calendar, x);
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

bool atvi_lang_covariates(elab *e, const double **value) {
  double *x = atvi_lang_take(e->s, e->n_covariate, sizeof *x);
  for (atvi_idx k = 0; x && k < e->n_covariate; k++)
    if (!covariate(e, &e->covariate[k], &x[k])) return false;
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
        stmt[i].kind == KW_EACH ? home(stmt[i].n_body, stmt[i].body, &stmt[i], word) : NULL;
    if (found) return found;
  }
  return NULL;
}

bool atvi_lang_belongs(elab *e, const ast_word *word, atvi_place at) {
  const ast_stmt *block = home(e->tree->n, e->tree->stmt, NULL, word);
  if (!block) return false;
  const char *hint = atvi_pool_printf(
      e->s->pool, "what stands outside does not see it: move this into the block of line %d", block->at.line);
  if (!hint) return atvi_lang_nomem(e->s), true;
  atvi_lang_error(e->s, at, hint, "'%.60s' belongs to each %.60s", word->text, block->name->text);
  return true;
}
