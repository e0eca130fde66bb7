# A exp(-k t) at t = 0.5, 1, ..., 6
BEGIN {
  print "time,value"
  for (i = 1; i <= 12; i++) printf "%.17g,%.17g\n", i/2, A*exp(-k*i/2)
}
