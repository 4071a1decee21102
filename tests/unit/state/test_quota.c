/* state/quota.c: what is charged to whom, and what is refused. */
#include "runtime_fixture.h"
#include "state/session.h"

static const pjrtd_identity ann = {.local = true, .uid = 1000, .pid = 1, .rights = PJRTD_RIGHT_USE};
static const pjrtd_identity ann_again = {.local = true, .uid = 1000, .pid = 2, .rights = PJRTD_RIGHT_USE};
static const pjrtd_identity bob = {.local = true, .uid = 1001, .pid = 3, .rights = PJRTD_RIGHT_USE};
static const pjrtd_identity remote = {.rights = PJRTD_RIGHT_USE};
static pjrtd_account *first, *second, *other;

static void begin(void) {
  open_bare();
  ASSERT_OK(pjrtd_account_create(runtime, &ann, &first));
  ASSERT_OK(pjrtd_account_create(runtime, &ann_again, &second));
  ASSERT_OK(pjrtd_account_create(runtime, &bob, &other));
}

static void end(void) {
  pjrtd_account_release(first);
  pjrtd_account_release(second);
  pjrtd_account_release(other);
  cr_assert_null(runtime->accounts, "the last session's going frees the identity's account");
  cr_assert_eq(runtime->reserved_bytes, 0);
  close_bare();
}

TestSuite(quota, .init = begin, .fini = end, .timeout = 60);

static pjrtd_status *check(pjrtd_account *account, uint64_t more) {
  return pjrtd_account_check(account, PJRTD_QUOTA_DEVICE_BYTES, more, "the upload");
}

Test(quota, has_one_account_for_all_sessions_of_an_identity) {
  cr_assert_eq(first->owner, second->owner);
  cr_assert_neq(first->owner, other->owner);
  pjrtd_account_charge(first, PJRTD_QUOTA_BUFFERS, 3);
  pjrtd_account_charge(second, PJRTD_QUOTA_BUFFERS, 4);
  cr_assert_eq(first->used[PJRTD_QUOTA_BUFFERS], 3);
  cr_assert_eq(first->owner->used[PJRTD_QUOTA_BUFFERS], 7);
  cr_assert_eq(other->owner->used[PJRTD_QUOTA_BUFFERS], 0);
  pjrtd_account_give_back(first, PJRTD_QUOTA_BUFFERS, 3);
  cr_assert_eq(first->used[PJRTD_QUOTA_BUFFERS], 0);
  cr_assert_eq(first->owner->used[PJRTD_QUOTA_BUFFERS], 4);
}

Test(quota, takes_all_that_come_over_tcp_for_one_identity_and_for_no_user) {
  pjrtd_account *a, *b;
  const pjrtd_identity local_root = {.local = true, .uid = 0};
  pjrtd_account *root;
  ASSERT_OK(pjrtd_account_create(runtime, &remote, &a));
  ASSERT_OK(pjrtd_account_create(runtime, &remote, &b));
  ASSERT_OK(pjrtd_account_create(runtime, &local_root, &root));
  cr_assert_eq(a->owner, b->owner);
  cr_assert_neq(a->owner, root->owner, "uid 0 of a remote identity is not root");
  pjrtd_account_release(a);
  pjrtd_account_release(b);
  pjrtd_account_release(root);
}

Test(quota, has_no_limit_where_none_is_set) {
  ASSERT_OK(check(first, UINT64_MAX));
  ASSERT_OK(pjrtd_account_check(first, PJRTD_QUOTA_CALLS, UINT64_MAX, "the call"));
}

