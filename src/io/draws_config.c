/* SPDX-License-Identifier: MIT */
#include "io/draws_config.h"
#include "draws/made.h"
#include "io/csv.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef enum { REAL, COUNT, SEED } number_kind;

/* The numbers of atvi_made, in the order in which they are written. */
static const struct {
  const char *key;
  number_kind kind;
  size_t offset;
} FIELD[] = {
    {"seed", SEED, offsetof(atvi_made, seed)},
    {"seconds", REAL, offsetof(atvi_made, seconds)},
    {"evaluations", COUNT, offsetof(atvi_made, evaluations)},
    {"failures", COUNT, offsetof(atvi_made, failures)},
    {"accept", REAL, offsetof(atvi_made, accept)},
    {"ess_wanted", REAL, offsetof(atvi_made, ess_wanted)},
    {"log_evidence", REAL, offsetof(atvi_made, log_evidence)},
    {"log_evidence_se", REAL, offsetof(atvi_made, log_evidence_se)},
    {"elbo", REAL, offsetof(atvi_made, elbo)},
    {"khat", REAL, offsetof(atvi_made, khat)},
    {"mode_draw", REAL, offsetof(atvi_made, mode_draw)},
    {"efficiency", REAL, offsetof(atvi_made, efficiency)},
    {"log_lik_error", REAL, offsetof(atvi_made, log_lik_error)},
    {"modes", REAL, offsetof(atvi_made, modes)},
    {"outside", REAL, offsetof(atvi_made, outside)},
    {"rungs", REAL, offsetof(atvi_made, rungs)},
    {"steps", REAL, offsetof(atvi_made, steps)},
    {"tuned", REAL, offsetof(atvi_made, tuned)},
    {"exact", REAL, offsetof(atvi_made, exact)},
    {"excess", REAL, offsetof(atvi_made, excess)},
    {"lost", REAL, offsetof(atvi_made, lost)},
    {"divergences", REAL, offsetof(atvi_made, divergences)},
    {"ebfmi", REAL, offsetof(atvi_made, ebfmi)},
    {"tree_depth", REAL, offsetof(atvi_made, tree_depth)},
    {"max_depth_hits", REAL, offsetof(atvi_made, max_depth_hits)},
};
enum { N_FIELD = sizeof FIELD / sizeof *FIELD };

static const char *const END[] = {"done", "limit", "stopped"}; /* by atvi_end */

/* ---- writing ---- */

/* One line, whatever s contains. */
static void put_text(atvi_file *f, const char *key, const char *s) {
  atvi_file_printf(f, "# %s = ", key);
  for (const char *p = s ? s : ""; *p; p++) atvi_file_put(f, (unsigned char)*p < ' ' ? " " : p, 1);
  atvi_file_put(f, "\n", 1);
}

static void put_real(atvi_file *f, const char *before, double x) {
  char buf[ATVI_NUMBER_BYTES];
  atvi_format_number(buf, x);
  atvi_file_printf(f, "%s%s", before, buf);
}

static void put_field(atvi_file *f, int k, const atvi_made *made) {
  const char *at = (const char *)made + FIELD[k].offset;
  uint64_t seed;
  int64_t count;
  double real;
  atvi_file_printf(f, "# %s = ", FIELD[k].key);
  switch (FIELD[k].kind) {
  case SEED:
    memcpy(&seed, at, sizeof seed);
    atvi_file_printf(f, "%" PRIu64 "\n", seed);
    break;
  case COUNT:
    memcpy(&count, at, sizeof count);
    atvi_file_printf(f, "%" PRId64 "\n", count);
    break;
  case REAL:
    memcpy(&real, at, sizeof real);
    put_real(f, "", real);
    atvi_file_put(f, "\n", 1);
    break;
  }
}

void atvi_draws_config_write(atvi_file *f, const atvi_draws *d) {
  put_text(f, "atvi_version", ATVI_VERSION);
  put_text(f, "method", d->made.method);
  put_text(f, "model", d->made.model);
  for (int k = 0; k < N_FIELD; k++) put_field(f, k, &d->made);
  put_text(f, "end", END[d->made.end]);
  atvi_file_printf(f, "# chains = %td\n# draws_per_chain = %td\n", d->n_chain, d->n / d->n_chain);
  put_text(f, "draws_are", d->chains ? "chained" : "independent");
  atvi_file_printf(f, "# parameters = %td\n# derived = %td\n", d->n_param, d->n_col - d->n_param);
  for (atvi_idx j = 0; j < d->n_col; j++) {
    if (!isfinite(d->col[j].lower) && !isfinite(d->col[j].upper)) continue;
    atvi_file_printf(f, "# bounds.%s =", d->col[j].name);
    put_real(f, " ", d->col[j].lower);
    put_real(f, " ", d->col[j].upper);
    atvi_file_put(f, "\n", 1);
  }
  for (atvi_idx i = 0; i < d->n_message; i++) {
    const atvi_message *m = &d->message[i];
    atvi_file_printf(f, "# message_kind = %s %s\n", atvi_severity_name(m->severity), atvi_code_name(m->code));
    put_text(f, "message", m->text);
  }
}

double atvi_draws_config_number(const atvi_made *made, const char *key) {
  for (int k = 0; k < N_FIELD; k++) {
    const char *at = (const char *)made + FIELD[k].offset;
    int64_t count;
    double real;
    if (strcmp(key, FIELD[k].key) != 0) continue;
    if (FIELD[k].kind == SEED) return (double)made->seed;
    memcpy(&count, at, sizeof count);
    memcpy(&real, at, sizeof real);
    return FIELD[k].kind == REAL ? real : (double)count;
  }
  return NAN;
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
                   "%s:%d:1: '%s = %s' makes no sense; the file was changed after it was written", e->path,
                   e->line, e->key, e->value);
}

