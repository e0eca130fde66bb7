/* SPDX-License-Identifier: MIT */
/* What is said of modes: how much of the posterior each holds, and where its draws are.
 *
 * Hills   Peaks with no deep valley between them are one hill, and their draws are counted together: ledges of a rough posterior are nobody's
 *         explanation of the data.
 * Shares  Every draw goes, for the time being, with the peak in whose normal approximation it is likeliest. That is cheap and often right,
 *         but a wide and low peak claims the tails of a narrow and high one, whose normal approximation gives them up. So of the draws that
 *         a hill claims some are asked: each goes to the hill on the straight way to which it has to descend least, to the better one if it
 *         can go up to both. They are asked in strata, half of the draws, half of the rest, and so on to those that another hill claims almost as
 *         well: what lies in between is answered for by itself, and one answer of a thousandth does not stand for a hundredth.
 * Places  Medians of the draws that a hill keeps; its peak may lie where hardly any are. */
#include "infer/vi_state.h"
#include "math/stat/stat.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
  BETWEEN = 2 * ATVI_BETWEEN - 1, /* points on the way between two peaks: twice as close */
  WAY = ATVI_BETWEEN + 1,         /* on the way from a draw: itself, points between, and the peak */
  ASKED = ATVI_VI_PROBES,         /* draws of each hill that are asked */
  STRATA =
      8, /* words: parts that they are divided into, so that the last is about as small a share as one of them */
  PER = ASKED / STRATA /* draws asked in each */
};

typedef struct {
  atvi_vi *v;
  const atvi_vi_points *f;
  atvi_idx n;      /* peaks */
  atvi_idx *hill;  /* [n] the best peak of the same hill */
  double *share;   /* [n] of the hill, at its best peak */
  atvi_idx n_hill; /* that may be told */
  atvi_idx *at;    /* [n_hill] their best peaks */
  double *claim;   /* [n_hill] shares by normal approximations */
  double *margin;  /* [f->n] how much better than any other hill's the claim to each draw is, twice its log */
  double *home;    /* [threads][2 d] a draw, its image inside the box; and scratch */
  double *log_of;  /* [n][d] twice the logs of the diagonals of chol */
  double *way, *theta; /* [d][ASKED * WAY] */
  double *value;       /* [ASKED * WAY] log pi */
  double *asked;       /* [n_hill][d][ASKED] in xi */
  double part[ASKED];  /* of what a hill claims each of them answers for */
  double upto[ASKED];  /* the share of the draws before the middle of that part */
  atvi_idx *goes;      /* [n_hill][ASKED] the hill of each, as a number below n_hill */
  double *low;         /* [ASKED] on the best way so far */
  double *centre;      /* [n_hill][d] theta */
  double *width;       /* [d] between quartiles of the first hill */
} telling;

/* Squared distance of x from a peak in its own metric. */
static double distance2(atvi_idx d, const atvi_peak *p, const double *x, double *y) {
  double sum = 0;
  for (atvi_idx i = 0; i < d; i++) {
    double r = x[i] - p->x[i];
    for (atvi_idx k = 0; k < i; k++) r -= p->chol[i * d + k] * y[k];
    y[i] = r / p->chol[i * d + i];
    sum += y[i] * y[i];
  }
  return sum;
}

/* How well peak k claims x: minus twice the log of its normal approximation there. */
static double claim_of(const telling *t, atvi_idx k, const double *x, double *y) {
  atvi_idx d = t->v->d;
  const atvi_peak *p = &t->v->search.modes.mode[k];
  double r = distance2(d, p, x, y) - 2 * p->log_evidence;
  for (atvi_idx i = 0; i < d; i++) r += t->log_of[k * d + i];
  return r;
}

