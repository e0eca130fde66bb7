/* SPDX-License-Identifier: MIT */
/* Every mistake gives one message: where, the line, a caret, a hint. */
#include "unit/lang/helper.h"

#define SIR                                                                                                  \
  "param beta ~ uniform(0, 3)\n"                                                                             \
  "state S = 10\n"                                                                                           \
  "dS/dt = -beta*S\n"

static void text_that_is_no_language(void) {
  wrong("let a = 3 $ 2\n", 1, 11, "'$'");
  wrong("let \xC2\xB5 = 3\n", 1, 5, "unexpected character '\xC2\xB5'");
  wrong("let \xC2 = 3\n", 1, 5, "byte 0xc2");
  wrong("let \xE2\x88", 1, 5, "byte 0xe2");
  wrong("let a = 3x\n", 1, 9, "'3x'");
  wrong("let a = 1e400\n", 1, 9, "too large");
  wrong("model \"no end\nlet a = 1\n", 1, 7, "no end");
  wrong("let a = (1 + 2\nlet b = 3\n", 1, 9, "never closed");
  wrong("let a = 1 + 2)\n", 1, 14, "closes no");
  wrong("let a = (1 + [2)]\n", 1, 16, "closes no");
  wrong("calendar 2009-02-30 day\n", 1, 10, "2009-02-30");
}

/* What people write who come from other languages, and what they are told to write instead. */
static void habits(void) {
  wrong("let a = 1 > 0 && 2 > 1\n", 1, 15, "hint: write 'and'");
  wrong("let a = 1 > 0 || 2 > 1\n", 1, 15, "hint: write 'or'");
  wrong("let a = !1\n", 1, 9, "hint: write 'not'");
  wrong("let a = 1 // one\n", 1, 11, "comments start with #");
  wrong("let a = 1;\n", 1, 10, "one statement per line");
  wrong("let a = 2**3\n", 1, 10, "unexpected operator '**'");
  wrong("let a = 2**3\n", 1, 10, "^");
  wrong("let a = 7 % 3\n", 1, 11, "there is no such operator");
  wrong("let a = ln(3)\n", 1, 9, "natural logarithm is log");
  wrong("let a = ifelse(1 > 0, 1, 2)\n", 1, 9, "if condition then value else");
  wrong("let a = if 1 = 2 then 1 else 0\n", 1, 14, "compared with ==");
  wrong("state S = 1\nS' = -S\n", 2, 2, "write dS/dt = ...");
  wrong("let a = 3 \xE2\x88\x92 1\n", 1, 11, "'\xE2\x88\x92'");
  wrong("let a = 3 \xE2\x88\x92 1\n", 1, 11, "write -");
  wrong("param \xCE\xB2 in (0, 1)\n", 1, 7, "'\xCE\xB2'");
  wrong("param \xCE\xB2 in (0, 1)\n", 1, 7, "names are made of a-z, A-Z, 0-9 and _");
  wrong("state S = 1\nds/dt = -1\n", 2, 1, "did you mean 'S'?");
  wrong("table k step = [0: 1, 5: 2]\nstate S = 1\ndS/dt = -k(t)*S\n", 3, 10, "write just k");
  wrong("state S = 1\ndS/dt = -S(t)\n", 2, 10, "write just S");
  wrong("state I ~ normal(1, 1)\n", 1, 9, "param I0 ~ ..., and then: state I = I0");
  wrong("let I ~ normal(1, 1)\n", 1, 7, "belongs to 'param'");
  wrong("const N = 1,000\n", 1, 12, "no thousands separators");
}

static void statements_that_do_not_parse(void) {
  wrong("parm a ~ normal(0, 1)\n", 1, 1, "did you mean 'param'?");
  wrong("a = 3\n", 1, 1, "'let'");
  wrong("3 = a\n", 1, 1, "cannot begin");
  wrong("then = a\n", 1, 1, "'then'");
  wrong("let a = 3 b\n", 1, 11, "unexpected 'b'");
  wrong("let a = \n", 2, 1, "expected an expression");
  wrong("let a = * 3\n", 1, 9, "expected an expression");
  wrong("let a = if 1 > 0 then 3\n", 1, 24, "'else'");
  wrong("let a = 3\nelse 4\n", 2, 1, "unexpected 'else'");
  wrong("let a = if 1 > 0 then 3\n\nlet b = 2\n", 1, 24, "'else'");
  wrong("let a = 2*if 1 > 0 then 3 else 4\n", 1, 11, "brackets");
  wrong("let a = 1 < 2 < 3\n", 1, 15, "chain");
  wrong("let a = exp + 1\n", 1, 9, "function");
  wrong("param a\n", 1, 7, "no prior");
  wrong("param a = 3\n", 1, 9, "not a value");
  wrong("param a ~ 3\n", 1, 11, "a name");
  wrong("let a[i in 1..2, j in 1..2, k in 1..2, l in 1..2] = 3\n", 1, 40, "at most 3");
  wrong("let a[i in 1..2, i in 1..2] = 3\n", 1, 18, "two indices");
  wrong("table k wavy = [0: 1]\n", 1, 9, "'step', 'linear', 'spline' or 'monthly'");
  wrong("dS/dx = 3\n", 1, 4, "'dt'");
  wrong("pulse S += 3\n", 1, 13, "'at'");
  wrong("function f(x, x) = x\n", 1, 15, "two arguments");
  wrong("data cold.csv\n", 1, 10, "in quotes");
  wrong("calendar week\n", 1, 10, "date");
  wrong("calendar 2009-12-19 month\n", 1, 21, "day, week or year");
}

