/* Data between the host and device buffers. Any thread; big transfers block as long as they take. */
#include <string.h>

#include "plugin/buffer_internal.h"

/* What XLA's CPU backend can adopt without a copy. */
#define ADOPT_ALIGNMENT 64

static const char no_data;

/* Fills in what the caller left out, and checks that it fits together. */
static pjrtd_status *place(const pjrtd_client *client, const pjrtd_device **device, const pjrtd_memory **memory) {
  if (!*device && *memory && (*memory)->num_devices)
    *device = pjrtd_client_find_device(client, (*memory)->device_ids[0]);
  if (!*device) return PJRTD_INVALID("a buffer needs a device or a memory space");
  if (!(*device)->addressable)
    return PJRTD_INVALID("device %d belongs to process %d and cannot be used here", (*device)->id,
                         (*device)->process_index);
  if (!*memory) {
    *memory = (*device)->default_memory;
    return PJRTD_OK;
  }
  for (size_t i = 0; i < (*device)->num_memories; i++)
    if ((*device)->memories[i] == *memory) return PJRTD_OK;
  return PJRTD_INVALID("device %d does not reach memory space %d (%s)", (*device)->id, (*memory)->id, (*memory)->kind);
}

/* `out_done` is the event after which the plugin does not touch `data` any more. */
static pjrtd_status *upload(pjrtd_client *client, const void *data, const pjrtd_tensor_type *type,
                            const pjrtd_device *device, const pjrtd_memory *memory, PJRT_HostBufferSemantics semantics,
                            pjrtd_device_buffer **out_buffer, PJRT_Event **out_done) {
  *out_buffer = NULL;
  PJRTD_TRY(pjrtd_client_check_dtype(client, type->dtype));
  PJRTD_TRY(place(client, &device, &memory));
  uint64_t host_bytes = pjrtd_tensor_type_elements(type) * pjrtd_dtype_host_bytes(type->dtype);
  PJRTD_AUTO(pjrtd_device_buffer) buffer = pjrtd_device_buffer_alloc(client, type, host_bytes, device, memory, NULL);
  if (!buffer) return pjrtd_status_oom();
  PJRTD_ARGS(Client_BufferFromHostBuffer, args, .client = client->handle, .data = data ? data : &no_data,
             .type = (PJRT_Buffer_Type)type->dtype, .dims = type->dims, .num_dims = type->rank,
             .host_buffer_semantics = semantics, .device = device->handle, .memory = memory ? memory->handle : NULL);
  PJRTD_TRY(PJRTD_CALL(client->plugin, Client_BufferFromHostBuffer, args));
  if (!args.buffer) {
    pjrtd_event_drop(client->plugin, args.done_with_host_buffer);
    return PJRTD_INTERNAL("the plugin made no buffer, and gave no error");
  }
  buffer->handle = args.buffer;
  *out_done = args.done_with_host_buffer;
  *out_buffer = PJRTD_TAKE(buffer);
  return PJRTD_OK;
}

pjrtd_status *pjrtd_device_buffer_from_host(pjrtd_client *client, const void *data, const pjrtd_tensor_type *type,
                                            const pjrtd_device *device, const pjrtd_memory *memory,
                                            pjrtd_device_buffer **out_buffer) {
  PJRT_Event *done = NULL;
  PJRTD_TRY(
      upload(client, data, type, device, memory, PJRT_HostBufferSemantics_kImmutableOnlyDuringCall, out_buffer, &done));
  pjrtd_event_drop(client->plugin, done); /* the call itself was what had to end */
  return PJRTD_OK;
}

static pjrtd_status *adopt(pjrtd_client *client, const void *data, const pjrtd_tensor_type *type,
                           const pjrtd_device *device, const pjrtd_memory *memory, PJRT_HostBufferSemantics semantics,
                           pjrtd_event_fn release, void *user, pjrtd_device_buffer **out_buffer) {
  *out_buffer = NULL;
  pjrtd_event_group *group = pjrtd_event_group_create(client->plugin, 1, release, user);
  if (!group) return pjrtd_status_oom();
  bool can_adopt =
      client->info.is_cpu && pjrtd_dtype_bits(type->dtype) >= 8 && data && (uintptr_t)data % ADOPT_ALIGNMENT == 0;
  PJRT_Event *done = NULL;
  pjrtd_status *status =
      upload(client, data, type, device, memory,
             can_adopt ? semantics : PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes, out_buffer, &done);
  if (!status) status = pjrtd_event_group_start_one(group, done);
  if (!status) return PJRTD_OK;
  /* Where the plugin has the pages already, it gives them back with the buffer; then nobody else knows of them. */
  pjrtd_device_buffer_destroy(PJRTD_TAKE(*out_buffer));
  pjrtd_status_ignore(pjrtd_event_await(client->plugin, done));
  pjrtd_event_group_destroy(group);
  return status;
}

