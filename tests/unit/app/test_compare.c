/* SPDX-License-Identifier: MIT */
#include "app/compare.h"
#include "app/report.h"
#include "io/file.h"
#include "io/netcdf.h"
#include "models.h"

/* mu ~ normal(0.4, 2.385), y ~ normal(mu, 0.731): the posterior is normal with known mean and sd. */
static const char *conjugate(void) {
  test_file("y.csv", "y\n1.21\n0.483\n2.05\n1.77\n-0.31\n1.04\n0.915\n1.36\n");
  return test_file("mean.atvi", "param mu ~ normal(0.4, 2.385)\nderived twice = 2*mu\n"
                                "data \"y.csv\"\nobserve y ~ normal(mu, 0.731)\n");
}
static const double Y_MEAN = 8.518 / 8;

static const char *in_dir(const char *name) {
  static char path[8][160];
  static int next;
  char *p = path[next++ % 8];
  snprintf(p, sizeof path[0], "%s/%s", test_dir, name);
  return p;
}

typedef struct {
  atvi_ctx *ctx;
  atvi_pool *pool;
  atvi_app_compare_opts o;
  atvi_app_compare_result r;
} world;

static world world_new(const char *methods) {
  world w = {.ctx = test_ctx()};
  CHECK_OK(atvi_pool_new(w.ctx, &w.pool));
  atvi_ctx_set_threads(w.ctx, 2);
  w.o = (atvi_app_compare_opts){.methods = methods};
  w.o.fit.how = atvi_fit_defaults();
  w.o.fit.model = (atvi_app_model){.path = conjugate(), .interpret = true};
  w.o.fit.out = in_dir("out");
  return w;
}

static void world_free(world *w) {
  atvi_pool_free(w->pool);
  atvi_ctx_free(w->ctx);
  CHECK(test_live == 0);
}

static bool has(const char *text, const char *word) { return strstr(text, word) != NULL; }

static bool narrow(const char *text) {
  for (; *text; text += strcspn(text, "\n"), text += *text == '\n')
    if (strcspn(text, "\n") > 100) return false;
  return true;
}

static void compares(bool parallel) {
  world w = world_new("atvi,ram,map");
  w.o.parallel = parallel;
  CHECK_OK(atvi_app_compare(w.ctx, w.pool, &w.o, &w.r));
  CHECK(w.r.n_fitted == 3 && !w.r.stopped);
  CHECK_STR(w.r.dir, w.o.fit.out);
  CHECK(has(w.r.text, "marginal of ram") && has(w.r.text, "mu") && has(w.r.text, "twice"));
  CHECK(has(w.r.text, "seconds (shared)") == parallel && narrow(w.r.text));
  CHECK(has(w.r.json, "\"reference\": \"ram\"") && has(w.r.json, "\"coverage\""));
  static const char *const files[] = {"out/compare.csv",     "out/compare.json",     "out/atvi/weighted.csv",
                                      "out/ram/scores.json", "out/map/summary.json", "out/ram/predict.csv"};
  for (int i = 0; i < 6; i++) CHECK(access(in_dir(files[i]), R_OK) == 0);
  bool nc = atvi_io_netcdf_available(w.ctx) == ATVI_OK;
  for (const char *const *m = (const char *const[]){"atvi", "ram", "map", NULL}; *m; m++) {
    char path[32];
    snprintf(path, sizeof path, "out/%s/fit.nc", *m);
    CHECK((access(in_dir(path), R_OK) == 0) == nc);
  }
  /* the same again fits nothing again, and one more method is added */
  struct stat before, after;
  CHECK(stat(in_dir("out/ram/draws.csv"), &before) == 0);
  w.o.fit.out = in_dir("out"); /* whose memory is used in turn */
  w.o.methods = "ram,nuts";
  w.o.parallel = false;
  CHECK_OK(atvi_app_compare(w.ctx, w.pool, &w.o, &w.r));
  CHECK(w.r.n_fitted == 2 && has(w.r.text, "nuts") && has(w.r.text, "seconds (shared)") == parallel);
  CHECK(stat(in_dir("out/ram/draws.csv"), &after) == 0 && after.st_ino == before.st_ino &&
        after.st_mtim.tv_sec == before.st_mtim.tv_sec && after.st_mtim.tv_nsec == before.st_mtim.tv_nsec);
  CHECK(access(in_dir("out/nuts/checkpoint"), F_OK) != 0);
  w.o.fit.how.seed = 7;
  CHECK_STATUS(atvi_app_compare(w.ctx, w.pool, &w.o, &w.r), ATVI_EINVAL);
  CHECK(has(atvi_errmsg(w.ctx), "another --seed"));
  w.o.fit.force = true;
  CHECK_OK(atvi_app_compare(w.ctx, w.pool, &w.o, &w.r));
  CHECK(w.r.n_fitted == 2 && has(w.r.json, "\"seed\": 7"));
  w.o.fit.force = false;
  w.o.fit.out = in_dir("out/ram"); /* something else */
  CHECK_STATUS(atvi_app_compare(w.ctx, w.pool, &w.o, &w.r), ATVI_EEXIST);
  world_free(&w);
}
static void one_after_another(void) { compares(false); }
static void side_by_side(void) { compares(true); }

