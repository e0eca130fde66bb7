/* SPDX-License-Identifier: MIT */
/* Regions of highest density in two dimensions.
 *
 * Draws are counted into GRID x GRID cells, which are smoothed along each axis with a Gaussian kernel that reflects at the ends of the
 * range: right at hard bounds, without effect elsewhere, where nothing is near the ends. The bandwidth is Silverman's for two dimensions,
 * n^(-1/6) sd given the other (a narrow ridge must not be widened), and a little more: outlines are to be looked at.
 * The level of a region is the density above which its share of the mass lies. Lines are found by marching squares on the cells with a
 * border of zeros around them, so that every line is closed; each edge between two cell centres that a line crosses has a
 * line on either side, which makes following it a walk along a list. */
#include "report/figure.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GRID = 40, OUTSIDE = 255, NODES = GRID + 2, EDGES = 2 * NODES * NODES, NO_EDGE = -1 };

const double atvi_contour_mass[ATVI_CONTOUR_LEVELS] = {0.5, 0.95};

/* ---- density ---- */

void atvi_contour_cells(atvi_idx n, const double *x, double low, double high, unsigned char *cell) {
  for (atvi_idx i = 0; i < n; i++) {
    double k = floor((x[i] - low) / (high - low) * GRID);
    cell[i] = k >= 0 && k <= GRID ? (unsigned char)fmin(k, GRID - 1) : OUTSIDE;
  }
}

/* Shares of the cells; returns how many draws that is worth. */
static double count(atvi_idx n, const atvi_contour_axis *across, const atvi_contour_axis *up,
                    const double *weight, double *cell) {
  double sum = 0, squares = 0;
  memset(cell, 0, GRID * GRID * sizeof *cell);
  for (atvi_idx i = 0; i < n; i++) {
    double w = weight ? weight[i] : 1;
    if (across->cell[i] == OUTSIDE || up->cell[i] == OUTSIDE || !(w > 0)) continue;
    cell[up->cell[i] * GRID + across->cell[i]] += w;
    sum += w;
    squares += w * w;
  }
  for (int k = 0; k < GRID * GRID && sum > 0; k++) cell[k] /= sum;
  return sum > 0 ? sum * sum / squares : 0;
}

/* One axis: cells are `step` apart, the others `stride`. h: bandwidth in cells. */
static void smooth(double *cell, int step, int stride, double h) {
  double kernel[GRID], line[3 * GRID], sum = 0; /* the line with its mirror images on either side */
  int reach = (int)fmin(GRID - 1, ceil(3.5 * h));
  for (int k = 0; k <= reach; k++) {
    kernel[k] = exp(-0.5 * k * k / (h * h));
    sum += k ? 2 * kernel[k] : kernel[k];
  }
  for (int j = 0; j < GRID; j++) {
    double *at = cell + j * stride;
    for (int i = 0; i < GRID; i++)
      line[GRID - 1 - i] = line[GRID + i] = line[3 * GRID - 1 - i] = at[i * step];
    for (int i = 0; i < GRID; i++) {
      const double *mid = line + GRID + i;
      double v = kernel[0] * mid[0];
      for (int k = 1; k <= reach; k++) v += kernel[k] * (mid[-k] + mid[k]);
      at[i * step] = v / sum;
    }
  }
}

static double bandwidth(const atvi_contour_axis *a, double n) {
  static const double MORE = 1.3;
  return fmin(fmax(MORE * a->width * pow(n, -1.0 / 6) * GRID, 0.6), GRID / 6.0);
}

static int descending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x < y) - (x > y);
}

static double level_of(const double *sorted, double mass) {
  double sum = 0;
  for (int k = 0; k < GRID * GRID; k++) {
    sum += sorted[k];
    if (sum >= mass) return sorted[k];
  }
  return 0;
}

/* ---- lines ---- */

typedef struct {
  const double *cell;
  double level;
  short next[EDGES][2]; /* the edges that a line goes to from each */
} walk;

static double node(const walk *w, int i, int j) {
  return i >= 1 && i <= GRID && j >= 1 && j <= GRID ? w->cell[(j - 1) * GRID + i - 1] : 0;
}

/* Edge from node (i, j) to the right (0) or up (1). */
static int edge(int i, int j, int up) { return 2 * (j * NODES + i) + up; }

static void join(walk *w, int a, int b) {
  for (int k = 0; k < 2; k++) {
    short *at = w->next[k ? b : a];
    at[at[0] == NO_EDGE ? 0 : 1] = (short)(k ? a : b);
  }
}

