/* SPDX-License-Identifier: MIT */
/* The verdict as programs outside see it. */
#include "atvi/verdict.h"
#include "world.h"

static void says_what_the_summary_says(void) {
  world w = world_new(4, 2000, false);
  atvi_verdict v = ATVI_VERDICT_BAD;
  char text[2000] = "before", little[12];
  CHECK_OK(atvi_judge(w.d, &v, text, sizeof text));
  CHECK_INT(v, ATVI_VERDICT_OK);
  CHECK_STR(text, "");
  w.d->made->end = ATVI_END_LIMIT;
  CHECK_OK(atvi_draws_say(w.d, ATVI_NOTE, ATVI_CODE_GAPS, "A second line."));
  const atvi_summary *s = world_summary(&w);
  CHECK_OK(atvi_judge(w.d, &v, text, sizeof text));
  CHECK_INT(v, ATVI_VERDICT_WARN);
  CHECK_INT(s->n_message, 2);
  CHECK(strncmp(text, s->message[0].text, strlen(s->message[0].text)) == 0);
  CHECK_STR(text + strlen(s->message[0].text), "\nA second line.");
  CHECK_OK(atvi_judge(w.d, &v, little, sizeof little)); /* cut */
  CHECK(strlen(little) == 11 && strncmp(little, s->message[0].text, 11) == 0);
  v = ATVI_VERDICT_OK;
  CHECK_OK(atvi_judge(w.d, &v, NULL, 0));
  CHECK_INT(v, ATVI_VERDICT_WARN);
  world_free(&w);
}

static void gives_messages_as_data(void) {
  world w = world_new(4, 2000, false);
  atvi_judgement *j;
  w.d->made->end = ATVI_END_LIMIT;
  CHECK_OK(atvi_draws_say(w.d, ATVI_NOTE, ATVI_CODE_GAPS, "A second line."));
  CHECK_OK(atvi_judgement_new(w.d, &j));
  CHECK(j->verdict == ATVI_VERDICT_WARN && j->n_message == 2 && atvi_judgement_size(j) == 2);
  CHECK(j->message[0].severity == ATVI_WARNING && j->message[0].code == ATVI_CODE_LIMIT_PRECISION);
  CHECK_STR(atvi_judgement_word(j, "verdict", 0), "warn");
  CHECK_STR(atvi_judgement_word(j, "code", 0), "limit-precision");
  CHECK_STR(atvi_judgement_word(j, "severity", 0), "warning");
  CHECK_STR(atvi_judgement_word(j, "code", 1), "gaps");
  CHECK_STR(atvi_judgement_word(j, "severity", 1), "note");
  CHECK_STR(atvi_judgement_word(j, "text", 1), "A second line.");
  CHECK(!atvi_judgement_word(j, "text", 2) && !atvi_judgement_word(j, "text", -1));
  CHECK(!atvi_judgement_word(j, "nothing", 0));
  atvi_judgement_free(j);
  atvi_judgement_free(NULL);
  world_free(&w);
}

static void text_needs_room(void) {
  world w = world_new(4, 100, false);
  atvi_verdict v = ATVI_VERDICT_OK;
  char text[1] = {'x'};
  CHECK_STATUS(atvi_judge(w.d, &v, text, 0), ATVI_EINVAL);
  CHECK(v == ATVI_VERDICT_BAD && text[0] == 'x');
  w.d->made->end = ATVI_END_LIMIT;
  CHECK_OK(atvi_judge(w.d, &v, text, 1));
  CHECK(text[0] == 0);
  world_free(&w);
}

static void memory_failures_leave_nothing(void) {
  world w = world_new(2, 100, false);
  atvi_ctx_set_threads(w.ctx, 1);
  long live = test_live, k = 1;
  for (;; k++) {
    atvi_verdict v = ATVI_VERDICT_OK;
    char text[200] = "before";
    test_fail_at = test_allocs + k;
    atvi_status status = atvi_judge(w.d, &v, text, sizeof text);
    test_fail_at = 0;
    CHECK_INT(test_live, live);
    if (status == ATVI_OK) break;
    CHECK_INT(status, ATVI_ENOMEM);
    CHECK(v == ATVI_VERDICT_BAD && text[0] == 0);
  }
  CHECK(k > 2);
  world_free(&w);
}

TESTS({"data", gives_messages_as_data}, {"says", says_what_the_summary_says}, {"room", text_needs_room},
      {"memory", memory_failures_leave_nothing})
