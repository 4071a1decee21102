/* For the transport's tests: a server on the real plugin and clients that are one end of a socket pair, written to and
 * read from by the test itself between turns of the loop. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "../state/runtime_fixture.h"
#include "service/call.h"
#include "service/messages.h"
#include "transport/local_server.h"

/* Requests are written as short literals: what they leave out is 0. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

static local_server *server;

typedef struct {
  int descriptor; /* -1: closed by the test */
  bool at_end;    /* the daemon closed it */
  uint8_t *input; /* what came and was not taken */
  size_t input_bytes, input_capacity;
  uint64_t last_call, last_buffer, last_program;
} wire_client;

typedef struct {
  pjrtd_frame_header header;
  uint8_t *payload, *bulk; /* until the next take */
} wire_frame;

/* ---- bytes to send ---- */

typedef struct {
  uint8_t *data;
  size_t size, capacity;
} bytes;

UNUSED static void add_bytes(bytes *to, const void *data, size_t size) {
  if (to->size + size > to->capacity) {
    to->capacity = (to->size + size) * 2;
    to->data = realloc(to->data, to->capacity);
  }
  if (size) memcpy(to->data + to->size, data, size);
  to->size += size;
}

typedef struct {
  uint8_t kind; /* 0: a request */
  bool quiet;
  uint8_t num_descriptors;
  const void *bulk;
  uint32_t bulk_bytes;
} extra;

UNUSED static void add_frame(bytes *to, uint16_t method, uint64_t call, const ProtobufCMessage *message, extra extra) {
  uint8_t head[PJRTD_FRAME_HEADER_BYTES];
  size_t size = message ? protobuf_c_message_get_packed_size(message) : 0;
  const pjrtd_frame_header header = {.payload_bytes = (uint32_t)size,
                                     .bulk_bytes = extra.bulk_bytes,
                                     .method = method,
                                     .kind = extra.kind ? extra.kind : PJRTD_FRAME_REQUEST,
                                     .quiet = extra.quiet,
                                     .num_descriptors = extra.num_descriptors,
                                     .call = call};
  pjrtd_frame_encode(&header, head);
  add_bytes(to, head, sizeof head);
  uint8_t *payload = malloc(size + 1);
  if (message) protobuf_c_message_pack(message, payload);
  add_bytes(to, payload, size);
  free(payload);
  add_bytes(to, extra.bulk, extra.bulk_bytes);
}

#define EMPTY_MESSAGE (&(Pjrtd__V1__Empty)PJRTD__V1__EMPTY__INIT.base)

UNUSED static uint64_t add_request(bytes *to, wire_client *from, uint16_t method, const ProtobufCMessage *message,
                                   extra extra) {
  uint64_t call = ++from->last_call;
  add_frame(to, method, call, message, extra);
  return call;
}

UNUSED static uint64_t add_info(bytes *to, wire_client *from) {
  return add_request(to, from, PJRTD_METHOD_Runtime_Info, EMPTY_MESSAGE, (extra){0});
}

UNUSED static uint64_t add_hello(bytes *to, wire_client *from, uint64_t download_credit_bytes) {
  Pjrtd__V1__HelloRequest hello = PJRTD__V1__HELLO_REQUEST__INIT;
  hello.min_version = hello.max_version = 1;
  hello.download_credit_bytes = download_credit_bytes;
  return add_request(to, from, PJRTD_METHOD_Runtime_Hello, &hello.base, (extra){0});
}

/* An upload of u8[size]: its data inline where that fits and is wanted, else the request alone. */
UNUSED static uint64_t add_upload(bytes *to, wire_client *from, uint64_t id, const uint8_t *data, uint64_t size,
                                  bool is_inline) {
  Pjrtd__V1__TensorType type = PJRTD__V1__TENSOR_TYPE__INIT;
  int64_t dim = (int64_t)size;
  type.dtype = PJRTD__V1__DTYPE__DTYPE_U8;
  type.n_dims = 1;
  type.dims = &dim;
  Pjrtd__V1__UploadRequest message = PJRTD__V1__UPLOAD_REQUEST__INIT;
  message.buffer = id;
  message.type = &type;
  message.data_bytes = size;
  extra extra = {.bulk = data, .bulk_bytes = is_inline ? (uint32_t)size : 0};
  return add_request(to, from, PJRTD_METHOD_Buffer_Upload, &message.base, extra);
}

