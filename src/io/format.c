/* SPDX-License-Identifier: MIT */
/* Numbers to text, character by character as printf("%.17g") in the C locale, ten to twenty times faster: files of draws are
 * millions of numbers.
 *
 * x = m 2^e with m < 2^53. Seventeen digits of it are D = round(x 10^k), where 10^16 <= D < 10^17. For 0 <= k <= 27 the
 * factor 5^k has at most 63 bits, so m 5^k is exact in 128 bits, and D = m 5^k 2^(e + k) is a shift with
 * one rounding (half to even, as printf): nothing is approximate. That covers 1e-11 < |x| < 2^53; the rest
 * is rare and left to printf. */
#include "io/csv.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DIGITS = 17, POWER5_MAX = 27 };
#define TEN16 UINT64_C(10000000000000000)
#define TEN17 UINT64_C(100000000000000000)

static const char PAIR[201] =
    "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
    "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
    "8081828384858687888990919293949596979899";

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

/* |x| = digits / 10^16 * 10^*place, 10^16 <= digits < 10^17; 0 where this way does not go. */
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

/* Sixteen digits, in two halves: two short chains of divisions instead of a long one. */
static void put16(char *at, uint64_t x) {
  put8(at, (uint32_t)(x / 100000000));
  put8(at + 8, (uint32_t)(x % 100000000));
}

/* As %g lays seventeen digits out, without trailing zeros. */
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

int atvi_format_number(char buf[ATVI_NUMBER_BYTES], double x) {
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
