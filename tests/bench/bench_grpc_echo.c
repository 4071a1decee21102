/* See bench_grpc_echo.h. One thread, which waits at the completion queue and starts the next operation. */
#include "bench_grpc_echo.h"

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_slice.h"

typedef enum { ACCEPTED, RECEIVED, ANSWERED, ENDED } step;

typedef struct {
  step step; /* what completes next */
  grpc_call *call;
  grpc_call_details details;
  grpc_metadata_array metadata;
  grpc_byte_buffer *message;
  int cancelled;
  bool stream;
} echo_call;

static grpc_server *server;
static grpc_completion_queue *queue;
static grpc_slice reply;

static void accept_another(void) {
  echo_call *call = calloc(1, sizeof *call);
  if (!call) bench_fail("out of memory");
  grpc_call_details_init(&call->details);
  grpc_metadata_array_init(&call->metadata);
  grpc_server_request_call(server, &call->call, &call->details, &call->metadata, queue, queue, call);
}

static void start(echo_call *call, step next, const grpc_op *ops, size_t count) {
  call->step = next;
  if (grpc_call_start_batch(call->call, ops, count, call, NULL) != GRPC_CALL_OK) bench_fail("the echo server's batch");
}

static grpc_op receive_op(echo_call *call) {
  return (grpc_op){.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &call->message};
}

static grpc_op send_op(grpc_byte_buffer *message) {
  return (grpc_op){.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message};
}

/* Ends the call, with a last message where there is one. */
static void finish(echo_call *call, grpc_byte_buffer *last) {
  grpc_op ops[3];
  size_t count = 0;
  if (last) ops[count++] = send_op(last);
  ops[count++] =
      (grpc_op){.op = GRPC_OP_SEND_STATUS_FROM_SERVER, .data.send_status_from_server.status = GRPC_STATUS_OK};
  ops[count++] = (grpc_op){.op = GRPC_OP_RECV_CLOSE_ON_SERVER, .data.recv_close_on_server.cancelled = &call->cancelled};
  start(call, ENDED, ops, count);
}

static void on_accepted(echo_call *call) {
  accept_another();
  char *path = grpc_slice_to_c_string(call->details.method);
  size_t length = strlen(path), ending = strlen("Stream");
  call->stream = length > ending && strcmp(path + length - ending, "Stream") == 0;
  gpr_free(path);
  const grpc_op ops[] = {{.op = GRPC_OP_SEND_INITIAL_METADATA}, receive_op(call)};
  start(call, RECEIVED, ops, 2);
}

static void on_received(echo_call *call) {
  if (!call->message) {
    finish(call, NULL);
    return;
  }
  grpc_byte_buffer_destroy(call->message);
  call->message = NULL;
  grpc_byte_buffer *answer = grpc_raw_byte_buffer_create(&reply, 1);
  if (call->stream) {
    const grpc_op op = send_op(answer);
    start(call, ANSWERED, &op, 1);
  } else {
    finish(call, answer);
  }
  grpc_byte_buffer_destroy(answer);
}

static void on_ended(echo_call *call) {
  grpc_call_details_destroy(&call->details);
  grpc_metadata_array_destroy(&call->metadata);
  grpc_call_unref(call->call);
  free(call);
}

void bench_grpc_echo_serve(size_t reply_bytes, int port_fd) {
  grpc_init();
  queue = grpc_completion_queue_create_for_next(NULL);
  reply = grpc_slice_malloc(reply_bytes);
  memset(GRPC_SLICE_START_PTR(reply), 0, reply_bytes);
  server = grpc_server_create(NULL, NULL);
  grpc_server_register_completion_queue(server, queue, NULL);
  grpc_server_credentials *plaintext = grpc_insecure_server_credentials_create();
  int port = grpc_server_add_http2_port(server, "127.0.0.1:0", plaintext);
  if (port <= 0) bench_fail("the echo server cannot listen");
  grpc_server_start(server);
  accept_another();
  dprintf(port_fd, "%d\n", port);
  for (;;) {
    grpc_event event = grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
    if (event.type != GRPC_OP_COMPLETE) bench_fail("the echo server's queue ended");
    echo_call *call = event.tag;
    switch (call->step) {
      case ACCEPTED: on_accepted(call); break;
      case RECEIVED: on_received(call); break;
      case ANSWERED: {
        const grpc_op op = receive_op(call);
        start(call, RECEIVED, &op, 1);
        break;
      }
      case ENDED: on_ended(call); break;
    }
  }
}
