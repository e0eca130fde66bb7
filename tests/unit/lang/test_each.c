/* SPDX-License-Identifier: MIT */
/* Units: blocks and their files, what a unit's description has, and every mistake with its place. */
#include "unit/lang/helper.h"
#include <math.h>

static const char SUBJECTS[] = "subject,weight,arm\ns01,70.5,placebo\ns02,81.25,treated\ns03,55,treated\n";
static const char DOSES[] = "subject,time,amount,rate\ns02,0,120,1.5\ns02,24,80,2.5\ns01,1,100,1\n";
static const char CONC[] = "subject,hour,conc\ns01,1.5,3.25\ns01,4,2.125\ns02,0.5,4.5\n";

static const char POPULATION[] = "param lCL ~ normal(1, 1)\n"
                                 "param wCL ~ halfnormal(0.5)\n"
                                 "let V = exp(3.25)\n"
                                 "index arm = placebo, treated\n"
                                 "each subject from \"subjects.csv\" {\n"
                                 "  param CL ~ lognormal(lCL + 0.75*log(weight/70), wCL)\n"
                                 "  param k[1..2] in (0, 3)\n"
                                 "  state A = 0\n"
                                 "  dA/dt = -CL/V*A - k[2]*A*(arm - 1)\n"
                                 "  pulse A += amount*CL at time from \"doses.csv\"\n"
                                 "  data \"conc.csv\" time hour\n"
                                 "  observe conc ~ lognormal(log(A/V), sigma)\n"
                                 "  derived half = log(2)*V/CL\n"
                                 "  track share = A/(100*k[1])\n"
                                 "  logp -CL^2\n"
                                 "}\n"
                                 "param sigma ~ halfnormal(0.5)\n";

static folder files(void) {
  folder f = folder_new();
  folder_put(&f, "subjects.csv", SUBJECTS);
  folder_put(&f, "doses.csv", DOSES);
  folder_put(&f, "conc.csv", CONC);
  return f;
}

static atvi_status load(atvi_ctx *ctx, const folder *f, const char *text, atvi_lang **lang) {
  char path[128];
  snprintf(path, sizeof path, "%s/m.atvi", f->path);
  return atvi_lang_parse(ctx, path, text, strlen(text), NULL, lang);
}

static atvi_lang *good(atvi_ctx *ctx, const folder *f, const char *text) {
  atvi_lang *lang;
  atvi_status status = load(ctx, f, text, &lang);
  CHECK_MSG(status == ATVI_OK, "%s\n%s", text, atvi_errmsg(ctx));
  return lang;
}

/* Nodes of that operation that x is made of. */
static int count(const atvi_graph *g, atvi_node x, atvi_op op) {
  const atvi_node_info s = atvi_graph_get(g, x);
  int n = s.op == op;
  for (int k = 0; k < s.n_arg; k++) n += count(g, s.arg[k], op);
  return n;
}

/* A parameter that a number of the unit chooses is one load, however many there are. */
static void numbers_of_units_are_indices(void) {
  atvi_ctx *ctx = test_ctx();
  folder f = files();
  atvi_lang *m = good(
      ctx, &f,
      "param b[1..100] ~ normal(0, 1)\nindex arm = placebo, treated\neach subject from \"subjects.csv\" {\n"
      "  param c[1..100] ~ normal(b[arm], 1)\n  state A = b[101 - arm]\n  dA/dt = -c[10*arm]*A\n"
      "  data \"conc.csv\" time hour\n  observe conc ~ normal(A, 1)\n}\n");
  const atvi_lang *unit = m->blocks.block[0].unit[1].lang;
  const atvi_node used[3] = {unit->param[100].arg[0], unit->dynamics.state[0].init,
                             unit->dynamics.state[0].rhs};
  for (int k = 0; k < 3; k++) {
    CHECK_INT(count(unit->graph, used[k], ATVI_OP_PICK), 1);
    CHECK_INT(count(unit->graph, used[k], ATVI_OP_SELECT), 0);
  }
  atvi_lang_free(m);
  atvi_ctx_free(ctx);
}

