/* What every C side of the benchmark shares: operations that the driver runs in slices, by commands on a pipe.
 *
 * One thread, apart from what an operation starts itself. Knows neither pjrtd nor PJRT. The protocol is in README.md.
 * Errors end the process: a benchmark that half works must not print a figure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* One thing to measure. `op` does it once, `inner` times where one call is too short or too pipelined to time alone;
 * a sample is its time divided by `inner`. `begin` and `end` (NULL: nothing) stand outside what is timed. */
typedef struct {
  const char *name;
  void (*op)(void *user);
  void (*begin)(void *user);
  void (*end)(void *user);
  void *user;
  uint32_t inner; /* 0: 1 */
} bench_mode;

/* Prints `ready FACTS`, where `facts_json` is a JSON object, and serves commands from standard input until it ends. */
void bench_serve(const bench_mode *modes, size_t num_modes, const char *facts_json);

uint64_t bench_now_ns(void);

/* Prints the message to standard error and exits with 1. */
__attribute__((noreturn, format(printf, 1, 2))) void bench_fail(const char *format, ...);

/* The C programs all measure these two. */
extern const char bench_add_program[]; /* f32[8] -> f32[8]: x + x */
extern const char bench_dot_program[]; /* f32[8,8] -> f32[8,8]: x . x */