Test(quota, lets_a_session_have_all_that_it_may_and_no_more) {
  settings.max_session_device_bytes = 100;
  pjrtd_account_charge(first, PJRTD_QUOTA_DEVICE_BYTES, 60);
  ASSERT_OK(check(first, 40));
  ASSERT_OK(check(first, 0));
  ASSERT_OK(check(second, 100));
  PJRTD_AUTO(pjrtd_status) refused = check(first, 41);
  cr_assert_eq(pjrtd_status_code(refused), PJRTD_CODE_RESOURCE_EXHAUSTED);
  cr_assert_str_eq(pjrtd_status_message(refused),
                   "the upload needs 41 B of device memory; the session has 60 B of the 100 B that it may");
  cr_assert_str_eq(pjrtd_status_hint(refused), "delete some, or raise max_session_device_bytes");
  const pjrtd_shortage *shortage = pjrtd_status_shortage(refused);
  cr_assert_str_eq(shortage->setting, "max_session_device_bytes");
  cr_assert_eq(shortage->used, 60);
  cr_assert_eq(shortage->allowed, 100);
  cr_assert_eq(shortage->needed, 41);
  ASSERT_FAILS(check(first, UINT64_MAX), PJRTD_CODE_RESOURCE_EXHAUSTED, "of the 100 B");
  settings.max_session_device_bytes = 50; /* a reload: it has more already */
  ASSERT_FAILS(check(first, 1), PJRTD_CODE_RESOURCE_EXHAUSTED, "the session has 60 B of the 50 B");
  settings.max_session_device_bytes = 0;
  pjrtd_account_give_back(first, PJRTD_QUOTA_DEVICE_BYTES, 60);
}

Test(quota, counts_an_identitys_sessions_together) {
  settings.max_identity_device_bytes = 100;
  pjrtd_account_charge(first, PJRTD_QUOTA_DEVICE_BYTES, 60);
  ASSERT_FAILS(
      check(second, 41), PJRTD_CODE_RESOURCE_EXHAUSTED,
      "the upload needs 41 B of device memory; uid 1000's sessions together have 60 B of the 100 B that they may");
  ASSERT_OK(check(second, 40));
  ASSERT_OK(check(other, 100));
  settings.max_identity_device_bytes = 0;
  settings.max_identity_programs = 1;
  pjrtd_account_charge(first, PJRTD_QUOTA_PROGRAMS, 1);
  ASSERT_FAILS(pjrtd_account_check(second, PJRTD_QUOTA_PROGRAMS, 1, "program"), PJRTD_CODE_RESOURCE_EXHAUSTED,
               "uid 1000's sessions together have 1 programs, the most that they may");
  settings.max_identity_programs = 0;
}

Test(quota, says_of_calls_when_to_try_again) {
  settings.max_identity_calls_in_flight = 2;
  pjrtd_account_charge(first, PJRTD_QUOTA_CALLS, 2);
  PJRTD_AUTO(pjrtd_status) refused = pjrtd_account_check(second, PJRTD_QUOTA_CALLS, 1, "the call");
  cr_assert_eq(pjrtd_status_retry_ns(refused), 1000000);
  cr_assert(strstr(pjrtd_status_hint(refused), "max_identity_calls_in_flight"));
  settings.max_identity_calls_in_flight = 0;
}

Test(quota, gives_what_there_is_room_for_once_to_one_of_two) {
  settings.max_session_device_bytes = 100;
  pjrtd_reservation one, two;
  ASSERT_OK(pjrtd_reservation_make(first, 60, 60, "one", &one));
  cr_assert_eq(runtime->reserved_bytes, 60);
  ASSERT_FAILS(pjrtd_reservation_make(first, 60, 60, "two", &two), PJRTD_CODE_RESOURCE_EXHAUSTED,
               "the session has 60 B, with what calls under way will take, of the 100 B");
  cr_assert_null(two.account);
  cr_assert_eq(runtime->reserved_bytes, 60, "what is refused reserves nothing");
  cr_assert_eq(first->owner->reserved_bytes, 60);
  pjrtd_reservation_end(&two);
  pjrtd_reservation_end(&one);
  pjrtd_reservation_end(&one);
  cr_assert_eq(first->reserved_bytes, 0);
  cr_assert_eq(first->owner->reserved_bytes, 0);
  ASSERT_OK(pjrtd_reservation_make(first, 60, 0, "two", &two));
  cr_assert_eq(runtime->reserved_bytes, 0);
  pjrtd_reservation_end(&two);
  settings.max_session_device_bytes = 0;
}

Test(quota, does_not_promise_the_same_memory_twice) {
  uint64_t most = runtime->memory_limit_bytes;
  pjrtd_reservation one, two;
  ASSERT_OK(pjrtd_reservation_make(first, 0, most / 2 + 1, "one", &one));
  ASSERT_FAILS(pjrtd_reservation_make(other, 0, most / 2 + 1, "two", &two), PJRTD_CODE_RESOURCE_EXHAUSTED, "two needs");
  pjrtd_reservation_end(&one);
  ASSERT_OK(pjrtd_reservation_make(other, 0, most / 2 + 1, "two", &two));
  pjrtd_reservation_end(&two);
}

