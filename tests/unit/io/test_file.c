/* SPDX-License-Identifier: MIT */
#include "io/file.h"
#include "testing.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static atvi_ctx *ctx;
static atvi_pool *pool;
static char folder[64];

static void begin(void) {
  ctx = test_ctx();
  CHECK_OK(atvi_pool_new(ctx, &pool));
  snprintf(folder, sizeof folder, "/tmp/atvi-test-file-XXXXXX");
  CHECK(mkdtemp(folder) != NULL);
}

static const char *in(const char *name) { return atvi_pool_printf(pool, "%s/%s", folder, name); }

static int entries(void) {
  int n = 0;
  DIR *dir = opendir(folder);
  CHECK(dir != NULL);
  for (const struct dirent *e; (e = readdir(dir)) != NULL; n++) {}
  closedir(dir);
  return n - 2;
}

static void end(void) {
  char command[200];
  snprintf(command, sizeof command, "chmod -R u+w %s; rm -r %s", folder, folder);
  CHECK(system(command) == 0);
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void check_content(const char *path, const char *want) {
  char *text;
  size_t n;
  CHECK_OK(atvi_io_file_read(pool, path, &text, &n));
  CHECK_INT(n, strlen(want));
  CHECK_STR(text, want);
}

#define CHECK_MESSAGE(part)                                                                                  \
  CHECK_MSG(strstr(atvi_errmsg(ctx), part) != NULL, "'%s' lacks '%s'", atvi_errmsg(ctx), part)

static void saves_and_replaces(void) {
  begin();
  const char *path = in("a.txt");
  CHECK_OK(atvi_io_file_save(ctx, path, "first\n", 6));
  check_content(path, "first\n");
  CHECK(chmod(path, 0640) == 0);
  CHECK_OK(atvi_io_file_save(ctx, path, "second time\n", 12));
  check_content(path, "second time\n");
  struct stat st;
  CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0640);
  CHECK_OK(atvi_io_file_save(ctx, path, "", 0));
  check_content(path, "");
  CHECK_INT(entries(), 1);
  CHECK_OK(atvi_io_file_save_in(pool, folder, "a.txt", "third\n"));
  check_content(path, "third\n");
  CHECK_STATUS(atvi_io_file_save_in(pool, path, "below.txt", "no"), ATVI_EIO);
  CHECK(chdir(folder) == 0);
  CHECK_OK(atvi_io_file_save(ctx, "plain", "x", 1));
  check_content("plain", "x");
  end();
}

/* Without waiting for the disk, and waiting once for all. */
static void saves_soon_and_waits_once(void) {
  begin();
  const char *path = in("a.txt");
  CHECK_OK(atvi_io_file_save_soon(pool, folder, "a.txt", "first\n"));
  CHECK_OK(atvi_io_file_save_soon(pool, folder, "a.txt", "second\n"));
  CHECK_OK(atvi_io_file_save_soon(pool, folder, "b.txt", ""));
  check_content(path, "second\n");
  CHECK_INT(entries(), 2);
  CHECK(symlink("/nowhere", in("broken")) == 0 && chmod(in("b.txt"), 0) == 0); /* neither is ours */
  CHECK_OK(atvi_io_dir_sync(ctx, folder));
  CHECK_STATUS(atvi_io_dir_sync(ctx, in("none")), ATVI_EIO);
  CHECK_STATUS(atvi_io_file_save_soon(pool, path, "below.txt", "no"), ATVI_EIO);
  unlink(in("broken"));
  end();
}

static void streams_more_than_its_buffer(void) {
  begin();
  atvi_file *f;
  size_t want = 0, n;
  CHECK_OK(atvi_io_file_new(ctx, in("big"), &f));
  char *piece = atvi_pool_take(pool, 200000, 1), *text;
  memset(piece, 'p', 199999);
  for (int i = 0; i < 30000; i++) atvi_io_file_printf(f, "%d,%.17g\n", i, i / 7.0);
  for (int i = 0; i < 30000; i++) want += (size_t)snprintf(NULL, 0, "%d,%.17g\n", i, i / 7.0);
  atvi_io_file_printf(f, "%s", piece);
  atvi_io_file_put(f, piece, 199999);
  CHECK_INT(access(in("big"), F_OK), -1); /* nothing there before commit */
  CHECK_OK(atvi_io_file_commit(f));
  atvi_io_file_free(f);
  CHECK_OK(atvi_io_file_read(pool, in("big"), &text, &n));
  CHECK_INT(n, want + 2 * 199999);
  CHECK(memcmp(text, "0,0\n1,0.14285714285714285\n", 26) == 0);
  CHECK(memcmp(text + want, piece, 199999) == 0 && text[n] == 0);
  end();
}

