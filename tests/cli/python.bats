#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# python/atvi: each test is a case of tests/python/test_module.py.
load common
load python

case_() {
  find_python numpy
  [ -e "$(dirname "$ATVI")/libatvi.so" ] || skip "no libatvi.so beside atvi"
  PYTHONPATH=$TOP/python PYTHONDONTWRITEBYTECODE=1 ATVI=$ATVI "$PYTHON" "$TOP/tests/python/test_module.py" "$1"
}

@test "a log density and its gradient, by every method" { case_ density; }
@test "bounds, open and closed" { case_ bounds; }
@test "the same seed gives the same draws on one and two threads" { case_ same; }
@test "elements of arrays are one array" { case_ arrays; }
@test "exceptions and mistakes" { case_ errors; }
@test "answers of a wrong shape are reported, not spread over all points" { case_ shapes; }
@test "a wrong gradient is reported, in words of Python" { case_ gradient; }
@test "messages and failures have advice in words of Python" { case_ advice; }
@test "Ctrl-C ends a fit, in the library too" { case_ interrupts; }
@test "the program is told of Ctrl-C once" { case_ told; }
@test "fits of model files, and folders" { case_ program; }
@test "options of the program" { case_ words; }
@test "program and library are found" { case_ found; }

@test "data frames, xarray and ArviZ" {
  find_python numpy pandas xarray
  PYTHONPATH=$TOP/python PYTHONDONTWRITEBYTECODE=1 ATVI=$ATVI "$PYTHON" "$TOP/tests/python/test_module.py" frames
}

# venv NAME true|false: NAME becomes an environment that sees the system's packages, or not. That is one line of a file: it is made once.
venv() {
  local made=$BATS_FILE_TMPDIR/venv
  [ -e "$made" ] || "$PYTHON" -m venv "$made"
  sed -i "s/^\(include-system-site-packages = \).*/\1$2/" "$made/pyvenv.cfg"
  ln -s "$made" "$1"
}

@test "pip installs it without a network, and it says that it needs numpy" {
  has_python numpy ensurepip || find_python ensurepip
  venv bare false
  cp -r "$TOP/python" "$TOP/include" .
  export PIP_NO_INDEX=1 PIP_DISABLE_PIP_VERSION_CHECK=1
  run -0 bare/bin/pip install ./python
  grep -q "Successfully installed atvi-$("$TOP/tools/version")\$" <<<"$output"
  rm -r python
  [ -e bare/lib/python3*/site-packages/atvi/py.typed ]
  run ! bare/bin/python -c 'import atvi'
  grep -q 'ImportError: atvi needs numpy.*pip install numpy' <<<"$output"
  run -0 bare/bin/pip uninstall -y atvi
  run ! bare/bin/python -c 'import atvi'
}

@test "what pip has installed works" {
  find_python numpy ensurepip
  export PIP_NO_INDEX=1 PIP_DISABLE_PIP_VERSION_CHECK=1
  venv full true
  run -0 full/bin/pip install "$TOP/python"
  (cd / && ATVI=$ATVI "$BATS_FILE_TMPDIR/venv/bin/python" -c 'import atvi; assert "/venv/" in atvi.__file__; print(atvi.fit_density(lambda x: (-x[0] ** 2, -2 * x), ["a"], -9, 9, method="map"))')
}

@test "the examples of docs/formats.md run" {
  find_python numpy xarray netCDF4
  [ -e "$(dirname "$ATVI")/libatvi.so" ] || skip "no libatvi.so beside atvi"
  "$ATVI" fit cold.atvi --quiet
  awk '/^```/ { inside = $0 == "```python"; next } inside' "$TOP/docs/formats.md" >guide.py
  [ "$(wc -l <guide.py)" -gt 20 ]
  PYTHONPATH=$TOP/python PYTHONDONTWRITEBYTECODE=1 ATVI=$ATVI "$PYTHON" guide.py >said.txt
  grep -q '^ok 0.887' said.txt
}
