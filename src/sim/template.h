/* SPDX-License-Identifier: MIT */
/* Text with fields: {name} is replaced by the value of a parameter, {{ and }} by braces. */
#ifndef ATVI_SIM_TEMPLATE_H
#define ATVI_SIM_TEMPLATE_H

#include "io/text.h"

typedef struct atvi_template atvi_template;

/* Where a text is, for messages. */
typedef struct {
  const char *path;
  /* Place of its first byte, from 1. */
  int line, column;
} atvi_template_place;

/* Reads text[n], which is copied; memory from pool. name[n_name]: the allowed fields; theta[1] is theta.1,
 * and blanks around a name are ignored. Errors: EMODEL (an unknown field, a brace that is neither a field nor
 * doubled, a zero byte; message has file:line:column, the line, a caret and a hint), ENOMEM. */
ATVI_CHECKED atvi_status atvi_sim_template_parse(atvi_pool *pool, atvi_template_place at, const char *text,
                                                 size_t n, atvi_idx n_name, const char *const *name,
                                                 atvi_template **out);
/* Appends the text with value[n_name] in the fields, numbers with 17 digits. The text remembers failures. */
void atvi_sim_template_fill(const atvi_template *t, const double *value, atvi_text *to);
/* Whether field k occurs. */
bool atvi_sim_template_uses(const atvi_template *t, atvi_idx k);

#endif