pjrtd_status *pjrtd_device_buffer_adopt_host(pjrtd_client *client, void *data, const pjrtd_tensor_type *type,
                                             const pjrtd_device *device, const pjrtd_memory *memory,
                                             pjrtd_event_fn release, void *user, pjrtd_device_buffer **out_buffer) {
  return adopt(client, data, type, device, memory, PJRT_HostBufferSemantics_kMutableZeroCopy, release, user,
               out_buffer);
}

pjrtd_status *pjrtd_device_buffer_adopt_readonly(pjrtd_client *client, const void *data, const pjrtd_tensor_type *type,
                                                 const pjrtd_device *device, const pjrtd_memory *memory,
                                                 pjrtd_event_fn release, void *user, pjrtd_device_buffer **out_buffer) {
  return adopt(client, data, type, device, memory, PJRT_HostBufferSemantics_kImmutableZeroCopy, release, user,
               out_buffer);
}

/* Through the plugin, which brings any device layout into dense row-major order. */
static pjrtd_status *read_through_plugin(pjrtd_device_buffer *buffer, void *out_data, uint64_t size_bytes) {
  uint32_t rank = buffer->type.rank;
  int64_t minor_to_major[PJRTD_MAX_RANK];
  for (uint32_t i = 0; i < rank; i++) minor_to_major[i] = rank - 1 - i;
  PJRT_Buffer_MemoryLayout layout = {.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE,
                                     .type = PJRT_Buffer_MemoryLayout_Type_Tiled,
                                     .tiled = {.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE,
                                               .minor_to_major = minor_to_major,
                                               .minor_to_major_size = rank}};
  PJRTD_ARGS(Buffer_ToHostBuffer, args, .src = buffer->handle, .host_layout = &layout, .dst = out_data,
             .dst_size = size_bytes);
  PJRTD_TRY(PJRTD_CALL(buffer->client->plugin, Buffer_ToHostBuffer, args));
  PJRTD_TRY(pjrtd_event_await(buffer->client->plugin, args.event));
  if (pjrtd_dtype_is_signed_subbyte(buffer->type.dtype))
    pjrtd_sign_extend_subbyte(buffer->type.dtype, out_data, size_bytes);
  return PJRTD_OK;
}

pjrtd_status *pjrtd_device_buffer_read(pjrtd_device_buffer *buffer, void *out_data, uint64_t size_bytes) {
  if (size_bytes != buffer->host_bytes) {
    char type[PJRTD_TENSOR_TYPE_TEXT];
    return PJRTD_INVALID("%s has %llu bytes, not %llu", pjrtd_tensor_type_format(&buffer->type, type),
                         (unsigned long long)buffer->host_bytes, (unsigned long long)size_bytes);
  }
  PJRTD_TRY(pjrtd_device_buffer_await(buffer));
  if (size_bytes == 0)
    return pjrtd_device_buffer_is_deleted(buffer) ? PJRTD_INVALID("the buffer was donated") : PJRTD_OK;
  /* In place where that is possible: it saves the plugin's hand-over to another thread, and old plugins leave the data
   * in device order whatever layout they are asked for. */
  const void *device = buffer->layout && buffer->layout->num_tiles ? NULL : pjrtd_device_buffer_pointer(buffer);
  if (!device) return read_through_plugin(buffer, out_data, size_bytes);
  if (buffer->layout)
    pjrtd_layout_copy_to_dense(buffer->layout, buffer->dims, pjrtd_dtype_host_bytes(buffer->type.dtype), device,
                               out_data);
  else
    memcpy(out_data, device, size_bytes);
  return PJRTD_OK;
}
