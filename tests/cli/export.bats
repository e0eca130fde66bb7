#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
load common
load python

quick=(--method ram --ess 100 --chains 4 --quiet)

# fit.nc against the other files of the run, by xarray; sets LAYOUT: group:variable(dimensions) ...
read_nc() {
  find_python xarray netCDF4
  LAYOUT=$("$PYTHON" "$TOP/tests/python/read_nc.py" "$1")
}
has() { [[ " $LAYOUT " == *" $1 "* ]] || { printf 'no %s in %s\n' "$1" "$LAYOUT"; return 1; }; }
lacks() { [[ " $LAYOUT " != *" $1:"* ]] || { printf '%s in %s\n' "$1" "$LAYOUT"; return 1; }; }

@test "fit.nc: what xarray reads is what the other files say" {
  fit_cold run
  read_nc run
  has "posterior:beta(chain,draw)"
  has "posterior:R0(chain,draw)"
  has "sample_stats:lp(chain,draw)"
  has "weighted_posterior:S0(chain,draw)"
  has "weighted_sample_stats:weight(chain,draw)"
  has "posterior_predictive:infected(chain,draw,time)"
  has "log_likelihood:recovered(chain,draw,time)"
  has "observed_data:infected(time)"
  has "prior:beta(chain,draw)"
}

@test "fit.nc: chains, and draws without weights" {
  fit_cold run "${quick[@]}"
  read_nc run
  has "posterior:beta(chain,draw)"
  lacks weighted_posterior
  "$ATVI" fit cold.atvi --method map --quiet --out map
  read_nc map
}

@test "fit.nc: the same bytes on one and two threads, and from export" {
  export SOURCE_DATE_EPOCH=1234567890 # created_at apart
  "$ATVI" fit cold.atvi --quiet --threads 1 --out one
  [ -e one/fit.nc ] || skip "no netCDF library here"
  "$ATVI" fit cold.atvi --quiet --threads 2 --out two
  cmp one/fit.nc two/fit.nc
  run -0 --separate-stderr "$ATVI" export two --format nc --out three.nc
  [ "$output" = three.nc ]
  cmp one/fit.nc three.nc
  "$ATVI" export two --format netcdf --out word.nc --quiet
  cmp one/fit.nc word.nc
  rm two/fit.nc
  run -0 "$ATVI" export two --format nc
  [ "$output" = two/fit.nc ]
  cmp one/fit.nc two/fit.nc
  [[ "$(ldd "$ATVI")" != *netcdf* ]] # loaded when needed alone
  grep -aq '2009-02-13T23:31:30+00:00' one/fit.nc
  SOURCE_DATE_EPOCH=soon "$ATVI" export two --format nc --out four.nc --quiet
  grep -aq "$(date -u +%Y-%m-%dT%H)" four.nc
}

@test "fit.nc: arrays, missing values, several data sets, rows, held-out data, fixed parameters" {
  printf 'a,b,c,z\n1.1,2.1,3.1,1\n0.9,NA,2.8,2\n1.3,1.9,3.3,NA\n0.7,2.2,NA,4\n' >wide.csv
  printf 'day,w\n1,0.5\n2,0.7\n3,NA\n' >long.csv
  cat >model.atvi <<'END'
index k = 1..3
param mu[k] ~ normal(0, 5)
param chain ~ uniform(0, 4)
param A[i in 1..2, j in 1..3] ~ normal(0, 1)
data wide "wide.csv"
data long "long.csv" time day
observe wide.y[i in k] columns 1..3 ~ normal(mu[i] + A[1, i], 0.5)
observe wide.z ~ poisson(chain)
observe long.w ~ normal(chain, 0.3)
derived twice[i in k] = 2*mu[i]
END
  "$ATVI" fit model.atvi --method map --quiet --out run --fix mu.1=1 --holdout 'row == 4'
  read_nc run
  has "posterior:mu(chain,draw,mu_dim_0)"
  has "posterior:A(chain,draw,A_dim_0,A_dim_1)"
  has "posterior:chain_(chain,draw)" # chain is a dimension
  has "posterior:twice(chain,draw,twice_dim_0)"
  has "observed_data:y(row_wide,y_dim_0)"
  has "observed_data:z(row_wide)"
  has "observed_data:w(time_long)"
  has "log_likelihood:w(chain,draw,time_long)"
}

