/* SPDX-License-Identifier: MIT */
/* Location and scale of a map are the median and half the distance between the 16 and 84 % quantiles of prior
 * draws in the map's own coordinate: they exist for every prior, however heavy its tails. A uniform prior
 * under the probit map is standard normal exactly, and is left alone. */
#include "infer/space.h"
#include "math/special.h"
#include "math/stat/stat.h"
#include <math.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

enum { PART_MIN = ATVI_LANES, PILOTS = ATVI_LANES };
enum { PRIOR_DRAWS = ATVI_VI_LOOK / 2 }; /* from which locations and scales of the maps are taken */

/* ---- scratch of a worker ---- */

typedef struct {
  /* [d][ATVI_BATCH] */
  double *x, *theta, *dx, *grad_prior, *grad_lik;
  /* [d][ATVI_BATCH] where a stand-in is asked, and its gradient. */
  struct {
    double *x, *lik_x;
  } stand_in;
  /* [d][ATVI_BATCH] anchors, and adjoints of theirs. */
  struct {
    double *z, *loc, *scale, *k, *r, *dloc, *dscale, *dk, *dr, *kin;
  } anchor;
  /* [ATVI_BATCH] */
  double *log_prior, *log_lik, *ldj, *base, *pi, *pi_one, *alive;
  /* NULL: there are no chains. */
  struct {
    /* [d][ATVI_BATCH] */
    double *slope, *dslope, *probe, *dprobe, *aside[2];
    /* [ATVI_BATCH] */
    double *gain, *dgain;
    /* Of the longest one. */
    double *work;
  } chain;
  /* [3][1 + blocks.n][ATVI_BATCH] as in the batch; NULL: not wanted. */
  double *by_block;
  atvi_outcome *outcome;
} scratch;

/* Rows of a batch in the order of the struct: pieces of d rows, of one, and of d rows for chains. */
enum {
  WIDE = offsetof(scratch, log_prior) / sizeof(double *),
  NARROW = offsetof(scratch, chain.slope) / sizeof(double *) - WIDE,
  CHAIN_WIDE = offsetof(scratch, chain.gain) / sizeof(double *) - WIDE - NARROW
};

static size_t part_doubles(atvi_idx d) { return (size_t)(WIDE * d + NARROW + 1) * ATVI_BATCH; }

static scratch lay(const atvi_space *s, int worker) {
  scratch w = {0};
  double **row = (double **)(void *)&w, *at = s->part[worker];
  for (int k = 0; k < WIDE; k++, at += s->d * ATVI_BATCH) *row++ = at;
  for (int k = 0; k < NARROW; k++, at += ATVI_BATCH) *row++ = at;
  w.outcome = (atvi_outcome *)(void *)at;
  if (!s->chain_part) return w;
  at = s->chain_part[worker];
  for (int k = 0; k < CHAIN_WIDE; k++, at += s->d * ATVI_BATCH) *row++ = at;
  w.chain.gain = at;
  w.chain.dgain = at + ATVI_BATCH;
  w.chain.work = at + 2 * ATVI_BATCH;
  return w;
}

/* ---- between xi, z and theta ---- */

/* Kin that are taken together; NULL: i goes alone. */
static const atvi_kin *kin_of(const atvi_space *s, atvi_idx i) {
  const atvi_kin *k = s->link[i].kin < 0 ? NULL : &s->kin[s->link[i].kin];
  return k && atvi_infer_kin_together(k) ? k : NULL;
}

static bool sends(const atvi_space *s, atvi_idx i) {
  atvi_idx to = s->link[i].to;
  return to >= 0 && !kin_of(s, i) && !kin_of(s, to);
}

/* Where the log Jacobian of coordinate i is added up. */
static double *ldj_of(const atvi_space *s, atvi_idx i, atvi_idx B, const scratch *w) {
  return w->by_block ? w->by_block + (2 * (1 + s->blocks.n) + s->blocks.of[i]) * B : w->ldj;
}

static atvi_anchor anchor(const atvi_space *s, atvi_idx i, atvi_idx B, const scratch *w) {
  return (atvi_anchor){s->link[i].form, w->anchor.loc + i * B, w->anchor.scale + i * B, w->anchor.k + i * B,
                       w->anchor.r + i * B};
}

static atvi_anchor_adjoint adjoint(atvi_idx i, atvi_idx B, const scratch *w) {
  return (atvi_anchor_adjoint){w->anchor.dloc + i * B, w->anchor.dscale + i * B, w->anchor.dk + i * B,
                               w->anchor.dr + i * B};
}

/* Anchors as far as theta is known: their locations and scales, and the messages. */
static void locate(const atvi_space *s, int worker, atvi_idx B, const double *theta, const scratch *w) {
  s->target->ops->prior_place(s->target->self, atvi_model_evaluator_work_of(s->ev, worker), B, theta,
                              w->anchor.loc, w->anchor.scale);
  for (atvi_idx n = 0; n < s->n_anchor; n++) {
    atvi_idx i = s->upward[n];
    for (atvi_idx j = 0; j < B; j++)
      w->anchor.k[i * B + j] = s->link[i].k, w->anchor.r[i * B + j] = s->link[i].r;
  }
  for (atvi_idx n = 0; n < s->n_anchor; n++) {
    atvi_idx i = s->upward[n], to = s->link[i].to;
    atvi_anchor a = anchor(s, i, B, w);
    if (sends(s, i)) atvi_transform_anchor_message(&a, B, w->anchor.k + to * B, w->anchor.r + to * B);
  }
}

/* ---- chains ---- */

/* Of kin k that are a chain of this level: the m-th member, if it has one before it; else -1. */
static atvi_idx inner_at(const atvi_space *s, const atvi_kin *k, atvi_idx m, int level) {
  bool is = k->chain && k->before[m] >= 0 && s->link[k->of[m]].level == level;
  return is ? k->of[m] : -1;
}

/* w->probe becomes theta with value in all members of chains of this level. False: there are none. */
static bool probe(const atvi_space *s, int level, atvi_idx B, double value, const double *theta,
                  const scratch *w) {
  bool any = false;
  for (atvi_idx k = 0; k < s->n_kin; k++)
    any = any || (s->kin[k].chain && s->link[s->kin[k].of[0]].level == level);
  if (!any) return false;
  memcpy(w->chain.probe, theta, (size_t)(s->d * B) * sizeof *theta);
  for (atvi_idx k = 0; k < s->n_kin; k++)
    for (atvi_idx m = 0; m < s->kin[k].n; m++) {
      atvi_idx i = s->kin[k].of[m];
      for (atvi_idx j = 0; j < B && s->kin[k].chain && s->link[i].level == level; j++)
        w->chain.probe[i * B + j] = value;
    }
  return true;
}

/* After locate: locations in chains of this level become a and slopes b of a + b times the one before, from
 * the location at 0 and at 1. */
