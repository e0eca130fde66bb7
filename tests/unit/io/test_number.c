/* SPDX-License-Identifier: MIT */
#include "io/csv.h"
#include "testing.h"
#include <locale.h>

static bool parse(const char *s, double *x) { return atvi_io_parse_number(s, strlen(s), x); }

static uint64_t bits(double x) {
  uint64_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}

static void takes_numbers(void) {
  static const char *text[] = {"0",
                               "-0",
                               "+3",
                               "3.",
                               ".5",
                               "-1.25e-3",
                               "12E2",
                               "1e22",
                               "1e23",
                               "9007199254740993",
                               "123456789012345678901234567890",
                               "2.2250738585072011e-308",
                               "4.9e-324",
                               "1e-400",
                               "0e999999999999999999999",
                               "1.7976931348623157e308",
                               "0.1",
                               "0.30000000000000004",
                               "8.41e21",
                               "00000000000000000000000000000000000000012.5",
                               "0.000000000000000000000000000000000000000000001"};
  for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
    double x;
    CHECK_MSG(parse(text[i], &x), "%s", text[i]);
    CHECK_MSG(bits(x) == bits(strtod(text[i], NULL)), "%s gives %.17g", text[i], x);
  }
}

static void refuses_the_rest(void) {
  static const char *text[] = {"",
                               "+",
                               "-",
                               ".",
                               "e5",
                               "1e",
                               "1e+",
                               "1e5x",
                               "0x10",
                               "1 ",
                               " 1",
                               "inf",
                               "nan",
                               "1..2",
                               "1.2.3",
                               "1,5",
                               "--1",
                               "1d5",
                               "1f",
                               "1e999",
                               "-1e999",
                               "1_000",
                               "1e99999999999999999999999"};
  for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
    double x = 2.385;
    CHECK_MSG(!parse(text[i], &x), "%s", text[i]);
    CHECK(x == 2.385);
  }
  double x = 0;
  CHECK(atvi_io_parse_number("12345", 3, &x) && x == 123);
  CHECK(!atvi_io_parse_number("1\0002", 3, &x));
}

/* 17 digits determine a double: what is printed comes back. */
static void round_trips_random_doubles(void) {
  uint64_t u = 0x9E3779B97F4A7C15u;
  char s[64];
  for (int i = 0; i < 200000; i++) {
    u = u * 6364136223846793005u + 1442695040888963407u;
    uint64_t v = u ^ (u >> 29);
    double x, y;
    memcpy(&x, &v, sizeof x);
    if (!isfinite(x)) continue;
    snprintf(s, sizeof s, i % 2 ? "%.17g" : "%.16e", x);
    CHECK_MSG(parse(s, &y) && bits(x) == bits(y), "%s", s);
    snprintf(s, sizeof s, "%.*g", 1 + i % 20, ldexp(x, -ilogb(x) + i % 30));
    CHECK_MSG(parse(s, &y) && bits(strtod(s, NULL)) == bits(y), "%s", s);
  }
}

/* A digit beyond the 1000th decides a tie: 1 + 2^-53 lies halfway between 1 and the next double. */
static void rounds_ties_by_the_last_digit(void) {
  char s[2000];
  const char *half = "1.00000000000000011102230246251565404236316680908203125";
  double x;
  memset(s, '0', sizeof s);
  memcpy(s, half, strlen(half));
  CHECK(atvi_io_parse_number(s, 1500, &x) && x == 1.0);
  s[1499] = '1';
  CHECK(atvi_io_parse_number(s, 1500, &x) && x == nextafter(1.0, 2.0));
}

static void long_text_is_quick(void) {
  size_t n = 20000000;
  char *s = malloc(n);
  CHECK(s != NULL);
  memset(s, '7', n);
  double x;
  CHECK(!atvi_io_parse_number(s, n, &x));
  s[0] = '.';
  CHECK(atvi_io_parse_number(s, n, &x) && x == 7.0 / 9);
  memset(s, '0', n - 1);
  CHECK(atvi_io_parse_number(s, n, &x) && x == 7);
  s[1] = 'e';
  CHECK(atvi_io_parse_number(s, n, &x) && x == 0);
  free(s);
}

static void ignores_the_locale(void) {
  if (!setlocale(LC_ALL, "de_DE.UTF-8") && !setlocale(LC_ALL, "fr_FR.UTF-8")) return;
  double x;
  CHECK(parse("1.2345678901234567890123", &x) && x == 1.2345678901234567890123);
  CHECK(!parse("1,5", &x));
}

static void dates_go_both_ways(void) {
  CHECK_INT(atvi_io_days_from_date(1970, 1, 1), 0);
  CHECK_INT(atvi_io_days_from_date(2009, 12, 19), 14597);
  CHECK_INT(atvi_io_days_from_date(2000, 2, 29), 11016);
  CHECK_INT(atvi_io_days_from_date(1969, 12, 31), -1);
  CHECK_INT(atvi_io_days_from_date(1, 1, 1), -719162);
  int64_t before = atvi_io_days_from_date(-801, 1, 1) - 1;
  for (int64_t day = before + 1; day < 1000000; day++) {
    int y, m, d;
    atvi_io_date_from_days(day, &y, &m, &d);
    CHECK(m >= 1 && m <= 12 && d >= 1 && d <= 31);
    CHECK(atvi_io_days_from_date(y, m, d) == day);
  }
}

