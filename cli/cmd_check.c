/* SPDX-License-Identifier: MIT */
#include "cli.h"

static const char *const after[] = {
    "EXIT STATUS",
    "0   all is well\n"
    "1   the gradient check failed, or a file could not be read\n"
    "2   wrong usage, or the model or its data are wrong\n",
    "EXAMPLES",
    "atvi check examples/cold/cold.atvi\n"
    "atvi check examples/rotavirus/rotavirus.atvi --data set_1.csv\n",
    NULL,
};

static int run(int argc, char **argv) {
  atvi_arg_list data = {0};
  atvi_app_model model = {0};
  atvi_idx threads = 0;
  uint64_t seed = 1;
  const atvi_arg arg[] = {
      ATVI_ROW_DATA(&data),
      ATVI_ROW_FOLDER(&model.folder),
      ATVI_ROW_RUNS(&model.runs),
      {"seed", "N", ATVI_ARG_SEED, &seed, "Seed of the points at which the gradient is tested (default 1)."},
      {"threads", "N", ATVI_ARG_COUNT, &threads, "Threads for the timing (default: one per core)."},
      ATVI_ROW_NO_COMPILE(&model.interpret),
      {0},
  };
  int code = atvi_args_parse(&atvi_cmd_check, arg, argc, argv, &model.path);
  if (code >= 0) return code;

  atvi_call s;
  if (!atvi_call_open(&s, &atvi_cmd_check, threads, false)) return ATVI_EXIT_FAILED;
  code = ATVI_EXIT_USAGE;
  if (atvi_call_data(&s, &data, &model.n_data, &model.data)) {
    const char *text = "";
    bool ok = false;
    atvi_status status = atvi_app_check(s.ctx, s.pool, &model, seed, &text, &ok);
    if (status != ATVI_OK)
      code = atvi_call_fail(&s, status);
    else
      code = atvi_print(text) || !ok ? ATVI_EXIT_FAILED : ATVI_EXIT_DONE;
  }
  atvi_call_close(&s);
  return code;
}

const atvi_command atvi_cmd_check = {
    .name = "check",
    .brief = "read a model and its data, and test them",
    .usage = "MODEL [--data FILE] [--no-compile]",
    .operand = "MODEL",
    .about =
        "Reads the model file MODEL and its data and prints what they contain: parameters and their "
        "priors, states, observations, and how many values are present, missing or censored. Then it "
        "tests the gradients of log prior and log likelihood at points drawn from the prior, and measures "
        "what one evaluation and one gradient cost.\n\n"
        "Gradients are tested against tangents: the same derivatives by forward mode, along the same steps "
        "of the solver, so that the two differ by rounding alone, which is measured. Where they differ by "
        "more, "
        "either a derivative in atvi is wrong or its solver fails there without noticing; a model that "
        "cannot "
        "be differentiated well, because its solver is unstable, is not called wrong. Models with sums of "
        "processes (emulators, discrepancies) are tested against finite differences.\n\n"
        "Mistakes in the model or the data are reported with file, line and column, the line itself, "
        "and a hint. docs/language.md is the language reference.",
    .after = after,
    .run = run,
};
