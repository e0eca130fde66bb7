/* SPDX-License-Identifier: MIT */
/* Fields {name} in the command and the templates of a simulator. */
#ifndef ATVI_LANG_COMMAND_H
#define ATVI_LANG_COMMAND_H

#include "lang/elab.h"

typedef enum { FIELD_END, FIELD_NAME, FIELD_WRONG } elab_field_kind;

/* The next field from *p on: name[n], *p behind it. END: there is none. WRONG: *p is a brace that begins or ends no field. */
elab_field_kind atvi_lang_field(const char **p, const char **name, size_t *n);

/* Parameters sorted by name, for looking up many. */
typedef struct {
  const char *name;
  atvi_idx index;
} elab_named;
bool atvi_lang_named_params(elab *e, elab_named **out);
atvi_idx atvi_lang_named_find(const elab *e, const elab_named *param, const char *field,
                              size_t n_field); /* -1: none; brackets of an element count as dots */

/* The command with {here} and a first word that is a path in the place where the model is. NULL: out of memory. */
const char *atvi_lang_command(elab *e, const char *command, bool here_is_free);

#endif
