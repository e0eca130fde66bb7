/* SPDX-License-Identifier: MIT */
/* What is in the files is looked at by another reader, in tests/python/read_nc.py; here is how writing ends. */
#include "io/netcdf.h"
#include "io/file.h"
#include "testing.h"
#include <pthread.h>
#include <unistd.h>

static char path[64];

static void new_path(void) {
  snprintf(path, sizeof path, "/tmp/atvi-test-nc-XXXXXX");
  int fd = mkstemp(path);
  CHECK(fd >= 0 && close(fd) == 0);
}

static bool there_is_none(atvi_ctx *ctx) {
  if (atvi_io_netcdf_available(ctx) == ATVI_OK) return false;
  CHECK(strstr(atvi_errmsg(ctx), "libnetcdf-dev") != NULL);
  printf("SKIP: no netCDF library here\n");
  atvi_ctx_free(ctx);
  return true;
}

static void fill(atvi_netcdf *f) {
  static const double x[6] = {1.5, NAN, -HUGE_VAL, 2.385, 0, 7}, bound = 3;
  static const int64_t label[3] = {1, 2, 5};
  static const char *const word[3] = {"north", "", "\xc3\xa9t\xc3\xa9"};
  int g = atvi_io_netcdf_group(f, "posterior"), dim[2];
  dim[0] = atvi_io_netcdf_dim(f, g, "draw", 2);
  dim[1] = atvi_io_netcdf_dim(f, g, "beta_dim_0", 3);
  int index = atvi_io_netcdf_integers(f, g, "beta_dim_0", 1, &dim[1]);
  int place = atvi_io_netcdf_words(f, g, "place", 1, &dim[1]);
  int var = atvi_io_netcdf_reals(f, g, "beta", 2, dim, true);
  atvi_io_netcdf_note_reals(f, g, var, "upper", 1, &bound);
  atvi_io_netcdf_note(f, g, ATVI_NETCDF_ROOT, "method", "ram");
  atvi_io_netcdf_note_integer(f, ATVI_NETCDF_ROOT, ATVI_NETCDF_ROOT, "seed", 17);
  /* names that netCDF does not take as they are */
  const int odd[3] = {atvi_io_netcdf_reals(f, g, "a/b \xff", 1, &dim[0], false),
                      atvi_io_netcdf_reals(f, g, "\xc3\xa9t\xc3\xa9", 1, &dim[0], false),
                      atvi_io_netcdf_reals(f, g, "", 0, NULL, false)};
  atvi_io_netcdf_put_integers(f, g, index, label);
  atvi_io_netcdf_put_words(f, g, place, word);
  atvi_io_netcdf_put_reals(f, g, var, x);
  for (int i = 0; i < 3; i++) atvi_io_netcdf_put_reals(f, g, odd[i], x);
}

static void write_one(atvi_ctx *ctx, const char *to) {
  atvi_netcdf *f;
  CHECK_OK(atvi_io_netcdf_new(ctx, to, &f));
  fill(f);
  atvi_status status = atvi_io_netcdf_commit(f);
  CHECK_MSG(status == ATVI_OK, "%s", atvi_errmsg(ctx));
  atvi_io_netcdf_free(f);
}

