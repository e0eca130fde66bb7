/* SPDX-License-Identifier: MIT */
/* A model with blocks `each`: its log density is a sum over parts, the statements outside of blocks and every
 * unit. A part is a model of its own in some of the parameters. Units of a block are copies of the first,
 * with their own times, tables, events and data: programs are made once, whatever the number of units.
 *
 * This file builds the parts and describes the whole, as if every unit's statements had been written out;
 * units_target.c evaluates it. */
#include "model/model.h"
#include "model/evaluator.h"
#include <math.h>
#include <string.h>

static void *take(const atvi_model *m, atvi_idx n, size_t size) {
  return atvi_pool_take(m->pool, (size_t)n + 1, size);
}

/* ---- the description of the whole ---- */

/* Part i of the whole: what stands outside is the first, then come the units, block after block. */
typedef struct {
  const atvi_lang_block *block; /* NULL: outside */
  const atvi_lang_unit *unit;
  atvi_lang *lang;
} piece;

static piece piece_at(atvi_lang *outside, atvi_idx i) {
  if (i == 0) return (piece){NULL, NULL, outside};
  i--;
  for (atvi_idx b = 0;; i -= outside->blocks.block[b++].n_unit)
    if (i < outside->blocks.block[b].n_unit)
      return (piece){&outside->blocks.block[b], &outside->blocks.block[b].unit[i],
                     outside->blocks.block[b].unit[i].lang};
}

static const char *with_label(const atvi_model *m, const char *name, const piece *p) {
  if (!p->unit) return name;
  return *name ? atvi_pool_printf(m->pool, "%s.%s", name, p->unit->label)
               : atvi_pool_strndup(m->pool, p->unit->label, strlen(p->unit->label));
}

/* Data sets and observations of all parts, one after the other, named by their units. */
static atvi_status flatten(atvi_model *m, atvi_lang *outside, atvi_idx n_part) {
  atvi_lang *all = take(m, 1, sizeof *all);
  atvi_idx n_data = 0, n_observe = 0;
  if (!all) return ATVI_ENOMEM;
  *all = *outside;
  for (atvi_idx i = 0; i < n_part; i++) {
    piece p = piece_at(outside, i);
    n_data += p.lang->n_data;
    n_observe += p.lang->n_observe;
  }
  all->data = take(m, n_data, sizeof *all->data);
  all->observe = take(m, n_observe, sizeof *all->observe);
  all->param = outside->blocks.param;
  all->n_param = outside->blocks.n_param;
  if (!all->data || !all->observe) return ATVI_ENOMEM;
  all->n_data = all->n_observe = all->outputs.n_derived = all->outputs.n_track = 0;
  atvi_idx n_file = 0, in_block = 0; /* data statements before the present block, and in it */
  const atvi_lang_block *block = NULL;
  for (atvi_idx i = 0; i < n_part; i++) {
    piece p = piece_at(outside, i);
    const atvi_lang *from = p.lang;
    if (p.block != block) block = p.block, n_file += in_block;
    in_block = from->n_data;
    for (atvi_idx o = 0; o < from->n_observe; o++) {
      atvi_lang_observe *to = &all->observe[all->n_observe++];
      *to = from->observe[o];
      to->data += all->n_data;
      to->name = with_label(m, to->name, &p);
    }
    for (atvi_idx k = 0; k < from->n_data; k++) {
      atvi_lang_data *to = &all->data[all->n_data++];
      *to = from->data[k];
      to->name = with_label(m, to->name, &p);
      to->file = n_file + k;
      to->unit = i;
    }
    all->outputs.n_derived += from->outputs.n_derived;
    all->outputs.n_track += from->outputs.n_track;
    if (p.unit && from->dynamics.n_state > 0) {
      if (outside->dynamics.n_state == 0 && all->dynamics.n_state == 0) all->time.start = from->time.start;
      all->time.start = fmin(all->time.start, from->time.start);
      all->kind = from->kind;
      all->dynamics.n_state =
          from->dynamics.n_state > all->dynamics.n_state ? from->dynamics.n_state : all->dynamics.n_state;
      all->dynamics.state = from->dynamics.state;
    }
  }
  all->n_table = all->dynamics.n_pulse = 0; /* every part has its own */
  m->lang = all;
  return atvi_pool_status(m->pool);
}

