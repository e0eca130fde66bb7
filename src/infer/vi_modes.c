/* SPDX-License-Identifier: MIT */
/* Components for what q misses: points where it lacks the posterior (vi_missing.c), and maxima that climbs
 * find from those, from draws of the ladder and from points spread over the prior. Draws around a maximum say
 * how much of the posterior q lacks there; where that is enough it gets a component: a flow that is trained
 * at temperature 1, if that pays, or a normal distribution. Points that are still missed then, because there
 * is no maximum or its surroundings are nothing like normal, make pieces, and each of these gets one in its
 * own frame. q is the mixture, and weights are taken against the whole mixture, so that overlap counts once
 * and shares come out right by themselves. */
#include "infer/vi_state.h"
#include "math/linalg.h"
#include "math/rng.h"
#include "math/sobol.h"
#include "math/special.h"
#include "math/stat/stat.h"
#include <math.h>
#include <string.h>

enum { PROBES = ATVI_VI_PROBES };

void atvi_infer_vi_log_mass(atvi_vi *v, atvi_idx n_part, const atvi_cloud *c, atvi_idx n, double *part,
                            double *out) {
  for (atvi_idx j = 0; j < n; j++) out[j] = -HUGE_VAL;
  for (atvi_idx k = 0; k < n_part; k++) {
    atvi_infer_elbo_log_q(v->elbo, &v->part[k].at, false, c, n, part);
    atvi_math_log_add_all(n, v->part[k].log_evidence, part, out);
  }
}

/* Of a peak that may matter: Laplace's method and few draws may be too low. */
static double least_evidence(const atvi_vi *v) {
  return atvi_infer_vi_best_evidence(v) - ATVI_NEGLIGIBLE - ATVI_DOUBT;
}

/* A place seen by draws of a normal distribution. */
typedef struct {
  double *x, *chol;    /* [d], [d][d], one after the other: mean, and factor of the covariance */
  double *spare;       /* [d + d d]: scratch */
  double log_evidence; /* of the posterior there */
  double log_lacking;  /* the same as far as q lacks it */
  double share;        /* what a draw is worth for that */
} place;

/* PROBES draws of the normal distribution at f, in v->room; base draws in v->probes, their log density in
 * log_normal[PROBES]. */
static atvi_cloud draw(atvi_vi *v, const place *f, double *log_normal) {
  atvi_idx d = v->d, n = PROBES;
  atvi_cloud c = v->room;
  double *z = v->probes;
  c.cap = c.n = n;
  atvi_math_sobol_normal((atvi_sobol){v->opts.seed, ATVI_STREAM_TRAIN, v->scramble++}, 0, d, n, z);
  for (atvi_idx j = 0; j < n; j++) {
    log_normal[j] = -0.5 * (double)d * ATVI_LOG_2PI;
    for (atvi_idx i = 0; i < d; i++) {
      double sum = f->x[i];
      for (atvi_idx k = 0; k <= i; k++) sum += f->chol[i * d + k] * z[k * n + j];
      c.x[i * n + j] = sum;
      log_normal[j] -= 0.5 * z[i * n + j] * z[i * n + j] + log(f->chol[i * d + i]);
    }
  }
  return c;
}

/* The same, evaluated. */
static atvi_cloud probe(atvi_vi *v, const place *f, double *log_normal) {
  atvi_cloud c = draw(v, f, log_normal);
  atvi_infer_space_eval(
      v->space, &(atvi_space_batch){.B = c.n, .x = c.x, .beta = 1, .theta = c.theta, .log_pi = c.log_pi});
  return c;
}

/* f follows the draws v->probes, with weights that are held back by a power until a quarter of the draws
 * counts. False: it cannot. */
static bool follow(const atvi_vi *v, place *f, const double *log_w) {
  atvi_idx d = v->d, n = PROBES;
  const double *z = v->probes;
  double *mean = v->scratch, *chol = mean + d, *row = chol + d * d, w[PROBES] = {0}, ess = 0;
  for (double power = 1; ess < 0.25 * PROBES && power > 1e-3; power /= 2) {
    for (atvi_idx j = 0; j < n; j++) w[j] = power * log_w[j];
    if (!(atvi_math_softmax(n, w, w) > -HUGE_VAL)) return false;
    ess = atvi_math_effective_size(n, w);
  }
  for (atvi_idx i = 0; i < d; i++) {
    mean[i] = 0;
    for (atvi_idx j = 0; j < n; j++) mean[i] += w[j] * z[i * n + j];
  }
  /* as if d draws had said that it is as it was: few draws make a covariance that is too narrow somewhere */
  for (atvi_idx i = 0; i < d; i++)
    for (atvi_idx k = 0; k <= i; k++) {
      double sum = 0;
      for (atvi_idx j = 0; j < n; j++) sum += w[j] * (z[i * n + j] - mean[i]) * (z[k * n + j] - mean[k]);
      chol[i * d + k] = (ess * sum + (i == k ? (double)d : 0)) / (ess + (double)d);
    }
  if (!atvi_math_cholesky(d, chol)) return false;
  atvi_infer_vi_move(d, mean, chol, 1, row, f->x, f->chol);
  return true;
}

