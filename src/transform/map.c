/* SPDX-License-Identifier: MIT */
/* Making and checking maps. */
#include "transform/transform.h"
#include <math.h>

#define SLOPE 20.0
#define SLOPE_MAX 1e6 /* log w stays finite and smooth for any xi that a flow can give */

const char *atvi_map_name(atvi_map_kind kind) {
  switch (kind) {
  case ATVI_MAP_NONE: return "none";
  case ATVI_MAP_LOG: return "log";
  case ATVI_MAP_LOGIT: return "logit";
  case ATVI_MAP_PROBIT: return "probit";
  case ATVI_MAP_SURJECTION: return "surjection";
  }
  return "?";
}

/* What is wrong with the bounds, or NULL. */
static const char *unsuited(atvi_map_kind kind, double lower, double upper) {
  if (!(lower < upper) || lower == HUGE_VAL || upper == -HUGE_VAL) return "lower < upper";
  bool low = lower > -HUGE_VAL, high = upper < HUGE_VAL;
  if (low && high && !(upper - lower < HUGE_VAL)) return "a finite width";
  switch (kind) {
  case ATVI_MAP_NONE: return low || high ? "no bounds" : NULL;
  case ATVI_MAP_LOG: return low == high ? "one bound" : NULL;
  case ATVI_MAP_LOGIT:
  case ATVI_MAP_PROBIT: return low && high ? NULL : "two bounds";
  case ATVI_MAP_SURJECTION: return low || high ? NULL : "one bound or two";
  }
  return "a known kind";
}

static bool two_ends(const atvi_map *m) {
  return m->kind == ATVI_MAP_SURJECTION && isfinite(m->lower) && isfinite(m->upper);
}

atvi_status atvi_map_new(atvi_ctx *ctx, atvi_map_kind kind, double lower, double upper, atvi_map *out) {
  const char *want = unsuited(kind, lower, upper);
  *out = (atvi_map){kind, lower, upper, 0, 1, SLOPE};
  if (want)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "map %s: bounds %g and %g, want %s", atvi_map_name(kind), lower, upper,
                     want);
  if (two_ends(out)) out->scale = (upper - lower) / 4;
  return ATVI_OK;
}

atvi_status atvi_map_check(atvi_ctx *ctx, const atvi_map *m) {
  const char *name = atvi_map_name(m->kind), *want = unsuited(m->kind, m->lower, m->upper);
  if (want)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "map %s: bounds %g and %g, want %s", name, m->lower, m->upper, want);
  if (!(m->scale > 0 && m->scale < HUGE_VAL))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "map %s: scale = %g, want > 0", name, m->scale);
  if (!isfinite(m->loc)) return ATVI_FAIL(ctx, ATVI_EINVAL, "map %s: loc = %g", name, m->loc);
  if (two_ends(m) && (m->loc != 0 || m->scale != (m->upper - m->lower) / 4))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "map %s: loc = %g, scale = %g, want 0 and %g", name, m->loc, m->scale,
                     (m->upper - m->lower) / 4);
  if (m->kind == ATVI_MAP_SURJECTION && !(m->slope > 0 && m->slope <= SLOPE_MAX))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "map %s: slope = %g, want > 0 and <= %g", name, m->slope, SLOPE_MAX);
  return ATVI_OK;
}
