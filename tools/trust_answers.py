#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The answers of `make trust`, computed without atvi: closed forms, and quadrature in at most three dimensions.

trust_answers.py [PATTERN ...]          recompute the answers that match and compare them with bench/trust/answers.json
trust_answers.py --write [PATTERN ...]  write them there instead

A target is a function below, named after the model file; its docstring says how the answer was had. Numbers and data come from the
model files and their CSV files where there are many, and are repeated here where there are few. Quadrature is Gauss-Legendre in panels
that end at the edges of the regions asked for, on a box that is shrunk until all of it matters; every answer is computed with a second, finer
rule too, and the difference must be below 1e-4 sd, 1e-4 of the sd and 1e-4 of the log evidence.
"""
import csv
import fnmatch
import functools
import itertools
import json
import math
import operator
import pathlib
import re
import sys

from math import exp, expm1, lgamma, log, log1p, pi, sqrt

HERE = pathlib.Path(__file__).resolve().parent.parent / "bench" / "trust"
TARGETS = {}
FINE = 1.0  # multiplies the number of nodes
HEAVY = 6.0  # kurtosis from which draws misjudge the error of their sd, so that the answer records it
TOO_HEAVY = 100.0  # kurtosis from which an sd is not judged: 25 000 draws have it to 3 % at best


def target(function):
    TARGETS[function.__name__] = function
    return function


# --- what the model files say ---------------------------------------------------------------------------------------------------

def column(name, col):
    with open(HERE / name, newline="") as f:
        return [float(r[col]) for r in csv.DictReader(f)]


def text_column(name, col):
    with open(HERE / name, newline="") as f:
        return [r[col] for r in csv.DictReader(f)]


def const(model, name):
    """The list (of lists) that a model file gives to a const."""
    m = re.search(rf"^const {name}\b[^=]*=\s*(\[.*?\])\s*$", (HERE / f"{model}.atvi").read_text(), re.M | re.S)
    return json.loads(re.sub(r"(?<![\d])\.(\d)", r"0.\1", m[1]))


# --- densities ------------------------------------------------------------------------------------------------------------------

def normal(x, m, s):
    return -0.5 * ((x - m) / s) ** 2 - log(s) - 0.5 * log(2 * pi)


def halfcauchy(x, s):
    return log(2 / pi) - log(s) - log1p((x / s) ** 2)


def student(x, df, m, s):
    z = (x - m) / s
    return lgamma((df + 1) / 2) - lgamma(df / 2) - 0.5 * log(df * pi) - log(s) - (df + 1) / 2 * log1p(z * z / df)


def gamma(x, a, b):
    return a * log(b) - lgamma(a) + (a - 1) * log(x) - b * x


def invgamma(x, a, b):
    return a * log(b) - lgamma(a) - (a + 1) * log(x) - b / x


def beta(x, a, b):
    return lgamma(a + b) - lgamma(a) - lgamma(b) + (a - 1) * log(x) + (b - 1) * log1p(-x)


def poisson(y, m):
    return y * log(m) - m - lgamma(y + 1)


def negbin(y, m, s):
    return lgamma(y + s) - lgamma(s) - lgamma(y + 1) + s * log(s / (s + m)) + y * log(m / (s + m))


def choose(n, k):
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)


def binomial_logit(y, n, x):
    """log binomial(n, invlogit(x)) at y, for any x"""
    return choose(n, y) + y * min(x, 0.0) - y * log1p(exp(-abs(x))) - (n - y) * (max(x, 0.0) + log1p(exp(-abs(x))))


def log_sum(*a):
    top = max(a)
    return top if top == -math.inf else top + log(sum(exp(x - top) for x in a))


def Phi(z):
    return 0.5 * math.erfc(-z / sqrt(2))


# --- sums of weighted points ----------------------------------------------------------------------------------------------------

def split(where):
    """'tau < 0.1' as (name, op, number), or None"""
    m = re.fullmatch(r"(\w+) ([<>]) (-?[\d.]+(?:e-?\d+)?)", where)
    return (m[1], m[2], float(m[3])) if m else None


class Sum:
    """Moments and regions of points with log weights. A value is a number or (mean, sd) of a normal; regions of the latter are intervals."""

    def __init__(self, names, regions=()):
        self.names, self.top, self.total = list(names), -math.inf, 0.0
        self.keys = [n.replace(".", "_") for n in self.names]
        self.first, self.second, self.third, self.fourth = ([0.0] * len(self.names) for _ in range(4))
        self.regions, self.share = list(regions), [0.0] * len(regions)
        self.parts = [split(r) for r in regions]
        self.code = [compile(r, r, "eval") for r in regions]

    def add(self, lw, values):
        if lw == -math.inf:
            return
        if lw > self.top:
            f = exp(self.top - lw) if self.total else 0.0
            self.total *= f
            self.first = [f * v for v in self.first]
            self.second = [f * v for v in self.second]
            self.third = [f * v for v in self.third]
            self.fourth = [f * v for v in self.fourth]
            self.share = [f * v for v in self.share]
            self.top = lw
        w = exp(lw - self.top)
        if w < 1e-18:
            return
        self.total += w
        for i, v in enumerate(values):
            m, s = v if isinstance(v, tuple) else (v, 0.0)
            self.first[i] += w * m
            self.second[i] += w * (m * m + s * s)
            self.third[i] += w * (m ** 3 + 3 * m * s * s)
            self.fourth[i] += w * (m ** 4 + 6 * (m * s) ** 2 + 3 * s ** 4)
        scope = None
        for j, part in enumerate(self.parts):
            if part:
                v = values[self.keys.index(part[0])]
                if isinstance(v, tuple):
                    z = (part[2] - v[0]) / v[1]
                    p = Phi(z) if part[1] == "<" else Phi(-z)
                else:
                    p = float(v < part[2] if part[1] == "<" else v > part[2])
            else:
                scope = scope or dict(zip(self.keys, values))
                p = float(eval(self.code[j], {"sqrt": sqrt, "abs": abs}, scope))
            self.share[j] += w * p

    def answer(self, how, evidence=True):
        a = {"how": how, "parameters": {}, "regions": []}
        a["log_evidence"] = self.top + log(self.total) if evidence else None
        for i, n in enumerate(self.names):
            m, m2, m3, m4 = (x[i] / self.total for x in (self.first, self.second, self.third, self.fourth))
            v = max(m2 - m * m, 0.0)
            a["parameters"][n] = {"mean": m, "sd": sqrt(v)}
            if v > 1e-10 * m2:
                kurtosis = (m4 - 4 * m * m3 + 6 * m * m * m2 - 3 * m ** 4) / v ** 2
                if kurtosis > TOO_HEAVY:
                    a["parameters"][n] = {"mean": m, "sd": None, "scale": sqrt(v)}
                elif kurtosis > HEAVY:
                    a["parameters"][n]["kurtosis"] = round(kurtosis, 1)
        a["regions"] = [{"where": r, "p": s / self.total} for r, s in zip(self.regions, self.share)]
        return a


_gl = {}


def gauss(n):
    """Nodes and weights of Gauss-Legendre on (-1, 1)."""
    if n not in _gl:
        out = []
        for i in range(n):
            x = math.cos(pi * (i + 0.75) / (n + 0.5))
            for _ in range(100):
                p0, p1 = 1.0, x
                for k in range(2, n + 1):
                    p0, p1 = p1, ((2 * k - 1) * x * p1 - (k - 1) * p0) / k
                d = n * (x * p1 - p0) / (x * x - 1)
                step = p1 / d
                x -= step
                if abs(step) < 1e-15:
                    break
            out.append((x, 2 / ((1 - x * x) * d * d)))
        _gl[n] = out
    return _gl[n]


def panels(breaks, n):
    """Nodes and log weights on the panels between breaks; n nodes in all, at least 24 in each panel."""
    each = max(24, int(FINE * n / (len(breaks) - 1)))
    out = []
    for a, b in zip(breaks, breaks[1:]):
        h, c = (b - a) / 2, (a + b) / 2
        out += [(c + h * x, log(h * w)) for x, w in gauss(each)]
    return out


def line(a, b, n=400, cuts=()):
    return panels([a] + sorted(c for c in cuts if a < c < b) + [b], n)


def shrink(f, box, n, rounds, drop=34.0):
    """The part of the box where log f is within `drop` of its largest: a grid, its best cells and their neighbours, again."""
    for _ in range(rounds):
        axes = [[a + (b - a) * (k + 0.5) / n for k in range(n)] for a, b in box]
        values = {i: f([ax[k] for ax, k in zip(axes, i)]) for i in itertools.product(range(n), repeat=len(box))}
        top = max(values.values())
        keep = [i for i, v in values.items() if v > top - drop]
        new = []
        for j, (a, b) in enumerate(box):
            lo, hi = min(i[j] for i in keep), max(i[j] for i in keep)
            h = (b - a) / n
            new.append((max(a, a + (lo - 1) * h), min(b, a + (hi + 2) * h)))
        if all(n2[1] - n2[0] > 0.9 * (o[1] - o[0]) for n2, o in zip(new, box)):
            break
        box = new
    return box


def quadrature(how, names, f, box, regions=(), values=None, cuts=None, n=None, coarse=None, fixed=False, drop=34.0):
    """Integrate exp(f(u)) over a box; values(u) are those of the names (default u itself). cuts: {axis: edges} in u."""
    d = len(box)
    n = n or (600, 100, 56)[d - 1]
    coarse = coarse or (400, 40, 16)[d - 1]
    if not fixed:
        box = shrink(f, box, coarse, 12, drop)
    cuts = cuts or {}
    axes = [line(a, b, n, cuts.get(j, ())) for j, (a, b) in enumerate(box)]
    total = Sum(names, regions)
    values = values or (lambda u: u)
    for node in itertools.product(*axes):
        u = [x for x, _ in node]
        lw = f(u)
        if lw > -math.inf:
            lw += sum(w for _, w in node)
            if lw > total.top - 45:
                total.add(lw, values(u))
    return total.answer(how)


def closed(log_evidence, parameters, regions=(), how="closed form"):
    """parameters: {name: (mean, sd)}, None for what does not exist or cannot be judged by draws; regions: [(where, p)]"""
    return {"how": how, "log_evidence": log_evidence, "parameters": {k: {"mean": m, "sd": s} for k, (m, s) in parameters.items()},
            "regions": [{"where": w, "p": p} for w, p in regions]}


# --- normal posteriors ----------------------------------------------------------------------------------------------------------

def cholesky(a):
    n = len(a)
    c = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for j in range(i + 1):
            s = a[i][j] - sum(c[i][k] * c[j][k] for k in range(j))
            c[i][j] = sqrt(s) if i == j else s / c[j][j]
    return c


def solve(c, b):
    """x with c c' x = b"""
    n, y = len(b), []
    for i in range(n):
        y.append((b[i] - sum(c[i][k] * y[k] for k in range(i))) / c[i][i])
    x = [0.0] * n
    for i in reversed(range(n)):
        x[i] = (y[i] - sum(c[k][i] * x[k] for k in range(i + 1, n))) / c[i][i]
    return x


def gaussian(rows):
    """exp(-sum_r ((a_r x - b_r)/s_r)^2/2 - norm_r): rows (a as {index: factor}, b, s, log norm). Returns log integral, means, sds, covariance."""
    d = 1 + max(i for a, *_ in rows for i in a)
    p, h, c = [[0.0] * d for _ in range(d)], [0.0] * d, 0.0
    for a, b, s, norm in rows:
        c += norm - 0.5 * (b / s) ** 2
        for i, x in a.items():
            h[i] += x * b / s ** 2
            for j, y in a.items():
                p[i][j] += x * y / s ** 2
    l = cholesky(p)
    m = solve(l, h)
    cov = [solve(l, [float(i == j) for j in range(d)]) for i in range(d)]
    z = c + 0.5 * sum(x * y for x, y in zip(m, h)) - sum(log(l[i][i]) for i in range(d)) + 0.5 * d * log(2 * pi)
    return z, m, [sqrt(cov[i][i]) for i in range(d)], cov


def prior_row(i, m, s):
    return ({i: 1.0}, m, s, -log(s) - 0.5 * log(2 * pi))


