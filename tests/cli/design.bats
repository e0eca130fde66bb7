#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
load common

model() {
  cat >flow.atvi <<'MODEL'
param k ~ uniform(2, 5)
param v ~ lognormal(0.5, 0.25)
param mu ~ normal(0, 1)
param w ~ normal(mu, 0.5)
param s2 ~ invgamma(2, 1)
simulator {
  command "echo {k} {v} {w}"
  output flow from stdout columns column 1
}
data "obs.csv"
observe y ~ emulator(flow) + white(s2)
MODEL
}
points() { grep -v '^#' "$1" | tail -n +2; }

@test "a design covers bounds, or quantiles where there are none" {
  model # its data need not be there
  run -0 --separate-stderr "$ATVI" design flow.atvi -n 50
  says "50 points" "Latin hypercube" "99.9 % of the prior" "flow-runs/design.csv"
  [ "$(points flow-runs/design.csv | wc -l)" -eq 50 ]
  [ "$(head -n 1 flow-runs/design.csv)" = id,k,v,w ]
  # 0.1 % and 99.9 % of a lognormal: exp(0.5 -+ 3.090232 * 0.25)
  points flow-runs/design.csv | awk -F, '{ n[int(($2 - 2) / 3 * 50)]++; lo = lo == "" || $3 < lo ? $3 : lo; hi = $3 > hi ? $3 : hi
      if ($2 < 2 || $2 > 5 || $3 < 0.761389 || $3 > 3.570061) exit 1; if ($4 < wlo) wlo = $4; if ($4 > whi) whi = $4
      below += $3 < 1.6487213; quarter += $3 < 1.3931; wbelow += $4 < 0 }
    END { for (i = 0; i < 50; i++) if (n[i] != 1) exit 1
      # one point in each fiftieth of the probability: half of them below the median exp(0.5), the outermost beyond 2.1 % and 97.9 %
      if (below != 25 || quarter < 12 || quarter > 13 || lo > 0.9917 || hi < 2.741) exit 1
      if (wlo > -2.2 || wlo < -4.5 || whi < 2.2 || whi > 4.5 || wbelow < 24 || wbelow > 26) exit 1 } # sd 1.118, from draws
    '
}

@test "points are where a wide prior is" {
  model
  sed -i 's/lognormal(0.5, 0.25)/lognormal(0, 3)/' flow.atvi # 0.1 % to 99.9 %: 9.4e-5 to 10608, and half of it below 1
  "$ATVI" design flow.atvi -n 40 -q
  points flow-runs/design.csv | awk -F, '{ n[$3 < 0.132821 ? 0 : $3 < 1 ? 1 : $3 < 7.52892 ? 2 : 3]++ } # 25.05 % and 74.95 %
    END { for (i = 0; i < 4; i++) if (n[i] != 10) exit 1 }'
  # twice as many are as even, and a sequence goes on
  "$ATVI" design flow.atvi -n 80 -q
  points flow-runs/design.csv | awk -F, '{ n[$3 < 0.132821 ? 0 : $3 < 1 ? 1 : $3 < 7.52892 ? 2 : 3]++ }
    END { for (i = 0; i < 4; i++) if (n[i] != 20) exit 1 }'
  "$ATVI" design flow.atvi -n 16 -q --kind sobol --runs a
  "$ATVI" design flow.atvi -n 64 -q --kind sobol --runs a
  "$ATVI" design flow.atvi -n 64 -q --kind sobol --runs b
  diff <(points a/design.csv) <(points b/design.csv)
}

@test "new points stand in the columns of the file" {
  model
  header() { head -n 1 "$1/design.csv"; }
  # as the model has them, as reference; k in 2..5, v above 0.76, w around 0
  "$ATVI" design flow.atvi -n 10 --runs ref -q
  mkdir swapped # another order, and a column of its own
  awk -F, -v OFS=, '/^#/ { next } NR == 1 { print $4, "note", $3, $1, $2; next } { print $4, "mine", $3, $1, $2 }' ref/design.csv >swapped/design.csv
  [ "$(header swapped)" = w,note,v,id,k ]
  cp swapped/design.csv before
  "$ATVI" design flow.atvi -n 20 --runs ref -q
  "$ATVI" design flow.atvi -n 20 --runs swapped -q
  head -c "$(wc -c <before)" swapped/design.csv | cmp - before
  diff <(points ref/design.csv) <(points swapped/design.csv | awk -F, -v OFS=, '{ print $4, $5, $3, $1 }')
  [ "$(points swapped/design.csv | cut -d, -f2 | sort | uniq -c | xargs)" = "10 10 mine" ]
  mkdir bare # lines count where there is no id; the last line is not ended; decimal commas
  points ref/design.csv | head -n 10 | awk -F, 'BEGIN { printf("v;k;w") } { printf("\n%s;%s;%s", $3, $2, $4) }' | tr . , >bare/design.csv
  "$ATVI" design flow.atvi -n 20 --runs bare -q
  diff <(points ref/design.csv) <(points bare/design.csv | tr , . | awk -F';' -v OFS=, '{ print NR, $2, $1, $3 }')
  for dir in swapped bare; do
    run -0 "$ATVI" run flow.atvi --runs $dir
    says "20 of 20 runs are good"
    tail -n +2 $dir/runs.jsonl | jq -s 'sort_by(.id) | map([.id, .parameters.k, .parameters.v, .parameters.w])' >$dir.json
  done
  cmp swapped.json bare.json
}

