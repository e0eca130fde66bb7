/* SPDX-License-Identifier: MIT */
#include "sim/record.h"
#include "io/file.h"
#include "sim/detail.h"
#include "testing.h"
#include <sys/stat.h>
#include <unistd.h>

static atvi_ctx *ctx;
static atvi_pool *pool;
static char dir[64];

static const char *const PARAM[] = {"k"}, *const OUTPUT[] = {"flow"};
static const atvi_sim_shape SHAPE = {1, 1, PARAM, OUTPUT, "./sim {k}"};

static void begin(void) {
  ctx = test_ctx();
  CHECK_OK(atvi_pool_new(ctx, &pool));
  strcpy(dir, "/tmp/atvi_shardsXXXXXX");
  CHECK(mkdtemp(dir));
}

static void end(void) {
  atvi_pool_free(pool);
  CHECK(atvi_sim_folder_remove(dir));
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static const char *main_path(void) {
  static char path[100];
  snprintf(path, sizeof path, "%s/%s", dir, ATVI_SIM_RECORD);
  return path;
}

static atvi_sim_record *open_record(const char *path) {
  atvi_sim_record *r;
  CHECK_OK(atvi_sim_record_open(ctx, path, &SHAPE, &r));
  return r;
}

static void add(atvi_sim_record *r, int64_t id, bool ok, double value) {
  double x = 0.5 * (double)id, v = value;
  atvi_sim_series out = {1, NULL, &v};
  CHECK_OK(atvi_sim_record_add(r, &(atvi_sim_run){.id = id,
                                                  .x = &x,
                                                  .ok = ok,
                                                  .out = &out,
                                                  .seconds = 2,
                                                  .attempts = 1,
                                                  .reason = ok ? NULL : "ended with status 3"}));
}

static atvi_sim_record *open_shard(const char *name) {
  const char *path = atvi_sim_shards_path(pool, main_path(), name);
  CHECK(path);
  return open_record(path);
}

/* Good before failed in whatever file; of equals the last file by name, whatever the order in which they were
 * written. */
static void files_read_as_one_record(void) {
  atvi_sim_runs runs;
  begin();
  atvi_sim_record *b = open_shard("1-b"), *a = open_shard("0-a"), *m = open_record(main_path());
  add(b, 1, false, 0), add(b, 2, true, 22), add(b, 3, false, 0);
  add(a, 1, true, 11), add(a, 2, true, 12), add(a, 3, false, 0), add(a, 5, false, 0);
  atvi_sim_record_free(a);
  atvi_sim_record_free(b);
  atvi_sim_record_free(m);
  CHECK_OK(atvi_sim_runs_read(pool, main_path(), 0, 1, &(atvi_sim_want){"flow", 1, PARAM}, &runs));
  CHECK_INT(runs.n, 2);
  CHECK(runs.id[0] == 1 && runs.y[0] == 11 && runs.id[1] == 2 && runs.y[1] == 22);
  CHECK_INT(runs.n_failed, 2);
  CHECK_INT(runs.left[1].id, 5);
  /* the writer knows the same, and adds at the end, to a file of its own */
  m = open_record(main_path());
  CHECK(atvi_sim_record_find(m, 1)->ok && atvi_sim_record_find(m, 2)->ok && !atvi_sim_record_find(m, 3)->ok);
  add(m, 3, true, 33), add(m, 4, true, 44);
  atvi_sim_record_free(m);
  struct stat st;
  CHECK(stat(main_path(), &st) == 0 && st.st_size < 200); /* its first line */
  CHECK_OK(atvi_sim_runs_read(pool, main_path(), 0, 1, &(atvi_sim_want){"flow", 1, PARAM}, &runs));
  CHECK(runs.n == 4 && runs.y[2] == 33 && runs.y[3] == 44);
  /* as it was before */
  CHECK_OK(atvi_sim_runs_read(pool, main_path(), 10, 1, &(atvi_sim_want){"flow", 1, PARAM}, &runs));
  CHECK_INT(runs.n, 2);
  end();
}

/* Half a line, as a killed worker leaves it, is no run for any reader. */
static void half_a_line_is_no_run(void) {
  atvi_sim_index ix = {.pool = NULL, .dir = dir};
  atvi_sim_runs runs;
  begin();
  ix.pool = pool;
  atvi_sim_record *a = open_shard("1-a");
  add(a, 1, true, 11), add(a, 2, true, 12);
  CHECK_OK(atvi_sim_shards_begin(ctx, dir, atvi_sim_shards_path(pool, main_path(), "1-a")));
  CHECK_OK(atvi_sim_index_read(&ix));
  CHECK(ix.n_ok == 2 && ix.n_part == 2 && ix.part[1].ok == 2 && ix.seconds == 4 && ix.longest_s == 2);
  FILE *f = fopen(atvi_sim_shards_path(pool, main_path(), "1-a"), "a");
  CHECK(f && fputs("{\"id\":3,\"outcome\":\"ok\",\"seco", f) >= 0 && fflush(f) == 0);
  CHECK_OK(atvi_sim_index_read(&ix));
  CHECK(ix.n_ok == 2 && atvi_sim_index_state(&ix, 3) == ATVI_SIM_OPEN);
  CHECK_OK(atvi_sim_runs_read(pool, main_path(), 0, 1, &(atvi_sim_want){"flow", 1, PARAM}, &runs));
  CHECK_INT(runs.n, 2);
  CHECK(fputs("nds\":1,\"parameters\":{\"k\":1},\"outputs\":{\"flow\":{\"value\":[1]}}}\n", f) >= 0 &&
        fclose(f) == 0);
  CHECK_OK(atvi_sim_index_read(&ix));
  CHECK(ix.n_ok == 3 && atvi_sim_index_state(&ix, 3) == ATVI_SIM_GOOD);
  atvi_sim_record_free(a);
  /* a new file before the ones that are known, a long line, and one that somebody has edited */
  a = open_shard("0-first");
  add(a, 4, false, 0);
  atvi_sim_record_free(a);
  f = fopen(atvi_sim_shards_path(pool, main_path(), "0-first"), "a");
  CHECK(f &&
        fputs("{\"outcome\":\"ok\", \"id\": 6, \"parameters\":{\"k\":1},\"outputs\":{\"flow\":{\"value\":[1",
              f) >= 0);
  for (int i = 0; i < 600000; i++) fputs(",2", f);
  CHECK(fputs("]}}}\n", f) >= 0 && fclose(f) == 0);
  CHECK_OK(atvi_sim_index_read(&ix));
  CHECK(ix.n_part == 3 && ix.n_ok == 4 && ix.part[2].ok == 3 && ix.part[1].failed == 1);
  CHECK_INT(atvi_sim_index_state(&ix, 4), ATVI_SIM_FAILED);
  CHECK_STR(ix.mark[4].reason, "ended with status 3");
  f = fopen(atvi_sim_shards_path(pool, main_path(), "0-first"), "a");
  CHECK(f && fputs("garbage\n", f) >= 0 && fclose(f) == 0);
  CHECK_STATUS(atvi_sim_index_read(&ix), ATVI_EDATA);
  end();
}

/* Failed runs are opened again once: failing again, they have failed. */
static void failures_are_forgiven_once(void) {
  begin();
  atvi_sim_index ix = {.pool = pool, .dir = dir};
  atvi_sim_record *a = open_shard("1-a");
  add(a, 1, false, 0), add(a, 2, true, 2), add(a, 3, false, 0), add(a, 3, false, 0);
  CHECK_OK(atvi_sim_index_read(&ix));
  CHECK_OK(atvi_sim_index_forgive(&ix, 3, (const int64_t[]){1, 2, 3}));
  for (int id = 1; id <= 3; id += 2) CHECK_INT(atvi_sim_index_state(&ix, id), ATVI_SIM_OPEN);
  CHECK_INT(atvi_sim_index_state(&ix, 2), ATVI_SIM_GOOD);
  add(a, 1, false, 0), add(a, 3, true, 3);
  atvi_sim_record_free(a);
  atvi_sim_index fresh = {.pool = pool, .dir = dir};
  CHECK_OK(atvi_sim_index_read(&ix));
  CHECK_OK(atvi_sim_index_read(&fresh));
  CHECK(atvi_sim_index_state(&ix, 1) == ATVI_SIM_FAILED &&
        atvi_sim_index_state(&fresh, 1) == ATVI_SIM_FAILED);
  CHECK(atvi_sim_index_state(&ix, 3) == ATVI_SIM_GOOD && atvi_sim_index_state(&fresh, 3) == ATVI_SIM_GOOD);
  end();
}

TESTS({"one", files_read_as_one_record}, {"half", half_a_line_is_no_run},
      {"forgiven", failures_are_forgiven_once})
