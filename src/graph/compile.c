/* SPDX-License-Identifier: MIT */
/* From generated C to loaded code: find a compiler, look in the cache, else run the compiler in a
 * private folder and put the result into the cache. No shell is involved. Where the cache
 * cannot be used (no home, not ours, read-only, full) the code is compiled in a temporary folder
 * for this run only. Whatever goes wrong ends in a reason, never in an error.
 *
 * A compiler is a group of processes: the driver starts others, which outlive it unless the group is killed.
 * It is killed when its time is over, when the user asks to stop, and, by a guard, when we die before it. */
#include "core/guard.h"
#include "graph/internal.h"
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __x86_64__
#include <cpuid.h>
#elif defined __linux__
#include <sys/auxv.h>
#endif

extern char **environ;

/* ---- the cache: a directory of ours, mode 0700, of entries <key>.so ----
 *
 * Loading runs the code of a file, and dlopen may crash on a damaged one. So an entry is loaded
 * only from a directory that belongs to us and that nobody else may write, only if it is a plain
 * file of ours, and only if its seal fits: SHA-256 over its contents and its key, appended behind the
 * end of the ELF image, where the loader does not look. Entries appear under their name by
 * rename(), complete; whoever comes second replaces them by their like. */

static const char magic[8] = {'a', 't', 'v', 'i', 's', 'e', 'a', 'l'};
enum { SEAL = 32 + 8, MAX_ENTRY = 1 << 30, KEY_HEX = 64 };

static bool make_dirs(char *path) {
  for (char *p = path + 1; *p; p++) {
    if (*p != '/') continue;
    *p = 0;
    bool ok = mkdir(path, 0700) == 0 || errno == EEXIST;
    *p = '/';
    if (!ok && errno != EROFS && errno != EACCES) return false;
  }
  return mkdir(path, 0700) == 0 || errno == EEXIST;
}

/* The directory, made if need be and checked to be ours alone; NULL, and why, if it may not be used.
 * dir NULL: $XDG_CACHE_HOME/atvi or $HOME/.cache/atvi. */
static const char *cache_dir(atvi_pool *pool, const char *dir, char *why, size_t room) {
  const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  char *path = NULL;
  if (dir)
    path = atvi_pool_printf(pool, "%s", dir);
  else if (xdg && xdg[0] == '/')
    path = atvi_pool_printf(pool, "%s/atvi", xdg);
  else if (home && home[0] == '/')
    path = atvi_pool_printf(pool, "%s/.cache/atvi", home);
  if (!path || !*path) {
    snprintf(why, room, "neither XDG_CACHE_HOME nor HOME is set");
    return NULL;
  }
  struct stat st;
  if (!make_dirs(path) || lstat(path, &st) != 0) {
    snprintf(why, room, "cannot make %s: %s", path, strerror(errno));
    return NULL;
  }
  if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH))) {
    snprintf(why, room, "%s is not a directory that only we can write", path);
    return NULL;
  }
  return path;
}

/* Where folders that hold a compilation are: dir, or the system's place for temporary files. *prefix: how
 * their names begin. */
static const char *temp_place(const char *dir, const char **prefix) {
  const char *tmp = getenv("TMPDIR");
  *prefix = dir ? "tmp-" : "atvi-cc-";
  return dir ? dir : tmp && tmp[0] == '/' ? tmp : "/tmp";
}

/* A fresh private folder in dir (NULL: the system's place for temporary files) or NULL. */
static const char *cache_temp(atvi_pool *pool, const char *dir) {
  const char *prefix, *place = temp_place(dir, &prefix);
  char *path = atvi_pool_printf(pool, "%s/%sXXXXXX", place, prefix);
  return path && mkdtemp(path) ? path : NULL;
}

/* Removes a folder made by cache_temp and what it holds. */
static void cache_temp_remove(const char *folder) {
  DIR *d = opendir(folder);
  if (d) {
    for (struct dirent *e; (e = readdir(d));)
      if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
  }
  rmdir(folder);
}

