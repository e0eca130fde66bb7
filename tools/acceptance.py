#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every figure that was asked for, wanted and measured side by side.

    tools/acceptance.py [--program build/atvi] [--bench build/bench] [name ...]

Runs all checks, or the named ones (see CHECKS; those of SLOW are run by name only). Data of the public suites are taken from
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
import signal
import statistics
import subprocess
import sys
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parent.parent
DATA = pathlib.Path(os.environ.get("ATVI_DATA", TOP.parent / "shared" / "data"))
SEEDS = range(1, 6)
SEEDS_VI = range(1, 11)

# Posterior of the common cold by quadrature on a grid (bench/ablation prints it): mean, sd; correlations.
COLD = {"beta": (0.88715, 0.03479), "gamma": (0.29018, 0.02549), "S0": (39.775, 2.010)}
COLD_CORR = {("beta", "gamma"): -0.0520, ("beta", "S0"): -0.3103, ("gamma", "S0"): 0.5316}
COLD_LOG_Z = -97.8997
# Set 1 of the simulated rotavirus data, from 8 x 100 000 adaptive Metropolis: mean, sd.
ROTA = {"w": (.4213, .0402), "phi": (7.474, .0682), "rho": (.02861, .00245), "nu": (.9127, .0533), "beta.1": (1.416, .282),
        "beta.2": (3.444, .393), "beta.3": (.0408, .0135), "beta.4": (3.196, .557), "beta.5": (.352, .149), "beta.6": (.0848, .0354)}
ROTA_LOG_Z = -1584.98
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
TRUNCATED = """model "Normal observations of parameters in a box"
param theta[1..10] in (-1, 1)
data "x.csv"
observe x[i in 1..10] ~ normal(theta[i], sqrt(0.1))
"""
# 70, 27 and 3 % of the mass, at least ten standard deviations apart.
MODES = """model "Three modes"
param a in (0, 1)
param b in (0, 1)
let p = ((a - 0.20)^2 + (b - 0.25)^2)/0.0032
let q = ((a - 0.75)^2 + (b - 0.80)^2)/0.0032
let r = ((a - 0.80)^2 + (b - 0.20)^2)/0.0032
logp log(0.70*exp(-p) + 0.27*exp(-q) + 0.03*exp(-r))
"""
MODES_AT = [((0.20, 0.25), 0.70), ((0.75, 0.80), 0.27), ((0.80, 0.20), 0.03)]
# Posteriors with known means that are hard to sample: a funnel in ten dimensions, a bent ridge, two modes in a box, ten truncated normals.
HARD_M = [1.1, -0.95, 0.3, 1.4, -1.2, 0.75, -0.2, 0.99, -1.5, 0.05]
HARD = {
    "funnel": "param v ~ normal(0, 3)\nparam x[1..9] ~ normal(0, exp(v/2))\n",
    "banana": "param a ~ normal(0, 10)\nparam b ~ normal(0.03*(a^2 - 100), 1)\n",
    "two modes": """param x in (0, 10)
param y in (0, 10)
logp log(0.7*exp(-0.5*((x - 2)/0.3)^2 - 0.5*((y - 2.5)/0.4)^2)/(0.3*0.4) +
         0.3*exp(-0.5*((x - 7)/0.5)^2 - 0.5*((y - 7.5)/0.25)^2)/(0.5*0.25))
""",
    "truncated": f"""param theta[1..10] in (-1, 1)
const m[1..10] = {HARD_M}
logp -0.5*sum(i in 1..10: (theta[i] - m[i])^2)/0.1
""",
}
SEEDS_HARD = range(301, 306)
SIR = """model "Small outbreak"
param beta  ~ uniform(0.3, 2)
param gamma ~ uniform(0.1, 0.6)
param I0    ~ uniform(1, 10)
state S = 500 - I0
state I = I0
dS/dt = -beta*S*I/500
dI/dt =  beta*S*I/500 - gamma*I
data "sir.csv" time day
observe cases ~ poisson(I + 0.01)
"""
# Hydrograph, by parallel tempering (docs/simulators.md): mean, sd; covariances on the log scale.
HYDRO = {"theta.1": (.557, .281), "theta.2": (.868, .0513), "theta.3": (.3629, .0342), "theta.4": (.9024, .0109), "theta.5": (.931, .094),
         "range": (5.493, .747), "sill_d": (8.787, .759), "nugget": (2.360, .783), "sill": (17.442, .0596)}
