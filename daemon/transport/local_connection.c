/* The life and the reading half of a connection: see local_connection.h. */
#include "transport/local_connection.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "transport/local_server.h"

/* A partial frame's memory grows as its bytes come, so that a header alone costs nothing. */
#define FIRST_FRAME_BYTES 4096

pjrtd_status *local_connection_create(local_server *server, int descriptor, const pjrtd_identity *identity) {
  local_connection *connection = pjrtd_calloc(1, sizeof *connection);
  if (!connection) {
    close(descriptor);
    return pjrtd_status_oom();
  }
  connection->server = server;
  connection->descriptor = descriptor;
  connection->accepted_ns = pjrtd_clock_now_ns();
  int error = uv_poll_init(server->runtime->loop, &connection->poll, descriptor);
  if (error) {
    close(descriptor);
    pjrtd_free(connection);
    return pjrtd_status_from_errno(-error, "watching a new connection");
  }
  connection->poll.data = connection;
  pjrtd_peer_init(&connection->peer, &local_transport, server->runtime, identity);
  connection->next = server->connections;
  connection->link = &server->connections;
  if (connection->next) connection->next->link = &connection->next;
  server->connections = connection;
  server->runtime->stats.connections++;
  server->runtime->stats.connections_total++;
  connection->events = UV_READABLE;
  uv_poll_start(&connection->poll, UV_READABLE, local_connection_on_poll);
  return PJRTD_OK;
}

static void drop_descriptors(local_connection *connection) {
  while (connection->num_descriptors) close(connection->descriptors[--connection->num_descriptors]);
}

static void on_closed(uv_handle_t *handle) {
  local_connection *connection = handle->data;
  pjrtd_free(connection->frame);
  pjrtd_free(connection->backlog);
  pjrtd_free(connection->output);
  pjrtd_free(connection->orphaned_item);
  pjrtd_free(connection);
}

void local_connection_close(local_connection *connection) {
  if (connection->closed) return;
  connection->closed = true;
  local_server_forget(connection->server, connection);
  *connection->link = connection->next;
  if (connection->next) connection->next->link = connection->link;
  connection->peer.runtime->stats.connections--;
  uv_poll_stop(&connection->poll);
  pjrtd_peer_gone(&connection->peer);
  drop_descriptors(connection);
  close(connection->descriptor);
  connection->descriptor = -1;
  uv_close((uv_handle_t *)&connection->poll, on_closed);
}

/* The frame under way is broken. */
static void fail(local_connection *connection, pjrtd_status *status) {
  pjrtd_peer_fail(&connection->peer, connection->header.call, connection->header.method, status);
}

/* The connection is, and no frame can be named. */
static void fail_connection(local_connection *connection, pjrtd_status *status) {
  pjrtd_peer_fail(&connection->peer, 0, 0, status);
}

/* recvmsg with descriptors; 0: nothing now, -1: the connection is over. */
static ssize_t receive(local_connection *connection, void *place, size_t bytes) {
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int) * PJRTD_FRAME_MAX_DESCRIPTORS)];
  } control;
  struct iovec part = {place, bytes};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  ssize_t got;
  do got = recvmsg(connection->descriptor, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  if (got == 0) return -1;
  if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
  pjrtd_runtime_enter(connection->peer.runtime);
  connection->peer.runtime->stats.bytes_received += (uint64_t)got;
  bool too_many = message.msg_flags & MSG_CTRUNC;
  for (struct cmsghdr *at = CMSG_FIRSTHDR(&message); at; at = CMSG_NXTHDR(&message, at)) {
    if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS) continue;
    size_t count = (at->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
      int descriptor;
      memcpy(&descriptor, CMSG_DATA(at) + i * sizeof(int), sizeof descriptor);
      if (connection->num_descriptors < PJRTD_FRAME_MAX_DESCRIPTORS) {
        connection->descriptors[connection->num_descriptors++] = descriptor;
      } else {
        close(descriptor);
        too_many = true;
      }
    }
  }
  if (too_many)
    fail_connection(connection, PJRTD_INVALID("more than %d file descriptors came before a frame that announces them",
                                              PJRTD_FRAME_MAX_DESCRIPTORS));
  return got;
}

/* A whole frame that is not an item. The kernel joins bytes of frames, so descriptors may be here before their frame:
 * each frame takes as many as it announces. */