static void locate_chains(const atvi_space *s, int worker, int level, atvi_idx B, const double *theta,
                          const scratch *w) {
  void *work = atvi_model_evaluator_work_of(s->ev, worker);
  for (int one = 0; one < 2 && probe(s, level, B, one, theta, w); one++) {
    s->target->ops->prior_place(s->target->self, work, B, w->chain.probe, w->chain.aside[0],
                                w->chain.aside[1]);
    for (atvi_idx k = 0; k < s->n_kin; k++)
      for (atvi_idx m = 0; m < s->kin[k].n; m++) {
        atvi_idx i = inner_at(s, &s->kin[k], m, level);
        for (atvi_idx j = i * B; i >= 0 && j < (i + 1) * B; j++)
          if (one)
            w->chain.slope[j] = w->chain.aside[0][j] - w->anchor.loc[j];
          else
            w->anchor.loc[j] = w->chain.aside[0][j];
      }
  }
}

/* Its adjoint: from dloc and dslope to dtheta of lower levels; dloc of those in chains becomes 0. */
static void locate_chains_vjp(const atvi_space *s, int worker, int level, atvi_idx B, const double *theta,
                              double *dtheta, const scratch *w) {
  void *work = atvi_model_evaluator_work_of(s->ev, worker);
  size_t bytes = (size_t)(s->d * B) * sizeof *dtheta;
  for (int one = 0; one < 2 && probe(s, level, B, one, theta, w); one++) {
    double *zero[] = {w->chain.aside[0], w->chain.aside[1], w->chain.dprobe};
    for (int k = 0; k < 3; k++) memset(zero[k], 0, bytes);
    for (atvi_idx k = 0; k < s->n_kin; k++)
      for (atvi_idx m = 0; m < s->kin[k].n; m++) {
        atvi_idx i = inner_at(s, &s->kin[k], m, level);
        for (atvi_idx j = i * B; i >= 0 && j < (i + 1) * B; j++) {
          w->chain.aside[0][j] = one ? w->chain.dslope[j] : w->anchor.dloc[j] - w->chain.dslope[j];
          if (one) w->anchor.dloc[j] = 0;
        }
      }
    s->target->ops->prior_place_vjp(s->target->self, work, B, w->chain.probe, w->chain.aside[0],
                                    w->chain.aside[1], w->chain.dprobe);
    for (atvi_idx i = 0; i < s->d; i++) {
      bool held = s->link[i].kin >= 0 && s->kin[s->link[i].kin].chain && s->link[i].level == level;
      for (atvi_idx j = i * B; j < (i + 1) * B && !held; j++) dtheta[j] += w->chain.dprobe[j];
    }
  }
}

static atvi_chain_place chain_place(const atvi_kin *k, atvi_idx B, const double *theta, const scratch *w) {
  atvi_infer_chain_gain(k, B, theta, w->chain.gain);
  return (atvi_chain_place){w->anchor.loc, w->chain.slope, w->anchor.scale, w->chain.gain};
}

void atvi_infer_space_slopes(const atvi_space *s, const double *theta, double *slope) {
  scratch w = lay(s, 0);
  for (int level = 1; level < s->n_level; level++) {
    locate_chains(s, 0, level, 1, theta, &w);
    for (atvi_idx k = 0; k < s->n_kin; k++)
      for (atvi_idx m = 0; m < s->kin[k].n; m++) {
        atvi_idx i = inner_at(s, &s->kin[k], m, level);
        if (i >= 0) slope[i] = w.chain.slope[i];
      }
  }
}

/* ---- level by level ---- */

static void copy_row(atvi_idx B, const double *from, double *to) { memcpy(to, from, (size_t)B * sizeof *to); }

/* One step is a parameter, or kin taken together: of[n]. */
typedef struct {
  const atvi_kin *kin;
  atvi_idx n;
  const atvi_idx *of;
} step;

/* The n-th of upward begins a step of this level. */
static bool step_at(const atvi_space *s, atvi_idx n, int level, step *out) {
  const atvi_idx *i = &s->upward[n];
  const atvi_kin *k = kin_of(s, *i);
  *out = (step){k, k ? k->n : 1, k ? k->of : i};
  return s->link[*i].level == level && out->of[0] == *i;
}

/* theta of a step, where that of all before is known. */
static void step_fwd(const atvi_space *s, const step *t, atvi_idx B, double *theta, const scratch *w) {
  for (atvi_idx m = 0; m < t->n; m++) {
    atvi_idx i = t->of[m], at = s->link[i].at;
    if (at >= 0) copy_row(B, theta + at * B, w->anchor.loc + i * B);
  }
  if (t->kin && t->kin->chain) {
    atvi_chain_place p = chain_place(t->kin, B, theta, w);
    atvi_infer_chain_fwd(t->kin, B, &p, theta, ldj_of(s, t->of[0], B, w), w->chain.work);
    return;
  }
  if (t->kin) atvi_infer_kin_locate(t->kin, B, w->anchor.loc, w->anchor.kin);
  for (atvi_idx m = 0; m < t->n; m++) {
    atvi_idx i = t->of[m];
    atvi_anchor a = anchor(s, i, B, w);
    atvi_transform_anchor_fwd(&a, B, w->anchor.z + i * B, theta + i * B, ldj_of(s, i, B, w));
  }
  if (t->kin) atvi_infer_kin_fwd(t->kin, B, theta, w->anchor.kin);
}

/* theta and ldj of x; w keeps z and the anchors. At most ATVI_BATCH points. */
static void fwd(const atvi_space *s, int worker, atvi_idx B, const double *x, double *theta,
                const scratch *w) {
  const atvi_idx n_row = 1 + s->blocks.n;
  for (atvi_idx j = 0; j < B; j++) w->ldj[j] = 0;
  for (atvi_idx j = 0; j < 3 * n_row * B && w->by_block; j++) w->by_block[j] = 0;
  for (atvi_idx i = 0; i < s->d; i++)
    atvi_transform_map_fwd(&s->map[i], B, x + i * B, theta + i * B, ldj_of(s, i, B, w));
  if (s->n_level > 1) memcpy(w->anchor.z, theta, (size_t)(s->d * B) * sizeof *theta);
  for (int level = 1; level < s->n_level; level++) {
    step t;
    locate(s, worker, B, theta, w);
    locate_chains(s, worker, level, B, theta, w);
    for (atvi_idx n = s->n_anchor - 1; n >= 0; n--)
      if (step_at(s, n, level, &t)) step_fwd(s, &t, B, theta, w);
  }
  for (atvi_idx k = 0; k < n_row && w->by_block; k++)
    for (atvi_idx j = 0; j < B; j++) w->ldj[j] += w->by_block[(2 * n_row + k) * B + j];
}

