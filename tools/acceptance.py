#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every figure that was asked for, wanted and measured side by side.

    tools/acceptance.py [--program build/atvi] [--bench build/bench] [name ...]

Runs all checks, or the named ones (see CHECKS). Data of the public suites are taken from
$ATVI_DATA, else ../shared/data; checks that need them are skipped where they are missing.
Exit code 1 if a figure is missed.
"""
import argparse
import csv
import json
import math
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parent.parent
DATA = pathlib.Path(os.environ.get("ATVI_DATA", TOP.parent / "shared" / "data"))
SEEDS = range(1, 6)

# Posterior of the common cold by quadrature on a grid: mean, sd.
COLD = {"beta": (0.8871, 0.0348), "gamma": (0.2902, 0.0255), "S0": (39.775, 2.010)}
TRUTH = {"w": .43, "phi": 7.35, "rho": .027, "nu": .9,
         "beta": "1.30537122,3.11852393,0.03206678,3.24118948,0.31400672,0.09410381"}
# u' = (theta1 - theta2 v) u, v' = (-theta3 + theta4 u) v (posteriordb, hudson_lynx_hare)
LOTKA = """model "Lynx and hare"
index s = 1..2
param theta1 ~ normal(1, 0.5) in (0, inf)
param theta2 ~ normal(0.05, 0.05) in (0, inf)
param theta3 ~ normal(1, 0.5) in (0, inf)
param theta4 ~ normal(0.05, 0.05) in (0, inf)
param z[s] ~ lognormal(log(10), 1)
param sigma[s] ~ lognormal(-1, 1)
start 0
state u = z[1]
state v = z[2]
du/dt = (theta1 - theta2*v)*u
dv/dt = (-theta3 + theta4*u)*v
data "lotka.csv" time t
observe hare ~ lognormal(log(u), sigma[1])
observe lynx ~ lognormal(log(v), sigma[2])
"""
ROWS = []
FAILED = []
ARGS = None


def row(what, wanted, measured, ok):
    mark = "ok" if ok else "MISSED" if ok is not None else "skipped"
    if ok is False:
        FAILED.append(what)
    ROWS.append((what, wanted, measured, mark))
    print(f"{mark:8} {what:58} wanted {wanted:28} measured {measured}", flush=True)


def run(*args, env=None, ok=True):
    done = subprocess.run([str(a) for a in (ARGS.program, *args)], capture_output=True, text=True,
                          env={**os.environ, **(env or {})})
    if ok and done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, args))}: exit {done.returncode}\n{done.stderr}")
    return done


def fit(model, out, *args):
    run("fit", model, "--out", out, "--quiet", *args)
    return json.loads((out / "summary.json").read_text())


def columns(path):
    with open(path) as f:
        rows = list(csv.DictReader(line for line in f if not line.startswith("#")))
    return {k: [float(r[k]) for r in rows] for k in rows[0]}


def moments(x):
    m = sum(x) / len(x)
    return m, math.sqrt(sum((v - m) ** 2 for v in x) / (len(x) - 1))


def rotavirus_data(folder, number=1):
    """set_N.csv has no header and no week column: row k is week 260 + k."""
    source = DATA / "rotavirus" / f"set_{number}.csv"
    if not source.exists():
        return None
    target = folder / f"set_{number}.csv"
    with open(source) as f, open(target, "w") as g:
        g.write("week," + ",".join(f"cases.{i}" for i in range(1, 7)) + "\n")
        for k, line in enumerate(csv.reader(f)):
            g.write(f"{261 + k}," + ",".join(str(int(float(v))) for v in line) + "\n")
    return target


def at(theta):
    return [a for k, v in theta.items() for a in ("--set", f"{k}={v}")]


def check_cold(tmp):
    worst_mean = worst_sd = seconds = 0
    verdicts = set()
    for seed in SEEDS:
        s = fit(TOP / "examples/cold/cold.atvi", tmp / f"cold{seed}", "--method", "ram", "--seed", seed)
        seconds = max(seconds, s["seconds"])
        verdicts.add(s["verdict"])
        for p in s["parameters"]:
            mean, sd = COLD[p["name"]]
            worst_mean = max(worst_mean, abs(p["mean"] - mean) / sd)
            worst_sd = max(worst_sd, abs(p["sd"] / sd - 1))
    row("cold, ram, seeds 1-5: worst error of a mean", "<= 0.1 sd", f"{worst_mean:.3f} sd", worst_mean <= 0.1)
    row("cold, ram, seeds 1-5: worst error of an sd", "<= 10 %", f"{100 * worst_sd:.1f} %", worst_sd <= 0.1)
    row("cold, ram, seeds 1-5: verdict", "ok", f"{', '.join(sorted(verdicts))}; at most {seconds:.1f} s", verdicts == {"ok"})


def check_rotavirus(tmp):
    data = rotavirus_data(tmp)
    if not data:
        return row("rotavirus, set 1", "-", f"no {DATA}", None)
    model = TOP / "examples/rotavirus/rotavirus.atvi"
    ll = json.loads(run("eval", model, "--data", data, *at(TRUTH)).stdout)["log_likelihood"]
    row("rotavirus, set 1: log likelihood at the truth", "-1559.55 +- 0.02", f"{ll:.4f}", abs(ll + 1559.55) <= 0.02)
    text = run("check", model, "--data", data).stdout
    line = next(x for x in text.splitlines() if x.startswith("gradient"))
    worst = float(line.split("differences ")[1].split()[0])
    row("rotavirus, set 1: gradient, 10 best of 512 prior draws", "<= 1e-5", f"{worst:.1e}", worst <= 1e-5)
    program = pathlib.Path(ARGS.bench).parent / "tests" / "oracle_rotavirus"
    if not program.exists():
        return row("rotavirus, set 1: gradient, 10 random prior draws", "<= 1e-5", "tests not built", None)
    done = subprocess.run([program], capture_output=True, text=True, env={**os.environ, "ATVI_DATA": str(DATA), "CK_FORK": "no"})
    line = next((x for x in done.stdout.splitlines() if x.startswith("gradient at ten")), "worst nan")
    worst = float(line.split("worst ")[1])
    row("rotavirus, set 1: gradient, 10 random prior draws", "<= 1e-5", f"{worst:.1e}", done.returncode == 0 and worst <= 1e-5)


def check_lotka(tmp):
    source = DATA / "benchmarks" / "lotka_volterra_data.json"
    if not source.exists():
        return row("Lotka-Volterra", "-", f"no {DATA}", None)
    d = json.loads(source.read_text())
    with open(tmp / "lotka.csv", "w") as f:
        f.write("t,hare,lynx\n0,%g,%g\n" % tuple(d["y_init"]))
        for t, y in zip(d["ts"], d["y"]):
            f.write("%g,%g,%g\n" % (t, *y))
    (tmp / "lotka.atvi").write_text(LOTKA)
    s = fit(tmp / "lotka.atvi", tmp / "lotka", "--method", "ram")
    reference = columns(DATA / "benchmarks" / "lotka_volterra_reference.csv")
    names = [f"theta{i}" for i in range(1, 5)] + ["z.1", "z.2", "sigma.1", "sigma.2"]
    worst = 0
    by_name = {p["name"]: p for p in s["parameters"]}
    for ours, theirs in zip(names, reference):
        mean, sd = moments(reference[theirs])
        worst = max(worst, abs(by_name[ours]["mean"] - mean) / sd)
    row("Lotka-Volterra: worst difference of a mean", "<= 0.15 sd of the reference", f"{worst:.3f} sd, verdict {s['verdict']}", worst <= 0.15)


def converged(tmp, name, model, data, draws, n=100):
    """Largest difference of the log likelihood at n posterior draws to that at a tolerance of 1e-11."""
    folder = tmp / f"tight-{name}"
    folder.mkdir()
    tight = folder / model.name
    tight.write_text(model.read_text() + "\nsolver rk45 tol 1e-11\n")
    for f in model.parent.glob("*.csv"):
        shutil.copy(f, folder)
    columns_ = columns(draws)
    names = [k for k in columns_ if not k.endswith("__") and k not in ("R0",)]
    extra = ["--data", data] if data else []
    worst = 0
    total = len(columns_["lp__"])
    for k in range(n):
        theta = at({p: repr(columns_[p][k * total // n]) for p in names})
        value = [json.loads(run("eval", m, *extra, *theta).stdout)["log_likelihood"] for m in (model, tight)]
        worst = max(worst, abs(value[0] - value[1]))
    return worst


def check_tolerance(tmp):
    cold = TOP / "examples/cold/cold.atvi"
    fit(cold, tmp / "cold-t")
    worst = converged(tmp, "cold", cold, None, tmp / "cold-t/draws.csv")
    row("cold: log likelihood against converged, 100 draws", "<= 0.01", f"{worst:.2e}", worst <= 0.01)
    rota = TOP / "examples/rotavirus/rotavirus.atvi"
    data = rotavirus_data(tmp)
    began = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    s = fit(rota, tmp / "rota-t", *(["--data", data] if data else []))
    peak = max(began, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) / 1024
    row("rotavirus, ram: verdict", "ok", f"{s['verdict']} in {s['seconds']:.0f} s, {s['evaluations']} evaluations", s["verdict"] == "ok")
    row("fit of rotavirus: peak memory", "< 200 MB", f"{peak:.0f} MB", peak < 200)
    worst = converged(tmp, "rota", rota, data, tmp / "rota-t/draws.csv")
    row("rotavirus: log likelihood against converged, 100 draws", "<= 0.01", f"{worst:.2e}", worst <= 0.01)


def check_compile(tmp):
    model = TOP / "examples/rotavirus/rotavirus.atvi"
    env = {"XDG_CACHE_HOME": str(tmp / "cache")}
    times = []
    for _ in range(2):
        began = time.monotonic()
        run("eval", model, *at(TRUTH), env=env)
        times.append(time.monotonic() - began)
    row("rotavirus: first run, compilation included", "<= 1.5 s", f"{times[0]:.2f} s", times[0] <= 1.5)
    row("rotavirus: second run, whole command", "no compilation (<= 0.1 s)", f"{times[1]:.3f} s", times[1] <= 0.1)


def check_cost(tmp):
    del tmp
    program = pathlib.Path(ARGS.bench) / "bench_model"
    done = subprocess.run([program], capture_output=True, text=True, cwd=TOP)
    if done.returncode != 0:
        raise SystemExit(f"bench_model: exit {done.returncode}\n{done.stderr}")
    wanted = {"cold": (1e6, 4e5), "rotavirus": (3e4, 1.2e4)}
    for line in done.stdout.splitlines():
        if not line.startswith("figure "):
            continue
        _, name, kind, value, ratio = line.split()
        want = wanted[name][kind == "gradients"]
        row(f"{name}: {kind} per second, two cores", f">= {want:,.0f}", f"{float(value):,.0f} ({ratio} x a scalar loop)", float(value) >= want)


CHECKS = {"cold": check_cold, "rotavirus": check_rotavirus, "lotka": check_lotka, "tolerance": check_tolerance,
          "compile": check_compile, "cost": check_cost}


def main():
    global ARGS
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=TOP / "build/atvi")
    parser.add_argument("--bench", default=TOP / "build/bench")
    parser.add_argument("name", nargs="*", help=", ".join(CHECKS))
    ARGS = parser.parse_args()
    for name in ARGS.name:
        if name not in CHECKS:
            parser.error(f"no check named {name}; there are {', '.join(CHECKS)}")
    for name in ARGS.name or CHECKS:
        with tempfile.TemporaryDirectory() as tmp:
            CHECKS[name](pathlib.Path(tmp))
    print(f"{sum(r[3] == 'ok' for r in ROWS)} met, {len(FAILED)} missed")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
