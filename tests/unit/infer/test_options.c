/* SPDX-License-Identifier: MIT */
/* The table of options and the list of methods: what each says of itself is true of the others. */
#include "atvi/bind.h"
#include "infer/fit.h"
#include "testing.h"

/* Every option is read from text, differs from its default then, and goes back where its method does not take
 * it. */
static void values_are_read_from_text(void) {
  static const char *const text[][2] = {{"method", "ram"}, {"seed", "18446744073709551615"},
                                        {"ess", "2.5e3"},  {"max_seconds", "0.25"},
                                        {"max_iter", "9"}, {"chains", "9223372036854775807"},
                                        {"ladder", "3,1"}, {"freeze", "1"},
                                        {"map", "probit"}, {"tune", "off"},
                                        {"exact", "on"}};
  const atvi_fit_option *p;
  atvi_fit_opts o = atvi_fit_defaults();
  int n = 0;
  for (; (p = atvi_infer_fit_option_at(n)); n++) {
    CHECK_STR(p->name, text[n][0]);
    CHECK(atvi_infer_fit_option_find(p->name) == p && p->help && atvi_infer_fit_option_is_default(p, &o));
    CHECK(atvi_infer_fit_option_read(p, text[n][1], &o) && !atvi_infer_fit_option_is_default(p, &o));
  }
  CHECK_INT(n, sizeof text / sizeof *text);
  CHECK(!atvi_infer_fit_option_at(-1) && !atvi_infer_fit_option_find("max-iter"));
  CHECK(o.seed == UINT64_MAX && o.ess == 2500 && o.max_seconds == 0.25 && o.max_iter == 9 &&
        o.chains == PTRDIFF_MAX && o.freeze);
  CHECK_STR(o.exact, "on");
  atvi_infer_fit_options_choose(atvi_infer_method_find(0, "nuts"), &o);
  CHECK(o.seed == UINT64_MAX && o.ess == 2500 && o.chains == PTRDIFF_MAX && !o.freeze);
  CHECK_STR(o.method, "nuts");
  CHECK_STR(o.exact, "auto");
  atvi_infer_fit_options_choose(atvi_infer_method_find(0, "exact"), &o);
  CHECK(o.ess == 2500 && o.chains == 0);
  CHECK_STR(o.method, "atvi");
  CHECK_STR(o.exact, "on");
}

static void switches_may_be_numbers(void) {
  atvi_fit_opts o = atvi_fit_defaults();
  CHECK(atvi_infer_fit_option_read(atvi_infer_fit_option_find("exact"), "0", &o));
  CHECK(atvi_infer_fit_option_read(atvi_infer_fit_option_find("tune"), "1", &o));
  CHECK_STR(o.exact, "off");
  CHECK_STR(o.tune, "on");
}

static void other_text_is_refused(void) {
  static const char *const bad[][2] = {{"seed", "-1"},   {"seed", "18446744073709551616"},
                                       {"seed", "1 "},   {"chains", "9223372036854775808"},
                                       {"chains", "-4"}, {"max_iter", "2.5"},
                                       {"ess", "many"},  {"max_seconds", "1h"},
                                       {"freeze", "yes"}};
  atvi_fit_opts o = atvi_fit_defaults();
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    CHECK_MSG(!atvi_infer_fit_option_read(atvi_infer_fit_option_find(bad[i][0]), bad[i][1], &o), "%s %s",
              bad[i][0], bad[i][1]);
}

/* A method that has no such thing may be asked to leave it off. */
static void off_is_no_demand(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_fit_plan plan;
  atvi_fit_opts o = atvi_fit_defaults();
  o.method = "ram", o.exact = o.tune = "off";
  CHECK_OK(atvi_infer_fit_check(ctx, &o, &plan));
  CHECK_STR(plan.method->name, "ram");
  o.tune = "on";
  CHECK_STATUS(atvi_infer_fit_check(ctx, &o, &plan), ATVI_EINVAL);
  CHECK(strstr(atvi_errmsg(ctx), "tune is a setting of method atvi; ram has none"));
  o.tune = NULL, o.method = "exact"; /* a variant: compare's word, not a method */
  CHECK_STATUS(atvi_infer_fit_check(ctx, &o, &plan), ATVI_EINVAL);
  atvi_ctx_free(ctx);
}

static void methods_say_what_they_are(void) {
  const atvi_method *m;
  char text[ATVI_METHODS_TEXT];
  for (int i = 0; (m = atvi_infer_method_at(0, i)); i++) {
    bool own = m->is & ATVI_METHOD_OWN;
    CHECK(atvi_infer_method_find(0, m->name) == m && m->brief && own == !m->of);
    CHECK(own ? m->run && m->help : atvi_infer_method_find(ATVI_METHOD_OWN, m->of) != NULL);
    CHECK(atvi_infer_fit_option_taken(atvi_infer_fit_option_find("seed"), m));
  }
  CHECK_STR(atvi_infer_methods_text(ATVI_METHOD_OWN, " or ", text), "atvi, nf, copula, ram, nuts or map");
  CHECK_STR(atvi_infer_methods_text(ATVI_METHOD_EXACT, " and ", text), "ram, nuts and exact");
  CHECK(!atvi_infer_method_find(ATVI_METHOD_OWN, "exact") &&
        !atvi_infer_method_find(ATVI_METHOD_POSTERIOR, "map"));
}

static void other_languages_can_list_them(void) {
  CHECK_STR(atvi_fit_option_word(3, "name"), "max_seconds");
  CHECK_STR(atvi_fit_method_word(1, "name"), "nf");
  CHECK(strstr(atvi_fit_option_word(0, "help"), "default atvi") &&
        strstr(atvi_fit_method_word(3, "help"), "R-hat"));
  CHECK(!atvi_fit_option_word(99, "name") && !atvi_fit_option_word(-1, "name") &&
        !atvi_fit_option_word(0, "x"));
  CHECK(!atvi_fit_method_word(99, "name") && !atvi_fit_method_word(-1, "name") &&
        !atvi_fit_method_word(0, "x"));
}

TESTS({"read", values_are_read_from_text}, {"switches", switches_may_be_numbers},
      {"refused", other_text_is_refused}, {"off", off_is_no_demand}, {"methods", methods_say_what_they_are},
      {"bindings", other_languages_can_list_them})
