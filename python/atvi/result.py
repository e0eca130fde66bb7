# SPDX-License-Identifier: MIT
"""Draws and what is known about them."""
import json
import os
import re

import numpy as np

INDEXED = re.compile(r"^(.+?)((?:\.\d+)+)$")
STATS = {"lp__": "lp", "log_lik__": "log_lik", "log_prior__": "log_prior", "weight__": "weight"}


def gather(names, columns, shape):
    """Columns [n] named beta.1, beta.2, ... as one array `beta` of shape [*shape, ...]; others by themselves."""
    groups = {}
    for name, column in zip(names, columns):
        match = INDEXED.match(name)
        base, index = (match[1], tuple(int(i) for i in match[2][1:].split("."))) if match else (name, ())
        groups.setdefault(base, []).append((index, name, column))
    out = {}
    for base, members in groups.items():
        axes = [sorted(set(axis)) for axis in zip(*(index for index, _, _ in members))]
        full = len({len(index) for index, _, _ in members}) == 1 and len(members) == np.prod([len(a) for a in axes])
        if members[0][0] == () and len(members) == 1:
            out[base] = np.asarray(members[0][2]).reshape(shape)
        elif full and sorted(index for index, _, _ in members) == [index for index, _, _ in members]:
            block = np.stack([c for _, _, c in members], axis=-1)
            out[base] = block.reshape(*shape, *(len(a) for a in axes))
        else:
            out.update((name, np.asarray(column).reshape(shape)) for _, name, column in members)
    return out


class Table:
    """One file of draws, or its like: `draws` and `stats` are dicts of arrays [chain, draw, ...]."""

    def __init__(self, names, columns, chains):
        shape = (chains, len(columns[0]) // chains)
        own = [k for k, name in enumerate(names) if not name.endswith("__")]
        self.draws = gather([names[k] for k in own], [columns[k] for k in own], shape)
        self.stats = {STATS[n]: np.asarray(c).reshape(shape) for n, c in zip(names, columns) if n in STATS}


def read_table(path):
    """(Table, configuration) of draws.csv or weighted.csv."""
    config = {}
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

    def __init__(self, plain, weighted, summary, folder=None):
        self.draws, self.stats = plain.draws, plain.stats
        self.weighted = weighted.draws if weighted else None
        self.weight = weighted.stats["weight"] if weighted else None
        self.summary, self.folder = summary, folder
        self.verdict, self.messages = summary["verdict"], summary["messages"]

    @property
    def names(self):
        return list(self.draws)

    def _best(self, name):
        """Draws and weights that the summary speaks of."""
        if self.weight is not None and self.summary.get("weighted"):
            return self.weighted[name], self.weight
        x = self.draws[name]
        return x, np.full(x.shape[:2], 1 / (x.shape[0] * x.shape[1]))

    def mean(self, name):
        """Posterior mean, as in the summary: with the weights where they are to be trusted. A number, or an array of an array."""
        x, w = self._best(name)
        return np.tensordot(w, x, axes=2)[()]

    def sd(self, name):
        """Posterior standard deviation, likewise."""
        x, w = self._best(name)
        return np.sqrt(np.tensordot(w, (x - self.mean(name)) ** 2, axes=2) / (1 - np.sum(w**2)))[()]

    def __repr__(self):
        n = next(iter(self.draws.values())).shape if self.draws else (0, 0)
        return (f"<atvi.Result: {self.summary.get('method')}, {n[0]} x {n[1]} draws of {', '.join(self.draws)}; "
                f"verdict {self.verdict}>")


def read(folder):
    """The result in a folder that `atvi fit` made."""
    folder = os.fspath(folder)
    plain, _ = read_table(os.path.join(folder, "draws.csv"))
    path = os.path.join(folder, "weighted.csv")
    weighted = read_table(path)[0] if os.path.exists(path) else None
    with open(os.path.join(folder, "summary.json"), encoding="utf-8") as file:
        summary = json.load(file)
    return Result(plain, weighted, summary, folder)
