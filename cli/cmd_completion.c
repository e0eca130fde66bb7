/* SPDX-License-Identifier: MIT */
/* Completion scripts, from the same tables as --help: names of options, and what can be said of their values.
 * The choices for a value are those of the option of a fit, or those of the command's usage, `[--like sir|seir|...]`; a value called DIR is a folder, one
 * that has FILE in its name a file; of others nothing is known. */
#include "cli.h"
#include <string.h>

static const char *const after[] = {
    "INSTALLING",
    "'make install' puts them where the shells look for them. By hand:\n"
    "  bash   source <(atvi completion bash)      # in ~/.bashrc\n"
    "  zsh    atvi completion zsh >~/.zfunc/_atvi # a folder of $fpath\n",
    "EXIT STATUS",
    "0   done\n"
    "2   wrong usage\n",
    "EXAMPLES",
    "source <(atvi completion bash)\n",
    NULL,
};

/* ---- what is known of a value ---- */

enum { CHOICES_MAX = 256 };

/* The words of `a|b|c` after `before` in usage, joined by blanks; false if there is no such list. */
static bool choices(const char *usage, const char *before, char *out) {
  const char *at = strstr(usage, before);
  if (!at) return false;
  at += strlen(before);
  size_t n = strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789|");
  if (n >= CHOICES_MAX || !memchr(at, '|', n)) return false;
  for (size_t i = 0; i < n; i++) out[i] = (char)(at[i] == '|' ? ' ' : at[i]);
  out[n] = 0;
  return true;
}

static bool option_choices(const atvi_command *command, const atvi_arg *arg, char *out) {
  char before[64];
  const atvi_fit_option *p = command == &atvi_cmd_fit ? atvi_infer_fit_option_find(arg->name) : NULL;
  size_t n = 0;
  out[0] = 0;
  if (p && strcmp(p->name, "method") == 0) {
    const atvi_method *m;
    for (int i = 0; (m = atvi_infer_method_at(ATVI_METHOD_OWN, i)); i++)
      n += (size_t)snprintf(out + n, CHOICES_MAX - n, "%s%s", i ? " " : "", m->name);
  }
  for (int i = 0; p && p->word && p->word[i]; i++)
    n += (size_t)snprintf(out + n, CHOICES_MAX - n, "%s%s", i ? " " : "", p->word[i]);
  if (n) return true;
  snprintf(before, sizeof before, "--%s ", arg->name);
  return choices(command->usage, before, out);
}

static bool has_value(const atvi_arg *arg) { return arg->value && arg->kind != ATVI_ARG_MAYBE; }
static bool is_folder(const char *what) { return strcmp(what, "DIR") == 0; }
static bool is_file(const char *what) { return strstr(what, "FILE") || strcmp(what, "TRUTH") == 0; }
/* Operands that can be found on the disk: models, and folders of fits. */
static bool is_run(const char *what) { return is_folder(what) || strcmp(what, "MODEL") == 0; }

/* ---- bash ---- */

/* After an option with a value no option is wanted. */
static void bash_value(const atvi_command *command, const atvi_arg *arg) {
  char list[CHOICES_MAX] = "";
  bool listed = option_choices(command, arg, list);
  const char *kind = listed ? "" : is_folder(arg->value) ? "folder" : is_file(arg->value) ? "file" : "";
  printf("    %s%s) options='' values='%s' kind=%s ;;\n", arg->name[1] ? "--" : "-", arg->name, list, kind);
}

static void bash_command(const atvi_command *command, const atvi_arg *arg) {
  char list[CHOICES_MAX] = "";
  choices(command->usage, "", list);
  printf("  %s)\n    options='", command->name);
  for (const atvi_arg *a = arg; a->name; a++) printf("%s%s ", a->name[1] ? "--" : "-", a->name);
  printf("--help' values='%s' kind=%s\n", list, is_run(command->operand) ? "run" : "");
  printf("    case $before in\n");
  for (const atvi_arg *a = arg; a->name; a++)
    if (has_value(a)) bash_value(command, a);
  printf("    esac\n    ;;\n");
}

static const char bash_end[] =
    "  esac\n"
    "  local IFS=$'\\n'\n"
    "  if [[ $word == -* && $options ]]; then\n"
    "    COMPREPLY=($(compgen -W \"${options// /$IFS}\" -- \"$word\"))\n"
    "  elif [[ $values ]]; then\n"
    "    COMPREPLY=($(compgen -W \"${values// /$IFS}\" -- \"$word\"))\n"
    "  elif [[ $kind ]]; then\n"
    "    compopt -o filenames 2>/dev/null\n"
    "    case $kind in\n"
    "    folder) COMPREPLY=($(compgen -d -- \"$word\")) ;;\n"
    "    file) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n"
    "    run) COMPREPLY=($(compgen -d -- \"$word\"; compgen -f -X '!*.atvi' -- \"$word\")) ;;\n"
    "    esac\n"
    "  fi\n"
    "}\n"
    "complete -F _atvi atvi\n";

