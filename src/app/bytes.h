/* SPDX-License-Identifier: MIT */
/* What the user wrote, in any encoding, as JSON and back, byte by byte; for src/app alone.
 *
 * JSON takes UTF-8 alone. Of text that is something else, each byte b above 127 becomes the character U+F700 + b, of those that Unicode
 * leaves to everyone's use. */
#ifndef ATVI_APP_BYTES_H
#define ATVI_APP_BYTES_H

#include "core/core.h"
#include <jansson.h>

/* null for NULL. NULL: no memory. */
json_t *atvi_bytes_json(atvi_pool *pool, const char *s);
/* What s, a string from such a file, was; a copy. NULL for NULL, or no memory. */
char *atvi_bytes_text(atvi_pool *pool, const char *s);

#endif
