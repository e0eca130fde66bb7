/* SPDX-License-Identifier: MIT */
/* The numbers of a summary; columns are independent and divided among the threads. */
#include "diag/summary.h"
#include "io/draws_file.h"
#include "math/stat/stat.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

enum {
  MODE_GRID = 4 * 1024, /* scratch of atvi_math_mode beyond n */
  CHAIN_MIN = 4,        /* shortest chain the kernels take */
  SHARES_MAX = 16,      /* memory: columns summarised at once */
};
static const double NEAR = 0.01; /* share of the range that is "near" a bound */
/* Width in sds of two cells at a bound, from which the density there is extrapolated; narrower if fewer sds
 * contain enough draws. */
static const double CELL = 0.2, CELL_DRAWS = 150;
static const double WINDOW =
    0.4; /* in sds: the largest density is that of the fullest window of this width */
static const double REACH = 0.15;  /* share of the largest density above which a bound cuts the posterior */
static const double NOT_NOISE = 2; /* standard errors */
static const double TAIL = 0.05;
static const double PROB[ATVI_SUMMARY_QUANTILES] = {0.025, 0.25, 0.5, 0.75, 0.975};

typedef struct {
  const atvi_draws *d;
  atvi_summary_column *col;
  double *scratch; /* [n_share][per_share] */
  size_t per_share;
  /* columns are divided into this many shares, which run at the same time: bounds the scratch */
  atvi_idx n_share;
  double ess_weight; /* 1 / sum w^2, or n */
  bool refused;
} job;

static size_t max_size(size_t a, size_t b) { return a > b ? a : b; }

static size_t work_size(const atvi_draws *d) {
  size_t n = (size_t)d->n, chain = atvi_math_stat_work(d->n_chain, d->n / d->n_chain);
  return max_size(max_size(chain, 2 * n), n + MODE_GRID);
}

/* Share of the posterior with lower <= x <= upper. */
static double share(const atvi_draws *d, const double *x, double lower, double upper) {
  double in = 0, all = 0;
  for (atvi_idx i = 0; i < d->n; i++) {
    double w = d->weight ? d->weight[i] : 1;
    all += w;
    if (x[i] >= lower && x[i] <= upper) in += w;
  }
  return in / all;
}

static void bounds_share(const atvi_draws *d, const double *x, atvi_summary_column *c) {
  double near = NEAR * (c->upper - c->lower);
  if (!isfinite(near) || !(near > 0)) return;
  c->near_lower = share(d, x, -HUGE_VAL, c->lower + near);
  c->near_upper = share(d, x, c->upper - near, HUGE_VAL);
}

/* The spread on the side of a bound, unaffected by a long tail on the other side. */
static double scale_at(const atvi_summary_column *c, bool upper) {
  double quartile = fabs(c->quantile[upper ? 3 : 1] - c->median) / 0.6745; /* of a normal: its sd */
  return quartile > 0 ? fmin(quartile, c->sd) : c->sd;
}

/* Draws in ascending order, and the sum of their weights; ws NULL: equal ones. */
typedef struct {
  atvi_idx n;
  const double *xs, *ws;
  double all;
} ordered;

static double weight_of(const ordered *o, atvi_idx i) { return o->ws ? o->ws[i] : 1; }

static double largest_density(const ordered *o, double width) {
  double in = 0, most = 0;
  for (atvi_idx i = 0, first = 0; i < o->n; i++) {
    in += weight_of(o, i);
    while (o->xs[i] - o->xs[first] > width) in -= weight_of(o, first++);
    most = fmax(most, in);
  }
  return most / (width * o->all);
}

/* Distance from a bound within which there are enough draws, at most `most`. A density may rise from zero in
 * a small part of its sd. */
static double cell_at(const ordered *o, bool upper, double bound, double most) {
  double sum = 0, squares = 0;
  for (atvi_idx k = 0; k < o->n; k++) {
    atvi_idx i = upper ? o->n - 1 - k : k;
    double away = fabs(o->xs[i] - bound), w = weight_of(o, i);
    sum += w;
    squares += w * w;
    if (away >= most) break;
    if (away > 0 && sum * sum >= CELL_DRAWS * squares) return away;
  }
  return most;
}

