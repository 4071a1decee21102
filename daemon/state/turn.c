/* Turns of the loop, timed (runtime.h). Loop thread.
 *
 * What counts is what the turn did: the time that its thread ran, or waited for something. That the kernel gave the
 * core to another thread, or the host to another machine, is not the loop's doing. The kernel's account of the thread
 * tells them apart:
 *
 * - it waited for nothing (ru_nvcsw): then the time on the processor is all, and it leaves out both;
 * - it waited, for a lock or a page: then all of it counts but the time that it was ready to run (schedstat).
 *
 * To ask costs some microseconds, so it is asked at most once in a millisecond, and what was done between that and the
 * turn, which may be a millisecond, is taken for the turn's. Sleeping between turns is waiting, too: it is known by the
 * time from one turn to the next. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "state/runtime.h"

#define STALL_NS UINT64_C(5000000)
/* What one turn spends on work that could wait for the next. */
#define BUDGET_NS UINT64_C(1000000)
#define ACCOUNT_NS UINT64_C(1000000)
/* Between turns the loop asks the kernel for events; where that takes longer, it slept. */
#define SLEPT_NS UINT64_C(10000)

static uint64_t delay_ns(pjrtd_turn *turn) {
  if (turn->schedstat == PJRTD_SCHEDSTAT_UNOPENED) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%ld/schedstat", (long)syscall(SYS_gettid));
    turn->schedstat = open(path, O_RDONLY | O_CLOEXEC);
  }
  char text[96];
  ssize_t length = turn->schedstat < 0 ? -1 : pread(turn->schedstat, text, sizeof text - 1, 0);
  if (length <= 0) return 0;
  text[length] = 0;
  unsigned long long running = 0, delay = 0;
  return sscanf(text, "%llu %llu", &running, &delay) == 2 ? delay : 0;
}

static pjrtd_thread_account ask(pjrtd_turn *turn) {
  struct rusage usage = {0};
  struct timespec cpu = {0};
  getrusage(RUSAGE_THREAD, &usage);
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
  return (pjrtd_thread_account){.cpu_ns = (uint64_t)cpu.tv_sec * 1000000000u + (uint64_t)cpu.tv_nsec,
                                .delay_ns = delay_ns(turn),
                                .waits = (uint64_t)usage.ru_nvcsw};
}

void pjrtd_runtime_begin_turn(pjrtd_runtime *runtime) {
  pjrtd_turn *turn = &runtime->turn;
  uint64_t now_ns = pjrtd_clock_now_ns();
  if (now_ns - turn->ended_ns > SLEPT_NS) turn->sleeps++;
  if (now_ns - turn->asked_ns > ACCOUNT_NS) {
    turn->account = ask(turn);
    turn->sleeps = 0;
    turn->asked_ns = now_ns = pjrtd_clock_now_ns();
  }
  turn->began_ns = now_ns;
}

bool pjrtd_runtime_time_is_up(const pjrtd_runtime *runtime) {
  return runtime->turn.began_ns && pjrtd_clock_now_ns() - runtime->turn.began_ns > BUDGET_NS;
}

/* Of a turn that took `wall_ns`: what was its own doing. */
static uint64_t own_ns(pjrtd_turn *turn, uint64_t wall_ns, bool *out_waited) {
  pjrtd_thread_account now = ask(turn);
  *out_waited = now.waits - turn->account.waits > turn->sleeps;
  uint64_t delay = now.delay_ns - turn->account.delay_ns, cpu = now.cpu_ns - turn->account.cpu_ns;
  uint64_t waiting_too = delay < wall_ns ? wall_ns - delay : 0;
  return *out_waited || cpu > waiting_too ? waiting_too : cpu;
}

void pjrtd_runtime_end_turn(pjrtd_runtime *runtime) {
  pjrtd_turn *turn = &runtime->turn;
  if (!turn->began_ns) return;
  turn->ended_ns = pjrtd_clock_now_ns();
  uint64_t turn_ns = turn->ended_ns - turn->began_ns;
  turn->began_ns = 0;
  pjrtd_stats *stats = &runtime->stats;
  stats->loop_turns++;
  bool waited = false;
  if (turn_ns > STALL_NS) turn_ns = own_ns(turn, turn_ns, &waited);
  if (turn_ns > stats->loop_longest_turn_ns) stats->loop_longest_turn_ns = turn_ns;
  if (turn_ns <= STALL_NS) return;
  stats->loop_stalls++;
  pjrtd_log(PJRTD_LOG_WARNING, "a turn of the loop took long", PJRTD_LOG_UINT("us", turn_ns / 1000),
            PJRTD_LOG_BOOL("waited", waited));
}
