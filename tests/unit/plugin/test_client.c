/* plugin/client.c, plugin/device.c. */
#include "plugin_fixture.h"

static pjrtd_value option(const char *text) {
  pjrtd_value value;
  ASSERT_OK(pjrtd_value_parse(text, &value));
  return value;
}

static const pjrtd_value *in_force(const char *name) {
  const pjrtd_client_info *info = pjrtd_client_get_info(client);
  for (size_t i = 0; i < info->num_create_options; i++)
    if (strcmp(info->create_options[i].name, name) == 0) return &info->create_options[i];
  return NULL;
}

Test(client, makes_the_number_of_devices_that_is_asked_for, .init = open_plugin, .fini = close_client) {
  pjrtd_value two = option("cpu_device_count=2");
  ASSERT_OK(pjrtd_client_create(plugin, &two, 1, &client));
  pjrtd_value_deinit(&two);
  const pjrtd_client_info *info = pjrtd_client_get_info(client);
  cr_assert_eq(info->num_devices, 2);
  cr_assert_eq(info->num_addressable_devices, 2);
  cr_assert_eq(in_force("cpu_device_count")->integer, 2);
}

Test(client, runs_programs_in_the_calling_thread_unless_told_otherwise, .init = open_plugin, .fini = close_client) {
  ASSERT_OK(pjrtd_client_create(plugin, NULL, 0, &client));
  cr_assert_eq(in_force("asynchronous")->kind, PJRTD_VALUE_BOOLEAN);
  cr_assert_eq(in_force("asynchronous")->integer, 0);
  pjrtd_client_destroy(client);
  pjrtd_value given = option("asynchronous=true");
  ASSERT_OK(pjrtd_client_create(plugin, &given, 1, &client));
  pjrtd_value_deinit(&given);
  cr_assert_eq(in_force("asynchronous")->integer, 1);
}

Test(client, refuses_options_that_would_end_the_process, .init = open_plugin, .fini = close_client) {
  const char *wrong[] = {"cpu_device_count=-1", "cpu_device_count=0", "cpu_device_count=1025", "cpu_device_count=two"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    pjrtd_value value = option(wrong[i]);
    ASSERT_FAILS(pjrtd_client_create(plugin, &value, 1, &client), PJRTD_CODE_INVALID_ARGUMENT, "from 1 to 1024");
    cr_assert_null(client);
    pjrtd_value_deinit(&value);
  }
  pjrtd_value twice[] = {option("cpu_device_count=1"), option("cpu_device_count=2")};
  ASSERT_FAILS(pjrtd_client_create(plugin, twice, 2, &client), PJRTD_CODE_INVALID_ARGUMENT, "given twice");
  pjrtd_value_deinit(&twice[0]);
  pjrtd_value_deinit(&twice[1]);
}

/* By the plugin, or where an old one would ignore it, by us. */
Test(client, refuses_an_option_that_the_plugin_does_not_know, .init = open_plugin, .fini = close_client) {
  pjrtd_value value = option("no_such_option=1");
  ASSERT_FAILS(pjrtd_client_create(plugin, &value, 1, &client), PJRTD_CODE_INVALID_ARGUMENT, "no_such_option");
  pjrtd_value_deinit(&value);
}

TestSuite(device, .init = open_client, .fini = close_client);

Test(device, has_ids_kinds_and_memories) {
  const pjrtd_client_info *info = pjrtd_client_get_info(client);
  cr_assert_str_eq(info->platform_name, "cpu");
  cr_assert(info->is_cpu);
  cr_assert_gt(strlen(info->platform_version), 0);
  for (size_t i = 0; i < info->num_devices; i++) {
    const pjrtd_device *device = &info->devices[i];
    cr_assert(device->addressable);
    cr_assert_lt(device->index, info->num_addressable_devices);
    cr_assert_eq(pjrtd_client_find_device(client, device->id), device);
    cr_assert_str_eq(device->kind, "cpu");
    cr_assert_gt(strlen(device->to_string), 0);
    cr_assert_geq(device->num_memories, 1);
    cr_assert_not_null(device->default_memory);
    bool listed = false;
    for (size_t j = 0; j < device->num_memories; j++) listed |= device->memories[j] == device->default_memory;
    cr_assert(listed);
  }
  cr_assert_null(pjrtd_client_find_device(client, 4242));
  cr_assert_null(pjrtd_client_find_device(client, -1));
}

