/* SPDX-License-Identifier: MIT */
/* The emulators that a fit uses, and what commands say about emulators: doubts with their advice. */
#include "app/common.h"
#include "app/report.h"
#include "math/stat/stat.h"
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A larger share of the posterior outside the runs causes a warning. */
static const double OUTSIDE_MOST = 0.01;
/* How far an emulator may go beyond the runs, whose design ends half a slice before the ends of its range: a
 * share of the range, or this many mean distances between runs. */
static const double MARGIN = 0.01, MARGIN_RUNS = 1.5;
enum { SIDES_SHOWN = 3 };
/* Draws of the posterior that are looked at, and the fewest that say anything about it. */
enum { MOVE_DRAWS = 256, MOVE_LEAST = 50 };
/* A posterior that would move by more than this share of its standard deviation with a perfect emulator is
 * a warning. */
static const double MOVED_MOST = 0.3;
/* What it would move by is not known from weights that are worth fewer draws. */
static const double WORTH_LEAST = 10;
/* There are no runs where the posterior is if more than this share of it is outside, or of the emulator's
 * variance is left open. */
static const double EMPTY = 0.5;
enum { MOVED_SHOWN = 5 };
/* An error that may be this many times as large as the emulator says is mentioned. */
static const double TIMES_SHOWN = 1.5;

/* One emulator of a fit. */
typedef struct {
  atvi_ctx *ctx;
  atvi_pool *pool;
  const atvi_app_model *opts;
  const atvi_loaded *l;
  atvi_idx k;
  const atvi_emulation *em;
  atvi_dossier *d;
  atvi_draws *draws;
} used;

/* Share of the posterior outside the range of the runs in any input; side[2 d] (or NULL): below and above the
 * range of each. */
static double outside(const atvi_dossier *d, const atvi_draws *w, double *side) {
  const atvi_emulated_runs *r = &d->r;
  double share = 0, margin = fmax(MARGIN, MARGIN_RUNS / (double)r->runs.n);
  for (atvi_idx i = 0; i < w->n; i++) {
    double weight = w->weight ? w->weight[i] : 1 / (double)w->n;
    bool out = false;
    for (atvi_idx j = 0; j < r->runs.d; j++) {
      const atvi_emulated_axis *axis = &r->axis[j];
      atvi_idx c = atvi_draws_find(w, d->input[j]); /* -1: it was held fixed */
      if (c < 0) continue;
      double from = atvi_model_emulated_axis_x(axis, r->least[j]),
             to = atvi_model_emulated_axis_x(axis, r->most[j]),
             at = atvi_model_emulated_axis_x(axis, w->x[c * w->n + i]), reach = margin * (to - from);
      bool below = at<from - reach, above = at> to + reach;
      if (side && (below || above)) side[2 * j + above] += weight;
      out = out || below || above;
    }
    if (out) share += weight;
  }
  return share;
}

/* "k > 0.6, m < 2": the sides with the largest shares first. */
static void sides(const used *u, double *side, char *text, size_t size) {
  const atvi_emulated_runs *r = &u->d->r;
  size_t n = 0;
  text[0] = 0;
  for (int shown = 0; shown < SIDES_SHOWN; shown++) {
    atvi_idx most = 0;
    for (atvi_idx s = 1; s < 2 * r->runs.d; s++)
      if (side[s] > side[most]) most = s;
    if (!(side[most] > 0.1 * OUTSIDE_MOST) || n >= size) return;
    bool above = most % 2;
    int put = snprintf(text + n, size - n, "%s%.60s %c %.4g", shown ? ", " : "", u->d->input[most / 2],
                       above ? '>' : '<', above ? r->most[most / 2] : r->least[most / 2]);
    n += put > 0 ? (size_t)put : 0;
    side[most] = 0;
  }
}

static atvi_status say_outside(const used *u) {
  char where[400];
  double *side = atvi_pool_take(u->pool, 2 * (size_t)u->em->d + 1, sizeof *side);
  if (!side) return ATVI_ENOMEM;
  u->d->outside = outside(u->d, u->draws, side);
  if (!(u->d->outside > OUTSIDE_MOST)) return ATVI_OK;
  sides(u, side, where, sizeof where);
  return atvi_draws_say(
      u->draws, u->d->outside > EMPTY ? ATVI_SERIOUS : ATVI_WARNING, ATVI_CODE_EMULATOR_OUTSIDE,
      "%.3g %% of the posterior lies where emulator '%s' has no runs and extrapolates (%s); %s.",
      100 * u->d->outside, u->d->name, where,
      u->d->r.record.lines > 0 ? "extend the design (atvi design, atvi run)" : "more runs are needed");
}

