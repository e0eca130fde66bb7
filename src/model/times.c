/* SPDX-License-Identifier: MIT */
/* When things happen: output times, and the stops that the solver lands on.
 *
 * Outputs are the different times at which some row needs the state. Stops are outputs, pulses
 * and the jumps and kinks of tables, merged where they agree to rounding (times of data and of
 * jumps are often computed differently, such as 13/7 and 1.857142857). */
#include "model/model.h"
#include "math/stat/stat.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Two times closer than this share of the whole span are one. */
static const double SAME_TIME = 1e-10;
/* Times of difference equations may miss the step grid by this share of a step; they are moved onto it. */
static const double OFF_GRID = 1e-6;
enum { MOST_EVENTS = 5000000 }; /* more stops than this is a slip: a monthly table and a time of 1e300 */

typedef enum { EVENT_START, EVENT_OUTPUT, EVENT_PULSE, EVENT_TABLE } event_kind;

typedef struct {
  double t;
  event_kind kind;
  atvi_idx index;
  /* PULSE: which of its times. */
  atvi_idx row;
} event;

typedef struct {
  atvi_pool *pool;
  event *item;
  atvi_idx n, cap;
} events;

static bool add(events *e, double t, event_kind kind, atvi_idx index, atvi_idx row) {
  if (!ATVI_PUSH(e->pool, e->item, e->n, e->cap)) return false;
  e->item[e->n++] = (event){t, kind, index, row};
  return true;
}

/* A time of difference equations, on the grid of steps. */
static double on_grid(const atvi_lang *lang, double t) {
  return lang->kind == ATVI_MODEL_MAP
             ? lang->time.start + lang->time.step * round((t - lang->time.start) / lang->time.step)
             : t;
}

static int by_time(const void *a, const void *b) {
  const event *x = a, *y = b;
  if (x->t != y->t) return x->t < y->t ? -1 : 1;
  if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
  if (x->index != y->index) return x->index < y->index ? -1 : 1;
  return (x->row > y->row) - (x->row < y->row);
}

static void tables_at(const atvi_model *m, double t, double *tab) {
  double next;
  for (atvi_idx k = 0; k < m->lang->n_table; k++)
    atvi_lang_table_at(m->lang, &m->lang->table[k], t, &tab[2 * k], &tab[2 * k + 1], &next);
}

static atvi_status check_times(atvi_model *m, atvi_idx n, const double *time) {
  for (atvi_idx i = 0; i < n; i++)
    if (!isfinite(time[i]) || (i > 0 && !(time[i] > time[i - 1])) ||
        (m->lang->dynamics.n_state && time[i] < m->lang->time.start))
      return ATVI_FAIL(m->ctx, ATVI_EINVAL,
                       "times: entry %td is %g; times must ascend and not lie before the start time %g",
                       i + 1, time[i], m->lang->time.start);
  for (atvi_idx i = 0; m->lang->kind == ATVI_MODEL_MAP && i < n; i++)
    if (!(fabs(on_grid(m->lang, time[i]) - time[i]) <= OFF_GRID * m->lang->time.step))
      return ATVI_FAIL(m->ctx, ATVI_EINVAL,
                       "times: %g is not a whole number of steps of %g after the start time %g", time[i],
                       m->lang->time.step, m->lang->time.start);
  return ATVI_OK;
}

/* Rows at the times the caller asks for, all observations missing, instead of the data. */
static atvi_status replace_rows(atvi_model *m, atvi_idx n, const double *time) {
  for (atvi_idx k = 0; k < m->lang->n_data; k++) {
    atvi_lang_data *data = &m->lang->data[k];
    atvi_idx n_col = data->n_col > 0 ? data->n_col : 1;
    double *t = atvi_pool_take(m->pool, (size_t)n, sizeof *t);
    double *v = atvi_pool_take(m->pool, (size_t)(n * n_col), sizeof *v);
    if (!t || !v) return ATVI_ENOMEM;
    for (atvi_idx i = 0; i < n; i++) t[i] = time[i];
    for (atvi_idx i = 0; i < n * n_col; i++) v[i] = NAN;
    data->csv = NULL;
    data->n_row = n;
    data->time = t;
    data->n_col = n_col;
    data->value = v;
  }
  return ATVI_OK;
}

