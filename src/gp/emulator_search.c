/* SPDX-License-Identifier: MIT */
/* Maximum likelihood from several starts.
 *
 * The likelihood has local maxima (one explains by a nugget what another explains by a short length) and
 * plateaus (a length far beyond 1). So points of a Sobol net over plausible values are evaluated once,
 * without gradient, and L-BFGS climbs from the best of them. With many runs all of this is done on a subset
 * of them, whose maxima are near those of all runs at a fraction of the cost (n^3). From the best of these it
 * climbs on larger and larger subsets, and at last with all runs, each time with the curvature found before:
 * a few evaluations are then enough.
 *
 * Each start is computed by one thread alone, so results do not depend on the number of threads. */
#include "gp/emulator_detail.h"
#include "math/optim.h"
#include "math/rng.h"
#include "math/sobol.h"
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
  STARTS = 8,      /* default: 24 changed nothing for seven of eight simulators and four kernels */
  CHEAP = 150,     /* number of runs up to which it is doubled */
  SCREEN = 16,     /* points evaluated per start */
  SUBSET = 400,    /* runs of the first subset; the next ones have twice as many each, up to half of all */
  WORTH_IT = 600,  /* number of runs from which a subset is used */
  MAX_EVALS = 150, /* of one climb */
  AGAIN = 2,       /* climbs on later subsets, from different maxima */
  WHOLE_EVALS =
      40, /* iterations of such a climb: it starts near its end, where a smooth simulator has a long flat ridge */
  TRIALS =
      6, /* with many runs, points along one direction: where more fail, the gradient of an ill-conditioned K is rounding error */
  STREAM = 96, /* of random numbers */
};
#define AGREE 1e-6       /* of log likelihood / (n m): rounding error if runs are ill-conditioned */
#define GAIN 1e-9        /* of log likelihood / (n m): with many runs, a step that gains less ends a climb */
#define GAIN_FIRST 1e-10 /* the same on the first subset, where starts must agree */
#define TOL 2e-8 /* of the gradient of log likelihood / (n m): flat to 0.01 for 400 runs of 480 outputs */

/* Where values may lie, and where starts do. */
#define LENGTH_LEAST 1e-3
#define LENGTH_MOST 1e4
#define NUGGET_LEAST 1e-10
#define NUGGET_MOST 1e3
#define START_LENGTH_LEAST 0.15
#define START_LENGTH_MOST 15.0
#define START_NUGGET_LEAST 1e-6
#define START_NUGGET_MOST 1.0

typedef struct {
  double *par;  /* [d + 2] */
  double value; /* minus log likelihood / (n m) */
  double *work; /* of L-BFGS */
} start;

typedef struct {
  atvi_ctx *ctx;
  const atvi_em_lik *lik;
  double sill;        /* held, or NaN */
  const double *held; /* [d + 2] NaN where free */
  atvi_idx n_free, n_par;
  atvi_idx *free_at; /* [n_free] */
  double *lower, *upper;
  start *list;  /* [n_list] */
  double *room; /* [n_slot][n_room] x, g */
  atvi_idx n_list, n_room;
  int n_slot, n_use;         /* as many as can be busy at once, and those with scratch */
  atvi_em_scratch **scratch; /* [n_slot] */
  atomic_bool *busy;         /* [n_slot] */
  atomic_bool stop;
  atomic_int evals;
  atomic_llong spent; /* seconds spent on evaluations so far */
  long long expected; /* expected total, for progress */
  double begun_s;
  bool climb, later; /* after a climb on fewer runs */
  bool many;         /* there are enough runs to use subsets */
} search;

/* One start, as L-BFGS sees it. */
typedef struct {
  search *s;
  int worker, slot;
} climber;

/* Cost of an evaluation, relative to that of a few runs. */
static long long cost_of(atvi_idx n) { return 1 + (long long)(1e-5 * pow((double)n, 3)); }

/* Worker 0 is the calling thread: only it may check for a stop and report progress. */
static bool stopped(search *s, int worker) {
  if (worker == 0 && !atomic_load(&s->stop)) {
    if (atvi_stop_asked(s->ctx)) atomic_store(&s->stop, true);
    double done = (double)atomic_load(&s->spent) / (double)s->expected;
    atvi_tell(s->ctx, "emulator", done < 0.99 ? done : 0.99, atvi_clock_s() - s->begun_s,
              "likelihood of %td runs", s->lik->n);
  }
  return atomic_load(&s->stop);
}