static void every_unit_is_a_model(void) {
  atvi_ctx *ctx = test_ctx();
  folder f = files();
  atvi_lang *m = good(ctx, &f, POPULATION);
  static const char *const NAMES[] = {"lCL",     "wCL",     "sigma",   "CL.s01",  "CL.s02",  "CL.s03",
                                      "k.1.s01", "k.1.s02", "k.1.s03", "k.2.s01", "k.2.s02", "k.2.s03"};
  CHECK_INT(m->n_param, 3);
  CHECK_INT(m->blocks.n_param, 12);
  for (int i = 0; i < 12; i++) CHECK_STR(m->blocks.param[i].name, NAMES[i]);
  CHECK(m->blocks.param[3].lower == 0 && isinf(m->blocks.param[3].upper) && m->blocks.param[3].n_arg == 0);
  CHECK(m->blocks.param[11].lower == 0 && m->blocks.param[11].upper == 3);
  CHECK(m->dynamics.n_state == 0 && m->n_observe == 0 && m->kind == ATVI_MODEL_STATIC);
  CHECK_INT(m->blocks.n_block, 1);
  const atvi_lang_block *b = &m->blocks.block[0];
  CHECK_STR(b->name, "subject");
  CHECK(b->n_outer == 3 && b->n_covariate == 2 && b->n_unit == 3 && b->place.line == 5);
  CHECK_STR(b->covariate[0], "weight");
  CHECK_STR(b->covariate[1], "arm");
  static const double WEIGHT[] = {70.5, 81.25, 55}, ARM[] = {1, 2, 2};
  static const atvi_idx ROWS[] = {2, 1, 0}, PULSES[] = {1, 2, 0};
  static const double START[] = {1, 0, 0.5}; /* the first dose or row; without any that of all data */
  for (atvi_idx u = 0; u < 3; u++) {
    const atvi_lang *l = b->unit[u].lang;
    char label[8];
    snprintf(label, sizeof label, "s%02d", (int)u + 1);
    CHECK_STR(b->unit[u].label, label);
    CHECK(b->unit[u].covariate[0] == WEIGHT[u] && b->unit[u].covariate[1] == ARM[u]);
    CHECK(l->n_param == 6 && l->kind == ATVI_MODEL_ODE && l->dynamics.n_state == 1 && l->blocks.n_block == 0);
    for (atvi_idx i = 0; i < 3; i++) CHECK_INT(b->unit[u].param[i], i);
    for (atvi_idx i = 3; i < 6; i++) CHECK_INT(b->unit[u].param[i], 3 + (i - 3) * 3 + u);
    CHECK_STR(l->param[3].name, "CL");
    CHECK(l->n_data == 1 && l->data[0].n_row == ROWS[u] && l->n_observe == 1 && l->observe[0].n_missing == 0);
    CHECK(l->dynamics.n_pulse == 1 && l->dynamics.pulse[0].n_time == PULSES[u] &&
          l->dynamics.pulse[0].n_value == 1 && l->dynamics.pulse[0].n_same == 1);
    CHECK_ABS(l->time.start, START[u], 0);
    CHECK(l->outputs.n_derived == 1 && l->outputs.n_track == 1);
    const atvi_lang *first = b->unit[0].lang;
    CHECK(l->dynamics.state[0].rhs == first->dynamics.state[0].rhs &&
          l->observe[0].arg[0] == first->observe[0].arg[0]);
    CHECK(l->dynamics.pulse[0].amount[0] == first->dynamics.pulse[0].amount[0] &&
          l->log.prior == first->log.prior);
  }
  const atvi_lang *l = b->unit[1].lang;
  CHECK(l->dynamics.pulse[0].time[0] == 0 && l->dynamics.pulse[0].time[1] == 24 &&
        l->dynamics.pulse[0].value[0] == 120);
  CHECK(l->dynamics.pulse[0].value[1] == 80);
  CHECK(l->data[0].time[0] == 0.5 && l->data[0].value[2] == 4.5 && l->data[0].csv->line[0] == 4);
  atvi_lang_free(m);
  atvi_ctx_free(ctx);
  folder_end(&f);
  CHECK_INT(test_live, 0);
}

