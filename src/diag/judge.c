/* SPDX-License-Identifier: MIT */
/* The verdict for programs: a summary of which the words are kept. */
#include "diag/summary.h"
#include <stdio.h>

static void join(const atvi_summary *s, char *text, size_t size) {
  size_t used = 0;
  for (atvi_idx i = 0; i < s->n_message && used < size; i++) {
    int n = snprintf(text + used, size - used, "%s%s", i ? "\n" : "", s->message[i]);
    used += n > 0 ? (size_t)n : 0;
  }
}

atvi_status atvi_judge(const atvi_draws *d, atvi_verdict *verdict, char *text, size_t size) {
  atvi_pool *pool;
  atvi_summary *s;
  *verdict = ATVI_VERDICT_BAD;
  if (text && size == 0) return ATVI_FAIL(d->ctx, ATVI_EINVAL, "judge: text has no room");
  if (text) text[0] = 0;
  ATVI_TRY(atvi_pool_new(d->ctx, &pool));
  atvi_status status = atvi_summary_new(pool, d, &s);
  if (status == ATVI_OK) {
    *verdict = s->verdict;
    if (text) join(s, text, size);
  }
  atvi_pool_free(pool);
  return status;
}