def gaussian_answer(rows, names, regions=()):
    z, m, s, _ = gaussian(rows)
    a = closed(z, {n: (m[i], s[i]) for i, n in enumerate(names)}, how="closed form: a normal posterior")
    for where in regions:
        n, op, c = split(where)
        i = names.index(n)
        p = Phi((c - m[i]) / s[i])
        a["regions"].append({"where": where, "p": p if op == "<" else 1 - p})
    return a


# --- targets --------------------------------------------------------------------------------------------------------------------

@target
def normal1():
    return gaussian_answer([prior_row(0, 0, 10), ({0: 1.0}, 1.37, 0.21, 0.0)], ["x"], ["x < 1.2"])


@target
def regression20():
    x = [column("regression20.csv", f"x{j + 1}") for j in range(20)]
    y = column("regression20.csv", "y")
    rows = [prior_row(j, 0, 5) for j in range(20)]
    rows += [({j: x[j][r] for j in range(20)}, y[r], 1.3, -log(1.3) - 0.5 * log(2 * pi)) for r in range(len(y))]
    return gaussian_answer(rows, [f"b.{j + 1}" for j in range(20)])


@target
def flat_regression():
    """b given sigma is normal, and sigma^2 has an inverse gamma distribution with shape (n - k - 1) / 2."""
    y, x = column("flat_regression.csv", "y"), [column("flat_regression.csv", c) for c in ("x", "z")]
    rows = [[1.0, a, b] for a, b in zip(*x)]
    n, k = len(y), 3
    xx = [[sum(r[i] * r[j] for r in rows) for j in range(k)] for i in range(k)]
    c = cholesky(xx)
    b = solve(c, [sum(r[i] * v for r, v in zip(rows, y)) for i in range(k)])
    inverse = [solve(c, [float(i == j) for j in range(k)])[i] for i in range(k)]
    half = 0.5 * sum((v - sum(p * q for p, q in zip(r, b))) ** 2 for r, v in zip(rows, y))
    a = 0.5 * (n - k - 1)
    s2, s1 = half / (a - 1), sqrt(half) * exp(lgamma(a - 0.5) - lgamma(a))
    z = -0.5 * (n - k) * log(2 * pi) - sum(log(c[i][i]) for i in range(k)) - log(2) + lgamma(a) - a * log(half)
    return closed(z, {**{f"b.{i + 1}": (b[i], sqrt(s2 * inverse[i])) for i in range(k)}, "sigma": (s1, sqrt(s2 - s1 * s1))})


@target
def flat_logit():
    """Flat priors; over the log odds at the centre of x, and b."""
    x, y = column("flat_logit.csv", "x"), column("flat_logit.csv", "y")
    centre = sum(x) / len(x)
    rows = [(v - centre, w) for v, w in zip(x, y)]

    def f(u):
        return sum(binomial_logit(w, 1, u[0] + u[1] * v) for v, w in rows)

    return quadrature("quadrature", ["a", "b"], f, [(-6, 6), (-3, 3)], ["b > 0.3"], lambda u: [u[0] - u[1] * centre, u[1]], {1: [0.3]}, n=60)


@target
def survival():
    """Over log k, a at the centre of the groups, and b."""
    t = [(float(v.lstrip(">")), v[0] == ">") for v in text_column("survival.csv", "t")]
    x = column("survival.csv", "x")

    def f(u):
        k, total = exp(u[0]), log(0.001) - 0.001 * exp(u[0]) + u[0] + normal(u[1] - 0.5 * u[2], 0, 100)
        for (v, more), g in zip(t, x):
            z = k * (log(v) - u[1] - u[2] * (g - 0.5))
            total += -exp(z) + (0.0 if more else u[0] + z - log(v))
        return total

    return quadrature("quadrature", ["k", "a", "b"], f, [(-0.6, 1.4), (1.9, 4.2), (-1.2, 3.2)], ["b < 0.3"],
                      lambda u: [exp(u[0]), u[1] - 0.5 * u[2], u[2]], {2: [0.3]}, n=64, fixed=True)


@target
def litters():
    rows = list(zip(column("litters.csv", "r"), column("litters.csv", "n")))

    def f(u):
        mu, size = 1 / (1 + exp(-u[0])), exp(u[1])
        a, b = mu * size, (1 - mu) * size
        total = log(mu) + log1p(-mu) + log(0.01) - 0.01 * size + u[1]
        return total + sum(choose(n, r) + lgamma(r + a) + lgamma(n - r + b) - lgamma(n + size) + lgamma(size) - lgamma(a) - lgamma(b) for r, n in rows)

    return quadrature("quadrature", ["mu", "size"], f, [(-4, 3), (-2, 9)], ["size > 20"], lambda u: [1 / (1 + exp(-u[0])), exp(u[1])], {1: [log(20)]}, n=100)


@target
def litter_groups():
    """Groups are independent, and the probabilities of litters are integrated out."""
    parts = []
    for g, file in enumerate(("litters_one.csv", "litters_two.csv"), 1):
        rows = list(zip(column(file, "r"), column(file, "n")))

        def f(u):
            mu, size = 1 / (1 + exp(-u[0])), exp(u[1])
            a, b = mu * size, (1 - mu) * size
            total = log(mu) + log1p(-mu) + log(0.01) - 0.01 * size + u[1]
            return total + sum(choose(n, r) + lgamma(r + a) + lgamma(n - r + b) - lgamma(n + size) + lgamma(size) - lgamma(a) - lgamma(b) for r, n in rows)

        edge = (10, 3)[g - 1]
        parts.append(quadrature("quadrature", [f"mu.{g}", f"m.{g}"], f, [(-5, 7), (-4, 9)], [f"m_{g} < {edge}"],
                                lambda u: [1 / (1 + exp(-u[0])), exp(u[1])], {1: [log(edge)]}, n=100))
    a, b = parts
    return {**a, "log_evidence": a["log_evidence"] + b["log_evidence"], "parameters": {**a["parameters"], **b["parameters"]},
            "regions": a["regions"] + b["regions"]}


@target
def beetles():
    """Over the predictor at the dose 1.8, and b."""
    rows = list(zip(*(column("beetles.csv", c) for c in ("x", "n", "r"))))

    def f(u):
        total = normal(u[0] - 1.8 * u[1], 0, 1000) + normal(u[1], 0, 1000)
        for x, n, r in rows:
            h = exp(u[0] + u[1] * (x - 1.8))
            total += choose(n, r) + r * log(-expm1(-h)) - (n - r) * h
        return total

    return quadrature("quadrature", ["a", "b"], f, [(-1, 1.5), (10, 35)], ["b > 24"], lambda u: [u[0] - 1.8 * u[1], u[1]], {1: [24.0]}, n=80)


@target
def walk60():
    y = const("walk60", "y")
    rows = [prior_row(0, 0, 0.35)] + [({i: 1.0, i - 1: -1.0}, 0, 0.35, -log(0.35) - 0.5 * log(2 * pi)) for i in range(1, 60)]
    rows += [({4 * k + 3: 1.0}, y[k], 0.4, 0.0) for k in range(15)]
    return gaussian_answer(rows, [f"x.{i + 1}" for i in range(60)])


@target
def ridge2():
    return gaussian_answer([prior_row(0, 0, 10), prior_row(1, 0, 10), ({0: 1.0, 1: -1.0}, 0.3, 0.1, 0.0)], ["x", "y"], ["x > 10"])


@target
def ridge10():
    rows = [prior_row(i, 0, 10) for i in range(10)] + [({i: 1.0, i + 1: -1.0}, 0.1 * (i + 1), 0.05, 0.0) for i in range(9)]
    return gaussian_answer(rows, [f"x.{i + 1}" for i in range(10)])


@target
def ridge_square():
    """Given x, y is normal around 1 - x; the edges of the square change nothing above 1e-4."""
    return closed(log(1e-4 * sqrt(2 * pi)), {"x": (0.5, sqrt(1 / 12)), "y": (0.5, sqrt(1 / 12))}, [("x < 0.05", 0.05), ("x > 0.95", 0.05)],
                  how="closed form: x is uniform, y is 1 - x within 1e-4")


def schools_answer(model, prior, top):
    """Given tau, mu and theta are normal."""
    y, s = const(model, "y"), const(model, "sigma")

    def given(tau):
        v = [a * a + tau * tau for a in s]
        h = sum(b / w for b, w in zip(y, v))
        p = 1 / 25 + sum(1 / w for w in v)
        m, q = h / p, 1 / p
        z = sum(-0.5 * log(2 * pi * w) - 0.5 * b * b / w for b, w in zip(y, v)) - 0.5 * log(25 * p) + 0.5 * h * h / p
        out = [(m, sqrt(q)), tau]
        for b, a in zip(y, s):
            k = tau * tau / (a * a + tau * tau)
            out.append((k * b + (1 - k) * m, sqrt(k * a * a + (1 - k) ** 2 * q)))
        return z, out

    names = ["mu", "tau"] + [f"theta.{i + 1}" for i in range(8)]
    regions = ["tau < 0.1", "tau < 0.3", "tau < 1"] if model != "schools_strong" else ["tau < 3", "tau > 8"]
    edge = [float(r.split()[2]) for r in regions]
    return quadrature("quadrature over tau; all else is normal given tau", names, lambda u: given(exp(u[0]))[0] + prior(exp(u[0])) + u[0],
                      [(log(1e-9), log(top))], regions, lambda u: given(exp(u[0]))[1], {0: [log(e) for e in edge]}, n=2000, fixed=True)


@target
def schools():
    return schools_answer("schools", lambda t: halfcauchy(t, 5), 1e6)


@target
def schools_uniform():
    return schools_answer("schools_uniform", lambda t: -log(50), 50)


@target
def schools_strong():
    return schools_answer("schools_strong", lambda t: halfcauchy(t, 5), 1e6)


@target
def three_levels():
    y = const("three_levels", "y")
    names = ["mu", "tau", "kappa"] + [f"m.{i + 1}" for i in range(3)] + [f"theta.{i + 1}.{j + 1}" for i in range(3) for j in range(3)]

    def given(u, full):
        """Given tau and kappa: precision-weighted means from the groups up, then back down; exact for the tree."""
        tau, kappa = exp(u[0]), exp(u[1])
        s2, k2, t2 = 0.64, kappa ** 2, tau ** 2
        lp = log(sqrt(2 / pi) / 2) * 2 - tau ** 2 / 8 - kappa ** 2 / 8 + u[0] + u[1]
        v = s2 + k2
        up = []
        for row in y:
            n, mean = len(row), sum(row) / len(row)
            lp += -0.5 * n * log(2 * pi * v) - 0.5 * sum((a - mean) ** 2 for a in row) / v + 0.5 * log(2 * pi * v / n)
            up.append((mean, v / n))
        w = [q + t2 for _, q in up]
        p = 1 / 25 + sum(1 / a for a in w)
        h = sum(m / a for (m, _), a in zip(up, w))
        lp += sum(-0.5 * log(2 * pi * a) - 0.5 * m * m / a for (m, _), a in zip(up, w)) - 0.5 * log(25 * p) + 0.5 * h * h / p
        if not full:
            return lp
        mu, q = h / p, 1 / p
        out = [(mu, sqrt(q)), tau, kappa]
        mid = []
        for mean, e in up:
            k = t2 / (t2 + e)
            mid.append((k * mean + (1 - k) * mu, k * e + (1 - k) ** 2 * q))
        out += [(m, sqrt(a)) for m, a in mid]
        for i, row in enumerate(y):
            # theta_ij given m_i is k y + (1-k) m_i + noise; m_i and y are not independent, but m_i's law given all y is mid[i].
            k = k2 / (k2 + s2)
            out += [(k * a + (1 - k) * mid[i][0], sqrt(k * s2 + (1 - k) ** 2 * mid[i][1])) for a in row]
        return out

    regions = ["tau < 0.2", "kappa < 0.2", "kappa < 0.05", "tau > 3"]
    return quadrature("quadrature over both sds; all else is normal given them", names, lambda u: given(u, False), [(log(1e-6), log(30))] * 2,
                      regions, lambda u: given(u, True), {0: [log(0.2), log(3)], 1: [log(0.2), log(0.05)]}, n=180, fixed=True)


