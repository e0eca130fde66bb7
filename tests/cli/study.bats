#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
load common

# 3 parameters, 14 observations, a derived and a tracked quantity.
epidemic() {
  cat >sir.atvi <<'MODEL'
param beta  ~ lognormal(0.0, 0.3)
param gamma ~ lognormal(-1.0, 0.3)
param I0    ~ uniform(1, 8)
state S = 200 - I0
state I = I0
dS/dt = -beta*S*I/200
dI/dt =  beta*S*I/200 - gamma*I
data "sir.csv" time day
observe ill ~ poisson(I + 0.001)
track prevalence = I/200
derived R0 = beta/gamma
MODEL
  { echo day,ill; for i in $(seq 14); do echo "$i,5"; done; } >sir.csv
}
TRUTH=beta=1.1,gamma=0.4,I0=3
# Records without what depends on the clock.
timeless() { cut -d, -f1-6,8- "$1" | sort -t, -k1,1n -k2,2; }

@test "a study: table, records, files" {
  epidemic
  run -0 --separate-stderr "$ATVI" study sir.atvi --truth $TRUTH --replicates 4 --methods atvi,ram --out s
  says "atvi: 4 fits, 0 failed" "ram: 4 fits" beta gamma I0 R0 prevalence tracked AIL MSPE k-hat R-hat "written to s"
  not grep -E '^.{101,}$' <<<"$output"
  not grep -E ' $' <<<"$output"
  [ "$(wc -l <s/replicates.csv)" -eq 9 ]
  json s/study_summary.json '.replicates == 4 and .seed == 1 and [.methods[].method] == ["atvi", "ram"] and .failures == []'
  json s/study_summary.json '[.methods[] | .done == 4 and .failed == 0 and .seconds.value > 0] | all'
  json s/study_summary.json '[.methods[0].quantities[].name] == ["beta", "gamma", "I0", "R0", "prevalence"]'
  json s/study_summary.json '.methods[0].quantities | .[0].truth == 1.1 and (.[3].truth - 2.75 | fabs) < 1e-9 and .[4].truth == null'
  # both methods have the same data, so nearly the same modes and intervals
  json s/study_summary.json '[.methods[].quantities[0]] | (.[0].length.value / .[1].length.value - 1 | fabs) < .1'
  json s/study_summary.json '[.methods[].mspe.value] | (.[0] / .[1] - 1 | fabs) < .05'
  json s/study_summary.json '.methods[0] | .khat != null and .rhat == null and .coverage.value > .8 and .ail.value > 10'
  head -n 1 s/study.csv | grep -qx method,quantity,kind,measure,n,value,error
  # what the summary says is what the records say
  awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i } $2 == "atvi" { e = $at["gamma.mode"] - .4; s += e * e / 4
    c += $at["gamma.covered"] / 4; if ($at["gamma.covered"] != ($at["gamma.low"] <= .4 && .4 <= $at["gamma.high"])) exit 1 }
    END { print s, c }' s/replicates.csv >mine
  read -r mse coverage <mine
  json s/study_summary.json ".methods[0].quantities[1] | (.mse.value / $mse - 1 | fabs) < 1e-4 and .coverage.value == $coverage"
}

@test "the first data set is that of simulate, and its fit that of fit" {
  epidemic
  "$ATVI" study sir.atvi --truth $TRUTH --replicates 1 --seed 7 --out s --quiet
  "$ATVI" simulate sir.atvi --observe --seed 7 --set beta=1.1 --set gamma=0.4 --set I0=3 | diff - s/data/set_1.csv
  "$ATVI" fit sir.atvi --data s/data/set_1.csv --seed 7 --out f --quiet
  mean=$(awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i } NR == 2 { print $at["beta.mean"] }' s/replicates.csv)
  json f/summary.json "(.parameters[0].mean - $mean | fabs) < 1e-8"
}

