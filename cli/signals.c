/* SPDX-License-Identifier: MIT */
#include "cli.h"
#include <signal.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t seen;

/* Only calls that are safe in a signal handler. */
static void on_signal(int number) {
  static const char line[] = "\natvi: stopping; results so far will be written (again: exit at once)\n";
  (void)number;
  if (seen) _exit(ATVI_EXIT_STOPPED);
  seen = 1;
  ssize_t ignored = write(STDERR_FILENO, line, sizeof line - 1);
  (void)ignored;
}

static bool asked(void *user) {
  (void)user;
  return seen;
}

void atvi_signals_catch(atvi_ctx *ctx) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART; /* files being written are completed */
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  atvi_ctx_set_stop(ctx, asked, NULL);
}

bool atvi_signals_seen(void) { return seen; }
