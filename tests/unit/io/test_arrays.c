/* SPDX-License-Identifier: MIT */
#include "io/arrays.h"
#include "testing.h"

static void names_become_arrays(void) {
  static const char *const name[] = {"w",     "beta.2", "beta.3", "beta.5", "C.1.1", "C.1.2", "C.1.3",
                                     "C.2.1", "C.2.2",  "C.2.3",  "x.1",    "y.1",   "y.b",   ".5"};
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  atvi_array *a;
  atvi_idx n;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  CHECK_OK(atvi_io_arrays_find(pool, 14, name, NULL, &n, &a));
  CHECK_INT(n, 7);
  CHECK_STR(a[0].name, "w");
  CHECK_INT(a[0].n_dim, 0);
  CHECK_STR(a[1].name, "beta");
  CHECK_INT(a[1].first, 1);
  CHECK_INT(a[1].n, 3);
  CHECK_INT(a[1].n_dim, 1);
  CHECK_INT(a[1].size[0], 3);
  CHECK(a[1].label[0][0] == 2 && a[1].label[0][1] == 3 && a[1].label[0][2] == 5);
  CHECK_STR(a[2].name, "C");
  CHECK_INT(a[2].n_dim, 2);
  CHECK_INT(a[2].size[0], 2);
  CHECK_INT(a[2].size[1], 3);
  CHECK(a[2].label[0][1] == 2 && a[2].label[1][2] == 3);
  CHECK_STR(a[3].name, "x");
  CHECK_INT(a[3].size[0], 1);
  CHECK_STR(a[4].name, "y");
  CHECK_STR(a[5].name, "y.b");
  CHECK_STR(a[6].name, ".5");
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void words_are_indices_too(void) {
  static const char *const name[] = {"b.north",   "b.south",   "b.far_out", "C.north.1", "C.north.2",
                                     "C.south.1", "C.south.2", "z.a",       "x.1",       "x.a"};
  static const char *const twice[] = {"b.a", "b.a", "b.a"}, *const comes_back[] = {"b.a", "b.c", "b.c"};
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  atvi_array *a;
  atvi_idx n;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  CHECK_OK(atvi_io_arrays_find(pool, 10, name, NULL, &n, &a));
  CHECK_INT(n, 5);
  CHECK_STR(a[0].name, "b");
  CHECK_INT(a[0].n_dim, 1);
  CHECK_INT(a[0].size[0], 3);
  CHECK_STR(a[0].word[0][2], "far_out");
  CHECK_INT(a[0].label[0][2], 3);
  CHECK_STR(a[1].name, "C");
  CHECK_INT(a[1].n_dim, 2);
  CHECK_STR(a[1].word[0][1], "south");
  CHECK(a[1].word[1] == NULL && a[1].label[1][1] == 2);
  CHECK_STR(a[2].name, "z.a"); /* one word: not known to be an index */
  CHECK_INT(a[2].n_dim, 0);
  CHECK_STR(a[3].name, "x");
  CHECK_STR(a[4].name, "x.a");
  CHECK_OK(atvi_io_arrays_find(pool, 3, twice, NULL, &n, &a));
  CHECK_INT(n, 3);
  CHECK_OK(atvi_io_arrays_find(pool, 3, comes_back, NULL, &n, &a));
  CHECK_INT(n, 3);
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void what_is_no_grid_stays_apart(void) {
  static const char *const hole[] = {"C.1.1", "C.1.2", "C.2.1"}, *const back[] = {"b.2", "b.1"},
                           *const twice[] = {"b.1", "b.1"}, *const kin_name[] = {"b.1", "b.2", "b.3"},
                           *const deep[] = {"b.1.1.1.1.1", "b.1.1.1.1.2"};
  static const atvi_idx kin[] = {0, 0, 1};
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  atvi_array *a;
  atvi_idx n;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  CHECK_OK(atvi_io_arrays_find(pool, 3, hole, NULL, &n, &a));
  CHECK_INT(n, 3);
  CHECK_STR(a[2].name, "C.2.1");
  CHECK_INT(a[2].n_dim, 0);
  CHECK_INT(a[2].first, 2);
  CHECK_OK(atvi_io_arrays_find(pool, 2, back, NULL, &n, &a));
  CHECK_INT(n, 2);
  CHECK_OK(atvi_io_arrays_find(pool, 2, twice, NULL, &n, &a));
  CHECK_INT(n, 2);
  CHECK_OK(atvi_io_arrays_find(pool, 3, kin_name, kin, &n, &a));
  CHECK_INT(n, 2);
  CHECK_INT(a[0].size[0], 2);
  CHECK_INT(a[1].label[0][0], 3);
  CHECK_OK(atvi_io_arrays_find(pool, 2, deep, NULL, &n, &a));
  CHECK_INT(n, 2);
  CHECK_STR(a[0].name, "b.1.1.1.1.1");
  CHECK_OK(atvi_io_arrays_find(pool, 0, NULL, NULL, &n, &a));
  CHECK_INT(n, 0);
  CHECK_STR(atvi_io_array_bracket(pool, "b.2.13"), "b[2,13]");
  CHECK_STR(atvi_io_array_bracket(pool, "flow.max"), "flow[max]");
  CHECK_STR(atvi_io_array_bracket(pool, "C.north.2"), "C[north,2]");
  CHECK_STR(atvi_io_array_bracket(pool, "a.2b"), "a.2b");
  CHECK_STR(atvi_io_array_bracket(pool, "R0"), "R0");
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
}

static void memory_failures_are_told(void) {
  /* many names, so that the pool asks for more than once */
  enum { N = 3000 };
  static char text[N][16];
  static const char *name[N];
  for (int i = 0; i < N; i++) snprintf(text[i], sizeof text[i], "long_name.%d", i), name[i] = text[i];
  for (long at = 1, ok = 0; !ok; at++) {
    atvi_ctx *ctx = test_ctx();
    atvi_pool *pool;
    atvi_array *a;
    atvi_idx n;
    CHECK_OK(atvi_pool_new(ctx, &pool));
    test_fail_at = test_allocs + at;
    atvi_status status = atvi_io_arrays_find(pool, N, name, NULL, &n, &a);
    test_fail_at = 0;
    ok = status == ATVI_OK;
    CHECK(ok ? n == 1 : status == ATVI_ENOMEM && !a && n == 0);
    CHECK(ok == 0 || at > 1);
    atvi_pool_free(pool);
    atvi_ctx_free(ctx);
    CHECK_INT(test_live, 0);
  }
}

static void elements_may_have_brackets(void) {
  static const char *const PAIR[][2] = {
      {"k", "k"},
      {"theta.1", "theta.1"},
      {"theta[1]", "theta.1"},
      {"theta[1,2]", "theta.1.2"},
      {"theta[north]", "theta.north"},
      {" theta[1]\t", "theta.1"},
      {"", ""},
      {" \t", ""},
      /* of no such form: as it is */
      {"theta[1", "theta[1"},
      {"theta.1]", "theta.1]"},
      {"theta,1", "theta,1"},
      {"theta[1]]", "theta[1]]"},
      {"theta[[1]", "theta[[1]"},
      {"theta[1][2]", "theta[1][2]"},
      {"theta[1]x", "theta[1]x"},
      {"theta.1[2]", "theta.1[2]"},
      {"theta[1.2]", "theta[1.2]"},
      {"theta[", "theta["},
      {"]", "]"},
      {"[", "["},
  };
  char out[ATVI_ARRAY_NAME];
  for (size_t i = 0; i < sizeof PAIR / sizeof PAIR[0]; i++) {
    CHECK(atvi_io_array_dots(PAIR[i][0], strlen(PAIR[i][0]), out));
    CHECK_STR(out, PAIR[i][1]);
  }
  CHECK(atvi_io_array_dots("theta[1] and more", 8, out)); /* what stands behind it is not read */
  CHECK_STR(out, "theta.1");
}

static void long_ones_are_none(void) {
  char text[ATVI_ARRAY_NAME + 2], out[ATVI_ARRAY_NAME];
  memset(text, 'x', sizeof text);
  CHECK(atvi_io_array_dots(text, ATVI_ARRAY_NAME - 1, out));
  CHECK_INT(strlen(out), ATVI_ARRAY_NAME - 1);
  CHECK(!atvi_io_array_dots(text, ATVI_ARRAY_NAME, out));
}

TESTS({"arrays", names_become_arrays}, {"words", words_are_indices_too},
      {"apart", what_is_no_grid_stays_apart}, {"memory", memory_failures_are_told},
      {"brackets", elements_may_have_brackets}, {"long", long_ones_are_none})
