/* SPDX-License-Identifier: MIT */
/* A small catchment: rain to river flow, hour by hour for twenty days.
 *
 *   catchment CHANNEL OVERLAND INFILTRATION LOGK DRAIN [--truth SEED] > flow.csv
 *
 * Three hillslopes of ten cells each drain into a channel of ten reaches. A cell has water on the surface (depth h) and in the
 * soil (depth s, room for DEPTH). In steps of two minutes:
 *
 *   rain         falls on the surface; what evaporates is taken from the soil
 *   infiltration at most K (1 + 5 INFILTRATION (1 - s/s0)) per second, s0 the room in the soil
 *   overland     q = h^(5/3) sqrt(slope) / OVERLAND to the cell below, the lowest one into the channel (kinematic wave)
 *   lateral      water in the soil moves down with speed 4000 K slope (s/s0)^3
 *   drainage     DRAIN K (s/s0)^5 is lost to deep groundwater, for ever
 *   channel      reaches pass water on by Manning's formula for a wide channel with roughness CHANNEL
 *
 * With --truth the world is a little different from the model, as worlds are: cracks in dry soil carry a part of the rain straight to the
 * channel by a slow store, rain gauges catch 3 % too little in heavy rain, and the gauge at the outlet has an error of 3 %. No
 * parameters can make up for that. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOPES = 3, CELLS = 10, REACHES = 10, HOURS = 480, STEPS = 30 };
#define DT (3600.0 / STEPS)
#define CELL 150.0   /* m, length of a cell; as wide as its reach is long */
#define REACH 2000.0 /* m */
#define WIDTH 3.0    /* m, of the channel */
#define BED 0.002    /* slope of the channel */
#define DEPTH 0.15   /* m of water that the soil holds */

typedef struct {
  double channel, overland, infiltration, k, drain;
  int truth;
} setting;

typedef struct {
  double h[SLOPES][CELLS], s[SLOPES][CELLS]; /* m */
  double v[REACHES];                         /* m3 in each reach */
  double slow;                               /* m, water in cracks (truth alone) */
} state;

static const double slope_of[SLOPES] = {0.02, 0.06, 0.12};

/* m/s: two storms, a shower and drizzle. */
static double rain(double hour) {
  static const struct {
    double at, width, mm;
  } storm[] = {{40, 7, 34}, {56, 5, 12}, {150, 9, 18}, {246, 7, 46}, {265, 9, 22}, {390, 6, 14}};
  double mm = 0.02 * (1 + sin(hour / 9.7)) * (1 + sin(hour / 31.0));
  for (size_t i = 0; i < sizeof storm / sizeof *storm; i++) {
    double u = (hour - storm[i].at) / storm[i].width;
    mm += storm[i].mm / (storm[i].width * sqrt(2 * acos(-1.0))) * exp(-0.5 * u * u);
  }
  return mm / 1000 / 3600;
}

static double evaporation(double hour) {
  double sun = sin((hour - 6) / 24 * 2 * acos(-1.0));
  return sun > 0 ? 0.25 * sun / 1000 / 3600 : 0;
}

/* One cell; water from above comes in as depth per step. Returns what leaves the surface and the soil, the same way. */
static void cell(const setting *p, double slope, double fall, double dry, double *h, double *s,
                 double *surface, double *soil) {
  *h += fall + *surface;
  *s += *soil;
  double room = 1 - *s / DEPTH, can = p->k * (1 + 5 * p->infiltration * (room > 0 ? room : 0)) * DT;
  double in = *h < can ? *h : can;
  if (in > DEPTH - *s) in = *s < DEPTH ? DEPTH - *s : 0;
  *h -= in;
  *s += in;
  double wet = *s / DEPTH, lost = (dry * wet + p->drain * p->k * pow(wet, 5)) * DT;
  *s -= lost < *s ? lost : *s;
  *soil = 4000 * p->k * slope * wet * wet * wet * *s / CELL * DT;
  if (*soil > 0.5 * *s) *soil = 0.5 * *s;
  *s -= *soil;
  *surface = pow(*h, 5.0 / 3) * sqrt(slope) / p->overland / CELL * DT;
  if (*surface > 0.5 * *h) *surface = 0.5 * *h;
  *h -= *surface;
}

/* m3/s that leave the last reach. */
static double channel(const setting *p, const double *inflow, double *v) {
  double from = 0;
  for (int i = 0; i < REACHES; i++) {
    v[i] += inflow[i] + from;
    double depth = v[i] / (REACH * WIDTH);
    double out = WIDTH * pow(depth, 5.0 / 3) * sqrt(BED) / p->channel * DT;
    from = out < 0.5 * v[i] ? out : 0.5 * v[i];
    v[i] -= from;
  }
  return from / DT;
}

static double hour_of(const setting *p, int hour, state *w) {
  double flow = 0;
  for (int k = 0; k < STEPS; k++) {
    double now = hour + (double)k / STEPS, fall = rain(now), cracks = 0, inflow[REACHES] = {0};
    if (p->truth) {
      fall *= 1 + 0.03 * fall / (fall + 1e-6);
      double dry = 1 - w->s[1][5] / DEPTH;
      w->slow += 0.05 * dry * fall * DT;
      fall *= 1 - 0.05 * dry;
      cracks = w->slow * DT / (30 * 3600.0);
      w->slow -= cracks;
    }
    for (int a = 0; a < SLOPES; a++) {
      double surface = 0, soil = 0;
      for (int c = 0; c < CELLS; c++)
        cell(p, slope_of[a], fall * DT, evaporation(now), &w->h[a][c], &w->s[a][c], &surface, &soil);
      for (int i = 0; i < REACHES; i++)
        inflow[i] += (surface + soil + cracks * CELLS) * CELL * REACH / SLOPES * (1 + 0.5 * (i == a * 4));
    }
    flow += channel(p, inflow, w->v) / STEPS;
  }
  return flow;
}

/* Standard normal numbers from a small generator: good enough for a gauge. */
static double normal(uint64_t *seed) {
  double sum = -6;
  for (int i = 0; i < 12; i++) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    sum += (double)(*seed >> 11) / 9007199254740992.0;
  }
  return sum;
}

int main(int argc, char **argv) {
  if (argc != 6 && argc != 8) {
    fprintf(stderr, "usage: catchment CHANNEL OVERLAND INFILTRATION LOGK DRAIN [--truth SEED]\n");
    return 2;
  }
  setting p = {atof(argv[1]), atof(argv[2]), atof(argv[3]), pow(10, atof(argv[4])), atof(argv[5]), argc == 8};
  uint64_t seed = argc == 8 ? strtoull(argv[7], NULL, 10) : 0;
  state w = {0};
  if (!(p.channel > 0 && p.overland > 0 && p.k > 0)) {
    fprintf(stderr, "catchment: roughness and conductivity must be above 0\n");
    return 1;
  }
  for (int a = 0; a < SLOPES; a++)
    for (int c = 0; c < CELLS; c++) w.s[a][c] = (0.45 + 0.02 * c) * DEPTH;
  for (int i = 0; i < REACHES; i++) w.v[i] = 2000;
  for (int hour = -48; hour < 0; hour++) hour_of(&p, hour, &w); /* to forget the start */
  printf("hour,flow,log_flow\n");
  for (int hour = 1; hour <= HOURS; hour++) {
    double flow = hour_of(&p, hour - 1, &w);
    if (p.truth) flow *= exp(0.03 * normal(&seed));
    printf("%d,%.6g,%.6g\n", hour, flow, log(flow));
  }
  return 0;
}
