/* The plugin's client: its create options, and what it says of itself. Creation never on the loop. */
#include <stdio.h>
#include <string.h>

#include "plugin/device_internal.h"

#define MAX_CPU_DEVICES 1024

static const pjrtd_value *find_option(const pjrtd_value *options, size_t count, const char *name) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(options[i].name, name) == 0) return &options[i];
  return NULL;
}

/* What old plugins throw an uncaught exception on. */
static pjrtd_status *check_options(const pjrtd_value *options, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (find_option(options, i, options[i].name)) return PJRTD_INVALID("option %s is given twice", options[i].name);
    if (strcmp(options[i].name, "cpu_device_count") != 0) continue;
    if (options[i].kind != PJRTD_VALUE_INTEGER || options[i].integer < 1 || options[i].integer > MAX_CPU_DEVICES)
      return PJRTD_INVALID("option cpu_device_count must be an integer from 1 to %d", MAX_CPU_DEVICES);
  }
  return PJRTD_OK;
}

typedef struct {
  pjrtd_value *values; /* owned */
  size_t count;
  const char *tentative; /* left out at the second try, where the plugin does not know it */
} option_list;

static void option_list_deinit(option_list *list) {
  pjrtd_values_destroy(list->values, list->count);
}

static pjrtd_status *add_default(option_list *list, const char *name, pjrtd_value_kind kind, double value) {
  if (find_option(list->values, list->count, name)) return PJRTD_OK;
  pjrtd_value *option = &list->values[list->count];
  *option = (pjrtd_value){.name = pjrtd_strdup(name), .kind = kind};
  if (!option->name) return pjrtd_status_oom();
  if (kind == PJRTD_VALUE_REAL)
    option->real = value;
  else
    option->integer = (int64_t)value;
  list->count++;
  return PJRTD_OK;
}

static pjrtd_status *merge_options(const pjrtd_plugin *plugin, const pjrtd_value *options, size_t count,
                                   option_list *out) {
  out->values = pjrtd_calloc(count + 2, sizeof *out->values);
  if (!out->values) return pjrtd_status_oom();
  for (size_t i = 0; i < count; i++) {
    PJRTD_TRY(pjrtd_value_copy(&options[i], &out->values[i]));
    out->count++;
  }
  if (plugin->is_gpu) { /* other processes use the GPU too */
    PJRTD_TRY(add_default(out, "preallocate", PJRTD_VALUE_BOOLEAN, false));
    PJRTD_TRY(add_default(out, "memory_fraction", PJRTD_VALUE_REAL, 0.5));
  } else if (!plugin->is_tpu && !find_option(options, count, "asynchronous")) {
    PJRTD_TRY(add_default(out, "asynchronous", PJRTD_VALUE_BOOLEAN, false));
    out->tentative = "asynchronous";
  }
  return PJRTD_OK;
}

static pjrtd_status *call_create(pjrtd_client *client, const option_list *list) {
  PJRT_NamedValue *values = pjrtd_malloc(list->count * sizeof *values);
  if (!values) return pjrtd_status_oom();
  for (size_t i = 0; i < list->count; i++) values[i] = pjrtd_value_to_pjrt(&list->values[i]);
  PJRTD_ARGS(Client_Create, args, .create_options = values, .num_options = list->count);
  pjrtd_status *status = PJRTD_CALL(client->plugin, Client_Create, args);
  pjrtd_free(values);
  if (status) return status;
  client->handle = args.client;
  return client->handle ? PJRTD_OK : PJRTD_INTERNAL("the plugin made no client, and gave no error");
}

static pjrtd_status *create(pjrtd_client *client, option_list *list) {
  pjrtd_start_watch_step("its client was made");
  pjrtd_status *status = call_create(client, list);
  if (status && list->tentative &&
      (pjrtd_status_code(status) == PJRTD_CODE_INVALID_ARGUMENT ||
       pjrtd_status_code(status) == PJRTD_CODE_UNIMPLEMENTED)) {
    pjrtd_value_deinit(&list->values[--list->count]);
    pjrtd_status_destroy(status);
    status = call_create(client, list);
  }
  if (status)
    return pjrtd_status_with_hint(
        pjrtd_status_context(status, "creating the plugin's client"),
        "see whether the create options (--option) are right, and the device is there and free");
  client->create_options = list->values;
  client->info.create_options = list->values;
  client->info.num_create_options = list->count;
  *list = (option_list){0};
  return PJRTD_OK;
}

static pjrtd_status *read_platform(pjrtd_client *client) {
  PJRTD_ARGS(Client_PlatformName, name, .client = client->handle);
  PJRTD_TRY(PJRTD_CALL(client->plugin, Client_PlatformName, name), "reading the platform's name");
  PJRTD_TRY(pjrtd_plugin_copy_text(name.platform_name, name.platform_name_size, &client->platform_name));
  client->info.platform_name = client->platform_name;
  client->info.is_cpu = strcmp(client->platform_name, "cpu") == 0;

  PJRTD_ARGS(Client_PlatformVersion, version, .client = client->handle);
  if (PJRTD_HAS(client->plugin, Client_PlatformVersion))
    PJRTD_TRY(PJRTD_CALL(client->plugin, Client_PlatformVersion, version), "reading the platform's version");
  PJRTD_TRY(pjrtd_plugin_copy_text(version.platform_version, version.platform_version_size, &client->platform_version));
  client->info.platform_version = client->platform_version;

  PJRTD_ARGS(Client_ProcessIndex, index, .client = client->handle);
  if (PJRTD_HAS(client->plugin, Client_ProcessIndex))
    PJRTD_TRY(PJRTD_CALL(client->plugin, Client_ProcessIndex, index), "reading the process index");
  client->info.process_index = index.process_index;
  return PJRTD_OK;
}

