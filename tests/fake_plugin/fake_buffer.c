/* Buffers and the host. */
#include <stdlib.h>
#include <string.h>

#include "fake_plugin.h"

fake_storage *fake_storage_make(size_t bytes) {
  fake_storage *storage = calloc(1, sizeof *storage);
  atomic_init(&storage->references, 1);
  storage->data = malloc(bytes ? bytes : 1);
  storage->bytes = bytes;
  return storage;
}

/* With the last reference the host's memory goes back to it. */
void fake_storage_release(fake_storage *storage) {
  if (!storage || atomic_fetch_sub(&storage->references, 1) != 1) return;
  if (storage->adopted)
    fake_event_end(storage->adopted, 0, NULL, 0);
  else
    free(storage->data);
  free(storage);
}

PJRT_Buffer *fake_buffer_make(const fake_tensor *tensor, fake_storage *storage, PJRT_Device *device, fake_script *own) {
  PJRT_Buffer *buffer = calloc(1, sizeof *buffer);
  fake_object_init(&buffer->object, FAKE_BUFFER);
  buffer->tensor = *tensor;
  buffer->storage = storage;
  buffer->device = device;
  buffer->own = own;
  return buffer;
}

static PJRT_Error *deleted(void) {
  return fake_error_text(PJRT_Error_Code_INVALID_ARGUMENT, "the buffer was deleted or donated");
}

static PJRT_Buffer *check(PJRT_Buffer *buffer, const char *function) {
  fake_object_check(buffer ? &buffer->object : NULL, FAKE_BUFFER, function);
  return buffer;
}

/* ---- from the host ---- */

typedef struct {
  fake_pending *pending;
  fake_storage *to; /* with a reference: the buffer may go meanwhile */
  const void *from; /* NULL: it is copied already, or stays where it is */
} upload;

static void finish_upload(void *user, const fake_plan *plan) {
  upload *self = user;
  if (self->from) memcpy(self->to->data, self->from, self->to->bytes);
  fake_storage_release(self->to);
  fake_pending_end(self->pending, plan);
  free(self);
}

/* `lie`: no buffer, and no error. What may be used until the transfer completes is copied when the event ends. */
PJRT_Error *fake_Client_BufferFromHostBuffer(PJRT_Client_BufferFromHostBuffer_Args *args) {
  static const char function[] = "Client_BufferFromHostBuffer";
  fake_client_check(args->client, function);
  FAKE_ENTER(Client_BufferFromHostBuffer, NULL);
  FAKE_RULE(args->data, "%s was given no data", function);
  FAKE_RULE(args->device, "%s was given no device", function);
  FAKE_RULE(args->dims || !args->num_dims, "%s was given no dimensions", function);
  FAKE_RULE(!args->byte_strides && !args->num_byte_strides, "%s was given strides", function);
  FAKE_RULE((unsigned)args->host_buffer_semantics <= PJRT_HostBufferSemantics_kMutableZeroCopy,
            "%s was given semantics %d", function, args->host_buffer_semantics);
  fake_tensor tensor = {.type = args->type, .rank = args->num_dims, .alias = -1};
  if (!fake_element_bytes(args->type) || args->num_dims > FAKE_MAX_RANK)
    return fake_error_text(PJRT_Error_Code_UNIMPLEMENTED, "the fake plugin has no such tensors");
  if (args->num_dims) memcpy(tensor.dims, args->dims, args->num_dims * sizeof *args->dims);
  for (size_t i = 0; i < tensor.rank; i++)
    FAKE_RULE(tensor.dims[i] >= 0, "%s was given a negative dimension", function);
  args->buffer = NULL;
  args->done_with_host_buffer = NULL;
  if (plan.lies) return NULL;
  bool adopts = args->host_buffer_semantics >= PJRT_HostBufferSemantics_kImmutableZeroCopy;
  bool copies_now = args->host_buffer_semantics == PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
  fake_storage *storage = fake_storage_make(adopts ? 0 : fake_tensor_bytes(&tensor));
  PJRT_Event *done = plan.event_null && !adopts ? NULL : fake_event_make();
  if (adopts) {
    free(storage->data);
    storage->data = (uint8_t *)args->data;
    storage->bytes = fake_tensor_bytes(&tensor);
    storage->adopted = done;
  } else if (copies_now) {
    memcpy(storage->data, args->data, storage->bytes);
  }
  args->buffer = fake_buffer_make(&tensor, storage, args->device, NULL);
  args->done_with_host_buffer = done;
  atomic_fetch_add(&storage->references, 1);
  upload *self = malloc(sizeof *self);
  *self = (upload){fake_pending_make(), storage, adopts || copies_now ? NULL : args->data};
  args->buffer->making = self->pending;
  if (done && !adopts) fake_pending_tell(self->pending, done);
  fake_when_planned(&plan, finish_upload, self);
  return NULL;
}

