/* SPDX-License-Identifier: MIT */
/* Signs    Which parameters change their signs together? With all that may change set to 0 but one, theta_i, the gradient says it: the part of its j-th component
 *          that is odd in theta_i is a term of the density that is odd in both, and stays as it is only if both change. Parameters that such terms connect
 *          are one candidate. One whose own gradient is not 0 there has a preferred sign, and so have all that are connected with it.
 *          At 0, terms of three parameters or more, such as that of an intercept with a loading and a score, are out of the way.
 * Names    Neighbours in an index of few labels are exchanged, in all arrays that have as many, or in one of them; where there are two labels, a
 *          parameter between two bounds, the share of the first, may have to change ends.
 * Test     A candidate counts if draws are not symmetric under it, and the density at the images of several is that at the draws, but for rounding. */
#include "infer/mirrors.h"
#include "infer/vi_tuning.h"
#include "math/stat/stat.h"
#include <math.h>
#include <string.h>

enum {
  TESTED = 2 * ATVI_LANES, /* draws at whose images the density is compared */
};

typedef struct {
  atvi_evaluator *ev;
  const atvi_target *t;
  atvi_pool *pool;
  const atvi_mirror_draws *draws;
  atvi_mirrors *out;
  atvi_idx d;
  /* [d] of the draws; size: root mean squares. */
  double *mean, *sd, *size;
  /* [d][TESTED] some draws, and images of them. */
  double *theta, *image;
  double log_p[TESTED];
  bool tested; /* log_p is known */
  int trials;
  atvi_mirror next; /* the candidate */
} search;

/* ---- one mirror ---- */

void atvi_infer_mirror_image(const atvi_mirror *m, atvi_idx d, atvi_idx n, const double *theta,
                             double *image) {
  for (atvi_idx i = 0; i < d; i++)
    for (atvi_idx j = 0; j < n; j++) image[i * n + j] = m->at[i] + m->sign[i] * theta[m->from[i] * n + j];
}

static bool moves(const atvi_mirror *m, atvi_idx i) { return m->from[i] != i || m->sign[i] < 0; }

double atvi_infer_mirror_gap(const atvi_mirror *m, atvi_idx d, const atvi_mirror_draws *p) {
  double gap = 0;
  for (atvi_idx i = 0; i < d; i++) {
    if (!moves(m, i)) continue;
    const double *x = p->theta + i * p->stride, *y = p->theta + m->from[i] * p->stride;
    double apart =
        fabs(atvi_math_mean(p->n, x, p->w) - m->at[i] - m->sign[i] * atvi_math_mean(p->n, y, p->w));
    double sd = fmax(atvi_math_sd(p->n, x, p->w), atvi_math_sd(p->n, y, p->w));
    if (apart > gap * sd) gap = apart / sd;
  }
  return gap;
}

/* Whether the candidate moves a mean by more than a standard deviation: images that are closer are not
 * separate. */
static bool is_apart(const search *s) {
  const atvi_mirror *m = &s->next;
  for (atvi_idx i = 0; i < s->d; i++) {
    double sd = fmax(s->sd[i], s->sd[m->from[i]]);
    if (moves(m, i) && fabs(s->mean[i] - m->at[i] - m->sign[i] * s->mean[m->from[i]]) > sd) return true;
  }
  return false;
}

static void nothing(const search *s, const atvi_mirror *m) {
  for (atvi_idx i = 0; i < s->d; i++) m->at[i] = 0, m->sign[i] = 1, m->from[i] = i;
}

static bool mirror_new(const search *s, atvi_mirror *m) {
  m->at = atvi_pool_take(s->pool, (size_t)s->d, sizeof *m->at);
  m->sign = atvi_pool_take(s->pool, (size_t)s->d, sizeof *m->sign);
  m->from = atvi_pool_take(s->pool, (size_t)s->d, sizeof *m->from);
  return !atvi_pool_failed(s->pool);
}

/* ---- the test ---- */

static void evaluate(const search *s, atvi_idx n, const double *theta, double *log_p) {
  double log_lik[TESTED];
  atvi_outcome outcome[TESTED];
  atvi_model_evaluator_run(
      s->ev,
      &(atvi_batch){.B = n, .theta = theta, .log_prior = log_p, .log_lik = log_lik, .outcome = outcome});
  for (atvi_idx j = 0; j < n; j++) log_p[j] = outcome[j] == ATVI_RUN_OK ? log_p[j] + log_lik[j] : NAN;
}

static double rounding(double log_p) { return ATVI_ROUNDED * (1 + fabs(log_p)); }

