/* SPDX-License-Identifier: MIT */
/* Substitution and hoisting: both walk down from x[n] once to see what is needed, then up once
 * to make the new nodes. A node whose arguments stay is kept as it is. */
#include "graph/internal.h"
#include <string.h>

typedef struct {
  atvi_node *to; /* [n] image of each node; ATVI_NODE_NONE: not needed, or not yet known */
  bool *need;    /* [n] */
  atvi_idx n;    /* nodes when the walk began */
} walk;

static bool walk_new(atvi_graph *g, walk *w) {
  w->n = g->n;
  w->to = atvi_block(g->ctx, (size_t)g->n * sizeof *w->to);
  w->need = atvi_block(g->ctx, (size_t)g->n * sizeof *w->need);
  if (!w->to || !w->need) {
    atvi_block_free(g->ctx, w->to);
    atvi_block_free(g->ctx, w->need);
    g->failed = true;
    return false;
  }
  for (atvi_idx i = 0; i < g->n; i++) w->to[i] = ATVI_NODE_NONE;
  return true;
}

static void walk_free(atvi_graph *g, walk *w) {
  atvi_block_free(g->ctx, w->to);
  atvi_block_free(g->ctx, w->need);
}

/* Does not look below nodes whose image is known. */
static void need_from(const atvi_graph *g, walk *w, atvi_idx n, const atvi_node *x) {
  for (atvi_idx i = 0; i < n; i++)
    if (x[i] != ATVI_NODE_NONE) w->need[x[i]] = true;
  for (atvi_idx i = w->n - 1; i >= 0; i--) {
    if (!w->need[i] || w->to[i] != ATVI_NODE_NONE) continue;
    for (int k = 0; k < g->node[i].n_arg; k++) w->need[g->node[i].arg[k]] = true;
  }
}

static void rebuild(atvi_graph *g, walk *w, atvi_idx n, atvi_node *x) {
  for (atvi_idx i = 0; i < w->n && !g->failed; i++) {
    if (!w->need[i] || w->to[i] != ATVI_NODE_NONE) continue;
    atvi_gnode s = g->node[i]; /* a copy: the array may move */
    atvi_node arg[4];
    bool kept = true;
    for (int k = 0; k < s.n_arg; k++) {
      arg[k] = w->to[s.arg[k]];
      kept = kept && arg[k] == s.arg[k];
    }
    w->to[i] = kept ? (atvi_node)i : atvi_graph_make(g, &s, arg);
  }
  for (atvi_idx i = 0; i < n; i++) x[i] = g->failed || x[i] == ATVI_NODE_NONE ? ATVI_NODE_NONE : w->to[x[i]];
}

void atvi_graph_substitute(atvi_graph *g, atvi_idx n, atvi_node *x, atvi_idx n_sub, const atvi_node *from,
                           const atvi_node *to) {
  walk w;
  if (g->failed || !walk_new(g, &w)) {
    for (atvi_idx i = 0; i < n; i++) x[i] = ATVI_NODE_NONE;
    return;
  }
  for (atvi_idx i = 0; i < n_sub; i++)
    if (from[i] != ATVI_NODE_NONE) w.to[from[i]] = to[i];
  need_from(g, &w, n, x);
  rebuild(g, &w, n, x);
  walk_free(g, &w);
}

static bool is_invariant(const atvi_gnode *s, uint32_t kinds) {
  return s->kinds != 0 && (s->kinds & ~kinds) == 0;
}

/* Walks down from x, stopping at invariant nodes: those reached are the largest ones. */
static void find_invariant(const atvi_graph *g, walk *w, atvi_idx n, const atvi_node *x, uint32_t kinds) {
  for (atvi_idx i = 0; i < n; i++)
    if (x[i] != ATVI_NODE_NONE) w->need[x[i]] = true;
  for (atvi_idx i = w->n - 1; i >= 0; i--) {
    const atvi_gnode *s = &g->node[i];
    if (!w->need[i] || is_invariant(s, kinds)) continue;
    for (int k = 0; k < s->n_arg; k++) w->need[s->arg[k]] = true;
  }
}

void atvi_graph_hoist(atvi_graph *g, atvi_idx n, atvi_node *x, uint32_t kinds, int hoist_kind, atvi_idx cap,
                      atvi_node *hoisted, atvi_idx *n_hoisted) {
  walk w;
  if (g->failed || !walk_new(g, &w)) {
    for (atvi_idx i = 0; i < n; i++) x[i] = ATVI_NODE_NONE;
    return;
  }
  find_invariant(g, &w, n, x, kinds);
  for (atvi_idx k = 0; k < *n_hoisted; k++) w.to[hoisted[k]] = atvi_graph_input(g, hoist_kind, k);
  for (atvi_idx i = 0; i < w.n && !g->failed; i++) {
    if (!w.need[i] || w.to[i] != ATVI_NODE_NONE || !is_invariant(&g->node[i], kinds)) continue;
    if (*n_hoisted >= cap) {
      g->failed = true;
      break;
    }
    w.to[i] = atvi_graph_input(g, hoist_kind, *n_hoisted);
    hoisted[(*n_hoisted)++] = (atvi_node)i;
  }
  rebuild(g, &w, n, x);
  walk_free(g, &w);
}
