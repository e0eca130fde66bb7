/* SPDX-License-Identifier: MIT */
#include "draws/made.h"
#include "io/arrays.h"
#include "io/csv.h"
#include "io/draws_file.h"
#include "io/file.h"
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the lines "# key = value" ---- */

typedef struct {
  /* Strings from the pool. */
  atvi_made made;
  /* -1: not given. */
  atvi_idx n_param;
  /* 0: not given. */
  atvi_idx n_chain;
  /* 0: not given. */
  atvi_idx per_chain;
  bool independent;
  atvi_idx n_bounds, n_message;
  atvi_column *bounds;
  atvi_message *message;
  /* Kind of the message that follows; text NULL: none was given. */
  atvi_message next;
} config;

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
    MEMBER(REAL, top_weight),
};
const atvi_fields atvi_io_made_fields = ATVI_FIELDS(MADE);

static const atvi_field SHAPE[] = {ATVI_FIELD_AS("chains", COUNT, config, n_chain),
                                   ATVI_FIELD_AS("draws_per_chain", COUNT, config, per_chain),
                                   ATVI_FIELD_AS("parameters", COUNT, config, n_param)};
static const atvi_fields SHAPE_FIELDS = ATVI_FIELDS(SHAPE);

static const char *const END[] = {"done", "limit", "stopped"}; /* by atvi_end */

static void put_text(atvi_file *f, const char *key, const char *s) {
  atvi_io_file_printf(f, "# %s = ", key);
  atvi_io_file_put_line(f, s);
  atvi_io_file_put(f, "\n", 1);
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
    atvi_io_file_number(f, "", atvi_io_field_number(field, made));
  atvi_io_file_put(f, "\n", 1);
}

static void put_config(atvi_file *f, const atvi_draws *d) {
  put_text(f, "atvi_version", ATVI_VERSION);
  for (atvi_idx k = 0; k < atvi_io_made_fields.n; k++) put_field(f, &MADE[k], d->made);
  put_text(f, "end", END[d->made->end]);
  atvi_io_file_printf(f, "# chains = %td\n# draws_per_chain = %td\n", d->n_chain, d->n / d->n_chain);
  put_text(f, "draws_are", d->chains ? "chained" : "independent");
  atvi_io_file_printf(f, "# parameters = %td\n# derived = %td\n", d->n_param, d->n_col - d->n_param);
  for (atvi_idx j = 0; j < d->n_col; j++) {
    if (!isfinite(d->col[j].lower) && !isfinite(d->col[j].upper)) continue;
    atvi_io_file_printf(f, "# bounds.%s =", d->col[j].name);
    atvi_io_file_number(f, " ", d->col[j].lower);
    atvi_io_file_number(f, " ", d->col[j].upper);
    atvi_io_file_put(f, "\n", 1);
  }
  for (atvi_idx i = 0; i < d->n_message; i++) {
    const atvi_message *m = &d->message[i];
    atvi_io_file_printf(f, "# message_kind = %s %s\n", atvi_severity_name(m->severity),
                        atvi_code_name(m->code));
    put_text(f, "message", m->text);
  }
}

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