/* Of a step that is not a chain. */
static void anchors_vjp(const atvi_space *s, const step *t, atvi_idx B, double *dtheta, const scratch *w) {
  if (t->kin) atvi_infer_kin_locate(t->kin, B, w->anchor.loc, w->anchor.kin);
  if (t->kin) atvi_infer_kin_fwd_vjp(t->kin, B, dtheta, w->anchor.kin);
  for (atvi_idx m = 0; m < t->n; m++) {
    atvi_idx i = t->of[m];
    atvi_anchor a = anchor(s, i, B, w);
    atvi_anchor_adjoint da = adjoint(i, B, w);
    atvi_transform_anchor_vjp(&a, B, w->anchor.z + i * B, dtheta + i * B, w->alive, dtheta + i * B, &da);
  }
  if (t->kin) atvi_infer_kin_locate_vjp(t->kin, B, w->anchor.dloc, w->anchor.kin);
}

/* After step_fwd; where locations of kin were overwritten since, they are set again. dtheta becomes dz. */
static void step_vjp(const atvi_space *s, const step *t, atvi_idx B, const double *theta, double *dtheta,
                     const scratch *w) {
  if (t->kin && t->kin->chain) {
    atvi_chain_place p = chain_place(t->kin, B, theta, w);
    atvi_chain_adjoint to = {w->anchor.dloc, w->chain.dslope, w->anchor.dscale, w->chain.dgain};
    atvi_infer_chain_vjp(t->kin, B, &p, w->anchor.z, w->alive, dtheta, &to, w->chain.work);
    atvi_infer_chain_gain_vjp(t->kin, B, theta, w->chain.gain, w->chain.dgain, dtheta);
  } else {
    anchors_vjp(s, t, B, dtheta, w);
  }
  for (atvi_idx m = 0; m < t->n; m++) {
    atvi_idx i = t->of[m], at = s->link[i].at;
    for (atvi_idx j = 0; j < B && at >= 0; j++) {
      dtheta[at * B + j] += w->anchor.dloc[i * B + j];
      w->anchor.dloc[i * B + j] = 0;
    }
  }
}

/* After fwd: dtheta[d][B] becomes dz, with w->alive as the adjoint of ldj. */
static void theta_vjp(const atvi_space *s, int worker, atvi_idx B, const double *theta, double *dtheta,
                      const scratch *w) {
  size_t bytes = (size_t)(s->d * B) * sizeof *dtheta;
  locate(s, worker, B, theta, w);
  for (int level = s->n_level - 1; level > 0; level--) {
    double *zero[] = {w->anchor.dloc, w->anchor.dscale, w->anchor.dk, w->anchor.dr};
    step t;
    for (int k = 0; k < 4; k++) memset(zero[k], 0, bytes);
    locate_chains(s, worker, level, B, theta, w);
    for (atvi_idx n = 0; n < s->n_anchor; n++)
      if (step_at(s, n, level, &t)) step_vjp(s, &t, B, theta, dtheta, w);
    for (atvi_idx n = s->n_anchor - 1; n >= 0; n--) {
      atvi_idx i = s->upward[n], to = s->link[i].to;
      atvi_anchor a = anchor(s, i, B, w);
      atvi_anchor_adjoint da = adjoint(i, B, w);
      if (sends(s, i))
        atvi_transform_anchor_message_vjp(&a, B, w->anchor.dk + to * B, w->anchor.dr + to * B, &da);
    }
    locate_chains_vjp(s, worker, level, B, theta, dtheta, w);
    s->target->ops->prior_place_vjp(s->target->self, atvi_model_evaluator_work_of(s->ev, worker), B, theta,
                                    w->anchor.dloc, w->anchor.dscale, dtheta);
  }
}

void atvi_infer_space_anchors(const atvi_space *s, const double *theta, double *loc, double *scale, double *k,
                              double *r) {
  scratch w = lay(s, 0);
  locate(s, 0, 1, theta, &w);
  for (atvi_idx i = 0; i < s->d; i++) {
    bool any = s->link[i].form != ATVI_PRIOR_ALONE;
    loc[i] = any ? w.anchor.loc[i] : NAN;
    scale[i] = any ? w.anchor.scale[i] : NAN;
    k[i] = any ? w.anchor.k[i] : 0;
    r[i] = any ? w.anchor.r[i] : 0;
  }
}

static void scatter(atvi_idx rows, atvi_idx n, const double *from, double *to, atvi_idx first,
                    atvi_idx stride) {
  for (atvi_idx i = 0; i < rows && to; i++)
    memcpy(to + i * stride + first, from + i * n, (size_t)n * sizeof *to);
}

static void gather(atvi_idx rows, atvi_idx n, const double *from, double *to, atvi_idx first,
                   atvi_idx stride) {
  for (atvi_idx i = 0; i < rows; i++) memcpy(to + i * n, from + i * stride + first, (size_t)n * sizeof *to);
}

/* z[d][B] of theta[d][B], which may be the same array. */
static void to_z(const atvi_space *s, atvi_idx B, const double *theta, double *z) {
  scratch w = lay(s, 0);
  for (atvi_idx first = 0; first < B; first += ATVI_BATCH) {
    atvi_idx n = B - first < ATVI_BATCH ? B - first : ATVI_BATCH;
    gather(s->d, n, theta, w.theta, first, B);
    if (s->n_level > 1) locate(s, 0, n, w.theta, &w);
    for (int level = 1; level < s->n_level; level++) locate_chains(s, 0, level, n, w.theta, &w);
    for (atvi_idx m = 0; m < s->n_kin; m++) {
      if (!atvi_infer_kin_together(&s->kin[m])) continue;
      if (s->kin[m].chain) {
        atvi_chain_place p = chain_place(&s->kin[m], n, w.theta, &w);
        atvi_infer_chain_inv(&s->kin[m], n, &p, w.theta, w.chain.work);
        continue;
      }
      atvi_infer_kin_locate(&s->kin[m], n, w.anchor.loc, w.anchor.kin);
      atvi_infer_kin_inv(&s->kin[m], n, w.theta, w.anchor.kin);
    }
    for (atvi_idx m = 0; m < s->n_anchor; m++) {
      atvi_idx i = s->upward[m];
      if (s->link[i].kin >= 0 && s->kin[s->link[i].kin].chain) continue;
      atvi_anchor a = anchor(s, i, n, &w);
      atvi_transform_anchor_inv(&a, n, w.theta + i * n, w.theta + i * n);
    }
    scatter(s->d, n, w.theta, z, first, B);
  }
}

void atvi_infer_space_inv(const atvi_space *s, atvi_idx B, const double *theta, double *x) {
  to_z(s, B, theta, x);
  for (atvi_idx i = 0; i < s->d; i++) atvi_transform_map_inv(&s->map[i], B, x + i * B, x + i * B);
}

