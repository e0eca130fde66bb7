/* SPDX-License-Identifier: MIT */
#include "infer/stand_in.h"
#include "infer/vi_tuning.h"
#include <math.h>
#include <string.h>

enum {
  L = ATVI_LANES,
  DEGREE = 4, /* of the polynomial, at most: terms grow with the dimension to this power */
};
enum { PARTS = 16 }; /* memory: parts of the points, whose sums are added in order */

struct atvi_stand_in {
  atvi_ctx *ctx;
  int threads;
  atvi_stand_in_terms t;
  double *coef; /* [t.n] */
  /* [t.n_inner][d] coefficients of the derivatives. */
  double *slope;
  /* The frame; all zero before the first fit. */
  double *shift, *chol; /* [d], [d][d] */
  /* Within which there are points. */
  double radius;
  /* [d] curvatures, at least 0, with which it falls beyond. */
  double *curve;
  /* Taken off the values, so that coefficients are of the size of their differences. */
  double offset;
  /* [threads] scratch. */
  double **work;
};

/* ---- terms ---- */

static atvi_idx count_terms(atvi_idx d, int degree) {
  double n = 1;
  for (int k = 1; k <= degree; k++) n = n * (double)(d + k) / k;
  return n < 1e9 ? (atvi_idx)(n + 0.5) : (atvi_idx)1e9;
}

/* The children of a term have one coordinate more, none before its last, and stand side by side. */
typedef struct {
  int *first, *last; /* [n] the first child; the last coordinate */
} family;

/* The term that is the product of these coordinates, ascending. */
static int find(const family *tree, int n, const int *coord) {
  int k = 0;
  for (int i = 0; i < n; i++) k = tree->first[k] + coord[i] - tree->last[k];
  return k;
}

static void put_child(atvi_stand_in_terms *t, family *tree, int k, int j, int to) {
  bool again = k > 0 && t->coord[k] == j;
  tree->last[to] = j;
  t->parent[to] = again ? t->parent[k] : k;
  t->coord[to] = j;
  t->power[to] = again ? t->power[k] + 1 : 1;
}

static void list_terms(atvi_stand_in_terms *t, family *tree) {
  int n = 1, begin = 0, end = 1;
  tree->last[0] = 0;
  t->parent[0] = t->coord[0] = t->power[0] = 0;
  for (int g = 0; g < t->degree; g++) {
    for (int k = begin; k < end; k++) {
      tree->first[k] = n;
      for (int j = tree->last[k]; j < t->d; j++) put_child(t, tree, k, j, n++);
    }
    begin = end;
    end = n;
  }
}

/* Derivatives of term k, one for each of its coordinates: the term with one less of it. Returns where the
 * next ones go. */
static int list_derivatives(atvi_stand_in_terms *t, const family *tree, int k, int at) {
  int list[DEGREE] = {0}, less[DEGREE], n = 0;
  for (int i = k; i > 0; i = t->parent[i]) n += t->power[i];
  for (int i = k, end = n; i > 0; i = t->parent[i])
    for (int p = 0; p < t->power[i]; p++) list[--end] = t->coord[i];
  for (int i = k; i > 0; i = t->parent[i]) {
    int m = 0, skipped = 0;
    for (int l = 0; l < n; l++) {
      if (list[l] == t->coord[i] && !skipped)
        skipped = 1;
      else
        less[m++] = list[l];
    }
    t->down_term[at] = find(tree, m, less);
    t->down_coord[at] = t->coord[i];
    t->down_root[at++] = sqrt(t->power[i]);
  }
  return at;
}

/* ---- the object ---- */

/* Doubles of a worker: see scratch. */
static atvi_idx work_doubles(const atvi_stand_in_terms *t) { return (t->d * (DEGREE + 2) + t->n + 3) * L; }

static atvi_stand_in *carve(atvi_arena *a, atvi_stand_in head, family *tree) {
  atvi_stand_in *s;
  atvi_stand_in_terms *t = &head.t;
  atvi_idx inner = t->n_inner * t->d;
  ATVI_TAKE(a, s, 1);
  ATVI_TAKE(a, t->parent, t->n);
  ATVI_TAKE(a, t->coord, t->n);
  ATVI_TAKE(a, t->power, t->n);
  ATVI_TAKE(a, t->down, t->n + 1);
  ATVI_TAKE(a, t->down_term, inner);
  ATVI_TAKE(a, t->down_coord, inner);
  ATVI_TAKE(a, t->down_root, inner);
  ATVI_TAKE(a, head.coef, t->n);
  ATVI_TAKE(a, head.slope, inner);
  ATVI_TAKE(a, head.shift, t->d);
  ATVI_TAKE(a, head.curve, t->d);
  ATVI_TAKE(a, head.chol, t->d * t->d);
  ATVI_TAKE(a, head.work, head.threads);
  for (int k = 0; k < head.threads; k++) {
    double *work;
    ATVI_TAKE(a, work, work_doubles(t));
    if (s) head.work[k] = work;
  }
  ATVI_TAKE(a, tree->first, t->n);
  ATVI_TAKE(a, tree->last, t->n);
  if (s) *s = head;
  return s;
}

