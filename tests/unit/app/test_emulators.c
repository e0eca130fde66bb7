/* SPDX-License-Identifier: MIT */
/* What a command does once: calls between modules are counted through the linker's --wrap
 * (tests/CMakeLists.txt). */
#include "app/app.h"
#include "io/csv.h"
#include "sim/detail.h"
#include "testing.h"
#include "gp/emulator.h"
#include <math.h>
#include <unistd.h>

static int n_parsed, n_left_out, n_design;

atvi_status __real_atvi_sim_lines_open(atvi_ctx *ctx, const char *path, int fd, atvi_sim_lines *out);
atvi_status __wrap_atvi_sim_lines_open(atvi_ctx *ctx, const char *path, int fd, atvi_sim_lines *out);
atvi_status __wrap_atvi_sim_lines_open(atvi_ctx *ctx, const char *path, int fd, atvi_sim_lines *out) {
  n_parsed++;
  return __real_atvi_sim_lines_open(ctx, path, fd, out);
}

atvi_status __real_atvi_gp_emulator_loo(atvi_ctx *ctx, const atvi_emulator *em, const atvi_em_runs *runs,
                                        atvi_em_loo *out);
atvi_status __wrap_atvi_gp_emulator_loo(atvi_ctx *ctx, const atvi_emulator *em, const atvi_em_runs *runs,
                                        atvi_em_loo *out);
atvi_status __wrap_atvi_gp_emulator_loo(atvi_ctx *ctx, const atvi_emulator *em, const atvi_em_runs *runs,
                                        atvi_em_loo *out) {
  n_left_out++;
  return __real_atvi_gp_emulator_loo(ctx, em, runs, out);
}

atvi_status __real_atvi_io_csv_read(atvi_pool *pool, const char *path, atvi_csv **out);
atvi_status __wrap_atvi_io_csv_read(atvi_pool *pool, const char *path, atvi_csv **out);
atvi_status __wrap_atvi_io_csv_read(atvi_pool *pool, const char *path, atvi_csv **out) {
  n_design += strstr(path, "design.csv") != NULL;
  return __real_atvi_io_csv_read(pool, path, out);
}

/* Two outputs of one simulator, emulated at inputs of their own. */
static const char MODEL[] = "param k ~ uniform(0, 2)\n"
                            "param m ~ uniform(0, 9)\n"
                            "param s2 ~ invgamma(3, 0.1)\n"
                            "simulator {\n"
                            "  command \"./sim {k} {m}\"\n"
                            "  output f from stdout csv\n"
                            "  output g from stdout csv\n"
                            "}\n"
                            "data \"y.csv\"\n"
                            "observe y ~ emulator(f) + white(s2)\n"
                            "observe z ~ emulator(g) + white(s2)\n";

static char dir[40], path[80];

static FILE *file(const char *name) {
  char at[80];
  snprintf(at, sizeof at, "%s/%s", dir, name);
  FILE *f = fopen(at, "w");
  CHECK(f);
  return f;
}

static void write_world(void) {
  strcpy(dir, "/tmp/atvi-emulators-XXXXXX");
  CHECK(mkdtemp(dir));
  snprintf(path, sizeof path, "%s/m.atvi", dir);
  FILE *model = file("m.atvi"), *rec = file("runs.jsonl"), *data = file("y.csv"),
       *design = file("design.csv");
  fputs(MODEL, model);
  fputs("y,z\n1.1,0.4\n0.4,0.9\n0.9,1.3\n", data);
  fputs("id,k,m\n", design);
  fputs("{\"record\":\"atvi runs\",\"version\":1,\"parameters\":[\"k\",\"m\"],\"outputs\":[\"f\",\"g\"],"
        "\"program\":\"x\"}\n",
        rec);
  for (int id = 1; id <= 20; id++) {
    double k = fmod(id * 0.754877666, 1) * 2, m = fmod(id * 0.569840291, 1) * 9;
    fprintf(design, "%d,%.9g,%.9g\n", id, k, m);
    fprintf(
        rec,
        "{\"id\":%d,\"outcome\":\"ok\",\"seconds\":1,\"attempts\":1,\"parameters\":{\"k\":%.9g,\"m\":%.9g},",
        id, k, m);
    fprintf(rec, "\"outputs\":{\"f\":{\"value\":[%.9g,%.9g,%.9g]},\"g\":{\"value\":[%.9g,%.9g,%.9g]}}}\n", k,
            k + m / 9, sin(k), m, m * k, k * k);
  }
  CHECK(fclose(model) == 0 && fclose(rec) == 0 && fclose(data) == 0 && fclose(design) == 0);
}

static void remove_world(void) {
  char line[100];
  snprintf(line, sizeof line, "rm -r '%s'", dir);
  CHECK_INT(system(line), 0);
}

static void begin(atvi_ctx **ctx, atvi_pool **pool) {
  *ctx = test_ctx();
  CHECK_OK(atvi_pool_new(*ctx, pool));
  n_parsed = n_left_out = n_design = 0;
}

static void end(atvi_ctx *ctx, atvi_pool *pool) {
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* Of two emulators of one record, also where rows are held out and the model is loaded twice: it is parsed
 * once and the runs of each are left out once, whatever is made of them. */
static void emulate_and_fit_look_once(void) {
  atvi_ctx *ctx;
  atvi_pool *pool;
  write_world();
  begin(&ctx, &pool);
  atvi_app_emulate_result emulated;
  CHECK_OK(atvi_app_emulate(
      ctx, pool, &(atvi_app_emulate_opts){.path = path, .runs = dir, .test = 0.1, .seed = 1}, &emulated));
  CHECK(emulated.report && strstr(emulated.text, "g: 20 runs"));
  CHECK_INT(n_parsed, 1);
  CHECK_INT(n_left_out, 2);
  CHECK_INT(n_design, 1);
  end(ctx, pool);
  for (int held = 0; held < 2; held++) {
    char out[80];
    begin(&ctx, &pool);
    snprintf(out, sizeof out, "%s/fit%d", dir, held);
    atvi_app_fit_opts fit = {.model = {.path = path, .runs = dir, .interpret = true},
                             .how = atvi_fit_defaults()};
    fit.how.method = "map";
    fit.out = out;
    fit.holdout = held ? "row > 2" : NULL;
    atvi_app_fit_result fitted;
    CHECK_OK(atvi_app_fit(ctx, pool, &fit, &fitted));
    CHECK(fitted.report != NULL);
    CHECK_INT(n_parsed, 1);
    CHECK_INT(n_left_out, 2);
    CHECK_INT(n_design, 1);
    end(ctx, pool);
  }
  remove_world();
}

TESTS({"once", emulate_and_fit_look_once})
