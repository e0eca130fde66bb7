/* SPDX-License-Identifier: MIT */
/* How far a posterior would move with perfect emulators.
 *
 * The emulator's law is a law of functions f, and the posterior of a fit is the mean over f of the posteriors
 * that these would give as simulators:
 *
 *   p(theta | D) = E[ p(theta | D, f) ],     var(theta | D) = E[ var(theta | D, f) ] + var( E[theta | D, f] ),     f ~ p(f | runs, D)
 *
 * The last term is what the emulator's error adds. A draw of f given the data is had through a draw theta_c
 * of the fit: the error there given D and theta_c is one of the smoother (gp/markov.h), and the rest of f
 * follows from it by conditioning a free draw of the process over the inputs and time (Matheron's rule;
 * Journel and Huijbregts 1978). Its posterior is the draws of the fit, weighted by their likelihood with f as
 * the simulator over that of the fit; theta_c is one of its draws, so that weights which collapse leave
 * theta_c alone: then all of the variance is the emulator's. */
#include "math/linalg.h"
#include "math/rng.h"
#include "math/stat/stat.h"
#include "model/model.h"
#include <math.h>
#include <string.h>

enum { L = ATVI_LANES, G = ATVI_EM_GROUP };
/* Functions that are drawn: the root mean square of what they move has an error of a tenth. */
enum { FIELDS = 64 };
/* Directions in which the error varies by less than this share of its variance over the draws are left
 * out. */
static const double REST = 1e-6;

/* The error of an emulator over the draws, cov = factor factor', in sills. */
typedef struct {
  /* [B][B]; NULL: not used */
  double *cov;
  /* [B][rank] */
  double *factor;
  atvi_idx rank;
} spread;

/* One process at all draws. */
typedef struct {
  /* [n_used][B] */
  double *mean;
  /* [2 n_term][B] */
  double *par;
  /* [n_used] */
  double *value;
  /* [n_used] correlation of the error with that in the place before */
  double *decay;
  /* [n_used][L] its errors at the draws that lead to this block of functions */
  double *known;
} view;

/* Scratch of one thread. */
typedef struct {
  /* [n] one per process */
  atvi_markov_work **work;
  /* [longest][L] */
  double *resid;
  /* [2 ATVI_MARKOV_TERMS][L] */
  double *lane;
} desk;

typedef struct {
  atvi_ctx *ctx;
  /* of results, and of all else */
  atvi_pool *keep, *pool;
  const atvi_model *m;
  atvi_model_work *work;
  /* draws, and places of the longest process */
  atvi_idx B, longest;
  const double *theta, *weight;
  uint64_t seed;
  /* [n_emulator] */
  spread *spread;
  /* [n] one per process */
  view *view;
  /* [B] log likelihood of the fit, of processes with an emulator alone */
  double *lik;
  /* [B] the same with a function as the simulator; then weights */
  double *with;
  /* [threads] */
  desk *desk;
  /* [B][longest] scratch */
  double *noise;
  /* [B][n_used] the error of a function at the draws */
  double *error;
} looking;

static bool concerned(const atvi_process *p) { return p->emulator >= 0 && p->n_used > 0 && p->own >= 0; }

static void *take(const looking *k, atvi_idx n, size_t size) {
  return atvi_pool_take(k->pool, (size_t)n + 1, size);
}

/* ---- the draws ---- */

