# SPDX-License-Identifier: MIT
# Sets PYTHON to one that can import the modules named, or skips: the first python3 on PATH may be another than the system's.
find_python() {
  local module one
  for one in python3 /usr/bin/python3; do
    PYTHON=$one
    for module in "$@"; do "$one" -c "import $module" 2>/dev/null || { PYTHON=; break; }; done
    [ -z "$PYTHON" ] || return 0
  done
  skip "no python3 here has: $*"
}
