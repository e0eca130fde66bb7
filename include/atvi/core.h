/* SPDX-License-Identifier: MIT */
/* Context, statuses, logging and progress: needed by every other header. */
#ifndef ATVI_CORE_H
#define ATVI_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ATVI_VERSION "0.1.0"

#define ATVI_API __attribute__((visibility("default")))
#define ATVI_CHECKED __attribute__((warn_unused_result))

typedef ptrdiff_t atvi_idx; /* counts and indices */

typedef enum {
  ATVI_OK = 0,
  ATVI_EINVAL = -1, /* wrong call: an argument out of range */
  ATVI_ENOMEM = -2, /* memory */
  ATVI_EIO = -3,    /* a file cannot be read or written */
  ATVI_EMODEL = -4, /* the model file is wrong (message has file:line:col) */
  ATVI_EDATA = -5,  /* a data file is wrong (message has file:line:col) */
  ATVI_ECALL = -6,  /* a callback or an outside program failed */
  ATVI_ESTOP = -7,  /* the caller asked to stop before anything useful was done */
  ATVI_EEXIST = -8, /* would overwrite something */
  ATVI_ELIMIT = -9, /* a limit was reached before anything useful was done */
} atvi_status;

/* "ok", "invalid argument", "out of memory", ...; "unknown status" for anything else. */
ATVI_API const char *atvi_status_name(atvi_status status);

typedef struct atvi_ctx atvi_ctx;

typedef enum { /* how the evaluation of one point ended; 0 is success */
               ATVI_RUN_OK = 0,
               ATVI_RUN_NONFINITE = 1, /* state or density became infinite or NaN */
               ATVI_RUN_STEPS = 2,     /* step limit reached */
               ATVI_RUN_SMALL = 3,     /* step size fell below rounding */
               ATVI_RUN_OUTSIDE =
                   4,             /* the point violates the bounds or the prior's support; nothing was run */
               ATVI_RUN_CALL = 5, /* an outside program or callback failed */
               ATVI_RUN_EVENTS = 6, /* an event never came to rest */
               ATVI_RUN_STEADY = 7, /* no steady state was found */
} atvi_outcome;

/* How much a message matters: a warning makes a verdict at least "warn", a serious one "bad". */
typedef enum { ATVI_NOTE = 0, ATVI_WARNING = 1, ATVI_SERIOUS = 2 } atvi_severity;

/* Kinds of messages and of failures. Names (atvi_code_name) are part of file formats and do not change;
 * numbers may. docs/messages.md lists them all. */
