/* See grpc_guest.h: guests, and the peer's transport, which puts frames back into messages. */
#include "transport/grpc_guest.h"

#include <string.h>

#include "base/clock.h"
#include "service/call.h"

/* A tag and a length. */
#define BULK_TAG_BYTES 11
/* Elements of a stream that wait for the client of one call to read. */
#define MAX_ITEM_BYTES (256u << 10)
/* DownloadReply.data_bytes. */
#define DATA_BYTES_FIELD 2

static grpc_unary *find(const pjrtd_peer *peer, uint64_t call) {
  grpc_unary *unary = ((const grpc_guest *)peer)->calls;
  while (unary && unary->call != call) unary = unary->next_of_guest;
  return unary;
}

/* The one whose frame is being written. */
static grpc_unary *answering;
static uint8_t answering_kind;

static bool begin_frame(pjrtd_peer *peer, const pjrtd_frame_header *header, uint8_t **out_payload, uint8_t **out_bulk) {
  grpc_unary *unary = find(peer, header->call);
  if (!unary || unary->rpc.finished || unary->rpc.ended || unary->failed) return false;
  size_t most = (size_t)header->payload_bytes + BULK_TAG_BYTES + header->bulk_bytes;
  uint8_t *answer = pjrtd_malloc(most);
  if (!answer) {
    pjrtd_log(PJRTD_LOG_ERROR, "no memory for an answer; ending the call");
    grpc_rpc_cancel(&unary->rpc);
    return false;
  }
  /* An error takes the place of a reply that is not out yet. */
  pjrtd_free(unary->answer);
  unary->answer = answer;
  size_t at = header->payload_bytes;
  if (header->bulk_bytes) at += grpc_wire_bulk_tag(header->bulk_bytes, answer + at);
  *out_payload = answer;
  *out_bulk = answer + at;
  unary->answer_bytes = at + header->bulk_bytes;
  answering = unary;
  answering_kind = header->kind;
  return true;
}

static void add_item(grpc_unary *unary) {
  grpc_answer *item = pjrtd_malloc(sizeof *item);
  if (!item) {
    pjrtd_log(PJRTD_LOG_ERROR, "no memory for an answer; ending the call");
    grpc_rpc_cancel(&unary->rpc);
    return;
  }
  *item = (grpc_answer){.bytes = PJRTD_TAKE(unary->answer), .count = unary->answer_bytes};
  if (!unary->items) unary->last_item = &unary->items;
  *unary->last_item = item;
  unary->last_item = &item->next;
  unary->item_bytes += item->count;
}

static void end_frame(pjrtd_peer *peer) {
  grpc_unary *unary = answering;
  answering = NULL;
  switch (answering_kind) {
    case PJRTD_FRAME_ITEM: add_item(unary); break;
    case PJRTD_FRAME_CREDIT: {
      uint64_t bytes = grpc_wire_find_varint(unary->answer, unary->answer_bytes, 1, 0);
      pjrtd_free(PJRTD_TAKE(unary->answer));
      unary->credit_bytes += bytes;
      break;
    }
    case PJRTD_FRAME_ERROR: unary->failed = true; break;
    default: {
      size_t payload_bytes, bulk_bytes;
      const uint8_t *bulk;
      grpc_wire_split_bulk(unary->answer, unary->answer_bytes, &payload_bytes, &bulk, &bulk_bytes);
      if (unary->method == PJRTD_METHOD_Buffer_Download)
        unary->announced_bytes = grpc_wire_find_varint(unary->answer, payload_bytes, DATA_BYTES_FIELD, 0) - bulk_bytes;
      unary->replied = true;
    }
  }
  grpc_unary_mark_dirty(unary);
}

static void start_stream(pjrtd_peer *peer, pjrtd_stream *stream) {
  grpc_unary *unary = find(peer, stream->call);
  stream->owner = unary;
  stream->next = NULL;
  if (!unary) return; /* the call is over, and its end stops the stream */
  unary->stream = stream;
  grpc_unary_mark_dirty(unary);
}

static void stop_stream(pjrtd_stream *stream) {
  grpc_unary *unary = stream->owner;
  if (unary && unary->stream == stream) unary->stream = NULL;
}

static void kick(pjrtd_peer *peer) {}

static bool is_full(const pjrtd_peer *peer, uint64_t call) {
  const grpc_unary *unary = find(peer, call);
  return unary && unary->item_bytes > MAX_ITEM_BYTES;
}

/* Only after an error, which the call has got. */
static void hang_up(pjrtd_peer *peer) {
  ((grpc_guest *)peer)->kept = false;
}

static const pjrtd_peer_transport transport = {.name = "grpc",
                                               .begin_frame = begin_frame,
                                               .end_frame = end_frame,
                                               .start_stream = start_stream,
                                               .stop_stream = stop_stream,
                                               .kick = kick,
                                               .is_full = is_full,
                                               .hang_up = hang_up};