/* ---- where the posterior is ---- */

/* Draws, evenly from all of them by weight, none twice: pick[B], weight[B] (NULL: not wanted). Returns B. */
static atvi_idx some_draws(const atvi_draws *w, atvi_idx *pick, double *weight) {
  double sum = 0, all = 0;
  atvi_idx B = 0, next = 0;
  for (atvi_idx i = 0; i < w->n; i++) all += w->weight ? w->weight[i] : 1;
  for (atvi_idx i = 0; i < w->n && next < MOVE_DRAWS; i++) {
    atvi_idx before = next;
    sum += w->weight ? w->weight[i] : 1;
    while (next < MOVE_DRAWS && ((double)next + 0.5) / MOVE_DRAWS * all < sum) next++;
    if (next == before) continue;
    if (weight) weight[B] = (double)(next - before) / MOVE_DRAWS;
    pick[B++] = i;
  }
  return B;
}

/* theta[d][B] of all parameters of the model, in its order: those that were fixed at their values. */
static atvi_status place_draws(atvi_ctx *ctx, const atvi_app_model *opts, const atvi_target *of,
                               const atvi_draws *w, atvi_idx B, const atvi_idx *pick, double *theta) {
  ATVI_TRY(atvi_app_values(ctx, "--fix", of, opts->n_fix, opts->fix, theta));
  for (atvi_idx i = of->d - 1; i >= 0; i--) {
    double value = theta[i];
    atvi_idx c = atvi_draws_find(w, of->param[i].name);
    for (atvi_idx b = 0; b < B; b++) theta[i * B + b] = c < 0 ? value : w->x[c * w->n + pick[b]];
  }
  return ATVI_OK;
}

/* Leaves the moves empty where there are too few draws to say. */
static atvi_status find_moves(atvi_ctx *ctx, const atvi_app_model *opts, const atvi_loaded *l,
                              const atvi_draws *draws) {
  const atvi_target *of = atvi_model_target(l->model);
  atvi_idx pick[MOVE_DRAWS], B = some_draws(draws, pick, NULL);
  double weight[MOVE_DRAWS];
  if (B < MOVE_LEAST) return ATVI_OK;
  some_draws(draws, pick, weight);
  double *theta = atvi_block(ctx, (size_t)(of->d * B) * sizeof *theta);
  if (!theta) return ATVI_FAIL(ctx, ATVI_ENOMEM, "out of memory");
  atvi_status status = place_draws(ctx, opts, of, draws, B, pick, theta);
  if (status == ATVI_OK)
    status = atvi_model_emulated_moves(l->model->pool, l->model, draws->made->seed, B, theta, weight,
                                       &l->model->emulated->moves);
  atvi_block_free(ctx, theta);
  return status == ATVI_EDATA ? ATVI_OK : status;
}

/* "cap by 0.9, kf by 0.82": those that would move most first; times: what their movement is multiplied by.
 * Returns how far the first would move. */
static double name_moved(const atvi_target *of, const atvi_emulated_moves *v, double times, atvi_text *t) {
  double first = 0, last = HUGE_VAL;
  for (int shown = 0; shown < MOVED_SHOWN; shown++) {
    atvi_idx most = -1;
    for (atvi_idx i = 0; i < v->n; i++)
      if (v->moved[i] < last && (most < 0 || v->moved[i] > v->moved[most])) most = i;
    if (most < 0 || (shown > 0 && !(times * v->moved[most] > MOVED_MOST))) break;
    last = v->moved[most];
    if (shown == 0) first = times * last;
    atvi_io_text_add(t, "%s%s by %.2g", shown ? ", " : "", of->param[most].name, times * last);
  }
  return first;
}

/* Ends of the middle 90 % of an input's draws. */
static void ends_of(const used *u, atvi_idx c, double ends[2]) {
  atvi_idx pick[MOVE_DRAWS], B = some_draws(u->draws, pick, NULL);
  double x[MOVE_DRAWS], room[2 * MOVE_DRAWS];
  for (atvi_idx b = 0; b < B; b++) x[b] = u->draws->x[c * u->draws->n + pick[b]];
  atvi_math_sort(B, x, NULL, room);
  ends[0] = atvi_math_quantile(B, x, NULL, 0.05);
  ends[1] = atvi_math_quantile(B, x, NULL, 0.95);
}

/* "cap from 55.8 to 61.2, kf from 0.44 to 0.47; it is worst at t = 34": inputs that change the output most
 * first. */
