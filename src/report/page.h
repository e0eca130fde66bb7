/* SPDX-License-Identifier: MIT */
/* One HTML file that needs nothing else: style and script are part of it, figures are inline SVG, and its content security policy forbids
 * the network. It is complete without its script, which adds values under the pointer, zoom, and a choice of scales and pairs. All text is escaped here;
 * missing memory is told by atvi_report_page_end. */
#ifndef ATVI_REPORT_PAGE_H
#define ATVI_REPORT_PAGE_H

#include "report/axis.h"

typedef struct {
  atvi_pool *pool;
  atvi_text body;
  atvi_text data;     /* JSON for the script: "id": {...}, ... */
  atvi_text pairs;    /* and, of the pairs, an object; empty: none */
  atvi_text contents; /* links to the sections */
  atvi_idx n_figs;
  const char *title;
  const char *kind; /* a word in the head, by which pages are told apart; NULL: none */
  bool live;        /* asks the server that it came from how the fit is getting on */
  bool in_section;
} atvi_page;

atvi_page atvi_report_page_begin(atvi_pool *pool, const char *title, bool live);
/* A heading of the second level; id: for links. */
void atvi_report_page_section(atvi_page *p, const char *id, const char *heading);
/* Escaped, with real minus signs, and blanks before % and around = that do not break. */
void atvi_report_page_prose(atvi_page *p, const char *text);
void atvi_report_page_heading(atvi_page *p, const char *heading); /* of the third */
void atvi_report_page_say(atvi_page *p, const char *fmt, ...) ATVI_PRINTF(2, 3);
void atvi_report_page_note(atvi_page *p, const char *fmt, ...) ATVI_PRINTF(2, 3); /* in small print */
/* Text as it is, in a box that opens. */
void atvi_report_page_listing(atvi_page *p, const char *heading, const char *text, bool open);

/* Figures next to each other, as many as fit: "wide", "half" or "third" of the page. */
void atvi_report_page_grid(atvi_page *p, const char *size);
void atvi_report_page_grid_end(atvi_page *p);
/* alt: what it shows, in words. */
void atvi_report_page_figure(atvi_page *p, const atvi_canvas *c, const char *id, const char *alt);
/* The same figure for wide screens and for narrow ones; the id of the narrow one ends with n. */
void atvi_report_page_figure_both(atvi_page *p, const atvi_canvas *wide, const atvi_canvas *narrow,
                                  const char *id, const char *alt);

/* The same figure, drawing[k][0] for wide screens and [k][1] for narrow ones (NULL: the wide one), [0][.] on a linear
 * and [1][.] on a logarithmic scale (NULL: there is none). Ids of drawings are from atvi_report_page_drawing_id. */
void atvi_report_page_figure_scaled(atvi_page *p, const char *id, const char *alt,
                                    const atvi_canvas *drawing[2][2]);
enum { ATVI_DRAWING_ID = 32 };
void atvi_report_page_drawing_id(char out[ATVI_DRAWING_ID], const char *id, bool log, bool narrow);
/* Buttons that choose between the scales of all figures of a section. */
void atvi_report_page_scales(atvi_page *p);

/* One that is as wide as a table; where there is less room it is scrolled, or narrow (NULL: none) takes its place. */
void atvi_report_page_figure_table(atvi_page *p, const atvi_canvas *wide, const atvi_canvas *narrow,
                                   const char *id, const char *alt);

/* Values under the pointer: of the figure `id`, whose plot is f, at n places x columns of numbers. zoom: a range can be chosen. */
typedef struct {
  const char *name;
  const double *value; /* [n]; NULL: left out */
} atvi_hover;
void atvi_report_page_hover(atvi_page *p, const char *id, const atvi_frame *f, bool zoom, const char *name,
                            atvi_idx n, const double *x, int n_column, const atvi_hover *column);

/* The same values as under `other`, in the plot f. */
void atvi_report_page_hover_like(atvi_page *p, const char *id, const atvi_frame *f, const char *other);

/* As that, for places with names of their own: label[n]. */
void atvi_report_page_hover_named(atvi_page *p, const char *id, const atvi_frame *f, const char *name,
                                  atvi_idx n, const double *x, const char *const *label, int n_column,
                                  const atvi_hover *column);

/* What lies between opens on demand. heading NULL: out of memory, which the pool remembers. */
void atvi_report_page_fold(atvi_page *p, const char *heading);
void atvi_report_page_fold_end(atvi_page *p);

/* A table: begin, then for each row begin and its cells. Numbers are right-aligned. */
void atvi_report_page_table(atvi_page *p, const char *caption, int n, const char *const *column, bool folded);
void atvi_report_page_row(atvi_page *p, const char *name);
void atvi_report_page_row_to(atvi_page *p, const char *name, const char *link); /* NULL: none */
void atvi_report_page_cell(atvi_page *p, const char *text);                     /* NULL: empty */
void atvi_report_page_number(atvi_page *p, double x, int digits);
void atvi_report_page_round(atvi_page *p, double x); /* one that somebody chose: no zeros at its end */
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
