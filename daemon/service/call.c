/* See call.h. */
#include "service/call.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "service/convert.h"

bool pjrtd_send_frame(pjrtd_peer *peer, const pjrtd_frame_header *about, uint8_t kind,
                      const ProtobufCMessage *message) {
  size_t size = protobuf_c_message_get_packed_size(message);
  /* Only an error's text can be that long. */
  if (size > PJRTD_FRAME_MAX_PAYLOAD_BYTES) {
    pjrtd_log(PJRTD_LOG_ERROR, "an answer is too long for a frame", PJRTD_LOG_UINT("bytes", size));
    return false;
  }
  pjrtd_frame_header header = {
      .payload_bytes = (uint32_t)size, .method = about->method, .kind = kind, .call = about->call};
  uint8_t *payload, *bulk;
  if (!peer->transport->begin_frame(peer, &header, &payload, &bulk)) return false;
  protobuf_c_message_pack(message, payload);
  peer->transport->end_frame(peer);
  return true;
}

/* The bulk's place; NULL: there is nothing to answer. */
static uint8_t *begin_answer(pjrtd_peer *peer, const pjrtd_frame_header *request, uint8_t kind,
                             const ProtobufCMessage *reply, uint32_t bulk_bytes) {
  if (request->quiet || !peer || peer->gone) return NULL;
  pjrtd_frame_header header = {.payload_bytes = (uint32_t)protobuf_c_message_get_packed_size(reply),
                               .bulk_bytes = bulk_bytes,
                               .method = request->method,
                               .kind = kind,
                               .call = request->call};
  if (header.payload_bytes > PJRTD_FRAME_MAX_PAYLOAD_BYTES) {
    pjrtd_answer_error(peer, request,
                       pjrtd_status_make(PJRTD_CODE_OUT_OF_RANGE, "the answer has %u bytes, a frame carries %u",
                                         header.payload_bytes, PJRTD_FRAME_MAX_PAYLOAD_BYTES));
    return NULL;
  }
  uint8_t *payload, *bulk;
  if (!peer->transport->begin_frame(peer, &header, &payload, &bulk)) return NULL;
  protobuf_c_message_pack(reply, payload);
  return bulk;
}

bool pjrtd_answer_begin(pjrtd_peer *peer, const pjrtd_frame_header *request, const ProtobufCMessage *reply,
                        uint32_t bulk_bytes, uint8_t **out_bulk) {
  *out_bulk = begin_answer(peer, request, PJRTD_FRAME_REPLY, reply, bulk_bytes);
  return *out_bulk != NULL;
}

void pjrtd_answer_end(pjrtd_peer *peer) {
  peer->transport->end_frame(peer);
}

static void answer_whole(pjrtd_peer *peer, const pjrtd_frame_header *request, uint8_t kind,
                         const ProtobufCMessage *message, const void *bulk, uint32_t bulk_bytes) {
  uint8_t *place = begin_answer(peer, request, kind, message, bulk_bytes);
  if (!place) return;
  if (bulk_bytes) memcpy(place, bulk, bulk_bytes);
  peer->transport->end_frame(peer);
}

void pjrtd_answer_item(pjrtd_peer *peer, const pjrtd_frame_header *request, const ProtobufCMessage *message,
                       const void *bulk, uint32_t bulk_bytes) {
  answer_whole(peer, request, PJRTD_FRAME_ITEM, message, bulk, bulk_bytes);
}

void pjrtd_answer(pjrtd_peer *peer, const pjrtd_frame_header *request, const ProtobufCMessage *reply, const void *bulk,
                  uint32_t bulk_bytes) {
  answer_whole(peer, request, PJRTD_FRAME_REPLY, reply, bulk, bulk_bytes);
}

void pjrtd_request_answer(const pjrtd_request *request, const ProtobufCMessage *reply, const void *bulk,
                          uint32_t bulk_bytes) {
  pjrtd_answer(request->peer, request->header, reply, bulk, bulk_bytes);
}

pjrtd_status *pjrtd_request_done(const pjrtd_request *request) {
  const Pjrtd__V1__Empty reply = PJRTD__V1__EMPTY__INIT;
  pjrtd_request_answer(request, &reply.base, NULL, 0);
  return PJRTD_OK;
}

