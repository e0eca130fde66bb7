# SPDX-License-Identifier: MIT
# Bayesian calibration of computer models, from R:
#
#   source("r/atvi.R")
#   r <- atvi_fit("cold.atvi", seed = 1)      # runs the program, gives the result
#   r <- atvi_read("cold-001")                # a folder that `atvi fit` made
#   r$draws$beta; r$verdict; atvi_mean(r)     # a data frame of draws, one column per quantity
#
#   r <- atvi_density(function(x) ..., c("a", "b"), lower = c(-10, 0), upper = c(10, 5))
#
# docs/formats.md has the rest. Base R is enough; atvi_density compiles a small file with R CMD SHLIB when first used.

.atvi <- new.env()
.atvi$folder <- local({
  files <- Filter(Negate(is.null), lapply(sys.frames(), function(f) f$ofile))
  if (length(files)) dirname(normalizePath(files[[length(files)]])) else getwd()
})

# ---- the program and its files ----

# Path of the program: $ATVI, the one built beside this file, or the one on PATH.
atvi_program <- function() {
  built <- file.path(dirname(.atvi$folder), "build", "atvi")
  found <- c(Sys.getenv("ATVI"), if (file.exists(built)) built, Sys.which("atvi"))
  found <- found[nzchar(found)]
  if (!length(found)) stop("there is no program atvi on PATH; the environment variable ATVI says where it is")
  unname(found[1])
}

# Runs `atvi fit MODEL` and reads the result. data: a file, or c(name = file); fix: c(name = value). Other options are those of the
# program, with _ for -: method = "ram", seed = 3, max_time = "10m", force = TRUE, exact = FALSE. See $verdict and $messages of what it gives.
atvi_fit <- function(model, out = NULL, data = NULL, fix = NULL, ...) {
  args <- c("fit", model, "--quiet", if (!is.null(out)) c("--out", out))
  named <- function(x) if (is.null(names(x))) as.character(x) else paste0(names(x), "=", x)
  for (x in named(data)) args <- c(args, "--data", sub("^=", "", x))
  for (x in named(fix)) args <- c(args, "--fix", x)
  more <- .atvi_options(...)
  for (name in names(more)) args <- c(args, .atvi_argument(name, more[[name]]))
  errors <- tempfile()
  on.exit(unlink(errors))
  folder <- suppressWarnings(system2(atvi_program(), shQuote(args), stdout = TRUE, stderr = errors))
  status <- attr(folder, "status")
  if (!length(folder) || !(is.null(status) || status == 3)) {
    said <- readLines(errors, warn = FALSE)
    stop(if (length(said)) paste(said, collapse = "\n") else paste("atvi fit ended with status", status))
  }
  atvi_read(folder[length(folder)])
}

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

# Posterior means and standard deviations, as in the summary: with the weights where they are to be trusted.
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

# ---- JSON, as much of it as summaries need ----

.atvi_json <- function(text) {
  bytes <- strsplit(text, "")[[1]]
  at <- 1
  skip <- function() while (at <= length(bytes) && bytes[at] %in% c(" ", "\n", "\r", "\t")) at <<- at + 1
  take <- function(c) {
    skip()
    if (at > length(bytes) || bytes[at] != c) stop("not JSON: '", c, "' is due at character ", at)
    at <<- at + 1
  }
  string <- function() {
    take("\"")
    from <- at
    while (bytes[at] != "\"") at <<- at + if (bytes[at] == "\\") 2 else 1
    s <- paste(bytes[from - 1 + seq_len(at - from)], collapse = "")
    at <<- at + 1
    if (grepl("\\", s, fixed = TRUE)) s <- eval(parse(text = paste0("\"", gsub("\\/", "/", s, fixed = TRUE), "\"")))
    s
  }
  sequence <- function(close, one) {
    at <<- at + 1
    skip()
    while (bytes[at] != close) {
      one()
      skip()
      if (bytes[at] == ",") at <<- at + 1
      skip()
    }
    at <<- at + 1
  }
  value <- function() {
    skip()
    c <- bytes[at]
    if (c == "\"") return(string())
    out <- list()
    if (c == "[") {
      sequence("]", function() out[[length(out) + 1]] <<- value())
      return(out)
    }
    if (c == "{") {
      sequence("}", function() {
        skip()
        key <- string()
        take(":")
        out[key] <<- list(value())
      })
      return(out)
    }
    from <- at
    while (at <= length(bytes) && !(bytes[at] %in% c(",", "]", "}", " ", "\n", "\r", "\t"))) at <<- at + 1
    word <- paste(bytes[from:(at - 1)], collapse = "")
    switch(word, null = NA, true = TRUE, false = FALSE, as.numeric(word))
  }
  value()
}

