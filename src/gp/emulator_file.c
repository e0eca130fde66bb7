/* SPDX-License-Identifier: MIT */
/* The result of the search, as JSON. The rest is quickly recomputed from the runs, so a file is small and
 * readable, and can be wrong only in values that are checked, by the likelihood of the runs.
 *
 *   {"emulator": "atvi 1", "runs": fingerprint of runs, "settings": of settings, "kernel": its name, "lengths": [d],
 *    "nugget", "time", "sill", "log_likelihood": reals, "starts", "evaluations", "agreed": counts}
 *
 * Numbers have all their digits: a loaded emulator equals the saved one in every bit. */
#include "gp/emulator_detail.h"
#include "io/csv.h"
#include "io/file.h"
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FILE_MOST = 1 << 20 };
static const char HEADER[] = "atvi 1";
const char *const atvi_gp_em_kernel_name[] = {"exponential", "matern32", "matern52", "squared"};

static void put_real(atvi_file *f, const char *before, double x) {
  char number[ATVI_NUMBER_BYTES];
  atvi_io_format_number(number, x);
  atvi_io_file_printf(f, "%s%s", before, number);
}

atvi_status atvi_gp_emulator_save(atvi_ctx *ctx, const atvi_emulator *em, const char *path) {
  const atvi_em_info *i = &em->info;
  atvi_file *f;
  ATVI_TRY(atvi_io_file_new(ctx, path, &f));
  atvi_io_file_printf(f,
                      "{\n  \"emulator\": \"%s\",\n  \"runs\": \"%016" PRIx64
                      "\",\n  \"settings\": \"%016" PRIx64 "\",\n  \"kernel\": \"%s\"",
                      HEADER, em->runs_hash, em->opts_hash, atvi_gp_em_kernel_name[em->kernel]);
  for (atvi_idx j = 0; j < em->d; j++) put_real(f, j ? ", " : ",\n  \"lengths\": [", em->length[j]);
  put_real(f, "],\n  \"nugget\": ", i->nugget);
  put_real(f, ",\n  \"time\": ", em->m > 1 ? i->time_length : 1);
  put_real(f, ",\n  \"sill\": ", i->sill);
  put_real(f, ",\n  \"log_likelihood\": ", i->log_lik);
  atvi_io_file_printf(f, ",\n  \"starts\": %d,\n  \"evaluations\": %d,\n  \"agreed\": %d\n}\n", i->starts,
                      i->evals, i->agreed);
  atvi_status status = atvi_io_file_commit(f);
  atvi_io_file_free(f);
  return status;
}

/* A number of at least that size; else *ok is false. */
static double real_of(const json_t *x, double least, bool *ok) {
  double v = json_is_number(x) ? json_number_value(x) : NAN;
  *ok = *ok && isfinite(v) && v >= least;
  return v;
}

static int count_of(const json_t *root, const char *key, bool *ok) {
  double v = real_of(json_object_get(root, key), 0, ok);
  *ok = *ok && v <= 2e9 && v == floor(v);
  return *ok ? (int)v : 0;
}

static bool is_word(const json_t *root, const char *key, const char *want) {
  const char *word = json_string_value(json_object_get(root, key));
  return word && strcmp(word, want) == 0;
}

static bool is_hash(const json_t *root, const char *key, uint64_t want) {
  char text[24];
  snprintf(text, sizeof text, "%016" PRIx64, want);
  return is_word(root, key, text);
}

static atvi_status damaged(atvi_ctx *ctx, const char *path) {
  return ATVI_FAIL(ctx, ATVI_EDATA, "%s:1:1: error: unexpected contents; the file is damaged", path);
}

