/* SPDX-License-Identifier: MIT */
/* Fitting: checks, the search for the values, and everything that evaluation needs at these values; and its
 * file. */
#include "gp/emulator.h"
#include "gp/emulator_detail.h"
#include "io/csv.h"
#include "io/file.h"
#include "math/linalg.h"
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void atvi_gp_em_defaults(atvi_em_opts *opts) {
  *opts =
      (atvi_em_opts){.kernel = ATVI_EM_MATERN52, .nugget = NAN, .time_length = NAN, .sill = NAN, .seed = 1};
}

/* The mean of the runs, or the given one, to mean[m]. */
static void mean_of_runs(const atvi_em_runs *r, double *mean) {
  for (atvi_idx t = 0; t < r->m; t++) mean[t] = r->mean ? r->mean[t] : 0;
  if (r->mean) return;
  for (atvi_idx i = 0; i < r->n;
       i++) /* around the first run, so that an output that never varies has exactly its value */
    for (atvi_idx t = 0; t < r->m; t++) mean[t] += r->y[i * r->m + t] - r->y[t];
  for (atvi_idx t = 0; t < r->m; t++) mean[t] = r->y[t] + mean[t] / (double)r->n;
}

/* ---- building ---- */

static void take(atvi_arena *a, atvi_em_packed *p, atvi_idx rows, atvi_idx cols, bool lower) {
  *p = (atvi_em_packed){.rows = rows, .cols = cols, .lower = lower};
  ATVI_TAKE(a, p->data, atvi_gp_em_packed_size(p));
}

static atvi_emulator *carve(atvi_arena *a, const atvi_em_runs *r, atvi_idx q, bool basis) {
  atvi_emulator *o, head = {.n = r->n, .d = r->d, .m = r->m, .q = q};
  ATVI_TAKE(a, o, 1);
  ATVI_TAKE(a, head.length, r->d);
  ATVI_TAKE(a, head.scale, r->d);
  ATVI_TAKE(a, head.u, r->n * r->d);
  ATVI_TAKE(a, head.mean, r->m);
  ATVI_TAKE(a, head.inv_diag, r->n);
  if (basis) ATVI_TAKE(a, head.basis, q * r->m);
  take(a, &head.w, q, r->n, false);
  take(a, &head.root, r->n, r->n, true);
  if (o) *o = head;
  return o;
}

enum { BLOCK = 32 * ATVI_GP_PANEL }; /* outputs that are solved for at once */

typedef struct {
  atvi_idx q;
  double share, dropped; /* of the variance, and the mean square that is left out */
  double *y;             /* [n][m] minus the mean, with a basis; room for [threads][n][BLOCK] without */
  double *vector;        /* [n][n] eigenvectors of y y', rows, ascending; NULL without a basis */
  double *coef;          /* [n][q] with a basis */
  double *l;             /* [n][n] */
} parts;

static void parts_free(atvi_ctx *ctx, parts *p) {
  atvi_block_free(ctx, p->y);
  atvi_block_free(ctx, p->vector);
  atvi_block_free(ctx, p->coef);
  atvi_block_free(ctx, p->l);
}

static double *reals(atvi_ctx *ctx, atvi_idx rows, atvi_idx cols) {
  if ((double)rows * (double)cols * sizeof(double) > (double)(SIZE_MAX / 4)) return NULL;
  return atvi_block(ctx, (size_t)rows * (size_t)cols * sizeof(double));
}

/* Number of singular vectors with the requested share. */
static atvi_status leading(atvi_ctx *ctx, const atvi_em_runs *r, double wanted, parts *p) {
  atvi_idx n = r->n;
  p->vector = reals(ctx, n, n);
  double *work = reals(ctx, 1, n + (atvi_idx)atvi_math_blas_eigen_work(n));
  if (!p->vector || !work) {
    atvi_block_free(ctx, work);
    return ATVI_ENOMEM;
  }
  atvi_math_blas_square(n, r->m, 1, p->y, r->m, 0, p->vector, n);
  bool ok = atvi_math_blas_eigen(n, p->vector, work, work + n);
  double all = 0, kept = 0;
  for (atvi_idx i = 0; i < n; i++) all += fmax(work[i], 0);
  for (p->q = 0; p->q < n && kept < wanted * all; p->q++) kept += fmax(work[n - 1 - p->q], 0);
  p->share = kept / all;
  p->dropped = fmax(all - kept, 0) / ((double)n * (double)r->m);
  atvi_block_free(ctx, work);
  return ok ? ATVI_OK : ATVI_FAIL(ctx, ATVI_EDATA, "emulator: the basis could not be computed");
}

