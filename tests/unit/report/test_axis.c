/* SPDX-License-Identifier: MIT */
#include "markup.h"
#include "report/canvas.h"

#define M "\xe2\x88\x92"

static void ticks_are(atvi_scale s, int want, int n, const double *at, const char *const *label) {
  atvi_tick tick[ATVI_TICKS];
  CHECK_INT(atvi_report_ticks(&s, want, tick), n);
  for (int i = 0; i < n; i++) {
    CHECK_ABS(tick[i].at, at[i], 1e-9 * (fabs(s.high) + fabs(s.low)));
    CHECK_STR(tick[i].label, label[i]);
  }
}

static void ticks_are_round(void) {
  ticks_are((atvi_scale){.low = 0, .high = 10}, 5, 6, (double[]){0, 2, 4, 6, 8, 10},
            (const char *const[]){"0", "2", "4", "6", "8", "10"});
  ticks_are((atvi_scale){.low = -0.27, .high = 0.31}, 4, 3, (double[]){-0.2, 0, 0.2},
            (const char *const[]){M "0.2", "0", "0.2"});
  /* a step of 0.1 would leave one tick */
  ticks_are((atvi_scale){.low = 0.213, .high = 0.397}, 3, 3, (double[]){0.25, 0.3, 0.35},
            (const char *const[]){"0.25", "0.30", "0.35"});
  ticks_are((atvi_scale){.low = 4.9e9, .high = 5.6e9}, 4, 4, (double[]){5e9, 5.2e9, 5.4e9, 5.6e9},
            (const char *const[]){"5e9", "5.2e9", "5.4e9", "5.6e9"});
}

static void log_ticks_are_powers(void) {
  ticks_are((atvi_scale){.low = 0.8, .high = 12000, .log = true}, 6, 5, (double[]){1, 10, 100, 1000, 10000},
            (const char *const[]){"1", "10", "100", "1000", "10000"});
  ticks_are((atvi_scale){.low = 0.9, .high = 11, .log = true}, 6, 4, (double[]){1, 2, 5, 10},
            (const char *const[]){"1", "2", "5", "10"});
  /* less than a step of these: round numbers */
  ticks_are((atvi_scale){.low = 0.021, .high = 0.034, .log = true}, 3, 2, (double[]){0.025, 0.03},
            (const char *const[]){"0.025", "0.030"});
}

/* Day 14597 is 2009-12-19. */
static void dates_are_at_the_first_of_months(void) {
  atvi_scale s = {.low = 0, .high = 60, .calendar = {14597, 7}};
  atvi_tick tick[ATVI_TICKS];
  int n = atvi_report_ticks(&s, 6, tick);
  CHECK_INT(n, 5);
  CHECK_STR(tick[0].label, "Jan 2010");
  CHECK_STR(tick[4].label, "Jan 2011");
  CHECK_REL(tick[0].at, 13.0 / 7, 1e-12); /* the first of January is 13 days later */
  s.high = 2;
  n = atvi_report_ticks(&s, 8, tick);
  CHECK_INT(n, 8); /* every second day of fifteen */
  CHECK(strstr(tick[0].label, "Dec"));
  s.high = 3000;
  n = atvi_report_ticks(&s, 6, tick);
  CHECK_INT(n, 6); /* every tenth year of 57 */
  CHECK_STR(tick[5].label, "2060");
}

static void numbers_are_written_as_people_do(void) {
  char s[ATVI_TICK_LABEL];
  static const struct {
    double x;
    int digits;
    const char *want;
  } is[] = {{0.88714, 3, "0.887"},     {-12.345, 3, M "12.3"},  {520145.9, 2, "520146"},
            {2.1e-7, 2, "2.1e" M "7"}, {3.4e12, 2, "3.4e12"},   {0, 3, "0"},
            {NAN, 3, "\xe2\x80\x93"},  {-HUGE_VAL, 3, M "inf"}, {40, 2, "40"},
            {0.00012, 2, "0.00012"}};
  for (size_t i = 0; i < sizeof is / sizeof *is; i++) {
    atvi_report_write_number(s, is[i].x, is[i].digits);
    CHECK_STR(s, is[i].want);
  }
  atvi_report_write_time(s, 3, (atvi_calendar){14597, 7});
  CHECK_STR(s, "2010-01-09");
  atvi_report_write_time(s, -2.5, (atvi_calendar){0, 0});
  CHECK_STR(s, M "2.5");
}