@target
def funnel():
    """x has kurtosis 3 exp(9): its sd cannot be judged by thousands of draws, its quantiles can."""
    how = "closed form; P(|x| < c) by quadrature over v"
    parameters = {"v": (0.0, 3.0)}
    p = {c: 0.0 for c in (0.05, 1.0, 20.0)}
    for v, w in line(-30, 30, 600):
        for c in p:
            p[c] += exp(w + normal(v, 0, 3)) * math.erf(c / exp(v / 2) / sqrt(2))
    regions = [("v < -5", Phi(-5 / 3)), ("v < -6.98", Phi(-6.98 / 3)), ("v > 5", Phi(-5 / 3))]
    regions += [(f"abs(x_{i}) < {c}", p[c]) for i in (1, 9) for c in p]
    return closed(0.0, parameters, regions, how) | {"d": 10}


@target
def funnel_data():
    y = const("funnel_data", "y")

    def f(u):
        return normal(u[0], 0, 3) + sum(-0.5 * log1p(exp(u[0])) - 0.5 * b * b / (1 + exp(u[0])) for b in y)

    def values(u):
        k = exp(u[0]) / (1 + exp(u[0]))
        return [u[0]] + [(k * b, sqrt(k)) for b in y]

    return quadrature("quadrature over v; x is normal given v", ["v"] + [f"x.{i + 1}" for i in range(6)], f, [(-30, 20)], ["v < -6", "v < -3", "v > 0"],
                      values, {0: [-6, -3, 0]})


@target
def crescents():
    s = 0.05

    def inner(x):
        m = 1 + 0.3 * x * x
        return log(2 * s * sqrt(2 * pi) / 12) + log(max(Phi((6 - m) / s), 1e-300)), m

    a = quadrature("quadrature over x; |y| is normal given x", ["x"], lambda u: normal(u[0], 0, 1) + inner(u[0])[0], [(-4.2, 4.2)], ["x > 1.5"], cuts={0: [1.5]}, fixed=True)
    second = quadrature("", ["x"], lambda u: normal(u[0], 0, 1) + inner(u[0])[0] + log(inner(u[0])[1] ** 2 + s * s), [(-4.2, 4.2)], fixed=True)
    a["parameters"]["y"] = {"mean": 0.0, "sd": sqrt(exp(second["log_evidence"] - a["log_evidence"]))}
    a["regions"] += [{"where": "y > 0", "p": 0.5}, {"where": "x < 0 and y < 0", "p": 0.25}, {"where": "x < 0 and y > 0", "p": 0.25}]
    return a


@target
def crescents_cut():
    """Each half ring has r normal(.1, .01) and its angle uniform on (-pi/2, pi/2)."""
    r1, r2 = 0.1, 0.1 ** 2 + 0.01 ** 2
    along = 0.25 ** 2 + 2 * 0.25 * r1 * 2 / pi + r2 / 2
    v = (along + r2 / 2) / 2
    return closed(log(2 * pi * 0.01 * sqrt(2 * pi) / 4), {"x": (0.0, sqrt(v)), "y": (0.0, sqrt(v))},
                  [("x + y > 0", 0.5), ("y > x", 0.5), ("x + y > 0 and y > x", 0.25), ("abs(y - x) > 1.7320508*(abs(x + y) - 0.3535533906)", 1 / 3)])


def shell(d, width, box, name):
    """Polar coordinates."""
    surface = log(2) + 0.5 * d * log(pi) - lgamma(d / 2)
    t = Sum(["r"])
    for r, w in line(0.2, 1.8, 400):
        t.add(w - 0.5 * ((r - 1) / width) ** 2 + (d - 1) * log(r), [r])
    a = t.answer("quadrature over the radius")
    second = a["parameters"]["r"]["mean"] ** 2 + a["parameters"]["r"]["sd"] ** 2
    s = sqrt(second / d)
    return closed(a["log_evidence"] + surface - d * log(box), {n: (0.0, s) for n in name}, how="quadrature over the radius, the angles in closed form")


@target
def ring():
    a = shell(2, 0.05, 4, ["x", "y"])
    a["regions"] = [{"where": w, "p": p} for w, p in (("x > 0", 0.5), ("y > 0", 0.5), ("x > 0 and y > 0", 0.25), ("abs(x) < abs(y)*0.5773502692", 1 / 3))]
    return a


@target
def shell5():
    a = shell(5, 0.08, 4, [f"x.{i + 1}" for i in range(5)])
    a["regions"] = [{"where": w, "p": p} for w, p in (("x_1 > 0", 0.5), ("x_2 > 0 and x_3 > 0 and x_4 > 0", 0.125))]
    return a


def far_mode(d):
    z = d * 0.5 * log(2 * pi) - d * log(40)
    parameters = {"x.1": (0.3, sqrt(1 + 0.03 * 0.97 * 100))}
    parameters.update({f"x.{i + 1}": (0.0, 1.0) for i in range(1, d)})
    return closed(z, parameters, [("x_1 > 5", 0.03), ("x_1 < -1.2815516", 0.097)])


@target
def far_mode2():
    return far_mode(2)


@target
def far_mode5():
    return far_mode(5)


@target
def far_mode10():
    return far_mode(10)


@target
def wide_narrow():
    """Half of the mass in each; both fit in the box."""
    m, s = 1.5, sqrt((1 + 0.02 ** 2) / 2 + 0.25 * 9)
    return closed(log(4 * pi / 400), {"x": (m, s), "y": (m, s)}, [("sqrt((x - 3)**2 + (y - 3)**2) < 0.1", 0.5 + 0.5 * 6.2e-7)])


@target
def hier_logit():
    """Given mu and tau the clinics are independent: an inner quadrature for each, in z = (theta - mu)/tau, is exact for tau -> 0 too."""
    n, k = const("hier_logit", "n"), const("hier_logit", "k")
    nodes = [(x, w + normal(x, 0, 1)) for x, w in line(-8.5, 8.5, 60)]
    seen = {}

    def given(u):
        if tuple(u) in seen:
            return seen[tuple(u)]
        mu, tau = u[0], exp(u[1])
        lp = normal(mu, 0, 2) + log(2) + normal(tau, 0, 1) + u[1]
        out = [mu, tau]
        grid = [(mu + tau * z, w) for z, w in nodes]
        grid = [(t, w, max(t, 0.0) + log1p(exp(-abs(t)))) for t, w in grid]
        for a, b in zip(n, k):
            s0 = s1 = s2 = 0.0
            top = max(w + b * t - a * c for t, w, c in grid)
            for t, w, c in grid:
                e = exp(w + b * t - a * c - top)
                s0 += e
                s1 += e * t
                s2 += e * t * t
            lp += top + log(s0)
            out.append((s1 / s0, sqrt(max(s2 / s0 - (s1 / s0) ** 2, 1e-30))))
        seen[tuple(u)] = lp, out
        return lp, out

    return quadrature("quadrature over mu and tau, and over each clinic given them", ["mu", "tau"] + [f"theta.{i + 1}" for i in range(8)], lambda u: given(u)[0],
                      [(-4.0, 2.0), (log(1e-6), log(5))], ["tau < 0.05", "tau < 0.2", "tau > 0.5"], lambda u: given(u)[1], {1: [log(0.05), log(0.2), log(0.5)]}, n=60, fixed=True)


@target
def horseshoe():
    """beta is normal given lambda tau, so that y has variance 1 + (lambda tau)^2. lambda and tau have no variance, and are judged by regions."""
    y = const("horseshoe", "y")
    inner = line(-14, 14, 280, [0.0])
    names = ["tau"] + [f"beta.{j + 1}" for j in range(5)]
    t = Sum(names, ["tau < 0.1", "tau > 2"])
    big = [0.0] * 5
    for u, wu in line(log(1e-7), log(1e7), 400, [log(0.1), log(2)]):
        tau = exp(u)
        lp, values, shares = halfcauchy(tau, 1) + u + wu, [tau], []
        for b in y:
            s0 = s1 = s2 = p = 0.0
            for v, wv in inner:
                lam = exp(v)
                q = (lam * tau) ** 2
                e = exp(halfcauchy(lam, 1) + v + wv - 0.5 * log1p(q) - 0.5 * b * b / (1 + q))
                k = q / (1 + q)
                s0 += e
                s1 += e * k * b
                s2 += e * (k + (k * b) ** 2)
                p += e * (v > 0)
            lp += log(s0)
            values.append((s1 / s0, sqrt(max(s2 / s0 - (s1 / s0) ** 2, 1e-30))))
            shares.append(p / s0)
        t.add(lp, values)
        big = [a + exp(lp) * s for a, s in zip(big, shares)]
    a = t.answer("quadrature over tau and over each lambda; beta is normal given both")
    z = exp(a["log_evidence"])
    del a["parameters"]["tau"]
    a["regions"] += [{"where": f"lambda_{j + 1} > 1", "p": big[j] / z} for j in range(5)]
    a["d"] = 11
    return a


@target
def hyperbola():
    def f(u):
        v = 0.04 + 4 * u[0] ** 2
        return normal(u[0], 0, 2) + log(0.2 * sqrt(2 * pi)) - 0.5 * log(2 * pi * v) - 0.5 * 16 / v

    def values(u):
        p = 1 / 4 + u[0] ** 2 / 0.04
        return [u[0], (u[0] * 4 / 0.04 / p, sqrt(1 / p))]

    return quadrature("quadrature over x; y is normal given x", ["x", "y"], f, [(-16, 16)], ["x > 0", "x < -2", "x > 2"], values, {0: [-2, 0, 2]}, n=1200, fixed=True)


@target
def label2():
    y = const("label2", "y")

    def f(u):
        a, b, s = u
        lp = normal(a, 0, 5) + normal(b, 0, 5) - log(2.8) - len(y) * log(2 * s * sqrt(2 * pi))
        c = 0.5 / (s * s)
        for v in y:
            p, q = c * (v - a) ** 2, c * (v - b) ** 2
            lp += -min(p, q) + log1p(exp(-abs(p - q)))
        return lp

    # Both orders of the names are in the box, which is therefore large; the panels meet on no particular line, and the density is smooth.
    return quadrature("quadrature", ["m.1", "m.2", "s"], f, [(-12, 12), (-12, 12), (0.2, 3)], ["m_1 > 0", "m_1 > 0 and m_2 < 0", "s > 1.2"], cuts={0: [0], 1: [0], 2: [1.2]}, n=84, drop=22.0)


@target
def label2_known():
    y = const("label2_known", "y")

    def f(u):
        lp = normal(u[0], 0, 5) + normal(u[1], 0, 5) - len(y) * log(2 * sqrt(2 * pi))
        for v in y:
            p, q = 0.5 * (v - u[0]) ** 2, 0.5 * (v - u[1]) ** 2
            lp += -min(p, q) + log1p(exp(-abs(p - q)))
        return lp

    return quadrature("quadrature", ["m.1", "m.2"], f, [(-12, 12), (-12, 12)], ["m_1 > 0", "m_1 > 0 and m_2 < 0"], cuts={0: [0], 1: [0]}, n=160, coarse=80)


@target
def label3():
    """The means are far enough apart for the six orders to be copies of one, which is integrated alone."""
    y = const("label3", "y")

    def f(u):
        lp = sum(normal(v, 0, 5) for v in u) - len(y) * log(3 * sqrt(2 * pi))
        for v in y:
            d = [0.5 * (v - m) ** 2 for m in u]
            c = min(d)
            lp += -c + log(sum(exp(c - e) for e in d))
        return lp

    def box(u):
        return f(u) if u[0] < u[1] < u[2] else -math.inf

    one = quadrature("", ["a", "b", "c"], box, [(-8, 0), (-4, 5), (0, 9)], n=40, drop=30.0)
    p = one["parameters"]
    m = sum(p[k]["mean"] for k in "abc") / 3
    s = sqrt(sum(p[k]["sd"] ** 2 + p[k]["mean"] ** 2 for k in "abc") / 3 - m * m)
    return closed(one["log_evidence"] + log(6), {f"m.{i + 1}": (m, s) for i in range(3)},
                  [(f"m_{i} < m_{j} < m_{k}", 1 / 6) for i, j, k in itertools.permutations((1, 2, 3))], "quadrature over one order of the names, times six")


