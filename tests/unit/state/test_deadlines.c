/* state/deadlines.c. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/clock.h"
#include "state/deadlines.h"

#define ASSERT_OK(expression)                                     \
  do {                                                            \
    pjrtd_status *status_ = (expression);                         \
    cr_assert_null(status_, "%s", pjrtd_status_message(status_)); \
  } while (0)

enum { MOST = 1000 };
static uv_loop_t loop;
static pjrtd_deadlines deadlines;
static pjrtd_deadline *passed[MOST * 4];
static int num_passed;

static void on_passed(pjrtd_deadline *deadline) {
  cr_assert_geq(pjrtd_clock_now_ns(), deadline->at_ns, "it came early");
  cr_assert_eq(deadline->place, 0);
  passed[num_passed++] = deadline;
}

static void begin(void) {
  cr_assert_eq(uv_loop_init(&loop), 0);
  ASSERT_OK(pjrtd_deadlines_init(&deadlines, &loop));
}

static void shut(void) {
  pjrtd_deadlines_close(&deadlines);
  cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
  cr_assert_eq(uv_loop_close(&loop), 0);
}

TestSuite(deadlines, .init = begin, .fini = shut, .timeout = 60);

static void add(pjrtd_deadline *deadline, uint64_t at_ns) {
  *deadline = (pjrtd_deadline){.at_ns = at_ns, .passed = on_passed};
  ASSERT_OK(pjrtd_deadlines_add(&deadlines, deadline));
}

/* Until none is left: then the timer stands still and the loop has nothing to do. */
static void run(void) {
  cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
}

Test(deadlines, keep_no_loop_alive_when_there_are_none) {
  run();
  cr_assert_eq(num_passed, 0);
}

Test(deadlines, pass_in_the_order_of_their_times) {
  static pjrtd_deadline many[MOST];
  uint64_t now_ns = pjrtd_clock_now_ns();
  unsigned seed = 9;
  for (int i = 0; i < MOST; i++) add(&many[i], now_ns + (uint64_t)rand_r(&seed) % 30000000);
  run();
  cr_assert_eq(num_passed, MOST);
  for (int i = 1; i < MOST; i++) cr_assert_leq(passed[i - 1]->at_ns, passed[i]->at_ns);
}

Test(deadlines, can_be_taken_out_wherever_they_are) {
  static pjrtd_deadline many[MOST];
  static bool out[MOST];
  uint64_t now_ns = pjrtd_clock_now_ns();
  unsigned seed = 10;
  int left = 0;
  for (int i = 0; i < MOST; i++) add(&many[i], now_ns + 5000000 + (uint64_t)rand_r(&seed) % 20000000);
  for (int i = 0; i < MOST; i++) {
    int victim = rand_r(&seed) % MOST;
    pjrtd_deadlines_remove(&deadlines, &many[victim]);
    out[victim] = true;
  }
  for (int i = 0; i < MOST; i++) left += !out[i];
  cr_assert_gt(left, 100);
  run();
  cr_assert_eq(num_passed, left);
  for (int i = 1; i < num_passed; i++) cr_assert_leq(passed[i - 1]->at_ns, passed[i]->at_ns);
  for (int i = 0; i < num_passed; i++) cr_assert_not(out[passed[i] - many]);
}

/* The last of the heap takes the place of the one that goes, and may belong higher up there. */
Test(deadlines, keep_their_order_when_one_of_another_branch_takes_the_place) {
  /* By place: the path down the right is early, the left half late. */
  enum { LAST = 31 };
  static pjrtd_deadline some[LAST + 1];
  for (int place = 1; place <= LAST; place++) {
    int half = place;
    while (half > 3) half /= 2;
    uint64_t at_ns = half == 2 ? 90 + (uint64_t)place : 50 + (uint64_t)place;
    if (place == 1 || place == 3 || place == 7 || place == 15) at_ns = (uint64_t)place;
    if (place == LAST) at_ns = 20;
    add(&some[place], at_ns);
    cr_assert_eq(some[place].place, (size_t)place);
  }
  pjrtd_deadlines_remove(&deadlines, &some[16]);
  run();
  cr_assert_eq(num_passed, LAST - 1);
  for (int i = 1; i < LAST - 1; i++) cr_assert_leq(passed[i - 1]->at_ns, passed[i]->at_ns);
}

Test(deadlines, can_be_taken_out_twice_and_without_having_been_in) {
  pjrtd_deadline one, never = {.passed = on_passed};
  add(&one, UINT64_MAX);
  pjrtd_deadlines_remove(&deadlines, &one);
  pjrtd_deadlines_remove(&deadlines, &one);
  pjrtd_deadlines_remove(&deadlines, &never);
  run();
  cr_assert_eq(num_passed, 0);
}

