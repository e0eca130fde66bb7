/* SPDX-License-Identifier: MIT */
#include "sim/vote.h"
#include <string.h>

static bool keep_times(atvi_sim_vote *v, atvi_sim_party *p, int64_t id, const atvi_sim_series *s) {
  p->id = id;
  p->times.n = s->n;
  if (!s->time) return true;
  if (!p->times.time) p->times.time = atvi_pool_take(v->pool, (size_t)s->n, sizeof(double));
  if (p->times.time) memcpy(p->times.time, s->time, (size_t)s->n * sizeof(double));
  return p->times.time != NULL;
}

atvi_idx atvi_sim_vote_add(atvi_sim_vote *v, int64_t id, const atvi_sim_series *s) {
  for (atvi_idx k = 0; k < v->n; k++) {
    atvi_sim_party *p = &v->party[k];
    if (!atvi_sim_output_agrees(s, &p->times)) continue;
    p->n++;
    return id >= p->id || keep_times(v, p, id, s) ? k : -1;
  }
  if (!ATVI_PUSH(v->pool, v->party, v->n, v->cap)) return -1;
  v->party[v->n] = (atvi_sim_party){.n = 1};
  if (!keep_times(v, &v->party[v->n], id, s)) return -1;
  return v->n++;
}

void atvi_sim_vote_drop(atvi_sim_vote *v, atvi_idx party) { v->party[party].n--; }

atvi_idx atvi_sim_vote_winner(const atvi_sim_vote *v) {
  const atvi_sim_party *best = NULL;
  for (atvi_idx k = 0; k < v->n; k++) {
    const atvi_sim_party *p = &v->party[k];
    if (p->n == 0) continue;
    bool better = !best || p->n > best->n;
    if (best && p->n == best->n)
      better = p->times.n != best->times.n ? p->times.n > best->times.n : p->id < best->id;
    if (better) best = p;
  }
  return best ? best - v->party : -1;
}

const char *atvi_sim_vote_why(const atvi_sim_vote *v, atvi_pool *pool, const char *name, atvi_idx party) {
  const atvi_sim_party *most = &v->party[atvi_sim_vote_winner(v)];
  const char *why = atvi_sim_output_differs(pool, name, &v->party[party].times, &most->times, most->id);
  return atvi_pool_printf(pool, "at other times than most runs: %s", why ? why : name);
}
