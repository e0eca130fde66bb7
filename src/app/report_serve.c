/* SPDX-License-Identifier: MIT */
#include "app/report.h"
#include "io/file.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { REQUEST = 8192, PIECE = 16384, LOOK_MS = 200, BACKLOG = 8 };
static const double PATIENCE_S = 3; /* for a request or an answer */

atvi_status atvi_app_serve_open(atvi_ctx *ctx, const char *dir, int port, atvi_server *out) {
  char what[64];
  memset(out, 0, sizeof *out);
  out->fd = -1;
  if (strlen(dir) >= sizeof out->dir)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "the name of the folder is too long");
  strcpy(out->dir, dir);
  snprintf(what, sizeof what, "127.0.0.1:%d", port);
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  socklen_t n = sizeof at;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  out->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int on = 1;
  if (out->fd < 0 || setsockopt(out->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      bind(out->fd, (struct sockaddr *)&at, sizeof at) != 0 || listen(out->fd, BACKLOG) != 0 ||
      getsockname(out->fd, (struct sockaddr *)&at, &n) != 0) {
    atvi_status status = atvi_io_file_cannot(ctx, "listen on", what, errno);
    atvi_app_serve_close(out);
    return status;
  }
  out->port = ntohs(at.sin_port);
  return ATVI_OK;
}

void atvi_app_serve_close(atvi_server *s) {
  if (s->fd >= 0) close(s->fd);
  s->fd = -1;
}

/* ---- one request ---- */

static bool wait_for(int fd, short what, double until_s) {
  double left = until_s - atvi_clock_s();
  struct pollfd p = {.fd = fd, .events = what};
  return left > 0 && poll(&p, 1, (int)(1000 * left) + 1) > 0;
}

/* The head of a request; false: too long, too slow, or gone. */
static bool receive(int fd, char text[REQUEST]) {
  double until = atvi_clock_s() + PATIENCE_S;
  size_t n = 0;
  while (n < REQUEST - 1 && wait_for(fd, POLLIN, until)) {
    ssize_t got = recv(fd, text + n, REQUEST - 1 - n, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    n += (size_t)got;
    text[n] = 0;
    if (strlen(text) < n) return false; /* a request contains no NUL */
    if (strstr(text, "\r\n\r\n")) return true;
  }
  return false;
}

static bool send_all(int fd, const char *bytes, size_t n, double until) {
  while (n > 0 && wait_for(fd, POLLOUT, until)) {
    ssize_t put = send(fd, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) continue;
    if (put <= 0) return false;
    bytes += put;
    n -= (size_t)put;
  }
  return n == 0;
}

static bool send_head(int fd, const char *status, const char *kind, long long length, double until) {
  char head[512];
  int n =
      snprintf(head, sizeof head,
               "HTTP/1.0 %s\r\nContent-Type: %s\r\nContent-Length: %lld\r\nCache-Control: no-store\r\n"
               "X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\n"
               "Connection: close\r\n\r\n",
               status, kind, length);
  return send_all(fd, head, (size_t)n, until);
}

static void refuse(int fd, const char *status) {
  double until = atvi_clock_s() + PATIENCE_S;
  if (send_head(fd, status, "text/plain; charset=utf-8", (long long)strlen(status) + 1, until) &&
      send_all(fd, status, strlen(status), until))
    (void)send_all(fd, "\n", 1, until);
}

/* Does the request name this server? */
static bool our_host(const char *request, int port) {
  char want[2][32];
  snprintf(want[0], sizeof want[0], "127.0.0.1:%d", port);
  snprintf(want[1], sizeof want[1], "localhost:%d", port);
  int found = 0, right = 0;
  for (const char *at = strstr(request, "\r\n"); at && strncmp(at, "\r\n\r\n", 4) != 0;
       at = strstr(at + 2, "\r\n")) {
    if (strncasecmp(at + 2, "host:", 5) != 0) continue;
    const char *value = at + 7 + strspn(at + 7, " \t");
    size_t n = strcspn(value, "\r\n");
    while (n > 0 && (value[n - 1] == ' ' || value[n - 1] == '\t')) n--;
    found++;
    for (int k = 0; k < 2; k++) right += n == strlen(want[k]) && strncasecmp(value, want[k], n) == 0;
  }
  return found == 1 && right == 1;
}

static bool send_file(const atvi_server *s, int fd, const char *name, const char *kind) {
  char path[sizeof s->dir + 32], piece[PIECE];
  struct stat st;
  snprintf(path, sizeof path, "%s/%s", s->dir, name);
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0 || fstat(file, &st) != 0 || !S_ISREG(st.st_mode)) {
    if (file >= 0) close(file);
    refuse(fd, "404 Not Found");
    return false;
  }
  double until = atvi_clock_s() + 10 * PATIENCE_S;
  bool ok = send_head(fd, "200 OK", kind, (long long)st.st_size, until);
  for (off_t left = st.st_size; ok && left > 0;) {
    ssize_t n = read(file, piece, left < PIECE ? (size_t)left : PIECE);
    if (n < 0 && errno == EINTR) continue;
    ok = n > 0 && send_all(fd, piece, (size_t)n, until);
    left -= n > 0 ? n : 0;
  }
  close(file);
  return ok;
}

