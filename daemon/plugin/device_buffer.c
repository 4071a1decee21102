/* Device buffers: what one is, and its life. Any thread; one call that destroys or changes a buffer at a time. */
#include <string.h>

#include "plugin/buffer_internal.h"

/* More cannot be: what is counted with such numbers must not overflow. */
#define MAX_DEVICE_BYTES ((size_t)1 << 50)

pjrtd_device_buffer *pjrtd_device_buffer_alloc(pjrtd_client *client, const pjrtd_tensor_type *type, uint64_t host_bytes,
                                               const pjrtd_device *device, const pjrtd_memory *memory,
                                               const pjrtd_layout *layout) {
  pjrtd_device_buffer *buffer = pjrtd_malloc(sizeof *buffer + type->rank * sizeof *buffer->dims);
  if (!buffer) return NULL;
  buffer->client = client;
  buffer->device = device;
  buffer->memory = memory;
  buffer->handle = NULL;
  buffer->type = (pjrtd_tensor_type){type->dtype, type->rank, buffer->dims};
  buffer->host_bytes = host_bytes;
  buffer->layout = NULL;
  atomic_init(&buffer->ready, false);
  if (type->rank) memcpy(buffer->dims, type->dims, type->rank * sizeof *buffer->dims);
  if (layout) {
    buffer->layout = pjrtd_memdup(layout, sizeof *layout);
    if (!buffer->layout) {
      pjrtd_free(buffer);
      return NULL;
    }
  }
  return buffer;
}

void pjrtd_device_buffer_destroy(pjrtd_device_buffer *buffer) {
  if (!buffer) return;
  if (buffer->handle) {
    PJRTD_ARGS(Buffer_Destroy, args, .buffer = buffer->handle);
    pjrtd_status_ignore(PJRTD_CALL(buffer->client->plugin, Buffer_Destroy, args));
  }
  if (buffer->layout) pjrtd_free(buffer->layout);
  pjrtd_free(buffer);
}

static PJRT_Event *ready_event(pjrtd_device_buffer *buffer, pjrtd_status **out_status) {
  PJRTD_ARGS(Buffer_ReadyEvent, args, .buffer = buffer->handle);
  *out_status = PJRTD_CALL(buffer->client->plugin, Buffer_ReadyEvent, args);
  return *out_status ? NULL : args.event;
}

pjrtd_status *pjrtd_device_buffer_await(pjrtd_device_buffer *buffer) {
  if (atomic_load_explicit(&buffer->ready, memory_order_acquire)) return PJRTD_OK;
  pjrtd_status *status;
  PJRT_Event *event = ready_event(buffer, &status);
  if (!status) status = pjrtd_event_await(buffer->client->plugin, event);
  if (status) return status;
  atomic_store_explicit(&buffer->ready, true, memory_order_release);
  return PJRTD_OK;
}

bool pjrtd_device_buffer_is_ready(pjrtd_device_buffer *buffer) {
  if (atomic_load_explicit(&buffer->ready, memory_order_acquire)) return true;
  pjrtd_status *status;
  PJRT_Event *event = ready_event(buffer, &status);
  if (!status && !pjrtd_event_poll(buffer->client->plugin, event, &status)) {
    pjrtd_event_drop(buffer->client->plugin, event);
    return false;
  }
  if (!status) atomic_store_explicit(&buffer->ready, true, memory_order_release);
  bool ready = !status;
  pjrtd_status_ignore(status);
  return ready;
}

bool pjrtd_device_buffer_is_deleted(const pjrtd_device_buffer *buffer) {
  PJRTD_ARGS(Buffer_IsDeleted, args, .buffer = buffer->handle);
  pjrtd_status *failed = PJRTD_CALL(buffer->client->plugin, Buffer_IsDeleted, args);
  pjrtd_status_ignore(failed);
  return !failed && args.is_deleted;
}

const void *pjrtd_device_buffer_pointer(const pjrtd_device_buffer *buffer) {
  /* A sub-byte type is packed on the device, or has bits there that its host form has not. */
  if (!buffer->client->info.is_cpu || pjrtd_dtype_bits(buffer->type.dtype) < 8) return NULL;
  PJRTD_ARGS(Buffer_UnsafePointer, args, .buffer = buffer->handle);
  pjrtd_status *failed = PJRTD_CALL(buffer->client->plugin, Buffer_UnsafePointer, args);
  if (__builtin_expect(failed != NULL, 0)) { /* donated, or not to be had */
    pjrtd_status_ignore(failed);
    return NULL;
  }
  static const char nothing;
  return args.buffer_pointer || buffer->host_bytes ? (const void *)args.buffer_pointer : &nothing;
}

const void *pjrtd_device_buffer_view(pjrtd_device_buffer *buffer) {
  return buffer->layout ? NULL : pjrtd_device_buffer_pointer(buffer);
}

const pjrtd_tensor_type *pjrtd_device_buffer_type(const pjrtd_device_buffer *buffer) {
  return &buffer->type;
}

uint64_t pjrtd_device_buffer_device_bytes(const pjrtd_device_buffer *buffer) {
  PJRTD_ARGS(Buffer_OnDeviceSizeInBytes, args, .buffer = buffer->handle);
  pjrtd_status *failed = PJRTD_CALL(buffer->client->plugin, Buffer_OnDeviceSizeInBytes, args);
  pjrtd_status_ignore(failed);
  return failed || args.on_device_size_in_bytes > MAX_DEVICE_BYTES ? buffer->host_bytes : args.on_device_size_in_bytes;
}

const pjrtd_device *pjrtd_device_buffer_device(const pjrtd_device_buffer *buffer) {
  return buffer->device;
}
const pjrtd_memory *pjrtd_device_buffer_memory(const pjrtd_device_buffer *buffer) {
  return buffer->memory;
}

pjrtd_status *pjrtd_device_buffer_layout(const pjrtd_device_buffer *buffer, pjrtd_layout *out_layout) {
  memset(out_layout, 0, sizeof *out_layout);
  PJRTD_ARGS(Buffer_GetMemoryLayout, args, .buffer = buffer->handle);
  PJRTD_TRY(PJRTD_CALL(buffer->client->plugin, Buffer_GetMemoryLayout, args));
  const PJRT_Buffer_MemoryLayout_Tiled *tiled = &args.layout.tiled;
  if (args.layout.type != PJRT_Buffer_MemoryLayout_Type_Tiled || tiled->minor_to_major_size != buffer->type.rank ||
      tiled->num_tiles > sizeof out_layout->tile_ranks / sizeof *out_layout->tile_ranks)
    return pjrtd_status_make(PJRTD_CODE_UNIMPLEMENTED, "the plugin gives a layout of a form that pjrtd does not know");
  out_layout->rank = buffer->type.rank;
  if (out_layout->rank)
    memcpy(out_layout->minor_to_major, tiled->minor_to_major, out_layout->rank * sizeof *tiled->minor_to_major);
  size_t dims = 0;
  for (size_t i = 0; i < tiled->num_tiles; i++) {
    size_t rank = tiled->tile_dim_sizes[i];
    if (dims + rank > sizeof out_layout->tile_dims / sizeof *out_layout->tile_dims)
      return pjrtd_status_make(PJRTD_CODE_UNIMPLEMENTED, "the plugin gives a layout with too many tiles");
    out_layout->tile_ranks[i] = (uint32_t)rank;
    memcpy(out_layout->tile_dims + dims, tiled->tile_dims + dims, rank * sizeof *tiled->tile_dims);
    dims += rank;
  }
  out_layout->num_tiles = (uint32_t)tiled->num_tiles;
  return PJRTD_OK;
}