static void name_needed(const used *u, atvi_text *t) {
  const double *length = atvi_gp_emulator_info(u->em->em)->length;
  double last = 0;
  for (int shown = 0; shown < SIDES_SHOWN;) {
    atvi_idx next = -1;
    for (atvi_idx j = 0; j < u->em->d; j++)
      if (length[j] > last && (next < 0 || length[j] < length[next])) next = j;
    if (next < 0) break;
    last = length[next];
    atvi_idx c = atvi_draws_find(u->draws, u->d->input[next]);
    if (c < 0) continue;
    double ends[2];
    ends_of(u, c, ends);
    atvi_io_text_add(t, "%s%s from %.3g to %.3g", shown++ ? ", " : "", u->d->input[next], ends[0], ends[1]);
  }
  if (u->d->near.times) atvi_io_text_add(t, "; it is worst %s", u->d->near.times);
}

/* The emulator whose error is largest against the noise. */
static atvi_idx weakest(const atvi_emulated *e) {
  atvi_idx worst = -1;
  double most = -1;
  for (atvi_idx k = 0; k < e->n_emulator; k++) {
    const atvi_dossier_near *near = &e->emulator[k].dossier.near;
    double ratio = near->noise > 0 ? near->sd / near->noise : HUGE_VAL;
    if (e->emulator[k].em && near->run && ratio > most) worst = k, most = ratio;
  }
  return worst;
}

/* What the emulators' own errors are multiplied by where the posterior is. */
static double moved_times(const atvi_emulated *e) {
  double times = 1;
  for (atvi_idx k = 0; k < e->n_emulator; k++)
    if (e->emulator[k].em) times = fmax(times, atvi_model_dossier_scale(&e->emulator[k].dossier));
  return times;
}

static const char *against_noise(atvi_pool *pool, const atvi_dossier_near *near) {
  const char *text =
      near->noise > 0 ? atvi_pool_printf(pool, "%.3g times the noise", near->sd / near->noise) : NULL;
  return text ? text : "all that the data may differ by from the simulator";
}

/* What the few runs there add to that. */
static const char *times_more(atvi_pool *pool, const atvi_dossier *d) {
  double times = atvi_model_dossier_scale(d);
  const char *text = times >= TIMES_SHOWN
                         ? atvi_pool_printf(pool, ", and %.3g runs there allow it to be %.2g times as large",
                                            d->near.n_run, times)
                         : NULL;
  return text ? text : "";
}

static atvi_status say_moves(const used *u) {
  const atvi_emulated *e = u->l->model->emulated;
  const atvi_dossier_near *near = &u->d->near;
  atvi_text moved = {.pool = u->pool}, where = {.pool = u->pool};
  const char *far, *needed;
  double most = name_moved(atvi_model_target(u->l->model), &e->moves, moved_times(e), &moved);
  if (!(most > MOVED_MOST)) return ATVI_OK;
  name_needed(u, &where);
  ATVI_TRY(atvi_io_text_get(&moved, &far));
  ATVI_TRY(atvi_io_text_get(&where, &needed));
  const char *error =
      atvi_pool_printf(u->pool, "the error of emulator '%s' there (standard deviation %.3g) is %s%s",
                       u->d->name, near->sd, against_noise(u->pool, near), times_more(u->pool, u->d));
  if (near->share > EMPTY)
    return atvi_draws_say(u->draws, ATVI_SERIOUS, ATVI_CODE_EMULATOR_EMPTY,
                          "The posterior lies where emulator '%s' has no runs: they explain %.0f %% of what "
                          "differs there, and %s. Runs are needed for %s.",
                          u->d->name, 100 * fmax(0, 1 - near->share), error, needed);
  if (e->moves.worth < WORTH_LEAST)
    return atvi_draws_say(
        u->draws, ATVI_WARNING, ATVI_CODE_EMULATOR_ERROR,
        "This is the posterior of the emulator, not of the simulator: with a perfect emulator it would be "
        "elsewhere or much narrower (%s standard deviations or more); %s. Runs are needed for %s.",
        far, error, needed);
  return atvi_draws_say(
      u->draws, ATVI_WARNING, ATVI_CODE_EMULATOR_MOVES,
      "With a perfect emulator the posterior would move: %s standard deviations; %s. Runs are needed for %s.",
      far, error, needed);
}

/* ---- doubts ---- */