static void giving_up_leaves_the_old_file(void) {
  begin();
  atvi_file *f;
  CHECK_OK(atvi_io_file_save(ctx, in("a"), "old", 3));
  CHECK_OK(atvi_io_file_new(ctx, in("a"), &f));
  atvi_io_file_printf(f, "new");
  CHECK_INT(entries(), 2);
  atvi_io_file_free(f);
  atvi_io_file_free(NULL);
  CHECK_INT(entries(), 1);
  check_content(in("a"), "old");
  end();
}

static void two_writers_do_not_mix(void) {
  begin();
  atvi_file *f, *g;
  CHECK_OK(atvi_io_file_new(ctx, in("a"), &f));
  CHECK_OK(atvi_io_file_new(ctx, in("a"), &g));
  atvi_io_file_printf(f, "from f");
  atvi_io_file_printf(g, "from g");
  CHECK_OK(atvi_io_file_commit(g));
  CHECK_OK(atvi_io_file_commit(f));
  atvi_io_file_free(f);
  atvi_io_file_free(g);
  check_content(in("a"), "from f");
  CHECK_INT(entries(), 1);
  end();
}

static void a_full_disk_is_told(void) {
  begin();
  char big[100000];
  memset(big, 'b', sizeof big);
  CHECK_STATUS(atvi_io_file_save(ctx, "/dev/full", "x", 1), ATVI_EIO);
  CHECK_MESSAGE("/dev/full");
  CHECK_MESSAGE("No space left");
  CHECK_STATUS(atvi_io_file_save(ctx, "/dev/full", big, sizeof big), ATVI_EIO);
  struct stat st;
  CHECK(stat("/dev/full", &st) == 0 && S_ISCHR(st.st_mode)); /* and the device is still one */
  CHECK(symlink("/dev/full", in("link")) == 0);
  CHECK_STATUS(atvi_io_file_save(ctx, in("link"), big, sizeof big), ATVI_EIO);
  CHECK_MESSAGE(in("link"));
  CHECK_OK(atvi_io_file_save(ctx, "/dev/null", big, sizeof big));
  end();
}

static void links_are_followed(void) {
  begin();
  CHECK_OK(atvi_io_file_save(ctx, in("a"), "old", 3));
  CHECK(symlink("a", in("link")) == 0);
  CHECK_OK(atvi_io_file_save(ctx, in("link"), "new", 3));
  check_content(in("a"), "new");
  CHECK_INT(entries(), 2);
  end();
}

static void what_cannot_be_written_is_told(void) {
  begin();
  CHECK_STATUS(atvi_io_file_save(ctx, in("no/such/folder/x"), "x", 1), ATVI_EIO);
  CHECK_MESSAGE("No such file");
  CHECK_STATUS(atvi_io_file_save(ctx, folder, "x", 1), ATVI_EIO);
  CHECK_MESSAGE("Is a directory");
  CHECK_STATUS(atvi_io_file_save(ctx, "", "x", 1), ATVI_EIO);
  CHECK_OK(atvi_io_file_save(ctx, in("a"), "old", 3));
  CHECK_STATUS(atvi_io_file_save(ctx, in("a/b"), "x", 1), ATVI_EIO);
  CHECK_MESSAGE("Not a directory");
  if (geteuid() != 0) { /* root may write anywhere */
    CHECK(chmod(in("a"), 0444) == 0);
    CHECK_STATUS(atvi_io_file_save(ctx, in("a"), "x", 1), ATVI_EIO);
    CHECK(chmod(folder, 0555) == 0);
    CHECK_STATUS(atvi_io_file_save(ctx, in("b"), "x", 1), ATVI_EIO);
    CHECK_MESSAGE("Permission denied");
    CHECK_STATUS(atvi_io_dir_make(ctx, in("d"), false), ATVI_EIO);
  }
  check_content(in("a"), "old");
  end();
}

