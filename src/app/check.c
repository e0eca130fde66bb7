/* SPDX-License-Identifier: MIT */
/* atvi check: what was read, whether the gradient is right, and what an evaluation costs. atvi eval: one
 * evaluation. */
#include "app/common.h"
#include "diag/score.h"
#include "infer/optimum.h"
#include "io/json.h"
#include "io/text.h"
#include "sim/record.h"
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  DRAWS = 64 * ATVI_LANES, /* draws from the prior to try */
  BEST = 4 * ATVI_LANES,   /* draws that fit the data best, as the posterior is near them */
  POINTS = 10,             /* of these the gradient is checked at */
};

typedef struct {
  atvi_ctx *ctx;
  const atvi_loaded *l;
  atvi_idx n_best, failed;
  /* [d][n_best] */
  double *best;
  /* how the last failure ended */
  atvi_outcome last;
} checking;

static void bounds(atvi_text *out, double x) {
  if (isinf(x))
    atvi_io_text_add(out, x < 0 ? "-inf" : "inf");
  else
    atvi_io_text_add(out, "%g", x);
}

/* One line for n parameters that are alike: "CL.s01 ... CL.s12". Only its length if out is NULL. */
static int describe_param(atvi_text *out, int width, atvi_idx n, const atvi_lang_param *p) {
  const char *last = n > 1 ? p[n - 1].name : "", *dots = n > 1 ? " ... " : "";
  int used = (int)(strlen(p->name) + strlen(dots) + strlen(last));
  if (!out) return used;
  atvi_io_text_add(out, "  %s%s%s%*s %-12s in [", p->name, dots, last, used < width ? width - used : 0, "",
                   p->flat ? "flat" : atvi_lang_dist_get(p->dist)->name);
  bounds(out, p->lower);
  atvi_io_text_add(out, ", ");
  bounds(out, p->upper);
  atvi_io_text_add(out, "]\n");
  return used;
}

/* Elements of one statement from p on, of n parameters, that can share a line: if there are many, and they
 * are alike. */
static atvi_idx alike(const atvi_lang_param *p, atvi_idx n) {
  enum { MANY = 9 };
  atvi_idx k = 1;
  while (k < n && p[k].place.line == p->place.line && p[k].place.column == p->place.column &&
         p[k].dist == p->dist && p[k].flat == p->flat && p[k].lower == p->lower && p[k].upper == p->upper)
    k++;
  return k >= MANY ? k : 1;
}

/* Those outside blocks, then those of blocks, of all units together. Returns the longest name. */
static int list_params(atvi_text *out, int width, const atvi_lang *lang, atvi_idx shared) {
  int longest = 0, n;
  for (atvi_idx i = 0, more; i < shared; i += more) {
    more = alike(&lang->blocks.param[i], shared - i);
    if ((n = describe_param(out, width, more, &lang->blocks.param[i])) > longest) longest = n;
  }
  for (atvi_idx b = 0, at = shared; b < lang->blocks.n_block; b++) {
    const atvi_lang_block *block = &lang->blocks.block[b];
    const atvi_lang *unit = block->unit[0].lang;
    for (atvi_idx i = block->n_outer, more; i < unit->n_param; i += more, at += more * block->n_unit) {
      more = alike(&unit->param[i], unit->n_param - i);
      if ((n = describe_param(out, width, more * block->n_unit, &lang->blocks.param[at])) > longest)
        longest = n;
    }
  }
  return longest;
}

static void describe_params(atvi_text *out, const atvi_lang *lang) {
  enum { LEAST = 16 };
  atvi_idx shared = lang->blocks.n_param;
  for (atvi_idx b = 0; b < lang->blocks.n_block; b++)
    shared -= (lang->blocks.block[b].unit[0].lang->n_param - lang->blocks.block[b].n_outer) *
              lang->blocks.block[b].n_unit;
  atvi_io_text_add(out, "parameters  %td", lang->blocks.n_param);
  if (lang->blocks.n_block)
    atvi_io_text_add(out, ": %td shared, %td of units", shared, lang->blocks.n_param - shared);
  atvi_io_text_add(out, "\n");
  int longest = list_params(NULL, 0, lang, shared);
  list_params(out, longest > LEAST ? longest : LEAST, lang, shared);
}

