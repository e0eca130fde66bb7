/* SPDX-License-Identifier: MIT */
/* The oracle is printf: the texts must be the same, character by character. */
#include "io/csv.h"
#include "testing.h"
#include <locale.h>

static void check_one(double x) {
  char got[ATVI_NUMBER_BYTES], want[64];
  memset(got, '#', sizeof got);
  int n = atvi_io_format_number(got, x);
  snprintf(want, sizeof want, "%.17g", x);
  CHECK_MSG(strcmp(got, want) == 0 && n == (int)strlen(want), "%s, want %s (%a)", got, want, x);
}

static uint64_t next(uint64_t *state) {
  uint64_t z = *state += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

/* Any bits with the exponent in a range. */
static void sweep(int from, int to, int n) {
  uint64_t state = 17;
  for (int e = from; e <= to; e++)
    for (int i = 0; i < n; i++)
      check_one(ldexp((next(&state) & 1 ? 1 : -1) * (0x1p52 + (double)(next(&state) >> 12)), e - 52));
}

static void like_printf_for_any_bits(void) {
  sweep(-45, 60, 3000); /* the fast way covers -36 to 52 */
  sweep(-1030, 1023, 20);
}

/* Few digits, as people and step sizes have them: trailing zeros, and ties in the seventeenth digit. */
static void like_printf_for_short_numbers(void) {
  for (int i = -3000; i <= 3000; i++) {
    for (int p = -14; p <= 17; p++) check_one(i * pow(10, p));
    check_one(i / 8.0);
    check_one(i / 4096.0 + 0x1p-30);
    check_one(i * 0x1p-40);
    check_one(1e15 + i / 8.0); /* 15 digits and then 125, 250, ...: exact ties */
    check_one(1e14 + i / 64.0);
  }
}

/* Neighbours of powers of ten and two: the place is decided there, and 9.99... may round up. */
static void like_printf_at_the_edges(void) {
  for (int p = -15; p <= 19; p++) {
    double x = pow(10, p), y = x, z = x;
    for (int i = 0; i < 60; i++) {
      check_one(y);
      check_one(-z);
      y = nextafter(y, 0);
      z = nextafter(z, HUGE_VAL);
    }
  }
  for (int e = -60; e <= 60; e++) {
    check_one(ldexp(1, e));
    check_one(nextafter(ldexp(1, e), 0));
    check_one(nextafter(ldexp(-1, e), -HUGE_VAL));
  }
  static const double odd[] = {0.0,
                               -0.0,
                               HUGE_VAL,
                               -HUGE_VAL,
                               4.9e-324,
                               2.2250738585072014e-308,
                               1.7976931348623157e308,
                               0x1p53,
                               0x1p53 + 2,
                               999999999999999,
                               1e15,
                               -1,
                               1,
                               10,
                               0.1,
                               1e-4,
                               1e-5};
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) check_one(odd[i]);
  char buf[ATVI_NUMBER_BYTES];
  CHECK_INT(atvi_io_format_number(buf, NAN), 3);
  CHECK_STR(buf, "nan");
  CHECK_INT(atvi_io_format_number(buf, -NAN), 3);
  CHECK_STR(buf, "nan");
}

static void reads_back_exactly(void) {
  uint64_t state = 3;
  for (int i = 0; i < 200000; i++) {
    double x = ldexp((double)(int64_t)next(&state), (int)(next(&state) % 60) - 90), y;
    char buf[ATVI_NUMBER_BYTES];
    int n = atvi_io_format_number(buf, x);
    CHECK_MSG(atvi_io_parse_number(buf, (size_t)n, &y) && y == x, "%a became %s", x, buf);
  }
}

static void the_point_is_a_point_everywhere(void) {
  static const char *const name[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE"};
  bool found = false;
  for (size_t i = 0; i < sizeof name / sizeof *name && !found; i++)
    found = setlocale(LC_ALL, name[i]) != NULL;
  char buf[ATVI_NUMBER_BYTES];
  atvi_io_format_number(buf, 1.5e-30);
  CHECK_STR(buf, "1.4999999999999999e-30");
  atvi_io_format_number(buf, 2.385);
  CHECK_STR(buf, "2.3849999999999998");
}

TESTS({"any", like_printf_for_any_bits}, {"short", like_printf_for_short_numbers},
      {"edges", like_printf_at_the_edges}, {"back", reads_back_exactly},
      {"locale", the_point_is_a_point_everywhere})