/* How many of n ascending times are below t. */
static atvi_idx count_below(atvi_idx n, const double *time, double t) {
  atvi_idx lo = 0, hi = n;
  while (lo < hi) {
    atvi_idx mid = (lo + hi) / 2;
    if (time[mid] < t)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

atvi_idx atvi_model_time_before(atvi_idx n, const double *time, double t) {
  double eps = n ? SAME_TIME * fmax(fabs(t), fabs(time[n - 1])) : 0;
  return count_below(n, time, t - eps) - 1;
}

static bool has_time(const atvi_lang_data *data, double t, double eps) {
  atvi_idx r = count_below(data->n_row, data->time, t - eps);
  return r < data->n_row && data->time[r] <= t + eps;
}

/* The same after the data: rows of the file keep their numbers, and so does what is known of their cells. */
static atvi_status append_rows(atvi_model *m, atvi_idx n, const double *time) {
  m->times.n_given = atvi_pool_take(m->pool, (size_t)m->lang->n_data + 1, sizeof *m->times.n_given);
  if (!m->times.n_given) return ATVI_ENOMEM;
  for (atvi_idx k = 0; k < m->lang->n_data; k++) {
    atvi_lang_data *data = &m->lang->data[k], old = *data;
    m->times.n_given[k] = data->n_row;
    if (!data->time || data->n_row == 0) continue;
    double *t = atvi_pool_take(m->pool, (size_t)(old.n_row + n), sizeof *t);
    double *v = atvi_pool_take(m->pool, (size_t)((old.n_row + n) * old.n_col + 1), sizeof *v);
    if (!t || !v) return ATVI_ENOMEM;
    for (atvi_idx r = 0; r < old.n_row; r++) t[r] = old.time[r];
    for (atvi_idx i = 0; i < (old.n_row + n) * old.n_col; i++)
      v[i] = i < old.n_row * old.n_col ? old.value[i] : NAN;
    double eps = SAME_TIME * fmax(fabs(time[n - 1]), fabs(old.time[old.n_row - 1]));
    for (atvi_idx i = 0; i < n; i++)
      if (!has_time(&old, time[i], eps)) t[data->n_row++] = time[i];
    data->time = t;
    data->value = v;
  }
  return ATVI_OK;
}

static void saw(void *user, atvi_idx index) {
  (void)index;
  *(bool *)user = true;
}

static atvi_status find_prev(atvi_model *m) {
  for (atvi_idx o = 0; o < m->lang->n_observe; o++)
    for (int a = 0; a < m->lang->observe[o].n_arg; a++)
      if (!atvi_model_inputs(m, m->lang->observe[o].arg[a], ATVI_IN_PREV, saw, &m->lik.has_prev))
        return ATVI_ENOMEM;
  return ATVI_OK;
}

atvi_idx atvi_model_time_nearest(atvi_idx n, const double *time, double t) {
  atvi_idx lo = count_below(n - 1, time, t);
  if (lo > 0 && fabs(time[lo - 1] - t) < fabs(time[lo] - t)) lo--;
  return lo;
}

/* Index of the output at time t. */
static atvi_idx find_output(const atvi_model *m, double t) {
  return atvi_model_time_nearest(m->times.n_output, m->times.output_time, t);
}

/* Where the first row of data set k counts from. */
static double since(const atvi_model *m, const atvi_model_load_opts *opts, atvi_idx k) {
  const atvi_lang_data *data = &m->lang->data[k];
  bool given = opts->since && data->time && data->n_row > 0 && opts->since[k] > m->lang->time.start &&
               opts->since[k] < data->time[0];
  return given ? opts->since[k] : m->lang->time.start;
}

static atvi_status outputs(atvi_model *m, const atvi_model_load_opts *opts, double *eps) {
  const atvi_lang *lang = m->lang;
  atvi_idx total = 1 + opts->n_time + lang->n_data;
  for (atvi_idx k = 0; k < lang->n_data; k++) total += lang->data[k].time ? lang->data[k].n_row : 0;
  double *all = atvi_pool_take(m->pool, (size_t)total, sizeof *all);
  if (!all) return ATVI_ENOMEM;
  atvi_idx n = 0;
  if (m->lik.has_prev && m->states.n) all[n++] = lang->time.start;
  for (atvi_idx k = 0; m->lik.has_prev && m->states.n && opts->since && k < lang->n_data; k++)
    all[n++] = on_grid(lang, since(m, opts, k));
  for (atvi_idx i = 0; i < opts->n_time; i++) all[n++] = on_grid(lang, opts->time[i]);
  for (atvi_idx k = 0; k < lang->n_data; k++)
    for (atvi_idx r = 0; lang->data[k].time && r < lang->data[k].n_row; r++)
      all[n++] = on_grid(lang, lang->data[k].time[r]);
  if (n == 0 && m->states.n) all[n++] = lang->time.start;
  qsort(all, (size_t)n, sizeof *all, atvi_math_by_value);
  *eps = n ? SAME_TIME *
                 fmax(fabs(all[n - 1] - lang->time.start), fmax(fabs(all[n - 1]), fabs(lang->time.start)))
           : 0;
  atvi_idx unique = 0;
  for (atvi_idx i = 0; i < n; i++)
    if (unique == 0 || all[i] - all[unique - 1] > *eps) all[unique++] = all[i];
  m->times.n_output = unique;
  m->times.output_time = all;
  return ATVI_OK;
}

/* The last output before that of an added row at which data set k has a row; -1: the start. No added row has
 * the time of one of the file, and added rows ascend. */
static atvi_idx output_before(const atvi_model *m, atvi_idx k, atvi_idx row) {
  const double *time = m->lang->data[k].time;
  atvi_idx r = atvi_model_time_before(m->times.n_given[k], time, time[row]);
  atvi_idx file = r >= 0 ? m->times.row_out[k][r] : -1;
  atvi_idx added = row > m->times.n_given[k] ? m->times.row_out[k][row - 1] : -1;
  return file > added ? file : added;
}

/* Rows that were added after the data's count from the row before them in time. */
static void added_rows(atvi_model *m) {
  for (atvi_idx k = 0; m->times.n_given && m->lik.has_prev && m->states.n && k < m->lang->n_data; k++)
    for (atvi_idx r = m->times.n_given[k]; r < m->lang->data[k].n_row; r++) {
      atvi_idx before = output_before(m, k, r);
      m->times.row_prev[k][r] = before >= 0 ? before : find_output(m, m->lang->time.start);
    }
}

static atvi_status row_outputs(atvi_model *m, const atvi_model_load_opts *opts) {
  const atvi_lang *lang = m->lang;
  m->times.row_out = atvi_pool_take(m->pool, (size_t)lang->n_data + 1, sizeof *m->times.row_out);
  m->times.row_prev = atvi_pool_take(m->pool, (size_t)lang->n_data + 1, sizeof *m->times.row_prev);
  if (!m->times.row_out || !m->times.row_prev) return ATVI_ENOMEM;
  for (atvi_idx k = 0; k < lang->n_data; k++) {
    const atvi_lang_data *data = &lang->data[k];
    atvi_idx *out = m->times.row_out[k] = atvi_pool_take(m->pool, (size_t)data->n_row + 1, sizeof *out);
    atvi_idx *prev = m->times.row_prev[k] = atvi_pool_take(m->pool, (size_t)data->n_row + 1, sizeof *prev);
    if (!out || !prev) return ATVI_ENOMEM;
    for (atvi_idx r = 0; r < data->n_row; r++) {
      out[r] = data->time ? find_output(m, data->time[r]) : -1;
      if (!data->time || !m->lik.has_prev || !m->states.n)
        prev[r] = -1;
      else if (r == 0)
        prev[r] = find_output(m, since(m, opts, k));
      else
        prev[r] = out[r] == out[r - 1] ? prev[r - 1] : out[r - 1];
    }
  }
  added_rows(m);
  return ATVI_OK;
}

/* The first time of the step grid not before t. */
static double to_grid(const atvi_lang *lang, double t) {
  return lang->time.start + lang->time.step * ceil((t - lang->time.start) / lang->time.step - SAME_TIME);
}

static bool gather(const atvi_model *m, events *e, double end, double eps) {
  const atvi_lang *lang = m->lang;
  bool map = lang->kind == ATVI_MODEL_MAP, ok = add(e, lang->time.start, EVENT_START, 0, 0);
  for (atvi_idx i = 0; i < m->times.n_output; i++)
    ok = ok && add(e, m->times.output_time[i], EVENT_OUTPUT, i, 0);
  for (atvi_idx p = 0; p < lang->dynamics.n_pulse; p++)
    for (atvi_idx i = 0; !lang->dynamics.pulse[p].moves && i < lang->dynamics.pulse[p].n_time; i++) {
      double t = lang->dynamics.pulse[p].time[i];
      if (map) t = to_grid(lang, t);
      if (t >= lang->time.start - eps && t <= end + eps) ok = ok && add(e, t, EVENT_PULSE, p, i);
    }
  for (atvi_idx k = 0; k < lang->n_table; k++) {
    double t = lang->time.start, a, b, next;
    for (;;) {
      atvi_lang_table_at(lang, &lang->table[k], t, &a, &b, &next);
      if (!(next < end) || e->n > MOST_EVENTS) break;
      ok = ok && add(e, map ? to_grid(lang, next) : next, EVENT_TABLE, k, 0);
      t = next > t ? next : nextafter(t, HUGE_VAL);
    }
  }
  return ok;
}

/* Number of the combination of pulses item[0 .. n-1] (ascending), made if it is new; -1 on ENOMEM. */
static atvi_idx combine(atvi_model *m, atvi_idx n, const atvi_idx *item) {
  for (atvi_idx c = 0; c < m->pulses.n_combo; c++) {
    bool same = m->pulses.combo[c].n == n;
    for (atvi_idx i = 0; same && i < n; i++) same = m->pulses.combo[c].item[i] == item[i];
    if (same) return c;
  }
  atvi_idx *copy = atvi_pool_take(m->pool, (size_t)n, sizeof *copy);
  if (!copy || !ATVI_PUSH(m->pool, m->pulses.combo, m->pulses.n_combo, m->pulses.cap_combo)) return -1;
  for (atvi_idx i = 0; i < n; i++) copy[i] = item[i];
  m->pulses.combo[m->pulses.n_combo] = (atvi_pulses){n, copy};
  return m->pulses.n_combo++;
}

atvi_idx atvi_model_pulse_at(const atvi_lang *lang, atvi_idx pulse) {
  atvi_idx at = 2 * lang->n_table;
  for (atvi_idx p = 0; p < pulse; p++) at += lang->dynamics.pulse[p].n_same * lang->dynamics.pulse[p].n_value;
  return at;
}

atvi_idx atvi_model_tab(const atvi_lang *lang) { return atvi_model_pulse_at(lang, lang->dynamics.n_pulse); }

/* How often the pulse of event n acts in the events before it. */
static atvi_idx acted(const event *ev, atvi_idx n) {
  atvi_idx count = 0;
  for (atvi_idx i = 0; i < n; i++) count += ev[i].kind == EVENT_PULSE && ev[i].index == ev[n].index;
  return count;
}

/* Whether event n can join those before it in one stop: there is room for its numbers. */
static bool fits(const atvi_lang *lang, const event *ev, atvi_idx n) {
  if (ev[n].kind != EVENT_PULSE || !lang->dynamics.pulse[ev[n].index].n_value) return true;
  return acted(ev, n) < lang->dynamics.pulse[ev[n].index].n_same;
}

/* The numbers of the pulse of event n. */
static void put_values(const atvi_lang *lang, const event *ev, atvi_idx n, double *tab) {
  const atvi_lang_pulse *p = &lang->dynamics.pulse[ev[n].index];
  if (!p->n_value) return;
  double *to = tab + atvi_model_pulse_at(lang, ev[n].index) + acted(ev, n) * p->n_value;
  for (atvi_idx k = 0; k < p->n_value; k++) to[k] = p->value[ev[n].row * p->n_value + k];
}

/* One stop from the events at one time. Numbers of pulses stay until the next one, so that tab changes with
 * tables alone. */
static bool make_stop(atvi_model *m, atvi_idx n, const event *ev, atvi_idx *item, double eps,
                      const double *tab_before, atvi_ode_stop *stop) {
  atvi_idx n_tab = atvi_model_tab(m->lang);
  double *tab = atvi_pool_take(m->pool, (size_t)(n_tab + 1), sizeof *tab);
  if (!tab) return false;
  if (tab_before) memcpy(tab, tab_before, (size_t)n_tab * sizeof *tab);
  atvi_idx n_item = 0;
  *stop = (atvi_ode_stop){ev[0].t, -1, -1, tab};
  for (atvi_idx i = 0; i < n; i++) {
    if (ev[i].kind == EVENT_OUTPUT) stop->output = ev[i].index;
    if (ev[i].kind != EVENT_PULSE) continue;
    put_values(m->lang, ev, i, tab);
    item[n_item++] = ev[i].index;
  }
  if (n_item) {
    stop->pulse = combine(m->base, n_item, item);
    if (stop->pulse < 0) return false;
  }
  tables_at(m, stop->t + eps, tab);
  return true;
}

/* One more instant of parameters' times. */
static bool add_moving(atvi_model *m, atvi_node node, double offset, atvi_idx pulse) {
  for (atvi_idx i = 0; pulse < 0 && i < m->pulses.n_moving; i++)
    if (m->pulses.moving_node[i] == node && m->pulses.moving[i].offset == offset) return true;
  if (!ATVI_PUSH(m->pool, m->pulses.moving, m->pulses.n_moving, m->pulses.cap_moving) ||
      !ATVI_PUSH(m->pool, m->pulses.moving_node, m->pulses.n_moving, m->pulses.cap_moving_node))
    return false;
  m->pulses.moving_node[m->pulses.n_moving] = node;
  m->pulses.moving[m->pulses.n_moving++] = (atvi_ode_moving){.offset = offset, .pulse = pulse};
  return true;
}

/* Delays of states that change. Those of other states are numbers already, and are delays of any state. */
static atvi_status delays(atvi_model *m) {
  const atvi_lang *lang = m->lang;
  m->delays.n = lang->dynamics.n_delay;
  m->delays.delay = atvi_pool_take(m->pool, (size_t)m->delays.n + 1, sizeof *m->delays.delay);
  m->delays.node = atvi_pool_take(m->pool, (size_t)m->delays.n + 1, sizeof *m->delays.node);
  if (!m->delays.delay || !m->delays.node) return ATVI_ENOMEM;
  for (atvi_idx k = 0; k < m->delays.n; k++) {
    const atvi_idx state = m->states.at[lang->dynamics.delay[k].state];
    double lag = 0;
    bool fixed = atvi_graph_is_const(lang->graph, lang->dynamics.delay[k].lag, &lag);
    m->delays.delay[k] = (atvi_ode_delay){.state = state >= 0 ? state : 0, .par = -1, .lag = lag};
    m->delays.node[k] = fixed ? ATVI_NODE_NONE : lang->dynamics.delay[k].lag;
  }
  return ATVI_OK;
}

/* Whether delay k is the first with its lag. */
static bool first_lag(const atvi_lang *lang, atvi_idx k) {
  for (atvi_idx j = 0; j < k; j++)
    if (lang->dynamics.delay[j].lag == lang->dynamics.delay[k].lag) return false;
  return true;
}

/* What jumps at the start, at a pulse or in a table comes again a delay later, a little smoother each time:
 * the solver lands on the first few. An instant is a number and a node, or ATVI_NODE_NONE. */
typedef struct {
  double t;
  atvi_node node;
} echo;

enum { ECHOES = 4, MOST_ECHOES = 20000 };

static bool push_echo(atvi_model *m, echo **item, atvi_idx *n, atvi_idx *cap, double t, atvi_node node) {
  if (*n >= MOST_ECHOES || (node == ATVI_NODE_NONE && t > m->pulses.echo_end)) return true;
  if (!ATVI_PUSH(m->pool, *item, *n, *cap)) return false;
  (*item)[(*n)++] = (echo){t, node};
  return true;
}

/* Fixed ones are added to e, if it is given; the others become moving instants without a pulse. */
static bool echoes(atvi_model *m, events *e, double end) {
  const atvi_lang *lang = m->lang;
  atvi_graph *g = lang->graph;
  echo *item = NULL;
  atvi_idx n = 0, cap = 0, from = 0;
  bool ok = true;
  m->pulses.echo_end = end;
  for (atvi_idx i = 0; e && i < e->n; i++)
    if (e->item[i].kind != EVENT_OUTPUT)
      ok = ok && push_echo(m, &item, &n, &cap, e->item[i].t, ATVI_NODE_NONE);
  for (atvi_idx p = 0; ok && p < lang->dynamics.n_pulse; p++)
    for (atvi_idx i = 0; lang->dynamics.pulse[p].moves && i < lang->dynamics.pulse[p].n_time; i++)
      ok = ok && push_echo(m, &item, &n, &cap, lang->dynamics.pulse[p].time[i], lang->dynamics.pulse[p].lag);
  for (int round = 0; ok && round < ECHOES; round++) {
    atvi_idx to = n;
    for (atvi_idx i = from; ok && i < to; i++)
      for (atvi_idx k = 0; ok && k < lang->dynamics.n_delay; k++) {
        double lag = 0;
        const echo x = item[i];
        if (!first_lag(lang, k)) continue;
        bool fixed = atvi_graph_is_const(g, lang->dynamics.delay[k].lag, &lag);
        atvi_node node = fixed ? x.node
                         : x.node == ATVI_NODE_NONE
                             ? lang->dynamics.delay[k].lag
                             : atvi_graph_op2(g, ATVI_OP_ADD, x.node, lang->dynamics.delay[k].lag);
        ok = push_echo(m, &item, &n, &cap, x.t + lag, node);
      }
    from = to;
    for (atvi_idx i = from; ok && i < n; i++) {
      if (item[i].node == ATVI_NODE_NONE)
        ok = add(e, item[i].t, EVENT_TABLE, 0, 0);
      else if (m->pulses.adds_echoes)
        ok = add_moving(m, item[i].node, item[i].t, -1);
    }
  }
  return ok;
}

static atvi_status stops(atvi_model *m, double end, double eps, atvi_ode *ode) {
  events e = {.pool = m->pool};
  bool ok = gather(m, &e, end, eps);
  if (end > m->times.output_time[m->times.n_output - 1]) ok = ok && add(&e, end, EVENT_START, 0, 0);
  if (m->delays.n) ok = ok && echoes(m, &e, end);
  if (e.n > MOST_EVENTS)
    return ATVI_FAIL(
        m->ctx, ATVI_EMODEL,
        "%s: error: between the start time %g and the last time %g tables change more than %d times\n"
        "hint: are the times right, and in the unit that the model means?",
        m->lang->path, m->lang->time.start, end, MOST_EVENTS);
  atvi_ode_stop *stop = ok ? atvi_pool_take(m->pool, (size_t)e.n, sizeof *stop) : NULL;
  atvi_idx *item = ok ? atvi_pool_take(m->pool, (size_t)e.n, sizeof *item) : NULL;
  atvi_idx n = 0;
  if (stop && item) {
    qsort(e.item, (size_t)e.n, sizeof *e.item, by_time);
    for (atvi_idx i = 0, last; ok && i < e.n; i = last) {
      for (last = i + 1; last < e.n && e.item[last].t - e.item[i].t <= eps; last++)
        if (!fits(m->lang, &e.item[i], last - i)) break;
      ok = make_stop(m, last - i, &e.item[i], item, eps, n ? stop[n - 1].tab : NULL, &stop[n]);
      n++;
    }
  }
  if (!ok || !stop || !item) return ATVI_ENOMEM;
  ode->n_stop = n;
  ode->stop = stop;
  return ATVI_OK;
}

/* The pulses of parameters' times: those of one lag and time act together, and the one that comes first in
 * the file has them. */
static atvi_status moving(atvi_model *m) {
  const atvi_lang *lang = m->lang;
  const atvi_idx first = 2 * lang->n_table, n_tab = atvi_model_tab(lang);
  atvi_idx most = 0;
  for (atvi_idx p = 0; p < lang->dynamics.n_pulse; p++)
    most += lang->dynamics.pulse[p].moves ? lang->dynamics.pulse[p].n_time : 0;
  event *same = atvi_pool_take(m->pool, (size_t)most + 1, sizeof *same);
  atvi_idx *item = atvi_pool_take(m->pool, (size_t)most + 1, sizeof *item);
  if (!item || !same) return ATVI_ENOMEM;
  for (atvi_idx p = 0; p < lang->dynamics.n_pulse; p++)
    for (atvi_idx i = 0; lang->dynamics.pulse[p].moves && i < lang->dynamics.pulse[p].n_time; i++) {
      const atvi_node lag = lang->dynamics.pulse[p].lag;
      const double time = lang->dynamics.pulse[p].time[i];
      atvi_idx n = 0;
      for (atvi_idx q = 0; q < lang->dynamics.n_pulse; q++)
        for (atvi_idx j = 0; lang->dynamics.pulse[q].moves && lang->dynamics.pulse[q].lag == lag &&
                             j < lang->dynamics.pulse[q].n_time;
             j++)
          if (lang->dynamics.pulse[q].time[j] == time) {
            same[n] = (event){time, EVENT_PULSE, q, j};
            item[n++] = q;
          }
      if (item[0] != p || same[0].row != i) continue; /* it is there already */
      double *tab = n_tab > first ? atvi_pool_take(m->pool, (size_t)n_tab, sizeof *tab) : NULL;
      atvi_idx combo = combine(m->base, n, item);
      if (combo < 0 || (n_tab > first && !tab) || !add_moving(m, lag, time, combo)) return ATVI_ENOMEM;
      for (atvi_idx k = 0; tab && k < n; k++) put_values(lang, same, k, tab);
      m->pulses.moving[m->pulses.n_moving - 1].tab = tab ? tab + first : NULL;
      m->pulses.moving[m->pulses.n_moving - 1].tab_from = first;
    }
  return ATVI_OK;
}

/* The pulses of conditions; those of one condition act together. */
static atvi_status roots(atvi_model *m) {
  const atvi_lang *lang = m->lang;
  atvi_node *node = atvi_pool_take(m->pool, 2 * (size_t)lang->dynamics.n_pulse + 1, sizeof *node);
  atvi_node *truth = atvi_pool_take(m->pool, (size_t)lang->dynamics.n_pulse + 1, sizeof *truth);
  atvi_idx *item = atvi_pool_take(m->pool, (size_t)lang->dynamics.n_pulse + 1, sizeof *item);
  m->pulses.root_pulse =
      atvi_pool_take(m->pool, (size_t)lang->dynamics.n_pulse + 1, sizeof *m->pulses.root_pulse);
  if (!node || !truth || !item || !m->pulses.root_pulse) return ATVI_ENOMEM;
  for (atvi_idx p = 0; p < lang->dynamics.n_pulse; p++) {
    const atvi_node holds = lang->dynamics.pulse[p].holds;
    atvi_idx n_item = 0;
    for (atvi_idx q = 0; q < lang->dynamics.n_pulse; q++)
      if (lang->dynamics.pulse[q].conditional && lang->dynamics.pulse[q].holds == holds) item[n_item++] = q;
    if (!lang->dynamics.pulse[p].conditional || item[0] != p) continue;
    if ((m->pulses.root_pulse[m->pulses.n_root] = combine(m->base, n_item, item)) < 0) return ATVI_ENOMEM;
    truth[m->pulses.n_root] = holds;
    node[m->pulses.n_root++] = lang->dynamics.pulse[p].when;
  }
  for (atvi_idx e = 0; e < m->pulses.n_root; e++) node[m->pulses.n_root + e] = truth[e];
  m->pulses.root_node = node;
  return ATVI_OK;
}

static double map_end(const atvi_lang *lang, double t) {
  return lang->kind == ATVI_MODEL_MAP ? to_grid(lang, t) : t;
}

atvi_status atvi_model_times(atvi_model *m, const atvi_model_load_opts *opts) {
  double eps = 0;
  if (opts->n_time > 0) {
    ATVI_TRY(check_times(m, opts->n_time, opts->time));
    ATVI_TRY(opts->extend ? append_rows(m, opts->n_time, opts->time)
                          : replace_rows(m, opts->n_time, opts->time));
  }
  ATVI_TRY(find_prev(m));
  ATVI_TRY(outputs(m, opts, &eps));
  ATVI_TRY(row_outputs(m, opts));
  m->times.output_tab =
      atvi_pool_take(m->pool, (size_t)(m->times.n_output * 2 * m->lang->n_table + 1), sizeof(double));
  if (!m->times.output_tab) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < m->times.n_output; i++)
    tables_at(m, m->times.output_time[i] + eps, m->times.output_tab + 2 * m->lang->n_table * i);
  m->odes.any = m->states.n > 0;
  if (!m->odes.any) return ATVI_OK;
  m->pulses.adds_echoes = true;
  ATVI_TRY(delays(m));
  ATVI_TRY(moving(m));
  ATVI_TRY(roots(m));
  double end = m->times.output_time[m->times.n_output - 1],
         last = fmax(end, m->lang->time.start + m->lang->time.step);
  for (atvi_idx k = 0; k < m->lang->outputs.n_trajectory; k++)
    last = fmax(last, map_end(m->lang, m->lang->outputs.trajectory[k].to));
  ATVI_TRY(stops(m, end, eps, &m->odes.fit));
  m->pulses.adds_echoes = false;
  return m->lang->outputs.n_trajectory ? stops(m, last, eps, &m->odes.path) : ATVI_OK;
}
