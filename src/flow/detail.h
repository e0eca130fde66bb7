/* SPDX-License-Identifier: MIT */
/* Inside of a flow: how parameters and records are laid out; not for other modules.
 *
 * Degrees   Within a layer coordinates have the order of the layer's permutation: position i holds coordinate order[i].
 *           A hidden unit of degree m sees positions 0 .. m-1, and is seen by positions >= m. Units are sorted by degree.
 * Features  u = (1, z_0, units of degree 1, z_1, units of degree 2, ..., z_{d-2}, units of degree d-1). With this order
 *           what position i sees is the prefix u[0 .. cut[i]), and cut[i] is where z_i itself stands: every mask is a
 *           prefix, nothing masked is stored or multiplied.
 * theta     layer by layer; in a layer, for i = 0 .. d-1: the output weights of position i [rows][cut[i]] (column 0 is
 *           the bias), then the weights of the units of degree i+1 [units][i+2] (column 0 is the bias).
 * Rows      of the output of a position: a, b, K widths, K heights, K-1 slopes.
 * Record    what a layer leaves for the adjoint, for each group of ATVI_LANES draws: the inputs with a leading 1
 *           [1 + d], the features [features], then for each position K + K softmax shares and the rows below.
 *           All of it is [row][ATVI_LANES]. */
#ifndef ATVI_FLOW_DETAIL_H
#define ATVI_FLOW_DETAIL_H

#include "flow/flow.h"

enum {
  FLOW_CHUNK = 8, /* groups that go through a layer together: its weights and theirs fit the first cache */
  FLOW_MAX_BINS = 64,   /* bounds the scratch on the stack */
  FLOW_MAX_SIZE = 4096, /* of d, layers and hidden: keeps products of sizes within atvi_idx */
};

/* Record rows of a position, after its 2 K shares. */
enum {
  REC_SCALE,  /* e^a */
  REC_DA,     /* da / d(raw a) */
  REC_BIN,    /* number of the bin, -1 outside the box */
  REC_Q,      /* place in the bin, 0 to 1 */
  REC_WIDTH,  /* of the bin */
  REC_HEIGHT, /* of the bin */
  REC_T0,     /* slope at its left knot */
  REC_T1,     /* slope at its right knot */
  REC_DT0,    /* d slope / d(raw slope), left */
  REC_DT1,    /* and right */
  REC_Y,      /* the spline's value */
  REC_ROWS
};

struct atvi_flow {
  atvi_ctx *ctx;
  atvi_flow_shape shape;
  atvi_idx rows;      /* outputs per position, 3 K + 1 */
  atvi_idx features;  /* of u, = cut[d-1] where d > 1 */
  atvi_idx per_layer; /* parameters */
  atvi_idx rec_rows;  /* of the record of one group and layer */
  atvi_idx *cut;      /* [d] */
  atvi_idx *out_at;   /* [d] offset in a layer's theta of the output weights of position i */
  atvi_idx *units;    /* [d] hidden units of degree i + 1 (0 for i = d-1) */
  atvi_idx *unit_at;  /* [d] offset in a layer's theta of their weights */
  int32_t *order;     /* [layers][d] coordinate at each position */
  const struct atvi_flow_kernels *kern;
};

/* One layer, some groups: what a kernel reads and writes. */
typedef struct {
  const atvi_flow *f;
  const int32_t *order; /* [d] of this layer */
  const double *theta;  /* of this layer */
  atvi_idx groups;      /* 1 to FLOW_CHUNK */
  double *rec;          /* [groups][rec_rows][L] */
  double *v;            /* [groups][d][L] values, or adjoints, replaced by those on the layer's other side */
  double *ldj;          /* [groups][L] fwd, inv: log |det dx/dz| is added; bwd: its adjoint, read */
  double *du;           /* bwd: scratch [features][L] */
  double *dz;           /* bwd: scratch [1 + d][L] */
  double *dout;         /* bwd: [groups][d rows][L], adjoints of the outputs */
  double *dpre;         /* bwd: [groups][hidden][L], adjoints of the units before tanh */
  double *ut;           /* grad: scratch [FLOW_CHUNK L][ut_ld], features with draws outermost */
  double *zt;           /* grad: scratch [FLOW_CHUNK L][zt_ld], inputs likewise */
  double *dtheta;       /* grad: of this layer, added to */
  atvi_idx ut_ld, zt_ld;
} atvi_flow_pass;

typedef struct atvi_flow_kernels {
  void (*fwd)(const atvi_flow_pass *p);
  void (*inv)(const atvi_flow_pass *p);
  void (*fwd_bwd)(const atvi_flow_pass *p); /* adjoint of fwd: v goes from dx to dz */
  void (*inv_bwd)(
      const atvi_flow_pass *p);          /* adjoint of inv: v goes from dz to dx; ldj is still that of fwd */
  void (*grad)(const atvi_flow_pass *p); /* dtheta from dout and dpre */
  /* exp, log and tanh of ATVI_LANES numbers: to test */
  void (*elementary)(const double *x, double *e, double *l, double *t);
} atvi_flow_kernels;

/* Kernels of another instruction set than the best, which this build must have and this processor run: to
 * test. */
void atvi_flow_set_isa(atvi_flow *f, atvi_isa isa);

#endif
