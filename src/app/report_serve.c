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

enum { ROOM = 8192, CLIENTS = 16, LOOK_MS = 200, BACKLOG = 64 };
/* A client has this long for its request, and to take its answer. */
static const double REQUEST_S = 3, ANSWER_S = 30;

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

/* ---- one client ---- */

/* None is waited for: each is looked at when poll says that it has something to say, or room for more. */
typedef struct {
  /* -1: there is none */
  int fd;
  /* when it has had its time */
  double until_s;
  /* its request is there; before that, it may have to make room for another */
  bool answering;
  /* the request as far as it came; then what is to be sent next, of which `sent` bytes are gone */
  char text[ROOM];
  size_t n, sent;
  /* what comes after that: `left` bytes of it; -1: nothing */
  int file;
  long long left;
  /* the answer is the report of a fit that is over */
  bool last;
} client;

static void drop(client *c) {
  if (c->fd >= 0) {
    shutdown(c->fd, SHUT_WR);
    close(c->fd);
  }
  if (c->file >= 0) close(c->file);
  c->fd = c->file = -1;
}

static void begin_answer(client *c, const char *status, const char *kind, long long length,
                         const char *body) {
  int n = snprintf(c->text, sizeof c->text,
                   "HTTP/1.0 %s\r\nContent-Type: %s\r\nContent-Length: %lld\r\nCache-Control: no-store\r\n"
                   "X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nReferrer-Policy: "
                   "no-referrer\r\nConnection: close\r\n\r\n%s",
                   status, kind, length, body);
  c->n = (size_t)n;
  c->sent = 0;
  c->answering = true;
  c->until_s = atvi_clock_s() + ANSWER_S;
}

static void refuse(client *c, const char *status) {
  char body[64];
  snprintf(body, sizeof body, "%s\n", status);
  begin_answer(c, status, "text/plain; charset=utf-8", (long long)strlen(body), body);
}

static bool send_file(const atvi_server *s, client *c, const char *name, const char *kind) {
  char path[sizeof s->dir + 32];
  struct stat st;
  snprintf(path, sizeof path, "%s/%s", s->dir, name);
  c->file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  bool ok = c->file >= 0 && fstat(c->file, &st) == 0 && S_ISREG(st.st_mode);
  c->left = ok ? (long long)st.st_size : 0;
  if (ok)
    begin_answer(c, "200 OK", kind, c->left, "");
  else
    refuse(c, "404 Not Found");
  return ok;
}

