/* tests/fake_plugin: that it notices what it says it notices. A rule that is broken ends the process. */
#include <signal.h>

#include "plugin/executable_internal.h"
#include "plugin_fixture.h"

static const char add[] = "func.func @main(%a: tensor<2xf32> {tf.aliasing_output = 0 : i32}) -> tensor<2xf32> {\n}\n";

static void open_fake(void) {
  const char *folder = getenv("PJRTD_STUB_PLUGINS");
  if (!folder)
    cr_assert_fail("PJRTD_STUB_PLUGINS is not set: it names the folder of the stub plugins (run through ctest)");
  char path[4096];
  snprintf(path, sizeof path, "%s/../fake_plugin.so", folder);
  ASSERT_OK(pjrtd_plugin_load(path, &plugin));
  ASSERT_OK(pjrtd_client_create(plugin, NULL, 0, &client));
}

TestSuite(fake_plugin, .init = open_fake);

static pjrtd_device_buffer *pair(void) {
  return upload(TYPE(F32, 2), (float[]){1, 2});
}

Test(fake_plugin, adds_and_lets_go_where_all_rules_are_kept) {
  pjrtd_executable *executable = compile(add);
  pjrtd_device_buffer *argument = pair(), *output;
  ASSERT_OK(run(executable, &argument, 1, &output));
  float values[2];
  read_all(output, values, sizeof values);
  cr_assert_eq(values[0], 2);
  cr_assert_eq(values[1], 4);
  cr_assert(pjrtd_device_buffer_is_deleted(argument));
  pjrtd_device_buffer_destroy(argument);
  pjrtd_device_buffer_destroy(output);
  pjrtd_executable_destroy(executable);
  close_client();
}

Test(fake_plugin, misses_a_buffer_when_the_client_goes, .signal = SIGABRT) {
  cr_assert_not_null(pair());
  close_client();
}

Test(fake_plugin, misses_an_executable_when_the_client_goes, .signal = SIGABRT) {
  cr_assert_not_null(compile(add));
  close_client();
}

Test(fake_plugin, misses_an_error_when_the_client_goes, .signal = SIGABRT) {
  PJRT_Program program = {
      .struct_size = PJRT_Program_STRUCT_SIZE, .code = "junk", .code_size = 4, .format = "mlir", .format_size = 4};
  PJRTD_ARGS(Client_Compile, args, .client = client->handle, .program = &program);
  cr_assert_not_null(plugin->api.PJRT_Client_Compile(&args));
  close_client();
}

Test(fake_plugin, notices_a_second_destroy, .signal = SIGABRT) {
  PJRTD_ARGS(Buffer_Destroy, args, .buffer = pair()->handle);
  cr_assert_null(plugin->api.PJRT_Buffer_Destroy(&args));
  plugin->api.PJRT_Buffer_Destroy(&args);
}

Test(fake_plugin, notices_a_use_after_the_end, .signal = SIGABRT) {
  pjrtd_device_buffer *buffer = pair();
  PJRTD_ARGS(Buffer_Destroy, destroy, .buffer = buffer->handle);
  cr_assert_null(plugin->api.PJRT_Buffer_Destroy(&destroy));
  PJRTD_ARGS(Buffer_IsDeleted, args, .buffer = buffer->handle);
  plugin->api.PJRT_Buffer_IsDeleted(&args);
}

Test(fake_plugin, notices_a_donated_argument_that_comes_again, .signal = SIGABRT) {
  pjrtd_executable *executable = compile(add);
  pjrtd_device_buffer *argument = pair(), *output;
  ASSERT_OK(run(executable, &argument, 1, &output));
  pjrtd_status_destroy(run(executable, &argument, 1, &output));
}

Test(fake_plugin, notices_another_struct_size, .signal = SIGABRT) {
  PJRTD_ARGS(Client_PlatformName, args, .client = client->handle);
  args.struct_size -= 8;
  plugin->api.PJRT_Client_PlatformName(&args);
}

Test(fake_plugin, notices_a_call_after_the_client_is_gone, .signal = SIGABRT) {
  PJRT_Client *handle = client->handle;
  pjrtd_client_destroy(client);
  PJRTD_ARGS(Client_PlatformName, args, .client = handle);
  plugin->api.PJRT_Client_PlatformName(&args);
}

static void call_from_callback(PJRT_Error *error, void *user) {
  PJRTD_ARGS(Client_PlatformName, args, .client = client->handle);
  plugin->api.PJRT_Client_PlatformName(&args);
}

Test(fake_plugin, notices_a_call_from_a_callback, .signal = SIGABRT) {
  PJRTD_ARGS(Buffer_ReadyEvent, ready, .buffer = pair()->handle);
  cr_assert_null(plugin->api.PJRT_Buffer_ReadyEvent(&ready));
  PJRTD_ARGS(Event_OnReady, args, .event = ready.event, .callback = call_from_callback);
  plugin->api.PJRT_Event_OnReady(&args);
}