static double objective(void *user, const double *x, double *g) {
  climber *c = user;
  search *s = c->s;
  atvi_idx p = s->n_par;
  if (stopped(s, c->worker)) return NAN;
  double *grad = s->room + c->slot * s->n_room, *par = grad + p + 1, sill = s->sill;
  memcpy(par, s->held, (size_t)p * sizeof *par);
  for (atvi_idx i = 0; i < s->n_free; i++) par[s->free_at[i]] = x[i];
  double f = atvi_gp_em_lik_eval(s->lik, s->scratch[c->slot], par, &sill, g ? grad : NULL);
  double scale = -1 / ((double)s->lik->n * (double)s->lik->m);
  atomic_fetch_add(&s->evals, 1);
  atomic_fetch_add(&s->spent, cost_of(s->lik->n));
  for (atvi_idx i = 0; g && i < s->n_free; i++) g[i] = scale * grad[s->free_at[i]];
  return scale * f;
}

static void run_in_slot(search *s, start *at, int worker, int slot) {
  climber c = {s, worker, slot};
  double *x = s->room + slot * s->n_room + 2 * (s->n_par + 1);
  for (atvi_idx i = 0; i < s->n_free; i++) x[i] = at->par[s->free_at[i]];
  if (!s->climb) {
    at->value = objective(&c, x, NULL);
    return;
  }
  atvi_lbfgs_info info;
  atvi_lbfgs_opts opts = {.f = objective,
                          .user = &c,
                          .lower = s->lower,
                          .upper = s->upper,
                          .max_evals = s->later ? WHOLE_EVALS : MAX_EVALS,
                          .tol_grad = TOL,
                          .warm = s->later,
                          .tol_value = s->later  ? GAIN
                                       : s->many ? GAIN_FIRST
                                                 : 0,
                          .max_trials = s->many ? TRIALS : 0};
  atvi_math_lbfgs(s->n_free, &opts, x, at->work, &info);
  at->value = info.value;
  for (atvi_idx i = 0; i < s->n_free; i++) at->par[s->free_at[i]] = x[i];
}

/* Scratch is large, and there may be more threads than starts, so a start takes any free slot. There is
 * always one. */
static void run_start(void *arg, atvi_idx item, int worker) {
  search *s = arg;
  for (int i = 0;; i = (i + 1) % s->n_use) {
    if (atomic_exchange(&s->busy[i], true)) continue;
    run_in_slot(s, &s->list[item], worker, i);
    atomic_store(&s->busy[i], false);
    return;
  }
}

static double log_between(double u, double a, double b) { return log(a) + u * log(b / a); }

static double span_of(const atvi_em_runs *r, double *step) {
  atvi_idx m = r->m;
  double span = r->time ? r->time[m - 1] - r->time[0] : (double)(m - 1);
  *step = span / (double)(m - 1);
  return span;
}

/* Bounds of the free values, and which are not free after all: the time length of one time, the length of a
 * constant input. */
static void prepare(search *s, const atvi_em_runs *r, double *held) {
  atvi_idx d = r->d;
  double step = 1, span = r->m > 1 ? span_of(r, &step) : 1;
  if (r->m == 1) held[d + 1] = 0;
  for (atvi_idx j = 0; j < d; j++) {
    bool varies = false;
    for (atvi_idx i = 1; i < r->n; i++) varies |= r->x[i * d + j] != r->x[j];
    if (isnan(held[j]) && !varies) held[j] = log(LENGTH_MOST);
  }
  s->n_free = 0;
  for (atvi_idx j = 0; j < d + 2; j++) {
    if (!isnan(held[j])) continue;
    bool length = j < d, nugget = j == d;
    s->lower[s->n_free] = log(length ? LENGTH_LEAST : nugget ? NUGGET_LEAST : 0.01 * step);
    s->upper[s->n_free] = log(length ? LENGTH_MOST : nugget ? NUGGET_MOST : LENGTH_MOST * span);
    s->free_at[s->n_free++] = j;
  }
}

static int end_of(double value, double held, double least, double most) {
  static const double NEAR = 1.01;
  if (!isnan(held)) return 0;
  return value <= NEAR * least ? -1 : value >= most / NEAR ? 1 : 0;
}

void atvi_gp_emulator_ends(const atvi_em_runs *r, const atvi_em_opts *opts, const atvi_em_info *info,
                           atvi_em_ends *out) {
  double step = 1, span = r->m > 1 ? span_of(r, &step) : 1;
  *out = (atvi_em_ends){.nugget = end_of(info->nugget, opts->nugget, NUGGET_LEAST, NUGGET_MOST)};
  if (r->m > 1) out->time = end_of(info->time_length, opts->time_length, 0.01 * step, LENGTH_MOST * span);
  for (atvi_idx j = 0; j < r->d; j++)
    out->n_short += end_of(info->length[j], opts->length ? 0 : NAN, LENGTH_LEAST, LENGTH_MOST) < 0;
}

