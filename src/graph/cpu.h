/* SPDX-License-Identifier: MIT */
#ifndef ATVI_GRAPH_CPU_H
#define ATVI_GRAPH_CPU_H

#include "core/core.h"

/* A line that differs where compiled code may not be shared. */
void atvi_cpu_describe_base(char *text, size_t room);
void atvi_cpu_describe_avx2(char *text, size_t room);
void atvi_cpu_describe_avx512(char *text, size_t room);

#endif
