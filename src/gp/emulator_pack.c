/* SPDX-License-Identifier: MIT */
/* Matrices in the order in which the product with a group of points reads them. */
#include "gp/emulator_detail.h"
#include <string.h>

enum { P = ATVI_GP_PANEL, G = ATVI_EM_GROUP };

static atvi_idx least(atvi_idx a, atvi_idx b) { return a < b ? a : b; }

atvi_idx atvi_em_panels(atvi_idx rows) { return (rows + P - 1) / P; }

void atvi_em_panel_span(const atvi_em_packed *a, atvi_idx p, atvi_idx *first, atvi_idx *length) {
  *first = a->shape == ATVI_EM_UPPER ? p * P : 0;
  *length = (a->shape == ATVI_EM_LOWER ? least((p + 1) * P, a->cols) : a->cols) - *first;
}

size_t atvi_em_panel_at(const atvi_em_packed *a, atvi_idx p) {
  atvi_idx lengths = p * a->cols, whole = a->cols / P; /* panels of a triangle that are not cut short */
  if (a->shape == ATVI_EM_UPPER) lengths -= P * (p * (p - 1) / 2);
  if (a->shape == ATVI_EM_LOWER)
    lengths = P * (least(p, whole) * (least(p, whole) + 1) / 2) + (p > whole ? a->cols : 0);
  return (size_t)lengths * P;
}

void atvi_em_pack(atvi_em_packed *a, const double *src, atvi_idx ld_i, atvi_idx ld_j) {
  for (atvi_idx p = 0; p < atvi_em_panels(a->rows); p++) {
    atvi_idx first, length;
    atvi_em_panel_span(a, p, &first, &length);
    double *to = a->data + atvi_em_panel_at(a, p);
    for (atvi_idx l = 0; l < length; l++)
      for (atvi_idx r = 0; r < P; r++) {
        atvi_idx i = p * P + r, j = first + l;
        bool zero =
            i >= a->rows || (a->shape == ATVI_EM_LOWER && j > i) || (a->shape == ATVI_EM_UPPER && j < i);
        to[l * P + r] = zero ? 0 : src[i * ld_i + j * ld_j];
      }
  }
}

double atvi_em_packed_get(const atvi_em_packed *a, atvi_idx i, atvi_idx j) {
  atvi_idx first, length;
  atvi_em_panel_span(a, i / P, &first, &length);
  if (j < first || j >= first + length) return 0;
  return a->data[atvi_em_panel_at(a, i / P) + (size_t)((j - first) * P + i % P)];
}

void atvi_em_packed_mul(const atvi_gp_table *table, const atvi_em_packed *a, int cols, const double *b,
                        bool add, double *c, double *spill) {
  for (atvi_idx p = 0; p < atvi_em_panels(a->rows); p++) {
    atvi_idx first, length, rows = least(P, a->rows - p * P);
    atvi_em_panel_span(a, p, &first, &length);
    double *to = c + p * P * G, *at = rows < P ? spill : to;
    size_t bytes = (size_t)(rows * G) * sizeof *c;
    if (rows < P && add) memcpy(at, to, bytes);
    table->panel(length, cols, a->data + atvi_em_panel_at(a, p), b + first * G, add, at);
    if (rows < P) memcpy(to, at, bytes);
  }
}