static atvi_status spread_over(looking *k, atvi_idx j, spread *s) {
  atvi_emulation *em = &k->m->emulated->emulator[j];
  atvi_idx B = k->B, d = em->d;
  atvi_dossier_near *near = &em->dossier.near;
  double *x = take(k, d * B, sizeof *x), *w = take(k, B, sizeof *w),
         *vectors = take(k, B * B, sizeof *vectors);
  double *room = take(k, (atvi_idx)atvi_math_blas_eigen_work(B), sizeof *room);
  s->cov = take(k, B * B, sizeof *s->cov);
  s->factor = take(k, B * B, sizeof *s->factor);
  near->run = atvi_pool_take(k->keep, (size_t)em->dossier.r.runs.n, sizeof *near->run);
  if (!near->run || atvi_pool_failed(k->pool)) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < d; i++)
    for (atvi_idx b = 0; b < B; b++)
      x[i * B + b] = atvi_model_emulated_axis_x(&em->axis[i], k->theta[em->input[i] * B + b]);
  ATVI_TRY(atvi_gp_emulator_joint(k->ctx, em->em, B, x, k->weight, s->cov, near->run));
  memcpy(vectors, s->cov, (size_t)(B * B) * sizeof *vectors);
  near->share = 0;
  for (atvi_idx b = 0; b < B; b++) near->share += k->weight[b] * s->cov[b * B + b];
  if (!atvi_math_blas_eigen(B, vectors, w, room))
    return ATVI_FAIL(k->ctx, ATVI_EDATA, "emulator: its error at the draws is not finite");
  double all = 0, left = 0;
  for (atvi_idx b = 0; b < B; b++) all += fmax(0, w[b]);
  atvi_idx first = 0;
  while (first < B - 1 && left + fmax(0, w[first]) < REST * all) left += fmax(0, w[first++]);
  s->rank = B - first;
  for (atvi_idx r = 0; r < s->rank; r++)
    for (atvi_idx b = 0; b < B; b++)
      s->factor[b * s->rank + r] = sqrt(fmax(0, w[first + r])) * vectors[(first + r) * B + b];
  return ATVI_OK;
}

static atvi_status view_new(looking *k, const atvi_process *p, view *v) {
  const atvi_emulation *em = &k->m->emulated->emulator[p->emulator];
  v->mean = take(k, p->n_used * k->B, sizeof *v->mean);
  v->par = take(k, 2 * p->n_term * k->B, sizeof *v->par);
  v->value = take(k, p->n_used, sizeof *v->value);
  v->decay = take(k, p->n_used, sizeof *v->decay);
  v->known = take(k, p->n_used * L, sizeof *v->known);
  if (atvi_pool_failed(k->pool)) return ATVI_ENOMEM;
  for (atvi_idx u = 0; u < p->n_used; u++) {
    v->value[u] = p->value[p->used_at[u]];
    double gap = u == 0 || !em->time ? 0 : em->time[p->em_used[u]] - em->time[p->em_used[u - 1]];
    v->decay[u] = u == 0 ? 0 : exp(-gap / p->number[p->own][1]);
  }
  return ATVI_OK;
}

static atvi_status desk_new(looking *k, desk *s) {
  const atvi_emulated *e = k->m->emulated;
  s->work = take(k, e->n, sizeof *s->work);
  s->resid = take(k, k->longest * L, sizeof *s->resid);
  s->lane = take(k, 2 * ATVI_MARKOV_TERMS * L, sizeof *s->lane);
  if (atvi_pool_failed(k->pool)) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < e->n; i++)
    if (concerned(&e->process[i]))
      ATVI_TRY(atvi_gp_markov_work_new(e->process[i].markov, k->ctx, &s->work[i]));
  return ATVI_OK;
}

/* Log densities of a process, added for all draws. error[B][n_used] NULL: of the fit, else with a simulator
 * that is the emulator's mean and that error. */
typedef struct {
  const looking *k;
  atvi_idx at;
  const double *error;
  double *to;
} densities;

/* At L draws. */
static void density_item(void *arg, atvi_idx group, int worker) {
  const densities *a = arg;
  const looking *k = a->k;
  const atvi_process *p = &k->m->emulated->process[a->at];
  const view *v = &k->view[a->at];
  const desk *s = &k->desk[worker];
  atvi_idx first = group * L;
  double log_density[L];
  for (int l = 0; l < L; l++) {
    atvi_idx b = first + l < k->B ? first + l : k->B - 1;
    for (int t = 0; t < 2 * p->n_term; t++) s->lane[t * L + l] = v->par[t * k->B + b];
    if (a->error) s->lane[2 * p->own * L + l] = 0;
    for (atvi_idx u = 0; u < p->n_used; u++)
      s->resid[p->used_at[u] * L + l] =
          v->value[u] - v->mean[u * k->B + b] - (a->error ? a->error[b * p->n_used + u] : 0);
  }
  atvi_gp_markov_eval(p->markov, s->work[a->at], s->lane, s->resid, log_density, NULL, NULL);
  for (int l = 0; l < L && first + l < k->B; l++) a->to[first + l] += log_density[l];
}

