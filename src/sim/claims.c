/* SPDX-License-Identifier: MIT */
#define _DEFAULT_SOURCE /* d_type, readlink */
#include "sim/claims.h"
#include "io/file.h"
#include "sim/detail.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const double LEASE_S = 90;   /* long enough for a file server that hangs for a minute */
static const double RENEW_PART = 6; /* renewals per lease */
enum { TEXT = 4096, NAME = 160, LATE_TRIES = 200 };
static const struct timespec LATE = {.tv_nsec = 50000000}; /* between looks for a file that must be there */

static const char *const LOST[] = {"", "site", "time", "worker"};

/* ---- small files ---- */

/* Reads at most TEXT - 1 bytes; false: there is no such file. Opening makes NFS ask the server. */
static bool read_small(const char *path, char text[TEXT], struct stat *st) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  ssize_t got = read(fd, text, TEXT - 1);
  bool ok = fstat(fd, st) == 0;
  close(fd);
  text[got > 0 ? got : 0] = 0;
  return ok;
}

static bool write_small(const char *path, const char *text, int flags) {
  int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0666);
  if (fd < 0) return false;
  size_t n = strlen(text);
  bool ok = write(fd, text, n) == (ssize_t)n;
  return close(fd) == 0 && ok;
}

static double seconds_of(struct timespec t) { return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec; }

/* Words as they can be part of JSON and of a line. */
static void plain(char *to, size_t n, const char *from) {
  size_t k = 0;
  for (; *from && k + 1 < n; from++)
    to[k++] = (unsigned char)*from < 32 || (unsigned char)*from > 126 || *from == '"' || *from == '\\'
                  ? '?'
                  : *from;
  to[k] = 0;
}

static const char *word_of(atvi_pool *pool, const json_t *o, const char *key) {
  const char *s = json_string_value(json_object_get(o, key));
  return atvi_pool_strndup(pool, s ? s : "", s ? strlen(s) : 0);
}

/* Processes with the same one see each other's numbers. */
static void process_space(char out[NAME]) {
  char boot[64] = "", space[64] = "";
  FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
  if (f && !fgets(boot, sizeof boot, f)) boot[0] = 0;
  if (f) fclose(f);
  boot[strcspn(boot, "\n")] = 0;
  ssize_t n = readlink("/proc/self/ns/pid", space, sizeof space - 1);
  space[n > 0 ? n : 0] = 0;
  snprintf(out, NAME, "%s %s", boot, space);
  if (!boot[0] || !space[0]) out[0] = 0;
}

/* ---- what the files say ---- */

typedef struct {
  int64_t first, last;
  bool read;
  /* NULL: unknown; the claim then counts until it is as old as a lease. */
  const atvi_claims_worker *worker;
  double age_s;
} range;

/* A file about a single item. */
typedef struct {
  int64_t item;
  int claim;
  atvi_lost why;
} single;

struct atvi_claims_view {
  atvi_pool *pool;
  const char *dir;
  /* Of the file server. */
  double now_s;
  char space[NAME];
  atvi_claims_worker *worker; /* [n_worker] by name */
  atvi_idx n_worker, cap_worker;
  range *range; /* [n_range] by first */
  atvi_idx n_range, cap_range;
  single *single; /* [n_single] by item, claim, claims before losses */
  atvi_idx n_single, cap_single;
  atvi_claims_loss *loss;
  atvi_idx n_loss;
};

/* The time of the file server: that of a file that we have just touched. */
static double server_now(const char *dir) {
  char path[4200];
  struct stat st;
  snprintf(path, sizeof path, "%s/workers/.now-%ld", dir, (long)getpid());
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  bool ok = fd >= 0 && write(fd, "\n", 1) == 1 && fsync(fd) == 0 && fstat(fd, &st) == 0;
  if (fd >= 0) close(fd);
  unlink(path);
  return ok ? seconds_of(st.st_mtim) : (double)time(NULL);
}