/* What was held out of the whole's data is held out of the parts'. */
static void give_back(const atvi_model *m, atvi_lang *outside, atvi_idx n_part) {
  atvi_idx k = 0, o = 0;
  for (atvi_idx i = 0; i < n_part; i++) {
    atvi_lang *lang = piece_at(outside, i).lang;
    for (atvi_idx j = 0; j < lang->n_data; j++) lang->data[j].value = m->lang->data[k++].value;
    for (atvi_idx j = 0; j < lang->n_observe; j++, o++) {
      lang->observe[j].n_missing = m->lang->observe[o].n_missing;
      lang->observe[j].n_censored = m->lang->observe[o].n_censored;
    }
  }
}

/* ---- building the parts ---- */

/* Times asked for that are not before the start of a part. `since` is that of its data sets. */
static atvi_status own_opts(const atvi_model *m, atvi_idx part, const atvi_lang *lang,
                            const atvi_model_load_opts *opts, atvi_idx first_data,
                            atvi_model_load_opts *own) {
  *own = *opts;
  own->apart = own->holdout = NULL;
  if (opts->own_time) own->n_time = opts->own_time[part].n, own->time = opts->own_time[part].time;
  if (opts->since) own->since = opts->since + first_data;
  while (own->n_time > 0 && lang->dynamics.n_state > 0 && own->time[0] < lang->time.start)
    own->time++, own->n_time--;
  if (opts->n_time > 0 && own->n_time == 0 && !opts->own_time) {
    double *start = take(m, 1, sizeof *start);
    if (!start) return ATVI_ENOMEM;
    *start = lang->time.start;
    own->time = start;
    own->n_time = 1;
  }
  return ATVI_OK;
}

/* The unit's description with the expressions of the first unit, which have been rewritten. */
static atvi_status adopt(const atvi_model *base, atvi_lang *lang) {
  const atvi_lang *of = base->lang;
  atvi_lang_table *table = take(base, of->n_table, sizeof *table);
  if (!table) return ATVI_ENOMEM;
  for (atvi_idx k = 0; k < of->n_table; k++) table[k] = k < lang->n_table ? lang->table[k] : of->table[k];
  lang->table = table;
  lang->n_table = of->n_table;
  lang->dynamics.state = of->dynamics.state;
  lang->outputs.track = of->outputs.track;
  for (atvi_idx o = 0; o < of->n_observe; o++)
    memcpy(lang->observe[o].arg, of->observe[o].arg, sizeof of->observe[o].arg);
  for (atvi_idx p = 0; p < of->dynamics.n_pulse; p++)
    lang->dynamics.pulse[p].amount = of->dynamics.pulse[p].amount;
  return ATVI_OK;
}

static void unit_begin(const atvi_model *base, atvi_model *u) {
  u->states = base->states;
  u->jumps = base->jumps;
}

