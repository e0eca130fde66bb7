/* SPDX-License-Identifier: MIT */
/* Generated C of programs that repeat themselves (roll.c): copies become loops over j.
 *
 * A loop is written from its first copy. Places that differ between copies are a + b j or come from a table
 * t<instruction>_<argument>, numbers from a table k<instruction>_<argument>. Values go from one piece to
 * another through scratch: the results of a loop are in neighbouring slots, which are free again after the
 * last piece that reads them. */
#include "graph/internal.h"
#include <string.h>

/* ---- what differs between copies ---- */

static const atvi_ins *in_copy(const atvi_gen *e, atvi_idx j) {
  return &e->code->ins[e->loop->ins[j * e->loop->n_ins + e->at]];
}

static int32_t place_of(const atvi_gen *e, const atvi_ins *s, int k) {
  if (k == ATVI_GEN_TO) return s->index;
  const atvi_ins *a = &e->code->ins[s->arg[k]];
  return a->op == ATVI_OP_INPUT ? a->index : e->slot[s->arg[k]];
}

/* Whether argument k is read at place + step * j. */
static bool is_steady(const atvi_gen *e, int k, int32_t *step) {
  int32_t first = place_of(e, in_copy(e, 0), k), before = first;
  *step = e->loop->n_copy > 1 ? place_of(e, in_copy(e, 1), k) - first : 0;
  for (atvi_idx j = 1; j < e->loop->n_copy; j++) {
    int32_t now = place_of(e, in_copy(e, j), k);
    if (now - before != *step) return false;
    before = now;
  }
  return true;
}

void atvi_graph_gen_place(atvi_gen *e, const atvi_ins *s, int k) {
  int32_t step = 0;
  if (e->loop && !is_steady(e, k, &step))
    atvi_graph_gen_put(e->t, "t%d_%d[j]", (int)e->at, k + 1);
  else if (step)
    atvi_graph_gen_put(e->t, "%d + %d * j", (int)place_of(e, s, k), (int)step);
  else
    atvi_graph_gen_put(e->t, "%d", (int)place_of(e, s, k));
}

bool atvi_graph_gen_varies(const atvi_gen *e, const atvi_ins *s, int k) {
  double first = e->code->ins[s->arg[k]].value;
  for (atvi_idx j = 1; e->loop && j < e->loop->n_copy; j++)
    if (memcmp(&first, &e->code->ins[in_copy(e, j)->arg[k]].value, sizeof first) != 0) return true;
  return false;
}

bool atvi_graph_gen_is_near(const atvi_gen *e, int32_t i) {
  return e->loop ? e->pieces.of[i] == e->pieces.of[e->loop->ins[0]] : e->part_of[i] == e->part;
}

/* The table of argument k, where its places or numbers need one. */
static void put_table(atvi_gen *e, int k) {
  const atvi_ins *s = in_copy(e, 0), *a = k == ATVI_GEN_TO ? NULL : &e->code->ins[s->arg[k]];
  int32_t step;
  bool number = a && a->op == ATVI_OP_CONST;
  if (a && !number && a->op != ATVI_OP_INPUT && atvi_graph_gen_is_near(e, s->arg[k])) return;
  if (number ? !atvi_graph_gen_varies(e, s, k) : is_steady(e, k, &step)) return;
  atvi_graph_gen_put(e->t, "static const %s %c%d_%d[] = {", number ? "double" : "int", number ? 'k' : 't',
                     (int)e->at, k + 1);
  for (atvi_idx j = 0; j < e->loop->n_copy; j++) {
    const atvi_ins *c = in_copy(e, j);
    if (number)
      atvi_graph_gen_number(e->t, e->code->ins[c->arg[k]].value);
    else
      atvi_graph_gen_put(e->t, "%d", (int)place_of(e, c, k));
    atvi_graph_gen_put(e->t, j % 16 == 15 ? ",\n" : ",");
  }
  atvi_graph_gen_put(e->t, "};\n");
}

static void put_tables(atvi_gen *e) {
  for (e->at = 0; e->at < e->loop->n_ins; e->at++) {
    const atvi_ins *s = in_copy(e, 0);
    bool stores = s->op == ATVI_INS_STORE || s->op == ATVI_INS_ADD_TO;
    for (int k = stores ? ATVI_GEN_TO : 0; k < s->n_arg; k++) put_table(e, k);
  }
}

