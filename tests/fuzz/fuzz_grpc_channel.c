/* Whatever one client sends on gRPC's stream `Channel`: transport/grpc_channel.c, the service and state of the daemon
 * over a plugin layer in memory, with the functions of grpc_rpc.c replaced by ones that need no network.
 *
 * The input is that of fuzz_frame_stream.c, frames as on the local socket, so both share a corpus and a mutator: they
 * are written anew as messages of the stream, and from the first byte that is no frame on, the rest is a message as it
 * is. The first byte says how many frames travel in a message, whether the client reads, and how it leaves.
 *
 * What must hold: one message is sent at a time and none is too large for a client, every frame that comes back is well
 * formed, no call has two replies, the stream ends once, and then nothing of it is left. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz_runtime.h"
#include "proto/grpc_wire.h"
#include "service/call.h"
#include "support/require.h"
#include "transport/grpc_front.h"

enum { MAX_REPLIES = 4096, MAX_MESSAGE_BYTES = 3 << 20 };

static grpc_front front;
static bool resuming;

/* ---- one RPC, without gRPC's core ---- */

static struct {
  grpc_rpc *rpc; /* NULL: freed */
  grpc_byte_buffer *leaving;
  bool cancelled;
  uint64_t replied[MAX_REPLIES];
  size_t num_replied;
} played;

const pjrtd_identity grpc_remote_identity = {.local = false, .rights = PJRTD_RIGHT_USE};

void grpc_rpc_init(grpc_rpc *rpc, const grpc_rpc_events *events, grpc_front *its_front, grpc_call *call) {
  rpc->events = events;
  rpc->front = its_front;
  played.rpc = rpc;
}

void grpc_rpc_receive(grpc_rpc *rpc) {
  if (!rpc->finished && !rpc->ended) rpc->receiving = true;
}

void grpc_rpc_send(grpc_rpc *rpc, grpc_byte_buffer *message) {
  REQUIRE(!rpc->finished && !rpc->ended && !rpc->sending && !played.leaving);
  rpc->sending = true;
  played.leaving = message;
}

static void finish(grpc_rpc *rpc) {
  REQUIRE(!rpc->finished && !rpc->ended && !rpc->sending);
  rpc->finished = true;
}

void grpc_rpc_finish(grpc_rpc *rpc, grpc_byte_buffer *message) {
  REQUIRE(!message);
  finish(rpc);
}

void grpc_rpc_fail_status(grpc_rpc *rpc, pjrtd_status *status) {
  pjrtd_status_destroy(status);
  finish(rpc);
}

void grpc_rpc_cancel(grpc_rpc *rpc) {
  played.cancelled = true;
}

void grpc_call_refuse(grpc_call *call, const char *why) {}

void grpc_front_start_resuming(grpc_front *its_front) {
  resuming = true;
}

grpc_slice grpc_slice_of(uint8_t *bytes, size_t count) {
  return grpc_slice_new_with_user_data(bytes, count, pjrtd_free, bytes);
}

grpc_slice grpc_message_bytes(grpc_byte_buffer *message) {
  grpc_byte_buffer_reader reader;
  REQUIRE(grpc_byte_buffer_reader_init(&reader, message));
  grpc_slice slice = grpc_byte_buffer_reader_readall(&reader);
  grpc_byte_buffer_reader_destroy(&reader);
  return slice;
}

/* ---- turns ---- */

static void flush(void *user) {
  grpc_channel_flush_all(&front);
}

static void start(void) {
  fuzz_runtime_start();
  grpc_init();
  front = (grpc_front){.runtime = fuzz_runtime, .settings = &fuzz_settings};
  front.last_waiting = &front.waiting;
  fuzz_runtime->flush = flush;
}

static void turn(void) {
  uv_run(&fuzz_loop, UV_RUN_NOWAIT);
  if (resuming) {
    pjrtd_runtime_enter(fuzz_runtime);
    grpc_channel_resume_all(&front);
    resuming = front.waiting != NULL;
  }
  pjrtd_runtime_settle(fuzz_runtime);
  grpc_channel_flush_all(&front);
  pjrtd_runtime_end_turn(fuzz_runtime);
}

/* ---- the client ---- */

static void check_message(grpc_byte_buffer *message) {
  grpc_slice slice = grpc_message_bytes(message);
  REQUIRE(GRPC_SLICE_LENGTH(slice) <= GRPC_MAX_MESSAGE_BYTES);
  grpc_bytes left = {GRPC_SLICE_START_PTR(slice), GRPC_SLICE_END_PTR(slice)};
  for (;;) {
    pjrtd_frame_header header;
    const uint8_t *payload, *bulk;
    bool any;
    REQUIRE(!grpc_wire_frame_next(&left, &any, &header, &payload, &bulk));
    if (!any) break;
    if (header.kind != PJRTD_FRAME_REPLY) continue;
    for (size_t i = 0; i < played.num_replied; i++) REQUIRE(played.replied[i] != header.call);
    if (played.num_replied < MAX_REPLIES) played.replied[played.num_replied++] = header.call;
  }
  grpc_slice_unref(slice);
}

