/* Sessions. Any thread. */
#include <string.h>

#include "error_reply.h"
#include "method_ids.h"
#include "operation.h"
#include "pjrtd/v1/session.pb-c.h"
#include "reply_arena.h"

static pjrtc_failure *decode_open(pjrtc_future *call, const uint8_t *payload, size_t payload_bytes, const uint8_t *bulk,
                                  size_t bulk_bytes) {
  pjrtc_reply_arena *arena = pjrtc_reply_arena_create();
  if (!arena) return pjrtc_failure_oom();
  Pjrtd__V1__SessionOpenReply *reply =
      pjrtd__v1__session_open_reply__unpack(pjrtc_reply_arena_allocator(arena), payload_bytes, payload);
  bool good = reply && strlen(reply->token) < PJRTC_TOKEN_BYTES;
  if (good && call->to.session.first) *call->to.session.first = reply->session;
  if (good && call->to.session.token) strcpy(call->to.session.token, reply->token);
  return pjrtc_op_decoded(arena, good, "Session.Open");
}

static pjrtc_code open_session(pjrtc_client *client, const Pjrtd__V1__SessionOpenRequest *message,
                               uint64_t *out_session, char *out_token, pjrtc_error *error) {
  pjrtc_failure *failure = pjrtc_op_enter(client, true);
  if (failure) return pjrtc_failure_finish(failure, error);
  pjrtc_request request = {.method = PJRTC_METHOD_session_open};
  pjrtc_future *call;
  failure = pjrtc_op_begin(client, &request, &message->base, &call);
  if (!failure) {
    call->decode = decode_open;
    call->to.session.first = out_session;
    call->to.session.token = out_token;
    pjrtc_call_commit(client, &request, call);
    failure = pjrtc_op_wait(client, call, 0);
  }
  return pjrtc_op_leave(client, failure, error);
}

pjrtc_code pjrtc_session_open(pjrtc_client *client, uint64_t *out_session, char *out_token, pjrtc_error *error) {
  Pjrtd__V1__SessionOpenRequest message = PJRTD__V1__SESSION_OPEN_REQUEST__INIT;
  return open_session(client, &message, out_session, out_token, error);
}

pjrtc_code pjrtc_session_keep(pjrtc_client *client, const char *name, uint64_t ttl_ns, pjrtc_error *error) {
  Pjrtd__V1__SessionOpenRequest message = PJRTD__V1__SESSION_OPEN_REQUEST__INIT;
  if (name) message.name = (char *)name;
  message.ttl_ns = ttl_ns;
  return open_session(client, &message, NULL, NULL, error);
}

pjrtc_code pjrtc_session_set_priority(pjrtc_client *client, pjrtc_priority priority, pjrtc_error *error) {
  Pjrtd__V1__ConfigureRequest message = PJRTD__V1__CONFIGURE_REQUEST__INIT;
  message.priority = (Pjrtd__V1__SessionPriority)priority;
  return pjrtc_op_call(client, NULL, PJRTC_METHOD_session_configure, &message.base, error);
}

pjrtc_code pjrtc_session_set_home(pjrtc_client *client, int32_t device, pjrtc_error *error) {
  Pjrtd__V1__ConfigureRequest message = PJRTD__V1__CONFIGURE_REQUEST__INIT;
  message.home_case = PJRTD__V1__CONFIGURE_REQUEST__HOME_DEVICE;
  message.device = device;
  return pjrtc_op_call(client, NULL, PJRTC_METHOD_session_configure, &message.base, error);
}

static pjrtc_failure *decode_close(pjrtc_future *call, const uint8_t *payload, size_t payload_bytes,
                                   const uint8_t *bulk, size_t bulk_bytes) {
  pjrtc_reply_arena *arena = pjrtc_reply_arena_create();
  if (!arena) return pjrtc_failure_oom();
  Pjrtd__V1__SessionCloseReply *reply =
      pjrtd__v1__session_close_reply__unpack(pjrtc_reply_arena_allocator(arena), payload_bytes, payload);
  if (reply && call->to.session.first) *call->to.session.first = reply->buffers_freed;
  if (reply && call->to.session.second) *call->to.session.second = reply->programs_freed;
  return pjrtc_op_decoded(arena, reply != NULL, "Session.Close");
}

