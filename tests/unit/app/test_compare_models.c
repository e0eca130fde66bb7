/* SPDX-License-Identifier: MIT */
/* Every number by hand. */
#include "app/compare.h"
#include "testing.h"

enum { N = 4, MOST = 3 };

/* elpd of the same four values, which the second fit has in another order. */
static const double TIME[2][N] = {{1, 2, 3, 4}, {3, 1, 4, 2}};
static const double ELPD[2][N] = {{-1.5, -2.25, -0.5, -4}, {-1.5, -1, -3.5, -2.75}};

typedef struct {
  atvi_ctx *ctx;
  atvi_pool *pool;
  atvi_summary summary[MOST];
  atvi_summary_column col[MOST][3];
  atvi_message message[MOST];
  atvi_candidate_value value[MOST][N];
  atvi_candidate of[MOST];
  atvi_candidates c;
} world;

static void set_values(atvi_candidate_value *v, const double *time, const double *elpd) {
  for (int i = 0; i < N; i++)
    v[i] = (atvi_candidate_value){
        "y", time[i], 10 * time[i] + 0.25, true, {.lpd = elpd[i] + 0.125, .elpd_loo = elpd[i], .khat = 0.2}};
}

static void set_fit(world *w, int k, const char *name, double log_evidence, double se) {
  static const char *const columns[] = {"alpha", "gamma", "ratio"};
  static const double mean[2][3] = {{2, 7, 0.5}, {2.75, 3, 0.75}}, sd[2][3] = {{0.5, 1, 0}, {1, 1, 0.25}};
  atvi_summary *s = &w->summary[k];
  for (int i = 0; i < 3; i++)
    w->col[k][i] = (atvi_summary_column){
        .name = columns[i], .mean = mean[k % 2][i], .sd = sd[k % 2][i], .hpd95 = {1, 4}};
  if (k == 1) w->col[k][1].name = "delta";
  *s = (atvi_summary){.n_param = 2, .n_col = 3, .col = w->col[k], .verdict = ATVI_VERDICT_OK};
  s->made = (atvi_made){.method = "atvi", .log_evidence = log_evidence, .log_evidence_se = se};
  set_values(w->value[k], TIME[k % 2], ELPD[k % 2]);
  w->of[k] = (atvi_candidate){.name = name,
                              .dir = name,
                              .model = "m",
                              .method = "atvi",
                              .text = name,
                              .summary = s,
                              .n_draw = 2000,
                              .n_value = N,
                              .value = w->value[k]};
}

static world *world_new(void) {
  static world w;
  w = (world){.ctx = test_ctx()};
  CHECK_OK(atvi_pool_new(w.ctx, &w.pool));
  set_fit(&w, 0, "a", -10.5, 0.3);
  set_fit(&w, 1, "b", -12, 0.4);
  set_fit(&w, 2, "c", -11, 0.1);
  w.c = (atvi_candidates){.n = 2, .of = w.of};
  return &w;
}

static void world_free(world *w) {
  atvi_pool_free(w->pool);
  atvi_ctx_free(w->ctx);
  CHECK_INT(test_live, 0);
}

static const char *text_of(world *w) {
  const char *text;
  CHECK_OK(atvi_app_candidates_text(w->pool, &w->c, &text));
  for (const char *p = text; *p; p += strcspn(p, "\n"), p += *p == '\n')
    CHECK_MSG(strcspn(p, "\n") <= 100, "%.*s", (int)strcspn(p, "\n"), p);
  return text;
}

static const atvi_message *message_of(const world *w, atvi_code code) {
  for (atvi_idx i = 0; i < w->c.n_message; i++)
    if (w->c.message[i].code == code) return &w->c.message[i];
  return NULL;
}

#define CHECK_HAS(text, part) CHECK_MSG(strstr(text, part) != NULL, "'%s' lacks '%s'", text, part)

