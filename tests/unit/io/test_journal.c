/* SPDX-License-Identifier: MIT */
#define _DEFAULT_SOURCE
#include "io/file.h"
#include "testing.h"
#include <errno.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* In the place of the C library's. */
static bool no_locks;
int flock(int fd, int how);
int flock(int fd, int how) {
  errno = ENOLCK;
  return no_locks ? -1 : (int)syscall(SYS_flock, fd, how);
}

static atvi_ctx *ctx;
static char dir[64], path[96];

static void begin(void) {
  ctx = test_ctx();
  strcpy(dir, "/tmp/atvi_jourXXXXXX");
  CHECK(mkdtemp(dir));
  snprintf(path, sizeof path, "%s/lines", dir);
}

static void end(void) {
  unlink(path);
  rmdir(dir);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void check_text(const char *want) {
  atvi_pool *pool;
  char *text;
  size_t n;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  CHECK_OK(atvi_io_file_read(pool, path, &text, &n));
  CHECK_STR(text, want);
  CHECK_INT(n, strlen(want));
  atvi_pool_free(pool);
}

static void lines_are_added_and_half_ones_cut(void) {
  atvi_journal j;
  begin();
  CHECK_OK(atvi_io_journal_open(ctx, path, NULL, &j));
  CHECK_INT(j.size, 0);
  CHECK_OK(atvi_io_journal_add(&j, "one\n", 4));
  CHECK_OK(atvi_io_journal_add(&j, "two\n", 4));
  check_text("one\ntwo\n");
  atvi_io_journal_close(&j);
  atvi_io_journal_close(&j);
  static const char *const left[] = {"one\ntw", "one\n", "one\n\n\0x"};
  static const size_t n[] = {6, 4, 7};
  static const char *const kept[] = {"one\n", "one\n", "one\n\n"};
  for (int k = 0; k < 3; k++) {
    CHECK_OK(atvi_io_file_save(ctx, path, left[k], n[k]));
    CHECK_OK(atvi_io_journal_open(ctx, path, NULL, &j));
    check_text(kept[k]);
    CHECK_OK(atvi_io_journal_add(&j, "new\n", 4));
    CHECK_INT(j.size, strlen(kept[k]) + 4);
    atvi_io_journal_close(&j);
  }
  CHECK_OK(atvi_io_file_save(ctx, path, "no line", 7));
  CHECK_OK(atvi_io_journal_open(ctx, path, NULL, &j));
  check_text("");
  atvi_io_journal_close(&j);
  end();
}

/* The end of the last line may be far from the end of the file. */
static void a_long_half_line_is_cut(void) {
  atvi_journal j;
  begin();
  for (size_t extra = 4090; extra < 4100; extra++)
    for (size_t before = 4090; before < 4100; before += 3) {
      char text[9000];
      memset(text, 'x', sizeof text);
      text[before - 1] = '\n';
      CHECK_OK(atvi_io_file_save(ctx, path, text, before + extra));
      CHECK_OK(atvi_io_journal_open(ctx, path, NULL, &j));
      CHECK_INT(j.size, before);
      CHECK_INT(lseek(j.fd, 0, SEEK_END), before);
      atvi_io_journal_close(&j);
    }
  end();
}

static void only_one_has_it(void) {
  atvi_journal j, other;
  begin();
  CHECK_OK(atvi_io_journal_open(ctx, path, NULL, &j));
  CHECK_STATUS(atvi_io_journal_open(ctx, path, NULL, &other), ATVI_EEXIST);
  CHECK(other.fd < 0 && strstr(atvi_errmsg(ctx), "another atvi"));
  atvi_io_journal_close(&j);
  CHECK_OK(atvi_io_journal_open(ctx, path, NULL, &j));
  atvi_io_journal_close(&j);
  CHECK_STATUS(atvi_io_journal_open(ctx, "/nowhere/at/all", NULL, &j), ATVI_EIO);
  CHECK_STATUS(atvi_io_journal_open(ctx, dir, NULL, &j), ATVI_EIO);
  CHECK(j.fd < 0);
  end();
}

/* The end is a judge's business. */
static atvi_journal_end judge(const char *text, size_t n, bool first) {
  if (n == 5 && memcmp(text, "whole", 5) == 0) return ATVI_JOURNAL_KEEP;
  return first ? ATVI_JOURNAL_OTHER : ATVI_JOURNAL_CUT;
}

static void whole_lines_are_kept(void) {
  atvi_journal j;
  begin();
  static const char *const left[] = {"one\nwhole", "whole", "one\nwhol"};
  static const char *const kept[] = {"one\nwhole\n", "whole\n", "one\n"};
  for (int k = 0; k < 3; k++) {
    CHECK_OK(atvi_io_file_save(ctx, path, left[k], strlen(left[k])));
    CHECK_OK(atvi_io_journal_open(ctx, path, judge, &j));
    CHECK_INT(j.size, strlen(kept[k]));
    check_text(kept[k]);
    atvi_io_journal_close(&j);
  }
  CHECK_OK(atvi_io_file_save(ctx, path, "another's", 9));
  CHECK_STATUS(atvi_io_journal_open(ctx, path, judge, &j), ATVI_EDATA);
  check_text("another's");
  end();
}

/* Where flock says that there are no locks. */
static void without_locks_a_file_keeps_others_out(void) {
  atvi_journal j, other;
  char lock[128];
  begin();
  snprintf(lock, sizeof lock, "%s.lock", path);
  no_locks = true;
  CHECK_OK(atvi_io_journal_open(ctx, path, NULL, &j));
  CHECK(access(lock, F_OK) == 0);
  CHECK_STATUS(atvi_io_journal_open(ctx, path, NULL, &other), ATVI_EEXIST);
  CHECK(strstr(atvi_errmsg(ctx), "another atvi") && strstr(atvi_errmsg(ctx), lock));
  CHECK(access(lock, F_OK) == 0);
  CHECK_OK(atvi_io_journal_add(&j, "one\n", 4));
  atvi_io_journal_close(&j);
  CHECK(access(lock, F_OK) != 0);
  pid_t pid = fork(); /* leaves its lock behind */
  if (pid == 0) _exit(atvi_io_journal_open(ctx, path, NULL, &j) == ATVI_OK ? 0 : 1);
  int status;
  CHECK(waitpid(pid, &status, 0) == pid && status == 0 && access(lock, F_OK) == 0);
  CHECK_OK(atvi_io_journal_open(ctx, path, NULL, &j));
  check_text("one\n");
  atvi_io_journal_close(&j);
  CHECK_OK(atvi_io_file_save(ctx, lock, "process 1 on another.host", 25)); /* nobody knows about that one */
  CHECK_STATUS(atvi_io_journal_open(ctx, path, NULL, &j), ATVI_EEXIST);
  CHECK(strstr(atvi_errmsg(ctx), "another.host") && access(lock, F_OK) == 0);
  unlink(lock);
  no_locks = false;
  end();
}

static void a_removed_file_is_noticed(void) {
  atvi_journal j;
  begin();
  CHECK_OK(atvi_io_journal_open(ctx, path, NULL, &j));
  CHECK_OK(atvi_io_journal_add(&j, "one\n", 4));
  unlink(path);
  CHECK_STATUS(atvi_io_journal_add(&j, "two\n", 4), ATVI_EIO);
  CHECK(strstr(atvi_errmsg(ctx), "removed"));
  CHECK_OK(atvi_io_file_save(ctx, path, "three\n", 6));
  CHECK_STATUS(atvi_io_journal_add(&j, "two\n", 4), ATVI_EIO);
  atvi_io_journal_close(&j);
  check_text("three\n");
  end();
}

static void a_full_disk_leaves_whole_lines(void) {
  begin();
  if (geteuid() != 0 || mount("none", dir, "tmpfs", 0, "size=12k") != 0) {
    end();
    return; /* needs root */
  }
  char line[1000];
  memset(line, 'y', sizeof line);
  line[999] = '\n';
  atvi_journal j;
  int n = 0;
  atvi_status open = atvi_io_journal_open(ctx, path, NULL, &j), status = open;
  while (status == ATVI_OK && n < 100) status = atvi_io_journal_add(&j, line, sizeof line), n++;
  int64_t size = j.size, there = lseek(j.fd, 0, SEEK_END);
  atvi_io_journal_close(&j);
  umount(dir);
  CHECK_INT(open, ATVI_OK);
  CHECK_INT(status, ATVI_EIO);
  CHECK(strstr(atvi_errmsg(ctx), "No space left") && n > 2);
  CHECK_INT(size, 1000 * (n - 1));
  CHECK_INT(there, size);
  end();
}

TESTS({"lines", lines_are_added_and_half_ones_cut}, {"long", a_long_half_line_is_cut},
      {"one", only_one_has_it}, {"whole", whole_lines_are_kept},
      {"no_locks", without_locks_a_file_keeps_others_out}, {"removed", a_removed_file_is_noticed},
      {"full", a_full_disk_leaves_whole_lines})
