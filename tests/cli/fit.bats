#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
load common

quick=(--ess 100 --quiet)
long=(--ess 1e5 --max-iter 1000000000 --no-compile --threads 1)

draws() { grep -v '^#' "$1/draws.csv"; }

@test "fit writes draws and a summary, and prints a table and the folder" {
  run -0 --separate-stderr "$ATVI" fit cold.atvi --seed 1 --out run
  says beta gamma S0 run
  json run/summary.json '.method == "ram" and .seed == 1 and .verdict == "ok"'
  json run/summary.json '[has("model", "seconds", "evaluations", "failures", "log_map", "log_evidence", "elbo", "khat", "messages")] | all'
  json run/summary.json '.log_evidence == null and (.log_map + 94.0 | fabs) < 0.2'
  json run/summary.json '[.parameters[].name] == ["beta", "gamma", "S0"]'
  json run/summary.json '[.parameters[] | has("mean", "sd", "mode", "median", "hpd95", "quantiles", "ess_bulk", "ess_tail",
    "rhat", "mcse", "near_lower", "near_upper")] | all'
  json run/summary.json '.parameters[0].quantiles | keys == ["2.5", "25", "50", "75", "97.5"]'
  # the exact posterior: beta .8871 (.0348), gamma .2902 (.0255), S0 39.775 (2.010); 0.15 sd allows for ESS 1000
  json run/summary.json '.parameters | (.[0].mean - .8871 | fabs) < .15*.0348 and (.[1].mean - .2902 | fabs) < .15*.0255
    and (.[2].mean - 39.775 | fabs) < .15*2.010'
  json run/summary.json '[.parameters[] | .ess_bulk > 1000 and .ess_tail > 1000 and .rhat < 1.01] | all'
  head -n 1 run/draws.csv | grep -q '^#'
  draws run | head -n 1 | grep -q '^lp__,log_lik__,'
  [ "$(draws run | wc -l)" -gt 1000 ]
}

@test "an existing folder is left alone without --force" {
  mkdir run
  echo mine >run/summary.json
  run "$ATVI" fit cold.atvi --out run "${quick[@]}"
  fails_with 1 run --force
  [ "$(cat run/summary.json)" = mine ]
  run -0 "$ATVI" fit cold.atvi --out run --force "${quick[@]}"
  json run/summary.json '.method == "ram"'
}

@test "without --out: numbered folders, and summary takes the newest" {
  run -0 --separate-stderr "$ATVI" fit cold.atvi --seed 4 "${quick[@]}"
  says cold-001
  run -0 --separate-stderr "$ATVI" fit cold.atvi --seed 5 "${quick[@]}"
  says cold-002
  run -0 "$ATVI" summary cold-001 --json
  [ "$(jq .seed <<<"$output")" -eq 4 ]
  run -0 "$ATVI" summary cold.atvi --json
  [ "$(jq .seed <<<"$output")" -eq 5 ]
  run -0 "$ATVI" summary cold.atvi
  says beta gamma S0
}

@test "summary of what is not there" {
  run "$ATVI" summary nowhere
  fails_with 2 nowhere
  run "$ATVI" summary cold.atvi
  fails_with 2 cold
  mkdir empty
  run "$ATVI" summary empty
  fails_with 1 empty
}

@test "the same draws on one and on two threads, others with another seed" {
  "$ATVI" fit cold.atvi --seed 7 --threads 1 --out one "${quick[@]}"
  "$ATVI" fit cold.atvi --seed 7 --threads 2 --out two "${quick[@]}"
  cmp <(draws one) <(draws two)
  "$ATVI" fit cold.atvi --seed 8 --threads 2 --out other "${quick[@]}"
  not cmp -s <(draws one) <(draws other)
}

@test "--fix holds a parameter" {
  "$ATVI" fit cold.atvi --fix S0=38 --out run "${quick[@]}"
  json run/summary.json '[.parameters[].name] == ["beta", "gamma"]'
  run "$ATVI" fit cold.atvi --fix T0=38 --out other "${quick[@]}"
  fails_with 2 T0
  [ ! -e other ]
}

