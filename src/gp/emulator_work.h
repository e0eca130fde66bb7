/* SPDX-License-Identifier: MIT */
/* One thread's scratch of the evaluation, as the evaluation and its oracle see it. */
#ifndef ATVI_GP_EMULATOR_WORK_H
#define ATVI_GP_EMULATOR_WORK_H

#include "gp/emulator_detail.h"

struct atvi_em_work {
  atvi_ctx *ctx;
  atvi_idx n_row;
  int cols;                    /* points of a group that are computed */
  atvi_em_packed w, wt;        /* rows of W' and their transpose: the emulator's own, or copies below */
  atvi_em_packed base, base_t; /* rows of B' and their transpose, with a basis */
  double *mean;                /* [n_row] */
  double *p, *p_bar;           /* [d][ATVI_EM_GROUP] scaled points */
  double *k, *v, *k_bar;       /* [n][ATVI_EM_GROUP] */
  double *coef;                /* [q][ATVI_EM_GROUP] with a basis */
  double *spill;               /* [ATVI_GP_PANEL][ATVI_EM_GROUP] */
};

#endif
