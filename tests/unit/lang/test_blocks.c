/* SPDX-License-Identifier: MIT */
/* Mistakes in simulators, emulators and sums of processes: each has its place, its words and a hint. */
#include "unit/lang/helper.h"

#define P "param k in (0, 1)\nparam b[1..2] in (0, 1)\n"
#define D "data \"none.csv\"\n"

static void wrong_hint(const char *text, int line, int column, const char *word, const char *hint) {
  wrong(text, line, column, word);
  atvi_ctx *ctx = test_ctx();
  atvi_lang *lang;
  atvi_lang_opts opts = {.data_optional = true};
  CHECK_STATUS(atvi_lang_parse(ctx, "model.atvi", text, strlen(text), &opts, &lang), ATVI_EMODEL);
  const char *shown = strstr(atvi_errmsg(ctx), "\nhint: ");
  CHECK_MSG(shown && strstr(shown, hint), "want '%s' in the hint of\n%s", hint, atvi_errmsg(ctx));
  atvi_ctx_free(ctx);
}

/* A simulator with one wrong line, the third of the file's block. */
static void wrong_simulator(const char *line, int column, const char *word) {
  char text[400];
  snprintf(text, sizeof text, P "simulator {\n%s\n%soutput q from stdout json\n}\n", line,
           strstr(line, "command") ? "" : "command \"x {k}\"\n");
  wrong(text, 4, column, word);
}

static void wrong_emulator(const char *line, int column, const char *word) {
  char text[400];
  snprintf(text, sizeof text, P "emulator q {\n%s\n%s%s%s}\n", line,
           strstr(line, "inputs") ? "" : "inputs b\n",
           strstr(line, "designs \"") ? "" : "designs \"d\" columns 2..3\n",
           strstr(line, "outputs \"") ? "" : "outputs \"o\"\n");
  wrong(text, 4, column, word);
}

static void wrong_sum(const char *sum, int column, const char *word) {
  char text[400];
  snprintf(text, sizeof text,
           P "emulator q { inputs b\ndesigns \"d\"\noutputs \"o\"\n}\n" D "observe y ~ %s\n", sum);
  wrong(text, 8, column, word);
}

static void braces(void) {
  wrong(P "simulator {\ncommand \"x\"\n", 3, 11, "never closed");
  wrong(P "emulator q {\nemulator r { }\n}\n", 4, 12, "'{'");
  wrong(P "emulator q { kernel squared } }\n", 3, 31, "'}'");
  wrong(P "emulator q { nugget (1 } \n", 3, 24, "'}'");
  wrong(P "emulator q { nugget 1 } let a = 3\n", 3, 25, "unexpected 'let'");
  wrong(P "let a = {1}\n", 3, 9, "'{'");
  wrong(P "emulator {\n}\n", 3, 10, "expected a name, found '{'");
  wrong(P "emulator sum {\n}\n", 3, 10, "'sum' is a word of the language");
  wrong(P "emulator 3 {\n}\n", 3, 10, "expected a name, found a number");
  wrong(P "emulator q\nlet a = 3\n", 3, 11, "expected '{', found the end of the line");
  wrong(P "emulator q \"d\"\n", 3, 12, "expected '{', found text in quotes");
  wrong(P "simulator \"x\"\n", 3, 11, "expected '{', found text in quotes");
  wrong(P "simulater {\n}\n", 3, 11, "'{'");
  wrong_hint(P "simulater \"x\"\n", 3, 1, "does not begin a statement", "did you mean 'simulator'?");
  wrong_hint(P "parameter b ~ normal(0, 1)\n", 3, 1, "does not begin a statement", "did you mean 'param'?");
  wrong(P "folder there\n", 3, 8, "expected text in quotes");
  wrong(P "folder \"\"\n", 3, 8, "empty");
  wrong(P "folder \"a\"\nfolder \"b\"\n", 4, 8, "'folder' is given twice: line 3");
  wrong(P "emulator q { } nugget 1\n", 3, 16, "unexpected 'nugget'");
}

static void settings(void) {
  wrong_simulator("comand \"x\"", 1, "'comand' is not a setting of this block");
  wrong_hint(P "simulator {\ncomand \"x\"\n}\n", 4, 1, "not a setting", "did you mean 'command'?");
  wrong_hint(P "emulator q {\nfrequency 3\n}\n", 4, 1, "'frequency' is not a setting",
             "there are: inputs, designs, outputs, mean, times, kernel, lengths, nugget, time, basis");
  wrong_hint(P "simulator {\n3\n}\n", 4, 1, "a number is not a setting",
             "there are: command, template, send");
  wrong_emulator("command \"x\"", 1, "'command' is not a setting");
  wrong_emulator("nugget 1 kernel squared", 10, "unexpected 'kernel' after the setting 'nugget'");
}

