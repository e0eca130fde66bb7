/* SPDX-License-Identifier: MIT */
/* The truth of a study: name=value,... or a JSON file {"beta": 0.9, "nu": [1, 2]}. */
#include "app/replicate.h"
#include "io/file.h"
#include <jansson.h>
#include <math.h>
#include <string.h>

static const char WANT[] = "hint: the truth is a JSON object with a number, or a list of them, for every "
                           "parameter: {\"beta\": 0.9, \"nu\": [1, 2]}";

typedef struct {
  atvi_ctx *ctx;
  atvi_pool *pool;
  atvi_app_set *set;
  atvi_idx n, cap;
} truth;

static atvi_status put(truth *t, const char *name, size_t n_name, const char *value, size_t n_value) {
  if (!ATVI_PUSH(t->pool, t->set, t->n, t->cap)) return ATVI_ENOMEM;
  atvi_app_set *s = &t->set[t->n++];
  s->name = atvi_pool_strndup(t->pool, name, n_name);
  s->value = atvi_pool_strndup(t->pool, value, n_value);
  return s->name && s->value ? ATVI_OK : ATVI_ENOMEM;
}

static size_t without_blanks(const char **s, size_t n) {
  size_t skip = strspn(*s, " \t");
  if (skip > n) skip = n;
  *s += skip;
  for (n -= skip; n > 0 && strchr(" \t", (*s)[n - 1]);) n--;
  return n;
}

/* A comma ends a value only where a further name follows: "nu=1,2,beta=0.9". */
static atvi_status pairs(truth *t, const char *text) {
  while (*text) {
    const char *name = text, *value = text + strcspn(text, "="), *end = value + 1;
    size_t n_name = without_blanks(&name, (size_t)(value - text));
    if (!*value || n_name == 0)
      return ATVI_FAIL(t->ctx, ATVI_EINVAL, "--truth %s: want name=value,... or a JSON file", text);
    value++;
    for (;;) {
      end += strcspn(end, ",");
      if (!*end) break;
      size_t next = strcspn(end + 1, ",=");
      if (end[1 + next] == '=') break;
      end++;
    }
    text = *end ? end + 1 : end;
    size_t n_value = (size_t)(end - value);
    n_value = without_blanks(&value, n_value);
    ATVI_TRY(put(t, name, n_name, value, n_value));
  }
  return ATVI_OK;
}

static bool list(atvi_text *out, const json_t *v) {
  if (json_is_number(v)) {
    if (out->n) atvi_io_text_add(out, ",");
    atvi_io_text_number(out, json_number_value(v));
    return true;
  }
  for (size_t i = 0; i < json_array_size(v); i++)
    if (!list(out, json_array_get(v, i))) return false;
  return json_array_size(v) > 0;
}

static atvi_status from_json(truth *t, const char *path, const json_t *root) {
  const char *name, *text;
  json_t *value;
  if (!json_is_object(root))
    return ATVI_FAIL(t->ctx, ATVI_EDATA, "%s:1:1: error: this is not an object of names and numbers\n%s",
                     path, WANT);
  json_object_foreach((json_t *)root, name, value) {
    atvi_text out = {.pool = t->pool};
    if (!list(&out, value))
      return ATVI_FAIL(t->ctx, ATVI_EDATA, "%s:1:1: error: %s is neither a number nor a list of numbers",
                       path, name);
    ATVI_TRY(atvi_io_text_get(&out, &text));
    ATVI_TRY(put(t, name, strlen(name), text, strlen(text)));
  }
  return ATVI_OK;
}

static atvi_status file(truth *t, const char *path) {
  char *text;
  size_t n;
  json_error_t error;
  atvi_status found = atvi_io_file_read(t->pool, path, &text, &n);
  if (found == ATVI_EIO) return ATVI_EINVAL; /* for the user to fix, like a wrong value */
  ATVI_TRY(found);
  if (strspn(text, " \t\r\n") == n)
    return ATVI_FAIL(t->ctx, ATVI_EDATA, "%s:1:1: error: the file is empty\n%s", path, WANT);
  json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
  if (!root)
    return ATVI_FAIL(t->ctx, ATVI_EDATA, "%s:%d:%d: error: %s\n%s", path, error.line, error.column,
                     error.text, WANT);
  found = from_json(t, path, root);
  json_decref(root);
  return found;
}

/* One after another, so that a value given twice, by name or by array, is noticed. one: [d]. */
static atvi_status assign(const truth *t, const atvi_target *target, double *theta, double *one) {
  for (atvi_idx i = 0; i < target->d; i++) theta[i] = NAN;
  for (atvi_idx k = 0; k < t->n; k++) {
    ATVI_TRY(atvi_app_values(t->ctx, "--truth", target, 1, &t->set[k], one));
    for (atvi_idx i = 0; i < target->d; i++) {
      if (isnan(one[i])) continue;
      if (!isnan(theta[i]))
        return ATVI_FAIL(t->ctx, ATVI_EINVAL, "--truth: %s is listed twice, %g and %g", target->param[i].name,
                         theta[i], one[i]);
      theta[i] = one[i];
    }
  }
  return ATVI_OK;
}

/* A truth file may also contain fixed parameters. */
static void drop_fixed(truth *t, const atvi_app_model *model) {
  atvi_idx n = 0;
  for (atvi_idx i = 0; i < t->n; i++) {
    bool fixed = false;
    for (atvi_idx k = 0; k < model->n_fix; k++) fixed = fixed || !strcmp(model->fix[k].name, t->set[i].name);
    if (!fixed) t->set[n++] = t->set[i];
  }
  t->n = n;
}

atvi_status atvi_app_truth(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_model *model,
                           const atvi_target *target, atvi_idx n, const char *const *text, double *theta) {
  truth t = {.ctx = ctx, .pool = pool};
  for (atvi_idx i = 0; i < n; i++) ATVI_TRY(strchr(text[i], '=') ? pairs(&t, text[i]) : file(&t, text[i]));
  drop_fixed(&t, model);
  double *one = atvi_pool_take(pool, (size_t)target->d + 1, sizeof *one);
  if (!one) return ATVI_ENOMEM;
  ATVI_TRY(assign(&t, target, theta, one));
  for (atvi_idx i = 0; i < target->d; i++) {
    const atvi_param *p = &target->param[i];
    if (isnan(theta[i]))
      return ATVI_FAIL(ctx, ATVI_EINVAL, "--truth has no value for %s (its bounds are [%g, %g])", p->name,
                       p->lower, p->upper);
    if (theta[i] < p->lower || theta[i] > p->upper)
      return ATVI_FAIL(ctx, ATVI_EINVAL, "--truth %s=%g is outside its bounds [%g, %g]", p->name, theta[i],
                       p->lower, p->upper);
  }
  return ATVI_OK;
}
