/* SPDX-License-Identifier: MIT */
/* Mirror images of the posterior (mirrors.h) that q lacks. Nothing leads from one image to another, and in
 * forty coordinates a climb from the prior need not end in either. But an image of what is known is known:
 * where the mirror is affine in the coordinates, as it is when parameters without a hierarchy change their
 * signs, the image of a component is a component, with the same flow in a frame that is reflected, and needs
 * no training. Elsewhere images of the maxima are more maxima, and get components as others do
 * (vi_modes.c). */
#include "infer/vi_state.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum { PROBES = 4 * ATVI_LANES }; /* draws of a component whose images are looked at */

static atvi_status find(atvi_vi *v, const atvi_mirror_draws *draws) {
  if (v->search.mirrored || !v->opts.seek_modes) return ATVI_OK;
  v->search.mirrored = true;
  return atvi_infer_mirrors_find(v->ev, v->pool, draws, &v->search.mirrors);
}

atvi_status atvi_infer_vi_mirrors(atvi_vi *v, const atvi_vi_weights *w) {
  return find(v, &(atvi_mirror_draws){w->c.n, w->c.cap, w->c.theta, w->w});
}

/* ---- components ---- */

/* The image of a component: where x goes to at + sign x in each coordinate. */
typedef struct {
  double *x, *theta, *image,
      *to;    /* [d][PROBES] draws, their parameters, the images of these and their coordinates */
  double *at; /* [d] */
} reflection;

static bool reflection_new(const atvi_vi *v, reflection *r) {
  double **wide[] = {&r->x, &r->theta, &r->image, &r->to};
  for (size_t k = 0; k < sizeof wide / sizeof *wide; k++)
    *wide[k] = atvi_pool_take(v->pool, (size_t)v->d * PROBES, sizeof(double));
  r->at = atvi_pool_take(v->pool, (size_t)v->d, sizeof(double));
  return !atvi_pool_failed(v->pool);
}

/* Whether it is one, by the draws in r. */
static bool is_affine(const atvi_vi *v, const atvi_mirror *m, const reflection *r) {
  for (atvi_idx i = 0; i < v->d; i++) {
    const double *x = r->x + i * PROBES, *to = r->to + i * PROBES;
    if (m->from[i] != i) return false;
    r->at[i] = to[0] - m->sign[i] * x[0];
    for (atvi_idx j = 1; j < PROBES; j++)
      if (!(fabs(r->at[i] + m->sign[i] * x[j] - to[j]) <= ATVI_ROUNDED * (1 + fabs(x[j]) + fabs(to[j]))))
        return false;
  }
  return true;
}

/* Whether q lacks most of the images of the draws. */
static bool is_lacking(atvi_vi *v, const reflection *r) {
  atvi_cloud c = v->room;
  c.cap = c.n = PROBES;
  memcpy(c.x, r->to, (size_t)(v->d * PROBES) * sizeof *c.x);
  atvi_infer_space_eval(
      v->space, &(atvi_space_batch){.B = PROBES, .x = c.x, .beta = 1, .theta = c.theta, .log_pi = c.log_pi});
  return atvi_infer_vi_missed_share(v, v->n_part, &c) > ATVI_HALF;
}

/* One component more: the image of part k, if it has one and q lacks it. */
static atvi_status reflect(atvi_vi *v, const atvi_mirror *m, atvi_idx k, const reflection *r) {
  atvi_vi_part *from = &v->part[k], *to = &v->part[v->n_part];
  atvi_cloud c = atvi_infer_vi_glance(v, &from->at, PROBES);
  for (atvi_idx i = 0; i < v->d; i++) {
    memcpy(r->x + i * PROBES, c.x + i * c.cap, PROBES * sizeof *r->x);
    memcpy(r->theta + i * PROBES, c.theta + i * c.cap, PROBES * sizeof *r->theta);
  }
  atvi_infer_mirror_image(m, v->d, PROBES, r->theta, r->image);
  atvi_infer_space_inv(v->space, PROBES, r->image, r->to);
  if (!is_affine(v, m, r) || !is_lacking(v, r)) return ATVI_OK;
  if (!atvi_infer_vi_member_new(v, from->at.shift, from->at.chol, &to->at)) return ATVI_ENOMEM;
  memcpy(to->at.phi, from->at.phi, (size_t)v->size * sizeof *to->at.phi);
  for (atvi_idx i = 0; i < v->d; i++) {
    to->at.shift[i] = r->at[i] + m->sign[i] * from->at.shift[i];
    for (atvi_idx l = 0; l <= i; l++) to->at.chol[i * v->d + l] *= m->sign[i];
  }
  to->at.bend = from->at.bend;
  to->log_evidence = from->log_evidence;
  to->share = DBL_MIN; /* until the next weighing */
  to->drawn = 0;
  to->plain = from->plain;
  v->n_part++;
  return ATVI_OK;
}

