/* base/status.c. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"

Test(status, keeps_code_and_formatted_message) {
  PJRTD_AUTO(pjrtd_status) status = pjrtd_status_make(PJRTD_CODE_NOT_FOUND, "no buffer %d", 7);
  cr_assert_eq(pjrtd_status_code(status), PJRTD_CODE_NOT_FOUND);
  cr_assert_str_eq(pjrtd_status_message(status), "no buffer 7");
  cr_assert_str_eq(pjrtd_status_hint(status), "");
  cr_assert_not(pjrtd_status_has_argument(status));
  cr_assert_eq(pjrtd_status_origin(status), 0);
  cr_assert_eq(pjrtd_status_retry_ns(status), 0);
}

Test(status, reads_success_as_ok_and_empty) {
  cr_assert_eq(pjrtd_status_code(PJRTD_OK), PJRTD_CODE_OK);
  cr_assert_str_eq(pjrtd_status_message(PJRTD_OK), "");
  cr_assert_str_eq(pjrtd_status_hint(PJRTD_OK), "");
  cr_assert_not(pjrtd_status_has_argument(PJRTD_OK));
  pjrtd_status_destroy(PJRTD_OK);
}

Test(status, leaves_success_alone_whatever_is_added) {
  cr_assert_null(pjrtd_status_context(PJRTD_OK, "c"));
  cr_assert_null(pjrtd_status_with_hint(PJRTD_OK, "h"));
  cr_assert_null(pjrtd_status_with_code(PJRTD_OK, PJRTD_CODE_INTERNAL));
  cr_assert_null(pjrtd_status_with_argument(PJRTD_OK, 1, "e", "a"));
  cr_assert_null(pjrtd_status_with_origin(PJRTD_OK, 1));
  cr_assert_null(pjrtd_status_with_retry(PJRTD_OK, 1));
  cr_assert_null(pjrtd_status_append(PJRTD_OK, "more"));
  cr_assert_null(pjrtd_status_add_hint(PJRTD_OK, "h"));
  cr_assert_null(pjrtd_status_with_shortage(PJRTD_OK, &(pjrtd_shortage){.used = 1}));
  cr_assert_null(pjrtd_status_of_memory(PJRTD_OK));
  cr_assert_not(pjrtd_status_is_of_memory(PJRTD_OK));
  cr_assert_null(pjrtd_status_shortage(PJRTD_OK));
  cr_assert_null(pjrtd_status_retain(PJRTD_OK));
}

Test(status, keeps_a_message_of_any_length) {
  static char text[100000];
  memset(text, 'x', sizeof text);
  PJRTD_AUTO(pjrtd_status) status = pjrtd_status_make_n(PJRTD_CODE_INTERNAL, text, sizeof text);
  cr_assert_eq(strlen(pjrtd_status_message(status)), sizeof text);
  PJRTD_AUTO(pjrtd_status) formatted = pjrtd_status_make(PJRTD_CODE_INTERNAL, "%.*s!", (int)sizeof text, text);
  cr_assert_eq(strlen(pjrtd_status_message(formatted)), sizeof text + 1);
}

Test(status, puts_context_in_front_and_keeps_the_rest) {
  pjrtd_status *status = pjrtd_status_with_hint(PJRTD_INVALID("bad"), "good is %d", 1);
  status = pjrtd_status_with_argument(status, 3, "f32[2]", "f32[3]");
  status = pjrtd_status_context(pjrtd_status_context(status, "inner %d", 1), "outer");
  cr_assert_str_eq(pjrtd_status_message(status), "outer: inner 1: bad");
  cr_assert_eq(pjrtd_status_code(status), PJRTD_CODE_INVALID_ARGUMENT);
  cr_assert_str_eq(pjrtd_status_hint(status), "good is 1");
  cr_assert(pjrtd_status_has_argument(status));
  cr_assert_eq(pjrtd_status_argument_index(status), 3);
  cr_assert_str_eq(pjrtd_status_argument_expected(status), "f32[2]");
  cr_assert_str_eq(pjrtd_status_argument_actual(status), "f32[3]");
  pjrtd_status_destroy(status);
}

Test(status, replaces_code_hint_origin_and_retry) {
  pjrtd_status *status = pjrtd_status_with_hint(PJRTD_INTERNAL("x"), "first");
  status = pjrtd_status_with_hint(status, "second");
  status = pjrtd_status_with_code(status, PJRTD_CODE_UNAVAILABLE);
  status = pjrtd_status_with_origin(status, UINT64_MAX);
  status = pjrtd_status_with_retry(status, 5000000000);
  cr_assert_str_eq(pjrtd_status_hint(status), "second");
  cr_assert_eq(pjrtd_status_code(status), PJRTD_CODE_UNAVAILABLE);
  cr_assert_eq(pjrtd_status_origin(status), UINT64_MAX);
  cr_assert_eq(pjrtd_status_retry_ns(status), 5000000000);
  pjrtd_status_destroy(status);
}

Test(status, changes_a_copy_where_it_is_shared) {
  PJRTD_AUTO(pjrtd_status) first = pjrtd_status_with_hint(PJRTD_INTERNAL("x"), "h");
  pjrtd_status *second = pjrtd_status_context(pjrtd_status_retain(first), "later");
  cr_assert_neq(first, second);
  cr_assert_str_eq(pjrtd_status_message(first), "x");
  cr_assert_str_eq(pjrtd_status_message(second), "later: x");
  cr_assert_str_eq(pjrtd_status_hint(second), "h");
  pjrtd_status_destroy(second);
  cr_assert_str_eq(pjrtd_status_message(first), "x", "the first still holds its own");
}

Test(status, changes_itself_where_nobody_shares_it) {
  pjrtd_status *status = PJRTD_INTERNAL("x");
  cr_assert_eq(pjrtd_status_context(status, "c"), status);
  pjrtd_status_destroy(status);
}

static void *retain_and_destroy(void *shared) {
  for (int i = 0; i < 20000; i++) pjrtd_status_destroy(pjrtd_status_retain(shared));
  return NULL;
}

Test(status, is_counted_by_several_threads) {
  pjrtd_status *status = PJRTD_INTERNAL("x");
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, retain_and_destroy, status);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  /* Still ours alone: a change makes no copy. */
  cr_assert_eq(pjrtd_status_with_code(status, PJRTD_CODE_ABORTED), status);
  pjrtd_status_destroy(status);
}

