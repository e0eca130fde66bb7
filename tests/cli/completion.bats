#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What is made from the tables of --help: completion, docs/cli, man pages. And colours.
load common

# completes WORD...: what the tabulator key would offer for the last word, one per line.
completes() {
  bash -c 'source <("$0" completion bash); complete -p atvi >/dev/null || exit 1
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _atvi; printf "%s\n" "${COMPREPLY[@]}"' "$ATVI" "$@"
}
commands() { "$ATVI" help | sed -n 's/^  \([a-z]*\)  *.*/\1/p'; }

@test "commands" {
  [ "$(completes atvi "" | sort)" = "$({ commands; echo help; } | sort)" ]
  [ "$(completes atvi "fi")" = fit ]
  [ "$(completes atvi help su)" = summary ]
  [ "$(completes atvi --v)" = --version ]
}

@test "every option of every command, and no other" {
  for c in $(commands); do
    completes atvi "$c" - | sort >offered
    "$ATVI" "$c" --help | sed -n '/^OPTIONS/,/^[A-Z ]*$/{s/^    \(--*[a-z-]*\).*/\1/p}' | sort >said
    [ -s said ]
    diff offered said
  done
}

@test "values of options" {
  [ "$(completes atvi fit --method "" | paste -sd' ')" = "atvi nf copula ram nuts map" ]
  [ "$(completes atvi fit --map "" | paste -sd" ")" = "auto surjection probit logit" ]
  [ "$(completes atvi fit m.atvi --method = n | paste -sd' ')" = "nf nuts" ]
  [ "$(completes atvi new x --like s | paste -sd' ')" = "sir seir" ]
  [ "$(completes atvi completion "" | paste -sd' ')" = "bash zsh" ]
  [ -z "$(completes atvi fit --seed "")" ]
}

@test "models, folders and files, with blanks too" {
  mkdir "a run"
  touch "my model.atvi" notes.txt
  [ "$(completes atvi fit "" | sort | paste -sd:)" = "a run:cold.atvi:my model.atvi" ]
  [ "$(completes atvi fit --out "")" = "a run" ]
  [ "$(completes atvi fit --data n)" = notes.txt ]
  [ "$(completes atvi fit my)" = "my model.atvi" ]
}

@test "zsh" {
  run -0 "$ATVI" completion zsh
  [ "${lines[0]}" = "#compdef atvi" ]
  says "'fit:infer the parameters" "'--method=[" "(atvi nf copula ram nuts map)" "'*--set=["
  command -v zsh >/dev/null || skip "no zsh here"
  zsh -n <("$ATVI" completion zsh)
}

@test "zsh completes" {
  command -v zsh >/dev/null || skip "no zsh here"
  "$ATVI" completion zsh >_atvi
  # a terminal with a zsh in it, where each line is begun and the tabulator key pressed
  cat >keys.zsh <<'END'
zmodload zsh/zpty
zpty -b shell zsh -f -i
zpty -w shell 'PS1=; TERM=dumb; fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -D; print re''ady'
until [[ $said == *ready* ]]; do zpty -r shell more && said+=$more; done
for line in "$@"; do
  zpty -w -n shell "$line"$'\t\x04'
  said=; repeat 30; do sleep 0.1; zpty -rt shell more && said+=$more; [[ $said == *$'\n'* ]] && break; done
  sleep 0.3; while zpty -rt shell more; do said+=$more; done
  print -r -- "$line: ${${said//[[:space:]]/ }//$'\a'/}"
  zpty -w -n shell $'\x15'
done
END
  run -0 timeout 60 zsh -f keys.zsh "atvi fi" "atvi fit --meth" "atvi fit cold.atvi --method n" "atvi new x --like s" "atvi export --we" "atvi fit co"
  says "atvi fi: " "atvi fit " "--method=" "nf    nuts" "seir  sir" "--weighted" "cold.atvi "
}

@test "other shells are refused" {
  run "$ATVI" completion fish
  fails_with 2 "bash or zsh"
  run "$ATVI" completion
  fails_with 2 "SHELL is missing"
}

@test "docs/cli is what --help says" {
  sh "$TOP/tools/words" "$ATVI" md made
  diff -r made "$TOP/docs/cli" || { echo "'make docs' puts it right"; return 1; }
}

@test "man pages" {
  sh "$TOP/tools/words" "$ATVI" man made
  [ "$(find made -type f | wc -l)" -eq $(($(commands | wc -l) + 1)) ]
  grep -q '^.SH OPTIONS' made/atvi-fit.1
  command -v groff >/dev/null || skip "no groff here"
  for page in made/*; do
    run -0 --separate-stderr groff -man -Tascii -ww -P-cbou "$page"
    [ -z "$stderr" ]
    says NAME SYNOPSIS DESCRIPTION
  done
  run -0 groff -man -Tascii -rLL=200n -P-cbou made/atvi-fit.1
  says "--method METHOD" "How to infer; see METHODS" "The No-U-Turn sampler" "EXIT STATUS"
}

@test "every page of help fits 80 columns" {
  not grep -E '^.{81,}$' <<<"$("$ATVI" --help)"
  for c in $(commands); do
    run -0 "$ATVI" "$c" --help
    says NAME SYNOPSIS DESCRIPTION OPTIONS "EXIT STATUS" EXAMPLES
    not grep -E '^.{81,}$' <<<"$output"
  done
}

@test "help in other formats" {
  run -0 "$ATVI" help --format text fit
  [ "$output" = "$("$ATVI" fit --help)" ]
  run "$ATVI" help --format html
  fails_with 2 "text, md or man"
  run "$ATVI" help nothing
  fails_with 2 "unknown command nothing"
  run "$ATVI" help --format md nothing
  fails_with 2 "unknown command nothing"
}

@test "colours on a terminal alone, and never under NO_COLOR" {
  command -v script >/dev/null || skip "no script here"
  "$ATVI" fit cold.atvi --method map --out run --quiet --no-report
  on_terminal() { script -qec "$*" /dev/null </dev/null; }
  unset NO_COLOR
  TERM=xterm on_terminal "$ATVI summary run" >out
  grep -q $'^verdict: \033\[1;3[123]m[a-z]*\033\[0m' out
  NO_COLOR=1 TERM=xterm on_terminal "$ATVI summary run" >out
  grep -q '^verdict: [a-z]' out
  not grep -q $'\033' out
  TERM=dumb on_terminal "$ATVI summary run" >out
  not grep -q $'\033' out
  TERM=xterm "$ATVI" summary run >out
  not grep -q $'\033' out
  # what goes wrong, on standard error
  TERM=xterm on_terminal "$ATVI summary nowhere" >out || true
  grep -q $'\033' out
  NO_COLOR=1 TERM=xterm on_terminal "$ATVI summary nowhere" >out || true
  grep -q nowhere out
  not grep -q $'\033' out
}
