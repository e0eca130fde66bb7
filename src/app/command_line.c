/* SPDX-License-Identifier: MIT */
/* The command that gives the same draws again. */
#include "app/common.h"
#include "app/report.h"
#include "infer/fit.h"
#include <inttypes.h>
#include <string.h>

void atvi_app_quoted(atvi_text *out, const char *s) {
  if (*s && s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:+@%")] == 0) {
    atvi_io_text_add(out, "%s", s);
    return;
  }
  atvi_io_text_add(out, "'");
  for (; *s; s++) atvi_io_text_add(out, *s == '\'' ? "'\\''" : "%c", *s);
  atvi_io_text_add(out, "'");
}

void atvi_app_report_word(atvi_text *out, const char *s) {
  atvi_io_text_add(out, " ");
  atvi_app_quoted(out, s);
}

static void put_text(atvi_text *out, const char *option, const char *name, const char *value) {
  if (!value) return;
  const char *both = name && *name ? atvi_pool_printf(out->pool, "%s=%s", name, value) : value;
  atvi_io_text_add(out, " --%s", option);
  if (both) atvi_app_report_word(out, both);
}

static void put_option(atvi_text *out, const atvi_fit_option *p, const atvi_fit_opts *how) {
  const void *at = atvi_infer_fit_option_in(p, how);
  const char *word = p->kind == ATVI_OPTION_WORD ? *(const char *const *)at : NULL;
  bool off = p->flag_off && strcmp(word, "off") == 0;
  atvi_io_text_add(out, " --%s", off ? p->flag_off : p->flag ? p->flag : p->name);
  if (!p->value) return;
  switch (p->kind) {
  case ATVI_OPTION_WORD: atvi_app_report_word(out, word); break;
  case ATVI_OPTION_SEED: atvi_io_text_add(out, " %" PRIu64, *(const uint64_t *)at); break;
  case ATVI_OPTION_NUMBER: atvi_io_text_add(out, " %g", *(const double *)at); break;
  case ATVI_OPTION_SECONDS: atvi_io_text_add(out, " %gs", *(const double *)at); break;
  case ATVI_OPTION_COUNT: atvi_io_text_add(out, " %td", *(const atvi_idx *)at); break;
  case ATVI_OPTION_FLAG: break;
  }
}

const char *atvi_app_report_command(atvi_pool *pool, const atvi_app_fit_opts *o) {
  const atvi_fit_option *p;
  atvi_text out = {.pool = pool};
  const char *text;
  atvi_io_text_add(&out, "atvi fit");
  atvi_app_report_word(&out, o->model.path);
  for (int i = 0; (p = atvi_infer_fit_option_at(i));
       i++) /* always with the seed, so that whoever repeats a fit sees it */
    if (p->kind == ATVI_OPTION_SEED || !atvi_infer_fit_option_is_default(p, &o->how))
      put_option(&out, p, &o->how);
  for (atvi_idx i = 0; i < o->model.n_data; i++)
    put_text(&out, "data", o->model.data[i].name, o->model.data[i].path);
  for (atvi_idx i = 0; i < o->model.n_fix; i++)
    put_text(&out, "fix", o->model.fix[i].name, o->model.fix[i].value);
  put_text(&out, "folder", NULL, o->model.folder);
  put_text(&out, "runs", NULL, o->model.runs);
  put_text(&out, "holdout", NULL, o->holdout);
  if (o->model.interpret) atvi_io_text_add(&out, " --no-compile");
  return atvi_io_text_get(&out, &text) == ATVI_OK ? text : NULL;
}
