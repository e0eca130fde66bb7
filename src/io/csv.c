/* SPDX-License-Identifier: MIT */
/* One pass over a private copy of the text. Cells are unquoted, trimmed and NUL-terminated in place, so a
 * cell costs no allocation: the table holds pointers into the copy. A row of c cells takes at least c bytes,
 * which bounds the number of rows and so all memory by the size of the file, whatever it contains. */
#include "io/csv.h"
#include "io/file.h"
#include "io/text.h"
#include <limits.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  atvi_pool *pool;
  atvi_ctx *ctx;
  const char *path;
  const char *source; /* [n_source] the original text, for messages */
  size_t n_source;
  char *p, *end;    /* *end is 0, and no earlier byte is */
  char *line_start; /* start of the current line */
  int line;         /* 1-based */
  int first_line;   /* line of the header or of the first row */
  char delim;
  bool comma; /* numbers have a decimal comma */
} scan;

typedef struct {
  char *text; /* NUL-terminated */
  size_t n;
  int line, column;
  bool last; /* of its row */
} cell;

static int clip(ptrdiff_t x) { return x > INT_MAX ? INT_MAX : (int)x; }

static int column_of(const scan *s, const char *at) { return clip(at - s->line_start + 1); }

/* path:line:column, what is wrong, the line, a caret, a hint. */
ATVI_PRINTF(5, 6)
static atvi_status complain(const scan *s, int line, int column, const char *hint, const char *fmt, ...) {
  char what[300], shown[ATVI_EXCERPT_BYTES];
  va_list args;
  va_start(args, fmt);
  vsnprintf(what, sizeof what, fmt, args);
  va_end(args);
  atvi_io_excerpt_clean(what);
  atvi_io_excerpt(s->source, s->n_source, line, column, true, shown);
  return ATVI_FAIL(s->ctx, ATVI_EDATA, "%s:%d:%d: error: %s\n%s\nhint: %s", s->path, line, column, what,
                   shown, hint);
}

static bool blank(const scan *s, char c) { return (c == ' ' || c == '\t') && c != s->delim; }

/* s->p is at a line ending (LF, CR LF or CR) or at the end: moves past it. */
static void end_line(scan *s) {
  if (s->p == s->end) return;
  if (*s->p == '\r' && s->p[1] == '\n') s->p++;
  s->p++;
  s->line_start = s->p;
  if (s->line < INT_MAX) s->line++;
}

/* From the start of a line: skips comment lines and empty lines, counting the latter. False at the end. */
static bool next_line(scan *s, atvi_idx *n_empty) {
  for (; s->p < s->end; end_line(s)) {
    char *p = s->p;
    while (blank(s, *p)) p++;
    if (*p == '#') {
      s->p = p + strcspn(p, "\r\n");
    } else if (*p == '\n' || *p == '\r' || p == s->end) {
      s->p = p;
      ++*n_empty;
    } else {
      return true;
    }
  }
  return false;
}

/* s->p is after the opening quote. Doubled quotes become one; line ends inside are kept. */
static atvi_status quoted_cell(scan *s, cell *c) {
  char *from = s->p, *to = s->p;
  c->text = to;
  for (;; from++) {
    if (from == s->end)
      return complain(s, c->line, c->column, "add a closing \" to the cell", "this quote is never closed");
    if (*from == '"') {
      if (from[1] != '"') break;
      from++;
    } else if (*from == '\n' || (*from == '\r' && from[1] != '\n')) {
      s->line_start = from + 1;
      if (s->line < INT_MAX) s->line++;
    }
    *to++ = *from;
  }
  c->n = (size_t)(to - c->text);
  s->p = from + 1;
  while (blank(s, *s->p)) s->p++;
  if (s->p < s->end && *s->p != s->delim && *s->p != '\n' && *s->p != '\r')
    return complain(s, s->line, column_of(s, s->p),
                    "put the whole cell in quotes, and write \"\" for a quote inside it",
                    "text after a closing quote");
  return ATVI_OK;
}

