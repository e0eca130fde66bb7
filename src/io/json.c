/* SPDX-License-Identifier: MIT */
#include "io/json.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { DIGITS = 15 };

json_t *atvi_io_json_real(double x) { return isfinite(x) ? json_real(x) : json_null(); }

json_t *atvi_io_json_pair(double a, double b) {
  json_t *out = json_array();
  int failed =
      json_array_append_new(out, atvi_io_json_real(a)) | json_array_append_new(out, atvi_io_json_real(b));
  if (!failed) return out;
  json_decref(out);
  return NULL;
}

json_t *atvi_io_json_word(atvi_pool *pool, const char *s) {
  json_t *out = s ? json_string(s) : json_null();
  if (out) return out;
  char *copy = atvi_pool_strndup(pool, s, strlen(s));
  for (char *p = copy; p && *p; p++)
    if ((unsigned char)*p >= 128) *p = '?';
  return copy ? json_string(copy) : NULL;
}

json_t *atvi_io_json_seed(atvi_pool *pool, uint64_t seed) {
  if (seed <= INT64_MAX) return json_integer((json_int_t)seed);
  const char *text = atvi_pool_printf(pool, "%" PRIu64, seed);
  return text ? json_string(text) : NULL;
}

void atvi_io_json_put(atvi_json *w, const char *key, json_t *value) {
  json_t *to = w->depth ? w->at[w->depth - 1] : NULL;
  w->failed =
      (key ? json_object_set_new(to, key, value) : json_array_append_new(to, value)) != 0 || w->failed;
}

/* After a failure nothing new is opened, and what follows is discarded. */
static void open_in(atvi_json *w, const char *key, json_t *value) {
  ATVI_ASSERT(w->depth < ATVI_JSON_DEPTH);
  if (w->depth) atvi_io_json_put(w, key, value);
  w->failed = w->failed || !value;
  w->at[w->depth] = w->failed ? NULL : value;
  w->depth++;
}

void atvi_io_json_object(atvi_json *w, const char *key) { open_in(w, key, json_object()); }
void atvi_io_json_list(atvi_json *w, const char *key) { open_in(w, key, json_array()); }

void atvi_io_json_end(atvi_json *w) {
  ATVI_ASSERT(w->depth > 1);
  w->depth--;
}

void atvi_io_json_words(atvi_json *w, const char *key, atvi_idx n, const char *const *s) {
  atvi_io_json_list(w, key);
  for (atvi_idx i = 0; i < n; i++) atvi_io_json_put(w, NULL, atvi_io_json_word(w->pool, s[i]));
  atvi_io_json_end(w);
}

json_t *atvi_io_json_whole(atvi_json *w) {
  ATVI_ASSERT(w->depth == 1);
  w->depth = 0;
  if (!w->failed) return w->at[0];
  json_decref(w->at[0]);
  return NULL;
}

atvi_status atvi_io_json_get(atvi_json *w, const char *what, const char **text) {
  const size_t flags = JSON_INDENT(2) | JSON_REAL_PRECISION(w->digits ? w->digits : DIGITS);
  json_t *x = atvi_io_json_whole(w);
  size_t n = x ? json_dumpb(x, NULL, 0, flags) : 0;
  char *out = n ? atvi_pool_take(w->pool, n + 2, 1) : NULL;
  *text = NULL;
  if (out && json_dumpb(x, out, n, flags) == n) {
    out[n] = '\n';
    *text = out;
  }
  json_decref(x);
  return *text ? ATVI_OK : ATVI_FAIL(atvi_pool_ctx(w->pool), ATVI_ENOMEM, "%s: out of memory", what);
}

double atvi_io_json_number(const json_t *object, const char *key) {
  const json_t *x = json_object_get(object, key);
  return json_is_number(x) ? json_number_value(x) : NAN;
}
