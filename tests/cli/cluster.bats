#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Workers that share a folder: without a scheduler, and with ones that are a line of shell.
load common
load flow

all() { cat "${1:-flow-runs}"/runs.jsonl "${1:-flow-runs}"/shards/*.jsonl; }
# What a record says, without how long it took.
content() { all "$1" 2>/dev/null | jq -cS 'select(.id) | del(.seconds, .attempts)' | sort; }
count() { all | jq -s "[.[] | select(.id) | select($1)] | length"; }
once() { [ "$(all | jq 'select(.id) | .id' | sort | uniq -d | wc -l)" -eq 0 ]; }
worker() { "$ATVI" run flow.atvi --worker --jobs 1 "$@" >>"${LOG:-log}" 2>&1; }
# The same for the background, where $! must be its process.
hand() { exec "$ATVI" run flow.atvi --worker --jobs 1 "$@" >>"${LOG:-log}" 2>&1; }
until_done() { # COUNT: waits until that many runs are recorded
  local i
  for i in $(seq 200); do
    [ "$(cat flow-runs/shards/*.jsonl 2>/dev/null | grep -c '"outcome"')" -lt "$1" ] || return 0
    sleep 0.05
  done
  return 1
}
# A library that is loaded before others.
preload() {
  cc -shared -fPIC -o "$PWD/$1.so" -x c - -ldl
  export LD_PRELOAD=$PWD/$1.so
}

@test "workers share the points, and the emulator is that of one process" {
  N=60 model 'sleep 0.02; echo {k}; echo {m}'
  cp -r flow-runs alone
  "$ATVI" run flow.atvi --runs alone -q
  for i in 1 2 3 4 5; do hand & done
  wait
  [ "$(count '.outcome == "ok"')" -eq 60 ]
  once
  diff <(content flow-runs) <(content alone)
  [ "$(ls flow-runs/shards | wc -l)" -gt 1 ]
  run -0 "$ATVI" run flow.atvi --status
  says "60 of 60 runs are good"
  not says "not done" "claimed"
  printf 'y\n0.5\n3\n' >obs.csv
  "$ATVI" emulate flow.atvi -q
  "$ATVI" emulate flow.atvi -q --runs alone
  cmp flow-runs/emulator-flow.json alone/emulator-flow.json
  run -0 "$ATVI" run flow.atvi
  says "60 of 60 runs are good" "nothing left to do"
  # a larger design is continued by workers, and by one process
  "$ATVI" design flow.atvi -n 70 -q
  worker
  "$ATVI" design flow.atvi -n 75 -q
  run -0 "$ATVI" run flow.atvi
  says "75 of 75 runs are good" "5 done now"
  once
  [ "$(count true)" -eq 75 ]
}

@test "forty SIGKILLs of workers: nothing is lost, nothing is recorded twice" {
  N=150 model 'sleep 0.05; echo {k}; echo {m}'
  cp -r flow-runs alone
  local pid=() i
  for i in 0 1 2 3; do hand & pid[i]=$!; done
  for _ in $(seq 40); do
    sleep "0.$((RANDOM % 9))$((RANDOM % 9))"
    i=$((RANDOM % 4))
    kill -KILL "${pid[i]}" 2>/dev/null || true
    wait "${pid[i]}" 2>/dev/null || true
    hand & pid[i]=$!
  done
  wait
  worker
  run -0 "$ATVI" run flow.atvi --status
  says "150 of 150 runs are good"
  once
  "$ATVI" run flow.atvi --runs alone -q
  diff <(content flow-runs) <(content alone)
}

@test "a worker that is told to end gives back its points at once, and asks Slurm for another start" {
  N=6 model '[ -e go ] || sleep 30; echo {k}; echo {m}'
  sed -i "s,-e go,-e $PWD/go," flow.atvi
  mkdir bin
  printf '#!/bin/sh\necho "$@" >>%s/asked\n' "$PWD" >bin/scontrol
  chmod +x bin/scontrol
  for signal in TERM USR1; do
    rm -f go
    SLURM_JOB_ID=77 SLURM_ARRAY_JOB_ID=70 SLURM_ARRAY_TASK_ID=7 PATH=$PWD/bin:$PATH hand &
    sleep 0.5
    kill -$signal $!
    wait $! || [ $? -eq 130 ]
    touch go
    worker --until 20s
    run -0 "$ATVI" run flow.atvi --status
    says "6 of 6 runs are good"
    once
    rm -rf flow-runs
    "$ATVI" design flow.atvi -n 6 -q
  done
  [ ! -e asked ] # neither had done anything
  model 'if [ $ATVI_RUN -le 2 ]; then echo 1; else sleep 30; fi; : {k} {m}'
  SLURM_JOB_ID=77 SLURM_ARRAY_JOB_ID=70 SLURM_ARRAY_TASK_ID=7 PATH=$PWD/bin:$PATH hand &
  until_done 2
  kill -USR1 $!
  wait $! || [ $? -eq 130 ]
  [ "$(cat asked)" = "requeue 70_7" ]
}

@test "no run is started that would not end in time" {
  # five seconds are kept free: two runs take four of the others, and the third would end a second too late
  N=40 model 'sleep 2; echo {k}; echo {m}'
  run -0 "$ATVI" run flow.atvi --worker --jobs 1 --until 10s
  says "in time" "not done yet"
  done=$(count true)
  [ "$done" -ge 1 ] && [ "$done" -le 2 ]
  SLURM_JOB_END_TIME=$(($(date +%s) + 6)) run -0 "$ATVI" run flow.atvi --worker --jobs 1
  says "time"
  [ "$(count true)" -le $((done + 2)) ]
  for wrong in yesterday 25:00 5 -3m; do
    run "$ATVI" run flow.atvi --worker --until="$wrong"
    fails_with 2 "want a time"
  done
}

@test "programs that are killed are tried again, and fail the third time" {
  N=12 model 'case $ATVI_RUN in 5) kill -KILL $$;; 9) exit 3;; esac; echo {k}; echo {m}'
  run -0 "$ATVI" run flow.atvi --worker --jobs 1
  says "run 5 was lost" "10 of all 12 runs are good, 2 failed"
  run -0 "$ATVI" run flow.atvi --status
  says "run 5: ended by signal 9" "run 9: ended with status 3" "runs that were lost" "3 on"
  once
  # all of them: the host is to blame, so the worker ends, and nothing is recorded
  model 'kill -KILL $$; : {k} {m}'
  run -0 "$ATVI" run flow.atvi --worker --jobs 1
  says "three runs in succession" "20 not done yet"
  [ "$(count true)" -eq 0 ]
  model './nowhere {k} {m}'
  run -0 "$ATVI" run flow.atvi --worker --jobs 1
  says "three runs in succession" "20 not done yet"
  # a model that fails at all points is noticed by all workers together
  model 'exit 4; : {k} {m}'
  run "$ATVI" run flow.atvi --worker --jobs 1
  fails_with 1 "none of the first 10 runs"
  run "$ATVI" run flow.atvi --worker --jobs 1
  fails_with 1 "none of the first 10 runs"
  [ "$(count true)" -eq 10 ]
}

@test "failed runs are done again by the next workers, once" {
  N=10 model 'echo x >>count; [ $ATVI_RUN -ne 3 ] || exit 5; echo {k}; echo {m}'
  sed -i "s,>>count,>>$PWD/count," flow.atvi
  worker
  printf '#!/bin/sh\nfor i in $(seq "$1"); do "$2" >>log 2>&1 & done\n' >start
  chmod +x start
  run -0 --separate-stderr "$ATVI" run flow.atvi --submit "./start {n} {script}" --workers 3
  says "9 of 10 runs are good, 1 failed" # nothing to submit
  for i in 1 2; do
    run -0 --separate-stderr "$ATVI" run flow.atvi --submit "./start {n} {script}" --workers 3 --retry-failed --wait
    says "9 of 10 runs are good, 1 failed" "ended with status 5"
  done
  [ "$(wc -l <count)" -eq 12 ]
  sed -i 's/exit 5/true/' flow.atvi
  "$ATVI" run flow.atvi --submit "./start {n} {script}" --workers 3 --retry-failed --wait
  run -0 "$ATVI" run flow.atvi
  says "10 of 10 runs are good"
}

@test "workers are submitted to any scheduler, and waited for" {
  N=30 model 'sleep 0.05; echo {k}; echo {m}' 'limit 1 h'
  printf '#!/bin/sh\nset -e\necho "$@" >>calls\nfor i in $(seq "$1"); do "$2" >>log 2>&1 & done\necho job 12\n' >start
  chmod +x start
  mkdir "it's here" && mv flow-runs "it's here/runs"
  run -0 "$ATVI" run flow.atvi --runs "it's here/runs" --submit './start {n} {script}' --workers 4 --jobs 1 --limit 30m
  says "4 workers were submitted for 30 runs: job 12" "--status"
  grep -F -e "--limit 30m" "it's here/runs/worker.sh"
  run -0 "$ATVI" run flow.atvi --runs "it's here/runs" --submit './start 1 {script}' --workers 2 --wait
  says "30 of 30 runs are good"
  [ "$(wc -l <calls)" -eq 3 ]
  sleep 1
  not grep -i error log
  "$ATVI" design flow.atvi --runs "it's here/runs" -n 40 -q
  run "$ATVI" run flow.atvi --runs "it's here/runs" --submit 'echo no more jobs; false {script}'
  fails_with 1 "no more jobs" "fewer workers"
  run "$ATVI" run flow.atvi --runs "it's here/runs" --submit 'qsub run.sh'
  fails_with 2 "{script}"
}

@test "workers are submitted to Slurm in arrays that it accepts" {
  N=30 model 'echo {k}; echo {m}'
  mkdir bin
  printf '#!/bin/sh\necho "MaxArraySize            = 11"\n' >bin/scontrol
  printf '#!/bin/sh\nfor a in "$@"; do echo "[$a]" >>calls; done\necho $((100 + $(grep -c array calls)))\n' >bin/sbatch
  chmod +x bin/*
  PATH=$PWD/bin:$PATH run -0 "$ATVI" run flow.atvi --slurm "-p short -t 1:00 --comment 'two words'" --workers 25
  says "25 workers were submitted for 30 runs: job 101,102,103"
  [ "$(grep -o -e '--array=.*' calls | tr '\n' ' ')" = "--array=1-10] --array=1-10] --array=1-5] " ]
  grep -F "[two words]" calls
  grep -F -e "[--requeue]" calls
  grep -F "[$PWD/flow-runs/worker.sh]" calls
  printf '#!/bin/sh\necho "sbatch: error: QOSMaxSubmitJobPerUserLimit" >&2\nexit 1\n' >bin/sbatch
  PATH=$PWD/bin:$PATH run "$ATVI" run flow.atvi --slurm "" --workers 25
  fails_with 1 "QOSMaxSubmitJobPerUserLimit" "fewer workers"
}

@test "options that do not go together, and a run beside workers" {
  N=4 model 'sleep 1; echo {k}; echo {m}'
  for wrong in "--worker --status" "--workers 4" "--wait" "--worker --retry-failed" "--until 5m" "--slurm -x --submit y"; do
    # shellcheck disable=SC2086
    run "$ATVI" run flow.atvi $wrong
    [ "$status" -eq 2 ]
  done
  hand &
  sleep 0.5
  run "$ATVI" run flow.atvi
  fails_with 1 "1 worker is at work" "--worker joins"
  run -0 "$ATVI" run flow.atvi --status
  says "1 worker is running" "0 of 4 runs are good"
  wait
  rm -rf flow-runs/shards flow-runs/runs.jsonl
  "$ATVI" run flow.atvi --jobs 1 -q &
  sleep 0.5
  run "$ATVI" run flow.atvi --worker
  fails_with 1 "another atvi is using"
  wait
  run -0 "$ATVI" run flow.atvi --status
  says "4 of 4 runs are good"
}

@test "a folder without locks and without hard links" {
  N=40 model 'sleep 0.02; echo {k}; echo {m}'
  preload bare <<'C'
#include <errno.h>
int flock(int fd, int op) { errno = ENOLCK; return -1; }
int link(const char *a, const char *b) { errno = EPERM; return -1; }
C
  for i in 1 2 3; do hand & done
  sleep 0.3
  kill -KILL $!
  wait
  worker
  unset LD_PRELOAD
  run -0 "$ATVI" run flow.atvi --status
  says "40 of 40 runs are good"
  once
}

@test "files that other hosts see late" {
  FROM='"out.csv"' N=12 model 'sleep 0.05; (echo flow; echo {k}; echo {m}) >out.csv'
  cp -r flow-runs alone
  "$ATVI" run flow.atvi --runs alone -q
  # what others wrote within a second, programs included, is not there yet
  preload late <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
static int young(const char *path) {
  struct stat st;
  struct timespec now;
  char own[32];
  snprintf(own, sizeof own, "-%d-", (int)getpid());
  if (strstr(path, own) && !strstr(path, "flow-runs/work/")) return 0;
  if (!strstr(path, "flow-runs/") || fstatat(AT_FDCWD, path, &st, 0) != 0 || !S_ISREG(st.st_mode)) return 0;
  clock_gettime(CLOCK_REALTIME, &now);
  return (now.tv_sec - st.st_ctim.tv_sec) + 1e-9 * (now.tv_nsec - st.st_ctim.tv_nsec) < 1;
}
int open(const char *path, int flags, ...) {
  int (*real)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
  va_list a;
  va_start(a, flags);
  int mode = va_arg(a, int);
  va_end(a);
  if ((flags & O_ACCMODE) == O_RDONLY && !(flags & O_DIRECTORY) && young(path)) return errno = ENOENT, -1;
  return real(path, flags, mode);
}
int stat(const char *path, struct stat *st) {
  if (young(path)) return errno = ENOENT, -1;
  return fstatat(AT_FDCWD, path, st, 0);
}
C
  sed -i 's/sleep 0.05;/unset LD_PRELOAD; sleep 0.05;/' flow.atvi
  local pid=() i
  sleep 1.1 # for the design
  for i in 0 1 2; do hand & pid[i]=$!; done
  sleep 2.5
  kill -KILL "${pid[1]}" || { cat log; false; }
  wait
  worker
  unset LD_PRELOAD
  run -0 "$ATVI" run flow.atvi --status
  says "12 of 12 runs are good"
  once
  diff <(content flow-runs | jq -c 'del(.program)') <(content alone | jq -c 'del(.program)')
}

# A study or a calibration run of the cold model; columns without those that differ from run to run.
fits() { "$ATVI" "$1" cold.atvi --replicates 4 --threads 1 --seed 3 "${@:2}"; }
columns() { python3 -c 'import csv, sys
for r in sorted(csv.DictReader(open(sys.argv[1] + "/replicates.csv")), key=lambda r: (r["method"], int(r["replicate"]))):
    r.pop("seconds")
    print(r)' "$1"; }

@test "workers share the fits of a study and of sbc, and are killed" {
  TRUTH=(--truth beta=0.9,gamma=0.3,S0=40 --methods ram,atvi)
  fits study "${TRUTH[@]}" --out alone-study -q
  fits sbc --method ram --out alone-sbc -q
  for command in study sbc; do
    args=("${TRUTH[@]}")
    [ $command = study ] || args=(--method ram)
    args+=(--out "shared-$command")
    local pid=() i
    for i in 0 1 2; do (exec "$ATVI" $command cold.atvi --replicates 4 --threads 1 --seed 3 "${args[@]}" --worker >>log 2>&1) & pid[i]=$!; done
    for i in 0 1 2 0 1 2; do
      sleep "0.$((RANDOM % 9))"
      kill -KILL "${pid[i]}" 2>/dev/null || true
      wait "${pid[i]}" 2>/dev/null || true
      (exec "$ATVI" $command cold.atvi --replicates 4 --threads 1 --seed 3 "${args[@]}" --worker >>log 2>&1) & pid[i]=$!
    done
    sleep 0.2
    run "$ATVI" $command cold.atvi --replicates 4 --threads 1 --seed 3 "${args[@]}"
    [ "$status" -eq 0 ] || fails_with 1 "at work in shared-$command"
    wait
    fits $command "${args[@]}" --worker
    run -0 fits $command "${args[@]}" --status
    says "fits are good"
    not says "not done"
    run -0 fits $command "${args[@]}"
    says "written to"
    [ ! -e shared-$command/shards ] && [ ! -e shared-$command/claims ]
    diff <(columns shared-$command) <(columns alone-$command)
  done
  cmp <(grep -v seconds shared-study/study.csv) <(grep -v seconds alone-study/study.csv)
}

@test "a fit that takes longer than a job goes on in the next" {
  echo "solver rk45 tol 1e-13 maxsteps 1000000" >>cold.atvi # several seconds
  args=(sbc cold.atvi --replicates 1 --threads 1 --seed 3 --method ram --no-compile)
  "$ATVI" "${args[@]}" --out alone -q
  mkdir bin
  printf '#!/bin/sh\necho "$@" >>%s/asked\n' "$PWD" >bin/scontrol
  chmod +x bin/scontrol
  # five seconds are kept free
  SLURM_JOB_ID=77 PATH=$PWD/bin:$PATH run -0 "$ATVI" "${args[@]}" --out parts --worker --until 7s
  says "its time was up" "0 fits done"
  [ "$(cat asked)" = "requeue 77" ]
  ls parts/checkpoint-*
  "$ATVI" "${args[@]}" --out parts --worker
  run -0 "$ATVI" "${args[@]}" --out parts
  diff <(columns parts) <(columns alone)
}

@test "fits are submitted, and a worker that is told to end gives its fit back" {
  printf '#!/bin/sh\nfor i in $(seq "$1"); do "$2" >>log 2>&1 & done\n' >start
  chmod +x start
  run -0 fits sbc --method ram --submit './start {n} {script}' --workers 2 --wait
  says "4 of 4 fits are good"
  run -0 fits sbc --method ram
  says "written to cold-sbc"
  run "$ATVI" sbc cold.atvi --replicates 6 --seed 4 --method ram --worker
  fails_with 2 "another --seed"
  (exec "$ATVI" sbc cold.atvi --replicates 400 --threads 1 --seed 3 --method ram --out long --worker >>log 2>&1) &
  pid=$!
  sleep 1.5
  kill -TERM $pid
  wait $pid || [ $? -eq 130 ]
  run -0 "$ATVI" sbc cold.atvi --replicates 400 --threads 1 --seed 3 --method ram --out long --status
  says "no worker is running" "not done yet"
  run -0 "$ATVI" sbc cold.atvi --replicates 400 --threads 1 --seed 3 --method ram --out long --worker --until 7s
  says "time"
}

@test "workers share the methods of a comparison, are killed, and are submitted" {
  args=(cold.atvi --methods ram,map,atvi,nuts --seed 3)
  "$ATVI" compare "${args[@]}" --out alone -q
  # without its time; pages name the folder
  results() { (cd "$1" && cat */draws.csv */summary.json */scores.json */predict.csv compare.csv compare.json | grep -v seconds); }
  local pid=() i
  args+=(--out shared)
  start() { (exec "$ATVI" compare "${args[@]}" --threads 1 --checkpoint 0.1s --worker >>log 2>&1) & pid[i]=$!; }
  for i in 0 1 2; do start; done
  for i in 0 1 2 0 1 2; do
    sleep "0.$((RANDOM % 9))"
    kill -KILL "${pid[i]}" 2>/dev/null || true
    wait "${pid[i]}" 2>/dev/null || true
    start
  done
  run "$ATVI" compare "${args[@]}"
  [ "$status" -eq 0 ] || fails_with 1 "at work in shared"
  wait
  "$ATVI" compare "${args[@]}" --worker
  run -0 "$ATVI" compare "${args[@]}" --status
  says "4 of 4 fits are good" "folder: shared"
  not says "not done"
  run -0 --separate-stderr "$ATVI" compare "${args[@]}"
  says "written to shared"
  not grep -q "method . of 4" <<<"$stderr" # they were all done
  [ ! -e shared/shards ] && [ ! -e shared/claims ]
  diff <(results shared) <(results alone)
  # a fit that takes longer than a job
  echo "solver rk45 tol 1e-13 maxsteps 1000000" >>cold.atvi
  args=(cold.atvi --methods ram --no-compile --seed 3 --threads 1)
  "$ATVI" compare "${args[@]}" --out long -q
  args+=(--out parts)
  run -0 "$ATVI" compare "${args[@]}" --worker --until 7s
  says "its time was up" "0 fits done"
  [ -s parts/ram/checkpoint ]
  printf '#!/bin/sh\nfor i in $(seq "$1"); do "$2" >>log 2>&1 & done\n' >start
  chmod +x start
  run -0 "$ATVI" compare "${args[@]}" --submit './start {n} {script}' --workers 2 --wait
  says "1 of 1 fits are good"
  run -0 "$ATVI" compare "${args[@]}"
  diff <(results parts) <(results long)
  run "$ATVI" compare cold.atvi --worker
  fails_with 2 "--out is missing"
  run "$ATVI" compare cold.atvi --out long --force --worker
  fails_with 2 "--force: not with workers"
}
