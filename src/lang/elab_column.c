/* SPDX-License-Identifier: MIT */
/* Columns of data files: finding them by name, those of the elements of arrays, and columns as names in expressions. */
#include "lang/elab.h"
#include <stdio.h>
#include <string.h>

const char *atvi_lang_columns(elab *e, const atvi_csv *csv) {
  char list[300] = "";
  size_t used = 0;
  for (atvi_idx k = 0; k < csv->n_col; k++)
    if (used + strlen(csv->name[k]) + 8 < sizeof list)
      used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", csv->name[k]);
  return atvi_pool_printf(e->s->pool, "the columns of %s are: %s", csv->path, list);
}

atvi_idx atvi_lang_find_column(elab *e, const atvi_csv *csv, const char *name, atvi_place at) {
  atvi_idx c = atvi_io_csv_find(csv, name);
  if (c >= 0) return c;
  ast_guess g = {.text = name};
  for (atvi_idx k = 0; k < csv->n_col; k++) atvi_lang_guess(&g, csv->name[k]);
  const char *hint = g.best        ? atvi_pool_printf(e->s->pool, "did you mean '%.60s'?", g.best)
                     : csv->header ? atvi_lang_columns(e, csv)
                                   : "the file has no header line; its columns are called 1, 2, ...";
  atvi_lang_error(e->s, at, hint, "there is no column '%.60s' in %s", name, csv->path);
  return -1;
}

void atvi_lang_spell(elab_spelling *s, const elab_symbol *labels, atvi_idx value) {
  int d = s->n++;
  if (labels && value >= 1 && value <= labels->dim[0].n) {
    s->part[d] = labels->label[value - 1];
  } else {
    snprintf(s->number[d], sizeof s->number[d], "%td", value);
    s->part[d] = s->number[d];
  }
}

/* How the name of an element is spelled: before the first index, before the others, at the end. */
enum { FORMS = 4 };
static const char *const FORM[FORMS][3] = {{".", ".", ""}, {"_", "_", ""}, {"", "_", ""}, {"[", ",", "]"}};

atvi_idx atvi_lang_spelled(const atvi_csv *csv, const char *base, const elab_spelling *s) {
  for (int f = 0; f < FORMS; f++) {
    char name[300];
    int used = snprintf(name, sizeof name, "%s", base);
    for (int d = 0; d < s->n && used < (int)sizeof name; d++)
      used += snprintf(name + used, sizeof name - (size_t)used, "%s%s", FORM[f][d ? 1 : 0], s->part[d]);
    if (used < (int)sizeof name) used += snprintf(name + used, sizeof name - (size_t)used, "%s", FORM[f][2]);
    atvi_idx c = used < (int)sizeof name ? atvi_io_csv_find(csv, name) : -1;
    if (c >= 0) return c;
  }
  return -1;
}

/* The set of labels that an index such as north, i or i - 1 runs over; NULL if none. */
static const elab_symbol *labels_of(const elab_env *v, const ast_expr *x) {
  if (x->kind == EX_NAME && x->n == 0 && !x->qualifier) {
    const elab_binding *b = NULL;
    const elab_symbol *sym = atvi_lang_find(v, x->word, &b);
    if (b) return b->set;
    return sym && sym->kind == SYM_LABEL ? sym->stmt->name->symbol : NULL;
  }
  const elab_symbol *set = NULL;
  if (x->kind == EX_BINARY || x->kind == EX_IF)
    for (atvi_idx i = 0; i < x->n && !set; i++) set = labels_of(v, x->arg[i]);
  return set;
}

bool atvi_lang_has_column(const atvi_csv *csv, const ast_expr *x) {
  size_t n = strlen(x->word->text);
  if (!x->n) return atvi_io_csv_find(csv, x->word->text) >= 0;
  for (atvi_idx c = 0; c < csv->n_col; c++)
    if (strncmp(csv->name[c], x->word->text, n) == 0 && strspn(csv->name[c] + n, "._[0123456789"))
      return true;
  return false;
}

bool atvi_lang_column_as_index(elab *e, const elab_env *v, const ast_expr *x) {
  if (x->kind == EX_BINARY)
    return atvi_lang_column_as_index(e, v, x->arg[0]) || atvi_lang_column_as_index(e, v, x->arg[1]);
  if (x->kind != EX_NAME || x->n) return false;
  const elab_binding *b = NULL;
  if (!x->qualifier && (atvi_lang_find(v, x->word, &b) || b)) return false;
  for (atvi_idx d = 0; d < e->lang->n_data; d++) {
    if (!e->lang->data[d].csv || !atvi_lang_has_column(e->lang->data[d].csv, x)) continue;
    atvi_lang_error(
        e->s, x->at,
        "in the arguments of 'observe' it can be the index of an array of the model; columns cases.north and "
        "cases.south are observe cases[i in region] ~ ..., with index region = north, south",
        "an index cannot be a column of the data here, and '%.60s' is one", x->word->text);
    return true;
  }
  return false;
}

