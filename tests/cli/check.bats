#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# `atvi check`, and every way a model or its data can be wrong.
load common

@test "check prints parameters, data, gradient and cost" {
  run -0 "$ATVI" check cold.atvi
  says beta gamma S0 infected recovered 21 gradient
  run -0 "$ATVI" check cold.atvi --no-compile
  says gradient
}

@test "check of the rotavirus example" {
  run -0 "$ATVI" check "$TOP/examples/rotavirus/rotavirus.atvi"
  says beta.6 cases.1
}

@test "no such model" {
  run "$ATVI" check nowhere.atvi
  fails_with 2 nowhere.atvi
}

# wrong LINE-EDIT PLACE WORD...: the edited model must be refused at that place
wrong() {
  local edit=$1
  shift
  sed "$edit" cold.atvi >wrong.atvi
  not cmp -s cold.atvi wrong.atvi
  run "$ATVI" check wrong.atvi
  fails_with 2 "wrong.atvi:" "^" "hint" "$@"
}

@test "unknown name" { wrong 's/-beta\*S\*I/-betta*S*I/' betta beta; }
@test "syntax" { wrong 's/uniform(0, 3) /uniform(0, 3 /' "error"; }
@test "a state without an equation" { wrong '/^dR\/dt/d' R; }
@test "a prior that is upside down" { wrong 's/uniform(37, 100)/uniform(100, 37)/' "uniform"; }
@test "a missing column" { wrong 's/^observe infected/observe infacted/' infacted; }

@test "garbage does not crash" {
  head -c 20000 /dev/urandom >garbage.atvi
  run "$ATVI" check garbage.atvi
  fails_with 2 garbage.atvi
  : >empty.atvi
  run "$ATVI" check empty.atvi
  [ "$status" -le 2 ]
  run "$ATVI" check .
  [ "$status" -eq 1 ] || [ "$status" -eq 2 ]
}

@test "no data file" {
  rm cold.csv
  run "$ATVI" check cold.atvi
  [ "$status" -eq 1 ] || [ "$status" -eq 2 ]
  says cold.csv
}

@test "an empty data file" {
  : >cold.csv
  run "$ATVI" fit cold.atvi
  fails_with 2 cold.csv
  [ ! -e cold-001 ]
}

@test "a data file with a header only" {
  head -n 1 "$TOP/examples/cold/cold.csv" >cold.csv
  run "$ATVI" check cold.atvi
  fails_with 2 cold.csv
}

@test "text in a data file: its place and the cell" {
  sed '5s/,[0-9]*,/,many,/' "$TOP/examples/cold/cold.csv" >cold.csv
  run "$ATVI" fit cold.atvi
  fails_with 2 cold.csv:5 many
  [ ! -e cold-001 ]
}

@test "a negative count, a broken count" {
  sed '5s/,[0-9]*,/,-3,/' "$TOP/examples/cold/cold.csv" >cold.csv
  run "$ATVI" check cold.atvi
  fails_with 2 cold.csv:5 -3
  sed '5s/,[0-9]*,/,2.5,/' "$TOP/examples/cold/cold.csv" >cold.csv
  run "$ATVI" check cold.atvi
  fails_with 2 cold.csv:5 2.5
}

@test "--data uses another file instead of the model's" {
  sed '2,$s/,[0-9]*,/,NA,/' cold.csv >gone.csv
  run -0 "$ATVI" check cold.atvi --data gone.csv
  says 21
  run "$ATVI" check cold.atvi --data nowhere.csv
  [ "$status" -eq 1 ] || [ "$status" -eq 2 ]
  says nowhere.csv
  run "$ATVI" check cold.atvi --data hosp=gone.csv
  fails_with 2 hosp
}

@test "rows left out of counts since the previous row are reported" {
  printf 'day,cases\n7,20\n14,26\n28,44\n35,30\n42,21\n49,25\n' >w.csv
  printf 'param a ~ uniform(0, 20)\nstate C = 0\ndC/dt = a\nstart 0\ndata "w.csv" time day\nobserve cases ~ poisson(increase(C))\n' >w.atvi
  run -0 "$ATVI" check w.atvi
  says "note: w.csv, row 3: the time since the previous row is 14, elsewhere 7" "leave the cell empty"
  not grep -E '^note.{101,}$' <<<"$output"
  "$ATVI" fit w.atvi --quiet --out run
  json run/summary.json '.verdict == "ok" and ([.messages[] | select(test("^Gaps in w.csv, row 3: .* 14, elsewhere 7"))] | length == 1)'
  sed -i 's/^28/21,\n28/' w.csv # the row is kept
  run -0 "$ATVI" check w.atvi
  [[ "$output" != *note* ]]
}

@test "many elements of one statement that are alike are one line" {
  printf 'param s ~ halfnormal(1)\nparam b[1..9] ~ normal(0, s)\nparam c[1..8] ~ normal(0, s)\nlogp -s\n' >many.atvi
  run -0 "$ATVI" check many.atvi
  [[ $output == *"b.1 ... b.9 "* ]] && [[ $output != *"b.2"* ]]
  [[ $output == *"c.8 "* ]] && [[ $output != *"c.1 ..."* ]]
}

@test "a plain on which the gradient is next to nothing is not called wrong" {
  cat >spike.atvi <<'END'
param x ~ uniform(-1, 1)
logp log1p(1.975e6*exp(-0.5*((x - 0.3137)/4e-5)^2))
END
  run -0 "$ATVI" check spike.atvi
  says "gradient    ok"
}

@test "a gradient is not called wrong because the solver is rough" {
  # in one corner of the prior explicit steps are limited by stability, and differences of the density mean nothing
  { echo t,c; for i in 1 2 4 8 12 24 48; do echo "$i,$((10 - i / 5))"; done; } >pk.csv
  printf '%s\n' 'param CL in (0.01, 1000)' 'param Q in (0.01, 1000)' 'param V1 in (0.1, 100)' 'param V2 in (0.1, 100)' \
    'param s in (0.1, 20)' 'start 0' 'state A = 100' 'state P = 0' 'dA/dt = -CL/V1*A - Q/V1*A + Q/V2*P' \
    'dP/dt = Q/V1*A - Q/V2*P' 'data "pk.csv" time t' 'observe c ~ lognormal(log(abs(A)/V1 + 1e-12), s)' \
    'solver rk45 tol 1e-6' >pk.atvi
  run -0 "$ATVI" check pk.atvi
  says "gradient    ok" "difference to tangents"
}

@test "a gradient at rest is right" {
  # nothing moves, so that no error keeps explicit steps stable; derivatives would be nothing but rounding
  { echo t,a; for i in {1..20}; do echo "$i,0.5"; done; } >d.csv
  printf '%s\n' 'param k in (20, 500)' 'param tau in (0.5, 2)' 'start 0' 'state x = 1' 'state y = 1' \
    'dx/dt = -k*(x - delay(y, tau))' 'dy/dt = y*(1 - x)' 'data "d.csv" time t' 'observe a ~ normal(y, 0.5)' \
    'solver rk45' >m.atvi
  run -0 "$ATVI" check m.atvi
  says "gradient    ok"
}