/* False: there is no such worker, or no memory. */
static bool read_lease(const atvi_claims_view *v, const char *name, atvi_claims_worker *w) {
  char path[4200], text[TEXT];
  struct stat st;
  snprintf(path, sizeof path, "%s/workers/%s", v->dir, name);
  if (!read_small(path, text, &st)) return false;
  char *second = strchr(text, '\n');
  json_t *o = json_loads(text, JSON_DISABLE_EOF_CHECK, NULL);
  json_t *end = second && second[1] ? json_loads(second + 1, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
  double lease = json_number_value(json_object_get(o, "lease"));
  pid_t pid = (pid_t)json_integer_value(json_object_get(o, "pid"));
  const char *space = json_string_value(json_object_get(o, "space"));
  *w = (atvi_claims_worker){.name = atvi_pool_strndup(v->pool, name, strlen(name)),
                            .host = word_of(v->pool, o, "host"),
                            .job = word_of(v->pool, o, "job"),
                            .jobs = (int)json_integer_value(json_object_get(o, "jobs")),
                            .ended = end ? word_of(v->pool, end, "ended") : NULL,
                            .age_s = v->now_s - strtod(name, NULL),
                            .quiet_s = v->now_s - seconds_of(st.st_mtim)};
  bool gone =
      pid > 0 && v->space[0] && space && strcmp(space, v->space) == 0 && kill(pid, 0) != 0 && errno == ESRCH;
  w->alive = !end && !gone && w->quiet_s <= (lease > 0 ? lease : LEASE_S);
  json_decref(o);
  json_decref(end);
  return !atvi_pool_failed(v->pool);
}

static atvi_status read_worker(atvi_claims_view *v, const char *name) {
  atvi_claims_worker w;
  if (!read_lease(v, name, &w)) return atvi_pool_status(v->pool); /* removed meanwhile */
  if (!ATVI_PUSH(v->pool, v->worker, v->n_worker, v->cap_worker)) return ATVI_ENOMEM;
  v->worker[v->n_worker++] = w;
  return ATVI_OK;
}

/* FIRST, ITEM.K or ITEM.K.WHY. */
static atvi_status read_name(atvi_claims_view *v, const char *name) {
  char *end;
  int64_t item = strtoll(name, &end, 10);
  if (item < 1 || item > ATVI_SIM_ID_MAX) return ATVI_OK;
  if (!*end) {
    if (!ATVI_PUSH(v->pool, v->range, v->n_range, v->cap_range)) return ATVI_ENOMEM;
    v->range[v->n_range++] = (range){.first = item, .last = item};
    return ATVI_OK;
  }
  if (*end != '.') return ATVI_OK;
  long claim = strtol(end + 1, &end, 10);
  int why = 0;
  if (*end == '.')
    for (why = ATVI_LOST_WORKER; why > 0 && strcmp(end + 1, LOST[why]) != 0;) why--;
  if ((*end && !why) || claim < 0 || claim > 1000000) return ATVI_OK;
  if (!ATVI_PUSH(v->pool, v->single, v->n_single, v->cap_single)) return ATVI_ENOMEM;
  v->single[v->n_single++] = (single){item, (int)claim, (atvi_lost)why};
  return ATVI_OK;
}

static atvi_status read_folder(atvi_claims_view *v, const char *name,
                               atvi_status (*each)(atvi_claims_view *, const char *)) {
  char path[4200];
  snprintf(path, sizeof path, "%s/%s", v->dir, name);
  DIR *d = opendir(path);
  if (!d) return errno == ENOENT ? ATVI_OK : atvi_io_file_cannot(atvi_pool_ctx(v->pool), "read", path, errno);
  atvi_status status = ATVI_OK;
  for (const struct dirent *e; status == ATVI_OK && (e = readdir(d));)
    if (e->d_name[0] != '.') status = each(v, e->d_name);
  closedir(d);
  return status;
}

static int by_name(const void *a, const void *b) {
  const atvi_claims_worker *x = a, *y = b;
  return strcmp(x->name, y->name);
}
static int by_first(const void *a, const void *b) {
  const range *x = a, *y = b;
  return (x->first > y->first) - (x->first < y->first);
}
static int by_item(const void *a, const void *b) {
  const single *x = a, *y = b;
  if (x->item != y->item) return x->item < y->item ? -1 : 1;
  return x->claim != y->claim ? x->claim - y->claim : (int)x->why - (int)y->why;
}

atvi_status atvi_sim_claims_view(atvi_pool *pool, const char *dir, atvi_claims_view **out) {
  atvi_claims_view *v = *out = atvi_pool_take(pool, 1, sizeof *v);
  if (!v) return ATVI_ENOMEM;
  *v = (atvi_claims_view){.pool = pool, .dir = dir, .now_s = server_now(dir)};
  process_space(v->space);
  ATVI_TRY(read_folder(v, "workers", read_worker));
  ATVI_TRY(read_folder(v, "claims", read_name));
  if (v->n_worker) qsort(v->worker, (size_t)v->n_worker, sizeof *v->worker, by_name);
  if (v->n_range) qsort(v->range, (size_t)v->n_range, sizeof *v->range, by_first);
  if (v->n_single) qsort(v->single, (size_t)v->n_single, sizeof *v->single, by_item);
  return ATVI_OK;
}

atvi_idx atvi_sim_claims_workers(const atvi_claims_view *v, const atvi_claims_worker **list) {
  *list = v->worker;
  return v->n_worker;
}

/* A worker may be missing in a list of the folder that is some seconds old. */
static const atvi_claims_worker *find_worker(const atvi_claims_view *v, const char *name) {
  if (!name || strchr(name, '/')) return NULL;
  const atvi_claims_worker key = {.name = name};
  const atvi_claims_worker *w =
      v->n_worker ? bsearch(&key, v->worker, (size_t)v->n_worker, sizeof *v->worker, by_name) : NULL;
  if (w) return w;
  atvi_claims_worker *late = atvi_pool_take(v->pool, 1, sizeof *late);
  return late && read_lease(v, name, late) ? late : NULL;
}

static void read_claim(const atvi_claims_view *v, const char *name, range *r) {
  char path[4200], text[TEXT];
  struct stat st;
  snprintf(path, sizeof path, "%s/claims/%s", v->dir, name);
  r->read = true;
  if (!read_small(path, text, &st)) return;
  json_t *o = json_loads(text, JSON_DISABLE_EOF_CHECK, NULL);
  int64_t last = (int64_t)json_integer_value(json_object_get(o, "last"));
  if (last > r->last) r->last = last;
  r->worker = find_worker(v, json_string_value(json_object_get(o, "worker")));
  r->age_s = v->now_s - seconds_of(st.st_mtim);
  json_decref(o);
}

/* The last claim of an item: false if there is none. */
typedef struct {
  int claim;
  atvi_lost lost;
  /* NULL: unknown, and not alive */
  const atvi_claims_worker *worker;
  bool over;
  int n_site, n_lost;
  /* Host of the last loss by the site; "": none. */
  const char *lost_on;
} standing;

static const char *loss_host(const atvi_claims_view *v, const single *s, const char **text) {
  char path[4200], bytes[TEXT];
  struct stat st;
  snprintf(path, sizeof path, "%s/claims/%lld.%d.%s", v->dir, (long long)s->item, s->claim, LOST[s->why]);
  json_t *o = read_small(path, bytes, &st) ? json_loads(bytes, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
  const char *host = word_of(v->pool, o, "host");
  if (text) *text = word_of(v->pool, o, "why");
  json_decref(o);
  return host ? host : "";
}

/* Files about an item: index of the first, and their number. */
static atvi_idx singles_of(const atvi_claims_view *v, int64_t item, atvi_idx *from) {
  atvi_idx lo = 0, hi = v->n_single, n = 0;
  while (lo < hi) {
    atvi_idx mid = (lo + hi) / 2;
    if (v->single[mid].item < item)
      lo = mid + 1;
    else
      hi = mid;
  }
  while (lo + n < v->n_single && v->single[lo + n].item == item) n++;
  *from = lo;
  return n;
}

static bool find_standing(atvi_claims_view *v, int64_t item, standing *out) {
  atvi_idx from, n = singles_of(v, item, &from);
  range *in = NULL, one = {.first = item, .last = item};
  *out = (standing){.lost_on = ""};
  for (atvi_idx lo = 0, hi = v->n_range; lo < hi;) {
    atvi_idx mid = (lo + hi) / 2;
    if (v->range[mid].first <= item)
      in = &v->range[mid], lo = mid + 1;
    else
      hi = mid;
  }
  char name[64];
  if (in && !in->read) {
    snprintf(name, sizeof name, "%lld", (long long)in->first);
    read_claim(v, name, in);
  }
  bool claimed = in && in->last >= item;
  for (atvi_idx i = from; i < from + n; i++) {
    const single *s = &v->single[i];
    claimed = true;
    if (s->claim > out->claim) out->claim = s->claim, out->lost = ATVI_LOST_NOT;
    if (s->claim == out->claim && s->why) out->lost = s->why;
    out->n_lost += s->why != ATVI_LOST_NOT;
    out->n_site += s->why == ATVI_LOST_SITE || s->why == ATVI_LOST_TIME;
    if (s->why == ATVI_LOST_SITE) out->lost_on = loss_host(v, s, NULL);
  }
  if (!claimed) return false;
  if (out->claim > 0) {
    snprintf(name, sizeof name, "%lld.%d", (long long)item, out->claim);
    read_claim(v, name, &one);
    in = &one;
  }
  if (in) out->worker = in->worker;
  bool alive = out->worker ? out->worker->alive : in && in->age_s < LEASE_S;
  out->over = out->lost != ATVI_LOST_NOT || !alive;
  return true;
}

const atvi_claims_worker *atvi_sim_claims_holder(atvi_claims_view *v, int64_t item) {
  standing s;
  return find_standing(v, item, &s) && !s.over ? s.worker : NULL;
}

atvi_idx atvi_sim_claims_losses(atvi_claims_view *v, const atvi_claims_loss **list) {
  atvi_idx n = 0;
  for (atvi_idx i = 0; i < v->n_single; i++) n += v->single[i].why != ATVI_LOST_NOT;
  if (!v->loss && (v->loss = atvi_pool_take(v->pool, (size_t)n + 1, sizeof *v->loss)))
    for (atvi_idx i = 0; i < v->n_single; i++) {
      const single *s = &v->single[i];
      if (!s->why) continue;
      atvi_claims_loss *l = &v->loss[v->n_loss++];
      *l = (atvi_claims_loss){.item = s->item, .claim = s->claim, .why = s->why};
      l->host = loss_host(v, s, &l->text);
    }
  *list = v->loss;
  return v->n_loss;
}

void atvi_sim_claims_clear(const char *dir) {
  char path[4200];
  static const char *const name[] = {"workers",
                                     "claims"}; /* leases first: they stop a worker that comes back */
  for (int i = 0; i < 2; i++) {
    snprintf(path, sizeof path, "%s/%s", dir, name[i]);
    atvi_sim_folder_remove(path);
  }
}

/* ---- a worker ---- */

struct atvi_claims {
  atvi_ctx *ctx;
  atvi_pool *pool;
  const char *dir;
  char name[NAME], host[80], lease[4200], temp[4200];
  double lease_s, renewed_s;
  /* Where the next range starts. */
  int64_t next;
  bool no_links;
  /* The thread that renews the lease, and what ends it. */
  bool beats, ending;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t end;
};

static void own_host(const atvi_claims_opts *o, char host[80]) {
  char text[256] = "";
  if (!o->host && gethostname(text, sizeof text - 1) != 0) text[0] = 0;
  snprintf(host, 80, "%.79s", o->host ? o->host : text[0] ? text : "host");
  for (char *p = host; *p; p++)
    if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_", *p)) *p = '-';
}

static atvi_status make_folders(atvi_claims *c) {
  static const char *const name[] = {"workers", "claims"};
  char path[4200];
  for (int i = 0; i < 2; i++) {
    snprintf(path, sizeof path, "%s/%s", c->dir, name[i]);
    ATVI_TRY(atvi_io_dir_make(c->ctx, path, false));
  }
  return ATVI_OK;
}

/* Makes a file with its contents; false and errno EEXIST: there is one. Where there are no hard links,
 * exclusive creation does, but the contents come later, or never if the process is killed in between. */
static bool make_whole(atvi_claims *c, const char *path, const char *text) {
  struct stat st;
  if (c->no_links) return write_small(path, text, O_EXCL);
  if (!write_small(c->temp, text, O_TRUNC)) return false;
  bool made = link(c->temp, path) == 0;
  int err = errno;
  /* An answer of a file server that got lost: the second request finds what the first one made. */
  if (!made && err == EEXIST) made = stat(c->temp, &st) == 0 && st.st_nlink == 2;
  unlink(c->temp);
  c->no_links = !made && (err == EPERM || err == EOPNOTSUPP || err == ENOSYS || err == EMLINK);
  errno = err;
  return made;
}

/* The name begins with the time of the file server, so that names sort by start. */
static atvi_status make_lease(atvi_claims *c, const atvi_claims_opts *o) {
  char text[TEXT], space[NAME], job[80];
  process_space(space);
  plain(job, sizeof job, o->job ? o->job : "");
  snprintf(text, sizeof text,
           "{\"host\":\"%s\",\"pid\":%ld,\"space\":\"%s\",\"job\":\"%s\",\"jobs\":%d,\"lease\":%g}\n",
           c->host, (long)getpid(), space, job, o->jobs > 0 ? o->jobs : 1, c->lease_s);
  double now = server_now(c->dir);
  for (int k = 0; k < 100; k++) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    snprintf(c->name, sizeof c->name, "%010lld-%s-%ld-%03lx", (long long)now, c->host, (long)getpid(),
             ((unsigned long)t.tv_nsec >> 10) & 0xfff);
    snprintf(c->lease, sizeof c->lease, "%s/workers/%s", c->dir, c->name);
    snprintf(c->temp, sizeof c->temp, "%s/claims/.%s", c->dir, c->name);
    c->renewed_s = atvi_clock_s();
    if (make_whole(c, c->lease, text)) return ATVI_OK;
    if (errno != EEXIST && !c->no_links) break; /* without links it is made the other way */
  }
  return atvi_io_file_cannot(c->ctx, "write", c->lease, errno);
}

/* Behind the last range there is; an older list is no harm, because making a claim fails then. */
static atvi_status find_next(atvi_claims *c) {
  atvi_pool *pool;
  atvi_claims_view *v;
  ATVI_TRY(atvi_pool_new(c->ctx, &pool));
  atvi_status status = atvi_sim_claims_view(pool, c->dir, &v);
  c->next = 1;
  if (status == ATVI_OK && v->n_range) {
    char name[64];
    range *r = &v->range[v->n_range - 1];
    snprintf(name, sizeof name, "%lld", (long long)r->first);
    read_claim(v, name, r);
    c->next = r->last + 1;
  }
  atvi_pool_free(pool);
  return status;
}

atvi_status atvi_sim_claims_open(atvi_ctx *ctx, const atvi_claims_opts *opts, atvi_claims **out) {
  atvi_pool *pool;
  *out = NULL;
  ATVI_TRY(atvi_pool_new(ctx, &pool));
  atvi_claims *c = atvi_pool_take(pool, 1, sizeof *c);
  if (c) {
    *c = (atvi_claims){.ctx = ctx, .pool = pool, .lease_s = opts->lease_s > 0 ? opts->lease_s : LEASE_S};
    c->dir = atvi_pool_strndup(pool, opts->dir, strlen(opts->dir));
    own_host(opts, c->host);
  }
  atvi_status status = c && c->dir ? ATVI_OK : ATVI_ENOMEM;
  if (status == ATVI_OK && strlen(c->dir) > 3800)
    status = atvi_io_file_cannot(ctx, "use", c->dir, ENAMETOOLONG);
  if (status == ATVI_OK) status = make_folders(c);
  if (status == ATVI_OK) status = make_lease(c, opts);
  if (status == ATVI_OK && (status = find_next(c)) != ATVI_OK) unlink(c->lease);
  if (status == ATVI_OK)
    *out = c;
  else
    atvi_pool_free(pool);
  return status;
}

static const struct timespec TOUCH[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_NOW}};