@test "killed and continued: what is recorded stays, the rest is as it would have been" {
  epidemic
  "$ATVI" study sir.atvi --truth $TRUTH --replicates 4 --out whole --quiet
  "$ATVI" study sir.atvi --truth $TRUTH --replicates 200 --out s --quiet &
  pid=$!
  for _ in $(seq 600); do [ "$(wc -l 2>/dev/null <s/replicates.csv || echo 0)" -ge 3 ] && break; sleep .05; done
  kill -9 $pid
  wait $pid || true
  head -n 3 s/replicates.csv >before
  printf '3,atvi,ok,,o' >>before # a line cut short
  cp before s/replicates.csv
  run -0 --separate-stderr "$ATVI" study sir.atvi --truth $TRUTH --replicates 4 --out s
  says "4 fits"
  head -n 3 s/replicates.csv | diff - <(head -n 3 before) # not done again
  diff <(timeless s/replicates.csv) <(timeless whole/replicates.csv)
}

@test "interrupted: status 130, and the same command continues" {
  epidemic
  "$ATVI" study sir.atvi --truth $TRUTH --replicates 500 --out s 2>err &
  pid=$!
  for _ in $(seq 600); do [ "$(wc -l 2>/dev/null <s/replicates.csv || echo 0)" -ge 3 ] && break; sleep .05; done
  kill -TERM $pid
  code=0
  wait $pid || code=$?
  [ $code -eq 130 ]
  grep -q "the same command continues s" err
  n=$(tail -n +2 s/replicates.csv | wc -l)
  [ "$n" -lt 500 ]
  cp s/replicates.csv before
  "$ATVI" study sir.atvi --truth $TRUTH --replicates "$((n + 1))" --out s --quiet
  head -n $((n + 1)) s/replicates.csv | diff - before
  [ "$(tail -n +2 s/replicates.csv | wc -l)" -eq $((n + 1)) ]
}

@test "more replicates and other methods go on; other settings are an error that says which" {
  epidemic
  study=("$ATVI" study sir.atvi --replicates 2 --out s --quiet)
  "${study[@]}" --truth $TRUTH
  "${study[@]}" --truth $TRUTH --methods ram --replicates 3
  [ "$(cut -d, -f1,2 s/replicates.csv | tail -n +2 | tr '\n' ' ')" = "1,atvi 2,atvi 1,ram 2,ram 3,ram " ]
  cp s/replicates.csv before
  run "${study[@]}" --truth beta=1.2,gamma=0.4,I0=3
  fails_with 2 "another --truth" 1.1 1.2 --out
  run "${study[@]}" --truth $TRUTH --seed 2
  fails_with 2 "another --seed"
  run "${study[@]}" --truth $TRUTH --fix I0=3
  fails_with 2 "another --"
  sed -i 's/0.3)/0.31)/' sir.atvi
  run "${study[@]}" --truth $TRUTH
  fails_with 2 "another model file"
  run "$ATVI" sbc sir.atvi --replicates 2 --out s
  fails_with 2 "something else"
  diff before s/replicates.csv
}

@test "data sets that are there; one that is wrong is reported, counted and not dropped" {
  epidemic
  "$ATVI" study sir.atvi --truth $TRUTH --replicates 4 --out s --quiet
  mkdir sets
  for i in 1 2 3 4; do cp s/data/set_$i.csv sets/case-$i.txt; done
  from=("$ATVI" study sir.atvi --truth "$TRUTH" --data-dir sets --pattern case-%d.txt --replicates)
  "${from[@]}" 4 --out same --quiet
  diff <(timeless s/replicates.csv) <(timeless same/replicates.csv)
  [ ! -e same/data ]
  sed -i '5s/,.*/,many/' sets/case-2.txt
  run -3 --separate-stderr "${from[@]}" 4 --out t --strict
  says "3 fits, 1 failed" "failed: replicate 2, atvi: sets/case-2.txt:5" many
  grep '^2,atvi,failed,' t/replicates.csv
  json t/study_summary.json '.methods[0].failed == 1 and (.failures | length) == 1 and .methods[0].quantities[0].coverage.value >= 0'
  run -0 "${from[@]}" 4 --out t --quiet # a failure is a record, too
  [ "$(grep -c '^2,' t/replicates.csv)" -eq 1 ]
  run "${from[@]}" 5 --out u
  fails_with 2 case-5.txt "no such file" --replicates
  run "$ATVI" study sir.atvi --truth $TRUTH --data-dir sets --pattern case.txt --out u
  fails_with 2 %d
}

