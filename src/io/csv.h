/* SPDX-License-Identifier: MIT */
/* Reading CSV into numbers, with errors that name file:line:column.
 *
 * Accepts: either line ending, UTF-8 BOM, quoted fields, comma / semicolon / tab (found from the first line,
 * announced if not comma), comment lines starting with #, empty lines (in a file of one column an empty line
 * between others is a missing value), spaces around fields, ISO dates and times (2009-12-19,
 * 2009-12-19T06:30). Missing: empty, NA, NaN, "." . Between semicolons or tabs, numbers may have a decimal
 * comma, 1,5, if none has a decimal point (between tabs: and they cannot all be thousands, 1,234); announced.
 * Censored: "<x", "<=x", ">x", ">=x". Anything else in a cell is text and kept as such: an error only if it
 * is needed as a number. A first line whose cells are all numbers (or dates or missing) is data, not a
 * header: columns are then named "1", "2", ... An empty header cell is also named by its position. Time and
 * memory are linear in the size of the file. */
#ifndef ATVI_IO_CSV_H
#define ATVI_IO_CSV_H

#include "core/core.h"

typedef enum {
  ATVI_CELL_NUMBER = 0,
  ATVI_CELL_MISSING,
  ATVI_CELL_LT, /* value is the limit */
  ATVI_CELL_LE,
  ATVI_CELL_GT,
  ATVI_CELL_GE,
  ATVI_CELL_DATE, /* value is days since 1970-01-01, with the time as a fraction */
  ATVI_CELL_TEXT, /* value NaN */
} atvi_cell_kind;

typedef struct {
  const char *path;
  atvi_idx n_row, n_col;
  const char **name; /* [n_col] */
  /* False: names were made up. */
  bool header;
  /* [n_row][n_col]; NaN if missing or text. */
  double *value;
  /* [n_row][n_col] atvi_cell_kind. */
  unsigned char *kind;
  /* [n_row][n_col] the cell as written, trimmed. */
  const char **text;
  /* [n_row] 1-based line in the file. */
  int *line;
  /* [n_row][n_col] 1-based byte column of the cell in its line. */
  int *column;
  /* [n_source] the original text, for messages; NULL after atvi_io_csv_parse. */
  const char *source;
  size_t n_source;
} atvi_csv;

/* Reads a file; memory from pool. Errors: EIO (cannot be read), EDATA (empty, ragged row, unclosed quote,
 * text after a closing quote, NUL byte, duplicate column name), ENOMEM. Each message is file:line:column:
 * error: what, the line, a caret, a hint. */
ATVI_CHECKED atvi_status atvi_io_csv_read(atvi_pool *pool, const char *path, atvi_csv **out);
/* The same from memory; path is for messages. */
ATVI_CHECKED atvi_status atvi_io_csv_parse(atvi_pool *pool, const char *path, const char *text, size_t n,
                                           atvi_csv **out);
/* The same for large tables of numbers, on the threads of the context and in little more memory than the
 * numbers take: value[*n_row][last - first + 1], columns first to last, from 1 (last 0: to the end), of
 * *n_col >= 2 columns between commas. *value is NULL if the file is not so plain or cannot be read: then
 * atvi_io_csv_read reads it, or says what is wrong. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_io_matrix_read(atvi_pool *pool, const char *path, atvi_idx first, atvi_idx last,
                                             atvi_idx *n_row, atvi_idx *n_col, double **value);
atvi_idx atvi_io_csv_find(const atvi_csv *csv, const char *name); /* -1 if there is none */

/* A finite decimal number that takes up all of s[n]: [+-] digits [. digits] [e [+-] digits], whatever the
 * locale. No blanks, no hex, no inf or nan, nothing that overflows; *out is not changed if it is not a
 * number. Correctly rounded. */
bool atvi_io_parse_number(const char *s, size_t n, double *out);
/* Whether s is a number with a comma instead of a decimal point: 1,5. */
bool atvi_io_decimal_comma(const char *s);
enum { ATVI_COMMA_BYTES = 64 }; /* longer ones are not numbers */
/* x with 17 significant digits (which restore it exactly), or nan, inf, -inf, whatever the locale. Returns
 * the length. */
enum { ATVI_NUMBER_BYTES = 32 };
int atvi_io_format_number(char buf[ATVI_NUMBER_BYTES], double x);
/* "12 s" (fine: three digits, "0.0123 s"), "3:05 min", "2:30 h". */
enum { ATVI_DURATION_BYTES = 32 };
void atvi_io_format_duration(char buf[ATVI_DURATION_BYTES], double seconds, bool fine);
/* As atvi_io_parse_number for a date YYYY-MM-DD that exists; *days since 1970-01-01. */
bool atvi_io_parse_date(const char *s, size_t n, int64_t *days);
/* The same, or a date and a time: YYYY-MM-DD, a T or a blank, hh:mm[:ss[.s...]], and Z, +hh:mm, -hh:mm, +hhmm
 * or nothing. *days since 1970-01-01 (UTC, if the zone is given), with a fraction. 24:00 and leap seconds are
 * accepted. */
bool atvi_io_parse_datetime(const char *s, size_t n, double *days);
/* Days since 1970-01-01 of a date (proleptic Gregorian), and back. */
int64_t atvi_io_days_from_date(int year, int month, int day);
void atvi_io_date_from_days(int64_t days, int *year, int *month, int *day);

/* Time t is day day0 + unit t after 1970-01-01. unit 0: no calendar, and times are plain numbers. */
typedef struct {
  double day0, unit;
} atvi_calendar;
static inline double atvi_io_calendar_day(atvi_calendar c, double t) { return c.day0 + c.unit * t; }
static inline double atvi_io_calendar_time(atvi_calendar c, double day) { return (day - c.day0) / c.unit; }

#endif