static void dates_are_strict(void) {
  int64_t days = 7;
  CHECK(atvi_io_parse_date("2009-12-19", 10, &days) && days == 14597);
  CHECK(atvi_io_parse_date("2000-02-29", 10, &days) && days == 11016);
  static const char *bad[] = {"2009-02-29", "1900-02-29", "2009-13-01", "2009-00-10", "2009-01-00",
                              "2009-01-32", "2009/01/01", "2009-1-011", "20090-1-01", "200a-01-01"};
  days = 7;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    CHECK(!atvi_io_parse_date(bad[i], strlen(bad[i]), &days));
  CHECK(!atvi_io_parse_date("2009-01-011", 11, &days));
  CHECK(!atvi_io_parse_date("", 0, &days));
  CHECK_INT(days, 7);
}

static void decimal_commas_are_known(void) {
  static const char *const YES[] = {"1,5", "-0,25", "+3,", ",5", "1,5e-3"};
  static const char *const NO[] = {"", "1.5", "15", ",", "1,5,5", "1.234,5", "a,5", "1,5 ", "1,b"};
  for (size_t i = 0; i < sizeof YES / sizeof *YES; i++)
    CHECK_MSG(atvi_io_decimal_comma(YES[i]), "%s", YES[i]);
  for (size_t i = 0; i < sizeof NO / sizeof *NO; i++) CHECK_MSG(!atvi_io_decimal_comma(NO[i]), "%s", NO[i]);
  char big[1000];
  memset(big, '7', sizeof big - 1);
  big[3] = ',';
  big[sizeof big - 1] = 0;
  CHECK(!atvi_io_decimal_comma(big)); /* nobody wrote that */
}

static void times_of_day_are_read_and_strict(void) {
  static const struct {
    const char *text;
    double days;
  } GOOD[] = {
      {"1970-01-02", 1},
      {"1970-01-01T06:00", 0.25},
      {"1970-01-01t18:00Z", 0.75},
      {"1970-01-01 12:00:00", 0.5},
      {"1970-01-01T00:00:43.2", 0.0005},
      {"1970-01-01T24:00", 1},
      {"1970-01-01T23:59:60", 1},
      {"1970-01-02T01:30+01:30", 1},
      {"1970-01-02T01:30:00+0130", 1},
      {"1970-01-01T22:00-02:00", 1},
      {"1969-12-31T18:00", -0.25},
  };
  static const char *const BAD[] = {
      "1970-01-01T",           "1970-01-01T6:00",    "1970-01-01T06",         "1970-01-01T06:60",
      "1970-01-01T25:00",      "1970-01-01T24:01",   "1970-01-01T06:00:61",   "1970-01-01T06:00:1",
      "1970-01-01T06:00:001",  "1970-01-01T06:00+1", "1970-01-01T06:00+0a00", "1970-01-01T06:00 Z",
      "1970-01-01_06:00",      "1970-02-30T06:00",   "1970-01-01T06:00:0.5",  "1970-01-01T06:00+12.30",
      "1970-01-01T06:00:00..5"};
  double days = 7;
  for (size_t i = 0; i < sizeof GOOD / sizeof *GOOD; i++) {
    CHECK_MSG(atvi_io_parse_datetime(GOOD[i].text, strlen(GOOD[i].text), &days), "%s", GOOD[i].text);
    CHECK_ABS(days, GOOD[i].days, 1e-15); /* a day's fraction is rounded once */
  }
  days = 7;
  for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++)
    CHECK_MSG(!atvi_io_parse_datetime(BAD[i], strlen(BAD[i]), &days), "%s", BAD[i]);
  CHECK(days == 7);
}

static void durations_are_short(void) {
  static const struct {
    double s;
    bool fine;
    const char *want;
  } is[] = {{0.012345, true, "0.0123 s"}, {12.4, false, "12 s"},       {59.4, true, "59.4 s"},
            {59.6, false, "1:00 min"},    {185, true, "3:05 min"},     {3599.7, false, "1:00 h"},
            {9001, false, "2:30 h"},      {360000, false, "100:00 h"}, {0, false, "0 s"}};
  for (size_t i = 0; i < sizeof is / sizeof *is; i++) {
    char buf[ATVI_DURATION_BYTES];
    atvi_io_format_duration(buf, is[i].s, is[i].fine);
    CHECK_STR(buf, is[i].want);
  }
}

static void calendars_go_both_ways(void) {
  const atvi_calendar week = {14597, 7};
  CHECK(atvi_io_calendar_day(week, 3) == 14618 && atvi_io_calendar_time(week, 14618) == 3);
}

TESTS({"durations", durations_are_short}, {"calendar", calendars_go_both_ways},
      {"times", times_of_day_are_read_and_strict}, {"commas", decimal_commas_are_known},
      {"takes_numbers", takes_numbers}, {"refuses_the_rest", refuses_the_rest},
      {"round_trips", round_trips_random_doubles}, {"ties", rounds_ties_by_the_last_digit},
      {"long_text", long_text_is_quick}, {"locale", ignores_the_locale}, {"dates", dates_go_both_ways},
      {"strict_dates", dates_are_strict})
