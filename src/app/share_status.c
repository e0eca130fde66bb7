/* SPDX-License-Identifier: MIT */
/* What the files of a folder say about its items and workers: nobody is asked, and nothing is changed. */
#include "app/share.h"
#include "io/csv.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HOSTS_MAX = 20, FAILED_MAX = 12, LOST_MAX = 8 }; /* lines that are shown */

typedef struct {
  const char *name;
  atvi_idx workers, running, done;
  atvi_idx lost;
  const char *why; /* of the last loss */
} host;

static void count(const atvi_share_items *it, atvi_claims_view *v, atvi_share_counts *out) {
  const atvi_claims_worker *w;
  *out = (atvi_share_counts){0};
  for (atvi_idx i = 0; i < it->n; i++) {
    out->good += it->state[i] == ATVI_SIM_GOOD;
    out->failed += it->state[i] == ATVI_SIM_FAILED;
    if (it->state[i] == ATVI_SIM_OPEN) out->held += atvi_sim_claims_holder(v, it->id[i]) != NULL;
  }
  out->open = it->n - out->good - out->failed;
  for (atvi_idx i = atvi_sim_claims_workers(v, &w); i-- > 0;) out->workers += w[i].alive;
}

atvi_status atvi_app_share_count(const atvi_share *s, atvi_pool *pool, atvi_share_counts *out) {
  atvi_claims_view *v;
  atvi_share_items it = {0};
  ATVI_TRY(atvi_sim_claims_view(pool, s->claims, &v));
  ATVI_TRY(s->look(s->self, pool, &it));
  count(&it, v, out);
  return ATVI_OK;
}

/* Until all are done; NaN: not known. */
static double seconds_left(const atvi_share_items *it, const atvi_claims_view *v, atvi_idx open) {
  const atvi_claims_worker *w;
  atvi_idx slots = 0;
  for (atvi_idx i = atvi_sim_claims_workers(v, &w); i-- > 0;) slots += w[i].alive ? w[i].jobs : 0;
  return it->n_timed && slots ? it->seconds / (double)it->n_timed * (double)open / (double)slots : NAN;
}

static int by_host(const void *a, const void *b) {
  const host *x = a, *y = b;
  return strcmp(x->name, y->name);
}

static host *host_of(host *list, atvi_idx n, const char *name) {
  return n ? bsearch(&(host){.name = name}, list, (size_t)n, sizeof *list, by_host) : NULL;
}

