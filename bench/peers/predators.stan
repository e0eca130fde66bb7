// SPDX-License-Identifier: MIT
functions {
  real[] rates(real t, real[] z, real[] p, real[] x_r, int[] x_i) {
    return {(p[1] - p[2] * z[2]) * z[1], (p[4] * z[1] - p[3]) * z[2]};
  }
}
data {
  int<lower=1> n;
  real year[n];
  vector<lower=0>[n] prey;
  vector<lower=0>[n] pred;
  real<lower=0> tol;
}
transformed data {
  real x_r[0];
  int x_i[0];
}
parameters {
  real<lower=0> alpha;
  real<lower=0> beta;
  real<lower=0> gamma;
  real<lower=0> delta;
  real<lower=0> prey0;
  real<lower=0> pred0;
  real<lower=0> sigma[2];
}
transformed parameters {
  real z[n, 2] = integrate_ode_rk45(rates, {prey0, pred0}, 0, year, {alpha, beta, gamma, delta}, x_r, x_i, tol, tol, 1000000);
}
model {
  alpha ~ normal(1, 0.5);
  gamma ~ normal(1, 0.5);
  beta ~ normal(0.05, 0.05);
  delta ~ normal(0.05, 0.05);
  prey0 ~ lognormal(2.3, 1);
  pred0 ~ lognormal(2.3, 1);
  sigma ~ lognormal(-1, 1);
  prey ~ lognormal(log(z[, 1]), sigma[1]);
  pred ~ lognormal(log(z[, 2]), sigma[2]);
}