static void describe_units(atvi_text *out, const atvi_lang *lang) {
  for (atvi_idx b = 0; b < lang->blocks.n_block; b++) {
    const atvi_lang_block *block = &lang->blocks.block[b];
    atvi_io_text_add(out, "units       %s: %td, %s", block->name, block->n_unit, block->unit[0].label);
    if (block->n_unit > 1)
      atvi_io_text_add(out, block->n_unit > 2 ? " ... %s" : " and %s", block->unit[block->n_unit - 1].label);
    for (atvi_idx k = 0; k < block->n_covariate; k++)
      atvi_io_text_add(out, "%s%s", k ? ", " : "; uses ", block->covariate[k]);
    atvi_io_text_add(out, "\n");
  }
}

/* "emulator(flow) + exponential + white" */
static void describe_terms(atvi_text *out, const atvi_lang *lang, const atvi_lang_observe *obs) {
  static const char *const name[] = {[ATVI_TERM_EMULATOR] = "emulator",
                                     [ATVI_TERM_EXPONENTIAL] = "exponential",
                                     [ATVI_TERM_MATERN32] = "matern32",
                                     [ATVI_TERM_MATERN52] = "matern52",
                                     [ATVI_TERM_WHITE] = "white"};
  for (atvi_idx t = 0; t < obs->n_term; t++) {
    const atvi_lang_term *term = &obs->term[t];
    atvi_io_text_add(out, "%s%s", t ? " + " : "", name[term->kind]);
    if (term->kind == ATVI_TERM_EMULATOR) atvi_io_text_add(out, "(%s)", lang->emulator[term->emulator].name);
  }
}

/* Observation number j of data set k; NULL: there are fewer. */
static const atvi_lang_observe *observation(const atvi_lang *lang, atvi_idx k, atvi_idx j) {
  for (atvi_idx o = 0; o < lang->n_observe; o++)
    if (lang->observe[o].data == k && j-- == 0) return &lang->observe[o];
  return NULL;
}

/* Observation number j of a file, in all of its units. */
static void describe_observation(atvi_text *out, const atvi_model *m, atvi_idx first, atvi_idx j) {
  const atvi_lang *lang = m->lang;
  const atvi_lang_observe *like = observation(lang, first, j);
  double lo = HUGE_VAL, hi = -HUGE_VAL, sum = 0;
  atvi_idx n = 0, missing = 0, censored = 0;
  for (atvi_idx k = first; k < lang->n_data; k++) {
    const atvi_lang_data *d = &lang->data[k];
    const atvi_lang_observe *obs = d->file == lang->data[first].file ? observation(lang, k, j) : NULL;
    for (atvi_idx r = 0; obs && obs->column >= 0 && r < d->n_row; r++) {
      double v = d->value[r * d->n_col + obs->column];
      if (isnan(v)) continue;
      lo = fmin(lo, v), hi = fmax(hi, v), sum += v, n++;
    }
    if (obs) missing += obs->n_missing, censored += obs->n_censored;
  }
  atvi_idx own = first;
  const atvi_lang *home = atvi_app_home(m, &own);
  atvi_io_text_add(out, "  %-16s ", observation(home, own, j)->name);
  if (like->n_term)
    describe_terms(out, lang, like);
  else
    atvi_io_text_add(out, "%-12s", atvi_lang_dist_get(like->dist)->name);
  atvi_io_text_add(out, like->n_term ? ", %td values" : " %td values", n);
  if (n) atvi_io_text_add(out, ", %g to %g, mean %.4g", lo, hi, sum / (double)n);
  if (missing) atvi_io_text_add(out, ", %td missing", missing);
  if (censored) atvi_io_text_add(out, ", %td censored", censored);
  atvi_io_text_add(out, "\n");
}