/* Removes folders that runs killed an hour or more ago left there. */
static void cache_tidy(atvi_pool *pool, const char *dir) {
  const time_t hour_s = 3600; /* no compiler has that long */
  const char *prefix, *place = temp_place(dir, &prefix);
  DIR *d = opendir(place);
  if (!d) return;
  for (struct dirent *e; (e = readdir(d));) {
    struct stat st;
    size_t n = strlen(prefix);
    if (strncmp(e->d_name, prefix, n) != 0 || strlen(e->d_name) != n + 6 ||
        fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || time(NULL) - st.st_mtime < hour_s) continue;
    const char *folder = atvi_pool_printf(pool, "%s/%s", place, e->d_name);
    if (folder) cache_temp_remove(folder);
  }
  closedir(d);
}

/* The whole file if it is a plain one of ours; *bytes its size. NULL: errno, or 0 where it is not fit. */
static unsigned char *read_file(atvi_pool *pool, const char *path, size_t *bytes) {
  struct stat st;
  int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return NULL;
  unsigned char *data = NULL;
  errno = 0;
  if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
      !(st.st_mode & (S_IWGRP | S_IWOTH)) && st.st_size > 0 && st.st_size < MAX_ENTRY)
    data = atvi_pool_take(pool, (size_t)st.st_size, 1);
  for (*bytes = 0; data && *bytes < (size_t)st.st_size;) {
    ssize_t got = read(fd, data + *bytes, (size_t)st.st_size - *bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      data = NULL;
    else
      *bytes += (size_t)got;
  }
  close(fd);
  return data;
}

static void seal_of(const unsigned char *data, size_t bytes, const char *key, unsigned char seal[SEAL]) {
  atvi_sha256 s;
  atvi_sha256_begin(&s);
  atvi_sha256_add(&s, key, strlen(key));
  atvi_sha256_add(&s, data, bytes);
  atvi_sha256_end(&s, seal);
  memcpy(seal + 32, magic, sizeof magic);
}

/* Appends the seal to a file: what makes it an undamaged entry for this key. */
static bool cache_seal(atvi_pool *pool, const char *path, const char *key) {
  size_t bytes, done = 0;
  unsigned char seal[SEAL];
  /* the umask may have left it writable for others */
  unsigned char *data = chmod(path, 0700) == 0 ? read_file(pool, path, &bytes) : NULL;
  int fd = data ? open(path, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC) : -1;
  if (fd < 0) return false;
  seal_of(data, bytes, key, seal);
  while (done < SEAL) {
    ssize_t put = write(fd, seal + done, SEAL - done);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) break;
    done += (size_t)put;
  }
  return close(fd) == 0 && done == SEAL;
}

/* The sealed file, loaded; NULL if it is absent, damaged, not ours or does not load (why, unless absent). */
static void *cache_load(atvi_pool *pool, const char *path, const char *key, char *why, size_t room) {
  size_t bytes;
  unsigned char seal[SEAL];
  *why = 0;
  unsigned char *data = read_file(pool, path, &bytes);
  if (!data) {
    if (errno != ENOENT) snprintf(why, room, "%s cannot be read or is not ours", path);
    return NULL;
  }
  if (bytes > SEAL) seal_of(data, bytes - SEAL, key, seal);
  if (bytes <= SEAL || memcmp(data + bytes - SEAL, seal, SEAL) != 0) {
    snprintf(why, room, "%s is damaged", path);
    return NULL;
  }
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *said = dlerror();
    snprintf(why, room, "cannot load: %s", said ? said : path);
  }
  return handle;
}

/* ---- the compiler ---- */