static void loo_is_paired_over_observations(void) {
  world *w = world_new();
  const atvi_candidate *a = &w->of[0], *b = &w->of[1];
  CHECK_OK(atvi_app_candidates_compare(w->pool, &w->c));
  CHECK(!w->c.differ && w->c.best_loo == 0 && w->c.n_message == 0);
  CHECK_ABS(a->loo.elpd, -8.25, 1e-14);
  CHECK_ABS(b->loo.elpd, -8.75, 1e-14);
  CHECK_ABS(a->loo.se, sqrt(4.0 / 3 * 6.546875), 1e-13);
  CHECK(a->loo.difference == 0 && a->loo.difference_se == 0);
  CHECK_ABS(b->loo.difference, -0.5, 1e-14);
  CHECK_ABS(b->loo.difference_se, 1.5, 1e-14); /* of 0.5, -0.5, -1, 0.5 */
  CHECK_ABS(a->loo.p, 0.5, 1e-14);
  CHECK(a->loo.khat_above == 0);
  double elpd[2 * N] = {-1.5, -2.25, -0.5, -4, -1, -2.75, -1.5, -3.5}, weight[2], work[64];
  CHECK(atvi_math_stacking_work(N, 2) <= 64);
  atvi_math_stacking(N, 2, elpd, weight, work);
  CHECK(a->loo.weight == weight[0] && b->loo.weight == weight[1]);
  CHECK_HAS(w->c.say_loo, "LOO does not decide between a and b");
  world_free(w);
  w = world_new();
  for (int i = 0; i < N; i++) w->value[1][i].loo.elpd_loo -= 4; /* 16.5 +- 1.5 below */
  CHECK_OK(atvi_app_candidates_compare(w->pool, &w->c));
  CHECK_HAS(w->c.say_loo, "a predicts best: the elpd of the next, b, is 16.5");
  world_free(w);
}

static void evidence_gives_probabilities(void) {
  world *w = world_new();
  CHECK_OK(atvi_app_candidates_compare(w->pool, &w->c));
  CHECK(w->c.best_evidence == 0 && w->of[0].evidence.difference == 0);
  CHECK_ABS(w->of[1].evidence.difference, -1.5, 1e-14);
  CHECK_ABS(w->of[1].evidence.difference_se, 0.5, 1e-14);
  CHECK_ABS(w->of[0].evidence.probability, 1 / (1 + exp(-1.5)), 1e-14);
  CHECK_ABS(w->of[1].evidence.probability, 1 / (1 + exp(1.5)), 1e-14);
  CHECK_HAS(w->c.say_evidence, "a has the highest evidence: its probability is 0.818 among the 2");
  world_free(w);
}

static void a_fit_without_evidence_is_left_out_of_it(void) {
  world *w = world_new();
  w->c.n = 3;
  w->summary[1].made.log_evidence = NAN;
  w->of[1].method = "ram";
  w->summary[2].refused = true;
  CHECK_OK(atvi_app_candidates_compare(w->pool, &w->c));
  CHECK(isnan(w->of[1].evidence.probability) && isnan(w->of[1].evidence.difference));
  CHECK_ABS(w->of[2].evidence.probability, 1 / (1 + exp(0.5)), 1e-14);
  const atvi_message *none = message_of(w, ATVI_CODE_EVIDENCE_NONE),
                     *doubt = message_of(w, ATVI_CODE_EVIDENCE_DOUBTFUL);
  CHECK(none && doubt && w->of[2].evidence.doubtful && !w->of[0].evidence.doubtful);
  CHECK_HAS(none->text, "b has no evidence: method ram gives none.");
  CHECK_HAS(none->text, atvi_app_advice(ATVI_CODE_EVIDENCE_NONE));
  CHECK_HAS(doubt->text, "The evidence of c is doubtful");
  CHECK_HAS(text_of(w), "* from weights that cannot be trusted");
  world_free(w);
  w = world_new(); /* one evidence has nothing to be compared with */
  w->summary[1].made.log_evidence = NAN;
  CHECK_OK(atvi_app_candidates_compare(w->pool, &w->c));
  CHECK(w->c.best_evidence == -1 && !w->c.say_evidence && isnan(w->of[0].evidence.probability));
  world_free(w);
}

