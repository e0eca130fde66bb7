/* SPDX-License-Identifier: MIT */
#include "io/memo.h"
#include "io/file.h"
#include "testing.h"
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

static atvi_ctx *ctx;
static atvi_pool *pool;
static char folder[64];
static const char *path;
static bool stop;
static int warned;

static bool stop_asked(void *user) {
  (void)user;
  return stop;
}

static void on_log(void *user, atvi_log_level level, const char *line) {
  (void)user;
  (void)line;
  warned += level == ATVI_LOG_WARN;
}

static void begin(void) {
  ctx = test_ctx();
  CHECK_OK(atvi_pool_new(ctx, &pool));
  atvi_ctx_set_stop(ctx, stop_asked, NULL);
  atvi_ctx_set_log(ctx, on_log, NULL);
  snprintf(folder, sizeof folder, "/tmp/atvi-test-memo-XXXXXX");
  CHECK(mkdtemp(folder) != NULL);
  path = atvi_pool_printf(pool, "%s/checkpoint", folder);
}

static void end(void) {
  char command[200];
  snprintf(command, sizeof command, "rm -r %s", folder);
  CHECK(system(command) == 0);
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static atvi_memo *open_at(double every_s) {
  atvi_memo *m;
  CHECK_OK(atvi_io_memo_open(ctx, path, every_s, &m));
  const char *was = atvi_io_memo_about(m);
  CHECK_OK(atvi_io_memo_start(m, "model a\ndata b\n", !was, true));
  return m;
}

static size_t file_size(void) {
  char *text;
  size_t n;
  CHECK_OK(atvi_io_file_read(pool, path, &text, &n));
  return n;
}

static atvi_memo_key key_of(const char *text) {
  return atvi_io_memo_key((atvi_memo_key){{0}}, text, strlen(text));
}

/* ---- entries ---- */

static void entries_are_found_again(void) {
  begin();
  double x[5] = {2.385, -0.731, NAN, -HUGE_VAL, 4.19}, y[5];
  atvi_memo *m = open_at(1000);
  CHECK(!atvi_io_memo_get(m, key_of("point"), y, sizeof y));
  atvi_io_memo_put(m, true, key_of("point"), x, sizeof x);
  atvi_io_memo_put(m, true, key_of("other"), "abc", 3);
  atvi_io_memo_put(m, true, key_of("nothing"), NULL, 0);
  atvi_io_memo_close(m, false);
  for (int k = 0; k < 3; k++) { /* what is known stays, however often it is interrupted */
    m = open_at(1000);
    CHECK_STR(atvi_io_memo_about(m), "model a\ndata b\n");
    CHECK(atvi_io_memo_seconds(m) > 0);
    CHECK(atvi_io_memo_get(m, key_of("point"), y, sizeof y));
    CHECK_INT(memcmp(x, y, sizeof x), 0);
    CHECK(atvi_io_memo_get(m, key_of("other"), y, 3) && memcmp(y, "abc", 3) == 0);
    CHECK(atvi_io_memo_get(m, key_of("nothing"), y, 0));
    CHECK(!atvi_io_memo_get(m, key_of("point"), y, sizeof y - 8));
    CHECK(!atvi_io_memo_get(m, key_of("Point"), y, sizeof y));
    atvi_io_memo_close(m, false);
  }
  CHECK_OK(atvi_io_memo_open(ctx, path, 1000, &m));
  CHECK_OK(atvi_io_memo_start(m, "model c", true, true));
  CHECK(!atvi_io_memo_get(m, key_of("point"), y, sizeof y));
  atvi_io_memo_close(m, true);
  CHECK(access(path, F_OK) != 0);
  end();
}

static void keys_tell_bytes_apart(void) {
  double x[3] = {0.731, 4.19, 2.385};
  atvi_memo_key zero = {{0}}, all = atvi_io_memo_key(zero, x, sizeof x),
                again = atvi_io_memo_key(zero, x, sizeof x);
  CHECK(memcmp(&all, &again, sizeof all) == 0);
  for (size_t i = 0; i < sizeof x; i++)
    for (int bit = 0; bit < 8; bit++) {
      ((unsigned char *)x)[i] ^= (unsigned char)(1 << bit);
      again = atvi_io_memo_key(zero, x, sizeof x);
      CHECK(all.word[0] != again.word[0] && all.word[1] != again.word[1]);
      ((unsigned char *)x)[i] ^= (unsigned char)(1 << bit);
    }
  again = atvi_io_memo_key(zero, x, sizeof x - 1);
  CHECK(all.word[0] != again.word[0]);
}

static void nothing_is_kept_without_one(void) {
  double x = 1;
  atvi_io_memo_put(NULL, true, key_of("a"), &x, sizeof x);
  CHECK(!atvi_io_memo_get(NULL, key_of("a"), &x, sizeof x));
  CHECK(!atvi_io_stretch_begin(NULL, &(atvi_stretch){.name = "a"}));
  atvi_io_stretch_mark(NULL, NULL);
  atvi_io_stretch_end(NULL, true);
  CHECK(atvi_io_memo_seconds(NULL) == 0);
  atvi_io_memo_close(NULL, true);
}

/* ---- stretches ---- */

typedef struct {
  int from, n;
  double sum, scratch[100];
} counting;

static void counting_state(void *self, atvi_state *s) {
  counting *c = self;
  ATVI_STATE(s, c->from);
  ATVI_STATE(s, c->n);
  ATVI_STATE(s, c->sum);
  if (!atvi_io_state_ended(s)) ATVI_STATE(s, c->scratch);
}

/* Sums 1/i for 100 values from `from` on, and stops before the one numbered `until`. Returns how many it
 * added. */
static int count(atvi_memo *m, counting *c, int until, bool lean) {
  int added = 0;
  if (atvi_io_stretch_begin(m, &(atvi_stretch){"count", counting_state, c, lean})) return 0;
  for (; c->n < 100 && c->n < until; c->n++, added++) {
    atvi_io_stretch_mark(m, c);
    c->scratch[c->n] = 1.0 / (c->from + c->n);
    c->sum += c->scratch[c->n];
    double value[50] = {c->sum};
    atvi_memo_key key = atvi_io_memo_key(key_of("value"), &c->sum, sizeof c->sum);
    atvi_io_memo_put(m, true, key, value, sizeof value);
  }
  atvi_io_stretch_end(m, c->n == 100);
  return added;
}

static void stretches_go_on_from_their_mark(void) {
  begin();
  counting whole = {.from = 7}, c = {.from = 7}, other = {.from = 8};
  CHECK_INT(count(NULL, &whole, 100, false), 100);
  atvi_memo *m = open_at(1000);
  CHECK_INT(count(m, &c, 40, false), 40);
  atvi_io_memo_close(m, false);
  size_t marked = file_size();
  CHECK(marked < 3000); /* the last state and one evaluation, not forty */
  for (int until = 50; until <= 100; until += 10) {
    m = open_at(1000);
    c = (counting){.from = 7};
    CHECK_INT(count(m, &c, until, false), 11); /* the one after the mark is done again */
    atvi_io_memo_close(m, false);
    CHECK(until == 100 || file_size() == marked);
  }
  CHECK(c.sum == whole.sum);
  CHECK(file_size() < marked);
  m = open_at(1000);
  c = (counting){.from = 7};
  CHECK_INT(count(m, &c, 100, false), 0);
  CHECK(c.sum == whole.sum && c.n == 100);
  CHECK_INT(count(m, &other, 100, false), 100); /* another beginning is another stretch */
  atvi_io_memo_close(m, false);
  end();
}

static void lean_stretches_keep_no_evaluations(void) {
  begin();
  counting c = {.from = 3}, whole = {.from = 3};
  count(NULL, &whole, 100, true);
  atvi_memo *m = open_at(1000);
  CHECK_INT(count(m, &c, 40, true), 40);
  atvi_io_memo_close(m, false);
  size_t empty = file_size();
  m = open_at(0); /* always due */
  c = (counting){.from = 3};
  CHECK_INT(count(m, &c, 60, true), 60); /* there was no mark */
  atvi_io_memo_close(m, false);
  CHECK(file_size() > empty);
  m = open_at(1000);
  c = (counting){.from = 3};
  CHECK_INT(count(m, &c, 100, true), 41);
  CHECK(c.sum == whole.sum);
  atvi_io_memo_close(m, false);
  end();
}

static void one_inside_another_is_part_of_it(void) {
  begin();
  counting outer = {.from = 5}, inner = {.from = 9};
  atvi_memo *m = open_at(1000);
  CHECK(!atvi_io_stretch_begin(m, &(atvi_stretch){"outer", counting_state, &outer, false}));
  CHECK_INT(count(m, &inner, 100, false), 100);
  outer.sum = inner.sum;
  atvi_io_stretch_end(m, true);
  atvi_io_stretch_mark(m, &outer); /* it is over */
  atvi_io_memo_close(m, false);
  m = open_at(1000);
  double sum = outer.sum;
  outer = (counting){.from = 5};
  CHECK(atvi_io_stretch_begin(m, &(atvi_stretch){"outer", counting_state, &outer, false}));
  CHECK(outer.sum == sum);
  inner = (counting){.from = 9};
  CHECK_INT(count(m, &inner, 100, false), 100); /* by itself it is not known */
  atvi_io_memo_close(m, false);
  end();
}

static void short_state(void *self, atvi_state *s) {
  counting *c = self;
  ATVI_STATE(s, c->from);
  if (c->n > 0) ATVI_STATE(s, c->sum);
}

static void longer_state(void *self, atvi_state *s) {
  counting *c = self;
  ATVI_STATE(s, c->from);
  if (c->n == 0) ATVI_STATE(s, c->n);
}

/* The same beginning, and then a state that does not fit: it begins, as it was. */
static void a_state_that_does_not_fit_is_not_taken(void) {
  begin();
  counting c = {.from = 5, .sum = 1.25};
  atvi_memo *m = open_at(1000);
  CHECK(!atvi_io_stretch_begin(m, &(atvi_stretch){"odd", short_state, &c, false}));
  c.n = 3;
  c.sum = 2.5;
  atvi_io_stretch_end(m, true);
  atvi_io_memo_close(m, false);
  m = open_at(1000);
  c = (counting){.from = 5, .sum = 1.25};
  CHECK(!atvi_io_stretch_begin(m, &(atvi_stretch){"odd", short_state, &c, false}));
  CHECK(c.from == 5 && c.n == 0 && c.sum == 1.25);
  atvi_io_stretch_end(m, false);
  CHECK(!atvi_io_stretch_begin(m, &(atvi_stretch){"odd", longer_state, &c, false}));
  atvi_io_stretch_end(m, false);
  atvi_io_memo_close(m, false);
  end();
}

/* ---- the file ---- */

static void it_is_written_when_due_and_on_a_stop(void) {
  begin();
  double x = 2.385;
  atvi_memo *m = open_at(1000);
  size_t first = file_size();
  atvi_io_memo_put(m, true, key_of("a"), &x, sizeof x);
  CHECK_INT(file_size(), first);
  stop = true;
  atvi_io_memo_put(m, false, key_of("b"), &x, sizeof x); /* another thread does not */
  CHECK_INT(file_size(), first);
  atvi_io_memo_put(m, true, key_of("c"), &x, sizeof x);
  size_t second = file_size();
  CHECK(second > first);
  atvi_io_memo_put(m, true, key_of("d"), &x, sizeof x); /* once */
  CHECK_INT(file_size(), second);
  stop = false;
  atvi_io_memo_close(m, true);
  m = open_at(0);
  atvi_io_memo_put(m, true, key_of("a"), &x, sizeof x);
  CHECK(file_size() > first);
  atvi_io_memo_close(m, true);
  end();
}

static void refuse(const char *text, size_t n, const char *reason) {
  atvi_memo *m = NULL;
  CHECK_OK(atvi_io_file_save(ctx, path, text, n));
  CHECK_STATUS(atvi_io_memo_open(ctx, path, 1, &m), ATVI_EDATA);
  CHECK(m == NULL);
  CHECK_MSG(strstr(atvi_errmsg(ctx), reason) != NULL, "'%s' lacks '%s'", atvi_errmsg(ctx), reason);
}

static void damaged_files_are_refused(void) {
  begin();
  counting c = {.from = 7};
  atvi_memo *m = open_at(1000);
  count(m, &c, 40, false);
  atvi_io_memo_close(m, false);
  char *text;
  size_t n;
  CHECK_OK(atvi_io_file_read(pool, path, &text, &n));
  for (size_t k = 0; k < n; k += k < 80 ? 1 : 37)
    refuse(text, k, k < 56 ? "it does not begin like one" : "it is incomplete, or was changed");
  for (size_t k = 24; k < n; k += 41) {
    text[k] ^= 4;
    refuse(text, n, "it is incomplete, or was changed");
    text[k] ^= 4;
  }
  text[16] ^= 1; /* the layout */
  refuse(text, n, "another version of atvi, or on another kind of machine");
  text[16] ^= 1;
  CHECK_OK(atvi_io_file_save(ctx, path, text, n));
  CHECK_OK(atvi_io_memo_open(ctx, path, 1, &m));
  atvi_io_memo_close(m, false); /* not started: nothing is written */
  CHECK_INT(file_size(), n);
  end();
}

static void a_file_that_cannot_be_written_is_told_once(void) {
  begin();
  counting c = {.from = 7}, whole = {.from = 7};
  count(NULL, &whole, 100, false);
  path = atvi_pool_printf(pool, "%s/none/checkpoint", folder);
  atvi_memo *m = open_at(0);
  CHECK_INT(count(m, &c, 100, false), 100);
  CHECK(c.sum == whole.sum);
  CHECK_INT(warned, 1);
  atvi_io_memo_close(m, false);
  CHECK_INT(warned, 1);
  end();
}

/* More entries than one thread makes room for, from all of them. */
static void put_item(void *arg, atvi_idx i, int worker) {
  double x[40] = {(double)i};
  atvi_io_memo_put(arg, worker == 0, atvi_io_memo_key(key_of("item"), &i, sizeof i), x, sizeof x);
}

static void threads_put_at_once(void) {
  begin();
  atvi_ctx_set_threads(ctx, 4);
  atvi_memo *m = open_at(0.001);
  atvi_parallel(ctx, 20000, put_item, m);
  atvi_io_memo_close(m, false);
  m = open_at(1000);
  atvi_idx found = 0;
  for (atvi_idx i = 0; i < 20000; i++) {
    double x[40];
    if (!atvi_io_memo_get(m, atvi_io_memo_key(key_of("item"), &i, sizeof i), x, sizeof x)) continue;
    CHECK(x[0] == (double)i);
    found++;
  }
  CHECK(found > 100); /* there is room for those at once, and for more once the first thread has made it */
  atvi_io_memo_close(m, true);
  end();
}

static void memory_failures_are_told(void) {
  begin();
  atvi_memo *m = open_at(1000);
  counting c = {.from = 7};
  count(m, &c, 40, false);
  atvi_io_memo_close(m, false);
  long live = test_live;
  for (long k = 1;; k++) {
    test_fail_at = test_allocs + k;
    atvi_status status = atvi_io_memo_open(ctx, path, 1000, &m);
    test_fail_at = 0;
    if (status == ATVI_OK) break;
    CHECK_STATUS(status, ATVI_ENOMEM);
    CHECK(m == NULL && test_live == live && k < 100);
  }
  atvi_io_memo_close(m, true);
  end();
}

/* A state beside the computation is that of the last time the file was written. */
static void what_is_attached_comes_back(void) {
  begin();
  counting c = {.from = 3, .n = 5, .sum = 2.385}, back = {0}, none = {0};
  atvi_memo *m = open_at(1000);
  CHECK(!atvi_io_memo_attach(m, counting_state, &c));
  c.n = 7;
  atvi_io_memo_close(m, false);
  size_t size = file_size();
  for (int k = 0; k < 2; k++) {
    m = open_at(0);
    CHECK(atvi_io_memo_attach(m, counting_state, &back));
    CHECK(back.from == 3 && back.n == 7 + k && back.sum == 2.385);
    back.n++;
    atvi_io_memo_close(m, false);
    CHECK_INT(file_size(), size);
  }
  CHECK(!atvi_io_memo_attach(NULL, counting_state, &none));
  end();
}

/* All of many evaluations is found again; while they come, a file that has become large is not written at
 * every turn. */
static void a_large_file_is_written_less_often(void) {
  enum { BYTES = 1 << 20, N = 80 };
  begin();
  atvi_memo *m = open_at(0);
  char *x = atvi_pool_take(pool, BYTES, 1), name[16];
  memset(x, 42, BYTES);
  size_t most = 0, written = 0;
  int times = 0;
  for (int i = 0; i < N; i++) {
    struct stat st;
    snprintf(name, sizeof name, "%d", i);
    atvi_io_memo_put(m, true, key_of(name), x, BYTES);
    CHECK(stat(path, &st) == 0);
    if ((size_t)st.st_size > written) times++, written = (size_t)st.st_size;
    most += BYTES;
  }
  CHECK(times >= 1 && times < N / 2);
  stop = true;
  atvi_io_memo_put(m, true, key_of("last"), x, BYTES);
  stop = false;
  CHECK(file_size() > most);
  atvi_io_memo_close(m, false);
  m = open_at(1000);
  for (int i = 0; i < N; i++) {
    snprintf(name, sizeof name, "%d", i);
    CHECK(atvi_io_memo_get(m, key_of(name), x, BYTES));
  }
  atvi_io_memo_close(m, true);
  end();
}

TESTS({"attached", what_is_attached_comes_back}, {"large", a_large_file_is_written_less_often},
      {"entries", entries_are_found_again}, {"keys", keys_tell_bytes_apart},
      {"none", nothing_is_kept_without_one}, {"stretches", stretches_go_on_from_their_mark},
      {"lean", lean_stretches_keep_no_evaluations}, {"inside", one_inside_another_is_part_of_it},
      {"fit", a_state_that_does_not_fit_is_not_taken}, {"due", it_is_written_when_due_and_on_a_stop},
      {"damaged", damaged_files_are_refused}, {"unwritable", a_file_that_cannot_be_written_is_told_once},
      {"threads", threads_put_at_once}, {"memory", memory_failures_are_told})