/* Density at a bound, by a straight line through those of two cells: the mean over the first cell alone
 * would be positive where the density rises from zero, and a kernel would find half of it. *se: its
 * standard error. */
static double density_at(const ordered *o, double bound, double cell, double *se) {
  double in[2] = {0}, var[2] = {0}, size = cell * o->all;
  for (atvi_idx i = 0; i < o->n; i++) {
    double away = fabs(o->xs[i] - bound), w = weight_of(o, i);
    if (away >= 2 * cell) continue;
    in[away >= cell] += w;
    var[away >= cell] += w * w;
  }
  *se = sqrt(2.25 * var[0] + 0.25 * var[1]) / size;
  return (1.5 * in[0] - 0.5 * in[1]) / size;
}

/* Density at a bound as a share of the largest density. */
static double left_at(const ordered *o, bool upper, double bound, double scale, bool *reaches) {
  double se, most = largest_density(o, WINDOW * scale),
             at = density_at(o, bound, cell_at(o, upper, bound, CELL * scale), &se);
  *reaches = at > REACH * most && at > NOT_NOISE * se;
  return fmin(fmax(at / most, 0), 1);
}

/* Needs sd and quartiles. */
static void bounds_reached(atvi_idx n, const double *xs, const double *ws, atvi_summary_column *c) {
  ordered o = {n, xs, ws, 0};
  if (!(c->sd > 0)) return;
  for (atvi_idx i = 0; i < n; i++) o.all += weight_of(&o, i);
  if (isfinite(c->lower)) c->at_lower = left_at(&o, false, c->lower, scale_at(c, false), &c->reaches_lower);
  if (isfinite(c->upper)) c->at_upper = left_at(&o, true, c->upper, scale_at(c, true), &c->reaches_upper);
}

/* Variance and squared standard error of a weighted mean, with the weights taken as given: sum w (x - mean)^2
 * and sum w^2 (x - mean)^2, for weights that sum to one. */
typedef struct {
  double var, se2;
} spread;

static spread spread_of(const atvi_draws *d, const double *x, double mean) {
  spread s = {0, 0};
  double all = 0;
  for (atvi_idx i = 0; i < d->n; i++) {
    if (!(d->weight[i] > 0)) continue;
    double r = x[i] - mean, w = d->weight[i];
    s.var += w * r * r;
    s.se2 += w * w * r * r;
    all += w;
  }
  return (spread){s.var / all, s.se2 / (all * all)};
}

/* The same for the indicator of x <= at. */
static spread spread_below(const atvi_draws *d, const double *x, double at) {
  double p = share(d, x, -HUGE_VAL, at), se2 = 0, all = 0;
  for (atvi_idx i = 0; i < d->n; i++) {
    if (!(d->weight[i] > 0)) continue;
    double r = d->weight[i] * ((x[i] <= at) - p);
    se2 += r * r;
    all += d->weight[i];
  }
  return (spread){p * (1 - p), se2 / (all * all)};
}

/* Number of independent draws with that error; for a constant column, that of the weights. */
static double worth(const job *j, spread s) { return s.se2 > 0 ? s.var / s.se2 : j->ess_weight; }

/* xs, ws: the n draws that count, sorted. */
static void weighted_tail(const job *j, const double *x, atvi_idx n, const double *xs, const double *ws,
                          atvi_summary_column *c) {
  double low = worth(j, spread_below(j->d, x, atvi_math_quantile(n, xs, ws, TAIL)));
  double high = worth(j, spread_below(j->d, x, atvi_math_quantile(n, xs, ws, 1 - TAIL)));
  c->ess_tail = fmin(low, high);
}

static void convergence(const job *j, const double *x, double *work, atvi_summary_column *c) {
  const atvi_draws *d = j->d;
  atvi_idx m = d->n_chain, n = d->n / m;
  if (j->refused) return;
  if (d->weight) {
    spread s = spread_of(d, x, c->mean);
    c->ess_bulk = worth(j, s);
    c->mcse = sqrt(s.se2) * atvi_math_psis_inflation(d->made->khat);
    return;
  }
  if (!d->chains) {
    c->ess_bulk = c->ess_tail = (double)d->n;
    c->mcse = c->sd / sqrt((double)d->n);
    return;
  }
  if (n < CHAIN_MIN) return;
  atvi_convergence v = atvi_math_converge(m, n, x, work);
  c->rhat = v.rhat;
  c->ess_bulk = v.ess_bulk;
  c->ess_tail = v.ess_tail;
  c->mcse = c->sd / sqrt(v.ess_mean);
}

