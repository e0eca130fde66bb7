/* SPDX-License-Identifier: MIT */
/* Data files: columns, times, counts, censoring, and what can be wrong with them. */
#include "unit/lang/helper.h"

#define SIR "param beta ~ uniform(0, 3)\nstate S = 10\ndS/dt = -beta*S\n"

/* Loads a model with one data file a.csv and, if given, a second b.csv. */
static atvi_status load(atvi_ctx *ctx, folder *f, const char *text, const char *a, const char *b,
                        const atvi_lang_opts *opts, atvi_lang **lang) {
  char path[128];
  if (a) folder_put(f, "a.csv", a);
  if (b) folder_put(f, "b.csv", b);
  snprintf(path, sizeof path, "%s/m.atvi", f->path);
  return atvi_lang_parse(ctx, path, text, strlen(text), opts, lang);
}

static void wrong_data(const char *text, const char *csv, int line, int column, const char *word,
                       const char *about) {
  atvi_ctx *ctx = test_ctx();
  folder f = folder_new();
  atvi_lang *lang;
  char path[128];
  atvi_status status = load(ctx, &f, text, csv, NULL, NULL, &lang);
  CHECK_MSG(status == ATVI_EDATA, "status %d\n%s", status, atvi_errmsg(ctx));
  snprintf(path, sizeof path, "%s/a.csv", f.path);
  check_message(atvi_errmsg(ctx), path, line, column, word);
  if (about) CHECK_MSG(strstr(atvi_errmsg(ctx), about) != NULL, "want '%s' in\n%s", about, atvi_errmsg(ctx));
  folder_end(&f);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void wrong_model(const char *text, const char *csv, int line, int column, const char *word) {
  atvi_ctx *ctx = test_ctx();
  folder f = folder_new();
  atvi_lang *lang;
  char path[128];
  atvi_status status = load(ctx, &f, text, csv, csv, NULL, &lang);
  CHECK_MSG(status == ATVI_EMODEL, "status %d\n%s", status, atvi_errmsg(ctx));
  snprintf(path, sizeof path, "%s/m.atvi", f.path);
  check_message(atvi_errmsg(ctx), path, line, column, word);
  folder_end(&f);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void bad_cells_are_found(void) {
#define M SIR "data \"a.csv\" time day\nobserve y ~ poisson(S)\n"
  wrong_data(M, "day,y\n0,1\n1,abc\n", 3, 3, "'abc' is not a number", "m.atvi:5:9");
  wrong_data(M, "day,y\n0,1\n1,-2\n", 3, 3, "negative", "m.atvi:5:9");
  wrong_data(M, "day,y\n0,1\n1,2.5\n", 3, 3, "not a whole number", "m.atvi:5:9");
  wrong_data(M, "day,y\n0,1\n1,<2.5\n", 3, 3, "not a whole number", NULL);
  wrong_data(M, "day,y\n1,1\n0,2\n", 3, 1, "not ascending", "m.atvi:4:19");
  wrong_data(M, "day,y\n1,1\n,2\n", 3, 1, "time is missing", NULL);
  wrong_data(M, "day,y\n1,1\nx,2\n", 3, 1, "'x' cannot be used as a time", NULL);
  wrong_data(M, "day,y\n2010-01-01,2\n", 2, 1, "'2010-01-01'", "calendar");
  wrong_data(M "start 1\n", "day,y\n0,1\n1,2\n", 2, 1, "before the start", "m.atvi:6:7");
#undef M
#define M SIR "data \"a.csv\" time day\nobserve y ~ "
  wrong_data(M "lognormal(log(S), 1)\n", "day,y\n1,1\n2,0\n", 3, 3, "not above 0", NULL);
  wrong_data(M "binomial(n, 0.5)\n", "day,y,n\n1,1,3\n2,4,3\n", 3, 3, "larger than n = 3", NULL);
  wrong_data(M "binomial(n, 0.5)\n", "day,y,n\n1,1,3.5\n", 2, 5, "whole number", NULL);
  wrong_data(M "binomial(3, 0.5)\n", "day,y\n1,1\n2,4\n", 3, 3, "larger than n = 3", NULL);
  wrong_data(M "binomial(3, 0.5)\n", "day,y\n1,1\n2,>3\n", 3, 3, "'>3' is impossible", NULL);
  wrong_data(M "binomial(n, 0.5)\n", "day,y,n\n1,>3,4\n2,>3,3\n", 3, 3, "larger than n = 3", NULL);
  wrong_data(M "poisson(S)\n", "day,y\n1,1\n2,<0\n", 3, 3, "'<0' is impossible", NULL);
  wrong_data(M "negbin(S, 3)\n", "day,y\n1,<1\n2,<=0\n3,<0\n", 4, 3, "'<0' is impossible", NULL);
  wrong_data(M "binomial(3, 0.5)\n", "day,y\n1,>=3\n2,<0\n", 3, 3, "'<0' is impossible", NULL);
  wrong_data(M "lognormal(log(S), 1) limits (0, inf)\n", "day,y\n1,1\n2,0\n", 3, 3, "not above 0", NULL);
  wrong_data(M "lognormal(log(S), 1) limits (0.5, inf)\n", "day,y\n1,1\n2,<0\n", 3, 3, "not above 0", NULL);
  wrong_data(M "poisson(S*n)\n", "day,y,n\n1,1,3\n2,2,NA\n", 3, 5, "'NA'", NULL);
  wrong_data(M "poisson(S*n)\n", "day,y,n\n1,1,3\n2,2,x\n", 3, 5, "'x'", NULL);
  wrong_data(M "poisson(S)\n", "day;y\n1;2\n2;1,5\n", 3, 3, "the count '1,5' is not a whole number", NULL);
  wrong_data(M "poisson(S)\n", "day,y\n1,2\n2,\"1,5\"\n", 3, 3, "'1,5' is not a number", "decimal point");
  wrong_data(M "poisson(S)\n", "day;y\n1;2\n2;ab\n", 3, 3, "'ab' is not a number", "NA");
  wrong_data(M "poisson(S)\n", "day,y\n\"1,5\",2\n", 2, 1, "'1,5' cannot be used as a time", "decimal point");
  wrong_data(M "poisson(S)\n", "day,y\n1,\"\x1b[2J\n\"\n", 2, 3, "'?[2J?' is not a number", "\n1,\"?[2J\n");
#undef M
#define M "calendar 2010-01-01 day\n" SIR "data \"a.csv\" time day\nobserve y ~ poisson(S)\n"
  wrong_data(M, "day,y\n0,1\n1e300,2\n", 3, 1, "thousands of years", "m.atvi:5:6");
#undef M
  wrong_data("state S = 1\nnext S = S\ndata \"a.csv\" time day\nobserve y ~ poisson(S)\n",
             "day,y\n0,1\n1.5,2\n", 3, 1, "whole number of steps", "m.atvi:3:6");
}

/* What is wrong with a file as a whole names the statement that asked for it, too. */
static void bad_files_are_found(void) {
#define M SIR "data \"a.csv\" time day\nobserve y ~ poisson(S)\n"
  static const char *const FROM = "m.atvi:4:6\ndata \"a.csv\" time day\n     ^";
  wrong_data(M, "", 1, 1, "the file is empty", FROM);
  wrong_data(M, "day,y\n", 1, 1, "no row of data", FROM);
  wrong_data(M, "day,y\n0,1\n1\n", 3, 1, "1 cell,", FROM);
  wrong_data(M, "day,y\n0,1,5\n", 2, 5, "more cells", FROM);
  wrong_data(M, "day,y,y\n0,1,5\n", 1, 7, "two columns", FROM);
  wrong_data(M, "day,y\n0,\"1\n", 2, 3, "never closed", FROM);
#undef M
  wrong_data("param x in (0, 1)\nconst f[1..2] from \"a.csv\"\n", "1,2\n3\n", 2, 1, "1 cell,",
             "m.atvi:2:20\n");
  wrong_data(SIR "table T step from \"a.csv\" time a column b\n", "a,b\n1,\"2\n", 2, 3, "never closed",
             "m.atvi:4:19\n");
  atvi_ctx *ctx = test_ctx();
  folder f = folder_new();
  atvi_lang *lang;
  CHECK_STATUS(load(ctx, &f, SIR "data \"/dev/zero\"\n", NULL, NULL, NULL, &lang), ATVI_EIO);
  CHECK(strstr(atvi_errmsg(ctx), "m.atvi:4:6: error: cannot read /dev/zero: it is a device"));
  CHECK(strstr(atvi_errmsg(ctx), "\ndata \"/dev/zero\"\n     ^\nhint: "));
  folder_end(&f);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void columns_must_be_there(void) {
#define D SIR "data \"a.csv\" time day\n"
  wrong_model(D "observe z ~ poisson(S)\n", "day,y\n1,1\n", 5, 9, "no column 'z'");
  wrong_model(D "observe infectd ~ poisson(S)\n", "day,infected\n1,1\n", 5, 9, "did you mean 'infected'?");
  wrong_model(SIR "data \"a.csv\" time week\nobserve y ~ poisson(S)\n", "day,y\n1,1\n", 4, 19,
              "no column 'week'");
  wrong_model(SIR "data \"c.csv\" time week\n", "day,y\n1,1\n", 4, 6, "no file");
  wrong_model(D "observe y[i in 1..2] ~ poisson(S)\n", "day,y1\n1,1\n", 5, 9, "'y.2'");
  wrong_model(D "observe y[i in 1..2] columns 2..4 ~ poisson(S)\n", "day,y,z,q\n1,1,1,1\n", 5, 30,
              "2 elements");
  wrong_model(D "observe y[i in 1..2] columns 2..3 ~ poisson(S)\n", "day,y\n1,1\n", 5, 30, "no columns 2..3");
  wrong_model(D "observe y columns z ~ poisson(S)\n", "day,y\n1,1\n", 5, 19, "no column 'z'");
  wrong_model(D "observe y ~ poisson(S)\nobserve z columns y ~ poisson(S)\n", "day,y\n1,1\n", 6, 19,
              "the column 'y' is observed twice: line 5");
  wrong_model(D "observe y ~ poisson(S)\nobserve z columns 2 ~ poisson(S)\n", "day,y\n1,1\n", 6, 19,
              "column 'y'");
  wrong_model(D "observe z columns y ~ poisson(S)\nobserve y ~ poisson(S)\n", "day,y\n1,1\n", 6, 9,
              "column 'y'");
  wrong_model(D "observe lp__ columns y ~ poisson(S)\n", "day,y\n1,1\n", 5, 9, "end in __");
  wrong_model(D "observe q.y ~ poisson(S)\n", "day,y\n1,1\n", 5, 9, "no data set 'q'");
  wrong_model(D "observe y ~ poisson(increase(S))\n", "day,y\n1,1\n", 5, 9, "start");
  wrong_model(D "let a = y\ntrack b = a\nobserve y ~ poisson(S)\n", "day,y\n1,1\n", 5, 9,
              "only in the arguments of 'observe'");
  wrong_model(D "let a = 2*y\nobserve y ~ poisson(a)\ntrack b = a\n", "day,y\n1,1\n", 5, 11, "'y'");
  wrong_model(D "data \"b.csv\" time day\nobserve y ~ poisson(S)\n", "day,y\n1,1\n", 6, 9, "several");
  wrong_model(D "data q \"b.csv\" time day\nobserve y columns 2 ~ poisson(S)\n", "day,y\n1,1\n", 6, 9,
              "which one");
  wrong_model(D "data q \"b.csv\" time day\nobserve q.y ~ poisson(S*q.z)\n", "day,y\n1,1\n", 6, 25,
              "no column 'z'");
  wrong_model(D "data q \"b.csv\" time day\nobserve z columns 2 ~ poisson(S)\n", "day,y\n1,1\n", 6, 9,
              "which one");
#undef D
  wrong_model("const f[i in 1..2] from \"a.csv\"\n", "1\n2\n3\n", 1, 25, "wrong shape");
}

/* n[i] in the arguments of an observation means the columns n.1, n.2, ... */
static void covariates_may_be_arrays(void) {
  static const char *const HEADER[] = {"day,k.1,k.2,n.1,n.2", "day,k_1,k_2,n_1,n_2", "day,k1,k2,n1,n2",
                                       "day,\"k[1]\",\"k[2]\",\"n[1]\",\"n[2]\""};
  char csv[200];
  for (int i = 0; i < 4; i++) {
    atvi_ctx *ctx = test_ctx();
    folder f = folder_new();
    atvi_lang *lang;
    const char *text = "param p in (0, 1)\nindex g = 1..2\nlet m[i in g] = p*n[3 - i]\ndata h \"a.csv\"\n"
                       "observe k[i in g] ~ binomial(n[i], m[i]*h.n[1])\n";
    snprintf(csv, sizeof csv, "%s\n1,2,3,10,20\n2,NA,3,NA,20\n", HEADER[i]);
    CHECK_STATUS(load(ctx, &f, text, csv, NULL, NULL, &lang), ATVI_EDATA); /* k.2 needs n.1 in row 2 */
    CHECK(strstr(atvi_errmsg(ctx), "a.csv:3:8: error: 'NA' in column 'n") != NULL);
    f.n = 0;
    snprintf(csv, sizeof csv, "%s\n1,2,3,10,20\n2,NA,3,7,20\n", HEADER[i]);
    CHECK_OK(load(ctx, &f, text, csv, NULL, NULL, &lang));
    const double p = 0.731, row[5] = {1, 2, 3, 10, 20};
    const double *in[8] = {&p, NULL, NULL, NULL, NULL, row};
    for (int k = 0; k < 2; k++) {
      double n, mean;
      CHECK_OK(atvi_graph_value(ctx, lang->graph, lang->observe[k].arg[0], in, &n));
      CHECK_OK(atvi_graph_value(ctx, lang->graph, lang->observe[k].arg[1], in, &mean));
      CHECK_REL(n, row[3 + k], 0);
      CHECK_REL(mean, p * row[4 - k] * 10, 1e-15);
    }
    atvi_lang_free(lang);
    folder_end(&f);
    atvi_ctx_free(ctx);
    CHECK_INT(test_live, 0);
  }
}

static void covariates_may_have_labels_and_two_indices(void) {
  atvi_ctx *ctx = test_ctx();
  folder f = folder_new();
  atvi_lang *lang;
  const char *text =
      "param p in (0, 1)\nindex g = north, south\ndata \"a.csv\"\nfunction size(i) = n[i]\n"
      "observe k[i in g] ~ normal(p*size(i), C[i, 2] + n[north] + n[if i > 1 then i - 1 else i])\n";
  const char *csv = "k_north,k_south,n.north,n.south,C.north.2,\"C[south,2]\"\n1,2,3,4,5,6\n";
  atvi_status status = load(ctx, &f, text, csv, NULL, NULL, &lang);
  CHECK_MSG(status == ATVI_OK, "%s", atvi_errmsg(ctx));
  const double p = 0.731, row[6] = {1, 2, 3, 4, 5, 6};
  const double *in[8] = {&p, NULL, NULL, NULL, NULL, row};
  for (int k = 0; k < 2; k++) {
    double mean, sd;
    CHECK_OK(atvi_graph_value(ctx, lang->graph, lang->observe[k].arg[0], in, &mean));
    CHECK_OK(atvi_graph_value(ctx, lang->graph, lang->observe[k].arg[1], in, &sd));
    CHECK_REL(mean, p * row[2 + k], 1e-15);
    CHECK_REL(sd, row[4 + k] + 3 + 3, 0);
  }
  atvi_lang_free(lang);
  folder_end(&f);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
#define M "param p in (0, 1)\nindex g = 1..2\ndata h \"a.csv\"\nobserve k[i in g] ~ "
  const char *header = "k.1,k.2,n.1,q\n1,1,3,1\n";
  wrong_model(M "binomial(n[i], p)\n", header, 4, 30, "no column 'n.2'");
  wrong_model(M "binomial(n[i], p)\n", header, 4, 30, "looked for as n.2, n_2, n2 and n[2]");
  wrong_model(M "binomial(n[q], p)\n", header, 4, 32,
              "an index cannot be a column of the data here, and 'q'");
  wrong_model(M "binomial(n[h.q], p)\n", header, 4, 32, "the index of an array of the model");
  wrong_model(
      "param p[i in 1..2] in (0, 1)\ndata \"a.csv\"\nobserve q ~ poisson(p[1])\nderived d = p[1 + q]\n",
      header, 4, 19, "an index cannot be a column of the data here");
  wrong_model(
      "param p in (0, 1)\nindex g = north, south\ndata \"a.csv\"\nobserve k[i in g] ~ binomial(n[i], p)\n",
      "k.north,k.south,n.north\n1,1,3\n", 4, 30, "looked for as n.south, n_south, nsouth and n[south]");
  wrong_model(M "binomial(h.m[i], p)\n", header, 4, 30, "no column 'm.1'");
  wrong_model(M "binomial(q[i], p)\n", header, 4, 30, "wrong shape: the column 'q'");
  wrong_model(M "binomial(pp[i], p)\n", header, 4, 30, "unknown name 'pp'");
  wrong_model(M "binomial(n[i + 0.5], p)\n", header, 4, 34, "whole number");
  wrong_model(M "binomial(n[1, 1], p)\n", header, 4, 30, "no column 'n.1.1'");
  wrong_model(M "poisson(p)\ntrack z = n[1]\n", header, 5, 11, "only in the arguments of 'observe'");
  wrong_data(M "binomial(n[1], p)\n", "k1,k2,n1\n1,2,3\n1,4,3\n", 3, 3, "larger than n = 3", NULL);
#undef M
}

/* What is wrong with indices from columns and tables, at the cell or in the model. */
static void indices_are_checked(void) {
#define M                                                                                                    \
  "index g = north, south\nparam b[1..3] ~ normal(0, 1)\nparam c[g] ~ normal(0, 1)\ndata "                   \
  "\"a.csv\"\nobserve y ~ normal("
  wrong_data(M "b[id], 1)\n", "y,id\n1,2\n1,4\n", 3, 3, "index 4 of 'b' is outside 1..3", "m.atvi:5:22");
  wrong_data(M "b[id], 1)\n", "y,id\n1,0\n1,4\n", 2, 3, "index 0 of 'b' is outside 1..3", NULL);
  wrong_data(M "b[id], 1)\n", "y,id\nNA,\n1,1.5\n", 3, 3, "index 1.5 of 'b' is not a whole number", NULL);
  wrong_data(M "b[4 - id], 1)\n", "z,y,id\n0,1,1\n0,1,4\n", 3, 5, "index 0 of 'b' is outside 1..3", NULL);
  wrong_data(M "b[id], 1)\n", "y,id\n1,2\n1,\n", 3, 3, "is not a number", NULL);
  wrong_data(M "b[id], 1)\n", "y,id\n1,2\n1,x\n", 3, 3, "'x' cannot be an index of 'b'", NULL);
  wrong_data(M "c[id], 1)\n", "y,id\n1,north\n1,suoth\n", 3, 3, "'suoth' is not a label of 'g'",
             "did you mean 'south'");
  wrong_data(M "c[g], 1)\n", "y,g\n1,north\n1,west\n", 3, 3, "'west' is not a label of 'g'",
             "line 1 of the model");
  wrong_data(M "c[g], 1)\n", "y,g\n1,1\n1,3\n", 3, 3, "index 3 of 'c' is outside 1..2", NULL);
  wrong_model(M "b[id, 1], 1)\n", "y,id\n1,1\n", 5, 20, "wrong shape: 'b' has 1 index, not 2");
  wrong_model(M "b[id2], 1)\n", "y,id\n1,1\n", 5, 22, "unknown name 'id2'");
  wrong_model(M "c[g], 1)\nindex h = south, north\nparam d[h] ~ normal(0, 1)\n", "y,g\n1,1\n", 6, 11,
              "defined twice");
#undef M
#define M                                                                                                    \
  "param b[1..3] ~ normal(0, 1)\nstate x = 1\ntable k step = [0: 1, 5: 2]\ntable w step = [0: 1, 5: "        \
  "2.5]\ntable l linear = [0: 1, 5: 2]\n"
  wrong(M "dx/dt = b[k + 2]\n", 6, 13, "index 4 of 'b' is outside 1..3");
  wrong(M "dx/dt = b[w]\n", 6, 11, "index 2.5 of 'b' is not a whole number");
  wrong(M "dx/dt = b[l]\n", 6, 11, "'l' cannot be an index");
  wrong(M "dx/dt = b[k*w]\n", 6, 12, "one table, not several");
  wrong(M "dx/dt = 1\nderived z = b[k]\n", 7, 15, "an index cannot use 'k'");
  wrong(M "dx/dt = b[x]\n", 6, 11, "an index cannot use 'x'");
  wrong(M "dx/dt = b[k + x]\n", 6, 15, "an index cannot use 'x'");
  wrong(M "dx/dt = b[j]\n", 6, 11, "unknown name 'j'");
#undef M
}

/* Nothing is observed where the cell is missing, and rows of one time count from the time before. */
static void increases_need_only_what_is_observed(void) {
  atvi_ctx *ctx = test_ctx();
  folder f = folder_new();
  atvi_lang *lang;
  const char *text = SIR "data \"a.csv\" time day\nobserve y ~ poisson(increase(S))\n";
  CHECK_OK(load(ctx, &f, text, "day,y\n1,NA\n1,\n2,2\n2,3\n3,1\n3,1\n", NULL, NULL, &lang));
  CHECK_REL(lang->time.start, 1, 0);
  CHECK_INT(lang->observe[0].n_missing, 2);
  atvi_lang_free(lang);
  folder_end(&f);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
  wrong_model(text, "day,y\n1,NA\n1,4\n2,3\n", 5, 9, "is the start time");
  wrong_model(SIR "start 1\ndata \"a.csv\" time day\nobserve y ~ poisson(increase(S))\n", "day,y\n1,4\n2,3\n",
              6, 9, "is the start time");
}

static void all_of_a_data_file_is_read(void) {
  atvi_ctx *ctx = test_ctx();
  folder f = folder_new();
  atvi_lang *lang;
  const char *text = "calendar 2009-12-19 week\nparam b in (0, 1)\nstate C = 0\ndC/dt = b\nburnin 3\n"
                     "data h \"a.csv\" time when\ndata \"b.csv\" time day\n"
                     "let p = invlogit(b*tested)\nobserve cases ~ binomial(tested, p)\n"
                     "observe load ~ normal(increase(2*C), h.tested) limits (0.5, 100)\n"
                     "observe y[i in 1..2] ~ poisson(C*i)\nobserve \"odd name\" ~ student(4, C, 1)\n";
  const char *a = "when,cases,tested,load\n2010-01-02,3,10,0.7\n2010-01-09,NA,NA,>50\n2010-01-16,0,7,0.4\n";
  const char *b = "day,y_1,y_2,odd name\n2,4,<5,1.5\n2,1,.,2\n";
  atvi_status status = load(ctx, &f, text, a, b, NULL, &lang);
  CHECK_MSG(status == ATVI_EDATA, "%s", atvi_errmsg(ctx)); /* 'load' of row 2 needs its 'tested' */
  CHECK(strstr(atvi_errmsg(ctx), "a.csv:3:15: error: 'NA' in column 'tested'") != NULL);
  f.n = 0;
  a = "when,cases,tested,load\n2010-01-02,3,10,0.7\n2010-01-09,NA,8,>50\n2010-01-16,0,7,0.4\n";
  status = load(ctx, &f, text, a, b, NULL, &lang);
  CHECK_MSG(status == ATVI_OK, "%s", atvi_errmsg(ctx));
  CHECK_REL(lang->time.start, -1, 1e-15); /* week 2 is the first in both files, less 3 */
  CHECK_INT(lang->n_data, 2);
  CHECK_STR(lang->data[0].name, "h");
  CHECK_STR(lang->data[1].name, "");
  CHECK_REL(lang->data[0].time[1], 3, 1e-15);
  CHECK_REL(lang->data[0].value[4], 3, 1e-15); /* dates become times */
  CHECK(isnan(lang->data[0].value[5]));
  CHECK_INT(lang->n_observe, 5);
  const atvi_lang_observe *o = lang->observe;
  CHECK(o[0].n_missing == 1 && o[0].n_censored == 0 && o[0].column == 1 && o[0].data == 0);
  CHECK(o[1].n_missing == 0 && o[1].n_censored == 2 && o[1].limit_lower == 0.5 && o[1].limit_upper == 100);
  CHECK(o[2].data == 1 && o[2].column == 1 && o[3].column == 2 && o[3].n_missing == 1 &&
        o[3].n_censored == 1);
  CHECK_STR(o[3].name, "y.2");
  CHECK_STR(o[4].name, "odd name");
  const double p[1] = {0.3}, t = 0, state[1] = {5}, prev[1] = {1.5}, row[4] = {0, 0, 2.5, 0};
  const double *in[8] = {p, &t, state, prev, NULL, row};
  double value;
  CHECK_OK(atvi_graph_value(ctx, lang->graph, o[0].arg[1], in, &value));
  CHECK_REL(value, 1 / (1 + exp(-0.75)), 1e-14);
  CHECK_OK(atvi_graph_value(ctx, lang->graph, o[1].arg[0], in, &value));
  CHECK_REL(value, 7, 1e-15);
  CHECK_OK(atvi_graph_value(ctx, lang->graph, o[1].arg[1], in, &value));
  CHECK_REL(value, 2.5, 0);
  atvi_lang_free(lang);
  folder_end(&f);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* What is at or below a detection limit may be written as anything there, 0 in particular. */
static void values_below_the_detection_limit(void) {
  atvi_ctx *ctx = test_ctx();
  folder f = folder_new();
  atvi_lang *lang;
  const char *text = SIR "data \"a.csv\" time day\nobserve y ~ lognormal(log(S), 1) limits (0.5, inf)\n";
  CHECK_OK(load(ctx, &f, text, "day,y\n1,0\n2,-0.3\n3,0.5\n4,0.6\n5,<0.4\n", NULL, NULL, &lang));
  CHECK_INT(lang->observe[0].n_censored, 4);
  atvi_lang_free(lang);
  folder_end(&f);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void files_can_be_replaced_or_missing(void) {
  atvi_ctx *ctx = test_ctx();
  folder f = folder_new();
  atvi_lang *lang;
  char other[128];
  const char *text = SIR "data h \"a.csv\" time day\nobserve y ~ poisson(S)\n";
  snprintf(other, sizeof other, "%s/b.csv", f.path);
  atvi_data_file r = {"h", other};
  atvi_lang_opts opts = {.n_data = 1, .data = &r};
  CHECK_OK(load(ctx, &f, text, NULL, "day,y\n5,17\n", &opts, &lang));
  CHECK_STR(lang->data[0].path, other);
  CHECK_REL(lang->data[0].value[1], 17, 0);
  atvi_lang_free(lang);
  r.name = NULL;
  CHECK_OK(load(ctx, &f, text, NULL, NULL, &opts, &lang));
  atvi_lang_free(lang);
  r.name = "g";
  CHECK_STATUS(load(ctx, &f, text, NULL, NULL, &opts, &lang), ATVI_EMODEL);
  CHECK(strstr(atvi_errmsg(ctx), "no data set 'g'") != NULL);
  r = (atvi_data_file){NULL, "/nonexistent.csv"};
  opts.data_optional = true; /* holds for the model's own file only */
  CHECK_STATUS(load(ctx, &f, text, NULL, NULL, &opts, &lang), ATVI_EMODEL);
  r.path = other;
  CHECK_STATUS(load(ctx, &f, SIR, NULL, NULL, &opts, &lang), ATVI_EMODEL);
  CHECK(strstr(atvi_errmsg(ctx), "0 data files") != NULL);
  opts = (atvi_lang_opts){.data_optional = true};
  CHECK_OK(load(ctx, &f, text, NULL, NULL, &opts, &lang));
  CHECK(!lang->data[0].csv && lang->data[0].n_row == 0 && lang->observe[0].column == -1 &&
        lang->time.start == 0);
  atvi_lang_free(lang);
  folder_end(&f);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void constants_and_tables_come_from_files(void) {
  atvi_ctx *ctx = test_ctx();
  folder f = folder_new();
  atvi_lang *lang;
  const char *text = "const C[i in 1..2, j in 1..3] from \"a.csv\"\nstate S = C[2, 1]\ndS/dt = T\n"
                     "table T linear from \"b.csv\" time day column temp\n";
  CHECK_OK(load(ctx, &f, text, "1,2,3\n4,5,6\n", "temp,day\n10,0\n12,4\n", NULL, &lang));
  CHECK_REL(value_at(ctx, lang, lang->dynamics.state[0].init, NULL, 0, NULL, NULL), 4, 0);
  double a, b, next;
  atvi_lang_table_at(lang, &lang->table[0], 1, &a, &b, &next);
  CHECK(a == 10 && b == 0.5 && next == 4);
  atvi_lang_free(lang);
  f.n = 0;
  CHECK_STATUS(load(ctx, &f, text, "1,2,3\n4,5,x\n", NULL, NULL, &lang), ATVI_EDATA);
  CHECK(strstr(atvi_errmsg(ctx), "a.csv:2:5: error: 'x' is not a number") != NULL);
  CHECK_STATUS(load(ctx, &f, text, "1,2,3\n4,5,6\n", "temp,day\n10,0\n12,0\n", NULL, &lang), ATVI_EDATA);
  CHECK(strstr(atvi_errmsg(ctx), "b.csv:3:4: error: times of a table must ascend") != NULL);
  CHECK_STATUS(load(ctx, &f, text, NULL, "temp,day\n10,0\n,1\n", NULL, &lang), ATVI_EDATA);
  CHECK(strstr(atvi_errmsg(ctx), "no gaps") != NULL);
  folder_end(&f);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void memory_may_run_out_while_reading(void) {
  folder f = folder_new();
  const char *text = SIR "data \"a.csv\" time day\nobserve y ~ binomial(n, exp(-S))\n";
  folder_put(&f, "a.csv", "day,y,n\n1,1,3\n2,2,3\n");
  for (long k = 1;; k++) {
    test_fail_at = 0;
    atvi_ctx *ctx = test_ctx();
    atvi_lang *lang;
    test_fail_at = test_allocs + k;
    atvi_status status = load(ctx, &f, text, NULL, NULL, NULL, &lang);
    if (status == ATVI_OK) {
      atvi_lang_free(lang);
      atvi_ctx_free(ctx);
      break;
    }
    CHECK_INT(status, ATVI_ENOMEM);
    CHECK(lang == NULL);
    atvi_ctx_free(ctx);
    CHECK_INT(test_live, 0);
  }
  folder_end(&f);
}

TESTS({"indices", indices_are_checked}, {"bad_files", bad_files_are_found},
      {"arrays", covariates_may_be_arrays}, {"labels", covariates_may_have_labels_and_two_indices},
      {"increases", increases_need_only_what_is_observed}, {"cells", bad_cells_are_found},
      {"columns", columns_must_be_there}, {"read", all_of_a_data_file_is_read},
      {"limits", values_below_the_detection_limit}, {"replace", files_can_be_replaced_or_missing},
      {"files", constants_and_tables_come_from_files}, {"memory", memory_may_run_out_while_reading})
