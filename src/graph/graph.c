/* SPDX-License-Identifier: MIT */
/* Storage of the graph: an array of nodes in topological order and a hash table over it, so
 * that equal nodes are one. Identities and folding are in simplify.c. */
#include "graph/internal.h"
#include "math/special.h"
#include <math.h>
#include <string.h>

enum { FIRST_NODES = 256, MAX_NODES = 1 << 29 };

atvi_status atvi_graph_new(atvi_ctx *ctx, atvi_graph **out) {
  *out = NULL;
  atvi_graph *g = atvi_block(ctx, sizeof *g);
  if (!g) return ATVI_ENOMEM;
  g->ctx = ctx;
  g->cap = FIRST_NODES;
  g->n_table = 2 * FIRST_NODES;
  g->node = atvi_block(ctx, (size_t)g->cap * sizeof *g->node);
  g->table = atvi_block(ctx, (size_t)g->n_table * sizeof *g->table);
  if (!g->node || !g->table) {
    atvi_graph_free(g);
    return ATVI_ENOMEM;
  }
  *out = g;
  return ATVI_OK;
}

void atvi_graph_free(atvi_graph *g) {
  if (!g) return;
  atvi_block_free(g->ctx, g->node);
  atvi_block_free(g->ctx, g->table);
  atvi_block_free(g->ctx, g);
}

bool atvi_graph_failed(const atvi_graph *g) { return g->failed; }

static uint64_t mix(uint64_t h, uint64_t x) {
  h = (h ^ x) * 0x9e3779b97f4a7c15u;
  return h ^ (h >> 29);
}

static uint64_t hash(const atvi_gnode *x) {
  uint64_t bits;
  memcpy(&bits, &x->value, sizeof bits);
  uint64_t h = mix(x->op, bits);
  h = mix(h, (uint64_t)(uint32_t)x->index << 32 | (uint32_t)x->index2);
  h = mix(h, (uint64_t)(uint32_t)x->arg[0] << 32 | (uint32_t)x->arg[1]);
  return mix(h, (uint64_t)(uint32_t)x->arg[2] << 32 | (uint32_t)x->arg[3]);
}

/* Bit patterns of constants, so that a NaN equals itself and -0 is not 0. */
static bool same(const atvi_gnode *a, const atvi_gnode *b) {
  return a->op == b->op && a->index == b->index && a->index2 == b->index2 &&
         memcmp(a->arg, b->arg, sizeof a->arg) == 0 && memcmp(&a->value, &b->value, sizeof a->value) == 0;
}

/* The place of x in the table: where it is or where it belongs. */
static atvi_idx place(const atvi_graph *g, const atvi_gnode *x) {
  size_t mask = (size_t)g->n_table - 1, i = (size_t)hash(x) & mask;
  while (g->table[i] && !same(&g->node[g->table[i] - 1], x)) i = (i + 1) & mask;
  return (atvi_idx)i;
}

static bool grow(atvi_graph *g) {
  if (g->cap >= MAX_NODES) return false;
  atvi_gnode *node = atvi_block(g->ctx, 2 * (size_t)g->cap * sizeof *node);
  int32_t *table = atvi_block(g->ctx, 2 * (size_t)g->n_table * sizeof *table);
  if (!node || !table) {
    atvi_block_free(g->ctx, node);
    atvi_block_free(g->ctx, table);
    return false;
  }
  memcpy(node, g->node, (size_t)g->n * sizeof *node);
  atvi_block_free(g->ctx, g->node);
  atvi_block_free(g->ctx, g->table);
  g->node = node;
  g->table = table;
  g->cap *= 2;
  g->n_table *= 2;
  for (atvi_idx i = 0; i < g->n; i++) g->table[place(g, &node[i])] = (int32_t)i + 1;
  return true;
}