void atvi_app_emulators_count_design(atvi_pool *pool, const atvi_lang *lang, const char *runs,
                                     const atvi_dossier *known, atvi_dossier *d) {
  const atvi_sim_runs *rec = &d->r.record;
  atvi_program_points p;
  int64_t most = 0;
  if (rec->lines == 0 || !lang->simulator.given) return;
  if (known && known->n_point > 0) {
    d->n_point = known->n_point, d->n_missing = known->n_missing;
    return;
  }
  const char *dir = runs ? runs : atvi_sim_folder(pool, lang->path);
  const char **name = atvi_app_program_inputs(pool, lang);
  if (!dir || !name || atvi_app_program_points_read(pool, dir, lang->simulator.n_input, name, &p) != ATVI_OK)
    return;
  for (atvi_idx i = 0; i < p.n; i++) most = p.id[i] > most ? p.id[i] : most;
  bool *done = atvi_pool_take(pool, (size_t)most + 1, sizeof *done);
  if (!done) return;
  for (atvi_idx i = 0; i < rec->n + rec->n_failed; i++) {
    int64_t id = i < rec->n ? rec->id[i] : rec->left[i - rec->n].id;
    if (id <= most) done[id] = true;
  }
  d->n_missing = 0;
  for (atvi_idx i = 0; i < p.n; i++) d->n_missing += !done[p.id[i]];
  d->n_point = p.n;
}

/* The command for more runs: what is left of the design first. */
static void advise_runs(const char *path, const char *runs, const atvi_dossier *d, atvi_text *t) {
  const atvi_sim_runs *rec = &d->r.record;
  for (int run = d->n_missing > 0; run < 2; run++) {
    atvi_io_text_add(t, run && d->n_missing == 0 ? ", atvi run " : run ? "atvi run " : "atvi design ");
    atvi_io_text_add(t, "%s", path);
    if (!run) atvi_io_text_add(t, " -n %td", 2 * (d->n_point > 0 ? d->n_point : rec->n + rec->n_failed));
    if (runs) atvi_io_text_add(t, " --runs %s", runs);
  }
}

const char *atvi_app_emulators_doubt(atvi_pool *pool, const char *path, const char *runs,
                                     const atvi_dossier *d, int i) {
  atvi_text t = {.pool = pool};
  const char *text;
  atvi_io_text_add(&t, "%s", d->doubt[i].say.text);
  switch (d->doubt[i].say.code) {
  case ATVI_CODE_EMULATOR_FAIR:
    atvi_io_text_add(&t, d->r.record.lines > 0 ? "; more runs: " : ": more runs would help");
    if (d->r.record.lines > 0) advise_runs(path, runs, d, &t);
    break;
  case ATVI_CODE_RUNS_LEFT_OUT:
    if (d->r.record.n_failed > d->r.record.n_again)
      atvi_io_text_add(&t, "; atvi run --retry-failed repeats them");
    break;
  case ATVI_CODE_POINTS_LEFT: atvi_io_text_add(&t, "; atvi run runs them"); break;
  default: break;
  }
  return atvi_io_text_get(&t, &text) == ATVI_OK ? text : d->doubt[i].say.text;
}

/* The first sentence covers failed runs; points without a run are the same for all emulators, and advice.c
 * covers them. */
static atvi_status say_doubts(const used *u, bool first) {
  for (int i = 0; i < u->d->n_doubt; i++) {
    const atvi_message *m = &u->d->doubt[i].say;
    bool left = m->code == ATVI_CODE_POINTS_LEFT;
    if (m->code == ATVI_CODE_RUNS_LEFT_OUT || (left && !first)) continue;
    ATVI_TRY(atvi_draws_say(u->draws, m->severity, m->code, "Emulator '%s': %s.", u->d->name,
                            left ? m->text
                                 : atvi_app_emulators_doubt(u->pool, u->opts->path, u->opts->runs, u->d, i)));
  }
  return ATVI_OK;
}

static atvi_status say_quality(const used *u) {
  char failed[60] = "";
  atvi_idx n = u->d->r.record.n_failed;
  char near[300] = "";
  if (n > 0) snprintf(failed, sizeof failed, ", not counting %td failed ones", n);
  if (u->d->near.run)
    snprintf(
        near, sizeof near,
        " Where the posterior is, it rests on %.3g runs, of which they contain %.0f %%, and its error is %s.",
        u->d->near.n_run, 100 * u->d->near.coverage, against_noise(u->pool, &u->d->near));
  return atvi_draws_say(u->draws, ATVI_NOTE, ATVI_CODE_EMULATOR,
                        "Emulator '%s' of %td runs%s: leaving out each in turn, Q2 is %.4f, and 95 %% "
                        "intervals contain %.1f %%%s%s.%s",
                        u->d->name, u->d->r.runs.n, failed, u->d->loo.q2, 100 * u->d->loo.coverage,
                        u->d->poor ? "; it is poor " : "", u->d->poor ? u->d->poor : "", near);
}