int atvi_infer_stand_in_allowed(atvi_idx d) {
  int degree = DEGREE;
  while (degree > 0 && count_terms(d, degree) > ATVI_STAND_IN_TERMS) degree--;
  return degree;
}

atvi_status atvi_infer_stand_in_new(atvi_ctx *ctx, atvi_idx d, atvi_stand_in **out) {
  *out = NULL;
  atvi_stand_in head = {
      .ctx = ctx, .threads = atvi_ctx_threads(ctx), .t = {.d = d, .degree = atvi_infer_stand_in_allowed(d)}};
  if (d < 1 || head.t.degree < 2)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "stand-in: d = %td, want 1 or more and at most %d terms of degree 2",
                     d, ATVI_STAND_IN_TERMS);
  head.t.n = count_terms(d, head.t.degree);
  head.t.n_inner = count_terms(d, head.t.degree - 1);
  atvi_arena a = {0};
  family tree;
  carve(&a, head, &tree);
  a = (atvi_arena){.base = atvi_block(ctx, a.used)};
  if (!a.base) return ATVI_ENOMEM;
  atvi_stand_in *s = carve(&a, head, &tree);
  list_terms(&s->t, &tree);
  s->t.down[0] = 0;
  for (int k = 0; k < s->t.n; k++) s->t.down[k + 1] = list_derivatives(&s->t, &tree, k, s->t.down[k]);
  memset(s->coef, 0, (size_t)s->t.n * sizeof *s->coef);
  memset(s->slope, 0, (size_t)(s->t.n_inner * d) * sizeof *s->slope);
  memset(s->shift, 0, (size_t)d * sizeof *s->shift);
  memset(s->chol, 0, (size_t)(d * d) * sizeof *s->chol);
  *out = s;
  return ATVI_OK;
}

void atvi_infer_stand_in_free(atvi_stand_in *s) {
  if (s) atvi_block_free(s->ctx, s);
}

int atvi_infer_stand_in_degree(const atvi_stand_in *s) { return s->t.degree; }

/* ---- one group of points ---- */

typedef struct {
  double *y;                /* [d][L] in the frame */
  double *h;                /* [DEGREE][d][L] Hermite polynomials of it, from degree 1 */
  double *term;             /* [n_term][L] */
  double *dy;               /* [d][L] */
  double *by, *far, *value; /* [L] what the points are multiplied with, their radii, their values */
} scratch;

static scratch lay(const atvi_stand_in *s, int worker) {
  double *at = s->work[worker];
  scratch w = {.y = at};
  w.h = w.y + s->t.d * L;
  w.dy = w.h + DEGREE * s->t.d * L;
  w.by = w.dy + s->t.d * L;
  w.far = w.by + L;
  w.value = w.far + L;
  w.term = w.value + L;
  return w;
}

/* Points first .. first+L-1 of u[d][n], the last again where there are no more. */
static void load(atvi_idx d, atvi_idx n, const double *u, atvi_idx first, double *to) {
  for (atvi_idx i = 0; i < d; i++)
    for (int l = 0; l < L; l++) to[i * L + l] = u[i * n + (first + l < n ? first + l : n - 1)];
}

static void to_frame(const atvi_stand_in *s, double *y) {
  atvi_idx d = s->t.d;
  for (atvi_idx i = 0; i < d; i++) {
    double *yi = y + i * L;
    for (int l = 0; l < L; l++) yi[l] -= s->shift[i];
    for (atvi_idx k = 0; k < i; k++)
      for (int l = 0; l < L; l++) yi[l] -= s->chol[i * d + k] * y[k * L + l];
    for (int l = 0; l < L; l++) yi[l] /= s->chol[i * d + i];
  }
}

/* dy = chol^T du, in place: row k needs rows k and above. */
static void gradient_to_frame(const atvi_stand_in *s, double *du) {
  atvi_idx d = s->t.d;
  for (atvi_idx k = 0; k < d; k++) {
    for (int l = 0; l < L; l++) du[k * L + l] *= s->chol[k * d + k];
    for (atvi_idx i = k + 1; i < d; i++)
      for (int l = 0; l < L; l++) du[k * L + l] += s->chol[i * d + k] * du[i * L + l];
  }
}

