/* SPDX-License-Identifier: MIT */
#include "core/ctx.h"
#include <stdio.h>
#include <string.h>

/* The failure is born here, so that callers only hand up ATVI_ENOMEM. */
static void *no_memory(atvi_ctx *ctx, size_t bytes) {
  ATVI_FAIL(ctx, ATVI_ENOMEM, "out of memory: %.3g MB more are needed", (double)bytes / 1e6);
  return NULL;
}

/* A block is over-allocated; the word before the aligned start holds the real one. */
void *atvi_block(atvi_ctx *ctx, size_t bytes) {
  bool fits = bytes <= SIZE_MAX / 2;
  char *raw = fits ? ctx->alloc.alloc(ctx->alloc.user, bytes + ATVI_ALIGN + sizeof(void *)) : NULL;
  if (!raw) return no_memory(ctx, bytes);
  uintptr_t start = ((uintptr_t)raw + sizeof(void *) + ATVI_ALIGN - 1) & ~(uintptr_t)(ATVI_ALIGN - 1);
  char *block = raw + (start - (uintptr_t)raw);
  memcpy(block - sizeof(void *), &raw, sizeof raw);
  return ctx->zeroes ? block : memset(block, 0, bytes);
}

void atvi_block_free(atvi_ctx *ctx, void *block) {
  if (!block) return;
  void *raw;
  memcpy(&raw, (char *)block - sizeof(void *), sizeof raw);
  ctx->alloc.free(ctx->alloc.user, raw);
}

void *atvi_arena_take(atvi_arena *a, size_t count, size_t size) {
  void *p = a->base ? a->base + a->used : NULL;
  size_t bytes = size && count > (SIZE_MAX / 4) / size ? SIZE_MAX / 4 : count * size;
  bytes = (bytes + ATVI_ALIGN - 1) / ATVI_ALIGN * ATVI_ALIGN;
  a->used =
      a->used > SIZE_MAX / 2 - bytes ? SIZE_MAX / 2 + 1 : a->used + bytes; /* too much: the block fails */
  return p;
}

typedef struct chunk {
  struct chunk *next;
  size_t size, used;
} chunk;

enum { CHUNK = 64 * 1024, HEAD = 64 };

struct atvi_pool {
  atvi_ctx *ctx;
  chunk *chunks; /* newest first */
  bool failed;
};

atvi_status atvi_pool_new(atvi_ctx *ctx, atvi_pool **out) {
  atvi_pool *pool = *out = atvi_block(ctx, sizeof *pool);
  if (!pool) return ATVI_ENOMEM;
  pool->ctx = ctx;
  return ATVI_OK;
}

void atvi_pool_free(atvi_pool *pool) {
  if (!pool) return;
  for (chunk *c = pool->chunks, *next; c; c = next) {
    next = c->next;
    atvi_block_free(pool->ctx, c);
  }
  atvi_block_free(pool->ctx, pool);
}

atvi_ctx *atvi_pool_ctx(const atvi_pool *pool) { return pool->ctx; }

bool atvi_pool_failed(const atvi_pool *pool) { return pool->failed; }

atvi_status atvi_pool_status(const atvi_pool *pool) { return pool->failed ? ATVI_ENOMEM : ATVI_OK; }

void *atvi_pool_take(atvi_pool *pool, size_t count, size_t size) {
  if (pool->failed) return NULL;
  if (size && count > (SIZE_MAX / 4) / size) {
    pool->failed = true;
    return no_memory(pool->ctx, SIZE_MAX);
  }
  size_t bytes = (count * size + 15) / 16 * 16;
  chunk *c = pool->chunks;
  if (!c || c->size - c->used < bytes) {
    size_t room = bytes > CHUNK ? bytes : CHUNK;
    c = atvi_block(pool->ctx, HEAD + room);
    if (!c) {
      pool->failed = true;
      return NULL;
    }
    c->size = room;
    if (pool->chunks && bytes > CHUNK) { /* a large piece of its own: keep filling the present chunk */
      c->next = pool->chunks->next;
      pool->chunks->next = c;
    } else {
      c->next = pool->chunks;
      pool->chunks = c;
    }
  }
  void *p = (char *)c + HEAD + c->used;
  c->used += bytes;
  return p;
}

char *atvi_pool_strndup(atvi_pool *pool, const char *s, size_t n) {
  char *copy = atvi_pool_take(pool, n + 1, 1);
  if (copy) memcpy(copy, s, n);
  return copy;
}

char *atvi_pool_printf(atvi_pool *pool, const char *fmt, ...) {
  va_list args, again;
  va_start(args, fmt);
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, fmt, args);
  char *s = n < 0 ? NULL : atvi_pool_take(pool, (size_t)n + 1, 1);
  if (s) vsnprintf(s, (size_t)n + 1, fmt, again);
  va_end(again);
  va_end(args);
  return s;
}

void *atvi_pool_grow(atvi_pool *pool, void *arr, atvi_idx n, atvi_idx *cap, size_t size) {
  if (n < *cap) return arr;
  atvi_idx more = *cap ? 2 * *cap : 8;
  void *bigger = atvi_pool_take(pool, (size_t)more, size);
  if (!bigger) return NULL;
  if (n) memcpy(bigger, arr, (size_t)n * size);
  *cap = more;
  return bigger;
}
