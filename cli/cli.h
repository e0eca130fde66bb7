/* SPDX-License-Identifier: MIT */
/* What the commands share: the list of commands, exit codes, the context with its receivers. */
#ifndef ATVI_CLI_CLI_H
#define ATVI_CLI_CLI_H

#include "app/app.h"
#include "args.h"

typedef enum {
  ATVI_EXIT_DONE = 0,
  ATVI_EXIT_FAILED = 1,
  ATVI_EXIT_USAGE = 2,     /* wrong usage, model or data */
  ATVI_EXIT_DOUBT = 3,     /* done, but not to be trusted (only with --strict) */
  ATVI_EXIT_STOPPED = 130, /* interrupted */
} atvi_exit;

extern const atvi_command atvi_cmd_check, atvi_cmd_eval, atvi_cmd_simulate, atvi_cmd_fit, atvi_cmd_summary,
    atvi_cmd_predict, atvi_cmd_study, atvi_cmd_sbc, atvi_cmd_compare;

/* ---- one run of a command: context, pool, and where failures go ---- */
typedef struct {
  const atvi_command *command;
  atvi_ctx *ctx;
  atvi_pool *pool;
} atvi_call;

/* threads 0: one per core. Tells a failure itself; returns false then. */
bool atvi_call_open(atvi_call *s, const atvi_command *command, long long threads, bool quiet);
void atvi_call_close(atvi_call *s);
/* Prints the failure with what to do about it and gives the exit code. */
int atvi_call_fail(const atvi_call *s, atvi_status status);

/* `name=value` of a repeated option; false (after saying so) where the = is missing. Memory from the pool. */
bool atvi_call_sets(const atvi_call *s, const char *option, const atvi_arg_list *list, atvi_app_set **out);
/* `FILE` or `name=FILE`. */
bool atvi_call_data(const atvi_call *s, const atvi_arg_list *list, atvi_app_data **out);

/* Writes text to standard output; a full disk or a closed pipe is a failure that is told. */
int atvi_print(const char *text);

/* ---- telling (standard error) ---- */
/* Progress: one line rewritten on a terminal, plain lines now and then otherwise. quiet: nothing but warnings. */
void atvi_show_attach(atvi_ctx *ctx, bool quiet);
void atvi_show_end(void); /* takes the progress line away */
/* Opening and closing of a highlighted word on standard error; "" where colour is not wanted. */
const char *atvi_show_strong(void);
const char *atvi_show_plain(void);

/* ---- signals ---- */
/* From here on SIGINT and SIGTERM ask long work to stop and hand over what it has; a second one ends at once. */
void atvi_signals_catch(atvi_ctx *ctx);
bool atvi_signals_seen(void);

#endif