static void *beat(void *self) {
  atvi_claims *c = self;
  struct timespec t;
  pthread_mutex_lock(&c->lock);
  while (!c->ending) {
    clock_gettime(CLOCK_REALTIME, &t);
    double wait = c->lease_s / RENEW_PART + 1e-9 * (double)t.tv_nsec;
    t.tv_sec += (time_t)wait;
    t.tv_nsec = (long)(1e9 * (wait - (double)(time_t)wait));
    if (pthread_cond_timedwait(&c->end, &c->lock, &t) == ETIMEDOUT && !c->ending)
      (void)!utimensat(AT_FDCWD, c->lease, TOUCH, 0);
  }
  pthread_mutex_unlock(&c->lock);
  return NULL;
}

atvi_status atvi_sim_claims_beat(atvi_claims *c) {
  sigset_t all, old;
  pthread_mutex_init(&c->lock, NULL);
  pthread_cond_init(&c->end, NULL);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are for the thread that works */
  c->beats = pthread_create(&c->thread, NULL, beat, c) == 0;
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return c->beats ? ATVI_OK : ATVI_FAIL(c->ctx, ATVI_ENOMEM, "cannot start a thread that renews the lease");
}

static void end_beat(atvi_claims *c) {
  if (!c->beats) return;
  pthread_mutex_lock(&c->lock);
  c->ending = true;
  pthread_cond_signal(&c->end);
  pthread_mutex_unlock(&c->lock);
  pthread_join(c->thread, NULL);
}

