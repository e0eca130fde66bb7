/* SPDX-License-Identifier: MIT */
/* Generated C of programs that repeat themselves (roll.c): copies become loops over j.
 *
 * A loop is written from its first copy. Places that differ between copies are a + b j or come from a table t<instruction>_<argument>,
 * numbers from a table k<instruction>_<argument>. Values go from one piece to another through scratch: the results of a loop
 * are in neighbouring slots, which are free again after the last piece that reads them. */
#include "graph/codegen.h"
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

/* Adds up terms one after the other; neighbours of one kind are a loop. */
static void put_chain(atvi_gen *e, const atvi_piece *p) {
  const atvi_ins *ins = e->code->ins;
  int32_t top = p->ins[p->n_ins - 1];
  e->at = 0;
  e->loop = &(atvi_piece){.n_copy = 1, .n_ins = 1, .ins = p->ins};
  atvi_graph_gen_put(e->t, "V v%d = ", (int)top);
  atvi_graph_gen_operand(e, in_copy(e, 0), 0);
  atvi_graph_gen_put(e->t, ";\n");
  for (atvi_idx from = 0, to; from < p->n_ins; from = to) {
    const atvi_ins *s = &ins[p->ins[from]], *first = NULL;
    int k = 0;
    for (to = from; to < p->n_ins; to++) {
      const atvi_ins *c = &ins[p->ins[to]];
      int side = to == 0 || c->arg[0] == p->ins[to - 1] ? 1 : 0;
      const atvi_ins *a = &ins[c->arg[side]];
      bool input = a->op == ATVI_OP_INPUT, number = a->op == ATVI_OP_CONST;
      if (to == from) k = side, first = a;
      if (c->op != s->op || side != k || number != (first->op == ATVI_OP_CONST)) break;
      if (input != (first->op == ATVI_OP_INPUT) || (input && a->index2 != first->index2)) break;
    }
    e->loop = &(atvi_piece){.n_copy = to - from, .n_ins = 1, .ins = p->ins + from};
    atvi_graph_gen_put(e->t, "{\n");
    put_table(e, k);
    atvi_graph_gen_put(e->t, "for (int j = 0; j < %d; j++) v%d = ", (int)(to - from), (int)top);
    if (!atvi_graph_gen_infix[s->op]) atvi_graph_gen_put(e->t, "%s(", atvi_graph_gen_inline[s->op]);
    for (int side = 0; side < 2; side++) {
      if (side)
        atvi_graph_gen_put(e->t, atvi_graph_gen_infix[s->op] ? " %s " : ", ", atvi_graph_gen_infix[s->op]);
      if (side == k)
        atvi_graph_gen_operand(e, s, k);
      else
        atvi_graph_gen_put(e->t, "v%d", (int)top);
    }
    atvi_graph_gen_put(e->t, atvi_graph_gen_infix[s->op] ? ";\n}\n" : ");\n}\n");
  }
  e->loop = NULL;
  if (e->slot[top] >= 0) atvi_graph_gen_put(e->t, "O(s, %d) = v%d;\n", (int)e->slot[top], (int)top);
}

static void put_piece(atvi_gen *e, const atvi_piece *p) {
  if (p->chain) {
    put_chain(e, p);
    return;
  }
  if (p->n_copy > 1) {
    e->loop = p;
    atvi_graph_gen_put(e->t, "{\n");
    put_tables(e);
    atvi_graph_gen_put(e->t, "for (int j = 0; j < %d; j++) {\n", (int)p->n_copy);
  }
  for (e->at = 0; e->at < p->n_ins; e->at++) atvi_graph_gen_ins(e, p->ins[e->at]);
  if (p->n_copy > 1) atvi_graph_gen_put(e->t, "}\n}\n");
  e->loop = NULL;
}

static bool is_loop(const atvi_piece *p) { return p->n_copy > 1 || p->chain; }

/* Divides pieces into parts, and finds out what leaves a piece by a slot and which piece reads it last: dying, next. */
static bool plan_pieces(atvi_gen *e, int32_t *part, bool *leaves) {
  const atvi_pieces *p = &e->pieces;
  int32_t *last = atvi_pool_take(e->t->pool, (size_t)p->n, sizeof *last);
  atvi_idx n = 0;
  if (!last) return false;
  for (atvi_idx q = 0; q < p->n; q++) {
    if (n >= ATVI_GEN_PART) n = 0, e->n_part++;
    part[q] = (int32_t)e->n_part;
    n += p->piece[q].chain ? 1 : p->piece[q].n_ins;
    e->dying[q] = -1;
    for (atvi_idx m = 0; m < p->piece[q].n_copy * p->piece[q].n_ins; m++) {
      const atvi_ins *s = &e->code->ins[p->piece[q].ins[m]];
      e->part_of[p->piece[q].ins[m]] = p->piece[q].n_copy > 1 ? -1 : part[q];
      e->slot[p->piece[q].ins[m]] = -1;
      for (int k = 0; k < s->n_arg; k++) {
        int32_t of = p->of[s->arg[k]];
        if (of < 0 || of == q) continue;
        last[of] = (int32_t)q;
        leaves[of] = leaves[of] || is_loop(&p->piece[q]) || p->piece[of].n_copy > 1 || part[of] != part[q];
      }
    }
  }
  e->n_part++;
  for (atvi_idx q = 0; q < p->n; q++)
    if (leaves[q]) e->next[q] = e->dying[last[q]], e->dying[last[q]] = (int32_t)q;
  return true;
}

/* Neighbouring slots for the results of a piece; then those that it was the last to read become free. */
static bool assign_blocks(atvi_gen *e, atvi_idx q, bool leaves) {
  const atvi_piece *p = &e->pieces.piece[q];
  if (leaves) {
    atvi_idx b = e->n_block - 1, first = e->n_slot;
    while (b >= 0 && e->block[b].n != p->n_copy) b--;
    if (b >= 0) {
      first = e->block[b].first;
      e->block[b] = e->block[--e->n_block];
    } else {
      e->n_slot += p->n_copy;
    }
    for (atvi_idx j = 0; j < p->n_copy; j++) e->slot[p->ins[(j + 1) * p->n_ins - 1]] = (int32_t)(first + j);
  }
  for (int32_t d = e->dying[q]; d >= 0; d = e->next[d]) {
    const atvi_piece *dead = &e->pieces.piece[d];
    if (!ATVI_PUSH(e->t->pool, e->block, e->n_block, e->cap_block)) return false;
    e->block[e->n_block++] = (atvi_gen_block){dead->n_copy, e->slot[dead->ins[dead->n_ins - 1]]};
  }
  return true;
}

bool atvi_graph_gen_pieces(atvi_gen *e) {
  size_t n = (size_t)e->pieces.n;
  int32_t *part = atvi_pool_take(e->t->pool, n, sizeof *part);
  bool *leaves = atvi_pool_take(e->t->pool, n, sizeof *leaves);
  e->dying = atvi_pool_take(e->t->pool, n, sizeof *e->dying);
  if (!part || !leaves || !e->dying || !plan_pieces(e, part, leaves)) return false;
  for (atvi_idx q = 0; q < e->pieces.n; q++) {
    e->part = part[q];
    if (q == 0 || part[q - 1] != part[q]) atvi_graph_gen_head(e);
    if (!assign_blocks(e, q, leaves[q])) return false;
    put_piece(e, &e->pieces.piece[q]);
    if (q + 1 == e->pieces.n || part[q + 1] != part[q]) atvi_graph_gen_put(e->t, "}\n}\n");
  }
  return true;
}