static atvi_status no_memory(const entry *e) {
  return ATVI_FAIL(e->ctx, ATVI_ENOMEM, "%s: out of memory", e->path);
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
  if (atvi_parse_number(s, n, out)) return true;
  bool negative = n > 0 && *s == '-';
  if (n - negative != 3 || (memcmp(s + negative, "inf", 3) != 0 && memcmp(s, "nan", 3) != 0)) return false;
  *out = s[negative] == 'n' ? NAN : negative ? -HUGE_VAL : HUGE_VAL;
  return true;
}

static atvi_status get_index(const entry *e, atvi_idx *out) {
  uint64_t x;
  if (!get_whole(e->value, PTRDIFF_MAX, &x)) return no_sense(e);
  *out = (atvi_idx)x;
  return ATVI_OK;
}

static atvi_status get_field(const entry *e, int k, atvi_made *made) {
  char *at = (char *)made + FIELD[k].offset;
  uint64_t whole;
  double real;
  if (FIELD[k].kind == REAL) {
    if (!get_real(e->value, strlen(e->value), &real)) return no_sense(e);
    memcpy(at, &real, sizeof real);
  } else { /* a count has no more than 63 bits, so both have the same representation */
    if (!get_whole(e->value, FIELD[k].kind == SEED ? UINT64_MAX : INT64_MAX, &whole)) return no_sense(e);
    memcpy(at, &whole, sizeof whole);
  }
  return ATVI_OK;
}

static atvi_status get_bounds(const entry *e, atvi_draws_config *c, atvi_idx *cap) {
  atvi_draws_bounds b = {.name = e->key + strlen("bounds.")};
  const char *gap = strchr(e->value, ' ');
  if (!gap || !get_real(e->value, (size_t)(gap - e->value), &b.lower) ||
      !get_real(gap + 1, strlen(gap + 1), &b.upper) || !(b.lower <= b.upper))
    return no_sense(e);
  if (!ATVI_PUSH(e->pool, c->bounds, c->n_bounds, *cap)) return no_memory(e);
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

/* A message without a kind is of an older file, which marks a warning in its text. */
static atvi_status get_message(const entry *e, atvi_draws_config *c, atvi_idx *cap) {
  static const char MARK[] = "Warning: ";
  atvi_message m = c->next;
  c->next = (atvi_message){0};
  if (!m.text && strncmp(e->value, MARK, sizeof MARK - 1) == 0) {
    char *text = atvi_pool_printf(e->pool, "%s", e->value + sizeof MARK - 1);
    if (!text) return no_memory(e);
    if (text[0] >= 'a' && text[0] <= 'z') text[0] = (char)(text[0] - 'a' + 'A');
    m = (atvi_message){ATVI_WARNING, ATVI_CODE_NONE, text};
  } else
    m.text = e->value;
  if (!ATVI_PUSH(e->pool, c->message, c->n_message, *cap)) return no_memory(e);
  c->message[c->n_message++] = m;
  return ATVI_OK;
}

/* Of the message that follows. A code that is not known is one of a later version: the text says it all. */
static atvi_status get_message_kind(const entry *e, atvi_draws_config *c) {
  const char *gap = strchr(e->value, ' ');
  char *word = atvi_pool_strndup(e->pool, e->value, gap ? (size_t)(gap - e->value) : 0);
  if (!word) return no_memory(e);
  c->next = (atvi_message){.text = ""};
  if (!atvi_severity_find(word, &c->next.severity)) return no_sense(e);
  atvi_code_find(gap + 1, &c->next.code);
  return ATVI_OK;
}

static atvi_status take(const entry *e, atvi_draws_config *c, atvi_idx cap[2]) {
  for (int k = 0; k < N_FIELD; k++)
    if (strcmp(e->key, FIELD[k].key) == 0) return get_field(e, k, &c->made);
  if (strcmp(e->key, "method") == 0)
    c->made.method = e->value;
  else if (strcmp(e->key, "model") == 0)
    c->made.model = e->value;
  else if (strcmp(e->key, "end") == 0)
    return get_end(e, &c->made.end);
  else if (strcmp(e->key, "chains") == 0)
    return get_index(e, &c->n_chain);
  else if (strcmp(e->key, "draws_per_chain") == 0)
    return get_index(e, &c->per_chain);
  else if (strcmp(e->key, "draws_are") == 0)
    c->independent = strcmp(e->value, "independent") == 0;
  else if (strcmp(e->key, "parameters") == 0)
    return get_index(e, &c->n_param);
  else if (strncmp(e->key, "bounds.", 7) == 0)
    return get_bounds(e, c, &cap[0]);
  else if (strcmp(e->key, "message") == 0)
    return get_message(e, c, &cap[1]);
  else if (strcmp(e->key, "message_kind") == 0)
    return get_message_kind(e, c);
  return ATVI_OK;
}

/* Splits "# key = value" of n bytes; false if it is no such line. */
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

atvi_status atvi_draws_config_read(atvi_pool *pool, const char *path, const char *text,
                                   atvi_draws_config *out) {
  entry e = {.pool = pool, .ctx = atvi_pool_ctx(pool), .path = path, .line = 1};
  atvi_idx cap[2] = {0, 0};
  *out = (atvi_draws_config){.n_param = -1, .made = atvi_made_none()};
  for (const char *p = text; *p == '#'; e.line++) {
    size_t n = strcspn(p, "\r\n");
    if (split(&e, p, n)) ATVI_TRY(take(&e, out, cap));
    if (atvi_pool_failed(pool)) return no_memory(&e);
    p += n;
    p += *p == '\r';
    p += *p == '\n';
  }
  return ATVI_OK;
}
