/* SPDX-License-Identifier: MIT */
/* Loops that become one.
 *
 * Loops with as many copies, each of which reads one copy of the other, need not pass their values on through memory: copy by copy they
 * are one loop. So is a chain that adds up what the copies of a loop compute.
 *
 *   times   Pieces of one instruction have even times, loops and chains odd ones, each as early as what they read permits; a
 *           piece never reads another loop of its own time. What is read latest is of one time: if that is one loop, and the copies fit,
 *           then all else is known before that loop begins, and the piece joins it, at its time.
 *   order   The copies of a loop do not depend on each other, so that a piece that joins takes the order that is there, and
 *           the first chain that joins sets it. Terms are added up in the order of the chain, as ever. */
#include "graph/internal.h"
#include <string.h>

typedef struct {
  atvi_pool *pool;
  const atvi_graph_code *code;
  const atvi_ins *ins;
  atvi_pieces *p; /* in topological order */
  int32_t *time;  /* [p->n] */
  int32_t *into;  /* [p->n] piece that this one has joined; itself: none */
  int32_t *copy;  /* [instructions] copy of its piece */
  bool *ordered;  /* [p->n] a chain has set the order of the copies */
  int32_t *turn;  /* [most copies] scratch: which copy goes where */
  bool *taken;    /* [most copies] scratch, false between uses */
} fusion;

static bool is_loop(const atvi_piece *x) { return x->n_copy > 1 || x->chain; }

static const atvi_ins *link_of(const fusion *f, const atvi_piece *x, atvi_idx k) {
  return &f->ins[x->ins[k]];
}

static bool is_commutative(const atvi_ins *s) { return s->op == ATVI_OP_ADD || s->op == ATVI_OP_MUL; }

/* ---- chains by what they add up ---- */

/* Links from `from` on that add up values of one loop in one way. */
static atvi_idx run_length(const fusion *f, const atvi_piece *x, atvi_idx from, int32_t *loop) {
  atvi_idx to = from;
  for (; to < x->n_ins; to++) {
    const atvi_ins *s = link_of(f, x, to);
    int side = atvi_graph_term(f->code, x->ins, x->start, to);
    int32_t of = f->p->of[s->arg[side]];
    if (to == from) *loop = of;
    if (of < 0 || of != *loop || f->p->piece[of].n_copy < 2) break;
    if (s->op != link_of(f, x, from)->op) break;
    if (!is_commutative(s) && side != atvi_graph_term(f->code, x->ins, x->start, from)) break;
  }
  return to - from;
}

/* A chain that adds up all copies of a loop, one that it begins with among them: the sum then begins with what adds nothing. */
static bool begins_with_copy(const fusion *f, const atvi_piece *x, atvi_idx n, int32_t loop) {
  const atvi_ins *s = link_of(f, x, 0);
  return is_commutative(s) && f->p->of[s->arg[x->start]] == loop && f->p->piece[loop].n_copy == n + 1;
}

/* Links from .. to - 1 of a chain, as one of its own. */
static bool add_links(fusion *f, atvi_pieces *to, atvi_idx *cap, const atvi_piece *x, atvi_idx from,
                      atvi_idx end) {
  if (from == end) return true;
  if (!ATVI_PUSH(f->pool, to->piece, to->n, *cap)) return false;
  int start = 1 - atvi_graph_term(f->code, x->ins, x->start, from);
  to->piece[to->n++] =
      (atvi_piece){.chain = true, .start = start, .n_copy = 1, .n_ins = end - from, .ins = x->ins + from};
  return true;
}

/* Takes chains apart, so that what adds up all copies of a loop is a chain of its own. */
static bool split_chains(fusion *f) {
  atvi_pieces to = {.of = f->p->of};
  atvi_idx cap = 0;
  for (atvi_idx q = 0; q < f->p->n; q++) {
    const atvi_piece *x = &f->p->piece[q];
    if (!x->chain) {
      if (!ATVI_PUSH(f->pool, to.piece, to.n, cap)) return false;
      to.piece[to.n++] = *x;
      continue;
    }
    atvi_idx done = 0, n;
    for (atvi_idx k = 0; k<x->n_ins; k += n> 0 ? n : 1) {
      int32_t loop;
      n = run_length(f, x, k, &loop);
      bool whole = n > 0 && (f->p->piece[loop].n_copy == n || (k == 0 && begins_with_copy(f, x, n, loop)));
      if (!whole) continue;
      if (!add_links(f, &to, &cap, x, done, k) || !add_links(f, &to, &cap, x, k, k + n)) return false;
      done = k + n;
    }
    if (!add_links(f, &to, &cap, x, done, x->n_ins)) return false;
  }
  for (atvi_idx q = 0; q < to.n; q++)
    for (atvi_idx m = 0; m < to.piece[q].n_copy * to.piece[q].n_ins; m++)
      to.of[to.piece[q].ins[m]] = (int32_t)q;
  *f->p = to;
  return true;
}

