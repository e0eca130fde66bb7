/* SPDX-License-Identifier: MIT */
/* Waiting is by polling with growing pauses: MPI's own waits spin, and rank 0 has a waiting thread for every
 * other rank. One thread at a time is inside MPI.
 *
 * A message from rank 0 is a head and the points, the answer is numbers alone, in the order of rows below. */
#include "mpi/ranks.h"
#include "core/compiler.h"
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A pause is at most this share of what has been waited already, which is how much later an answer is found. */
static const double PAUSE_SHARE = 1.0 / 16;
/* No pauses before this, in seconds: Linux makes each about this long. */
static const double PAUSE_FROM = 5e-5;
/* The longest pause, in seconds. */
static const double PAUSE_MOST = 1e-3;
/* Points at which ranks compare their densities. */
enum { PROBES = ATVI_LANES };
/* A context has no more threads; further ranks are idle. */
enum { MOST_RANKS = 256 };

typedef enum {
  READ, /* read the (next) model */
  END,
  EVAL,
  EVAL_UNIT,
  POINTWISE,
  PREDICT,
  SIMULATE,
  PREDICTIVE,
  LEAVE_ONE_OUT,
} what;

enum {
  LOG_PRIOR = 1,
  LOG_LIK = 2,
  GRAD_PRIOR = 4,
  GRAD_LIK = 8,
  OUTCOME = 16,
  UNIT_PRIOR = 32,
  UNIT_LIK = 64
};

typedef struct {
  int32_t what, target;
  /* Wanted outputs of EVAL and EVAL_UNIT. */
  int32_t wanted;
  int32_t B;
  int64_t unit, first;
  uint64_t seed;
} head;

/* What ranks must agree on before they work together. */
typedef struct {
  int64_t size[6];
  double density[2 * PROBES];
} agreed;

typedef struct {
  int index;
  const atvi_target *base;
  atvi_target target;
  atvi_target_ops ops;
  /* Points of one message. */
  atvi_idx group;
  size_t n_ask, n_answer; /* bytes */
  /* Ranks besides 0: scratch and room for an answer. */
  void *work;
  double *answer;
  atvi_outcome *outcome; /* [group] */
} shared;

/* Scratch of rank 0 for one thread. */
typedef struct {
  shared *s;
  void *base;
  /* 0: evaluate here. */
  int rank;
  char *ask;
  double *answer;
} seat;

static struct {
  int rank, n;
  char (*host)[MPI_MAX_PROCESSOR_NAME]; /* [n], on rank 0 */
  pthread_mutex_t lock;
  pid_t parent;
  int terminal;
  bool ended;
  int n_shared;
  shared shared[ATVI_MPI_TARGETS];
  /* Ranks that have a seat. */
  bool taken[ATVI_MPI_TARGETS][MOST_RANKS];
} all = {.lock = PTHREAD_MUTEX_INITIALIZER, .terminal = STDERR_FILENO};

/* ---- messages ---- */

static double clock_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static _Noreturn void give_up(int rank, const char *why) {
  const char *host = all.host ? all.host[rank] : "";
  dprintf(all.terminal, "rank %d%s%s: %s\n", rank, *host ? " on " : "", host, why);
  MPI_Abort(MPI_COMM_WORLD, 1);
  _exit(1);
}

static void check(int error, int rank) {
  char why[MPI_MAX_ERROR_STRING];
  int n;
  if (error == MPI_SUCCESS) return;
  if (MPI_Error_string(error, why, &n) != MPI_SUCCESS) strcpy(why, "MPI failed");
  give_up(rank, why);
}

/* Waits for requests to and from a rank. */
static void complete(int n, MPI_Request *request, int rank) {
  double begin = clock_s();
  for (int done = 0;;) {
    pthread_mutex_lock(&all.lock);
    int error = MPI_Testall(n, request, &done, MPI_STATUSES_IGNORE);
    pthread_mutex_unlock(&all.lock);
    check(error, rank);
    if (done) return;
    /* Whoever starts ranks also ends them; this is for one that was itself killed. */
    if (all.rank > 0 && getppid() != all.parent) _exit(1);
    double waited = clock_s() - begin, pause = waited * PAUSE_SHARE;
    if (pause > PAUSE_MOST) pause = PAUSE_MOST;
    if (waited < PAUSE_FROM)
      sched_yield();
    else
      nanosleep(&(struct timespec){.tv_nsec = (long)(1e9 * pause)}, NULL);
  }
}