/* Looks at what q lacks at a place, and moves there until draws are worth half of independent ones, at most
 * `moves` times; the best look counts. Where q has most of it, and the rest is not worth a component, one
 * look does. A flow that has only stretched a filament over a mode is high at its maximum and misses its
 * flanks, so q is asked at all draws. */
static void look_at(atvi_vi *v, place *f, int moves) {
  double normal[PROBES], log_w[PROBES], w[PROBES], part[PROBES];
  double least = atvi_infer_vi_all_evidence(v) + log(ATVI_FAINT);
  size_t bytes = (size_t)(v->d + v->d * v->d) * sizeof(double);
  f->share = 0;
  f->log_evidence = f->log_lacking = -HUGE_VAL;
  for (int k = 0;; k++) {
    atvi_cloud c = probe(v, f, normal);
    for (atvi_idx j = 0; j < PROBES; j++)
      log_w[j] = isfinite(c.log_pi[j]) ? c.log_pi[j] - normal[j] : -HUGE_VAL;
    double all = atvi_math_softmax(PROBES, log_w, w) - log(PROBES);
    atvi_infer_vi_log_lacking(v, &c, PROBES, part, log_w);
    for (atvi_idx j = 0; j < PROBES; j++) log_w[j] -= normal[j];
    double lacking = atvi_math_softmax(PROBES, log_w, w) - log(PROBES);
    double share = lacking > -HUGE_VAL ? atvi_math_effective_size(PROBES, w) / PROBES : 0;
    if (share > f->share) {
      f->log_evidence = all, f->log_lacking = lacking, f->share = share;
      memcpy(f->spare, f->x, bytes);
    }
    bool minor = lacking < all + log(ATVI_HALF) && lacking < least;
    if (!(share > 0) || share > 0.5 || k == moves || minor || atvi_infer_vi_over(v) || !follow(v, f, log_w))
      break;
  }
  if (f->share > 0) memcpy(f->x, f->spare, bytes);
}

/* Whether q lacks most of a place. */
static bool is_missed(const place *f) { return f->log_lacking > f->log_evidence + log(ATVI_HALF); }

double atvi_infer_vi_missed_share(atvi_vi *v, atvi_idx n_part, const atvi_cloud *c) {
  double have[ATVI_VI_TEST], part[ATVI_VI_TEST];
  atvi_idx good = 0, missed = 0;
  ATVI_ASSERT(c->n <= ATVI_VI_TEST);
  atvi_infer_vi_log_mass(v, n_part, c, c->n, part, have);
  for (atvi_idx j = 0; j < c->n; j++) {
    good += isfinite(c->log_pi[j]);
    missed += isfinite(c->log_pi[j]) && !(have[j] > c->log_pi[j] - v->tuning.missed);
  }
  return (double)missed / (double)good;
}

/* Has the newest component, whose draws these are, gone over to where others are already? */
static bool is_astray(atvi_vi *v, const atvi_cloud *draws) {
  atvi_cloud c = *draws;
  c.n = ATVI_VI_TEST;
  return atvi_infer_vi_missed_share(v, v->n_part - 1, &c) < ATVI_HALF;
}

/* Whether training a component for a part c of the posterior, whose draws are worth `share`, saves more than
 * it costs. */
static bool training_pays(const atvi_vi *v, double share, double c) {
  return atvi_infer_vi_saving(v, c, share, 0) > atvi_infer_vi_round_runs(v) * (v->tuning.halvings + 1);
}

/* Trains the newest component, which stands for a part c of the posterior; *share: what a draw of it is worth
 * for that, 0 if it is of no use, as it went over to the others. One of which these have a good part may
 * overlap them. */
static atvi_status train_newest(atvi_vi *v, double c, bool overlaps, double *share) {
  atvi_vi_part *part = &v->part[v->n_part - 1];
  bool learned;
  atvi_cloud seen;
  part->drawn = 0;
  part->plain = false;
  ATVI_TRY(atvi_infer_vi_learn_part(v, &part->at, c, &learned));
  if (!learned && !atvi_infer_vi_train_more(v, &part->at, HUGE_VAL, c, overlaps ? NULL : is_astray).done)
    v->outcome.converged = false;
  atvi_vi_quality quality = atvi_infer_vi_judge(v, &part->at, v->scramble++, &seen);
  part->log_evidence = quality.log_evidence;
  *share = !overlaps && is_astray(v, &seen) ? 0 : quality.share;
  return ATVI_OK;
}

