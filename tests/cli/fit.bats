#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
load common

quick=(--method ram --ess 100 --quiet)
long=(--method ram --ess 1e5 --max-iter 1000000000 --no-compile --threads 1)

draws() { grep -v '^#' "$1/draws.csv"; }
weighted() { grep -v '^#' "$1/weighted.csv"; }

# The exact posterior of cold: beta .8871 (.0348), gamma .2902 (.0255), S0 39.775 (2.010). near FILE SDS
near() {
  json "$1" ".parameters | (.[0].mean - .8871 | fabs) < $2*.0348 and (.[1].mean - .2902 | fabs) < $2*.0255
    and (.[2].mean - 39.775 | fabs) < $2*2.010"
}

@test "fit writes draws and a summary, and prints a table and the folder" {
  run -0 --separate-stderr "$ATVI" fit cold.atvi --seed 1 --out run
  says beta gamma S0 run "log evidence" k-hat "verdict: ok"
  json run/summary.json '.method == "atvi" and .seed == 1 and .verdict == "ok"'
  json run/summary.json '[has("model", "seconds", "evaluations", "failures", "log_map", "log_evidence", "elbo", "khat", "messages",
    "khat_threshold", "weighted", "ess", "efficiency", "modes", "outside", "rungs", "steps", "tuned")] | all'
  json run/summary.json '[.parameters[].name] == ["beta", "gamma", "S0"]'
  json run/summary.json '[.parameters[] | has("mean", "sd", "mode", "median", "hpd95", "quantiles", "ess_bulk", "ess_tail",
    "rhat", "mcse", "near_lower", "near_upper", "reaches_lower", "reaches_upper")] | all'
  json run/summary.json '[.parameters[].reaches_lower] == [false, false, true] and ([.parameters[].reaches_upper] | any | not)'
  json run/summary.json '.parameters[0].quantiles | keys == ["2.5", "25", "50", "75", "97.5"]'
  json run/summary.json '.weighted and .khat < .7 and .khat_threshold == .7 and .rungs >= 1 and .steps >= 1'
  json run/summary.json '(.log_evidence.value + 97.900 | fabs) < 0.03 and .elbo < .log_evidence.value and (.log_map + 94.0 | fabs) < 0.2'
  json run/summary.json '[.parameters[] | .rhat == null and .ess_bulk > 4000] | all'
  near run/summary.json 0.05
}

@test "the draws of an approximation: with weights in one file, without in the other" {
  fit_cold run
  head -n 1 run/weighted.csv | grep -q '^#'
  weighted run | head -n 1 | grep -q '^lp__,log_lik__,chain__,log_prior__,weight__,beta,'
  draws run | head -n 1 | grep -q '^lp__,log_lik__,chain__,log_prior__,beta,'
  not grep -q weight__ run/draws.csv
  # resampled: the effective size, at least 4000, at most all
  local plain all
  plain=$(draws run | tail -n +2 | wc -l)
  all=$(weighted run | tail -n +2 | wc -l)
  [ "$plain" -ge 4000 ] && [ "$plain" -le "$all" ]
  json run/summary.json ".ess <= $all and .ess >= $plain - 1"
  weighted run | awk -F, 'NR > 1 { sum += $5; b += $5 * $6 } END { exit !(sum > 1 - 1e-9 && sum < 1 + 1e-9) }'
  draws run | awk -F, 'NR > 1 { b += $5 } END { m = b / (NR - 1); exit !(m > .8871 - .1*.0348 && m < .8871 + .1*.0348) }'
}

@test "summary prints what fit printed" {
  for method in atvi ram map; do
    run -0 --separate-stderr "$ATVI" fit cold.atvi --method $method --out $method
    # shellcheck disable=SC2154 # bats sets output
    head -n -3 <<<"$output" >told # without the folder and the report
    "$ATVI" summary $method >again
    diff told again
    "$ATVI" summary $method --json | diff - $method/summary.json
  done
}

