/* SPDX-License-Identifier: MIT */
/* One HTML file that needs nothing else: style and script are part of it, figures are inline SVG, and its
 * content security policy forbids the network. It is complete without its script, which adds values under the
 * pointer, zoom, and a choice of scales and pairs. All text is escaped here; atvi_report_page_end reports if
 * memory ran out. */
#ifndef ATVI_REPORT_PAGE_H
#define ATVI_REPORT_PAGE_H

#include "report/canvas.h"

typedef struct {
  atvi_pool *pool;
  atvi_text body;
  /* JSON for the script: "id": {...}, ... */
  atvi_text data;
  /* An object for the pairs; empty: none. */
  atvi_text pairs;
  /* Links to the sections. */
  atvi_text contents;
  atvi_idx n_figs;
  const char *title;
  /* A word in the head that identifies the kind of page; NULL: none. */
  const char *kind;
  /* Asks its server for the progress of the fit. */
  bool live;
  bool in_section, in_row;
} atvi_page;

atvi_page atvi_report_page_begin(atvi_pool *pool, const char *title, bool live);
/* A heading of the second level; id: for links. */
void atvi_report_page_section(atvi_page *p, const char *id, const char *heading);
/* Escaped, with real minus signs, and non-breaking spaces before % and around =. */
void atvi_report_page_prose(atvi_page *p, const char *text);
void atvi_report_page_heading(atvi_page *p, const char *heading); /* of the third */
void atvi_report_page_say(atvi_page *p, const char *fmt, ...) ATVI_PRINTF(2, 3);
void atvi_report_page_note(atvi_page *p, const char *fmt, ...) ATVI_PRINTF(2, 3); /* in small print */
/* Verbatim text in a box that opens. */
void atvi_report_page_listing(atvi_page *p, const char *heading, const char *text, bool open);
/* Verbatim text in its place. */
void atvi_report_page_command(atvi_page *p, const char *text);

/* Figures next to each other, as many as fit: "wide", "half" or "third" of the page. */
void atvi_report_page_grid(atvi_page *p, const char *size);
void atvi_report_page_grid_end(atvi_page *p);
/* alt: what it shows, in words. */
void atvi_report_page_figure(atvi_page *p, const atvi_canvas *c, const char *id, const char *alt);
/* The same figure for wide and for narrow screens; the id of the narrow one ends with n. */
void atvi_report_page_figure_both(atvi_page *p, const atvi_canvas *wide, const atvi_canvas *narrow,
                                  const char *id, const char *alt);

/* The same figure, drawing[k][0] for wide screens and [k][1] for narrow ones (NULL: the wide one), [0][.] on
 * a linear and [1][.] on a logarithmic scale (NULL: none). Ids of drawings are from
 * atvi_report_page_drawing_id. */
void atvi_report_page_figure_scaled(atvi_page *p, const char *id, const char *alt,
                                    const atvi_canvas *drawing[2][2]);
enum { ATVI_DRAWING_ID = 32 };
void atvi_report_page_drawing_id(char out[ATVI_DRAWING_ID], const char *id, bool log, bool narrow);
/* Buttons that choose between the scales of all figures of a section. */
void atvi_report_page_scales(atvi_page *p);

/* A figure as wide as a table; with less room it scrolls, or is replaced by narrow (NULL: none). */
void atvi_report_page_figure_table(atvi_page *p, const atvi_canvas *wide, const atvi_canvas *narrow,
                                   const char *id, const char *alt);

/* Values under the pointer: of the figure `id`, whose plot is f, at n places x columns of numbers. zoom: a
 * range can be chosen. */
typedef struct {
  const char *name;
  /* [n]; NULL: left out. */
  const double *value;
} atvi_hover;
void atvi_report_page_hover(atvi_page *p, const char *id, const atvi_frame *f, bool zoom, const char *name,
                            atvi_idx n, const double *x, int n_column, const atvi_hover *column);

/* The same values as under `other`, in the plot f. */
void atvi_report_page_hover_like(atvi_page *p, const char *id, const atvi_frame *f, const char *other);

/* The same, for places with names: label[n]. */
void atvi_report_page_hover_named(atvi_page *p, const char *id, const atvi_frame *f, const char *name,
                                  atvi_idx n, const double *x, const char *const *label, int n_column,
                                  const atvi_hover *column);

/* What lies between these is folded. heading NULL: out of memory, which the pool remembers. */
void atvi_report_page_fold(atvi_page *p, const char *heading);
void atvi_report_page_fold_end(atvi_page *p);

/* A table: begin, then for each row begin and its cells, and end. Numbers are right-aligned. */
void atvi_report_page_table(atvi_page *p, const char *caption, int n, const char *const *column, bool folded);
void atvi_report_page_row(atvi_page *p, const char *name);
void atvi_report_page_row_part(atvi_page *p, const char *name, int n); /* a heading over all n columns */
void atvi_report_page_cell(atvi_page *p, const char *text);            /* NULL: empty */
void atvi_report_page_words(atvi_page *p,
                            const char *text); /* the same, left-aligned and broken into lines */
void atvi_report_page_number(atvi_page *p, double x, int digits);
void atvi_report_page_round(atvi_page *p, double x); /* a number that somebody chose: no trailing zeros */
void atvi_report_page_table_end(atvi_page *p, bool folded);

/* A string or a number of JSON, safe inside a page. NaN is null. */
void atvi_report_json_put_text(atvi_text *out, const char *s);
void atvi_report_json_put_number(atvi_text *out, double x);

/* The whole file. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_report_page_end(atvi_page *p, const char **text);

/* Whether the file at path is a page of that kind. */
bool atvi_report_page_is(const char *path, const char *kind);

/* For page.c: lines of the style sheet and of the script, NULL-ended. */
extern const char *const atvi_report_page_style[], *const atvi_report_page_script[];

#endif