static double part_share(const atvi_vi *v, atvi_idx k) {
  return exp(v->part[k].log_evidence - atvi_infer_vi_all_evidence(v));
}

bool atvi_infer_vi_is_unripe(const atvi_vi *v, atvi_idx k) {
  return v->part[k].plain && training_pays(v, v->part[k].worth, part_share(v, k));
}

/* Few draws said that such a component would do. Where training does not make it better it stays as it is,
 * with the draws that it has. */
atvi_status atvi_infer_vi_ripen(atvi_vi *v) {
  atvi_member before;
  if (!atvi_infer_vi_member_new(v, NULL, NULL, &before)) return ATVI_ENOMEM;
  for (atvi_idx k = 0; k < v->n_part && !atvi_infer_vi_over(v); k++) {
    if (!atvi_infer_vi_is_unripe(v, k)) continue;
    atvi_vi_part *last = &v->part[v->n_part - 1], swap = v->part[k];
    double share, share_before;
    v->part[k] = *last;
    *last = swap;
    atvi_infer_vi_member_copy(v, &last->at, &before);
    share_before = atvi_infer_vi_judge(v, &before, v->scramble++, NULL).share;
    ATVI_TRY(train_newest(v, part_share(v, v->n_part - 1), false, &share));
    if (!(share > share_before)) {
      atvi_infer_vi_member_copy(v, &before, &last->at);
      last->log_evidence = swap.log_evidence;
      last->drawn = swap.drawn;
    }
    swap = v->part[k];
    v->part[k] = *last;
    *last = swap;
  }
  return ATVI_OK;
}

/* Mean and covariance (its factor) of the points with in[j] (NULL: of all); false: they are too few. */
static bool frame(const atvi_vi *v, const atvi_cloud *c, const bool *in, double *x, double *chol) {
  atvi_idx d = v->d;
  double n = 0;
  memset(x, 0, (size_t)d * sizeof *x);
  memset(chol, 0, (size_t)(d * d) * sizeof *chol);
  for (atvi_idx j = 0; j < c->n; j++)
    for (atvi_idx i = 0; i <= d && (!in || in[j]); i++)
      *(i < d ? &x[i] : &n) += i < d ? c->x[i * c->cap + j] : 1;
  for (atvi_idx i = 0; i < d; i++) x[i] /= n;
  for (atvi_idx j = 0; j < c->n; j++)
    for (atvi_idx i = 0; i < d && (!in || in[j]); i++)
      for (atvi_idx k = 0; k <= i; k++)
        if (i == k || n > v->tuning.per_dim * (double)d)
          chol[i * d + k] += (c->x[i * c->cap + j] - x[i]) * (c->x[k * c->cap + j] - x[k]) / n;
  for (atvi_idx i = 0; i < d * d; i++) chol[i] *= v->tuning.inflate * v->tuning.inflate;
  return atvi_math_cholesky(d, chol);
}

/* A maximum may be a small one of many on a hill, whose size its own curvature does not tell: points that
 * wander from there do, if there are enough for a covariance. */
static atvi_status widen(atvi_vi *v, place *f) {
  atvi_cloud *c = &v->search.wanderers;
  size_t size = (size_t)(v->d + v->d * v->d);
  double log_normal[PROBES];
  if (PROBES <= v->tuning.per_dim * (double)v->d || atvi_infer_vi_over(v)) return ATVI_OK;
  double *room = atvi_pool_take(v->pool, 2 * size, sizeof *room);
  if (!room || (c->cap == 0 && !atvi_infer_vi_cloud(v->pool, v->d, PROBES, c))) return ATVI_ENOMEM;
  place wide = {.x = room, .chol = room + v->d, .spare = room + size};
  memcpy(c->x, draw(v, f, log_normal).x, (size_t)(v->d * PROBES) * sizeof(double));
  c->n = PROBES;
  ATVI_TRY(atvi_infer_vi_wander(v, c));
  if (c->n == 0 || !frame(v, c, NULL, wide.x, wide.chol)) return ATVI_OK;
  look_at(v, &wide, ATVI_REPEATS);
  if (!(wide.log_lacking > f->log_lacking)) return ATVI_OK;
  memcpy(f->x, wide.x, size * sizeof *room);
  f->log_evidence = wide.log_evidence;
  f->log_lacking = wide.log_lacking;
  f->share = wide.share;
  return ATVI_OK;
}

typedef enum {
  PEAK,  /* a maximum, whose hill may be wider than itself */
  PIECE, /* of what is missing: the end of a ridge, or an island, which is not normal */
  RIM    /* beyond the draws, of which there may be more behind */
} origin;

/* A component for a place, if draws there find enough that the others miss: trained where that pays, or where
 * it is a piece that is not normal; else, and where training leads it astray, the normal distribution that it
 * is, which counts for what the others miss. */