static void names(void) {
  wrong(SIR "let N = S + R\n", 4, 13, "unknown name 'R'");
  wrong("param gamma in (0, 1)\nlet a = 2*gama\n", 2, 11, "did you mean 'gamma'?");
  wrong("let a = foo(3)\n", 1, 9, "unknown function 'foo'");
  wrong("let a = sqr(3)\n", 1, 9, "did you mean 'sqrt'?");
  wrong("let a = sinn(3)\n", 1, 9, "did you mean 'sin'?");
  wrong("let a = 3\nparam a ~ normal(0, 1)\n", 2, 7, "defined twice: line 1");
  wrong("param exp ~ normal(0, 1)\n", 1, 7, "word of the language");
  wrong("let state = 3\n", 1, 5, "word of the language");
  wrong("let a[t in 1..3] = 3\n", 1, 7, "word of the language");
  wrong("param a ~ norml(0, 1)\n", 1, 11, "did you mean 'normal'?");
  wrong("param a ~ poisson(3)\n", 1, 11, "cannot be a prior");
  wrong("index age = 1..3\nlet a = age\n", 2, 9, "index set");
  wrong("function f(x) = x\nlet a = f\n", 2, 9, "function");
  wrong("let a = 3\nlet b = a(2)\n", 2, 9, "not a function");
  wrong("model \"a\"\nmodel \"b\"\n", 2, 1, "twice");
}

static void names_of_output_columns(void) {
  wrong("param lp__ ~ normal(0, 1)\n", 1, 7, "'lp__' cannot be a name: names that end in __");
  wrong("state S__ = 1\ndS__/dt = 1\n", 1, 7, "end in __");
  wrong("param x in (0, 1)\nderived x__ = x\n", 2, 9, "end in __");
  wrong(SIR "track weight__ = S\n", 4, 7, "end in __");
  wrong("let __ = 1\n", 1, 5, "end in __");
  wrong("index g = a, chain__\n", 1, 14, "end in __");
  wrong(SIR "data \"none.csv\" time day\nobserve draw__ ~ poisson(S)\n", 5, 9, "end in __");
  const double p[1] = {0.731}; /* elsewhere in a name, or one of them, is fine */
  CHECK_REL(derived_at("param __x in (0, 1)\nlet a_ = __x\nlet b__c = a_\nderived d = b__c\n", p), 0.731, 0);
}

static void constants_are_numbers(void) {
  wrong("const c = log(-1)\n", 1, 7, "'c' is not a number (NaN)");
  wrong("param x in (0, 1)\nconst c = 1/0\n", 2, 7, "'c' is infinite (inf)");
  wrong("const c = -1/0\n", 1, 7, "infinite (-inf)");
  wrong("const c[i in 1..2] = 1/(2 - i)\n", 1, 7, "'c.2' is infinite");
  wrong("const c[i in 1..2] = [1, 0/0]\n", 1, 7, "'c.2' is not a number");
  wrong("const c[i in 1..2] = [inf, exp(1e4)]\n", 1, 7, "'c.2' is infinite");
  wrong("const c = inf - inf\n", 1, 7, "'c' is not a number");
  atvi_ctx *ctx = test_ctx();
  atvi_lang *lang =
      model(ctx, "const a = inf\nconst b = -inf\nconst c[i in 1..3] = [1, inf, -inf]\nconst d = a\n"
                 "const e[i in 1..2] = if i < 2 then 3 else inf\nparam x ~ normal(0, 1) in (b, d)\n");
  CHECK(isinf(lang->param[0].lower) && isinf(lang->param[0].upper));
  atvi_lang_free(lang);
  atvi_ctx_free(ctx);
}

static void an_empty_model_is_told(void) {
  wrong("", 1, 1, "empty");
  wrong("\n# nothing\n\n", 1, 1, "empty");
  wrong("\xEF\xBB\xBF", 1, 1, "empty");
  wrong("\xEF\xBB\xBFlet a = b\n", 1, 9, "'b'"); /* the mark of the encoding has no width */
}