@test "more points leave the first as they are" {
  model
  for kind in lhs sobol; do
    "$ATVI" design flow.atvi -n 20 --kind $kind --runs $kind --quiet
    cp $kind/design.csv before
    run -0 --separate-stderr "$ATVI" design flow.atvi -n 40 --kind $kind --runs $kind
    says "40 points, 20 of them new"
    head -c "$(wc -c <before)" $kind/design.csv | cmp - before
    [ "$(points $kind/design.csv | cut -d, -f1 | paste -sd' ')" = "$(seq -s' ' 40)" ]
    cp $kind/design.csv before
    run -0 "$ATVI" design flow.atvi -n 40 --kind $kind --runs $kind
    says "as before"
    cmp $kind/design.csv before
    run "$ATVI" design flow.atvi -n 30 --kind $kind --runs $kind
    fails_with 2 "already has 40 points"
  done
  # a doubled Latin hypercube is one again
  points lhs/design.csv | awk -F, '{ n[int(($2 - 2) / 3 * 40)]++ } END { for (i = 0; i < 40; i++) if (n[i] != 1) exit 1 }'
  run "$ATVI" design flow.atvi -n 50 --kind sobol --seed 2 --runs sobol
  fails_with 2 "seed"
  run "$ATVI" design flow.atvi -n 50 --kind sobol --runs lhs
  fails_with 2 "--kind lhs"
  "$ATVI" design flow.atvi -n 50 --kind lhs --runs sobol # any design can be extended so
  sed -i 's/uniform(2, 5)/uniform(2, 4)/' flow.atvi
  run "$ATVI" design flow.atvi -n 60 --runs lhs
  fails_with 2 "the prior has changed"
}

@test "a wider prior is filled where it is empty" {
  model
  "$ATVI" design flow.atvi -n 30 -q
  cp flow-runs/design.csv before
  sed -i 's/uniform(2, 5)/uniform(2, 11)/' flow.atvi
  run -0 "$ATVI" design flow.atvi -n 60
  says "60 points, 30 of them new" "the prior has changed: the first 30 points cover only part of it (k 2 to 4.9"
  head -c "$(wc -c <before)" flow-runs/design.csv | cmp - before
  # thirty new ones over (5, 11): every sixth of it has some
  points flow-runs/design.csv | tail -n 30 | awk -F, '$2 > 5 { n[int($2 - 5)]++; all++ }
    END { if (all < 25) exit 1; for (i = 0; i < 6; i++) if (n[i] < 3 || n[i] > 7) exit 1 }'
}

@test "seeds count" {
  model
  "$ATVI" design flow.atvi -n 20 --runs a -q
  "$ATVI" design flow.atvi -n 20 --runs b -q
  "$ATVI" design flow.atvi -n 20 --seed 2 --runs c -q
  cmp a/design.csv b/design.csv
  not cmp a/design.csv c/design.csv
}

@test "wrong usage" {
  model
  run "$ATVI" design flow.atvi
  fails_with 2 "-n 100"
  run "$ATVI" design flow.atvi -n 0
  fails_with 2 "-n 0"
  run "$ATVI" design flow.atvi -n 10 --kind grid
  fails_with 2 "lhs or sobol"
  run "$ATVI" design cold.atvi -n 10
  fails_with 2 "no simulator"
  run "$ATVI" design none.atvi -n 10
  fails_with 2 none.atvi
  mkdir flow-runs
  echo "id,k,v" >flow-runs/design.csv
  echo "1,3,1" >>flow-runs/design.csv
  run "$ATVI" design flow.atvi -n 10
  fails_with 2 "design.csv:1:1" "no column w"
  printf 'id,k,v,w\n1,3,1,0\n1,4,2,0\n' >flow-runs/design.csv
  run "$ATVI" design flow.atvi -n 10
  fails_with 2 "design.csv:3:1" "is given twice"
  printf 'id,k,v,w\n1,3,much,0\n' >flow-runs/design.csv
  run "$ATVI" design flow.atvi -n 10
  fails_with 2 "design.csv:2:5" "finite number"
}

@test "points that cannot be written are reported" {
  model
  touch flow-runs
  run "$ATVI" design flow.atvi -n 10
  fails_with 1 flow-runs
}

@test "the manual page of design fits 80 columns" {
  run -0 "$ATVI" design --help
  says NAME SYNOPSIS DESCRIPTION OPTIONS FILES "EXIT STATUS" EXAMPLES " -n N"
  not grep -E '^.{81,}$' <<<"$output"
  [ "$output" = "$("$ATVI" help design)" ]
}

@test "a point of one's own in the tail of a prior is not a reason to start again" {
  model
  "$ATVI" design flow.atvi -n 10 -q --runs d
  name=$(head -1 d/design.csv)
  awk -F, -v n="$name" 'BEGIN { split(n, c, ",") } !/^#/ && NR > 1 { last = $0 }
    END { split(last, v, ","); v[1] = 11; for (i in c) if (c[i] == "w") v[i] = 1e4; if (c[1] != "id") exit 1
      for (i = 1; i in c; i++) printf "%s%s", (i > 1 ? "," : ""), v[i]; print "" }' d/design.csv >own
  cat own >>d/design.csv
  run -0 "$ATVI" design flow.atvi -n 20 --runs d
  says "20 points, 9 of them new"
}
