/* SPDX-License-Identifier: MIT */
#include "io/draws_file.h"
#include "draws/made.h"
#include "io/file.h"
#include "testing.h"
#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

static const double TIME[3] = {0, 1.5, 4}, VALUE[3] = {2, NAN, 0.1}, GRID[2] = {0.1, 3.7};
static const unsigned char MARK[3] = {ATVI_MARK_EXACT, 0, ATVI_MARK_EXACT | ATVI_MARK_HELD};
static const atvi_idx DRAW[2] = {0, 3};
static const atvi_progress STEP[2] = {
    {"other modes", 0.25, 0.1, "x", 20, 50.5, -12.5, 1, NAN, NAN, NAN, 0},
    {"a \"word\", and more", 1, 1.0 / 3, "", NAN, NAN, NAN, NAN, 0.3, 1.01, 840, 0}};

static atvi_draws *bare(atvi_ctx *ctx) {
  const atvi_column col[] = {{"a", 0, 1}, {"b", -HUGE_VAL, HUGE_VAL}};
  atvi_draws *d;
  CHECK_OK(atvi_draws_new(ctx, 4, 2, 1, 2, col, false, &d));
  for (int i = 0; i < 8; i++) d->x[i] = 0.1 * i;
  return d;
}

/* Two series, observed and tracked, with everything that there can be. */
static atvi_draws *full(atvi_ctx *ctx) {
  static const struct {
    const char *name;
    atvi_idx n;
  } group[] = {{"mean", 6}, {"grid", 4}, {"predictive", 3}, {"grid_predictive", 2}, {"log_lik", 3}};
  static const atvi_draws_series series[2] = {
      {"y", ATVI_SERIES_OBSERVED, 1, "late", false, 3, TIME, VALUE, MARK, 2, GRID, "subject s01"},
      {"z", ATVI_SERIES_TRACKED, 0, "", false, 3, TIME, NULL, NULL, 2, GRID, ""}};
  static const double at[1] = {0.7};
  static const atvi_failed_point failed[1] = {{at, ATVI_RUN_STEPS}};
  static const atvi_prior prior[1] = {{"gamma", {2, 0.1, 0}, true, 0.25, HUGE_VAL}};
  atvi_draws *d = bare(ctx);
  double *x;
  for (size_t k = 0; k < sizeof group / sizeof *group; k++) {
    CHECK_OK(atvi_draws_group_new(d, group[k].name, group[k].n, 2, DRAW, &x));
    for (atvi_idx i = 0; i < 2 * group[k].n; i++) x[i] = i == 3 ? NAN : 0.1 * (double)i + (double)k;
  }
  CHECK_OK(atvi_draws_group_new(d, "prior", 2, 5, NULL, &x));
  x[9] = -HUGE_VAL;
  CHECK_OK(atvi_draws_history(d, 2, STEP));
  d->series = series, d->n_series = 2;
  d->failed = failed, d->n_failed = 1;
  d->prior = prior;
  *d->about =
      (atvi_about){.title = "t \"x\"", .day0 = 14597, .day_unit = 7, .n_data = 2, .command = "atvi fit"};
  return d;
}

