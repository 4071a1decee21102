/* Turns of the loop, timed (runtime.h). Loop thread.
 *
 * A turn in which the kernel gave the core to another thread is not the loop's fault. The kernel knows that time
 * (schedstat), and it is taken off. To ask costs two microseconds, so it is asked at most once in a millisecond, and
 * what is taken off may include as much from before the turn. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "state/runtime.h"

#define STALL_NS UINT64_C(5000000)
/* What one turn spends on work that could wait for the next. */
#define BUDGET_NS UINT64_C(1000000)
#define DELAY_SAMPLE_NS UINT64_C(1000000)

/* How long this thread has been ready to run without a core, in all. */
static uint64_t run_delay_ns(pjrtd_runtime *runtime) {
  if (runtime->schedstat == -2) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%ld/schedstat", (long)syscall(SYS_gettid));
    runtime->schedstat = open(path, O_RDONLY | O_CLOEXEC);
  }
  char text[96];
  ssize_t length = runtime->schedstat < 0 ? -1 : pread(runtime->schedstat, text, sizeof text - 1, 0);
  if (length <= 0) return 0;
  text[length] = 0;
  unsigned long long running = 0, delay = 0;
  return sscanf(text, "%llu %llu", &running, &delay) == 2 ? delay : 0;
}

void pjrtd_runtime_begin_turn(pjrtd_runtime *runtime) {
  uint64_t now_ns = pjrtd_clock_now_ns();
  if (now_ns - runtime->delay_sampled_ns > DELAY_SAMPLE_NS) {
    runtime->delay_ns = run_delay_ns(runtime);
    runtime->delay_sampled_ns = now_ns = pjrtd_clock_now_ns();
  }
  runtime->turn_began_ns = now_ns;
}

bool pjrtd_runtime_time_is_up(const pjrtd_runtime *runtime) {
  return runtime->turn_began_ns && pjrtd_clock_now_ns() - runtime->turn_began_ns > BUDGET_NS;
}

void pjrtd_runtime_end_turn(pjrtd_runtime *runtime) {
  if (!runtime->turn_began_ns) return;
  uint64_t turn_ns = pjrtd_clock_now_ns() - runtime->turn_began_ns;
  runtime->turn_began_ns = 0;
  pjrtd_stats *stats = &runtime->stats;
  stats->loop_turns++;
  if (turn_ns > STALL_NS) {
    uint64_t delay_ns = run_delay_ns(runtime) - runtime->delay_ns;
    turn_ns = delay_ns < turn_ns ? turn_ns - delay_ns : 0;
  }
  if (turn_ns > stats->loop_longest_turn_ns) stats->loop_longest_turn_ns = turn_ns;
  if (turn_ns <= STALL_NS) return;
  stats->loop_stalls++;
  pjrtd_log(PJRTD_LOG_WARNING, "a turn of the loop took long", PJRTD_LOG_UINT("us", turn_ns / 1000));
}
