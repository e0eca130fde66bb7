/* SPDX-License-Identifier: MIT */
/* Simulators that are one line of shell. */
#include "sim/simulator.h"
#include "sim/detail.h"
#include "io/file.h"
#include "testing.h"
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static atvi_ctx *ctx;
static char dir[64], told[4096];
static atvi_sim_report rep;

static void on_log(void *user, atvi_log_level level, const char *line) {
  (void)user;
  (void)level;
  size_t n = strlen(told);
  snprintf(told + n, sizeof told - n, "%s\n", line);
}

static void begin(void) {
  ctx = test_ctx();
  told[0] = 0;
  atvi_ctx_set_log(ctx, on_log, NULL);
  strcpy(dir, "/tmp/atvi_simXXXXXX");
  CHECK(mkdtemp(dir));
}

static void end(void) {
  CHECK(atvi_sim_folder_remove(dir));
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
  CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD); /* no child, dead or alive */
}

static const char *in_dir(const char *name) {
  static char path[4][200];
  static int k;
  k = (k + 1) % 4;
  snprintf(path[k], sizeof path[k], "%s/%s", dir, name);
  return path[k];
}

static void put_file(const char *name, const char *text) {
  CHECK_OK(atvi_io_file_save(ctx, in_dir(name), text, strlen(text)));
}

static bool exists(const char *name) { return access(in_dir(name), F_OK) == 0; }

static const char *const PARAM[] = {"k", "theta.1"};
static const atvi_sim_output FLOW = {.name = "flow"};
static atvi_sim_spec spec_of(const char *command) {
  return (atvi_sim_spec){.place = {"model.atvi", 5, 12},
                         .folder = dir,
                         .command = command,
                         .n_output = 1,
                         .output = &FLOW,
                         .d = 2,
                         .param = PARAM};
}

enum { N = 40 };
static int64_t ID[N];
static double X[N][2];

static atvi_sim_batch batch_of(atvi_idx n) {
  for (int i = 0; i < N; i++) {
    ID[i] = i + 1;
    X[i][0] = 0.1 * (i + 1);
    X[i][1] = 1.0 / 3 + i;
  }
  return (atvi_sim_batch){.dir = dir, .n = n, .id = ID, .x = X[0], .jobs = 3, .limit_s = 60};
}

static atvi_status run(const atvi_sim_spec *spec, const atvi_sim_batch *b) {
  atvi_simulator *s;
  atvi_sim_record *r;
  CHECK_OK(atvi_sim_new(ctx, spec, &s));
  CHECK_OK(atvi_sim_record_open(ctx, in_dir(ATVI_SIM_RECORD), atvi_sim_simulator_shape(s), &r));
  atvi_status status = atvi_sim_simulator_run(s, r, b, &rep);
  atvi_sim_record_free(r);
  atvi_sim_free(s);
  return status;
}

static atvi_sim_runs results(atvi_pool **pool) {
  atvi_sim_runs runs;
  CHECK_OK(atvi_pool_new(ctx, pool));
  CHECK_OK(
      atvi_sim_runs_read(*pool, in_dir(ATVI_SIM_RECORD), 0, 1, &(atvi_sim_want){"flow", 2, PARAM}, &runs));
  return runs;
}

/* The reason recorded for a run; what follows is its log. */
static void check_reason(const atvi_sim_spec *spec, int64_t id, const char *word, const char *log) {
  atvi_simulator *s;
  atvi_sim_record *r;
  CHECK_OK(atvi_sim_new(ctx, spec, &s));
  CHECK_OK(atvi_sim_record_open(ctx, in_dir(ATVI_SIM_RECORD), atvi_sim_simulator_shape(s), &r));
  const atvi_sim_run *k = atvi_sim_record_find(r, id);
  CHECK(k && !k->ok);
  CHECK_MSG(strstr(k->reason, word), "reason \"%s\", want \"%s\"", k->reason, word);
  CHECK_MSG(!log[0] || strstr(k->log, log), "log \"%s\", want \"%s\"", k->log, log);
  atvi_sim_record_free(r);
  atvi_sim_free(s);
}

