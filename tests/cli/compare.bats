#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
load common

draws() { grep -v '^#' "$1/draws.csv"; }

# DIR: the cold by every method; what it printed is in DIR.out and DIR.err. It is made once: a comparison goes on in a copy, and fits what it lacks.
by_every_method() { # DIR
  local from=$BATS_FILE_TMPDIR/all
  if [ ! -e "$from" ]; then
    mkdir "$from"
    "$ATVI" compare cold.atvi --out "$from/c" >"$from/c.out" 2>"$from/c.err" || return
  fi
  cp -a "$from/c" "$1"
  cp "$from/c.out" "$1.out"
  cp "$from/c.err" "$1.err"
}

@test "the cold by every method: one table, and all agree" {
  by_every_method c
  run -0 --separate-stderr bash -c 'cat c.out; cat c.err >&2'
  says "atvi " nf copula ram nuts exact beta gamma S0 R0 distance "k-hat" "R-hat" verdict "coverage, %" "log MAP" "written to "
  says "method 1 of 6: atvi" "method 6 of 6: exact" "marginal of exact"
  not grep -E '^.{101,}$' <<<"$output"
  json c/compare.json '[.methods[].method] == ["atvi", "nf", "copula", "ram", "nuts", "exact"] and .reference == "exact" and .times_shared == false'
  json c/compare.json '[.methods[] | .state == "done" and .verdict == "ok" and .seconds > 0 and .evaluations > 1000] | all'
  json c/compare.json '[.methods[] | (.log_map + 94.0 | fabs) < .1 and (.fitted.all.ail - 12.2 | fabs) < .2 and (.fitted.all.mspe - 4.36 | fabs) < .06] | all'
  # about 1600 and 5800 effective draws: a distance by chance of 0.036
  json c/compare.json '[.methods[] | select(.method != "exact") | .parameters[] | .distance >= 0 and .distance < .12 and .distance_by_chance < .05] | all'
  json c/compare.json '.methods[-1].parameters[0].distance == null'
  for m in atvi nf copula ram nuts exact; do
    [ -s c/$m/draws.csv ] && [ -s c/$m/summary.json ] && [ -s c/$m/fit.json ] && [ -s c/$m/scores.json ] && [ -s c/$m/predict.csv ]
  done
  "$ATVI" summary c/nuts | grep -q beta
}

@test "each method is what atvi fit gives" {
  by_every_method c
  "$ATVI" fit cold.atvi --method ram --out r --quiet
  "$ATVI" fit cold.atvi --method nf --out n --quiet
  diff <(draws c/ram) <(draws r)
  diff <(draws c/nf) <(draws n)
}

@test "compare.csv: one number on a line, the same as compare.json" {
  by_every_method c
  run -0 --separate-stderr "$ATVI" compare cold.atvi --methods atvi,ram --out c --quiet
  [ "$output" = c ]
  [ "$(head -n 1 c/compare.csv)" = method,kind,name,statistic,value ]
  not grep -vE '^([^,]*,){4}[^,]*$' c/compare.csv
  value() { awk -F, -v k="$1" '$1 "," $2 "," $3 "," $4 == k { print $5 }' c/compare.csv; }
  [ "$(value ram,fit,,verdict)" = ok ] && [ "$(value ram,fit,,reference)" = 1 ] && [ "$(value atvi,fit,,reference)" = 0 ]
  json c/compare.json "(.methods[0].parameters[1].mode - $(value atvi,parameter,gamma,mode) | fabs) < 1e-9"
  json c/compare.json "(.methods[1].fitted.series[0].mspe - $(value ram,fitted,infected,mspe) | fabs) < 1e-9"
  json c/compare.json "(.methods[0].derived[0].distance - $(value atvi,derived,R0,distance) | fabs) < 1e-9"
  run -0 --separate-stderr "$ATVI" compare cold.atvi --methods atvi,ram --out c --quiet --json
  jq -e '.methods | length == 2' <<<"$output"
}

