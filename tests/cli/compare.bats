#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
load common

draws() { grep -v '^#' "$1/draws.csv"; }

@test "the cold by every method: one table, and all agree" {
  run -0 --separate-stderr "$ATVI" compare cold.atvi --out c
  says "atvi " nf copula ram nuts exact beta gamma S0 R0 distance "k-hat" "R-hat" verdict "coverage, %" "log MAP" "written to c"
  says "method 1 of 6: atvi" "method 6 of 6: exact" "marginal of exact"
  not grep -E '^.{101,}$' <<<"$output"
  json c/compare.json '[.methods[].method] == ["atvi", "nf", "copula", "ram", "nuts", "exact"] and .reference == "exact" and .times_shared == false'
  json c/compare.json '[.methods[] | .state == "done" and .verdict == "ok" and .seconds > 0 and .evaluations > 1000] | all'
  json c/compare.json '[.methods[] | (.log_map + 94.0 | fabs) < .1 and (.fitted.all.ail - 12.2 | fabs) < .2 and (.fitted.all.mspe - 4.36 | fabs) < .06] | all'
  # about 1600 and 5800 effective draws: a distance by chance of 0.036
  json c/compare.json '[.methods[] | select(.method != "exact") | .parameters[] | .distance >= 0 and .distance < .12 and .distance_by_chance < .05] | all'
  json c/compare.json '.methods[-1].parameters[0].distance == null'
  for m in atvi nf copula ram nuts exact; do
    [ -s c/$m/draws.csv ] && [ -s c/$m/summary.json ] && [ -s c/$m/fit.json ] && [ -s c/$m/scores.json ] && [ -s c/$m/predict.csv ]
  done
  "$ATVI" summary c/nuts | grep -q beta
}

@test "each method is what atvi fit gives" {
  "$ATVI" compare cold.atvi --methods 'ram, nf' --seed 7 --out c --quiet
  "$ATVI" fit cold.atvi --method ram --seed 7 --out r --quiet
  "$ATVI" fit cold.atvi --method nf --seed 7 --out n --quiet
  diff <(draws c/ram) <(draws r)
  diff <(draws c/nf) <(draws n)
}

@test "compare.csv: one number on a line, the same as compare.json" {
  run -0 --separate-stderr "$ATVI" compare cold.atvi --methods atvi,ram --out c --quiet
  [ "$output" = c ]
  [ "$(head -n 1 c/compare.csv)" = method,kind,name,statistic,value ]
  not grep -vE '^([^,]*,){4}[^,]*$' c/compare.csv
  value() { awk -F, -v k="$1" '$1 "," $2 "," $3 "," $4 == k { print $5 }' c/compare.csv; }
  [ "$(value ram,fit,,verdict)" = ok ] && [ "$(value ram,fit,,reference)" = 1 ] && [ "$(value atvi,fit,,reference)" = 0 ]
  json c/compare.json "(.methods[0].parameters[1].mode - $(value atvi,parameter,gamma,mode) | fabs) < 1e-9"
  json c/compare.json "(.methods[1].fitted.series[0].mspe - $(value ram,fitted,infected,mspe) | fabs) < 1e-9"
  json c/compare.json "(.methods[0].derived[0].distance - $(value atvi,derived,R0,distance) | fabs) < 1e-9"
  run -0 "$ATVI" compare cold.atvi --methods atvi,ram --out c2 --quiet --json
  jq -e '.methods | length == 2' <<<"$output"
}

@test "--parallel: the same draws, times marked as shared" {
  "$ATVI" compare cold.atvi --methods atvi,ram,map --out one --quiet
  run -0 --separate-stderr "$ATVI" compare cold.atvi --methods atvi,ram,map --parallel --out two
  says "seconds (shared)" "side by side"
  for m in atvi ram map; do diff <(draws one/$m) <(draws two/$m); done
  json two/compare.json '.times_shared'
  grep -q '^ram,fit,,seconds_shared,' two/compare.csv
}

