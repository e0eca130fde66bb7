/* SPDX-License-Identifier: MIT */
/* The file: a head, the text `about`, entries, and the fingerprint of all of it. Numbers are those of the
 * machine.
 *
 * Known   the entries of the file that was read, which stay as they are, with an open table to find them.
 * Log     entries that were put since, in the order in which they came.
 * Pieces  stretches since, each with the last of its marks. They replace what is known of them. */
#include "io/memo.h"
#include "io/file.h"
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define EVALUATIONS_MOST ((size_t)512 << 20) /* bytes of evaluations; more are not kept, and are repeated */
/* Bytes per second that are written on average, at most: a large file is written less often, so that the fit
 * does not spend its time on it. Any disk takes 5 MB/s; a file of 150 MB is the first to be written less
 * often than every 30 s. */
static const double RATE_MOST = 5e6;
#define SMALL ((size_t)16 << 20) /* bytes of a file that is written as often as asked */
enum { LOG_FIRST = 1 << 16 };    /* bytes of the log at first */

static const char MAGIC[16] = "atvi checkpoint";

typedef struct {
  char magic[16];
  /* differs between byte orders and layouts */
  uint64_t layout;
  uint64_t n_about, n_entries;
  double seconds;
} head;
static const uint64_t LAYOUT = 0x0102030405060701u;

typedef struct {
  atvi_memo_key key;
  /* key of the stretch in which an evaluation was made; zeros: none */
  atvi_memo_key within;
  uint64_t n;
} entry; /* followed by n bytes, and as many as make it a multiple of 8 */

typedef struct {
  /* -1: empty */
  int64_t at;
  bool dead;
} slot;

typedef struct {
  char *bytes;
  size_t n, cap;
} buffer;

typedef struct {
  atvi_memo_key key;
  buffer state;
} piece;

struct atvi_state {
  atvi_memo *memo;
  /* restoring: bytes come from here; else they go there */
  bool restores, ended, failed;
  buffer *to;
  const char *from;
  size_t at, n;
};

struct atvi_memo {
  atvi_ctx *ctx;
  atvi_pool *pool;
  const char *path, *about;
  double every_s, wrote_s, begun_s, before_s;
  /* bytes of entries in the file that was written last */
  size_t n_written;
  /* the file could not be written, which was reported; the request to stop was answered by writing it */
  bool failed, stopped;
  /* of the log, which all threads write */
  pthread_mutex_t lock;
  /* the entries of the file, and where each key is among them */
  struct {
    char *bytes;
    size_t n;
    slot *slot;
    size_t n_slot;
  } known;
  buffer log, entered, scratch;
  struct {
    piece *of;
    atvi_idx n, cap;
  } pieces;
  /* the stretch that is under way */
  struct {
    atvi_stretch stretch;
    /* counts those inside it */
    int depth;
    atvi_memo_key key;
    /* where its evaluations begin in the log */
    size_t log_from;
    /* the state that it began with or continued from, or its last mark */
    const char *last;
    size_t n_last;
    /* what was known of it is dead */
    bool superseded;
  } now;
  /* the state beside the computation; fn NULL: none */
  struct {
    atvi_stretch stretch;
    buffer state;
  } beside;
};

static const atvi_memo_key ASIDE = {{0x6173696465, 0x6173696465}};

static size_t round8(size_t n) { return (n + 7) / 8 * 8; }
static bool same(atvi_memo_key a, atvi_memo_key b) {
  return a.word[0] == b.word[0] && a.word[1] == b.word[1];
}

/* ---- keys ---- */

static void mix(atvi_memo_key *k, uint64_t x) {
  k->word[0] = (k->word[0] ^ x) * 0x9e3779b97f4a7c15u;
  k->word[0] ^= k->word[0] >> 29;
  k->word[1] = (k->word[1] + x + 0x632be59bd9b4e019u) * 0xd6e8feb86659fd93u;
  k->word[1] ^= k->word[1] >> 32;
}

atvi_memo_key atvi_io_memo_key(atvi_memo_key key, const void *bytes, size_t n) {
  const char *at = bytes;
  uint64_t x;
  mix(&key, n);
  for (; n >= sizeof x; n -= sizeof x, at += sizeof x) {
    memcpy(&x, at, sizeof x);
    mix(&key, x);
  }
  x = 0;
  if (n > 0) memcpy(&x, at, n);
  mix(&key, x);
  return key;
}