@test "--method ram" {
  run -0 --separate-stderr "$ATVI" fit cold.atvi --method ram --seed 1 --out run
  says beta gamma S0 run R-hat
  json run/summary.json '.method == "ram" and .verdict == "ok" and .log_evidence == null and .khat == null'
  json run/summary.json '[.parameters[] | .ess_bulk > 1000 and .ess_tail > 1000 and .rhat < 1.01] | all'
  near run/summary.json 0.15 # allows for ESS 1000
  draws run | head -n 1 | grep -q '^lp__,log_lik__,'
  [ "$(draws run | wc -l)" -gt 1000 ]
  [ ! -e run/weighted.csv ]
}

@test "--method nf and copula" {
  for method in nf copula; do
    "$ATVI" fit cold.atvi --method $method --out $method --quiet
    json $method/summary.json ".method == \"$method\" and .khat != null and .elbo != null and .rungs == 1"
    weighted $method | head -n 1 | grep -q weight__
    near $method/summary.json 0.3
  done
}

@test "--ladder, --freeze, --map, --tune" {
  "$ATVI" fit cold.atvi --ladder 3,1 --freeze --map logit --tune off --out run --quiet
  json run/summary.json '.rungs == 2 and .tuned == null'
  json run/fit.json '.ladder == "3,1" and .freeze and .map == "logit" and .tune == "off"'
  # a seed with which nothing is missing: tuning is for a single component
  "$ATVI" fit cold.atvi --ladder none --map probit --tune on --seed 5 --out other --quiet
  json other/summary.json '.rungs == 1 and .tuned != null'
}

@test "wrong settings are named, and nothing is written" {
  run "$ATVI" fit cold.atvi --method magic --out run
  fails_with 2 magic atvi nf copula ram map
  run "$ATVI" fit cold.atvi --ladder 1,3 --out run
  fails_with 2 "ladder 1,3" fall
  run "$ATVI" fit cold.atvi --ladder 3,2 --out run
  fails_with 2 "ladder 3,2" "not 1"
  run "$ATVI" fit cold.atvi --ladder steep --out run
  fails_with 2 "ladder steep"
  run "$ATVI" fit cold.atvi --freeze --out run
  fails_with 2 freeze "3,1"
  run "$ATVI" fit cold.atvi --method ram --ladder 3,1 --out run
  fails_with 2 ladder ram
  run "$ATVI" fit cold.atvi --map mercator --out run
  fails_with 2 "map mercator" surjection
  run "$ATVI" fit cold.atvi --tune never --out run
  fails_with 2 "tune never" off
  run "$ATVI" fit cold.atvi --chains 4 --out run
  fails_with 2 chains atvi
  run "$ATVI" fit cold.atvi --method map --ess 1000 --out run
  fails_with 2 ess map
  run "$ATVI" fit cold.atvi --method map --max-iter 1000 --out run
  fails_with 2 max_iter map
  run "$ATVI" fit cold.atvi --ess 2e6 --out run
  fails_with 2 "ess 2e+06" "at most 1e+06"
  [ ! -e run ]
}