pjrtc_code pjrtc_session_close(pjrtc_client *client, uint64_t *out_buffers_freed, uint64_t *out_programs_freed,
                               pjrtc_error *error) {
  return pjrtc_session_close_other(client, 0, NULL, out_buffers_freed, out_programs_freed, error);
}

pjrtc_code pjrtc_session_close_other(pjrtc_client *client, uint64_t session, const char *name,
                                     uint64_t *out_buffers_freed, uint64_t *out_programs_freed, pjrtc_error *error) {
  pjrtc_failure *failure = pjrtc_op_enter(client, true);
  if (failure) return pjrtc_failure_finish(failure, error);
  Pjrtd__V1__SessionCloseRequest message = PJRTD__V1__SESSION_CLOSE_REQUEST__INIT;
  message.session = session;
  if (name) message.name = (char *)name;
  pjrtc_request request = {.method = PJRTC_METHOD_session_close};
  pjrtc_future *call;
  failure = pjrtc_op_begin(client, &request, &message.base, &call);
  if (!failure) {
    call->decode = decode_close;
    call->to.session.first = out_buffers_freed;
    call->to.session.second = out_programs_freed;
    pjrtc_call_commit(client, &request, call);
    failure = pjrtc_op_wait(client, call, 0);
  }
  return pjrtc_op_leave(client, failure, error);
}

/* ---- Sync ---- */

/* The sync's result is the first failure of a quiet call, as this reply tells it or as an ERROR frame did before; a
 * sync of the client's own may have taken it from the server already. */
static pjrtc_failure *decode_sync(pjrtc_future *call, const uint8_t *payload, size_t payload_bytes, const uint8_t *bulk,
                                  size_t bulk_bytes) {
  pjrtc_client *client = call->client;
  pjrtc_reply_arena *arena = pjrtc_reply_arena_create();
  if (!arena) return pjrtc_failure_oom();
  Pjrtd__V1__SyncReply *reply =
      pjrtd__v1__sync_reply__unpack(pjrtc_reply_arena_allocator(arena), payload_bytes, payload);
  if (reply && reply->failed_call && reply->error)
    pjrtc_calls_note_quiet_failure(client, pjrtc_error_reply_convert(reply->error, reply->failed_call));
  pjrtc_failure *failure = pjrtc_op_decoded(arena, reply != NULL, "Sync");
  if (failure) return failure;
  pjrtc_calls_note_quiet_ended(client, call->to.sync.quiet_sent);
  failure = client->quiet_failure;
  if (!call->held || !failure || failure->call > call->id) return NULL;
  client->quiet_failure = NULL;
  return failure;
}

static pjrtc_failure *start_sync(pjrtc_client *client, uint64_t timeout_ns, pjrtc_future **out_call) {
  pjrtc_request request = {.method = PJRTC_METHOD_session_sync, .timeout_ns = timeout_ns};
  pjrtc_failure *failure = pjrtc_op_begin(client, &request, NULL, out_call);
  if (failure) return failure;
  (*out_call)->decode = decode_sync;
  (*out_call)->to.sync.quiet_sent = client->quiet_sent;
  pjrtc_call_commit(client, &request, *out_call);
  return NULL;
}

pjrtc_code pjrtc_sync_start(pjrtc_client *client, uint64_t timeout_ns, pjrtc_future **out_future, pjrtc_error *error) {
  *out_future = NULL;
  pjrtc_failure *failure = pjrtc_op_enter(client, false);
  if (failure) return pjrtc_failure_finish(failure, error);
  pjrtc_future *call;
  failure = start_sync(client, timeout_ns, &call);
  return pjrtc_op_give(client, failure, call, out_future, error);
}

pjrtc_code pjrtc_sync(pjrtc_client *client, uint64_t timeout_ns, pjrtc_error *error) {
  pjrtc_failure *failure = pjrtc_op_enter(client, true);
  if (failure) return pjrtc_failure_finish(failure, error);
  pjrtc_future *call;
  failure = start_sync(client, timeout_ns, &call);
  if (!failure) failure = pjrtc_op_wait(client, call, timeout_ns);
  return pjrtc_op_leave(client, failure, error);
}
