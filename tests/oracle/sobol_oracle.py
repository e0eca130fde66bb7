# SPDX-License-Identifier: MIT
# Writes tests/unit/math/sobol_oracle.h: one late Sobol point of SciPy in all dimensions of our table, times 2^25.
#   python3 tests/oracle/sobol_oracle.py > tests/unit/math/sobol_oracle.h
from scipy.stats import qmc

DIMS, INDEX, BITS = 128, 20123457, 25

points = qmc.Sobol(DIMS, scramble=False, bits=32)
points.fast_forward(INDEX)
print("/* SPDX-License-Identifier: MIT */")
print("/* Made by tests/oracle/sobol_oracle.py. */")
print(f"enum {{ ORACLE_INDEX = {INDEX}, ORACLE_BITS = {BITS} }};")
print(f"static const uint32_t oracle_point[{DIMS}] = {{")
print(",\n".join(f"    {int(v * 2**BITS)}" for v in points.random(1)[0]))
print("};")