static void add_density(const looking *k, atvi_idx at, const double *error, double *to) {
  atvi_parallel(k->ctx, (k->B + L - 1) / L, density_item, &(densities){k, at, error, to});
}

/* What every process is at every draw, and the likelihood of the fit. */
static void visit(looking *k) {
  const atvi_emulated *e = k->m->emulated;
  for (atvi_idx b = 0; b < k->B; b += L) {
    if (b % G == 0) atvi_model_emulated_begin(e, k->work->emulated, false, k->B, k->theta, b);
    atvi_outcome outcome[L];
    int real = atvi_model_load_lanes(k->m, k->work, k->B, k->theta, b);
    atvi_model_solve(k->m, k->work, false, outcome);
    for (atvi_idx i = 0; i < e->n; i++) {
      const atvi_process *p = &e->process[i];
      const view *v = &k->view[i];
      if (!concerned(p)) continue;
      const double *par =
          atvi_model_emulated_terms(e, k->work->emulated, i, (int)(b % G), k->work->arg, k->desk->resid);
      for (int l = 0; l < real; l++) {
        for (int t = 0; t < 2 * p->n_term; t++) v->par[t * k->B + b + l] = par[t * L + l];
        for (atvi_idx u = 0; u < p->n_used; u++) v->mean[u * k->B + b + l] = k->desk->resid[u * L + l];
      }
    }
  }
  memset(k->lik, 0, (size_t)k->B * sizeof *k->lik);
  for (atvi_idx i = 0; i < e->n; i++)
    if (concerned(&e->process[i])) add_density(k, i, NULL, k->lik);
}

/* Standard deviations where the posterior is: of the emulator's error, and of all that the fit adds to it. */
static void measure(looking *k) {
  const atvi_emulated *e = k->m->emulated;
  for (atvi_idx j = 0; j < e->n_emulator; j++) {
    double own = 0, rest = 0, n = 0;
    for (atvi_idx i = 0; i < e->n; i++) {
      const atvi_process *p = &e->process[i];
      if (!concerned(p) || p->emulator != j) continue;
      for (int t = 0; t < p->n_term; t++)
        for (atvi_idx b = 0; b < k->B; b++)
          *(t == p->own ? &own : &rest) +=
              (double)p->n_used * k->weight[b] * k->view[i].par[2 * t * k->B + b];
      n += (double)p->n_used;
    }
    if (n > 0)
      e->emulator[j].dossier.near.sd = sqrt(own / n), e->emulator[j].dossier.near.noise = sqrt(rest / n);
  }
}

/* ---- functions ---- */

/* The draw that leads to function c: systematic in the weights. */
static atvi_idx leading(const looking *k, atvi_idx c) {
  double at = ((double)c + 0.5) / FIELDS, sum = 0;
  atvi_idx b = 0;
  while (b < k->B - 1 && (sum += k->weight[b]) < at) b++;
  return b;
}

/* Errors given the data at the draws that lead to functions first .. first + L - 1. */
static void known_errors(looking *k, atvi_idx at, atvi_idx first) {
  const atvi_process *p = &k->m->emulated->process[at];
  const view *v = &k->view[at];
  const desk *s = k->desk;
  atvi_rng r = atvi_math_rng_at(k->seed, ATVI_STREAM_EMULATOR, (uint32_t)(at + 1), 0);
  for (int l = 0; l < L; l++) {
    atvi_idx b = leading(k, first + l);
    for (int t = 0; t < 2 * p->n_term; t++) s->lane[t * L + l] = v->par[t * k->B + b];
    for (atvi_idx u = 0; u < p->n_used; u++)
      s->resid[p->used_at[u] * L + l] = v->value[u] - v->mean[u * k->B + b];
  }
  atvi_gp_markov_draw(p->markov, s->work[at], s->lane, s->resid, atvi_math_rng_bits(&r), first, k->noise);
  const double *drawn = atvi_gp_markov_drawn(s->work[at]) + (size_t)(p->own * p->n) * L;
  for (atvi_idx u = 0; u < p->n_used; u++)
    for (int l = 0; l < L; l++) v->known[u * L + l] = drawn[p->used_at[u] * L + l];
}