static bool all_finite(atvi_idx n, const double *x) {
  for (atvi_idx i = 0; i < n; i++)
    if (!isfinite(x[i])) return false;
  return true;
}

/* The draws that count, with their weights: a failed run has weight zero, and its derived quantities may be
 * anything. */
static atvi_idx gather(const atvi_draws *d, const double *x, double *xs, double *ws) {
  if (!ws) {
    memcpy(xs, x, (size_t)d->n * sizeof *xs);
    return d->n;
  }
  atvi_idx n = 0;
  for (atvi_idx i = 0; i < d->n; i++) {
    if (!(d->weight[i] > 0)) continue;
    xs[n] = x[i];
    ws[n++] = d->weight[i];
  }
  return n;
}

/* Standard errors by which a tail index has to exceed a bound, or to stay below it: one chance in a thousand
 * for each parameter. */
static const double TAIL_ERRORS = 3;

/* Degrees of freedom of the tails of the prior of column i: moments below them exist, and then the posterior
 * has them too, as a likelihood is bounded. NaN: it has no prior of its own, or none with fixed arguments. */
static double prior_degrees(const atvi_draws *d, atvi_idx i) {
  const atvi_prior *p = d->prior && i < d->n_param ? &d->prior[i] : NULL;
  if (!p || !p->dist) return NAN;
  if (strcmp(p->dist, "student") == 0 || strcmp(p->dist, "invgamma") == 0) return p->arg[0];
  return strcmp(p->dist, "cauchy") == 0 || strcmp(p->dist, "halfcauchy") == 0 ? 1 : HUGE_VAL;
}

/* A variance exists for a tail index below 1/2, a mean below 1. The index has an error, and a long tail that
 * ends (a lognormal's) looks like one at first: a variance is refused only where 1/2 is excluded, and then a
 * mean unless 1 is, by draws that count equally: weighted ones have too few far out. A prior of its own knows
 * better than draws. Bounded columns have both. */
static void moments_exist(const atvi_draws *d, atvi_idx item, atvi_idx n, const double *xs, const double *ws,
                          double *work, atvi_summary_column *c) {
  double se;
  if (isfinite(c->lower) && isfinite(c->upper)) return;
  c->tail = atvi_math_tail_index(n, xs, ws, &se, work);
  const double degrees = prior_degrees(d, item);
  c->no_moments = c->tail - TAIL_ERRORS * se > 0.5 && !(degrees > 2);
  if (!c->no_moments) return;
  c->mcse = c->sd = NAN;
  bool has_mean = isnan(degrees) ? !ws && c->tail + TAIL_ERRORS * se < 1 : degrees > 1;
  if (!has_mean) c->mean = NAN;
}

/* scratch: j->per_share doubles */
static void summarise(const job *j, atvi_idx item, double *scratch) {
  const atvi_draws *d = j->d;
  const double *x = d->x + item * d->n;
  double *xs = scratch, *ws = d->weight ? xs + d->n : NULL, *work = xs + 2 * d->n;
  atvi_summary_column *c = &j->col[item];
  atvi_idx n = gather(d, x, xs, ws);
  bounds_share(d, x, c);
  if (n == 0 || !all_finite(n, xs)) return; /* everything else stays unknown */
  c->mean = atvi_math_mean(n, xs, ws);
  c->sd = n > 1 ? atvi_math_sd(n, xs, ws) : NAN;
  convergence(j, x, work, c);
  atvi_math_sort(n, xs, ws, work);
  if (ws && !j->refused) weighted_tail(j, x, n, xs, ws, c);
  for (int k = 0; k < ATVI_SUMMARY_QUANTILES; k++) c->quantile[k] = atvi_math_quantile(n, xs, ws, PROB[k]);
  c->median = c->quantile[2];
  bounds_reached(n, xs, ws, c);
  atvi_math_hpd(n, xs, ws, 0.95, c->hpd95);
  moments_exist(d, item, n, xs, ws, work, c);
  double best = d->made->mode_draw;
  if (best >= 0 && best < (double)d->n)
    c->mode =
        x[(atvi_idx)best]; /* the joint maximum, which an optimiser finds better than a density of draws */
  else
    c->mode = xs[0] < xs[n - 1] ? atvi_math_mode(n, xs, ws, c->lower, c->upper, work) : xs[0];
}

