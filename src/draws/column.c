/* SPDX-License-Identifier: MIT */
/* Mean, standard deviation and quantiles of one column of draws. */
#include "atvi/draws.h"
#include "core/core.h"
#include "math/stat/stat.h"
#include <math.h>
#include <string.h>

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
  return x ? atvi_mean(d->n, x, d->weight) : NAN;
}

double atvi_draws_sd(const atvi_draws *d, atvi_idx col) {
  const double *x = column(d, col);
  return x ? atvi_sd(d->n, x, d->weight) : NAN;
}

/* xs[n], ws[n] (NULL: equal weights) are sorted in place. */
static void sorted_quantiles(const atvi_draws *d, double *xs, double *ws, double *work, atvi_idx n,
                             const double *p, double *quantile) {
  atvi_sort(d->n, xs, ws, work);
  for (atvi_idx k = 0; k < n; k++) quantile[k] = atvi_quantile(d->n, xs, ws, p[k]);
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
  if (!room) return ATVI_FAIL(d->ctx, ATVI_ENOMEM, "quantiles: %td draws", d->n);
  double *xs = room, *ws = d->weight ? room + d->n : NULL;
  memcpy(xs, x, bytes);
  if (ws) memcpy(ws, d->weight, bytes);
  sorted_quantiles(d, xs, ws, room + 2 * d->n, n, p, quantile);
  atvi_block_free(d->ctx, room);
  return ATVI_OK;
}
