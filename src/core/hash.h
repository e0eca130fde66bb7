/* SPDX-License-Identifier: MIT */
/* Fingerprints of bytes: a short one that tells files apart, and one that nobody can forge. */
#ifndef ATVI_CORE_HASH_H
#define ATVI_CORE_HASH_H

#include "atvi/core.h"

/* FNV-1a, 64 bits: tells files apart, no more is asked of it. Begin with ATVI_HASH. */
#define ATVI_HASH 0xcbf29ce484222325u
uint64_t atvi_hash(uint64_t hash, const void *bytes, size_t n);

/* SHA-256 (FIPS 180-4). */
typedef struct {
  uint32_t h[8];
  uint64_t bytes;
  unsigned char part[64];
} atvi_sha256;
void atvi_sha256_begin(atvi_sha256 *s);
void atvi_sha256_add(atvi_sha256 *s, const void *data, size_t bytes);
void atvi_sha256_end(atvi_sha256 *s, unsigned char digest[32]);

#endif
