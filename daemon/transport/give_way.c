/* See give_way.h. */
#include "transport/give_way.h"

#include <sched.h>

#include "base/clock.h"

/* A core that was given away for this long is one that others need. */
#define CROWDED_NS UINT64_C(500000)
#define FIRST_CROWDED_NS UINT64_C(10000000)
#define LAST_CROWDED_NS UINT64_C(1000000000)

bool pjrtd_may_poll(const pjrtd_crowding *crowding, const pjrtd_runtime *runtime, uint64_t now_ns) {
  if (!runtime->settings->busy_poll_us || now_ns < crowding->crowded_until_ns) return false;
  return !(runtime->few_cores && runtime->jobs_running);
}

bool pjrtd_give_way(pjrtd_crowding *crowding) {
  uint64_t before_ns = pjrtd_clock_now_ns();
  sched_yield();
  uint64_t now_ns = pjrtd_clock_now_ns();
  if (now_ns - before_ns < CROWDED_NS) return true;
  if (now_ns - crowding->crowded_until_ns > LAST_CROWDED_NS)
    crowding->crowded_ns = FIRST_CROWDED_NS;
  else if (crowding->crowded_ns < LAST_CROWDED_NS)
    crowding->crowded_ns *= 2;
  crowding->crowded_until_ns = now_ns + crowding->crowded_ns;
  return false;
}