static int bash_script(void) {
  int code = ATVI_EXIT_DONE;
  printf(
      "# bash completion of atvi. Made by 'atvi completion bash'.\n"
      "_atvi() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}\n"
      "  local options='' values='' kind='' commands='");
  for (const atvi_command *const *c = atvi_commands; *c; c++) printf("%s ", (*c)->name);
  printf("help'\n"
         "  # --name=value comes as three words\n"
         "  if [[ $word == = ]]; then word=''; elif [[ $before == = ]]; then "
         "before=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
         "  COMPREPLY=()\n"
         "  [ \"$COMP_CWORD\" -gt 1 ] || command=''\n"
         "  case $command in\n"
         "  '') options='--help --version' values=$commands ;;\n"
         "  help) values=$commands ;;\n");
  for (const atvi_command *const *c = atvi_commands; *c && code == ATVI_EXIT_DONE; c++)
    code = atvi_help_as(bash_command, *c);
  printf("%s", bash_end);
  return code;
}

/* ---- zsh ---- */

/* The first sentence, inside '[...]': what would end either is escaped. */
static void zsh_text(const char *text) {
  const char *stop = strstr(text, ". ");
  size_t n = stop ? (size_t)(stop - text) : strlen(text);
  if (n && text[n - 1] == '.') n--;
  for (size_t i = 0; i < n; i++) {
    if (text[i] == '\'') {
      printf("'\\''");
      continue;
    }
    if (strchr("[]:\\", text[i])) putchar('\\');
    putchar(text[i]);
  }
}

static void zsh_option(const atvi_command *command, const atvi_arg *arg) {
  char list[CHOICES_MAX];
  printf(" \\\n      '%s%s%s", arg->kind == ATVI_ARG_LIST ? "*" : "", arg->name[1] ? "--" : "-", arg->name);
  if (arg->name[1] && arg->value) printf(arg->kind == ATVI_ARG_MAYBE ? "=-" : "=");
  printf("[");
  zsh_text(arg->help);
  printf("]");
  if (arg->value) {
    printf("%s", arg->kind == ATVI_ARG_MAYBE ? "::" : ":");
    zsh_text(arg->value);
    if (option_choices(command, arg, list))
      printf(":(%s)", list);
    else
      printf(is_folder(arg->value) ? ":_files -/" : is_file(arg->value) ? ":_files" : ": ");
  }
  printf("'");
}

static void zsh_command(const atvi_command *command, const atvi_arg *arg) {
  char list[CHOICES_MAX];
  printf("  %s)\n    _arguments", command->name);
  for (const atvi_arg *a = arg; a->name; a++) zsh_option(command, a);
  printf(" \\\n      '(-h --help)'{-h,--help}'[the manual page]'");
  if (choices(command->usage, "", list))
    printf(" \\\n      '1:%s:(%s)'", command->operand, list);
  else if (is_run(command->operand))
    printf(" \\\n      '*:%s:_files -g \"*.atvi(-.) *(-/)\"'", command->operand);
  else if (command->operand) /* nothing is offered for it, but options still are after it */
    printf(" \\\n      '1:%s: '", command->operand);
  printf("\n    ;;\n");
}

static int zsh_script(void) {
  int code = ATVI_EXIT_DONE;
  printf("#compdef atvi\n"
         "# zsh completion of atvi. Made by 'atvi completion zsh'.\n"
         "_atvi() {\n"
         "local -a commands\n"
         "commands=(\n");
  for (const atvi_command *const *c = atvi_commands; *c; c++) {
    printf("  '%s:", (*c)->name);
    zsh_text((*c)->brief);
    printf("'\n");
  }
  printf("  'help:the manual page of a command'\n)\n"
         "if (( CURRENT == 2 )); then\n"
         "  _describe command commands\n"
         "  return\n"
         "fi\n"
         "local command=$words[2]\n"
         "shift words\n"
         "(( CURRENT-- ))\n"
         "case $command in\n"
         "  help) _describe command commands ;;\n");
  for (const atvi_command *const *c = atvi_commands; *c && code == ATVI_EXIT_DONE; c++)
    code = atvi_help_as(zsh_command, *c);
  printf("esac\n"
         "}\n"
         "if [ \"$funcstack[1]\" = _atvi ]; then _atvi \"$@\"; else compdef _atvi atvi; fi\n");
  return code;
}

static int run(int argc, char **argv) {
  const atvi_arg arg[] = {{0}};
  const char *shell;
  int code = atvi_args_parse(&atvi_cmd_completion, arg, argc, argv, &shell);
  if (code >= 0) return code;
  if (strcmp(shell, "bash") == 0)
    code = bash_script();
  else if (strcmp(shell, "zsh") == 0)
    code = zsh_script();
  else {
    fprintf(stderr, "atvi completion: there is none for %s, but for bash and zsh\n", shell);
    return ATVI_EXIT_USAGE;
  }
  return code == ATVI_EXIT_DONE ? atvi_print("") : code;
}

const atvi_command atvi_cmd_completion = {
    .name = "completion",
    .brief = "a script that completes commands and options for a shell",
    .usage = "bash|zsh",
    .operand = "SHELL",
    .about = "Prints a script after which the tabulator key completes commands, options, their values and "
             "the names of models.",
    .after = after,
    .run = run,
};