/* Everything of the first unit but what depends on files. */
static void unit_end(const atvi_model *base, atvi_model *u) {
  atvi_model own = *u;
  *u = *base;
  u->lang = own.lang;
  u->copies.covariate = own.copies.covariate;
  u->lik.rows = own.lik.rows;
  u->lik.covariates = own.lik.covariates;
  u->rare.obs_at = own.rare.obs_at;
  u->lik.filled = own.lik.filled;
  u->times = own.times;
  u->pulses.n_moving = own.pulses.n_moving;
  u->pulses.moving = own.pulses.moving;
  u->target.self = u;
  u->target.n_series = own.target.n_series;
  u->target.series = own.target.series;
  u->target.n_obs = own.target.n_obs;
  u->target.n_out = own.target.n_out;
  atvi_ode *ode[] = {&u->odes.fit, &u->odes.exact, &u->choice.other, &u->odes.path};
  for (size_t i = 0; i < sizeof ode / sizeof *ode; i++) {
    const atvi_ode *of = ode[i] == &u->odes.path ? &own.odes.path : &own.odes.fit;
    ode[i]->control.max_steps += of->n_stop - ode[i]->n_stop;
    ode[i]->n_stop = of->n_stop;
    ode[i]->stop = of->stop;
    ode[i]->n_output = own.times.n_output;
    ode[i]->n_moving = own.pulses.n_moving;
    ode[i]->moving = own.pulses.moving;
  }
}

static void measure_most(atvi_model *base) {
  for (atvi_idx i = 0; i < base->copies.n; i++) {
    const atvi_model *u = base->copies.unit[i];
    if (u->times.n_output > base->copies.most_output) base->copies.most_output = u->times.n_output;
    if (u->odes.fit.n_stop > base->odes.fit.most.stops) base->odes.fit.most.stops = u->odes.fit.n_stop;
    if (u->odes.path.n_stop > base->odes.path.most.stops) base->odes.path.most.stops = u->odes.path.n_stop;
    if (u->pulses.n_moving > base->odes.fit.most.moving) base->odes.fit.most.moving = u->pulses.n_moving;
  }
}

static atvi_status build_block(atvi_model *m, const atvi_lang_block *block, const atvi_model_load_opts *opts,
                               atvi_idx first_part, atvi_idx first_data, atvi_model **unit) {
  atvi_model *base = unit[0];
  atvi_model_load_opts own;
  for (atvi_idx i = 0; i < block->n_unit; i++) {
    *unit[i] = (atvi_model){.ctx = m->ctx,
                            .pool = m->pool,
                            .lang = block->unit[i].lang,
                            .base = base,
                            .copies.n_covariate = block->n_covariate,
                            .copies.covariate = block->unit[i].covariate};
  }
  base->copies.n = block->n_unit;
  base->copies.unit = unit;
  ATVI_TRY(atvi_model_jumps(base));
  ATVI_TRY(atvi_model_constant(base));
  for (atvi_idx i = 0; i < block->n_unit; i++) {
    atvi_model *u = unit[i];
    if (i > 0) {
      ATVI_TRY(adopt(base, u->lang));
      unit_begin(base, u);
    }
    ATVI_TRY(own_opts(m, first_part + i, u->lang, opts, first_data, &own));
    ATVI_TRY(atvi_model_times(u, &own));
    first_data += u->lang->n_data;
  }
  measure_most(base);
  ATVI_TRY(atvi_model_rows(base));
  ATVI_TRY(atvi_model_describe(base));
  ATVI_TRY(atvi_model_programs(base, opts));
  for (atvi_idx i = 0; i < block->n_unit; i++) ATVI_TRY(atvi_model_series(unit[i]));
  ATVI_TRY(atvi_model_solver(base));
  ATVI_TRY(atvi_model_count(base));
  for (atvi_idx i = 1; i < block->n_unit; i++) {
    unit_end(base, unit[i]);
    if (base->odes.any && base->lang->dynamics.steady) ATVI_TRY(atvi_model_steady_stops(unit[i]));
  }
  return ATVI_OK;
}

/* Nothing that is observed, and no term of the density but priors. */
static bool is_silent(const atvi_model *u) {
  bool any = u->prog.has_extra;
  for (atvi_idx k = 0; k < u->lik.n_rows; k++)
    for (atvi_idx i = 0; i < u->lik.rows[k].n_row * u->lik.rows[k].n_el; i++)
      any = any || u->lik.rows[k].mask[i] != 0;
  return !any;
}

