# SPDX-License-Identifier: MIT
# Compiles a Stan program, or samples from it; peers.py calls it.
#   Rscript stan.R compile PROGRAM.stan OUT.rds
#   Rscript stan.R sample OUT.rds DATA.R SEED SUMMARY.csv
# Prints CPU seconds: of stan_model, or of sampling alone.
suppressPackageStartupMessages(suppressWarnings(library(rstan)))
given <- commandArgs(trailingOnly = TRUE)
cpu <- function() sum(proc.time()[c("user.self", "sys.self", "user.child", "sys.child")])
if (given[1] == "version") {
  cat("rstan", as.character(packageVersion("rstan")), "\n")
} else if (given[1] == "compile") {
  # Debian keeps the headers of Boost where the compiler finds them, and rstan looks elsewhere.
  if (!file.exists(rstan_options("boost_lib"))) rstan_options(boost_lib = "/usr/include")
  if (!file.exists(rstan_options("eigen_lib"))) rstan_options(eigen_lib = "/usr/include/eigen3")
  begun <- cpu()
  model <- stan_model(given[2], model_name = "peer", save_dso = TRUE)
  cat(cpu() - begun, "\n")
  saveRDS(model, given[3])
} else {
  model <- readRDS(given[2])
  data <- new.env()
  sys.source(given[3], envir = data)
  begun <- cpu()
  # As Stan does by default: four chains, 1000 iterations of warmup and 1000 draws each; one after the other. Only the starts are closer to
  # 0 than by default (2), from where one fit of three to the Lotka-Volterra equations had a chain that got stuck.
  fit <- sampling(model, data = as.list(data), chains = 4, iter = 2000, cores = 1, init_r = 0.5,
                  seed = as.integer(given[4]), refresh = 0)
  cat(cpu() - begun, "\n")
  draws <- as.array(fit)
  kept <- grep("^(lp__|z\\[)", dimnames(draws)$parameters, invert = TRUE, value = TRUE)
  value <- function(f) vapply(kept, function(k) f(draws[, , k]), 0)
  write.csv(data.frame(name = kept, mean = value(mean), sd = value(sd), ess_bulk = value(ess_bulk),
                       ess_sd = value(function(x) ess_bulk((x - mean(x))^2)), rhat = value(Rhat)),
            given[5], row.names = FALSE)
  cat("divergences", get_num_divergent(fit), "\n")
}
