/* SPDX-License-Identifier: MIT */
/* The cache of compiled code: a directory of ours, mode 0700, of entries <key>.so. */
#ifndef ATVI_GRAPH_CACHE_H
#define ATVI_GRAPH_CACHE_H

#include "graph/internal.h"

enum { ATVI_KEY_HEX = 64 };

/* The directory, made if need be and checked to be ours alone; NULL, and why, if it may not be used.
 * dir NULL: $XDG_CACHE_HOME/atvi or $HOME/.cache/atvi. */
const char *atvi_cache_dir(atvi_pool *pool, const char *dir, char *why, size_t room);
/* A fresh private folder in dir (NULL: the system's place for temporary files) or NULL. */
const char *atvi_cache_temp(atvi_pool *pool, const char *dir);
/* Removes a folder made by atvi_cache_temp and what it holds. */
void atvi_cache_temp_remove(const char *folder);
/* Removes folders that runs killed a day or more ago left in dir. */
void atvi_cache_tidy(atvi_pool *pool, const char *dir);

/* Appends the seal to a file: what makes it an undamaged entry for this key. */
bool atvi_cache_seal(atvi_pool *pool, const char *path, const char *key);
/* The sealed file, loaded; NULL if it is absent, damaged, not ours or does not load (why, unless absent). */
void *atvi_cache_load(atvi_pool *pool, const char *path, const char *key, char *why, size_t room);

#endif
