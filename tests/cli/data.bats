#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Data files as other programs write them: the same numbers, whatever the dialect.
load common

value() { "$ATVI" eval cold.atvi "${POINT[@]}" "$@" 2>err.txt | jq .log_likelihood; }

@test "line endings, BOM, quotes, tabs, semicolons: the same likelihood" {
  want=$(value)
  sed 's/$/\r/' cold.csv >crlf.csv
  [ "$(value --data crlf.csv)" = "$want" ]
  tr '\n' '\r' <cold.csv >cr.csv
  [ "$(value --data cr.csv)" = "$want" ]
  { printf '\xef\xbb\xbf'; cat cold.csv; } >bom.csv
  [ "$(value --data bom.csv)" = "$want" ]
  sed 's/[^,]*/"&"/g' cold.csv >quoted.csv
  [ "$(value --data quoted.csv)" = "$want" ]
  [ ! -s err.txt ]
  for c in ';' $'\t'; do
    tr , "$c" <cold.csv >other.csv
    [ "$(value --data other.csv)" = "$want" ]
  done
}

@test "semicolons and decimal commas are announced" {
  printf 'x,y\n0.5,1.25\n1.5,2.75\n' >point.csv
  printf 'x;y\r\n0,5;1,25\r\n1,5;2,75\r\n' >comma.csv
  printf 'param a ~ normal(0, 1)\ndata "point.csv"\nobserve y ~ normal(a*x, 1)\n' >line.atvi
  want=$("$ATVI" eval line.atvi --set a=1.3 | jq .log_likelihood)
  run -0 --separate-stderr "$ATVI" eval line.atvi --set a=1.3 --data comma.csv
  # shellcheck disable=SC2154 # bats sets output
  [ "$(jq .log_likelihood <<<"$output")" = "$want" ]
  run -0 --separate-stderr "$ATVI" fit line.atvi --data comma.csv --method map --out run
  says "comma.csv: columns are separated by semicolons, and numbers have decimal commas"
  # a point as well: nobody knows what is meant, and the place is told
  printf 'x;y\n0,5;1.25\n1,5;2.75\n' >mixed.csv
  run "$ATVI" eval line.atvi --set a=1.3 --data mixed.csv
  fails_with 2 mixed.csv:2:1 "0,5"
}

@test "dates and times of day" {
  cat >hours.atvi <<'END'
param a ~ uniform(0, 3)
calendar 2009-12-19 day
start 0
state y = 1
dy/dt = -a*y
data "hours.csv" time when
observe y ~ normal(y, 0.1)
END
  printf 'when,y\n0.25,0.8\n0.5,0.6\n1.125,0.4\n' >numbers.csv
  want=$("$ATVI" eval hours.atvi --set a=0.9 --data numbers.csv | jq .log_likelihood)
  printf 'when,y\n2009-12-19T06:00,0.8\n2009-12-19 12:00:00,0.6\n2009-12-20T05:00:00+02:00,0.4\n' >hours.csv
  [ "$("$ATVI" eval hours.atvi --set a=0.9 | jq .log_likelihood)" = "$want" ]
  sed -i 's/12:00:00/12:61:00/' hours.csv
  run "$ATVI" eval hours.atvi --set a=0.9
  fails_with 2 hours.csv:3:1 "12:61:00"
}
