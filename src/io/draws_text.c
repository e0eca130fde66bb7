/* SPDX-License-Identifier: MIT */
#include "io/draws_file.h"
#include "io/arrays.h"
#include "io/csv.h"
#include "io/file.h"
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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
