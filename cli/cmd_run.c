/* SPDX-License-Identifier: MIT */
#include "cli.h"
#include <limits.h>
#include <stdio.h>

static const char *const after[] = {
    "FAILURES",
    "A run fails if the program exits with a status other than 0 or by a signal,\n"
    "exceeds the time limit, or if its outputs are missing, not finite, or at\n"
    "other times than those of most runs. It is recorded with the reason and the\n"
    "end of its log, and is not used by emulators. If the program cannot be\n"
    "started, or all of the first runs fail, the rest is not started.\n",
    "FILES",
    "DIR/design.csv     the points, from atvi design\n"
    "DIR/runs.jsonl     the record: one JSON object per run, append-only\n"
    "DIR/work/          folders of runs in progress\n"
    "DIR/failed/        folders of failed runs (--keep-failed)\n"
    "DIR/shards/        further parts of the record, one per worker\n"
    "DIR/claims/, DIR/workers/\n"
    "                   which worker does what\n"
    "DIR/logs/          what workers printed (--slurm)\n",
    "WORKERS",
    "Any number of processes, on any number of hosts that share DIR, do the\n"
    "points together: atvi run MODEL --worker. A worker claims points by making\n"
    "files, so there is no server. The points of a worker that disappears are\n"
    "done by others after 90 seconds, or at once if it was asked to end.\n"
    "It starts no run that would not end in time (--until, or the end of its\n"
    "Slurm job). Runs that were killed or could not be started are tried on\n"
    "another host, and count as failed the third time. docs/cluster.md\n",
    "SIGNALS",
    "Ctrl-C (SIGINT) and SIGTERM end the programs that are running; runs that are\n"
    "done stay recorded, and the same command does the others. After a kill or a\n"
    "power cut at most the runs in progress are lost. A worker does the same on\n"
    "SIGUSR1, and then asks Slurm to start it again if points are left.\n",
    "EXIT STATUS",
    "0     done\n"
    "1     failed: no program, no space, ...\n"
    "2     wrong usage, or the model is wrong\n"
    "3     done, but some runs failed (only with --strict)\n"
    "130   interrupted\n",
    "EXAMPLES",
    "atvi run flow.atvi\n"
    "atvi run flow.atvi --jobs 8 --limit 30m --keep-failed\n"
    "atvi run flow.atvi --retry-failed\n"
    "atvi run flow.atvi --slurm '-p short -t 4:00:00' --workers 40\n"
    "atvi run flow.atvi --submit 'qsub -t 1-{n} {script}' --workers 40\n"
    "srun -n 200 atvi run flow.atvi --worker\n"
    "atvi run flow.atvi --status\n",
    NULL,
};

typedef struct {
  atvi_app_run_opts run;
  atvi_idx jobs;
  const char *retries;
  atvi_share_args share;
  bool strict, quiet;
} options;

