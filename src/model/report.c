/* SPDX-License-Identifier: MIT */
/* The optional members of a model's target: draws of the prior, derived quantities, predictions,
 * simulated observations, log likelihood of each observation. None of it is hot: interpreted programs. */
#include "model/model.h"
#include <math.h>

enum { L = ATVI_LANES };

void atvi_model_prior_complete(const atvi_model *m, atvi_model_work *w, uint64_t seed, atvi_idx first,
                               const atvi_idx *key, atvi_idx B, double *theta) {
  atvi_idx d = m->target.d;
  static const double none[1] = {0};
  for (atvi_idx at = 0; at < B; at += L) {
    int real = B - at < L ? (int)(B - at) : L;
    for (atvi_idx i = 0; i < d; i++)
      for (int l = 0; l < L; l++) { /* not yet drawn: its value is not used */
        double x = l < real ? theta[i * B + at + l] : NAN;
        w->theta[i * L + l] = isnan(x) ? 0.5 : x;
      }
    atvi_model_load_covariates(m, w);
    for (int level = 0; level < m->levels.n; level++) {
      const double *in[] = {w->theta, none, none, none, none, none, none};
      atvi_graph_prog_run(&m->levels.args[level], w->scratch, in, (double *[]){w->el});
      for (atvi_idx k = level ? m->levels.end[level - 1] : 0; k < m->levels.end[level]; k++) {
        const atvi_idx i = m->levels.param[k];
        const atvi_lang_param *p = &m->lang->param[i];
        const uint32_t stream = (uint32_t)(key ? key[i] : i);
        for (int l = 0; l < real; l++) {
          if (!isnan(theta[i * B + at + l])) continue;
          double arg[ATVI_DIST_ARGS] = {0};
          for (int a = 0; a < p->n_arg; a++) arg[a] = w->el[(m->levels.arg_at[i] + a) * L + l];
          atvi_rng rng = atvi_math_rng_at(seed, ATVI_STREAM_PRIOR, stream, (uint32_t)(first + at + l));
          double lower = p->truncated ? p->lower : -HUGE_VAL, upper = p->truncated ? p->upper : HUGE_VAL;
          w->theta[i * L + l] = atvi_lang_dist_draw(&rng, p->dist, arg, lower, upper);
        }
      }
    }
    for (atvi_idx i = 0; i < d; i++)
      for (int l = 0; l < real; l++) theta[i * B + at + l] = w->theta[i * L + l];
  }
}

void atvi_model_prior_draw(const void *self, void *work, uint64_t seed, atvi_idx first, atvi_idx B,
                           double *theta) {
  const atvi_model *m = self;
  for (atvi_idx i = 0; i < m->target.d * B; i++) theta[i] = NAN;
  atvi_model_prior_complete(m, work, seed, first, NULL, B, theta);
}

void atvi_model_derived(const void *self, void *work, atvi_idx B, const double *theta, double *out) {
  const atvi_model *m = self;
  atvi_model_work *w = work;
  static const double none[1] = {0};
  for (atvi_idx first = 0; first < B; first += L) {
    int real = atvi_model_load_lanes(m, w, B, theta, first);
    const double *in[] = {w->theta, none, none, none, none, none, none, w->path.value};
    if (w->path.ode) atvi_model_paths(m, w);
    atvi_graph_prog_run(&m->rare.derived, w->scratch, in, (double *[]){w->el});
    for (atvi_idx i = 0; i < m->lang->outputs.n_derived; i++)
      for (int l = 0; l < real; l++) out[i * B + first + l] = w->el[i * L + l];
  }
}

/* Inputs of a cold program for row r of data set k. */
static void row_inputs(const atvi_model *m, const atvi_model_work *w, atvi_idx k, atvi_idx r,
                       const double *in[7]) {
  static const double none[1] = {0};
  const atvi_lang_data *data = &m->lang->data[k];
  atvi_idx n = m->states.n, o = m->times.row_out[k][r], p = m->times.row_prev[k][r];
  in[0] = w->theta;
  in[1] = data->time ? &data->time[r] : none;
  in[2] = w->yout + (o >= 0 ? o : 0) * n * L;
  in[3] = w->yout + (p >= 0 ? p : 0) * n * L;
  in[4] = o >= 0 ? m->times.output_tab + 2 * m->lang->n_table * o : none;
  in[5] = m->lik.filled[k] + r * data->n_col;
  in[6] = w->hoist;
}