static void settings_stand_once(void) {
  wrong(P "emulator q {\nnugget 1\nnugget 2\n}\n", 5, 1, "'nugget' is given twice: line 4");
  wrong(P "simulator {\nworker\nworker\n}\n", 5, 1, "'worker' is given twice");
  wrong(P "simulator {\ncommand \"x {k}\"\ncommand \"y\"\n}\n", 5, 1, "'command' is given twice");
  wrong(P "simulator {\ncommand \"x\"\nsend json\nsend json\noutput q from stdout json\n}\n", 6, 1,
        "'send json' is given twice");
  wrong(P "simulator {\ncommand \"x {k}\"\noutput q from stdout json\noutput q from stdout json\n}\n", 6, 8,
        "the output 'q' is given twice: line 5");
  wrong(P "simulator {\ncommand \"x {k}\"\noutput q from stdout json\n}\nsimulator { }\n", 7, 1,
        "a model has one simulator: line 3");
  wrong(P
        "simulator {\ncommand \"x\"\ntemplate \"a\" to \"c\"\ntemplate \"b\" to \"c\"\noutput q from stdout "
        "json\n}\n",
        6, 17, "two templates make 'c': line 5");
  wrong(P "emulator q {\ninputs b\ndesigns \"d\"\noutputs \"o\"\n}\nemulator q { }\n", 8, 10,
        "the emulator 'q' is defined twice: line 3");
}

static void commands(void) {
  wrong(P "simulator {\noutput q from stdout json\n}\n", 3, 1, "the simulator has no command");
  wrong(P "simulator { }\n", 3, 1, "the simulator has no command");
  wrong_simulator("command \"  \"", 9, "the simulator has no command");
  wrong_simulator("command x", 9, "expected text in quotes");
  wrong_simulator("command \"x {kk}\"", 12, "there is no parameter 'kk'");
  wrong_hint(P "param alpha in (0, 1)\nsimulator {\ncommand \"x {alhpa}\"\noutput q from stdout json\n}\n", 5,
             12, "no parameter 'alhpa'", "did you mean {alpha}?");
  wrong_hint(P "simulator {\ncommand \"x ${HOME}\"\noutput q from stdout json\n}\n", 4, 13,
             "no parameter 'HOME'", "{{ and }}");
  wrong_hint(P "simulator {\ncommand \"x {b}\"\noutput q from stdout json\n}\n", 4, 12, "'b' is an array",
             "{b.1}");
  wrong_simulator("command \"x {b.3}\"", 12, "there is no parameter 'b.3'");
  wrong_simulator("command \"x {b[1}\"", 12, "there is no parameter 'b[1'");
  wrong_simulator("command \"x {b.1]}\"", 12, "there is no parameter 'b.1]'");
  wrong_simulator("command \"x {b,1}\"", 12, "there is no parameter 'b,1'");
  wrong_simulator("command \"x {b[1]]}\"", 12, "there is no parameter 'b[1]]'");
  wrong_simulator("command \"x {{}} {k\"", 17, "this brace belongs to no field");
  wrong_simulator("command \"x k} {k}\"", 13, "this brace belongs to no field");
  wrong_simulator("command \"x {print $1}\"", 12, "this brace belongs to no field");
  wrong_simulator("command \"x {}\"", 12, "this brace belongs to no field");
  wrong_simulator("command \"x\"", 1, "no parameter reaches the simulator");
  wrong_simulator("command \"x {k}\"\ninputs b", 9, "a field {k}, which is not among the inputs");
  wrong_simulator("command \"x {k}\"\nworker", 12, "a worker is started once");
  wrong_simulator("template \"a\"", 13, "expected 'to', found the end of the line");
  wrong_simulator("template a to \"b\"", 10, "expected text in quotes");
  wrong_simulator("template \"a\" to b", 17, "expected text in quotes");
  wrong_simulator("template \"a\" to \"/b\"", 17, "'/b' is not inside the folder of a run");
  wrong_simulator("template \"a\" to \"c/../../b\"", 17, "not inside the folder");
  wrong_simulator("template \"a\" to \"\"", 17, "not inside the folder");
  wrong_simulator("template \"a\" to \"b\"\nworker", 1, "cannot have templates");
  wrong_simulator("send xml", 6, "'xml' is not a way to send parameters");
  wrong_simulator("send", 5, "expected a name");
  wrong_simulator("send environment\nworker", 1, "lines of JSON");
  wrong("simulator {\ncommand \"x\"\nsend json\noutput q from stdout json\n}\nlet a = 1\n", 1, 1,
        "the simulator has no inputs");
}

