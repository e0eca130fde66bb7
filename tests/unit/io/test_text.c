/* SPDX-License-Identifier: MIT */
#include "io/text.h"
#include "testing.h"

static void paragraphs_and_labels(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  const char *text;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  atvi_text t = {.pool = pool};
  atvi_io_text_wrap(&t, "note:", 2, "  two\nwords ");
  atvi_io_text_wrap(&t, "  - ", 4, "one");
  atvi_io_text_wrap(&t, "", 0, "");
  atvi_io_text_label(&t, 6, "beta");
  atvi_io_text_label(&t, 6, "theta.north.12");
  CHECK_OK(atvi_io_text_get(&t, &text));
  CHECK_STR(text, "note: two words\n  - one\n\nbeta  ..h.12");
  char words[201];
  for (int i = 0; i < 200; i++) words[i] = i % 10 == 9 ? ' ' : 'x';
  words[200] = 0;
  t = (atvi_text){.pool = pool};
  atvi_io_text_wrap(&t, "k-hat  ", 7, words);
  CHECK_OK(atvi_io_text_get(&t, &text));
  CHECK_INT(strcspn(text, "\n"), 7 + 9 * 10 - 1); /* a tenth word would end in column 106 */
  CHECK(strncmp(text + strcspn(text, "\n"), "\n       xxxxxxxxx ", 18) == 0);
  t = (atvi_text){.pool = pool};
  CHECK_OK(atvi_io_text_get(&t, &text));
  CHECK_STR(text, "");
  t.failed = true;
  CHECK_STATUS(atvi_io_text_get(&t, &text), ATVI_ENOMEM);
  CHECK(text == NULL);
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

TESTS({"wrap", paragraphs_and_labels})
