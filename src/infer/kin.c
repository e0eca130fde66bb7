/* SPDX-License-Identifier: MIT */
#include "infer/kin.h"
#include <string.h>

/* ---- who is kin ---- */

bool atvi_infer_kin_alike(const atvi_target *t, atvi_idx a, atvi_idx b, atvi_idx B, const double *scale) {
  const atvi_prior_link *p = &t->prior[a], *q = &t->prior[b];
  size_t on = (size_t)p->n_on_scale * sizeof *p->on;
  return p->form == q->form && p->n_on_scale == q->n_on_scale && memcmp(p->on, q->on, on) == 0 &&
         memcmp(scale + a * B, scale + b * B, (size_t)B * sizeof *scale) == 0;
}

/* Whether nobody but members begins with root, which has a scale of its own. */
static bool is_root(const atvi_target *t, const atvi_idx *after, const bool *in, atvi_idx root) {
  for (atvi_idx j = 0; j < t->d; j++)
    if (after[j] == root && (!in[j] || t->prior[j].form != t->prior[root].form)) return false;
  return true;
}

/* What members begin with joins them, if all of them are then a chain; in[d] and *k are as they were if not.
 * list: [d] */
static bool add_roots(const atvi_target *t, const atvi_idx *after, const bool *own, bool *taken, bool *in,
                      const atvi_kin_data *data, atvi_idx *list, atvi_kin *k) {
  bool linked = false;
  atvi_idx n = 0, joined = 0;
  for (atvi_idx j = 0; j < t->d; j++) {
    linked = linked || (in[j] && after[j] >= 0 && in[after[j]]);
    if (in[j]) list[n++] = j;
  }
  for (atvi_idx m = 0; m < k->n && linked; m++) {
    atvi_idx root = after[list[m]];
    if (root < 0 || in[root] || taken[root] || !own[root] || !is_root(t, after, in, root)) continue;
    in[root] = taken[root] = true;
    list[n++] = root;
    joined++;
  }
  linked = linked && t->prior[list[0]].form == ATVI_PRIOR_LINE; /* of which locations are affine */
  if (linked && n <= ATVI_CHAIN_BAND && data->is_normal(data->user, n, list)) {
    k->n = n;
    return true;
  }
  for (atvi_idx m = n - joined; m < n; m++) in[list[m]] = taken[list[m]] = false;
  return false;
}

/* Members in the order in which values follow from each other; in[d] says who is a member. */
static void put_in_order(const atvi_target *t, const atvi_idx *after, bool *in, atvi_kin *k) {
  atvi_idx want = k->n;
  for (k->n = 0; k->n < want;)
    for (atvi_idx i = 0; i < t->d; i++) {
      atvi_idx loc = in[i] ? after[i] : -1;
      if (!in[i] || (loc >= 0 && in[loc])) continue;
      k->before[k->n] = -1;
      for (atvi_idx m = 0; m < k->n; m++)
        if (k->of[m] == loc) k->before[k->n] = m;
      bool inner = k->before[k->n] >= 0;
      k->linked = k->linked || inner;
      k->chain = k->chain || (inner && t->prior[i].location != loc);
      if (inner && k->n - k->before[k->n] > k->least_width) k->least_width = k->n - k->before[k->n];
      k->of[k->n++] = i;
      in[i] = false;
    }
}

/* Room for G and h. */
static bool make_chain(atvi_pool *pool, atvi_idx d, atvi_kin *k) {
  size_t n = (size_t)k->n;
  k->width = k->least_width;
  k->g = atvi_pool_take(pool, n * (n < ATVI_CHAIN_BAND ? n : ATVI_CHAIN_BAND), sizeof *k->g);
  k->h = atvi_pool_take(pool, n, sizeof *k->h);
  k->gain_of = atvi_pool_take(pool, (size_t)d, sizeof *k->gain_of);
  k->gain_at = atvi_pool_take(pool, (size_t)d, sizeof *k->gain_at);
  k->power = atvi_pool_take(pool, (size_t)d, sizeof *k->power);
  return !atvi_pool_failed(pool);
}

