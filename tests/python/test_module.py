# SPDX-License-Identifier: MIT
"""python/atvi, in a folder with cold.atvi; ATVI is the program. test_module.py [case]"""
import math
import os
import sys

import numpy as np

import atvi

T = np.arange(8.0)
Y = np.array([1.31, 1.42, 1.87, 2.04, 3.52, 3.21, 4.26, 4.09])
EXACT = {"level": (1.08333, 0.32275), "slope": (0.46619, 0.07715)}  # and log evidence -11.98155: examples/library/line.c
ERROR = {"atvi": 0.03, "nf": 0.03, "copula": 0.03, "ram": 0.15, "nuts": 0.15, "map": 0.06}  # in sds: 25000, some 1000, 4000 draws


def line(theta):
    """Straight line through eight points: log density [B] and gradient [2, B]."""
    z = (Y[:, None] - theta[0] - theta[1] * T[:, None]) / 0.5
    constant = -8 * math.log(0.5 * math.sqrt(2 * math.pi)) - 2 * math.log(20)
    return constant - 0.5 * (z**2).sum(0), np.stack([z.sum(0), (z * T[:, None]).sum(0)]) / 0.5


def near(result, error):
    for name, (mean, sd) in EXACT.items():
        assert abs(result.mean(name) - mean) < error * sd, (name, result.mean(name))
        assert abs(result.sd(name) - sd) < error * sd, (name, result.sd(name))


def density():
    for method, error in ERROR.items():
        calls = []
        r = atvi.fit_density(lambda x: (calls.append(x.shape), line(x))[1], ["level", "slope"], -10, 10, method=method, seed=3)
        near(r, error)
        assert r.verdict == "ok" and r.summary["method"] == method and r.names == ["level", "slope"]
        assert all(shape[0] == 2 for shape in calls)
        assert np.mean([shape[1] for shape in calls]) > 4  # many at once
        if method in ("atvi", "nf", "copula"):
            assert abs(r.summary["log_evidence"] + 11.98155) < 0.02 and r.summary["khat"] < 0.7
            assert abs(r.weight.sum() - 1) < 1e-9 and r.weighted["level"].shape == r.weight.shape
        else:
            assert r.weight is None and r.weighted is None
        assert r.stats["lp"].shape == r.draws["level"].shape


def bounds():
    near(atvi.fit_density(line, ["level", "slope"], [-np.inf, -np.inf], [np.inf, np.inf], seed=2), 0.03)
    # An exponential at its bound: mean 1, sd 1. The function never sees a point outside.
    def half(x):
        assert (x >= 0).all()
        return -x[0], -np.ones_like(x)
    r = atvi.fit_density(half, ["x"], 0, np.inf, seed=1)
    assert abs(r.mean("x") - 1) < 0.05 and abs(r.sd("x") - 1) < 0.05 and r.draws["x"].min() >= 0


def same():
    a, b = (atvi.fit_density(line, ["level", "slope"], -10, 10, seed=7, threads=k) for k in (1, 2))
    assert np.array_equal(a.draws["slope"], b.draws["slope"])
    c = atvi.fit_density(line, ["level", "slope"], -10, 10, seed=8)
    assert not np.array_equal(a.draws["slope"], c.draws["slope"])


def arrays():
    r = atvi.fit_density(lambda x: (-0.5 * (x**2).sum(0), -x), ["b.1.1", "b.1.2", "b.2.1", "b.2.2", "s"], -9, 9, method="map")
    assert r.draws["b"].shape[2:] == (2, 2) and r.draws["s"].ndim == 2 and r.mean("b").shape == (2, 2)


def errors():
    seen = []
    def breaks(x):
        seen.append(x.shape[1])
        if len(seen) > 20:
            raise ZeroDivisionError("the twenty-first call")
        return line(x)
    try:
        atvi.fit_density(breaks, ["level", "slope"], -10, 10)
        raise AssertionError("no exception")
    except ZeroDivisionError as error:
        assert "twenty-first" in str(error) and len(seen) == 21  # not called again
    for wrong, kind in [(lambda x: -x[0] ** 2, TypeError), (lambda x: (np.zeros(3), x), ValueError)]:
        try:
            atvi.fit_density(wrong, ["x"], -1, 1)
            raise AssertionError("no exception")
        except kind:
            pass
    for call, word in [(dict(metod="ram"), "metod"), (dict(method="magic"), "magic"), (dict(seed="x"), "seed")]:
        try:
            atvi.fit_density(line, ["level", "slope"], -10, 10, **call)
            raise AssertionError("no exception")
        except atvi.AtviError as error:
            assert word in str(error) and error.status == -1
    for names, lower, upper in [(["a", "a"], -1, 1), (["a", "b"], 1, -1), ([], 0, 1), (["a", ""], 0, 1)]:
        try:
            atvi.fit_density(line, names, lower, upper)
            raise AssertionError("no exception")
        except atvi.AtviError as error:
            assert error.status == -1
    # without a gradient: ram alone
    near(atvi.fit_density(lambda x: line(x)[0], ["level", "slope"], -10, 10, method="ram"), 0.2)
    # impossible and failed points are not the end
    def holes(x):
        value, grad = line(x)
        value[x[0] > 3] = -np.inf
        value[x[1] > 3] = np.nan
        return value, grad
    near(atvi.fit_density(holes, ["level", "slope"], -10, 10), 0.1)


def program():
    r = atvi.fit("cold.atvi", seed=1, out="python-run")
    again = atvi.read("python-run")
    assert r.folder == "python-run" and r.verdict == "ok" == again.verdict
    rows = r.summary["parameters"] + r.summary["derived"]
    assert r.names == [row["name"] for row in rows] == ["beta", "gamma", "S0", "R0"]
    for row in rows:
        assert abs(r.mean(row["name"]) - row["mean"]) <= 1e-12 * max(1, abs(row["mean"]))
        assert abs(r.sd(row["name"]) - row["sd"]) <= 1e-9 * row["sd"]
        assert np.array_equal(r.draws[row["name"]], again.draws[row["name"]])
    assert np.allclose(r.stats["lp"], r.stats["log_lik"] + r.stats["log_prior"], atol=1e-9)
    r = atvi.fit("cold.atvi", method="ram", ess=100, chains=4, fix={"S0": 38}, data="cold.csv", out="python-ram")
    assert r.names == ["beta", "gamma", "R0"] and r.draws["beta"].shape[0] == 4 and r.weight is None
    for call, word in [(dict(model="nowhere.atvi"), "nowhere"), (dict(model="cold.atvi", out="python-ram"), "--force"),
                       (dict(model="cold.atvi", method="magic"), "magic")]:
        try:
            atvi.fit(**call)
            raise AssertionError("no exception")
        except atvi.AtviError as error:
            assert word in str(error)


def found():
    assert atvi.program() == os.environ["ATVI"] and atvi.version().count(".") == 2


CASES = [density, bounds, same, arrays, errors, program, found]
if __name__ == "__main__":
    for case in CASES:
        if len(sys.argv) < 2 or case.__name__ == sys.argv[1]:
            case()
