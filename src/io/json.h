/* SPDX-License-Identifier: MIT */
/* JSON as the project writes it, on top of jansson. A NULL anywhere is missing memory: it is handed on, and told once, at the
 * end, by atvi_json_text. */
#ifndef ATVI_IO_JSON_H
#define ATVI_IO_JSON_H

#include "core/core.h"
#include <jansson.h>

/* null where x is not finite. */
json_t *atvi_json_real(double x);
json_t *atvi_json_pair(double a, double b); /* [a, b] */
/* null for NULL. What comes from the user's files may be in any encoding; JSON takes UTF-8 alone, so other bytes become '?'. */
json_t *atvi_json_word(atvi_pool *pool, const char *s);
/* Integers of JSON readers are signed at best: a larger seed is a string. */
json_t *atvi_json_seed(atvi_pool *pool, uint64_t seed);
/* Takes value over; false if anything was NULL. */
bool atvi_json_set(json_t *object, const char *key, json_t *value);
/* x if all went well, else NULL, with x freed. */
json_t *atvi_json_done(json_t *x, bool ok);
/* The whole as text with a line end, reals with 15 digits: 0.1 stays 0.1. Frees x. what: for the
 * message. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_json_text(atvi_pool *pool, json_t *x, const char *what, const char **text);

#endif
