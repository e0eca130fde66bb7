#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# r/atvi.R: each test is a case of tests/r/test_r.R.
load common

case_() {
  command -v Rscript >/dev/null || skip "no Rscript here"
  [ -e "$(dirname "$ATVI")/libatvi.so" ] || skip "no libatvi.so beside atvi"
  ATVI=$ATVI Rscript --vanilla "$TOP/tests/r/test_r.R" "$TOP" "$1"
}

@test "fits of model files, and folders" { case_ program; }
@test "options of the program" { case_ words; }
@test "a log density and its gradient, by every method" { case_ density; }
@test "errors and mistakes" { case_ errors; }
@test "a wrong gradient is told, in words of R" { case_ gradient; }
@test "messages and failures have advice in words of R" { case_ advice; }
@test "Ctrl-C ends a fit" { case_ interrupt; }
@test "JSON is read" { case_ json; }

@test "the examples of docs/formats.md run" {
  command -v Rscript >/dev/null || skip "no Rscript here"
  [ -e "$(dirname "$ATVI")/libatvi.so" ] || skip "no libatvi.so beside atvi"
  "$ATVI" fit cold.atvi --quiet
  { echo "source('$TOP/r/atvi.R')"; awk '/^```/ { inside = $0 == "```r"; next } inside' "$TOP/docs/formats.md"; } >guide.R
  [ "$(wc -l <guide.R)" -gt 15 ]
  ATVI=$ATVI Rscript --vanilla guide.R >said.txt
  grep -q 'verdict ok' said.txt
}