void pjrtd_answer_error(pjrtd_peer *peer, const pjrtd_frame_header *request, pjrtd_status *status) {
  peer->runtime->stats.calls_failed++;
  /* The first in the order of the requests, whatever order they fail in. */
  if (request->quiet && (!peer->failed_call || request->call < peer->failed_call)) {
    peer->failed_call = request->call;
    pjrtd_status_destroy(peer->failure);
    peer->failure = pjrtd_status_retain(status);
  }
  if (!peer->gone) {
    pjrtd_error_message error;
    pjrtd_error_message_fill(&error, status);
    pjrtd_send_frame(peer, request, PJRTD_FRAME_ERROR, &error.message.base);
  }
  pjrtd_status_destroy(status);
}

/* ---- calls ---- */

static void on_deadline(pjrtd_deadline *deadline) {
  pjrtd_call *call = (pjrtd_call *)((char *)deadline - offsetof(pjrtd_call, deadline));
  pjrtd_runtime *runtime = call->runtime;
  pjrtd_runtime_enter(runtime);
  pjrtd_peer_abandon_call(
      call, pjrtd_status_make(PJRTD_CODE_DEADLINE_EXCEEDED, "the call did not end within its deadline of %.3f s",
                              (double)call->header.deadline_ns / 1e9));
  pjrtd_runtime_settle(runtime);
  if (runtime->flush) runtime->flush(runtime->flush_user);
}

/* One call at a time is always allowed, however big. */
static pjrtd_status *check_identity(const pjrtd_account *account, size_t bytes) {
  PJRTD_TRY(pjrtd_account_check(account, PJRTD_QUOTA_CALLS, 1, "the call"));
  if (!account->owner->used[PJRTD_QUOTA_CALLS]) return PJRTD_OK;
  return pjrtd_account_check(account, PJRTD_QUOTA_QUEUED_BYTES, bytes, "the call");
}

pjrtd_status *pjrtd_call_create(const pjrtd_request *request, size_t size_bytes, uint32_t num_holds,
                                void (*ready)(pjrtd_operation *operation),
                                void (*abandon)(pjrtd_call *call, pjrtd_status *why), void *out_call) {
  *(pjrtd_call **)out_call = NULL;
  pjrtd_peer *peer = request->peer;
  uint64_t most = peer->runtime->settings->max_calls_in_flight;
  if (peer->calls.count >= most)
    return pjrtd_status_with_retry(
        pjrtd_status_with_hint(pjrtd_status_make(PJRTD_CODE_RESOURCE_EXHAUSTED,
                                                 "the connection has %" PRIu64 " calls under way, the most it may have",
                                                 peer->calls.count),
                               "wait for answers before sending more, or raise max_calls_in_flight"),
        1000000);
  size_t holds_at = pjrtd_call_aligned(size_bytes);
  size_t total_bytes = holds_at + num_holds * sizeof(pjrtd_hold) + request->header->bulk_bytes;
  if (peer->calls.count && peer->call_bytes + total_bytes > peer->runtime->settings->max_queued_bytes)
    return pjrtd_status_with_retry(
        pjrtd_status_with_hint(pjrtd_status_make(PJRTD_CODE_RESOURCE_EXHAUSTED,
                                                 "the connection's %" PRIu64 " calls under way take %" PRIu64 " bytes",
                                                 peer->calls.count, peer->call_bytes),
                               "wait for answers before sending more, or raise max_queued_bytes"),
        1000000);
  pjrtd_account *account = peer->session ? peer->session->account : NULL;
  if (account) PJRTD_TRY(check_identity(account, total_bytes));
  PJRTD_TRY(pjrtd_id_map_reserve(&peer->calls, 1));
  pjrtd_call *call = pjrtd_calloc(1, total_bytes - request->header->bulk_bytes);
  if (!call) return pjrtd_status_oom();
  call->size_bytes = total_bytes;
  call->runtime = peer->runtime;
  call->peer = peer;
  call->header = *request->header;
  call->abandon = abandon;
  pjrtd_operation_init(&call->operation, &peer->runtime->ready, (pjrtd_hold *)((char *)call + holds_at), num_holds,
                       ready);
  if (call->header.deadline_ns) {
    uint64_t now_ns = pjrtd_clock_now_ns();
    if (__builtin_add_overflow(now_ns, call->header.deadline_ns, &call->deadline.at_ns))
      call->deadline.at_ns = UINT64_MAX;
    call->deadline.passed = on_deadline;
    pjrtd_status *status = pjrtd_deadlines_add(&peer->runtime->deadlines, &call->deadline);
    if (status) {
      pjrtd_free(call);
      return status;
    }
  }
  pjrtd_status_destroy(pjrtd_id_map_insert(&peer->calls, call->header.call, call)); /* reserved: cannot fail */
  call->older = peer->newest;
  if (peer->newest)
    peer->newest->newer = call;
  else
    peer->oldest = call;
  peer->newest = call;
  peer->call_bytes += total_bytes;
  if (account) {
    call->account = pjrtd_account_retain(account);
    pjrtd_account_charge(account, PJRTD_QUOTA_CALLS, 1);
    pjrtd_account_charge(account, PJRTD_QUOTA_QUEUED_BYTES, total_bytes);
  }
  peer->runtime->stats.calls_in_flight++;
  *(pjrtd_call **)out_call = call;
  return PJRTD_OK;
}

