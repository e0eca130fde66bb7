# SPDX-License-Identifier: MIT
"""A strict reader of Stan CSV, from CmdStan's guide ("Stan CSV file format"), and of nothing else.

stan_csv.py FILE...   one file per chain; prints chains, draws, names and means as JSON

A file is: comment lines with the configuration, `key = value`, indented by two spaces per level; one header line; data lines of as many numbers;
comment lines with the times. Names of columns that are not the model's end in __; lp__ comes first. Indices follow a dot and count from 1, the first
fastest, and are complete."""
import itertools
import json
import re
import sys

NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|[-+]?inf|nan")
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*(\.[1-9]\d*)*|[A-Za-z][A-Za-z0-9_]*__")
KEYS = ("stan_version_major", "stan_version_minor", "stan_version_patch", "model", "method", "num_samples", "num_warmup",
        "save_warmup", "thin", "algorithm", "id", "seed")


def configuration(lines):
    config = {}
    for line in lines:
        match = re.fullmatch(r"#((?:  )*) ([A-Za-z_]+) = ?(.*?)(?: \(Default\))?", line)
        if match:
            assert match[2] not in config or match[2] == "file", f"twice: {line}"
            config[match[2]] = match[3]
    for key in KEYS:
        assert key in config, f"no {key}"
    assert config["method"] == "sample"
    assert config["algorithm"] in ("hmc", "fixed_param")
    return config


def check_arrays(names):
    """Elements of an array stand together, by columns, from 1 on and without a gap."""
    for base, group in itertools.groupby(names, key=lambda name: name.split(".")[0]):
        index = [tuple(int(i) for i in name.split(".")[1:]) for name in group]
        assert sum(name.split(".")[0] == base for name in names) == len(index), base
        sizes = [max(axis) for axis in zip(*index)]
        grid = itertools.product(*(range(1, n + 1) for n in reversed(sizes)))
        assert index == [tuple(reversed(i)) for i in grid], (base, index)


def read(path):
    with open(path, encoding="utf-8", newline="") as file:
        text = file.read()
    assert text.endswith("\n") and "\r" not in text
    lines = text.split("\n")[:-1]
    top = next(k for k, line in enumerate(lines) if not line.startswith("#"))
    config = configuration(lines[:top])
    names = lines[top].split(",")
    for name in names:
        assert NAME.fullmatch(name), name
    assert names[0] == "lp__" and "accept_stat__" in names and len(set(names)) == len(names)
    assert [n.endswith("__") for n in names] == sorted((n.endswith("__") for n in names), reverse=True)
    check_arrays(names)
    rows = [line.split(",") for line in lines[top + 1:] if not line.startswith("#")]
    for row in rows:
        assert len(row) == len(names) and all(NUMBER.fullmatch(cell) for cell in row), row
    saved = int(config["num_samples"]) + int(config["save_warmup"]) * int(config["num_warmup"])
    assert len(rows) == saved // int(config["thin"])
    end = lines[top + 1 + len(rows):]
    assert all(line.startswith("#") for line in end) and any("Elapsed Time:" in line for line in end)
    return config, names, [[float(cell) for cell in row] for row in rows]


def main(paths):
    chains = [read(path) for path in paths]
    assert all(c[1] == chains[0][1] and len(c[2]) == len(chains[0][2]) for c in chains)
    assert [int(c[0]["id"]) for c in chains] == list(range(1, len(chains) + 1))
    names = chains[0][1]
    means = {name: sum(row[k] for c in chains for row in c[2]) / sum(len(c[2]) for c in chains) for k, name in enumerate(names)}
    print(json.dumps({"chains": len(chains), "draws": len(chains[0][2]), "names": names, "means": means,
                      "model": chains[0][0]["model"], "seed": chains[0][0]["seed"]}))


if __name__ == "__main__":
    main(sys.argv[1:])
