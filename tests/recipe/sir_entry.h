/* SPDX-License-Identifier: MIT */
/* clang-format off */
    {"sir", "prior draws, resampled", OWN | DRAWS | EXACT, ATVI_TAKES_ESS, .ess_most = 1e5,
     .run = run_sir, .help = "Draws of the prior, resampled by their likelihood."},