static const double time_limit_s = 60;
/* Bytes of source above which there is no compiling. GCC 12 takes 7 s and 160 MB per MB of straight-line code
 * (atvi check of sums of 400 to 14400 terms: 0.04 MB 0.2 s, 0.67 MB 4.7 s, 1.5 MB 11 s), so that this is a
 * third of the time limit on an idle machine. */
static const size_t SOURCE_MAX = (size_t)3 << 20;

/* -O1 takes 2/3 of the time of -O2 and its code runs as fast; but what GCC calls expensive is needed: fused
 * multiply-add, and vzeroupper before calls and returns, without which the SSE code called runs at a third. */
static const char *const flags[] = {
    "-std=gnu11",
    "-O1",
    "-fexpensive-optimizations",
    "-fPIC",
    "-shared",
    "-pipe",
    "-w",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    "-Wl,-z,defs",
#if defined __x86_64__
    "-march=native",
#else
    "-mcpu=native",
#endif
};
enum { N_FLAG = sizeof flags / sizeof flags[0] };

typedef struct {
  atvi_pool *pool;
  const char *source, *compiler; /* the compiler as a path */
  const char *dir;               /* of the cache; NULL: not used */
  char key[KEY_HEX + 1];
  /* no other folder and no other compiler would do better */
  bool give_up;
  atvi_compiled *out;
} job;

/* The file that exec would run: name itself if it has a slash, else the first in PATH. */
static const char *find_in_path(atvi_pool *pool, const char *name) {
  const char *path = getenv("PATH");
  if (strchr(name, '/')) return access(name, X_OK) == 0 ? name : NULL;
  for (const char *p = path ? path : "/usr/bin:/bin"; *p;) {
    size_t len = strcspn(p, ":");
    const char *full = len ? atvi_pool_printf(pool, "%.*s/%s", (int)len, p, name) : NULL;
    struct stat st;
    if (full && stat(full, &st) == 0 && S_ISREG(st.st_mode) && access(full, X_OK) == 0) return full;
    p += len + (p[len] == ':');
  }
  return NULL;
}

/* What the processor can do, as numbers for a cache key: code compiled for one machine must not be
 * loaded on another that shares the home directory. */
static void describe_cpu(char *text, size_t room) {
  size_t used = 0;
#ifdef __x86_64__
  static const unsigned leaf[][2] = {{0, 0}, {1, 0}, {7, 0}, {7, 1}, {0xd, 0}, {0x80000001u, 0}};
  for (size_t k = 0; k < sizeof leaf / sizeof leaf[0]; k++) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid_count(leaf[k][0], leaf[k][1], &a, &b, &c, &d)) continue;
    if (leaf[k][0] == 1) b = 0;                               /* holds the number of the core at hand */
    if (leaf[k][0] == 7 && leaf[k][1] == 0) d &= ~(1u << 15); /* hybrid: differs between cores */
    int len = snprintf(text + used, room - used, "%x.%x.%x.%x ", a, b, c, d);
    if (len < 0 || (size_t)len >= room - used) return;
    used += (size_t)len;
  }
#elif defined __linux__
  snprintf(text + used, room - used, "%lx.%lx", getauxval(AT_HWCAP), getauxval(AT_HWCAP2));
#else
  (void)used;
  snprintf(text, room, "unknown");
#endif
}

static void add_text(atvi_sha256 *s, const char *text) { atvi_sha256_add(s, text, strlen(text) + 1); }

/* A compiler is known by where it is, its size and its date: asking its version costs more than loading. */
static bool make_key(job *j) {
  struct stat st;
  char number[128], cpu[512] = "";
  unsigned char digest[32];
  if (stat(j->compiler, &st) != 0) return false;
  atvi_sha256 s;
  atvi_sha256_begin(&s);
  add_text(&s, ATVI_VERSION);
  for (int k = 0; k < N_FLAG; k++) add_text(&s, flags[k]);
  add_text(&s, j->compiler);
  snprintf(number, sizeof number, "%lld %lld %ld", (long long)st.st_size, (long long)st.st_mtim.tv_sec,
           (long)st.st_mtim.tv_nsec);
  add_text(&s, number);
  describe_cpu(cpu, sizeof cpu);
  add_text(&s, cpu);
  add_text(&s, j->source);
  atvi_sha256_end(&s, digest);
  for (int k = 0; k < 32; k++) snprintf(j->key + 2 * k, 3, "%02x", digest[k]);
  return true;
}

