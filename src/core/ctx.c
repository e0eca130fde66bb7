/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "core/ctx.h"
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Seconds between two progress calls. */
static const double REPORT_EVERY_S = 0.1;

static void *default_alloc(void *user, size_t bytes) {
  (void)user;
  return calloc(1, bytes);
}

static void default_free(void *user, void *block) {
  (void)user;
  free(block);
}

atvi_status atvi_ctx_new(const atvi_allocator *alloc, atvi_ctx **out) {
  atvi_allocator use = {default_alloc, default_free, NULL};
  if (alloc && alloc->alloc && alloc->free) use = *alloc;
  *out = NULL;
  atvi_ctx *ctx = use.alloc(use.user, sizeof *ctx);
  if (!ctx) return ATVI_ENOMEM;
  memset(ctx, 0, sizeof *ctx);
  ctx->alloc = use;
  ctx->zeroes = use.alloc == default_alloc;
  atvi_ctx_set_threads(ctx, 0);
  *out = ctx;
  return ATVI_OK;
}

void atvi_ctx_free(atvi_ctx *ctx) {
  if (!ctx) return;
  atvi_threads_end(ctx);
  atvi_allocator use = ctx->alloc;
  use.free(use.user, ctx);
}

const char *atvi_status_name(atvi_status status) {
  static const char *const name[] = {"ok",
                                     "invalid argument",
                                     "out of memory",
                                     "input or output failed",
                                     "wrong model",
                                     "wrong data",
                                     "a callback or program failed",
                                     "stopped",
                                     "already there",
                                     "limit reached"};
  int k = -(int)status;
  return k >= 0 && k < (int)(sizeof name / sizeof *name) ? name[k] : "unknown status";
}

const char *atvi_errmsg(const atvi_ctx *ctx) { return ctx->message; }

atvi_code atvi_errcode(const atvi_ctx *ctx) { return ctx->code; }

atvi_status atvi_fail_(atvi_ctx *ctx, atvi_status status, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  vsnprintf(ctx->message, sizeof ctx->message, fmt, args);
  va_end(args);
  ctx->code = ATVI_CODE_NONE;
  return status;
}

atvi_status atvi_fail_as(atvi_ctx *ctx, atvi_code code, atvi_status status) {
  ctx->code = code;
  return status;
}

void atvi_ctx_set_threads(atvi_ctx *ctx, int n) {
  if (n < 1) {
    cpu_set_t set;
    n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  }
  if (n > ATVI_MAX_THREADS) n = ATVI_MAX_THREADS;
  if (n != ctx->threads) atvi_threads_end(ctx);
  ctx->threads = n;
}

int atvi_ctx_threads(const atvi_ctx *ctx) { return ctx->threads; }

void atvi_ctx_set_log(atvi_ctx *ctx, void (*fn)(void *, atvi_log_level, const char *), void *user) {
  ctx->log = fn;
  ctx->log_user = user;
}

void atvi_ctx_set_progress(atvi_ctx *ctx, void (*fn)(void *, const atvi_progress *), void *user) {
  ctx->progress = fn;
  ctx->progress_user = user;
}

void atvi_ctx_set_stop(atvi_ctx *ctx, bool (*fn)(void *), void *user) {
  ctx->stop = fn;
  ctx->stop_user = user;
}

void atvi_log(atvi_ctx *ctx, atvi_log_level level, const char *fmt, ...) {
  if (!ctx->log) return;
  char line[1024];
  va_list args;
  va_start(args, fmt);
  vsnprintf(line, sizeof line, fmt, args);
  va_end(args);
  ctx->log(ctx->log_user, level, line);
}

/* Is it time? */
static bool may_tell(atvi_ctx *ctx, double done) {
  if (!ctx->progress) return false;
  double now = atvi_clock_s();
  if (done < 1 && now - ctx->reported_s < REPORT_EVERY_S) return false;
  ctx->reported_s = now;
  return true;
}

void atvi_tell_about(atvi_ctx *ctx, const atvi_progress *p) {
  if (ctx->record) ctx->record(ctx->record_user, p);
  if (may_tell(ctx, p->done)) ctx->progress(ctx->progress_user, p);
}

void atvi_tell(atvi_ctx *ctx, const char *phase, double done, double elapsed_s, const char *fmt, ...) {
  if (!ctx->record && !ctx->progress) return;
  char detail[256];
  va_list args;
  va_start(args, fmt);
  vsnprintf(detail, sizeof detail, fmt, args);
  va_end(args);
  atvi_tell_about(ctx,
                  &(atvi_progress){phase, done, elapsed_s, detail, NAN, NAN, NAN, NAN, NAN, NAN, NAN, 0});
}

void atvi_ctx_set_recorder(atvi_ctx *ctx, void (*fn)(void *, const atvi_progress *), void *user) {
  ctx->record = fn;
  ctx->record_user = user;
}

bool atvi_stop_asked(atvi_ctx *ctx) { return ctx->stop && ctx->stop(ctx->stop_user); }

double atvi_clock_s(void) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

atvi_isa atvi_isa_best(void) {
#ifdef ATVI_HAVE_X86_ISA
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    return ATVI_ISA_AVX512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return ATVI_ISA_AVX2;
#endif
  return ATVI_ISA_BASE;
}

const char *atvi_outcome_word(atvi_outcome outcome) {
  switch (outcome) {
  case ATVI_RUN_OK: return "the likelihood is zero";
  case ATVI_RUN_NONFINITE: return "a state or the likelihood became infinite or undefined";
  case ATVI_RUN_STEPS: return "the solver's step limit was reached";
  case ATVI_RUN_SMALL: return "the solver's step became too small";
  case ATVI_RUN_OUTSIDE: return "the point is outside the prior's support";
  case ATVI_RUN_EVENTS: return "a pulse with a condition acted again and again without end";
  case ATVI_RUN_STEADY: return "the model came to no steady state";
  case ATVI_RUN_CALL: return "an outside program or callback failed";
  }
  return "unknown";
}
