# SPDX-License-Identifier: MIT
# What needs neither the program nor the library; tests/r/test_r.R of the sources has the rest.
library(atvi)

folder <- tempfile("fit-")
dir.create(folder)
writeLines(c("# chains = 2", "lp__,log_lik__,chain__,log_prior__,beta,b.1.1,b.1.2,b.north", "-1,-1,1,0,0.5,1,2,3", "-2,-2,1,0,0.7,4,5,6",
             "-1.5,-1.5,2,0,0.6,7,8,9", "-3,-3,2,0,0.4,1,2,3"), file.path(folder, "draws.csv"))
writeLines('{"method": "ram", "weighted": false, "verdict": "ok", "messages": ["fine"], "x": [1, null, "\\u00e9"]}', file.path(folder, "summary.json"))
r <- atvi_read(folder)
stopifnot(r$verdict == "ok", identical(r$messages, "fine"), r$summary$x[[3]] == "\u00e9", abs(atvi_mean(r)[["beta"]] - 0.55) < 1e-12)
d <- atvi_draws(r)
stopifnot(identical(names(d), c("beta", "b[1,1]", "b[1,2]", "b.north", "lp__", ".chain", ".iteration", ".draw")),
          identical(d$.chain, c(1L, 1L, 2L, 2L)), identical(d$.iteration, c(1L, 2L, 1L, 2L)), identical(d$.draw, 1:4))
said <- tryCatch(atvi_draws(r, weighted = TRUE), error = conditionMessage)
stopifnot(grepl("ram gives no weighted draws", said))
if (requireNamespace("posterior", quietly = TRUE)) {
  p <- posterior::as_draws(r)
  stopifnot(posterior::is_draws_df(p), posterior::nchains(p) == 2, posterior::niterations(p) == 2,
            "b[1,2]" %in% posterior::variables(p), abs(mean(posterior::extract_variable(p, "beta")) - 0.55) < 1e-12,
            posterior::is_draws_array(posterior::as_draws_array(p)))
  r$weighted <- cbind(r$draws, weight__ = c(0.1, 0.2, 0.3, 0.4))
  w <- posterior::as_draws_df(atvi_draws(r, weighted = TRUE))
  stopifnot(all(abs(weights(w) - c(0.1, 0.2, 0.3, 0.4)) < 1e-12))
}
Sys.setenv(ATVI = "", ATVI_LIBRARY = tempfile(), PATH = "")
for (call in expression(atvi_fit("x.atvi"), atvi_density(identity, "a"))) {
  said <- tryCatch(eval(call), error = conditionMessage)
  stopifnot(grepl("ATVI", said))
}
