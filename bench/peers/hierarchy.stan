// SPDX-License-Identifier: MIT
data {
  int<lower=1> n;
  vector[n] y;
  vector<lower=0>[n] s;
}
parameters {
  real mu;
  real<lower=0> tau;
  vector[n] z;
}
transformed parameters {
  vector[n] theta = mu + tau * z;
}
model {
  mu ~ normal(0, 5);
  tau ~ normal(0, 2);
  z ~ std_normal();
  y ~ normal(theta, s);
}