/* From this version on XLA's CPU plugins refuse an option that they do not know; before, they ignored it silently. */
#define CHECKS_OPTIONS_MINOR 115

static pjrtd_status *check_ignored_options(const pjrtd_client *client, const pjrtd_value *options, size_t count) {
  const pjrtd_plugin_info *plugin = &client->plugin->info;
  if (!client->info.is_cpu || plugin->api_minor >= CHECKS_OPTIONS_MINOR ||
      !find_option(plugin->attributes, plugin->num_attributes, "xla_version"))
    return PJRTD_OK;
  for (size_t i = 0; i < count; i++)
    if (strcmp(options[i].name, "cpu_device_count") != 0 && strcmp(options[i].name, "asynchronous") != 0)
      return pjrtd_status_with_hint(
          PJRTD_INVALID("option %s: this CPU plugin (it speaks PJRT %d.%d) does not know it, and would ignore it",
                        options[i].name, plugin->api_major, plugin->api_minor),
          "CPU plugins of before PJRT 0.%d know cpu_device_count and asynchronous", CHECKS_OPTIONS_MINOR);
  return PJRTD_OK;
}

pjrtd_status *pjrtd_client_create(pjrtd_plugin *plugin, const pjrtd_value *options, size_t num_options,
                                  pjrtd_client **out_client) {
  *out_client = NULL;
  PJRTD_TRY(check_options(options, num_options));
  PJRTD_AUTO(pjrtd_client) client = pjrtd_calloc(1, sizeof *client);
  if (!client) return pjrtd_status_oom();
  client->plugin = plugin;
  pthread_mutex_init(&client->several, NULL);
  __attribute__((cleanup(option_list_deinit))) option_list list = {0};
  PJRTD_TRY(merge_options(plugin, options, num_options, &list));
  PJRTD_TRY(create(client, &list));
  PJRTD_TRY(read_platform(client));
  PJRTD_TRY(check_ignored_options(client, options, num_options));
  PJRTD_TRY(pjrtd_client_read_devices(client));
  if (client->info.num_addressable_devices == 0)
    return pjrtd_status_with_hint(
        pjrtd_status_make(PJRTD_CODE_FAILED_PRECONDITION,
                          "the plugin found no device: its client has %zu, of which this process can use none",
                          client->info.num_devices),
        "see whether the accelerator is there, its driver is loaded and this user may use it");
  *out_client = PJRTD_TAKE(client);
  return PJRTD_OK;
}

void pjrtd_client_destroy(pjrtd_client *client) {
  if (!client) return;
  if (client->handle) {
    PJRTD_ARGS(Client_Destroy, args, .client = client->handle);
    pjrtd_status_ignore(PJRTD_CALL(client->plugin, Client_Destroy, args));
  }
  pjrtd_client_deinit_devices(client);
  pjrtd_values_destroy(client->create_options, client->info.num_create_options);
  pjrtd_free(client->platform_name);
  pjrtd_free(client->platform_version);
  pthread_mutex_destroy(&client->several);
  pjrtd_free(client);
}

const pjrtd_client_info *pjrtd_client_get_info(const pjrtd_client *client) {
  return &client->info;
}

size_t pjrtd_client_callbacks_owed(const pjrtd_client *client) {
  return atomic_load(&client->plugin->callbacks_owed);
}

pjrtd_status *pjrtd_client_default_assignment(pjrtd_client *client, uint32_t num_replicas, uint32_t num_partitions,
                                              int *out_device_ids) {
  uint64_t count = (uint64_t)num_replicas * num_partitions;
  if (count == 0 || count > client->info.num_devices) /* the plugin aborts on the first and takes forever on others */
    return PJRTD_INVALID("%u replicas of %u partitions need from 1 to %zu devices", num_replicas, num_partitions,
                         client->info.num_devices);
  PJRTD_ARGS(Client_DefaultDeviceAssignment, args, .client = client->handle, .num_replicas = (int)num_replicas,
             .num_partitions = (int)num_partitions, .default_assignment_size = (size_t)count,
             .default_assignment = out_device_ids);
  return PJRTD_CALL(client->plugin, Client_DefaultDeviceAssignment, args);
}

/* The types that PJRT got after 0.57. A plugin of before aborts or crashes on them. */
static const struct {
  pjrtd_dtype dtype;
  int since_minor;
} newer_types[] = {
    {PJRTD_DTYPE_F4E2M1FN, 63}, {PJRTD_DTYPE_F8E8M0FNU, 63}, {PJRTD_DTYPE_S1, 94},
    {PJRTD_DTYPE_U1, 94},       {PJRTD_DTYPE_F6E2M3FN, 114}, {PJRTD_DTYPE_F6E3M2FN, 114},
};

pjrtd_status *pjrtd_client_check_dtype(const pjrtd_client *client, pjrtd_dtype dtype) {
  if (pjrtd_dtype_host_bytes(dtype) == 0)
    return dtype == PJRTD_DTYPE_TOKEN ? PJRTD_INVALID("element type token has no data")
                                      : PJRTD_INVALID("element type %d does not exist", (int)dtype);
  const pjrtd_plugin_info *plugin = &client->plugin->info;
  for (size_t i = 0; i < sizeof newer_types / sizeof *newer_types; i++)
    if (newer_types[i].dtype == dtype && plugin->api_minor < newer_types[i].since_minor)
      return pjrtd_status_make(PJRTD_CODE_UNIMPLEMENTED,
                               "element type %s came with PJRT 0.%d; this plugin speaks %d.%d", pjrtd_dtype_name(dtype),
                               newer_types[i].since_minor, plugin->api_major, plugin->api_minor);
  return PJRTD_OK;
}