/* What was sent has arrived. */
static void read_answers(void) {
  grpc_rpc *rpc = played.rpc;
  for (int i = 0; i < 100 && rpc->sending; i++) {
    grpc_byte_buffer *message = PJRTD_TAKE(played.leaving);
    rpc->sending = false;
    if (message) check_message(message);
    if (message) grpc_byte_buffer_destroy(message);
    if (!rpc->finished) rpc->events->on_sent(rpc, true);
    turn();
  }
}

/* Frames of `data` as messages of the stream. */
typedef struct {
  const uint8_t *data;
  size_t size;
  uint8_t *message;
  size_t message_bytes;
} script;

static void next_message(script *from, size_t most_frames) {
  from->message_bytes = 0;
  for (size_t frames = 0; from->size && frames < most_frames; frames++) {
    pjrtd_frame_header header;
    bool whole = from->size >= PJRTD_FRAME_HEADER_BYTES && !pjrtd_frame_decode(from->data, &header) &&
                 from->size - PJRTD_FRAME_HEADER_BYTES >= (size_t)header.payload_bytes + header.bulk_bytes;
    size_t taken = from->size;
    if (whole) taken = PJRTD_FRAME_HEADER_BYTES + (size_t)header.payload_bytes + header.bulk_bytes;
    if (from->message_bytes + taken + GRPC_FRAME_OVERHEAD_BYTES > MAX_MESSAGE_BYTES && frames) return;
    uint8_t *place = from->message + from->message_bytes;
    if (whole) {
      grpc_frame_shape shape = grpc_wire_frame_begin(&header, place);
      const uint8_t *payload = from->data + PJRTD_FRAME_HEADER_BYTES;
      memcpy(place + shape.payload_at, payload, header.payload_bytes);
      memcpy(place + shape.bulk_at, payload + header.payload_bytes, header.bulk_bytes);
      from->message_bytes += shape.total_bytes;
    } else {
      memcpy(place, from->data, taken);
      from->message_bytes += taken;
    }
    from->data += taken;
    from->size -= taken;
  }
}

static void deliver(grpc_byte_buffer *message) {
  grpc_rpc *rpc = played.rpc;
  rpc->receiving = false;
  rpc->events->on_message(rpc, message);
  turn();
}

static void play(uint8_t style, script *from) {
  static const size_t frames_a_message[] = {1, 2, 16, SIZE_MAX};
  grpc_rpc *rpc = played.rpc;
  bool reads = !(style & 4);
  while (from->size) {
    if (reads) read_answers();
    for (int i = 0; i < 20 && !rpc->receiving && !rpc->finished; i++) {
      turn();
      if (reads) read_answers();
    }
    if (!rpc->receiving || rpc->finished || played.cancelled) return; /* it waits for a reader, or has ended */
    next_message(from, frames_a_message[style & 3]);
    grpc_slice slice = grpc_slice_from_copied_buffer((const char *)from->message, from->message_bytes);
    grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    deliver(message);
    grpc_byte_buffer_destroy(message);
  }
  if (!(style & 8)) return;
  for (int i = 0; i < 20 && !rpc->receiving && !rpc->finished; i++) turn();
  if (rpc->receiving && !rpc->finished) deliver(NULL);
  for (int i = 0; i < 20 && reads; i++) {
    turn();
    read_answers();
    if (fuzz_runtime->jobs_running) usleep(20);
  }
}

static void leave(void) {
  grpc_rpc *rpc = played.rpc;
  rpc->ended = true;
  if (played.leaving) grpc_byte_buffer_destroy(PJRTD_TAKE(played.leaving));
  rpc->events->on_ended(rpc, !rpc->finished);
  turn();
  rpc->events->free(rpc);
  played.rpc = NULL;
}

static bool transport_left(void) {
  return front.dirty || front.waiting;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes) {
  if (!fuzz_runtime) start();
  if (!size_bytes || size_bytes > MAX_MESSAGE_BYTES / 2) return 0;
  memset(&played, 0, sizeof played);
  /* A frame of its own header takes no more on this stream. */
  script from = {
      .data = data + 1, .size = size_bytes - 1, .message = malloc(2 * size_bytes + GRPC_FRAME_OVERHEAD_BYTES)};
  REQUIRE(from.message);
  grpc_channel_begin(&front, NULL);
  REQUIRE(played.rpc);
  turn();
  play(data[0], &from);
  leave();
  free(from.message);
  fuzz_runtime_wait_until_empty(turn, transport_left);
  return 0;
}