/* The density at images of the first n draws is that at the draws. */
static bool is_same(const search *s, atvi_idx n) {
  double log_image[TESTED], *one = s->image + s->d * TESTED;
  for (atvi_idx i = 0; i < s->d; i++)
    for (atvi_idx j = 0; j < n; j++) one[i * n + j] = s->theta[i * TESTED + j];
  atvi_infer_mirror_image(&s->next, s->d, n, one, s->image);
  evaluate(s, n, s->image, log_image);
  for (atvi_idx j = 0; j < n; j++)
    if (!(fabs(log_image[j] - s->log_p[j]) <= rounding(s->log_p[j]))) return false;
  return true;
}

/* Keeps the candidate, if it is a mirror; *kept says so. */
static atvi_status test(search *s, bool *kept) {
  *kept = false;
  if (s->out->n == ATVI_VI_PARTS || !is_apart(s)) return ATVI_OK;
  if (!s->tested) evaluate(s, TESTED, s->theta, s->log_p);
  s->tested = true;
  if (!is_same(s, 1) || !is_same(s, TESTED)) return ATVI_OK;
  *kept = true;
  s->out->mirror[s->out->n++] = s->next;
  return mirror_new(s, &s->next) ? ATVI_OK : ATVI_ENOMEM;
}

/* ---- signs ---- */

typedef struct {
  atvi_idx n;
  atvi_idx *of;   /* [n] parameters that may change their sign */
  atvi_idx *with; /* [d] the first of those that are connected with it; itself, if it is that */
  bool *fixed;    /* [d] its sign, and that of all that are connected with it, is not free */
} signs;

static atvi_idx root(const signs *g, atvi_idx i) {
  while (g->with[i] != i) i = g->with[i];
  return i;
}

/* A batch with gradients of the log density in theta. */
typedef struct {
  double *theta, *prior, *lik, *grad_prior, *grad;
  atvi_outcome *outcome;
} slopes;

static bool slopes_new(const search *s, slopes *b) {
  size_t d = (size_t)s->d;
  b->theta = atvi_pool_take(s->pool, d * ATVI_BATCH, sizeof(double));
  b->grad_prior = atvi_pool_take(s->pool, d * ATVI_BATCH, sizeof(double));
  b->grad = atvi_pool_take(s->pool, d * ATVI_BATCH, sizeof(double));
  b->prior = atvi_pool_take(s->pool, ATVI_BATCH, sizeof(double));
  b->lik = atvi_pool_take(s->pool, ATVI_BATCH, sizeof(double));
  b->outcome = atvi_pool_take(s->pool, ATVI_BATCH, sizeof *b->outcome);
  return !atvi_pool_failed(s->pool);
}

/* At n points that are 0 in all of g, but for parameters first .. of it, each on either side; n = 1: all are
 * 0. */
static void run_slopes(const search *s, const signs *g, const slopes *b, atvi_idx first, atvi_idx n) {
  for (atvi_idx i = 0; i < s->d; i++)
    for (atvi_idx j = 0; j < n; j++) b->theta[i * n + j] = s->theta[i * TESTED];
  for (atvi_idx k = 0; k < g->n; k++)
    for (atvi_idx j = 0; j < n; j++) b->theta[g->of[k] * n + j] = 0;
  for (atvi_idx j = 0; j < n && n > 1; j++) {
    atvi_idx i = g->of[first + j / 2];
    b->theta[i * n + j] = j % 2 ? -s->size[i] : s->size[i];
  }
  atvi_model_evaluator_run(s->ev, &(atvi_batch){.B = n,
                                                .theta = b->theta,
                                                .log_prior = b->prior,
                                                .log_lik = b->lik,
                                                .grad_prior = b->grad_prior,
                                                .grad_lik = b->grad,
                                                .outcome = b->outcome});
  for (atvi_idx j = 0; j < n; j++) b->lik[j] += b->prior[j];
  for (atvi_idx k = 0; k < s->d * n; k++) b->grad[k] += b->grad_prior[k];
}

/* What the points on either side of parameter i, columns j and j + 1 of n, say of it and of the others. */
static void connect(const search *s, signs *g, const slopes *b, atvi_idx i, atvi_idx j, atvi_idx n) {
  double tolerance = rounding(b->lik[j]);
  if (b->outcome[j] != ATVI_RUN_OK || b->outcome[j + 1] != ATVI_RUN_OK ||
      !(fabs(b->lik[j] - b->lik[j + 1]) <= tolerance)) {
    g->fixed[i] = true;
    return;
  }
  for (atvi_idx k = 0; k < g->n; k++) {
    atvi_idx l = g->of[k];
    double up = b->grad[l * n + j] * s->size[l], down = b->grad[l * n + j + 1] * s->size[l];
    if (l == i) continue;
    if (!(fabs(up + down) <= 2 * tolerance)) g->fixed[l] = true;
    if (!(fabs(up - down) <= 2 * tolerance)) g->with[root(g, l)] = root(g, i);
  }
}

