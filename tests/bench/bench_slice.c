/* Runs operations in timed slices and answers each with one line of JSON. One thread; does no I/O inside a slice. */
#include "bench_slice.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

const char bench_add_program[] =
    "module @add { func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {\n"
    "  %0 = stablehlo.add %a, %a : tensor<8xf32>\n"
    "  return %0 : tensor<8xf32>\n"
    "} }\n";
const char bench_dot_program[] =
    "module @dot { func.func public @main(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {\n"
    "  %0 = stablehlo.dot %a, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>\n"
    "  return %0 : tensor<8x8xf32>\n"
    "} }\n";

/* 1 << 20 samples are half a second at 0.5 us; a slice ends early rather than grow while it is timed. */
enum { MAX_SAMPLES = 1 << 20, MAX_LINE_BYTES = 4096 };

static uint64_t *samples; /* MAX_SAMPLES places, touched before the first slice */

void bench_fail(const char *format, ...) {
  va_list args;
  va_start(args, format);
  fputs("bench: ", stderr);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
  va_end(args);
  exit(1);
}

uint64_t bench_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int compare_samples(const void *left, const void *right) {
  uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
  return (a > b) - (a < b);
}

static size_t run_for(const bench_mode *mode, uint64_t duration_ns) {
  size_t count = 0;
  uint64_t start = bench_now_ns(), before = start, stop = start + duration_ns;
  do {
    mode->op(mode->user);
    uint64_t after = bench_now_ns();
    samples[count++] = after - before;
    before = after;
  } while (before < stop && count < MAX_SAMPLES);
  return count;
}

static void save_samples(const char *path, size_t count) {
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(samples, sizeof *samples, count, file) != count || fclose(file) != 0)
    bench_fail("%s: %s", path, strerror(errno));
}

/* A tenth of the slice is run first and thrown away: caches, branch predictors and a sleeping peer settle in it. */
static void run_slice(const bench_mode *mode, uint64_t duration_ms, const char *save_path) {
  uint32_t inner = mode->inner ? mode->inner : 1;
  uint64_t duration_ns = duration_ms * 1000000u;
  if (mode->begin) mode->begin(mode->user);
  run_for(mode, duration_ns / 10);
  struct rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  uint64_t start = bench_now_ns();
  size_t count = run_for(mode, duration_ns);
  uint64_t elapsed_ns = bench_now_ns() - start;
  getrusage(RUSAGE_SELF, &after);
  if (mode->end) mode->end(mode->user);
  if (save_path) save_samples(save_path, count);
  qsort(samples, count, sizeof *samples, compare_samples);
  printf(
      "{\"count\": %zu, \"elapsed_ns\": %llu, \"p50_ns\": %.1f, \"p99_ns\": %.1f, \"min_ns\": %.1f, "
      "\"page_faults\": %ld, \"voluntary_switches\": %ld, \"involuntary_switches\": %ld}\n",
      count * inner, (unsigned long long)elapsed_ns, (double)samples[count / 2] / inner,
      (double)samples[count * 99 / 100] / inner, (double)samples[0] / inner,
      after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt, after.ru_nvcsw - before.ru_nvcsw,
      after.ru_nivcsw - before.ru_nivcsw);
}

static void run_count(const bench_mode *mode, uint64_t count) {
  uint32_t inner = mode->inner ? mode->inner : 1;
  if (mode->begin) mode->begin(mode->user);
  uint64_t start = bench_now_ns();
  for (uint64_t i = 0; i < count; i += inner) mode->op(mode->user);
  uint64_t elapsed_ns = bench_now_ns() - start;
  if (mode->end) mode->end(mode->user);
  printf("{\"count\": %llu, \"elapsed_ns\": %llu}\n", (unsigned long long)((count + inner - 1) / inner * inner),
         (unsigned long long)elapsed_ns);
}

static const bench_mode *find_mode(const bench_mode *modes, size_t num_modes, const char *name) {
  for (size_t i = 0; i < num_modes; i++)
    if (strcmp(modes[i].name, name) == 0) return &modes[i];
  bench_fail("there is no mode \"%s\"", name);
}

void bench_serve(const bench_mode *modes, size_t num_modes, const char *facts_json) {
  samples = malloc(MAX_SAMPLES * sizeof *samples);
  if (!samples) bench_fail("out of memory");
  memset(samples, 1, MAX_SAMPLES * sizeof *samples);
  printf("ready %s\n", facts_json);
  fflush(stdout);
  char line[MAX_LINE_BYTES];
  while (fgets(line, sizeof line, stdin)) {
    char name[64], path[MAX_LINE_BYTES] = "";
    unsigned long long amount;
    if (sscanf(line, "slice %63s %llu %4000[^\n]", name, &amount, path) >= 2)
      run_slice(find_mode(modes, num_modes, name), amount, path[0] ? path : NULL);
    else if (sscanf(line, "count %63s %llu", name, &amount) == 2)
      run_count(find_mode(modes, num_modes, name), amount);
    else
      bench_fail("not a command: %s", line);
    fflush(stdout);
  }
  free(samples);
}