@test "a fit without weights leaves none of an earlier one" {
  fit_cold run
  [ -e run/weighted.csv ]
  "$ATVI" fit cold.atvi --out run --force "${quick[@]}"
  [ ! -e run/weighted.csv ]
  "$ATVI" summary run --json | diff - run/summary.json
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

@test "the same files on one and on two threads, others with another seed" {
  for method in atvi ram; do
    "$ATVI" fit cold.atvi --method $method --seed 7 --threads 1 --out one --force --quiet
    "$ATVI" fit cold.atvi --method $method --seed 7 --threads 2 --out two --force --quiet
    cmp <(grep -v '^# seconds' one/draws.csv) <(grep -v '^# seconds' two/draws.csv)
    diff <(jq 'del(.seconds)' one/summary.json) <(jq 'del(.seconds)' two/summary.json)
    if [ $method = atvi ]; then
      cmp <(grep -v '^# seconds' one/weighted.csv) <(grep -v '^# seconds' two/weighted.csv)
    fi
    "$ATVI" fit cold.atvi --method $method --seed 8 --threads 2 --out other --force --quiet
    not cmp -s <(draws one) <(draws other)
  done
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
}

@test "--strict: status 3 where the verdict is not ok, 0 without it" {
  for method in atvi ram; do
    run "$ATVI" fit cold.atvi --method $method --max-iter 20 --out run --force --quiet
    [ "$status" -eq 0 ]
    json run/summary.json '.verdict != "ok" and (.messages | length) > 0'
    run "$ATVI" fit cold.atvi --method $method --max-iter 20 --out run --force --quiet --strict
    [ "$status" -eq 3 ]
    json run/summary.json '.verdict != "ok"'
  done
}

@test "--quiet: one line on standard error where the verdict is not ok" {
  for method in atvi ram; do
    run -0 --separate-stderr "$ATVI" fit cold.atvi --method $method --max-iter 20 --out run --force --quiet
    [ "$output" = run ]
    [ "$(wc -l <<<"$stderr")" -eq 1 ]
    [[ "$stderr" == "atvi fit: verdict $(jq -r .verdict run/summary.json): "* ]]
    jq -e --arg line "$stderr" '.messages | any(. as $m | $line | endswith($m))' run/summary.json
  done
}

@test "a seed beyond signed integers stays exact" {
  "$ATVI" fit cold.atvi --method map --seed 18446744073709551615 --out run --quiet 2>/dev/null
  json run/summary.json '.seed == "18446744073709551615"'
  json run/fit.json '.seed == "18446744073709551615"'
  "$ATVI" summary run --json | diff - run/summary.json
  "$ATVI" predict run >/dev/null
  json run/scores.json '.seed == "18446744073709551615"'
  "$ATVI" fit cold.atvi --method map --seed 9223372036854775807 --out other --quiet 2>/dev/null
  grep -q '"seed": 9223372036854775807,' other/fit.json other/summary.json
}

@test "--max-time ends a run and says so" {
  begin=$SECONDS
  run -0 "$ATVI" fit cold.atvi "${long[@]}" --max-time 2s --out run --quiet
  [ $((SECONDS - begin)) -lt 20 ]
  json run/summary.json '.verdict != "ok"'
}

# Makes the model slow enough to be caught in training.
slow() { echo 'solver rk4 step 0.002' >>cold.atvi; }

@test "--max-time in training: draws of the approximation as it was" {
  slow
  run -0 "$ATVI" fit cold.atvi --no-compile --threads 1 --max-time 1s --out run
  says "reached its limit before the approximation was finished" --max-time
  json run/summary.json '.verdict != "ok"'
  weighted run | head -n 1 | grep -q weight__
}

@test "progress: plain lines where there is no terminal, none with --quiet" {
  run -0 --separate-stderr "$ATVI" fit cold.atvi --out run
  [ -n "$stderr" ]
  [[ "$stderr" != *$'\r'* && "$stderr" != *$'\033'* ]]
  run -0 --separate-stderr "$ATVI" fit cold.atvi --out other --quiet
  [ -z "$stderr" ]
  [ "$output" = other ]
}

# interrupted SIGNAL OPTION...: starts a long fit, sends the signal, and looks at what is left
interrupted() {
  local signal=$1
  shift
  "$ATVI" fit cold.atvi "$@" --out run >out.txt 2>err.txt 3>&- &
  local pid=$!
  sleep "${wait:-2}"
  kill "-$signal" $pid
  local code=0
  wait $pid || code=$?
  [ "$code" -eq 130 ] || { echo "status $code"; cat out.txt err.txt; return 1; }
  json run/summary.json '.verdict != "ok" and (.messages | length) > 0'
  [ "$(draws run | wc -l)" -gt 100 ]
  [ "$(draws run | awk -F, '{print NF}' | sort -u | wc -l)" -eq 1 ]
  run -0 "$ATVI" summary run
  says beta
}

@test "Ctrl-C: results so far are written, status 130" { interrupted INT "${long[@]}"; }
@test "SIGTERM: results so far are written, status 130" { interrupted TERM "${long[@]}"; }

@test "Ctrl-C in training: draws of the approximation as it was, and the verdict says so" {
  slow
  wait=1 interrupted INT --no-compile --threads 1
  says "stopped before the approximation was finished; these are its draws up to then"
  weighted run | head -n 1 | grep -q weight__
  json run/summary.json '[.parameters[] | .mean > 0 and .sd > 0] | all'
}

@test "Ctrl-C while the model is compiled: no word of the interpreter" {
  printf '#!/bin/sh\ntouch "%s/begun"\nexec sleep 60\n' "$PWD" >endless-cc
  chmod +x endless-cc
  ATVI_CC=$PWD/endless-cc XDG_CACHE_HOME=$PWD/cache "$ATVI" fit cold.atvi --out run >out.txt 2>err.txt 3>&- &
  local pid=$! code=0
  until [ -e begun ]; do sleep 0.05; done
  kill -INT $pid
  wait $pid || code=$?
  [ $code -eq 130 ] || { echo "status $code"; cat err.txt; return 1; }
  not grep -q interpreter err.txt
}

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

@test "a full disk: reported with its reason, status 1, nothing half-written, the draws kept elsewhere" {
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

@test "a full disk without another: nothing is left of it" {
  unshare -rm true 2>/dev/null || skip "no user namespaces here"
  mkdir small
  cat >go <<'END'
mount -t tmpfs -o size=40k tmpfs small || exit 77
mkdir small/tmp
code=0
TMPDIR=small/tmp "$1" fit cold.atvi --out small/run --quiet || code=$?
echo "status $code, left: $(find small | tr '\n' ' ')."
END
  run unshare -rm bash ./go "$ATVI"
  [ "$status" -ne 77 ] || skip "no tmpfs here"
  says "status 1, left: small small/tmp ." "could not be saved in small/tmp/atvi-rescued-cold either and are lost"
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

@test "the bound of the evidence is not above the evidence" {
  printf 'param a ~ normal(0, 1)\nlogp 0\n' >normal.atvi
  for seed in 1 2 3; do
    "$ATVI" fit normal.atvi --seed $seed --out n$seed --no-report --quiet
    json n$seed/summary.json '.elbo <= .log_evidence.value'
  done
}

@test "training says where no draw can be evaluated, not NaN" {
  printf 't,y\n0.4,0.98613\n1,0.95719\n2,0.93914\n4,0.92473\n7,0.86819\n10,0.85288\n15,0.81397\n20,0.77896\n30,0.73119\n40,0.69971\n' >y.csv
  printf 'param r ~ normal(0, 3)\nparam s ~ halfnormal(1)\nstate X = 1\ndX/dt = r*X^2\nstart 0\ndata "y.csv" time t\nobserve y ~ normal(X, s)\n' >far.atvi
  run -0 --separate-stderr "$ATVI" fit far.atvi --out far --no-report
  [[ "$stderr" != *nan* ]]
}

@test "a model of which hardly any prior draw can be run is fitted" {
  printf 't,y\n0.5,0.8\n1,0.7\n2,0.5\n3,0.4\n' >blow.csv
  printf 'param r ~ normal(3, 1)\nstate X = 1\ndX/dt = r*X^2\ndata "blow.csv" time t\nobserve y ~ normal(X, 0.1)\n' >blow.atvi
  for seed in 1 2 3; do
    run -0 "$ATVI" fit blow.atvi --seed $seed --out "b$seed" --no-report --strict
  done
}