static void check_same(const atvi_draws *a, const atvi_draws *b) {
  CHECK(a->n_group == b->n_group && a->n_series == b->n_series && a->n_step == b->n_step);
  for (atvi_idx k = 0; k < a->n_group; k++) {
    const atvi_group *g = &a->group[k], *h = atvi_draws_group(b, g->name);
    CHECK(h && h->n_value == g->n_value && h->n_draw == g->n_draw && !h->draw == !g->draw);
    CHECK(memcmp(g->x, h->x, (size_t)(g->n_value * g->n_draw) * sizeof *g->x) == 0);
    if (g->draw) CHECK(memcmp(g->draw, h->draw, (size_t)g->n_draw * sizeof *g->draw) == 0);
  }
  for (atvi_idx k = 0; k < a->n_series; k++) {
    const atvi_draws_series *s = &a->series[k], *t = &b->series[k];
    CHECK_STR(s->name, t->name);
    CHECK_STR(s->set, t->set);
    CHECK_STR(s->unit, t->unit);
    CHECK(s->kind == t->kind && s->data == t->data && s->n == t->n && s->n_grid == t->n_grid);
    CHECK(memcmp(s->time, t->time, (size_t)s->n * sizeof *s->time) == 0);
    CHECK(memcmp(s->grid, t->grid, (size_t)s->n_grid * sizeof *s->grid) == 0);
    CHECK(!s->value == !t->value && !s->mark == !t->mark);
    for (atvi_idx i = 0; s->value && i < s->n; i++) {
      CHECK(s->value[i] == t->value[i] || (isnan(s->value[i]) && isnan(t->value[i])));
      CHECK_INT(s->mark[i], t->mark[i]);
    }
  }
  CHECK(b->n_failed == 1 && b->failed[0].outcome == ATVI_RUN_STEPS && b->failed[0].value[0] == 0.7);
  CHECK_STR(b->prior[0].dist, "gamma");
  CHECK(b->prior[0].arg[1] == 0.1 && b->prior[0].truncated && b->prior[0].upper == HUGE_VAL);
  CHECK_STR(b->about->title, a->about->title);
  CHECK(b->about->day_unit == 7 && b->about->n_data == 2 && !b->about->time_name && !b->about->no_groups);
  for (atvi_idx i = 0; i < a->n_step; i++) {
    CHECK(a->step[i].elapsed_s == b->step[i].elapsed_s && a->step[i].done == b->step[i].done);
    CHECK(isnan(b->step[i].khat) == isnan(a->step[i].khat));
  }
  CHECK_STR(b->step[0].phase, "other modes");
  CHECK_STR(b->step[1].phase, "a 'word', and more");
  CHECK(b->step[1].ess == 840 && b->step[0].temperature == 50.5 && b->step[1].elapsed_s == 1.0 / 3);
}

