/* SPDX-License-Identifier: MIT */
/* Simulators, emulators and observations that are sums of processes: what a right model becomes. */
#include "unit/lang/helper.h"

static const char *const HYDROGRAPH =
    "model \"Hydrograph\"\n"
    "folder \"../data/hydrology\"\n"
    "param theta[1..5] ~ uniform(0, 1)\n"
    "param range  ~ gamma(2, 1/150)\n"
    "param sill_d ~ invgamma(2, 10500)\n"
    "param nugget ~ invgamma(2, 16.5)\n"
    "param sill   ~ invgamma(50, 5201459527)\n"
    "emulator flow {\n"
    "  inputs  theta                                  # in the order of the columns\n"
    "  designs \"param_par_rescale.csv\" columns 2..6\n"
    "\n"
    "  outputs \"mat_Y_em.csv\" columns 2..481\n"
    "  mean    \"mat_Y_mean.csv\" column 2\n"
    "  times   \"hours.csv\"\n"
    "  kernel  exponential\n"
    "  lengths 8992.69, 25.16, 2.63,\n"
    "          0.8525, 11.67\n"
    "  nugget  0.2991\n"
    "  time    148.98\n"
    "  basis   0.999\n"
    "}\n"
    "data \"obs0.csv\"\n"
    "observe discharge columns 2 ~ emulator(flow, sill) + exponential(2*sill_d, range) +\n"
    "  white(nugget)\n"
    "derived length = sqrt(range)\n";

static const char *const CATCHMENT = "param k ~ uniform(0, 1)\n"
                                     "param m[1..2] ~ lognormal(0, 1)\n"
                                     "param v in (0, 4)\n"
                                     "simulator {\n"
                                     "  command  \"./catchment {k} {m.2} -x {{1}}\"\n"
                                     "  template \"run.in.tmpl\" to \"sub/run.in\"\n"
                                     "  send     json\n"
                                     "  send     environment\n"
                                     "  output   flow from \"out.csv\" csv column discharge time hour\n"
                                     "  output   peak from stdout json\n"
                                     "  output   base from \"out.dat\" columns column 3 time 1\n"
                                     "  output   low from \"low.json\" time when\n"
                                     "  limit    30 min\n"
                                     "  jobs     4\n"
                                     "  retries  1\n"
                                     "}\n"
                                     "emulator flow { kernel matern52 }\n"
                                     "data \"obs.csv\" time hour\n"
                                     "observe discharge ~ emulator(flow) + matern32(v, 2.385) + white(0)\n"
                                     "observe top ~ emulator(peak) + matern52(1, 3)\n";

