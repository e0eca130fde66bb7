# SPDX-License-Identifier: MIT
"""Draws and what is known about them."""
from __future__ import annotations

import importlib
import json
import os
import re
from typing import TYPE_CHECKING, Any, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import arviz
    import pandas
    import xarray

Array = npt.NDArray[np.float64]
INDEXED = re.compile(r"^(.+?)((?:\.\d+)+)$")
STATS = {"lp__": "lp", "log_lik__": "log_lik", "log_prior__": "log_prior", "weight__": "weight"}


def _library(name: str, purpose: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise ImportError(f"{purpose} needs {name}: pip install {name}", name=name) from None


def gather(names: Iterable[str], columns: Iterable[Array]) -> tuple[dict[str, Array], dict[str, list[list[int]]]]:
    """Columns [chain, draw] named beta.1, beta.2, ... as one array `beta` [chain, draw, ...]; others by themselves.

    Also the indices along each further dimension of an array, as the model counts them.
    """
    groups: dict[str, list[tuple[tuple[int, ...], str, Array]]] = {}
    for name, column in zip(names, columns):
        match = INDEXED.match(name)
        base, index = (match[1], tuple(int(i) for i in match[2][1:].split("."))) if match else (name, ())
        groups.setdefault(base, []).append((index, name, column))
    out: dict[str, Array] = {}
    axes_of: dict[str, list[list[int]]] = {}
    for base, members in groups.items():
        axes = [sorted(set(axis)) for axis in zip(*(index for index, _, _ in members))]
        full = len({len(index) for index, _, _ in members}) == 1 and len(members) == np.prod([len(a) for a in axes])
        if members[0][0] == () and len(members) == 1:
            out[base], axes_of[base] = members[0][2], []
        elif full and sorted(index for index, _, _ in members) == [index for index, _, _ in members]:
            block = np.stack([c for _, _, c in members], axis=-1)
            out[base], axes_of[base] = block.reshape(*block.shape[:2], *(len(a) for a in axes)), axes
        else:
            out.update((name, column) for _, name, column in members)
            axes_of.update((name, []) for _, name, _ in members)
    return out, axes_of


class Table:
    """One file of draws, or something like it: `columns`, `draws` and `stats` are dicts of arrays [chain, draw, ...].

    columns has a scalar for every column, in the order of the file; draws has arrays put together, with the indices in axes.
    """

    def __init__(self, names: Sequence[str], columns: Sequence[Array], chains: int) -> None:
        shape = (chains, len(columns[0]) // chains)
        shaped = {name: np.asarray(column, dtype=float).reshape(shape) for name, column in zip(names, columns)}
        self.columns = {name: column for name, column in shaped.items() if not name.endswith("__")}
        self.draws, self.axes = gather(self.columns, self.columns.values())
        self.stats = {STATS[name]: column for name, column in shaped.items() if name in STATS}


def read_table(path: str) -> tuple[Table, dict[str, str]]:
    """(Table, configuration) of draws.csv or weighted.csv."""
    config: dict[str, str] = {}
    with open(path, encoding="utf-8") as file:
        while (line := file.readline()).startswith("#"):
            key, found, value = line[1:].partition(" =")
            if found:
                config[key.strip()] = value.strip()
        # names are quoted where they have commas in them, as nowhere else
        names = [m[0] if not m[0].startswith('"') else m[0][1:-1].replace('""', '"')
                 for m in re.finditer(r'"(?:[^"]|"")*"|[^,\n]+', line)]
        block = np.loadtxt(file, delimiter=",", ndmin=2)
    return Table(names, list(block.T), int(config.get("chains", 1))), config


class Result:
    """A fit.

    draws     name -> array [chain, draw, ...]: draws that count equally
    stats     lp, log_lik, log_prior of them, [chain, draw]
    weighted  the draws of atvi, nf and copula as they came, likewise; None of other methods
    weight    [chain, draw] what each of `weighted` counts; they sum to 1. None: no weights
    summary   the contents of summary.json (after fit_density as much of it as there is: no tables of parameters)
    verdict, messages, folder
    """

    def __init__(self, plain: Table, weighted: Table | None, summary: Mapping[str, Any], folder: str | None = None) -> None:
        self._plain, self._weighted = plain, weighted
        self.draws: dict[str, Array] = plain.draws
        self.stats: dict[str, Array] = plain.stats
        self.weighted: dict[str, Array] | None = weighted.draws if weighted else None
        self.weight: Array | None = weighted.stats["weight"] if weighted else None
        self.summary: dict[str, Any] = dict(summary)
        self.folder = folder
        self.verdict: str = summary["verdict"]
        self.messages: list[str] = summary["messages"]

    @property
    def names(self) -> list[str]:
        return list(self.draws)

    def _best(self, name: str) -> tuple[Array, Array]:
        """Draws and weights behind the summary."""
        if self.weighted is not None and self.weight is not None and self.summary.get("weighted"):
            return self.weighted[name], self.weight
        x = self.draws[name]
        return x, np.full(x.shape[:2], 1 / (x.shape[0] * x.shape[1]))

    def mean(self, name: str) -> Any:
        """Posterior mean, as in the summary: with the weights if they can be trusted. A number, or an array for an array."""
        x, w = self._best(name)
        return np.tensordot(w, x, axes=2)[()]

    def sd(self, name: str) -> Any:
        """Posterior standard deviation, likewise."""
        x, w = self._best(name)
        return np.sqrt(np.tensordot(w, (x - self.mean(name)) ** 2, axes=2) / (1 - np.sum(w**2)))[()]

    def _table(self, weighted: bool) -> Table:
        if not weighted:
            return self._plain
        if self._weighted is None:
            raise ValueError(f"method {self.summary.get('method')} gives no weighted draws")
        return self._weighted

    def to_dataframe(self, weighted: bool = False) -> pandas.DataFrame:
        """A pandas data frame with a row for every draw, indexed by chain and draw.

        A column for every number, arrays as beta.1, beta.2, then lp, log_lik, log_prior. weighted: the weighted draws, with `weight`.
        """
        pd = _library("pandas", "to_dataframe()")
        table = self._table(weighted)
        chains, draws = next(iter(table.stats.values())).shape
        index = pd.MultiIndex.from_product([range(chains), range(draws)], names=["chain", "draw"])
        return pd.DataFrame({name: x.reshape(-1) for name, x in {**table.columns, **table.stats}.items()}, index=index)

    def to_xarray(self, weighted: bool = False) -> xarray.Dataset:
        """An xarray dataset as ArviZ lays out `posterior`: dimensions chain, draw and, for arrays, beta_dim_0, ..."""
        xr = _library("xarray", "to_xarray()")
        table = self._table(weighted)
        dims = {name: [f"{name}_dim_{k}" for k in range(len(axes))] for name, axes in table.axes.items()}
        coords: dict[str, Any] = {dim: axis for name, axes in table.axes.items() for dim, axis in zip(dims[name], axes)}
        chains, draws = next(iter(table.stats.values())).shape
        variables = {name: (["chain", "draw", *dims[name]], x) for name, x in table.draws.items()}
        if weighted:
            variables["weight"] = (["chain", "draw"], table.stats["weight"])
        attributes = {key: self.summary[key] for key in ("method", "model", "seed", "verdict") if self.summary.get(key) is not None}
        return xr.Dataset(variables, coords={**coords, "chain": range(chains), "draw": range(draws)}, attrs=attributes)

    def to_inferencedata(self) -> arviz.InferenceData:
        """ArviZ's InferenceData: all groups of fit.nc if the fit has it, else posterior and sample_stats."""
        az = _library("arviz", "to_inferencedata()")
        path = os.path.join(self.folder, "fit.nc") if self.folder else ""
        if path and os.path.exists(path):
            return az.from_netcdf(path)
        data = self.to_xarray()
        dims = {name: [str(d) for d in x.dims[2:]] for name, x in data.data_vars.items() if x.ndim > 2}
        coords = {name: x.values for name, x in data.coords.items() if name not in ("chain", "draw")}
        return az.from_dict(posterior=self.draws, sample_stats=self.stats, dims=dims, coords=coords)

    def __repr__(self) -> str:
        n = next(iter(self.draws.values())).shape if self.draws else (0, 0)
        return (f"<atvi.Result: {self.summary.get('method')}, {n[0]} x {n[1]} draws of {', '.join(self.draws)}; "
                f"verdict {self.verdict}>")


def read(folder: str | os.PathLike[str]) -> Result:
    """The result in a folder that `atvi fit` made."""
    folder = os.fspath(folder)
    plain, _ = read_table(os.path.join(folder, "draws.csv"))
    path = os.path.join(folder, "weighted.csv")
    weighted = read_table(path)[0] if os.path.exists(path) else None
    with open(os.path.join(folder, "summary.json"), encoding="utf-8") as file:
        summary = json.load(file)
    return Result(plain, weighted, summary, folder)