Test(deadlines, pass_neither_early_nor_late_when_they_lie_between_milliseconds) {
  for (int i = 0; i < 20; i++) {
    pjrtd_deadline one;
    uint64_t start_ns = pjrtd_clock_now_ns();
    add(&one, start_ns + 1300000 + (uint64_t)i * 100000);
    run();
    cr_assert_eq(num_passed, i + 1); /* on_passed checks that it is not early */
    /* Another process may have the core; a timer that was forgotten would never come. */
    cr_assert_lt(pjrtd_clock_now_ns() - start_ns, UINT64_C(5000000000));
  }
}

Test(deadlines, pass_at_the_next_turn_when_they_lie_in_the_past) {
  pjrtd_deadline one, two;
  add(&one, 1);
  add(&two, 0);
  cr_assert_eq(num_passed, 0, "never from within add");
  run();
  cr_assert_eq(num_passed, 2);
  cr_assert_eq(passed[0], &two);
}

Test(deadlines, do_not_pass_at_once_when_they_are_as_far_off_as_can_be) {
  pjrtd_deadline far, near;
  add(&far, UINT64_MAX);
  add(&near, pjrtd_clock_now_ns() + 2000000);
  while (!num_passed) uv_run(&loop, UV_RUN_ONCE);
  cr_assert_eq(passed[0], &near);
  uv_run(&loop, UV_RUN_NOWAIT);
  cr_assert_eq(num_passed, 1);
  pjrtd_deadlines_remove(&deadlines, &far);
}

static int again_left;
static void on_again(pjrtd_deadline *deadline) {
  num_passed++;
  if (!again_left--) return;
  deadline->at_ns = pjrtd_clock_now_ns() + 1000000;
  ASSERT_OK(pjrtd_deadlines_add(&deadlines, deadline));
}

Test(deadlines, can_be_set_again_when_they_pass) {
  pjrtd_deadline one = {.at_ns = 1, .passed = on_again};
  again_left = 4;
  ASSERT_OK(pjrtd_deadlines_add(&deadlines, &one));
  run();
  cr_assert_eq(num_passed, 5);
}

static pjrtd_deadline others[3];
static void on_remove_others(pjrtd_deadline *deadline) {
  on_passed(deadline);
  for (int i = 0; i < 3; i++) pjrtd_deadlines_remove(&deadlines, &others[i]);
}

Test(deadlines, can_be_taken_out_by_one_that_passes) {
  uint64_t now_ns = pjrtd_clock_now_ns();
  pjrtd_deadline one = {.at_ns = 1, .passed = on_remove_others}, last;
  for (int i = 0; i < 3; i++) add(&others[i], 2 + (uint64_t)i);
  ASSERT_OK(pjrtd_deadlines_add(&deadlines, &one));
  add(&last, now_ns);
  run();
  cr_assert_eq(num_passed, 2);
  cr_assert_eq(passed[1], &last);
}

Test(deadlines, are_not_lost_when_an_earlier_one_is_taken_out) {
  pjrtd_deadline early, late;
  uint64_t now_ns = pjrtd_clock_now_ns();
  add(&late, now_ns + 4000000);
  add(&early, now_ns + 1000000);
  pjrtd_deadlines_remove(&deadlines, &early);
  run();
  cr_assert_eq(num_passed, 1);
  cr_assert_eq(passed[0], &late);
}

Test(deadlines, stay_as_they_were_when_there_is_no_memory_for_another) {
  static pjrtd_deadline many[MOST];
  int count = 0, refused = 0;
  for (; count < 200; count++) {
    many[count] = (pjrtd_deadline){.at_ns = (uint64_t)(1000 - count), .passed = on_passed};
    pjrtd_alloc_fail_after(0);
    pjrtd_status *status = pjrtd_deadlines_add(&deadlines, &many[count]);
    pjrtd_alloc_fail_after(-1);
    if (!status) continue;
    cr_assert_eq(pjrtd_status_code(status), PJRTD_CODE_RESOURCE_EXHAUSTED);
    cr_assert_eq(many[count].place, 0);
    pjrtd_status_destroy(status);
    refused++;
    ASSERT_OK(pjrtd_deadlines_add(&deadlines, &many[count]));
  }
  cr_assert_gt(refused, 2);
  run();
  cr_assert_eq(num_passed, count);
  for (int i = 0; i < count; i++) cr_assert_eq(passed[i], &many[count - 1 - i]);
}

Test(deadlines, may_be_there_still_when_all_is_closed) {
  static pjrtd_deadline some[40];
  for (int i = 0; i < 40; i++) add(&some[i], UINT64_MAX - (uint64_t)i);
}
