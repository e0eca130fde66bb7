/* SPDX-License-Identifier: MIT */
/* What a repeated run was begun with: options, the text of the model, and what is in the files that it reads. A description of a model does
 * not keep the names of all its files (constants and tables are numbers by then), hence they are found in the text: whatever stands in
 * quotes and is a file, but for data, which may be others than the text says, and the record of a simulator's runs. */
#include "app/bytes.h"
#include "app/replicate.h"
#include "io/file.h"
#include "sim/record.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

typedef struct {
  atvi_pool *pool;
  const atvi_lang *lang;
  atvi_json *to;
} files;

static void add_data(atvi_json *to, const atvi_lang *lang) {
  for (atvi_idx g = 0; g < lang->n_data; g++) {
    const atvi_csv *csv = lang->data[g].csv;
    uint64_t hash = ATVI_HASH;
    if (csv && csv->source) hash = atvi_hash(hash, csv->source, csv->n_source);
    char text[24];
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    atvi_json_put(to, NULL, json_string(text));
  }
}

/* "name hash", if there is such a file. */
static bool add_file(const files *f, const char *name, const char *path) {
  struct stat st;
  char *text;
  size_t n;
  if (!path || stat(path, &st) != 0 || !S_ISREG(st.st_mode)) return false;
  if (atvi_file_read(f->pool, path, &text, &n) != ATVI_OK) return false;
  const char *line = atvi_pool_printf(f->pool, "%s %016" PRIx64, name, atvi_hash(ATVI_HASH, text, n));
  atvi_json_put(f->to, NULL, line ? atvi_bytes_json(f->pool, line) : NULL);
  return true;
}

/* Files are looked for where the model says, or beside it. */
static void add_quoted(const files *f, const char *name) {
  const char *model = f->lang->path, *slash = strrchr(model, '/');
  int n = slash ? (int)(slash - model) : 1;
  if (name[0] == '/') {
    add_file(f, name, name);
    return;
  }
  if (f->lang->folder && add_file(f, name, atvi_pool_printf(f->pool, "%s/%s", f->lang->folder, name))) return;
  add_file(f, name, atvi_pool_printf(f->pool, "%.*s/%s", n, slash ? model : ".", name));
}

static void add_line(const files *f, const char *at, size_t n) {
  const char *end = at + n;
  size_t blanks = strspn(at, " \t");
  if (blanks < n && strncmp(at + blanks, "data", 4) == 0 && strchr(" \t\"", at[blanks + 4])) return;
  while (at < end && *at != '#') {
    const char *close = *at == '"' ? memchr(at + 1, '"', (size_t)(end - at - 1)) : NULL;
    if (close) {
      const char *name = atvi_pool_strndup(f->pool, at + 1, (size_t)(close - at - 1));
      if (name && *name) add_quoted(f, name);
      at = close;
    }
    at++;
  }
}

static void add_files(const files *f, const char *runs) {
  for (const char *at = f->lang->source; *at;) {
    size_t n = strcspn(at, "\n");
    add_line(f, at, n);
    at += n + (at[n] != 0);
  }
  if (!f->lang->simulator.given) return;
  const char *folder = runs ? runs : atvi_sim_folder(f->pool, f->lang->path);
  if (folder) add_file(f, ATVI_SIM_RECORD, atvi_pool_printf(f->pool, "%s/%s", folder, ATVI_SIM_RECORD));
}

void atvi_record_settings(atvi_json *w, const atvi_loaded *l, const atvi_app_model *model, uint64_t seed,
                          atvi_idx replicates) {
  char text[24];
  snprintf(text, sizeof text, "%" PRIu64, seed);
  atvi_json_object(w, NULL);
  atvi_json_put(w, "version", json_string(ATVI_VERSION));
  atvi_json_put(w, "replicates", json_integer(replicates));
  atvi_json_put(w, "seed", json_string(text));
  atvi_json_object(w, "fix");
  for (atvi_idx i = 0; i < model->n_fix; i++)
    atvi_json_put(w, model->fix[i].name, atvi_bytes_json(w->pool, model->fix[i].value));
  atvi_json_end(w);
  atvi_json_list(w, "data_hash");
  add_data(w, l->model->lang);
  atvi_json_end(w);
  atvi_json_put(w, "model", atvi_bytes_json(w->pool, l->model->lang->source));
  atvi_json_list(w, "files");
  add_files(&(files){w->pool, l->model->lang, w}, model->runs);
  atvi_json_end(w);
}
