/* SPDX-License-Identifier: MIT */
/* Everything that depends on the compiler or the processor.
 *
 * Batched kernels work on groups of ATVI_LANES points, lanes innermost: x[i][ATVI_LANES].
 * Files named *_isa.c are compiled once per instruction set of ATVI_ISA_LIST; a name that
 * leaves such a file is written ATVI_ISA_NAME(name) and picked with ATVI_ISA_PICK. */
#ifndef ATVI_CORE_COMPILER_H
#define ATVI_CORE_COMPILER_H

#include "atvi/core.h"

enum { ATVI_LANES = 8 };
#define ATVI_ALIGN 64 /* of every block and every [..][ATVI_LANES] array */

#define ATVI_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define ATVI_UNUSED __attribute__((unused))

#ifndef ATVI_ISA
#define ATVI_ISA base
#endif
#define ATVI_ISA_CAT_(a, b) a##_##b
#define ATVI_ISA_CAT(a, b) ATVI_ISA_CAT_(a, b)
#define ATVI_ISA_NAME(name) ATVI_ISA_CAT(name, ATVI_ISA)

typedef enum { ATVI_ISA_BASE, ATVI_ISA_AVX2, ATVI_ISA_AVX512 } atvi_isa;

/* Best instruction set this processor runs and this build has. */
atvi_isa atvi_isa_best(void);

#ifdef ATVI_HAVE_X86_ISA
#define ATVI_ISA_PICK(name)                                                                                  \
  (atvi_isa_best() == ATVI_ISA_AVX512 ? name##_avx512                                                        \
   : atvi_isa_best() == ATVI_ISA_AVX2 ? name##_avx2                                                          \
                                      : name##_base)
#else
#define ATVI_ISA_PICK(name) (name##_base)
#endif

#endif