void atvi_model_pointwise(const void *self, void *work, atvi_idx B, const double *theta, double *out) {
  const atvi_model *m = self;
  atvi_model_work *w = work;
  for (atvi_idx i = 0; i < m->target.n_obs * B; i++) out[i] = NAN;
  for (atvi_idx first = 0; first < B; first += L) {
    atvi_outcome outcome[L];
    int real = atvi_model_load_lanes(m, w, B, theta, first);
    atvi_model_solve(m, w, false, outcome);
    for (atvi_idx k = 0; k < m->lik.n_rows; k++) {
      const atvi_rows *rows = &m->lik.rows[k];
      for (atvi_idx r = 0; rows->data >= 0 && r < rows->n_row; r++) {
        const double *in[7];
        row_inputs(m, w, rows->data, r, in);
        atvi_graph_prog_run(&rows->each, w->scratch, in, (double *[]){w->el});
        for (atvi_idx e = 0; e < rows->n_el; e++)
          for (int l = 0; l < real && rows->mask[r * rows->n_el + e] != 0; l++)
            out[(m->rare.obs_at[rows->observe[e]] + r) * B + first + l] =
                outcome[l] == ATVI_RUN_OK ? w->el[e * L + l] : -HUGE_VAL;
      }
    }
  }
  atvi_model_report_processes(m, w, ATVI_REPORT_POINTWISE, 0, 0, B, theta, out);
}

/* Runs the reports of all rows for the lanes loaded and solved; hands arguments and means to fn. */
typedef struct {
  const atvi_model *m;
  atvi_idx B, first;
  int real;
  uint64_t seed;
  atvi_idx draw; /* number of the first lane's draw */
  double *out;
  const atvi_outcome *outcome;
  bool simulate;
} reporting;

static double one_value(const reporting *p, atvi_idx o, atvi_idx r, uint32_t key, int lane, const double *arg,
                        double mean) {
  if (p->outcome[lane] != ATVI_RUN_OK || !p->m->lik.covariates[o][r]) return NAN;
  if (!p->simulate) return mean;
  atvi_rng rng = atvi_math_rng_at(p->seed, ATVI_STREAM_OBSERVE, key, (uint32_t)(p->draw + lane));
  return atvi_lang_dist_draw(&rng, p->m->lang->observe[o].dist, arg, -HUGE_VAL, HUGE_VAL);
}

static atvi_idx rows_given(const atvi_model *m, atvi_idx k) {
  return m->times.n_given ? m->times.n_given[k] : m->lang->data[k].n_row;
}

/* The key of the noise of row r of observation o, before which there are `given` rows of the data: rows of
 * the data have what they have without the rows that were added after them, and these have keys of their
 * own. */
static uint32_t noise_key(const atvi_model *m, atvi_idx o, atvi_idx r, atvi_idx given) {
  atvi_idx n = rows_given(m, m->lang->observe[o].data);
  return (uint32_t)(r < n ? given + r : ((atvi_idx)1 << 31) + m->rare.obs_at[o] - given + r - n);
}

static void report_rows(const reporting *p, atvi_model_work *w) {
  const atvi_model *m = p->m;
  for (atvi_idx k = 0; k < m->lang->n_data; k++)
    for (atvi_idx r = 0; r < m->lang->data[k].n_row; r++) {
      const double *in[7];
      double *args = w->el, *means = w->el + m->rare.report_args[k] * L;
      row_inputs(m, w, k, r, in);
      atvi_graph_prog_run(&m->rare.report[k], w->scratch, in, (double *[]){args, means});
      for (atvi_idx o = 0, mean = 0, given = 0; o < m->lang->n_observe;
           given += rows_given(m, m->lang->observe[o++].data)) {
        const atvi_lang_observe *obs = &m->lang->observe[o];
        if (obs->data != k) continue;
        uint32_t key = noise_key(m, o, r, given);
        for (int l = 0; l < p->real && obs->n_term == 0; l++) {
          double arg[ATVI_DIST_ARGS] = {0};
          for (int a = 0; a < obs->n_arg; a++) arg[a] = args[a * L + l];
          p->out[(m->rare.obs_at[o] + r) * p->B + p->first + l] =
              one_value(p, o, r, key, l, arg, means[mean * L + l]);
        }
        args += obs->n_arg * L;
        mean++;
      }
    }
}

