/* SPDX-License-Identifier: MIT */
#include "atvi/draws.h"
#include "core/core.h"
#include "draws/made.h"
#include "math/rng.h"
#include "math/stat/stat.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

atvi_made atvi_draws_made_none(void) {
  return (atvi_made){.method = "",
                     .model = "",
                     .log_evidence = NAN,
                     .log_evidence_se = NAN,
                     .elbo = NAN,
                     .khat = NAN,
                     .accept = NAN,
                     .mode_draw = NAN,
                     .efficiency = NAN,
                     .log_lik_error = NAN,
                     .modes = NAN,
                     .outside = NAN,
                     .rungs = NAN,
                     .steps = NAN,
                     .tuned = NAN,
                     .exact = NAN,
                     .excess = NAN,
                     .lost = NAN,
                     .divergences = NAN,
                     .ebfmi = NAN,
                     .tree_depth = NAN,
                     .max_depth_hits = NAN,
                     .top_weight = NAN,
                     .ess_wanted = NAN};
}

typedef struct {
  atvi_draws d; /* first: what callers see */
  atvi_pool *pool;
  atvi_idx message_cap, group_cap;
} whole;

static whole *carve(atvi_arena *a, atvi_idx n, atvi_idx n_col, bool weighted, size_t name_bytes,
                    atvi_column **col, char **names) {
  whole *o;
  atvi_draws d = {0};
  ATVI_TAKE(a, o, 1);
  ATVI_TAKE(a, d.made, 1);
  ATVI_TAKE(a, d.about, 1);
  ATVI_TAKE(a, *col, n_col);
  ATVI_TAKE(a, *names, name_bytes);
  d.x = atvi_arena_take(a, (size_t)n_col, (size_t)n * sizeof *d.x);
  ATVI_TAKE(a, d.log_prior, n);
  ATVI_TAKE(a, d.log_lik, n);
  if (weighted) ATVI_TAKE(a, d.weight, n);
  d.col = *col;
  if (o) o->d = d;
  return o;
}

static atvi_status check(atvi_ctx *ctx, atvi_idx n, atvi_idx n_chain, atvi_idx n_param, atvi_idx n_col,
                         const atvi_column *col) {
  if (n < 1) return ATVI_FAIL(ctx, ATVI_EINVAL, "draws: n = %td, want >= 1", n);
  if (n_chain < 1 || n % n_chain != 0)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "draws: n = %td is not a multiple of n_chain = %td", n, n_chain);
  if (n_param < 0 || n_col < n_param)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "draws: n_param = %td, n_col = %td, want 0 <= n_param <= n_col",
                     n_param, n_col);
  for (atvi_idx j = 0; j < n_col; j++)
    if (!col || !col[j].name) return ATVI_FAIL(ctx, ATVI_EINVAL, "draws: column %td has no name", j);
  return ATVI_OK;
}

static const char *put_name(char **at, const char *name) {
  char *copy = *at;
  size_t bytes = strlen(name) + 1;
  memcpy(copy, name, bytes);
  *at += bytes;
  return copy;
}

atvi_status atvi_draws_new(atvi_ctx *ctx, atvi_idx n, atvi_idx n_chain, atvi_idx n_param, atvi_idx n_col,
                           const atvi_column *col, bool weighted, atvi_draws **out) {
  *out = NULL;
  ATVI_TRY(check(ctx, n, n_chain, n_param, n_col, col));
  if ((size_t)n > SIZE_MAX / 64) return ATVI_ENOMEM;
  size_t name_bytes = 0;
  for (atvi_idx j = 0; j < n_col; j++) name_bytes += strlen(col[j].name) + 1;
  atvi_arena a = {0};
  atvi_column *cols;
  char *names;
  carve(&a, n, n_col, weighted, name_bytes, &cols, &names);
  a = (atvi_arena){.base = atvi_block(ctx, a.used)};
  if (!a.base) return ATVI_ENOMEM;
  whole *o = carve(&a, n, n_col, weighted, name_bytes, &cols, &names);
  atvi_draws *d = &o->d;
  for (atvi_idx j = 0; j < n_col; j++)
    cols[j] = (atvi_column){put_name(&names, col[j].name), col[j].lower, col[j].upper};
  for (atvi_idx i = 0; weighted && i < n; i++) d->weight[i] = 1.0 / (double)n;
  d->ctx = ctx;
  d->n = n;
  d->n_chain = n_chain;
  d->chains = n_chain > 1;
  d->n_param = n_param;
  d->n_col = n_col;
  *d->made = atvi_draws_made_none();
  atvi_status status = atvi_pool_new(ctx, &o->pool);
  if (status != ATVI_OK) {
    atvi_block_free(ctx, o);
    return status;
  }
  *out = d;
  return ATVI_OK;
}