/* The peak of that hill that x is likeliest of. */
static atvi_idx nearest_of(const telling *t, const double *x, atvi_idx hill, double *y) {
  atvi_idx near = hill;
  double best = HUGE_VAL;
  for (atvi_idx k = 0; k < t->n; k++) {
    if (t->hill[k] != hill) continue;
    double r = claim_of(t, k, x, y);
    if (r < best) {
      best = r;
      near = k;
    }
  }
  return near;
}

/* The hill that x is likeliest of, and by how much. */
static atvi_idx nearest(const telling *t, const double *x, double *margin, double *y) {
  atvi_idx near = t->hill[0];
  double best = HUGE_VAL, other = HUGE_VAL;
  for (atvi_idx k = 0; k < t->n; k++) {
    double r = claim_of(t, k, x, y);
    if (t->hill[k] != near) {
      if (r < best) {
        other = best;
        near = t->hill[k];
      } else
        other = fmin(other, r);
    }
    best = fmin(best, r);
  }
  *margin = other - best;
  return near;
}

/* Draw j into out[d]: a surjection has images of it, and peaks are inside the box. */
static const double *home(const telling *t, atvi_idx j, double *out) {
  for (atvi_idx i = 0; i < t->v->d; i++) {
    const atvi_map *m = &t->v->space->map[i];
    double theta, ldj = 0, x = t->f->x[i * t->f->stride + j];
    if (m->kind == ATVI_MAP_SURJECTION) {
      atvi_transform_map_fwd(m, 1, &x, &theta, &ldj);
      atvi_transform_map_inv(m, 1, &theta, &x);
    }
    out[i] = x;
  }
  return out;
}

static double weight(const telling *t, atvi_idx j) { return t->f->w ? t->f->w[j] : 1.0 / (double)t->f->n; }

/* The lowest point on the straight way. */
static double valley(const telling *t, const atvi_peak *a, const atvi_peak *b) {
  const atvi_vi *v = t->v;
  double low = HUGE_VAL;
  for (atvi_idx i = 0; i < v->d; i++)
    for (int k = 0; k < BETWEEN; k++)
      t->way[i * BETWEEN + k] = a->x[i] + (b->x[i] - a->x[i]) * (k + 1) / (BETWEEN + 1);
  atvi_infer_space_eval(
      v->space,
      &(atvi_space_batch){.B = BETWEEN, .x = t->way, .beta = 1, .theta = t->theta, .log_pi = t->value});
  for (int k = 0; k < BETWEEN; k++) low = fmin(low, isnan(t->value[k]) ? -HUGE_VAL : t->value[k]);
  return low;
}

static void make_hills(telling *t) {
  const atvi_peak *p = t->v->search.modes.mode;
  for (atvi_idx k = 0; k < t->n; k++) t->hill[k] = k;
  for (atvi_idx k = 0; k < t->n; k++)
    for (atvi_idx l = 0; l < k; l++) {
      atvi_idx a = t->hill[k], b = t->hill[l];
      /* measured from the summits: two that a low ledge joins have a deep valley between them all the same */
      if (a == b || !(valley(t, &p[k], &p[l]) > fmin(p[a].log_pi, p[b].log_pi) - ATVI_DEEP)) continue;
      atvi_idx top = p[a].log_pi > p[b].log_pi ? a : b, other = top == a ? b : a;
      for (atvi_idx i = 0; i < t->n; i++)
        if (t->hill[i] == other) t->hill[i] = top;
    }
}

typedef struct {
  const telling *t;
  atvi_idx *near; /* [f->n] -1: the draw has no weight */
} claiming;

/* ATVI_BATCH of the draws. */
static void claim_item(void *arg, atvi_idx item, int worker) {
  const claiming *c = arg;
  const telling *t = c->t;
  atvi_idx d = t->v->d, first = item * ATVI_BATCH,
           end = first + ATVI_BATCH < t->f->n ? first + ATVI_BATCH : t->f->n;
  double *x = t->home + worker * 2 * d;
  for (atvi_idx j = first; j < end; j++)
    c->near[j] = weight(t, j) > 0 ? nearest(t, home(t, j, x), &t->margin[j], x + d) : -1;
}

