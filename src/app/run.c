/* SPDX-License-Identifier: MIT */
#include "app/program.h"
#include "io/csv.h"
#include "io/text.h"
#include "io/file.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHOWN_MAX = 12 }; /* failed runs that the summary names */

typedef atvi_run_job job;

/* Absolute path of the model's folder. */
static const char *model_folder(atvi_pool *pool, const char *path) {
  const char *slash = strrchr(path, '/');
  char here[PATH_MAX];
  if (slash == path) return "/";
  int n = slash ? (int)(slash - path) : 0;
  if (path[0] == '/') return atvi_pool_strndup(pool, path, (size_t)n);
  if (!getcwd(here, sizeof here)) snprintf(here, sizeof here, ".");
  return atvi_pool_printf(pool, "%s%s%.*s", here, n ? "/" : "", n, path);
}

static atvi_sim_format format_of(const char *word) {
  if (strcmp(word, "json") == 0) return ATVI_SIM_JSON;
  return strcmp(word, "columns") == 0 ? ATVI_SIM_COLUMNS : ATVI_SIM_CSV;
}

static atvi_status make_simulator(const job *j, atvi_simulator **out) {
  const atvi_lang_simulator *s = &j->lang->simulator;
  atvi_sim_file *file = atvi_pool_take(j->pool, (size_t)s->n_template + 1, sizeof *file);
  atvi_sim_output *output = atvi_pool_take(j->pool, (size_t)s->n_output + 1, sizeof *output);
  const char *folder = model_folder(j->pool, j->o->path);
  if (!file || !output || !folder) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < s->n_template; i++)
    file[i] = (atvi_sim_file){s->templates[i].from, s->templates[i].to};
  for (atvi_idx o = 0; o < s->n_output; o++) {
    const atvi_lang_output *p = &s->output[o];
    output[o] = (atvi_sim_output){p->name, p->file, format_of(p->format), p->column, p->time};
  }
  const atvi_sim_spec spec = {.place = {j->lang->path, s->place.line, s->place.column},
                              .folder = folder,
                              .command = s->command,
                              .worker = s->worker,
                              .send_json = s->send_json,
                              .send_environment = s->send_environment,
                              .n_file = s->n_template,
                              .file = file,
                              .n_output = s->n_output,
                              .output = output,
                              .d = j->d,
                              .param = j->name};
  return atvi_sim_new(j->ctx, &spec, out);
}

/* ---- summary ---- */

static void add_point(atvi_text *t, const job *j, const double *x) {
  for (atvi_idx i = 0; i < j->d; i++) atvi_io_text_add(t, "%s%s = %.6g", i ? ", " : "", j->name[i], x[i]);
}

/* The last nonempty line of a log. */
static char *last_words(atvi_pool *pool, const char *log) {
  size_t n = log ? strlen(log) : 0;
  while (n > 0 && strchr("\r\n \t", log[n - 1])) n--;
  size_t from = n;
  while (from > 0 && log[from - 1] != '\n' && n - from < 120) from--;
  char *text = n ? atvi_pool_strndup(pool, log + from, n - from) : NULL;
  if (text) atvi_io_excerpt_clean(text);
  return text;
}

/* The most common reason, if more runs failed than the summary names. */
static void add_commonest(atvi_text *t, const job *j, const atvi_sim_record *r, atvi_idx failed) {
  const char *best = NULL;
  atvi_idx most = 0;
  for (atvi_idx i = 0; failed > SHOWN_MAX && i < j->points.n; i++) {
    const atvi_sim_run *k = atvi_sim_record_find(r, j->points.id[i]);
    atvi_idx n = 0;
    if (!k || k->ok || !k->reason || (best && strcmp(best, k->reason) == 0)) continue;
    for (atvi_idx a = i; a < j->points.n; a++) {
      const atvi_sim_run *other = atvi_sim_record_find(r, j->points.id[a]);
      n += other && !other->ok && other->reason && strcmp(other->reason, k->reason) == 0;
    }
    if (n > most) most = n, best = k->reason;
  }
  if (best)
    atvi_io_text_add(t, "most often (%td of %td): %s\n", most, failed, atvi_app_share_words(j->pool, best));
}

