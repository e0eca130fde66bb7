/* SPDX-License-Identifier: MIT */
#include "app/report.h"
#include "io/file.h"
#include "testing.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <jansson.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- a folder ---- */

static void put(const char *dir, const char *name, const char *text) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  FILE *f = fopen(path, "w");
  CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static bool there(const char *dir, const char *name) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  return access(path, F_OK) == 0;
}

static void clear(const char *dir) {
  static const char *const name[] = {"report.html", "progress.json", "draws.csv", "secret"};
  char path[256];
  for (int i = 0; i < 4; i++) {
    snprintf(path, sizeof path, "%s/%s", dir, name[i]);
    unlink(path);
  }
  CHECK(rmdir(dir) == 0);
}

/* ---- the server ---- */

static void *serve(void *arg) {
  atvi_app_serve_run(arg, NULL, NULL);
  return NULL;
}

/* What it answers to these bytes; "" if it just hangs up. */
static void ask_bytes(int port, const char *bytes, size_t n, char answer[4096]) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0);
  while (n > 0) {
    ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);
    if (sent <= 0) break;
    bytes += sent, n -= (size_t)sent;
  }
  size_t got = 0;
  for (ssize_t k; got < 4095 && (k = recv(fd, answer + got, 4095 - got, 0)) > 0;) got += (size_t)k;
  answer[got] = 0;
  close(fd);
}

static int ask(int port, const char *line, const char *host, char answer[4096]) {
  char request[512];
  snprintf(request, sizeof request, "%s\r\n%s%s%sAccept: */*\r\n\r\n", line, host ? "Host: " : "",
           host ? host : "", host ? "\r\n" : "");
  ask_bytes(port, request, strlen(request), answer);
  int status = 0;
  CHECK_INT(sscanf(answer, "HTTP/1.0 %d", &status), 1);
  return status;
}

static void server_serves_two_things_and_no_more(void) {
  char dir[] = "/tmp/atvi-serve-XXXXXX", answer[4096], own[32], local[32];
  atvi_ctx *ctx = test_ctx();
  static atvi_server s;
  pthread_t thread;
  CHECK(mkdtemp(dir));
  put(dir, "report.html", "<p>page</p>");
  put(dir, "progress.json", "{\"state\": \"done\", \"pid\": 1}");
  put(dir, "secret", "secret");
  CHECK_OK(atvi_app_serve_open(ctx, dir, 0, &s));
  CHECK(s.port > 0);
  CHECK(pthread_create(&thread, NULL, serve, &s) == 0);
  snprintf(own, sizeof own, "127.0.0.1:%d", s.port);
  snprintf(local, sizeof local, "LocalHost:%d", s.port);
  CHECK_INT(ask(s.port, "GET /state HTTP/1.1", own, answer), 200);
  CHECK(strstr(answer, "\r\n\r\n{\"state\": \"done\""));
  CHECK(!atomic_load(&s.delivered));
  CHECK_INT(ask(s.port, "GET / HTTP/1.1", own, answer), 200);
  CHECK(strstr(answer, "Content-Type: text/html") && strstr(answer, "Content-Length: 11\r\n") &&
        strstr(answer, "\r\n\r\n<p>page</p>"));
  CHECK(atomic_load(&s.delivered) && atomic_load(&s.asked_ms) > 0);
  CHECK_INT(ask(s.port, "GET / HTTP/1.0", local, answer), 200);
  static const char *const not_found[] = {
      "GET /secret HTTP/1.1",   "GET /../secret HTTP/1.1", "GET /report.html HTTP/1.1",
      "GET /state/ HTTP/1.1",   "GET /?x HTTP/1.1",        "POST / HTTP/1.1",
      "HEAD / HTTP/1.1",        "GET  / HTTP/1.1",         "GET / HTTP/2",
      "GET /%73ecret HTTP/1.1", "get / HTTP/1.1",          "OPTIONS * HTTP/1.1",
      "GET http://x/ HTTP/1.1", "GET / HTTP/1.1 x"};
  for (size_t i = 0; i < sizeof not_found / sizeof *not_found; i++) {
    CHECK_MSG(ask(s.port, not_found[i], own, answer) == 404, "%s: %s", not_found[i], answer);
    CHECK(!strstr(answer, "secret\n"));
  }
  /* another name than its own: a page from elsewhere, after its name was made to mean this machine */
  static const char *const host[] = {"evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:80",
                                     ""};
  for (size_t i = 0; i < sizeof host / sizeof *host; i++)
    CHECK_INT(ask(s.port, "GET / HTTP/1.1", host[i], answer), 404);
  CHECK_INT(ask(s.port, "GET / HTTP/1.1", NULL, answer), 404);
  char twice[128];
  snprintf(twice, sizeof twice, "%s\r\nHost: evil.example", own);
  CHECK_INT(ask(s.port, "GET / HTTP/1.1", twice, answer), 404);
  char path[64];
  snprintf(path, sizeof path, "%s/report.html", dir);
  unlink(path);
  CHECK_INT(ask(s.port, "GET / HTTP/1.1", own, answer), 404);
  atomic_store(&s.stop, true);
  pthread_join(thread, NULL);
  atvi_app_serve_close(&s);
  atvi_app_serve_close(&s); /* again is fine */
  clear(dir);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void server_stands_rubbish(void) {
  char dir[] = "/tmp/atvi-serve-XXXXXX", answer[4096], *big = malloc(20000);
  atvi_ctx *ctx = test_ctx();
  static atvi_server s;
  pthread_t thread;
  CHECK(mkdtemp(dir));
  CHECK_OK(atvi_app_serve_open(ctx, dir, 0, &s));
  CHECK(pthread_create(&thread, NULL, serve, &s) == 0);
  memset(big, 'a', 20000);
  ask_bytes(s.port, big, 20000, answer); /* longer than a request may be */
  CHECK(answer[0] == 0 || strstr(answer, "400"));
  ask_bytes(s.port, "GET / HTTP/1.1\r\n\0\r\n\r\n", 21, answer);
  CHECK(strstr(answer, "400"));
  double begun = atvi_clock_s();
  ask_bytes(s.port, "GET / HT", 8, answer); /* and then nothing */
  CHECK(strstr(answer, "400"));
  CHECK(atvi_clock_s() - begun < 8);
  atvi_server second;
  CHECK_STATUS(atvi_app_serve_open(ctx, dir, s.port, &second), ATVI_EIO); /* the port is taken */
  memset(big, 'd', 5000);
  big[5000] = 0;
  CHECK_STATUS(atvi_app_serve_open(ctx, big, 0, &second), ATVI_EINVAL);
  atomic_store(&s.stop, true);
  pthread_join(thread, NULL);
  atvi_app_serve_close(&s);
  free(big);
  clear(dir);
  atvi_ctx_free(ctx);
}

static int connect_to(int port) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0);
  return fd;
}

