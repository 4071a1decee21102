/* state/turn.c. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "runtime_fixture.h"

TestSuite(turn, .init = open_bare, .fini = close_bare, .timeout = 60);

static uint64_t cpu_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* On the processor, however long it takes to get that. */
static void work_for_ms(uint64_t ms) {
  uint64_t until_ns = cpu_ns() + ms * 1000000;
  while (cpu_ns() < until_ns) continue;
}

static void sleep_for_ms(uint64_t ms) {
  nanosleep(&(struct timespec){.tv_nsec = (long)ms * 1000000}, NULL);
}

Test(turn, is_counted_once_however_often_it_is_entered) {
  for (int i = 0; i < 3; i++) {
    pjrtd_runtime_enter(runtime);
    uint64_t began_ns = runtime->turn.began_ns;
    pjrtd_runtime_enter(runtime);
    cr_assert_eq(runtime->turn.began_ns, began_ns);
    pjrtd_runtime_end_turn(runtime);
    cr_assert_eq(runtime->stats.loop_turns, (uint64_t)i + 1);
  }
}

Test(turn, in_which_nothing_happened_is_none) {
  pjrtd_runtime_end_turn(runtime);
  cr_assert_eq(runtime->stats.loop_turns, 0);
  cr_assert_not(pjrtd_runtime_time_is_up(runtime));
}

Test(turn, has_time_for_a_moment) {
  pjrtd_runtime_enter(runtime);
  cr_assert_not(pjrtd_runtime_time_is_up(runtime));
  work_for_ms(3);
  cr_assert(pjrtd_runtime_time_is_up(runtime));
  pjrtd_runtime_end_turn(runtime);
  cr_assert_not(pjrtd_runtime_time_is_up(runtime), "the next has time again");
}

Test(turn, that_takes_long_is_a_stall) {
  pjrtd_log_set_level(PJRTD_LOG_ERROR);
  pjrtd_runtime_enter(runtime);
  pjrtd_runtime_end_turn(runtime);
  cr_assert_eq(runtime->stats.loop_stalls, 0);
  pjrtd_runtime_enter(runtime);
  work_for_ms(20);
  pjrtd_runtime_end_turn(runtime);
  cr_assert_eq(runtime->stats.loop_turns, 2);
  cr_assert_eq(runtime->stats.loop_stalls, 1);
  cr_assert_geq(runtime->stats.loop_longest_turn_ns, 20000000);
  uint64_t longest_ns = runtime->stats.loop_longest_turn_ns;
  pjrtd_runtime_enter(runtime);
  pjrtd_runtime_end_turn(runtime);
  cr_assert_eq(runtime->stats.loop_stalls, 1);
  cr_assert_eq(runtime->stats.loop_longest_turn_ns, longest_ns);
}

Test(turn, that_waits_for_something_is_a_stall) {
  pjrtd_log_set_level(PJRTD_LOG_ERROR);
  pjrtd_runtime_enter(runtime);
  sleep_for_ms(20);
  pjrtd_runtime_end_turn(runtime);
  cr_assert_eq(runtime->stats.loop_stalls, 1);
}

Test(turn, does_not_include_the_sleep_before_it) {
  for (int i = 0; i < 20; i++) {
    sleep_for_ms(i % 2 ? 10 : 0); /* an old account of the thread, and a fresh one */
    pjrtd_runtime_enter(runtime);
    pjrtd_runtime_end_turn(runtime);
  }
  cr_assert_eq(runtime->stats.loop_stalls, 0);
  cr_assert_lt(runtime->stats.loop_longest_turn_ns, 5000000);
}

/* Two threads on one core: what the other one takes is not the turn's. */
static atomic_bool over;

static void *hog(void *unused) {
  while (!atomic_load(&over)) continue;
  return unused;
}

Test(turn, is_not_charged_for_what_others_run) {
  cpu_set_t before, one;
  CPU_ZERO(&one);
  cr_assert_eq(sched_getaffinity(0, sizeof before, &before), 0);
  for (int cpu = 0; cpu < CPU_SETSIZE && !CPU_COUNT(&one); cpu++)
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
  pthread_t thread;
  atomic_store(&over, false);
  cr_assert_eq(pthread_create(&thread, NULL, hog, NULL), 0);
  unsigned long_turns = 0;
  for (int i = 0; i < 50; i++) {
    uint64_t began_ns = pjrtd_clock_now_ns();
    pjrtd_runtime_enter(runtime);
    work_for_ms(2);
    sched_yield(); /* the hog has the core for a while */
    pjrtd_runtime_end_turn(runtime);
    long_turns += pjrtd_clock_now_ns() - began_ns > 5000000;
  }
  atomic_store(&over, true);
  pthread_join(thread, NULL);
  cr_assert_gt(long_turns, 4, "the other thread did not get the core: this shows nothing");
  /* A virtual machine's host may take the core in the middle, which the kernel counts as the thread's own time. */
  cr_assert_lt(runtime->stats.loop_stalls, long_turns / 4 + 1, "%d of %u turns are charged for it",
               (int)runtime->stats.loop_stalls, long_turns);
}
