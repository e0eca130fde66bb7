# SPDX-License-Identifier: MIT
# The package atvi, in a folder with cold.atvi; ATVI is the program. test_r.R [case]
args <- commandArgs(trailingOnly = TRUE)
library(atvi)

fails <- function(expr, word) {
  said <- tryCatch({ expr; "nothing" }, error = conditionMessage)
  if (!grepl(word, said, fixed = TRUE)) stop("want '", word, "' in: ", said)
}

t <- 0:7
y <- c(1.31, 1.42, 1.87, 2.04, 3.52, 3.21, 4.26, 4.09)
# Straight line through eight points; exact: level 1.08333 (0.32275), slope 0.46619 (0.07715), log evidence -11.98155.
line <- function(x) {
  z <- (rep(y, each = nrow(x)) - outer(x[, "level"], rep(1, 8)) - outer(x[, "slope"], t)) / 0.5
  list(-8 * log(0.5 * sqrt(2 * pi)) - 2 * log(20) - rowSums(z^2) / 2, cbind(rowSums(z), drop(z %*% t)) / 0.5)
}
near <- function(r, error) {
  stopifnot(abs(atvi_mean(r) - c(1.08333, 0.46619)) < error * c(0.32275, 0.07715),
            abs(atvi_sd(r) - c(0.32275, 0.07715)) < error * c(0.32275, 0.07715))
}