static atvi_status cover_place(atvi_vi *v, place *f, origin from) {
  double all = atvi_infer_vi_all_evidence(v);
  look_at(v, f, ATVI_REPEATS);
  if (from == PEAK && is_missed(f) && f->log_evidence > least_evidence(v)) ATVI_TRY(widen(v, f));
  double c = exp(fmin(0, f->log_lacking - all));
  atvi_vi_part *part = &v->part[v->n_part];
  if (!(c > ATVI_FAINT) || v->n_part == ATVI_VI_PARTS) return ATVI_OK;
  if (!atvi_infer_vi_member_new(v, f->x, f->chol, &part->at)) return ATVI_ENOMEM;
  if (training_pays(v, f->share, c) || (from == PIECE && is_missed(f))) {
    place after = *f;
    double share;
    v->n_part++;
    ATVI_TRY(train_newest(v, c, !is_missed(f), &share));
    look_at(v, &after, 0);
    if (share > 0 && after.log_lacking <= f->log_lacking - log(2)) return ATVI_OK;
    v->n_part--;
    if (!atvi_infer_vi_member_new(v, f->x, f->chol, &part->at)) return ATVI_ENOMEM;
  }
  part->log_evidence = f->log_lacking;
  part->drawn = 0;
  part->plain = true;
  v->n_part++;
  return ATVI_OK;
}

/* room[2 (d + d d)]: scratch. */
static atvi_status cover_peak(atvi_vi *v, atvi_peak *p, double *room) {
  atvi_idx d = v->d;
  place f = {.x = room, .chol = room + d, .spare = room + d + d * d};
  if (p->log_evidence < least_evidence(v) - ATVI_DOUBT) return ATVI_OK;
  memcpy(f.x, p->x, (size_t)d * sizeof *f.x);
  memcpy(f.chol, p->chol, (size_t)(d * d) * sizeof *f.chol);
  ATVI_TRY(cover_place(v, &f, PEAK));
  if (!isfinite(f.log_evidence)) return ATVI_OK;
  /* One draw at the edge of an infinite density says nothing of how much there is. */
  if (is_missed(&f) && f.share * PROBES > 2)
    v->search.log_found = atvi_math_log_add(v->search.log_found, f.log_lacking);
  p->probed = true;
  p->log_probe = f.log_evidence;
  p->log_evidence = fmax(p->log_evidence, p->log_probe);
  return ATVI_OK;
}

/* ---- pieces of what is missing ---- */

/* Where points still lack q: left[n]; returns how many. */
static atvi_idx still_missing(atvi_vi *v, bool *left, double *have, double *part) {
  const atvi_cloud *c = &v->search.missing;
  atvi_idx n = 0;
  atvi_infer_vi_log_mass(v, v->n_part, c, c->n, part, have);
  for (atvi_idx j = 0; j < c->n; j++) {
    left[j] = left[j] && !(have[j] > c->log_pi[j] - v->tuning.missed);
    n += left[j];
  }
  return n;
}

/* The piece around the highest point that is left: the nearest points first, and then all that a normal
 * distribution of the size of those reaches. */
static bool next_piece(const atvi_vi *v, const bool *left, bool *in, double *far, place *p) {
  const atvi_cloud *c = &v->search.missing;
  atvi_idx d = v->d, first = -1, least = 2 * (d + 1);
  double *y = v->scratch, sd;
  for (atvi_idx j = 0; j < c->n; j++)
    if (left[j] && (first < 0 || c->log_pi[j] > c->log_pi[first])) first = j;
  for (atvi_idx j = 0; j < c->n; j++) far[j] = left[j] ? 0 : HUGE_VAL;
  for (atvi_idx i = 0; i < d; i++) {
    sd = atvi_math_sd(c->n, c->x + i * c->cap, NULL);
    for (atvi_idx j = 0; j < c->n; j++)
      far[j] += sd > 0 ? pow((c->x[i * c->cap + j] - c->x[i * c->cap + first]) / sd, 2) : 0;
  }
  double *sorted = v->scratch + d, reach;
  memcpy(sorted, far, (size_t)c->n * sizeof *sorted);
  atvi_math_sort(c->n, sorted, NULL, sorted + c->n);
  reach = sorted[least < c->n ? least : c->n - 1];
  for (int pass = 0; pass < 4; pass++) {
    for (atvi_idx j = 0; j < c->n; j++) in[j] = left[j] && far[j] <= reach;
    if (!frame(v, c, in, p->x, p->chol)) return false;
    reach = (double)d + 3 * sqrt(2 * (double)d);
    for (atvi_idx j = 0; j < c->n; j++) {
      far[j] = 0;
      for (atvi_idx i = 0; i < d; i++) {
        y[i] = c->x[i * c->cap + j] - p->x[i];
        for (atvi_idx k = 0; k < i; k++) y[i] -= p->chol[i * d + k] * y[k];
        y[i] /= p->chol[i * d + i];
        far[j] += y[i] * y[i];
      }
    }
  }
  return true;
}