static void describe_file(atvi_text *out, const atvi_model *m, atvi_idx first) {
  const atvi_lang *lang = m->lang;
  atvi_idx rows = 0, units = 0, filled = 0;
  double from = HUGE_VAL, to = -HUGE_VAL;
  for (atvi_idx k = first; k < lang->n_data; k++) {
    const atvi_lang_data *d = &lang->data[k];
    if (d->file != lang->data[first].file) continue;
    units++, filled += d->n_row > 0, rows += d->n_row;
    if (d->time && d->n_row) from = fmin(from, d->time[0]), to = fmax(to, d->time[d->n_row - 1]);
  }
  atvi_io_text_add(out, "data        %s: %td rows", lang->data[first].path, rows);
  if (filled < units)
    atvi_io_text_add(out, " of %td of %td units", filled, units);
  else if (lang->data[first].unit)
    atvi_io_text_add(out, " of %td unit%s", units, units == 1 ? "" : "s");
  if (from <= to) atvi_io_text_add(out, ", time %g to %g", from, to);
  atvi_io_text_add(out, "\n");
  for (atvi_idx j = 0; observation(lang, first, j); j++) describe_observation(out, m, first, j);
}

/* A file that units share is described once. */
static void describe_data(atvi_text *out, const atvi_model *m) {
  atvi_idx next = 0;
  for (atvi_idx k = 0; k < m->lang->n_data; k++)
    if (m->lang->data[k].file == next) describe_file(out, m, k), next++;
}

static void describe_emulators(atvi_text *out, const atvi_model *m) {
  const atvi_emulated *e = m->emulated;
  bool any = false;
  for (atvi_idx k = 0; k < e->n_emulator; k++) {
    const atvi_emulation *em = &e->emulator[k];
    if (!em->em) continue;
    atvi_io_text_add(out, "%san emulator of %td runs (%s: %td inputs, %td output%s)", any ? ", " : "",
                     em->dossier.r.runs.n, m->lang->emulator[k].name, em->d, em->m, em->m == 1 ? "" : "s");
    any = true;
  }
  if (!any) atvi_io_text_add(out, "a sum of processes");
}

static void describe(atvi_text *out, const atvi_model *m) {
  const atvi_lang *lang = m->lang;
  static const char *const kind[] = {"a curve (no states)", "differential equations", "difference equations"};
  atvi_io_text_add(out, "model       %s\n", *lang->title ? lang->title : lang->path);
  atvi_io_text_add(out, "kind        ");
  if (m->emulated)
    describe_emulators(out, m);
  else
    atvi_io_text_add(out, "%s", kind[lang->kind]);
  if (lang->dynamics.n_state) {
    atvi_io_text_add(out, ", %td states, start at t = %g", lang->dynamics.n_state - lang->dynamics.n_lag,
                     lang->time.start);
    static const char *const method[] = {"adaptive Runge-Kutta 5(4)", "Runge-Kutta 4", "stiff: ESDIRK 4(3)",
                                         "steps"};
    atvi_io_text_add(out, "; solver: %s", method[m->odes.fit.method]);
  }
  atvi_io_text_add(out, "\n");
  if (m->choice.automatic) atvi_io_text_add(out, "            solver %s\n", m->choice.why);
  if (lang->blocks.n_block) describe_units(out, lang);
  describe_params(out, lang);
  if (lang->outputs.n_derived) atvi_io_text_add(out, "derived     %td\n", lang->outputs.n_derived);
  if (lang->outputs.n_track) atvi_io_text_add(out, "tracked     %td\n", lang->outputs.n_track);
  describe_data(out, m);
  atvi_io_text_add(out, "code        %s", m->prog.info.compiled ? "compiled" : "interpreted");
  if (m->prog.info.compiled && m->prog.info.from_cache)
    atvi_io_text_add(out, " (from the cache)");
  else if (m->prog.info.compiled)
    atvi_io_text_add(out, " in %.2f s", m->prog.info.compile_s);
  if (m->prog.info.reason[0]) atvi_io_text_add(out, ": %s", m->prog.info.reason);
  atvi_io_text_add(out, "\n");
}