/* A draw of the error, function c of process `at`, in parts that are the same for any number of threads. */
typedef struct {
  const looking *k;
  const view *v;
  const spread *s;
  atvi_idx at, c, n;
  double sd;
} drawing;

enum { ROWS = 8 * L }; /* draws whose errors are one product of matrices */

/* L rows of k->noise, with the correlation in time of the view. */
static void noise_item(void *arg, atvi_idx group, int worker) {
  const drawing *j = arg;
  const looking *k = j->k;
  atvi_idx first = group * L, drawn = 0;
  atvi_rng rng =
      atvi_math_rng_at(k->seed, ATVI_STREAM_EMULATOR + 1 + (uint32_t)j->at, (uint32_t)j->c, (uint32_t)first);
  double x[L] = {0}, z[2 * L];
  (void)worker;
  for (atvi_idx u = 0; u < j->n; u++) {
    double a = j->v->decay[u], by = sqrt((1 - a) * (1 + a)) * j->sd;
    bool moves = u == 0 || a != 1;
    if (moves && drawn % 2 == 0) atvi_math_rng_normals(&rng, drawn, 2, z);
    for (int l = 0; l < L; l++) {
      if (moves) x[l] = a * x[l] + by * z[drawn % 2 * L + l];
      if (first + l < j->s->rank) k->noise[(first + l) * j->n + u] = x[l];
    }
    drawn += moves;
  }
}

static void mix_item(void *arg, atvi_idx part, int worker) {
  const drawing *j = arg;
  const looking *k = j->k;
  atvi_idx first = part * ROWS, rows = k->B - first < ROWS ? k->B - first : ROWS, rank = j->s->rank;
  (void)worker;
  atvi_math_blas_mul(rows, j->n, rank, j->s->factor + first * rank, rank, k->noise, j->n, 0,
                     k->error + first * j->n, j->n);
}

/* k->error[B][n_used]: that of function c, which is number l of its block. */
static void draw_errors(looking *k, atvi_idx at, atvi_idx c, int l) {
  const atvi_process *p = &k->m->emulated->process[at];
  const view *v = &k->view[at];
  const spread *s = &k->spread[p->emulator];
  atvi_idx n = p->n_used, lead = leading(k, c);
  double own = s->cov[lead * k->B + lead], sd = own > 0 ? sqrt(v->par[2 * p->own * k->B + lead] / own) : 0;
  drawing j = {k, v, s, at, c, n, sd};
  atvi_parallel(k->ctx, (s->rank + L - 1) / L, noise_item, &j);
  atvi_parallel(k->ctx, (k->B + ROWS - 1) / ROWS, mix_item, &j);
  double *gap = k->noise;
  for (atvi_idx u = 0; u < n; u++) gap[u] = v->known[u * L + l] - k->error[lead * n + u];
  for (atvi_idx b = 0; own > 0 && b < k->B; b++) {
    double share = s->cov[b * k->B + lead] / own;
    for (atvi_idx u = 0; u < n; u++) k->error[b * n + u] += share * gap[u];
  }
}

/* ---- posteriors ---- */

/* Weights of the draws under k->with, in its place; returns what they are worth, in draws. lead: where all
 * fail, the draw that is left; -1: none. */