static atvi_status cover_points(atvi_vi *v, origin from) {
  size_t n = (size_t)v->search.missing.n, d = (size_t)v->d;
  double *room = atvi_pool_take(v->pool, 3 * n + 2 * (d + d * d), sizeof *room);
  bool *left = atvi_pool_take(v->pool, 2 * n, sizeof *left), *in = left + n;
  if (atvi_pool_failed(v->pool)) return ATVI_ENOMEM;
  for (size_t j = 0; j < n; j++) left[j] = true;
  while (v->n_part < ATVI_VI_PARTS && !atvi_infer_vi_over(v) && still_missing(v, left, room, room + n) > 0) {
    place f = {.x = room + 3 * n, .chol = room + 3 * n + d, .spare = room + 3 * n + d + d * d};
    if (!next_piece(v, left, in, room + 2 * n, &f)) break;
    ATVI_TRY(cover_place(v, &f, from));
    for (size_t j = 0; j < n; j++) left[j] = left[j] && !in[j];
  }
  return ATVI_OK;
}

atvi_status atvi_infer_vi_cover(atvi_vi *v) {
  double *room = atvi_pool_take(v->pool, 2 * (size_t)(v->d + v->d * v->d), sizeof *room);
  if (!room) return ATVI_ENOMEM;
  v->search.log_found = -HUGE_VAL;
  for (atvi_idx k = 0; k < v->search.modes.n && !atvi_infer_vi_over(v); k++)
    ATVI_TRY(cover_peak(v, &v->search.modes.mode[k], room));
  return v->search.missing.n > 0 && v->search.log_missing > least_evidence(v) ? cover_points(v, PIECE)
                                                                              : ATVI_OK;
}

atvi_status atvi_infer_vi_cover_rim(atvi_vi *v) { return cover_points(v, RIM); }

static bool is_late(const void *user) { return atvi_infer_vi_over(user); }

/* Longer climbs than those that look for other modes: many coordinates are ill-conditioned together. */
static int summit_iterations(const atvi_vi *v) { return 60 + 2 * (int)v->d; }

static atvi_status find_summits(atvi_vi *v, atvi_idx n, const double *start) {
  atvi_modes_opts opts = {
      .iterations = summit_iterations(v), .most = ATVI_VI_PARTS, .late = is_late, .user = v};
  return atvi_infer_modes_find(v->space, &opts, v->pool, n, start, &v->search.modes);
}

/* Entries of a factor that do not matter become zeros, which cost nothing: in a hierarchy, all but those of
 * what is common. */
static void thin(atvi_idx d, double *chol) {
  for (atvi_idx i = 1; i < d; i++) {
    double *row = chol + i * d, least = ATVI_TINY * row[i] * row[i] / (double)d;
    for (atvi_idx k = 0; k < i; k++)
      if (row[k] * row[k] < least) row[k] = 0;
  }
}

/* The best maximum as a member. */
static atvi_status take_summit(atvi_vi *v, atvi_member *m, bool *found) {
  const atvi_peak *p = v->search.modes.mode;
  *found = v->search.modes.n > 0 && isfinite(p->log_evidence);
  if (!*found) return ATVI_OK;
  if (!atvi_infer_vi_member_new(v, p->x, p->chol, m)) return ATVI_ENOMEM;
  thin(v->d, m->chol);
  return ATVI_OK;
}

/* Straight maps, and the maxima again in the new coordinates. */
static atvi_status straighten(atvi_vi *v, atvi_member *m, bool *found) {
  atvi_idx n = v->search.modes.n;
  double *theta = atvi_pool_take(v->pool, (size_t)(v->d * n), sizeof *theta);
  bool changed;
  if (!theta) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < v->d; i++)
    for (atvi_idx k = 0; k < n; k++) theta[i * n + k] = v->search.modes.mode[k].x[i];
  atvi_infer_space_fwd(v->space, n, theta, theta);
  ATVI_TRY(atvi_infer_vi_straighten(v, m, &changed));
  if (!changed) return ATVI_OK;
  atvi_infer_space_inv(v->space, n, theta, theta);
  v->search.modes.n = 0;
  ATVI_TRY(find_summits(v, n, theta));
  return take_summit(v, m, found);
}

atvi_status atvi_infer_vi_summit(atvi_vi *v, atvi_member *m, bool *found) {
  atvi_idx n = v->wide ? ATVI_VI_PARTS : ATVI_TOPS;
  double *start = atvi_pool_take(v->pool, (size_t)(v->d * n), sizeof *start);
  *found = false;
  if (!start) return ATVI_ENOMEM;
  atvi_infer_vi_tell(v, "climbing", 0.02, "%td climbs", n);
  atvi_math_sobol_normal((atvi_sobol){v->opts.seed, ATVI_STREAM_TRAIN, v->scramble++}, 0, v->d, n, start);
  ATVI_TRY(find_summits(v, n, start));
  ATVI_TRY(take_summit(v, m, found));
  if (*found && v->wide) ATVI_TRY(straighten(v, m, found));
  return *found && v->wide ? atvi_infer_vi_bend(v, m) : ATVI_OK;
}