/* Tracked quantities and states, after the observed series. */
static void report_series(const reporting *p, atvi_model_work *w) {
  static const double none[1] = {0};
  const atvi_model *m = p->m;
  const atvi_lang *lang = m->lang;
  atvi_idx n = m->states.n, nt = m->times.n_series_time;
  for (atvi_idx i = 0; i < nt; i++) {
    const double *states = m->odes.any ? w->yout + i * n * L : w->yout;
    const double *tab = m->times.n_output ? m->times.output_tab + 2 * lang->n_table * i : none;
    const double *in[] = {w->theta, &m->times.series_time[i], states, states, tab, none, w->hoist, none};
    atvi_graph_prog_run(&m->rare.track, w->scratch, in, (double *[]){w->el});
    double *to = p->out + m->target.n_obs * p->B + p->first;
    for (atvi_idx k = 0; k < lang->outputs.n_track + lang->dynamics.n_state - lang->dynamics.n_lag; k++) {
      atvi_idx at = k < lang->outputs.n_track ? -1 : m->states.at[k - lang->outputs.n_track];
      const double *from = k < lang->outputs.n_track ? w->el + k * L : at >= 0 ? states + at * L : NULL;
      for (int l = 0; l < p->real; l++) {
        double v = from ? from[l] : m->states.value[k - lang->outputs.n_track];
        to[(k * nt + i) * p->B + l] = p->outcome[l] == ATVI_RUN_OK ? v : NAN;
      }
    }
  }
}

static void report(const atvi_model *m, atvi_model_work *w, bool simulate, uint64_t seed, atvi_idx first,
                   atvi_idx B, const double *theta, double *out) {
  for (atvi_idx at = 0; at < B; at += L) {
    atvi_outcome outcome[L];
    int real = atvi_model_load_lanes(m, w, B, theta, at);
    atvi_model_solve(m, w, false, outcome);
    reporting p = {m, B, at, real, seed, first + at, out, outcome, simulate};
    report_rows(&p, w);
    if (!simulate) report_series(&p, w);
  }
}

void atvi_model_predict(const void *self, void *work, atvi_idx B, const double *theta, double *out) {
  report(self, work, false, 0, 0, B, theta, out);
  atvi_model_report_processes(self, work, ATVI_REPORT_PREDICT, 0, 0, B, theta, out);
}

void atvi_model_simulate(const void *self, void *work, uint64_t seed, atvi_idx first, atvi_idx B,
                         const double *theta, double *out) {
  report(self, work, true, seed, first, B, theta, out);
  atvi_model_report_processes(self, work, ATVI_REPORT_SIMULATE, seed, first, B, theta, out);
}

void atvi_model_predictive(const void *self, void *work, uint64_t seed, atvi_idx first, atvi_idx B,
                           const double *theta, double *out) {
  report(self, work, true, seed, first, B, theta, out);
  atvi_model_report_processes(self, work, ATVI_REPORT_PREDICTIVE, seed, first, B, theta, out);
}

void atvi_model_leave_one_out(const void *self, void *work, uint64_t seed, atvi_idx first, atvi_idx B,
                              const double *theta, double *out) {
  report(self, work, true, seed, first, B, theta, out);
  atvi_model_report_processes(self, work, ATVI_REPORT_LEAVE_ONE_OUT, seed, first, B, theta, out);
}

void atvi_model_latent(const void *self, void *work, uint64_t seed, atvi_idx first, atvi_idx B,
                       const double *theta, double *out) {
  atvi_model_report_processes(self, work, ATVI_REPORT_LATENT, seed, first, B, theta, out);
}