/* With a basis, outputs minus the mean and its size. */
static atvi_status prepare(atvi_ctx *ctx, const atvi_em_runs *r, const double *mean, double basis, parts *p) {
  atvi_idx n = r->n, m = r->m;
  bool reduce = basis > 0 && m > 1;
  p->q = m, p->share = 1;
  p->y = reals(ctx, n, reduce ? m : (atvi_idx)atvi_ctx_threads(ctx) * BLOCK);
  p->l = reals(ctx, n, n);
  if (!p->y || !p->l) return ATVI_ENOMEM;
  if (!reduce) return ATVI_OK;
  for (atvi_idx i = 0; i < n; i++)
    for (atvi_idx t = 0; t < m; t++) p->y[i * m + t] = r->y[i * m + t] - mean[t];
  ATVI_TRY(leading(ctx, r, basis, p));
  return (p->coef = reals(ctx, n, p->q)) ? ATVI_OK : ATVI_ENOMEM;
}

/* Orthonormal rows of the basis (largest first), and the runs in it. */
static void project(atvi_emulator *em, parts *p) {
  atvi_idx n = em->n, m = em->m, q = em->q;
  atvi_math_blas_mul(q, m, n, p->vector + (n - q) * n, n, p->y, m, 0, em->basis, m);
  for (atvi_idx j = 0; j < q; j++) {
    double s = 0, *b = em->basis + j * m;
    for (atvi_idx t = 0; t < m; t++) s += b[t] * b[t];
    for (atvi_idx t = 0; t < m; t++) b[t] /= sqrt(s);
  }
  atvi_math_blas_mul_bt(n, q, m, p->y, m, em->basis, m, 0, p->coef, q);
}

static bool factor(atvi_emulator *em, const atvi_em_runs *r, double *l) {
  atvi_idx n = em->n, d = em->d;
  for (atvi_idx i = 0; i < n; i++)
    for (atvi_idx j = 0; j < d; j++) em->u[i * d + j] = r->x[i * d + j] * em->scale[j];
  for (atvi_idx i = 0; i < n; i++) {
    for (atvi_idx j = 0; j < i; j++)
      l[i * n + j] = atvi_gp_corr_ref(em->kernel, d, em->u + i * d, em->u + j * d);
    l[i * n + i] = 1 + em->info.nugget;
  }
  return atvi_math_blas_cholesky(n, l, n);
}

typedef struct {
  atvi_emulator *em;
  const atvi_em_runs *r;
  const parts *p;
} weighing;

/* W of outputs item * BLOCK ... */
static void weigh(void *arg, atvi_idx item, int worker) {
  const weighing *a = arg;
  atvi_emulator *em = a->em;
  atvi_idx n = em->n, m = em->m, t0 = item * BLOCK, count = m - t0 < BLOCK ? m - t0 : BLOCK;
  double *y = a->p->y + worker * n * BLOCK;
  for (atvi_idx i = 0; i < n; i++)
    for (atvi_idx t = 0; t < count; t++) y[i * BLOCK + t] = a->r->y[i * m + t0 + t] - em->mean[t0 + t];
  atvi_math_blas_tri_solve(n, count, a->p->l, n, false, y, BLOCK);
  atvi_math_blas_tri_solve(n, count, a->p->l, n, true, y, BLOCK);
  atvi_em_packed part = {
      .rows = count, .cols = n, .data = em->w.data + atvi_gp_em_panel_at(&em->w, t0 / ATVI_GP_PANEL)};
  atvi_gp_em_pack(&part, y, 1, BLOCK);
}

