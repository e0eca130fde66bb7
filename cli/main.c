/* SPDX-License-Identifier: MIT */
#include "cli.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>

const atvi_command *const atvi_commands[] = {
    &atvi_cmd_new,      &atvi_cmd_check,      &atvi_cmd_eval,
    &atvi_cmd_simulate, &atvi_cmd_fit,        &atvi_cmd_summary,
    &atvi_cmd_report,   &atvi_cmd_watch,      &atvi_cmd_predict,
    &atvi_cmd_export,   &atvi_cmd_compare,    &atvi_cmd_study,
    &atvi_cmd_sbc,      &atvi_cmd_design,     &atvi_cmd_run,
    &atvi_cmd_emulate,  &atvi_cmd_completion, NULL,
};
enum { COMMANDS = sizeof atvi_commands / sizeof atvi_commands[0] - 1 };

int atvi_unknown_command(const char *word) {
  const char *names[COMMANDS + 1] = {0};
  for (int i = 0; i < COMMANDS; i++) names[i] = atvi_commands[i]->name;
  const char *near = atvi_args_nearest(word, names);
  fprintf(stderr, "atvi: unknown command %s%s%s%s\n", word, near ? "; did you mean " : "", near ? near : "",
          near ? "?" : "");
  fprintf(stderr, "'atvi --help' lists the commands.\n");
  return ATVI_EXIT_USAGE;
}

int main(int argc, char **argv) {
  signal(SIGXFSZ, SIG_IGN); /* a file that may not grow (ulimit -f) is then like a full disk */
  if (argc < 2) {
    atvi_help_overview(stderr);
    return ATVI_EXIT_USAGE;
  }
  const char *word = argv[1];
  if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) return atvi_print("atvi " ATVI_VERSION "\n");
  if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) return atvi_help(1, argv);
  if (strcmp(word, "help") == 0) return atvi_help(argc - 1, argv + 1);
  for (int i = 0; i < COMMANDS; i++)
    if (strcmp(word, atvi_commands[i]->name) == 0) {
      int code = atvi_commands[i]->run(argc - 1, argv + 1);
      return code == ATVI_EXIT_DONE && atvi_show_lost() ? ATVI_EXIT_FAILED : code;
    }
  return atvi_unknown_command(word);
}
