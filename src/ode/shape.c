/* SPDX-License-Identifier: MIT */
/* Where a Jacobian differs from 0, and in which order its rows are eliminated.
 *
 * The matrices of implicit steps, I - h g J, have the entries of J and the diagonal. States are ordered so
 * that these lie near the diagonal (reverse Cuthill-McKee, each connected part by itself), unless the order
 * they have is as good. With r_i the last column of row i and f_i its first, the pivot k, whichever of the
 * rows that have reached column k it is, changes rows up to low_k = max{i : f_i <= k} and columns up to
 * right_k = max{r_i : i <= low_k}. Outside there are zeros, which dense elimination would carry along:
 * results are the same. Subjects with states of their own are blocks on the diagonal, and chains of
 * compartments a band. */
#include "ode/ode.h"

typedef struct {
  atvi_idx n;
  const bool *full;      /* [n][n] the entry or its mirror image is there */
  int32_t *degree;       /* [n] */
  int32_t *order, *seen; /* [n]; seen: 1 once it has a place */
  atvi_idx placed;
} search;

/* The states next to order[from], in the order of their degrees. */
static void place_neighbours(search *s, atvi_idx from) {
  const bool *row = s->full + s->order[from] * s->n;
  for (;;) {
    atvi_idx best = -1;
    for (atvi_idx j = 0; j < s->n; j++)
      if (row[j] && !s->seen[j] && (best < 0 || s->degree[j] < s->degree[best])) best = j;
    if (best < 0) return;
    s->seen[best] = 1;
    s->order[s->placed++] = (int32_t)best;
  }
}

static void reverse_cuthill_mckee(search *s) {
  for (atvi_idx next = 0; s->placed < s->n;) {
    atvi_idx root = -1;
    for (atvi_idx j = 0; j < s->n; j++)
      if (!s->seen[j] && (root < 0 || s->degree[j] < s->degree[root])) root = j;
    s->seen[root] = 1;
    s->order[s->placed++] = (int32_t)root;
    for (; next < s->placed; next++) place_neighbours(s, next);
  }
  for (atvi_idx i = 0, j = s->n - 1; i < j; i++, j--) {
    int32_t x = s->order[i];
    s->order[i] = s->order[j];
    s->order[j] = x;
  }
}

/* low, right and the operations in this order; place[n]: the inverse of order, set here. */
static void reach(atvi_ode_shape *s, atvi_idx n, const int32_t *at, const int32_t *order, int32_t *place,
                  int32_t *low, int32_t *right) {
  for (atvi_idx i = 0; i < n; i++) place[order[i]] = (int32_t)i;
  for (atvi_idx k = 0; k < n; k++) low[k] = right[k] = (int32_t)k;
  for (atvi_idx e = 0; e < s->n_entry; e++) { /* the last row of each column, the last column of each row */
    int32_t i = place[at[e] / n], j = place[at[e] % n];
    if (i > low[j]) low[j] = i;
    if (j > right[i]) right[i] = j;
  }
  for (atvi_idx k = 1; k < n; k++)
    if (low[k] < low[k - 1]) low[k] = low[k - 1];
  int32_t most = 0;
  s->factor = s->solve = 0;
  for (atvi_idx k = 0, i = 0; k < n; k++) {
    for (; i <= low[k]; i++) most = right[i] > most ? right[i] : most;
    right[k] = most;
    double rows = low[k] - (double)k, columns = right[k] - (double)k;
    s->factor += rows * (1 + 2 * columns);
    s->solve += 1 + 2 * (rows + columns);
  }
  s->order = order;
  s->low = low;
  s->right = right;
}

static bool by_search(atvi_pool *pool, atvi_idx n, atvi_idx n_entry, const int32_t *at, int32_t *order) {
  bool *full = atvi_pool_take(pool, (size_t)(n * n), sizeof *full);
  search s = {.n = n, .full = full, .order = order};
  s.degree = atvi_pool_take(pool, (size_t)n, sizeof *s.degree);
  s.seen = atvi_pool_take(pool, (size_t)n, sizeof *s.seen);
  if (!full || !s.degree || !s.seen) return false;
  for (atvi_idx e = 0; e < n_entry; e++) full[at[e]] = full[at[e] % n * n + at[e] / n] = true;
  for (atvi_idx i = 0; i < n * n; i++) s.degree[i / n] += full[i] && i / n != i % n;
  reverse_cuthill_mckee(&s);
  return true;
}

const atvi_ode_shape *atvi_ode_shape_new(atvi_pool *pool, atvi_idx n, atvi_idx n_entry,
                                         const int32_t *entry) {
  atvi_ode_shape *shape = atvi_pool_take(pool, 1, sizeof *shape), other;
  int32_t *room = atvi_pool_take(pool, (size_t)(8 * n), sizeof *room);
  int32_t *at = atvi_pool_take(pool, (size_t)(n_entry ? n_entry : 1), sizeof *at);
  if (!shape || !room || !at || !by_search(pool, n, n_entry, entry, room + n)) return NULL;
  for (atvi_idx i = 0; i < n; i++) room[i] = (int32_t)i;
  shape->n_entry = n_entry;
  other = *shape;
  reach(shape, n, entry, room, room + 2 * n, room + 3 * n, room + 4 * n);
  reach(&other, n, entry, room + n, room + 5 * n, room + 6 * n, room + 7 * n);
  const int32_t *place = room + 2 * n;
  if (other.factor < shape->factor) *shape = other, place = room + 5 * n;
  for (atvi_idx e = 0; e < n_entry; e++) at[e] = (int32_t)(place[entry[e] / n] * n + place[entry[e] % n]);
  shape->at = at;
  return shape;
}