/* Takes the cell at s->p and moves past its separator or line ending. */
static atvi_status next_cell(scan *s, cell *c) {
  while (blank(s, *s->p)) s->p++;
  c->line = s->line;
  c->column = column_of(s, s->p);
  if (*s->p == '"') {
    s->p++;
    ATVI_TRY(quoted_cell(s, c));
    while (c->n && blank(s, *c->text)) c->text++, c->n--;
  } else {
    char *p = c->text = s->p;
    while (*p != s->delim && *p != '\n' && *p != '\r' && *p) p++;
    c->n = (size_t)(p - c->text);
    s->p = p;
  }
  while (c->n && blank(s, c->text[c->n - 1])) c->n--;
  c->last = s->p == s->end || *s->p != s->delim;
  if (c->last)
    end_line(s);
  else
    s->p++;
  c->text[c->n] = 0;
  return ATVI_OK;
}

static bool is_missing(const char *t, size_t n) {
  return n == 0 || (n == 1 && t[0] == '.') || (n == 2 && memcmp(t, "NA", 2) == 0) ||
         (n == 3 && (t[0] == 'N' || t[0] == 'n') && t[1] == 'a' && (t[2] == 'N' || t[2] == 'n'));
}

/* As atvi_io_parse_number, with a comma for the decimal point if the file has such numbers. */
static bool number(const scan *s, const char *t, size_t n, double *value) {
  char buf[ATVI_COMMA_BYTES];
  const char *comma = s->comma && n < sizeof buf ? memchr(t, ',', n) : NULL;
  if (!comma) return atvi_io_parse_number(t, n, value);
  if (memchr(t, '.', n)) return false;
  memcpy(buf, t, n);
  buf[comma - t] = '.';
  return atvi_io_parse_number(buf, n, value);
}

static atvi_cell_kind classify(const scan *s, const char *t, size_t n, double *value) {
  if (number(s, t, n, value)) return ATVI_CELL_NUMBER;
  *value = NAN;
  if (is_missing(t, n)) return ATVI_CELL_MISSING;
  if (t[0] == '<' || t[0] == '>') {
    size_t skip = n > 1 && t[1] == '=' ? 2 : 1;
    bool or_equal = skip == 2;
    while (skip < n && t[skip] == ' ') skip++;
    if (!number(s, t + skip, n - skip, value)) return ATVI_CELL_TEXT;
    if (t[0] == '<') return or_equal ? ATVI_CELL_LE : ATVI_CELL_LT;
    return or_equal ? ATVI_CELL_GE : ATVI_CELL_GT;
  }
  return atvi_io_parse_datetime(t, n, value) ? ATVI_CELL_DATE : ATVI_CELL_TEXT;
}

/* Three digits after the comma, as in 1,234: may be a number above a thousand rather than a fraction. */
static bool thousands(const char *t, size_t n) {
  const char *comma = memchr(t, ',', n);
  size_t before = (size_t)(comma - t), sign = t[0] == '-' || t[0] == '+';
  return n - before - 1 == 3 && before - sign >= 1 && before - sign <= 3 && t[sign] != '0';
}

typedef struct {
  atvi_idx comma, point; /* numbers with a decimal comma and with a decimal point */
  atvi_idx clear;        /* with a comma that cannot separate thousands */
  atvi_idx words;        /* neither numbers nor missing nor dates */
} census;

/* What the cell first .. last is if read with decimal commas. */
static void count_cell(census *c, const char *first, const char *last) {
  char buf[ATVI_COMMA_BYTES];
  double ignored;
  while (first < last && strchr(" \t\"<>=", *first)) first++;
  while (last > first && strchr(" \t\"", last[-1])) last--;
  size_t n = (size_t)(last - first);
  if (n >= sizeof buf) {
    c->words++;
    return;
  }
  memcpy(buf, first, n);
  buf[n] = 0;
  if (atvi_io_decimal_comma(buf)) {
    c->comma++;
    c->clear += !thousands(buf, n);
  } else if (atvi_io_parse_number(buf, n, &ignored)) {
    c->point += strchr(buf, '.') != NULL;
  } else {
    c->words += !is_missing(buf, n) && !atvi_io_parse_datetime(buf, n, &ignored);
  }
}

/* Cells between p and end when separated by delim, without comment lines. Ignores quotes, as it looks for
 * numbers. */
static census count_cells(const char *p, const char *end, char delim) {
  census c = {0};
  bool fresh = true; /* at the start of a line */
  for (; p < end; p++) {
    const char *from = p;
    bool comment = fresh && from[strspn(from, " \t")] == '#';
    while (p < end && (comment || *p != delim) && *p != '\n' && *p != '\r') p++;
    if (!comment) count_cell(&c, from, p);
    fresh = p == end || *p != delim;
  }
  return c;
}