/* Draws from the prior, and the best of those that can be evaluated. */
static atvi_status choose(checking *c, atvi_pool *pool, uint64_t seed) {
  const atvi_target *t = c->l->target;
  double *theta = atvi_pool_take(pool, (size_t)(t->d * (DRAWS + BEST) + DRAWS), sizeof *theta), *ll;
  atvi_outcome *outcome = atvi_pool_take(pool, DRAWS, sizeof *outcome);
  if (!theta || !outcome) return ATVI_ENOMEM;
  c->best = theta + t->d * DRAWS;
  ll = c->best + t->d * BEST;
  t->ops->prior_draw(t->self, atvi_model_evaluator_work(c->l->ev), seed, 0, DRAWS, theta);
  atvi_model_evaluator_run(c->l->ev,
                           &(atvi_batch){.B = DRAWS, .theta = theta, .log_lik = ll, .outcome = outcome});
  for (atvi_idx j = 0; j < DRAWS; j++)
    if (outcome[j] != ATVI_RUN_OK || !isfinite(ll[j])) c->failed++, c->last = outcome[j], ll[j] = -HUGE_VAL;
  c->n_best = DRAWS - c->failed < BEST ? DRAWS - c->failed : BEST;
  for (atvi_idx k = 0; k < c->n_best; k++) {
    atvi_idx top = 0;
    for (atvi_idx j = 1; j < DRAWS; j++)
      if (ll[j] > ll[top]) top = j;
    ll[top] = -HUGE_VAL;
    for (atvi_idx i = 0; i < t->d; i++) c->best[i * c->n_best + k] = theta[i * DRAWS + top];
  }
  return ATVI_OK;
}

/* By forward mode. Gives the points compared. */
static atvi_status compare_tangents(checking *c, atvi_text *out, atvi_idx n, uint64_t seed, atvi_idx *points,
                                    bool *ok) {
  const atvi_target *t = c->l->target;
  atvi_tangent_info y;
  ATVI_TRY(atvi_infer_gradient_tangents(c->ctx, c->l->ev, n, c->n_best, c->best, seed, &y));
  *points = y.points;
  *ok = y.points > 0 && y.wrong == 0;
  if (*ok)
    atvi_io_text_add(out,
                     "gradient    ok: largest relative difference to tangents %.1e at the %td best of %d "
                     "draws from the prior\n",
                     y.off, y.points, DRAWS);
  else if (y.points)
    atvi_io_text_add(
        out,
        "gradient    WRONG for %td of %td parameters: that of the log %s by %s is %.10g where "
        "%s = %.6g, but its tangent %.10g\n            Either a derivative in atvi is wrong, or its solver "
        "fails there without noticing: please report it.\n",
        y.wrong, t->d, y.in_prior ? "prior" : "likelihood", t->param[y.param].name, y.gradient,
        t->param[y.param].name, y.x, y.tangent);
  return ATVI_OK;
}

/* By differences of the density, where there are no tangents. */
static atvi_status compare_differences(checking *c, atvi_text *out, atvi_idx n, atvi_idx *points, bool *ok) {
  atvi_gradient_info y;
  ATVI_TRY(atvi_infer_gradient_compare(c->ctx, c->l->ev, n, c->n_best, c->best, 0, &y));
  *points = y.points;
  *ok = y.points > 0 && y.wrong_somewhere == 0;
  if (y.points)
    atvi_io_text_add(out,
                     "gradient    %s: largest relative difference to finite differences %.1e (%s) at the %td "
                     "best of %d draws from the prior (sums of processes have no tangents)\n",
                     *ok ? "ok" : "WRONG", y.off, c->l->target->param[y.off_param].name, y.points, DRAWS);
  return ATVI_OK;
}

