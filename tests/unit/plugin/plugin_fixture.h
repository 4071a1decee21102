/* For the plugin layer's tests: the real plugin, opened inside the test. Criterion forks for each test, and a child of
 * a process with a loaded plugin hangs, so nothing here may run before that. */
#pragma once

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/plugin.h"

static pjrtd_plugin *plugin;
static pjrtd_client *client;

__attribute__((unused)) static const char *test_plugin_path(void) {
  const char *path = getenv("PJRTD_TEST_PLUGIN");
  if (!path || !*path)
    cr_assert_fail(
        "PJRTD_TEST_PLUGIN is not set: it names the PJRT plugin to test on (cmake -DPJRTD_TEST_PLUGIN=FILE)");
  return path;
}

#define ASSERT_OK(expression)                                                                                      \
  do {                                                                                                             \
    pjrtd_status *status_ = (expression);                                                                          \
    cr_assert_null(status_, "%s: %s", pjrtd_code_name(pjrtd_status_code(status_)), pjrtd_status_message(status_)); \
  } while (0)

/* The code, and a piece of the message. */
#define ASSERT_FAILS(expression, code_, piece)                                                               \
  do {                                                                                                       \
    PJRTD_AUTO(pjrtd_status) status_ = (expression);                                                         \
    cr_assert_eq(pjrtd_status_code(status_), (code_), "%s: %s", pjrtd_code_name(pjrtd_status_code(status_)), \
                 pjrtd_status_message(status_));                                                             \
    cr_assert(strstr(pjrtd_status_message(status_), (piece)), "%s", pjrtd_status_message(status_));          \
  } while (0)

__attribute__((unused)) static void open_plugin(void) {
  ASSERT_OK(pjrtd_plugin_load(test_plugin_path(), &plugin));
}

__attribute__((unused)) static void open_client(void) {
  open_plugin();
  ASSERT_OK(pjrtd_client_create(plugin, NULL, 0, &client));
}

__attribute__((unused)) static void close_client(void) {
  pjrtd_client_destroy(client);
  pjrtd_plugin_destroy(plugin);
  client = NULL;
  plugin = NULL;
}

/* Runs `attempt` again and again, each time with the next allocation failing, until it gets by without that one. The
 * attempt cleans up after itself and returns its status. */
__attribute__((unused)) static int walk_failures(pjrtd_status *(*attempt)(void)) {
  int failed = 0;
  for (int64_t successes = 0;; successes++) {
    pjrtd_alloc_fail_after(successes);
    pjrtd_status *status = attempt();
    int64_t asked = pjrtd_alloc_fail_after(-1);
    if (asked <= successes) {
      ASSERT_OK(status);
      return failed;
    }
    failed += status != NULL;
    pjrtd_status_destroy(status);
    cr_assert_lt(successes, 10000);
  }
}

__attribute__((unused)) static const pjrtd_device *device_at(size_t index) {
  const pjrtd_client_info *info = pjrtd_client_get_info(client);
  for (size_t i = 0; i < info->num_devices; i++)
    if (info->devices[i].index == index) return &info->devices[i];
  cr_assert_fail("there is no device %zu", index);
  return NULL;
}

#define TYPE(dtype_, ...)                                                                        \
  ((pjrtd_tensor_type){PJRTD_DTYPE_##dtype_, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), \
                       (int64_t[]){__VA_ARGS__}})
#define SCALAR(dtype_) ((pjrtd_tensor_type){PJRTD_DTYPE_##dtype_, 0, NULL})

__attribute__((unused)) static pjrtd_device_buffer *upload_on(const pjrtd_device *device, pjrtd_tensor_type type,
                                                              const void *data) {
  pjrtd_device_buffer *buffer;
  ASSERT_OK(pjrtd_device_buffer_from_host(client, data, &type, device, NULL, &buffer));
  return buffer;
}

__attribute__((unused)) static pjrtd_device_buffer *upload(pjrtd_tensor_type type, const void *data) {
  return upload_on(device_at(0), type, data);
}

__attribute__((unused)) static pjrtd_executable *compile_with(const char *code, const pjrtd_compile_options *options) {
  pjrtd_executable *executable;
  ASSERT_OK(pjrtd_executable_compile(client, code, strlen(code), options, &executable));
  return executable;
}

__attribute__((unused)) static pjrtd_executable *compile(const char *code) {
  return compile_with(code, NULL);
}

/* Runs and waits, whatever the platform does. */
__attribute__((unused)) static pjrtd_status *run(pjrtd_executable *executable, pjrtd_device_buffer *const *args,
                                                 size_t num_args, pjrtd_device_buffer **out_outputs) {
  pjrtd_execute_call call = {.args = args, .num_args = num_args};
  bool pending = true;
  pjrtd_status *status = pjrtd_executable_execute(executable, &call, out_outputs, &pending);
  cr_assert_not(pending, "without `done` an execution cannot be pending");
  return status;
}

__attribute__((unused)) static void read_all(pjrtd_device_buffer *buffer, void *out, uint64_t size_bytes) {
  ASSERT_OK(pjrtd_device_buffer_read(buffer, out, size_bytes));
}