/* The most frequent of comma, semicolon and tab outside quotes in the line at s->p; comma wins ties. But
 * numbers between semicolons may have commas: 1,5;2,5. */
static void find_delim(scan *s) {
  atvi_idx comma = 0, semicolon = 0, tab = 0;
  bool quoted = false;
  const char *p = s->p;
  for (; *p && (quoted || (*p != '\n' && *p != '\r')); p++) {
    if (*p == '"') quoted = !quoted;
    if (quoted) continue;
    comma += *p == ',';
    semicolon += *p == ';';
    tab += *p == '\t';
  }
  s->delim = comma >= semicolon && comma >= tab ? ',' : semicolon >= tab ? ';' : '\t';
  if (s->delim == ',' && semicolon > 0 && count_cells(s->p, p, ';').words == 0) s->delim = ';';
  if (s->delim == ',') return;
  census all = count_cells(s->p, s->end, s->delim);
  s->comma = all.comma > 0 && all.point == 0 && (s->delim == ';' || all.clear > 0);
}

static void announce(const scan *s) {
  if (s->delim == ',') return;
  atvi_log(s->ctx, ATVI_LOG_NOTE, "%s: columns are separated by %ss%s", s->path,
           s->delim == ';' ? "semicolon" : "tab", s->comma ? ", and numbers have decimal commas" : "");
}

static atvi_status check_bytes(const scan *s) {
  const char *nul = memchr(s->p, 0, (size_t)(s->end - s->p));
  if (!nul) return ATVI_OK;
  int line = 1;
  const char *start = s->p;
  for (const char *p = s->p; p < nul; p++)
    if (*p == '\n' || (*p == '\r' && p[1] != '\n')) {
      if (line < INT_MAX) line++;
      start = p + 1;
    }
  return complain(s, line, clip(nul - start + 1), "save it as CSV in UTF-8 (not UTF-16, not a spreadsheet)",
                  "a zero byte: this is not plain text");
}

typedef struct {
  const char *name;
  atvi_idx index;
} named;

static int by_name(const void *a, const void *b) {
  const named *x = a, *y = b;
  int order = strcmp(x->name, y->name);
  return order ? order : (x->index > y->index) - (x->index < y->index);
}

static atvi_status check_names(const scan *s, const atvi_csv *csv, const cell *cells) {
  named *sorted = atvi_pool_take(s->pool, (size_t)csv->n_col, sizeof *sorted);
  if (!sorted) return ATVI_ENOMEM;
  for (atvi_idx j = 0; j < csv->n_col; j++) sorted[j] = (named){csv->name[j], j};
  qsort(sorted, (size_t)csv->n_col, sizeof *sorted, by_name);
  for (atvi_idx j = 1; j < csv->n_col; j++) {
    if (strcmp(sorted[j - 1].name, sorted[j].name) != 0) continue;
    const cell *c = &cells[sorted[j].index];
    return complain(s, c->line, c->column, "rename one of them", "two columns are named '%.60s'",
                    sorted[j].name);
  }
  return ATVI_OK;
}

static atvi_status name_columns(const scan *s, atvi_csv *csv, const cell *cells) {
  atvi_idx n_value = 0, n_text = 0;
  double ignored;
  for (atvi_idx j = 0; j < csv->n_col; j++) {
    atvi_cell_kind kind = classify(s, cells[j].text, cells[j].n, &ignored);
    n_text += kind == ATVI_CELL_TEXT;
    n_value += kind != ATVI_CELL_TEXT && kind != ATVI_CELL_MISSING;
  }
  csv->header = n_text > 0 || n_value == 0;
  csv->name = atvi_pool_take(s->pool, (size_t)csv->n_col, sizeof *csv->name);
  if (!csv->name) return ATVI_ENOMEM;
  for (atvi_idx j = 0; j < csv->n_col; j++) {
    csv->name[j] = csv->header && cells[j].n ? cells[j].text : atvi_pool_printf(s->pool, "%td", j + 1);
    if (!csv->name[j]) return ATVI_ENOMEM;
  }
  return csv->header ? check_names(s, csv, cells) : ATVI_OK;
}