void atvi_draws_free(atvi_draws *d) {
  if (!d) return;
  whole *o = (whole *)(void *)d;
  atvi_pool_free(o->pool);
  atvi_block_free(d->ctx, o);
}

atvi_status atvi_draws_keep(atvi_draws *d, const char *s, const char **copy) {
  whole *o = (whole *)(void *)d;
  *copy = atvi_pool_strndup(o->pool, s, strlen(s));
  return *copy ? ATVI_OK : ATVI_ENOMEM;
}

atvi_status atvi_draws_say(atvi_draws *d, atvi_severity severity, atvi_code code, const char *fmt, ...) {
  whole *o = (whole *)(void *)d;
  va_list args, again;
  va_start(args, fmt);
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, fmt, args);
  char *text = n < 0 ? NULL : atvi_pool_take(o->pool, (size_t)n + 1, 1);
  if (text) vsnprintf(text, (size_t)n + 1, fmt, again);
  va_end(again);
  va_end(args);
  atvi_message *bigger =
      text ? atvi_pool_grow(o->pool, d->message, d->n_message, &o->message_cap, sizeof *d->message) : NULL;
  if (!bigger) return ATVI_ENOMEM;
  d->message = bigger;
  d->message[d->n_message++] = (atvi_message){severity, code, text};
  return ATVI_OK;
}

atvi_pool *atvi_draws_pool(atvi_draws *d) { return ((whole *)(void *)d)->pool; }

const atvi_group *atvi_draws_group(const atvi_draws *d, const char *name) {
  for (atvi_idx i = 0; i < d->n_group; i++)
    if (strcmp(d->group[i].name, name) == 0) return &d->group[i];
  return NULL;
}

atvi_status atvi_draws_group_new(atvi_draws *d, const char *name, atvi_idx n_value, atvi_idx n_draw,
                                 const atvi_idx *draw, double **x) {
  whole *o = (whole *)(void *)d;
  *x = NULL;
  if (n_value < 0 || n_draw < 0 || atvi_draws_group(d, name))
    return ATVI_FAIL(d->ctx, ATVI_EINVAL, "draws: group %s of %td values at %td draws", name, n_value,
                     n_draw);
  for (atvi_idx i = 0; draw && i < n_draw; i++)
    if (draw[i] < 0 || draw[i] >= d->n)
      return ATVI_FAIL(d->ctx, ATVI_EINVAL, "draws: group %s is of draw %td of %td", name, draw[i], d->n);
  bool fits = (size_t)n_draw < SIZE_MAX / 64 / ((size_t)n_value + 1);
  atvi_group g = {.n_value = n_value, .n_draw = n_draw};
  g.name = atvi_pool_strndup(o->pool, name, strlen(name));
  g.x = fits ? atvi_pool_take(o->pool, (size_t)(n_value * n_draw) + 1, sizeof *g.x) : NULL;
  atvi_idx *copy = draw ? atvi_pool_take(o->pool, (size_t)n_draw + 1, sizeof *copy) : NULL;
  atvi_group *more = atvi_pool_grow(o->pool, d->group, d->n_group, &o->group_cap, sizeof g);
  if (!g.name || !g.x || (draw && !copy) || !more) return ATVI_ENOMEM;
  if (draw) memcpy(copy, draw, (size_t)n_draw * sizeof *copy);
  g.draw = copy;
  more[d->n_group++] = g;
  d->group = more;
  *x = g.x;
  return ATVI_OK;
}