/* log prior, equation and pulse of a unit against formulas. */
static void nodes_use_the_unit(void) {
  atvi_ctx *ctx = test_ctx();
  folder f = files();
  atvi_lang *m = good(ctx, &f, POPULATION);
  const atvi_lang_unit *u = &m->blocks.block[0].unit[1];
  double lcl = 0.875, wcl = 0.31, cl = 2.385, k1 = 0.4, k2 = 0.7, V = exp(3.25), a = 17.5, dose = 120;
  const double x[] = {lcl, wcl, 0.2, cl, k1, k2, 81.25, 2}; /* parameters, then the numbers of the unit */
  double z = (log(cl) - lcl - 0.75 * log(81.25 / 70)) / wcl;
  double prior = -0.5 * z * z - log(wcl * cl) - 0.5 * log(2 * acos(-1)) - 2 * log(3.0);
  CHECK_REL(value_at(ctx, m, u->lang->log.prior, x, 0, NULL, NULL), prior, 1e-13);
  CHECK_REL(value_at(ctx, m, u->lang->log.extra, x, 0, NULL, NULL), -cl * cl, 1e-13);
  CHECK_REL(value_at(ctx, m, u->lang->dynamics.state[0].rhs, x, 0, &a, NULL), -cl / V * a - k2 * a, 1e-13);
  CHECK_REL(value_at(ctx, m, u->lang->outputs.derived[0].node, x, 0, NULL, NULL), log(2) * V / cl, 1e-13);
  const double *in[8] = {x, NULL, &a, NULL, NULL, &dose};
  double increase;
  CHECK_OK(atvi_graph_value(ctx, m->graph, u->lang->dynamics.pulse[0].amount[0], in, &increase));
  CHECK_REL(increase, dose * cl, 1e-13);
  atvi_lang_free(m);
  atvi_ctx_free(ctx);
  folder_end(&f);
}

static void labels_in_the_model(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_lang *m =
      model(ctx, "param mu ~ normal(0, 1)\neach arm in placebo, \"dose 2\", 7 { param x ~ normal(mu, 1) }\n");
  CHECK(m->blocks.n_block == 1 && m->blocks.block[0].n_unit == 3 && m->blocks.n_param == 4 &&
        m->blocks.block[0].n_covariate == 0);
  CHECK_STR(m->blocks.param[1].name, "x.placebo");
  CHECK_STR(m->blocks.param[2].name, "x.dose 2");
  CHECK_STR(m->blocks.param[3].name, "x.7");
  atvi_lang_free(m);
  m = model(ctx,
            "let each = 3\nparam folder ~ normal(each, 1)\neach arm in a, b\n{\n  param x ~ normal(0, 1)\n}\n"
            "each site in a, b {\n param y ~ normal(0, 1)\n each arm2 in c { param z ~ normal(y, 1)\n } }\n");
  CHECK(m->blocks.n_block == 3 && m->blocks.n_param == 7);
  CHECK_STR(m->blocks.param[5].name, "z.a.c");
  CHECK_STR(m->blocks.block[2].name, "site.arm2");
  atvi_lang_free(m);
  atvi_ctx_free(ctx);
}

/* Long files of units, numbers as labels, and a file whose enclosing column is not needed. */
static void blocks_nest(void) {
  atvi_ctx *ctx = test_ctx();
  folder f = folder_new();
  folder_put(&f, "regions.csv", "region,size\nsouth,3\nnorth,4.5\n");
  folder_put(&f, "schools.csv", "school,region,pupils\n1,north,20\n2,south,30\n3,north,40\n1,north,20\n");
  folder_put(&f, "marks.csv", "mark,school\n5.5,3\n6.5,1\n7.5,3\n4.5,2.0\n");
  atvi_lang *m = good(ctx, &f,
                      "param mu ~ normal(0, 1)\n"
                      "each region from \"regions.csv\" {\n"
                      "  param m ~ normal(mu/size, 1)\n"
                      "  let twice = 2*m*size\n"
                      "  each school from \"schools.csv\" {\n"
                      "    param theta ~ normal(m + pupils, size)\n"
                      "    data \"marks.csv\"\n"
                      "    observe mark ~ normal(theta + twice, 1)\n"
                      "  }\n"
                      "}\n");
  static const char *const NAMES[] = {"mu",           "m.south", "m.north", "theta.south.2", "theta.north.1",
                                      "theta.north.3"};
  CHECK(m->blocks.n_param == 6 && m->blocks.n_block == 2);
  for (int i = 0; i < 6; i++) CHECK_STR(m->blocks.param[i].name, NAMES[i]);
  const atvi_lang_block *b = &m->blocks.block[1];
  CHECK(b->n_outer == 2 && b->n_unit == 3 && b->n_covariate == 2);
  static const atvi_idx PARENT[] = {1, 2, 2}, ROWS[] = {1, 1, 2};
  static const double SIZE[] = {3, 4.5, 4.5}, PUPILS[] = {30, 20, 40};
  for (int u = 0; u < 3; u++) {
    CHECK_INT(b->unit[u].param[1], PARENT[u]);
    CHECK_INT(b->unit[u].param[2], 3 + u);
    CHECK_INT(b->unit[u].lang->data[0].n_row, ROWS[u]);
    for (int k = 0; k < 2; k++)
      CHECK(b->unit[u].covariate[k] == (strcmp(b->covariate[k], "size") == 0 ? SIZE[u] : PUPILS[u]));
  }
  CHECK(m->blocks.block[0].unit[1].lang->n_observe == 0 && m->blocks.block[0].unit[1].lang->n_data == 0);
  atvi_lang_free(m);
  atvi_ctx_free(ctx);
  folder_end(&f);
}

