/* SPDX-License-Identifier: MIT */
/* Names of parameters in fields {name} of commands and templates. */
#ifndef ATVI_IO_FIELD_H
#define ATVI_IO_FIELD_H

#include "core/core.h"

enum { ATVI_FIELD_BYTES = 128 }; /* with the zero; no parameter has a longer name */

/* What stands between the braces, text[n], as parameters are named: theta[1] is theta.1, theta[1,2] is theta.1.2, and blanks around it do
 * not count. What is of no such form stays as it is, which is the name of nothing if it has brackets or commas. False if it is too long. */
bool atvi_field_name(const char *text, size_t n, char out[ATVI_FIELD_BYTES]);

#endif
