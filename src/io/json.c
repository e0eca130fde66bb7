/* SPDX-License-Identifier: MIT */
#include "io/json.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { DIGITS = 15 }; /* as many as every decimal number keeps: 0.1 stays 0.1 */

json_t *atvi_json_real(double x) { return isfinite(x) ? json_real(x) : json_null(); }

json_t *atvi_json_word(atvi_pool *pool, const char *s) {
  json_t *out = s ? json_string(s) : json_null();
  if (out) return out;
  char *copy = atvi_pool_strndup(pool, s, strlen(s));
  for (char *p = copy; p && *p; p++)
    if ((unsigned char)*p >= 128) *p = '?';
  return copy ? json_string(copy) : NULL;
}

json_t *atvi_json_seed(atvi_pool *pool, uint64_t seed) {
  if (seed <= INT64_MAX) return json_integer((json_int_t)seed);
  const char *text = atvi_pool_printf(pool, "%" PRIu64, seed);
  return text ? json_string(text) : NULL;
}

bool atvi_json_set(json_t *object, const char *key, json_t *value) {
  return json_object_set_new(object, key, value) == 0;
}

json_t *atvi_json_done(json_t *x, bool ok) {
  if (ok) return x;
  json_decref(x);
  return NULL;
}

json_t *atvi_json_pair(double a, double b) {
  json_t *out = json_array();
  bool ok = json_array_append_new(out, atvi_json_real(a)) == 0;
  ok = json_array_append_new(out, atvi_json_real(b)) == 0 && ok;
  return atvi_json_done(out, ok);
}

atvi_status atvi_json_text(atvi_pool *pool, json_t *x, const char *what, const char **text) {
  const size_t flags = JSON_INDENT(2) | JSON_REAL_PRECISION(DIGITS);
  size_t n = x ? json_dumpb(x, NULL, 0, flags) : 0;
  char *out = n ? atvi_pool_take(pool, n + 2, 1) : NULL;
  *text = NULL;
  if (out && json_dumpb(x, out, n, flags) == n) {
    out[n] = '\n';
    *text = out;
  }
  json_decref(x);
  return *text ? ATVI_OK : ATVI_FAIL(atvi_pool_ctx(pool), ATVI_ENOMEM, "%s: out of memory", what);
}