/* Maxima of the alternatives in the text of the density, each climbed alone: *n points x[d][*n] to climb
 * from. */
static atvi_status branch_tops(atvi_vi *v, atvi_idx *n, double **x) {
  atvi_idx d = v->d, n_branch = v->space->target->n_branch, got = 0;
  *n = 0;
  if (n_branch == 0) return ATVI_OK;
  double *start = atvi_pool_take(v->pool, (size_t)(d * ATVI_TOPS), sizeof *start);
  double *top = atvi_pool_take(v->pool, (size_t)(d * n_branch), sizeof *top);
  atvi_modes_opts opts = atvi_infer_modes_defaults();
  atvi_status status = start && top ? ATVI_OK : ATVI_ENOMEM;
  opts.most = 1;
  opts.late = is_late;
  opts.user = v;
  for (atvi_idx k = 0; k < n_branch && status == ATVI_OK; k++) {
    atvi_modes m = {0};
    atvi_math_sobol_normal((atvi_sobol){v->opts.seed, ATVI_STREAM_TRAIN, v->scramble++}, 0, d, ATVI_TOPS,
                           start);
    atvi_model_evaluator_set_branch(v->ev, k);
    status = atvi_infer_modes_find(v->space, &opts, v->pool, ATVI_TOPS, start, &m);
    atvi_model_evaluator_set_branch(v->ev, -1);
    for (atvi_idx i = 0; i < d && m.n > 0; i++) top[i * n_branch + got] = m.mode[0].x[i];
    got += m.n > 0;
  }
  for (atvi_idx i = 0; i < d && got < n_branch; i++)
    memmove(top + i * got, top + i * n_branch, (size_t)got * sizeof *top);
  *n = got;
  *x = top;
  return status;
}

/* Of each of the last temperatures the highest draw that q lacks, to start[d][ld] from column `at` on;
 * returns how many. A mode that training gave up had draws while it was still connected with the others. */
static atvi_idx path_tops(atvi_vi *v, double *start, atvi_idx ld, atvi_idx at) {
  enum { N = ATVI_VI_PROBES };
  atvi_cloud c = v->room;
  atvi_idx d = v->d, got = 0, rungs = (v->path.n < v->path.cap ? v->path.n : v->path.cap) / N;
  double lacking[N], part[N];
  c.cap = c.n = N;
  for (atvi_idx r = 0; r < rungs; r++) {
    atvi_idx top = -1;
    for (atvi_idx i = 0; i < d; i++)
      memcpy(c.theta + i * N, v->path.theta + i * v->path.cap + r * N, N * sizeof(double));
    atvi_infer_space_inv(v->space, N, c.theta, c.x);
    atvi_infer_vi_ldj(v, &c, N, v->scratch);
    for (atvi_idx j = 0; j < N; j++) c.log_pi[j] = v->path.log_pi[r * N + j] + v->scratch[j];
    atvi_infer_vi_log_lacking(v, &c, N, part, lacking);
    for (atvi_idx j = 0; j < N; j++)
      if (isfinite(lacking[j]) && (top < 0 || lacking[j] > lacking[top])) top = j;
    for (atvi_idx i = 0; i < d && top >= 0; i++) start[i * ld + at + got] = c.x[i * N + top];
    got += top >= 0;
  }
  return got;
}

/* How many of the peaks, best first, may hold a part of the posterior. */
static atvi_idx peaks_that_matter(const atvi_vi *v) {
  atvi_idx n = 0;
  double all = -HUGE_VAL;
  for (atvi_idx k = 0; k < v->search.modes.n; k++)
    all = atvi_math_log_add(all, v->search.modes.mode[k].log_evidence);
  while (n < v->search.modes.n && v->search.modes.mode[n].log_evidence > all - ATVI_NEGLIGIBLE) n++;
  return n;
}

/* The same of those that q lacks, in any order. *log_all: log of what they and q have of the posterior. */
static atvi_idx peaks_lacking(atvi_vi *v, double *log_all) {
  const atvi_peak *p = v->search.modes.mode;
  atvi_idx n = v->search.modes.n, lacking = 0;
  double have[ATVI_VI_PARTS], part[ATVI_VI_PARTS];
  atvi_cloud c = v->room;
  c.cap = c.n = n;
  for (atvi_idx k = 0; k < n; k++)
    for (atvi_idx i = 0; i < v->d; i++) c.x[i * n + k] = p[k].x[i];
  atvi_infer_vi_log_mass(v, v->n_part, &c, n, part, have);
  *log_all = atvi_infer_vi_all_evidence(v);
  for (atvi_idx k = 0; k < n; k++) {
    if (have[k] > p[k].log_pi - v->tuning.missed) continue;
    have[lacking++] = p[k].log_evidence;
    *log_all = atvi_math_log_add(*log_all, p[k].log_evidence);
  }
  n = lacking;
  lacking = 0;
  for (atvi_idx k = 0; k < n; k++) lacking += have[k] > *log_all - ATVI_NEGLIGIBLE;
  return lacking;
}

