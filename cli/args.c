/* SPDX-License-Identifier: MIT */
#include "args.h"
#include "io/csv.h"
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { USAGE = 2, WORD_MAX = 63 };

/* ---- nearest name ---- */

/* Edits that turn a into b: insert, delete, replace, or swap two neighbours; words are cut at WORD_MAX. */
static int distance(const char *a, const char *b) {
  int row[3][WORD_MAX + 1];
  int na = (int)strnlen(a, WORD_MAX), nb = (int)strnlen(b, WORD_MAX);
  for (int j = 0; j <= nb; j++) row[0][j] = j;
  for (int i = 1; i <= na; i++) {
    int *now = row[i % 3], *above = row[(i + 2) % 3], *before = row[(i + 1) % 3];
    now[0] = i;
    for (int j = 1; j <= nb; j++) {
      int best = above[j - 1] + (a[i - 1] != b[j - 1]);
      if (above[j] + 1 < best) best = above[j] + 1;
      if (now[j - 1] + 1 < best) best = now[j - 1] + 1;
      bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped && before[j - 2] + 1 < best) best = before[j - 2] + 1;
      now[j] = best;
    }
  }
  return row[na % 3][nb];
}

const char *atvi_args_nearest(const char *word, const char *const *names) {
  const char *best = NULL;
  int best_score = 3; /* more than two edits: a different word */
  for (; *names; names++) {
    size_t n = strlen(word);
    int score = n >= 3 && strncmp(word, *names, n) == 0 ? 1 : distance(word, *names);
    if (score < best_score && score < (int)strlen(*names)) {
      best = *names;
      best_score = score;
    }
  }
  return best;
}

/* ---- options of a fit ---- */

void atvi_args_fit(atvi_fit_opts *how, const atvi_arg *own, atvi_arg arg[ATVI_ARGS_MOST]) {
  static const atvi_arg_kind kind[] = {
      [ATVI_OPTION_WORD] = ATVI_ARG_TEXT,     [ATVI_OPTION_SEED] = ATVI_ARG_SEED,
      [ATVI_OPTION_NUMBER] = ATVI_ARG_NUMBER, [ATVI_OPTION_SECONDS] = ATVI_ARG_DURATION,
      [ATVI_OPTION_COUNT] = ATVI_ARG_COUNT,   [ATVI_OPTION_FLAG] = ATVI_ARG_FLAG,
  };
  const atvi_fit_option *p;
  int n = 0;
  for (int i = 0; (p = atvi_infer_fit_option_at(i)); i++) {
    const char *name = p->flag ? p->flag : p->name;
    void *into = (char *)how + p->offset;
    arg[n++] = (atvi_arg){name, p->value, p->flag_off ? ATVI_ARG_ON : kind[p->kind], into, p->help};
    if (p->flag_off) arg[n++] = (atvi_arg){p->flag_off, NULL, ATVI_ARG_OFF, into, p->help_off};
  }
  do assert(n < ATVI_ARGS_MOST), arg[n++] = *own;
  while (own++->name);
}

/* ---- values ---- */

typedef struct {
  const atvi_command *command;
  const atvi_arg *arg;
} parser;

static int say_help(const parser *p) {
  fprintf(stderr, "'atvi %s --help' lists the options.\n", p->command->name);
  return USAGE;
}

static int bad_value(const atvi_arg *arg, const parser *p, const char *text, const char *want) {
  fprintf(stderr, "atvi %s: %s%s %s: want %s\n", p->command->name, arg->name[1] ? "--" : "-", arg->name, text,
          want);
  return USAGE;
}

static int put_count(const atvi_arg *arg, const parser *p, const char *text) {
  char *end;
  errno = 0;
  long long v = strtoll(text, &end, 10);
  if (errno || end == text || *end || v < 1 || v > PTRDIFF_MAX)
    return bad_value(arg, p, text, "a whole number, at least 1");
  *(atvi_idx *)arg->into = (atvi_idx)v;
  return -1;
}

static int put_seed(const atvi_arg *arg, const parser *p, const char *text) {
  char *end;
  errno = 0;
  unsigned long long v = strtoull(text, &end, 10);
  if (errno || text[0] < '0' || text[0] > '9' || *end)
    return bad_value(arg, p, text, "a whole number, at least 0");
  *(uint64_t *)arg->into = v;
  return -1;
}

static int put_number(const atvi_arg *arg, const parser *p, const char *text) {
  double v;
  if (!atvi_io_parse_number(text, strlen(text), &v) || !isfinite(v) || !(v > 0))
    return bad_value(arg, p, text, "a number above 0");
  *(double *)arg->into = v;
  return -1;
}

static int put_duration(const atvi_arg *arg, const parser *p, const char *text) {
  static const char units[] = "smhd";
  static const double seconds[] = {1, 60, 3600, 86400};
  size_t n = strlen(text);
  const char *unit = n ? strchr(units, text[n - 1]) : NULL;
  double v;
  if (!atvi_io_parse_number(text, unit ? n - 1 : n, &v) || !isfinite(v) || !(v > 0))
    return bad_value(arg, p, text, "a time such as 90s, 10m, 1.5h or 2d");
  *(double *)arg->into = unit ? v * seconds[unit - units] : v;
  return -1;
}