static atvi_status fill(atvi_emulator *em, const atvi_em_runs *r, parts *p) {
  atvi_idx n = em->n, q = em->q;
  if (!factor(em, r, p->l))
    return ATVI_FAIL(em->ctx, ATVI_EINVAL,
                     "emulator: the covariance of the runs is not positive definite; give a larger nugget");
  if (em->basis) {
    project(em, p);
    atvi_math_blas_tri_solve(n, q, p->l, n, false, p->coef, q);
    atvi_math_blas_tri_solve(n, q, p->l, n, true, p->coef, q);
    atvi_gp_em_pack(&em->w, p->coef, 1, q);
  } else {
    atvi_parallel(em->ctx, (em->m + BLOCK - 1) / BLOCK, weigh, &(weighing){em, r, p});
  }
  atvi_block_free(em->ctx, p->y);
  p->y = NULL;
  atvi_math_blas_tri_inverse(n, p->l, n);
  atvi_gp_em_pack(&em->root, p->l, n, 1);
  for (atvi_idx i = 0; i < n; i++)
    for (atvi_idx j = 0; j <= i; j++) em->inv_diag[j] += p->l[i * n + j] * p->l[i * n + j];
  return ATVI_OK;
}

static void set_info(atvi_emulator *em, const double *value, const atvi_em_found *found, const parts *p) {
  atvi_idx d = em->d;
  for (atvi_idx j = 0; j < d; j++) {
    em->length[j] = value[j];
    em->scale[j] = atvi_gp_scale(em->kernel, em->length[j]);
  }
  em->info = (atvi_em_info){.length = em->length,
                            .nugget = value[d],
                            .time_length = em->m > 1 ? value[d + 1] : NAN,
                            .sill = found->sill,
                            .log_lik = found->log_lik,
                            .starts = found->starts,
                            .evals = found->evals,
                            .agreed = found->agreed,
                            .n_basis = em->q,
                            .basis_share = p->share,
                            .dropped = p->dropped / found->sill};
}

/* The emulator at known values: lengths, nugget and time length themselves in value[d + 2]. Errors: EINVAL,
 * ENOMEM. */
static atvi_status build(atvi_ctx *ctx, const atvi_em_runs *r, const double *mean, const atvi_em_opts *opts,
                         const double *value, const atvi_em_found *found, atvi_emulator **out) {
  *out = NULL;
  parts p = {0};
  atvi_emulator *em = NULL;
  atvi_arena a = {0};
  ATVI_TRY(atvi_math_blas_begin(ctx));
  atvi_status status = prepare(ctx, r, mean, opts->basis, &p);
  if (status == ATVI_OK) {
    carve(&a, r, p.q, p.vector != NULL);
    a = (atvi_arena){.base = atvi_block(ctx, a.used)};
    if (!a.base) status = ATVI_ENOMEM;
  }
  if (status == ATVI_OK) {
    em = carve(&a, r, p.q, p.vector != NULL);
    em->ctx = ctx;
    em->kernel = opts->kernel;
    em->table = atvi_gp_best();
    em->runs_hash = atvi_gp_em_hash_runs(r);
    em->opts_hash = atvi_gp_em_hash_opts(opts, r->d);
    memcpy(em->mean, mean, (size_t)r->m * sizeof *mean);
    set_info(em, value, found, &p);
    status = fill(em, r, &p);
  }
  parts_free(ctx, &p);
  if (status != ATVI_OK) {
    atvi_gp_emulator_free(em);
    return status;
  }
  *out = em;
  return ATVI_OK;
}

/* ---- the public side ---- */

static void held_values(const atvi_em_opts *opts, atvi_idx d, double *par) {
  for (atvi_idx j = 0; j < d; j++) par[j] = opts->length ? log(opts->length[j]) : NAN;
  par[d] = log(opts->nugget);
  par[d + 1] = log(opts->time_length);
}

/* par[d + 2], mean[m], in one block. */
static atvi_status begin(atvi_ctx *ctx, const atvi_em_runs *r, const atvi_em_opts *opts, double **par,
                         double **mean) {
  *par = *mean = NULL;
  ATVI_TRY(atvi_gp_em_check(ctx, r, opts));
  *par = reals(ctx, 1, r->d + 2 + r->m);
  if (!*par) return ATVI_ENOMEM;
  *mean = *par + r->d + 2;
  held_values(opts, r->d, *par);
  mean_of_runs(r, *mean);
  return ATVI_OK;
}

