/* SPDX-License-Identifier: MIT */
/* The end of a fit: draws of the mixture, weights against all of it, smoothing, delivery.
 *
 * Weights   N_k draws of component k, N in all, have the weights pi / q with q = sum_k (N_k / N) q_k: the balance heuristic (Veach and
 *           Guibas 1995), by which it does not matter from which component a draw came. Their mean is unbiased whatever the
 *           counts: its expectation is sum_k (N_k / N) int q_k pi / q = int pi.
 * Kept      So a draw is run once. When a component is added, or more draws are wanted, the N_k change, the weights of the draws
 *           at hand are taken against the new q, and only what is lacking is drawn. Draws of a component that was
 *           trained further are not draws of it any more, and are dropped; so are all when the maps change.
 * Caution   The identity holds for counts and components chosen without looking at the draws. Here the number of draws follows what the
 *           first ones were worth, in steps of 4 096, and components at the edge are put where draws ended. What that
 *           may bias is of the order of 1 / N, against a standard error of the order of 1 / sqrt(N); tests compare the evidence with
 *           known ones, in standard errors, over many seeds.
 * Blocks    Draws come in BLOCKS independent scramblings of Sobol points. A component's share of a block grows by going on with
 *           the block's own sequence, so that the blocks stay independent and alike, and their spread gives an honest standard
 *           error of the evidence. */
#include "infer/fit.h"
#include "infer/vi_state.h"
#include "math/rng.h"
#include "math/special.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BLOCKS = ATVI_VI_BLOCKS };
/* Of an sd, by which smoothing the weights may change it: a tenth of a variance. */
#define SD_GAP (ATVI_SMALL / 2)
#define NOISY                                                                                                \
  1.5 /* times as uncertain as the effective size says may the evidence be: by chance, with 16 blocks, hardly ever more */
/* Of a variance due to one draw, a hundredth of the sd: the tails of a parameter are to blame, not weights. */
#define SD_BY_ONE (2 * ATVI_SLIGHT)

/* ---- the store ---- */

static void copy_row(atvi_idx rows, atvi_idx n, const double *from, atvi_idx from_cap, double *to,
                     atvi_idx cap) {
  for (atvi_idx i = 0; i < rows; i++) memcpy(to + i * cap, from + i * from_cap, (size_t)n * sizeof *to);
}

static void copy_cloud(atvi_idx d, const atvi_cloud *from, atvi_cloud *to) {
  copy_row(d, from->n, from->x, from->cap, to->x, to->cap);
  copy_row(d, from->n, from->theta, from->cap, to->theta, to->cap);
  copy_row(1, from->n, from->log_prior, from->cap, to->log_prior, to->cap);
  copy_row(1, from->n, from->log_lik, from->cap, to->log_lik, to->cap);
  copy_row(1, from->n, from->log_base, from->cap, to->log_base, to->cap);
  copy_row(1, from->n, from->log_pi, from->cap, to->log_pi, to->cap);
  copy_row(1, from->n, from->log_q, from->cap, to->log_q, to->cap);
  copy_row(1, from->n, from->log_member, from->cap, to->log_member, to->cap);
  to->n = from->n;
}

atvi_status atvi_infer_vi_weights_room(const atvi_vi *v, atvi_vi_weights *w, atvi_idx n) {
  if (n <= w->c.cap) return ATVI_OK;
  atvi_vi_weights next = *w;
  atvi_idx cap = n + n / 8;
  ATVI_TRY(atvi_pool_new(v->ctx, &next.pool));
  next.log_w = atvi_pool_take(next.pool, (size_t)cap, sizeof(double));
  next.w = atvi_pool_take(next.pool, (size_t)cap, sizeof(double));
  next.part_q = atvi_pool_take(next.pool, (size_t)cap, sizeof(double));
  next.from = atvi_pool_take(next.pool, (size_t)cap, sizeof *next.from);
  next.work = atvi_pool_take(next.pool, atvi_math_psis_work(cap), sizeof(double));
  if (!atvi_infer_vi_cloud(next.pool, v->d, cap, &next.c)) {
    atvi_pool_free(next.pool);
    return ATVI_ENOMEM;
  }
  if (w->c.n > 0) {
    copy_cloud(v->d, &w->c, &next.c);
    memcpy(next.log_w, w->log_w, (size_t)w->c.n * sizeof *w->log_w);
    memcpy(next.w, w->w, (size_t)w->c.n * sizeof *w->w);
    memcpy(next.from, w->from, (size_t)w->c.n * sizeof *w->from);
  }
  atvi_pool_free(w->pool);
  *w = next;
  return ATVI_OK;
}

void atvi_infer_vi_weights_free(atvi_vi_weights *w) {
  atvi_pool_free(w->pool);
  *w = (atvi_vi_weights){0};
}

/* The component that draw j is of, -1 for one that has changed since; *block: its block. */
static atvi_idx part_of(const atvi_vi *v, const atvi_vi_weights *w, atvi_idx j, int *block) {
  for (atvi_idx k = 0; k < v->n_part; k++) {
    uint32_t first = v->part[k].drawn;
    if (first == 0 || w->from[j] < first || w->from[j] >= first + BLOCKS) continue;
    if (block) *block = (int)(w->from[j] - first);
    return k;
  }
  return -1;
}

