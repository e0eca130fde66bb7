/* SPDX-License-Identifier: MIT */
/* The likelihood as groups of rows: one group per data set, one element per observed column and kind of
 * density; and one group per size of negative binomial counts. Which elements there are is decided for all
 * units together, and each unit has its own numbers. */
#include "model/model.h"
#include <math.h>

/* A bin costs one logarithm, a count without histogram a few: more bins than this per count do not pay. */
static const double BINS_PER_COUNT = 8;
/* The solver may leave a state that should be 0 a little below. Means of counts that depend on states count
 * as 0 down to minus this share of the largest count (at least 1), probabilities as 0 or 1 within it. */
static const double SLACK = 1e-3;

bool atvi_model_inputs(const atvi_model *m, atvi_node x, int kind, void (*fn)(void *, atvi_idx), void *user) {
  const atvi_graph *g = m->lang->graph;
  if (x == ATVI_NODE_NONE || !(atvi_graph_kinds(g, x) >> kind & 1)) return true;
  size_t size = (size_t)atvi_graph_size(g);
  char *seen = atvi_block(m->ctx, size);
  atvi_node *stack = atvi_block(m->ctx, (4 * size + 1) * sizeof *stack);
  bool ok = seen && stack;
  atvi_idx n = 0;
  if (ok) stack[n++] = x;
  while (n > 0) {
    atvi_node at = stack[--n];
    if (seen[at]) continue;
    seen[at] = 1;
    atvi_node_info info = atvi_graph_get(g, at);
    if (info.op == ATVI_OP_INPUT && info.index2 == kind) fn(user, info.index);
    for (int a = 0; a < info.n_arg; a++)
      if (!seen[info.arg[a]] && (atvi_graph_kinds(g, info.arg[a]) >> kind & 1)) stack[n++] = info.arg[a];
  }
  atvi_block_free(m->ctx, stack);
  atvi_block_free(m->ctx, seen);
  return ok;
}

/* What a cell contributes: its kind of density and the value at which it is taken. false: nothing. */
static bool cell(const atvi_lang *lang, const atvi_lang_observe *o, atvi_idx row, atvi_element_kind *kind,
                 double *value) {
  const atvi_lang_data *data = &lang->data[o->data];
  bool count = atvi_lang_dist_get(o->dist)->count;
  double v = *value = data->value[row * data->n_col + o->column];
  *kind = ATVI_EL_EXACT;
  if (isnan(v)) return false;
  switch (data->csv ? data->csv->kind[row * data->csv->n_col + o->column] : ATVI_CELL_NUMBER) {
  case ATVI_CELL_LT: *kind = ATVI_EL_LEFT, *value = count ? ceil(v) - 1 : v; return true;
  case ATVI_CELL_LE: *kind = ATVI_EL_LEFT, *value = count ? floor(v) : v; return true;
  case ATVI_CELL_GT: *kind = ATVI_EL_RIGHT, *value = count ? floor(v) : v; return true;
  case ATVI_CELL_GE: *kind = ATVI_EL_RIGHT, *value = count ? ceil(v) - 1 : v; return true;
  default: break;
  }
  if (v <= o->limit_lower)
    *kind = ATVI_EL_LEFT, *value = o->limit_lower;
  else if (v >= o->limit_upper)
    *kind = ATVI_EL_RIGHT, *value = count ? ceil(o->limit_upper) - 1 : o->limit_upper;
  return true;
}

/* Copies the data with censored cells at the value their density is taken at, and missing ones at a value of
 * their column (1 if there is none), so that no program meets a NaN where its result is not used. */