static void outside_and_inside(void) {
  atvi_ctx *ctx = test_ctx();
  folder f = files();
  folder_put(&f, "all.csv", "day,total\n1,3\n2,5\n");
  folder_put(&f, "feed.csv", "subject,t,v\ns01,0,1\ns01,3,2\ns02,1,7\ns03,0,9\n");
  folder_put(&f, "extra.csv", "time,amount\n2,5\n2,7\n3,NA\n6,1\n");
  atvi_lang *m = good(ctx, &f,
                      "param a in (0, 1)\nstate S = 1\ndS/dt = -a*S\nsolver rk45 tol 1e-6\nstart -3\n"
                      "pulse S += amount at time from \"extra.csv\"\n"
                      "table common step = [0: 1, 5: 2]\n"
                      "let both = a*common\n"
                      "function f(x) = x*a\n"
                      "data \"all.csv\" time day\n"
                      "observe total ~ poisson(S)\n"
                      "derived d = a*2\nlogp -a\n"
                      "each subject from \"subjects.csv\" {\n"
                      "  table food linear from \"feed.csv\" time t column v\n"
                      "  state A = S0\n"
                      "  let S0 = f(weight)\n"
                      "  start 0\n"
                      "  dA/dt = food*S*both - A\n"
                      "  data conc \"conc.csv\" time hour\n"
                      "  observe conc.conc ~ normal(A*d, 1)\n"
                      "}\n");
  CHECK(m->dynamics.n_state == 1 && m->time.start == -3 && m->n_observe == 1 && m->outputs.n_derived == 1);
  CHECK(m->dynamics.pulse[0].n_value == 1 && m->dynamics.pulse[0].n_same == 2);
  CHECK(m->dynamics.n_pulse == 1 && m->dynamics.pulse[0].n_time == 3 && m->dynamics.pulse[0].time[1] == 2 &&
        m->dynamics.pulse[0].value[1] == 7);
  const atvi_lang *u = m->blocks.block[0].unit[1].lang;
  CHECK(u->dynamics.n_state == 2 && u->n_table == 2 && u->dynamics.n_pulse == 1 && u->n_data == 1 &&
        u->n_observe == 1);
  CHECK(u->time.start == 0 && u->outputs.n_derived == 0 && u->solver.kind == ATVI_SOLVER_RK45 &&
        u->solver.tol_rel == 1e-6);
  CHECK(u->table[1].n == 1 && u->table[1].v[0] == 7);
  CHECK(m->blocks.block[0].unit[0].lang->table[1].n == 2);
  double zero;
  CHECK(atvi_graph_is_const(m->graph, u->log.extra, &zero) && zero == 0);
  CHECK(atvi_graph_is_const(m->graph, u->log.prior, &zero) && zero == 0);
  atvi_lang_free(m);
  atvi_ctx_free(ctx);
  folder_end(&f);
}

