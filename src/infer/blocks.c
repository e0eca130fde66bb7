/* SPDX-License-Identifier: MIT */
#include "infer/space.h"

/* The unit that stands for all that u is taken together with. */
static atvi_idx root(const atvi_idx *up, atvi_idx u) {
  while (up[u] != u) u = up[u];
  return u;
}

/* owner[d]: the unit of which a parameter's prior is part. */
static void find_owners(const atvi_target *t, atvi_idx *owner) {
  for (atvi_idx i = 0; i < t->d; i++) owner[i] = 0;
  for (atvi_idx u = 0; u < t->n_unit; u++)
    for (atvi_idx k = t->unit[u].n_outer; k < t->unit[u].n_on; k++) owner[t->unit[u].on[k]] = u;
}

static bool is_common(const atvi_target *t, atvi_idx u) { return t->unit[u].name[0] == 0; }

/* Units that share parameters other than common ones are taken together; one without parameters of its own is
 * common. */
static atvi_idx number_units(const atvi_target *t, const atvi_idx *owner, atvi_idx *up, atvi_idx *block) {
  atvi_idx n = 0;
  for (atvi_idx u = 0; u < t->n_unit; u++) up[u] = u;
  for (atvi_idx u = 0; u < t->n_unit; u++)
    for (atvi_idx k = 0; k < t->unit[u].n_on; k++) {
      atvi_idx of = owner[t->unit[u].on[k]];
      if (!is_common(t, of)) up[root(up, u)] = root(up, of);
    }
  for (atvi_idx u = 0; u < t->n_unit; u++) block[u] = 0;
  for (atvi_idx i = 0; i < t->d; i++) {
    atvi_idx top = root(up, owner[i]);
    if (!is_common(t, owner[i]) && block[top] == 0) block[top] = ++n;
  }
  for (atvi_idx u = 0; u < t->n_unit; u++) block[u] = block[root(up, u)];
  return n;
}

/* The way from x to theta must keep blocks apart as well. */
static bool are_apart(const atvi_space *s, const atvi_blocks *b) {
  for (atvi_idx i = 0; i < s->d; i++) {
    const atvi_space_link *a = &s->link[i];
    if (a->form == ATVI_PRIOR_ALONE) continue;
    const atvi_prior_link *p = &s->target->prior[i];
    for (atvi_idx k = 0; k < p->n_on; k++) {
      atvi_idx on = b->of[p->on[k]];
      if (on != 0 && on != b->of[i]) return false;
      /* A message takes the scale along, to all that it reaches. */
      for (atvi_idx to = a->to; to >= 0 && k < p->n_on_scale && on != 0; to = s->link[to].to)
        if (b->of[to] != on) return false;
    }
  }
  for (atvi_idx k = 0; k < s->n_kin; k++)
    for (atvi_idx m = 0; m < s->kin[k].n_gain; m++) {
      atvi_idx on = b->of[s->kin[k].gain_of[m]];
      if (on != 0 && on != b->of[s->kin[k].of[0]]) return false;
    }
  for (atvi_idx k = 0; k < s->n_kin; k++)
    for (atvi_idx m = 1; m < s->kin[k].n && atvi_infer_kin_together(&s->kin[k]); m++)
      if (b->of[s->kin[k].of[m]] != b->of[s->kin[k].of[0]]) return false;
  return true;
}

atvi_status atvi_infer_blocks_find(const atvi_space *s, atvi_blocks *out) {
  const atvi_target *t = s->target;
  int threads = atvi_ctx_threads(s->ctx);
  atvi_blocks b = {0};
  *out = b;
  if (t->n_unit < 3 || !is_common(t, 0)) return ATVI_OK;
  b.of = atvi_pool_take(s->pool, (size_t)t->d, sizeof *b.of);
  b.unit = atvi_pool_take(s->pool, (size_t)t->n_unit, sizeof *b.unit);
  b.room = atvi_pool_take(s->pool, (size_t)threads, sizeof *b.room);
  atvi_idx *owner = atvi_pool_take(s->pool, (size_t)t->d, sizeof *owner);
  atvi_idx *up = atvi_pool_take(s->pool, (size_t)t->n_unit, sizeof *up), common = 0;
  if (atvi_pool_failed(s->pool)) return ATVI_ENOMEM;
  find_owners(t, owner);
  b.n = number_units(t, owner, up, b.unit);
  for (atvi_idx i = 0; i < t->d; i++) b.of[i] = b.unit[owner[i]], common += b.of[i] == 0;
  if (b.n < 2 || common == 0 || !are_apart(s, &b)) return ATVI_OK;
  size_t room = (size_t)(2 * t->n_unit + 6 * (1 + b.n)) * ATVI_BATCH;
  for (int k = 0; k < threads; k++) b.room[k] = atvi_pool_take(s->pool, room, sizeof(double));
  if (atvi_pool_failed(s->pool)) return ATVI_ENOMEM;
  *out = b;
  return ATVI_OK;
}