static atvi_status fill(atvi_model *m, atvi_idx k) {
  const atvi_lang *lang = m->lang;
  const atvi_lang_data *data = &lang->data[k];
  if (!m->lik.filled)
    m->lik.filled = atvi_pool_take(m->pool, (size_t)lang->n_data + 1, sizeof *m->lik.filled);
  if (!m->lik.filled) return ATVI_ENOMEM;
  double *v = m->lik.filled[k] = atvi_pool_take(m->pool, (size_t)(data->n_row * data->n_col + 1), sizeof *v);
  if (!v) return ATVI_ENOMEM;
  for (atvi_idx c = 0; c < data->n_col; c++) {
    double good = 1;
    for (atvi_idx r = data->n_row - 1; r >= 0; r--)
      if (!isnan(data->value[r * data->n_col + c])) good = data->value[r * data->n_col + c];
    for (atvi_idx r = 0; r < data->n_row; r++) {
      double x = data->value[r * data->n_col + c];
      v[r * data->n_col + c] = isnan(x) ? good : x;
    }
  }
  for (atvi_idx o = 0; o < lang->n_observe; o++) {
    const atvi_lang_observe *obs = &lang->observe[o];
    if (obs->data != k || obs->column < 0) continue;
    for (atvi_idx r = 0; r < data->n_row; r++) {
      atvi_element_kind kind;
      double at;
      if (cell(lang, obs, r, &kind, &at)) v[r * data->n_col + obs->column] = at;
    }
  }
  return ATVI_OK;
}

typedef struct {
  const atvi_lang_data *data;
  bool *known; /* [n_row]: all covariates of the element are there */
} covariates;

static void need(void *user, atvi_idx column) {
  const covariates *c = user;
  for (atvi_idx r = 0; r < c->data->n_row; r++)
    if (column >= c->data->n_col || isnan(c->data->value[r * c->data->n_col + column])) c->known[r] = false;
}

/* m->lik.covariates: in which rows all the columns that an observation's distribution needs are there. */
static atvi_status find_covariates(atvi_model *m) {
  const atvi_lang *lang = m->lang;
  m->lik.covariates = atvi_pool_take(m->pool, (size_t)lang->n_observe + 1, sizeof *m->lik.covariates);
  for (atvi_idx o = 0; m->lik.covariates && o < lang->n_observe; o++) {
    const atvi_lang_observe *obs = &lang->observe[o];
    covariates cov = {&lang->data[obs->data],
                      atvi_pool_take(m->pool, (size_t)lang->data[obs->data].n_row + 1, sizeof(bool))};
    m->lik.covariates[o] = cov.known;
    if (!cov.known) return ATVI_ENOMEM;
    for (atvi_idx r = 0; r < cov.data->n_row; r++) cov.known[r] = true;
    for (int a = 0; a < obs->n_arg; a++)
      if (!atvi_model_inputs(m, obs->arg[a], ATVI_IN_DATA, need, &cov)) return ATVI_ENOMEM;
  }
  return m->lik.covariates ? ATVI_OK : ATVI_ENOMEM;
}

/* Whether the value of observation o in row r of a unit contributes a density of that kind, and where it is
 * taken. */
static bool contributes(const atvi_model *u, atvi_idx o, atvi_idx r, atvi_element_kind kind, double *value) {
  atvi_element_kind is;
  return cell(u->lang, &u->lang->observe[o], r, &is, value) && u->lik.covariates[o][r] && is == kind;
}

static bool any_contributes(const atvi_model *m, atvi_idx o, atvi_element_kind kind) {
  double v;
  for (atvi_idx i = 0; i < m->copies.n; i++)
    for (atvi_idx r = 0; r < m->copies.unit[i]->lang->data[m->lang->observe[o].data].n_row; r++)
      if (contributes(m->copies.unit[i], o, r, kind, &v)) return true;
  return false;
}

/* The largest value of the observation's column in all units, and how many there are. */
static double largest(const atvi_model *m, const atvi_lang_observe *o, double *counts) {
  double most = 0;
  *counts = 0;
  for (atvi_idx i = 0; i < m->copies.n; i++) {
    const atvi_lang_data *data = &m->copies.unit[i]->lang->data[o->data];
    for (atvi_idx r = 0; r < data->n_row; r++) {
      double v = data->value[r * data->n_col + o->column];
      most = fmax(most, v); /* not NaN */
      *counts += !isnan(v);
    }
  }
  return most;
}

static bool histogram_fits(const atvi_model *m, const atvi_lang_observe *o) {
  double counts;
  if (o->dist != ATVI_DIST_NEGBIN || (atvi_graph_kinds(m->lang->graph, o->arg[1]) & ~(1u << ATVI_IN_PARAM)))
    return false;
  double most = largest(m, o, &counts);
  return most <= BINS_PER_COUNT * counts;
}

