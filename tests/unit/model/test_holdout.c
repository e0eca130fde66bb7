/* SPDX-License-Identifier: MIT */
/* Rules that hold data out, and times added to those of the data. */
#include "core/core.h"
#include "model/evaluator.h"
#include "model/model.h"
#include "models.h"

static const char *const LINE = "param a ~ normal(0.5, 2)\nparam s ~ exponential(0.7)\n"
                                "data \"line.csv\"\nobserve y ~ normal(a*x, s) limits (0.6, inf)\n";
static const char *const DATA =
    "x,the weight,y\n0.3,2,1.21\n1.7,NA,2.05\n2.2,5,NA\n3.9,3,<5.5\n4.1,7,0.4\n5.2,1,6.03\n";

static const char *const RISE =
    "param a ~ uniform(0, 5)\nparam s ~ exponential(0.7)\nstate C = 0\ndC/dt = a\nstart 0\n"
    "data \"rise.csv\" time day\nobserve y ~ normal(increase(C), s)\ntrack level = 2*C\n";
static const char *const RISE_DATA = "day,y\n1,1.1\n3,2.4\n3,2.6\n7,4.7\n";

/* The rows that a rule selects, as 1 and 0. */
static const char *selected(atvi_ctx *ctx, const atvi_lang *lang, const char *rule) {
  static char bits[32];
  atvi_pool *pool;
  atvi_holdout h;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  atvi_status status = atvi_model_holdout_find(pool, lang, rule, &h);
  CHECK_MSG(status == ATVI_OK, "%s", atvi_errmsg(ctx));
  for (atvi_idx i = 0; i < lang->data[0].n_row; i++) bits[i] = h.held[0][i] ? '1' : '0';
  bits[lang->data[0].n_row] = 0;
  atvi_pool_free(pool);
  return bits;
}

