/* SPDX-License-Identifier: MIT */
/* Names of severities and codes. They stand in draws.csv and summary.json: a name, once given, stays. */
#include "core/core.h"
#include <string.h>

static const char *const SEVERITY[] = {"note", "warning", "serious"};

static const char *const CODE[ATVI_CODES] = {
    [ATVI_CODE_NONE] = "none",
    [ATVI_CODE_CHAINS_STUCK] = "chains-stuck",
    [ATVI_CODE_CHAINS_SHORT] = "chains-short",
    [ATVI_CODE_CHAINS_MOVED] = "chains-moved",
    [ATVI_CODE_CHAINS_LEFT_OUT] = "chains-left-out",
    [ATVI_CODE_STARTS_FEW] = "starts-few",
    [ATVI_CODE_STARTS_FAILED] = "starts-failed",
    [ATVI_CODE_RHAT] = "rhat",
    [ATVI_CODE_DIVERGENCES] = "divergences",
    [ATVI_CODE_EBFMI] = "ebfmi",
    [ATVI_CODE_TREE_DEPTH] = "tree-depth",
    [ATVI_CODE_KHAT_REFUSED] = "khat-refused",
    [ATVI_CODE_KHAT_UNKNOWN] = "khat-unknown",
    [ATVI_CODE_WEIGHTS_POOR] = "weights-poor",
    [ATVI_CODE_WEIGHTS_CONTRADICT] = "weights-contradict",
    [ATVI_CODE_LAPLACE_POOR] = "laplace-poor",
    [ATVI_CODE_EXACT_ASKED] = "exact-asked",
    [ATVI_CODE_EXACT_NEEDED] = "exact-needed",
    [ATVI_CODE_NUTS_NEEDED] = "nuts-needed",
    [ATVI_CODE_EVIDENCE_UNKNOWN] = "evidence-unknown",
    [ATVI_CODE_EVIDENCE_CONTRADICTS] = "evidence-contradicts",
    [ATVI_CODE_ESS_LOW] = "ess-low",
    [ATVI_CODE_DRAWS_NOT_FINITE] = "draws-not-finite",
    [ATVI_CODE_MOMENTS_NONE] = "moments-none",
    [ATVI_CODE_TOO_NARROW] = "too-narrow",
    [ATVI_CODE_DERIVED_NOT_FINITE] = "derived-not-finite",
    [ATVI_CODE_LIMIT] = "limit",
    [ATVI_CODE_LIMIT_PRECISION] = "limit-precision",
    [ATVI_CODE_STOPPED] = "stopped",
    [ATVI_CODE_BOUND_REACHED] = "bound-reached",
    [ATVI_CODE_MODES] = "modes",
    [ATVI_CODE_MODES_LEFT_OUT] = "modes-left-out",
    [ATVI_CODE_MODE] = "mode",
    [ATVI_CODE_MODE_AT_BOUND] = "mode-at-bound",
    [ATVI_CODE_MAXIMUM_NONE] = "maximum-none",
    [ATVI_CODE_SEARCH_UNFINISHED] = "search-unfinished",
    [ATVI_CODE_HESSIAN] = "hessian",
    [ATVI_CODE_UNINFORMED] = "uninformed",
    [ATVI_CODE_RUNS_FAILED] = "runs-failed",
    [ATVI_CODE_SOLVER_ERROR] = "solver-error",
    [ATVI_CODE_SOLVER_CHOSEN] = "solver-chosen",
    [ATVI_CODE_PRIOR_FLAT] = "prior-flat",
    [ATVI_CODE_NO_DATA] = "no-data",
    [ATVI_CODE_GAPS] = "gaps",
    [ATVI_CODE_HELD_OUT] = "held-out",
    [ATVI_CODE_EMULATOR] = "emulator",
    [ATVI_CODE_EMULATOR_POOR] = "emulator-poor",
    [ATVI_CODE_EMULATOR_FAIR] = "emulator-fair",
    [ATVI_CODE_EMULATOR_OVERCONFIDENT] = "emulator-overconfident",
    [ATVI_CODE_EMULATOR_WIDE] = "emulator-wide",
    [ATVI_CODE_EMULATOR_STARTS] = "emulator-starts",
    [ATVI_CODE_EMULATOR_LIMIT] = "emulator-limit",
    [ATVI_CODE_EMULATOR_ERROR] = "emulator-error",
    [ATVI_CODE_EMULATOR_MOVES] = "emulator-moves",
    [ATVI_CODE_EMULATOR_EMPTY] = "emulator-empty",
    [ATVI_CODE_EMULATOR_OUTSIDE] = "emulator-outside",
    [ATVI_CODE_POINTS_LEFT] = "points-left",
    [ATVI_CODE_RUNS_LEFT_OUT] = "runs-left-out",
    [ATVI_CODE_RUNS_MIXED] = "runs-mixed",
    [ATVI_CODE_DATA_DIFFER] = "data-differ",
    [ATVI_CODE_EVIDENCE_NONE] = "evidence-none",
    [ATVI_CODE_EVIDENCE_DOUBTFUL] = "evidence-doubtful",
    [ATVI_CODE_LOO_NONE] = "loo-none",
    [ATVI_CODE_LOO_KHAT] = "loo-khat",
    [ATVI_CODE_NO_GRADIENT] = "no-gradient",
    [ATVI_CODE_NEVER_EVALUATED] = "never-evaluated",
    [ATVI_CODE_LIKELIHOOD_ZERO] = "likelihood-zero",
    [ATVI_CODE_STATE_NOT_FINITE] = "state-not-finite",
    [ATVI_CODE_SOLVER_STEPS] = "solver-steps",
    [ATVI_CODE_PRIORS_DISAGREE] = "priors-disagree",
    [ATVI_CODE_CALL_FAILED] = "call-failed",
    [ATVI_CODE_EVENTS_ENDLESS] = "events-endless",
    [ATVI_CODE_STEADY_NONE] = "steady-none",
    [ATVI_CODE_FILE_MISSING] = "file-missing",
    [ATVI_CODE_DATA_UNNAMED] = "data-unnamed",
    [ATVI_CODE_RUNS_NONE] = "runs-none",
    [ATVI_CODE_RUNS_OTHER] = "runs-other",
    [ATVI_CODE_RUNS_TIMES] = "runs-times",
    [ATVI_CODE_SIMULATOR_FAILED] = "simulator-failed",
};

