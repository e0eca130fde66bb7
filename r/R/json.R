# SPDX-License-Identifier: MIT
# JSON, as much of it as summaries need.

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