/* Overflow of sums and products is left out of account: it takes values no model has. */
static bool is_tame(const atvi_graph *g, const atvi_gnode *x) {
  bool args = true;
  for (int k = 0; k < x->n_arg; k++) args = args && g->node[x->arg[k]].tame;
  switch (x->op) {
  case ATVI_OP_CONST: return isfinite(x->value);
  case ATVI_OP_INPUT: return true;
  case ATVI_OP_LT:
  case ATVI_OP_LE:
  case ATVI_OP_EQ:
  case ATVI_OP_AND:
  case ATVI_OP_OR:
  case ATVI_OP_NOT:
  case ATVI_OP_SIGN: return true;
  case ATVI_OP_ADD:
  case ATVI_OP_SUB:
  case ATVI_OP_MUL:
  case ATVI_OP_MIN:
  case ATVI_OP_MAX:
  case ATVI_OP_ATAN2:
  case ATVI_OP_NEG:
  case ATVI_OP_ABS:
  case ATVI_OP_FLOOR:
  case ATVI_OP_SIN:
  case ATVI_OP_COS:
  case ATVI_OP_ATAN:
  case ATVI_OP_TANH:
  case ATVI_OP_ERF:
  case ATVI_OP_INVLOGIT:
  case ATVI_OP_LOG_ADD:
  case ATVI_OP_LIST:
  case ATVI_OP_PICK:
  case ATVI_OP_SELECT: return args;
  case ATVI_OP_DIV:
    return args && g->node[x->arg[1]].op == ATVI_OP_CONST && isnormal(1 / g->node[x->arg[1]].value);
  default: return false;
  }
}

static bool has_powers(const atvi_graph *g, const atvi_gnode *x) {
  switch (x->op) {
  case ATVI_OP_EXP:
  case ATVI_OP_INVLOGIT: return true;
  case ATVI_OP_ADD:
  case ATVI_OP_SUB:
  case ATVI_OP_MUL:
  case ATVI_OP_DIV: return g->node[x->arg[0]].powers || g->node[x->arg[1]].powers;
  case ATVI_OP_NEG:
  case ATVI_OP_SQRT:
  case ATVI_OP_POW: return g->node[x->arg[0]].powers;
  default: return false;
  }
}

atvi_node atvi_graph_intern(atvi_graph *g, atvi_gnode x) {
  if (g->failed) return ATVI_NODE_NONE;
  for (int k = x.n_arg; k < 4; k++) x.arg[k] = ATVI_NODE_NONE;
  for (int k = 0; k < x.n_arg; k++) {
    if (x.arg[k] == ATVI_NODE_NONE) return ATVI_NODE_NONE;
    ATVI_ASSERT(x.arg[k] >= 0 && x.arg[k] < g->n);
    x.kinds |= g->node[x.arg[k]].kinds;
  }
  atvi_idx at = place(g, &x);
  if (g->table[at]) return g->table[at] - 1;
  if (g->n == g->cap) {
    if (!grow(g)) {
      g->failed = true;
      return ATVI_NODE_NONE;
    }
    at = place(g, &x);
  }
  x.tame = is_tame(g, &x);
  x.powers = has_powers(g, &x);
  g->node[g->n] = x;
  g->table[at] = (int32_t)g->n + 1;
  return (atvi_node)g->n++;
}

atvi_node atvi_graph_const(atvi_graph *g, double value) {
  if (isnan(value)) value = NAN; /* one NaN is enough */
  return atvi_graph_intern(g, (atvi_gnode){.op = ATVI_OP_CONST, .value = value});
}

atvi_node atvi_graph_input(atvi_graph *g, int kind, atvi_idx index) {
  ATVI_ASSERT(kind >= 0 && kind < 32 && index >= 0 && index <= INT32_MAX);
  atvi_gnode x = {.op = ATVI_OP_INPUT, .index = (int32_t)index, .index2 = kind, .kinds = (uint32_t)1 << kind};
  return atvi_graph_intern(g, x);
}

