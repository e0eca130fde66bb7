/* SPDX-License-Identifier: MIT */
/* Compiler and cache: what may go wrong between source and loaded code. */
#include "graph/internal.h"
#include "testing.h"
#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static atvi_ctx *ctx;
static atvi_graph *g;
static char root[64], cache[96];

static void begin(void) {
  ctx = test_ctx();
  CHECK_OK(atvi_graph_new(ctx, &g));
  strcpy(root, "/tmp/atvi-test-XXXXXX");
  CHECK(mkdtemp(root));
  snprintf(cache, sizeof cache, "%s/a/b", root);
}

static void end(void) {
  char command[256];
  atvi_graph_free(g);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
  snprintf(command, sizeof command, "chmod -R u+rwx %s; rm -rf %s", root, root);
  CHECK(system(command) == 0);
}

/* Makes a module of y = exp(x) + k and runs it: right whatever the cache did. */
static atvi_module_info try_it(const char *dir, const char *compiler, double k) {
  static _Alignas(ATVI_ALIGN) double x[1][ATVI_LANES], y[1][ATVI_LANES], scratch[64];
  atvi_module *m;
  atvi_module_info info;
  atvi_node e = atvi_graph_op1(g, ATVI_OP_EXP, atvi_graph_input(g, 0, 0));
  atvi_node out = atvi_graph_op2(g, ATVI_OP_ADD, e, atvi_graph_const(g, k));
  atvi_prog_spec spec = {
      .name = "p", .n_in = 1, .in = {{0, 1, false}}, .n_out = 1, .out = {{1, &out, false}}};
  atvi_module_opts opts = {.compile = true, .cache_dir = dir, .compiler = compiler};
  CHECK_OK(atvi_graph_module_new(ctx, g, 1, &spec, &opts, &m, &info));
  for (int l = 0; l < ATVI_LANES; l++) x[0][l] = 0.1 * l;
  atvi_prog p = atvi_graph_module_get(m, 0);
  CHECK(p.scratch <= 64);
  atvi_graph_prog_run(&p, scratch, (const double *const[]){&x[0][0]}, (double *const[]){&y[0][0]});
  for (int l = 0; l < ATVI_LANES; l++) CHECK_REL(y[0][l], exp(0.1 * l) + k, 1e-14);
  CHECK(info.compiled == (info.reason[0] == 0));
  atvi_graph_module_free(m);
  return info;
}

/* Number of entries in a directory; the path of the last one ending in .so. */
static int list(const char *dir, char *path, size_t room) {
  int n = 0;
  DIR *d = opendir(dir);
  if (!d) return 0;
  for (struct dirent *e; (e = readdir(d));) {
    if (e->d_name[0] == '.') continue;
    n++;
    if (path && strstr(e->d_name, ".so")) CHECK(snprintf(path, room, "%s/%s", dir, e->d_name) < (int)room);
  }
  closedir(d);
  return n;
}

static void second_time_comes_from_the_cache(void) {
  begin();
  atvi_module_info a = try_it(cache, NULL, 1), b = try_it(cache, NULL, 1), c = try_it(cache, NULL, 2);
  CHECK(a.compiled && !a.from_cache && a.compile_s > 0);
  CHECK(b.compiled && b.from_cache && b.compile_s == 0);
  CHECK(c.compiled && !c.from_cache); /* another source */
  struct stat st;
  CHECK(stat(cache, &st) == 0 && (st.st_mode & 0777) == 0700);
  CHECK_INT(list(cache, NULL, 0), 2); /* nothing but the entries stays behind */
  end();
}

/* Damages a copy and puts it in place: the file itself may still be mapped, for musl never closes a library. */
static void damage(const char *path, const char *how) {
  char copy[300], command[1024];
  snprintf(copy, sizeof copy, "%s.copy", path);
  snprintf(command, sizeof command, "cp -p %s %s", path, copy);
  CHECK(system(command) == 0);
  snprintf(command, sizeof command, how, copy);
  CHECK(system(command) == 0);
  CHECK(rename(copy, path) == 0);
}

static void damaged_entries_are_rebuilt(void) {
  static const char *const how[] = {
      ": > %s",
      "truncate -s -1 %s",
      "truncate -s 4096 %s",
      "printf 'garbage' | dd of=%s conv=notrunc bs=1 seek=5000 2>/dev/null",
      "printf 'garbage' >> %s",
      "chmod 0777 %s",
      "f=%s; mv $f $f.x; ln -s $f.x $f",
  };
  begin();
  CHECK(try_it(cache, NULL, 1).compiled);
  for (size_t k = 0; k < sizeof how / sizeof how[0]; k++) {
    char path[256];
    CHECK(list(cache, path, sizeof path) >= 1);
    damage(path, how[k]);
    atvi_module_info info = try_it(cache, NULL, 1);
    CHECK(info.compiled && !info.from_cache);
    info = try_it(cache, NULL, 1);
    CHECK(info.compiled && info.from_cache);
  }
  end();
}

