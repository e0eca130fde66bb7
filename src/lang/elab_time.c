/* SPDX-License-Identifier: MIT */
/* What kind of model it is, and its time: calendar, start, step, solver, tables. */
#include "lang/elab.h"
#include <math.h>
#include <string.h>

/* Coarser than this the error estimate of the solvers means nothing. */
static const double TOL_MOST = 0.1;

/* The only statement of a kind, or NULL; a second one is an error. */
static const ast_stmt *only(elab *e, ast_keyword kind, const char *word) {
  const ast_stmt *found = NULL;
  for (atvi_idx i = 0; i < e->file->n; i++) {
    const ast_stmt *st = &e->file->stmt[i];
    if (st->kind != kind) continue;
    if (found && found->level == st->level)
      atvi_lang_error(e->s, st->at, "keep one of them", "'%s' is given twice: line %d already has it", word,
                      found->at.line);
    else
      found = st;
  }
  return found;
}

static const ast_stmt *first_equation(const elab *e, bool next) {
  for (atvi_idx i = 0; i < e->file->n; i++) {
    const ast_stmt *st = &e->file->stmt[i];
    if (next ? st->kind == KW_NEXT : st->kind == KW_NONE) return st;
  }
  return NULL;
}

static bool model_kind(elab *e) {
  const ast_stmt *ode = first_equation(e, false), *map = first_equation(e, true);
  if (ode && map) {
    const ast_stmt *later = ode->at.line > map->at.line ? ode : map;
    atvi_lang_error(e->s, later->at, "all states follow d/dt equations, or all follow 'next' equations",
                    "a model cannot have both d/dt and next equations");
    return false;
  }
  for (atvi_idx i = 0; i < e->file->n && !ode && !map; i++)
    if (atvi_lang_convolves(&e->file->stmt[i])) map = &e->file->stmt[i];
  e->lang->kind = ode ? ATVI_MODEL_ODE : map ? ATVI_MODEL_MAP : ATVI_MODEL_STATIC;
  const ast_stmt *step = only(e, KW_STEP, "step");
  e->lang->time.step = 1;
  if (!step || e->s->status != ATVI_OK) return e->s->status == ATVI_OK;
  if (!atvi_lang_has_statement(e->tree->n, e->tree->stmt, KW_NEXT)) {
    atvi_lang_error(e->s, step->at, "the step of a solver is set with: solver rk4 step 0.1",
                    "'step' is the time between two states of 'next' equations, and there are none");
    return false;
  }
  if (!atvi_lang_number(e, NULL, step->value, "the step", &e->lang->time.step)) return false;
  if (e->lang->time.step > 0 && e->lang->time.step < INFINITY) return true;
  atvi_lang_error(e->s, step->at, "for example: step 1", "the step must be above 0, not %g",
                  e->lang->time.step);
  return false;
}

static bool calendar(elab *e) {
  const ast_stmt *st = only(e, KW_CALENDAR, "calendar");
  if (!st || e->s->status != ATVI_OK) return e->s->status == ATVI_OK;
  const char *unit = st->option->text;
  double days = strcmp(unit, "day") == 0    ? 1
                : strcmp(unit, "week") == 0 ? 7
                : strcmp(unit, "year") == 0 ? 365.25
                                            : 0;
  e->lang->time.calendar = (atvi_calendar){st->date, days};
  if (days > 0) return true;
  atvi_lang_error(e->s, st->column.time_at, "for example: calendar 2009-12-19 week",
                  "the unit of time is day, week or year, not '%.60s'", unit);
  return false;
}

/* A number above 0 (or 0, where that is allowed) and below `most`. */
static bool setting(elab *e, const ast_expr *x, const char *name, bool zero, double most, double *value) {
  if (!x) return true;
  if (!atvi_lang_number(e, NULL, x, name, value)) return false;
  if ((*value > 0 || (zero && *value == 0)) && *value < most) return true;
  const char *from = zero ? "0 or more" : "above 0";
  if (isinf(most))
    atvi_lang_error(e->s, x->at, "choose a number in that range", "%s must be %s and finite, not %g", name,
                    from, *value);
  else
    atvi_lang_error(e->s, x->at,
                    "the default is right for most models; a smaller one is more exact and slower",
                    "%s must be %s and below %g, not %g", name, from, most, *value);
  return false;
}

