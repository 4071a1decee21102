/* Downloads. Any thread. */
#include <stdlib.h>
#include <string.h>

#include "method_ids.h"
#include "operation.h"
#include "pjrtd/v1/buffer.pb-c.h"
#include "reply_arena.h"
#include "reply_value.h"
#include "tensor_size.h"

void pjrtc_call_drop_download(pjrtc_future *call) {
  if (call->to.download.value) pjrtc_reply_value_free(call->to.download.value);
  call->sink.allocated = false;
  call->sink.data = NULL;
}

/* The reply says type and size; the data is its bulk, or follows in ITEMs. */
static pjrtc_failure *announce(pjrtc_future *call, const Pjrtd__V1__DownloadReply *reply, const uint8_t *bulk,
                               size_t bulk_bytes) {
  const Pjrtd__V1__TensorType *type = reply->type;
  uint64_t size_bytes;
  if (!type || !pjrtc_tensor_size((pjrtc_dtype)type->dtype, (uint32_t)type->n_dims, type->dims, &size_bytes) ||
      type->n_dims > PJRTC_MAX_RANK || size_bytes != reply->data_bytes ||
      (bulk_bytes ? bulk_bytes != size_bytes : size_bytes && size_bytes <= call->client->hello.max_inline_bytes))
    return pjrtc_op_malformed("Download");
  call->sink.announced = true;
  call->sink.total_bytes = size_bytes;
  pjrtc_value *value = call->to.download.value;
  pjrtc_failure *failure = NULL;
  if (value) {
    bool allocates = !value->data;
    failure = pjrtc_reply_value_set(value, (pjrtc_dtype)type->dtype, (uint32_t)type->n_dims, type->dims, size_bytes,
                                    "buffer", call->to.download.buffer);
    call->sink.allocated = allocates && value->data;
    if (!failure) call->sink.data = value->data;
  }
  if (bulk_bytes) {
    if (call->sink.data) memcpy(call->sink.data, bulk, bulk_bytes);
    call->sink.received_bytes = bulk_bytes;
  }
  return failure;
}

static pjrtc_failure *decode(pjrtc_future *call, const uint8_t *payload, size_t payload_bytes, const uint8_t *bulk,
                             size_t bulk_bytes) {
  pjrtc_reply_arena *arena = pjrtc_reply_arena_create();
  if (!arena) return pjrtc_failure_oom();
  Pjrtd__V1__DownloadReply *reply =
      pjrtd__v1__download_reply__unpack(pjrtc_reply_arena_allocator(arena), payload_bytes, payload);
  pjrtc_failure *failure = reply ? announce(call, reply, bulk, bulk_bytes) : pjrtc_op_malformed("Download");
  pjrtc_reply_arena_destroy(arena);
  return failure;
}

static pjrtc_failure *start(pjrtc_client *client, uint64_t buffer, pjrtc_value *value, uint64_t timeout_ns,
                            pjrtc_future **out_call) {
  Pjrtd__V1__DownloadRequest message = PJRTD__V1__DOWNLOAD_REQUEST__INIT;
  message.buffer = buffer;
  pjrtc_request request = {.method = PJRTC_METHOD_buffer_download, .timeout_ns = timeout_ns};
  pjrtc_failure *failure = pjrtc_op_begin(client, &request, &message.base, out_call);
  if (failure) return failure;
  (*out_call)->decode = decode;
  (*out_call)->to.download.value = value;
  (*out_call)->to.download.buffer = buffer;
  pjrtc_call_commit(client, &request, *out_call);
  return NULL;
}

pjrtc_code pjrtc_download_start(pjrtc_client *client, uint64_t buffer, pjrtc_value *value, uint64_t timeout_ns,
                                pjrtc_future **out_future, pjrtc_error *error) {
  *out_future = NULL;
  pjrtc_failure *failure = pjrtc_op_enter(client, false);
  if (failure) return pjrtc_failure_finish(failure, error);
  pjrtc_future *call;
  failure = start(client, buffer, value, timeout_ns, &call);
  return pjrtc_op_give(client, failure, call, out_future, error);
}

pjrtc_code pjrtc_download(pjrtc_client *client, uint64_t buffer, pjrtc_value *value, uint64_t timeout_ns,
                          pjrtc_error *error) {
  pjrtc_failure *failure = pjrtc_op_enter(client, true);
  if (failure) return pjrtc_failure_finish(failure, error);
  pjrtc_future *call;
  failure = start(client, buffer, value, timeout_ns, &call);
  if (!failure) failure = pjrtc_op_wait(client, call, timeout_ns);
  return pjrtc_op_leave(client, failure, error);
}