void atvi_infer_space_fwd(const atvi_space *s, atvi_idx B, const double *x, double *theta) {
  scratch w = lay(s, 0);
  for (atvi_idx first = 0; first < B; first += ATVI_BATCH) {
    atvi_idx n = B - first < ATVI_BATCH ? B - first : ATVI_BATCH;
    gather(s->d, n, x, w.x, first, B);
    fwd(s, 0, n, w.x, w.theta, &w);
    scatter(s->d, n, w.theta, theta, first, B);
  }
}

void atvi_infer_space_pull(const atvi_space *s, atvi_idx B, const double *x, const double *dtheta,
                           double *dx) {
  scratch w = lay(s, 0);
  for (atvi_idx first = 0; first < B; first += ATVI_BATCH) {
    atvi_idx n = B - first < ATVI_BATCH ? B - first : ATVI_BATCH;
    gather(s->d, n, x, w.x, first, B);
    gather(s->d, n, dtheta, w.grad_lik, first, B);
    fwd(s, 0, n, w.x, w.theta, &w);
    for (atvi_idx j = 0; j < n; j++) w.alive[j] = 0; /* nothing of the Jacobian */
    if (s->n_level > 1) theta_vjp(s, 0, n, w.theta, w.grad_lik, &w);
    for (atvi_idx i = 0; i < s->d; i++) {
      for (atvi_idx j = 0; j < n; j++) w.dx[i * n + j] = 0;
      atvi_transform_map_vjp(&s->map[i], n, w.x + i * n, w.grad_lik + i * n, w.alive, w.dx + i * n);
    }
    scatter(s->d, n, w.dx, dx, first, B);
  }
}

/* ---- the maps ---- */

static int ends(const atvi_param *p) { return isfinite(p->lower) + isfinite(p->upper); }

static bool suits(atvi_map_kind kind, int n_end) {
  switch (kind) {
  case ATVI_MAP_NONE: return n_end == 0;
  case ATVI_MAP_LOG: return n_end == 1;
  case ATVI_MAP_LOGIT:
  case ATVI_MAP_PROBIT: return n_end == 2;
  case ATVI_MAP_SURJECTION: return n_end > 0;
  }
  return false;
}

static bool find_kind(const char *name, atvi_map_kind *kind) {
  for (int k = ATVI_MAP_NONE; k <= ATVI_MAP_SURJECTION; k++) {
    *kind = (atvi_map_kind)k;
    if (strcmp(name, atvi_transform_map_name(*kind)) == 0) return true;
  }
  return false;
}

static bool is_auto(const char *name) { return !name || strcmp(name, "auto") == 0; }

static atvi_status choose(atvi_ctx *ctx, const atvi_param *p, const char *kind, atvi_map_kind *out) {
  static const atvi_map_kind usual[] = {ATVI_MAP_NONE, ATVI_MAP_LOG, ATVI_MAP_PROBIT};
  static const char *const has[] = {"no bound", "one bound", "two bounds"};
  int n = ends(p);
  if (!is_auto(p->map)) {
    if (!find_kind(p->map, out))
      return ATVI_FAIL(ctx, ATVI_EINVAL,
                       "map %s of %s: there are auto, surjection, probit, logit, log and none", p->map,
                       p->name);
    if (!suits(*out, n))
      return ATVI_FAIL(ctx, ATVI_EINVAL, "map %s does not suit %s, which has %s", p->map, p->name, has[n]);
    return ATVI_OK;
  }
  if (!is_auto(kind)) {
    if (!find_kind(kind, out))
      return ATVI_FAIL(ctx, ATVI_EINVAL, "map %s: there are auto, surjection, probit, logit, log and none",
                       kind);
    if (suits(*out, n)) return ATVI_OK;
  }
  *out = usual[n];
  return ATVI_OK;
}

/* theta becomes the coordinate that loc and scale act on. */
static void unscaled(const atvi_map *m, atvi_idx n, double *theta) {
  atvi_map plain = *m;
  plain.loc = 0;
  plain.scale = 1;
  if (m->kind != ATVI_MAP_SURJECTION) atvi_transform_map_inv(&plain, n, theta, theta);
}

/* False: the prior says nothing of the size of the parameter, and the map stays as it is. sorted: [3][n]
 * scratch. */
static bool place(atvi_map *m, atvi_idx n, double *theta, double *sorted) {
  if (m->kind == ATVI_MAP_SURJECTION && isfinite(m->lower) && isfinite(m->upper)) return true;
  unscaled(m, n, theta);
  atvi_idx kept = 0;
  for (atvi_idx i = 0; i < n; i++)
    if (isfinite(theta[i])) sorted[kept++] = theta[i];
  if (kept < n / 2) return false;
  atvi_math_sort(kept, sorted, NULL, sorted + n);
  double low = sorted[(atvi_idx)(0.1587 * (double)kept)], high = sorted[(atvi_idx)(0.8413 * (double)kept)];
  double loc = sorted[kept / 2], scale = 0.5 * (high - low);
  if (!(scale > 0) || !isfinite(scale) || (m->kind == ATVI_MAP_LOG && scale > ATVI_FOLDS)) return false;
  double chance = ATVI_FAR / sqrt((double)n); /* by which those of a uniform prior differ from 0 and 1 */
  bool uniform = m->kind == ATVI_MAP_PROBIT && fabs(loc) < chance && fabs(scale - 1) < chance;
  if (uniform) return true;
  m->loc = loc;
  m->scale = scale;
  return true;
}

typedef struct {
  atvi_space *s;
  double *z; /* [d][PRIOR_DRAWS] */
  int level;
  atomic_bool vague; /* the prior says nothing of one of this level */
} placing;

static void place_item(void *arg, atvi_idx i, int worker) {
  _Static_assert((WIDE + NARROW) * ATVI_BATCH >= 3 * PRIOR_DRAWS, "scratch of place");
  placing *p = arg;
  const atvi_space *s = p->s;
  if (s->link[i].level != p->level) return;
  if (!place(&s->map[i], PRIOR_DRAWS, p->z + i * PRIOR_DRAWS, s->part[worker])) p->vague = true;
}

/* Locations and scales of the maps, from prior draws theta[d][PRIOR_DRAWS]; of the levels above one whose
 * prior is vague they would be absurd, and anchors have about the right ones. work: [d][PRIOR_DRAWS]. */
static void place_all(atvi_space *s, const double *theta, double *work) {
  placing p = {.s = s, .z = work};
  to_z(s, PRIOR_DRAWS, theta, work);
  for (; p.level < s->n_level && !p.vague; p.level++) atvi_parallel(s->ctx, s->d, place_item, &p);
}

/* The first prior draws, not too far out, are where climbs begin. work as above. */
static atvi_status settle(atvi_space *s, const double *theta, double *work) {
  double start[PILOTS];
  atvi_infer_space_inv(s, PRIOR_DRAWS, theta, work);
  for (atvi_idx i = 0; i < s->d; i++) {
    for (int k = 0; k < PILOTS; k++) {
      double x = work[i * PRIOR_DRAWS + k];
      start[k] = isfinite(x) ? fmin(fmax(x, -ATVI_NEAR), ATVI_NEAR) : 0;
    }
    memcpy(work + i * PILOTS, start, sizeof start); /* never ahead of what is still to be read */
  }
  return atvi_infer_space_settle(s, PILOTS, work);
}

