/* SPDX-License-Identifier: MIT */
/* Data files: reading them, their times and values, constants from files; their columns. */
#include "lang/elab.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

const char *atvi_lang_path_beside(elab *e, const char *file) {
  const char *slash = strrchr(e->s->path, '/');
  const char *path = file;
  if (file[0] != '/' && slash)
    path = atvi_pool_printf(e->s->pool, "%.*s/%s", (int)(slash - e->s->path), e->s->path, file);
  if (!path) atvi_lang_nomem(e->s);
  return path;
}

const char *atvi_lang_path(elab *e, const char *file) {
  if (!e->lang->folder || file[0] == '/') return atvi_lang_path_beside(e, file);
  const char *path = atvi_pool_printf(e->s->pool, "%s/%s", e->lang->folder, file);
  if (!path) atvi_lang_nomem(e->s);
  return path;
}

/* replaced: it was given instead of the model's. */
static void no_file(elab *e, atvi_place at, bool replaced, const char *path) {
  bool given = e->opts && e->opts->folder, named = e->lang->folder && !given && !replaced;
  const char *hint = replaced ? "the file given in place of the model's is looked for from the working folder"
                     : given  ? "files are looked for in the folder that was given in place of the model's"
                     : named  ? "files are looked for in the folder that the model names"
                              : "files are looked for next to the model file";
  bool first = e->s->status == ATVI_OK;
  atvi_lang_error(e->s, at, hint, "there is no file %s", path);
  if (first && named) e->s->status = atvi_fail_as(e->s->ctx, ATVI_CODE_FILE_MISSING, e->s->status);
}