/* ---- joining ---- */

/* The piece of argument k of s as far as things have been joined; -1: a number, an input, or q itself. */
static int32_t read_by(const fusion *f, int32_t q, const atvi_ins *s, int k) {
  int32_t of = f->p->of[s->arg[k]];
  return of < 0 || of == q ? -1 : f->into[of];
}

/* The earliest time, and the loop that is read last: -1 if there is none, or several. */
static int32_t latest_read(fusion *f, int32_t q) {
  const atvi_piece *x = &f->p->piece[q];
  int32_t latest = -1, loop = -1;
  for (atvi_idx m = 0; m < x->n_copy * x->n_ins; m++)
    for (int k = 0; k < f->ins[x->ins[m]].n_arg; k++) {
      int32_t of = read_by(f, q, &f->ins[x->ins[m]], k);
      if (of < 0) continue;
      if (f->time[of] == latest && of != loop) loop = -1;
      if (f->time[of] > latest) latest = f->time[of], loop = is_loop(&f->p->piece[of]) ? of : -1;
    }
  bool odd = latest % 2 != 0; /* of -1, too */
  f->time[q] = latest + (is_loop(x) ? odd + 1 : odd);
  if (f->ins[x->ins[0]].op == ATVI_INS_SCATTER)
    f->time[q] = (int32_t)(2 * f->p->n + 2); /* after all stores */
  return loop;
}

/* Whether argument k of instruction m of q reads the same piece of the loop in every copy: a loop that others have joined computes several
 * values in each copy, and which of them is read is written down once. */
static bool reads_alike(const fusion *f, const atvi_piece *x, atvi_idx m, int k, int32_t loop) {
  int32_t a = f->p->of[f->ins[x->ins[m]].arg[k]], b = f->p->of[f->ins[x->ins[m % x->n_ins]].arg[k]];
  bool here = a >= 0 && f->into[a] == loop, first = b >= 0 && f->into[b] == loop;
  return a == b || !(here || first);
}

/* turn[copy of the loop] = copy of q, if each copy of q reads one copy of the loop and each of them is read. */
static bool find_turns(fusion *f, int32_t q, int32_t loop) {
  const atvi_piece *x = &f->p->piece[q];
  atvi_idx n = f->p->piece[loop].n_copy;
  bool ok = x->n_copy == n;
  for (atvi_idx j = 0; j < n; j++) f->taken[j] = false;
  for (atvi_idx j = 0; ok && j < n; j++) {
    int32_t c = -1;
    for (atvi_idx m = j * x->n_ins; m < (j + 1) * x->n_ins; m++)
      for (int k = 0; k < f->ins[x->ins[m]].n_arg; k++) {
        ok = ok && reads_alike(f, x, m, k, loop);
        if (read_by(f, q, &f->ins[x->ins[m]], k) != loop) continue;
        int32_t a = f->ins[x->ins[m]].arg[k];
        ok = ok && (c < 0 || c == f->copy[a]) && !f->p->piece[f->p->of[a]].chain;
        c = f->copy[a];
      }
    ok = ok && c >= 0 && !f->taken[c];
    if (ok) f->taken[c] = true, f->turn[c] = (int32_t)j;
  }
  return ok;
}

/* turn[place] = copy of the loop that a chain adds at that place. */
static bool find_chain_turns(fusion *f, int32_t q, int32_t loop) {
  const atvi_piece *x = &f->p->piece[q];
  int32_t of;
  atvi_idx n = run_length(f, x, 0, &of), at = 0;
  bool own = n == x->n_ins && begins_with_copy(f, x, n, of);
  if (n != x->n_ins || f->into[of] != loop || f->p->piece[loop].n_copy != n + own) return false;
  if (!own && read_by(f, q, link_of(f, x, 0), x->start) == loop) return false;
  for (atvi_idx j = 0; j < n + own; j++) f->taken[j] = false;
  for (atvi_idx k = own ? -1 : 0; k < n; k++) {
    int32_t a = k < 0 ? link_of(f, x, 0)->arg[x->start]
                      : link_of(f, x, k)->arg[atvi_graph_term(f->code, x->ins, x->start, k)],
            c = f->copy[a];
    if (f->taken[c] || (f->ordered[loop] && c != at)) return false;
    f->taken[c] = true;
    f->turn[at++] = c;
  }
  return true;
}

