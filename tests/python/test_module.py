# SPDX-License-Identifier: MIT
"""python/atvi, in a folder with cold.atvi; ATVI is the program. test_module.py [case]"""
import math
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

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
            assert abs(r.summary["log_evidence"]["value"] + 11.98155) < 0.02 and r.summary["khat"] < 0.7
            assert abs(r.weight.sum() - 1) < 1e-9 and r.weighted["level"].shape == r.weight.shape
        else:
            assert r.weight is None and r.weighted is None
        assert r.stats["lp"].shape == r.draws["level"].shape


def bounds():
    near(atvi.fit_density(line, ["level", "slope"], [-np.inf, -np.inf], [np.inf, np.inf], seed=2), 0.03)
    near(atvi.fit_density(line, ["level", "slope"], seed=2), 0.03)  # open unless told
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
    try:
        atvi.fit_density(lambda x: -x[0] ** 2, ["x"], -1, 1)
        raise AssertionError("no exception")
    except TypeError as error:
        assert "gradient" in str(error)
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
    # words of the program's flags
    r = atvi.fit_density(line, ["level", "slope"], -10, 10, exact=True, tune="auto", seed=np.int64(4))
    near(r, 0.15)
    assert r.weight is None and r.summary["exact"] == 1
    # impossible and failed points are not the end
    def holes(x):
        value, grad = line(x)
        value[x[0] > 3] = -np.inf
        value[x[1] > 3] = np.nan
        return value, grad
    near(atvi.fit_density(holes, ["level", "slope"], -10, 10), 0.1)


def shapes():
    """What numpy would spread over all points is a mistake: a sum over them, say."""
    value, grad = lambda x: -0.5 * (x**2).sum(0), lambda x: -x
    for wrong, words in [
        (lambda x: (value(x).sum(), grad(x)), "log density has the shape ()"),
        (lambda x: (value(x)[:1], grad(x)), "log density has the shape (1,)"),
        (lambda x: (value(x)[None, :], grad(x)), "log density has the shape (1, "),
        (lambda x: (value(x), grad(x)[:, :1]), "gradient has the shape (2, 1)"),
        (lambda x: (value(x), grad(x).T), "gradient has the shape ("),
        (lambda x: (value(x), grad(x)[0]), "gradient has the shape ("),
        (lambda x: None, "log density is None"),
        (lambda x: (None, grad(x)), "log density is None"),
    ]:
        try:
            atvi.fit_density(wrong, ["a", "b"], -9, 9)
            raise AssertionError("no exception: " + words)
        except ValueError as error:
            assert words in str(error), (words, error)
    r = atvi.fit_density(lambda x: [value(x), grad(x)], ["a", "b"], -9, 9, method="map")  # a list will do
    assert isinstance(r.mean("a"), float) and isinstance(r.sd("a"), float)
    # Points may be kept and written to: they are the function's own.
    kept = []
    def keeps(x):
        kept.append((x, x.sum()))
        return value(x), grad(x)
    atvi.fit_density(keeps, ["a", "b"], -9, 9, method="map")
    assert all(x.sum() == total for x, total in kept) and len(kept) > 5


def interrupts():
    """Ctrl-C in the function and in the library, and of a fit by the program, which keeps what there is."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
    for wait in (0.0, 0.01):  # spent in the function
        calls = [0]
        def slow(x):
            calls[0] += 1
            if calls[0] == 20:
                threading.Timer(0.03, os.kill, (os.getpid(), signal.SIGINT)).start()
            time.sleep(wait)
            return line(x)
        begin = time.monotonic()
        try:
            atvi.fit_density(slow, ["level", "slope"], -10, 10, method="nuts", ess=100000, max_seconds=60)
            raise AssertionError("not interrupted")
        except KeyboardInterrupt:
            assert time.monotonic() - begin < 30
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    # so precise that it does not end by itself meanwhile, however fast the machine is
    pathlib.Path("slow.atvi").write_text(pathlib.Path("cold.atvi").read_text() + "solver rk45 tol 1e-12 maxsteps 1000000\n")
    for send in (os.killpg, os.kill):  # as a terminal does, and to Python alone
        child = fitting(f"'slow.atvi', method='nuts', ess=100000, out='{send.__name__}'")
        time.sleep(2.5)
        send(child.pid, signal.SIGINT)
        assert "KeyboardInterrupt" in child.communicate(timeout=30)[1]
        assert atvi.read(send.__name__).draws["beta"].size > 10


def fitting(arguments):
    """atvi.fit(arguments) in a process group of its own."""
    code = f"import atvi, signal; signal.signal(signal.SIGINT, signal.default_int_handler); atvi.fit({arguments})"
    return subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stderr=subprocess.PIPE, text=True)


# A program that takes its time to write what it has, saying much, and ends at once if told twice, as atvi does.
PATIENT = f"""#!{sys.executable}
import os, pathlib, signal, sys, time


