/* SPDX-License-Identifier: MIT */
/* The target of a model with blocks `each`. */
#ifndef ATVI_MODEL_UNITS_H
#define ATVI_MODEL_UNITS_H

#include "atvi/target.h"

extern const atvi_target_ops atvi_model_units_ops;

#endif
