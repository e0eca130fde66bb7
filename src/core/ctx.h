/* SPDX-License-Identifier: MIT */
/* The context's inside; for src/core alone. */
#ifndef ATVI_CORE_CTX_H
#define ATVI_CORE_CTX_H

#include "core/core.h"

enum { ATVI_MAX_THREADS = 256 };

typedef struct atvi_threads atvi_threads;

struct atvi_ctx {
  atvi_allocator alloc;
  bool zeroes; /* its memory is zero: pages that nobody touches are never made */
  char message[4096];
  atvi_code code;     /* of that failure */
  int threads;        /* wanted, >= 1 */
  atvi_threads *team; /* NULL until the first parallel call */
  void (*log)(void *, atvi_log_level, const char *);
  void *log_user;
  void (*progress)(void *, const atvi_progress *);
  void *progress_user;
  double reported_s; /* when progress was last reported */
  void (*record)(void *, const atvi_progress *);
  void *record_user;
  bool (*stop)(void *);
  void *stop_user;
};

void atvi_threads_end(atvi_ctx *ctx); /* joins and frees the team, if any */

#endif
