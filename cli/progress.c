/* SPDX-License-Identifier: MIT */
/* Progress on standard error: on a terminal one line that is rewritten, otherwise a plain line at every
 * change of phase and about every ten seconds, so that the log of a batch job stays readable. */
#include "cli.h"
#include "io/csv.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { PLAIN_EVERY_S = 10, LINE_MAX_ = 256 };

static struct {
  bool terminal, colour, quiet;
  bool open;      /* a progress line is on the terminal */
  bool lost;      /* a file could not be written */
  char phase[64]; /* of the last line */
  double last_s;  /* when the last plain line was written */
} show;

static int width(void) {
  struct winsize w;
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 20) return w.ws_col;
  return 80;
}

static void describe(const atvi_progress *p, char *out, size_t n) {
  char spent[ATVI_DURATION_BYTES], left[48] = "", share[16] = "";
  atvi_io_format_duration(spent, p->elapsed_s, false);
  if (p->done >= 0) snprintf(share, sizeof share, " %3.0f%%", 100 * (p->done > 1 ? 1 : p->done));
  /* At first the rate is not known. */
  if (p->done > 0.01 && p->done < 1 && p->elapsed_s > 1) {
    char t[ATVI_DURATION_BYTES];
    double left_s = p->left_s > 0 ? p->left_s : p->elapsed_s * (1 - p->done) / p->done;
    atvi_io_format_duration(t, left_s, false);
    snprintf(left, sizeof left, ", about %s left", t);
  }
  snprintf(out, n, "%s%s  %s%s%s%s", p->phase, share, spent, left, p->detail[0] ? "  " : "", p->detail);
}

static void on_progress(void *user, const atvi_progress *p) {
  (void)user;
  char line[LINE_MAX_];
  if (show.terminal) {
    describe(p, line, sizeof line);
    fprintf(stderr, "\r\033[K%.*s", width() - 1, line);
    fflush(stderr);
    show.open = true;
    return;
  }
  bool new_phase = strcmp(show.phase, p->phase) != 0;
  if (!new_phase && p->elapsed_s - show.last_s < PLAIN_EVERY_S) return;
  snprintf(show.phase, sizeof show.phase, "%s", p->phase);
  show.last_s = p->elapsed_s;
  describe(p, line, sizeof line);
  fprintf(stderr, "%s\n", line);
}

static void on_log(void *user, atvi_log_level level, const char *line) {
  (void)user;
  if (show.quiet && level == ATVI_LOG_NOTE) return;
  atvi_show_end();
  show.lost = show.lost || level == ATVI_LOG_LOST;
  if (level != ATVI_LOG_NOTE)
    fprintf(stderr, "%swarning:%s %s\n", atvi_show_strong(), atvi_show_plain(), line);
  else
    fprintf(stderr, "%s\n", line);
}

/* A terminal that understands more than plain lines. */
static bool able(int fd) {
  const char *term = getenv("TERM");
  return isatty(fd) && term && strcmp(term, "dumb") != 0;
}

static bool colour(int fd) {
  const char *no_colour = getenv("NO_COLOR");
  return able(fd) && !(no_colour && no_colour[0]);
}

void atvi_show_attach(atvi_ctx *ctx, bool quiet) {
  show.quiet = quiet;
  show.terminal = able(STDERR_FILENO);
  show.colour = colour(STDERR_FILENO);
  atvi_ctx_set_log(ctx, on_log, NULL);
  atvi_ctx_set_progress(ctx, quiet ? NULL : on_progress, NULL);
}

void atvi_show_end(void) {
  if (!show.open) return;
  fputs("\r\033[K", stderr);
  fflush(stderr);
  show.open = false;
}

bool atvi_show_lost(void) { return show.lost; }

const char *atvi_show_strong(void) { return show.colour ? "\033[1;31m" : ""; }
const char *atvi_show_plain(void) { return show.colour ? "\033[0m" : ""; }

bool atvi_show_verdict(atvi_verdict verdict) {
  static const char *const look[] = {"\033[1;32m", "\033[1;33m", "\033[1;31m"}; /* by atvi_verdict */
  bool coloured = colour(STDOUT_FILENO);
  return printf("%s%s%s", coloured ? look[verdict] : "", atvi_verdict_name(verdict),
                coloured ? "\033[0m" : "") >= 0;
}
