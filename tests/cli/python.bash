# SPDX-License-Identifier: MIT
# Sets PYTHON to one that has the modules named, or skips: the first python3 on PATH may be another than the system's. They are looked up, not
# imported, which takes a second for xarray.
find_python() { has_python "$@" || skip "no python3 here has: $*"; }
has_python() {
  local has='import importlib.util, sys; sys.exit(not all(map(importlib.util.find_spec, sys.argv[1:])))'
  for PYTHON in python3 /usr/bin/python3; do
    "$PYTHON" -c "$has" "$@" 2>/dev/null && return 0
  done
  return 1
}