static void handle_frame(local_connection *connection, const uint8_t *payload) {
  const pjrtd_frame_header *header = &connection->header;
  uint32_t announced = header->num_descriptors;
  if (announced > connection->num_descriptors) {
    fail(connection,
         PJRTD_INVALID("the frame announces %u file descriptors, %u came", announced, connection->num_descriptors));
    return;
  }
  if (header->kind == PJRTD_FRAME_REQUEST) local_server_was_active(connection->server, connection);
  pjrtd_peer_on_frame(&connection->peer, header, payload, payload + header->payload_bytes);
  if (!announced || connection->closed) return;
  /* A method that wants them has taken copies. */
  for (uint32_t i = 0; i < announced; i++) close(connection->descriptors[i]);
  connection->num_descriptors -= announced;
  memmove(connection->descriptors, connection->descriptors + announced,
          connection->num_descriptors * sizeof *connection->descriptors);
}

static bool over(const local_connection *connection) {
  return connection->closed || connection->hanging_up || connection->peer.failing;
}

/* Begins an item, and takes what is already there of its bytes; how many of `available` it took. */
static size_t take_item(local_connection *connection, const uint8_t *bytes, size_t available) {
  const pjrtd_frame_header *header = &connection->header;
  if (!connection->in_item) {
    pjrtd_peer_item_begin(&connection->peer, header);
    if (over(connection)) return 0;
    connection->in_item = true;
    connection->item_done = 0;
  }
  size_t left = header->bulk_bytes - connection->item_done;
  size_t taken = available < left ? available : left;
  if (taken) {
    uint8_t *place = pjrtd_peer_item_place(&connection->peer, header->call, connection->item_done);
    if (place) memcpy(place, bytes, taken);
    connection->item_done += (uint32_t)taken;
  }
  if (connection->item_done == header->bulk_bytes) {
    connection->in_item = false;
    pjrtd_peer_item_end(&connection->peer, header);
  }
  return taken;
}

/* The rest of an item, from the socket to its place. */
static ssize_t read_item(local_connection *connection) {
  const pjrtd_frame_header *header = &connection->header;
  size_t left = header->bulk_bytes - connection->item_done;
  uint8_t *place = pjrtd_peer_item_place(&connection->peer, header->call, connection->item_done);
  if (!place) place = connection->server->input; /* nobody wants it: read it away */
  if (left > LOCAL_PIECE_BYTES) left = LOCAL_PIECE_BYTES;
  ssize_t got = receive(connection, place, left);
  if (got <= 0) return got;
  connection->item_done += (uint32_t)got;
  if (connection->item_done == header->bulk_bytes) {
    connection->in_item = false;
    pjrtd_peer_item_end(&connection->peer, header);
  }
  return got;
}

/* The rest of a partial frame, into memory of its own. */
static ssize_t read_frame(local_connection *connection) {
  if (connection->frame_bytes == connection->frame_capacity) {
    uint32_t capacity = connection->frame_capacity * 2;
    if (capacity > connection->frame_needed) capacity = connection->frame_needed;
    uint8_t *frame = pjrtd_realloc(connection->frame, capacity);
    if (!frame) {
      fail(connection, pjrtd_status_oom());
      return -1;
    }
    connection->frame = frame;
    connection->frame_capacity = capacity;
  }
  ssize_t got = receive(connection, connection->frame + connection->frame_bytes,
                        connection->frame_capacity - connection->frame_bytes);
  if (got <= 0) return got;
  connection->frame_bytes += (uint32_t)got;
  if (connection->frame_bytes < connection->frame_needed) return got;
  connection->in_frame = false;
  uint8_t *frame = PJRTD_TAKE(connection->frame);
  if (!over(connection)) handle_frame(connection, frame);
  pjrtd_free(frame);
  return got;
}

/* Keeps the beginning of a frame whose rest has not come. */
static bool keep_frame(local_connection *connection, const uint8_t *bytes, size_t count, size_t needed) {
  size_t capacity = count * 2 > FIRST_FRAME_BYTES ? count * 2 : FIRST_FRAME_BYTES;
  if (capacity > needed) capacity = needed;
  connection->frame = pjrtd_malloc(capacity);
  if (!connection->frame) {
    fail(connection, pjrtd_status_oom());
    return false;
  }
  memcpy(connection->frame, bytes, count);
  connection->frame_capacity = (uint32_t)capacity;
  connection->frame_bytes = (uint32_t)count;
  connection->frame_needed = (uint32_t)needed;
  connection->in_frame = true;
  return true;
}

/* True when the client has so many answers waiting that its next requests must wait too. */
static bool is_full(local_connection *connection) {
  size_t most = connection->server->settings->max_queued_bytes;
  if (connection->output_bytes - connection->output_sent <= most) return false;
  local_connection_flush(connection);
  return !connection->closed && connection->output_bytes - connection->output_sent > most;
}

/* Handles frames that lie one after the other. How many of the bytes are done with: all, with an incomplete frame at
 * the end kept elsewhere, unless the client's answers or the turn's time leave no room for more. */
