/* Asking about buffers and deleting them. Any thread. */
#include <string.h>

#include "method_ids.h"
#include "operation.h"
#include "pjrtd/v1/buffer.pb-c.h"
#include "reply_arena.h"

/* ---- Stat ---- */

static bool fill(pjrtc_buffer_info *out, const Pjrtd__V1__StatReply *reply) {
  const Pjrtd__V1__TensorType *type = reply->type;
  if (!type || type->n_dims > PJRTC_MAX_RANK) return false;
  pjrtc_buffer_info info = {
      .struct_size = out->struct_size,
      .dtype = (pjrtc_dtype)type->dtype,
      .rank = (uint32_t)type->n_dims,
      .host_bytes = reply->host_bytes,
      .device_bytes = reply->device_bytes,
      .device = reply->device,
      .memory = reply->memory,
      .is_deleted = reply->is_deleted,
  };
  if (type->n_dims) memcpy(info.dims, type->dims, type->n_dims * sizeof *type->dims);
  strncpy(info.memory_kind, reply->memory_kind, sizeof info.memory_kind - 1);
  memcpy(out, &info, out->struct_size < sizeof info ? out->struct_size : sizeof info);
  return true;
}

static pjrtc_failure *decode_stat(pjrtc_future *call, const uint8_t *payload, size_t payload_bytes, const uint8_t *bulk,
                                  size_t bulk_bytes) {
  if (!call->to.buffer_info) return NULL;
  pjrtc_reply_arena *arena = pjrtc_reply_arena_create();
  if (!arena) return pjrtc_failure_oom();
  Pjrtd__V1__StatReply *reply =
      pjrtd__v1__stat_reply__unpack(pjrtc_reply_arena_allocator(arena), payload_bytes, payload);
  return pjrtc_op_decoded(arena, reply && fill(call->to.buffer_info, reply), "Stat");
}

static pjrtc_failure *check_stat(const pjrtc_buffer_info *out_info) {
  if (out_info->struct_size >= sizeof *out_info) return NULL;
  return pjrtc_failure_make(PJRTC_INVALID_ARGUMENT, "set it to sizeof(pjrtc_buffer_info)",
                            "pjrtc_buffer_info.struct_size is not set");
}

static pjrtc_failure *start_stat(pjrtc_client *client, uint64_t buffer, pjrtc_buffer_info *out_info,
                                 pjrtc_future **out_call) {
  Pjrtd__V1__BufferRequest message = PJRTD__V1__BUFFER_REQUEST__INIT;
  message.buffer = buffer;
  pjrtc_request request = {.method = PJRTC_METHOD_buffer_stat};
  pjrtc_failure *failure = pjrtc_op_begin(client, &request, &message.base, out_call);
  if (failure) return failure;
  (*out_call)->decode = decode_stat;
  (*out_call)->to.buffer_info = out_info;
  pjrtc_call_commit(client, &request, *out_call);
  return NULL;
}

pjrtc_code pjrtc_stat_start(pjrtc_client *client, uint64_t buffer, pjrtc_buffer_info *out_info,
                            pjrtc_future **out_future, pjrtc_error *error) {
  *out_future = NULL;
  pjrtc_failure *failure = check_stat(out_info);
  if (!failure) failure = pjrtc_op_enter(client, false);
  if (failure) return pjrtc_failure_finish(failure, error);
  pjrtc_future *call;
  failure = start_stat(client, buffer, out_info, &call);
  return pjrtc_op_give(client, failure, call, out_future, error);
}

pjrtc_code pjrtc_stat(pjrtc_client *client, uint64_t buffer, pjrtc_buffer_info *out_info, pjrtc_error *error) {
  pjrtc_failure *failure = check_stat(out_info);
  if (!failure) failure = pjrtc_op_enter(client, true);
  if (failure) return pjrtc_failure_finish(failure, error);
  pjrtc_future *call;
  failure = start_stat(client, buffer, out_info, &call);
  if (!failure) failure = pjrtc_op_wait(client, call, 0);
  return pjrtc_op_leave(client, failure, error);
}

/* ---- Delete ---- */

static Pjrtd__V1__DeleteRequest delete_of(const uint64_t *buffers, size_t num_buffers) {
  Pjrtd__V1__DeleteRequest message = PJRTD__V1__DELETE_REQUEST__INIT;
  message.n_buffers = num_buffers;
  message.buffers = (uint64_t *)buffers;
  return message;
}

pjrtc_code pjrtc_delete_start(pjrtc_client *client, const uint64_t *buffers, size_t num_buffers,
                              pjrtc_future **out_future, pjrtc_error *error) {
  Pjrtd__V1__DeleteRequest message = delete_of(buffers, num_buffers);
  return pjrtc_op_start(client, NULL, PJRTC_METHOD_buffer_delete, &message.base, out_future, error);
}

pjrtc_code pjrtc_delete(pjrtc_client *client, const uint64_t *buffers, size_t num_buffers, pjrtc_error *error) {
  Pjrtd__V1__DeleteRequest message = delete_of(buffers, num_buffers);
  return pjrtc_op_call(client, NULL, PJRTC_METHOD_buffer_delete, &message.base, error);
}
