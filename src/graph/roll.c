/* SPDX-License-Identifier: MIT */
/* Loops found again in straight-line code.
 *
 * Arrays are unrolled when a model is read, so that a prior of 1000 elements is 1000 copies of a few
 * instructions, and a compiler takes seconds over them. Copies that differ only in which inputs, values and
 * numbers they read, and where they store, become one piece: a loop. What they compute, and in which order
 * terms are added, stays as it is.
 *
 *   cones    Each value that several others use, each store and each operand of a long sum is the head of a cone: itself and all
 *            that is computed for it alone. A cone reads heads of other cones, inputs and numbers.
 *   sums     A sum of many terms would be one large cone. Where SPLIT or more terms meet, groups of up to TOGETHER terms are cones, and so
 *            is each addition above them: those of one level of a balanced sum become a loop. Additions one after the other are a
 *            chain, which is a piece by itself. The same goes for products, minima, maxima and log-sums.
 *   levels   One above that of the highest cone that is read. Cones of one level do not depend on each other, so that those which
 *            have the same form, at one level, may be computed in any order: they are the copies of a piece. */
#include "graph/internal.h"
#include <string.h>

/* Loops that become one.
 *
 * Loops with as many copies, each of which reads one copy of the other, need not pass their values on through
 * memory: copy by copy they are one loop. So is a chain that adds up what the copies of a loop compute.
 *
 *   times   Pieces of one instruction have even times, loops and chains odd ones, each as early as what they read permits; a
 *           piece never reads another loop of its own time. What is read latest is of one time: if that is one loop, and the copies fit,
 *           then all else is known before that loop begins, and the piece joins it, at its time.
 *   order   The copies of a loop do not depend on each other, so that a piece that joins takes the order that is there, and
 *           the first chain that joins sets it. Terms are added up in the order of the chain, as ever. */

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

/* A chain that adds up all copies of a loop, one that it begins with among them: the sum then begins with
 * what adds nothing. */
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

/* Whether argument k of instruction m of q reads the same piece of the loop in every copy: a loop that others
 * have joined computes several values in each copy, and which of them is read is written down once. */
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

