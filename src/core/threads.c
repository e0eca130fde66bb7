/* SPDX-License-Identifier: MIT */
/* A team of threads that sleep between jobs. Items are handed out one at a time by a counter, so uneven items
 * balance; who runs an item never matters to its result. As many are woken as there are items, and the caller
 * waits for those that came, not for those that are still asleep: on a busy machine a job takes no longer
 * than alone. Waiting is by condition variables: spinning waits were measured to cost a factor of ten on a
 * busy machine. */
#include "core/ctx.h"
#include <pthread.h>
#include <stdatomic.h>

struct atvi_threads {
  pthread_mutex_t lock;
  pthread_cond_t start, done;
  pthread_t thread[ATVI_MAX_THREADS];
  int count;    /* threads besides the caller */
  uint64_t job; /* number of the current job */
  bool open;    /* threads may join it */
  int busy;     /* threads in it, besides the caller */
  bool quit;    /* threads shall end */
  void (*fn)(void *, atvi_idx, int);
  void *arg;
  atvi_idx items;
  atomic_ptrdiff_t next;
  struct seat {
    atvi_threads *team;
    int worker;
  } seat[ATVI_MAX_THREADS];
};

static void work(atvi_threads *team, int worker) {
  for (;;) {
    atvi_idx item = atomic_fetch_add(&team->next, 1);
    if (item >= team->items) return;
    team->fn(team->arg, item, worker);
  }
}

static void *thread_main(void *arg) {
  const struct seat *me = arg;
  atvi_threads *team = me->team;
  uint64_t seen = 0;
  pthread_mutex_lock(&team->lock);
  for (;;) {
    while (!team->quit && (!team->open || team->job == seen)) pthread_cond_wait(&team->start, &team->lock);
    if (team->quit) break;
    seen = team->job;
    team->busy++;
    pthread_mutex_unlock(&team->lock);
    work(team, me->worker);
    pthread_mutex_lock(&team->lock);
    if (--team->busy == 0) pthread_cond_signal(&team->done);
  }
  pthread_mutex_unlock(&team->lock);
  return NULL;
}

/* The team, started on first use. NULL where threads cannot be had: work is then serial. */
static atvi_threads *team_get(atvi_ctx *ctx) {
  if (ctx->team) return ctx->team;
  atvi_threads *team = atvi_block(ctx, sizeof *team);
  if (!team) return NULL;
  pthread_mutex_init(&team->lock, NULL);
  pthread_cond_init(&team->start, NULL);
  pthread_cond_init(&team->done, NULL);
  for (int i = 0; i < ctx->threads - 1; i++) {
    team->seat[i].team = team;
    team->seat[i].worker = i + 1;
    if (pthread_create(&team->thread[i], NULL, thread_main, &team->seat[i]) != 0) break;
    team->count++;
  }
  return ctx->team = team;
}

void atvi_threads_end(atvi_ctx *ctx) {
  atvi_threads *team = ctx->team;
  if (!team) return;
  pthread_mutex_lock(&team->lock);
  team->quit = true;
  pthread_cond_broadcast(&team->start);
  pthread_mutex_unlock(&team->lock);
  for (int i = 0; i < team->count; i++) pthread_join(team->thread[i], NULL);
  pthread_cond_destroy(&team->start);
  pthread_cond_destroy(&team->done);
  pthread_mutex_destroy(&team->lock);
  atvi_block_free(ctx, team);
  ctx->team = NULL;
}

void atvi_parallel(atvi_ctx *ctx, atvi_idx n, void (*fn)(void *, atvi_idx, int), void *arg) {
  atvi_threads *team = ctx->threads > 1 && n > 1 ? team_get(ctx) : NULL;
  if (!team || team->count == 0) {
    for (atvi_idx i = 0; i < n; i++) fn(arg, i, 0);
    return;
  }
  pthread_mutex_lock(&team->lock);
  team->fn = fn;
  team->arg = arg;
  team->items = n;
  atomic_store(&team->next, 0);
  team->open = true;
  team->job++;
  pthread_mutex_unlock(&team->lock);
  for (atvi_idx k = 0; k < team->count && k < n - 1; k++) pthread_cond_signal(&team->start);
  work(team, 0);
  pthread_mutex_lock(&team->lock);
  team->open = false;
  while (team->busy > 0) pthread_cond_wait(&team->done, &team->lock);
  pthread_mutex_unlock(&team->lock);
}