/* ---- levels ---- */

static bool is_anchored(const atvi_space *s, atvi_idx i) { return s->link[i].form != ATVI_PRIOR_ALONE; }

/* Whether the level of i had to be raised above that of q. */
static bool put_above(atvi_space *s, atvi_idx i, atvi_idx q) {
  if (s->link[i].level > s->link[q].level) return false;
  s->link[i].level = s->link[q].level + 1;
  return true;
}

/* Whether i had to be put after its location q, in the same level or above. */
static bool put_after(atvi_space *s, atvi_idx i, atvi_idx q) {
  atvi_space_link *a = &s->link[i], *b = &s->link[q];
  if (a->level > b->level || (a->kin >= 0 && a->kin == b->kin)) return false;
  if (a->level == b->level && a->depth > b->depth) return false;
  a->level = b->level;
  a->depth = b->depth + 1;
  return true;
}

/* Kin are at one place. */
static bool level_kin(atvi_space *s, const atvi_kin *k) {
  int level = 0, depth = 0;
  bool changed = false;
  for (atvi_idx m = 0; m < k->n; m++) {
    const atvi_space_link *a = &s->link[k->of[m]];
    level = a->level > level ? a->level : level;
    depth = a->depth > depth ? a->depth : depth;
  }
  for (atvi_idx m = 0; m < k->n; m++) {
    atvi_space_link *a = &s->link[k->of[m]];
    changed = changed || a->level != level || a->depth != depth;
    a->level = level;
    a->depth = depth;
  }
  return changed;
}

/* Levels and depths such that what an anchor needs is known: the parameters of its location and scale, and of
 * the scales of all whose messages reach it. False: there is a circle, since a scale depends on the parameter
 * to which messages go, or kin on other kin. */
static bool set_levels(atvi_space *s) {
  for (atvi_idx i = 0; i < s->d; i++) s->link[i].level = is_anchored(s, i), s->link[i].depth = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (atvi_idx i = 0; i < s->d; i++) {
      const atvi_prior_link *p = &s->target->prior[i];
      for (atvi_idx k = 0; is_anchored(s, i) && k < p->n_on; k++) {
        bool location = k >= p->n_on_scale && p->on[k] == p->location;
        bool inner = s->link[i].kin >= 0 && k >= p->n_on_scale && p->on[k] == s->link[i].after;
        if (inner && s->link[p->on[k]].kin == s->link[i].kin) continue; /* so no message goes there either */
        changed = (location ? put_after(s, i, p->on[k]) : put_above(s, i, p->on[k])) || changed;
        for (atvi_idx to = s->link[i].to; to >= 0 && k < p->n_on_scale; to = s->link[to].to)
          changed = put_above(s, to, p->on[k]) || changed;
      }
      if (s->link[i].level > s->d || s->link[i].depth > s->d) return false;
    }
    for (atvi_idx k = 0; k < s->n_kin; k++) changed = level_kin(s, &s->kin[k]) || changed;
  }
  return true;
}

static void forget_kin(atvi_space *s) {
  s->n_kin = 0;
  for (atvi_idx i = 0; i < s->d; i++) s->link[i].kin = -1;
}

static void put_in_order(atvi_space *s) {
  int depth = 0;
  for (atvi_idx i = 0; i < s->d; i++) {
    atvi_space_link *a = &s->link[i];
    atvi_idx loc = is_anchored(s, i) ? s->target->prior[i].location : -1;
    if (a->level >= s->n_level) s->n_level = a->level + 1;
    if (a->depth > depth) depth = a->depth;
    bool inner = loc >= 0 && a->kin >= 0 && s->link[loc].kin == a->kin;
    a->at = loc >= 0 && !inner && s->link[loc].level == a->level ? loc : -1;
  }
  for (int level = s->n_level - 1; level > 0; level--)
    for (int k = depth; k >= 0; k--)
      for (atvi_idx i = 0; i < s->d; i++)
        if (s->link[i].level == level && s->link[i].depth == k) s->upward[s->n_anchor++] = i;
}

static atvi_status find_levels(atvi_space *s) {
  for (atvi_idx i = 0; i < s->d; i++) {
    atvi_idx to = is_anchored(s, i) ? s->target->prior[i].location : -1;
    bool may = to >= 0 && s->link[i].form != ATVI_PRIOR_INTERVAL && s->link[to].form == ATVI_PRIOR_LINE;
    s->link[i].to = may ? to : -1;
  }
  bool ordered = set_levels(s);
  if (!ordered) forget_kin(s), ordered = set_levels(s);
  for (atvi_idx i = 0; i < s->d && !ordered; i++) s->link[i].to = -1;
  if (!ordered && !set_levels(s))
    return ATVI_FAIL(s->ctx, ATVI_EINVAL, "priors depend on each other in a circle");
  put_in_order(s);
  return ATVI_OK;
}

static bool is_line(atvi_prior_form form) { return form == ATVI_PRIOR_LINE || form == ATVI_PRIOR_STANDARD; }

/* Whether the location of i is an affine function of theta_q, at points w->theta[d][PILOTS]: as far as
 * numbers show, which decides about coordinates, not about what is exact. */
static bool is_affine(const atvi_space *s, atvi_idx i, atvi_idx q, const scratch *w) {
  static const double value[] = {0, 1, -1.7, 23.1};
  double *row = w->theta + q * PILOTS, kept[PILOTS], at[4][PILOTS];
  memcpy(kept, row, sizeof kept);
  for (int v = 0; v < 4; v++) {
    for (int j = 0; j < PILOTS; j++) row[j] = value[v];
    s->target->ops->prior_place(s->target->self, atvi_model_evaluator_work_of(s->ev, 0), PILOTS, w->theta,
                                w->anchor.dloc, w->anchor.dscale);
    memcpy(at[v], w->anchor.dloc + i * PILOTS, sizeof at[v]);
  }
  memcpy(row, kept, sizeof kept);
  for (int j = 0; j < PILOTS; j++)
    for (int v = 2; v < 4; v++) {
      double slope = at[1][j] - at[0][j], off = at[v][j] - at[0][j] - value[v] * slope;
      if (!(fabs(off) <= ATVI_ROUNDING * (fabs(at[0][j]) + fabs(at[1][j])))) return false;
    }
  return true;
}

/* The one of the parameters of its location that i follows: that with its scale, or else with a prior of its
 * own. -1: none, or several. */