/* Neither evidence nor LOO, but what the fits share. */
static void check_differs(world *w, const char *part) {
  CHECK_OK(atvi_app_candidates_compare(w->pool, &w->c));
  const atvi_message *m = message_of(w, ATVI_CODE_DATA_DIFFER);
  CHECK(w->c.differ && m && m->severity == ATVI_WARNING);
  CHECK_HAS(m->text, part);
  CHECK(w->c.best_loo == -1 && w->c.best_evidence == -1);
  CHECK(isnan(w->of[0].evidence.probability) && isnan(w->of[1].loo.difference) && isnan(w->of[0].loo.weight));
  CHECK(w->of[0].evidence.log == -10.5 && w->c.n_shared == 2);
  text_of(w);
  world_free(w);
}

static void fits_to_other_data_are_not_compared(void) {
  world *w = world_new();
  w->value[1][0].value = 30.5;
  check_differs(w, "a was fitted to y = 30.25 at 3 and b to y = 30.5 at 3");
  w = world_new();
  w->value[1][0].exact = false;
  check_differs(w, "b to y = 30.25 at 3 (a limit)");
  w = world_new();
  w->value[1][1].time = 1.5;
  check_differs(w, "y = 10.25 at 1 and b to y = 10.25 at 1.5");
  w = world_new();
  for (int i = 0; i < N; i++) w->value[1][i].series = "z";
  check_differs(w, "b to z = 10.25 at 1");
  w = world_new();
  w->of[1].n_value = 3;
  w->of[1].holdout = "t > 3";
  check_differs(w, "a was fitted to 4 values and b to 3 (held out: nothing, and t > 3)");
  w = world_new();
  w->of[1].n_value = 0;
  w->of[1].no_groups = "m.atvi is gone";
  check_differs(w, "the data of b are not known: m.atvi is gone");
  w = world_new();
  w->of[0].n_value = w->of[1].n_value = 0;
  check_differs(w, "nothing was observed");
}

static void what_loo_lacks_is_said(void) {
  world *w = world_new();
  w->value[0][2].loo.khat = 0.9;
  for (int i = 0; i < N; i++) w->value[1][i].loo = (atvi_loo_point){NAN, NAN, NAN, NAN, NAN};
  w->of[1].no_groups = "the simulator does not run";
  CHECK_OK(atvi_app_candidates_compare(w->pool, &w->c));
  CHECK(w->of[0].loo.khat_above == 1 && w->c.best_loo == -1 && isnan(w->of[0].loo.weight));
  CHECK_HAS(message_of(w, ATVI_CODE_LOO_KHAT)->text,
            "LOO of a is unreliable: k-hat is above its threshold at 1 of 4 observations");
  CHECK_HAS(message_of(w, ATVI_CODE_LOO_NONE)->text, "b has no LOO: the simulator does not run.");
  CHECK(w->c.best_evidence == 0); /* that is known */
  world_free(w);
}

static void shared_quantities_are_side_by_side(void) {
  world *w = world_new();
  w->c.n = 3;
  CHECK_OK(atvi_app_candidates_compare(w->pool, &w->c));
  CHECK_INT(w->c.n_shared, 3); /* alpha, gamma of a and c, ratio; not delta of b alone */
  const atvi_shared *alpha = &w->c.shared[0], *gamma = &w->c.shared[1], *ratio = &w->c.shared[2];
  CHECK_STR(alpha->name, "alpha");
  CHECK_STR(alpha->kind, "parameter");
  CHECK(alpha->n == 3 && isnan(alpha->of[0].difference) && alpha->of[1].difference == 1.5);
  CHECK(alpha->of[1].mean == 2.75 && alpha->of[1].sd == 1 && alpha->of[1].hpd95[1] == 4);
  CHECK(gamma->n == 2 && gamma->of[1].fit == w->of[2].name && gamma->of[1].difference == 0);
  CHECK_STR(ratio->kind, "derived");
  CHECK(isnan(ratio->of[1].difference)); /* the first is constant */
  world_free(w);
}