static void what_cannot_be_read_is_told(void) {
  begin();
  char *text;
  size_t n;
  CHECK_STATUS(atvi_io_file_read(pool, in("nothing"), &text, &n), ATVI_EIO);
  CHECK(text == NULL && n == 0);
  CHECK_MESSAGE("nothing: No such file");
  CHECK_STATUS(atvi_io_file_read(pool, folder, &text, &n), ATVI_EIO);
  CHECK_OK(atvi_io_file_read(pool, "/proc/self/status", &text, &n)); /* has no size */
  CHECK(n > 100 && strlen(text) == n);
  static const char *const DEVICE[] = {"/dev/zero", "/dev/null"}; /* the first never ends */
  for (int i = 0; i < 2; i++) {
    CHECK_STATUS(atvi_io_file_read(pool, DEVICE[i], &text, &n), ATVI_EIO);
    CHECK(text == NULL && n == 0);
    CHECK_MESSAGE(DEVICE[i]);
    CHECK_MESSAGE("it is a device");
  }
  end();
}

static void reads_no_more_than_it_should(void) {
  begin();
  char *text, command[200];
  size_t n;
  CHECK_OK(atvi_io_file_save(ctx, in("a"), "0123456789", 10));
  CHECK_OK(atvi_io_file_read_most(pool, in("a"), 10, &text, &n));
  CHECK(n == 10 && strcmp(text, "0123456789") == 0);
  CHECK_OK(atvi_io_file_read_most(pool, in("a"), 7, &text, &n));
  CHECK(n == 8 && strcmp(text, "01234567") == 0);
  CHECK_STATUS(atvi_io_file_read_most(pool, in("b"), 7, &text, &n), ATVI_EIO);
  CHECK(mkfifo(in("pipe"), 0600) == 0);
  snprintf(command, sizeof command, "(yes > %s) 2>/dev/null &", in("pipe")); /* never ends by itself */
  CHECK(system(command) == 0);
  CHECK_OK(atvi_io_file_read_most(pool, in("pipe"), 200000, &text, &n));
  CHECK(n == 200001 && memcmp(text, "y\ny\n", 4) == 0 && text[n] == 0);
  /* another pipe: the first one's writer may not have noticed yet that nobody reads */
  CHECK(mkfifo(in("brief"), 0600) == 0);
  snprintf(command, sizeof command, "echo 123 > %s &", in("brief"));
  CHECK(system(command) == 0);
  check_content(in("brief"), "123\n");
  end();
}

static void makes_folders(void) {
  begin();
  CHECK_OK(atvi_io_dir_make(ctx, in("a/b/c/"), false));
  CHECK_OK(atvi_io_dir_make(ctx, in("a/b/c"), false));
  CHECK_STATUS(atvi_io_dir_make(ctx, in("a/b/c"), true), ATVI_EEXIST);
  CHECK_OK(atvi_io_dir_make(ctx, in("a/b/d"), true));
  struct stat st;
  CHECK(stat(in("a/b/d"), &st) == 0 && S_ISDIR(st.st_mode));
  CHECK_OK(atvi_io_file_save(ctx, in("f"), "x", 1));
  CHECK_STATUS(atvi_io_dir_make(ctx, in("f"), false), ATVI_EIO);
  CHECK_STATUS(atvi_io_dir_make(ctx, in("f"), true), ATVI_EEXIST);
  CHECK_STATUS(atvi_io_dir_make(ctx, in("f/g"), true), ATVI_EIO);
  CHECK_STATUS(atvi_io_dir_make(ctx, "", true), ATVI_EIO);
  end();
}

