/* SPDX-License-Identifier: MIT */
/* From nodes to straight-line code.
 *
 * Instructions come in depth-first order from the outputs, each output stored as soon as it is known: values
 * live briefly, and nothing is computed that no output needs. Where several divisions have the same
 * denominator it is inverted once, and a constant one always: id n + b stands for 1 / node b. (a / b and a *
 * (1 / b) differ by rounding only, unless b is so small, below 6e-309, that its inverse overflows.) Rounding
 * matters where a step may lie, below floor, sign and comparisons: divisions there stay exact. */
#include "graph/internal.h"
#include <math.h>
#include <string.h>

enum { MAX_INDEX = 1 << 27 }; /* what an operand of the interpreter can hold */

typedef struct {
  atvi_pool *pool;
  const atvi_graph *g;
  const atvi_prog_spec *spec;
  atvi_idx n;       /* nodes of the graph */
  int32_t *place;   /* [2n] instruction of a node or inverse, -1 if not there yet */
  int32_t *divided; /* [n] divisions by this node that need not be exact */
  bool *exact;      /* [n] a step is taken from this node's value */
  int32_t *stack;   /* ids being worked on */
  atvi_idx n_stack, cap_stack;
  atvi_ins *ins;
  atvi_idx n_ins, cap_ins;
} lower;

static int slot_of(const atvi_prog_spec *spec, int kind) {
  for (int k = 0; k < spec->n_in; k++)
    if (spec->in[k].kind == kind) return k;
  return -1;
}

static bool push_id(lower *w, int32_t id) {
  int32_t *stack = ATVI_PUSH(w->pool, w->stack, w->n_stack, w->cap_stack);
  if (stack) w->stack[w->n_stack++] = id;
  return stack != NULL;
}

static atvi_ins *push_ins(lower *w) {
  atvi_ins *ins = ATVI_PUSH(w->pool, w->ins, w->n_ins, w->cap_ins);
  if (!ins) return NULL;
  w->ins[w->n_ins].last = (int32_t)w->n_ins;
  return &w->ins[w->n_ins++];
}

static bool by_inverse(const lower *w, atvi_node b) {
  const atvi_gnode *x = &w->g->node[b];
  return x->op == ATVI_OP_CONST ? isnormal(1 / x->value) : w->divided[b] > 1;
}

/* The ids an id is computed from. */
static int operands(const lower *w, int32_t id, int32_t *arg) {
  if (id >= w->n) {
    arg[0] = (int32_t)(id - w->n);
    return w->g->node[arg[0]].op == ATVI_OP_CONST ? 0 : 1;
  }
  const atvi_gnode *x = &w->g->node[id];
  for (int k = 0; k < x->n_arg; k++) arg[k] = x->arg[k];
  if (x->op == ATVI_OP_PICK) return 1; /* elements are read where they are */
  if (x->op == ATVI_OP_DIV && !w->exact[id] && by_inverse(w, x->arg[1])) arg[1] = (int32_t)(w->n + x->arg[1]);
  return x->n_arg;
}

static atvi_status find_input(const lower *w, const atvi_gnode *x, int *slot) {
  atvi_ctx *ctx = atvi_pool_ctx(w->pool);
  *slot = slot_of(w->spec, x->index2);
  if (*slot < 0)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "program %s: no slot for input %d of kind %d", w->spec->name,
                     (int)x->index, (int)x->index2);
  if (x->index >= w->spec->in[*slot].n)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "program %s: input %d of kind %d, the slot has %td", w->spec->name,
                     (int)x->index, (int)x->index2, w->spec->in[*slot].n);
  return ATVI_OK;
}

/* Where the elements of a list are: neighbouring inputs of one slot. */
static atvi_status find_list(const lower *w, atvi_node list, atvi_ins *s) {
  const atvi_gnode *node = w->g->node, *first = &node[node[list].arg[0]];
  int slot = -1;
  s->count = node[list].index;
  bool ok = first->op == ATVI_OP_INPUT;
  for (atvi_idx k = 0, at = list; ok && k < s->count; at = node[at].arg[3]) {
    int n = node[at].index > 4 ? 3 : node[at].index;
    for (int i = 0; i < n; i++, k++) {
      const atvi_gnode *x = &node[node[at].arg[i]];
      ok = ok && x->op == ATVI_OP_INPUT && x->index2 == first->index2 && x->index == first->index + k;
      if (ok) ATVI_TRY(find_input(w, x, &slot));
    }
  }
  if (!ok || w->spec->in[slot].uniform)
    return ATVI_FAIL(
        atvi_pool_ctx(w->pool), ATVI_EINVAL,
        "program %s: a list of %d elements that are not neighbouring inputs of one slot with lanes",
        w->spec->name, (int)s->count);
  s->index = first->index;
  s->index2 = slot;
  return ATVI_OK;
}