/* du = chol^-T dy, in place. */
static void gradient_from_frame(const atvi_stand_in *s, double *dy) {
  atvi_idx d = s->t.d;
  for (atvi_idx i = d - 1; i >= 0; i--) {
    for (atvi_idx k = i + 1; k < d; k++)
      for (int l = 0; l < L; l++) dy[i * L + l] -= s->chol[k * d + i] * dy[k * L + l];
    for (int l = 0; l < L; l++) dy[i * L + l] /= s->chol[i * d + i];
  }
}

static void set_slopes(const atvi_stand_in_terms *t, const double *coef, double *slope) {
  for (atvi_idx k = 0; k < t->n; k++)
    for (int i = t->down[k]; i < t->down[k + 1]; i++)
      slope[t->down_term[i] * t->d + t->down_coord[i]] = coef[k] * t->down_root[i];
}

/* ---- evaluation ---- */

/* Points beyond the radius move to the sphere: by[l] is what y is multiplied with, far[l] the square of its
 * length. */
static void pull_in(const atvi_stand_in *s, double *y, double *by, double *far) {
  for (int l = 0; l < L; l++) far[l] = 0;
  for (atvi_idx i = 0; i < s->t.d; i++)
    for (int l = 0; l < L; l++) far[l] += y[i * L + l] * y[i * L + l];
  for (int l = 0; l < L; l++) by[l] = far[l] > s->radius * s->radius ? s->radius / sqrt(far[l]) : 1;
  for (atvi_idx i = 0; i < s->t.d; i++)
    for (int l = 0; l < L; l++) y[i * L + l] *= by[l];
}

/* After pull_in, which left y on the sphere: value and gradient at the point itself, from those there. From
 * the sphere on the log likelihood falls as a normal distribution with its curvatures. */
static void fall_off(const atvi_stand_in *s, const double *y, const double *by, const double *far,
                     double *value, double *dy) {
  const atvi_idx d = s->t.d;
  double r2 = s->radius * s->radius;
  for (int l = 0; l < L; l++) {
    if (!(by[l] < 1)) continue;
    double along = 0, fall = 0;
    for (atvi_idx i = 0; i < d; i++) fall += s->curve[i] * y[i * L + l] * y[i * L + l];
    value[l] -= 0.5 * fall * (far[l] / r2 - 1);
    for (atvi_idx i = 0; i < d && dy; i++) along += dy[i * L + l] * y[i * L + l];
    for (atvi_idx i = 0; i < d && dy; i++) {
      double yi = y[i * L + l];
      dy[i * L + l] = by[l] * (dy[i * L + l] - along * yi / r2) -
                      (s->curve[i] * yi * (1 / by[l] - by[l]) + by[l] * fall * yi / r2);
    }
  }
}

void atvi_infer_stand_in_eval(const atvi_stand_in *s, int worker, atvi_idx B, const double *u, double *value,
                              double *du) {
  scratch w = lay(s, worker);
  double *by = w.by, *far = w.far, *v = w.value;
  atvi_stand_in_expand_fn *expand = ATVI_ISA_PICK(atvi_infer_stand_in_expand);
  atvi_stand_in_sum_fn *sum = ATVI_ISA_PICK(atvi_infer_stand_in_sum);
  for (atvi_idx first = 0; first < B; first += L) {
    atvi_idx n = B - first < L ? B - first : L;
    load(s->t.d, B, u, first, w.y);
    to_frame(s, w.y);
    pull_in(s, w.y, by, far);
    expand(&s->t, w.y, w.h, w.term);
    sum(&s->t, s->coef, s->slope, w.term, v, du ? w.dy : NULL);
    fall_off(s, w.y, by, far, v, du ? w.dy : NULL);
    for (atvi_idx l = 0; l < n; l++) value[first + l] = s->offset + v[l];
    if (!du) continue;
    gradient_from_frame(s, w.dy);
    for (atvi_idx i = 0; i < s->t.d; i++)
      for (atvi_idx l = 0; l < n; l++) du[i * B + first + l] = w.dy[i * L + l];
  }
}

/* ---- the fit ----
 *
 * Least squares over coefficients c of sum_j w_j ((P(y_j) - v_j)^2 + |grad P(y_j) - g_j|^2 / d): the whole
 * gradient of a point counts as much as its value. Conjugate gradients on the normal equations, divided by
 * their diagonal. */