static void summarise_share(void *arg, atvi_idx share_index, int worker) {
  const job *j = arg;
  (void)worker;
  for (atvi_idx k = share_index; k < j->d->n_col; k += j->n_share)
    summarise(j, k, j->scratch + (size_t)share_index * j->per_share);
}

double atvi_diag_weights_ess(const atvi_draws *d) {
  double sum = 0, squares = 0;
  if (!d->weight) return (double)d->n;
  for (atvi_idx i = 0; i < d->n; i++) {
    sum += d->weight[i];
    squares += d->weight[i] * d->weight[i];
  }
  return sum * sum / squares;
}

bool atvi_diag_made_variational(const atvi_made *made) { return !isnan(made->steps); }

bool atvi_diag_weights_contradict(const atvi_draws *d) {
  return !(d->made->exact > 0) && !atvi_math_weights_agree(d->made->top_weight, d->made->log_evidence_se);
}

/* Whether weights cannot turn d into draws of the posterior: k-hat forbids it (atvi_math_psis_permits), or a
 * variational method has none. */
static bool refused(const atvi_draws *d) {
  if (d->made->exact > 0) return false; /* chains: nothing to weigh */
  if (isnan(d->made->khat)) return atvi_diag_made_variational(d->made);
  return !atvi_math_psis_permits(d->n, d->made->khat, d->made->excess) || atvi_diag_weights_contradict(d);
}

static atvi_status all_columns(atvi_ctx *ctx, const atvi_draws *d, atvi_summary_column *col) {
  job j = {.d = d, .col = col, .ess_weight = atvi_diag_weights_ess(d), .refused = refused(d)};
  j.n_share = atvi_ctx_threads(ctx);
  if (j.n_share > d->n_col) j.n_share = d->n_col;
  if (j.n_share > SHARES_MAX) j.n_share = SHARES_MAX;
  j.per_share = 2 * (size_t)d->n + work_size(d);
  j.scratch = atvi_block(ctx, (size_t)j.n_share * j.per_share * sizeof *j.scratch);
  if (!j.scratch) return ATVI_ENOMEM;
  atvi_parallel(ctx, j.n_share, summarise_share, &j);
  atvi_block_free(ctx, j.scratch);
  return ATVI_OK;
}

static atvi_summary_column unknown(const char *name, const atvi_column *bounds) {
  return (atvi_summary_column){.name = name,
                               .lower = bounds->lower,
                               .upper = bounds->upper,
                               .mean = NAN,
                               .sd = NAN,
                               .mode = NAN,
                               .median = NAN,
                               .hpd95 = {NAN, NAN},
                               .quantile = {NAN, NAN, NAN, NAN, NAN},
                               .ess_bulk = NAN,
                               .ess_tail = NAN,
                               .rhat = NAN,
                               .mcse = NAN,
                               .near_lower = NAN,
                               .near_upper = NAN,
                               .at_lower = NAN,
                               .at_upper = NAN,
                               .tail = NAN};
}

static char *copy(atvi_pool *pool, const char *s) {
  return atvi_pool_strndup(pool, s ? s : "", s ? strlen(s) : 0);
}

bool atvi_diag_weights_hold(const atvi_draws *d) { return d->weight && !refused(d); }

static atvi_status summary_new(atvi_pool *pool, const atvi_draws *d, atvi_summary **out) {
  atvi_ctx *ctx = atvi_pool_ctx(pool);
  atvi_summary *s = atvi_pool_take(pool, 1, sizeof *s);
  atvi_summary_column *col = atvi_pool_take(pool, (size_t)d->n_col, sizeof *col);
  if (!s || !col) return ATVI_ENOMEM;
  *s = (atvi_summary){.made = *d->made,
                      .n = d->n,
                      .n_chain = d->n_chain,
                      .chains = d->chains,
                      .weighted = d->weight != NULL,
                      .refused = refused(d),
                      .ess = refused(d) ? NAN : atvi_diag_weights_ess(d),
                      .n_param = d->n_param,
                      .n_col = d->n_col,
                      .col = col};
  s->made.method = copy(pool, d->made->method);
  s->made.model = copy(pool, d->made->model);
  for (atvi_idx j = 0; j < d->n_col; j++) col[j] = unknown(copy(pool, d->col[j].name), &d->col[j]);
  if (atvi_pool_failed(pool)) return ATVI_ENOMEM;
  s->log_map = -HUGE_VAL;
  for (atvi_idx i = 0; i < d->n; i++) s->log_map = fmax(s->log_map, d->log_prior[i] + d->log_lik[i]);
  ATVI_TRY(all_columns(ctx, d, col));
  ATVI_TRY(atvi_diag_summary_judge(pool, d, s));
  *out = s;
  return ATVI_OK;
}

