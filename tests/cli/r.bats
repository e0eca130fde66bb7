#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# r/, installed: each test is a case of tests/r/test_r.R.
load common

setup_file() {
  export XDG_CACHE_HOME=${XDG_CACHE_HOME:-$BATS_FILE_TMPDIR/cache} R_LIBS=$BATS_FILE_TMPDIR/library
  command -v Rscript >/dev/null || return 0
  mkdir "$R_LIBS" && cp -r "$TOP/r" "$BATS_FILE_TMPDIR/r"
  R CMD INSTALL --no-docs --clean "$BATS_FILE_TMPDIR/r" >"$BATS_FILE_TMPDIR/log" 2>&1 || { cat "$BATS_FILE_TMPDIR/log"; return 1; }
}

ready() {
  command -v Rscript >/dev/null || skip "no Rscript here"
  [ -e "$(dirname "$ATVI")/libatvi.so" ] || skip "no libatvi.so beside atvi"
}
case_() {
  ready
  ATVI=$ATVI Rscript --no-init-file "$TOP/tests/r/test_r.R" "$1"
}

@test "fits of model files, and folders" { case_ program; }
@test "options of the program" { case_ words; }
@test "a log density and its gradient, by every method" { case_ density; }
@test "errors and mistakes" { case_ errors; }
@test "a wrong gradient is reported, in words of R" { case_ gradient; }
@test "messages and failures have advice in words of R" { case_ advice; }
@test "Ctrl-C ends a fit" { case_ interrupt; }
@test "JSON is read" { case_ json; }

@test "draws are what the package posterior understands" {
  command -v Rscript >/dev/null || skip "no Rscript here"
  Rscript -e 'library(posterior)' >/dev/null 2>&1 || skip "no R with posterior here"
  case_ posterior
}

@test "R CMD check has no errors and no warnings" {
  command -v Rscript >/dev/null || skip "no Rscript here"
  cp -r "$TOP/r" r
  R CMD build r >log 2>&1 || { cat log; return 1; }
  _R_CHECK_FORCE_SUGGESTS_=false R CMD check --no-manual atvi_*.tar.gz >log 2>&1 || { cat log; return 1; }
  grep -qE '^Status: (OK|[0-9]+ NOTEs?)$' log || { cat log; return 1; }
}

@test "what the package declares of the library is what the headers declare" {
  command -v Rscript >/dev/null || skip "no Rscript here"
  read -ra flags < <(R CMD config --cppflags)
  gcc -std=c11 -Wall -Werror -fsyntax-only -DATVI_CHECK_API "-I$TOP/include" "${flags[@]}" "$TOP/r/src/atvi_shim.c"
}

@test "the examples of docs/formats.md run" {
  ready
  "$ATVI" fit cold.atvi --quiet
  { echo "library(atvi)"; awk '/^```/ { inside = $0 == "```r"; next } inside' "$TOP/docs/formats.md"; } >guide.R
  [ "$(wc -l <guide.R)" -gt 15 ]
  ATVI=$ATVI Rscript --no-init-file guide.R >said.txt
  grep -q 'verdict ok' said.txt
}
