/* SPDX-License-Identifier: MIT */
/* Options of a command, declared in one table that serves both parsing and --help.
 *
 * Understood: --name value, --name=value, --flag, -q, repeated options, and `--` (no options after it). Long
 * names cannot be shortened, so that scripts do not break when an option is added. */
#ifndef ATVI_CLI_ARGS_H
#define ATVI_CLI_ARGS_H

#include "app/app.h"
#include "infer/fit.h"

typedef enum {
  ATVI_ARG_FLAG,     /* bool */
  ATVI_ARG_ON,       /* const char *: a flag that sets it to "on" */
  ATVI_ARG_OFF,      /* likewise, to "off" */
  ATVI_ARG_TEXT,     /* const char * */
  ATVI_ARG_COUNT,    /* atvi_idx: a whole number >= 1 */
  ATVI_ARG_SEED,     /* uint64_t */
  ATVI_ARG_NUMBER,   /* double, finite, > 0 */
  ATVI_ARG_DURATION, /* double, seconds: 90, 90s, 10m, 1.5h, 2d */
  ATVI_ARG_LIST,     /* atvi_arg_list: may be repeated */
  ATVI_ARG_MAYBE,    /* const char *: "" for --name, the value for --name=value */
} atvi_arg_kind;

enum { ATVI_ARG_LIST_MAX = 256 };

typedef struct {
  int n;
  const char *text[ATVI_ARG_LIST_MAX];
} atvi_arg_list;

typedef struct {
  /* Without dashes; a single letter takes one dash: -n. */
  const char *name;
  /* Name of the value in --help; NULL for flags. */
  const char *value;
  atvi_arg_kind kind;
  /* Where the value goes; its type depends on the kind. */
  void *into;
  const char *help;
} atvi_arg;

enum { ATVI_ARGS_MOST = 64 };