/* Moves draw j to place `to`. */
static void move(const atvi_vi *v, atvi_vi_weights *w, atvi_idx j, atvi_idx to) {
  atvi_cloud *c = &w->c;
  double *row[] = {c->log_prior, c->log_lik, c->log_base, c->log_pi, c->log_q, c->log_member};
  for (atvi_idx i = 0; i < v->d; i++) {
    c->x[i * c->cap + to] = c->x[i * c->cap + j];
    c->theta[i * c->cap + to] = c->theta[i * c->cap + j];
  }
  for (size_t k = 0; k < sizeof row / sizeof *row; k++) row[k][to] = row[k][j];
  w->from[to] = w->from[j];
}

static void drop_stale(const atvi_vi *v, atvi_vi_weights *w) {
  atvi_idx kept = 0;
  for (atvi_idx j = 0; j < w->c.n; j++)
    if (part_of(v, w, j, NULL) >= 0) move(v, w, j, kept++);
  w->c.n = kept;
}

/* ---- drawing ---- */

/* have[k]: draws per block of each component. */
static void count(const atvi_vi *v, const atvi_vi_weights *w, atvi_idx *have) {
  for (atvi_idx k = 0; k < v->n_part; k++) have[k] = 0;
  for (atvi_idx j = 0; j < w->c.n; j++) {
    atvi_idx k = part_of(v, w, j, NULL);
    if (k >= 0) have[k]++;
  }
  for (atvi_idx k = 0; k < v->n_part; k++) have[k] = (have[k] + BLOCKS - 1) / BLOCKS;
}

/* Shares of the draws that components ought to have: by their evidence while one of them has no draws yet,
 * and then those with which the sum of squared weights is smallest. */
static void best_shares(const atvi_vi *v, double *share) {
  double all = atvi_infer_vi_all_evidence(v), sum = 0;
  bool known = true;
  for (atvi_idx k = 0; k < v->n_part; k++) {
    known = known && v->part[k].drawn > 0 && v->part[k].claim > 0;
    sum += v->part[k].claim;
  }
  for (atvi_idx k = 0; k < v->n_part; k++)
    share[k] = known           ? v->part[k].claim / sum
               : isfinite(all) ? exp(v->part[k].log_evidence - all)
                               : 1 / (double)v->n_part;
}

/* need[k]: draws per block that are lacking for `per` of them in all, in the best shares. At least as many as
 * there are, so that a component which is new or was dropped does not fall behind the others. */
static atvi_idx share_out(const atvi_vi *v, const atvi_idx *have, atvi_idx per, atvi_idx *need) {
  double share[ATVI_VI_PARTS], most = 0, there = 0, sum = 0;
  best_shares(v, share);
  for (atvi_idx k = 0; k < v->n_part; k++) {
    most = fmax(most, (double)have[k] / share[k]);
    there += (double)have[k];
  }
  most = fmax((double)per, fmin(most, there));
  atvi_idx least = ATVI_VI_GLANCE / 8;
  for (atvi_idx k = 0; k < v->n_part; k++) {
    atvi_idx want = (atvi_idx)ceil(share[k] * most / ATVI_GUARD) * ATVI_GUARD;
    want = want < least ? least : want;
    need[k] = want > have[k] ? (want - have[k] + ATVI_GUARD - 1) / ATVI_GUARD * ATVI_GUARD : 0;
    sum += (double)need[k];
  }
  return (atvi_idx)sum;
}

/* Draws what is needed, block after block, unless the run is to end. False: it was cut short. */
static bool draw(atvi_vi *v, atvi_vi_weights *w, const atvi_idx *have, const atvi_idx *need, bool all) {
  atvi_idx goal = w->c.n;
  for (atvi_idx k = 0; k < v->n_part; k++) goal += BLOCKS * need[k];
  for (atvi_idx k = 0; k < v->n_part; k++) {
    if (v->part[k].drawn > 0) continue;
    v->part[k].drawn = v->final_scramble + 1;
    v->final_scramble += BLOCKS;
  }
  for (uint32_t b = 0; b < BLOCKS; b++) {
    if (b >= ATVI_VI_HASTY_BLOCKS && atvi_infer_vi_late(v)) return false;
    for (atvi_idx k = 0; k < v->n_part; k++) {
      atvi_elbo_lot lot = {ATVI_STREAM_FINAL, v->part[k].drawn + b, have[k], need[k], true};
      if (need[k] == 0) continue;
      atvi_infer_elbo_draw(v->elbo, &v->part[k].at, &lot, &w->c, w->c.n);
      for (atvi_idx j = 0; j < need[k]; j++) w->from[w->c.n++] = lot.scramble;
      if (all)
        atvi_infer_vi_tell(v, "drawing", 0.85 + 0.05 * (double)w->c.n / (double)goal, "%td of %td draws",
                           w->c.n, goal);
    }
  }
  return true;
}

/* ---- weighing ---- */

void atvi_infer_vi_log_q(atvi_vi *v, const atvi_cloud *c, atvi_idx n, double *part_q, double *log_q) {
  for (atvi_idx j = 0; j < n; j++) log_q[j] = -HUGE_VAL;
  for (atvi_idx k = 0; k < v->n_part; k++) {
    atvi_infer_elbo_log_q(v->elbo, &v->part[k].at, true, c, n, part_q);
    atvi_math_log_add_all(n, log(v->part[k].share), part_q, log_q);
  }
}

/* Shares as drawn, and log_q of every draw that of the mixture. */
static void mix(atvi_vi *v, atvi_vi_weights *w) {
  for (atvi_idx k = 0; k < v->n_part; k++) v->part[k].share = 0;
  for (atvi_idx j = 0; j < w->c.n; j++) v->part[part_of(v, w, j, NULL)].share += 1 / (double)w->c.n;
  if (v->n_part > 1) atvi_infer_vi_log_q(v, &w->c, w->c.n, w->part_q, w->c.log_q);
}

