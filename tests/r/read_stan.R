# SPDX-License-Identifier: MIT
# read_stan.R FILE...: Stan CSV, one file per chain, as rstan reads it. Prints chains, draws, and a line for every quantity and its mean.
suppressMessages(library(rstan))
x <- as.array(read_stan_csv(commandArgs(trailingOnly = TRUE)))
cat("chains", dim(x)[2], "\ndraws", dim(x)[1], "\n")
for (name in dimnames(x)$parameters) cat(name, format(mean(x[, , name]), digits = 15), "\n")