/* Hosts of workers and losses, each once. */
static atvi_idx list_hosts(const atvi_share *s, atvi_claims_view *v, host **out) {
  const atvi_claims_worker *w;
  const atvi_claims_loss *l;
  atvi_idx n_worker = atvi_sim_claims_workers(v, &w), n_loss = atvi_sim_claims_losses(v, &l), n = 0, m = 0;
  host *all = *out = atvi_pool_take(s->pool, (size_t)(n_worker + n_loss) + 1, sizeof *all);
  if (!all) return 0;
  for (atvi_idx i = 0; i < n_worker; i++) all[n++].name = w[i].host;
  for (atvi_idx i = 0; i < n_loss; i++) all[n++].name = l[i].host;
  if (n) qsort(all, (size_t)n, sizeof *all, by_host);
  for (atvi_idx i = 0; i < n; i++)
    if (i == 0 || strcmp(all[i].name, all[m - 1].name) != 0) all[m++] = all[i];
  return m;
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static atvi_idx count_hosts(const atvi_share *s, const atvi_share_items *it, atvi_claims_view *v,
                            host **out) {
  const atvi_claims_worker *w;
  const atvi_claims_loss *l;
  atvi_idx n = list_hosts(s, v, out), n_worker = atvi_sim_claims_workers(v, &w),
           n_loss = atvi_sim_claims_losses(v, &l);
  for (atvi_idx i = 0; i < n_worker; i++) {
    host *h = host_of(*out, n, w[i].host);
    const char *const *p =
        it->n_part ? bsearch(&w[i].name, it->part, (size_t)it->n_part, sizeof *p, by_text) : NULL;
    if (!h) continue;
    if (p) h->done += it->part_done[p - it->part];
    h->workers += w[i].alive;
  }
  for (atvi_idx i = 0; i < it->n; i++) {
    if (it->state[i] != ATVI_SIM_OPEN) continue;
    const atvi_claims_worker *who = atvi_sim_claims_holder(v, it->id[i]);
    host *h = who ? host_of(*out, n, who->host) : NULL;
    if (h) h->running++;
  }
  for (atvi_idx i = 0; i < n_loss; i++) {
    host *h = host_of(*out, n, l[i].host);
    if (h) h->lost++, h->why = l[i].text;
  }
  return n;
}

static void add_hosts(atvi_text *t, const char *item, const host *h, atvi_idx n) {
  atvi_idx shown = 0, alive = 0;
  for (atvi_idx i = 0; i < n; i++) {
    if (h[i].workers == 0) continue;
    if (shown++ == 0) atvi_io_text_add(t, "\n%-24s %8s %8s %8s\n", "host", "workers", "claimed", "done");
    alive++;
    if (shown <= HOSTS_MAX)
      atvi_io_text_add(t, "%-24s %8td %8td %8td\n", h[i].name, h[i].workers, h[i].running, h[i].done);
  }
  if (alive > HOSTS_MAX) atvi_io_text_add(t, "and %td more hosts\n", alive - HOSTS_MAX);
  shown = 0;
  for (atvi_idx i = 0; i < n; i++) {
    if (h[i].lost == 0 || ++shown > LOST_MAX) continue;
    if (shown == 1) atvi_io_text_add(t, "\n%ss that were lost, and are done again:\n", item);
    atvi_io_text_add(t, "  %td on %s; the last: %s\n", h[i].lost, h[i].name,
                     h[i].why && h[i].why[0] ? h[i].why : "?");
  }
}

static void add_failed(atvi_text *t, const atvi_share *s, const atvi_share_items *it, atvi_idx failed) {
  atvi_idx shown = 0;
  if (failed) atvi_io_text_add(t, "\nfailed %ss:\n", s->item);
  for (atvi_idx i = 0; i < it->n && shown < FAILED_MAX; i++) {
    if (it->state[i] != ATVI_SIM_FAILED) continue;
    const char *name = it->label ? it->label(s->self, s->pool, i)
                                 : atvi_pool_printf(s->pool, "%s %lld", s->item, (long long)it->id[i]);
    atvi_io_text_add(t, "  %s: %s\n", name ? name : "?", atvi_app_share_words(s->pool, it->reason[i]));
    shown++;
  }
  if (shown < failed) atvi_io_text_add(t, "  and %td more, in the record\n", failed - shown);
}

atvi_status atvi_app_share_status(const atvi_share *s, const char **text, atvi_share_counts *c) {
  atvi_claims_view *v;
  atvi_share_items it = {0};
  atvi_text t = {.pool = s->pool};
  host *h;
  ATVI_TRY(atvi_sim_claims_view(s->pool, s->claims, &v));
  ATVI_TRY(s->look(s->self, s->pool, &it));
  count(&it, v, c);
  atvi_io_text_add(&t, "%td of %td %ss are good", c->good, it.n, s->item);
  if (c->failed) atvi_io_text_add(&t, ", %td failed", c->failed);
  if (c->open) atvi_io_text_add(&t, ", %td not done yet", c->open);
  atvi_io_text_add(&t, "\n");
  double left_s = seconds_left(&it, v, c->open);
  if (c->workers)
    atvi_io_text_add(&t, "%td worker%s running, %td %ss claimed", c->workers,
                     c->workers == 1 ? " is" : "s are", c->held, s->item);
  else if (c->open)
    atvi_io_text_add(&t, "no worker is running\n");
  if (c->workers && c->open && !isnan(left_s)) {
    char left[ATVI_DURATION_BYTES];
    atvi_io_format_duration(left, left_s, false);
    atvi_io_text_add(&t, ", about %s left", left);
  }
  if (c->workers) atvi_io_text_add(&t, "\n");
  atvi_idx n = count_hosts(s, &it, v, &h);
  if (h) add_hosts(&t, s->item, h, n);
  add_failed(&t, s, &it, c->failed);
  return atvi_io_text_get(&t, text);
}

const char *atvi_app_share_words(atvi_pool *pool, const char *reason) {
  enum { MOST = 160 };
  const char *r = reason && reason[0] ? reason : "?";
  char *text = atvi_pool_printf(pool, "%.*s%s", MOST, r, strlen(r) > MOST ? " ..." : "");
  if (text) atvi_io_excerpt_clean(text);
  return text ? text : "?";
}
