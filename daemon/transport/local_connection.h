/* One connection of the local socket: frames in from, and out to, a non-blocking AF_UNIX stream. Loop thread.
 *
 * Reading: whatever is there comes into one buffer that all connections share, and whole frames are handled where they
 * lie. Only an incomplete frame is kept, in memory of the connection's own. The bulk of an ITEM goes from the socket
 * right to where the call wants it.
 *
 * Writing: frames collect in the connection's output and are sent at the end of the turn. Streams (big downloads) send
 * straight from their data, a chunk at a time, when the output is empty: bulk never stands in front of small frames.
 * A client that does not read stops being read from, and is cut off in the end. */
#pragma once

#include <uv.h>

#include "proto/frame.h"
#include "service/peer.h"
#include "transport/stream_queue.h"

typedef struct local_connection local_connection;
typedef struct local_server local_server;

struct local_connection {
  pjrtd_peer peer; /* first */
  local_server *server;
  local_connection *next, **link; /* all of the server's */
  local_connection *next_dirty;   /* to be flushed at the end of the turn */
  local_connection *next_resuming;
  int descriptor;
  uv_poll_t poll;
  int events; /* what the poll watches */
  bool dirty, resuming, closed, hanging_up, read_paused;

  /* Input: a partial header, then a partial frame, or the bulk of an item. */
  uint8_t partial_header[PJRTD_FRAME_HEADER_BYTES];
  uint32_t partial_header_bytes;
  pjrtd_frame_header header; /* of the frame under way */
  uint8_t *frame;            /* owned: payload and bulk of a partial frame; grows as they come */
  uint32_t frame_bytes, frame_capacity, frame_needed;
  bool in_frame, in_item;
  uint8_t *backlog; /* owned: frames that came while too many answers waited, or the turn was over */
  size_t backlog_bytes, backlog_done;
  uint32_t item_done;
  int descriptors[PJRTD_FRAME_MAX_DESCRIPTORS]; /* that came and were not claimed */
  uint32_t num_descriptors;

  /* Output. */
  uint8_t *output; /* owned */
  size_t output_sent, output_bytes, output_capacity;
  size_t frame_begun_bytes; /* between begin_frame and end_frame */
  pjrtd_stream_queue streams;
  /* The item that is being sent: its header, and what is left of its bytes. */
  pjrtd_stream *sending;
  uint8_t item_header[PJRTD_FRAME_HEADER_BYTES];
  uint32_t item_header_left, item_data_left;
  uint8_t *orphaned_item; /* owned: the rest of an item whose stream was stopped in its middle */
  uint32_t orphaned_done, orphaned_bytes;
  uint64_t last_progress_ns; /* of writing; while anything waits to be written */
  uint64_t accepted_ns;
  uint64_t hot_until_ns; /* polled until then (local_server.h) */
};

/* Takes `descriptor`. On failure it is closed. */
PJRTD_MUST_USE pjrtd_status *local_connection_create(local_server *server, int descriptor,
                                                     const pjrtd_identity *identity);
/* Reads and handles what has come; false when there was nothing. */
bool local_connection_read(local_connection *connection);
void local_connection_flush(local_connection *connection);
/* Tells the peer, closes the descriptor; the memory goes after libuv's callback. */
void local_connection_close(local_connection *connection);
/* libuv's callback for the descriptor. */
void local_connection_on_poll(uv_poll_t *poll, int status, int events);
/* Whether anything waits for the client to read. */
bool local_connection_is_writing(const local_connection *connection);
/* The peer's transport (local_output.c). */
extern const pjrtd_peer_transport local_transport;