static void arguments_reach_it(void) {
  begin();
  atvi_sim_spec spec = spec_of("echo {k} ; echo {theta[1]}");
  atvi_sim_batch b = batch_of(N);
  CHECK_OK(run(&spec, &b));
  CHECK(rep.ok == N && rep.failed == 0 && rep.left == 0 && !rep.stopped);
  atvi_pool *pool;
  atvi_sim_runs runs = results(&pool);
  CHECK(runs.n == N && runs.m == 2);
  for (int i = 0; i < N; i++) {
    CHECK(runs.x[2 * i] == X[i][0] && runs.x[2 * i + 1] == X[i][1]);
    CHECK(runs.y[2 * i] == X[i][0] && runs.y[2 * i + 1] == X[i][1]); /* every digit, there and back */
  }
  atvi_pool_free(pool);
  CHECK(!exists("work") && !exists("failed"));
  CHECK_OK(run(&spec, &b)); /* nothing is done twice */
  CHECK(rep.ok == 0 && rep.had_ok == N);
  X[3][1] += 1e-6;
  CHECK_STATUS(run(&spec, &b), ATVI_EINVAL);
  CHECK(strstr(atvi_errmsg(ctx), "run 4"));
  end();
}

static void templates_json_and_environment_reach_it(void) {
  begin();
  put_file("run.tmpl", "&run k = {k}, {{literal}} /\n");
  put_file("tool.sh", "#!/bin/sh\n"
                      "[ \"$ATVI_MODEL_DIR/tool.sh\" -ef \"$0\" ] || exit 3\n"
                      "[ \"$(cat in/run.nml)\" = \"&run k = $k, {literal} /\" ] || exit 4\n"
                      "[ \"$(cat)\" = \"{\\\"k\\\":$k,\\\"theta.1\\\":$theta_1}\" ] || exit 5\n"
                      "printf 'h,q\\n1,%s\\n2,%s\\n' $k $ATVI_RUN > out.csv\n");
  CHECK(chmod(in_dir("tool.sh"), 0755) == 0);
  char from[200];
  snprintf(from, sizeof from, "%s", in_dir("run.tmpl"));
  atvi_sim_file file = {from, "in/run.nml"};
  atvi_sim_output out = {.name = "flow", .file = "out.csv", .column = "q", .time = "h"};
  atvi_sim_spec spec = spec_of("LC_ALL=C ./tool.sh");
  spec.output = &out;
  spec.n_file = 1;
  spec.file = &file;
  spec.send_json = spec.send_environment = true;
  atvi_sim_batch b = batch_of(5);
  CHECK_OK(run(&spec, &b));
  CHECK_MSG(rep.ok == 5, "%td good: %s", rep.ok, told);
  atvi_pool *pool;
  atvi_sim_runs runs = results(&pool);
  CHECK(runs.m == 2 && runs.time[1] == 2 && runs.y[6] == X[3][0] && runs.y[7] == 4);
  atvi_pool_free(pool);
  end();
}

static void failures_are_recorded_with_their_reason(void) {
  begin();
  atvi_sim_spec spec = spec_of(
      "case $ATVI_RUN in 2) echo oops >&2; exit 3;; 3) kill -SEGV $$;; 4) sleep 60;; 5) echo garbage;; "
      "6) ;; 7) echo 1; echo 2;; *) echo {k};; esac");
  atvi_sim_batch b = batch_of(12);
  b.limit_s = 1.5;
  b.keep_failed = true;
  double begun = atvi_clock_s();
  CHECK_OK(run(&spec, &b));
  CHECK(atvi_clock_s() - begun < 20);
  CHECK(rep.ok == 6 && rep.failed == 6 && rep.left == 0);
  check_reason(&spec, 2, "ended with status 3", "oops");
  check_reason(&spec, 3, "signal 11", "");
  check_reason(&spec, 4, "limit of 1.5 s", "");
  check_reason(&spec, 5, "standard output has just 'garbage'", "garbage");
  check_reason(&spec, 6, "empty", "");
  check_reason(&spec, 7, "2 values, but run 1 has 1", "");
  CHECK(exists("failed/000002/stderr.txt") && exists("failed/000006") && !exists("failed/000001"));
  CHECK(strstr(told, "run 2 failed: ended with status 3: oops (k = 0.2, theta.1 = 1.33333)"));
  CHECK_OK(run(&spec, &b)); /* left alone unless asked */
  CHECK(rep.ok == 0 && rep.failed == 0 && rep.had_failed == 6);
  atvi_sim_spec mended = spec_of("echo {k}");
  b.retry_failed = true;
  CHECK_OK(run(&mended, &b));
  CHECK(rep.ok == 6 && rep.had_ok == 6);
  CHECK(strstr(told, "6 good runs were done with another command"));
  end();
}

