/* SPDX-License-Identifier: MIT */
/* A program that stays alive. Its answers are not numbered, so an answer must never be taken for that of
 * another run: a worker that prints unasked, or something that is not an answer, is killed, and the next run
 * gets a new one. */
#include "sim/detail.h"
#include "io/text.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const size_t ANSWER_MAX = (size_t)1 << 30;
enum { CHUNK = 1 << 16 };
static const double DYING_S = 1; /* seconds from the end of the pipe to that of the process */

static const char *log_path(const atvi_sim_slot *slot) {
  return atvi_pool_printf(slot->pool, "%s/stderr.txt", slot->folder);
}

static atvi_status start(atvi_simulator *s, atvi_sim_slot *slot) {
  atvi_text command = {.pool = slot->pool};
  ATVI_TRY(atvi_sim_fresh_folder(s, slot->folder));
  atvi_proc_spec p = {.folder = slot->folder, .guard = &s->guard, .pipes = true, .err = log_path(slot)};
  p.env = atvi_sim_environment(s, slot->pool, 0, NULL);
  atvi_sim_template_fill(s->command, NULL, &command);
  p.command = command.text;
  if (!p.command || atvi_pool_failed(slot->pool)) return ATVI_ENOMEM;
  slot->n_answer = 0;
  slot->closed_s = 0;
  slot->served = 0;
  return atvi_sim_proc_start(s->ctx, &p, &slot->proc);
}

/* Reads what is available. *more: false at the end of the pipe. */
static atvi_status take(atvi_simulator *s, atvi_sim_slot *slot, bool *more) {
  *more = true;
  for (;;) {
    if (slot->cap_answer - slot->n_answer < CHUNK) {
      size_t cap = 2 * slot->cap_answer + 2 * CHUNK;
      char *bigger = cap < 4 * ANSWER_MAX ? atvi_block(s->quiet, cap) : NULL;
      if (!bigger) return ATVI_ENOMEM;
      if (slot->n_answer) memcpy(bigger, slot->answer, slot->n_answer);
      atvi_block_free(s->quiet, slot->answer);
      slot->answer = bigger;
      slot->cap_answer = cap;
    }
    ssize_t got = read(slot->proc.out, slot->answer + slot->n_answer, CHUNK);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ATVI_OK; /* nothing available now */
    *more = got > 0;
    if (got == 0) return ATVI_OK;
    slot->n_answer += (size_t)got;
    if (slot->n_answer > ANSWER_MAX || memchr(slot->answer + slot->n_answer - got, '\n', (size_t)got))
      return ATVI_OK;
  }
}

static void give(atvi_sim_slot *slot) {
  while (slot->sent < slot->n_line) {
    ssize_t put = atvi_pipe_write(slot->proc.in, slot->line + slot->sent, slot->n_line - slot->sent);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return; /* full, or nobody reads: then it has ended, which is noticed elsewhere */
    slot->sent += (size_t)put;
  }
}

atvi_status atvi_sim_worker_begin(atvi_simulator *s, atvi_sim_slot *slot, const double *x) {
  bool more;
  int status;
  slot->line = atvi_sim_line(s, slot->pool, x);
  if (!slot->line) return ATVI_ENOMEM;
  slot->n_line = strlen(slot->line);
  slot->sent = 0;
  if (slot->proc.pid && atvi_sim_proc_ended(&slot->proc, &status)) slot->n_answer = 0;
  if (slot->proc.pid) {
    ATVI_TRY(take(s, slot, &more));
    if (slot->n_answer > 0 || !more) atvi_sim_proc_kill(&slot->proc);
  }
  if (!slot->proc.pid) ATVI_TRY(start(s, slot));
  give(slot);
  return ATVI_OK;
}

static atvi_status refuse(atvi_sim_slot *slot, atvi_sim_end *end, const char *what, const char *detail,
                          size_t n) {
  char *text =
      atvi_pool_printf(slot->pool, "%s%s%.*s", what, n ? ": " : "", (int)(n < 200 ? n : 200), detail);
  if (!text) return ATVI_ENOMEM;
  for (char *p = text; *p; p++)
    if (*p == '\n') *p = ' ';
  atvi_io_excerpt_clean(text);
  end->why.text = text;
  return ATVI_OK;
}

