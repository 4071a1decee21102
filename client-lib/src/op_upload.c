/* Uploads, and sending a call's data in general. Any thread. */
#include <stdlib.h>
#include <string.h>

#include "bulk_source.h"
#include "heap.h"
#include "method_ids.h"
#include "operation.h"
#include "pjrtd/v1/buffer.pb-c.h"
#include "tensor_size.h"

/* ---- Bulk ---- */

void pjrtc_bulk_plan(const pjrtc_client *client, uint64_t size_bytes, pjrtc_request *request) {
  bool inside = size_bytes <= client->hello.max_inline_bytes;
  request->bulk_bytes = inside ? size_bytes : 0;
  request->item_bytes = inside ? 0 : size_bytes;
}

static bool is_sent(pjrtc_client *client, void *user) {
  pjrtc_future *call = user;
  return call->done || (call->source.left_bytes == 0 && client->outbox.item_call != call);
}

pjrtc_failure *pjrtc_bulk_send_quiet(pjrtc_client *client, pjrtc_future *call) {
  pjrtc_driver_wait(client, call, is_sent, call, PJRTC_NO_DEADLINE);
  bool lost = client->lost != NULL;
  /* The server does not answer any more, unless to tell a failure. */
  if (!call->done) pjrtc_call_complete(client, call, NULL);
  pjrtc_call_let_go(client, call);
  return lost ? pjrtc_failure_retain(client->lost) : NULL;
}

pjrtc_failure *pjrtc_bulk_check_quiet(const pjrtc_client *client, const pjrtc_request *request) {
  if (!request->quiet || !request->item_bytes) return NULL;
  if (!client->nonblocking) return pjrtc_op_may_wait(client);
  return pjrtc_failure_make(PJRTC_INVALID_ARGUMENT, "ask for a future",
                            "a quiet call with more than %u bytes of data waits until they are sent, and this client "
                            "must not block",
                            client->hello.max_inline_bytes);
}

/* ---- Upload ---- */

static void set_placement(Pjrtd__V1__UploadRequest *message, const pjrtc_upload_options *options) {
  if (options->placement == PJRTC_PLACE_DEVICE) {
    message->placement_case = PJRTD__V1__UPLOAD_REQUEST__PLACEMENT_DEVICE;
    message->device = options->place;
  } else if (options->placement == PJRTC_PLACE_MEMORY) {
    message->placement_case = PJRTD__V1__UPLOAD_REQUEST__PLACEMENT_MEMORY;
    message->memory = options->place;
  }
}

static pjrtc_failure *check(const pjrtc_upload_options *options, uint64_t *out_size_bytes) {
  pjrtc_failure *failure = pjrtc_tensor_check(&options->type, out_size_bytes);
  if (failure) return failure;
  if (*out_size_bytes && !options->data)
    return pjrtc_failure_make(PJRTC_INVALID_ARGUMENT, NULL, "there is no data to upload");
  if ((unsigned)options->placement > PJRTC_PLACE_MEMORY)
    return pjrtc_failure_make(PJRTC_INVALID_ARGUMENT, NULL, "placement %d does not exist", (int)options->placement);
  return NULL;
}

/* With the lock. `*out_call` is NULL for a quiet call that is done as far as the client is concerned. */
static pjrtc_failure *start(pjrtc_client *client, const pjrtc_upload_options *options, uint64_t size_bytes, bool quiet,
                            uint64_t *out_buffer, pjrtc_future **out_call) {
  *out_call = NULL;
  pjrtc_strided walk, *owned_walk = NULL;
  bool dense = !options->byte_strides || !size_bytes;
  if (!dense) {
    pjrtc_strided_init(&walk, &options->type, options->data, options->byte_strides);
    dense = pjrtc_strided_is_dense(&walk);
  }
  pjrtc_request request = {.method = PJRTC_METHOD_buffer_upload, .timeout_ns = options->timeout_ns, .quiet = quiet};
  pjrtc_bulk_plan(client, size_bytes, &request);
  pjrtc_failure *failure = pjrtc_bulk_check_quiet(client, &request);
  if (failure) return failure;
  if (request.item_bytes && !dense) {
    owned_walk = pjrtc_heap_alloc(sizeof walk);
    if (!owned_walk) return pjrtc_failure_oom();
    *owned_walk = walk;
  }

  Pjrtd__V1__TensorType type = PJRTD__V1__TENSOR_TYPE__INIT;
  type.dtype = (Pjrtd__V1__DType)options->type.dtype;
  type.n_dims = options->type.rank;
  type.dims = (int64_t *)options->type.dims;
  Pjrtd__V1__UploadRequest message = PJRTD__V1__UPLOAD_REQUEST__INIT;
  message.buffer = client->next_buffer;
  message.type = &type;
  message.data_bytes = size_bytes;
  set_placement(&message, options);
  pjrtc_future *call;
  uint8_t *bulk;
  failure = pjrtc_op_begin_with_bulk(client, &request, &message.base, &call, &bulk);
  if (failure) {
    free(owned_walk);
    return failure;
  }
  *out_buffer = client->next_buffer++;
  if (request.bulk_bytes && dense) memcpy(bulk, options->data, size_bytes);
  if (request.bulk_bytes && !dense) pjrtc_strided_read(&walk, bulk, size_bytes);
  if (request.item_bytes) {
    call->source.left_bytes = size_bytes;
    call->source.walk = owned_walk;
    call->source.data = owned_walk ? NULL : options->data;
  }
  pjrtc_call_commit(client, &request, call);
  if (quiet && call) return pjrtc_bulk_send_quiet(client, call);
  *out_call = call;
  return NULL;
}

pjrtc_code pjrtc_upload_start(pjrtc_client *client, const pjrtc_upload_options *options, uint64_t *out_buffer,
                              pjrtc_future **out_future, pjrtc_error *error) {
  pjrtc_upload_options own;
  uint64_t size_bytes;
  *out_buffer = 0;
  if (out_future) *out_future = NULL;
  pjrtc_failure *failure = pjrtc_op_options(&own, sizeof own, options, "pjrtc_upload_options");
  if (!failure) failure = check(&own, &size_bytes);
  if (!failure) failure = pjrtc_op_enter(client, false);
  if (failure) return pjrtc_failure_finish(failure, error);
  pjrtc_future *call;
  failure = start(client, &own, size_bytes, !out_future, out_buffer, &call);
  return pjrtc_op_give(client, failure, call, out_future, error);
}

pjrtc_code pjrtc_upload(pjrtc_client *client, const pjrtc_upload_options *options, uint64_t *out_buffer,
                        pjrtc_error *error) {
  pjrtc_upload_options own;
  uint64_t size_bytes;
  *out_buffer = 0;
  pjrtc_failure *failure = pjrtc_op_options(&own, sizeof own, options, "pjrtc_upload_options");
  if (!failure) failure = check(&own, &size_bytes);
  if (!failure) failure = pjrtc_op_enter(client, true);
  if (failure) return pjrtc_failure_finish(failure, error);
  pjrtc_future *call;
  failure = start(client, &own, size_bytes, false, out_buffer, &call);
  if (!failure) {
    failure = pjrtc_op_wait(client, call, own.timeout_ns);
    if (failure) pjrtc_op_forget_buffers(client, out_buffer, 1);
  }
  if (failure) *out_buffer = 0;
  return pjrtc_op_leave(client, failure, error);
}