/* ---- pieces ---- */

/* Short bodies are unrolled: going round takes as long as they do (60 coefficients of a row with gradient:
 * 250 ns, unrolled 140). */
static void put_for(atvi_gen *e) {
  enum { SHORT = 8 };
  if (e->loop->n_ins <= SHORT) atvi_graph_gen_put(e->t, "#pragma GCC unroll 8\n");
  atvi_graph_gen_put(e->t, "for (int j = 0; j < %d; j++) ", (int)e->loop->n_copy);
}

/* Adds a term to the sum v<top>: argument `side` of link s, or v<term>. */
static void put_link(atvi_gen *e, const atvi_ins *s, int side, int32_t top, int32_t term) {
  const char *infix = atvi_graph_gen_infix[s->op];
  atvi_graph_gen_put(e->t, "v%d = %s", (int)top, infix ? "" : atvi_graph_gen_inline[s->op]);
  if (!infix) atvi_graph_gen_put(e->t, "(");
  for (int k = 0; k < 2; k++) {
    if (k) atvi_graph_gen_put(e->t, " %s ", infix ? infix : ",");
    if (k == side && term < 0)
      atvi_graph_gen_operand(e, s, k);
    else
      atvi_graph_gen_put(e->t, "v%d", (int)(k == side ? term : top));
  }
  atvi_graph_gen_put(e->t, infix ? ";\n" : ");\n");
}

/* Declares v<top> with what the first link adds to. */
static void put_start(atvi_gen *e, int32_t top, const int32_t *link, int start) {
  atvi_piece first = {.n_copy = 1, .n_ins = 1, .ins = link};
  e->loop = &first;
  e->at = 0;
  atvi_graph_gen_put(e->t, "V v%d = ", (int)top);
  atvi_graph_gen_operand(e, in_copy(e, 0), start);
  atvi_graph_gen_put(e->t, ";\n");
  e->loop = NULL;
}

static void put_kept(atvi_gen *e, int32_t i) {
  if (e->slot[i] >= 0) atvi_graph_gen_put(e->t, "O(s, %d) = v%d;\n", (int)e->slot[i], (int)i);
}

/* Whether link c of a chain may be in one loop with link s before it, terms being arguments k: a sum and a
 * difference may. */
static bool in_one_run(const atvi_gen *e, const atvi_ins *s, const atvi_ins *c, int k) {
  const atvi_ins *a = &e->code->ins[s->arg[k]], *b = &e->code->ins[c->arg[k]];
  bool plus = s->op == ATVI_OP_ADD || s->op == ATVI_OP_SUB,
       also = c->op == ATVI_OP_ADD || c->op == ATVI_OP_SUB;
  bool input = a->op == ATVI_OP_INPUT, number = a->op == ATVI_OP_CONST;
  if (c->op != s->op && !(plus && also && k == 1)) return false;
  return number == (b->op == ATVI_OP_CONST) && input == (b->op == ATVI_OP_INPUT) &&
         !(input && a->index2 != b->index2);
}

/* Signs of sums and differences in one loop: v + -1 * x is v - x, digit by digit. False: there are no
 * differences among sums. */
static bool put_signs(atvi_gen *e) {
  bool mixed = false;
  for (atvi_idx j = 1; j < e->loop->n_copy; j++) mixed = mixed || in_copy(e, j)->op != in_copy(e, 0)->op;
  if (!mixed) return false;
  atvi_graph_gen_put(e->t, "static const double sign[] = {");
  for (atvi_idx j = 0; j < e->loop->n_copy; j++)
    atvi_graph_gen_put(e->t, in_copy(e, j)->op == ATVI_OP_SUB ? "-1," : "1,");
  atvi_graph_gen_put(e->t, "};\n");
  return true;
}

