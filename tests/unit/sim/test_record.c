/* SPDX-License-Identifier: MIT */
#include "sim/record.h"
#include "io/file.h"
#include "testing.h"
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static atvi_ctx *ctx;
static char path[64], warned[1024];

static void on_log(void *user, atvi_log_level level, const char *line) {
  (void)user;
  if (level == ATVI_LOG_WARN) snprintf(warned, sizeof warned, "%s", line);
}

static void begin(void) {
  ctx = test_ctx();
  warned[0] = 0;
  atvi_ctx_set_log(ctx, on_log, NULL);
  strcpy(path, "/tmp/atvi_recXXXXXX");
  CHECK(mkdtemp(path));
  strcat(path, "/runs.jsonl");
}

static void end(void) {
  unlink(path);
  *strrchr(path, '/') = 0;
  rmdir(path);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static const char *const PARAM[] = {"k", "theta.1"}, *const OUTPUT[] = {"flow", "peak"};
static const atvi_sim_shape SHAPE = {2, 2, PARAM, OUTPUT, "./sim {k}"};

static atvi_sim_record *open_record(void) {
  atvi_sim_record *r;
  CHECK_OK(atvi_sim_record_open(ctx, path, &SHAPE, &r));
  return r;
}

static atvi_status read_runs(atvi_pool *pool, const char *from, atvi_idx lines, const char *output,
                             atvi_idx d, const char *const *param, atvi_sim_runs *out) {
  return atvi_sim_runs_read(pool, from, lines, 1, &(atvi_sim_want){output, d, param}, out);
}

static void add(atvi_sim_record *r, int64_t id, bool ok) {
  double x[2] = {0.1 * (double)id, -1e-300 / 3}, t[3] = {1, 2.5, 4}, v[3] = {0.1 + (double)id, 2e20, -3};
  atvi_sim_series out[2] = {{3, t, v}, {1, NULL, v}};
  atvi_sim_run run = {.id = id, .x = x, .ok = ok, .out = out, .seconds = 1.5, .attempts = 1};
  if (!ok) run.reason = "ended with \"status\" 3\n\xff", run.log = "bye\tbye\\\n";
  CHECK_OK(atvi_sim_record_add(r, &run));
}

/* The last line of a log is the reason of a program that ended badly; points that fail again are counted,
 * until they are good. */
static void failures_have_their_words(void) {
  static const double x[2] = {1, 2};
  begin();
  atvi_sim_record *r = open_record();
  atvi_sim_run run = {.id = 4, .x = x, .attempts = 1, .reason = "ended with status 1", .ended = true};
  add(r, 1, true);
  run.log = "step 1\nno convergence\a \n\n";
  CHECK_OK(atvi_sim_record_add(r, &run));
  run.id = 5, run.reason = "flow: there is no file a.csv", run.ended = false;
  CHECK_OK(atvi_sim_record_add(r, &run));
  run.id = 6, run.reason = "ended with status 1", run.ended = true, run.log = "", run.attempts = 3;
  CHECK_OK(atvi_sim_record_add(r, &run));
  add(r, 7, false);
  add(r, 7, false);
  add(r, 7, true);
  atvi_pool *pool;
  atvi_sim_runs runs;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  CHECK_OK(read_runs(pool, path, 0, "flow", 2, PARAM, &runs));
  CHECK_INT(runs.n, 2);
  CHECK(runs.n_failed == 3 && runs.n_again == 1);
  CHECK_STR(runs.left[0].reason, "ended with status 1: no convergence?");
  CHECK_STR(runs.left[1].reason, "flow: there is no file a.csv");
  CHECK_STR(runs.left[2].reason, "ended with status 1");
  CHECK_STR(runs.failure, "run 4: ended with status 1: no convergence?");
  run.id = 4, run.attempts = 1;
  CHECK_OK(atvi_sim_record_add(r, &run));
  CHECK_OK(read_runs(pool, path, 0, "flow", 2, PARAM, &runs));
  CHECK(runs.n_failed == 3 && runs.n_again == 2);
  atvi_sim_record_free(r);
  atvi_pool_free(pool);
  end();
}

static void runs_come_back_to_the_bit(void) {
  begin();
  atvi_sim_record *r = open_record();
  add(r, 3, true);
  add(r, 1, true);
  add(r, 2, false);
  add(r, 7, false);
  add(r, 7, true); /* done again */
  CHECK_INT(atvi_sim_record_count(r, true), 3);
  atvi_sim_record_free(r);
  atvi_pool *pool;
  atvi_sim_runs runs;
  static const char *const swapped[] = {"theta.1", "k"};
  CHECK_OK(atvi_pool_new(ctx, &pool));
  CHECK_OK(read_runs(pool, path, 0, "flow", 2, swapped, &runs));
  CHECK(runs.n == 3 && runs.d == 2 && runs.m == 3 && runs.n_failed == 1);
  CHECK(runs.id[0] == 1 && runs.id[1] == 3 && runs.id[2] == 7);
  CHECK(runs.x[0] == -1e-300 / 3 && runs.x[3] == 0.1 * 3 && runs.y[3] == 0.1 + 3 && runs.y[4] == 2e20);
  CHECK(runs.time[1] == 2.5);
  CHECK(strncmp(runs.failure, "run 2: ended with \"status\" 3", 28) == 0);
  CHECK(runs.left[0].id == 2 && runs.left[0].x[0] == -1e-300 / 3 && runs.left[0].x[1] == 0.1 * 2);
  CHECK(strncmp(runs.left[0].reason, "ended with \"status\" 3", 21) == 0);
  CHECK(runs.n_timed == 5 && runs.seconds == 7.5); /* one was done twice */
  CHECK_OK(read_runs(pool, path, 0, "peak", 1, PARAM, &runs));
  CHECK(runs.m == 1 && !runs.time && runs.y[2] == 0.1 + 7);
  /* both at once, at parameters of their own */
  atvi_sim_runs both[2];
  const atvi_sim_want want[2] = {{"peak", 1, PARAM}, {"flow", 2, swapped}};
  CHECK_OK(atvi_sim_runs_read(pool, path, 0, 2, want, both));
  CHECK(both[0].n == 3 && both[0].d == 1 && both[0].m == 1 && both[0].x[1] == 0.1 * 3);
  CHECK(both[1].n == 3 && both[1].m == 3 && both[1].x[0] == -1e-300 / 3 && both[1].x[3] == 0.1 * 3);
  CHECK(both[0].y[2] == 0.1 + 7 && both[1].y[3] == 0.1 + 3 && !both[0].time && both[1].time[1] == 2.5);
  CHECK(both[0].left[0].x[0] == 0.1 * 2 && both[1].left[0].x[0] == -1e-300 / 3);
  r = open_record();
  const atvi_sim_run *k = atvi_sim_record_find(r, 2);
  CHECK(k && !k->ok && k->x[0] == 0.1 * 2);
  CHECK_STR(k->log, "bye\tbye\\\n");
  CHECK(!atvi_sim_record_find(r, 4) && !atvi_sim_record_find(r, 0) && !atvi_sim_record_find(r, 1 << 30));
  CHECK_STR(warned, "");
  CHECK_STATUS(atvi_sim_record_add(r, &(atvi_sim_run){.id = 0}), ATVI_EINVAL);
  atvi_sim_record_free(r);
  atvi_pool_free(pool);
  end();
}

/* Whoever came first: the same runs on the same times. Run 5 was short at first and was done again. */
static void order_does_not_matter(void) {
  static const int64_t order[2][6] = {{1, 2, 5, 3, 4, 5}, {5, 5, 4, 3, 2, 1}};
  double t[3] = {1, 2.5, 4}, off[3] = {1, 2.5, 4.5}, near_[3] = {1, 2.5 + 1e-7, 4}, v[3] = {0.7, 2e20, -3};
  for (int k = 0; k < 2; k++) {
    begin();
    atvi_sim_record *r = open_record();
    bool again = false;
    for (int i = 0; i < 6; i++) {
      int64_t id = order[k][i];
      double x[2] = {0.1 * (double)id, 3};
      atvi_sim_series out[2] = {{3, id == 1 ? off : id == 4 ? near_ : t, v}, {1, NULL, v}};
      if (id == 2 || (id == 5 && !again)) out[0].n = 2;
      again = again || id == 5;
      CHECK_OK(atvi_sim_record_add(r, &(atvi_sim_run){.id = id, .x = x, .ok = true, .out = out}));
    }
    atvi_idx other;
    CHECK_INT(atvi_sim_record_count(r, true), 5);
    CHECK_OK(atvi_sim_record_settle(r, &other));
    CHECK(other == 2 && atvi_sim_record_count(r, true) == 3 && !atvi_sim_record_find(r, 1)->ok);
    CHECK_STR(atvi_sim_record_find(r, 1)->reason,
              "at other times than most runs: flow: time 3 is 4.5, but 4 in run 3");
    CHECK(atvi_sim_record_find(r, 5)->ok && !atvi_sim_record_find(r, 5)->reason);
    atvi_sim_record_free(r);
    atvi_pool *pool;
    atvi_sim_runs runs;
    CHECK_OK(atvi_pool_new(ctx, &pool));
    CHECK_OK(read_runs(pool, path, 0, "flow", 2, PARAM, &runs));
    CHECK(runs.n == 3 && runs.m == 3 && runs.id[0] == 3 && runs.id[1] == 4 && runs.id[2] == 5);
    CHECK(runs.time[1] == 2.5 && runs.time[2] == 4 && runs.n_failed == 2);
    CHECK_STR(runs.failure, "runs 1, 2: at other times than most runs: flow: time 3 is 4.5, but 4 in run 3");
    CHECK(runs.left[0].id == 1 && runs.left[1].id == 2 && runs.left[1].x[0] == 0.1 * 2);
    CHECK_STR(runs.left[1].reason, "at other times than most runs: flow: 2 values, but run 3 has 3");
    /* the other output has no times, but runs that are told as failed are so for every emulator */
    CHECK_OK(read_runs(pool, path, 0, "peak", 2, PARAM, &runs));
    CHECK(runs.n == 3 && runs.m == 1 && !runs.time && runs.id[0] == 3 && runs.n_failed == 2);
    CHECK(strstr(runs.failure, "runs 1, 2: at other times than most runs: flow"));
    atvi_pool_free(pool);
    end();
  }
}

/* Of equally many the longer ones, then those of the smallest id. */
static void a_draw_is_decided(void) {
  double x[2] = {1, 2}, v[3] = {0.7, 2e20, -3}, t[2][2] = {{1, 2}, {1, 3}};
  begin();
  atvi_sim_record *r = open_record();
  for (int64_t id = 5; id >= 1; id--) {
    atvi_sim_series out[2] = {{id == 1 ? 1 : 2, id == 1 ? NULL : t[id % 2], v}, {1, NULL, v}};
    CHECK_OK(atvi_sim_record_add(r, &(atvi_sim_run){.id = id, .x = x, .ok = true, .out = out}));
    atvi_idx other;
    CHECK_OK(atvi_sim_record_settle(r, &other));
    if (id == 4) CHECK(other == 1 && atvi_sim_record_find(r, 4)->ok);
    if (id == 2) CHECK(other == 2 && atvi_sim_record_find(r, 2)->ok && atvi_sim_record_find(r, 4)->ok);
    if (id == 1) CHECK(other == 3 && !atvi_sim_record_find(r, 1)->ok);
  }
  atvi_sim_record_free(r);
  end();
}

/* Cut anywhere, the record has the whole lines before the cut, also that which lacks nothing but its line
 * end, and takes new ones. */
static void a_cut_line_is_removed(void) {
  begin();
  atvi_sim_record *r = open_record();
  add(r, 1, true);
  add(r, 2, false);
  add(r, 3, true);
  atvi_sim_record_free(r);
  atvi_pool *pool;
  char *text;
  size_t n;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  CHECK_OK(atvi_io_file_read(pool, path, &text, &n));
  for (size_t cut = 0; cut <= n; cut++) {
    int lines = -1; /* the first is no run */
    for (size_t i = 0; i <= cut && i < n; i++) lines += text[i] == '\n';
    CHECK_OK(atvi_io_file_save(ctx, path, text, cut));
    atvi_sim_runs runs;
    CHECK_STATUS(read_runs(pool, path, 0, "flow", 2, PARAM, &runs), lines < 1 ? ATVI_EDATA : ATVI_OK);
    r = open_record();
    CHECK_INT(atvi_sim_record_count(r, true) + atvi_sim_record_count(r, false), lines < 0 ? 0 : lines);
    add(r, 9, true);
    atvi_sim_record_free(r);
    r = open_record();
    CHECK(atvi_sim_record_find(r, 9) && atvi_sim_record_find(r, 9)->ok);
    atvi_sim_record_free(r);
  }
  /* runs whose line ends were lost, all or the last but one: refused, not thrown away */
  CHECK_OK(atvi_io_file_save(ctx, path, text, n));
  for (size_t i = n; i-- > 0;) {
    if (text[i] != '\n') continue;
    text[i] = ' ';
    if (i == n - 1) continue;
    CHECK_OK(atvi_io_file_save(ctx, path, text, n));
    CHECK_STATUS(atvi_sim_record_open(ctx, path, &SHAPE, &r), ATVI_EDATA);
    char *now;
    size_t size;
    CHECK_OK(atvi_io_file_read(pool, path, &now, &size));
    CHECK(size == n && memcmp(now, text, n) == 0);
  }
  static const char other[] = "my own notes";
  CHECK_OK(atvi_io_file_save(ctx, path, other, strlen(other)));
  CHECK_STATUS(atvi_sim_record_open(ctx, path, &SHAPE, &r), ATVI_EDATA);
  CHECK_OK(atvi_io_file_read(pool, path, &text, &n));
  CHECK_STR(text, other);
  atvi_pool_free(pool);
  end();
}

static void only_one_writes(void) {
  begin();
  atvi_sim_record *r = open_record(), *other;
  CHECK_STATUS(atvi_sim_record_open(ctx, path, &SHAPE, &other), ATVI_EEXIST);
  CHECK(!other && strstr(atvi_errmsg(ctx), "another atvi"));
  add(r, 1, true);
  atvi_pool *pool;
  atvi_sim_runs runs;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  CHECK_OK(read_runs(pool, path, 0, "flow", 2, PARAM, &runs)); /* while it is being written */
  CHECK_INT(runs.n, 1);
  atvi_pool_free(pool);
  atvi_sim_record_free(r);
  end();
}

static void another_simulator_is_noticed(void) {
  begin();
  atvi_sim_record *r = open_record();
  add(r, 1, true);
  atvi_sim_record_free(r);
  atvi_sim_shape s = SHAPE;
  s.program = "./sim --fast {k}";
  CHECK_OK(atvi_sim_record_open(ctx, path, &s, &r));
  CHECK(strstr(warned, "in another folder"));
  atvi_sim_record_free(r);
  warned[0] = 0;
  CHECK_OK(atvi_sim_record_open(ctx, path, &s, &r)); /* told as long as there are such runs */
  CHECK(strstr(warned, "1 good runs were done with another command"));
  add(r, 2, true);
  atvi_sim_record_free(r);
  atvi_pool *pool;
  atvi_sim_runs runs;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  CHECK_OK(read_runs(pool, path, 0, "flow", 2, PARAM, &runs));
  CHECK(runs.n == 2 && runs.n_other == 1 && runs.lines == 4);
  CHECK_OK(read_runs(pool, path, 2, "flow", 2, PARAM, &runs)); /* as it was */
  CHECK(runs.n == 1 && runs.n_other == 0 && runs.lines == 2);
  CHECK_STATUS(read_runs(pool, path, 5, "flow", 2, PARAM, &runs), ATVI_EDATA);
  CHECK(strstr(atvi_errmsg(ctx), "has 4 lines, but had 5"));
  atvi_pool_free(pool);
  CHECK_OK(atvi_sim_record_open(ctx, path, &s, &r));
  add(r, 1, true); /* done again */
  atvi_sim_record_free(r);
  warned[0] = 0;
  CHECK_OK(atvi_sim_record_open(ctx, path, &s, &r));
  CHECK_STR(warned, "");
  atvi_sim_record_free(r);
  s.d = 1;
  CHECK_STATUS(atvi_sim_record_open(ctx, path, &s, &r), ATVI_EINVAL);
  CHECK(strstr(atvi_errmsg(ctx), "other parameters"));
  s = SHAPE;
  s.n_output = 1;
  CHECK_STATUS(atvi_sim_record_open(ctx, path, &s, &r), ATVI_EINVAL);
  CHECK(!r && strstr(atvi_errmsg(ctx), "other outputs"));
  end();
}

#define OK_LINE(time, value)                                                                                 \
  "{\"id\":1,\"outcome\":\"ok\",\"parameters\":{\"k\":1,\"theta.1\":2},\"outputs\":{\"flow\":{"              \
  "\"time\":" time ",\"value\":" value "},\"peak\":{\"value\":[1]}}}\n"

/* Written by others, with blanks, and brackets in texts. */
static void lists_are_read_however_they_stand(void) {
  static const char text[] =
      "{\"record\":\"atvi runs\",\"parameters\":[\"k\"],\"outputs\":[\"flow\"],\"program\":\"[1,2] \\\" "
      "[3\"}\n"
      "{\"id\": 1, \"log\": \"[5,6]\", \"outcome\": \"ok\", \"parameters\": {\"k\": 1.5}, \"outputs\": "
      "{\"flow\": "
      "{\"value\": [1, 2.5e0 ,-3E-2], \"time\": [1,2 , 4]}}}\n";
  static const char *const k[] = {"k"};
  begin();
  CHECK_OK(atvi_io_file_save(ctx, path, text, strlen(text)));
  atvi_pool *pool;
  atvi_sim_runs runs;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  CHECK_OK(read_runs(pool, path, 0, NULL, 1, k, &runs));
  CHECK(runs.n == 1 && runs.m == 3 && runs.x[0] == 1.5 && runs.y[1] == 2.5 && runs.y[2] == -3e-2);
  CHECK(runs.time[0] == 1 && runs.time[2] == 4);
  atvi_pool_free(pool);
  end();
}

static void wrong_files_are_told(void) {
  static const char head[] = "{\"record\":\"atvi runs\",\"version\":1,\"parameters\":[\"k\",\"theta.1\"],"
                             "\"outputs\":[\"flow\",\"peak\"],\"program\":\"./sim {k}\"}\n";
  static const char *const line[] = {
      "garbage\n",
      "[1]\n",
      "{\"id\":0,\"outcome\":\"ok\",\"parameters\":{}}\n",
      "{\"id\":1}\n",
      "{\"id\":1,\"outcome\":\"ok\",\"parameters\":{\"k\":1,\"theta.1\":2},\"outputs\":{}}\n",
      "\n"};
  begin();
  atvi_pool *pool;
  atvi_sim_record *r;
  atvi_sim_runs runs;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  CHECK_STATUS(read_runs(pool, path, 0, "flow", 2, PARAM, &runs), ATVI_EIO);
  CHECK_INT(atvi_errcode(ctx), ATVI_CODE_RUNS_NONE);
  for (size_t i = 0; i < sizeof line / sizeof line[0]; i++) {
    char text[1000];
    snprintf(text, sizeof text, "%s%s", head, line[i]);
    CHECK_OK(atvi_io_file_save(ctx, path, text, strlen(text)));
    CHECK_STATUS(atvi_sim_record_open(ctx, path, &SHAPE, &r), ATVI_EDATA);
    CHECK_MSG(!r && strstr(atvi_errmsg(ctx), "runs.jsonl:2:1: error:"), "%s", atvi_errmsg(ctx));
    CHECK_STATUS(read_runs(pool, path, 0, "flow", 2, PARAM, &runs), ATVI_EDATA);
    CHECK(runs.n == 0 && strstr(atvi_errmsg(ctx), "runs.jsonl:2:1: error:"));
  }
  CHECK_OK(atvi_io_file_save(ctx, path, "{\"id\":1}\n", 9));
  CHECK_STATUS(atvi_sim_record_open(ctx, path, &SHAPE, &r), ATVI_EDATA);
  CHECK_STATUS(read_runs(pool, path, 0, NULL, 2, PARAM, &runs), ATVI_EDATA);
  CHECK_OK(atvi_io_file_save(ctx, path, head, strlen(head)));
  CHECK_STATUS(read_runs(pool, path, 0, "flow", 2, PARAM, &runs), ATVI_EDATA);
  CHECK(strstr(atvi_errmsg(ctx), "no run of the simulator is good"));
  CHECK_STATUS(read_runs(pool, path, 0, "level", 2, PARAM, &runs), ATVI_EDATA);
  CHECK(strstr(atvi_errmsg(ctx), "no output level; they have flow, peak"));
  CHECK_STATUS(read_runs(pool, path, 0, NULL, 2, PARAM, &runs), ATVI_EDATA);
  CHECK_STATUS(read_runs(pool, path, 0, "flow", 2, OUTPUT, &runs), ATVI_EDATA);
  CHECK(strstr(atvi_errmsg(ctx), "no parameter flow: "));
  CHECK_INT(atvi_errcode(ctx), ATVI_CODE_RUNS_OTHER);
  atvi_pool_free(pool);
  CHECK_STATUS(atvi_sim_record_open(ctx, "/nowhere/at/all", &SHAPE, &r), ATVI_EIO);
  end();
}

/* A full disk: what was there stays, and there is room again afterwards. */
static void a_full_disk_damages_nothing(void) {
  begin();
  char dir[64];
  snprintf(dir, sizeof dir, "%s", path);
  *strrchr(dir, '/') = 0;
  if (geteuid() != 0 || mount("none", dir, "tmpfs", 0, "size=16k") != 0) {
    end();
    return; /* needs root */
  }
  atvi_sim_record *r = open_record();
  int64_t id = 0;
  double x[2] = {1, 2}, v[100] = {0.1, 0.2};
  atvi_sim_series out[2] = {{100, NULL, v}, {1, NULL, v}};
  atvi_status status = ATVI_OK;
  while (status == ATVI_OK && id < 1000) {
    atvi_sim_run run = {.id = ++id, .x = x, .ok = true, .out = out};
    status = atvi_sim_record_add(r, &run);
  }
  bool full = status == ATVI_EIO && strstr(atvi_errmsg(ctx), "No space left");
  atvi_sim_record_free(r);
  atvi_status again = atvi_sim_record_open(ctx, path, &SHAPE, &r);
  atvi_idx n = again == ATVI_OK ? atvi_sim_record_count(r, true) : -1;
  struct stat st = {0};
  char last = 0;
  int fd = open(path, O_RDONLY);
  if (fd >= 0 && fstat(fd, &st) == 0 && pread(fd, &last, 1, st.st_size - 1) != 1) last = 0;
  if (fd >= 0) close(fd);
  atvi_sim_record_free(again == ATVI_OK ? r : NULL);
  umount(dir);
  CHECK(full && id > 3);
  CHECK_INT(n, id - 1);
  CHECK(last == '\n');
  end();
}

static void no_memory_is_told(void) {
  begin();
  atvi_sim_record *r = open_record();
  add(r, 1, true);
  add(r, 2, false);
  atvi_sim_record_free(r);
  long live = test_live;
  for (long k = 1;; k++) {
    test_fail_at = test_allocs + k;
    atvi_status status = atvi_sim_record_open(ctx, path, &SHAPE, &r);
    if (status == ATVI_OK) break;
    CHECK_INT(status, ATVI_ENOMEM);
    CHECK(!r);
    CHECK_INT(test_live, live);
  }
  atvi_sim_record_free(r);
  for (long k = 1;; k++) {
    atvi_pool *pool;
    atvi_sim_runs runs;
    test_fail_at = 0;
    CHECK_OK(atvi_pool_new(ctx, &pool));
    test_fail_at = test_allocs + k;
    atvi_status status = read_runs(pool, path, 0, "flow", 2, PARAM, &runs);
    atvi_pool_free(pool);
    if (status == ATVI_OK) break;
    CHECK_INT(status, ATVI_ENOMEM);
    CHECK_INT(test_live, live);
  }
  test_fail_at = 0;
  end();
}

static void folder_has_the_name_of_the_model(void) {
  begin();
  atvi_pool *pool;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  CHECK_STR(atvi_sim_folder(pool, "a/b/flow.atvi"), "flow-runs");
  atvi_pool_free(pool);
  end();
}

TESTS({"bits", runs_come_back_to_the_bit}, {"words", failures_have_their_words},
      {"order", order_does_not_matter}, {"draw", a_draw_is_decided}, {"cut", a_cut_line_is_removed},
      {"lock", only_one_writes}, {"other", another_simulator_is_noticed},
      {"lists", lists_are_read_however_they_stand}, {"wrong", wrong_files_are_told},
      {"full", a_full_disk_damages_nothing}, {"memory", no_memory_is_told},
      {"folder", folder_has_the_name_of_the_model})