static bool write_file(const char *path, const char *text) {
  size_t left = strlen(text);
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  while (left) {
    ssize_t put = write(fd, text, left);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) break;
    text += put;
    left -= (size_t)put;
  }
  return close(fd) == 0 && left == 0;
}

/* Waits for the compiler; kills its group when its time is over or the user asks to stop. Its status, or -1. */
static int wait_for(job *j, const atvi_guard *guard, pid_t pid) {
  const struct timespec nap = {.tv_nsec = 1000000};
  double start = atvi_clock_s();
  for (;;) {
    siginfo_t info = {0};
    int status, got = waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT);
    bool late = atvi_clock_s() - start > time_limit_s;
    j->give_up = got == 0 && info.si_pid == 0 && (late || atvi_stop_asked(atvi_pool_ctx(j->pool)));
    if (got == 0 && info.si_pid == 0 && !j->give_up) {
      nanosleep(&nap, NULL);
      continue;
    }
    if (got != 0 && errno == EINTR) continue;
    if (got == 0) { /* while the leader is unburied, so that the number is nobody else's */
      kill(-pid, SIGKILL);
      kill(pid, SIGKILL); /* which leads no group yet where posix_spawn does not wait for it, as under qemu */
    }
    atvi_guard_drop(guard, pid);
    pid_t buried;
    do buried = waitpid(pid, &status, 0);
    while (buried < 0 && errno == EINTR);
    if (!j->give_up) return buried == pid ? status : 0; /* SIGCHLD is ignored: judge by the output */
    snprintf(j->out->reason, sizeof j->out->reason, late ? "the compiler took more than %g s" : "stopped",
             time_limit_s);
    return -1;
  }
}

/* The first line of the compiler's messages that names an error, else the first. */
static void first_error(const char *path, char *why, size_t room) {
  char line[200], best[200] = "";
  FILE *f = fopen(path, "re");
  if (!f) return;
  while (fgets(line, sizeof line, f)) {
    line[strcspn(line, "\n")] = 0;
    bool error = strstr(line, "error") != NULL;
    if (error || !best[0]) memcpy(best, line, sizeof best);
    if (error) break;
  }
  fclose(f);
  if (best[0]) snprintf(why, room, "compiler: %s", best);
}

/* Our environment with the compiler's own temporary files sent to folder, where they are cleaned up. */
static char **environment(atvi_pool *pool, const char *folder) {
  size_t n = 0, kept = 0;
  while (environ[n]) n++;
  char **env = atvi_pool_take(pool, n + 2, sizeof *env);
  char *tmp = atvi_pool_printf(pool, "TMPDIR=%s", folder);
  if (!env || !tmp) return NULL;
  for (size_t k = 0; k < n; k++)
    if (strncmp(environ[k], "TMPDIR=", 7) != 0) env[kept++] = environ[k];
  env[kept] = tmp;
  return env;
}

