#!/bin/sh
# SPDX-License-Identifier: MIT
# check_symbols.sh BUILD
# Every name that leaves a file of the library starts with atvi_, and the shared library exports
# exactly the functions that the public headers mark ATVI_API.
set -eu
build=${1:?usage: check_symbols.sh BUILD}
top=$(cd "$(dirname "$0")/.." && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

strangers() { nm -g --defined-only "$1" 2>/dev/null | awk 'NF == 3 && $3 !~ /^atvi_/ { print $3 }' | sort -u; }

# The check must be able to fail.
echo 'int stranger(void); int stranger(void) { return 1; }' | gcc -x c -c -o "$tmp/bad.o" -
[ "$(strangers "$tmp/bad.o")" = stranger ] || { echo 'symbols: the check itself is broken'; exit 1; }

wrong=0
found=$(strangers "$build/libatvi.a")
if [ -n "$found" ]; then
  printf 'libatvi.a defines names that do not start with atvi_ (make them static):\n%s\n' "$found"
  wrong=1
fi

for header in "$top"/include/atvi/*.h; do echo "#include \"$header\""; done |
  gcc -E -P -I "$top/include" -x c - | tr '\n' ' ' | tr ';' '\n' | grep 'visibility("default")' |
  sed -E 's/.*[^a-z0-9_](atvi_[a-z0-9_]+) *\(.*/\1/; t; d' | sort -u >"$tmp/declared"
grep -q . "$tmp/declared" || { echo 'symbols: found no ATVI_API function in the headers'; exit 1; }
nm -D --defined-only "$build/libatvi.so" | awk 'NF == 3 { print $3 }' | sort -u >"$tmp/exported"
if ! diff -u "$tmp/declared" "$tmp/exported" >"$tmp/diff"; then
  echo 'declared ATVI_API (-) against exported by libatvi.so (+):'
  grep '^[-+][a-z]' "$tmp/diff"
  wrong=1
fi
exit $wrong
