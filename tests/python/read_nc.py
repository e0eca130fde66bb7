# SPDX-License-Identifier: MIT
"""read_nc.py DIR: fit.nc of the run folder DIR, as xarray reads it, against draws.csv, weighted.csv and summary.json.

Prints a line of what there is: group:variable(dimensions) ..."""
import csv
import datetime
import json
import pathlib
import sys

import netCDF4
import numpy as np
import xarray as xr

GROUPS = ("posterior", "sample_stats", "posterior_predictive", "log_likelihood", "observed_data", "prior",
          "weighted_posterior", "weighted_sample_stats")  # the last two are our own
TOLERANCE = 1e-12  # relative to 1 or the mean: sums in another order, and 15 digits of the mean


def read_csv(path):
    with open(path, encoding="utf-8") as file:
        rows = list(csv.reader(line for line in file if not line.startswith("#")))
    return {name: np.array([float(row[j]) for row in rows[1:]]) for j, name in enumerate(rows[0])}


def column(data, name, others):
    """Draws [chain * draw] of the quantity that draws.csv calls beta.2, one of others."""
    own = name
    while name in data.dims or (name != own and name in others):  # the name of a dimension is taken
        name += "_"
    if name in data:
        return data[name].values.reshape(-1)
    base, *index = name.split(".")
    x = data[base]
    assert all(dim.rstrip("_") == f"{base}_dim_{k}" for k, dim in enumerate(x.dims[2:])), x.dims
    return x.sel({dim: int(i) if i.isdigit() else i for dim, i in zip(x.dims[2:], index)}).values.reshape(-1)


def check_draws(groups, posterior, stats, path):
    table = read_csv(path)
    own = [name for name in table if not name.endswith("__")]
    data, about = groups[posterior], groups[stats]
    for name in own:
        assert np.array_equal(column(data, name, own), table[name]), name
    assert data.beta.dims[:2] == ("chain", "draw") if "beta" in data else True
    assert data.sizes["chain"] == table["chain__"].max()
    assert np.array_equal(about.lp.values.reshape(-1), table["lp__"])
    assert np.array_equal(about.log_lik.values.reshape(-1), table["log_lik__"])
    assert np.array_equal(about.log_prior.values.reshape(-1), table["log_prior__"])
    if "weight__" in table:
        assert np.array_equal(about.weight.values.reshape(-1), table["weight__"])
    assert abs(float(about.weight.sum()) - 1) < 1e-9
    for name in data.dims:
        assert np.issubdtype(data[name].dtype, np.integer) or all(isinstance(x, str) for x in data[name].values)
    return own


def check_means(groups, posterior, stats, summary):
    rows = summary["parameters"] + summary["derived"]
    for row in rows:
        x, w = column(groups[posterior], row["name"], [r["name"] for r in rows]), groups[stats].weight.values.reshape(-1)
        mean = float(np.sum(w * x))
        assert abs(mean - row["mean"]) <= TOLERANCE * max(1, abs(mean)), (row["name"], mean, row["mean"])


def check_model(groups):
    posterior, likelihood, predictive = groups["posterior"], groups["log_likelihood"], groups["posterior_predictive"]
    observed, prior = groups["observed_data"], groups["prior"]
    assert set(likelihood.data_vars) == set(predictive.data_vars) == set(observed.data_vars)
    assert np.array_equal(likelihood.draw, predictive.draw)
    assert likelihood.sizes["chain"] * likelihood.sizes["draw"] <= 2000
    for name in observed.data_vars:
        assert predictive[name].dims == ("chain", "draw", *observed[name].dims)
        assert np.isfinite(predictive[name]).all()  # missing cells included
        missing = np.isnan(observed[name])
        assert np.isnan(likelihood[name].where(missing, drop=True)).all()
        assert np.isfinite(likelihood[name].where(~missing, 0)).all()
    # Summed over the data it is the log likelihood of the draws with these numbers, unless values are correlated.
    if "given all others" not in likelihood.attrs.get("comment", ""):
        check_total(groups)
    for name in posterior.data_vars:
        assert prior[name].dims == posterior[name].dims
        lower, upper = (posterior[name].attrs.get(k) for k in ("lower", "upper"))
        for x in (prior[name], posterior[name]):
            assert lower is None or (x >= lower).all()
            assert upper is None or (x <= upper).all()


def check_total(groups):
    likelihood = groups["log_likelihood"]
    total = sum(likelihood[n].sum([d for d in likelihood[n].dims if d not in ("chain", "draw")]) for n in likelihood.data_vars)
    was = groups["sample_stats"].log_lik.sel(draw=likelihood.draw)
    assert float(np.abs(total - was).max()) < 1e-7 * float(np.abs(was).max()), float(np.abs(total - was).max())


def check_schema(group, data):
    """What the schema of InferenceData asks of every group, and the names it gives."""
    assert group in GROUPS, group
    assert data.attrs["inference_library"] == data.attrs["creation_library"] == "atvi"
    assert data.attrs["inference_library_version"].count(".") == 2 and data.attrs["creation_library_language"] == "C"
    assert datetime.datetime.fromisoformat(data.attrs["created_at"]).utcoffset() == datetime.timedelta(0)
    for dim in data.dims:
        assert dim in data.coords, dim  # every dimension has its coordinate
    for name, x in data.data_vars.items():
        assert name not in data.dims, name
        if group != "observed_data":
            assert x.dims[:2] == ("chain", "draw"), (name, x.dims)
    if group != "observed_data":
        assert np.array_equal(data.chain, np.arange(data.sizes["chain"])) and len(set(data.draw.values)) == data.sizes["draw"]


def main(folder):
    folder = pathlib.Path(folder)
    path = folder / "fit.nc"
    with netCDF4.Dataset(path) as file:
        names, root = list(file.groups), {k: file.getncattr(k) for k in file.ncattrs()}
    groups = {name: xr.load_dataset(path, group=name) for name in names}
    summary = json.loads((folder / "summary.json").read_text())
    assert root["inference_library"] == "atvi" and root["method"] == summary["method"] and root["verdict"] == summary["verdict"]
    for name, data in groups.items():
        check_schema(name, data)
    own = check_draws(groups, "posterior", "sample_stats", folder / "draws.csv")
    assert len(own) == sum(int(np.prod(x.shape[2:])) for x in groups["posterior"].data_vars.values())
    if (folder / "weighted.csv").exists():
        check_draws(groups, "weighted_posterior", "weighted_sample_stats", folder / "weighted.csv")
    which = "weighted_" if summary["weighted"] else ""
    check_means(groups, which + "posterior", which + "sample_stats", summary)
    if "log_likelihood" in groups:
        check_model(groups)
    print(" ".join(f"{g}:{n}({','.join(x.dims)})" for g, data in groups.items() for n, x in data.data_vars.items()))


if __name__ == "__main__":
    main(sys.argv[1])
