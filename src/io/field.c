/* SPDX-License-Identifier: MIT */
#include "io/field.h"
#include <string.h>

static bool blank(char c) { return c == ' ' || c == '\t'; }

/* Where the bracket is in a name like theta[1,2]: one that opens, one that closes, at the end; 0: it is none. */
static size_t bracket(const char *name, size_t n) {
  size_t open = strcspn(name, "[],.");
  if (name[open] != '[') return 0;
  size_t close = open + 1 + strcspn(name + open + 1, "[].");
  return name[close] == ']' && close == n - 1 ? open : 0;
}

bool atvi_field_name(const char *text, size_t n, char out[ATVI_FIELD_BYTES]) {
  while (n > 0 && blank(*text)) text++, n--;
  while (n > 0 && blank(text[n - 1])) n--;
  if (n >= ATVI_FIELD_BYTES) return false;
  memcpy(out, text, n);
  out[n] = 0;
  size_t at = bracket(out, n);
  if (at == 0) return true;
  for (size_t i = at; i < n; i++)
    if (out[i] == '[' || out[i] == ',') out[i] = '.';
  out[n - 1] = 0;
  return true;
}