static bool run_compiler(job *j, const char *folder, const char *c_file, const char *so_file,
                         const char *err_file) {
  char *why = j->out->reason;
  size_t room = sizeof j->out->reason;
  const char *argv[N_FLAG + 8];
  int n = 0;
  argv[n++] = j->compiler;
  for (int k = 0; k < N_FLAG; k++) argv[n++] = flags[k];
  argv[n++] = "-o";
  argv[n++] = so_file;
  argv[n++] = c_file;
#if defined __x86_64__ && defined __GLIBC__
  argv[n++] = "-lmvec";
#endif
  argv[n++] = "-lm";
  argv[n] = NULL;
  char **env = environment(j->pool, folder);
  if (!env) return false;
  posix_spawn_file_actions_t act;
  posix_spawnattr_t attr;
  if (posix_spawn_file_actions_init(&act) != 0) return false;
  if (posix_spawnattr_init(&attr) != 0) {
    posix_spawn_file_actions_destroy(&act);
    return false;
  }
  pid_t pid;
  atvi_guard guard;
  (void)atvi_guard_start(&guard); /* without one, a compiler may outlive us: no more than that */
  int bad = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
  bad = bad ? bad : posix_spawn_file_actions_addopen(&act, 0, "/dev/null", O_RDONLY, 0);
  bad = bad ? bad : posix_spawn_file_actions_addopen(&act, 1, "/dev/null", O_WRONLY, 0);
  bad = bad ? bad : posix_spawn_file_actions_addopen(&act, 2, err_file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  bad = bad ? bad : posix_spawn(&pid, j->compiler, &act, &attr, (char *const *)argv, env);
  posix_spawn_file_actions_destroy(&act);
  posix_spawnattr_destroy(&attr);
  if (bad) {
    snprintf(why, room, "cannot run %s: %s", j->compiler, strerror(bad));
  } else {
    atvi_guard_add(&guard, pid);
  }
  int status = bad ? -1 : wait_for(j, &guard, pid);
  atvi_guard_end(&guard);
  if (status == 0 && access(so_file, R_OK) == 0) return true;
  if (status != -1) {
    snprintf(why, room, "%s failed with status %d", j->compiler, status);
    first_error(err_file, why, room);
  }
  return false;
}

/* Compiles in a folder of its own below dir (NULL: temporary) and loads the result. */
static bool build_in(job *j, const char *dir) {
  char *why = j->out->reason;
  size_t room = sizeof j->out->reason;
  const char *folder = cache_temp(j->pool, dir);
  if (!folder) {
    snprintf(why, room, "cannot make a folder in %s: %s", dir ? dir : "the temporary directory",
             strerror(errno));
    return false;
  }
  const char *c_file = atvi_pool_printf(j->pool, "%s/m.c", folder);
  const char *so_file = atvi_pool_printf(j->pool, "%s/m.so", folder);
  const char *err_file = atvi_pool_printf(j->pool, "%s/err", folder);
  const char *entry = dir ? atvi_pool_printf(j->pool, "%s/%s.so", dir, j->key) : so_file;
  if (!entry || !err_file || !so_file || !c_file) {
    snprintf(why, room, "out of memory");
  } else if (!write_file(c_file, j->source)) {
    snprintf(why, room, "cannot write %s: %s", c_file, strerror(errno));
  } else if (run_compiler(j, folder, c_file, so_file, err_file)) {
    if (!cache_seal(j->pool, so_file, j->key) || (dir && rename(so_file, entry) != 0)) {
      snprintf(why, room, "cannot write %s: %s", entry, strerror(errno));
    } else {
      j->out->handle = cache_load(j->pool, entry, j->key, why, room);
    }
  }
  cache_temp_remove(folder);
  return j->out->handle != NULL;
}

static bool try_compiler(job *j) {
  char why[256];
  if (!make_key(j)) return false;
  if (j->dir) {
    const char *entry = atvi_pool_printf(j->pool, "%s/%s.so", j->dir, j->key);
    if (!entry) return false;
    j->out->handle = cache_load(j->pool, entry, j->key, why, sizeof why);
    j->out->from_cache = j->out->handle != NULL;
    if (j->out->handle) return true;
    if (*why) atvi_log(atvi_pool_ctx(j->pool), ATVI_LOG_NOTE, "compiling anew: %s", why);
  }
  double start = atvi_clock_s();
  bool done = false;
  if (j->dir) {
    cache_tidy(j->pool, j->dir);
    done = build_in(j, j->dir);
  }
  if (!done && !j->give_up) {
    cache_tidy(j->pool, NULL);
    done = build_in(j, NULL);
  }
  j->out->compile_s = atvi_clock_s() - start;
  if (done) j->out->reason[0] = 0;
  return done;
}

void atvi_graph_compile(atvi_pool *pool, const char *source, const atvi_module_opts *opts,
                        atvi_compiled *out) {
  static const char *const usual[] = {"cc", "gcc", "clang"};
  char why[256];
  *out = (atvi_compiled){0};
  if (strlen(source) > SOURCE_MAX) {
    snprintf(out->reason, sizeof out->reason,
             "it is too large to compile: %.1f MB of code, the limit is %.0f MB",
             (double)strlen(source) / (1 << 20), (double)SOURCE_MAX / (1 << 20));
    return;
  }
  job j = {.pool = pool, .source = source, .out = out};
  j.dir = cache_dir(pool, opts->cache_dir, why, sizeof why);
  if (!j.dir) atvi_log(atvi_pool_ctx(pool), ATVI_LOG_NOTE, "compiled code is not kept: %s", why);
  const char *wish = opts->compiler ? opts->compiler : getenv("ATVI_CC");
  if (wish && !*wish) wish = NULL;
  snprintf(out->reason, sizeof out->reason, "no compiler found (tried %s)", wish ? wish : "cc, gcc, clang");
  for (int k = 0; k < (wish ? 1 : 3) && !out->handle && !j.give_up && !atvi_pool_failed(pool); k++) {
    j.compiler = find_in_path(pool, wish ? wish : usual[k]);
    if (j.compiler) try_compiler(&j);
  }
}

/* ---- modules: programs lowered, then compiled where asked and possible, else interpreted ---- */

struct atvi_module {
  atvi_ctx *ctx;
  atvi_pool *pool; /* of the interpreter's tables */
  void *handle;    /* of the compiled code; NULL: interpreted */
  atvi_idx n;
  atvi_prog *prog; /* [n] */
};

void atvi_graph_module_free(atvi_module *m) {
  if (!m) return;
  if (m->handle) dlclose(m->handle);
  atvi_pool_free(m->pool);
  atvi_block_free(m->ctx, m->prog);
  atvi_block_free(m->ctx, m);
}

atvi_prog atvi_graph_module_get(const atvi_module *m, atvi_idx i) {
  ATVI_ASSERT(i >= 0 && i < m->n);
  return m->prog[i];
}

static atvi_status lower_all(atvi_pool *pool, const atvi_graph *g, atvi_idx n, const atvi_prog_spec *spec,
                             atvi_graph_code **out) {
  atvi_graph_code *code = *out = atvi_pool_take(pool, (size_t)n, sizeof *code);
  if (!code) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < n; i++) ATVI_TRY(atvi_graph_code_new(pool, g, &spec[i], &code[i]));
  return ATVI_OK;
}

