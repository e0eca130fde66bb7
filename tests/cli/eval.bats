#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
load common

@test "eval gives log_prior, log_likelihood and gradient" {
  "$ATVI" eval cold.atvi "${POINT[@]}" >out.json
  # three uniform priors: -log(3 * 3 * 63)
  json out.json '(.log_prior + (3*3*63 | log) | fabs) < 1e-12'
  # the maximum over all points is -87.667
  json out.json '.log_likelihood < -87.66 and .log_likelihood > -95'
  json out.json '.gradient | keys == ["S0", "beta", "gamma"]'
  json out.json '[.gradient[] | type] == ["number", "number", "number"]'
}

@test "the gradient is the slope of the density" {
  at() { "$ATVI" eval cold.atvi --set gamma=0.3 --set S0=39.5 --set beta="$1" | jq "$2"; }
  # error of the difference: h^2 f'''/6 plus the solver's tolerance / h; both far below 1e-2 of a slope of order 10
  run -0 jq -n "(($(at 0.951 .log_likelihood) - $(at 0.949 .log_likelihood)) / 0.002) as \$d
    | ($(at 0.95 .gradient.beta)) as \$g | ((\$d - \$g) | fabs) < 1e-2 * ((\$g | fabs) + 1)"
  [ "$output" = true ]
}

@test "interpreted and compiled agree" {
  "$ATVI" eval cold.atvi "${POINT[@]}" >compiled.json
  "$ATVI" eval cold.atvi "${POINT[@]}" --no-compile >interpreted.json
  run -0 jq -n --slurpfile a compiled.json --slurpfile b interpreted.json \
    '(($a[0].log_likelihood - $b[0].log_likelihood) / $a[0].log_likelihood | fabs) < 1e-10'
  [ "$output" = true ]
}

@test "wrong points are wrong usage" {
  run "$ATVI" eval cold.atvi --set beta=0.9
  fails_with 2 gamma
  run "$ATVI" eval cold.atvi "${POINT[@]}" --set betta=1
  fails_with 2 betta
  run "$ATVI" eval cold.atvi --set beta=fast --set gamma=0.3 --set S0=39
  fails_with 2 fast
}

@test "a point outside the prior is refused with its bounds" {
  run "$ATVI" eval cold.atvi --set beta=4 --set gamma=0.3 --set S0=39
  fails_with 2 beta=4 "[0, 3]"
}

@test "--fix takes a parameter away" {
  "$ATVI" eval cold.atvi --set beta=0.9 --set gamma=0.3 --fix S0=39.5 >fixed.json
  "$ATVI" eval cold.atvi "${POINT[@]}" >free.json
  json fixed.json '.gradient | has("S0") | not'
  run -0 jq -n --slurpfile a fixed.json --slurpfile b free.json \
    '($a[0].log_likelihood - $b[0].log_likelihood | fabs) < 1e-6'
  [ "$output" = true ]
}

@test "rotavirus at the truth" {
  [ -f "${ATVI_DATA-}/rotavirus/set_1.csv" ] || skip "no reference data (ATVI_DATA)"
  # the authors' file has neither header nor weeks
  awk -F, -v OFS=, 'BEGIN { print "week,a,b,c,d,e,f" } { print NR + 260, $0 }' "$ATVI_DATA/rotavirus/set_1.csv" >set.csv
  "$ATVI" eval "$TOP/examples/rotavirus/rotavirus.atvi" --data set.csv --set w=.43 --set phi=7.35 --set rho=.027 --set nu=.9 \
    --set beta=1.30537122,3.11852393,0.03206678,3.24118948,0.31400672,0.09410381 >out.json
  json out.json '(.log_likelihood + 1559.55 | fabs) < 0.02'
  json out.json '.gradient | keys_unsorted == ["w", "phi", "rho", "nu", "beta.1", "beta.2", "beta.3", "beta.4", "beta.5", "beta.6"]'
}
