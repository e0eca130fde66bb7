/* SPDX-License-Identifier: MIT */
#include "io/draws_file.h"
#include "io/file.h"
#include "core/core.h"
#include "testing.h"
#include <unistd.h>

static char path[64];

static void new_path(void) {
  snprintf(path, sizeof path, "/tmp/atvi-test-draws-XXXXXX");
  int fd = mkstemp(path);
  CHECK(fd >= 0 && close(fd) == 0);
}

static void save(atvi_ctx *ctx, const char *text) {
  CHECK_OK(atvi_io_file_save(ctx, path, text, strlen(text)));
}

static bool same(double a, double b) { return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0; }

static atvi_draws *sample(atvi_ctx *ctx, bool weighted) {
  static const atvi_column col[4] = {{"beta.1", 0, 3.1},
                                     {"odd, \"name\"", -HUGE_VAL, HUGE_VAL},
                                     {"s", 0.1, HUGE_VAL},
                                     {"R0", -HUGE_VAL, HUGE_VAL}};
  atvi_draws *d;
  CHECK_OK(atvi_draws_new(ctx, 600, 4, 3, 4, col, weighted, &d));
  uint64_t u = 17;
  for (atvi_idx i = 0; i < 4 * d->n; i++) {
    u = u * 6364136223846793005u + 1442695040888963407u;
    d->x[i] = ldexp((double)(int64_t)u, (int)(u >> 20 & 255) - 128);
  }
  for (atvi_idx i = 0; i < d->n; i++) {
    d->log_prior[i] = d->x[i] * 1e-3;
    d->log_lik[i] = -d->x[d->n + i];
    if (weighted) d->weight[i] = 1.0 / (3.7 + (double)i);
  }
  d->x[5] = NAN, d->x[6] = -HUGE_VAL, d->x[7] = HUGE_VAL, d->x[8] = -0.0, d->x[9] = 4.9e-324;
  d->log_lik[3] = -HUGE_VAL;
  *d->made = (atvi_made){.method = "ram",
                         .model = "Cold = \"on\" T",
                         .seed = 18446744073709551615u,
                         .seconds = 12.75,
                         .evaluations = 1234567,
                         .failures = 89,
                         .end = ATVI_END_LIMIT,
                         .log_evidence = -61.4,
                         .log_evidence_se = 0.03,
                         .elbo = NAN,
                         .khat = 0.61,
                         .accept = 0.234,
                         .ess_wanted = 1000,
                         .mode_draw = 7,
                         .efficiency = 0.37,
                         .log_lik_error = 0.002,
                         .modes = 3,
                         .outside = 0.0625,
                         .rungs = 5,
                         .steps = 640,
                         .tuned = 1,
                         .exact = 1,
                         .excess = 0.0123,
                         .divergences = 17,
                         .ebfmi = 0.875,
                         .tree_depth = 3.4375,
                         .max_depth_hits = 2,
                         .lost = 0.5};
  CHECK_OK(atvi_draws_say(d, ATVI_NOTE, ATVI_CODE_NONE, "First sentence, with 5 %% and = signs."));
  CHECK_OK(atvi_draws_say(d, ATVI_WARNING, ATVI_CODE_RHAT, "Second # sentence."));
  for (int code = 0; code < ATVI_CODES; code++)
    CHECK_OK(atvi_draws_say(d, (atvi_severity)(code % 3), (atvi_code)code, "Warning: %d = not cut.", code));
  return d;
}

