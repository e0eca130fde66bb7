/* SPDX-License-Identifier: MIT */
/* Between R and libatvi (atvi/bind.h), which is loaded when the first log density is fitted: the package is built and used without it.
 *
 * R may only be called from its own thread: the context has one thread. An error in the user's function must not jump over
 * the library's frames: R_tryEvalSilent catches it, and R reports it when the fit has ended. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#define R_NO_REMAP
#include <R.h>
#include <R_ext/Rdynload.h>
#include <Rinternals.h>

#ifdef ATVI_CHECK_API /* the test that what is declared here is what the headers declare */
#include <atvi/bind.h>
#include <atvi/verdict.h>
#else
typedef ptrdiff_t atvi_idx;
typedef int atvi_status;
typedef unsigned atvi_code;
enum { ATVI_OK = 0 };
typedef struct atvi_allocator atvi_allocator;
typedef struct atvi_ctx atvi_ctx;
typedef struct atvi_target atvi_target;
typedef struct atvi_draws atvi_draws;
typedef struct atvi_judgement atvi_judgement;
typedef int (*atvi_density_fn)(void *, atvi_idx, atvi_idx, const double *, double *, double *);
#endif

/* Functions of the library: result, name without atvi_, arguments. */
#define API(F)                                                                                               \
  F(atvi_status, ctx_new, (const atvi_allocator *, atvi_ctx **))                                             \
  F(void, ctx_free, (atvi_ctx *))                                                                            \
  F(const char *, errmsg, (const atvi_ctx *))                                                                \
  F(void, ctx_set_threads, (atvi_ctx *, int))                                                                \
  F(void, ctx_set_stop, (atvi_ctx *, bool (*)(void *), void *))                                              \
  F(atvi_status, density_new,                                                                                \
    (atvi_ctx *, const char *, atvi_idx, const char *const *, const double *, const double *, const char *,  \
     atvi_density_fn, void *, atvi_target **))                                                               \
  F(void, density_free, (atvi_target *))                                                                     \
  F(atvi_status, fit_named,                                                                                  \
    (atvi_ctx *, const atvi_target *, atvi_idx, const char *const *, const char *const *, atvi_draws **))    \
  F(void, draws_free, (atvi_draws *))                                                                        \
  F(atvi_idx, draws_size, (const atvi_draws *, const char *))                                                \
  F(const char *, draws_word, (const atvi_draws *, const char *, atvi_idx))                                  \
  F(const double *, draws_numbers, (const atvi_draws *, const char *, atvi_idx))                             \
  F(double, draws_number, (const atvi_draws *, const char *))                                                \
  F(atvi_status, judgement_new, (const atvi_draws *, atvi_judgement **))                                     \
  F(void, judgement_free, (atvi_judgement *))                                                                \
  F(atvi_idx, judgement_size, (const atvi_judgement *))                                                      \
  F(const char *, judgement_word, (const atvi_judgement *, const char *, atvi_idx))                          \
  F(atvi_code, errcode, (const atvi_ctx *))                                                                  \
  F(const char *, code_name, (atvi_code))

#define MEMBER(result, name, arguments) result(*name) arguments;
static struct {
  void *library;
  API(MEMBER)
} atvi;

#ifdef ATVI_CHECK_API
#define SAME(result, name, arguments) same.name = atvi_##name;
void atvi_r_check_api(void);
void atvi_r_check_api(void) {
  struct {
    API(MEMBER)
  } same;
  API(SAME)
  (void)same;
}
#endif

