/* SPDX-License-Identifier: MIT */
/* The command of a simulator and the fields in it: {k}, {theta.1} or {theta[1]}; {{ and }} are braces. {here} is the folder of the model. */
#include "lang/command.h"
#include "io/arrays.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_name(int c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

elab_field_kind atvi_lang_field(const char **p, const char **name, size_t *n) {
  const char *s = *p;
  while (*s && ((*s != '{' && *s != '}') || s[1] == s[0])) s += *s == '{' || *s == '}' ? 2 : 1;
  *name = s + 1;
  *n = 0;
  *p = s;
  if (!*s) return FIELD_END;
  size_t before = strspn(s + 1, " \t"), end = before; /* as in templates: blanks around a name do not count */
  while (is_name((unsigned char)s[1 + end]) || (s[1 + end] && strchr("[],", s[1 + end]))) end++;
  *n = end + strspn(s + 1 + end, " \t");
  if (*s != '{' || end == before || s[1 + *n] != '}') return FIELD_WRONG;
  *p = s + *n + 2;
  return FIELD_NAME;
}

static int compare(const void *a, const void *b) {
  const elab_named *x = a, *y = b;
  return strcmp(x->name, y->name);
}

bool atvi_lang_named_params(elab *e, elab_named **out) {
  atvi_idx n = e->lang->n_param;
  if (!(*out = atvi_lang_take(e->s, n, sizeof **out))) return false;
  for (atvi_idx i = 0; i < n; i++) (*out)[i] = (elab_named){e->lang->param[i].name, i};
  qsort(*out, (size_t)n, sizeof **out, compare);
  return true;
}

atvi_idx atvi_lang_named_find(const elab *e, const elab_named *param, const char *field, size_t n_field) {
  char text[ATVI_ARRAY_NAME];
  atvi_idx lo = 0, hi = e->lang->n_param;
  if (!atvi_io_array_dots(field, n_field, text)) return -1;
  while (lo < hi) {
    atvi_idx mid = (lo + hi) / 2;
    int c = strcmp(text, param[mid].name);
    if (c == 0) return param[mid].index;
    if (c < 0)
      hi = mid;
    else
      lo = mid + 1;
  }
  return -1;
}

/* ---- paths ---- */

/* The model's folder from the root on; a run has a working folder of its own. */
static const char *folder_of_model(elab *e) {
  const char *path = e->s->path, *slash = strrchr(path, '/'), *out;
  int n = slash ? (int)(slash - path) : 0;
  char cwd[PATH_MAX];
  if (path[0] == '/')
    out = atvi_pool_strndup(e->s->pool, path, (size_t)n);
  else if (!getcwd(cwd, sizeof cwd))
    out = atvi_pool_strndup(e->s->pool, n ? path : ".", n ? (size_t)n : 1);
  else
    out = atvi_pool_printf(e->s->pool, "%s%s%.*s", cwd, n ? "/" : "", n, path);
  if (!out) atvi_lang_nomem(e->s);
  return out;
}

/* Text for the shell and for atvi_lang_field alike: in quotes if need be, braces doubled. */
static const char *quoted(elab *e, const char *text) {
  bool plain = true;
  for (const char *p = text; *p; p++)
    plain = plain && (is_name((unsigned char)*p) || strchr("/+=:,@%-", *p) != NULL);
  if (plain) return text;
  char *out = atvi_lang_take(e->s, (atvi_idx)(4 * strlen(text) + 3), 1), *q = out;
  if (!out) return NULL;
  *q++ = '\'';
  for (const char *p = text; *p; p++) {
    if (*p == '\'')
      q += strlen(strcpy(q, "'\\''"));
    else
      *q++ = *p;
    if (*p == '{' || *p == '}') *q++ = *p;
  }
  strcpy(q, "'");
  return out;
}

/* Whether the first word is a path from the model's folder: it has a slash, and nothing in front of it for the shell to work out. */
static bool local(const char *command) {
  size_t word = strcspn(command, " \t;|&<>"), slash = strcspn(command, "/");
  return slash < word && !strchr("/~${", command[0]) && memchr(command, '=', slash) == NULL;
}

static bool is_here(const char *name, size_t n) { return n == 4 && strncmp(name, "here", n) == 0; }

const char *atvi_lang_command(elab *e, const char *command, bool here_is_free) {
  const char *folder = folder_of_model(e), *shown = folder ? quoted(e, folder) : NULL, *p, *name;
  size_t n, times = 1;
  if (!shown) return NULL;
  while (*command == ' ' || *command == '\t') command++;
  bool is_local = local(command);
  if (is_local && strncmp(command, "./", 2) == 0) command += 2;
  for (p = command; atvi_lang_field(&p, &name, &n) == FIELD_NAME;) times += is_here(name, n);
  char *out = atvi_lang_take(e->s, (atvi_idx)(strlen(command) + times * strlen(shown) + 2), 1), *q = out;
  if (!out) return NULL;
  if (is_local) q += strlen(strcat(strcpy(q, shown), "/"));
  for (p = command; here_is_free && atvi_lang_field(&p, &name, &n) == FIELD_NAME;) {
    if (!is_here(name, n)) continue;
    memcpy(q, command, (size_t)(name - 1 - command));
    q += name - 1 - command;
    q += strlen(strcpy(q, shown));
    command = p;
  }
  strcpy(q, command);
  return out;
}
