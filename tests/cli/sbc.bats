#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
load common

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
derived R0 = beta/gamma
MODEL
  { echo day,ill; for i in $(seq 14); do echo "$i,5"; done; } >sir.csv
}
# One parameter with a known posterior, fast.
conjugate() {
  printf 'y\n1\n2\n3\n' >y.csv
  printf 'param mu ~ normal(0.4, 2.385)\ndata "y.csv"\nobserve y ~ normal(mu, 0.731)\n' >mean.atvi
}

@test "ranks of truths drawn from the prior" {
  epidemic
  run -0 --separate-stderr "$ATVI" sbc sir.atvi --replicates 4 --out s
  says "4 fits, 0 failed" beta gamma I0 R0 "calibrated at 99 %" "too few replicates to tell" "written to s"
  not grep -E '^.{101,}$' <<<"$output"
  [ "$(wc -l <s/replicates.csv)" -eq 5 ]
  json s/sbc_summary.json '[.quantities[] | .ranks == 4 and (.histogram | add) == 4 and .p_band > 0] | all'
  json s/sbc_summary.json '[.quantities[].kind] == ["parameter", "parameter", "parameter", "derived"] and .scale_sd == 1'
  awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i } NR > 1 && !($at["I0.truth"] > 1 && $at["I0.truth"] < 8 &&
    $at["beta.rank"] >= 0 && $at["beta.rank"] <= 99 && $at["beta.truth"] != last) { exit 1 } { last = $at["beta.truth"] }' s/replicates.csv
  [ "$(wc -l <s/ecdf.csv)" -eq $((1 + 4 * 99)) ]
  # truths are those of the prior draws of simulate
  truth=$(awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i } NR == 4 { print $at["beta.truth"] }' s/replicates.csv)
  "$ATVI" simulate sir.atvi --prior 3 --seed 1 | awk -F, -v want="$truth" '$1 == 3 { d = $2 - want; exit !(d * d < 1e-16) }'
}

@test "continued, not done again; other settings are an error" {
  conjugate
  sbc=("$ATVI" sbc mean.atvi --method ram --out s --quiet)
  "${sbc[@]}" --replicates 3
  cp s/replicates.csv before
  "${sbc[@]}" --replicates 5
  head -n 4 s/replicates.csv | diff - before
  [ "$(wc -l <s/replicates.csv)" -eq 6 ]
  run "${sbc[@]}" --scale-sd .8
  fails_with 2 "another --scale-sd"
  run "${sbc[@]}" --method nuts
  fails_with 2 "another --method"
  run "$ATVI" sbc mean.atvi --method map --out t
  fails_with 2 "'map' is not one of" "nuts and exact"
  run "$ATVI" sbc mean.atvi --scale-sd 0 --out t
  fails_with 2 scale-sd
}

@test "more replicates tell more: too few to tell, no sign of an error, and a right posterior passes" {
  conjugate
  run -3 --separate-stderr "$ATVI" sbc mean.atvi --method ram --replicates 8 --out s --strict
  says "too few replicates to tell" "may go unnoticed with 8 replicates"
  json s/sbc_summary.json '.calibrated == null and .quantities[0].calibrated == null'
  run -0 --separate-stderr "$ATVI" sbc mean.atvi --method ram --replicates 40 --out s --strict
  says "over all quantities: no sign of an error" "no sign"
  json s/sbc_summary.json '.calibrated == true'
  run -0 --separate-stderr "$ATVI" sbc mean.atvi --method ram --replicates 200 --out s --strict
  says "calibrated at 99 % over all quantities: yes" "may go unnoticed with 200 replicates: sds too small by a factor of 1.2"
  json s/sbc_summary.json '.calibrated == true and .noticed.sd_below > .78 and .noticed.sd_below < .84 and .noticed.sd_above > 1.2 and .noticed.sd_above < 1.3'
}

@test "a posterior whose sd is 0.8 of what it should be does not pass" {
  conjugate
  run -3 --separate-stderr "$ATVI" sbc mean.atvi --method ram --replicates 200 --out broken --scale-sd 0.8 --strict
  says "calibrated at 99 % over all quantities: NO" "too narrow" "scaled about their mean by 0.8"
  json broken/sbc_summary.json '.calibrated == false and .quantities[0].sd_z > 1.1 and .scale_sd == .8'
}

@test "a quantity that is discrete has ties, and is calibrated all the same" {
  conjugate
  printf 'derived up = if mu > 0 then 1 else 0\nderived third = floor(3*mu)\n' >>mean.atvi
  "$ATVI" sbc mean.atvi --method ram --replicates 100 --out s --quiet
  json s/sbc_summary.json '.calibrated and ([.quantities[].calibrated] | all) and .quantities[1].p_band > .001'
  # most posteriors leave no doubt about the sign: all draws are equal to the truth, and its rank is anywhere
  awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i } NR > 1 { r = $at["up.rank"]; low += r < 30; high += r > 70 }
    END { exit !(low > 15 && high > 15) }' s/replicates.csv
}

@test "terms that are not priors: refused, because truths would not follow them" {
  conjugate
  echo 'logp -0.5*((mu - 1)/0.7)^2' >>mean.atvi
  run "$ATVI" sbc mean.atvi --replicates 2 --out s
  fails_with 2 "mean.atvi: error: the model has logp terms" "a correct method would appear wrong"
  [ ! -e s ]
}

@test "a truth at which the model cannot be run is reported and counted" {
  printf 'day,y\n1,3\n2,3\n' >y.csv
  cat >burst.atvi <<'MODEL'
param k ~ uniform(0, 2)
state x = 1
dx/dt = k*x^2
data "y.csv" time day
observe y ~ poisson(x)
MODEL
  run -0 --separate-stderr "$ATVI" sbc burst.atvi --method ram --replicates 4 --out s # x is infinite at t = 1/k
  says failed "cannot be run at the truth"
  failed=$(grep -c ',failed,' s/replicates.csv)
  [ "$failed" -ge 1 ]
  json s/sbc_summary.json '.calibrated == null'
  json s/sbc_summary.json ".failed == $failed and .done == 4 - $failed and (.failures | length) == $failed"
}

@test "the manual page of sbc fits 80 columns" {
  run -0 "$ATVI" sbc --help
  says NAME SYNOPSIS DESCRIPTION OPTIONS FILES "EXIT STATUS" EXAMPLES
  not grep -E '^.{81,}$' <<<"$output"
  [ "$output" = "$("$ATVI" help sbc)" ]
}
