/* SPDX-License-Identifier: MIT */
/* Alternatives of a density. Where `logp` is written as one of several expressions, by their size (max, min), by a condition (if), or as
 * the log of a sum of their exponentials, each of them may hold a mode that nothing leads to: where another is larger by thirty nats,
 * neither value nor gradient knows of it. So every alternative is made a density of its own, which is climbed when modes are
 * looked for.
 *
 * expand   In x, part of the density `whole`, take the outermost nodes that choose; for each alternative of each of them put that in its
 *          place, and go on inside it. What chooses nothing any more is a branch. */
#include "model/model.h"
#include <string.h>

/* More of them is a mixture for every row of data, whose modes are elsewhere. */
enum { MOST = 32 };

typedef struct {
  atvi_graph *g;
  atvi_pool *pool;
  atvi_node branch[MOST];
  atvi_idx n;
  bool many;
} search;

/* Whether a node chooses between two densities, alternative[2]. A number is none: max(x, 0) is a kink, and -inf a region that is cut out. */
static bool chooses(const atvi_graph *g, atvi_node x, atvi_node *alternative) {
  atvi_node_info s = atvi_graph_get(g, x);
  int first = s.op == ATVI_OP_SELECT ? 1 : 0;
  if (s.op != ATVI_OP_MAX && s.op != ATVI_OP_MIN && s.op != ATVI_OP_LOG_ADD && s.op != ATVI_OP_SELECT)
    return false;
  for (int k = 0; k < 2; k++) alternative[k] = s.arg[first + k];
  return !atvi_graph_is_const(g, alternative[0], NULL) && !atvi_graph_is_const(g, alternative[1], NULL);
}

/* The outermost nodes of x that choose: choice[MOST]; returns how many. */
static atvi_idx outermost(search *s, atvi_node x, atvi_node *choice) {
  atvi_node two[2];
  atvi_idx n = 0;
  bool *need = atvi_pool_take(s->pool, (size_t)x + 1, sizeof *need);
  if (!need) return 0;
  need[x] = true;
  for (atvi_node i = x; i >= 0; i--) {
    if (!need[i]) continue;
    if (chooses(s->g, i, two)) {
      if (n == MOST) return MOST + 1;
      choice[n++] = i;
      continue;
    }
    atvi_node_info a = atvi_graph_get(s->g, i);
    for (int k = 0; k < a.n_arg; k++) need[a.arg[k]] = true;
  }
  return n;
}

static void expand(search *s, atvi_node whole, atvi_node x, int deep) {
  atvi_node choice[MOST], two[2];
  atvi_idx n = outermost(s, x, choice);
  s->many = s->many || n > MOST || (n == 0 && deep > 0 && s->n == MOST);
  if (s->many) return;
  if (n == 0 && deep > 0) s->branch[s->n++] = whole;
  for (atvi_idx i = 0; i < n; i++) {
    chooses(s->g, choice[i], two);
    for (int k = 0; k < 2 && !s->many; k++) {
      atvi_node in = whole;
      atvi_graph_substitute(s->g, 1, &in, 1, &choice[i], &two[k]);
      if (!atvi_graph_failed(s->g)) expand(s, in, two[k], deep + 1);
    }
  }
}

atvi_status atvi_model_branches(atvi_model *m) {
  search s = {.g = m->lang->graph, .pool = m->pool};
  expand(&s, m->lang->log_extra, m->lang->log_extra, 0);
  if (atvi_graph_failed(s.g)) return ATVI_ENOMEM;
  if (s.many || s.n < 2) return ATVI_OK;
  m->branch_node = atvi_pool_take(m->pool, (size_t)s.n, sizeof *m->branch_node);
  m->branch = atvi_pool_take(m->pool, (size_t)s.n, sizeof *m->branch);
  if (!m->branch_node || !m->branch) return ATVI_ENOMEM;
  memcpy(m->branch_node, s.branch, (size_t)s.n * sizeof *s.branch);
  m->n_branch = s.n;
  return ATVI_OK;
}