/* dlsym gives an object pointer; POSIX promises that its bits are those of the function. */
static bool find_program(void *handle, const char *name, atvi_prog *prog) {
  char symbol[256];
  int len = snprintf(symbol, sizeof symbol, "atvi_prog_%s", name);
  void *p = len < (int)sizeof symbol ? dlsym(handle, symbol) : NULL;
  memcpy(&prog->fn, &p, sizeof p);
  prog->self = &atvi_graph_gen_callbacks;
  return p != NULL;
}

static atvi_status try_compile(atvi_module *m, atvi_pool *pool, const atvi_prog_spec *spec,
                               const atvi_graph_code *code, const atvi_module_opts *opts,
                               atvi_module_info *info) {
  size_t *scratch = atvi_pool_take(pool, (size_t)m->n, sizeof *scratch);
  const char *source = scratch ? atvi_graph_gen_source(pool, m->n, spec, code, scratch) : NULL;
  if (!source) return ATVI_ENOMEM;
  atvi_compiled c;
  atvi_graph_compile(pool, source, opts, &c);
  if (atvi_pool_failed(pool)) {
    if (c.handle) dlclose(c.handle);
    return ATVI_ENOMEM;
  }
  bool all = c.handle != NULL;
  for (atvi_idx i = 0; all && i < m->n; i++) {
    all = find_program(c.handle, spec[i].name, &m->prog[i]);
    m->prog[i].scratch = scratch[i];
    if (!all) snprintf(c.reason, sizeof c.reason, "the compiled code lacks program %.100s", spec[i].name);
  }
  if (!all && c.handle) dlclose(c.handle);
  m->handle = all ? c.handle : NULL;
  *info = (atvi_module_info){.compiled = all, .from_cache = all && c.from_cache, .compile_s = c.compile_s};
  if (!all) snprintf(info->reason, sizeof info->reason, "%s", c.reason);
  return ATVI_OK;
}

