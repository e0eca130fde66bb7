/* SPDX-License-Identifier: MIT */
/* Numbers and dates as text.
 *
 * Up to 15 or so digits and a small power of ten take an exact shortcut: the digits fit a double, the power
 * of ten is a double, and one correctly rounded operation joins them. Everything else is passed to strtod as
 * digits and an exponent without a decimal point, because only the point depends on the locale. */
#include "io/csv.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  DIGITS_MAX =
      780, /* a double's rounding can depend on 767 digits; further digits act as one nonzero digit */
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

bool atvi_io_parse_number(const char *s, size_t n, double *out) {
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

bool atvi_io_decimal_comma(const char *s) {
  char buf[ATVI_COMMA_BYTES];
  size_t n = strlen(s);
  const char *comma = strchr(s, ',');
  if (!comma || n >= sizeof buf || strchr(s, '.')) return false;
  memcpy(buf, s, n);
  buf[comma - s] = '.';
  double ignored;
  return atvi_io_parse_number(buf, n, &ignored);
}

static int two(const char *s) { return (s[0] - '0') * 10 + (s[1] - '0'); }

bool atvi_io_parse_date(const char *s, size_t n, int64_t *days) {
  static const char shape[] = "dddd-dd-dd";
  static const int length[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  if (n != sizeof shape - 1) return false;
  for (size_t i = 0; i < n; i++)
    if (shape[i] == 'd' ? !digit(s[i]) : s[i] != '-') return false;
  int year = 100 * two(s) + two(s + 2), month = two(s + 5), day = two(s + 8);
  if (month < 1 || month > 12 || day < 1) return false;
  bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  if (day > length[month - 1] + (month == 2 && leap)) return false;
  *days = atvi_io_days_from_date(year, month, day);
  return true;
}

/* s[0..1] as a number up to most; -1 if it is not one. */
static int pair(const char *s, size_t n, int most) {
  if (n < 2 || !digit(s[0]) || !digit(s[1]) || two(s) > most) return -1;
  return two(s);
}

/* Z, +hh:mm, -hh:mm, +hhmm or nothing; minutes to subtract. */
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

bool atvi_io_parse_datetime(const char *s, size_t n, double *days) {
  enum { DATE = 10 };
  int64_t day;
  if (n < DATE || !atvi_io_parse_date(s, DATE, &day)) return false;
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
    if (!atvi_io_parse_number(t, (size_t)(stop - t), &second)) return false;
    t = stop;
  }
  if (hour == 24 && (minute > 0 || second > 0)) return false;
  if (!read_zone(t, (size_t)(end - t), &zone)) return false;
  *days = (double)day + (3600.0 * hour + 60.0 * (minute - zone) + second) / 86400.0;
  return true;
}

/* Both ways count in years that begin on 1 March, so that the leap day is the last day of its year, and in
 * cycles of 400 years = 146097 days. Day 0 of the cycle that holds 1970 is 2000-03-01 minus one cycle. */
enum { CYCLE_DAYS = 146097, EPOCH_SHIFT = 719468 }; /* 0000-03-01 to 1970-01-01 */

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

int64_t atvi_io_days_from_date(int year, int month, int day) {
  int64_t y = (int64_t)year - (month <= 2);
  int64_t cycle = floor_div(y, 400), in_cycle = y - 400 * cycle;
  int64_t from_march = (month + 9) % 12;
  int64_t day_of_year = (153 * from_march + 2) / 5 + day - 1;
  return cycle * CYCLE_DAYS + in_cycle * 365 + in_cycle / 4 - in_cycle / 100 + day_of_year - EPOCH_SHIFT;
}

void atvi_io_date_from_days(int64_t days, int *year, int *month, int *day) {
  int64_t z = days + EPOCH_SHIFT;
  int64_t cycle = floor_div(z, CYCLE_DAYS), d = z - cycle * CYCLE_DAYS;
  int64_t y = (d - d / 1460 + d / 36524 - d / 146096) / 365;
  int64_t day_of_year = d - (365 * y + y / 4 - y / 100);
  int64_t from_march = (5 * day_of_year + 2) / 153;
  *day = (int)(day_of_year - (153 * from_march + 2) / 5 + 1);
  *month = (int)(from_march < 10 ? from_march + 3 : from_march - 9);
  *year = (int)(y + 400 * cycle + (*month <= 2));
}

void atvi_io_format_duration(char buf[ATVI_DURATION_BYTES], double seconds, bool fine) {
  long long t = (long long)(seconds + 0.5);
  if (t < 60)
    snprintf(buf, ATVI_DURATION_BYTES, fine ? "%.3g s" : "%.0f s", fine ? seconds : (double)t);
  else
    snprintf(buf, ATVI_DURATION_BYTES, t < 3600 ? "%lld:%02lld min" : "%lld:%02lld h",
             t / (t < 3600 ? 60 : 3600), t < 3600 ? t % 60 : t / 60 % 60);
}

/* Numbers to text, character by character as printf("%.17g") in the C locale, ten to twenty times faster:
 * files of draws are millions of numbers.
 *
 * x = m 2^e with m < 2^53. Seventeen digits of it are D = round(x 10^k), where 10^16 <= D < 10^17. For 0 <= k
 * <= 27 the factor 5^k has at most 63 bits, so m 5^k is exact in 128 bits, and D = m 5^k 2^(e + k) is a shift
 * with one rounding (half to even, as printf): nothing is approximate. That covers 1e-11 < |x| < 2^53; the
 * rest is rare and left to printf. */

enum { DIGITS = 17, POWER5_MAX = 27 };
#define TEN16 UINT64_C(10000000000000000)
#define TEN17 UINT64_C(100000000000000000)

static const char PAIR[201] =
    "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748495051"
    "525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";

/* 5^k is the product of the one for the last three bits of k and the one for the others. */
static const uint64_t LOW5[8] = {1, 5, 25, 125, 625, 3125, 15625, 78125},
                      HIGH5[4] = {1, 390625, 152587890625, 59604644775390625};

/* a b = hi 2^64 + lo */
static void multiply(uint64_t a, uint64_t b, uint64_t *hi, uint64_t *lo) {
  uint64_t a1 = a >> 32, a0 = a & UINT32_MAX, b1 = b >> 32, b0 = b & UINT32_MAX;
  uint64_t low = a0 * b0, mid = a1 * b0 + (low >> 32), mid2 = a0 * b1 + (mid & UINT32_MAX);
  *hi = a1 * b1 + (mid >> 32) + (mid2 >> 32);
  *lo = (mid2 << 32) | (low & UINT32_MAX);
}

/* (hi 2^64 + lo) / 2^shift to the nearest, ties to even; 0 < shift < 128, and the result fits. */
static uint64_t shift_round(uint64_t hi, uint64_t lo, int shift) {
  uint64_t whole, rest, half;
  bool below = false; /* further bits below rest */
  if (shift < 64) {
    whole = (hi << (64 - shift)) | (lo >> shift);
    rest = lo & ((UINT64_C(1) << shift) - 1);
    half = UINT64_C(1) << (shift - 1);
  } else if (shift == 64) {
    whole = hi;
    rest = lo;
    half = UINT64_C(1) << 63;
  } else {
    whole = hi >> (shift - 64);
    rest = hi & ((UINT64_C(1) << (shift - 64)) - 1);
    half = UINT64_C(1) << (shift - 65);
    below = lo != 0;
  }
  bool up = rest > half || (rest == half && (below || (whole & 1)));
  return whole + up;
}

/* |x| = digits / 10^16 * 10^*place, 10^16 <= digits < 10^17; 0 if this method does not apply. */
static uint64_t digits_of(double x, int *place) {
  uint64_t bits, hi, lo, d;
  memcpy(&bits, &x, sizeof bits);
  const uint64_t one = UINT64_C(1) << 52, m = (bits & (one - 1)) | one; /* x is a normal number */
  int e = (int)(bits >> 52 & 2047) - 1075;
  int at =
      (int)floor((e + 52) * 0.30102999566398120); /* the place of 2^(e + 52) <= |x|: right, or one less */
  for (int tries = 0; tries < 2; tries++, at++) {
    int k = DIGITS - 1 - at, shift = -(e + k);
    if (k < 0 || k > POWER5_MAX || shift < 1) return 0;
    multiply(m, LOW5[k & 7] * HIGH5[k >> 3], &hi, &lo);
    /* One place too low: D would have 18 digits, 60 bits, which still fit. */
    d = shift_round(hi, lo, shift);
    *place = at;
    if (d < TEN17) return d;
  }
  /* 9.99...9 rounds up to 10 */
  *place = at;
  return TEN16;
}

static void put8(char *at, uint32_t x) {
  for (int i = 3; i >= 0; i--, x /= 100) memcpy(at + 2 * i, PAIR + 2 * (x % 100), 2);
}

/* Sixteen digits in two halves: two short chains of divisions instead of a long one. */
static void put16(char *at, uint64_t x) {
  put8(at, (uint32_t)(x / 100000000));
  put8(at + 8, (uint32_t)(x % 100000000));
}

/* Seventeen digits in the layout of %g, without trailing zeros. */
static int lay_out(char *buf, const char *digit, int place) {
  char *at = buf;
  int n = DIGITS;
  while (n > 1 && digit[n - 1] == '0') n--;
  if (place >= 0) { /* below 2^53, so never beyond the digits */
    int whole = place + 1;
    memcpy(at, digit, (size_t)whole);
    at += whole;
    if (n <= whole) return (int)(at - buf);
    *at++ = '.';
    memcpy(at, digit + whole, (size_t)(n - whole));
    return (int)(at - buf) + n - whole;
  }
  if (place >= -4) {
    memcpy(at, "0.000", 5);
    at += 1 - place;
    memcpy(at, digit, (size_t)n);
    return (int)(at - buf) + n;
  }
  *at++ = digit[0];
  if (n > 1) {
    *at++ = '.';
    memcpy(at, digit + 1, (size_t)(n - 1));
    at += n - 1;
  }
  memcpy(at, "e-", 2);
  memcpy(at + 2, PAIR + 2 * -place, 2);
  return (int)(at - buf) + 4;
}

static int format_whole(char *buf, double x) {
  char text[20], *first = text;
  put16(text, (uint64_t)fabs(x));
  while (first < text + 15 && *first == '0') first++;
  int n = (int)(text + 16 - first), sign = x < 0;
  if (sign) buf[0] = '-';
  memcpy(buf + sign, first, (size_t)n);
  buf[sign + n] = 0;
  return sign + n;
}

int atvi_io_format_number(char buf[ATVI_NUMBER_BYTES], double x) {
  if (isnan(x)) return snprintf(buf, ATVI_NUMBER_BYTES, "nan");
  if (fabs(x) < 1e15 && x == trunc(x) && !(x == 0 && signbit(x))) return format_whole(buf, x);
  int place, sign = x < 0, n;
  uint64_t d = fabs(x) > 1e-11 && fabs(x) < 0x1p53 ? digits_of(x, &place) : 0;
  if (d) {
    char digit[DIGITS + 1];
    digit[0] = (char)('0' + d / TEN16);
    put16(digit + 1, d % TEN16);
    buf[0] = '-';
    n = sign + lay_out(buf + sign, digit, place);
    buf[n] = 0;
    return n;
  }
  n = snprintf(buf, ATVI_NUMBER_BYTES, "%.17g", x);
  char *comma = strchr(buf, ',');
  if (comma) *comma = '.'; /* the decimal point of some locales */
  return n;
}