# ---- a log density of one's own ----

# Folders of the headers and of the library: $ATVI_INCLUDE and $ATVI_LIBRARY (a folder), those of this source tree, or the system's.
.atvi_load <- function() {
  if (!is.null(.atvi$loaded)) return(invisible())
  top <- dirname(.atvi$folder)
  pick <- function(variable, folders, file) {
    folders <- c(Sys.getenv(variable), folders)
    found <- folders[nzchar(folders) & file.exists(file.path(folders, file))]
    if (length(found)) normalizePath(found[1]) else ""
  }
  beside <- dirname(tryCatch(atvi_program(), error = function(e) "/usr/bin/atvi"))
  include <- pick("ATVI_INCLUDE", c(file.path(top, "include"), file.path(dirname(beside), "include")), "atvi/bind.h")
  library <- pick("ATVI_LIBRARY", c(beside, file.path(dirname(beside), "lib"), file.path(top, "build")), "libatvi.so")
  work <- tempfile("atvi-shim-")
  dir.create(work)
  file.copy(file.path(.atvi$folder, "atvi_shim.c"), work)
  makevars <- c(if (nzchar(include)) paste0("PKG_CPPFLAGS = -I", shQuote(include)),
                paste("PKG_LIBS =", if (nzchar(library)) paste0("-L", shQuote(library), " -Wl,-rpath,", shQuote(library)), "-latvi"))
  writeLines(makevars, file.path(work, "Makevars"))
  before <- setwd(work)
  on.exit(setwd(before))
  out <- suppressWarnings(system2(file.path(R.home("bin"), "R"), c("CMD", "SHLIB", "atvi_shim.c"), stdout = TRUE, stderr = TRUE))
  if (!file.exists("atvi_shim.so")) stop("atvi_shim.c cannot be compiled (ATVI_INCLUDE and ATVI_LIBRARY say where atvi is):\n", paste(out, collapse = "\n"))
  .atvi$loaded <- dyn.load(file.path(work, "atvi_shim.so"))
  invisible()
}

# Options as a list: each has a name and one value; those that are NULL are left out.
.atvi_options <- function(...) {
  options <- Filter(Negate(is.null), list(...))
  if (length(options) && (is.null(names(options)) || !all(nzchar(names(options))))) stop("options have names, such as method = \"ram\"")
  many <- names(options)[lengths(options) != 1]
  if (length(many)) stop("option ", many[1], " has ", length(options[[many[1]]]), " values, want one")
  options
}

# An option as the library reads it: exact and tune may also be "auto".
.atvi_word <- function(name, v) {
  if (is.logical(v) && name %in% c("exact", "tune")) if (v) "on" else "off"
  else if (is.logical(v)) as.character(as.integer(v))
  else format(v, digits = 17, scientific = FALSE, trim = TRUE)
}

# An option as arguments of the program: flags are TRUE or FALSE.
.atvi_argument <- function(name, v) {
  option <- paste0("--", gsub("_", "-", name))
  if (name == "exact" && .atvi_word(name, v) %in% c("on", "off", "auto"))
    switch(.atvi_word(name, v), on = "--exact", off = "--no-exact", auto = NULL)
  else if (is.logical(v) && name != "tune") if (v) option else NULL
  else c(option, .atvi_word(name, v))
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

# A matrix with a row for each point: the other way round it would have as many numbers. Of one parameter a vector will do.
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
  out <- .Call(getNativeSymbolInfo("atvi_r_fit", .atvi$loaded), wrapped, environment(), as.character(names),
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