static void end_guest(grpc_guest *guest);

static pjrtd_status *make_guest(grpc_front *front, grpc_guest **out_guest) {
  *out_guest = NULL;
  if (front->num_guests >= front->settings->max_connections)
    return pjrtd_status_with_hint(
        pjrtd_status_make(PJRTD_CODE_RESOURCE_EXHAUSTED,
                          "%llu sessions of gRPC calls and calls of none are open, the most there may be",
                          (unsigned long long)front->num_guests),
        "close sessions, or raise max_connections");
  grpc_guest *guest = pjrtd_calloc(1, sizeof *guest);
  if (!guest) return pjrtd_status_oom();
  front->num_guests++;
  pjrtd_peer_init(&guest->peer, &transport, front->runtime, &grpc_remote_identity);
  guest->peer.greeted = true;
  guest->peer.version = PJRTD_PROTOCOL_MAX;
  guest->peer.download_credit_bytes = UINT64_MAX; /* gRPC's flow control has that part */
  memcpy(guest->peer.client_name, "gRPC", sizeof "gRPC");
  guest->front = front;
  guest->next = front->guests;
  guest->link = &front->guests;
  if (guest->next) guest->next->link = &guest->next;
  front->guests = guest;
  *out_guest = guest;
  return PJRTD_OK;
}

static grpc_guest *find_guest(const grpc_front *front, const pjrtd_session *session) {
  for (pjrtd_peer *at = session->peers; at; at = at->next_of_session)
    if (at->transport == &transport) return (grpc_guest *)at;
  return NULL;
}

pjrtd_status *grpc_guest_find(grpc_front *front, const char *token, size_t token_length, grpc_guest **out_guest) {
  *out_guest = NULL;
  if (!token) return make_guest(front, out_guest);
  char text[PJRTD_TOKEN_CHARS + 1] = "";
  if (token_length == PJRTD_TOKEN_CHARS) memcpy(text, token, token_length);
  pjrtd_session *session = pjrtd_session_find_token(front->runtime, text);
  explicit_bzero(text, sizeof text);
  if (!session)
    return pjrtd_status_with_hint(
        pjrtd_status_make(PJRTD_CODE_NOT_FOUND, "the metadata pjrtd-session names no session"),
        "Session.Open opens one and tells its token; a session that nobody used for a while was ended");
  *out_guest = find_guest(front, session);
  if (*out_guest) return PJRTD_OK;
  /* A session of a connection's, or one that is kept without: all unary calls together are one more that takes part. */
  grpc_guest *guest;
  PJRTD_TRY(make_guest(front, &guest));
  pjrtd_status *status = pjrtd_peer_join(&guest->peer, session);
  if (status) {
    end_guest(guest);
    return status;
  }
  guest->kept = true;
  *out_guest = guest;
  return PJRTD_OK;
}

void grpc_guest_enter(grpc_guest *guest, grpc_unary *unary) {
  unary->guest = guest;
  unary->next_of_guest = guest->calls;
  guest->calls = unary;
}

static void end_guest(grpc_guest *guest) {
  while (guest->calls) {
    grpc_unary *unary = guest->calls;
    guest->calls = unary->next_of_guest;
    unary->guest = NULL;
    grpc_rpc_cancel(&unary->rpc);
  }
  *guest->link = guest->next;
  if (guest->next) guest->next->link = guest->link;
  pjrtd_peer_gone(&guest->peer);
  guest->front->num_guests--;
  pjrtd_free(guest);
}

void grpc_guest_leave(grpc_unary *unary) {
  grpc_guest *guest = unary->guest;
  if (!guest) return;
  unary->guest = NULL;
  for (grpc_unary **at = &guest->calls; *at; at = &(*at)->next_of_guest) {
    if (*at != unary) continue;
    *at = unary->next_of_guest;
    break;
  }
  guest->last_used_ns = pjrtd_clock_now_ns();
  if (!guest->calls && (!guest->kept || !guest->peer.session)) end_guest(guest);
}

void grpc_unary_end_idle(grpc_front *front, uint64_t now_ns) {
  uint64_t lease_ns = front->settings->session_lease_seconds * UINT64_C(1000000000);
  grpc_guest *next;
  for (grpc_guest *at = front->guests; at; at = next) {
    next = at->next;
    if (now_ns != UINT64_MAX && (at->calls || now_ns - at->last_used_ns < lease_ns)) continue;
    if (now_ns != UINT64_MAX)
      pjrtd_log(PJRTD_LOG_INFO, "a session of unary calls ended unused",
                PJRTD_LOG_UINT("session", at->peer.session ? at->peer.session->id : 0));
    end_guest(at);
  }
}
