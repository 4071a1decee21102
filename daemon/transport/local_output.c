/* The writing half of a connection: see local_connection.h. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "transport/local_server.h"

/* Output that a connection keeps between turns. */
#define KEEP_OUTPUT_BYTES 4096

static local_connection *connection_of(pjrtd_peer *peer) {
  return (local_connection *)peer;
}

static bool reserve(local_connection *connection, size_t bytes) {
  if (connection->output_sent == connection->output_bytes) connection->output_sent = connection->output_bytes = 0;
  if (connection->output_capacity - connection->output_bytes >= bytes) return true;
  size_t waiting = connection->output_bytes - connection->output_sent;
  if (connection->output_sent) {
    memmove(connection->output, connection->output + connection->output_sent, waiting);
    connection->output_sent = 0;
    connection->output_bytes = waiting;
  }
  size_t capacity = connection->output_capacity ? connection->output_capacity : KEEP_OUTPUT_BYTES;
  while (capacity < waiting + bytes) capacity *= 2;
  if (capacity == connection->output_capacity) return true;
  /* Not a fresh block: big ones grow without a copy. */
  uint8_t *output = pjrtd_realloc(connection->output, capacity);
  if (!output) return false;
  connection->output = output;
  connection->output_capacity = capacity;
  return true;
}

static bool begin_frame(pjrtd_peer *peer, const pjrtd_frame_header *header, uint8_t **out_payload, uint8_t **out_bulk) {
  local_connection *connection = connection_of(peer);
  if (connection->closed || connection->hanging_up) return false;
  size_t bytes = PJRTD_FRAME_HEADER_BYTES + (size_t)header->payload_bytes + header->bulk_bytes;
  if (!reserve(connection, bytes)) {
    /* The client would wait forever for this answer: better no connection. */
    pjrtd_log(PJRTD_LOG_ERROR, "no memory for an answer; closing the connection",
              PJRTD_LOG_INT("pid", peer->identity.pid));
    connection->hanging_up = true;
    local_server_mark_dirty(connection->server, connection);
    return false;
  }
  uint8_t *place = connection->output + connection->output_bytes;
  pjrtd_frame_encode(header, place);
  *out_payload = place + PJRTD_FRAME_HEADER_BYTES;
  *out_bulk = *out_payload + header->payload_bytes;
  connection->frame_begun_bytes = bytes;
  return true;
}

static void end_frame(pjrtd_peer *peer) {
  local_connection *connection = connection_of(peer);
  if (connection->output_sent == connection->output_bytes) connection->last_progress_ns = 0;
  connection->output_bytes += connection->frame_begun_bytes;
  connection->frame_begun_bytes = 0;
  local_server_mark_dirty(connection->server, connection);
}

static void start_stream(pjrtd_peer *peer, pjrtd_stream *stream) {
  local_connection *connection = connection_of(peer);
  stream->owner = connection;
  pjrtd_stream_queue_add(&connection->streams, stream);
  local_server_mark_dirty(connection->server, connection);
}

static void stop_stream(pjrtd_stream *stream) {
  local_connection *connection = stream->owner;
  pjrtd_stream_queue_remove(&connection->streams, stream);
  if (connection->sending != stream) return;
  /* Its header is out (or begun): the client waits for the rest of these bytes, and the data may be about to go. */
  connection->sending = NULL;
  if (connection->closed) return;
  uint32_t left = connection->item_data_left;
  connection->orphaned_item = pjrtd_malloc(left);
  if (!connection->orphaned_item) {
    connection->hanging_up = true;
    connection->item_header_left = connection->item_data_left = 0;
    return;
  }
  memcpy(connection->orphaned_item, stream->data, left);
  connection->orphaned_done = 0;
  connection->orphaned_bytes = left;
}

static void kick(pjrtd_peer *peer) {
  local_server_mark_dirty(connection_of(peer)->server, connection_of(peer));
}

static bool is_full(const local_connection *connection) {
  return connection->output_bytes - connection->output_sent > connection->server->settings->max_queued_bytes;
}

static bool peer_is_full(const pjrtd_peer *peer, uint64_t call) {
  return is_full((const local_connection *)peer);
}

static void hang_up(pjrtd_peer *peer) {
  connection_of(peer)->hanging_up = true;
  kick(peer);
}

const pjrtd_peer_transport local_transport = {.name = "unix",
                                              .begin_frame = begin_frame,
                                              .end_frame = end_frame,
                                              .start_stream = start_stream,
                                              .stop_stream = stop_stream,
                                              .kick = kick,
                                              .is_full = peer_is_full,
                                              .hang_up = hang_up};

static void begin_item(local_connection *connection, pjrtd_stream *stream) {
  uint64_t bytes = stream->remaining_bytes < stream->credit_bytes ? stream->remaining_bytes : stream->credit_bytes;
  if (bytes > PJRTD_FRAME_MAX_ITEM_BYTES) bytes = PJRTD_FRAME_MAX_ITEM_BYTES;
  stream->credit_bytes -= bytes;
  /* To the end of the queue: streams take turns. */
  pjrtd_stream_queue_remove(&connection->streams, stream);
  pjrtd_stream_queue_add(&connection->streams, stream);
  const pjrtd_frame_header header = {
      .bulk_bytes = (uint32_t)bytes, .method = stream->method, .kind = PJRTD_FRAME_ITEM, .call = stream->call};
  pjrtd_frame_encode(&header, connection->item_header);
  connection->sending = stream;
  connection->item_header_left = PJRTD_FRAME_HEADER_BYTES;
  connection->item_data_left = (uint32_t)bytes;
}