def told(*_):
    if os.path.exists("told"):
        pathlib.Path("twice").touch()
        os._exit(130)
    pathlib.Path("told").touch()


for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, told)
pathlib.Path("ready").touch()
while not os.path.exists("told"):
    time.sleep(0.05)
for _ in range(15):
    time.sleep(0.1)
    sys.stderr.write(" " * 20000)
pathlib.Path("written").touch()
"""


def script(name, text):
    """A program in the place of atvi."""
    pathlib.Path(name).write_text(text)
    os.chmod(name, 0o755)
    os.environ["ATVI"] = os.path.abspath(name)


def told():
    """The program is told to stop once, whoever tells; a second time ends it."""
    script("patient", PATIENT)
    for send, times, left in [(os.killpg, 1, ["told", "written"]), (os.kill, 1, ["told", "written"]), (os.kill, 2, ["told"])]:
        child = fitting("'cold.atvi'")
        while not os.path.exists("ready"):
            time.sleep(0.02)
        for _ in range(times):
            send(child.pid, signal.SIGINT)
            time.sleep(0.9)
        assert "KeyboardInterrupt" in child.communicate(timeout=30)[1]
        time.sleep(0.2)
        there = [name for name in ("ready", "told", "twice", "written") if os.path.exists(name)]
        assert there == ["ready", *left], (send, times, there)
        for name in there:
            os.remove(name)


def words():
    """exact and tune: True, False or "auto"; flags; numbers."""
    script("says", '#!/bin/sh\nshift 3\necho "$@" >&2\nexit 1\n')
    for options, want in [(dict(exact=False), "--no-exact"), (dict(exact=True), "--exact"), (dict(exact="auto", seed=3), "--seed 3"),
                          (dict(tune=False), "--tune off"), (dict(tune=np.True_), "--tune on"), (dict(tune="auto"), "--tune auto"),
                          (dict(force=True, no_report=np.True_, live=False, ess=None, max_time="10m"), "--force --no-report --max-time 10m")]:
        try:
            atvi.fit("cold.atvi", **options)
            raise AssertionError("no exception")
        except atvi.AtviError as error:
            assert str(error) == want, (options, str(error))


def gradient():
    """A wrong gradient is told before anything is begun, in words of Python."""
    points = []
    def flipped(x):
        points.append(x.shape[1])
        value, grad = line(x)
        return value, -grad
    def one(x):
        value, grad = line(x)
        return value, grad * [[1], [1.02]]
    for wrong, words in [(flipped, ["the sign is the wrong one", "2 of 2 parameters"]), (one, ["for slope it is", "1 of 2 parameters"])]:
        for lower, upper in [(-10, 10), (-np.inf, np.inf)]:
            try:
                atvi.fit_density(wrong, ["level", "slope"], lower, upper)
                raise AssertionError("no exception")
            except atvi.AtviError as error:
                assert all(word in str(error) for word in words + ["check_gradient"]) and error.status == -4, error
    assert sum(points) < 1000
    r = atvi.fit_density(flipped, ["level", "slope"], -10, 10, check_gradient=False, max_seconds=0.3, exact=False)
    assert r.verdict != "ok" and r.messages and not any("--" in m for m in r.messages), r.messages
    near(atvi.fit_density(flipped, ["level", "slope"], -10, 10, method="ram"), 0.2)  # needs none
    single = lambda x: tuple(a.astype(np.float32) for a in line(x))  # as jax has it
    near(atvi.fit_density(single, ["level", "slope"], -10, 10, method="map"), 0.1)
    assert len(r.summary["message_codes"]) == len(r.messages) == len(r.summary["message_severities"])


def advice():
    """Messages and failures say what to do in words of Python, and nothing in those of the command line."""
    from atvi.density import ADVICE, _library
    lib = _library()
    known, k = set(), 0
    while k == 0 or lib.atvi_code_name(k) != b"none":
        known.add(lib.atvi_code_name(k).decode())
        k += 1
    assert k > 50 and set(ADVICE) < known, set(ADVICE) - known
    assert all("--" not in text and "atvi " not in text and text.endswith(".") for text in ADVICE.values())
    r = atvi.fit_density(line, ["level", "slope"], -10, 10, method="ram", max_iter=400, ess=1e5)
    at = r.summary["message_codes"].index("limit-precision")
    assert r.messages[at].endswith("Raise the limit (max_seconds, max_iter) or ask for less (ess)."), r.messages
    assert r.summary["message_severities"][at] == "warning" and r.verdict != "ok"
    nan = lambda x: (np.full(x.shape[1], np.nan), np.zeros_like(x))
    for options, code, words in [(dict(), "never-evaluated", "Look at what the function returns"), (dict(method="ram"), "state-not-finite", "NaN or +inf everywhere")]:
        try:
            atvi.fit_density(nan, ["a"], 0, 1, check_gradient=False, **options)
        except atvi.AtviError as error:
            assert error.code == code and words in str(error) and "--" not in str(error), error
        else:
            raise AssertionError("no error")


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
    other = atvi.fit_density(line, ["level", "slope"], -10, 10)
    assert set(r.summary["log_evidence"]) == set(other.summary["log_evidence"]) == {"value", "se"}  # the same words in both
    assert {"method", "model", "seed", "weighted", "verdict", "messages", "khat", "elbo", "failures"} <= set(r.summary) & set(other.summary)
    r = atvi.fit("cold.atvi", method="ram", ess=100, chains=4, fix={"S0": 38}, data="cold.csv", out="python-ram")
    assert r.names == ["beta", "gamma", "R0"] and r.draws["beta"].shape[0] == 4 and r.weight is None
    assert atvi.fit("cold.atvi", exact=False, tune=False, out="python-plain").weight is not None
    assert atvi.fit("cold.atvi", exact=True, out="python-exact").weight is None
    for call, word in [(dict(model="nowhere.atvi"), "nowhere"), (dict(model="cold.atvi", out="python-ram"), "--force"),
                       (dict(model="cold.atvi", method="magic"), "magic")]:
        try:
            atvi.fit(**call)
            raise AssertionError("no exception")
        except atvi.AtviError as error:
            assert word in str(error)


def frames():
    """What pandas, xarray and ArviZ users expect."""
    import pandas
    import xarray
    names = ["b.1.1", "b.1.2", "b.2.1", "b.2.2", "s"]
    r = atvi.fit_density(lambda x: (-0.5 * (x**2).sum(0), -x), names, -9, 9, seed=5)
    chains, draws = r.draws["s"].shape
    frame = r.to_dataframe()
    assert isinstance(frame, pandas.DataFrame) and list(frame.columns) == names + ["lp", "log_lik", "log_prior"]
    assert frame.index.names == ["chain", "draw"] and len(frame) == chains * draws
    assert np.array_equal(frame["b.2.1"].loc[0].to_numpy(), r.draws["b"][0, :, 1, 0])
    weighted = r.to_dataframe(weighted=True)
    assert abs((weighted["weight"] * weighted["s"]).sum() - r.mean("s")) < 1e-12
    data = r.to_xarray()
    assert isinstance(data, xarray.Dataset) and data.b.dims == ("chain", "draw", "b_dim_0", "b_dim_1")
    assert data.b_dim_0.values.tolist() == [1, 2] and float(data.b.sel(b_dim_0=2, b_dim_1=1)[0, 3]) == r.draws["b"][0, 3, 1, 0]
    assert data.attrs["method"] == "atvi" and abs(float((r.to_xarray(weighted=True).weight).sum()) - 1) < 1e-9
    plain = atvi.fit_density(line, ["level", "slope"], -10, 10, method="map")
    try:
        plain.to_dataframe(weighted=True)
        raise AssertionError("no exception")
    except ValueError as error:
        assert "map" in str(error)
    try:
        import arviz  # noqa: F401
    except ImportError:
        try:
            r.to_inferencedata()
            raise AssertionError("no exception")
        except ImportError as error:
            assert "pip install arviz" in str(error)
        # What ArviZ is asked for, where there is none.
        class Arviz:
            from_netcdf = staticmethod(lambda path: ("netcdf", path))
            from_dict = staticmethod(lambda **groups: groups)
        sys.modules["arviz"] = Arviz
        groups = r.to_inferencedata()
        assert groups["posterior"]["b"].shape == (chains, draws, 2, 2) and groups["dims"] == {"b": ["b_dim_0", "b_dim_1"]}
        assert groups["coords"]["b_dim_1"].tolist() == [1, 2] and groups["sample_stats"]["lp"].shape == (chains, draws)
        fitted = atvi.fit("cold.atvi", out="frames")
        if os.path.exists("frames/fit.nc"):
            assert fitted.to_inferencedata() == ("netcdf", os.path.join("frames", "fit.nc"))
    else:
        assert r.to_inferencedata().posterior.b.shape == (chains, draws, 2, 2)


def found():
    assert list(atvi.methods()) == list(ERROR) and "R-hat" in atvi.methods()["ram"]
    assert {"method", "seed", "max_seconds", "exact"} <= set(atvi.options())
    assert atvi.program() == os.environ["ATVI"] and atvi.version().count(".") == 2


CASES = [density, bounds, same, arrays, errors, shapes, gradient, advice, interrupts, told, program, words, frames, found]
if __name__ == "__main__":
    for case in CASES:
        if len(sys.argv) < 2 or case.__name__ == sys.argv[1]:
            case()
