/* SPDX-License-Identifier: MIT */
/* Small things that several commands need: times on the command line, cells of a CSV file. */
#include "app/common.h"
#include "io/csv.h"
#include <math.h>
#include <string.h>

/* More times than this in one range is a slip of the pen. */
enum { MAX_TIMES = 1000000 };

static atvi_status bad_times(atvi_ctx *ctx, const char *times) {
  return ATVI_FAIL(ctx, ATVI_EINVAL,
                   "--times %s: want first:last, first:last:step or a list t1,t2,... of ascending numbers",
                   times);
}

atvi_status atvi_app_times(atvi_ctx *ctx, atvi_pool *pool, const char *times, atvi_idx *n, double **out) {
  double part[3] = {0, 0, 1};
  int n_part = 0;
  *n = 0;
  *out = NULL;
  if (!times) return ATVI_OK;
  if (strchr(times, ':')) {
    for (const char *at = times; at && n_part < 4; n_part++) {
      size_t len = strcspn(at, ":");
      if (n_part == 3 || !atvi_parse_number(at, len, &part[n_part])) return bad_times(ctx, times);
      at = at[len] ? at + len + 1 : NULL;
    }
    double count = floor((part[1] - part[0]) / part[2] + 1e-9) + 1;
    if (!(part[2] > 0) || !(count >= 1) || !(count <= MAX_TIMES)) return bad_times(ctx, times);
    *n = (atvi_idx)count;
    *out = atvi_pool_take(pool, (size_t)*n, sizeof **out);
    for (atvi_idx i = 0; *out && i < *n; i++) (*out)[i] = part[0] + (double)i * part[2];
  } else {
    atvi_idx cap = 0;
    for (const char *at = times; at;) {
      size_t len = strcspn(at, ",");
      double x;
      if (!atvi_parse_number(at, len, &x)) return bad_times(ctx, times);
      if (!ATVI_PUSH(pool, *out, *n, cap)) break;
      (*out)[(*n)++] = x;
      at = at[len] ? at + len + 1 : NULL;
    }
  }
  return *out ? ATVI_OK : ATVI_FAIL(ctx, ATVI_ENOMEM, "out of memory");
}

void atvi_app_field(atvi_text *out, const char *s) {
  if (!strpbrk(s, ",\"; \t")) {
    atvi_text_add(out, "%s", s);
    return;
  }
  atvi_text_add(out, "\"");
  for (; *s; s++) atvi_text_add(out, *s == '"' ? "\"\"" : "%c", *s);
  atvi_text_add(out, "\"");
}