typedef struct {
  atvi_stand_in *s;
  const atvi_stand_in_data *data;
  /* NULL: the right-hand side, from the data; else the normal equations are applied to these. */
  const double *coef;
  const double *slope; /* of coef */
  bool squares;        /* the diagonal instead */
  double *sum;         /* [PARTS][n_term][L] */
  double *rest;        /* [PARTS][2] sums of w (P - v)^2 and of w, with `measure` */
  bool measure;
} job;

/* w times the residuals of L points, values in by and gradients in dy; or what coef gives there. */
static void residuals(const job *j, const scratch *w, atvi_idx first, double *value, double *part_rest) {
  const atvi_stand_in *s = j->s;
  const atvi_stand_in_data *data = j->data;
  double weight[L];
  for (int l = 0; l < L; l++) weight[l] = first + l < data->n ? data->weight[first + l] : 0;
  if (j->coef) {
    ATVI_ISA_PICK(atvi_infer_stand_in_sum)(&s->t, j->coef, j->slope, w->term, value, w->dy);
  } else {
    load(1, data->n, data->value, first, value);
    for (int l = 0; l < L; l++) value[l] -= s->offset;
    load(s->t.d, data->n, data->du, first, w->dy);
    gradient_to_frame(s, w->dy);
  }
  if (j->measure)
    for (int l = 0; l < L && first + l < data->n; l++) {
      double r = value[l] + s->offset - data->value[first + l];
      part_rest[0] += weight[l] * r * r;
      part_rest[1] += weight[l];
    }
  for (int l = 0; l < L; l++) value[l] *= weight[l];
  for (atvi_idx i = 0; i < s->t.d; i++)
    for (int l = 0; l < L; l++) w->dy[i * L + l] *= weight[l] / (double)s->t.d;
}

static void add_squares(const job *j, const scratch *w, atvi_idx first, double *sum) {
  const atvi_stand_in_terms *t = &j->s->t;
  double weight[L];
  for (int l = 0; l < L; l++) weight[l] = first + l < j->data->n ? j->data->weight[first + l] : 0;
  for (atvi_idx k = 0; k < t->n; k++) {
    for (int l = 0; l < L; l++) sum[k * L + l] += weight[l] * w->term[k * L + l] * w->term[k * L + l];
    for (int i = t->down[k]; i < t->down[k + 1]; i++) {
      double by = t->down_root[i] * t->down_root[i] / (double)t->d, *from = w->term + t->down_term[i] * L;
      for (int l = 0; l < L; l++) sum[k * L + l] += by * weight[l] * from[l] * from[l];
    }
  }
}

static void fit_item(void *arg, atvi_idx item, int worker) {
  const job *j = arg;
  const atvi_stand_in *s = j->s;
  scratch w = lay(s, worker);
  double *sum = j->sum + item * s->t.n * L, *rest = j->rest + 2 * item;
  atvi_stand_in_expand_fn *expand = ATVI_ISA_PICK(atvi_infer_stand_in_expand);
  atvi_stand_in_add_fn *add = ATVI_ISA_PICK(atvi_infer_stand_in_add);
  atvi_idx n = (j->data->n + L - 1) / L, begin = item * n / PARTS, end = (item + 1) * n / PARTS;
  memset(sum, 0, (size_t)(s->t.n * L) * sizeof *sum);
  rest[0] = rest[1] = 0;
  for (atvi_idx g = begin; g < end; g++) {
    load(s->t.d, j->data->n, j->data->u, g * L, w.y);
    to_frame(s, w.y);
    expand(&s->t, w.y, w.h, w.term);
    if (j->squares) {
      add_squares(j, &w, g * L, sum);
      continue;
    }
    residuals(j, &w, g * L, w.by, rest);
    add(&s->t, w.by, w.dy, w.term, sum);
  }
}

/* out[n_term] = sums over all points, in order. */
static void run_fit(job *j, double *out) {
  const atvi_stand_in *s = j->s;
  atvi_parallel(s->ctx, PARTS, fit_item, j);
  for (atvi_idx t = 0; t < s->t.n; t++) {
    double sum = 0;
    for (int p = 0; p < PARTS; p++)
      for (int l = 0; l < L; l++) sum += j->sum[(p * s->t.n + t) * L + l];
    out[t] = sum;
  }
}

