/* SPDX-License-Identifier: MIT */
#include "cli.h"
#include <stdio.h>
#include <string.h>

static const atvi_command *const commands[] = {
    &atvi_cmd_check,   &atvi_cmd_eval,  &atvi_cmd_simulate, &atvi_cmd_fit,     &atvi_cmd_summary,
    &atvi_cmd_predict, &atvi_cmd_study, &atvi_cmd_sbc,      &atvi_cmd_compare,
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static void overview(FILE *out) {
  fprintf(out, "atvi - Bayesian calibration of computer models\n\n"
               "usage: atvi COMMAND ...\n\n");
  for (int i = 0; i < COMMANDS; i++) fprintf(out, "  %-10s %s\n", commands[i]->name, commands[i]->brief);
  fprintf(out, "\n'atvi COMMAND --help' explains a command, 'atvi --version' tells the version.\n"
               "A first run: atvi fit examples/cold/cold.atvi\n");
}

static int unknown(const char *word) {
  const char *names[COMMANDS + 1] = {0};
  for (int i = 0; i < COMMANDS; i++) names[i] = commands[i]->name;
  const char *near = atvi_args_nearest(word, names);
  fprintf(stderr, "atvi: unknown command %s%s%s%s\n", word, near ? "; did you mean " : "", near ? near : "",
          near ? "?" : "");
  fprintf(stderr, "'atvi --help' lists the commands.\n");
  return ATVI_EXIT_USAGE;
}

int main(int argc, char **argv) {
  if (argc < 2) {
    overview(stderr);
    return ATVI_EXIT_USAGE;
  }
  const char *word = argv[1];
  if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) return atvi_print("atvi " ATVI_VERSION "\n");
  bool help = strcmp(word, "help") == 0;
  if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || (help && argc < 3)) {
    overview(stdout);
    return atvi_print("");
  }
  char ask[] = "--help", *ask_argv[] = {argv[0], ask, NULL};
  if (help) word = argv[2];
  for (int i = 0; i < COMMANDS; i++) {
    if (strcmp(word, commands[i]->name) != 0) continue;
    return help ? commands[i]->run(2, ask_argv) : commands[i]->run(argc - 1, argv + 1);
  }
  return unknown(word);
}