static void circles(void) {
  wrong("let a = b\nlet b = c + 1\nlet c = a\n", 3, 9, "a -> b -> c -> a");
  wrong("let a = a\n", 1, 9, "a -> a");
  wrong("const a = b\nconst b = a\n", 2, 11, "circular");
  wrong("function f(x) = g(x)\nfunction g(x) = f(x)\nlet a = f(1)\n", 2, 17, "circular");
  wrong("param a ~ normal(b, 1)\nparam b ~ normal(a, 1)\n", 2, 7, "circular priors");
  wrong("param a ~ normal(a, 1)\n", 1, 7, "circular priors");
  wrong("let c = 2*b\nparam a ~ normal(c, 1)\nparam b ~ normal(0, exp(a))\n", 3, 7, "circular priors");
  wrong("index a = 1..n\nconst n = f[1]\nconst f[a] = 3\n", 1, 7, "itself");
}

static void shapes(void) {
  wrong("index age = 1..3\nparam b[age] ~ normal(0, 1)\nlet c = 2*b\n", 3, 11, "wrong shape");
  wrong("param b ~ normal(0, 1)\nlet c = b[1]\n", 2, 9, "wrong shape");
  wrong("index age = 1..3\nparam b[age] in (0, 1)\nlet c = b[1, 2]\n", 3, 9, "wrong shape");
  wrong("index age = 1..3\nparam b[age] in (0, 1)\nlet c = b[4]\n", 3, 9, "outside 1..3");
  wrong("index age = 1..3\nparam b[age] in (0, 1)\nlet c[i in age] = b[i-1]\n", 3, 19, "index 0");
  wrong("index age = 1..3\nparam b[age] in (0, 1)\nlet c = b[1.5]\n", 3, 11, "whole number");
  wrong("index age = 1..3\nparam b[age] in (0, 1)\nparam k in (1, 3)\nlet c = b[k]\n", 4, 11,
        "only numbers and constants");
  wrong("index age = 1..3\nconst f[age] = [1, 2]\n", 2, 16, "needs 3 values");
  wrong("index age = 1..2\nconst f[age, age] = [[1, 2], 3]\n", 2, 30, "list of 2");
  wrong("index age = 1..2\nconst f[age] = [[1, 2], [1, 2]]\n", 2, 17, "deeper");
  wrong("const f = [1, 2]\n", 1, 11, "with an index");
  wrong("let f = [1, 2]\n", 1, 9, "only in a 'const'");
  wrong("param b[age] ~ normal(0, 1)\n", 1, 9, "unknown index set 'age'");
  wrong("index age = 1..3\nparam b[agee] ~ normal(0, 1)\n", 2, 9, "did you mean 'age'?");
  wrong("param b[3] ~ normal(0, 1)\n", 1, 9, "a range is needed");
  wrong("index age = 3..1\n", 1, 13, "empty");
  wrong("index p = x, y\nindex q = u, v\nparam b[p] in (0, 1)\nlet c = b[u]\n", 4, 11, "belongs to q");
  wrong("index p = x, y\nindex q = u, v\nconst C[p, q] = 1\nlet c[i in p, j in q] = C[j, i]\n", 4, 27,
        "belongs to q");
  wrong("index p = x, y\nindex q = u, v\nparam b[p] in (0, 1)\nfunction f(X, i) = X[i]\nlet c[i in q] = f(b, "
        "i)\n",
        4, 22, "belongs to q");
  wrong("let a = sum(3)\n", 1, 13, "whole array");
  wrong("index a = 1..2\nparam x[a] in (0, 1)\nlet s = sum(y)\n", 3, 13, "unknown name 'y'");
}

static void arguments(void) {
  wrong("let a = exp(1, 2)\n", 1, 9, "takes 1 argument, not 2");
  wrong("let a = min(1)\n", 1, 9, "at least 2");
  wrong("function f(x, y) = x\nlet a = f(1)\n", 2, 9, "takes 2 arguments");
  wrong("param a ~ normal(0)\n", 1, 11, "normal(mean, sd)");
  wrong("param a ~ normal(0, -1)\n", 1, 21, "must be above 0, not -1");
  wrong("param a ~ gamma(0, 1)\n", 1, 17, "above 0");
  wrong("param a ~ uniform(3, 1)\n", 1, 19, "not below");
  wrong("param a ~ uniform(0, inf)\n", 1, 22, "finite");
  wrong(SIR "data \"none.csv\" time day\nobserve x ~ binomial(10, 1.5)\n", 5, 26, "between 0 and 1");
  wrong(SIR "data \"none.csv\" time day\nobserve x ~ binomial(10.5, 0.5)\n", 5, 22, "whole number");
  wrong(SIR "data \"none.csv\" time day\nobserve x ~ poisson(-1)\n", 5, 21, "0 or more");
  wrong(SIR "data \"none.csv\" time day\nobserve x ~ gamma(1)\n", 5, 13, "gamma(shape, rate)");
  wrong("param a ~ poisson(3)\n", 1, 11, "cannot be a prior");
  wrong("param a ~ bernoulli_logit(3)\n", 1, 11, "cannot be a prior");
  wrong("let a = normal_lpdf(1, 2)\n", 1, 9, "normal_lpdf(value, mean, sd)");
  wrong("let a = gamma_lcdf(1, 2, 3)\n", 1, 9, "not known here");
  wrong("let a = square(1, 2)\n", 1, 9, "takes 1 argument");
}

