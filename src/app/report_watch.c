/* SPDX-License-Identifier: MIT */
/* atvi watch, and atvi fit --live. */
#include "app/report.h"
#include "io/file.h"
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* After the fit: how long a browser that asked within SEEN_S has to fetch the report. It asks every second. */
static const double LINGER_S = 4, SEEN_S = 3;

static bool asked_to_stop(void *user) { return atvi_stop_asked(user); }

/* ---- atvi watch ---- */

atvi_status atvi_app_watch(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_watch_opts *opts,
                           void (*told)(const char *url)) {
  atvi_server s;
  const char *dir;
  char url[64];
  if (opts->port < 0 || opts->port > 65535)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "--port %d: want a number from 1 to 65535", opts->port);
  ATVI_TRY(atvi_app_find_run(ctx, pool, opts->where, "report.html", &dir));
  const char *page = atvi_pool_printf(pool, "%s/report.html", dir);
  if (!page || access(page, F_OK) != 0)
    return ATVI_FAIL(ctx, ATVI_EINVAL,
                     "%s has no report.html: it is not the folder of a fit, or of one with --no-report", dir);
  ATVI_TRY(atvi_serve_open(ctx, dir, opts->port, &s));
  snprintf(url, sizeof url, "http://127.0.0.1:%d/", s.port);
  told(url);
  atvi_serve_run(&s, asked_to_stop, ctx);
  atvi_serve_close(&s);
  return ATVI_OK;
}

/* ---- atvi fit --live ---- */

static void *serve(void *arg) {
  atvi_serve_run(arg, NULL, NULL);
  return NULL;
}

void atvi_live_begin(atvi_ctx *ctx, const char *dir, atvi_live *live) {
  live->running = false;
  if (atvi_serve_open(ctx, dir, 0, &live->server) != ATVI_OK) {
    atvi_log(ctx, ATVI_LOG_WARN, "the fit cannot be watched: %s", atvi_errmsg(ctx));
    return;
  }
  live->running = pthread_create(&live->thread, NULL, serve, &live->server) == 0;
  if (live->running)
    atvi_log(ctx, ATVI_LOG_NOTE, "watch it at http://127.0.0.1:%d/", live->server.port);
  else
    atvi_serve_close(&live->server);
}

/* Somebody looks, but does not have the end yet. */
static bool awaited(atvi_server *s) {
  double last = (double)atomic_load(&s->asked_ms) / 1000;
  return last > 0 && atvi_clock_s() - last < SEEN_S && !atomic_load(&s->told);
}

void atvi_live_end(atvi_ctx *ctx, atvi_live *live) {
  const struct timespec pause = {.tv_nsec = 50 * 1000 * 1000};
  double until = atvi_clock_s() + LINGER_S;
  if (!live->running) return;
  while (awaited(&live->server) && atvi_clock_s() < until && !atvi_stop_asked(ctx)) nanosleep(&pause, NULL);
  atomic_store(&live->server.stop, true);
  pthread_join(live->thread, NULL);
  atvi_serve_close(&live->server);
  live->running = false;
}
