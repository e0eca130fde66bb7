/* SPDX-License-Identifier: MIT */
#include "io/csv.h"
#include "testing.h"

static atvi_ctx *ctx;
static atvi_pool *pool;
static char logged[500];

static void keep_log(void *user, atvi_log_level level, const char *line) {
  (void)user, (void)level;
  snprintf(logged, sizeof logged, "%s", line);
}

static void begin(void) {
  ctx = test_ctx();
  atvi_ctx_set_log(ctx, keep_log, NULL);
  CHECK_OK(atvi_pool_new(ctx, &pool));
}

static void end(void) {
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static atvi_csv *good(const char *text) {
  atvi_csv *csv;
  atvi_status status = atvi_io_csv_parse(pool, "f.csv", text, strlen(text), &csv);
  CHECK_MSG(status == ATVI_OK, "%s: %s", text, atvi_errmsg(ctx));
  return csv;
}

/* The message of the failure begins with `where`, shows a caret and ends with a hint. */
static void bad(const char *text, size_t n, const char *where) {
  atvi_csv *csv = NULL;
  CHECK_STATUS(atvi_io_csv_parse(pool, "f.csv", text, n, &csv), ATVI_EDATA);
  CHECK(csv == NULL);
  CHECK_MSG(strncmp(atvi_errmsg(ctx), where, strlen(where)) == 0, "got '%s', want '%s'", atvi_errmsg(ctx),
            where);
  CHECK_MSG(strstr(atvi_errmsg(ctx), "^\nhint: "), "no caret or hint in '%s'", atvi_errmsg(ctx));
}
#define BAD(text, where) bad(text, sizeof(text) - 1, where)

static void reads_every_kind_of_cell(void) {
  begin();
  atvi_csv *csv = good("\xEF\xBB\xBF# made by hand\r\n"
                       "day, infected ,\"a \"\"b\"\",c\",note\r\n"
                       "\r\n"
                       " 1.5,NA,<0.5,sick\r\n"
                       "  # between\r\n"
                       "2009-12-19,,>= 7,\"two\r\nlines\"\r\n"
                       "\"3\",NaN,<=2e1 ,>-1\r\n"
                       ".,-4.25,1e3, 5 6 \r\n\r\n\n");
  CHECK_INT(csv->n_row, 4);
  CHECK_INT(csv->n_col, 4);
  CHECK(csv->header);
  CHECK_STR(csv->path, "f.csv");
  CHECK_STR(csv->name[0], "day");
  CHECK_STR(csv->name[1], "infected");
  CHECK_STR(csv->name[2], "a \"b\",c");
  static const unsigned char kind[16] = {
      ATVI_CELL_NUMBER,  ATVI_CELL_MISSING, ATVI_CELL_LT,     ATVI_CELL_TEXT,
      ATVI_CELL_DATE,    ATVI_CELL_MISSING, ATVI_CELL_GE,     ATVI_CELL_TEXT,
      ATVI_CELL_NUMBER,  ATVI_CELL_MISSING, ATVI_CELL_LE,     ATVI_CELL_GT,
      ATVI_CELL_MISSING, ATVI_CELL_NUMBER,  ATVI_CELL_NUMBER, ATVI_CELL_TEXT};
  static const double value[16] = {1.5, NAN, 0.5, NAN, 14597, NAN,   7,    NAN,
                                   3,   NAN, 20,  -1,  NAN,   -4.25, 1000, NAN};
  for (int i = 0; i < 16; i++) {
    CHECK_INT(csv->kind[i], kind[i]);
    CHECK(isnan(value[i]) ? isnan(csv->value[i]) : csv->value[i] == value[i]);
  }
  CHECK_STR(csv->text[0], "1.5");
  CHECK_STR(csv->text[7], "two\r\nlines");
  CHECK_STR(csv->text[15], "5 6");
  static const int line[4] = {4, 6, 8, 9},
                   column[16] = {2, 6, 9, 14, 1, 12, 13, 18, 1, 5, 9, 16, 1, 3, 9, 14};
  for (int i = 0; i < 4; i++) CHECK_INT(csv->line[i], line[i]);
  for (int i = 0; i < 16; i++)
    CHECK_MSG(csv->column[i] == column[i], "cell %d in column %d", i, csv->column[i]);
  CHECK_INT(atvi_io_csv_find(csv, "note"), 3);
  CHECK_INT(atvi_io_csv_find(csv, "not"), -1);
  CHECK_STR(logged, "");
  end();
}

static void finds_the_separator(void) {
  begin();
  atvi_csv *csv = good("a;b\n1;2\n");
  CHECK_INT(csv->n_col, 2);
  CHECK(strstr(logged, "semicolon") != NULL);
  csv = good("a b\t\"c,d,e\"\t\n\t2\t3\n");
  CHECK(strstr(logged, "tab") != NULL);
  CHECK_INT(csv->n_col, 3);
  CHECK_INT(csv->kind[0], ATVI_CELL_MISSING);
  CHECK(csv->value[2] == 3);
  CHECK_STR(csv->name[1], "c,d,e");
  CHECK_STR(csv->name[2], "3");
  end();
}

static void decimal_commas_between_semicolons(void) {
  begin();
  atvi_csv *csv = good("\xEF\xBB\xBFTag;Wert;\"Rest; g\"\r\n1;2,385;<0,5\r\n2;NA;-1,25e2\r\n3;\"7,5\";.\r\n");
  CHECK(strstr(logged, "semicolons") && strstr(logged, "decimal commas"));
  CHECK_STR(csv->name[2], "Rest; g");
  static const double value[9] = {1, 2.385, 0.5, 2, NAN, -125, 3, 7.5, NAN};
  for (int i = 0; i < 9; i++) CHECK(isnan(value[i]) ? isnan(csv->value[i]) : csv->value[i] == value[i]);
  CHECK_INT(csv->kind[2], ATVI_CELL_LT);
  CHECK_STR(csv->text[1], "2,385");
  /* without a header the first line has more commas than semicolons */
  csv = good("1,5;2,25\n3,5;4,75\n");
  CHECK_INT(csv->n_col, 2);
  CHECK_INT(csv->n_row, 2);
  CHECK(!csv->header && csv->value[1] == 2.25 && csv->value[3] == 4.75);
  /* a thousand, or one and a part? Semicolons say the latter; tabs do not. */
  CHECK(good("a;b\n1,234;2\n")->value[0] == 1.234);
  csv = good("a\tb\n1,234\t2\n");
  CHECK_INT(csv->kind[0], ATVI_CELL_TEXT);
  CHECK(strstr(logged, "tabs") && !strstr(logged, "decimal"));
  CHECK(good("a\tb\n0,234\t2\n")->value[0] == 0.234);
  CHECK(strstr(logged, "tabs") && strstr(logged, "decimal commas"));
  /* a point as well: nobody knows */
  csv = good("a;b\n1,5;2.5\n");
  CHECK_INT(csv->kind[0], ATVI_CELL_TEXT);
  CHECK(csv->value[1] == 2.5);
  CHECK(!strstr(logged, "decimal"));
  csv = good("# 1.5;2.5\na;b\n1,5;2\n1.234,5;3\n"); /* comments do not count; thousands and a part are text */
  CHECK(csv->value[0] == 1.5);
  CHECK_INT(csv->kind[2], ATVI_CELL_TEXT);
  /* between commas they are cells of their own */
  csv = good("a,b;c\n1,2\n");
  CHECK_STR(csv->name[1], "b;c");
  end();
}

static void dates_may_have_times(void) {
  begin();
  atvi_csv *csv = good("when;x\n2009-12-19T06:00;1\n2009-12-19 12:00:00;2\n\"2009-12-19T18:00:00.000Z\";3\n"
                       "2009-12-20T02:00:00+02:00;4\n2009-12-20 25:00;5\n");
  static const double day[4] = {14597.25, 14597.5, 14597.75, 14598};
  for (int i = 0; i < 4; i++) {
    CHECK_INT(csv->kind[2 * i], ATVI_CELL_DATE);
    CHECK(csv->value[2 * i] == day[i]);
  }
  CHECK_INT(csv->kind[8], ATVI_CELL_TEXT);
  csv = good("2009-12-19T06:00,1\n");
  CHECK(!csv->header);
  end();
}

static void numbers_in_the_first_line_are_data(void) {
  begin();
  atvi_csv *csv = good("1,NA,3\n4,5,6");
  CHECK(!csv->header);
  CHECK_INT(csv->n_row, 2);
  CHECK_STR(csv->name[2], "3");
  CHECK(csv->value[3] == 4);
  CHECK_INT(csv->line[0], 1);
  CHECK_INT(csv->column[2], 6);
  csv = good("2.385");
  CHECK_INT(csv->n_row, 1);
  CHECK(csv->value[0] == 2.385);
  csv = good(",x\n1,2\n");
  CHECK(csv->header);
  CHECK_STR(csv->name[0], "1");
  end();
}

static void empty_lines_of_one_column_are_missing(void) {
  begin();
  atvi_csv *csv = good("x\n\n1\n\n\n2\n\n\n");
  CHECK_INT(csv->n_row, 5);
  CHECK_INT(csv->kind[0], ATVI_CELL_MISSING);
  CHECK(csv->value[1] == 1);
  CHECK_INT(csv->kind[3], ATVI_CELL_MISSING);
  CHECK(csv->value[4] == 2);
  CHECK_STR(csv->text[3], "");
  csv = good("x\r1\r2\r");
  CHECK_INT(csv->n_row, 2);
  CHECK_INT(csv->line[1], 3);
  end();
}

static void says_what_is_wrong_and_where(void) {
  begin();
  BAD("", "f.csv:1:1: error: the file is empty\n\n^\nhint: ");
  BAD("\n# only this\n", "f.csv:1:1: error: the file is empty");
  BAD("a,b\n", "f.csv:1:1: error: there is a header but no row of data below it\na,b\n^\nhint: ");
  BAD("# x\n\na,b\n# y\n", "f.csv:3:1: error: there is a header but no row of data below it\na,b\n^\nhint: ");
  BAD("a,b\n1,2\n3\n",
      "f.csv:3:1: error: this row has 1 cell, but line 1 has 2 columns\n3\n^\nhint: write NA");
  BAD("a,b\n1,2,3\n",
      "f.csv:2:5: error: this row has more cells than the 2 columns of line 1\n1,2,3\n    ^\n");
  CHECK(strstr(atvi_errmsg(ctx), "decimal point") != NULL);
  BAD("a;b\n1;2;3\n", "f.csv:2:5: error: this row has more cells");
  CHECK(strstr(atvi_errmsg(ctx), "decimal point") == NULL);
  BAD("a,b\n1,\"2\n3,4\n", "f.csv:2:3: error: this quote is never closed\n1,\"2\n  ^\n");
  BAD("a,\"b", "f.csv:1:3: error: this quote is never closed");
  BAD("a,b\n\"1\n2\"3,4\n", "f.csv:3:3: error: text after a closing quote\n2\"3,4\n  ^\n");
  BAD("a,b\r1,\0002\r3,4\r", "f.csv:2:3: error: a zero byte: this is not plain text\n1,?2\n  ^\n");
  BAD("\xEF\xBB\xBFx, a,b,a\r\n1,2,3,4\r\n",
      "f.csv:1:8: error: two columns are named 'a'\nx, a,b,a\n       ^\n");
  BAD("\"a\n\x1b[2J\",\"a\n\x1b[2J\"\n1,2\n",
      "f.csv:2:7: error: two columns are named 'a??[2J'\n?[2J\",\"a\n      ^\n");
  atvi_csv *csv;
  CHECK_STATUS(atvi_io_csv_read(pool, "/nowhere/at/all.csv", &csv), ATVI_EIO);
  CHECK(csv == NULL);
  CHECK(strstr(atvi_errmsg(ctx), "/nowhere/at/all.csv") && strstr(atvi_errmsg(ctx), "No such file"));
  CHECK_STATUS(atvi_io_csv_read(pool, "/", &csv), ATVI_EIO);
  end();
}

static void reads_a_file(void) {
  begin();
  char path[] = "/tmp/atvi-test-csv-XXXXXX";
  int fd = mkstemp(path);
  FILE *f = fdopen(fd, "w");
  CHECK(f && fputs("day,infected\n1,2\n", f) >= 0 && fclose(f) == 0);
  atvi_csv *csv;
  CHECK_OK(atvi_io_csv_read(pool, path, &csv));
  CHECK(csv->value[1] == 2);
  CHECK_STR(csv->path, path);
  remove(path);
  end();
}

/* Memory stays in proportion to the text: 3 MB of commas and line ends must not ask for 10^12 cells. */
static void hostile_shapes_stay_linear(void) {
  begin();
  size_t n = 3000000;
  char *s = malloc(n);
  CHECK(s != NULL);
  atvi_csv *csv;
  memset(s, ',', n / 2);
  memset(s + n / 2, '\n', n - n / 2);
  CHECK_STATUS(atvi_io_csv_parse(pool, "f.csv", s, n, &csv), ATVI_EDATA);
  memset(s, '"', n);
  CHECK_STATUS(atvi_io_csv_parse(pool, "f.csv", s, n - 1, &csv), ATVI_EDATA);
  memset(s, '#', n);
  CHECK_STATUS(atvi_io_csv_parse(pool, "f.csv", s, n, &csv), ATVI_EDATA);
  memset(s, 'a', n);
  for (size_t i = 1; i < n; i += 2) s[i] = ',';
  CHECK_STATUS(atvi_io_csv_parse(pool, "f.csv", s, n, &csv),
               ATVI_EDATA); /* a million columns of the same name */
  memset(s, '\n', n);
  s[0] = 'x', s[n - 1] = '1';
  CHECK_OK(atvi_io_csv_parse(pool, "f.csv", s, n, &csv));
  CHECK_INT(csv->n_row, n - 2);
  free(s);
  end();
}

/* Bytes from a small alphabet make every branch; the sanitizers watch. */
static void survives_noise(void) {
  static const char alphabet[] = "\"\",,,\n\n\r;\t# <>=1.-eNAx";
  uint64_t u = 2385;
  for (int k = 0; k < 20000; k++) {
    char s[60];
    size_t n = (size_t)k % sizeof s;
    for (size_t i = 0; i < n; i++) {
      u = u * 6364136223846793005u + 1442695040888963407u;
      s[i] = alphabet[(u >> 33) % (sizeof alphabet - 1)];
    }
    begin();
    atvi_csv *csv;
    atvi_status status = atvi_io_csv_parse(pool, "f", s, n, &csv);
    CHECK((status == ATVI_OK) == (csv != NULL));
    if (csv)
      for (atvi_idx i = 0; i < csv->n_row * csv->n_col; i++)
        CHECK((csv->kind[i] == ATVI_CELL_MISSING || csv->kind[i] == ATVI_CELL_TEXT) == isnan(csv->value[i]));
    else
      CHECK_STATUS(status, ATVI_EDATA);
    end();
  }
}

static void memory_failures_are_told(void) {
  char text[40000] = "a,b\n";
  for (size_t i = 4; i + 4 < sizeof text; i += 4) memcpy(text + i, "1,2\n", 5);
  for (long k = 1;; k++) {
    test_fail_at = 0;
    begin();
    test_fail_at = test_allocs + k;
    atvi_csv *csv;
    atvi_status status = atvi_io_csv_parse(pool, "f", text, strlen(text), &csv);
    bool reached = test_allocs >= test_fail_at;
    test_fail_at = 0;
    if (reached) {
      CHECK_INT(status, ATVI_ENOMEM);
      CHECK(csv == NULL);
    }
    end();
    if (!reached) {
      CHECK_INT(status, ATVI_OK);
      CHECK(k > 2);
      break;
    }
  }
}

TESTS({"cells", reads_every_kind_of_cell}, {"separator", finds_the_separator},
      {"comma", decimal_commas_between_semicolons}, {"times", dates_may_have_times},
      {"first_line", numbers_in_the_first_line_are_data},
      {"one_column", empty_lines_of_one_column_are_missing}, {"errors", says_what_is_wrong_and_where},
      {"file", reads_a_file}, {"hostile", hostile_shapes_stay_linear}, {"noise", survives_noise},
      {"memory", memory_failures_are_told})