/* Run 6 kills the process that guards the others, and later runs wait for that. No run fails: all stops, and
 * the next call does the rest. */
static void a_killed_guard_fails_no_run(void) {
  begin();
  atvi_sim_spec spec = spec_of(
      "if [ $ATVI_RUN = 6 ] && mkdir ../../once; then for p in /proc/[0-9]*; do "
      "if [ \"$(cat $p/comm)\" = atvi-guard ] && grep -q \"^PPid:.$PPID$\" $p/status; "
      "then kill -9 ${{p#/proc/}}; fi; done; fi 2>../../why; [ $ATVI_RUN != 6 ] || echo >../../killed; "
      "[ $ATVI_RUN -lt 7 ] || until [ -e ../../killed ]; do sleep 0.02; done; sleep 0.05; echo {k}");
  atvi_sim_batch b = batch_of(30);
  CHECK_STATUS(run(&spec, &b), ATVI_EIO);
  CHECK(strstr(atvi_errmsg(ctx), "atvi-guard") && exists("once") && !exists("work"));
  CHECK(rep.failed == 0 && rep.ok >= 3 && rep.left >= 10);
  atvi_idx done = rep.ok;
  CHECK_OK(run(&spec, &b));
  CHECK(rep.failed == 0 && rep.had_failed == 0 && rep.had_ok == done && rep.ok == 30 - done);
  end();
}

/* Whether a file is there and nobody writes to it; a busy machine gets some time to end what was killed. */
static bool grows_no_more(const char *name) {
  struct stat a, b;
  for (int k = 0; k < 20; k++) {
    if (stat(in_dir(name), &a) != 0 || a.st_size == 0) return false;
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    if (stat(in_dir(name), &b) == 0 && b.st_size == a.st_size) return true;
  }
  return false;
}

/* What a run leaves behind, and what does not listen, is gone. */
static void nothing_is_left_running(void) {
  begin();
  char command[300];
  snprintf(
      command, sizeof command,
      "(trap '' TERM; while :; do sleep 0.05; echo >> %s/alive; done) & [ $ATVI_RUN = 1 ] || wait; echo 1",
      dir);
  atvi_sim_spec spec = spec_of(command);
  atvi_sim_batch b = batch_of(2);
  b.limit_s = 2; /* enough for a line of the second run, also on a busy machine */
  CHECK_OK(run(&spec, &b));
  CHECK(rep.ok == 1 && rep.failed == 1);
  CHECK(grows_no_more("alive"));
  end();
}

/* Killed as a whole, with programs that start others: they end, too. */
static void programs_do_not_outlive_us(void) {
  for (int w = 0; w < 2; w++) {
    begin();
    char command[300];
    snprintf(command, sizeof command,
             "(while :; do sleep 0.02; echo >> %s/alive; done) & trap '' TERM; wait; echo 1", dir);
    atvi_sim_spec spec = spec_of(command);
    spec.worker = w;
    atvi_sim_batch b = batch_of(4);
    pid_t pid = fork();
    if (pid == 0) _exit(run(&spec, &b) == ATVI_OK ? 0 : 1);
    for (int k = 0; k < 200 && !exists("alive"); k++)
      nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    CHECK(exists("alive"));
    CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
    CHECK(grows_no_more("alive"));
    atvi_sim_spec quick = spec_of("echo 1");
    CHECK_OK(run(&quick, &b)); /* and the record is free */
    CHECK_INT(rep.ok, 4);
    end();
  }
}

static void retries_help(void) {
  begin();
  char command[300];
  snprintf(command, sizeof command, "echo x >> %s/n.$ATVI_RUN; [ $(wc -l < %s/n.$ATVI_RUN) -ge 3 ] && echo 7",
           dir, dir);
  atvi_sim_spec spec = spec_of(command);
  atvi_sim_batch b = batch_of(4);
  b.retries = 1;
  CHECK_OK(run(&spec, &b));
  CHECK(rep.ok == 0 && rep.failed == 4);
  b.retry_failed = true;
  CHECK_OK(run(&spec, &b));
  CHECK(rep.ok == 4 && rep.failed == 0);
  end();
}

