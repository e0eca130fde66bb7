#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check_names.py BUILD

A folder is a module is a prefix: whatever a file of src/MODULE/ exports is called atvi_MODULE or atvi_MODULE_something. Exempt are the
names that the public headers declare, wherever they are implemented, and those of src/core/, the vocabulary of all modules.
Copies of one function for several instruction sets differ in their endings alone.
"""
import pathlib
import re
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent


def strangers(module, names, public):
    """The names that module should not export."""
    if module == "core":
        return []
    return [n for n in names if n not in public and n != f"atvi_{module}" and not n.startswith(f"atvi_{module}_")]


def exported(paths):
    """Path -> names, in one call."""
    lines = subprocess.run(["nm", "-A", "-g", "--defined-only", *paths], capture_output=True, text=True, check=True).stdout.splitlines()
    found = {path: set() for path in paths}
    for place, _kind, name in (line.split() for line in lines):
        if name.startswith("atvi_"):
            found[pathlib.Path(place.rsplit(":", 1)[0])].add(name)
    return found


def main():
    build = pathlib.Path(sys.argv[1])
    public = set()
    for header in (TOP / "include" / "atvi").glob("*.h"):
        public |= set(re.findall(r"\batvi_\w+", header.read_text()))
    # The check must be able to fail.
    assert strangers("gp", ["atvi_gp_new", "atvi_gpx", "atvi_fit"], {"atvi_fit"}) == ["atvi_gpx"], "the check itself is broken"
    objects = sorted(build.glob("CMakeFiles/m_*.dir/src/**/*.o"))
    if not objects:
        sys.exit(f"names: {build} has no object files of the library")
    wrong = 0
    for path, names in exported(objects).items():
        module = path.relative_to(build).parts[3]
        for name in strangers(module, sorted(names), public):
            print(f"{'/'.join(path.relative_to(build).parts[2:])[:-2]}: {name} should begin with atvi_{module}_")
            wrong = 1
    sys.exit(wrong)


if __name__ == "__main__":
    main()
