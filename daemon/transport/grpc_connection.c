/* A TCP connection of the gRPC port, before it is gRPC's and while it is. It becomes gRPC's when HTTP/2's first bytes
 * are here: gRPC itself waits for them for as long as the client likes. Loop thread. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "transport/grpc_front.h"

/* What every HTTP/2 client sends first. */
static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
#define PREFACE_BYTES ((int)sizeof preface - 1)

/* The descriptor is our own for as long as the connection lives: gRPC does not tell when it is over. It serves another
 * one for the same socket, which it shuts down before it closes it. */
struct grpc_connection {
  grpc_front *front;
  grpc_connection *next, **link;
  int descriptor;
  bool served;  /* gRPC has it */
  bool starved; /* could be served, had there been a descriptor */
  uint64_t began_ns;
  uv_poll_t poll;
};

static void on_closed(uv_handle_t *handle) {
  grpc_connection *connection = handle->data;
  close(connection->descriptor);
  pjrtd_free(connection);
}

static void forget(grpc_connection *connection) {
  *connection->link = connection->next;
  if (connection->next) connection->next->link = connection->link;
  connection->front->runtime->stats.connections--;
  uv_close((uv_handle_t *)&connection->poll, on_closed);
}

static void on_disconnect(uv_poll_t *poll, int status, int events) {
  grpc_connection *connection = poll->data;
  pjrtd_runtime_enter(connection->front->runtime);
  forget(connection);
}

/* Small reads come up only when so many bytes are there. */
static void wait_for_bytes(int descriptor, int bytes) {
  setsockopt(descriptor, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes);
}

static void serve(grpc_connection *connection) {
  uv_poll_start(&connection->poll, UV_DISCONNECT, on_disconnect);
  int descriptor = fcntl(connection->descriptor, F_DUPFD_CLOEXEC, 0);
  connection->starved = descriptor < 0;
  if (connection->starved) return; /* grpc_connections_check tries again */
  int yes = 1;
  wait_for_bytes(descriptor, 1);
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  connection->served = true;
  grpc_front_adopt(connection->front, descriptor);
}

static void on_first_bytes(uv_poll_t *poll, int status, int events) {
  grpc_connection *connection = poll->data;
  pjrtd_runtime_enter(connection->front->runtime);
  char bytes[PREFACE_BYTES];
  ssize_t got = recv(connection->descriptor, bytes, sizeof bytes, MSG_PEEK);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got == PREFACE_BYTES && memcmp(bytes, preface, sizeof bytes) == 0) {
    serve(connection);
    return;
  }
  if (got > 0) {
    pjrtd_log(PJRTD_LOG_WARNING, "closing a gRPC connection that does not begin as HTTP/2 without TLS does");
    connection->front->runtime->stats.wire_errors++;
  }
  forget(connection);
}

pjrtd_status *grpc_connection_create(grpc_front *front, int descriptor) {
  grpc_connection *connection = pjrtd_calloc(1, sizeof *connection);
  int error = connection ? uv_poll_init(front->runtime->loop, &connection->poll, descriptor) : 0;
  if (!connection || error) {
    close(descriptor);
    pjrtd_free(connection);
    return error ? pjrtd_status_from_errno(-error, "watching a new connection") : pjrtd_status_oom();
  }
  connection->front = front;
  connection->descriptor = descriptor;
  connection->began_ns = pjrtd_clock_now_ns();
  connection->poll.data = connection;
  connection->next = front->connections;
  connection->link = &front->connections;
  if (connection->next) connection->next->link = &connection->next;
  front->connections = connection;
  front->runtime->stats.connections++;
  front->runtime->stats.connections_total++;
  wait_for_bytes(descriptor, PREFACE_BYTES);
  uv_poll_start(&connection->poll, UV_READABLE | UV_DISCONNECT, on_first_bytes);
  return PJRTD_OK;
}

void grpc_connections_check(grpc_front *front, uint64_t now_ns) {
  uint64_t patience_ns = front->settings->handshake_seconds * UINT64_C(1000000000);
  grpc_connection *next;
  for (grpc_connection *at = front->connections; at; at = next) {
    next = at->next;
    if (at->starved) serve(at);
    if (at->served || now_ns - at->began_ns < patience_ns) continue;
    pjrtd_log(PJRTD_LOG_WARNING, at->starved ? "closing a gRPC connection: there is no descriptor to serve it"
                                             : "closing a gRPC connection: nothing came within handshake_seconds");
    front->runtime->stats.clients_cut_off++;
    forget(at);
  }
}

void grpc_front_forget_connections(grpc_front *front) {
  while (front->connections) forget(front->connections);
}
