/* SPDX-License-Identifier: MIT */
/* Numbers and dates as text.
 *
 * Up to 15 or so digits and a small power of ten take the exact short way: the digits fit a double, the power of ten is a
 * double, and one correctly rounded operation joins them. Everything else is handed to strtod as digits and an exponent
 * without a decimal point, because the point is the one thing strtod takes from the locale. */
#include "io/csv.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  DIGITS_MAX =
      780, /* a double's rounding can depend on 767 digits; what lies beyond acts as one more nonzero digit */
  EXPONENT_MAX = 99999, /* beyond any double with DIGITS_MAX digits; keeps the arithmetic from overflowing */
};

static const double POWER[23] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static bool digit(char c) { return c >= '0' && c <= '9'; }

/* The digits of s[n] (with at most one point among them), times 10^exponent. */
static bool slow_number(const char *s, size_t n, int64_t exponent, double *out) {
  char buf[DIGITS_MAX + 32];
  int used = 0;
  bool more = false, point = false;
  for (size_t i = 0; i < n; i++) {
    if (s[i] == '.') {
      point = true;
      continue;
    }
    if (point) exponent--;
    if (used == 0 && s[i] == '0') continue;
    if (used < DIGITS_MAX)
      buf[used++] = s[i];
    else {
      more = more || s[i] != '0';
      exponent++;
    }
  }
  if (used == 0) {
    *out = 0.0;
    return true;
  }
  if (more) {
    buf[used++] = '1';
    exponent--;
  }
  if (exponent > EXPONENT_MAX) return false;
  if (exponent < -EXPONENT_MAX) exponent = -EXPONENT_MAX;
  snprintf(buf + used, sizeof buf - (size_t)used, "e%d", (int)exponent);
  *out = strtod(buf, NULL);
  return isfinite(*out);
}

/* [eE][+-]digits up to end; clamped far outside the range of a double but never wrapping. */
static bool read_exponent(const char *p, const char *end, int64_t *out) {
  bool negative = false;
  int64_t e = 0;
  p++;
  if (p < end && (*p == '+' || *p == '-')) negative = *p++ == '-';
  if (p == end) return false;
  for (; p < end; p++) {
    if (!digit(*p)) return false;
    if (e < INT64_MAX / 20) e = 10 * e + (*p - '0');
  }
  *out = negative ? -e : e;
  return true;
}

bool atvi_parse_number(const char *s, size_t n, double *out) {
  const char *p = s, *end = s + n;
  bool negative = false;
  if (p < end && (*p == '+' || *p == '-')) negative = *p++ == '-';
  const char *first = p;
  uint64_t mantissa = 0;
  int kept = 0; /* digits in mantissa, leading zeros aside */
  int64_t exponent = 0;
  ptrdiff_t n_digit = 0, n_fraction = 0;
  bool point = false;
  for (; p < end; p++) {
    if (*p == '.' && !point) {
      point = true;
    } else if (digit(*p)) {
      n_digit++;
      n_fraction += point;
      if (kept < 19) mantissa = 10 * mantissa + (uint64_t)(*p - '0');
      kept += kept > 0 || *p != '0';
    } else {
      break;
    }
  }
  if (n_digit == 0) return false;
  const char *digits_end = p;
  if (p < end && ((*p != 'e' && *p != 'E') || !read_exponent(p, end, &exponent))) return false;
  int64_t power = exponent - n_fraction;
  double value;
  if (kept <= 19 && mantissa <= (UINT64_C(1) << 53) && power >= -22 && power <= 22)
    value = power < 0 ? (double)mantissa / POWER[-power] : (double)mantissa * POWER[power];
  else if (!slow_number(first, (size_t)(digits_end - first), exponent, &value))
    return false;
  *out = negative ? -value : value;
  return true;
}

bool atvi_decimal_comma(const char *s) {
  char buf[ATVI_COMMA_BYTES];
  size_t n = strlen(s);
  const char *comma = strchr(s, ',');
  if (!comma || n >= sizeof buf || strchr(s, '.')) return false;
  memcpy(buf, s, n);
  buf[comma - s] = '.';
  double ignored;
  return atvi_parse_number(buf, n, &ignored);
}

static int two(const char *s) { return (s[0] - '0') * 10 + (s[1] - '0'); }

