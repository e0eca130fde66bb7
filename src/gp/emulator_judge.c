/* SPDX-License-Identifier: MIT */
/* How well the emulator predicts runs it has not seen, and which inputs matter to it.
 *
 * Leaving out run i, with all values kept (Dubrule 1983): y_i - its prediction = (K^-1 y)_i / (K^-1)_ii, and
 * the variance is sill / (K^-1)_ii. With a basis, its coefficients are predicted; what the basis cannot
 * represent is part of the error and, on average, of the variance. */
#include "gp/emulator_detail.h"
#include "math/sobol.h"
#include <limits.h>
#include <math.h>
#include <string.h>

enum { G = ATVI_EM_GROUP };
#define Z95 1.9599639845400542355
#define LOG_SQRT_2PI 0.91893853320467274178

typedef struct {
  const atvi_em_runs *runs;
  const double *mean; /* [m] of the runs of the fit */
  double *sse, *sst;  /* [m] */
  double covered, score;
  atvi_em_loo *out;
} tally;

/* Run i was predicted as y[t * stride] with standard deviation sd in all outputs. */
static void count(tally *a, atvi_idx i, const double *y, atvi_idx stride, double sd) {
  atvi_idx m = a->runs->m;
  double sum = 0;
  for (atvi_idx t = 0; t < m; t++) {
    double truth = a->runs->y[i * m + t], e = truth - y[t * stride], z = e / sd, c = truth - a->mean[t];
    if (a->out->predicted) a->out->predicted[i * m + t] = y[t * stride];
    a->sse[t] += e * e;
    a->sst[t] += c * c;
    a->covered += fabs(z) <= Z95;
    a->score -= 0.5 * z * z + log(sd) + LOG_SQRT_2PI;
    sum += z * z;
  }
  double error = sqrt(sum / (double)m);
  if (a->out->run_error) a->out->run_error[i] = error;
  if (a->out->run_sd) a->out->run_sd[i] = sd;
  if (!(error <= a->out->worst_error)) a->out->worst = i, a->out->worst_error = error;
}

static void finish(tally *a) {
  atvi_idx n = a->runs->n, m = a->runs->m;
  double sse = 0, sst = 0, all = (double)n * (double)m;
  for (atvi_idx t = 0; t < m; t++) {
    sse += a->sse[t], sst += a->sst[t];
    if (a->out->q2_time) a->out->q2_time[t] = a->sst[t] > 0 ? 1 - a->sse[t] / a->sst[t] : NAN;
  }
  a->out->q2 = sst > 0 ? 1 - sse / sst : NAN;
  a->out->rmse = sqrt(sse / all);
  a->out->coverage = a->covered / all;
  a->out->log_score = a->score / all;
}

static atvi_status check(atvi_ctx *ctx, const atvi_emulator *em, const atvi_em_runs *r) {
  if (r->d != em->d || r->m != em->m || r->n < 1 || !r->x || !r->y)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "emulator: %td runs of %td inputs and %td outputs; it has %td and %td",
                     r->n, r->d, r->m, em->d, em->m);
  for (atvi_idx i = 0; i < r->n * r->d; i++)
    if (!isfinite(r->x[i]))
      return ATVI_FAIL(ctx, ATVI_EDATA, "emulator: input %td of run %td is %g", i % r->d + 1, i / r->d + 1,
                       r->x[i]);
  for (atvi_idx i = 0; i < r->n * r->m; i++)
    if (!isfinite(r->y[i]))
      return ATVI_FAIL(ctx, ATVI_EDATA, "emulator: output %td of run %td is %g", i % r->m + 1, i / r->m + 1,
                       r->y[i]);
  return ATVI_OK;
}

static atvi_status begin(atvi_ctx *ctx, const atvi_emulator *em, const atvi_em_runs *r, atvi_idx more,
                         atvi_em_loo *out, tally *a, double **room) {
  atvi_idx m = em->m;
  ATVI_TRY(check(ctx, em, r));
  *room = atvi_block(ctx, (size_t)(2 * m + more) * sizeof **room);
  if (!*room) return ATVI_ENOMEM;
  *a = (tally){.runs = r, .mean = em->mean, .sse = *room, .sst = *room + m, .out = out};
  out->worst = 0;
  out->worst_error = -1;
  return ATVI_OK;
}

