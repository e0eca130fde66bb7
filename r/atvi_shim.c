/* SPDX-License-Identifier: MIT */
/* Between R and atvi/bind.h: compiled by R CMD SHLIB when the first log density is fitted (see atvi.R).
 *
 * R may only be called from its own thread: the context has one thread. An error in the user's function must not jump over
 * the library's frames: R_tryEvalSilent catches it, and R tells it when the fit has ended. */
#include <atvi/bind.h>
#include <atvi/verdict.h>
#define R_NO_REMAP
#include <R.h>
#include <Rinternals.h>
#include <string.h>

typedef struct {
  SEXP function; /* of a matrix [B, d], giving list(log density [B], gradient [B, d]) */
  SEXP frame;
  bool failed;
} callback;

static int copy(SEXP from, R_xlen_t n, double *to) {
  if (!Rf_isReal(from) || Rf_xlength(from) != n) return 1;
  memcpy(to, REAL(from), (size_t)n * sizeof *to);
  return 0;
}

/* A matrix of R has its columns one after the other: theta[d][B] is one with B rows. */
static int density(void *user, atvi_idx d, atvi_idx B, const double *theta, double *log_density,
                   double *gradient) {
  callback *c = user;
  int error = 0;
  SEXP x = PROTECT(Rf_allocMatrix(REALSXP, (int)B, (int)d));
  memcpy(REAL(x), theta, (size_t)(d * B) * sizeof *theta);
  SEXP wanted = PROTECT(Rf_ScalarLogical(gradient != NULL));
  SEXP call = PROTECT(Rf_lang3(c->function, x, wanted));
  SEXP answer = PROTECT(R_tryEvalSilent(call, c->frame, &error));
  error = error || Rf_xlength(answer) != 2 || copy(VECTOR_ELT(answer, 0), B, log_density);
  if (!error && gradient) error = copy(VECTOR_ELT(answer, 1), d * B, gradient);
  UNPROTECT(4);
  c->failed = c->failed || error;
  return error;
}

static void check_user(void *unused) {
  (void)unused;
  R_CheckUserInterrupt();
}

static bool stop(void *user) {
  callback *c = user;
  if (!R_ToplevelExec(check_user, NULL)) c->failed = true; /* Ctrl-C */
  return c->failed;
}

static const char **strings(SEXP x) {
  R_xlen_t n = Rf_xlength(x);
  const char **out = (const char **)R_alloc((size_t)n + 1, sizeof *out);
  for (R_xlen_t i = 0; i < n; i++) out[i] = Rf_translateCharUTF8(STRING_ELT(x, i));
  return out;
}

static SEXP numbers(const atvi_draws *d, const char *what, atvi_idx i) {
  const double *from = atvi_draws_numbers(d, what, i);
  if (!from) return R_NilValue;
  SEXP out = Rf_allocVector(REALSXP, atvi_draws_size(d, "draws"));
  memcpy(REAL(out), from, (size_t)Rf_xlength(out) * sizeof *from);
  return out;
}

/* Columns by name. */
static SEXP columns(const atvi_draws *d) {
  atvi_idx n = atvi_draws_size(d, "columns");
  SEXP out = PROTECT(Rf_allocVector(VECSXP, n)), names = PROTECT(Rf_allocVector(STRSXP, n));
  for (atvi_idx i = 0; i < n; i++) {
    SET_VECTOR_ELT(out, i, numbers(d, "column", i));
    SET_STRING_ELT(names, i, Rf_mkCharCE(atvi_draws_word(d, "column", i), CE_UTF8));
  }
  Rf_setAttrib(out, R_NamesSymbol, names);
  UNPROTECT(2);
  return out;
}

static SEXP facts(const atvi_draws *d, SEXP keys) {
  const char **key = strings(keys);
  SEXP out = PROTECT(Rf_allocVector(REALSXP, Rf_xlength(keys)));
  for (R_xlen_t i = 0; i < Rf_xlength(keys); i++) REAL(out)[i] = atvi_draws_number(d, key[i]);
  Rf_setAttrib(out, R_NamesSymbol, keys);
  UNPROTECT(1);
  return out;
}