@test "--parallel: the same draws, times marked as shared" {
  by_every_method one
  "$ATVI" compare cold.atvi --methods atvi,ram,map --out one --quiet
  run -0 --separate-stderr "$ATVI" compare cold.atvi --methods atvi,ram,map --parallel --out two
  says "seconds (shared)" "side by side"
  for m in atvi ram map; do diff <(draws one/$m) <(draws two/$m); done
  json two/compare.json '.times_shared'
  grep -q '^ram,fit,,seconds_shared,' two/compare.csv
}

@test "the reference can be chosen, and is reported" {
  by_every_method c
  run -0 "$ATVI" compare cold.atvi --methods atvi,ram --reference atvi --out c
  says "reference: atvi, as asked for"
  run -0 "$ATVI" compare cold.atvi --methods atvi,map --out c
  says "reference: atvi, because no ram, nuts or exact has verdict ok"
}

@test "a method that fails is reported, the others go on" {
  mkdir c && touch c/nf
  run -0 --separate-stderr "$ATVI" compare cold.atvi --methods nf,ram --out c --force
  says "nf: failed:" c/nf "verdict" failed ok
  json c/compare.json '.methods[0].state == "failed" and (.methods[0].reason | length) > 0 and .methods[1].verdict == "ok"'
  run -3 "$ATVI" compare cold.atvi --methods nf,ram --out c --force --strict --quiet
  run -1 "$ATVI" compare cold.atvi --methods nf --out c --force
  says "nf: failed:"
}

@test "held-out data are scored apart; data, fixed parameters and limits are passed on" {
  run -0 --separate-stderr "$ATVI" compare cold.atvi --methods atvi,ram --holdout 't > 14' --fix S0=38.5 --out c
  says "held out (t > 14)" lpd
  json c/compare.json '[.methods[] | .held_out.all.n == 12 and .held_out.all.lpd < 0 and (.parameters | length) == 2] | all'
  head -n 10 cold.csv >short.csv
  "$ATVI" compare cold.atvi --methods ram,map --data short.csv --ess 200 --max-time 60s --out d --quiet
  json d/compare.json '[.methods[] | .fitted.all.n == 18] | all'
  json d/ram/fit.json '.ess == 200 and .max_seconds == 60'
}

interrupted() { # SIGNAL OPTION...
  local signal=$1 code=0 pid
  shift
  "$ATVI" compare cold.atvi --methods map,ram,nf --ess 2e4 --no-compile --threads 1 --out c "$@" >out.txt 2>err.txt 3>&- &
  pid=$!
  for _ in $(seq 600); do
    grep -qs ',map,ok' c/methods.csv && [ -e c/ram/checkpoint ] && break
    sleep 0.1
  done
  sleep 0.5
  kill "-$signal" $pid
  wait $pid || code=$?
  [ "$code" -eq 130 ] || { echo "status $code"; cat out.txt err.txt; return 1; }
  json c/compare.json '.methods[0].state == "done" and .methods[1].state == "stopped" and .methods[1].evaluations > 0'
  [ "$(draws c/ram | wc -l)" -gt 10 ]
}

@test "SIGTERM while side by side keeps what is done" { interrupted TERM --parallel; }

@test "Ctrl-C keeps what is done; a comparison that was interrupted goes on, and nothing is fitted twice" {
  interrupted INT
  json c/compare.json '.methods[2].state == "not run"'
  grep -q "nf: not run" out.txt
  [ -e c/ram/checkpoint ]
  run -2 "$ATVI" compare cold.atvi --methods map,ram,nf --ess 2e4 --no-compile --out c --seed 2
  says "c was started with another --seed"
  stat -c %Y.%i c/map/draws.csv >before
  run -0 --separate-stderr "$ATVI" compare cold.atvi --methods map,ram,nf --ess 2e4 --no-compile --out c
  says "c/ram was interrupted after" "method 3 of 3: nf"
  not grep -q "method 1 of 3" <<<"$stderr"
  stat -c %Y.%i c/map/draws.csv | diff before -
  [ ! -e c/ram/checkpoint ]
  "$ATVI" compare cold.atvi --methods map,ram,nf --ess 2e4 --no-compile --out whole --quiet
  for m in map ram nf; do diff <(draws c/$m) <(draws whole/$m); done
  diff <(grep -v seconds c/compare.csv) <(grep -v seconds whole/compare.csv)
}