/* Standard error of the log evidence from the sums over blocks, which differ in size where drawing was cut
 * short. */
static double block_error(const atvi_vi *v, const atvi_vi_weights *w) {
  double sum[BLOCKS] = {0}, n[BLOCKS] = {0}, var = 0, blocks = 0, *e = w->part_q;
  if (!(atvi_math_softmax(w->c.n, w->log_w, e) > -HUGE_VAL)) return NAN;
  for (atvi_idx j = 0; j < w->c.n; j++) {
    int b = 0;
    part_of(v, w, j, &b);
    sum[b] += e[j];
    n[b] += 1 / (double)w->c.n;
  }
  for (int b = 0; b < BLOCKS; b++) {
    blocks += n[b] > 0;
    var += (sum[b] - n[b]) * (sum[b] - n[b]);
  }
  return sqrt(var * blocks / (blocks - 1));
}

static void tell_weights(atvi_vi *v, const atvi_vi_weights *w) {
  char detail[96];
  snprintf(detail, sizeof detail, "%td draws, k-hat %.2f", w->c.n, w->psis.khat);
  atvi_tell_about(v->ctx, &(atvi_progress){.phase = "weighing",
                                           .done = v->progress.told,
                                           .elapsed_s = atvi_clock_s() - v->progress.begun_s,
                                           .detail = detail,
                                           .steps = v->progress.steps,
                                           .temperature = NAN, /* the ELBO is of all components together */
                                           .elbo = NAN,
                                           .part = NAN,
                                           .khat = w->psis.khat,
                                           .rhat = NAN,
                                           .ess = NAN});
}

/* Whose draws have the weights that are wild? The others need no further training. And what is each component
 * worth? The weight of its draws estimates int pi (share q_k / q), its part of the evidence where overlap
 * counts once, so that shares that follow it approach those of the smallest KL(p || q). Were all weights of
 * its draws equal to the mean of all, a draw of it would be worth 1. */
static void divide(atvi_vi *v, const atvi_vi_weights *w) {
  double all = 0, mass[ATVI_VI_PARTS] = {0}, square[ATVI_VI_PARTS] = {0};
  for (atvi_idx k = 0; k < v->n_part; k++) v->part[k].blame = 0;
  for (atvi_idx j = 0; j < w->c.n; j++) {
    atvi_idx k = part_of(v, w, j, NULL);
    mass[k] += w->w[j];
    square[k] += w->w[j] * w->w[j];
    if (!(w->w[j] * (double)w->c.n > exp(v->tuning.missed))) continue;
    v->part[k].blame += w->w[j];
    all += w->w[j];
  }
  for (atvi_idx k = 0; k < v->n_part; k++) {
    v->part[k].blame = all > 0 ? v->part[k].blame / all : 1;
    v->part[k].worth = square[k] > 0 ? mass[k] / (square[k] * (double)w->c.n) : 1;
    v->part[k].log_evidence = w->psis.log_mean + log(fmax(mass[k], 1 / (double)w->c.n));
  }
}

/* The sum of squared weights is smallest where all components have the same mean of (pi / q)^2: a share is
 * multiplied by the root of that mean, which is what it takes where components do not overlap. All draws say
 * what it is: those of one component may hardly meet what matters. */
static void claim(atvi_vi *v, const atvi_vi_weights *w) {
  const atvi_idx n = w->c.n;
  for (atvi_idx k = 0; k < v->n_part; k++) {
    double sum = 0;
    if (v->n_part > 1) atvi_infer_elbo_log_q(v->elbo, &v->part[k].at, true, &w->c, n, w->part_q);
    for (atvi_idx j = 0; j < n && v->n_part > 1; j++)
      if (w->w[j] > 0) sum += w->w[j] * w->w[j] * exp(w->part_q[j] - w->c.log_q[j]);
    v->part[k].claim = v->part[k].share * sqrt((double)n * sum);
  }
}

/* ---- images ----
 *
 * Where coordinates are folded the posterior at theta is shared among images of theta, each in its own place,
 * and q may have some of them and not others: a ridge that runs into a corner of the box has a cross of four
 * branches there, and q follows one line through it. Images have the same parameters, so that it is enough if
 * q has any of them: the weight of a draw may be the sum of pi over all its images divided by the sum of q
 * over them. Both sums are the same for every image, and the mean is still int pi. That takes densities of q
 * at images, but no model run, and is done where draws are not spread over the images as pi is. */

/* The image beyond the nearest end. */
static double mirrored(const atvi_map *m, double xi) {
  if (isfinite(m->lower) && isfinite(m->upper)) return copysign(4, xi) - xi;
  return 2 * ((isfinite(m->lower) ? m->lower : m->upper) - m->loc) / m->scale - xi;
}

/* log of pi at the image over pi at xi. */
static double log_mirrored(const atvi_map *m, double xi) {
  double theta, here = 0, there = 0, image = mirrored(m, xi);
  atvi_transform_map_fwd(m, 1, &xi, &theta, &here);
  atvi_transform_map_fwd(m, 1, &image, &theta, &there);
  return there - here;
}

/* Shares of outer images, of one coordinate or of two at once: what the draws have, less what pi has. */
typedef struct {
  /* [folded][draws] pi in the outer image, of both; whether the draw is there */
  float *due;
  bool *outer;
} image_shares;

