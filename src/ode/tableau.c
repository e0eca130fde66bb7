/* SPDX-License-Identifier: MIT */
/* Coefficients of the Runge-Kutta methods; tests verify their order conditions. */
#include "ode/work.h"

/* Tsitouras, Runge-Kutta pairs of order 5(4) satisfying only the first column simplifying assumption,
 * Computers & Mathematics with Applications 62 (2011) 770-775, Table 1. The last row is the new state, whose
 * slope serves the error estimate and the next step. */
const atvi_ode_tableau atvi_ode_tsit5 = {
    .stages = 6,
    .weights = 7,
    .c = {0, 0.161, 0.327, 0.9, 0.9800255409045097, 1, 1},
    .a = {{0},
          {0.161},
          {-0.008480655492356989, 0.335480655492357},
          {2.8971530571054935, -6.359448489975075, 4.3622954328695815},
          {5.325864828439257, -11.748883564062828, 7.4955393428898365, -0.09249506636175525},
          {5.86145544294642, -12.92096931784711, 8.159367898576159, -0.071584973281401,
           -0.028269050394068383},
          {0.09646076681806523, 0.01, 0.4798896504144996, 1.379008574103742, -3.290069515436081,
           2.324710524099774}},
    .e = {-0.00178001105222577714, -0.0008164344596567469, 0.007880878010261995, -0.1447110071732629,
          0.5823571654525552, -0.45808210592918697, 1.0 / 66},
};

const atvi_ode_tableau atvi_ode_rk4 = {
    .stages = 4,
    .c = {0, 0.5, 0.5, 1, 1},
    .a = {{0}, {0.5}, {0, 0.5}, {0, 0, 1}, {1.0 / 6, 1.0 / 3, 1.0 / 3, 1.0 / 6}},
};

/* ESDIRK4(3)6L[2]SA: Kennedy & Carpenter, Additive Runge-Kutta schemes for convection-diffusion-reaction
 * equations, Applied Numerical Mathematics 44 (2003) 139-181, Appendix C. Stiffly accurate, L-stable. */
const atvi_ode_tableau atvi_ode_esdirk4 = {
    .stages = 6,
    .weights = 6,
    .c = {0, 0.5, 83.0 / 250, 31.0 / 50, 17.0 / 20, 1},
    .a = {{0},
          {0.25, 0.25},
          {8611.0 / 62500, -1743.0 / 31250, 0.25},
          {5012029.0 / 34652500, -654441.0 / 2922500, 174375.0 / 388108, 0.25},
          {15267082809.0 / 155376265600, -71443401.0 / 120774400, 730878875.0 / 902184768,
           2285395.0 / 8070912, 0.25},
          {82889.0 / 524892, 0, 15625.0 / 83664, 69875.0 / 102672, -2260.0 / 8211, 0.25}},
    .e = {82889.0 / 524892 - 4586570599.0 / 29645900160, 0, 15625.0 / 83664 - 178811875.0 / 945068544,
          69875.0 / 102672 - 814220225.0 / 1159782912, -2260.0 / 8211 + 3700637.0 / 11593932,
          0.25 - 61727.0 / 225920},
};
