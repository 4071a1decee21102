/* plugin/plugin_event.c. */
#include "fake_api.h"

typedef struct {
  int calls;
  pjrtd_code code;
} outcome;

static void on_done(void *user, pjrtd_status *error) {
  outcome *outcome = user;
  outcome->calls++;
  outcome->code = pjrtd_status_code(error);
  pjrtd_status_destroy(error);
}

Test(plugin_event, is_polled_without_being_taken_until_it_has_ended) {
  pjrtd_plugin fake = fake_plugin();
  struct PJRT_Event event = {.ready = false};
  pjrtd_status *status;
  cr_assert_not(pjrtd_event_poll(&fake, &event, &status));
  cr_assert_eq(event.destroyed, 0);
  event.ready = true;
  cr_assert(pjrtd_event_poll(&fake, &event, &status));
  cr_assert_null(status);
  cr_assert_eq(event.destroyed, 1);
  cr_assert(pjrtd_event_poll(&fake, NULL, &status));
  cr_assert_null(status);
}

Test(plugin_event, gives_its_error_when_awaited) {
  pjrtd_plugin fake = fake_plugin();
  fake_error error = {.code = PJRT_Error_Code_ABORTED, .message = "no"};
  struct PJRT_Event event = {.ready = true, .error = &error.base};
  PJRTD_AUTO(pjrtd_status) status = pjrtd_event_await(&fake, &event);
  cr_assert_eq(pjrtd_status_code(status), PJRTD_CODE_ABORTED);
  cr_assert_eq(event.destroyed, 1);
  cr_assert_eq(error.destroyed, 1);
  cr_assert_null(pjrtd_event_await(&fake, NULL));
}

Test(plugin_event, group_calls_done_once_after_the_last_with_the_first_error) {
  pjrtd_plugin fake = fake_plugin();
  fake_error errors[2] = {{.code = PJRT_Error_Code_INTERNAL, .message = "first"},
                          {.code = PJRT_Error_Code_ABORTED, .message = "second"}};
  struct PJRT_Event events[4] = {{.ready = true}, {0}, {.error = &errors[1].base}, {.error = &errors[0].base}};
  PJRT_Event *list[5] = {&events[0], &events[1], NULL, &events[2], &events[3]};
  outcome outcome = {0};
  pjrtd_event_group *group = pjrtd_event_group_create(&fake, 5, on_done, &outcome);
  pjrtd_event_group_start(group, list, 5);
  cr_assert_eq(outcome.calls, 0);
  end_event(&events[3]);
  end_event(&events[2]);
  cr_assert_eq(outcome.calls, 0);
  end_event(&events[1]);
  cr_assert_eq(outcome.calls, 1);
  cr_assert_eq(outcome.code, PJRTD_CODE_INTERNAL);
  for (int i = 0; i < 4; i++) cr_assert_eq(events[i].destroyed, 1);
  for (int i = 0; i < 2; i++) cr_assert_eq(errors[i].destroyed, 1);
}

Test(plugin_event, group_of_ended_events_calls_done_before_the_start_returns) {
  pjrtd_plugin fake = fake_plugin();
  struct PJRT_Event event = {.ready = true};
  PJRT_Event *list[1] = {&event};
  outcome outcome = {0};
  pjrtd_event_group_start(pjrtd_event_group_create(&fake, 1, on_done, &outcome), list, 1);
  cr_assert_eq(outcome.calls, 1);
  cr_assert_eq(outcome.code, PJRTD_CODE_OK);
  outcome.calls = 0;
  pjrtd_event_group_start(pjrtd_event_group_create(&fake, 0, on_done, &outcome), NULL, 0);
  cr_assert_eq(outcome.calls, 1);
}

static PJRT_Error *refuse_on_ready(PJRT_Event_OnReady_Args *args) {
  static fake_error error = {.code = PJRT_Error_Code_UNIMPLEMENTED, .message = "no call-backs"};
  return &error.base;
}

Test(plugin_event, group_waits_where_the_plugin_does_not_call_back) {
  pjrtd_plugin fake = fake_plugin();
  fake.api.PJRT_Event_OnReady = refuse_on_ready;
  fake_error error = {.code = PJRT_Error_Code_DATA_LOSS, .message = "gone"};
  struct PJRT_Event event = {.error = &error.base};
  PJRT_Event *list[1] = {&event};
  outcome outcome = {0};
  pjrtd_event_group_start(pjrtd_event_group_create(&fake, 1, on_done, &outcome), list, 1);
  cr_assert_eq(outcome.calls, 1);
  cr_assert_eq(outcome.code, PJRTD_CODE_DATA_LOSS);
  cr_assert_eq(event.destroyed, 1);
}

Test(plugin_event, one_event_calls_done_when_it_ends_or_is_left_to_the_caller) {
  pjrtd_plugin fake = fake_plugin();
  struct PJRT_Event late = {0}, ended = {.ready = true}, refused = {0};
  outcome outcome = {0};
  pjrtd_event_group *group = pjrtd_event_group_create(&fake, 1, on_done, &outcome);
  cr_assert_null(pjrtd_event_group_start_one(group, &late));
  cr_assert_eq(outcome.calls, 0);
  cr_assert_eq(atomic_load(&fake.callbacks_owed), 1);
  end_event(&late);
  cr_assert_eq(outcome.calls, 1);
  cr_assert_eq(late.destroyed, 1);
  cr_assert_null(pjrtd_event_group_start_one(pjrtd_event_group_create(&fake, 1, on_done, &outcome), &ended));
  cr_assert_eq(outcome.calls, 2);
  cr_assert_null(pjrtd_event_group_start_one(pjrtd_event_group_create(&fake, 1, on_done, &outcome), NULL));
  cr_assert_eq(outcome.calls, 3);
  fake.api.PJRT_Event_OnReady = refuse_on_ready;
  group = pjrtd_event_group_create(&fake, 1, on_done, &outcome);
  pjrtd_status *status = pjrtd_event_group_start_one(group, &refused);
  cr_assert_eq(pjrtd_status_code(status), PJRTD_CODE_UNIMPLEMENTED);
  cr_assert_eq(outcome.calls, 3);
  cr_assert_eq(refused.destroyed, 0);
  cr_assert_eq(atomic_load(&fake.callbacks_owed), 0);
  pjrtd_status_destroy(status);
  pjrtd_event_group_destroy(group);
}
