#!/bin/sh
# SPDX-License-Identifier: MIT
# A reservoir that drains: dS/dt = rain - k S^m, outflow k S^m at the hours 1 to 48. Usage: reservoir.sh K M
exec awk -v k="$1" -v m="$2" 'BEGIN {
  print "hour,flow"
  S = 20; step = 0.05
  for (i = 1; i <= 960; i++) {
    rain = i * step > 10 && i * step <= 16 ? 8 : 0
    flow = k * S ^ m
    S += step * (rain - flow)
    if (i % 20 == 0) printf "%d,%.12g\n", i * step, k * S ^ m
  }
}'