/* ---- buffers ---- */

/* False: out of memory; the buffer stays as it is. */
static bool reserve(atvi_memo *m, buffer *b, size_t n) {
  if (n <= b->cap) return true;
  size_t cap = n > 2 * b->cap || n > EVALUATIONS_MOST ? n : 2 * b->cap;
  char *more = atvi_block(m->ctx, cap);
  if (!more) return false;
  if (b->n > 0) memcpy(more, b->bytes, b->n);
  atvi_block_free(m->ctx, b->bytes);
  b->bytes = more;
  b->cap = cap;
  return true;
}

static void append(buffer *b, const void *bytes, size_t n) {
  if (n > 0) memcpy(b->bytes + b->n, bytes, n);
  b->n += n;
}

static void append_entry(buffer *b, entry e, const void *bytes) {
  static const char zero[8];
  append(b, &e, sizeof e);
  append(b, bytes, e.n);
  append(b, zero, round8(e.n) - e.n);
}

static entry entry_at(const char *entries, size_t at) {
  entry e;
  memcpy(&e, entries + at, sizeof e);
  return e;
}

static size_t entry_bytes(const entry *e) { return sizeof *e + round8(e->n); }

/* ---- what the file had ---- */

/* The slot of a key, or the empty one where it would be. */
static slot *find(const atvi_memo *m, atvi_memo_key key) {
  for (size_t i = key.word[0] & (m->known.n_slot - 1);; i = (i + 1) & (m->known.n_slot - 1)) {
    slot *s = &m->known.slot[i];
    if (s->at < 0 || same(entry_at(m->known.bytes, (size_t)s->at).key, key)) return s;
  }
}

static bool make_table(atvi_memo *m) {
  size_t n = 0;
  for (size_t at = 0; at < m->known.n; n++) {
    entry e;
    if (m->known.n - at < sizeof e) return false;
    e = entry_at(m->known.bytes, at);
    if (e.n > m->known.n - at - sizeof e || round8(e.n) > m->known.n - at - sizeof e) return false;
    at += entry_bytes(&e);
  }
  for (m->known.n_slot = 16; m->known.n_slot < 2 * n; m->known.n_slot *= 2) {}
  m->known.slot = atvi_pool_take(m->pool, m->known.n_slot, sizeof *m->known.slot);
  for (size_t i = 0; m->known.slot && i < m->known.n_slot; i++) m->known.slot[i].at = -1;
  for (size_t at = 0; m->known.slot && at < m->known.n;) {
    entry e = entry_at(m->known.bytes, at);
    find(m, e.key)->at = (int64_t)at;
    at += entry_bytes(&e);
  }
  return true;
}

static atvi_status damaged(const atvi_memo *m, const char *why) {
  return ATVI_FAIL(m->ctx, ATVI_EDATA, "%s is not a checkpoint that can be used: %s", m->path, why);
}

static atvi_status read_file(atvi_memo *m) {
  char *text;
  size_t n;
  head h;
  uint64_t hash;
  ATVI_TRY(atvi_io_file_read(m->pool, m->path, &text, &n));
  if (n < sizeof h + sizeof hash || memcmp(text, MAGIC, sizeof MAGIC) != 0)
    return damaged(m, "it does not begin like one");
  memcpy(&h, text, sizeof h);
  if (h.layout != LAYOUT)
    return damaged(m, "it was written by another version of atvi, or on another kind of machine");
  memcpy(&hash, text + n - sizeof hash, sizeof hash);
  size_t rest = n - sizeof h - sizeof hash;
  if (h.n_about > rest || round8(h.n_about) > rest || h.n_entries != rest - round8(h.n_about) ||
      hash != atvi_hash(ATVI_HASH, text, n - sizeof hash))
    return damaged(m, "it is incomplete, or was changed");
  m->about = atvi_pool_strndup(m->pool, text + sizeof h, h.n_about);
  m->before_s = h.seconds;
  m->known.bytes = text + sizeof h + round8(h.n_about);
  m->known.n = h.n_entries;
  if (!make_table(m)) return damaged(m, "its entries contradict each other");
  return atvi_pool_status(m->pool);
}