static atvi_status check_gradient(checking *c, atvi_text *out, uint64_t seed, bool *ok) {
  const atvi_model *m = c->l->model;
  const atvi_idx n = c->n_best < POINTS ? c->n_best : POINTS;
  atvi_idx points = 0;
  *ok = false;
  if (n > 0 && c->l->target->ops->tangent)
    ATVI_TRY(compare_tangents(c, out, n, seed, &points, ok));
  else if (n > 0)
    ATVI_TRY(compare_differences(c, out, n, &points, ok));
  if (n == 0)
    atvi_io_text_add(
        out,
        "gradient    NOT CHECKED: none of %d draws from the prior could be evaluated: %s\n            %s\n",
        DRAWS, atvi_outcome_word(c->last), atvi_app_advice(atvi_outcome_code(c->last)));
  else if (points == 0)
    atvi_io_text_add(
        out,
        "gradient    NOT CHECKED: it is not finite, or mostly rounding that the steps of the solver "
        "have magnified, at all of the %td best of %d draws from the prior\n",
        n, DRAWS);
  if (n > 0 && points == 0 && m->odes.any && m->odes.fit.method == ATVI_ODE_RK45 && !m->choice.automatic)
    atvi_io_text_add(out, "            The model may be too stiff for 'solver rk45': leave that line out.\n");
  if (n > 0 && c->failed)
    atvi_io_text_add(out, "            %td draws could not be evaluated: %s\n", c->failed,
                     atvi_outcome_word(c->last));
  return ATVI_OK;
}

/* Seconds per point of batched evaluation on all threads, the least of a few trials. */
static double cost(const checking *c, atvi_idx B, const double *theta, double *out, atvi_outcome *outcome,
                   bool grad) {
  atvi_idx d = c->l->target->d;
  double best = HUGE_VAL, began = atvi_clock_s();
  atvi_batch b = {.B = B,
                  .theta = theta,
                  .log_prior = out,
                  .log_lik = out + B,
                  .grad_prior = grad ? out + 2 * B : NULL,
                  .grad_lik = grad ? out + (2 + d) * B : NULL,
                  .outcome = outcome};
  for (int k = 0; k < 20 && (k < 2 || atvi_clock_s() - began < 0.2); k++) {
    double t0 = atvi_clock_s();
    atvi_model_evaluator_run(c->l->ev, &b);
    best = fmin(best, atvi_clock_s() - t0);
  }
  return best / (double)B;
}

static atvi_status check_cost(checking *c, atvi_pool *pool, uint64_t seed, atvi_text *out) {
  const atvi_target *t = c->l->target;
  atvi_idx d = t->d, B = 32 * ATVI_LANES;
  double *theta = atvi_pool_take(pool, (size_t)(d * B), sizeof *theta);
  double *values = atvi_pool_take(pool, (size_t)((2 + 2 * d) * B), sizeof *values);
  atvi_outcome *outcome = atvi_pool_take(pool, (size_t)B, sizeof *outcome);
  if (!theta || !values || !outcome) return ATVI_ENOMEM;
  t->ops->prior_draw(t->self, atvi_model_evaluator_work(c->l->ev), seed, 0, B, theta);
  double plain = cost(c, B, theta, values, outcome, false), grad = cost(c, B, theta, values, outcome, true);
  atvi_io_text_add(out,
                   "cost        %.3g us per evaluation, %.3g us with gradient (batches of draws from the "
                   "prior, %d threads)\n",
                   1e6 * plain, 1e6 * grad, atvi_ctx_threads(c->ctx));
  return ATVI_OK;
}

static atvi_status check_solver(checking *c, atvi_loaded *l, atvi_text *out) {
  double error;
  ATVI_TRY(atvi_app_solver_error(c->ctx, l, c->n_best, c->best, &error));
  if (error > 0)
    atvi_io_text_add(out,
                     "solver      its error changes the log likelihood by at most %.1e at the %td best of %d "
                     "draws from the prior\n",
                     error, c->n_best, DRAWS);
  return ATVI_OK;
}