/* Pairs, then pairs of pairs: depth and rounding grow with log n. */
atvi_node atvi_graph_sum(atvi_graph *g, atvi_idx n, const atvi_node *x) {
  if (n <= 0) return atvi_graph_const(g, 0);
  if (n == 1) return x[0];
  atvi_node *part = atvi_block(g->ctx, (size_t)n * sizeof *part);
  if (!part) {
    g->failed = true;
    return ATVI_NODE_NONE;
  }
  memcpy(part, x, (size_t)n * sizeof *part);
  for (; n > 1; n = (n + 1) / 2) {
    for (atvi_idx i = 0; i + 1 < n; i += 2)
      part[i / 2] = atvi_graph_op2(g, ATVI_OP_ADD, part[i], part[i + 1]);
    if (n % 2) part[n / 2] = part[n - 1];
  }
  atvi_node sum = part[0];
  atvi_block_free(g->ctx, part);
  return sum;
}

/* Built from its end, three elements at a time. */
static atvi_node make_list(atvi_graph *g, atvi_idx n, const atvi_node *x) {
  atvi_idx first = n <= 4 ? 0 : (n - 2) / 3 * 3;
  atvi_gnode s = {.op = ATVI_OP_LIST, .n_arg = (uint8_t)(n - first), .index = (int32_t)(n - first)};
  for (atvi_idx k = first; k < n; k++) s.arg[k - first] = x[k];
  atvi_node list = atvi_graph_intern(g, s);
  for (atvi_idx at = first - 3; at >= 0; at -= 3)
    list = atvi_graph_intern(g, (atvi_gnode){.op = ATVI_OP_LIST,
                                             .n_arg = 4,
                                             .index = (int32_t)(n - at),
                                             .arg = {x[at], x[at + 1], x[at + 2], list}});
  return list;
}

void atvi_graph_list_get(const atvi_graph *g, atvi_node list, atvi_node *x) {
  for (; g->node[list].index > 4; list = g->node[list].arg[3])
    for (int k = 0; k < 3; k++) *x++ = g->node[list].arg[k];
  for (int k = 0; k < g->node[list].index; k++) *x++ = g->node[list].arg[k];
}

atvi_node atvi_graph_list_element(const atvi_graph *g, atvi_node list, atvi_idx k) {
  for (; g->node[list].index > 4 && k >= 3; k -= 3) list = g->node[list].arg[3];
  return g->node[list].arg[k];
}

atvi_node atvi_graph_pick(atvi_graph *g, atvi_idx n, const atvi_node *x, atvi_node index) {
  ATVI_ASSERT(n >= 1 && n <= MAX_NODES);
  double known;
  bool same = true;
  if (g->failed || index == ATVI_NODE_NONE) return ATVI_NODE_NONE;
  if (atvi_graph_is_const(g, index, &known)) return x[atvi_graph_pick_at(known, n)];
  for (atvi_idx k = 1; k < n; k++) same = same && x[k] == x[0];
  if (same) return x[0];
  return atvi_graph_intern(g,
                           (atvi_gnode){.op = ATVI_OP_PICK, .n_arg = 2, .arg = {index, make_list(g, n, x)}});
}

atvi_idx atvi_graph_size(const atvi_graph *g) { return g->n; }

atvi_node_info atvi_graph_get(const atvi_graph *g, atvi_node x) {
  ATVI_ASSERT(x >= 0 && x < g->n);
  const atvi_gnode *s = &g->node[x];
  atvi_node_info info = {.op = s->op,
                         .index = s->index,
                         .index2 = s->index2,
                         .n_arg = s->n_arg,
                         .value = s->value,
                         .kinds = s->kinds};
  memcpy(info.arg, s->arg, sizeof info.arg);
  return info;
}

bool atvi_graph_is_const(const atvi_graph *g, atvi_node x, double *value) {
  if (x == ATVI_NODE_NONE || g->node[x].op != ATVI_OP_CONST) return false;
  if (value) *value = g->node[x].value;
  return true;
}