static atvi_status build(atvi_module *m, const atvi_graph *g, const atvi_prog_spec *spec,
                         const atvi_module_opts *opts, atvi_module_info *info, atvi_pool *work) {
  atvi_graph_code *code;
  for (atvi_idx i = 0; opts->tangent && i < m->n; i++)
    if (spec[i].n_scatter)
      return ATVI_FAIL(m->ctx, ATVI_EINVAL, "program %s: no tangent of scattered sums", spec[i].name);
  ATVI_TRY(lower_all(work, g, m->n, spec, &code));
  if (opts->compile && !opts->tangent) ATVI_TRY(try_compile(m, work, spec, code, opts, info));
  for (atvi_idx i = 0; !m->handle && i < m->n; i++)
    ATVI_TRY(atvi_graph_interp_new(m->pool, &code[i], &spec[i], &m->prog[i]));
  for (atvi_idx i = 0; opts->tangent && i < m->n; i++) {
    m->prog[i].fn = atvi_graph_tangent_run;
    m->prog[i].scratch *= 2;
  }
  return ATVI_OK;
}

atvi_status atvi_graph_module_new(atvi_ctx *ctx, const atvi_graph *g, atvi_idx n, const atvi_prog_spec *spec,
                                  const atvi_module_opts *opts, atvi_module **out, atvi_module_info *info) {
  atvi_module_info unasked;
  if (!info) info = &unasked;
  *info = (atvi_module_info){0};
  *out = NULL;
  if (n < 0) return ATVI_FAIL(ctx, ATVI_EINVAL, "module: %td programs", n);
  atvi_module *m = atvi_block(ctx, sizeof *m);
  if (!m) return ATVI_ENOMEM;
  *m = (atvi_module){.ctx = ctx, .n = n};
  m->prog = atvi_block(ctx, (size_t)n * sizeof *m->prog);
  atvi_pool *work = NULL;
  atvi_status status = m->prog ? ATVI_OK : ATVI_ENOMEM;
  if (status == ATVI_OK) status = atvi_pool_new(ctx, &m->pool);
  if (status == ATVI_OK) status = atvi_pool_new(ctx, &work);
  if (status == ATVI_OK) status = build(m, g, spec, opts ? opts : &(atvi_module_opts){0}, info, work);
  atvi_pool_free(work);
  if (status != ATVI_OK) {
    atvi_graph_module_free(m);
    return status;
  }
  *out = m;
  return ATVI_OK;
}

const char *atvi_graph_module_source(atvi_pool *pool, const atvi_graph *g, atvi_idx n,
                                     const atvi_prog_spec *spec) {
  atvi_graph_code *code;
  size_t *scratch = atvi_pool_take(pool, (size_t)n, sizeof *scratch);
  if (!scratch || lower_all(pool, g, n, spec, &code) != ATVI_OK) return NULL;
  return atvi_graph_gen_source(pool, n, spec, code, scratch);
}
