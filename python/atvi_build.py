# SPDX-License-Identifier: MIT
"""Makes the wheel of python/atvi: a build backend (PEP 517, 660) that needs the standard library alone, so that
`pip install ./python` works without a network. The version is the one of include/atvi/core.h."""
import base64
import hashlib
import io
import os
import pathlib
import re
import tarfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
# numpy is not among the requirements: pip would look for it on a network even where the system's Python has it.
# `import atvi` says what to install where it is missing.
METADATA = """Metadata-Version: 2.1
Name: atvi
Version: {version}
Summary: Bayesian calibration of computer models
License: MIT
Requires-Python: >=3.9
Provides-Extra: all
Requires-Dist: numpy; extra == "all"
Requires-Dist: pandas; extra == "all"
Requires-Dist: xarray; extra == "all"
Requires-Dist: netCDF4; extra == "all"
Requires-Dist: arviz; extra == "all"
Classifier: Operating System :: POSIX :: Linux
Classifier: Typing :: Typed
"""
WHEEL = "Wheel-Version: 1.0\nGenerator: atvi_build\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def version():
    """From the header, or in a source distribution from what was written there."""
    header, info = HERE.parent / "include" / "atvi" / "core.h", HERE / "PKG-INFO"
    if info.exists():
        return re.search(r"^Version: (.*)$", info.read_text(), re.M)[1]
    return re.search(r'^#define ATVI_VERSION "(.*)"', header.read_text(), re.M)[1]


def modules():
    return {f"atvi/{p.name}": p.read_bytes() for p in sorted((HERE / "atvi").iterdir()) if p.suffix == ".py" or p.name == "py.typed"}


def wheel(folder, files):
    info = f"atvi-{version()}.dist-info"
    files = {**files, f"{info}/METADATA": METADATA.format(version=version()).encode(), f"{info}/WHEEL": WHEEL.encode()}
    record = ""
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    name = f"atvi-{version()}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w", zipfile.ZIP_DEFLATED) as out:
        for path, data in files.items():
            out.writestr(zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0)), data)
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return wheel(wheel_directory, modules())


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return wheel(wheel_directory, {"atvi.pth": f"{HERE}\n".encode()})


def build_sdist(sdist_directory, config_settings=None):
    files = {**modules(), "PKG-INFO": METADATA.format(version=version()).encode()}
    files.update((name, (HERE / name).read_bytes()) for name in ("pyproject.toml", "atvi_build.py"))
    name = f"atvi-{version()}.tar.gz"
    with tarfile.open(os.path.join(sdist_directory, name), "w:gz", format=tarfile.PAX_FORMAT) as out:
        for path, data in files.items():
            entry = tarfile.TarInfo(f"atvi-{version()}/{path}")
            entry.size = len(data)
            out.addfile(entry, io.BytesIO(data))
    return name