@target
def wide_narrow5():
    m, s = 1.0, sqrt((1 + 0.05 ** 2) / 2 + 1.0)
    return closed(log(2) + 2.5 * log(2 * pi) - 5 * log(20), {f"x.{i + 1}": (m, s) for i in range(5)},
                  [("sqrt((x_1 - 2)**2 + (x_2 - 2)**2 + (x_3 - 2)**2 + (x_4 - 2)**2 + (x_5 - 2)**2) < 0.35", 0.5 + 1e-7)])


@target
def bound_modes():
    def f(u):
        return log(exp(-u[0] / 0.05) + 0.5 * exp(-(1 - u[0]) / 0.02)) + log(0.5 * sqrt(2 * pi)) + normal(u[0], 0, sqrt(1.25))

    return quadrature("quadrature over x; y is normal given x", ["x", "y"], f, [(0, 1)], ["x < 0.005", "x > 0.5", "x > 0.998"], lambda u: [u[0], (u[0] * 0.8, sqrt(0.2))],
                      {0: [0.005, 0.1, 0.5, 0.9, 0.998]}, fixed=True)


@target
def edge_modes():
    """|x| - 1 is exponential up to 2; y is normal given x, and its bounds cut off less than 1e-3 of it, which is computed."""
    def f(u):
        return -(u[0] - 1) / 0.2 - log(36) + log(0.3 * sqrt(2 * pi)) + log(Phi((3 - 0.5 * u[0]) / 0.3) - Phi((-3 - 0.5 * u[0]) / 0.3))

    a = quadrature("quadrature over |x|; y is normal given x", ["r"], f, [(1, 3)], n=300, fixed=True)
    m, s = a["parameters"]["r"]["mean"], a["parameters"]["r"]["sd"]
    x1, x2 = -0.4 * m, m * m + s * s
    return closed(a["log_evidence"], {"x": (x1, sqrt(x2 - x1 ** 2)), "y": (0.5 * x1, sqrt(0.09 + 0.25 * (x2 - x1 ** 2)))}, [("x > 0", 0.3), ("abs(x) < 1.05", expm1(-0.25) / expm1(-10))],
                  a["how"])


@target
def grid25():
    s = sqrt(8 + 0.01)
    return closed(2 * log(5 * 0.1 * sqrt(2 * pi) / 12), {"x": (0.0, s), "y": (0.0, s)}, [(f"abs(x - {i}) < 1 and abs(y - {j}) < 1", 0.04) for i in (-4, 0, 4) for j in (-4, 0, 4)])


@target
def wells20():
    """A product: two normals for each x, which fit in the box, and a normal posterior of y."""
    rows = [prior_row(i, 0, 3) for i in range(15)]
    rows += [({0: 1.0}, 1, 0.1, -log(0.1) - 0.5 * log(2 * pi))]
    rows += [({i: 1.0, i - 1: -1.0}, 0, 0.1, -log(0.1) - 0.5 * log(2 * pi)) for i in range(1, 15)]
    z, m, s, _ = gaussian(rows)
    parameters = {f"x.{i + 1}": (-0.2, sqrt(0.4 * (25 + 0.2 ** 2) + 0.6 * (9 + 0.3 ** 2) - 0.2 ** 2)) for i in range(5)}
    parameters.update({f"y.{i + 1}": (m[i], s[i]) for i in range(15)})
    return closed(z - 5 * log(20), parameters, [(f"x_{i + 1} > 0", 0.6) for i in range(5)])


@target
def frequency():
    t, y = column("frequency.csv", "when"), column("frequency.csv", "y")

    def f(u):
        return -log(12 * 2 * pi) + sum(normal(b, math.sin(u[0] * a + u[1]), 1.1) for a, b in zip(t, y))

    return quadrature("quadrature", ["w", "phase"], f, [(0, 12), (-pi, pi)], ["w < 4", "w > 8", "phase > 0"], cuts={0: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], 1: [0]}, n=320, fixed=True)


def logistic_f(file, prior):
    x, y = column(file, "x"), column(file, "y")
    return lambda u: normal(u[0], 0, prior) + normal(u[1], 0, prior) + sum(binomial_logit(b, 1, u[0] + u[1] * a) for a, b in zip(x, y))


@target
def logistic():
    return quadrature("quadrature", ["a", "b"], logistic_f("logistic.csv", 100), [(-30, 30), (-30, 30)], ["b > 2"], cuts={1: [2]}, n=80, coarse=60)


@target
def logistic_rows():
    return quadrature("quadrature", ["a", "b"], logistic_f("logistic_rows.csv", 100), [(-10, 10), (-10, 10)], ["b > 0.9"], cuts={1: [0.9]}, n=60)


@target
def separated():
    return quadrature("quadrature", ["a", "b"], logistic_f("separated.csv", 10), [(-90, 90), (-90, 90)], ["b > 20", "a > 5"], cuts={0: [5], 1: [20]}, n=200)


@target
def logistic3():
    x, z, n, k = (column("logistic3.csv", c) for c in "xznk")
    centre = sum(x) / len(x)

    def f(u):
        a = u[0] - u[1] * centre  # u[0] is the log odds at the centre of x
        return normal(a, 0, 50) + normal(u[1], 0, 50) + normal(u[2], 0, 50) + sum(binomial_logit(j, m, u[0] + u[1] * (p - centre) + u[2] * q) for p, q, m, j in zip(x, z, n, k))

    return quadrature("quadrature", ["a", "b", "c"], f, [(-5, 5), (-1, 1), (-5, 5)], ["b > 0.08"], lambda u: [u[0] - u[1] * centre, u[1], u[2]], {1: [0.08]}, n=36)


@target
def poisson_regression():
    x, y = column("poisson_regression.csv", "x"), column("poisson_regression.csv", "y")

    def f(u):
        return normal(u[0], 0, 100) + normal(u[1], 0, 100) + sum(b * (u[0] + u[1] * a) - exp(u[0] + u[1] * a) - lgamma(b + 1) for a, b in zip(x, y))

    return quadrature("quadrature", ["a", "b"], f, [(-5, 6), (-4, 5)], ["a > 1"], cuts={0: [1]}, n=80)


@target
def poisson_rows():
    """Over the log mean at the centre of x, and b."""
    x, y = column("poisson_rows.csv", "x"), column("poisson_rows.csv", "y")
    centre, norm = sum(x) / len(x), sum(lgamma(b + 1) for b in y)
    rows = [(a - centre, b) for a, b in zip(x, y)]

    def f(u):
        a = u[0] - u[1] * centre
        return normal(a, 0, 100) + normal(u[1], 0, 100) - norm + sum(b * (u[0] + u[1] * c) - exp(u[0] + u[1] * c) for c, b in rows)

    return quadrature("quadrature", ["a", "b"], f, [(-1, 4), (-0.3, 0.3)], ["b > 0.03"], lambda u: [u[0] - u[1] * centre, u[1]], {1: [0.03]}, n=60)


@target
def negbin_regression():
    x, y = column("negbin_regression.csv", "x"), column("negbin_regression.csv", "y")

    def f(u):
        s = exp(u[2])
        return normal(u[0], 0, 100) + normal(u[1], 0, 100) + gamma(s, 0.5, 0.1) + u[2] + sum(negbin(b, exp(u[0] + u[1] * a), s) for a, b in zip(x, y))

    return quadrature("quadrature", ["a", "b", "size"], f, [(-4, 6), (-4, 5), (-4, 5)], ["size > 2"], lambda u: [u[0], u[1], exp(u[2])], {2: [log(2)]}, n=44, drop=26.0)


@target
def variance():
    y = column("variance.csv", "y")
    n, mean = len(y), sum(column("variance.csv", "y")) / len(column("variance.csv", "y"))
    ss = sum((a - mean) ** 2 for a in y)

    def f(u):
        v = exp(u[0])
        w = v / n + 1e4
        return invgamma(v, 0.001, 0.001) + u[0] - 0.5 * (n - 1) * log(2 * pi * v) - 0.5 * log(n) - 0.5 * ss / v - 0.5 * log(2 * pi * w) - 0.5 * mean ** 2 / w

    def values(u):
        p = n / exp(u[0]) + 1e-4
        return [(n * mean / exp(u[0]) / p, sqrt(1 / p)), exp(u[0])]

    a = quadrature("quadrature over v; mu is normal given v", ["mu", "v"], f, [(-12, 25)], ["v > 15", "v < 4", "mu > 13"], values, {0: [log(15), log(4)]}, fixed=True, n=1200)
    return a


@target
def dyes():
    """The between-batch variance has 9 % of its posterior near 0, where its prior is 1e-3."""
    batch, y = column("dyes.csv", "batch"), column("dyes.csv", "y")
    rows = [[b for a, b in zip(batch, y) if a == i] for i in sorted(set(batch))]
    n, groups = len(rows[0]), len(rows)
    means = [sum(r) / n for r in rows]
    within = sum((b - m) ** 2 for r, m in zip(rows, means) for b in r)
    grand = sum(means) / groups
    between = sum((m - grand) ** 2 for m in means)

    def f(u):
        vb, vw = exp(u[0]), exp(u[1])
        w, t = vb + vw / n, (vb + vw / n) / groups + 1e6
        lp = invgamma(vb, 0.001, 0.001) + u[0] + invgamma(vw, 0.001, 0.001) + u[1]
        lp -= 0.5 * groups * ((n - 1) * log(2 * pi * vw) + log(n)) + 0.5 * within / vw
        return lp - 0.5 * ((groups - 1) * log(2 * pi * w) + log(groups) + between / w + log(2 * pi * t) + grand ** 2 / t)

    def values(u):
        vb, vw = exp(u[0]), exp(u[1])
        w = vb + vw / n
        p = groups / w + 1e-6
        mu, q, k = groups * grand / w / p, 1 / p, vb / w
        return [(mu, sqrt(q)), vb, vw] + [(k * m + (1 - k) * mu, sqrt(k * vw / n + (1 - k) ** 2 * q)) for m in means]

    names = ["mu", "vb", "vw"] + [f"m.{i + 1}" for i in range(groups)]
    return quadrature("quadrature over both variances; all else is normal given them", names, f, [(-12, 26), (5, 12)], ["vb < 1", "vb > 5000", "vw > 4000"],
                      values, {0: [0.0, log(5000)], 1: [log(4000)]}, fixed=True, n=240)


@target
def robust():
    x, y = column("robust.csv", "x"), column("robust.csv", "y")

    def f(u):
        s = exp(u[2])
        return normal(u[0], 0, 10) + normal(u[1], 0, 10) + halfcauchy(s, 2) + u[2] + sum(student(b, 2, u[0] + u[1] * a, s) for a, b in zip(x, y))

    return quadrature("quadrature", ["a", "b", "s"], f, [(-4, 6), (-3, 7), (-4, 3)], ["s > 0.7"], lambda u: [u[0], u[1], exp(u[2])], {2: [log(0.7)]}, n=90, drop=24.0)


@target
def censored():
    y = text_column("censored.csv", "y")

    def f(u):
        m, s = u[0], exp(u[1])
        lp = normal(m, 0, 5) + log(2) + normal(s, 0, 3) + u[1]
        for v in y:
            if v[0] == "<":
                lp += log(max(Phi((float(v[1:]) - m) / s), 1e-300))
            elif v[0] == ">":
                lp += log(max(Phi((m - float(v[1:])) / s), 1e-300))
            else:
                lp += normal(float(v), m, s)
        return lp

    return quadrature("quadrature", ["mu", "s"], f, [(-15, 15), (-3, 3)], ["mu < 0", "s > 3"], lambda u: [u[0], exp(u[1])], {0: [0], 1: [log(3)]}, n=140)


def beta_law(a, b):
    return a / (a + b), sqrt(a * b / (a + b + 1)) / (a + b)


@target
def no_success():
    z = -log(31) + lgamma(2.5) + lgamma(18.5) - lgamma(21) - (2 * lgamma(0.5) - lgamma(1))
    return closed(z, {"p": beta_law(1, 31), "q": beta_law(2.5, 18.5)}, [("p < 0.003", 1 - 0.997 ** 31), ("p > 0.1", 0.9 ** 31)])