/* Rows that several commands share. */
#define ATVI_ROW(name, value, kind, into, help)                                                              \
  { name, value, ATVI_ARG_##kind, into, help }
#define ATVI_ROW_FIX(into)                                                                                   \
  ATVI_ROW("fix", "NAME=VALUE", LIST, into, "Hold a parameter at a value; may be repeated.")
#define ATVI_ROW_DATA(into)                                                                                  \
  ATVI_ROW(                                                                                                  \
      "data", "[NAME=]FILE", LIST, into,                                                                     \
      "Use FILE instead of the model's data file. If the model has several data files: NAME=FILE. "          \
      "NAME may also be a file as the model writes it, or a block, whose units are then those of FILE.")
#define ATVI_ROW_FOLDER(into)                                                                                \
  ATVI_ROW("folder", "DIR", TEXT, into,                                                                      \
           "Folder to search for the files that the model names, instead of where the model says.")
#define ATVI_ROW_RUNS(into)                                                                                  \
  ATVI_ROW(                                                                                                  \
      "runs", "DIR", TEXT, into,                                                                             \
      "Folder with the runs of the model's simulator. Default: MODEL-runs here, else next to the model.")
#define ATVI_ROW_THREADS(into) ATVI_ROW("threads", "N", COUNT, into, "Threads (default: one per core).")
#define ATVI_ROW_CHECKPOINT(into)                                                                            \
  ATVI_ROW(                                                                                                  \
      "checkpoint", "TIME", DURATION, into,                                                                  \
      "Keep the state of the fit in DIR/checkpoint at most this often, so that it can be resumed: 5s, 10m "  \
      "(default 30s).")
#define ATVI_ROW_NO_COMPILE(into)                                                                            \
  ATVI_ROW("no-compile", NULL, FLAG, into, "Use the interpreter instead of compiling the model.")
#define ATVI_ROW_QUIET(into)                                                                                 \
  ATVI_ROW("quiet", NULL, FLAG, into, "No progress; print only the name of the folder.")

/* Options of work that several processes share. */
typedef struct {
  bool worker, status, wait;
  atvi_idx workers;
  const char *slurm, *submit, *until;
  /* The command line of a worker that is submitted. */
  const char *argv[ATVI_ARG_LIST_MAX];
} atvi_share_args;
#define ATVI_ROWS_SHARE(s)                                                                                   \
  ATVI_ROW("worker", NULL, FLAG, &(s)->worker, "Share the work with other workers of the folder."),          \
      ATVI_ROW("workers", "N", COUNT, &(s)->workers, "Number of workers to submit (default 1)."),            \
      ATVI_ROW("slurm", "OPTIONS", TEXT, &(s)->slurm,                                                        \
               "Submit workers to Slurm, as one array, with these options of sbatch."),                      \
      ATVI_ROW(                                                                                              \
          "submit", "COMMAND", TEXT, &(s)->submit,                                                           \
          "Submit workers to any scheduler: {script} becomes the script of a worker, {n} their number. "     \
          "Without {n} the command is given once per worker."),                                              \
      ATVI_ROW("wait", NULL, FLAG, &(s)->wait, "After submitting, wait until all is done."),                 \
      ATVI_ROW("status", NULL, FLAG, &(s)->status,                                                           \
               "Print what is done, running where, and failed why, from the files alone."),                  \
      ATVI_ROW("until", "TIME", TEXT, &(s)->until,                                                           \
               "When a worker must have ended: 17:30, 2030-01-31T17:30, @SECONDS since 1970, or 50m from "   \
               "now. Default: the end of its Slurm job.")

/* Options of work on simulated data sets: o has fix, data and threads, all is an atvi_app_repeat_opts. */
#define ATVI_ROWS_REPLICATES(o, all)                                                                         \
  ATVI_ROW_FIX(&(o)->fix),                                                                                   \
      ATVI_ROW("data", "[NAME=]FILE", LIST, &(o)->data,                                                      \
               "Use FILE instead of the model's data file: simulated data have its times and columns."),     \
      ATVI_ROW_FOLDER(&(all)->model.folder), ATVI_ROW_RUNS(&(all)->model.runs),                              \
      ATVI_ROW_THREADS(&(o)->threads), ATVI_ROW_CHECKPOINT(&(all)->checkpoint_s)

/* Fills arg with the options of a fit, which go into how, followed by own[], which ends with a NULL name. */
void atvi_args_fit(atvi_fit_opts *how, const atvi_arg *own, atvi_arg arg[ATVI_ARGS_MOST]);

typedef struct atvi_command {
  /* "fit". */
  const char *name;
  /* One phrase for the list of commands. */
  const char *brief;
  /* Follows "atvi fit "; one line per form. */
  const char *usage;
  /* Name of the argument, such as "MODEL". */
  const char *operand;
  /* Paragraphs separated by empty lines. */
  const char *about;
  /* Sections after the options: title, text, ..., NULL; printed verbatim. */
  const char *const *after;
  /* argv[0] is the name of the command; returns the exit code. */
  int (*run)(int argc, char **argv);
} atvi_command;

/* Fills the options and *operand from argv[1..]. Returns -1 to continue, else the exit code: 0 after --help,
 * 2 after an error message. arg ends with a NULL name. */
int atvi_args_parse(const atvi_command *command, const atvi_arg *arg, int argc, char **argv,
                    const char **operand);

/* The same for a command with one or more operands. */
int atvi_args_parse_many(const atvi_command *command, const atvi_arg *arg, int argc, char **argv,
                         atvi_arg_list *operands);

/* Writes the methods listed by atvi_infer_method_at into text, each with its help or its brief. Returns text.
 */
enum { ATVI_HELP_METHODS = 4096 };
const char *atvi_help_methods(unsigned is, char text[ATVI_HELP_METHODS]);

/* Checks which of them go together, and fills out, which borrows from s and argv. A worker without a number
 * of threads gets the cores of its job; threads may be NULL. False after an error message. */
bool atvi_args_share(const atvi_command *command, atvi_share_args *s, int argc, char **argv,
                     atvi_app_share *out, atvi_idx *threads);

/* The name nearest to word in a NULL-ended list, or NULL if none is near. */
const char *atvi_args_nearest(const char *word, const char *const *names);

/* Prints the manual page of a command in the format that atvi_help_as set last. */
void atvi_help_command(const atvi_command *command, const atvi_arg *arg);

/* Sets what is done with the options of a command on --help (NULL: print the page as text). Only a command's
 * run function knows its options, so other formats and completion set a function here and call run with
 * --help. */
typedef void atvi_help_show(const atvi_command *command, const atvi_arg *arg);
int atvi_help_as(atvi_help_show *show, const atvi_command *command);

#endif