static atvi_status emit(lower *w, int32_t id, int n_arg, const int32_t *arg) {
  atvi_ins *s = push_ins(w);
  if (!s) return ATVI_ENOMEM;
  s->n_arg = (uint8_t)n_arg;
  for (int k = 0; k < n_arg; k++) {
    s->arg[k] = w->place[arg[k]];
    w->ins[s->arg[k]].last = s->last;
  }
  w->place[id] = s->last;
  if (id >= w->n) {
    s->op = n_arg ? ATVI_INS_RECIP : ATVI_OP_CONST;
    if (!n_arg) s->value = 1 / w->g->node[id - w->n].value;
    return ATVI_OK;
  }
  const atvi_gnode *x = &w->g->node[id];
  s->op = x->op;
  s->index = x->index;
  s->index2 = x->index2;
  s->value = x->value;
  if (x->op == ATVI_OP_DIV && n_arg == 2 && arg[1] >= w->n) s->op = ATVI_OP_MUL;
  if (x->op == ATVI_OP_PICK) return find_list(w, x->arg[1], s);
  if (x->op != ATVI_OP_INPUT) return ATVI_OK;
  int slot;
  ATVI_TRY(find_input(w, x, &slot));
  s->index2 = slot;
  s->uniform = w->spec->in[slot].uniform;
  return ATVI_OK;
}

static atvi_status visit(lower *w, atvi_node root) {
  w->n_stack = 0;
  if (!push_id(w, root)) return ATVI_ENOMEM;
  while (w->n_stack) {
    int32_t id = w->stack[w->n_stack - 1], arg[4] = {0};
    int n_arg = operands(w, id, arg), waiting = 0;
    for (int k = n_arg - 1; k >= 0 && w->place[id] < 0; k--) {
      if (w->place[arg[k]] >= 0) continue;
      waiting++;
      if (!push_id(w, arg[k])) return ATVI_ENOMEM;
    }
    if (waiting) continue;
    w->n_stack--;
    if (w->place[id] < 0) ATVI_TRY(emit(w, id, n_arg, arg));
  }
  return ATVI_OK;
}

static bool is_zero(const lower *w, atvi_node x) {
  return w->g->node[x].op == ATVI_OP_CONST && w->g->node[x].value == 0;
}

/* Rounding a product or quotient does not change its sign. */
static bool sign_is_safe(const lower *w, atvi_node x) {
  uint8_t op = w->g->node[x].op;
  return op == ATVI_OP_MUL || op == ATVI_OP_DIV;
}

/* Whether small errors of argument k become large ones, or, with exact set, are handed on. A select asks only
 * whether its condition is 0. */
static bool wants_exact(const lower *w, const atvi_gnode *x, int k, bool exact) {
  switch (x->op) {
  case ATVI_OP_FLOOR: return true;
  case ATVI_OP_PICK: return k == 0;
  case ATVI_OP_SIGN: return !sign_is_safe(w, x->arg[0]);
  case ATVI_OP_LT:
  case ATVI_OP_LE:
  case ATVI_OP_EQ: return !(is_zero(w, x->arg[1 - k]) && sign_is_safe(w, x->arg[k]));
  case ATVI_OP_ADD:
  case ATVI_OP_SUB:
  case ATVI_OP_MUL:
  case ATVI_OP_DIV:
  case ATVI_OP_NEG:
  case ATVI_OP_ABS:
  case ATVI_OP_MIN:
  case ATVI_OP_MAX: return exact;
  case ATVI_OP_SELECT: return k > 0 && exact;
  default: return false;
  }
}

static void count_divisions(lower *w, bool *need) {
  for (int k = 0; k < w->spec->n_out; k++)
    for (atvi_idx i = 0; i < w->spec->out[k].n; i++) need[w->spec->out[k].nodes[i]] = true;
  for (atvi_idx i = 0; i < w->spec->n_scatter; i++)
    need[w->spec->scatter[i].index] = need[w->spec->scatter[i].value] = true;
  for (atvi_idx i = w->n - 1; i >= 0; i--) {
    const atvi_gnode *x = &w->g->node[i];
    if (!need[i]) continue;
    for (int k = 0; k < x->n_arg; k++) {
      need[x->arg[k]] = true;
      if (wants_exact(w, x, k, w->exact[i])) w->exact[x->arg[k]] = true;
    }
    if (x->op == ATVI_OP_DIV && !w->exact[i]) w->divided[x->arg[1]]++;
  }
}

