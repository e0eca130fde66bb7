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

/* The verdict of `atvi summary` and, one per line, its messages: what is the matter and what to do, the most important
 * first; there may be some where the verdict is ok. text[size] is cut to size, always ends with a NUL, and may be NULL. Uses the
 * threads of the draws' context. Errors: EINVAL (text without size), ENOMEM; *verdict is then BAD and text empty. */
ATVI_API ATVI_CHECKED atvi_status atvi_judge(const atvi_draws *d, atvi_verdict *verdict, char *text,
                                             size_t size);

ATVI_API const char *atvi_verdict_name(atvi_verdict v); /* "ok", "warn", "bad" */

#ifdef __cplusplus
}
#endif
#endif
