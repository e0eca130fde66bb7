/* SPDX-License-Identifier: MIT */
/* What the processor can do, as numbers for a cache key: code compiled for one machine must not be
 * loaded on another that shares the home directory. Only the base version is used. */
#include "graph/internal.h"
#include <stdio.h>
#ifdef __x86_64__
#include <cpuid.h>
#elif defined __linux__
#include <sys/auxv.h>
#endif

void ATVI_ISA_NAME(atvi_graph_cpu_describe)(char *text, size_t room) {
  size_t used = 0;
#ifdef __x86_64__
  static const unsigned leaf[][2] = {{0, 0}, {1, 0}, {7, 0}, {7, 1}, {0xd, 0}, {0x80000001u, 0}};
  for (size_t k = 0; k < sizeof leaf / sizeof leaf[0]; k++) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid_count(leaf[k][0], leaf[k][1], &a, &b, &c, &d)) continue;
    if (leaf[k][0] == 1) b = 0;                               /* holds the number of the core at hand */
    if (leaf[k][0] == 7 && leaf[k][1] == 0) d &= ~(1u << 15); /* hybrid: differs between cores */
    int len = snprintf(text + used, room - used, "%x.%x.%x.%x ", a, b, c, d);
    if (len < 0 || (size_t)len >= room - used) return;
    used += (size_t)len;
  }
#elif defined __linux__
  snprintf(text + used, room - used, "%lx.%lx", getauxval(AT_HWCAP), getauxval(AT_HWCAP2));
#else
  (void)used;
  snprintf(text, room, "unknown");
#endif
}
