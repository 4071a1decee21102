/* See peer.h: frames in, dispatch, and the end of a connection. */
#include "service/peer.h"

#include <inttypes.h>
#include <stdio.h>

#include "pjrtd/v1/frame.pb-c.h"
#include "service/attachment.h"
#include "service/call.h"

/* A megabyte of payload can decode to many small messages; more than this is nobody's honest request. */
#define DECODE_CAP_BYTES (4u << 20)

static pjrtd_arena arena;

static void *arena_alloc(void *user, size_t size_bytes) {
  return pjrtd_arena_alloc(user, size_bytes);
}
static void arena_free(void *user, void *memory) {}
static ProtobufCAllocator allocator = {.alloc = arena_alloc, .free = arena_free, .allocator_data = &arena};

pjrtd_status *pjrtd_service_init(void) {
  pjrtd_arena_init(&arena, DECODE_CAP_BYTES);
  return PJRTD_OK;
}

void pjrtd_service_deinit(void) {
  pjrtd_arena_deinit(&arena);
}

void pjrtd_peer_init(pjrtd_peer *peer, const pjrtd_peer_transport *transport, pjrtd_runtime *runtime,
                     const pjrtd_identity *identity) {
  *peer = (pjrtd_peer){.transport = transport, .runtime = runtime, .identity = *identity};
}

void pjrtd_peer_gone(pjrtd_peer *peer) {
  if (peer->gone) return;
  peer->gone = true;
  pjrtd_attachment_lose(peer);
  pjrtd_id_map_deinit(&peer->calls);
  pjrtd_status_destroy(peer->failure);
  pjrtd_status_destroy(peer->told_failure);
  peer->failure = peer->told_failure = NULL;
}

void pjrtd_peer_has_room(pjrtd_peer *peer) {
  pjrtd_ready_list_move(&peer->parked, &peer->runtime->ready);
}

void pjrtd_peer_fail(pjrtd_peer *peer, uint64_t call, uint16_t method, pjrtd_status *status) {
  if (peer->failing || peer->gone) {
    pjrtd_status_destroy(status);
    return;
  }
  peer->runtime->stats.wire_errors++;
  pjrtd_log(PJRTD_LOG_WARNING, "closing a connection that broke the protocol", PJRTD_LOG_INT("pid", peer->identity.pid),
            PJRTD_LOG_UINT("uid", peer->identity.uid), PJRTD_LOG_TEXT("client", peer->client_name),
            PJRTD_LOG_STATUS(status));
  pjrtd_frame_header header = {.call = call, .method = method};
  pjrtd_answer_error(peer, &header, status);
  peer->failing = true;
  peer->transport->hang_up(peer);
}

void pjrtd_peer_end(pjrtd_peer *peer, pjrtd_status *status) {
  if (peer->failing || peer->gone) {
    pjrtd_status_destroy(status);
    return;
  }
  pjrtd_frame_header header = {.method = PJRTD_METHOD_Session_Attach};
  pjrtd_answer_error(peer, &header, status);
  peer->failing = true;
  peer->transport->hang_up(peer);
}

static pjrtd_status *check_request(pjrtd_peer *peer, const pjrtd_frame_header *header, const pjrtd_method *method) {
  if (!method)
    return pjrtd_status_with_hint(
        pjrtd_status_make(PJRTD_CODE_UNIMPLEMENTED, "method 0x%04x does not exist in pjrtd " PJRTD_VERSION,
                          header->method),
        "the client may be newer than the daemon; methods.def lists them");
  PJRTD_TRY(pjrtd_identity_check(&peer->identity, method->right));
  if (peer->runtime->draining && method->needs_session)
    return pjrtd_status_with_retry(
        pjrtd_status_with_hint(pjrtd_status_make(PJRTD_CODE_UNAVAILABLE, "the daemon is stopping"),
                               "try again when it has restarted"),
        UINT64_C(1000000000));
  if (method->needs_session && !peer->session)
    return pjrtd_status_with_hint(
        pjrtd_status_make(PJRTD_CODE_FAILED_PRECONDITION, "the session of this connection was closed"),
        "Session.Open opens another");
  if (header->num_descriptors)
    return PJRTD_INVALID("%s takes no file descriptors, %u came with it", method->name, header->num_descriptors);
  if (header->bulk_bytes && !method->takes_bulk)
    return PJRTD_INVALID("%s takes no bulk bytes, %u came with it", method->name, header->bulk_bytes);
  return PJRTD_OK;
}

static void on_request(pjrtd_peer *peer, const pjrtd_frame_header *header, const uint8_t *payload,
                       const uint8_t *bulk) {
  if (header->call <= peer->last_call) {
    pjrtd_peer_fail(
        peer, header->call, header->method,
        PJRTD_INVALID("call id %" PRIu64 " is not above %" PRIu64 ", the last one", header->call, peer->last_call));
    return;
  }
  if (header->call == UINT64_MAX) {
    pjrtd_peer_fail(peer, header->call, header->method,
                    PJRTD_INVALID("the call id is 2^64 - 1, after which none is left"));
    return;
  }
  if (!peer->greeted && header->method != PJRTD_METHOD_HELLO) {
    pjrtd_peer_fail(peer, header->call, header->method,
                    pjrtd_status_with_hint(pjrtd_status_make(PJRTD_CODE_FAILED_PRECONDITION,
                                                             "the first request of a connection must be Runtime.Hello"),
                                           "send HelloRequest{min_version, max_version} first"));
    return;
  }
  uint64_t before = peer->last_call;
  peer->last_call = header->call;
  peer->runtime->stats.calls_total++;
  const pjrtd_method *method = pjrtd_method_find(header->method);
  pjrtd_status *status = check_request(peer, header, method);
  if (peer->session) peer->session->last_used_ns = peer->runtime->turn.began_ns;
  if (!status) {
    const void *message = protobuf_c_message_unpack(method->request, &allocator, header->payload_bytes, payload);
    if (!message) {
      status = PJRTD_INVALID("the %u payload bytes of %s are not a valid %s, or decode to more than 4 MiB",
                             header->payload_bytes, method->name, method->request->short_name);
    } else {
      pjrtd_request request = {
          .peer = peer, .header = header, .message = message, .bulk = bulk, .previous_call = before};
      status = method->handle(&request);
    }
    pjrtd_arena_reset(&arena);
  }
  if (status) pjrtd_answer_error(peer, header, status);
}

