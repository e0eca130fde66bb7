/* SPDX-License-Identifier: MIT */
#include "model/model.h"
#include "io/file.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

/* What the emulator and the other processes make of an observed series, apart. Such models have no states
 * that would have to come later. */
static atvi_status process_series(atvi_model *m, atvi_series *s) {
  atvi_target *t = &m->target;
  for (atvi_idx k = 0; m->emulated && k < m->emulated->n; k++) {
    atvi_process *p = &m->emulated->process[k];
    const atvi_series *of = &s[p->observe];
    for (int rest = 0; rest < 2; rest++) {
      if (rest ? !p->has_rest : p->emulator < 0) continue;
      const char *name = atvi_pool_printf(m->pool, rest ? "%s.discrepancy" : "%s.emulator", of->name);
      if (!name) return ATVI_ENOMEM;
      *(rest ? &p->out_rest : &p->out_emulator) = t->n_out;
      s[t->n_series++] = (atvi_series){name, ATVI_SERIES_TRACKED, -1, of->n, of->time, NULL, 0};
      t->n_out += of->n;
    }
  }
  return ATVI_OK;
}

atvi_status atvi_model_series(atvi_model *m) {
  const atvi_lang *lang = m->lang;
  atvi_target *t = &m->target;
  atvi_idx n_series = lang->n_observe + lang->outputs.n_track + lang->dynamics.n_state - lang->dynamics.n_lag;
  atvi_idx most = n_series + (m->emulated ? 2 * m->emulated->n : 0);
  atvi_series *s = atvi_pool_take(m->pool, (size_t)most + 1, sizeof *s);
  m->rare.obs_at = atvi_pool_take(m->pool, (size_t)lang->n_observe + 1, sizeof *m->rare.obs_at);
  m->times.n_series_time = m->times.n_output > 0 ? m->times.n_output : 1;
  m->times.series_time =
      m->times.n_output > 0 ? m->times.output_time : atvi_pool_take(m->pool, 1, sizeof(double));
  if (!s || !m->rare.obs_at || !m->times.series_time) return ATVI_ENOMEM;
  for (atvi_idx o = 0; o < lang->n_observe; o++) {
    const atvi_lang_observe *obs = &lang->observe[o];
    const atvi_lang_data *data = &lang->data[obs->data];
    double *value = atvi_pool_take(m->pool, (size_t)data->n_row + 1, sizeof *value);
    double *row = data->time ? NULL : atvi_pool_take(m->pool, (size_t)data->n_row + 1, sizeof *row);
    if (!value || (!data->time && !row)) return ATVI_ENOMEM;
    for (atvi_idx r = 0; r < data->n_row; r++) {
      value[r] = obs->column >= 0 ? data->value[r * data->n_col + obs->column] : NAN;
      if (row) row[r] = (double)(r + 1);
    }
    s[o] = (atvi_series){
        obs->name, ATVI_SERIES_OBSERVED, obs->data, data->n_row, data->time ? data->time : row, value, 0};
    m->rare.obs_at[o] = t->n_obs;
    t->n_obs += data->n_row;
  }
  for (atvi_idx i = lang->n_observe; i < n_series; i++) {
    atvi_idx k = i - lang->n_observe;
    bool tracked = k < lang->outputs.n_track;
    const char *name =
        tracked ? lang->outputs.track[k].name : lang->dynamics.state[k - lang->outputs.n_track].name;
    s[i] = (atvi_series){name,
                         tracked ? ATVI_SERIES_TRACKED : ATVI_SERIES_STATE,
                         -1,
                         m->times.n_series_time,
                         m->times.series_time,
                         NULL,
                         0};
  }
  t->series = s;
  t->n_series = n_series;
  t->n_out = t->n_obs + (n_series - lang->n_observe) * m->times.n_series_time;
  return process_series(m, s);
}

