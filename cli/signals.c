/* SPDX-License-Identifier: MIT */
#include "cli.h"
#include <signal.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t seen, patient, silent;

/* Only calls that are safe in a signal handler. */
static void on_signal(int number) {
  static const char line[] = "\natvi: stopping; results so far will be written (again: exit at once)\n";
  if (seen && patient) return;
  if (seen) _exit(ATVI_EXIT_STOPPED);
  seen = number;
  if (silent) return;
  ssize_t ignored = write(STDERR_FILENO, line, sizeof line - 1);
  (void)ignored;
}

static bool asked(void *user) {
  (void)user;
  return seen != 0;
}

void atvi_signals_catch(atvi_ctx *ctx, bool worker) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART; /* files being written are completed */
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  if (worker) sigaction(SIGUSR1, &action, NULL);
  patient = worker;
  atvi_ctx_set_stop(ctx, asked, NULL);
}

void atvi_signals_end(atvi_ctx *ctx) {
  silent = 1;
  atvi_signals_catch(ctx, false);
}

bool atvi_signals_seen(void) { return seen != 0; }
bool atvi_signals_usr1(void) { return seen == SIGUSR1; }