static int parse(options *o, int argc, char **argv) {
  const atvi_arg arg[] = {
      {"jobs", "N", ATVI_ARG_COUNT, &o->jobs,
       "Number of runs at the same time. Default: as the model says, else one per core."},
      {"limit", "TIME", ATVI_ARG_DURATION, &o->run.limit_s,
       "Time limit for a run: 90s, 10m, 1.5h, 2d. Default: as the model says, else no limit."},
      {"retries", "N", ATVI_ARG_TEXT, &o->retries,
       "How often a failed run is retried at once. Default: as the model says, else 0."},
      {"retry-failed", NULL, ATVI_ARG_FLAG, &o->run.retry_failed,
       "Also repeat runs that are recorded as failed."},
      {"keep-failed", NULL, ATVI_ARG_FLAG, &o->run.keep_failed, "Keep the folders of failed runs."},
      ATVI_ROWS_SHARE(&o->share),
      {"runs", "DIR", ATVI_ARG_TEXT, &o->run.dir, "Folder of design and record. Default: MODEL-runs here."},
      ATVI_ROW_FOLDER(&o->run.folder),
      {"strict", NULL, ATVI_ARG_FLAG, &o->strict, "End with status 3 if a run failed."},
      ATVI_ROW_QUIET(&o->quiet),
      {0},
  };
  int code = atvi_args_parse(&atvi_cmd_run, arg, argc, argv, &o->run.path);
  if (code >= 0) return code;
  o->run.jobs = o->jobs > INT_MAX ? INT_MAX : (int)o->jobs;
  o->run.retries = -1;
  if (!atvi_args_share(&atvi_cmd_run, &o->share, argc, argv, &o->run.share, NULL)) return ATVI_EXIT_USAGE;
  if (o->run.share.worker && o->run.retry_failed) {
    fprintf(stderr,
            "atvi run: --retry-failed goes with --slurm or --submit, or with a run without workers\n");
    return ATVI_EXIT_USAGE;
  }
  if (!o->retries) return -1;
  char rest;
  if (sscanf(o->retries, "%d%c", &o->run.retries, &rest) == 1 && o->run.retries >= 0) return -1;
  fprintf(stderr, "atvi run: --retries %s: want a whole number, at least 0\n", o->retries);
  return ATVI_EXIT_USAGE;
}

static int report(const options *o, const atvi_app_run_result *r) {
  char line[2 * PATH_MAX];
  int code = o->quiet ? ATVI_EXIT_DONE : atvi_print(r->text);
  snprintf(line, sizeof line,
           o->quiet                                                           ? "%s\n"
           : o->run.share.status || o->run.share.slurm || o->run.share.submit ? "\nfolder: %s\n"
                                                                              : "\nrecorded in %s\n",
           r->dir);
  if (code == ATVI_EXIT_DONE) code = atvi_print(line);
  if (o->quiet && r->good == 0 && r->failed > 0)
    fprintf(stderr, "atvi run: all %td runs failed: %s\n", r->failed, r->reason ? r->reason : "?");
  if (r->stopped) {
    fprintf(stderr, "atvi run: interrupted; the same command continues it\n");
    return ATVI_EXIT_STOPPED;
  }
  return code == ATVI_EXIT_DONE && o->strict && (r->failed || r->left) ? ATVI_EXIT_DOUBT : code;
}

static int run(int argc, char **argv) {
  options o = {0};
  int code = parse(&o, argc, argv);
  if (code >= 0) return code;
  atvi_call s;
  if (!atvi_call_open(&s, &atvi_cmd_run, 0, o.quiet)) return ATVI_EXIT_FAILED;
  atvi_app_run_result r;
  atvi_signals_catch(s.ctx, o.run.share.worker);
  atvi_status status = atvi_app_run(s.ctx, s.pool, &o.run, &r);
  code = status == ATVI_OK ? report(&o, &r) : atvi_call_fail(&s, status);
  if (status == ATVI_OK && r.unfinished && (r.late || atvi_signals_usr1())) atvi_app_share_requeue(s.ctx);
  atvi_call_close(&s);
  return code;
}

const atvi_command atvi_cmd_run = {
    .name = "run",
    .brief = "run a simulator at the points of its design",
    .usage = "MODEL [--jobs N] [--limit TIME] [--retries N] [--retry-failed] ...\n"
             "MODEL --slurm OPTIONS | --submit COMMAND [--workers N] [--wait] ...\n"
             "MODEL --worker [--until TIME] ...\n"
             "MODEL --status",
    .operand = "MODEL",
    .about = "Runs the simulator of the model at the points of the design (atvi design) that are not yet in "
             "the record, several at once, and records parameters, outputs, seconds and outcome of each. "
             "Recorded runs are not repeated.\n\n"
             "The block simulator { ... } of the model says how the program is started, how parameters reach "
             "it and where its outputs are: docs/simulators.md. Each run has its own folder, which is "
             "removed once its outputs are recorded.",
    .after = after,
    .run = run,
};