atvi_status atvi_model_describe(atvi_model *m) {
  const atvi_lang *lang = m->lang;
  atvi_target *t = &m->target;
  atvi_param *param = atvi_pool_take(m->pool, (size_t)lang->n_param + 1, sizeof *param);
  const char **derived = atvi_pool_take(m->pool, (size_t)lang->outputs.n_derived + 1, sizeof *derived);
  if (!param || !derived) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < lang->n_param; i++)
    param[i] =
        (atvi_param){lang->param[i].name, lang->param[i].lower, lang->param[i].upper, lang->param[i].map};
  for (atvi_idx i = 0; i < lang->outputs.n_derived; i++) derived[i] = lang->outputs.derived[i].name;
  t->ops = &atvi_model_ops;
  t->self = m;
  t->name = atvi_io_path_stem(m->pool, lang->path);
  t->group = m->emulated ? ATVI_EM_GROUP : 0;
  t->d = lang->n_param;
  t->param = param;
  t->n_derived = lang->outputs.n_derived;
  t->derived = derived;
  t->n_unit = m->arrays.n;
  t->unit = m->arrays.unit;
  return t->name ? atvi_model_place(m) : ATVI_ENOMEM;
}

/* As many rows as there are now: times may have been added. */
static atvi_status find_apart(atvi_model *m, const char *rule, atvi_holdout *out) {
  *out = (atvi_holdout){0};
  return rule ? atvi_model_holdout_find(m->pool, m->lang, rule, out) : ATVI_OK;
}

atvi_status atvi_model_build(atvi_model *m, const atvi_model_load_opts *opts) {
  atvi_holdout apart;
  m->base = m;
  m->copies.n = 1;
  m->copies.unit = &m->base;
  ATVI_TRY(atvi_model_jumps(m));
  ATVI_TRY(atvi_model_constant(m));
  ATVI_TRY(atvi_model_times(m, opts));
  m->copies.most_output = m->times.n_output;
  ATVI_TRY(atvi_model_rows(m));
  ATVI_TRY(find_apart(m, opts->apart, &apart));
  ATVI_TRY(atvi_model_emulated_new(m->pool, m->lang, opts, apart.held, &m->emulated));
  ATVI_TRY(atvi_model_arrays(m));
  ATVI_TRY(atvi_model_describe(m));
  ATVI_TRY(atvi_model_programs(m, opts));
  m->target.n_branch = m->branches.n;
  ATVI_TRY(atvi_model_series(m));
  ATVI_TRY(atvi_model_solver(m));
  return atvi_model_count(m);
}

static atvi_status build(atvi_model *m, const atvi_model_load_opts *opts) {
  if (m->lang->blocks.n_block > 0) return atvi_model_units(m, opts);
  if (opts->holdout) {
    ATVI_TRY(atvi_model_holdout_find(m->pool, m->lang, opts->holdout, &m->holdout));
    ATVI_TRY(atvi_model_holdout_apply(m->pool, m->lang, &m->holdout));
  }
  return atvi_model_build(m, opts);
}

atvi_status atvi_model_load_with(atvi_ctx *ctx, const char *path, const atvi_model_load_opts *opts,
                                 atvi_model **out) {
  atvi_model_load_opts use = opts ? *opts : (atvi_model_load_opts){0};
  *out = NULL;
  atvi_pool *pool;
  ATVI_TRY(atvi_pool_new(ctx, &pool));
  atvi_model *m = atvi_pool_take(pool, 1, sizeof *m);
  if (!m) {
    atvi_pool_free(pool);
    return ATVI_ENOMEM;
  }
  m->ctx = ctx;
  m->pool = pool;
  const atvi_lang_opts how = {use.n_data, use.data, .folder = use.folder,
                              .data_optional = use.n_time > 0 && !use.extend};
  atvi_status status = use.text ? atvi_lang_parse(ctx, path, use.text, strlen(use.text), &how, &m->lang)
                                : atvi_lang_load(ctx, path, &how, &m->lang);
  if (status == ATVI_OK) status = build(m, &use);
  if (status != ATVI_OK) {
    atvi_model_free(m);
    return status;
  }
  *out = m;
  return ATVI_OK;
}

atvi_model_opts atvi_model_defaults(void) { return (atvi_model_opts){.size = sizeof(atvi_model_opts)}; }

/* Callers built with an older header have a shorter struct: what is missing keeps its default. */
atvi_status atvi_model_load(atvi_ctx *ctx, const char *path, const atvi_model_opts *opts, atvi_model **out) {
  atvi_model_opts o = atvi_model_defaults();
  *out = NULL;
  if (opts && (opts->size < offsetof(atvi_model_opts, interpret) || opts->size > sizeof o))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "model: options of %zu bytes; begin with atvi_model_defaults()",
                     opts->size);
  if (opts) memcpy(&o, opts, opts->size);
  return atvi_model_load_with(ctx, path,
                              &(atvi_model_load_opts){.n_data = o.n_data,
                                                      .data = o.data,
                                                      .interpret = o.interpret,
                                                      .n_time = o.n_time,
                                                      .time = o.time,
                                                      .holdout = o.holdout,
                                                      .folder = o.folder,
                                                      .runs = o.runs},
                              out);
}