/* ---- mistakes ---- */
static void bad(const folder *f, const char *text, atvi_status want, const char *file, int line, int column,
                const char *word) {
  atvi_ctx *ctx = test_ctx();
  atvi_lang *lang;
  char path[192];
  atvi_status status = load(ctx, f, text, &lang);
  CHECK_MSG(status == want, "status %d for:\n%s\n%s", status, text, status ? atvi_errmsg(ctx) : "");
  snprintf(path, sizeof path, "%s/%s", f->path, file);
  check_message(atvi_errmsg(ctx), path, line, column, word);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

#define HEAD "param mu ~ normal(0, 1)\neach subject from \"subjects.csv\" {\n"

static void wrong_grammar(void) {
  wrong("each\n", 1, 5, "expected a name");
  wrong("each arm\n", 1, 9, "expected 'from' or 'in'");
  wrong("each arm in { }\n", 1, 13, "expected a name, found '{'");
  wrong("each arm in a, b\n", 1, 17, "expected '{'");
  wrong("each arm from subjects { }\n", 1, 15, "expected text in quotes");
  wrong("each arm in a {\nparam x ~ normal(0, 1)\n", 1, 15, "never closed");
  wrong("each arm in a { } }\n", 1, 19, "'}'");
  wrong("each arm in a { { }\n", 1, 17, "'{'");
  wrong("each arm in a { } let x = 3\n", 1, 19, "unexpected 'let'");
  wrong("each arm in a { let x = (3 }\n", 1, 28, "'}'");
  wrong("each sum in a { }\n", 1, 6, "word of the language");
  wrong("each arm in a, b, a { }\n", 1, 19, "'a' is named twice");
  wrong("each arm in a, \"b=3\" { }\n", 1, 16, "'b=3' cannot be a label");
  wrong("each arm in x__ { }\n", 1, 13, "'x__' cannot be a label");
  wrong("each arm in \"\" { }\n", 1, 13, "'' cannot be a label");
  wrong("each a in x { each b in x { each c in x { each d in x { each e in x { } } } } }\n", 1, 62,
        "deeper than 4");
  wrong("eech arm in a { }\n", 1, 15, "'{'");
}

static void wrong_statements(void) {
  static const char *const OUTSIDE[] = {
      "model \"x\"",  "index i = 1..2", "const c = 3",  "function f(x) = x", "calendar 2020-01-01 day",
      "solver stiff", "step 1",         "folder \"x\"", "simulator { }",     "emulator q { }"};
  for (size_t i = 0; i < sizeof OUTSIDE / sizeof *OUTSIDE; i++) {
    char text[200];
    snprintf(text, sizeof text, "each arm in a {\n  %s\n}\n", OUTSIDE[i]);
    wrong(text, 2, 3, "cannot be used in a block");
  }
  wrong("param arm in (0, 1)\neach arm in a { }\n", 2, 6, "'arm' is defined twice");
  wrong("each arm in a { }\neach arm in b { }\n", 2, 6, "'arm' is defined twice");
  wrong("each arm in a { each arm in b { } }\n", 1, 22, "'arm' is defined twice");
  wrong("param x in (0, 1)\neach arm in a { param x in (0, 1) }\n", 2, 23, "'x' is defined twice");
  wrong("each arm in a { param x in (0, 1) }\neach site in a { param x in (0, 1) }\n", 2, 24,
        "two parameters are called 'x.a'");
  wrong("param x[1..2] in (0, 1)\neach a in 1 { }\neach b in u { each c in v {\nlet y = a } }\n", 4, 9,
        "'a' is a block of units");
  wrong(
      "simulator {\ncommand \"x {mu}\"\noutput q from stdout json\n}\nparam mu in (0, 1)\neach a in b { }\n",
      1, 1, "cannot have a simulator");
  wrong("each a in b {\ndata \"none.csv\"\nobserve y ~ white(1)\n}\n", 3, 9, "sum of processes");
  wrong("each a in b { start 1\nstart 2\n}\n", 2, 7, "'start' is given twice");
  wrong("param x[1..9000] in (0, 1)\neach a in b, c { param y[1..600] in (0, 1) }\n", 2, 6,
        "more than 10000 parameters");
  wrong("each a in b, c { let y[1..150000] = 1 }\n", 1, 6, "more than 200000 elements");
  wrong("solver stiff\neach a in b { param x in (0, 1) }\n", 1, 8, "no differential equations");
}

static void wrong_names(void) {
  wrong("each subject in a { param CL in (0, 1) }\nlet x = CL\nderived y = x\n", 2, 9,
        "'CL' belongs to each subject");
  wrong("let x = 2*CL\neach subject in a {\nparam CL in (0, 1)\nderived y = x\n}\n", 1, 11,
        "'CL' belongs to each subject");
  wrong("function f(x) = x*CL\neach subject in a {\nparam CL in (0, 1)\nderived y = f(2)\n}\n", 1, 19,
        "'CL' belongs to each subject");
  wrong("each subject in a { param CL in (0, 1) }\nparam b ~ normal(CL, 1)\n", 2, 18,
        "'CL' belongs to each subject");
  wrong("each subject in a { state A = 0\ndA/dt = 1\n}\npulse A += 3 at 5\n", 4, 7,
        "'A' belongs to each subject");
  wrong("each subject in a { state A = 0\n}\ndA/dt = 1\n", 3, 1, "'A' belongs to each subject");
  wrong("each p in a { param x in (0, 1) }\neach q in a { derived y = x }\n", 2, 27, "'x' belongs to each p");
  wrong("state A = 0\neach p in a { dA/dt = 1\n}\n", 1, 7, "has no equation");
}

static void wrong_files(void) {
  folder f = files();
  folder_put(&f, "odd.csv", "subject,hour,conc\ns01,1,2\ns09,2,3\n");
  folder_put(&f, "gaps.csv", "subject,hour,conc,note\ns01,1,2,x\nNA,2,3,y\n");
  folder_put(&f, "bare.csv", "hour,conc\n1,2\n");
  folder_put(&f, "long.csv", "subject,day,dose,site\na,0,5,u\nb,0,7,v\na,1,6,u\n");
  folder_put(&f, "none.csv", "subject,weight\n");
#define INSIDE(line) HEAD line "\n}\n", ATVI_EDATA
  bad(&f, INSIDE("data \"odd.csv\" time hour"), "odd.csv", 3, 1, "there is no subject 's09'");
  bad(&f, INSIDE("data \"gaps.csv\" time hour"), "gaps.csv", 3, 1, "the subject is missing");
  bad(&f, HEAD "data \"bare.csv\" time hour\n}\n", ATVI_EMODEL, "m.atvi", 3, 6, "has no column 'subject'");
  bad(&f, HEAD "state A = 0\ndA/dt = 0\npulse A += 1 at hour from \"bare.csv\"\n}\n", ATVI_EMODEL, "m.atvi",
      5, 27, "has no column 'subject'");
  bad(&f,
      HEAD "param lag ~ normal(0, 1)\nstart 0\nstate A = 0\ndA/dt = 0\npulse A += 1 at time + lag from "
           "\"doses.csv\"\n}\n",
      ATVI_EDATA, "doses.csv", 4, 5, "a negative lag");
  bad(&f, HEAD "start 0\nstate A = 0\ndA/dt = 0\npulse A += 1 at 2*time from \"doses.csv\"\n}\n", ATVI_EMODEL,
      "m.atvi", 6, 18, "or one and a lag");
  bad(&f, "each row from \"bare.csv\" {\ndata \"conc.csv\" time hour\n}\n", ATVI_EMODEL, "m.atvi", 2, 6,
      "has no column 'row'");
  bad(&f, "each subject from \"subjects.csv\" {\nlet x = subject\nparam a ~ normal(x, 1)\n}\n", ATVI_EDATA,
      "subjects.csv", 2, 1, "'s01' is not a number");
  bad(&f, "each subject from \"bare.csv\" { }\n", ATVI_EMODEL, "m.atvi", 1, 19, "has no column 'subject'");
  bad(&f, "each subject from \"gone.csv\" { }\n", ATVI_EMODEL, "m.atvi", 1, 19, "there is no file");
  bad(&f, "each subject from \"none.csv\" { }\n", ATVI_EDATA, "none.csv", 1, 1, "no row");
  bad(&f, "each subject from \"gaps.csv\" { }\n", ATVI_EDATA, "gaps.csv", 3, 1, "the subject is missing");
  bad(&f, "each subject from \"long.csv\" {\nparam x ~ normal(dose, 1)\n}\n", ATVI_EDATA, "long.csv", 4, 5,
      "'dose' varies within the subject 'a'");
  bad(&f, "each subject from \"long.csv\" {\nlet x = site\n}\n", ATVI_EDATA, "long.csv", 2, 7,
      "'u' is not a number");
  bad(&f, "index site = v, w\neach subject from \"long.csv\" {\nparam x ~ normal(site, 1)\n}\n", ATVI_EDATA,
      "long.csv", 2, 7, "not a label of the index set 'site'");
  bad(&f, "each subject from \"long.csv\" {\nparam x in (0, day)\n}\n", ATVI_EMODEL, "m.atvi", 2, 16,
      "each subject has its own");
  bad(&f, "let y = 2*weight\n" HEAD "derived z = y\n}\n", ATVI_EMODEL, "m.atvi", 1, 11,
      "unknown name 'weight'");
  bad(&f, HEAD "let x = wieght\n}\n", ATVI_EMODEL, "m.atvi", 3, 9, "did you mean 'weight'?");
  bad(&f, HEAD "table food step from \"odd2.csv\" time hour column conc\n}\n", ATVI_EMODEL, "m.atvi", 3, 22,
      "no file");
  bad(&f, HEAD "table food step from \"conc.csv\" time hour column conc\n}\n", ATVI_EMODEL, "m.atvi", 3, 22,
      "has no rows of 's03'");
  bad(&f, "each subject in s01 {\ndata \"conc.csv\" time hour\n}\n", ATVI_EDATA, "conc.csv", 4, 1,
      "there is no subject 's02'");
  bad(&f, "each region in p, q {\neach subject from \"subjects.csv\" { }\n}\n", ATVI_EMODEL, "m.atvi", 2, 19,
      "has no column 'region'");
  bad(&f, "each region in p, q {\neach subject in s01, s02 {\ndata \"conc.csv\" time hour\n} }\n", ATVI_EDATA,
      "conc.csv", 2, 1, "subject 's01' is in more than one region");
  folder_end(&f);
}

static void wrong_pulses(void) {
  folder f = files();
  folder_put(&f, "text.csv", "subject,time,amount\ns01,1,2\ns02,2,much\n");
  folder_put(&f, "mixed.csv", "subject,time,amount\ns01,3,2\ns02,2,1\ns01,1,5\n");
#define STATE HEAD "state A = 0\ndA/dt = 0\ndata \"conc.csv\" time hour\n"
  bad(&f, STATE "pulse A += amount at time from \"text.csv\"\n}\n", ATVI_EDATA, "text.csv", 3, 7,
      "'much' is not a number");
  bad(&f, STATE "pulse A += amount at time from \"mixed.csv\"\n}\n", ATVI_EDATA, "mixed.csv", 4, 5,
      "not ascending");
  bad(&f, STATE "pulse A += amount at when from \"doses.csv\"\n}\n", ATVI_EMODEL, "m.atvi", 6, 22,
      "no column 'when'");
  bad(&f, STATE "pulse A += amuont at time from \"doses.csv\"\n}\n", ATVI_EMODEL, "m.atvi", 6, 12,
      "unknown name 'amuont'");
  bad(&f, STATE "pulse A += amount at [1, 2] from \"doses.csv\"\n}\n", ATVI_EMODEL, "m.atvi", 6, 22,
      "a column of the file");
  bad(&f, STATE "start 0.25\npulse A += amount at time from \"doses.csv\"\n}\n", ATVI_EDATA, "doses.csv", 2,
      5, "before the start time");
  bad(&f, STATE "pulse A += amount at time from \"gone.csv\"\n}\n", ATVI_EMODEL, "m.atvi", 6, 32, "no file");
  bad(&f, STATE "let x = amount\npulse A += 3 at 5\n}\n", ATVI_EMODEL, "m.atvi", 6, 9,
      "unknown name 'amount'");
  folder_end(&f);
}

/* A whole text file; the caller may cut it. */
static char *text_of(const char *name) {
  static char text[100000];
  char path[300];
  snprintf(path, sizeof path, TEST_SOURCE_DIR "/%s", name);
  FILE *f = fopen(path, "rb");
  CHECK(f != NULL);
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  fclose(f);
  return text;
}

/* Both blocks of code in the section of the reference, and what the fuzzer starts from. */
static void the_reference_shows_models(void) {
  atvi_ctx *ctx = test_ctx();
  folder f = files();
  folder_put(&f, "regions.csv", "region\nnorth\nsouth\n");
  folder_put(&f, "schools.csv", "region,school\nnorth,a\nsouth,b\n");
  folder_put(&f, "u.csv", "u,v,w,x\na,p,1.5,3\nb,p,2,4\nc,q,2,-1\n");
  folder_put(&f, "l.csv", "u,t,y\na,0,1\nb,0,3\na,2,NA\nb,4,7\n");
  char *first = strstr(strstr(text_of("docs/language.md"), "\n## Units\n"), "```\n") + 4;
  char *end = strstr(first, "```"), *second = strstr(end + 3, "```\n") + 4, nested[2000];
  *end = 0;
  *strstr(second, "```") = 0;
  atvi_lang *m = good(ctx, &f, first);
  CHECK(m->blocks.n_param == 7 && m->blocks.block[0].n_unit == 3);
  atvi_lang_free(m);
  snprintf(nested, sizeof nested, "param mu ~ normal(0, 1)\nconst tau = 2\nconst s = 3\n%s", second);
  m = good(ctx, &f, nested);
  CHECK_STR(m->blocks.param[m->blocks.n_param - 2].name, "theta.north.a");
  atvi_lang_free(m);
  m = good(ctx, &f, text_of("tests/fuzz/corpus/lang/units.atvi"));
  CHECK(m->blocks.n_block == 5 && m->blocks.block[0].n_covariate == 3);
  atvi_lang_free(m);
  atvi_ctx_free(ctx);
  folder_end(&f);
}

static void memory_may_run_out(void) {
  folder f = files();
  for (long k = 1;; k++) {
    test_fail_at = 0;
    atvi_ctx *ctx = test_ctx();
    atvi_lang *lang;
    test_fail_at = test_allocs + k;
    atvi_status status = load(ctx, &f, POPULATION, &lang);
    test_fail_at = 0;
    CHECK(k > 3 || status == ATVI_ENOMEM);
    CHECK(status == ATVI_OK || (status == ATVI_ENOMEM && !lang));
    atvi_lang_free(lang);
    atvi_ctx_free(ctx);
    CHECK_INT(test_live, 0);
    if (status == ATVI_OK) break;
  }
  folder_end(&f);
}

/* 1000 units with 20 rows each: files are read once, and nodes made once. */
static void many_units(void) {
  enum { UNITS = 1000, ROWS = 20 };
  atvi_ctx *ctx = test_ctx();
  folder f = folder_new();
  static char text[UNITS * ROWS * 24 + 64], units[UNITS * 24 + 64];
  size_t n = (size_t)snprintf(text, sizeof text, "subject,hour,conc\n");
  size_t m = (size_t)snprintf(units, sizeof units, "subject,weight\n");
  for (int r = 0; r < ROWS; r++)
    for (int u = 0; u < UNITS; u++)
      n += (size_t)snprintf(text + n, sizeof text - n, "%d,%d,%d.5\n", u + 1, r, r + u);
  for (int u = 0; u < UNITS; u++)
    m += (size_t)snprintf(units + m, sizeof units - m, "%d,%d\n", u + 1, 60 + u % 30);
  folder_put(&f, "subjects.csv", units);
  folder_put(&f, "conc.csv", text);
  atvi_lang *lang = good(ctx, &f,
                         HEAD "param CL ~ lognormal(mu + weight, 1)\nstate A = 1\ndA/dt = -CL*A\n"
                              "data \"conc.csv\" time hour\nobserve conc ~ normal(A, 1)\n}\n");
  CHECK(lang->blocks.n_param == 1 + UNITS && atvi_graph_size(lang->graph) < 100);
  for (int u = 0; u < UNITS; u++) {
    const atvi_lang_data *d = &lang->blocks.block[0].unit[u].lang->data[0];
    CHECK(d->n_row == ROWS && d->time[3] == 3 && d->value[3 * 3 + 2] == 3 + u + 0.5);
  }
  atvi_lang_free(lang);
  atvi_ctx_free(ctx);
  folder_end(&f);
}

TESTS({"indices", numbers_of_units_are_indices}, {"memory", memory_may_run_out},
      {"reference", the_reference_shows_models}, {"many", many_units}, {"units", every_unit_is_a_model},
      {"nodes", nodes_use_the_unit}, {"labels", labels_in_the_model}, {"nested", blocks_nest},
      {"outside", outside_and_inside}, {"grammar", wrong_grammar}, {"statements", wrong_statements},
      {"names", wrong_names}, {"files", wrong_files}, {"pulses", wrong_pulses})
