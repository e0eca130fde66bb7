/* SPDX-License-Identifier: MIT */
/* Fitting: checks, the search for the values, and everything that evaluation needs at these values. */
#include "gp/emulator.h"
#include "gp/emulator_detail.h"
#include "math/linalg.h"
#include <limits.h>
#include <math.h>
#include <string.h>

void atvi_gp_em_defaults(atvi_em_opts *opts) {
  *opts =
      (atvi_em_opts){.kernel = ATVI_EM_MATERN52, .nugget = NAN, .time_length = NAN, .sill = NAN, .seed = 1};
}

void atvi_gp_em_mean(const atvi_em_runs *r, double *mean) {
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

atvi_status atvi_gp_em_build(atvi_ctx *ctx, const atvi_em_runs *r, const double *mean,
                             const atvi_em_opts *opts, const double *value, const atvi_em_found *found,
                             atvi_emulator **out) {
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
  atvi_gp_em_mean(r, *mean);
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
  if (status == ATVI_OK) status = atvi_gp_em_build(ctx, runs, mean, &use, par, &found, out);
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