static void put(const scan *s, atvi_csv *csv, atvi_idx row, atvi_idx col, const cell *c) {
  atvi_idx at = row * csv->n_col + col;
  csv->kind[at] = (unsigned char)classify(s, c->text, c->n, &csv->value[at]);
  csv->text[at] = c->text;
  csv->column[at] = c->column;
}

/* Room for every row that the rest of the text can hold, and for n_first rows already taken. */
static atvi_status make_room(const scan *s, atvi_csv *csv, atvi_idx n_first) {
  atvi_idx rows = 1;
  for (const char *p = s->p; p < s->end; p++) rows += *p == '\n' || (*p == '\r' && p[1] != '\n');
  atvi_idx fit = (s->end - s->p) / csv->n_col + 1;
  rows = (rows < fit ? rows : fit) + n_first;
  size_t cells = (size_t)rows * (size_t)csv->n_col;
  csv->value = atvi_pool_take(s->pool, cells, sizeof *csv->value);
  csv->kind = atvi_pool_take(s->pool, cells, sizeof *csv->kind);
  csv->text = atvi_pool_take(s->pool, cells, sizeof *csv->text);
  csv->column = atvi_pool_take(s->pool, cells, sizeof *csv->column);
  csv->line = atvi_pool_take(s->pool, (size_t)rows, sizeof *csv->line);
  return atvi_pool_status(s->pool);
}

static atvi_status read_row(scan *s, atvi_csv *csv, atvi_idx row) {
  cell c = {.last = false};
  csv->line[row] = s->line;
  for (atvi_idx j = 0; j < csv->n_col; j++) {
    if (c.last)
      return complain(s, c.line, c.column, "write NA for a missing value",
                      "this row has %td %s, but line %d has %td columns", j, j == 1 ? "cell" : "cells",
                      s->first_line, csv->n_col);
    ATVI_TRY(next_cell(s, &c));
    put(s, csv, row, j, &c);
  }
  if (c.last) return ATVI_OK;
  const char *hint = "is there a stray separator?";
  if (s->delim == ',')
    hint = "is there a stray ','? Numbers have a decimal point (1.5, not 1,5), and text with commas goes in "
           "quotes";
  return complain(s, s->line, column_of(s, s->p), hint, "this row has more cells than the %td %s of line %d",
                  csv->n_col, csv->n_col == 1 ? "column" : "columns", s->first_line);
}

static atvi_status read_rows(scan *s, atvi_csv *csv, const cell *first) {
  atvi_idx n_empty = 0, n = 0;
  ATVI_TRY(make_room(s, csv, csv->header ? 0 : 1));
  if (!csv->header) {
    csv->line[0] = s->first_line;
    for (atvi_idx j = 0; j < csv->n_col; j++) put(s, csv, 0, j, &first[j]);
    n = 1;
  }
  for (int line = s->line; next_line(s, &n_empty); n_empty = 0, line = s->line) {
    for (; csv->n_col == 1 && n_empty > 0; n_empty--, n++) {
      cell c = {.text = s->end, .column = 1};
      csv->line[n] = line; /* of the first of them; comment lines may be between */
      put(s, csv, n, 0, &c);
    }
    ATVI_TRY(read_row(s, csv, n));
    n++;
  }
  csv->n_row = n;
  if (n == 0)
    return complain(s, s->first_line, 1, "add a line for every row of the data",
                    "there is a header but no row of data below it");
  return ATVI_OK;
}

/* Parses s->p .. s->end, which it owns and changes. */
static atvi_status parse(scan *s, atvi_csv **out) {
  atvi_csv *csv = atvi_pool_take(s->pool, 1, sizeof *csv);
  if (!csv) return ATVI_ENOMEM;
  csv->path = s->path;
  ATVI_TRY(check_bytes(s));
  if (s->end - s->p >= 3 && memcmp(s->p, "\xEF\xBB\xBF", 3) == 0) s->p += 3;
  s->line_start = s->p;
  s->line = 1;
  atvi_idx n_empty = 0;
  if (!next_line(s, &n_empty))
    return complain(s, 1, 1, "it needs a line of column names and rows of data", "the file is empty");
  find_delim(s);
  announce(s);
  s->first_line = s->line;
  cell *cells = NULL;
  atvi_idx n = 0, cap = 0;
  do {
    if (!ATVI_PUSH(s->pool, cells, n, cap)) return ATVI_ENOMEM;
    ATVI_TRY(next_cell(s, &cells[n]));
  } while (!cells[n++].last);
  csv->n_col = n;
  ATVI_TRY(name_columns(s, csv, cells));
  ATVI_TRY(read_rows(s, csv, cells));
  *out = csv;
  return ATVI_OK;
}