static double dot(atvi_idx n, const double *a, const double *b) {
  double sum = 0;
  for (atvi_idx i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

/* From the coefficients there are. b[n] is the right-hand side and becomes the residual; room: [4][n] and
 * [n_inner][d]. */
static void conjugate_gradients(job *j, double *b, double *room) {
  atvi_stand_in *s = j->s;
  atvi_idx n = s->t.n;
  double *diag = room, *z = diag + n, *p = z + n, *q = p + n, *slope = q + n;
  j->squares = true;
  run_fit(j, diag);
  j->squares = false;
  j->slope = slope;
  double most = 0, before = 0, first = 0;
  for (atvi_idx t = 0; t < n; t++) most = fmax(most, diag[t]);
  for (atvi_idx t = 0; t < n; t++) diag[t] += ATVI_ROUNDED * most;
  for (atvi_idx t = 0; t < n; t++) first += b[t] * b[t] / diag[t];
  set_slopes(&s->t, s->coef, slope);
  j->coef = s->coef;
  run_fit(j, q);
  for (atvi_idx t = 0; t < n; t++) b[t] -= q[t] + ATVI_ROUNDED * diag[t] * s->coef[t];
  for (int k = 0; k < ATVI_ITERATIONS; k++) {
    for (atvi_idx t = 0; t < n; t++) z[t] = b[t] / diag[t];
    double now = dot(n, b, z);
    /* a ten thousandth of the first residual: with 1e-3 q was led astray now and then, with 1e-2 always */
    if (!(now > ATVI_ROUNDING * first)) break;
    for (atvi_idx t = 0; t < n; t++) p[t] = z[t] + (k > 0 ? now / before * p[t] : 0);
    set_slopes(&s->t, p, slope);
    j->coef = p;
    run_fit(j, q);
    for (atvi_idx t = 0; t < n; t++) q[t] += ATVI_ROUNDED * diag[t] * p[t];
    double step = now / dot(n, p, q);
    if (!isfinite(step)) break;
    for (atvi_idx t = 0; t < n; t++) {
      s->coef[t] += step * p[t];
      b[t] -= step * q[t];
    }
    before = now;
  }
}

/* As far out as points that count are. */
static double known_radius(atvi_stand_in *s, const atvi_stand_in_data *data) {
  scratch w = lay(s, 0);
  double most = 0;
  for (atvi_idx first = 0; first < data->n; first += L) {
    load(s->t.d, data->n, data->u, first, w.y);
    to_frame(s, w.y);
    for (int l = 0; l < L && first + l < data->n; l++) {
      double far = 0;
      for (atvi_idx i = 0; i < s->t.d; i++) far += w.y[i * L + l] * w.y[i * L + l];
      if (data->weight[first + l] >= ATVI_SMALL) most = fmax(most, far);
    }
  }
  return sqrt(most);
}

atvi_status atvi_infer_stand_in_fit(atvi_stand_in *s, const double *shift, const double *chol,
                                    const atvi_stand_in_data *data, double *left) {
  atvi_idx n = s->t.n, d = s->t.d, rows = PARTS * n * L;
  double *room = atvi_block(s->ctx, (size_t)(rows + 2 * PARTS + 5 * n + s->t.n_inner * d) * sizeof *room);
  if (!room) return ATVI_ENOMEM;
  job j = {.s = s, .data = data, .sum = room, .rest = room + rows};
  double *b = j.rest + 2 * PARTS;
  bool same = memcmp(s->shift, shift, (size_t)d * sizeof *shift) == 0 &&
              memcmp(s->chol, chol, (size_t)(d * d) * sizeof *chol) == 0;
  if (!same) { /* else the coefficients are a good start */
    memcpy(s->shift, shift, (size_t)d * sizeof *shift);
    memcpy(s->chol, chol, (size_t)(d * d) * sizeof *chol);
    memset(s->coef, 0, (size_t)n * sizeof *s->coef);
    s->offset = -HUGE_VAL;
    for (atvi_idx k = 0; k < data->n; k++) s->offset = fmax(s->offset, data->value[k]);
  }
  s->radius = known_radius(s, data);
  run_fit(&j, b);
  conjugate_gradients(&j, b, b + n);
  set_slopes(&s->t, s->coef, s->slope);
  for (atvi_idx k = 0; k < n; k++) /* (y^2 - 1) / sqrt 2 */
    if (s->t.power[k] == 2 && s->t.parent[k] == 0) s->curve[s->t.coord[k]] = fmax(0, -sqrt(2) * s->coef[k]);
  j.coef = s->coef;
  j.slope = s->slope;
  j.measure = true;
  run_fit(&j, b);
  double sum = 0, weight = 0;
  for (int p = 0; p < PARTS; p++) sum += j.rest[2 * p], weight += j.rest[2 * p + 1];
  *left = sqrt(sum / weight);
  atvi_block_free(s->ctx, room);
  return ATVI_OK;
}
