/* SPDX-License-Identifier: MIT */
/* Fits that are killed again and again, and go on each time with another number of threads: their draws are
 * those of a fit that nobody killed. Each part of a fit runs in a process of its own, which kills itself in
 * the middle of an evaluation. */
#define _DEFAULT_SOURCE
#include "infer/fit.h"
#include "io/memo.h"
#include "toys.h"
#include <limits.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Shared by the processes of a test. */
typedef struct {
  /* evaluations of this process, and of all */
  atomic_long own, all;
  /* when to die; 0: never */
  long last;
  int64_t evaluations, failures;
  uint64_t draws;
} ledger;

static ledger *book;
/* seconds that an evaluation takes */
static double cost_s;

static void spend(void) {
  for (double begun_s = atvi_clock_s(); atvi_clock_s() - begun_s < cost_s;) {}
  atomic_fetch_add(&book->all, 1);
  if (atomic_fetch_add(&book->own, 1) + 1 == book->last) raise(SIGKILL);
}

/* A banana, which cannot be evaluated in a corner of the box. */
static double banana(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)t;
  spend();
  double e = x[1] - 0.5 * x[0] * x[0];
  if (x[0] < -4 && x[1] < -4) *o = ATVI_RUN_STEPS;
  g[0] = -x[0] + 4 * e * x[0];
  g[1] = -4 * e;
  return -0.5 * x[0] * x[0] - 2 * e * e;
}

/* Two modes, one with three times the mass of the other. */
static double two_modes(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)t, (void)o;
  spend();
  double ra = (x[0] - 3) / 0.4, sa = (x[1] - 1) / 0.5, rb = (x[0] + 3) / 0.4, sb = (x[1] + 2) / 0.5;
  double a = 0.75 * exp(-0.5 * (ra * ra + sa * sa)), b = 0.25 * exp(-0.5 * (rb * rb + sb * sb)),
         p = a + b + 1e-300;
  g[0] = -(a * ra + b * rb) / p / 0.4;
  g[1] = -(a * sa + b * sb) / p / 0.5;
  return log(p);
}

/* Neal's funnel. */
static double funnel(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)o;
  spend();
  double sum = -x[0] * x[0] / 18;
  g[0] = -x[0] / 9;
  for (atvi_idx j = 1; j < t->target.d; j++) {
    double e = x[j] * exp(-0.5 * x[0]);
    sum -= 0.5 * (e * e + x[0]);
    g[0] += 0.5 * (e * e - 1);
    g[j] = -e * exp(-0.5 * x[0]);
  }
  return sum;
}

static uint64_t fingerprint(const atvi_draws *d) {
  size_t n = (size_t)d->n * sizeof(double);
  uint64_t hash = atvi_hash(ATVI_HASH, d->x, (size_t)d->n_col * n);
  hash = atvi_hash(hash, d->log_prior, n);
  hash = atvi_hash(hash, d->log_lik, n);
  return d->weight ? atvi_hash(hash, d->weight, n) : hash;
}