/* Frees what does not lie in pools. */
static void release(atvi_model *m) {
  atvi_graph_module_free(m->prog.hot);
  atvi_graph_module_free(m->choice.jacobian);
  atvi_graph_module_free(m->choice.rest_jacobian);
  atvi_graph_module_free(m->prog.cold);
  if (m->prog.tangents) atvi_graph_module_free(m->prog.tangents->module);
  atvi_model_emulated_free(m->emulated);
}

void atvi_model_free(atvi_model *m) {
  if (!m) return;
  for (atvi_idx i = 0; i < m->blocks.n_part; i++)
    if (m->blocks.part[i].m && m->blocks.part[i].m->base == m->blocks.part[i].m) release(m->blocks.part[i].m);
  release(m);
  atvi_lang_free(m->lang);
  atvi_pool_free(m->pool);
}

const atvi_target *atvi_model_target(const atvi_model *m) { return &m->target; }

/* What an evaluation takes, in operations. Counted, not timed, so that what is decided by it is the same on
 * every machine: nodes of the programs, right-hand sides that the solver asks for at draws from the prior,
 * and the products of emulators. */

enum { SEED = 7061, STAGES = 4 };
/* Operations on every state, for each evaluation of the right-hand side: combinations of stages, and errors. */
static const double COMBINE = 8;
/* Multiplications and additions of matrices, all of the same form, take this part of the time of others. */
static const double IN_MATRIX = 0.25;

/* Evaluations of the right-hand side for a point; those of an implicit solver with what they solve, in
 * operations. */
static double solve(const atvi_model *m, atvi_model_work *w) {
  const atvi_ode *ode = &m->odes.fit;
  const double n = (double)m->states.n, rhs = m->prog.ops_rhs + COMBINE * n;
  const atvi_idx last = ode->n_stop - 1;
  atvi_outcome outcome[ATVI_LANES];
  if (last < 1) return rhs;
  if (ode->method == ATVI_ODE_RK4 || ode->method == ATVI_ODE_MAP)
    return rhs * (ode->method == ATVI_ODE_RK4 ? STAGES : 1) *
           ((ode->stop[last].t - ode->stop[0].t) / ode->control.h + (double)last);
  m->target.ops->prior_draw(m, w, SEED, 0, ATVI_LANES, w->theta);
  atvi_model_load_covariates(m, w);
  atvi_model_setup(m, w, false);
  atvi_ode_solve(ode, w->ode, w->y0, w->hoist, w->yout, false, outcome);
  atvi_ode_effort e = atvi_ode_effort_of(w->ode);
  double implicit = ode->method == ATVI_ODE_STIFF ? 2 * n * n : 0, factor = 2 * n * n * n / 3;
  return (double)e.rhs * (rhs + implicit) + (double)e.factors * factor;
}

static double emulate(const atvi_emulated *e) {
  enum { PER_TERM = 40 };
  double sum = 0;
  for (atvi_idx k = 0; k < e->n_emulator; k++) {
    const atvi_emulation *em = &e->emulator[k];
    if (!em->em) continue;
    double n = (double)em->dossier.r.runs.n, columns = (double)atvi_gp_emulator_info(em->em)->n_basis;
    sum += n * (double)(em->d + 8) + IN_MATRIX * n * (n / 2 + columns);
  }
  for (atvi_idx k = 0; k < e->n; k++) sum += PER_TERM * (double)(e->process[k].n_used * e->process[k].n_term);
  return sum;
}

atvi_status atvi_model_count(atvi_model *m) {
  double sum = m->prog.ops_point;
  void *work;
  if (m->emulated) sum += emulate(m->emulated);
  if (m->odes.any) {
    ATVI_TRY(atvi_model_work_new(m, m->ctx, &work));
    sum += solve(m, work);
    atvi_model_work_free(work);
  }
  m->target.operations = sum;
  return ATVI_OK;
}