static void the_same_calls_give_the_same_bytes(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  char *a, *b;
  size_t na, nb;
  if (there_is_none(ctx)) return;
  new_path();
  CHECK_OK(atvi_pool_new(ctx, &pool));
  write_one(ctx, path);
  CHECK_OK(atvi_io_file_read(pool, path, &a, &na));
  CHECK(na > 1000 && memcmp(a, "\x89HDF\r\n\x1a\n", 8) == 0);
  sleep(1); /* no clock is in it */
  write_one(ctx, path);
  CHECK_OK(atvi_io_file_read(pool, path, &b, &nb));
  CHECK(na == nb && memcmp(a, b, na) == 0);
  CHECK(unlink(path) == 0);
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void failures_are_told_at_the_end(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_netcdf *f;
  if (there_is_none(ctx)) return;
  CHECK_OK(atvi_io_netcdf_new(ctx, "/nowhere/x.nc", &f));
  fill(f);
  CHECK_STATUS(atvi_io_netcdf_commit(f), ATVI_EIO);
  CHECK(strstr(atvi_errmsg(ctx), "/nowhere/x.nc") != NULL);
  atvi_io_netcdf_free(f);
  new_path();
  CHECK_OK(atvi_io_netcdf_new(ctx, path, &f));
  atvi_io_netcdf_group(f, "twice");
  int g = atvi_io_netcdf_group(f, "twice"); /* all that follows does nothing */
  atvi_io_netcdf_dim(f, g, "draw", 2);
  CHECK_STATUS(atvi_io_netcdf_commit(f), ATVI_EIO);
  CHECK(strstr(atvi_errmsg(ctx), "netCDF: ") != NULL);
  atvi_io_netcdf_free(f);
  CHECK_OK(atvi_io_netcdf_new(ctx, path, &f)); /* given up */
  fill(f);
  atvi_io_netcdf_free(f);
  atvi_io_netcdf_free(NULL);
  CHECK(unlink(path) == 0);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* Definitions and values in turns would write the whole file out at every turn. */
static void nothing_is_defined_after_values(void) {
  static const double x[2] = {1.5, 2.385};
  atvi_ctx *ctx = test_ctx();
  if (there_is_none(ctx)) return;
  new_path();
  for (int late = 0; late <= 5; late++) {
    atvi_netcdf *f;
    CHECK_OK(atvi_io_netcdf_new(ctx, path, &f));
    int dim = atvi_io_netcdf_dim(f, ATVI_NETCDF_ROOT, "draw", 2);
    int var = atvi_io_netcdf_reals(f, ATVI_NETCDF_ROOT, "a", 1, &dim, false);
    atvi_io_netcdf_put_reals(f, ATVI_NETCDF_ROOT, var, x);
    if (late == 1) atvi_io_netcdf_group(f, "posterior");
    if (late == 2) atvi_io_netcdf_dim(f, ATVI_NETCDF_ROOT, "time", 3);
    if (late == 3) atvi_io_netcdf_integers(f, ATVI_NETCDF_ROOT, "b", 1, &dim);
    if (late == 4) atvi_io_netcdf_note(f, ATVI_NETCDF_ROOT, var, "kind", "derived");
    if (late == 5) atvi_io_netcdf_note_reals(f, ATVI_NETCDF_ROOT, var, "upper", 1, x);
    CHECK_STATUS(atvi_io_netcdf_commit(f), late ? ATVI_EIO : ATVI_OK);
    atvi_io_netcdf_free(f);
  }
  CHECK(unlink(path) == 0);
  atvi_ctx_free(ctx);
}

static void memory_failures_are_told(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_netcdf *f;
  if (there_is_none(ctx)) return;
  new_path();
  long live = test_live;
  for (long at = 1, ok = 0; !ok; at++) {
    test_fail_at = test_allocs + at;
    atvi_status status = atvi_io_netcdf_new(ctx, path, &f);
    CHECK(status == ATVI_OK ? f != NULL : status == ATVI_ENOMEM && !f);
    if (status == ATVI_OK) {
      fill(f);
      status = atvi_io_netcdf_commit(f);
    }
    test_fail_at = 0;
    atvi_io_netcdf_free(f);
    ok = status == ATVI_OK;
    CHECK(ok || status == ATVI_ENOMEM);
    CHECK_INT(test_live, live);
  }
  CHECK(unlink(path) == 0);
  atvi_ctx_free(ctx);
}

static void without_the_library_it_says_what_to_install(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_netcdf *f = (atvi_netcdf *)&f;
  CHECK(setenv("ATVI_NETCDF", "/nowhere/libnetcdf.so", 1) == 0);
  CHECK_STATUS(atvi_io_netcdf_available(ctx), ATVI_EIO);
  CHECK(strstr(atvi_errmsg(ctx), "libnetcdf-dev") && strstr(atvi_errmsg(ctx), "/nowhere"));
  CHECK_STATUS(atvi_io_netcdf_new(ctx, "x.nc", &f), ATVI_EIO);
  CHECK(f == NULL);
  atvi_ctx_free(ctx);
}

static void an_old_library_is_refused(void) {
  atvi_ctx *ctx = test_ctx();
  CHECK(setenv("ATVI_NETCDF", "libm.so.6", 1) == 0);
  CHECK_STATUS(atvi_io_netcdf_available(ctx), ATVI_EIO);
  CHECK(strstr(atvi_errmsg(ctx), "4.6.2") != NULL);
  atvi_ctx_free(ctx);
}

static void *write_many(void *arg) {
  atvi_ctx *ctx = test_ctx();
  for (int i = 0; i < 20; i++) write_one(ctx, arg);
  atvi_ctx_free(ctx);
  return NULL;
}

static void threads_take_turns(void) {
  atvi_ctx *ctx = test_ctx();
  pthread_t thread[4];
  char to[4][80];
  if (there_is_none(ctx)) return;
  new_path();
  for (int i = 0; i < 4; i++) {
    snprintf(to[i], sizeof to[i], "%s.%d", path, i);
    CHECK(pthread_create(&thread[i], NULL, write_many, to[i]) == 0);
  }
  for (int i = 0; i < 4; i++) CHECK(pthread_join(thread[i], NULL) == 0 && unlink(to[i]) == 0);
  CHECK(unlink(path) == 0);
  atvi_ctx_free(ctx);
}

TESTS({"bytes", the_same_calls_give_the_same_bytes}, {"failures", failures_are_told_at_the_end},
      {"order", nothing_is_defined_after_values}, {"memory", memory_failures_are_told},
      {"none", without_the_library_it_says_what_to_install}, {"old", an_old_library_is_refused},
      {"threads", threads_take_turns})