/* A fit, or the rest of one. path NULL: without a checkpoint. */
static void fit(const toy *t, const atvi_fit_opts *o, int threads, const char *path) {
  atvi_ctx *ctx = test_ctx();
  atvi_evaluator *ev;
  atvi_fit_plan plan;
  atvi_memo *memo = NULL;
  atvi_draws *d;
  atvi_ctx_set_threads(ctx, threads);
  CHECK_OK(atvi_infer_fit_check(ctx, o, &plan));
  CHECK_OK(atvi_model_evaluator_new(ctx, &t->target, &ev));
  if (path) {
    CHECK_OK(atvi_io_memo_open(ctx, path, 0.01, &memo));
    CHECK_OK(atvi_io_memo_start(memo, "toy", false, true));
  }
  atvi_model_evaluator_set_memo(ev, memo);
  CHECK_OK(atvi_infer_fit_with(ctx, ev, &plan, &d));
  book->draws = fingerprint(d);
  book->evaluations = d->made->evaluations;
  book->failures = d->made->failures;
  atvi_draws_free(d);
  atvi_model_evaluator_free(ev);
  atvi_io_memo_close(memo, true);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* Kills the fit `kills` times, spread over its evaluations. Returns how many evaluations were made for each
 * of an undisturbed fit. */
static double killed(const toy *t, const atvi_fit_opts *o, int kills) {
  char path[64];
  snprintf(path, sizeof path, "/tmp/atvi-test-resume-%ld", (long)getpid());
  book = mmap(NULL, sizeof *book, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(book != MAP_FAILED);
  fit(t, o, 2, NULL);
  ledger want = *book;
  *book = (ledger){0};
  int n = 0, how = -1;
  while (how != 0) {
    CHECK(n <= kills);
    book->own = 0;
    book->last = n < kills ? want.all / (kills + 1) + 13 * n : 0;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
      fit(t, o, 1 + n % 3, path);
      _exit(0);
    }
    CHECK(waitpid(pid, &how, 0) == pid);
    CHECK(how == 0 || (WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL));
    n++;
  }
  CHECK(n > kills / 2); /* some evaluations are made for nobody: not all kills come */
  CHECK(book->draws == want.draws);
  CHECK_INT(book->evaluations, want.evaluations);
  CHECK_INT(book->failures, want.failures);
  CHECK(access(path, F_OK) != 0);
  double share = (double)book->all / (double)want.all;
  munmap(book, sizeof *book);
  return share;
}

static double method(const char *name, const char *exact, const toy *t, int kills) {
  atvi_fit_opts o = atvi_fit_defaults();
  o.method = name;
  if (exact) o.exact = exact;
  o.seed = 5;
  if (strcmp(name, "map") != 0) o.ess = 400;
  return killed(t, &o, kills);
}

/* With evaluations that take long hardly any is made twice, in whatever part of the fit: those of a hundredth
 * of a second. */
static void nothing_dear_is_done_twice(void) {
  toy t = {.lik = banana};
  toy_set(&t, 2, -6, 6);
  cost_s = 3e-5;
  CHECK(method("atvi", NULL, &t, 5) < 1.1);
}

static void every_method_goes_on(void) {
  toy t = {.lik = banana};
  toy_set(&t, 2, -6, 6);
  method("atvi", NULL, &t, 4);
  method("nf", NULL, &t, 2);
  method("copula", NULL, &t, 2);
  method("ram", NULL, &t, 5);
  method("nuts", NULL, &t, 5);
  method("map", NULL, &t, 2);
}

static void the_exact_sampler_goes_on(void) {
  toy t = {.lik = two_modes};
  toy_set(&t, 2, -6, 6);
  CHECK(method("atvi", "on", &t, 4) < 2);
}

/* Where chains take over by themselves, both samplers may have begun. */
static void chains_that_take_over_go_on(void) {
  toy t = {.lik = funnel, .prior_sd = 100};
  toy_set(&t, 4, -HUGE_VAL, HUGE_VAL);
  CHECK(method("atvi", NULL, &t, 6) < 2);
}

/* ---- atvi_fit ---- */

static bool enough(void *user) { return book->own >= *(const long *)user; }

/* A target of one's own: stopped in the middle, the fit goes on from its file; a file of another fit is
 * refused. */
static void a_fit_of_the_library_goes_on(void) {
  toy t = {.lik = banana}, other = {.lik = two_modes};
  char path[64];
  ledger shared = {0};
  long most = LONG_MAX;
  atvi_ctx *ctx = test_ctx();
  atvi_fit_opts o = atvi_fit_defaults();
  atvi_draws *d;
  book = &shared;
  cost_s = 3e-5;
  toy_set(&t, 2, -6, 6);
  toy_set(&other, 2, -6, 6);
  snprintf(path, sizeof path, "/tmp/atvi-test-library-%ld", (long)getpid());
  o.ess = 400;
  CHECK_OK(atvi_fit(ctx, &t.target, &o, &d));
  uint64_t want = fingerprint(d);
  int64_t evaluations = d->made->evaluations;
  atvi_draws_free(d);

  long whole = book->own;
  o.checkpoint = path;
  atvi_ctx_set_stop(ctx, enough, &most);
  book->own = 0;
  most = whole / 2;
  atvi_status status = atvi_fit(ctx, &t.target, &o, &d);
  CHECK(status == ATVI_OK || status == ATVI_ESTOP);
  atvi_draws_free(d);
  CHECK(access(path, F_OK) == 0);
  most = LONG_MAX;
  CHECK_STATUS(atvi_fit(ctx, &other.target, &o, &d), ATVI_EDATA);
  CHECK(d == NULL && strstr(atvi_errmsg(ctx), "another target"));
  o.seed = 2;
  CHECK_STATUS(atvi_fit(ctx, &t.target, &o, &d), ATVI_EDATA);
  CHECK(strstr(atvi_errmsg(ctx), "other options") != NULL);
  o.seed = 1;

  book->own = 0;
  atvi_ctx_set_threads(ctx, 3);
  CHECK_OK(atvi_fit(ctx, &t.target, &o, &d));
  CHECK(fingerprint(d) == want);
  CHECK_INT(d->made->evaluations, evaluations);
  CHECK(book->own < 0.6 * (double)whole);
  CHECK(access(path, F_OK) != 0);
  atvi_draws_free(d);
  o = atvi_fit_defaults();
  o.method = "map";
  o.checkpoint = "/nowhere/checkpoint"; /* reported, and the fit goes on */
  CHECK_OK(atvi_fit(ctx, &t.target, &o, &d));
  atvi_draws_free(d);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

TESTS({"dear", nothing_dear_is_done_twice}, {"methods", every_method_goes_on},
      {"exact", the_exact_sampler_goes_on}, {"takeover", chains_that_take_over_go_on},
      {"library", a_fit_of_the_library_goes_on})
