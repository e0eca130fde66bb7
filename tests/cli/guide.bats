#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The guide, typed in from the top: every line of its sh boxes, page after page in one shell, by someone who has an empty home and the sources.
load common
load python

setup_file() {
  export XDG_CACHE_HOME=${XDG_CACHE_HOME:-$BATS_FILE_TMPDIR/cache}
  mkdir -p "$BATS_FILE_TMPDIR/home" "$BATS_FILE_TMPDIR/bin"
  # Building is another test's; installing is not.
  cat >"$BATS_FILE_TMPDIR/bin/make" <<END
#!/bin/sh
case \$1 in
demo) exec "$ATVI" fit examples/cold/cold.atvi --seed 1 --out "$BATS_FILE_TMPDIR/demo" ;;
install) exec cmake --install "$(dirname "$ATVI")" --prefix "\${2#PREFIX=}" ;;
*) exec "$(command -v make)" "\$@" ;; # R compiles with it
esac
END
  chmod +x "$BATS_FILE_TMPDIR/bin/make"
}
setup() { cd "$TOP" || return 1; }

# page NAME [EDIT]: its boxes, edited by sed, in the shell that the page before has left. What they print is `output`.
page() {
  local file=$TOP/docs/guide/$1.md state=$BATS_FILE_TMPDIR/state
  {
    echo "set -e; HOME='$BATS_FILE_TMPDIR/home' PATH='$BATS_FILE_TMPDIR/bin':\$PATH"
    [ ! -e "$state" ] || cat "$state"
    echo "trap '{ export -p; printf \"cd %q\\n\" \"\$PWD\"; } >\"$state.new\"' EXIT"
    awk '/^```/ { inside = $0 == "```sh"; next } inside' "$file" | sed "${2-}"
  } >"$BATS_TEST_TMPDIR/typed"
  [ "$(wc -l <"$BATS_TEST_TMPDIR/typed")" -gt 4 ]
  run -0 bash "$BATS_TEST_TMPDIR/typed"
  mv "$state.new" "$state"
  shown "$file"
}

# What a page shows is printed: every line of its other boxes but for its numbers, which differ from machine to machine.
blank() { sed -E 's/[-+]?[0-9]+(\.[0-9]+)?(e[-+][0-9]+)?/N/g; s/ +/ /g'; }
shown() {
  local line
  blank <<<"$output" >"$BATS_TEST_TMPDIR/printed"
  awk '/^```/ { open = !open; other = open && $0 == "```"; next } other && NF && $0 != "..."' "$1" | blank >"$BATS_TEST_TMPDIR/shown"
  while IFS= read -r line; do
    grep -qF -- "$line" "$BATS_TEST_TMPDIR/printed" || { echo "$1 shows, but it is not printed: $line"; return 1; }
  done <"$BATS_TEST_TMPDIR/shown"
}
home() { cd "$BATS_FILE_TMPDIR/home" || return 1; }

@test "1: install" {
  [ -e "$(dirname "$ATVI")/cmake_install.cmake" ] && [ -e "$(dirname "$ATVI")/libatvi.so" ] || skip "atvi is not in its build folder"
  page 1-install
  says "atvi $(sed -n 's/.*ATVI_VERSION "\(.*\)".*/\1/p' include/atvi/core.h)" "verdict: ok"
  home
  [ -x .local/bin/atvi ] && [ -s .local/share/man/man1/atvi-fit.1 ]
  [ -s .local/share/bash-completion/completions/atvi ] && [ -s .local/share/zsh/site-functions/_atvi ]
  grep -q '^\(demo\|install\):' "$TOP/Makefile"
}

# Pages after the first need what it has installed.
installed() { [ -x "$BATS_FILE_TMPDIR/home/.local/bin/atvi" ] || skip "page 1 did not run"; }