bool atvi_parse_date(const char *s, size_t n, int64_t *days) {
  static const char shape[] = "dddd-dd-dd";
  static const int length[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  if (n != sizeof shape - 1) return false;
  for (size_t i = 0; i < n; i++)
    if (shape[i] == 'd' ? !digit(s[i]) : s[i] != '-') return false;
  int year = 100 * two(s) + two(s + 2), month = two(s + 5), day = two(s + 8);
  if (month < 1 || month > 12 || day < 1) return false;
  bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  if (day > length[month - 1] + (month == 2 && leap)) return false;
  *days = atvi_days_from_date(year, month, day);
  return true;
}

/* s[0..1] as a number up to most; -1 if it is none. */
static int pair(const char *s, size_t n, int most) {
  if (n < 2 || !digit(s[0]) || !digit(s[1]) || two(s) > most) return -1;
  return two(s);
}

/* Z, +hh:mm, -hh:mm, +hhmm or nothing; minutes to be taken off. */
static bool read_zone(const char *s, size_t n, int *minutes) {
  *minutes = 0;
  if (n == 0 || (n == 1 && (*s == 'Z' || *s == 'z'))) return true;
  if ((*s != '+' && *s != '-') || (n != 5 && n != 6)) return false;
  size_t at = n == 6 ? 4 : 3;
  int h = pair(s + 1, n - 1, 23), m = pair(s + at, n - at, 59);
  if (h < 0 || m < 0 || (n == 6 && s[3] != ':')) return false;
  *minutes = (*s == '-' ? -1 : 1) * (60 * h + m);
  return true;
}

bool atvi_parse_datetime(const char *s, size_t n, double *days) {
  enum { DATE = 10 };
  int64_t day;
  if (n < DATE || !atvi_parse_date(s, DATE, &day)) return false;
  double second = 0;
  int hour, minute, zone;
  if (n == DATE) {
    *days = (double)day;
    return true;
  }
  const char *t = s + DATE + 1, *end = s + n;
  if ((s[DATE] != 'T' && s[DATE] != 't' && s[DATE] != ' ') || end - t < 5 || t[2] != ':') return false;
  hour = pair(t, 2, 24);
  minute = pair(t + 3, 2, 59);
  t += 5;
  if (hour < 0 || minute < 0) return false;
  if (t < end && *t == ':') {
    const char *stop = ++t;
    while (stop < end && (digit(*stop) || *stop == '.')) stop++;
    if (pair(t, (size_t)(stop - t), 60) < 0 || (stop - t > 2 && t[2] != '.')) return false;
    if (!atvi_parse_number(t, (size_t)(stop - t), &second)) return false;
    t = stop;
  }
  if (hour == 24 && (minute > 0 || second > 0)) return false;
  if (!read_zone(t, (size_t)(end - t), &zone)) return false;
  *days = (double)day + (3600.0 * hour + 60.0 * (minute - zone) + second) / 86400.0;
  return true;
}

/* Both ways count in years that begin on 1 March, so that the leap day is the last day of its year, and in cycles of
 * 400 years = 146097 days. Day 0 of the cycle that holds 1970 is 2000-03-01 minus one cycle. */
enum { CYCLE_DAYS = 146097, EPOCH_SHIFT = 719468 }; /* 0000-03-01 to 1970-01-01 */

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

int64_t atvi_days_from_date(int year, int month, int day) {
  int64_t y = (int64_t)year - (month <= 2);
  int64_t cycle = floor_div(y, 400), in_cycle = y - 400 * cycle;
  int64_t from_march = (month + 9) % 12;
  int64_t day_of_year = (153 * from_march + 2) / 5 + day - 1;
  return cycle * CYCLE_DAYS + in_cycle * 365 + in_cycle / 4 - in_cycle / 100 + day_of_year - EPOCH_SHIFT;
}

void atvi_date_from_days(int64_t days, int *year, int *month, int *day) {
  int64_t z = days + EPOCH_SHIFT;
  int64_t cycle = floor_div(z, CYCLE_DAYS), d = z - cycle * CYCLE_DAYS;
  int64_t y = (d - d / 1460 + d / 36524 - d / 146096) / 365;
  int64_t day_of_year = d - (365 * y + y / 4 - y / 100);
  int64_t from_march = (5 * day_of_year + 2) / 153;
  *day = (int)(day_of_year - (153 * from_march + 2) / 5 + 1);
  *month = (int)(from_march < 10 ? from_march + 3 : from_march - 9);
  *year = (int)(y + 400 * cycle + (*month <= 2));
}

void atvi_format_duration(char buf[ATVI_DURATION_BYTES], double seconds, bool fine) {
  long long t = (long long)(seconds + 0.5);
  if (t < 60)
    snprintf(buf, ATVI_DURATION_BYTES, fine ? "%.3g s" : "%.0f s", fine ? seconds : (double)t);
  else
    snprintf(buf, ATVI_DURATION_BYTES, t < 3600 ? "%lld:%02lld min" : "%lld:%02lld h",
             t / (t < 3600 ? 60 : 3600), t < 3600 ? t % 60 : t / 60 % 60);
}