static void wrong_calls(void) {
  world w = world_new("atvi,nothing");
  CHECK_STATUS(atvi_app_compare(w.ctx, w.pool, &w.o, &w.r), ATVI_EINVAL);
  CHECK(has(atvi_errmsg(w.ctx), "nothing"));
  w.o.methods = "ram,atvi,ram";
  CHECK_STATUS(atvi_app_compare(w.ctx, w.pool, &w.o, &w.r), ATVI_EINVAL);
  CHECK(has(atvi_errmsg(w.ctx), "ram is given twice"));
  w.o.methods = "atvi,";
  CHECK_STATUS(atvi_app_compare(w.ctx, w.pool, &w.o, &w.r), ATVI_EINVAL);
  w.o.methods = "atvi,ram";
  w.o.reference = "nuts";
  CHECK_STATUS(atvi_app_compare(w.ctx, w.pool, &w.o, &w.r), ATVI_EINVAL);
  CHECK(has(atvi_errmsg(w.ctx), "--reference nuts"));
  w.o.reference = NULL;
  w.o.fit.model.path = test_file("wrong.atvi", "param mu ~ norml(0, 1)\n");
  CHECK_STATUS(atvi_app_compare(w.ctx, w.pool, &w.o, &w.r), ATVI_EMODEL);
  test_file("text.csv", "y\n1.5\nmany\n");
  w.o.fit.model.path =
      test_file("text.atvi", "param mu ~ normal(0, 1)\ndata \"text.csv\"\nobserve y ~ normal(mu, 1)\n");
  CHECK_STATUS(atvi_app_compare(w.ctx, w.pool, &w.o, &w.r), ATVI_EDATA);
  CHECK(access(w.o.fit.out, F_OK) != 0); /* nothing was begun */
  world_free(&w);
}

static bool always(void *user) {
  (void)user;
  return true;
}

static void stopped_before_it_began(void) {
  world w = world_new("ram,map");
  atvi_ctx_set_stop(w.ctx, always, NULL);
  CHECK_OK(atvi_app_compare(w.ctx, w.pool, &w.o, &w.r));
  CHECK(w.r.stopped && w.r.n_fitted == 0 && !w.r.all_ok);
  CHECK(has(w.r.text, "not run") && has(w.r.json, "stopped before it began"));
  world_free(&w);
}

/* A file where a method's folder should be: that method fails, the others do not. */
static void one_fails(void) {
  world w = world_new("map,ram");
  CHECK(mkdir(in_dir("out"), 0777) == 0);
  test_file("out/map", "in the way");
  w.o.fit.force = true;
  CHECK_OK(atvi_app_compare(w.ctx, w.pool, &w.o, &w.r));
  CHECK(w.r.n_fitted == 1 && !w.r.all_ok && !w.r.stopped);
  CHECK(has(w.r.text, "map: failed:") && has(w.r.text, "out/map"));
  CHECK(has(w.r.json, "\"state\": \"failed\"") && has(w.r.json, "\"state\": \"done\""));
  w.o.reference = "map"; /* which has nothing to compare with */
  CHECK_OK(atvi_app_compare(w.ctx, w.pool, &w.o, &w.r));
  CHECK(has(w.r.text, "has no draws") && has(w.r.json, "\"reference\": null"));
  world_free(&w);
}

/* ---- the numbers, from folders with made draws ---- */

static void csv_of(atvi_text *t, const char *method, double shift, double scale, bool ok) {
  enum { N = 4000 };
  atvi_io_text_add(t, "# method = %s\n# parameters = 1\n# chains = 4\n# draws = %d\n", method, N / 4);
  if (!ok) atvi_io_text_add(t, "# end = limit\n");
  atvi_io_text_add(t, "lp__,log_lik__,chain__,log_prior__,mu\n");
  for (int i = 0; i < N;
       i++) { /* every number of a grid once, in the order of a shuffle that is the same for all */
    double u = ((double)(i * 1201 % N) + 0.5) / N;
    atvi_io_text_add(t, "-3.25,-2.125,%d,-1.125,%.17g\n", 1 + i / (N / 4), shift + scale * u);
  }
}

