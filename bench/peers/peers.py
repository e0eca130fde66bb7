#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The same models and data with atvi and with Stan: effective draws of the worst parameter per CPU second.

    bench/peers/peers.py [--build build] [--seeds 3] [--out FOLDER] [NAME ...]

Needs rstan (Debian: r-cran-rstan) and a build of atvi and cost (ninja -C build atvi cost); says so and ends where rstan is
missing. Both run with their defaults: atvi as it comes, Stan with four chains of 1000 draws after 1000 of warmup. Effective draws are
bulk ESS. CPU seconds, so that a busy machine matters little; medians over the seeds. Writes models, data and results into FOLDER (default:
a temporary one; what is there already is not run again), prints a table in Markdown. Some ten minutes.
"""
import argparse
import csv
import json
import math
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent
TOLERANCE = 1e-4  # relative tolerance of both solvers: atvi's default, and looser than Stan's of 1e-6


def hierarchy(groups):
    def make(folder):
        rng = random.Random(groups)
        spread = [0.5 + rng.random() for _ in range(groups)]
        value = [rng.gauss(rng.gauss(1, 0.8), s) for s in spread]
        rows = [(i + 1, round(y, 4), round(s, 4)) for i, (y, s) in enumerate(zip(value, spread))]
        table(folder / "hierarchy.csv", ("group", "y", "s"), rows)
        text = (HERE / "hierarchy.atvi").read_text()
        (folder / "model.atvi").write_text(text.replace("1..100", f"1..{groups}"))
        return {"n": groups, "y": [r[1] for r in rows], "s": [r[2] for r in rows]}
    return make


def items(folder):
    rng = random.Random(40)
    theta = [rng.gauss(0, 1) for _ in range(40)]
    b = [rng.gauss(0.4, 1.2) for _ in range(100)]
    rows = [(p + 1, i + 1, int(rng.random() < 1 / (1 + math.exp(b[i] - theta[p])))) for p in range(40) for i in range(100)]
    table(folder / "items.csv", ("person", "item", "y"), rows)
    shutil.copy(HERE / "items.atvi", folder / "model.atvi")
    person, item, y = (list(c) for c in zip(*rows))
    return {"n": len(rows), "people": 40, "items": 100, "person": person, "item": item, "y": y}


def predators(folder):
    rng = random.Random(20)
    u, v, h, rows = 33.0, 6.0, 1e-3, []
    for step in range(1, 20001):  # Euler's midpoint rule
        um = u + h / 2 * (0.55 - 0.028 * v) * u
        vm = v + h / 2 * (0.024 * u - 0.8) * v
        u, v = u + h * (0.55 - 0.028 * vm) * um, v + h * (0.024 * um - 0.8) * vm
        if step % 1000 == 0:
            rows.append((step // 1000, round(u * math.exp(rng.gauss(0, 0.25)), 2), round(v * math.exp(rng.gauss(0, 0.25)), 2)))
    table(folder / "predators.csv", ("year", "prey", "pred"), rows)
    shutil.copy(HERE / "predators.atvi", folder / "model.atvi")
    year, prey, pred = (list(c) for c in zip(*rows))
    return {"n": len(rows), "year": year, "prey": prey, "pred": pred, "tol": TOLERANCE}


def cold(folder):
    shutil.copy(TOP / "examples/cold/cold.csv", folder)
    shutil.copy(TOP / "examples/cold/cold.atvi", folder / "model.atvi")
    with open(folder / "cold.csv") as f:
        rows = [r for r in csv.DictReader(f) if r["day"] != "0"]  # at the start nothing depends on a parameter
    columns = {k: [int(r[k]) for r in rows] for k in ("day", "infected", "recovered")}
    return {"n": len(rows), **columns, "tol": TOLERANCE}


# name: what makes it, Stan program, title
PROBLEMS = {
    "hierarchy100": (hierarchy(100), "hierarchy", "hierarchy, 100 groups"),
    "hierarchy1000": (hierarchy(1000), "hierarchy", "hierarchy, 1 000 groups"),
    "items": (items, "items", "item response, 100 items, 40 people"),
    "predators": (predators, "predators", "Lotka-Volterra, 8 parameters"),
    "cold": (cold, "cold", "common cold, 3 parameters"),
}


def table(path, head, rows):
    with open(path, "w", newline="") as f:
        w = csv.writer(f, lineterminator="\n")
        w.writerow(head)
        w.writerows(rows)


def write_r(path, data):
    with open(path, "w") as f:
        for name, value in data.items():
            text = f"c({', '.join(map(str, value))})" if isinstance(value, list) else str(value)
            f.write(f"{name} <- {text}\n")


def run(command, log):
    """Output and CPU seconds of a command."""
    before = os.times()
    with open(log, "w") as err:
        done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=err, text=True)
    after = os.times()
    if done.returncode != 0:
        sys.exit(f"peers: {' '.join(map(str, command))}: exit {done.returncode}, see {log}")
    return done.stdout, after.children_user + after.children_system - before.children_user - before.children_system


def fit_atvi(folder, seed, build):
    out = folder / f"atvi-{seed}"
    _, whole = run([build / "atvi", "fit", folder / "model.atvi", "--seed", seed, "--quiet", "--force", "--out", out], folder / "atvi.log")
    text, _ = run([build / "bench/cost", "fit", folder / "model.atvi", seed], folder / "atvi.log")
    summary = json.loads((out / "summary.json").read_text())
    rows = {p["name"]: (p["mean"], p["sd"], p["ess_bulk"], p["ess_bulk"]) for p in summary["parameters"]}
    return {"rows": rows, "whole": whole, "fit": float(text.split()[1]), "note": summary["verdict"]}


def fit_stan(folder, seed, model):
    out = folder / f"stan-{seed}.csv"
    text, whole = run(["Rscript", HERE / "stan.R", "sample", model, folder / "data.R", seed, out], folder / f"stan-{seed}.log")
    with open(out) as f:
        read = list(csv.DictReader(f))
    rows = {re.sub(r"\[(\d+)\]", r".\1", r["name"]): [float(r[k]) for k in ("mean", "sd", "ess_bulk", "ess_sd")] for r in read}
    rhat = max(float(r["rhat"]) for r in read)
    return {"rows": rows, "whole": whole, "fit": float(text.split()[0]), "note": f"R-hat {rhat:.3f}, {text.split()[-1]} divergent"}


def compile_atvi(folder, build):
    """The first check compiles the model, the second finds it in the cache."""
    spent = [run([build / "atvi", "check", folder / "model.atvi"], folder / "check.log")[1] for _ in range(2)]
    return max(spent[0] - spent[1], 0)


def compile_stan(program, model):
    text, _ = run(["Rscript", HERE / "stan.R", "compile", HERE / f"{program}.stan", model], model.with_suffix(".log"))
    return float(text.split()[-1])


def kept(path, make, *given):
    """What an earlier call has left in path, or make(*given)."""
    if not path.exists():
        path.write_text(json.dumps(make(*given)))
    return json.loads(path.read_text())


def agree(a, b, shared):
    """Differences of means and of log sds in Monte Carlo standard errors: root mean squares over the parameters, 1 if both are right.
    And the largest difference of means, in sds."""
    mean = sd = gap = 0.0
    for k in shared:
        (ma, sa, ea, va), (mb, sb, eb, vb) = a[k], b[k]
        gap = max(gap, abs(ma - mb) / sb)
        mean += ((ma - mb) / sb) ** 2 / (1 / ea + 1 / eb)
        sd += math.log(sa / sb) ** 2 / (0.5 / va + 0.5 / vb)
    return math.sqrt(mean / len(shared)), math.sqrt(sd / len(shared)), gap


def pooled(fits, shared):
    """One estimate from all seeds: means and variances averaged, effective sizes added."""
    n = len(fits)
    out = {}
    for k in shared:
        mean = sum(f["rows"][k][0] for f in fits) / n
        var = sum(f["rows"][k][1] ** 2 + (f["rows"][k][0] - mean) ** 2 for f in fits) / n
        out[k] = (mean, math.sqrt(var), sum(f["rows"][k][2] for f in fits), sum(f["rows"][k][3] for f in fits))
    return out


def median(fits, value):
    return statistics.median(value(f) for f in fits)


def number(x):
    text = f"{x:.1f}" if x < 10 else f"{x:.0f}"
    return re.sub(r"(\d)(\d{3})$", r"\1 \2", re.sub(r"(\d)(\d{3})(\d{3})$", r"\1 \2 \3", text))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=TOP / "build")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("name", nargs="*", help=", ".join(PROBLEMS))
    args = parser.parse_args()
    for name in args.name:
        if name not in PROBLEMS:
            parser.error(f"{name}: want {', '.join(PROBLEMS)}")
    if not shutil.which("Rscript") or subprocess.run(["Rscript", "-e", "library(rstan)"], capture_output=True).returncode != 0:
        print("peers: skipped, because rstan is not installed (Debian: r-cran-rstan)")
        return
    out = args.out or pathlib.Path(tempfile.mkdtemp(prefix="peers-"))
    out.mkdir(parents=True, exist_ok=True)
    build = args.build.resolve()
    os.environ["XDG_CACHE_HOME"] = str(out.resolve() / "cache")  # of compiled models
    lines, checks = [], []
    for name in args.name or PROBLEMS:
        make, program, title = PROBLEMS[name]
        folder = out / name
        folder.mkdir(exist_ok=True)
        write_r(folder / "data.R", make(folder))
        model = out / f"{program}.rds"
        compiled = kept(out / f"{program}.json", compile_stan, program, model)
        built = kept(folder / "compile.json", compile_atvi, folder, build)
        ours = [kept(folder / f"atvi-{s}.json", fit_atvi, folder, s, build) for s in range(1, args.seeds + 1)]
        theirs = [kept(folder / f"stan-{s}.json", fit_stan, folder, s, model) for s in range(1, args.seeds + 1)]
        shared = [k for k in theirs[0]["rows"] if k in ours[0]["rows"]]

        def worst(f):
            return min(f["rows"][k][2] for k in shared)

        def per(which):
            return lambda f: worst(f) / f[which]

        cells = [title]
        for fits, compiling in ((ours, built), (theirs, compiled)):
            cells += [number(x) for x in (median(fits, worst), compiling, median(fits, lambda f: f["whole"]), median(fits, lambda f: f["fit"]))]
        for which in ("whole", "fit"):
            a, b = median(ours, per(which)), median(theirs, per(which))
            cells.append(f"{number(a)} / {number(b)} = **{number(a / b)}**")
        lines.append("| " + " | ".join(cells) + " |")
        mean, sd, gap = agree(pooled(ours, shared), pooled(theirs, shared), shared)
        checks.append(f"{title}: {len(shared)} parameters; differences of means {mean:.2f}, of sds {sd:.2f} standard errors "
                      f"(root mean squares; means within {gap:.3f} sd); atvi: {', '.join(f['note'] for f in ours)}; Stan: {'; '.join(f['note'] for f in theirs)}")
        print(lines[-1], checks[-1], sep="\n", file=sys.stderr, flush=True)
    print("| model | atvi: ESS | CPU s: compiling | command | fit | Stan: ESS | CPU s: compiling | command | fit "
          "| ESS per CPU s, commands (ratio) | fits (ratio) |")
    print("|" + "---|" * 11)
    print("\n".join(lines), "", *(f"- {c}" for c in checks), sep="\n")
    if not args.out:
        shutil.rmtree(out)


if __name__ == "__main__":
    main()
