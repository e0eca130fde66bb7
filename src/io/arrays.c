/* SPDX-License-Identifier: MIT */
#include "io/arrays.h"
#include <string.h>

enum { LABEL_DIGITS = 15 };

typedef struct {
  size_t base; /* length of the name without indices */
  int n_index;
  int64_t index[ATVI_ARRAY_DIMS];
} split_name;

/* The index that ends at s[end], and where the dot before it is; 0: there is none. */
static size_t last_index(const char *s, size_t end, int64_t *value) {
  size_t at = end;
  while (at > 0 && s[at - 1] >= '0' && s[at - 1] <= '9') at--;
  if (at == end || at < 2 || s[at - 1] != '.' || end - at > LABEL_DIGITS) return 0;
  *value = 0;
  for (size_t i = at; i < end; i++) *value = 10 * *value + (s[i] - '0');
  return at - 1;
}

static split_name split(const char *s) {
  split_name out = {.base = strlen(s)};
  int64_t back[ATVI_ARRAY_DIMS + 1];
  int n = 0;
  for (size_t end = out.base; n <= ATVI_ARRAY_DIMS; n++) {
    size_t dot = last_index(s, end, &back[n]);
    if (dot == 0) break;
    end = out.base = dot;
  }
  if (n > ATVI_ARRAY_DIMS) return (split_name){.base = strlen(s)};
  for (out.n_index = 0; out.n_index < n; out.n_index++) out.index[out.n_index] = back[n - 1 - out.n_index];
  return out;
}

static bool same_base(const char *a, const split_name *x, const char *b, const split_name *y) {
  return x->n_index == y->n_index && x->base == y->base && memcmp(a, b, x->base) == 0;
}

/* How many labels dimension k has, if elements s[n] are a grid: until its first index comes again, with later dimensions
 * taking `inner` elements. */
static atvi_idx length(const split_name *s, atvi_idx n, int k, atvi_idx inner) {
  atvi_idx count = 1;
  while (count * inner < n && s[count * inner].index[k] != s[0].index[k]) count++;
  return count;
}

/* Sets sizes and labels; false if s[n] is no grid. */
static bool grid(atvi_pool *pool, const split_name *s, atvi_idx n, atvi_array *a) {
  atvi_idx inner = 1;
  a->n_dim = s[0].n_index;
  for (int k = a->n_dim - 1; k >= 0; k--) {
    a->size[k] = length(s, n, k, inner);
    a->label[k] = atvi_pool_take(pool, (size_t)a->size[k], sizeof *a->label[k]);
    if (!a->label[k]) return false;
    for (atvi_idx i = 0; i < a->size[k]; i++) a->label[k][i] = s[i * inner].index[k];
    inner *= a->size[k];
  }
  if (inner != n) return false;
  for (atvi_idx i = 0; i < n; i++) {
    atvi_idx at = i;
    for (int k = a->n_dim - 1; k >= 0; at /= a->size[k--])
      if (s[i].index[k] != a->label[k][at % a->size[k]]) return false;
  }
  for (int k = 0; k < a->n_dim; k++) /* ascending, and so each once */
    for (atvi_idx i = 1; i < a->size[k]; i++)
      if (a->label[k][i] <= a->label[k][i - 1]) return false;
  return true;
}

atvi_status atvi_arrays_find(atvi_pool *pool, atvi_idx n, const char *const *name, const atvi_idx *kin,
                             atvi_idx *n_array, atvi_array **out) {
  split_name *s = atvi_pool_take(pool, (size_t)n + 1, sizeof *s);
  atvi_array *list = atvi_pool_take(pool, (size_t)n + 1, sizeof *list);
  atvi_idx count = 0;
  *out = NULL;
  *n_array = 0;
  for (atvi_idx i = 0; s && i < n; i++) s[i] = split(name[i]);
  for (atvi_idx i = 0, end; s && list && i < n; i = end) {
    end = i + 1;
    while (end < n && s[i].n_index > 0 && same_base(name[i], &s[i], name[end], &s[end]) &&
           (!kin || kin[end] == kin[i]))
      end++;
    atvi_array a = {.first = i, .n = end - i};
    if (s[i].n_index > 0 && grid(pool, s + i, a.n, &a)) {
      a.name = atvi_pool_strndup(pool, name[i], s[i].base);
      list[count++] = a;
    } else {
      for (atvi_idx j = i; j < end; j++) list[count++] = (atvi_array){.name = name[j], .first = j, .n = 1};
    }
  }
  if (atvi_pool_failed(pool))
    return ATVI_FAIL(atvi_pool_ctx(pool), ATVI_ENOMEM, "out of memory: %td names", n);
  *out = list;
  *n_array = count;
  return ATVI_OK;
}

const char *atvi_array_bracket(atvi_pool *pool, const char *name) {
  split_name s = split(name);
  if (s.n_index == 0) return name;
  char *out = atvi_pool_printf(pool, "%s]", name);
  for (char *p = out ? out + s.base : NULL; p && *p; p++)
    if (*p == '.') *p = p == out + s.base ? '[' : ',';
  return out;
}
