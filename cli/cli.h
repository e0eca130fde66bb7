/* SPDX-License-Identifier: MIT */
/* Shared by the commands: the list of commands, exit codes, the context and its callbacks. */
#ifndef ATVI_CLI_CLI_H
#define ATVI_CLI_CLI_H

#include "app/app.h"
#include "args.h"
#include <stdio.h>

typedef enum {
  ATVI_EXIT_DONE = 0,
  ATVI_EXIT_FAILED = 1,
  ATVI_EXIT_USAGE = 2,     /* wrong usage, model or data */
  ATVI_EXIT_DOUBT = 3,     /* done, but the result cannot be trusted (only with --strict) */
  ATVI_EXIT_STOPPED = 130, /* interrupted */
} atvi_exit;

extern const atvi_command atvi_cmd_check, atvi_cmd_eval, atvi_cmd_simulate, atvi_cmd_fit, atvi_cmd_summary,
    atvi_cmd_export, atvi_cmd_predict, atvi_cmd_study, atvi_cmd_sbc, atvi_cmd_compare, atvi_cmd_design,
    atvi_cmd_run, atvi_cmd_emulate, atvi_cmd_watch, atvi_cmd_report, atvi_cmd_new, atvi_cmd_completion;
extern const atvi_command *const atvi_commands[]; /* all of them, in the order of the overview; NULL-ended */

/* `help [--format text|md|man] [COMMAND]`; without a command the overview. Returns the exit code. */
int atvi_help(int argc, char **argv);
void atvi_help_overview(FILE *out);
/* Pages for docs/cli and for man. */
void atvi_help_md(const atvi_command *command, const atvi_arg *arg);
void atvi_help_man(const atvi_command *command, const atvi_arg *arg);
void atvi_help_md_overview(void);
void atvi_help_man_overview(void);
int atvi_unknown_command(const char *word); /* prints an error with a suggestion; returns the exit code */

/* ---- one run of a command: context, pool, and where failures go ---- */
typedef struct {
  const atvi_command *command;
  atvi_ctx *ctx;
  atvi_pool *pool;
} atvi_call;

/* threads 0: one per core. On failure prints a message and returns false. */
bool atvi_call_open(atvi_call *s, const atvi_command *command, atvi_idx threads, bool quiet);
void atvi_call_close(atvi_call *s);
/* Prints the failure and what to do about it; returns the exit code. */
int atvi_call_fail(const atvi_call *s, atvi_status status);
/* Prints the outcome of many fits, or that they were interrupted; returns the exit code. */
int atvi_call_repeated(const atvi_call *s, const atvi_app_repeat_result *r, bool json, bool quiet);

/* `name=value` of a repeated option; false, after a message, if the = is missing. Memory from the pool. */
bool atvi_call_sets(const atvi_call *s, const char *option, const atvi_arg_list *list, atvi_idx *n,
                    const atvi_app_set **out);
/* `FILE` or `name=FILE`. */
bool atvi_call_data(const atvi_call *s, const atvi_arg_list *list, atvi_idx *n, const atvi_data_file **out);
/* Both, for a model; false as above. */
bool atvi_call_model(const atvi_call *s, const atvi_arg_list *fix, const atvi_arg_list *data,
                     atvi_app_model *model);

/* Writes text to standard output; a full disk or a closed pipe is reported as a failure. */
int atvi_print(const char *text);
/* The same, with the words of n verdicts (in text order) in green, yellow or red if colour is wanted. */
int atvi_print_judged(const char *text, atvi_idx n, const atvi_app_mark *judged);

/* ---- progress and warnings (standard error) ---- */
/* Progress: one line that is rewritten on a terminal, else an occasional plain line. quiet: warnings only. */
void atvi_show_attach(atvi_ctx *ctx, bool quiet);
void atvi_show_end(void); /* clears the progress line */
/* Whether the log reported a file that could not be written: a finished command then ends with
 * ATVI_EXIT_FAILED. */
bool atvi_show_lost(void);
/* Escape codes around a highlighted word on standard error; "" if colour is not wanted. */
const char *atvi_show_strong(void);
const char *atvi_show_plain(void);
/* Writes the word of a verdict to standard output, in colour if wanted. */
bool atvi_show_verdict(atvi_verdict verdict);

/* ---- signals ---- */
/* From now on SIGINT and SIGTERM ask long work to stop and return what it has; a second signal exits at once.
 * worker: of a process that a scheduler has started, SIGUSR1 does so too, and a second signal changes
 * nothing. */
void atvi_signals_catch(atvi_ctx *ctx, bool worker);
/* The same, silently, for work that has no results. */
void atvi_signals_end(atvi_ctx *ctx);
bool atvi_signals_seen(void);
/* Whether the first of them was SIGUSR1. */
bool atvi_signals_usr1(void);

/* ---- one fit on many processes (docs/mpi.md) ---- */
/* If mpirun or srun started several: makes the model share the work between them. Returns their number; 1:
 * there is just this one, or they have different commands; 0: nothing is left to do. */
int atvi_ranks_begin(int argc, char **argv, atvi_app_model *model);
/* The reason that is given if this process, not the first, fails. */
void atvi_ranks_message(const char *text);
/* Ends the other processes. Returns the exit code of this one. */
int atvi_ranks_end(int code);

#endif
