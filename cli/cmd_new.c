/* SPDX-License-Identifier: MIT */
#include "cli.h"
#include "new.h"
#include "io/file.h"
#include "io/text.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* In the order in which to try them; each is a folder of cli/new. */
static const char *const kinds[] = {"sir", "seir", "msir", "curve", "program", "ensemble", NULL};

static const char *const after[] = {
    "KINDS",
    "sir       an outbreak: susceptible, ill, recovered; a count per day\n"
    "seir      an epidemic seen through weekly reports, with a measure against it\n"
    "msir      a childhood infection: maternal immunity, births, seasons\n"
    "curve     a curve through points: no time, no differential equations\n"
    "program   a simulator that is a program, run by atvi, behind an emulator\n"
    "ensemble  runs of a simulator that were done elsewhere, in files; with a\n"
    "          discrepancy between simulator and world\n",
    "FILES",
    "NAME/NAME.atvi   the model\n"
    "NAME/NAME.csv    its data, simulated\n"
    "NAME/README.md   what it is, and the commands that fit it\n"
    "                 (program: also the simulator; ensemble: also its runs)\n",
    "EXIT STATUS",
    "0   done\n"
    "1   failed; nothing is left behind\n"
    "2   wrong usage, or the name is taken\n",
    "EXAMPLES",
    "atvi new flu && atvi fit flu/flu.atvi\n"
    "atvi new river --like program && cat river/README.md\n",
    NULL,
};

static bool plain(const char *name) {
  static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.";
  return name[0] && name[0] != '.' && name[0] != '-' && name[strspn(name, letters)] == 0;
}

static bool known(const char *kind) {
  for (const char *const *k = kinds; *k; k++)
    if (strcmp(*k, kind) == 0) return true;
  const char *near = atvi_args_nearest(kind, kinds);
  fprintf(stderr, "atvi new: --like %s: want sir, seir, msir, curve, program or ensemble%s%s%s\n", kind,
          near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
  return false;
}

/* The text with every @NAME@ replaced. */
static void fill(atvi_text *out, const char *text, const char *name) {
  static const char mark[] = "@NAME@";
  for (const char *at; (at = strstr(text, mark)); text = at + sizeof mark - 1)
    atvi_io_text_add(out, "%.*s%s", (int)(at - text), text, name);
  atvi_io_text_add(out, "%s", text);
}

static const char *path_of(const atvi_call *s, const char *dir, const char *name, const atvi_new_file *f) {
  if (strcmp(f->name, "model.atvi") == 0) return atvi_pool_printf(s->pool, "%s/%s.atvi", dir, name);
  if (strcmp(f->name, "data.csv") == 0) return atvi_pool_printf(s->pool, "%s/%s.csv", dir, name);
  return atvi_pool_printf(s->pool, "%s/%s", dir, f->name);
}

static atvi_status put(const atvi_call *s, const char *path, const char *name, const atvi_new_file *f) {
  atvi_text t = {.pool = s->pool};
  const char *text;
  fill(&t, f->text, name);
  if (!path) return ATVI_FAIL(s->ctx, ATVI_ENOMEM, "%s", f->name);
  ATVI_TRY(atvi_io_text_get(&t, &text));
  ATVI_TRY(atvi_io_file_save(s->ctx, path, text, strlen(text)));
  struct stat was;
  if (strncmp(text, "#!", 2) != 0 || stat(path, &was) != 0) return ATVI_OK;
  /* Executable by everyone who may read it. */
  if (chmod(path, was.st_mode | (was.st_mode & 0444) >> 2) == 0) return ATVI_OK;
  return atvi_io_file_cannot(s->ctx, "change", path, errno);
}

/* All files, or none and no folder. */
static atvi_status make(const atvi_call *s, const char *dir, const char *name, const char *kind) {
  enum { MOST = 16 };
  const char *path[MOST];
  int n = 0;
  ATVI_TRY(atvi_io_dir_make(s->ctx, dir, true));
  atvi_status status = ATVI_OK;
  for (const atvi_new_file *f = atvi_new_files; f->kind && n < MOST && status == ATVI_OK; f++) {
    if (strcmp(f->kind, kind) != 0) continue;
    path[n] = path_of(s, dir, name, f);
    status = put(s, path[n], name, f);
    n++;
  }
  if (status == ATVI_OK) return status;
  for (int i = 0; i < n; i++)
    if (path[i]) unlink(path[i]);
  rmdir(dir);
  return status;
}

static int told(const atvi_call *s, const char *dir, const char *name, const char *kind) {
  /* A simulator is run before anything can be fitted. */
  const char *first = strcmp(kind, "program") == 0 ? "design @NAME@.atvi -n 40" : "fit @NAME@.atvi";
  atvi_text t = {.pool = s->pool};
  const char *text;
  atvi_io_text_add(&t, "made %s; README.md explains it. Now:\n  cd %s\n  atvi ", dir, dir);
  fill(&t, first, name);
  atvi_io_text_add(&t, "\n");
  return atvi_io_text_get(&t, &text) == ATVI_OK ? atvi_print(text) : ATVI_EXIT_FAILED;
}

static int run(int argc, char **argv) {
  const char *like = "sir", *given;
  const atvi_arg arg[] = {
      {"like", "KIND", ATVI_ARG_TEXT, &like, "Kind of model; see KINDS (default sir)."},
      {0},
  };
  int code = atvi_args_parse(&atvi_cmd_new, arg, argc, argv, &given);
  if (code >= 0) return code;
  if (!known(like)) return ATVI_EXIT_USAGE;

  atvi_call s;
  if (!atvi_call_open(&s, &atvi_cmd_new, 1, true)) return ATVI_EXIT_FAILED;
  size_t n = strlen(given);
  while (n > 1 && given[n - 1] == '/') n--;
  const char *dir = atvi_pool_strndup(s.pool, given, n);
  const char *slash = dir ? strrchr(dir, '/') : NULL, *name = slash ? slash + 1 : dir;
  code = ATVI_EXIT_USAGE;
  if (!name) {
    fprintf(stderr, "atvi: out of memory\n");
    code = ATVI_EXIT_FAILED;
  } else if (!plain(name)) {
    fprintf(stderr, "atvi new: '%s': want a name of letters, digits, _, - and ., such as flu\n", given);
  } else {
    atvi_status status = make(&s, dir, name, like);
    code = status == ATVI_OK ? told(&s, dir, name, like) : atvi_call_fail(&s, status);
    if (status == ATVI_EEXIST) {
      fprintf(stderr, "Choose another name; nothing is ever overwritten.\n");
      code = ATVI_EXIT_USAGE;
    }
  }
  atvi_call_close(&s);
  return code;
}

const atvi_command atvi_cmd_new = {
    .name = "new",
    .brief = "make a folder with a model and data to start from",
    .usage = "NAME [--like sir|seir|msir|curve|program|ensemble]",
    .operand = "NAME",
    .about = "Makes a folder NAME with a model, data and a README. You can fit it as it is, then change it "
             "into a model of your own. Existing files are never overwritten.",
    .after = after,
    .run = run,
};