/* Loads the library at `path`: NULL, or what went wrong. */
SEXP atvi_r_load(SEXP path) {
  if (atvi.library) return R_NilValue;
  void *library = dlopen(Rf_translateChar(STRING_ELT(path, 0)), RTLD_NOW | RTLD_LOCAL);
  if (!library) return Rf_mkString(dlerror());
    /* A function pointer by way of its bytes: C has no cast from void *. */
#define FIND(result, name, arguments)                                                                        \
  {                                                                                                          \
    void *at = dlsym(library, "atvi_" #name);                                                                \
    if (!at) return Rf_mkString("atvi_" #name " is missing in it");                                          \
    memcpy(&atvi.name, &at, sizeof at);                                                                      \
  }
  API(FIND)
  atvi.library = library;
  return R_NilValue;
}

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
  const double *from = atvi.draws_numbers(d, what, i);
  if (!from) return R_NilValue;
  SEXP out = Rf_allocVector(REALSXP, atvi.draws_size(d, "draws"));
  memcpy(REAL(out), from, (size_t)Rf_xlength(out) * sizeof *from);
  return out;
}

/* Columns by name. */
static SEXP columns(const atvi_draws *d) {
  atvi_idx n = atvi.draws_size(d, "columns");
  SEXP out = PROTECT(Rf_allocVector(VECSXP, n)), names = PROTECT(Rf_allocVector(STRSXP, n));
  for (atvi_idx i = 0; i < n; i++) {
    SET_VECTOR_ELT(out, i, numbers(d, "column", i));
    SET_STRING_ELT(names, i, Rf_mkCharCE(atvi.draws_word(d, "column", i), CE_UTF8));
  }
  Rf_setAttrib(out, R_NamesSymbol, names);
  UNPROTECT(2);
  return out;
}

static SEXP facts(const atvi_draws *d, SEXP keys) {
  const char **key = strings(keys);
  SEXP out = PROTECT(Rf_allocVector(REALSXP, Rf_xlength(keys)));
  for (R_xlen_t i = 0; i < Rf_xlength(keys); i++) REAL(out)[i] = atvi.draws_number(d, key[i]);
  Rf_setAttrib(out, R_NamesSymbol, keys);
  UNPROTECT(1);
  return out;
}

/* One thing about every message; without a judgement (out of memory) there is one message, which says so. */
static SEXP judged(const atvi_judgement *j, const char *what, const char *otherwise) {
  atvi_idx n = j ? atvi.judgement_size(j) : 1;
  SEXP out = PROTECT(Rf_allocVector(STRSXP, n));
  for (atvi_idx i = 0; i < n; i++)
    SET_STRING_ELT(out, i, Rf_mkCharCE(j ? atvi.judgement_word(j, what, i) : otherwise, CE_UTF8));
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
  if (atvi.judgement_new(d, &j) != ATVI_OK) j = NULL;
  SET_VECTOR_ELT(out, 0, columns(d));
  SET_VECTOR_ELT(out, 1, numbers(d, "log_prior", 0));
  SET_VECTOR_ELT(out, 2, numbers(d, "log_lik", 0));
  SET_VECTOR_ELT(out, 3, numbers(d, "weight", 0));
  SET_VECTOR_ELT(out, 4, Rf_ScalarInteger((int)atvi.draws_size(d, "chains")));
  SET_VECTOR_ELT(out, 5, Rf_mkString(atvi.draws_word(d, "method", 0)));
  SET_VECTOR_ELT(out, 6, facts(d, keys));
  SET_VECTOR_ELT(out, 7, Rf_mkString(j ? atvi.judgement_word(j, "verdict", 0) : "bad"));
  SET_VECTOR_ELT(out, 8, judged(j, "text", "out of memory"));
  SET_VECTOR_ELT(out, 9, judged(j, "code", "none"));
  SET_VECTOR_ELT(out, 10, judged(j, "severity", "serious"));
  atvi.judgement_free(j);
  UNPROTECT(2);
  return out;
}

/* What went wrong, and its code. */
static SEXP failure(const char *text, atvi_code code) {
  SEXP out = PROTECT(Rf_allocVector(STRSXP, 2));
  SET_STRING_ELT(out, 0, Rf_mkCharCE(text, CE_UTF8));
  SET_STRING_ELT(out, 1, Rf_mkChar(atvi.code_name(code)));
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
  if (atvi.ctx_new(NULL, &ctx) != ATVI_OK) return Rf_mkString("out of memory");
  atvi.ctx_set_threads(ctx, 1);
  atvi.ctx_set_stop(ctx, stop, &c);
  atvi_status status = atvi.density_new(ctx, "density", (atvi_idx)Rf_xlength(names), name, REAL(lower),
                                        REAL(upper), NULL, density, &c, &target);
  if (status == ATVI_OK)
    status = atvi.fit_named(ctx, target, (atvi_idx)Rf_xlength(options), option, value, &draws);
  SEXP out = R_NilValue;
  if (!c.failed)
    out = status == ATVI_OK ? draws_list(draws, keys) : failure(atvi.errmsg(ctx), atvi.errcode(ctx));
  PROTECT(out);
  atvi.draws_free(draws);
  atvi.density_free(target);
  atvi.ctx_free(ctx);
  UNPROTECT(1);
  return out;
}

void R_init_atvi(DllInfo *info) {
  static const R_CallMethodDef calls[] = {
      {"atvi_r_load", (DL_FUNC)atvi_r_load, 1}, {"atvi_r_fit", (DL_FUNC)atvi_r_fit, 8}, {NULL, NULL, 0}};
  R_registerRoutines(info, NULL, calls, NULL, NULL);
  R_useDynamicSymbols(info, FALSE);
  R_forceSymbols(info, TRUE);
}
