/* SPDX-License-Identifier: MIT */
#include "app/bytes.h"
#include <string.h>

/* U+F780 .. U+F7FF are EF 9E 80 .. EF 9E BF and EF 9F 80 .. EF 9F BF. */
static bool stands_for_byte(const char *s) {
  const unsigned char *u = (const unsigned char *)s;
  return u[0] == 0xef && (u[1] == 0x9e || u[1] == 0x9f) && (u[2] & 0xc0) == 0x80;
}

static bool has_one(const char *s) {
  for (; *s; s++)
    if (stands_for_byte(s)) return true;
  return false;
}

json_t *atvi_bytes_json(atvi_pool *pool, const char *s) {
  if (!s) return json_null();
  json_t *out = has_one(s) ? NULL : json_string(s);
  if (out) return out;
  char *text = atvi_pool_take(pool, 3 * strlen(s) + 1, 1), *to = text;
  if (!text) return NULL;
  for (; *s; s++) {
    unsigned b = (unsigned char)*s;
    if (b < 128) {
      *to++ = *s;
      continue;
    }
    *to++ = (char)0xef;
    *to++ = (char)(b < 0xc0 ? 0x9e : 0x9f);
    *to++ = (char)(0x80 | (b & 0x3f));
  }
  return json_string(text);
}

char *atvi_bytes_text(atvi_pool *pool, const char *s) {
  char *out = s ? atvi_pool_strndup(pool, s, strlen(s)) : NULL, *to = out;
  if (!out) return NULL;
  for (; *s; s++) {
    if (!stands_for_byte(s)) {
      *to++ = *s;
      continue;
    }
    *to++ = (char)(((unsigned char)s[1] == 0x9e ? 0x80 : 0xc0) | ((unsigned char)s[2] & 0x3f));
    s += 2;
  }
  *to = 0;
  return out;
}
