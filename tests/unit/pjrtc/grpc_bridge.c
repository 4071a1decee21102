/* See grpc_bridge.h. */
#include "grpc_bridge.h"

#include <errno.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/time.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "frames_in.h"
#include "frames_out.h"
#include "support/require.h"

enum { ACCEPTED = 1, RECEIVED, SENT, FINISHED, CLOSED, SHUT_DOWN };

struct grpc_bridge {
  const char *path;
  grpc_server *server;
  grpc_completion_queue *queue;
  pthread_t accepting, forward, back;
  grpc_call *call;
  int fd;
  int cancelled;
};

static bool await(grpc_bridge *bridge, intptr_t tag) {
  return grpc_completion_queue_pluck(bridge->queue, (void *)tag, gpr_inf_future(GPR_CLOCK_REALTIME), NULL).success;
}

static bool perform(grpc_bridge *bridge, const grpc_op *ops, size_t count, intptr_t tag) {
  REQUIRE(grpc_call_start_batch(bridge->call, ops, count, (void *)tag, NULL) == GRPC_CALL_OK);
  return await(bridge, tag);
}

/* ---- client to peer ---- */

static bool write_whole(int fd, const uint8_t *data, size_t bytes) {
  while (bytes) {
    ssize_t count = send(fd, data, bytes, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    data += count;
    bytes -= (size_t)count;
  }
  return true;
}

static bool hand_on(grpc_bridge *bridge, grpc_byte_buffer *message) {
  grpc_byte_buffer_reader reader;
  REQUIRE(grpc_byte_buffer_reader_init(&reader, message));
  grpc_slice slice = grpc_byte_buffer_reader_readall(&reader);
  grpc_byte_buffer_reader_destroy(&reader);
  pjrtc_frames_in in;
  pjrtc_frames_in_begin(&in, GRPC_SLICE_START_PTR(slice), GRPC_SLICE_LENGTH(slice));
  size_t capacity = GRPC_SLICE_LENGTH(slice) * 20 + 64, bytes = 0; /* a header takes more here than there */
  uint8_t *frames = malloc(capacity);
  const struct iovec part = {frames, capacity};
  const char *fault;
  bytes = pjrtc_frames_in_read(&in, &part, 1, &fault);
  REQUIRE(!fault && bytes < capacity);
  bool written = write_whole(bridge->fd, frames, bytes);
  free(frames);
  grpc_slice_unref(slice);
  return written;
}

static void *run_forward(void *user) {
  grpc_bridge *bridge = user;
  for (;;) {
    grpc_byte_buffer *message = NULL;
    const grpc_op op = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &message};
    perform(bridge, &op, 1, RECEIVED);
    if (!message) break;
    bool written = hand_on(bridge, message);
    grpc_byte_buffer_destroy(message);
    if (!written) break;
  }
  shutdown(bridge->fd, SHUT_WR);
  return NULL;
}

/* ---- peer to client ---- */

static void send_frames(grpc_bridge *bridge, pjrtc_frames_out *out) {
  size_t bytes;
  uint8_t *data = pjrtc_frames_out_take(out, &bytes);
  grpc_slice slice = grpc_slice_new_with_user_data(data, bytes, free, data);
  grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&slice, 1);
  grpc_slice_unref(slice);
  const grpc_op op = {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message};
  perform(bridge, &op, 1, SENT);
  grpc_byte_buffer_destroy(message);
}

static void *run_back(void *user) {
  grpc_bridge *bridge = user;
  pjrtc_frames_out out = {0};
  static uint8_t block[256 << 10];
  ssize_t count;
  while ((count = recv(bridge->fd, block, sizeof block, 0)) != 0) {
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    for (struct iovec part = {block, (size_t)count}; part.iov_len;) {
      ssize_t taken = pjrtc_frames_out_add(&out, &part, 1);
      REQUIRE(taken >= 0);
      part.iov_base = (uint8_t *)part.iov_base + taken;
      part.iov_len -= (size_t)taken;
      if (pjrtc_frames_out_ready(&out)) send_frames(bridge, &out);
    }
  }
  free(out.data);
  const grpc_op op = {.op = GRPC_OP_SEND_STATUS_FROM_SERVER, .data.send_status_from_server.status = GRPC_STATUS_OK};
  perform(bridge, &op, 1, FINISHED);
  return NULL;
}

/* ---- life ---- */

static void serve(grpc_bridge *bridge) {
  const grpc_op headers = {.op = GRPC_OP_SEND_INITIAL_METADATA};
  perform(bridge, &headers, 1, SENT);
  const grpc_op close_op = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER,
                            .data.recv_close_on_server.cancelled = &bridge->cancelled};
  REQUIRE(grpc_call_start_batch(bridge->call, &close_op, 1, (void *)CLOSED, NULL) == GRPC_CALL_OK);
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strcpy(address.sun_path, bridge->path);
  bridge->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(connect(bridge->fd, (struct sockaddr *)&address, sizeof address) == 0);
  REQUIRE(pthread_create(&bridge->forward, NULL, run_forward, bridge) == 0);
  REQUIRE(pthread_create(&bridge->back, NULL, run_back, bridge) == 0);
  await(bridge, CLOSED);
  shutdown(bridge->fd, SHUT_RDWR);
  pthread_join(bridge->forward, NULL);
  pthread_join(bridge->back, NULL);
  close(bridge->fd);
  grpc_call_unref(bridge->call);
}

static void *run_accepting(void *user) {
  grpc_bridge *bridge = user;
  grpc_call_details details;
  grpc_metadata_array metadata;
  grpc_call_details_init(&details);
  grpc_metadata_array_init(&metadata);
  REQUIRE(grpc_server_request_call(bridge->server, &bridge->call, &details, &metadata, bridge->queue, bridge->queue,
                                   (void *)ACCEPTED) == GRPC_CALL_OK);
  if (await(bridge, ACCEPTED)) serve(bridge);
  grpc_call_details_destroy(&details);
  grpc_metadata_array_destroy(&metadata);
  return NULL;
}

grpc_bridge *grpc_bridge_start(const char *path, int *out_port) {
  grpc_init();
  grpc_bridge *bridge = calloc(1, sizeof *bridge);
  bridge->path = path;
  bridge->queue = grpc_completion_queue_create_for_pluck(NULL);
  bridge->server = grpc_server_create(NULL, NULL);
  grpc_server_register_completion_queue(bridge->server, bridge->queue, NULL);
  grpc_server_credentials *plaintext = grpc_insecure_server_credentials_create();
  *out_port = grpc_server_add_http2_port(bridge->server, "127.0.0.1:0", plaintext);
  grpc_server_credentials_release(plaintext);
  REQUIRE(*out_port > 0);
  grpc_server_start(bridge->server);
  REQUIRE(pthread_create(&bridge->accepting, NULL, run_accepting, bridge) == 0);
  return bridge;
}

void grpc_bridge_stop(grpc_bridge *bridge) {
  grpc_server_shutdown_and_notify(bridge->server, bridge->queue, (void *)SHUT_DOWN);
  grpc_server_cancel_all_calls(bridge->server);
  pthread_join(bridge->accepting, NULL);
  await(bridge, SHUT_DOWN);
  grpc_server_destroy(bridge->server);
  grpc_completion_queue_shutdown(bridge->queue);
  grpc_completion_queue_destroy(bridge->queue);
  free(bridge);
}