/* The right seal under the wrong name: an entry renamed to another's key. */
static void swapped_entries_are_rebuilt(void) {
  char first[256], command[700];
  begin();
  CHECK(try_it(cache, NULL, 1).compiled);
  CHECK_INT(list(cache, first, sizeof first), 1);
  snprintf(command, sizeof command, "mv %s %s/old", first, root);
  CHECK(system(command) == 0);
  char second[256];
  CHECK(try_it(cache, NULL, 2).compiled);
  CHECK_INT(list(cache, second, sizeof second), 1);
  snprintf(command, sizeof command, "mv %s/old %s", root, second);
  CHECK(system(command) == 0);
  CHECK(!try_it(cache, NULL, 2).from_cache);
  end();
}

static void directories_of_others_are_not_used(void) {
  begin();
  CHECK(try_it(cache, NULL, 1).compiled);
  CHECK(chmod(cache, 0777) == 0);
  atvi_module_info info = try_it(cache, NULL, 1);
  CHECK(info.compiled && !info.from_cache); /* compiled for this run only */
  CHECK_INT(list(cache, NULL, 0), 1);
  char link[128];
  snprintf(link, sizeof link, "%s/link", root);
  CHECK(chmod(cache, 0700) == 0 && symlink(cache, link) == 0);
  CHECK(!try_it(link, NULL, 1).from_cache);
  CHECK(try_it(cache, NULL, 1).from_cache);
  end();
}

static void no_place_for_a_cache(void) {
  begin();
  char file[128], below[160];
  snprintf(file, sizeof file, "%s/file", root);
  FILE *f = fopen(file, "w");
  CHECK(f && fclose(f) == 0);
  snprintf(below, sizeof below, "%s/x", file);
  atvi_module_info info = try_it(below, NULL, 1); /* fails for root too, unlike a mode */
  CHECK(info.compiled && !info.from_cache);
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  info = try_it(NULL, NULL, 1);
  CHECK(info.compiled && !info.from_cache);
  setenv("TMPDIR", below, 1); /* nowhere at all */
  info = try_it(NULL, NULL, 1);
  CHECK(!info.compiled && strstr(info.reason, "temporary"));
  setenv("XDG_CACHE_HOME", root, 1);
  CHECK(try_it(NULL, NULL, 1).compiled && try_it(NULL, NULL, 1).from_cache);
  CHECK(setenv("HOME", root, 1) == 0 && setenv("XDG_CACHE_HOME", "relative", 1) == 0);
  CHECK(try_it(NULL, NULL, 1).compiled);
  snprintf(below, sizeof below, "%s/.cache/atvi", root);
  CHECK_INT(list(below, NULL, 0), 1);
  end();
}

static void write_script(const char *path, const char *text) {
  FILE *f = fopen(path, "w");
  CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0 && chmod(path, 0700) == 0);
}

static void compilers_that_fail(void) {
  begin();
  char script[128];
  snprintf(script, sizeof script, "%s/cc", root);
  atvi_module_info info = try_it(cache, "/nonexistent/cc", 1);
  CHECK(!info.compiled && strstr(info.reason, "/nonexistent/cc"));
  setenv("ATVI_CC", "/nonexistent/gcc", 1);
  info = try_it(cache, NULL, 1);
  CHECK(!info.compiled && strstr(info.reason, "/nonexistent/gcc"));
  setenv("ATVI_CC", "", 1);
  CHECK(try_it(cache, NULL, 1).compiled);
  write_script(script, "#!/bin/sh\necho 'x.c:1: error: no such luck' >&2\nexit 1\n");
  info = try_it(cache, script, 1);
  CHECK(!info.compiled && strstr(info.reason, "error: no such luck"));
  write_script(script, "#!/bin/sh\nexit 0\n"); /* says it worked, but leaves nothing */
  CHECK(!try_it(cache, script, 1).compiled);
  write_script(script, "#!/bin/sh\nwhile [ \"$1\" != -o ]; do shift; done\necho rubbish > $2\n");
  info = try_it(cache, script, 1); /* sealed as it was made, then refused by the loader */
  CHECK(!info.compiled && info.reason[0]);
  write_script(script, "not a program\n");
  CHECK(!try_it(cache, script, 1).compiled);
  char old[4096];
  snprintf(old, sizeof old, "%s", getenv("PATH"));
  setenv("PATH", root, 1);
  unlink(script);
  info = try_it(cache, NULL, 5);
  setenv("PATH", old, 1);
  CHECK(!info.compiled && strstr(info.reason, "no compiler"));
  end();
}

