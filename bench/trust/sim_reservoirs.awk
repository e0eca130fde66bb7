# Two reservoirs: what exceeds the capacity of the first runs off at once, the rest drains through the second.
BEGIN {
  print "time,value"
  n = split("0 0 12 3 0 0 25 8 0 0 0 5 18 0 0 0 0 9 30 2 0 0 0 0", rain, " ")
  soil = cap/2; deep = 5
  for (i = 1; i <= n; i++) {
    soil += rain[i]; over = soil > cap ? soil - cap : 0; soil -= over
    down = k*soil; soil -= down
    deep += down; slow = q*deep; deep -= slow
    printf "%d,%.17g\n", i, over + slow
  }
}
