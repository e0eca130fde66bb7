/* SPDX-License-Identifier: MIT */
/* What to do about a message or a failure, in the words of the command line. The library says what is wrong
 * and gives a code; only this file knows which options and commands help. python/ and r/ have their own
 * tables. */
#ifndef ATVI_APP_ADVICE_H
#define ATVI_APP_ADVICE_H

#include "diag/summary.h"

/* A sentence or two; NULL if there is nothing to add. */
const char *atvi_app_advice(atvi_code code);
/* atvi_diag_summary_new, with advice after the first message of every code. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_advised_summary(atvi_pool *pool, const atvi_draws *d, atvi_summary **out);

#endif
