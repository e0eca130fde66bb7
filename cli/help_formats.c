/* SPDX-License-Identifier: MIT */
/* The pages of --help for docs/cli (Markdown) and for man (roff), from the same tables. */
#include "cli.h"
#include <ctype.h>
#include <string.h>

/* ---- Markdown ---- */

/* Text with Markdown characters escaped. */
static void md_text(const char *text, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (strchr("*_<>|[]`\\", text[i])) putchar('\\');
    putchar(text[i] == '\n' ? ' ' : text[i]);
  }
}

/* "EXIT STATUS": "Exit status". */
static void md_title(const char *title) {
  printf("\n## %c", title[0]);
  for (const char *c = title + 1; *c; c++) putchar(tolower((unsigned char)*c));
  printf("\n\n");
}

/* Passes each line of the usage, with its length, to put. */
static void synopsis(const atvi_command *command, void (*put)(const char *text, size_t n)) {
  for (const char *line = command->usage; *line;) {
    size_t n = strcspn(line, "\n");
    if (line[0] != ' ') printf("atvi %s ", command->name); /* else it continues the line above */
    put(line, n);
    printf("\n");
    line += n + (line[n] == '\n');
  }
}

static void as_it_is(const char *text, size_t n) { printf("%.*s", (int)n, text); }

static void option_name(const atvi_arg *arg, void (*put)(const char *text, size_t n)) {
  char name[128];
  const char *value = arg->value ? arg->value : "";
  const char *joint = !arg->value ? "" : arg->kind == ATVI_ARG_MAYBE ? "[=" : " ";
  int n = snprintf(name, sizeof name, "%s%s%s%s%s%s", arg->name[1] ? "--" : "-", arg->name, joint, value,
                   arg->kind == ATVI_ARG_MAYBE ? "]" : "", strcmp(arg->name, "quiet") == 0 ? ", -q" : "");
  put(name, (size_t)n < sizeof name ? (size_t)n : sizeof name - 1);
}

void atvi_help_md(const atvi_command *command, const atvi_arg *arg) {
  printf("<!-- Made by 'atvi help --format md %s'; see tools/words. -->\n# atvi %s\n\n", command->name,
         command->name);
  putchar(toupper((unsigned char)command->brief[0]));
  md_text(command->brief + 1, strlen(command->brief) - 1);
  printf(".\n\n```\n");
  synopsis(command, as_it_is);
  printf("```\n\n");
  for (const char *p = command->about; *p;) {
    const char *end = strstr(p, "\n\n");
    size_t n = end ? (size_t)(end - p) : strlen(p);
    md_text(p, n);
    printf("%s", end ? "\n\n" : "\n");
    p += n + (end ? 2 : 0);
  }
  md_title("OPTIONS");
  printf("| option | meaning |\n|---|---|\n");
  for (; arg->name; arg++) {
    printf("| `");
    option_name(arg, as_it_is);
    printf("` | ");
    md_text(arg->help, strlen(arg->help));
    printf(" |\n");
  }
  printf("| `--help, -h` | The same as this page. |\n");
  for (const char *const *s = command->after; s && *s; s += 2) {
    md_title(s[0]);
    printf("```\n%s```\n", s[1]);
  }
}

void atvi_help_md_overview(void) {
  printf("<!-- Made by 'atvi help --format md'; see tools/words. -->\n# Commands\n\n```\natvi COMMAND "
         "...\n```\n\n"
         "| command | |\n|---|---|\n");
  for (const atvi_command *const *c = atvi_commands; *c; c++) {
    printf("| [%s](%s.md) | ", (*c)->name, (*c)->name);
    md_text((*c)->brief, strlen((*c)->brief));
    printf(" |\n");
  }
  printf("\n`atvi COMMAND --help` shows a page in the terminal, `man atvi-fit` too once atvi is installed; "
         "`atvi --version` prints the version.\n");
}

/* ---- roff ---- */

/* One line of text, escaped so that roff sees no request, and - can be copied. */
static void man_line(const char *text, size_t n) {
  if (n && (text[0] == '.' || text[0] == '\'')) printf("\\&");
  for (size_t i = 0; i < n; i++) {
    if (text[i] == '\\')
      printf("\\e");
    else if (text[i] == '-')
      printf("\\-");
    else
      putchar(text[i]);
  }
}

static void man_text(const char *text) {
  for (; *text;) {
    size_t n = strcspn(text, "\n");
    if (n) man_line(text, n);
    printf("%s", n ? "\n" : ".PP\n");
    text += n + (text[n] == '\n');
  }
}

static void man_head(const char *name, const char *dash, const char *upper, const char *brief) {
  printf(".TH ATVI%s%s 1 \"\" \"atvi %s\" \"atvi\"\n.SH NAME\natvi%s%s \\- ", dash, upper, ATVI_VERSION, dash,
         name);
  man_line(brief, strlen(brief));
  printf("\n.SH SYNOPSIS\n.nf\n");
}

static void man_block(const char *text) {
  printf(".nf\n");
  for (; *text;) {
    size_t n = strcspn(text, "\n");
    man_line(text, n);
    printf("\n");
    text += n + (text[n] == '\n');
  }
  printf(".fi\n");
}

void atvi_help_man(const atvi_command *command, const atvi_arg *arg) {
  char upper[32];
  snprintf(upper, sizeof upper, "%s", command->name);
  for (char *c = upper; *c; c++) *c = (char)toupper((unsigned char)*c);
  man_head(command->name, "\\-", upper, command->brief);
  synopsis(command, man_line);
  printf(".fi\n.SH DESCRIPTION\n");
  man_text(command->about);
  printf(".SH OPTIONS\n");
  for (; arg->name; arg++) {
    printf(".TP\n.B ");
    option_name(arg, man_line);
    printf("\n");
    man_text(arg->help);
  }
  printf(".TP\n.B \\-\\-help, \\-h\nThis text.\n");
  for (const char *const *s = command->after; s && *s; s += 2) {
    printf(".SH %s\n", s[0]);
    man_block(s[1]);
  }
  printf(".SH SEE ALSO\n.BR atvi (1)\n");
}

void atvi_help_man_overview(void) {
  man_head("", "", "", "Bayesian calibration of computer models");
  printf("atvi COMMAND ...\n.fi\n.SH DESCRIPTION\n"
         "You have a model, written as equations or as a program, and data. atvi finds which parameters the "
         "data\n"
         "support, how certain they are, and whether its own answer can be trusted.\n.PP\n"
         "A first run: atvi new flu && atvi fit flu/flu.atvi\n.SH COMMANDS\n");
  for (const atvi_command *const *c = atvi_commands; *c; c++) {
    printf(".TP\n.BR atvi\\-%s (1)\n", (*c)->name);
    man_line((*c)->brief, strlen((*c)->brief));
    printf("\n");
  }
  printf(".SH ENVIRONMENT\n.TP\n.B XDG_CACHE_HOME\nCompiled models are kept in its folder atvi (default: "
         "~/.cache/atvi).\n.TP\n.B NO_COLOR\nIf set and not empty, output is not coloured.\n");
}