/* Point number i of the net; the first one can always be evaluated. */
static void place(const search *s, const atvi_em_runs *r, uint64_t seed, atvi_idx i, double *u, double *par) {
  atvi_idx d = r->d;
  double step = 1, span = r->m > 1 ? span_of(r, &step) : 1;
  atvi_sobol key = {.seed = seed, .stream = STREAM};
  atvi_math_sobol_uniform(key, i, s->n_free, 1, u);
  memcpy(par, s->held, (size_t)(d + 2) * sizeof *par);
  for (atvi_idx f = 0; f < s->n_free; f++) {
    atvi_idx j = s->free_at[f];
    double at = i == 0 ? 0.5 : u[f];
    par[j] = j < d    ? log_between(at, START_LENGTH_LEAST, START_LENGTH_MOST)
             : j == d ? log_between(i == 0 ? 0.9 : at, START_NUGGET_LEAST, START_NUGGET_MOST)
                      : log_between(at, step, 2 * span);
  }
}

/* Best first; NaN last; ties keep their order by number. */
static int by_value(const void *a, const void *b) {
  const start *x = a, *y = b;
  if (isnan(x->value) || isnan(y->value)) return (isnan(x->value) != 0) - (isnan(y->value) != 0);
  if (x->value != y->value) return x->value < y->value ? -1 : 1;
  return (x->par > y->par) - (x->par < y->par); /* par are pieces of one block, in order */
}

static atvi_status no_start(atvi_ctx *ctx) {
  return ATVI_FAIL(ctx, ATVI_EINVAL,
                   "emulator: the covariance of the runs is not positive definite at the given values; give "
                   "a nugget above 0");
}

/* Evaluates list[count], or climbs from there, and sorts it. */
static atvi_status run_all(search *s, const atvi_em_lik *lik, atvi_idx count, bool climb) {
  atvi_status status = ATVI_OK;
  int slots = count < s->n_slot ? (int)count : s->n_slot;
  s->lik = lik;
  s->n_use = slots;
  s->climb = climb;
  for (int i = 0; i < slots && status == ATVI_OK; i++)
    status = atvi_gp_em_scratch_new(s->ctx, lik, &s->scratch[i]);
  if (status == ATVI_OK) atvi_parallel(s->ctx, count, run_start, s);
  for (int i = 0; i < slots; i++) {
    atvi_gp_em_scratch_free(s->ctx, s->scratch[i]);
    s->scratch[i] = NULL;
  }
  ATVI_TRY(status);
  if (atomic_load(&s->stop)) return ATVI_FAIL(s->ctx, ATVI_ESTOP, "emulator: stopped");
  qsort(s->list, (size_t)count, sizeof *s->list, by_value);
  return isnan(s->list[0].value) ? no_start(s->ctx) : ATVI_OK;
}

static search *carve(atvi_arena *a, atvi_idx n_par, atvi_idx n_list, int n_slot) {
  search *o, head = {.n_par = n_par, .n_list = n_list, .n_slot = n_slot};
  double *par, *work;
  atvi_idx n_work = (atvi_idx)atvi_math_lbfgs_work(n_par);
  head.n_room = 4 * n_par + 2;
  ATVI_TAKE(a, o, 1);
  ATVI_TAKE(a, head.free_at, n_par);
  ATVI_TAKE(a, head.lower, n_par);
  ATVI_TAKE(a, head.upper, n_par);
  ATVI_TAKE(a, head.list, n_list);
  ATVI_TAKE(a, par, n_list * n_par);
  ATVI_TAKE(a, work, n_list * n_work);
  ATVI_TAKE(a, head.room, n_slot * head.n_room);
  ATVI_TAKE(a, head.scratch, n_slot);
  ATVI_TAKE(a, head.busy, n_slot);
  if (!o) return NULL;
  *o = head;
  for (atvi_idx i = 0; i < n_list; i++)
    o->list[i] = (start){.par = par + i * n_par, .work = work + i * n_work};
  return o;
}

/* `some` of n runs, drawn without replacement, in their order. */
static void choose(atvi_idx n, uint64_t seed, atvi_idx some, atvi_idx *row) {
  atvi_rng rng = atvi_math_rng_at(seed, STREAM, 0, 0);
  for (atvi_idx i = 0, k = 0; k < some; i++)
    if (atvi_math_rng_uniform(&rng) * (double)(n - i) < (double)(some - k)) row[k++] = i;
}

/* From the net to the maxima. */
static atvi_status from_net(search *s, const atvi_em_lik *lik, const atvi_em_runs *runs, uint64_t seed,
                            int starts) {
  for (atvi_idx i = 0; i < s->n_list; i++) place(s, runs, seed, i, s->room, s->list[i].par);
  ATVI_TRY(run_all(s, lik, s->n_list, false));
  return run_all(s, lik, starts, true);
}

static void agree(const search *s, int starts, double tol, atvi_em_found *out) {
  out->starts = starts;
  out->agreed = 0;
  for (int i = 0; i < starts; i++) out->agreed += s->list[i].value <= s->list[0].value + tol;
}

