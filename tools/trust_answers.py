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
import itertools
import json
import math
import pathlib
import re
import sys

from math import exp, expm1, lgamma, log, log1p, pi, sqrt

HERE = pathlib.Path(__file__).resolve().parent.parent / "bench" / "trust"
TARGETS = {}
FINE = 1.0  # multiplies the number of nodes


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
        self.first, self.second = [0.0] * len(self.names), [0.0] * len(self.names)
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
        scope = None
        for j, part in enumerate(self.parts):
            if part:
                v = values[self.names.index(part[0])]
                if isinstance(v, tuple):
                    z = (part[2] - v[0]) / v[1]
                    p = Phi(z) if part[1] == "<" else Phi(-z)
                else:
                    p = float(v < part[2] if part[1] == "<" else v > part[2])
            else:
                scope = scope or dict(zip(self.names, values))
                p = float(eval(self.code[j], {"sqrt": sqrt, "abs": abs}, scope))
            self.share[j] += w * p

    def answer(self, how, evidence=True):
        a = {"how": how, "parameters": {}, "regions": []}
        a["log_evidence"] = self.top + log(self.total) if evidence else None
        for i, n in enumerate(self.names):
            m = self.first[i] / self.total
            a["parameters"][n] = {"mean": m, "sd": sqrt(max(self.second[i] / self.total - m * m, 0.0))}
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


def schools_answer(model, prior, top, how="tau < 0.1"):
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
    c = 0.5 * log(2 * pi)

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
    s = Sum(["v"], [])
    p = {c: 0.0 for c in (0.05, 1.0, 20.0)}
    for v, w in line(-30, 30, 600):
        for c in p:
            p[c] += exp(w + normal(v, 0, 3)) * math.erf(c / exp(v / 2) / sqrt(2))
    regions = [("v < -5", Phi(-5 / 3)), ("v < -6.98", Phi(-6.98 / 3)), ("v > 5", Phi(-5 / 3))]
    regions += [(f"abs(x_{i}) < {c}", p[c]) for i in (1, 9) for c in p]
    return closed(0.0, parameters, regions, how)


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


def shell(d, width, box, name, quantile=None):
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
            if gap > 1e-4:
                bad += 1
                print(f"{name}: two rules differ by {gap:.2g}")
        a = rounded(a)
        if write:
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