atvi_status atvi_io_memo_open(atvi_ctx *ctx, const char *path, double every_s, atvi_memo **out) {
  *out = NULL;
  atvi_memo *m = atvi_block(ctx, sizeof *m);
  if (!m) return ATVI_ENOMEM;
  m->ctx = ctx;
  m->every_s = every_s;
  m->begun_s = m->wrote_s = atvi_clock_s();
  pthread_mutex_init(&m->lock, NULL);
  m->failed = true; /* until it is started nothing is written */
  atvi_status status = atvi_pool_new(ctx, &m->pool);
  if (status == ATVI_OK && !(m->path = atvi_pool_printf(m->pool, "%s", path))) status = ATVI_ENOMEM;
  if (status == ATVI_OK && access(path, F_OK) == 0) status = read_file(m);
  if (status == ATVI_OK)
    *out = m;
  else
    atvi_io_memo_close(m, false);
  return status;
}

const char *atvi_io_memo_about(const atvi_memo *m) { return m->about; }
double atvi_io_memo_seconds(const atvi_memo *m) { return m ? m->before_s : 0; }

bool atvi_io_memo_wants(const atvi_memo *m) { return m && !(m->now.depth > 0 && m->now.stretch.lean); }

bool atvi_io_memo_get(const atvi_memo *m, atvi_memo_key key, void *bytes, size_t n) {
  if (!m || !m->known.slot) return false;
  const slot *s = find(m, key);
  if (s->at < 0) return false;
  entry e = entry_at(m->known.bytes, (size_t)s->at);
  if (e.n != n) return false;
  memcpy(bytes, m->known.bytes + s->at + sizeof e, n);
  return true;
}

/* ---- states ---- */

void atvi_io_state(atvi_state *s, void *part, size_t bytes) {
  if (s->failed || bytes == 0) return;
  if (s->restores) {
    s->failed = bytes > s->n - s->at;
    if (!s->failed) memcpy(part, s->from + s->at, bytes);
    s->at += bytes;
  } else {
    s->failed = !reserve(s->memo, s->to, s->to->n + bytes);
    if (!s->failed) append(s->to, part, bytes);
  }
}

bool atvi_io_state_ended(const atvi_state *s) { return s->ended; }

/* The present state of x, to *to. */
static bool save(atvi_memo *m, const atvi_stretch *x, bool ended, buffer *to) {
  atvi_state s = {.memo = m, .ended = ended, .to = to};
  uint64_t first = ended;
  to->n = 0;
  ATVI_STATE(&s, first);
  x->fn(x->self, &s);
  return !s.failed;
}

static bool restore(atvi_memo *m, const atvi_stretch *x, const char *bytes, size_t n, bool *ended) {
  uint64_t first = 0;
  atvi_state s = {.memo = m, .restores = true, .from = bytes, .n = n};
  ATVI_STATE(&s, first);
  s.ended = *ended = first != 0;
  x->fn(x->self, &s);
  return !s.failed && s.at == s.n;
}

/* ---- writing ---- */

typedef struct {
  atvi_file *file;
  uint64_t hash;
} output;

static void put(output *o, const void *bytes, size_t n) {
  if (n == 0) return;
  o->hash = atvi_hash(o->hash, bytes, n);
  atvi_io_file_put(o->file, bytes, n);
}

static size_t put_state(output *o, atvi_memo_key key, const buffer *state) {
  static const char zero[8];
  entry e = {.key = key, .n = state->n};
  if (o) {
    put(o, &e, sizeof e);
    put(o, state->bytes, state->n);
    put(o, zero, round8(e.n) - e.n);
  }
  return entry_bytes(&e);
}

/* Entries that are known and still count, those since, and the stretches. Without a file: their size. */
static size_t put_entries(const atvi_memo *m, output *o) {
  size_t n = m->log.n;
  for (size_t at = 0; at < m->known.n;) {
    entry e = entry_at(m->known.bytes, at);
    bool dead = find(m, e.key)->dead;
    if (!dead) n += entry_bytes(&e);
    if (!dead && o) put(o, m->known.bytes + at, entry_bytes(&e));
    at += entry_bytes(&e);
  }
  if (o) put(o, m->log.bytes, m->log.n);
  for (atvi_idx i = 0; i < m->pieces.n; i++) n += put_state(o, m->pieces.of[i].key, &m->pieces.of[i].state);
  return m->beside.stretch.fn ? n + put_state(o, ASIDE, &m->beside.state) : n;
}