static void scales_show_what_there_is(void) {
  atvi_scale s = atvi_report_scale_of(2, 4, 0.1);
  CHECK_REL(s.low, 1.8, 1e-12);
  CHECK_REL(s.high, 4.2, 1e-12);
  s = atvi_report_scale_of(5, 5, 0.1); /* a point has room around it */
  CHECK(s.low < 5 && s.high > 5);
  s = atvi_report_scale_of(NAN, NAN, 0.1);
  CHECK(s.low < s.high);
  s = atvi_report_scale_of(HUGE_VAL, -HUGE_VAL, 0);
  CHECK(s.low < s.high);
  atvi_tick tick[ATVI_TICKS];
  CHECK_INT(atvi_report_ticks(&(atvi_scale){.low = 1, .high = 1}, 4, tick), 0);
  CHECK_INT(atvi_report_ticks(&(atvi_scale){.low = 0, .high = NAN}, 4, tick), 0);
}

static void frames_map_values_to_places(void) {
  atvi_frame f = {.x = 40,
                  .y = 10,
                  .width = 200,
                  .height = 100,
                  .across = {.low = 1, .high = 100, .log = true},
                  .up = {.low = -1, .high = 3}};
  CHECK_REL(atvi_report_frame_x(&f, 10), 140, 1e-12);
  CHECK_REL(atvi_report_frame_y(&f, -1), 110, 1e-12);
  CHECK_REL(atvi_report_frame_y(&f, 2), 35, 1e-12);
  CHECK(isnan(atvi_report_frame_x(&f, 0)));
  CHECK(atvi_report_frame_left(&f.up, 4) > 8 + atvi_report_text_width("3", 11, false));
}

/* Long lines are drawn in pieces that touch. */
static void plots_have_no_gaps(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  enum { N = 1300 };
  double x[N], y[N], high[N];
  for (int i = 0; i < N; i++) x[i] = i, y[i] = i % 7, high[i] = y[i] + 2;
  atvi_frame f = {
      .width = 1300, .height = 90, .across = {.low = 0, .high = 1300}, .up = {.low = 0, .high = 9}};
  atvi_canvas *c = atvi_report_canvas_new(pool, 1300, 120);
  atvi_report_plot_line(c, &f, N, x, y, (atvi_style){.stroke = ATVI_INK_MAIN});
  CHECK_INT(atvi_report_canvas_shapes(c), 3);
  atvi_report_plot_band(c, &f, N, x, y, high, (atvi_style){.fill = ATVI_INK_MAIN});
  atvi_report_plot_dots(c, &f, N, x, y, 1, (atvi_style){.stroke = ATVI_INK_MAIN});
  CHECK_INT(atvi_report_canvas_shapes(c), 9);
  atvi_report_plot_line(c, &f, 1, x, y, (atvi_style){.stroke = ATVI_INK_MAIN});
  atvi_report_plot_line(c, &f, 0, x, y, (atvi_style){.stroke = ATVI_INK_MAIN});
  CHECK_INT(atvi_report_canvas_shapes(c), 10);
  atvi_report_frame_draw(c, &f, &(atvi_frame_opts){.title = "a < b", .x = "time", .y = "cases"});
  atvi_text out = {.pool = pool};
  const char *s;
  atvi_report_canvas_svg(c, &(atvi_svg_opts){.id = "p", .title = "t"}, &out);
  CHECK_OK(atvi_io_text_get(&out, &s));
  markup_check(s);
  CHECK(strstr(s, "M511 90L512 80") !=
        NULL); /* the second piece begins where the first ends: 511 is a multiple of 7 */
  CHECK(strstr(s, ">a &lt; b</text>"));
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

TESTS({"ticks", ticks_are_round}, {"log", log_ticks_are_powers}, {"dates", dates_are_at_the_first_of_months},
      {"numbers", numbers_are_written_as_people_do}, {"scales", scales_show_what_there_is},
      {"frames", frames_map_values_to_places}, {"plots", plots_have_no_gaps})