/* What each hill claims, and which of them claim enough. */
static void claims(telling *t, atvi_idx *near) {
  const atvi_idx d = t->v->d;
  for (atvi_idx k = 0; k < t->n; k++)
    for (atvi_idx i = 0; i < d; i++)
      t->log_of[k * d + i] = 2 * log(t->v->search.modes.mode[k].chol[i * d + i]);
  atvi_parallel(t->v->ctx, (t->f->n + ATVI_BATCH - 1) / ATVI_BATCH, claim_item, &(claiming){t, near});
  for (atvi_idx j = 0; j < t->f->n; j++)
    if (near[j] >= 0) t->share[near[j]] += weight(t, j);
  for (atvi_idx k = 0; k < t->n; k++) {
    if (!(t->share[k] > exp(-ATVI_RIVAL))) continue;
    t->claim[t->n_hill] = t->share[k];
    t->at[t->n_hill++] = k;
  }
}

/* ---- asking draws ---- */

static double *asked_of(const telling *t, atvi_idx h) { return t->asked + h * t->v->d * ASKED; }

/* ASKED of the draws that hill h claims, by their weights: from the surest claim to the most doubtful, PER in
 * each stratum. order, w: [f->n], scratch. */
static void pick(telling *t, atvi_idx h, const atvi_idx *near, double *order, double *w) {
  double sum = 0, *x = asked_of(t, h);
  atvi_idx n = 0, k = 0;
  for (atvi_idx j = 0; j < t->f->n; j++)
    if (near[j] == t->at[h]) {
      order[n] = t->margin[j];
      w[n++] = (double)j;
    }
  atvi_math_sort(n, order, w, w + t->f->n);
  for (atvi_idx i = n; i-- > 0;) {
    atvi_idx j = (atvi_idx)w[i];
    sum += weight(t, j);
    /* the last one has to be there, whatever sums are rounded to */
    if (!(sum > t->upto[k] * t->claim[h]) && i > 0) continue;
    home(t, j, t->home);
    for (; k < ASKED && (sum > t->upto[k] * t->claim[h] || i == 0); k++)
      for (atvi_idx c = 0; c < t->v->d; c++) x[c * ASKED + k] = t->home[c];
    if (k == ASKED) return;
  }
}

/* The ways of the draws that h claims to hill `to`: those whose lowest point is the highest so far go there. */
static void walk(telling *t, atvi_idx h, atvi_idx to) {
  const atvi_vi *v = t->v;
  const double *x = asked_of(t, h);
  for (atvi_idx k = 0; k < ASKED; k++) {
    for (atvi_idx i = 0; i < v->d; i++) t->home[i] = x[i * ASKED + k];
    const atvi_peak *p = &v->search.modes.mode[nearest_of(t, t->home, t->at[to], t->home + v->d)];
    for (atvi_idx i = 0; i < v->d; i++)
      for (int s = 0; s < WAY; s++)
        t->way[(i * ASKED + k) * WAY + s] = t->home[i] + (p->x[i] - t->home[i]) * s / (WAY - 1);
  }
  atvi_infer_space_eval(
      v->space,
      &(atvi_space_batch){.B = ASKED * WAY, .x = t->way, .beta = 1, .theta = t->theta, .log_pi = t->value});
  for (atvi_idx k = 0; k < ASKED; k++) {
    const double *value = t->value + k * WAY;
    double low = value[0];
    for (int s = 1; s < WAY; s++) low = fmin(low, isnan(value[s]) ? -HUGE_VAL : value[s]);
    if (value[0] > v->search.modes.mode[t->at[to]].log_pi + ATVI_ROUGH || !(low > t->low[k])) continue;
    t->low[k] = low;
    t->goes[h * ASKED + k] = to;
  }
}