@test "--force: folders of methods that are no longer compared are reported" {
  "$ATVI" compare cold.atvi --methods map,ram --ess 200 --out c --quiet
  run -0 --separate-stderr "$ATVI" compare cold.atvi --methods map --out c --force
  says "c/ram is from an earlier comparison"
  [[ "$stderr" != *"c/map is"* ]]
}

@test "wrong usage" {
  run -2 "$ATVI" compare cold.atvi --methods 'atvi, foo'
  says "no method 'foo'" "atvi, nf, copula, ram, nuts, exact and map"
  run -2 "$ATVI" compare cold.atvi --methods atvi,atvi
  says twice
  run -2 "$ATVI" compare cold.atvi --methods atvi,ram --reference nuts
  says "--reference nuts"
  run -2 "$ATVI" compare nothing.atvi
  run -2 "$ATVI" compare cold.atvi --holdout 't > 99'
  mkdir full && touch full/x
  run -1 "$ATVI" compare cold.atvi --methods map --out full
  says full --force
  [ ! -e cold-compare-001 ]
  run -0 "$ATVI" compare cold.atvi --methods map --quiet
  [ "$output" = cold-compare-001 ]
  run -0 "$ATVI" compare --help
  says NAME SYNOPSIS OPTIONS --parallel --reference
  not grep -E '^.{80,}$' <<<"$output"
}

# ---- models ----

negbin() {
  sed 's/poisson(\(.*\))/negbin(\1, phi)/; s/^state S = S0/param phi ~ lognormal(3, 1)\n&/' cold.atvi >negbin.atvi
}

@test "models: two of the cold by evidence, LOO, weights and what they share" {
  negbin
  "$ATVI" fit cold.atvi --quiet
  "$ATVI" fit negbin.atvi --quiet
  rm cold.atvi negbin.atvi cold.csv # the folders are enough
  run -0 --separate-stderr "$ATVI" compare cold-001 negbin-001
  says LOO elpd weight "log evidence" probability shared beta "LOO does not decide between cold-001 and negbin-001" \
    "cold-001 has the highest evidence" "written to compare-001"
  not grep -E '^.{101,}$' <<<"$output"
  c=compare-001
  json $c/compare.json '.same_data and .best_loo == "cold-001" and .best_evidence == "cold-001" and .messages == []'
  json $c/compare.json '.fits | length == 2 and ([.[] | .observations == 42 and .verdict == "ok" and .khat_above == 0] | all)'
  # evidence is that of the fits
  json $c/compare.json ".fits[0].log_evidence == $(jq .log_evidence.value cold-001/summary.json) and .fits[1].log_evidence == $(jq .log_evidence.value negbin-001/summary.json)"
  json $c/compare.json '.fits as [$a, $b] | ($b.log_evidence_difference - ($b.log_evidence - $a.log_evidence) | fabs) < 1e-9 and ($a.probability + $b.probability - 1 | fabs) < 1e-9 and ($b.probability / $a.probability - ($b.log_evidence_difference | exp) | fabs) < 1e-9'
  json $c/compare.json '.fits as [$a, $b] | ($b.elpd_difference - ($b.elpd_loo - $a.elpd_loo) | fabs) < 1e-9 and $b.elpd_difference_se > 0 and $b.elpd_difference_se < $b.elpd_loo_se and ($a.stacking_weight + $b.stacking_weight - 1 | fabs) < 1e-9'
  json $c/compare.json '[.shared[].name] == ["beta", "gamma", "S0", "R0"] and .shared[3].kind == "derived"'
  mean=$(jq '.parameters[] | select(.name == "beta") | .mean' negbin-001/summary.json)
  json $c/compare.json ".shared[0].fits[1] | .fit == \"negbin-001\" and (.mean - $mean | fabs) < 1e-12"
  # the same in compare.csv, and a page that leads to those of the fits
  value() { awk -F, -v k="$1" '$1 "," $2 "," $3 "," $4 == k { print $5 }' $c/compare.csv; }
  json $c/compare.json "(.fits[1].elpd_difference - $(value negbin-001,fit,,elpd_difference) | fabs) < 1e-9"
  json $c/compare.json "(.shared[2].fits[0].hpd95[1] - $(value cold-001,parameter,S0,hpd95_high) | fabs) < 1e-9"
  for word in 'href="../negbin-001/report.html"' 'id="f-elpd' 'id="f-shared' 'id="evidence"'; do grep -q "$word" $c/report.html; done
  [ "$(grep -o "LOO does not decide" $c/report.html | wc -l)" -eq 1 ] # above the sections, and not once more in its own
  [ -s $c/figures/elpd.svg ] && [ -s $c/figures/shared.pdf ]
  # differences by hand, at the same draws
  "$ATVI" compare --json negbin-001 cold-001 --out other --no-report | jq '.fits[0].elpd_difference' >one
  jq '.fits[1].elpd_difference' $c/compare.json | diff one -
  [ ! -e other/report.html ]
}

