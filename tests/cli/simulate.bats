#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
load common

@test "a trajectory at given times" {
  "$ATVI" simulate cold.atvi "${POINT[@]}" --times 0:30:0.5 >out.csv
  [ "$(wc -l <out.csv)" -eq 62 ]
  [ "$(head -n 1 out.csv)" = t,S,I,R ]
  # nobody is born or dies
  awk -F, 'NR > 1 { d = $2 + $3 + $4 - 40.5; if (d * d > 1e-12) exit 1 }' out.csv
  not grep -qi nan out.csv
}

@test "the times of the data are the default" {
  "$ATVI" simulate cold.atvi "${POINT[@]}" >out.csv
  [ "$(wc -l <out.csv)" -eq 22 ]
}

@test "synthetic data can be fitted" {
  "$ATVI" simulate cold.atvi "${POINT[@]}" --observe --seed 3 >new.csv
  [ "$(head -n 1 new.csv)" = "$(head -n 1 cold.csv)" ]
  [ "$(wc -l <new.csv)" -eq "$(wc -l <cold.csv)" ]
  "$ATVI" eval cold.atvi "${POINT[@]}" --data new.csv >out.json
  json out.json '.log_likelihood > -200'
}

@test "the seed decides" {
  "$ATVI" simulate cold.atvi "${POINT[@]}" --observe --seed 3 >a.csv
  "$ATVI" simulate cold.atvi "${POINT[@]}" --observe --seed 3 >b.csv
  "$ATVI" simulate cold.atvi "${POINT[@]}" --observe --seed 4 >c.csv
  cmp a.csv b.csv
  not cmp -s a.csv c.csv
}

@test "prior draws" {
  "$ATVI" simulate cold.atvi --prior 7 --times 0:20:5 >out.csv
  [ "$(tail -n +2 out.csv | cut -d, -f1 | sort -u | wc -l)" -eq 7 ]
}

@test "without data, given times" {
  rm cold.csv
  "$ATVI" simulate cold.atvi "${POINT[@]}" --times 0,1,2.5 >out.csv
  [ "$(wc -l <out.csv)" -eq 4 ]
}

@test "wrong times" {
  run "$ATVI" simulate cold.atvi "${POINT[@]}" --times 5:1
  fails_with 2 5:1
  run "$ATVI" simulate cold.atvi "${POINT[@]}" --times soon
  fails_with 2 soon
}

@test "parameters must be given" {
  run "$ATVI" simulate cold.atvi
  fails_with 2 beta
}
