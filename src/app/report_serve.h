/* SPDX-License-Identifier: MIT */
/* A server for one page: GET / is DIR/report.html, GET /state is DIR/progress.json, anything else is not found.
 *
 * It listens on 127.0.0.1 alone and takes no commands. A request must name this server as its host, so that a page from elsewhere cannot make a
 * browser read it under another name (DNS rebinding). One request at a time, each of at most a few kilobytes and seconds. */
#ifndef ATVI_APP_REPORT_SERVE_H
#define ATVI_APP_REPORT_SERVE_H

#include "core/core.h"
#include <stdatomic.h>

typedef struct {
  int fd; /* -1: closed */
  int port;
  char dir[4096];
  atomic_bool stop;      /* ends atvi_serve_run */
  atomic_llong asked_ms; /* when the last request came, on the clock of atvi_clock_s; 0: never */
  atomic_bool told;      /* the whole report was sent */
} atvi_server;

/* port 0: any that is free. Errors: EIO (the port is taken, ...), EINVAL (dir is too long). */
ATVI_CHECKED atvi_status atvi_serve_open(atvi_ctx *ctx, const char *dir, int port, atvi_server *out);
/* Answers until stop is set or asked(user) is true (NULL: never). Touches no context: may run on a thread of its own. */
void atvi_serve_run(atvi_server *s, bool (*asked)(void *user), void *user);
void atvi_serve_close(atvi_server *s);

#endif