typedef enum {
  ATVI_CODE_NONE = 0, /* unspecified, and messages in files without codes */
  /* Chains. */
  ATVI_CODE_CHAINS_STUCK,
  ATVI_CODE_CHAINS_SHORT,
  ATVI_CODE_CHAINS_MOVED,
  ATVI_CODE_CHAINS_LEFT_OUT,
  ATVI_CODE_STARTS_FEW,
  ATVI_CODE_STARTS_FAILED,
  ATVI_CODE_RHAT,
  ATVI_CODE_DIVERGENCES,
  ATVI_CODE_EBFMI,
  ATVI_CODE_TREE_DEPTH,
  /* Approximations and their weights. */
  ATVI_CODE_KHAT_REFUSED,
  ATVI_CODE_KHAT_UNKNOWN,
  ATVI_CODE_WEIGHTS_POOR,
  ATVI_CODE_WEIGHTS_CONTRADICT,
  ATVI_CODE_LAPLACE_POOR,
  ATVI_CODE_EXACT_ASKED,
  ATVI_CODE_EXACT_NEEDED,
  ATVI_CODE_NUTS_NEEDED,
  ATVI_CODE_EVIDENCE_UNKNOWN,
  ATVI_CODE_EVIDENCE_CONTRADICTS,
  /* Draws of any method. */
  ATVI_CODE_ESS_LOW,
  ATVI_CODE_DRAWS_NOT_FINITE,
  ATVI_CODE_MOMENTS_NONE,
  ATVI_CODE_TOO_NARROW,
  ATVI_CODE_DERIVED_NOT_FINITE,
  ATVI_CODE_LIMIT,
  ATVI_CODE_LIMIT_PRECISION,
  ATVI_CODE_STOPPED,
  ATVI_CODE_BOUND_REACHED,
  /* Modes, and the search for the highest one. */
  ATVI_CODE_MODES,
  ATVI_CODE_MODES_LEFT_OUT,
  ATVI_CODE_MODE,
  ATVI_CODE_MODE_AT_BOUND,
  ATVI_CODE_MAXIMUM_NONE,
  ATVI_CODE_SEARCH_UNFINISHED,
  ATVI_CODE_HESSIAN,
  ATVI_CODE_UNINFORMED,
  /* The model and its data. */
  ATVI_CODE_RUNS_FAILED,
  ATVI_CODE_SOLVER_ERROR,
  ATVI_CODE_SOLVER_CHOSEN,
  ATVI_CODE_PRIOR_FLAT,
  ATVI_CODE_NO_DATA,
  ATVI_CODE_GAPS,
  ATVI_CODE_HELD_OUT,
  /* Emulators. */
  ATVI_CODE_EMULATOR,
  ATVI_CODE_EMULATOR_POOR,
  ATVI_CODE_EMULATOR_FAIR,
  ATVI_CODE_EMULATOR_OVERCONFIDENT,
  ATVI_CODE_EMULATOR_WIDE,
  ATVI_CODE_EMULATOR_STARTS,
  ATVI_CODE_EMULATOR_LIMIT,
  ATVI_CODE_EMULATOR_ERROR,
  ATVI_CODE_EMULATOR_MOVES,
  ATVI_CODE_EMULATOR_EMPTY,
  ATVI_CODE_EMULATOR_OUTSIDE,
  ATVI_CODE_POINTS_LEFT,
  ATVI_CODE_RUNS_LEFT_OUT,
  ATVI_CODE_RUNS_MIXED,
  /* Fits that are compared. */
  ATVI_CODE_DATA_DIFFER,
  ATVI_CODE_EVIDENCE_NONE,
  ATVI_CODE_EVIDENCE_DOUBTFUL,
  ATVI_CODE_LOO_NONE,
  ATVI_CODE_LOO_KHAT,
  /* Failures. */
  ATVI_CODE_NO_GRADIENT,
  ATVI_CODE_NEVER_EVALUATED,
  ATVI_CODE_LIKELIHOOD_ZERO,
  ATVI_CODE_STATE_NOT_FINITE,
  ATVI_CODE_SOLVER_STEPS,
  ATVI_CODE_PRIORS_DISAGREE,
  ATVI_CODE_CALL_FAILED,
  ATVI_CODE_EVENTS_ENDLESS,
  ATVI_CODE_STEADY_NONE,
  ATVI_CODE_FILE_MISSING,
  ATVI_CODE_DATA_UNNAMED,
  ATVI_CODE_RUNS_NONE,
  ATVI_CODE_RUNS_OTHER,
  ATVI_CODE_RUNS_TIMES,
  ATVI_CODE_SIMULATOR_FAILED,
  ATVI_CODES /* number of codes */
} atvi_code;

/* A message for the user. */
typedef struct {
  atvi_severity severity;
  atvi_code code;
  /* What is wrong, in whole sentences. */
  const char *text;
} atvi_message;

ATVI_API const char *atvi_severity_name(atvi_severity severity); /* "note", "warning", "serious" */
ATVI_API const char *atvi_code_name(atvi_code code);             /* "rhat", "khat-refused", ...; "none" */

/* Kind of a predicted series: observed, a tracked quantity, or a state. */
typedef enum { ATVI_SERIES_OBSERVED, ATVI_SERIES_TRACKED, ATVI_SERIES_STATE } atvi_series_kind;

/* How a parameter's prior depends on others: through a location and a scale, which are functions of them. z
 * is what is left; under the prior it depends on no other parameter, or less. STANDARD is the other way to
 * write such a prior. */
