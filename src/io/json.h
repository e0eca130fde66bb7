/* SPDX-License-Identifier: MIT */
/* JSON as the project writes it, on top of jansson. The writer remembers a failure (out of memory), which the
 * last call reports:
 *
 *   atvi_json w = {.pool = pool};
 *   atvi_io_json_object(&w, NULL);
 *   atvi_io_json_put(&w, "mean", atvi_io_json_real(x));
 *   atvi_io_json_list(&w, "messages");
 *   atvi_io_json_put(&w, NULL, atvi_io_json_word(pool, s));
 *   atvi_io_json_end(&w);
 *   return atvi_io_json_get(&w, "summary", &text);
 *
 * In an object every value has a key, in a list none has. fields.h writes whole structs. */
#ifndef ATVI_IO_JSON_H
#define ATVI_IO_JSON_H

#include "core/core.h"
#include <jansson.h>

enum { ATVI_JSON_DEPTH = 8 };

typedef struct {
  atvi_pool *pool;
  /* Digits of reals; 0: 15, which keep 0.1 as 0.1. */
  int digits;
  /* [depth] the objects and lists that are open; the outermost owns the others. */
  json_t *at[ATVI_JSON_DEPTH];
  int depth;
  bool failed;
} atvi_json;

/* ---- values; NULL: out of memory ---- */

/* null if x is not finite. */
json_t *atvi_io_json_real(double x);
json_t *atvi_io_json_pair(double a, double b); /* [a, b] */
/* null for NULL. Text from the user's files may be in any encoding; JSON is always UTF-8, so other bytes
 * become '?'. */
json_t *atvi_io_json_word(atvi_pool *pool, const char *s);
/* JSON readers have signed integers at best: a larger seed is a string. */
json_t *atvi_io_json_seed(atvi_pool *pool, uint64_t seed);

/* ---- the writer ---- */

/* Opens an object or a list inside the one that is open; the first is the whole. */
void atvi_io_json_object(atvi_json *w, const char *key);
void atvi_io_json_list(atvi_json *w, const char *key);
/* Takes value over; NULL makes the writer fail. */
void atvi_io_json_put(atvi_json *w, const char *key, json_t *value);
void atvi_io_json_words(atvi_json *w, const char *key, atvi_idx n,
                        const char *const *s); /* a list of n words */
/* Closes the innermost; not the whole. */
void atvi_io_json_end(atvi_json *w);
/* Ends the whole and returns it; NULL: out of memory. */
json_t *atvi_io_json_whole(atvi_json *w);
/* Ends the whole and returns it as text with a line end. what: for the message. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_io_json_get(atvi_json *w, const char *what, const char **text);

/* ---- reading ---- */

/* NaN if there is no such number. */
double atvi_io_json_number(const json_t *object, const char *key);

#endif
