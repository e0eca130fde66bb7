/* SPDX-License-Identifier: MIT */
#include "sim/claims.h"
#include "io/file.h"
#include "sim/detail.h"
#include "testing.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { N = 400 };
static atvi_ctx *ctx;
static char dir[64];
static bool todo[N + 1];

static void begin(void) {
  ctx = test_ctx();
  strcpy(dir, "/tmp/atvi_claimsXXXXXX");
  CHECK(mkdtemp(dir));
  for (int i = 1; i <= N; i++) todo[i] = true;
}

static void end(void) {
  CHECK(atvi_sim_folder_remove(dir));
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static atvi_claims *open_worker(const char *host, double lease_s) {
  atvi_claims *c;
  CHECK_OK(atvi_sim_claims_open(
      ctx, &(atvi_claims_opts){.dir = dir, .job = "17_4", .jobs = 2, .lease_s = lease_s, .host = host}, &c));
  return c;
}

static void pause_s(double s) {
  nanosleep(&(struct timespec){.tv_sec = (time_t)s, .tv_nsec = (long)(1e9 * (s - floor(s)))}, NULL);
}

static atvi_idx next(atvi_claims *c, atvi_idx want, atvi_claimed *got) {
  atvi_idx n;
  CHECK_OK(atvi_sim_claims_next(c, N, todo, want, got, &n));
  return n;
}

/* Points whose claims are over, without the memory of who had them. */
static atvi_idx again(atvi_claims *c, atvi_idx want, atvi_claimed *got, atvi_idx *held) {
  atvi_pool *pool;
  atvi_idx n;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  CHECK_OK(atvi_sim_claims_again(c, pool, N, todo, want, got, &n, held));
  atvi_pool_free(pool);
  return n;
}

/* Ranges skip what is done, start behind the last one, and never overlap; another process finds where they
 * end. */
static void ranges_follow_each_other(void) {
  atvi_claimed got[N];
  begin();
  todo[1] = todo[2] = todo[5] = false;
  atvi_claims *a = open_worker(NULL, 0), *b = open_worker(NULL, 0);
  CHECK(strcmp(atvi_sim_claims_name(a), atvi_sim_claims_name(b)) != 0);
  CHECK_INT(next(a, 3, got), 3);
  CHECK(got[0].item == 3 && got[1].item == 4 && got[2].item == 6 && got[2].claim == 0);
  CHECK_INT(next(b, 2, got), 2);
  CHECK(got[0].item == 7 && got[1].item == 8);
  CHECK_INT(next(a, 1, got), 1);
  CHECK_INT(got[0].item, 9);
  atvi_claims *late = open_worker(NULL, 0);
  CHECK_INT(next(late, N, got), N - 9);
  CHECK_INT(got[0].item, 10);
  CHECK_INT(next(a, 1, got), 0);
  CHECK_INT(next(b, 1, got), 0);
  atvi_sim_claims_close(late, "done");
  atvi_sim_claims_close(a, "done");
  atvi_sim_claims_close(b, "done");
  end();
}

/* Eight processes at once: every item is claimed once, by ranges and then one by one. */
static void processes_never_share_an_item(void) {
  enum { WORKERS = 8 };
  begin();
  int count[N + 1] = {0};
  for (int pass = 0; pass < 2; pass++) {
    int out[2], all[2];
    CHECK(pipe(out) == 0 && pipe(all) == 0);
    for (int w = 0; w < WORKERS; w++)
      if (fork() == 0) {
        atvi_claims *c = open_worker(NULL, 0);
        atvi_claimed got[7];
        atvi_idx held;
        for (atvi_idx n; (n = pass ? again(c, 5, got, &held) : next(c, 1 + w % 7, got)) > 0;)
          for (atvi_idx i = 0; i < n; i++) {
            int id = (int)got[i].item;
            CHECK(write(out[1], &id, sizeof id) == sizeof id);
            todo[id] = false;
          }
        close(out[1]);
        close(all[1]);
        CHECK(read(all[0], got, 1) == 0); /* until nobody claims any more */
        atvi_sim_claims_close(c, "told to");
        _exit(0);
      }
    close(out[1]);
    for (int id; read(out[0], &id, sizeof id) == sizeof id;) count[id]++;
    close(out[0]);
    close(all[0]);
    close(all[1]);
    while (wait(NULL) > 0) {}
    for (int i = 1; i <= N; i++)
      CHECK_MSG(count[i] == pass + 1, "item %d, pass %d: %d times", i, pass, count[i]);
  }
  end();
}

/* Points of a worker that ended are free at once; of one that is alive, never; of one that is silent, after
 * its lease. */
static void leases_expire(void) {
  atvi_claimed got[N];
  atvi_idx held;
  bool lapsed;
  begin();
  atvi_claims *a = open_worker("one", 0.4), *b = open_worker("two", 60), *c = open_worker("three", 60);
  CHECK_INT(next(a, 3, got), 3);
  CHECK_INT(next(b, 2, got), 2);
  CHECK_INT(next(c, N, got), N - 5);
  for (int i = 6; i <= N; i++) todo[i] = false;
  CHECK_INT(again(c, N, got, &held), 0);
  CHECK_INT(held, 5);
  atvi_sim_claims_close(b, "told to");
  CHECK_INT(again(c, N, got, &held), 2);
  CHECK_INT(held, 3);
  CHECK(got[0].item + got[1].item == 9 && got[0].claim == 1 && got[0].n_lost == 0);
  CHECK(atvi_sim_claims_mine(c, &got[0]));
  for (int i = 0; i < 5; i++) { /* renewed for longer than a lease */
    pause_s(0.15);
    CHECK_OK(atvi_sim_claims_renew(a, &lapsed));
    CHECK(!lapsed);
  }
  CHECK_INT(again(c, N, got, &held), 0);
  pause_s(0.6);
  CHECK_INT(again(c, N, got, &held), 3);
  CHECK_INT(held, 0);
  CHECK_OK(atvi_sim_claims_renew(a, &lapsed));
  CHECK(lapsed && !atvi_sim_claims_mine(a, &(atvi_claimed){.item = 2}));
  atvi_sim_claims_close(a, "late");
  atvi_sim_claims_close(c, "done");
  end();
}

/* A thread renews the lease of a worker that is busy. */
static void a_thread_keeps_the_lease(void) {
  atvi_claimed got[N];
  atvi_idx held;
  begin();
  atvi_claims *a = open_worker("one", 0.4), *b = open_worker("two", 60);
  CHECK_OK(atvi_sim_claims_beat(a));
  CHECK_INT(next(a, N, got), N);
  pause_s(1);
  CHECK_INT(again(b, N, got, &held), 0);
  CHECK_INT(held, N);
  atvi_sim_claims_close(a, "done");
  CHECK_INT(again(b, 1, got, &held), 1);
  atvi_sim_claims_close(b, "done");
  end();
}

/* Killed between claim and record: a process of this host is known to be dead at once. */
static void a_killed_worker_frees_its_points(void) {
  atvi_claimed got[N];
  atvi_idx held, n;
  atvi_pool *pool;
  begin();
  int out[2];
  CHECK(pipe(out) == 0);
  pid_t child = fork();
  if (child == 0) {
    atvi_claims *c = open_worker(NULL, 0);
    CHECK_INT(next(c, 3, got), 3);
    CHECK(write(out[1], "x", 1) == 1);
    for (;;) pause();
  }
  char x;
  CHECK(read(out[0], &x, 1) == 1);
  atvi_claims *c = open_worker(NULL, 0);
  CHECK_INT(next(c, N, got), N - 3);
  for (int i = 4; i <= N; i++) todo[i] = false;
  CHECK_INT(again(c, N, got, &held), 0);
  CHECK_INT(held, 3);
  kill(child, SIGKILL);
  CHECK(waitpid(child, NULL, 0) == child);
  CHECK_OK(atvi_pool_new(ctx, &pool));
  CHECK_OK(atvi_sim_claims_again(c, pool, N, todo, N, got, &n, &held));
  CHECK_INT(n, 3);
  CHECK(got[0].after && !got[0].after->alive && !got[0].after->ended && got[0].after->jobs == 2);
  CHECK_STR(got[0].after->job, "17_4");
  atvi_pool_free(pool);
  atvi_sim_claims_close(c, "done");
  close(out[0]);
  close(out[1]);
  end();
}

/* A point that a host lost goes to another host if there is one, and its losses are counted. */
static void losses_go_elsewhere(void) {
  atvi_claimed got[N];
  atvi_idx held;
  atvi_pool *pool;
  atvi_claims_view *v;
  const atvi_claims_loss *loss;
  begin();
  atvi_claims *a = open_worker("one", 0), *b = open_worker("two", 0);
  CHECK_INT(next(a, N, got), N);
  for (int i = 1; i <= N; i++) todo[i] = i == 7;
  CHECK_INT(again(b, N, got, &held), 0);
  atvi_sim_claims_lose(a, 7, 0, ATVI_LOST_SITE, NULL, "ended by signal 9 \"x\"\n");
  CHECK_INT(again(a, N, got, &held), 0);
  CHECK_INT(held, 1);
  CHECK_INT(again(b, N, got, &held), 1);
  CHECK(got[0].item == 7 && got[0].claim == 1 && got[0].n_site == 1 && got[0].n_lost == 1);
  atvi_sim_claims_lose(b, 7, 1, ATVI_LOST_TIME, NULL, "time");
  atvi_sim_claims_close(b, "its time was over");
  CHECK_INT(again(a, N, got, &held), 1); /* nobody else is there */
  CHECK(got[0].claim == 2 && got[0].n_site == 2 && got[0].n_lost == 2);
  CHECK_OK(atvi_pool_new(ctx, &pool));
  CHECK_OK(atvi_sim_claims_view(pool, dir, &v));
  CHECK_INT(atvi_sim_claims_losses(v, &loss), 2);
  CHECK(loss[0].item == 7 && loss[0].why == ATVI_LOST_SITE && loss[1].why == ATVI_LOST_TIME);
  CHECK_STR(loss[0].host, "one");
  CHECK_STR(loss[0].text, "ended by signal 9 ?x??");
  const atvi_claims_worker *w, *who = atvi_sim_claims_holder(v, 7);
  CHECK(who && strcmp(who->name, atvi_sim_claims_name(a)) == 0 && who->alive);
  CHECK(!atvi_sim_claims_holder(v, N + 1));
  CHECK_INT(atvi_sim_claims_workers(v, &w), 2);
  CHECK_STR(w[strcmp(w[0].host, "two") == 0 ? 0 : 1].ended, "its time was over");
  atvi_pool_free(pool);
  atvi_sim_claims_close(a, "done");
  end();
}

/* Files that somebody else put there, or half of one, are nobody's claim for long and never an error. */
static void strange_files_are_ignored(void) {
  static const char *const name[] = {"claims/x", "claims/3.x",  "claims/3.1.odd",
                                     "claims/0", "claims/4.-2", "workers/x"};
  char path[200];
  atvi_claimed got[N];
  atvi_idx held;
  begin();
  atvi_claims *a = open_worker(NULL, 0);
  for (size_t i = 0; i < sizeof name / sizeof name[0]; i++) {
    snprintf(path, sizeof path, "%s/%s", dir, name[i]);
    CHECK_OK(atvi_io_file_save(ctx, path, "{\"last\"", 7));
  }
  CHECK_INT(next(a, N - 1, got), N - 1);
  for (int i = 1; i < N; i++) todo[i] = false;
  /* exclusive creation without contents yet, as where there are no hard links */
  snprintf(path, sizeof path, "%s/claims/%d.1", dir, N);
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0666);
  CHECK(fd >= 0);
  close(fd);
  CHECK_INT(again(a, N, got, &held), 0);
  CHECK_INT(held, 1);
  struct timespec old[2] = {{.tv_sec = time(NULL) - 1000}, {.tv_sec = time(NULL) - 1000}};
  CHECK(utimensat(AT_FDCWD, path, old, 0) == 0);
  CHECK_INT(again(a, N, got, &held), 1);
  CHECK(got[0].item == N && got[0].claim == 2);
  atvi_sim_claims_close(a, "done");
  end();
}