static void bad_fits_come_first(void) {
  world *w = world_new();
  w->c.n = 3;
  for (int k = 0; k < 2; k++) {
    w->message[k] = (atvi_message){k ? ATVI_SERIOUS : ATVI_WARNING, ATVI_CODE_RHAT,
                                   k ? "Chains disagree." : "R-hat is 1.02."};
    w->summary[k].verdict = k ? ATVI_VERDICT_BAD : ATVI_VERDICT_WARN;
    w->summary[k].n_message = 1;
    w->summary[k].message = &w->message[k];
  }
  w->of[2].text = w->of[0].text;
  CHECK_OK(atvi_app_candidates_compare(w->pool, &w->c));
  CHECK_STR(w->c.message[0].text, "The verdict on b is bad: Chains disagree.");
  CHECK_STR(w->c.message[1].text, "The verdict on a is warn: R-hat is 1.02.");
  CHECK(w->c.message[0].severity == ATVI_SERIOUS && w->c.message[1].severity == ATVI_WARNING);
  CHECK_HAS(w->c.message[2].text, "a and c are fits of the same model");
  CHECK_STR(atvi_app_candidates_list(w->pool, 3, (const char *const[]){"a", "b", "c"}), "a, b and c");
  world_free(w);
}

static void files_have_the_numbers(void) {
  world *w = world_new();
  const char *csv, *json;
  CHECK_OK(atvi_app_candidates_compare(w->pool, &w->c));
  CHECK_OK(atvi_app_candidates_csv(w->pool, &w->c, &csv));
  CHECK_OK(atvi_app_candidates_json(w->pool, &w->c, &json));
  CHECK_HAS(csv, "fit,kind,name,statistic,value\na,fit,,folder,a\n");
  CHECK_HAS(csv, "\nb,fit,,elpd_difference,-0.5\n");
  CHECK_HAS(csv, "\nb,parameter,alpha,hpd95_low,1\nb,parameter,alpha,hpd95_high,4\n");
  json_t *root = json_loads(json, 0, NULL);
  CHECK(root != NULL);
  const json_t *b = json_array_get(json_object_get(root, "fits"), 1);
  CHECK_STR(json_string_value(json_object_get(root, "best_loo")), "a");
  CHECK(atvi_io_json_number(b, "elpd_difference") == -0.5 &&
        atvi_io_json_number(b, "log_evidence_difference") == -1.5);
  CHECK(json_is_true(json_object_get(root, "same_data")) && json_is_null(json_object_get(b, "holdout")));
  CHECK_INT(json_array_size(json_object_get(root, "shared")), 2);
  json_decref(root);
  const char *text = text_of(w);
  CHECK_HAS(text, "-8.75");
  CHECK_HAS(text, "0.818");
  world_free(w);
}

static void memory_failures_leave_nothing(void) {
  for (long k = 1, ok = 0; !ok; k++) {
    world *w = world_new();
    const char *text;
    w->summary[1].made.log_evidence = NAN;
    test_fail_at = test_allocs + k;
    ok = atvi_app_candidates_compare(w->pool, &w->c) == ATVI_OK &&
         atvi_app_candidates_text(w->pool, &w->c, &text) == ATVI_OK &&
         atvi_app_candidates_csv(w->pool, &w->c, &text) == ATVI_OK &&
         atvi_app_candidates_json(w->pool, &w->c, &text) == ATVI_OK;
    test_fail_at = 0;
    if (!ok) CHECK_HAS(atvi_errmsg(w->ctx), "memory");
    world_free(w);
    CHECK(k < 1000);
  }
}

TESTS({"loo", loo_is_paired_over_observations}, {"evidence", evidence_gives_probabilities},
      {"evidence_missing", a_fit_without_evidence_is_left_out_of_it},
      {"data", fits_to_other_data_are_not_compared}, {"loo_missing", what_loo_lacks_is_said},
      {"shared", shared_quantities_are_side_by_side}, {"verdicts", bad_fits_come_first},
      {"files", files_have_the_numbers}, {"memory", memory_failures_leave_nothing})
