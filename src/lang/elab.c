/* SPDX-License-Identifier: MIT */
/* The way from a file to a model: reading, parsing, and the order in which the parts are made. */
#include "lang/elab.h"
#include "io/file.h"
#include <string.h>

/* Parameters and states are numbered in the order of the file. */
void atvi_lang_numbers(elab *e) {
  atvi_idx n_param = 0, n_state = 0;
  for (atvi_idx i = 0; i < e->n_symbol; i++) {
    elab_symbol *sym = e->symbol[i];
    if (sym->kind == SYM_PARAM) {
      sym->base = n_param;
      n_param += sym->total;
    } else if (sym->kind == SYM_STATE) {
      sym->base = n_state;
      n_state += sym->total;
    }
  }
  e->lang->n_param = n_param;
}

static bool values(elab *e, elab_kind kind, atvi_idx *n, atvi_lang_value **out) {
  atvi_idx total = 0;
  for (atvi_idx i = 0; i < e->n_symbol; i++)
    if (e->symbol[i]->kind == kind && e->symbol[i]->level == e->in.level) total += e->symbol[i]->total;
  if (!(*out = atvi_lang_take(e->s, total, sizeof **out))) return false;
  elab_env v = {.allowed = ELAB_ALL, .where = "this", .data = -1};
  for (atvi_idx i = 0; i < e->n_symbol; i++) {
    elab_symbol *sym = e->symbol[i];
    if (sym->kind != kind || sym->level < e->in.level) continue;
    ast_expr use = {.kind = EX_NAME, .at = sym->at, .word = sym->word};
    for (atvi_idx k = 0; k < sym->total; k++) {
      atvi_lang_value *value = &(*out)[(*n)++];
      value->name = atvi_lang_element_name(e, sym->word->text, sym->n_dim, sym->dim, k);
      value->node = atvi_lang_element(e, &v, &use, sym, k);
      if (!value->name || value->node == ATVI_NODE_NONE) return false;
    }
  }
  return true;
}

static bool log_terms(elab *e) {
  atvi_node sum = e->lang->log.flat;
  elab_env v = {.allowed = ELAB_KIND(ATVI_IN_PARAM), .where = "logp", .data = -1};
  for (atvi_idx i = 0; i < e->file->n; i++) {
    if (e->file->stmt[i].kind != KW_LOGP) continue;
    atvi_node x = atvi_lang_eval(e, &v, e->file->stmt[i].value);
    if (x == ATVI_NODE_NONE) return false;
    sum = atvi_graph_op2(e->g, ATVI_OP_ADD, sum, x);
  }
  e->lang->log.extra = sum;
  return true;
}

/* Lets nobody used are still looked at, so that a mistake in one does not hide. Where columns could mean
 * one of several files, or of one that is missing, there is nothing to look them up in. */
static bool unused_lets(elab *e) {
  atvi_idx n = e->lang->n_data;
  if (e->lang->blocks.n_block || n > 1 || (n == 1 && !e->lang->data[0].csv)) return true;
  elab_env v = {.allowed = ELAB_ALL, .where = "this", .data = n - 1};
  for (atvi_idx i = 0; i < e->n_symbol; i++) {
    elab_symbol *sym = e->symbol[i];
    if ((sym->kind != SYM_LET && sym->kind != SYM_CONST) || sym->level < e->in.level) continue;
    ast_expr use = {.kind = EX_NAME, .at = sym->at, .word = sym->word};
    for (atvi_idx k = 0; k < sym->total; k++) {
      if (sym->memo[k].state == MEMO_NONE && sym->memo[sym->total + k].state == MEMO_NONE &&
          atvi_lang_element(e, &v, &use, sym, k) == ATVI_NODE_NONE)
        return false;
    }
  }
  return true;
}

bool atvi_lang_values(elab *e) {
  return values(e, SYM_DERIVED, &e->lang->outputs.n_derived, &e->lang->outputs.derived) &&
         values(e, SYM_TRACK, &e->lang->outputs.n_track, &e->lang->outputs.track) && log_terms(e) &&
         atvi_lang_lags(e) && unused_lets(e);
}