static void add_failures(atvi_text *t, const job *j, const atvi_sim_record *r, atvi_idx failed) {
  atvi_idx shown = 0;
  atvi_io_text_add(t, "\nfailed runs, which emulators do not use:\n");
  for (atvi_idx i = 0; i < j->points.n && shown < SHOWN_MAX; i++) {
    const atvi_sim_run *k = atvi_sim_record_find(r, j->points.id[i]);
    if (!k || k->ok) continue;
    char *words = last_words(j->pool, k->log);
    atvi_io_text_add(t, "  run %lld: %s\n    at ", (long long)k->id,
                     atvi_app_share_words(j->pool, k->reason));
    add_point(t, j, k->x);
    atvi_io_text_add(t, words ? "\n    log: %s\n" : "\n", words);
    shown++;
  }
  if (shown < failed) atvi_io_text_add(t, "  and %td more, in the record\n", failed - shown);
  add_commonest(t, j, r, failed);
  atvi_io_text_add(t, "atvi run --retry-failed repeats them%s\n",
                   j->lang->simulator.worker ? "" : "; --keep-failed keeps their folders");
}

static atvi_status summarise(const job *j, const atvi_sim_record *r, const atvi_sim_report *rep,
                             atvi_app_run_result *result) {
  atvi_text t = {.pool = j->pool};
  atvi_idx n = j->points.n, done = rep->ok + rep->failed;
  result->good = rep->had_ok + rep->ok;
  result->failed = rep->had_failed + rep->failed;
  result->left = rep->left;
  result->stopped = rep->stopped;
  atvi_io_text_add(&t, "%td of %td runs are good", result->good, n);
  if (result->failed) atvi_io_text_add(&t, ", %td failed", result->failed);
  if (result->left) atvi_io_text_add(&t, ", %td not done yet", result->left);
  atvi_io_text_add(&t, "\n");
  if (done) {
    char all[ATVI_DURATION_BYTES], each[ATVI_DURATION_BYTES];
    atvi_io_format_duration(all, rep->seconds, true);
    atvi_io_format_duration(each, rep->run_seconds / (double)done, true);
    atvi_io_text_add(&t, "%td done now in %s, about %s each\n", done, all, each);
  } else if (!rep->left) {
    atvi_io_text_add(&t, "nothing left to do\n");
  }
  if (rep->left && !rep->stopped)
    atvi_io_text_add(&t, "the program could not be started for %td runs; the same command tries again\n",
                     rep->left);
  if (result->failed) add_failures(&t, j, r, result->failed);
  for (atvi_idx i = 0; result->failed && !result->reason && i < n; i++) {
    const atvi_sim_run *k = atvi_sim_record_find(r, j->points.id[i]);
    if (k && !k->ok) result->reason = atvi_app_share_words(j->pool, k->reason);
  }
  return atvi_io_text_get(&t, &result->text);
}

/* What is kept when it ends early: stated in the message, as there will be no summary. */
static atvi_status given_up(const job *j, atvi_status status, const atvi_sim_report *rep) {
  atvi_idx good = rep->had_ok + rep->ok;
  if (status == ATVI_EINVAL || good == 0) return status;
  const char *message = atvi_pool_printf(j->pool, "%s", atvi_errmsg(j->ctx));
  atvi_code code = atvi_errcode(j->ctx);
  return message ? ATVI_FAIL_AS(j->ctx, status, code, "%s\n%td good runs of %td are recorded in %s/%s.",
                                message, good, j->points.n, j->dir, ATVI_SIM_RECORD)
                 : status;
}

/* ---- running ---- */

atvi_sim_batch atvi_app_run_batch(const atvi_run_job *j) {
  const atvi_lang_simulator *s = &j->lang->simulator;
  return (atvi_sim_batch){.dir = j->dir,
                          .n = j->points.n,
                          .id = j->points.id,
                          .x = j->points.x,
                          .limit_s = j->o->limit_s > 0 ? j->o->limit_s : s->limit_s,
                          .jobs = j->o->jobs > 0 ? j->o->jobs : s->jobs,
                          .retries = j->o->retries >= 0 ? j->o->retries : s->retries,
                          .retry_failed = j->o->retry_failed,
                          .keep_failed = j->o->keep_failed};
}

static atvi_status run_points(job *j, atvi_simulator *sim, atvi_app_run_result *result) {
  const char *path = atvi_pool_printf(j->pool, "%s/%s", j->dir, ATVI_SIM_RECORD);
  atvi_sim_record *record;
  atvi_sim_report rep;
  if (!path) return ATVI_ENOMEM;
  const atvi_sim_batch batch = atvi_app_run_batch(j);
  ATVI_TRY(atvi_sim_record_open(j->ctx, path, atvi_sim_simulator_shape(sim), &record));
  atvi_status status = atvi_app_share_alone(j->ctx, j->dir);
  if (status == ATVI_OK) {
    status = atvi_sim_simulator_run(sim, record, &batch, &rep);
    status = status == ATVI_OK ? summarise(j, record, &rep, result) : given_up(j, status, &rep);
  }
  atvi_sim_record_free(record);
  return status;
}