atvi_status atvi_draws_history(atvi_draws *d, atvi_idx n, const atvi_progress *step) {
  atvi_pool *pool = atvi_draws_pool(d);
  atvi_progress *copy = atvi_pool_take(pool, (size_t)n + 1, sizeof *copy);
  for (atvi_idx i = 0; copy && i < n; i++) {
    copy[i] = step[i];
    copy[i].detail = "";
    bool same = i > 0 && strcmp(step[i].phase, copy[i - 1].phase) == 0;
    copy[i].phase = same ? copy[i - 1].phase : atvi_pool_strndup(pool, step[i].phase, strlen(step[i].phase));
  }
  if (atvi_pool_failed(pool)) return ATVI_ENOMEM;
  d->step = copy;
  d->n_step = n;
  return ATVI_OK;
}

/* Mean, standard deviation and quantiles of one column of draws. */

static const double *column(const atvi_draws *d, atvi_idx col) {
  return col >= 0 && col < d->n_col ? d->x + col * d->n : NULL;
}

atvi_idx atvi_draws_find(const atvi_draws *d, const char *name) {
  for (atvi_idx j = 0; j < d->n_col; j++)
    if (strcmp(d->col[j].name, name) == 0) return j;
  return -1;
}

double atvi_draws_mean(const atvi_draws *d, atvi_idx col) {
  const double *x = column(d, col);
  return x ? atvi_math_mean(d->n, x, d->weight) : NAN;
}

double atvi_draws_sd(const atvi_draws *d, atvi_idx col) {
  const double *x = column(d, col);
  return x ? atvi_math_sd(d->n, x, d->weight) : NAN;
}

/* xs[n], ws[n] (NULL: equal weights) are sorted in place. */
static void sorted_quantiles(const atvi_draws *d, double *xs, double *ws, double *work, atvi_idx n,
                             const double *p, double *quantile) {
  atvi_math_sort(d->n, xs, ws, work);
  for (atvi_idx k = 0; k < n; k++) quantile[k] = atvi_math_quantile(d->n, xs, ws, p[k]);
}

atvi_status atvi_draws_quantiles(const atvi_draws *d, atvi_idx col, atvi_idx n, const double *p,
                                 double *quantile) {
  const double *x = column(d, col);
  size_t bytes = (size_t)d->n * sizeof *x;
  bool finite = true;
  for (atvi_idx k = 0; k < n; k++) quantile[k] = NAN;
  if (!x) return ATVI_FAIL(d->ctx, ATVI_EINVAL, "quantiles: column %td of %td", col, d->n_col);
  for (atvi_idx k = 0; k < n; k++)
    if (!(p[k] >= 0 && p[k] <= 1))
      return ATVI_FAIL(d->ctx, ATVI_EINVAL, "quantiles: p = %g, want a probability in [0, 1]", p[k]);
  for (atvi_idx i = 0; i < d->n; i++) finite = finite && isfinite(x[i]);
  if (!finite) return ATVI_OK;
  double *room = atvi_block(d->ctx, 4 * bytes);
  if (!room) return ATVI_ENOMEM;
  double *xs = room, *ws = d->weight ? room + d->n : NULL;
  memcpy(xs, x, bytes);
  if (ws) memcpy(ws, d->weight, bytes);
  sorted_quantiles(d, xs, ws, room + 2 * d->n, n, p, quantile);
  atvi_block_free(d->ctx, room);
  return ATVI_OK;
}

/* Systematic resampling: one uniform number u, and draw i is taken once for every k with W_{i-1} <= (k + u) /
 * n < W_i, W the cumulated weights. Its count differs from n w_i by less than one, which is the least noise
 * that resampling can add. Equal draws come out beside each other, hence the shuffle. */

static double weight(const atvi_draws *d, atvi_idx i) { return d->weight ? d->weight[i] : 1; }

