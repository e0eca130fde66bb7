#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
load common
load flow

teardown() { umount disk 2>/dev/null || true; }
runs=flow-runs/runs.jsonl
count() { tail -n +2 $runs | jq -s "[.[] | select($1)] | length"; }
# No process of this test is left: they all have its folder as working folder.
nothing_runs() {
  local p
  for p in /proc/[0-9]*/cwd; do
    [[ $(readlink "$p") == "$BATS_TEST_TMPDIR"/flow-runs/* ]] && { echo "left: $p"; return 1; }
  done
  return 0
}

@test "runs are recorded, and not done again" {
  model 'echo x >> ../../../count; echo {k}; echo {m}'
  run -0 --separate-stderr "$ATVI" run flow.atvi --jobs 2
  says "20 of 20 runs are good" "20 done now"
  [ "$(count '.outcome == "ok" and .outputs.flow.value == [.parameters.k, .parameters.m]')" -eq 20 ]
  [ ! -e flow-runs/work ]
  cp $runs before
  run -0 "$ATVI" run flow.atvi
  says "nothing left to do"
  cmp $runs before
  "$ATVI" design flow.atvi -n 30 -q
  run -0 "$ATVI" run flow.atvi -q
  says flow-runs
  [ "$(wc -l <count)" -eq 30 ]
  head -n 21 $runs | cmp - before
}

@test "one simulator in shell, Python and C" {
  cp "$TOP"/examples/program/* .
  cc -O2 -o reservoir reservoir.c -lm
  for m in shell python c; do
    "$ATVI" design $m.atvi -n 12 -q
    run -0 "$ATVI" run $m.atvi --strict
    says "12 of 12 runs are good"
    tail -n +2 $m-runs/runs.jsonl | jq -s 'sort_by(.id) | map(.outputs.flow)' >$m.json
  done
  json shell.json 'length == 12 and ([.[].time] | unique) == [[range(1; 49)]]'
  for m in python c; do # printed with 12 digits
    run -0 jq -n --slurpfile a shell.json --slurpfile b $m.json '[$a[0], $b[0]] | map([.[].value[]]) | transpose
      | map((.[0] - .[1]) / .[0] | fabs) | max < 1e-9'
    [ "$output" = true ]
  done
}

@test "killed at five random moments: nothing recorded is lost or done twice, and the record can be read" {
  N=120 model 'echo $ATVI_RUN >> ../../../begun; sleep 0.01; seq 1 400; echo {k}'
  : >begun
  for i in 1 2 3 4 5; do
    "$ATVI" run flow.atvi --jobs 4 -q >/dev/null 2>&1 &
    pid=$!
    sleep "0.$((RANDOM % 25 + 10))"
    kill -KILL $pid 2>/dev/null || true
    wait $pid || true
    # every complete line is a run, good, and there once
    [ -s $runs ] || continue
    tail -n +2 $runs | head -n "$(($(wc -l <$runs) - 1))" >lines
    jq -se '([.[].id] | length == (unique | length)) and all(.outcome == "ok" and (.outputs.flow.value | length) == 401)' lines
    sort lines >"lines.$i"
    # what was recorded at the kill before is there still
    [ "$i" -eq 1 ] || [ ! -e lines.$((i - 1)) ] || [ -z "$(comm -23 lines.$((i - 1)) "lines.$i")" ]
    jq .id lines | sort >recorded
    cp begun "begun.$i"
    cp recorded "recorded.$i"
  done
  run -0 "$ATVI" run flow.atvi --jobs 4
  says "120 of 120 runs are good"
  [ "$(count true)" -eq 120 ]
  # nothing that was recorded at a kill was begun again later
  for i in 1 2 3 4 5; do
    [ -e "recorded.$i" ] || continue
    tail -n +$(($(wc -l <"begun.$i") + 1)) begun | sort >later
    [ -z "$(comm -12 later "recorded.$i")" ]
  done
  nothing_runs
}

@test "a simulator that crashes on some points, hangs and prints garbage" {
  model 'case $ATVI_RUN in 3|13) echo no convergence >&2; kill -SEGV $$;; 7) sleep 100;; 9) head -c 3000 /dev/urandom;; 11) echo nan;; *) echo {k};; esac' 'limit 1 s'
  run -0 --separate-stderr "$ATVI" run flow.atvi --keep-failed
  says "15 of 20 runs are good, 5 failed" "run 3: ended by signal 11" "no convergence" "run 7: it took longer than its limit of 1 s" "k = " \
    "just 'nan'" "--retry-failed"
  [ -d flow-runs/failed/000007 ] && [ ! -d flow-runs/failed/000001 ]
  [ "$(count '.outcome == "failed" and .reason != "" and .parameters.k > 0')" -eq 5 ]
  nothing_runs
  run -3 "$ATVI" run flow.atvi --strict
  says "5 failed"
  # mended
  sed -i 's/case .* esac/echo {k}/' flow.atvi
  run -0 "$ATVI" run flow.atvi --retry-failed
  says "20 of 20 runs are good" "5 done now" warning
}

@test "a missing program is reported at once" {
  N=400 model './nowhere {k}'
  run "$ATVI" run flow.atvi
  fails_with 1 "cannot be started" "nowhere" "Nothing was recorded"
  [ "$(wc -l <$runs)" -eq 1 ]
  model 'no-such-program {k}'
  run "$ATVI" run flow.atvi
  fails_with 1 "not found"
}

@test "the times are those of most runs, whoever ends first" {
  model 'if [ $ATVI_RUN -le 2 ]; then echo {k}; else sleep 0.02; echo {k}; echo {m}; fi'
  run -0 --separate-stderr "$ATVI" run flow.atvi --jobs 4
  says "18 of 20 runs are good, 2 failed" "run 1: at other times than most runs: flow: 1 values, but run 3 has 2"
  printf 'y\n0.5\n3\n' >obs.csv
  run -0 "$ATVI" emulate flow.atvi
  says "18 runs"
  sed -i 's/-le 2/-le 0/' flow.atvi
  run -0 "$ATVI" run flow.atvi --retry-failed
  says "20 of 20 runs are good" "2 done now"
  model 'seq 1 $ATVI_RUN; echo {k}'
  run "$ATVI" run flow.atvi
  fails_with 1 "do not have the same times" "9 of the good ones" "--runs"
  [ "$(count '.outcome == "ok"')" -lt 14 ]
}

@test "points for which a script ends with 127 are recorded" {
  model '[ $ATVI_RUN -lt 6 ] || exit 127; echo {k}'
  sed -i '9,$d' flow-runs/design.csv # a header, a comment and 6 points
  run -0 "$ATVI" run flow.atvi
  says "5 of 6 runs are good, 1 failed"
  "$ATVI" design flow.atvi -n 9 -q
  run -0 "$ATVI" run flow.atvi
  says "5 of 9 runs are good, 4 failed" "run 9: ended with status 127"
}

@test "runs whose point is gone from the design stay in the emulator" {
  model 'echo {k}; echo {m}'
  "$ATVI" run flow.atvi -q
  sed -i '$d' flow-runs/design.csv
  printf 'y\n0.5\n3\n' >obs.csv
  run -0 "$ATVI" emulate flow.atvi
  says "20 runs"
}

@test "a program that never works is given up" {
  N=400 model 'echo no license >&2; exit 7 # {k}'
  run "$ATVI" run flow.atvi --jobs 2
  fails_with 1 "none of the first 10 runs" "status 7" "no license"
  [ "$(wc -l <$runs)" -lt 20 ]
}

@test "an output that is described wrongly is reported after three runs" {
  N=40 model 'echo a,b; echo {k},{m}'
  sed -i 's/from stdout csv/& column c/' flow.atvi
  run "$ATVI" run flow.atvi --jobs 1
  fails_with 1 "none of the first 3 runs was good" "flow:" "--retry-failed"
  [ "$(count '.outcome == "failed"')" -eq 3 ]
  sed -i 's/column c/column b/' flow.atvi
  run -0 "$ATVI" run flow.atvi --retry-failed
  says "40 of 40 runs are good"
}

@test "a full disk is reported, and what is good is kept" {
  mkdir disk
  mount -t tmpfs -o size=200k none disk 2>/dev/null || skip "needs root"
  N=60 model 'seq 1 1000; echo {k}' # 60 x 4 kB and 60 folders
  mv flow-runs/design.csv disk
  run "$ATVI" run flow.atvi --runs disk --jobs 2
  cp disk/runs.jsonl .
  umount disk
  fails_with 1 "good runs of 60 are recorded"
  grep -E "No space left|disk is full" <<<"$output"
  [ "$(tail -c 1 runs.jsonl | od -An -tx1)" = " 0a" ]
  jq -se 'length > 5 and all(.record or .outcome == "ok")' runs.jsonl
}

@test "Ctrl-C ends the programs and keeps what was done" {
  N=40 model 'echo $$ >> ../../../pids; [ $ATVI_RUN -lt 5 ] || sleep 100; echo {k}'
  "$ATVI" run flow.atvi --jobs 4 >out 2>&1 &
  pid=$!
  for _ in $(seq 100); do [ "$(wc -l <pids || echo 0)" -ge 8 ] && break; sleep 0.05; done 2>/dev/null
  kill -INT $pid
  status=0
  wait $pid || status=$?
  output=$(cat out)
  [ "$status" -eq 130 ]
  says "4 of 40 runs are good" "36 not done yet" interrupted
  [ "$(count '.outcome == "ok"')" -eq 4 ]
  nothing_runs
  [ ! -e flow-runs/work ]
}

@test "only one at a time" {
  model 'sleep 1; echo {k}'
  "$ATVI" run flow.atvi --jobs 20 -q &
  sleep 0.4
  run "$ATVI" run flow.atvi
  fails_with 1 "another atvi"
  wait
  [ "$(count '.outcome == "ok"')" -eq 20 ]
}

@test "options take the place of the model's settings" {
  model 'sleep 0.6; echo {k}' 'limit 1 h'
  N=2 model 'echo x >> ../../../tries.$ATVI_RUN; [ $(wc -l < ../../../tries.$ATVI_RUN) -ge 3 ] || exit 1; echo {k}'
  run -0 "$ATVI" run flow.atvi --retries 2
  says "2 of 2 runs are good"
  N=2 model 'sleep 5; echo {k}' 'limit 1 h'
  run -0 "$ATVI" run flow.atvi --limit 0.2s
  says "limit of 0.2 s"
  run "$ATVI" run flow.atvi --retries -1
  fails_with 2 retries
}

@test "wrong models and folders" {
  model 'echo {k}'
  rm -r flow-runs
  run "$ATVI" run flow.atvi
  fails_with 2 "atvi design flow.atvi -n"
  run "$ATVI" run cold.atvi
  fails_with 2 "no simulator"
  "$ATVI" design flow.atvi -n 4 -q
  "$ATVI" run flow.atvi -q
  sed -i 's/echo {k}/echo {k} {m}/' flow.atvi
  "$ATVI" design flow.atvi -n 4 -q --runs other
  run "$ATVI" run flow.atvi
  fails_with 2 "no column m"
  cp other/design.csv flow-runs
  run "$ATVI" run flow.atvi
  fails_with 2 "other parameters"
  echo garbage >>other/runs.jsonl
  run "$ATVI" run flow.atvi --runs other
  fails_with 2 "runs.jsonl:1:1"
  printf 'k = {kk}\n' >t.tmpl
  cp flow.atvi good.atvi
  run model 'echo {m}' 'template "t.tmpl" to "t"' # k would not be part of the design
  fails_with 2 "t.tmpl:1:5" kk "did you mean {k}?"
  [ ! -e flow-runs ]
  sed -i '/^  template/s/t.tmpl/none.tmpl/' flow.atvi
  run "$ATVI" design flow.atvi -n 4
  fails_with 2 "flow.atvi:7:" "none.tmpl"
  printf 'k = {k}\n' >t.tmpl
  model 'echo {m}' 'template "t.tmpl" to "t"'
  [ "$(head -n 1 flow-runs/design.csv)" = id,k,m ]
  printf 'k = {kk}\n' >t.tmpl
  run "$ATVI" run flow.atvi
  fails_with 2 "t.tmpl:1:5" "did you mean {k}?"
  printf 'k = {s2}\n' >t.tmpl
  sed -i '/^  template/s/$/\n  inputs k, m/' flow.atvi
  run "$ATVI" run flow.atvi
  fails_with 2 "t.tmpl has the field {s2}, which is not among the inputs"
}

@test "what most failures are, and where a script is looked for" {
  model 'if [ $ATVI_RUN -gt 5 ]; then exit 7; fi; echo {k}; if [ $ATVI_RUN -eq 4 ]; then exit 8; fi'
  run -0 "$ATVI" run flow.atvi
  says "4 of 20 runs are good, 16 failed" "most often (15 of 16): ended with status 7"
  model 'awk -f script.awk {k} {m}' ''
  run "$ATVI" run flow.atvi
  fails_with 1 "none of the first 10 runs was good" "{here}"
}

@test "the manual page of run fits 80 columns" {
  run -0 "$ATVI" run --help
  says NAME SYNOPSIS DESCRIPTION OPTIONS FILES FAILURES SIGNALS "EXIT STATUS" EXAMPLES
  not grep -E '^.{81,}$' <<<"$output"
  [ "$output" = "$("$ATVI" help run)" ]
}

@test "a worker that answers NaN loses the run, not its life, and every output counts" {
  cat >w.py <<'P'
import json, os, sys
print(os.getpid(), file=open("../../../pids", "a"))
for line in sys.stdin:
    k = json.loads(line)["k"]
    flow = [k, float("nan") if k > 0.8 else 1.0]
    if k < 0.2:
        flow.append(2.0)
    print(json.dumps({"error": "one\ntwo"} if 0.4 < k < 0.5 else {"peak": k, "flow": flow}), flush=True)
P
  cat >flow.atvi <<'M'
param k ~ uniform(0, 1)
param s2 ~ invgamma(2, 1)
simulator {
  command "python3 {here}/w.py"
  worker
  output peak
  output flow
}
data "obs.csv"
observe y ~ emulator(peak) + white(s2)
M
  printf 'y\n0.3\n' >obs.csv
  "$ATVI" design flow.atvi -n 20 -q
  run -0 --separate-stderr "$ATVI" run flow.atvi --jobs 1
  says "10 of 20 runs are good, 10 failed" "flow: number 2 of flow is not a finite number" "the worker says: one two" \
    "at other times than most runs: flow: 3 values"
  [ "$(wc -l <pids)" -eq 1 ]
  # what was told as failed is in no emulator, not even in that of an output that is there
  run -0 "$ATVI" emulate flow.atvi --test 0
  says "peak: 10 runs" "10 failed runs are not among the 10 used"
}

@test "elements of arrays in the command, and a name that the design has already" {
  cat >flow.atvi <<'M'
param theta[1..2] ~ uniform(0, 1)
param s2 ~ invgamma(2, 1)
simulator {
  command "echo {theta[2]} {theta.1}"
  output flow from stdout columns column 1
}
data "obs.csv"
observe y ~ emulator(flow) + white(s2)
M
  "$ATVI" design flow.atvi -n 5 -q
  "$ATVI" run flow.atvi -q
  [ "$(count '.outcome == "ok" and .outputs.flow.value == [.parameters["theta.2"]]')" -eq 5 ]
  sed 's/theta\[1..2\]/id/; s/{theta.*}"/{id}"/' flow.atvi >id.atvi
  run "$ATVI" design id.atvi -n 5
  fails_with 2 "id.atvi:1:7: error: an input of the simulator cannot be called 'id'"
  [ ! -e id-runs ]
  sed 's/theta\[1..2\]/PATH/; s/{theta.*}"/$PATH"\n  send environment/' flow.atvi >path.atvi
  run "$ATVI" design path.atvi -n 5
  fails_with 2 "path.atvi:3:1: error: the parameter 'PATH' would take the place of an environment variable"
}

@test "every run failed: it says so even if quiet, and why" {
  N=4 model ': {k} {m}; exit 3'
  run -0 --separate-stderr "$ATVI" run flow.atvi -q
  [ "$output" = flow-runs ]
  says "all 4 runs failed: ended with status 3"
  N=4 model ': {k} {m}; echo nan'
  sed -i 's/stdout csv/stdout columns column 1/' flow.atvi
  run "$ATVI" run flow.atvi -q
  says "'nan', which is not a finite number"
}

@test "a simulator that removes the record is noticed" {
  N=4 model ': {k} {m}; rm -f ../../runs.jsonl; echo 1'
  run -1 "$ATVI" run flow.atvi -q
  says "runs.jsonl was removed"
}

@test "folders nested deeply are removed" {
  N=2 model ': {k} {m}; for i in $(seq 300); do mkdir d && cd d && touch f; done; echo 1'
  run -0 "$ATVI" run flow.atvi -q
  [ ! -e flow-runs/work ]
}

@test "a number of a run that is too large: the limit is given" {
  N=2 model ': {k} {m}; echo 1'
  sed -i '$s/^[0-9]*/1000000000/' flow-runs/design.csv
  run -2 "$ATVI" run flow.atvi -q
  says "from 1 to 10000000"
}

@test "descriptors that we lack are no failure of the point" {
  command -v cc >/dev/null || skip "no C compiler here"
  cat >emfile.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
int open(const char *path, int how, ...) {
  int (*next)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
  if ((how & O_ACCMODE) == O_RDONLY && strstr(path, "stdout.txt")) return errno = EMFILE, -1;
  return next(path, how, 0666);
}
C
  cc -shared -fPIC -w -o emfile.so emfile.c -ldl
  N=2 model ': {k} {m}; echo 1'
  LD_PRELOAD=$PWD/emfile.so run -1 "$ATVI" run flow.atvi -q
  says "Too many open files" "the same command goes on"
  [ "$(count '.outcome == "failed"')" -eq 0 ]
  run -0 "$ATVI" run flow.atvi
  says "2 of 2 runs are good"
}

@test "without a process to guard them the programs run, and it says so" {
  command -v cc >/dev/null || skip "no C compiler here"
  cat >fork.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sys/types.h>
static int calls;
pid_t fork(void) {
  pid_t (*next)(void) = (pid_t (*)(void))dlsym(RTLD_NEXT, "fork");
  return calls++ ? next() : (errno = EAGAIN, -1);
}
C
  cc -shared -fPIC -w -o fork.so fork.c -ldl
  N=2 model ': {k} {m}; echo 1'
  LD_PRELOAD=$PWD/fork.so run -0 --separate-stderr "$ATVI" run flow.atvi
  says "2 of 2 runs are good" "no process to end the programs if atvi itself is killed"
}
