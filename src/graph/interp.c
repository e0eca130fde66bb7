/* SPDX-License-Identifier: MIT */
/* Straight-line code to interpreter steps: constants spread over the lanes once, results placed
 * in scratch slots that are reused when their value is dead. A step's result never shares a
 * slot with its operands. Changes the code it is given. */
#include "graph/internal.h"

typedef struct {
  atvi_pool *pool;
  uint32_t *where; /* [n] operand of each instruction */
  int32_t *uses;   /* [n] instructions that use it */
  bool *merged;    /* [n] product computed by the sum that uses it */
  int32_t *free;   /* stack of free slots */
  atvi_idx n_free, cap_free, n_slot;
  atvi_istep *step;
  atvi_idx n_step;
} build;

static bool new_slot(build *b, int32_t *slot) {
  if (b->n_free) {
    *slot = b->free[--b->n_free];
  } else {
    if (!ATVI_PUSH(b->pool, b->free, b->n_slot, b->cap_free)) return false; /* room to free them all */
    *slot = (int32_t)b->n_slot++;
  }
  return true;
}

static bool is_step(const atvi_ins *s) {
  return s->op != ATVI_OP_CONST && (s->op != ATVI_OP_INPUT || s->uniform);
}

static bool has_slot(const atvi_ins *s) {
  return is_step(s) && s->op != ATVI_INS_STORE && s->op != ATVI_INS_ADD_TO && s->op != ATVI_INS_SCATTER;
}

/* a b + c in one step, where nothing else uses a b. */
static void merge_products(build *b, const atvi_graph_code *code) {
  for (atvi_idx i = 0; i < code->n; i++)
    for (int k = 0; k < code->ins[i].n_arg; k++) b->uses[code->ins[i].arg[k]]++;
  for (atvi_idx i = 0; i < code->n; i++) {
    atvi_ins *s = &code->ins[i];
    if (s->op != ATVI_OP_ADD && s->op != ATVI_OP_SUB) continue;
    for (int k = s->op == ATVI_OP_ADD ? 0 : 1; k < 2; k++) {
      int32_t a = s->arg[k];
      const atvi_ins *m = &code->ins[a];
      if (m->op != ATVI_OP_MUL || b->uses[a] != 1 || b->merged[a]) continue;
      int32_t other = s->arg[1 - k];
      s->op = s->op == ATVI_OP_ADD ? ATVI_ISTEP_MULADD : ATVI_ISTEP_MULSUB;
      s->n_arg = 3;
      s->arg[0] = m->arg[0];
      s->arg[1] = m->arg[1];
      s->arg[2] = other;
      b->merged[a] = true;
      break;
    }
  }
  for (atvi_idx i = 0; i < code->n; i++)
    for (int k = 0; k < code->ins[i].n_arg && !b->merged[i]; k++) {
      atvi_ins *a = &code->ins[code->ins[i].arg[k]];
      if (a->last < (int32_t)i) a->last = (int32_t)i;
    }
}

static bool lay_out(build *b, const atvi_graph_code *code, int32_t *constant) {
  for (atvi_idx i = 0; i < code->n; i++) {
    const atvi_ins *s = &code->ins[i];
    if (s->op == ATVI_OP_CONST) b->where[i] = ATVI_OPERAND(ATVI_BASE_CONST, (*constant)++);
    if (s->op == ATVI_OP_INPUT && !s->uniform) b->where[i] = ATVI_OPERAND(ATVI_BASE_IN + s->index2, s->index);
    if (!is_step(s) || b->merged[i]) continue;
    atvi_istep *t = &b->step[b->n_step++];
    *t = (atvi_istep){.op = s->op};
    if (s->op == ATVI_OP_FN) {
      t->index = (uint8_t)s->index;
      t->index2 = (uint8_t)s->index2;
    }
    for (int k = 0; k < s->n_arg; k++) t->arg[k] = b->where[s->arg[k]];
    for (int k = s->n_arg; k < 4; k++) t->arg[k] = t->arg[0]; /* the loop looks at all four */
    if (s->op == ATVI_OP_INPUT) {
      t->op = ATVI_ISTEP_SPLAT;
      t->arg[0] = ATVI_OPERAND(ATVI_BASE_IN + s->index2, s->index);
    }
    if (s->op == ATVI_OP_PICK) t->arg[1] = ATVI_OPERAND(ATVI_BASE_IN + s->index2, s->index);
    if (s->op == ATVI_OP_PICK || s->op == ATVI_INS_SCATTER) t->arg[2] = (uint32_t)s->count;
    if (!has_slot(s)) {
      t->dst = ATVI_OPERAND(ATVI_BASE_OUT + s->index2, s->index);
    } else {
      int32_t slot;
      if (!new_slot(b, &slot)) return false;
      t->dst = b->where[i] = ATVI_OPERAND(ATVI_BASE_SCRATCH, slot);
    }
    for (int k = 0; k < s->n_arg; k++) {
      int32_t a = s->arg[k];
      bool seen = false;
      for (int j = 0; j < k; j++) seen = seen || s->arg[j] == a;
      if (!seen && code->ins[a].last == (int32_t)i && has_slot(&code->ins[a]))
        b->free[b->n_free++] = (int32_t)(b->where[a] & 0xfffffff);
    }
  }
  return true;
}

/* n groups of lanes, aligned for vectors, which the pool's pieces are not. */
static double *take_lanes(atvi_pool *pool, atvi_idx n) {
  char *p = atvi_pool_take(pool, (size_t)n * ATVI_LANES * sizeof(double) + ATVI_ALIGN, 1);
  return p ? (double *)(void *)(p + (ATVI_ALIGN - (uintptr_t)p % ATVI_ALIGN) % ATVI_ALIGN) : NULL;
}

atvi_status atvi_graph_interp_new(atvi_pool *pool, const atvi_graph_code *code, const atvi_prog_spec *spec,
                                  atvi_prog *out) {
  int32_t n_const = 0;
  for (atvi_idx i = 0; i < code->n; i++) n_const += code->ins[i].op == ATVI_OP_CONST;
  build b = {.pool = pool};
  b.where = atvi_pool_take(pool, (size_t)code->n, sizeof *b.where);
  b.step = atvi_pool_take(pool, (size_t)code->n, sizeof *b.step);
  double *constant = take_lanes(pool, n_const);
  atvi_interp *self = atvi_pool_take(pool, 1, sizeof *self);
  b.uses = atvi_pool_take(pool, (size_t)code->n, sizeof *b.uses);
  b.merged = atvi_pool_take(pool, (size_t)code->n, sizeof *b.merged);
  int32_t used = 0;
  if (b.uses && b.merged) merge_products(&b, code);
  if (!b.where || !b.uses || !b.merged || !b.step || !constant || !self || !lay_out(&b, code, &used))
    return ATVI_ENOMEM;
  used = 0;
  for (atvi_idx i = 0; i < code->n; i++) {
    if (code->ins[i].op != ATVI_OP_CONST) continue;
    for (int l = 0; l < ATVI_LANES; l++) constant[used * ATVI_LANES + l] = code->ins[i].value;
    used++;
  }
  *self = (atvi_interp){
      .n = b.n_step, .step = b.step, .constant = constant, .n_in = spec->n_in, .n_out = spec->n_out};
  *out = (atvi_prog){
      .fn = ATVI_ISA_PICK(atvi_graph_interp_run), .self = self, .scratch = (size_t)b.n_slot * ATVI_LANES};
  return ATVI_OK;
}