UNUSED static void add_item(bytes *to, uint64_t call, const uint8_t *data, uint32_t size) {
  add_frame(to, PJRTD_METHOD_Buffer_Upload, call, NULL,
            (extra){.kind = PJRTD_FRAME_ITEM, .bulk = data, .bulk_bytes = size});
}

UNUSED static uint64_t add_download(bytes *to, wire_client *from, uint64_t id) {
  Pjrtd__V1__DownloadRequest message = PJRTD__V1__DOWNLOAD_REQUEST__INIT;
  message.buffer = id;
  return add_request(to, from, PJRTD_METHOD_Buffer_Download, &message.base, (extra){0});
}

UNUSED static void add_credit(bytes *to, uint64_t call, uint64_t count) {
  Pjrtd__V1__Credit credit = PJRTD__V1__CREDIT__INIT;
  credit.bytes = count;
  add_frame(to, PJRTD_METHOD_Buffer_Download, call, &credit.base, (extra){.kind = PJRTD_FRAME_CREDIT});
}

/* ---- sending and receiving ---- */

/* Takes what has come from the daemon. */
UNUSED static void receive(wire_client *client) {
  while (!client->at_end) {
    if (client->input_capacity - client->input_bytes < 65536) {
      client->input_capacity = client->input_capacity * 2 + 65536;
      client->input = realloc(client->input, client->input_capacity);
    }
    ssize_t got = recv(client->descriptor, client->input + client->input_bytes,
                       client->input_capacity - client->input_bytes, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0)
      client->at_end = true;
    else
      client->input_bytes += (size_t)got;
  }
}