/* Prediction of run i without it: y[m]. coef[q]. */
static void predict_without(const atvi_emulator *em, const atvi_em_runs *r, atvi_idx i, double *coef,
                            double *y) {
  atvi_idx m = em->m, q = em->q;
  for (atvi_idx j = 0; j < q; j++) {
    double own = 0, gap = atvi_gp_em_packed_get(&em->w, j, i) / em->inv_diag[i];
    for (atvi_idx t = 0; em->basis && t < m; t++)
      own += em->basis[j * m + t] * (r->y[i * m + t] - em->mean[t]);
    coef[j] = (em->basis ? own : r->y[i * m + j]) - gap;
  }
  if (!em->basis) {
    memcpy(y, coef, (size_t)m * sizeof *y);
    return;
  }
  memcpy(y, em->mean, (size_t)m * sizeof *y);
  for (atvi_idx j = 0; j < q; j++)
    for (atvi_idx t = 0; t < m; t++) y[t] += coef[j] * em->basis[j * m + t];
}

atvi_status atvi_gp_emulator_loo(atvi_ctx *ctx, const atvi_emulator *em, const atvi_em_runs *runs,
                                 atvi_em_loo *out) {
  tally a;
  double *room;
  ATVI_TRY(begin(ctx, em, runs, em->m + em->q, out, &a, &room));
  if (runs->n != em->n || atvi_gp_em_hash_runs(runs) != em->runs_hash) {
    atvi_block_free(ctx, room);
    return ATVI_FAIL(ctx, ATVI_EDATA, "emulator: these %td runs are not those it was fitted to", runs->n);
  }
  double *y = room + 2 * em->m, *coef = y + em->m;
  for (atvi_idx i = 0; i < em->n; i++) {
    predict_without(em, runs, i, coef, y);
    count(&a, i, y, 1, sqrt(em->info.sill * (1 / em->inv_diag[i] + em->info.dropped)));
  }
  finish(&a);
  atvi_block_free(ctx, room);
  return ATVI_OK;
}

atvi_status atvi_gp_emulator_test(atvi_ctx *ctx, const atvi_emulator *em, const atvi_em_runs *held,
                                  atvi_em_loo *out) {
  tally a;
  double *room;
  atvi_idx d = em->d, n = held->n;
  ATVI_TRY(begin(ctx, em, held, (em->m + d + 1) * G + ATVI_ALIGN, out, &a, &room));
  atvi_em_work *w;
  atvi_status status = atvi_gp_em_work_new(em, ctx, em->m, NULL, &w);
  if (status == ATVI_OK) {
    /* Groups are read as whole vectors, so they start at a multiple of their size. */
    double *x = room + (2 * em->m + 7) / 8 * 8, *share = x + d * G, *y = share + G;
    for (atvi_idx first = 0; first < n; first += G) {
      atvi_idx some = n - first < G ? n - first : G;
      for (atvi_idx b = 0; b < G; b++)
        for (atvi_idx j = 0; j < d; j++) x[j * G + b] = held->x[(first + (b < some ? b : 0)) * d + j];
      atvi_gp_em_eval(em, w, x, y, share);
      for (atvi_idx b = 0; b < some; b++) count(&a, first + b, y + b, G, sqrt(em->info.sill * share[b]));
    }
    finish(&a);
  }
  atvi_gp_em_work_free(w);
  atvi_block_free(ctx, room);
  return status;
}

/* What is wrong with runs or settings, and their fingerprints. */

static atvi_status check_opts(atvi_ctx *ctx, const atvi_em_runs *r, const atvi_em_opts *o) {
  if (o->kernel < ATVI_EM_EXPONENTIAL || o->kernel > ATVI_EM_SQUARED)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "emulator: no kernel has the number %d", (int)o->kernel);
  for (atvi_idx j = 0; o->length && j < r->d; j++)
    if (!(o->length[j] > 0) || !isfinite(o->length[j]))
      return ATVI_FAIL(ctx, ATVI_EINVAL, "emulator: length %td = %g, want > 0", j + 1, o->length[j]);
  if (o->nugget < 0 || isinf(o->nugget))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "emulator: nugget = %g, want >= 0", o->nugget);
  if (o->time_length <= 0 || isinf(o->time_length))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "emulator: range in time = %g, want > 0", o->time_length);
  if (o->sill <= 0 || isinf(o->sill))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "emulator: sill = %g, want > 0", o->sill);
  if (!(o->basis >= 0 && o->basis < 1))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "emulator: basis = %g, want a share in (0, 1), or 0 for none",
                     o->basis);
  if (o->starts < 0 || o->starts > 10000)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "emulator: %d starts, want 0 to 10000", o->starts);
  return ATVI_OK;
}

