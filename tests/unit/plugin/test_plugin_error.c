/* plugin/plugin_error.c. */
#include "fake_api.h"

static pjrtd_status *take(fake_error *error) {
  pjrtd_plugin fake = fake_plugin();
  return pjrtd_plugin_take_error(&fake, &error->base);
}

Test(plugin_error, keeps_code_and_whole_message_and_frees_the_original) {
  char message[5000];
  memset(message, 'x', sizeof message);
  message[sizeof message - 1] = 0;
  fake_error error = {.code = PJRT_Error_Code_RESOURCE_EXHAUSTED, .message = message};
  PJRTD_AUTO(pjrtd_status) status = take(&error);
  cr_assert_eq(pjrtd_status_code(status), PJRTD_CODE_RESOURCE_EXHAUSTED);
  cr_assert_str_eq(pjrtd_status_message(status), message);
  cr_assert_eq(error.destroyed, 1);
}

Test(plugin_error, makes_a_code_that_pjrt_does_not_have_unknown) {
  static const int codes[] = {0, 17, -1, 9999};
  for (size_t i = 0; i < 4; i++) {
    fake_error error = {.code = codes[i], .message = "odd"};
    PJRTD_AUTO(pjrtd_status) status = take(&error);
    cr_assert_eq(pjrtd_status_code(status), PJRTD_CODE_UNKNOWN);
    cr_assert_str_eq(pjrtd_status_message(status), "odd");
  }
}

Test(plugin_error, bears_a_missing_message_and_a_missing_error) {
  fake_error error = {.code = PJRT_Error_Code_INTERNAL};
  PJRTD_AUTO(pjrtd_status) status = take(&error);
  cr_assert_eq(pjrtd_status_code(status), PJRTD_CODE_INTERNAL);
  cr_assert_str_eq(pjrtd_status_message(status), "the plugin gave no message");
  pjrtd_plugin fake = fake_plugin();
  cr_assert_null(pjrtd_plugin_take_error(&fake, NULL));
}

Test(plugin_error, names_function_and_both_versions_of_a_call_that_is_missing) {
  pjrtd_plugin fake = fake_plugin();
  PJRTD_ARGS(Buffer_Bitcast, args);
  PJRTD_AUTO(pjrtd_status) status = PJRTD_CALL(&fake, Buffer_Bitcast, args);
  cr_assert_eq(pjrtd_status_code(status), PJRTD_CODE_UNIMPLEMENTED);
  cr_assert_str_eq(pjrtd_status_message(status),
                   "this plugin has no PJRT_Buffer_Bitcast (the plugin speaks PJRT 0.99, pjrtd was built with 0.114)");
}
