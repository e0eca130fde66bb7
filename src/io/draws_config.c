/* SPDX-License-Identifier: MIT */
#include "io/draws_file.h"
#include "draws/made.h"
#include "io/csv.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* In the order in which they are written. */
#define MEMBER(kind, name) ATVI_FIELD(kind, atvi_made, name)
static const atvi_field MADE[] = {
    MEMBER(WORD, method),          MEMBER(WORD, model),        MEMBER(SEED, seed),
    MEMBER(REAL, seconds),         MEMBER(COUNT, evaluations), MEMBER(COUNT, failures),
    MEMBER(REAL, accept),          MEMBER(REAL, ess_wanted),   MEMBER(REAL, log_evidence),
    MEMBER(REAL, log_evidence_se), MEMBER(REAL, elbo),         MEMBER(REAL, khat),
    MEMBER(REAL, mode_draw),       MEMBER(REAL, efficiency),   MEMBER(REAL, log_lik_error),
    MEMBER(WHOLE, modes),          MEMBER(REAL, outside),      MEMBER(WHOLE, rungs),
    MEMBER(WHOLE, steps),          MEMBER(MAYBE, tuned),       MEMBER(YES, exact),
    MEMBER(REAL, excess),          MEMBER(REAL, lost),         MEMBER(WHOLE, divergences),
    MEMBER(REAL, ebfmi),           MEMBER(REAL, tree_depth),   MEMBER(WHOLE, max_depth_hits),
};
const atvi_fields atvi_io_made_fields = ATVI_FIELDS(MADE);

static const atvi_field SHAPE[] = {ATVI_FIELD_AS("chains", COUNT, atvi_draws_config, n_chain),
                                   ATVI_FIELD_AS("draws_per_chain", COUNT, atvi_draws_config, per_chain),
                                   ATVI_FIELD_AS("parameters", COUNT, atvi_draws_config, n_param)};
static const atvi_fields SHAPE_FIELDS = ATVI_FIELDS(SHAPE);

static const char *const END[] = {"done", "limit", "stopped"}; /* by atvi_end */

/* ---- writing ---- */

static void put_text(atvi_file *f, const char *key, const char *s) {
  atvi_io_file_printf(f, "# %s = ", key);
  atvi_io_file_put_line(f, s);
  atvi_io_file_put(f, "\n", 1);
}

static void put_real(atvi_file *f, const char *before, double x) {
  char buf[ATVI_NUMBER_BYTES];
  atvi_io_format_number(buf, x);
  atvi_io_file_printf(f, "%s%s", before, buf);
}

static void put_field(atvi_file *f, const atvi_field *field, const atvi_made *made) {
  if (field->kind == ATVI_FIELD_WORD) {
    put_text(f, field->key, *(const char *const *)(const void *)((const char *)made + field->offset));
    return;
  }
  atvi_io_file_printf(f, "# %s = ", field->key);
  if (field->kind == ATVI_FIELD_SEED)
    atvi_io_file_printf(f, "%" PRIu64, made->seed);
  else
    put_real(f, "", atvi_io_field_number(field, made));
  atvi_io_file_put(f, "\n", 1);
}

void atvi_io_draws_config_write(atvi_file *f, const atvi_draws *d) {
  put_text(f, "atvi_version", ATVI_VERSION);
  for (atvi_idx k = 0; k < atvi_io_made_fields.n; k++) put_field(f, &MADE[k], d->made);
  put_text(f, "end", END[d->made->end]);
  atvi_io_file_printf(f, "# chains = %td\n# draws_per_chain = %td\n", d->n_chain, d->n / d->n_chain);
  put_text(f, "draws_are", d->chains ? "chained" : "independent");
  atvi_io_file_printf(f, "# parameters = %td\n# derived = %td\n", d->n_param, d->n_col - d->n_param);
  for (atvi_idx j = 0; j < d->n_col; j++) {
    if (!isfinite(d->col[j].lower) && !isfinite(d->col[j].upper)) continue;
    atvi_io_file_printf(f, "# bounds.%s =", d->col[j].name);
    put_real(f, " ", d->col[j].lower);
    put_real(f, " ", d->col[j].upper);
    atvi_io_file_put(f, "\n", 1);
  }
  for (atvi_idx i = 0; i < d->n_message; i++) {
    const atvi_message *m = &d->message[i];
    atvi_io_file_printf(f, "# message_kind = %s %s\n", atvi_severity_name(m->severity),
                        atvi_code_name(m->code));
    put_text(f, "message", m->text);
  }
}

/* ---- reading ---- */

typedef struct {
  atvi_pool *pool;
  atvi_ctx *ctx;
  const char *path;
  int line;
  const char *key, *value; /* NUL-terminated */
} entry;

static atvi_status no_sense(const entry *e) {
  return ATVI_FAIL(e->ctx, ATVI_EDATA,
                   "%s:%d:1: '%s = %s' is not valid; the file was changed after it was written", e->path,
                   e->line, e->key, e->value);
}

static bool get_whole(const char *s, uint64_t max, uint64_t *out) {
  uint64_t x = 0;
  if (!*s) return false;
  for (; *s; s++) {
    if (*s < '0' || *s > '9') return false;
    uint64_t digit = (uint64_t)(*s - '0');
    if (x > (max - digit) / 10) return false;
    x = 10 * x + digit;
  }
  *out = x;
  return true;
}

