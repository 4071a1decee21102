/* Checks a plugin's function table before anything of it is trusted, and copies what is usable. One thread, once. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "plugin/pjrt_call.h"

/* Far more than any table has, now or soon. */
#define MAX_API_BYTES 65536

static const struct {
  size_t offset;
  const char *name;
} required_slots[] = {
#define REQUIRED(name) \
  { offsetof(PJRT_Api, PJRT_##name), "PJRT_" #name }
    REQUIRED(Error_Destroy),
    REQUIRED(Error_Message),
    REQUIRED(Error_GetCode),
    REQUIRED(Event_Destroy),
    REQUIRED(Event_IsReady),
    REQUIRED(Event_Await),
    REQUIRED(Event_OnReady),
    REQUIRED(Client_Create),
    REQUIRED(Client_Destroy),
    REQUIRED(Client_PlatformName),
    REQUIRED(Client_Devices),
    REQUIRED(Client_AddressableDevices),
    REQUIRED(Client_Compile),
    REQUIRED(Client_BufferFromHostBuffer),
    REQUIRED(DeviceDescription_Id),
    REQUIRED(Device_GetDescription),
    REQUIRED(Executable_Destroy),
    REQUIRED(Executable_NumOutputs),
    REQUIRED(Executable_OptimizedProgram),
    REQUIRED(LoadedExecutable_Destroy),
    REQUIRED(LoadedExecutable_GetExecutable),
    REQUIRED(LoadedExecutable_AddressableDevices),
    REQUIRED(LoadedExecutable_Execute),
    REQUIRED(Buffer_Destroy),
    REQUIRED(Buffer_IsDeleted),
    REQUIRED(Buffer_ToHostBuffer),
    REQUIRED(Buffer_ReadyEvent),
#undef REQUIRED
};

/* How long the table is at least, from a version on: later slots came behind these. */
static const struct {
  int minor;
  size_t bytes;
} least_sizes[] = {
    {57, PJRT_STRUCT_SIZE(PJRT_Api, PJRT_Buffer_CopyRawToHost)},
    {79, PJRT_STRUCT_SIZE(PJRT_Api, PJRT_LoadedExecutable_GetDeviceAssignment)},
    {102, PJRT_STRUCT_SIZE(PJRT_Api, PJRT_Executable_ParameterMemoryKinds)},
    {PJRT_API_MINOR, PJRT_Api_STRUCT_SIZE},
};

static pjrtd_status *install_another(pjrtd_status *status) {
  return pjrtd_status_with_hint(status,
                                "the file is damaged or was built wrong: install another release of the plugin");
}

static pjrtd_status *check_version(const pjrtd_plugin *plugin) {
  int major = plugin->info.api_major, minor = plugin->info.api_minor;
  if (major == PJRT_API_MAJOR && minor >= PJRTD_PJRT_MINIMUM_MINOR) return PJRTD_OK;
  return pjrtd_status_with_hint(
      pjrtd_status_make(PJRTD_CODE_UNIMPLEMENTED,
                        "%s speaks PJRT %d.%d, this pjrtd speaks %d.%d and takes %d.%d to %d.x", plugin->path, major,
                        minor, PJRT_API_MAJOR, PJRT_API_MINOR, PJRT_API_MAJOR, PJRTD_PJRT_MINIMUM_MINOR,
                        PJRT_API_MAJOR),
      "install %s", major > PJRT_API_MAJOR ? "a newer pjrtd, or an older plugin" : "a newer plugin");
}

/* A plugin that says it is newer than its table is lies about one of the two; which is not to be found out by calling.
 */
static pjrtd_status *check_size(const pjrtd_plugin *plugin, size_t bytes) {
  if (bytes % sizeof(void *) || bytes > MAX_API_BYTES)
    return install_another(
        PJRTD_INVALID("%s is not usable: its PJRT_Api has %zu bytes; a table has a multiple of %zu, and under %d",
                      plugin->path, bytes, sizeof(void *), MAX_API_BYTES));
  size_t least = 0;
  for (size_t i = 0; i < sizeof least_sizes / sizeof *least_sizes; i++)
    if (plugin->info.api_minor >= least_sizes[i].minor) least = least_sizes[i].bytes;
  if (bytes >= least) return PJRTD_OK;
  return install_another(PJRTD_INVALID(
      "%s is not usable: it says that it speaks PJRT %d.%d, whose PJRT_Api has at least %zu bytes, but its own has %zu",
      plugin->path, plugin->info.api_major, plugin->info.api_minor, least, bytes));
}

static void *slot_at(const pjrtd_plugin *plugin, size_t offset) {
  void *slot;
  memcpy(&slot, (const char *)&plugin->api + offset, sizeof slot);
  return slot;
}

static pjrtd_status *check_required(const pjrtd_plugin *plugin) {
  for (size_t i = 0; i < sizeof required_slots / sizeof *required_slots; i++) {
    if (slot_at(plugin, required_slots[i].offset)) continue;
    bool beyond = required_slots[i].offset + sizeof(void *) > plugin->plugin_struct_size;
    return pjrtd_status_with_hint(
        pjrtd_status_make(PJRTD_CODE_UNIMPLEMENTED,
                          "%s is not usable: its %s %s (the plugin speaks PJRT %d.%d, pjrtd was built with %d.%d)",
                          plugin->path, required_slots[i].name, beyond ? "lies beyond its struct_size" : "is NULL",
                          plugin->info.api_major, plugin->info.api_minor, PJRT_API_MAJOR, PJRT_API_MINOR),
        "pjrtd cannot do without this function: install another release of the plugin");
  }
  return PJRTD_OK;
}

/* Takes the slots that lie in [begin, end) out of `pending`. */
static size_t tick_off(const pjrtd_plugin *plugin, uint64_t begin, uint64_t end, bool *pending, size_t count) {
  size_t left = 0;
  for (size_t i = 0; i < count; i++) {
    uint64_t slot = (uintptr_t)slot_at(plugin, offsetof(PJRT_Api, PJRT_Error_Destroy) + i * sizeof(void *));
    if (slot >= begin && slot < end) pending[i] = false;
    left += pending[i];
  }
  return left;
}

/* A table that ends before its struct_size has whatever lies behind it in place of functions. */
static pjrtd_status *check_slots_are_code(const pjrtd_plugin *plugin) {
  FILE *maps = fopen("/proc/self/maps", "re");
  if (!maps) return PJRTD_OK; /* it cannot be told here */
  enum { SLOTS = (sizeof plugin->api - offsetof(PJRT_Api, PJRT_Error_Destroy)) / sizeof(void *) };
  bool pending[SLOTS];
  for (size_t i = 0; i < SLOTS; i++)
    pending[i] = slot_at(plugin, offsetof(PJRT_Api, PJRT_Error_Destroy) + i * sizeof(void *)) != NULL;
  char line[4400]; /* addresses, and a path */
  uint64_t begin, end;
  char executable;
  while (fgets(line, sizeof line, maps))
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*c%*c%c", &begin, &end, &executable) == 3 && executable == 'x')
      tick_off(plugin, begin, end, pending, SLOTS);
  fclose(maps);
  for (size_t i = 0; i < SLOTS; i++)
    if (pending[i])
      return install_another(PJRTD_INVALID(
          "%s is not usable: entry %zu of its PJRT_Api is no function; it says that the table has %zu bytes",
          plugin->path, i, plugin->plugin_struct_size));
  return PJRTD_OK;
}

pjrtd_status *pjrtd_plugin_take_api(pjrtd_plugin *plugin, const PJRT_Api *api) {
  size_t bytes = plugin->plugin_struct_size = api->struct_size;
  if (bytes < offsetof(PJRT_Api, PJRT_Error_Destroy))
    return install_another(PJRTD_INVALID("%s is not usable: its PJRT_Api has %zu bytes, fewer than the %zu of its head",
                                         plugin->path, bytes, offsetof(PJRT_Api, PJRT_Error_Destroy)));
  plugin->info.api_major = api->pjrt_api_version.major_version;
  plugin->info.api_minor = api->pjrt_api_version.minor_version;
  plugin->info.headers_major = PJRT_API_MAJOR;
  plugin->info.headers_minor = PJRT_API_MINOR;
  PJRTD_TRY(check_version(plugin));
  PJRTD_TRY(check_size(plugin, bytes));
  memcpy(&plugin->api, api, bytes < sizeof plugin->api ? bytes : sizeof plugin->api);
  PJRTD_TRY(check_required(plugin));
  return check_slots_are_code(plugin);
}