/* Whether they are off by more than chance. */
static bool images_are_lost(const atvi_vi_weights *w, atvi_idx n, const image_shares *s) {
  for (atvi_idx a = 0; a < n; a++)
    for (atvi_idx b = 0; b <= a; b++) {
      const float *da = s->due + a * w->c.n, *db = s->due + b * w->c.n;
      const bool *oa = s->outer + a * w->c.n, *ob = s->outer + b * w->c.n;
      double off = 0, var = 0;
      for (atvi_idx j = 0; j < w->c.n; j++) {
        double due = a == b ? da[j] : da[j] * db[j], by = w->w[j] * ((oa[j] && ob[j]) - due);
        off += by;
        var += by * by;
      }
      if (fabs(off) > ATVI_VI_UNSEEN + ATVI_FAR * sqrt(var)) return true;
    }
  return false;
}

/* The coordinates in which draw j has an image that matters: at[ATVI_TOPS]; returns how many. It is the same
 * for all of its images. */
static int imaged(const atvi_vi *v, const atvi_cloud *c, atvi_idx j, atvi_idx n, const atvi_idx *folded,
                  atvi_idx *at) {
  int m = 0;
  for (atvi_idx k = 0; k < n && m < ATVI_TOPS; k++)
    if (fabs(log_mirrored(&v->space->map[folded[k]], c->x[folded[k] * c->cap + j])) < ATVI_NEGLIGIBLE)
      at[m++] = folded[k];
  return m;
}

/* log_w from sums over images. */
static atvi_status sum_images(atvi_vi *v, atvi_vi_weights *w, atvi_idx n_folded, const atvi_idx *folded) {
  atvi_idx d = v->d, n = w->c.n, *of;
  atvi_pool *pool;
  ATVI_TRY(atvi_pool_new(v->ctx, &pool));
  atvi_cloud c = {.x = atvi_pool_take(pool, (size_t)(d * n), sizeof(double))};
  double *pi = atvi_pool_take(pool, (size_t)n, sizeof *pi), *q = atvi_pool_take(pool, (size_t)n, sizeof *q);
  double *more = atvi_pool_take(pool, (size_t)n, sizeof *more),
         *by = atvi_pool_take(pool, (size_t)n, sizeof *by);
  of = atvi_pool_take(pool, (size_t)n, sizeof *of);
  if (atvi_pool_failed(pool)) {
    atvi_pool_free(pool);
    return ATVI_ENOMEM;
  }
  memcpy(q, w->c.log_q, (size_t)n * sizeof *q); /* pi is relative to that of the draw */
  for (unsigned mask = 1; mask < 1u << ATVI_TOPS; mask++) {
    atvi_idx m = 0;
    for (atvi_idx j = 0; j < n; j++) {
      atvi_idx at[ATVI_TOPS];
      if (mask >> imaged(v, &w->c, j, n_folded, folded, at) == 0) of[m++] = j;
    }
    c.n = c.cap = m;
    for (atvi_idx k = 0; k < m; k++) {
      atvi_idx at[ATVI_TOPS];
      int have = imaged(v, &w->c, of[k], n_folded, folded, at);
      for (atvi_idx i = 0; i < d; i++) c.x[i * m + k] = w->c.x[i * w->c.cap + of[k]];
      by[k] = 0;
      for (int b = 0; b < have; b++) {
        double *x = &c.x[at[b] * m + k];
        if (!(mask >> b & 1)) continue;
        by[k] += log_mirrored(&v->space->map[at[b]], *x);
        *x = mirrored(&v->space->map[at[b]], *x);
      }
    }
    if (m == 0) continue;
    atvi_infer_vi_log_q(v, &c, m, w->part_q, more);
    for (atvi_idx k = 0; k < m; k++) {
      pi[of[k]] = atvi_math_log_add(pi[of[k]], by[k]);
      q[of[k]] = atvi_math_log_add(q[of[k]], more[k]);
    }
  }
  for (atvi_idx j = 0; j < n; j++) w->log_w[j] += pi[j] - (q[j] - w->c.log_q[j]);
  atvi_pool_free(pool);
  return ATVI_OK;
}

/* w->images: the draws are not spread over the images as pi is. */
static atvi_status compare_images(const atvi_vi *v, atvi_vi_weights *w, atvi_idx n, const atvi_idx *folded) {
  atvi_pool *pool;
  ATVI_TRY(atvi_pool_new(v->ctx, &pool));
  image_shares s = {.due = atvi_pool_take(pool, (size_t)(n * w->c.n), sizeof *s.due),
                    .outer = atvi_pool_take(pool, (size_t)(n * w->c.n), sizeof *s.outer)};
  bool room = !atvi_pool_failed(pool);
  for (atvi_idx k = 0; k < n && room; k++)
    for (atvi_idx j = 0; j < w->c.n; j++) {
      double r = log_mirrored(&v->space->map[folded[k]], w->c.x[folded[k] * w->c.cap + j]);
      s.due[k * w->c.n + j] = (float)(1 / (1 + exp(fabs(r))));
      s.outer[k * w->c.n + j] = r > 0;
    }
  w->images = room && images_are_lost(w, n, &s);
  atvi_pool_free(pool);
  return room ? ATVI_OK : ATVI_ENOMEM;
}

/* Weights that count all images, where those that count one are wrong. */
static atvi_status weigh_images(atvi_vi *v, atvi_vi_weights *w) {
  atvi_idx *folded = atvi_pool_take(v->pool, (size_t)v->d, sizeof *folded), n = 0;
  if (!folded) return ATVI_ENOMEM;
  w->images = false;
  for (atvi_idx i = 0; i < v->d; i++)
    if (v->space->map[i].kind == ATVI_MAP_SURJECTION) folded[n++] = i;
  /* q follows images of a single coordinate by itself; pairs of very many are too many. */
  if (n > 1 && !v->wide) ATVI_TRY(compare_images(v, w, n, folded));
  if (!w->images) return ATVI_OK;
  ATVI_TRY(sum_images(v, w, n, folded));
  w->psis = atvi_math_psis(w->c.n, w->log_w, w->w, w->work);
  return ATVI_OK;
}

