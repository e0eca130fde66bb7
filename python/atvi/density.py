# SPDX-License-Identifier: MIT
"""Your own log density, fitted by the library (include/atvi/bind.h), in this process."""
from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import math
import os
import pathlib
import shutil
import signal
import threading
from typing import Any, Callable, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from .result import Array, Result, Table

NUMBERS = ("seconds", "evaluations", "failures", "accept", "log_evidence", "log_evidence_se", "elbo", "khat", "efficiency",
           "modes", "outside", "rungs", "steps", "divergences", "ebfmi", "tree_depth", "max_depth_hits", "exact")
RESAMPLED_LEAST = 4000

c_idx = ctypes.c_ssize_t
c_text = ctypes.c_char_p
DENSITY = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, c_idx, c_idx, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
STOP = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)


class AtviError(Exception):
    """Message of the program or the library; status: exit code, or status of the library (atvi/core.h);
    code: kind of failure of the library, "none" if unspecified (docs/messages.md)."""

    def __init__(self, message: str, status: int | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code = status, code


def _places() -> list[str]:
    """Where the library may be: $ATVI_LIBRARY, next to the program, in the build folder, where the system looks."""
    if os.environ.get("ATVI_LIBRARY"):
        return [os.environ["ATVI_LIBRARY"]]
    out: list[pathlib.Path] = []
    here = os.environ.get("ATVI") or shutil.which("atvi")
    if here:
        folder = pathlib.Path(here).resolve().parent
        out += [folder / "libatvi.so", folder.parent / "lib" / "libatvi.so"]
        out += sorted((folder.parent / "lib").glob("*/libatvi.so"))
    out.append(pathlib.Path(__file__).resolve().parents[2] / "build" / "libatvi.so")
    return [str(p) for p in out if p.exists()] + ["libatvi.so.0", ctypes.util.find_library("atvi") or "libatvi.so"]


_loaded: Any = None


def _library() -> Any:
    global _loaded
    if _loaded is not None:
        return _loaded
    lib, why = None, ""
    for place in _places():
        try:
            lib = ctypes.CDLL(place)
            break
        except OSError as error:
            why = why or str(error)
    if lib is None:
        raise AtviError(f"the library cannot be loaded: {why}; set ATVI_LIBRARY to its path")
    p, pp = ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)
    texts, reals = ctypes.POINTER(c_text), ctypes.POINTER(ctypes.c_double)
    signatures = {
        "atvi_version": (c_text, []),
        "atvi_ctx_new": (ctypes.c_int, [p, pp]),
        "atvi_ctx_free": (None, [p]),
        "atvi_errmsg": (c_text, [p]),
        "atvi_errcode": (ctypes.c_int, [p]),
        "atvi_code_name": (c_text, [ctypes.c_int]),
        "atvi_ctx_set_threads": (None, [p, ctypes.c_int]),
        "atvi_ctx_set_stop": (None, [p, STOP, p]),
        "atvi_density_new": (ctypes.c_int, [p, c_text, c_idx, texts, reals, reals, c_text, DENSITY, p, pp]),
        "atvi_density_free": (None, [p]),
        "atvi_fit_named": (ctypes.c_int, [p, p, c_idx, texts, texts, pp]),
        "atvi_fit_option_word": (c_text, [c_idx, c_text]),
        "atvi_fit_method_word": (c_text, [c_idx, c_text]),
        "atvi_draws_free": (None, [p]),
        "atvi_draws_size": (c_idx, [p, c_text]),
        "atvi_draws_word": (c_text, [p, c_text, c_idx]),
        "atvi_draws_numbers": (p, [p, c_text, c_idx]),
        "atvi_draws_number": (ctypes.c_double, [p, c_text]),
        "atvi_draws_resample": (ctypes.c_int, [p, c_idx, ctypes.c_uint64, pp]),
        "atvi_judgement_new": (ctypes.c_int, [p, pp]),
        "atvi_judgement_free": (None, [p]),
        "atvi_judgement_size": (c_idx, [p]),
        "atvi_judgement_word": (c_text, [p, c_text, c_idx]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    _loaded = lib
    return lib


def version() -> str:
    """Version of the library."""
    return _library().atvi_version().decode()


def _view(address: int, *shape: int) -> Array:
    n = math.prod(shape)
    return np.ctypeslib.as_array((ctypes.c_double * n).from_address(address)).reshape(shape)


def _shaped(answer: Any, shape: tuple[int, ...], what: str) -> Array:
    """The user's numbers, which must have this shape: numpy would broadcast a sum over all points to each of them."""
    x = np.asarray(answer, dtype=float)
    if answer is None or x.shape != shape:
        was = "is None" if answer is None else f"has the shape {x.shape}"
        raise ValueError(f"the {what} {was}, want {shape}: the log density is [point], the gradient [parameter, point] as theta is")
    return x


class _Callback:
    """The user's function as the library calls it. The first exception is kept, and ends the fit."""

    def __init__(self, function: Callable[[Array], Any]) -> None:
        self.function, self.inside = function, False
        self.error: BaseException | None = None
        self.density, self.stop = DENSITY(self.call), STOP(lambda _: self.error is not None)

    def call(self, _user: int | None, d: int, n: int, theta: int, value: int, gradient: int | None) -> int:
        if self.error is not None:
            return 1
        try:
            self.inside = True
            answer = self.function(_view(theta, d, n).copy())  # whoever keeps it may
            self.inside = False
            pair = isinstance(answer, tuple) or (isinstance(answer, list) and len(answer) == 2 and np.ndim(answer[0]) > 0)
            log_density, grad = answer if pair else (answer, None)
            _view(value, n)[:] = _shaped(log_density, (n,), "log density")
            if gradient:
                if grad is None:
                    raise TypeError("this method needs the gradient: return (log_density[B], gradient[d, B])")
                _view(gradient, d, n)[:] = _shaped(grad, (d, n), "gradient")
            return 0
        except BaseException as error:  # even KeyboardInterrupt: C cannot pass it on
            self.inside, self.error = False, self.error or error
            return 1

    def interrupt(self, _signal: int, _frame: Any) -> None:
        """Ctrl-C. An exception between the library and the user's function would be lost, because ctypes drops it."""
        self.error = self.error or KeyboardInterrupt()
        if self.inside:
            raise self.error


@contextlib.contextmanager
def _interruptible(callback: _Callback) -> Iterator[None]:
    """Ctrl-C ends the fit, if Python handles it."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    before = signal.signal(signal.SIGINT, callback.interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _strings(words: Iterable[Any]) -> Any:
    words = list(words)
    return (c_text * max(len(words), 1))(*(str(w).encode() for w in words))


# What to do about a message or a failure of that code (docs/messages.md), in words of fit_density.
ADVICE = {
    "divergences": 'Compare with method="atvi" or "ram".',
    "ebfmi": 'Compare with method="atvi" or "ram".',
    "khat-refused": 'Check the result with method="ram".',
    "khat-unknown": 'Check the result with method="ram".',
    "weights-poor": 'Check the result with method="ram".',
    "laplace-poor": 'method="ram" gives exact draws.',
    "exact-needed": "exact=False keeps the approximation instead.",
    "limit": "Raise the limit (max_seconds, max_iter).",
    "limit-precision": "Raise the limit (max_seconds, max_iter) or ask for less (ess).",
    "modes-left-out": 'method="atvi" covers them all, each with its share.',
    "no-gradient": 'method="ram" needs none.',
    "never-evaluated": "Look at what the function returns inside the bounds.",
    "likelihood-zero": "The function returns -inf everywhere: look at it, or narrow the bounds.",
    "state-not-finite": "The function returns NaN or +inf everywhere: look at it, or narrow the bounds.",
}


def _advised(text: str, code: str | None) -> str:
    return f"{text} {ADVICE[code]}" if code in ADVICE else text


def _said(lib: Any, ctx: Any, status: int) -> AtviError:
    text, code = lib.atvi_errmsg(ctx).decode(errors="replace"), lib.atvi_code_name(lib.atvi_errcode(ctx)).decode()
    return AtviError(f"{text}\n{ADVICE[code]}" if code in ADVICE else text, status, code)


def _word(value: Any) -> Any:
    """The value of an option as the library reads it: True and False are 1 and 0."""
    return int(value) if isinstance(value, (bool, np.bool_)) else value


def _listed(function: Any) -> dict[str, str]:
    """{name: help} of the library's lists."""
    names: dict[str, str] = {}
    i = 0
    while name := function(i, b"name"):
        names[name.decode()] = function(i, b"help").decode()
        i += 1
    return names


def methods() -> dict[str, str]:
    """The methods of fit_density and fit: {name: what it does}."""
    return _listed(_library().atvi_fit_method_word)


def options() -> dict[str, str]:
    """The options of fit_density: {name: what it does}. Those of the program are the same, except max_time for max_seconds."""
    return _listed(_library().atvi_fit_option_word)


class _Draws:
    def __init__(self, lib: Any, pointer: Any) -> None:
        self.lib, self.p = lib, pointer

    def size(self, what: str) -> int:
        return self.lib.atvi_draws_size(self.p, what.encode())

    def numbers(self, what: str, i: int = 0) -> Any:
        at = self.lib.atvi_draws_numbers(self.p, what.encode(), i)
        return _view(at, self.size("draws")).copy() if at else None

    def word(self, what: str, i: int = 0) -> Any:
        word = self.lib.atvi_draws_word(self.p, what.encode(), i)
        return word.decode(errors="replace") if word else None

    def table(self) -> Table:
        names = [self.word("column", i) for i in range(self.size("columns"))]
        columns = [self.numbers("column", i) for i in range(len(names))]
        prior, lik, weight = (self.numbers(k) for k in ("log_prior", "log_lik", "weight"))
        names += ["lp__", "log_lik__", "log_prior__"]
        columns += [prior + lik, lik, prior]
        if weight is not None:
            names.append("weight__")
            columns.append(weight)
        return Table(names, columns, self.size("chains"))


def _plain(lib: Any, draws: _Draws, khat: float, seed: int) -> tuple[Table, bool]:
    """A table of draws that count equally, and whether weights were used for it."""
    weight, n = draws.numbers("weight"), draws.size("draws")
    if weight is None or not khat <= min(1 - 1 / math.log10(max(n, 2)), 0.7):
        return draws.table(), False
    count = min(n, max(RESAMPLED_LEAST, int(1 / np.sum(weight**2))))
    out = ctypes.c_void_p()
    if lib.atvi_draws_resample(draws.p, count, seed, ctypes.byref(out)):
        raise MemoryError("atvi_draws_resample")
    try:
        return _Draws(lib, out).table(), True
    finally:
        lib.atvi_draws_free(out)


def _judge(lib: Any, ctx: Any, draws: _Draws) -> dict[str, Any]:
    """Verdict and messages, as in summary.json; advice follows the first message of each code."""
    out = ctypes.c_void_p()
    status = lib.atvi_judgement_new(draws.p, ctypes.byref(out))
    if status:
        raise _said(lib, ctx, status)
    try:
        word = lambda what, i=0: lib.atvi_judgement_word(out, what.encode(), i).decode(errors="replace")
        every = range(lib.atvi_judgement_size(out))
        codes = [word("code", i) for i in every]
        texts = [_advised(word("text", i), codes[i] if codes.index(codes[i]) == i else None) for i in every]
        return {"verdict": word("verdict"), "messages": texts, "message_codes": codes,
                "message_severities": [word("severity", i) for i in every]}
    finally:
        lib.atvi_judgement_free(out)


def _result(lib: Any, ctx: Any, draws: _Draws, seed: int) -> Result:
    summary = {key: lib.atvi_draws_number(draws.p, key.encode()) for key in NUMBERS}
    summary = {key: None if math.isnan(x) else x for key, x in summary.items()}
    summary["log_evidence"] = {"value": summary["log_evidence"], "se": summary.pop("log_evidence_se")}  # as in summary.json
    khat = summary["khat"]
    plain, used = _plain(lib, draws, math.inf if khat is None else khat, seed)
    summary.update(method=draws.word("method"), model=draws.word("model"), seed=seed, weighted=used, **_judge(lib, ctx, draws))
    weighted = draws.table() if draws.numbers("weight") is not None else None
    return Result(plain, weighted, summary)


def fit_density(function: Callable[[Array], Any], names: Sequence[str], lower: npt.ArrayLike = -math.inf, upper: npt.ArrayLike = math.inf, *,
                threads: int = 1, name: str = "density", coordinates: str | None = None, **options: Any) -> Result:
    """Draws from your own density.

    function(theta) gets theta [d, B], B points at once, inside the bounds, and returns log_density [B] and its gradient [d, B] (method
    "ram" does without the gradient: return log_density alone). Constants in it do not matter but for log_evidence. -inf: impossible; NaN: failed.
    names, lower, upper: [d]; -inf, inf where open, which is the default; one number holds for all. Array elements are named beta.1, beta.2.
    options: method="atvi" (default), "ram", ...; seed; ess; max_seconds and the others of options(); methods() has the methods. tune and exact
    are True, False or "auto". The gradient is compared with differences of log_density first, at some 50 points for
    each parameter, and a wrong one is an AtviError; check_gradient=False does without. coordinates: "auto", "surjection", "probit", "logit", "log", "none", for all parameters.
    threads > 1 speeds up the library's own work; function is never called twice at once. The same seed gives the same draws.
    An exception in function ends the fit and is raised here, as does Ctrl-C.
    """
    names = list(names)
    d, lib = len(names), _library()
    lower, upper = (np.ascontiguousarray(np.broadcast_to(np.asarray(b, float), (d,))) for b in (lower, upper))
    callback, real = _Callback(function), ctypes.POINTER(ctypes.c_double)
    options = {k: _word(v) for k, v in options.items() if v is not None}
    ctx, target, out = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    if lib.atvi_ctx_new(None, ctypes.byref(ctx)):
        raise MemoryError("atvi_ctx_new")
    try:
        lib.atvi_ctx_set_threads(ctx, threads)
        lib.atvi_ctx_set_stop(ctx, callback.stop, None)
        status = lib.atvi_density_new(ctx, name.encode(), d, _strings(names), lower.ctypes.data_as(real), upper.ctypes.data_as(real),
                                      coordinates.encode() if coordinates else None, callback.density, None, ctypes.byref(target))
        if not status:
            with _interruptible(callback):
                status = lib.atvi_fit_named(ctx, target, len(options), _strings(options), _strings(options.values()), ctypes.byref(out))
        if callback.error is not None:
            raise callback.error
        if status:
            raise _said(lib, ctx, status)
        return _result(lib, ctx, _Draws(lib, out), int(options.get("seed", 1)))
    finally:
        lib.atvi_draws_free(out)
        lib.atvi_density_free(target)
        lib.atvi_ctx_free(ctx)