atvi_status atvi_app_emulators_say(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_model *opts,
                                   const atvi_loaded *l, atvi_draws *draws) {
  atvi_emulated *e = l->model->emulated;
  const atvi_dossier *first = NULL;
  if (e) ATVI_TRY(find_moves(ctx, opts, l, draws));
  for (atvi_idx k = 0; e && k < e->n_emulator; k++) {
    atvi_emulation *em = &e->emulator[k];
    const used u = {ctx, pool, opts, l, k, em, &em->dossier, draws};
    if (!em->em) continue;
    atvi_app_emulators_count_design(pool, l->model->lang, opts->runs, first, u.d);
    ATVI_TRY(atvi_model_dossier_judge(pool, em->em, u.d));
    ATVI_TRY(say_quality(&u));
    ATVI_TRY(say_doubts(&u, !first));
    ATVI_TRY(say_outside(&u));
    if (!first) first = u.d;
  }
  atvi_idx k = e && e->moves.n > 0 ? weakest(e) : -1;
  if (k < 0) return ATVI_OK;
  const used u = {ctx, pool, opts, l, k, &e->emulator[k], &e->emulator[k].dossier, draws};
  return say_moves(&u);
}

/* ---- in reports ---- */

void atvi_app_emulators_report(atvi_pool *pool, const atvi_lang *lang, const char *path, const char *runs,
                               const atvi_dossier *d, atvi_report_emulator *out) {
  const char **doubt = atvi_pool_take(pool, ATVI_DOUBTS, sizeof *doubt);
  *out = (atvi_report_emulator){.of = d, .doubt = doubt, .seconds = NAN, .sobol_error = NAN};
  out->time_name = d->r.runs.time ? atvi_app_report_time_name(lang) : NULL;
  for (int i = 0; doubt && i < d->n_doubt; i++)
    if (d->doubt[i].doubtful) doubt[out->n_doubt++] = atvi_app_emulators_doubt(pool, path, runs, d, i);
}

atvi_idx atvi_app_emulators_reports(atvi_pool *pool, const atvi_app_model *opts, const atvi_loaded *l,
                                    const atvi_draws *draws, const atvi_report_emulator **out) {
  atvi_emulated *e = l->model->emulated;
  atvi_report_emulator *list = e ? atvi_pool_take(pool, (size_t)e->n_emulator + 1, sizeof *list) : NULL;
  const atvi_target *of = atvi_model_target(l->model);
  const char **names = e ? atvi_pool_take(pool, (size_t)of->d + 1, sizeof *names) : NULL;
  atvi_idx n = 0;
  if (e && e->moves.n == 0 && find_moves(atvi_pool_ctx(pool), opts, l, draws) != ATVI_OK) e->moves.n = 0;
  for (atvi_idx i = 0; names && i < of->d; i++) names[i] = of->param[i].name;
  for (atvi_idx k = 0; list && names && k < e->n_emulator; k++) {
    atvi_dossier *d = &e->emulator[k].dossier;
    if (!e->emulator[k].em) continue;
    if (isnan(d->outside)) d->outside = outside(d, draws, NULL);
    atvi_app_emulators_report(pool, l->model->lang, opts->path, opts->runs, d, &list[n]);
    if (n++ > 0 || e->moves.n == 0) continue;
    list[0].moves = &e->moves;
    list[0].of_moves = names;
  }
  *out = list;
  return n;
}

/* ---- in the folder of the fit ---- */

atvi_status atvi_app_emulators_keep(atvi_ctx *ctx, atvi_pool *pool, const atvi_loaded *l, const char *dir) {
  const atvi_emulated *e = l->model->emulated;
  for (atvi_idx k = 0; e && k < e->n_emulator; k++) {
    if (!e->emulator[k].em) continue;
    const char *path = atvi_model_emulated_path(pool, l->model->lang, k, dir);
    if (!path) return ATVI_ENOMEM;
    ATVI_TRY(atvi_gp_emulator_save(ctx, e->emulator[k].em, path));
  }
  return ATVI_OK;
}

void atvi_app_emulators_drop(const char *dir) {
  DIR *d = opendir(dir);
  if (!d) return;
  for (const struct dirent *e; (e = readdir(d));) {
    size_t n = strlen(e->d_name);
    if (strncmp(e->d_name, "emulator-", 9) == 0 && n > 14 && strcmp(e->d_name + n - 5, ".json") == 0)
      unlinkat(dirfd(d), e->d_name, 0);
  }
  closedir(d);
}