static double weigh(looking *k, atvi_idx lead) {
  double most = -HUGE_VAL, sum = 0, squares = 0, *w = k->with;
  for (atvi_idx b = 0; b < k->B; b++) {
    w[b] -= k->lik[b];
    if (isnan(w[b])) w[b] = -HUGE_VAL;
    most = fmax(most, w[b]);
  }
  for (atvi_idx b = 0; b < k->B; b++) {
    w[b] = isinf(most) ? b == lead : k->weight[b] * exp(w[b] - most);
    sum += w[b], squares += w[b] * w[b];
  }
  for (atvi_idx b = 0; b < k->B; b++) w[b] /= sum;
  return sum * sum / squares;
}

static void moments(const looking *k, atvi_idx i, const double *w, double *mean, double *var) {
  const double *x = k->theta + i * k->B;
  *mean = *var = 0;
  for (atvi_idx b = 0; b < k->B; b++) *mean += w[b] * x[b];
  for (atvi_idx b = 0; b < k->B; b++) *var += w[b] * (x[b] - *mean) * (x[b] - *mean);
}

/* Squared error of the difference of a mean with these weights and that of the fit, which are of the same
 * draws. */
static double chance(const looking *k, atvi_idx i, const double *w, double mean, double whole) {
  const double *x = k->theta + i * k->B;
  double sum = 0;
  for (atvi_idx b = 0; b < k->B; b++) {
    double part = w[b] * (x[b] - mean) - k->weight[b] * (x[b] - whole);
    sum += part * part;
  }
  return sum;
}

static void add_function(looking *k, atvi_emulated_moves *out) {
  for (atvi_idx i = 0; i < out->n; i++) {
    double mean, var, whole, all;
    moments(k, i, k->weight, &whole, &all);
    moments(k, i, k->with, &mean, &var);
    if (!(all > 0)) continue;
    out->moved[i] += ((mean - whole) * (mean - whole) - chance(k, i, k->with, mean, whole)) / all / FIELDS;
    out->sd[i] += var / all / FIELDS;
  }
}

static void without_error(looking *k, atvi_emulated_moves *out) {
  const atvi_emulated *e = k->m->emulated;
  memset(k->with, 0, (size_t)k->B * sizeof *k->with);
  memset(k->error, 0, (size_t)(k->B * k->longest) * sizeof *k->error);
  for (atvi_idx i = 0; i < e->n; i++)
    if (concerned(&e->process[i])) add_density(k, i, k->error, k->with);
  out->zero_worth = weigh(k, -1);
  for (atvi_idx i = 0; i < out->n; i++) {
    double mean, var, whole, all;
    moments(k, i, k->weight, &whole, &all);
    moments(k, i, k->with, &mean, &var);
    out->zero[i] = all > 0 ? (mean - whole) / sqrt(all) : 0;
  }
}

static void with_functions(looking *k, atvi_emulated_moves *out) {
  const atvi_emulated *e = k->m->emulated;
  double worth[FIELDS], room[2 * FIELDS];
  for (atvi_idx c = 0; c < FIELDS; c++) {
    memset(k->with, 0, (size_t)k->B * sizeof *k->with);
    for (atvi_idx i = 0; i < e->n; i++) {
      if (!concerned(&e->process[i])) continue;
      if (c % L == 0) known_errors(k, i, c);
      draw_errors(k, i, c, (int)(c % L));
      add_density(k, i, k->error, k->with);
    }
    worth[c] = weigh(k, leading(k, c));
    add_function(k, out);
  }
  for (atvi_idx i = 0; i < out->n; i++) {
    out->moved[i] = sqrt(fmax(0, out->moved[i]));
    out->sd[i] = sqrt(out->sd[i]);
  }
  atvi_math_sort(FIELDS, worth, NULL, room);
  out->worth = worth[FIELDS / 2];
}

/* ---- */

static void forget(void *user, atvi_idx i) { ((double *)user)[i] = NAN; }

/* A parameter of the error itself means nothing without it. */
static atvi_status leave_sills(const looking *k, atvi_emulated_moves *out) {
  const atvi_emulated *e = k->m->emulated;
  for (atvi_idx i = 0; i < e->n; i++) {
    const atvi_process *p = &e->process[i];
    if (!concerned(p) || p->arg[p->own][0] < 0) continue;
    for (int what = 0; what < 3; what++)
      if (!atvi_model_inputs(k->m, e->arg[p->arg[p->own][0]], ATVI_IN_PARAM, forget,
                             what == 0   ? out->moved
                             : what == 1 ? out->zero
                                         : out->sd))
        return ATVI_ENOMEM;
  }
  return ATVI_OK;
}