/* ---- is the fit still running? ---- */

static bool is_running(const atvi_server *s, long *pid) {
  char state[ATVI_STATE_BYTES];
  return atvi_app_report_state(s->dir, state, pid) && strcmp(state, "running") == 0;
}

/* It claims to run, but its process is gone: it was killed. */
static bool was_killed(const atvi_server *s) {
  long pid;
  return is_running(s, &pid) && pid > 0 && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

static void answer_state(const atvi_server *s, int fd) {
  static const char gone[] =
      "{\"state\": \"ended\", \"detail\": \"The fit ended before it was finished.\"}\n";
  double until = atvi_clock_s() + PATIENCE_S;
  if (!was_killed(s))
    (void)send_file(s, fd, "progress.json", "application/json");
  else if (send_head(fd, "200 OK", "application/json", sizeof gone - 1, until))
    (void)send_all(fd, gone, sizeof gone - 1, until);
}

static void answer(atvi_server *s, int fd) {
  char request[REQUEST];
  long pid;
  if (!receive(fd, request)) {
    refuse(fd, "400 Bad Request");
    return;
  }
  size_t n = strcspn(request, "\r\n");
  bool page = strncmp(request, "GET / HTTP/1.", 13) == 0 && n == 14;
  bool state = strncmp(request, "GET /state HTTP/1.", 18) == 0 && n == 19;
  if (!our_host(request, s->port) || (!page && !state)) {
    refuse(fd, "404 Not Found");
    return;
  }
  atomic_store(&s->asked_ms, (long long)(1000 * atvi_clock_s()));
  if (state) {
    answer_state(s, fd);
    return;
  }
  bool running = is_running(s, &pid); /* before the page is read */
  if (send_file(s, fd, "report.html", "text/html; charset=utf-8") && !running) atomic_store(&s->told, true);
}

void atvi_app_serve_run(atvi_server *s, bool (*asked)(void *user), void *user) {
  while (!atomic_load(&s->stop) && !(asked && asked(user))) {
    struct pollfd p = {.fd = s->fd, .events = POLLIN};
    if (poll(&p, 1, LOOK_MS) <= 0) continue;
    int fd = accept(s->fd, NULL, NULL);
    if (fd < 0) continue;
    answer(s, fd);
    shutdown(fd, SHUT_WR);
    close(fd);
  }
}

/* atvi watch, and atvi fit --live. */

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
    return ATVI_FAIL(
        ctx, ATVI_EINVAL,
        "%s has no report.html: it is not the folder of a fit, or the fit was run with --no-report", dir);
  ATVI_TRY(atvi_app_serve_open(ctx, dir, opts->port, &s));
  snprintf(url, sizeof url, "http://127.0.0.1:%d/", s.port);
  told(url);
  atvi_app_serve_run(&s, asked_to_stop, ctx);
  atvi_app_serve_close(&s);
  return ATVI_OK;
}

/* ---- atvi fit --live ---- */

static void *serve(void *arg) {
  atvi_app_serve_run(arg, NULL, NULL);
  return NULL;
}

void atvi_app_live_begin(atvi_ctx *ctx, const char *dir, atvi_live *live) {
  live->running = false;
  if (atvi_app_serve_open(ctx, dir, 0, &live->server) != ATVI_OK) {
    atvi_log(ctx, ATVI_LOG_WARN, "the fit cannot be watched: %s", atvi_errmsg(ctx));
    return;
  }
  live->running = pthread_create(&live->thread, NULL, serve, &live->server) == 0;
  if (live->running)
    atvi_log(ctx, ATVI_LOG_NOTE, "watch it at http://127.0.0.1:%d/", live->server.port);
  else
    atvi_app_serve_close(&live->server);
}

/* Somebody is watching, but does not have the end yet. */
static bool awaited(atvi_server *s) {
  double last = (double)atomic_load(&s->asked_ms) / 1000;
  return last > 0 && atvi_clock_s() - last < SEEN_S && !atomic_load(&s->told);
}

void atvi_app_live_end(atvi_ctx *ctx, atvi_live *live) {
  const struct timespec pause = {.tv_nsec = 50 * 1000 * 1000};
  double until = atvi_clock_s() + LINGER_S;
  if (!live->running) return;
  while (awaited(&live->server) && atvi_clock_s() < until && !atvi_stop_asked(ctx)) nanosleep(&pause, NULL);
  atomic_store(&live->server.stop, true);
  pthread_join(live->thread, NULL);
  atvi_app_serve_close(&live->server);
  live->running = false;
}