static atvi_idx one_before(const atvi_space *s, atvi_idx i, const bool *may, bool alike, const scratch *w) {
  const atvi_prior_link *p = &s->target->prior[i];
  atvi_idx q = -1, n = 0;
  for (atvi_idx k = p->n_on_scale; k < p->n_on; k++) {
    atvi_idx on = p->on[k];
    bool fits = alike ? atvi_infer_kin_alike(s->target, i, on, PILOTS, w->anchor.scale)
                      : s->target->prior[on].form == p->form;
    if (may[on] && on != q && fits) q = on, n++;
  }
  return n == 1 ? q : -1;
}

/* Sets after, where may[d] be kin; scales are known. */
static void find_after(atvi_space *s, const bool *may, const scratch *w) {
  for (atvi_idx i = 0; i < s->d; i++) {
    const atvi_prior_link *p = &s->target->prior[i];
    atvi_idx q = may[i] ? p->location : -1, n = 1;
    s->link[i].after = q;
    if (!may[i] || q >= 0 || s->link[i].form != ATVI_PRIOR_LINE || p->n_on_scale == 0) continue;
    q = one_before(s, i, may, true, w);
    if (q < 0) q = one_before(s, i, may, false, w);
    if (q < 0 || !is_affine(s, i, q, w)) continue;
    for (atvi_idx up = q; up >= 0 && n > 0; up = s->link[up].after) n = up != i; /* no circles */
    if (n > 0) s->link[i].after = q;
  }
}

static atvi_status make_chain_parts(atvi_space *s) {
  int threads = atvi_ctx_threads(s->ctx);
  size_t work = 0;
  for (atvi_idx k = 0; k < s->n_kin; k++)
    if (s->kin[k].chain && atvi_infer_chain_work(s->kin[k].n) > work)
      work = atvi_infer_chain_work(s->kin[k].n);
  if (work == 0) return ATVI_OK;
  double **part = atvi_pool_take(s->pool, (size_t)threads, sizeof *part);
  work += (size_t)(CHAIN_WIDE * s->d + 2) * ATVI_BATCH;
  for (int k = 0; k < threads && part; k++) part[k] = atvi_pool_take(s->pool, work, sizeof **part);
  s->chain_part = part;
  return atvi_pool_status(s->pool);
}

/* ---- what the data say of kin ---- */

/* Draws of the prior, theta[d][PILOTS], and where the likelihood is looked at. */
typedef struct {
  const atvi_space *s;
  const double *theta;
  double *at, *grad;
} pilots;

/* The gradients at x, x + step and x + 2 step, with the others as in draw a, and again as in draw b:
 * grad[d][6]. */
static bool look_along(const pilots *p, atvi_idx n, const atvi_idx *of, int a, int b) {
  const atvi_idx d = p->s->d, B = 6;
  double log_lik[6];
  atvi_outcome outcome[6];
  for (atvi_idx i = 0; i < d; i++)
    for (atvi_idx j = 0; j < B; j++) p->at[i * B + j] = p->theta[i * PILOTS + (j < 3 ? a : b)];
  for (atvi_idx m = 0; m < n; m++) {
    const double *x = p->theta + of[m] * PILOTS;
    for (atvi_idx j = 0; j < B; j++) p->at[of[m] * B + j] = x[a] + (double)(j % 3) * (x[b] - x[a]);
  }
  atvi_model_evaluator_run(
      p->s->ev,
      &(atvi_batch){.B = B, .theta = p->at, .log_lik = log_lik, .grad_lik = p->grad, .outcome = outcome});
  bool good = true;
  for (atvi_idx j = 0; j < B; j++) good = good && outcome[j] == ATVI_RUN_OK && isfinite(log_lik[j]);
  return good;
}

static bool data_are_normal(void *user, atvi_idx n, const atvi_idx *of) {
  const pilots *p = user;
  const atvi_idx B = 6;
  for (int a = 0; a + 1 < PILOTS; a += 2) {
    double own = 0, both = 0, other = 0, off = 0, all = 0;
    if (!look_along(p, n, of, a, a + 1)) return false;
    for (atvi_idx m = 0; m < n; m++)
      for (int j = 0; j < 3; j++) {
        double g = p->grad[of[m] * B + j], h = p->grad[of[m] * B + 3 + j];
        own += g * g, both += g * h, other += h * h;
      }
    double by = other > 0 ? both / other : 0;
    for (atvi_idx m = 0; m < n; m++) {
      const double *g = p->grad + of[m] * B;
      for (int j = 0; j < 3; j++) off = fmax(off, fabs(g[j] - by * g[3 + j]));
      off = fmax(off, fabs(g[0] - 2 * g[1] + g[2]));
      for (int j = 0; j < 3; j++) all = fmax(all, fabs(g[j]));
    }
    if (!(own > 0 && by > 0 && off <= ATVI_ROUNDING * all)) return false;
  }
  return true;
}

/* Kin have the same scales at draws theta[d][PRIOR_DRAWS] of the prior. */
static atvi_status find_kin(atvi_space *s, const double *theta) {
  scratch w = lay(s, 0);
  bool *may = atvi_pool_take(s->pool, (size_t)s->d, sizeof *may);
  atvi_idx *after = atvi_pool_take(s->pool, (size_t)s->d, sizeof *after);
  if (!may || !after) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < s->d; i++) may[i] = is_line(s->link[i].form);
  gather(s->d, PILOTS, theta, w.theta, 0, PRIOR_DRAWS);
  s->target->ops->prior_place(s->target->self, atvi_model_evaluator_work_of(s->ev, 0), PILOTS, w.theta,
                              w.anchor.loc, w.anchor.scale);
  find_after(s, may, &w);
  for (atvi_idx i = 0; i < s->d; i++) after[i] = s->link[i].after;
  pilots p = {s, w.theta, atvi_pool_take(s->pool, (size_t)(6 * s->d), sizeof *p.at),
              atvi_pool_take(s->pool, (size_t)(6 * s->d), sizeof *p.grad)};
  if (!p.at || !p.grad) return ATVI_ENOMEM;
  atvi_kin_data data = {data_are_normal, &p};
  s->kin = atvi_infer_kin_find(s->pool, s->target, may, after, PILOTS, w.anchor.scale, &data, &s->n_kin);
  for (atvi_idx k = 0; k < s->n_kin; k++)
    for (atvi_idx m = 0; m < s->kin[k].n; m++) s->link[s->kin[k].of[m]].kin = k;
  ATVI_TRY(atvi_pool_status(s->pool));
  return make_chain_parts(s);
}

/* theta: [d][PRIOR_DRAWS], and behind it as much room. */
static atvi_status scale_maps(atvi_space *s, bool linked, double *theta) {
  double *work = theta + s->d * PRIOR_DRAWS;
  if (linked) {
    ATVI_TRY(find_kin(s, theta));
    ATVI_TRY(find_levels(s));
  }
  place_all(s, theta, work);
  if (s->n_level == 1) return ATVI_OK;
  ATVI_TRY(settle(s, theta, work));
  place_all(s, theta, work);
  return ATVI_OK;
}

