#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints the rows of the table in src/math/sobol.c from the direction numbers of Joe and Kuo that SciPy carries.

On Debian, without installing SciPy:
  apt-get download python3-scipy && dpkg-deb -x python3-scipy_*.deb scipy
  tools/sobol_table.py scipy/usr/lib/python3/dist-packages/scipy/stats/_sobol_direction_numbers.npz

The file has, per dimension, the primitive polynomial with its first and last coefficients and the initial
direction numbers. Dimension 0 is van der Corput's sequence, which needs none.
"""
import ast
import struct
import sys
import zipfile

DIMS = 128


def array(data):
    """Shape, column-major order and numbers of a .npy file of 64-bit integers."""
    length = struct.unpack("<H", data[8:10])[0]
    head = ast.literal_eval(data[10:10 + length].decode())
    assert head["descr"] == "<i8"
    return head["shape"], head["fortran_order"], struct.unpack(f"<{(len(data) - 10 - length) // 8}q", data[10 + length:])


def main(path):
    with zipfile.ZipFile(path) as z:
        _, _, poly = array(z.read("poly.npy"))
        shape, by_column, init = array(z.read("vinit.npy"))
    print("    {0, 0, {0}},")
    for dim in range(1, DIMS):
        degree = poly[dim].bit_length() - 1
        inner = (poly[dim] >> 1) & ((1 << (degree - 1)) - 1)
        row = [init[dim + k * shape[0]] if by_column else init[dim * shape[1] + k] for k in range(degree)]
        assert poly[dim] & 1 and all(v % 2 and v < 2 << k for k, v in enumerate(row))
        print(f"    {{{degree}, {inner}, {{{', '.join(map(str, row))}}}}},")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
