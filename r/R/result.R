# SPDX-License-Identifier: MIT
# Results: reading, summing up, and what other packages expect.

# The result in a folder: $draws, a data frame of draws that count equally (lp__, log_lik__, chain__, log_prior__, then a column for
# every quantity); $weighted, the draws of atvi, nf and copula as they came, with weight__ (NULL of other methods); $summary, the
# contents of summary.json; $verdict, $messages, $folder.
atvi_read <- function(folder) {
  table <- function(name) {
    path <- file.path(folder, name)
    if (file.exists(path)) utils::read.csv(path, comment.char = "#", check.names = FALSE)
  }
  summary <- .atvi_json(paste(readLines(file.path(folder, "summary.json"), encoding = "UTF-8"), collapse = "\n"))
  structure(list(draws = table("draws.csv"), weighted = table("weighted.csv"), summary = summary,
                 verdict = summary$verdict, messages = unlist(summary$messages), folder = folder),
            class = "atvi_result")
}

# Posterior means and standard deviations, as in the summary: with the weights if they can be trusted.
atvi_mean <- function(r) .atvi_moments(r)["mean", ]
atvi_sd <- function(r) .atvi_moments(r)["sd", ]

.atvi_moments <- function(r) {
  use <- !is.null(r$weighted) && isTRUE(r$summary$weighted)
  x <- if (use) r$weighted else r$draws
  w <- if (use) x$weight__ else rep(1 / nrow(x), nrow(x))
  own <- names(x)[!grepl("__$", names(x))]
  mean <- vapply(own, function(k) sum(w * x[[k]]), 0)
  rbind(mean = mean, sd = vapply(own, function(k) sqrt(sum(w * (x[[k]] - mean[[k]])^2) / (1 - sum(w^2))), 0))
}

print.atvi_result <- function(x, ...) {
  cat(sprintf("atvi result: %s, %d draws; verdict %s\n", x$summary$method, nrow(x$draws), x$verdict))
  print(t(.atvi_moments(x)))
  for (m in x$messages) cat(strwrap(m, exdent = 2), sep = "\n")
  invisible(x)
}

# Names as the package posterior has them: b.1.2 is b[1,2], b.north stays.
.atvi_posterior_names <- function(names) {
  indexed <- grepl("^.+?(\\.[0-9]+)+$", names, perl = TRUE)
  base <- sub("^(.+?)((\\.[0-9]+)+)$", "\\1", names, perl = TRUE)
  index <- gsub(".", ",", sub("^(.+?)\\.((?:[0-9]+\\.)*[0-9]+)$", "\\2", names, perl = TRUE), fixed = TRUE)
  ifelse(indexed, paste0(base, "[", index, "]"), names)
}

# A data frame as posterior::as_draws_df() reads it. See man/atvi_draws.Rd.
atvi_draws <- function(r, weighted = FALSE) {
  x <- if (weighted) r$weighted else r$draws
  if (is.null(x)) stop("method ", r$summary$method, " gives no weighted draws")
  own <- names(x)[!grepl("__$", names(x))]
  chain <- if (is.null(x$chain__)) rep(1L, nrow(x)) else as.integer(x$chain__)
  out <- x[own]
  names(out) <- .atvi_posterior_names(own)
  out$lp__ <- x$lp__
  if (weighted) out$.log_weight <- log(x$weight__)
  out$.chain <- chain
  out$.iteration <- as.integer(stats::ave(seq_along(chain), chain, FUN = seq_along))
  out$.draw <- seq_len(nrow(x))
  out
}

# Registered for the generics of posterior when that is loaded (NAMESPACE).
as_draws_df.atvi_result <- function(x, ...) posterior::as_draws_df(atvi_draws(x), ...)
as_draws.atvi_result <- function(x, ...) posterior::as_draws_df(atvi_draws(x), ...)