/* Makes one loop of those of which each copy reads one of the other. False on ENOMEM. */
static bool fuse(atvi_pool *pool, const atvi_graph_code *code, atvi_pieces *p) {
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

enum {
  SPLIT = 16,     /* terms from which on a sum is taken apart */
  TOGETHER = 8,   /* terms that stay together: below it sums are read and written more often, from cache */
  MIN_CHAIN = 16, /* additions one after the other that are a loop */
  MIN_COPIES = 4, /* below it copies are written out */
  WORTH = 100,    /* instructions that loops must spare: a compiler takes some 0.03 s for them */
};

typedef struct {
  atvi_pool *pool;
  const atvi_ins *ins;
  atvi_idx n;
  int32_t *uses;   /* [n] times a value is read */
  int32_t *leaves; /* [n] terms of the sum that ends here */
  int32_t *length; /* [n] additions one after the other that end here */
  int32_t *chain;  /* [n] last addition of the chain that this is one of; -1: of none */
  bool *split;     /* [n] belongs to a sum that is taken apart */
  bool *top;       /* [n] must be the head of a cone */
  int32_t *head;   /* [n] of the cone; -1: a number or an input */
  int32_t *level;  /* [n] of the cone, at its head */
  int32_t *first;  /* [n + 1] where the cone of a head begins in member */
  int32_t *member; /* [n] instructions, cone by cone, in their order */
  int32_t *pos;    /* [n] place of an instruction in its cone */
  int32_t *next;   /* [n] head of the next cone of the same form; -1: the last */
  int32_t *last;   /* [n] the last cone of the form, at the first */
  int32_t *copies; /* [n] cones of the form, at the first; 0 at others */
} roll;

static bool is_leaf(const atvi_ins *s) { return s->op == ATVI_OP_CONST || s->op == ATVI_OP_INPUT; }

/* Operations that may be part of one sum; 0: none. */
static int family(const atvi_ins *s) {
  switch (s->op) {
  case ATVI_OP_ADD:
  case ATVI_OP_SUB: return ATVI_OP_ADD;
  case ATVI_OP_MUL:
  case ATVI_OP_MIN:
  case ATVI_OP_MAX:
  case ATVI_OP_LOG_ADD: return s->op;
  default: return 0;
  }
}

/* Argument k of instruction i is a part of the same sum, and of nothing else. */
static bool is_inner(const roll *r, const atvi_ins *s, int k) {
  return family(s) && r->uses[s->arg[k]] == 1 && family(&r->ins[s->arg[k]]) == family(s);
}

/* The argument that an addition adds to in a chain; -1: it is the first of one. */
static int chain_arg(const roll *r, const atvi_ins *s) {
  bool a = is_inner(r, s, 0), b = is_inner(r, s, 1);
  if (a == b) return -1;
  return a ? 0 : s->op == ATVI_OP_SUB ? -1 : 1;
}

static void find_sums(roll *r) {
  for (atvi_idx i = 0; i < r->n; i++) {
    const atvi_ins *s = &r->ins[i];
    if (!family(s)) continue;
    for (int k = 0; k < 2; k++) r->leaves[i] += is_inner(r, s, k) ? r->leaves[s->arg[k]] : 1;
    int k = chain_arg(r, s);
    r->length[i] = k < 0 ? 1 : r->length[s->arg[k]] + 1;
  }
  for (atvi_idx i = r->n - 1; i >= 0; i--) { /* from the ends of sums to their terms */
    const atvi_ins *s = &r->ins[i];
    if (!family(s)) continue;
    r->split[i] = r->split[i] || r->leaves[i] >= SPLIT;
    if (!r->split[i]) continue;
    int k = chain_arg(r, s);
    bool apart = r->leaves[i] > TOGETHER;
    if (r->chain[i] < 0 && r->length[i] >= MIN_CHAIN) r->chain[i] = (int32_t)i;
    if (k >= 0 && r->chain[i] >= 0) r->chain[s->arg[k]] = r->chain[i];
    if (r->chain[i] >= 0 ? r->chain[i] == i : apart) r->top[i] = true;
    for (int a = 0; a < 2; a++) {
      if (is_inner(r, s, a)) r->split[s->arg[a]] = true;
      if (r->chain[i] >= 0 ? a != k : apart) r->top[s->arg[a]] = true;
    }
  }
}

/* A value that one cone alone reads belongs to it. */
static void find_cones(roll *r) {
  enum { NONE = -1, SEVERAL = -2 };
  for (atvi_idx i = 0; i < r->n; i++) r->head[i] = NONE;
  for (atvi_idx i = r->n - 1; i >= 0; i--) {
    const atvi_ins *s = &r->ins[i];
    if (is_leaf(s)) {
      r->head[i] = NONE;
      continue;
    }
    if (r->top[i] || r->head[i] < 0) r->head[i] = (int32_t)i;
    for (int k = 0; k < s->n_arg; k++) {
      int32_t *of = &r->head[s->arg[k]];
      *of = *of == NONE || *of == r->head[i] ? r->head[i] : SEVERAL;
    }
  }
  for (atvi_idx i = 0; i < r->n; i++) {
    const atvi_ins *s = &r->ins[i];
    if (is_leaf(s)) continue;
    int32_t h = r->head[i];
    r->pos[i] = r->first[h + 1]++;
    for (int k = 0; k < s->n_arg; k++) {
      int32_t a = s->arg[k];
      if (r->head[a] >= 0 && r->head[a] != h && r->level[h] <= r->level[a]) r->level[h] = r->level[a] + 1;
    }
  }
  for (atvi_idx i = 0; i < r->n; i++) r->first[i + 1] += r->first[i];
  for (atvi_idx i = 0; i < r->n; i++)
    if (r->head[i] >= 0) r->member[r->first[r->head[i]] + r->pos[i]] = (int32_t)i;
}

/* ---- cones of the same form ---- */

/* What copies of an instruction have in common. Elements of lists are left alone: their places are part of
 * the instruction. */
static uint64_t form_of(const roll *r, int32_t i) {
  const atvi_ins *s = &r->ins[i];
  uint64_t x = (uint64_t)s->op << 8 | s->n_arg;
  if (s->op == ATVI_OP_FN) x |= (uint64_t)s->index << 16 | (uint64_t)s->index2 << 24;
  if (s->op == ATVI_INS_STORE || s->op == ATVI_INS_ADD_TO) x |= (uint64_t)s->index2 << 16;
  return x;
}

static uint64_t form_of_arg(const roll *r, int32_t i, int k) {
  enum { NUMBER, VALUE, INPUT, OWN = INPUT + 2 * ATVI_PROG_IN };
  int32_t at = r->ins[i].arg[k];
  const atvi_ins *a = &r->ins[at];
  if (a->op == ATVI_OP_CONST) return NUMBER;
  if (a->op == ATVI_OP_INPUT) return INPUT + 2 * (uint64_t)a->index2 + a->uniform;
  return r->head[at] == r->head[i] ? OWN + (uint64_t)r->pos[at] : VALUE;
}

static atvi_idx size_of(const roll *r, int32_t h) { return r->first[h + 1] - r->first[h]; }

static bool is_single(const roll *r, int32_t h) {
  if (r->chain[h] == h) return true;
  for (int32_t m = r->first[h]; m < r->first[h + 1]; m++) {
    uint8_t op = r->ins[r->member[m]].op;
    if (op == ATVI_OP_PICK || op == ATVI_INS_SCATTER) return true;
  }
  return false;
}

static uint64_t mix(uint64_t h, uint64_t x) {
  h = (h ^ x) * 0x9e3779b97f4a7c15u;
  return h ^ (h >> 29);
}

static uint64_t hash(const roll *r, int32_t h) {
  uint64_t x = mix((uint64_t)r->level[h], (uint64_t)size_of(r, h));
  for (int32_t m = r->first[h]; m < r->first[h + 1]; m++) {
    int32_t i = r->member[m];
    x = mix(x, form_of(r, i));
    for (int k = 0; k < r->ins[i].n_arg; k++) x = mix(x, form_of_arg(r, i, k));
  }
  return x;
}

static bool same_form(const roll *r, int32_t g, int32_t h) {
  if (r->level[g] != r->level[h] || size_of(r, g) != size_of(r, h)) return false;
  for (atvi_idx m = 0; m < size_of(r, g); m++) {
    int32_t i = r->member[r->first[g] + m], j = r->member[r->first[h] + m];
    if (form_of(r, i) != form_of(r, j)) return false;
    for (int k = 0; k < r->ins[i].n_arg; k++)
      if (form_of_arg(r, i, k) != form_of_arg(r, j, k)) return false;
  }
  return true;
}

/* Lists the cones of each form. False on ENOMEM. */
static bool find_copies(roll *r) {
  size_t room = 16;
  while (room < 2 * (size_t)r->n) room *= 2;
  int32_t *table = atvi_pool_take(r->pool, room, sizeof *table); /* first cone of a form + 1 */
  if (!table) return false;
  for (int32_t i = 0; i < r->n; i++) {
    r->next[i] = -1;
    if (r->head[i] != i) continue;
    r->copies[i] = 1;
    r->last[i] = i;
    if (is_single(r, i)) continue;
    size_t at = (size_t)hash(r, i) & (room - 1);
    while (table[at] && !same_form(r, table[at] - 1, i)) at = (at + 1) & (room - 1);
    if (!table[at]) {
      table[at] = i + 1;
      continue;
    }
    int32_t of = table[at] - 1;
    r->next[r->last[of]] = i;
    r->last[of] = i;
    r->copies[of]++;
    r->copies[i] = 0;
  }
  return true;
}

static atvi_idx spared(const roll *r) {
  atvi_idx sum = 0;
  for (int32_t i = 0; i < r->n; i++) {
    if (r->head[i] != i) continue;
    if (r->copies[i] >= MIN_COPIES) sum += (r->copies[i] - 1) * size_of(r, i);
    if (r->chain[i] == i) sum += size_of(r, i);
  }
  return sum;
}

/* ---- pieces ---- */

static bool add_piece(roll *r, atvi_pieces *out, atvi_idx *cap, atvi_piece p) {
  if (!ATVI_PUSH(r->pool, out->piece, out->n, *cap)) return false;
  for (atvi_idx m = 0; m < p.n_copy * p.n_ins; m++) out->of[p.ins[m]] = (int32_t)out->n;
  out->piece[out->n++] = p;
  return true;
}

/* All copies of a cone, one after the other. */
static bool add_loop(roll *r, int32_t h, atvi_pieces *out, atvi_idx *cap) {
  atvi_idx size = size_of(r, h), n = r->copies[h];
  int32_t *ins = atvi_pool_take(r->pool, (size_t)(n * size), sizeof *ins);
  if (!ins) return false;
  atvi_piece p = {.n_copy = n, .n_ins = size, .ins = ins};
  for (; h >= 0; h = r->next[h], ins += size)
    memcpy(ins, r->member + r->first[h], (size_t)size * sizeof *ins);
  return add_piece(r, out, cap, p);
}

/* What is not in loops becomes pieces of one instruction: a large cone may need several functions. */
static bool make_pieces(roll *r, atvi_pieces *out) {
  atvi_idx cap = 0;
  out->of = atvi_pool_take(r->pool, (size_t)r->n + 1, sizeof *out->of);
  if (!out->of) return false;
  for (int32_t i = 0; i < r->n; i++) out->of[i] = -1;
  for (int32_t i = 0; i < r->n; i++) {
    if (r->head[i] != i || r->copies[i] == 0) continue;
    if (r->copies[i] >= MIN_COPIES) {
      if (!add_loop(r, i, out, &cap)) return false;
      continue;
    }
    for (int32_t h = i; h >= 0; h = r->next[h]) {
      bool chain = r->chain[h] == h;
      atvi_idx size = size_of(r, h), step = chain ? size : 1;
      for (atvi_idx m = 0; m < size; m += step) {
        atvi_piece p = {.chain = chain, .n_copy = 1, .n_ins = step, .ins = r->member + r->first[h] + m};
        if (!add_piece(r, out, &cap, p)) return false;
      }
    }
  }
  return true;
}

typedef struct {
  const atvi_ins *ins;
  atvi_pieces *p;
  bool *seen;     /* [n] */
  int32_t *stack; /* [n] pieces that wait for what they read */
  atvi_idx *at;   /* [n] how far each of them is */
  int32_t *order; /* [n] */
  atvi_idx n_order;
} sorting;

/* The next piece that this one reads and that has not been placed; -1: there is none. */
static int32_t next_read(const sorting *s, int32_t piece, atvi_idx *at) {
  const atvi_piece *x = &s->p->piece[piece];
  for (; *at < 4 * x->n_copy * x->n_ins; (*at)++) {
    const atvi_ins *i = &s->ins[x->ins[*at / 4]];
    int32_t of = *at % 4 < i->n_arg ? s->p->of[i->arg[*at % 4]] : -1;
    if (of >= 0 && !s->seen[of]) return of;
  }
  return -1;
}

/* Puts pieces after what they read; otherwise in the order of their first heads, so that scatters stay last. */
static void sort_from(sorting *s, int32_t piece) {
  atvi_idx n = 0;
  if (s->seen[piece]) return;
  s->seen[piece] = true;
  s->stack[n] = piece, s->at[n++] = 0;
  while (n > 0) {
    int32_t of = next_read(s, s->stack[n - 1], &s->at[n - 1]);
    if (of < 0) {
      s->order[s->n_order++] = s->stack[--n];
    } else {
      s->seen[of] = true;
      s->stack[n] = of, s->at[n++] = 0;
    }
  }
}

static bool sort_pieces(atvi_pool *pool, const atvi_graph_code *code, atvi_pieces *p) {
  size_t n = (size_t)p->n;
  sorting s = {.ins = code->ins, .p = p};
  s.seen = atvi_pool_take(pool, n, sizeof *s.seen);
  s.stack = atvi_pool_take(pool, n, sizeof *s.stack);
  s.at = atvi_pool_take(pool, n, sizeof *s.at);
  s.order = atvi_pool_take(pool, n, sizeof *s.order);
  atvi_piece *sorted = atvi_pool_take(pool, n, sizeof *sorted);
  if (!s.seen || !s.stack || !s.at || !s.order || !sorted) return false;
  for (atvi_idx k = 0; k < p->n; k++) sort_from(&s, (int32_t)k);
  for (atvi_idx k = 0; k < p->n; k++) {
    sorted[k] = p->piece[s.order[k]];
    for (atvi_idx m = 0; m < sorted[k].n_copy * sorted[k].n_ins; m++) p->of[sorted[k].ins[m]] = (int32_t)k;
  }
  p->piece = sorted;
  return true;
}

static bool take_arrays(roll *r) {
  int32_t **array[] = {&r->uses,  &r->leaves, &r->length, &r->chain, &r->head, &r->level,
                       &r->first, &r->member, &r->pos,    &r->next,  &r->last, &r->copies};
  for (size_t k = 0; k < sizeof array / sizeof *array; k++)
    *array[k] = atvi_pool_take(r->pool, (size_t)r->n + 1, sizeof **array[k]);
  r->split = atvi_pool_take(r->pool, (size_t)r->n + 1, sizeof *r->split);
  r->top = atvi_pool_take(r->pool, (size_t)r->n + 1, sizeof *r->top);
  return !atvi_pool_failed(r->pool);
}

bool atvi_graph_roll(atvi_pool *pool, const atvi_graph_code *code, atvi_pieces *out) {
  roll r = {.pool = pool, .ins = code->ins, .n = code->n};
  *out = (atvi_pieces){0};
  if (code->n < WORTH) return true;
  if (!take_arrays(&r)) return false;
  for (atvi_idx i = 0; i < r.n; i++) {
    r.chain[i] = -1;
    for (int k = 0; k < r.ins[i].n_arg; k++) r.uses[r.ins[i].arg[k]]++;
  }
  find_sums(&r);
  find_cones(&r);
  if (!find_copies(&r)) return false;
  if (spared(&r) < WORTH) return true;
  return make_pieces(&r, out) && sort_pieces(pool, code, out) && fuse(pool, code, out);
}