/* The lines through the square whose lowest corner is (i, j). */
static void square(walk *w, int i, int j) {
  int side[4] = {edge(i, j, 0), edge(i + 1, j, 1), edge(i, j + 1, 0),
                 edge(i, j, 1)}; /* below, right, above, left */
  double corner[4] = {node(w, i, j), node(w, i + 1, j), node(w, i + 1, j + 1), node(w, i, j + 1)};
  int crossed[4], n = 0;
  for (int k = 0; k < 4; k++)
    if ((corner[k] > w->level) != (corner[(k + 1) % 4] > w->level)) crossed[n++] = side[k];
  if (n == 2) join(w, crossed[0], crossed[1]);
  if (n < 4) return;
  /* a saddle: which corners belong together, the middle decides */
  double mid = 0.25 * (corner[0] + corner[1] + corner[2] + corner[3]);
  bool pair = (mid > w->level) == (corner[0] > w->level);
  join(w, side[0], side[pair ? 1 : 3]);
  join(w, side[2], side[pair ? 3 : 1]);
}

/* Node 1 is the middle of the first cell. Between a node and the border the density is that of the node, by reflection: a line that leaves there is
 * at the very end of the range. */
static short to_unit(int node, double part) {
  double u = part > 0 && node == 0 ? 0 : part > 0 && node == GRID ? 1 : (node + part - 0.5) / GRID;
  return (short)lround(fmin(fmax(u, 0), 1) * ATVI_CONTOUR_UNIT);
}

/* Where the line crosses an edge. */
static void crossing(const walk *w, int e, short out[2]) {
  int i = e / 2 % NODES, j = e / 2 / NODES, up = e % 2;
  double a = node(w, i, j), b = node(w, i + !up, j + up), t = fmax((w->level - a) / (b - a), 1e-9);
  out[0] = to_unit(i, up ? 0 : t);
  out[1] = to_unit(j, up ? t : 0);
}

static atvi_idx follow(walk *w, short (*out)[2]) {
  atvi_idx n = 0;
  for (int start = 0; start < EDGES; start++) {
    if (w->next[start][0] == NO_EDGE) continue;
    for (int at = start, to; at != NO_EDGE; at = to) {
      to = w->next[at][0];
      crossing(w, at, out[n++]);
      w->next[at][0] = NO_EDGE;
      if (to == NO_EDGE || w->next[to][0] == NO_EDGE) break;
      if (w->next[to][0] == at) w->next[to][0] = w->next[to][1]; /* onwards, not back */
    }
    out[n][0] = -1, out[n++][1] = 0;
  }
  return n;
}

static void trace(atvi_pool *pool, const double *cell, double level, atvi_contour *out) {
  walk w = {.cell = cell, .level = level};
  short at[2 * EDGES][2];              /* each edge once, and an end for each line */
  memset(w.next, 0xff, sizeof w.next); /* NO_EDGE throughout */
  for (int j = 0; j < NODES - 1; j++)
    for (int i = 0; i < NODES - 1; i++) square(&w, i, j);
  atvi_idx n = follow(&w, at);
  short *kept = atvi_pool_take(pool, (size_t)(2 * n) + 1, sizeof *kept);
  if (!kept) return;
  memcpy(kept, at, (size_t)n * sizeof *at);
  *out = (atvi_contour){n, kept};
}

void atvi_contour_make(atvi_pool *pool, atvi_idx n, const atvi_contour_axis *across,
                       const atvi_contour_axis *up, const double *weight, atvi_contour *level) {
  double cell[GRID * GRID], sorted[GRID * GRID];
  for (int k = 0; k < ATVI_CONTOUR_LEVELS; k++) level[k] = (atvi_contour){0, NULL};
  if (!(across->width > 0) || !(up->width > 0)) return;
  double size = count(n, across, up, weight, cell);
  if (!(size > 1)) return;
  smooth(cell, 1, GRID, bandwidth(across, size));
  smooth(cell, GRID, 1, bandwidth(up, size));
  memcpy(sorted, cell, sizeof sorted);
  qsort(sorted, GRID * GRID, sizeof *sorted, descending);
  for (int k = 0; k < ATVI_CONTOUR_LEVELS; k++)
    trace(pool, cell, level_of(sorted, atvi_contour_mass[k]), &level[k]);
}

double atvi_correlation(atvi_idx n, const double *x, const double *y, const double *weight) {
  double mx = atvi_mean(n, x, weight), my = atvi_mean(n, y, weight), xx = 0, yy = 0, xy = 0;
  for (atvi_idx i = 0; i < n; i++) {
    double w = weight ? weight[i] : 1, a = x[i] - mx, b = y[i] - my;
    if (!(w > 0)) continue;
    xx += w * a * a;
    yy += w * b * b;
    xy += w * a * b;
  }
  return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : NAN;
}
