/* SPDX-License-Identifier: MIT */
/* Thin macros over Check, a counting allocator, and the main of every test program.
 *
 *   static void adds(void) { CHECK(1 + 1 == 2); }
 *   TESTS({"adds", adds})
 *
 * Each case runs in its own process (Check's default); one alone: CK_RUN_CASE=adds ./unit_math_rng
 * All but some: ATVI_TEST_SKIP=adds,divides. Names of all: ATVI_TEST_LIST=1. */
#ifndef ATVI_TESTING_H
#define ATVI_TESTING_H

#include "atvi/core.h"
#include <check.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Only failures are handed to Check: it writes every assertion it sees to a file, a hundred times slower. */
#define CHECK_MSG(cond, ...)                                                                                 \
  do {                                                                                                       \
    if (!(cond)) ck_abort_msg(__VA_ARGS__);                                                                  \
  } while (0)
#define CHECK(cond) CHECK_MSG((cond), "%s", #cond)
#define CHECK_OK(call) CHECK_INT((call), ATVI_OK)
#define CHECK_STATUS(call, code) CHECK_INT((call), (code))
#define CHECK_INT(a, b)                                                                                      \
  do {                                                                                                       \
    long long a_ = (long long)(a), b_ = (long long)(b);                                                      \
    CHECK_MSG(a_ == b_, "%s = %lld, want %s = %lld", #a, a_, #b, b_);                                        \
  } while (0)
#define CHECK_STR(a, b)                                                                                      \
  do {                                                                                                       \
    const char *a_ = (a), *b_ = (b);                                                                         \
    CHECK_MSG(a_ &&b_ &&strcmp(a_, b_) == 0, "%s = \"%s\", want \"%s\"", #a, a_ ? a_ : "NULL",               \
              b_ ? b_ : "NULL");                                                                             \
  } while (0)
/* |a - b| <= tol, both finite */
#define CHECK_ABS(a, b, tol)                                                                                 \
  do {                                                                                                       \
    double a_ = (a), b_ = (b), t_ = (tol);                                                                   \
    CHECK_MSG(fabs(a_ - b_) <= t_, "%s = %.17g, want %s = %.17g +- %g", #a, a_, #b, b_, t_);                 \
  } while (0)
/* |a - b| <= tol * |b| */
#define CHECK_REL(a, b, tol)                                                                                 \
  do {                                                                                                       \
    double a_ = (a), b_ = (b), t_ = (tol);                                                                   \
    CHECK_MSG(fabs(a_ - b_) <= t_ * fabs(b_), "%s = %.17g, want %s = %.17g, relative %g", #a, a_, #b, b_,    \
              t_);                                                                                           \
  } while (0)

#define TEST_UNUSED __attribute__((unused))

/* GCC and Clang say in different ways that they sanitize. */
#if defined __SANITIZE_ADDRESS__
#define TEST_SANITIZED 1
#elif defined __has_feature
#define TEST_SANITIZED __has_feature(address_sanitizer)
#else
#define TEST_SANITIZED 0
#endif

/* How many seeds a test of whole fits runs: some in make test, every one in make test-slow (ATVI_SEEDS=all).
 * Sanitizers find what they find in one; the numbers are judged by the other build. */
static inline int test_seeds(int some, int every) {
  const char *seeds = getenv("ATVI_SEEDS");
  return TEST_SANITIZED ? 1 : seeds && strcmp(seeds, "all") == 0 ? every : some;
}

/* Allocator that counts, and fails allocation number test_fail_at (1-based; 0: never). */
static TEST_UNUSED atomic_long test_allocs, test_live;
static TEST_UNUSED long test_fail_at;

static TEST_UNUSED void *test_alloc(void *user, size_t bytes) {
  (void)user;
  if (atomic_fetch_add(&test_allocs, 1) + 1 == test_fail_at) return NULL;
  void *p = malloc(bytes);
  if (p) atomic_fetch_add(&test_live, 1);
  return p;
}

static TEST_UNUSED void test_release(void *user, void *block) {
  (void)user;
  if (block) atomic_fetch_sub(&test_live, 1);
  free(block);
}

static TEST_UNUSED const atvi_allocator test_allocator = {test_alloc, test_release, NULL};

/* A fresh context; fails the test if it cannot be had. */
static TEST_UNUSED atvi_ctx *test_ctx(void) {
  atvi_ctx *ctx;
  CHECK_OK(atvi_ctx_new(&test_allocator, &ctx));
  return ctx;
}

typedef struct {
  const char *name;
  void (*fn)(void);
} test_case;

static const test_case *test_cases_;
static int test_count_;
static void test_run_one_(int i) {
  test_fail_at = 0; /* what the case before left, where all run in one process */
  test_cases_[i].fn();
}

START_TEST(test_loop_) { test_run_one_(_i); }
END_TEST

/* Whether `name` is an entry of the list a,b,c. */
static bool test_listed_(const char *list, const char *name) {
  size_t n = strlen(name);
  for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
    if (strncmp(at, name, n) == 0 && (at[n] == ',' || at[n] == 0)) return true;
  return false;
}

static TEST_UNUSED int test_main_(const test_case *cases, int n) {
  test_cases_ = cases;
  test_count_ = n;
  Suite *suite = suite_create("atvi");
  const char *only = getenv("CK_RUN_CASE"), *without = getenv("ATVI_TEST_SKIP");
  for (int i = 0; i < n; i++) {
    if (getenv("ATVI_TEST_LIST")) printf("%s\n", cases[i].name);
    if (getenv("ATVI_TEST_LIST") || test_listed_(without, cases[i].name)) continue;
    if (only && strcmp(only, cases[i].name) != 0) continue;
    TCase *tc = tcase_create(cases[i].name);
    tcase_set_timeout(tc, 600);
    tcase_add_loop_test(tc, test_loop_, i, i + 1);
    suite_add_tcase(suite, tc);
  }
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? 1 : 0;
}

#define TESTS(...)                                                                                           \
  int main(void) {                                                                                           \
    static const test_case cases[] = {__VA_ARGS__};                                                          \
    return test_main_(cases, (int)(sizeof cases / sizeof cases[0]));                                         \
  }

#endif
