/* SPDX-License-Identifier: MIT */
#include "infer/chains.h"
#include "infer/deliver.h"
#include "math/stat/stat.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { KEEP_LEAST = 4 }; /* states per chain without which nothing is delivered */
#define FEW_STARTS 0.5   /* share of evaluable prior draws below which the user is told */

/* ---- agreement ---- */

void atvi_criteria_carve(atvi_arena *a, atvi_criteria *j, atvi_idx d, atvi_idx m, atvi_idx n) {
  ATVI_TAKE(a, j->quality, d);
  ATVI_TAKE(a, j->work, j->workers);
  for (int i = 0; i < j->workers; i++) {
    double *room;
    ATVI_TAKE(a, room, (size_t)(m * n) + atvi_stat_work(m, n));
    if (a->base) j->work[i] = room;
  }
}

static atvi_quality judge_one(const atvi_chains *c, const atvi_criteria *j, atvi_idx param, int worker) {
  atvi_idx n = c->last - c->first;
  double *x = j->work[worker], *work = x + c->m * n;
  for (atvi_idx k = 0; k < c->m; k++)
    memcpy(x + k * n, c->store + (param * c->m + k) * c->room + c->first, (size_t)n * sizeof *x);
  atvi_convergence v = atvi_converge(c->m, n, x, work);
  return (atvi_quality){.rhat = v.rhat,
                        .ess = isnan(v.ess_tail) || v.ess_tail < v.ess_bulk ? v.ess_tail : v.ess_bulk};
}

typedef struct {
  const atvi_chains *c;
  atvi_criteria *j;
} judge_job;

static void judge_item(void *arg, atvi_idx param, int worker) {
  const judge_job *job = arg;
  job->j->quality[param] = judge_one(job->c, job->j, param, worker);
}

/* How far from the criteria: share of the way, 1 and more is there. */
static double share_of(const atvi_criteria *j, atvi_quality q) {
  double rhat = (j->rhat - 1) / fmax(q.rhat - 1, 1e-9), ess = q.ess / j->ess;
  if (!(q.rhat >= 0) || !(q.ess >= 0)) return 0;
  return fmin(rhat, ess);
}

bool atvi_chains_judge(atvi_ctx *ctx, const atvi_chains *c, atvi_criteria *j, double *share,
                       atvi_quality *worst) {
  atvi_quality q = judge_one(c, j, j->worst, 0);
  *share = share_of(j, q);
  if (*share > 1) {
    judge_job job = {c, j};
    atvi_parallel(ctx, c->d, judge_item, &job);
    for (atvi_idx k = 0; k < c->d; k++) {
      if (share_of(j, j->quality[k]) >= *share) continue;
      *share = share_of(j, j->quality[k]);
      j->worst = k;
    }
    q = j->quality[j->worst];
  }
  *worst = q;
  return *share > 1;
}

void atvi_chains_tell(atvi_ctx *ctx, const char *phase, double done, double elapsed_s, atvi_quality worst) {
  char detail[64] = "";
  if (!isnan(worst.ess)) snprintf(detail, sizeof detail, "R-hat %.3f, ESS %.0f", worst.rhat, worst.ess);
  atvi_tell_about(
      ctx, &(atvi_progress){phase, done, elapsed_s, detail, NAN, NAN, NAN, NAN, NAN, worst.rhat, worst.ess});
}

/* ---- storage ---- */

void atvi_chains_halve(const atvi_chains *c) {
  for (atvi_idx k = 0; k < (c->d + 2) * c->m; k++) {
    double *s = c->store + k * c->room;
    for (atvi_idx i = 0; i < c->room / 2; i++) s[i] = s[2 * i + 1];
  }
}

/* ---- delivery ---- */

atvi_status atvi_chains_deliver(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_chains *c, atvi_end end,
                                atvi_idx done, atvi_draws **out) {
  *out = NULL;
  atvi_idx n = c->last - c->first, m = c->m;
  if (n < KEEP_LEAST)
    return ATVI_FAIL(ctx, end == ATVI_END_STOPPED ? ATVI_ESTOP : ATVI_ELIMIT,
                     "ended after %td iterations per chain: too few to keep any draw", done);
  ATVI_TRY(atvi_deliver_new(ctx, atvi_evaluator_target(ev), m * n, m, false, out));
  for (atvi_idx j = 0; j < c->d + 2; j++) {
    double *to = j < c->d ? (*out)->x + j * m * n : j == c->d ? (*out)->log_prior : (*out)->log_lik;
    for (atvi_idx k = 0; k < m; k++)
      memcpy(to + k * n, c->store + (j * m + k) * c->room + c->first, (size_t)n * sizeof *to);
  }
  atvi_deliver_derived(ev, *out);
  (*out)->chains = true;
  return ATVI_OK;
}

atvi_status atvi_chains_say_starts(const atvi_starts *s, atvi_idx chains, atvi_draws *d) {
  int worst = 0;
  for (int k = 1; k < 6; k++)
    if (s->bad[k] > s->bad[worst]) worst = k;
  if (s->n < chains)
    ATVI_TRY(atvi_draws_say(
        d, ATVI_NOTE, ATVI_CODE_STARTS_FEW,
        "Only %td starting points were found for %td chains, so some chains began at the same point.", s->n,
        chains));
  atvi_idx bad = 0;
  for (int k = 0; k < 6; k++) bad += s->bad[k];
  if ((double)bad > FEW_STARTS * (double)s->tried)
    ATVI_TRY(atvi_draws_say(d, ATVI_NOTE, ATVI_CODE_STARTS_FAILED,
                            "%td of %td draws from the prior could not be evaluated; most often %s.", bad,
                            s->tried, atvi_outcome_word((atvi_outcome)worst)));
  return ATVI_OK;
}