static bool get_real(const char *s, size_t n, double *out) {
  if (atvi_io_parse_number(s, n, out)) return true;
  bool negative = n > 0 && *s == '-';
  if (n - negative != 3 || (memcmp(s + negative, "inf", 3) != 0 && memcmp(s, "nan", 3) != 0)) return false;
  *out = s[negative] == 'n' ? NAN : negative ? -HUGE_VAL : HUGE_VAL;
  return true;
}

/* Counts have no more than 63 bits, so they and a seed have the same representation. */
static atvi_status get_field(const entry *e, const atvi_field *f, void *row) {
  void *at = (char *)row + f->offset;
  bool good = true;
  if (f->kind == ATVI_FIELD_WORD)
    *(const char **)at = e->value;
  else if (f->kind == ATVI_FIELD_SEED)
    good = get_whole(e->value, UINT64_MAX, at);
  else if (f->kind == ATVI_FIELD_COUNT)
    good = get_whole(e->value, INT64_MAX, at);
  else
    good = get_real(e->value, strlen(e->value), at);
  return good ? ATVI_OK : no_sense(e);
}

static atvi_status get_bounds(const entry *e, atvi_draws_config *c, atvi_idx *cap) {
  atvi_draws_bounds b = {.name = e->key + strlen("bounds.")};
  const char *gap = strchr(e->value, ' ');
  if (!gap || !get_real(e->value, (size_t)(gap - e->value), &b.lower) ||
      !get_real(gap + 1, strlen(gap + 1), &b.upper) || !(b.lower <= b.upper))
    return no_sense(e);
  if (!ATVI_PUSH(e->pool, c->bounds, c->n_bounds, *cap)) return ATVI_ENOMEM;
  c->bounds[c->n_bounds++] = b;
  return ATVI_OK;
}

static atvi_status get_end(const entry *e, atvi_end *out) {
  for (int k = 0; k < 3; k++) {
    if (strcmp(e->value, END[k]) != 0) continue;
    *out = (atvi_end)k;
    return ATVI_OK;
  }
  return no_sense(e);
}

/* A message without a kind is from an older file, which marks a warning in its text. */
static atvi_status get_message(const entry *e, atvi_draws_config *c, atvi_idx *cap) {
  static const char MARK[] = "Warning: ";
  atvi_message m = c->next;
  c->next = (atvi_message){0};
  if (!m.text && strncmp(e->value, MARK, sizeof MARK - 1) == 0) {
    char *text = atvi_pool_printf(e->pool, "%s", e->value + sizeof MARK - 1);
    if (!text) return ATVI_ENOMEM;
    if (text[0] >= 'a' && text[0] <= 'z') text[0] = (char)(text[0] - 'a' + 'A');
    m = (atvi_message){ATVI_WARNING, ATVI_CODE_NONE, text};
  } else
    m.text = e->value;
  if (!ATVI_PUSH(e->pool, c->message, c->n_message, *cap)) return ATVI_ENOMEM;
  c->message[c->n_message++] = m;
  return ATVI_OK;
}

/* Kind of the next message. An unknown code is from a later version: the text says it all. */
static atvi_status get_message_kind(const entry *e, atvi_draws_config *c) {
  const char *gap = strchr(e->value, ' ');
  char *word = atvi_pool_strndup(e->pool, e->value, gap ? (size_t)(gap - e->value) : 0);
  if (!word) return ATVI_ENOMEM;
  c->next = (atvi_message){.text = ""};
  if (!atvi_severity_find(word, &c->next.severity)) return no_sense(e);
  atvi_code_find(gap + 1, &c->next.code);
  return ATVI_OK;
}

static atvi_status take(const entry *e, atvi_draws_config *c, atvi_idx cap[2]) {
  const atvi_field *made = atvi_io_fields_find(&atvi_io_made_fields, e->key),
                   *shape = atvi_io_fields_find(&SHAPE_FIELDS, e->key);
  if (made) return get_field(e, made, &c->made);
  if (shape) return get_field(e, shape, c);
  if (strcmp(e->key, "end") == 0)
    return get_end(e, &c->made.end);
  else if (strcmp(e->key, "draws_are") == 0)
    c->independent = strcmp(e->value, "independent") == 0;
  else if (strncmp(e->key, "bounds.", 7) == 0)
    return get_bounds(e, c, &cap[0]);
  else if (strcmp(e->key, "message") == 0)
    return get_message(e, c, &cap[1]);
  else if (strcmp(e->key, "message_kind") == 0)
    return get_message_kind(e, c);
  return ATVI_OK;
}

/* Splits "# key = value" of n bytes; false if it is not such a line. */
static bool split(entry *e, const char *line, size_t n) {
  char *copy = atvi_pool_strndup(e->pool, line, n);
  if (!copy) return false;
  char *key = copy + 1 + strspn(copy + 1, " "), *equals = strstr(key, " =");
  if (!equals) return false;
  *equals = 0;
  e->key = key;
  e->value = equals + 2 + strspn(equals + 2, " ");
  return true;
}

atvi_status atvi_io_draws_config_read(atvi_pool *pool, const char *path, const char *text,
                                      atvi_draws_config *out) {
  entry e = {.pool = pool, .ctx = atvi_pool_ctx(pool), .path = path, .line = 1};
  atvi_idx cap[2] = {0, 0};
  *out = (atvi_draws_config){.n_param = -1, .made = atvi_draws_made_none()};
  for (const char *p = text; *p == '#'; e.line++) {
    size_t n = strcspn(p, "\r\n");
    if (split(&e, p, n)) ATVI_TRY(take(&e, out, cap));
    if (atvi_pool_failed(pool)) return ATVI_ENOMEM;
    p += n;
    p += *p == '\r';
    p += *p == '\n';
  }
  return ATVI_OK;
}