cases <- list(
  program = function() {
    r <- atvi_fit("cold.atvi", out = "r-run", seed = 1)
    again <- atvi_read("r-run")
    stopifnot(r$verdict == "ok", identical(r$draws, again$draws), identical(names(atvi_mean(r)), c("beta", "gamma", "S0", "R0")))
    rows <- c(r$summary$parameters, r$summary$derived)
    for (row in rows) stopifnot(abs(atvi_mean(r)[[row$name]] - row$mean) <= 1e-12 * max(1, abs(row$mean)))
    stopifnot(abs(sum(r$weighted$weight__) - 1) < 1e-9, all(abs(r$draws$lp__ - r$draws$log_lik__ - r$draws$log_prior__) < 1e-9))
    invisible(capture.output(print(r)))
    r <- atvi_fit("cold.atvi", method = "ram", ess = 100, chains = 4, fix = c(S0 = 38), data = "cold.csv", out = "r-ram")
    stopifnot(identical(names(atvi_mean(r)), c("beta", "gamma", "R0")), max(r$draws$chain__) == 4, is.null(r$weighted))
    fails(atvi_fit("nowhere.atvi"), "nowhere")
    fails(atvi_fit("cold.atvi", out = "r-ram"), "--force")
  },
  words = function() {
    said <- function(...) paste(atvi:::.atvi_argument(...), collapse = " ")
    stopifnot(said("exact", FALSE) == "--no-exact", said("exact", TRUE) == "--exact", said("exact", "auto") == "",
              said("tune", FALSE) == "--tune off", said("tune", TRUE) == "--tune on", said("tune", "auto") == "--tune auto",
              said("force", TRUE) == "--force", said("no_report", FALSE) == "", said("max_time", "10m") == "--max-time 10m", said("ess", 1e5) == "--ess 100000")
    stopifnot(!is.null(atvi_fit("cold.atvi", exact = FALSE, tune = FALSE, out = "r-plain")$weighted),
              is.null(atvi_fit("cold.atvi", exact = TRUE, out = "r-exact")$weighted))
  },
  density = function() {
    error <- c(atvi = 0.03, nf = 0.03, copula = 0.03, ram = 0.15, nuts = 0.15, map = 0.06)
    for (method in names(error)) {
      r <- atvi_density(line, c("level", "slope"), -10, 10, method = method, seed = 3)
      near(r, error[[method]])
      stopifnot(r$verdict == "ok", r$summary$method == method)
      if (method %in% c("atvi", "nf", "copula"))
        stopifnot(abs(r$summary$log_evidence$value + 11.98155) < 0.02, nrow(r$draws) >= 4000, abs(mean(r$draws$level) - 1.08333) < 0.03)
    }
    near(atvi_density(function(x) line(x)[[1]], c("level", "slope"), -10, 10, method = "ram"), 0.2)
    a <- atvi_density(line, c("level", "slope"), -10, 10, seed = 7)
    stopifnot(identical(a$draws, atvi_density(line, c("level", "slope"), -10, 10, seed = 7)$draws))
  },
  errors = function() {
    calls <- 0
    fails(atvi_density(function(x) { calls <<- calls + 1; stop("boom") }, "a", 0, 1), "boom")
    stopifnot(calls == 1)
    fails(atvi_density(function(x) list(1:3, x), "a", 0, 1), "3 values")
    fails(atvi_density(function(x) -x[, 1]^2, "a", -1, 1), "gradient")
    fails(atvi_density(line, c("level", "slope"), -10, 10, metod = "ram"), "metod")
    fails(atvi_density(line, c("level", "slope"), 10, -10), "bounds")
    fails(atvi_density(function(x) list(line(x)[[1]], t(line(x)[[2]])), c("level", "slope"), -10, 10), "a row for each point")
    fails(atvi_density(function(x) list(line(x)[[1]], as.vector(line(x)[[2]])), c("level", "slope"), -10, 10), "a row for each point")
    fails(atvi_density(function(x) list(rep("u", nrow(x)), -x), "a", 0, 1), "not numeric")
    fails(atvi_density(function(x) NULL, "a", 0, 1), "0 values")
    fails(atvi_density(line, c("level", "slope"), -10, 10, "ram"), "options have names")
    fails(atvi_density(line, c("level", "slope"), -10, 10, method = c("ram", "map")), "2 values")
    near(atvi_density(function(x) { z <- line(x); z[[1]][x[, 1] > 3] <- NaN; z }, c("level", "slope"), -10, 10), 0.1)
    near(atvi_density(line, c("level", "slope"), -10, 10, exact = TRUE, tune = "auto", seed = NULL), 0.15)
    stopifnot(abs(atvi_mean(atvi_density(function(x) list(-0.5 * x[, 1]^2, -x[, 1]), "a", -9, 9))) < 0.03)
  },
  gradient = function() {
    flipped <- function(x) { z <- line(x); list(z[[1]], -z[[2]]) }
    fails(atvi_density(flipped, c("level", "slope"), -10, 10), "the sign is the wrong one")
    fails(atvi_density(flipped, c("level", "slope")), "check_gradient") # no bounds
    near(atvi_density(line, c("level", "slope")), 0.03)
    r <- atvi_density(flipped, c("level", "slope"), -10, 10, check_gradient = FALSE, max_seconds = 0.3, exact = FALSE)
    stopifnot(r$verdict != "ok", length(r$messages) > 0, !grepl("--", r$messages))
    stopifnot(length(r$summary$message_codes) == length(r$messages), length(r$summary$message_severities) == length(r$messages))
  },
  advice = function() {
    # in words of R, none in those of the command line
    stopifnot(!grepl("--|atvi check", atvi:::.atvi_advice), grepl("\\.$", atvi:::.atvi_advice))
    stopifnot(atvi:::.atvi_advised(c("A.", "B.", "C."), c("limit", "none", "limit")) == c(paste("A.", atvi:::.atvi_advice[["limit"]]), "B.", "C."))
    r <- atvi_density(line, c("level", "slope"), -10, 10, method = "ram", max_iter = 400, ess = 1e5)
    at <- match("limit-precision", unlist(r$summary$message_codes))
    stopifnot(grepl("Raise the limit \\(max_seconds, max_iter\\) or ask for less \\(ess\\)\\.$", r$messages[at]), r$verdict != "ok",
              r$summary$message_severities[[at]] == "warning")
    nothing <- function(x) list(rep(NaN, nrow(x)), 0 * x)
    fails(atvi_density(nothing, "a", 0, 1, check_gradient = FALSE), "Look at what the function returns")
    fails(atvi_density(nothing, "a", 0, 1, method = "ram"), "NaN or Inf everywhere")
  },
  interrupt = function() {
    # Ctrl-C: the fit ends, and R goes on
    calls <- 0
    f <- function(x) {
      calls <<- calls + 1
      if (calls == 10) tools::pskill(Sys.getpid(), tools::SIGINT)
      line(x)
    }
    said <- tryCatch(atvi_density(f, c("level", "slope"), -10, 10, method = "nuts", ess = 1e5, max_seconds = 60), error = conditionMessage, interrupt = function(e) "interrupted")
    stopifnot(is.character(said), calls < 1000)
    near(atvi_density(line, c("level", "slope"), -10, 10), 0.03)
  },
  posterior = function() {
    r <- atvi_fit("cold.atvi", method = "ram", ess = 100, chains = 4, out = "r-posterior")
    d <- posterior::as_draws(r)
    stopifnot(posterior::is_draws_df(d), posterior::nchains(d) == 4, identical(posterior::variables(d), c("beta", "gamma", "S0", "R0", "lp__")),
              posterior::ndraws(d) == nrow(r$draws))
    s <- posterior::summarise_draws(d)
    stopifnot(abs(s$mean[1:4] - atvi_mean(r)) < 1e-9, s$rhat < 1.1)
    w <- atvi_fit("cold.atvi", out = "r-weighted", seed = 1)
    v <- posterior::as_draws_df(atvi_draws(w, weighted = TRUE))
    stopifnot(abs(sum(weights(v) * v$beta) - atvi_mean(w)[["beta"]]) < 1e-9)
  },
  json = function() {
    x <- atvi:::.atvi_json(' {"a": [1, -2.5e3, null, true], "b": {"c": "q\\"\\u00e9\\n"}, "d": [], "e": {}} ')
    stopifnot(identical(x$a[[2]], -2500), is.na(x$a[[3]]), x$a[[4]], x$b$c == "q\"\u00e9\n", length(x$d) == 0)
    fails(atvi:::.atvi_json('{"a" 1}'), "not JSON")
  }
)
for (name in if (length(args)) args[1] else names(cases)) cases[[name]]()
