/* pjrtctl devices: the devices and their memories. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "ctl_json.h"
#include "ctl_table.h"

static json_t *device_json(const pjrtc_device *device) {
  json_t *object = json_object();
  json_object_set_new(object, "id", json_integer(device->id));
  json_object_set_new(object, "kind", ctl_json_text(device->kind));
  json_object_set_new(object, "addressable", json_boolean(device->addressable));
  json_object_set_new(object, "process_index", json_integer(device->process_index));
  json_object_set_new(object, "local_hardware_id", json_integer(device->local_hardware_id));
  json_object_set_new(object, "default_memory", json_integer(device->default_memory));
  json_object_set_new(object, "memories", ctl_json_integers(device->memories, device->num_memories));
  json_object_set_new(object, "debug_string", ctl_json_text(device->debug_string));
  json_object_set_new(object, "to_string", ctl_json_text(device->to_string));
  json_object_set_new(object, "attributes", ctl_json_attributes(device->attributes, device->num_attributes));
  json_object_set_new(object, "memory_stats", ctl_json_attributes(device->memory_stats, device->num_memory_stats));
  return object;
}

static json_t *memory_json(const pjrtc_memory *memory) {
  json_t *object = json_object();
  json_object_set_new(object, "id", json_integer(memory->id));
  json_object_set_new(object, "kind", ctl_json_text(memory->kind));
  json_object_set_new(object, "devices", ctl_json_integers(memory->devices, memory->num_devices));
  json_object_set_new(object, "debug_string", ctl_json_text(memory->debug_string));
  return object;
}

static void print_json(const pjrtc_devices *devices, const pjrtc_memories *memories) {
  json_t *device_list = json_array(), *memory_list = json_array();
  for (size_t i = 0; i < devices->num_devices; i++)
    json_array_append_new(device_list, device_json(devices->devices[i]));
  for (size_t i = 0; i < memories->num_memories; i++)
    json_array_append_new(memory_list, memory_json(memories->memories[i]));
  ctl_json_print(json_pack("{s:o, s:o}", "devices", device_list, "memories", memory_list));
}

static const pjrtc_memory *find(const pjrtc_memories *memories, int32_t id) {
  for (size_t i = 0; i < memories->num_memories; i++)
    if (memories->memories[i]->id == id) return memories->memories[i];
  return NULL;
}

/* "0 device, 1 pinned_host" */
static char *memory_names(const pjrtc_device *device, const pjrtc_memories *memories) {
  char *text = ctl_text("%s", "");
  for (size_t i = 0; i < device->num_memories; i++) {
    const pjrtc_memory *memory = find(memories, device->memories[i]);
    char *longer =
        ctl_text("%s%s%" PRId32 " %s", text, i ? ", " : "", device->memories[i], memory ? memory->kind : "unknown");
    free(text);
    text = longer;
  }
  return text;
}

static const pjrtc_attribute *stat(const pjrtc_device *device, const char *name) {
  for (size_t i = 0; i < device->num_memory_stats; i++)
    if (strcmp(device->memory_stats[i].name, name) == 0 && device->memory_stats[i].kind == PJRTC_ATTRIBUTE_INTEGER)
      return &device->memory_stats[i];
  return NULL;
}

static void print_text(const pjrtc_devices *devices, const pjrtc_memories *memories) {
  static const char *const columns[] = {"ID#", "KIND", "PROCESS#", "ADDRESSABLE", "USED#", "LIMIT#", "MEMORIES", NULL};
  ctl_table *table = ctl_table_create(columns, true);
  for (size_t i = 0; i < devices->num_devices; i++) {
    const pjrtc_device *device = devices->devices[i];
    const pjrtc_attribute *used = stat(device, "bytes_in_use"), *limit = stat(device, "bytes_limit");
    char text[32], *names = memory_names(device, memories);
    ctl_table_add(table, "%" PRId32, device->id);
    ctl_table_add(table, "%s", device->kind);
    ctl_table_add(table, "%" PRId32, device->process_index);
    ctl_table_add(table, "%s", device->addressable ? "yes" : "no");
    ctl_table_add(table, "%s", used ? ctl_bytes((uint64_t)used->integer, text) : "-");
    ctl_table_add(table, "%s", limit ? ctl_bytes((uint64_t)limit->integer, text) : "-");
    ctl_table_add(table, "%s", names);
    free(names);
  }
  ctl_table_print(table);
}

int ctl_devices(int argc, char **argv, ctl_common *common) {
  size_t num_words;
  int status = ctl_parse(argc, argv, NULL, 0, NULL, common, NULL, 0, &num_words);
  if (status) return status;
  pjrtc_client *client = ctl_connect(common, &status);
  if (!client) return status;
  pjrtc_error error;
  pjrtc_devices *devices = NULL;
  pjrtc_memories *memories = NULL;
  ctl_error_init(&error);
  if (pjrtc_get_devices(client, &devices, &error) || pjrtc_get_memories(client, &memories, &error))
    status = ctl_fail(common, &error);
  else if (common->json)
    print_json(devices, memories);
  else
    print_text(devices, memories);
  pjrtc_devices_destroy(devices);
  pjrtc_memories_destroy(memories);
  free(error.detail);
  pjrtc_close(client);
  return status;
}