static atvi_status check_shape(atvi_ctx *ctx, const atvi_em_runs *r) {
  if (r->n < 2) return ATVI_FAIL(ctx, ATVI_EINVAL, "emulator: %td runs, want at least 2", r->n);
  if (r->d < 1 || r->m < 1 || !r->x || !r->y)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "emulator: runs need at least one input and one output");
  if (r->n > 30000 || r->d > 10000 || r->m > INT_MAX / 2) /* n^2 must fit an int of the linear algebra */
    return ATVI_FAIL(ctx, ATVI_EINVAL, "emulator: %td runs of %td inputs and %td outputs are too many", r->n,
                     r->d, r->m);
  for (atvi_idx t = 0; r->time && t < r->m; t++)
    if (!isfinite(r->time[t]) || (t > 0 && !(r->time[t] > r->time[t - 1])))
      return ATVI_FAIL(ctx, ATVI_EINVAL, "emulator: time %td = %g does not follow %g", t + 1, r->time[t],
                       t > 0 ? r->time[t - 1] : NAN);
  return ATVI_OK;
}

static atvi_status check_numbers(atvi_ctx *ctx, const atvi_em_runs *r) {
  atvi_idx n = r->n, d = r->d, m = r->m;
  for (atvi_idx i = 0; i < n * d; i++)
    if (!isfinite(r->x[i]))
      return ATVI_FAIL(ctx, ATVI_EDATA, "emulator: input %td of run %td is %g", i % d + 1, i / d + 1,
                       r->x[i]);
  for (atvi_idx i = 0; i < n * m; i++)
    if (!(fabs(r->y[i]) <= 1e150)) /* squares must be finite */
      return ATVI_FAIL(ctx, ATVI_EDATA, "emulator: output %td of run %td is %g", i % m + 1, i / m + 1,
                       r->y[i]);
  for (atvi_idx t = 0; r->mean && t < m; t++)
    if (!(fabs(r->mean[t]) <= 1e150))
      return ATVI_FAIL(ctx, ATVI_EDATA, "emulator: mean of output %td is %g", t + 1, r->mean[t]);
  for (atvi_idx i = m; i < n * m; i++)
    if (r->y[i] != r->y[i % m]) return ATVI_OK;
  return ATVI_FAIL(ctx, ATVI_EDATA, "emulator: all %td runs have the same outputs", n);
}

static atvi_status check_distinct(atvi_ctx *ctx, const atvi_em_runs *r) {
  size_t bytes = (size_t)r->d * sizeof *r->x;
  for (atvi_idx i = 1; i < r->n; i++)
    for (atvi_idx j = 0; j < i; j++)
      if (memcmp(r->x + i * r->d, r->x + j * r->d, bytes) == 0)
        return ATVI_FAIL(ctx, ATVI_EINVAL,
                         "emulator: runs %td and %td have equal inputs, which a nugget of 0 does not allow",
                         j + 1, i + 1);
  return ATVI_OK;
}

atvi_status atvi_gp_em_check(atvi_ctx *ctx, const atvi_em_runs *runs, const atvi_em_opts *opts) {
  ATVI_TRY(check_shape(ctx, runs));
  ATVI_TRY(check_opts(ctx, runs, opts));
  ATVI_TRY(check_numbers(ctx, runs));
  return opts->nugget == 0 ? check_distinct(ctx, runs) : ATVI_OK;
}

/* ---- fingerprints ---- */

/* The finaliser of splitmix64: every bit of the word reaches every bit of the sum. */
static uint64_t stir(uint64_t h, uint64_t word) {
  h = (h ^ word) + 0x9e3779b97f4a7c15u;
  h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9u;
  h = (h ^ h >> 27) * 0x94d049bb133111ebu;
  return h ^ h >> 31;
}

static uint64_t stir_reals(uint64_t h, const double *x, atvi_idx n) {
  h = stir(h, x ? (uint64_t)n : UINT64_MAX);
  for (atvi_idx i = 0; x && i < n; i++) {
    uint64_t word;
    memcpy(&word, &x[i], sizeof word);
    h = stir(h, word);
  }
  return h;
}

