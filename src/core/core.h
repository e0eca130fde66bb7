/* SPDX-License-Identifier: MIT */
/* Inside of the context: failures, memory, logging, threads.
 *
 * A failure is born in ATVI_FAIL and handed up by ATVI_TRY. Objects are one block laid out
 * by a carve function that runs twice (see atvi_arena). Trees and graphs that grow use
 * atvi_pool: many small pieces, freed together. */
#ifndef ATVI_CORE_CORE_H
#define ATVI_CORE_CORE_H

#include "atvi/core.h"
#include "compiler.h"
#include <assert.h>
#include <stdarg.h>

#define ATVI_ASSERT(cond) assert(cond)

/* ---- failures ---- */
atvi_status atvi_fail_(atvi_ctx *ctx, atvi_status status, const char *fmt, ...) ATVI_PRINTF(3, 4);
#define ATVI_FAIL(ctx, status, ...) atvi_fail_((ctx), (status), __VA_ARGS__)
/* Gives the last failure a code, for advice; returns status. */
atvi_status atvi_fail_as(atvi_ctx *ctx, atvi_code code, atvi_status status);
#define ATVI_FAIL_AS(ctx, status, code, ...)                                                                 \
  atvi_fail_as((ctx), (code), ATVI_FAIL((ctx), (status), __VA_ARGS__))
#define ATVI_TRY(call)                                                                                       \
  do {                                                                                                       \
    atvi_status try_status_ = (call);                                                                        \
    if (try_status_ != ATVI_OK) return try_status_;                                                          \
  } while (0)

/* ---- memory ---- */
/* bytes of zeroed memory, aligned to ATVI_ALIGN, or NULL: then the context has the failure's message, and the
 * caller returns ATVI_ENOMEM. The same goes for pools. */
void *atvi_block(atvi_ctx *ctx, size_t bytes);
void atvi_block_free(atvi_ctx *ctx, void *block); /* NULL is fine */

typedef struct {
  char *base;  /* NULL while measuring */
  size_t used; /* bytes so far, each piece aligned to ATVI_ALIGN */
} atvi_arena;

void *atvi_arena_take(atvi_arena *a, size_t count, size_t size);
#define ATVI_TAKE(a, ptr, count) ((ptr) = atvi_arena_take((a), (size_t)(count), sizeof *(ptr)))

/* Growing store of small pieces, freed together. Pieces are zeroed. */
typedef struct atvi_pool atvi_pool;
ATVI_CHECKED atvi_status atvi_pool_new(atvi_ctx *ctx, atvi_pool **out);
void atvi_pool_free(atvi_pool *pool); /* NULL is fine */
atvi_ctx *atvi_pool_ctx(const atvi_pool *pool);
/* count * size zeroed bytes, or NULL; after the first NULL every further call gives NULL. */
void *atvi_pool_take(atvi_pool *pool, size_t count, size_t size);
bool atvi_pool_failed(const atvi_pool *pool);
/* ATVI_ENOMEM once it has failed: what a function that only takes memory from a pool returns at its end. */
ATVI_CHECKED atvi_status atvi_pool_status(const atvi_pool *pool);
char *atvi_pool_strndup(atvi_pool *pool, const char *s, size_t n);
char *atvi_pool_printf(atvi_pool *pool, const char *fmt, ...) ATVI_PRINTF(2, 3);
/* Makes room for one more in arr[n] of capacity *cap: returns arr, or a doubled copy, or NULL. */
void *atvi_pool_grow(atvi_pool *pool, void *arr, atvi_idx n, atvi_idx *cap, size_t size);
/* if (!ATVI_PUSH(pool, arr, n, cap)) fail; arr[n++] = x; */
#define ATVI_PUSH(pool, arr, n, cap) ((arr) = atvi_pool_grow((pool), (arr), (n), &(cap), sizeof *(arr)))

/* ---- telling ---- */
/* The code or severity of that name; false: there is none, *out is left alone. */
bool atvi_code_find(const char *name, atvi_code *out);
bool atvi_severity_find(const char *name, atvi_severity *out);
/* How an evaluation ended, as the end of a sentence: "the solver's step limit was reached". */
const char *atvi_outcome_word(atvi_outcome outcome);
/* The failure that it is if every evaluation ends like that. */
atvi_code atvi_outcome_code(atvi_outcome outcome);
void atvi_log(atvi_ctx *ctx, atvi_log_level level, const char *fmt, ...) ATVI_PRINTF(3, 4);
/* At most a few calls a second reach the receiver; done = 1 always does. */
void atvi_tell(atvi_ctx *ctx, const char *phase, double done, double elapsed_s, const char *fmt, ...)
    ATVI_PRINTF(5, 6);
/* The same with everything that can be said. */
void atvi_tell_about(atvi_ctx *ctx, const atvi_progress *p);
/* A second receiver of progress, which gets every call; NULL: none. */
void atvi_ctx_set_recorder(atvi_ctx *ctx, void (*fn)(void *user, const atvi_progress *p), void *user);
bool atvi_stop_asked(atvi_ctx *ctx);
double atvi_clock_s(void); /* monotonic seconds */

/* ---- threads ---- */
/* Runs fn(arg, item, worker) for item = 0 .. n-1 on the context's threads and waits.
 * worker is in [0, atvi_ctx_threads(ctx)); items of one worker never overlap in time.
 * Not to be nested; fn never touches the ctx. */
void atvi_parallel(atvi_ctx *ctx, atvi_idx n, void (*fn)(void *arg, atvi_idx item, int worker), void *arg);

/* Fingerprints of bytes: a short one that distinguishes files, and one that nobody can forge. */

/* FNV-1a, 64 bits: distinguishes files, and nothing more. Begin with ATVI_HASH. */
#define ATVI_HASH 0xcbf29ce484222325u
uint64_t atvi_hash(uint64_t hash, const void *bytes, size_t n);

/* SHA-256 (FIPS 180-4). */
typedef struct {
  uint32_t h[8];
  uint64_t bytes;
  unsigned char part[64];
} atvi_sha256;
void atvi_sha256_begin(atvi_sha256 *s);
void atvi_sha256_add(atvi_sha256 *s, const void *data, size_t bytes);
void atvi_sha256_end(atvi_sha256 *s, unsigned char digest[32]);

#endif