/* The arguments of a count's distribution, forgiving what a solver does to a mean or probability of 0. */
static void forgive(const atvi_model *m, const atvi_lang_observe *o, atvi_node arg[ATVI_DIST_ARGS]) {
  atvi_graph *g = m->lang->graph;
  bool p = o->dist == ATVI_DIST_BINOMIAL;
  double counts;
  atvi_node *x = &arg[p ? 1 : 0];
  for (int a = 0; a < ATVI_DIST_ARGS; a++) arg[a] = o->arg[a];
  if (!atvi_lang_dist_get(o->dist)->count || o->dist == ATVI_DIST_BETABINOMIAL ||
      !(atvi_graph_kinds(g, *x) & (1u << ATVI_IN_STATE | 1u << ATVI_IN_PREV)))
    return;
  /* A power of two, so that compiled code serves other data of about the same size. */
  double slack = p ? SLACK : SLACK * exp2(ceil(log2(fmax(1, largest(m, o, &counts)))));
  atvi_node zero = atvi_graph_const(g, 0), one = atvi_graph_const(g, 1);
  atvi_node above = atvi_graph_op2(g, ATVI_OP_LT, atvi_graph_const(g, -slack), *x);
  atvi_node clamped = atvi_graph_op2(g, ATVI_OP_MAX, zero, *x);
  if (p) {
    above = atvi_graph_op2(g, ATVI_OP_AND, above,
                           atvi_graph_op2(g, ATVI_OP_LT, *x, atvi_graph_const(g, 1 + slack)));
    clamped = atvi_graph_op2(g, ATVI_OP_MIN, one, clamped);
  }
  *x = atvi_graph_select(g, above, clamped, *x);
}

static atvi_node element_node(const atvi_model *m, const atvi_lang_observe *o, atvi_element_kind kind,
                              bool apart) {
  atvi_graph *g = m->lang->graph;
  atvi_node y = atvi_graph_input(g, ATVI_IN_DATA, o->column), lrise = ATVI_NODE_NONE, arg[ATVI_DIST_ARGS];
  forgive(m, o, arg);
  if (kind == ATVI_EL_LEFT) return atvi_lang_dist_lcdf(g, o->dist, y, arg);
  if (kind == ATVI_EL_RIGHT) return atvi_lang_dist_lccdf(g, o->dist, y, arg);
  return atvi_lang_dist_lpdf(g, o->dist, y, arg, apart ? &lrise : NULL);
}

/* ---- which elements there are, in any of the units ---- */

/* Adds the elements of observation o to its data set's group. */
static atvi_status observe_elements(atvi_model *m, atvi_rows *rows, atvi_idx o) {
  const atvi_lang_observe *obs = &m->lang->observe[o];
  m->lik.apart[o] = histogram_fits(m, obs);
  for (atvi_element_kind kind = ATVI_EL_EXACT; kind <= ATVI_EL_RIGHT; kind++) {
    atvi_idx e = rows->n_el;
    if (!any_contributes(m, o, kind)) continue;
    rows->node[e] = element_node(m, obs, kind, m->lik.apart[o]);
    rows->whole[e] = m->lik.apart[o] ? element_node(m, obs, kind, false) : rows->node[e];
    rows->observe[e] = o;
    rows->kind[e] = kind;
    if (rows->node[e] == ATVI_NODE_NONE && !atvi_graph_failed(m->lang->graph))
      return ATVI_FAIL(m->ctx, ATVI_EMODEL,
                       "%s:%d:%d: error: %s observations cannot be censored\nhint: leave the column's "
                       "censored values out, or use another distribution",
                       m->lang->path, obs->place.line, obs->place.column,
                       atvi_lang_dist_get(obs->dist)->name);
    rows->n_el++;
  }
  return ATVI_OK;
}

