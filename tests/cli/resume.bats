#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Fits and studies that are killed and go on. ATVI_KILLS=50 bats tests/cli/resume.bats kills each kind that many times.
load common

KILLS=${ATVI_KILLS:-2}
brief=(--quiet --no-report --checkpoint 0.1s)

# Draws and how they were made, but for the time it took.
whole() { grep -v '^# seconds' "$1/draws.csv"; }
# Phases and training steps of the history, but for the time.
trace() { cut -d, -f1,4-7 "$1/history.csv" | sort -u; }

# Runs a command in the background and kills it (SIGKILL) after up to $1 seconds; false: it came to its end.
cut_short() { # seconds command...
  local most=$1 pid code=0
  shift
  "$@" >>log 2>&1 3>&- &
  pid=$!
  sleep "$(awk -v most="$most" -v r=$RANDOM 'BEGIN { print 0.1 + most * r / 32768 }')"
  kill -KILL $pid 2>/dev/null || true
  wait $pid || code=$?
  [ $code -eq 137 ] || [ $code -eq 0 ] || { cat log; return 2; }
  [ $code -eq 137 ]
}

# Sets took: the seconds of a command. Kills after that time would miss it.
timed() { # command...
  local begin=$EPOCHREALTIME
  "$@" || return
  took=$(awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }')
}

killed() { # options...
  local took n=0 threads=1 code
  timed "$ATVI" fit cold.atvi --out whole "${brief[@]}" "$@"
  while [ $n -lt "$KILLS" ]; do
    rm -rf run
    code=0
    cut_short "$took" "$ATVI" fit cold.atvi --out run "${brief[@]}" --threads 2 "$@" || code=$?
    while [ $code -eq 0 ]; do
      n=$((n + 1)) threads=$((threads % 3 + 1)) code=0
      [ -e run/checkpoint ] || { rm -rf run; break; } # killed before there was anything
      [ $n -lt "$KILLS" ] || break
      cut_short "$took" "$ATVI" fit --resume run "${brief[@]}" --threads $threads || code=$?
    done
    [ $code -lt 2 ]
    [ ! -e run/checkpoint ] || "$ATVI" fit --resume run "${brief[@]}" --threads $threads
    [ ! -e run ] || diff <(whole run) <(whole whole)
    [ ! -e run ] || diff <(trace run) <(trace whole)
    [ ! -e run/checkpoint ]
  done
}

@test "atvi: killed at random moments, the draws are those of a fit that was not" { killed --no-compile; }
@test "ram: likewise" { killed --method ram --no-compile; }
@test "nuts: likewise" { killed --method nuts --no-compile; }
@test "exact: likewise" { KILLS=${ATVI_KILLS:-1} killed --exact --ess 100; }

@test "a study: likewise, and what was fitted is not fitted again" {
  local took n=0 code
  study=("$ATVI" study cold.atvi --truth "beta=0.9,gamma=0.3,S0=39.5" --replicates 2 --methods "atvi,nuts" --no-compile)
  timed "${study[@]}" --out whole --quiet
  while [ $n -lt "$KILLS" ]; do
    rm -rf run
    while code=0; cut_short "$took" "${study[@]}" --out run --quiet --checkpoint 0.1s --threads $((n % 3 + 1)) || code=$?; [ $code -eq 0 ]; do
      n=$((n + 1))
      [ $n -lt "$KILLS" ] || break
    done
    [ $code -lt 2 ]
    "${study[@]}" --out run --quiet
    timeless() { cut -d, -f1-6,8- "$1"; }
    diff <(timeless run/replicates.csv) <(timeless whole/replicates.csv)
    diff <(grep -v seconds run/study.csv) <(grep -v seconds whole/study.csv)
    [ -z "$(find run -name 'checkpoint*' -o -name 'line-*')" ]
  done
}

@test "sbc, killed: the same ranks" {
  sbc=("$ATVI" sbc cold.atvi --replicates 3 --method nuts --quiet)
  local took
  timed "${sbc[@]}" --out whole
  cut_short "$took" "${sbc[@]}" --out run --checkpoint 0.1s || true
  "${sbc[@]}" --out run --threads 1
  diff run/ecdf.csv whole/ecdf.csv
}