uint32_t atvi_graph_kinds(const atvi_graph *g, atvi_node x) {
  return x == ATVI_NODE_NONE ? 0 : g->node[x].kinds;
}

/* Substitution and hoisting: both walk down from x[n] once to see what is needed, then up once
 * to make the new nodes. A node whose arguments stay is kept as it is. */

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
  for (atvi_idx k = 0; k < *n_hoisted; k++)
    if (is_invariant(&g->node[hoisted[k]], kinds)) w.to[hoisted[k]] = atvi_graph_input(g, hoist_kind, k);
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

/* Where the elements x[n] stand in placed, one after the other; appended if they do not. -1: no room. */
static atvi_idx place_elements(atvi_idx n, const atvi_node *x, atvi_idx cap, atvi_node *placed,
                               atvi_idx *n_placed) {
  for (atvi_idx at = 0; at + n <= *n_placed; at++)
    if (memcmp(&placed[at], x, (size_t)n * sizeof *x) == 0) return at;
  if (*n_placed + n > cap) return -1;
  memcpy(&placed[*n_placed], x, (size_t)n * sizeof *x);
  *n_placed += n;
  return *n_placed - n;
}

/* The list as neighbouring inputs. */
static atvi_node place_list(atvi_graph *g, atvi_node list, int kind, atvi_idx cap, atvi_node *placed,
                            atvi_idx *n_placed) {
  atvi_idx n = g->node[list].index;
  atvi_node *x = atvi_block(g->ctx, (size_t)n * sizeof *x), to = ATVI_NODE_NONE;
  if (x) {
    atvi_graph_list_get(g, list, x);
    atvi_idx at = place_elements(n, x, cap, placed, n_placed);
    for (atvi_idx k = 0; k < n && at >= 0; k++) x[k] = atvi_graph_input(g, kind, at + k);
    if (at >= 0) to = make_list(g, n, x);
  }
  if (to == ATVI_NODE_NONE) g->failed = true;
  atvi_block_free(g->ctx, x);
  return to;
}

void atvi_graph_place_lists(atvi_graph *g, atvi_idx n, atvi_node *x, int kind, atvi_idx cap,
                            atvi_node *placed, atvi_idx *n_placed) {
  walk w;
  if (g->failed || !walk_new(g, &w)) {
    for (atvi_idx i = 0; i < n; i++) x[i] = ATVI_NODE_NONE;
    return;
  }
  for (atvi_idx i = 0; i < n; i++)
    if (x[i] != ATVI_NODE_NONE) w.need[x[i]] = true;
  for (atvi_idx i = w.n - 1; i >= 0 && !g->failed; i--) {
    atvi_gnode s = g->node[i]; /* a copy: the array may move */
    if (!w.need[i] || w.to[i] != ATVI_NODE_NONE) continue;
    const bool invariant = s.op == ATVI_OP_PICK && !(s.kinds & ~g->node[s.arg[1]].kinds);
    if (s.op == ATVI_OP_PICK && !invariant && w.to[s.arg[1]] == ATVI_NODE_NONE)
      w.to[s.arg[1]] = place_list(g, s.arg[1], kind, cap, placed, n_placed);
    for (int k = 0; k < s.n_arg; k++) w.need[s.arg[k]] = true;
  }
  rebuild(g, &w, n, x);
  walk_free(g, &w);
}

/* What every operation means, one point at a time: oracle for interpreter and generated code. */

int atvi_graph_op_arity(atvi_op op) {
  if (op >= ATVI_OP_ADD && op <= ATVI_OP_LRISE_D) return 2;
  if (op >= ATVI_OP_NEG && op <= ATVI_OP_LOG_NDTR_D) return 1;
  return op == ATVI_OP_SELECT ? 3 : 0;
}

bool atvi_graph_op_is_truth(int op) { return (op >= ATVI_OP_LT && op <= ATVI_OP_OR) || op == ATVI_OP_NOT; }

