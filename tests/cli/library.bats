#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The library from outside: public headers and the shared library alone.
load common

BUILD=$(dirname "$ATVI")
cflags=(-std=c11 -Wall -Wextra -Wpedantic -Werror "-I$TOP/include")

# Numbers against the exact posterior: level 1.0833 (0.3227), slope 0.4662 (0.0772), log evidence -11.9815.
right() {
  awk '
    function off(a, b) { return a > b ? a - b : b - a }
    $1 == "level" { n += off($2, 1.08333) < 0.03 * 0.32275 && off($3, 0.32275) < 0.03 * 0.32275 }
    $1 == "slope" { n += off($2, 0.46619) < 0.03 * 0.07715 && off($3, 0.07715) < 0.03 * 0.07715 }
    $1 == "log_evidence" { n += off($2, -11.98155) < 0.02 }
    $1 == "khat" { n += $2 < 0.7 }
    $1 == "verdict" { n += $2 == "ok" }
    END { exit n != 5 }' <<<"$1" || { echo "$1"; return 1; }
}

@test "the example, built on what is installed, finds the exact answer" {
  [ -e "$BUILD/libatvi.so" ] || skip "no libatvi.so beside atvi"
  cmake --install "$BUILD" --prefix "$PWD/usr" >log 2>&1 || { cat log; return 1; }
  lib=$PWD/$(dirname "$(find usr -name libatvi.so)")
  export PKG_CONFIG_PATH=$lib/pkgconfig
  [ "$(pkg-config --modversion atvi)" = "$("$ATVI" --version | grep -oE '[0-9.]+')" ]
  mv usr moved # it says where it is by itself
  lib=${lib/usr/moved} PKG_CONFIG_PATH=${PKG_CONFIG_PATH/usr/moved}
  read -ra flags < <(pkg-config --cflags --libs atvi)
  for cc in gcc clang; do
    command -v $cc >/dev/null || continue
    $cc -std=c11 -Wall -Wextra -Wpedantic -Werror "$TOP/examples/library/line.c" -o line "${flags[@]}" "-Wl,-rpath,$lib" -lm
    run -0 --separate-stderr ./line
    # shellcheck disable=SC2154 # bats sets output and stderr
    right "$output"
    [ -z "$stderr" ] # the library itself prints nothing
    [ "$(wc -l <<<"$output")" -eq 5 ]
  done
}

@test "the example is built on the static library" {
  [ -e "$BUILD/libatvi.a" ] || skip "no libatvi.a beside atvi"
  gcc "${cflags[@]}" "$TOP/examples/library/line.c" -o line "$BUILD/libatvi.a" -ljansson -lpthread -ldl -lm
  run -0 ./line
  right "$output"
}

@test "the example works with every method it names, and with any other word says which there are" {
  [ -e "$BUILD/libatvi.a" ] || skip "no libatvi.a beside atvi"
  gcc "${cflags[@]}" "$TOP/examples/library/line.c" -o line "$BUILD/libatvi.a" -ljansson -lpthread -ldl -lm
  read -ra methods < <(sed -nE 's/^ \* METHOD is (.*) for method .*/\1/p' "$TOP/examples/library/line.c" | sed -E 's/\([^)]*\)//g; s/,| or / /g')
  [ "${#methods[@]}" -eq 7 ]
  for method in "${methods[@]}"; do
    run -0 ./line "$method"
    # means within a tenth of a standard deviation, standard deviations within a tenth
    awk '
      function off(a, b) { return a > b ? a - b : b - a }
      $1 == "level" { n += off($2, 1.08333) < 0.1 * 0.32275 && off($3, 0.32275) < 0.1 * 0.32275 }
      $1 == "slope" { n += off($2, 0.46619) < 0.1 * 0.07715 && off($3, 0.07715) < 0.1 * 0.07715 }
      $1 == "verdict" { n += $2 == "ok" }
      END { exit n != 3 }' <<<"$output" || { echo "$method: $output"; return 1; }
  done
  run -1 ./line metropolis
  [[ $output == *"method metropolis"*"ram"* ]]
}

@test "the headers serve a C++ program" {
  command -v g++ >/dev/null || skip "no g++"
  [ -e "$BUILD/libatvi.so" ] || skip "no libatvi.so beside atvi"
  cat >main.cpp <<'END'
#include <atvi/atvi.h>
#include <cstring>
int main() {
  atvi_ctx *ctx = nullptr;
  atvi_model *model = nullptr;
  atvi_draws *draws = nullptr, *plain = nullptr;
  if (atvi_ctx_new(nullptr, &ctx) != ATVI_OK) return 1;
  if (atvi_model_load(ctx, "cold.atvi", nullptr, &model) != ATVI_OK) return 2;
  atvi_fit_opts opts = atvi_fit_defaults();
  opts.method = "map";
  if (atvi_fit(ctx, atvi_model_target(model), &opts, &draws) != ATVI_OK) return 3;
  if (atvi_draws_resample(draws, 10, 1, &plain) != ATVI_OK || std::strcmp(plain->col[2].name, "S0") != 0) return 4;
  atvi_verdict verdict;
  if (atvi_judge(draws, &verdict, nullptr, 0) != ATVI_OK || verdict == ATVI_VERDICT_BAD) return 5;
  atvi_draws_free(plain);
  atvi_draws_free(draws);
  atvi_model_free(model);
  atvi_ctx_free(ctx);
  return 0;
}
END
  g++ -std=c++11 -Wall -Wextra -Wpedantic -Werror "-I$TOP/include" main.cpp -o main "-L$BUILD" "-Wl,-rpath,$BUILD" -latvi
  ./main
}

@test "make install and uninstall cope with blanks, and leave nothing behind" {
  [ "$BUILD" = "$TOP/build" ] && [ -e "$BUILD/libatvi.so" ] || skip "make install is for build/"
  to="$PWD/a root" under="/opt/my tools"
  mkdir -p "$to$under/share/doc" && echo mine >"$to$under/share/doc/other"
  make -C "$TOP" install DESTDIR="$to" PREFIX="$under" >log 2>&1 || { cat log; return 1; }
  [ "$("$to$under/bin/atvi" --version)" = "$("$ATVI" --version)" ]
  [ -e "$to$under/include/atvi/core.h" ]
  make -C "$TOP" uninstall DESTDIR="$to" >log 2>&1 || { cat log; return 1; }
  [ "$(find "$to" ! -type d)" = "$to$under/share/doc/other" ]
  [ -z "$(find "$to" -name 'atvi*')" ]
}

@test "the version is defined in one place" {
  "$TOP/tools/version" --check
  cp -r "$TOP/include" "$TOP/tools" . && mkdir r && cp "$TOP/r/DESCRIPTION" r
  tools/version 7.8.9
  [ "$(tools/version)" = 7.8.9 ] && grep -qx 'Version: 7.8.9' r/DESCRIPTION && tools/version --check
  sed -i 's/7.8.9/7.8.8/' r/DESCRIPTION
  run ! tools/version --check
  run -2 tools/version 1.x
}
