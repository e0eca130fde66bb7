/* SPDX-License-Identifier: MIT */
#include "sim/output.h"
#include "testing.h"

static atvi_ctx *ctx;
static atvi_pool *pool;

static void open_pool(void) {
  ctx = test_ctx();
  CHECK_OK(atvi_pool_new(ctx, &pool));
}

static void close_pool(void) {
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static atvi_sim_series parse(const atvi_sim_output *o, const char *text) {
  atvi_sim_series s;
  atvi_sim_reason reason;
  CHECK_OK(atvi_sim_output_parse(pool, o, text, strlen(text), &s, &reason));
  CHECK_MSG(!reason.text, "%s", reason.text);
  return s;
}

/* The output is refused with a reason that has these words. */
static void refused(const atvi_sim_output *o, const char *text, const char *word) {
  atvi_sim_series s;
  atvi_sim_reason reason;
  CHECK_OK(atvi_sim_output_parse(pool, o, text, strlen(text), &s, &reason));
  CHECK_MSG(reason.text && strstr(reason.text, word), "\"%s\" gives \"%s\", want \"%s\"", text,
            reason.text ? reason.text : "none", word);
  CHECK_INT(reason.cause, strstr(reason.text, "not a finite number") ? ATVI_SIM_NUMBER : ATVI_SIM_OUTPUT);
  CHECK(s.n == 0 && !s.value && !s.time && !strchr(reason.text, '\n'));
}

static void csv_by_name_and_position(void) {
  open_pool();
  static const char text[] = "hour,q,discharge\n1,5.5,0.25\n2.5,6,0.5\n";
  atvi_sim_output o = {.name = "flow", .file = "out.csv", .column = "discharge", .time = "hour"};
  atvi_sim_series s = parse(&o, text);
  CHECK(s.n == 2 && s.value[0] == 0.25 && s.value[1] == 0.5 && s.time[0] == 1 && s.time[1] == 2.5);
  o.column = "2";
  o.time = NULL;
  s = parse(&o, text);
  CHECK(s.n == 2 && s.value[0] == 5.5 && s.value[1] == 6 && !s.time);
  o = (atvi_sim_output){.name = "q"};
  CHECK(parse(&o, text).value[1] == 6);
  /* no header: positions; one number: a scalar; one column left beside time: that one */
  o = (atvi_sim_output){.name = "q", .column = "2", .time = "1"};
  s = parse(&o, "1;2.385\n2;4\n");
  CHECK(s.n == 2 && s.value[0] == 2.385 && s.time[1] == 2);
  o = (atvi_sim_output){.name = "q"};
  s = parse(&o, " 3.25e-7\n");
  CHECK(s.n == 1 && s.value[0] == 3.25e-7 && !s.time);
  o.time = "t";
  CHECK(parse(&o, "v,t\n9,1\n8,2\n").value[1] == 8);
  close_pool();
}

static void csv_that_cannot_be_used(void) {
  open_pool();
  atvi_sim_output o = {.name = "flow", .file = "out.csv", .column = "q", .time = "t"};
  refused(&o, "", "empty");
  refused(&o, "t,q\n", "has just 't,q'");
  refused(&o, "# comment\nt,q\n", "no row");
  refused(&o, "t,p\n1,2\n", "no column q in out.csv, which has t, p");
  refused(&o, "h,q\n1,2\n", "no column t");
  refused(&o, "t,q\n1,2\n2,nan\n", "'nan' in line 3");
  refused(&o, "t,q\n1,2\n2,inf\n", "'inf'");
  refused(&o, "t,q\n1,1e999\n", "1e999");
  refused(&o, "t,q\n1,2\n1,3\n", "not ascending");
  refused(&o, "t,q\n1,2\n3\n", "out.csv:3");
  refused(&o, "t,q\n1,Segmentation fault\n", "Segmentation fault");
  refused(&o, "\x01\x7f\xff\xfe\n\n\n", "has just");
  o.column = "7";
  refused(&o, "t,q\n1,2\n", "no column 7");
  close_pool();
}

static void json_objects(void) {
  open_pool();
  atvi_sim_output o = {.name = "flow", .format = ATVI_SIM_JSON};
  atvi_sim_series s = parse(&o, "{\"flow\": [1, 2.5], \"time\": [0.5, 1]}");
  CHECK(s.n == 2 && s.value[1] == 2.5 && s.time[0] == 0.5);
  s = parse(&o, "{\"flow\": 7, \"time\": [0.5, 1]}");
  CHECK(s.n == 1 && s.value[0] == 7 && !s.time);
  /* lists of different lengths do not belong together */
  refused(&o, "{\"time\": [0, 10], \"flow\": [0.3, 2, 3]}", "3 values in flow but 2 in time");
  refused(&o, "{\"time\": [0, 10], \"flow\": [0.3]}", "1 values in flow but 2 in time");
  s = parse(&o, "{\"time\": 2.5, \"flow\": [1, 2]}"); /* of the clock, say */
  CHECK(s.n == 2 && !s.time);
  s = parse(&o, "starting up\ndone\n{\"flow\": 12345678901234567890}\n\n");
  CHECK_REL(s.value[0], 12345678901234567890.0, 1e-15);
  o.column = "a.b";
  o.time = "when";
  s = parse(&o, "{\"a\": {\"b\": [3, 4]}, \"when\": [1, 2]}");
  CHECK(s.value[1] == 4 && s.time[1] == 2);
  refused(&o, "{\"a\": {\"b\": [3, 4]}}", "no key when");
  refused(&o, "{\"a\": {\"b\": [3, 4]}, \"when\": [1, 2, 3]}", "2 values");
  refused(&o, "{\"a\": {\"b\": [3, 4]}, \"when\": [2, 1]}", "not ascending");
  refused(&o, "{\"a\": {\"c\": 1}}", "no key a.b");
  refused(&o, "{\"a\": {\"b\": []}}", "empty");
  refused(&o, "{\"a\": {\"b\": [1, null]}}", "number 2");
  refused(&o, "{\"a\": {\"b\": \"1\"}}", "number 1");
  refused(&o, "[1, 2]", "not a JSON object");
  refused(&o, "{\"a\": NaN}", "no key a.b");
  refused(&o, "{\"a\": {\"b\": [1, NaN]}, \"when\": [1, 2]}", "number 2 of a.b is not a finite number");
  refused(&o, "{\"a\": {\"b\": [-Infinity,1]}, \"when\": [1, 2]}", "number 1 of a.b is not a finite number");
  refused(&o, "{\"a\": {\"b\": nan}, \"when\": 1}", "number 1 of a.b");
  refused(&o, "{\"a\": Nan}", "not JSON");
  refused(&o, "NaN", "not JSON");
  atvi_sim_series none;
  atvi_sim_reason reason;
  const char zero[] = "{\"a\": {\"b\": [1\0002]}, \"when\": [1]}"; /* would be 12 */
  CHECK_OK(atvi_sim_output_parse(pool, &o, zero, sizeof zero - 1, &none, &reason));
  CHECK(reason.text && strstr(reason.text, "a zero byte"));
  /* those of others do no harm, and words in quotes stay */
  s = parse(&o, "{\"say\": \"a \\\" NaN, \\\\\", \"x\": [NaN, inf], \"a\": {\"b\": [3]}, \"when\": [1]}");
  CHECK(s.n == 1 && s.value[0] == 3);
  refused(&o, "", "not JSON");
  close_pool();
}

static void blank_columns(void) {
  open_pool();
  atvi_sim_output o = {.name = "flow", .format = ATVI_SIM_COLUMNS, .column = "3", .time = "1"};
  atvi_sim_series s = parse(&o, "# hour x flow\n  1   5  0.25D+01 ! note\n\n 2\t6\t7e-3\r\n% end");
  CHECK(s.n == 2 && s.value[0] == 2.5 && s.value[1] == 7e-3 && s.time[1] == 2);
  o = (atvi_sim_output){.name = "flow", .format = ATVI_SIM_COLUMNS, .time = "hour"};
  s = parse(&o, "hour x flow\n1 5 2.5\n2 6 7\n");
  CHECK(s.n == 2 && s.value[1] == 7);
  o = (atvi_sim_output){.name = "peak", .format = ATVI_SIM_COLUMNS};
  CHECK(parse(&o, "\n 42.5 \n").value[0] == 42.5);
  refused(&o, "", "no numbers");
  refused(&o, "# only this\n", "no numbers");
  refused(&o, "1 2\n3\n", "different lengths");
  refused(&o, "1 2\n3 4\n", "no column peak");
  refused(&o, "1\n****\n", "not a finite number");
  close_pool();
}

static void times_are_compared(void) {
  open_pool();
  double t[] = {1, 2, 3}, u[] = {1, 2.5, 3}, close_[] = {1, 2 + 1e-7, 3};
  atvi_sim_series a = {3, t, t}, b = {3, u, t}, c = {2, t, t}, d = {3, NULL, t}, e = {3, close_, t};
  CHECK(!atvi_sim_output_differs(pool, "q", &a, &a, 4));
  CHECK(!atvi_sim_output_differs(pool, "q", &e, &a, 4));
  CHECK(!atvi_sim_output_differs(pool, "q", &d, &d, 4));
  CHECK_STR(atvi_sim_output_differs(pool, "q", &b, &a, 4), "q: time 2 is 2.5, but 2 in run 4");
  CHECK_STR(atvi_sim_output_differs(pool, "q", &c, &a, 4), "q: 2 values, but run 4 has 3");
  CHECK(strstr(atvi_sim_output_differs(pool, "q", &d, &a, 4), "no times"));
  close_pool();
}

TESTS({"csv", csv_by_name_and_position}, {"csv_wrong", csv_that_cannot_be_used}, {"json", json_objects},
      {"columns", blank_columns}, {"times", times_are_compared})