/* Shares as the draws answer. */
static void ask(telling *t, const atvi_idx *near, double *order, double *w) {
  for (int k = 0; k < ASKED; k++) {
    int s = k / PER;
    t->part[k] = exp2(-(s + 1 < STRATA ? s + 1 : s)) / PER;
    t->upto[k] = 1 - exp2(-s) + (k % PER + 0.5) * t->part[k];
  }
  for (atvi_idx h = 0; h < t->n_hill; h++) {
    pick(t, h, near, order, w);
    for (atvi_idx k = 0; k < ASKED; k++) {
      t->goes[h * ASKED + k] = h;
      t->low[k] = -HUGE_VAL;
    }
    for (atvi_idx to = 0; to < t->n_hill; to++) walk(t, h, to);
  }
  for (atvi_idx h = 0; h < t->n_hill; h++) t->share[t->at[h]] = 0;
  for (atvi_idx h = 0; h < t->n_hill; h++)
    for (atvi_idx k = 0; k < ASKED; k++) t->share[t->at[t->goes[h * ASKED + k]]] += t->claim[h] * t->part[k];
}

/* ---- words ---- */

static double share_of(const telling *t, atvi_idx h) { return t->share[t->at[h]]; }
static bool is_told(const telling *t, atvi_idx h) { return share_of(t, h) > exp(-ATVI_RIVAL); }

/* Where the draws of hill h are: quartiles of coordinate i, once t->asked is in theta. */
static void quartiles(const telling *t, atvi_idx h, atvi_idx i, double out[3]) {
  atvi_idx n = 0;
  double *x = t->way, *w = t->theta;
  for (atvi_idx from = 0; from < t->n_hill; from++)
    for (atvi_idx k = 0; k < ASKED; k++) {
      if (t->goes[from * ASKED + k] != h) continue;
      x[n] = asked_of(t, from)[i * ASKED + k];
      w[n++] = t->claim[from] * t->part[k];
    }
  atvi_math_sort(n, x, w, t->value);
  for (int q = 0; q < 3; q++) out[q] = atvi_math_quantile(n, x, w, 0.25 * (q + 1));
}

/* The ATVI_SHOWN coordinates in which hills differ most, in widths of the first one. */
static void choose(const telling *t, atvi_idx first, bool *shown) {
  for (int n = 0; n < ATVI_SHOWN; n++) {
    atvi_idx best = -1;
    double most = -1;
    for (atvi_idx i = 0; i < t->v->d; i++) {
      double apart = 0;
      for (atvi_idx h = 0; h < t->n_hill; h++)
        if (is_told(t, h))
          apart = fmax(apart, fabs(t->centre[h * t->v->d + i] - t->centre[first * t->v->d + i]));
      if (shown[i] || !(apart > most * t->width[i])) continue;
      most = apart / t->width[i];
      best = i;
    }
    if (best >= 0) shown[best] = true;
  }
}

static atvi_status say(const telling *t, const bool *shown, atvi_idx h, atvi_idx number, atvi_draws *d) {
  const atvi_vi *v = t->v;
  char where[200];
  size_t used = 0;
  for (atvi_idx i = 0; i < v->d && used < sizeof where; i++)
    if (shown[i])
      used += (size_t)snprintf(where + used, sizeof where - used, "%s%s = %.3g", used ? ", " : "",
                               v->space->target->param[i].name, t->centre[h * v->d + i]);
  return atvi_draws_say(d, ATVI_NOTE, ATVI_CODE_MODE, "Mode %td holds %.2g %% of the posterior: near %s%s.",
                        number, 100 * share_of(t, h), where,
                        v->d > ATVI_SHOWN ? " (where the modes differ most)" : "");
}