atvi_status atvi_diag_summary_new(atvi_pool *pool, const atvi_draws *d, atvi_summary **out) {
  atvi_draws use = *d;
  *out = NULL;
  if (!atvi_diag_weights_hold(d)) use.weight = NULL;
  return summary_new(pool, &use, out);
}

atvi_idx atvi_diag_summary_least_ess(const atvi_summary *s, double *ess) {
  atvi_idx least = -1;
  *ess = NAN;
  for (atvi_idx k = 0; k < s->n_param; k++) {
    double e = s->chains ? fmin(s->col[k].ess_bulk, s->col[k].ess_tail) : s->col[k].ess_bulk;
    if (!(e < *ess) && !(isnan(*ess) && isfinite(e))) continue;
    *ess = e;
    least = k;
  }
  return least;
}

bool atvi_diag_summary_tail_is_small(const atvi_summary *s) {
  return s->weighted && s->made.khat > atvi_math_psis_threshold(s->n);
}

const char *atvi_diag_summary_khat(atvi_pool *pool, const atvi_summary *s) {
  double most = atvi_math_psis_threshold(s->n);
  int digits = round(100 * s->made.khat) > round(100 * most) ? 2 : 3; /* 0.70 is not above 0.70 */
  if (!atvi_diag_summary_tail_is_small(s))
    return atvi_pool_printf(pool, "k-hat is %.2f (good up to %.2f)", s->made.khat, most);
  return atvi_pool_printf(pool,
                          "k-hat is %.*f, above its threshold %.*f, but the tail that it describes has only "
                          "%.2g %% of the weight (harmless below 0.5 %%)",
                          digits, s->made.khat, digits, most, 100 * s->made.excess);
}

const char *atvi_verdict_name(atvi_verdict v) {
  return v == ATVI_VERDICT_OK ? "ok" : v == ATVI_VERDICT_WARN ? "warn" : "bad";
}

#define COLUMN(kind, name) ATVI_FIELD(kind, atvi_summary_column, name)
static const atvi_field COLUMNS[] = {
    COLUMN(WORD, name),          COLUMN(REAL, mean),         COLUMN(REAL, sd),
    COLUMN(REAL, mode),          COLUMN(REAL, median),       COLUMN(PAIR, hpd95),
    COLUMN(REAL, ess_bulk),      COLUMN(REAL, ess_tail),     COLUMN(REAL, rhat),
    COLUMN(REAL, mcse),          COLUMN(REAL, near_lower),   COLUMN(REAL, near_upper),
    COLUMN(FLAG, reaches_lower), COLUMN(FLAG, reaches_upper)};
const atvi_fields atvi_diag_summary_column_fields = ATVI_FIELDS(COLUMNS);

#define NUMBER(kind, name) ATVI_FIELD(kind, atvi_headline, name)
static const atvi_field HEADLINE[] = {NUMBER(REAL, seconds),      NUMBER(COUNT, evaluations),
                                      NUMBER(REAL, khat),         NUMBER(REAL, rhat),
                                      NUMBER(REAL, ess),          NUMBER(REAL, log_map),
                                      NUMBER(REAL, log_evidence), NUMBER(REAL, log_evidence_se)};
const atvi_fields atvi_diag_headline_fields = ATVI_FIELDS(HEADLINE);

atvi_headline atvi_diag_summary_headline(const atvi_summary *s) {
  const atvi_made *m = &s->made;
  atvi_headline h = {m->seconds, m->evaluations, m->khat,         NAN,
                     NAN,        s->log_map,     m->log_evidence, m->log_evidence_se};
  for (atvi_idx i = 0; i < s->n_param; i++) {
    h.rhat = fmax(h.rhat, s->col[i].rhat);
    h.ess = fmin(h.ess, fmin(s->col[i].ess_bulk, s->col[i].ess_tail));
  }
  return h;
}