/* Sends as much as there is room for. */
static void go_on(atvi_server *s, client *c) {
  for (;;) {
    while (c->sent < c->n) {
      ssize_t put = send(c->fd, c->text + c->sent, c->n - c->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (put <= 0) {
        drop(c);
        return;
      }
      c->sent += (size_t)put;
    }
    ssize_t got = c->left > 0 ? read(c->file, c->text, c->left < ROOM ? (size_t)c->left : ROOM) : 0;
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    c->left -= got;
    c->n = (size_t)got;
    c->sent = 0;
  }
  if (c->last && c->left == 0) atomic_store(&s->delivered, true);
  drop(c);
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

static void answer_state(const atvi_server *s, client *c) {
  static const char gone[] =
      "{\"state\": \"ended\", \"detail\": \"The fit ended before it was finished.\"}\n";
  if (was_killed(s))
    begin_answer(c, "200 OK", "application/json", (long long)strlen(gone), gone);
  else
    (void)send_file(s, c, "progress.json", "application/json");
}

/* The head of the request is there. */
static void answer(atvi_server *s, client *c) {
  long pid;
  size_t n = strcspn(c->text, "\r\n");
  bool page = strncmp(c->text, "GET / HTTP/1.", 13) == 0 && n == 14;
  bool state = strncmp(c->text, "GET /state HTTP/1.", 18) == 0 && n == 19;
  if (!our_host(c->text, s->port) || (!page && !state)) {
    refuse(c, "404 Not Found");
    return;
  }
  atomic_store(&s->asked_ms, (long long)(1000 * atvi_clock_s()));
  if (state) {
    answer_state(s, c);
    return;
  }
  bool running = is_running(s, &pid); /* before the page is read */
  c->last = send_file(s, c, "report.html", "text/html; charset=utf-8") && !running;
}

/* Takes what has come of a request. */
static void receive(atvi_server *s, client *c) {
  ssize_t got = recv(c->fd, c->text + c->n, ROOM - 1 - c->n, MSG_DONTWAIT);
  if (got < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) return;
  c->n += got > 0 ? (size_t)got : 0;
  c->text[c->n] = 0;
  if (got <= 0 || strlen(c->text) < c->n) /* gone, or a NUL, which is no part of a request */
    refuse(c, "400 Bad Request");
  else if (strstr(c->text, "\r\n\r\n"))
    answer(s, c);
  else if (c->n == ROOM - 1)
    refuse(c, "400 Bad Request");
}

/* ---- all of them ---- */

/* A place for a new one: one that is free, or that of the client that has been silent for longest. NULL: all
 * are being answered. */
static client *find_place(client *c) {
  client *best = NULL;
  for (int k = 0; k < CLIENTS; k++) {
    if (c[k].fd < 0) return &c[k];
    if (!c[k].answering && (!best || c[k].until_s < best->until_s)) best = &c[k];
  }
  if (best) drop(best);
  return best;
}

/* For when asking again at once would be of no use. */
static void rest(void) {
  const struct timespec nap = {.tv_nsec = 50 * 1000 * 1000};
  nanosleep(&nap, NULL);
}

static void welcome(atvi_server *s, client *all) {
  client *c = find_place(all);
  int fd = c ? accept(s->fd, NULL, NULL) : -1;
  if (fd < 0) { /* no descriptor is to be had, or no place: neither comes of asking again at once */
    rest();
    return;
  }
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  c->fd = fd;
  c->file = -1;
  c->until_s = atvi_clock_s() + REQUEST_S;
  c->n = c->sent = 0;
  c->left = 0;
  c->answering = c->last = false;
}

/* Looks at a client that has something to say (ready), or has had its time. */
static void attend(atvi_server *s, client *c, bool ready, double now) {
  if (ready && !c->answering)
    receive(s, c);
  else if (!c->answering && now > c->until_s)
    refuse(c, "400 Bad Request");
  if (c->answering) go_on(s, c);
  if (c->fd >= 0 && now > c->until_s) drop(c);
}

void atvi_app_serve_run(atvi_server *s, bool (*asked)(void *user), void *user) {
  client c[CLIENTS];
  for (int k = 0; k < CLIENTS; k++) c[k].fd = c[k].file = -1;
  while (!atomic_load(&s->stop) && !(asked && asked(user))) {
    struct pollfd p[CLIENTS + 1];
    client *of[CLIENTS];
    nfds_t n = 0; /* no more than there are: poll refuses more than the limit of descriptors */
    for (int k = 0; k < CLIENTS; k++) {
      if (c[k].fd < 0) continue;
      p[n] = (struct pollfd){.fd = c[k].fd, .events = c[k].answering ? POLLOUT : POLLIN};
      of[n++] = &c[k];
    }
    p[n] = (struct pollfd){.fd = s->fd, .events = POLLIN};
    int any = poll(p, n + 1, LOOK_MS);
    if (any < 0 && errno != EINTR) rest();
    double now = atvi_clock_s();
    for (nfds_t k = 0; k < n; k++) attend(s, of[k], any > 0 && p[k].revents, now);
    if (any > 0 && p[n].revents) welcome(s, c);
  }
  for (int k = 0; k < CLIENTS; k++) drop(&c[k]);
}

/* atvi watch, and atvi fit --live. */

/* After the fit, stopped or not: how long a browser that asked within SEEN_S has to fetch the report. It asks
 * every second. */
static const double LINGER_S = 4, SEEN_S = 3;

static bool asked_to_stop(void *user) { return atvi_stop_asked(user); }

/* ---- atvi watch ---- */

atvi_status atvi_app_watch(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_watch_opts *opts,
                           void (*listen)(const char *url)) {
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
  listen(url);
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
  return last > 0 && atvi_clock_s() - last < SEEN_S && !atomic_load(&s->delivered);
}

void atvi_app_live_end(atvi_live *live) {
  const struct timespec pause = {.tv_nsec = 50 * 1000 * 1000};
  double until = atvi_clock_s() + LINGER_S;
  if (!live->running) return;
  while (awaited(&live->server) && atvi_clock_s() < until) nanosleep(&pause, NULL);
  atomic_store(&live->server.stop, true);
  pthread_join(live->thread, NULL);
  atvi_app_serve_close(&live->server);
  live->running = false;
}