/* One thing about every message; without a judgement (out of memory) there is one message, which says so. */
static SEXP judged(const atvi_judgement *j, const char *what, const char *otherwise) {
  atvi_idx n = j ? atvi_judgement_size(j) : 1;
  SEXP out = PROTECT(Rf_allocVector(STRSXP, n));
  for (atvi_idx i = 0; i < n; i++)
    SET_STRING_ELT(out, i, Rf_mkCharCE(j ? atvi_judgement_word(j, what, i) : otherwise, CE_UTF8));
  UNPROTECT(1);
  return out;
}

static SEXP draws_list(const atvi_draws *d, SEXP keys) {
  static const char *const name[] = {
      "columns",  "log_prior",     "log_lik",           "weight", "chains", "method", "facts", "verdict",
      "messages", "message_codes", "message_severities"};
  enum { N = sizeof name / sizeof *name };
  atvi_judgement *j = NULL;
  SEXP out = PROTECT(Rf_allocVector(VECSXP, N)), names = PROTECT(Rf_allocVector(STRSXP, N));
  for (int i = 0; i < N; i++) SET_STRING_ELT(names, i, Rf_mkChar(name[i]));
  Rf_setAttrib(out, R_NamesSymbol, names);
  if (atvi_judgement_new(d, &j) != ATVI_OK) j = NULL;
  SET_VECTOR_ELT(out, 0, columns(d));
  SET_VECTOR_ELT(out, 1, numbers(d, "log_prior", 0));
  SET_VECTOR_ELT(out, 2, numbers(d, "log_lik", 0));
  SET_VECTOR_ELT(out, 3, numbers(d, "weight", 0));
  SET_VECTOR_ELT(out, 4, Rf_ScalarInteger((int)atvi_draws_size(d, "chains")));
  SET_VECTOR_ELT(out, 5, Rf_mkString(atvi_draws_word(d, "method", 0)));
  SET_VECTOR_ELT(out, 6, facts(d, keys));
  SET_VECTOR_ELT(out, 7, Rf_mkString(j ? atvi_judgement_word(j, "verdict", 0) : "bad"));
  SET_VECTOR_ELT(out, 8, judged(j, "text", "out of memory"));
  SET_VECTOR_ELT(out, 9, judged(j, "code", "none"));
  SET_VECTOR_ELT(out, 10, judged(j, "severity", "serious"));
  atvi_judgement_free(j);
  UNPROTECT(2);
  return out;
}

/* What went wrong, and its code. */
static SEXP failure(const char *text, atvi_code code) {
  SEXP out = PROTECT(Rf_allocVector(STRSXP, 2));
  SET_STRING_ELT(out, 0, Rf_mkCharCE(text, CE_UTF8));
  SET_STRING_ELT(out, 1, Rf_mkChar(atvi_code_name(code)));
  UNPROTECT(1);
  return out;
}

/* A list of the draws; two strings: what went wrong, and its code; NULL: the user's function failed, or the user stopped it. */
SEXP atvi_r_fit(SEXP function, SEXP frame, SEXP names, SEXP lower, SEXP upper, SEXP options, SEXP values,
                SEXP keys) {
  callback c = {function, frame, false};
  atvi_ctx *ctx = NULL;
  atvi_target *target = NULL;
  atvi_draws *draws = NULL;
  const char **name = strings(names), **option = strings(options), **value = strings(values);
  if (atvi_ctx_new(NULL, &ctx) != ATVI_OK) return failure("out of memory", ATVI_CODE_NONE);
  atvi_ctx_set_threads(ctx, 1);
  atvi_ctx_set_stop(ctx, stop, &c);
  atvi_status status = atvi_density_new(ctx, "density", (atvi_idx)Rf_xlength(names), name, REAL(lower),
                                        REAL(upper), NULL, density, &c, &target);
  if (status == ATVI_OK)
    status = atvi_fit_named(ctx, target, (atvi_idx)Rf_xlength(options), option, value, &draws);
  SEXP out = R_NilValue;
  if (!c.failed)
    out = status == ATVI_OK ? draws_list(draws, keys) : failure(atvi_errmsg(ctx), atvi_errcode(ctx));
  PROTECT(out);
  atvi_draws_free(draws);
  atvi_density_free(target);
  atvi_ctx_free(ctx);
  UNPROTECT(1);
  return out;
}