static void priors_against_bounds(void) {
  wrong("param x ~ uniform(0, 1) in (2, 3)\n", 1, 28, "contradict");
  wrong("param x ~ uniform(0, 1) in (0, 2)\n", 1, 28, "outside");
  wrong("param x ~ gamma(1, 1) in (-2, 3)\n", 1, 26, "outside");
  wrong("param x ~ gamma(1, 1) in (-3, -2)\n", 1, 26, "contradict");
  wrong("param x ~ normal(0, 1) in (2, 1)\n", 1, 27, "empty");
  wrong("param x ~ beta(2, 3) in (0.5, 1.5)\n", 1, 25, "outside");
  wrong("param x ~ gamma(2, 3) in (5000, 6000)\n", 1, 26, "no mass");
  wrong("param x in (0, inf)\n", 1, 12, "finite");
  wrong("param a in (1, 2)\nparam x ~ gamma(a, 1) in (1, 2)\n", 2, 26, "cannot be truncated");
  wrong("param x ~ normal(0, 1) map sideways\n", 1, 28, "unknown map");
}

static void equations(void) {
  wrong(SIR "state I = 1\n", 4, 7, "dI/dt");
  wrong(SIR "dI/dt = 3\n", 4, 1, "no such state");
  wrong(SIR "dS/dt = 3\n", 4, 1, "line 3");
  wrong(SIR "next S = 3\n", 4, 6, "both d/dt and next");
  wrong(SIR "dbeta/dt = 3\n", 4, 1, "not a state");
  wrong("index a = 1..3\nstate X[a] = 1\ndX[i in 1..2]/dt = 1\n", 2, 7, "'X.3'");
  wrong("index a = 1..3\nstate X[a] = 1\ndX[a]/dt = 1\ndX[2]/dt = 3\n", 4, 1, "X.2");
  wrong("index a = 1..3\nstate X[a] = 1\ndX[i in 1..4]/dt = 1\n", 3, 1, "outside 1..3");
  wrong("index a = 1..3\nstate X[a] = 1\ndX/dt = 1\n", 3, 1, "wrong shape");
  wrong("state S = S\ndS/dt = 1\n", 1, 11, "initial value");
  wrong("state S = t\ndS/dt = 1\n", 1, 11, "initial value");
  wrong(SIR "step 2\n", 4, 6, "next");
  wrong("state S = 1\nnext S = 2\nstep 0\n", 3, 6, "above 0");
}

