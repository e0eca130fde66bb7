/* SPDX-License-Identifier: MIT */
/* Text that generated code begins with; see prelude.c. */
#ifndef ATVI_GRAPH_PRELUDE_H
#define ATVI_GRAPH_PRELUDE_H

extern const char *const atvi_gen_prelude[]; /* pieces, NULL at the end */
extern const char atvi_gen_xlogy[];          /* after MATH1(log) */

#endif
