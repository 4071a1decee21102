/* Devices and memory spaces, read once when the client is made; then the tables are only read, from any thread. */
#include <stdio.h>
#include <string.h>

#include "plugin/device_internal.h"

/* Calls a function that gives one text, into `out`; "" where the plugin does not have it. */
#define READ_TEXT(plugin, name, subject_field, subject, text_field, size_field, out)                 \
  do {                                                                                               \
    PJRTD_ARGS(name, text_args_, .subject_field = (subject));                                        \
    if (PJRTD_HAS(plugin, name)) PJRTD_TRY(PJRTD_CALL(plugin, name, text_args_));                    \
    PJRTD_TRY(pjrtd_plugin_copy_text(text_args_.text_field, text_args_.size_field, (char **)(out))); \
  } while (0)

/* Of devices, or of memory spaces. */
#define MAX_LIST 65536

pjrtd_status *pjrtd_plugin_check_list(const void *list, size_t count, const char *what) {
  if (count > MAX_LIST)
    return PJRTD_INTERNAL("the plugin says that it has %zu %s; over %d cannot be", count, what, MAX_LIST);
  if (count && !list)
    return PJRTD_INTERNAL("the plugin says that it has %zu %s, but gives no list of them", count, what);
  return PJRTD_OK;
}

static pjrtd_status *read_memory(pjrtd_client *client, PJRT_Memory *handle, pjrtd_memory *memory) {
  const pjrtd_plugin *plugin = client->plugin;
  memory->handle = handle;
  PJRTD_ARGS(Memory_Id, id, .memory = handle);
  PJRTD_TRY(PJRTD_CALL(plugin, Memory_Id, id));
  memory->id = id.id;
  PJRTD_ARGS(Memory_Kind_Id, kind_id, .memory = handle);
  if (PJRTD_HAS(plugin, Memory_Kind_Id)) PJRTD_TRY(PJRTD_CALL(plugin, Memory_Kind_Id, kind_id));
  memory->kind_id = kind_id.kind_id;
  READ_TEXT(plugin, Memory_Kind, memory, handle, kind, kind_size, &memory->kind);
  READ_TEXT(plugin, Memory_DebugString, memory, handle, debug_string, debug_string_size, &memory->debug_string);
  READ_TEXT(plugin, Memory_ToString, memory, handle, to_string, to_string_size, &memory->to_string);
  return PJRTD_OK;
}

static pjrtd_status *read_memories(pjrtd_client *client) {
  PJRTD_ARGS(Client_AddressableMemories, args, .client = client->handle);
  if (PJRTD_HAS(client->plugin, Client_AddressableMemories)) {
    pjrtd_status *status = PJRTD_CALL(client->plugin, Client_AddressableMemories, args);
    if (status && pjrtd_status_code(status) != PJRTD_CODE_UNIMPLEMENTED) return status;
    if (status) args.num_addressable_memories = 0;
    pjrtd_status_destroy(status);
  }
  PJRTD_TRY(pjrtd_plugin_check_list(args.addressable_memories, args.num_addressable_memories, "memory spaces"));
  client->memories = pjrtd_calloc(args.num_addressable_memories, sizeof *client->memories);
  if (!client->memories) return pjrtd_status_oom();
  client->info.memories = client->memories;
  for (size_t i = 0; i < args.num_addressable_memories; i++) {
    client->info.num_memories++;
    PJRTD_TRY(read_memory(client, args.addressable_memories[i], &client->memories[i]));
  }
  return PJRTD_OK;
}

/* Which devices can address a memory space: by the devices' own lists, which every plugin has, once they are read. */
static pjrtd_status *link_memories(pjrtd_client *client) {
  for (size_t i = 0; i < client->info.num_memories; i++) {
    pjrtd_memory *memory = &client->memories[i];
    int *ids = pjrtd_malloc(client->info.num_devices * sizeof *ids);
    if (!ids) return pjrtd_status_oom();
    memory->device_ids = ids;
    for (size_t j = 0; j < client->info.num_devices; j++)
      for (size_t k = 0; k < client->devices[j].num_memories; k++)
        if (client->devices[j].memories[k] == memory) ids[memory->num_devices++] = client->devices[j].id;
  }
  return PJRTD_OK;
}