static bool solver(elab *e) {
  atvi_lang *m = e->lang;
  m->solver.tol_rel = m->solver.tol_abs = m->solver.step = NAN;
  const ast_stmt *st = only(e, KW_SOLVER, "solver");
  if (!st || e->s->status != ATVI_OK) return e->s->status == ATVI_OK;
  const char *name = st->option->text;
  m->solver.kind = strcmp(name, "rk45") == 0    ? ATVI_SOLVER_RK45
                   : strcmp(name, "rk4") == 0   ? ATVI_SOLVER_RK4
                   : strcmp(name, "stiff") == 0 ? ATVI_SOLVER_STIFF
                                                : ATVI_SOLVER_DEFAULT;
  if (m->solver.kind == ATVI_SOLVER_DEFAULT) {
    atvi_lang_error(e->s, st->at, "there are rk45, rk4 and stiff", "unknown solver '%.60s'", name);
    return false;
  }
  if (!atvi_lang_has_statement(e->tree->n, e->tree->stmt, KW_NONE)) {
    atvi_lang_error(e->s, st->at, "remove the line", "there are no differential equations to solve");
    return false;
  }
  if (m->solver.kind == ATVI_SOLVER_RK4 ? !st->step || st->solver.tol || st->solver.atol : st->step != NULL) {
    atvi_lang_error(e->s, st->at, "rk4 has a fixed step: solver rk4 step 0.1; the others have tol and atol",
                    m->solver.kind == ATVI_SOLVER_RK4 ? "rk4 needs a step and takes no tolerance"
                                                      : "'%.60s' takes no step",
                    name);
    return false;
  }
  double most = 0;
  if (!setting(e, st->solver.tol, "tol", false, TOL_MOST, &m->solver.tol_rel) ||
      !setting(e, st->solver.atol, "atol", true, 1, &m->solver.tol_abs) ||
      !setting(e, st->step, "step", false, INFINITY, &m->solver.step) ||
      !setting(e, st->solver.maxsteps, "maxsteps", false, INFINITY, &most))
    return false;
  if (st->solver.maxsteps && (most != floor(most) || most > 1e12)) {
    atvi_lang_error(e->s, st->solver.maxsteps->at, "for example: maxsteps 100000",
                    "maxsteps must be a whole number, not %g", most);
    return false;
  }
  m->solver.max_steps = (atvi_idx)most;
  return true;
}

/* What was asked for on the command line is relative to the working folder, what the file says to the file. */
static bool folder(elab *e) {
  const ast_stmt *st = only(e, KW_FOLDER, "folder");
  if (e->s->status != ATVI_OK) return false;
  if (e->opts && e->opts->folder) {
    e->lang->folder = atvi_pool_strndup(e->s->pool, e->opts->folder, strlen(e->opts->folder));
    return e->lang->folder ? true : (atvi_lang_nomem(e->s), false);
  }
  if (!st) return true;
  if (!*st->file.name) {
    atvi_lang_error(e->s, st->at, "for example: folder \"../data\"", "the name of the folder is empty");
    return false;
  }
  return (e->lang->folder = atvi_lang_path_beside(e, st->file.name)) != NULL;
}

bool atvi_lang_settings(elab *e) {
  const ast_stmt *title = only(e, KW_MODEL, "model");
  e->lang->title = title ? title->file.name : "";
  return e->s->status == ATVI_OK && folder(e) && model_kind(e) && calendar(e) && solver(e);
}

bool atvi_lang_time(elab *e, const ast_expr *x, const char *where, double *value) {
  if (x->kind != EX_DATE) {
    if (!atvi_lang_number(e, NULL, x, where, value)) return false;
    if (isfinite(*value)) return true;
    atvi_lang_error(e->s, x->at, "choose a finite number", "%s must be finite", where);
    return false;
  }
  if (!e->lang->time.calendar.unit) {
    atvi_lang_error(e->s, x->at, "say what date t = 0 is, for example: calendar 2009-12-19 week",
                    "a date needs a calendar");
    return false;
  }
  *value = atvi_io_calendar_time(e->lang->time.calendar, x->number);
  return true;
}

/* The first time in the data of all units: that of a unit without rows. */
static bool first_of_all(elab *e, double *first) {
  for (atvi_idx d = 0; d < e->lang->n_data; d++) {
    const ast_stmt *st = e->data_stmt[d];
    const atvi_csv *csv = e->files[st - e->file->stmt].csv;
    if (!csv || !st->column.time) continue;
    atvi_idx column = atvi_io_csv_find(csv, st->column.time);
    double t;
    for (atvi_idx r = 0; r < csv->n_row; r++) {
      if (!atvi_lang_time_cell(e, csv, r, column, st->column.time_at, &t)) return false;
      *first = fmin(*first, t);
    }
  }
  return true;
}