/* value[d + 2] and found. */
static atvi_status understand(atvi_ctx *ctx, const char *path, const json_t *root, const atvi_em_runs *runs,
                              const atvi_em_opts *opts, double *value, atvi_em_found *found, bool *other) {
  const json_t *lengths = json_object_get(root, "lengths");
  bool ok = is_word(root, "kernel", atvi_gp_em_kernel_name[opts->kernel]) &&
            json_array_size(lengths) == (size_t)runs->d;
  if (!is_word(root, "emulator", HEADER))
    return ATVI_FAIL(ctx, ATVI_EDATA, "%s:1:1: error: not an emulator of this version", path);
  bool same = is_hash(root, "runs", atvi_gp_em_hash_runs(runs));
  *other = !same || !is_hash(root, "settings", atvi_gp_em_hash_opts(opts, runs->d));
  if (!same)
    return ATVI_FAIL(ctx, ATVI_EDATA,
                     "%s: error: it was fitted to other runs, or over other ranges of the inputs", path);
  if (*other) return ATVI_FAIL(ctx, ATVI_EDATA, "%s: error: it was fitted with other settings", path);
  for (atvi_idx j = 0; ok && j < runs->d; j++)
    value[j] = real_of(json_array_get(lengths, (size_t)j), 1e-300, &ok);
  value[runs->d] = real_of(json_object_get(root, "nugget"), 0, &ok);
  value[runs->d + 1] = real_of(json_object_get(root, "time"), 1e-300, &ok);
  found->sill = real_of(json_object_get(root, "sill"), 1e-300, &ok);
  found->log_lik = real_of(json_object_get(root, "log_likelihood"), -HUGE_VAL, &ok);
  found->starts = count_of(root, "starts", &ok);
  found->evals = count_of(root, "evaluations", &ok);
  found->agreed = count_of(root, "agreed", &ok);
  return ok ? ATVI_OK : damaged(ctx, path);
}

/* The likelihood, which takes in every number but the counts, must be the one in the file: what was changed by hand is noticed. */
static atvi_status confirm(atvi_ctx *ctx, const char *path, const atvi_em_runs *runs,
                           const atvi_em_opts *opts, const double *value, const atvi_em_found *found) {
  const double tol = 1e-4; /* another BLAS rounds differently, and K may be nearly singular */
  double log_lik;
  atvi_em_opts at = *opts;
  at.length = value;
  at.nugget = value[runs->d];
  at.time_length = value[runs->d + 1];
  at.sill = found->sill;
  atvi_status status = atvi_gp_emulator_log_lik(ctx, runs, &at, &log_lik, NULL);
  if (status == ATVI_ENOMEM) return status;
  bool same = status == ATVI_OK && fabs(log_lik - found->log_lik) <= tol * (1 + fabs(found->log_lik));
  return same ? ATVI_OK : damaged(ctx, path);
}

static atvi_status load(atvi_ctx *ctx, atvi_pool *pool, const char *path, const atvi_em_runs *runs,
                        const atvi_em_opts *opts, bool *other, atvi_emulator **out) {
  char *text;
  size_t n;
  json_error_t error;
  atvi_em_found found = {0};
  ATVI_TRY(atvi_io_file_read_most(pool, path, FILE_MOST, &text, &n));
  double *value = atvi_pool_take(pool, (size_t)(runs->d + 2 + runs->m), sizeof *value);
  if (!value) return ATVI_ENOMEM;
  double *mean = value + runs->d + 2;
  if (memchr(text, 0, n)) return damaged(ctx, path); /* the JSON reader skips it */
  json_t *root = json_loadb(text, n, JSON_DECODE_INT_AS_REAL, &error);
  if (!root)
    return ATVI_FAIL(ctx, ATVI_EDATA, "%s:%d:%d: error: the file is damaged, or of another version: %s", path,
                     error.line, error.column, error.text);
  atvi_status status = understand(ctx, path, root, runs, opts, value, &found, other);
  json_decref(root);
  if (status != ATVI_OK) return status;
  ATVI_TRY(confirm(ctx, path, runs, opts, value, &found));
  atvi_gp_em_mean(runs, mean);
  return atvi_gp_em_build(ctx, runs, mean, opts, value, &found, out);
}

atvi_status atvi_gp_emulator_load(atvi_ctx *ctx, const char *path, const atvi_em_runs *runs,
                                  const atvi_em_opts *opts, bool *other, atvi_emulator **out) {
  bool unread;
  if (!other) other = &unread;
  *out = NULL;
  *other = false;
  atvi_em_opts use;
  atvi_gp_em_defaults(&use);
  if (opts) use = *opts;
  ATVI_TRY(atvi_gp_em_check(ctx, runs, &use));
  atvi_pool *pool;
  ATVI_TRY(atvi_pool_new(ctx, &pool));
  atvi_status status = load(ctx, pool, path, runs, &use, other, out);
  atvi_pool_free(pool);
  return status;
}