/* The first compiler that works: cc in PATH is broken, gcc is not. */
static void next_compiler_is_tried(void) {
  begin();
  char script[128], path[4096];
  snprintf(script, sizeof script, "%s/cc", root);
  write_script(script, "#!/bin/sh\nexit 1\n");
  snprintf(path, sizeof path, "%s:%s", root, getenv("PATH"));
  setenv("PATH", path, 1);
  unsetenv("ATVI_CC");
  CHECK(try_it(cache, NULL, 1).compiled);
  CHECK(try_it(cache, NULL, 1).from_cache);
  end();
}

static bool stop_now(void *user) { return *(bool *)user; }

static void stop_ends_the_compiler(void) {
  begin();
  char script[128];
  bool stop = true;
  snprintf(script, sizeof script, "%s/cc", root);
  write_script(script, "#!/bin/sh\nexec sleep 30\n");
  atvi_ctx_set_stop(ctx, stop_now, &stop);
  double start = atvi_clock_s();
  atvi_module_info info = try_it(cache, script, 1);
  CHECK(!info.compiled && atvi_clock_s() - start < 10);
  CHECK_INT(list(cache, NULL, 0), 0);
  end();
}

/* A compiler that starts another process: what try_it's caller may find alive is the number in the file. */
static void child_of(const char *script, const char *file) {
  char text[256];
  snprintf(text, sizeof text, "#!/bin/sh\nsleep 30 &\necho $! >> %s\nwait\n", file);
  write_script(script, text);
  unlink(file);
}

/* Numbers in the file: how many, and whether one is still a process after half of its time. */
static int numbers(const char *file, bool *alive) {
  int n = 0, pid;
  FILE *f = fopen(file, "r");
  *alive = false;
  while (f && fscanf(f, "%d", &pid) == 1) {
    int tries = 0;
    while (kill(pid, 0) == 0 && ++tries < 1500) nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    *alive = *alive || tries == 1500;
    n++;
  }
  if (f) fclose(f);
  return n;
}

static bool stop_later(void *user) { return atvi_clock_s() > *(double *)user; }

/* All of them in PATH: none is tried after a stop, and nothing stays behind of the first. */
static void stop_ends_children_and_trials(void) {
  begin();
  char path[4096], file[128], script[128];
  bool alive;
  snprintf(file, sizeof file, "%s/pids", root);
  static const char *const name[] = {"cc", "gcc", "clang"};
  for (int k = 0; k < 3; k++) {
    snprintf(script, sizeof script, "%s/%s", root, name[k]);
    child_of(script, file);
  }
  snprintf(path, sizeof path, "%s:%s", root, getenv("PATH"));
  setenv("PATH", path, 1);
  unsetenv("ATVI_CC");
  double at = atvi_clock_s() + 0.5;
  atvi_ctx_set_stop(ctx, stop_later, &at);
  CHECK(!try_it(cache, NULL, 1).compiled);
  CHECK_INT(numbers(file, &alive), 1);
  CHECK(!alive);
  CHECK_INT(list(cache, NULL, 0), 0);
  end();
}

static void death_ends_the_compiler(void) {
  begin();
  char file[128], script[128];
  bool alive;
  snprintf(file, sizeof file, "%s/pids", root);
  snprintf(script, sizeof script, "%s/cc", root);
  child_of(script, file);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    try_it(cache, script, 1);
    _exit(0);
  }
  struct stat there = {0};
  for (int k = 0; k < 500 && (stat(file, &there) != 0 || there.st_size == 0); k++)
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  /* The guard may be told of the compiler after that has begun. */
  nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
  kill(pid, SIGKILL);
  CHECK(waitpid(pid, NULL, 0) == pid);
  CHECK_INT(numbers(file, &alive), 1);
  CHECK(!alive);
  end();
}

/* No compiler is started for it. */
static void large_code_is_interpreted(void) {
  begin();
  atvi_pool *pool;
  atvi_compiled c;
  enum { N = 5 << 20 };
  CHECK_OK(atvi_pool_new(ctx, &pool));
  char *source = atvi_pool_take(pool, N + 1, 1);
  memset(source, '\n', N);
  atvi_graph_compile(pool, source, &(atvi_module_opts){.compile = true, .cache_dir = cache}, &c);
  CHECK(!c.handle && c.compile_s == 0 && strstr(c.reason, "too large"));
  atvi_pool_free(pool);
  end();
}