static void things_out_of_place(void) {
  wrong(SIR "param q ~ normal(S, 1)\n", 4, 18, "it is a state");
  wrong(SIR "let N = 2*S\nparam q ~ normal(N, 1)\n", 5, 18, "depends on a state");
  wrong(SIR "let z = increase(S)\n", 4, 9, "outside observations");
  wrong(SIR "track z = increase(S)\n", 4, 11, "outside observations");
  wrong("param a in (0, 1)\nlet z = t\n", 2, 9, "no time t");
  wrong("param a in (0, 1)\nlogp t\n", 2, 6, "logp");
  wrong(SIR "logp S\n", 4, 6, "a state");
  wrong(SIR "derived d = S\n", 4, 13, "cannot use 'S': it is a state");
  wrong(SIR "derived q[i in 1..2] = i + 2*S\n", 4, 30, "cannot use 'S': it is a state");
  wrong(SIR "let N = 2*S\nderived d = N + beta\n", 5, 13, "cannot use 'N': it depends on a state");
  wrong(SIR "derived d = 2*t\n", 4, 15, "cannot use 't'");
  wrong(SIR "derived d = e\ntrack e = S\n", 4, 13, "cannot use 'e': it depends on a state");
  wrong("param a in (0, 1)\nconst b = 2*a\n", 2, 13, "a constant cannot use 'a'");
  wrong("let a = 2009-12-19\n", 1, 9, "date");
  wrong(SIR "start 2009-12-19\n", 4, 7, "calendar");
  wrong(SIR "table m monthly = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]\n", 4, 7, "calendar");
  wrong(SIR "calendar 2009-12-19 day\nstart -1e300\n", 5, 7, "thousands of years");
  wrong(SIR "calendar 2009-12-19 day\ntable m monthly = [1, 2]\n", 5, 19, "12 values");
  wrong(SIR "table m step = [0: 1, 0: 2]\n", 4, 23, "ascend");
  wrong(SIR "table m step = []\n", 4, 16, "empty");
  wrong(SIR "pulse S += 1 at [3, 2]\n", 4, 21, "ascend");
  wrong(SIR "start 5\npulse S += 1 at 3\n", 5, 17, "before the start");
  wrong(SIR "start 5\npulse S = 1 at every 2 from 3 to 9\n", 5, 29, "before the start");
  wrong(SIR "pulse S = 1 at every 2 from 9 to 3\n", 4, 22, "between 1 and 100000");
  wrong(SIR "pulse S = 1 at every 0 from 3 to 9\n", 4, 22, "above 0");
  wrong(SIR "pulse S = 1 at every 2 to 9\n", 4, 24, "'from'");
  wrong(SIR "pulse S = 1 at every 2 from 1\n", 4, 30, "'to'");
  wrong(SIR "pulse S /= 2 at 3\n", 4, 9, "'+='");
  wrong(SIR "start 5\nderived d = at(S, 3)\n", 5, 19, "before the start");
  wrong("state S = 1\ndS/dt = delay(S, -2)\n", 2, 18, "above 0");
  wrong("state S = 1\ndS/dt = delay(S, 0)\n", 2, 18, "above 0");
  wrong("param u ~ normal(2, 1)\nstate S = 1\ndS/dt = delay(S, u)\n", 3, 18, "negative");
  wrong("state S = 1\ndS/dt = delay(S, S)\n", 2, 18, "a delay");
  wrong("state S = 1\ndS/dt = delay(S)\n", 2, 9, "and a time");
  wrong("param u in (0, 1)\nstate S = 1\ndS/dt = delay(u, 2)\n", 3, 15, "without states");
  wrong("state S = 1\ndS/dt = delay(delay(S, 1), 2)\n", 2, 15, "differential equations");
  wrong("state S = 1\nnext S = delay(S, 2)\n", 2, 10, "differential equations");
  wrong("state S[1..1001] = 1\ndS[i in 1..1001]/dt = -delay(S[i], i)\n", 2, 24, "more than 1000");
  wrong("param u in (1, 2)\nstate S = 1\ndS/dt = delay(S, u)\nsolver rk4 step 1\n", 3, 18, "rk4");
  wrong("state S = 1\nlet d = delay(S, 2)\ndS/dt = d\ntrack e = d\n", 4, 11, "delayed state");
  wrong("state S = 1\nnext S = S\nstart steady\n", 3, 7, "differential equations");
  wrong(SIR "start steady 5\n", 4, 14, "unexpected");
  wrong(SIR "start steady with\n", 4, 18, "found the end of the line");
  wrong(SIR "start steady with b\n", 4, 20, "expected '='");
  wrong(SIR "start steady with z = 1\n", 4, 19, "unknown name 'z'");
  wrong(SIR "start steady with S = 1\n", 4, 19, "it is a state");
  wrong(SIR "table u step = [0: 1]\nstart steady with u = S\n", 5, 23, "cannot use 'S'");
  wrong(SIR "table u step = [0: 1]\nstart steady with u = 1, u = 2\n", 5, 26, "'u' is given twice");
  wrong(SIR "let u = 1\nstart steady with u = 2\n", 5, 19, "it is a let");
  wrong(SIR "param u[1..2] in (0, 1)\nstart steady with u = 2\n", 5, 19, "it is an array");
  wrong(SIR "start 0 with u = 2\n", 4, 9, "unexpected");
  wrong(SIR "derived d = maximum(S, 3, 3)\n", 4, 27, "not after");
  wrong(SIR "derived d = integral(S, 3)\n", 4, 13, "two times");
  wrong(SIR "derived d = at(S, beta)\n", 4, 19, "this time");
  wrong(SIR "derived d = at(at(S, 1), 2)\n", 4, 16, "cannot use 'at'");
  wrong(SIR "let a = at(S, 1)\nstate T = a\ndT/dt = 1\n", 5, 11, "of a whole run");
  wrong("param a in (0, 1)\nderived d = at(a, 3)\n", 2, 13, "no states");
  wrong(SIR "param lag ~ normal(2, 1)\npulse S = 1 at [3, 3 + lag]\n", 5, 22, "before the start");
  wrong(SIR "param lag in (1, 9)\npulse S = 1 at 5/(lag - 1) - 1\n", 5, 28, "before the start");
  wrong(SIR "pulse S = 1 at S\n", 4, 16, "the time of a pulse");
  wrong("param T in (0, 1)\nstate S = 1\nnext S = S\npulse S += 1 at T\n", 4, 17, "'next' equations");
  wrong(SIR "solver rk4 step 0.1\npulse S += 1 at beta\n", 5, 17, "rk4");
  wrong(SIR "solver rk4 step 0.1\npulse S += 1 when S < 3\n", 5, 21, "rk4");
  wrong(SIR "pulse S += 1 when S\n", 4, 19, "comparisons");
  wrong(SIR "pulse S += 1 when S == 3\n", 4, 21, "comparisons");
  wrong(SIR "pulse S += 1 when t > beta\n", 4, 21, "no state");
  wrong("state S[1..65] = 1\ndS[i in 1..65]/dt = 1\npulse S[i in 1..65] += 1 when S[i] > i\n", 3, 36,
        "more than 64");
  wrong("state S = 1\nnext S = S\nstep 2\npulse S += 1 at 3\n", 4, 17, "whole number of steps");
  wrong(SIR "start 5\nburnin 3\n", 5, 8, "both");
  wrong(SIR "burnin -3\n", 4, 8, "0 or more");
  wrong("param a in (0, 1)\ntable k step = [0: 1]\nlet b = k\n", 3, 9, "no time");
  wrong(SIR "solver euler\n", 4, 8, "unknown solver");
  wrong(SIR "solver rk4\n", 4, 8, "needs a step");
  wrong(SIR "solver rk45 step 3\n", 4, 8, "takes no step");
  wrong(SIR "solver rk45 tol -1\n", 4, 17, "above 0");
  wrong(SIR "solver rk45 tol 2\n", 4, 17, "below 0.1, not 2");
  wrong(SIR "solver rk45 tol 0\n", 4, 17, "above 0");
  wrong(SIR "solver stiff atol 1\n", 4, 19, "below 1, not 1");
  wrong(SIR "solver rk45 atol -1e-9\n", 4, 18, "0 or more");
  wrong(SIR "solver rk4 step 0\n", 4, 17, "above 0");
  wrong(SIR "solver rk4 step inf\n", 4, 17, "finite");
  wrong(SIR "solver rk45 maxsteps 0\n", 4, 22, "above 0");
  wrong(SIR "solver rk45 maxsteps 1.5\n", 4, 22, "whole number");
  wrong(SIR "solver rk45 speed 3\n", 4, 13, "tol, atol");
  wrong("param a in (0, 1)\nsolver rk45\n", 2, 8, "no differential equations");
  wrong(SIR "observe x ~ poisson(S)\n", 4, 9, "no data file");
  wrong(SIR "data \"none.csv\" time day\nobserve x ~ poisson(increase(t))\n", 5, 21, "states and parameters");
  wrong(SIR "data \"none.csv\" time day\nobserve x ~ poisson(increase(beta))\n", 5, 30, "not a state");
  wrong(SIR "data \"none.csv\" time day\nobserve x ~ poisson(increase(increase(S)))\n", 5, 30, "inside");
  wrong(SIR "data \"none.csv\"\nobserve x ~ poisson(S)\n", 5, 9, "no time column");
  wrong(SIR "data \"none.csv\" time day\nobserve x ~ binomial(tested, 0.5)\n", 5, 22, "does not exist");
  wrong(SIR "data \"none.csv\" time day\nobserve x ~ poisson(S)\nobserve x ~ poisson(2*S)\n", 6, 9, "twice");
  wrong(SIR "data \"none.csv\" time day\nobserve x ~ poisson(S) limits (3, 2)\n", 5, 31, "empty");
  wrong(SIR "table T linear from \"none.csv\" time day column x\n", 4, 21, "no file");
  wrong(SIR "const f from \"none.csv\"\n", 4, 14, "no file");
}