static void folder(world *w, const char *name, double shift, double scale, bool ok) {
  atvi_text t = {.pool = w->pool};
  const char *text;
  char path[64];
  csv_of(&t, name, shift, scale, ok);
  CHECK_OK(atvi_io_text_get(&t, &text));
  CHECK(mkdir(in_dir(name), 0777) == 0);
  snprintf(path, sizeof path, "%s/draws.csv", name);
  test_file(path, text);
  snprintf(path, sizeof path, "%s/scores.json", name);
  test_file(
      path,
      "{\"fitted\": {\"series\": [{\"series\": \"y\", \"n\": 8, \"coverage\": 0.875}], \"all\": {\"n\": 8, "
      "\"coverage\": 0.875, \"ail\": 2.5}}, \"held_out\": null}\n");
  snprintf(path, sizeof path, "%s/fit.json", name); /* written last: the fit is whole */
  test_file(path, "{}\n");
}

static atvi_comparison three(world *w) {
  atvi_comparison c = {.model = "made", .seed = 7, .n = 3};
  c.of = atvi_pool_take(w->pool, 3, sizeof *c.of);
  CHECK(c.of != NULL);
  static const char *const name[3] = {"atvi", "nuts", "ram"};
  for (int i = 0; i < 3; i++)
    c.of[i] = (atvi_compared){.method = name[i],
                              .state = ATVI_COMPARED_DONE,
                              .dir = atvi_pool_printf(w->pool, "%s", in_dir(name[i]))};
  return c;
}

static void distances_and_reference(void) {
  world w = world_new(NULL);
  folder(&w, "atvi", 0.731, 1, true);
  folder(&w, "nuts", 0, 1.5, true);
  folder(&w, "ram", 0, 1, true);
  atvi_comparison c = three(&w);
  CHECK_OK(atvi_app_compare_read(w.ctx, w.pool, NULL, &c));
  CHECK_INT(c.reference, 1); /* nuts before ram */
  double sd = 1.5 / sqrt(12);
  CHECK_REL(c.of[2].distance[0], 0.25 / sd, 2e-3); /* uniform on [0, 1] and [0, 1.5]: 1/4 */
  CHECK(isnan(c.of[1].distance[0]) && isnan(c.of[2].raw[0]));
  CHECK(c.of[2].chance[0] > 0 && c.of[2].chance[0] < 0.1);
  CHECK(c.of[2].n_series == 1 && c.of[2].fitted[1].coverage == 0.875 && c.of[2].fitted[1].ail == 2.5);
  CHECK(isnan(c.of[2].fitted[1].mspe) && c.of[2].held == NULL);
  atvi_app_compare_free(&c);

  c = three(&w);
  CHECK_OK(atvi_app_compare_read(w.ctx, w.pool, "ram", &c));
  CHECK_INT(c.reference, 2);
  CHECK_REL(c.of[0].distance[0], 0.731 * sqrt(12), 1e-3); /* a shift */
  const char *text;
  CHECK_OK(atvi_app_compare_text(w.pool, &c, &text));
  CHECK(has(text, "2.53") && has(text, "* more than three") && has(text, "ref") && has(text, "87.5") &&
        narrow(text));
  c.of[1].reason = "two,\nlines";
  CHECK_OK(atvi_app_compare_csv(w.pool, &c, &text));
  CHECK(has(text, "method,kind,name,statistic,value\natvi,fit,,state,done\n"));
  CHECK(has(text, "\nnuts,fit,,reason,\"two, lines\"\n"));
  CHECK(has(text, "\nram,fitted,y,coverage,0.875\n") && has(text, "\nram,parameter,mu,distance,NA\n"));
  atvi_app_compare_free(&c);
  world_free(&w);
}

static const char *page_of(world *w, const atvi_comparison *c) {
  char *html;
  size_t n;
  atvi_app_report_compare(w->ctx, w->pool, c, test_dir);
  CHECK_OK(atvi_io_file_read(w->pool, in_dir("report.html"), &html, &n));
  return html;
}

/* The page has no number that the table withholds. */
static void evidence_of_refused_weights(void) {
  world w = world_new(NULL);
  folder(&w, "atvi", 0.731, 1, true);
  folder(&w, "nuts", 0, 1.5, true);
  folder(&w, "ram", 0, 1, true);
  atvi_comparison c = three(&w);
  const char *text;
  CHECK_OK(atvi_app_compare_read(w.ctx, w.pool, NULL, &c));
  atvi_summary *s = c.of[0].summary;
  s->made.log_evidence = -71.625;
  s->chains = 0;
  for (int refused = 0; refused < 2; refused++) {
    s->refused = refused;
    CHECK_OK(atvi_app_compare_text(w.pool, &c, &text));
    CHECK(has(text, "-71.6") == !refused);
    text = page_of(&w, &c);
    CHECK(has(text, "71.625") == !refused && has(text, "<caption>Each has its own report<"));
    CHECK(refused ? isnan(atvi_app_compared_evidence(&c.of[0]))
                  : atvi_app_compared_evidence(&c.of[0]) == -71.625);
  }
  s->chains = 1;
  CHECK(atvi_app_compared_evidence(&c.of[0]) == -71.625);
  atvi_app_compare_free(&c);
  world_free(&w);
}

