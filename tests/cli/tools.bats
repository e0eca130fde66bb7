#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Tools of those who change atvi.
load common

@test "make quick finds the tests of what changed, the nearest first" {
  run -0 "$TOP/tests/quick" --list src/gp/markov.c
  [ "${lines[0]}" = unit_gp_markov ]
  grep -qx unit_gp_emulator <<<"$output"
  grep -qx unit_model_emulated <<<"$output"
  run ! grep -q unit_math <<<"$output"
  run -0 "$TOP/tests/quick" --list cli/cmd_eval.c python/atvi/run.py tests/unit/io/test_csv.c tests/grad/test_none.c
  [ "${lines[*]}" = "grad_none unit_io_csv cli eval cli python" ]
  run -0 "$TOP/tests/quick" --list docs/method.md
  [ -z "$output" ]
}

@test "setup names what is missing and why, and installs nothing when asked not to" {
  mkdir bin
  for tool in sh dirname grep ldconfig printf env cat; do ln -s "$(command -v $tool || echo /sbin/$tool)" bin; done
  PATH=$PWD/bin run -1 "$TOP/tools/setup" --check build
  grep -qE '^  cmake +build system$' <<<"$output"
  grep -q 'apt-get install.* cmake' <<<"$output"
  run -2 "$TOP/tools/setup" nonsense
}