static void the_caret_stands_under_the_mistake(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_lang *lang;
  const char *text = "let b = 1\n\tlet a =\t2*\xC3\xA4\n";
  CHECK_STATUS(atvi_lang_parse(ctx, "m", text, strlen(text), NULL, &lang), ATVI_EMODEL);
  CHECK(strstr(atvi_errmsg(ctx), "\n\tlet a =\t2*\xC3\xA4\n\t       \t  ^\n") != NULL);
  text = "let a = \"\xC3\xA4\xC3\xA4\" + 1\n"; /* two-byte letters advance by one */
  CHECK_STATUS(atvi_lang_parse(ctx, "m", text, strlen(text), NULL, &lang), ATVI_EMODEL);
  CHECK(strstr(atvi_errmsg(ctx), "\n        ^\n") != NULL);
  atvi_ctx_free(ctx);
}

/* Nothing a file says takes long or runs out of stack. */
static void hostile_sizes_are_errors(void) {
  static char text[400000];
  size_t n = 0;
  strcpy(text, "let a = ");
  n = strlen(text);
  memset(text + n, '(', 300);
  text[n + 300] = 0;
  wrong(text, 1, 308, "never closed");
  memset(text + n + 300, ')', 300);
  text[n + 600] = 0;
  wrong(text, 1, 209, "more than 200 levels");
  for (size_t i = 0; i < 3000; i++) memcpy(text + n + 2 * i, "1+", 2);
  strcpy(text + n + 6000, "1");
  wrong(text, 1, 2008, "too long");
  memset(text + n, '-', 5000);
  strcpy(text + n + 5000, "1");
  wrong(text, 1, 209, "more than 200 levels");
  wrong("let a = sum(i in 1..100000, j in 1..100000: i*j)\n", 1, 13, "at most 200000");
  wrong("let a[i in 1..1000, j in 1..1000] = 1\n", 1, 5, "at most 200000");
  wrong("let a[i in 1..150000] = 1\nlet b[i in 1..150000] = 1\n", 2, 5, "at most 200000");
  wrong("param a[i in 1..15000] ~ normal(0, 1)\n", 1, 7, "at most 10000 parameters");
  wrong("let a = sum(i in 1..1000, j in 1..100: sum(k in 1..1000: k))\n", 1, 58,
        "too large when written out");
  n = (size_t)snprintf(text, sizeof text, "function f0(x) = x\n");
  for (int i = 1; i < 60; i++)
    n += (size_t)snprintf(text + n, sizeof text - n, "function f%d(x) = f%d(x) + f%d(x)\n", i, i - 1, i - 1);
  snprintf(text + n, sizeof text - n, "let a = f59(1)\n");
  atvi_ctx *ctx = test_ctx();
  atvi_lang *lang;
  CHECK_STATUS(atvi_lang_parse(ctx, "m", text, strlen(text), NULL, &lang), ATVI_EMODEL);
  CHECK(strstr(atvi_errmsg(ctx), "too large when written out") != NULL);
  n = (size_t)snprintf(text, sizeof text, "let a0 = 1\n");
  for (int i = 1; i < 9000; i++)
    n += (size_t)snprintf(text + n, sizeof text - n, "let a%d = a%d\n", 9000 - i, 9000 - i - 1);
  CHECK_STATUS(atvi_lang_parse(ctx, "m", text, strlen(text), NULL, &lang), ATVI_EMODEL);
  CHECK(strstr(atvi_errmsg(ctx), "nested too deeply") != NULL);
  memset(text, '#', sizeof text - 1);
  CHECK_STATUS(atvi_lang_parse(ctx, "m", text, sizeof text - 1, NULL, &lang), ATVI_EMODEL);
  check_message(atvi_errmsg(ctx), "m", 1, 1, "more than 262144 bytes");
  folder f = folder_new();
  text[sizeof text - 1] = 0;
  CHECK_STATUS(atvi_lang_load(ctx, folder_put(&f, "m.atvi", text), NULL, &lang), ATVI_EMODEL);
  CHECK(strstr(atvi_errmsg(ctx), "m.atvi:1:1: error: the model file has more than 262144 bytes") != NULL);
  folder_end(&f);
  CHECK_STATUS(atvi_lang_load(ctx, "/dev/zero", NULL, &lang), ATVI_EIO);
  CHECK(strstr(atvi_errmsg(ctx), "it is a device") != NULL);
  CHECK_STATUS(atvi_lang_parse(ctx, "m", "let a\0 = 1", 10, NULL, &lang), ATVI_EMODEL);
  atvi_ctx_free(ctx);
}