const char *atvi_severity_name(atvi_severity severity) {
  return (unsigned)severity <= ATVI_SERIOUS ? SEVERITY[severity] : SEVERITY[ATVI_SERIOUS];
}

const char *atvi_code_name(atvi_code code) {
  return CODE[(unsigned)code < ATVI_CODES ? code : ATVI_CODE_NONE];
}

atvi_code atvi_outcome_code(atvi_outcome outcome) {
  switch (outcome) {
  case ATVI_RUN_OK: return ATVI_CODE_LIKELIHOOD_ZERO;
  case ATVI_RUN_NONFINITE: return ATVI_CODE_STATE_NOT_FINITE;
  case ATVI_RUN_STEPS:
  case ATVI_RUN_SMALL: return ATVI_CODE_SOLVER_STEPS;
  case ATVI_RUN_EVENTS: return ATVI_CODE_EVENTS_ENDLESS;
  case ATVI_RUN_STEADY: return ATVI_CODE_STEADY_NONE;
  case ATVI_RUN_OUTSIDE: return ATVI_CODE_PRIORS_DISAGREE;
  case ATVI_RUN_CALL: return ATVI_CODE_CALL_FAILED;
  }
  return ATVI_CODE_NONE;
}

/* Where name is among n words; -1: nowhere. */
static int find(const char *name, int n, const char *const *word) {
  while (--n >= 0 && strcmp(name, word[n]) != 0) continue;
  return n;
}

bool atvi_severity_find(const char *name, atvi_severity *out) {
  int k = find(name, ATVI_SERIOUS + 1, SEVERITY);
  if (k >= 0) *out = (atvi_severity)k;
  return k >= 0;
}

bool atvi_code_find(const char *name, atvi_code *out) {
  int k = find(name, ATVI_CODES, CODE);
  if (k >= 0) *out = (atvi_code)k;
  return k >= 0;
}
