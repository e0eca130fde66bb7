/* SPDX-License-Identifier: MIT */
/* Results as tables of fields: each states once how a member of a plain struct is named in files and on the
 * terminal, and how it looks there. JSON, CSV and tables are written by walking such a table, and JSON is
 * read by it.
 *
 * Every function takes the fields to use as `keys`, words separated by blanks, in that order; NULL: all. */
#ifndef ATVI_IO_FIELDS_H
#define ATVI_IO_FIELDS_H

#include "core/core.h"
#include "io/json.h"
#include "io/text.h"
#include <stddef.h>

typedef enum {
  ATVI_FIELD_REAL,  /* double; NaN: not known */
  ATVI_FIELD_PAIR,  /* double[2], the ends of an interval */
  ATVI_FIELD_WHOLE, /* double that is a count; NaN: not known */
  ATVI_FIELD_MAYBE, /* double: 1 yes, 0 no, NaN not known */
  ATVI_FIELD_YES,   /* double: 1 yes; anything else no */
  ATVI_FIELD_COUNT, /* int64_t or atvi_idx, which have the same representation */
  ATVI_FIELD_SEED,  /* uint64_t */
  ATVI_FIELD_FLAG,  /* bool */
  ATVI_FIELD_WORD,  /* const char *; NULL: none */
  ATVI_FIELD_NAME   /* const char *; NULL: the field is left out of JSON */
} atvi_field_kind;

/* How a number looks on the terminal. */
typedef enum {
  ATVI_SHOW_FIXED,   /* with that many decimals */
  ATVI_SHOW_GENERAL, /* with that many digits */
  ATVI_SHOW_SIZE,    /* with decimals by its size, two to six digits */
  ATVI_SHOW_PERCENT  /* a share, in percent with that many decimals */
} atvi_show;

typedef struct {
  /* Name in CSV and JSON. */
  const char *key;
  atvi_field_kind kind;
  /* Offset of the member in its struct. */
  size_t offset;
  /* Above the column on the terminal. */
  const char *heading;
  /* Width of that column, with the blanks before it. */
  int width;
  atvi_show show;
  int digits;
} atvi_field;

typedef struct {
  atvi_idx n;
  const atvi_field *of; /* [n] */
} atvi_fields;

#define ATVI_FIELDS(array)                                                                                   \
  { sizeof(array) / sizeof *(array), array }
/* A member with the same name in files; one with another name there; one that tables show, too. */
#define ATVI_FIELD(kind_, type, member) ATVI_FIELD_AS(#member, kind_, type, member)
#define ATVI_FIELD_AS(key_, kind_, type, member)                                                             \
  { .key = (key_), .kind = ATVI_FIELD_##kind_, .offset = offsetof(type, member) }
#define ATVI_FIELD_SHOWN(key_, kind_, type, member, heading_, width_, show_, digits_)                        \
  {                                                                                                          \
    .key = (key_), .kind = ATVI_FIELD_##kind_, .offset = offsetof(type, member), .heading = (heading_),      \
    .width = (width_), .show = ATVI_SHOW_##show_, .digits = (digits_)                                        \
  }

/* NULL: none with that key. */
const atvi_field *atvi_io_fields_find(const atvi_fields *t, const char *key);
/* The value as a number; NaN for words, and for a pair its lower end. */
double atvi_io_field_number(const atvi_field *f, const void *row);

/* Puts the fields into the object that is open. */
void atvi_io_fields_json(atvi_json *w, const atvi_fields *t, const void *row, const char *keys);
/* Sets the fields from an object; missing ones become NaN, 0 or NULL. Words are copied to the pool. */
void atvi_io_fields_read(atvi_pool *pool, const atvi_fields *t, const json_t *object, void *row);

/* CSV with a line per number: "<lead>key,value"; a pair is key_low and key_high. */
void atvi_io_fields_lines(atvi_text *out, const char *lead, const atvi_fields *t, const void *row,
                          const char *keys);
/* CSV with a line per row: ",key" and ",value" of each. Numbers have nine digits; row NULL: all NA. */
void atvi_io_fields_names(atvi_text *out, const atvi_fields *t, const char *keys);
void atvi_io_fields_cells(atvi_text *out, const atvi_fields *t, const void *row, const char *keys);
/* A comma and a number with nine digits; NaN as NA. */
void atvi_io_fields_cell(atvi_text *out, double x);

/* A table for a terminal: the headings, then each row; only numbers, right-aligned, and `missing` for unknown
 * ones. Neither writes a line end. */
void atvi_io_fields_heading(atvi_text *out, const atvi_fields *t, const char *keys);
void atvi_io_fields_row(atvi_text *out, const atvi_fields *t, const void *row, const char *keys,
                        const char *missing);

#endif