static void walks(void) {
#define M "param s ~ halfnormal(1)\nstate x = 1\ndx/dt = z\n"
#define F " ~ normal(0, s) from normal(0, 1)\n"
  wrong(M "walk z wekly" F, 4, 8, "not 'wekly'");
  wrong(M "walk z weekly" F, 4, 6, "a weekly walk needs a calendar");
  wrong(M "walk z every 7" F, 4, 6, "has no data with times");
  wrong(M "walk z every 7 from 0" F, 4, 6, "has no data with times");
  wrong(M "walk z every 0 from 0 to 5" F, 4, 14, "above 0, not 0");
  wrong(M "walk z every s from 0 to 5" F, 4, 14, "cannot use 's'");
  wrong(M "walk z every 1e-6 from 0 to 5" F, 4, 6, "more than 10000 knots");
  wrong(M "walk z every 7 from 5 to 5" F, 4, 6, "not after its beginning");
  wrong(M "walk z every 7 from 0 to 5" F, 4, 6, "two knots or more, 'z' has 1");
  wrong(M "walk z at [1]" F, 4, 6, "two knots or more, 'z' has 1");
  wrong(M "walk z at [2, 1]" F, 4, 15, "must ascend");
  wrong(M "walk z at 3" F, 4, 11, "expected '['");
  wrong(M "walk z at [3, 4]/2" F, 4, 17, "a list of times");
  wrong(M "walk z at [1, 1.00000000000001]" F, 4, 6, "have the name 1");
  wrong(M "walk z at [1, 2] ~ normal(0, s)\n", 4, 32, "expected 'from' and the prior");
  wrong(M "walk z at [1, 2] ~ ar1(s) from normal(0, 1)\n", 4, 20, "'ar1' takes 2 arguments");
  wrong(M "walk z at [1, 2] ~ ar1(x, s) from normal(0, 1)\n", 4, 24, "a walk cannot use 'x'");
  wrong(M "walk z at [1, 2] ~ ar2(0.5, s) from normal(0, 1)\n", 4, 20, "unknown distribution 'ar2'");
  wrong(M "walk z at [1, 2] ~ exponential(s) from normal(0, 1)\n", 4, 20, "normal, student or cauchy");
  wrong(M "walk z at [1, 2] ~ normal(0, s) from normal(0, -1)\n", 4, 48, "must be above 0");
  wrong(M "walk z at [1, 2] ~ normal(0, z) from normal(0, 1)\n", 4, 30, "cannot use 'z': it is a table");
  wrong(M "walk z at [1, 2]" F "param z ~ normal(0, 1)\n", 5, 7, "defined twice");
  wrong(M "walk z at [1, 2]" F "derived y = z\n", 5, 13, "it is a table");
  wrong(M "walk z[1..2] at [1, 2]" F, 4, 7, "not '['");
#undef M
#undef F
}