@test "truths: a file, arrays, fixed parameters, and what is wrong with them" {
  epidemic
  echo '{"beta": 1.1, "gamma": 0.4, "I0": 3}' >truth.json
  "$ATVI" study sir.atvi --truth truth.json --replicates 1 --out a --quiet
  "$ATVI" study sir.atvi --truth $TRUTH --replicates 1 --out a --quiet # the same
  "$ATVI" study sir.atvi --truth truth.json --fix I0=3 --replicates 1 --out b --quiet
  not grep -q I0 b/replicates.csv
  printf 'param m[i in 1..2] ~ normal(0, 2)\ndata "y.csv"\nobserve y ~ normal(m[1] + m[2], 1)\n' >array.atvi
  printf 'y\n1\n2\n' >y.csv
  "$ATVI" study array.atvi --truth 'm=0.5,1.5' --replicates 1 --out c --quiet
  echo '{"m": [0.5, 1.5]}' >m.json
  "$ATVI" study array.atvi --truth m.json --replicates 1 --out c --quiet
  bad() { run "$ATVI" study sir.atvi --out z --replicates 1 "$@"; }
  bad
  fails_with 2 "--truth is missing"
  bad --truth beta=1.1,gamma=.4
  fails_with 2 "no value for I0"
  bad --truth beta=1.1,gamma=.4,I0=9
  fails_with 2 "I0=9 is outside its bounds [1, 8]"
  bad --truth delta=1
  fails_with 2 "no parameter of that name"
  bad --truth none.json
  fails_with 2 none.json
  echo '{"beta": "x"}' >t.json
  bad --truth t.json
  fails_with 2 t.json beta
  echo '{"beta": ' >t.json
  bad --truth t.json
  fails_with 2 t.json:
  bad --truth $TRUTH --methods map
  fails_with 2 map
  bad --truth $TRUTH --methods atvi,atvi
  fails_with 2 twice
  bad --truth $TRUTH --methods frob
  fails_with 2 frob
  [ ! -e z ]
}

@test "two data sets" {
  printf 'y\n1\n2\n3\n' >a.csv
  printf 'z\n1\n2\n' >b.csv
  printf 'param mu ~ normal(0, 2)\ndata a "a.csv"\nobserve y ~ normal(mu, 1)\ndata b "b.csv"\nobserve z ~ poisson(exp(mu))\n' >two.atvi
  "$ATVI" study two.atvi --truth mu=0.5 --replicates 2 --out s --quiet
  [ "$(ls s/data)" = "$(printf 'a_1.csv\na_2.csv\nb_1.csv\nb_2.csv')" ]
  json s/study_summary.json '.methods[0].done == 2'
  "$ATVI" fit two.atvi --data a=s/data/a_2.csv --data b=s/data/b_2.csv --seed 2 --out f --quiet
  json f/summary.json "(.parameters[0].mean - $(awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i } NR == 3 { print $at["mu.mean"] }' s/replicates.csv) | fabs) < 1e-8"
}

@test "two at once in one folder: the second is refused" {
  epidemic
  "$ATVI" study sir.atvi --truth $TRUTH --replicates 500 --out s --quiet &
  pid=$!
  for _ in $(seq 600); do [ "$(wc -l 2>/dev/null <s/replicates.csv || echo 0)" -ge 2 ] && break; sleep .05; done
  run "$ATVI" study sir.atvi --truth $TRUTH --replicates 500 --out s --quiet
  kill -TERM $pid
  wait $pid || true
  fails_with 1 "another atvi is at work in s"
}

@test "the manual page of study fits 80 columns" {
  run -0 "$ATVI" study --help
  says NAME SYNOPSIS DESCRIPTION OPTIONS FILES "EXIT STATUS" EXAMPLES
  not grep -E '^.{81,}$' <<<"$output"
  [ "$output" = "$("$ATVI" help study)" ]
}