static void numbers_runs(void) {
  begin();
  char *path;
  CHECK_STATUS(atvi_io_rundir_latest(ctx, pool, in("cold"), "", &path), ATVI_EIO);
  CHECK(path == NULL);
  CHECK_OK(atvi_io_rundir_new(ctx, pool, in("cold"), &path));
  CHECK_STR(path, in("cold-001"));
  CHECK_OK(atvi_io_dir_make(ctx, in("cold-007"), true));
  CHECK_OK(atvi_io_dir_make(ctx, in("cold-x09"), true));
  CHECK_OK(atvi_io_dir_make(ctx, in("cold-9"), true));
  CHECK_OK(atvi_io_dir_make(ctx, in("colder-100"), true));
  CHECK_OK(atvi_io_file_save(ctx, in("cold-008"), "a file", 6));
  CHECK_OK(atvi_io_rundir_latest(ctx, pool, in("cold"), "", &path));
  CHECK_STR(path, in("cold-007"));
  CHECK_OK(atvi_io_rundir_new(ctx, pool, in("cold"), &path)); /* not 8: that name is taken by a file */
  CHECK_STR(path, in("cold-009"));
  CHECK_OK(atvi_io_dir_make(ctx, in("cold-1000"), true));
  CHECK_OK(atvi_io_rundir_new(ctx, pool, in("cold"), &path));
  CHECK_STR(path, in("cold-1001"));
  CHECK(chdir(folder) == 0);
  CHECK_OK(atvi_io_rundir_latest(ctx, pool, "cold", "", &path));
  CHECK_STR(path, "cold-1001");
  CHECK_OK(atvi_io_file_save(ctx, in("cold-009/draws.csv"), "x", 1));
  CHECK_OK(atvi_io_rundir_latest(ctx, pool, "cold", "draws.csv", &path)); /* the newer ones were killed */
  CHECK_STR(path, "cold-009");
  CHECK_STATUS(atvi_io_rundir_latest(ctx, pool, "cold", "other.csv", &path), ATVI_EIO);
  CHECK_STATUS(atvi_io_rundir_new(ctx, pool, in("no/cold"), &path), ATVI_EIO);
  CHECK_STATUS(atvi_io_rundir_latest(ctx, pool, in("no/cold"), "", &path), ATVI_EIO);
  end();
}

/* Four processes ask for 25 folders each; no two may get the same. */
static void runs_at_once_get_their_own(void) {
  begin();
  pid_t pid[4];
  for (int k = 0; k < 4; k++) {
    pid[k] = fork();
    if (pid[k] == 0) {
      char *path;
      int bad = 0;
      for (int i = 0; i < 25; i++) bad += atvi_io_rundir_new(ctx, pool, in("r"), &path) != ATVI_OK;
      _exit(bad);
    }
  }
  for (int k = 0; k < 4; k++) {
    int status;
    CHECK(waitpid(pid[k], &status, 0) == pid[k] && status == 0);
  }
  CHECK_INT(entries(), 100);
  end();
}

static void memory_failures_are_told(void) {
  begin();
  atvi_file *f;
  const char *path = in("a"); /* the pool has its memory now */
  test_fail_at = test_allocs + 1;
  CHECK_STATUS(atvi_io_file_new(ctx, path, &f), ATVI_ENOMEM);
  CHECK(f == NULL);
  test_fail_at = test_allocs + 1;
  CHECK_STATUS(atvi_io_dir_make(ctx, in("d"), true), ATVI_ENOMEM);
  CHECK_OK(atvi_io_file_new(ctx, path, &f));
  test_fail_at = test_allocs + 1;
  atvi_io_file_printf(f, "%1000d", 7); /* too long for the stack: the file must not be committed without it */
  CHECK_STATUS(atvi_io_file_commit(f), ATVI_EIO);
  atvi_io_file_free(f);
  CHECK_INT(entries(), 0);
  char *base = atvi_pool_take(pool, 70000, 1), *made, *text;
  memset(base, 'x', 69999);
  test_fail_at = test_allocs + 1;
  CHECK_STATUS(atvi_io_rundir_new(ctx, pool, base, &made), ATVI_ENOMEM);
  CHECK_STATUS(atvi_io_rundir_latest(ctx, pool, "y", "", &made), ATVI_ENOMEM);
  size_t n;
  CHECK_STATUS(atvi_io_file_read(pool, "/proc/self/status", &text, &n), ATVI_ENOMEM);
  test_fail_at = 0;
  end();
}

