/* SPDX-License-Identifier: MIT */
#include "args.h"
#include <stdio.h>
#include <string.h>

enum { WIDTH = 79, INDENT = 4, HELP_COLUMN = 25 };

/* Prints words from column `indent`; the cursor stands at column `at`. An empty line in text starts a paragraph. */
static void wrap(const char *text, int indent, int at) {
  bool first = true;
  while (*text) {
    if (text[0] == '\n' && text[1] == '\n') {
      printf("\n");
      at = WIDTH; /* the next word starts a line */
      first = false;
    }
    text += strspn(text, " \n");
    int n = (int)strcspn(text, " \n");
    if (n == 0) break;
    if (at + 1 + n > WIDTH) {
      printf("\n%*s", indent, "");
      at = indent;
      first = true;
    }
    at += printf("%s%.*s", first ? "" : " ", n, text);
    first = false;
    text += n;
  }
  printf("\n");
}

static void section(const char *title) { printf("\n%s\n", title); }

static void paragraph(const char *text) {
  printf("%*s", INDENT, "");
  wrap(text, INDENT, INDENT);
}

static void one_option(const atvi_arg *arg) {
  const char *joint = !arg->value ? "" : arg->kind == ATVI_ARG_MAYBE ? "[=" : " ";
  const char *close = arg->kind == ATVI_ARG_MAYBE ? "]" : "";
  int at = printf("%*s--%s%s%s%s", INDENT, "", arg->name, joint, arg->value ? arg->value : "", close);
  if (strcmp(arg->name, "quiet") == 0) at += printf(", -q");
  if (at + 2 > HELP_COLUMN) {
    printf("\n");
    at = 0;
  }
  printf("%*s", HELP_COLUMN - at, "");
  wrap(arg->help, HELP_COLUMN, HELP_COLUMN);
}

static void usage(const atvi_command *command) {
  for (const char *line = command->usage; *line;) {
    int n = (int)strcspn(line, "\n");
    if (line[0] == ' ') /* goes on from the line above */
      printf("%*s%.*s\n", INDENT, "", n, line);
    else
      printf("%*satvi %s %.*s\n", INDENT, "", command->name, n, line);
    line += n + (line[n] == '\n');
  }
}

void atvi_help_command(const atvi_command *command, const atvi_arg *arg) {
  printf("NAME\n%*satvi %s - %s\n", INDENT, "", command->name, command->brief);
  section("SYNOPSIS");
  usage(command);
  section("DESCRIPTION");
  paragraph(command->about);
  section("OPTIONS");
  for (const atvi_arg *a = arg; a->name; a++) one_option(a);
  printf("%*s%-*s%s\n", INDENT, "", HELP_COLUMN - INDENT, "--help, -h", "This text.");
  for (const char *const *s = command->after; s && *s; s += 2) {
    section(s[0]);
    for (const char *line = s[1]; *line;) {
      int n = (int)strcspn(line, "\n");
      if (n) printf("%*s%.*s", INDENT, "", n, line);
      printf("\n");
      line += n + (line[n] == '\n');
    }
  }
}
