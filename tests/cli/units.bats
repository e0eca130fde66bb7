#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Models with blocks `each`, command by command.
load common

setup() {
  cd "$BATS_TEST_TMPDIR" || return 1
  printf 'subject,weight\ns01,71\ns02,58\ns03,80\ns04,66\n' >subjects.csv
  printf 'subject,time,amount\ns01,0,100\ns02,0,200\ns03,0,100\ns04,0,200\ns01,12,100\ns03,12,100\n' >doses.csv
  # rows of a subject ascend in time, subjects are mixed; s03 has fewer rows
  {
    echo subject,hour,conc
    printf 's02,1,9.1\ns01,1,4.9\ns01,4,2.9\ns02,4,5.6\ns03,1,4.1\ns04,1,8.8\ns04,4,6.1\ns03,4,2.4\n'
    printf 's01,13,5.2\ns02,13,1.6\ns04,13,2.2\ns01,24,1.1\ns02,24,0.4\ns04,24,0.7\n'
  } >conc.csv
  cat >pk.atvi <<'MODEL'
model "Four subjects"
param lCL ~ normal(1, 0.3)
param lV ~ normal(3, 0.3)
param wCL ~ halfnormal(0.3)
param sigma ~ halfnormal(0.3)
each subject from "subjects.csv" {
  param CL ~ lognormal(lCL + 0.75*log(weight/70), wCL)
  let V = exp(lV)*weight/70
  state A = 0
  dA/dt = -CL/V*A
  start 0
  pulse A += amount at time from "doses.csv"
  data "conc.csv" time hour
  observe conc ~ lognormal(log(A/V), sigma)
  derived half = log(2)*V/CL
}
MODEL
}

ALL=(--set lCL=1 --set lV=3 --set wCL=0.2 --set sigma=0.1 --set CL=2.7)

@test "check describes units, their parameters and their file once" {
  run --separate-stderr "$ATVI" check pk.atvi
  [ "$status" -eq 0 ]
  says "subject: 4, s01 ... s04; uses weight" "parameters  8: 4 shared, 4 of units" \
    "CL.s01 ... CL.s04 lognormal" "conc.csv: 14 rows of 4 units, time 1 to 24" "14 values, 0.4 to 9.1" \
    "solver chosen at" "gradient    ok"
  [ "$(grep -c conc.csv <<<"$output")" -eq 1 ]
  [ "$(grep -c 'CL.s02' <<<"$output")" -eq 0 ]
}

@test "a trajectory has a line for every unit and time" {
  "$ATVI" simulate pk.atvi "${ALL[@]}" >out.csv
  [ "$(head -n 1 out.csv)" = subject,t,A ]
  [ "$(wc -l <out.csv)" -eq 15 ]
  [ "$(grep -c ^s03 out.csv)" -eq 2 ]
  # the second dose of s01 and none of s02: A is amount * exp(-CL/V t)
  awk -F, '$1 == "s01" && $2 == 13 { v = exp(3)*71/70; a = 100*exp(-2.7/v*13) + 100*exp(-2.7/v); d1 = $3/a - 1 }
    $1 == "s02" && $2 == 13 { v = exp(3)*58/70; a = 200*exp(-2.7/v*13); d2 = $3/a - 1 }
    END { exit !(d1*d1 < 1e-8 && d2*d2 < 1e-8) }' out.csv
}

@test "synthetic data have the layout of the long file and can be fitted" {
  "$ATVI" simulate pk.atvi "${ALL[@]}" --observe >new.csv
  diff <(cut -d, -f1,2 new.csv) <(cut -d, -f1,2 conc.csv)
  "$ATVI" eval pk.atvi "${ALL[@]}" --data new.csv >out.json
  json out.json '.log_likelihood > -40 and .log_likelihood < 20'
}

