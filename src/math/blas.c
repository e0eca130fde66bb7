/* SPDX-License-Identifier: MIT */
/* A row-major matrix is, to Fortran, its transpose: its lower triangle is an upper one, and C = A B is C' =
 * B' A'.
 *
 * Which OpenBLAS: the one with threads ("pthread"), kept to one, is safe to call from several threads at
 * once. The one without ("serial") is not in all builds: Debian's gave wrong products in 1 of 1000 calls when
 * 8 threads called. Both have the same file name, and the system chooses. So a library that says it has no
 * threads is called under a lock. */
#include "math/linalg.h"
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef void (*potrf_fn)(const char *uplo, const int *n, double *a, const int *lda, int *info);
typedef void (*trtri_fn)(const char *uplo, const char *diag, const int *n, double *a, const int *lda,
                         int *info);
typedef void (*trsm_fn)(const char *side, const char *uplo, const char *trans, const char *diag, const int *m,
                        const int *n, const double *alpha, const double *a, const int *lda, double *b,
                        const int *ldb);
typedef void (*gemm_fn)(const char *ta, const char *tb, const int *m, const int *n, const int *k,
                        const double *alpha, const double *a, const int *lda, const double *b, const int *ldb,
                        const double *beta, double *c, const int *ldc);
typedef void (*syrk_fn)(const char *uplo, const char *trans, const int *n, const int *k, const double *alpha,
                        const double *a, const int *lda, const double *beta, double *c, const int *ldc);
typedef void (*symm_fn)(const char *side, const char *uplo, const int *m, const int *n, const double *alpha,
                        const double *a, const int *lda, const double *b, const int *ldb, const double *beta,
                        double *c, const int *ldc);
typedef void (*syevd_fn)(const char *jobz, const char *uplo, const int *n, double *a, const int *lda,
                         double *w, double *work, const int *lwork, int *iwork, const int *liwork, int *info);

/* The library, once loaded: never changed afterwards. */
static struct {
  pthread_once_t once;
  pthread_mutex_t lock;
  bool locked;   /* calls need the lock */
  char why[256]; /* it cannot be used; "" if it can */
  potrf_fn dpotrf, dlauum;
  trtri_fn dtrtri;
  trsm_fn dtrsm, dtrmm;
  gemm_fn dgemm;
  syrk_fn dsyrk;
  symm_fn dsymm;
  syevd_fn dsyevd;
} blas = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

static const double ONE = 1, ZERO = 0, MINUS = -1;

static int narrow(atvi_idx n) {
  ATVI_ASSERT(n >= 0 && n <= INT_MAX);
  return (int)n;
}

static void enter(void) {
  if (blas.locked) pthread_mutex_lock(&blas.lock);
}

static void leave(void) {
  if (blas.locked) pthread_mutex_unlock(&blas.lock);
}

/* ISO C has no cast from an object to a function. */
static void find(void *lib, const char *name, void *fn) {
  void *at = dlsym(lib, name);
  memcpy(fn, &at, sizeof at);
  if (!at) snprintf(blas.why, sizeof blas.why, "it has no %s", name);
}

static void load(void) {
  static const char *const name[] = {"libopenblas.so.0", "libopenblas.so", "libopenblasp.so.0"};
  void *lib = NULL;
  for (int i = 0; !lib && i < 3; i++) {
    lib = dlopen(name[i], RTLD_LAZY | RTLD_LOCAL);
    if (!lib && i == 0) snprintf(blas.why, sizeof blas.why, "%s", dlerror());
  }
  if (!lib) return;
  void (*set_threads)(int);
  int (*parallel)(void);
  blas.why[0] = 0;
  find(lib, "openblas_set_num_threads", &set_threads);
  find(lib, "openblas_get_parallel", &parallel);
  find(lib, "dpotrf_", &blas.dpotrf);
  find(lib, "dlauum_", &blas.dlauum);
  find(lib, "dtrtri_", &blas.dtrtri);
  find(lib, "dtrsm_", &blas.dtrsm);
  find(lib, "dtrmm_", &blas.dtrmm);
  find(lib, "dgemm_", &blas.dgemm);
  find(lib, "dsyrk_", &blas.dsyrk);
  find(lib, "dsymm_", &blas.dsymm);
  find(lib, "dsyevd_", &blas.dsyevd);
  if (blas.why[0]) return;
  set_threads(1);
  blas.locked = parallel() == 0;
}

atvi_status atvi_math_blas_begin(atvi_ctx *ctx) {
  pthread_once(&blas.once, load);
  if (!blas.why[0]) return ATVI_OK;
  return ATVI_FAIL(
      ctx, ATVI_EIO,
      "OpenBLAS, which emulators need, cannot be loaded: %s (Debian: apt-get install libopenblas0-pthread)",
      blas.why);
}

bool atvi_math_blas_cholesky(atvi_idx n, double *a, atvi_idx ld) {
  int k = narrow(n), lda = narrow(ld), info;
  enter();
  blas.dpotrf("U", &k, a, &lda, &info);
  leave();
  if (info != 0) return false;
  for (atvi_idx i = 0; i < n; i++) /* a NaN passes the test of some versions */
    if (!(a[i * ld + i] > 0)) return false;
  return true;
}

