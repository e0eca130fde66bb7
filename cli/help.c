/* SPDX-License-Identifier: MIT */
#include "cli.h"
#include <string.h>

enum { WIDTH = 79, INDENT = 4, HELP_COLUMN = 25 };

/* Prints words from column `indent`; the cursor is at column `at`. An empty line in text starts a paragraph. */
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
  const char *dashes = arg->name[1] ? "--" : "-";
  int at = printf("%*s%s%s%s%s%s", INDENT, "", dashes, arg->name, joint, arg->value ? arg->value : "", close);
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
    if (line[0] == ' ') /* continues the line above */
      printf("%*s%.*s\n", INDENT, "", n, line);
    else
      printf("%*satvi %s %.*s\n", INDENT, "", command->name, n, line);
    line += n + (line[n] == '\n');
  }
}

static void as_text(const atvi_command *command, const atvi_arg *arg) {
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

const char *atvi_help_methods(unsigned is, char text[ATVI_HELP_METHODS]) {
  const atvi_method *m;
  size_t n = 0;
  for (int i = 0; (m = atvi_infer_method_at(is, i)); i++) {
    const char *name = m->name, *line = is & ATVI_METHOD_OWN ? m->help : m->brief;
    for (; *line && n < ATVI_HELP_METHODS; name = "") {
      size_t k = strcspn(line, "\n");
      n += (size_t)snprintf(text + n, ATVI_HELP_METHODS - n, "%-7s %.*s\n", name, (int)k, line);
      line += k + (line[k] == '\n');
    }
  }
  return text;
}

/* ---- which command, in which format ---- */

static atvi_help_show *show_now;

void atvi_help_command(const atvi_command *command, const atvi_arg *arg) {
  (show_now ? show_now : as_text)(command, arg);
}

int atvi_help_as(atvi_help_show *show, const atvi_command *command) {
  char name[32], ask[] = "--help", *argv[] = {name, ask, NULL};
  snprintf(name, sizeof name, "%s", command->name);
  show_now = show;
  int code = command->run(2, argv);
  show_now = NULL;
  return code;
}

void atvi_help_overview(FILE *out) {
  fprintf(out, "atvi - Bayesian calibration of computer models\n\n"
               "usage: atvi COMMAND ...\n\n");
  for (const atvi_command *const *c = atvi_commands; *c; c++)
    fprintf(out, "  %-10s %s\n", (*c)->name, (*c)->brief);
  fprintf(out, "\n'atvi COMMAND --help' explains a command, 'atvi --version' prints the version.\n"
               "A first run: atvi new flu && atvi fit flu/flu.atvi\n");
}

static void text_overview(void) { atvi_help_overview(stdout); }

int atvi_help(int argc, char **argv) {
  static const struct {
    const char *name;
    atvi_help_show *page;
    void (*overview)(void);
  } formats[] = {{"text", as_text, text_overview},
                 {"md", atvi_help_md, atvi_help_md_overview},
                 {"man", atvi_help_man, atvi_help_man_overview}};
  int f = 0, i = 1;
  if (i + 1 < argc && strcmp(argv[i], "--format") == 0) {
    for (f = 0; f < 3 && strcmp(argv[i + 1], formats[f].name) != 0;) f++;
    if (f == 3) {
      fprintf(stderr, "atvi help: --format %s: want text, md or man\n", argv[i + 1]);
      return ATVI_EXIT_USAGE;
    }
    i += 2;
  }
  if (i >= argc) {
    formats[f].overview();
    return atvi_print("");
  }
  for (const atvi_command *const *c = atvi_commands; *c; c++)
    if (strcmp(argv[i], (*c)->name) == 0) return atvi_help_as(formats[f].page, *c);
  return atvi_unknown_command(argv[i]);
}