/* Clients that say nothing, and one that does not take its answer, keep nobody waiting; nor does the server
 * spin without descriptors. */
static void nobody_waits_for_others(void) {
  enum { IDLE = 40, PAGE = 8 << 20 };
  char dir[] = "/tmp/atvi-serve-XXXXXX", answer[4096], own[32], request[128], *page = malloc(PAGE + 1);
  atvi_ctx *ctx = test_ctx();
  static atvi_server s;
  pthread_t thread;
  int idle[IDLE];
  CHECK(mkdtemp(dir));
  memset(page, 'p', PAGE);
  page[PAGE] = 0;
  put(dir, "report.html", page);
  put(dir, "progress.json", "{\"state\": \"done\", \"pid\": 1}");
  CHECK_OK(atvi_app_serve_open(ctx, dir, 0, &s));
  CHECK(pthread_create(&thread, NULL, serve, &s) == 0);
  snprintf(own, sizeof own, "127.0.0.1:%d", s.port);
  snprintf(request, sizeof request, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", own);
  int slow = connect_to(s.port);
  CHECK(send(slow, request, strlen(request), 0) == (ssize_t)strlen(request));
  for (int k = 0; k < IDLE; k++) idle[k] = connect_to(s.port);
  double begun = atvi_clock_s();
  CHECK_INT(ask(s.port, "GET /state HTTP/1.1", own, answer), 200);
  CHECK(atvi_clock_s() - begun < 2.5);
  CHECK(!atomic_load(&s.delivered)); /* nobody has all of the page */
  for (int k = 0; k < IDLE; k++) close(idle[k]);
  size_t got = 0;
  for (ssize_t k; (k = recv(slow, page, PAGE, 0)) > 0;) got += (size_t)k;
  CHECK(got > PAGE && atomic_load(&s.delivered));
  struct rlimit old, none;
  struct rusage before, after;
  CHECK(getrlimit(RLIMIT_NOFILE, &old) == 0);
  none = old;
  idle[0] = socket(AF_INET, SOCK_STREAM, 0);
  none.rlim_cur = (rlim_t)idle[0] + 1;
  close(slow); /* so that the server, too, must ask for more */
  dup2(idle[0], slow);
  CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0 && getrusage(RUSAGE_SELF, &before) == 0);
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)s.port)};
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK(connect(idle[0], (struct sockaddr *)&at, sizeof at) == 0);
  nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
  CHECK(getrusage(RUSAGE_SELF, &after) == 0 && setrlimit(RLIMIT_NOFILE, &old) == 0);
  double spent = (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec + after.ru_stime.tv_sec -
                          before.ru_stime.tv_sec) +
                 1e-6 * (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec + after.ru_stime.tv_usec -
                                 before.ru_stime.tv_usec);
  CHECK_MSG(spent < 0.2, "%g s of CPU", spent);
  CHECK_INT(ask(s.port, "GET /state HTTP/1.1", own, answer), 200);
  close(idle[0]);
  atomic_store(&s.stop, true);
  pthread_join(thread, NULL);
  atvi_app_serve_close(&s);
  free(page);
  clear(dir);
  atvi_ctx_free(ctx);
}