static void rules_select_rows(void) {
  static const struct {
    const char *rule, *rows;
  } want[] = {
      {"row > 4", "000011"},
      {"row%2==0", "010101"},
      {" row % 3 != 1 ", "011011"},
      {"x < 2.2", "110000"},
      {"x <= 2.2", "111000"},
      {"\"the weight\" >= 3", "001110"}, /* missing cells are not selected */
      {"\"the weight\" != 3", "101011"},
      {"x > 1 and x < 5", "011110"},
      {"y == 0.4", "000010"},
      {"x > -1e3 and row == 6", "000001"},
  };
  atvi_ctx *ctx = test_ctx();
  test_file("line.csv", DATA);
  atvi_model *m = test_load(ctx, test_file("line.atvi", LINE), true);
  for (size_t i = 0; i < sizeof want / sizeof *want; i++)
    CHECK_MSG(strcmp(selected(ctx, m->lang, want[i].rule), want[i].rows) == 0, "%s selects %s, want %s",
              want[i].rule, selected(ctx, m->lang, want[i].rule), want[i].rows);
  atvi_model_free(m);
  test_file("rise.csv", RISE_DATA);
  m = test_load(ctx, test_file("rise.atvi", RISE), true);
  CHECK_STR(selected(ctx, m->lang, "t >= 3"), "0111");
  CHECK_STR(selected(ctx, m->lang, "day >= 3"), "0111");
  CHECK_STR(selected(ctx, m->lang, "t % 2 == 1 and t > 1"), "0111");
  atvi_model_free(m);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void several_files_and_dates(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("a.csv", "day,y\n2010-01-03,1.5\n2010-01-09,2.5\n");
  test_file("b.csv", "day,z,u\n2010-01-05,0.5,1\n2010-01-12,0.7,2\n");
  atvi_model *m = test_load(
      ctx,
      test_file("two.atvi",
                "param a ~ uniform(0, 5)\nstate C = 1\ndC/dt = a\ncalendar 2010-01-01 day\nstart 0\n"
                "data one \"a.csv\" time day\ndata two \"b.csv\" time day\n"
                "observe one.y ~ normal(C, 1)\nobserve two.z ~ normal(a, 1)\n"),
      true);
  atvi_pool *pool;
  atvi_holdout h;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  CHECK_OK(atvi_model_holdout_find(pool, m->lang, "t >= 2010-01-09", &h));
  CHECK(!h.held[0][0] && h.held[0][1] && !h.held[1][0] && h.held[1][1]);
  CHECK(h.n_held == 2 && h.n_left == 2);
  CHECK_OK(atvi_model_holdout_find(pool, m->lang, "two.row == 1", &h));
  CHECK(!h.held[0][0] && !h.held[0][1] && h.held[1][0] && !h.held[1][1]);
  CHECK_OK(atvi_model_holdout_find(pool, m->lang, "u > 1",
                                   &h)); /* a column of one file selects rows of that file */
  CHECK(!h.held[0][0] && !h.held[0][1] && !h.held[1][0] && h.held[1][1]);
  CHECK_STATUS(atvi_model_holdout_find(pool, m->lang, "three.row == 1", &h), ATVI_EINVAL);
  atvi_pool_free(pool);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
}

/* Held out is as if it were missing, to the last bit. */
static void held_out_is_missing(void) {
  atvi_ctx *ctx = test_ctx();
  const double theta[2] = {1.31, 0.871};
  for (int interpret = 0; interpret < 2; interpret++) {
    test_file("line.csv", DATA);
    const char *path = test_file("line.atvi", LINE);
    atvi_model *m;
    CHECK_OK(atvi_model_load_with(
        ctx, path, &(atvi_model_load_opts){.interpret = interpret, .holdout = "row >= 4 and row <= 5"}, &m));
    CHECK(m->holdout.n_held == 2 && m->holdout.n_left == 3);
    CHECK(m->lang->observe[0].n_missing == 3 && m->lang->observe[0].n_censored == 0);
    test_value a = test_eval(ctx, atvi_model_target(m), theta);
    atvi_model_free(m);
    test_file("line.csv",
              "x,the weight,y\n0.3,2,1.21\n1.7,NA,2.05\n2.2,5,NA\n3.9,3,NA\n4.1,7,NA\n5.2,1,6.03\n");
    m = test_load(ctx, path, interpret);
    test_value b = test_eval(ctx, atvi_model_target(m), theta);
    CHECK(a.ll == b.ll && a.gl[0] == b.gl[0] && a.gl[1] == b.gl[1] && isfinite(a.ll));
    atvi_model_free(m);
  }
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void wrong_rules_are_shown(void) {
  static const struct {
    const char *rule, *word;
  } want[] = {
      {"", "expected a name"},
      {"> 3", "column 1: expected a name"},
      {"z > 3", "no data file has a column 'z'"},
      {"t > 3", "column 't'"}, /* this model has no time */
      {"x", "expected one of"},
      {"x = 3", "column 3: equality is written =="},
      {"x ~ 3", "column 3: expected one of < <= > >= == !="},
      {"x > three", "column 5: expected a number"},
      {"x > 2010-01-01", "no calendar"},
      {"x > 3 or x < 1", "column 7: the rule should end here"},
      {"x > 3 and", "column 10: expected a name"},
      {"row % 0 == 0", "must be above 0"},
      {"row % -2 == 0", "must be above 0"},
      {"\"x > 3", "quote is not closed"},
      {"x > 100", "'x > 100' selects none of the 5 observations"},
      {"x == 2.2", "selects none"}, /* its observation is missing */
      {"row >= 1", "'row >= 1' selects all 5 observations; no data are left"},
  };
  atvi_ctx *ctx = test_ctx();
  test_file("line.csv", DATA);
  const char *path = test_file("line.atvi", LINE);
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    atvi_model *m;
    CHECK_STATUS(atvi_model_load_with(
                     ctx, path, &(atvi_model_load_opts){.interpret = true, .holdout = want[i].rule}, &m),
                 ATVI_EINVAL);
    CHECK(m == NULL);
    CHECK_MSG(strstr(atvi_errmsg(ctx), want[i].word) != NULL, "%s: %s", want[i].rule, atvi_errmsg(ctx));
  }
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void observed_exactly(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("line.csv", DATA);
  atvi_model *m = test_load(ctx, test_file("line.atvi", LINE), true);
  const bool want[6] = {true, true, false, false, false, true}; /* NA, "<5.5", and 0.4 below its limit */
  for (int r = 0; r < 6; r++)
    CHECK_MSG(atvi_model_observed_exactly(m->lang, &m->lang->observe[0], r) == want[r], "row %d", r);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
}

/* C rises by a per day: what has increased since the time before is a times the days. */
static void added_times_count_from_the_last(void) {
  atvi_ctx *ctx = test_ctx();
  const double a = 1.37, theta[2] = {a, 0.4}, time[4] = {2, 3, 7.5, 9};
  const double want_time[7] = {1, 3, 3, 7, 2, 7.5, 9}, days[7] = {1, 2, 2, 4, 1, 0.5, 1.5};
  double out[64], each[16], plain_each[16];
  void *work;
  test_file("rise.csv", RISE_DATA);
  const char *path = test_file("rise.atvi", RISE);
  atvi_model *m, *plain = test_load(ctx, path, true);
  CHECK_OK(atvi_model_load_with(
      ctx, path, &(atvi_model_load_opts){.interpret = true, .n_time = 4, .time = time, .extend = true}, &m));
  const atvi_target *t = atvi_model_target(m);
  CHECK_INT(t->n_obs, 7); /* 3 is a time of the data already */
  CHECK_OK(t->ops->work_new(t->self, ctx, &work));
  t->ops->predict(t->self, work, 1, theta, out);
  t->ops->pointwise(t->self, work, 1, theta, each);
  for (int r = 0; r < 7; r++) {
    CHECK(t->series[0].time[r] == want_time[r] && isnan(t->series[0].value[r]) == (r >= 4));
    CHECK_REL(out[r], a * days[r], 1e-6); /* the solver's error */
    CHECK(isnan(each[r]) == (r >= 4));
  }
  /* tracked quantities and states have the times of both, and the start */
  CHECK_INT(t->series[1].n, 7);
  for (int i = 0; i < 7; i++) CHECK_ABS(out[7 + i], 2 * a * t->series[1].time[i], 1e-5);
  t->ops->work_free(work);
  const atvi_target *p = atvi_model_target(plain);
  CHECK_OK(p->ops->work_new(p->self, ctx, &work));
  p->ops->pointwise(p->self, work, 1, theta, plain_each);
  for (int r = 0; r < 4; r++) CHECK_REL(each[r], plain_each[r], 1e-6);
  p->ops->work_free(work);
  CHECK_REL(test_eval(ctx, t, theta).ll, test_eval(ctx, p, theta).ll, 1e-6);
  atvi_model_free(plain);
  atvi_model_free(m);
  CHECK_STATUS(
      atvi_model_load_with(ctx, path,
                           &(atvi_model_load_opts){.n_time = 1, .time = (double[]){-1}, .extend = true}, &m),
      ATVI_EINVAL);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* The first row counts from where it is told; what is not between the start and that row is the start. */
static void the_first_row_counts_since(void) {
  atvi_ctx *ctx = test_ctx();
  const double theta[2] = {1.37, 0.4};
  const struct { double since, days; } is[] = {{0.25, 0.75}, {NAN, 1}, {-3, 1}, {1, 1}, {4, 1}};
  double out[64];
  test_file("rise.csv", RISE_DATA);
  const char *path = test_file("rise.atvi", RISE);
  for (int i = 0; i < 5; i++) {
    atvi_model *m;
    void *work;
    CHECK_OK(atvi_model_load_with(ctx, path,
                                  &(atvi_model_load_opts){.interpret = true, .since = &is[i].since}, &m));
    const atvi_target *t = atvi_model_target(m);
    CHECK_OK(t->ops->work_new(t->self, ctx, &work));
    t->ops->predict(t->self, work, 1, theta, out);
    const double days[4] = {is[i].days, 2, 2, 4};
    for (int r = 0; r < 4; r++) CHECK_REL(out[r], theta[0] * days[r], 1e-6); /* the solver's error */
    t->ops->work_free(work);
    atvi_model_free(m);
  }
  const double time[4] = {1, 3, 3, 7};
  CHECK_INT(atvi_model_time_before(4, time, 1), -1);
  CHECK_INT(atvi_model_time_before(4, time, 1.5), 0);
  CHECK_INT(atvi_model_time_before(4, time, 3 + 1e-12), 0); /* the same time but for rounding */
  CHECK_INT(atvi_model_time_before(4, time, 5), 2);
  CHECK_INT(atvi_model_time_before(4, time, 99), 3);
  CHECK_INT(atvi_model_time_before(0, time, 99), -1);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void a_model_may_be_given_as_text(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_model *m;
  test_file("line.csv", DATA);
  const char *path = test_file("line.atvi", "this is no model");
  CHECK_OK(atvi_model_load_with(ctx, path, &(atvi_model_load_opts){.interpret = true, .text = LINE}, &m));
  CHECK_INT(atvi_model_target(m)->n_obs, 6); /* line.csv was found next to the file */
  CHECK_STR(atvi_model_target(m)->name, "line");
  atvi_model_free(m);
  CHECK_STATUS(atvi_model_load_with(ctx, path, &(atvi_model_load_opts){.text = "param"}, &m), ATVI_EMODEL);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* With a parameter held, everything that is predicted is what it is without, whatever the size of a batch. */
static void fixed_parameters_predict_the_same(void) {
  enum { B = 19, N = 6 };
  atvi_ctx *ctx = test_ctx();
  test_file("line.csv", DATA);
  atvi_model *m = test_load(ctx, test_file("line.atvi", LINE), true);
  const atvi_target *base = atvi_model_target(m);
  atvi_target *t;
  atvi_evaluator *ev;
  double both[2 * B], free_one[B], want[N * B], got[N * B];
  for (int j = 0; j < B; j++) both[j] = free_one[j] = 0.5 + 0.071 * j, both[B + j] = 0.43;
  CHECK_OK(atvi_model_fixed_new(ctx, base, 1, (atvi_idx[]){1}, (double[]){0.43}, &t));
  atvi_ctx_set_threads(ctx, 2);
  CHECK_OK(atvi_model_evaluator_new(ctx, t, &ev));
  CHECK(atvi_model_evaluator_work_of(ev, 0) == atvi_model_evaluator_work(ev));
  CHECK(atvi_model_evaluator_work_of(ev, 1) != NULL &&
        atvi_model_evaluator_work_of(ev, 1) != atvi_model_evaluator_work(ev));
  CHECK(atvi_model_evaluator_work_of(ev, 2) == NULL);
  void *work, *fixed_work = atvi_model_evaluator_work_of(ev, 1);
  CHECK_OK(base->ops->work_new(base->self, ctx, &work));
  base->ops->simulate(base->self, work, 7, 40, B, both, want);
  t->ops->simulate(t->self, fixed_work, 7, 40, B, free_one, got);
  CHECK(memcmp(want, got, sizeof want) == 0);
  base->ops->predict(base->self, work, B, both, want);
  t->ops->predict(t->self, fixed_work, B, free_one, got);
  CHECK(memcmp(want, got, sizeof want) == 0);
  base->ops->work_free(work);
  atvi_model_evaluator_free(ev);
  atvi_model_fixed_free(t);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void every_allocation_may_fail(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("rise.csv", RISE_DATA);
  const char *path = test_file("rise.atvi", RISE);
  const double time[2] = {2, 9};
  long live = test_live, fail = 1;
  for (;; fail++) {
    atvi_model *m;
    test_allocs = 0;
    test_fail_at = fail;
    atvi_status status = atvi_model_load_with(
        ctx, path,
        &(atvi_model_load_opts){
            .interpret = true, .n_time = 2, .time = time, .extend = true, .holdout = "t > 3"},
        &m);
    test_fail_at = 0;
    if (status == ATVI_OK) {
      atvi_model_free(m);
      break;
    }
    CHECK_STATUS(status, ATVI_ENOMEM);
    CHECK(m == NULL);
    CHECK_INT(test_live, live);
  }
  CHECK(fail > 5);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

TESTS({"rules_select_rows", rules_select_rows}, {"several_files_and_dates", several_files_and_dates},
      {"held_out_is_missing", held_out_is_missing}, {"wrong_rules_are_shown", wrong_rules_are_shown},
      {"observed_exactly", observed_exactly},
      {"added_times_count_from_the_last", added_times_count_from_the_last},
      {"the_first_row_counts_since", the_first_row_counts_since},
      {"a_model_may_be_given_as_text", a_model_may_be_given_as_text},
      {"fixed_parameters_predict_the_same", fixed_parameters_predict_the_same},
      {"every_allocation_may_fail", every_allocation_may_fail})
