# SPDX-License-Identifier: MIT
# The program and its options.

# Path of the program: $ATVI, or the one on PATH.
atvi_program <- function() {
  found <- c(Sys.getenv("ATVI"), Sys.which("atvi"))
  found <- found[nzchar(found)]
  if (!length(found)) stop("there is no program atvi on PATH; set the environment variable ATVI to its path")
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
