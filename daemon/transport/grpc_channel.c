/* `Channel`: one bidirectional stream of frames, on which calls pipeline. A peer like a local connection: the first
 * frame is hello, the session goes with the stream.
 *
 * Reading: one message at a time, whose frames are handled where they lie; the next is asked for when they are done and
 * the client reads its answers, so gRPC's flow control holds back a client that sends too much.
 *
 * Writing: frames collect in one block, which becomes messages when the last message is out: many clients take none of
 * over 4 MiB. In front of nobody's small frames does a message carry more than one piece of each download. Loop thread.
 */
#include <string.h>

#include "base/clock.h"
#include "proto/grpc_wire.h"
#include "service/call.h"
#include "transport/grpc_front.h"
#include "transport/stream_queue.h"

/* Bulk that shares the stream with small calls goes in pieces of this size (DESIGN's figure), so many a message. */
#define PIECE_BYTES (256u << 10)
#define PIECES_A_MESSAGE 4
/* No message is larger by its second frame or a later one. */
#define MESSAGE_BYTES (1u << 20)
#define FIRST_OUTPUT_BYTES 1024

struct grpc_channel_rpc {
  grpc_rpc rpc; /* first */
  pjrtd_peer peer;
  grpc_channel_rpc *next_dirty, *next_waiting;
  bool dirty, waiting, hanging_up, half_closed;
  /* Input: a message whose frames are being handled. */
  grpc_slice input;
  bool has_input;
  grpc_bytes input_left;
  /* Output. */
  uint8_t *output; /* owned */
  size_t output_bytes, output_capacity;
  size_t frame_begun_bytes;
  grpc_slice leaving; /* owned while leaving_bytes: a block that gRPC gets message by message */
  size_t leaving_bytes, leaving_at;
  uint64_t began_ns;
  pjrtd_stream_queue streams;
};

static grpc_channel_rpc *channel_of(const pjrtd_peer *peer) {
  return (grpc_channel_rpc *)((char *)peer - offsetof(grpc_channel_rpc, peer));
}

static bool is_over(const grpc_channel_rpc *channel) {
  return channel->rpc.ended || channel->rpc.finished;
}

static void mark_dirty(grpc_channel_rpc *channel) {
  if (channel->dirty || is_over(channel)) return;
  channel->dirty = true;
  channel->next_dirty = channel->rpc.front->dirty;
  channel->rpc.front->dirty = channel;
}

static void forget(grpc_channel_rpc *channel) {
  grpc_front *front = channel->rpc.front;
  for (grpc_channel_rpc **at = &front->dirty; channel->dirty && *at; at = &(*at)->next_dirty) {
    if (*at != channel) continue;
    *at = channel->next_dirty;
    channel->dirty = false;
    break;
  }
  for (grpc_channel_rpc **at = &front->waiting; channel->waiting && *at; at = &(*at)->next_waiting) {
    if (*at != channel) continue;
    *at = channel->next_waiting;
    if (front->last_waiting == &channel->next_waiting) front->last_waiting = at;
    channel->waiting = false;
    break;
  }
}

/* ---- writing ---- */

static bool reserve(grpc_channel_rpc *channel, size_t bytes) {
  if (channel->output_capacity - channel->output_bytes >= bytes) return true;
  size_t capacity = channel->output_capacity ? channel->output_capacity : FIRST_OUTPUT_BYTES;
  while (capacity < channel->output_bytes + bytes) capacity *= 2;
  uint8_t *output = pjrtd_realloc(channel->output, capacity);
  if (!output) return false;
  channel->output = output;
  channel->output_capacity = capacity;
  return true;
}

static void hang_up(pjrtd_peer *peer) {
  channel_of(peer)->hanging_up = true;
  mark_dirty(channel_of(peer));
}

static bool begin_frame(pjrtd_peer *peer, const pjrtd_frame_header *header, uint8_t **out_payload, uint8_t **out_bulk) {
  grpc_channel_rpc *channel = channel_of(peer);
  if (is_over(channel) || channel->hanging_up) return false;
  if (!reserve(channel, GRPC_FRAME_OVERHEAD_BYTES + (size_t)header->payload_bytes + header->bulk_bytes)) {
    /* The client would wait forever for this answer: better no connection. */
    pjrtd_log(PJRTD_LOG_ERROR, "no memory for an answer; ending the channel",
              PJRTD_LOG_TEXT("client", peer->client_name));
    hang_up(peer);
    return false;
  }
  uint8_t *place = channel->output + channel->output_bytes;
  grpc_frame_shape shape = grpc_wire_frame_begin(header, place);
  *out_payload = place + shape.payload_at;
  *out_bulk = place + shape.bulk_at;
  channel->frame_begun_bytes = shape.total_bytes;
  return true;
}

