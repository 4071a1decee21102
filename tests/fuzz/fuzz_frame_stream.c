/* Whatever a client sends, on the transport, service and state of the daemon over a plugin layer in memory. The first
 * byte says in what pieces it is written, how the client leaves, and whether it comes back: each further Hello is then
 * sent over another connection, before or after the one before has gone, and may take its session over.
 *
 * What must hold: every frame that comes back is well formed, no call has two replies on a connection, and after the
 * client has gone nothing of it is left. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz_runtime.h"
#include "service/call.h"
#include "support/require.h"
#include "transport/local_server.h"

enum { MAX_REPLIES = 4096, MAX_CONNECTIONS = 4 };

static local_server *server;

static void start(void) {
  fuzz_runtime_start();
  REQUIRE(!local_server_create(fuzz_runtime, &server));
  fuzz_runtime->flush = local_server_flush;
  fuzz_runtime->flush_user = server;
}

static void turn(void) {
  uv_run(&fuzz_loop, UV_RUN_NOWAIT);
  pjrtd_runtime_settle(fuzz_runtime);
  local_server_flush(server);
  pjrtd_runtime_end_turn(fuzz_runtime);
}

/* ---- what comes back ---- */

typedef struct {
  uint8_t *data;
  size_t size, capacity;
  uint64_t replied[MAX_REPLIES];
  size_t num_replied;
} answers;

static void check_frame(answers *all, const pjrtd_frame_header *header) {
  if (header->kind != PJRTD_FRAME_REPLY) return;
  REQUIRE(header->call);
  for (size_t i = 0; i < all->num_replied; i++) REQUIRE(all->replied[i] != header->call);
  if (all->num_replied < MAX_REPLIES) all->replied[all->num_replied++] = header->call;
}

static void check_frames(answers *all) {
  size_t at = 0;
  pjrtd_frame_header header;
  while (all->size - at >= PJRTD_FRAME_HEADER_BYTES) {
    REQUIRE(!pjrtd_frame_decode(all->data + at, &header));
    REQUIRE(!header.quiet && !header.num_descriptors);
    size_t whole = PJRTD_FRAME_HEADER_BYTES + (size_t)header.payload_bytes + header.bulk_bytes;
    if (all->size - at < whole) break;
    check_frame(all, &header);
    at += whole;
  }
  memmove(all->data, all->data + at, all->size - at);
  all->size -= at;
}

/* False at the end of the stream. */
static bool receive(int descriptor, answers *all) {
  for (;;) {
    if (all->capacity - all->size < 65536) {
      all->capacity = all->capacity * 2 + 65536;
      all->data = realloc(all->data, all->capacity);
      REQUIRE(all->data);
    }
    ssize_t got = recv(descriptor, all->data + all->size, all->capacity - all->size, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (got <= 0) return false;
    all->size += (size_t)got;
  }
  check_frames(all);
  return true;
}

/* ---- the client ---- */

static size_t piece_of(uint8_t style, size_t left) {
  static const size_t pieces[] = {SIZE_MAX, 1, 31, 4096};
  size_t piece = pieces[style & 3];
  return piece < left ? piece : left;
}

static void play(int descriptor, uint8_t style, const uint8_t *data, size_t size, answers *all) {
  bool reads = !(style & 4);
  while (size) {
    ssize_t sent = send(descriptor, data, piece_of(style, size), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) return;
    if (sent > 0) {
      data += sent;
      size -= (size_t)sent;
    }
    turn();
    if (reads && !receive(descriptor, all)) return;
    if (sent < 0 && !reads) return; /* nobody reads on either side: it would be cut off */
  }
  if (style & 8) shutdown(descriptor, SHUT_WR);
  for (int i = 0; i < 20 && reads; i++) {
    turn();
    if (!receive(descriptor, all)) return;
    if (fuzz_runtime->jobs_running) usleep(20);
  }
}

static bool transport_left(void) {
  return false; /* its connections are counted by the runtime */
}

/* How many of the bytes are for this connection: to the next Hello, wherever it stands, so that frames are cut. */
static size_t count_until_hello(const uint8_t *data, size_t size) {
  pjrtd_frame_header header;
  for (size_t at = 1; at + PJRTD_FRAME_HEADER_BYTES <= size; at++)
    if (!pjrtd_frame_decode(data + at, &header) && header.kind == PJRTD_FRAME_REQUEST &&
        header.method == PJRTD_METHOD_HELLO)
      return at;
  return size;
}

/* Plays one connection; the client's end of it. */
static int play_connection(uint8_t style, const uint8_t *data, size_t size) {
  int pair[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
  pjrtd_identity identity;
  REQUIRE(!pjrtd_identity_of_socket(pair[0], &identity));
  REQUIRE(!local_connection_create(server, pair[0], &identity));
  answers all = {0};
  play(pair[1], style, data, size, &all);
  free(all.data);
  return pair[1];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes) {
  if (!fuzz_runtime) start();
  if (!size_bytes) return 0;
  uint8_t style = data[0];
  bool comes_back = style & 16, leaves_before = style & 32;
  int connections[MAX_CONNECTIONS];
  size_t count = 0;
  data++;
  size_bytes--;
  do {
    bool last = !comes_back || count == MAX_CONNECTIONS - 1;
    size_t bytes = last ? size_bytes : count_until_hello(data, size_bytes);
    if (leaves_before && count) close(connections[--count]);
    connections[count++] = play_connection(style, data, bytes);
    data += bytes;
    size_bytes -= bytes;
  } while (size_bytes);
  while (count) close(connections[--count]);
  fuzz_runtime_wait_until_empty(turn, transport_left);
  return 0;
}