# arrays: by numbers, two of them, by words, with a gap
arrays_model() {
  cat >arrays.atvi <<'END'
index place = north, south
param A[i in 1..2, j in 1..3] ~ normal(10*i + j, 0.1)
param mu[place] ~ normal(0, 5)
param b[1..3] ~ normal(0, 1)
param C[place, 1..2] ~ normal(0, 1)
data "places.csv"
observe y[i in place] ~ normal(mu[i], 0.5)
derived twice[i in place] = 2*mu[i]
END
  printf 'y.north,y.south\n1.1,2.3\n0.9,NA\n1.4,2.0\n' >places.csv
}

@test "fit.nc: labels are coordinates" {
  arrays_model
  "$ATVI" fit arrays.atvi --method map --quiet --out run --fix b.1=0.5
  read_nc run
  has "posterior:mu(chain,draw,mu_dim_0)"
  has "posterior:C(chain,draw,C_dim_0,C_dim_1)"
  has "posterior:twice(chain,draw,twice_dim_0)"
  has "observed_data:y(row,y_dim_0)"
  has "log_likelihood:y(chain,draw,row,y_dim_0)"
  "$PYTHON" - run/fit.nc <<'END'
import sys, xarray
p = xarray.open_dataset(sys.argv[1], group="posterior")
assert list(p.mu_dim_0.values) == ["north", "south"] and list(p.b_dim_0.values) == [2, 3]
assert abs(float(p.mu.sel(mu_dim_0="south").mean()) - 2.1) < 0.1
END
}

@test "fit.nc: a column that two data sets have" {
  printf 'y\n1\n2\n' >one.csv
  printf 'y\n3\n4\n5\n' >two.csv
  printf 'param a ~ normal(0, 5)\ndata one "one.csv"\ndata two "two.csv"\nobserve one.y ~ normal(a, 1)\nobserve two.y ~ normal(a, 2)\n' >both.atvi
  "$ATVI" fit both.atvi --method map --quiet --out run
  read_nc run
  has "observed_data:one_y(row_one)"
  has "observed_data:two_y(row_two)"
}

@test "fit.nc: names that we make leave those of the model alone" {
  printf 'y\n1\n2\n' >one.csv
  printf 'y.1,y.2\n3,1\n4,2\n5,3\n' >two.csv
  printf 'one_y,y_dim_0,two_y_dim_0\n3,7,5\n4,8,6\n5,7,7\n' >three.csv
  cat >names.atvi <<'END'
param a ~ normal(0, 5)
param chain ~ normal(1, 2)
param chain_ ~ normal(2, 2)
param b[i in 1..2] ~ normal(0, 1)
param b_dim_0 ~ normal(0, 1)
data one "one.csv"
data two "two.csv"
data three "three.csv"
observe one.y ~ normal(a, 1)
observe two.y[i in 1..2] ~ normal(a + b[i], 2)
observe three.one_y ~ normal(a, 2)
observe three.y_dim_0 ~ normal(chain, 2)
observe three.two_y_dim_0 ~ normal(chain_ + b_dim_0, 2)
END
  "$ATVI" fit names.atvi --method map --quiet --out run 2>err.txt
  [ ! -s err.txt ]
  read_nc run
  has "observed_data:one_y_(row_one)" # one.y
  has "observed_data:two_y(row_two,two_y_dim_0_)"
  has "observed_data:one_y(row_three)"
  has "log_likelihood:two_y_dim_0(chain,draw,row_three)"
  has "posterior:chain__(chain,draw)" # chain
  has "posterior:chain_(chain,draw)"
  has "posterior:b(chain,draw,b_dim_0_)"
  has "posterior:b_dim_0(chain,draw)"
  "$PYTHON" - run/fit.nc <<'END'
import sys, xarray
d = xarray.open_dataset(sys.argv[1], group="observed_data")
assert list(d.one_y.values) == [3, 4, 5] and list(d.one_y_.values) == [1, 2] and d.two_y.values.tolist() == [[3, 1], [4, 2], [5, 3]]
END
}