static int put_switch(const atvi_arg *arg, const parser *p) {
  const bool on = arg->kind == ATVI_ARG_ON;
  const char **into = arg->into, *other = on ? "off" : "on";
  for (const atvi_arg *a = p->arg; strcmp(*into, other) == 0 && a->name; a++)
    if (a->into == arg->into && a != arg) {
      fprintf(stderr, "atvi %s: --%s and --%s exclude each other\n", p->command->name, a->name, arg->name);
      return USAGE;
    }
  *into = on ? "on" : "off";
  return -1;
}

static int put_list(const atvi_arg *arg, const parser *p, const char *text) {
  atvi_arg_list *list = arg->into;
  if (list->n == ATVI_ARG_LIST_MAX) {
    fprintf(stderr, "atvi %s: --%s is given more than %d times\n", p->command->name, arg->name,
            ATVI_ARG_LIST_MAX);
    return USAGE;
  }
  list->text[list->n++] = text;
  return -1;
}

static int put(const atvi_arg *arg, const parser *p, const char *text) {
  switch (arg->kind) {
  case ATVI_ARG_FLAG: *(bool *)arg->into = true; return -1;
  case ATVI_ARG_ON:
  case ATVI_ARG_OFF: return put_switch(arg, p);
  case ATVI_ARG_MAYBE:
  case ATVI_ARG_TEXT: *(const char **)arg->into = text; return -1;
  case ATVI_ARG_COUNT: return put_count(arg, p, text);
  case ATVI_ARG_SEED: return put_seed(arg, p, text);
  case ATVI_ARG_NUMBER: return put_number(arg, p, text);
  case ATVI_ARG_DURATION: return put_duration(arg, p, text);
  case ATVI_ARG_LIST: return put_list(arg, p, text);
  }
  return USAGE;
}

/* ---- the loop ---- */

static int unknown(const parser *p, const char *word) {
  const char *names[64] = {"help"};
  int n = 1;
  for (const atvi_arg *a = p->arg; a->name && n < 63; a++) names[n++] = a->name;
  char name[WORD_MAX + 1];
  snprintf(name, sizeof name, "%.*s", (int)strcspn(word + 2, "="), word + 2);
  const char *near = word[1] == '-' ? atvi_args_nearest(name, names) : NULL;
  fprintf(stderr, "atvi %s: unknown option %s%s%s%s\n", p->command->name, word,
          near ? "; did you mean --" : "", near ? near : "", near ? "?" : "");
  return say_help(p);
}

static const atvi_arg *find(const parser *p, const char *word) {
  bool quiet = strcmp(word, "-q") == 0, full = strncmp(word, "--", 2) == 0;
  const char *name = word + (full ? 2 : 1);
  size_t n = strcspn(name, "=");
  if (!full && !quiet && n != 1) return NULL;
  for (const atvi_arg *a = p->arg; a->name; a++) {
    if (quiet ? strcmp(a->name, "quiet") == 0 : strlen(a->name) == n && strncmp(a->name, name, n) == 0)
      return a;
  }
  return NULL;
}

/* One option at argv[*i]; *i moves past its value. */
static int option(const parser *p, int argc, char **argv, int *i) {
  const char *word = argv[*i];
  if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
    atvi_help_command(p->command, p->arg);
    return fflush(stdout) ? 1 : 0;
  }
  const atvi_arg *arg = find(p, word);
  if (!arg) return unknown(p, word);
  const char *equals = strchr(word, '=');
  bool flag = !arg->value;
  if (flag && equals) {
    fprintf(stderr, "atvi %s: --%s takes no value\n", p->command->name, arg->name);
    return USAGE;
  }
  if (equals) return put(arg, p, equals + 1);
  if (flag || arg->kind == ATVI_ARG_MAYBE) return put(arg, p, "");
  if (*i + 1 >= argc) {
    fprintf(stderr, "atvi %s: %s wants a value: %s %s\n", p->command->name, word, word, arg->value);
    return USAGE;
  }
  *i += 1;
  return put(arg, p, argv[*i]);
}

/* Fills operands; more than `most` are an error. */
static int parse(const parser *p, int argc, char **argv, int most, atvi_arg_list *operands) {
  const atvi_command *command = p->command;
  bool options = true;
  operands->n = 0;
  for (int i = 1; i < argc; i++) {
    if (options && strcmp(argv[i], "--") == 0) {
      options = false;
    } else if (options && argv[i][0] == '-' && argv[i][1]) {
      int code = option(p, argc, argv, &i);
      if (code >= 0) return code;
    } else if (operands->n == most) {
      fprintf(stderr,
              most == 1 ? "atvi %s: want one %s, but there is a second: %s\n" : "atvi %s: too many %ss: %s\n",
              command->name, command->operand, argv[i]);
      return say_help(p);
    } else {
      operands->text[operands->n++] = argv[i];
    }
  }
  if (operands->n) return -1;
  fprintf(stderr, "atvi %s: %s is missing: atvi %s %s ...\n", command->name, command->operand, command->name,
          command->operand);
  return say_help(p);
}

int atvi_args_parse(const atvi_command *command, const atvi_arg *arg, int argc, char **argv,
                    const char **operand) {
  atvi_arg_list one;
  int code = parse(&(parser){command, arg}, argc, argv, 1, &one);
  *operand = one.n ? one.text[0] : NULL;
  return code;
}

int atvi_args_parse_many(const atvi_command *command, const atvi_arg *arg, int argc, char **argv,
                         atvi_arg_list *operands) {
  return parse(&(parser){command, arg}, argc, argv, ATVI_ARG_LIST_MAX, operands);
}
