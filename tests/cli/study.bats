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
  run -0 --separate-stderr "$ATVI" study sir.atvi --truth $TRUTH --replicates 4 --methods 'atvi, ram' --out s
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
  run -0 "$ATVI" study sir.atvi --truth $TRUTH --replicates 1 --seed 7 --out s
  says "1 replicate, seed 7" "atvi: 1 fit, 0 failed"
  [[ "$output" != *nan* ]]
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
  # none of them is of a fit that was cut short
  "$ATVI" study sir.atvi --truth $TRUTH --replicates "$((n + 1))" --out whole --quiet
  diff <(timeless s/replicates.csv) <(timeless whole/replicates.csv)
}

@test "side by side: the same records in the same order with any number of threads" {
  epidemic
  in_order() { cut -d, -f1-6,8- "$1"; }
  for t in 1 3 16; do
    "$ATVI" study sir.atvi --truth $TRUTH --replicates 5 --methods atvi,ram --out s$t --quiet --threads $t
    diff <(in_order s$t/replicates.csv) <(in_order s1/replicates.csv)
    diff <(grep -v seconds s$t/study.csv) <(grep -v seconds s1/study.csv)
  done
  [ -z "$(find . -name 'checkpoint*' -o -name 'line-*')" ]
  # killed while the third fit of a method had ended and the second had not: its line is recorded in its turn, and it is not fitted again
  cp -r s1 s
  awk -F, -v OFS=, 'NR == 6 { $7 = 12345; print }' s1/replicates.csv | tr -d '\n' >s/line-3-atvi
  head -n 3 s1/replicates.csv >s/replicates.csv
  "$ATVI" study sir.atvi --truth $TRUTH --replicates 5 --methods atvi,ram --out s --quiet
  diff <(in_order s/replicates.csv) <(in_order s1/replicates.csv)
  [ "$(grep -c ',12345,' s/replicates.csv)" -eq 1 ]
  [ ! -e s/line-3-atvi ]
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
  fails_with 1 "s already exists" "choose another --out"
  diff before s/replicates.csv
}

@test "a folder with something else in it is refused, an empty one is not" {
  epidemic
  mkdir full empty
  echo mine >full/notes
  run "$ATVI" study sir.atvi --truth $TRUTH --replicates 1 --out full
  fails_with 1 "full already exists and is not a folder of atvi study" "choose another --out"
  run "$ATVI" sbc sir.atvi --replicates 1 --out full
  fails_with 1 "full already exists and is not a folder of atvi sbc"
  [ "$(ls full)" = notes ]
  touch empty/replicates.csv empty/.study.json.0a1b2c3d-99999-0.tmp # killed while it wrote its settings
  "$ATVI" study sir.atvi --truth $TRUTH --replicates 1 --out empty --quiet
}

@test "data sets that were changed between runs are reported by name" {
  epidemic
  "$ATVI" study sir.atvi --truth $TRUTH --replicates 2 --out s --quiet
  cp -r s/data sets
  cp s/data/set_2.csv keep
  echo 15,3 >>s/data/set_2.csv
  run "$ATVI" study sir.atvi --truth $TRUTH --replicates 2 --out s --quiet --methods ram
  fails_with 2 "s/data/set_2.csv is not the data set simulated for this replicate"
  tail -n 1 s/data/set_2.csv | grep -qx 15,3 # not overwritten
  cp keep s/data/set_2.csv
  "$ATVI" study sir.atvi --truth $TRUTH --replicates 2 --out s --quiet --methods ram
  from=("$ATVI" study sir.atvi --truth "$TRUTH" --data-dir sets --out t --quiet)
  "${from[@]}" --replicates 1
  awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i } NR > 1 && $at["data_hash"] !~ /^h[0-9a-f]+$/ { exit 1 }' t/replicates.csv
  echo 15,3 >>sets/set_2.csv # not fitted yet
  "${from[@]}" --replicates 2
  echo 15,3 >>sets/set_1.csv
  run "${from[@]}" --replicates 2
  fails_with 2 "sets/set_1.csv: error: the file has changed since replicate 1 was fitted"
}

@test "nothing that can be fitted: status 1; a truth that cannot be run: one error" {
  epidemic
  mkdir sets
  printf 'day,ill\n1,many\n' | tee sets/set_1.csv >sets/set_2.csv
  run -1 --separate-stderr "$ATVI" study sir.atvi --truth $TRUTH --data-dir sets --replicates 2 --out t
  says "0 fits, 2 failed"
  printf 'day,y\n1,3\n2,3\n' >y.csv
  printf 'param k ~ uniform(0, 2)\nstate x = 1\ndx/dt = k*x^2\ndata "y.csv" time day\nobserve y ~ poisson(x)\n' >burst.atvi
  run "$ATVI" study burst.atvi --truth k=1.9 --replicates 3 --out b
  fails_with 2 "burst.atvi: error: the model cannot be run at the truth"
  [ ! -e b ]
}

