# SPDX-License-Identifier: MIT
# read_stan.R FILE...: Stan CSV, one file per chain, as rstan reads it. Prints chains, draws, and a line for every quantity and its mean.
suppressMessages(library(rstan))
fit <- read_stan_csv(commandArgs(trailingOnly = TRUE))
x <- as.array(fit)
cat("chains", dim(x)[2], "\ndraws", dim(x)[1], "\n")
for (name in dimnames(x)$parameters) cat(name, format(mean(x[, , name]), digits = 15), "\n")
# Arrays as wholes have the elements that their names say.
for (name in setdiff(names(fit@sim$dims_oi), "lp__")) {
  whole <- extract(fit, name)[[1]]
  if (length(dim(whole)) < 2) next
  for (one in grep(paste0("^", name, "\\["), dimnames(x)$parameters, value = TRUE)) {
    index <- as.integer(strsplit(sub(".*\\[(.*)\\]", "\\1", one), ",")[[1]])
    element <- do.call(`[`, c(list(whole, TRUE), as.list(index)))
    stopifnot(abs(mean(element) - mean(x[, , one])) < 1e-9)
  }
}