bool pjrtd_call_park(pjrtd_call *call) {
  if (!call->peer || call->header.quiet || !call->peer->transport->is_full(call->peer, call->header.call)) return false;
  pjrtd_operation_requeue(&call->operation, &call->peer->parked);
  return true;
}

void pjrtd_call_detach(pjrtd_call *call) {
  pjrtd_peer *peer = call->peer;
  if (!peer) return;
  call->peer = NULL;
  peer->call_bytes -= call->size_bytes;
  if (call->account) {
    pjrtd_account_give_back(call->account, PJRTD_QUOTA_CALLS, 1);
    pjrtd_account_give_back(call->account, PJRTD_QUOTA_QUEUED_BYTES, call->size_bytes);
  }
  if (call->operation.list == &peer->parked) pjrtd_operation_end(&call->operation);
  pjrtd_deadlines_remove(&call->runtime->deadlines, &call->deadline);
  pjrtd_id_map_remove(&peer->calls, call->header.call);
  if (call->older)
    call->older->newer = call->newer;
  else
    peer->oldest = call->newer;
  if (call->newer)
    call->newer->older = call->older;
  else
    peer->newest = call->older;
  call->older = call->newer = NULL;
  call->runtime->stats.calls_in_flight--;
  /* A Sync is answered by the check itself, which goes on to the next. */
  if (!peer->gone && call->header.method != PJRTD_METHOD_Session_Sync) pjrtd_peer_check_sync(peer);
}

void pjrtd_call_end(pjrtd_call *call) {
  pjrtd_call_detach(call);
  pjrtd_operation_end(&call->operation);
  pjrtd_account_release(call->account);
  pjrtd_free(call);
}

void pjrtd_call_answer(pjrtd_call *call, const ProtobufCMessage *reply) {
  pjrtd_answer(call->peer, &call->header, reply, NULL, 0);
  pjrtd_call_detach(call);
}

void pjrtd_call_fail(pjrtd_call *call, pjrtd_status *status) {
  if (call->peer)
    pjrtd_answer_error(call->peer, &call->header, status);
  else
    pjrtd_status_destroy(status);
  pjrtd_call_detach(call);
}

void pjrtd_call_receive(pjrtd_call *call, pjrtd_staging *pages, uint64_t bytes, void (*done)(pjrtd_call *call)) {
  call->inbound = pages->data;
  call->inbound_pages = pages;
  call->inbound_remaining = bytes;
  call->inbound_window = call->runtime->settings->upload_credit_bytes;
  call->inbound_consumed = call->inbound_received = 0;
  call->inbound_done = done;
  pjrtd_staging_advance(pages, 0);
}

void pjrtd_peer_abandon_call(pjrtd_call *call, pjrtd_status *why) {
  pjrtd_call_fail(call, pjrtd_status_retain(why));
  call->abandon(call, pjrtd_status_with_origin(why, call->header.call));
}