static atvi_status data_group(atvi_model *m, atvi_idx k, atvi_rows *rows) {
  const atvi_lang *lang = m->lang;
  size_t most = 3 * (size_t)lang->n_observe + 1;
  *rows = (atvi_rows){.data = k};
  rows->node = atvi_pool_take(m->pool, most, sizeof *rows->node);
  rows->whole = atvi_pool_take(m->pool, most, sizeof *rows->whole);
  rows->observe = atvi_pool_take(m->pool, most, sizeof *rows->observe);
  rows->kind = atvi_pool_take(m->pool, most, sizeof *rows->kind);
  if (!rows->node || !rows->whole || !rows->observe || !rows->kind) return ATVI_ENOMEM;
  for (atvi_idx o = 0; o < lang->n_observe; o++)
    if (lang->observe[o].data == k && lang->observe[o].column >= 0 && lang->observe[o].n_term == 0)
      ATVI_TRY(observe_elements(m, rows, o));
  return ATVI_OK;
}

/* sum over counts y of [lgamma(y + s) - lgamma(s)] = sum_k n_k log(s + k), n_k the number of counts above k. */
static atvi_status size_group(atvi_model *m, atvi_node size, atvi_rows *rows) {
  atvi_graph *g = m->lang->graph;
  *rows = (atvi_rows){.data = -1, .n_el = 1, .n_known = 2, .size = size};
  rows->node = atvi_pool_take(m->pool, 1, sizeof *rows->node);
  rows->observe = atvi_pool_take(m->pool, 1, sizeof *rows->observe);
  if (!rows->node || !rows->observe) return ATVI_ENOMEM;
  rows->observe[0] = -1;
  atvi_node at = atvi_graph_op2(g, ATVI_OP_ADD, size, atvi_graph_input(g, ATVI_IN_ROW, 0));
  atvi_node term =
      atvi_graph_op2(g, ATVI_OP_MUL, atvi_graph_input(g, ATVI_IN_ROW, 1), atvi_graph_op1(g, ATVI_OP_LOG, at));
  atvi_node zero =
      atvi_graph_const(g, 0); /* a size below 0 has likelihood 0 already; nothing may spoil that */
  rows->node[0] = atvi_graph_select(g, atvi_graph_op2(g, ATVI_OP_LT, zero, size), term, zero);
  return ATVI_OK;
}

/* ---- the numbers of one unit ---- */

static atvi_status data_numbers(const atvi_model *u, atvi_rows *rows) {
  double v;
  rows->n_row = u->lang->data[rows->data].n_row;
  rows->out = u->times.row_out[rows->data];
  rows->prev = u->times.row_prev[rows->data];
  rows->mask = atvi_pool_take(u->pool, (size_t)(rows->n_row * rows->n_el + 1), sizeof *rows->mask);
  if (!rows->mask) return ATVI_ENOMEM;
  for (atvi_idx r = 0; r < rows->n_row; r++)
    for (atvi_idx e = 0; e < rows->n_el; e++)
      rows->mask[r * rows->n_el + e] = contributes(u, rows->observe[e], r, rows->kind[e], &v);
  return ATVI_OK;
}

/* Calls add for every count whose density is taken apart by this size. */
static void each_count(const atvi_model *u, atvi_node size, void (*add)(atvi_rows *rows, double count),
                       atvi_rows *rows) {
  const atvi_lang *lang = u->lang;
  double v;
  for (atvi_idx o = 0; o < lang->n_observe; o++)
    for (atvi_idx r = 0; u->base->lik.apart[o] && lang->observe[o].arg[1] == size &&
                         r < lang->data[lang->observe[o].data].n_row;
         r++)
      if (contributes(u, o, r, ATVI_EL_EXACT, &v)) add(rows, v);
}

static void most_bins(atvi_rows *rows, double count) {
  if ((atvi_idx)count > rows->n_row) rows->n_row = (atvi_idx)count;
}

/* Counts that are k + 1. */
static void add_bin(atvi_rows *rows, double count) {
  if (count > 0) rows->known[2 * ((atvi_idx)count - 1) + 1]++;
}

