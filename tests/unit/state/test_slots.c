/* state/slots.c: names, what they hold, and what becomes of a slot whose step fails. */
#include "runtime_fixture.h"
#include "state/quota.h"
#include "state/slots.h"

static pjrtd_slots slots;

static void open_slots(void) {
  open_runtime();
  slots = (pjrtd_slots){0};
}

static void close_slots(void) {
  pjrtd_slots_deinit(&slots);
  wait_until_idle();
  cr_assert_eq(runtime->stats.buffers, 0, "everything was released");
  close_runtime();
}

TestSuite(slots, .init = open_slots, .fini = close_slots, .timeout = 120);

enum { MOST = 1000000 };

static pjrtd_buffer *pending(void) {
  pjrtd_buffer *buffer;
  ASSERT_OK(pjrtd_buffer_create(runtime, &buffer));
  return buffer;
}

static pjrtd_buffer *ready(void) {
  pjrtd_buffer *buffer = pending();
  pjrtd_buffer_set(buffer, make_device_buffer(2, 1));
  return buffer;
}

static void release(pjrtd_buffer *buffer) {
  pjrtd_resource_release(&buffer->resource);
}

static pjrtd_buffer *put(const char *name, pjrtd_buffer *buffer) {
  ASSERT_OK(pjrtd_slots_bind(&slots, name, buffer, NULL, MOST));
  release(buffer);
  return buffer;
}

static pjrtd_buffer *feed(const char *name, pjrtd_buffer *buffer) {
  ASSERT_OK(pjrtd_slots_feed(&slots, name, buffer, NULL, MOST));
  return buffer;
}

static void fail(pjrtd_buffer *buffer) {
  pjrtd_resource_set_failed(&buffer->resource, pjrtd_status_make(PJRTD_CODE_ABORTED, "the step failed"));
  release(buffer);
}

static void succeed(pjrtd_buffer *buffer) {
  pjrtd_buffer_set(buffer, make_device_buffer(2, 1));
  release(buffer);
}

Test(slots, hold_what_was_bound_last) {
  cr_assert_null(pjrtd_slots_find(&slots, "theta"));
  put("theta", ready());
  pjrtd_buffer *second = put("theta", ready());
  cr_assert_eq(pjrtd_slots_find(&slots, "theta"), second);
  cr_assert_eq(slots.count, 1);
  cr_assert(pjrtd_slots_unbind(&slots, "theta"));
  cr_assert_not(pjrtd_slots_unbind(&slots, "theta"));
  cr_assert_null(pjrtd_slots_find(&slots, "theta"));
}

Test(slots, are_found_among_thousands_whatever_was_taken_out) {
  enum { COUNT = 5000 };
  pjrtd_buffer *shared = ready(), *other = ready();
  char name[32];
  for (int i = 0; i < COUNT; i++) {
    snprintf(name, sizeof name, "layer.%d.weight", i);
    ASSERT_OK(pjrtd_slots_bind(&slots, name, i % 3 ? shared : other, NULL, MOST));
  }
  for (int i = 0; i < COUNT; i += 2) {
    snprintf(name, sizeof name, "layer.%d.weight", i);
    cr_assert(pjrtd_slots_unbind(&slots, name));
  }
  cr_assert_eq(slots.count, COUNT / 2);
  for (int i = 0; i < COUNT; i++) {
    snprintf(name, sizeof name, "layer.%d.weight", i);
    cr_assert_eq(pjrtd_slots_find(&slots, name), i % 2 == 0 ? NULL : i % 3 ? shared : other, "%s", name);
  }
  size_t seen = 0;
  for (size_t i = 0; i < slots.capacity; i++) seen += pjrtd_slots_at(&slots, i) != NULL;
  cr_assert_eq(seen, COUNT / 2);
  release(shared);
  release(other);
}

