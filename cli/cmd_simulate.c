/* SPDX-License-Identifier: MIT */
#include "cli.h"
#include <stdio.h>

static const char *const after[] = {
    "OUTPUT",
    "CSV with a header, on standard output. Array elements are named beta.1,\n"
    "beta.2, ... With --prior, --fit and --draws the first column, draw__,\n"
    "numbers the draws.\n",
    "EXIT STATUS",
    "0   done\n"
    "1   failed, or the model cannot be run at the point given; results so far\n"
    "    are written\n"
    "2   wrong usage, or the model or its data are wrong\n",
    "EXAMPLES",
    "atvi simulate cold.atvi --set beta=0.9 --set gamma=0.3 --set S0=39 \\\n"
    "     --times 0:30:0.5\n"
    "atvi simulate cold.atvi --set beta=0.9 --set gamma=0.3 --set S0=39 \\\n"
    "     --observe >new.csv\n"
    "atvi simulate cold.atvi --prior 100 --seed 2\n"
    "atvi simulate pk.atvi --fit pk-001 --data subject=new.csv \\\n"
    "     --data doses.csv=new-doses.csv --times 0:24\n",
    NULL,
};

typedef struct {
  atvi_app_simulate_opts simulate;
  atvi_arg_list set, fix, data;
  const char *observe;
} options;

static int parse(options *o, int argc, char **argv) {
  const atvi_arg arg[] = {
      {"set", "NAME=VALUE", ATVI_ARG_LIST, &o->set,
       "Value of a parameter; required for every parameter, except of those of units, which are drawn from "
       "their priors given the others. beta.1=0.9 sets one element of an array, beta=0.9 all elements, "
       "beta=0.9,1.2 one value each."},
      {"observe", "NAME", ATVI_ARG_MAYBE, &o->observe,
       "Draw synthetic observations in the layout of the model's data file, ready for --data. NAME selects "
       "the data file if the model has several."},
      {"prior", "N", ATVI_ARG_COUNT, &o->simulate.prior,
       "Instead of one point use N draws from the prior, each with simulated observations (prior "
       "predictive)."},
      {"fit", "FIT", ATVI_ARG_TEXT, &o->simulate.fit,
       "Instead of one point use draws of the posterior: of a fit, a folder or a model file. In a model with "
       "units those of parameters outside blocks are taken, and parameters of units are drawn from their "
       "priors given these: new units from the population."},
      {"draws", "N", ATVI_ARG_COUNT, &o->simulate.draws,
       "Number of draws of --fit (default 100) or, with --set, of simulations at that point."},
      {"times", "A:B[:STEP]", ATVI_ARG_TEXT, &o->simulate.times,
       "Times from A to B (default STEP 1), or a list A,B,C; dates where the model has a calendar. Default: "
       "the times of the data. A model without 'start' starts at the first time of its data, or at A if "
       "there are no data."},
      {"fix", "NAME=VALUE", ATVI_ARG_LIST, &o->fix, "With --prior: hold a parameter at a value."},
      ATVI_ROW_DATA(&o->data),
      ATVI_ROW_FOLDER(&o->simulate.model.folder),
      ATVI_ROW_RUNS(&o->simulate.model.runs),
      {"seed", "N", ATVI_ARG_SEED, &o->simulate.seed, "Seed of all random numbers (default 1)."},
      ATVI_ROW_NO_COMPILE(&o->simulate.model.interpret),
      {0},
  };
  int code = atvi_args_parse(&atvi_cmd_simulate, arg, argc, argv, &o->simulate.model.path);
  if (code >= 0) return code;
  const atvi_app_simulate_opts *s = &o->simulate;
  if (s->prior && o->set.n) {
    fprintf(stderr, "atvi simulate: --prior draws the parameters, --set gives them; want only one of the two "
                    "(--fix holds a parameter in prior draws)\n");
    return ATVI_EXIT_USAGE;
  }
  if (s->prior && (s->fit || s->draws)) {
    fprintf(stderr, "atvi simulate: --prior N draws N points from the prior; leave out %s\n",
            s->fit ? "--fit" : "--draws");
    return ATVI_EXIT_USAGE;
  }
  return -1;
}

static int run(int argc, char **argv) {
  options o = {.simulate.seed = 1};
  atvi_app_simulate_opts *opts = &o.simulate;
  int code = parse(&o, argc, argv);
  if (code >= 0) return code;

  atvi_call s;
  if (!atvi_call_open(&s, &atvi_cmd_simulate, 0, false)) return ATVI_EXIT_FAILED;
  code = ATVI_EXIT_USAGE;
  if (atvi_call_sets(&s, "set", &o.set, &opts->n_set, &opts->set) &&
      atvi_call_model(&s, &o.fix, &o.data, &opts->model)) {
    opts->observe = o.observe != NULL;
    opts->data = o.observe && o.observe[0] ? o.observe : NULL;
    atvi_app_simulate_result result;
    atvi_status status = atvi_app_simulate(s.ctx, s.pool, opts, &result);
    code = status == ATVI_OK ? atvi_print(result.text) : atvi_call_fail(&s, status);
    if (code == ATVI_EXIT_DONE && result.failed) code = ATVI_EXIT_FAILED;
  }
  atvi_call_close(&s);
  return code;
}

const atvi_command atvi_cmd_simulate = {
    .name = "simulate",
    .brief = "trajectories, synthetic data or prior predictions, as CSV",
    .usage = "MODEL --set NAME=VALUE ... [--times A:B[:STEP]] [--observe]\n"
             "MODEL --prior N [--times A:B[:STEP]] [--observe]\n"
             "MODEL --fit FIT [--draws N] [--data NAME=FILE] ...",
    .operand = "MODEL",
    .about = "Runs the model forward. At the point given by --set it writes trajectories or, with --observe, "
             "data drawn from the model's distributions. With --prior it does so for draws from the prior, "
             "which shows what the priors imply before any data are used, and with --fit for draws from the "
             "posterior. A model with units gives a line for each unit and time; --data with the name of the "
             "block replaces the file of its units. With --times the data file of the model need not exist.",
    .after = after,
    .run = run,
};