static void what_is_written_is_read(void) {
  char dir[] = "/tmp/atvi-groups-XXXXXX";
  atvi_ctx *ctx = test_ctx();
  CHECK(mkdtemp(dir));
  atvi_draws *d = full(ctx), *e = bare(ctx);
  CHECK(!atvi_io_groups_there(dir));
  CHECK_STATUS(atvi_io_groups_read(e, dir), ATVI_EIO);
  CHECK_OK(atvi_io_groups_write(d, dir));
  CHECK(atvi_io_groups_there(dir));
  CHECK_OK(atvi_io_groups_read(e, dir));
  check_same(d, e);
  atvi_draws_free(e);
  e = bare(ctx);
  e->x[3] += 1e-12;
  CHECK_STATUS(atvi_io_groups_read(e, dir), ATVI_EDATA); /* of other draws */
  CHECK(strstr(atvi_errmsg(ctx), "belongs to other draws") && e->n_group == 0 && e->n_series == 0);
  atvi_draws_free(e);
  atvi_draws_free(d);
  atvi_io_groups_drop(dir);
  d = bare(ctx); /* nothing at all */
  d->about->title = "t";
  CHECK_OK(atvi_io_groups_write(d, dir));
  e = bare(ctx);
  CHECK_OK(atvi_io_groups_read(e, dir));
  CHECK(e->n_group == 0 && e->n_step == 0 && !e->prior);
  atvi_draws_free(e);
  atvi_draws_free(d);
  atvi_io_groups_drop(dir);
  CHECK(rmdir(dir) == 0); /* nothing is left */
  d = bare(ctx);
  CHECK_STATUS(atvi_io_groups_write(d, "/dev/null"), ATVI_EIO);
  atvi_draws_free(d);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* Files cut short or with a byte changed are refused, or read as something sound; nothing else happens. */
static void damaged_files_are_refused(void) {
  static const char *const name[] = {"groups/groups.json", "groups/mean.npy", "history.csv"};
  char dir[] = "/tmp/atvi-groups-XXXXXX", path[128], *text;
  size_t n;
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  CHECK(mkdtemp(dir));
  atvi_draws *d = full(ctx);
  CHECK_OK(atvi_io_groups_write(d, dir));
  atvi_draws_free(d);
  for (int f = 0; f < 3; f++) {
    snprintf(path, sizeof path, "%s/%s", dir, name[f]);
    CHECK_OK(atvi_io_file_read(pool, path, &text, &n));
    for (size_t cut = 0; cut + 2 < n; cut += 1 + n / 60) {
      d = bare(ctx);
      CHECK_OK(atvi_io_file_save(ctx, path, text, cut));
      atvi_status status = atvi_io_groups_read(d, dir);
      CHECK(f == 2 || status == ATVI_EDATA);
      CHECK(status == ATVI_OK || (d->n_group == 0 && d->n_series == 0 && d->n_step == 0));
      atvi_draws_free(d);
    }
    for (size_t at = 0; at < n; at += 1 + n / 300)
      for (int k = 0; k < 3; k++) {
        char was = text[at];
        d = bare(ctx);
        text[at] = k == 0 ? '9' : k == 1 ? (char)(was + 1) : '-';
        CHECK_OK(atvi_io_file_save(ctx, path, text, n));
        text[at] = was;
        atvi_status status = atvi_io_groups_read(d, dir);
        CHECK(status == ATVI_OK || status == ATVI_EDATA);
        CHECK(status == ATVI_OK || d->n_group == 0);
        atvi_draws_free(d);
      }
    CHECK_OK(atvi_io_file_save(ctx, path, text, n));
  }
  atvi_io_groups_drop(dir);
  CHECK(rmdir(dir) == 0);
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* Each allocation fails in turn. */
static void without_memory(void) {
  char dir[] = "/tmp/atvi-groups-XXXXXX";
  atvi_ctx *ctx = test_ctx();
  CHECK(mkdtemp(dir));
  atvi_draws *d = full(ctx);
  CHECK_OK(atvi_io_groups_write(d, dir));
  for (int reading = 0; reading < 2; reading++)
    for (long k = 1;; k++) {
      atvi_draws *e = bare(ctx);
      test_fail_at = test_allocs + k;
      atvi_status status = reading ? atvi_io_groups_read(e, dir) : atvi_io_groups_write(d, dir);
      bool reached = test_allocs >= test_fail_at;
      test_fail_at = 0;
      CHECK_INT(status, reached ? ATVI_ENOMEM : ATVI_OK);
      atvi_draws_free(e);
      if (!reached) break;
    }
  atvi_draws_free(d);
  atvi_io_groups_drop(dir);
  CHECK(rmdir(dir) == 0);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static long json_left; /* allocations of the JSON library that do not fail */

static void *json_take(size_t n) { return json_left-- > 0 ? malloc(n) : NULL; }

/* Of a lack of memory in the JSON library: where it gives no reason, it is none of the file's. (Inside a
 * token it calls the token invalid.) */
static void without_memory_for_json(void) {
  char dir[] = "/tmp/atvi-groups-XXXXXX";
  atvi_ctx *ctx = test_ctx();
  CHECK(mkdtemp(dir));
  atvi_draws *d = full(ctx);
  CHECK_OK(atvi_io_groups_write(d, dir));
  json_set_alloc_funcs(json_take, free);
  for (long k = 0;; k++) {
    atvi_draws *e = bare(ctx);
    json_left = k;
    atvi_status status = atvi_io_groups_read(e, dir);
    bool reached = json_left < 0;
    if (!reached) CHECK_OK(status);
    if (status == ATVI_EDATA) CHECK(!strstr(atvi_errmsg(ctx), "error: ;"));
    atvi_draws_free(e);
    if (!reached) break;
  }
  json_set_alloc_funcs(malloc, free);
  atvi_draws_free(d);
  atvi_io_groups_drop(dir);
  CHECK(rmdir(dir) == 0);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

TESTS({"same", what_is_written_is_read}, {"damaged", damaged_files_are_refused}, {"memory", without_memory},
      {"json", without_memory_for_json})