static void stems_of_paths(void) {
  static const char *const CASE[][2] = {
      {"a/cold.atvi", "cold"},
      {"cold", "cold"},
      {"/x.y/cold", "cold"},
      {"../a.b/cold.tar.gz", "cold.tar"},
      {"a/.hidden", ".hidden"},
      {".a.b", ".a"},
      {"cold.", "cold"},
      {"a/cold.run/", "cold"},
      {"", ""},
      {"..", ".."},
      {"a/..", ".."},
      {"/", ""},
  };
  begin();
  for (size_t i = 0; i < sizeof CASE / sizeof *CASE; i++) {
    const char *stem = atvi_io_path_stem(pool, CASE[i][0]);
    CHECK(stem != NULL);
    CHECK_STR(stem, CASE[i][1]);
  }
  end();
}

static void paths_lead_from_one_folder_to_another(void) {
  begin();
  CHECK_OK(atvi_io_dir_make(ctx, in("a/b"), true));
  CHECK_OK(atvi_io_dir_make(ctx, in("a/bc"), true));
  CHECK_OK(atvi_io_dir_make(ctx, in("d"), true));
  CHECK_STR(atvi_io_path_between(pool, in("a/b"), in("a/bc")), "../bc");
  CHECK_STR(atvi_io_path_between(pool, in("a/b"), in("d/")), "../../d");
  CHECK_STR(atvi_io_path_between(pool, in("a"), in("a/../a/./b")), "b");
  CHECK_STR(atvi_io_path_between(pool, in("d"), in("d")), ".");
  CHECK(!atvi_io_path_between(pool, in("d"), in("e")) && !atvi_io_path_between(pool, in("e"), in("d")));
  end();
}

/* What a killed process left is removed by the next that writes the file; what others may still write is not. */
static void what_is_left_is_removed(void) {
  begin();
  atvi_file *f;
  pid_t pid = fork();
  if (pid == 0) _exit(atvi_io_file_new(ctx, in("a.csv"), &f) == ATVI_OK ? 0 : 1);
  int how;
  CHECK(waitpid(pid, &how, 0) == pid && how == 0);
  CHECK_INT(entries(), 1);
  CHECK_OK(atvi_io_file_save(ctx, in("b.csv"), "b", 1));
  CHECK_INT(entries(), 2);
  CHECK_OK(atvi_io_file_new(ctx, in("a.csv"), &f)); /* of a process that lives */
  CHECK_INT(entries(), 2);
  CHECK_OK(atvi_io_file_save(ctx, in("a.csv"), "a", 1));
  CHECK_INT(entries(), 3);
  atvi_io_file_free(f);
  CHECK_OK(atvi_io_file_save(ctx, in(".a.csv.00000000-999999999-0.tmp"), "x", 1)); /* of another host */
  CHECK_OK(atvi_io_file_save(ctx, in("a.csv"), "a", 1));
  CHECK_INT(entries(), 3);
  pid = fork();
  if (pid == 0) _exit(atvi_io_file_new(ctx, in("c.d.csv"), &f) == ATVI_OK ? 0 : 1);
  CHECK(waitpid(pid, &how, 0) == pid && how == 0);
  CHECK_OK(atvi_io_file_save(ctx, in(".tmp"), "x", 1));
  CHECK_OK(atvi_io_file_save(ctx, in(".mine.tmp"), "x", 1));
  CHECK_INT(entries(), 6);
  atvi_io_file_sweep(in("none"));
  atvi_io_file_sweep(in(""));
  CHECK_INT(entries(), 5);
  end();
}

TESTS({"left", what_is_left_is_removed}, {"stems", stems_of_paths}, {"saves", saves_and_replaces},
      {"soon", saves_soon_and_waits_once}, {"streams", streams_more_than_its_buffer},
      {"giving_up", giving_up_leaves_the_old_file}, {"two_writers", two_writers_do_not_mix},
      {"full_disk", a_full_disk_is_told}, {"links", links_are_followed},
      {"unwritable", what_cannot_be_written_is_told}, {"unreadable", what_cannot_be_read_is_told},
      {"most", reads_no_more_than_it_should}, {"folders", makes_folders}, {"runs", numbers_runs},
      {"runs_at_once", runs_at_once_get_their_own}, {"memory", memory_failures_are_told},
      {"between", paths_lead_from_one_folder_to_another})