static atvi_status build_parts(atvi_model *m, atvi_lang *outside, const atvi_model_load_opts *opts) {
  atvi_model_load_opts own;
  atvi_idx *same = take(m, outside->n_param, sizeof *same), at = 1, first_data = outside->n_data;
  atvi_model *models = take(m, m->blocks.n_part, sizeof *models),
             **list = take(m, m->blocks.n_part, sizeof *list);
  if (!same || !models || !list) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < outside->n_param; i++) same[i] = i;
  for (atvi_idx i = 0; i < m->blocks.n_part; i++) {
    m->blocks.part[i].m = list[i] = &models[i];
    models[i].base = &models[i]; /* for atvi_model_free, until it is built */
  }
  models[0] = (atvi_model){.ctx = m->ctx, .pool = m->pool, .lang = outside};
  m->blocks.part[0].param = same;
  ATVI_TRY(own_opts(m, 0, outside, opts, 0, &own));
  ATVI_TRY(atvi_model_build(&models[0], &own));
  m->blocks.part[0].silent = is_silent(&models[0]);
  for (atvi_idx b = 0; b < outside->blocks.n_block; b++) {
    const atvi_lang_block *block = &outside->blocks.block[b];
    ATVI_TRY(build_block(m, block, opts, at, first_data, list + at));
    for (atvi_idx i = 0; i < block->n_unit; i++, at++) {
      m->blocks.part[at].block = b + 1;
      m->blocks.part[at].n_outer = block->n_outer;
      m->blocks.part[at].param = block->unit[i].param;
      m->blocks.part[at].silent = is_silent(list[at]);
      first_data += block->unit[i].lang->n_data;
    }
  }
  return ATVI_OK;
}

/* ---- the target of the whole ---- */

static atvi_status lay_out_series(atvi_model *m, atvi_lang *outside) {
  static const atvi_series_kind order[] = {ATVI_SERIES_OBSERVED, ATVI_SERIES_TRACKED, ATVI_SERIES_STATE};
  atvi_target *t = &m->target;
  atvi_idx n = 0;
  for (atvi_idx i = 0; i < m->blocks.n_part; i++) {
    n += m->blocks.part[i].m->target.n_series;
    m->blocks.part[i].series_at =
        take(m, m->blocks.part[i].m->target.n_series, sizeof *m->blocks.part[i].series_at);
    if (!m->blocks.part[i].series_at) return ATVI_ENOMEM;
  }
  atvi_series *all = take(m, n, sizeof *all);
  if (!all) return ATVI_ENOMEM;
  for (size_t k = 0; k < sizeof order / sizeof *order; k++)
    for (atvi_idx i = 0, data = 0; i < m->blocks.n_part; data += m->blocks.part[i++].m->lang->n_data) {
      const atvi_target *of = &m->blocks.part[i].m->target;
      piece p = piece_at(outside, i);
      if (k == 0) m->blocks.part[i].obs_at = t->n_obs, t->n_obs += of->n_obs;
      for (atvi_idx s = 0; s < of->n_series; s++) {
        if (of->series[s].kind != order[k]) continue;
        all[t->n_series] = of->series[s];
        all[t->n_series].name = with_label(m, of->series[s].name, &p);
        all[t->n_series].unit = i;
        if (k == 0) all[t->n_series].group += data;
        m->blocks.part[i].series_at[s] = t->n_out;
        t->n_out += of->series[s].n;
        t->n_series++;
      }
    }
  t->series = all;
  return ATVI_OK;
}

