/* Polling goes on while it pays and stops where it does not. */
#include <criterion/criterion.h>

#include "spinner.h"

/* How many of `count` waits poll, when a poll meets its answer as `hit` says. */
static int polls_of(pjrtc_spinner *spinner, int count, bool hit) {
  int polls = 0;
  for (int i = 0; i < count; i++) {
    if (!pjrtc_spinner_begin(spinner)) continue;
    polls++;
    pjrtc_spinner_end(spinner, hit);
  }
  return polls;
}

Test(spinner, polls_always_while_answers_come_in_time) {
  pjrtc_spinner spinner;
  pjrtc_spinner_init(&spinner);
  cr_assert_eq(polls_of(&spinner, 10000, true), 10000);
}

Test(spinner, forgives_a_slow_answer_now_and_then) {
  pjrtc_spinner spinner;
  pjrtc_spinner_init(&spinner);
  for (int i = 0; i < 100; i++) {
    cr_assert_eq(polls_of(&spinner, 1, false), 1);
    cr_assert_eq(polls_of(&spinner, 9, true), 9);
  }
}

Test(spinner, hardly_polls_where_answers_are_slow) {
  pjrtc_spinner spinner;
  pjrtc_spinner_init(&spinner);
  cr_assert_leq(polls_of(&spinner, 100, false), 8);
  cr_assert_leq(polls_of(&spinner, 100000, false), 100);
}

Test(spinner, polls_again_once_answers_are_quick_again) {
  pjrtc_spinner spinner;
  pjrtc_spinner_init(&spinner);
  polls_of(&spinner, 100000, false);
  polls_of(&spinner, 4200, true);
  cr_assert_eq(polls_of(&spinner, 1000, true), 1000);
}

Test(spinner, sleeps_where_others_need_the_core) {
  pjrtc_spinner spinner;
  pjrtc_spinner_init(&spinner);
  polls_of(&spinner, 100, true);
  spinner.crowded = true; /* an answer, but only after somebody else had the core */
  cr_assert_eq(polls_of(&spinner, 1, true), 1);
  cr_assert_not(spinner.crowded);
  cr_assert_eq(polls_of(&spinner, 32, true), 0);
  cr_assert_eq(polls_of(&spinner, 1000, true), 1000, "tried again, and it paid");
}