static pjrtd_status *read_device_memories(pjrtd_client *client, pjrtd_device *device) {
  const pjrtd_plugin *plugin = client->plugin;
  PJRTD_ARGS(Device_AddressableMemories, args, .device = device->handle);
  if (client->info.num_memories && PJRTD_HAS(plugin, Device_AddressableMemories))
    PJRTD_TRY(PJRTD_CALL(plugin, Device_AddressableMemories, args));
  PJRTD_TRY(pjrtd_plugin_check_list(args.memories, args.num_memories, "memory spaces"));
  const pjrtd_memory **memories = pjrtd_calloc(args.num_memories, sizeof *memories);
  if (!memories) return pjrtd_status_oom();
  device->memories = memories;
  for (size_t i = 0; i < args.num_memories; i++) {
    const pjrtd_memory *memory = pjrtd_client_memory_of(client, args.memories[i]);
    if (memory) memories[device->num_memories++] = memory;
  }
  if (client->info.num_memories && PJRTD_HAS(plugin, Device_DefaultMemory)) {
    PJRTD_ARGS(Device_DefaultMemory, fallback, .device = device->handle);
    pjrtd_status *none = PJRTD_CALL(plugin, Device_DefaultMemory, fallback);
    device->default_memory = none ? NULL : pjrtd_client_memory_of(client, fallback.memory);
    pjrtd_status_ignore(none);
  }
  return PJRTD_OK;
}

static pjrtd_status *read_description(pjrtd_client *client, pjrtd_device *device) {
  const pjrtd_plugin *plugin = client->plugin;
  PJRTD_ARGS(Device_GetDescription, get, .device = device->handle);
  PJRTD_TRY(PJRTD_CALL(plugin, Device_GetDescription, get));
  PJRT_DeviceDescription *description = get.device_description;
  if (!description) return PJRTD_INTERNAL("the plugin gives no description of a device");
  PJRTD_ARGS(DeviceDescription_Id, id, .device_description = description);
  PJRTD_TRY(PJRTD_CALL(plugin, DeviceDescription_Id, id));
  device->id = id.id;
  PJRTD_ARGS(DeviceDescription_ProcessIndex, index, .device_description = description);
  if (PJRTD_HAS(plugin, DeviceDescription_ProcessIndex))
    PJRTD_TRY(PJRTD_CALL(plugin, DeviceDescription_ProcessIndex, index));
  device->process_index = index.process_index;
  READ_TEXT(plugin, DeviceDescription_Kind, device_description, description, device_kind, device_kind_size,
            &device->kind);
  READ_TEXT(plugin, DeviceDescription_DebugString, device_description, description, debug_string, debug_string_size,
            &device->debug_string);
  READ_TEXT(plugin, DeviceDescription_ToString, device_description, description, to_string, to_string_size,
            &device->to_string);
  PJRTD_ARGS(DeviceDescription_Attributes, attributes, .device_description = description);
  if (PJRTD_HAS(plugin, DeviceDescription_Attributes))
    PJRTD_TRY(PJRTD_CALL(plugin, DeviceDescription_Attributes, attributes));
  pjrtd_value *values;
  PJRTD_TRY(pjrtd_values_from_pjrt(attributes.attributes, attributes.num_attributes, &values));
  device->attributes = values;
  device->num_attributes = attributes.attributes ? attributes.num_attributes : 0;
  return PJRTD_OK;
}

static pjrtd_status *read_device(pjrtd_client *client, pjrtd_device *device) {
  PJRTD_TRY(read_description(client, device));
  device->local_hardware_id = -1;
  if (!device->addressable) return PJRTD_OK;
  PJRTD_ARGS(Device_LocalHardwareId, local, .device = device->handle);
  if (PJRTD_HAS(client->plugin, Device_LocalHardwareId)) {
    PJRTD_TRY(PJRTD_CALL(client->plugin, Device_LocalHardwareId, local));
    device->local_hardware_id = local.local_hardware_id;
  }
  return read_device_memories(client, device);
}

static pjrtd_status *read_devices(pjrtd_client *client) {
  PJRTD_ARGS(Client_Devices, all, .client = client->handle);
  PJRTD_TRY(PJRTD_CALL(client->plugin, Client_Devices, all));
  PJRTD_ARGS(Client_AddressableDevices, ours, .client = client->handle);
  PJRTD_TRY(PJRTD_CALL(client->plugin, Client_AddressableDevices, ours));
  PJRTD_TRY(pjrtd_plugin_check_list(all.devices, all.num_devices, "devices"));
  PJRTD_TRY(pjrtd_plugin_check_list(ours.addressable_devices, ours.num_addressable_devices, "addressable devices"));
  client->devices = pjrtd_calloc(all.num_devices, sizeof *client->devices);
  if (!client->devices) return pjrtd_status_oom();
  client->info.devices = client->devices;
  for (size_t i = 0; i < all.num_devices; i++) {
    pjrtd_device *device = &client->devices[i];
    client->info.num_devices++;
    device->handle = all.devices[i];
    device->index = SIZE_MAX;
    for (size_t j = 0; j < ours.num_addressable_devices; j++) {
      if (ours.addressable_devices[j] != all.devices[i]) continue;
      device->index = j;
      device->addressable = true;
      client->info.num_addressable_devices++;
    }
    PJRTD_TRY(read_device(client, device));
    for (size_t j = 0; j < i; j++)
      if (client->devices[j].id == device->id)
        return PJRTD_INTERNAL("the plugin gives two devices the id %d", device->id);
  }
  if (client->info.num_addressable_devices == ours.num_addressable_devices) return PJRTD_OK;
  return PJRTD_INTERNAL(
      "the plugin says that this process has %zu addressable devices, of which %zu are among its %zu devices",
      ours.num_addressable_devices, client->info.num_addressable_devices, all.num_devices);
}