static atvi_status lay_out_derived(atvi_model *m, atvi_lang *outside) {
  atvi_target *t = &m->target;
  const char **name = take(m, m->lang->outputs.n_derived, sizeof *name);
  if (!name) return ATVI_ENOMEM;
  for (atvi_idx first = 0, last; first < m->blocks.n_part;
       first = last) { /* parts first .. last-1 are alike */
    const atvi_lang *lang = m->blocks.part[first].m->lang;
    for (last = first; last < m->blocks.n_part && m->blocks.part[last].block == m->blocks.part[first].block;
         last++) {
      m->blocks.part[last].derived_at =
          take(m, lang->outputs.n_derived, sizeof *m->blocks.part[last].derived_at);
      if (!m->blocks.part[last].derived_at) return ATVI_ENOMEM;
    }
    for (atvi_idx k = 0; k < lang->outputs.n_derived; k++)
      for (atvi_idx i = first; i < last; i++) {
        piece p = piece_at(outside, i);
        m->blocks.part[i].derived_at[k] = t->n_derived;
        name[t->n_derived++] = with_label(m, lang->outputs.derived[k].name, &p);
      }
  }
  t->derived = name;
  return ATVI_OK;
}

/* Which part gives the place of a parameter's prior: its own, or one that knows it to be the location of
 * others. */
static atvi_status lay_out_priors(atvi_model *m) {
  atvi_target *t = &m->target;
  atvi_prior_link *link = take(m, t->d, sizeof *link);
  atvi_idx *placed_by = take(m, t->d, sizeof *placed_by);
  if (!link || !placed_by) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < t->d; i++) link[i].location = placed_by[i] = -1;
  for (atvi_idx p = 0; p < m->blocks.n_part; p++) {
    const atvi_model_part *part = &m->blocks.part[p];
    const atvi_prior_link *of = part->m->target.prior;
    for (atvi_idx i = 0; of && i < part->m->target.d; i++) {
      atvi_idx g = part->param[i];
      /* A part may use what is common in a way of its own. */
      bool alone = of[i].form == ATVI_PRIOR_STANDARD && i < part->n_outer;
      if (of[i].form == ATVI_PRIOR_ALONE || alone || placed_by[g] >= 0) continue;
      atvi_idx *on = take(m, of[i].n_on, sizeof *on);
      if (!on) return ATVI_ENOMEM;
      for (atvi_idx k = 0; k < of[i].n_on; k++) on[k] = part->param[of[i].on[k]];
      link[g] = of[i];
      link[g].on = on;
      if (of[i].location >= 0) link[g].location = part->param[of[i].location];
      placed_by[g] = p;
      t->prior = link;
    }
  }
  m->blocks.placed_by = placed_by;
  return ATVI_OK;
}

static atvi_status describe_units(atvi_model *m, atvi_lang *outside) {
  atvi_unit *unit = take(m, m->blocks.n_part, sizeof *unit);
  if (!unit) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < m->blocks.n_part; i++) {
    piece p = piece_at(outside, i);
    unit[i] = (atvi_unit){.name = p.unit ? p.unit->label : "",
                          .n_on = m->blocks.part[i].m->target.d,
                          .on = m->blocks.part[i].param,
                          .n_outer = m->blocks.part[i].n_outer};
  }
  m->target.unit = unit;
  m->target.n_unit = m->blocks.n_part;
  return ATVI_OK;
}

static atvi_status describe(atvi_model *m, atvi_lang *outside) {
  atvi_target *t = &m->target;
  atvi_param *param = take(m, outside->blocks.n_param, sizeof *param);
  if (!param) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < outside->blocks.n_param; i++)
    param[i] = (atvi_param){outside->blocks.param[i].name, outside->blocks.param[i].lower,
                            outside->blocks.param[i].upper, outside->blocks.param[i].map};
  atvi_target_ops *ops = take(m, 1, sizeof *ops);
  if (!ops) return ATVI_ENOMEM;
  *ops = atvi_model_units_ops;
  for (atvi_idx i = 0; i < m->blocks.n_part; i++)
    if (!m->blocks.part[i].m->target.ops->tangent) ops->tangent = NULL;
  t->ops = ops;
  t->self = m;
  t->name = m->blocks.part[0].m->target.name;
  t->d = outside->blocks.n_param;
  t->param = param;
  for (atvi_idx i = 0; i < m->blocks.n_part; i++) t->operations += m->blocks.part[i].m->target.operations;
  ATVI_TRY(lay_out_series(m, outside));
  ATVI_TRY(lay_out_derived(m, outside));
  ATVI_TRY(lay_out_priors(m));
  return describe_units(m, outside);
}