/* A process that is gone. */
static long dead_pid(void) {
  pid_t pid = fork();
  if (pid == 0) _exit(0);
  CHECK(waitpid(pid, NULL, 0) == pid);
  return pid;
}

static void a_killed_fit_is_told(void) {
  char dir[] = "/tmp/atvi-serve-XXXXXX", answer[4096], own[32], state[128];
  atvi_ctx *ctx = test_ctx();
  static atvi_server s;
  pthread_t thread;
  CHECK(mkdtemp(dir));
  put(dir, "report.html", "running");
  CHECK_OK(atvi_app_serve_open(ctx, dir, 0, &s));
  CHECK(pthread_create(&thread, NULL, serve, &s) == 0);
  snprintf(own, sizeof own, "127.0.0.1:%d", s.port);
  snprintf(state, sizeof state, "{\"state\": \"running\", \"pid\": %ld, \"x\": 1}", (long)getpid());
  put(dir, "progress.json", state);
  CHECK_INT(ask(s.port, "GET /state HTTP/1.1", own, answer), 200);
  CHECK(strstr(answer, "\"running\""));
  CHECK_INT(ask(s.port, "GET / HTTP/1.1", own, answer), 200);
  CHECK(!atomic_load(&s.delivered)); /* that was not the end */
  snprintf(state, sizeof state, "{\"state\": \"running\", \"pid\": %ld, \"x\": 1}", dead_pid());
  put(dir, "progress.json", state);
  CHECK_INT(ask(s.port, "GET /state HTTP/1.1", own, answer), 200);
  CHECK(strstr(answer, "\"ended\""));
  atomic_store(&s.stop, true);
  pthread_join(thread, NULL);
  atvi_app_serve_close(&s);
  clear(dir);
  atvi_ctx_free(ctx);
}

/* ---- progress ---- */

static void count(void *user, const atvi_progress *p) {
  (void)p;
  ++*(int *)user;
}