static atvi_status size_numbers(const atvi_model *u, atvi_rows *rows) {
  rows->n_row = 0;
  each_count(u, rows->size, most_bins, rows);
  atvi_idx bins = rows->n_row;
  rows->known = atvi_pool_take(u->pool, (size_t)(2 * bins + 1), sizeof *rows->known);
  rows->mask = atvi_pool_take(u->pool, (size_t)bins + 1, sizeof *rows->mask);
  rows->out = atvi_pool_take(u->pool, (size_t)bins + 1, sizeof *rows->out);
  rows->prev = atvi_pool_take(u->pool, (size_t)bins + 1, sizeof *rows->prev);
  if (!rows->known || !rows->mask || !rows->out || !rows->prev) return ATVI_ENOMEM;
  each_count(u, rows->size, add_bin, rows);
  for (atvi_idx k = bins - 1; k >= 0; k--) {
    rows->known[2 * k] = (double)k;
    if (k + 1 < bins) rows->known[2 * k + 1] += rows->known[2 * k + 3]; /* and above */
    rows->mask[k] = 1;
    rows->out[k] = rows->prev[k] = -1;
  }
  return ATVI_OK;
}

static atvi_status numbers(const atvi_model *m, atvi_model *u) {
  atvi_rows *rows = u == m ? m->lik.rows : atvi_pool_take(u->pool, (size_t)m->lik.n_rows + 1, sizeof *rows);
  if (!rows) return ATVI_ENOMEM;
  for (atvi_idx k = 0; k < m->lik.n_rows; k++) {
    rows[k] = m->lik.rows[k];
    ATVI_TRY(rows[k].data >= 0 ? data_numbers(u, &rows[k]) : size_numbers(u, &rows[k]));
  }
  u->lik.rows = rows;
  u->lik.n_rows = m->lik.n_rows;
  return ATVI_OK;
}

/* Sizes of counts that are taken apart, one group each. */
static atvi_status size_groups(atvi_model *m) {
  const atvi_lang *lang = m->lang;
  atvi_idx first = m->lik.n_rows;
  for (atvi_idx o = 0; o < lang->n_observe; o++) {
    atvi_idx k = first;
    if (!m->lik.apart[o] || !any_contributes(m, o, ATVI_EL_EXACT)) continue;
    while (k < m->lik.n_rows && m->lik.rows[k].size != lang->observe[o].arg[1]) k++;
    if (k == m->lik.n_rows) ATVI_TRY(size_group(m, lang->observe[o].arg[1], &m->lik.rows[m->lik.n_rows++]));
  }
  return ATVI_OK;
}

/* Drops groups that have no rows in any unit: sizes whose counts are all 0. */
static void drop_empty(atvi_model *m) {
  atvi_idx n = 0;
  for (atvi_idx k = 0; k < m->lik.n_rows; k++) {
    bool any = false;
    for (atvi_idx i = 0; i < m->copies.n; i++) any = any || m->copies.unit[i]->lik.rows[k].n_row > 0;
    for (atvi_idx i = 0; any && i < m->copies.n; i++)
      m->copies.unit[i]->lik.rows[n] = m->copies.unit[i]->lik.rows[k];
    n += any;
  }
  for (atvi_idx i = 0; i < m->copies.n; i++) m->copies.unit[i]->lik.n_rows = n;
}

atvi_status atvi_model_rows(atvi_model *m) {
  const atvi_lang *lang = m->lang;
  m->lik.rows = atvi_pool_take(m->pool, (size_t)(lang->n_data + lang->n_observe + 1), sizeof *m->lik.rows);
  m->lik.apart = atvi_pool_take(m->pool, (size_t)lang->n_observe + 1, sizeof *m->lik.apart);
  if (!m->lik.rows || !m->lik.apart) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < m->copies.n; i++) ATVI_TRY(find_covariates(m->copies.unit[i]));
  for (atvi_idx k = 0; k < lang->n_data; k++) {
    for (atvi_idx i = 0; i < m->copies.n; i++) ATVI_TRY(fill(m->copies.unit[i], k));
    ATVI_TRY(data_group(m, k, &m->lik.rows[m->lik.n_rows]));
    if (m->lik.rows[m->lik.n_rows].n_el > 0) m->lik.n_rows++;
  }
  ATVI_TRY(size_groups(m));
  for (atvi_idx i = 0; i < m->copies.n; i++) ATVI_TRY(numbers(m, m->copies.unit[i]));
  drop_empty(m);
  for (atvi_idx k = 0; k < m->lik.n_rows; k++)
    if (m->lik.rows[k].n_el > m->lik.max_el) m->lik.max_el = m->lik.rows[k].n_el;
  return ATVI_OK;
}
