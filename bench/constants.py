#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What every number with a name in src/infer decides: fits with each halved and doubled, against exact answers.

constants.py [--targets NAME[,NAME]] [--most N] [--cpu SECONDS] [--seed SEED] [--dir DIR] [--reads] [NAME | FILE:NAME] ...      all by default

The program is built once, in DIR (default build/constants), from a copy of the tree in which constants are read from the environment. It notes which of
them a fit reads: one that a fit does not read cannot change it, so each is measured on N targets of bench/trust (default 4) that read it: evenly among those that take
at most SECONDS of CPU each (default 1.2), and where these are too few the cheapest. A share of a half or more is doubled in what it leaves: 0.7 becomes 0.85. Columns, halved / doubled:

  fits      targets it was measured on, of how many that read it
  differ    fits whose results differ at all
  wrong     answers that are wrong (docs/trust.md), and of the constants as they are
  runs      model runs, geometric mean over fits, as a share of those before

"-": no fit differs. "x": it is the size of an array, which the compiler must know. --reads prints what is read by how many targets, and stops.
build/bench/sensitivity measures the table of vi_tuning.h alone, on smaller problems.
"""
import argparse
import hashlib
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
# Each by the default method, or by the one behind the colon.
OTHERS = ("banana:ram", "schools:nuts", "banana:map", "grid25:ram", "regression20:nuts")

HEAD = """#pragma once
extern double atvi_measured[];
extern unsigned char atvi_measured_read[];
#define ATVI_MEASURED(k) (atvi_measured_read[k] = 1, atvi_measured[k])
"""
BODY = """#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
double atvi_measured[] = {%s};
static const char *const name[] = {%s};
enum { N = sizeof name / sizeof *name };
unsigned char atvi_measured_read[N];
__attribute__((constructor)) static void begin(void) {
  const char *e = getenv("ATVI_MEASURED");
  for (int k = 0; e && k < N; k++) {
    size_t n = strlen(name[k]);
    if (!strncmp(e, name[k], n) && e[n] == '=') atvi_measured[k] = strtod(e + n + 1, NULL);
  }
}
__attribute__((destructor)) static void end(void) {
  const char *e = getenv("ATVI_MEASURED_READ");
  FILE *f = e ? fopen(e, "a") : NULL;
  for (int k = 0; f && k < N; k++)
    if (atvi_measured_read[k]) fprintf(f, "%%s\\n", name[k]);
  if (f) fclose(f);
}
"""


def tool(name):
    spec = importlib.util.spec_from_file_location(name, TOP / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def changed(value, what, twice):
    v = float(value)
    if "." not in value and "e" not in value.lower() and v == int(v):
        return str(2 * int(v) if twice else max(int(v) // 2, 1))
    share = 0.5 <= v < 1 and what.startswith("of ")
    return repr((1 + v) / 2 if twice and share else 2 * v if twice else v / 2)


def whole(value):
    return "." not in value and "e" not in value.lower()


class Build:
    """A copy of the tree whose constants are variables."""

    def __init__(self, args):
        self.tree, self.constants = args.dir / "tree", tool("constants")
        self.text = {}
        for part in ("src", "include", "cli", "bench", "tests", "python", "docs", "examples", "cmake", "tools", "."):
            for f in (TOP / part).rglob("*") if part != "." else TOP.glob("*.*"):
                if f.is_file() and "__pycache__" not in f.parts and f.parent != TOP / "src" / "infer":
                    self.put(self.tree / f.relative_to(TOP), f.read_bytes())
        # (file, name, value, meaning), in the order of the array.
        self.rows = [(f, *c) for f in sorted((TOP / "src" / "infer").glob("*.[ch]")) for c in self.constants.constants(f)]
        # Those of headers that are array sizes or make other constants are known before the compiler says so; it finds those of single files.
        bare = "\n".join(self.constants.COMMENT.sub("", f.read_text()) for f in (TOP / "src").glob("*/*.[ch]"))
        named = "\n".join(re.findall(r"\[[^\]]*[A-Z][^\]]*\]|=[^,;=]*(?=,\n)|case \w+|^#if .*", bare, re.M))
        self.sizes = {i for i, r in enumerate(self.rows) if r[0].suffix == ".h" and r[1].isupper() and re.search(rf"\b{r[1]}\b", named)}
        launcher = ["-DCMAKE_C_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        command = ["cmake", "-S", self.tree, "-B", self.tree / "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DATVI_WERROR=OFF", *launcher]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        known = args.dir / "sizes.json"
        self.sizes |= {i for i, r in enumerate(self.rows) if known.exists() and f"{r[0].name}:{r[1]}" in json.loads(known.read_text())}
        while True:
            self.text = {f.name: f.read_text() for f in (TOP / "src" / "infer").glob("*.[ch]")}
            for f in {r[0] for r in self.rows}:
                self.write(f)
            self.text["measured.h"] = HEAD
            self.text["measured.c"] = BODY % (", ".join(r[2] for r in self.rows), ", ".join(f'"{r[0].name}:{r[1]}"' for r in self.rows))
            self.put_lines = {}
            for name, text in self.text.items():
                used = "ATVI_MEASURED" in text or "atvi_measured" in text
                text = ('#include "infer/measured.h"\n' if used and "measured" not in name else "") + text
                self.put(self.tree / "src" / "infer" / name, text.encode())
                self.put_lines[name] = text.splitlines()
            made = subprocess.run(["ninja", "-k", "0", "-C", str(self.tree / "build"), "atvi"], capture_output=True, text=True)
            if made.returncode == 0:
                known.write_text(json.dumps(sorted(f"{self.rows[i][0].name}:{self.rows[i][1]}" for i in self.sizes)))
                return
            # Every constant in a line with an error, of that file or of a header.
            where = re.findall(r"(\w+\.[ch]):(\d+):\d+: error: ", made.stdout)
            quoted = [(name, self.put_lines[name][int(line) - 1]) for name, line in where if name in self.put_lines]
            for name, other in re.findall(r"(\w+\.[ch]):\d+:\d+: error: enumerator value for .(\w+). is not", made.stdout):
                quoted += [(name, line) for line in re.findall(rf"\b{other}\s*=[^,}}]*", bare)]
            bad = {i for i, r in enumerate(self.rows) if r[1].isupper() and any(re.search(rf"\b{r[1]}\b", line) and r[0].name in (name, r[0].stem + ".h")
                                                                                for name, line in quoted)} - self.sizes
            if not bad:
                sys.exit(made.stdout[-3000:])
            self.sizes |= bad

    @staticmethod
    def put(path, content):
        """Writes what differs alone, so that little is built again."""
        if not path.exists() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def write(self, f):
        text, out = self.text[f.name], []
        mine = [(i, r) for i, r in enumerate(self.rows) if r[0] == f and i not in self.sizes]
        for i, (_, name, value, _) in mine:
            number = re.escape(value)
            kind = "(int)" if whole(value) else ""
            macro = f"({kind}ATVI_MEASURED({i}))"
            if re.search(rf"\bX\({name}, *{number},", text):
                out.append((name, i))
                continue
            new = re.sub(rf"^(#define {name})\b([ \\]*\n? *){number}(?![\w.])", rf"\1 {macro}", text, count=1, flags=re.M)
            if new == text:
                # In an enumeration or a static const: it gets another name there, and the macro stands behind.
                m = re.search(rf"\b{name}\b(?=\s*=\s*{number}(?![\w.]))", text)
                end = text.index(";", m.end()) + 1
                line = text.index("\n", end)
                new = text[:m.start()] + name + "_as_it_was" + text[m.end():line + 1] + f"#define {name} {macro}\n" + text[line + 1:]
            text = new
        self.text[f.name] = text
        if out:
            self.tunables(dict(out))

    def tunables(self, index):
        """The table is static data; its values are replaced where it is read, and reads of its fields are noted."""
        for name, text in self.text.items():
            new = re.sub(r"((?:h->)?\bv->tuning\.|\bt->)(\w+)\b(?!\s*\()",
                         lambda m: f"(atvi_measured_read[{index[m[2]]}] = 1, {m[0]})" if m[2] in index else m[0], text)
            values = ", ".join(f".{n} = atvi_measured[{k}]" for n, k in index.items())
            # rows whose value is another constant keep it
            self.text[name] = new.replace("{ATVI_VI_TUNABLES(VALUE)}", f"{{ATVI_VI_TUNABLES(VALUE) {values}}}")


def fit(trust, args, answers, target, change=""):
    """(result without CPU time, seconds, wrong, constants read), kept on disk: the same program, change and seed are not fitted again."""
    key = hashlib.sha256("|".join((args.digest, target, str(args.seed), change)).encode()).hexdigest()[:20]
    path, read = args.dir / "fits" / f"{key}.json", args.dir / "read.txt"
    if not path.exists():
        name, _, method = target.partition(":")
        answer = dict(answers[name])
        if method:
            answer["options"] = ["--method", method]
        read.unlink(missing_ok=True)
        os.environ.update(ATVI_MEASURED=change, ATVI_MEASURED_READ=str(read))
        r = trust.fit(name, args.seed, answer, args, args.dir / "result.json")
        cpu = r.pop("cpu", 0.0)
        names = sorted(set(read.read_text().split())) if read.exists() else []
        path.write_text(json.dumps([r, cpu, len(trust.judge(r, answer)[0]) > 0, names]))
    return json.loads(path.read_text())


def cell(now, base):
    """[differ, wrong, runs] of fits, as text."""
    n = sum(a[0] != b[0] for a, b in zip(now, base))
    if n == 0:
        return ["-"] * 3
    logs = [math.log(a[0]["evaluations"] / b[0]["evaluations"]) for a, b in zip(now, base) if a[0].get("evaluations") and b[0].get("evaluations")]
    return [str(n), f"{sum(a[2] for a in now)} ({sum(b[2] for b in base)})", f"{math.exp(sum(logs) / max(len(logs), 1)):.2f}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets")
    parser.add_argument("--most", type=int, default=4)
    parser.add_argument("--cpu", type=float, default=1.2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--reads", action="store_true")
    parser.add_argument("--dir", type=pathlib.Path, default=TOP / "build" / "constants")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    args.limit, args.keep = 60.0, False
    known = {n for f in (TOP / "src" / "infer").glob("*.[ch]") for c in tool("constants").constants(f) for n in (c[0], f"{f.name}:{c[0]}")}
    if set(args.names) - known:
        parser.error(f"no constant is called {', '.join(sorted(set(args.names) - known))}; tools/constants.py --table has their names")
    args.dir = args.dir.resolve()
    (args.dir / "fits").mkdir(parents=True, exist_ok=True)
    trust, answers = tool("trust"), json.loads((TOP / "bench" / "trust" / "answers.json").read_text())
    build = Build(args)
    args.atvi = str(build.tree / "build" / "atvi")
    args.digest = trust.digest(args.atvi)
    targets = args.targets.split(",") if args.targets else [*answers, *OTHERS]
    base = {t: fit(trust, args, answers, t) for t in targets}
    print(f"As it is: {sum(b[2] for b in base.values())} of {len(base)} wrong; sizes of arrays: {len(build.sizes)} of {len(build.rows)} constants.\n")
    print("| constant | value | meaning | fits | differ | wrong | runs |\n|---|---|---|---|---|---|---|", flush=True)
    for i, (f, name, value, what) in enumerate(build.rows):
        full = f"{f.name}:{name}"
        if args.names and name not in args.names and full not in args.names:
            continue
        readers = sorted((t for t in targets if full in base[t][3]), key=lambda t: base[t][1])
        cheap = [t for t in readers if base[t][1] <= args.cpu]
        cheap = cheap if len(cheap) >= args.most else [t for t in readers if base[t][1] <= 6 * args.cpu][:args.most]
        used = [cheap[k * len(cheap) // args.most] for k in range(args.most)] if len(cheap) > args.most else cheap
        if i in build.sizes or args.reads or not used:
            word = "x" if i in build.sizes else "not read" if not readers else f"{len(used)} of {len(readers)}"
            print(f"| `{full}` | {value} | {what} | {word} | | | |", flush=True)
            continue
        cells = [cell([fit(trust, args, answers, t, f"{full}={changed(value, what, twice)}") for t in used], [base[t] for t in used]) for twice in (False, True)]
        print(f"| `{full}` | {value} | {what} | {len(used)} of {len(readers)} | " + " | ".join(f"{a} / {b}" for a, b in zip(*cells)) + " |", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("LC_ALL", "C")
    main()