/* The copies of x, turn[0] first. NULL on ENOMEM. */
static int32_t *turned(fusion *f, const atvi_piece *x) {
  int32_t *ins = atvi_pool_take(f->pool, (size_t)(x->n_copy * x->n_ins), sizeof *ins);
  for (atvi_idx j = 0; ins && j < x->n_copy; j++)
    for (atvi_idx m = 0; m < x->n_ins; m++) {
      ins[j * x->n_ins + m] = x->ins[f->turn[j] * x->n_ins + m];
      f->copy[ins[j * x->n_ins + m]] = (int32_t)j;
    }
  return ins;
}

static bool join(fusion *f, int32_t q, int32_t loop) {
  atvi_piece *x = &f->p->piece[q], *to = &f->p->piece[loop];
  f->into[q] = loop;
  f->time[q] = f->time[loop];
  if (!x->chain) {
    atvi_idx n = to->n_ins + x->n_ins;
    int32_t *own = turned(f, x), *ins = atvi_pool_take(f->pool, (size_t)(n * to->n_copy), sizeof *ins);
    if (!own || !ins) return false;
    for (atvi_idx j = 0; j < to->n_copy; j++) {
      memcpy(ins + j * n, to->ins + j * to->n_ins, (size_t)to->n_ins * sizeof *ins);
      memcpy(ins + j * n + to->n_ins, own + j * x->n_ins, (size_t)x->n_ins * sizeof *ins);
    }
    to->n_ins = n;
    to->ins = ins;
    return true;
  }
  if (!f->ordered[loop]) to->ins = turned(f, to);
  f->ordered[loop] = true;
  if (!to->ins || !ATVI_PUSH(f->pool, to->sum, to->n_sum, to->cap_sum)) return false;
  to->sum[to->n_sum++] =
      (atvi_piece_sum){.link = x->ins, .n = x->n_ins, .start = x->start, .own = to->n_copy == x->n_ins + 1};
  return true;
}

/* Pieces by their times, those that have joined others left out. */
static bool order_pieces(fusion *f) {
  atvi_idx n = f->p->n, *first = atvi_pool_take(f->pool, 2 * (size_t)n + 4, sizeof *first), left = 0;
  atvi_piece *sorted = atvi_pool_take(f->pool, (size_t)n, sizeof *sorted);
  if (!first || !sorted) return false;
  for (atvi_idx q = 0; q < n; q++)
    if (f->into[q] == q) first[f->time[q] + 1]++, left++;
  for (atvi_idx t = 1; t < 2 * n + 4; t++) first[t] += first[t - 1];
  for (atvi_idx q = 0; q < n; q++) {
    if (f->into[q] != q) continue;
    atvi_idx to = first[f->time[q]]++;
    const atvi_piece *x = &f->p->piece[q];
    sorted[to] = *x;
    for (atvi_idx m = 0; m < x->n_copy * x->n_ins; m++) f->p->of[x->ins[m]] = (int32_t)to;
    for (atvi_idx k = 0; k < x->n_sum; k++)
      for (atvi_idx m = 0; m < x->sum[k].n; m++) f->p->of[x->sum[k].link[m]] = (int32_t)to;
  }
  f->p->piece = sorted;
  f->p->n = left;
  return true;
}

bool atvi_graph_fuse(atvi_pool *pool, const atvi_graph_code *code, atvi_pieces *p) {
  fusion f = {.pool = pool, .code = code, .ins = code->ins, .p = p};
  if (!split_chains(&f)) return false;
  atvi_idx most = 1;
  for (atvi_idx q = 0; q < p->n; q++)
    if (p->piece[q].n_copy > most) most = p->piece[q].n_copy;
  f.time = atvi_pool_take(pool, (size_t)p->n, sizeof *f.time);
  f.into = atvi_pool_take(pool, (size_t)p->n, sizeof *f.into);
  f.ordered = atvi_pool_take(pool, (size_t)p->n, sizeof *f.ordered);
  f.copy = atvi_pool_take(pool, (size_t)code->n, sizeof *f.copy);
  f.turn = atvi_pool_take(pool, (size_t)most, sizeof *f.turn);
  f.taken = atvi_pool_take(pool, (size_t)most, sizeof *f.taken);
  if (atvi_pool_failed(pool)) return false;
  for (int32_t q = 0; q < p->n; q++) {
    const atvi_piece *x = &p->piece[q];
    f.into[q] = q;
    for (atvi_idx m = 0; m < x->n_copy * x->n_ins; m++) f.copy[x->ins[m]] = (int32_t)(m / x->n_ins);
    int32_t loop = latest_read(&f, q);
    if (!is_loop(x) || loop < 0) continue;
    if (x->chain ? find_chain_turns(&f, q, loop) : find_turns(&f, q, loop))
      if (!join(&f, q, loop)) return false;
  }
  return order_pieces(&f);
}
