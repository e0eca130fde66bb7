/* SPDX-License-Identifier: MIT */
/* The verdict for programs: a summary of which verdict and messages are kept. */
#include "diag/summary.h"
#include <stdio.h>
#include <string.h>

typedef struct {
  atvi_judgement j; /* first: what callers see */
  atvi_pool *pool;  /* holds this, too */
} whole;

static atvi_status judge_with(atvi_pool *pool, const atvi_draws *d, atvi_judgement **out) {
  atvi_summary *s;
  whole *o = atvi_pool_take(pool, 1, sizeof *o);
  if (!o) return ATVI_FAIL(d->ctx, ATVI_ENOMEM, "judge: out of memory");
  ATVI_TRY(atvi_summary_new(pool, d, &s));
  *o = (whole){{s->verdict, s->n_message, s->message}, pool};
  *out = &o->j;
  return ATVI_OK;
}

atvi_status atvi_judgement_new(const atvi_draws *d, atvi_judgement **out) {
  atvi_pool *pool;
  *out = NULL;
  ATVI_TRY(atvi_pool_new(d->ctx, &pool));
  atvi_status status = judge_with(pool, d, out);
  if (status != ATVI_OK) atvi_pool_free(pool);
  return status;
}

void atvi_judgement_free(atvi_judgement *j) {
  if (j) atvi_pool_free(((whole *)(void *)j)->pool);
}

atvi_idx atvi_judgement_size(const atvi_judgement *j) { return j->n_message; }

const char *atvi_judgement_word(const atvi_judgement *j, const char *what, atvi_idx i) {
  if (strcmp(what, "verdict") == 0) return atvi_verdict_name(j->verdict);
  if (i < 0 || i >= j->n_message) return NULL;
  if (strcmp(what, "text") == 0) return j->message[i].text;
  if (strcmp(what, "code") == 0) return atvi_code_name(j->message[i].code);
  return strcmp(what, "severity") == 0 ? atvi_severity_name(j->message[i].severity) : NULL;
}

atvi_status atvi_judge(const atvi_draws *d, atvi_verdict *verdict, char *text, size_t size) {
  atvi_judgement *j;
  *verdict = ATVI_VERDICT_BAD;
  if (text && size == 0) return ATVI_FAIL(d->ctx, ATVI_EINVAL, "judge: text has no room");
  if (text) text[0] = 0;
  ATVI_TRY(atvi_judgement_new(d, &j));
  *verdict = j->verdict;
  size_t used = 0;
  for (atvi_idx i = 0; text && i < j->n_message && used < size; i++) {
    int n = snprintf(text + used, size - used, "%s%s", i ? "\n" : "", j->message[i].text);
    used += n > 0 ? (size_t)n : 0;
  }
  atvi_judgement_free(j);
  return ATVI_OK;
}
