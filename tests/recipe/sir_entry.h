/* SPDX-License-Identifier: MIT */
/* clang-format off */
    {.name = "sir",
     .brief = "prior draws, resampled",
     .help = "Draws of the prior, resampled by their likelihood.",
     .takes = "ess",
     .posterior = true,
     .reference = 4,
     .ess_most = 1e5,
     .run = run_sir},
