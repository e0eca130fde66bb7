/* SPDX-License-Identifier: MIT */
/* Who does which item, decided by files alone, so that processes on many hosts can share a folder.
 *
 *   DIR/workers/NAME      the lease of a worker, whose time it renews; {"host":...}, and a second line once it has ended
 *   DIR/claims/FIRST      items FIRST .. LAST belong to a worker: {"last":LAST,"worker":NAME}
 *   DIR/claims/ITEM.K     the K-th claim of a single item, made when the claim before it is over
 *   DIR/claims/ITEM.K.WHY claim K of an item was lost: WHY is `site`, `time` or `worker`
 *
 * A claim is made with its contents by link(), which fails if the name exists, also on NFS and Lustre. The
 * next range starts behind the last one, so ranges never overlap. A claim is over when its worker has ended,
 * when its lease has expired, or when it was lost. Which items are done is in a record that the caller reads;
 * claims stay as they are.
 *
 * The age of a lease is the difference of two times of the file server, so the clocks of the hosts do not
 * matter. A worker of this host whose process is gone is dead at once. If a worker was suspended for longer
 * than its lease, an item may be done twice: readers of the record must choose. */
#ifndef ATVI_SIM_CLAIMS_H
#define ATVI_SIM_CLAIMS_H

#include "core/core.h"

/* Why a claim was lost. */
typedef enum {
  ATVI_LOST_NOT,
  ATVI_LOST_SITE,   /* killed, or could not be started */
  ATVI_LOST_TIME,   /* the worker had to end first */
  ATVI_LOST_WORKER, /* its worker disappeared */
} atvi_lost;

/* ---- what the files say ---- */

typedef struct {
  const char *name, *host;
  /* Its job in the scheduler; "": none. */
  const char *job;
  /* Items at the same time. */
  int jobs;
  bool alive;
  /* Why it ended; NULL: it did not, or disappeared. */
  const char *ended;
  /* Seconds since its start, and since the last renewal. */
  double age_s, quiet_s;
} atvi_claims_worker;

typedef struct {
  int64_t item;
  int claim;
  atvi_lost why;
  const char *host, *text;
} atvi_claims_loss;

typedef struct atvi_claims_view atvi_claims_view;
/* Reads DIR; a folder without workers is an empty view. Memory from pool. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_sim_claims_view(atvi_pool *pool, const char *dir, atvi_claims_view **out);
atvi_idx atvi_sim_claims_workers(const atvi_claims_view *v, const atvi_claims_worker **list);
atvi_idx atvi_sim_claims_losses(atvi_claims_view *v, const atvi_claims_loss **list);
/* Who holds an item; NULL: nobody, or the claim is over. */
const atvi_claims_worker *atvi_sim_claims_holder(atvi_claims_view *v, int64_t item);

/* Forgets all claims and workers. Only if no worker is alive: one that comes back finds its lease gone, and
 * stops. */
void atvi_sim_claims_clear(const char *dir);

/* ---- a worker ---- */

typedef struct {
  const char *dir;
  /* Job in the scheduler; NULL: none. */
  const char *job;
  int jobs;
  /* Seconds without renewal after which others take its items; 0: 90. */
  double lease_s;
  /* Name of this host; NULL: ask the system. */
  const char *host;
} atvi_claims_opts;

typedef struct atvi_claims atvi_claims;
/* Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_sim_claims_open(atvi_ctx *ctx, const atvi_claims_opts *opts, atvi_claims **out);
/* Ends the lease, which gives back all items that are not done. NULL is fine. */
void atvi_sim_claims_close(atvi_claims *c, const char *why);
/* Unique among all workers; sorts by start. */
const char *atvi_sim_claims_name(const atvi_claims *c);
const char *atvi_sim_claims_host(const atvi_claims *c);
/* To be called often: renews the lease when it is time. *lapsed: others may have taken items since the last
 * call. Errors: EIO (the lease was removed: stop). */
ATVI_CHECKED atvi_status atvi_sim_claims_renew(atvi_claims *c, bool *lapsed);

/* Renews it from a thread of its own until it is closed, for work that calls nobody for minutes. renew is
 * then not to be called. Errors: ENOMEM (no more threads). */
ATVI_CHECKED atvi_status atvi_sim_claims_beat(atvi_claims *c);

/* An item that was claimed. */
typedef struct {
  int64_t item;
  int claim;
  /* How the claim before it ended, if it disappeared with a worker, and which one; NULL otherwise. */
  const atvi_claims_worker *after;
  /* Losses so far: by site or time; all. */
  int n_site, n_lost;
} atvi_claimed;

/* Claims the next range with at most `want` items that are marked in todo[1 .. n]: got[*n_got]; 0: all ranges
 * are taken, or the file system has no hard links. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_sim_claims_next(atvi_claims *c, int64_t n, const bool *todo, atvi_idx want,
                                              atvi_claimed *got, atvi_idx *n_got);
/* The same for items whose claim is over, one by one. Those lost last on this host are left to others if
 * there are any. *held: items of todo that somebody else still holds. Memory of `after` is from pool. */
ATVI_CHECKED atvi_status atvi_sim_claims_again(atvi_claims *c, atvi_pool *pool, int64_t n, const bool *todo,
                                               atvi_idx want, atvi_claimed *got, atvi_idx *n_got,
                                               atvi_idx *held);
/* Whether nobody has claimed the item since. */
bool atvi_sim_claims_mine(const atvi_claims *c, const atvi_claimed *x);
/* Notes that a claim was lost, which gives the item back; host: where (NULL: here). */
void atvi_sim_claims_lose(atvi_claims *c, int64_t item, int claim, atvi_lost why, const char *host,
                          const char *text);

#endif