static void a_missing_program_stops_it(void) {
  static const char *const command[] = {"./nowhere {k}", "no-such-program-at-all", "exec /nowhere", "./data"};
  for (int w = 0; w < 2; w++)
    for (size_t i = 0; i < 4; i++) {
      begin();
      put_file("data", "not a program");
      atvi_sim_spec spec = spec_of(w && i == 0 ? "./nowhere" : command[i]);
      spec.worker = w;
      atvi_sim_batch b = batch_of(N);
      CHECK_STATUS(run(&spec, &b), ATVI_ECALL);
      CHECK_MSG(strstr(atvi_errmsg(ctx), "cannot be started") && strstr(atvi_errmsg(ctx), spec.command), "%s",
                atvi_errmsg(ctx));
      CHECK(rep.ok == 0 && rep.failed == 0 && rep.left == N);
      b.n = 1; /* also the only one */
      CHECK_STATUS(run(&spec, &b), ATVI_ECALL);
      end();
    }
}

/* Once a run was good, status 127 is the script's own; a program that vanishes is noticed all the same. */
static void a_program_that_vanishes_stops_it(void) {
  begin();
  atvi_sim_spec spec = spec_of("[ $ATVI_RUN -gt 5 ] && [ $ATVI_RUN -lt 11 ] && exit 127; echo {k}");
  atvi_sim_batch b = batch_of(N);
  b.jobs = 1;
  CHECK_OK(run(&spec, &b));
  CHECK(rep.ok == N - 5 && rep.failed == 5);
  check_reason(&spec, 6, "status 127", "");
  CHECK(unlink(in_dir(ATVI_SIM_RECORD)) == 0);
  spec = spec_of("[ $ATVI_RUN -lt 6 ] || exit 127; echo {k}");
  CHECK_STATUS(run(&spec, &b), ATVI_ECALL);
  CHECK(rep.ok == 5 && rep.failed == 10 && rep.left == N - 15);
  CHECK(strstr(atvi_errmsg(ctx), "cannot be started") && !strstr(atvi_errmsg(ctx), "Nothing was recorded"));
  end();
}

/* What the shell says of the first points is held against them when others are good, and against all when
 * runs were good before. */
static void points_without_a_program_are_recorded(void) {
  begin();
  atvi_sim_spec spec = spec_of("case $ATVI_RUN in 1|2|7|8|9|10) echo lost >&2; exit 127;; esac; echo {k}");
  atvi_sim_batch b = batch_of(6);
  b.jobs = 1;
  CHECK_OK(run(&spec, &b));
  CHECK(rep.ok == 4 && rep.failed == 2 && rep.left == 0);
  check_reason(&spec, 1, "status 127", "lost");
  check_reason(&spec, 2, "status 127", "lost");
  b.n = 10;
  CHECK_OK(run(&spec, &b));
  CHECK(rep.had_ok == 4 && rep.had_failed == 2 && rep.ok == 0 && rep.failed == 4 && rep.left == 0);
  check_reason(&spec, 10, "status 127", "lost");
  end();
}

/* Short runs are over first. */
static void the_majority_sets_the_times(void) {
  begin();
  atvi_sim_spec spec = spec_of("case $ATVI_RUN in 1|4) ;; *) echo {k};; esac; echo 2.385; echo $ATVI_RUN");
  atvi_sim_batch b = batch_of(9);
  b.jobs = 1;
  CHECK_OK(run(&spec, &b));
  CHECK(rep.ok == 7 && rep.failed == 2 && rep.left == 0);
  check_reason(&spec, 1, "at other times than most runs: flow: 2 values, but run 2 has 3", "");
  check_reason(&spec, 4, "2 values", "");
  atvi_pool *pool;
  atvi_sim_runs runs = results(&pool);
  CHECK(runs.n == 7 && runs.m == 3 && runs.n_failed == 2 && runs.id[0] == 2 && runs.y[1] == 2.385);
  CHECK_STR(runs.failure, "runs 1, 4: at other times than most runs: flow: 2 values, but run 2 has 3");
  atvi_pool_free(pool);
  CHECK_OK(run(&spec, &b)); /* known when the record is opened, too */
  CHECK(rep.had_ok == 7 && rep.had_failed == 2);
  spec = spec_of("echo {k}; echo 2.385; echo $ATVI_RUN");
  b.retry_failed = true;
  CHECK_OK(run(&spec, &b));
  CHECK(rep.had_ok == 7 && rep.ok == 2 && rep.failed == 0);
  end();
}

