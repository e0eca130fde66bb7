#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# One fit on several processes.
load common

setup() {
  command -v mpirun >/dev/null || skip "no mpirun"
  [ -e "$(dirname "$ATVI")/atvi_mpi.so" ] || skip "built without MPI"
  cp "$TOP"/examples/cold/cold.* "$BATS_TEST_TMPDIR"
  cd "$BATS_TEST_TMPDIR" || return 1
}

ranks() { # number command...
  timeout 120 mpirun --allow-run-as-root --oversubscribe -n "$@"
}

draws() { grep -v '^# seconds' "$1"; }

# The fit in folder a is that in folder b.
same() {
  diff <(draws "$1/draws.csv") <(draws "$2/draws.csv") && diff -r "$1/groups" "$2/groups" &&
    [ "$(jq 'del(.seconds)' "$1/summary.json")" = "$(jq 'del(.seconds)' "$2/summary.json")" ]
}

# Starts a fit without end on three ranks, into the folder $1; its job is $job, its messages are in the file errors.
begin_long() {
  ranks 3 "$ATVI" fit cold.atvi --method ram --ess 1e5 --max-iter 1000000000 --no-compile --quiet --out "$1" 2>errors &
  job=$!
  for _ in $(seq 300); do
    [ -e "$1/progress.json" ] && break
    sleep 0.1
  done
  sleep 1
}

# The process of rank $2 of the fit into the folder $1.
rank_of() {
  pgrep -f "fit cold.atvi.*--out $1" | while read -r p; do
    tr '\0' '\n' <"/proc/$p/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$2" && echo "$p"
  done
}

@test "four ranks make the draws and predictions of one process: atvi, nuts, ram" {
  for method in atvi nuts ram; do
    "$ATVI" fit cold.atvi --method $method --out one-$method --quiet
    run -0 --separate-stderr ranks 4 "$ATVI" fit cold.atvi --method $method --out four-$method --quiet
    [ "$output" = four-$method ]
    same one-$method four-$method
  done
  diff <(draws one-atvi/weighted.csv) <(draws four-atvi/weighted.csv)
}

@test "ranks evaluate units, held parameters and held-out rows" {
  cp "$TOP"/examples/pk/*.* .
  quick=(--method ram --ess 50 --chains 8 --max-iter 200 --quiet)
  "$ATVI" fit pk.atvi "${quick[@]}" --out one
  ranks 3 "$ATVI" fit pk.atvi "${quick[@]}" --out three
  same one three
  "$ATVI" fit cold.atvi --fix S0=40 --holdout 'day > 15' --quiet --out held
  ranks 3 "$ATVI" fit cold.atvi --fix S0=40 --holdout 'day > 15' --quiet --out held-3
  same held held-3
}

@test "ranks evaluate units for fits unit by unit, and alternatives of a density" {
  seq 40 | awk 'BEGIN { print "town,y" } { print "t" $1 "," $1 % 5 }' >counts.csv
  cut -d, -f1 counts.csv >towns.csv
  printf 'param mu ~ normal(0, 2)\nparam tau ~ halfnormal(1)\neach town from "towns.csv" {\n  param theta ~ normal(mu, tau)\n' >towns.atvi
  printf '  data "counts.csv"\n  observe y ~ poisson(exp(theta))\n}\n' >>towns.atvi
  printf 'param x ~ normal(0, 5)\nlogp log_sum_exp(-0.5*((x - 3)/0.1)^2, -0.5*(x + 3)^2)\n' >two.atvi
  for m in towns two; do
    "$ATVI" fit $m.atvi --quiet --out $m-1
    ranks 3 "$ATVI" fit $m.atvi --quiet --out $m-3
    same $m-1 $m-3
  done
}

@test "mistakes are reported once, with the status of a single process" {
  echo 'param' >bad.atvi
  run -2 --separate-stderr ranks 3 "$ATVI" fit bad.atvi
  # shellcheck disable=SC2154 # bats sets stderr
  [ "$(grep -c 'bad.atvi:1' <<<"$stderr")" -eq 1 ]
  run -2 --separate-stderr ranks 3 "$ATVI" fit cold.atvi --nonsense
  [ "$(grep -c 'unknown option' <<<"$stderr")" -eq 1 ]
}

@test "a rank that is killed ends the job, with a message" {
  begin_long killed
  kill -KILL "$(rank_of killed 2)"
  wait "$job" || status=$?
  [ "$status" -eq 137 ]
  grep 'rank 2 .*signal 9' errors
  not pgrep -f "fit cold.atvi.*--out killed"
}

@test "a rank that cannot read the model, or reads another one, ends the job and says which" {
  # shellcheck disable=SC2016 # the shell of each rank expands it
  each=(sh -c 'exec 3<model.$OMPI_COMM_WORLD_RANK; exec "$0" fit /proc/self/fd/3 --folder . --out other --quiet' "$ATVI")
  cp cold.atvi model.0
  cp cold.atvi model.1
  echo 'param' >model.2
  run --separate-stderr ranks 3 "${each[@]}"
  fails_with 1 "rank 2" "expected a name"
  sed 's/0\.001/0.002/' cold.atvi >model.2
  run --separate-stderr ranks 3 "${each[@]}"
  fails_with 1 "rank 2 on" "differs from that of rank 0"
}

@test "SIGTERM to rank 0 writes results so far" {
  begin_long ended
  kill -TERM "$(rank_of ended 1)" # nothing: rank 0 decides
  kill -TERM "$(rank_of ended 0)"
  wait "$job" || status=$?
  [ "$status" -eq 130 ]
  grep -q '^# ' ended/draws.csv
  json ended/summary.json '[.messages[] | contains("stopped before it was finished")] | any'
}

@test "ranks with different commands make a fit each" {
  # shellcheck disable=SC2016
  ranks 2 sh -c 'exec "$0" fit cold.atvi --seed $OMPI_COMM_WORLD_RANK --out s$OMPI_COMM_WORLD_RANK --method ram --ess 50 --quiet' "$ATVI"
  json s0/summary.json '.seed == 0'
  json s1/summary.json '.seed == 1'
}

@test "without the MPI part, processes make a fit each and say so" {
  cp "$ATVI" alone
  run -0 --separate-stderr ranks 2 ./alone fit cold.atvi --method ram --ess 50 --quiet
  says "2 processes were started" docs/mpi.md cold-001 cold-002
}

@test "the program itself needs no MPI" {
  not grep -q libmpi <(ldd "$ATVI")
}
