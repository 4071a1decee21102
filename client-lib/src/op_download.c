/* Downloads. Any thread. */
#include <stdlib.h>
#include <string.h>

#include "method_ids.h"
#include "operation.h"
#include "pjrtd/v1/buffer.pb-c.h"
#include "reply_value.h"
#include "tensor_size.h"
#include "wire_type.h"

void pjrtc_call_drop_download(pjrtc_future *call) {
  if (call->to.download.value) pjrtc_reply_value_free(call->to.download.value);
  call->sink.allocated = false;
  call->sink.data = NULL;
}

typedef struct {
  pjrtc_wire_type type;
  uint64_t data_bytes;
} download_reply;

enum { REPLY_TYPE = 1, REPLY_DATA_BYTES = 2 };

/* By hand, so that it needs no memory: the data that follows must find its place even where there is none left. */
static bool read_reply(const uint8_t *payload, size_t payload_bytes, download_reply *out_reply) {
  pjrtc_reader reader = pjrtc_reader_make(payload, payload_bytes);
  uint32_t field;
  unsigned wire_type;
  out_reply->type.dtype = PJRTC_DTYPE_INVALID;
  out_reply->type.rank = 0;
  out_reply->data_bytes = 0;
  while (pjrtc_field_next(&reader, &field, &wire_type)) {
    if (field == REPLY_TYPE && wire_type == PJRTC_WIRE_BYTES) {
      pjrtc_reader type = pjrtc_bytes_get(&reader);
      pjrtc_wire_type_read(&type, &out_reply->type);
      if (type.failed) pjrtc_reader_fail(&reader);
    } else if (field == REPLY_DATA_BYTES && wire_type == PJRTC_WIRE_VARINT) {
      out_reply->data_bytes = pjrtc_varint_get(&reader);
    } else {
      pjrtc_field_skip(&reader, wire_type);
    }
  }
  return !reader.failed;
}

/* The reply says type and size; the data is its bulk, or follows in ITEMs. */
static pjrtc_failure *decode(pjrtc_future *call, const uint8_t *payload, size_t payload_bytes, const uint8_t *bulk,
                             size_t bulk_bytes) {
  download_reply reply;
  uint64_t size_bytes;
  if (!read_reply(payload, payload_bytes, &reply) ||
      !pjrtc_tensor_size(reply.type.dtype, reply.type.rank, reply.type.dims, &size_bytes) ||
      size_bytes != reply.data_bytes ||
      (bulk_bytes ? bulk_bytes != size_bytes : size_bytes && size_bytes <= call->client->hello.max_inline_bytes))
    return pjrtc_op_malformed("Download");
  call->sink.announced = true;
  call->sink.total_bytes = size_bytes;
  pjrtc_value *value = call->to.download.value;
  pjrtc_failure *failure = NULL;
  if (value) {
    bool allocates = !value->data;
    failure = pjrtc_reply_value_set(value, reply.type.dtype, reply.type.rank, reply.type.dims, size_bytes, "buffer",
                                    call->to.download.buffer);
    call->sink.allocated = allocates && value->data;
    if (!failure) call->sink.data = value->data;
  }
  if (bulk_bytes) {
    if (call->sink.data) memcpy(call->sink.data, bulk, bulk_bytes);
    call->sink.received_bytes = bulk_bytes;
  }
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
