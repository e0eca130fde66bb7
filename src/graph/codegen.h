/* SPDX-License-Identifier: MIT */
/* What the files that write C share: the text, and the program that is being written. */
#ifndef ATVI_GRAPH_CODEGEN_H
#define ATVI_GRAPH_CODEGEN_H

#include "graph/internal.h"

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

/* Where argument k of s is read, an index of an input or a slot; ATVI_GEN_TO: where s stores. In a loop, as a function of j. */
enum { ATVI_GEN_TO = -1 };
void atvi_graph_gen_place(atvi_gen *e, const atvi_ins *s, int k);
/* Whether argument k of s, a number, is another one in other copies. */
bool atvi_graph_gen_varies(const atvi_gen *e, const atvi_ins *s, int k);
/* Whether v<i> is known here; else it is in its slot. */
bool atvi_graph_gen_is_near(const atvi_gen *e, int32_t i);
/* All functions of a program that is divided into pieces. False on ENOMEM. */
bool atvi_graph_gen_pieces(atvi_gen *e);

#endif
