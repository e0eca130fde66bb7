#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Folders to start from: each is fitted by the commands of its README, and finds what its data were simulated with.
load common

# started KIND: a folder `trial` of that kind, after the commands of its README.
started() {
  mkdir bin
  ln -s "$ATVI" bin/atvi
  export PATH=$PWD/bin:$PATH
  run -0 atvi new trial --like "$1"
  says "made trial" "cd trial"
  cd trial || return 1
  not grep -rq '@NAME@' .
  [ -e trial.atvi ] && [ -e trial.csv ] && grep -q '^# trial$' README.md
  awk '/^```/ { inside = $0 == "```sh"; next } inside' README.md >../commands
  [ "$(wc -l <../commands)" -ge 2 ]
  run -0 bash -e ../commands
  says "verdict: ok" "written to trial-001"
  [ -s trial-001/report.html ] && [ -s trial-001/predict.csv ]
  json trial-001/summary.json '.verdict == "ok"'
}
# within NAME VALUE: it is in the 95 % interval.
within() {
  jq -e --arg name "$1" --argjson value "$2" '.parameters[] | select(.name == $name) | .hpd95[0] < $value and $value < .hpd95[1]' \
    trial-001/summary.json >/dev/null || { echo "$1: not $2"; jq -c '.parameters[] | [.name, .hpd95]' trial-001/summary.json; return 1; }
}

@test "sir" {
  started sir
  within beta 1.7
  within stay 2.2
  within shape 30
}

@test "seir" {
  started seir
  within R0 2.6
  within effect 0.35
  within report 0.15
}

@test "msir" {
  started msir
  within R0 6
  within season 0.35
  within report 0.05
}

@test "curve" {
  started curve
  within top 210
  within half 0.065
  [ "$(wc -l <trial-001/forecast.csv)" -eq 3 ]
}

@test "program" {
  started program
  within k 0.07
  within m 1.15
  [ -x simulator.sh ]
  [ "$(jq -s '[.[] | select(.outcome == "ok")] | length' trial-runs/runs.jsonl)" -eq 40 ]
  json trial-runs/emulate.json '.[0].verdict == "ok"'
}

@test "ensemble" {
  started ensemble
  within k 0.07
  within m 1.15
}

@test "without --like it is sir; a path is a folder's" {
  "$ATVI" new alpha
  "$ATVI" new bravo --like sir
  diff <(sed s/alpha/X/g alpha/alpha.atvi) <(sed s/bravo/X/g bravo/bravo.atvi)
  run -0 "$ATVI" new deep/er/flu.2/
  [ -e deep/er/flu.2/flu.2.atvi ] && [ -e deep/er/flu.2/flu.2.csv ]
  grep -q 'data "flu.2.csv"' deep/er/flu.2/flu.2.atvi
  run -0 "$ATVI" check deep/er/flu.2/flu.2.atvi
}

@test "nothing is overwritten" {
  mkdir there
  echo mine >there/there.atvi
  run "$ATVI" new there
  fails_with 2 there "nothing is ever overwritten"
  [ "$(cat there/there.atvi)" = mine ] && [ "$(ls there)" = there.atvi ]
  touch file
  run "$ATVI" new file
  fails_with 2 file
  [ -f file ] && [ ! -s file ]
  ln -s nowhere link
  run "$ATVI" new link
  fails_with 2 link
  [ -L link ] && [ ! -e nowhere ]
}

@test "what cannot be written leaves nothing" {
  mkdir disk
  mount -t tmpfs -o size=8k,nr_inodes=20 none disk 2>/dev/null || skip "needs root"
  run "$ATVI" new disk/full --like ensemble
  left=$(ls -A disk)
  umount disk
  fails_with 1 disk/full
  [ -z "$left" ]
}

@test "wrong usage" {
  run "$ATVI" new
  fails_with 2 "NAME is missing"
  run "$ATVI" new x --like seri
  fails_with 2 "want sir, seir" "did you mean seir?"
  [ ! -e x ]
  for name in 'a b' .hidden 'x"y' 'a@b' '' / 'x/..'; do
    run "$ATVI" new "$name"
    fails_with 2 "letters, digits"
  done
  run "$ATVI" new -- -x
  fails_with 2 "letters, digits"
}