/* ---- to the host ---- */

typedef struct {
  PJRT_Event *event;
  PJRT_Buffer *buffer;
  void *to;
} download;

static void finish_download(void *user, const fake_plan *plan) {
  download *self = user;
  FAKE_RULE(self->buffer->storage, "a buffer was destroyed while it was read");
  memcpy(self->to, self->buffer->storage->data, self->buffer->storage->bytes);
  atomic_fetch_sub(&self->buffer->users, 1);
  if (self->event) fake_event_end(self->event, plan->event_code, plan->event_text, plan->event_text_bytes);
  free(self);
}

PJRT_Error *fake_Buffer_ToHostBuffer(PJRT_Buffer_ToHostBuffer_Args *args) {
  PJRT_Buffer *buffer = check(args->src, "Buffer_ToHostBuffer");
  FAKE_ENTER(Buffer_ToHostBuffer, buffer->own);
  if (!buffer->storage) return deleted();
  if (!args->dst) {
    args->dst_size = buffer->storage->bytes;
    return NULL;
  }
  FAKE_RULE(args->dst_size == buffer->storage->bytes, "Buffer_ToHostBuffer was given %zu bytes for %zu", args->dst_size,
            buffer->storage->bytes);
  FAKE_RULE(!args->host_layout || args->host_layout->struct_size == PJRT_Buffer_MemoryLayout_STRUCT_SIZE,
            "a layout has struct_size %zu", args->host_layout->struct_size);
  args->event = plan.event_null ? NULL : fake_event_make();
  download *self = malloc(sizeof *self);
  *self = (download){args->event, buffer, args->dst};
  atomic_fetch_add(&buffer->users, 1);
  fake_when_planned(&plan, finish_download, self);
  return NULL;
}

/* ---- the rest ---- */

PJRT_Error *fake_Buffer_Destroy(PJRT_Buffer_Destroy_Args *args) {
  PJRT_Buffer *buffer = check(args->buffer, "Buffer_Destroy");
  FAKE_ENTER_DESTROY(Buffer_Destroy, buffer->own);
  FAKE_RULE(!atomic_load(&buffer->users), "a buffer was destroyed while an execution or a copy uses it");
  fake_object_destroy(&buffer->object, FAKE_BUFFER, "Buffer_Destroy");
  fake_storage_release(buffer->storage);
  buffer->storage = NULL;
  return plan.error;
}

PJRT_Error *fake_Buffer_IsDeleted(PJRT_Buffer_IsDeleted_Args *args) {
  PJRT_Buffer *buffer = check(args->buffer, "Buffer_IsDeleted");
  FAKE_ENTER(Buffer_IsDeleted, buffer->own);
  args->is_deleted = plan.lies ? plan.lie != 0 : !buffer->storage;
  return NULL;
}

PJRT_Error *fake_Buffer_ReadyEvent(PJRT_Buffer_ReadyEvent_Args *args) {
  PJRT_Buffer *buffer = check(args->buffer, "Buffer_ReadyEvent");
  FAKE_ENTER(Buffer_ReadyEvent, buffer->own);
  if (!buffer->storage) return deleted();
  args->event = plan.event_null ? NULL : fake_event_make();
  if (!args->event) return NULL;
  if (plan.event_text || !buffer->making)
    fake_event_end(args->event, plan.event_code, plan.event_text, plan.event_text_bytes);
  else
    fake_pending_tell(buffer->making, args->event);
  return NULL;
}

/* `lie`: that address. */
PJRT_Error *fake_Buffer_UnsafePointer(PJRT_Buffer_UnsafePointer_Args *args) {
  PJRT_Buffer *buffer = check(args->buffer, "Buffer_UnsafePointer");
  FAKE_ENTER(Buffer_UnsafePointer, buffer->own);
  if (!buffer->storage) return deleted();
  args->buffer_pointer = plan.lies ? (uintptr_t)plan.lie : (uintptr_t)buffer->storage->data;
  return NULL;
}

/* `lie`: that many. */
PJRT_Error *fake_Buffer_OnDeviceSizeInBytes(PJRT_Buffer_OnDeviceSizeInBytes_Args *args) {
  PJRT_Buffer *buffer = check(args->buffer, "Buffer_OnDeviceSizeInBytes");
  FAKE_ENTER(Buffer_OnDeviceSizeInBytes, buffer->own);
  args->on_device_size_in_bytes = plan.lies ? (size_t)plan.lie : buffer->storage ? buffer->storage->bytes : 0;
  return NULL;
}