@test "stan: arrays are by columns, and complete" {
  find_python json
  arrays_model
  "$ATVI" fit arrays.atvi --method map --quiet --out run --fix b.1=0.5
  "$ATVI" export run --format stan --quiet
  "$PYTHON" "$TOP/tests/python/stan_csv.py" run/stan.csv >read.json
  json read.json '.names[2:] == ["A.1.1", "A.2.1", "A.1.2", "A.2.2", "A.1.3", "A.2.3", "mu_north", "mu_south", "b_2", "b_3", "C_north_1", "C_north_2", "C_south_1", "C_south_2", "twice_north", "twice_south"]'
  json read.json '.means["A.2.1"] > 20.9 and .means["A.2.1"] < 21.1 and .means["A.1.3"] > 12.9 and .means["A.1.3"] < 13.1'
  "$ATVI" export run --format json --quiet
  json run/draws.json '.[0] | has("mu[north]") and has("C[south,2]") and has("b[3]")'
  Rscript --vanilla -e 'library(rstan)' >/dev/null 2>&1 || skip "no R with rstan here"
  Rscript --vanilla "$TOP/tests/r/read_stan.R" run/stan.csv >read.txt
  grep -q '^mu_south 2\.' read.txt
  grep -q '^A\[2,1\] 2[01]\.' read.txt
}

@test "stan: elements with labels have names of their own" {
  find_python json
  printf 'y\n1\n2\n' >one.csv
  printf 'index p = x_y, z\nindex q = y, w\nparam b[p] ~ normal(0,1)\nparam b_x[q] ~ normal(5,1)\nparam b_z ~ normal(9,1)\ndata "one.csv"\nobserve y ~ normal(b_z, 1)\n' >st.atvi
  "$ATVI" fit st.atvi --method map --quiet --out run
  "$ATVI" export run --format stan --quiet
  "$PYTHON" "$TOP/tests/python/stan_csv.py" run/stan.csv >read.json
  json read.json '.names[2:] == ["b_x_y", "b_z_", "b_x_y_", "b_x_w", "b_z"] and .means.b_x_y < 1 and .means.b_x_y_ > 4'
}

@test "fit.nc: correlated observations" {
  "$ATVI" new lake --like ensemble
  cd lake
  "$ATVI" fit lake.atvi --quiet --out run
  read_nc run
  has "log_likelihood:outflow(chain,draw,time)"
  has "posterior_predictive:outflow(chain,draw,time)"
  grep -aq "each value given all others" run/fit.nc
}

@test "without a netCDF library: a fit goes without, export says what to install" {
  export ATVI_NETCDF=/nowhere/libnetcdf.so
  run -0 --separate-stderr "$ATVI" fit cold.atvi "${quick[@]}" --out run
  # shellcheck disable=SC2154 # bats sets stderr
  [[ "$stderr" != *netCDF* ]]
  [ -e run/draws.csv ]
  [ ! -e run/fit.nc ]
  run -0 --separate-stderr "$ATVI" fit cold.atvi --method map --out told
  [[ "$stderr" == *"fit.nc was not written"*"libnetcdf-dev"* ]]
  run "$ATVI" export run --format nc
  fails_with 1 netCDF "apt-get install libnetcdf-dev"
  "$ATVI" export run --format csv --quiet
}

# A netCDF library that never comes to an end; its process is in the file writer.
endless_netcdf() {
  local name
  {
    printf '#include <stdio.h>\n#include <unistd.h>\n'
    printf 'int nc_create_mem(void) { FILE *f = fopen("writer.new", "w"); fprintf(f, "%%d", (int)getpid()); fclose(f); rename("writer.new", "writer"); for (;;) pause(); }\n'
    for name in def_grp def_dim def_var def_var_deflate put_var_double put_var_longlong put_var_string put_att_text put_att_double \
      put_att_longlong close_memio abort strerror; do
      printf 'int nc_%s(void) { return 0; }\n' $name
    done
  } >endless.c
  cc -shared -fPIC -o endless.so endless.c
  export ATVI_NETCDF=$PWD/endless.so
}
# Dead, whether or not anybody has taken note of it yet: it may be an orphan.
writer_ends() {
  for _ in {1..20}; do
    [[ "$(ps -o stat= -p "$(cat writer)")" =~ ^(Z.*)?$ ]] && return 0
    sleep 0.05
  done
  return 1
}