typedef enum {
  ATVI_PRIOR_ALONE,    /* theta = z: the prior depends on no other parameter, or in another way */
  ATVI_PRIOR_LINE,     /* theta = location + scale z */
  ATVI_PRIOR_LOG,      /* log theta = location + scale z */
  ATVI_PRIOR_LOGIT,    /* logit theta = location + scale z */
  ATVI_PRIOR_RATIO,    /* theta = scale z, z > 0 */
  ATVI_PRIOR_INTERVAL, /* theta = location + scale z, z in (0, 1) */
  ATVI_PRIOR_STANDARD, /* theta = z, but the model uses it as location + scale theta */
} atvi_prior_form;

/* Where memory comes from. NULL members mean malloc and free. alloc returns memory
 * aligned for any type or NULL. Both may be called from several threads at once. */
typedef struct {
  void *(*alloc)(void *user, size_t bytes);
  void (*free)(void *user, void *block);
  void *user;
} atvi_allocator;

/* A data file given instead of the one that a model names. */
typedef struct {
  /* data set; NULL or "": the only one */
  const char *name;
  const char *path;
} atvi_data_file;

typedef enum {
  ATVI_LOG_NOTE = 0,
  ATVI_LOG_WARN = 1,
  ATVI_LOG_LOST = 2, /* a file that belongs to the results could not be written; the rest is there */
} atvi_log_level;

/* Progress of a long computation, reported from time to time by the calling thread. */
typedef struct {
  /* e.g. "warm-up", "sampling". */
  const char *phase;
  /* Share of the work done, in [0, 1]; < 0: unknown. */
  double done;
  /* Since the computation began. */
  double elapsed_s;
  /* One short line, e.g. "R-hat 1.013, ESS 840"; never NULL. */
  const char *detail;
  /* For variational inference; NaN if not known. */
  /* Training steps so far. */
  double steps;
  /* Temperature of the posterior being fitted; 1: the posterior itself. */
  double temperature;
  /* Evidence lower bound there. */
  double elbo;
  /* Which component of the approximation, from 1. */
  double part;
  /* k-hat of the weights. */
  double khat;
  /* For chains: of the worst parameter at the last checkpoint; NaN before that and for other methods. */
  double rhat, ess;
  /* Seconds left, where that is better known than `done` says; 0: it is not. */
  double left_s;
} atvi_progress;

/* Creates a context. alloc NULL: malloc. One context serves one thread at a time; the
 * objects made from it must be freed before it. Errors: ENOMEM. */
ATVI_API ATVI_CHECKED atvi_status atvi_ctx_new(const atvi_allocator *alloc, atvi_ctx **out);
ATVI_API void atvi_ctx_free(atvi_ctx *ctx); /* NULL is fine */

/* The message of the last failure in ctx; "" if there was none. May hold several lines. */
ATVI_API const char *atvi_errmsg(const atvi_ctx *ctx);
/* The code of that failure, for callers that can give advice; mostly ATVI_CODE_NONE. */
ATVI_API atvi_code atvi_errcode(const atvi_ctx *ctx);

/* Number of threads used by batched work; n < 1 means one per core this process may use.
 * Results do not depend on it. */
ATVI_API void atvi_ctx_set_threads(atvi_ctx *ctx, int n);
ATVI_API int atvi_ctx_threads(const atvi_ctx *ctx);

/* Receivers of log lines and progress; NULL: silence. */
ATVI_API void atvi_ctx_set_log(atvi_ctx *ctx, void (*fn)(void *user, atvi_log_level level, const char *line),
                               void *user);
ATVI_API void atvi_ctx_set_progress(atvi_ctx *ctx, void (*fn)(void *user, const atvi_progress *p),
                                    void *user);

/* Sets how long work is asked to stop and return what it has: fn returns true to stop. The calling thread
 * polls it. NULL: never. */
ATVI_API void atvi_ctx_set_stop(atvi_ctx *ctx, bool (*fn)(void *user), void *user);

#ifdef __cplusplus
}
#endif
#endif
