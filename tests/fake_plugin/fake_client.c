/* The client and its devices. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_plugin.h"

void fake_client_check(const PJRT_Client *client, const char *function) {
  fake_object_check(client ? &client->object : NULL, FAKE_CLIENT, function);
}

static bool is_named(const PJRT_NamedValue *option, const char *name) {
  return option->name_size == strlen(name) && memcmp(option->name, name, option->name_size) == 0;
}

static PJRT_Error *take_option(PJRT_Client *client, const PJRT_NamedValue *option) {
  FAKE_RULE(option->struct_size == PJRT_NamedValue_STRUCT_SIZE, "a create option has struct_size %zu",
            option->struct_size);
  FAKE_RULE(option->name && option->name_size, "a create option has no name");
  if (is_named(option, "platform") && option->type == PJRT_NamedValue_kString) {
    snprintf(client->platform, sizeof client->platform, "%.*s", (int)option->value_size, option->string_value);
  } else if (is_named(option, "devices") && option->type == PJRT_NamedValue_kInt64) {
    if (option->int64_value < 0 || option->int64_value > FAKE_MAX_DEVICES)
      return fake_error_text(PJRT_Error_Code_INVALID_ARGUMENT, "the fake plugin has up to 16 devices");
    client->num_devices = (size_t)option->int64_value;
  } else if (is_named(option, "memory_fraction") && option->type == PJRT_NamedValue_kFloat) {
    /* It has as much as it has. */
  } else if (!is_named(option, "asynchronous") || option->type != PJRT_NamedValue_kBool) {
    char text[128];
    snprintf(text, sizeof text, "the fake plugin has no option %.*s", (int)option->name_size, option->name);
    return fake_error_text(PJRT_Error_Code_INVALID_ARGUMENT, text);
  }
  return NULL;
}

/* `lie`: no client, and no error. */
PJRT_Error *fake_Client_Create(PJRT_Client_Create_Args *args) {
  FAKE_ENTER(Client_Create, NULL);
  PJRT_Client *client = calloc(1, sizeof *client);
  client->num_devices = 2;
  strcpy(client->platform, "cpu");
  for (size_t i = 0; i < args->num_options; i++) {
    PJRT_Error *error = take_option(client, &args->create_options[i]);
    if (!error) continue;
    free(client);
    return error;
  }
  for (size_t i = 0; i < client->num_devices; i++) {
    client->devices[i].description.id = (int)i;
    client->list[i] = &client->devices[i];
  }
  args->client = plan.lies ? NULL : client;
  if (plan.lies) {
    free(client);
    return NULL;
  }
  fake_object_init(&client->object, FAKE_CLIENT);
  atomic_store(&fake_client_is_gone, false);
  return NULL;
}

PJRT_Error *fake_Client_Destroy(PJRT_Client_Destroy_Args *args) {
  FAKE_ENTER_DESTROY(Client_Destroy, NULL);
  fake_check_all_destroyed();
  fake_object_destroy(&args->client->object, FAKE_CLIENT, "Client_Destroy");
  atomic_store(&fake_client_is_gone, true);
  return plan.error;
}

/* `lie`: that many bytes, of a name that is NULL. */
PJRT_Error *fake_Client_PlatformName(PJRT_Client_PlatformName_Args *args) {
  FAKE_ENTER(Client_PlatformName, NULL);
  fake_client_check(args->client, "Client_PlatformName");
  args->platform_name = plan.lies ? NULL : args->client->platform;
  args->platform_name_size = plan.lies ? (size_t)plan.lie : strlen(args->client->platform);
  return NULL;
}

PJRT_Error *fake_Client_PlatformVersion(PJRT_Client_PlatformVersion_Args *args) {
  FAKE_ENTER(Client_PlatformVersion, NULL);
  fake_client_check(args->client, "Client_PlatformVersion");
  args->platform_version = "fake";
  args->platform_version_size = 4;
  return NULL;
}

PJRT_Error *fake_Client_ProcessIndex(PJRT_Client_ProcessIndex_Args *args) {
  FAKE_ENTER(Client_ProcessIndex, NULL);
  fake_client_check(args->client, "Client_ProcessIndex");
  args->process_index = 0;
  return NULL;
}

/* `lie`: that many devices, none of which there is a list of. */
PJRT_Error *fake_Client_Devices(PJRT_Client_Devices_Args *args) {
  FAKE_ENTER(Client_Devices, NULL);
  fake_client_check(args->client, "Client_Devices");
  args->devices = plan.lies ? NULL : args->client->list;
  args->num_devices = plan.lies ? (size_t)plan.lie : args->client->num_devices;
  return NULL;
}

PJRT_Error *fake_Client_AddressableDevices(PJRT_Client_AddressableDevices_Args *args) {
  FAKE_ENTER(Client_AddressableDevices, NULL);
  fake_client_check(args->client, "Client_AddressableDevices");
  args->addressable_devices = plan.lies ? NULL : args->client->list;
  args->num_addressable_devices = plan.lies ? (size_t)plan.lie : args->client->num_devices;
  return NULL;
}

PJRT_Error *fake_Client_DefaultDeviceAssignment(PJRT_Client_DefaultDeviceAssignment_Args *args) {
  FAKE_ENTER(Client_DefaultDeviceAssignment, NULL);
  fake_client_check(args->client, "Client_DefaultDeviceAssignment");
  for (size_t i = 0; i < args->default_assignment_size; i++) args->default_assignment[i] = (int)i;
  return NULL;
}

/* `lie`: no description. */
PJRT_Error *fake_Device_GetDescription(PJRT_Device_GetDescription_Args *args) {
  FAKE_ENTER(Device_GetDescription, NULL);
  FAKE_RULE(args->device, "Device_GetDescription was given no device");
  args->device_description = plan.lies ? NULL : &args->device->description;
  return NULL;
}

PJRT_Error *fake_DeviceDescription_Id(PJRT_DeviceDescription_Id_Args *args) {
  FAKE_ENTER(DeviceDescription_Id, NULL);
  FAKE_RULE(args->device_description, "DeviceDescription_Id was given no description");
  args->id = plan.lies ? (int)plan.lie : args->device_description->id;
  return NULL;
}

/* `lie`: bytes that are no text. */
PJRT_Error *fake_DeviceDescription_Kind(PJRT_DeviceDescription_Kind_Args *args) {
  FAKE_ENTER(DeviceDescription_Kind, NULL);
  FAKE_RULE(args->device_description, "DeviceDescription_Kind was given no description");
  args->device_kind = plan.lies ? "fa\xffke\0kind" : "fake";
  args->device_kind_size = plan.lies ? 10 : 4;
  return NULL;
}

/* None; `lie`: so many bytes in use, of twice as many, and the free ones in pieces of an eighth of them. */
PJRT_Error *fake_Device_MemoryStats(PJRT_Device_MemoryStats_Args *args) {
  FAKE_ENTER(Device_MemoryStats, NULL);
  FAKE_RULE(args->device, "Device_MemoryStats was given no device");
  if (!plan.lies) return fake_error_text(PJRT_Error_Code_UNIMPLEMENTED, "the fake plugin has no allocator to tell of");
  args->bytes_in_use = plan.lie;
  args->bytes_limit = plan.lie * 2;
  args->largest_free_block_bytes = plan.lie / 8;
  args->num_allocs = 204;
  args->bytes_limit_is_set = args->largest_free_block_bytes_is_set = args->num_allocs_is_set = true;
  return NULL;
}