static atvi_status check(atvi_ctx *ctx, atvi_pool *pool, atvi_loaded *l, uint64_t seed, const char **text,
                         bool *ok) {
  checking c = {.ctx = ctx, .l = l};
  atvi_text out = {.pool = pool};
  describe(&out, l->model);
  ATVI_TRY(choose(&c, pool, seed));
  ATVI_TRY(check_gradient(&c, &out, seed, ok));
  ATVI_TRY(check_solver(&c, l, &out));
  ATVI_TRY(check_cost(&c, pool, seed, &out));
  const char *note;
  ATVI_TRY(atvi_app_gaps(pool, l->model->lang, &note));
  if (note) atvi_io_text_wrap(&out, "note:", 2, note);
  return atvi_io_text_get(&out, text);
}

/* A model whose simulator has not been run yet: what is known without runs, and what to do next. */
static atvi_status check_unrun(atvi_pool *pool, const atvi_app_model *model, const atvi_lang *lang,
                               const char **text) {
  const atvi_lang_simulator *s = &lang->simulator;
  atvi_text out = {.pool = pool};
  atvi_io_text_add(&out, "model       %s\n", *lang->title ? lang->title : lang->path);
  atvi_io_text_add(&out, "kind        a simulator that has not been run yet: %td input%s (", s->n_input,
                   s->n_input == 1 ? "" : "s");
  for (atvi_idx i = 0; i < s->n_input; i++)
    atvi_io_text_add(&out, "%s%s", i ? ", " : "", lang->param[s->input[i]].name);
  atvi_io_text_add(&out, "), outputs ");
  for (atvi_idx o = 0; o < s->n_output; o++) atvi_io_text_add(&out, "%s%s", o ? ", " : "", s->output[o].name);
  atvi_io_text_add(&out, "\n");
  describe_params(&out, lang);
  describe_data(&out, &(atvi_model){.lang = (atvi_lang *)lang});
  atvi_io_text_add(&out, "next        atvi design %s -n %td, then atvi run %s\n", model->path,
                   20 * s->n_input > 50 ? 20 * s->n_input : 50, model->path);
  return atvi_io_text_get(&out, text);
}

/* *text stays NULL if there are runs, none are needed, or the model cannot be read, which was reported when
 * it was loaded. A silent context keeps that message and announces nothing twice. */
static atvi_status look_for_runs(atvi_ctx *silent, atvi_pool *pool, const atvi_app_model *model,
                                 const char **text) {
  atvi_lang *lang;
  const char *dir = model->runs ? model->runs : atvi_sim_folder(pool, model->path);
  const char *record = dir ? atvi_pool_printf(pool, "%s/%s", dir, ATVI_SIM_RECORD) : NULL;
  *text = NULL;
  if (!record) return ATVI_ENOMEM;
  const atvi_lang_opts how = {model->n_data, model->data, .folder = model->folder};
  if (access(record, F_OK) == 0 || atvi_lang_load(silent, model->path, &how, &lang) != ATVI_OK)
    return ATVI_OK;
  bool needed = false;
  for (atvi_idx k = 0; k < lang->n_emulator; k++) needed = needed || !lang->emulator[k].designs.path;
  atvi_status status = needed && lang->simulator.given ? check_unrun(pool, model, lang, text) : ATVI_OK;
  atvi_lang_free(lang);
  return status;
}

/* Whether the data can be read again: a pipe cannot. */
static bool rereadable(const atvi_app_model *model) {
  struct stat is;
  for (atvi_idx i = 0; i < model->n_data; i++)
    if (stat(model->data[i].path, &is) == 0 && !S_ISREG(is.st_mode)) return false;
  return true;
}