static size_t parse(local_connection *connection, const uint8_t *bytes, size_t count) {
  size_t at = 0;
  while (at < count && !over(connection)) {
    bool full = is_full(connection);
    if (connection->closed || full) return at;
    if (at && pjrtd_runtime_time_is_up(connection->peer.runtime)) return at;
    size_t left = count - at;
    if (left < PJRTD_FRAME_HEADER_BYTES) {
      memcpy(connection->partial_header, bytes + at, left);
      connection->partial_header_bytes = (uint32_t)left;
      return count;
    }
    const char *fault = pjrtd_frame_decode(bytes + at, &connection->header);
    if (fault) {
      fail(connection, pjrtd_status_with_hint(PJRTD_INVALID("broken frame: %s", fault),
                                              "the connection is closed; frames are described in proto/README.md"));
      return count;
    }
    at += PJRTD_FRAME_HEADER_BYTES;
    left -= PJRTD_FRAME_HEADER_BYTES;
    const pjrtd_frame_header *header = &connection->header;
    if (header->kind == PJRTD_FRAME_ITEM && !header->payload_bytes) {
      at += take_item(connection, bytes + at, left);
      continue;
    }
    size_t needed = (size_t)header->payload_bytes + header->bulk_bytes;
    if (left < needed) {
      keep_frame(connection, bytes + at, left, needed);
      return count;
    }
    handle_frame(connection, bytes + at);
    at += needed;
  }
  return count;
}

/* Goes on with what was left, or comes back to it in a later turn. */
static void parse_backlog(local_connection *connection) {
  size_t left = connection->backlog_bytes - connection->backlog_done;
  connection->backlog_done += parse(connection, connection->backlog + connection->backlog_done, left);
  if (connection->backlog_done == connection->backlog_bytes || over(connection)) {
    pjrtd_free(PJRTD_TAKE(connection->backlog));
  } else if (!connection->read_paused) {
    local_server_resume_later(connection->server, connection);
  }
}

static ssize_t read_frames(local_connection *connection) {
  uint8_t *input = connection->server->input;
  uint32_t kept = connection->partial_header_bytes;
  if (kept) memcpy(input, connection->partial_header, kept);
  ssize_t got = receive(connection, input + kept, LOCAL_READ_BYTES - kept);
  if (got <= 0) return got;
  connection->partial_header_bytes = 0;
  size_t count = kept + (size_t)got, done = parse(connection, input, count);
  if (over(connection)) return got;
  if (done < count) {
    connection->backlog = pjrtd_memdup(input + done, count - done);
    connection->backlog_bytes = count - done;
    connection->backlog_done = 0;
    if (!connection->backlog)
      fail_connection(connection, pjrtd_status_oom());
    else
      local_server_resume_later(connection->server, connection);
  } else if (connection->num_descriptors && !connection->in_frame && !connection->partial_header_bytes) {
    fail_connection(connection,
                    PJRTD_INVALID("%u file descriptors came that no frame announced", connection->num_descriptors));
  }
  return got;
}

bool local_connection_read(local_connection *connection) {
  if (over(connection) || connection->read_paused) return false;
  size_t moved = 0;
  if (connection->backlog) {
    pjrtd_runtime_enter(connection->peer.runtime);
    parse_backlog(connection);
    moved = 1;
  }
  while (moved < LOCAL_TURN_BYTES && !over(connection) && !connection->backlog) {
    ssize_t got = connection->in_item    ? read_item(connection)
                  : connection->in_frame ? read_frame(connection)
                                         : read_frames(connection);
    if (got < 0 && !over(connection)) {
      local_connection_close(connection);
      return true;
    }
    if (got <= 0) break;
    moved += (size_t)got;
    /* What came is usually all there is: asking again would cost a system call for nothing. */
    if (!connection->in_item && !connection->in_frame && (size_t)got < LOCAL_READ_BYTES / 2) break;
    if (pjrtd_runtime_time_is_up(connection->peer.runtime)) break;
  }
  return moved > 0;
}

void local_connection_on_poll(uv_poll_t *poll, int status, int events) {
  local_connection *connection = poll->data;
  pjrtd_runtime_enter(connection->peer.runtime);
  /* Thousands of connections do not all get their turn in one: this one is out of the poll until its turn comes, since
   * libuv asks the kernel again and again while there are that many events. Nobody gets ahead of those that wait. */
  if (status >= 0 && (connection->server->resuming || pjrtd_runtime_time_is_up(connection->peer.runtime))) {
    uv_poll_stop(poll);
    connection->events = 0;
    local_server_resume_later(connection->server, connection);
    return;
  }
  if (status < 0) {
    local_connection_close(connection);
    return;
  }
  if (events & UV_READABLE) local_connection_read(connection);
  /* Answers go out when all connections were read (local_server.c). */
  if (events & UV_WRITABLE) local_connection_flush(connection);
}
