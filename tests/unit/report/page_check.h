/* SPDX-License-Identifier: MIT */
/* What every page must be. */
#ifndef ATVI_TESTS_REPORT_PAGE_CHECK_H
#define ATVI_TESTS_REPORT_PAGE_CHECK_H

#include "core/core.h"
#include "markup.h"
#include <jansson.h>

static TEST_UNUSED void check_ids(const char *html) {
  const char *script = strstr(html, "<script>'use strict");
  for (const char *at = html; (at = strstr(at, " id=\"")) && at < script; at += 5) {
    char id[64];
    size_t n = strcspn(at + 5, "\"");
    CHECK(n + 7 < sizeof id);
    snprintf(id, sizeof id, " id=\"%.*s\"", (int)n, at + 5);
    const char *other = strstr(at + 5, id);
    CHECK_MSG(!other || other > script, "%s twice", id);
  }
}

/* The data of the script is JSON. */
static TEST_UNUSED json_t *check_data(const char *html) {
  const char *at = strstr(html, "id=\"atvi-data\">"), *end;
  json_error_t error;
  CHECK(at);
  at += 15;
  end = strstr(at, "</script>");
  json_t *data = json_loadb(at, (size_t)(end - at), 0, &error);
  CHECK_MSG(data != NULL, "line %d: %s", error.line, error.text);
  return data;
}

/* The policy allows the script that is there: its hash, computed here from the text. */
static TEST_UNUSED void check_policy(const char *html) {
  static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const char *at = strstr(html, "<script>'use strict'"), *end, *said = strstr(html, "'sha256-");
  unsigned char digest[32], got[33];
  atvi_sha256 s;
  CHECK(at && said);
  at += 8;
  end = strstr(at, "</script>");
  atvi_sha256_begin(&s);
  atvi_sha256_add(&s, at, (size_t)(end - at));
  atvi_sha256_end(&s, digest);
  said += 8;
  for (int i = 0; i < 11; i++) { /* base64 back into bytes */
    unsigned v = 0;
    for (int k = 0; k < 4; k++)
      v = v << 6 | (said[4 * i + k] == '=' ? 0u : (unsigned)(strchr(digit, said[4 * i + k]) - digit));
    for (int k = 0; k < 3; k++) got[3 * i + k] = (unsigned char)(v >> (16 - 8 * k));
  }
  CHECK(memcmp(got, digest, 32) == 0);
  CHECK(strncmp(said + 43, "='", 2) == 0);
  CHECK(strstr(html, "default-src 'none'"));
}

static TEST_UNUSED json_t *check_page(const char *html) {
  CHECK(strncmp(html, "<!DOCTYPE html>", 15) == 0);
  markup_check(html);
  check_ids(html);
  check_policy(html);
  CHECK(!strstr(html, "<script>alert"));
  CHECK(!strstr(html, " href=\"http") && !strstr(html, " src=") && !strstr(html, "url(http") &&
        !strstr(html, "@import"));
  /* The data after it have draws as letters, and are read as JSON, which has no such number. */
  const char *data = strstr(html, "id=\"atvi-data\""), *wrong = strstr(html, "nan");
  CHECK_MSG(data && (!wrong || wrong > data), "not a number: %.80s", wrong ? wrong - 40 : "");
  return check_data(html);
}

#endif
