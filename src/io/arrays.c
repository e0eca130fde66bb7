/* SPDX-License-Identifier: MIT */
#include "io/arrays.h"
#include <string.h>

enum { LABEL_DIGITS = 15 };

typedef struct {
  const char *at; /* inside the name */
  size_t n;
  int64_t value; /* -1: a word */
} name_index;

typedef struct {
  size_t base; /* length of the name without indices */
  int n_index;
  name_index index[ATVI_ARRAY_DIMS];
} split_name;

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

/* A number, or a word like the names in models. */
static bool read_index(const char *s, size_t n, name_index *out) {
  bool number = n > 0 && n <= LABEL_DIGITS, word = n > 0 && is_letter(s[0]);
  *out = (name_index){s, n, -1};
  for (size_t i = 0; i < n; i++) {
    number = number && is_digit(s[i]);
    word = word && (is_letter(s[i]) || is_digit(s[i]));
  }
  if (number) out->value = 0;
  for (size_t i = 0; number && i < n; i++) out->value = 10 * out->value + (s[i] - '0');
  return number || word;
}

/* Names in models have dots only before indices. */
static split_name split(const char *s) {
  const split_name whole = {.base = strlen(s)};
  split_name out = {.base = strcspn(s, ".")};
  if (out.base == 0) return whole;
  for (const char *p = s + out.base; *p; out.n_index++) {
    size_t n = strcspn(p + 1, ".");
    if (out.n_index == ATVI_ARRAY_DIMS || !read_index(p + 1, n, &out.index[out.n_index])) return whole;
    p += n + 1;
  }
  return out;
}

static bool same_index(const name_index *a, const name_index *b) {
  return a->n == b->n && memcmp(a->at, b->at, a->n) == 0;
}

static bool same_base(const char *a, const split_name *x, const char *b, const split_name *y) {
  bool same = x->n_index == y->n_index && x->base == y->base && memcmp(a, b, x->base) == 0;
  for (int k = 0; same && k < x->n_index; k++) same = (x->index[k].value < 0) == (y->index[k].value < 0);
  return same;
}

/* Number of labels of dimension k, if elements s[n] are a grid: until its first index recurs, with later
 * dimensions taking `inner` elements. */
static atvi_idx length(const split_name *s, atvi_idx n, int k, atvi_idx inner) {
  atvi_idx count = 1;
  while (count * inner < n && !same_index(&s[count * inner].index[k], &s[0].index[k])) count++;
  return count;
}

/* Labels of dimension k; false: numbers do not ascend, or out of memory. */
static bool take_labels(atvi_pool *pool, const split_name *s, atvi_idx inner, int k, atvi_array *a) {
  bool words = s[0].index[k].value < 0, good = true;
  int64_t *label = atvi_pool_take(pool, (size_t)a->size[k], sizeof *label);
  const char **word = words ? atvi_pool_take(pool, (size_t)a->size[k], sizeof *word) : NULL;
  if (!label || (words && !word)) return false;
  for (atvi_idx i = 0; good && i < a->size[k]; i++) {
    const name_index *x = &s[i * inner].index[k];
    label[i] = words ? i + 1 : x->value;
    if (words) word[i] = atvi_pool_strndup(pool, x->at, x->n);
    good = words ? word[i] != NULL : i == 0 || label[i] > label[i - 1];
  }
  a->label[k] = label;
  a->word[k] = word;
  return good;
}

static bool words_differ(const atvi_array *a) {
  for (int k = 0; k < a->n_dim; k++)
    for (atvi_idx i = 0; a->word[k] && i < a->size[k]; i++)
      for (atvi_idx j = 0; j < i; j++)
        if (strcmp(a->word[k][i], a->word[k][j]) == 0) return false;
  return true;
}

/* Sets sizes and labels; false if s[n] is not a grid. A single word after a dot may be anything and is not an
 * index. */
static bool grid(atvi_pool *pool, const split_name *s, atvi_idx n, atvi_array *a) {
  atvi_idx inner = 1;
  a->n_dim = s[0].n_index;
  for (int k = a->n_dim - 1; k >= 0; k--) {
    if (n == 1 && s[0].index[k].value < 0) return false;
    a->size[k] = length(s, n, k, inner);
    if (!take_labels(pool, s, inner, k, a)) return false;
    inner *= a->size[k];
  }
  if (inner != n) return false;
  for (atvi_idx i = 0; i < n; i++) {
    atvi_idx at = i, step = 1;
    for (int k = a->n_dim - 1; k >= 0; at /= a->size[k], step *= a->size[k], k--)
      if (!same_index(&s[i].index[k], &s[at % a->size[k] * step].index[k])) return false;
  }
  return words_differ(a);
}

atvi_status atvi_io_arrays_find(atvi_pool *pool, atvi_idx n, const char *const *name, const atvi_idx *kin,
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
  if (atvi_pool_failed(pool)) return ATVI_ENOMEM;
  *out = list;
  *n_array = count;
  return ATVI_OK;
}

const char *atvi_io_array_bracket(atvi_pool *pool, const char *name) {
  split_name s = split(name);
  if (s.n_index == 0) return name;
  char *out = atvi_pool_printf(pool, "%s]", name);
  for (char *p = out ? out + s.base : NULL; p && *p; p++)
    if (*p == '.') *p = p == out + s.base ? '[' : ',';
  return out;
}

/* ---- from brackets ---- */

static bool blank(char c) { return c == ' ' || c == '\t'; }

/* Position of the bracket in a name like theta[1,2], with one closing bracket at the end; 0: not such a
 * name. */
static size_t bracket(const char *name, size_t n) {
  size_t open = strcspn(name, "[],.");
  if (name[open] != '[') return 0;
  size_t close = open + 1 + strcspn(name + open + 1, "[].");
  return name[close] == ']' && close == n - 1 ? open : 0;
}

bool atvi_io_array_dots(const char *text, size_t n, char out[ATVI_ARRAY_NAME]) {
  while (n > 0 && blank(*text)) text++, n--;
  while (n > 0 && blank(text[n - 1])) n--;
  if (n >= ATVI_ARRAY_NAME) return false;
  memcpy(out, text, n);
  out[n] = 0;
  size_t at = bracket(out, n);
  if (at == 0) return true;
  for (size_t i = at; i < n; i++)
    if (out[i] == '[' || out[i] == ',') out[i] = '.';
  out[n - 1] = 0;
  return true;
}