static atvi_status say_all(telling *t, atvi_idx first, bool *shown, atvi_draws *d) {
  for (atvi_idx h = 0; h < t->n_hill; h++)
    atvi_infer_space_fwd(t->v->space, ASKED, asked_of(t, h), asked_of(t, h));
  for (atvi_idx i = 0; i < t->v->d; i++)
    for (atvi_idx h = 0; h < t->n_hill; h++) {
      double q[3];
      if (!is_told(t, h)) continue;
      quartiles(t, h, i, q);
      t->centre[h * t->v->d + i] = q[1];
      if (h == first) t->width[i] = q[2] - q[0];
    }
  choose(t, first, shown);
  ATVI_TRY(say(t, shown, first, 1, d));
  for (atvi_idx h = 0, number = 1; h < t->n_hill; h++)
    if (h != first && is_told(t, h)) ATVI_TRY(say(t, shown, h, ++number, d));
  return ATVI_OK;
}

/* ---- the whole ---- */

static bool room_for_peaks(telling *t) {
  atvi_pool *pool = t->v->pool;
  size_t n = (size_t)t->n, d = (size_t)t->v->d;
  t->hill = atvi_pool_take(pool, n, sizeof *t->hill);
  t->at = atvi_pool_take(pool, n, sizeof *t->at);
  t->share = atvi_pool_take(pool, n, sizeof *t->share);
  t->claim = atvi_pool_take(pool, n, sizeof *t->claim);
  t->home = atvi_pool_take(pool, 2 * d * (size_t)atvi_ctx_threads(t->v->ctx), sizeof *t->home);
  t->log_of = atvi_pool_take(pool, n * d, sizeof *t->log_of);
  t->way = atvi_pool_take(pool, d * ASKED * WAY, sizeof *t->way);
  t->theta = atvi_pool_take(pool, d * ASKED * WAY, sizeof *t->theta);
  t->value = atvi_pool_take(pool, ASKED * WAY, sizeof *t->value);
  return !atvi_pool_failed(pool);
}

static bool room_for_hills(telling *t) {
  atvi_pool *pool = t->v->pool;
  size_t n = (size_t)t->n_hill, d = (size_t)t->v->d;
  t->asked = atvi_pool_take(pool, n * d * ASKED, sizeof *t->asked);
  t->goes = atvi_pool_take(pool, n * ASKED, sizeof *t->goes);
  t->low = atvi_pool_take(pool, ASKED, sizeof *t->low);
  t->centre = atvi_pool_take(pool, n * d, sizeof *t->centre);
  t->width = atvi_pool_take(pool, d, sizeof *t->width);
  return !atvi_pool_failed(pool);
}

atvi_status atvi_infer_vi_mode_shares(atvi_vi *v, const atvi_vi_points *f, atvi_draws *d) {
  telling t = {.v = v, .f = f, .n = v->search.modes.n};
  atvi_idx told = 0, first = 0;
  d->made->modes = v->opts.seek_modes && t.n > 0 ? 1 : NAN;
  if (v->images > 1) d->made->modes = v->images;
  if (t.n < 2) return ATVI_OK;
  atvi_idx *near = atvi_pool_take(v->pool, (size_t)f->n, sizeof *near);
  bool *shown = atvi_pool_take(v->pool, (size_t)v->d, sizeof *shown);
  double *order = atvi_pool_take(v->pool, (size_t)f->n, sizeof *order);
  double *w = atvi_pool_take(v->pool, 3 * (size_t)f->n, sizeof *w);
  t.margin = atvi_pool_take(v->pool, (size_t)f->n, sizeof *t.margin);
  if (!room_for_peaks(&t)) return ATVI_ENOMEM;
  make_hills(&t);
  claims(&t, near);
  if (t.n_hill < 2) return ATVI_OK;
  if (!room_for_hills(&t)) return ATVI_ENOMEM;
  ask(&t, near, order, w);
  for (atvi_idx h = 0; h < t.n_hill; h++) {
    told += is_told(&t, h);
    if (share_of(&t, h) > share_of(&t, first)) first = h;
  }
  d->made->modes = (double)(told > 1 ? told : 1);
  return f->sure && told > 1 ? say_all(&t, first, shown, d) : ATVI_OK;
}
