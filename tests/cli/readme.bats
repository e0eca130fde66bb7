#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What the README says must work.
load common

@test "the commands of the README run" {
  cp -r "$TOP/examples" .
  mkdir build
  ln -s "$ATVI" build/atvi
  # what a calibration finds is sbc.bats's to judge
  grep -oE '^(\$ )?build/atvi [^#]*' "$TOP/README.md" | sed 's/^\$ //; s/--replicates 100/--replicates 4/' >commands
  grep -q 'sbc .*--replicates 4 ' commands
  [ "$(wc -l <commands)" -ge 5 ]
  while read -r line; do
    run -0 bash -c "$line"
    [ -n "$output" ]
  done <commands
}

@test "the output of the README is today's" {
  "$ATVI" fit cold.atvi >out
  blank() { sed -E 's/[-+]?[0-9]+(\.[0-9]+)?/N/g; s/ +/ /g'; } # numbers differ from machine to machine
  diff <(awk '/^```/ { inside = 0 } inside; /^\$ build\/atvi fit/ { inside = 1 }' "$TOP/README.md" | blank) <(blank <out)
  # and its list of files
  for file in $(sed -n 's/^- `\([a-z]*\.[a-z]*\)`.*/\1/p' "$TOP/README.md"); do
    [ -e "cold-001/$file" ] || [ "$file" = fit.nc ] || { echo "no $file"; return 1; }
  done
}

@test "the model of the README is the example" {
  while read -r line; do
    grep -qxF -- "$line" <(sed 's/ *$//' cold.atvi) || { echo "not in cold.atvi: $line"; return 1; }
  done < <(awk '/^```/ { inside = !inside } inside && /^(param|state|let|d.\/dt|data|observe)/' "$TOP/README.md")
}

@test "links of the documents lead somewhere" {
  cd "$TOP"
  for doc in ./*.md docs/*.md docs/*/*.md examples/*/*.md; do
    for link in $(grep -oE '\]\([^)#: ]+\)' "$doc" | sed 's/](\(.*\))/\1/'); do
      [ -e "$(dirname "$doc")/$link" ] || { echo "$doc: $link"; return 1; }
    done
  done
}

@test "docs/language.md has every statement, function and distribution that there is" {
  echo 'qqqqqqqq 1' >wrong.atvi
  run "$ATVI" check wrong.atvi
  words=$(sed -n 's/^hint: statements begin with //p' <<<"$output" | sed 's/ or /, /; s/, / /g; s/d\.\.\.\/dt//')
  [ "$(wc -w <<<"$words")" -gt 20 ]
  for word in $words; do
    grep -qE "^\\| \`$word |; \`$word [0-9]" "$TOP/docs/language.md" || { echo "no statement $word"; return 1; }
  done
  names=$(sed -n '/FUNCTION\|{"exp"/,/^};/p' "$TOP/src/lang/lex.c" | grep -oE '\{"[A-Za-z0-9]+", [0-9]' | sed 's/{"\(.*\)".*/\1/'
    grep -oE '\{"[a-z_]+", ([0-9]|ATVI_DIST)' "$TOP/src/lang/dist.c" | sed 's/{"\(.*\)".*/\1/')
  [ "$(wc -w <<<"$names")" -gt 40 ]
  for name in $names; do
    grep -qE "[\` ]${name}[\`( ]" "$TOP/docs/language.md" || { echo "no $name"; return 1; }
  done
}
