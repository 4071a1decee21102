/* One RPC of gRPC's (grpc_front.h): its operations, one of a kind at a time, and its end. Loop thread. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "service/convert.h"
#include "transport/grpc_front.h"

/* Of an error's text, and of its details: headers over 8 KB are refused by default, by gRPC and by others. */
#define MAX_STATUS_BYTES 2048

static grpc_rpc *rpc_of(grpc_tag *tag, size_t offset) {
  return (grpc_rpc *)((char *)tag - offset);
}

static void leave(grpc_rpc *rpc) {
  if (--rpc->pending || !rpc->ended) return;
  rpc->front->num_rpcs--;
  *rpc->link = rpc->next;
  if (rpc->next) rpc->next->link = rpc->link;
  if (rpc->incoming) grpc_byte_buffer_destroy(rpc->incoming);
  grpc_call_unref(rpc->call);
  rpc->events->free(rpc);
}

/* Every tag that is started comes back once. */
static void start(grpc_rpc *rpc, const grpc_op *ops, size_t count, grpc_tag *tag) {
  rpc->pending++;
  grpc_tag_start(tag);
  grpc_call_error error = grpc_call_start_batch(rpc->call, ops, count, tag, NULL);
  if (error == GRPC_CALL_OK) return;
  /* Only a mistake of ours: the operation is never under way. */
  pjrtd_log(PJRTD_LOG_ERROR, "gRPC refused an operation", PJRTD_LOG_TEXT("reason", grpc_call_error_to_string(error)));
  tag->ok = false;
  pjrtd_mailbox_post(rpc->front->runtime->mailbox, &tag->message);
}

static void on_received(grpc_tag *tag, bool ok) {
  grpc_rpc *rpc = rpc_of(tag, offsetof(grpc_rpc, received));
  rpc->receiving = false;
  grpc_byte_buffer *message = rpc->incoming;
  rpc->incoming = NULL;
  if (!rpc->ended && !rpc->finished) rpc->events->on_message(rpc, ok ? message : NULL);
  if (message) grpc_byte_buffer_destroy(message);
  leave(rpc);
}

static void on_sent(grpc_tag *tag, bool ok) {
  grpc_rpc *rpc = rpc_of(tag, offsetof(grpc_rpc, sent));
  rpc->sending = false;
  rpc->front->queued_bytes -= rpc->queued_bytes;
  rpc->queued_bytes = 0;
  if (!rpc->ended && !rpc->finished) rpc->events->on_sent(rpc, ok);
  leave(rpc);
}

static void on_closed(grpc_tag *tag, bool ok) {
  grpc_rpc *rpc = rpc_of(tag, offsetof(grpc_rpc, closed));
  rpc->ended = true;
  rpc->events->on_ended(rpc, rpc->cancelled || !ok);
  leave(rpc);
}

static void deliver(pjrtd_message *message) {
  grpc_tag *tag = (grpc_tag *)message;
  tag->done(tag, tag->ok);
}

grpc_tag grpc_tag_make(void (*done)(grpc_tag *tag, bool ok)) {
  return (grpc_tag){.message.deliver = deliver, .done = done};
}

void grpc_rpc_init(grpc_rpc *rpc, const grpc_rpc_events *events, grpc_front *front, grpc_call *call) {
  rpc->events = events;
  rpc->front = front;
  rpc->call = call;
  rpc->received = grpc_tag_make(on_received);
  rpc->sent = grpc_tag_make(on_sent);
  rpc->closed = grpc_tag_make(on_closed);
  rpc->next = front->rpcs;
  rpc->link = &front->rpcs;
  if (rpc->next) rpc->next->link = &rpc->next;
  front->rpcs = rpc;
  front->num_rpcs++;
  const grpc_op close = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER, .data.recv_close_on_server.cancelled = &rpc->cancelled};
  start(rpc, &close, 1, &rpc->closed);
}

void grpc_rpc_receive(grpc_rpc *rpc) {
  if (rpc->receiving || rpc->finished || rpc->ended) return;
  rpc->receiving = true;
  const grpc_op receive = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &rpc->incoming};
  start(rpc, &receive, 1, &rpc->received);
}

static size_t begin(grpc_rpc *rpc, grpc_op *op) {
  if (rpc->begun) return 0;
  rpc->begun = true;
  op->op = GRPC_OP_SEND_INITIAL_METADATA;
  return 1;
}

static size_t message_op(grpc_rpc *rpc, grpc_byte_buffer *message, grpc_op *op) {
  rpc->sending = true;
  rpc->sending_since_ns = pjrtd_clock_now_ns();
  if (!message) return 0;
  rpc->queued_bytes = grpc_byte_buffer_length(message);
  rpc->front->queued_bytes += rpc->queued_bytes;
  op->op = GRPC_OP_SEND_MESSAGE;
  op->data.send_message.send_message = message;
  return 1;
}

