/* SPDX-License-Identifier: MIT */
/* Distributions as they are written: names, other ways to give their arguments, and their densities as
 * functions.
 *
 * A link is a distribution under a name of its own with arguments on another scale: bernoulli_logit(x) is
 * binomial(1, invlogit(x)). */
#include "lang/elab.h"
#include <math.h>
#include <string.h>

typedef enum { BERNOULLI, BERNOULLI_LOGIT, BINOMIAL_LOGIT, POISSON_LOG, NEGBIN_LOG, CHI_SQUARE } link_kind;

typedef struct {
  const char *name;
  link_kind kind;
  atvi_dist dist;
  int n_arg;
  const char *arg[2];
} link;

static const link LINKS[] = {
    {"bernoulli", BERNOULLI, ATVI_DIST_BINOMIAL, 1, {"p"}},
    {"bernoulli_logit", BERNOULLI_LOGIT, ATVI_DIST_BINOMIAL, 1, {"log odds"}},
    {"binomial_logit", BINOMIAL_LOGIT, ATVI_DIST_BINOMIAL, 2, {"n", "log odds"}},
    {"poisson_log", POISSON_LOG, ATVI_DIST_POISSON, 1, {"log mean"}},
    {"negbin_log", NEGBIN_LOG, ATVI_DIST_NEGBIN, 2, {"log mean", "size"}},
    {"neg_binomial_2_log", NEGBIN_LOG, ATVI_DIST_NEGBIN, 2, {"log mean", "size"}},
    {"chi_square", CHI_SQUARE, ATVI_DIST_GAMMA, 1, {"df"}},
};

static const link *find_link(const char *name, size_t n) {
  for (size_t k = 0; k < sizeof LINKS / sizeof *LINKS; k++)
    if (strlen(LINKS[k].name) == n && memcmp(LINKS[k].name, name, n) == 0) return &LINKS[k];
  return NULL;
}

/* x[]: what was written; arg[]: those of the distribution. */
static void apply(atvi_graph *g, const link *l, const atvi_node *x, atvi_node *arg) {
  atvi_node one = atvi_graph_const(g, 1);
  switch (l->kind) {
  case BERNOULLI: arg[0] = one, arg[1] = x[0]; break;
  case BERNOULLI_LOGIT: arg[0] = one, arg[1] = atvi_graph_op1(g, ATVI_OP_INVLOGIT, x[0]); break;
  case BINOMIAL_LOGIT: arg[0] = x[0], arg[1] = atvi_graph_op1(g, ATVI_OP_INVLOGIT, x[1]); break;
  case POISSON_LOG: arg[0] = atvi_graph_op1(g, ATVI_OP_EXP, x[0]); break;
  case NEGBIN_LOG: arg[0] = atvi_graph_op1(g, ATVI_OP_EXP, x[0]), arg[1] = x[1]; break;
  case CHI_SQUARE:
    arg[0] = atvi_graph_op2(g, ATVI_OP_MUL, atvi_graph_const(g, 0.5), x[0]);
    arg[1] = atvi_graph_const(g, 0.5);
    break;
  }
}

/* The names of all that can stand there, between commas. */
static const char *names(elab *e, bool prior) {
  const char *all = prior ? "priors: flat" : "observations: ", *comma = prior ? ", " : "";
  for (int d = 0; d < ATVI_DIST_COUNT && all; d++) {
    const atvi_dist_info *info = atvi_lang_dist_get((atvi_dist)d);
    if (!(prior ? info->prior : info->observation)) continue;
    all = atvi_pool_printf(e->s->pool, "%s%s%s", all, comma, info->name);
    comma = ", ";
  }
  if (all && !prior)
    all = atvi_pool_printf(
        e->s->pool, "%s; or a sum of processes: emulator, exponential, matern32, matern52, white", all);
  return all ? all : "";
}

/* Whether a distribution takes n arguments, after as many others; else how it is written. */
static bool check_n(elab *e, const char *name, int n_arg, const char *const *arg, bool value, atvi_idx n,
                    atvi_place at) {
  atvi_idx want = n_arg + value;
  if (n == want) return true;
  const char *form = atvi_pool_printf(e->s->pool, "write %s(%s", name, value ? "value" : "");
  for (int k = 0; k < n_arg && form; k++)
    form = atvi_pool_printf(e->s->pool, "%s%s%s", form, k || value ? ", " : "", arg[k]);
  form = form ? atvi_pool_printf(e->s->pool, "%s)", form) : "";
  atvi_lang_error(e->s, at, form ? form : "", "'%s' takes %td %s, not %td", name, want,
                  want == 1 ? "argument" : "arguments", n);
  return false;
}