Test(status, gives_each_errno_a_code_that_says_what_to_do) {
  static const struct {
    int error;
    pjrtd_code code;
  } pairs[] = {{ENOENT, PJRTD_CODE_NOT_FOUND},          {EACCES, PJRTD_CODE_PERMISSION_DENIED},
               {ENOMEM, PJRTD_CODE_RESOURCE_EXHAUSTED}, {EMFILE, PJRTD_CODE_RESOURCE_EXHAUSTED},
               {EADDRINUSE, PJRTD_CODE_ALREADY_EXISTS}, {ENAMETOOLONG, PJRTD_CODE_INVALID_ARGUMENT},
               {ECONNREFUSED, PJRTD_CODE_UNAVAILABLE},  {EIO, PJRTD_CODE_INTERNAL}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    PJRTD_AUTO(pjrtd_status) status = pjrtd_status_from_errno(pairs[i].error, "opening %s", "/x");
    char expected[128];
    snprintf(expected, sizeof expected, "opening /x: %s", strerror(pairs[i].error));
    cr_assert_str_eq(pjrtd_status_message(status), expected);
    cr_assert_eq(pjrtd_status_code(status), pairs[i].code, "%s", expected);
  }
}

Test(status, names_every_code_as_the_protocol_does) {
  cr_assert_str_eq(pjrtd_code_name(PJRTD_CODE_OK), "OK");
  cr_assert_str_eq(pjrtd_code_name(PJRTD_CODE_CANCELLED), "CANCELLED");
  cr_assert_str_eq(pjrtd_code_name(PJRTD_CODE_NOT_FOUND), "NOT_FOUND");
  cr_assert_str_eq(pjrtd_code_name(PJRTD_CODE_FAILED_PRECONDITION), "FAILED_PRECONDITION");
  cr_assert_str_eq(pjrtd_code_name(PJRTD_CODE_UNAUTHENTICATED), "UNAUTHENTICATED");
  cr_assert_str_eq(pjrtd_code_name((pjrtd_code)17), "UNKNOWN");
  cr_assert_str_eq(pjrtd_code_name((pjrtd_code)-1), "UNKNOWN");
}

Test(status, says_out_of_memory_without_any) {
  pjrtd_alloc_fail_after(0);
  pjrtd_status *status = pjrtd_status_make(PJRTD_CODE_NOT_FOUND, "no buffer %d", 7);
  cr_assert_eq(status, pjrtd_status_oom());
  cr_assert_eq(pjrtd_status_code(status), PJRTD_CODE_RESOURCE_EXHAUSTED);
  cr_assert_str_eq(pjrtd_status_message(status), "out of memory");
  pjrtd_alloc_fail_after(0);
  status = pjrtd_status_context(status, "c");
  cr_assert_eq(pjrtd_status_code(status), PJRTD_CODE_RESOURCE_EXHAUSTED);
  pjrtd_status_destroy(status);
}

Test(status, gains_context_on_the_static_one_in_a_copy) {
  PJRTD_AUTO(pjrtd_status) status = pjrtd_status_context(pjrtd_status_oom(), "making a lane");
  cr_assert_str_eq(pjrtd_status_message(status), "making a lane: out of memory");
  cr_assert_str_eq(pjrtd_status_message(pjrtd_status_oom()), "out of memory");
}

