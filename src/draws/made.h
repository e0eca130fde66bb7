/* SPDX-License-Identifier: MIT */
#ifndef ATVI_DRAWS_MADE_H
#define ATVI_DRAWS_MADE_H

#include "atvi/draws.h"

/* Nothing known about how draws were made: "" and NaN, 0 for counts. */
atvi_made atvi_made_none(void);

#endif