def lower_gamma(a, x):
    """P(a, x) by its series"""
    term = total = 1 / a
    k = a
    while term > 1e-17 * total:
        k += 1
        term *= x / k
        total += term
    return total * exp(-x + a * log(x) - lgamma(a))


@target
def zero_counts():
    """A gamma distribution with shape 0.1; its kurtosis is 63, so the sd is not judged."""
    a = closed(0.1 * log(0.1 / 3.1), {"rate": (0.1 / 3.1, None)}, [(f"rate < {c}", lower_gamma(0.1, 3.1 * c)) for c in (1e-6, 1e-3, 0.1)])
    a["parameters"]["rate"]["scale"] = sqrt(0.1) / 3.1
    return a


@target
def zero_inflated():
    k = const("zero_inflated", "k")
    zero = sum(v == 0 for v in k)
    rest = [v for v in k if v]

    def f(u):
        p, r = u[0], exp(u[1])
        return gamma(r, 1, 0.2) + u[1] + zero * log(p + (1 - p) * exp(-r)) + sum(log(1 - p) + v * u[1] - r - lgamma(v + 1) for v in rest)

    return quadrature("quadrature", ["p", "rate"], f, [(0, 1), (-2, 3)], ["p < 0.3", "rate > 3"], lambda u: [u[0], exp(u[1])], {0: [0.3], 1: [log(3)]}, n=140)


@target
def spike():
    c, w, a = 0.3137, 4e-5, 1.975e6
    z = a * w * sqrt(2 * pi)
    q = z / (z + 2)
    m = q * c
    v = q * (w * w + c * c) + (1 - q) / 3 - m * m
    return closed(log((z + 2) / 2), {"x": (m, sqrt(v))}, [(f"abs(x - {c}) < 4e-4", q + (1 - q) * 4e-4)])


@target
def needle3():
    return closed(3 * log(1e-4 * sqrt(2 * pi) / 2), {f"x.{i + 1}": (c, 1e-4) for i, c in enumerate((0.3137, -0.7212, 0.0385))})


@target
def stairs():
    """Given its floor, x is a truncated normal."""
    t = Sum(["x"], ["x < 0", "x > 4", "x > 2"])
    for k in range(-30, 30):
        for x, w in line(k, k + 1, 30):
            t.add(w + normal(x, 0, 5) - 0.5 * ((k - 2.385) / 1.5) ** 2, [x])
    return t.answer("quadrature between the steps")


@target
def half_planes():
    p = 1 / (1 + exp(-2))
    m = (2 * p - 1) / sqrt(pi)
    return closed(log(0.5 * (1 + exp(-2))), {"x": (m, sqrt(1 - m * m)), "y": (-m, sqrt(1 - m * m))}, [("x > y", p)])


@target
def change_point():
    n = [int(v) for v in column("change_point.csv", "n")]
    logs = []
    for k in range(41):  # where k < when <= k + 1, the years 1 to k are before it
        lo, hi = max(0.5, float(k)), min(40.5, k + 1.0)
        if hi <= lo:
            continue
        parts = []
        lp = log((hi - lo) / 40) - sum(lgamma(v + 1) for v in n)
        for s, m in ((sum(n[:k]), k), (sum(n[k:]), 40 - k)):
            a, b = 1 + s, 0.3 + m
            lp += log(0.3) + lgamma(a) - a * log(b)
            parts.append((a / b, sqrt(a) / b))
        logs.append((lp, [((lo + hi) / 2, (hi - lo) / sqrt(12))] + parts))
    t = Sum(["when", "before", "after"])
    for lp, v in logs:
        t.add(lp, v)
    a = t.answer("closed form: conjugate given the year of the change")
    top = max(lp for lp, _ in logs)
    total = sum(exp(lp - top) for lp, _ in logs)
    best = sorted(logs, reverse=True, key=lambda e: e[0])[:3]
    for lp, v in best:
        c = v[0][0]
        a["regions"].append({"where": f"abs(when - {c:g}) < 0.5", "p": exp(lp - top) / total})
    return a


@target
def flat4():
    r = sqrt(1 / 12)
    return closed(0.0, {"a": (0.5, r), "b": (0.0, 2000 * r), "c": (0.5e-6, 1e-6 * r), "e": (5.5, r)}, [("a < 0.01", 0.01), ("a > 0.99", 0.01), ("b > 980", 0.01), ("a < 0.1 and e > 5.9", 0.01)])


@target
def disc():
    return closed(log(pi * 0.25 / 16), {"x": (0.0, 0.25), "y": (0.0, 0.25)}, [("x*x + y*y > 0.2256", 1 - 0.2256 / 0.25), ("x > 0 and y > 0", 0.25)])


@target
def simplex():
    """A Dirichlet distribution with 2.5, 1.5 and 0.5."""
    return closed(lgamma(2.5) + lgamma(1.5) + lgamma(0.5) - lgamma(4.5), {"x": beta_law(2.5, 2), "y": beta_law(1.5, 3)})


@target
def cauchy():
    """Neither mean nor sd exist, and a fit must not print them."""
    return closed(0.0, {}, [(f"x < {1.3 + 2 * math.tan(pi * (p - 0.5)):.10g}", p) for p in (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)]) | {"none": ["x"], "d": 1}


@target
def student5():
    """The fourth moment is infinite, so the sd is not judged."""
    def cdf(t):
        a = t / sqrt(3)
        return 0.5 + (a / (1 + a * a) + math.atan(a)) / pi

    a = closed(0.0, {f"x.{i + 1}": (0.0, None) for i in range(5)}, [(f"x_{i} < {c}", cdf(c)) for i in (1, 5) for c in (-4, -1, 1, 4)] + [("x_2 > 4.4", 1 - cdf(4.4))])
    for p in a["parameters"].values():
        p["scale"] = sqrt(3)
    return a


@target
def cauchy_location():
    return quadrature("quadrature", ["m"], lambda u: normal(u[0], 0, 20) - log1p((u[0] + 5) ** 2) - log1p((u[0] - 6) ** 2), [(-160, 160)], ["m < 0.5", "m < -6", "m > 8"],
                      cuts={0: [-40, -10, -6, -4, 0.5, 5, 7, 8, 12, 40]}, n=1200, fixed=True)


@target
def scale_one():
    """The mean of s is finite, its variance is not."""
    cuts = [0.3, 3.0, 8.0]
    a = quadrature("quadrature over log s", ["s"], lambda u: halfcauchy(exp(u[0]), 1) + u[0] - u[0] - 0.5 * (0.7 / exp(u[0])) ** 2, [(-4, 30)], [f"s < {c}" for c in (0.3, 3, 8)],
                   lambda u: [exp(u[0])], {0: [log(c) for c in cuts]}, n=1200, fixed=True)
    a["parameters"] = {"s": {"mean": None, "sd": None}}
    return a


@target
def tiny_to_huge():
    """log x is normal with variance 1/(1 + 4)."""
    s2 = 0.2
    z = 7 * (log(0.5) - 0.5 * log(1.25) - 0.5 * 0.09 / 1.25)
    parameters = {}
    for i, c in enumerate((-6, -4, -2, 0, 2, 4, 6)):
        m = c * log(10) + 0.3 * 0.8
        mean = exp(m + s2 / 2)
        parameters[f"x.{i + 1}"] = (mean, mean * sqrt(expm1(s2)))
    return closed(z, parameters, [("x_1 > 2.5e-6", Phi((log(1e-6) + 0.24 - log(2.5e-6)) / sqrt(s2))), ("x_7 < 0.6e6", Phi((log(0.6e6) - log(1e6) - 0.24) / sqrt(s2)))])


@target
def scales13():
    rows = [prior_row(i, 0, 1) for i in range(13)] + [({i: 1.0, i - 1: -1.0}, 0, 0.5, 0.0) for i in range(1, 13)]
    a = gaussian_answer(rows, [f"x.{i + 1}" for i in range(13)])
    for i, p in enumerate(a["parameters"].values()):
        p["sd"] *= 10.0 ** (i - 6)
        p["mean"] = 0.0
    return a


@target
def half_normals():
    return closed(0.0, {f"x.{i}": (i * sqrt(2 / pi), i * sqrt(1 - 2 / pi)) for i in range(1, 11)}, [("x_1 < 0.03", math.erf(0.03 / sqrt(2))), ("x_10 > 20", math.erfc(2 / sqrt(2)))])


@target
def corner():
    def f(u):
        a, b = (u[0] + 0.1) / 0.2, (u[1] - 0.1) / 0.2
        return -0.5 * (a * a - 1.6 * a * b + b * b) / 0.36

    a = quadrature("quadrature", ["x", "y"], f, [(0, 1), (0, 1)], ["x < 0.01", "y < 0.05"], cuts={0: [0.01], 1: [0.05]}, n=140)
    b = quadrature("", ["z"], lambda u: -0.5 * ((u[0] - 1.05) / 0.1) ** 2, [(0, 1)], ["z > 0.99"], cuts={0: [0.5, 0.8, 0.99]}, fixed=True)
    a["log_evidence"] += b["log_evidence"]
    a["parameters"].update(b["parameters"])
    a["regions"] += b["regions"]
    return a


@target
def both_bounds():
    def series(a, b, x):
        """I_x(a, b) for small x"""
        total = term = 1 / a
        for k in range(1, 200):
            term *= (k - b) / k * x * (a + k - 1) / (a + k)
            total += term
        return total * x ** a / exp(lgamma(a) + lgamma(b) - lgamma(a + b))

    return closed(0.0, {"x": beta_law(0.3, 0.4), "y": beta_law(5, 0.5)},
                  [("x < 1e-6", series(0.3, 0.4, 1e-6)), ("x < 0.01", series(0.3, 0.4, 0.01)), ("x > 0.99", series(0.4, 0.3, 0.01)), ("y > 0.999", series(0.5, 5, 0.001))])


@target
def banana():
    return closed(0.0, {"x": (0.0, 1.0), "y": (1.0, sqrt(2 + 0.01))}, [("x > 2", Phi(-2)), ("x < -2", Phi(-2))])


@target
def banana10():
    """The five pairs are alike; y given x is normal."""
    v = 0.09 * 100 / 100.09

    def f(u):
        return normal(u[0], 0, 1) + log(0.3 * sqrt(2 * pi)) + normal(u[0] ** 2, 0, sqrt(100.09))

    a = quadrature("quadrature over x of one pair; y is normal given x", ["x", "y"], f, [(-9, 9)], ["x > 1.7"], lambda u: [u[0], (u[0] ** 2 * 100 / 100.09, sqrt(v))], {0: [1.7]}, fixed=True)
    p, z = a["parameters"], a["log_evidence"]
    b = closed(5 * z, {}, [(f"x_{i} > 1.7", a["regions"][0]["p"]) for i in (1, 5)] + [("x_1 > 0 and x_2 > 0 and x_3 < 0 and x_4 < 0", 1 / 16)], a["how"])
    b["parameters"] = {f"{n}.{i}": dict(p[n]) for n in "xy" for i in range(1, 6)}
    return b


@target
def rosenbrock():
    """y is normal given x, in bounds that matter for |x| near 5 only."""
    def f(u):
        x = u[0]
        return -0.5 * (1 - x) ** 2 - log(300) + log(0.1 * sqrt(2 * pi)) + log(max(Phi((25 - x * x) / 0.1) - Phi((-5 - x * x) / 0.1), 1e-300))

    return quadrature("quadrature over x; y is normal given x", ["x", "y"], f, [(-5, 5)], ["x > 2.5", "x < -0.5"], lambda u: [u[0], (u[0] ** 2, 0.1)], {0: [-4.8, -0.5, 2.5, 4.8]}, n=800, fixed=True)


@target
def product_ridge():
    """y is normal given x, cut at 5: x above 0.4."""
    def f(u):
        x = u[0]
        return -log(25) + log(0.02 * sqrt(2 * pi) / x) + log(max(Phi((5 - 2 / x) * x / 0.02), 1e-300))

    a = quadrature("quadrature over x; y is normal given x", ["x"], f, [(0.3, 5)], ["x < 0.6", "x > 4"], cuts={0: [0.36, 0.4, 0.44, 0.6, 1, 4]}, n=800, fixed=True)
    a["parameters"]["y"] = dict(a["parameters"]["x"])
    return a