pjrtd_status *pjrtd_client_read_devices(pjrtd_client *client) {
  PJRTD_TRY(read_memories(client), "reading the memory spaces");
  PJRTD_TRY(read_devices(client), "reading the devices");
  return link_memories(client);
}

void pjrtd_client_deinit_devices(pjrtd_client *client) {
  for (size_t i = 0; i < client->info.num_devices; i++) {
    pjrtd_device *device = &client->devices[i];
    pjrtd_free((void *)device->kind);
    pjrtd_free((void *)device->debug_string);
    pjrtd_free((void *)device->to_string);
    pjrtd_free((void *)device->memories);
    pjrtd_values_destroy((pjrtd_value *)device->attributes, device->num_attributes);
  }
  for (size_t i = 0; i < client->info.num_memories; i++) {
    pjrtd_memory *memory = &client->memories[i];
    pjrtd_free((void *)memory->kind);
    pjrtd_free((void *)memory->debug_string);
    pjrtd_free((void *)memory->to_string);
    pjrtd_free((void *)memory->device_ids);
  }
  pjrtd_free(client->devices);
  pjrtd_free(client->memories);
}

const pjrtd_device *pjrtd_client_device_of(const pjrtd_client *client, const PJRT_Device *handle) {
  for (size_t i = 0; i < client->info.num_devices; i++)
    if (client->devices[i].handle == handle) return &client->devices[i];
  return NULL;
}

const pjrtd_memory *pjrtd_client_memory_of(const pjrtd_client *client, const PJRT_Memory *handle) {
  for (size_t i = 0; i < client->info.num_memories; i++)
    if (client->memories[i].handle == handle) return &client->memories[i];
  return NULL;
}

const pjrtd_device *pjrtd_client_find_device(const pjrtd_client *client, int id) {
  for (size_t i = 0; i < client->info.num_devices; i++)
    if (client->devices[i].id == id) return &client->devices[i];
  return NULL;
}

const pjrtd_memory *pjrtd_client_find_memory(const pjrtd_client *client, int id) {
  for (size_t i = 0; i < client->info.num_memories; i++)
    if (client->memories[i].id == id) return &client->memories[i];
  return NULL;
}

static void add_stat(pjrtd_value *values, size_t *count, const char *name, bool is_set, int64_t amount) {
  if (!is_set) return;
  values[*count] = (pjrtd_value){.name = pjrtd_strdup(name), .kind = PJRTD_VALUE_INTEGER, .integer = amount};
  (*count)++;
}

pjrtd_status *pjrtd_device_memory_stats(const pjrtd_client *client, const pjrtd_device *device,
                                        pjrtd_value **out_values, size_t *out_count) {
  *out_values = NULL;
  *out_count = 0;
  PJRTD_ARGS(Device_MemoryStats, stats, .device = device->handle);
  PJRTD_TRY(PJRTD_CALL(client->plugin, Device_MemoryStats, stats));
  enum { MAX_STATS = 12 };
  pjrtd_value *values = pjrtd_calloc(MAX_STATS, sizeof *values);
  if (!values) return pjrtd_status_oom();
  size_t count = 0;
  add_stat(values, &count, "bytes_in_use", true, stats.bytes_in_use);
#define ADD(field) add_stat(values, &count, #field, stats.field##_is_set, stats.field)
  ADD(peak_bytes_in_use);
  ADD(num_allocs);
  ADD(largest_alloc_size);
  ADD(bytes_limit);
  ADD(bytes_reserved);
  ADD(peak_bytes_reserved);
  ADD(bytes_reservable_limit);
  ADD(largest_free_block_bytes);
  ADD(pool_bytes);
  ADD(peak_pool_bytes);
  ADD(peak_allocated_bytes);
#undef ADD
  for (size_t i = 0; i < count; i++) {
    if (values[i].name) continue;
    pjrtd_values_destroy(values, count);
    return pjrtd_status_oom();
  }
  *out_values = values;
  *out_count = count;
  return PJRTD_OK;
}