uint64_t atvi_gp_em_hash_runs(const atvi_em_runs *r) {
  uint64_t h = stir(stir(stir(0, (uint64_t)r->n), (uint64_t)r->d), (uint64_t)r->m);
  h = stir_reals(h, r->x, r->n * r->d);
  h = stir_reals(h, r->y, r->n * r->m);
  h = stir_reals(h, r->time, r->m);
  return stir_reals(h, r->mean, r->m);
}

/* NaN with any other bits means free too. */
uint64_t atvi_gp_em_hash_opts(const atvi_em_opts *o, atvi_idx d) {
  double value[4] = {o->nugget, o->time_length, o->sill, o->basis};
  for (int i = 0; i < 4; i++)
    if (isnan(value[i])) value[i] = -1;
  uint64_t h = stir(stir(stir(0, (uint64_t)o->kernel), (uint64_t)o->starts), o->seed);
  return stir_reals(stir_reals(h, o->length, d), value, 4);
}

/* Sobol indices of the emulator's mean by quasi-Monte Carlo.
 *
 * With A and B two halves of a Sobol point in 2 d dimensions, and C_j = A with coordinate j of B (Saltelli
 * and others 2010):
 *
 *   V_j = mean f(B) (f(C_j) - f(A)),   T_j = mean (f(A) - f(C_j))^2 / 2,   first = V_j / V, total = T_j / V
 *
 * f is taken relative to the emulator's mean over the runs, which keeps the products small. Every scramble of
 * the points is an independent replicate: the indices are those of the sums over all, and the errors come
 * from the differences between replicates. Outputs are summed before dividing.
 *
 * A closed form exists (the kernel is a product), but its terms cancel: weights of an ill-conditioned K are
 * many orders larger than f. */

enum { SCRAMBLES = 16, LEAST = 64, MOST = 1024, STREAM = 97 };
#define WORK 4e11 /* total number of products allowed: about ten seconds of a core */

typedef struct {
  const atvi_emulator *em;
  atvi_sobol key;
  atvi_idx points;     /* of a scramble */
  atvi_em_work **work; /* [threads] */
  double **room;       /* [threads] */
  double *sum;         /* [SCRAMBLES][rows][2 d + 1]: V_j, T_j, V; rows: of outputs, or one for all */
  atvi_idx rows;
} job;

static size_t room_of(const atvi_emulator *em) { return (size_t)(2 * em->d + em->d + 1 + 3 * em->m) * G; }

/* Adds the products of one group. fa, fb, fc: [m][G]. */
static void add_pairs(const job *o, double *sum, atvi_idx j, const double *fa, const double *fb,
                      const double *fc) {
  atvi_idx width = 2 * o->em->d + 1;
  for (atvi_idx t = 0; t < o->em->m; t++) {
    double v = 0, e = 0, mean = o->em->mean[t];
    for (int b = 0; b < G; b++) {
      double a = fa[t * G + b], c = fc[t * G + b];
      v += (fb[t * G + b] - mean) * (c - a);
      e += 0.5 * (a - c) * (a - c);
    }
    double *to = sum + (o->rows > 1 ? t : 0) * width;
    to[j] += v;
    to[o->em->d + j] += e;
  }
}

/* The variance as half the mean square of differences of A and B, which are independent. */
static void add_variance(const job *o, double *sum, const double *fa, const double *fb) {
  atvi_idx width = 2 * o->em->d + 1;
  for (atvi_idx t = 0; t < o->em->m; t++) {
    double v = 0;
    for (int b = 0; b < G; b++) {
      double e = fa[t * G + b] - fb[t * G + b];
      v += 0.5 * e * e;
    }
    sum[(o->rows > 1 ? t : 0) * width + 2 * o->em->d] += v;
  }
}

static void run_scramble(void *arg, atvi_idx item, int worker) {
  const job *o = arg;
  const atvi_emulator *em = o->em;
  atvi_idx d = em->d, m = em->m;
  double *x = o->room[worker], *c = x + 2 * d * G, *share = c + d * G, *fa = share + G, *fb = fa + m * G,
         *fc = fb + m * G;
  double *sum = o->sum + item * o->rows * (2 * d + 1);
  atvi_sobol key = o->key;
  key.scramble = (uint32_t)item;
  for (atvi_idx first = 0; first < o->points; first += G) {
    atvi_math_sobol_uniform(key, first, 2 * d, G, x);
    atvi_gp_em_eval(em, o->work[worker], x, fa, share);
    atvi_gp_em_eval(em, o->work[worker], x + d * G, fb, share);
    add_variance(o, sum, fa, fb);
    for (atvi_idx j = 0; j < d; j++) {
      memcpy(c, x, (size_t)(d * G) * sizeof *c);
      memcpy(c + j * G, x + (d + j) * G, G * sizeof *c);
      atvi_gp_em_eval(em, o->work[worker], c, fc, share);
      add_pairs(o, sum, j, fa, fb, fc);
    }
  }
}

