/* SPDX-License-Identifier: MIT */
/* Files: whole-file reading, writing that either happens completely or not at all, folders of runs.
 *
 * A file being written has a temporary name in its folder and gets its own name only when every byte is on
 * the disk, so neither a full disk nor a killed run can damage what was there before. A path that exists and
 * is not an ordinary file (a terminal, a pipe, /dev/null) is written directly. */
#ifndef ATVI_IO_FILE_H
#define ATVI_IO_FILE_H

#include "core/core.h"

/* The last name in path without its extension: "cold" of "a/cold.atvi"; a leading dot does not begin an
 * extension. Memory from pool; NULL: out of memory. */
char *atvi_io_path_stem(atvi_pool *pool, const char *path);

/* The path from one folder to another, without the links in between. Memory from pool; NULL: one does not
 * exist, or out of memory. */
const char *atvi_io_path_between(atvi_pool *pool, const char *from, const char *to);

/* EIO, with "cannot <what> <path>: <reason of errno err>"; errno is err afterwards. */
atvi_status atvi_io_file_cannot(atvi_ctx *ctx, const char *what, const char *path, int err);

/* The whole file, with a NUL after its *n bytes; memory from pool. Errors: EIO (message has path and reason;
 * devices, and pipes of more than 1 GB, are refused, because they may never end), ENOMEM. */
ATVI_CHECKED atvi_status atvi_io_file_read(atvi_pool *pool, const char *path, char **text, size_t *n);
/* The same for a file that should have at most `most` bytes: the first most + 1 of a longer one. */
ATVI_CHECKED atvi_status atvi_io_file_read_most(atvi_pool *pool, const char *path, size_t most, char **text,
                                                size_t *n);

/* A file being written. new opens it; put and printf never fail but remember the first error; commit makes
 * everything durable and puts the file in its place, or reports what went wrong and keeps the old file; free
 * discards a file that was not committed. free is also needed after commit. Errors of new and commit: EIO
 * (path and reason: disk full, no permission, ...), ENOMEM. */
typedef struct atvi_file atvi_file;
ATVI_CHECKED atvi_status atvi_io_file_new(atvi_ctx *ctx, const char *path, atvi_file **out);
/* Removes from the folder the half-written files of processes of this host that were killed; new does so with
 * those of its own path. */
void atvi_io_file_sweep(const char *folder);
void atvi_io_file_put(atvi_file *f, const char *bytes, size_t n);
void atvi_io_file_printf(atvi_file *f, const char *fmt, ...) ATVI_PRINTF(2, 3);
/* before, and x with as many digits as it needs (atvi_io_format_number). */
void atvi_io_file_number(atvi_file *f, const char *before, double x);
void atvi_io_file_put_line(atvi_file *f,
                           const char *s); /* words on one line, whatever they contain; NULL: none */
void atvi_io_file_put_name(atvi_file *f, const char *s); /* a comma and a field of CSV, quoted if necessary */
ATVI_CHECKED atvi_status atvi_io_file_commit(atvi_file *f);
/* The same without waiting for the disk, so that a power cut may leave an empty file: for what can be made
 * again, and for files of a folder that atvi_io_dir_sync follows. */
ATVI_CHECKED atvi_status atvi_io_file_commit_soon(atvi_file *f);
void atvi_io_file_free(atvi_file *f); /* NULL is fine */

/* All of the above in one call. */
ATVI_CHECKED atvi_status atvi_io_file_save(atvi_ctx *ctx, const char *path, const char *text, size_t n);

/* The same to DIR/name. */
ATVI_CHECKED atvi_status atvi_io_file_save_in(atvi_pool *pool, const char *dir, const char *name,
                                              const char *text);

/* The same with commit_soon. */
ATVI_CHECKED atvi_status atvi_io_file_save_soon(atvi_pool *pool, const char *dir, const char *name,
                                                const char *text);

/* Waits until the files of a folder, but not of those in it, are on the disk under their names. Errors: EIO. */
ATVI_CHECKED atvi_status atvi_io_dir_sync(atvi_ctx *ctx, const char *path);

/* Makes a folder and the ones above it. fresh: it must not exist yet. Errors: EEXIST (fresh, and something
 * has that name), EIO (including: a file is in the way), ENOMEM. */
ATVI_CHECKED atvi_status atvi_io_dir_make(atvi_ctx *ctx, const char *path, bool fresh);

/* Makes the folder <base>-NNN, where NNN is one more than the highest existing one (first: 001), safely even
 * if others do the same. base may contain folders, which must exist. *path from pool. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_io_rundir_new(atvi_ctx *ctx, atvi_pool *pool, const char *base, char **path);
/* The folder <base>-NNN with the highest number that contains a file of that name, which killed runs lack.
 * Errors: EIO (none, or the folder cannot be read), ENOMEM. */
ATVI_CHECKED atvi_status atvi_io_rundir_latest(atvi_ctx *ctx, atvi_pool *pool, const char *base,
                                               const char *holding, char **path);

/* An append-only file of lines: the results so far of a long computation. A line is on the disk before add
 * returns, so a kill at any moment loses at most the line being written; an incomplete line is cut off when
 * the file is opened next. */

typedef struct {
  atvi_ctx *ctx;
  /* Borrowed. */
  const char *path;
  /* May be read from; -1: closed. */
  int fd;
  /* All of it complete lines. */
  int64_t size;
  /* Bytes known to be on the disk. */
  int64_t synced;
  /* Lock file, if the file system has no locks; "": none. */
  char lock[4096];
} atvi_journal;

/* What becomes of a last line without its line end. */
typedef enum {
  ATVI_JOURNAL_CUT,  /* an incomplete line: it is cut off */
  ATVI_JOURNAL_KEEP, /* a complete one, to which the line end is added */
  ATVI_JOURNAL_OTHER /* not as we write: EDATA */
} atvi_journal_end;

/* Opens the file, makes it if necessary, locks it until it is closed, and cuts off an incomplete last line.
 * judge, unless NULL, decides about text[n] behind the last line end; first: there is no other line. Errors:
 * EEXIST (another process has it), EDATA, EIO; it is then closed. */
ATVI_CHECKED atvi_status atvi_io_journal_open(atvi_ctx *ctx, const char *path,
                                              atvi_journal_end (*judge)(const char *text, size_t n,
                                                                        bool first),
                                              atvi_journal *out);
/* Adds text[n], which ends with a line end, by one call if the system can. On failure, such as a full disk,
 * the file is unchanged. Errors: EIO (also if the file was removed or replaced). */
ATVI_CHECKED atvi_status atvi_io_journal_add(atvi_journal *j, const char *text, size_t n);
/* The two halves of add: put adds, sync forces everything added to the disk. If sync fails, the file has what
 * was forced before. Errors: EIO. */
ATVI_CHECKED atvi_status atvi_io_journal_put(atvi_journal *j, const char *text, size_t n);
ATVI_CHECKED atvi_status atvi_io_journal_sync(atvi_journal *j);
void atvi_io_journal_close(atvi_journal *j); /* may be closed already */
/* Whether a process has it open for writing, as far as can be seen from here. */
bool atvi_io_journal_used(const char *path);

#endif
