/* SPDX-License-Identifier: MIT */
#include "io/draws_file.h"
#include "io/csv.h"
#include <math.h>
#include <string.h>

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
  atvi_io_draws_config_write(f, d);
  atvi_io_file_printf(f, "lp__,log_lik__,chain__,log_prior__%s", d->weight ? ",weight__" : "");
  for (atvi_idx j = 0; j < d->n_col; j++) atvi_io_file_put_name(f, d->col[j].name);
  atvi_io_file_put(f, "\n", 1);
  atvi_status status = put_rows(f, d);
  if (status == ATVI_OK) status = atvi_io_file_commit(f);
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

static atvi_status lay_out(atvi_pool *pool, const atvi_csv *csv, const atvi_draws_config *c, layout *l) {
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
static atvi_status find_chains(atvi_ctx *ctx, const atvi_csv *csv, const atvi_draws_config *c,
                               const layout *l, atvi_idx *n_chain) {
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

static atvi_status fill(const atvi_csv *csv, const layout *l, const atvi_draws_config *c, atvi_draws *d) {
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
  atvi_draws_config c;
  atvi_csv *csv;
  layout l;
  atvi_idx n_chain;
  atvi_draws *d;
  ATVI_TRY(atvi_io_file_read(pool, path, &text, &n));
  ATVI_TRY(atvi_io_draws_config_read(pool, path, text, &c));
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