@test "the reference can be chosen, and is told" {
  run -0 "$ATVI" compare cold.atvi --methods atvi,ram --reference atvi --out c
  says "reference: atvi, as asked for"
  run -0 "$ATVI" compare cold.atvi --methods atvi,map --out c2
  says "reference: atvi, for there is no ram, nuts or exact with verdict ok"
}

@test "a method that fails is told, the others go on" {
  mkdir c && touch c/nf
  run -0 --separate-stderr "$ATVI" compare cold.atvi --methods nf,ram --out c --force
  says "nf: failed:" c/nf "verdict" failed ok
  json c/compare.json '.methods[0].state == "failed" and (.methods[0].reason | length) > 0 and .methods[1].verdict == "ok"'
  run -3 "$ATVI" compare cold.atvi --methods nf,ram --out c --force --strict --quiet
  run -1 "$ATVI" compare cold.atvi --methods nf --out c --force
  says "nf: failed:"
}

@test "held-out data are scored apart; data, fixed parameters and limits are passed on" {
  run -0 --separate-stderr "$ATVI" compare cold.atvi --methods atvi,ram --holdout 't > 14' --fix S0=38.5 --out c
  says "held out (t > 14)" lpd
  json c/compare.json '[.methods[] | .held_out.all.n == 12 and .held_out.all.lpd < 0 and (.parameters | length) == 2] | all'
  head -n 10 cold.csv >short.csv
  "$ATVI" compare cold.atvi --methods ram,map --data short.csv --ess 200 --max-time 60s --out d --quiet
  json d/compare.json '[.methods[] | .fitted.all.n == 18] | all'
  json d/ram/fit.json '.ess == 200 and .max_seconds == 60'
}

interrupted() { # SIGNAL OPTION...
  local signal=$1 code=0 pid
  shift
  "$ATVI" compare cold.atvi --methods map,ram,nf --ess 1e5 --no-compile --threads 1 --out c "$@" >out.txt 2>err.txt 3>&- &
  pid=$!
  sleep 2
  kill "-$signal" $pid
  wait $pid || code=$?
  [ "$code" -eq 130 ] || { echo "status $code"; cat out.txt err.txt; return 1; }
  json c/compare.json '.methods[0].state == "done" and .methods[1].state == "stopped" and .methods[1].evaluations > 0'
  [ "$(draws c/ram | wc -l)" -gt 10 ]
}

@test "Ctrl-C keeps what is done" {
  interrupted INT
  json c/compare.json '.methods[2].state == "not run"'
  grep -q "nf: not run" out.txt
}

@test "SIGTERM while side by side keeps what is done" { interrupted TERM --parallel; }

@test "--force: folders of methods that are no longer compared are told" {
  "$ATVI" compare cold.atvi --methods map,ram --ess 200 --out c --quiet
  run -0 --separate-stderr "$ATVI" compare cold.atvi --methods map --out c --force
  says "c/ram is of an earlier comparison"
  [[ "$stderr" != *"c/map is"* ]]
}

@test "wrong usage" {
  run -2 "$ATVI" compare cold.atvi --methods 'atvi, foo'
  says "no method 'foo'" "atvi, nf, copula, ram, nuts, exact and map"
  run -2 "$ATVI" compare cold.atvi --methods atvi,atvi
  says twice
  run -2 "$ATVI" compare cold.atvi --methods atvi,ram --reference nuts
  says "--reference nuts"
  run -2 "$ATVI" compare nothing.atvi
  run -2 "$ATVI" compare cold.atvi --holdout 't > 99'
  mkdir full && touch full/x
  run -1 "$ATVI" compare cold.atvi --methods map --out full
  says full --force
  [ ! -e cold-compare-001 ]
  run -0 "$ATVI" compare cold.atvi --methods map --quiet
  [ "$output" = cold-compare-001 ]
  run -0 "$ATVI" compare --help
  says NAME SYNOPSIS OPTIONS --parallel --reference
  not grep -E '^.{80,}$' <<<"$output"
}