bool atvi_lang_dist(elab *e, const ast_stmt *st, bool prior, atvi_dist *dist) {
  const char *name = st->dist.name->text;
  const link *l = find_link(name, strlen(name));
  int found = l ? (int)l->dist : atvi_lang_dist_find(name, strlen(name));
  if (found < 0) {
    ast_guess g = {.text = name};
    for (int d = 0; d < ATVI_DIST_COUNT; d++) atvi_lang_guess(&g, atvi_lang_dist_get((atvi_dist)d)->name);
    for (int k = 0; !prior && atvi_lang_process_name(k); k++) atvi_lang_guess(&g, atvi_lang_process_name(k));
    atvi_lang_error(e->s, st->dist.at,
                    g.best ? atvi_pool_printf(e->s->pool, "did you mean '%s'?", g.best) : names(e, prior),
                    "unknown distribution '%.60s'", name);
    return false;
  }
  *dist = (atvi_dist)found;
  const atvi_dist_info *info = atvi_lang_dist_get(*dist);
  if (!(prior ? info->prior : info->observation)) {
    atvi_lang_error(e->s, st->dist.at, names(e, prior), "'%s' cannot be %s", name,
                    prior ? "a prior" : "the distribution of data");
    return false;
  }
  return check_n(e, name, l ? l->n_arg : info->n_arg, l ? l->arg : info->arg, false, st->dist.args->n,
                 st->dist.at);
}

static bool check_args(elab *e, const ast_stmt *st, atvi_dist dist, const atvi_node *arg) {
  static const char *const WANT[] = {"finite", "above 0", "0 or more", "a whole number, 0 or more",
                                     "between 0 and 1"};
  const atvi_dist_info *info = atvi_lang_dist_get(dist);
  double v[ATVI_DIST_ARGS] = {NAN, NAN, NAN};
  for (int k = 0; k < info->n_arg; k++) {
    if (!atvi_lang_constant(e, arg[k], &v[k]) || atvi_lang_dist_arg_ok(dist, k, v[k])) continue;
    atvi_idx at = k < st->dist.args->n ? k : st->dist.args->n - 1;
    atvi_lang_error(e->s, st->dist.args->arg[at]->at, "change it to a value that is allowed",
                    "the %s of %s must be %s, not %g", info->arg[k], info->name, WANT[info->range[k]], v[k]);
    return false;
  }
  if (dist != ATVI_DIST_UNIFORM || !(v[0] >= v[1])) return true;
  atvi_lang_error(e->s, st->dist.args->arg[0]->at, "write uniform(lower, upper)",
                  "the lower end %g is not below the upper end %g", v[0], v[1]);
  return false;
}

bool atvi_lang_dist_args(elab *e, const elab_env *v, const ast_stmt *st, atvi_dist dist, atvi_node *arg) {
  const char *name = st->dist.name->text;
  const link *l = find_link(name, strlen(name));
  atvi_node x[ATVI_DIST_ARGS] = {0};
  for (atvi_idx a = 0; a < st->dist.args->n; a++)
    if ((x[a] = atvi_lang_eval(e, v, st->dist.args->arg[a])) == ATVI_NODE_NONE) return false;
  if (l)
    apply(e->g, l, x, arg);
  else
    for (atvi_idx a = 0; a < st->dist.args->n; a++) arg[a] = x[a];
  return check_args(e, st, dist, arg);
}

/* ---- densities as functions ---- */

static bool ends_with(const char *text, const char *end, size_t *n) {
  size_t all = strlen(text), last = strlen(end);
  if (all <= last || strcmp(text + all - last, end) != 0) return false;
  *n = all - last;
  return true;
}

/* ---- functions that are short for others; their names are not reserved ---- */

typedef enum {
  INV_LOGIT,
  FABS,
  SQUARE,
  INV,
  LOG1M,
  LOG1P_EXP,
  LOG_INV_LOGIT,
  LOG1M_EXP,
  INV_CLOGLOG,
  FMIN,
  FMAX,
  LBETA,
  LCHOOSE,
  LOG_DIFF_EXP
} short_kind;

static const struct {
  const char *name;
  short_kind kind;
  int n;
} SHORT[] = {
    {"inv_logit", INV_LOGIT, 1},
    {"fabs", FABS, 1},
    {"square", SQUARE, 1},
    {"inv", INV, 1},
    {"log1m", LOG1M, 1},
    {"log1p_exp", LOG1P_EXP, 1},
    {"log_inv_logit", LOG_INV_LOGIT, 1},
    {"log1m_exp", LOG1M_EXP, 1},
    {"inv_cloglog", INV_CLOGLOG, 1},
    {"fmin", FMIN, 2},
    {"fmax", FMAX, 2},
    {"lbeta", LBETA, 2},
    {"lchoose", LCHOOSE, 2},
    {"log_diff_exp", LOG_DIFF_EXP, 2},
};