atvi_kin *atvi_infer_kin_find(atvi_pool *pool, const atvi_target *t, const bool *own, const atvi_idx *after,
                              atvi_idx B, const double *scale, const atvi_kin_data *data, atvi_idx *n_kin) {
  bool *taken = atvi_pool_take(pool, (size_t)t->d, sizeof *taken);
  bool *in = atvi_pool_take(pool, (size_t)t->d, sizeof *in);
  atvi_idx *list = atvi_pool_take(pool, (size_t)t->d, sizeof *list);
  atvi_kin *kin = atvi_pool_take(pool, (size_t)t->d, sizeof *kin);
  *n_kin = 0;
  if (!taken || !in || !list || !kin) return NULL;
  for (atvi_idx i = 0; i < t->d; i++) {
    atvi_kin k = {0};
    if (!own[i] || taken[i] || t->prior[i].n_on_scale == 0) continue;
    for (atvi_idx j = i; j < t->d; j++) {
      in[j] = own[j] && !taken[j] && atvi_infer_kin_alike(t, i, j, B, scale);
      k.n += in[j];
    }
    if (k.n < 2) {
      in[i] = false;
      continue;
    }
    for (atvi_idx j = i; j < t->d; j++) taken[j] = taken[j] || in[j];
    k.chain = add_roots(t, after, own, taken, in, data, list, &k);
    size_t n = (size_t)k.n;
    k.of = atvi_pool_take(pool, n, sizeof *k.of);
    k.before = atvi_pool_take(pool, n, sizeof *k.before);
    k.room = atvi_pool_take(pool, n * n, sizeof *k.room);
    if (!k.of || !k.before || !k.room) return NULL;
    put_in_order(t, after, in, &k);
    if (k.chain && k.least_width >= ATVI_CHAIN_BAND) continue; /* too many have the same one before them */
    if (k.chain && !make_chain(pool, t->d, &k)) return NULL;
    kin[(*n_kin)++] = k;
  }
  return *n_kin > 0 ? kin : NULL;
}

/* ---- coordinates ---- */

bool atvi_infer_kin_together(const atvi_kin *k) { return k->linked || k->turn; }

/* The members' rows become V rows, or V' rows. */
static void turn(const atvi_kin *k, atvi_idx B, bool back, double *row, double *work) {
  if (!k->turn) return;
  for (atvi_idx i = 0; i < k->n; i++) memcpy(work + i * B, row + k->of[i] * B, (size_t)B * sizeof *work);
  for (atvi_idx i = 0; i < k->n; i++) {
    double *to = row + k->of[i] * B;
    memset(to, 0, (size_t)B * sizeof *to);
    for (atvi_idx m = 0; m < k->n; m++) {
      double by = back ? k->turn[m * k->n + i] : k->turn[i * k->n + m];
      const double *from = work + m * B;
      for (atvi_idx j = 0; j < B; j++) to[j] += by * from[j];
    }
  }
}

static void add(atvi_idx B, double by, const double *from, double *to) {
  for (atvi_idx j = 0; j < B; j++) to[j] += by * from[j];
}

static double *before(const atvi_kin *k, atvi_idx i, atvi_idx B, double *row) {
  return k->before[i] < 0 ? NULL : row + k->of[k->before[i]] * B;
}

/* Members that have one before them get their location from it. */
static void clear_inner(const atvi_kin *k, atvi_idx B, double *loc) {
  for (atvi_idx i = 0; i < k->n; i++)
    if (k->before[i] >= 0) memset(loc + k->of[i] * B, 0, (size_t)B * sizeof *loc);
}

void atvi_infer_kin_locate(const atvi_kin *k, atvi_idx B, double *loc, double *work) {
  clear_inner(k, B, loc);
  turn(k, B, true, loc, work);
}

void atvi_infer_kin_locate_vjp(const atvi_kin *k, atvi_idx B, double *dloc, double *work) {
  turn(k, B, false, dloc, work);
  clear_inner(k, B, dloc);
}

void atvi_infer_kin_fwd(const atvi_kin *k, atvi_idx B, double *theta, double *work) {
  turn(k, B, false, theta, work);
  for (atvi_idx i = 0; i < k->n; i++)
    if (k->before[i] >= 0) add(B, 1, before(k, i, B, theta), theta + k->of[i] * B);
}

void atvi_infer_kin_fwd_vjp(const atvi_kin *k, atvi_idx B, double *dtheta, double *work) {
  for (atvi_idx i = k->n - 1; i >= 0; i--)
    if (k->before[i] >= 0) add(B, 1, dtheta + k->of[i] * B, before(k, i, B, dtheta));
  turn(k, B, true, dtheta, work);
}

void atvi_infer_kin_inv(const atvi_kin *k, atvi_idx B, double *theta, double *work) {
  for (atvi_idx i = k->n - 1; i >= 0; i--)
    if (k->before[i] >= 0) add(B, -1, before(k, i, B, theta), theta + k->of[i] * B);
  turn(k, B, true, theta, work);
}