static void check_same(const atvi_draws *a, const atvi_draws *b) {
  CHECK(a->n == b->n && a->n_chain == b->n_chain && a->chains == b->chains && a->n_param == b->n_param &&
        a->n_col == b->n_col);
  for (atvi_idx j = 0; j < a->n_col; j++) {
    CHECK_STR(b->col[j].name, a->col[j].name);
    CHECK(b->col[j].lower == a->col[j].lower && b->col[j].upper == a->col[j].upper);
  }
  for (atvi_idx i = 0; i < a->n_col * a->n; i++)
    CHECK_MSG(same(a->x[i], b->x[i]), "%.17g became %.17g", a->x[i], b->x[i]);
  for (atvi_idx i = 0; i < a->n; i++)
    CHECK(same(a->log_prior[i], b->log_prior[i]) && same(a->log_lik[i], b->log_lik[i]));
  CHECK((a->weight != NULL) == (b->weight != NULL));
  for (atvi_idx i = 0; a->weight && i < a->n; i++) CHECK(same(a->weight[i], b->weight[i]));
  CHECK_STR(b->made->method, a->made->method);
  CHECK_STR(b->made->model, a->made->model);
  CHECK(a->made->seed == b->made->seed && a->made->evaluations == b->made->evaluations &&
        a->made->failures == b->made->failures);
  CHECK(a->made->end == b->made->end && same(a->made->seconds, b->made->seconds));
  CHECK(same(a->made->log_evidence, b->made->log_evidence) &&
        same(a->made->log_evidence_se, b->made->log_evidence_se));
  CHECK(same(a->made->elbo, b->made->elbo) && same(a->made->khat, b->made->khat));
  CHECK(same(a->made->accept, b->made->accept) && same(a->made->ess_wanted, b->made->ess_wanted));
  CHECK(same(a->made->mode_draw, b->made->mode_draw) && same(a->made->efficiency, b->made->efficiency));
  CHECK(same(a->made->log_lik_error, b->made->log_lik_error) && same(a->made->modes, b->made->modes));
  CHECK(same(a->made->outside, b->made->outside) && same(a->made->rungs, b->made->rungs));
  CHECK(same(a->made->steps, b->made->steps) && same(a->made->tuned, b->made->tuned));
  CHECK(same(a->made->exact, b->made->exact));
  CHECK(same(a->made->excess, b->made->excess) && same(a->made->lost, b->made->lost));
  CHECK(same(a->made->divergences, b->made->divergences) && same(a->made->ebfmi, b->made->ebfmi));
  CHECK(same(a->made->tree_depth, b->made->tree_depth) &&
        same(a->made->max_depth_hits, b->made->max_depth_hits));
  CHECK_INT(b->n_message, a->n_message);
  for (atvi_idx i = 0; i < a->n_message; i++) {
    CHECK_STR(b->message[i].text, a->message[i].text);
    CHECK_INT(b->message[i].severity, a->message[i].severity);
    CHECK_INT(b->message[i].code, a->message[i].code);
  }
}

static void what_is_written_comes_back(void) {
  for (int k = 0; k < 3; k++) {
    atvi_ctx *ctx = test_ctx();
    new_path();
    atvi_draws *d = sample(ctx, k == 1), *back;
    if (k == 2) d->chains = false;
    d->made->end = (atvi_end)k;
    CHECK_OK(atvi_io_draws_csv_write(d, path));
    CHECK_OK(atvi_io_draws_csv_read(ctx, path, &back));
    check_same(d, back);
    atvi_draws_free(d);
    atvi_draws_free(back);
    unlink(path);
    atvi_ctx_free(ctx);
    CHECK_INT(test_live, 0);
  }
}

