#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
load common

@test "folders of other commands are called what they are" {
  "$ATVI" compare cold.atvi --methods map --out compared --quiet
  run "$ATVI" summary compared
  fails_with 1 "compared is the folder of atvi compare" compare.csv
  [ -s compared/compare.csv ]
  "$ATVI" summary compared/map | grep -q beta
  "$ATVI" study cold.atvi --truth beta=0.9,gamma=0.3,S0=39 --replicates 2 --methods nf --out studied --quiet
  run "$ATVI" summary studied
  fails_with 1 "studied is the folder of atvi study" study.csv
  [ -s studied/study.csv ]
  "$ATVI" sbc cold.atvi --replicates 2 --method nf --out ranked --quiet || [ $? -eq 3 ]
  run "$ATVI" summary ranked --json
  fails_with 1 "ranked is the folder of atvi sbc" sbc_summary.json
  [ -s ranked/sbc_summary.json ]
  mkdir runs other begun
  touch runs/design.csv begun/fit.json
  run "$ATVI" summary runs
  fails_with 1 "runs is the folder of atvi design" "atvi run"
  touch runs/runs.jsonl
  run "$ATVI" summary runs
  fails_with 1 "runs is the folder of atvi run" "atvi emulate"
  run "$ATVI" summary begun
  fails_with 1 "begun is the folder of a fit that has not finished"
  run "$ATVI" summary other
  fails_with 1 "other has no draws.csv"
}