HYDRO_SHARE = 2.3 # percent of the mass below theta.3 = 0.26
# Simulator for `atvi run`: notes each start, takes a while.
SLOW_RUNS = """param a ~ uniform(0, 1)
param b ~ uniform(0, 1)
param s ~ halfnormal(1)
simulator {
  command "echo {a} >> %s/starts; sleep 0.1; printf 't,y\\n1,%%s\\n2,%%s\\n' {a} {b} > out.csv"
  output y from "out.csv" csv column y time t
  inputs a, b
}
data "y.csv" time t
observe y ~ emulator(y) + white(s)
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
        head, *rows = csv.reader(line for line in f if not line.startswith("#"))
    return dict(zip(head, zip(*[list(map(float, r)) for r in rows])))


def moments(x):
    m = sum(x) / len(x)
    return m, math.sqrt(sum((v - m) ** 2 for v in x) / (len(x) - 1))


def correlation(x, y, w):
    total = math.fsum(w)
    mx, my = (math.fsum(a * v for a, v in zip(w, z)) / total for z in (x, y))
    xy, xx, yy = (math.fsum(a * (u - p) * (v - q) for a, u, v in zip(w, s, t))
                  for s, p, t, q in ((x, mx, y, my), (x, mx, x, mx), (y, my, y, my)))
    return xy / math.sqrt(xx * yy)


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


def lotka(tmp):
    """The model with its data, and the reference draws by our names; None where the data are missing."""
    source = DATA / "benchmarks" / "lotka_volterra_data.json"
    if not source.exists():
        return None, None
    d = json.loads(source.read_text())
    with open(tmp / "lotka.csv", "w") as f:
        f.write("t,hare,lynx\n0,%g,%g\n" % tuple(d["y_init"]))
        for t, y in zip(d["ts"], d["y"]):
            f.write("%g,%g,%g\n" % (t, *y))
    (tmp / "lotka.atvi").write_text(LOTKA)
    names = [f"theta{i}" for i in range(1, 5)] + ["z.1", "z.2", "sigma.1", "sigma.2"]
    reference = columns(DATA / "benchmarks" / "lotka_volterra_reference.csv")
    return tmp / "lotka.atvi", dict(zip(names, reference.values()))


def check_lotka(tmp):
    model, reference = lotka(tmp)
    if not model:
        return row("Lotka-Volterra", "-", f"no {DATA}", None)
    s = fit(model, tmp / "lotka", "--method", "ram")
    worst = 0
    for p in s["parameters"]:
        mean, sd = moments(reference[p["name"]])
        worst = max(worst, abs(p["mean"] - mean) / sd)
    row("Lotka-Volterra, ram: worst difference of a mean", "<= 0.15 sd of the reference", f"{worst:.3f} sd, verdict {s['verdict']}", worst <= 0.15)


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
    fit(cold, tmp / "cold-t", "--method", "ram")
    worst = converged(tmp, "cold", cold, None, tmp / "cold-t/draws.csv")
    row("cold: log likelihood against converged, 100 draws", "<= 0.01", f"{worst:.2e}", worst <= 0.01)
    rota = TOP / "examples/rotavirus/rotavirus.atvi"
    data = rotavirus_data(tmp)
    began = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    s = fit(rota, tmp / "rota-t", "--method", "ram", *(["--data", data] if data else []))
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


# ---- the default method ----

def worst_errors(summary, weighted, exact, corr):
    """Largest errors of a mean (in exact sd), of an sd (relative), of a correlation."""
    mean = sd = r = 0
    for p in summary["parameters"]:
        if p["name"] in exact:
            m, s = exact[p["name"]]
            mean = max(mean, abs(p["mean"] - m) / s)
            sd = max(sd, abs(p["sd"] / s - 1))
    for (a, b), value in (corr or {}).items():
        r = max(r, abs(correlation(weighted[a], weighted[b], weighted["weight__"]) - value))
    return mean, sd, r


def children_s():
    """CPU seconds of all commands run so far: on a busy machine they tell more than the clock."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def check_vi(tmp, name, model, exact, limits, corr=None, log_z=None, extra=()):
    """Defaults, ten seeds. limits: mean, sd, correlation, log evidence, seconds."""
    out = tmp / "vi"
    run("fit", model, *extra, "--out", out, "--quiet", "--force")  # compiles
    errors, evidence, khat, seconds, cpu, verdicts, ess = [], [0], [], [], [], {}, []
    for seed in SEEDS_VI:
        began, used = time.monotonic(), children_s()
        run("fit", model, *extra, "--out", out, "--quiet", "--force", "--seed", seed)
        seconds.append(time.monotonic() - began)
        cpu.append(children_s() - used)
        s = json.loads((out / "summary.json").read_text())
        errors.append(worst_errors(s, columns(out / "weighted.csv") if corr else None, exact, corr))
        if log_z is not None:
            evidence.append(abs(s["log_evidence"]["value"] - log_z))
        khat.append(s["khat"])
        ess.append(s["efficiency"])
        verdicts[s["verdict"]] = verdicts.get(s["verdict"], 0) + 1
    mean, sd, r = (max(e[k] for e in errors) for k in range(3))
    row(f"{name}: worst error of a mean", f"<= {limits[0]} sd", f"{mean:.3f} sd", mean <= limits[0])
    row(f"{name}: worst error of an sd", f"<= {100 * limits[1]:g} %", f"{100 * sd:.1f} %", sd <= limits[1])
    if corr:
        row(f"{name}: worst error of a correlation", f"<= {limits[2]}", f"{r:.3f}", r <= limits[2])
    if log_z is not None:
        row(f"{name}: worst error of log evidence", f"<= {limits[3]}", f"{max(evidence):.4f}", max(evidence) <= limits[3])
    row(f"{name}: worst k-hat", "< 0.7", f"{max(khat):.2f}; ESS {100 * min(ess):.0f} to {100 * max(ess):.0f} %", max(khat) < 0.7)
    row(f"{name}: wall time of the command, longest", f"<= {limits[4]} s",
        f"{max(seconds):.2f} s (shortest {min(seconds):.2f}, median {statistics.median(seconds):.2f}; CPU at most {max(cpu):.2f})", max(seconds) <= limits[4])
    row(f"{name}: verdict", "ok", ", ".join(f"{v} {n} of {len(khat)}" for v, n in sorted(verdicts.items())), set(verdicts) == {"ok"})


