#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Reports of emulators: on their own, and in the report of a fit; reports that are made again.

load common
load python

# Twenty runs of a simulator that fails where k is below 0.15, and ten observations.
simulator() {
  cat >sim <<'S'
#!/bin/sh
awk -v k="$1" -v m="$2" 'BEGIN { if (k < 0.15) { print "no" >"/dev/stderr"; exit 3 }
  print "t,flow"; for (t = 1; t <= 10; t++) printf("%d,%.6f\n", t, m * exp(-k * t)) }'
S
  chmod +x sim
  awk 'BEGIN { print "t,y"; for (t = 1; t <= 10; t++) printf("%d,%.4f\n", t, 2 * exp(-0.5 * t) + 0.1 * sin(t)) }' >y.csv
  cat >flow.atvi <<'M'
model "Decay <b>"
param k ~ uniform(0.1, 0.9)
param m ~ uniform(1, 3)
param v ~ invgamma(2, 0.01)
param l ~ gamma(2, 0.5)
param s2 ~ invgamma(2, 0.001)
simulator {
  command "./sim {k} {m}"
  output flow from stdout csv time t
}
data "y.csv" time t
observe y ~ emulator(flow) + exponential(v, l) + white(s2)
M
  "$ATVI" design flow.atvi -n 20 >/dev/null
  "$ATVI" run flow.atvi >/dev/null 2>&1 || true
}

@test "atvi emulate writes a report, and says where" {
  simulator
  run -0 "$ATVI" emulate flow.atvi
  [[ "$output" == *"report  flow-runs/report.html"* ]]
  for name in loo errors sobol over-time q2; do
    [ -s "flow-runs/figures/$name.svg" ] && [ -s "flow-runs/figures/$name.pdf" ]
  done
  grep -q "<title>Decay &lt;b&gt;</title>" flow-runs/report.html
  grep -q "The emulator can replace the simulator" flow-runs/report.html # one run of 20 failed
  # those that failed, with their parameters and why
  grep -q "Runs that failed" flow-runs/report.html
  grep -q "ended with status 3: no" flow-runs/report.html
  grep -q "atvi emulate flow.atvi --test 0.1 --seed 1 --refit" flow-runs/report.html
  not grep -qi "nan\b" <(sed 's/<script.*//' flow-runs/report.html)
}

@test "--no-report touches nothing; --quiet and --json print as before" {
  simulator
  run -0 --separate-stderr "$ATVI" emulate flow.atvi --quiet
  [ "$output" = flow-runs ]
  [ -s flow-runs/report.html ]
  cp flow-runs/report.html before.html
  run -0 --separate-stderr "$ATVI" emulate flow.atvi --no-report
  [[ "$output$stderr" != *"report"* ]]
  cmp flow-runs/report.html before.html
  echo mine >flow-runs/report.html
  run -0 --separate-stderr "$ATVI" emulate flow.atvi --no-report
  [ "$(cat flow-runs/report.html)" = mine ] && [[ "$output$stderr" != *"report"* ]]
  rm -r flow-runs/report.html flow-runs/figures
  run -0 --separate-stderr "$ATVI" emulate flow.atvi --no-report
  [ ! -e flow-runs/report.html ] && [ ! -e flow-runs/figures ]
  run -0 --separate-stderr "$ATVI" emulate flow.atvi --json
  python3 -c 'import json, sys; json.loads(sys.argv[1])' "$output"
}

@test "atvi emulate replaces its own page, and no other" {
  simulator
  "$ATVI" emulate flow.atvi --quiet
  sed -i 's/<title>.*<.title>/<title>old<\/title>/' flow-runs/report.html
  run -0 "$ATVI" emulate flow.atvi
  not grep -q "<title>old" flow-runs/report.html
  "$ATVI" fit cold.atvi --method map --out fit --quiet
  rm -r flow-runs/figures
  for page in fit/report.html cold.csv; do
    cp "$page" flow-runs/report.html
    run -0 --separate-stderr "$ATVI" emulate flow.atvi
    says "flow-runs/report.html is not a report of atvi emulate, so it is kept"
    [[ "$output" != *"report  "* ]]
    cmp "$page" flow-runs/report.html
    [ ! -e flow-runs/figures ]
  done
}

