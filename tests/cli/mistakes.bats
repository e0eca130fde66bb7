#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Mistakes in units, times, events and their files: one message with file, line, column, the value and a hint.
load common

setup() { cd "$BATS_TEST_TMPDIR" || return 1; }

POPULATION='param lCL ~ normal(1, 1)
param w ~ halfnormal(0.5)
each subject from "subjects.csv" {
  param CL ~ lognormal(lCL + weight/70, w)
  state A = 0
  dA/dt = -CL/10*A
  pulse A += amount at time from "doses.csv"
  data "conc.csv" time hour
  observe conc ~ normal(A/10, 1)
}'
SCHOOLS='param mu ~ normal(0, 1)
each region from "regions.csv" {
  param m ~ normal(mu, 1)
  each school from "schools.csv" {
    param a ~ normal(m, 1)
    data "marks.csv"
    observe mark ~ normal(a, 1)
  }
}'
DECAY='param k ~ uniform(0, 1)
start 0
state A = 1
dA/dt = -k*A
data "d.csv" time t
observe y ~ normal(A, 1)'

files() { # the files of all models, without mistakes
  printf 'subject,weight\ns1,70\ns2,80\n' >subjects.csv
  printf 'subject,time,amount\ns1,0,100\ns2,0,120\n' >doses.csv
  printf 'subject,hour,conc\ns1,1,9\ns1,5,4\ns2,1,10\n' >conc.csv
  printf 'region\nnorth\nsouth\n' >regions.csv
  printf 'region,school\nnorth,a\nsouth,b\n' >schools.csv
  printf 'school,mark\na,1\nb,2\n' >marks.csv
  printf 't,y\n1,2\n2,3\n' >d.csv
}

# The model, with its files as they are, is refused at this place with these words and a hint.
mistake() { # model place word...
  local place=$2
  printf '%s\n' "$1" >m.atvi
  shift 2
  run --separate-stderr "$ATVI" check m.atvi
  fails_with 2 "$place: error: " "$@" "hint: "
  [ "$(grep -c ': error: ' <<<"${stderr-}")" -eq 1 ]
  [ -z "$output" ]
}

@test "the models themselves have no mistake" {
  files
  for model in "$POPULATION" "$SCHOOLS" "$DECAY"; do
    printf '%s\n' "$model" >m.atvi
    "$ATVI" check m.atvi >out
    grep -q 'gradient    ok' out
  done
}

@test "units that are in one file only, twice, or nowhere" {
  files
  echo s9,1,4 >>conc.csv
  mistake "$POPULATION" conc.csv:5:1 "there is no subject 's9'" "m.atvi:8:8" "did you mean 's1'?"
  files
  echo s7,0,5 >>doses.csv
  mistake "$POPULATION" doses.csv:4:1 "there is no subject 's7'" "m.atvi:7:34"
  files
  echo s2,81 >>subjects.csv
  mistake "$POPULATION" subjects.csv:4:4 "'weight' varies within the subject 's2': line 3 has 80"
  files
  printf 'hour,conc\n1,9\n' >conc.csv
  mistake "$POPULATION" m.atvi:8:8 "conc.csv has no column 'subject'"
  files
  printf 'id,weight\ns1,9\n' >subjects.csv
  mistake "$POPULATION" m.atvi:3:19 "subjects.csv has no column 'subject'"
  files
  echo subject,weight >subjects.csv
  mistake "$POPULATION" subjects.csv:1:1 "no row of data"
  rm subjects.csv
  mistake "$POPULATION" m.atvi:3:19 "there is no file subjects.csv"
  mistake 'each arm in a, b, a { param p ~ normal(0, 1) }' m.atvi:1:19 "'a' is named twice"
}

@test "nested blocks with a missing or ambiguous parent" {
  files
  echo west,c >>schools.csv
  mistake "$SCHOOLS" schools.csv:4:1 "there is no region 'west'" "regions.csv"
  files
  printf 'school\na\n' >schools.csv
  mistake "$SCHOOLS" m.atvi:4:20 "schools.csv has no column 'region'"
  files
  echo south,a >>schools.csv
  mistake "$SCHOOLS" marks.csv:2:1 "school 'a' is in more than one region" "add a column 'region'"
  files
  mistake 'each a in x { each b in x { each c in x { each d in x { each e in x { param p ~ normal(0, 1) } } } } }' \
    m.atvi:1:62 "nested deeper than 4"
}

@test "numbers of units" {
  files
  printf 'subject,weight\ns1,heavy\ns2,80\n' >subjects.csv
  mistake "$POPULATION" subjects.csv:2:4 "'heavy' is not a number" "index weight = heavy"
  printf 'subject,weight\ns1,NA\ns2,80\n' >subjects.csv
  mistake "$POPULATION" subjects.csv:2:4 "'weight' of this subject is missing"
  files
  mistake "${POPULATION/weight/height}" m.atvi:4:30 "unknown name 'height'" "did you mean 'weight'?"
  mistake "${POPULATION/lCL + weight/b[weight]}
param b[1..3] ~ normal(0, 1)" subjects.csv:2:4 "index 70 of 'b' is outside 1..3" m.atvi:4:26
  mistake "$POPULATION
derived x = CL" m.atvi:11:13 "'CL' belongs to each subject"
}