void grpc_rpc_send(grpc_rpc *rpc, grpc_byte_buffer *message) {
  if (rpc->finished || rpc->ended) {
    if (message) grpc_byte_buffer_destroy(message);
    return;
  }
  grpc_op ops[2];
  memset(ops, 0, sizeof ops);
  size_t count = begin(rpc, ops);
  count += message_op(rpc, message, ops + count);
  start(rpc, ops, count, &rpc->sent);
  if (message) grpc_byte_buffer_destroy(message); /* gRPC has taken what it needs */
}

static void finish(grpc_rpc *rpc, grpc_byte_buffer *message, uint32_t code, const char *text, const uint8_t *details,
                   size_t details_bytes) {
  if (rpc->finished || rpc->ended) {
    if (message) grpc_byte_buffer_destroy(message);
    return;
  }
  rpc->finished = true;
  grpc_op ops[3];
  memset(ops, 0, sizeof ops);
  size_t count = begin(rpc, ops);
  count += message_op(rpc, message, ops + count);
  grpc_op *end = &ops[count++];
  end->op = GRPC_OP_SEND_STATUS_FROM_SERVER;
  end->data.send_status_from_server.status = (grpc_status_code)code;
  grpc_slice said = text ? grpc_slice_from_copied_string(text) : grpc_empty_slice();
  grpc_metadata metadata = {.key = grpc_slice_from_static_string("pjrtd-error-bin"), .value = grpc_empty_slice()};
  if (text) end->data.send_status_from_server.status_details = &said;
  if (details_bytes && details_bytes <= MAX_STATUS_BYTES) {
    metadata.value = grpc_slice_from_copied_buffer((const char *)details, details_bytes);
    end->data.send_status_from_server.trailing_metadata_count = 1;
    end->data.send_status_from_server.trailing_metadata = &metadata;
  }
  start(rpc, ops, count, &rpc->sent);
  if (message) grpc_byte_buffer_destroy(message);
  grpc_slice_unref(said);
  grpc_slice_unref(metadata.value);
}

void grpc_rpc_finish(grpc_rpc *rpc, grpc_byte_buffer *message) {
  finish(rpc, message, 0, NULL, NULL, 0);
}

void grpc_rpc_fail(grpc_rpc *rpc, const uint8_t *error, size_t bytes) {
  Pjrtd__V1__Error *message = pjrtd__v1__error__unpack(NULL, bytes, error);
  if (!message) {
    finish(rpc, NULL, GRPC_STATUS_INTERNAL, "an error that cannot be told, for want of memory", NULL, 0);
    return;
  }
  char text[MAX_STATUS_BYTES];
  snprintf(text, sizeof text, "%s%s%s", message->message, *message->hint ? "\nhint: " : "", message->hint);
  uint8_t few[MAX_STATUS_BYTES];
  if (bytes > MAX_STATUS_BYTES) { /* the texts are told as gRPC's */
    Pjrtd__V1__Error details = *message;
    details.message = details.hint = "";
    bytes = pjrtd__v1__error__get_packed_size(&details);
    if (bytes <= sizeof few) pjrtd__v1__error__pack(&details, few);
    error = few;
  }
  finish(rpc, NULL, message->code, text, error, bytes);
  pjrtd__v1__error__free_unpacked(message, NULL);
}

void grpc_rpc_fail_status(grpc_rpc *rpc, pjrtd_status *status) {
  pjrtd_error_message error;
  pjrtd_error_message_fill(&error, status);
  size_t bytes = protobuf_c_message_get_packed_size(&error.message.base);
  uint8_t *packed = pjrtd_malloc(bytes);
  if (packed) protobuf_c_message_pack(&error.message.base, packed);
  grpc_rpc_fail(rpc, packed, packed ? bytes : 0);
  pjrtd_free(packed);
  pjrtd_status_destroy(status);
}

void grpc_rpc_cancel(grpc_rpc *rpc) {
  if (!rpc->ended) grpc_call_cancel_with_status(rpc->call, GRPC_STATUS_UNAVAILABLE, "the daemon ended the call", NULL);
}

void grpc_call_refuse(grpc_call *call, const char *why) {
  grpc_call_cancel_with_status(call, GRPC_STATUS_RESOURCE_EXHAUSTED, why, NULL);
  grpc_call_unref(call);
}

static void free_bytes(void *bytes) {
  pjrtd_free(bytes);
}

grpc_slice grpc_slice_of(uint8_t *bytes, size_t count) {
  return grpc_slice_new_with_user_data(bytes, count, free_bytes, bytes);
}

grpc_byte_buffer *grpc_message_of(uint8_t *bytes, size_t count) {
  grpc_slice slice = grpc_slice_of(bytes, count);
  grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&slice, 1);
  grpc_slice_unref(slice);
  return message;
}

grpc_slice grpc_message_bytes(grpc_byte_buffer *message) {
  grpc_byte_buffer_reader reader;
  if (!grpc_byte_buffer_reader_init(&reader, message)) return grpc_empty_slice();
  grpc_slice slice = grpc_byte_buffer_reader_readall(&reader);
  grpc_byte_buffer_reader_destroy(&reader);
  return slice;
}