static void runs_that_never_agree_stop_it(void) {
  begin();
  atvi_sim_spec spec = spec_of("seq $(($ATVI_RUN + 3))");
  atvi_sim_batch b = batch_of(N);
  CHECK_STATUS(run(&spec, &b), ATVI_ECALL);
  CHECK_MSG(strstr(atvi_errmsg(ctx), "9 of the good ones are at other times than most runs: flow: ") &&
                atvi_errcode(ctx) == ATVI_CODE_RUNS_TIMES,
            "%s", atvi_errmsg(ctx));
  CHECK(rep.ok == 1 && rep.failed == 9 && rep.left == N - 10);
  end();
}

static void a_program_that_always_fails_stops_it(void) {
  begin();
  atvi_sim_spec spec = spec_of("echo no license >&2; exit 1");
  atvi_sim_batch b = batch_of(N);
  CHECK_STATUS(run(&spec, &b), ATVI_ECALL);
  CHECK(strstr(atvi_errmsg(ctx), "ended with status 1: no license") &&
        atvi_errcode(ctx) == ATVI_CODE_SIMULATOR_FAILED);
  CHECK(rep.failed >= 10 && rep.failed <= 12 && rep.left == N - rep.failed);
  end();
}

static int stop_after;
static bool stop(void *user) {
  (void)user;
  return --stop_after < 0;
}

static void stopping_keeps_what_was_done(void) {
  for (int w = 0; w < 2; w++) {
    begin();
    atvi_sim_spec spec =
        spec_of(w ? "while read l; do sleep 0.02; echo '{{\"flow\":1}}'; done" : "sleep 0.02; echo 1");
    spec.worker = w;
    atvi_sim_batch b = batch_of(N);
    stop_after = 12;
    atvi_ctx_set_stop(ctx, stop, NULL);
    double begun = atvi_clock_s();
    CHECK_OK(run(&spec, &b));
    CHECK(rep.stopped && rep.ok < N && rep.ok + rep.left == N && rep.failed == 0);
    CHECK(atvi_clock_s() - begun < 10);
    CHECK(!exists("work"));
    atvi_idx first = rep.ok;
    atvi_ctx_set_stop(ctx, NULL, NULL);
    CHECK_OK(run(&spec, &b));
    CHECK(rep.had_ok == first && rep.ok == N - first);
    end();
  }
}

static void workers_answer(void) {
  begin();
  /* the parameters come back, and the number of answers of this worker */
  atvi_sim_spec spec = spec_of("i=0; while read -r l; do i=$((i+1)); k=${{l#*:}}; k=${{k%%,*}}; "
                               "echo \"{{\\\"flow\\\":[$k,$i],\\\"time\\\":[1,2]}}\"; done");
  spec.worker = true;
  atvi_sim_batch b = batch_of(N);
  CHECK_OK(run(&spec, &b));
  CHECK_MSG(rep.ok == N, "%td good: %s", rep.ok, told);
  atvi_pool *pool;
  atvi_sim_runs runs = results(&pool);
  double most = 0;
  for (int i = 0; i < N; i++) {
    CHECK(runs.y[2 * i] == X[i][0]);
    most = fmax(most, runs.y[2 * i + 1]);
  }
  CHECK(runs.time[1] == 2 && most > N / 6.0); /* three workers, not a new one for each run */
  atvi_pool_free(pool);
  end();
}