static void end_frame(pjrtd_peer *peer) {
  grpc_channel_rpc *channel = channel_of(peer);
  channel->output_bytes += channel->frame_begun_bytes;
  channel->frame_begun_bytes = 0;
  mark_dirty(channel);
}

static void start_stream(pjrtd_peer *peer, pjrtd_stream *stream) {
  grpc_channel_rpc *channel = channel_of(peer);
  stream->owner = channel;
  pjrtd_stream_queue_add(&channel->streams, stream);
  mark_dirty(channel);
}

/* Whole pieces were copied, so nothing of it is half sent. */
static void stop_stream(pjrtd_stream *stream) {
  pjrtd_stream_queue_remove(&((grpc_channel_rpc *)stream->owner)->streams, stream);
}

static void kick(pjrtd_peer *peer) {
  mark_dirty(channel_of(peer));
}

static bool is_full(const grpc_channel_rpc *channel) {
  return channel->output_bytes + channel->leaving_bytes > channel->rpc.front->settings->max_queued_bytes;
}

static bool peer_is_full(const pjrtd_peer *peer, uint64_t call) {
  return is_full(channel_of(peer));
}

static const pjrtd_peer_transport transport = {.name = "grpc",
                                               .begin_frame = begin_frame,
                                               .end_frame = end_frame,
                                               .start_stream = start_stream,
                                               .stop_stream = stop_stream,
                                               .kick = kick,
                                               .is_full = peer_is_full,
                                               .hang_up = hang_up};

/* Adds a piece of the stream's data; streams take turns. */
static bool add_piece(grpc_channel_rpc *channel, pjrtd_stream *stream) {
  uint64_t bytes = stream->remaining_bytes < stream->credit_bytes ? stream->remaining_bytes : stream->credit_bytes;
  if (bytes > PIECE_BYTES) bytes = PIECE_BYTES;
  if (!reserve(channel, GRPC_FRAME_OVERHEAD_BYTES + (size_t)bytes)) return false;
  const pjrtd_frame_header header = {
      .bulk_bytes = (uint32_t)bytes, .method = stream->method, .kind = PJRTD_FRAME_ITEM, .call = stream->call};
  uint8_t *place = channel->output + channel->output_bytes;
  grpc_frame_shape shape = grpc_wire_frame_begin(&header, place);
  memcpy(place + shape.bulk_at, stream->data, bytes);
  channel->output_bytes += shape.total_bytes;
  stream->data += bytes;
  stream->remaining_bytes -= bytes;
  stream->credit_bytes -= bytes;
  pjrtd_stream_queue_remove(&channel->streams, stream);
  if (!stream->remaining_bytes)
    stream->ended(stream);
  else
    start_stream(&channel->peer, stream);
  return true;
}

/* The end that both sides know of: all that was asked is answered. */
static void finish(grpc_channel_rpc *channel) {
  bool fault = channel->peer.failing;
  pjrtd_peer_gone(&channel->peer);
  if (fault)
    grpc_rpc_fail_status(&channel->rpc, PJRTD_INVALID("the stream broke the protocol; its last frame says how"));
  else
    grpc_rpc_finish(&channel->rpc, NULL);
}

static void go_on_reading(grpc_channel_rpc *channel);

/* The client sends no more (nor credit), and what it asked is answered, but for what waits for more of it. */
static bool is_done(const grpc_channel_rpc *channel) {
  if (!channel->half_closed || channel->has_input) return false;
  const pjrtd_call *call = channel->peer.oldest;
  while (call && (call->outbound || call->inbound)) call = call->newer;
  return !call && !pjrtd_stream_queue_sendable(&channel->streams);
}

/* The block on its way out is gone. */
static void drop_leaving(grpc_channel_rpc *channel) {
  if (channel->leaving_bytes) grpc_slice_unref(channel->leaving);
  channel->leaving_bytes = channel->leaving_at = 0;
}

