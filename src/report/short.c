/* SPDX-License-Identifier: MIT */
/* Reports that are sentences, tables and figures: comparisons, studies, emulators. */
#include "report/report.h"
#include <math.h>
#include <string.h>

static void put_table(atvi_page *p, const atvi_report_table *t) {
  atvi_page_table(p, t->caption, t->n_column, t->column, false);
  for (atvi_idx i = 0; i < t->n_row; i++) {
    const char *const *cell = t->cell + i * t->n_column;
    atvi_page_row(p, cell[0]);
    for (int k = 1; k < t->n_column; k++) atvi_page_cell(p, cell[k]);
    atvi_text_add(&p->body, "</tr>\n");
  }
  atvi_page_table_end(p, false);
}

static void put_part(atvi_page *p, const atvi_report_part *part) {
  atvi_page_section(p, part->id, part->heading);
  for (atvi_idx i = 0; i < part->n_say; i++) atvi_page_say(p, "%s", part->say[i]);
  for (atvi_idx i = 0; i < part->n_figure; i++) {
    const atvi_report_figure *f = &part->figure[i];
    const char *id = atvi_pool_printf(p->pool, "f-%s", f->name);
    atvi_text_add(&p->body, "<figure class=\"table\">");
    atvi_canvas_svg(f->canvas, &(atvi_svg_opts){.id = id ? id : "f", .title = f->alt, .page = true},
                    &p->body);
    atvi_text_add(&p->body, "</figure>\n");
  }
  for (atvi_idx i = 0; i < part->n_table; i++) put_table(p, &part->table[i]);
}

atvi_status atvi_report_short_save(atvi_pool *pool, const atvi_report_short *r, const char *dir) {
  atvi_page p = atvi_page_begin(pool, r->title, false);
  const char *html;
  atvi_report_head(&p, r->title, r->sub, r->verdict, r->say);
  atvi_text_add(&p.body, "</div>\n");
  for (atvi_idx i = 0; i < r->n_part; i++) put_part(&p, &r->part[i]);
  ATVI_TRY(atvi_page_end(&p, &html));
  ATVI_TRY(atvi_report_save_page(pool, dir, html));
  for (atvi_idx i = 0; i < r->n_part; i++)
    for (atvi_idx k = 0; k < r->part[i].n_figure; k++) {
      const atvi_report_figure *f = &r->part[i].figure[k];
      ATVI_TRY(atvi_report_save_figure(pool, dir, f->name, f->alt, f->canvas));
    }
  return ATVI_OK;
}

/* ---- emulators ---- */

static const char **index_cells(atvi_pool *pool, const atvi_report_emulator *r) {
  const char **cell = atvi_pool_take(pool, (size_t)(3 * r->n_input) + 1, sizeof *cell);
  for (atvi_idx i = 0; cell && i < r->n_input; i++) {
    cell[3 * i] = r->input[i];
    cell[3 * i + 1] = atvi_pool_printf(pool, "%.3f", r->first[i]);
    cell[3 * i + 2] = atvi_pool_printf(pool, "%.3f", r->total[i]);
  }
  return atvi_pool_failed(pool) ? NULL : cell;
}

atvi_status atvi_report_emulator_save(atvi_pool *pool, const atvi_report_emulator *r, const char *dir) {
  static const char *const column[] = {"input", "alone", "with all its interactions"};
  bool sobol = r->first && r->total && r->n_input > 0;
  const char **cell = sobol ? index_cells(pool, r) : NULL;
  const char *say = atvi_pool_printf(
      pool,
      "Left out one at a time, runs are predicted with Q\xc2\xb2 = %.3f, and %.1f %% of them lie "
      "inside their 95 %% interval.",
      r->q2, 100 * r->coverage);
  if (!say || (sobol && !cell)) return ATVI_FAIL(atvi_pool_ctx(pool), ATVI_ENOMEM, "report: out of memory");
  const atvi_dots index[] = {{"alone", r->first, NULL}, {"with all its interactions", r->total, NULL}};
  atvi_dot_plot plot = {.n_row = r->n_input,
                        .row = r->input,
                        .n = 2,
                        .of = index,
                        .title = "Sobol indices",
                        .axis = "share of the output's variance",
                        .mark = NAN,
                        .ends = {0, 1}};
  atvi_report_figure loo = {
      "loo", "Runs predicted when left out, against what they gave; good where they lie on the diagonal.",
      atvi_figure_scatter(pool, r->n_loo, r->observed, r->predicted, "Left out one at a time",
                          "the simulator's", "the emulator's")};
  atvi_report_figure sobols = {"sobol", "First-order and total Sobol indices of the inputs.",
                               sobol ? atvi_figure_dots(pool, &plot) : NULL};
  atvi_report_table table = {"Sobol indices", 3, column, r->n_input, cell};
  const atvi_report_part part[] = {{"validation", "Validation", 1, &say, r->n_loo > 0, &loo, 0, NULL},
                                   {"sensitivity", "Which inputs matter", 0, NULL, 1, &sobols, 1, &table}};
  bool good = r->q2 > 0.9 && r->coverage > 0.9 && r->coverage < 0.99;
  atvi_report_short page = {r->title, r->sub, good ? "ok" : "warn", say, sobol ? 2 : 1, part};
  return atvi_report_short_save(pool, &page, dir);
}
