/* SPDX-License-Identifier: MIT */
/* Oracles of atvi_gp_em_eval and atvi_gp_em_vjp by plain loops and the C library; slow. */
#ifndef ATVI_TESTS_EMULATOR_REF_H
#define ATVI_TESTS_EMULATOR_REF_H

#include "gp/emulator.h"

void em_eval_ref(const atvi_emulator *em, const atvi_em_work *w, const double *x, double *mean,
                 double *share);
void em_vjp_ref(const atvi_emulator *em, const atvi_em_work *w, const double *x, const double *mean_bar,
                const double *share_bar, double *x_bar);

#endif