Test(device, and_memory_spaces_name_each_other) {
  const pjrtd_client_info *info = pjrtd_client_get_info(client);
  cr_assert_geq(info->num_memories, info->num_devices);
  for (size_t i = 0; i < info->num_memories; i++) {
    const pjrtd_memory *memory = &info->memories[i];
    cr_assert_eq(pjrtd_client_find_memory(client, memory->id), memory);
    cr_assert_gt(strlen(memory->kind), 0);
    cr_assert_geq(memory->num_devices, 1);
    for (size_t j = 0; j < memory->num_devices; j++) {
      const pjrtd_device *device = pjrtd_client_find_device(client, memory->device_ids[j]);
      bool listed = false;
      for (size_t k = 0; k < device->num_memories; k++) listed |= device->memories[k] == memory;
      cr_assert(listed);
    }
  }
  cr_assert_null(pjrtd_client_find_memory(client, 4242));
}

Test(device, default_assignment_names_devices_that_exist) {
  int ids[4] = {-1, -1, -1, -1};
  ASSERT_OK(pjrtd_client_default_assignment(client, 2, 2, ids));
  for (int i = 0; i < 4; i++) {
    cr_assert_not_null(pjrtd_client_find_device(client, ids[i]));
    for (int j = 0; j < i; j++) cr_assert_neq(ids[i], ids[j]);
  }
}

Test(device, default_assignment_refuses_counts_that_would_end_the_process) {
  int ids[1];
  static const uint32_t wrong[][2] = {{0, 1}, {1, 0}, {5, 1}, {2, 3}, {UINT32_MAX, 1}, {65536, 65536}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    ASSERT_FAILS(pjrtd_client_default_assignment(client, wrong[i][0], wrong[i][1], ids), PJRTD_CODE_INVALID_ARGUMENT,
                 "need from 1 to 4 devices");
}

Test(device, memory_stats_are_numbers_or_not_implemented) {
  pjrtd_value *values;
  size_t count;
  PJRTD_AUTO(pjrtd_status) status = pjrtd_device_memory_stats(client, device_at(0), &values, &count);
  if (status) {
    cr_assert_eq(pjrtd_status_code(status), PJRTD_CODE_UNIMPLEMENTED);
    cr_assert_null(values);
    return;
  }
  cr_assert_geq(count, 1);
  cr_assert_str_eq(values[0].name, "bytes_in_use");
  for (size_t i = 0; i < count; i++) pjrtd_value_deinit(&values[i]);
  pjrtd_free(values);
}

Test(client, takes_the_element_types_of_the_plugins_version, .init = open_client, .fini = close_client) {
  int minor = pjrtd_plugin_get_info(plugin)->api_minor;
  for (int dtype = PJRTD_DTYPE_PRED; dtype < PJRTD_DTYPE_COUNT; dtype++) {
    if (dtype == PJRTD_DTYPE_TOKEN) continue;
    bool f6 = dtype == PJRTD_DTYPE_F6E2M3FN || dtype == PJRTD_DTYPE_F6E3M2FN;
    bool one_bit = dtype == PJRTD_DTYPE_S1 || dtype == PJRTD_DTYPE_U1;
    if ((f6 && minor < 114) || (one_bit && minor < 94))
      ASSERT_FAILS(pjrtd_client_check_dtype(client, dtype), PJRTD_CODE_UNIMPLEMENTED, "this plugin speaks 0.");
    else
      ASSERT_OK(pjrtd_client_check_dtype(client, dtype));
  }
  ASSERT_FAILS(pjrtd_client_check_dtype(client, PJRTD_DTYPE_TOKEN), PJRTD_CODE_INVALID_ARGUMENT, "token");
  ASSERT_FAILS(pjrtd_client_check_dtype(client, 0), PJRTD_CODE_INVALID_ARGUMENT, "0 does not exist");
  ASSERT_FAILS(pjrtd_client_check_dtype(client, 34), PJRTD_CODE_INVALID_ARGUMENT, "34 does not exist");
  ASSERT_FAILS(pjrtd_client_check_dtype(client, -1), PJRTD_CODE_INVALID_ARGUMENT, "-1 does not exist");
}

static pjrtd_status *create_and_destroy(void) {
  pjrtd_value value = {.name = "cpu_device_count", .kind = PJRTD_VALUE_INTEGER, .integer = 2};
  pjrtd_client *made;
  pjrtd_status *status = pjrtd_client_create(plugin, &value, 1, &made);
  if (status) cr_assert_null(made);
  pjrtd_client_destroy(made);
  return status;
}

Test(client, survives_each_failing_allocation, .init = open_plugin, .fini = close_client) {
  cr_assert_geq(walk_failures(create_and_destroy), 30);
}
