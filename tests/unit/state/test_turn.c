/* state/turn.c. */
#include "runtime_fixture.h"

TestSuite(turn, .init = open_bare, .fini = close_bare, .timeout = 60);

/* Works, that is: a thread that sleeps is not busy. */
static void work_for_ms(uint64_t ms) {
  uint64_t until_ns = pjrtd_clock_now_ns() + ms * 1000000;
  while (pjrtd_clock_now_ns() < until_ns) continue;
}

Test(turn, is_counted_once_however_often_it_is_entered) {
  for (int i = 0; i < 3; i++) {
    pjrtd_runtime_enter(runtime);
    uint64_t began_ns = runtime->turn_began_ns;
    pjrtd_runtime_enter(runtime);
    cr_assert_eq(runtime->turn_began_ns, began_ns);
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
  /* Time without a core is taken off, so that on a busy machine this is more than it seems. */
  pjrtd_runtime_enter(runtime);
  work_for_ms(200);
  pjrtd_runtime_end_turn(runtime);
  cr_assert_eq(runtime->stats.loop_turns, 2);
  cr_assert_eq(runtime->stats.loop_stalls, 1);
  cr_assert_gt(runtime->stats.loop_longest_turn_ns, 5000000);
  uint64_t longest_ns = runtime->stats.loop_longest_turn_ns;
  pjrtd_runtime_enter(runtime);
  pjrtd_runtime_end_turn(runtime);
  cr_assert_eq(runtime->stats.loop_stalls, 1);
  cr_assert_eq(runtime->stats.loop_longest_turn_ns, longest_ns);
}