/* A worker whose lease was cleared stops instead of going on beside others. */
static void a_cleared_lease_is_noticed(void) {
  bool lapsed;
  begin();
  atvi_claims *a = open_worker(NULL, 0.06);
  atvi_sim_claims_clear(dir);
  pause_s(0.05);
  CHECK_STATUS(atvi_sim_claims_renew(a, &lapsed), ATVI_EIO);
  atvi_sim_claims_close(a, "gone");
  char path[200];
  snprintf(path, sizeof path, "%s/workers", dir);
  CHECK(access(path, F_OK) != 0);
  CHECK_STATUS(atvi_sim_claims_open(ctx, &(atvi_claims_opts){.dir = "/proc/1/nowhere"}, &a), ATVI_EIO);
  CHECK(!a);
  end();
}

static void no_memory_is_reported(void) {
  begin();
  for (long k = 1;; k++) {
    atvi_claims *c;
    test_fail_at = test_allocs + k;
    long live = test_live;
    atvi_status status = atvi_sim_claims_open(ctx, &(atvi_claims_opts){.dir = dir}, &c);
    test_fail_at = 0;
    if (status == ATVI_OK) {
      atvi_sim_claims_close(c, "done");
      CHECK(k > 1);
      break;
    }
    CHECK_INT(status, ATVI_ENOMEM);
    CHECK(!c);
    CHECK_INT(test_live, live);
  }
  end();
}

TESTS({"ranges", ranges_follow_each_other}, {"processes", processes_never_share_an_item},
      {"expire", leases_expire}, {"thread", a_thread_keeps_the_lease},
      {"killed", a_killed_worker_frees_its_points}, {"elsewhere", losses_go_elsewhere},
      {"strange", strange_files_are_ignored}, {"cleared", a_cleared_lease_is_noticed},
      {"memory", no_memory_is_reported})