static void numbers_of_a_simulator(void) {
  wrong_simulator("limit 0", 7, "the limit must be above 0");
  wrong_simulator("limit -3 min", 7, "not -3");
  wrong_simulator("limit inf", 7, "finite");
  wrong_simulator("limit 3 parsec", 9, "'parsec' is not a unit of time");
  wrong_simulator("limit k", 7, "the limit cannot use 'k': it is a parameter");
  wrong_simulator("limit", 6, "expected an expression");
  wrong_hint(P "simulator {\nlimit 30min\n}\n", 4, 7, "a number runs into a name", "30 min");
  wrong_simulator("jobs 0", 6, "'jobs' must be between 1 and");
  wrong_simulator("jobs 1.5", 6, "whole number");
  wrong_simulator("jobs 1, 2", 9, "'jobs' is one number");
  wrong_simulator("retries -1", 9, "'retries' must be between 0 and");
}

static void outputs(void) {
  wrong(P "simulator {\ncommand \"x {k}\"\n}\n", 3, 1, "the simulator has no output");
  wrong_simulator("output", 7, "expected a name");
  wrong_simulator("output max from stdout json", 8, "'max' is a word of the language");
  wrong_simulator("output f", 8, "the output 'f' has no source");
  wrong_simulator("output f from", 14, "expected text in quotes");
  wrong_simulator("output f from stdout", 15, "the format of the output 'f' is not given");
  wrong_simulator("output f from \"a.dat\"", 15, "the format of the output 'f' is not given");
  wrong_simulator("output f from \"a\" csv json", 23, "unexpected 'json'");
  wrong_simulator("output f from \"a\" from \"b\"", 19, "unexpected 'from'");
  wrong_simulator("output f from \"a\" cvs", 19, "did you mean 'csv'?");
  wrong_simulator("output f from \"a\" csv column", 29, "expected the name of a column");
  wrong_simulator("output f from \"a\" csv time ~", 28, "expected the name of a column");
  wrong_simulator("output f from \"a\" columns", 19, "positions");
  wrong_simulator("output f from \"a\" columns column x", 34, "positions");
  wrong_simulator("output f from \"a\" columns column 0", 34, "positions");
  wrong_simulator("output f from \"a\" columns column 2 time x", 41, "positions");
  wrong_simulator("output f from \"/a.csv\"", 15, "'/a.csv' is not inside the folder of a run");
  wrong_simulator("output f from \"../a.csv\"", 15, "not inside the folder");
  wrong_simulator("output lp__ from \"a.csv\"", 8, "end in __");
  wrong(P "simulator {\ncommand \"x\"\nworker\noutput q from \"a.csv\"\n}\n", 6, 15, "line of JSON");
  wrong(P "simulator {\ncommand \"x\"\nworker\noutput q from stdout csv\n}\n", 6, 22, "line of JSON");
}

static void inputs(void) {
  wrong_emulator("inputs", 7, "expected an expression");
  wrong_emulator("inputs c", 8, "unknown name 'c'");
  wrong_emulator("inputs 3", 8, "an input must be a parameter");
  wrong_emulator("inputs k*2", 9, "an input must be a parameter");
  wrong_emulator("inputs b[3]", 8, "index 3 of 'b' is outside 1..2");
  wrong_emulator("inputs b[1, 1]", 8, "wrong shape");
  wrong_emulator("inputs k[1]", 8, "wrong shape");
  wrong_emulator("inputs b, b[1]", 11, "'b.1' is listed twice as an input");
  wrong("const c = 1\n" P "emulator q {\ninputs c\ndesigns \"d\"\noutputs \"o\"\n}\n", 5, 8,
        "an input must be a parameter");
  wrong(P "emulator q {\ndesigns \"d\"\noutputs \"o\"\n}\n", 3, 10, "the emulator 'q' has no inputs");
  wrong_simulator("inputs q.k", 8, "an input must be a parameter");
}

