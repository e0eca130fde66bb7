/* SPDX-License-Identifier: MIT */
/* Programs: nodes of a graph made runnable for ATVI_LANES points at once.
 *
 * A program has input slots and output slots. An input slot stands for one input kind of the
 * graph and is an array [n][ATVI_LANES], or [n] if uniform (same for all lanes). An output slot
 * is an array [n][ATVI_LANES] that is stored or added to. All arrays are aligned to ATVI_ALIGN
 * (uniform ones to 8). Outputs never overlap inputs.
 *
 * A module is a set of programs, either interpreted or compiled: C with vector
 * extensions is generated, compiled by the system's compiler, cached and loaded. Both agree to 1e-12. */
#ifndef ATVI_GRAPH_PROGRAM_H
#define ATVI_GRAPH_PROGRAM_H

#include "graph/graph.h"

enum { ATVI_PROG_IN = 10, ATVI_PROG_OUT = 4 };

typedef struct {
  int kind;   /* input kind of the graph */
  atvi_idx n; /* inputs of that kind have index < n */
  bool uniform;
} atvi_prog_in;

typedef struct {
  atvi_idx n;
  const atvi_node *nodes; /* [n], borrowed until the module is made */
  bool accumulate;        /* += instead of = */
} atvi_prog_out;

typedef struct {
  const char *name; /* [a-z_0-9]+, unique in the module; borrowed until the module is made */
  int n_in;
  atvi_prog_in in[ATVI_PROG_IN];
  int n_out;
  atvi_prog_out out[ATVI_PROG_OUT];
  /* [n_scatter] added to output scatter_out after all nodes are stored; borrowed until the module is made */
  int scatter_out;
  atvi_idx n_scatter;
  const atvi_scatter *scatter;
} atvi_prog_spec;

/* A runnable program: a value, copied freely, valid while its module lives. Thread-safe: all
 * that changes is in scratch, `scratch` doubles aligned to ATVI_ALIGN, one per thread. */
typedef struct {
  void (*fn)(const void *self, double *scratch, const double *const *in, double *const *out);
  const void *self;
  size_t scratch;
} atvi_prog;

static inline void atvi_graph_prog_run(const atvi_prog *p, double *scratch, const double *const *in,
                                       double *const *out) {
  p->fn(p->self, scratch, in, out);
}

/* Forward mode: with n_in and n_out slots, program i of a module of tangents has in[n_in + k], the tangent of
 * slot k in the same layout (NULL: 0, as that of uniform slots is), and stores or adds the tangents of its
 * results, d/de result(in + e tangent) at e = 0, to out[n_out + k]. Values are in out[k]. Conventions at
 * kinks are those of atvi_graph_vjp, whose results it exists to test. */
typedef struct {
  bool compile;          /* false: interpret */
  bool tangent;          /* the programs give directional derivatives too, see below; interpreted */
  const char *cache_dir; /* NULL: $XDG_CACHE_HOME/atvi or $HOME/.cache/atvi */
  const char *compiler;  /* NULL: $ATVI_CC, else the first of cc, gcc, clang that works */
} atvi_module_opts;

typedef struct {
  bool compiled; /* false: interpreted, by wish or because no compiler worked */
  bool from_cache;
  double compile_s; /* 0 if from the cache */
  char reason[256]; /* why interpreted although compile was asked for; "" otherwise */
} atvi_module_info;

typedef struct atvi_module atvi_module;

/* Makes programs of graph nodes. The graph may be freed afterwards. Where no compiler works the module is
 * interpreted and info says why. Errors: EINVAL (a node needs an input that is in no slot, a tangent of
 * scattered sums), ENOMEM. */
ATVI_CHECKED atvi_status atvi_graph_module_new(atvi_ctx *ctx, const atvi_graph *g, atvi_idx n,
                                               const atvi_prog_spec *spec, const atvi_module_opts *opts,
                                               atvi_module **out, atvi_module_info *info);
void atvi_graph_module_free(atvi_module *m); /* NULL is fine */
atvi_prog atvi_graph_module_get(const atvi_module *m, atvi_idx i);
/* The generated C, for tests and the curious; owned by pool. NULL on ENOMEM. */
const char *atvi_graph_module_source(atvi_pool *pool, const atvi_graph *g, atvi_idx n,
                                     const atvi_prog_spec *spec);

#endif