/* Adds up terms one after the other; neighbours of one kind are a loop. */
static void put_chain(atvi_gen *e, const atvi_piece *p) {
  const atvi_ins *ins = e->code->ins;
  int32_t top = p->ins[p->n_ins - 1];
  put_start(e, top, p->ins, p->start);
  for (atvi_idx from = 0, to; from < p->n_ins; from = to) {
    const atvi_ins *s = &ins[p->ins[from]];
    int k = atvi_graph_term(e->code, p->ins, p->start, from);
    for (to = from + 1; to < p->n_ins; to++)
      if (atvi_graph_term(e->code, p->ins, p->start, to) != k || !in_one_run(e, s, &ins[p->ins[to]], k))
        break;
    atvi_piece run = {.n_copy = to - from, .n_ins = 1, .ins = p->ins + from};
    e->loop = &run;
    atvi_graph_gen_put(e->t, "{\n");
    put_table(e, k);
    bool mixed = put_signs(e);
    put_for(e);
    if (mixed) {
      atvi_graph_gen_put(e->t, "v%d = v%d + sign[j] * ", (int)top, (int)top);
      atvi_graph_gen_operand(e, s, k);
      atvi_graph_gen_put(e->t, ";\n");
    } else {
      put_link(e, s, k, top, -1);
    }
    atvi_graph_gen_put(e->t, "}\n");
  }
  e->loop = NULL;
  put_kept(e, top);
}

static int32_t top_of(const atvi_piece_sum *sum) { return sum->link[sum->n - 1]; }

/* A loop, and what it adds up. A sum of its own copies begins with what adds nothing: -0, not 0, for -0 + -0
 * is -0. */
static void put_loop(atvi_gen *e, const atvi_piece *p) {
  const atvi_ins *ins = e->code->ins;
  for (atvi_idx k = 0; k < p->n_sum; k++) {
    const atvi_piece_sum *s = &p->sum[k];
    if (!s->own)
      put_start(e, top_of(s), s->link, s->start);
    else
      atvi_graph_gen_put(e->t, "V v%d = K(%s);\n", (int)top_of(s),
                         ins[s->link[0]].op == ATVI_OP_ADD ? "-0.0" : "1.0");
  }
  e->loop = p;
  atvi_graph_gen_put(e->t, "{\n");
  put_tables(e);
  put_for(e);
  atvi_graph_gen_put(e->t, "{\n");
  for (e->at = 0; e->at < p->n_ins; e->at++) atvi_graph_gen_ins(e, p->ins[e->at]);
  for (atvi_idx k = 0; k < p->n_sum; k++) {
    const atvi_piece_sum *s = &p->sum[k];
    const atvi_ins *first = &ins[s->link[0]];
    put_link(e, first, 1 - s->start, top_of(s), first->arg[s->own ? s->start : 1 - s->start]);
  }
  atvi_graph_gen_put(e->t, "}\n}\n");
  e->loop = NULL;
  for (atvi_idx k = 0; k < p->n_sum; k++) put_kept(e, top_of(&p->sum[k]));
}

static void put_piece(atvi_gen *e, const atvi_piece *p) {
  if (p->chain)
    put_chain(e, p);
  else if (p->n_copy > 1)
    put_loop(e, p);
  else
    atvi_graph_gen_ins(e, p->ins[0]);
}

typedef struct {
  int32_t *part;  /* [pieces] */
  int32_t *like;  /* [instructions] the same one of the first copy; of links of a sum the last */
  int32_t *last;  /* [instructions] last piece that reads what copies of this one compute */
  bool *in_slots; /* [instructions] what copies of this one compute is read elsewhere */
} plan;

static void note_reads(const atvi_gen *e, plan *w, int32_t q, const int32_t *ins, atvi_idx n) {
  const atvi_pieces *p = &e->pieces;
  bool loop = p->piece[q].n_copy > 1 || p->piece[q].chain;
  for (atvi_idx m = 0; m < n; m++)
    for (int k = 0; k < e->code->ins[ins[m]].n_arg; k++) {
      int32_t a = e->code->ins[ins[m]].arg[k], of = p->of[a];
      if (of < 0 || of == q) continue;
      int32_t like = w->like[a];
      w->last[like] = q;
      if (loop || e->part_of[a] != w->part[q]) w->in_slots[like] = true;
    }
}