@target
def lognormal_cloud():
    """Over c = log(exp(a) + exp(b)) and d = a - b, in which the ridge is straight; the determinant of the map is 1."""
    def ab(u):
        # b = c - log1p(exp(d)) for d = a - b
        b = u[0] - max(u[1], 0.0) - log1p(exp(-abs(u[1])))
        return [b + u[1], b]

    def f(u):
        a, b = ab(u)
        return normal(a, 0, 3) + normal(b, 0, 3) - 0.5 * ((exp(u[0]) - 3) / 0.1) ** 2

    return quadrature("quadrature", ["a", "b"], f, [(-1, 2), (-40, 40)], ["a - b > 3", "a > b"], ab, {1: [-5, -2, 0, 3, 6]}, n=200, coarse=80)


@target
def exponential60():
    """rate i has a gamma distribution with shape 2."""
    p = {}
    z = 0.0
    for i in range(1, 61):
        b = 1.1 + 0.05 * i
        p[f"rate.{i}"] = (2 / b, sqrt(2) / b)
        z -= 2 * log(b)
    return closed(z, p, [("rate_1 < 0.2", 1 - exp(-0.23) * 1.23), ("rate_60 > 1.2", exp(-4.1 * 1.2) * (1 + 4.1 * 1.2))])


# --- models with equations ------------------------------------------------------------------------------------------------------

def lognormal_u(u, m, s):
    """The density of u = log x"""
    return normal(u, m, s)


def series(file, t, y):
    return list(zip(column(file, t), column(file, y)))


@target
def decay():
    data = series("decay.csv", "t", "y")
    return quadrature("quadrature; the solution is known", ["A0", "k"],
                      lambda u: lognormal_u(u[0], 2, 1) + lognormal_u(u[1], 0, 1.5) + sum(normal(y, exp(u[0] - exp(u[1]) * t), 0.4) for t, y in data),
                      [(-2, 6), (-8, 6)], ["k > 0.4"], lambda u: [exp(v) for v in u], {1: [log(0.4)]})


@target
def growth():
    data = series("growth.csv", "t", "n")

    def f(u):
        r, c, n0 = u[0], exp(u[1]), exp(u[2])
        lp = -log(5) + lognormal_u(u[1], 4, 1) + lognormal_u(u[2], 1, 1)
        return lp + sum(poisson(n, c / (1 + (c / n0 - 1) * exp(-r * t))) for t, n in data)

    return quadrature("quadrature; the solution is known", ["r", "K", "n0"], f, [(0, 5), (1, 8), (-3, 5)], ["r > 0.7"], lambda u: [u[0], exp(u[1]), exp(u[2])], {0: [0.7]}, n=44)


@target
def flip_flop():
    """log V is normal given ka and ke; over log(ka/ke) and log ke, so that the line between the modes is an edge of the panels."""
    data = series("flip_flop.csv", "t", "c")

    def given(u):
        ka, ke = exp(u[0] + u[1]), exp(u[1])
        d = ka - ke
        rest = [log(100 * ka * (t if abs(d) * t < 1e-9 else -expm1(-d * t) / d)) - ke * t - log(c) for t, c in data]
        p = 1 + len(rest) / 0.0625
        h = 1.5 + sum(rest) / 0.0625
        lp = lognormal_u(u[0] + u[1], 0, 1) + lognormal_u(u[1], 0, 1) - sum(log(c) for _, c in data)
        lp += -len(rest) * log(0.25 * sqrt(2 * pi)) - 0.5 * log(p) - 0.5 * (2.25 + sum(r * r for r in rest) / 0.0625) + 0.5 * h * h / p
        mean = exp(h / p + 0.5 / p)
        return lp, [ka, ke, (mean, mean * sqrt(expm1(1 / p)))]

    return quadrature("quadrature over ka and ke; V is log-normal given both, and the solution is known", ["ka", "ke", "V"], lambda u: given(u)[0], [(-7, 7), (-5, 4)], ["ka > ke"],
                      lambda u: given(u)[1], {0: [0.0]}, n=240, coarse=60)


@target
def infusion():
    data = series("infusion.csv", "t", "y")

    def f(u):
        a, k, r = u[0], exp(u[1]), exp(u[2])
        lp = -log(10) + lognormal_u(u[1], -0.5, 0.7) + lognormal_u(u[2], 0.5, 0.7)
        return lp + sum(normal(y, -r / k * expm1(-k * min(t, a)) * exp(-k * max(t - a, 0.0)), 0.3) for t, y in data)

    return quadrature("quadrature; the solution is known", ["a", "k", "r"], f, [(0, 10), (-3, 2), (-2, 3)], ["a > 5"], lambda u: [u[0], exp(u[1]), exp(u[2])],
                      {0: [t for t, _ in data]}, n=64, drop=28.0)


@target
def switch():
    data = series("switch.csv", "t", "y")

    def f(u):
        lp = lognormal_u(u[0], -1, 1) + lognormal_u(u[1], -1, 1)
        return lp + sum(normal(y, 5 * exp(-exp(u[0]) * min(t, 3.3) - exp(u[1]) * max(t - 3.3, 0.0)), 0.25) for t, y in data)

    return quadrature("quadrature; the solution is known", ["k1", "k2"], f, [(-7, 5), (-7, 5)], ["k2 > 1"], lambda u: [exp(v) for v in u], {1: [0.0]}, n=140)


@target
def two_compartments():
    data = series("two_compartments.csv", "t", "c")

    def f(u):
        cl, q, v = (exp(a) for a in u)
        a, b, c = (cl + q) / v, q / v, q / 20
        s, p = a + c, cl / v * c
        root = sqrt(max((a - c) ** 2 + 4 * b * c, 1e-300))
        l1 = (s + root) / 2
        l2 = p / l1
        lp = lognormal_u(u[0], 1, 1.5) + lognormal_u(u[1], 1, 1.5) + lognormal_u(u[2], 2, 1.5)
        for t, y in data:
            m = 100 / v * ((l1 - c) * exp(-l1 * t) + (c - l2) * exp(-l2 * t)) / root
            if not m > 0:
                return -math.inf
            lp += normal(log(y), log(m), 0.15) - log(y)
        return lp

    return quadrature("quadrature; the solution is known", ["CL", "Q", "V"], f, [(-4, 6), (-4, 6), (-3, 7)], ["V > 9"], lambda u: [exp(v) for v in u], {2: [log(9)]}, n=64, drop=26.0)


@target
def sir():
    data = series("sir.csv", "day", "cases")
    h, per = 0.1, 20

    def f(u):
        b, g, i0 = u[0] / 200, u[1], exp(u[2])
        s, i = 200 - i0, i0
        if s <= 0:
            return -math.inf
        lp = -log(15) + lognormal_u(u[2], 0, 1)
        for _, y in data:
            for _ in range(per):
                x = b * s * i
                s1, i1 = s - h / 2 * x, i + h / 2 * (x - g * i)
                x1 = b * s1 * i1
                s2, i2 = s - h / 2 * x1, i + h / 2 * (x1 - g * i1)
                x2 = b * s2 * i2
                s3, i3 = s - h * x2, i + h * (x2 - g * i2)
                x3 = b * s3 * i3
                ds = x + 2 * x1 + 2 * x2 + x3
                s, i = s - h / 6 * ds, i + h / 6 * (ds - g * (i + 2 * i1 + 2 * i2 + i3))
            if not 0 <= i < 1e3:
                return -math.inf
            lp += poisson(y, i + 0.001)
        return lp

    return quadrature("quadrature; solved by Runge-Kutta steps of 0.1", ["beta", "gamma", "I0"], f, [(0.4, 1.6), (0.2, 0.8), (-1.5, 3)], ["beta > 0.95"],
                      lambda u: [u[0], u[1], exp(u[2])], {0: [0.95]}, n=26, coarse=12, drop=24.0)


@target
def oscillator():
    data = series("oscillator.csv", "t", "y")

    def f(u):
        c = exp(u[1])
        return -log(9.5) + lognormal_u(u[1], -2, 1) + sum(normal(y, exp(-c * t) * math.cos(u[0] * t), 0.6) for t, y in data)

    return quadrature("quadrature; the solution is known", ["w", "c"], f, [(0.5, 10), (-9, 5)], ["w > 4", "c > 0.2"], lambda u: [u[0], exp(u[1])],
                      {0: [1, 2, 3, 4, 5, 6, 7, 8, 9], 1: [log(0.2)]}, n=240, fixed=True)


@target
def stiff_chain():
    data = series("stiff_chain.csv", "t", "y")

    def f(u):
        a, b = exp(u[0]), exp(u[1])
        d = a - b
        lp = lognormal_u(u[0], 8, 2) + lognormal_u(u[1], 0, 1)
        return lp + sum(normal(y, 4 * a * exp(-b * t) * (t if abs(d) * t < 1e-9 else -expm1(-d * t) / d), 0.2) for t, y in data)

    # exp(18) and more for `fast` have an expectation of their own: its tail is the prior's, so it is judged by its regions.
    a = quadrature("quadrature; the solution is known", ["fast", "slow"], f, [(-2, 22), (-6, 4)], ["fast < 300", "fast > 30000", "slow > 0.8"], lambda u: [exp(v) for v in u],
                   {0: [4, 5, log(300), 7, log(30000)], 1: [-2, -1, log(0.8), 0]}, n=280, fixed=True)
    a["parameters"]["fast"] = {"mean": None, "sd": None}
    return a


@target
def subjects():
    """Given m and tau the subjects are independent."""
    times = column("subjects.csv", "t")
    data = [column("subjects.csv", f"c{i + 1}") for i in range(6)]
    nodes = [(x, w + normal(x, 0, 1)) for x, w in line(-8.5, 8.5, 140)]
    # sum over times of normal(log c, log 10 - k t, .2) is a parabola in k
    parts = []
    for c in data:
        p = [0.0, 0.0, 0.0]
        for t, v in zip(times, c):
            r = log(v) - log(10)
            p = [p[0] - log(0.2) - 0.5 * log(2 * pi) - log(v) - 0.5 * (r / 0.2) ** 2, p[1] - r * t / 0.04, p[2] - 0.5 * t * t / 0.04]
        parts.append(p)
    seen = {}

    def given(u):
        if tuple(u) not in seen:
            m, tau = u[0], exp(u[1])
            lp, out = normal(m, -1, 1) + log(2) + normal(tau, 0, 0.5) + u[1], [m, tau]
            grid = [(exp(m + tau * z), w) for z, w in nodes]
            for a, b, c in parts:
                logs = [w + a + b * k + c * k * k for k, w in grid]
                top = max(logs)
                e = [exp(v - top) for v in logs]
                s0 = sum(e)
                s1 = sum(v * k for v, (k, _) in zip(e, grid)) / s0
                s2 = sum(v * k * k for v, (k, _) in zip(e, grid)) / s0
                lp += top + log(s0)
                out.append((s1, sqrt(max(s2 - s1 * s1, 1e-30))))
            seen[tuple(u)] = lp, out
        return seen[tuple(u)]

    return quadrature("quadrature over m and tau, and over each subject given them; the solution is known", ["m", "tau"] + [f"k.{i + 1}" for i in range(6)], lambda u: given(u)[0],
                      [(-2.4, 0.0), (log(1e-5), log(2.5))], ["tau < 0.01", "tau < 0.05", "tau > 0.3"], lambda u: given(u)[1], {1: [log(0.01), log(0.05), log(0.3)]}, n=130, fixed=True)