/* Of several modes that all attract as many climbs, one in e^4 stays unseen by four climbs for each: so many,
 * then, in vain are enough. A maximum that q has is one of many on a rough hill, or the peak of a
 * component. */
static atvi_idx climbs_enough(atvi_vi *v) {
  double log_all;
  atvi_idx lacking = peaks_lacking(v, &log_all);
  return ATVI_REPEATS * (v->n_part > lacking ? v->n_part : lacking + 1);
}

/* Adds to the peaks known, and counts climbs that found no more of the posterior. */
static atvi_status climb_from(atvi_vi *v, atvi_idx n, const double *start) {
  atvi_modes_opts opts = atvi_infer_modes_defaults();
  double before, now;
  opts.most = ATVI_VI_PARTS;
  opts.late = is_late;
  opts.user = v;
  if (n == 0) return ATVI_OK;
  peaks_lacking(v, &before);
  ATVI_TRY(atvi_infer_modes_find(v->space, &opts, v->pool, n, start, &v->search.modes));
  peaks_lacking(v, &now);
  v->search.climbed += (double)v->search.modes.evaluations;
  v->search.in_vain = now > before + ATVI_SLIGHT ? 0 : v->search.in_vain + n;
  return ATVI_OK;
}

/* Lines through a peak, along every coordinate: points that are higher than their neighbours, but not the
 * peak's own hill, to start[d][ld] from column `at` on, at most `most`, the highest. Returns how many. */
static atvi_idx line_tops(atvi_vi *v, const atvi_peak *p, atvi_idx most, double *start, atvi_idx ld,
                          atvi_idx at) {
  atvi_idx d = v->d, m = ATVI_VI_GLANCE / d > ATVI_TOPS ? ATVI_VI_GLANCE / d : ATVI_TOPS, n = d * m, got = 0;
  atvi_idx top[ATVI_VI_PARTS];
  atvi_cloud c = v->room;
  double *z = v->scratch; /* [d][m] */
  ATVI_ASSERT(most <= ATVI_VI_PARTS && n <= ATVI_VI_LOOK);
  atvi_math_sobol_normal((atvi_sobol){v->opts.seed, ATVI_STREAM_TRAIN, v->scramble++}, 0, d, m, z);
  for (atvi_idx i = 0; i < d; i++) {
    atvi_math_sort(m, z + i * m, NULL, z + n);
    for (atvi_idx j = 0; j < d; j++)
      for (atvi_idx k = 0; k < m; k++) c.x[j * n + i * m + k] = i == j ? z[i * m + k] : p->x[j];
  }
  atvi_infer_space_eval(
      v->space, &(atvi_space_batch){.B = n, .x = c.x, .beta = 1, .theta = c.theta, .log_pi = c.log_pi});
  for (atvi_idx j = 0; j < n; j++) {
    const double *l = c.log_pi + j, *at_z = z + j, *own = p->x + j / m;
    bool first = j % m == 0, last = j % m == m - 1;
    bool higher = isfinite(*l) && (first || !(l[-1] > *l)) && (last || !(l[1] > *l));
    bool beside = (first || at_z[-1] < *own) && (last || at_z[1] > *own);
    if (!higher || beside) continue;
    atvi_idx k = got < most ? got++ : most;
    for (; k > 0 && c.log_pi[top[k - 1]] < *l; k--)
      if (k < most) top[k] = top[k - 1];
    if (k < most) top[k] = j;
  }
  for (atvi_idx k = 0; k < got; k++)
    for (atvi_idx i = 0; i < d; i++) start[i * ld + at + k] = c.x[i * n + top[k]];
  return got;
}

/* A child of a peak and of another one, or of a point of the prior, which x[d] has: of one it has a random
 * share of the coordinates, of the other the rest. */
static void beget(const atvi_vi *v, atvi_rng *r, atvi_idx n_matter, bool other_peak, double *x, atvi_idx ld) {
  atvi_idx n = v->search.modes.n, a = (atvi_idx)(atvi_math_rng_uniform(r) * (double)n_matter), b = a;
  if (other_peak && n > 1) b = (a + 1 + (atvi_idx)(atvi_math_rng_uniform(r) * (double)(n - 1))) % n;
  double share = atvi_math_rng_uniform(r);
  for (atvi_idx i = 0; i < v->d; i++) {
    bool first = atvi_math_rng_uniform(r) < share;
    if (first || b != a) x[i * ld] = v->search.modes.mode[first ? a : b].x[i];
  }
}