static atvi_status prepare(looking *k, atvi_emulated_moves *out) {
  const atvi_emulated *e = k->m->emulated;
  atvi_idx n = k->m->target.d;
  k->spread = take(k, e->n_emulator, sizeof *k->spread);
  k->view = take(k, e->n, sizeof *k->view);
  if (!k->spread || !k->view) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < e->n; i++)
    k->longest = e->process[i].n > k->longest ? e->process[i].n : k->longest;
  k->lik = take(k, k->B, sizeof *k->lik);
  k->with = take(k, k->B, sizeof *k->with);
  k->desk = take(k, atvi_ctx_threads(k->ctx), sizeof *k->desk);
  k->noise = take(k, (k->B > L ? k->B : L) * k->longest, sizeof *k->noise);
  k->error = take(k, k->B * k->longest, sizeof *k->error);
  *out = (atvi_emulated_moves){.n = n, .n_draw = k->B, .n_function = FIELDS};
  out->moved = atvi_pool_take(k->keep, (size_t)n + 1, sizeof *out->moved);
  out->zero = atvi_pool_take(k->keep, (size_t)n + 1, sizeof *out->zero);
  out->sd = atvi_pool_take(k->keep, (size_t)n + 1, sizeof *out->sd);
  if (atvi_pool_failed(k->pool) || atvi_pool_failed(k->keep)) return ATVI_ENOMEM;
  for (int t = 0; t < atvi_ctx_threads(k->ctx); t++) ATVI_TRY(desk_new(k, &k->desk[t]));
  for (atvi_idx i = 0; i < e->n; i++) {
    const atvi_process *p = &e->process[i];
    if (!concerned(p)) continue;
    ATVI_TRY(view_new(k, p, &k->view[i]));
    if (!k->spread[p->emulator].cov) ATVI_TRY(spread_over(k, p->emulator, &k->spread[p->emulator]));
  }
  return ATVI_OK;
}

/* What the runs say where the posterior is. */
static atvi_status judge(looking *k) {
  const atvi_emulated *e = k->m->emulated;
  measure(k);
  for (atvi_idx j = 0; j < e->n_emulator; j++)
    if (k->spread[j].cov) ATVI_TRY(atvi_model_dossier_near(k->keep, &e->emulator[j].dossier));
  return ATVI_OK;
}

static atvi_status look(looking *k, atvi_emulated_moves *out) {
  ATVI_TRY(prepare(k, out));
  visit(k);
  ATVI_TRY(judge(k));
  without_error(k, out);
  with_functions(k, out);
  return leave_sills(k, out);
}

atvi_status atvi_model_emulated_moves(atvi_pool *pool, const atvi_model *m, uint64_t seed, atvi_idx B,
                                      const double *theta, const double *weight, atvi_emulated_moves *out) {
  atvi_ctx *ctx = atvi_pool_ctx(pool);
  looking k = {.ctx = ctx, .keep = pool, .m = m, .B = B, .theta = theta, .weight = weight, .seed = seed};
  void *work = NULL;
  *out = (atvi_emulated_moves){0};
  ATVI_TRY(atvi_pool_new(ctx, &k.pool));
  atvi_status status = atvi_model_work_new(m, ctx, &work);
  k.work = work;
  if (status == ATVI_OK) status = look(&k, out);
  if (status != ATVI_OK) *out = (atvi_emulated_moves){0};
  for (int t = 0; k.desk && t < atvi_ctx_threads(ctx); t++)
    for (atvi_idx i = 0; k.desk[t].work && i < m->emulated->n; i++)
      atvi_gp_markov_work_free(k.desk[t].work[i]);
  atvi_model_work_free(work);
  atvi_pool_free(k.pool);
  return status;
}
