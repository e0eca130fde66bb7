/* SPDX-License-Identifier: MIT */
/* Modules: programs lowered, then compiled where asked and possible, else interpreted. */
#include "graph/internal.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

struct atvi_module {
  atvi_ctx *ctx;
  atvi_pool *pool; /* of the interpreter's tables */
  void *handle;    /* of the compiled code; NULL: interpreted */
  atvi_idx n;
  atvi_prog *prog; /* [n] */
};

void atvi_graph_module_free(atvi_module *m) {
  if (!m) return;
  if (m->handle) dlclose(m->handle);
  atvi_pool_free(m->pool);
  atvi_block_free(m->ctx, m->prog);
  atvi_block_free(m->ctx, m);
}

atvi_prog atvi_graph_module_get(const atvi_module *m, atvi_idx i) {
  ATVI_ASSERT(i >= 0 && i < m->n);
  return m->prog[i];
}

static atvi_status lower_all(atvi_pool *pool, const atvi_graph *g, atvi_idx n, const atvi_prog_spec *spec,
                             atvi_graph_code **out) {
  atvi_graph_code *code = *out = atvi_pool_take(pool, (size_t)n, sizeof *code);
  if (!code) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < n; i++) ATVI_TRY(atvi_graph_code_new(pool, g, &spec[i], &code[i]));
  return ATVI_OK;
}

/* dlsym gives an object pointer; POSIX promises that its bits are those of the function. */
static bool find_program(void *handle, const char *name, atvi_prog *prog) {
  char symbol[256];
  int len = snprintf(symbol, sizeof symbol, "atvi_prog_%s", name);
  void *p = len < (int)sizeof symbol ? dlsym(handle, symbol) : NULL;
  memcpy(&prog->fn, &p, sizeof p);
  prog->self = &atvi_graph_gen_callbacks;
  return p != NULL;
}

static atvi_status try_compile(atvi_module *m, atvi_pool *pool, const atvi_prog_spec *spec,
                               const atvi_graph_code *code, const atvi_module_opts *opts,
                               atvi_module_info *info) {
  size_t *scratch = atvi_pool_take(pool, (size_t)m->n, sizeof *scratch);
  const char *source = scratch ? atvi_graph_gen_source(pool, m->n, spec, code, scratch) : NULL;
  if (!source) return ATVI_ENOMEM;
  atvi_compiled c;
  atvi_graph_compile(pool, source, opts, &c);
  if (atvi_pool_failed(pool)) {
    if (c.handle) dlclose(c.handle);
    return ATVI_ENOMEM;
  }
  bool all = c.handle != NULL;
  for (atvi_idx i = 0; all && i < m->n; i++) {
    all = find_program(c.handle, spec[i].name, &m->prog[i]);
    m->prog[i].scratch = scratch[i];
    if (!all) snprintf(c.reason, sizeof c.reason, "the compiled code lacks program %.100s", spec[i].name);
  }
  if (!all && c.handle) dlclose(c.handle);
  m->handle = all ? c.handle : NULL;
  *info = (atvi_module_info){.compiled = all, .from_cache = all && c.from_cache, .compile_s = c.compile_s};
  if (!all) snprintf(info->reason, sizeof info->reason, "%s", c.reason);
  return ATVI_OK;
}

static atvi_status build(atvi_module *m, const atvi_graph *g, const atvi_prog_spec *spec,
                         const atvi_module_opts *opts, atvi_module_info *info, atvi_pool *work) {
  atvi_graph_code *code;
  ATVI_TRY(lower_all(work, g, m->n, spec, &code));
  if (opts->compile) ATVI_TRY(try_compile(m, work, spec, code, opts, info));
  for (atvi_idx i = 0; !m->handle && i < m->n; i++)
    ATVI_TRY(atvi_graph_interp_new(m->pool, &code[i], &spec[i], &m->prog[i]));
  return ATVI_OK;
}

atvi_status atvi_graph_module_new(atvi_ctx *ctx, const atvi_graph *g, atvi_idx n, const atvi_prog_spec *spec,
                                  const atvi_module_opts *opts, atvi_module **out, atvi_module_info *info) {
  atvi_module_info unasked;
  if (!info) info = &unasked;
  *info = (atvi_module_info){0};
  *out = NULL;
  if (n < 0) return ATVI_FAIL(ctx, ATVI_EINVAL, "module: %td programs", n);
  atvi_module *m = atvi_block(ctx, sizeof *m);
  if (!m) return ATVI_ENOMEM;
  *m = (atvi_module){.ctx = ctx, .n = n};
  m->prog = atvi_block(ctx, (size_t)n * sizeof *m->prog);
  atvi_pool *work = NULL;
  atvi_status status = m->prog ? ATVI_OK : ATVI_ENOMEM;
  if (status == ATVI_OK) status = atvi_pool_new(ctx, &m->pool);
  if (status == ATVI_OK) status = atvi_pool_new(ctx, &work);
  if (status == ATVI_OK) status = build(m, g, spec, opts ? opts : &(atvi_module_opts){0}, info, work);
  atvi_pool_free(work);
  if (status != ATVI_OK) {
    atvi_graph_module_free(m);
    return status;
  }
  *out = m;
  return ATVI_OK;
}

const char *atvi_graph_module_source(atvi_pool *pool, const atvi_graph *g, atvi_idx n,
                                     const atvi_prog_spec *spec) {
  atvi_graph_code *code;
  size_t *scratch = atvi_pool_take(pool, (size_t)n, sizeof *scratch);
  if (!scratch || lower_all(pool, g, n, spec, &code) != ATVI_OK) return NULL;
  return atvi_graph_gen_source(pool, n, spec, code, scratch);
}