void atvi_sim_claims_close(atvi_claims *c, const char *why) {
  char text[200], line[256];
  if (!c) return;
  end_beat(c);
  plain(text, sizeof text, why);
  snprintf(line, sizeof line, "{\"ended\":\"%s\"}\n", text);
  int fd = open(c->lease, O_WRONLY | O_APPEND | O_CLOEXEC); /* not made again if somebody removed it */
  if (fd >= 0) {
    ssize_t ignored = write(fd, line, strlen(line));
    (void)ignored;
    close(fd);
  }
  unlink(c->temp);
  atvi_pool_free(c->pool);
}

const char *atvi_sim_claims_name(const atvi_claims *c) { return c->name; }
const char *atvi_sim_claims_host(const atvi_claims *c) { return c->host; }

atvi_status atvi_sim_claims_renew(atvi_claims *c, bool *lapsed) {
  double now = atvi_clock_s();
  *lapsed = now - c->renewed_s > c->lease_s;
  if (now - c->renewed_s < c->lease_s / RENEW_PART) return ATVI_OK;
  if (utimensat(AT_FDCWD, c->lease, TOUCH, 0) != 0)
    return atvi_io_file_cannot(c->ctx, "renew", c->lease, errno);
  c->renewed_s = now;
  return ATVI_OK;
}

