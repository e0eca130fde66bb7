# SPDX-License-Identifier: MIT
# Fits of your own log density, by the library (src/atvi_shim.c).

.atvi <- new.env()

# Where the library may be: $ATVI_LIBRARY (a file, or its folder), beside the program, or where the system looks.
.atvi_places <- function() {
  own <- Sys.getenv("ATVI_LIBRARY")
  if (nzchar(own)) return(if (dir.exists(own)) file.path(own, "libatvi.so") else own)
  beside <- dirname(tryCatch(normalizePath(atvi_program()), error = function(e) "/usr/bin/atvi"))
  lib <- file.path(dirname(beside), "lib")
  found <- c(file.path(c(beside, lib), "libatvi.so"), Sys.glob(file.path(lib, "*", "libatvi.so")))
  c(found[file.exists(found)], "libatvi.so.0")
}

.atvi_load <- function() {
  if (isTRUE(.atvi$loaded)) return(invisible())
  why <- NULL
  for (place in .atvi_places()) {
    wrong <- .Call(atvi_r_load, place)
    .atvi$loaded <- is.null(wrong)
    if (is.null(wrong)) return(invisible())
    why <- c(why, wrong)
  }
  stop("the library cannot be loaded: ", why[1], "; the environment variable ATVI_LIBRARY says where it is")
}

# What to do about a message or a failure of that code (docs/messages.md), in words of atvi_density.
.atvi_advice <- c(
  "divergences" = "Compare with method = \"atvi\" or \"ram\".",
  "ebfmi" = "Compare with method = \"atvi\" or \"ram\".",
  "khat-refused" = "Check the result with method = \"ram\".",
  "khat-unknown" = "Check the result with method = \"ram\".",
  "weights-poor" = "Check the result with method = \"ram\".",
  "laplace-poor" = "method = \"ram\" gives exact draws.",
  "exact-needed" = "exact = FALSE keeps the approximation instead.",
  "limit" = "Raise the limit (max_seconds, max_iter).",
  "limit-precision" = "Raise the limit (max_seconds, max_iter) or ask for less (ess).",
  "modes-left-out" = "method = \"atvi\" covers them all, each with its share.",
  "no-gradient" = "method = \"ram\" needs none.",
  "never-evaluated" = "Look at what the function returns inside the bounds.",
  "likelihood-zero" = "The function returns -Inf everywhere: look at it, or narrow the bounds.",
  "state-not-finite" = "The function returns NaN or Inf everywhere: look at it, or narrow the bounds.")

# Texts of messages or failures with advice after the first of every code.
.atvi_advised <- function(text, code, between = " ") {
  has <- code %in% names(.atvi_advice) & !duplicated(code)
  text[has] <- paste(text[has], .atvi_advice[code[has]], sep = between)
  text
}

# A matrix with a row for each point: the other way round it would have as many numbers. For one parameter a vector will do.
.atvi_check_gradient <- function(g, B, d) {
  is <- if (is.null(dim(g))) c(length(g), 1L) else dim(g)
  if (!is.numeric(g) || !identical(as.integer(is), as.integer(c(B, d))))
    stop("the gradient is ", if (is.numeric(g)) paste(is, collapse = " x ") else class(g)[1], ", want a matrix of ", B, " x ", d, ", a row for each point")
}

# Draws from a density of your own. f(x) gets a matrix x [B, d], a row for each of B points inside the bounds, columns named as `names`, and returns
# list(log density [B], gradient [B, d]); method "ram" does without the gradient. -Inf: impossible; NaN: failed. options: method, seed, ess,
# max_seconds, chains, max_iter, ladder, map, tune and exact (TRUE, FALSE or "auto"), as in `atvi fit --help`. The gradient is compared with differences
# of the log density first, at some 50 points for each parameter; check_gradient = FALSE does without. An error in f ends the fit, and so does Ctrl-C.
atvi_density <- function(f, names, lower = -Inf, upper = Inf, ...) {
  .atvi_load()
  d <- length(names)
  error <- NULL
  wrapped <- function(x, gradient) {
    colnames(x) <- names
    withCallingHandlers({
      a <- f(x)
      if (!is.list(a)) a <- list(a, NULL)
      if (length(a) < 2) a <- c(a, list(NULL))
      if (length(a[[1]]) != nrow(x)) stop("the log density has ", length(a[[1]]), " values for ", nrow(x), " points")
      if (gradient && is.null(a[[2]])) stop("this method needs the gradient: return list(log density, gradient)")
      if (gradient) .atvi_check_gradient(a[[2]], nrow(x), d)
      if (!is.numeric(a[[1]]) && !all(is.na(a[[1]]))) stop("the log density is not numeric")
      list(as.double(a[[1]]), if (gradient) as.double(a[[2]]))
    }, error = function(e) error <<- e)
  }
  options <- .atvi_options(...)
  values <- vapply(names(options), function(k) .atvi_word(k, options[[k]]), "")
  facts <- c("seconds", "evaluations", "failures", "log_evidence", "log_evidence_se", "elbo", "khat", "accept", "divergences")
  bounds <- function(b) as.double(rep_len(b, d))
  out <- .Call(atvi_r_fit, wrapped, environment(), as.character(names),
               bounds(lower), bounds(upper), as.character(names(options)), as.character(values), facts)
  if (!is.null(error)) stop(error)
  if (is.null(out)) stop("stopped")
  if (is.character(out)) stop(.atvi_advised(out[1], out[2], "\n"))
  .atvi_result(out, options)
}

.atvi_result <- function(out, options) {
  n <- length(out$log_lik)
  table <- as.data.frame(c(list(lp__ = out$log_prior + out$log_lik, log_lik__ = out$log_lik,
                                chain__ = rep(seq_len(out$chains), each = n / out$chains), log_prior__ = out$log_prior), out$columns),
                         check.names = FALSE)
  khat <- out$facts[["khat"]]
  use <- !is.null(out$weight) && !is.na(khat) && khat <= min(1 - 1 / log10(n), 0.7)
  plain <- table
  if (use) { # systematic resampling, as the program does for draws.csv
    m <- min(n, max(4000, floor(1 / sum(out$weight^2))))
    # findInterval may fall off the end by rounding
    plain <- table[pmin(findInterval((seq_len(m) - 0.5) / m, cumsum(out$weight)) + 1, n), ]
    rownames(plain) <- NULL
  }
  messages <- .atvi_advised(out$messages, out$message_codes)
  summary <- c(list(method = out$method, weighted = use, verdict = out$verdict, messages = as.list(messages),
                    message_codes = as.list(out$message_codes), message_severities = as.list(out$message_severities)), as.list(out$facts))
  summary$log_evidence <- list(value = summary$log_evidence, se = summary$log_evidence_se) # as in summary.json
  summary$log_evidence_se <- NULL
  structure(list(draws = plain, weighted = if (!is.null(out$weight)) cbind(table, weight__ = out$weight), summary = summary,
                 verdict = out$verdict, messages = messages, folder = NULL), class = "atvi_result")
}
