/* SPDX-License-Identifier: MIT */
#include "io/field.h"
#include "testing.h"

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
  char out[ATVI_FIELD_BYTES];
  for (size_t i = 0; i < sizeof PAIR / sizeof PAIR[0]; i++) {
    CHECK(atvi_field_name(PAIR[i][0], strlen(PAIR[i][0]), out));
    CHECK_STR(out, PAIR[i][1]);
  }
  CHECK(atvi_field_name("theta[1] and more", 8, out)); /* what stands behind it is not read */
  CHECK_STR(out, "theta.1");
}

static void long_ones_are_none(void) {
  char text[ATVI_FIELD_BYTES + 2], out[ATVI_FIELD_BYTES];
  memset(text, 'x', sizeof text);
  CHECK(atvi_field_name(text, ATVI_FIELD_BYTES - 1, out));
  CHECK_INT(strlen(out), ATVI_FIELD_BYTES - 1);
  CHECK(!atvi_field_name(text, ATVI_FIELD_BYTES, out));
}

TESTS({"brackets", elements_may_have_brackets}, {"long", long_ones_are_none})