/* The first time of the data, and of pulses from files. */
static bool first_time(elab *e, double *out) {
  double first;
  if (!atvi_lang_pulse_first(e, &first)) return false;
  for (atvi_idx d = 0; d < e->lang->n_data; d++)
    if (e->lang->data[d].time && e->lang->data[d].n_row && e->lang->data[d].time[0] < first)
      first = e->lang->data[d].time[0];
  *out = first;
  return first < INFINITY || !e->in.each || first_of_all(e, out);
}

/* Difference equations have states only at start + k step. */
static bool on_grid(const elab *e, double t) {
  double k = (t - e->lang->time.start) / e->lang->time.step;
  return fabs(k - nearbyint(k)) <= 1e-9 * fmax(1, fabs(k));
}

static bool check_times(elab *e, const ast_stmt *start) {
  for (atvi_idx d = 0; d < e->lang->n_data; d++) {
    const atvi_lang_data *data = &e->lang->data[d];
    if (!data->time || e->lang->kind == ATVI_MODEL_STATIC) continue;
    atvi_idx col = atvi_io_csv_find(data->csv, e->data_stmt[d]->column.time);
    for (atvi_idx r = 0; r < data->n_row; r++) {
      if (data->time[r] < e->lang->time.start) {
        atvi_lang_data_error(e->s, data->csv, r, col, start ? start->at : (atvi_place){0},
                             "start earlier, or drop these rows", "time %g lies before the start time %g",
                             data->time[r], e->lang->time.start);
        return false;
      }
      if (e->lang->time.calendar.unit && !atvi_lang_has_month(e->lang, data->time[r])) {
        atvi_lang_data_error(e->s, data->csv, r, col, e->data_stmt[d]->at, "check the unit of the calendar",
                             "time %g lies thousands of years from the start of the calendar", data->time[r]);
        return false;
      }
      if (e->lang->kind == ATVI_MODEL_MAP && !on_grid(e, data->time[r])) {
        atvi_lang_data_error(
            e->s, data->csv, r, col, e->data_stmt[d]->at,
            "choose 'start' and 'step' so that every time of the data is a whole number of steps away",
            "time %g is not a whole number of steps of %g after the start %g", data->time[r],
            e->lang->time.step, e->lang->time.start);
        return false;
      }
    }
  }
  return true;
}

/* Rows without a time are seen at the start, where the start is steady. */
static bool rows_at_rest(elab *e) {
  for (atvi_idx d = 0; e->lang->dynamics.steady && d < e->lang->n_data; d++) {
    atvi_lang_data *data = &e->lang->data[d];
    if (data->time) continue;
    double *t = atvi_lang_take(e->s, data->n_row, sizeof *t);
    if (!t) return false;
    for (atvi_idx r = 0; r < data->n_row; r++) t[r] = e->lang->time.start;
    data->time = t;
  }
  return true;
}

bool atvi_lang_start(elab *e) {
  const ast_stmt *start = only(e, KW_START, "start"), *burnin = only(e, KW_BURNIN, "burnin");
  if (e->s->status != ATVI_OK) return false;
  if (start && burnin && start->level != burnin->level) { /* that of the unit holds */
    if (start->level < burnin->level)
      start = NULL;
    else
      burnin = NULL;
  }
  if (start && burnin) {
    atvi_lang_error(e->s, burnin->at, "keep one of them", "both 'start' and 'burnin' are given");
    return false;
  }
  e->start = start;
  double first;
  if (!first_time(e, &first)) return false;
  e->lang->time.start = first < INFINITY ? first : 0;
  e->lang->dynamics.steady = start && start->start.steady;
  if (e->lang->dynamics.steady && e->lang->kind != ATVI_MODEL_ODE) {
    atvi_lang_error(e->s, start->at, "give the start as a time: start 0",
                    "'start steady' needs differential equations");
    return false;
  }
  if (start && start->value && !atvi_lang_time(e, start->value, "the start time", &e->lang->time.start))
    return false;
  if (burnin) {
    double length;
    if (!atvi_lang_number(e, NULL, burnin->value, "the burn-in", &length)) return false;
    if (!(length >= 0) || !(length < INFINITY)) {
      atvi_lang_error(e->s, burnin->at, "it is the time between the start and the first row of the data",
                      "the burn-in must be 0 or more, not %g", length);
      return false;
    }
    e->lang->time.start -= length;
  }
  if (e->lang->time.calendar.unit && !atvi_lang_has_month(e->lang, e->lang->time.start) &&
      (start || burnin)) {
    atvi_lang_error(e->s, (start ? start : burnin)->at, "check the unit of the calendar",
                    "the start time %g lies thousands of years from the start of the calendar",
                    e->lang->time.start);
    return false;
  }
  return check_times(e, start ? start : burnin) && rows_at_rest(e);
}
