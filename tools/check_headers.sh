#!/bin/sh
# SPDX-License-Identifier: MIT
# Every header compiles alone: public ones in C and in C++, inner ones in C.
set -eu
cd "$(dirname "$0")/.."
flags='-fsyntax-only -Wall -Wextra -Wpedantic -Werror -D_POSIX_C_SOURCE=200809L -Iinclude -Isrc -Icli'
wrong=0
# shellcheck disable=SC2086 # the flags are several words
try() {
  header=$1
  shift
  echo "#include \"$header\"" | "$@" $flags - || { echo "$header does not compile alone with $*"; wrong=1; }
}
for header in include/atvi/*.h; do
  try "${header#include/}" gcc -std=c11 -x c
  try "${header#include/}" clang++ -std=c++11 -x c++
done
# shellcheck disable=SC2044 # no blanks in our names
for header in $(find src cli -name '*.h'); do
  try "${header#src/}" gcc -std=c11 -x c -I.
done
exit $wrong
