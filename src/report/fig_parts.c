/* SPDX-License-Identifier: MIT */
/* What panels have in common. */
#include "report/figure.h"
#include <math.h>
#include <string.h>

static const double TOP = 30, BOTTOM = 22, BOTTOM_NAMED = 38, RIGHT = 12, /* margins, for title and ticks */
    LEFT_LEAST = 24, WIDER = 1.1; /* than Helvetica other fonts of a page are */

atvi_frame atvi_panel_frame(atvi_box box, atvi_scale across, atvi_scale up, bool named, int ticks) {
  double left = fmax(LEFT_LEAST, atvi_frame_left(&up, ticks)), bottom = named ? BOTTOM_NAMED : BOTTOM;
  return (atvi_frame){.x = box.x + left,
                      .y = box.y + TOP,
                      .width = box.width - left - RIGHT,
                      .height = box.height - TOP - bottom,
                      .across = across,
                      .up = up};
}

atvi_ink atvi_ink_of(atvi_idx k) { return (atvi_ink)(ATVI_INK_CHAIN + k % ATVI_INK_CHAINS); }

void atvi_legend_put(atvi_canvas *c, atvi_legend *l, atvi_idx k, const char *name) {
  static const double GAP = 16, LINE = 17;
  double mark = l->dots ? 13 : 20, x = l->left + l->used,
         room = mark + WIDER * atvi_text_width(name, ATVI_FONT_SIZE, false);
  if (l->used > 0 && x + room > l->right) x = l->left, l->used = 0, l->height += LINE;
  if (l->height == 0) l->height = LINE;
  double y = l->top + l->height - LINE + 4, middle = x + 5;
  if (c && l->dots)
    atvi_draw_dots(c, 1, &middle, &y, 4, (atvi_style){.stroke = atvi_ink_of(k)});
  else if (c)
    atvi_draw_line(c, x, y, x + mark - 6, y, (atvi_style){.stroke = atvi_ink_of(k), .width = 2.4});
  if (c) atvi_draw_text(c, x + mark, y + 4, (atvi_label){.ink = ATVI_INK_MUTED}, name);
  l->used += room + GAP;
}

size_t atvi_array_name(const char *name) {
  const char *dot = strchr(name, '.');
  return dot && dot[1] >= '0' && dot[1] <= '9' ? (size_t)(dot - name) : 0;
}