static bool is_mirrored_box(const atvi_param *p) { return p->lower == -p->upper; }

/* Parameters without a preferred sign when all others are 0. False: none of them is away from 0, half a
 * standard deviation as its image is as far on the other side. */
static bool begin_signs(const search *s, signs *g, const slopes *b) {
  bool any = false;
  for (atvi_idx i = 0; i < s->d; i++) {
    g->with[i] = i;
    if (is_mirrored_box(&s->t->param[i]) && s->size[i] > 0 && isfinite(s->size[i])) g->of[g->n++] = i;
  }
  for (atvi_idx k = 0; k < g->n; k++) any = any || 2 * fabs(s->mean[g->of[k]]) > s->sd[g->of[k]];
  if (!any) return false;
  run_slopes(s, g, b, 0, 1);
  if (b->outcome[0] != ATVI_RUN_OK) return false;
  any = false;
  for (atvi_idx k = 0; k < g->n; k++) {
    atvi_idx i = g->of[k];
    g->fixed[i] = !(fabs(b->grad[i]) * s->size[i] <= rounding(b->lik[0]));
    any = any || (!g->fixed[i] && 2 * fabs(s->mean[i]) > s->sd[i]);
  }
  return any;
}

static atvi_status find_signs(search *s) {
  size_t d = (size_t)s->d;
  signs g = {.of = atvi_pool_take(s->pool, d, sizeof *g.of),
             .with = atvi_pool_take(s->pool, d, sizeof *g.with),
             .fixed = atvi_pool_take(s->pool, d, sizeof *g.fixed)};
  slopes b;
  bool kept;
  if (!slopes_new(s, &b)) return ATVI_ENOMEM;
  memset(g.fixed, 0, d * sizeof *g.fixed);
  if (!begin_signs(s, &g, &b)) return ATVI_OK;
  for (atvi_idx first = 0; first < g.n; first += ATVI_BATCH / 2) {
    atvi_idx m = g.n - first < ATVI_BATCH / 2 ? g.n - first : ATVI_BATCH / 2;
    run_slopes(s, &g, &b, first, 2 * m);
    for (atvi_idx k = 0; k < m; k++) connect(s, &g, &b, g.of[first + k], 2 * k, 2 * m);
  }
  for (atvi_idx k = 0; k < g.n; k++)
    if (g.fixed[g.of[k]]) g.fixed[root(&g, g.of[k])] = true;
  for (atvi_idx k = 0; k < g.n; k++) {
    atvi_idx first = g.of[k];
    if (g.with[first] != first || g.fixed[first]) continue;
    nothing(s, &s->next);
    for (atvi_idx l = 0; l < g.n; l++)
      if (root(&g, g.of[l]) == first) s->next.sign[g.of[l]] = -1;
    ATVI_TRY(test(s, &kept));
  }
  return ATVI_OK;
}

/* ---- names ---- */

/* One index of an array: element e of its n, from parameter `first` on, has label e / inner % labels. */
typedef struct {
  atvi_idx first, n, inner, labels;
} slot;

/* Length of the part of a name before its k-th dot, or of all of it. */
static size_t upto(const char *name, int k) {
  size_t at = 0;
  for (; name[at]; at++)
    if (name[at] == '.' && k-- == 0) break;
  return at;
}

static int dots(const char *name) {
  int n = 0;
  for (; *name; name++) n += *name == '.';
  return n;
}

/* The indices of the array that begins at parameter `first`; returns where the next begins. */
static atvi_idx read_array(const search *s, atvi_idx first, slot *out, atvi_idx *n_out) {
  const char *name = s->t->param[first].name;
  size_t base = upto(name, 0);
  int n_index = dots(name);
  atvi_idx end = first + 1, inner = 1;
  while (end < s->d && n_index > 0 && strncmp(s->t->param[end].name, name, base + 1) == 0 &&
         dots(s->t->param[end].name) == n_index)
    end++;
  for (int k = n_index; k > 0; k--) { /* the last index changes first */
    size_t at = upto(name, k - 1);
    atvi_idx run = 1;
    while (first + run < end && strncmp(s->t->param[first + run].name, name, at + 1) == 0) run++;
    if (run % inner != 0 || (end - first) % run != 0) break;
    if (run / inner > 1) out[(*n_out)++] = (slot){first, end - first, inner, run / inner};
    inner = run;
  }
  return end;
}

/* Adds the exchange of labels a and a + 1 to the candidate. */
static void exchange(const slot *t, atvi_idx a, const atvi_mirror *m) {
  for (atvi_idx e = 0; e < t->n; e++) {
    atvi_idx label = e / t->inner % t->labels, by = label == a ? t->inner : label == a + 1 ? -t->inner : 0;
    m->from[t->first + e] += by; /* whatever was exchanged in another index of the array */
  }
}