/* Divides pieces into parts, and finds out what is passed on through slots and which piece reads it last. */
static bool plan_pieces(atvi_gen *e, plan *w) {
  const atvi_pieces *p = &e->pieces;
  size_t n = (size_t)e->code->n;
  w->part = atvi_pool_take(e->t->pool, (size_t)p->n, sizeof *w->part);
  w->like = atvi_pool_take(e->t->pool, n, sizeof *w->like);
  w->last = atvi_pool_take(e->t->pool, n, sizeof *w->last);
  w->in_slots = atvi_pool_take(e->t->pool, n, sizeof *w->in_slots);
  if (!w->part || !w->like || !w->last || !w->in_slots) return false;
  atvi_idx size = 0;
  for (atvi_idx i = 0; i < e->code->n; i++) e->slot[i] = -1;
  for (int32_t q = 0; q < p->n; q++) {
    const atvi_piece *x = &p->piece[q];
    if (size >= ATVI_GEN_PART) size = 0, e->n_part++;
    w->part[q] = (int32_t)e->n_part;
    size += (x->chain ? 1 : x->n_ins) + x->n_sum;
    e->dying[q] = -1;
    for (atvi_idx m = 0; m < x->n_copy * x->n_ins; m++) {
      w->like[x->ins[m]] = x->ins[m % x->n_ins];
      e->part_of[x->ins[m]] = x->n_copy > 1 ? -1 : w->part[q];
    }
    note_reads(e, w, q, x->ins, x->n_copy * x->n_ins);
    for (atvi_idx k = 0; k < x->n_sum; k++) {
      int32_t top = top_of(&x->sum[k]);
      w->like[top] = top;
      e->part_of[top] = w->part[q];
      note_reads(e, w, q, x->sum[k].link, x->sum[k].n);
    }
  }
  e->n_part++;
  for (int32_t i = 0; i < e->code->n; i++)
    if (w->in_slots[i]) e->next[i] = e->dying[w->last[i]], e->dying[w->last[i]] = i;
  return true;
}

static atvi_idx copies_of(const atvi_gen *e, int32_t i) {
  return e->part_of[i] >= 0 ? 1 : e->pieces.piece[e->pieces.of[i]].n_copy;
}

/* The first of n neighbouring slots. */
static atvi_idx take_slots(atvi_gen *e, atvi_idx n) {
  for (atvi_idx b = e->n_block - 1; b >= 0; b--) {
    if (e->block[b].n != n) continue;
    atvi_idx first = e->block[b].first;
    e->block[b] = e->block[--e->n_block];
    return first;
  }
  e->n_slot += n;
  return e->n_slot - n;
}

/* Slots for what a piece passes on; then those that it was the last to read become free. */
static bool assign_blocks(atvi_gen *e, const plan *w, atvi_idx q) {
  const atvi_piece *p = &e->pieces.piece[q];
  for (atvi_idx m = 0; m < p->n_ins; m++) {
    if (!w->in_slots[p->ins[m]]) continue;
    atvi_idx first = take_slots(e, p->n_copy);
    for (atvi_idx j = 0; j < p->n_copy; j++) e->slot[p->ins[j * p->n_ins + m]] = (int32_t)(first + j);
  }
  for (atvi_idx k = 0; k < p->n_sum; k++)
    if (w->in_slots[top_of(&p->sum[k])]) e->slot[top_of(&p->sum[k])] = (int32_t)take_slots(e, 1);
  for (int32_t i = e->dying[q]; i >= 0; i = e->next[i]) {
    if (!ATVI_PUSH(e->t->pool, e->block, e->n_block, e->cap_block)) return false;
    e->block[e->n_block++] = (atvi_gen_block){copies_of(e, i), e->slot[i]};
  }
  return true;
}

bool atvi_graph_gen_pieces(atvi_gen *e) {
  plan w = {0};
  e->dying = atvi_pool_take(e->t->pool, (size_t)e->pieces.n, sizeof *e->dying);
  if (!e->dying || !plan_pieces(e, &w)) return false;
  for (atvi_idx q = 0; q < e->pieces.n; q++) {
    e->part = w.part[q];
    if (q == 0 || w.part[q - 1] != w.part[q]) atvi_graph_gen_head(e);
    if (!assign_blocks(e, &w, q)) return false;
    put_piece(e, &e->pieces.piece[q]);
    if (q + 1 == e->pieces.n || w.part[q + 1] != w.part[q]) atvi_graph_gen_put(e->t, "}\n}\n");
  }
  return true;
}
