/* SPDX-License-Identifier: MIT */
#include "io/netcdf.h"
#include "io/file.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* From the interface of netCDF, which has not changed since version 4.6.2 of 2018, the first that can write
 * to memory. */
enum { NETCDF4 = 0x1000, TYPE_DOUBLE = 6, TYPE_INT64 = 10, TYPE_STRING = 12, OWN_ATTRIBUTES = -1 };
enum { ERROR_DEFINED = -38 }; /* "not allowed in data mode" */
enum { FIRST_BYTES = 1 << 16, NAME_BYTES = 256, PACK_LEVEL = 1 };

typedef struct {
  size_t size;
  void *memory;
  int flags;
} memory_file;

/* The library, once loaded: never changed afterwards. */
static struct {
  pthread_once_t once;
  pthread_mutex_t lock; /* held while a file is being made */
  char why[256];        /* why it cannot be used; "" if it can */
  int (*create)(const char *path, int mode, size_t bytes, int *file);
  int (*group)(int file, const char *name, int *group);
  int (*dim)(int group, const char *name, size_t n, int *dim);
  int (*var)(int group, const char *name, int type, int n_dim, const int *dim, int *var);
  int (*deflate)(int group, int var, int shuffle, int deflate, int level);
  int (*put_reals)(int group, int var, const double *x);
  int (*put_integers)(int group, int var, const long long *x);
  int (*put_words)(int group, int var, const char **x);
  int (*att_text)(int group, int var, const char *key, size_t n, const char *text);
  int (*att_reals)(int group, int var, const char *key, int type, size_t n, const double *x);
  int (*att_integers)(int group, int var, const char *key, int type, size_t n, const long long *x);
  int (*close)(int file, memory_file *out);
  int (*abort)(int file);
  const char *(*words)(int code);
} lib = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

/* ISO C has no cast from an object to a function. */
static void find(void *from, const char *name, void *fn) {
  void *at = dlsym(from, name);
  memcpy(fn, &at, sizeof at);
  if (!at) snprintf(lib.why, sizeof lib.why, "it is older than 4.6.2: it has no %s", name);
}

static void load(void) {
  static const char *const name[] = {"libnetcdf.so.19", "libnetcdf.so.22", "libnetcdf.so"};
  const char *own = getenv("ATVI_NETCDF"); /* another library, or none */
  void *from = NULL;
  for (int i = 0; !from && i < (own ? 1 : 3); i++) {
    from = dlopen(own ? own : name[i], RTLD_LAZY | RTLD_LOCAL);
    if (!from && i == 0) snprintf(lib.why, sizeof lib.why, "%s", dlerror());
  }
  if (!from) return;
  lib.why[0] = 0;
  find(from, "nc_create_mem", &lib.create);
  find(from, "nc_def_grp", &lib.group);
  find(from, "nc_def_dim", &lib.dim);
  find(from, "nc_def_var", &lib.var);
  find(from, "nc_def_var_deflate", &lib.deflate);
  find(from, "nc_put_var_double", &lib.put_reals);
  find(from, "nc_put_var_longlong", &lib.put_integers);
  find(from, "nc_put_var_string", &lib.put_words);
  find(from, "nc_put_att_text", &lib.att_text);
  find(from, "nc_put_att_double", &lib.att_reals);
  find(from, "nc_put_att_longlong", &lib.att_integers);
  find(from, "nc_close_memio", &lib.close);
  find(from, "nc_abort", &lib.abort);
  find(from, "nc_strerror", &lib.words);
}

atvi_status atvi_io_netcdf_available(atvi_ctx *ctx) {
  pthread_once(&lib.once, load);
  if (!lib.why[0]) return ATVI_OK;
  return ATVI_FAIL(ctx, ATVI_EIO,
                   "the netCDF library cannot be loaded: %s (Debian: apt-get install libnetcdf-dev)",
                   lib.why);
}

struct atvi_netcdf {
  atvi_ctx *ctx;
  const char *path;
  int id;    /* of the library; -1: closed */
  int error; /* the first; 0: none */
  /* Values have been put, and nothing may be defined any more. */
  bool defined;
};

atvi_status atvi_io_netcdf_new(atvi_ctx *ctx, const char *path, atvi_netcdf **out) {
  *out = NULL;
  ATVI_TRY(atvi_io_netcdf_available(ctx));
  size_t n = strlen(path) + 1;
  atvi_netcdf *f = atvi_block(ctx, sizeof *f + n);
  if (!f) return ATVI_ENOMEM;
  f->ctx = ctx;
  f->path = memcpy(f + 1, path, n);
  f->id = -1;
  pthread_mutex_lock(&lib.lock);
  f->error = lib.create("memory", NETCDF4, FIRST_BYTES, &f->id);
  if (f->error) f->id = -1;
  *out = f;
  return ATVI_OK;
}

void atvi_io_netcdf_free(atvi_netcdf *f) {
  if (!f) return;
  if (f->id != -1) lib.abort(f->id);
  pthread_mutex_unlock(&lib.lock);
  atvi_block_free(f->ctx, f);
}

/* ---- names ---- */