/* Sends as much as the socket takes; how much that was. */
UNUSED static size_t send_some_of(wire_client *client, const uint8_t *data, size_t size) {
  ssize_t sent = send(client->descriptor, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
  return sent < 0 ? 0 : (size_t)sent;
}

/* Sends all of it while the loop turns and answers are taken. */
UNUSED static void send_all(wire_client *client, const uint8_t *data, size_t size) {
  uint64_t until_ns = pjrtd_clock_now_ns() + UINT64_C(60000000000);
  while (size && !client->at_end) {
    size_t sent = send_some_of(client, data, size);
    data += sent;
    size -= sent;
    turn();
    receive(client);
    cr_assert_lt(pjrtd_clock_now_ns(), until_ns);
  }
}

UNUSED static void send_bytes(wire_client *client, bytes *all) {
  send_all(client, all->data, all->size);
  free(all->data);
  *all = (bytes){0};
}

/* The next frame, if it is there whole. */
UNUSED static bool has_frame(const wire_client *client) {
  pjrtd_frame_header header;
  if (client->input_bytes < PJRTD_FRAME_HEADER_BYTES) return false;
  const char *fault = pjrtd_frame_decode(client->input, &header);
  cr_assert_null(fault, "the daemon sent a broken frame: %s", fault);
  return client->input_bytes >= PJRTD_FRAME_HEADER_BYTES + (size_t)header.payload_bytes + header.bulk_bytes;
}

/* Waits for the next frame in the order of arrival and takes it out. */
UNUSED static wire_frame take(wire_client *client) {
  static uint8_t *last;
  wire_frame frame;
  TURN_UNTIL((receive(client), has_frame(client) || client->at_end));
  cr_assert(has_frame(client), "the connection ended");
  pjrtd_frame_decode(client->input, &frame.header);
  size_t size = PJRTD_FRAME_HEADER_BYTES + (size_t)frame.header.payload_bytes + frame.header.bulk_bytes;
  last = realloc(last, size);
  memcpy(last, client->input, size);
  client->input_bytes -= size;
  memmove(client->input, client->input + size, client->input_bytes);
  frame.payload = last + PJRTD_FRAME_HEADER_BYTES;
  frame.bulk = frame.payload + frame.header.payload_bytes;
  return frame;
}

UNUSED static wire_frame take_reply(wire_client *client, uint64_t call) {
  wire_frame frame = take(client);
  if (frame.header.kind == PJRTD_FRAME_ERROR) {
    Pjrtd__V1__Error *error = pjrtd__v1__error__unpack(NULL, frame.header.payload_bytes, frame.payload);
    cr_assert_fail("call %d failed: %u %s", (int)frame.header.call, error->code, error->message);
  }
  cr_assert_eq(frame.header.kind, PJRTD_FRAME_REPLY);
  cr_assert_eq(frame.header.call, call, "a reply to %d, not to %d", (int)frame.header.call, (int)call);
  return frame;
}

UNUSED static void take_error(wire_client *client, uint64_t call, pjrtd_code code, const char *piece) {
  wire_frame frame = take(client);
  cr_assert_eq(frame.header.kind, PJRTD_FRAME_ERROR, "a frame of kind %d", frame.header.kind);
  cr_assert_eq(frame.header.call, call, "an error of %d, not of %d", (int)frame.header.call, (int)call);
  Pjrtd__V1__Error *error = pjrtd__v1__error__unpack(NULL, frame.header.payload_bytes, frame.payload);
  cr_assert_eq(error->code, code, "%u %s", error->code, error->message);
  cr_assert(strstr(error->message, piece), "'%s' is not in: %s", piece, error->message);
  pjrtd__v1__error__free_unpacked(error, NULL);
}

/* The daemon has closed the connection, after whole frames. */
UNUSED static void is_at_end(wire_client *client) {
  TURN_UNTIL((receive(client), client->at_end));
  cr_assert_eq(client->input_bytes, 0);
}

/* A few turns in which everything that could happen would. */
UNUSED static void idle_turns(int count) {
  for (int i = 0; i < count; i++) {
    turn();
    usleep(200);
  }
}

/* ---- life ---- */

UNUSED static local_connection *connect_client(wire_client *client) {
  int pair[2];
  cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
  pjrtd_identity identity;
  ASSERT_OK(pjrtd_identity_of_socket(pair[0], &identity));
  *client = (wire_client){.descriptor = pair[1]};
  ASSERT_OK(local_connection_create(server, pair[0], &identity));
  return server->connections;
}

/* Connected, and hello is said. */
UNUSED static local_connection *open_client(wire_client *client) {
  local_connection *connection = connect_client(client);
  bytes all = {0};
  uint64_t call = add_hello(&all, client, 0);
  send_bytes(client, &all);
  take_reply(client, call);
  return connection;
}

UNUSED static void close_client(wire_client *client) {
  if (client->descriptor >= 0) close(client->descriptor);
  free(client->input);
  *client = (wire_client){.descriptor = -1};
}

UNUSED static void open_server(void) {
  pjrtd_log_set_level(PJRTD_LOG_ERROR);
  open_runtime();
  ASSERT_OK(pjrtd_service_init());
  ASSERT_OK(local_server_create(runtime, &server));
  /* Descriptors that are opened when first used. */
  pjrtd_runtime_enter(runtime);
  pjrtd_runtime_end_turn(runtime);
}

/* The clients are gone; nothing of them may be left. */
UNUSED static void close_server(void) {
  TURN_UNTIL(!runtime->stats.connections);
  wait_until_idle();
  const pjrtd_stats *stats = &runtime->stats;
  cr_assert_eq(stats->sessions, 0);
  cr_assert_eq(stats->buffers, 0);
  cr_assert_eq(stats->staging_bytes, 0);
  cr_assert_eq(stats->calls_in_flight, 0);
  local_server_close(server);
  pjrtd_runtime_close(runtime);
  cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
  local_server_destroy(server);
  pjrtd_runtime_destroy(runtime);
  pjrtd_service_deinit();
  cr_assert_eq(uv_loop_close(&loop), 0);
}