static void two_first_runs_at_once(void) {
  enum { N = 4 };
  begin();
  pid_t pid[N];
  for (int k = 0; k < N; k++) {
    pid[k] = fork();
    CHECK(pid[k] >= 0);
    if (pid[k] == 0) {
      bool ok = true;
      for (int r = 0; r < 3; r++) ok = try_it(cache, NULL, 1 + r).compiled && ok;
      _exit(ok ? 0 : 1);
    }
  }
  for (int k = 0; k < N; k++) {
    int status;
    CHECK(waitpid(pid[k], &status, 0) == pid[k] && status == 0);
  }
  CHECK_INT(list(cache, NULL, 0), 3);
  for (int r = 0; r < 3; r++) CHECK(try_it(cache, NULL, 1 + r).from_cache);
  end();
}

/* A run killed while compiling leaves its folder, never a bad entry; an hour later it is swept up, in the
 * cache and elsewhere. */
static void killed_runs_leave_no_entry(void) {
  begin();
  char script[128], command[256];
  snprintf(script, sizeof script, "%s/cc", root);
  write_script(script, "#!/bin/sh\nexec sleep 3\n");
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    try_it(cache, script, 1);
    _exit(0);
  }
  nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
  kill(pid, SIGKILL);
  CHECK(waitpid(pid, NULL, 0) == pid);
  CHECK_INT(list(cache, NULL, 0), 1);
  CHECK(try_it(cache, NULL, 1).compiled);
  CHECK_INT(list(cache, NULL, 0), 2);
  snprintf(command, sizeof command, "touch -d '2 hours ago' %s/tmp-*", cache);
  CHECK(system(command) == 0);
  CHECK(try_it(cache, NULL, 2).compiled);
  CHECK_INT(list(cache, NULL, 0), 2);
  snprintf(command, sizeof command,
           "cd %s && mkdir t && cd t && mkdir atvi-cc-abcdef atvi-cc-fresh1 atvi-cc-longer1 && touch "
           "atvi-cc-abcdef/m.c && touch -d '2 hours ago' atvi-cc-abcdef atvi-cc-longer1",
           root);
  CHECK(system(command) == 0);
  snprintf(command, sizeof command, "%s/t", root);
  setenv("TMPDIR", command, 1);
  CHECK(try_it("/proc/nowhere", NULL, 2).compiled);
  unsetenv("TMPDIR");
  CHECK_INT(list(command, NULL, 0), 2);
  end();
}

static void sha256_of_known_texts(void) {
  static const struct {
    const char *text, *hex;
  } known[] = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
  };
  for (int k = 0; k < 3; k++)
    for (size_t cut = 0; cut <= strlen(known[k].text); cut++) {
      atvi_sha256 s;
      unsigned char d[32];
      char hex[65];
      atvi_sha256_begin(&s);
      atvi_sha256_add(&s, known[k].text, cut);
      atvi_sha256_add(&s, known[k].text + cut, strlen(known[k].text) - cut);
      atvi_sha256_end(&s, d);
      for (int i = 0; i < 32; i++) snprintf(hex + 2 * i, 3, "%02x", d[i]);
      CHECK_STR(hex, known[k].hex);
    }
  atvi_sha256 s;
  unsigned char d[32], a[1000];
  memset(a, 'a', sizeof a);
  atvi_sha256_begin(&s);
  for (int k = 0; k < 1000; k++) atvi_sha256_add(&s, a, sizeof a);
  atvi_sha256_end(&s, d);
  CHECK(d[0] == 0xcd && d[1] == 0xc7 && d[31] == 0xd0); /* a million a's */
}

TESTS({"second", second_time_comes_from_the_cache}, {"damaged", damaged_entries_are_rebuilt},
      {"swapped", swapped_entries_are_rebuilt}, {"foreign", directories_of_others_are_not_used},
      {"nowhere", no_place_for_a_cache}, {"failing", compilers_that_fail}, {"next", next_compiler_is_tried},
      {"stop", stop_ends_the_compiler}, {"children", stop_ends_children_and_trials},
      {"death", death_ends_the_compiler}, {"large", large_code_is_interpreted},
      {"at_once", two_first_runs_at_once}, {"killed", killed_runs_leave_no_entry},
      {"sha256", sha256_of_known_texts})