atvi_status atvi_io_csv_parse(atvi_pool *pool, const char *path, const char *text, size_t n, atvi_csv **out) {
  scan s = {.pool = pool, .ctx = atvi_pool_ctx(pool), .path = path, .source = text, .n_source = n};
  *out = NULL;
  s.p = atvi_pool_strndup(pool, text, n);
  s.path = atvi_pool_strndup(pool, path, strlen(path));
  if (!s.p || !s.path) return ATVI_ENOMEM;
  s.end = s.p + n;
  return parse(&s, out);
}

atvi_status atvi_io_csv_read(atvi_pool *pool, const char *path, atvi_csv **out) {
  char *text;
  size_t n;
  *out = NULL;
  ATVI_TRY(atvi_io_file_read(pool, path, &text, &n));
  ATVI_TRY(atvi_io_csv_parse(pool, path, text, n, out));
  (*out)->source = text;
  (*out)->n_source = n;
  return ATVI_OK;
}

atvi_idx atvi_io_csv_find(const atvi_csv *csv, const char *name) {
  for (atvi_idx j = 0; j < csv->n_col; j++)
    if (strcmp(csv->name[j], name) == 0) return j;
  return -1;
}

/* Twice through the file, a block at a time: lines are counted, then their cells are turned into numbers, on
 * all threads. */

enum { BLOCK = 8 << 20 }; /* bytes; a line must fit */

typedef struct {
  FILE *file;
  char *text; /* [BLOCK + 1] */
  size_t n;   /* bytes in it */
  size_t at;  /* where the lines that are in use end */
  bool end;
} blocks;

/* Lines that are whole: text[0 .. at). False: no more, or not plain. */
static bool next_block(blocks *b) {
  memmove(b->text, b->text + b->at, b->n - b->at);
  b->n -= b->at;
  b->at = 0;
  b->n += fread(b->text + b->n, 1, BLOCK - b->n, b->file);
  b->end = feof(b->file) != 0;
  if (b->n == 0 || ferror(b->file)) return false;
  if (b->end && b->text[b->n - 1] != '\n') b->text[b->n++] = '\n';
  size_t n = b->n;
  while (n > 0 && b->text[n - 1] != '\n') n--;
  b->at = n;
  return n > 0;
}

/* The end of the line at p: its \n. */
static const char *line_end(const char *p, const char *stop) { return memchr(p, '\n', (size_t)(stop - p)); }

static bool empty(const char *p, const char *end) {
  while (p < end && (*p == ' ' || *p == '\t' || *p == '\r')) p++;
  return p == end;
}

typedef struct {
  atvi_idx n_col, first, last; /* columns that are wanted, from 0, last included */
  const char **line;           /* [n] of this block, and the end of the last one */
  double *out;                 /* of its first line */
  atomic_bool failed;
} job;

/* The matrix_cell at *p without blanks; *p is then after its comma. False: not plain. */
static bool matrix_cell(const char **p, const char *end, const char **from, size_t *n) {
  const char *a = *p;
  while (a < end && *a == ' ') a++;
  const char *z = a;
  if (a < end && *a == '"') {
    z = memchr(a + 1, '"', (size_t)(end - a - 1));
    if (!z || (++z < end && *z != ',')) return false;
  } else {
    z = memchr(a, ',', (size_t)(end - a));
    if (!z) z = end;
  }
  *p = z < end ? z + 1 : end + 1;
  while (z > a && z[-1] == ' ') z--;
  *from = a;
  *n = (size_t)(z - a);
  return true;
}

static void read_line(void *arg, atvi_idx item, int worker) {
  job *j = arg;
  const char *p = j->line[item], *end = line_end(p, j->line[item + 1]), *from;
  size_t n;
  double *out = j->out + item * (j->last - j->first + 1);
  (void)worker;
  if (end > p && end[-1] == '\r') end--;
  bool ok = p[strspn(p, " ")] != '#';
  for (atvi_idx c = 0; ok && c < j->n_col; c++) {
    ok = p <= end && matrix_cell(&p, end, &from, &n);
    if (ok && c >= j->first && c <= j->last) ok = atvi_io_parse_number(from, n, out++);
  }
  if (!ok || p <= end) atomic_store(&j->failed, true);
}