/* By how much smoothing changes the sd of a parameter, as a share of it, at most. Smoothing guesses at a tail
 * of weights; where few draws at the tip of a ridge have it, k-hat may not show that, but sds live from the
 * tips. Parameters whose tails are so long that a few draws make their sd whatever their weights do not
 * count. */
static double sd_gap(const atvi_vi *v, const atvi_vi_weights *w) {
  const atvi_idx n = w->c.n;
  double worst = 0, *raw = w->part_q;
  if (!(atvi_math_softmax(n, w->log_w, raw) > -HUGE_VAL)) return 0;
  for (atvi_idx i = 0; i < v->d; i++) {
    const double *x = w->c.theta + i * w->c.cap;
    double mean = atvi_math_mean(n, x, w->w), smooth = 0, all = 0, top = 0;
    for (atvi_idx j = 0; j < n; j++) {
      double square = (x[j] - mean) * (x[j] - mean);
      if (!(w->w[j] > 0)) continue;
      smooth += w->w[j] * square;
      all += raw[j] * square;
      top = fmax(top, w->w[j] * square);
    }
    if (top < SD_BY_ONE * smooth) worst = fmax(worst, fabs(sqrt(all / smooth) - 1));
  }
  return worst;
}

/* Draws of large weight: their share of the posterior, and the most of a parameter's variance that they make. */
static void find_lacking(const atvi_vi *v, atvi_vi_weights *w) {
  const atvi_idx n = w->c.n;
  double least = exp(v->tuning.missed) / (double)n;
  w->lacking = w->far = 0;
  for (atvi_idx j = 0; j < n; j++) w->lacking += w->w[j] > least ? w->w[j] : 0;
  for (atvi_idx i = 0; i < v->d && w->lacking > 0; i++) {
    const double *x = w->c.theta + i * w->c.cap;
    double mean = atvi_math_mean(n, x, w->w), all = 0, far = 0;
    for (atvi_idx j = 0; j < n; j++) {
      if (!(w->w[j] > 0)) continue;
      double square = w->w[j] * (x[j] - mean) * (x[j] - mean);
      all += square;
      far += w->w[j] > least ? square : 0;
    }
    w->far = fmax(w->far, far / all);
  }
}

static atvi_status weigh(atvi_vi *v, atvi_vi_weights *w, double elbo_before) {
  const atvi_cloud *c = &w->c;
  double sum = 0, n = 0, tried = 0;
  mix(v, w);
  for (atvi_idx j = 0; j < c->n; j++) {
    double r = c->log_pi[j] - c->log_q[j];
    w->log_w[j] = isfinite(r) ? r : -HUGE_VAL;
    double e = c->log_pi[j] - (v->n_part == 1 ? c->log_member[j] : c->log_q[j]);
    if (isnan(c->log_member[j])) continue; /* stretched */
    tried++;
    if (!isfinite(e)) continue;
    sum += e;
    n++;
  }
  w->psis = atvi_math_psis(c->n, w->log_w, w->w, w->work);
  ATVI_TRY(weigh_images(v, w));
  /* That of q given success. Components that are not trained lower it: the one before is then the better
   * bound. No bound is above the evidence, of which these draws have the better estimate: what is above is
   * chance. */
  w->elbo = fmin(fmax(elbo_before, sum / n + log(n / tried)), w->psis.log_mean);
  double top = -HUGE_VAL;
  for (atvi_idx j = 0; j < c->n; j++) top = fmax(top, w->log_w[j]);
  w->top = exp(top - w->psis.log_mean) / (double)c->n;
  divide(v, w);
  claim(v, w);
  /* The blocks do not see a tail that none of them reached; smoothing guesses at it. */
  double error = fmax(block_error(v, w), fabs(w->psis.log_mean - w->psis.log_mean_smooth));
  w->se = error * atvi_math_psis_inflation(w->psis.khat);
  w->noise = error * sqrt(w->psis.ess);
  w->sd_gap = sd_gap(v, w);
  w->beyond = atvi_math_psis_beyond(c->n, w->psis.khat, w->psis.excess);
  find_lacking(v, w);
  tell_weights(v, w);
  return ATVI_OK;
}

void atvi_infer_vi_weigh_given(atvi_vi *v, atvi_vi_weights *w) { weigh(v, w, -HUGE_VAL); }

/* What is beyond the largest of n weights falls as n^(k - 1) if their tail has the shape k. Weights that are
 * hardly larger than the others say little, however they fall off. */
static bool reaches_with(const atvi_vi_weights *w, double n) {
  double beyond = w->beyond * pow(n / (double)w->c.n, fmin(w->psis.khat, 1) - 1);
  return !(beyond > ATVI_SLIGHT / 2 && w->lacking > ATVI_SLIGHT);
}

/* Of a few draws the largest weights are more. */
static bool reaches(const atvi_vi_weights *w) { return !w->all || reaches_with(w, (double)w->c.n); }

bool atvi_infer_vi_will_reach(const atvi_vi *v, const atvi_vi_weights *w) {
  return reaches_with(w, atvi_infer_vi_draws(v, w->psis.ess / (double)w->c.n));
}

bool atvi_infer_vi_tail_fits(const atvi_vi_weights *w) {
  return w->psis.khat < atvi_math_psis_threshold(w->c.n) && w->sd_gap < SD_GAP && !(w->noise > NOISY) &&
         reaches(w);
}