/* Sends some of what waits; the bytes that went, 0 when the socket is full, -1 when the connection is lost. */
static ssize_t send_some(local_connection *connection) {
  struct iovec parts[3];
  int count = 0;
  size_t output = connection->output_bytes - connection->output_sent;
  bool item = connection->item_header_left || connection->item_data_left;
  const uint8_t *item_data = connection->sending         ? connection->sending->data
                             : connection->orphaned_item ? connection->orphaned_item + connection->orphaned_done
                                                         : NULL;
  /* An item that has begun must end before any other frame; one that has not, waits for them. */
  if (!item && output) {
    if (output > LOCAL_PIECE_BYTES) output = LOCAL_PIECE_BYTES;
    parts[count++] = (struct iovec){connection->output + connection->output_sent, output};
  } else if (item) {
    if (connection->item_header_left)
      parts[count++] = (struct iovec){connection->item_header + PJRTD_FRAME_HEADER_BYTES - connection->item_header_left,
                                      connection->item_header_left};
    size_t data = connection->item_data_left;
    if (data > LOCAL_PIECE_BYTES) data = LOCAL_PIECE_BYTES;
    if (data) parts[count++] = (struct iovec){(void *)item_data, data};
  }
  const struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
  ssize_t sent;
  do sent = sendmsg(connection->descriptor, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (sent < 0 && errno == EINTR);
  if (sent < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS ? 0 : -1;
  connection->peer.runtime->stats.bytes_sent += (uint64_t)sent;
  if (!item) {
    connection->output_sent += (size_t)sent;
    return sent;
  }
  size_t left = (size_t)sent;
  size_t header = left < connection->item_header_left ? left : connection->item_header_left;
  connection->item_header_left -= (uint32_t)header;
  left -= header;
  connection->item_data_left -= (uint32_t)left;
  if (connection->sending) {
    connection->sending->data += left;
    connection->sending->remaining_bytes -= left;
  } else {
    connection->orphaned_done += (uint32_t)left;
  }
  return sent;
}

/* The item under way is out. */
static void item_ended(local_connection *connection) {
  pjrtd_stream *stream = connection->sending;
  connection->sending = NULL;
  pjrtd_free(connection->orphaned_item);
  connection->orphaned_item = NULL;
  if (!stream || stream->remaining_bytes) return;
  pjrtd_stream_queue_remove(&connection->streams, stream);
  stream->ended(stream);
}

bool local_connection_is_writing(const local_connection *connection) {
  return connection->output_bytes > connection->output_sent || connection->item_header_left ||
         connection->item_data_left;
}

static void watch(local_connection *connection, int events) {
  if (connection->events == events) return;
  connection->events = events;
  if (events)
    uv_poll_start(&connection->poll, events, local_connection_on_poll);
  else
    uv_poll_stop(&connection->poll);
}

void local_connection_flush(local_connection *connection) {
  if (connection->closed) return;
  size_t moved = 0;
  bool full = false;
  while (moved < LOCAL_TURN_BYTES && !full) {
    if (!local_connection_is_writing(connection)) {
      pjrtd_stream *stream = connection->hanging_up ? NULL : pjrtd_stream_queue_sendable(&connection->streams);
      if (!stream) break;
      begin_item(connection, stream);
    }
    if (moved && pjrtd_runtime_time_is_up(connection->peer.runtime)) break;
    bool item = connection->item_header_left || connection->item_data_left;
    ssize_t sent = send_some(connection);
    if (sent < 0) {
      local_connection_close(connection);
      return;
    }
    if (sent == 0) full = true;
    moved += (size_t)sent;
    if (item && !connection->item_header_left && !connection->item_data_left) item_ended(connection);
    if (connection->closed) return;
  }
  bool waiting = local_connection_is_writing(connection);
  if (!waiting || moved) connection->last_progress_ns = waiting ? pjrtd_clock_now_ns() : 0;
  if (waiting && !connection->last_progress_ns) connection->last_progress_ns = pjrtd_clock_now_ns();
  if (!waiting && connection->hanging_up) {
    local_connection_close(connection);
    return;
  }
  if (!waiting && connection->output_capacity > KEEP_OUTPUT_BYTES) {
    pjrtd_free(connection->output);
    connection->output = NULL;
    connection->output_capacity = connection->output_bytes = connection->output_sent = 0;
  }
  /* Who does not read is not read from. */
  bool paused = is_full(connection);
  /* No event will tell of frames that are here already. */
  if (connection->backlog && !paused) local_server_resume_later(connection->server, connection);
  if (connection->peer.parked.first && !paused) {
    pjrtd_peer_has_room(&connection->peer);
    pjrtd_runtime_do_more(connection->peer.runtime);
  }
  connection->read_paused = paused;
  bool more = waiting || (!connection->hanging_up && pjrtd_stream_queue_sendable(&connection->streams));
  watch(connection, (paused || connection->hanging_up ? 0 : UV_READABLE) | (more ? UV_WRITABLE : 0));
}
