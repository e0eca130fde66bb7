#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The figures of docs/performance.md: CPU time against parameters, units, states, rows and designs.

    tools/cost_plots.py [--build build] [--out docs/img] [NAME ...]

Needs a build of cost and bench_emulator (ninja -C build cost bench_emulator). Writes models and data into a temporary folder, runs each
size once, and writes one SVG per question: cost-d.svg, cost-units.svg, cost-states.svg, cost-rows.svg, cost-designs.svg. Prints the
figures, too. Some five minutes of CPU.
"""
import argparse
import functools
import math
import pathlib
import random
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent


# ---- models ----

def normals(folder, d):
    (folder / "model.atvi").write_text(
        f"index i = 1..{d}\nparam x[i] ~ normal(0, 1)\nlogp sum(k in i: -0.5*((x[k] - 0.1)/(0.5 + k/{d}))^2)\n")


def hierarchy(folder, d):
    rng = random.Random(d)
    groups = max(d - 2, 1)
    rows = []
    for g in range(groups):
        s = 0.5 + rng.random()
        rows.append(f"{g + 1},{rng.gauss(rng.gauss(1, 0.8), s):.4f},{s:.4f}")
    table(folder / "y.csv", "group,y,s", rows)
    (folder / "model.atvi").write_text(
        f"index group = 1..{groups}\nparam mu ~ normal(0, 5)\nparam tau ~ halfnormal(2)\n"
        'param theta[group] ~ normal(mu, tau)\ndata "y.csv"\nobserve y ~ normal(theta[group], s)\n')


def units(folder, n):
    """Oral doses: two of them and 11 values per subject."""
    rng = random.Random(n)
    subjects, doses, values = [], [], []
    for i in range(n):
        name, weight = f"s{i + 1:03d}", rng.uniform(50, 90)
        cl = math.exp(1 + 0.75 * math.log(weight / 70) + rng.gauss(0, 0.3))
        v = math.exp(3 + math.log(weight / 70) + rng.gauss(0, 0.2))
        ka = math.exp(rng.gauss(0, 0.3))
        subjects.append(f"{name},{weight:.1f}")
        doses += [f"{name},0,320", f"{name},24,320"]
        for t in (0.5, 1, 2, 4, 8, 12, 20, 25, 28, 36, 48):
            a = sum(320 * ka / (ka - cl / v) * (math.exp(-cl / v * (t - at)) - math.exp(-ka * (t - at))) for at in (0, 24) if t > at)
            values.append(f"{name},{t},{a / v * math.exp(rng.gauss(0, 0.1)):.4f}")
    table(folder / "subjects.csv", "subject,weight", subjects)
    table(folder / "doses.csv", "subject,time,amount", doses)
    table(folder / "conc.csv", "subject,hour,conc", values)
    (folder / "model.atvi").write_text("""param lCL ~ normal(1, 1)
param lV  ~ normal(3, 1)
param lka ~ normal(0, 1)
param wCL ~ halfnormal(0.5)
param wV  ~ halfnormal(0.5)
param wka ~ halfnormal(0.5)
param sigma ~ halfnormal(0.5)
each subject from "subjects.csv" {
  param CL ~ lognormal(lCL + 0.75*log(weight/70), wCL)
  param V  ~ lognormal(lV + log(weight/70), wV)
  param ka ~ lognormal(lka, wka)
  state G = 0
  state A = 0
  dG/dt = -ka*G
  dA/dt = ka*G - CL/V*A
  pulse G += amount at time from "doses.csv"
  start 0
  data "conc.csv" time hour
  observe conc ~ lognormal(log(A/V), sigma)
}
""")


def states(folder, n):
    """A chain of compartments that flows from the first to the last; the last is observed."""
    rng = random.Random(n)
    k, rows = n / 10, []
    x, h, steps = [100.0] + [0.0] * (n - 1), 0.002, 15000
    for step in range(1, steps + 1):
        flow = [k * v for v in x]
        x = [x[i] + h * ((flow[i - 1] if i else 0.0) - (0.0 if i == n - 1 else flow[i]) - 0.02 * x[i]) for i in range(n)]
        if step % (steps // 20) == 0:
            rows.append(f"{step * h:.3f},{x[-1] + rng.gauss(0, 1):.3f}")
    table(folder / "y.csv", "time,y", rows)
    (folder / "model.atvi").write_text(f"""index c = 1..{n}