@test "--method map" {
  run -0 "$ATVI" fit cold.atvi --method map --out run
  json run/summary.json '.method == "map" and (.log_map + 94.0 | fabs) < 0.1'
  run "$ATVI" fit cold.atvi --method magic --out other
  fails_with 2 magic
  [ ! -e other ]
}

@test "--strict: status 3 where the verdict is not ok, 0 without it" {
  run "$ATVI" fit cold.atvi --max-iter 40 --out run --quiet
  [ "$status" -eq 0 ]
  json run/summary.json '.verdict != "ok" and (.messages | length) > 0'
  run "$ATVI" fit cold.atvi --max-iter 40 --out again --quiet --strict
  [ "$status" -eq 3 ]
  json again/summary.json '.verdict != "ok"'
}

@test "--max-time ends a run and says so" {
  begin=$SECONDS
  run -0 "$ATVI" fit cold.atvi "${long[@]}" --max-time 2s --out run --quiet
  [ $((SECONDS - begin)) -lt 20 ]
  json run/summary.json '.verdict != "ok"'
}

@test "progress: plain lines where there is no terminal, none with --quiet" {
  run -0 --separate-stderr "$ATVI" fit cold.atvi --ess 100 --out run
  [ -n "$stderr" ]
  [[ "$stderr" != *$'\r'* && "$stderr" != *$'\033'* ]]
  run -0 --separate-stderr "$ATVI" fit cold.atvi --ess 100 --out other --quiet
  [ -z "$stderr" ]
  [ "$output" = other ]
}

# interrupted SIGNAL: starts a long fit, sends the signal, and looks at what is left
interrupted() {
  "$ATVI" fit cold.atvi "${long[@]}" --out run >out.txt 2>err.txt 3>&- &
  local pid=$!
  sleep 2
  kill "-$1" $pid
  local code=0
  wait $pid || code=$?
  [ "$code" -eq 130 ] || { echo "status $code"; cat out.txt err.txt; return 1; }
  json run/summary.json '.verdict != "ok" and (.messages | length) > 0'
  [ "$(draws run | wc -l)" -gt 100 ]
  [ "$(draws run | awk -F, '{print NF}' | sort -u | wc -l)" -eq 1 ]
  run -0 "$ATVI" summary run
  says beta
}

@test "Ctrl-C: what there is is written, status 130" { interrupted INT; }
@test "SIGTERM: what there is is written, status 130" { interrupted TERM; }

@test "a killed run leaves what was there before" {
  "$ATVI" fit cold.atvi --seed 11 --out run "${quick[@]}"
  "$ATVI" fit cold.atvi --seed 12 "${long[@]}" --out run --force --quiet 3>&- &
  local pid=$!
  sleep 1.5
  kill -KILL $pid
  wait $pid || true
  json run/summary.json '.seed == 11'
  [ "$(draws run | awk -F, '{print NF}' | sort -u | wc -l)" -eq 1 ]
}

@test "a full disk: told with its reason, status 1, nothing half-written, the draws kept elsewhere" {
  unshare -rm true 2>/dev/null || skip "no user namespaces here"
  mkdir small
  cat >go <<'END'
mount -t tmpfs -o size=40k tmpfs small || exit 77
code=0
"$1" fit cold.atvi --out small/run --quiet || code=$?
echo "status $code, left: $(ls -A small/run 2>/dev/null)."
END
  TMPDIR=$PWD run unshare -rm bash ./go "$ATVI"
  [ "$status" -ne 77 ] || skip "no tmpfs here"
  says "status 1, left: ." "No space left" small/run atvi-rescued-cold-001
  json atvi-rescued-cold-001/summary.json '.verdict == "ok"'
  [ "$(draws atvi-rescued-cold-001 | wc -l)" -gt 1000 ]
}

@test "a folder that cannot be made" {
  echo >file
  run "$ATVI" fit cold.atvi --out file/run "${quick[@]}"
  fails_with 1 file/run
}

@test "mistakes are found before anything is written" {
  sed -i 's/^observe infected/observe infacted/' cold.atvi
  run "$ATVI" fit cold.atvi --out run
  fails_with 2 infacted
  [ ! -e run ]
}