static atvi_status write_file(atvi_memo *m, bool wait) {
  static const char zero[8];
  output o = {.hash = ATVI_HASH};
  head h = {.layout = LAYOUT, .n_about = strlen(m->about), .n_entries = put_entries(m, NULL)};
  memcpy(h.magic, MAGIC, sizeof MAGIC);
  m->n_written = h.n_entries;
  h.seconds = m->before_s + atvi_clock_s() - m->begun_s;
  ATVI_TRY(atvi_io_file_new(m->ctx, m->path, &o.file));
  put(&o, &h, sizeof h);
  put(&o, m->about, h.n_about);
  put(&o, zero, round8(h.n_about) - h.n_about);
  put_entries(m, &o);
  uint64_t hash = o.hash;
  atvi_io_file_put(o.file, (const char *)&hash, sizeof hash);
  atvi_status status = wait ? atvi_io_file_commit(o.file) : atvi_io_file_commit_soon(o.file);
  atvi_io_file_free(o.file);
  return status;
}

/* wait: for the disk, if there is work that could be lost. */
static void write_now(atvi_memo *m, bool wait) {
  if (m->failed) return;
  if (m->beside.stretch.fn && !save(m, &m->beside.stretch, false, &m->beside.state)) m->beside.state.n = 0;
  m->failed = write_file(m, wait) != ATVI_OK;
  if (m->failed)
    atvi_log(m->ctx, ATVI_LOG_WARN, "the checkpoint is not kept up to date: %s", atvi_errmsg(m->ctx));
  m->wrote_s = atvi_clock_s();
}

/* On the caller's thread. */
static bool due(atvi_memo *m) {
  if (m->failed) return false;
  bool stop = !m->stopped && atvi_stop_asked(m->ctx);
  m->stopped = m->stopped || stop;
  double rest_s = m->n_written > SMALL ? (double)m->n_written / RATE_MOST : 0;
  return stop || atvi_clock_s() - m->wrote_s > (rest_s > m->every_s ? rest_s : m->every_s);
}

atvi_status atvi_io_memo_start(atvi_memo *m, const char *about, bool fresh, bool now) {
  m->about = atvi_pool_printf(m->pool, "%s", about);
  if (!m->about || !reserve(m, &m->log, LOG_FIRST)) return ATVI_ENOMEM;
  if (fresh) {
    m->known.n = 0;
    m->known.slot = NULL;
    m->before_s = 0;
  }
  m->failed = false;
  m->wrote_s = atvi_clock_s();
  if (now) write_now(m, !fresh);
  return ATVI_OK;
}

void atvi_io_memo_close(atvi_memo *m, bool done) {
  if (!m) return;
  if (done)
    unlink(m->path);
  else
    write_now(m, true);
  for (atvi_idx i = 0; i < m->pieces.n; i++) atvi_block_free(m->ctx, m->pieces.of[i].state.bytes);
  atvi_block_free(m->ctx, m->log.bytes);
  atvi_block_free(m->ctx, m->entered.bytes);
  atvi_block_free(m->ctx, m->scratch.bytes);
  atvi_block_free(m->ctx, m->beside.state.bytes);
  pthread_mutex_destroy(&m->lock);
  atvi_pool_free(m->pool);
  atvi_block_free(m->ctx, m);
}

void atvi_io_memo_put(atvi_memo *m, bool caller, atvi_memo_key key, const void *bytes, size_t n) {
  if (!atvi_io_memo_wants(m)) return;
  entry e = {.key = key, .within = m->now.key, .n = n};
  size_t size = entry_bytes(&e);
  pthread_mutex_lock(&m->lock);
  /* Only the caller's thread may use the context: it makes room in time for the others, whose entries are
   * lost if it does not. */
  bool wanted = !m->failed && m->known.n + m->log.n < EVALUATIONS_MOST;
  size_t room = 2 * (m->log.n + size), most = EVALUATIONS_MOST + 2 * size;
  if (room > most) room = m->log.n + size > most ? m->log.n + size : most;
  if (wanted && caller && room > m->log.cap) (void)reserve(m, &m->log, room);
  if (wanted && m->log.n + size <= m->log.cap) append_entry(&m->log, e, bytes);
  if (caller && due(m)) write_now(m, true);
  pthread_mutex_unlock(&m->lock);
}