/* Everything that can be added, to one that is shared. */
static pjrtd_status *decorate(pjrtd_status *shared) {
  pjrtd_status *status = pjrtd_status_context(pjrtd_status_retain(shared), "c");
  status = pjrtd_status_with_hint(status, "h2");
  status = pjrtd_status_with_argument(status, 1, "e", "a");
  return pjrtd_status_with_origin(status, 4);
}

Test(status, survives_each_allocation_failing) {
  PJRTD_AUTO(pjrtd_status)
  shared = pjrtd_status_with_argument(pjrtd_status_with_hint(PJRTD_INVALID("x"), "h"), 2, "e", "a");
  pjrtd_alloc_fail_after(-1);
  pjrtd_status_destroy(decorate(shared));
  int64_t needed = 20;
  for (int64_t successes = 0; successes < needed; successes++) {
    pjrtd_alloc_fail_after(successes);
    pjrtd_status *status = decorate(shared);
    pjrtd_alloc_fail_after(-1);
    cr_assert_eq(pjrtd_status_code(status), PJRTD_CODE_INVALID_ARGUMENT);
    const char *message = pjrtd_status_message(status);
    cr_assert(!strcmp(message, "x") || !strcmp(message, "c: x"), "%s", message);
    pjrtd_status_destroy(status);
  }
  cr_assert_str_eq(pjrtd_status_message(shared), "x");
  cr_assert_str_eq(pjrtd_status_hint(shared), "h");
}

static pjrtd_status *try_it(pjrtd_status *given, bool with_context, bool *out_passed) {
  *out_passed = false;
  if (with_context)
    PJRTD_TRY(given, "trying");
  else
    PJRTD_TRY(given);
  *out_passed = true;
  return PJRTD_OK;
}

Test(status, returns_early_from_try_with_its_context) {
  bool passed;
  PJRTD_AUTO(pjrtd_status) plain = try_it(PJRTD_INTERNAL("x"), false, &passed);
  cr_assert_not(passed);
  cr_assert_str_eq(pjrtd_status_message(plain), "x");
  PJRTD_AUTO(pjrtd_status) named = try_it(PJRTD_INTERNAL("x"), true, &passed);
  cr_assert_not(passed);
  cr_assert_str_eq(pjrtd_status_message(named), "trying: x");
  cr_assert_null(try_it(PJRTD_OK, true, &passed));
  cr_assert(passed);
}

Test(status, goes_on_behind_its_message_and_beside_its_hint) {
  PJRTD_AUTO(pjrtd_status) status = pjrtd_status_append(PJRTD_INTERNAL("100%%"), "\n%d more", 3);
  cr_assert_str_eq(pjrtd_status_message(status), "100%\n3 more");
  status = pjrtd_status_add_hint(status, "first");
  status = pjrtd_status_add_hint(status, "%s", "then");
  cr_assert_str_eq(pjrtd_status_hint(status), "first; then");
}

Test(status, carries_a_copy_of_what_ran_short) {
  pjrtd_shortage shortage = {.setting = "max_session_buffers", .used = 3, .allowed = 3, .needed = 1, .num_biggest = 1};
  shortage.biggest[0] = (pjrtd_buffer_detail){.buffer = 7, .bytes = 8};
  pjrtd_status *status = pjrtd_status_with_shortage(PJRTD_INTERNAL("no room"), &shortage);
  shortage.biggest[0].buffer = 0;
  pjrtd_status *shared = pjrtd_status_retain(status);
  status = pjrtd_status_of_memory(pjrtd_status_with_origin(status, 9)); /* a copy: the other is not changed */
  cr_assert_not(pjrtd_status_is_of_memory(shared));
  cr_assert(pjrtd_status_is_of_memory(status));
  cr_assert_neq(pjrtd_status_shortage(status), pjrtd_status_shortage(shared));
  for (int i = 0; i < 2; i++) {
    const pjrtd_shortage *of = pjrtd_status_shortage(i ? shared : status);
    cr_assert_str_eq(of->setting, "max_session_buffers");
    cr_assert_eq(of->biggest[0].buffer, 7);
  }
  pjrtd_status_destroy(shared);
  pjrtd_status_destroy(status);
}

Test(status, stays_as_it_was_where_there_is_no_memory_for_more) {
  const pjrtd_shortage shortage = {.used = 1};
  pjrtd_status *status = pjrtd_status_with_hint(PJRTD_INTERNAL("no room"), "hint");
  for (int at = 0; at < 2; at++) {
    pjrtd_alloc_fail_after(at);
    status = pjrtd_status_append(status, "more");
    pjrtd_alloc_fail_after(at);
    status = pjrtd_status_add_hint(status, "more");
  }
  pjrtd_alloc_fail_after(0);
  status = pjrtd_status_with_shortage(status, &shortage);
  pjrtd_alloc_fail_after(-1);
  cr_assert_str_eq(pjrtd_status_message(status), "no room");
  cr_assert_str_eq(pjrtd_status_hint(status), "hint");
  cr_assert_null(pjrtd_status_shortage(status));
  pjrtd_status_destroy(status);
}