static void the_hydrograph_is_read(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_lang *lang = model(ctx, HYDROGRAPH);
  CHECK(lang->kind == ATVI_MODEL_STATIC && lang->n_param == 9 && lang->dynamics.n_state == 0);
  CHECK_STR(lang->folder, "../data/hydrology");
  CHECK_STR(lang->data[0].path, "../data/hydrology/obs0.csv");
  CHECK(lang->n_emulator == 1 && !lang->simulator.given);
  const atvi_lang_emulator *em = &lang->emulator[0];
  CHECK_STR(em->name, "flow");
  CHECK_INT(em->n_input, 5);
  for (atvi_idx i = 0; i < 5; i++) CHECK_INT(em->input[i], i);
  CHECK_STR(em->designs.path, "../data/hydrology/param_par_rescale.csv");
  CHECK(em->designs.first == 2 && em->designs.last == 6);
  CHECK(em->designs.place.line == 10 && em->designs.place.column == 11);
  CHECK_STR(em->outputs.path, "../data/hydrology/mat_Y_em.csv");
  CHECK(em->outputs.first == 2 && em->outputs.last == 481);
  CHECK(em->mean.first == 2 && em->mean.last == 2 && em->times.first == 1 && em->times.last == 1);
  CHECK_STR(em->kernel, "exponential");
  CHECK_INT(em->n_length, 5);
  CHECK(em->length[0] == 8992.69 && em->length[4] == 11.67);
  CHECK(em->nugget == 0.2991 && em->time_length == 148.98 && em->basis == 0.999);
  CHECK(em->place.line == 8 && em->place.column == 10);

  const atvi_lang_observe *o = &lang->observe[0];
  CHECK(lang->n_observe == 1 && o->n_term == 3 && o->n_arg == 0);
  CHECK_STR(o->name, "discharge");
  const double param[9] = {0, 0, 0, 0, 0, 150.25, 2.385, 0.731, 4.19};
  CHECK(o->term[0].kind == ATVI_TERM_EMULATOR && o->term[0].emulator == 0);
  CHECK_REL(value_at(ctx, lang, o->term[0].arg[0], param, 0, NULL, NULL), 4.19, 0);
  CHECK(o->term[1].kind == ATVI_TERM_EXPONENTIAL && o->term[1].emulator == -1);
  CHECK_REL(value_at(ctx, lang, o->term[1].arg[0], param, 0, NULL, NULL), 2 * 2.385, 0);
  CHECK_REL(value_at(ctx, lang, o->term[1].arg[1], param, 0, NULL, NULL), 150.25, 0);
  CHECK(o->term[2].kind == ATVI_TERM_WHITE && o->term[2].place.line == 24);
  CHECK_REL(value_at(ctx, lang, o->term[2].arg[0], param, 0, NULL, NULL), 0.731, 0);
  CHECK(o->term[2].arg[1] == ATVI_NODE_NONE);
  atvi_lang_free(lang);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void the_catchment_is_read(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_lang *lang = model(ctx, CATCHMENT);
  const atvi_lang_simulator *sim = &lang->simulator;
  char want[4200], cwd[4096];
  CHECK(getcwd(cwd, sizeof cwd) != NULL);
  snprintf(want, sizeof want, "%s/catchment {k} {m.2} -x {{1}}", cwd);
  CHECK(sim->given && !sim->worker && sim->send_json && sim->send_environment);
  CHECK_STR(sim->command, want);
  CHECK_INT(sim->n_template, 1);
  CHECK_STR(sim->templates[0].from, "run.in.tmpl");
  CHECK_STR(sim->templates[0].to, "sub/run.in");
  CHECK(sim->limit_s == 1800 && sim->jobs == 4 && sim->retries == 1);
  CHECK(sim->n_input == 2 && sim->input[0] == 0 && sim->input[1] == 2);
  CHECK_INT(sim->n_output, 4);
  const atvi_lang_output *out = sim->output;
  CHECK_STR(out[0].name, "flow");
  CHECK_STR(out[0].file, "out.csv");
  CHECK_STR(out[0].format, "csv");
  CHECK_STR(out[0].column, "discharge");
  CHECK_STR(out[0].time, "hour");
  CHECK(!out[1].file && !out[1].column && !out[1].time && strcmp(out[1].format, "json") == 0);
  CHECK(strcmp(out[2].format, "columns") == 0 && strcmp(out[2].column, "3") == 0);
  CHECK_STR(out[2].time, "1");
  CHECK_STR(out[3].format, "json");
  CHECK(out[3].place.line == 12 && out[3].place.column == 12);

  CHECK_INT(lang->n_emulator, 2); /* the second was made for the observation */
  CHECK_STR(lang->emulator[0].kernel, "matern52");
  CHECK_STR(lang->emulator[1].name, "peak");
  for (int i = 0; i < 2; i++) {
    const atvi_lang_emulator *em = &lang->emulator[i];
    CHECK(!em->designs.path && !em->outputs.path && !em->mean.path && !em->times.path && !em->length);
    CHECK(isnan(em->nugget) && isnan(em->time_length) && isnan(em->basis));
    CHECK(em->n_input == 2 && em->input[1] == 2);
  }
  CHECK(lang->n_observe == 2 && lang->observe[1].term[0].emulator == 1);
  CHECK(lang->observe[0].term[0].arg[0] == ATVI_NODE_NONE);
  CHECK(lang->observe[0].term[1].kind == ATVI_TERM_MATERN32);
  CHECK(lang->observe[1].term[1].kind == ATVI_TERM_MATERN52);
  CHECK_STR(lang->data[0].time_name, "hour");
  atvi_lang_free(lang);
  atvi_ctx_free(ctx);
}

/* Who is not named anywhere is an input unless an observation uses it; a template is looked into. */
static void inputs_have_defaults(void) {
  atvi_ctx *ctx = test_ctx();
  folder f = folder_new();
  char path[128], text[600], want[256];
  snprintf(path, sizeof path, "%s/m.atvi", f.path);
#define P "param a in (0, 1)\nparam b[1..2] in (0, 1)\nparam v in (0, 1)\nlet w = 2*v\n"
#define O "data \"none.csv\"\nobserve y ~ emulator(q) + white(w)\n"
  static const struct {
    const char *settings;
    atvi_idx n, input[4];
  } WANT[] = {
      {"command \"x\"\nsend json\n", 3, {0, 1, 2}},
      {"command \"x\"\nsend environment\ninputs b, a\n", 3, {1, 2, 0}},
      {"command \"x {b.1}\"\nsend json\n", 1, {1}},
      {"command \"x { b[2] }\"\nsend json\n", 1, {2}},
      {"command \"x {b.1} {b.1}\"\ninputs b[2], b[1]\n", 2, {2, 1}},
      {"command \"x\"\ntemplate \"t.in\" to \"t\"\n", 2, {0, 2}},
      {"command \"x {v}\"\ntemplate \"t.in\" to \"t\"\n", 3, {0, 2, 3}},
      {"command \"x\"\ntemplate \"none.in\" to \"t\"\n", 3, {0, 1, 2}},
      {"command \"x\"\nworker\n", 3, {0, 1, 2}},
  };
  folder_put(&f, "t.in", "a = {a}\n{{v}} } { {none} {b[1} {b,1} { }\n{ b[2]\t}{a}");
  for (size_t i = 0; i < sizeof WANT / sizeof *WANT; i++) {
    atvi_lang *lang;
    atvi_lang_opts opts = {.data_optional = true};
    bool worker = strstr(WANT[i].settings, "worker") != NULL;
    snprintf(text, sizeof text, P "simulator\n{\n%soutput q%s\n}\n" O, WANT[i].settings,
             worker ? "" : " from stdout json");
    atvi_status status = atvi_lang_parse(ctx, path, text, strlen(text), &opts, &lang);
    CHECK_MSG(status == ATVI_OK, "%s", atvi_errmsg(ctx));
    CHECK_INT(lang->simulator.n_input, WANT[i].n);
    for (atvi_idx k = 0; k < WANT[i].n; k++) CHECK_INT(lang->simulator.input[k], WANT[i].input[k]);
    CHECK_INT(lang->emulator[0].n_input, WANT[i].n);
    CHECK(lang->simulator.worker == worker && isinf(lang->simulator.limit_s) && lang->simulator.jobs == 0);
    if (lang->simulator.n_template) {
      snprintf(want, sizeof want, "%s/%s", f.path, strstr(text, "none.in") ? "none.in" : "t.in");
      CHECK_STR(lang->simulator.templates[0].from, want);
    }
    CHECK_STR(lang->simulator.output[0].format, "json");
    atvi_lang_free(lang);
  }
  folder_end(&f);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void commands_find_the_model(void) {
  static const struct {
    const char *path, *command, *want;
  } WANT[] = {
      {"/a/b/m.atvi", "bin/run {k}", "/a/b/bin/run {k}"},
      {"/a/b/m.atvi", "  ./run {k}", "/a/b/run {k}"},
      {"/a/b/m.atvi", "../run {k}", "/a/b/../run {k}"},
      {"/a/b/m.atvi", "run {k}", "run {k}"},
      {"/a/b/m.atvi", "/bin/run {k}", "/bin/run {k}"},
      {"/a/b/m.atvi", "~/run {k}", "~/run {k}"},
      {"/a/b/m.atvi", "A=x/y run {k}", "A=x/y run {k}"},
      {"/a/b/m.atvi", "python3 {here}/a.py {k} {here}", "python3 /a/b/a.py {k} /a/b"},
      {"/a b/{c}'s/m.atvi", "./run {k}", "'/a b/{{c}}'\\''s'/run {k}"},
      {"/m.atvi", "./run {k}", "/run {k}"},
  };
  char text[400];
  atvi_ctx *ctx = test_ctx();
  for (size_t i = 0; i < sizeof WANT / sizeof *WANT; i++) {
    atvi_lang *lang;
    snprintf(text, sizeof text,
             "param k in (0, 1)\nsimulator {\ncommand \"%s\"\noutput q from stdout json\n}\n",
             WANT[i].command);
    atvi_status status = atvi_lang_parse(ctx, WANT[i].path, text, strlen(text), NULL, &lang);
    CHECK_MSG(status == ATVI_OK, "%s", atvi_errmsg(ctx));
    CHECK_STR(lang->simulator.command, WANT[i].want);
    atvi_lang_free(lang);
  }
  const char *own = "param here in (0, 1)\nsimulator {\ncommand \"x {here}\"\noutput q from stdout json\n}\n";
  atvi_lang *lang = model(ctx, own);
  CHECK_STR(lang->simulator.command, "x {here}");
  atvi_lang_free(lang);
  atvi_ctx_free(ctx);
}

static void units_of_a_limit(void) {
  static const struct {
    const char *text;
    double want;
  } WANT[] = {{"90", 90}, {"1.5 s", 1.5}, {"2*3 min", 360}, {"2 h", 7200}, {"0.5 d", 43200}};
  char text[300];
  for (size_t i = 0; i < sizeof WANT / sizeof *WANT; i++) {
    snprintf(text, sizeof text,
             "param k in (0, 1)\nsimulator {\nlimit %s\ncommand \"x {k}\"\noutput q from stdout json }\n",
             WANT[i].text);
    atvi_ctx *ctx = test_ctx();
    atvi_lang *lang = model(ctx, text);
    CHECK_REL(lang->simulator.limit_s, WANT[i].want, 1e-15);
    atvi_lang_free(lang);
    atvi_ctx_free(ctx);
  }
}

/* The words of blocks and processes are names elsewhere, as they always were. */
static void words_stay_free(void) {
  static const char *const WORDS[] = {
      "simulator",   "emulator", "folder",  "inputs", "designs", "outputs", "mean",
      "times",       "kernel",   "lengths", "nugget", "time",    "basis",   "command",
      "template",    "send",     "worker",  "output", "limit",   "jobs",    "retries",
      "exponential", "matern32", "white",   "range",  "columns", "stdout",  "json"};
  char text[400];
  for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
    const char *w = WORDS[i];
    snprintf(text, sizeof text,
             "param %s in (0, 1)\nparam x ~ normal(%s, 1)\nstate S = %s\ndS/dt = -%s*S\nderived d = 3*%s\n",
             w, w, w, w, w);
    CHECK_REL(derived_at(text, (double[]){0.731, 2.385}), 3 * 0.731, 1e-15);
    snprintf(
        text, sizeof text,
        "param %s in (0, 1)\nemulator %s { inputs %s\ndesigns \"d\"\noutputs \"o\"\n}\ndata \"none.csv\"\n"
        "observe %s ~ emulator(%s, %s) + white(%s)\n",
        w, w, w, w, w, w, w);
    atvi_ctx *ctx = test_ctx();
    atvi_lang *lang = model(ctx, text);
    CHECK_STR(lang->emulator[0].name, w);
    CHECK(lang->emulator[0].designs.first == 1 && lang->emulator[0].designs.last == 1);
    CHECK(lang->emulator[0].outputs.first == 1 && lang->emulator[0].outputs.last == 0);
    atvi_lang_free(lang);
    atvi_ctx_free(ctx);
  }
}

/* Without an emulator, with an index, with numbers from a file. */
static void sums_without_emulator(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_lang *lang = model(ctx, "param s in (0, 2)\ndata \"none.csv\"\nobserve y ~ white(s^2)\n");
  const double s = 1.37;
  CHECK(lang->n_emulator == 0 && lang->observe[0].n_term == 1 && lang->observe[0].dist == ATVI_DIST_NORMAL);
  CHECK_REL(value_at(ctx, lang, lang->observe[0].term[0].arg[0], &s, 0, NULL, NULL), s * s, 1e-15);
  atvi_lang_free(lang);
  lang =
      model(ctx, "param s[1..2] in (0, 2)\ndata \"none.csv\"\nobserve y[i in 1..2] ~ exponential(s[i], i) + "
                 "exponential(i, 3) + white(1)\n");
  CHECK(lang->n_observe == 2 && lang->observe[1].n_term == 3);
  CHECK_REL(value_at(ctx, lang, lang->observe[1].term[0].arg[1], &s, 0, NULL, NULL), 2, 0);
  CHECK_REL(value_at(ctx, lang, lang->observe[1].term[1].arg[0], &s, 0, NULL, NULL), 2, 0);
  atvi_lang_free(lang);
  atvi_ctx_free(ctx);
}

static void data_may_be_missing(void) {
  atvi_ctx *ctx = test_ctx();
  folder f = folder_new();
  char path[128];
  atvi_lang *lang;
  snprintf(path, sizeof path, "%s/m.atvi", f.path);
  folder_put(&f, "a.csv", "day,y\n1,2.5\n2,NA\n2,-3\n");
  const char *text = "param s in (0, 2)\ndata \"a.csv\" time day\nobserve y ~ white(s)\n";
  CHECK_OK(atvi_lang_parse(ctx, path, text, strlen(text), NULL, &lang));
  CHECK(lang->observe[0].n_missing == 1 && lang->observe[0].n_censored == 0 && lang->data[0].n_row == 3);
  atvi_lang_free(lang);
  folder_put(&f, "a.csv", "day,y\n1,2.5\n2,<3\n");
  CHECK_STATUS(atvi_lang_parse(ctx, path, text, strlen(text), NULL, &lang), ATVI_EDATA);
  CHECK(strstr(atvi_errmsg(ctx), "a.csv:3:3: error: '<3' is censored") != NULL);
  folder_put(&f, "a.csv", "day,y\n1,2.5\n2,x\n");
  CHECK_STATUS(atvi_lang_parse(ctx, path, text, strlen(text), NULL, &lang), ATVI_EDATA);
  CHECK(strstr(atvi_errmsg(ctx), "a.csv:3:3: error: 'x' is not a number") != NULL);
  text = "param s in (0, 2)\ndata \"a.csv\"\nobserve y ~ white(day)\n";
  folder_put(&f, "a.csv", "day,y\n1,2.5\n");
  CHECK_STATUS(atvi_lang_parse(ctx, path, text, strlen(text), NULL, &lang), ATVI_EMODEL);
  snprintf(path, sizeof path, "%s/m.atvi", f.path);
  check_message(atvi_errmsg(ctx), path, 3, 19, "the variance of white cannot depend on columns of the data");
  folder_end(&f);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* What the command line names is relative to the working folder; absolute paths are as they are. */
static void folders_are_replaced(void) {
  atvi_ctx *ctx = test_ctx();
  folder f = folder_new();
  atvi_lang *lang;
  const char *text = "folder \"there\"\nparam s in (0, 2)\nconst c from \"a.csv\"\nderived d = c*s\n";
  folder_put(&f, "a.csv", "2.385\n");
  CHECK_STATUS(atvi_lang_parse(ctx, "x/m.atvi", text, strlen(text), NULL, &lang), ATVI_EMODEL);
  check_message(atvi_errmsg(ctx), "x/m.atvi", 3, 14, "there is no file x/there/a.csv");
  CHECK(strstr(atvi_errmsg(ctx), "in the folder that the model names") != NULL);
  CHECK_INT(atvi_errcode(ctx), ATVI_CODE_FILE_MISSING);
  atvi_lang_opts opts = {.folder = f.path};
  CHECK_OK(atvi_lang_parse(ctx, "x/m.atvi", text, strlen(text), &opts, &lang));
  CHECK_STR(lang->folder, f.path);
  CHECK_REL(value_at(ctx, lang, lang->outputs.derived[0].node, (double[]){2}, 0, NULL, NULL), 4.77, 1e-15);
  atvi_lang_free(lang);
  text = "param s in (0, 2)\nconst c from \"b.csv\"\n";
  CHECK_STATUS(atvi_lang_parse(ctx, "m.atvi", text, strlen(text), &opts, &lang), ATVI_EMODEL);
  CHECK(strstr(atvi_errmsg(ctx), "in the folder that was given") != NULL);
  CHECK_INT(atvi_errcode(ctx), ATVI_CODE_NONE);
  text = "param a in (0, 1)\nemulator q { inputs a\ndesigns \"/d.csv\"\noutputs \"o.csv\"\n}\n";
  CHECK_OK(atvi_lang_parse(ctx, "m.atvi", text, strlen(text), NULL, &lang));
  CHECK_STR(lang->emulator[0].designs.path, "/d.csv");
  CHECK_STR(lang->emulator[0].outputs.path, "o.csv");
  CHECK(lang->folder == NULL);
  atvi_lang_free(lang);
  folder_end(&f);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* R writes row labels and a header. */
static void constants_take_columns(void) {
  atvi_ctx *ctx = test_ctx();
  folder f = folder_new();
  char path[128];
  atvi_lang *lang;
  snprintf(path, sizeof path, "%s/m.atvi", f.path);
  folder_put(&f, "a.csv", "\"\",\"x\",\"y\"\n\"1\",8.5,1\n\"2\",25.25,2\n\"3\",0.5,4\n");
  const char *text =
      "param a[1..3] in (0, 1)\nconst e[1..3] from \"a.csv\" column 2\nconst n = 2\n"
      "const g[1..3] from \"a.csv\" column \"y\"\nconst h[1..3] from \"a.csv\" column y\n"
      "const C[1..3, 1..2] from \"a.csv\" columns n..n+1\n"
      "const l[i in 1..3] = e[i]\nderived d = e[2] + 10*g[3] + 100*C[3, 2] + 1000*C[2, 1] + h[1]\n"
      "emulator q { inputs a\ndesigns \"d\"\noutputs \"o\"\nlengths e\nnugget e[3]\n}\n";
  atvi_status status = atvi_lang_parse(ctx, path, text, strlen(text), NULL, &lang);
  CHECK_MSG(status == ATVI_OK, "%s", atvi_errmsg(ctx));
  CHECK_REL(value_at(ctx, lang, lang->outputs.derived[0].node, NULL, 0, NULL, NULL),
            25.25 + 40 + 400 + 25250 + 1, 1e-15);
  CHECK(lang->emulator[0].length[1] == 25.25 && lang->emulator[0].n_length == 3);
  CHECK(lang->emulator[0].nugget == 0.5);
  atvi_lang_free(lang);
  static const struct {
    const char *text;
    int column;
    const char *word;
  } WRONG[] = {
      {"const e[1..3] from \"a.csv\" column 4\n", 35, "there are no columns 4..4"},
      {"const e[1..3] from \"a.csv\" column 0\n", 35, "there are no columns 0..0"},
      {"const e[1..3] from \"a.csv\" columns 3..2\n", 36, "there are no columns 3..2"},
      {"const e[1..3] from \"a.csv\" column z\n", 35, "no column 'z'"},
      {"const e[1..3] from \"a.csv\" columns x, y\n", 39, "one column can be given by name"},
      {"const e[1..3] from \"a.csv\" columns 2..3\n", 20, "needs 3 rows of 1"},
      {"const e[1..2] from \"a.csv\" column 2\n", 20, "needs 2 rows of 1"},
      {"const e[1..3] from \"a.csv\" columns 2..e[1]\n", 36, "depends on itself"},
      {"const e[1..3] from \"a.csv\" column\n", 34, "expected an expression"},
  };
  for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
    CHECK_STATUS(atvi_lang_parse(ctx, path, WRONG[i].text, strlen(WRONG[i].text), NULL, &lang), ATVI_EMODEL);
    check_message(atvi_errmsg(ctx), path, 1, WRONG[i].column, WRONG[i].word);
  }
  folder_end(&f);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* The blocks of code in the reference are models. */
static void the_reference_shows_models(void) {
  static char text[100000];
  static const char *const SECTION[] = {"\n## Simulators\n", "\n## Emulators\n"};
  for (int i = 0; i < 2; i++) {
    FILE *f = fopen(TEST_SOURCE_DIR "/docs/language.md", "rb");
    CHECK(f != NULL);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    char *start = strstr(strstr(text, SECTION[i]), "```\n") + 4;
    *strstr(start, "```") = 0;
    atvi_ctx *ctx = test_ctx();
    atvi_lang *lang = model(ctx, start);
    CHECK(lang->n_emulator == 1 && lang->observe[0].n_term == 3 && lang->simulator.given == (i == 0));
    atvi_lang_free(lang);
    atvi_ctx_free(ctx);
  }
}

static void sweep(const char *text) {
  for (long k = 1;; k++) {
    test_fail_at = 0;
    atvi_ctx *ctx = test_ctx();
    atvi_lang *lang;
    atvi_lang_opts opts = {.data_optional = true};
    test_fail_at = test_allocs + k;
    atvi_status status = atvi_lang_parse(ctx, "m", text, strlen(text), &opts, &lang);
    if (status == ATVI_OK) {
      CHECK(k > 3);
      atvi_lang_free(lang);
      atvi_ctx_free(ctx);
      test_fail_at = 0;
      return;
    }
    CHECK_INT(status, ATVI_ENOMEM);
    CHECK(lang == NULL);
    atvi_ctx_free(ctx);
    CHECK_INT(test_live, 0);
  }
}

static void memory_may_run_out(void) {
  sweep(HYDROGRAPH);
  sweep(CATCHMENT);
}

TESTS({"hydrograph", the_hydrograph_is_read}, {"catchment", the_catchment_is_read},
      {"inputs", inputs_have_defaults}, {"commands", commands_find_the_model}, {"limits", units_of_a_limit},
      {"words", words_stay_free}, {"sums", sums_without_emulator}, {"data", data_may_be_missing},
      {"folders", folders_are_replaced}, {"columns", constants_take_columns},
      {"reference", the_reference_shows_models}, {"memory", memory_may_run_out})
