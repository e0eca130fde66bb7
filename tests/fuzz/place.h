/* SPDX-License-Identifier: MIT */
/* A folder of our own, in memory where there is such a place, for parsers that read files. */
#ifndef ATVI_FUZZ_PLACE_H
#define ATVI_FUZZ_PLACE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char place_dir[64];

static void place_remove(void) {
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", place_dir);
  if (system(command) != 0) abort();
}

static const char *place_path(const char *name) {
  static char path[256];
  if (!place_dir[0]) {
    strcpy(place_dir, access("/dev/shm", W_OK) == 0 ? "/dev/shm/atvi_fuzzXXXXXX" : "/tmp/atvi_fuzzXXXXXX");
    if (!mkdtemp(place_dir)) abort();
    atexit(place_remove);
  }
  snprintf(path, sizeof path, "%s/%s", place_dir, name);
  return path;
}

/* The file of that name, with these bytes. */
static const char *place_put(const char *name, const void *bytes, size_t n) {
  const char *path = place_path(name);
  FILE *f = fopen(path, "wb");
  if (!f || (n && fwrite(bytes, 1, n, f) != n) || fclose(f) != 0) abort();
  return path;
}

#endif