/* What those who describe a model to its user look at. */
static atvi_status gather_rest(atvi_model *m) {
  const atvi_lang *lang = m->lang;
  atvi_idx k = 0, o = 0;
  m->lik.covariates = take(m, lang->n_observe, sizeof *m->lik.covariates);
  bool added = false;
  for (atvi_idx i = 0; i < m->blocks.n_part; i++) added = added || m->blocks.part[i].m->times.n_given;
  m->times.n_given = added ? take(m, lang->n_data, sizeof *m->times.n_given) : NULL;
  if (!m->lik.covariates || (added && !m->times.n_given)) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < m->blocks.n_part; i++) {
    const atvi_model *p = m->blocks.part[i].m;
    for (atvi_idx j = 0; j < p->lang->n_observe; j++) m->lik.covariates[o++] = p->lik.covariates[j];
    for (atvi_idx j = 0; j < p->lang->n_data; j++, k++) {
      m->lang->data[k] = (atvi_lang_data){.name = m->lang->data[k].name,
                                          .path = p->lang->data[j].path,
                                          .csv = p->lang->data[j].csv,
                                          .n_row = p->lang->data[j].n_row,
                                          .time_name = p->lang->data[j].time_name,
                                          .time = p->lang->data[j].time,
                                          .n_col = p->lang->data[j].n_col,
                                          .value = p->lang->data[j].value,
                                          .file = m->lang->data[k].file,
                                          .unit = i};
      if (m->times.n_given)
        m->times.n_given[k] = p->times.n_given ? p->times.n_given[j] : p->lang->data[j].n_row;
    }
    if (p->odes.any && !m->odes.any) { /* for those who describe it */
      m->odes.fit.method = p->odes.fit.method;
      m->choice.other.method = p->choice.other.method;
      m->choice.automatic = p->choice.automatic;
      m->choice.uses_both = p->choice.uses_both;
      memcpy(m->choice.why, p->choice.why, sizeof m->choice.why);
    }
    m->odes.any = m->odes.any || p->odes.any;
    m->lik.has_prev = m->lik.has_prev || p->lik.has_prev;
    if (p->base != p && p->base) continue; /* programs are those of the first unit */
    bool compiled = i == 0 || m->prog.info.compiled, cached = i == 0 || m->prog.info.from_cache;
    double seconds = m->prog.info.compile_s;
    if (i == 0 || compiled) m->prog.info = p->prog.info;
    m->prog.info.compiled = compiled && p->prog.info.compiled;
    m->prog.info.from_cache = cached && p->prog.info.from_cache;
    m->prog.info.compile_s = seconds + p->prog.info.compile_s;
  }
  return ATVI_OK;
}

atvi_status atvi_model_units(atvi_model *m, const atvi_model_load_opts *opts) {
  atvi_lang *outside = m->lang;
  atvi_idx n_part = 1;
  for (atvi_idx b = 0; b < outside->blocks.n_block; b++) n_part += outside->blocks.block[b].n_unit;
  m->base = m;
  m->blocks.part = take(m, n_part, sizeof *m->blocks.part);
  if (!m->blocks.part) return ATVI_ENOMEM;
  ATVI_TRY(flatten(m, outside, n_part));
  if (opts->holdout) {
    ATVI_TRY(atvi_model_holdout_find(m->pool, m->lang, opts->holdout, &m->holdout));
    ATVI_TRY(atvi_model_holdout_apply(m->pool, m->lang, &m->holdout));
    give_back(m, outside, n_part);
  }
  m->blocks.n_part = n_part;
  m->blocks.n_block = outside->blocks.n_block;
  ATVI_TRY(build_parts(m, outside, opts));
  ATVI_TRY(describe(m, outside));
  return gather_rest(m);
}