@test "draws of the prior: a line has the parameters of its unit" {
  "$ATVI" simulate pk.atvi --prior 3 >out.csv
  [ "$(head -n 1 out.csv)" = draw__,lCL,lV,wCL,sigma,CL,half,subject,hour,conc ]
  [ "$(wc -l <out.csv)" -eq 43 ]
  awk -F, 'NR > 1 { w["s01"] = 71; w["s02"] = 58; w["s03"] = 80; w["s04"] = 66;
    d = $7*$6/(log(2)*exp($3)*w[$8]/70) - 1; if (d*d > 1e-12) exit 1 }' out.csv
}

@test "times of one's own" {
  "$ATVI" simulate pk.atvi "${ALL[@]}" --times 2:8:2 --observe >out.csv
  [ "$(head -n 1 out.csv)" = subject,hour,conc ]
  [ "$(wc -l <out.csv)" -eq 17 ]
}

@test "a fit names a shared file once, and draws do not depend on threads" {
  "$ATVI" fit pk.atvi --out a --threads 1 -q --method ram --ess 200
  "$ATVI" fit pk.atvi --out b --threads 4 -q --method ram --ess 200 --no-report
  json a/fit.json '.data == ["conc.csv"]'
  diff <(grep -v '^#' a/draws.csv) <(grep -v '^#' b/draws.csv)
  # every unit has times between those of its own data
  json a/groups/groups.json '[.series[] | . as $s | [.grid[] | select(. > $s.time[0] and . < $s.time[-1])] | length > 100] | all'
  # and from the first dose on, where that is near them
  json a/groups/groups.json '[.series[] | .grid[-1] < .time[-1]] | all'
  json a/groups/groups.json '[.series[] | .grid[0] < .time[0]] | any'
  json a/groups/groups.json '[.series[] | select(.name == "conc.s01") | .grid[] | select(. >= 12 and . < 12.01)] | length == 2'
}

@test "simulation-based calibration simulates the long file" {
  "$ATVI" sbc pk.atvi --replicates 2 --method ram --out s -q
  diff <(cut -d, -f1,2 s/data/set_1.csv) <(cut -d, -f1,2 conc.csv)
  [ "$(grep -c ',ok,' s/replicates.csv)" -eq 2 ]
}

@test "a study" {
  "$ATVI" study pk.atvi --truth lCL=1,lV=3,wCL=0.2,sigma=0.1,CL=2.7 --replicates 2 --methods ram --out s -q
  [ "$(grep -c ',ok,' s/replicates.csv)" -eq 2 ]
}

@test "a unit that is left out is predicted from its prior given the rest" {
  "$ATVI" fit pk.atvi --out f -q --method ram --holdout 'subject == s02'
  # CL.s02 is lognormal(lCL + 0.75 log(58/70), wCL): in draws of the posterior its standard score is normal
  grep -v '^#' f/draws.csv | awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; next }
    { z = (log($c["CL.s02"]) - $c["lCL"] - 0.75*log(58/70))/$c["wCL"]; n++; s += z; q += z*z }
    END { m = s/n; sd = sqrt(q/n - m*m); print m, sd; exit !(m > -0.2 && m < 0.2 && sd > 0.85 && sd < 1.15) }'
  "$ATVI" predict f >out.txt
  grep -q "held out (subject == s02)" out.txt
  [ "$(grep -c ',held_out,' f/predict.csv)" -eq 4 ]
  [ "$(grep ',held_out,' f/predict.csv | cut -d, -f1 | sort -u)" = conc.s02 ]
}

@test "LOO of whole units" {
  "$ATVI" fit pk.atvi --out f -q --method ram --ess 400
  run --separate-stderr "$ATVI" predict f
  [ "$status" -eq 0 ]
  says "LOO of 4 whole units"
  json f/scores.json '.loo.n == 14 and .loo_units.n == 4 and (.loo_units.worst.unit | startswith("subject s0"))'
  json f/scores.json '(.loo_units.khat_above > 0) == ([.messages[] | select(contains("--holdout"))] | length == 1)'
  json f/groups/groups.json '[.series[].unit] == ["subject s01", "subject s02", "subject s03", "subject s04"]'
}

