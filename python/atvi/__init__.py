# SPDX-License-Identifier: MIT
"""Bayesian calibration of computer models, from Python.

    import atvi
    r = atvi.fit("cold.atvi", seed=1)          # runs the program, gives the result
    r = atvi.read("cold-001")                  # a folder that `atvi fit` made
    r.draws["beta"]                            # numpy array [chain, draw], or [chain, draw, ...] of an array
    r.mean("beta"), r.sd("beta"), r.verdict
    r.to_dataframe()                           # pandas; also r.to_xarray() and, for ArviZ, r.to_inferencedata()

    r = atvi.fit_density(log_density, ["a", "b"], lower=[-10, 0], upper=[10, 5])

docs/formats.md has the rest. Needs numpy, the program atvi and, for fit_density, the library libatvi.so.
"""
try:
    import numpy as _numpy  # noqa: F401
except ModuleNotFoundError as _error:
    if _error.name != "numpy":
        raise
    import sys as _sys

    raise ImportError(f"atvi needs numpy, which {_sys.executable or 'this Python'} does not have: pip install numpy "
                      "(Debian's own Python: apt-get install python3-numpy)", name="numpy") from None

from .density import AtviError, fit_density, methods, options, version
from .result import Result, read
from .run import fit, program

__all__ = ["AtviError", "Result", "fit", "fit_density", "methods", "options", "program", "read", "version"]