/* By all but what is beyond the largest. */
static bool allowed(const atvi_vi_weights *w) {
  return w->c.n > 0 && atvi_math_psis_permits(w->c.n, w->psis.khat, w->psis.excess) &&
         atvi_math_weights_agree(w->top, w->se) && w->sd_gap < SD_GAP && !(w->noise > NOISY);
}

bool atvi_infer_vi_permits(const atvi_vi_weights *w) { return allowed(w) && reaches(w); }

bool atvi_infer_vi_serves(const atvi_vi_weights *w) {
  return atvi_infer_vi_permits(w) && !atvi_math_weights_few(w->psis.ess / (double)w->c.n);
}

void atvi_infer_vi_refusal(const atvi_vi_weights *w, size_t size, char *out) {
  const atvi_psis_info *p = &w->psis;
  if (!atvi_math_psis_permits(w->c.n, p->khat, p->excess))
    snprintf(out, size, "k-hat %.2f", p->khat);
  else if (!atvi_math_weights_agree(w->top, w->se))
    snprintf(out, size, "a few draws have most of the weight");
  else if (w->noise > NOISY)
    snprintf(out, size, "parts of its draws differ by %.1f times what their effective size allows", w->noise);
  else if (w->sd_gap >= SD_GAP)
    snprintf(out, size, "an sd depends by %.0f %% on a few large weights", 100 * w->sd_gap);
  else if (!reaches(w))
    snprintf(out, size, "the largest weights leave %.1g %% of the posterior beyond them", 100 * w->beyond);
  else
    snprintf(out, size, "it does not reach all of the posterior");
}

bool atvi_infer_vi_surprised(const atvi_vi_weights *w) {
  atvi_idx n = w->c.n, most = n - n / 100;
  double *x = w->work, sum = 0, square = 0;
  if (n < 100 || atvi_infer_vi_permits(w)) return false;
  memcpy(x, w->log_w, (size_t)n * sizeof *x);
  atvi_math_sort(n, x, NULL, x + n);
  for (atvi_idx j = 0; j < most; j++) {
    double e = exp(x[j] - x[most - 1]);
    sum += e;
    square += e * e;
  }
  return sum * sum > ATVI_SMALL * (double)most * square;
}

/* What a draw will be worth, of an independent one, when the components have their best shares of the draws.
 * Now each has a least number, so that many small ones take most of the draws: E_q'[(pi/q')^2] = E_q[(pi/q)
 * (pi/q')]. */
static double worth_to_come(atvi_vi *v, const atvi_vi_weights *w) {
  const atvi_idx n = w->c.n;
  double now[ATVI_VI_PARTS], share[ATVI_VI_PARTS], *log_q = w->work, sum = 0;
  if (n == 0 || v->n_part == 1) return n > 0 ? w->psis.ess / (double)n : 0;
  best_shares(v, share);
  for (atvi_idx k = 0; k < v->n_part; k++) {
    now[k] = v->part[k].share;
    v->part[k].share = share[k];
  }
  atvi_infer_vi_log_q(v, &w->c, n, w->part_q, log_q);
  for (atvi_idx k = 0; k < v->n_part; k++) v->part[k].share = now[k];
  for (atvi_idx j = 0; j < n; j++)
    if (w->w[j] > 0) sum += w->w[j] * w->w[j] * (double)n * exp(w->c.log_q[j] - log_q[j]);
  return 1 / sum;
}

/* As many draws of each block as `per`, or less where it is late. */
static atvi_status weigh_blocks(atvi_vi *v, atvi_vi_weights *w, bool all, atvi_idx per) {
  atvi_idx have[ATVI_VI_PARTS], need[ATVI_VI_PARTS], before = w->c.n, valid = 0;
  if (before > 0 && atvi_infer_vi_late(v))
    return ATVI_OK; /* what there is is better than what haste would add */
  count(v, w, have);
  atvi_idx lacking = share_out(v, have, per, need);
  ATVI_TRY(atvi_infer_vi_weights_room(v, w, before + BLOCKS * lacking));
  v->outcome.cut = !draw(v, w, have, need, all);
  for (atvi_idx j = 0; j < w->c.n; j++) valid += part_of(v, w, j, NULL) >= 0;
  if (v->outcome.cut && valid < before) {
    w->c.n = before; /* with the weights that they have */
    return ATVI_OK;
  }
  w->all = all;
  if (lacking == 0 && valid == before) return ATVI_OK;
  drop_stale(v, w);
  return weigh(v, w, before > 0 ? w->elbo : -HUGE_VAL);
}

atvi_status atvi_infer_vi_weigh(atvi_vi *v, atvi_vi_weights *w, bool all) {
  atvi_idx few = atvi_infer_vi_late(v) ? ATVI_VI_GLANCE / 4 : ATVI_VI_GLANCE;
  return weigh_blocks(v, w, all,
                      all ? (atvi_idx)(atvi_infer_vi_draws(v, worth_to_come(v, w)) / BLOCKS) : few);
}

/* A little less than the limit is aimed at, since k is an estimate. */
static double draws_to_reach(const atvi_vi_weights *w) {
  double over = w->beyond / ((1 - ATVI_SMALL) * ATVI_SLIGHT / 2);
  return (double)w->c.n * pow(over, 1 / (1 - fmin(w->psis.khat, 1)));
}

bool atvi_infer_vi_nearly_reaches(const atvi_vi *v, const atvi_vi_weights *w) {
  double n = draws_to_reach(w);
  return !reaches(w) && allowed(w) && n <= 2 * (double)w->c.n && n <= atvi_infer_vi_most_draws(v);
}

