/* SPDX-License-Identifier: MIT */
/* Results of a long computation, kept in a file, so that the computation finds them when it is repeated after
 * a kill.
 *
 * A computation that gives the same result each time is resumed by repeating it, if what took long is looked
 * up instead of computed. An entry is a key, the fingerprint of all that the result depends on, and the bytes
 * of the result. What is not found is computed: whatever the file lacks costs time and changes nothing.
 *
 * Evaluations  of the model are entries by themselves (model/evaluator.c). They serve all work that knows nothing of this.
 * Stretches    are work whose whole state is named by one function (atvi_state_fn): training, chains. Its key is the state at the
 *              beginning. It is marked now and then, and continues from its last mark. A mark replaces the evaluations
 *              since the one before, so that the file stays small.
 * File         written as a whole, at most every every_s seconds, and when the context asks to stop. A kill at any
 *              moment leaves the last complete one. A file that cannot be written is reported once, and changes nothing else. There is
 *              no lock, which would outlive a node that died: two processes with one file do the same work, no more. */
#ifndef ATVI_IO_MEMO_H
#define ATVI_IO_MEMO_H

#include "core/core.h"

typedef struct atvi_memo
    atvi_memo; /* functions that take one accept NULL: nothing is kept, nothing is found */

/* Reads the file if there is one. Errors: EDATA (damaged, or written by a program that is not this one), EIO,
 * ENOMEM. */
ATVI_CHECKED atvi_status atvi_io_memo_open(atvi_ctx *ctx, const char *path, double every_s, atvi_memo **out);
/* What the results in the file depend on, as given to start; NULL: there was no file. */
const char *atvi_io_memo_about(const atvi_memo *m);
/* about is kept; fresh: what the file had is dropped. now: the file is written at once, else when it is due.
 * Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_io_memo_start(atvi_memo *m, const char *about, bool fresh, bool now);
/* Seconds of the runs before this one. */
double atvi_io_memo_seconds(const atvi_memo *m);
/* done: the file is removed; else it is written a last time. */
void atvi_io_memo_close(atvi_memo *m, bool done);

/* ---- entries ---- */

typedef struct {
  uint64_t word[2];
} atvi_memo_key;

/* The key of n bytes after those of key; begin with zeros. */
atvi_memo_key atvi_io_memo_key(atvi_memo_key key, const void *bytes, size_t n);
/* Whether evaluations are looked for and kept at present: not inside a lean stretch. */
bool atvi_io_memo_wants(const atvi_memo *m);
/* Copies the n bytes of an entry; false: there is none of that size. May be called from any thread. */
bool atvi_io_memo_get(const atvi_memo *m, atvi_memo_key key, void *bytes, size_t n);
/* May be called from any thread; caller: this is the thread that calls everything else, which may write the
 * file. */
void atvi_io_memo_put(atvi_memo *m, bool caller, atvi_memo_key key, const void *bytes, size_t n);

/* ---- stretches ---- */

typedef struct atvi_state atvi_state;
/* Names every part of a state, with atvi_io_state; the same parts whether they are saved or restored. */
typedef void atvi_state_fn(void *self, atvi_state *s);
void atvi_io_state(atvi_state *s, void *part, size_t bytes);
#define ATVI_STATE(s, x) atvi_io_state((s), &(x), sizeof(x))
/* The stretch has ended: what only its inside needs can be left out. */
bool atvi_io_state_ended(const atvi_state *s);

typedef struct {
  const char *name;
  atvi_state_fn *fn;
  void *self;
  /* Evaluations inside are not kept, and a mark is taken only when the file is due: the state is large, and
   * marks are frequent. */
  bool lean;
} atvi_stretch;

/* Begins a stretch with the present state. If the file has it, the state becomes that of its last mark or of
 * its end. True: of its end, and there is nothing to do, not even to end it. A stretch that begins inside
 * another is part of that one. */
bool atvi_io_stretch_begin(atvi_memo *m, const atvi_stretch *s);
/* The present state of the stretch of self is one to continue from; nothing happens if it is part of another. */
void atvi_io_stretch_mark(atvi_memo *m, const void *self);
/* complete: the present state is the end of the stretch; else its last mark stays, for a repetition. */
void atvi_io_stretch_end(atvi_memo *m, bool complete);

/* A state beside the computation, which is part of the file from now on, as it is whenever the file is
 * written. It becomes what the file has at once; false: it has none, and the state may be spoiled. */
bool atvi_io_memo_attach(atvi_memo *m, atvi_state_fn *fn, void *self);

#endif
