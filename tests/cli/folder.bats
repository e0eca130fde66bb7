#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Where the files that a model names are looked for.
load common

setup() {
  cd "$BATS_TEST_TMPDIR" || return 1
  mkdir -p a/files b c
  printf 'folder "files"\nparam mu ~ normal(0.4, 2.385)\nconst sd from "sd.csv"\ndata "y.csv"\nobserve y ~ normal(mu, sd)\n' >a/m.atvi
  printf 'y\n1.2\n0.7\n2.385\n' | tee a/files/y.csv >b/y.csv
  echo 0.731 >a/files/sd.csv
  echo 1.5 >b/sd.csv
}

@test "the model says where, relative to itself; --folder replaces that, relative to the working folder" {
  run -0 "$ATVI" eval a/m.atvi --set mu=0.9
  first=$output
  run -0 "$ATVI" eval a/m.atvi --set mu=0.9 --folder a/files
  [ "$output" = "$first" ]
  run -0 "$ATVI" eval a/m.atvi --set mu=0.9 --folder=b
  [ "$output" != "$first" ]
  run -0 "$ATVI" check a/m.atvi --folder b
  says b/y.csv
  run -2 "$ATVI" check a/m.atvi --folder c
  says "a/m.atvi:4:6: error: there is no file c/y.csv" "in the folder that was given"
  rm a/files/y.csv
  run -2 "$ATVI" check a/m.atvi
  says "there is no file a/files/y.csv" "--folder DIR looks for them in another folder"
  run -0 "$ATVI" simulate a/m.atvi --set mu=1 --observe --folder b
}

@test "a fit keeps its folder for predictions, which can be given another" {
  "$ATVI" fit a/m.atvi --folder b --method ram --ess 100 --quiet --out run
  json run/fit.json '.files == "b"'
  "$ATVI" predict run --quiet
  cp run/predict.csv before.csv
  mv b/sd.csv c
  run -2 "$ATVI" predict run
  says "there is no file" "sd.csv"
  "$ATVI" predict run --quiet --folder c
  cmp run/predict.csv before.csv
}
