# SPDX-License-Identifier: MIT
# For tests of runs of a simulator.

# model COMMAND [OTHER LINES]: a simulator with parameters k and m and one output, flow.
model() {
  cat >flow.atvi <<MODEL
param k ~ uniform(0, 1)
param m ~ uniform(2, 5)
param s2 ~ invgamma(2, 1)
simulator {
  command "$1"
  output flow from ${FROM:-stdout} csv
  ${2-}
}
data "obs.csv"
observe y ~ emulator(flow) + white(s2)
MODEL
  rm -rf flow-runs
  "$ATVI" design flow.atvi -n "${N:-20}" --quiet >/dev/null
}
