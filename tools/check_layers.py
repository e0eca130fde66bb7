#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A file may include its own module and lower rows, never a higher or a sibling one.

check_layers.py [TOP]        checks src/, cli/ and include/ under TOP (default: the repository)
check_layers.py --self-test  proves on made-up trees that each rule can fail
"""
import pathlib
import re
import sys
import tempfile

ROWS = [
    ["core"],
    ["math", "draws", "io", "graph"],
    ["lang", "ode", "gp", "sim", "transform", "flow"],
    ["model"],
    ["infer", "diag", "mpi"],
    ["report"],
    ["app"],
    ["cli"],
]
ROW = {module: row for row, modules in enumerate(ROWS) for module in modules}
SIBLINGS = {("draws", "math"), ("io", "draws"), ("graph", "math")}
# Public headers belong to the module of their name, except these.
PUBLIC = {"target": "model", "fit": "infer", "bind": "infer", "verdict": "diag", "atvi": "report"}
# Outside libraries that only one file may see.
ONLY = {
    "cblas.h": "src/math/blas.c",
    "lapacke.h": "src/math/blas.c",
    "netcdf.h": "src/io/netcdf.c",
    "mpi.h": "src/mpi/ranks.c",
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')


def module_of(path):
    """Module of a path relative to the top, or None."""
    parts = path.parts
    if parts[0] == "src" and len(parts) > 2:
        return parts[1]
    if parts[:2] == ("include", "atvi"):
        return PUBLIC.get(path.stem, path.stem)
    return "cli" if parts[0] == "cli" else None


def resolve(top, file, name):
    """Path of #include "name" relative to the top, or None."""
    for folder in (file.parent, top / "src", top / "include", top / "cli"):
        found = (folder / name).resolve()
        if found.is_file() and found.is_relative_to(top):
            return found.relative_to(top)
    return None


def check_file(top, file, used):
    """Complaints about one file; adds the exceptions that it needs to `used`."""
    here = file.relative_to(top)
    module = module_of(here)
    if module not in ROW:
        return [f"{here}: '{module}' has no row; give it one in tools/check_layers.py"]
    wrong = []
    for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        quote, name = match.groups()
        where = f"{here}:{number}"
        if ONLY.get(name, str(here)) != str(here):
            wrong.append(f"{where}: only {ONLY[name]} may include {name}")
        if quote == "<":
            continue
        target = resolve(top, file, name)
        if target is None:
            wrong.append(f'{where}: "{name}" is not a file of this project')
            continue
        other = module_of(target)
        if other == module:
            continue
        if (module, other) in SIBLINGS:
            used.add((module, other))
            continue
        if other not in ROW or ROW[other] >= ROW[module]:
            kind = "sibling" if ROW.get(other) == ROW[module] else "higher"
            wrong.append(f"{where}: {module} may not include {name} of the {kind} module {other}")
    return wrong


def check(top):
    files = [f for d in ("src", "include", "cli") for f in (top / d).rglob("*.[ch]")]
    used = set()
    return len(files), [w for f in sorted(files) for w in check_file(top, f, used)], SIBLINGS - used


def self_test():
    """(what is written, how many complaints it must give)"""
    base = {"include/atvi/core.h": "", "include/atvi/target.h": '#include "atvi/core.h"', "src/core/core.h": "",
            "src/math/rng.h": "", "src/draws/draws.h": "", "src/io/csv.h": "", "src/infer/chains.h": "",
            "src/diag/summary.h": "", "src/app/app.h": ""}
    cases = [
        ({"src/math/a.c": '#include "rng.h"\n#include "core/core.h"\n#include <math.h>'}, 0),
        ({"src/draws/a.c": '#include "math/rng.h"'}, 0),
        ({"src/infer/a.c": '#include "atvi/target.h"'}, 0),
        ({"cli/a.c": '#include "app/app.h"\n#include "math/rng.h"'}, 0),
        ({"src/math/a.c": '#include "draws/draws.h"'}, 1),
        ({"src/draws/a.c": '#include "io/csv.h"'}, 1),
        ({"src/infer/a.c": '#include "diag/summary.h"'}, 1),
        ({"src/diag/a.c": '  #  include "../infer/chains.h"'}, 1),
        ({"src/core/a.c": '#include "app/app.h"\n#include "math/rng.h"'}, 2),
        ({"src/lang/a.c": '#include "atvi/target.h"'}, 1),
        ({"src/lang/a.c": '#include "nowhere.h"'}, 1),
        ({"src/gp/a.c": "#include <cblas.h>"}, 1),
        ({"src/newthing/a.c": ""}, 1),
        ({"include/atvi/core.h": '#include "atvi/target.h"'}, 1),
    ]
    failed = 0
    for extra, want in cases:
        with tempfile.TemporaryDirectory() as folder:
            top = pathlib.Path(folder).resolve()
            for name, text in {**base, **extra}.items():
                (top / name).parent.mkdir(parents=True, exist_ok=True)
                (top / name).write_text(text + "\n")
            _, wrong, _ = check(top)
        if len(wrong) != want:
            failed += 1
            print(f"self-test: {extra} gives {wrong}, want {want} complaints")
    return failed


def main(args):
    if args == ["--self-test"]:
        return 1 if self_test() else 0
    top = pathlib.Path(args[0] if args else pathlib.Path(__file__).parent.parent).resolve()
    count, wrong, unused = check(top)
    wrong += [f"tools/check_layers.py: nothing in {a} includes {b}; drop the exception" for a, b in sorted(unused)]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    print(f"layers: {count} files, {len(wrong)} wrong includes")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
