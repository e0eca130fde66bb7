# SPDX-License-Identifier: MIT
"""Fits of model files, by the program."""
from __future__ import annotations

import os
import pathlib
import shutil
import signal
import subprocess
from typing import Any, Mapping

import numpy as np

from .density import AtviError
from .result import Result, read


def program() -> str:
    """Path of the program: $ATVI, the one next to the sources of this module, or the one on PATH."""
    own = os.environ.get("ATVI")
    built = pathlib.Path(__file__).resolve().parents[2] / "build" / "atvi"
    found = own or (str(built) if built.exists() else None) or shutil.which("atvi")
    if not found:
        raise AtviError("there is no program atvi on PATH; set ATVI to its path")
    return found


def _stop(process: subprocess.Popen[str]) -> None:
    """After Ctrl-C: the program may write its results so far. A second Ctrl-C ends it."""
    try:
        process.terminate()
        process.communicate()
    except KeyboardInterrupt:
        process.kill()
        process.communicate()


def _run(command: list[str], cwd: str | os.PathLike[str] | None) -> tuple[int, str, str]:
    """(status, standard output, standard error)"""
    # The program inherits that SIGINT is blocked, so Ctrl-C in a terminal reaches Python alone, which passes it on once, as SIGTERM.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process = subprocess.Popen(command, cwd=cwd, text=True, encoding="utf-8", errors="replace", stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except BaseException:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        raise
    with process:
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            out, said = process.communicate()
        except KeyboardInterrupt:
            _stop(process)
            raise
        return process.returncode, out.strip(), said


def _option(name: str, value: Any) -> list[str]:
    """An option of fit() as arguments of the program. exact and tune may be True, False or "auto", as in fit_density()."""
    option = "--" + name.replace("_", "-")
    if name in ("exact", "tune") and isinstance(value, (bool, np.bool_)):
        value = "on" if value else "off"
    if name == "exact" and value in ("on", "off", "auto"):
        return {"on": ["--exact"], "off": ["--no-exact"]}.get(value, [])
    if isinstance(value, (bool, np.bool_)):
        return [option] if value else []
    return [] if value is None else [option, str(value)]


def fit(model: str | os.PathLike[str], *, out: str | os.PathLike[str] | None = None,
        data: str | os.PathLike[str] | Mapping[str, str | os.PathLike[str]] | None = None, fix: Mapping[str, float] | None = None,
        cwd: str | os.PathLike[str] | None = None, quiet: bool = True, **options: Any) -> Result:
    """Runs `atvi fit MODEL` and reads the result.

    data: a file, or {name: file}; fix: {name: value}. Other options are those of the program, with _ for -: method="ram", seed=3,
    max_time="10m", force=True, exact=False, ... A fit whose verdict is not ok is a result like any other: see r.verdict and r.messages. cwd: the folder to
    run it in. quiet=False prints what the program warns of. Ctrl-C stops it as on the command line: results so far are in its folder.
    """
    command = [program(), "fit", os.fspath(model), "--quiet"]
    if out is not None:
        command += ["--out", os.fspath(out)]
    files = data if isinstance(data, Mapping) else {"": data} if data else {}
    for name, file in files.items():
        command += ["--data", f"{name}={os.fspath(file)}" if name else os.fspath(file)]
    for name, value in (fix or {}).items():
        command += ["--fix", f"{name}={value}"]
    for name, choice in options.items():
        command += _option(name, choice)
    status, folder, said = _run(command, cwd)
    if not folder or status not in (0, 3):
        raise AtviError(said.strip() or f"atvi fit ended with status {status}", status)
    if not quiet and said:
        print(said, end="")
    return read(os.path.join(os.fspath(cwd) if cwd else "", folder))