@test "models: LOO is that of the fit with each value left out" {
  conjugate_values=(1.21 0.483 2.05 1.77 -0.31 1.04 0.915 1.36)
  { echo y; printf '%s\n' "${conjugate_values[@]}"; } >y.csv
  printf 'param mu ~ normal(0.4, 2.385)\ndata "y.csv"\nobserve y ~ normal(mu, 0.731)\n' >a.atvi
  sed 's/0.731/1.462/' a.atvi >b.atvi
  for k in 1 2 3 4 5; do
    "$ATVI" fit a.atvi --seed $k --quiet --out a$k
    "$ATVI" fit b.atvi --seed $k --quiet --out b$k
    "$ATVI" compare a$k b$k --out c$k --quiet
  done
  # in closed form: difference of elpd, its error, and difference of log evidence
  exact() { awk -v y="${conjugate_values[*]}" 'function ln(x, m, v) { return -(x - m)^2 / v / 2 - log(6.283185307179586 * v) / 2 }
    BEGIN { n = split(y, x, " "); m0 = .4; v0 = 2.385^2; split("0.731 1.462", s, " ")
      for (k = 1; k <= 2; k++) { s2 = s[k]^2
        for (i = 1; i <= n; i++) { p = 1 / v0; t = m0 / v0; for (j = 1; j <= n; j++) if (j != i) { p += 1 / s2; t += x[j] / s2 }
          e[k, i] = ln(x[i], t / p, 1 / p + s2) }
        m = m0; v = v0; for (i = 1; i <= n; i++) { z[k] += ln(x[i], m, v + s2); g = v / (v + s2); m += g * (x[i] - m); v *= 1 - g } }
      for (i = 1; i <= n; i++) { d = e[2, i] - e[1, i]; sum += d; square += d * d }
      print sum, sqrt(n / (n - 1) * (square - sum * sum / n)), z[2] - z[1] }'; }
  read -r difference se evidence < <(exact)
  # the mean of five: one, from 2 000 draws, errs by 0.04
  jq -s '[.[].fits[1]] | {difference: ([.[].elpd_difference] | add / 5), se: ([.[].elpd_difference_se] | add / 5)}' c[1-5]/compare.json >mean.json
  json mean.json "(.difference - $difference | fabs) < .05 and (.se - $se | fabs) < .05"
  json c1/compare.json ".fits[1] | (.log_evidence_difference - $evidence | fabs) < 4 * .log_evidence_difference_se + 1e-4"
}

@test "models: fits to other data share parameters and nothing else" {
  "$ATVI" fit cold.atvi --quiet --method map --out a
  sed '3s/,[0-9]*$/,1/' cold.csv >other.csv
  "$ATVI" fit cold.atvi --quiet --method map --data other.csv --out b
  run -0 --separate-stderr "$ATVI" compare a b --out c
  says "Evidence and LOO are not compared" "a was fitted to recovered" "b to recovered = 1 " beta
  json c/compare.json '(.same_data | not) and .best_loo == null and .best_evidence == null and .message_codes == ["data-differ"] and (.shared | length == 4)'
  json c/compare.json '[.fits[] | .elpd_difference == null and .probability == null and .stacking_weight == null and .elpd_loo < 0] | all'
  "$ATVI" fit cold.atvi --quiet --method map --holdout 't > 14' --out part
  run -0 --separate-stderr "$ATVI" compare a part --out c --force
  says "a was fitted to 42 values and part to 30 (held out: nothing"
  # the same values held out
  negbin
  "$ATVI" fit negbin.atvi --quiet --method map --holdout 't > 14' --out part2
  run -0 --separate-stderr "$ATVI" compare part part2 --out c --force
  json c/compare.json '.same_data and ([.fits[] | .observations == 30 and .holdout == "t > 14"] | all)'
}

@test "models: a fit without evidence, and a bad one" {
  negbin
  "$ATVI" fit cold.atvi --quiet --method ram --ess 200 --out chains
  "$ATVI" fit negbin.atvi --quiet --out negbin
  "$ATVI" fit cold.atvi --quiet --method ram --max-iter 20 --out short
  run -0 --separate-stderr "$ATVI" compare negbin chains short --out c
  says "chains has no evidence: method ram gives none. Fits by --method atvi" "chains and short are fits of the same model"
  grep -A 1 '^$' <<<"$output" | grep -q '^- The verdict on short is bad' # before all other messages
  json c/compare.json '.best_evidence == null and .fits[1].log_evidence == null and .fits[0].log_evidence < 0 and .fits[0].probability == null'
  json c/compare.json '.message_codes[0] == "none" and (.message_codes | index("evidence-none")) and .fits[2].verdict == "bad"'
  run -3 "$ATVI" compare negbin chains short --out c --force --strict --quiet
  [ "$output" = c ]
}

@test "models: a folder of an older version" {
  negbin
  "$ATVI" fit cold.atvi --quiet --method map --out a
  "$ATVI" fit negbin.atvi --quiet --method map --out b
  "$ATVI" compare a b --out new --quiet
  rm -r b/groups b/history.csv
  run -0 --separate-stderr "$ATVI" compare a b --out old # the model is run again
  json old/compare.json "(.fits[1].elpd_loo - $(jq '.fits[1].elpd_loo' new/compare.json) | fabs) < 1e-9"
  [ ! -e b/groups ]
  mv cold.csv gone.csv
  run -0 --separate-stderr "$ATVI" compare a b --out lost
  says "the data of b are not known" cold.csv
  json lost/compare.json '(.same_data | not) and (.shared | length == 4)'
  run -0 --separate-stderr "$ATVI" compare a b --data gone.csv --out found
  json found/compare.json '.same_data and .fits[1].elpd_loo < 0'
}

@test "models: wrong usage" {
  "$ATVI" fit cold.atvi --quiet --method map --out a
  "$ATVI" fit cold.atvi --quiet --method map --out b
  mkdir empty
  run "$ATVI" compare a empty
  fails_with 2 "empty" "not the folder of a finished fit"
  run "$ATVI" compare a
  fails_with 2 "a: only one fit" "two or more"
  run "$ATVI" compare a cold.atvi
  fails_with 2 "cold.atvi: not a folder" "one model file, or two or more folders of fits"
  run "$ATVI" compare cold.atvi cold.atvi
  fails_with 2 "cold.atvi: not a folder"
  run "$ATVI" compare a nothing
  fails_with 2 "nothing: not a folder"
  run "$ATVI" compare a ./a/
  fails_with 2 "./a/ is given twice"
  for option in --methods=atvi --reference=ram --parallel --seed=1 --fix=beta=1 '--holdout=t > 3' --ess=10 --max-time=1m; do
    run "$ATVI" compare a b "$option"
    fails_with 2 "${option%%=*}" "applies to methods"
  done
  run "$ATVI" compare a b --max-time 1m
  fails_with 2 "--max-time: applies to methods"
  run "$ATVI" compare a b --out a --force
  fails_with 2 "--out a: this is the folder of a fit"
  mkdir full && touch full/x
  run "$ATVI" compare a b --out full
  fails_with 1 full --force
  [ ! -e compare-001 ]
}
