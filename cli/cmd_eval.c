/* SPDX-License-Identifier: MIT */
#include "cli.h"

static const char *const after[] = {
    "OUTPUT",
    "One JSON object:\n"
    "  log_prior         log density of the prior, normalised\n"
    "  log_likelihood    log density of the data, all constants kept\n"
    "  gradient          derivative of their sum by each parameter, keyed by name\n"
    "  outcome           \"ok\", or why the model could not be run there\n",
    "EXIT STATUS",
    "0   done\n"
    "1   failed\n"
    "2   wrong usage, or the model or its data are wrong\n",
    "EXAMPLES",
    "atvi eval cold.atvi --set beta=0.9 --set gamma=0.3 --set S0=39\n"
    "atvi eval rotavirus.atvi --set w=0.43 ... \\\n"
    "     --set beta=1.3,3.1,0.03,3.2,0.3,0.1\n",
    NULL,
};

static int run(int argc, char **argv) {
  atvi_arg_list set = {0}, fix = {0}, data = {0};
  atvi_app_model model = {0};
  const atvi_arg arg[] = {
      {"set", "NAME=VALUE", ATVI_ARG_LIST, &set,
       "Value of a parameter; required for every parameter. beta.1=0.9 sets one element of an array, "
       "beta=0.9 all elements, beta=0.9,1.2 one value each."},
      {"fix", "NAME=VALUE", ATVI_ARG_LIST, &fix,
       "Hold a parameter at a value: it is no longer a parameter and has no gradient; log_prior still "
       "includes the density of its prior there."},
      ATVI_ROW_DATA(&data),
      ATVI_ROW_FOLDER(&model.folder),
      ATVI_ROW_RUNS(&model.runs),
      ATVI_ROW_NO_COMPILE(&model.interpret),
      {0},
  };
  int code = atvi_args_parse(&atvi_cmd_eval, arg, argc, argv, &model.path);
  if (code >= 0) return code;

  atvi_call s;
  if (!atvi_call_open(&s, &atvi_cmd_eval, 1, false)) return ATVI_EXIT_FAILED;
  atvi_ctx_set_progress(s.ctx, NULL, NULL); /* only notes about the data */
  const atvi_app_set *sets;
  atvi_idx n_set;
  code = ATVI_EXIT_USAGE;
  if (atvi_call_sets(&s, "set", &set, &n_set, &sets) && atvi_call_model(&s, &fix, &data, &model)) {
    const char *text = "";
    atvi_status status = atvi_app_eval(s.ctx, s.pool, &model, n_set, sets, &text);
    code = status == ATVI_OK ? atvi_print(text) : atvi_call_fail(&s, status);
  }
  atvi_call_close(&s);
  return code;
}

const atvi_command atvi_cmd_eval = {
    .name = "eval",
    .brief = "log density and gradient at a point, as JSON",
    .usage = "MODEL --set NAME=VALUE ... [--data FILE]",
    .operand = "MODEL",
    .about = "Evaluates the model at one point: log prior, log likelihood and the gradient of their sum.",
    .after = after,
    .run = run,
};
