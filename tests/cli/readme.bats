#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What the README says must work.
load common

@test "the commands of the README run" {
  cp -r "$TOP/examples" .
  mkdir build
  ln -s "$ATVI" build/atvi
  grep -oE '^(\$ )?build/atvi [^#]*' "$TOP/README.md" | sed 's/^\$ //' >commands
  [ "$(wc -l <commands)" -ge 5 ]
  while read -r line; do
    run -0 bash -c "$line"
    [ -n "$output" ]
  done <commands
}

@test "the model of the README is the example" {
  while read -r line; do
    grep -qxF -- "$line" <(sed 's/ *$//' cold.atvi) || { echo "not in cold.atvi: $line"; return 1; }
  done < <(awk '/^```/ { inside = !inside } inside && /^(param|state|let|d.\/dt|data|observe)/' "$TOP/README.md")
}

@test "links of the documents lead somewhere" {
  for doc in README.md CONTRIBUTING.md docs/architecture.md docs/language.md docs/predict.md; do
    for link in $(grep -oE '\]\([^)#:]+\)' "$TOP/$doc" | sed 's/](\(.*\))/\1/'); do
      [ -e "$TOP/$(dirname $doc)/$link" ] || { echo "$doc: $link"; return 1; }
    done
  done
}