static atvi_status make_maps(atvi_space *s, const char *kind, uint64_t seed) {
  const atvi_target *t = s->target;
  bool linked = t->prior && t->ops->prior_place && t->ops->prior_place_vjp && s->from_prior;
  s->n_level = 1;
  for (atvi_idx i = 0; i < s->d; i++) {
    atvi_param p = t->param[i];
    atvi_map_kind k;
    s->link[i] = (atvi_space_link){.to = -1, .at = -1, .kin = -1, .after = -1};
    if (linked && t->prior[i].form != ATVI_PRIOR_ALONE && is_auto(p.map)) {
      s->link[i].form = t->prior[i].form;
      atvi_transform_anchor_bounds(s->link[i].form, &p.lower, &p.upper);
    }
    ATVI_TRY(choose(s->ctx, &p, kind, &k));
    ATVI_TRY(atvi_transform_map_new(s->ctx, k, p.lower, p.upper, &s->map[i]));
  }
  if (!s->from_prior) return ATVI_OK;
  double *theta = atvi_block(s->ctx, (size_t)(2 * s->d) * PRIOR_DRAWS * sizeof *theta);
  if (!theta) return ATVI_ENOMEM;
  atvi_model_evaluator_prior(s->ev, seed, 0, PRIOR_DRAWS, theta);
  atvi_status status = scale_maps(s, linked, theta);
  atvi_block_free(s->ctx, theta);
  return status;
}

/* ---- the object ---- */

static atvi_space *carve(atvi_arena *a, atvi_idx d, int threads) {
  atvi_space *s, head = {0};
  ATVI_TAKE(a, s, 1);
  ATVI_TAKE(a, head.map, d);
  ATVI_TAKE(a, head.link, d);
  ATVI_TAKE(a, head.upward, d);
  ATVI_TAKE(a, head.part, threads);
  for (int k = 0; k < threads; k++) {
    double *part;
    ATVI_TAKE(a, part, part_doubles(d));
    if (s) head.part[k] = part;
  }
  if (s) *s = head;
  return s;
}

atvi_status atvi_infer_space_new(atvi_ctx *ctx, atvi_evaluator *ev, const char *kind, uint64_t seed,
                                 atvi_space **out) {
  *out = NULL;
  const atvi_target *t = atvi_model_evaluator_target(ev);
  int threads = atvi_ctx_threads(ctx);
  atvi_arena a = {0};
  carve(&a, t->d, threads);
  a = (atvi_arena){.base = atvi_block(ctx, a.used)};
  if (!a.base) return ATVI_ENOMEM;
  atvi_space *s = carve(&a, t->d, threads);
  s->ctx = ctx;
  s->ev = ev;
  s->target = t;
  s->d = t->d;
  s->from_prior = t->ops->prior_draw != NULL;
  atvi_status status = atvi_pool_new(ctx, &s->pool);
  if (status == ATVI_OK) status = make_maps(s, kind, seed);
  if (status == ATVI_OK) status = atvi_infer_blocks_find(s, &s->blocks);
  if (status != ATVI_OK) {
    atvi_infer_space_free(s);
    return status;
  }
  *out = s;
  return ATVI_OK;
}

void atvi_infer_space_free(atvi_space *s) {
  if (!s) return;
  atvi_pool_free(s->pool);
  atvi_block_free(s->ctx, s);
}

/* ---- evaluation ---- */

/* log N(x; 0, I), added up. */
static void normal_base(atvi_idx d, atvi_idx B, const double *x, double *out) {
  for (atvi_idx j = 0; j < B; j++) out[j] = -(double)d * ATVI_LN_SQRT_2PI;
  for (atvi_idx i = 0; i < d; i++)
    for (atvi_idx j = 0; j < B; j++) out[j] -= 0.5 * x[i * B + j] * x[i * B + j];
}

static void put(atvi_idx n, const double *from, double *to) {
  if (to) memcpy(to, from, (size_t)n * sizeof *to);
}

/* dx = gradient of log pi_beta: through the maps, then the normal at the other end of the path. */
static void gradient(const atvi_space *s, int worker, const atvi_space_batch *b, const scratch *w) {
  atvi_idx B = b->B;
  double lik = b->beta, prior = s->from_prior ? 1 : b->beta;
  for (atvi_idx j = 0; j < B; j++) w->alive[j] = isfinite(b->log_pi[j]) ? prior : 0;
  for (atvi_idx i = 0; i < s->d; i++) {
    double *dtheta = w->grad_lik + i * B;
    const double *gp = w->grad_prior + i * B;
    for (atvi_idx j = 0; j < B; j++) {
      double g = lik * dtheta[j] + prior * gp[j];
      dtheta[j] = w->alive[j] > 0 ? g : 0;
    }
  }
  if (s->n_level > 1) theta_vjp(s, worker, B, b->theta, w->grad_lik, w);
  for (atvi_idx i = 0; i < s->d; i++) {
    double *dx = b->dx + i * B;
    const double *x = b->x + i * B;
    for (atvi_idx j = 0; j < B; j++) dx[j] = 0;
    atvi_transform_map_vjp(&s->map[i], B, x, w->grad_lik + i * B, w->alive, dx);
    for (atvi_idx j = 0; j < B && s->stand_in; j++)
      dx[j] += w->alive[j] > 0 ? lik * w->stand_in.lik_x[i * B + j] : 0;
    if (!s->from_prior)
      for (atvi_idx j = 0; j < B; j++)
        if (isfinite(b->log_pi[j])) dx[j] -= (1 - b->beta) * x[j];
  }
  for (atvi_idx j = 0; j < B; j++) { /* a run without a usable gradient is a failed run */
    bool good = true;
    for (atvi_idx i = 0; i < s->d; i++) good = good && isfinite(b->dx[i * B + j]);
    for (atvi_idx i = 0; i < s->d && !good; i++) b->dx[i * B + j] = 0;
    if (!good) b->log_pi[j] = -HUGE_VAL;
  }
}

/* Of what stands in for the model: log_lik, and its gradient by x, if a gradient is wanted. Its coordinates
 * are the images inside the box. */
static void stand_in(const atvi_space *s, int worker, const atvi_space_batch *b, const scratch *w) {
  atvi_idx B = b->B, d = s->d;
  const double *z = s->n_level > 1 ? w->anchor.z : b->theta;
  for (atvi_idx i = 0; i < d; i++) {
    if (s->map[i].kind == ATVI_MAP_SURJECTION)
      atvi_transform_map_inv(&s->map[i], B, z + i * B, w->stand_in.x + i * B);
    else
      copy_row(B, b->x + i * B, w->stand_in.x + i * B);
  }
  atvi_infer_stand_in_eval(s->stand_in, worker, B, w->stand_in.x, w->log_lik,
                           b->dx ? w->stand_in.lik_x : NULL);
  for (atvi_idx j = 0; j < B; j++) w->alive[j] = 0;
  for (atvi_idx i = 0; i < d && b->dx; i++) {
    double *dx = w->stand_in.lik_x + i * B, *dz = w->stand_in.x + i * B;
    if (s->map[i].kind != ATVI_MAP_SURJECTION) continue;
    for (atvi_idx j = 0; j < B; j++) dz[j] = dx[j] / s->map[i].scale, dx[j] = 0;
    atvi_transform_map_vjp(&s->map[i], B, b->x + i * B, dz, w->alive, dx);
  }
  for (atvi_idx i = 0; i < d * B && b->dx; i++) w->grad_lik[i] = 0;
}