def check_vi_cold(tmp):
    check_vi(tmp, "cold", TOP / "examples/cold/cold.atvi", COLD, (0.03, 0.03, 0.03, 0.02, 1), COLD_CORR, COLD_LOG_Z)


def truncated_normal(x, s):
    """Normal with mean x on (-1, 1): mean, sd, probability."""
    a, b = (-1 - x) / s, (1 - x) / s
    phi = [math.exp(-0.5 * v * v) / math.sqrt(2 * math.pi) for v in (a, b)]
    z = 0.5 * (math.erf(b / math.sqrt(2)) - math.erf(a / math.sqrt(2)))
    mean = (phi[0] - phi[1]) / z
    return x + s * mean, s * math.sqrt(1 + (a * phi[0] - b * phi[1]) / z - mean ** 2), z


def check_vi_truncated(tmp):
    for number in (1, 2):
        source = DATA / "benchmarks" / f"gaussian_linear_uniform_{number}_observation.csv"
        if not source.exists():
            row("truncated normal", "-", f"no {DATA}", None)
            continue
        x = [float(v) for v in source.read_text().splitlines()[1].split(",")]
        folder = tmp / f"truncated{number}"
        folder.mkdir()
        (folder / "truncated.atvi").write_text(TRUNCATED)
        (folder / "x.csv").write_text(",".join(f"x.{i}" for i in range(1, 11)) + "\n" + ",".join(map(repr, x)) + "\n")
        exact = [truncated_normal(v, math.sqrt(0.1)) for v in x]
        names = [f"theta.{i}" for i in range(1, 11)]
        check_vi(folder, f"truncated normal {number}", folder / "truncated.atvi", {k: e[:2] for k, e in zip(names, exact)},
                 (0.04, 0.04, 0.03, 0.03, 3), {(a, b): 0 for i, a in enumerate(names) for b in names[:i]},
                 sum(math.log(e[2] / 2) for e in exact))