@target
def subjects12():
    """Given m and tau the subjects are independent; their likelihoods are tabulated in log CL and interpolated by cubics."""
    times = column("subjects12.csv", "t")
    low, step, size = -9.0, 0.005, 3600
    tables = []
    for i, dose in enumerate(const("subjects12", "dose")):
        data = column("subjects12.csv", f"c{i + 1}")
        table = []
        for j in range(size):
            cl = exp(low + step * j)
            a, b, c = (cl + 8) / 7.5, 8 / 7.5, 8 / 20
            root = sqrt((a - c) ** 2 + 4 * b * c)
            l1 = (a + c + root) / 2
            l2 = cl / 7.5 * c / l1
            lp = 0.0
            for t, y in zip(times, data):
                m = dose / 7.5 * ((l1 - c) * exp(-l1 * t) + (c - l2) * exp(-l2 * t)) / root
                lp += normal(log(y), log(m), 0.25) - log(y)
            table.append(lp)
        tables.append(table)
    nodes = [(x, w + normal(x, 0, 1)) for x, w in line(-8, 8, 72)]
    seen = {}

    def given(u):
        if tuple(u) not in seen:
            m, tau = u[0], exp(u[1])
            lp, out = normal(m, 1, 2) + log(2) + normal(tau, 0, 0.5) + u[1], [m, tau]
            grid = []
            for z, w in nodes:
                x = m + tau * z
                j = min(max(int((x - low) / step), 1), size - 3)
                p = (x - low) / step - j
                four = (-p * (p - 1) * (p - 2) / 6, (p + 1) * (p - 1) * (p - 2) / 2, -(p + 1) * p * (p - 2) / 2, (p + 1) * p * (p - 1) / 6)
                if low + step < x < low + step * (size - 2):
                    grid.append((exp(x), w, j - 1, four))
            for table in tables:
                logs = [w + f[0] * table[j] + f[1] * table[j + 1] + f[2] * table[j + 2] + f[3] * table[j + 3] for _, w, j, f in grid]
                top = max(logs)
                e = [exp(v - top) for v in logs]
                s0 = sum(e)
                s1 = sum(v * g[0] for v, g in zip(e, grid)) / s0
                s2 = sum(v * g[0] ** 2 for v, g in zip(e, grid)) / s0
                lp += top + log(s0)
                out.append((s1, sqrt(max(s2 - s1 * s1, 1e-30))))
            seen[tuple(u)] = lp, out
        return seen[tuple(u)]

    return quadrature("quadrature over m and tau, and over each subject given them; the solution is known", ["m", "tau"] + [f"CL.{i + 1}" for i in range(12)], lambda u: given(u)[0],
                      [(0.4, 1.9), (log(1e-5), log(1.0))], ["tau < 0.1", "tau > 0.3"], lambda u: given(u)[1], {1: [log(0.02), log(0.1), log(0.3)]}, n=140, fixed=True)


@target
def ricker():
    data = [n for _, n in series("ricker.csv", "year", "n")]

    def f(u):
        r, c, x = u[0], exp(u[1]), 5.0
        lp = -log(3) + lognormal_u(u[1], 4, 1)
        for n in data:
            x *= exp(r * (1 - x / c))
            if not 1e-300 < x < 1e300:
                return -math.inf
            lp += poisson(n, x)
        return lp

    return quadrature("quadrature; the equation is iterated", ["r", "K"], f, [(0, 3), (1, 7)], ["r > 1.9"], lambda u: [u[0], exp(u[1])], {0: [1.9]}, n=160, coarse=150)


@target
def doses():
    data = series("doses.csv", "t", "y")

    def f(u):
        k, v = exp(u[0]), exp(u[1])
        return lognormal_u(u[0], -1, 1) + lognormal_u(u[1], 1, 1) + sum(normal(y, 10 / v * sum(exp(-k * (t - d)) for d in (0, 2, 4) if t > d), 0.2) for t, y in data)

    return quadrature("quadrature; the solution is known", ["k", "V"], f, [(-6, 4), (-4, 6)], ["V > 4.5"], lambda u: [exp(v) for v in u], {1: [log(4.5)]}, n=100)


# --- emulators: the answer is the simulator's -----------------------------------------------------------------------------------

def emulated(file, names, simulate, box, scale, n=None):
    """Given the inputs, the variance of the noise has an inverse gamma distribution. Means may differ by 0.3 sd and sds by 20 %: emulators."""
    y = column(file, "y")
    a = 2 + len(y) / 2
    volume = sum(log(hi - lo) for lo, hi in box)

    def rest(u):
        return scale + 0.5 * sum((p - q) ** 2 for p, q in zip(y, simulate(*u)))

    def f(u):
        return 2 * log(scale) - lgamma(2) + lgamma(a) - a * log(rest(u)) - 0.5 * len(y) * log(2 * pi) - volume

    def values(u):
        b = rest(u)
        return list(u) + [(b / (a - 1), b / (a - 1) / sqrt(a - 2))]

    out = quadrature("quadrature over the inputs of the simulator itself; the noise in closed form", names + ["s2"], f, box, (), values, n=n, drop=22.0)
    out["log_evidence"] = None
    out["tolerance"] = {"mean": 0.3, "sd": 0.2, "region": 0.05}
    out["accuracy"] = 0.03
    return out


def simulate_decay(a, k):
    return [a * exp(-k * i / 2) for i in range(1, 13)]


RAIN = [0, 0, 12, 3, 0, 0, 25, 8, 0, 0, 0, 5, 18, 0, 0, 0, 0, 9, 30, 2, 0, 0, 0, 0]


def simulate_reservoirs(cap, k, q):
    soil, deep, out = cap / 2, 5.0, []
    for r in RAIN:
        soil += r
        over = max(soil - cap, 0.0)
        soil -= over
        down = k * soil
        soil -= down
        deep += down
        slow = q * deep
        deep -= slow
        out.append(over + slow)
    return out


@functools.lru_cache(None)
def the_reservoirs(fine):
    """The capacity has kinks, so that quadrature converges slowly; three targets share the answer."""
    return emulated("emu_reservoirs.csv", ["cap", "k", "q"], simulate_reservoirs, [(10, 80), (0.02, 0.4), (0.05, 0.8)], 0.1, n=72)


def prepared(a, runs):
    return dict(a, prepare=[["design", "-n", str(runs), "--seed", "SEED"], ["run"]]) if runs else a


def emulated_reservoirs(runs):
    return prepared(the_reservoirs(FINE), runs)


def emulated_decay(runs):
    return prepared(emulated("emu_decay.csv", ["A", "k"], simulate_decay, [(1, 10), (0.1, 2)], 0.05), runs)


@target
def emu_decay():
    return emulated_decay(40)


def too_few(a):
    """These runs do not say what the simulator does near the posterior: a fit should warn."""
    return dict(a, due="warn")


@target
def emu_few():
    return too_few(emulated_decay(8))


@target
def emu_reservoirs():
    return too_few(emulated_reservoirs(60))


@target
def emu_reservoirs_few():
    return too_few(emulated_reservoirs(20))


@target
def emu_near():
    """As emu_reservoirs, with 50 further runs where the posterior is."""
    return emulated_reservoirs(0)


# --- many units -------------------------------------------------------------------------------------------------------------------

@target
def student_population():
    """Student's t is a normal with variance tau^2 / lambda, where lambda is gamma(nu/2, nu/2): a sum over log lambda, by the trapezium rule."""
    y = column("student_population.csv", "y")
    h = 0.25 / FINE
    logs = [k * h for k in range(int(-22 / h), int(3.5 / h))]
    precision = [exp(v) for v in logs]

    @functools.lru_cache(None)
    def parts(nu, u):
        """share / sd and -1 / (2 variance) of a value, for every lambda that matters"""
        tau2, a = exp(2 * u), 0.5 * nu
        shares = [exp(a * log(a) - lgamma(a) + a * (v - p)) * h for v, p in zip(logs, precision)]
        out = [(w, 0.64 + tau2 / p) for w, p in zip(shares, precision) if w > 1e-12]
        return [w / sqrt(2 * pi * v) for w, v in out], [-0.5 / v for _, v in out]

    def f(x):
        mu, u, nu = x
        a, b = parts(nu, u)
        lp = normal(mu, 0, 5) + log(2) + normal(exp(u), 0, 1.5) + u - log(9)
        for v in y:
            r = (v - mu) ** 2
            lp += log(sum(map(operator.mul, a, map(exp, [r * c for c in b]))))
        return lp

    out = quadrature("quadrature over mu, tau and nu, and over the variance of each value given them", ["mu", "tau", "nu"], f, [(1.0, 3.2), (log(1e-6), log(4)), (1.0, 10.0)],
                     ["tau < 0.3"], lambda x: [x[0], exp(x[1]), x[2]], {1: [log(0.3)]}, n=24, fixed=True)
    return dict(out, d=35)


@target
def slopes():
    """Given the three sds all else is normal: two common means, and an intercept and a slope of each group given these."""
    group, x, y = (column("slopes.csv", c) for c in ("group", "x", "y"))
    data = []  # n, sums of x, x^2, y, x y and y^2
    for g in range(1, 25):
        rows = [(a, b) for k, a, b in zip(group, x, y) if k == g]
        data.append((len(rows), sum(a for a, _ in rows), sum(a * a for a, _ in rows), sum(b for _, b in rows), sum(a * b for a, b in rows), sum(b * b for _, b in rows)))

    def given(u):
        va, vb, v = exp(2 * u[0]), exp(2 * u[1]), exp(2 * u[2])
        lp = 3 * log(2) + normal(exp(u[0]), 0, 1) + normal(exp(u[1]), 0, 1) + normal(exp(u[2]), 0, 2) + sum(u)
        p, q, r, h, k, groups = 0.25, 0.0, 0.25, 0.0, 0.0, []  # precision and right-hand side of the common means
        for n, sx, sxx, sy, sxy, syy in data:
            a, b, c, d, e = n / v, sx / v, sxx / v, sy / v, sxy / v
            # [1 + T A]^-1, with T = diag(va, vb) and A the precision of the group's data
            m11, m12, m21, m22 = 1 + va * a, va * b, vb * b, 1 + vb * c
            det = m11 * m22 - m12 * m21
            i11, i12, i21, i22 = m22 / det, -m12 / det, -m21 / det, m11 / det
            s1, s2 = i11 * va * d + i12 * vb * e, i21 * va * d + i22 * vb * e
            lp -= 0.5 * (syy / v - d * s1 - e * s2 + n * (2 * u[2] + log(2 * pi)) + log(det))
            p += a * i11 + b * i21
            q += a * i12 + b * i22
            r += b * i12 + c * i22
            h += d - a * s1 - b * s2
            k += e - b * s1 - c * s2
            groups.append((s1, s2, i11, i12, i21, i22))
        det = p * r - q * q
        ma, mb, w11, w12, w22 = (r * h - q * k) / det, (p * k - q * h) / det, r / det, -q / det, p / det
        lp += 0.5 * (h * ma + k * mb) - 0.5 * log(16 * det)
        out = [(ma, sqrt(w11)), (mb, sqrt(w22)), exp(u[0]), exp(u[1]), exp(u[2])]
        for s1, s2, i11, i12, i21, i22 in groups[:4]:
            out.append((s1 + i11 * ma + i12 * mb, sqrt(i11 * va + i11 * i11 * w11 + 2 * i11 * i12 * w12 + i12 * i12 * w22)))
            out.append((s2 + i21 * ma + i22 * mb, sqrt(i22 * vb + i21 * i21 * w11 + 2 * i21 * i22 * w12 + i22 * i22 * w22)))
        return lp, out

    names = ["ma", "mb", "ta", "tb", "s"] + [f"{c}.{g}" for g in range(1, 5) for c in "ab"]
    out = quadrature("quadrature over the three sds; all else is normal given them", names, lambda u: given(u)[0], [(log(1e-6), log(2)), (log(1e-6), log(3)), (log(0.4), log(1.2))],
                     ["ta < 0.1", "tb < 0.1"], lambda u: given(u)[1], {0: [log(0.1)], 1: [log(0.1)]}, n=28, fixed=True)
    return dict(out, d=53)