static void put_columns(atvi_json *w, const char *key, const atvi_summary *s, atvi_idx from, atvi_idx to) {
  static const char *const percent[ATVI_SUMMARY_QUANTILES] = {"2.5", "25", "50", "75", "97.5"};
  atvi_io_json_list(w, key);
  for (const atvi_summary_column *c = s->col + from; c < s->col + to; c++) {
    atvi_io_json_object(w, NULL);
    atvi_io_fields_json(w, &atvi_diag_summary_column_fields, c, "name mean sd mode median hpd95");
    atvi_io_json_object(w, "quantiles");
    for (int k = 0; k < ATVI_SUMMARY_QUANTILES; k++)
      atvi_io_json_put(w, percent[k], atvi_io_json_real(c->quantile[k]));
    atvi_io_json_end(w);
    atvi_io_fields_json(w, &atvi_diag_summary_column_fields, c,
                        "ess_bulk ess_tail rhat mcse near_lower near_upper reaches_lower reaches_upper");
    atvi_io_json_end(w);
  }
  atvi_io_json_end(w);
}

static const char *text_of(const atvi_message *m) { return m->text; }
static const char *code_of(const atvi_message *m) { return atvi_code_name(m->code); }
static const char *severity_of(const atvi_message *m) { return atvi_severity_name(m->severity); }

/* One thing about every message. */
static void put_messages(atvi_json *w, const char *key, const atvi_summary *s,
                         const char *(*what)(const atvi_message *)) {
  atvi_io_json_list(w, key);
  for (atvi_idx i = 0; i < s->n_message; i++)
    atvi_io_json_put(w, NULL, atvi_io_json_word(w->pool, what(&s->message[i])));
  atvi_io_json_end(w);
}

/* The mean of refused weights is refused, too. */
static void put_evidence(atvi_json *w, const atvi_summary *s) {
  const atvi_made *m = &s->made;
  if (isnan(m->log_evidence) || (s->refused && !s->chains)) {
    atvi_io_json_put(w, "log_evidence", json_null());
    return;
  }
  atvi_io_json_object(w, "log_evidence");
  atvi_io_json_put(w, "value", atvi_io_json_real(m->log_evidence));
  atvi_io_json_put(w, "se", atvi_io_json_real(m->log_evidence_se));
  atvi_io_json_end(w);
}

atvi_status atvi_diag_summary_json(atvi_pool *pool, const atvi_summary *s, const char **text) {
  const atvi_made *m = &s->made;
  atvi_json w = {.pool = pool};
  atvi_io_json_object(&w, NULL);
  atvi_io_fields_json(&w, &atvi_io_made_fields, m, "method model seed seconds evaluations failures");
  atvi_io_json_put(&w, "log_map", atvi_io_json_real(s->log_map));
  put_evidence(&w, s);
  atvi_io_fields_json(&w, &atvi_io_made_fields, m, "elbo khat");
  atvi_io_json_put(&w, "khat_threshold",
                   atvi_io_json_real(isnan(m->khat) ? NAN : atvi_math_psis_threshold(s->n)));
  atvi_io_fields_json(&w, &atvi_io_made_fields, m, "excess top_weight lost");
  atvi_io_json_put(&w, "weighted", json_boolean(s->weighted));
  atvi_io_json_put(&w, "ess", atvi_io_json_real(s->chains ? NAN : s->ess));
  atvi_io_fields_json(
      &w, &atvi_io_made_fields, m,
      "efficiency modes outside rungs steps divergences ebfmi tree_depth max_depth_hits exact tuned");
  atvi_io_json_put(&w, "verdict", json_string(atvi_verdict_name(s->verdict)));
  put_messages(&w, "messages", s, text_of);
  put_messages(&w, "message_codes", s, code_of);
  put_messages(&w, "message_severities", s, severity_of);
  put_columns(&w, "parameters", s, 0, s->n_param);
  put_columns(&w, "derived", s, s->n_param, s->n_col);
  return atvi_io_json_get(&w, "summary", text);
}