@test "fit.nc: Ctrl-C ends its process, and the message says how to write it" {
  endless_netcdf
  for signal in INT TERM KILL; do
    rm -rf run writer
    "$ATVI" fit cold.atvi --method map --out run >out.txt 2>err.txt 3>&- &
    local pid=$! code=0
    until [ -e writer ]; do sleep 0.05; done
    kill -$signal $pid
    wait $pid || code=$?
    writer_ends
    [ ! -e run/fit.nc ]
    [ $signal != KILL ] || continue
    [ $code -eq 130 ] || { echo "status $code"; cat err.txt; return 1; }
    grep -q 'run/fit.nc was not written: stopped; atvi export run --format nc writes it' err.txt
    json run/summary.json '.parameters | length > 0'
  done
}

@test "nc after the data were moved, lost or changed" {
  export SOURCE_DATE_EPOCH=1234567890
  "$ATVI" fit cold.atvi "${quick[@]}" --out run
  [ -e run/fit.nc ] || skip "no netCDF library here"
  cp run/fit.nc was.nc
  mv cold.csv elsewhere.csv
  run -0 --separate-stderr "$ATVI" export run --format nc --out again.nc # the folder holds what it takes
  [ -z "$stderr" ]
  cmp again.nc was.nc
  rm -r run/groups run/history.csv # as of a fit by an older version
  run "$ATVI" export run --format nc # what is there has more in it
  fails_with 1 "run/fit.nc already exists" cold.csv "--data" "--force"
  cmp run/fit.nc was.nc
  run -0 --separate-stderr "$ATVI" export run --format nc --force
  says "are left out" "cold.csv" "--data"
  read_nc run
  lacks observed_data
  run -0 --separate-stderr "$ATVI" export run --format nc --data elsewhere.csv
  [ -z "$stderr" ]
  cmp run/fit.nc was.nc
  sed 's/^7,.*/7,1,1/' elsewhere.csv >cold.csv
  run -0 --separate-stderr "$ATVI" export run --format nc --out other.nc
  says "are left out" "have changed since the fit"
}

@test "a fit without netCDF leaves no fit.nc of an earlier one" {
  fit_cold run "${quick[@]}"
  ATVI_NETCDF=none "$ATVI" fit cold.atvi "${quick[@]}" --seed 2 --out run --force
  [ ! -e run/fit.nc ]
}

@test "csv: a table of the draws" {
  fit_cold run
  run -0 "$ATVI" export run --format csv
  [ "$output" = run/draws-table.csv ]
  [ "$(head -n 1 run/draws-table.csv)" = chain__,draw__,lp__,log_lik__,log_prior__,beta,gamma,S0,R0 ]
  # the same text, number by number, as draws.csv
  cmp <(cut -d, -f 3,4,6- run/draws-table.csv) <(grep -v '^#' run/draws.csv | cut -d, -f 1,2,5-)
  "$ATVI" export run --format csv --weighted --out w.csv --quiet
  cmp <(cut -d, -f 6 w.csv) <(grep -v '^#' run/weighted.csv | cut -d, -f 5)
  "$ATVI" export run --format csv --out - | cmp - run/draws-table.csv
  # of a model: its newest run
  "$ATVI" fit cold.atvi "${quick[@]}"
  run -0 "$ATVI" export cold.atvi --format csv
  [ "$output" = cold-001/draws-table.csv ]
}

@test "stan: one file per chain, by a strict reader" {
  find_python json
  "$ATVI" fit cold.atvi "${quick[@]}" --seed 3 --out run
  run -0 "$ATVI" export run --format stan --out chains.csv
  [ "$output" = $'chains_1.csv\nchains_2.csv\nchains_3.csv\nchains_4.csv' ]
  "$PYTHON" "$TOP/tests/python/stan_csv.py" chains_?.csv >read.json
  json read.json '.chains == 4 and .model == "cold" and .seed == "3" and .names == ["lp__", "accept_stat__", "beta", "gamma", "S0", "R0"]'
  jq -n --slurpfile a read.json --slurpfile b run/summary.json \
    '[$b[0].parameters[] | ($a[0].means[.name] - .mean | fabs) < 1e-9 * .mean] | all' | grep -q true
  # one chain: the file as it was named
  fit_cold plain
  run -0 "$ATVI" export plain --format stan
  [ "$output" = plain/stan.csv ]
  "$PYTHON" "$TOP/tests/python/stan_csv.py" plain/stan.csv
}