@test "a row without its covariate does not prevent simulating the others" {
  printf 'n,ill\n40,3\n55,9\nNA,NA\n61,30\n' >c.csv
  printf 'param p ~ uniform(0, 1)\ndata "c.csv"\nobserve ill ~ binomial(n, p)\n' >c.atvi
  "$ATVI" study c.atvi --truth p=0.3 --replicates 1 --out s --quiet
  grep -qx NA,NA s/data/set_1.csv
}

@test "a data file without a header stays one" {
  printf '1,0.9\n2,2.2\n3,2.9\n4,4.1\n' >n.csv
  printf 'param a ~ normal(0, 2)\nstate C = 0\ndC/dt = a\nstart 0\ndata "n.csv" time 1\nobserve y columns 2 ~ normal(C, 0.5)\n' >n.atvi
  "$ATVI" study n.atvi --truth a=1 --replicates 2 --out s --quiet
  cut -d, -f1 s/data/set_1.csv | diff - <(cut -d, -f1 n.csv)
  "$ATVI" simulate n.atvi --observe --set a=1 | diff - s/data/set_1.csv
  "$ATVI" sbc n.atvi --replicates 1 --out b --quiet
  [ "$(wc -l <b/data/set_1.csv)" -eq 4 ]
}

@test "missing cells stay missing, and need not be simulated" {
  # nothing has come to pass by the first row, where a size of 0 has no log
  printf 'day,cases\n0,NA\n7,20\n14,NA\n21,24\n' >w.csv
  printf 'param a ~ uniform(0, 20)\nstate C = 0\ndC/dt = a\nstart 0\ndata "w.csv" time day\nobserve cases ~ lognormal(log(increase(C)), 0.2)\n' >w.atvi
  "$ATVI" study w.atvi --truth a=3 --replicates 2 --out s --quiet
  [ "$(cut -d, -f2 s/data/set_2.csv | grep -c '^NA$')" -eq 2 ]
  grep -qx '0,NA' s/data/set_2.csv && grep -qx '14,NA' s/data/set_2.csv
  json s/study_summary.json '.methods[0].done == 2'
  # a file that has no observation at all is there for its layout
  printf 'day,cases\n7,NA\n14,\n' >w.csv
  "$ATVI" simulate w.atvi --observe --set a=3 2>/dev/null >sim
  not grep -q NA sim
}

@test "detection limits hide what is simulated beyond them" {
  printf 'x\n0.5\n1.5\n2.5\n0.5\n0.5\n9\n' >l.csv
  printf 'param m ~ normal(0, 3)\ndata "l.csv"\nobserve x ~ normal(m, 2) limits(0.5, 3)\n' >l.atvi
  "$ATVI" study l.atvi --truth m=1 --replicates 1 --out s --quiet || { cat l.atvi; return 1; }
  awk 'NR > 1 && !/^(<=0.5|>=3)$/ && !($1 > 0.5 && $1 < 3) { exit 1 } /=/ { n++ } END { exit n == 0 }' s/data/set_1.csv
  # to the fit they are what the numbers themselves would be
  sed 's/<=0.5/-7/; s/>=3/11/' s/data/set_1.csv >plain.csv
  "$ATVI" eval l.atvi --set m=1 --data plain.csv >a.json
  "$ATVI" eval l.atvi --set m=1 --data s/data/set_1.csv | diff - a.json
}

@test "several data sets without names are refused before anything is done" {
  printf 'y\n1\n2\n3\n' >a.csv
  printf 'z\n1\n2\n' >b.csv
  printf 'param mu ~ normal(0, 2)\ndata "a.csv"\nobserve y ~ normal(mu, 1)\ndata "b.csv"\nobserve z ~ poisson(exp(mu))\n' >two.atvi
  run "$ATVI" study two.atvi --truth mu=0.5 --replicates 2 --out s
  fails_with 2 "two.atvi: error: the model has 2 data files, and a.csv has no name" 'data first "a.csv"'
  run "$ATVI" sbc two.atvi --replicates 2 --out s
  fails_with 2 "a.csv has no name"
  [ ! -e s ]
}

@test "records that cannot be are not believed; infinite ones are" {
  epidemic
  study=("$ATVI" study sir.atvi --truth "$TRUTH" --replicates 2 --out s)
  "${study[@]}" --quiet
  cp s/replicates.csv good
  tail -n 1 good >>s/replicates.csv
  run "${study[@]}"
  fails_with 2 "s/replicates.csv:4:1: error: replicate 2 with atvi is listed twice, first in line 3"
  set_cell() { awk -F, -v OFS=, -v c="$1" -v v="$2" 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i } NR == 3 { $at[c] = v } { print }' good >s/replicates.csv; }
  set_cell beta.covered 7
  run "${study[@]}"
  fails_with 2 "s/replicates.csv:3:" "beta.covered is '7', which is impossible"
  set_cell replicate 1.5
  run "${study[@]}"
  fails_with 2 "replicate is '1.5'"
  set_cell ail inf
  run -0 "${study[@]}"
  says "AIL         inf"
}