def check_vi_lotka(tmp):
    model, reference = lotka(tmp)
    if not model:
        return row("Lotka-Volterra", "-", f"no {DATA}", None)
    names, ones = list(reference), [1] * len(next(iter(reference.values())))
    corr = {(a, b): correlation(reference[a], reference[b], ones) for i, a in enumerate(names) for b in names[:i]}
    check_vi(tmp, "Lotka-Volterra", model, {k: moments(v) for k, v in reference.items()}, (0.1, 0.08, 0.08, None, 5), corr)


def check_vi_rotavirus(tmp):
    data = rotavirus_data(tmp)
    if not data:
        return row("rotavirus, set 1", "-", f"no {DATA}", None)
    check_vi(tmp, "rotavirus, set 1", TOP / "examples/rotavirus/rotavirus.atvi", ROTA, (0.1, 0.1, None, 0.1, 8), None, ROTA_LOG_Z,
             ("--data", data))


def check_bounds(tmp):
    """Mass in the outer 2 % of the range: of the draws of q (there are 16 blocks of them, the last sixteenth of which is
    stretched on purpose and left out), and weighted."""
    edge = 0.02
    steep = (1 - math.exp(-4 * edge)) / (1 - math.exp(-4))
    for name, logp, low, high in (("e^(-4 theta)", "-4*theta", steep, None), ("e^(4 theta)", "4*theta", None, steep),
                                  ("uniform", "0*theta", edge, edge)):
        (tmp / "edge.atvi").write_text(f"model \"Edge\"\nparam theta in (0, 1)\nlogp {logp}\n")
        for how in ("auto", "surjection"):
            q = {"lower": [], "upper": []}
            off = 0
            for seed in SEEDS_VI:
                s = fit(tmp / "edge.atvi", tmp / "edge", "--seed", seed, "--force", "--map", how)
                d = columns(tmp / "edge/weighted.csv")
                theta, w = d["theta"], d["weight__"]
                block = len(theta) // 16
                own = [v for j, v in enumerate(theta) if j % block < block - block // 16]
                for end, inside, want in (("lower", lambda v: v < edge, low), ("upper", lambda v: v > 1 - edge, high)):
                    if want is None:
                        continue
                    q[end].append(sum(map(inside, own)) / len(own) / want - 1)
                    share = math.fsum(a for a, v in zip(w, theta) if inside(v))
                    off = max(off, abs(share - want) / math.sqrt(want * (1 - want) / s["ess"]))
            worst = max(abs(statistics.mean(v)) for v in q.values() if v)
            single = max(abs(x) for v in q.values() for x in v)
            row(f"{name}, map {how}: mass of q at the bound, mean of 10 seeds", "within 3 %",
                f"{100 * worst:.2f} % (worst seed {100 * single:.2f} %)", worst <= 0.03)
            row(f"{name}, map {how}: weighted mass at the bound, worst of 10", "within 3 standard errors", f"{off:.1f}", off <= 3)


def check_modes(tmp):
    (tmp / "modes.atvi").write_text(MODES)
    worst, told, verdicts = 0, [], {}
    for seed in SEEDS_VI:
        s = fit(tmp / "modes.atvi", tmp / "modes", "--seed", seed, "--force")
        d = columns(tmp / "modes/weighted.csv")
        share = [0, 0, 0]
        for a, b, w in zip(d["a"], d["b"], d["weight__"]):
            share[min(range(3), key=lambda k: (a - MODES_AT[k][0][0]) ** 2 + (b - MODES_AT[k][0][1]) ** 2)] += w
        worst = max(worst, *(abs(v - m[1]) for v, m in zip(share, MODES_AT)))
        told.append(s["modes"])
        verdicts[s["verdict"]] = verdicts.get(s["verdict"], 0) + 1
    row("three modes of 70, 27 and 3 %: worst error of a share", "<= 2 points",
        f"{100 * worst:.2f} points; verdicts {verdicts}", worst <= 0.02)
    row("three modes: number of modes told", "3", ", ".join(map(str, sorted(set(told)))), set(told) == {3})


def check_threads(tmp):
    problems = [("cold", TOP / "examples/cold/cold.atvi", ()), ("rotavirus", TOP / "examples/rotavirus/rotavirus.atvi", ("--max-iter", 100))]
    (tmp / "modes.atvi").write_text(MODES)
    problems.append(("modes", tmp / "modes.atvi", ()))
    if lotka(tmp)[0]:
        problems.append(("Lotka-Volterra", tmp / "lotka.atvi", ()))
    for name, model, extra in problems:
        text = []
        for threads in (1, 2):
            fit(model, tmp / "threads", "--force", "--threads", threads, *extra)
            text.append([[line for line in (tmp / "threads" / f).read_text().splitlines() if "seconds" not in line]
                         for f in ("draws.csv", "weighted.csv")])
        same = text[0] == text[1]
        row(f"{name}: threads 1 and 2", "identical draws.csv, weighted.csv", "identical" if same else "different", same)


def check_stop(tmp):
    out = tmp / "stop"
    model = TOP / "examples/rotavirus/rotavirus.atvi"
    run("eval", model, *at(TRUTH))
    p = subprocess.Popen([str(ARGS.program), "fit", str(model), "--out", str(out), "--quiet"], stdout=subprocess.DEVNULL)
    time.sleep(1.5)
    began = time.monotonic()
    p.send_signal(signal.SIGINT)
    code = p.wait()
    took = time.monotonic() - began
    n = len(columns(out / "weighted.csv")["weight__"]) if (out / "weighted.csv").exists() else 0
    s = json.loads((out / "summary.json").read_text()) if (out / "summary.json").exists() else {"verdict": "none", "messages": []}
    said = any("stopped" in m for m in s["messages"])
    row("rotavirus, Ctrl-C after 1.5 s", "exit 130, draws, a verdict that says so",
        f"exit {code} after {took:.2f} s, {n} draws, verdict {s['verdict']}{', says so' if said else ''}",
        code == 130 and n > 0 and said and s["verdict"] != "ok")


def check_table1(tmp):
    """All methods on the cold: means against the exact table, in sds or in standard errors."""
    for method, limit, args in (("atvi", 0.03, ()), ("ram", None, ("--method", "ram")), ("nuts", None, ("--method", "nuts")),
                                ("exact", None, ("--exact",))):
        worst = 0
        for seed in SEEDS_VI:
            s = fit(TOP / "examples/cold/cold.atvi", tmp / "table1", "--force", "--seed", seed, *args)
            for p in s["parameters"]:
                mean, sd = COLD[p["name"]]
                worst = max(worst, abs(p["mean"] - mean) / (sd if limit else p["mcse"]))
        row(f"cold, {method}: means, worst of {len(SEEDS_VI)} seeds", f"within {limit} sd" if limit else "within 4 standard errors",
            f"{worst:.4f} sd" if limit else f"{worst:.2f} standard errors", worst < (limit or 4))


def check_hard(tmp):
    exact = {"funnel": [0] * 10, "banana": [0, 0], "two modes": [3.5, 4], "truncated": [truncated_normal(m, math.sqrt(0.1))[0] for m in HARD_M]}
    for name, text in HARD.items():
        model = tmp / "hard.atvi"
        model.write_text(text)
        worst, said = 0, []
        for seed in SEEDS_HARD:
            s = fit(model, tmp / "hard", "--force", "--seed", seed, "--exact")
            worst = max(worst, *(abs(p["mean"] - m) / p["mcse"] for p, m in zip(s["parameters"], exact[name])))
            said.append(s["verdict"])
        row(f"{name}, --exact: means, worst of {len(said)} seeds", "within 4 standard errors",
            f"{worst:.2f} standard errors; verdicts {' '.join(said)}", worst < 4)


def check_sbc(tmp):
    (tmp / "sir.atvi").write_text(SIR)
    (tmp / "sir.csv").write_text("day,cases\n" + "".join(f"{t},0\n" for t in range(1, 31)))
    for scale, wanted in ((None, "calibrated"), (0.8, "not calibrated")):
        out = tmp / f"sbc-{scale}"
        began = time.monotonic()
        run("sbc", tmp / "sir.atvi", "--replicates", 200, "--out", out, "--quiet", *(("--scale-sd", scale) if scale else ()))
        took = time.monotonic() - began
        s = json.loads((out / "sbc_summary.json").read_text())
        got = "calibrated" if s["calibrated"] else "not calibrated"
        row(f"SBC of a small SIR model, 200 replicates{', sd x 0.8' if scale else ''}", f"{wanted}, under 600 s", f"{got}, {took:.0f} s",
            got == wanted and took < 600)


def check_table2(tmp):
    """Fifty replicates of rotavirus with atvi and with adaptive Metropolis, a quarter of an hour."""
    truth = TOP / "examples/rotavirus/truth.json"
    run("study", TOP / "examples/rotavirus/rotavirus.atvi", "--truth", truth, "--replicates", 50, "--methods", "atvi,ram", "--out", tmp / "study", "--quiet")
    names = list(ROTA) + ["burden"]
    covered = {(m, n): [] for m in ("atvi", "ram") for n in names}
    means, seconds = {}, []
    with open(tmp / "study/replicates.csv", newline="") as f:
        for r in csv.DictReader(f):
            for n in names:
                covered[r["method"], n].append(float(r[n + ".covered"]))
            for n in ROTA:
                means[r["method"], r["replicate"], n] = float(r[n + ".mean"]), float(r[n + ".sd"])
            if r["method"] == "atvi":
                seconds.append(float(r["seconds"]))
    share = {k: 100 * statistics.mean(v) for k, v in covered.items()}
    for n in names:
        low, high = (90, 98) if n == "burden" else (88, 100)
        row(f"rotavirus study, coverage of {n}", f"ram +- 4 points, expected {low} to {high} %", f"{share['atvi', n]:.1f} %, ram {share['ram', n]:.1f} %",
            abs(share["atvi", n] - share["ram", n]) <= 4.001)
    gaps = {}
    for (m, r, n), (mean, _) in means.items():
        if m == "atvi":
            gaps[r] = max(gaps.get(r, 0), abs(mean - means["ram", r, n][0]) / means["ram", r, n][1])
    near = sum(g <= 0.1 for g in gaps.values())
    row("rotavirus study, sets whose ten means agree within 0.1 sd", ">= 10", f"{near} of {len(gaps)}; worst {max(gaps.values()):.3f} sd", near >= 10)
    row("rotavirus study, atvi", "one sitting", f"{sum(seconds) / 60:.1f} min of fits, {statistics.mean(seconds):.1f} s each", True)


# ---- emulated simulators ----

def hydrology():
    """The model, or None where the ensemble is missing."""
    return TOP / "examples/hydrology/hydrology.atvi" if (DATA / "hydrology/mat_Y_em.csv").exists() else None


def bench(name):
    """Lines that begin with "figure", split."""
    done = subprocess.run([pathlib.Path(ARGS.bench) / name], capture_output=True, text=True, cwd=TOP)
    if done.returncode != 0:
        raise SystemExit(f"{name}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return [line.split() for line in done.stdout.splitlines() if line.startswith("figure ")]


def check_hydrology_cost(tmp):
    del tmp
    if not hydrology():
        return row("hydrograph: cost per point", "", "no data", None)
    for _, _, kind, value in bench("bench_hydrology"):
        most = 30 if kind == "evaluation" else 60
        row(f"hydrograph: one {kind}, batch of 64, one core", f"<= {most} us", f"{value} us", float(value) <= most)


def hydrology_errors(out):
    """Worst mean in sds, worst sd, share of the second mode in percent."""
    c = columns(out / "weighted.csv" if (out / "weighted.csv").exists() else out / "draws.csv")
    w = c.get("weight__") or [1] * len(c["sill"])
    total, worst = math.fsum(w), [(0, ""), (0, "")]
    for name, (mean, sd) in HYDRO.items():
        x = c[name] if name.startswith("theta") else [math.log(v) for v in c[name]]
        m = math.fsum(a * v for a, v in zip(w, x)) / total
        s = math.sqrt(math.fsum(a * (v - m) ** 2 for a, v in zip(w, x)) / total)
        worst = [max(worst[0], (abs(m - mean) / sd, name)), max(worst[1], (abs(s / sd - 1), name))]
    return *worst, 100 * math.fsum(a for a, v in zip(w, c["theta.3"]) if v < 0.26) / total


def check_hydrology(tmp):
    model = hydrology()
    if not model:
        return row("hydrograph", "", "no data", None)
    means, sds, shares, seconds, ends, khat = [], [], [], [], set(), []
    for seed in SEEDS_VI:
        began = time.monotonic()
        s = fit(model, tmp / "fit", "--folder", DATA / "hydrology", "--seed", seed, "--force")
        seconds.append(time.monotonic() - began)
        mean, sd, share = hydrology_errors(tmp / "fit")
        means.append(mean)
        sds.append(sd)
        shares.append(share)
        khat.append(s["khat"])
        # the emulator's error is 40 times the noise, so that the fit warns of it; nothing else may be wrong
        wrong = [c for c, v in zip(s["message_codes"], s["message_severities"]) if v != "note" and not c.startswith("emulator-")]
        ends.add((" ".join(wrong) or "ok", "exact sampler" if s["exact"] else "weights"))
    name = f"hydrograph, seeds {SEEDS_VI[0]}-{SEEDS_VI[-1]}"
    row(f"{name}: worst error of a mean", "<= 0.1 sd", "%.3f sd (%s)" % max(means), max(means)[0] <= 0.1)
    row(f"{name}: worst error of an sd", "<= 10 %", f"{100 * max(sds)[0]:.1f} % ({max(sds)[1]})", max(sds)[0] <= 0.1)
    row(f"{name}: share of the second mode", f"{HYDRO_SHARE} +- 1 %", f"{min(shares):.2f} to {max(shares):.2f} %",
        max(abs(v - HYDRO_SHARE) for v in shares) <= 1)
    row(f"{name}: k-hat or exact sampler", "ok but for the emulator", f"k-hat {min(khat):.2f} to {max(khat):.2f}; " + ", ".join(f"{a} by {b}" for a, b in sorted(ends)),
        {v for v, _ in ends} == {"ok"})
    row(f"{name}: wall time of the command, longest", "<= 12 s", f"{max(seconds):.1f} s (shortest {min(seconds):.1f})", max(seconds) <= 12)


def check_emulator(tmp):
    """Maximum likelihood on the hydrograph's ensemble, and leave-one-out."""
    model = hydrology()
    if not model:
        return row("hydrograph's emulator", "", "no data", None)
    given = model.read_text()
    own = "\n".join(l for l in given.splitlines() if l.split()[:1] not in (["lengths"], ["nugget"], ["time"], ["const"]))
    found = {}
    for name, text in (("given", given), ("own", own)):
        (tmp / f"{name}.atvi").write_text(text)
        began = time.monotonic()
        run("emulate", tmp / f"{name}.atvi", "--folder", DATA / "hydrology", "--runs", tmp / name, "--quiet")
        found[name] = json.loads((tmp / name / "emulate.json").read_text())[0], time.monotonic() - began
    (a, _), (b, took) = found["given"], found["own"]
    row("hydrograph's emulator: log likelihood", f">= that of mle_est.csv, {a['log_likelihood']:.0f}", f"{b['log_likelihood']:.0f} in {took:.1f} s",
        b["log_likelihood"] >= a["log_likelihood"])
    row("hydrograph's emulator: coverage, one run left out", "93 to 97 %", f"{100 * b['leave_one_out']['coverage']:.1f} %", 0.93 <= b["leave_one_out"]["coverage"] <= 0.97)


def check_record(tmp):
    """`atvi run`, killed at five moments and continued: nothing that was recorded is run again, and nothing is lost."""
    (tmp / "slow.atvi").write_text(SLOW_RUNS % tmp)
    (tmp / "y.csv").write_text("t,y\n1,0.5\n2,0.5\n")
    runs, n = tmp / "runs", 40
    run("design", tmp / "slow.atvi", "-n", n, "--runs", runs)
    for k in range(6):
        child = subprocess.Popen([ARGS.program, "run", tmp / "slow.atvi", "--runs", runs, "--quiet"], stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL, start_new_session=True)
        if k < 5:
            time.sleep(0.15 + 0.13 * k)
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    starts = (tmp / "starts").read_text().split()
    with open(runs / "runs.jsonl") as f:
        done = len({r["id"] for r in map(json.loads, f) if r.get("outcome") == "ok"})
    lost, redone = n - done, len(starts) - n
    row("atvi run, five SIGKILLs: runs lost", "0", str(lost), lost == 0)
    row("atvi run, five SIGKILLs: runs started twice", "at most those in flight (2 each)", str(redone), 0 <= redone <= 10)


def check_catchment(tmp):
    began = time.monotonic()
    done = subprocess.run([TOP / "examples/catchment/run"], capture_output=True, text=True, cwd=tmp, env={**os.environ, "ATVI": str(ARGS.program.resolve())})
    took = time.monotonic() - began
    row("examples/catchment/run: design to prediction", "under 120 s", f"exit {done.returncode}, {took:.0f} s", done.returncode == 0 and took < 120)


def check_table3(tmp):
    """Long chains on the hydrograph, and chains too short to agree; minutes."""
    model = hydrology()
    if not model:
        return row("hydrograph, ram", "", "no data", None)
    where = ("--folder", DATA / "hydrology", "--method", "ram", "--chains", 5, "--force", "--no-report")
    began = time.monotonic()
    s = fit(model, tmp / "ram", *where, "--max-iter", 500000, "--ess", 100000)
    took = time.monotonic() - began
    row("hydrograph, ram, 5 x 500 000", "<= 180 s", f"{took:.0f} s", took <= 180)
    row("hydrograph, ram, 5 x 500 000: log MAP", ">= -3572.2", f"{s['log_map']:.2f}", s["log_map"] >= -3572.2)
    s = fit(model, tmp / "short", *where, "--max-iter", 20000)
    row("hydrograph, ram, a chain in another mode", "verdict not ok", s["verdict"], s["verdict"] != "ok")


CHECKS = {"cold": check_cold, "rotavirus": check_rotavirus, "lotka": check_lotka, "tolerance": check_tolerance,
          "compile": check_compile, "cost": check_cost, "vi-cold": check_vi_cold, "vi-truncated": check_vi_truncated,
          "vi-lotka": check_vi_lotka, "vi-rotavirus": check_vi_rotavirus, "bounds": check_bounds, "modes": check_modes,
          "threads": check_threads, "stop": check_stop, "table1": check_table1, "hard": check_hard, "sbc": check_sbc,
          "hydrology-cost": check_hydrology_cost, "hydrology": check_hydrology, "emulator": check_emulator, "record": check_record,
          "catchment": check_catchment}
SLOW = {"table2": check_table2, "table3": check_table3} # by name only


def main():
    global ARGS
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=pathlib.Path, default=TOP / "build/atvi")
    parser.add_argument("--bench", default=TOP / "build/bench")
    parser.add_argument("name", nargs="*", help=", ".join([*CHECKS, *SLOW]))
    ARGS = parser.parse_args()
    for name in ARGS.name:
        if name not in CHECKS | SLOW:
            parser.error(f"no check named {name}; there are {', '.join([*CHECKS, *SLOW])}")
    for name in ARGS.name or CHECKS:
        with tempfile.TemporaryDirectory() as tmp:
            (CHECKS | SLOW)[name](pathlib.Path(tmp))
    print(f"{sum(r[3] == 'ok' for r in ROWS)} met, {len(FAILED)} missed")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
