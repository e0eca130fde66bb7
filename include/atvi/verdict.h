/* SPDX-License-Identifier: MIT */
/* Whether to believe draws, and why, in words. */
#ifndef ATVI_VERDICT_H
#define ATVI_VERDICT_H

#include "atvi/draws.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  ATVI_VERDICT_OK,
  ATVI_VERDICT_WARN, /* use with care */
  ATVI_VERDICT_BAD   /* do not use */
} atvi_verdict;

typedef struct {
  /* As bad as the most severe message; ok without any, or with notes only. */
  atvi_verdict verdict;
  atvi_idx n_message;
  /* [n_message] what is wrong, the most important first. docs/messages.md says what to do about each code. */
  const atvi_message *message;
} atvi_judgement;

/* Judges d, which may be freed before the judgement; d's context may not. Uses the context's threads. *out is
 * NULL on any error. Errors: ENOMEM. */
ATVI_API ATVI_CHECKED atvi_status atvi_judgement_new(const atvi_draws *d, atvi_judgement **out);
ATVI_API void atvi_judgement_free(atvi_judgement *j); /* NULL is fine */
/* For other languages: the number of messages, and "text", "code" or "severity" of message i, or the
 * "verdict". NULL: no such thing. */
ATVI_API atvi_idx atvi_judgement_size(const atvi_judgement *j);
ATVI_API const char *atvi_judgement_word(const atvi_judgement *j, const char *what, atvi_idx i);

/* The same in short: the verdict, and the texts of the messages, one per line. text[size] is cut to size,
 * always ends with a NUL, and may be NULL. Errors: EINVAL (text without size), ENOMEM; *verdict is then BAD
 * and text empty. */
ATVI_API ATVI_CHECKED atvi_status atvi_judge(const atvi_draws *d, atvi_verdict *verdict, char *text,
                                             size_t size);

ATVI_API const char *atvi_verdict_name(atvi_verdict v); /* "ok", "warn", "bad" */

#ifdef __cplusplus
}
#endif
#endif