static void recorder_keeps_and_hands_on(void) {
  char dir[] = "/tmp/atvi-record-XXXXXX", path[64];
  atvi_ctx *ctx = test_ctx();
  static atvi_recorder r;
  int seen = 0;
  CHECK(mkdtemp(dir));
  snprintf(path, sizeof path, "%s/progress.json", dir);
  atvi_ctx_set_progress(ctx, count, &seen);
  atvi_app_recorder_begin(&r, ctx, dir);
  CHECK(there(dir, "progress.json"));
  /* done = 1: delivered however soon after the last */
  atvi_tell_about(ctx, &(atvi_progress){"annealing", 1, 0.5, "hot", 100, 12.5, -211.5, 1, NAN, NAN, NAN, 0});
  atvi_tell_about(ctx, &(atvi_progress){"training", 1, 1.5, "ELBO", 300, 1, -97.25, 2, NAN, NAN, NAN, 0});
  atvi_tell_about(ctx, &(atvi_progress){"sampling", 1, 2.5, "", NAN, NAN, NAN, NAN, NAN, 1.013, 840, 0});
  CHECK_INT(r.n, 3);
  CHECK_INT(seen, 3);
  CHECK(r.step[0].temperature == 12.5 && r.step[0].elbo == -211.5 && isnan(r.step[0].khat));
  CHECK(r.step[1].elbo == -97.25 && r.step[1].steps == 300 && r.step[1].part == 2);
  CHECK(r.step[2].rhat == 1.013 && r.step[2].ess == 840);
  CHECK_STR(r.step[1].phase, "training");
  for (int i = 0; i < 5000; i++) atvi_tell(ctx, "sampling", 1, 3 + i, "x");
  CHECK(r.n <= ATVI_RECORDED && r.n >= ATVI_RECORDED / 4);
  for (atvi_idx i = 1; i < r.n; i++) CHECK(r.step[i].elapsed_s > r.step[i - 1].elapsed_s);
  atvi_app_recorder_end(&r, "done", "");
  json_error_t error;
  json_t *state = json_load_file(path, 0, &error);
  CHECK(state != NULL);
  CHECK_STR(json_string_value(json_object_get(state, "state")), "done");
  CHECK_INT(json_array_size(json_object_get(state, "history")), r.n);
  CHECK_REL(
      json_number_value(json_object_get(json_array_get(json_object_get(state, "history"), 0), "temperature")),
      12.5, 1e-6);
  json_decref(state);
  atvi_idx kept = r.n;
  atvi_tell(ctx, "after", 1, 9, "x"); /* it has let go, and the context's own receiver is still there */
  CHECK_INT(seen, 5004);
  CHECK_INT(r.n, kept);
  clear(dir);
  atvi_app_recorder_begin(&r, ctx, NULL); /* nobody watches */
  for (int i = 0; i < 40; i++) {
    char phase[8];
    snprintf(phase, sizeof phase, "p%d", i);
    atvi_tell(ctx, phase, 0.5, i, "x");
  }
  atvi_app_recorder_end(&r, "done", "");
  CHECK_INT(r.n, 40); /* however soon after each other */
  CHECK(seen < 5010);
  CHECK_STR(r.step[3].phase, "p3");
  CHECK(!there(dir, "progress.json"));
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void sweep_clears_what_a_killed_fit_left(void) {
  char dir[] = "/tmp/atvi-sweep-XXXXXX", state[128];
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  CHECK(mkdtemp(dir));
  pid_t pid = fork(); /* killed while it wrote its first checkpoint */
  atvi_file *f;
  const char *path = atvi_pool_printf(pool, "%s/checkpoint", dir);
  if (pid == 0) _exit(atvi_io_file_new(ctx, path, &f) == ATVI_OK ? 0 : 1);
  int how;
  CHECK(waitpid(pid, &how, 0) == pid && how == 0 && rmdir(dir) != 0);
  atvi_app_report_sweep(pool, dir);
  CHECK(rmdir(dir) == 0 && mkdir(dir, 0700) == 0);
  put(dir, "report.html", "x");
  atvi_app_report_sweep(pool, dir); /* no progress: not ours to say */
  CHECK(there(dir, "report.html"));
  snprintf(state, sizeof state, "{\"state\": \"running\", \"pid\": %ld}", (long)getppid());
  put(dir, "progress.json", state);
  atvi_app_report_sweep(pool, dir); /* somebody is at work there */
  CHECK(there(dir, "report.html"));
  snprintf(state, sizeof state, "{\"state\": \"running\", \"pid\": %ld}", dead_pid());
  put(dir, "progress.json", state);
  put(dir, "draws.csv", "x");
  atvi_app_report_sweep(pool, dir); /* a fit that is complete */
  CHECK(there(dir, "report.html"));
  snprintf(state, sizeof state, "%s/draws.csv", dir);
  unlink(state);
  atvi_app_report_sweep(pool, dir);
  CHECK(!there(dir, "report.html") && !there(dir, "progress.json"));
  atvi_pool_free(pool);
  clear(dir);
  atvi_ctx_free(ctx);
}

/* ---- the command line ---- */

static void command_can_be_pasted(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  atvi_app_fit_opts o = {.model.path = "my model.atvi", .how = atvi_fit_defaults()};
  CHECK_STR(atvi_app_report_command(pool, &o), "atvi fit 'my model.atvi' --seed 1");
  const atvi_app_set fix[] = {{"beta", "0.9"}};
  const atvi_data_file data[] = {{NULL, "it's.csv"}, {"a", "b.csv"}};
  o.model.n_fix = 1, o.model.fix = fix, o.model.n_data = 2, o.model.data = data;
  o.how.method = "ram", o.how.seed = 7, o.how.chains = 4, o.holdout = "t > 14";
  CHECK_STR(atvi_app_report_command(pool, &o),
            "atvi fit 'my model.atvi' --method ram --seed 7 --chains 4 --data 'it'\\''s.csv' --data a=b.csv "
            "--fix beta=0.9 --holdout 't > 14'");
  o = (atvi_app_fit_opts){.model.path = "m.atvi", .how = atvi_fit_defaults(), .model.interpret = true};
  o.how.ess = 5e4, o.how.max_seconds = 90, o.how.max_iter = 700, o.how.ladder = "3,1", o.how.freeze = true;
  o.how.map = "probit", o.how.tune = "off", o.how.exact = "off";
  CHECK_STR(atvi_app_report_command(pool, &o),
            "atvi fit m.atvi --seed 1 --ess 50000 --max-time 90s --max-iter 700 "
            "--ladder 3,1 --freeze --map probit --tune off --no-exact --no-compile");
  o.how = atvi_fit_defaults();
  o.how.exact = "on";
  CHECK_STR(atvi_app_report_command(pool, &o), "atvi fit m.atvi --seed 1 --exact --no-compile");
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
}

TESTS({"serve", server_serves_two_things_and_no_more}, {"rubbish", server_stands_rubbish},
      {"waits", nobody_waits_for_others}, {"killed", a_killed_fit_is_told},
      {"record", recorder_keeps_and_hands_on}, {"sweep", sweep_clears_what_a_killed_fit_left},
      {"command", command_can_be_pasted})