@test "the page shows units side by side, and their parameters as intervals" {
  # 30 units of which the last does not fit
  awk 'BEGIN { print "plot,t,y"; for (i = 1; i <= 30; i++) for (t = 1; t <= 4; t++)
    printf "p%02d,%d,%.3f\n", i, t, i%5 + 0.3*t + (i == 30 ? 9*(t%2) : 0.1*((i*t)%3)) }' >y.csv
  awk 'BEGIN { print "plot"; for (i = 1; i <= 30; i++) printf "p%02d\n", i }' >plots.csv
  cat >plots.atvi <<'MODEL'
param m ~ normal(2, 3)
param s ~ halfnormal(3)
each plot from "plots.csv" {
  param a ~ normal(m, s)
  data "y.csv" time t
  observe y ~ normal(a + 0.3*t, 1)
  derived double = 2*a
}
MODEL
  "$ATVI" fit plots.atvi --out f -q --method nuts --ess 200
  html=f/report.html
  grep -q "The 12 of 30 units that are predicted worst" $html
  grep -q "The other 18 units, in the order of the data" $html
  grep -q "y, all 30 units" $html
  grep -q "intervals of the 30 elements of a" $html
  # of 62 rows the table shows two; the others are folded
  [ "$(grep -c 'summary>The 30 elements of' $html)" = 2 ]
  # the worst one is the first
  [ "$(grep -o 'y\.p[0-9]* over time' $html | head -n 1)" = "y.p30 over time" ]
  grep -q "Leaving out one unit at a time" $html
}

@test "new units from the population" {
  "$ATVI" fit pk.atvi --out f -q --method ram --ess 400 --no-report
  printf 'subject,weight\nn1,50\nn2,90\n' >new.csv
  printf 'subject,time,amount\nn1,0,150\nn2,0,150\n' >new-doses.csv
  "$ATVI" simulate pk.atvi --fit f --draws 400 --data subject=new.csv --data doses.csv=new-doses.csv --times 2,6 >out.csv
  [ "$(head -n 1 out.csv)" = draw__,lCL,lV,wCL,sigma,CL,half,subject,hour,conc ]
  [ "$(wc -l <out.csv)" -eq 1601 ]
  # shared parameters are draws of the fit, those of units follow their prior given them
  [ "$(cut -d, -f2 out.csv | sort -u | wc -l)" -gt 100 ]
  grep -qF "$(sed -n 2p out.csv | cut -d, -f2 | cut -c1-12)" f/draws.csv
  awk -F, 'NR > 1 && $8 == "n1" && $9 == 2 { z = (log($6) - $2 - 0.75*log(50/70))/$4; n++; s += z; q += z*z }
    END { m = s/n; sd = sqrt(q/n - m*m); print m, sd; exit !(m > -0.2 && m < 0.2 && sd > 0.85 && sd < 1.15) }' out.csv
}

@test "units at given values of what is shared" {
  "$ATVI" simulate pk.atvi --set lCL=1 --set lV=3 --set wCL=0.2 --set sigma=0.1 --observe >a.csv
  "$ATVI" simulate pk.atvi --set lCL=1 --set lV=3 --set wCL=0.2 --set sigma=0.1 --observe >b.csv
  cmp a.csv b.csv
  diff <(cut -d, -f1,2 a.csv) <(cut -d, -f1,2 conc.csv)
  "$ATVI" simulate pk.atvi --set lCL=1 --set lV=3 --set wCL=0.2 --set sigma=0.1 --set CL.s01=2.5 --draws 3 >c.csv
  [ "$(grep ',s01,1,' c.csv | cut -d, -f6 | sort -u)" = 2.5 ]
  [ "$(grep ',s02,1,' c.csv | cut -d, -f6 | sort -u | wc -l)" -eq 3 ]
  run --separate-stderr "$ATVI" simulate pk.atvi --set lCL=1
  fails_with 2 "no value for lV"
  run --separate-stderr "$ATVI" simulate pk.atvi --prior 3 --fit f
  fails_with 2 "leave out --fit"
}