static void convolutions(void) {
#define M "param p ~ normal(0, 1)\nconst w[1..2] = [0.5, 0.5]\nconst m[1..2, 1..2] = 1\nstate x = 1\n"
  wrong(M "next x = convolve(x)\n", 5, 10, "2 arguments, not 1");
  wrong(M "next x = convolve(x, 3)\n", 5, 22, "an array with one index");
  wrong(M "next x = convolve(x, m)\n", 5, 22, "an array with one index");
  wrong(M "next x = convolve(x, v)\n", 5, 22, "unknown name 'v'");
  wrong(M "next x = convolve(y, w)\n", 5, 19, "unknown name 'y'");
  wrong(M "next x = x\nlet y = z*convolve(y, w)\nlet z = y\n", 7, 9, "circular");
  wrong(M "dx/dt = convolve(x, w)\n", 5, 9, "no steps that convolve() could look back over");
  wrong(M "next x = x\nderived y = convolve(x, w)\n", 6, 13, "a derived quantity cannot use convolve()");
  wrong(M "next x = x\nlogp convolve(x, w)\n", 6, 6, "logp cannot use convolve()");
  wrong("param p ~ normal(0, 1)\nconst w[1..100000] = 1\nstate x = 1\nnext x = convolve(x, w) + "
        "convolve(2*x, w)\n",
        4, 10, "too large");
#undef M
}

/* Looking for columns in an index does not follow all ways through lets. */
static void many_ways_through_lets(void) {
  char text[4000] = "param p[1..2] ~ normal(0, 1)\nlet a60 = 1\nderived d = p[a0]\n";
  size_t n = strlen(text);
  for (int i = 0; i < 60; i++)
    n += (size_t)snprintf(text + n, sizeof text - n, "let a%d = a%d*a%d\n", i, i + 1, i + 1);
  wrong(text, 3, 15, "an index cannot use 'a0': it is a let");
}

static void tables_of_expressions(void) {
#define M "param b ~ normal(0, 1)\nstate x = 1\ndx/dt = b\n"
  wrong(M "table k spline = [0: 1]\n", 4, 7, "two knots or more, 'k' has 1");
  wrong(M "table k spline = []\n", 4, 18, "empty");
  wrong(M "table k step = [0: b, 5: x]\n", 4, 26, "a value of a table cannot use 'x': it is a state");
  wrong(M "table k linear = [0: b, 5: t]\n", 4, 28, "a value of a table cannot use 't'");
  wrong(M "table k step = [0: b, 5: k]\n", 4, 26, "cannot use 'k': it is a table");
  wrong(M "let y = k\ntable k step = [0: b, 5: y]\n", 4, 9, "the values of the table 'k' use the table");
  wrong(M "table k step = [0: b, b: 1]\n", 4, 23, "a time of a table cannot use 'b'");
  wrong(M "table k step = [5: b, 5: 1]\n", 4, 23, "must ascend");
  wrong(M "table k step = [0: log(-1)]\n", 4, 20, "must be a number");
  wrong(M "table k step = [0: b]\nderived z = k\n", 5, 13, "cannot use 'k': it is a table");
  wrong("param b ~ normal(0, 1)\ntable k step = [0: b]\nlet z = k\n", 3, 9, "no time to follow");
#undef M
}

TESTS({"tables of expressions", tables_of_expressions}, {"walks", walks}, {"ways", many_ways_through_lets},
      {"convolve", convolutions}, {"text", text_that_is_no_language}, {"habits", habits},
      {"statements", statements_that_do_not_parse}, {"names", names}, {"output", names_of_output_columns},
      {"constants", constants_are_numbers}, {"empty", an_empty_model_is_told}, {"circles", circles},
      {"shapes", shapes}, {"arguments", arguments}, {"bounds", priors_against_bounds},
      {"equations", equations}, {"places", things_out_of_place},
      {"caret", the_caret_stands_under_the_mistake}, {"hostile", hostile_sizes_are_errors})
