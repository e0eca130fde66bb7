/* SPDX-License-Identifier: MIT */
/* How much faster a command would be on more cores than this machine has:
 *
 *   build/bench/cores fit examples/rotavirus/rotavirus.atvi --threads 16 --out DIR
 *
 * It is the atvi program, with atvi_parallel replaced (the linker's --wrap): the work is divided for the
 * threads that were asked for, but the items of a job run one after the other, and the CPU time of each is
 * measured. An item goes to the worker that would be free first, as the counter of src/core/threads.c hands
 * them out; a job lasts as long as its busiest worker. What is outside of jobs is serial. Not modelled:
 * shared caches and memory, clocks that fall as cores get busy. On standard error at the end, lines that
 * begin with "figure":
 *
 *   figure cores <threads> <CPU s> <CPU s in jobs> <s of jobs on the threads> <s serial> <s to wake threads> <speed-up>
 *   figure cores_items <most items of a job> <jobs> <CPU s> <s on the threads>
 *   figure cores_serial <CPU s before the first job> <between jobs> <after the last>
 *   figure cores_job <function> <jobs> <items> <CPU s> <s on the threads> <serial CPU s before them, since the last job> */
#include "core/core.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 1024, KINDS = 7, FUNCTIONS = 128 };
#define WAKE_S                                                                                               \
  2e-5 /* to wake the threads for a job and to wait for the last: futexes on 16 cores, some 10 to 30 us */

static const atvi_idx UP_TO[KINDS] = {1, 2, 4, 8, 16, 32, PTRDIFF_MAX};

static struct {
  int threads;
  double first, last; /* CPU s at which the first job began and the last ended */
  struct {
    long jobs;
    double cpu, span;
  } kind[KINDS];
  struct function {
    void (*fn)(void *, atvi_idx, int);
    long jobs, items;
    double cpu, span, before;
  } function[FUNCTIONS];
} seen;

extern char __executable_start; /* of the linker: where the program was loaded */

void __real_atvi_parallel(atvi_ctx *ctx, atvi_idx n, void (*fn)(void *, atvi_idx, int), void *arg);
void __wrap_atvi_parallel(atvi_ctx *ctx, atvi_idx n, void (*fn)(void *, atvi_idx, int), void *arg);

static double cpu_s(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static struct function *function_of(void (*fn)(void *, atvi_idx, int)) {
  int k = 0;
  while (k < FUNCTIONS - 1 && seen.function[k].fn && seen.function[k].fn != fn) k++;
  seen.function[k].fn = fn;
  return &seen.function[k];
}

/* Items of jobs are static functions, whose names only binutils know. */
static void name_of(const struct function *f, size_t size, char *name) {
  char line[128];
  snprintf(line, sizeof line, "addr2line -f -e /proc/%d/exe 0x%tx", (int)getpid(),
           (char *)(uintptr_t)f->fn - &__executable_start);
  FILE *out = popen(line, "r");
  snprintf(name, size, "?");
  if (!out) return;
  if (fgets(name, (int)size, out)) name[strcspn(name, "\n")] = 0;
  while (fgets(line, sizeof line, out))
    ;
  pclose(out);
}

static void report(void) {
  for (int k = 0; k < FUNCTIONS && seen.function[k].fn; k++) {
    const struct function *f = &seen.function[k];
    char name[64];
    name_of(f, sizeof name, name);
    fprintf(stderr, "figure cores_job %s %ld %ld %.4f %.4f %.4f\n", name, f->jobs, f->items, f->cpu, f->span,
            f->before);
  }
  double all = cpu_s(CLOCK_PROCESS_CPUTIME_ID), cpu = 0, span = 0, wake = 0;
  for (int k = 0; k < KINDS; k++) {
    cpu += seen.kind[k].cpu, span += seen.kind[k].span;
    if (k > 0 && seen.threads > 1) wake += WAKE_S * (double)seen.kind[k].jobs;
    if (seen.kind[k].jobs && k < KINDS - 1)
      fprintf(stderr, "figure cores_items %td %ld %.3f %.3f\n", UP_TO[k], seen.kind[k].jobs, seen.kind[k].cpu,
              seen.kind[k].span);
    else if (seen.kind[k].jobs)
      fprintf(stderr, "figure cores_items more %ld %.3f %.3f\n", seen.kind[k].jobs, seen.kind[k].cpu,
              seen.kind[k].span);
  }
  fprintf(stderr, "figure cores_serial %.3f %.3f %.3f\n", seen.first, seen.last - seen.first - cpu,
          all - seen.last);
  fprintf(stderr, "figure cores %d %.3f %.3f %.3f %.3f %.3f %.2f\n", seen.threads, all, cpu, span, all - cpu,
          wake, all / (all - cpu + span + wake));
}

void __wrap_atvi_parallel(atvi_ctx *ctx, atvi_idx n, void (*fn)(void *, atvi_idx, int), void *arg) {
  double busy[MOST] = {0}, cpu = 0, span = 0;
  int threads = atvi_ctx_threads(ctx), k = 0;
  struct function *f = function_of(fn);
  if (threads > MOST) {
    __real_atvi_parallel(ctx, n, fn, arg);
    return;
  }
  if (seen.threads == 0) {
    seen.first = cpu_s(CLOCK_PROCESS_CPUTIME_ID);
    atexit(report);
  }
  seen.threads = threads;
  if (seen.last > 0) f->before += cpu_s(CLOCK_PROCESS_CPUTIME_ID) - seen.last;
  for (atvi_idx i = 0; i < n; i++) {
    int worker = 0;
    for (int w = 1; w < threads; w++)
      if (busy[w] < busy[worker]) worker = w;
    double begun = cpu_s(CLOCK_THREAD_CPUTIME_ID);
    fn(arg, i, worker);
    double took = cpu_s(CLOCK_THREAD_CPUTIME_ID) - begun;
    busy[worker] += took;
    cpu += took;
    if (busy[worker] > span) span = busy[worker];
  }
  while (n > UP_TO[k]) k++;
  f->jobs++, f->items += n, f->cpu += cpu, f->span += span;
  seen.kind[k].jobs++;
  seen.kind[k].cpu += cpu;
  seen.kind[k].span += span;
  seen.last = cpu_s(CLOCK_PROCESS_CPUTIME_ID);
}