double atvi_graph_fn_eval(int fn, int derivative, const double *a) {
  double grad[3] = {0}, value = NAN;
  double *want = derivative ? grad : NULL;
  switch ((atvi_fn)fn) {
  case ATVI_FN_NORMAL_LCDF: value = atvi_math_normal_lcdf(a[0], a[1], a[2], want); break;
  case ATVI_FN_NORMAL_LCCDF: value = atvi_math_normal_lccdf(a[0], a[1], a[2], want); break;
  case ATVI_FN_STUDENT_LCDF: value = atvi_math_student_lcdf(a[0], a[1], a[2], a[3], want); break;
  case ATVI_FN_STUDENT_LCCDF: value = atvi_math_student_lccdf(a[0], a[1], a[2], a[3], want); break;
  case ATVI_FN_POISSON_LCDF: value = atvi_math_poisson_lcdf(a[0], a[1], want); break;
  case ATVI_FN_POISSON_LCCDF: value = atvi_math_poisson_lccdf(a[0], a[1], want); break;
  case ATVI_FN_NEGBIN_LCDF: value = atvi_math_negbin_lcdf(a[0], a[1], a[2], want); break;
  case ATVI_FN_NEGBIN_LCCDF: value = atvi_math_negbin_lccdf(a[0], a[1], a[2], want); break;
  case ATVI_FN_BINOMIAL_LCDF: value = atvi_math_binomial_lcdf(a[0], a[1], a[2], want); break;
  case ATVI_FN_BINOMIAL_LCCDF: value = atvi_math_binomial_lccdf(a[0], a[1], a[2], want); break;
  case ATVI_FN_POISSON_LOG_LCDF: value = atvi_math_poisson_log_lcdf(a[0], a[1], want); break;
  case ATVI_FN_POISSON_LOG_LCCDF: value = atvi_math_poisson_log_lccdf(a[0], a[1], want); break;
  case ATVI_FN_NEGBIN_LOG_LCDF: value = atvi_math_negbin_log_lcdf(a[0], a[1], a[2], want); break;
  case ATVI_FN_NEGBIN_LOG_LCCDF: value = atvi_math_negbin_log_lccdf(a[0], a[1], a[2], want); break;
  case ATVI_FN_BINOMIAL_LOGIT_LCDF: value = atvi_math_binomial_logit_lcdf(a[0], a[1], a[2], want); break;
  case ATVI_FN_BINOMIAL_LOGIT_LCCDF: value = atvi_math_binomial_logit_lccdf(a[0], a[1], a[2], want); break;
  case ATVI_FN_COUNT: break;
  }
  return derivative == 0 ? value : derivative == 1 ? 0 : grad[derivative - 2];
}

static double eval2(atvi_op op, double a, double b) {
  switch (op) {
  case ATVI_OP_ADD: return a + b;
  case ATVI_OP_SUB: return a - b;
  case ATVI_OP_MUL: return a * b;
  case ATVI_OP_DIV: return a / b;
  case ATVI_OP_POW: return pow(a, b);
  case ATVI_OP_MIN: return b < a ? b : a;
  case ATVI_OP_MAX: return a < b ? b : a;
  case ATVI_OP_ATAN2: return atan2(a, b);
  case ATVI_OP_LT: return a < b;
  case ATVI_OP_LE: return a <= b;
  case ATVI_OP_EQ: return a == b;
  case ATVI_OP_AND: return a != 0 && b != 0;
  case ATVI_OP_OR: return a != 0 || b != 0;
  case ATVI_OP_LOG_ADD: return (a < b ? b : a) + log1p(exp(a == b ? 0 : -fabs(a - b)));
  case ATVI_OP_XLOGY: return a == 0 ? 0 : a * log(b);
  case ATVI_OP_XDIVY: return a == 0 ? 0 : a / b;
  case ATVI_OP_LRISE: return atvi_math_lrise(a, b);
  case ATVI_OP_LRISE_D: return atvi_math_lrise_dnu(a, b);
  default: return NAN;
  }
}

