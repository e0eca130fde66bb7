/* SPDX-License-Identifier: MIT */
#include "io/file.h"
#include "testing.h"
#include <sys/mount.h>
#include <unistd.h>

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
  CHECK_OK(atvi_io_journal_open(ctx, path, &j));
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
    CHECK_OK(atvi_io_journal_open(ctx, path, &j));
    check_text(kept[k]);
    CHECK_OK(atvi_io_journal_add(&j, "new\n", 4));
    CHECK_INT(j.size, strlen(kept[k]) + 4);
    atvi_io_journal_close(&j);
  }
  CHECK_OK(atvi_io_file_save(ctx, path, "no line", 7));
  CHECK_OK(atvi_io_journal_open(ctx, path, &j));
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
      CHECK_OK(atvi_io_journal_open(ctx, path, &j));
      CHECK_INT(j.size, before);
      CHECK_INT(lseek(j.fd, 0, SEEK_END), before);
      atvi_io_journal_close(&j);
    }
  end();
}

static void only_one_has_it(void) {
  atvi_journal j, other;
  begin();
  CHECK_OK(atvi_io_journal_open(ctx, path, &j));
  CHECK_STATUS(atvi_io_journal_open(ctx, path, &other), ATVI_EEXIST);
  CHECK(other.fd < 0 && strstr(atvi_errmsg(ctx), "another atvi"));
  atvi_io_journal_close(&j);
  CHECK_OK(atvi_io_journal_open(ctx, path, &j));
  atvi_io_journal_close(&j);
  CHECK_STATUS(atvi_io_journal_open(ctx, "/nowhere/at/all", &j), ATVI_EIO);
  CHECK_STATUS(atvi_io_journal_open(ctx, dir, &j), ATVI_EIO);
  CHECK(j.fd < 0);
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
  atvi_status open = atvi_io_journal_open(ctx, path, &j), status = open;
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
      {"one", only_one_has_it}, {"full", a_full_disk_leaves_whole_lines})
