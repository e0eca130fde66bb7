/* SPDX-License-Identifier: MIT */
/* Options of a command, declared in one table that serves both parsing and --help.
 *
 * Understood: --name value, --name=value, --flag, -q, repeated options, `--` (the rest is no option).
 * A long name may not be shortened: scripts must not break when an option is added. */
#ifndef ATVI_CLI_ARGS_H
#define ATVI_CLI_ARGS_H

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
  ATVI_ARG_MAYBE,    /* const char *: --name gives "", --name=value the value */
} atvi_arg_kind;

enum { ATVI_ARG_LIST_MAX = 256 };

typedef struct {
  int n;
  const char *text[ATVI_ARG_LIST_MAX];
} atvi_arg_list;

typedef struct {
  const char *name;  /* without the dashes; a single letter has one of them: -n */
  const char *value; /* what the value is called in --help; NULL for flags */
  atvi_arg_kind kind;
  void *into; /* where the value goes, of the type said above */
  const char *help;
} atvi_arg;

enum { ATVI_ARGS_MOST = 64 };

/* Puts the options of a fit, which go into how, before those of own[], up to the one without a name, in arg. */
void atvi_args_fit(atvi_fit_opts *how, const atvi_arg *own, atvi_arg arg[ATVI_ARGS_MOST]);

typedef struct atvi_command {
  const char *name;    /* "fit" */
  const char *brief;   /* half a sentence for the list of commands */
  const char *usage;   /* after "atvi fit "; several lines where there are several forms */
  const char *operand; /* what the one argument is called, e.g. "MODEL" */
  const char *about;   /* paragraphs, separated by an empty line */
  const char *const
      *after; /* sections after the options: title, text, ..., NULL; texts are printed as they are */
  int (*run)(int argc, char **argv); /* argv[0] is the command's name; returns the exit code */
} atvi_command;

/* Fills the options and *operand from argv[1..]. Returns -1 to go on, else the exit code to end with: 0 after
 * --help, 2 after telling what was wrong. arg ends with a NULL name. */
int atvi_args_parse(const atvi_command *command, const atvi_arg *arg, int argc, char **argv,
                    const char **operand);

/* The same for a command that takes one operand or more. */
int atvi_args_parse_many(const atvi_command *command, const atvi_arg *arg, int argc, char **argv,
                         atvi_arg_list *operands);

/* Methods for a page, as atvi_infer_method_at lists them: name and brief or, of methods of their own, help. Returns text. */
enum { ATVI_HELP_METHODS = 4096 };
const char *atvi_help_methods(unsigned is, char text[ATVI_HELP_METHODS]);

/* The name nearest to word in a NULL-ended list, or NULL where none is near. */
const char *atvi_args_nearest(const char *word, const char *const *names);

/* Manual page of a command, on standard output; shown by what atvi_help_as has set last. */
void atvi_help_command(const atvi_command *command, const atvi_arg *arg);

/* Only a command's run knows its options, and hands them over when it is asked for --help. So whoever wants them, for
 * another format or for completion, says here what is to be done with them, and asks. NULL: the page as text. */
typedef void atvi_help_show(const atvi_command *command, const atvi_arg *arg);
int atvi_help_as(atvi_help_show *show, const atvi_command *command);

#endif