Test(quota, keeps_the_account_of_a_session_that_is_gone_for_what_is_reserved) {
  pjrtd_account *gone;
  pjrtd_reservation reservation;
  ASSERT_OK(pjrtd_account_create(runtime, &remote, &gone));
  ASSERT_OK(pjrtd_reservation_make(gone, 7, 7, "it", &reservation));
  pjrtd_account_release(gone);
  cr_assert_eq(reservation.account->owner->reserved_bytes, 7);
  pjrtd_reservation_end(&reservation);
}

Test(quota, counts_a_session_once_it_holds_something_or_is_kept) {
  settings.max_identity_sessions = 1;
  pjrtd_session *one, *two;
  pjrtd_id_space space = {0};
  ASSERT_OK(pjrtd_session_create(runtime, &bob, &one));
  ASSERT_OK(pjrtd_session_create(runtime, &bob, &two));
  ASSERT_OK(pjrtd_session_check_new(two, &space, PJRTD_ID_BUFFER, 1));
  ASSERT_OK(pjrtd_session_keep(one, "kept", 1));
  ASSERT_OK(pjrtd_session_keep(one, "kept", 2));
  ASSERT_FAILS(pjrtd_session_check_new(two, &space, PJRTD_ID_BUFFER, 1), PJRTD_CODE_RESOURCE_EXHAUSTED,
               "uid 1001's sessions together have 1 sessions that hold something or are kept");
  ASSERT_FAILS(pjrtd_session_keep(two, "another", 1), PJRTD_CODE_RESOURCE_EXHAUSTED, "1 sessions");
  cr_assert_str_eq(two->name, "", "what is refused has no name");
  pjrtd_session_close(one, NULL, NULL);
  ASSERT_OK(pjrtd_session_check_new(two, &space, PJRTD_ID_BUFFER, 1));
  pjrtd_session_close(two, NULL, NULL);
  settings.max_identity_sessions = 0;
  while (runtime->doomed) turn();
}

Test(quota, charges_what_has_a_name_and_no_more) {
  pjrtd_session *session;
  pjrtd_id_space space = {0};
  ASSERT_OK(pjrtd_session_create(runtime, &bob, &session));
  pjrtd_account *owner = session->account->owner;
  pjrtd_buffer *buffer;
  ASSERT_OK(pjrtd_buffer_create(runtime, &buffer));
  ASSERT_OK(pjrtd_session_name_buffer(session, &space, 1, buffer));
  cr_assert_eq(owner->used[PJRTD_QUOTA_BUFFERS], 1);
  cr_assert_eq(owner->used[PJRTD_QUOTA_SESSIONS], 1);
  ASSERT_OK(pjrtd_session_forget(session, PJRTD_ID_BUFFER, (const uint64_t[]){1}, 1));
  cr_assert_eq(owner->used[PJRTD_QUOTA_BUFFERS], 0, "at once, though it is in use");
  pjrtd_resource_release(&buffer->resource);
  pjrtd_program *program;
  ASSERT_OK(pjrtd_program_create(runtime, &program));
  ASSERT_OK(pjrtd_session_name_program(session, &space, 1, program));
  pjrtd_resource_release(&program->resource);
  cr_assert_eq(owner->used[PJRTD_QUOTA_PROGRAMS], 1);
  pjrtd_session_close(session, NULL, NULL);
  cr_assert_eq(owner->used[PJRTD_QUOTA_SESSIONS], 0);
  while (runtime->doomed) turn();
  cr_assert_eq(owner->used[PJRTD_QUOTA_PROGRAMS], 0);
}

Test(quota, is_not_made_without_memory) {
  pjrtd_account *none = first;
  for (int at = 0; at < 2; at++) {
    pjrtd_alloc_fail_after(at);
    PJRTD_AUTO(pjrtd_status) status = pjrtd_account_create(runtime, &remote, &none);
    pjrtd_alloc_fail_after(-1);
    cr_assert_eq(pjrtd_status_code(status), PJRTD_CODE_RESOURCE_EXHAUSTED);
    cr_assert_null(none);
  }
}