atvi_status atvi_gp_emulator_new(atvi_ctx *ctx, const atvi_em_runs *runs, const atvi_em_opts *opts,
                                 atvi_emulator **out) {
  *out = NULL;
  atvi_em_opts use;
  atvi_gp_em_defaults(&use);
  if (opts) use = *opts;
  double *par, *mean;
  ATVI_TRY(begin(ctx, runs, &use, &par, &mean));
  atvi_em_found found = {0};
  atvi_status status = atvi_gp_em_search(ctx, runs, mean, &use, par, &found);
  for (atvi_idx j = 0; j < runs->d + 2; j++) par[j] = exp(par[j]);
  if (status == ATVI_OK) status = build(ctx, runs, mean, &use, par, &found, out);
  atvi_block_free(ctx, par);
  return status;
}

void atvi_gp_emulator_free(atvi_emulator *em) {
  if (em) atvi_block_free(em->ctx, em);
}

const atvi_em_info *atvi_gp_emulator_info(const atvi_emulator *em) { return &em->info; }

atvi_status atvi_gp_emulator_log_lik(atvi_ctx *ctx, const atvi_em_runs *runs, const atvi_em_opts *at,
                                     double *log_lik, double *grad) {
  *log_lik = NAN;
  double *par, *mean, sill = at->sill;
  if (!at->length || isnan(at->nugget) || (isnan(at->time_length) && runs->m > 1))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "emulator: the likelihood needs lengths, nugget and time length");
  ATVI_TRY(begin(ctx, runs, at, &par, &mean));
  atvi_em_lik *lik = NULL;
  atvi_em_scratch *scratch = NULL;
  atvi_status status = atvi_gp_em_lik_new(ctx, runs, mean, at->kernel, runs->n, NULL, &lik);
  if (status == ATVI_OK) status = atvi_gp_em_scratch_new(ctx, lik, &scratch);
  if (status == ATVI_OK) *log_lik = atvi_gp_em_lik_eval(lik, scratch, par, &sill, grad);
  atvi_gp_em_scratch_free(ctx, scratch);
  atvi_gp_em_lik_free(ctx, lik);
  atvi_block_free(ctx, par);
  return status;
}

/* The result of the search, as JSON. The rest is quickly recomputed from the runs, so a file is small and
 * readable, and can be wrong only in values that are checked, by the likelihood of the runs.
 *
 *   {"emulator": "atvi 1", "runs": fingerprint of runs, "settings": of settings, "kernel": its name, "lengths": [d],
 *    "nugget", "time", "sill", "log_likelihood": reals, "starts", "evaluations", "agreed": counts}
 *
 * Numbers have all their digits: a loaded emulator equals the saved one in every bit. */

enum { FILE_MOST = 1 << 20 };
static const char HEADER[] = "atvi 1";
const char *const atvi_gp_em_kernel_name[] = {"exponential", "matern32", "matern52", "squared"};

atvi_status atvi_gp_emulator_save(atvi_ctx *ctx, const atvi_emulator *em, const char *path) {
  const atvi_em_info *i = &em->info;
  atvi_file *f;
  ATVI_TRY(atvi_io_file_new(ctx, path, &f));
  atvi_io_file_printf(f,
                      "{\n  \"emulator\": \"%s\",\n  \"runs\": \"%016" PRIx64
                      "\",\n  \"settings\": \"%016" PRIx64 "\",\n  \"kernel\": \"%s\"",
                      HEADER, em->runs_hash, em->opts_hash, atvi_gp_em_kernel_name[em->kernel]);
  for (atvi_idx j = 0; j < em->d; j++)
    atvi_io_file_number(f, j ? ", " : ",\n  \"lengths\": [", em->length[j]);
  atvi_io_file_number(f, "],\n  \"nugget\": ", i->nugget);
  atvi_io_file_number(f, ",\n  \"time\": ", em->m > 1 ? i->time_length : 1);
  atvi_io_file_number(f, ",\n  \"sill\": ", i->sill);
  atvi_io_file_number(f, ",\n  \"log_likelihood\": ", i->log_lik);
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

/* The likelihood, which takes in every number but the counts, must be the one in the file: what was changed
 * by hand is noticed. */
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
  mean_of_runs(runs, mean);
  return build(ctx, runs, mean, opts, value, &found, out);
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