static atvi_status get_bounds(const entry *e, config *c, atvi_idx *cap) {
  atvi_column b = {.name = e->key + strlen("bounds.")};
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
static atvi_status get_message(const entry *e, config *c, atvi_idx *cap) {
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
static atvi_status get_message_kind(const entry *e, config *c) {
  const char *gap = strchr(e->value, ' ');
  char *word = atvi_pool_strndup(e->pool, e->value, gap ? (size_t)(gap - e->value) : 0);
  if (!word) return ATVI_ENOMEM;
  c->next = (atvi_message){.text = ""};
  if (!atvi_severity_find(word, &c->next.severity)) return no_sense(e);
  atvi_code_find(gap + 1, &c->next.code);
  return ATVI_OK;
}

static atvi_status take(const entry *e, config *c, atvi_idx cap[2]) {
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

static atvi_status get_config(atvi_pool *pool, const char *path, const char *text, config *out) {
  entry e = {.pool = pool, .ctx = atvi_pool_ctx(pool), .path = path, .line = 1};
  atvi_idx cap[2] = {0, 0};
  *out = (config){.n_param = -1, .made = atvi_draws_made_none()};
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

/* ---- writing ---- */

/* Numbers are most of the work: the threads write PARTS parts of PART_ROWS rows as text, which are then
 * written in order. */
enum { PART_ROWS = 128, PARTS = 16 };

typedef struct {
  const atvi_draws *d;
  atvi_idx first;    /* row of part 0 */
  size_t part_bytes; /* room for a part */
  char *text;        /* [PARTS][part_bytes] */
  size_t used[PARTS];
} rows;

/* Room for a number and the comma or line end after it. */
static size_t cells(const atvi_draws *d) { return (size_t)d->n_col + 5; }

static char *add_number(char *at, double x, char after) {
  at += atvi_io_format_number(at, x);
  *at = after;
  return at + 1;
}

static char *add_row(char *at, const atvi_draws *d, atvi_idx i) {
  at = add_number(at, d->log_prior[i] + d->log_lik[i], ',');
  at = add_number(at, d->log_lik[i], ',');
  at = add_number(at, (double)(i / (d->n / d->n_chain) + 1), ',');
  at = add_number(at, d->log_prior[i], ',');
  if (d->weight) at = add_number(at, d->weight[i], ',');
  for (atvi_idx j = 0; j < d->n_col; j++) at = add_number(at, d->x[j * d->n + i], ',');
  at[-1] = '\n';
  return at;
}

static void add_part(void *arg, atvi_idx item, int worker) {
  rows *r = arg;
  (void)worker;
  atvi_idx from = r->first + item * PART_ROWS, to = from + PART_ROWS;
  char *text = r->text + (size_t)item * r->part_bytes, *at = text;
  if (to > r->d->n) to = r->d->n;
  for (atvi_idx i = from; i < to; i++) at = add_row(at, r->d, i);
  r->used[item] = (size_t)(at - text);
}

static atvi_status put_rows(atvi_file *f, const atvi_draws *d) {
  rows r = {.d = d, .part_bytes = PART_ROWS * cells(d) * ATVI_NUMBER_BYTES};
  r.text = atvi_block(d->ctx, PARTS * r.part_bytes);
  if (!r.text) return ATVI_ENOMEM;
  for (; r.first < d->n; r.first += PARTS * PART_ROWS) {
    atvi_idx n = (d->n - r.first + PART_ROWS - 1) / PART_ROWS;
    if (n > PARTS) n = PARTS;
    atvi_parallel(d->ctx, n, add_part, &r);
    for (atvi_idx k = 0; k < n; k++) atvi_io_file_put(f, r.text + (size_t)k * r.part_bytes, r.used[k]);
  }
  atvi_block_free(d->ctx, r.text);
  return ATVI_OK;
}

atvi_status atvi_io_draws_csv_write(const atvi_draws *d, const char *path) {
  atvi_file *f;
  ATVI_TRY(atvi_io_file_new(d->ctx, path, &f));
  put_config(f, d);
  atvi_io_file_printf(f, "lp__,log_lik__,chain__,log_prior__%s", d->weight ? ",weight__" : "");
  for (atvi_idx j = 0; j < d->n_col; j++) atvi_io_file_put_name(f, d->col[j].name);
  atvi_io_file_put(f, "\n", 1);
  atvi_status status = put_rows(f, d);
  if (status == ATVI_OK) status = atvi_io_file_commit_soon(f);
  atvi_io_file_free(f);
  return status;
}

/* ---- reading ---- */

/* Where the columns of DRAWS are in the file; -1: nowhere. */
typedef struct {
  atvi_idx lp, log_lik, chain, log_prior, weight;
  atvi_idx n_col;
  atvi_idx *at;     /* [n_col] */
  atvi_column *col; /* [n_col] */
} layout;

static bool ends_in_underscores(const char *s) {
  size_t n = strlen(s);
  return n > 2 && strcmp(s + n - 2, "__") == 0;
}

static atvi_status lay_out(atvi_pool *pool, const atvi_csv *csv, const config *c, layout *l) {
  atvi_ctx *ctx = atvi_pool_ctx(pool);
  *l = (layout){.lp = atvi_io_csv_find(csv, "lp__"),
                .log_lik = atvi_io_csv_find(csv, "log_lik__"),
                .chain = atvi_io_csv_find(csv, "chain__"),
                .log_prior = atvi_io_csv_find(csv, "log_prior__"),
                .weight = atvi_io_csv_find(csv, "weight__")};
  if (l->lp < 0)
    return ATVI_FAIL(ctx, ATVI_EDATA, "%s:1:1: there is no column lp__: this is not a file of draws",
                     csv->path);
  l->at = atvi_pool_take(pool, (size_t)csv->n_col, sizeof *l->at);
  l->col = atvi_pool_take(pool, (size_t)csv->n_col, sizeof *l->col);
  if (!l->at || !l->col) return ATVI_ENOMEM;
  for (atvi_idx j = 0, b = 0; j < csv->n_col; j++) {
    if (ends_in_underscores(csv->name[j])) continue;
    atvi_column *col = &l->col[l->n_col];
    *col = (atvi_column){csv->name[j], -HUGE_VAL, HUGE_VAL};
    if (b < c->n_bounds &&
        strcmp(c->bounds[b].name, csv->name[j]) == 0) { /* written in the order of the columns */
      col->lower = c->bounds[b].lower;
      col->upper = c->bounds[b].upper;
      b++;
    }
    l->at[l->n_col++] = j;
  }
  return ATVI_OK;
}

/* Rows are draws of chain 1, then chain 2, ..., equally many of each: sets n_chain. */
static atvi_status find_chains(atvi_ctx *ctx, const atvi_csv *csv, const config *c, const layout *l,
                               atvi_idx *n_chain) {
  atvi_idx said = c->n_chain;
  *n_chain = said > 0 ? said : 1;
  if (said == 0 && l->chain >= 0) {
    double last = csv->value[(csv->n_row - 1) * csv->n_col + l->chain];
    if (last >= 1 && last <= (double)csv->n_row) *n_chain = (atvi_idx)last;
  }
  if (csv->n_row % *n_chain != 0 || (c->per_chain > 0 && csv->n_row / *n_chain != c->per_chain))
    return ATVI_FAIL(ctx, ATVI_EDATA,
                     "%s:%d:1: %td rows are not %td chains of %td draws; rows were added or lost", csv->path,
                     csv->line[csv->n_row - 1], csv->n_row, *n_chain,
                     c->per_chain > 0 ? c->per_chain : csv->n_row / *n_chain + 1);
  for (atvi_idx i = 0; l->chain >= 0 && i < csv->n_row; i++)
    if (csv->value[i * csv->n_col + l->chain] != (double)(i / (csv->n_row / *n_chain) + 1))
      return ATVI_FAIL(ctx, ATVI_EDATA, "%s:%d:%d: chain %s instead of chain %td; rows were sorted or lost",
                       csv->path, csv->line[i], csv->column[i * csv->n_col + l->chain],
                       csv->text[i * csv->n_col + l->chain], i / (csv->n_row / *n_chain) + 1);
  return ATVI_OK;
}

/* One column of the file into out[n_row]. */
static atvi_status get_column(atvi_ctx *ctx, const atvi_csv *csv, atvi_idx j, double *out) {
  for (atvi_idx i = 0; i < csv->n_row; i++) {
    atvi_idx at = i * csv->n_col + j;
    const char *text = csv->text[at];
    out[i] = csv->value[at];
    if (csv->kind[at] == ATVI_CELL_NUMBER || csv->kind[at] == ATVI_CELL_MISSING) continue;
    if (strcmp(text, "inf") == 0)
      out[i] = HUGE_VAL;
    else if (strcmp(text, "-inf") == 0)
      out[i] = -HUGE_VAL;
    else
      return ATVI_FAIL(ctx, ATVI_EDATA, "%s:%d:%d: '%s' is not a number (column %s)", csv->path, csv->line[i],
                       csv->column[at], text, csv->name[j]);
  }
  return ATVI_OK;
}

static atvi_status get_density(const atvi_csv *csv, const layout *l, atvi_draws *d) {
  if (l->log_lik >= 0) ATVI_TRY(get_column(d->ctx, csv, l->log_lik, d->log_lik));
  if (l->log_prior >= 0) return get_column(d->ctx, csv, l->log_prior, d->log_prior);
  ATVI_TRY(get_column(d->ctx, csv, l->lp, d->log_prior));
  for (atvi_idx i = 0; i < d->n; i++) d->log_prior[i] -= d->log_lik[i];
  return ATVI_OK;
}

static atvi_status get_weights(const atvi_csv *csv, const layout *l, atvi_draws *d) {
  if (!d->weight) return ATVI_OK;
  ATVI_TRY(get_column(d->ctx, csv, l->weight, d->weight));
  for (atvi_idx i = 0; i < d->n; i++)
    if (!(d->weight[i] >= 0 && isfinite(d->weight[i])))
      return ATVI_FAIL(d->ctx, ATVI_EDATA, "%s:%d:%d: weight__ = '%s', want a number >= 0", csv->path,
                       csv->line[i], csv->column[i * csv->n_col + l->weight],
                       csv->text[i * csv->n_col + l->weight]);
  return ATVI_OK;
}

static atvi_status fill(const atvi_csv *csv, const layout *l, const config *c, atvi_draws *d) {
  *d->made = c->made;
  d->chains = l->chain >= 0 ? !c->independent : c->n_chain > 0 && !c->independent;
  ATVI_TRY(atvi_draws_keep(d, c->made.method, &d->made->method));
  ATVI_TRY(atvi_draws_keep(d, c->made.model, &d->made->model));
  for (atvi_idx i = 0; i < c->n_message; i++) {
    const atvi_message *m = &c->message[i];
    ATVI_TRY(atvi_draws_say(d, m->severity, m->code, "%s", m->text));
  }
  ATVI_TRY(get_density(csv, l, d));
  ATVI_TRY(get_weights(csv, l, d));
  for (atvi_idx j = 0; j < l->n_col; j++) ATVI_TRY(get_column(d->ctx, csv, l->at[j], d->x + j * d->n));
  return ATVI_OK;
}

static atvi_status read_with(atvi_pool *pool, const char *path, atvi_draws **out) {
  atvi_ctx *ctx = atvi_pool_ctx(pool);
  char *text;
  size_t n;
  config c;
  atvi_csv *csv;
  layout l;
  atvi_idx n_chain;
  atvi_draws *d;
  ATVI_TRY(atvi_io_file_read(pool, path, &text, &n));
  ATVI_TRY(get_config(pool, path, text, &c));
  ATVI_TRY(atvi_io_csv_parse(pool, path, text, n, &csv));
  ATVI_TRY(lay_out(pool, csv, &c, &l));
  if (c.n_param > l.n_col)
    return ATVI_FAIL(ctx, ATVI_EDATA, "%s:1:1: %td parameters are announced, but there are %td columns", path,
                     c.n_param, l.n_col);
  ATVI_TRY(find_chains(ctx, csv, &c, &l, &n_chain));
  ATVI_TRY(atvi_draws_new(ctx, csv->n_row, n_chain, c.n_param < 0 ? l.n_col : c.n_param, l.n_col, l.col,
                          l.weight >= 0, &d));
  atvi_status status = fill(csv, &l, &c, d);
  if (status != ATVI_OK)
    atvi_draws_free(d);
  else
    *out = d;
  return status;
}

atvi_status atvi_io_draws_csv_read(atvi_ctx *ctx, const char *path, atvi_draws **out) {
  atvi_pool *pool;
  *out = NULL;
  ATVI_TRY(atvi_pool_new(ctx, &pool));
  atvi_status status = read_with(pool, path, out);
  atvi_pool_free(pool);
  return status;
}

static atvi_idx per_chain(const atvi_draws *d) { return d->n / d->n_chain; }

static void put_number(atvi_file *f, double x) {
  char buf[ATVI_NUMBER_BYTES];
  atvi_io_file_put(f, buf, (size_t)atvi_io_format_number(buf, x));
}

static atvi_status close_file(atvi_file *f) {
  atvi_status status = atvi_io_file_commit(f);
  atvi_io_file_free(f);
  return status;
}

/* ---- table ---- */

static void put_cell(atvi_file *f, double x) {
  atvi_io_file_put(f, ",", 1);
  if (!isnan(x)) put_number(f, x);
}

atvi_status atvi_io_draws_table_write(const atvi_draws *d, const char *path) {
  atvi_file *f;
  ATVI_TRY(atvi_io_file_new(d->ctx, path, &f));
  atvi_io_file_printf(f, "chain__,draw__,lp__,log_lik__,log_prior__%s", d->weight ? ",weight__" : "");
  for (atvi_idx j = 0; j < d->n_col; j++) atvi_io_file_put_name(f, d->col[j].name);
  atvi_io_file_put(f, "\n", 1);
  for (atvi_idx i = 0; i < d->n; i++) {
    atvi_io_file_printf(f, "%td,%td", i / per_chain(d) + 1, i % per_chain(d) + 1);
    put_cell(f, d->log_prior[i] + d->log_lik[i]);
    put_cell(f, d->log_lik[i]);
    put_cell(f, d->log_prior[i]);
    if (d->weight) put_cell(f, d->weight[i]);
    for (atvi_idx j = 0; j < d->n_col; j++) put_cell(f, d->x[j * d->n + i]);
    atvi_io_file_put(f, "\n", 1);
  }
  return close_file(f);
}

/* ---- Stan ---- */

/* The first lines of CmdStan's files, in its order and indentation. */
static void put_stan_config(atvi_file *f, const atvi_draws *d, atvi_idx chain) {
  atvi_io_file_printf(
      f, "# stan_version_major = 2\n# stan_version_minor = 33\n# stan_version_patch = 0\n# model = ");
  atvi_io_file_put_line(f, d->made->model);
  atvi_io_file_printf(
      f,
      "\n# method = sample (Default)\n#   sample\n#     num_samples = %td\n#     num_warmup = 0\n"
      "#     save_warmup = 0 (Default)\n#     thin = 1 (Default)\n#     adapt\n#       engaged = 0\n"
      "#     algorithm = fixed_param\n#     num_chains = 1 (Default)\n# id = %td\n# data\n#   file =  "
      "(Default)\n"
      "# init = 2 (Default)\n# random\n#   seed = %" PRIu64 "\n# output\n#   file = output.csv (Default)\n",
      per_chain(d), chain + 1, d->made->seed);
  atvi_io_file_printf(f, "# written by atvi %s; method ", ATVI_VERSION);
  atvi_io_file_put_line(f, d->made->method);
  atvi_io_file_put(f, "\n", 1);
}

/* Columns in the order of Stan, with names that its readers understand. */
typedef struct {
  atvi_idx *at; /* [n_col] which column of the draws */
  const char **name;
} stan_columns;

/* Whether indices are 1, 2, ... in each dimension, as readers of Stan CSV expect. */
static bool counted(const atvi_array *a) {
  for (int k = 0; k < a->n_dim; k++)
    if (a->word[k] || a->label[k][0] != 1 || a->label[k][a->size[k] - 1] != a->size[k]) return false;
  return true;
}

/* Converts element i in the order of Stan, first index fastest, to our order, last index fastest. */
static atvi_idx transposed(const atvi_array *a, atvi_idx i) {
  atvi_idx out = 0, step = a->n;
  for (int k = 0; k < a->n_dim; k++, i /= a->size[k - 1]) {
    step /= a->size[k];
    out += i % a->size[k] * step;
  }
  return out;
}

/* Whether a column or one of the names made so far, made[n], has the name. */
static bool used(const atvi_draws *d, const char *const *made, atvi_idx n, const char *name) {
  for (atvi_idx j = 0; j < d->n_col; j++)
    if (strcmp(name, d->col[j].name) == 0) return true;
  for (atvi_idx j = 0; j < n; j++)
    if (strcmp(name, made[j]) == 0) return true;
  return false;
}

/* b.north as b_north: one number with its own name. If that is taken, b_north_, b_north_2, ...: readers take
 * names ending in __ for those of the sampler. NULL: out of memory. */
static const char *single(atvi_pool *pool, const atvi_draws *d, const char *const *made, atvi_idx n,
                          const char *name) {
  if (!strchr(name, '.')) return name;
  char *plain = atvi_pool_strndup(pool, name, strlen(name)), *out = plain;
  for (char *p = plain; p && *p; p++)
    if (*p == '.') *p = '_';
  int k = plain && plain[strlen(plain) - 1] == '_' ? 2 : 1;
  for (; out && used(d, made, n, out); k++)
    out = k == 1 ? atvi_pool_printf(pool, "%s_", plain) : atvi_pool_printf(pool, "%s_%d", plain, k);
  return out;
}

static atvi_status order_columns(atvi_pool *pool, const atvi_draws *d, stan_columns *out) {
  atvi_array *array;
  atvi_idx n, to = 0;
  const char **name = atvi_pool_take(pool, (size_t)d->n_col + 1, sizeof *name);
  out->at = atvi_pool_take(pool, (size_t)d->n_col + 1, sizeof *out->at);
  out->name = atvi_pool_take(pool, (size_t)d->n_col + 1, sizeof *out->name);
  if (!name || !out->at || !out->name) return ATVI_ENOMEM;
  for (atvi_idx j = 0; j < d->n_col; j++) name[j] = d->col[j].name;
  ATVI_TRY(atvi_io_arrays_find(pool, d->n_col, name, NULL, &n, &array));
  for (atvi_idx k = 0; k < n; k++) {
    bool as_is = counted(&array[k]) && array[k].n_dim > 0;
    for (atvi_idx i = 0; i < array[k].n; i++, to++) {
      out->at[to] = array[k].first + (as_is ? transposed(&array[k], i) : i);
      const char *own = name[out->at[to]];
      out->name[to] = as_is ? own : single(pool, d, out->name, to, own);
      if (!out->name[to]) return ATVI_ENOMEM;
    }
  }
  return ATVI_OK;
}

static void put_stan_rows(atvi_file *f, const atvi_draws *d, atvi_idx chain, const atvi_idx *column) {
  for (atvi_idx k = 0; k < per_chain(d); k++) {
    atvi_idx i = chain * per_chain(d) + k;
    put_number(f, d->log_prior[i] + d->log_lik[i]);
    atvi_io_file_put(f, ",1", 2);
    for (atvi_idx j = 0; j < d->n_col; j++) {
      atvi_io_file_put(f, ",", 1);
      put_number(f, d->x[column[j] * d->n + i]);
    }
    atvi_io_file_put(f, "\n", 1);
  }
}

static atvi_status stan_write(atvi_pool *pool, const atvi_draws *d, atvi_idx chain, const char *path) {
  atvi_file *f;
  stan_columns c;
  ATVI_TRY(order_columns(pool, d, &c));
  ATVI_TRY(atvi_io_file_new(d->ctx, path, &f));
  put_stan_config(f, d, chain);
  atvi_io_file_printf(f, "lp__,accept_stat__");
  for (atvi_idx j = 0; j < d->n_col; j++) atvi_io_file_put_name(f, c.name[j]);
  atvi_io_file_put(f, "\n", 1);
  put_stan_rows(f, d, chain, c.at);
  double s = isfinite(d->made->seconds) ? d->made->seconds : 0;
  atvi_io_file_printf(
      f, "# \n#  Elapsed Time: 0 seconds (Warm-up)\n#                %.3f seconds (Sampling)\n", s);
  atvi_io_file_printf(f, "#                %.3f seconds (Total)\n# \n", s);
  return close_file(f);
}

atvi_status atvi_io_draws_stan_write(const atvi_draws *d, atvi_idx chain, const char *path) {
  atvi_pool *pool;
  ATVI_TRY(atvi_pool_new(d->ctx, &pool));
  atvi_status status = stan_write(pool, d, chain, path);
  atvi_pool_free(pool);
  return status;
}

/* ---- JSON ---- */

static atvi_status put_key(atvi_pool *pool, atvi_file *f, const char *name) {
  const char *bracket = atvi_io_array_bracket(pool, name);
  json_t *word = bracket ? json_string(bracket) : NULL;
  if (bracket && !word) word = json_string("?"); /* not UTF-8 */
  char *text = word ? json_dumps(word, JSON_ENCODE_ANY) : NULL;
  json_decref(word);
  if (!text) return ATVI_ENOMEM;
  atvi_io_file_put(f, text, strlen(text));
  free(text);
  return ATVI_OK;
}

static void put_list(atvi_file *f, atvi_idx n, const double *x) {
  atvi_io_file_put(f, ": [", 3);
  for (atvi_idx i = 0; i < n; i++) {
    if (i) atvi_io_file_put(f, ", ", 2);
    if (isfinite(x[i]))
      put_number(f, x[i]);
    else
      atvi_io_file_put(f, "null", 4);
  }
  atvi_io_file_put(f, "]", 1);
}

static atvi_status put_chains(atvi_pool *pool, atvi_file *f, const atvi_draws *d) {
  atvi_idx n = per_chain(d);
  for (atvi_idx c = 0; c < d->n_chain; c++) {
    atvi_io_file_printf(f, "%s  {", c ? ",\n" : "[\n");
    for (atvi_idx j = 0; j < d->n_col; j++) {
      atvi_io_file_printf(f, "%s    ", j ? ",\n" : "\n");
      ATVI_TRY(put_key(pool, f, d->col[j].name));
      put_list(f, n, d->x + j * d->n + c * n);
    }
    if (d->weight) {
      atvi_io_file_printf(f, "%s    \"weight__\"", d->n_col ? ",\n" : "\n");
      put_list(f, n, d->weight + c * n);
    }
    atvi_io_file_printf(f, "\n  }");
  }
  atvi_io_file_printf(f, "\n]\n");
  return ATVI_OK;
}

atvi_status atvi_io_draws_json_write(const atvi_draws *d, const char *path) {
  atvi_file *f;
  atvi_pool *pool;
  ATVI_TRY(atvi_pool_new(d->ctx, &pool));
  atvi_status status = atvi_io_file_new(d->ctx, path, &f);
  if (status == ATVI_OK) {
    status = put_chains(pool, f, d);
    if (status == ATVI_OK) status = atvi_io_file_commit(f);
    atvi_io_file_free(f);
  }
  atvi_pool_free(pool);
  return status;
}