static atvi_status try_names(search *s, bool *kept) {
  *kept = false;
  if (s->trials >= ATVI_ITERATIONS || !is_apart(s)) return ATVI_OK;
  s->trials++;
  return test(s, kept);
}

/* Labels a and a + 1 of all indices with so many, or of the k-th of them alone; with two labels, also with a
 * share that changes ends. */
static atvi_status try_labels(search *s, const slot *t, atvi_idx n, atvi_idx labels, atvi_idx a, atvi_idx k) {
  bool kept;
  for (atvi_idx share = -1; share < (labels == 2 ? s->d : 0); share++) {
    const atvi_param *p = share < 0 ? NULL : &s->t->param[share];
    if (p && (!isfinite(p->lower) || !isfinite(p->upper))) continue;
    nothing(s, &s->next);
    for (atvi_idx l = 0; l < n; l++)
      if (t[l].labels == labels && (k < 0 || k == l)) exchange(&t[l], a, &s->next);
    if (p && s->next.from[share] != share) continue;
    if (p) s->next.sign[share] = -1, s->next.at[share] = p->lower + p->upper;
    ATVI_TRY(try_names(s, &kept));
    if (kept) return ATVI_OK;
  }
  return ATVI_OK;
}

static atvi_status find_names(search *s) {
  atvi_idx n = 0;
  slot *t = atvi_pool_take(s->pool, (size_t)(3 * s->d), sizeof *t); /* an array has up to three indices */
  if (!t) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < s->d;) i = read_array(s, i, t, &n);
  for (atvi_idx labels = 2; labels <= ATVI_TOPS; labels++)
    for (atvi_idx a = 0; a + 1 < labels; a++) {
      atvi_idx have = 0, before = s->out->n;
      for (atvi_idx l = 0; l < n; l++) have += t[l].labels == labels;
      if (have > 0) ATVI_TRY(try_labels(s, t, n, labels, a, -1));
      for (atvi_idx l = 0; l < n && have > 1 && s->out->n == before; l++)
        if (t[l].labels == labels) ATVI_TRY(try_labels(s, t, n, labels, a, l));
    }
  return ATVI_OK;
}

/* ---- the whole ---- */

static void moments_item(void *arg, atvi_idx i, int worker) {
  const search *s = arg;
  const atvi_mirror_draws *p = s->draws;
  const double *x = p->theta + i * p->stride;
  (void)worker;
  s->mean[i] = atvi_math_mean(p->n, x, p->w);
  s->sd[i] = atvi_math_sd(p->n, x, p->w);
  s->size[i] = hypot(s->mean[i], s->sd[i]);
}

static bool begin(search *s) {
  const atvi_mirror_draws *p = s->draws;
  size_t d = (size_t)s->d;
  double sum = 0, all = 0;
  s->mean = atvi_pool_take(s->pool, d, sizeof(double));
  s->sd = atvi_pool_take(s->pool, d, sizeof(double));
  s->size = atvi_pool_take(s->pool, d, sizeof(double));
  s->theta = atvi_pool_take(s->pool, d * TESTED, sizeof(double));
  s->image = atvi_pool_take(s->pool, 2 * d * TESTED, sizeof(double));
  s->out->mirror = atvi_pool_take(s->pool, ATVI_VI_PARTS, sizeof *s->out->mirror);
  if (!mirror_new(s, &s->next)) return false;
  atvi_parallel(atvi_pool_ctx(s->pool), s->d, moments_item, s);
  for (atvi_idx j = 0; j < p->n; j++) all += p->w ? p->w[j] : 1;
  for (atvi_idx k = 0, j = -1; k < TESTED; k++) { /* spread over the weight */
    while (j < p->n - 1 && (j < 0 || sum < ((double)k + 0.5) / TESTED * all))
      sum += p->w ? p->w[++j] : (++j, 1);
    for (atvi_idx i = 0; i < s->d; i++) s->theta[i * TESTED + k] = p->theta[i * p->stride + j];
  }
  return true;
}

atvi_status atvi_infer_mirrors_find(atvi_evaluator *ev, atvi_pool *pool, const atvi_mirror_draws *draws,
                                    atvi_mirrors *out) {
  const atvi_target *t = atvi_model_evaluator_target(ev);
  search s = {.ev = ev, .t = t, .pool = pool, .draws = draws, .out = out, .d = t->d};
  *out = (atvi_mirrors){0};
  if (draws->n < 1) return ATVI_OK;
  if (!begin(&s)) return ATVI_ENOMEM;
  ATVI_TRY(find_signs(&s));
  return find_names(&s);
}