/* After an evaluation that gave log prior and likelihood of the units: those of the blocks. */
static void add_units(const atvi_space *s, atvi_idx B, const double *unit, const scratch *w) {
  const atvi_idx n_unit = s->target->n_unit;
  for (int k = 0; k < 2; k++)
    for (atvi_idx u = 0; u < n_unit; u++) {
      const double *from = unit + (k * n_unit + u) * B;
      double *to = w->by_block + (k * (1 + s->blocks.n) + s->blocks.unit[u]) * B;
      for (atvi_idx j = 0; j < B; j++) to[j] += from[j];
    }
}

void atvi_infer_space_eval_on(const atvi_space *s, int worker, const atvi_space_batch *b) {
  scratch w = lay(s, worker);
  atvi_idx B = b->B, d = s->d, n_unit = s->target->n_unit, n_row = 1 + s->blocks.n;
  double *unit = b->block_prior ? s->blocks.room[worker] : NULL;
  if (unit) w.by_block = unit + 2 * n_unit * ATVI_BATCH;
  ATVI_ASSERT(B <= ATVI_BATCH);
  ATVI_ASSERT(!b->dlik || (!b->dx && !s->stand_in));
  for (atvi_idx i = 0; i < d * B && (b->dx || b->dlik); i++)
    w.grad_prior[i] = w.grad_lik[i] = NAN; /* what is not set is no gradient */
  fwd(s, worker, B, b->x, b->theta, &w);
  bool run = !s->stand_in;
  atvi_model_evaluator_run_on(s->ev, worker,
                              &(atvi_batch){.B = B,
                                            .theta = b->theta,
                                            .log_prior = w.log_prior,
                                            .log_lik = run ? w.log_lik : NULL,
                                            .grad_prior = b->dx ? w.grad_prior : NULL,
                                            .grad_lik = run && (b->dx || b->dlik) ? w.grad_lik : NULL,
                                            .outcome = w.outcome,
                                            .unit_prior = unit,
                                            .unit_lik = unit ? unit + n_unit * B : NULL});
  if (!run) stand_in(s, worker, b, &w);
  if (unit) add_units(s, B, unit, &w);
  if (!s->from_prior) normal_base(d, B, b->x, w.base);
  for (atvi_idx j = 0; j < B; j++) {
    double lp = w.log_prior[j] + w.ldj[j], ll = w.log_lik[j];
    if (w.outcome[j] != ATVI_RUN_OK || !isfinite(lp) || !isfinite(ll)) {
      bool failed = w.outcome[j] != ATVI_RUN_OK && w.outcome[j] != ATVI_RUN_OUTSIDE;
      w.log_lik[j] = failed || isnan(ll) ? NAN : -HUGE_VAL;
      lp = -HUGE_VAL;
      ll = -HUGE_VAL;
    }
    bool dead = lp == -HUGE_VAL;
    double one = dead ? -HUGE_VAL : ll + lp;
    if (s->from_prior) {
      w.base[j] = lp;
      w.pi[j] = dead ? -HUGE_VAL : b->beta * ll + lp;
    } else {
      w.pi[j] = dead ? -HUGE_VAL : b->beta * one + (1 - b->beta) * w.base[j];
    }
    w.pi_one[j] = one;
  }
  put(B, w.log_lik, b->log_lik);
  put(B, w.log_prior, b->log_prior);
  put(B, w.base, b->log_base);
  put(B, w.pi, b->log_pi);
  put(B, w.pi_one, b->log_pi_one);
  if (unit) {
    put(n_row * B, w.by_block, b->block_prior);
    put(n_row * B, w.by_block + n_row * B, b->block_lik);
    put(n_row * B, w.by_block + 2 * n_row * B, b->block_ldj);
  }
  put(d * B, w.grad_lik, b->dlik);
  if (b->dx) gradient(s, worker, b, &w);
}

typedef struct {
  const atvi_space *s;
  const atvi_space_batch *b;
  atvi_idx part;
} job;

static void eval_item(void *arg, atvi_idx item, int worker) {
  const job *j = arg;
  const atvi_space_batch *b = j->b;
  atvi_idx d = j->s->d, first = item * j->part, n = b->B - first < j->part ? b->B - first : j->part;
  scratch w = lay(j->s, worker);
  gather(d, n, b->x, w.x, first, b->B);
  atvi_space_batch in = {.B = n, .x = w.x, .beta = b->beta, .theta = w.theta, .log_pi = w.pi};
  in.dx = b->dx ? w.dx : NULL;
  in.dlik = b->dlik ? w.grad_prior : NULL;
  atvi_idx rows = 1 + j->s->blocks.n;
  double *by_block =
      b->block_prior ? j->s->blocks.room[worker] + (2 * j->s->target->n_unit + 3 * rows) * ATVI_BATCH : NULL;
  if (by_block) {
    in.block_prior = by_block;
    in.block_lik = by_block + rows * n;
    in.block_ldj = by_block + 2 * rows * n;
  }
  atvi_infer_space_eval_on(j->s, worker, &in);
  scatter(d, n, w.theta, b->theta, first, b->B);
  scatter(d, n, w.dx, b->dx, first, b->B);
  scatter(d, n, w.grad_prior, b->dlik, first, b->B);
  scatter(1, n, w.log_lik, b->log_lik, first, b->B);
  scatter(1, n, w.log_prior, b->log_prior, first, b->B);
  scatter(1, n, w.base, b->log_base, first, b->B);
  scatter(1, n, w.pi, b->log_pi, first, b->B);
  scatter(1, n, w.pi_one, b->log_pi_one, first, b->B);
  scatter(rows, n, in.block_prior, b->block_prior, first, b->B);
  scatter(rows, n, in.block_lik, b->block_lik, first, b->B);
  scatter(rows, n, in.block_ldj, b->block_ldj, first, b->B);
}

void atvi_infer_space_eval(const atvi_space *s, const atvi_space_batch *b) {
  int threads = atvi_ctx_threads(s->ctx);
  atvi_idx part = (b->B / (4 * threads) + PART_MIN - 1) / PART_MIN * PART_MIN;
  part = part < PART_MIN ? PART_MIN : part > ATVI_BATCH ? ATVI_BATCH : part;
  job j = {s, b, part};
  atvi_parallel(s->ctx, (b->B + part - 1) / part, eval_item, &j);
}
