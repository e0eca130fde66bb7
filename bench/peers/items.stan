// SPDX-License-Identifier: MIT
data {
  int<lower=1> n;
  int<lower=1> people;
  int<lower=1> items;
  int<lower=1, upper=people> person[n];
  int<lower=1, upper=items> item[n];
  int<lower=0, upper=1> y[n];
}
parameters {
  real mu;
  real<lower=0> sb;
  real<lower=0> st;
  vector[people] theta;
  vector[items] b;
}
model {
  mu ~ normal(0, 2);
  sb ~ normal(0, 2);
  st ~ normal(0, 2);
  theta ~ normal(0, st);
  b ~ normal(mu, sb);
  y ~ bernoulli_logit(theta[person] - b[item]);
}
