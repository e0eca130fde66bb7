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

@test "without data and without a start it starts at the first time asked for, and says so" {
  "$ATVI" simulate cold.atvi "${POINT[@]}" --times 3:9 --observe 2>err >new.csv
  grep -qx '3,[0-9]*,[0-9]*' new.csv
  [ ! -s err ]
  rm cold.csv
  run -0 --separate-stderr "$ATVI" simulate cold.atvi "${POINT[@]}" --times 3:9
  [ "$stderr" = "no data and no start in the model: it starts at the first time, 3" ]
  [ "${lines[1]}" = 3,39.5,1,0 ]
  # as a fit to the file would
  cp new.csv cold.csv
  diff <("$ATVI" simulate cold.atvi "${POINT[@]}") <(printf '%s\n' "${lines[@]}")
  rm cold.csv
  echo 'burnin 2' >>cold.atvi
  run -0 --separate-stderr "$ATVI" simulate cold.atvi "${POINT[@]}" --times 3:9
  says "it starts at 1, its burn-in before the first time, 3"
  cp new.csv cold.csv
  diff <("$ATVI" simulate cold.atvi "${POINT[@]}") <(printf '%s\n' "${lines[@]}")
  rm cold.csv
  sed -i 's/^burnin.*/start 0/' cold.atvi
  run -0 --separate-stderr "$ATVI" simulate cold.atvi "${POINT[@]}" --times 3:9
  [ -z "$stderr" ]
  printf 'param a ~ uniform(0, 20)\nstate C = 0\ndC/dt = a\ndata "w.csv" time day\nobserve cases ~ poisson(increase(C))\n' >w.atvi
  run "$ATVI" simulate w.atvi --set a=2 --times 1:3 --observe
  fails_with 2 "cases counts since the previous time" "start 0"
  echo 'start 0' >>w.atvi
  run -0 "$ATVI" simulate w.atvi --set a=2 --times 1:3 --observe
}

@test "a point at which the model cannot be run: written, reported, status 1" {
  printf 'day,y\n1,3\n2,3\n' >y.csv
  printf 'param k ~ uniform(0, 2)\nstate x = 1\ndx/dt = k*x^2\ndata "y.csv" time day\nobserve y ~ poisson(x)\n' >burst.atvi
  for how in "" --observe; do
    run --separate-stderr "$ATVI" simulate burst.atvi --set k=1.9 $how
    fails_with 1 "the model cannot be run at this point" "2,NA"
  done
  run -0 --separate-stderr "$ATVI" simulate burst.atvi --set k=0.1 --observe
  [ -z "$stderr" ]
  # data that cannot be are no matter
  printf 'day,y\n1,-3\n2,0.5\n' >y.csv
  run "$ATVI" simulate burst.atvi --set k=0.1 --observe
  [[ "$output" != *"cannot be run"* ]]
}

@test "blanks in lists are ignored" {
  printf 'param m[i in 1..2] ~ normal(0, 2)\ndata "y.csv"\nobserve y ~ normal(m[1] + m[2], 1)\n' >array.atvi
  printf 'y\n1\n2\n' >y.csv
  diff <("$ATVI" simulate array.atvi --set 'm=0.5,1.5') <("$ATVI" simulate array.atvi --set 'm= 0.5, 1.5 ')
  run "$ATVI" simulate array.atvi --set 'm=0.5, 1.5, 2'
  fails_with 2 "one number per element"
  diff <("$ATVI" simulate cold.atvi "${POINT[@]}" --times 0,1,2.5) <("$ATVI" simulate cold.atvi "${POINT[@]}" --times '0, 1 , 2.5')
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
