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
  announced="comma.csv: columns are separated by semicolons, and numbers have decimal commas"
  # shellcheck disable=SC2154 # bats sets stderr
  [ "$stderr" = "$announced" ]
  run -0 --separate-stderr "$ATVI" check line.atvi --data comma.csv
  [ "$stderr" = "$announced" ] # once
  run -0 --separate-stderr "$ATVI" fit line.atvi --data comma.csv --method map --out run
  says "$announced"
  # a point as well: nobody knows what is meant, and the place is told
  printf 'x;y\n0,5;1.25\n1,5;2.75\n' >mixed.csv
  run "$ATVI" eval line.atvi --set a=1.3 --data mixed.csv
  fails_with 2 mixed.csv:2:1 "0,5"
}

@test "data from a pipe" {
  [ "$(value --data <(cat cold.csv))" = "$(value)" ]
  run -0 "$ATVI" check cold.atvi --data <(cat cold.csv)
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

@test "texts, blanks, a missing last line end; and what cannot be meant is reported" {
  want=$(value)
  awk -F, -v OFS=, 'NR == 1 { print $0, "note"; next } { print $0, "\"a, \"\"b\"\",\nand a line more\"" }' cold.csv >notes.csv
  [ "$(value --data notes.csv)" = "$want" ]
  sed 's/,/ , /g; s/^/ /; s/$/ /' cold.csv >blanks.csv
  printf '\n\n' >>blanks.csv
  [ "$(value --data blanks.csv)" = "$want" ]
  head -c -1 cold.csv >short.csv
  [ "$(value --data short.csv)" = "$want" ]
  { echo '# as the island'"'"'s doctor wrote it'; cat cold.csv; } >comment.csv
  [ "$(value --data comment.csv)" = "$want" ]
  sed '1s/recovered/infected/' cold.csv >twice.csv
  run "$ATVI" check cold.atvi --data twice.csv
  fails_with 2 twice.csv:1: "two columns are named 'infected'"
  iconv -t UTF-16 cold.csv >utf16.csv
  run "$ATVI" check cold.atvi --data utf16.csv
  fails_with 2 utf16.csv:1: UTF-8
  sed '3s/,/,"/' cold.csv >open.csv
  run "$ATVI" check cold.atvi --data open.csv
  fails_with 2 open.csv:3: "never closed"
  sed '4s/,.*//' cold.csv >cells.csv
  run "$ATVI" check cold.atvi --data cells.csv
  fails_with 2 cells.csv:4: "1 cell" "3 columns"
}

@test "a column called t is the t of a model without states" {
  printf 't,x,y\n1,1,2.1\n2,2,3.9\n3,3,6.2\n' >line.csv
  printf 'param a ~ normal(0, 10)\ndata "line.csv" time t\nobserve y ~ normal(a*t, 1)\n' >t.atvi
  sed 's/a\*t/a*x/' t.atvi >x.atvi
  [ "$("$ATVI" eval t.atvi --set a=1.9 | jq .log_likelihood)" = "$("$ATVI" eval x.atvi --set a=1.9 | jq .log_likelihood)" ]
  sed 's/time t/time x/; s/line.csv/day.csv/' t.atvi >day.atvi
  sed 1s/t,/day,/ line.csv >day.csv
  run "$ATVI" check day.atvi
  fails_with 2 day.atvi:3: "no time t"
}
