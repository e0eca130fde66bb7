/* SPDX-License-Identifier: MIT */
/* What the files of this module share: the graph's storage, the straight-line code that
 * programs are made of, and the steps from there to something that runs. */
#ifndef ATVI_GRAPH_INTERNAL_H
#define ATVI_GRAPH_INTERNAL_H

#include "core/core.h"
#include "graph/program.h"

/* ---- graph storage ---- */
typedef struct {
  uint8_t op, n_arg;
  bool powers; /* made of exponentials by + - * / and powers: a logarithm of it is worth a look */
  bool tame;   /* finite wherever its inputs are, short of overflow: never spoils a product with 0 */
  int32_t index, index2;
  atvi_node arg[4]; /* ATVI_NODE_NONE beyond n_arg */
  double value;
  uint32_t kinds;
} atvi_gnode;

struct atvi_graph {
  atvi_ctx *ctx;
  atvi_gnode *node; /* [cap], n used; arguments come before the nodes that use them */
  atvi_idx n, cap;
  int32_t *table; /* [n_table] open addressing, node + 1, 0 where free; n_table a power of 2 */
  atvi_idx n_table;
  bool failed;
};

/* The node itself, made or found; no identities, no folding. */
atvi_node atvi_graph_intern(atvi_graph *g, atvi_gnode node);
/* Any operation with given arguments, through the identities; logarithms have been through theirs. */
atvi_node atvi_graph_make(atvi_graph *g, const atvi_gnode *like, const atvi_node *arg);
/* Value of one operation: the definition of what each op means. */
double atvi_graph_op_eval(atvi_op op, int index, int index2, const double *a);
double atvi_graph_fn_eval(int fn, int derivative, const double *a);
int atvi_graph_op_arity(atvi_op op); /* 0 for leaves, FN, LIST and PICK */
/* Which element of a list of n an index means. */
static inline atvi_idx atvi_graph_pick_at(double index, atvi_idx n) {
  return !(index > 0.5) ? 0 : index < (double)(n - 1) ? (atvi_idx)(index + 0.5) : n - 1;
}
/* Elements of a list: x[g->node[list].index]. */
void atvi_graph_list_get(const atvi_graph *g, atvi_node list, atvi_node *x);
atvi_node atvi_graph_list_element(const atvi_graph *g, atvi_node list, atvi_idx k);
bool atvi_graph_op_is_truth(int op); /* yields 0 or 1 only */

/* ---- straight-line code ---- */
/* An instruction is a node in its place, or one of the operations that only programs have. */
enum {
  ATVI_INS_STORE = ATVI_OP_COUNT, /* out[index2][index] = arg[0] */
  ATVI_INS_ADD_TO,                /* out[index2][index] += arg[0] */
  ATVI_INS_SCATTER,               /* out[index2][index + arg[0]] += arg[1] */
  ATVI_INS_RECIP                  /* 1 / arg[0], shared by several divisions */
};

typedef struct {
  uint8_t op, n_arg;
  bool uniform;          /* INPUT: one value for all lanes */
  int32_t index, index2; /* INPUT: index, slot of the program; PICK: the same of the first element */
  int32_t count;         /* PICK, SCATTER: elements */
  int32_t arg[4];        /* instructions; PICK: the index alone */
  double value;          /* CONST */
  int32_t last;          /* last instruction that uses the result; own place if none */
} atvi_ins;

typedef struct {
  atvi_idx n;
  atvi_ins *ins; /* [n] */
} atvi_graph_code;

/* Nodes of one program in the order of work. Everything is owned by pool.
 * Errors: EINVAL (an input that is in no slot, a bad spec), ENOMEM. */
ATVI_CHECKED atvi_status atvi_graph_code_new(atvi_pool *pool, const atvi_graph *g, const atvi_prog_spec *spec,
                                             atvi_graph_code *out);

/* ---- loops ---- */
/* A sum over the copies of a loop, in their order. */
typedef struct {
  const int32_t *link; /* [n] instructions, each of which adds one term to the result of the one before it */
  atvi_idx n;
  int start; /* argument of the first link that it adds to */
  bool
      own; /* the first link adds the terms of two copies, so that n is one less than their number; else it adds to another value */
} atvi_piece_sum;

/* n_copy copies of n_ins instructions (one, unless it is a loop or a chain), which differ only in the inputs,
 * values and numbers they read and in where they store. No copy reads what another one computes. */
typedef struct {
  bool chain; /* one copy, in which each instruction adds one more term to the result of the one before it */
  int start;  /* of a chain: argument of the first link that it adds to */
  atvi_idx n_copy, n_ins;
  const int32_t *ins; /* [n_copy][n_ins] instructions in the order of work */
  atvi_idx n_sum, cap_sum;
  atvi_piece_sum *sum; /* [n_sum] of a loop */
} atvi_piece;

typedef struct {
  atvi_idx n;
  atvi_piece *piece; /* [n] in the order of work */
  int32_t *of;       /* [instructions] piece of each; -1: a number or an input */
} atvi_pieces;

/* Divides code into pieces, where loops spare enough of it: n is 0 where they do not. Owned by pool; false on
 * ENOMEM. */
bool atvi_graph_roll(atvi_pool *pool, const atvi_graph_code *code, atvi_pieces *out);
/* Which argument of link k of a chain is the term that is added; the other is the result of the link before
 * it, or start. */