/* Makes the claim `name`; false and errno EEXIST: somebody else has. */
static bool make_claim(atvi_claims *c, const char *name, int64_t last) {
  char path[4200], text[TEXT];
  snprintf(path, sizeof path, "%s/claims/%s", c->dir, name);
  snprintf(text, sizeof text, "{\"last\":%lld,\"worker\":\"%s\"}\n", (long long)last, c->name);
  return make_whole(c, path, text);
}

/* The end of a range that somebody else has claimed; it may become visible late. */
static int64_t last_of(const atvi_claims *c, const char *name, int64_t first) {
  char path[4200], text[TEXT];
  struct stat st;
  snprintf(path, sizeof path, "%s/claims/%s", c->dir, name);
  for (int k = 0; k < LATE_TRIES; k++) {
    json_t *o = read_small(path, text, &st) ? json_loads(text, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    int64_t last = (int64_t)json_integer_value(json_object_get(o, "last"));
    json_decref(o);
    if (last >= first) return last;
    nanosleep(&LATE, NULL);
  }
  return 0;
}

atvi_status atvi_sim_claims_next(atvi_claims *c, int64_t n, const bool *todo, atvi_idx want,
                                 atvi_claimed *got, atvi_idx *n_got) {
  *n_got = 0;
  while (!c->no_links) { /* else items are claimed one by one */
    char name[64];
    int64_t last = 0;
    atvi_idx found = 0;
    for (int64_t k = c->next; k <= n && found < want; k++)
      if (todo[k]) got[found++] = (atvi_claimed){.item = last = k};
    if (found == 0) return ATVI_OK;
    snprintf(name, sizeof name, "%lld", (long long)c->next);
    if (make_claim(c, name, last)) {
      c->next = last + 1;
      *n_got = found;
      return ATVI_OK;
    }
    if (c->no_links) break;
    if (errno != EEXIST) return atvi_io_file_cannot(c->ctx, "make a claim in", c->dir, errno);
    if ((last = last_of(c, name, c->next)) == 0)
      return ATVI_FAIL(c->ctx, ATVI_EIO, "%s/claims/%s cannot be read", c->dir, name);
    c->next = last + 1;
  }
  return ATVI_OK;
}

static bool others_elsewhere(const atvi_claims *c, const atvi_claims_view *v) {
  for (atvi_idx i = 0; i < v->n_worker; i++)
    if (v->worker[i].alive && strcmp(v->worker[i].host, c->host) != 0) return true;
  return false;
}

/* Where to start looking, so that workers do not all try the same item. */
static int64_t start_of(const atvi_claims *c, int64_t n) {
  return 1 + (int64_t)(atvi_hash(ATVI_HASH, c->name, strlen(c->name)) % (uint64_t)n);
}

atvi_status atvi_sim_claims_again(atvi_claims *c, atvi_pool *pool, int64_t n, const bool *todo, atvi_idx want,
                                  atvi_claimed *got, atvi_idx *n_got, atvi_idx *held) {
  atvi_claims_view *v;
  *n_got = *held = 0;
  if (n < 1) return ATVI_OK;
  ATVI_TRY(atvi_sim_claims_view(pool, c->dir, &v));
  bool elsewhere = others_elsewhere(c, v);
  int64_t from = start_of(c, n);
  for (int64_t i = 0; i < n && *n_got < want; i++) {
    int64_t item = 1 + (from - 1 + i) % n;
    standing s;
    if (!todo[item]) continue;
    bool known = find_standing(v, item, &s);
    if (known && (!s.over || (elsewhere && strcmp(s.lost_on, c->host) == 0))) {
      *held += !(s.worker && strcmp(s.worker->name, c->name) == 0 && !s.over);
      continue;
    }
    char name[64];
    snprintf(name, sizeof name, "%lld.%d", (long long)item, s.claim + 1);
    if (!make_claim(c, name, item) && (!c->no_links || !make_claim(c, name, item))) {
      if (errno != EEXIST) return atvi_io_file_cannot(c->ctx, "make a claim in", c->dir, errno);
      ++*held;
      continue;
    }
    bool vanished = known && s.worker && !s.worker->ended && !s.lost;
    got[(*n_got)++] = (atvi_claimed){.item = item,
                                     .claim = s.claim + 1,
                                     .after = vanished ? s.worker : NULL,
                                     .n_site = s.n_site,
                                     .n_lost = s.n_lost};
  }
  return ATVI_OK;
}

bool atvi_sim_claims_mine(const atvi_claims *c, const atvi_claimed *x) {
  char path[4200];
  snprintf(path, sizeof path, "%s/claims/%lld.%d", c->dir, (long long)x->item, x->claim + 1);
  return access(path, F_OK) != 0;
}

void atvi_sim_claims_lose(atvi_claims *c, int64_t item, int claim, atvi_lost why, const char *host,
                          const char *text) {
  char path[4200], line[TEXT], words[400];
  plain(words, sizeof words, text);
  snprintf(path, sizeof path, "%s/claims/%lld.%d.%s", c->dir, (long long)item, claim, LOST[why]);
  snprintf(line, sizeof line, "{\"host\":\"%s\",\"worker\":\"%s\",\"why\":\"%s\"}\n", host ? host : c->host,
           c->name, words);
  if (!write_small(path, line, O_EXCL) && errno != EEXIST)
    atvi_log(c->ctx, ATVI_LOG_WARN, "cannot write %s: %s", path, strerror(errno));
}