/* Length of the UTF-8 character at s; 0: not one. The library refuses overlong forms and surrogates. */
static int utf8(const unsigned char *s) {
  int n = s[0] >= 0xC2 && s[0] < 0xE0   ? 2
          : s[0] >= 0xE0 && s[0] < 0xF0 ? 3
          : s[0] >= 0xF0 && s[0] < 0xF5 ? 4
                                        : 0;
  for (int i = 1; i < n; i++)
    if ((s[i] & 0xC0) != 0x80) return 0;
  return n;
}

static const char *clean(const char *name, char out[NAME_BYTES]) {
  int n = 0;
  for (const char *p = name; *p && n < NAME_BYTES - 5;) {
    int more = utf8((const unsigned char *)p);
    bool good = (unsigned char)*p > ' ' && (unsigned char)*p < 127 && *p != '/';
    if (n == 0) /* begins with a letter, a digit or _ */
      good = good && ((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9'));
    if (more) {
      memcpy(out + n, p, (size_t)more);
      n += more;
      p += more;
    } else {
      out[n++] = good ? *p : '_';
      p++;
    }
  }
  if (n == 0) out[n++] = '_';
  out[n] = 0;
  return out;
}

/* ---- pieces ---- */

static bool going(const atvi_netcdf *f) { return f->error == 0; }

/* Whether a definition is possible. */
static bool defining(atvi_netcdf *f) {
  if (going(f) && f->defined) f->error = ERROR_DEFINED;
  return going(f);
}

/* Whether values can be put; the library ends the definitions itself. */
static bool putting(atvi_netcdf *f) {
  f->defined = true;
  return going(f);
}

static int inside(const atvi_netcdf *f, int group) { return group == ATVI_NETCDF_ROOT ? f->id : group; }

int atvi_io_netcdf_group(atvi_netcdf *f, const char *name) {
  char safe[NAME_BYTES];
  int id = ATVI_NETCDF_ROOT;
  if (defining(f)) f->error = lib.group(f->id, clean(name, safe), &id);
  return id;
}

int atvi_io_netcdf_dim(atvi_netcdf *f, int group, const char *name, atvi_idx n) {
  char safe[NAME_BYTES];
  int id = -1;
  if (defining(f)) f->error = lib.dim(inside(f, group), clean(name, safe), (size_t)n, &id);
  return id;
}

static int variable(atvi_netcdf *f, int group, const char *name, int type, int n_dim, const int *dim) {
  char safe[NAME_BYTES];
  int id = -1;
  if (defining(f)) f->error = lib.var(inside(f, group), clean(name, safe), type, n_dim, dim, &id);
  return id;
}

int atvi_io_netcdf_reals(atvi_netcdf *f, int group, const char *name, int n_dim, const int *dim, bool pack) {
  int var = variable(f, group, name, TYPE_DOUBLE, n_dim, dim);
  if (going(f) && pack && n_dim > 0) f->error = lib.deflate(inside(f, group), var, 1, 1, PACK_LEVEL);
  return var;
}

int atvi_io_netcdf_integers(atvi_netcdf *f, int group, const char *name, int n_dim, const int *dim) {
  return variable(f, group, name, TYPE_INT64, n_dim, dim);
}

int atvi_io_netcdf_words(atvi_netcdf *f, int group, const char *name, int n_dim, const int *dim) {
  return variable(f, group, name, TYPE_STRING, n_dim, dim);
}

static int owner(int var) { return var == ATVI_NETCDF_ROOT ? OWN_ATTRIBUTES : var; }

void atvi_io_netcdf_note(atvi_netcdf *f, int group, int var, const char *key, const char *text) {
  if (defining(f)) f->error = lib.att_text(inside(f, group), owner(var), key, strlen(text), text);
}

void atvi_io_netcdf_note_reals(atvi_netcdf *f, int group, int var, const char *key, atvi_idx n,
                               const double *x) {
  if (defining(f)) f->error = lib.att_reals(inside(f, group), owner(var), key, TYPE_DOUBLE, (size_t)n, x);
}

void atvi_io_netcdf_note_integer(atvi_netcdf *f, int group, int var, const char *key, int64_t x) {
  long long value = x;
  if (defining(f)) f->error = lib.att_integers(inside(f, group), owner(var), key, TYPE_INT64, 1, &value);
}

void atvi_io_netcdf_put_reals(atvi_netcdf *f, int group, int var, const double *x) {
  if (putting(f)) f->error = lib.put_reals(inside(f, group), var, x);
}

void atvi_io_netcdf_put_integers(atvi_netcdf *f, int group, int var, const int64_t *x) {
  _Static_assert(sizeof(long long) == sizeof(int64_t), "the library takes long long");
  if (putting(f)) f->error = lib.put_integers(inside(f, group), var, (const long long *)x);
}

void atvi_io_netcdf_put_words(atvi_netcdf *f, int group, int var, const char *const *x) {
  /* the library only reads them, although its prototype does not say so */
  if (putting(f)) f->error = lib.put_words(inside(f, group), var, (const char **)x);
}

atvi_status atvi_io_netcdf_commit(atvi_netcdf *f) {
  memory_file file = {0};
  if (going(f)) {
    f->error = lib.close(f->id, &file);
    f->id = -1;
  }
  atvi_status status =
      going(f) ? atvi_io_file_save(f->ctx, f->path, file.memory, file.size)
               : ATVI_FAIL(f->ctx, ATVI_EIO, "cannot write %s: netCDF: %s", f->path, lib.words(f->error));
  free(file.memory); /* the library's */
  return status;
}