static void send_next_message(grpc_channel_rpc *channel) {
  size_t bytes = grpc_wire_frames_within(GRPC_SLICE_START_PTR(channel->leaving) + channel->leaving_at,
                                         channel->leaving_bytes - channel->leaving_at, MESSAGE_BYTES);
  grpc_slice part = grpc_slice_sub(channel->leaving, channel->leaving_at, channel->leaving_at + bytes);
  channel->leaving_at += bytes;
  channel->peer.runtime->stats.bytes_sent += bytes;
  grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&part, 1);
  grpc_slice_unref(part);
  grpc_rpc_send(&channel->rpc, message);
}

static void flush(grpc_channel_rpc *channel) {
  if (is_over(channel) || channel->rpc.sending) return;
  if (channel->leaving_at < channel->leaving_bytes) {
    send_next_message(channel);
    return;
  }
  drop_leaving(channel);
  for (int i = 0; i < PIECES_A_MESSAGE && !channel->hanging_up; i++) {
    pjrtd_stream *stream = pjrtd_stream_queue_sendable(&channel->streams);
    if (!stream || (i && pjrtd_runtime_time_is_up(channel->peer.runtime)) || !add_piece(channel, stream)) break;
  }
  if (channel->output_bytes) {
    channel->leaving = grpc_slice_of(channel->output, channel->output_bytes);
    channel->leaving_bytes = channel->output_bytes;
    channel->output = NULL;
    channel->output_bytes = channel->output_capacity = 0;
    send_next_message(channel);
  } else if (channel->hanging_up || is_done(channel)) {
    finish(channel);
    return;
  }
  if (channel->peer.parked.first && !is_full(channel)) {
    pjrtd_peer_has_room(&channel->peer);
    pjrtd_runtime_do_more(channel->peer.runtime);
  }
  go_on_reading(channel);
}

void grpc_channel_flush_all(grpc_front *front) {
  grpc_channel_rpc *at = PJRTD_TAKE(front->dirty);
  while (at) {
    grpc_channel_rpc *next = at->next_dirty;
    at->dirty = false;
    flush(at);
    at = next;
  }
}

static void on_sent(grpc_rpc *rpc, bool ok) {
  grpc_channel_rpc *channel = (grpc_channel_rpc *)rpc;
  if (channel->leaving_at == channel->leaving_bytes) drop_leaving(channel);
  if (ok) mark_dirty(channel);
}

/* ---- reading ---- */

static void handle_frame(grpc_channel_rpc *channel, const pjrtd_frame_header *header, const uint8_t *payload,
                         const uint8_t *bulk) {
  pjrtd_peer *peer = &channel->peer;
  if (header->kind != PJRTD_FRAME_ITEM) {
    pjrtd_peer_on_frame(peer, header, payload, bulk);
    return;
  }
  uint8_t *place = pjrtd_peer_item_begin(peer, header);
  if (peer->failing) return;
  if (place && header->bulk_bytes) memcpy(place, bulk, header->bulk_bytes);
  pjrtd_peer_item_end(peer, header);
}

static void drop_input(grpc_channel_rpc *channel) {
  if (!channel->has_input) return;
  grpc_slice_unref(channel->input);
  channel->has_input = false;
}

static void wait_for_a_turn(grpc_channel_rpc *channel) {
  grpc_front *front = channel->rpc.front;
  if (channel->waiting) return;
  channel->waiting = true;
  channel->next_waiting = NULL;
  *front->last_waiting = channel;
  front->last_waiting = &channel->next_waiting;
  grpc_front_start_resuming(front);
}

/* Handles frames of the message that is here, as long as the turn has time and the client reads. */
static void parse(grpc_channel_rpc *channel) {
  bool first = true;
  while (channel->has_input && !is_over(channel)) {
    if (channel->peer.failing || channel->hanging_up) {
      drop_input(channel);
      return;
    }
    if (is_full(channel)) return; /* flush goes on with it */
    if (!first && pjrtd_runtime_time_is_up(channel->peer.runtime)) {
      wait_for_a_turn(channel);
      return;
    }
    first = false;
    pjrtd_frame_header header;
    const uint8_t *payload, *bulk;
    bool any;
    const char *fault = grpc_wire_frame_next(&channel->input_left, &any, &header, &payload, &bulk);
    if (fault)
      pjrtd_peer_fail(&channel->peer, header.call, header.method,
                      pjrtd_status_with_hint(PJRTD_INVALID("broken frame: %s", fault),
                                             "the stream is ended; frames are described in proto/README.md"));
    else if (!any)
      drop_input(channel);
    else
      handle_frame(channel, &header, payload, bulk);
  }
}

