/* See operation.h. */
#include "operation.h"

#include <inttypes.h>
#include <string.h>

#include "method_ids.h"
#include "pjrtd/v1/buffer.pb-c.h"
#include "pjrtd/v1/program.pb-c.h"

/* How much longer than the deadline an answer is waited for, before the client gives up by itself. */
#define ANSWER_GRACE_NS 1000000000u

pjrtc_failure *pjrtc_op_may_wait(const pjrtc_client *client) {
  if (!pjrtc_client_is_in_item(client)) return NULL;
  return pjrtc_failure_make(PJRTC_FAILED_PRECONDITION, "start calls in it, and wait for them after it",
                            "a run's callback cannot wait, since nothing is read until it returns");
}

pjrtc_failure *pjrtc_op_enter(pjrtc_client *client, bool waits) {
  if (pjrtc_fork_guard_is_child(&client->fork_guard))
    return pjrtc_failure_make(PJRTC_FAILED_PRECONDITION, "connect again in the child",
                              "this connection to %s belongs to the process that was forked", client->target);
  pthread_mutex_lock(&client->lock);
  pjrtc_failure *failure = waits ? pjrtc_op_may_wait(client) : NULL;
  if (!failure) failure = pjrtc_calls_wait_for_room(client, waits);
  if (failure) pthread_mutex_unlock(&client->lock);
  return failure;
}

pjrtc_code pjrtc_op_leave(pjrtc_client *client, pjrtc_failure *failure, pjrtc_error *error) {
  pthread_mutex_unlock(&client->lock);
  return pjrtc_failure_finish(failure, error);
}

pjrtc_failure *pjrtc_op_begin(pjrtc_client *client, pjrtc_request *request, const ProtobufCMessage *message,
                              pjrtc_future **out_call) {
  uint8_t *bulk;
  return pjrtc_op_begin_with_bulk(client, request, message, out_call, &bulk);
}

pjrtc_failure *pjrtc_op_begin_with_bulk(pjrtc_client *client, pjrtc_request *request, const ProtobufCMessage *message,
                                        pjrtc_future **out_call, uint8_t **out_bulk) {
  uint8_t *payload;
  request->payload_bytes = message ? protobuf_c_message_get_packed_size(message) : 0;
  pjrtc_failure *failure = pjrtc_call_begin(client, request, out_call, &payload);
  if (failure) return failure;
  if (message) protobuf_c_message_pack(message, payload);
  *out_bulk = payload + request->payload_bytes;
  if (*out_call) (*out_call)->decode = pjrtc_op_decode_empty;
  return NULL;
}

pjrtc_failure *pjrtc_op_wait(pjrtc_client *client, pjrtc_future *call, uint64_t timeout_ns) {
  uint64_t deadline_ns = PJRTC_NO_DEADLINE;
  if (timeout_ns && timeout_ns < INT64_MAX) deadline_ns = pjrtc_now_ns() + timeout_ns + ANSWER_GRACE_NS;
  pjrtc_failure *failure = NULL;
  if (pjrtc_driver_wait_done(client, call, deadline_ns)) {
    failure = call->failure;
    call->failure = NULL;
  } else {
    failure = pjrtc_failure_make(PJRTC_DEADLINE_EXCEEDED, "pjrtd may be stopped or overloaded",
                                 "%s did not answer within the deadline of %" PRIu64 " ms", client->target,
                                 timeout_ns / 1000000);
  }
  pjrtc_call_let_go(client, call);
  return failure;
}

pjrtc_code pjrtc_op_give(pjrtc_client *client, pjrtc_failure *failure, pjrtc_future *call, pjrtc_future **out_future,
                         pjrtc_error *error) {
  if (out_future) *out_future = failure ? NULL : call;
  return pjrtc_op_leave(client, failure, error);
}

static pjrtc_failure *start(pjrtc_client *client, uint16_t method, const ProtobufCMessage *message, bool quiet,
                            pjrtc_future **out_call) {
  pjrtc_request request = {.method = method, .quiet = quiet};
  pjrtc_failure *failure = pjrtc_op_begin(client, &request, message, out_call);
  if (!failure) pjrtc_call_commit(client, &request, *out_call);
  return failure;
}

pjrtc_code pjrtc_op_start(pjrtc_client *client, pjrtc_failure *failure, uint16_t method,
                          const ProtobufCMessage *message, pjrtc_future **out_future, pjrtc_error *error) {
  if (out_future) *out_future = NULL;
  if (!failure) failure = pjrtc_op_enter(client, false);
  if (failure) return pjrtc_failure_finish(failure, error);
  pjrtc_future *call;
  failure = start(client, method, message, !out_future, &call);
  return pjrtc_op_give(client, failure, call, out_future, error);
}