@test "files that the model reads are part of its settings" {
  printf '2\n1\n' >c.csv
  printf 'y\n1\n2\n3\n' >y.csv
  printf 'model "lin\303\251"\nconst C[1..2] from "c.csv"  # "y.csv" is another\nparam a ~ normal(0, 1)\ndata "y.csv"\nobserve y ~ normal(a*C[1] + C[2], 1)\n' >m.atvi
  "$ATVI" study m.atvi --truth a=1 --replicates 1 --out s --quiet
  json s/study.json '(.files | length) == 1 and (.files[0] | startswith("c.csv "))'
  printf '2\n1.5\n' >c.csv
  run "$ATVI" study m.atvi --truth a=1 --replicates 2 --out s --quiet
  fails_with 2 "started with another c.csv, which the model reads"
  printf '2\n1\n' >c.csv
  "$ATVI" study m.atvi --truth a=1 --replicates 2 --out s --quiet
}

@test "a model that is not UTF-8 is recorded, too" {
  printf 'y\n1\n2\n3\n' >y.csv
  printf 'param a ~ normal(0, 1)  # m\351dia\ndata "y.csv"\nobserve y ~ normal(a, 1)\n' >l1.atvi
  "$ATVI" study l1.atvi --truth a=1 --replicates 1 --out s --quiet
  json s/study.json '.model | test("normal")'
  "$ATVI" study l1.atvi --truth a=1 --replicates 1 --out s --quiet
  printf 'param a ~ normal(0, 1)  # m\350dia\ndata "y.csv"\nobserve y ~ normal(a, 1)\n' >l1.atvi
  run "$ATVI" study l1.atvi --truth a=1 --replicates 1 --out s --quiet
  fails_with 2 "another model file"
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
  run "$ATVI" study sir.atvi --truth $TRUTH --pattern case-%d.txt --out u
  fails_with 2 "--pattern case-%d.txt" --data-dir
}

@test "truths: a file, arrays, fixed parameters, and what is wrong with them" {
  epidemic
  echo '{"beta": 1.1, "gamma": 0.4, "I0": 3}' >truth.json
  "$ATVI" study sir.atvi --truth truth.json --replicates 1 --out a --quiet
  "$ATVI" study sir.atvi --truth 'beta=1.1, gamma = 0.4 , I0=3' --replicates 1 --out a --quiet # the same
  "$ATVI" study sir.atvi --truth truth.json --fix I0=3 --replicates 1 --out b --quiet
  not grep -q I0 b/replicates.csv
  printf 'param m[i in 1..2] ~ normal(0, 2)\ndata "y.csv"\nobserve y ~ normal(m[1] + m[2], 1)\n' >array.atvi
  printf 'y\n1\n2\n' >y.csv
  "$ATVI" study array.atvi --truth 'm=0.5, 1.5' --replicates 1 --out c --quiet
  echo '{"m": [0.5, 1.5]}' >m.json
  "$ATVI" study array.atvi --truth m.json --replicates 1 --out c --quiet
  bad() { run "$ATVI" study sir.atvi --out z --replicates 1 "$@"; }
  bad
  fails_with 2 "--truth is missing"
  bad --truth beta=1.1,gamma=.4
  fails_with 2 "no value for I0"
  bad --truth beta=1.1,gamma=.4,I0=9
  fails_with 2 "I0=9 is outside its bounds [1, 8]"
  bad --truth beta=1.1,gamma=.4,I0=3,beta=2
  fails_with 2 "beta is listed twice, 1.1 and 2"
  bad --truth truth.json --truth I0=4
  fails_with 2 "I0 is listed twice, 3 and 4"
  run "$ATVI" study array.atvi --out z --replicates 1 --truth m=0.5,1.5,m.2=1
  fails_with 2 "m.2 is listed twice"
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
  : >t.json
  bad --truth t.json
  fails_with 2 "t.json:1:1: error: the file is empty" 'a JSON object' '"beta": 0.9'
  echo '[1.1, 0.4, 3]' >t.json
  bad --truth t.json
  fails_with 2 "not an object of names and numbers" 'a JSON object'
  bad --truth $TRUTH --methods map
  fails_with 2 "'map' is not one of" "atvi, nf, copula, ram, nuts and exact"
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
  fails_with 1 "another atvi is using s"
}

@test "the manual page of study fits 80 columns" {
  run -0 "$ATVI" study --help
  says NAME SYNOPSIS DESCRIPTION OPTIONS FILES "EXIT STATUS" EXAMPLES
  not grep -E '^.{81,}$' <<<"$output"
  [ "$output" = "$("$ATVI" help study)" ]
}