static double agreement(atvi_idx n, atvi_idx m) { return fmax(0.1 / ((double)n * (double)m), AGREE); }

/* How many maxima to climb from next: the best and, after it, the best that is another one. */
static atvi_idx different(search *s, int starts, double tol) {
  for (int i = 1; i < starts; i++) {
    if (!(s->list[i].value > s->list[0].value + tol)) continue;
    start other = s->list[i];
    s->list[i] = s->list[1];
    s->list[1] = other;
    return AGAIN;
  }
  return 1;
}

/* Climbs with all runs begin at list[*count]. */
static atvi_status on_subsets(search *s, const atvi_em_runs *runs, const double *mean,
                              const atvi_em_opts *opts, int starts, atvi_idx *count, atvi_em_found *out) {
  atvi_idx *row = atvi_block(s->ctx, (size_t)runs->n * sizeof *row);
  atvi_status status = row ? ATVI_OK : ATVI_ENOMEM;
  for (atvi_idx some = SUBSET; status == ATVI_OK && (!s->later || some <= runs->n / 2); some *= 2) {
    atvi_em_lik *part = NULL;
    choose(runs->n, opts->seed, some, row);
    status = atvi_gp_em_lik_new(s->ctx, runs, mean, opts->kernel, some, row, &part);
    if (status == ATVI_OK)
      status = s->later ? run_all(s, part, *count, true) : from_net(s, part, runs, opts->seed, starts);
    atvi_gp_em_lik_free(s->ctx, part);
    if (status != ATVI_OK) break;
    if (s->later) {
      *count = 1;
      continue;
    }
    agree(s, starts, agreement(some, runs->m), out);
    *count = different(s, starts, agreement(some, runs->m));
    s->later = true;
  }
  atvi_block_free(s->ctx, row);
  return status;
}

static atvi_status run(search *s, const atvi_em_runs *runs, const double *mean, const atvi_em_opts *opts,
                       int starts, atvi_em_found *out) {
  atvi_idx again = 0;
  s->many = runs->n > WORTH_IT && s->n_free > 0;
  if (s->many) ATVI_TRY(on_subsets(s, runs, mean, opts, starts, &again, out));
  atvi_em_lik *lik;
  ATVI_TRY(atvi_gp_em_lik_new(s->ctx, runs, mean, opts->kernel, runs->n, NULL, &lik));
  atvi_status status;
  if (s->n_free == 0) {
    memcpy(s->list[0].par, s->held, (size_t)s->n_par * sizeof *s->held);
    status = run_all(s, lik, 1, false);
    out->starts = out->agreed = 1;
  } else if (s->later) {
    status = run_all(s, lik, again, true);
  } else {
    status = from_net(s, lik, runs, opts->seed, starts);
    if (status == ATVI_OK) agree(s, starts, agreement(runs->n, runs->m), out);
  }
  atvi_em_scratch *scratch = NULL;
  if (status == ATVI_OK) status = atvi_gp_em_scratch_new(s->ctx, lik, &scratch);
  if (status == ATVI_OK) {
    out->sill = s->sill;
    out->log_lik = atvi_gp_em_lik_eval(lik, scratch, s->list[0].par, &out->sill, NULL);
    out->evals = atomic_load(&s->evals);
  }
  atvi_gp_em_scratch_free(s->ctx, scratch);
  atvi_gp_em_lik_free(s->ctx, lik);
  return status;
}

atvi_status atvi_gp_em_search(atvi_ctx *ctx, const atvi_em_runs *runs, const double *mean,
                              const atvi_em_opts *opts, double *par, atvi_em_found *out) {
  int starts = opts->starts > 0 ? opts->starts : runs->n <= CHEAP ? 2 * STARTS : STARTS;
  int slots = atvi_ctx_threads(ctx);
  atvi_idx n_par = runs->d + 2, n_list = (atvi_idx)starts * SCREEN;
  if (slots > n_list) slots = (int)n_list;
  atvi_arena a = {0};
  carve(&a, n_par, n_list, slots);
  a = (atvi_arena){.base = atvi_block(ctx, a.used)};
  if (!a.base) return ATVI_ENOMEM;
  search *s = carve(&a, n_par, n_list, slots);
  s->ctx = ctx;
  s->sill = opts->sill;
  s->held = par;
  s->begun_s = atvi_clock_s();
  bool part = runs->n > WORTH_IT;
  s->expected = starts * (SCREEN + 40) * cost_of(part ? SUBSET : runs->n);
  if (part) s->expected += AGAIN * WHOLE_EVALS * cost_of(runs->n);
  prepare(s, runs, par);
  atvi_status status = run(s, runs, mean, opts, starts, out);
  if (status == ATVI_OK) memcpy(par, s->list[0].par, (size_t)n_par * sizeof *par);
  atvi_block_free(ctx, s);
  return status;
}
