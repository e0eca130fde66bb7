/* SPDX-License-Identifier: MIT */
/* Models from strings, values of their nodes, and the errors of wrong ones. */
#ifndef ATVI_TESTS_LANG_HELPER_H
#define ATVI_TESTS_LANG_HELPER_H

#include "lang/lang.h"
#include "testing.h"
#include <unistd.h>

static TEST_UNUSED atvi_lang *model(atvi_ctx *ctx, const char *text) {
  atvi_lang *lang;
  atvi_lang_opts opts = {.data_optional = true};
  atvi_status status = atvi_lang_parse(ctx, "model.atvi", text, strlen(text), &opts, &lang);
  CHECK_MSG(status == ATVI_OK, "%s", atvi_errmsg(ctx));
  return lang;
}

static TEST_UNUSED double value_at(atvi_ctx *ctx, const atvi_lang *lang, atvi_node x, const double *param,
                                   double t, const double *state, const double *table) {
  const double *in[8] = {param, &t, state, NULL, table};
  double value;
  CHECK_OK(atvi_graph_value(ctx, lang->graph, x, in, &value));
  return value;
}

/* The value of the one derived quantity of a model without parameters to speak of. */
static TEST_UNUSED double derived_at(const char *text, const double *param) {
  atvi_ctx *ctx = test_ctx();
  atvi_lang *lang = model(ctx, text);
  CHECK(lang->outputs.n_derived >= 1);
  double value =
      value_at(ctx, lang, lang->outputs.derived[lang->outputs.n_derived - 1].node, param, 0, NULL, NULL);
  atvi_lang_free(lang);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
  return value;
}

/* The message begins with path:line:column, contains the word, shows a caret and gives a hint. */
static TEST_UNUSED void check_message(const char *message, const char *path, int line, int column,
                                      const char *word) {
  char start[256];
  snprintf(start, sizeof start, "%s:%d:%d: error: ", path, line, column);
  CHECK_MSG(strncmp(message, start, strlen(start)) == 0, "want %s...\ngot  %s", start, message);
  CHECK_MSG(strstr(message, word) != NULL, "want '%s' in\n%s", word, message);
  CHECK_MSG(strstr(message, "^") != NULL, "no caret in\n%s", message);
  CHECK_MSG(strstr(message, "\nhint: ") != NULL, "no hint in\n%s", message);
}

static TEST_UNUSED void wrong(const char *text, int line, int column, const char *word) {
  atvi_ctx *ctx = test_ctx();
  atvi_lang *lang;
  atvi_lang_opts opts = {.data_optional = true};
  atvi_status status = atvi_lang_parse(ctx, "model.atvi", text, strlen(text), &opts, &lang);
  CHECK_MSG(status == ATVI_EMODEL, "status %d for:\n%s\n%s", status, text, atvi_errmsg(ctx));
  CHECK(lang == NULL);
  check_message(atvi_errmsg(ctx), "model.atvi", line, column, word);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* A folder for data files, removed by folder_end. */
typedef struct {
  char path[64], file[8][96];
  int n;
} folder;

static TEST_UNUSED folder folder_new(void) {
  folder f = {.path = "/tmp/atvi-lang-XXXXXX"};
  CHECK(mkdtemp(f.path) != NULL);
  return f;
}

static TEST_UNUSED const char *folder_put(folder *f, const char *name, const char *text) {
  char *path = f->file[f->n++], full[96];
  snprintf(full, sizeof full, "%s/%s", f->path, name);
  memcpy(path, full, sizeof full);
  FILE *out = fopen(path, "wb");
  CHECK(out != NULL);
  fputs(text, out);
  CHECK(fclose(out) == 0);
  return path;
}

static TEST_UNUSED void folder_end(folder *f) {
  for (int i = 0; i < f->n; i++) unlink(f->file[i]);
  rmdir(f->path);
}

#endif
