/* Errors in the caller's storage. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "failure.h"

Test(failure, fills_in_every_field) {
  pjrtc_error error = PJRTC_ERROR_INIT;
  pjrtc_failure *failure = pjrtc_failure_create(&(pjrtc_failure_parts){.code = PJRTC_NOT_FOUND,
                                                                       .call = 3,
                                                                       .origin_call = 2,
                                                                       .retry_after_ns = 9,
                                                                       .has_argument = true,
                                                                       .argument_index = 1,
                                                                       .message = "m",
                                                                       .hint = "h",
                                                                       .expected = "e",
                                                                       .actual = "a",
                                                                       .allocator = "x=1"});
  cr_assert_eq(pjrtc_failure_finish(failure, &error), PJRTC_NOT_FOUND);
  cr_assert_eq(error.code, PJRTC_NOT_FOUND);
  cr_assert_eq(error.call, 3);
  cr_assert_eq(error.origin_call, 2);
  cr_assert_eq(error.retry_after_ns, 9);
  cr_assert_eq(error.has_argument, 1);
  cr_assert_eq(error.argument_index, 1);
  cr_assert_str_eq(error.message, "m");
  cr_assert_str_eq(error.hint, "h");
  cr_assert_str_eq(error.argument_expected, "e");
  cr_assert_str_eq(error.argument_actual, "a");
  cr_assert_str_eq(error.allocator, "x=1");
  cr_assert_eq(error.message_bytes, 1);
}

Test(failure, cuts_the_message_between_characters_and_gives_it_whole_on_request) {
  char *text = malloc(4001), detail[5000];
  for (int i = 0; i < 4000; i += 2) memcpy(text + i, "\xc3\xa9", 2); /* e with an accent */
  text[4000] = '\0';
  pjrtc_error error = PJRTC_ERROR_INIT;
  error.detail = detail;
  error.detail_size = sizeof detail;
  pjrtc_failure_finish(pjrtc_failure_create(&(pjrtc_failure_parts){.code = PJRTC_UNKNOWN, .message = text}), &error);
  cr_assert_eq(strlen(error.message), 1022);
  cr_assert_eq(error.message_bytes, 4000);
  cr_assert_str_eq(detail, text);
  free(text);
}

Test(failure, leaves_an_error_alone_that_was_not_initialised) {
  pjrtc_error error;
  memset(&error, 0, sizeof error);
  pjrtc_failure *failure = pjrtc_failure_make(PJRTC_INTERNAL, NULL, "x");
  cr_assert_eq(pjrtc_failure_report(failure, &error), PJRTC_INTERNAL);
  cr_assert_eq(error.code, 0);
  cr_assert_eq(pjrtc_failure_finish(failure, NULL), PJRTC_INTERNAL);
}

Test(failure, of_memory_is_always_there) {
  pjrtc_error error = PJRTC_ERROR_INIT;
  pjrtc_failure *failure = pjrtc_failure_retain(pjrtc_failure_oom());
  pjrtc_failure_release(failure);
  cr_assert_eq(pjrtc_failure_finish(failure, &error), PJRTC_RESOURCE_EXHAUSTED);
  cr_assert_str_eq(error.message, "out of memory in the client");
}

Test(failure, codes_have_their_names) {
  cr_assert_str_eq(pjrtc_code_name(PJRTC_OK), "OK");
  cr_assert_str_eq(pjrtc_code_name(PJRTC_UNAUTHENTICATED), "UNAUTHENTICATED");
  cr_assert_str_eq(pjrtc_code_name(PJRTC_PENDING), "PENDING");
  cr_assert_str_eq(pjrtc_code_name((pjrtc_code)17), "UNKNOWN");
}
