#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The reservoir of reservoir.sh as a worker: for every line of JSON with k and m, a line of JSON with the outflow."""
import json
import sys


def run(k, m, step=0.05):
    storage, hours, flow = 20.0, [], []
    for i in range(1, 961):
        rain = 8.0 if 10 < i * step <= 16 else 0.0
        storage += step * (rain - k * storage**m)
        if i % 20 == 0:
            hours.append(i // 20)
            flow.append(k * storage**m)
    return {"time": hours, "flow": flow}


for line in sys.stdin:
    try:
        answer = run(**json.loads(line))
    except (ArithmeticError, TypeError, ValueError) as error:
        answer = {"error": str(error)}
    print(json.dumps(answer), flush=True)