/* By halves, since products of matrices are fast and dtrtri is not (0.6 ms instead of 3 for n = 400;
 * bench_emulator): the inverse of [a 0; b c] is [a^-1 0; -c^-1 b a^-1 c^-1]. As accurate as dtrtri also where
 * the condition is 1e13. */
static void halves_inverse(int n, double *l, int ld) {
  enum { SMALL = 32 };
  int info, h = n / 2, rest = n - h;
  if (n <= SMALL) {
    blas.dtrtri("U", "N", &n, l, &ld, &info);
    return;
  }
  double *b = l + (ptrdiff_t)h * ld, *c = b + h;
  halves_inverse(h, l, ld);
  halves_inverse(rest, c, ld);
  blas.dtrmm("L", "U", "N", "N", &h, &rest, &MINUS, l, &ld, b, &ld);
  blas.dtrmm("R", "U", "N", "N", &h, &rest, &ONE, c, &ld, b, &ld);
}

void atvi_math_blas_inverse(atvi_idx n, double *l, atvi_idx ld) {
  int k = narrow(n), lda = narrow(ld), info;
  enter();
  halves_inverse(k, l, lda);
  blas.dlauum("U", &k, l, &lda, &info);
  leave();
}

void atvi_math_blas_tri_inverse(atvi_idx n, double *l, atvi_idx ld) {
  enter();
  halves_inverse(narrow(n), l, narrow(ld));
  leave();
}

void atvi_math_blas_tri_solve(atvi_idx n, atvi_idx m, const double *l, atvi_idx ld_l, bool transposed,
                              double *b, atvi_idx ld_b) {
  int rows = narrow(m), cols = narrow(n), ldl = narrow(ld_l), ldb = narrow(ld_b);
  enter();
  blas.dtrsm("R", "U", transposed ? "T" : "N", "N", &rows, &cols, &ONE, l, &ldl, b, &ldb);
  leave();
}

static void gemm(const char *tb, atvi_idx n, atvi_idx m, atvi_idx k, const double *a, atvi_idx ld_a,
                 const double *b, atvi_idx ld_b, double beta, double *c, atvi_idx ld_c) {
  int nn = narrow(n), mm = narrow(m), kk = narrow(k);
  int lda = narrow(ld_a), ldb = narrow(ld_b), ldc = narrow(ld_c);
  enter();
  blas.dgemm(tb, "N", &mm, &nn, &kk, &ONE, b, &ldb, a, &lda, &beta, c, &ldc);
  leave();
}

void atvi_math_blas_mul(atvi_idx n, atvi_idx m, atvi_idx k, const double *a, atvi_idx ld_a, const double *b,
                        atvi_idx ld_b, double beta, double *c, atvi_idx ld_c) {
  gemm("N", n, m, k, a, ld_a, b, ld_b, beta, c, ld_c);
}

void atvi_math_blas_mul_bt(atvi_idx n, atvi_idx m, atvi_idx k, const double *a, atvi_idx ld_a,
                           const double *b, atvi_idx ld_b, double beta, double *c, atvi_idx ld_c) {
  gemm("T", n, m, k, a, ld_a, b, ld_b, beta, c, ld_c);
}

void atvi_math_blas_square(atvi_idx n, atvi_idx k, double alpha, const double *a, atvi_idx ld_a, double beta,
                           double *c, atvi_idx ld_c) {
  int nn = narrow(n), kk = narrow(k), lda = narrow(ld_a), ldc = narrow(ld_c);
  enter();
  blas.dsyrk("U", "T", &nn, &kk, &alpha, a, &lda, &beta, c, &ldc);
  leave();
}

void atvi_math_blas_sym_mul(atvi_idx n, atvi_idx m, const double *s, atvi_idx ld_s, const double *b,
                            atvi_idx ld_b, double *c, atvi_idx ld_c) {
  int rows = narrow(m), cols = narrow(n), lds = narrow(ld_s), ldb = narrow(ld_b), ldc = narrow(ld_c);
  enter();
  blas.dsymm("R", "U", &rows, &cols, &ONE, s, &lds, b, &ldb, &ZERO, c, &ldc);
  leave();
}

void atvi_math_blas_mirror(atvi_idx n, double *a, atvi_idx ld) {
  enum { TILE = 32 }; /* rows of one tile stay in the cache while columns are read */
  for (atvi_idx i0 = 0; i0 < n; i0 += TILE)
    for (atvi_idx j0 = 0; j0 <= i0; j0 += TILE)
      for (atvi_idx i = i0; i < n && i < i0 + TILE; i++)
        for (atvi_idx j = j0; j < i && j < j0 + TILE; j++) a[j * ld + i] = a[i * ld + j];
}

static atvi_idx eigen_reals(atvi_idx n) { return 1 + 6 * n + 2 * n * n; }

size_t atvi_math_blas_eigen_work(atvi_idx n) {
  atvi_idx ints = 3 + 5 * n; /* as ints in the room of half as many reals */
  return (size_t)(eigen_reals(n) + (ints + 1) / 2);
}

bool atvi_math_blas_eigen(atvi_idx n, double *a, double *w, double *work) {
  int k = narrow(n), lwork = narrow(eigen_reals(n)), liwork = narrow(3 + 5 * n), info;
  int *iwork = (int *)(void *)(work + lwork);
  enter();
  blas.dsyevd("V", "U", &k, a, &k, w, work, &lwork, iwork, &liwork, &info);
  leave();
  return info == 0;
}