atvi_status atvi_infer_vi_reflect(atvi_vi *v) {
  reflection r;
  if (v->search.mirrors.n == 0) return ATVI_OK;
  if (!reflection_new(v, &r)) return ATVI_ENOMEM;
  for (atvi_idx g = 0; g < v->search.mirrors.n; g++) /* those of one mirror have their own in the next */
    for (atvi_idx k = 0, n = v->n_part; k < n && v->n_part < ATVI_VI_PARTS && !atvi_infer_vi_over(v); k++)
      ATVI_TRY(reflect(v, &v->search.mirrors.mirror[g], k, &r));
  return ATVI_OK;
}

/* ---- maxima ---- */

static bool is_known(const atvi_vi *v, atvi_idx n, const double *theta, const double *image) {
  for (atvi_idx k = 0; k < n; k++) {
    bool same = true;
    for (atvi_idx i = 0; i < v->d && same; i++)
      same = fabs(theta[k * v->d + i] - image[i]) <= ATVI_ROUNDED * (1 + fabs(image[i]));
    if (same) return true;
  }
  return false;
}

atvi_status atvi_infer_vi_mirror_peaks(atvi_vi *v, atvi_idx *n, double **x) {
  atvi_idx d = v->d, most = 2 * ATVI_VI_PARTS, got = v->search.modes.n;
  double *theta = atvi_pool_take(v->pool, (size_t)(d * most), sizeof *theta);
  *x = atvi_pool_take(v->pool, (size_t)(d * most), sizeof **x);
  *n = 0;
  if (!theta || !*x) return ATVI_ENOMEM;
  for (atvi_idx k = 0; k < got; k++)
    atvi_infer_space_fwd(v->space, 1, v->search.modes.mode[k].x, theta + k * d);
  for (atvi_idx k = 0; k < got; k++) /* also those that are added here */
    for (atvi_idx g = 0; g < v->search.mirrors.n && got < most; g++) {
      atvi_infer_mirror_image(&v->search.mirrors.mirror[g], d, 1, theta + k * d, theta + got * d);
      got += !is_known(v, got, theta, theta + got * d);
    }
  *n = got - v->search.modes.n;
  for (atvi_idx k = 0; k < *n; k++) {
    atvi_infer_space_inv(v->space, 1, theta + (v->search.modes.n + k) * d, v->scratch);
    for (atvi_idx i = 0; i < d; i++) (*x)[i * *n + k] = v->scratch[i];
  }
  return ATVI_OK;
}

/* ---- the last word ---- */

/* Draws that lack an image of themselves lack as much of the posterior as they have; those of chains have
 * shares to a few percent. */
atvi_status atvi_infer_vi_mirror_check(atvi_vi *v, atvi_draws *d) {
  atvi_mirror_draws draws = {d->n, d->n, d->x, d->weight};
  bool known = v->search.mirrored;
  ATVI_TRY(find(v, &draws));
  for (atvi_idx g = 0; g < v->search.mirrors.n; g++)
    if (!known || atvi_infer_mirror_gap(&v->search.mirrors.mirror[g], v->d, &draws) > ATVI_PART_SD)
      return atvi_draws_say(
          d, ATVI_WARNING, ATVI_CODE_EVIDENCE_CONTRADICTS,
          "The posterior has the same density at a mirror image of the draws, in which some "
          "parameters change their sign or their places, but the draws are not "
          "the same there: part of the posterior is missed.");
  return ATVI_OK;
}