static void runs_from_files(void) {
  wrong_emulator("designs \"d\" columns 2..4", 21, "'designs' needs 2 columns, not 3");
  wrong_emulator("designs \"d\" column 2", 20, "'designs' needs 2 columns, not 1");
  wrong_emulator("designs \"d\" columns 0..1", 21, "there are no columns 0..1");
  wrong_emulator("designs \"d\" columns 3..2", 21, "there are no columns 3..2");
  wrong_emulator("designs \"d\" columns \"a\"", 21, "given by position");
  wrong_emulator("designs \"d\" columns k", 21, "the position of a column cannot use 'k'");
  wrong_emulator("designs \"d\" columns 1.5..2.5", 21, "whole number");
  wrong_emulator("designs \"d\" rows 3", 13, "unexpected 'rows' after the setting 'designs'");
  wrong_emulator("outputs \"o\" columns 5..2", 21, "there are no columns 5..2");
  wrong_emulator("mean \"m\" columns 2..3", 18, "'mean' needs 1 column, not 2");
  wrong_emulator("times \"m\" columns 2..3", 19, "'times' needs 1 column, not 2");
  wrong_emulator("times 3", 7, "expected text in quotes");
  wrong(P "emulator q {\ninputs b\ndesigns \"d\"\n}\n", 5, 1, "'designs' needs 'outputs' as well");
  wrong(P "emulator q {\ninputs b\noutputs \"d\"\n}\n", 5, 1, "'outputs' needs 'designs' as well");
}

static void runs_of_a_simulator(void) {
#define S P "simulator {\ncommand \"x {k}\"\noutput flow from stdout json\n}\n"
  wrong(P "emulator q { }\n", 3, 10, "the emulator 'q' has no runs");
  wrong(S "emulator q { }\n", 7, 10, "the simulator has no output 'q'");
  wrong_hint(S "emulator folw { }\n", 7, 10, "no output 'folw'", "did you mean 'flow'?");
  wrong(S "emulator flow { inputs k }\n", 7, 17, "'inputs' belongs to runs from files");
  wrong(S "emulator flow { mean \"m\" }\n", 7, 17, "'mean' belongs to runs from files");
  wrong(S "emulator flow { times \"m\" }\n", 7, 17, "'times' belongs to runs from files");
  wrong(S "emulator flow { lengths 1, 2 }\n", 7, 25, "1 input, but 2 lengths");
#undef S
}

static void what_is_held(void) {
  wrong_emulator("kernel gaussian", 8, "unknown kernel 'gaussian'");
  wrong_emulator("kernel matern25", 8, "did you mean 'matern52'?");
  wrong_emulator("kernel 3", 8, "expected a name");
  wrong_emulator("lengths 1, 2, 3", 9, "2 inputs, but 3 lengths");
  wrong_emulator("lengths 1", 9, "2 inputs, but 1 length");
  wrong_emulator("lengths 1, 0", 12, "a length must be above 0 and finite, not 0");
  wrong_emulator("lengths 1, inf", 12, "a length must be above 0");
  wrong_emulator("lengths b", 9, "a length cannot use 'b'");
  wrong("const c[1..3] = [1, 2, 3]\n" P
        "emulator q {\nlengths c\ninputs b\ndesigns \"d\"\noutputs \"o\"\n}\n",
        5, 9, "but 3 lengths");
  wrong("const c[1..2] = [1, -2]\n" P "emulator q {\nlengths c\ninputs b\ndesigns \"d\"\noutputs \"o\"\n}\n",
        5, 9, "not -2");
  wrong_emulator("nugget -0.1", 8, "nugget must be 0 or more and finite, not -0.1");
  wrong_emulator("nugget 1, 2", 11, "'nugget' is one number");
  wrong_emulator("time 0", 6, "time must be above 0 and finite, not 0");
  wrong_emulator("basis 1", 7, "basis must be between 0 and 1, not 1");
  wrong_emulator("basis 0", 7, "basis must be between 0 and 1, not 0");
}

