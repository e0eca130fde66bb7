/* SPDX-License-Identifier: MIT */
/* A file that is only ever added to, a line at a time: what a long computation has done so far. A line is on the disk before add returns, so that a kill
 * at any moment costs the line under way at most; what is left of one is cut off when the file is opened next. */
#ifndef ATVI_IO_JOURNAL_H
#define ATVI_IO_JOURNAL_H

#include "core/core.h"

typedef struct {
  atvi_ctx *ctx;
  const char *path; /* borrowed */
  int fd;           /* may be read from; -1: closed */
  int64_t size;     /* all of it complete lines */
} atvi_journal;

/* Opens the file, makes it if there is none, keeps others out until it is closed, and cuts off half a line at its end. Errors: EEXIST (another process
 * has it), EIO. It is closed then. */
ATVI_CHECKED atvi_status atvi_journal_open(atvi_ctx *ctx, const char *path, atvi_journal *out);
/* Adds text[n], which ends with a line end, by one call where the system can. On failure, such as a full disk, the file is as it was. Errors: EIO. */
ATVI_CHECKED atvi_status atvi_journal_add(atvi_journal *j, const char *text, size_t n);
void atvi_journal_close(atvi_journal *j); /* closed already is fine */

#endif