@test "pulses and their files" {
  files
  mistake "${POPULATION/amount at/amt at}" m.atvi:7:14 "unknown name 'amt'" \
    "the columns of doses.csv are: subject, time, amount"
  mistake "${POPULATION/at time/at tme}" m.atvi:7:24 "there is no column 'tme' in doses.csv" "did you mean 'time'?"
  echo s2,4,lots >>doses.csv
  mistake "$POPULATION" doses.csv:4:6 "'lots' is not a number"
  files
  echo s2,,4 >>doses.csv
  mistake "$POPULATION" doses.csv:4:4 "the time is missing"
  mistake "$DECAY
pulse A += 2 at -3" m.atvi:7:17 "the pulse at -3 lies before the start time 0"
  mistake "$DECAY
param lag ~ normal(1, 1)
pulse A += 2 at lag" m.atvi:8:17 "could lie before the start time 0" "in (0, inf)"
  mistake "$DECAY
pulse k += 2 at 3" m.atvi:7:7 "'k' is a parameter, not a state"
  mistake "$DECAY
pulse A += 2 at every 0 from 0 to 24" m.atvi:7:23 "must be above 0, not 0"
  mistake "$DECAY
pulse A += 2 when k > 3" m.atvi:7:21 "depends on no state" "'at'"
  mistake "$DECAY
pulse A += 2 when A == 0.5" m.atvi:7:21 "comparisons"
}

@test "times of data, tables and walks" {
  files
  printf 'subject,hour,conc\ns1,5,9\ns2,1,10\ns1,1,4\n' >conc.csv
  mistake "$POPULATION" conc.csv:4:4 "1 follows 5"
  printf 't,y\n2020-01-02,2\n4,3\n' >d.csv
  mistake "$DECAY" d.csv:2:1 "'2020-01-02'" "calendar"
  mistake "calendar 2020-01-01 day
$DECAY" d.csv:3:1 "'4' is a number, but the times of this column begin with a date"
  printf 't,y\n1,2\n2020-01-04,3\n' >d.csv
  mistake "calendar 2020-01-01 day
$DECAY" d.csv:3:1 "'2020-01-04' is a date, but the times of this column begin with a number"
  printf 't,y\n1,2\ninf,3\n' >d.csv
  mistake "$DECAY" d.csv:3:1 "'inf' cannot be used as a time" "such as 1e5"
  files
  mistake "$DECAY
table T step = [0: 1, 5: 2, 3: 4]" m.atvi:7:29 "3 follows 5"
  printf 't,v\n0,1\n5,2\n3,4\n' >table.csv
  mistake "$DECAY
table T linear from \"table.csv\" time t column v" table.csv:4:1 "3 follows 5"
  mistake "$DECAY
table T spline = [0: 1]" m.atvi:7:7 "a spline needs two knots or more, 'T' has 1"
  mistake "$DECAY
walk x every 7 from 20 to 10 ~ normal(0, 1) from normal(0, 1)" m.atvi:7:6 "ends at 10, not after its beginning 20"
  mistake "$DECAY
walk x every 7 from 50 to 90 ~ normal(0, 1) from normal(0, 1)" m.atvi:7:6 "from 50 to 90, but the data from 1 to 2"
  mistake "$DECAY
walk x weekly ~ normal(0, 1) from normal(0, 1)" m.atvi:7:6 "needs a calendar"
  mistake "$DECAY
derived q = at(A, -5)" m.atvi:7:19 "the time -5 lies before the start time 0"
  mistake "$DECAY
derived q = maximum(A, 5, 2)" m.atvi:7:27 "the time 2 is not after 5"
  mistake "${POPULATION/state A = 0/table T step from \"t.csv\" time t column v
  state A = 0}" m.atvi:5:21 "there is no file t.csv"
  printf 'subject,t,v\ns1,0,1\n' >t.csv
  mistake "${POPULATION/state A = 0/table T step from \"t.csv\" time t column v
  state A = 0}" m.atvi:5:21 "t.csv has no rows of 's2'"
}

@test "delays and whole runs in places where they mean nothing" {
  files
  mistake "${DECAY/k\*A/k*delay(A, -2)}" m.atvi:4:21 "a delay must be above 0 and finite"
  mistake "${DECAY/normal(A/normal(delay(A, 1)}" m.atvi:6:20 "delay() belongs in differential equations"
  mistake "${DECAY/normal(A/normal(maximum(A, 0, 5)}" m.atvi:6:20 "'maximum'" "'derived'"
  mistake "${DECAY/normal(A/normal(late}
let late = delay(A, 2)" m.atvi:6:20 "an observation cannot use 'late': it depends on a delayed state"
  mistake "${DECAY/k\*A/k*delay(A*T, 2)}
table T step = [0: 1, 2: 3]" m.atvi:4:20 "it is a table" "only states, parameters, constants and t"
}

@test "a steady state that does not exist" {
  files
  printf '%s\n' "${DECAY/-k\*A/k}" | sed 's/start 0/start 0 steady/' >m.atvi
  run --separate-stderr "$ATVI" check m.atvi
  fails_with 1 "none of 512 draws from the prior could be evaluated: the model came to no steady state" \
    "states that grow or oscillate have no steady state"
}