bool atvi_io_memo_attach(atvi_memo *m, atvi_state_fn *fn, void *self) {
  bool ended;
  if (!m) return false;
  m->beside.stretch = (atvi_stretch){.fn = fn, .self = self};
  slot *s = m->known.slot ? find(m, ASIDE) : NULL;
  if (!s || s->at < 0) return false;
  entry e = entry_at(m->known.bytes, (size_t)s->at);
  s->dead = true;
  return restore(m, &m->beside.stretch, m->known.bytes + s->at + sizeof e, e.n, &ended);
}

/* ---- stretches ---- */

bool atvi_io_stretch_begin(atvi_memo *m, const atvi_stretch *stretch) {
  bool ended = false, ignored;
  if (!m || m->now.depth++ > 0) return false;
  m->now.stretch = *stretch;
  m->now.log_from = m->log.n;
  m->now.superseded = false;
  if (!save(m, &m->now.stretch, false, &m->entered)) {
    m->failed = true;
    return false;
  }
  m->now.last = m->entered.bytes;
  m->now.n_last = m->entered.n;
  m->now.key = atvi_io_memo_key((atvi_memo_key){{0}}, stretch->name, strlen(stretch->name));
  m->now.key = atvi_io_memo_key(m->now.key, m->entered.bytes, m->entered.n);
  const slot *s = m->known.slot ? find(m, m->now.key) : NULL;
  if (!s || s->at < 0) return false;
  entry e = entry_at(m->known.bytes, (size_t)s->at);
  if (!restore(m, &m->now.stretch, m->known.bytes + s->at + sizeof e, e.n,
               &ended)) { /* it cannot be of this stretch: it begins */
    (void)restore(m, &m->now.stretch, m->entered.bytes, m->entered.n, &ignored);
    return false;
  }
  m->now.last = m->known.bytes + s->at + sizeof e;
  m->now.n_last = e.n;
  if (ended) atvi_io_stretch_end(m, false);
  return ended;
}

/* What was known of the stretch, and the evaluations in it, are replaced by its state. */
static void supersede(atvi_memo *m) {
  m->log.n = m->now.log_from;
  for (size_t at = 0; m->known.slot && !m->now.superseded && at < m->known.n;) {
    entry e = entry_at(m->known.bytes, at);
    if (same(e.key, m->now.key) || same(e.within, m->now.key)) find(m, e.key)->dead = true;
    at += entry_bytes(&e);
  }
  m->now.superseded = true;
}

static void keep(atvi_memo *m, bool ended) {
  piece *p = m->pieces.n > 0 ? &m->pieces.of[m->pieces.n - 1] : NULL;
  if (!save(m, &m->now.stretch, ended, &m->scratch)) return;
  if (m->scratch.n == m->now.n_last && memcmp(m->scratch.bytes, m->now.last, m->now.n_last) == 0) return;
  if (!p || !same(p->key, m->now.key)) {
    if (!ATVI_PUSH(m->pool, m->pieces.of, m->pieces.n, m->pieces.cap)) return;
    p = &m->pieces.of[m->pieces.n++];
    *p = (piece){.key = m->now.key};
  }
  buffer old = p->state;
  p->state = m->scratch;
  m->scratch = old;
  m->now.last = p->state.bytes;
  m->now.n_last = p->state.n;
  supersede(m);
}

void atvi_io_stretch_mark(atvi_memo *m, const void *self) {
  if (!m || m->failed || m->now.depth == 0 || m->now.stretch.self != self) return;
  bool now = due(m);
  if (m->now.stretch.lean && !now) return;
  keep(m, false);
  if (now) write_now(m, true);
}

void atvi_io_stretch_end(atvi_memo *m, bool complete) {
  if (!m || --m->now.depth > 0) return;
  if (complete && !m->failed) keep(m, true);
  m->now.key = (atvi_memo_key){{0}};
}