# Starts a fit and interrupts it.
interrupt() { # signal
  local pid code=0
  "$ATVI" fit cold.atvi --out run --quiet --no-compile --threads 1 --method ram --ess 20000 2>err 3>&- &
  pid=$!
  for _ in $(seq 200); do [ ! -e run/checkpoint ] || break; sleep 0.05; done
  sleep 0.5
  kill -"$1" $pid
  wait $pid || code=$?
  [ $code -eq 130 ]
}

@test "SIGTERM: results so far, a checkpoint, and how to go on; then the same draws" {
  interrupt TERM
  grep -q "interrupted; 'atvi fit --resume run' continues it" err
  [ -e run/checkpoint ]
  mkdir elsewhere
  run -0 --separate-stderr env -C elsewhere "$ATVI" fit --resume ../run --no-report # the model is found from anywhere
  says "was interrupted after" "continues from there" "written to ../run"
  "$ATVI" fit cold.atvi --out whole --quiet --no-compile --method ram --ess 20000
  diff <(whole run) <(whole whole)
  run -0 "$ATVI" fit --resume run
  says "run is complete"
}

@test "the same command goes on; another is refused with the reason, and starts again with --force" {
  interrupt KILL || true
  run "$ATVI" fit cold.atvi --out run --no-compile --method ram --ess 20000 --seed 2
  fails_with 1 "run has an interrupted fit, which cannot continue: seed is 2, and was 1" --force
  run "$ATVI" fit cold.atvi --out run --no-compile --method ram --ess 20000 --fix S0=39
  fails_with 1 "--fix is not what it was"
  run -0 --separate-stderr "$ATVI" fit cold.atvi --out run --no-compile --method ram --ess 20000
  says "continues from there"
  [ ! -e run/checkpoint ]
  rm -r run
  interrupt KILL || true
  run -0 --separate-stderr "$ATVI" fit cold.atvi --out run --force --seed 2
  # shellcheck disable=SC2154 # bats sets it
  [[ "$stderr" != *"continues from"* ]]
  "$ATVI" fit cold.atvi --out whole --quiet --seed 2
  diff <(whole run) <(whole whole)
}

@test "another model, other data, another program: refused with the reason" {
  interrupt KILL || true
  cp cold.csv kept
  sed -i '2s/$/0/' cold.csv
  run "$ATVI" fit --resume run
  fails_with 2 "run has an interrupted fit, which cannot continue: a data file has changed"
  cp kept cold.csv
  cp cold.atvi kept
  echo "# more" >>cold.atvi
  run "$ATVI" fit --resume run
  fails_with 2 "the model file has changed"
  cp kept cold.atvi
  cp "$ATVI" other
  echo >>other
  run ./other fit --resume run
  fails_with 2 "it was begun by atvi" "and this is" build
  truncate -s -1 run/checkpoint
  run "$ATVI" fit --resume run
  fails_with 2 "run/checkpoint is not a checkpoint that can be used: it is incomplete, or was changed"
  run -0 "$ATVI" fit cold.atvi --out run --force --quiet
}

@test "a fit that is running is left alone" {
  "$ATVI" fit cold.atvi --out run --quiet --no-compile --threads 1 --method ram --ess 1e5 3>&- &
  pid=$!
  for _ in $(seq 200); do [ ! -e run/checkpoint ] || break; sleep 0.05; done
  run "$ATVI" fit --resume run
  kill -KILL $pid
  wait $pid || true
  fails_with 1 "run: process $pid is working on this fit"
}

@test "what --resume refuses" {
  run "$ATVI" fit --resume none
  fails_with 2 "none has no interrupted fit"
  run "$ATVI" fit --resume none --seed 3
  fails_with 2 "--seed cannot be given with --resume"
  run "$ATVI" fit --resume none --out other
  fails_with 2 "--out cannot be given with --resume"
}