/* Asks without opening: a pipe can be opened once only. */
static bool exists(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

static bool is_empty(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0;
}

/* Reads a file once, and takes the rows of the present unit. */
static bool read_whole(elab *e, const ast_stmt *st, const char *path, bool replaced, const atvi_csv **csv) {
  atvi_csv *all;
  if (!exists(path)) return no_file(e, st->file.at, replaced, path), false;
  atvi_status status = atvi_io_csv_read(e->s->pool, path, &all);
  if (status != ATVI_OK) return atvi_lang_file_error(e->s, status, st->file.at), false;
  *csv = all;
  return true;
}

static bool read_rows(elab *e, const ast_stmt *st, const char *path, bool replaced, const atvi_csv **csv) {
  elab_grouped *file = &e->files[st - e->file->stmt];
  if (!file->csv) file->csv = st->file.csv;
  if (!file->csv && !read_whole(e, st, path, replaced, &file->csv)) return false;
  return atvi_lang_unit_rows(e, st, file->csv, csv);
}

static bool named(const ast_stmt *st, const char *name) {
  bool may = st->kind == KW_DATA || st->kind == KW_EACH;
  return (may && st->name && strcmp(st->name->text, name) == 0) ||
         (st->file.name && strcmp(st->file.name, name) == 0);
}

/* The file given instead of that of a statement, by its name or by that of the file; NULL: none. */
static const char *given_for(const elab *e, const ast_stmt *st) {
  for (atvi_idx i = 0; e->opts && i < e->opts->n_data; i++) {
    const char *name = e->opts->data[i].name;
    if (name && *name && named(st, name)) return e->opts->data[i].path;
  }
  return NULL;
}

bool atvi_lang_csv(elab *e, const ast_stmt *st, const atvi_csv **csv) {
  const char *given = given_for(e, st), *path = given ? given : atvi_lang_path(e, st->file.name);
  return path && read_rows(e, st, path, given != NULL, csv);
}

/* Data sets of the whole model: how many, and whether one has that name. */
static atvi_idx count_data(atvi_idx n, const ast_stmt *stmt, const char *name, bool *known) {
  atvi_idx count = 0;
  for (atvi_idx i = 0; i < n; i++) {
    if (stmt[i].kind == KW_EACH) count += count_data(stmt[i].body.n, stmt[i].body.stmt, name, known);
    *known = *known || (name && named(&stmt[i], name));
    count += stmt[i].kind == KW_DATA;
  }
  return count;
}

/* The file to read for a data set: the model's, or one given in its place. */
static const char *file_for(elab *e, const ast_stmt *st, bool *replaced) {
  *replaced = true;
  for (atvi_idx i = 0; e->opts && i < e->opts->n_data; i++) {
    const atvi_data_file *r = &e->opts->data[i];
    bool whole = !r->name || !*r->name, known = false;
    if (whole ? count_data(e->tree->n, e->tree->stmt, NULL, &known) == 1 : named(st, r->name)) return r->path;
  }
  *replaced = false;
  return atvi_lang_path(e, st->file.name);
}

static bool check_replacements(elab *e) {
  for (atvi_idx i = 0; e->opts && i < e->opts->n_data; i++) {
    const char *name = e->opts->data[i].name;
    bool known = false;
    atvi_idx n = count_data(e->tree->n, e->tree->stmt, name, &known);
    if (!name || !*name) {
      if (n == 1) continue;
      e->s->status = ATVI_FAIL_AS(e->s->ctx, ATVI_EMODEL, ATVI_CODE_DATA_UNNAMED,
                                  "%s: error: the model has %td data files, so which one is %s?\nhint: give "
                                  "the data sets names in the model",
                                  e->s->path, n, e->opts->data[i].path);
      return false;
    }
    if (known) continue;
    e->s->status = ATVI_FAIL(e->s->ctx, ATVI_EMODEL,
                             "%s: error: the model has no data set '%s'\nhint: a data set gets its name in "
                             "the model: data %s \"file.csv\"; a file can be replaced by its name, too",
                             e->s->path, name, name);
    return false;
  }
  return true;
}

bool atvi_lang_time_cell(elab *e, const atvi_csv *csv, atvi_idx row, atvi_idx col, atvi_place about,
                         double *t) {
  atvi_idx at = row * csv->n_col + col;
  int kind = csv->kind[at];
  const char *hint =
      strcmp(csv->text[at], "inf") == 0
          ? "write a time by which nothing changes any more, such as 1e5; 'start steady' begins at rest"
          : "times are numbers, or dates such as 2009-12-19";
  const int first = csv->kind[col], other = ATVI_CELL_NUMBER + ATVI_CELL_DATE - kind;
  if ((kind == ATVI_CELL_NUMBER || kind == ATVI_CELL_DATE) && first == other) {
    atvi_lang_data_error(e->s, csv, row, col, about, "write all of them in one way",
                         "'%.60s' is a %s, but the times of this column begin with a %s", csv->text[at],
                         kind == ATVI_CELL_DATE ? "date" : "number",
                         kind == ATVI_CELL_DATE ? "number" : "date");
    return false;
  }
  if (kind == ATVI_CELL_NUMBER) return *t = csv->value[at], true;
  if (kind == ATVI_CELL_DATE && e->lang->time.calendar.unit)
    return *t = atvi_io_calendar_time(e->lang->time.calendar, csv->value[at]), true;
  if (kind == ATVI_CELL_DATE) hint = "say what date t = 0 is, for example: calendar 2009-12-19 week";
  if (kind == ATVI_CELL_MISSING)
    atvi_lang_data_error(e->s, csv, row, col, about, "every row needs its time", "the time is missing");
  else
    atvi_lang_data_error(e->s, csv, row, col, about, hint, "'%.60s' cannot be used as a time", csv->text[at]);
  return false;
}

static bool read_times(elab *e, const ast_stmt *st, atvi_lang_data *data, atvi_idx *col) {
  const atvi_csv *csv = data->csv;
  *col = -1;
  if (!st->column.time) return true;
  if ((*col = atvi_lang_find_column(e, csv, st->column.time, st->column.time_at)) < 0) return false;
  double *t = atvi_lang_take(e->s, csv->n_row, sizeof *t);
  for (atvi_idx r = 0; t && r < csv->n_row; r++) {
    if (!atvi_lang_time_cell(e, csv, r, *col, st->column.time_at, &t[r])) return false;
    if (r > 0 && t[r] < t[r - 1]) {
      atvi_lang_data_error(e->s, csv, r, *col, st->column.time_at, "sort the file by time",
                           "the times are not ascending: %g follows %g", t[r], t[r - 1]);
      return false;
    }
  }
  data->time = t;
  return t != NULL;
}

/* Everything that is a number or can become one; the rest is NaN and complained about when asked for. */
static bool read_values(elab *e, atvi_lang_data *data, atvi_idx time_col) {
  const atvi_csv *csv = data->csv;
  double *value = atvi_lang_take(e->s, csv->n_row * csv->n_col, sizeof *value);
  if (!value) return false;
  for (atvi_idx r = 0; r < csv->n_row; r++)
    for (atvi_idx c = 0; c < csv->n_col; c++) {
      atvi_idx at = r * csv->n_col + c;
      value[at] = csv->value[at];
      if (c == time_col)
        value[at] = data->time[r];
      else if (csv->kind[at] == ATVI_CELL_DATE)
        value[at] =
            e->lang->time.calendar.unit ? atvi_io_calendar_time(e->lang->time.calendar, csv->value[at]) : NAN;
      else if (csv->kind[at] == ATVI_CELL_MISSING || csv->kind[at] == ATVI_CELL_TEXT)
        value[at] = NAN;
    }
  data->n_row = csv->n_row;
  data->n_col = csv->n_col;
  data->value = value;
  return true;
}

static bool load(elab *e, const ast_stmt *st, atvi_lang_data *data) {
  bool replaced;
  data->path = file_for(e, st, &replaced);
  data->time_name = st->column.time;
  if (!data->path) return false;
  /* `atvi simulate ... > data.csv` empties the file before it is read; and it is of other units where these
   * were replaced */
  bool others = false;
  for (const elab_each *each = e->in.each; each; each = each->outer)
    others = others || given_for(e, each->stmt);
  if (e->opts && e->opts->data_optional && !replaced &&
      (others || !exists(data->path) || is_empty(data->path)))
    return true;
  if (!read_rows(e, st, data->path, replaced, &data->csv)) return false;
  atvi_idx time_col;
  return read_times(e, st, data, &time_col) && read_values(e, data, time_col);
}

/* A pipe can be read once: the file is kept with its statement. */
static bool range_of(elab *e, ast_stmt *st, double *first, double *last) {
  bool replaced;
  const char *path = file_for(e, st, &replaced);
  if (!path) return false;
  if (e->opts && e->opts->data_optional && !replaced && (!exists(path) || is_empty(path))) return true;
  if (!st->file.csv && !read_whole(e, st, path, replaced, &st->file.csv)) return false;
  atvi_idx column = atvi_lang_find_column(e, st->file.csv, st->column.time, st->column.time_at);
  for (atvi_idx r = 0; column >= 0 && r < st->file.csv->n_row; r++) {
    double t;
    if (!atvi_lang_time_cell(e, st->file.csv, r, column, st->column.time_at, &t)) return false;
    *first = fmin(*first, t);
    *last = fmax(*last, t);
  }
  return column >= 0;
}

static bool range_in(elab *e, atvi_idx n, ast_stmt *stmt, double *first, double *last) {
  for (atvi_idx i = 0; i < n; i++) {
    if (stmt[i].kind == KW_EACH && !range_in(e, stmt[i].body.n, stmt[i].body.stmt, first, last)) return false;
    if (stmt[i].kind == KW_DATA && stmt[i].column.time && !range_of(e, &stmt[i], first, last)) return false;
  }
  return true;
}

bool atvi_lang_data_range(elab *e, double *first, double *last) {
  *first = INFINITY;
  *last = -INFINITY;
  return range_in(e, e->tree->n, e->tree->stmt, first, last);
}

bool atvi_lang_elab_data(elab *e) {
  atvi_idx n = 0;
  for (atvi_idx i = 0; i < e->file->n; i++) n += e->file->stmt[i].kind == KW_DATA;
  e->lang->data = atvi_lang_take(e->s, n, sizeof *e->lang->data);
  e->data_stmt = atvi_lang_take(e->s, n, sizeof *e->data_stmt);
  e->observed = atvi_lang_take(e->s, n, sizeof *e->observed);
  if (!e->lang->data || !e->data_stmt || !e->observed) return false;
  if (n > 1000)
    return atvi_lang_error(e->s, e->file->stmt[0].at, "join files that have the same times",
                           "more than 1000 data files"),
           false;
  for (atvi_idx i = 0; i < e->file->n; i++) {
    const ast_stmt *st = &e->file->stmt[i];
    if (st->kind != KW_DATA) continue;
    e->data_stmt[e->lang->n_data] = st;
    e->lang->data[e->lang->n_data].name = st->name ? st->name->text : "";
    e->lang->data[e->lang->n_data].file = e->lang->n_data;
    if (st->name) st->name->symbol->base = e->lang->n_data;
    e->lang->n_data++;
  }
  if (!check_replacements(e)) return false;
  for (atvi_idx d = 0; d < n; d++)
    if (!load(e, e->data_stmt[d], &e->lang->data[d])) return false;
  for (atvi_idx d = 0; d < n; d++)
    if (e->lang->data[d].csv &&
        !(e->observed[d] = atvi_lang_take(e->s, e->lang->data[d].n_col, sizeof **e->observed)))
      return false;
  return true;
}

/* Columns of the file that a constant takes: [*first, *first + n). All, unless it says which. */
static bool const_columns(elab *e, const ast_stmt *st, const atvi_csv *csv, atvi_idx *first, atvi_idx *n) {
  *first = 0;
  *n = csv->n_col;
  if (st->words.n > 1) {
    atvi_lang_error(e->s, st->words.token[1].at, "neighbouring columns are given by position: columns 2..6",
                    "one column can be given by name");
    return false;
  }
  if (st->words.n) {
    const ast_token *w = &st->words.token[0];
    *first = atvi_lang_find_column(e, csv, w->kind == TOK_STRING ? w->text : w->word->text, w->at);
    *n = 1;
    return *first >= 0;
  }
  if (!st->column.first) return true;
  atvi_idx from, to;
  if (!atvi_lang_whole(e, NULL, st->column.first, "the position of a column", &from)) return false;
  to = from;
  if (st->column.last && !atvi_lang_whole(e, NULL, st->column.last, "the position of a column", &to))
    return false;
  if (from < 1 || to < from || to > csv->n_col) {
    atvi_lang_error(e->s, st->column.at, "columns are counted from 1",
                    "there are no columns %td..%td: %s has %td", from, to, csv->path, csv->n_col);
    return false;
  }
  *first = from - 1;
  *n = to - from + 1;
  return true;
}

static bool fill(elab *e, elab_symbol *sym, const atvi_csv *csv) {
  const ast_stmt *st = sym->stmt;
  atvi_idx cols = sym->n_dim >= 2 ? sym->dim[sym->n_dim - 1].n : 1, rows = sym->total / cols, first, n;
  if (!const_columns(e, st, csv, &first, &n)) return false;
  bool row = sym->n_dim == 1 && csv->n_row == 1 && n == rows;
  if (!row && (csv->n_row != rows || n != cols)) {
    atvi_lang_error(e->s, st->file.at, "one line per row, one column per element; a header line is allowed",
                    "wrong shape: '%.60s' needs %td rows of %td, %s has %td rows of %td", sym->word->text,
                    rows, cols, csv->path, csv->n_row, n);
    return false;
  }
  for (atvi_idx k = 0; k < sym->total; k++) {
    atvi_idx r = row ? 0 : k / cols, c = first + (row ? k : k % cols), at = r * csv->n_col + c;
    if (csv->kind[at] != ATVI_CELL_NUMBER) {
      atvi_lang_data_error(e->s, csv, r, c, st->file.at, "every cell must be a number",
                           "'%.60s' is not a number", csv->text[at]);
      return false;
    }
    sym->memo[k] = (elab_memo){atvi_graph_const(e->g, csv->value[at]), MEMO_DONE, -1};
  }
  return true;
}

/* Rows of the file are the last index but one; a vector may be a row or a column. */
bool atvi_lang_const_file(elab *e, elab_symbol *sym) {
  const atvi_csv *csv;
  if (sym->busy) {
    atvi_lang_error(e->s, sym->stmt->column.at, "give the position as a number",
                    "the column of '%.60s' depends on itself", sym->word->text);
    return false;
  }
  sym->busy = true;
  bool ok = atvi_lang_csv(e, sym->stmt, &csv) && fill(e, sym, csv);
  sym->busy = false;
  return ok;
}

/* Columns of data files: finding them by name, those of the elements of arrays, and columns as names in
 * expressions. */

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