static atvi_node make_short(atvi_graph *g, short_kind kind, atvi_node a, atvi_node b) {
  atvi_node zero = atvi_graph_const(g, 0), one = atvi_graph_const(g, 1);
#define OP1(op, x) atvi_graph_op1(g, ATVI_OP_##op, x)
#define OP2(op, x, y) atvi_graph_op2(g, ATVI_OP_##op, x, y)
  switch (kind) {
  case INV_LOGIT: return OP1(INVLOGIT, a);
  case FABS: return OP1(ABS, a);
  case SQUARE: return OP2(MUL, a, a);
  case INV: return OP2(DIV, one, a);
  case LOG1M: return OP1(LOG1P, OP1(NEG, a));
  case LOG1P_EXP: return OP2(LOG_ADD, zero, a);
  case LOG_INV_LOGIT: return OP1(NEG, OP2(LOG_ADD, zero, OP1(NEG, a)));
  case LOG1M_EXP: return OP1(LOG, OP1(NEG, OP1(EXPM1, a)));
  case INV_CLOGLOG: return OP2(SUB, one, OP1(EXP, OP1(NEG, OP1(EXP, a))));
  case FMIN: return OP2(MIN, a, b);
  case FMAX: return OP2(MAX, a, b);
  case LBETA: return OP2(SUB, OP1(LGAMMA, b), OP2(LRISE, a, b));
  case LCHOOSE:
    return OP2(SUB, OP1(LGAMMA, OP2(ADD, a, one)),
               OP2(ADD, OP1(LGAMMA, OP2(ADD, b, one)), OP1(LGAMMA, OP2(ADD, OP2(SUB, a, b), one))));
  default: return OP2(ADD, a, OP1(LOG, OP1(NEG, OP1(EXPM1, OP2(SUB, b, a))))); /* LOG_DIFF_EXP */
  }
#undef OP1
#undef OP2
}

static atvi_node short_call(elab *e, const elab_env *v, const ast_expr *x, bool *found) {
  for (size_t k = 0; k < sizeof SHORT / sizeof *SHORT; k++) {
    if (strcmp(x->word->text, SHORT[k].name) != 0) continue;
    atvi_node a[2] = {ATVI_NODE_NONE, ATVI_NODE_NONE};
    *found = true;
    if (x->n != SHORT[k].n) {
      atvi_lang_error(e->s, x->at, "separate arguments with commas", "'%.60s' takes %d %s, not %td",
                      x->word->text, SHORT[k].n, SHORT[k].n == 1 ? "argument" : "arguments", x->n);
      return ATVI_NODE_NONE;
    }
    for (atvi_idx i = 0; i < x->n; i++)
      if ((a[i] = atvi_lang_eval(e, v, x->arg[i])) == ATVI_NODE_NONE) return ATVI_NODE_NONE;
    return make_short(e->g, SHORT[k].kind, a[0], a[1]);
  }
  return ATVI_NODE_NONE;
}

atvi_node atvi_lang_density(elab *e, const elab_env *v, const ast_expr *x, bool *found) {
  const char *name = x->word->text;
  size_t n = 0;
  int tail = ends_with(name, "_lpdf", &n) || ends_with(name, "_lpmf", &n) ? 0
             : ends_with(name, "_lcdf", &n)                               ? -1
             : ends_with(name, "_lccdf", &n)                              ? 1
                                                                          : 2;
  const link *l = tail < 2 ? find_link(name, n) : NULL;
  int dist = tail == 2 ? -1 : l ? (int)l->dist : atvi_lang_dist_find(name, n);
  *found = dist >= 0;
  if (!*found) return short_call(e, v, x, found);
  const atvi_dist_info *info = atvi_lang_dist_get((atvi_dist)dist);
  atvi_node a[ATVI_DIST_ARGS + 1] = {0}, arg[ATVI_DIST_ARGS];
  if (!check_n(e, name, l ? l->n_arg : info->n_arg, l ? l->arg : info->arg, true, x->n, x->at))
    return ATVI_NODE_NONE;
  for (atvi_idx k = 0; k < x->n; k++)
    if ((a[k] = atvi_lang_eval(e, v, x->arg[k])) == ATVI_NODE_NONE) return ATVI_NODE_NONE;
  if (l)
    apply(e->g, l, a + 1, arg);
  else
    for (int k = 0; k < info->n_arg; k++) arg[k] = a[k + 1];
  atvi_node y = tail == 0  ? atvi_lang_dist_lpdf(e->g, (atvi_dist)dist, a[0], arg, NULL)
                : tail < 0 ? atvi_lang_dist_lcdf(e->g, (atvi_dist)dist, a[0], arg)
                           : atvi_lang_dist_lccdf(e->g, (atvi_dist)dist, a[0], arg);
  if (y == ATVI_NODE_NONE && !atvi_graph_failed(e->g))
    atvi_lang_error(e->s, x->at, "the density, with _lpdf, is known",
                    "the distribution function of %s is not known here", info->name);
  return y;
}