static void the_file_is_stan_csv(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  new_path();
  atvi_draws *d;
  const atvi_column col[2] = {{"beta.1", 0, 3}, {"R0", -HUGE_VAL, HUGE_VAL}};
  CHECK_OK(atvi_draws_new(ctx, 2, 2, 1, 2, col, false, &d));
  d->made->method = "ram", d->made->model = "two\nlines", d->made->seed = 7;
  d->x[0] = 0.1, d->x[1] = 2, d->x[2] = 0.5, d->x[3] = -3;
  d->log_lik[0] = -5.25, d->log_lik[1] = -6, d->log_prior[0] = -1;
  CHECK_OK(atvi_io_draws_csv_write(d, path));
  char *text;
  size_t n;
  CHECK_OK(atvi_io_file_read(pool, path, &text, &n));
  static const char want[] = "lp__,log_lik__,chain__,log_prior__,beta.1,R0\n"
                             "-6.25,-5.25,1,-1,0.10000000000000001,0.5\n"
                             "-6,-6,2,0,2,-3\n";
  const char *table = strstr(text, "lp__");
  CHECK(table != NULL);
  CHECK_STR(table, want);
  static const char *lines[] = {
      "# method = ram\n",        "# model = two lines\n",   "# seed = 7\n",           "# chains = 2\n",
      "# draws_per_chain = 1\n", "# bounds.beta.1 = 0 3\n", "# log_evidence = nan\n", "# end = done\n"};
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    CHECK_MSG(strstr(text, lines[i]) != NULL, "no %s", lines[i]);
  for (const char *p = text; p < table; p = strchr(p, '\n') + 1) CHECK(p[0] == '#' && p[1] == ' ');
  atvi_draws_free(d);
  atvi_pool_free(pool);
  unlink(path);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* More rows than the threads take at once, and a last part that is not full. */
static void long_files_on_any_number_of_threads(void) {
  static const atvi_column col[1] = {{"a", 0, 1}};
  enum { N = 5001 };
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  new_path();
  atvi_draws *d, *back;
  CHECK_OK(atvi_draws_new(ctx, N, 1, 1, 1, col, false, &d));
  for (int i = 0; i < N; i++) d->x[i] = sin(i), d->log_lik[i] = -i;
  char *text[3];
  size_t n[3];
  for (int k = 0; k < 3; k++) {
    atvi_ctx_set_threads(ctx, k + 1);
    CHECK_OK(atvi_io_draws_csv_write(d, path));
    CHECK_OK(atvi_io_file_read(pool, path, &text[k], &n[k]));
    CHECK(n[k] == n[0] && memcmp(text[k], text[0], n[0]) == 0);
  }
  CHECK_OK(atvi_io_draws_csv_read(ctx, path, &back));
  CHECK_INT(back->n, N);
  CHECK(memcmp(back->x, d->x, N * sizeof *d->x) == 0);
  atvi_draws_free(back);
  atvi_draws_free(d);
  atvi_pool_free(pool);
  unlink(path);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void reads_other_peoples_files(void) {
  atvi_ctx *ctx = test_ctx();
  new_path();
  save(
      ctx,
      "# stan_version_major = 2\n# Adaptation terminated\nlp__,accept_stat__,mu\n-7.5,0.9,1.25\n-8,0.8,-2\n");
  atvi_draws *d;
  CHECK_OK(atvi_io_draws_csv_read(ctx, path, &d));
  CHECK(d->n == 2 && d->n_chain == 1 && d->n_col == 1 && d->n_param == 1 && !d->chains);
  CHECK_STR(d->col[0].name, "mu");
  CHECK(d->log_prior[0] == -7.5 && d->log_lik[0] == 0 && d->x[1] == -2);
  CHECK(isinf(d->col[0].upper) && isnan(d->made->accept));
  atvi_draws_free(d);
  save(ctx, "lp__,chain__,mu,log_lik__\n-7.5,1,1.25,-4\n-8,2,-2,-5\n");
  CHECK_OK(atvi_io_draws_csv_read(ctx, path, &d));
  CHECK(d->n_chain == 2 && d->chains && d->log_prior[0] == -3.5);
  atvi_draws_free(d);
  unlink(path);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* Before messages had a kind, a warning began with the word; a code of a later version is as good as none. */
static void messages_of_other_versions_are_read(void) {
  atvi_ctx *ctx = test_ctx();
  new_path();
  atvi_draws *d;
  save(ctx, "# message = Warning: the emulator guesses.\n# message = Warning signs.\n"
            "# message_kind = serious of-a-later-version\n# message = Warning: not cut.\nlp__,a\n1,2\n");
  CHECK_OK(atvi_io_draws_csv_read(ctx, path, &d));
  CHECK_INT(d->n_message, 3);
  CHECK(d->message[0].severity == ATVI_WARNING && d->message[0].code == ATVI_CODE_NONE);
  CHECK_STR(d->message[0].text, "The emulator guesses.");
  CHECK(d->message[1].severity == ATVI_NOTE && d->message[1].code == ATVI_CODE_NONE);
  CHECK_STR(d->message[1].text, "Warning signs.");
  CHECK(d->message[2].severity == ATVI_SERIOUS && d->message[2].code == ATVI_CODE_NONE);
  CHECK_STR(d->message[2].text, "Warning: not cut.");
  atvi_draws_free(d);
  unlink(path);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void damaged_files_are_told(void) {
  static const struct {
    const char *text, *where;
  } bad[] = {
      {"", ":1:1: error: the file is empty"},
      {"a,b\n1,2\n", ":1:1: there is no column lp__"},
      {"# seed = -5\nlp__,a\n1,2\n", ":1:1: 'seed = -5' is not valid"},
      {"# seed = 18446744073709551616\nlp__,a\n1,2\n", ":1:1: 'seed"},
      {"# method = ram\n# evaluations = 9223372036854775808\nlp__,a\n1,2\n", ":2:1: 'evaluations"},
      {"# message_kind = loud rhat\nlp__,a\n1,2\n", ":1:1: 'message_kind"},
      {"# message_kind = note\nlp__,a\n1,2\n", ":1:1: 'message_kind"},
      {"# elbo = high\nlp__,a\n1,2\n", ":1:1: 'elbo"},
      {"# end = never\nlp__,a\n1,2\n", ":1:1: 'end"},
      {"# chains = \nlp__,a\n1,2\n", ":1:1: 'chains"},
      {"# bounds.a = 3 1\nlp__,a\n1,2\n", ":1:1: 'bounds.a"},
      {"# bounds.a = 3\nlp__,a\n1,2\n", ":1:1: 'bounds.a"},
      {"# parameters = 2\nlp__,a\n1,2\n", ":1:1: 2 parameters"},
      {"# chains = 2\nlp__,a\n1,2\n3,4\n5,6\n", ":5:1: 3 rows"},
      {"# chains = 2\n# draws_per_chain = 2\nlp__,a\n1,2\n3,4\n", ":5:1: 2 rows"},
      {"lp__,chain__,a\n1,2,3\n1,1,3\n", ":2:3: chain 2 instead of chain 1"},
      {"lp__,a\n1,2\n3,x\n", ":3:3: 'x' is not a number (column a)"},
      {"lp__,weight__,a\n1,-2,2\n3,1,1\n", ":2:3: weight__ = '-2', want a number >= 0"},
      {"lp__,a\n1,2\n3\n", ":3:1: error: this row has 1 cell,"},
  };
  atvi_ctx *ctx = test_ctx();
  new_path();
  atvi_draws *d;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    save(ctx, bad[i].text);
    CHECK_STATUS(atvi_io_draws_csv_read(ctx, path, &d), ATVI_EDATA);
    CHECK(d == NULL);
    const char *message = atvi_errmsg(ctx), *rest = message + strlen(path);
    CHECK_MSG(strncmp(message, path, strlen(path)) == 0 &&
                  strncmp(rest, bad[i].where, strlen(bad[i].where)) == 0,
              "%s: %s", bad[i].text, message);
  }
  unlink(path);
  CHECK_STATUS(atvi_io_draws_csv_read(ctx, path, &d), ATVI_EIO);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void a_full_disk_is_told(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_draws *d = sample(ctx, false);
  CHECK_STATUS(atvi_io_draws_csv_write(d, "/dev/full"), ATVI_EIO);
  CHECK(strstr(atvi_errmsg(ctx), "/dev/full: No space left") != NULL);
  CHECK_STATUS(atvi_io_draws_csv_write(d, "/nowhere/draws.csv"), ATVI_EIO);
  atvi_draws_free(d);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void memory_failures_leave_nothing(void) {
  atvi_ctx *ctx = test_ctx();
  new_path();
  atvi_draws *d = sample(ctx, true), *back;
  long live = test_live, k = 1;
  atvi_ctx_set_threads(ctx, 1);
  for (;; k++) {
    test_fail_at = test_allocs + k;
    atvi_status status = atvi_io_draws_csv_write(d, path);
    CHECK_INT(test_live, live);
    if (status == ATVI_OK) break;
    CHECK_INT(status, ATVI_ENOMEM);
  }
  CHECK(k == 3); /* the file, and room for text */
  k = 1;
  for (;; k++) {
    test_fail_at = test_allocs + k;
    atvi_status status = atvi_io_draws_csv_read(ctx, path, &back);
    if (status == ATVI_OK) break;
    CHECK_INT(status, ATVI_ENOMEM);
    CHECK(back == NULL);
    CHECK_INT(test_live, live);
  }
  CHECK(k > 4);
  atvi_draws_free(back);
  atvi_draws_free(d);
  unlink(path);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

TESTS({"round_trip", what_is_written_comes_back}, {"stan_csv", the_file_is_stan_csv},
      {"long", long_files_on_any_number_of_threads}, {"others", reads_other_peoples_files},
      {"damaged", damaged_files_are_told}, {"versions", messages_of_other_versions_are_read},
      {"full_disk", a_full_disk_is_told}, {"memory", memory_failures_leave_nothing})