static void sums(void) {
  wrong_sum("emulator(q) + emulator(q)", 27, "at most one emulator");
  wrong_sum("emulator()", 13, "'emulator' cannot have 0 arguments");
  wrong_sum("emulator(q, 1, 2)", 13, "'emulator' cannot have 3 arguments");
  wrong_sum("exponential(1, 2, 3)", 13, "exponential(variance, range)");
  wrong_sum("emulator(q) + exponential(1)", 27,
            "exponential(variance, range)"); /* alone it is a distribution */
  wrong_sum("matern32(1)", 13, "matern32(variance, range)");
  wrong_sum("matern52(1)", 13, "matern52(variance, range)");
  wrong_sum("white(1, 2)", 13, "white(variance)");
  wrong_sum("emulator(q) + wite(1)", 27, "did you mean 'white'?");
  wrong_sum("normal(0, 1) + white(1)", 13, "'normal' is not a process");
  wrong_sum("emulator(q) - white(1)", 25, "unexpected '-'");
  wrong_sum("white(1) * 2", 22, "unexpected '*'");
  wrong_sum("white(1) + 2", 24, "expected a process and its arguments, found a number");
  wrong_sum("white(1) + k", 24, "expected a process and its arguments, found 'k'");
  wrong_sum("matern42(1, 2)", 13, "did you mean 'matern32'?");
  wrong_sum("emulator(r)", 22, "there is no emulator 'r'");
  wrong_sum("emulator(k + 1)", 24, "the first argument of emulator is the name of one");
  wrong_sum("emulator(q[1])", 22, "the first argument of emulator");
  wrong_sum("emulator(q, 0)", 25, "the sill of emulator must be above 0, not 0");
  wrong_sum("exponential(-1, 1)", 25, "the variance of exponential must be 0 or more, not -1");
  wrong_sum("exponential(1, 0)", 28, "the range of exponential must be above 0, not 0");
  wrong_sum("white(inf)", 19, "the variance of white must be 0 or more, not inf");
  wrong_sum("white(z)", 19, "perhaps a column of none.csv");
  wrong_sum("white(t)", 19, "no time t");
  wrong_sum("white(increase(k))", 28, "not a state");
  wrong_sum("white(1) limits (0, 1)", 29, "cannot have detection limits");
  wrong_sum(
      "white(1) + white(1) + white(1) + white(1) + white(1) + white(1) + white(1) + white(1) + white(1)", 101,
      "too many processes");
  wrong_sum("matern52(1, 1) + matern52(1, 1) + matern32(1, 1) + exponential(1, 1)", 64, "too many processes");
}

static void sums_have_no_company(void) {
  wrong(P D "observe y ~ white(1)\nobserve z ~ normal(0, 1)\n", 5, 13,
        "'z' has a distribution, but line 4 observes a sum");
  wrong(P D "observe z ~ normal(0, 1)\nobserve y ~ white(1)\n", 4, 13, "a model cannot have both");
  wrong(P "data \"none.csv\" time day\nstate S = 1\ndS/dt = S\nobserve y ~ white(1)\n", 6, 13,
        "a model with states");
  wrong(P D "observe y ~ white(1)\nobserve y ~ white(2)\n", 5, 9, "'y' is observed twice");
  wrong(P "observe y ~ white(1)\n", 3, 9, "no data file");
}

/* Nothing takes long, whatever there is many of. */
static void hostile_sizes_are_errors(void) {
  static char text[TEST_SANITIZED
                       ? 60000
                       : 250000]; /* sanitizers look through the rest of a text at each of its words */
  size_t n = (size_t)snprintf(text, sizeof text, P "simulator {\ncommand \"x {k}\"\n");
  while (n < sizeof text - 100)
    n += (size_t)snprintf(text + n, sizeof text - n, "output f%zu from stdout json\n", n);
  snprintf(text + n, sizeof text - n, "}\n");
  wrong(text, 3, 1, "more than 1000 settings");
  n = (size_t)snprintf(text, sizeof text, P);
  while (n < sizeof text - 100) n += (size_t)snprintf(text + n, sizeof text - n, "emulator f%zu { }\n", n);
  wrong(text, 103, 10, "more than 100 emulators");
  n = (size_t)snprintf(text, sizeof text, P "simulator {\ncommand \"");
  while (n < sizeof text - 100) n += (size_t)snprintf(text + n, sizeof text - n, "{here}{k}");
  snprintf(text + n, sizeof text - n, "\"\noutput q from stdout json\n}\n");
  atvi_ctx *ctx = test_ctx();
  atvi_lang_free(model(ctx, text));
  atvi_ctx_free(ctx);
}

TESTS({"braces", braces}, {"settings", settings}, {"once", settings_stand_once}, {"commands", commands},
      {"numbers", numbers_of_a_simulator}, {"outputs", outputs}, {"inputs", inputs},
      {"files", runs_from_files}, {"simulator", runs_of_a_simulator}, {"held", what_is_held}, {"sums", sums},
      {"company", sums_have_no_company}, {"hostile", hostile_sizes_are_errors})
