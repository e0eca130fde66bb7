/* SPDX-License-Identifier: MIT */
/* The reservoir of reservoir.sh: reads reservoir.in in the working folder, writes reservoir.out. */
#include <math.h>
#include <stdio.h>

int main(void) {
  double k, m, storage = 20, step = 0.05;
  FILE *in = fopen("reservoir.in", "r"), *out = fopen("reservoir.out", "w");
  if (!in || !out || fscanf(in, " rate = %lf power = %lf", &k, &m) != 2) {
    fprintf(stderr, "cannot read reservoir.in or write reservoir.out\n");
    return 1;
  }
  fprintf(out, "# hour outflow\n");
  for (int i = 1; i <= 960; i++) {
    double rain = i * step > 10 && i * step <= 16 ? 8 : 0;
    storage += step * (rain - k * pow(storage, m));
    if (i % 20 == 0) fprintf(out, "%d %.12g\n", i / 20, k * pow(storage, m));
  }
  return fclose(out) == 0 ? 0 : 1;
}