static void bad_workers_are_replaced(void) {
  begin();
  atvi_sim_spec spec = spec_of("while read -r l; do case $l in "
                               "*:0.2*) echo what >&2; exit 9;; "
                               "*:0.4*) sleep 60;; "
                               "*:0.5,*) echo Segmentation fault;; "
                               "*:0.70*) echo '{{\"error\":\"no water\"}}';; "
                               "*:0.8*) echo '{{\"level\":1}}';; "
                               "*:1,*) printf '{{\"flow\":1}}\\n{{\"flow\":666}}\\n';; "
                               "*:1.1*) exec >&-; sleep 60;; "
                               "*) echo '{{\"flow\":5}}';; esac; done");
  spec.worker = true;
  atvi_sim_batch b = batch_of(14);
  b.limit_s = 2;
  b.jobs = 2;
  CHECK_OK(run(&spec, &b));
  CHECK_MSG(rep.ok == 8 && rep.failed == 6, "%td good, %td failed\n%s", rep.ok, rep.failed, told);
  check_reason(&spec, 2, "the worker ended with status 9 before it answered", "what");
  check_reason(&spec, 4, "limit of 2 s", "");
  check_reason(&spec, 5, "not a JSON object: Segmentation fault", "");
  check_reason(&spec, 7, "the worker says: no water", "");
  check_reason(&spec, 8, "there is no key flow", "");
  check_reason(&spec, 11, "closed its standard output", "");
  atvi_pool *pool;
  atvi_sim_runs runs = results(&pool);
  for (atvi_idx i = 0; i < runs.n; i++)
    CHECK(runs.y[i] == (runs.id[i] == 10 ? 1 : 5)); /* 666 is nobody's answer */
  atvi_pool_free(pool);
  end();
}

/* A worker that ends after each answer is slow, not wrong. */
static void short_lived_workers_work(void) {
  begin();
  atvi_sim_spec spec = spec_of("read -r l; echo '{{\"flow\":2}}'");
  spec.worker = true;
  atvi_sim_batch b = batch_of(20);
  CHECK_OK(run(&spec, &b));
  CHECK_INT(rep.ok, 20);
  end();
}

static void a_long_answer_arrives(void) {
  begin();
  atvi_sim_spec spec = spec_of(
      "while read -r l; do printf '{{\"flow\":[0'; seq -f ,%.0f 1 60000 | tr -d '\\n'; echo ']}}'; done");
  spec.worker = true;
  atvi_sim_batch b = batch_of(2);
  CHECK_OK(run(&spec, &b));
  CHECK_INT(rep.ok, 2);
  atvi_pool *pool;
  atvi_sim_runs runs = results(&pool);
  CHECK(runs.m == 60001 && runs.y[60001 + 60000] == 60000);
  atvi_pool_free(pool);
  end();
}

static void a_full_disk_is_told(void) {
  begin();
  if (geteuid() != 0 || mount("none", dir, "tmpfs", 0, "size=256k") != 0) {
    end();
    return; /* needs root */
  }
  atvi_sim_spec spec = spec_of("[ $ATVI_RUN -lt 4 ] || head -c 400000 /dev/zero > big || exit 1; echo {k}");
  atvi_sim_batch b = batch_of(N);
  b.jobs = 1;
  atvi_status status = run(&spec, &b);
  char message[500];
  snprintf(message, sizeof message, "%s", atvi_errmsg(ctx));
  bool clean = !exists("work");
  atvi_idx ok = rep.ok, failed = rep.failed;
  atvi_sim_spec mended = spec_of("echo {k}");
  atvi_status again = run(&mended, &b);
  umount(dir);
  CHECK_INT(status, ATVI_EIO);
  CHECK_MSG(strstr(message, "disk is full") && strstr(message, "run 4"), "%s", message);
  CHECK(clean && ok == 3 && failed == 0);
  CHECK_INT(again, ATVI_OK);
  CHECK(rep.had_ok == 3 && rep.ok == N - 3);
  end();
}