/* Climbs from high points on lines through the peaks known, and from children of these: where coordinates
 * have alternatives of their own, a maximum that no climb has found differs from one that is known in one
 * coordinate, or is made of two of them. Until climbs have taken their part of the runs, and enough of them
 * found no more of the posterior. */
static atvi_status recombine(atvi_vi *v) {
  atvi_idx d = v->d, born = ATVI_VI_PARTS / 2;
  double *start = atvi_pool_take(v->pool, (size_t)(d * born), sizeof *start);
  if (!start) return ATVI_ENOMEM;
  for (int k = 0; v->search.modes.n > 0 && !atvi_infer_vi_over(v); k++) {
    bool due = v->search.climbed < ATVI_SMALL * (double)atvi_model_evaluator_count(v->ev);
    if (!due && (v->search.in_vain >= climbs_enough(v) || k >= ATVI_ROUNDS)) break;
    atvi_idx n = 0, n_matter = peaks_that_matter(v);
    atvi_rng r = atvi_math_rng_at(v->opts.seed, ATVI_STREAM_POPULATION, v->scramble++ << 13, UINT32_MAX);
    atvi_math_sobol_normal((atvi_sobol){v->opts.seed, ATVI_STREAM_TRAIN, v->scramble++}, 0, d, born, start);
    for (atvi_idx j = 0; j < n_matter && n < born / 2 && !v->wide; j++) {
      if (v->search.modes.mode[j].scanned) continue;
      n += line_tops(v, &v->search.modes.mode[j], born / 2 - n, start, born, n);
      v->search.modes.mode[j].scanned = true;
    }
    for (atvi_idx j = n; j < born; j++) beget(v, &r, n_matter, j % 2, start + j, born);
    ATVI_TRY(climb_from(v, born, start));
  }
  return ATVI_OK;
}

/* Climbs from points of the prior, from draws of hotter temperatures, from points that q lacks, and from what
 * is found. */
atvi_status atvi_infer_vi_seek(atvi_vi *v) {
  atvi_idx d = v->d, half = ATVI_VI_PARTS / 2, enough = climbs_enough(v);
  atvi_idx fresh = v->search.modes.n == 0       ? half
                   : enough > v->search.in_vain ? enough - v->search.in_vain
                                                : 0;
  atvi_infer_vi_tell(v, "other modes", 0.75, "%g points", v->tuning.points);
  v->search.looked = v->n_part;
  v->search.log_missing = v->search.log_absent = -HUGE_VAL;
  if (!v->wide) { /* points do not move in many dimensions */
    ATVI_TRY(atvi_infer_vi_missing(v, &v->search.missing, &v->search.log_missing));
    ATVI_TRY(atvi_infer_vi_absent(v, &v->search.missing, v->search.log_missing, &v->search.log_absent));
  }
  atvi_idx n_top = 0;
  double *top = NULL;
  if (v->search.modes.n == 0)
    ATVI_TRY(branch_tops(v, &n_top, &top)); /* they are among the peaks known later */
  atvi_idx n_near = fresh + n_top, n_far = n_near + (v->search.missing.n > 0 ? half : 0), ld = n_far + half;
  double *start = atvi_pool_take(v->pool, (size_t)(d * (ld + fresh)), sizeof *start), *first = start + d * ld;
  if (!start) return ATVI_ENOMEM;
  atvi_math_sobol_normal((atvi_sobol){v->opts.seed, ATVI_STREAM_TRAIN, v->scramble++}, 0, d, fresh, first);
  for (atvi_idx i = 0; i < d; i++)
    for (atvi_idx k = 0; k < n_far; k++) {
      atvi_idx j = (k - n_near) * v->search.missing.n / half;
      start[i * ld + k] = k >= n_near  ? v->search.missing.x[i * v->search.missing.cap + j]
                          : k >= fresh ? top[i * n_top + k - fresh]
                                       : first[i * fresh + k];
    }
  atvi_idx n = n_far + path_tops(v, start, ld, n_far);
  for (atvi_idx i = 1; i < d && n < ld; i++)
    memmove(start + i * n, start + i * ld, (size_t)n * sizeof *start);
  ATVI_TRY(climb_from(v, n, start));
  ATVI_TRY(recombine(v));
  if (v->search.mirrors.n > 0) ATVI_TRY(atvi_infer_vi_mirror_peaks(v, &n, &start));
  if (v->search.mirrors.n > 0 && n > 0) ATVI_TRY(climb_from(v, n, start));
  if (v->search.modes.n > 1 && atvi_infer_vi_slopes_of_peaks(v, least_evidence(v)))
    v->part[0].drawn = 0; /* log pi of its draws has changed */
  return ATVI_OK;
}