pjrtc_code pjrtc_op_call(pjrtc_client *client, pjrtc_failure *failure, uint16_t method, const ProtobufCMessage *message,
                         pjrtc_error *error) {
  return pjrtc_op_get(client, failure, method, message, pjrtc_op_decode_empty, NULL, error);
}

pjrtc_code pjrtc_op_get(pjrtc_client *client, pjrtc_failure *failure, uint16_t method, const ProtobufCMessage *message,
                        pjrtc_decode *decode, void **out_object, pjrtc_error *error) {
  if (!failure) failure = pjrtc_op_enter(client, true);
  if (failure) return pjrtc_failure_finish(failure, error);
  pjrtc_request request = {.method = method};
  pjrtc_future *call;
  failure = pjrtc_op_begin(client, &request, message, &call);
  if (!failure) {
    call->decode = decode;
    call->to.object = out_object;
    pjrtc_call_commit(client, &request, call);
    failure = pjrtc_op_wait(client, call, 0);
  }
  return pjrtc_op_leave(client, failure, error);
}

void pjrtc_op_detach(pjrtc_client *client, pjrtc_future *call) {
  call->held = false;
  client->num_held--;
}

pjrtc_failure *pjrtc_op_malformed(const char *name) {
  return pjrtc_failure_make(PJRTC_INTERNAL, "client and server may be of different versions",
                            "the server's reply to %s is malformed", name);
}

pjrtc_failure *pjrtc_op_decoded(pjrtc_reply_arena *arena, bool good, const char *name) {
  bool failed = pjrtc_reply_arena_failed(arena);
  pjrtc_reply_arena_destroy(arena);
  if (good) return NULL;
  return failed ? pjrtc_failure_oom() : pjrtc_op_malformed(name);
}

uint64_t pjrtc_op_next_id(uint32_t prefix, uint64_t highest) {
  uint64_t first = ((uint64_t)prefix << 48) + 1;
  return highest >= first ? highest + 1 : first;
}

pjrtc_failure *pjrtc_op_decode_empty(pjrtc_future *call, const uint8_t *payload, size_t payload_bytes,
                                     const uint8_t *bulk, size_t bulk_bytes) {
  return NULL;
}

pjrtc_failure *pjrtc_op_options(void *out_options, size_t size_bytes, const void *options, const char *name) {
  size_t given_bytes = 0;
  memset(out_options, 0, size_bytes);
  if (options) memcpy(&given_bytes, options, sizeof given_bytes);
  if (given_bytes < sizeof given_bytes)
    return pjrtc_failure_make(PJRTC_INVALID_ARGUMENT, "set struct_size to sizeof the struct, and the rest to zero",
                              "%s.struct_size is not set", name);
  const uint8_t *bytes = options;
  for (size_t i = size_bytes; i < given_bytes; i++)
    if (bytes[i])
      return pjrtc_failure_make(PJRTC_UNIMPLEMENTED, "install a newer libpjrtc",
                                "%s has %zu bytes and sets options that libpjrtc %s does not know", name, given_bytes,
                                pjrtc_version());
  memcpy(out_options, options, given_bytes < size_bytes ? given_bytes : size_bytes);
  return NULL;
}

static void forget(pjrtc_client *client, uint16_t method, const ProtobufCMessage *message) {
  pjrtc_request request = {.method = method};
  pjrtc_future *call;
  pjrtc_failure *failure =
      client->lost ? pjrtc_failure_retain(client->lost) : pjrtc_op_begin(client, &request, message, &call);
  if (failure) {
    pjrtc_failure_release(failure); /* the ids go when the session does */
    return;
  }
  pjrtc_op_detach(client, call);
  pjrtc_call_commit(client, &request, call);
}

void pjrtc_op_forget_buffers(pjrtc_client *client, const uint64_t *buffers, size_t num_buffers) {
  Pjrtd__V1__DeleteRequest message = PJRTD__V1__DELETE_REQUEST__INIT;
  message.n_buffers = num_buffers;
  message.buffers = (uint64_t *)buffers;
  if (num_buffers) forget(client, PJRTC_METHOD_buffer_delete, &message.base);
}

void pjrtc_op_forget_program(pjrtc_client *client, uint64_t program) {
  Pjrtd__V1__ReleaseRequest message = PJRTD__V1__RELEASE_REQUEST__INIT;
  message.n_programs = 1;
  message.programs = &program;
  forget(client, PJRTC_METHOD_program_release, &message.base);
}
