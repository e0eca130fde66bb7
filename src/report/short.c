/* SPDX-License-Identifier: MIT */
/* Reports that are sentences, tables and figures: comparisons, studies. */
#include "report/report.h"
#include <string.h>

static void put_table(atvi_page *p, const atvi_report_table *t) {
  atvi_page_table(p, t->caption, t->n_column, t->column, false);
  for (atvi_idx i = 0; i < t->n_row; i++) {
    const char *const *cell = t->cell + i * t->n_column;
    atvi_page_row_to(p, cell[0], t->link ? t->link[i] : NULL);
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
    atvi_page_figure_table(p, f->canvas, f->narrow, id ? id : "f", f->alt);
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
