/* SPDX-License-Identifier: MIT */
#include "app/common.h"

static const char *const ADVICE[ATVI_CODES] = {
    /* Messages. */
    [ATVI_CODE_CHAINS_STUCK] = "'atvi check' shows whether the model can be evaluated near its prior.",
    [ATVI_CODE_DIVERGENCES] = "Compare with --method atvi or ram.",
    [ATVI_CODE_EBFMI] = "Compare with --method atvi or ram.",
    [ATVI_CODE_KHAT_REFUSED] = "Check the result with --method ram.",
    [ATVI_CODE_KHAT_UNKNOWN] = "Check the model with 'atvi check', and the result with --method ram.",
    [ATVI_CODE_WEIGHTS_POOR] = "Check the result with --method ram.",
    [ATVI_CODE_WEIGHTS_CONTRADICT] = "Check the result with --method ram.",
    [ATVI_CODE_LAPLACE_POOR] = "--method ram gives exact draws.",
    [ATVI_CODE_EXACT_NEEDED] = "--no-exact keeps the approximation instead.",
    [ATVI_CODE_NUTS_NEEDED] = "--no-exact keeps the approximation instead.",
    [ATVI_CODE_EVIDENCE_CONTRADICTS] = "Check the result with another --seed and with --method ram.",
    [ATVI_CODE_LIMIT] = "Raise the limit (--max-time, --max-iter).",
    [ATVI_CODE_LIMIT_PRECISION] = "Raise the limit (--max-time, --max-iter) or ask for less (--ess).",
    [ATVI_CODE_MODES_LEFT_OUT] = "--method atvi covers them all, each with its share.",
    [ATVI_CODE_HELD_OUT] = "'atvi predict' scores them.",
    [ATVI_CODE_EMULATOR_ERROR] = "Some 20 rows of draws.csv, added to the design and run, are such runs.",
    [ATVI_CODE_EMULATOR_MOVES] = "Some 20 rows of draws.csv, added to the design and run, are such runs.",
    [ATVI_CODE_EMULATOR_EMPTY] = "Some 20 rows of draws.csv, added to the design and run, are such runs.",
    [ATVI_CODE_POINTS_LEFT] = "'atvi run' runs them.",
    [ATVI_CODE_EVIDENCE_NONE] = "Fits by --method atvi, nf or copula have one.",
    [ATVI_CODE_EVIDENCE_DOUBTFUL] = "A fit with --exact estimates it from chains.",
    /* Failures. */
    [ATVI_CODE_NO_GRADIENT] = "'atvi check' tests the gradient; --method ram needs none.",
    [ATVI_CODE_NEVER_EVALUATED] = "'atvi check' says why.",
    [ATVI_CODE_LIKELIHOOD_ZERO] = "The model cannot produce the data: look for counts where the mean is "
                                  "always 0, and for priors far from the truth.",
    [ATVI_CODE_STATE_NOT_FINITE] =
        "Look for logarithms or roots of negative numbers and divisions by 0, and narrow the priors.",
    [ATVI_CODE_SOLVER_STEPS] =
        "The model may be stiff: try the line 'solver stiff' in it, or narrower priors.",
    [ATVI_CODE_PRIORS_DISAGREE] = "The priors contradict each other or their bounds.",
    [ATVI_CODE_CALL_FAILED] = "Run the program by hand with these parameters.",
    [ATVI_CODE_EVENTS_ENDLESS] = "Let the pulse take the state well away from where its condition holds.",
    [ATVI_CODE_STEADY_NONE] = "Look at a long run without the line 'start steady': states that grow or "
                              "oscillate have no steady state.",
    [ATVI_CODE_FILE_MISSING] = "--folder DIR looks for them in another folder.",
    [ATVI_CODE_DATA_UNNAMED] = "Use --data NAME=FILE to say which one is meant.",
    [ATVI_CODE_RUNS_NONE] =
        "'atvi design' and 'atvi run' make the runs; --runs says where they are if not here.",
    [ATVI_CODE_RUNS_OTHER] = "Give another folder (--runs), or move these runs away and make new ones ('atvi "
                             "design', 'atvi run').",
    [ATVI_CODE_RUNS_TIMES] = "Once the simulator does that, start again in another folder (--runs).",
    [ATVI_CODE_SIMULATOR_FAILED] =
        "Once the simulator works, 'atvi run --retry-failed' repeats the failed runs.",
};

const char *atvi_app_advice(atvi_code code) { return (unsigned)code < ATVI_CODES ? ADVICE[code] : NULL; }

static bool first_of_its_code(const atvi_summary *s, atvi_idx i) {
  atvi_idx k = 0;
  while (s->message[k].code != s->message[i].code) k++;
  return k == i;
}

atvi_status atvi_app_advised_summary(atvi_pool *pool, const atvi_draws *d, atvi_summary **out) {
  ATVI_TRY(atvi_diag_summary_new(pool, d, out));
  const atvi_summary *s = *out;
  for (atvi_idx i = 0; i < s->n_message; i++) {
    const char *advice = first_of_its_code(s, i) ? atvi_app_advice(s->message[i].code) : NULL;
    if (advice) s->message[i].text = atvi_pool_printf(pool, "%s %s", s->message[i].text, advice);
  }
  if (!atvi_pool_failed(pool)) return ATVI_OK;
  *out = NULL;
  return ATVI_ENOMEM;
}