Test(slots, are_bounded_and_have_names) {
  pjrtd_buffer *buffer = ready();
  char longest[PJRTD_MAX_SLOT_NAME + 2];
  memset(longest, 'x', sizeof longest);
  longest[PJRTD_MAX_SLOT_NAME] = '\0';
  ASSERT_OK(pjrtd_slots_bind(&slots, longest, buffer, NULL, 1));
  ASSERT_FAILS(pjrtd_slots_bind(&slots, "another", buffer, NULL, 1), PJRTD_CODE_RESOURCE_EXHAUSTED,
               "the most it may have");
  ASSERT_OK(pjrtd_slots_bind(&slots, longest, buffer, NULL, 1));
  longest[PJRTD_MAX_SLOT_NAME] = 'x';
  longest[PJRTD_MAX_SLOT_NAME + 1] = '\0';
  ASSERT_FAILS(pjrtd_slots_bind(&slots, longest, buffer, NULL, 9), PJRTD_CODE_INVALID_ARGUMENT, "this one 256");
  ASSERT_FAILS(pjrtd_slots_bind(&slots, "a\xff", buffer, NULL, 9), PJRTD_CODE_INVALID_ARGUMENT, "byte 1");
  ASSERT_FAILS(pjrtd_slots_bind(&slots, "ab\n", buffer, NULL, 9), PJRTD_CODE_INVALID_ARGUMENT, "byte 2");
  ASSERT_OK(pjrtd_slots_bind(&slots, "\xc3\xa9", buffer, NULL, 9));
  ASSERT_FAILS(pjrtd_slots_bind(&slots, "", buffer, NULL, 9), PJRTD_CODE_INVALID_ARGUMENT, "this one 0");
  release(buffer);
}

Test(slots, have_the_new_value_at_once_and_the_old_one_again_after_a_failed_step) {
  pjrtd_buffer *old = put("theta", ready()), *new = feed("theta", pending());
  cr_assert_eq(pjrtd_slots_find(&slots, "theta"), new, "later calls wait for it");
  fail(new);
  cr_assert_eq(pjrtd_slots_find(&slots, "theta"), old);
  new = feed("theta", pending());
  succeed(new);
  cr_assert_eq(pjrtd_slots_find(&slots, "theta"), new);
  wait_until_idle();
  cr_assert_eq(runtime->stats.buffers, 1, "the old value is gone once the new one is good");
}

Test(slots, go_back_to_the_last_good_value_after_a_chain_of_steps_that_fails) {
  pjrtd_buffer *old = put("theta", ready());
  pjrtd_buffer *first = feed("theta", pending()), *second = feed("theta", pending()), *third = feed("theta", pending());
  cr_assert_eq(pjrtd_slots_find(&slots, "theta"), third);
  fail(first);
  cr_assert_eq(pjrtd_slots_find(&slots, "theta"), third, "it may still come");
  fail(second);
  fail(third);
  cr_assert_eq(pjrtd_slots_find(&slots, "theta"), old);
}

Test(slots, are_poisoned_where_the_failed_step_consumed_the_old_value) {
  pjrtd_buffer *old = put("theta", ready()), *new = feed("theta", pending());
  old->resource.state = PJRTD_RESOURCE_CONSUMED;
  fail(new);
  pjrtd_buffer *value = pjrtd_slots_find(&slots, "theta");
  cr_assert_eq(value, new);
  ASSERT_FAILS(pjrtd_buffer_check_usable(value), PJRTD_CODE_ABORTED, "the step failed");
}

Test(slots, that_never_had_a_value_stay_poisoned) {
  pjrtd_buffer *new = feed("theta", pending());
  fail(new);
  cr_assert_eq(pjrtd_slots_find(&slots, "theta"), new);
}

Test(slots, go_back_to_what_an_earlier_step_of_a_failing_chain_made) {
  put("theta", ready());
  pjrtd_buffer *first = feed("theta", pending()), *second = feed("theta", pending());
  succeed(first);
  fail(second);
  cr_assert_eq(pjrtd_slots_find(&slots, "theta"), first);
  wait_until_idle();
  cr_assert_eq(runtime->stats.buffers, 1);
}

Test(slots, let_a_long_chain_of_failed_steps_go_without_recursion) {
  enum { STEPS = 200000 };
  pjrtd_buffer *old = put("theta", ready()), **steps = pjrtd_calloc(STEPS, sizeof *steps);
  for (int i = 0; i < STEPS; i++) steps[i] = feed("theta", pending());
  for (int i = 0; i < STEPS; i++) fail(steps[i]);
  cr_assert_eq(pjrtd_slots_find(&slots, "theta"), old);
  pjrtd_free(steps);
}

Test(slots, charge_the_session_for_what_has_a_name_once) {
  pjrtd_account account = {.references = 1};
  pjrtd_buffer *buffer = ready();
  ASSERT_OK(pjrtd_slots_bind(&slots, "a", buffer, &account, MOST));
  ASSERT_OK(pjrtd_slots_bind(&slots, "b", buffer, &account, MOST));
  cr_assert_eq(account.used[PJRTD_QUOTA_DEVICE_BYTES], buffer->bytes);
  pjrtd_slots_unbind(&slots, "a");
  cr_assert_eq(account.used[PJRTD_QUOTA_DEVICE_BYTES], buffer->bytes);
  pjrtd_slots_unbind(&slots, "b");
  cr_assert_eq(account.used[PJRTD_QUOTA_DEVICE_BYTES], 0);
  release(buffer);
}