static void on_cancel(pjrtd_peer *peer, const pjrtd_frame_header *header) {
  pjrtd_call *call = pjrtd_id_map_find(&peer->calls, header->call);
  if (call) pjrtd_peer_abandon_call(call, pjrtd_status_make(PJRTD_CODE_CANCELLED, "the client cancelled the call"));
}

static void on_credit(pjrtd_peer *peer, const pjrtd_frame_header *header, const uint8_t *payload) {
  Pjrtd__V1__Credit *credit = pjrtd__v1__credit__unpack(&allocator, header->payload_bytes, payload);
  uint64_t bytes = credit ? credit->bytes : 0;
  pjrtd_arena_reset(&arena);
  if (!credit) {
    pjrtd_peer_fail(peer, header->call, header->method, PJRTD_INVALID("the payload of a credit frame is not a Credit"));
    return;
  }
  pjrtd_call *call = pjrtd_id_map_find(&peer->calls, header->call);
  if (!call) return;
  /* Credit may come before there is anything to send. More than all there is is all there is. */
  uint64_t *credit_bytes = call->outbound ? &call->outbound->credit_bytes : &call->granted_bytes;
  if (__builtin_add_overflow(*credit_bytes, bytes, credit_bytes)) *credit_bytes = UINT64_MAX;
  peer->transport->kick(peer);
}

void pjrtd_peer_on_frame(pjrtd_peer *peer, const pjrtd_frame_header *header, const uint8_t *payload,
                         const uint8_t *bulk) {
  if (peer->failing || peer->gone) return;
  if (header->kind == PJRTD_FRAME_REQUEST) {
    on_request(peer, header, payload, bulk);
    return;
  }
  if (header->call > peer->last_call) {
    pjrtd_peer_fail(peer, header->call, header->method,
                    PJRTD_INVALID("call %" PRIu64 " was not requested before this frame", header->call));
    return;
  }
  switch (header->kind) {
    case PJRTD_FRAME_CANCEL: on_cancel(peer, header); break;
    case PJRTD_FRAME_CREDIT: on_credit(peer, header, payload); break;
    default:
      pjrtd_peer_fail(peer, header->call, header->method,
                      PJRTD_INVALID("a client does not send frames of kind %u", header->kind));
  }
}

uint8_t *pjrtd_peer_item_begin(pjrtd_peer *peer, const pjrtd_frame_header *header) {
  if (peer->failing || peer->gone) return NULL;
  const char *fault = NULL;
  pjrtd_call *call = pjrtd_id_map_find(&peer->calls, header->call);
  if (header->call > peer->last_call)
    fault = "was not requested before this item";
  else if (!call)
    return NULL; /* it has failed; the client may not know yet */
  else if (!call->inbound)
    fault = "takes no more bulk bytes";
  else if (header->payload_bytes)
    fault = "takes bulk bytes, not a payload";
  else if (header->bulk_bytes > call->inbound_remaining)
    fault = "was sent more bulk bytes than it announced";
  else if (header->bulk_bytes > call->inbound_window)
    fault = "was sent more bulk bytes than it had credit for";
  if (fault) {
    pjrtd_peer_fail(peer, header->call, header->method, PJRTD_INVALID("call %" PRIu64 " %s", header->call, fault));
    return NULL;
  }
  return call->inbound;
}

uint8_t *pjrtd_peer_item_place(pjrtd_peer *peer, uint64_t id, uint64_t done_bytes) {
  pjrtd_call *call = peer->gone ? NULL : pjrtd_id_map_find(&peer->calls, id);
  return call && call->inbound ? call->inbound + done_bytes : NULL;
}

static void grant(pjrtd_peer *peer, pjrtd_call *call) {
  Pjrtd__V1__Credit credit = PJRTD__V1__CREDIT__INIT;
  credit.bytes = call->inbound_consumed;
  if (!pjrtd_send_frame(peer, &call->header, PJRTD_FRAME_CREDIT, &credit.base)) return;
  call->inbound_window += call->inbound_consumed;
  call->inbound_consumed = 0;
}

void pjrtd_peer_item_end(pjrtd_peer *peer, const pjrtd_frame_header *header) {
  pjrtd_call *call = peer->gone || peer->failing ? NULL : pjrtd_id_map_find(&peer->calls, header->call);
  if (!call || !call->inbound) return;
  call->inbound += header->bulk_bytes;
  call->inbound_remaining -= header->bulk_bytes;
  call->inbound_window -= header->bulk_bytes; /* not before: half an item is none, to a connection that resumes */
  call->inbound_consumed += header->bulk_bytes;
  call->inbound_received += header->bulk_bytes;
  if (!call->inbound_remaining) {
    call->inbound = NULL;
    call->inbound_done(call);
    return;
  }
  pjrtd_staging_advance(call->inbound_pages, (uint64_t)(call->inbound - (uint8_t *)call->inbound_pages->data));
  if (call->inbound_consumed >= call->runtime->settings->upload_credit_bytes / 4) {
    grant(peer, call);
  }
}