/* index[n] of the draws taken; false if no weight is above zero. */
static bool pick(const atvi_draws *d, atvi_idx n, uint64_t seed, atvi_idx *index) {
  double all = 0;
  atvi_idx last = -1; /* the last one that may be taken: rounding must not run past it */
  for (atvi_idx i = 0; i < d->n; i++) {
    all += weight(d, i);
    if (weight(d, i) > 0) last = i;
  }
  if (!(all > 0) || !isfinite(all)) return false;
  atvi_rng r = atvi_math_rng_at(seed, ATVI_STREAM_RESAMPLE, 0, 0);
  double u = atvi_math_rng_uniform(&r), step = all / (double)n, upto = 0;
  atvi_idx i = -1;
  for (atvi_idx k = 0; k < n; k++) {
    double at = ((double)k + u) * step;
    while (i < last && upto <= at) upto += weight(d, ++i);
    index[k] = i;
  }
  for (atvi_idx k = n - 1; k > 0; k--) { /* Fisher-Yates; the modulus is biased by less than 2^-40 */
    atvi_idx j = (atvi_idx)(atvi_math_rng_bits(&r) % ((uint64_t)k + 1)), t = index[k];
    index[k] = index[j];
    index[j] = t;
  }
  return true;
}

static void gather(atvi_idx n, const atvi_idx *index, const double *from, double *to) {
  for (atvi_idx k = 0; k < n; k++) to[k] = from[index[k]];
}

static atvi_status copy_words(const atvi_draws *d, atvi_draws *to) {
  *to->made = *d->made;
  to->made->mode_draw = NAN; /* a number of a draw among those of d */
  ATVI_TRY(atvi_draws_keep(to, d->made->method, &to->made->method));
  ATVI_TRY(atvi_draws_keep(to, d->made->model, &to->made->model));
  for (atvi_idx i = 0; i < d->n_message; i++) {
    const atvi_message *m = &d->message[i];
    ATVI_TRY(atvi_draws_say(to, m->severity, m->code, "%s", m->text));
  }
  return ATVI_OK;
}

/* Draws index[n] of d without weights. */
static atvi_status take(const atvi_draws *d, atvi_idx n, const atvi_idx *index, atvi_idx n_chain,
                        atvi_draws **out) {
  atvi_draws *to;
  ATVI_TRY(atvi_draws_new(d->ctx, n, n_chain, d->n_param, d->n_col, d->col, false, &to));
  atvi_status status = copy_words(d, to);
  if (status != ATVI_OK) {
    atvi_draws_free(to);
    return status;
  }
  for (atvi_idx j = 0; j < d->n_col; j++) gather(n, index, d->x + j * d->n, to->x + j * n);
  gather(n, index, d->log_prior, to->log_prior);
  gather(n, index, d->log_lik, to->log_lik);
  *out = to;
  return ATVI_OK;
}

static atvi_status resample(const atvi_draws *d, atvi_idx n, uint64_t seed, atvi_idx *index,
                            atvi_draws **out) {
  if (!pick(d, n, seed, index))
    return ATVI_FAIL(d->ctx, ATVI_EINVAL, "resample: none of the %td draws has a weight above zero", d->n);
  return take(d, n, index, 1, out);
}

atvi_status atvi_draws_resample(const atvi_draws *d, atvi_idx n, uint64_t seed, atvi_draws **out) {
  *out = NULL;
  if (n < 1) return ATVI_FAIL(d->ctx, ATVI_EINVAL, "resample: n = %td, want >= 1", n);
  atvi_idx *index = (size_t)n > SIZE_MAX / 64 ? NULL : atvi_block(d->ctx, (size_t)n * sizeof *index);
  if (!index) return ATVI_ENOMEM;
  atvi_status status = resample(d, n, seed, index, out);
  atvi_block_free(d->ctx, index);
  return status;
}

atvi_status atvi_draws_unweighted(const atvi_draws *d, atvi_draws **out) {
  *out = NULL;
  atvi_idx *index = atvi_block(d->ctx, (size_t)d->n * sizeof *index);
  if (!index) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < d->n; i++) index[i] = i;
  atvi_status status = take(d, d->n, index, d->n_chain, out);
  if (status == ATVI_OK) (*out)->chains = d->chains, (*out)->made->mode_draw = d->made->mode_draw;
  atvi_block_free(d->ctx, index);
  return status;
}