@test "a file is replaced by its name, and a fit remembers it" {
  sed 's/,200$/,400/' doses.csv >double.csv
  "$ATVI" fit pk.atvi --out f -q --method map --no-report --data doses.csv=double.csv
  "$ATVI" predict f >out.txt # refuses if the doses were others
  run --separate-stderr "$ATVI" check pk.atvi --data dose.csv=double.csv
  fails_with 2 "no data set 'dose.csv'"
  printf 'subject,weight\nn1,50\n' >new.csv
  run --separate-stderr "$ATVI" simulate pk.atvi "${ALL[@]}" --data subject=new.csv --times 1,2
  fails_with 2 "there is no subject 's01'" "the units are those of new.csv"
}

@test "the example: new subjects from a sketch of the posterior" {
  cp "$TOP"/examples/pk/* .
  run --separate-stderr "$ATVI" check pk.atvi
  [ "$status" -eq 0 ]
  says "subject: 12, s01 ... s12; uses weight" "parameters  30: 6 shared, 24 of units" "100 rows of 12 units"
  "$ATVI" fit pk.atvi --method nuts --chains 4 --max-iter 200 --out pk -q --no-report
  # the commands of its README
  sed -n '/^## Subjects to come/,$p' README.md | awk '/^```/ { inside = !inside; next } inside' >commands
  sed -i "s|atvi simulate|$ATVI simulate|; s|examples/pk/||; s|--draws 500|--draws 50|" commands
  bash -e commands
  [ "$(wc -l <simulated.csv)" -eq 2401 ]
}

# Schools in regions, both observed.
nested() {
  printf 'region,area\nnorth,1.5\nsouth,2\n' >regions.csv
  printf 'region,school,size\nnorth,a,10\nnorth,b,20\nsouth,a,15\nsouth,c,12\n' >schools.csv
  printf 'region,week,temp\nnorth,1,3\nnorth,2,4\nsouth,1,8\nsouth,2,9\nsouth,3,7\n' >weather.csv
  {
    echo region,school,week,mark
    printf 'north,a,1,2.1\nnorth,a,2,2.9\nnorth,b,1,1.1\nnorth,b,2,1.7\n'
    printf 'south,a,1,3.1\nsouth,a,2,4.4\nsouth,c,1,2.2\nsouth,c,3,3.9\n'
  } >marks.csv
  cat >nested.atvi <<'MODEL'
param mu ~ normal(2, 1)
param s ~ halfnormal(0.5)
each region from "regions.csv" {
  param m ~ normal(mu, 0.5)
  data weather "weather.csv" time week
  observe temp ~ normal(2*m*area, 2)
  derived warm = m*area
  each school from "schools.csv" {
    param theta ~ normal(m, 0.5)
    state A = 0
    dA/dt = theta - 0.3*A*(1 + size/100)
    start 0
    data marks "marks.csv" time week
    observe mark ~ normal(A, s)
    track twice = 2*A
    derived end = theta/0.3
  }
}
MODEL
}

@test "nested blocks: check, fit, predict and the page" {
  nested
  run -0 "$ATVI" check nested.atvi
  says "region.school: 4, north.a ... south.c" "theta.north.a ... theta.south.c" "derived     6" "8 values"
  run -0 "$ATVI" fit nested.atvi --method ram --ess 400 --out f
  says theta.south.c warm.north end.north.a
  run -0 "$ATVI" predict f
  says mark.south.c "LOO of 6 whole units"
  grep -q 'south.c' f/report.html
}

@test "nested blocks: rows and units are left out by their columns" {
  nested
  for rule in 'region == north and school == a' 'region == south' 'school == a' 'mark > 3'; do
    run -0 "$ATVI" fit nested.atvi --method map --holdout "$rule" --out h --force
  done
  run "$ATVI" fit nested.atvi --holdout 'pupil == a' --out h --force
  fails_with 2 "region, week, temp, region, school, week, mark"
  not grep -q 'mark, region' <<<"$output"
}

@test "nested blocks: a line has what its unit and those around it have, data sets go by name or file" {
  nested
  run -0 --separate-stderr "$ATVI" simulate nested.atvi --prior 2 --seed 1 --observe=marks.csv
  [ "${lines[0]}" = "draw__,mu,s,m,theta,warm,end,region,school,week,mark" ]
  [ "${#lines[@]}" = 17 ]
  not grep -q NA <<<"$output"
  first=$output
  run -0 --separate-stderr "$ATVI" simulate nested.atvi --prior 2 --seed 1 --observe=marks
  [ "$output" = "$first" ]
  run "$ATVI" simulate nested.atvi --prior 2
  fails_with 2 "2 data sets" "name or file"
}

@test "nested blocks: new regions and schools from the population" {
  nested
  run -0 "$ATVI" fit nested.atvi --method ram --ess 400 --out f
  printf 'region,area\neast,1\n' >new-regions.csv
  printf 'region,school,size\neast,z,9\neast,y,8\n' >new-schools.csv
  run -0 --separate-stderr "$ATVI" simulate nested.atvi --fit f --draws 3 --data region=new-regions.csv \
    --data school=new-schools.csv --times 0:2 --observe=marks
  [ "${#lines[@]}" = 19 ]
  [[ ${lines[1]} == *,east.z,0,* ]]
}

@test "nested blocks: a study and simulation-based calibration" {
  nested
  run -0 "$ATVI" study nested.atvi --truth mu=2,s=0.3,m=2,theta=2 --replicates 1 --methods copula --out s
  says theta.south.c warm.south
  run -0 "$ATVI" sbc nested.atvi --replicates 1 --method copula --out c
  says theta.south.c
}

@test "a block of doses: the label is a number" {
  printf 'dose,y\n0.5,0.7\n0.5,0.8\n2,1.2\n8,1.7\n' >doses2.csv
  cat >dose.atvi <<'MODEL'
param top ~ lognormal(0, 1)
param K ~ lognormal(0, 1)
each dose from "doses2.csv" {
  state P = 0
  dP/dt = top*dose/(K + dose) - P
  start steady
  data "doses2.csv"
  observe y ~ normal(P, 0.1)
}
MODEL
  run -0 --separate-stderr "$ATVI" simulate dose.atvi --set top=2 --set K=2
  [ "${lines[1]%%.*}" = "0" ]
  grep -q '^8,0,1.6$\|^8,0,1.59999\|^8,0,1.60000' <<<"$output"
  run -0 "$ATVI" fit dose.atvi --method map --out d
  sed 's/each dose/each row/' dose.atvi >row.atvi
  run -0 --separate-stderr "$ATVI" simulate row.atvi --set top=2 --set K=2
  [ "${#lines[@]}" = 5 ]
}

@test "check lists a long walk of units in one line" {
  sed -i 's/^  state A = 0/  walk z every 2 from 0 to 24 ~ normal(0, 0.1) from normal(0, 0.1)\n&/; s/-CL\/V\*A/-CL*exp(z)\/V*A/' pk.atvi
  run --separate-stderr "$ATVI" check pk.atvi
  [ "$status" -eq 0 ]
  says "z.0.s01 ... z.24.s04" "parameters  60: 4 shared, 56 of units"
  [ "$(grep -c 'z\.' <<<"$output")" -le 2 ] # and perhaps the worst gradient
}

@test "a parameter of a unit that does not exist" {
  run --separate-stderr "$ATVI" eval pk.atvi --set CL.s99=1
  fails_with 2 "no parameter of that name; it has lCL, lV, wCL, sigma, CL.s01 ... CL.s04"
}