@test "runs at other times have their reason, and the others their names" {
  simulator
  sed -i 's/t <= 10;/t <= (k > 0.7 ? 8 : 10);/' sim
  rm flow-runs/runs.jsonl
  "$ATVI" run flow.atvi >/dev/null 2>&1 || true
  run -0 "$ATVI" emulate flow.atvi --quiet
  failed=$(jq '.[0].failed_runs' flow-runs/emulate.json)
  sed -n '/<caption>Runs that failed/,/<.table>/p' flow-runs/report.html >failed
  [ "$(grep -c '<tr><th scope="row">run [0-9]' failed)" = "$failed" ]
  grep -q "status 3" failed
  grep -q "at other times than most runs: flow: 8 values, but run" failed
  not grep -q "of them:" flow-runs/report.html
  # the worst: by the ids of the record
  sed -n '/<caption>Worst predicted runs/,/<.table>/p' flow-runs/report.html | grep -o 'row">run [0-9]*' | grep -o '[0-9]*' >worst
  [ "$(wc -l <worst)" = 5 ]
  while read -r id; do
    jq -se --argjson id "$id" 'map(select(.id == $id)) | length == 1 and .[0].outcome == "ok" and .[0].parameters.k < 0.7' flow-runs/runs.jsonl
  done <worst
  grep -q "They took .* each" flow-runs/report.html
  "$ATVI" run flow.atvi --retry-failed >/dev/null 2>&1 || true # and fails again
  "$ATVI" emulate flow.atvi --quiet
  lines=$(grep -c '"outcome"' flow-runs/runs.jsonl)
  grep -q "$lines runs, including repeated ones, took" flow-runs/report.html
}

@test "the simulator alone is shown of every data set that has a column of that name" {
  simulator
  sed -i 's/k < 0.15/k < 0/' sim
  "$ATVI" run flow.atvi --retry-failed >/dev/null 2>&1
  cp y.csv z.csv
  sed -i '/^data/,$d' flow.atvi
  cat >>flow.atvi <<'M'
data A "y.csv" time t
observe A.y ~ emulator(flow) + exponential(v, l) + white(s2)
data B "z.csv" time t
observe B.y ~ emulator(flow) + white(0.01)
M
  run -0 "$ATVI" fit flow.atvi --out f --ess 500 --quiet
  # a column of numbers under the pointer for each
  [ "$(grep -o '"simulator alone"' f/report.html | wc -l)" = 2 ]
}

@test "the report of a fit covers its emulator" {
  simulator
  run -0 "$ATVI" fit flow.atvi --out f --ess 500
  grep -q 'id="emulator"' f/report.html
  grep -q "the simulator alone, with its 95 % band" f/report.html
  grep -q "the simulator was not run" f/report.html
  grep -q "Runs that failed" f/report.html
  grep -q "y.discrepancy" f/report.html
  not grep -q "y.emulator" <(sed -n '/<main>/,/id="again"/p' f/report.html)
  # a fixed input, and the runs elsewhere
  mv flow-runs elsewhere
  run -0 "$ATVI" fit flow.atvi --runs elsewhere --fix m=2 --out g --ess 500
  grep -q "atvi fit flow.atvi --seed 1 --ess 500 --fix m=2 --runs elsewhere" g/report.html
  grep -q "the simulator alone" g/report.html
}

@test "a fit says where its model cannot be run" {
  printf 't,y\n0.5,1.12\n1,1.31\n1.5,1.52\n2,1.85\n' >y.csv
  cat >blow.atvi <<'M'
param r ~ uniform(0, 3)
param p ~ uniform(1, 4)
state x = 1
dx/dt = r * x^p
data "y.csv" time t
observe y ~ normal(x, 0.1)
M
  run -0 "$ATVI" fit blow.atvi --method ram --out f
  grep -q "[0-9]* of [0-9]* draws from the prior could not be evaluated" f/report.html
  grep -q "Points at which the model could not be run" f/report.html
  grep -q "the solver&#39;s step became too small" f/report.html
}

@test "a fit keeps its history in numbers" {
  fit_cold f
  python3 - <<'P'
import json
h = json.load(open("f/progress.json"))["history"]
s = json.load(open("f/summary.json"))
evidence = s["log_evidence"]["value"]
hot = [x for x in h if x.get("temperature", 1) > 1]
assert len(hot) >= 2 and all(a["temperature"] > b["temperature"] for a, b in zip(hot, hot[1:])), hot
assert all("elbo" in x and x["component"] == 1 for x in hot), hot
cold = [x["elbo"] for x in h if x.get("temperature") == 1]
assert len(cold) >= 2 and abs(cold[-1] - evidence) < 0.1 and max(cold) < evidence + 0.1, cold
khat = [x["khat"] for x in h if "khat" in x]
assert khat and abs(khat[-1] - s["khat"]) < 1e-6, khat
P
}