/* The answer is answer[0..n). *broken: the worker can no longer be trusted. */
static atvi_status understand(atvi_simulator *s, atvi_sim_slot *slot, size_t n, atvi_sim_end *end,
                              bool *broken) {
  json_error_t error;
  json_t *root = atvi_sim_json_read(slot->pool, slot->answer, n, &error);
  *broken = !json_is_object(root);
  atvi_status status = ATVI_OK;
  const char *told = json_string_value(json_object_get(root, "error"));
  end->out = atvi_pool_take(slot->pool, (size_t)s->spec.n_output, sizeof *end->out);
  if (!end->out || atvi_pool_failed(slot->pool))
    status = ATVI_ENOMEM;
  else if (*broken)
    status = refuse(slot, end, "the answer is not a JSON object", slot->answer, n);
  else if (json_object_get(root, "error"))
    status = refuse(slot, end, "the worker says", told ? told : "error", told ? strlen(told) : 5);
  for (atvi_idx o = 0; status == ATVI_OK && !end->why.text && o < s->spec.n_output; o++)
    if (atvi_sim_output_json(slot->pool, &s->spec.output[o], root, &end->out[o], &end->why) != ATVI_OK)
      status = ATVI_ENOMEM;
  json_decref(root);
  return status;
}

static atvi_status answered(atvi_simulator *s, atvi_sim_slot *slot, const char *stop, atvi_sim_end *end) {
  bool broken;
  size_t n = (size_t)(stop - slot->answer);
  ATVI_TRY(understand(s, slot, n, end, &broken));
  end->ended = true;
  slot->served++;
  broken = broken || n + 1 < slot->n_answer; /* it printed more than was asked */
  slot->n_answer = 0;
  if (broken) atvi_sim_proc_kill(&slot->proc);
  return ATVI_OK;
}

/* A worker that ends well after some answers was already ending when it got this line: the next worker gets
 * it. */
static atvi_status gone(atvi_simulator *s, atvi_sim_slot *slot, int status, atvi_sim_end *end) {
  const char *how = atvi_sim_ending(slot->pool, status, &end->missing);
  if (!how && slot->served > 0 && slot->n_answer == 0 && !slot->why[0]) {
    slot->sent = 0;
    return start(s, slot);
  }
  end->ended = true;
  end->killed = !slot->why[0] && atvi_sim_killed(status);
  if (slot->why[0])
    end->why.text = slot->why;
  else
    end->why.text = how ? atvi_pool_printf(slot->pool, "the worker %s before it answered", how)
                        : "the worker ended before it answered";
  return end->why.text && !atvi_pool_failed(slot->pool) ? ATVI_OK : ATVI_ENOMEM;
}

atvi_status atvi_sim_worker_look(atvi_simulator *s, atvi_sim_slot *slot, atvi_sim_end *end) {
  bool more = true;
  int status;
  *end = (atvi_sim_end){0};
  bool dead = atvi_sim_proc_over(&slot->proc); /* check this first: then all it wrote is in the pipe */
  if (!slot->why[0]) {
    give(slot);
    ATVI_TRY(take(s, slot, &more));
    const char *stop = slot->n_answer ? memchr(slot->answer, '\n', slot->n_answer) : NULL;
    if (stop) ATVI_TRY(answered(s, slot, stop, end));
    if (!stop && slot->n_answer > ANSWER_MAX)
      snprintf(slot->why, sizeof slot->why, "the answer is longer than 1 GB");
  }
  if (!end->ended) {
    if (dead && atvi_sim_proc_ended(&slot->proc, &status)) ATVI_TRY(gone(s, slot, status, end));
    if (!dead && !more && slot->closed_s == 0) slot->closed_s = atvi_clock_s();
    if (!dead && slot->closed_s > 0 && atvi_clock_s() - slot->closed_s > DYING_S && !slot->why[0])
      snprintf(slot->why, sizeof slot->why, "the worker closed its standard output before it answered");
  }
  if (!end->ended || !end->why.text) return ATVI_OK;
  const char *path = log_path(slot);
  end->log = path ? atvi_sim_file_tail(slot->pool, path, ATVI_SIM_TAIL) : NULL;
  return end->log ? ATVI_OK : ATVI_ENOMEM;
}