/* Sends to a rank and, if answer is not NULL, waits for what it says. */
static void exchange(int rank, const void *ask, size_t n_ask, void *answer, size_t n_answer) {
  MPI_Request request[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  pthread_mutex_lock(&all.lock);
  int error = MPI_SUCCESS;
  if (answer) error = MPI_Irecv(answer, (int)n_answer, MPI_BYTE, rank, 0, MPI_COMM_WORLD, &request[0]);
  if (error == MPI_SUCCESS && ask)
    error = MPI_Isend(ask, (int)n_ask, MPI_BYTE, rank, 0, MPI_COMM_WORLD, &request[1]);
  pthread_mutex_unlock(&all.lock);
  check(error, rank);
  complete(2, request, rank);
}

static void say(int rank, what w) { exchange(rank, &(head){.what = w}, sizeof(head), NULL, 0); }

/* ---- rank 0 ---- */

static void copy_in(atvi_idx rows, atvi_idx n, const double *from, atvi_idx stride, double *to) {
  for (atvi_idx j = 0; j < rows; j++) memcpy(to + j * n, from + j * stride, (size_t)n * sizeof *to);
}

/* NULL: not wanted, and not there. Returns the next rows. */
static const double *copy_out(atvi_idx rows, atvi_idx n, const double *from, double *to, atvi_idx stride) {
  if (!to) return from;
  for (atvi_idx j = 0; j < rows; j++) memcpy(to + j * stride, from + j * n, (size_t)n * sizeof *to);
  return from + rows * n;
}

/* A message about points at .. at+n-1 of B; rows and rows_out are those of theta and of the answer. */
static void ask(seat *w, head h, atvi_idx at, atvi_idx B, atvi_idx rows, const double *theta,
                atvi_idx rows_out) {
  h.target = w->s->index;
  memcpy(w->ask, &h, sizeof h);
  copy_in(rows, h.B, theta + at, B, (double *)(w->ask + sizeof h));
  exchange(w->rank, w->ask, sizeof h + (size_t)(rows * h.B) * sizeof(double), w->answer,
           (size_t)(rows_out * h.B) * sizeof(double));
}

static atvi_idx part(const shared *s, atvi_idx B, atvi_idx at) {
  return B - at < s->group ? B - at : s->group;
}

/* d: rows of theta and of the gradients. */
static void eval_there(seat *w, head h, atvi_idx d, const atvi_batch *b) {
  h.wanted = (b->log_prior ? LOG_PRIOR : 0) | (b->log_lik ? LOG_LIK : 0) | (b->grad_prior ? GRAD_PRIOR : 0) |
             (b->grad_lik ? GRAD_LIK : 0) | (b->outcome ? OUTCOME : 0) | (b->unit_prior ? UNIT_PRIOR : 0) |
             (b->unit_lik ? UNIT_LIK : 0);
  atvi_idx units = w->s->base->n_unit;
  atvi_idx rows = (b->log_prior != NULL) + (b->log_lik != NULL) + (b->outcome != NULL) +
                  ((b->grad_prior != NULL) + (b->grad_lik != NULL)) * d +
                  ((b->unit_prior != NULL) + (b->unit_lik != NULL)) * units;
  for (atvi_idx at = 0; at < b->B; at += w->s->group) {
    atvi_idx n = part(w->s, b->B, at);
    h.B = (int32_t)n;
    ask(w, h, at, b->B, d, b->theta, rows);
    const double *from = w->answer;
    from = copy_out(1, n, from, b->log_prior ? b->log_prior + at : NULL, b->B);
    from = copy_out(1, n, from, b->log_lik ? b->log_lik + at : NULL, b->B);
    from = copy_out(d, n, from, b->grad_prior ? b->grad_prior + at : NULL, b->B);
    from = copy_out(d, n, from, b->grad_lik ? b->grad_lik + at : NULL, b->B);
    from = copy_out(units, n, from, b->unit_prior ? b->unit_prior + at : NULL, b->B);
    from = copy_out(units, n, from, b->unit_lik ? b->unit_lik + at : NULL, b->B);
    for (atvi_idx i = 0; b->outcome && i < n; i++) b->outcome[at + i] = (atvi_outcome)from[i];
  }
}

static void eval(const void *self, void *work, const atvi_batch *b) {
  const shared *s = self;
  seat *w = work;
  if (w->rank == 0)
    s->base->ops->eval(s->base->self, w->base, b);
  else
    eval_there(w, (head){.what = EVAL}, s->base->d, b);
}

static void eval_unit(const void *self, void *work, atvi_idx u, const atvi_batch *b) {
  const shared *s = self;
  seat *w = work;
  if (w->rank == 0)
    s->base->ops->eval_unit(s->base->self, w->base, u, b);
  else
    eval_there(w, (head){.what = EVAL_UNIT, .unit = u}, s->base->unit[u].n_on, b);
}

static void rows_there(seat *w, head h, atvi_idx rows, atvi_idx B, const double *theta, double *out) {
  int64_t first = h.first;
  for (atvi_idx at = 0; at < B; at += w->s->group) {
    h.B = (int32_t)part(w->s, B, at);
    h.first = first + at;
    ask(w, h, at, B, w->s->base->d, theta, rows);
    copy_out(rows, h.B, w->answer, out + at, B);
  }
}

static void pointwise(const void *self, void *work, atvi_idx B, const double *theta, double *out) {
  const shared *s = self;
  seat *w = work;
  if (w->rank == 0)
    s->base->ops->pointwise(s->base->self, w->base, B, theta, out);
  else
    rows_there(w, (head){.what = POINTWISE}, s->base->n_obs, B, theta, out);
}

static void predict(const void *self, void *work, atvi_idx B, const double *theta, double *out) {
  const shared *s = self;
  seat *w = work;
  if (w->rank == 0)
    s->base->ops->predict(s->base->self, w->base, B, theta, out);
  else
    rows_there(w, (head){.what = PREDICT}, s->base->n_out, B, theta, out);
}

/* Of the members that draw. */
static void draw(const shared *s, seat *w, what op,
                 void (*here)(const void *, void *, uint64_t, atvi_idx, atvi_idx, const double *, double *),
                 uint64_t seed, atvi_idx first, atvi_idx B, const double *theta, double *out) {
  if (w->rank == 0)
    here(s->base->self, w->base, seed, first, B, theta, out);
  else
    rows_there(w, (head){.what = op, .seed = seed, .first = first}, s->base->n_obs, B, theta, out);
}

static void simulate(const void *self, void *work, uint64_t seed, atvi_idx first, atvi_idx B,
                     const double *theta, double *out) {
  const shared *s = self;
  draw(s, work, SIMULATE, s->base->ops->simulate, seed, first, B, theta, out);
}

static void predictive(const void *self, void *work, uint64_t seed, atvi_idx first, atvi_idx B,
                       const double *theta, double *out) {
  const shared *s = self;
  draw(s, work, PREDICTIVE, s->base->ops->predictive, seed, first, B, theta, out);
}

static void leave_one_out(const void *self, void *work, uint64_t seed, atvi_idx first, atvi_idx B,
                          const double *theta, double *out) {
  const shared *s = self;
  draw(s, work, LEAVE_ONE_OUT, s->base->ops->leave_one_out, seed, first, B, theta, out);
}

/* The other members are called once in a fit, or cost nothing: rank 0 does them by itself. */

static void prior_draw(const void *self, void *work, uint64_t seed, atvi_idx first, atvi_idx B,
                       double *theta) {
  const atvi_target *t = ((const shared *)self)->base;
  t->ops->prior_draw(t->self, ((seat *)work)->base, seed, first, B, theta);
}

static void derived(const void *self, void *work, atvi_idx B, const double *theta, double *out) {
  const atvi_target *t = ((const shared *)self)->base;
  t->ops->derived(t->self, ((seat *)work)->base, B, theta, out);
}

static void tangent(const void *self, void *work, atvi_idx B, const double *theta, const double *direction,
                    double *log_prior, double *log_lik) {
  const atvi_target *t = ((const shared *)self)->base;
  t->ops->tangent(t->self, ((seat *)work)->base, B, theta, direction, log_prior, log_lik);
}

static void eval_exact(const void *self, void *work, const atvi_batch *b) {
  const atvi_target *t = ((const shared *)self)->base;
  t->ops->eval_exact(t->self, ((seat *)work)->base, b);
}

static void eval_branch(const void *self, void *work, atvi_idx k, const atvi_batch *b) {
  const atvi_target *t = ((const shared *)self)->base;
  t->ops->eval_branch(t->self, ((seat *)work)->base, k, b);
}

static void latent(const void *self, void *work, uint64_t seed, atvi_idx first, atvi_idx B,
                   const double *theta, double *out) {
  const atvi_target *t = ((const shared *)self)->base;
  t->ops->latent(t->self, ((seat *)work)->base, seed, first, B, theta, out);
}

static void prior_place(const void *self, void *work, atvi_idx B, const double *theta, double *location,
                        double *scale) {
  const atvi_target *t = ((const shared *)self)->base;
  t->ops->prior_place(t->self, ((seat *)work)->base, B, theta, location, scale);
}

static void prior_place_vjp(const void *self, void *work, atvi_idx B, const double *theta,
                            const double *dlocation, const double *dscale, double *dtheta) {
  const atvi_target *t = ((const shared *)self)->base;
  t->ops->prior_place_vjp(t->self, ((seat *)work)->base, B, theta, dlocation, dscale, dtheta);
}

/* The lowest rank without a seat; 0, too, if all have one. */
static int rank_take(const shared *s) {
  for (int r = 0; r < all.n && r < MOST_RANKS; r++)
    if (!all.taken[s->index][r]) {
      all.taken[s->index][r] = true;
      return r;
    }
  return 0;
}

static void work_free(void *work) {
  seat *w = work;
  if (!w) return;
  const atvi_target *t = w->s->base;
  if (w->base && t->ops->work_free) t->ops->work_free(w->base);
  all.taken[w->s->index][w->rank] = false;
  free(w->ask);
  free(w->answer);
  free(w);
}

static atvi_status work_new(const void *self, atvi_ctx *ctx, void **work) {
  shared *s = &all.shared[((const shared *)self)->index];
  seat *w = calloc(1, sizeof *w);
  atvi_status status = w ? ATVI_OK : ATVI_ENOMEM;
  *work = w;
  if (!w) return status;
  *w = (seat){.s = s, .rank = rank_take(s), .ask = malloc(s->n_ask), .answer = malloc(s->n_answer)};
  if (!w->ask || !w->answer) status = ATVI_ENOMEM;
  if (status == ATVI_OK && s->base->ops->work_new)
    status = s->base->ops->work_new(s->base->self, ctx, &w->base);
  if (status == ATVI_OK) return status;
  w->base = NULL;
  work_free(w);
  *work = NULL;
  return status;
}

static void wrap(shared *s) {
  const atvi_target_ops *o = s->base->ops;
  s->target = *s->base;
  s->ops = (atvi_target_ops){.size = sizeof s->ops,
                             .eval = eval,
                             .work_new = work_new,
                             .work_free = work_free,
                             .prior_draw = o->prior_draw ? prior_draw : NULL,
                             .derived = o->derived ? derived : NULL,
                             .pointwise = o->pointwise ? pointwise : NULL,
                             .predict = o->predict ? predict : NULL,
                             .simulate = o->simulate ? simulate : NULL,
                             .predictive = o->predictive ? predictive : NULL,
                             .tangent = o->tangent ? tangent : NULL,
                             .eval_exact = o->eval_exact ? eval_exact : NULL,
                             .leave_one_out = o->leave_one_out ? leave_one_out : NULL,
                             .eval_branch = o->eval_branch ? eval_branch : NULL,
                             .latent = o->latent ? latent : NULL,
                             .prior_place = o->prior_place ? prior_place : NULL,
                             .prior_place_vjp = o->prior_place_vjp ? prior_place_vjp : NULL,
                             .eval_unit = o->eval_unit ? eval_unit : NULL};
  s->target.ops = &s->ops;
  s->target.self = s;
}

/* ---- other ranks ---- */

/* Lays the wanted outputs out in room; returns where they end. */
static double *outputs(atvi_batch *b, int wanted, atvi_idx d, atvi_idx units, double *room) {
  if (wanted & LOG_PRIOR) b->log_prior = room, room += b->B;
  if (wanted & LOG_LIK) b->log_lik = room, room += b->B;
  if (wanted & GRAD_PRIOR) b->grad_prior = room, room += d * b->B;
  if (wanted & GRAD_LIK) b->grad_lik = room, room += d * b->B;
  if (wanted & UNIT_PRIOR) b->unit_prior = room, room += units * b->B;
  if (wanted & UNIT_LIK) b->unit_lik = room, room += units * b->B;
  return room;
}

/* Returns the number of doubles of the answer. */
static atvi_idx eval_here(shared *s, const head *h, const double *theta, double *answer) {
  const atvi_target *t = s->base;
  atvi_idx d = h->what == EVAL ? t->d : t->unit[h->unit].n_on;
  atvi_batch b = {.B = h->B, .theta = theta};
  double *end = outputs(&b, h->wanted, d, t->n_unit, answer);
  if (h->wanted & OUTCOME) b.outcome = s->outcome;
  for (atvi_idx i = 0; i < b.B; i++) s->outcome[i] = ATVI_RUN_OK;
  memset(answer, 0, (size_t)(end - answer) * sizeof *answer);
  if (h->what == EVAL)
    t->ops->eval(t->self, s->work, &b);
  else
    t->ops->eval_unit(t->self, s->work, h->unit, &b);
  for (atvi_idx i = 0; b.outcome && i < b.B; i++) *end++ = s->outcome[i];
  return end - answer;
}

static atvi_idx answer_to(shared *s, const head *h, const double *theta, double *out) {
  const atvi_target *t = s->base;
  const atvi_target_ops *o = t->ops;
  switch ((what)h->what) {
  case EVAL:
  case EVAL_UNIT: return eval_here(s, h, theta, out);
  case POINTWISE: o->pointwise(t->self, s->work, h->B, theta, out); break;
  case PREDICT: o->predict(t->self, s->work, h->B, theta, out); return t->n_out * h->B;
  case SIMULATE: o->simulate(t->self, s->work, h->seed, h->first, h->B, theta, out); break;
  case PREDICTIVE: o->predictive(t->self, s->work, h->seed, h->first, h->B, theta, out); break;
  case LEAVE_ONE_OUT: o->leave_one_out(t->self, s->work, h->seed, h->first, h->B, theta, out); break;
  case READ:
  case END: return 0;
  }
  return t->n_obs * h->B;
}

static void stop_serving(void) {
  for (int k = 0; k < all.n_shared; k++) {
    shared *s = &all.shared[k];
    if (s->work && s->base->ops->work_free) s->base->ops->work_free(s->work);
    free(s->answer);
    free(s->outcome);
  }
}

/* Until rank 0 has another target or ends. */
static atvi_status serve(void) {
  size_t most = sizeof(head);
  for (int k = 0; k < all.n_shared; k++)
    if (all.shared[k].n_ask > most) most = all.shared[k].n_ask;
  char *ask_room = malloc(most);
  if (!ask_room) return ATVI_ENOMEM;
  for (;;) {
    head h;
    exchange(0, NULL, 0, ask_room, most);
    memcpy(&h, ask_room, sizeof h);
    if (h.what == READ || h.what == END) {
      all.ended = h.what == END;
      free(ask_room);
      if (all.ended) stop_serving();
      return all.ended ? ATVI_ESTOP : ATVI_OK;
    }
    shared *s = &all.shared[h.target];
    atvi_idx n = answer_to(s, &h, (double *)(ask_room + sizeof h), s->answer);
    exchange(0, s->answer, (size_t)n * sizeof(double), NULL, 0);
  }
}

/* ---- both ---- */

static atvi_status probe(const shared *s, void *work, agreed *out) {
  const atvi_target *t = s->base;
  double *theta = calloc((size_t)(t->d * PROBES), sizeof *theta);
  if (!theta) return ATVI_ENOMEM;
  memset(out, 0, sizeof *out);
  const int64_t size[6] = {t->d, t->n_derived, t->n_obs, t->n_out, t->n_unit, s->group};
  memcpy(out->size, size, sizeof size);
  if (t->ops->prior_draw) t->ops->prior_draw(t->self, work, 1, 0, PROBES, theta);
  t->ops->eval(t->self, work,
               &(atvi_batch){
                   .B = PROBES, .theta = theta, .log_prior = out->density, .log_lik = out->density + PROBES});
  free(theta);
  return ATVI_OK;
}

/* The other ranks read the model after rank 0, so that it is compiled once, and mistakes in it are reported
 * once. */
static atvi_status gather(const shared *s, void *work) {
  agreed here, there;
  atvi_status status = probe(s, work, &here);
  for (int r = 1; status == ATVI_OK && r < all.n; r++) say(r, READ);
  for (int r = 1; status == ATVI_OK && r < all.n; r++) {
    exchange(r, NULL, 0, &there, sizeof there);
    if (memcmp(&here, &there, sizeof here) != 0)
      give_up(r, "the density there differs from that of rank 0: it has read other files, or has another "
                 "kind of processor");
  }
  return status;
}

static atvi_status follow(shared *s) {
  agreed here;
  atvi_status status = probe(s, s->work, &here);
  s->answer = malloc(s->n_answer);
  s->outcome = malloc((size_t)s->group * sizeof *s->outcome);
  if (status != ATVI_OK || !s->answer || !s->outcome) return ATVI_ENOMEM;
  signal(SIGINT, SIG_IGN); /* rank 0 decides: results so far are written */
  signal(SIGTERM, SIG_IGN);
  exchange(0, &here, sizeof here, NULL, 0);
  return serve();
}

static atvi_status share(atvi_ctx *ctx, const atvi_target **target) {
  if (all.n_shared == ATVI_MPI_TARGETS) return ATVI_ELIMIT;
  shared *s = &all.shared[all.n_shared];
  const atvi_target *t = *target;
  *s = (shared){.index = all.n_shared, .base = t, .group = t->group > 0 ? t->group : ATVI_LANES};
  atvi_idx rows = 2 * (t->d + t->n_unit) + 3;
  if (t->n_out > rows) rows = t->n_out;
  if (t->n_obs > rows) rows = t->n_obs;
  s->n_ask = sizeof(head) + (size_t)(t->d * s->group) * sizeof(double);
  s->n_answer = (size_t)(rows * s->group) * sizeof(double);
  void *work = NULL;
  atvi_status status = t->ops->work_new ? t->ops->work_new(t->self, ctx, &work) : ATVI_OK;
  if (status != ATVI_OK) return status;
  all.n_shared++;
  s->work = work;
  if (all.rank > 0) return follow(s);
  status = gather(s, work);
  if (t->ops->work_free) t->ops->work_free(work);
  s->work = NULL;
  wrap(s);
  *target = &s->target;
  return status;
}

/* ---- beginning and end ---- */

static uint64_t hash(uint64_t h, const char *text) { /* FNV-1a, with the final zero */
  do h = (h ^ (unsigned char)*text) * 0x100000001b3u;
  while (*text++);
  return h;
}

/* Ranks that were given different commands, or run in different folders, do different fits. */
static bool same_command(int argc, char **argv) {
  char folder[4096];
  uint64_t h = hash(0xcbf29ce484222325u, getcwd(folder, sizeof folder) ? folder : ""), pair[2], most[2];
  for (int i = 0; i < argc; i++) h = hash(h, argv[i]);
  pair[0] = h, pair[1] = ~h;
  MPI_Allreduce(pair, most, 2, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
  return most[0] == ~most[1];
}

/* Nothing that other ranks print is seen, except why they fail. */
static void silence(void) {
  int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  all.terminal = dup(STDERR_FILENO);
  if (nowhere < 0) return;
  dup2(nowhere, STDOUT_FILENO);
  dup2(nowhere, STDERR_FILENO);
  close(nowhere);
}

static atvi_mpi_role begin(int argc, char **argv, int *n) {
  int provided, length;
  char host[MPI_MAX_PROCESSOR_NAME] = "";
  MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &all.rank);
  MPI_Comm_size(MPI_COMM_WORLD, n);
  all.n = *n;
  all.parent = getppid();
  if (all.n == 1 || provided < MPI_THREAD_SERIALIZED || !same_command(argc, argv)) {
    MPI_Finalize();
    return ATVI_MPI_ALONE;
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Get_processor_name(host, &length);
  if (all.rank == 0) all.host = calloc((size_t)all.n, sizeof *all.host);
  MPI_Gather(host, sizeof host, MPI_CHAR, all.host, sizeof host, MPI_CHAR, 0, MPI_COMM_WORLD);
  if (all.rank == 0) return ATVI_MPI_FIRST;
  silence();
  head h;
  exchange(0, NULL, 0, &h, sizeof h);
  if (h.what == READ) return ATVI_MPI_OTHER;
  MPI_Finalize();
  return ATVI_MPI_DONE;
}

static void end(const char *message) {
  if (all.rank > 0 && !all.ended) give_up(all.rank, message);
  for (int r = 1; all.rank == 0 && r < all.n; r++) say(r, END);
  MPI_Finalize();
  free(all.host);
}

const atvi_mpi atvi_mpi_ranks = {ATVI_VERSION, begin, share, end};
