#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
load common

@test "without arguments: the commands, status 2" {
  run "$ATVI"
  fails_with 2 check eval simulate fit summary predict compare study sbc
}

@test "--help and help list the commands" {
  run -0 "$ATVI" --help
  says check eval simulate fit summary predict compare study sbc
  run -0 "$ATVI" help
  says fit
}

@test "--version prints the version of the header" {
  run -0 "$ATVI" --version
  [ "$output" = "atvi $(sed -n 's/.*ATVI_VERSION "\(.*\)".*/\1/p' "$TOP/include/atvi/core.h")" ]
}

@test "every command has a manual page that fits 80 columns" {
  for command in check eval simulate fit summary predict compare study sbc; do
    run -0 "$ATVI" $command --help
    says NAME SYNOPSIS DESCRIPTION OPTIONS "EXIT STATUS" EXAMPLES
    not grep -E '^.{81,}$' <<<"$output"
    [ "$output" = "$("$ATVI" help $command)" ]
  done
}

@test "unknown command with a suggestion" {
  run "$ATVI" simulat
  fails_with 2 "did you mean simulate?"
  run "$ATVI" frobnicate
  fails_with 2 "unknown command frobnicate"
  [[ "$output" != *"did you mean"* ]]
}

@test "unknown option with a suggestion" {
  run "$ATVI" fit cold.atvi --thread 2
  fails_with 2 "unknown option --thread" "did you mean --threads?"
  run "$ATVI" fit cold.atvi --sede=3
  fails_with 2 "did you mean --seed?"
  run "$ATVI" eval cold.atvi -x
  fails_with 2 "unknown option -x"
}

@test "missing and wrong values of options" {
  run "$ATVI" fit cold.atvi --seed
  fails_with 2 "--seed wants a value"
  run "$ATVI" fit cold.atvi --seed -1
  fails_with 2 "--seed -1"
  run "$ATVI" fit cold.atvi --threads 0
  fails_with 2 "--threads 0"
  run "$ATVI" fit cold.atvi --ess nan
  fails_with 2 "--ess nan"
  run "$ATVI" fit cold.atvi --max-time 10x
  fails_with 2 "--max-time 10x" "10m"
  run "$ATVI" fit cold.atvi --force=yes
  fails_with 2 "takes no value"
  run "$ATVI" eval cold.atvi --set beta
  fails_with 2 "name=value"
  run "$ATVI" simulate cold.atvi --prior 3 --set beta=1
  fails_with 2 "--fix"
}

@test "no model, two models" {
  run "$ATVI" fit
  fails_with 2 "MODEL is missing"
  run "$ATVI" fit cold.atvi cold.atvi
  fails_with 2 "second"
}

@test "standard output that is full is a failure" {
  for words in "--version" "fit --help" "eval cold.atvi ${POINT[*]}" "simulate cold.atvi ${POINT[*]}"; do
    # shellcheck disable=SC2086 # several words
    run bash -c '"$0" "$@" >/dev/full' "$ATVI" $words
    [ "$status" -eq 1 ]
  done
}
