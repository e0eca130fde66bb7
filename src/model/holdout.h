/* SPDX-License-Identifier: MIT */
/* Data held out of a fit, to be predicted by it: which rows a rule selects.
 *
 *   rule       = comparison { "and" comparison }
 *   comparison = name [ "%" number ] ( "<" | "<=" | ">" | ">=" | "==" | "!=" ) number
 *
 * name is t (the model's time), row (the number of the row in its data file, from 1) or a column of a data file, in double
 * quotes if it holds anything but letters, digits, "_" and "."; with several data files, "file.name" means that file alone. number may be
 * a date where the model has a calendar. A row where a cell that is compared is missing is not selected. */
#ifndef ATVI_MODEL_HOLDOUT_H
#define ATVI_MODEL_HOLDOUT_H

#include "core/core.h"
#include "lang/lang.h"

typedef struct {
  bool **held;     /* [lang->n_data][n_row]; NULL: nothing is held out */
  atvi_idx n_held; /* observed values in the rows selected */
  atvi_idx n_left; /* and in the others */
} atvi_holdout;

/* Memory from pool. Errors: EINVAL (the rule cannot be read, the message has it with a caret; it selects no observation, or leaves
 * none), ENOMEM. */
ATVI_CHECKED atvi_status atvi_holdout_find(atvi_pool *pool, const atvi_lang *lang, const char *rule,
                                           atvi_holdout *out);
/* Makes the observed cells of those rows missing. Memory from pool, which must live as long as lang. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_holdout_apply(atvi_pool *pool, atvi_lang *lang, const atvi_holdout *holdout);

/* Whether the value of observation o in that row is a number that was observed as such: neither missing nor censored. */
bool atvi_observed_exactly(const atvi_lang *lang, const atvi_lang_observe *o, atvi_idx row);

#endif