static void go_on_reading(grpc_channel_rpc *channel) {
  if (is_over(channel) || channel->hanging_up) return;
  if (channel->has_input && !channel->waiting && !is_full(channel)) wait_for_a_turn(channel);
  if (!channel->has_input && !channel->half_closed && !is_full(channel)) grpc_rpc_receive(&channel->rpc);
}

/* The client sends no more, so what these wait for does not come. To a session that is kept it may come over another
 * connection: the loss of this one looks the same at first. */
static void give_up_on_uploads(pjrtd_peer *peer) {
  if (peer->session && peer->session->ttl_ns) return;
  pjrtd_call *next;
  for (pjrtd_call *at = peer->oldest; at; at = next) {
    next = at->newer;
    if (at->inbound)
      pjrtd_peer_abandon_call(
          at, PJRTD_INVALID("the stream ended %llu bulk bytes too early", (unsigned long long)at->inbound_remaining));
  }
}

static void on_message(grpc_rpc *rpc, grpc_byte_buffer *message) {
  grpc_channel_rpc *channel = (grpc_channel_rpc *)rpc;
  pjrtd_runtime_enter(channel->peer.runtime);
  if (!message) {
    channel->half_closed = true;
    give_up_on_uploads(&channel->peer);
    mark_dirty(channel);
    return;
  }
  channel->input = grpc_message_bytes(message);
  channel->has_input = true;
  channel->input_left = (grpc_bytes){GRPC_SLICE_START_PTR(channel->input), GRPC_SLICE_END_PTR(channel->input)};
  channel->peer.runtime->stats.bytes_received += GRPC_SLICE_LENGTH(channel->input);
  /* Thousands of channels do not all get their turn in one. */
  if (channel->rpc.front->waiting || pjrtd_runtime_time_is_up(channel->peer.runtime))
    wait_for_a_turn(channel);
  else
    parse(channel);
  mark_dirty(channel);
}

void grpc_channel_resume_all(grpc_front *front) {
  grpc_channel_rpc *at = PJRTD_TAKE(front->waiting);
  front->last_waiting = &front->waiting;
  while (at) {
    grpc_channel_rpc *next = at->next_waiting;
    at->waiting = false;
    if (pjrtd_runtime_time_is_up(at->peer.runtime))
      wait_for_a_turn(at); /* in the order in which they came */
    else
      parse(at);
    mark_dirty(at);
    at = next;
  }
}

/* ---- life ---- */

static void on_ended(grpc_rpc *rpc, bool cancelled) {
  grpc_channel_rpc *channel = (grpc_channel_rpc *)rpc;
  pjrtd_runtime_enter(channel->peer.runtime);
  forget(channel);
  pjrtd_peer_gone(&channel->peer);
  drop_input(channel);
}

static void free_channel(grpc_rpc *rpc) {
  grpc_channel_rpc *channel = (grpc_channel_rpc *)rpc;
  drop_leaving(channel);
  pjrtd_free(channel->output);
  pjrtd_free(channel);
}

static const grpc_rpc_events events = {
    .on_message = on_message, .on_sent = on_sent, .on_ended = on_ended, .free = free_channel};

void grpc_channel_check_hello(grpc_rpc *rpc, uint64_t now_ns) {
  if (rpc->events != &events || rpc->ended) return;
  const grpc_channel_rpc *channel = (const grpc_channel_rpc *)rpc;
  if (channel->peer.greeted ||
      now_ns - channel->began_ns < rpc->front->settings->handshake_seconds * UINT64_C(1000000000))
    return;
  pjrtd_log(PJRTD_LOG_WARNING, "ending a gRPC channel: no hello within handshake_seconds");
  rpc->front->runtime->stats.clients_cut_off++;
  grpc_rpc_cancel(rpc);
}

void grpc_channel_begin(grpc_front *front, grpc_call *call) {
  grpc_channel_rpc *channel = pjrtd_calloc(1, sizeof *channel);
  if (!channel) {
    grpc_call_refuse(call, GRPC_NO_MEMORY);
    return;
  }
  channel->began_ns = pjrtd_clock_now_ns();
  pjrtd_peer_init(&channel->peer, &transport, front->runtime, &grpc_remote_identity);
  grpc_rpc_init(&channel->rpc, &events, front, call);
  /* Headers at once: a client may wait for them before it sends. */
  grpc_rpc_send(&channel->rpc, NULL);
  grpc_rpc_receive(&channel->rpc);
}