static inline int atvi_graph_term(const atvi_graph_code *code, const int32_t *link, int start, atvi_idx k) {
  return k == 0 ? 1 - start : code->ins[link[k]].arg[0] == link[k - 1] ? 1 : 0;
}

/* ---- interpreter ---- */
enum { ATVI_BASE_SCRATCH, ATVI_BASE_CONST, ATVI_BASE_IN, ATVI_BASE_OUT = ATVI_BASE_IN + ATVI_PROG_IN };
#define ATVI_OPERAND(base, offset) ((uint32_t)(base) << 28 | (uint32_t)(offset))
enum {
  ATVI_ISTEP_SPLAT = ATVI_INS_RECIP + 1,
  ATVI_ISTEP_MULADD,
  /* a b + c */ ATVI_ISTEP_MULSUB /* c - a b */
};

typedef struct {
  uint8_t op, index, index2;
  /* Operands: base and offset in groups of lanes (SPLAT: in doubles). PICK: index, first element, count;
   * SCATTER: index, value, count. */
  uint32_t dst, arg[4];
} atvi_istep;

typedef struct {
  atvi_idx n;
  const atvi_istep *step; /* [n] */
  const double *constant; /* [..][ATVI_LANES] */
  int n_in, n_out;
  size_t scratch; /* doubles */
} atvi_interp;

ATVI_CHECKED atvi_status atvi_graph_interp_new(atvi_pool *pool, const atvi_graph_code *code,
                                               const atvi_prog_spec *spec, atvi_prog *out);
void atvi_graph_interp_run_base(const void *self, double *scratch, const double *const *in,
                                double *const *out);
void atvi_graph_interp_run_avx2(const void *self, double *scratch, const double *const *in,
                                double *const *out);
void atvi_graph_interp_run_avx512(const void *self, double *scratch, const double *const *in,
                                  double *const *out);
/* The same steps on dual numbers (tangent.c): twice the slots, and twice the scratch. */
void atvi_graph_tangent_run(const void *self, double *scratch, const double *const *in, double *const *out);

/* ---- generated C ---- */
/* The functions that generated code calls back; a program's `self`. */
typedef struct {
  double (*f1[5])(double);
  double (*f2[2])(double, double);
  double (*fn)(int fn, int derivative, const double *arg);
} atvi_callbacks;
extern const atvi_callbacks atvi_graph_gen_callbacks;

/* C source of n programs; scratch[i] receives the doubles that program i needs. NULL on ENOMEM. */
const char *atvi_graph_gen_source(atvi_pool *pool, atvi_idx n, const atvi_prog_spec *spec,
                                  const atvi_graph_code *code, size_t *scratch);

typedef struct {
  void *handle; /* of dlopen */
  bool from_cache;
  double compile_s;
  char reason[256]; /* why there is no handle */
} atvi_compiled;

/* Compiles source, or finds it in the cache, and loads it. Never fails: without a handle the reason says why. */
void atvi_graph_compile(atvi_pool *pool, const char *source, const atvi_module_opts *opts,
                        atvi_compiled *out);

/* What the files that write C share: the text, and the program that is being written. */

enum { ATVI_GEN_PART = 1500 }; /* instructions of one function */

typedef struct {
  atvi_pool *pool;
  char *text;
  size_t n, cap;
  bool failed;
} atvi_gen_text;

/* Neighbouring slots. */
typedef struct {
  atvi_idx n, first;
} atvi_gen_block;

typedef struct {
  atvi_gen_text *t;
  const atvi_prog_spec *spec;
  const atvi_graph_code *code;
  int32_t *slot;         /* [n] scratch slot of values that leave their part, else -1 */
  int32_t *part_of;      /* [n] part in which v<i> is known; -1: none */
  int32_t *dying, *next; /* [parts or pieces], [n] lists of the values last used in a part, or in a piece */
  int32_t *free;         /* stack of free slots */
  atvi_idx n_free, cap_free, n_slot, n_part, part;
  atvi_pieces pieces;    /* none: the program is written as it is */
  atvi_gen_block *block; /* [n_block] that are free */
  atvi_idx n_block, cap_block;
  const atvi_piece *loop; /* written now; NULL: instructions one by one */
  atvi_idx at;            /* instruction of its copies */
} atvi_gen;

void atvi_graph_gen_put(atvi_gen_text *t, const char *fmt, ...) ATVI_PRINTF(2, 3);
void atvi_graph_gen_number(atvi_gen_text *t, double v);
void atvi_graph_gen_operand(atvi_gen *e, const atvi_ins *s, int k); /* argument k of s */
void atvi_graph_gen_ins(atvi_gen *e, int32_t i);
void atvi_graph_gen_head(atvi_gen *e); /* of the function of a part */
extern const char *const atvi_graph_gen_infix[ATVI_OP_COUNT], *const atvi_graph_gen_inline[ATVI_OP_COUNT];

/* Where argument k of s is read, an index of an input or a slot; ATVI_GEN_TO: where s stores. In a loop, as a
 * function of j. */
enum { ATVI_GEN_TO = -1 };
void atvi_graph_gen_place(atvi_gen *e, const atvi_ins *s, int k);
/* Whether argument k of s, a number, is another one in other copies. */
bool atvi_graph_gen_varies(const atvi_gen *e, const atvi_ins *s, int k);
/* Whether v<i> is known here; else it is in its slot. */
bool atvi_graph_gen_is_near(const atvi_gen *e, int32_t i);
/* All functions of a program that is divided into pieces. False on ENOMEM. */
bool atvi_graph_gen_pieces(atvi_gen *e);

#endif
