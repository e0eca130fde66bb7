# SPDX-License-Identifier: MIT
# Every test runs in an empty folder of its own, with a copy of the cold example and a cache of its file.
bats_require_minimum_version 1.5.0
TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
ATVI=${ATVI:-$TOP/build/atvi}
# shellcheck disable=SC2034 # used by the tests
POINT=(--set beta=0.9 --set gamma=0.3 --set S0=39.5)

setup_file() { export XDG_CACHE_HOME=${XDG_CACHE_HOME:-$BATS_FILE_TMPDIR/cache}; }

setup() {
  cp "$TOP"/examples/cold/cold.* "$BATS_TEST_TMPDIR"
  cd "$BATS_TEST_TMPDIR" || return 1
}

# A bare ! never fails a test.
not() { ! "$@"; }

# Words that standard output and error together must have.
says() {
  local word
  for word in "$@"; do
    if [[ "${output-}${stderr-}" != *"$word"* ]]; then
      printf 'want "%s" in:\n%s\n%s\n' "$word" "${output-}" "${stderr-}"
      return 1
    fi
  done
}

# The status of the last run and words it must have said.
# shellcheck disable=SC2154 # bats sets status
fails_with() { # code word...
  local code=$1
  shift
  if [ "$status" -ne "$code" ]; then
    printf 'status %s, want %s\n%s\n%s\n' "$status" "$code" "${output-}" "${stderr-}"
    return 1
  fi
  says "$@"
}

# The value of a jq expression over a file must be true.
json() { jq -e "$2" "$1" >/dev/null || { echo "not true: $2"; jq . "$1"; return 1; }; }

# DIR becomes what `atvi fit cold.atvi OPTION... --out DIR` gives in this folder. A file makes each such fit once; its tests have copies.
fit_cold() { # DIR OPTION...
  local out=$1 from
  shift
  from=$BATS_FILE_TMPDIR/cold-$(tr -cd 'a-z0-9' <<<"$*")
  if [ ! -e "$from" ]; then
    mkdir "$from"
    cp "$TOP"/examples/cold/cold.* "$from"
    env -C "$from" "$ATVI" fit cold.atvi --quiet "$@" --out run >/dev/null || return
  fi
  cp -a "$from/run" "$out"
  grep -rlF "$from" "$out" | xargs sed -i "s|$from|$PWD|g" # where it was made
}