/* ---- workers ---- */

static atvi_status look(void *self, atvi_pool *pool, atvi_share_items *out) {
  const job *j = self;
  atvi_idx n = j->points.n;
  atvi_sim_index ix = {.pool = pool, .dir = j->dir};
  ATVI_TRY(atvi_sim_index_read(&ix));
  unsigned char *state = atvi_pool_take(pool, (size_t)n, sizeof *state);
  const char **reason = atvi_pool_take(pool, (size_t)n, sizeof *reason),
             **part = atvi_pool_take(pool, (size_t)ix.n_part, sizeof *part);
  atvi_idx *done = atvi_pool_take(pool, (size_t)ix.n_part, sizeof *done);
  if (atvi_pool_failed(pool)) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < n; i++) {
    state[i] = (unsigned char)atvi_sim_index_state(&ix, j->points.id[i]);
    if (state[i] == ATVI_SIM_FAILED) reason[i] = ix.mark[j->points.id[i]].reason;
  }
  for (atvi_idx p = 0; p < ix.n_part; p++)
    part[p] = ix.part[p].name, done[p] = ix.part[p].ok + ix.part[p].failed;
  *out = (atvi_share_items){.n = n,
                            .id = j->points.id,
                            .state = state,
                            .reason = reason,
                            .seconds = ix.seconds,
                            .n_timed = ix.n_timed,
                            .n_part = ix.n_part,
                            .part = part,
                            .part_done = done};
  return ATVI_OK;
}

static atvi_status run_shared(job *j, atvi_app_run_result *result) {
  const char *stem = atvi_io_path_stem(j->pool, j->o->path);
  const atvi_share s = {.ctx = j->ctx,
                        .pool = j->pool,
                        .o = &j->o->share,
                        .dir = j->dir,
                        .claims = j->dir,
                        .job = stem ? atvi_pool_printf(j->pool, "atvi-%s", stem) : NULL,
                        .command = atvi_pool_printf(j->pool, "atvi run %s", j->o->path),
                        .item = "run",
                        .self = j,
                        .look = look};
  atvi_share_counts c = {0};
  if (!s.job || !s.command) return ATVI_ENOMEM;
  if (j->o->retry_failed) {
    atvi_sim_index ix = {.pool = j->pool, .dir = j->dir};
    ATVI_TRY(atvi_app_share_alone(j->ctx, j->dir));
    ATVI_TRY(atvi_sim_index_read(&ix));
    ATVI_TRY(atvi_sim_index_forgive(&ix, j->points.n, j->points.id));
  }
  ATVI_TRY(j->o->share.status ? atvi_app_share_status(&s, &result->text, &c)
                              : atvi_app_share_submit(&s, &result->text, &c));
  result->good = c.good, result->failed = c.failed, result->left = c.open;
  result->stopped = j->o->share.wait && atvi_stop_asked(j->ctx);
  return ATVI_OK;
}

static atvi_status begin(job *j, atvi_app_run_result *result) {
  atvi_simulator *sim = NULL;
  j->d = j->lang->simulator.n_input;
  j->name = atvi_app_program_inputs(j->pool, j->lang);
  j->dir = j->o->dir ? j->o->dir : atvi_sim_folder(j->pool, j->o->path);
  if (!j->name || !j->dir) return ATVI_ENOMEM;
  result->dir = j->dir;
  ATVI_TRY(atvi_app_program_points_read(j->pool, j->dir, j->d, j->name, &j->points));
  if (j->points.n == 0)
    return ATVI_FAIL(j->ctx, ATVI_EINVAL, "there is no design in %s; make one first: atvi design %s -n %td",
                     j->dir, j->o->path, 20 * j->d > 50 ? 20 * j->d : 50);
  const atvi_app_share *share = &j->o->share;
  if (share->status) return run_shared(j, result);
  ATVI_TRY(make_simulator(j, &sim));
  atvi_status status = share->worker                   ? atvi_app_run_worker(j, sim, result)
                       : share->slurm || share->submit ? run_shared(j, result)
                                                       : run_points(j, sim, result);
  atvi_sim_free(sim);
  return status;
}

atvi_status atvi_app_run(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_run_opts *opts,
                         atvi_app_run_result *result) {
  job j = {.ctx = ctx, .pool = pool, .o = opts};
  atvi_lang *lang;
  *result = (atvi_app_run_result){0};
  ATVI_TRY(atvi_app_program_load(ctx, opts->path, opts->folder, &lang));
  j.lang = lang;
  atvi_status status = begin(&j, result);
  atvi_lang_free(lang);
  return status;
}
