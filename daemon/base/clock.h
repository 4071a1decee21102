/* Time that never goes back. Any thread. */
#pragma once

#include <stdint.h>
#include <time.h>

static inline uint64_t pjrtd_clock_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
