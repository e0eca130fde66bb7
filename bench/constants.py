#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What every number with a name in src/infer decides: fits with each halved and doubled, against exact answers.

constants.py [--targets NAME[,NAME]] [--dir DIR] [NAME | FILE:NAME] ...        all that tools/constants.py lists by default

Each is changed in a copy of the tree, in DIR (default build/constants), where the program is built and fits targets of bench/trust with one seed. A share of
a half or more is doubled in what it leaves: 0.7 becomes 0.85. Columns, halved / doubled, next to those of the tree as it is:

  differ    fits whose results differ at all
  wrong     answers that are wrong (docs/trust.md)
  runs      model runs, geometric mean over fits, as a share of those before

"-": no fit differs. "x": it is 1, or sizes depend on each other and nothing is built. All constants take hours; a name takes minutes.
build/bench/sensitivity measures the table of vi_tuning.h alone, on smaller problems and without building.
"""
import argparse
import importlib.util
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent
# Each by the default method, or by the one behind the colon: weights, units, chains, modes, mirrors, bounds, bends, a stand-in.
TARGETS = "banana,label2,doses,funnel,far_mode5,schools,grid25,hier_logit,epidemic23,corner,banana:ram,schools:nuts,banana:map"


def tool(name):
    spec = importlib.util.spec_from_file_location(name, TOP / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def changed(value, what, twice):
    v = float(value)
    whole = "." not in value and "e" not in value.lower()
    if whole:
        return str(2 * int(value) if twice else max(int(value) // 2, 1))
    share = 0.5 <= v < 1 and what.startswith("of ")
    return repr((1 + v) / 2 if twice and share else 2 * v if twice else v / 2)


def build(tree):
    made = subprocess.run(["ninja", "-C", str(tree / "build"), "atvi"], capture_output=True, text=True)
    return made.returncode == 0


def fits(trust, args, answers, tree):
    """What each target gives with the program of the tree; CPU times left out."""
    args.atvi, out = str(tree / "build" / "atvi"), {}
    for t in args.targets.split(","):
        name, _, method = t.partition(":")
        answer = dict(answers[name], options=["--method", method] if method else [])
        r = trust.fit(name, 1, answer, args, args.dir / "result.json")
        r.pop("cpu", None)
        out[t] = (r, len(trust.judge(r, answer)[0]) > 0)
    return out


def cell(now, base):
    """[differ, wrong, runs] of fits, as text."""
    n = sum(now[t][0] != base[t][0] for t in now)
    if n == 0:
        return ["-"] * 3
    logs = [math.log(now[t][0]["evaluations"] / base[t][0]["evaluations"]) for t in now if now[t][0].get("evaluations") and base[t][0].get("evaluations")]
    return [str(n), str(sum(w for _, w in now.values())), f"{math.exp(sum(logs) / max(len(logs), 1)):.2f}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", default=TARGETS)
    parser.add_argument("--dir", type=pathlib.Path, default=TOP / "build" / "constants")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    args.limit, args.keep = 600.0, False
    trust, constants = tool("trust"), tool("constants")
    answers, tree = json.loads((TOP / "bench" / "trust" / "answers.json").read_text()), args.dir / "tree"
    for part in ("src", "include", "cli", "bench", "tests", "python", "docs", "examples", "cmake"):
        if (TOP / part).is_dir():
            shutil.copytree(TOP / part, tree / part, dirs_exist_ok=True)
    for f in list(TOP.glob("*.*")) + [TOP / "tools"]:
        (shutil.copytree if f.is_dir() else shutil.copy2)(f, tree / f.name, **({"dirs_exist_ok": True} if f.is_dir() else {}))
    subprocess.run(["cmake", "-S", str(tree), "-B", str(tree / "build"), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"], check=True, stdout=subprocess.DEVNULL)
    if not build(tree):
        sys.exit(f"{tree}: does not build")
    base = fits(trust, args, answers, tree)
    print(f"As it is: {sum(w for _, w in base.values())} of {len(base)} wrong.\n")
    print("| constant | value | meaning | differ | wrong | runs |\n|---|---|---|---|---|---|", flush=True)
    for f in sorted((TOP / "src" / "infer").glob("*.[ch]")):
        for name, value, what in constants.constants(f):
            if args.names and name not in args.names and f"{f.name}:{name}" not in args.names:
                continue
            path, text, cells = tree / "src" / "infer" / f.name, f.read_text(), []
            for twice in (False, True):
                new = re.sub(rf"(\b{name}\b(?:\s*=\s*|, *|[ \\\n]+)){re.escape(value)}(?![\w.])", rf"\g<1>{changed(value, what, twice)}", text, count=1)
                path.write_text(new)
                cells.append(cell(fits(trust, args, answers, tree), base) if new != text and build(tree) else ["x"] * 3)
            path.write_text(text)
            print(f"| `{f.name}:{name}` | {value} | {what} | " + " | ".join(f"{a} / {b}" for a, b in zip(*cells)) + " |", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("LC_ALL", "C")
    main()