static double eval1(atvi_op op, double a) {
  switch (op) {
  case ATVI_OP_NEG: return -a;
  case ATVI_OP_NOT: return a == 0;
  case ATVI_OP_ABS: return fabs(a);
  case ATVI_OP_SIGN: return (a > 0) - (a < 0);
  case ATVI_OP_FLOOR: return floor(a);
  case ATVI_OP_SQRT: return sqrt(a);
  case ATVI_OP_EXP: return exp(a);
  case ATVI_OP_LOG: return log(a);
  case ATVI_OP_LOG1P: return log1p(a);
  case ATVI_OP_EXPM1: return expm1(a);
  case ATVI_OP_SIN: return sin(a);
  case ATVI_OP_COS: return cos(a);
  case ATVI_OP_TAN: return tan(a);
  case ATVI_OP_ASIN: return asin(a);
  case ATVI_OP_ACOS: return acos(a);
  case ATVI_OP_ATAN: return atan(a);
  case ATVI_OP_SINH: return sinh(a);
  case ATVI_OP_COSH: return cosh(a);
  case ATVI_OP_TANH: return tanh(a);
  case ATVI_OP_ERF: return erf(a);
  case ATVI_OP_INVLOGIT: return a < 0 ? exp(a) / (1 + exp(a)) : 1 / (1 + exp(-a));
  case ATVI_OP_LGAMMA: return atvi_math_lgamma(a);
  case ATVI_OP_DIGAMMA: return atvi_math_digamma(a);
  case ATVI_OP_TRIGAMMA: return atvi_math_trigamma(a);
  case ATVI_OP_LOG_NDTR: return atvi_math_log_ndtr(a);
  case ATVI_OP_LOG_NDTR_D: return atvi_math_log_ndtr_d(a);
  default: return NAN;
  }
}

double atvi_graph_op_eval(atvi_op op, int index, int index2, const double *a) {
  if (op == ATVI_OP_FN) return atvi_graph_fn_eval(index, index2, a);
  if (op == ATVI_OP_SELECT) return a[0] != 0 ? a[1] : a[2];
  return atvi_graph_op_arity(op) == 1 ? eval1(op, a[0]) : eval2(op, a[0], a[1]);
}

/* Nodes are in topological order: mark downward what x needs, then compute upward. */
atvi_status atvi_graph_value(atvi_ctx *ctx, const atvi_graph *g, atvi_node x, const double *const *inputs,
                             double *value) {
  ATVI_ASSERT(x >= 0 && x < g->n);
  double *v = atvi_block(ctx, (size_t)(x + 1) * sizeof *v);
  bool *need = atvi_block(ctx, (size_t)(x + 1) * sizeof *need);
  if (!v || !need) {
    atvi_block_free(ctx, v);
    atvi_block_free(ctx, need);
    return ATVI_ENOMEM;
  }
  need[x] = true;
  for (atvi_node i = x; i >= 0; i--)
    for (int k = 0; need[i] && k < g->node[i].n_arg; k++) need[g->node[i].arg[k]] = true;
  for (atvi_node i = 0; i <= x; i++) {
    const atvi_gnode *s = &g->node[i];
    if (!need[i]) continue;
    double a[4] = {0};
    for (int k = 0; k < s->n_arg; k++) a[k] = v[s->arg[k]];
    v[i] = s->op == ATVI_OP_CONST   ? s->value
           : s->op == ATVI_OP_INPUT ? inputs[s->index2][s->index]
           : s->op == ATVI_OP_LIST  ? NAN
           : s->op == ATVI_OP_PICK
               ? v[atvi_graph_list_element(g, s->arg[1], atvi_graph_pick_at(a[0], g->node[s->arg[1]].index))]
               : atvi_graph_op_eval(s->op, s->index, s->index2, a);
  }
  *value = v[x];
  atvi_block_free(ctx, v);
  atvi_block_free(ctx, need);
  return ATVI_OK;
}