static void no_reference_is_ok(void) {
  world w = world_new(NULL);
  folder(&w, "atvi", 0.731, 1, true);
  folder(&w, "nuts", 0, 1.5, false);
  atvi_comparison c = three(&w); /* of ram there is no folder */
  CHECK_OK(atvi_app_compare_read(w.ctx, w.pool, NULL, &c));
  CHECK_INT(c.reference, 0);
  CHECK(c.of[2].state == ATVI_COMPARED_FAILED);
  CHECK_STR(atvi_app_compared_word(&c.of[2]), "failed");
  CHECK(c.of[2].summary == NULL);
  CHECK_MSG(has(c.of[2].reason, "/ram") && has(c.of[2].reason, "draws.csv"), "%s", c.of[2].reason);
  const char *text;
  CHECK_OK(atvi_app_compare_text(w.pool, &c, &text));
  CHECK(has(text, "no ram, nuts or exact has verdict ok") && has(text, "ram: failed:"));
  CHECK(has(page_of(&w, &c), "<caption>Methods that gave draws have their own reports<"));
  atvi_app_compare_free(&c);
  world_free(&w);
}

static void memory_runs_out(void) {
  world w = world_new(NULL);
  folder(&w, "atvi", 0.731, 1, true);
  folder(&w, "nuts", 0, 1.5, true);
  folder(&w, "ram", 0, 1, true);
  int failures = 0;
  for (long k = 1;; k++) {
    atvi_pool *pool;
    CHECK_OK(atvi_pool_new(w.ctx, &pool));
    atvi_comparison c = three(&w);
    const char *text;
    test_fail_at = test_allocs + k;
    atvi_status status = atvi_app_compare_read(w.ctx, pool, NULL, &c);
    if (status == ATVI_OK) status = atvi_app_compare_text(pool, &c, &text);
    if (status == ATVI_OK) status = atvi_app_compare_csv(pool, &c, &text);
    if (status == ATVI_OK) status = atvi_app_compare_json(pool, &c, &text);
    bool reached = test_allocs >= test_fail_at;
    test_fail_at = 0;
    atvi_app_compare_free(&c);
    atvi_pool_free(pool);
    if (!reached) {
      CHECK_OK(status);
      break;
    }
    failures++;
    CHECK(status == ATVI_ENOMEM ||
          status == ATVI_OK); /* OK: a file's buffer or threads, which can be done without */
  }
  CHECK(failures > 10);
  world_free(&w);
}

/* Both methods give the posterior that is known. */
static void numbers_are_right(void) {
  world w = world_new("atvi,nuts");
  CHECK_OK(atvi_app_compare(w.ctx, w.pool, &w.o, &w.r));
  atvi_comparison c = three(&w);
  c.n = 2;
  for (int i = 0; i < 2; i++) c.of[i].dir = atvi_pool_printf(w.pool, "%s/%s", w.o.fit.out, c.of[i].method);
  CHECK_OK(atvi_app_compare_read(w.ctx, w.pool, "atvi", &c));
  double precision = 1 / (2.385 * 2.385) + 8 / (0.731 * 0.731);
  double mean = (0.4 / (2.385 * 2.385) + 8 * Y_MEAN / (0.731 * 0.731)) / precision, sd = 1 / sqrt(precision);
  for (int i = 0; i < 2; i++) {
    const atvi_summary_column *col = c.of[i].summary->col;
    CHECK_ABS(col->mean, mean, 5 * sd / sqrt(c.of[i].fit.ess));
    CHECK_REL(col->sd, sd, 0.1);
  }
  CHECK(c.of[1].distance[0] < 3 * c.of[1].chance[0]);
  CHECK_REL(c.of[1].distance[0], c.of[1].distance[1], 1e-9); /* in sds, twice mu is as far as mu */
  atvi_app_compare_free(&c);
  world_free(&w);
}

TESTS({"evidence", evidence_of_refused_weights}, {"serial", one_after_another}, {"parallel", side_by_side},
      {"wrong", wrong_calls}, {"stopped", stopped_before_it_began}, {"one_fails", one_fails},
      {"distances", distances_and_reference}, {"no_reference", no_reference_is_ok},
      {"memory", memory_runs_out}, {"numbers", numbers_are_right})