/* The model could not be loaded: because there are no runs? */
static atvi_status unloaded(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_model *model, atvi_status why,
                            const char **text, bool *ok) {
  atvi_ctx *silent;
  if (why != ATVI_EDATA || !rereadable(model)) return why;
  if (atvi_ctx_new(NULL, &silent) != ATVI_OK) return ATVI_FAIL(ctx, ATVI_ENOMEM, "out of memory");
  atvi_status status = look_for_runs(silent, pool, model, text);
  atvi_ctx_free(silent);
  *ok = status == ATVI_OK && *text;
  return *ok || status != ATVI_OK ? status : why;
}

atvi_status atvi_app_check(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_model *model, uint64_t seed,
                           const char **text, bool *ok) {
  atvi_loaded l;
  *text = "";
  *ok = false;
  atvi_status status = atvi_app_load(ctx, model, &(atvi_model_load_opts){.tangents = true}, &l);
  if (status != ATVI_OK) return unloaded(ctx, pool, model, status, text, ok);
  status = check(ctx, pool, &l, seed, text, ok);
  atvi_app_unload(&l);
  return status;
}

/* atvi eval: log density and gradient at a point, as JSON. */

static void put_names(atvi_json *w, const char *key, const atvi_target *t, const double *x) {
  atvi_io_json_object(w, key);
  for (atvi_idx i = 0; i < t->d; i++) atvi_io_json_put(w, t->param[i].name, atvi_io_json_real(x[i]));
  atvi_io_json_end(w);
}

static atvi_status describe_point(atvi_pool *pool, const atvi_loaded *l, const atvi_batch *b,
                                  double *grad_total, const char **text) {
  const atvi_target *t = l->target;
  atvi_json w = {.pool = pool, .digits = 17};
  for (atvi_idx i = 0; i < t->d; i++) grad_total[i] = b->grad_prior[i] + b->grad_lik[i];
  atvi_io_json_object(&w, NULL);
  atvi_io_json_put(&w, "model", atvi_io_json_word(pool, t->name));
  atvi_io_json_put(&w, "log_prior", atvi_io_json_real(b->log_prior[0]));
  atvi_io_json_put(&w, "log_likelihood", atvi_io_json_real(b->log_lik[0]));
  atvi_io_json_put(&w, "log_posterior", atvi_io_json_real(b->log_prior[0] + b->log_lik[0]));
  put_names(&w, "parameters", t, b->theta);
  put_names(&w, "gradient", t, grad_total);
  put_names(&w, "gradient_log_prior", t, b->grad_prior);
  put_names(&w, "gradient_log_likelihood", t, b->grad_lik);
  atvi_io_json_put(&w, "outcome",
                   json_string(b->outcome[0] == ATVI_RUN_OK ? "ok" : atvi_outcome_word(b->outcome[0])));
  return atvi_io_json_get(&w, "eval", text);
}

static atvi_status evaluate(atvi_ctx *ctx, atvi_pool *pool, atvi_loaded *l, atvi_idx n_set,
                            const atvi_app_set *set, const char **text) {
  atvi_idx d = l->target->d;
  double *theta = atvi_pool_take(pool, (size_t)(4 * d), sizeof *theta);
  if (!theta) return ATVI_ENOMEM;
  ATVI_TRY(atvi_app_point(ctx, l->target, n_set, set, theta));
  double lp, ll;
  atvi_outcome outcome;
  atvi_batch b = {.B = 1,
                  .theta = theta,
                  .log_prior = &lp,
                  .log_lik = &ll,
                  .grad_prior = theta + d,
                  .grad_lik = theta + 2 * d,
                  .outcome = &outcome};
  atvi_model_evaluator_run(l->ev, &b);
  return describe_point(pool, l, &b, theta + 3 * d, text);
}

atvi_status atvi_app_eval(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_model *model, atvi_idx n_set,
                          const atvi_app_set *set, const char **text) {
  atvi_loaded l;
  ATVI_TRY(atvi_app_load(ctx, model, NULL, &l));
  atvi_status status = evaluate(ctx, pool, &l, n_set, set, text);
  atvi_app_unload(&l);
  return status;
}