static atvi_status check(atvi_ctx *ctx, const atvi_graph *g, const atvi_prog_spec *spec) {
  if (g->failed) return ATVI_ENOMEM;
  if (!spec->name || !*spec->name ||
      strspn(spec->name, "abcdefghijklmnopqrstuvwxyz_0123456789") != strlen(spec->name))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "program: name \"%s\", want [a-z_0-9]+", spec->name ? spec->name : "");
  if (spec->n_in < 0 || spec->n_in > ATVI_PROG_IN || spec->n_out < 0 || spec->n_out > ATVI_PROG_OUT)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "program %s: %d inputs and %d outputs, want at most %d and %d",
                     spec->name, spec->n_in, spec->n_out, (int)ATVI_PROG_IN, (int)ATVI_PROG_OUT);
  for (int k = 0; k < spec->n_in; k++)
    if (spec->in[k].n < 0 || spec->in[k].n > MAX_INDEX)
      return ATVI_FAIL(ctx, ATVI_EINVAL, "program %s: input %d has n = %td", spec->name, k, spec->in[k].n);
  for (int k = 0; k < spec->n_out; k++)
    if (spec->out[k].n < 0 || spec->out[k].n > MAX_INDEX)
      return ATVI_FAIL(ctx, ATVI_EINVAL, "program %s: output %d has n = %td", spec->name, k, spec->out[k].n);
  for (int k = 0; k < spec->n_out; k++)
    for (atvi_idx i = 0; i < spec->out[k].n; i++)
      if (spec->out[k].nodes[i] < 0 || spec->out[k].nodes[i] >= g->n)
        return ATVI_FAIL(ctx, ATVI_EINVAL, "program %s: output %d has no node %td", spec->name, k, i);
  for (atvi_idx i = 0; i < spec->n_scatter; i++) {
    const atvi_scatter *x = &spec->scatter[i];
    int k = spec->scatter_out;
    if (k < 0 || k >= spec->n_out || x->first < 0 || x->n < 1 || x->first + x->n > spec->out[k].n ||
        x->index < 0 || x->index >= g->n || x->value < 0 || x->value >= g->n)
      return ATVI_FAIL(ctx, ATVI_EINVAL, "program %s: scatter %td is outside output %d", spec->name, i, k);
  }
  return ATVI_OK;
}

static atvi_status add_scatter(lower *w, int out, const atvi_scatter *x) {
  ATVI_TRY(visit(w, x->index));
  ATVI_TRY(visit(w, x->value));
  atvi_ins *s = push_ins(w);
  if (!s) return ATVI_ENOMEM;
  *s = (atvi_ins){.op = ATVI_INS_SCATTER,
                  .n_arg = 2,
                  .index = (int32_t)x->first,
                  .index2 = out,
                  .count = (int32_t)x->n,
                  .arg = {w->place[x->index], w->place[x->value]},
                  .last = s->last};
  for (int k = 0; k < 2; k++) w->ins[s->arg[k]].last = s->last;
  return ATVI_OK;
}

atvi_status atvi_graph_code_new(atvi_pool *pool, const atvi_graph *g, const atvi_prog_spec *spec,
                                atvi_graph_code *out) {
  atvi_ctx *ctx = atvi_pool_ctx(pool);
  lower w = {.pool = pool, .g = g, .spec = spec, .n = g->n};
  *out = (atvi_graph_code){0};
  ATVI_TRY(check(ctx, g, spec));
  bool *need = atvi_pool_take(pool, (size_t)w.n + 1, sizeof *need);
  w.place = atvi_pool_take(pool, 2 * (size_t)w.n + 1, sizeof *w.place);
  w.divided = atvi_pool_take(pool, (size_t)w.n + 1, sizeof *w.divided);
  w.exact = atvi_pool_take(pool, (size_t)w.n + 1, sizeof *w.exact);
  if (!need || !w.place || !w.divided || !w.exact) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < 2 * w.n; i++) w.place[i] = -1;
  count_divisions(&w, need);
  for (int k = 0; k < spec->n_out; k++)
    for (atvi_idx i = 0; i < spec->out[k].n; i++) {
      atvi_node x = spec->out[k].nodes[i];
      if (spec->out[k].accumulate && atvi_graph_is_const(g, x, NULL) && g->node[x].value == 0) continue;
      ATVI_TRY(visit(&w, x));
      atvi_ins *s = push_ins(&w);
      if (!s) return ATVI_ENOMEM;
      *s = (atvi_ins){.op = spec->out[k].accumulate ? ATVI_INS_ADD_TO : ATVI_INS_STORE,
                      .n_arg = 1,
                      .index = (int32_t)i,
                      .index2 = k,
                      .arg = {w.place[x]},
                      .last = s->last};
      w.ins[s->arg[0]].last = s->last;
    }
  for (atvi_idx i = 0; i < spec->n_scatter; i++)
    ATVI_TRY(add_scatter(&w, spec->scatter_out, &spec->scatter[i]));
  *out = (atvi_graph_code){.n = w.n_ins, .ins = w.ins};
  return ATVI_OK;
}

/* Straight-line code to interpreter steps: constants spread over the lanes once, results placed
 * in scratch slots that are reused when their value is dead. A step's result never shares a
 * slot with its operands. Changes the code it is given. */

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
  *self = (atvi_interp){.n = b.n_step,
                        .step = b.step,
                        .constant = constant,
                        .n_in = spec->n_in,
                        .n_out = spec->n_out,
                        .scratch = (size_t)b.n_slot * ATVI_LANES};
  *out = (atvi_prog){.fn = ATVI_ISA_PICK(atvi_graph_interp_run), .self = self, .scratch = self->scratch};
  return ATVI_OK;
}