@target
def laboratories():
    """Given m, between and ls the laboratories are independent, and the mean of each is normal given its sd."""
    lab, y = column("laboratories.csv", "lab"), column("laboratories.csv", "y")
    nodes = line(-5.0, 2.5, 64)
    data = []
    for k in range(1, 41):
        v = [b for a, b in zip(lab, y) if a == k]
        mean = sum(v) / 4
        data.append((mean, sum((b - mean) ** 2 for b in v)))
    fixed = [[-3 * s - 0.5 * q * exp(-2 * s) - 1.5 * log(2 * pi) - log(2) + w for s, w in nodes] for _, q in data]

    @functools.lru_cache(1)
    def likelihoods(m, u):
        var = [exp(2 * u) + exp(2 * s) / 4 for s, _ in nodes]
        half = [0.5 * log(2 * pi * v) for v in var]
        return [[exp(a - h - 0.5 * (mean - m) ** 2 / v) for a, h, v in zip(f, half, var)] for f, (mean, _) in zip(fixed, data)]

    @functools.lru_cache(None)
    def prior(ls):
        return [exp(normal(s, ls, 0.5)) for s, _ in nodes]

    def f(x):
        p = prior(x[2])
        return (normal(x[0], 0, 10) + log(2) + normal(exp(x[1]), 0, 1) + x[1] + normal(x[2], 0, 1) +
                sum(log(sum(map(operator.mul, p, l))) for l in likelihoods(x[0], x[1])))

    def values(x):
        p, out = prior(x[2]), [x[0], exp(x[1]), x[2]]
        for l in likelihoods(x[0], x[1])[:4]:
            w = list(map(operator.mul, p, l))
            m = sum(a * exp(s) for a, (s, _) in zip(w, nodes)) / sum(w)
            out.append((m, sqrt(sum(a * exp(2 * s) for a, (s, _) in zip(w, nodes)) / sum(w) - m * m)))
        return out

    out = quadrature("quadrature over m, between and ls, and over the sd of each laboratory given them", ["m", "between", "ls"] + [f"sd.{k}" for k in range(1, 5)], f,
                     [(4.4, 5.6), (log(1e-6), log(1.5)), (-1.8, -0.2)], ["between < 0.2"], values, {1: [log(0.2)]}, n=28, fixed=True)
    return dict(out, d=83)


@target
def two_kinds():
    """Given low, gap and tau a subject's mean is one of two normals, and its effect is normal given which."""
    y, s2 = column("two_kinds.csv", "y"), 0.64 / 3

    def f(x):
        low, gap, tau = x[0], x[1], exp(x[2])
        v = s2 + tau * tau
        lp = normal(low, 0, 3) + log(2) + normal(gap, 0, 3) + log(2) + normal(tau, 0, 1) + x[2] - 18 * log(2 * pi * v)
        return lp + sum(log(0.4 * exp(-0.5 * (a - low) ** 2 / v) + 0.6 * exp(-0.5 * (a - low - gap) ** 2 / v)) for a in y)

    out = quadrature("quadrature over low, gap and tau; given them each subject is one of two normals", ["low", "gap", "tau"], f, [(-1.5, 3.5), (0.0, 5.0), (log(1e-6), log(3))],
                     ["tau < 0.1", "tau < 0.5", "gap < 1"], lambda x: [x[0], x[1], exp(x[2])], {1: [1.0], 2: [log(0.1), log(0.5)]}, n=48, fixed=True)
    return dict(out, d=39)


# --- mirror images ----------------------------------------------------------------------------------------------------------------

def mirrored(half, log_images, fixed=(), regions=()):
    """The whole of a posterior of which `half` is one of two images that differ in sign: means are 0 but for those that are fixed."""
    half["log_evidence"] += log_images
    for name, p in half["parameters"].items():
        if name not in fixed:
            p["sd"], p["mean"] = sqrt(p["sd"] ** 2 + p["mean"] ** 2), 0.0
            p.pop("kurtosis", None)
    half["regions"] += [{"where": r, "p": 0.5} for r in regions]
    return half


def factor_answer(model, top):
    """y = load score + noise: given the loadings, rows are normal with covariance load load' + s2, and scores are normal."""
    y = [list(r) for r in zip(*(column(f"{model}.csv", f"y.{j + 1}") for j in range(3)))]
    n, s2 = len(y), 0.49
    cross = [[sum(r[a] * r[b] for r in y) for b in range(3)] for a in range(3)]
    trace = cross[0][0] + cross[1][1] + cross[2][2]

    def f(u):
        l2 = sum(a * a for a in u)
        quad = sum(u[a] * u[b] * cross[a][b] for a in range(3) for b in range(3))
        lp = sum(normal(a, 0, 2) for a in u)
        return lp - 0.5 * n * (3 * log(2 * pi * s2) + log1p(l2 / s2)) - 0.5 * (trace - quad / (s2 + l2)) / s2

    def values(u):
        v = s2 / (s2 + sum(a * a for a in u))
        return list(u) + [(v / s2 * (u[0] * r[0] + u[1] * r[1] + u[2] * r[2]), sqrt(v)) for r in y]

    names = [f"load.{j + 1}" for j in range(3)] + [f"score.{i + 1}" for i in range(n)]
    half = quadrature("quadrature over the loadings with the first above 0, twice; scores are normal given them", names, f,
                      [(0.0, top), (-top, top), (-top, top)], (), values, n=48)
    return mirrored(half, log(2), (), ["load_1 > 0"])


@target
def factor15():
    return factor_answer("factor15", 5.0)


@target
def factor36():
    return factor_answer("factor36", 4.0)


@target
def discrimination():
    """Given the discriminations, abilities are independent: one integral each."""
    k = list(zip(column("discrimination.csv", "k.1"), column("discrimination.csv", "k.2")))
    const_part = sum(choose(8, a) + choose(8, b) for a, b in k)
    count = {}
    for c in k:
        count[c] = count.get(c, 0) + 1

    @functools.lru_cache(maxsize=None)
    def persons(u, nodes):
        x, w = zip(*line(-7.5, 7.5, nodes))
        base = [b + normal(a, 0, 1) for a, b in zip(x, w)]
        part = [(-log1p(exp(-u[0] * a)), -log1p(exp(u[0] * a)), -log1p(exp(-u[1] * a)), -log1p(exp(u[1] * a))) for a in x]
        out = {}
        for c in count:
            e = [b + c[0] * p[0] + (8 - c[0]) * p[1] + c[1] * p[2] + (8 - c[1]) * p[3] for b, p in zip(base, part)]
            top = max(e)
            e = [exp(v - top) for v in e]
            z = sum(e)
            m = sum(a * v for a, v in zip(x, e)) / z
            out[c] = top + log(z), m, sqrt(sum((a - m) ** 2 * v for a, v in zip(x, e)) / z)
        return out

    def f(u):
        p = persons(tuple(u), 60)
        return const_part + normal(u[0], 0, 2) + normal(u[1], 0, 2) + sum(p[c][0] * r for c, r in count.items())

    def values(u):
        p = persons(tuple(u), 60)
        return list(u) + [p[c][1:] for c in k]

    names = ["a.1", "a.2"] + [f"theta.{i + 1}" for i in range(len(k))]
    half = quadrature("quadrature over the discriminations with the first above 0, twice, and over each ability given them", names, f,
                      [(0.0, 9.0), (-9.0, 9.0)], (), values, n=60)
    return mirrored(half, log(2), (), ["a_1 > 0"])


@target
def products14():
    """Given b all a are normal."""
    y = const("products14", "y")

    def f(u):
        v = u[0] * u[0] + 0.09
        return normal(u[0], 0, 2) + sum(normal(b, 0, sqrt(v)) for b in y)

    def values(u):
        v = u[0] * u[0] + 0.09
        return [u[0]] + [(u[0] * b / v, sqrt(0.09 / v)) for b in y]

    half = quadrature("quadrature over b above 0, twice; all else is normal given b", ["b"] + [f"a.{i + 1}" for i in range(14)], f, [(0.0, 9.0)], (),
                      values, n=400)
    return mirrored(half, log(2), (), ["b > 0"])


@target
def label_groups():
    """Given both means, groups are independent: one integral each."""
    y = const("label_groups", "y")

    @functools.lru_cache(maxsize=None)
    def groups(u, nodes):
        out = []
        for row in y:
            x, e = [], []
            for a, b in line(-4.5, 4.5, nodes):
                x.append(a)
                e.append(b + normal(a, 0, 0.7) + sum(log_sum(-0.5 * (v - u[0] - a) ** 2, -0.5 * (v - u[1] - a) ** 2) for v in row))
            top = max(e)
            e = [exp(v - top) for v in e]
            z = sum(e)
            m = sum(a * v for a, v in zip(x, e)) / z
            out.append((top + log(z), m, sqrt(sum((a - m) ** 2 * v for a, v in zip(x, e)) / z)))
        return out

    cells = sum(map(len, y))

    def means(u):
        return u[0] + u[1], u[0]  # m.1 > m.2: the difference is the first coordinate

    def f(u):
        m = means(u)
        return normal(m[0], 0, 3) + normal(m[1], 0, 3) - cells * log(2 * sqrt(2 * pi)) + sum(g[0] for g in groups(m, 30))

    def values(u):
        m = means(u)
        return list(m) + [g[1:] for g in groups(m, 30)]

    names = ["m.1", "m.2"] + [f"u.{g + 1}" for g in range(len(y))]
    half = quadrature("quadrature over both means, one above the other, twice, and over each effect given them", names, f, [(-8.0, 8.0), (0.0, 12.0)], (),
                      values, n=40)
    a, b = half["parameters"]["m.1"], half["parameters"]["m.2"]
    mean = 0.5 * (a["mean"] + b["mean"])
    sd = sqrt(0.5 * (a["sd"] ** 2 + a["mean"] ** 2 + b["sd"] ** 2 + b["mean"] ** 2) - mean ** 2)
    for p in (a, b):
        p.clear()
        p.update(mean=mean, sd=sd)
    half["log_evidence"] += log(2)
    half["regions"] += [{"where": "m_1 > m_2", "p": 0.5}]
    return half


# --- the command ----------------------------------------------------------------------------------------------------------------

def differences(a, b):
    """The largest difference of two answers, as a share of what is judged."""
    worst = 0.0
    if (a["log_evidence"] is None) != (b["log_evidence"] is None) or a["parameters"].keys() != b["parameters"].keys():
        return math.inf
    if a["log_evidence"] is not None:
        worst = abs(a["log_evidence"] - b["log_evidence"])
    for n, p in a["parameters"].items():
        q = b["parameters"][n]
        for k in ("mean", "sd"):
            if (p[k] is None) != (q[k] is None):
                return math.inf
            if p[k] is not None:
                worst = max(worst, abs(p[k] - q[k]) / (p["sd"] or p.get("scale") or 1.0))
    if [r["where"] for r in a["regions"]] != [r["where"] for r in b["regions"]]:
        return math.inf
    return max([worst] + [abs(r["p"] - s["p"]) for r, s in zip(a["regions"], b["regions"])])


def rounded(a):
    if isinstance(a, float):
        return float(f"{a:.10g}")
    if isinstance(a, dict):
        return {k: rounded(v) for k, v in a.items()}
    return [rounded(v) for v in a] if isinstance(a, list) else a


def main(words):
    global FINE
    write = "--write" in words
    patterns = [w for w in words if w != "--write"] or ["*"]
    file = HERE / "answers.json"
    known = json.loads(file.read_text()) if file.exists() else {}
    bad = 0
    for name, function in TARGETS.items():
        if not any(fnmatch.fnmatch(name, p) for p in patterns):
            continue
        FINE = 1.0
        a = function()
        if "quadrature" in a["how"]:
            FINE = 1.25
            gap = differences(a, function())
            if gap > a.get("accuracy", 1e-4):
                bad += 1
                print(f"{name}: two rules differ by {gap:.2g}")
        a = rounded(a)
        if write:
            known = json.loads(file.read_text()) if file.exists() else {}
            known[name] = a
            file.write_text(json.dumps({k: known[k] for k in TARGETS if k in known}, indent=1) + "\n")
            print(f"{name}: log evidence {a['log_evidence']}, " + ", ".join(f"{k} {v['mean']} +- {v['sd']}" for k, v in list(a["parameters"].items())[:4]),
                  "; ".join(f"{r['where']}: {r['p']:.4f}" for r in a["regions"][:4]), flush=True)
        else:
            gap = differences(a, known[name]) if name in known else math.inf
            bad += gap > 1e-6
            print(f"{name}: {'as recorded' if gap <= 1e-6 else f'differs by {gap:.3g}'}", flush=True)
    return bad > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