# The page and the figures of a folder, made again, are the same bytes.
redrawn_alike() {
  cp -r "$1" kept
  rm -r "$1/report.html" "$1/figures"
  run -0 --separate-stderr "$ATVI" report "$1"
  [ "$output" = "report      $1/report.html" ]
  # shellcheck disable=SC2154 # bats sets stderr
  [ -z "$stderr" ]
  diff -r kept "$1"
  rm -r kept
}

cold() {
  cp "$TOP/examples/cold/cold.atvi" "$TOP/examples/cold/cold.csv" .
}

@test "report: from the folder alone, the page that the fit wrote" {
  cold
  fit_cold run
  "$ATVI" fit cold.atvi --quiet --method ram --max-iter 3000 --out chains
  "$ATVI" fit cold.atvi --quiet --method map --holdout 't > 14' --fix gamma=0.3 --out 'held out'
  "$ATVI" fit cold.atvi --quiet --no-report --method map --out bare
  rm cold.atvi cold.csv
  redrawn_alike run
  redrawn_alike chains
  redrawn_alike 'held out'
  [ ! -e bare/report.html ]
  "$ATVI" report bare --quiet
  grep -q 'id="data"' bare/report.html
}

@test "report: a model with an emulator" {
  simulator
  "$ATVI" fit flow.atvi --quiet --out run
  redrawn_alike run
  rm -r flow-runs
  run -0 --separate-stderr "$ATVI" report run
  [[ "$stderr" == *"says nothing about emulators"* ]]
  grep -q "The green line is the simulator alone" run/report.html
  not grep -q 'id="emulators"' run/report.html
}

@test "report: groups are NumPy files, and a later fit leaves none of an earlier one" {
  cold
  fit_cold run
  head -n 1 run/history.csv | grep -qx 'phase,seconds,done,steps,temperature,elbo,component,khat,rhat,ess'
  grep -q '^"weighing",' run/history.csv
  find_python numpy
  "$PYTHON" - <<'P'
import json, numpy
about = json.load(open("run/groups/groups.json"))
n = len(about["draws"]["used"])
mean, grid, drawn = (numpy.load(f"run/groups/{g}.npy") for g in ("mean", "grid", "predictive"))
assert mean.shape == drawn.shape == (42, n), mean.shape
assert grid.shape == (sum(len(s["grid"]) for s in about["series"]), n)
assert abs(drawn.mean(1) - mean.mean(1)).max() < 1
P
  sed -i '/^observe recovered/d' cold.atvi
  "$ATVI" fit cold.atvi --quiet --method map --out run --force
  rm -r cold.atvi cold.csv
  redrawn_alike run
}

@test "report: a folder of an older version" {
  cold
  fit_cold run
  cp run/report.html was.html
  rm -r run/groups run/history.csv
  run -0 --separate-stderr "$ATVI" report run # the model is run again
  [ -z "$stderr" ]
  grep -o '[0-9]* of [0-9]* values lie inside' was.html >was.txt
  grep -o '[0-9]* of [0-9]* values lie inside' run/report.html | diff was.txt -
  grep -q 'id="elbo"' run/report.html # steps are those of progress.json
  mv cold.csv gone.csv
  run -0 --separate-stderr "$ATVI" report run
  [[ "$stderr" == *"no predictions"*"cold.csv"* ]]
  grep -q 'There are no predictions: .*cold.csv' run/report.html
  grep -q 'id="parameters"' run/report.html
  run -0 --separate-stderr "$ATVI" report run --data gone.csv
  [ -z "$stderr" ]
  grep -q 'lie inside' run/report.html
}

@test "report: what is wrong with a folder is said" {
  run "$ATVI" report nothing
  fails_with 2 "nothing is not the folder of a fit"
  mkdir empty
  run "$ATVI" report empty
  fails_with 2 "empty has no fit.json"
  cold
  "$ATVI" fit cold.atvi --quiet --method map --out run
  cp -r run broken
  truncate -s -8 broken/groups/mean.npy
  run "$ATVI" report broken
  fails_with 2 "broken/groups/mean.npy" "these are not 42 by"
  cp -r run mixed
  "$ATVI" fit cold.atvi --quiet --method map --fix S0=50 --out other
  cp other/draws.csv mixed/draws.csv
  run "$ATVI" report mixed
  fails_with 2 "mixed/groups/groups.json" "belongs to other draws"
}