@test "stan: as rstan reads it" {
  Rscript --vanilla -e 'library(rstan)' >/dev/null 2>&1 || skip "no R with rstan here"
  fit_cold run "${quick[@]}"
  "$ATVI" export run --format stan --quiet
  Rscript --vanilla "$TOP/tests/r/read_stan.R" run/stan_?.csv >read.txt
  grep -q '^chains 4' read.txt
  awk 'NR == FNR { m[$1] = $2; next } ($1 in m) { d = m[$1] - $2; n += d * d < 1e-18 * $2 * $2 } END { exit n != 4 }' \
    read.txt <(jq -r '(.parameters + .derived)[] | "\(.name) \(.mean)"' run/summary.json)
}

@test "json: draws as in posteriordb, and their diagnostics" {
  printf 'param b[i in 1..2] ~ normal(0, 1)\ndata "y.csv"\nobserve y ~ normal(b[1] + b[2], 1)\n' >two.atvi
  printf 'y\n0.3\n0.7\n' >y.csv
  "$ATVI" fit two.atvi "${quick[@]}" --out run
  run -0 "$ATVI" export run --format json
  [ "$output" = $'run/draws.json\nrun/draws.info.json' ]
  json run/draws.json 'length == 4 and ([.[] | keys == ["b[1]", "b[2]"]] | all)'
  jq -n --slurpfile a run/draws.json --slurpfile b run/summary.json \
    '([$a[0][]["b[2]"][]] | add / length) - $b[0].parameters[1].mean | fabs < 1e-9' | grep -q true
  json run/draws.info.json '.inference.method == "ram" and .diagnostics.nchains == 4 and .diagnostics.diagnostic_information.names == ["b[1]", "b[2]"]'
  json run/draws.info.json '(.diagnostics.r_hat | length) == 2 and .checks.nchains_is_gte_4 and .checks.r_hat_below_1_01 != null'
  "$ATVI" fit two.atvi --quiet --out w
  "$ATVI" export w --format json --weighted --out w.json --quiet
  json w.json '([.[0].weight__[]] | add) - 1 | fabs < 1e-9'
  json w.info.json '.diagnostics.pareto_khat < 0.7 and .checks.verdict_is_ok'
}

@test "a file that is there is not written over" {
  fit_cold run "${quick[@]}"
  for format in csv json stan; do
    rm -f ./mine*
    echo precious >mine.$format
    [ $format != stan ] || echo precious >mine.stan_3.csv # the third of four
    run "$ATVI" export run --format $format --out mine.$format
    fails_with 1 "mine.$format" "already exists" "--force"
    [ "$(cat mine.$format)" = precious ]
    not compgen -G 'mine.stan_[124].csv' # nor is any other of several
    "$ATVI" export run --format $format --out mine.$format --force --quiet
  done
  [ "$(wc -l <mine.stan_3.csv)" -gt 100 ]
  echo precious >other.info.json
  run "$ATVI" export run --format json --out other.json
  fails_with 1 other.info.json "already exists"
  [ ! -e other.json ]
  # in its own folder it makes its files anew, and what is no file is no loss
  "$ATVI" export run --format csv --quiet
  "$ATVI" export run --format csv --quiet
  "$ATVI" export run --format csv --out /dev/null
  [ -e run/fit.nc ] || return 0
  echo precious >mine.nc
  run "$ATVI" export run --format nc --out mine.nc
  fails_with 1 mine.nc "already exists"
  "$ATVI" export run --format nc --quiet
}

@test "wrong usage" {
  fit_cold run "${quick[@]}"
  run "$ATVI" export run
  fails_with 2 "--format is missing" nc csv stan json
  run "$ATVI" export run --format xlsx
  fails_with 2 xlsx nc csv stan json
  run "$ATVI" export run --format csv --weighted
  fails_with 2 "no weights"
  run "$ATVI" export run --format stan --weighted
  fails_with 2 weights csv json
  for format in nc netcdf; do
    run "$ATVI" export run --format $format --weighted
    fails_with 2 "fit.nc always contains the weighted draws"
  done
  for format in json stan nc; do
    run "$ATVI" export run --format $format --out -
    fails_with 2 "only csv goes to standard output"
  done
  run "$ATVI" export nowhere --format csv
  fails_with 2 nowhere
  run "$ATVI" export run --format csv --out no/such/file.csv
  fails_with 1 no/such/file.csv
  run "$ATVI" export run --format nc --out no/such/file.nc
  fails_with 1 no/such/file.nc
  mkdir empty
  run "$ATVI" export empty --format csv
  fails_with 1 empty
}
