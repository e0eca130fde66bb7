/* SPDX-License-Identifier: MIT */
/* What the search found, as text: a line per value. The rest follows from the runs in a moment and is made anew, so a file is small
 * and readable, and can be wrong only in values that are checked.
 *
 *   atvi-emulator 1
 *   runs <fingerprint of runs>
 *   settings <fingerprint of settings>
 *   kernel <number>
 *   length <value>            d times
 *   nugget, time, sill, log_lik <value>
 *   starts, evals, agreed <count>
 *   end */
#include "gp/emulator_detail.h"
#include "io/csv.h"
#include "io/file.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MOST = 1 << 20 };
static const char HEADER[] = "atvi-emulator 1";

static void put_real(atvi_file *f, const char *key, double x) {
  char number[ATVI_NUMBER_BYTES];
  atvi_format_number(number, x);
  atvi_file_printf(f, "%s %s\n", key, number);
}

atvi_status atvi_emulator_save(atvi_ctx *ctx, const atvi_emulator *em, const char *path) {
  const atvi_em_info *i = &em->info;
  atvi_file *f;
  ATVI_TRY(atvi_file_new(ctx, path, &f));
  atvi_file_printf(f, "%s\nruns %016" PRIx64 "\nsettings %016" PRIx64 "\nkernel %d\n", HEADER, em->runs_hash,
                   em->opts_hash, (int)em->kernel);
  for (atvi_idx j = 0; j < em->d; j++) put_real(f, "length", em->length[j]);
  put_real(f, "nugget", i->nugget);
  put_real(f, "time", em->m > 1 ? i->time_length : 1);
  put_real(f, "sill", i->sill);
  put_real(f, "log_lik", i->log_lik);
  atvi_file_printf(f, "starts %d\nevals %d\nagreed %d\nend\n", i->starts, i->evals, i->agreed);
  atvi_status status = atvi_file_commit(f);
  atvi_file_free(f);
  return status;
}

typedef struct {
  const char *at; /* rest of the text */
  int line;
  bool ok;
} reader;

/* The value of the next line, which must have that key: *n bytes, not terminated. */
static const char *next(reader *r, const char *key, size_t *n) {
  size_t k = strlen(key);
  r->line++;
  const char *end = r->at ? strchr(r->at, '\n') : NULL;
  r->ok = r->ok && end && (size_t)(end - r->at) > k && strncmp(r->at, key, k) == 0 && r->at[k] == ' ';
  if (!r->ok) return NULL;
  const char *value = r->at + k + 1;
  *n = (size_t)(end - value);
  r->at = end + 1;
  return value;
}

static double next_real(reader *r, const char *key, double least) {
  size_t n;
  double x = NAN;
  const char *value = next(r, key, &n);
  r->ok = r->ok && atvi_parse_number(value, n, &x) && x >= least;
  return x;
}

static int next_count(reader *r, const char *key) {
  double x = next_real(r, key, 0);
  r->ok = r->ok && x <= 2e9 && x == floor(x);
  return r->ok ? (int)x : 0;
}

static uint64_t next_hash(reader *r, const char *key) {
  size_t n;
  const char *value = next(r, key, &n);
  uint64_t h = 0;
  r->ok = r->ok && n == 16;
  for (size_t i = 0; r->ok && i < n; i++) {
    const char *digits = "0123456789abcdef", *at = value[i] ? strchr(digits, value[i]) : NULL;
    r->ok = at != NULL;
    h = h << 4 | (at ? (uint64_t)(at - digits) : 0);
  }
  return h;
}

/* value[d + 2] and found. */
static atvi_status parse(atvi_ctx *ctx, const char *path, const char *text, const atvi_em_runs *runs,
                         const atvi_em_opts *opts, double *value, atvi_em_found *found) {
  reader r = {text, 1, true};
  size_t head = strlen(HEADER);
  if (strncmp(text, HEADER, head) != 0 || text[head] != '\n')
    return ATVI_FAIL(ctx, ATVI_EDATA, "%s:1:1: error: not an emulator of this version", path);
  r.at = text + head + 1;
  uint64_t of_runs = next_hash(&r, "runs"), of_opts = next_hash(&r, "settings");
  if (r.ok && of_runs != atvi_em_hash_runs(runs))
    return ATVI_FAIL(ctx, ATVI_EDATA,
                     "%s: error: it was fitted to other runs, or over other ranges of the inputs", path);
  if (r.ok && of_opts != atvi_em_hash_opts(opts, runs->d))
    return ATVI_FAIL(ctx, ATVI_EDATA, "%s: error: it was fitted with other settings", path);
  int kernel = next_count(&r, "kernel");
  r.ok = r.ok && kernel == (int)opts->kernel;
  for (atvi_idx j = 0; j < runs->d; j++) value[j] = next_real(&r, "length", 1e-300);
  value[runs->d] = next_real(&r, "nugget", 0);
  value[runs->d + 1] = next_real(&r, "time", 1e-300);
  found->sill = next_real(&r, "sill", 1e-300);
  found->log_lik = next_real(&r, "log_lik", -HUGE_VAL);
  found->starts = next_count(&r, "starts");
  found->evals = next_count(&r, "evals");
  found->agreed = next_count(&r, "agreed");
  r.line += r.ok;
  if (!r.ok || strcmp(r.at, "end\n") != 0)
    return ATVI_FAIL(ctx, ATVI_EDATA, "%s:%d:1: error: not what belongs here; the file is damaged", path,
                     r.line);
  return ATVI_OK;
}

static atvi_status load(atvi_ctx *ctx, atvi_pool *pool, const char *path, const atvi_em_runs *runs,
                        const atvi_em_opts *opts, atvi_emulator **out) {
  char *text;
  size_t n;
  atvi_em_found found = {0};
  ATVI_TRY(atvi_file_read_most(pool, path, FILE_MOST, &text, &n));
  double *value = atvi_pool_take(pool, (size_t)(runs->d + 2 + runs->m), sizeof *value);
  if (!value) return ATVI_FAIL(ctx, ATVI_ENOMEM, "emulator: %td outputs", runs->m);
  double *mean = value + runs->d + 2;
  ATVI_TRY(parse(ctx, path, text, runs, opts, value, &found));
  atvi_em_mean(runs, mean);
  return atvi_em_build(ctx, runs, mean, opts, value, &found, out);
}

atvi_status atvi_emulator_load(atvi_ctx *ctx, const char *path, const atvi_em_runs *runs,
                               const atvi_em_opts *opts, atvi_emulator **out) {
  *out = NULL;
  atvi_em_opts use;
  atvi_em_defaults(&use);
  if (opts) use = *opts;
  ATVI_TRY(atvi_em_check(ctx, runs, &use));
  atvi_pool *pool;
  ATVI_TRY(atvi_pool_new(ctx, &pool));
  atvi_status status = load(ctx, pool, path, runs, &use, out);
  atvi_pool_free(pool);
  return status;
}