atvi_status atvi_infer_vi_weigh_more(atvi_vi *v, atvi_vi_weights *w) {
  return weigh_blocks(v, w, true, (atvi_idx)ceil(draws_to_reach(w) / BLOCKS));
}

/* ---- delivery ---- */

static double outside_share(const atvi_vi *v, const atvi_vi_weights *w) {
  double out = 0;
  bool folds = false;
  for (atvi_idx i = 0; i < v->d; i++) folds = folds || v->space->map[i].kind == ATVI_MAP_SURJECTION;
  if (!folds) return 0;
  for (atvi_idx j = 0; j < w->c.n; j++) {
    bool outside = false;
    for (atvi_idx i = 0; i < v->d; i++) {
      const atvi_map *m = &v->space->map[i];
      if (m->kind != ATVI_MAP_SURJECTION) continue;
      double x = w->c.x[i * w->c.cap + j], home, ldj = 0;
      atvi_transform_map_fwd(m, 1, &x, &home, &ldj);
      atvi_transform_map_inv(m, 1, &home, &home);
      outside = outside || fabs(home - x) > 1e-9 * (1 + fabs(x));
    }
    out += outside;
  }
  return out / (double)w->c.n;
}

/* With weights, draws whose weight underflows are left out: they may be so far away that any weight at all
 * would count in a variance. */
static bool is_kept(const atvi_vi_weights *w, atvi_idx j, bool hold) {
  return isfinite(w->c.log_pi[j]) && (hold ? w->w[j] > 0 : !isnan(w->c.log_member[j]));
}

/* Stretched draws come last. */
static atvi_status copy_draws(atvi_vi *v, const atvi_vi_weights *w, atvi_draws **out) {
  const atvi_target *t = v->space->target;
  /* Without weights the stretched draws have no place: they are not draws of q. */
  bool hold = atvi_infer_vi_permits(w);
  atvi_idx n = 0, at = 0;
  for (atvi_idx j = 0; j < w->c.n; j++) n += is_kept(w, j, hold);
  if (n == 0)
    return ATVI_FAIL_AS(v->ctx, ATVI_EMODEL, ATVI_CODE_NEVER_EVALUATED,
                        "no draw of the approximation can be evaluated");
  ATVI_TRY(atvi_infer_fit_draws_new(v->ctx, t, n, 1, true, out));
  atvi_draws *d = *out;
  d->chains = false;
  for (int stretched = 0; stretched < 2; stretched++)
    for (atvi_idx j = 0; j < w->c.n; j++) {
      if (!is_kept(w, j, hold) || isnan(w->c.log_member[j]) != stretched) continue;
      for (atvi_idx i = 0; i < v->d; i++) d->x[i * n + at] = w->c.theta[i * w->c.cap + j];
      d->log_prior[at] = w->c.log_prior[j];
      d->log_lik[at] = w->c.log_lik[j];
      d->weight[at++] = fmax(w->w[j], DBL_MIN); /* one that underflows is still a draw */
    }
  double all = 0;
  for (atvi_idx k = 0; k < n; k++) all += d->weight[k];
  for (atvi_idx k = 0; k < n; k++) d->weight[k] /= all;
  atvi_infer_fit_derived(v->ev, d);
  return ATVI_OK;
}

void atvi_infer_vi_made(const atvi_vi *v, const atvi_vi_weights *w, atvi_made *made) {
  bool whole = v->outcome.converged && !v->outcome.cut;
  made->method = v->opts.method;
  made->model = v->space->target->name;
  made->seed = v->opts.seed;
  made->seconds = atvi_clock_s() - v->progress.begun_s;
  made->evaluations = atvi_model_evaluator_count(v->ev);
  made->failures = atvi_model_evaluator_failures(v->ev);
  made->end = whole ? ATVI_END_DONE : atvi_stop_asked(v->ctx) ? ATVI_END_STOPPED : ATVI_END_LIMIT;
  made->log_evidence = w->psis.log_mean;
  made->log_evidence_se = w->se;
  made->elbo = w->elbo;
  made->khat = w->psis.khat;
  made->top_weight = w->top;
  made->ess_wanted = isnan(v->opts.ess) ? NAN : v->opts.ess;
  made->efficiency = w->psis.ess / (double)w->c.n;
  made->outside = outside_share(v, w);
  made->rungs = v->progress.rungs;
  made->steps = v->progress.steps;
  made->tuned = v->outcome.tuned;
  made->excess = w->psis.excess;
  made->lost = 0;
  for (atvi_idx j = 0; j < w->c.n; j++) made->lost += isnan(w->c.log_lik[j]) / (double)w->c.n;
}

/* Laplace's method makes anything of a point where the density is infinite; draws around it do not. */
static double worth(const atvi_peak *p) {
  return p->probed ? fmin(p->log_evidence, p->log_probe) : p->log_evidence;
}

