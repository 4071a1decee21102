/* See home.h. */
#include "state/home.h"

const pjrtd_device *pjrtd_home_first(const pjrtd_runtime *runtime) {
  const pjrtd_client_info *info = runtime->client ? pjrtd_client_get_info(runtime->client) : NULL;
  for (size_t i = 0; info && i < info->num_devices; i++)
    if (info->devices[i].addressable) return &info->devices[i];
  return NULL;
}

pjrtd_status *pjrtd_home_find(const pjrtd_runtime *runtime, int id, const pjrtd_device **out_device) {
  *out_device = pjrtd_client_find_device(runtime->client, id);
  if (!*out_device)
    return pjrtd_status_with_hint(PJRTD_INVALID("there is no device %d", id), "Runtime.Devices lists the devices");
  if (!(*out_device)->addressable) return PJRTD_INVALID("device %d belongs to another process", id);
  return PJRTD_OK;
}

static bool is_less(const pjrtd_device_load *a, const pjrtd_device_load *b) {
  return a->buffer_bytes != b->buffer_bytes ? a->buffer_bytes < b->buffer_bytes : a->sessions < b->sessions;
}

const pjrtd_device *pjrtd_home_choose(const pjrtd_runtime *runtime) {
  const pjrtd_device *chosen = pjrtd_home_first(runtime);
  if (!chosen || runtime->settings->session_home == PJRTD_SESSION_HOME_FIRST) return chosen;
  const pjrtd_client_info *info = pjrtd_client_get_info(runtime->client);
  for (size_t i = 0; i < info->num_devices; i++) {
    const pjrtd_device *device = &info->devices[i];
    if (device->addressable && is_less(&runtime->device_loads[device->index], &runtime->device_loads[chosen->index]))
      chosen = device;
  }
  return chosen;
}

void pjrtd_home_move(pjrtd_runtime *runtime, const pjrtd_device *from, const pjrtd_device *to) {
  if (from) runtime->device_loads[from->index].sessions--;
  if (to) runtime->device_loads[to->index].sessions++;
}