@test "2: a first model" {
  installed
  page 2-first-model
  says "unknown name 'stya'" "did you mean 'stay'?" "verdict: ok" "written to ship-001"
  home
  json ship/ship-001/summary.json '.verdict == "ok" and (.derived[] | select(.name == "R0") | .mean > 1.45 and .mean < 1.55)'
}

@test "3: reading the result" {
  installed
  page 3-reading-the-result
  home
  json ship/ship-001/scores.json '.loo.elpd < -70'
  json ship/ship2-001/summary.json '.verdict == "ok" and (.derived[] | select(.name == "R0") | .hpd95[0] < 2.25 and .hpd95[1] > 2.25)'
  json ship/ship2-001/scores.json '.loo.elpd > -60'
  says "does not fit" "71.4 %"
  [ "$(wc -l <ship/ship2-001/forecast.csv)" -gt 4 ]
}

@test "4: trust" {
  installed
  page 4-trust 's/--replicates 40/--replicates 24/' # the same words in half the time
  says "reference: " "held out (t > 9)" "calibrated at 99 % over all quantities: no sign of an error"
}

@test "5: a simulator" {
  installed
  page 5-simulator
  says "40 of 40 runs are good" "60 of 60 runs are good" "20 done now" "verdict: ok"
  home
  json river/doubt-001/summary.json '.verdict == "ok"'
  jq -e -n --slurpfile a river/river-001/summary.json --slurpfile b river/doubt-001/summary.json \
    '[$a, $b | .[0].parameters[] | select(.name == "k") | .sd] | .[1] > .[0]' >/dev/null
  json river/river-001/summary.json '[.parameters[] | select(.name == "k") | .hpd95[0] < 0.07 and .hpd95[1] > 0.07] | all'
}

@test "5: several outputs" {
  cd "$BATS_TEST_TMPDIR"
  {
    printf 'param k ~ uniform(0.05, 0.1)\nparam m ~ uniform(1, 1.3)\nparam s2 ~ invgamma(2, 0.02)\n'
    awk '/^```/ { inside = $0 == "```text"; next } inside' "$TOP/docs/guide/5-simulator.md"
  } >flood.atvi
  cat >flood.sh <<'END'
awk -v k="$1" -v m="$2" 'BEGIN {
  print "hour,flow"
  for (t = 1; t <= 5; t++) print t "," m * exp(-k * t)
  print "{\"peak\": " m * m "}" >"final.json" }'
END
  printf 'hour,outflow\n1,1.05\n2,0.99\n3,0.9\n4,0.86\n5,0.8\n' >gauge.csv
  printf 'highest\n1.3\n' >survey.csv
  "$ATVI" design flood.atvi -n 12
  run -0 "$ATVI" run flood.atvi
  says "12 of 12 runs are good"
  "$ATVI" fit flood.atvi --method map --quiet
}

@test "6: Python and R" {
  installed
  find_python numpy
  command -v Rscript >/dev/null || skip "no Rscript here"
  printf '#!/bin/sh\nexec "%s" "$@"\n' "$(command -v "$PYTHON")" >"$BATS_FILE_TMPDIR/bin/python3"
  chmod +x "$BATS_FILE_TMPDIR/bin/python3"
  export PYTHONDONTWRITEBYTECODE=1
  page 6-from-python-and-r
  says "ok 2." "verdict ok" '"verdict": "ok"' "(Intercept)"
}

@test "links lead somewhere, and the README leads here" {
  for doc in docs/guide/*.md docs/cli/*.md README.md; do
    while read -r link; do
      [ -e "$(dirname "$doc")/$link" ] || { echo "$doc: $link"; return 1; }
    done < <(sed 's/`[^`]*`//g' "$doc" | grep -oE '\]\([^)#: ]+[)#]' | sed 's/](\(.*\)[)#]/\1/')
  done
  grep -q 'docs/guide' README.md
  for page in docs/guide/[1-9]*.md; do grep -q "($(basename "$page"))" docs/guide/README.md; done
}
