/* SPDX-License-Identifier: MIT */
#include "args.h"
#include <stdio.h>
#include <string.h>

/* The words of the command without the options that submit, which are not for the workers. */
static bool worker_line(atvi_share_args *s, int argc, char **argv, atvi_app_share *out) {
  static const char *const valued[] = {"--slurm", "--submit", "--workers"}, *const plain[] = {
                                                                                "--wait", "--retry-failed"};
  atvi_idx n = 0;
  if (argc + 2 > ATVI_ARG_LIST_MAX) return false;
  for (int i = 0; i < argc; i++) {
    bool drop = false;
    for (size_t k = 0; k < sizeof valued / sizeof valued[0] && !drop; k++) {
      size_t len = strlen(valued[k]);
      bool same = strncmp(argv[i], valued[k], len) == 0;
      drop = same && (argv[i][len] == '=' || argv[i][len] == 0);
      if (drop && argv[i][len] == 0) i++;
    }
    for (size_t k = 0; k < sizeof plain / sizeof plain[0] && !drop; k++)
      drop = strcmp(argv[i], plain[k]) == 0;
    if (drop) continue;
    s->argv[n++] = argv[i];
    if (n == 1) s->argv[n++] = "--worker"; /* after the name of the command */
  }
  out->argv = s->argv;
  out->n_argv = n;
  return true;
}

bool atvi_args_share(const atvi_command *command, atvi_share_args *s, int argc, char **argv,
                     atvi_app_share *out, atvi_idx *threads) {
  const char *wrong = NULL;
  bool submits = s->slurm || s->submit;
  *out = (atvi_app_share){.worker = s->worker,
                          .status = s->status,
                          .workers = s->workers,
                          .slurm = s->slurm,
                          .submit = s->submit,
                          .wait = s->wait};
  if (s->worker + s->status + (s->slurm != NULL) + (s->submit != NULL) > 1)
    wrong = "--worker, --status, --slurm and --submit exclude each other";
  else if ((s->workers || s->wait) && !submits)
    wrong = "--workers and --wait need --slurm or --submit, which start workers";
  else if (s->until && !s->worker && !submits)
    wrong = "--until is for workers";
  else if (submits && !worker_line(s, argc, argv, out))
    wrong = "the command has too many words";
  if (wrong) fprintf(stderr, "atvi %s: %s\n", command->name, wrong);
  if (threads && s->worker && !*threads) *threads = atvi_app_share_cores();
  if (!wrong && s->until && !atvi_app_share_until(s->until, &out->until_s)) {
    fprintf(stderr, "atvi %s: --until %s: want a time such as 17:30, 2030-01-31T17:30, @1893456000 or 50m\n",
            command->name, s->until);
    return false;
  }
  return !wrong;
}