static bool elaborate(elab *e) {
  if (!atvi_lang_count_blocks(e) || !atvi_lang_declare(e) || !atvi_lang_settings(e) || !atvi_lang_walks(e) ||
      !atvi_lang_shapes(e))
    return false;
  atvi_lang_numbers(e);
  return atvi_lang_tables(e) && atvi_lang_elab_data(e) && atvi_lang_start(e) && atvi_lang_params(e) &&
         atvi_lang_states(e) && atvi_lang_pulses(e) && atvi_lang_elab_simulator(e) &&
         atvi_lang_emulator_names(e) && atvi_lang_elab_observe(e) && atvi_lang_simulator_inputs(e) &&
         atvi_lang_emulators(e) && atvi_lang_values(e) && atvi_lang_blocks(e);
}

static atvi_status build(ast_source *s, const atvi_lang_opts *opts, atvi_lang *lang) {
  ast_words *words = atvi_lang_take(s, 1, sizeof *words);
  elab e = {.s = s, .words = words, .opts = opts, .g = lang->graph, .lang = lang};
  ast_file file;
  bool ok = words && atvi_lang_words_init(s, words) && atvi_lang_parse_text(s, words, &file);
  if (ok && file.n == 0)
    atvi_lang_error(s, (atvi_place){1, 1}, "a model has at least a line such as: param beta ~ uniform(0, 3)",
                    "the model file is empty");
  else if (ok) {
    e.tree = e.file = &file;
    if ((e.files = atvi_lang_take(s, file.n, sizeof *e.files))) elaborate(&e);
  }
  if (s->status == ATVI_OK && (atvi_graph_failed(lang->graph) || atvi_pool_failed(s->pool)))
    atvi_lang_nomem(s);
  return s->status;
}

static atvi_status parse_in(atvi_pool *pool, const char *path, const char *text, size_t n,
                            const atvi_lang_opts *opts, atvi_lang **out) {
  atvi_ctx *ctx = atvi_pool_ctx(pool);
  bool too_long = n > AST_MAX_TEXT;
  if (too_long) n = AST_MAX_TEXT;
  atvi_lang *lang = atvi_pool_take(pool, 1, sizeof *lang);
  char *own_path = atvi_pool_strndup(pool, path, strlen(path)), *own_text = atvi_pool_strndup(pool, text, n);
  if (!lang || !own_path || !own_text) return ATVI_ENOMEM;
  ast_source s = {.ctx = ctx, .pool = pool, .path = own_path, .text = own_text, .n = n};
  if (too_long)
    return atvi_lang_error(&s, (atvi_place){1, 1}, "large tables and matrices can be read from CSV files",
                           "the model file has more than %d bytes", (int)AST_MAX_TEXT);
  *lang = (atvi_lang){.pool = pool, .path = own_path, .source = own_text};
  ATVI_TRY(atvi_graph_new(ctx, &lang->graph));
  atvi_status status = build(&s, opts, lang);
  if (status != ATVI_OK) {
    atvi_graph_free(lang->graph);
    return status;
  }
  *out = lang;
  return ATVI_OK;
}

atvi_status atvi_lang_parse(atvi_ctx *ctx, const char *path, const char *text, size_t n,
                            const atvi_lang_opts *opts, atvi_lang **out) {
  atvi_pool *pool;
  *out = NULL;
  ATVI_TRY(atvi_pool_new(ctx, &pool));
  atvi_status status = parse_in(pool, path, text, n, opts, out);
  if (status != ATVI_OK) atvi_pool_free(pool);
  return status;
}

atvi_status atvi_lang_load(atvi_ctx *ctx, const char *path, const atvi_lang_opts *opts, atvi_lang **out) {
  atvi_pool *pool;
  char *text;
  size_t n;
  *out = NULL;
  ATVI_TRY(atvi_pool_new(ctx, &pool));
  atvi_status status = atvi_io_file_read_most(pool, path, AST_MAX_TEXT, &text, &n);
  if (status == ATVI_OK) status = parse_in(pool, path, text, n, opts, out);
  if (status != ATVI_OK) atvi_pool_free(pool);
  return status;
}

void atvi_lang_free(atvi_lang *lang) {
  if (!lang) return;
  atvi_graph_free(lang->graph);
  atvi_pool_free(lang->pool);
}
