/* SPDX-License-Identifier: MIT */
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
#include "gp/emulator_detail.h"
#include "math/sobol.h"
#include <math.h>
#include <string.h>

enum { G = ATVI_EM_GROUP, SCRAMBLES = 16, LEAST = 64, MOST = 1024, STREAM = 97 };
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