static void wrong_descriptions_are_refused(void) {
  begin();
  atvi_simulator *s;
  atvi_sim_spec spec = spec_of("sim {kk}");
  CHECK_STATUS(atvi_sim_new(ctx, &spec, &s), ATVI_EMODEL);
  CHECK(!s && strstr(atvi_errmsg(ctx), "model.atvi:5:16: error:"));
  spec = spec_of(" ");
  CHECK_STATUS(atvi_sim_new(ctx, &spec, &s), ATVI_EMODEL);
  spec = spec_of("sim");
  spec.n_output = 0;
  CHECK_STATUS(atvi_sim_new(ctx, &spec, &s), ATVI_EMODEL);
  spec = spec_of("sim");
  atvi_sim_file file = {"/nowhere", "x"};
  spec.n_file = 1;
  spec.file = &file;
  CHECK_STATUS(atvi_sim_new(ctx, &spec, &s), ATVI_EIO);
  put_file("t", "a\n {q}");
  file.from = in_dir("t");
  CHECK_STATUS(atvi_sim_new(ctx, &spec, &s), ATVI_EMODEL);
  CHECK(strstr(atvi_errmsg(ctx), "/t:2:2: error:"));
  static const char *const outside[] = {"../x", "/tmp/x", "a/../../x", "", "a/", ".."};
  for (size_t i = 0; i < 6; i++) {
    file.to = outside[i];
    CHECK_STATUS(atvi_sim_new(ctx, &spec, &s), ATVI_EMODEL);
    atvi_sim_output out = {.name = "q", .file = outside[i]};
    atvi_sim_spec other = spec_of("sim");
    other.output = &out;
    CHECK_STATUS(atvi_sim_new(ctx, &other, &s), ATVI_EMODEL);
  }
  atvi_sim_output out = {.name = "q", .file = "x"};
  file.to = "t";
  for (int k = 0; k < 4; k++) {
    spec = spec_of(k == 0 ? "sim {k}" : "sim");
    spec.worker = true;
    spec.n_file = k == 1;
    spec.file = &file;
    spec.send_environment = k == 2;
    if (k == 3) spec.output = &out;
    CHECK_STATUS(atvi_sim_new(ctx, &spec, &s), ATVI_EMODEL);
    CHECK(strstr(atvi_errmsg(ctx), "worker"));
  }
  end();
}

static void no_memory_is_told(void) {
  begin();
  put_file("t", "{k}");
  atvi_sim_file file = {in_dir("t"), "t"};
  atvi_sim_spec spec = spec_of("./sim {k}");
  spec.n_file = 1;
  spec.file = &file;
  atvi_simulator *s;
  long live = test_live;
  for (long k = 1;; k++) {
    test_fail_at = test_allocs + k;
    atvi_status status = atvi_sim_new(ctx, &spec, &s);
    if (status == ATVI_OK) break;
    CHECK_INT(status, ATVI_ENOMEM);
    CHECK(!s);
    CHECK_INT(test_live, live);
  }
  test_fail_at = 0;
  atvi_sim_free(s);
  end();
}

/* Wherever memory ends: told, and no process stays. */
static void no_memory_during_runs_is_told(void) {
  begin();
  atvi_sim_spec spec = spec_of("echo {k}");
  atvi_sim_batch b = batch_of(3);
  for (long k = 1;; k++) {
    atvi_simulator *s;
    atvi_sim_record *r;
    test_fail_at = 0;
    unlink(in_dir(ATVI_SIM_RECORD));
    CHECK_OK(atvi_sim_new(ctx, &spec, &s));
    CHECK_OK(atvi_sim_record_open(ctx, in_dir(ATVI_SIM_RECORD), atvi_sim_simulator_shape(s), &r));
    test_fail_at = test_allocs + k;
    atvi_status status = atvi_sim_simulator_run(s, r, &b, &rep);
    atvi_sim_record_free(r);
    atvi_sim_free(s);
    CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
    if (status == ATVI_OK) break;
    CHECK_INT(status, ATVI_ENOMEM);
  }
  test_fail_at = 0;
  CHECK_INT(rep.ok, 3);
  end();
}

TESTS({"guard_killed", a_killed_guard_fails_no_run}, {"arguments", arguments_reach_it},
      {"ways", templates_json_and_environment_reach_it},
      {"failures", failures_are_recorded_with_their_reason}, {"left", nothing_is_left_running},
      {"outlive", programs_do_not_outlive_us}, {"retries", retries_help},
      {"missing", a_missing_program_stops_it}, {"vanishes", a_program_that_vanishes_stops_it},
      {"points", points_without_a_program_are_recorded}, {"majority", the_majority_sets_the_times},
      {"disagree", runs_that_never_agree_stop_it}, {"always", a_program_that_always_fails_stops_it},
      {"stop", stopping_keeps_what_was_done}, {"workers", workers_answer},
      {"bad_workers", bad_workers_are_replaced}, {"short_lived", short_lived_workers_work},
      {"long", a_long_answer_arrives}, {"full", a_full_disk_is_told},
      {"wrong", wrong_descriptions_are_refused}, {"memory", no_memory_is_told},
      {"memory_run", no_memory_during_runs_is_told})