/* The names under which an element is looked for; NULL: out of memory. */
static const char *spellings(elab *e, const char *base, const elab_spelling *s) {
  const char *list = "elements are looked for as ";
  for (int f = 0; f < FORMS && list; f++) {
    if (f) list = atvi_pool_printf(e->s->pool, "%s%s", list, f == FORMS - 1 ? " and " : ", ");
    for (int d = 0; d < s->n && list; d++)
      list = atvi_pool_printf(e->s->pool, "%s%s%s%.60s", list, d ? "" : base, FORM[f][d ? 1 : 0], s->part[d]);
    if (list) list = atvi_pool_printf(e->s->pool, "%s%s", list, FORM[f][2]);
  }
  return list;
}

/* Column of n[i]; *found says whether there is one or a message was given. */
static atvi_idx element_column(elab *e, const elab_env *v, const ast_expr *x, const atvi_csv *csv,
                               bool *found) {
  elab_spelling s = {0};
  *found = true;
  for (atvi_idx d = 0; d < x->n; d++) {
    atvi_idx value;
    if (atvi_lang_column_as_index(e, v, x->arg[d]) ||
        !atvi_lang_whole(e, v->vars, x->arg[d], "an index", &value))
      return -1;
    atvi_lang_spell(&s, labels_of(v, x->arg[d]), value);
  }
  const char *base = x->word->text, *name = base;
  atvi_idx c = atvi_lang_spelled(csv, base, &s);
  if (c >= 0) return c;
  for (int d = 0; name && d < s.n; d++) name = atvi_pool_printf(e->s->pool, "%s.%s", name, s.part[d]);
  const char *hint = spellings(e, base, &s);
  if (!name || !hint) return atvi_lang_nomem(e->s), -1;
  if (atvi_io_csv_find(csv, base) >= 0)
    atvi_lang_error(e->s, x->at, "name the column itself, or have one column per element",
                    "wrong shape: the column '%.60s' has no elements, and there is no column '%.60s'", base,
                    name);
  else if (x->qualifier || atvi_lang_has_column(csv, x))
    atvi_lang_error(e->s, x->at, hint, "there is no column '%.60s' in %s", name, csv->path);
  else
    *found = false;
  return -1;
}

/* A column of the file of a pulse. */
static atvi_node row_value(elab *e, elab_rows *rows, const ast_expr *x, bool *found) {
  atvi_idx c = x->n || x->qualifier ? -1 : atvi_io_csv_find(rows->csv, x->word->text), k = 0;
  if (!(*found = c >= 0)) return ATVI_NODE_NONE;
  while (k < rows->n && rows->column[k] != c) k++;
  if (k == rows->n) {
    if (!ATVI_PUSH(e->s->pool, rows->column, rows->n, rows->cap))
      return atvi_lang_nomem(e->s), ATVI_NODE_NONE;
    rows->column[rows->n++] = c;
  }
  return atvi_graph_input(e->g, ATVI_IN_DATA, k);
}

/* A name that the model does not define: a column of the observation's data. */
atvi_node atvi_lang_column(elab *e, const elab_env *v, const ast_expr *x, bool *found) {
  *found = false;
  if (x->qualifier) {
    const elab_symbol *set = atvi_lang_symbol(e, x->qualifier, SYM_DATA);
    *found = true;
    if (!set || set->base != v->data) {
      const char *hint =
          set ? "an observation can use only the columns of its own data file"
              : "only columns of data sets are written with a dot; elements of arrays are X[i]";
      atvi_lang_error(e->s, x->at, hint, "'%.60s.%.60s' cannot be used here", x->qualifier->text,
                      x->word->text);
      return ATVI_NODE_NONE;
    }
  }
  if (v->rows) return row_value(e, v->rows, x, found);
  if (v->data < 0 || !(v->allowed & ELAB_KIND(ATVI_IN_DATA))) return ATVI_NODE_NONE;
  const atvi_lang_data *data = &e->lang->data[v->data];
  atvi_idx c;
  if (!data->csv) {
    *found = true;
    atvi_lang_error(e->s, x->at, "without the file its columns are not known",
                    "unknown name '%.60s': perhaps a column of %s, which does not exist", x->word->text,
                    data->path);
    return ATVI_NODE_NONE;
  }
  if (x->n) {
    c = element_column(e, v, x, data->csv, found);
  } else {
    c = atvi_io_csv_find(data->csv, x->word->text);
    if (c < 0 && x->qualifier) atvi_lang_find_column(e, data->csv, x->word->text, x->at);
    *found = c >= 0 || x->qualifier;
  }
  return c >= 0 ? atvi_graph_input(e->g, ATVI_IN_DATA, c) : ATVI_NODE_NONE;
}
