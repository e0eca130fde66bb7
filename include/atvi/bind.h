/* SPDX-License-Identifier: MIT */
/* The library for other languages: functions of plain numbers, pointers and strings, without structs. python/
 * and r/ use it. C programs use target.h, fit.h and draws.h. */
#ifndef ATVI_BIND_H
#define ATVI_BIND_H

#include "atvi/draws.h"
#include "atvi/target.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Log density, with any constant, of B points theta[d][B] into log_density[B], and its gradient into
 * gradient[d][B] unless that is NULL. All points are inside the bounds. A point with a log density that is
 * NaN or +inf has failed, one with -inf is impossible. Returns 0; anything else means that it failed as a
 * whole, and it is not called again. Never called from two threads at once; with one thread in the context,
 * only from the thread that called atvi_fit. */
typedef int (*atvi_density_fn)(void *user, atvi_idx d, atvi_idx B, const double *theta, double *log_density,
                               double *gradient);

/* A target of a log density over a box. names [d]; lower, upper [d], infinite if open; all copied. map, see
 * atvi_param; NULL: auto. log_prior is 0, log_lik the density, log evidence that of the density over the box.
 * Errors: EINVAL (d < 1, no fn, a name given twice or missing, an empty box), ENOMEM. *out is NULL on any
 * error. */
ATVI_API ATVI_CHECKED atvi_status atvi_density_new(atvi_ctx *ctx, const char *name, atvi_idx d,
                                                   const char *const *names, const double *lower,
                                                   const double *upper, const char *map, atvi_density_fn fn,
                                                   void *user, atvi_target **out);
/* Whether fn has failed. */
ATVI_API bool atvi_density_failed(const atvi_target *target);
ATVI_API void atvi_density_free(atvi_target *target); /* NULL is fine */

/* atvi_fit with options [n] by the names of members of atvi_fit_opts, and values as text: "method" "ram",
 * "seed" "7", "freeze" "1". Options with values "auto", "on" and "off" also accept "1" and "0". The gradient
 * of a target of atvi_density_new is first compared with differences of its log density, unless the method
 * needs no gradient or the option "check_gradient" is "0". Errors: EINVAL (also an unknown name or an invalid
 * value), EMODEL (also a wrong gradient), and those of atvi_fit. */
ATVI_API ATVI_CHECKED atvi_status atvi_fit_named(atvi_ctx *ctx, const atvi_target *target, atvi_idx n,
                                                 const char *const *option, const char *const *value,
                                                 atvi_draws **out);

/* The options of a fit and its methods: "name" and "help" of number i; NULL: past the end, or no such
 * word. */
ATVI_API const char *atvi_fit_option_word(atvi_idx i, const char *what);
ATVI_API const char *atvi_fit_method_word(atvi_idx i, const char *what);

/* The contents of draws, by name.
 *   size     "draws", "chains", "parameters", "columns", "messages"; -1: no such thing
 *   word     "column" i, "message" i, "method", "model", "end" (done, limit, stopped); NULL: no such thing
 *   numbers  "column" i, "log_prior", "log_lik", "weight": [draws], valid as long as d; NULL: no such thing, or no weights
 *   number   a member of atvi_made, by its name in the configuration lines of draws.csv: "khat", "seconds", ...; NaN: not known
 */
ATVI_API atvi_idx atvi_draws_size(const atvi_draws *d, const char *what);
ATVI_API const char *atvi_draws_word(const atvi_draws *d, const char *what, atvi_idx i);
ATVI_API const double *atvi_draws_numbers(const atvi_draws *d, const char *what, atvi_idx i);
ATVI_API double atvi_draws_number(const atvi_draws *d, const char *what);

ATVI_API const char *atvi_version(void);

#ifdef __cplusplus
}
#endif
#endif
