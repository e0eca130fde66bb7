/* SPDX-License-Identifier: MIT */
/* Any bytes as what a simulator wrote, as a template and as a line of a record. The first byte says which. */
#include "sim/detail.h"
#include "sim/output.h"
#include "sim/simulator.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static const char *const NAME[] = {"k", "theta.1"};
static const double VALUE[] = {0.1, -2.5e-7};

static void outputs(atvi_pool *pool, int which, const char *text, size_t n) {
  const atvi_sim_output o = {.name = "q",
                             .format = (atvi_sim_format)(which % 3),
                             .column = which & 4 ? "2" : NULL,
                             .time = which & 8 ? "1" : NULL};
  atvi_sim_series s;
  atvi_sim_reason reason;
  if (atvi_sim_output_parse(pool, &o, text, n, &s, &reason) != ATVI_OK) return;
  if (!reason.text != (s.n > 0)) __builtin_trap();
  for (atvi_idx i = 0; i < s.n; i++)
    if (!isfinite(s.value[i]) || (s.time && i && !(s.time[i] > s.time[i - 1]))) __builtin_trap();
}

static void template(atvi_pool *pool, const char *text, size_t n) {
  atvi_template *t;
  atvi_text out = {.pool = pool};
  const char *filled;
  if (atvi_sim_template_parse(pool, (atvi_template_place){"fuzz", 1, 1}, text, n, 2, NAME, &t) != ATVI_OK)
    return;
  atvi_sim_template_fill(t, VALUE, &out);
  if (atvi_io_text_get(&out, &filled) == ATVI_OK && strlen(filled) > 30 * n) __builtin_trap();
}

static void lines(atvi_ctx *ctx, atvi_pool *pool, const char *text, size_t n) {
  char path[] = "/tmp/atvi_fuzzXXXXXX";
  int fd = mkstemp(path);
  if (fd < 0) return;
  unlink(path);
  atvi_sim_lines l;
  json_t *line;
  if (write(fd, text, n) == (ssize_t)n && atvi_sim_lines_open(ctx, path, fd, &l) == ATVI_OK) {
    while (atvi_sim_lines_next(&l, &line) == ATVI_OK && line) {
      const char *key;
      json_t *value;
      json_object_foreach(line, key, value) {
        atvi_idx m;
        double *x;
        if (atvi_sim_lines_numbers(&l, pool, value, &m, &x) == ATVI_OK && (m < 1 || !isfinite(x[m - 1])))
          __builtin_trap();
      }
      json_decref(line);
    }
    if (l.whole < 0 || (size_t)l.whole > n) __builtin_trap();
    atvi_sim_lines_close(&l);
  }
  close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  atvi_ctx *ctx;
  atvi_pool *pool;
  if (n == 0 || atvi_ctx_new(NULL, &ctx) != ATVI_OK) return 0;
  if (atvi_pool_new(ctx, &pool) == ATVI_OK) {
    const char *text = (const char *)bytes + 1;
    if (bytes[0] < 192)
      outputs(pool, bytes[0], text, n - 1);
    else if (bytes[0] < 240)
      template(pool, text, n - 1);
    else
      lines(ctx, pool, text, n - 1);
    atvi_pool_free(pool);
  }
  atvi_ctx_free(ctx);
  return 0;
}