/* Ratio r = a / v of sums over replicates, and its standard error (delta method). step: between replicates. */
static double ratio(const double *a, const double *v, atvi_idx step, double *err) {
  double top = 0, bottom = 0, s = 0;
  for (int k = 0; k < SCRAMBLES; k++) top += a[k * step], bottom += v[k * step];
  double r = bottom > 0 ? top / bottom : 0;
  for (int k = 0; k < SCRAMBLES && bottom > 0; k++) {
    double e = (a[k * step] - r * v[k * step]) / bottom;
    s += e * e;
  }
  *err = fmax(*err, sqrt(s * SCRAMBLES / (SCRAMBLES - 1.0)));
  return r;
}

static void gather(const job *o, atvi_em_sobol *out) {
  atvi_idx d = o->em->d, width = 2 * d + 1, step = o->rows * width;
  double all[SCRAMBLES * 2], ignored = 0;
  out->err = 0;
  for (atvi_idx j = 0; j < 2 * d; j++) {
    for (int k = 0; k < SCRAMBLES; k++) {
      all[2 * k] = all[2 * k + 1] = 0;
      for (atvi_idx t = 0; t < o->rows; t++) {
        all[2 * k] += o->sum[k * step + t * width + j];
        all[2 * k + 1] += o->sum[k * step + t * width + 2 * d];
      }
    }
    *(j < d ? &out->first[j] : &out->total[j - d]) = ratio(all, all + 1, 2, &out->err);
  }
  for (atvi_idx t = 0; out->first_time && t < o->em->m; t++)
    for (atvi_idx j = 0; j < d; j++) {
      const double *s = o->sum + t * width;
      out->first_time[t * d + j] = ratio(s + j, s + 2 * d, step, &ignored);
      out->total_time[t * d + j] = ratio(s + d + j, s + 2 * d, step, &ignored);
    }
}

/* A power of two between LEAST and MOST that respects the limit on the work. */
static atvi_idx points_for(const atvi_emulator *em) {
  double one =
      (double)em->n * (0.5 * (double)em->n + (double)em->q) + (em->basis ? (double)em->q * (double)em->m : 0);
  atvi_idx points = MOST;
  while (points > LEAST && (double)(SCRAMBLES * points * (em->d + 2)) * one > WORK) points /= 2;
  return points;
}

atvi_status atvi_gp_emulator_sobol(atvi_ctx *ctx, const atvi_emulator *em, uint64_t seed,
                                   atvi_em_sobol *out) {
  if (!out->first || !out->total || !out->first_time != !out->total_time)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "emulator: both kinds of indices need arrays");
  int threads = atvi_ctx_threads(ctx);
  job o = {.em = em, .key = {.seed = seed, .stream = STREAM}, .points = points_for(em)};
  o.rows = out->first_time ? em->m : 1;
  atvi_pool *pool;
  ATVI_TRY(atvi_pool_new(ctx, &pool));
  o.work = atvi_pool_take(pool, (size_t)threads, sizeof *o.work);
  o.room = atvi_pool_take(pool, (size_t)threads, sizeof *o.room);
  o.sum = atvi_pool_take(pool, (size_t)(SCRAMBLES * o.rows * (2 * em->d + 1)), sizeof *o.sum);
  atvi_status status = atvi_pool_failed(pool) ? ATVI_ENOMEM : ATVI_OK;
  for (int i = 0; i < threads && status == ATVI_OK; i++) {
    status = atvi_gp_em_work_new(em, ctx, em->m, NULL, &o.work[i]);
    o.room[i] = status == ATVI_OK ? atvi_block(ctx, room_of(em) * sizeof(double)) : NULL;
    if (status == ATVI_OK && !o.room[i]) status = ATVI_ENOMEM;
  }
  if (status == ATVI_OK) {
    atvi_parallel(ctx, SCRAMBLES, run_scramble, &o);
    gather(&o, out);
  }
  for (int i = 0; o.work && o.room && i < threads; i++) {
    atvi_gp_em_work_free(o.work[i]);
    atvi_block_free(ctx, o.room[i]);
  }
  atvi_pool_free(pool);
  return status;
}
