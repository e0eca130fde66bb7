#!/bin/sh
# A reservoir that fills in a storm and drains: dS/dt = rain - k S^m. Prints the outflow at the hours 1 to 48.
# usage: simulator.sh K M
exec awk -v k="$1" -v m="$2" 'BEGIN {
  print "hour,flow"
  S = 20; step = 0.05
  for (i = 1; i <= 960; i++) {
    rain = i * step > 10 && i * step <= 16 ? 8 : 0
    S += step * (rain - k * S ^ m)
    if (i % 20 == 0) printf "%d,%.12g\n", i * step, k * S ^ m
  }
}'
