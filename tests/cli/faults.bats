#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A world that fails: files that cannot be written, processes that die, limits that are reached.
load common

# Kilobytes of a file.
kb() { echo $(($(stat -c %s "$1") / 1024)); }

@test "fit --force: a fit that was cut off while it wrote is not taken for one" {
  "$ATVI" fit cold.atvi --out run --quiet
  cp -r run before
  "$ATVI" fit cold.atvi --seed 2 --out same --quiet
  # draws.csv may be written, weighted.csv may not
  run -1 bash -c "ulimit -f $((($(kb same/draws.csv) + $(kb same/weighted.csv)) / 2)); '$ATVI' fit cold.atvi --seed 2 --out run --force --quiet"
  says "cannot write run/weighted.csv: File too large"
  not cmp -s run/draws.csv before/draws.csv
  [ ! -e run/fit.json ]
  for command in "summary run" "export run --format csv" "predict run" "report run" "compare run before"; do
    # shellcheck disable=SC2086
    run "$ATVI" $command
    [ "$status" -ne 0 ]
    says "no fit.json"
  done
  "$ATVI" fit cold.atvi --out run --force --quiet
  "$ATVI" summary run
}

@test "fit --force: where not even the draws can be written, the earlier fit stays" {
  "$ATVI" fit cold.atvi --out run --quiet
  cp -r run before
  run -1 bash -c "ulimit -f 100; '$ATVI' fit cold.atvi --seed 2 --out run --force --quiet"
  says "cannot write run/draws.csv: File too large"
  "$ATVI" summary run >now
  "$ATVI" summary before >then
  cmp now then
  run -0 ls -A run
  [[ "$output" != *.tmp* ]]
}

@test "fit: a file of the results that cannot be written changes the status" {
  mkdir -p run/report.html
  run -1 --separate-stderr "$ATVI" fit cold.atvi --out run --force --quiet
  says "the report could not be written"
  [ -e run/fit.json ]
  rmdir run/report.html
  run -0 "$ATVI" fit cold.atvi --out run --force --quiet
  run -0 "$ATVI" fit --help
  says "a file of the results could not be written"
}

@test "fit: a netCDF library that crashes ends neither the fit nor its report" {
  command -v cc >/dev/null || skip "no C compiler here"
  for name in nc_def_grp nc_def_dim nc_def_var nc_def_var_deflate nc_put_var_double nc_put_var_longlong nc_put_var_string \
    nc_put_att_text nc_put_att_double nc_put_att_longlong nc_close_memio nc_abort nc_strerror; do
    echo "int $name(void) { return 0; }"
  done >nc.c
  printf '#include <stdlib.h>\nint nc_create_mem(void) { abort(); }\n' >>nc.c
  cc -shared -fPIC -o nc.so nc.c
  ATVI_NETCDF=$PWD/nc.so run -1 --separate-stderr "$ATVI" fit cold.atvi --out run --quiet
  says "run/fit.nc was not written: the netCDF library ended its process with signal 6"
  [ -s run/report.html ]
  [ -s run/fit.json ]
  ATVI_NETCDF=$PWD/nc.so run -1 "$ATVI" export run --format nc
  says "signal 6"
}
