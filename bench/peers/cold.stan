// SPDX-License-Identifier: MIT
functions {
  real[] rates(real t, real[] z, real[] p, real[] x_r, int[] x_i) {
    real caught = p[1] * z[1] * z[2] / (p[3] + 1);
    return {-caught, caught - p[2] * z[2], p[2] * z[2]};
  }
}
data {
  int<lower=1> n;
  real day[n];
  int<lower=0> infected[n];
  int<lower=0> recovered[n];
  real<lower=0> tol;
}
transformed data {
  real x_r[0];
  int x_i[0];
}
parameters {
  real<lower=0, upper=3> beta;
  real<lower=0, upper=3> gamma;
  real<lower=37, upper=100> S0;
}
transformed parameters {
  real z[n, 3] = integrate_ode_rk45(rates, {S0, 1, 0}, 0, day, {beta, gamma, S0}, x_r, x_i, tol, tol, 1000000);
}
model {
  for (i in 1:n) {
    infected[i] ~ poisson(z[i, 2] + 0.001);
    recovered[i] ~ poisson(z[i, 3]);
  }
}