atvi_status atvi_infer_vi_self_check(const atvi_vi *v, const atvi_vi_weights *w, atvi_draws *d) {
  const atvi_made *m = d->made;
  double z = m->log_evidence, se = m->log_evidence_se, peak = -HUGE_VAL, highest = -HUGE_VAL;
  bool weights = atvi_infer_vi_permits(w);
  if (!(m->exact > 0) && w->noise > NOISY)
    return atvi_draws_say(d, ATVI_WARNING, ATVI_CODE_EVIDENCE_CONTRADICTS,
                          "The log evidence differs between independent parts of the draws by %.1f times as "
                          "much as their effective size "
                          "allows: part of the posterior has few draws, with large weights.",
                          w->noise);
  if (!(m->exact > 0) && !reaches(w) && w->psis.khat < atvi_math_psis_threshold(w->c.n))
    return atvi_draws_say(d, ATVI_WARNING, ATVI_CODE_EVIDENCE_CONTRADICTS,
                          "Some %.1g %% of the posterior may be where no draw was: the largest weights hold "
                          "%.2g %% of it, with k-hat %.2f.",
                          100 * w->beyond, 100 * w->psis.excess, w->psis.khat);
  if (!(m->exact > 0) && w->sd_gap >= SD_GAP)
    return atvi_draws_say(
        d, ATVI_WARNING, ATVI_CODE_EVIDENCE_CONTRADICTS,
        "The sd of a parameter depends by %.0f %% on a few draws with large weights: part of "
        "the posterior has too few draws.",
        100 * w->sd_gap);
  if (!isfinite(z) || (!(m->exact > 0) && !weights)) return ATVI_OK;
  /* Half of chi squared with d degrees below a maximum is where its draws are. */
  for (atvi_idx j = 0; j < w->c.n; j++) highest = fmax(highest, w->c.log_pi[j]);
  for (atvi_idx k = 0; k < v->search.modes.n; k++)
    if (v->search.modes.mode[k].log_pi > highest + 0.5 * (double)v->d + ATVI_DEEP)
      peak = fmax(peak, worth(&v->search.modes.mode[k]));
  if (v->search.looked == v->n_part && v->search.log_absent > z + log(ATVI_SMALL))
    return atvi_draws_say(d, ATVI_WARNING, ATVI_CODE_EVIDENCE_CONTRADICTS,
                          "The log evidence is %.2f, but points annealed from the prior find %.0f %% as much "
                          "where the draws are not: part of the "
                          "posterior may be missed.",
                          z, fmin(999, 100 * exp(v->search.log_absent - z)));
  if (!(m->exact > 0) && v->search.uncovered > 0)
    return atvi_draws_say(
        d, ATVI_WARNING, ATVI_CODE_EVIDENCE_CONTRADICTS,
        "Points annealed from the prior find %.0f %% of the posterior where the draws have next to "
        "nothing, and the approximation could not be mended there.",
        fmin(999, 100 * v->search.uncovered));
  if (v->search.unsettled > 0)
    return atvi_draws_say(
        d, ATVI_WARNING, ATVI_CODE_EVIDENCE_CONTRADICTS,
        "The last search for modes still found new ones, with %.0f %% of the posterior: there "
        "may be more of them.",
        100 * v->search.unsettled);
  if (m->elbo > z + ATVI_FAR * se + ATVI_SMALL)
    return atvi_draws_say(
        d, ATVI_WARNING, ATVI_CODE_EVIDENCE_CONTRADICTS,
        "The log evidence %.2f is below its lower bound %.2f, the ELBO: part of the posterior is missed.", z,
        m->elbo);
  if (m->exact > 0 && weights && fabs(w->psis.log_mean - z) > ATVI_FAR * hypot(se, w->se) + ATVI_SMALL)
    return atvi_draws_say(
        d, ATVI_WARNING, ATVI_CODE_EVIDENCE_CONTRADICTS,
        "The log evidence is %.2f by the chains and %.2f by weighted draws of the approximation: one of them "
        "misses part of the posterior.",
        z, w->psis.log_mean);
  if (peak > z + ATVI_FAR * se + ATVI_NEGLIGIBLE)
    return atvi_draws_say(
        d, ATVI_WARNING, ATVI_CODE_EVIDENCE_CONTRADICTS,
        "The log evidence is %.2f, but one of the maxima found seems to hold e^%.0f times as much: it may be "
        "missed.",
        z, peak - z);
  return ATVI_OK;
}

static atvi_status deliver(atvi_vi *v, const atvi_vi_weights *w, atvi_draws **out) {
  ATVI_TRY(copy_draws(v, w, out));
  atvi_infer_vi_made(v, w, (*out)->made);
  ATVI_TRY(atvi_infer_vi_self_check(v, w, *out));
  ATVI_TRY(atvi_infer_vi_mirror_check(v, *out));
  atvi_vi_points p = {w->c.n, w->c.cap, w->c.x, w->w, atvi_infer_vi_permits(w)};
  return atvi_infer_vi_mode_shares(v, &p, *out);
}

/* ---- for the exact sampler ---- */

/* Systematic: the number of times that a draw is taken differs from its expectation by less than one. */
void atvi_infer_vi_starts(const atvi_vi *v, const atvi_vi_weights *w, atvi_idx n, double *x) {
  atvi_rng r = atvi_math_rng_at(v->opts.seed, ATVI_STREAM_EXACT, 0, 0);
  double most = 1 / sqrt((double)w->c.n), all = 0, sum = 0, u = atvi_math_rng_uniform(&r);
  for (atvi_idx j = 0; j < w->c.n; j++) all += fmin(w->w[j], most);
  atvi_idx j = -1;
  for (atvi_idx k = 0; k < n; k++) {
    while (j < w->c.n - 1 && (j < 0 || sum < (u + (double)k) / (double)n * all)) sum += fmin(w->w[++j], most);
    for (atvi_idx i = 0; i < v->d; i++) x[i * n + k] = w->c.x[i * w->c.cap + j];
  }
}

atvi_status atvi_infer_vi_deliver(atvi_vi *v, const atvi_vi_weights *w, atvi_draws **out) {
  atvi_status status = deliver(v, w, out);
  if (status != ATVI_OK) {
    atvi_draws_free(*out);
    *out = NULL;
  }
  return status;
}