/* From the first two lines: the number of columns, and whether the first is a header. False: not plain. */
static bool look(atvi_pool *pool, const char *path, const blocks *b, atvi_idx *n_col, bool *header) {
  const char *stop = b->text + b->at, *one = line_end(b->text, stop);
  const char *two = one + 1 < stop ? line_end(one + 1, stop) : NULL;
  atvi_csv *csv;
  if (!two || memchr(b->text, ';', (size_t)(two - b->text)) ||
      memchr(b->text, '\t', (size_t)(two - b->text)) || empty(b->text, one) ||
      memchr(b->text, '#', (size_t)(two - b->text)))
    return false;
  if (atvi_io_csv_parse(pool, path, b->text, (size_t)(two + 1 - b->text), &csv) != ATVI_OK) return false;
  *n_col = csv->n_col;
  *header = csv->header;
  return csv->n_row == (csv->header ? 1 : 2);
}

static bool rewind_all(blocks *b) {
  b->n = b->at = 0;
  b->end = false;
  return fseek(b->file, 0, SEEK_SET) == 0;
}

/* The lines of the block, without the header and empty ones. */
static atvi_idx lines_of(const blocks *b, bool header, const char **line) {
  const char *stop = b->text + b->at;
  atvi_idx n = 0;
  for (const char *p = b->text, *end; p < stop; p = end + 1) {
    end = line_end(p, stop);
    if (!header && !empty(p, end)) {
      if (line) line[n] = p;
      n++;
    }
    header = false;
  }
  if (line) line[n] = stop;
  return n;
}

/* room: for what lasts as long as this call. */
static atvi_status read_blocks(atvi_pool *pool, atvi_pool *room, const char *path, blocks *b, job *j,
                               atvi_idx *n_row, double **value) {
  bool header = false, first = true;
  atvi_idx most = 0, done = 0;
  *n_row = 0;
  for (; next_block(b); first = false) {
    if (first && !look(room, path, b, &j->n_col, &header)) return ATVI_OK;
    atvi_idx n = lines_of(b, first && header, NULL);
    *n_row += n;
    if (n > most) most = n;
  }
  if (j->last < 0) j->last = j->n_col - 1;
  /* An empty line of a file with one column is a missing value. */
  if (*n_row == 0 || b->n > b->at || j->n_col < 2 || j->last >= j->n_col || j->first > j->last)
    return ATVI_OK;
  atvi_idx cols = j->last - j->first + 1;
  j->line = atvi_pool_take(room, (size_t)most + 1, sizeof *j->line);
  double *out = atvi_pool_take(pool, (size_t)(*n_row * cols) + 1, sizeof *out);
  if (!j->line || !out) return ATVI_ENOMEM;
  if (!rewind_all(b)) return ATVI_OK;
  for (first = true; next_block(b) && !atomic_load(&j->failed); first = false) {
    atvi_idx n = lines_of(b, first && header, j->line);
    if (done + n > *n_row) return ATVI_OK;
    j->out = out + done * cols;
    atvi_parallel(atvi_pool_ctx(pool), n, read_line, j);
    done += n;
  }
  if (!atomic_load(&j->failed) && done == *n_row) *value = out;
  return ATVI_OK;
}

atvi_status atvi_io_matrix_read(atvi_pool *pool, const char *path, atvi_idx first, atvi_idx last,
                                atvi_idx *n_row, atvi_idx *n_col, double **value) {
  job j = {.first = first - 1, .last = last - 1};
  blocks b = {.file = fopen(path, "rb")};
  atvi_pool *room;
  *value = NULL;
  if (!b.file) return ATVI_OK;
  atvi_status status = atvi_pool_new(atvi_pool_ctx(pool), &room);
  if (status == ATVI_OK) {
    b.text = atvi_pool_take(room, BLOCK + 1, 1);
    status = b.text ? read_blocks(pool, room, path, &b, &j, n_row, value) : ATVI_ENOMEM;
    *n_col = j.n_col;
    atvi_pool_free(room);
  }
  fclose(b.file);
  return status;
}