param k ~ lognormal({math.log(k):.4f}, 0.5)
param loss ~ lognormal(-4, 0.5)
param s ~ halfnormal(2)
state X[i in c] = if i == 1 then 100 else 0
dX[1]/dt = -k*X[1] - loss*X[1]
dX[i in 2..{n - 1}]/dt = k*X[i-1] - k*X[i] - loss*X[i]
dX[{n}]/dt = k*X[{n - 1}] - loss*X[{n}]
start 0
data "y.csv" time time
observe y ~ normal(X[{n}], s)
""")


def rows_of(folder, n):
    """A regression with three coefficients."""
    rng = random.Random(n)
    lines = []
    for _ in range(n):
        a, b = rng.gauss(0, 1), rng.gauss(0, 1)
        lines.append(f"{a:.4f},{b:.4f},{int(rng.random() < 1 / (1 + math.exp(-0.3 - 0.8 * a + 0.5 * b)))}")
    table(folder / "y.csv", "u,v,y", lines)
    (folder / "model.atvi").write_text(
        'param b[1..3] ~ normal(0, 2)\ndata "y.csv"\nobserve y ~ binomial(1, invlogit(b[1] + b[2]*u + b[3]*v))\n')


def table(path, head, rows):
    path.write_text("\n".join([head, *rows]) + "\n")


# ---- measuring ----

BUILD = None


def call(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"cost_plots: {' '.join(map(str, command))}: exit {done.returncode}\n{done.stderr}")
    return done.stdout.split()


def gradient(make):
    def measure(n):
        with tempfile.TemporaryDirectory() as folder:
            make(pathlib.Path(folder), n)
            return float(call(BUILD / "bench/cost", "gradient", f"{folder}/model.atvi")[1])
    return measure


def fit(make):
    def measure(n):
        with tempfile.TemporaryDirectory() as folder:
            make(pathlib.Path(folder), n)
            call(BUILD / "bench/cost", "gradient", f"{folder}/model.atvi")  # compiles it
            return float(call(BUILD / "bench/cost", "fit", f"{folder}/model.atvi", 1)[1])
    return measure


@functools.lru_cache(maxsize=None)
def emulated(runs, outputs):
    return call(BUILD / "bench/bench_emulator", runs, outputs)


def emulator(field, outputs):
    return lambda n: float(emulated(n, outputs)[field])


D = (3, 10, 30, 100, 300, 1000)
# name: label of the axis, then panels: title and lines (label, sizes, what measures)
PLOTS = {
    "d": ("parameters", [
        ("gradient, microseconds", [("independent normals", D, gradient(normals)), ("hierarchy", D, gradient(hierarchy))]),
        ("fit, CPU seconds", [("independent normals", D, fit(normals)), ("hierarchy", D, fit(hierarchy))])]),
    "units": ("subjects, 2 states and 3 parameters each", [
        ("gradient, microseconds", [("", (1, 3, 12, 50, 200), gradient(units))]),
        ("fit, CPU seconds", [("", (1, 3, 12, 50), fit(units))])]),
    "states": ("states", [
        ("gradient, microseconds", [("", (3, 10, 30, 100), gradient(states))]),
        ("fit, CPU seconds", [("", (3, 10, 30, 100), fit(states))])]),
    "rows": ("rows of data", [
        ("gradient, microseconds", [("", (10, 100, 1000, 10000), gradient(rows_of))]),
        ("fit, CPU seconds", [("", (10, 100, 1000, 10000), fit(rows_of))])]),
    "designs": ("runs of the simulator", [
        ("emulator, CPU seconds", [("100 outputs", (50, 100, 200, 400, 1000), emulator(5, 100)),
                                   ("2 000 outputs", (50, 100, 200, 400, 1000), emulator(5, 2000))]),
        ("memory, MB", [("100 outputs", (50, 100, 200, 400, 1000), emulator(8, 100)),
                        ("2 000 outputs", (50, 100, 200, 400, 1000), emulator(8, 2000))])]),
}


# ---- drawing ----

WIDE, HIGH, LEFT, TOP_EDGE, BOTTOM = 360, 260, 52, 34, 44
STYLE = """text{font:12px sans-serif;fill:#333}.g{stroke:#ddd}.a,.b{fill:none;stroke-width:2}.a{stroke:#1f6fb4}.b{stroke:#c4561a}
.pa{fill:#1f6fb4}.pb{fill:#c4561a}.t{font-weight:bold}.n{font-size:10px}
@media (prefers-color-scheme:dark){text{fill:#ccc}.g{stroke:#444}.a{stroke:#6db3f2}.b{stroke:#f29b6d}.pa{fill:#6db3f2}.pb{fill:#f29b6d}}"""


def short(x):
    text = f"{x:.2g}" if x < 10 else f"{float(f'{x:.2g}'):.0f}"
    return text if "." in text or len(text) < 5 else f"{text[:-3]} {text[-3:]}"


def panel(x0, axis, title, lines):
    """lines: (label, [(size, value), ...]); both axes logarithmic."""
    xs = [n for _, points in lines for n, _ in points]
    ys = [v for _, points in lines for _, v in points]
    lo_x, hi_x = math.log10(min(xs)), math.log10(max(xs))
    lo_y, hi_y = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)) + 1e-9)
    right, low = x0 + WIDE - 16, HIGH - BOTTOM

    def x_at(n):
        return x0 + LEFT + 14 + (math.log10(n) - lo_x) / (hi_x - lo_x) * (right - x0 - LEFT - 28)

    def y_at(v):
        return low - (math.log10(v) - lo_y) / (hi_y - lo_y) * (low - TOP_EDGE)

    out = [f'<text class="t" x="{x0 + LEFT}" y="18">{title}</text>']
    for e in range(lo_y, hi_y + 1):
        y = y_at(10.0 ** e)
        out.append(f'<path class="g" d="M{x0 + LEFT - 6} {y:.1f}H{right}"/>'
                   f'<text class="n" text-anchor="end" x="{x0 + LEFT - 10}" y="{y + 4:.1f}">{short(10.0 ** e)}</text>')
    for n in sorted(set(xs)):
        out.append(f'<text class="n" text-anchor="middle" x="{x_at(n):.1f}" y="{low + 16}">{short(n)}</text>')
    out.append(f'<text text-anchor="middle" x="{(x0 + LEFT + right) / 2:.0f}" y="{low + 34}">{axis}</text>')
    for k, (label, points) in enumerate(lines):
        way = "L".join(f"{x_at(n):.1f} {y_at(v):.1f}" for n, v in points)
        out.append(f'<path class="{"ab"[k]}" d="M{way}"/>')
        other = dict(lines[1 - k][1]) if len(lines) > 1 else {}
        for n, v in points:
            below = v < other.get(n, 0) or (k == 1 and v == other.get(n))
            out.append(f'<circle class="p{"ab"[k]}" cx="{x_at(n):.1f}" cy="{y_at(v):.1f}" r="3"/>'
                       f'<text class="n" text-anchor="middle" x="{x_at(n):.1f}" y="{y_at(v) + (15 if below else -7):.1f}">{short(v)}</text>')
        if label:
            out.append(f'<circle class="p{"ab"[k]}" cx="{x0 + LEFT + 8}" cy="{TOP_EDGE + 4 + 16 * k}" r="4"/>'
                       f'<text x="{x0 + LEFT + 18}" y="{TOP_EDGE + 8 + 16 * k}">{label}</text>')
    return "\n".join(out)


def draw(axis, panels):
    body = "\n".join(panel(k * WIDE, axis, title, lines) for k, (title, lines) in enumerate(panels))
    wide = WIDE * len(panels)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {HIGH}" width="{wide}" height="{HIGH}">\n'
            f"<style>{STYLE}</style>\n{body}\n</svg>\n")


def main():
    global BUILD
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=TOP / "build")
    parser.add_argument("--out", type=pathlib.Path, default=TOP / "docs/img")
    parser.add_argument("name", nargs="*", help=", ".join(PLOTS))
    args = parser.parse_args()
    for name in args.name:
        if name not in PLOTS:
            parser.error(f"{name}: want {', '.join(PLOTS)}")
    BUILD = args.build.resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.name or PLOTS:
        axis, panels = PLOTS[name]
        found = []
        for title, lines in panels:
            found.append((title, []))
            for label, sizes, measure in lines:
                points = [(n, measure(n)) for n in sizes]
                found[-1][1].append((label, points))
                print(name, title, label, *(f"{n}: {v:.4g}" for n, v in points), sep="; ", flush=True)
        (args.out / f"cost-{name}.svg").write_text(draw(axis, found))


if __name__ == "__main__":
    main()
